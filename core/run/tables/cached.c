/* cached.c: what caches of rows leave to be sent, by the loop of `luoshu embed het`. */
#include "core/run/tables/step.h"
#include "core/sync/embed/het_loop.h"

enum { KEYS = 1400000, MOST = 50 }; /* keys of the first half, and its iterations at most */

tables_traffic tables_traffic_plain(void)
{
    /* As core/sync/exchange.h counts them: a key asked for has 8 bytes, and so has one pushed. */
    return (tables_traffic){1, 1, 1, 8, 0, 8, 0};
}

typedef struct source {
    const luo_clicks *samples;
    int32_t workers;
    int64_t batch; /* of a worker */
} source;

static luo_status batch(void *ctx, int32_t worker, int64_t k, uint64_t *keys, luo_err *err)
{
    const source *s = ctx;
    const luo_clicks *clicks = s->samples;
    (void)err;
    int64_t at = ((k * s->workers + worker) * s->batch) % clicks->samples;
    for (int64_t i = 0; i < s->batch; i++, at = at + 1 < clicks->samples ? at + 1 : 0)
        for (int32_t slot = 0; slot < clicks->slots; slot++)
            *keys++ = clicks->key[clicks->embed[at * clicks->slots + slot]];
    return LUO_OK;
}

/* What updates of rows are pending at the end counts as pushed: sooner or later it is, and few
 * iterations leave much of it. */
static luo_status run(const luo_het_loop_opts *opts, int64_t iterations, luo_het_traffic *out,
                      luo_err *err)
{
    luo_arena *arena = luo_arena_new(1 << 20);
    luo_het_loop_opts now = *opts;
    luo_het_loop loop = {0};
    if (!arena) return luo_err_nomem(err);
    now.iterations = iterations;
    const luo_status st = luo_het_loop_run(arena, &now, &loop, err);
    *out = loop.traffic;
    out->pushed += (int64_t)loop.flush; /* a byte is a row here */
    luo_tally_free(&loop.missed);
    luo_arena_free(arena);
    return st;
}

luo_status tables_traffic_cached(const tables_layout *layout, tables_traffic *out, luo_err *err)
{
    const luo_clicks *clicks = layout->in->samples;
    source s = {clicks, layout->n, layout->in->batch / layout->n};
    const int64_t keys = s.batch * clicks->slots;
    const int64_t may = KEYS / (keys * layout->n), half = may < 1 ? 1 : may > MOST ? MOST : may;
    const luo_het_loop_opts opts = {.workers = layout->n,
                                    .servers = 1,
                                    .keys = (int32_t)keys,
                                    .batch = batch,
                                    .ctx = &s,
                                    .cache = layout->in->cache,
                                    .wire = {.push = 1},
                                    .net = {0, 1}};
    luo_het_traffic first, all;
    LUO_TRY(run(&opts, half, &first, err));
    LUO_TRY(run(&opts, 2 * half, &all, err));
    const double asked = (double)(all.asked - first.asked);
    *out = (tables_traffic){.asked = 1,
                            .pulled = (double)(all.pulled - first.pulled) / asked,
                            .pushed = (double)(all.pushed - first.pushed) / asked,
                            .key_bytes = 16,
                            .row_extra_bytes = 16,
                            .push_extra_bytes = 16,
                            .iterations = half};
    return LUO_OK;
}
