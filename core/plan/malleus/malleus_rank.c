/* The K best distinct plans of the straggler planner, and their order by event time
 * (docs/planners.md). */
#include <math.h>
#include <string.h>

#include "core/plan/malleus/malleus_internal.h"

enum { TOP = 32, TOP_EVENT = 256 };

static int vector_order(const luo_mal_mix *mix, int32_t a, int32_t b)
{
    const int32_t *x = luo_mal_vector(mix, a), *y = luo_mal_vector(mix, b);
    if (a == b) return 0;
    for (int32_t c = 0; c < mix->ncls; c++)
        if (x[c] != y[c]) return x[c] < y[c] ? -1 : 1;
    return 0;
}

/* Insertion: nearly sorted is the usual case. */
void luo_mal_sort(const luo_mal_mix *mix, int32_t *ids, int32_t n)
{
    for (int32_t i = 1; i < n; i++) {
        const int32_t id = ids[i];
        int32_t at = i;
        for (; at > 0 && vector_order(mix, ids[at - 1], id) < 0; at--) ids[at] = ids[at - 1];
        ids[at] = id;
    }
}

static bool make_top(luo_mal_search *search, luo_mal_top *out)
{
    *out = (luo_mal_top){.ids = LUO_NEW_N(search->arena, int32_t, search->dp),
                         .m = LUO_NEW_N(search->arena, int64_t, search->dp)};
    return out->ids && out->m;
}

luo_status luo_mal_tops(luo_mal_search *search, luo_err *err)
{
    const int32_t k = search->in->top_k;
    search->most = k > 0 ? k : search->in->rank == LUO_RANK_EVENT ? TOP_EVENT : TOP;
    search->tops = LUO_NEW_N(search->arena, luo_mal_top, search->most);
    search->o = LUO_NEW_N(search->arena, double, search->dp);
    search->fill = LUO_NEW_N(search->arena, double, search->dp);
    search->least = LUO_NEW_N(search->arena, int64_t, search->dp);
    if (!search->tops || !search->o || !search->fill || !search->least ||
        !make_top(search, &search->spare))
        return luo_err_nomem(err);
    return LUO_OK;
}

static double objective(const luo_mal_search *search, const luo_mal_top *top)
{
    return search->in->rank == LUO_RANK_STEADY ? top->steady : top->filled;
}

double luo_mal_best(const luo_mal_search *search)
{
    return search->ntops > 0 ? objective(search, &search->tops[0]) : INFINITY;
}

double luo_mal_worst(const luo_mal_search *search)
{
    return search->ntops < search->most ? INFINITY
                                        : objective(search, &search->tops[search->ntops - 1]);
}

int luo_mal_compare(const luo_mal_search *search, const luo_mal_top *a, const luo_mal_top *b)
{
    const bool steady = search->in->rank == LUO_RANK_STEADY;
    const double x[] = {steady ? a->steady : a->event, a->filled, a->steady};
    const double y[] = {steady ? b->steady : b->event, b->filled, b->steady};
    for (int i = 0; i < 3; i++)
        if (x[i] != y[i]) return x[i] < y[i] ? -1 : 1;
    if (a->mix != b->mix) return a->mix->order < b->mix->order ? -1 : 1;
    for (int32_t i = 0; i < search->dp; i++) {
        const int order = vector_order(a->mix, a->ids[i], b->ids[i]);
        if (order) return order;
    }
    return 0;
}

/* Micro-batches of search->spare and its times. */
static bool judge(luo_mal_search *search)
{
    luo_mal_top *top = &search->spare;
    int64_t least = 0;
    top->steady = top->filled = 0;
    for (int32_t i = 0; i < search->dp; i++) {
        const luo_mal_pipe *pipe = &top->mix->pipes[top->ids[i]];
        search->o[i] = pipe->o;
        search->fill[i] = pipe->fill;
        search->least[i] = search->few ? 1 : pipe->stages;
        least += search->least[i];
    }
    if (least > search->in->micro_batches) {
        search->crowded = true;
        return false;
    }
    if (luo_plan_split_micro_batches(search->dp, search->o, search->fill,
                                     search->in->rank != LUO_RANK_STEADY, search->in->micro_batches,
                                     search->least, top->m, NULL) != LUO_OK)
        return false;
    for (int32_t i = 0; i < search->dp; i++) {
        top->steady = fmax(top->steady, (double)top->m[i] * search->o[i]);
        top->filled = fmax(top->filled, (double)(top->m[i] - 1) * search->o[i] + search->fill[i]);
    }
    return true;
}

/* Puts search->spare where it belongs; what falls off is the next spare. */
static void insert(luo_mal_search *search)
{
    int32_t at = search->ntops;
    int order = 1;
    while (at > 0 && (order = luo_mal_compare(search, &search->tops[at - 1], &search->spare)) > 0)
        at--;
    if ((at > 0 && order == 0) || at == search->most) return;
    luo_mal_top out;
    if (search->ntops < search->most) {
        if (!make_top(search, &out)) {
            search->nomem = true;
            return;
        }
        search->ntops++;
    } else {
        out = search->tops[search->ntops - 1];
    }
    memmove(&search->tops[at + 1], &search->tops[at],
            (size_t)(search->ntops - 1 - at) * sizeof *search->tops);
    search->tops[at] = search->spare;
    search->spare = out;
}

double luo_mal_offer(luo_mal_search *search, luo_mal_mix *mix, const int32_t *ids)
{
    luo_mal_top *top = &search->spare;
    top->mix = mix;
    top->event = 0;
    for (int32_t i = 0; i < search->dp; i++) {
        if (mix->pipes[ids[i]].lack) return INFINITY;
        top->ids[i] = mix->pipes[ids[i]].trimmed;
    }
    luo_mal_sort(mix, top->ids, search->dp);
    search->count.plans++;
    if (!judge(search)) return INFINITY;
    const double value = objective(search, top);
    insert(search);
    return value;
}

/* Event time of one pipeline, once per (pipeline, micro-batches); bits of the double in a map. */
static luo_status event_of(luo_mal_search *search, luo_map *map, luo_mal_mix *mix, int32_t id,
                           int64_t m, double *out, luo_err *err)
{
    int64_t *known = luo_map_at(map, (uint64_t)id << 32 | (uint32_t)m, -1);
    if (!known) return luo_err_nomem(err);
    if (*known == -1) { /* no time is -1: it would be a NaN */
        const int32_t n = luo_mal_stages(search, mix, id);
        for (int32_t j = 0; j < n; j++) search->y[j] *= (double)search->layers[j];
        const luo_pipe_time pipe = {n, search->y, m};
        double t;
        LUO_TRY(
            luo_replan_event_time(search->arena, &pipe, 1, search->in->full_recompute, &t, err));
        memcpy(known, &t, sizeof t);
    }
    memcpy(out, known, sizeof *out);
    return LUO_OK;
}

static luo_status time_tops(luo_mal_search *search, luo_map *map, luo_mal_mix *mix, luo_err *err)
{
    for (int32_t k = 0; k < search->ntops; k++) {
        luo_mal_top *top = &search->tops[k];
        if (top->mix != mix) continue;
        for (int32_t i = 0; i < search->dp; i++) {
            double event;
            LUO_TRY(event_of(search, map, mix, top->ids[i], top->m[i], &event, err));
            top->event = fmax(top->event, event);
        }
    }
    return LUO_OK;
}

luo_status luo_mal_rerank(luo_mal_search *search, luo_err *err)
{
    luo_status st = LUO_OK;
    luo_map map = {0};
    for (int32_t i = 0; i < search->nmixes && st == LUO_OK; i++) {
        luo_map_clear(&map);
        st = time_tops(search, &map, &search->mixes[i], err);
    }
    luo_map_free(&map);
    for (int32_t i = 1; i < search->ntops; i++) {
        const luo_mal_top top = search->tops[i];
        int32_t at = i;
        for (; at > 0 && luo_mal_compare(search, &search->tops[at - 1], &top) > 0; at--)
            search->tops[at] = search->tops[at - 1];
        search->tops[at] = top;
    }
    return st;
}
