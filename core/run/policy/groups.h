/* groups.h: the tensor-parallel groups of the nodes that are left, and what they take and
 * hold by closed forms: what policies `restart` and `oobleck` plan with. */
#ifndef LUO_CORE_RUN_POLICY_GROUPS_H
#define LUO_CORE_RUN_POLICY_GROUPS_H
#include "core/plan/replan/replan.h"
#include "core/run/policy/policy.h"

typedef struct luo_groups_cap_memo { /* the last answer of luo_groups_cap for a kind */
    int32_t stages, stage, pipelines;
    int64_t cap;
} luo_groups_cap_memo;

typedef struct luo_groups { /* of tp devices inside nodes, by device */
    const luo_snapshot *now;
    int32_t n, tp;
    int32_t *dev;    /* n * tp */
    double *y;       /* seconds of a layer and micro-batch */
    int32_t nnodes;  /* that have one at least */
    int32_t *first;  /* nnodes + 1: groups of node i are first[i] .. first[i+1]-1 */
    int32_t *kind;   /* per node: equal neighbours have equal groups */
    double *layer_s; /* of groups of a kind of the cluster, nominal; 0: not yet asked */
    luo_groups_cap_memo *caps; /* per kind */
} luo_groups;

/* Groups of the nodes without a device that failed, is announced to leave or, unless slow_too, is
 * slow. Errors: those of luo_cost_layer; LUO_ENOMEM. Owner: arena. */
luo_status luo_groups_find(luo_arena *arena, const luo_snapshot *now, bool slow_too,
                           luo_groups *out, luo_err *err);
/* Layers that the closed form of memory leaves room for: a luo_cap_fn, ctx: luo_groups. */
int64_t luo_groups_cap(const void *ctx, int32_t group, int32_t stages, int32_t stage,
                       int32_t pipelines, int64_t micro_batches);
/* Seconds of the stages of the running plan by the same closed form, under today's rates. */
luo_status luo_groups_times(luo_arena *arena, const luo_snapshot *now, luo_pipe_time **out,
                            luo_err *err);
/* .. and its event time. */
luo_status luo_groups_event(luo_arena *arena, const luo_snapshot *now, double *out, luo_err *err);
/* The stage that new stages are like: recompute. */
const luo_stage *luo_groups_pattern(const luo_snapshot *now);
#endif
