/* clicks.h: samples of a click log: each has one key in every slot. */
#ifndef LUO_CORE_SYNC_EMBED_CLICKS_H
#define LUO_CORE_SYNC_EMBED_CLICKS_H
#include "core/sync/embed/gmp.h"
#include "core/sync/embed/zipf.h"

enum { LUO_CLICKS_SLOTS = 64 };

typedef struct luo_clicks {
    int32_t samples, slots;
    int32_t embeds;   /* different keys, numbered as they ascend */
    int32_t *embed;   /* samples x slots: numbers of keys */
    uint64_t *key;    /* by number */
    uint8_t *clicked; /* by sample: 0 or 1; NULL: not known */
    bool synthetic;
} luo_clicks;

/* What a synthetic log is drawn from. Slot s has vocab / slots keys of its own, the first of them
 * s x that, with Zipf's shares. A sample belongs to one of `groups` groups with equal chances; with
 * probability `local` a slot of it takes the key that stands as many places after its group's own
 * beginning, group / groups into the slot's keys, as the draw stands after the slot's beginning: so
 * a group has favourite keys of its own. */
typedef struct luo_clicks_spec {
    int64_t samples, slots, vocab;
    double theta;
    int64_t groups; /* 1: none */
    double local;   /* 0 to 1 */
} luo_clicks_spec;

/* Pre: 1 <= samples, 1 <= slots <= LUO_CLICKS_SLOTS, slots <= vocab <= LUO_ZIPF_VOCAB, 1 <= groups,
 * theta >= 0, samples x slots fits memory.
 * Errors: LUO_ENOMEM. Owner: arena. Cost: O(samples x slots + vocab). Draws: u(seed, sample, slot)
 * for the key, .. slots for the group, .. slots + 1 + slot for `local`. */
luo_status luo_clicks_draw(luo_arena *arena, const luo_clicks_spec *spec, uint64_t seed,
                           luo_clicks *out, luo_err *err);
/* Numbers keys as they ascend, which were numbered in any way. Errors: LUO_ENOMEM. Cost: O(samples
 * x slots + keys log keys). */
luo_status luo_clicks_order(luo_arena *scratch, luo_clicks *clicks, luo_err *err);
/* Who uses what; a key that a sample has in two slots counts once.
 * Errors: LUO_ENOMEM. Owner: arena. Cost: O(samples x slots^2). */
luo_status luo_clicks_graph(luo_arena *arena, const luo_clicks *clicks, luo_bigraph *out,
                            luo_err *err);
#endif
