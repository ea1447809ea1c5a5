/* judge_layouts.h: where optimizer state lies for all steps of a run with uneven lengths, chosen by
 * the simulated step (docs/planners.md#hydraulis). */
#ifndef LUO_CORE_RUN_POLICY_JUDGE_LAYOUTS_H
#define LUO_CORE_RUN_POLICY_JUDGE_LAYOUTS_H
#include "core/run/policy/judge_lengths.h"

typedef struct luo_judged_layout {
    luo_optimizer_layout layout;
    const int32_t *devices; /* luo_step_place.layout_devices */
    int32_t alike;    /* pool entry whose equal replicas keep state so; -1: as wide as a node */
    double *moved_ms; /* luo_length_moved_ms of it */
    luo_lengths_learned learned; /* from the steps that were simulated */
    double seconds;              /* mean of the batches; INFINITY: no plan can run one */
} luo_judged_layout;

/* Layouts that are tried on some batches: those of the equal replicas whose own steps are fastest
 * on the simulator, of the best few by the pool, so that their plan is as good to us as to them;
 * and the one that is as wide as a node. Each with its best plans (luo_judge_lengths). In: place:
 * its layout is not looked at. rate: as luo_judge_plan. nbatches >= 1. Errors: those of
 * luo_length_plan and luo_judge_plan; LUO_ENOMEM. Owner: arena; scratch is left as it was. Cost:
 * for each batch up to 24 simulated steps, and those of luo_judge_lengths for 3 layouts. */
luo_status luo_judge_layouts(luo_arena *arena, luo_arena *scratch, const luo_judge *judge,
                             const luo_length_rivals *rivals, const luo_step_place *place,
                             const luo_length_sample *batch, int32_t nbatches, const double *rate,
                             luo_judged_layout *out, luo_err *err);
/* The same for a rival. one_plan: the fastest of the plans that are best with each layout, all of
 * which hold the context. hotspa: the buckets that the pool has chosen, whatever layout they are
 * fastest with (also those of their own strategies), or one bucket of the fastest equal replicas,
 * so that it is no slower than these. *rivals: plan or buckets, and uniform as luo_judge_rival has
 * it, are set; *out: where the rival's state lies, with `seconds` of its step, INFINITY: none can
 * be simulated, and *rivals keeps plan and buckets; moved_ms and learned are left empty. Pre:
 * policy is one of the two. Errors: as luo_judge_rival. Owner: arena; scratch is left as it was.
 * Cost: that of luo_judge_rival four times, of hotspa once and for each batch some 6 steps of
 * several parts. */
luo_status luo_judge_rival_layout(luo_arena *arena, luo_arena *scratch, const luo_judge *judge,
                                  luo_length_policy policy, luo_length_rivals *rivals,
                                  const luo_step_place *place, const luo_length_sample *batch,
                                  int32_t nbatches, const double *rate, luo_judged_layout *out,
                                  luo_err *err);
/* What a policy has for all batches (padding, pack_static, pack_dynamic, uniform_best: equal
 * replicas; one_plan: a plan for the layout of place), chosen by the simulated step as well, so
 * that rivals have their best: the fastest of the best few by the pool, and by the pool and what
 * moves, that hold the context. *rivals keeps what it has where none can be simulated, and for
 * other policies. Errors: LUO_ENOMEM, LUO_ECANCELED, LUO_EBACKEND. Cost: for each batch up to 24
 * simulated steps. */
luo_status luo_judge_rival(luo_arena *scratch, const luo_judge *judge, luo_length_policy policy,
                           const luo_step_place *place, const luo_length_sample *batch,
                           int32_t nbatches, const double *rate, luo_length_rivals *rivals,
                           luo_err *err);
enum { LUO_JUDGE_BATCHES = 2 }; /* that callers who have more give */
#endif
