/* Tensor groups cut around slow devices, and the layers of the stages that come of it. */
#include "core/plan/hydraulis/pool_split.h"

#include <math.h>

#include "core/plan/hydraulis/pool_model_internal.h"
#include "core/plan/planners.h"

typedef struct split {
    const luo_pool_model_in *in;
    const int32_t *dev; /* of the replica */
    const double *rate;
    int32_t n, ndevices;
    int32_t *first, *width, *layers; /* by stage, n of them */
} split;

/* ---- stages ---- */

static void add_stage(split *x, int32_t first, int32_t width)
{
    x->first[x->n] = first;
    x->width[x->n++] = width;
}

/* The stage of tp devices from `first` on; false: a slow device comes before another one. */
static bool cut(split *x, int32_t first, int32_t tp, bool keep)
{
    int32_t fast = 0;
    while (fast < tp && x->rate[first + fast] < LUO_POOL_SLOW) fast++;
    for (int32_t i = fast; i < tp; i++)
        if (x->rate[first + i] < LUO_POOL_SLOW) return false;
    int32_t at = first;
    for (int32_t width = tp; width >= 1; width /= 2)
        for (; at + width <= first + fast; at += width) add_stage(x, at, width);
    for (; keep && at < first + tp; at++) add_stage(x, at, 1);
    return true;
}

static double slowest_rate(const split *x, int32_t s)
{
    double most = 0;
    for (int32_t i = 0; i < x->width[s]; i++) most = fmax(most, x->rate[x->first[s] + i]);
    return most;
}

/* ---- layers ---- */

static luo_status parts_of(const split *x, int32_t s, int64_t tokens, luo_pool_parts *out,
                           luo_err *err)
{
    const double rate = slowest_rate(x, s);
    LUO_TRY(luo_pool_parts_of(x->in, x->width[s], x->dev + x->first[s], tokens, out, err));
    out->layer *= rate;
    out->embedding *= s == 0 ? rate : 0;
    out->head *= s == x->n - 1 ? rate : 0;
    return LUO_OK;
}

static luo_status give_layers(luo_arena *scratch, split *x, int64_t *layers, luo_err *err)
{
    double *w = LUO_NEW_N(scratch, double, x->n), *off = LUO_NEW_N(scratch, double, x->n);
    if (!w || !off) return luo_err_nomem(err);
    for (int32_t s = 0; s < x->n; s++) {
        luo_pool_parts parts;
        LUO_TRY(parts_of(x, s, LUO_POOL_SPEED_TOKENS, &parts, err));
        w[s] = parts.layer;
        off[s] = parts.embedding + parts.head;
    }
    return luo_plan_minmax(x->n, w, off, x->in->model->layers, NULL, NULL, layers, NULL, err);
}

/* The first stage without layers goes, and what is left is dealt anew, until all have some: who
 * has the embedding or the head may have changed. */
static luo_status deal_layers(luo_arena *scratch, split *x, luo_err *err)
{
    int64_t *layers = LUO_NEW_N(scratch, int64_t, x->n);
    if (!layers) return luo_err_nomem(err);
    for (;;) {
        int32_t none = 0;
        LUO_TRY(give_layers(scratch, x, layers, err));
        while (none < x->n && layers[none] > 0) none++;
        if (none == x->n) break;
        for (int32_t s = none + 1; s < x->n; s++) {
            x->first[s - 1] = x->first[s];
            x->width[s - 1] = x->width[s];
        }
        x->n--;
    }
    for (int32_t s = 0; s < x->n; s++) x->layers[s] = (int32_t)layers[s];
    return LUO_OK;
}

/* ---- room and costs ---- */

static double fullest(const void *of, int64_t tokens)
{
    const split *x = of;
    double worst = 0;
    for (int32_t s = 0; s < x->n; s++) {
        const luo_pool_stage stage = {x->width[s], s, x->n, x->in->ndevices / x->ndevices,
                                      x->layers[s]};
        for (int32_t i = 0; i < x->width[s]; i++)
            worst =
                fmax(worst, luo_pool_stage_ratio(x->in, &stage, x->dev[x->first[s] + i], tokens));
    }
    return worst;
}

static luo_status slowest_ms(const void *of, int64_t tokens, double *ms, luo_err *err)
{
    const split *x = of;
    *ms = 0;
    for (int32_t s = 0; s < x->n; s++) {
        luo_pool_parts parts;
        LUO_TRY(parts_of(x, s, tokens, &parts, err));
        *ms = fmax(*ms, x->layers[s] * parts.layer + parts.embedding + parts.head);
    }
    return LUO_OK;
}

static int32_t widest(const split *x)
{
    int32_t most = 0;
    for (int32_t s = 0; s < x->n; s++) most = x->width[s] > most ? x->width[s] : most;
    return most;
}

static luo_status seal(luo_arena *arena, const split *x, luo_pool_entry *out, luo_err *err)
{
    luo_pool_entry entry = {.tp = widest(x), .cp = 1, .pp = x->n};
    luo_pool_split *parts = LUO_NEW(arena, luo_pool_split);
    if (!parts) return luo_err_nomem(err);
    *parts = (luo_pool_split){x->ndevices, x->first, x->width, x->layers};
    entry.split = parts;
    entry.cap = luo_pool_room_of(fullest, x);
    if (entry.cap > 0) LUO_TRY(luo_pool_fill_costs(slowest_ms, x, x->in, &entry, err));
    *out = entry;
    return LUO_OK;
}

luo_status luo_pool_split_make(luo_arena *arena, const luo_pool_model_in *in,
                               const luo_pool_entry *of, const int32_t *devices, const double *rate,
                               bool keep, luo_pool_entry *out, luo_err *err)
{
    const int32_t n = luo_pool_devices(of);
    split x = {.in = in,
               .dev = devices,
               .rate = rate,
               .ndevices = n,
               .first = LUO_NEW_N(arena, int32_t, n),
               .width = LUO_NEW_N(arena, int32_t, n),
               .layers = LUO_NEW_N(arena, int32_t, n)};
    bool can = of->cp == 1 && !of->split, slow = false;
    if (!x.first || !x.width || !x.layers) return luo_err_nomem(err);
    *out = (luo_pool_entry){.cap = 0};
    for (int32_t i = 0; i < n; i++) slow |= rate[i] >= LUO_POOL_SLOW;
    for (int32_t s = 0; s < of->pp && can; s++) can = cut(&x, s * of->tp, of->tp, keep);
    if (!slow || !can || x.n == 0) return LUO_OK;
    LUO_TRY(deal_layers(arena, &x, err));
    if (x.n == 1 && of->pp == 1 && x.width[0] == of->tp) return LUO_OK; /* as it was */
    return seal(arena, &x, out, err);
}
