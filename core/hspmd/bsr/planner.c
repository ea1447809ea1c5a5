/* planner.c: balance counters and the choice of a sender
 * (docs/annotations.md#batched-sends-and-receives). */
#include "core/hspmd/bsr/planner.h"

#include <string.h>

#include "core/base/words.h"

static const char *const names[] = {"greedy", "minrank", "rr", "rr-node", "cost", "exact"};

const char *luo_sender_name(luo_sender s)
{
    return names[s];
}

luo_status luo_sender_parse(const char *name, luo_sender *out, luo_err *err)
{
    for (int i = 0; i < (int)(sizeof names / sizeof *names); i++)
        if (strcmp(name, names[i]) == 0) {
            *out = (luo_sender)i;
            return LUO_OK;
        }
    luo_str text = {0};
    luo_words_expected(&text, name, names, (int)(sizeof names / sizeof *names));
    luo_err_set(err, LUO_EUSAGE, "unknown planner `%s`; %s", name, luo_str_get(&text));
    luo_str_free(&text);
    return LUO_EUSAGE;
}

int32_t luo_node_racks_link_class(const void *ctx, int32_t a, int32_t b)
{
    static const luo_node_racks usual = {8, 0};
    const luo_node_racks *racks = ctx ? ctx : &usual;
    if (a == b) return 0;
    if (a / racks->node_size == b / racks->node_size) return 1;
    return racks->rack_size > 0 && a / racks->rack_size == b / racks->rack_size ? 2 : 3;
}

luo_planner *luo_planner_new(luo_arena *arena, const luo_planner_opts *opts)
{
    luo_planner *planner = LUO_NEW(arena, luo_planner);
    if (!planner) return NULL;
    planner->arena = arena;
    planner->opts = *opts;
    if (!planner->opts.link_class) planner->opts.link_class = luo_node_racks_link_class;
    return planner;
}

void luo_planner_reset(luo_planner *planner)
{
    if (planner->cap) memset(planner->load, 0, planner->cap * sizeof *planner->load);
    planner->n = 0;
    planner->needs.n = 0;
}

bool luo_planner_dead(const luo_planner *planner, int32_t dev)
{
    int32_t lo = 0, hi = planner->opts.ndead;
    while (lo < hi) {
        const int32_t mid = (lo + hi) / 2;
        if (planner->opts.dead[mid] < dev)
            lo = mid + 1;
        else hi = mid;
    }
    return lo < planner->opts.ndead && planner->opts.dead[lo] == dev;
}

int32_t luo_planner_class(const luo_planner *planner, int32_t a, int32_t b)
{
    return planner->opts.link_class(planner->opts.link_ctx, a, b);
}

static size_t slot_of(const luo_planner *planner, int32_t dev)
{
    size_t i = ((size_t)dev * 2654435761u) & (planner->cap - 1);
    while (planner->load[i].used && planner->load[i].dev != dev) i = (i + 1) & (planner->cap - 1);
    return i;
}

luo_load *luo_planner_load(luo_planner *planner, int32_t dev)
{
    if (2 * (planner->n + 1) > planner->cap) {
        const size_t old_cap = planner->cap;
        luo_load *old = planner->load,
                 *big = LUO_NEW_N(planner->arena, luo_load, old_cap ? 2 * old_cap : 16);
        if (!big) return NULL;
        planner->cap = old_cap ? 2 * old_cap : 16;
        planner->load = big;
        for (size_t i = 0; i < old_cap; i++)
            if (old[i].used) planner->load[slot_of(planner, old[i].dev)] = old[i];
    }
    luo_load *load = &planner->load[slot_of(planner, dev)];
    if (!load->used) {
        load->used = true;
        load->dev = dev;
        planner->n++;
    }
    return load;
}

static double cost_of(const luo_planner *planner, int32_t c, int64_t bytes)
{
    const double rate = planner->opts.bytes_per_s[c];
    return (rate > 0 ? (double)bytes / rate : 0) + planner->opts.latency_s[c];
}

/* least load(o, class) + cost(o, r, bytes); load grows by the cost */
static luo_status by_cost(luo_planner *planner, const int32_t *owner, int32_t n, int32_t to,
                          int64_t bytes, int32_t *who, luo_err *err)
{
    double best = 0;
    for (int32_t i = 0; i < n; i++) {
        const int32_t c = luo_planner_class(planner, owner[i], to);
        const luo_load *load = luo_planner_load(planner, owner[i]);
        if (!load) return luo_err_nomem(err);
        const double s = load->seconds[c] + cost_of(planner, c, bytes);
        if (i == 0 || s < best) {
            best = s;
            *who = i;
        }
    }
    const int32_t c = luo_planner_class(planner, owner[*who], to);
    luo_planner_load(planner, owner[*who])->seconds[c] += cost_of(planner, c, bytes);
    return LUO_OK;
}

static luo_status by_class(luo_planner *planner, const int32_t *owner, int32_t n, int32_t to,
                           int64_t turn, int32_t *who, luo_err *err)
{
    int32_t best = luo_planner_class(planner, owner[0], to), count = 1; /* of the nearest owners */
    for (int32_t i = 1; i < n; i++) {
        const int32_t c = luo_planner_class(planner, owner[i], to);
        if (c == best) count++;
        if (c >= best) continue;
        best = c;
        count = 1;
    }
    int64_t least = 0, skip = turn % count;
    bool any = false;
    for (int32_t i = 0; i < n; i++) {
        if (luo_planner_class(planner, owner[i], to) != best) continue;
        if (planner->opts.sender == LUO_SENDER_RR_NODE) {
            if (skip-- == 0) *who = i;
            continue;
        }
        const luo_load *load = luo_planner_load(planner, owner[i]);
        if (!load) return luo_err_nomem(err);
        if (!any || load->bytes[best] < least) {
            any = true;
            least = load->bytes[best];
            *who = i;
        }
    }
    return LUO_OK;
}

luo_status luo_planner_choose(luo_planner *planner, const int32_t *owner, int32_t n, int32_t to,
                              int64_t bytes, int64_t turn, int32_t *out, luo_err *err)
{
    int32_t who = 0;
    switch (planner->opts.sender) {
    case LUO_SENDER_MINRANK:
        for (int32_t i = 1; i < n; i++)
            if (owner[i] < owner[who]) who = i;
        break;
    case LUO_SENDER_RR: who = (int32_t)(turn % n); break;
    case LUO_SENDER_COST:
        LUO_TRY(by_cost(planner, owner, n, to, bytes, &who, err));
        break;
    case LUO_SENDER_GREEDY:
    case LUO_SENDER_RR_NODE:
    case LUO_SENDER_EXACT:
        LUO_TRY(by_class(planner, owner, n, to, turn, &who, err));
        break;
    }
    luo_load *load = luo_planner_load(planner, owner[who]);
    if (!load) return luo_err_nomem(err);
    load->bytes[luo_planner_class(planner, owner[who], to)] += bytes;
    *out = owner[who];
    return LUO_OK;
}

luo_status luo_planner_note(luo_planner *planner, luo_moves *out, int32_t step,
                            const int32_t *owner, int32_t n, int32_t to, const luo_region *cell,
                            int64_t elem_bytes, luo_err *err)
{
    int32_t best = LUO_LINK_CLASSES, count = 0;
    int32_t *cand = luo_arena_alloc(planner->arena, (size_t)n * sizeof *cand);
    if (!cand) return luo_err_nomem(err);
    for (int32_t i = 0; i < n; i++) {
        const int32_t c = luo_planner_class(planner, owner[i], to);
        if (c < best) count = 0;
        if (c < best) best = c;
        if (c == best) cand[count++] = owner[i];
    }
    const luo_need need = {out, step, to, best, count, cand, *cell, elem_bytes};
    return luo_needs_add(planner->arena, &planner->needs, &need, err);
}
