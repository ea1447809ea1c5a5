/* The best list of node templates (docs/policies.md, `oobleck`): for a time T every template can
 * run so many micro-batches, and the list that runs most of them is found from the last node to the
 * first; the least T that reaches all micro-batches is found by halving. */
#include "core/plan/oobleck/oobleck.h"

#include <assert.h>
#include <math.h>
#include <string.h>

typedef struct template {
    double o, fill; /* o 0: it does not fit */
    int32_t stages;
} template;

typedef struct work {
    const luo_oobleck_in *in;
    int32_t n, most; /* nodes; largest template */
    template *at;    /* at[i * most + k - 1]: k nodes from node i on */
    double *y;       /* of a template's stages */
    int64_t *cap, *layers;
    int64_t *within; /* as at: micro-batches within the time at hand, see `within` */
    int64_t *best; /* rows of n + 1: most micro-batches of the nodes from i on */
    bool few;      /* fewer micro-batches than stages: one each is all that is asked */
    bool nomem;    /* a template could not be measured */
} work;

static const int64_t NEVER = -1;

static int32_t groups_of(const luo_oobleck_in *in, int32_t node, int32_t nodes)
{
    return in->first[node + nodes] - in->first[node];
}

/* Layers of a template into w->layers; false: it does not fit. */
static bool split(luo_arena *scratch, work *w, int32_t node, int32_t nodes)
{
    const luo_oobleck_in *in = w->in;
    const int32_t S = groups_of(in, node, nodes), group = in->first[node];
    if (S > in->layers) return false;
    for (int32_t s = 0; s < S; s++) {
        w->y[s] = in->y[group + s];
        w->cap[s] = in->cap ? in->cap(in->cap_ctx, group + s, S, s, in->least_pipelines,
                                      in->micro_batches)
                            : in->layers;
    }
    const luo_status st =
        luo_plan_split_layers(scratch, S, w->y, in->layers, w->cap, w->layers, NULL);
    w->nomem |= st == LUO_ENOMEM;
    if (st != LUO_OK) return false;
    for (int32_t s = 0; s < S; s++)
        if (w->layers[s] == 0) return false; /* a smaller one says the same without it */
    return true;
}

static void measure(luo_arena *scratch, work *w, int32_t node, int32_t nodes, template *out)
{
    *out = (template){.stages = groups_of(w->in, node, nodes)};
    if (!split(scratch, w, node, nodes)) return;
    for (int32_t s = 0; s < out->stages; s++) {
        const double t = w->y[s] * (double)w->layers[s];
        out->o = fmax(out->o, t);
        out->fill += t;
    }
}

static bool same_kind(const luo_oobleck_in *in, int32_t a, int32_t b)
{
    return !in->kind || in->kind[a] == in->kind[b];
}

/* Templates that begin on the next node are the same as long as the kinds are. */
static luo_status measure_all(luo_arena *scratch, work *w, luo_err *err)
{
    int32_t run = 0; /* nodes of one kind from i on */
    for (int32_t i = w->n - 1; i >= 0; i--) {
        run = i + 1 < w->n && same_kind(w->in, i, i + 1) ? run + 1 : 1;
        for (int32_t k = 1; k <= w->most && i + k <= w->n; k++) {
            template *t = &w->at[(int64_t)i * w->most + k - 1];
            if (run > k) *t = t[w->most];
            else measure(scratch, w, i, k, t);
        }
    }
    return w->nomem ? luo_err_nomem(err) : LUO_OK;
}

static int64_t least(const work *w, const template *t)
{
    return w->few ? 1 : t->stages;
}

/* Micro-batches within T; NEVER: not as many as it needs. The slack is for the rounding of the time
 * that T was made of. */
static int64_t within(const work *w, const template *t, double T)
{
    if (t->o == 0 || T * (1 + 1e-12) < t->fill) return NEVER;
    double m = floor((T * (1 + 1e-12) - t->fill) / t->o) + 1;
    if (m > (double)w->in->micro_batches) m = (double)w->in->micro_batches;
    return (int64_t)m < least(w, t) ? NEVER : (int64_t)m;
}

/* What `within` says of each template, once for all rows of best. */
static void ask_all(const work *w, double T)
{
    for (int32_t i = 0; i < w->n; i++)
        for (int32_t k = 1; k <= w->most && i + k <= w->n; k++) {
            const int64_t at = (int64_t)i * w->most + k - 1;
            w->within[at] = within(w, &w->at[at], T);
        }
}

/* Row `to` of best from row `from`: one more pipeline in front. from NULL: none follows. */
static void one_more(const work *w, const int64_t *from, int64_t *to)
{
    for (int32_t i = 0; i <= w->n; i++) {
        to[i] = NEVER;
        for (int32_t k = 1; k <= w->most && i + k <= w->n; k++) {
            const int64_t rest = from ? from[i + k] : i + k == w->n ? 0 : NEVER;
            const int64_t m = w->within[(int64_t)i * w->most + k - 1];
            if (rest == NEVER || m == NEVER) continue;
            if (m + rest > to[i]) to[i] = m + rest;
        }
    }
}

/* Any number of pipelines more, none included, in front of what the row counts. */
static void any_more(const work *w, int64_t *row)
{
    for (int32_t i = w->n; i >= 0; i--)
        for (int32_t k = 1; k <= w->most && i + k <= w->n; k++) {
            const int64_t m = w->within[(int64_t)i * w->most + k - 1];
            if (m == NEVER || row[i + k] == NEVER) continue;
            if (m + row[i + k] > row[i]) row[i] = m + row[i + k];
        }
}

/* Do all micro-batches end within T? In so many pipelines that each has one. */
static bool reaches(const work *w, double T)
{
    const int64_t M = w->in->micro_batches;
    int64_t *a = w->best, *b = w->best + w->n + 1;
    ask_all(w, T);
    one_more(w, NULL, a);
    const int32_t most = w->in->most_pipelines > 0 ? w->in->most_pipelines : w->n;
    for (int32_t p = 1; p < w->n && p < M && p < most; p++) {
        int64_t *swap = a;
        /* never more pipelines than M */
        if (p >= w->in->least_pipelines && M >= w->n && most == w->n) break;
        if (p >= w->in->least_pipelines && a[0] >= M) return true;
        one_more(w, a, b);
        a = b;
        b = swap;
    }
    if (M >= w->n && most == w->n) any_more(w, a);
    return a[0] >= M;
}

/* Least T that reaches; INFINITY: none does. */
static double least_time(const work *w)
{
    double lo = 0, hi = 0;
    for (int64_t i = 0; i < (int64_t)w->n * w->most; i++)
        hi = fmax(hi, w->at[i].fill + w->at[i].o * (double)w->in->micro_batches);
    if (!reaches(w, hi)) return INFINITY;
    for (int round = 0; round < 200 && hi - lo > 1e-13 * hi; round++) {
        const double T = lo + (hi - lo) / 2;
        if (reaches(w, T)) hi = T;
        else lo = T;
    }
    return hi;
}

/* Rows 0.. of best, for 1, 2, .. pipelines, until all micro-batches fit; their number. */
static int32_t fewest(const work *w, double T)
{
    int32_t p = 0;
    ask_all(w, T);
    do {
        one_more(w, p ? w->best + (int64_t)(p - 1) * (w->n + 1) : NULL,
                 w->best + (int64_t)p * (w->n + 1));
        p++;
    } while (p < w->n && (p < w->in->least_pipelines ||
                          w->best[(int64_t)(p - 1) * (w->n + 1)] < w->in->micro_batches));
    return p;
}

/* Sizes of the list, the largest first, for the time that `fewest` was asked for. */
static void choose(const work *w, int32_t pipes, int32_t *size)
{
    int64_t need = w->in->micro_batches;
    int32_t at = 0;
    for (int32_t p = 0; p < pipes; p++) {
        const int64_t *rest = w->best + (int64_t)(pipes - p - 2) * (w->n + 1);
        for (int32_t k = w->n - at < w->most ? w->n - at : w->most; k >= 1; k--) {
            const int64_t m = w->within[(int64_t)at * w->most + k - 1];
            const int64_t more = p == pipes - 1 ? (at + k == w->n ? 0 : NEVER) : rest[at + k];
            if (m == NEVER || more == NEVER || m + more < need) continue;
            size[p] = k;
            need -= m;
            at += k;
            break;
        }
    }
    assert(at == w->n);
}

static luo_status make_work(luo_arena *arena, const luo_oobleck_in *in, work *out, luo_err *err)
{
    work w = {.in = in, .n = in->nnodes};
    assert(in->nnodes >= 1 && in->least_pipelines >= 1);
    for (int32_t i = 0; i < w.n; i++)
        for (int32_t k = 1; i + k <= w.n && groups_of(in, i, k) <= in->layers; k++)
            if (k > w.most) w.most = k;
    const int64_t groups = in->first[w.n];
    w.few = groups > in->micro_batches;
    w.at = LUO_NEW_N(arena, template, (int64_t)w.n * w.most);
    w.within = LUO_NEW_N(arena, int64_t, (int64_t)w.n * w.most);
    w.y = LUO_NEW_N(arena, double, groups);
    w.cap = LUO_NEW_N(arena, int64_t, groups);
    w.layers = LUO_NEW_N(arena, int64_t, groups);
    w.best = LUO_NEW_N(arena, int64_t, (int64_t)(w.n < 2 ? 2 : w.n) * (w.n + 1));
    if ((w.most && (!w.at || !w.within)) || !w.y || !w.cap || !w.layers || !w.best)
        return luo_err_nomem(err);
    *out = w;
    return LUO_OK;
}

static luo_status make_pipes(luo_arena *arena, luo_arena *scratch, work *w, const int32_t *size,
                             luo_oobleck_plan *plan, luo_err *err)
{
    luo_pipe_time *time = LUO_NEW_N(scratch, luo_pipe_time, plan->npipes);
    int64_t *m = LUO_NEW_N(scratch, int64_t, plan->npipes);
    plan->pipes = LUO_NEW_N(arena, luo_oobleck_pipe, plan->npipes);
    if (!time || !m || !plan->pipes) return luo_err_nomem(err);
    for (int32_t i = 0, at = 0; i < plan->npipes; at += size[i++]) {
        const int32_t S = groups_of(w->in, at, size[i]);
        double *t = LUO_NEW_N(scratch, double, S);
        int64_t *layers = LUO_NEW_N(arena, int64_t, S);
        if (!t || !layers) return luo_err_nomem(err);
        split(scratch, w, at, size[i]);
        memcpy(layers, w->layers, (size_t)S * sizeof *layers);
        for (int32_t s = 0; s < S; s++) t[s] = w->y[s] * (double)layers[s];
        time[i] = (luo_pipe_time){.stages = S, .t = t};
        plan->pipes[i] = (luo_oobleck_pipe){at, size[i], w->in->first[at], S, layers, 0};
    }
    LUO_TRY(luo_replan_rebalance(scratch, time, plan->npipes, w->in->micro_batches,
                                 w->in->full_recompute, m, &plan->event, err));
    for (int32_t i = 0; i < plan->npipes; i++) plan->pipes[i].micro_batches = m[i];
    return LUO_OK;
}

luo_status luo_oobleck(luo_arena *arena, const luo_oobleck_in *in, luo_oobleck_plan *out,
                       luo_err *err)
{
    luo_status st = LUO_OK;
    luo_arena *scratch = luo_arena_new(0);
    luo_oobleck_plan plan = {0};
    work w = {0};
    double T = INFINITY;
    int32_t *size = NULL;

    if (!scratch) return luo_err_nomem(err);
    LUO_TRY_OUT(make_work(scratch, in, &w, err));
    LUO_TRY_OUT(measure_all(scratch, &w, err));
    if (in->micro_batches >= in->least_pipelines && w.n >= in->least_pipelines) T = least_time(&w);
    if (isinf(T)) {
        st = luo_err_set(err, LUO_EINFEASIBLE,
                         "no %d pipelines of whole nodes hold %lld layers on %d nodes; more nodes, "
                         "`recompute` or `zero` 1 are needed.", in->least_pipelines,
                         (long long)in->layers, in->nnodes);
        goto out;
    }
    plan.npipes = fewest(&w, T);
    size = LUO_NEW_N(scratch, int32_t, plan.npipes);
    if (!size) {
        st = luo_err_nomem(err);
        goto out;
    }
    choose(&w, plan.npipes, size);
    LUO_TRY_OUT(make_pipes(arena, scratch, &w, size, &plan, err));
    *out = plan;
out:
    luo_arena_free(scratch);
    return st;
}
