/* adpsgd.h: the baseline AD-PSGD: in every step the workers are shuffled alike everywhere and
 * average in pairs; each waits for its partner of that step alone.
 *
 * Decision (docs/sync.md#random-numbers): Fisher-Yates with u(seed, 0, step x workers + i). Of an
 * odd number the last is alone; so is who has a partner that has left. */
#ifndef LUO_CORE_SYNC_ADPSGD_H
#define LUO_CORE_SYNC_ADPSGD_H
#include "core/sync/preduce.h"

typedef struct luo_adpsgd { /* fields are private */
    int32_t workers;
    uint64_t seed;
    int32_t **partner; /* partner[step & (cap - 1)][worker] */
    int64_t *step_of;  /* which step stands in each place; -1: none */
    int64_t cap;
    int64_t *waits; /* by worker: the step whose partner it waits for; -1: none */
    bool *gone;
    int64_t *from; /* by worker: the first step that it takes part in */
    int32_t member[2];
    int64_t iteration[2];
    int32_t *shuffle; /* scratch */
    luo_arena *arena;
} luo_adpsgd;

/* Pre: workers >= 1. Errors: LUO_ENOMEM. Owner: arena, also of what grows later. */
luo_status luo_adpsgd_new(luo_arena *arena, int32_t workers, uint64_t seed, luo_adpsgd *out,
                          luo_err *err);
/* partner[w] of every worker in a step; the worker itself: alone. The rule itself.
 * shuffle: room for `workers`. Cost: O(workers). */
void luo_adpsgd_pairs(int32_t workers, uint64_t seed, int64_t step, int32_t *shuffle,
                      int32_t *partner);
/* A worker has computed that step. out: its pair, if it is complete. Steps of a worker ascend by
 * one. Errors: LUO_EBUG it waits already or has left; LUO_ENOMEM. Cost: amortised O(1) while steps
 * of workers lie close together, as pairs see to. */
luo_status luo_adpsgd_arrive(luo_adpsgd *adpsgd, double t_s, int32_t rank, int64_t step,
                             luo_preduce_group *out, luo_err *err);
/* Who has left is back, and takes part from a step on that nobody has begun: it answers which, the
 * one after the last of those that have arrived or are told by `last` (a step that somebody
 * computes). Until then its partners are alone, as while it was gone. */
int64_t luo_adpsgd_join(luo_adpsgd *adpsgd, int32_t rank, int64_t last);
/* A worker is dead or has finished. Then luo_adpsgd_alone until it gives none: the next of those
 * who waited for it, alone. Cost: O(workers) a call, and a shuffle where a step is far behind. */
void luo_adpsgd_leave(luo_adpsgd *adpsgd, int32_t rank);
void luo_adpsgd_alone(luo_adpsgd *adpsgd, double t_s, luo_preduce_group *out);
#endif
