/* step.h: seconds of a training step of a plan in closed form, what planners rank plans by where
 * nothing is simulated (docs/cost-model.md#a-whole-step). */
#ifndef LUO_CORE_PLAN_STEP_STEP_H
#define LUO_CORE_PLAN_STEP_STEP_H
#include "core/cost/cost.h"
#include "core/plan/plan.h"

typedef struct luo_step_in {
    const luo_model *model;
    const luo_cluster *cluster;
    const luo_stack *stack;
    int64_t sequence_tokens;
    const double *rate; /* per device: slowdown, below 1 counts as 1; INFINITY when not usable;
                           NULL: all healthy */
} luo_step_in;

typedef struct luo_step_cost { /* seconds; step = (pipeline + dp + tied + optimizer) * jitter */
    double step, pipeline, dp, tied; /* dp, tied: what is seen of them behind the last backward */
    double optimizer;                /* with the norm of all gradients before it */
    double jitter;      /* the factor */
    double ideal;       /* busiest stage without waiting: m * (F + B) of the slowest stage */
} luo_step_cost;

/* Does the closed form know plans of this kind? Not: backward in two halves
 * with ZeRO 2 or 3; annotations, experts that pipelines share, micro-batches of several lengths,
 * rerouted stages, uneven shares; pipelines that differ in stages, layers or sizes with ZeRO 2 or 3
 * or with context parallelism. */
bool luo_plan_step_knows(const luo_plan *plan);

/* Layers, ends and messages by the cost model, slowed as the slowest device of a stage is; every
 * pipeline is a course of its schedule, the slowest counts. A message has its share of the NICs of
 * its node among all that send then. Of zb_h2 this is a step between barriers; without one it gains
 * more.
 * Gradients: the buckets of the plan's rule (the stack's where it says nothing), as programs have
 * them, each reduced when the last pipeline has completed it (dp_overlap off: when its backward is
 * done). Layers that the same stages hold in all pipelines are reduced by the same devices. Where
 * pipelines are alike that is one lane a stage; else slice by slice of the widest group, in the
 * order of programs, bytes on every link on the way. Where what stages send takes long, messages
 * are played on the same links: beside gathers, beside sums, on up to 256 devices all along. With
 * ZeRO 1 and 2 reduce-scatters, and the first forward waits for the gathers of the weights it
 * reads. Sequence parallelism sums what every device holds whole over the tensor group first; on
 * shared links what such tensors take is left out. ZeRO 2 cuts gradients in every micro-batch, ZeRO
 * 3 gathers the weights in every task as well, unit by unit. A tied table on two stages: one call
 * of both ends, behind all others; ZeRO 2 and 3: the head's gradient moves to the first stage, and
 * the head waits for its copy. zb_h1: gradients are complete in the last BW. Optimizer: the slowest
 * stage. Pre: luo_plan_step_knows; the plan is of this model and cluster. *out: step INFINITY where
 * a device of the plan is not usable. Errors: those of the cost model; LUO_ENOMEM. Owner: nothing
 * is kept. Cost: O(tasks + layers * pipelines), some 0.3 ms for 64 devices. Source: Megatron-LM,
 * torch DDP (buckets); see tests/diff/diff_sim_closed.c, tests/diff/diff_offers.c (the simulator).
 */
luo_status luo_plan_step(luo_arena *scratch, const luo_step_in *in, const luo_plan *plan,
                         luo_step_cost *out, luo_err *err);

/* Model FLOP of a step (luo_model_flops_per_token) over what the devices of the plan could do in
 * step_s seconds by their peak of its data type; 0: step_s is not positive. */
double luo_plan_mfu(const luo_plan *plan, const luo_model *model, const luo_cluster *cluster,
                    double step_s);

/* FLOP of one step of B sequences of s tokens (SC'21 eq. 3): 72 form without recompute,
 * 96 form with full recompute; attention in full, the head once. Exact but for one rounding. */
double luo_step_flops_72(int64_t B, int64_t s, int64_t L, int64_t h, int64_t V);
double luo_step_flops_96(int64_t B, int64_t s, int64_t L, int64_t h, int64_t V);
#endif
