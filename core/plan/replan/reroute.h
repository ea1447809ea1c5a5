/* reroute.h: stages without devices, whose micro-batches run on the devices of the same
 * stage of other pipelines (ReCycle: Gandhi et al., SOSP 2024, arXiv 2405.14009, section 4).
 *
 * A lost stage keeps its layers and has no devices. Its `reroute` says how many of the pipeline's
 * micro-batches each peer takes. Weights, gradients and optimizer state lie on the devices that
 * are there; a peer's sums of gradients are over all micro-batches it runs. So the gradients of a
 * step are those of the plan that has all its devices, up to the order of sums. */
#ifndef LUO_CORE_PLAN_REPLAN_REROUTE_H
#define LUO_CORE_PLAN_REPLAN_REROUTE_H
#include "core/plan/plan.h"

/* Has any stage no devices? */
bool luo_plan_is_rerouted(const luo_plan *plan);
/* Has any stage of pipeline i no devices? */
bool luo_reroute_in_pipeline(const luo_pipeline *pl);

/* Pipeline whose devices run micro-batch k of a lost stage, for k < micro_batches, into out. Each
 * goes to the peer that is furthest behind its part, the first of equals.
 * Pre: st is lost, its counts sum to micro_batches (luo_plan_check). Errors: LUO_ENOMEM.
 * Owner of scratch: arena. Cost: O(micro_batches * peers). */
luo_status luo_reroute_stage(luo_arena *arena, const luo_stage *st, int32_t micro_batches,
                             int32_t *out, luo_err *err);

/* Numbers of micro-batches in programs. A device runs those of several pipelines, so micro-batch k
 * of a pipeline with a lost stage has the number first + k, which no micro-batch of any other
 * pipeline has; of all others first is 0. Cost: O(pipelines * stages). */
int32_t luo_plan_first_number(const luo_plan *plan, int32_t pipeline);
/* The other way: which micro-batch is meant by `number` on a device of `pipeline`? */
void luo_plan_find_number(const luo_plan *plan, int32_t pipeline, int32_t number,
                          int32_t *of_pipeline, int32_t *micro_batch);

/* The plan with a device for every place of the lost stages, as many as the first peer has there:
 * ids from first_absent = plan->devices on, which no cluster has. The compiler annotates with them
 * and puts peers in their place, or leaves them out. plan itself when nothing is lost.
 * Pre: luo_plan_check passed. Errors: LUO_EINPUT too many devices; LUO_ENOMEM. Owner: arena, parts
 * are p's. */
luo_status luo_plan_fill_absent(luo_arena *arena, const luo_plan *plan, const luo_plan **out,
                                luo_err *err);

/* The plan `base` on the devices that are there: stages of which a device is not usable are lost as
 * a whole, and their micro-batches are dealt to the same stage of the other pipelines, the ones
 * with the least to run first. usable: per device. base when nothing is lost.
 * Errors: LUO_EINFEASIBLE: why the plan cannot be rerouted; LUO_ENOMEM. Owner: arena, parts are
 * base's. See: tests/unit/check_reroute.c. */
luo_status luo_plan_reroute(luo_arena *arena, const luo_plan *base, const bool *usable,
                            const luo_plan **out, luo_err *err);

/* For closed forms, which know pipelines that share nothing: lost stages are those of their first
 * peers, and a pipeline runs as many micro-batches as the stage of it that runs the most. plan
 * itself when nothing is lost. Not to be compiled. Errors: LUO_ENOMEM. Owner: arena, parts are p's.
 */
luo_status luo_plan_loaded(luo_arena *arena, const luo_plan *plan, const luo_plan **out,
                           luo_err *err);

/* What keeps a plan from being rerouted whatever is lost: its schedule, ZeRO-2 and 3, context
 * parallelism, `state_layout`, raw annotations, expert groups. NULL: nothing.
 * Of two stages: may one run micro-batches of the other? They hold the same, cut alike. */
const char *luo_plan_not_reroutable(const luo_plan *plan);
bool luo_reroute_is_peer(const luo_plan *plan, int32_t lost, int32_t peer, int32_t stage);
/* Tensor-parallel groups of equal widths and shares. */
bool luo_reroute_cuts_alike(const luo_stage *a, const luo_stage *b);
/* Stages of a plan without devices, whose micro-batches run elsewhere. */
int32_t luo_plan_lost_stages(const luo_plan *plan);
#endif
