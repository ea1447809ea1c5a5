/* layout.c: devices, servers, and which rows the samples of each device touch. */
#include <math.h>

#include "core/run/tables/step.h"

static luo_status list_devices(tables_layout *layout, luo_err *err)
{
    const luo_tables_in *in = layout->in;
    const luo_cluster *cluster = in->judge->cluster;
    for (int32_t d = 0; d < cluster->ndevices; d++) {
        if (!in->candidate[d] || !isfinite(in->rate[d])) continue;
        if (layout->n == LUO_TABLES_DEVICES)
            return luo_err_set(err, LUO_E2BIG,
                               "more than %d devices may work; models with tables are planned on "
                               "at most so many.",
                               LUO_TABLES_DEVICES);
        layout->dev[layout->n++] = d;
    }
    if (layout->n == 0) return luo_err_set(err, LUO_EINPUT, "no device may work.");
    if (in->servers > layout->n)
        return luo_err_set(err, LUO_EUSAGE,
                           "%d servers are asked for; the %d devices that may work "
                           "are the most.",
                           in->servers, layout->n);
    if ((int64_t)in->servers * layout->n > LUO_TABLES_MESSAGES)
        return luo_err_set(err, LUO_E2BIG,
                           "%d devices and %d servers exchange %d messages at once; at most %d are "
                           "simulated; `--servers` up to %d is expected.",
                           layout->n, in->servers, layout->n * in->servers, LUO_TABLES_MESSAGES,
                           LUO_TABLES_MESSAGES / layout->n);
    return LUO_OK;
}

/* The first device of every node, then the second of every node, and so on. */
static void order_servers(tables_layout *layout)
{
    const luo_device *devices = layout->in->judge->cluster->devices;
    int32_t n = 0, turn[LUO_TABLES_DEVICES];
    for (int32_t w = 0; w < layout->n; w++) {
        const bool same = w > 0 && devices[layout->dev[w]].node == devices[layout->dev[w - 1]].node;
        turn[w] = same ? turn[w - 1] + 1 : 0;
    }
    for (int32_t t = 0; n < layout->n; t++)
        for (int32_t w = 0; w < layout->n; w++)
            if (turn[w] == t) layout->order[n++] = w;
}

luo_status tables_layout_open(luo_arena *arena, const luo_tables_in *in, tables_layout *out,
                              luo_err *err)
{
    enum { N = LUO_TABLES_DEVICES };
    *out = (tables_layout){.in = in,
                           .model = in->judge->model,
                           .dev = LUO_NEW_N(arena, int32_t, N),
                           .samples = LUO_NEW_N(arena, int64_t, N),
                           .touched = LUO_NEW_N(arena, int64_t, N),
                           .order = LUO_NEW_N(arena, int32_t, N),
                           .server_of = LUO_NEW_N(arena, int32_t, N)};
    if (!out->dev || !out->samples || !out->touched || !out->order || !out->server_of)
        return luo_err_nomem(err);
    LUO_TRY(list_devices(out, err));
    order_servers(out);
    return LUO_OK;
}

/* ---- rows ---- */

/* A row counts once for every worker that touches it. */
typedef struct visit {
    const tables_layout *l;
    int32_t *seen;  /* by number of a key: 1 + the last worker that touched it */
    int64_t *count; /* by worker x servers */
    int32_t servers;
} visit;

static void visit_all(const visit *v)
{
    const luo_clicks *clicks = v->l->in->samples;
    int64_t at = 0;
    for (int32_t w = 0; w < v->l->n; w++)
        for (int64_t i = 0; i < v->l->samples[w]; i++, at = at + 1 < clicks->samples ? at + 1 : 0)
            for (int32_t s = 0; s < clicks->slots; s++) {
                const int32_t e = clicks->embed[at * clicks->slots + s];
                if (v->seen[e] == w + 1) continue;
                v->seen[e] = w + 1;
                v->count[(int64_t)w * v->servers +
                         (int64_t)(clicks->key[e] % (uint64_t)v->servers)]++;
            }
}

static luo_status count_rows(luo_arena *arena, const tables_layout *layout, int32_t servers,
                             int64_t *count, luo_err *err)
{
    const size_t mark = luo_arena_mark(arena);
    const visit v = {layout, LUO_NEW_N(arena, int32_t, layout->in->samples->embeds), count,
                     servers};
    if (!v.seen) return luo_err_nomem(err);
    visit_all(&v);
    luo_arena_reset(arena, mark);
    return LUO_OK;
}

luo_status tables_layout_count(luo_arena *arena, tables_layout *layout, luo_err *err)
{
    for (int32_t w = 0; w < layout->n; w++) layout->touched[w] = 0;
    return count_rows(arena, layout, 1, layout->touched, err);
}

luo_status tables_layout_deal(luo_arena *arena, tables_layout *layout, luo_tables_deal deal,
                              luo_err *err)
{
    LUO_TRY(tables_deal(arena, layout, deal, err));
    return tables_layout_count(arena, layout, err);
}

luo_status tables_layout_serve(luo_arena *arena, tables_layout *layout, int32_t servers,
                               luo_err *err)
{
    layout->servers = servers;
    layout->rows = LUO_NEW_N(arena, int64_t, (int64_t)layout->n * servers);
    if (!layout->rows) return luo_err_nomem(err);
    for (int32_t w = 0; w < layout->n; w++) layout->server_of[w] = TABLES_NONE;
    for (int32_t s = 0; s < servers; s++) layout->server_of[layout->order[s]] = s;
    return count_rows(arena, layout, servers, layout->rows, err);
}
