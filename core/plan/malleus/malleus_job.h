/* malleus_job.h: the straggler planner on a model and a cluster: base rates, alpha and
 * memory caps from the cost and memory model or from a table, then luo_malleus, then placement and
 * the plan (docs/planners.md). What `luoshu plan malleus` and the policy `malleus` call. */
#ifndef LUO_CORE_PLAN_MALLEUS_MALLEUS_JOB_H
#define LUO_CORE_PLAN_MALLEUS_MALLEUS_JOB_H
#include "core/plan/malleus/malleus.h"
#include "core/plan/step/step.h"

/* `--params` (docs/formats.md#luoshuparams1): what is given replaces the model's value. 0 or NULL:
 * not given. */
typedef struct luo_malleus_params {
    int32_t nalpha;
    const double *alpha; /* for all kinds */
    double tau_s;
    int32_t nk;
    const double *k_mib; /* k_mib[0] is that of the first of nk stages; used with memory_table */
    double emb_mib, extra_mib, bound_mib, gap_mib; /* bound 0: of the profile; gap < 0: not given */
    double context_mib;                            /* 0: 4500 */
    int32_t zero_replicas;                         /* 0: 1 */
} luo_malleus_params;

typedef struct luo_malleus_job {
    const luo_model *model;
    const luo_cluster *cluster;
    const luo_stack *stack;
    const luo_plan *base; /* dp, tp (largest), pp, ZeRO, recompute, dtype, sequence, M */
    const luo_plan *prev; /* the running plan; NULL: base. For placement */
    int64_t sequence_tokens, micro_batches; /* 0: of the base plan */
    const double *rate;    /* per device of the cluster: r, INFINITY when not usable */
    const bool *candidate; /* per device; false: stays in standby. NULL: all that are usable */
    const luo_malleus_params *params; /* NULL: all from the model */
    bool memory_table;                /* Pre: params->nk > 0 */
    double memory_factor;             /* share of the memory to plan with; 0: 1 */
    double threshold;
    luo_malleus_rank rank;
    int32_t top_k;
    bool split2, rising, search_healthy, dp_auto;
    int32_t pipelines; /* instead of the base plan's; 0: those */
    int32_t offers;    /* most plans of the answer; 0: 1 */
    bool quick;        /* of luo_malleus_in */
    uint64_t seed;
} luo_malleus_job;

typedef struct luo_malleus_answer {
    luo_plan *plan;            /* offer[0] */
    int32_t noffers;           /* 1 .. job->offers */
    luo_plan **offer;          /* the best plans found, best first */
    luo_malleus_in in;              /* what was planned with; kinds and caps are in the arena */
    const luo_malleus_found *found; /* found->plans[0], placed: devices are those of the plan */
    double tau_s;                   /* seconds of one tau */
    double healthy_steady, healthy_event, oracle; /* in tau: base plan on healthy devices; times
                                                     n / sum 1/x */
    int32_t nexcluded;                            /* devices not usable, ascending */
    const int32_t *excluded;
} luo_malleus_answer;

/* What luo_plan_malleus refuses with LUO_EINPUT for itself, before any planning. */
luo_status luo_malleus_check(const luo_malleus_job *job, luo_err *err);

/* Pre:    luo_plan_check passed for base (and prev) and they are of this model and cluster;
 *         schedule 1F1B with one chunk.
 * Errors: those of luo_malleus; LUO_EINPUT what base cannot be (interleaved, raw annotations,
 *         uneven micro-batch sizes), params that do not fit it; LUO_ENOMEM.
 * Owner:  arena. See: tests/unit/check_malleus_job.c. */
luo_status luo_plan_malleus(luo_arena *arena, const luo_malleus_job *job, luo_malleus_answer *out,
                            luo_err *err);

/* Another plan takes the place of the one found, which stays as the first alternative: what
 * found->plans[0], plan, standby and excluded say is of it from now on. Pre: a is an answer, plan
 * one for its job. Errors: those of the cost model; LUO_ENOMEM. Owner: arena. */
luo_status luo_malleus_take(luo_arena *arena, luo_malleus_answer *answer, const luo_plan *plan,
                            luo_err *err);

/* Event time of a plan in seconds under rates, by the same y (docs/planners.md#objectives): what
 * the adopt test and the drift trigger compare. INFINITY when a device of it is not usable. Uses of
 * job: model, cluster, stack, base, sequence_tokens, rate, params, threshold. */
luo_status luo_malleus_event_s(luo_arena *scratch, const luo_malleus_job *job, const luo_plan *plan,
                               double *seconds, luo_err *err);

/* The closed form of a step of any plan under the same rates. Pre:
 * luo_plan_step_knows. Uses of job: model, cluster, stack, base, sequence_tokens, rate. */
luo_status luo_malleus_step(luo_arena *scratch, const luo_malleus_job *job, const luo_plan *plan,
                            luo_step_cost *out, luo_err *err);

/* docs/planners.md#cost-of-the-change: seconds of moving state from one plan to
 * another in closed form: the link that takes longest for what crosses it in one direction, and 20
 * us for each message of the device that has most. dead: ascending. Errors: LUO_ELOST. Owner:
 * nothing is kept. */
typedef struct luo_transition {
    int64_t bytes_local, bytes_remote, messages; /* local: within a node */
    double seconds;
} luo_transition;
luo_status luo_transition_cost(luo_arena *scratch, const luo_plan *from, const luo_plan *to,
                               const luo_model *model, const luo_cluster *cluster, int32_t ndead,
                               const int32_t *dead, luo_transition *out, luo_err *err);
#endif
