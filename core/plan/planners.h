/* planners.h: pure functions that make plans, and the exact routines they share. */
#ifndef LUO_CORE_PLAN_PLANNERS_H
#define LUO_CORE_PLAN_PLANNERS_H
#include "core/cost/cost.h"
#include "core/graph/program/program.h"
#include "core/plan/plan.h"

/* Minimises max_j (w[j]*n[j] + off[j]) with sum n = total, lo <= n <= hi, exactly
 * (docs/planners.md#layers-and-micro-batches): one more to the smallest w*(n+1)+off, smallest j on
 * ties. lo NULL: 0; hi NULL: no upper bound.
 * Pre:    n >= 1; w finite, not negative. best NULL: not wanted.
 * Errors: LUO_EINFEASIBLE, out is then untouched. Cost: 60 passes over the rows, then O(n) for
 * each of the last few units. See: tests/diff/diff_minmax.c. */
luo_status luo_plan_minmax(int32_t n, const double *w, const double *off, int64_t total,
                           const int64_t *lo, const int64_t *hi, int64_t *out, double *best,
                           luo_err *err);
/* Canonical layer split of one pipeline (docs/planners.md#layers-and-micro-batches): y[j] = seconds
 * per layer and micro-batch, cap[j] = most layers (NULL: no cap). */
luo_status luo_plan_split_layers(luo_arena *scratch, int32_t stages, const double *y,
                                 int64_t layers, const int64_t *cap, int64_t *out, luo_err *err);
/* Micro-batches of the pipelines (docs/planners.md#layers-and-micro-batches) for M in all: o[i] =
 * slowest stage, fill[i] = sum of stage times; `filled` chooses the offsets. lo[i]: least (stages
 * of pipeline i, or 1). */
luo_status luo_plan_split_micro_batches(int32_t pipelines, const double *o, const double *fill,
                                        bool filled, int64_t M, const int64_t *lo, int64_t *out,
                                        luo_err *err);

typedef enum luo_uniform_layers { /* of the stages */
    LUO_UNIFORM_EQUAL,
    LUO_UNIFORM_BALANCED, /* by their speed, embedding and head counted */
    LUO_UNIFORM_BOTH
} luo_uniform_layers;

/* All 0 but the required: what callers other than the verb ask, who need plans that every policy
 * can work on: 1F1B, equal stages, ZeRO 0 and 1, device types not told apart. */
typedef struct luo_uniform_opts {
    int64_t batch_sequences; /* per step; required */
    int64_t sequence_tokens;
    int32_t top;             /* how many to keep; 0: 1 */
    int32_t families;        /* and the best of so many families (devices, tp, cp, pp) */
    int32_t tp, pp, dp, micro_batch_sequences, zero; /* 0 or -1 (zero): search */
    int32_t cp;              /* context parallelism; 0: 1, -1: search */
    int32_t zero_most;       /* of the search; 0: 1 */
    int32_t shard;           /* of ZeRO-3; 0: full and hybrid, -1: all, else 1 + luo_shard */
    int32_t recompute;       /* -1: search, else luo_recompute */
    int32_t schedule;        /* 0: 1f1b, -1: search, else 1 + luo_sched_kind */
    int32_t chunks;          /* of a stage where the schedule has them; 0: search */
    luo_uniform_layers layers;
    bool types;              /* device types: each alone, and the whole by their speed */
    bool sequence_parallel;
    bool staggered;          /* optimizer_step of the plans; closed forms know it not */
    bool tp_pp_dp;           /* --use-tp-pp-dp-mapping */
    const int32_t *devices;  /* usable, ascending; NULL: all that are up and not standby */
    int32_t ndevices;
    const luo_stack *stack;
    const luo_work *work; /* limits of work, which plans keep; NULL: the defaults */
    /* NULL, or the model whose experts groups of `share` devices, of whole stages, will have
     * together, each some whole ones: seconds are those of `model`, which has as many experts as
     * one of them, memory is of this one; shapes whose stages cannot share so are left out. */
    const luo_model *shared;
    int32_t share;
} luo_uniform_opts;

typedef struct luo_uniform_result {
    luo_plan *plan;
    double objective_s;    /* closed-form step (docs/cost-model.md#a-whole-step) .. */
    double pipeline_s, ideal_s, dp_s, optimizer_s, jitter; /* .. and its parts (luo_step_cost; dp_s
                                                              with what a tied table adds) */
    double bound_s;        /* lower bound: model FLOP over the sum of achievable peaks */
    double memory_ratio;   /* worst device, closed form */
    int32_t idle;          /* usable devices that the plan leaves out */
    int64_t shapes, priced; /* of the search: that divide; whose closed form was computed */
} luo_uniform_result;

/* Every plan of alike pipelines that divides and fits, ranked: the Megatron user's baseline.
 * Searched: tp powers of two within a node; pp that divides the layers (or, with layers by speed,
 * the devices); dp the largest that divides the batch (devices left over stay idle); micro-batches
 * of 1, 2, 4 .. 16 sequences; recompute none, full, and selective where attention is not fused;
 * ZeRO 0 to zero_most, ZeRO-3 as full shard, as shards of the pipelines of a node, and with weights
 * gathered once a step; 1F1B and interleaved with 2 to 16 chunks; equal layers, and layers by speed
 * with embedding and head counted (luo_plan_minmax); context parallelism of 2, 4 .. 64 as long as
 * a rank has 4,096 tokens, as a ring, an exchange of heads, or both. What opts gives is taken as it
 * is (gpipe included). Several device types: each alone; all, in the order of the cluster and
 * turned round, stages on types or pipelines on types, the layers of stages by speed, and, with
 * ZeRO 0 and 1, micro-batches dealt to the pipelines by speed (luo_plan_split_micro_batches);
 * tensor groups do not mix types. Ties: the smaller tp, pp, micro-batch. Shapes are priced in the
 * order of a lower bound of their closed form until no other can be among the answers: the answer
 * is that of pricing all. See: tests/diff/diff_uniform.c. Device order:
 * docs/planners.md#order-of-devices. *n: how many there are: the `top` best, and those of the best
 * of each of `families` families that are not among them, all by objective. The memory of the
 * closed form filters; the compiled plan decides (luo_plan_fits), so callers try them in order.
 * Errors: LUO_EINFEASIBLE with the tightest case; LUO_EINPUT a size that opts gives does not
 * divide; LUO_ENOMEM. Owner: arena. */
luo_status luo_plan_uniform(luo_arena *arena, const luo_model *model, const luo_cluster *cluster,
                            const luo_uniform_opts *opts, luo_uniform_result **out, int32_t *n,
                            luo_err *err);

/* The same, less the plans that do not fit when they are compiled (the closed form filters roughly,
 * so more of them are tried). *set (may be NULL): programs of the best.
 * Errors: those of luo_plan_uniform; LUO_EINFEASIBLE none fits; those of luo_plan_compile. */
luo_status luo_plan_uniform_fitting(luo_arena *arena, const luo_model *model,
                                    const luo_cluster *cluster, const luo_uniform_opts *opts,
                                    luo_uniform_result **out, int32_t *n, luo_programs **set,
                                    luo_err *err);

/* Completes `context_kind: auto`: of ring, exchange of heads and, where ranks lie on several nodes,
 * both (parts are the ranks of a node), what exposes the least; ties in this order. The cost model
 * is that of the cluster's profiles and the default stack, so that (plan, model, cluster) alone
 * decide; shares are taken as equal; where costs are not known it is a ring. Done once, where a
 * plan is read: what is compiled, hashed, written and sent to ranks is the completed plan.
 * Pre: luo_plan_check found nothing. See: tests/diff/diff_sim_closed.c. */
void luo_plan_settle_context(luo_plan *plan, const luo_model *model, const luo_cluster *cluster);
/* Seconds of communication that a layer of the slowest stage of the pipeline shows, forward and
 * backward, with parts of `inner` ranks. Errors: those of luo_cost_layer. */
luo_status luo_plan_context_exposed(const luo_cost_ctx *ctx, const luo_model *model,
                                    const luo_plan *plan, int32_t pipeline, int32_t inner,
                                    double *seconds, luo_err *err);

/* Memory of every device of a compiled plan, in the set's order: out[set->n]. */
luo_status luo_plan_memory(luo_arena *scratch, const luo_programs *set, luo_memory *out,
                           luo_err *err);
/* The last word on memory: peak from buffer lifetimes and what the profile reserves against the
 * capacity, worst device. Out, also with LUO_EOOM: *ratio, *device.
 * Errors: LUO_EOOM; the sentence names what the plan does not do yet. */
luo_status luo_plan_fits(const luo_plan *plan, const luo_cluster *cluster, const luo_programs *set,
                         const luo_memory *memory, double *ratio, int32_t *device, luo_err *err);
#endif
