/* The best uniform plan on the groups that are left (docs/policies.md, `restart`). */
#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/vec.h"
#include "core/plan/replan/replan.h"

typedef struct shape {
    int32_t pipelines, stages;
    double least; /* bound: micro-batches times the slowest stage */
} shape;

typedef struct work {
    const luo_restart_in *in;
    int32_t *fast;   /* groups, fastest first, by index on ties */
    int32_t *group;  /* those of a shape, in index order */
    double *y, *t;   /* per stage */
    int64_t *cap, *layers;
} work;

static luo_status make_work(luo_arena *arena, const luo_restart_in *in, work *out, luo_err *err)
{
    const int32_t n = in->ngroups;
    work w = {in,
              LUO_NEW_N(arena, int32_t, n),
              LUO_NEW_N(arena, int32_t, n),
              LUO_NEW_N(arena, double, n),
              LUO_NEW_N(arena, double, n),
              LUO_NEW_N(arena, int64_t, n),
              LUO_NEW_N(arena, int64_t, n)};
    if (!w.fast || !w.group || !w.y || !w.t || !w.cap || !w.layers) return luo_err_nomem(err);
    for (int32_t i = 0; i < n; i++) { /* stable insertion: equal groups keep their order */
        int32_t at = i;
        for (; at > 0 && in->y[w.fast[at - 1]] > in->y[i]; at--) w.fast[at] = w.fast[at - 1];
        w.fast[at] = i;
    }
    *out = w;
    return LUO_OK;
}

/* Layers of every stage for dp pipelines of pp stages. *fits: they do. */
static luo_status fill_shape(luo_arena *scratch, work *w, int32_t dp, int32_t pp, bool *fits,
                             luo_err *err)
{
    const luo_restart_in *in = w->in;
    const int32_t used = dp * pp;
    memcpy(w->group, w->fast, (size_t)used * sizeof *w->group);
    qsort(w->group, (size_t)used, sizeof *w->group, luo_vec_by_int32);
    for (int32_t s = 0; s < pp; s++) {
        w->y[s] = 0;
        w->cap[s] = in->layers;
        for (int32_t d = 0; d < dp; d++) {
            const int32_t g = w->group[d + dp * s];
            w->y[s] = fmax(w->y[s], in->y[g]);
            if (!in->cap) continue;
            const int64_t cap = in->cap(in->cap_ctx, g, pp, s, dp, in->micro_batches / dp);
            if (cap < w->cap[s]) w->cap[s] = cap;
        }
    }
    const luo_status st =
        luo_plan_split_layers(scratch, pp, w->y, in->layers, w->cap, w->layers, NULL);
    if (st == LUO_ENOMEM) return luo_err_nomem(err);
    *fits = st == LUO_OK;
    for (int32_t s = 0; *fits && s < pp; s++) {
        *fits = w->layers[s] > 0; /* else a smaller pp says the same without it */
        w->t[s] = w->y[s] * (double)w->layers[s];
    }
    return LUO_OK;
}

static bool allowed(const luo_restart_in *in, int32_t dp, int32_t pp)
{
    return in->micro_batches % dp == 0 && (!in->strict_uniform || in->layers % pp == 0);
}

static int by_least(const void *a, const void *b)
{
    const shape *x = a, *y = b;
    if (x->least != y->least) return x->least < y->least ? -1 : 1;
    if (x->stages != y->stages) return x->stages < y->stages ? -1 : 1;
    return (x->pipelines > y->pipelines) - (x->pipelines < y->pipelines);
}

static luo_status list_shapes(luo_arena *arena, work *w, shape **out, int32_t *n, luo_err *err)
{
    const int32_t G = w->in->ngroups;
    int64_t most = 0;
    *n = 0;
    for (int32_t dp = 1; dp <= G; dp++) most += G / dp;
    *out = LUO_NEW_N(arena, shape, most);
    if (!*out) return luo_err_nomem(err);
    for (int32_t dp = 1; dp <= G; dp++)
        for (int32_t pp = 1; dp * pp <= G && pp <= w->in->layers; pp++) {
            double o = 0;
            bool fits = false;
            if (allowed(w->in, dp, pp)) LUO_TRY(fill_shape(arena, w, dp, pp, &fits, err));
            if (!fits) continue;
            for (int32_t s = 0; s < pp; s++) o = fmax(o, w->t[s]);
            (*out)[(*n)++] = (shape){dp, pp, o * (double)(w->in->micro_batches / dp)};
        }
    qsort(*out, (size_t)*n, sizeof **out, by_least);
    return LUO_OK;
}

typedef struct ranked { /* shapes simulated, best first */
    const shape *shape;
    double event;
} ranked;

static bool before(const ranked *x, const ranked *y)
{
    if (x->event != y->event) return x->event < y->event;
    if (x->shape->stages != y->shape->stages) return x->shape->stages < y->shape->stages;
    return x->shape->pipelines < y->shape->pipelines;
}

/* The `most` best; a shape whose bound is above the last of them cannot be one. */
static luo_status find_best(luo_arena *scratch, work *w, const shape *at, int32_t nshapes,
                            int32_t most, ranked *best, int32_t *n, luo_err *err)
{
    *n = 0;
    for (int32_t i = 0; i < nshapes; i++) {
        ranked x = {&at[i], 0};
        bool fits; /* as it did in the list */
        if (*n == most && at[i].least > best[*n - 1].event) break;
        LUO_TRY(fill_shape(scratch, w, at[i].pipelines, at[i].stages, &fits, err));
        const luo_pipe_time time = {at[i].stages, w->t, w->in->micro_batches / at[i].pipelines};
        LUO_TRY(luo_replan_event_time(scratch, &time, 1, w->in->full_recompute, &x.event, err));
        int32_t place = *n;
        while (place > 0 && before(&x, &best[place - 1])) place--;
        if (place == most) continue;
        if (*n < most) ++*n;
        memmove(best + place + 1, best + place, (size_t)(*n - place - 1) * sizeof *best);
        best[place] = x;
    }
    return LUO_OK;
}

static luo_status write_down(luo_arena *arena, luo_arena *scratch, work *w, const ranked *x,
                             luo_restart_plan *out, luo_err *err)
{
    const int32_t dp = x->shape->pipelines, pp = x->shape->stages;
    bool fits; /* as it did in the list */
    LUO_TRY(fill_shape(scratch, w, dp, pp, &fits, err));
    *out = (luo_restart_plan){.pipelines = dp, .stages = pp, .event = x->event,
                              .micro_batches = w->in->micro_batches / dp,
                              .group = LUO_NEW_N(arena, int32_t, (int64_t)dp * pp),
                              .layers = LUO_NEW_N(arena, int64_t, pp)};
    if (!out->group || !out->layers) return luo_err_nomem(err);
    memcpy(out->group, w->group, (size_t)dp * (size_t)pp * sizeof *out->group);
    memcpy(out->layers, w->layers, (size_t)pp * sizeof *out->layers);
    return LUO_OK;
}

luo_status luo_replan_restart_shapes(luo_arena *arena, const luo_restart_in *in, int32_t most,
                                     luo_restart_plan *out, int32_t *n, luo_err *err)
{
    assert(most >= 1);
    luo_status st = LUO_OK;
    luo_arena *scratch = luo_arena_new(0);
    shape *at;
    int32_t nshapes;
    work w = {0};

    if (!scratch) return luo_err_nomem(err);
    ranked *best = LUO_NEW_N(scratch, ranked, most);
    if (!best) {
        st = luo_err_nomem(err);
        goto out;
    }
    LUO_TRY_OUT(make_work(scratch, in, &w, err));
    LUO_TRY_OUT(list_shapes(scratch, &w, &at, &nshapes, err));
    LUO_TRY_OUT(find_best(scratch, &w, at, nshapes, most, best, n, err));
    if (*n == 0) {
        st = luo_err_set(err, LUO_EINFEASIBLE,
                         "no uniform plan of %lld layers fits on %d groups; more groups, "
                         "`recompute` or `zero` 1 are needed.", (long long)in->layers, in->ngroups);
        goto out;
    }
    for (int32_t i = 0; i < *n; i++)
        LUO_TRY_OUT(write_down(arena, scratch, &w, &best[i], &out[i], err));
out:
    luo_arena_free(scratch);
    return st;
}

luo_status luo_replan_restart_shape(luo_arena *arena, const luo_restart_in *in,
                                    luo_restart_plan *out, luo_err *err)
{
    int32_t n;
    return luo_replan_restart_shapes(arena, in, 1, out, &n, err);
}
