/* length_policy.h: the policies for uneven lengths, all judged alike: the largest 1F1B time of
 * their replicas on the same batch (docs/planners.md#hydraulis). */
#ifndef LUO_CORE_PLAN_LENGTH_POLICIES_LENGTH_POLICY_H
#define LUO_CORE_PLAN_LENGTH_POLICIES_LENGTH_POLICY_H
#include "core/plan/hydraulis/candidates.h"

typedef enum luo_length_policy {
#define LUO_LENGTH_POLICY(policy, word, keys) LUO_LENGTH_POLICY_##policy,
#include "core/plan/length_policies/length_policies.inc"
#undef LUO_LENGTH_POLICY
    LUO_LENGTH_POLICIES
} luo_length_policy;
const char *luo_length_policy_name(luo_length_policy policy);
bool luo_length_policy_find(const char *name, luo_length_policy *out);

/* Of pack_dynamic, which of equal replicas: by dispatch, the default; sequence j to replica j mod
 * R; published: contiguous parts of the sorted batch. */
#define LUO_LENGTH_ASSIGN_LIST(X)                                                                  \
    X(LUO_ASSIGN_BALANCED, "balanced")                                                             \
    X(LUO_ASSIGN_ARRIVAL, "arrival")                                                               \
    X(LUO_ASSIGN_SORTED, "sorted")
typedef enum luo_length_assign { LUO_LENGTH_ASSIGN_LIST(LUO_WORD_VALUE) } luo_length_assign;

typedef struct luo_length_bucket { /* HotSPa: low < length <= high on all devices */
    int64_t low, high;
    int32_t entry;
} luo_length_bucket;

/* What policies need to know beside the batch; made once. */
typedef struct luo_length_rivals {
    const luo_pool *pool;
    const luo_candidates *candidates;
    int32_t devices;
    const double *rate; /* per place of the devices, as luo_step_speeds; NULL: 1 all */
    int64_t ctx;
    int32_t alike;    /* entry of the equal replicas of padding and packing */
    int32_t uniform;  /* entry of uniform_best */
    int32_t plan;     /* of one_plan */
    int32_t nbuckets; /* of hotspa */
    const luo_length_bucket *bucket;
    luo_length_assign assign;
    double switch_ms;   /* of hotspa, per change of strategy */
    luo_step_opts step; /* of dispatch and packing, for all alike */
} luo_length_rivals;

/* Chooses what the rivals are free to choose: equal replicas with the least mean time of their own
 * packing on `nsamples` batches for padding and packing (alike -1), one strategy by the floor of
 * the histogram, the plan with the least mean on the samples, HotSPa's buckets by an exhaustive
 * programme over the grid, or over powers of two with spans that are tried on the samples.
 * In/out: *rivals with pool, candidates, devices, ctx, switch_ms, step set; alike -1: chosen.
 * Errors: LUO_EINFEASIBLE no equal replicas hold ctx tokens; LUO_ENOMEM. Owner: arena. */
typedef struct luo_length_sample {
    const int64_t *length;
    int32_t n;
} luo_length_sample;
luo_status luo_length_rivals_choose(luo_arena *arena, const luo_length_sample *samples,
                                    int32_t nsamples, int64_t grid_step, luo_length_rivals *rivals,
                                    luo_err *err);

/* Mean time of a policy on the samples; INFINITY: it cannot take them. Errors: LUO_ENOMEM. */
luo_status luo_length_mean(luo_arena *scratch, const luo_length_rivals *rivals,
                           luo_length_policy policy, const luo_length_sample *samples, int32_t n,
                           double *mean, luo_err *err);

/* The buckets with the least sum of spans and changes of strategy; *ms: that sum. A bucket
 * has as many replicas as the devices allow. Errors: LUO_EINFEASIBLE; LUO_ENOMEM. Owner: arena. */
luo_status luo_length_buckets(luo_arena *arena, const luo_pool *pool, int32_t devices,
                              const luo_histogram *histogram, const luo_propose_grid *grid,
                              double switch_ms, luo_length_bucket **out, int32_t *n, double *ms,
                              luo_err *err);

/* *ms: time of the step. *step, where one plan runs it (all but hotspa; NULL: not wanted): how.
 * current: the plan of the step before, for hydraulis; -1: none.
 * Errors: LUO_EINFEASIBLE a sequence fits nowhere; LUO_ENOMEM. Owner: arena. */
luo_status luo_length_policy_step(luo_arena *arena, const luo_length_rivals *rivals,
                                  luo_length_policy policy, int32_t current, const int64_t *length,
                                  int32_t n, double *ms, luo_step_plan *step, luo_err *err);
/* The dispatch of a step on a candidate plan with micro-batches as pack_dynamic has them, each as
 * full as the context and its replica's cap allow. Errors: LUO_ENOMEM. Owner: arena; assign is that
 * of step. */
luo_status luo_length_pack_full(luo_arena *arena, const luo_length_rivals *rivals,
                                const int64_t *length, int32_t n, const luo_step_plan *step,
                                luo_step_plan *out, luo_err *err);
/* The sequences of bucket k of hotspa, dispatched and packed on its replicas. Errors, Owner: as
 * above. */
luo_status luo_length_bucket_step(luo_arena *arena, const luo_length_rivals *rivals, int32_t k,
                                  const int64_t *length, int32_t n, luo_step_plan *step,
                                  luo_err *err);
/* Replicas of one entry on all devices, with their speeds; none if it needs more. Errors:
 * LUO_ENOMEM. */
luo_status luo_length_alike(luo_arena *arena, const luo_length_rivals *rivals, int32_t entry,
                            luo_replicas *out, luo_err *err);
#endif
