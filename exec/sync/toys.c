#include "exec/sync/toys.h"

#include <math.h>
#include <string.h>

#include "core/sync/draws.h"
#include "exec/sync/toys_sparse.h"

enum { FEATURES = 64, CLASSES = 10, HIDDEN = 16, TESTS = 512 };

double luo_toy_draw(const luo_toy *toy, luo_toy_stream stream, uint64_t row, uint64_t k)
{
    return luo_draw_u(luo_draw_mix(toy->seed) + (uint64_t)stream, row, k);
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
            sum += (luo_toy_draw(toy, LUO_TOY_TRUTH, (uint64_t)c, (uint64_t)f) - 0.5) * x[f];
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
    for (int f = 0; f < FEATURES; f++)
        x[f] = 2 * luo_toy_draw(toy, LUO_TOY_DATA, row, (uint64_t)f) - 1;
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
    if (luo_toy_sparse(&toy)) LUO_TRY(luo_toy_sparse_make(arena, job, &toy, diags, err));
    *out = toy;
    return LUO_OK;
}

int64_t luo_toy_most(const luo_toy *toy)
{
    return luo_toy_sparse(toy) ? luo_toy_sparse_most(toy) : toy->rows;
}

void luo_toy_start(const luo_toy *toy, double *rows)
{
    const int64_t n = toy->rows * toy->width;
    memset(rows, 0, (size_t)n * sizeof *rows);
    if (toy->kind == LUO_TOY_WIDE_DEEP) luo_toy_sparse_start(toy, rows);
    for (int64_t i = 0; i < n && toy->kind == LUO_TOY_MLP; i++)
        rows[i] = 0.5 * luo_toy_draw(toy, LUO_TOY_START, 0, (uint64_t)i) - 0.25;
}

int32_t luo_toy_keys(const luo_toy *toy, int64_t worker, int64_t k, uint64_t *keys)
{
    if (luo_toy_sparse(toy)) return luo_toy_sparse_keys(toy, worker, k, keys);
    for (int64_t r = 0; r < toy->rows; r++) keys[r] = (uint64_t)r;
    return (int32_t)toy->rows;
}

double luo_toy_step(const luo_toy *toy, int64_t worker, int64_t k, double rate, int32_t n,
                    const uint64_t *keys, const double *values, double *grads)
{
    const size_t cells = (size_t)n * (size_t)toy->width;
    memset(grads, 0, cells * sizeof *grads);
    const double loss = luo_toy_sparse(toy)
                            ? luo_toy_sparse_step(toy, worker, k, n, keys, values, grads)
                            : dense(toy, worker, k * toy->batch, toy->batch, values, grads);
    for (size_t i = 0; i < cells; i++) grads[i] *= -rate / toy->batch;
    return loss;
}

double luo_toy_loss(const luo_toy *toy, const double *rows)
{
    if (luo_toy_sparse(toy)) return luo_toy_sparse_loss(toy, rows);
    return dense(toy, LUO_TOY_HELD_OUT, 0, TESTS, rows, NULL);
}
