/* Costs and room of strategies by the closed forms of a layer and of memory. */
#include "core/plan/hydraulis/pool_model.h"

#include <assert.h>
#include <math.h>

#include "core/cost/step/layer.h"
#include "core/cost/step/memory.h"
#include "core/plan/hydraulis/pool_model_internal.h"

enum { MANY_TOKENS = 64 * LUO_POOL_ROUND, POINTS = 9, TERMS = 3, PP_MOST = 8, TP_MOST = 16 };

/* ---- fit ---- */

typedef struct points {
    const double *tokens, *ms;
    int32_t n;
    double ctx; /* of the longest sequence: what is beyond are several */
} points;

/* Of point p: sum of the squares of its sequences and tokens, by those of the last point; 1. */
static void terms_of(const points *at, int32_t p, double out[TERMS])
{
    const double longest = at->tokens[at->n - 1], s = at->tokens[p] / longest;
    out[0] = s * fmin(s, at->ctx / longest);
    out[1] = s;
    out[2] = 1;
}

/* Solves for the terms of `mask`; false: singular, or one of them is negative. */
static bool solve(const points *at, unsigned mask, double out[TERMS])
{
    double m[TERMS][TERMS + 1] = {{0}};
    int32_t term[TERMS] = {0}, k = 0;
    for (int32_t i = 0; i < TERMS; i++)
        if (mask >> i & 1) term[k++] = i;
    for (int32_t p = 0; p < at->n; p++) {
        double x[TERMS];
        terms_of(at, p, x);
        for (int32_t i = 0; i < TERMS; i++) x[i] /= at->ms[p];
        for (int32_t i = 0; i < k; i++) {
            for (int32_t j = 0; j < k; j++) m[i][j] += x[term[i]] * x[term[j]];
            m[i][k] += x[term[i]];
        }
    }
    for (int32_t i = 0; i < k; i++) {
        if (!(fabs(m[i][i]) > 1e-14)) return false;
        for (int32_t r = 0; r < k; r++) {
            const double f = r == i ? 0 : m[r][i] / m[i][i];
            for (int32_t j = i; j <= k; j++) m[r][j] -= f * m[i][j];
        }
    }
    out[0] = out[1] = out[2] = 0;
    for (int32_t i = 0; i < k; i++) {
        out[term[i]] = m[i][k] / m[i][i];
        if (out[term[i]] < 0) return false;
    }
    return true;
}

static double squares(const points *at, const double x[TERMS])
{
    double sum = 0;
    for (int32_t p = 0; p < at->n; p++) {
        double term[TERMS];
        terms_of(at, p, term);
        const double off = (x[0] * term[0] + x[1] * term[1] + x[2]) / at->ms[p] - 1;
        sum += off * off;
    }
    return sum;
}

void luo_pool_model_fit(const double *tokens, const double *ms, int32_t n, double ctx, double *a,
                        double *b, double *c)
{
    const points at = {tokens, ms, n, ctx};
    double best = INFINITY, kept[TERMS] = {0};
    const double longest = tokens[n - 1];
    /* Of all sets of terms, so that the best without a negative one is found. */
    for (unsigned mask = 1; mask < 1u << TERMS; mask++) {
        double x[TERMS];
        if (!solve(&at, mask, x)) continue;
        const double now = squares(&at, x);
        if (now >= best) continue;
        best = now;
        for (int32_t i = 0; i < TERMS; i++) kept[i] = x[i];
    }
    *a = kept[0] / (longest * longest);
    *b = kept[1] / longest;
    *c = kept[2];
}

/* ---- room ---- */

typedef struct shape {
    const luo_pool_model_in *in;
    int32_t tp, pp, replicas; /* that the devices have room for */
    const int32_t *dev;       /* first group of each device type, tp each */
    int32_t ngroups;
} shape;

double luo_pool_stage_ratio(const luo_pool_model_in *in, const luo_pool_stage *stage, int32_t dev,
                            int64_t tokens)
{
    const luo_memory_rules rules = luo_stack_memory(in->stack);
    const luo_profile *profile = luo_cluster_profile(in->cluster, dev);
    const luo_mem_spec spec = {.model = in->model,
                               .layers = stage->layers,
                               .recompute_layers = -1,
                               .dense_layers = -1,
                               .micro_batch_tokens = tokens,
                               .sequence_tokens = tokens,
                               .tp = stage->tp,
                               .stage = stage->index,
                               .stages = stage->of,
                               .chunks = 1,
                               .micro_batches = stage->of,
                               .replicas = stage->replicas,
                               .zero = 1,
                               .schedule = LUO_SCHED_1F1B,
                               .embedding = stage->index == 0,
                               .head = stage->index == stage->of - 1,
                               .sequence_parallel = stage->tp > 1,
                               .attention_fused = in->stack->attention_fused,
                               .rules = &rules,
                               .bucket = luo_bucketing_of((luo_bucketing){0}, in->stack->bucket)};
    luo_mem mem;
    luo_mem_stage(&spec, &mem);
    return ((double)mem.needed + profile->reserved_bytes) / profile->memory_bytes;
}

/* Bytes over room of the fullest stage, which is the first or the last: layers are alike, or of a
 * model with experts taken as those of an average stage. */
static double memory_ratio(const void *shape_, int64_t tokens)
{
    const shape *x = shape_;
    const luo_device *at = x->in->cluster->devices;
    double worst = 0;
    for (int32_t index = 0; index<x->pp; index += x->pp> 1 ? x->pp - 1 : 1) {
        const luo_pool_stage stage = {x->tp, index, x->pp, x->replicas,
                                      (double)x->in->model->layers / x->pp};
        for (int32_t i = 0; i < x->ngroups * x->tp; i++)
            if (i == 0 || at[x->dev[i]].kind != at[x->dev[i - 1]].kind)
                worst = fmax(worst, luo_pool_stage_ratio(x->in, &stage, x->dev[i], tokens));
    }
    return worst;
}

int64_t luo_pool_room_of(double (*ratio)(const void *, int64_t), const void *of)
{
    enum { MOST = 1 << 20 }; /* multiples of LUO_POOL_ROUND tokens */
    int64_t lo = 0, hi = MOST;
    while (lo < hi) {
        const int64_t mid = lo + (hi - lo + 1) / 2;
        if (ratio(of, mid * LUO_POOL_ROUND) <= 1)
            lo = mid;
        else
            hi = mid - 1;
    }
    return lo * LUO_POOL_ROUND;
}

/* ---- costs ---- */

/* Mean over the layers of all kinds; ms of forward and backward. */
static luo_status mean_layer(const luo_cost_ctx *cost, luo_layer_shape layer, const int32_t *dev,
                             double *ms, luo_err *err)
{
    const int64_t layers = layer.model->layers;
    int64_t count[LUO_LAYER_KINDS] = {0}, last[LUO_LAYER_KINDS] = {0};
    for (int64_t l = 0; l < layers; l++) {
        const int32_t kind = luo_model_layer_kind(layer.model, l);
        count[kind]++;
        last[kind] = l;
    }
    *ms = 0;
    for (int k = 0; k < LUO_LAYER_KINDS; k++) {
        luo_layer_cost one;
        if (count[k] == 0 && layers > 0) continue; /* a model without any is told by its layer */
        layer.layer = last[k];
        LUO_TRY(luo_cost_layer(cost, &layer, dev, 0, &one, err));
        *ms += 1e3 * (one.forward + one.backward) * (double)count[k] / (double)layers;
    }
    return LUO_OK;
}

luo_status luo_pool_parts_of(const luo_pool_model_in *in, int32_t tp, const int32_t *dev,
                             int64_t tokens, luo_pool_parts *out, luo_err *err)
{
    const luo_cost_ctx cost = {
        .cluster = in->cluster, .stack = in->stack, .dtype = in->model->dtype};
    const luo_layer_shape layer = {.model = in->model,
                                   .tokens = tokens,
                                   .sequence_tokens = tokens > in->ctx ? in->ctx : tokens,
                                   .tp = tp,
                                   .sequence_parallel = tp > 1};
    double one;
    luo_pair_cost embedding, head;
    LUO_TRY(mean_layer(&cost, layer, dev, &one, err));
    LUO_TRY(luo_cost_embedding(&cost, &layer, dev, &embedding, err));
    LUO_TRY(luo_cost_head(&cost, &layer, dev, &head, err));
    *out = (luo_pool_parts){one, 1e3 * (embedding.forward + embedding.backward),
                            1e3 * (head.forward + head.backward)};
    return LUO_OK;
}

/* Slowest stage on one group, forward and backward of one sequence. */
static luo_status stage_ms(const shape *x, const int32_t *dev, int64_t tokens, double *ms,
                           luo_err *err)
{
    luo_pool_parts parts;
    LUO_TRY(luo_pool_parts_of(x->in, x->tp, dev, tokens, &parts, err));
    *ms = (double)x->in->model->layers / x->pp * parts.layer +
          (x->pp == 1 ? parts.embedding + parts.head : fmax(parts.embedding, parts.head));
    return LUO_OK;
}

static luo_status slowest_ms(const void *shape_, int64_t tokens, double *ms, luo_err *err)
{
    const shape *x = shape_;
    *ms = 0;
    for (int32_t g = 0; g < x->ngroups; g++) {
        double own;
        LUO_TRY(stage_ms(x, x->dev + g * x->tp, tokens, &own, err));
        *ms = fmax(*ms, own);
    }
    return LUO_OK;
}

luo_status luo_pool_model_speeds(const luo_pool_model_in *in, double *rate, luo_err *err)
{
    const shape x = {in, 1, 1, 1, in->devices, 1};
    double slowest = 0;
    for (int32_t i = 0; i < in->ndevices; i++) {
        const int32_t kind = in->cluster->devices[in->devices[i]].kind;
        int32_t k = i - 1;
        while (k >= 0 && in->cluster->devices[in->devices[k]].kind != kind) k--;
        if (k >= 0)
            rate[i] = rate[k];
        else
            LUO_TRY(stage_ms(&x, &in->devices[i], LUO_POOL_SPEED_TOKENS, &rate[i], err));
        slowest = fmax(slowest, rate[i]);
    }
    for (int32_t i = 0; i < in->ndevices; i++) rate[i] /= slowest;
    return LUO_OK;
}

/* Fewest tokens at nine tenths of the speed of the linear part. */
static int64_t tokens_for_use(const luo_pool_entry *entry)
{
    const double tokens = entry->b > 0 ? 9 * entry->c / entry->b : 0; /* b s / (b s + c) = 0.9 */
    if (tokens >= (double)entry->cap) return entry->cap;
    return (int64_t)ceil(tokens / LUO_POOL_ROUND) * LUO_POOL_ROUND;
}

luo_status luo_pool_fill_costs(luo_status (*ms_of)(const void *, int64_t, double *, luo_err *),
                               const void *of, const luo_pool_model_in *in, luo_pool_entry *entry,
                               luo_err *err)
{
    double tokens[POINTS], ms[POINTS];
    /* Products of few rows for each expert are far from linear, and so are layers without attention
     * that launches take longer than they compute, so full micro-batches are asked. */
    const bool attends = luo_model_has_attention(in->model) || !luo_model_has_layers(in->model);
    const bool full = in->model->moe.experts > 0 || !attends || entry->cap < in->ctx;
    const int64_t longest = full ? entry->cap : in->ctx;
    for (int32_t p = 0; p < POINTS; p++) {
        int64_t s = (int64_t)((double)longest / pow(2, (POINTS - 1 - p) * 0.75));
        if (s < 1) s = 1;
        if (longest >= MANY_TOKENS) s = (s + LUO_POOL_ROUND - 1) / LUO_POOL_ROUND * LUO_POOL_ROUND;
        if (s > longest) s = longest;
        if (s > in->ctx) s = s / in->ctx * in->ctx;
        tokens[p] = (double)s;
        LUO_TRY(ms_of(of, s, &ms[p], err));
    }
    luo_pool_model_fit(tokens, ms, POINTS, attends ? (double)in->ctx : 0, &entry->a, &entry->b,
                       &entry->c);
    entry->util = tokens_for_use(entry);
    return LUO_OK;
}

/* ---- shapes ---- */

static int32_t smallest_node(const luo_pool_model_in *in)
{
    int32_t least = INT32_MAX, run = 0;
    for (int32_t i = 0; i < in->ndevices; i++) {
        const int32_t node = in->cluster->devices[in->devices[i]].node;
        run++;
        if (i + 1 < in->ndevices && in->cluster->devices[in->devices[i + 1]].node == node) continue;
        least = run < least ? run : least;
        run = 0;
    }
    return least;
}

static bool same_kinds(const luo_device *at, const int32_t *a, const int32_t *b, int32_t n)
{
    for (int32_t i = 0; i < n; i++)
        if (at[a[i]].kind != at[b[i]].kind) return false;
    return true;
}

/* The first group of tp neighbours, in one node if it has as many, of each device type, or of each
 * that mixes types in another way. */
static int32_t first_groups(const luo_pool_model_in *in, int32_t tp, int32_t *dev)
{
    const luo_device *at = in->cluster->devices;
    const bool inside = tp <= smallest_node(in);
    int32_t n = 0;
    for (int32_t i = 0; i + tp <= in->ndevices; i += tp) {
        bool known = inside && at[in->devices[i]].node != at[in->devices[i + tp - 1]].node;
        for (int32_t g = 0; g < n && !known; g++)
            known = same_kinds(at, dev + g * tp, in->devices + i, tp);
        if (known) continue;
        for (int32_t k = 0; k < tp; k++) dev[n * tp + k] = in->devices[i + k];
        n++;
    }
    return n;
}

/* Two nodes hold what one has no room for. */
static int32_t widest(const luo_pool_model_in *in)
{
    const int32_t node = smallest_node(in), two = 2 * node < TP_MOST ? 2 * node : TP_MOST;
    return two > node ? two : node;
}

void luo_pool_model_caps(const luo_pool_model_in *in, luo_pool *pool)
{
    for (int32_t i = 0; i < pool->n; i++) {
        luo_pool_entry *entry = &pool->entry[i];
        const int32_t width = entry->tp * entry->pp;
        if (entry->cap > 0 || width > in->ndevices) continue;
        const shape x = {in, entry->tp, entry->pp, in->ndevices / width, in->devices, 1};
        entry->cap = luo_pool_room_of(memory_ratio, &x);
    }
}

luo_status luo_pool_model(luo_arena *arena, const luo_pool_model_in *in, luo_pool *out,
                          luo_err *err)
{
    const int32_t tp_most = in->tp_most > 0 ? in->tp_most : widest(in);
    const int32_t pp_most = in->pp_most > 0 ? in->pp_most : PP_MOST;
    int32_t *dev = LUO_NEW_N(arena, int32_t, in->ndevices);
    luo_pool pool = {0, LUO_NEW_N(arena, luo_pool_entry, 32 * 32)};
    if (!dev || !pool.entry) return luo_err_nomem(err);
    for (int32_t tp = 1; tp <= tp_most; tp *= 2)
        for (int32_t pp = 1; pp <= pp_most; pp++) {
            luo_pool_entry entry = {.tp = tp, .cp = 1, .pp = pp};
            shape x = {in, tp, pp, in->ndevices / (tp * pp), dev, first_groups(in, tp, dev)};
            /* strategies share one table: none of them pads it */
            if (x.replicas < 1 || x.ngroups < 1 || !luo_model_tp_divides(in->model, tp) ||
                in->model->vocab % tp || in->model->layers % pp)
                continue;
            entry.cap = luo_pool_room_of(memory_ratio, &x);
            if (entry.cap == 0) continue;
            LUO_TRY(luo_pool_fill_costs(slowest_ms, &x, in, &entry, err));
            pool.entry[pool.n++] = entry;
        }
    if (pool.n == 0)
        return luo_err_set(err, LUO_EINFEASIBLE,
                           "no strategy holds %d tokens of the model on %d devices; more memory or "
                           "more devices are needed.",
                           (int)LUO_POOL_ROUND, (int)in->ndevices);
    *out = pool;
    return LUO_OK;
}
