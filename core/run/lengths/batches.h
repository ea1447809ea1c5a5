/* batches.h: the sequences of every step of a run, the same however often a step is tried
 * (docs/formats.md#data). */
#ifndef LUO_CORE_RUN_LENGTHS_BATCHES_H
#define LUO_CORE_RUN_LENGTHS_BATCHES_H
#include "core/plan/lengths/lengths.h"
#include "core/run/scenario.h"

typedef struct luo_batches {
    const luo_lengths *lengths;
    luo_batch_rule rule;
    int64_t limit; /* sequences of a batch, at most */
    uint64_t seed;
    luo_length_source *mark; /* where the draws of step first + k begin */
    int64_t first;           /* the run goes back to this step, if to any but its first */
    int32_t n, room;
} luo_batches;

/* The longest sequence that a batch of the scenario can have, events included, as far as its model
 * takes it. Pre: it has lengths and a model. Cost: O(rows of the lengths). */
int64_t luo_batches_context(const luo_scenario *sc);
/* Out: *batches without anything drawn. Pre: lengths live as long. */
void luo_batches_open(const luo_lengths *lengths, const luo_batch_rule *rule, int64_t limit,
                      uint64_t seed, luo_batches *batches);
/* The batch of a step; steps between are drawn on the way, and all of them from the seed on for one
 * before `first`. tokens above 0: an event has made all sequences so long.
 * Errors: those of luo_lengths_batch. Owner: *length belongs to arena. */
luo_status luo_batches_draw(luo_arena *arena, luo_batches *batches, int64_t step, int64_t tokens,
                            int64_t **length, int32_t *n, luo_err *err);
/* The run goes back before this step at most to its start. */
void luo_batches_forget(luo_batches *batches, int64_t step);
void luo_batches_free(luo_batches *batches);
#endif
