/* toys_sparse.c: toys on a click log: `wide` and `wide_deep`.
 *
 * A row of `wide` is the weight of a key. A row of `wide_deep` has that, and then the key's
 * embedding; behind all rows of keys stands the dense part: a layer from the embeddings of a sample
 * to HIDDEN, tanh, and one from there to a number that is added to the weights, each with its
 * biases, packed into rows of the same width. */
#include "exec/sync/toys_sparse.h"

#include <math.h>
#include <stdlib.h>

#include "core/io/clicks/clicks_read.h"
#include "core/sync/draws.h"

enum { EMBED = 4, HIDDEN = 8, TESTS = 512 };

double luo_toy_sigmoid(double x)
{
    return x >= 0 ? 1 / (1 + exp(-x)) : exp(x) / (1 + exp(x));
}

/* ---- samples and keys ---- */

const int32_t *luo_toy_sample(const luo_toy *toy, int64_t worker, int64_t k, int32_t i,
                              double *label)
{
    const int64_t n = toy->first[worker + 1] - toy->first[worker];
    const int64_t at = toy->order[toy->first[worker] + (k * toy->batch + i) % n];
    *label = toy->clicks.clicked[at];
    return toy->clicks.embed + at * toy->clicks.slots;
}

static int compare(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

int64_t luo_toy_sparse_most(const luo_toy *toy)
{
    return toy->batch * toy->clicks.slots + toy->rows - toy->dense;
}

int32_t luo_toy_sparse_keys(const luo_toy *toy, int64_t worker, int64_t k, uint64_t *keys)
{
    const int64_t slots = toy->clicks.slots;
    int32_t n = 0, unique = 0;
    for (int32_t i = 0; i < toy->batch; i++) {
        double label;
        const int32_t *key = luo_toy_sample(toy, worker, k, i, &label);
        for (int64_t s = 0; s < slots; s++) keys[n++] = (uint64_t)key[s];
    }
    qsort(keys, (size_t)n, sizeof *keys, compare);
    for (int32_t i = 0; i < n; i++)
        if (unique == 0 || keys[i] != keys[unique - 1]) keys[unique++] = keys[i];
    for (int64_t r = toy->dense; r < toy->rows; r++) keys[unique++] = (uint64_t)r;
    return unique;
}

static int32_t place_of(const uint64_t *keys, int32_t n, uint64_t key)
{
    const uint64_t *at = bsearch(&key, keys, (size_t)n, sizeof *keys, compare);
    return (int32_t)(at - keys); /* it is there: keys are those of the batch */
}

/* ---- one sample ---- */

typedef struct sample { /* rows of a sample, and where their gradients go */
    const luo_toy *toy;
    int64_t place[LUO_CLICKS_SLOTS]; /* by slot: which row */
    double label;
    const double *rows, *dense;  /* dense: NULL without a dense part */
    double *grads, *dense_grads; /* NULL: none is wanted */
} sample;

static double cross_entropy(double z, double label)
{
    return fmax(z, 0) - z * label + log1p(exp(-fabs(z)));
}

/* Of the embeddings of all slots, one behind the other; the bias is the last of a layer's row. */
static double deep_forward(const sample *x, double hidden[HIDDEN])
{
    const int64_t slots = x->toy->clicks.slots, width = x->toy->width;
    const double *second = x->dense + HIDDEN * (slots * EMBED + 1);
    double z = second[HIDDEN];
    for (int h = 0; h < HIDDEN; h++) {
        const double *w = x->dense + h * (slots * EMBED + 1);
        double sum = w[slots * EMBED];
        for (int64_t s = 0; s < slots; s++)
            for (int e = 0; e < EMBED; e++)
                sum += w[s * EMBED + e] * x->rows[x->place[s] * width + 1 + e];
        hidden[h] = tanh(sum);
        z += second[h] * hidden[h];
    }
    return z;
}

static void deep_backward(const sample *x, const double hidden[HIDDEN], double dz)
{
    const int64_t slots = x->toy->clicks.slots, width = x->toy->width;
    const int64_t second = HIDDEN * (slots * EMBED + 1);
    x->dense_grads[second + HIDDEN] += dz;
    for (int h = 0; h < HIDDEN; h++) {
        const int64_t first = h * (slots * EMBED + 1);
        const double dh = dz * x->dense[second + h] * (1 - hidden[h] * hidden[h]);
        x->dense_grads[second + h] += dz * hidden[h];
        x->dense_grads[first + slots * EMBED] += dh;
        for (int64_t s = 0; s < slots; s++)
            for (int e = 0; e < EMBED; e++) {
                const int64_t cell = x->place[s] * width + 1 + e, at = first + s * EMBED + e;
                x->dense_grads[at] += dh * x->rows[cell];
                x->grads[cell] += dh * x->dense[at];
            }
    }
}

/* Returns the loss; adds its gradient. */
static double one(const sample *x)
{
    const int64_t slots = x->toy->clicks.slots, width = x->toy->width;
    double hidden[HIDDEN], z = 0;
    for (int64_t s = 0; s < slots; s++) z += x->rows[x->place[s] * width];
    if (x->dense) z += deep_forward(x, hidden);
    if (x->grads) {
        const double dz = luo_toy_sigmoid(z) - x->label;
        for (int64_t s = 0; s < slots; s++) x->grads[x->place[s] * width] += dz;
        if (x->dense) deep_backward(x, hidden, dz);
    }
    return cross_entropy(z, x->label);
}

double luo_toy_sparse_step(const luo_toy *toy, int64_t worker, int64_t k, int32_t n,
                           const uint64_t *keys, const double *values, double *grads)
{
    const int64_t dense = (n - (toy->rows - toy->dense)) * toy->width;
    const bool deep = toy->rows > toy->dense;
    sample x = {.toy = toy, .rows = values, .grads = grads};
    double loss = 0;
    if (deep) x.dense = values + dense, x.dense_grads = grads + dense;
    for (int32_t i = 0; i < toy->batch; i++) {
        const int32_t *key = luo_toy_sample(toy, worker, k, i, &x.label);
        for (int64_t s = 0; s < toy->clicks.slots; s++)
            x.place[s] = place_of(keys, n, (uint64_t)key[s]);
        loss += one(&x);
    }
    return loss / toy->batch;
}

double luo_toy_sparse_loss(const luo_toy *toy, const double *rows)
{
    const luo_clicks *clicks = &toy->clicks;
    const bool deep = toy->rows > toy->dense;
    sample x = {.toy = toy, .rows = rows, .dense = deep ? rows + toy->dense * toy->width : NULL};
    double loss = 0;
    for (int64_t i = toy->trained; i < clicks->samples; i++) {
        x.label = clicks->clicked[i];
        for (int64_t s = 0; s < clicks->slots; s++)
            x.place[s] = clicks->embed[i * clicks->slots + s];
        loss += one(&x);
    }
    return loss / (double)(clicks->samples - toy->trained);
}

/* Small, and unlike each other: alike units would stay alike. Weights of keys begin at 0. */
void luo_toy_sparse_start(const luo_toy *toy, double *rows)
{
    for (int64_t i = 0; i < toy->rows * toy->width; i++)
        if (i >= toy->dense * toy->width || i % toy->width > 0)
            rows[i] = 0.5 * luo_toy_draw(toy, LUO_TOY_START, 0, (uint64_t)i) - 0.25;
}

/* ---- data ---- */

luo_status luo_toy_deal(luo_arena *arena, luo_toy *toy, const int32_t *part, luo_err *err)
{
    toy->first = LUO_NEW_N(arena, int64_t, toy->workers + 1);
    toy->order = LUO_NEW_N(arena, int64_t, toy->trained);
    if (!toy->first || !toy->order) return luo_err_nomem(err);
    int64_t at = 0;
    for (int32_t w = 0; w < toy->workers; w++) {
        for (int32_t i = 0; i < toy->trained; i++)
            if ((part ? part[i] : i % toy->workers) == w) toy->order[at++] = i;
        toy->first[w + 1] = at;
    }
    return LUO_OK;
}

/* Labels follow hidden weights of the keys. */
static luo_status draw_labels(luo_arena *arena, luo_toy *toy, luo_err *err)
{
    luo_clicks *clicks = &toy->clicks;
    clicks->clicked = LUO_NEW_N(arena, uint8_t, clicks->samples);
    if (!clicks->clicked) return luo_err_nomem(err);
    for (int64_t i = 0; i < clicks->samples; i++) {
        double z = 0;
        for (int64_t s = 0; s < clicks->slots; s++)
            z += 4 * luo_toy_draw(toy, LUO_TOY_TRUTH,
                                  clicks->key[clicks->embed[i * clicks->slots + s]], 0) -
                 2;
        clicks->clicked[i] = luo_toy_draw(toy, LUO_TOY_TRUTH, (uint64_t)i, 1) < luo_toy_sigmoid(z);
    }
    return LUO_OK;
}

/* Groups of samples with favourite keys: a partition has something to find. */
static luo_status draw_clicks(luo_arena *arena, luo_toy *toy, luo_err *err)
{
    const luo_clicks_spec spec = {
        .samples = 4096, .slots = 8, .vocab = 2048, .theta = 1.05, .groups = 8, .local = 0.7};
    LUO_TRY(
        luo_clicks_draw(arena, &spec, luo_draw_mix(toy->seed) + LUO_TOY_DATA, &toy->clicks, err));
    toy->trained = toy->clicks.samples - toy->clicks.samples / 8;
    return draw_labels(arena, toy, err);
}

/* --keys: each worker has samples of its own, whose first batch has the keys that the simulator
 * draws; a key is the number of its row. */
static luo_status draw_keys(luo_arena *arena, const luo_sync_job *job, luo_toy *toy, luo_err *err)
{
    enum { BATCHES = 16 };
    const int64_t own = job->batch * (job->iterations < BATCHES ? job->iterations : BATCHES);
    luo_clicks *clicks = &toy->clicks;
    luo_zipf zipf;
    *clicks = (luo_clicks){.samples = (int32_t)(own * job->workers + TESTS),
                           .slots = (int32_t)job->slots,
                           .embeds = (int32_t)job->vocab,
                           .synthetic = true};
    clicks->embed = LUO_NEW_N(arena, int32_t, (int64_t)clicks->samples * clicks->slots);
    clicks->key = LUO_NEW_N(arena, uint64_t, clicks->embeds);
    int32_t *part = LUO_NEW_N(arena, int32_t, clicks->samples);
    if (!clicks->embed || !clicks->key || !part) return luo_err_nomem(err);
    LUO_TRY(luo_zipf_make(arena, job->theta, job->vocab, &zipf, err));
    for (int32_t e = 0; e < clicks->embeds; e++) clicks->key[e] = (uint64_t)e;
    toy->trained = (int32_t)(own * job->workers);
    for (int64_t i = 0; i < clicks->samples; i++) {
        const bool held = i >= toy->trained;
        const int64_t worker = held ? LUO_TOY_HELD_OUT : i / own;
        const int64_t first = (held ? i - toy->trained : i % own) * clicks->slots;
        part[i] = (int32_t)worker;
        for (int64_t s = 0; s < clicks->slots; s++)
            clicks->embed[i * clicks->slots + s] = (int32_t)luo_zipf_key(
                &zipf, luo_draw_u(toy->seed, (uint64_t)worker, (uint64_t)(first + s)));
    }
    LUO_TRY(draw_labels(arena, toy, err));
    return luo_toy_deal(arena, toy, part, err);
}

static luo_status read_clicks(luo_arena *arena, const luo_sync_job *job, luo_toy *toy,
                              luo_diags *diags, luo_err *err)
{
    const luo_clicks *clicks = &toy->clicks;
    LUO_TRY(luo_clicks_read(arena, job->data, (luo_clicks_form)job->form, &toy->clicks, diags));
    toy->trained = clicks->samples - clicks->samples / 8;
    if (!clicks->clicked)
        return luo_err_set(
            err, LUO_EINPUT,
            "`%s` does not say of every sample whether it was clicked; a column of 0 "
            "and 1 is expected, as criteo and avazu have it.",
            job->data);
    return LUO_OK;
}

static luo_status make_clicks(luo_arena *arena, const luo_sync_job *job, luo_toy *toy,
                              luo_diags *diags, luo_err *err)
{
    const luo_clicks *clicks = &toy->clicks;
    if (job->vocab > 0) return draw_keys(arena, job, toy, err);
    LUO_TRY(*job->data ? read_clicks(arena, job, toy, diags, err) : draw_clicks(arena, toy, err));
    if (toy->trained < job->workers || toy->trained == clicks->samples)
        return luo_err_set(err, LUO_EINPUT,
                           "`%s` has %d samples; at least 8, and more than %d workers use, are "
                           "expected.",
                           job->data, (int)clicks->samples, (int)job->workers);
    return luo_toy_deal(arena, toy, NULL, err);
}

luo_status luo_toy_sparse_make(luo_arena *arena, const luo_sync_job *job, luo_toy *toy,
                               luo_diags *diags, luo_err *err)
{
    const bool deep = toy->kind == LUO_TOY_WIDE_DEEP;
    LUO_TRY(make_clicks(arena, job, toy, diags, err));
    const int64_t cells = HIDDEN * (toy->clicks.slots * EMBED + 1) + HIDDEN + 1;
    toy->width = deep ? 1 + EMBED : 1;
    toy->dense = toy->clicks.embeds;
    toy->rows = toy->dense + (deep ? (cells + toy->width - 1) / toy->width : 0);
    return LUO_OK;
}
