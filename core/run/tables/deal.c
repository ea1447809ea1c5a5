/* deal.c: how many samples of a step each device gets. */
#include <math.h>
#include <string.h>

#include "core/cost/cost.h"
#include "core/plan/auto/deal.h"
#include "core/run/tables/step.h"

/* ---- what a device computes ---- */

/* Kernels of forward and backward. Their sizes are affine in the samples, so that programs of one
 * sample and of two tell those of any. */
enum { KNOWN = 1 << 13 };
typedef struct known { /* seconds of a device without slowdown; samples 0: none */
    int64_t samples;
    int32_t kind;
    double seconds;
} known;

typedef struct work {
    const tables_layout *l;
    int32_t n;
    const luo_instr *one, *two;
    known
        *known; /* KNOWN of them, by samples and kind: searches ask for the same again and again */
} work;

static luo_status kernels_of(luo_arena *arena, const tables_layout *layout, int64_t samples,
                             const luo_role **out, luo_err *err)
{
    const tables_traffic plain = tables_traffic_plain();
    tables_layout alone = *layout;
    luo_programs *set;
    int64_t *counts = LUO_NEW_N(arena, int64_t, 2);
    if (!counts) return luo_err_nomem(err);
    alone.n = 1;
    alone.servers = 0;
    alone.samples = counts;
    alone.touched = counts + 1;
    counts[0] = samples;
    counts[1] = 1;
    LUO_TRY(tables_step(arena, &alone, LUO_TABLES_WAY_allreduce, NULL, &plain, &set, err));
    *out = &set->roles[0];
    return LUO_OK;
}

static luo_status open_work(luo_arena *arena, const tables_layout *layout, work *out, luo_err *err)
{
    const luo_role *one, *two;
    LUO_TRY(kernels_of(arena, layout, 1, &one, err));
    LUO_TRY(kernels_of(arena, layout, 2, &two, err));
    /* The third segment is what comes behind backward. */
    *out = (work){.l = layout,
                  .n = one->seg[2].first,
                  .one = one->instr,
                  .two = two->instr,
                  .known = LUO_NEW_N(arena, known, KNOWN)};
    return out->known ? LUO_OK : luo_err_nomem(err);
}

static luo_status healthy_seconds(const work *k, int32_t w, int64_t samples, double *out,
                                  luo_err *err)
{
    const luo_judge *judge = k->l->in->judge;
    const luo_dtype dtype = k->l->model->dtype;
    const luo_cost_ctx ctx = {.cluster = judge->cluster, .stack = judge->stack, .dtype = dtype};
    *out = 0;
    for (int32_t i = 0; i < k->n; i++) {
        if (k->one[i].kind != LUO_INSTR_COMPUTE) continue;
        luo_cost_key key = k->one[i].cost;
        double seconds;
        for (size_t a = 0; a < sizeof key.a / sizeof *key.a; a++)
            key.a[a] += (samples - 1) * (k->two[i].cost.a[a] - key.a[a]);
        LUO_TRY(luo_cost_instr(&ctx, k->l->dev[w], &key, dtype, &seconds, err));
        *out += seconds;
    }
    return LUO_OK;
}

static luo_status seconds_of(const work *k, int32_t w, int64_t samples, double *out, luo_err *err)
{
    const int32_t dev = k->l->dev[w], kind = k->l->in->judge->cluster->devices[dev].kind;
    known *at = &k->known[(samples + 1031 * (int64_t)kind) % KNOWN];
    if (at->samples != samples || at->kind != kind) {
        LUO_TRY(healthy_seconds(k, w, samples, &at->seconds, err));
        at->samples = samples;
        at->kind = kind;
    }
    *out = at->seconds * fmax(1, k->l->in->rate[dev]);
    return LUO_OK;
}

luo_status tables_work_seconds(luo_arena *arena, const tables_layout *layout, int32_t worker,
                               int64_t most, double *out, luo_err *err)
{
    const size_t mark = luo_arena_mark(arena);
    work k;
    luo_status st = open_work(arena, layout, &k, err);
    for (int64_t n = 1; st == LUO_OK && n <= most; n++)
        st = seconds_of(&k, worker, n, &out[n - 1], err);
    luo_arena_reset(arena, mark);
    return st;
}

/* ---- by speed ---- */

static luo_status by_speed(luo_arena *arena, const tables_layout *layout, const work *k,
                           luo_err *err)
{
    double speed[LUO_TABLES_DEVICES];
    for (int32_t w = 0; w < layout->n; w++) {
        LUO_TRY(seconds_of(k, w, (layout->in->batch + layout->n - 1) / layout->n, &speed[w], err));
        speed[w] = 1 / speed[w];
    }
    return luo_auto_deal_by_speed(arena, layout->in->batch, speed, layout->n, layout->samples, err);
}

/* ---- level: the slowest device is done as early as can be ---- */

typedef struct level {
    const work *work;
    const tables_layout *l;
    int32_t same[LUO_TABLES_DEVICES]; /* the first device that is like this one */
    int64_t cap[LUO_TABLES_DEVICES];  /* samples that are done in time */
    luo_err *err;
} level;

static bool alike(const tables_layout *layout, int32_t a, int32_t b)
{
    const luo_device *devices = layout->in->judge->cluster->devices;
    return devices[layout->dev[a]].kind == devices[layout->dev[b]].kind &&
           fmax(1, layout->in->rate[layout->dev[a]]) == fmax(1, layout->in->rate[layout->dev[b]]);
}

/* More samples never take less time. */
static luo_status cap_of(const level *v, int32_t w, double within_s, int64_t *out)
{
    int64_t low = 0,
            high = v->l->in->batch + 1; /* low is done in time, high is not, or not asked */
    while (high - low > 1) {
        const int64_t middle = low + (high - low) / 2;
        double seconds;
        LUO_TRY(seconds_of(v->work, w, middle, &seconds, v->err));
        if (seconds <= within_s)
            low = middle;
        else
            high = middle;
    }
    *out = low;
    return LUO_OK;
}

/* *good: each device has a sample, and together they have all. */
static luo_status caps_within(level *v, double within_s, bool *good)
{
    int64_t sum = 0;
    *good = true;
    for (int32_t w = 0; w < v->l->n; w++) {
        if (v->same[w] == w)
            LUO_TRY(cap_of(v, w, within_s, &v->cap[w]));
        else
            v->cap[w] = v->cap[v->same[w]];
        *good = *good && v->cap[w] > 0;
        sum += v->cap[w];
    }
    *good = *good && sum >= v->l->in->batch;
    return LUO_OK;
}

/* The least time in which all are done: what equal shares take is one. */
static luo_status least_time(level *v)
{
    enum { HALVES = 48 };
    const tables_layout *layout = v->l;
    double low = 0, high = 0;
    bool good;
    for (int32_t w = 0; w < layout->n; w++) {
        double seconds;
        if (v->same[w] != w) continue;
        LUO_TRY(seconds_of(v->work, w, (layout->in->batch + layout->n - 1) / layout->n, &seconds,
                           v->err));
        high = fmax(high, seconds);
    }
    for (int i = 0; i < HALVES; i++) {
        const double middle = (low + high) / 2;
        LUO_TRY(caps_within(v, middle, &good));
        if (good)
            high = middle;
        else
            low = middle;
    }
    return caps_within(v, high, &good);
}

static int64_t filled(const level *v, int64_t most)
{
    int64_t sum = 0;
    for (int32_t w = 0; w < v->l->n; w++) sum += v->cap[w] < most ? v->cap[w] : most;
    return sum;
}

/* Within that time shares are as equal as they can be: so rows are. */
static void fill(const level *v)
{
    const tables_layout *layout = v->l;
    int64_t low = 0, high = layout->in->batch + 1;
    while (high - low > 1) {
        const int64_t middle = low + (high - low) / 2;
        if (filled(v, middle) <= layout->in->batch)
            low = middle;
        else
            high = middle;
    }
    int64_t left = layout->in->batch - filled(v, low);
    for (int32_t w = 0; w < layout->n; w++) {
        layout->samples[w] = v->cap[w] < low ? v->cap[w] : low;
        if (left > 0 && v->cap[w] > low) layout->samples[w]++, left--;
    }
}

static luo_status levelled(const tables_layout *layout, const work *k, luo_err *err)
{
    level v = {.work = k, .l = layout, .err = err};
    for (int32_t w = 0; w < layout->n; w++)
        while (!alike(layout, v.same[w], w)) v.same[w]++;
    LUO_TRY(least_time(&v));
    fill(&v);
    return LUO_OK;
}

/* ---- all ---- */

luo_status tables_deal(luo_arena *arena, tables_layout *layout, luo_tables_deal deal, luo_err *err)
{
    const int64_t batch = layout->in->batch;
    const size_t mark = luo_arena_mark(arena);
    luo_status st = LUO_OK;
    work k = {0};
    if (batch < layout->n)
        return luo_err_set(err, LUO_EINPUT,
                           "a step has %lld samples; each of the %d devices needs "
                           "one at least.",
                           (long long)batch, layout->n);
    if (deal == LUO_TABLES_SPEED || deal == LUO_TABLES_LEVEL)
        st = open_work(arena, layout, &k, err);
    if (st == LUO_OK) switch (deal) {
        case LUO_TABLES_EQUAL:
            for (int32_t w = 0; w < layout->n; w++)
                layout->samples[w] = batch / layout->n + (w < batch % layout->n);
            break;
        case LUO_TABLES_SPEED:
            st = by_speed(arena, layout, &k, err);
            break;
        case LUO_TABLES_LEVEL:
            st = levelled(layout, &k, err);
            break;
        case LUO_TABLES_HAP:
            memcpy(layout->samples, layout->hap->samples,
                   (size_t)layout->n * sizeof *layout->samples);
            break;
        }
    luo_arena_reset(arena, mark);
    return st;
}
