/* step_lengths.h: what events make of the lengths of sequences, by step. A step that is tried again
 * has the sequences that it had (docs/formats.md#events). */
#ifndef LUO_CORE_RUN_EVENTS_STEP_LENGTHS_H
#define LUO_CORE_RUN_EVENTS_STEP_LENGTHS_H
#include <stdbool.h>
#include <stdint.h>

#include "core/base/arena.h"

typedef struct luo_step_lengths luo_step_lengths; /* the latest change first; NULL: there is none */

/* Tokens of every sequence of a step; 0: no event says so. Cost: O(changes). */
int64_t luo_step_lengths_at(const luo_step_lengths *lengths, int64_t step);
/* Events say `tokens` now (0: nothing), which holds from step `from` on, the first one that was not
 * tried yet. Pre: `from` never falls. False: out of memory. Owner: arena. */
bool luo_step_lengths_note(luo_arena *arena, luo_step_lengths **lengths, int64_t from,
                           int64_t tokens);
#endif
