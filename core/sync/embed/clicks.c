#include "core/sync/embed/clicks.h"

#include <stdlib.h>

#include "core/sync/draws.h"

/* ---- numbers ---- */

typedef struct numbered {
    uint64_t key;
    int32_t was;
} numbered;

static int by_key(const void *left, const void *right)
{
    const numbered *a = left, *b = right;
    return (a->key > b->key) - (a->key < b->key);
}

luo_status luo_clicks_order(luo_arena *scratch, luo_clicks *clicks, luo_err *err)
{
    const size_t mark = luo_arena_mark(scratch);
    const int64_t n = (int64_t)clicks->samples * clicks->slots;
    numbered *all = LUO_NEW_N(scratch, numbered, clicks->embeds);
    int32_t *now = LUO_NEW_N(scratch, int32_t, clicks->embeds);
    if (!all || !now) return luo_err_nomem(err);
    for (int32_t e = 0; e < clicks->embeds; e++) all[e] = (numbered){clicks->key[e], e};
    if (clicks->embeds > 0) qsort(all, (size_t)clicks->embeds, sizeof *all, by_key);
    for (int32_t e = 0; e < clicks->embeds; e++) {
        clicks->key[e] = all[e].key;
        now[all[e].was] = e;
    }
    for (int64_t i = 0; i < n; i++) clicks->embed[i] = now[clicks->embed[i]];
    luo_arena_reset(scratch, mark);
    return LUO_OK;
}

/* Of keys that were drawn, which are below vocab. */
static luo_status number(luo_arena *arena, luo_clicks *clicks, int64_t vocab, luo_err *err)
{
    const int64_t n = (int64_t)clicks->samples * clicks->slots;
    int32_t *of_key = LUO_NEW_N(arena, int32_t, vocab);
    clicks->key = LUO_NEW_N(arena, uint64_t, n < vocab ? n : vocab);
    if (!of_key || !clicks->key) return luo_err_nomem(err);
    for (int64_t i = 0; i < n; i++) of_key[clicks->embed[i]] = 1;
    for (int64_t key = 0; key < vocab; key++) {
        if (!of_key[key]) continue;
        of_key[key] = clicks->embeds;
        clicks->key[clicks->embeds++] = (uint64_t)key;
    }
    for (int64_t i = 0; i < n; i++) clicks->embed[i] = of_key[clicks->embed[i]];
    return LUO_OK;
}

/* ---- drawn ---- */

/* The key of a slot: its own beginning, and the draw, which may stand after the group's. */
static int32_t key_of(const luo_clicks_spec *spec, const luo_zipf *zipf, uint64_t seed,
                      uint64_t sample, int64_t slot)
{
    const uint64_t of_group = (uint64_t)spec->slots;
    int64_t rank = luo_zipf_key(zipf, luo_draw_u(seed, sample, (uint64_t)slot));
    if (spec->groups > 1 && luo_draw_u(seed, sample, of_group + 1 + (uint64_t)slot) < spec->local) {
        const double u = luo_draw_u(seed, sample, of_group);
        const int64_t group = (int64_t)(u * (double)spec->groups);
        rank = (rank + group * zipf->vocab / spec->groups) % zipf->vocab;
    }
    return (int32_t)(slot * zipf->vocab + rank);
}

luo_status luo_clicks_draw(luo_arena *arena, const luo_clicks_spec *spec, uint64_t seed,
                           luo_clicks *out, luo_err *err)
{
    luo_clicks clicks = {
        .samples = (int32_t)spec->samples, .slots = (int32_t)spec->slots, .synthetic = true};
    luo_zipf zipf;
    clicks.embed = LUO_NEW_N(arena, int32_t, spec->samples * spec->slots);
    if (!clicks.embed) return luo_err_nomem(err);
    LUO_TRY(luo_zipf_make(arena, spec->theta, spec->vocab / spec->slots, &zipf, err));
    for (int64_t i = 0; i < spec->samples; i++)
        for (int64_t s = 0; s < spec->slots; s++)
            clicks.embed[i * spec->slots + s] = key_of(spec, &zipf, seed, (uint64_t)i, s);
    LUO_TRY(number(arena, &clicks, spec->vocab, err));
    *out = clicks;
    return LUO_OK;
}

/* ---- as a graph ---- */

luo_status luo_clicks_graph(luo_arena *arena, const luo_clicks *clicks, luo_bigraph *out,
                            luo_err *err)
{
    int64_t *first = LUO_NEW_N(arena, int64_t, (int64_t)clicks->samples + 1);
    int32_t *embed = LUO_NEW_N(arena, int32_t, (int64_t)clicks->samples * clicks->slots);
    int64_t n = 0;
    if (!first || !embed) return luo_err_nomem(err);
    for (int64_t i = 0; i < clicks->samples; i++) {
        for (int64_t s = 0; s < clicks->slots; s++) {
            const int32_t e = clicks->embed[i * clicks->slots + s];
            int64_t k = first[i];
            while (k < n && embed[k] != e) k++;
            if (k == n) embed[n++] = e;
        }
        first[i + 1] = n;
    }
    *out = (luo_bigraph){clicks->samples, clicks->embeds, first, embed};
    return LUO_OK;
}
