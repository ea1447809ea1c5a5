#include "exec/sync/toys.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/io/clicks/clicks_read.h"
#include "core/sync/draws.h"

enum { FEATURES = 64, CLASSES = 10, HIDDEN = 16, TESTS = 512 };
/* Streams of draws beside those of stragglers, which have the seed itself. */
enum { DATA = 0x7079, TRUTH = 0x7472, START = 0x7374 };
enum { HELD_OUT = 1 << 20 }; /* in the place of a worker */

static double draw(const luo_toy *toy, uint64_t stream, uint64_t row, uint64_t k)
{
    return luo_draw_u(luo_draw_mix(toy->seed) + stream, row, k);
}

/* ---- dense models: a batch is drawn ---- */

/* The true classes are those of a fixed softmax regression without noise. */
static int label_of(const luo_toy *toy, const double *x)
{
    int best = 0;
    double most = -INFINITY;
    for (int c = 0; c < CLASSES; c++) {
        double sum = 0;
        for (int f = 0; f < FEATURES; f++)
            sum += (draw(toy, TRUTH, (uint64_t)c, (uint64_t)f) - 0.5) * x[f];
        if (sum > most) {
            most = sum;
            best = c;
        }
    }
    return best;
}

static int sample(const luo_toy *toy, int64_t worker, int64_t i, double x[FEATURES])
{
    const uint64_t row = ((uint64_t)worker << 32) + (uint64_t)i;
    for (int f = 0; f < FEATURES; f++) x[f] = 2 * draw(toy, DATA, row, (uint64_t)f) - 1;
    return label_of(toy, x);
}

/* z becomes the probabilities less the label's one; returns the loss. */
static double softmax(double z[CLASSES], int label)
{
    double most = z[0], sum = 0;
    for (int c = 1; c < CLASSES; c++) most = fmax(most, z[c]);
    for (int c = 0; c < CLASSES; c++) sum += exp(z[c] - most);
    const double loss = log(sum) + most - z[label];
    for (int c = 0; c < CLASSES; c++) z[c] = exp(z[c] - most) / sum;
    z[label] -= 1;
    return loss;
}

/* y = a layer of n rows of weights and a bias at the end. */
static void layer(const double *rows, int n, int width, const double *x, double *y)
{
    for (int r = 0; r < n; r++) {
        const double *w = rows + (size_t)r * (size_t)width;
        y[r] = w[width - 1];
        for (int f = 0; f + 1 < width; f++) y[r] += w[f] * x[f];
    }
}

static void layer_grads(double *grads, int n, int width, const double *x, const double *dy)
{
    for (int r = 0; r < n; r++) {
        double *g = grads + (size_t)r * (size_t)width;
        for (int f = 0; f + 1 < width; f++) g[f] += dy[r] * x[f];
        g[width - 1] += dy[r];
    }
}

/* Loss of one sample; adds its gradient unless grads is NULL. */
static double softreg(const double *rows, const double *x, int label, double *grads)
{
    double z[CLASSES];
    layer(rows, CLASSES, FEATURES + 1, x, z);
    const double loss = softmax(z, label);
    if (grads) layer_grads(grads, CLASSES, FEATURES + 1, x, z);
    return loss;
}

/* Rows are as wide as the first layer's; the second layer's begin behind it, packed. */
static double mlp(const double *rows, const double *x, int label, double *grads)
{
    const size_t second = (size_t)HIDDEN * (FEATURES + 1);
    double h[HIDDEN], z[CLASSES], dh[HIDDEN];
    layer(rows, HIDDEN, FEATURES + 1, x, h);
    for (int i = 0; i < HIDDEN; i++) h[i] = tanh(h[i]);
    layer(rows + second, CLASSES, HIDDEN + 1, h, z);
    const double loss = softmax(z, label);
    if (!grads) return loss;
    layer_grads(grads + second, CLASSES, HIDDEN + 1, h, z);
    for (int i = 0; i < HIDDEN; i++) {
        dh[i] = 0;
        for (int c = 0; c < CLASSES; c++)
            dh[i] += z[c] * rows[second + (size_t)c * (HIDDEN + 1) + (size_t)i];
        dh[i] *= 1 - h[i] * h[i];
    }
    layer_grads(grads, HIDDEN, FEATURES + 1, x, dh);
    return loss;
}

static double dense(const luo_toy *toy, int64_t worker, int64_t first, int64_t n,
                    const double *rows, double *grads)
{
    double x[FEATURES], loss = 0;
    for (int64_t i = 0; i < n; i++) {
        const int label = sample(toy, worker, first + i, x);
        loss +=
            toy->kind == LUO_TOY_MLP ? mlp(rows, x, label, grads) : softreg(rows, x, label, grads);
    }
    return loss / (double)n;
}

/* ---- wide ---- */

double luo_toy_sigmoid(double x)
{
    return x >= 0 ? 1 / (1 + exp(-x)) : exp(x) / (1 + exp(x));
}

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

static int32_t wide_keys(const luo_toy *toy, int64_t worker, int64_t k, uint64_t *keys)
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
    return unique;
}

static int32_t place_of(const uint64_t *keys, int32_t n, uint64_t key)
{
    const uint64_t *at = bsearch(&key, keys, (size_t)n, sizeof *keys, compare);
    return (int32_t)(at - keys); /* it is there: keys are those of the batch */
}

static double cross_entropy(double z, double label)
{
    return fmax(z, 0) - z * label + log1p(exp(-fabs(z)));
}

static double wide(const luo_toy *toy, int64_t worker, int64_t k, int32_t n, const uint64_t *keys,
                   const double *values, double *grads)
{
    double loss = 0;
    for (int32_t i = 0; i < toy->batch; i++) {
        double label, z = 0;
        const int32_t *key = luo_toy_sample(toy, worker, k, i, &label);
        for (int64_t s = 0; s < toy->clicks.slots; s++)
            z += values[place_of(keys, n, (uint64_t)key[s])];
        loss += cross_entropy(z, label);
        for (int64_t s = 0; s < toy->clicks.slots; s++)
            grads[place_of(keys, n, (uint64_t)key[s])] += luo_toy_sigmoid(z) - label;
    }
    return loss / toy->batch;
}

static double wide_loss(const luo_toy *toy, const double *rows)
{
    const luo_clicks *c = &toy->clicks;
    double loss = 0;
    for (int64_t i = toy->trained; i < c->samples; i++) {
        double z = 0;
        for (int64_t s = 0; s < c->slots; s++) z += rows[c->embed[i * c->slots + s]];
        loss += cross_entropy(z, c->clicked[i]);
    }
    return loss / (double)(c->samples - toy->trained);
}

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

/* Labels follow hidden weights of the keys. Groups of samples with favourite keys: a partition has
 * something to find. */
static luo_status draw_clicks(luo_arena *arena, luo_toy *toy, luo_err *err)
{
    const luo_clicks_spec spec = {
        .samples = 4096, .slots = 8, .vocab = 2048, .theta = 1.05, .groups = 8, .local = 0.7};
    luo_clicks *c = &toy->clicks;
    LUO_TRY(luo_clicks_draw(arena, &spec, luo_draw_mix(toy->seed) + DATA, c, err));
    c->clicked = LUO_NEW_N(arena, uint8_t, c->samples);
    if (!c->clicked) return luo_err_nomem(err);
    for (int64_t i = 0; i < c->samples; i++) {
        double z = 0;
        for (int64_t s = 0; s < c->slots; s++)
            z += 4 * draw(toy, TRUTH, c->key[c->embed[i * c->slots + s]], 0) - 2;
        c->clicked[i] = draw(toy, TRUTH, (uint64_t)i, 1) < luo_toy_sigmoid(z);
    }
    return LUO_OK;
}

static luo_status make_wide(luo_arena *arena, const luo_sync_job *job, luo_toy *toy,
                            luo_diags *diags, luo_err *err)
{
    const luo_clicks *c = &toy->clicks;
    if (*job->data)
        LUO_TRY(luo_clicks_read(arena, job->data, (luo_clicks_form)job->form, &toy->clicks, diags));
    else
        LUO_TRY(draw_clicks(arena, toy, err));
    toy->trained = c->samples - c->samples / 8;
    toy->rows = c->embeds;
    if (!c->clicked)
        return luo_err_set(
            err, LUO_EINPUT,
            "`%s` does not say of every sample whether it was clicked; a column of 0 "
            "and 1 is expected, as criteo and avazu have it.",
            job->data);
    if (toy->trained < job->workers || toy->trained == c->samples)
        return luo_err_set(err, LUO_EINPUT,
                           "`%s` has %d samples; at least 8, and more than %d workers use, are "
                           "expected.",
                           job->data, (int)c->samples, (int)job->workers);
    return luo_toy_deal(arena, toy, NULL, err);
}

/* ---- all of them ---- */

luo_status luo_toy_make(luo_arena *arena, const luo_sync_job *job, luo_toy *out, luo_diags *diags,
                        luo_err *err)
{
    enum { SECOND = CLASSES * (HIDDEN + 1) };
    luo_toy toy = {.kind = (luo_sync_toy)job->toy,
                   .seed = (uint64_t)job->seed,
                   .workers = (int32_t)job->workers,
                   .batch = (int32_t)job->batch,
                   .width = FEATURES + 1,
                   .rows = CLASSES};
    if (toy.kind == LUO_TOY_MLP) toy.rows = HIDDEN + (SECOND + FEATURES) / (FEATURES + 1);
    if (toy.kind == LUO_TOY_WIDE) {
        toy.width = 1;
        LUO_TRY(make_wide(arena, job, &toy, diags, err));
    }
    *out = toy;
    return LUO_OK;
}

int64_t luo_toy_most(const luo_toy *toy)
{
    return toy->kind == LUO_TOY_WIDE ? toy->batch * toy->clicks.slots : toy->rows;
}

void luo_toy_start(const luo_toy *toy, double *rows)
{
    const int64_t n = toy->rows * toy->width;
    memset(rows, 0, (size_t)n * sizeof *rows);
    for (int64_t i = 0; i < n && toy->kind == LUO_TOY_MLP; i++)
        rows[i] = 0.5 * draw(toy, START, 0, (uint64_t)i) - 0.25;
}

int32_t luo_toy_keys(const luo_toy *toy, int64_t worker, int64_t k, uint64_t *keys)
{
    if (toy->kind == LUO_TOY_WIDE) return wide_keys(toy, worker, k, keys);
    for (int64_t r = 0; r < toy->rows; r++) keys[r] = (uint64_t)r;
    return (int32_t)toy->rows;
}

double luo_toy_step(const luo_toy *toy, int64_t worker, int64_t k, double rate, int32_t n,
                    const uint64_t *keys, const double *values, double *grads)
{
    const size_t cells = (size_t)n * (size_t)toy->width;
    memset(grads, 0, cells * sizeof *grads);
    const double loss = toy->kind == LUO_TOY_WIDE
                            ? wide(toy, worker, k, n, keys, values, grads)
                            : dense(toy, worker, k * toy->batch, toy->batch, values, grads);
    for (size_t i = 0; i < cells; i++) grads[i] *= -rate / toy->batch;
    return loss;
}

double luo_toy_loss(const luo_toy *toy, const double *rows)
{
    if (toy->kind == LUO_TOY_WIDE) return wide_loss(toy, rows);
    return dense(toy, HELD_OUT, 0, TESTS, rows, NULL);
}
