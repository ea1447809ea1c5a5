/* Mixed plans: few kinds of replicas side by side, tried on sample batches. The programme gives
 * each range of lengths devices of its own; dispatch lets short sequences use long replicas that
 * are idle, so simple mixes can beat its answer. */
#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "core/plan/hydraulis/candidates_internal.h"

enum {
    FEW_DEVICES = 64,
    PLANS = 2000,
    KINDS = 3,
    SAMPLES = 8,
    SAMPLES_OF_MANY = 2,
    MANY = 128,
    BEST_OF_SAMPLE = 3,
    BEST_MEANS = 8
};

typedef struct mix {
    const luo_candidates_in *in;
    luo_arena *arena;
    int32_t nkinds;
    int32_t *kind; /* entries that no other one dominates */
    luo_gathered made;
} mix;

/* ---- kinds ---- */

/* y is no larger, holds no less and works no slower per device wherever both hold a sequence. */
static bool dominates(const luo_pool_entry *y, const luo_pool_entry *x, int64_t ctx)
{
    const int64_t at[] = {512, 2048, 8192, ctx};
    const int32_t gx = luo_pool_devices(x), gy = luo_pool_devices(y);
    bool strictly = gy < gx || y->cap > x->cap;
    if (gy > gx || y->cap < x->cap) return false;
    for (int i = 0; i < 4; i++) {
        if (at[i] > x->cap) continue;
        const double mine = gx * luo_pool_cost(x, at[i]), theirs = gy * luo_pool_cost(y, at[i]);
        if (theirs > mine) return false;
        strictly = strictly || theirs < mine;
    }
    return strictly;
}

static luo_status choose_kinds(mix *m, luo_err *err)
{
    const luo_pool *pool = m->in->pool;
    m->kind = LUO_NEW_N(m->arena, int32_t, pool->n);
    if (!m->kind) return luo_err_nomem(err);
    for (int32_t k = 0; k < pool->n; k++) {
        bool kept = pool->entry[k].cap > 0 && luo_pool_devices(&pool->entry[k]) <= m->in->devices;
        for (int32_t o = 0; kept && o < pool->n; o++)
            if (o != k && pool->entry[o].cap > 0)
                kept = !dominates(&pool->entry[o], &pool->entry[k], m->in->rule.most);
        if (kept) m->kind[m->nkinds++] = k;
    }
    return LUO_OK;
}

static int32_t group_size(const mix *m, int32_t k)
{
    return luo_pool_devices(&m->in->pool->entry[m->kind[k]]);
}

/* ---- plans of few devices: all that fill them ---- */

static luo_status every(mix *m, luo_counts counts, int32_t from, int32_t left, luo_err *err)
{
    if (left == 0) return luo_gathered_add(&m->made, counts, LUO_CANDIDATE_MIXED, NAN, err);
    if (counts.n == KINDS) return LUO_OK;
    for (int32_t k = from; k < m->nkinds; k++)
        for (int32_t copies = 1; copies * group_size(m, k) <= left && m->made.n < PLANS; copies++) {
            luo_counts more = counts;
            luo_counts_add(&more, m->kind[k], copies);
            LUO_TRY(every(m, more, k + 1, left - copies * group_size(m, k), err));
        }
    return LUO_OK;
}

/* ---- plans of many devices: few of two kinds, the rest of a third ---- */

static luo_status one_mix(mix *m, int32_t a, int32_t h, int32_t b, int32_t some, int32_t c,
                          luo_err *err)
{
    luo_counts counts = {0};
    int32_t left = m->in->devices - h * group_size(m, a) - some * group_size(m, b);
    if (left < 0) return LUO_OK;
    luo_counts_add(&counts, m->kind[a], h);
    if (some > 0) luo_counts_add(&counts, m->kind[b], some);
    if (left >= group_size(m, c)) luo_counts_add(&counts, m->kind[c], left / group_size(m, c));
    left %= group_size(m, c);
    for (int32_t k = 0, least = -1; left > 0; least = -1) {
        for (k = 0; k < m->nkinds; k++)
            if (group_size(m, k) <= left && (least < 0 || group_size(m, k) < group_size(m, least)))
                least = k;
        if (least < 0) break;
        luo_counts_add(&counts, m->kind[least], left / group_size(m, least));
        left %= group_size(m, least);
    }
    return luo_gathered_add(&m->made, counts, LUO_CANDIDATE_MIXED, NAN, err);
}

static luo_status some_mixes(mix *m, luo_err *err)
{
    static const int32_t few[] = {1, 2, 4, 8}, second[] = {0, 1, 2, 4, 8, 16};
    for (size_t h = 0; h < sizeof few / sizeof *few; h++)
        for (size_t s = 0; s < sizeof second / sizeof *second; s++)
            for (int32_t a = 0; a < m->nkinds; a++)
                for (int32_t b = 0; b < (second[s] ? m->nkinds : 1); b++)
                    for (int32_t c = 0; c < m->nkinds && m->made.n < PLANS; c++) {
                        if (c == a || (second[s] && (b == a || b == c))) continue;
                        LUO_TRY(one_mix(m, a, few[h], b, second[s], c, err));
                    }
    return LUO_OK;
}

/* ---- sample batches ---- */

typedef struct sample {
    int64_t *length;
    int32_t n;
} sample;

static luo_status draw_samples(mix *m, sample *out, int32_t n, luo_err *err)
{
    luo_length_source source = {.rng = luo_rng_stream(m->in->seed, "hydraulis")};
    for (int32_t s = 0; s < n; s++)
        LUO_TRY(luo_lengths_batch(m->arena, m->in->lengths, &m->in->rule, m->in->sequences, &source,
                                  &out[s].length, &out[s].n, err));
    return LUO_OK;
}

typedef struct tried { /* a plan on the samples */
    luo_gathered_plan plan;
    bool fits;                                            /* all of them */
    double bound[SAMPLES], ms[SAMPLES], bound_mean, mean; /* INFINITY: not known, or does not fit */
} tried;

typedef struct trial {
    const luo_pool *pool;
    const double *rate; /* luo_candidates_in */
    const sample *sample;
    int32_t nsamples;
    /* The values that count as good so far, rising: of each sample, of the means. */
    double best[SAMPLES][BEST_OF_SAMPLE], means[BEST_MEANS];
} trial;

static int by_bound(const void *x, const void *y)
{
    const tried *a = *(tried *const *)x, *b = *(tried *const *)y;
    if (a->bound_mean != b->bound_mean) return a->bound_mean < b->bound_mean ? -1 : 1;
    return a < b ? -1 : a > b;
}

static void keep_least(double *rising, int32_t n, double value)
{
    if (!(value < rising[n - 1])) return;
    int32_t at = n - 1;
    for (; at > 0 && rising[at - 1] > value; at--) rising[at] = rising[at - 1];
    rising[at] = value;
}

static luo_status bounds(luo_arena *arena, const trial *x, tried *t, luo_err *err)
{
    luo_replicas plan;
    const size_t mark = luo_arena_mark(arena);
    LUO_TRY(luo_counts_plan(arena, &t->plan.counts, &plan, err));
    luo_step_speeds(x->pool, &plan, x->rate);
    t->fits = true;
    t->mean = INFINITY;
    for (int32_t s = 0; s < x->nsamples; s++) {
        t->bound[s] = luo_dispatch_bound(x->pool, plan.replica, plan.n, x->sample[s].length,
                                         x->sample[s].n, false);
        t->ms[s] = INFINITY;
        t->fits = t->fits && isfinite(t->bound[s]);
        t->bound_mean += t->bound[s] / x->nsamples;
    }
    luo_arena_reset(arena, mark);
    return LUO_OK;
}

static bool can_win(const trial *x, const tried *t)
{
    if (t->bound_mean < x->means[BEST_MEANS - 1]) return true;
    for (int32_t s = 0; s < x->nsamples; s++)
        if (t->bound[s] < x->best[s][BEST_OF_SAMPLE - 1]) return true;
    return false;
}

static luo_status try_plan(luo_arena *arena, trial *x, tried *t, luo_err *err)
{
    const luo_dispatch_opts opts = {.fast = true};
    const size_t mark = luo_arena_mark(arena);
    luo_replicas plan;
    double sum = 0;
    LUO_TRY(luo_counts_plan(arena, &t->plan.counts, &plan, err));
    luo_step_speeds(x->pool, &plan, x->rate);
    for (int32_t s = 0; s < x->nsamples; s++) {
        int32_t *assign = LUO_NEW_N(arena, int32_t, x->sample[s].n);
        if (!assign) return luo_err_nomem(err);
        if (!isfinite(t->bound[s])) continue;
        LUO_TRY(luo_dispatch(arena, x->pool, plan.replica, plan.n, x->sample[s].length,
                             x->sample[s].n, &opts, assign, &t->ms[s], err));
        keep_least(x->best[s], BEST_OF_SAMPLE, t->ms[s]);
        sum += t->ms[s];
    }
    if (t->fits) {
        t->mean = sum / x->nsamples;
        keep_least(x->means, BEST_MEANS, t->mean);
    }
    luo_arena_reset(arena, mark);
    return LUO_OK;
}

static bool is_good(const trial *x, const tried *t)
{
    if (t->mean <= x->means[BEST_MEANS - 1] && isfinite(t->mean)) return true;
    for (int32_t s = 0; s < x->nsamples; s++)
        if (t->ms[s] <= x->best[s][BEST_OF_SAMPLE - 1] && isfinite(t->ms[s])) return true;
    return false;
}

/* The three best of each sample and the eight best means, of all that are gathered and made. */
static luo_status try_all(mix *m, luo_gathered *gathered, trial *x, luo_err *err)
{
    tried *all = LUO_NEW_N(m->arena, tried, m->made.n);
    tried **order = LUO_NEW_N(m->arena, tried *, m->made.n);
    if (!all || !order) return luo_err_nomem(err);
    for (int32_t s = 0; s < SAMPLES; s++)
        for (int32_t k = 0; k < BEST_OF_SAMPLE; k++) x->best[s][k] = INFINITY;
    for (int32_t k = 0; k < BEST_MEANS; k++) x->means[k] = INFINITY;
    for (int32_t p = 0; p < m->made.n; p++) {
        all[p].plan = m->made.at[p];
        order[p] = &all[p];
        LUO_TRY(bounds(m->arena, x, &all[p], err));
    }
    qsort(order, (size_t)m->made.n, sizeof(tried *), by_bound);
    for (int32_t p = 0; p < m->made.n; p++)
        if (can_win(x, order[p])) LUO_TRY(try_plan(m->arena, x, order[p], err));
    for (int32_t p = 0; p < m->made.n; p++)
        if (is_good(x, &all[p]))
            LUO_TRY(luo_gathered_add(gathered, all[p].plan.counts, LUO_CANDIDATE_MIXED, all[p].mean,
                                     err));
    return LUO_OK;
}

luo_status luo_gathered_mix(const luo_candidates_in *in, luo_gathered *gathered,
                            int32_t *tried_plans, luo_err *err)
{
    mix m = {
        .in = in, .arena = gathered->arena, .made = {.arena = gathered->arena, .pool = in->pool}};
    sample samples[SAMPLES];
    trial x = {.pool = in->pool,
               .rate = in->rate,
               .sample = samples,
               .nsamples = in->devices <= MANY ? SAMPLES : SAMPLES_OF_MANY};
    LUO_TRY(choose_kinds(&m, err));
    LUO_TRY(draw_samples(&m, samples, x.nsamples, err));
    if (in->devices <= FEW_DEVICES)
        LUO_TRY(every(&m, (luo_counts){0}, 0, in->devices, err));
    else
        LUO_TRY(some_mixes(&m, err));
    *tried_plans = m.made.n;
    return try_all(&m, gathered, &x, err);
}
