/* memo.h: steps already simulated: equal programs in an equal world take equal time. */
#ifndef LUO_SIM_MEMO_H
#define LUO_SIM_MEMO_H
#include "sim/step/report.h"

typedef struct sim_memo_key { /* all that a step depends on */
    uint64_t programs;
    bool trace;
    double update; /* luo_step_part_update */
    const luo_world *world;
} sim_memo_key;

typedef struct sim_memo_entry {
    luo_arena *arena; /* NULL: free */
    sim_memo_key key;
    sim_reply reply;
    size_t bytes;
    int64_t used;
    int64_t name; /* above 0; no other entry of this memo has or had it */
} sim_memo_entry;

enum { SIM_MEMO_MAX = 64 };
typedef struct sim_memo {
    sim_memo_entry entry[SIM_MEMO_MAX];
    size_t bytes; /* at most SIM_MEMO_BYTES together, but always room for one */
    int64_t clock, names;
    int last; /* place of the entry found or put last */
} sim_memo;
#define SIM_MEMO_BYTES ((size_t)256 << 20)

/* NULL: not known. The entry stays until the next sim_memo_put. */
const sim_memo_entry *sim_memo_find(sim_memo *memo, const sim_memo_key *key);
/* Keeps a reply whose arrays live in arena, which the memo takes over (also on failure: freed); the
 * world of the key is copied.
 * NULL: out of memory. */
const sim_memo_entry *sim_memo_put(sim_memo *memo, luo_arena *arena, const sim_memo_key *key,
                                   const sim_reply *reply);
void sim_memo_free(sim_memo *memo);
#endif
