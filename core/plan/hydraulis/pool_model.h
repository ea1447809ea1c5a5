/* pool_model.h: a pool from the cost model, where nobody has measured one
 * (docs/planners.md#hydraulis). */
#ifndef LUO_CORE_PLAN_HYDRAULIS_POOL_MODEL_H
#define LUO_CORE_PLAN_HYDRAULIS_POOL_MODEL_H
#include "core/cost/cost.h"
#include "core/plan/hydraulis/pool.h"
#include "core/plan/plan.h"

typedef struct luo_pool_model_in {
    const luo_model *model;
    const luo_cluster *cluster;
    const luo_stack *stack;
    int32_t ndevices; /* usable, those of a node side by side */
    const int32_t *devices;
    luo_optimizer_layout layout; /* whose shards of the state every device has room for */
    int64_t ctx; /* longest sequence: costs are fitted up to it, or up to the cap; of
                    models with experts up to the cap */
    int32_t tp_most;             /* 0: two of the smallest node, at most 16 */
    int32_t pp_most;             /* 0: 8 */
} luo_pool_model_in;

/* Entries for tensor groups of powers of two that divide the heads, up to 16 devices of two nodes,
 * and for up to 8 stages that divide the layers. a, b, c: least relative squares, none negative, of
 * the slowest stage's forward and backward of one sequence, collectives of the tensor group
 * included, on the slowest of the first groups of each device type. cap: what the closed form of
 * memory allows with pp micro-batches in flight; util: the tokens from which on a micro-batch
 * reaches nine tenths of the speed that it has at the cap without attention. Errors: those of
 * luo_cost_layer; LUO_EINFEASIBLE no entry holds LUO_POOL_ROUND tokens; LUO_ENOMEM. Owner: arena.
 * Cost: about ten closed-form layers an entry. */
luo_status luo_pool_model(luo_arena *arena, const luo_pool_model_in *in, luo_pool *out,
                          luo_err *err);

/* Times of the devices' types against the slowest of them, for whose groups a pool is made: rate[i]
 * of devices[i], at most 1; all 1 where there is one type. Errors: those of luo_cost_layer. */
luo_status luo_pool_model_speeds(const luo_pool_model_in *in, double *rate, luo_err *err);

/* The same cap for the entries of a pool that have none; 0: excluded, or the cluster has no such
 * group. */
void luo_pool_model_caps(const luo_pool_model_in *in, luo_pool *pool);

/* Least squares of t[i] = a s min(s, ctx) + b s + c, for sequences of at most ctx tokens, with
 * weights 1/t^2 and no negative coefficient. ctx 0: a is 0, as without attention.
 * Pre: n >= 1; s, t > 0. */
void luo_pool_model_fit(const double *tokens, const double *ms, int32_t n, double ctx, double *a,
                        double *b, double *c);
#endif
