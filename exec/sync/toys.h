/* toys.h: tiny models with data, in double precision, for runs that show who waits for whom and
 * whose weights are checked against a serial computation. All of it is a function of the seed and
 * synthetic, but for a click log of the user.
 *
 * softreg: softmax regression, 10 classes, 64 features; mlp: 64, 16 (tanh), 10; wide: logistic
 * regression over hashed keys, a row of one number a key, sparse; wide_deep: the same beside a
 * layer of 8 (tanh) over embeddings of 4 numbers a key, a row of five a key, sparse, then those of
 * the layer, dense.
 *
 * Shapes: parameters are `rows` rows of `width` numbers, row r being key r of the servers. */
#ifndef LUO_EXEC_SYNC_TOYS_H
#define LUO_EXEC_SYNC_TOYS_H
#include "core/sync/embed/clicks.h"
#include "exec/sync/sync_job.h"

typedef struct luo_toy {
    luo_sync_toy kind;
    uint64_t seed;
    int32_t workers, batch, width;
    int64_t rows, dense;    /* dense: the first row that every iteration touches; rows: none is */
    luo_clicks clicks;      /* wide, wide_deep; its embeddings are the rows before `dense` */
    int32_t trained;        /* samples that workers have; those behind are for the loss alone */
    int64_t *first, *order; /* those of worker w: order[first[w]..first[w + 1]) */
} luo_toy;

/* Pre: job is in range. wide, wide_deep: samples are dealt to workers in turn, but for --keys.
 * Errors: LUO_EINPUT the click log has no labels, or too few samples; those of its reader, which
 * are in diags; LUO_ENOMEM. Owner: arena. */
luo_status luo_toy_make(luo_arena *arena, const luo_sync_job *job, luo_toy *out, luo_diags *diags,
                        luo_err *err);
/* wide, wide_deep: deals the samples that are trained on to workers by part.
 * Pre: every worker gets one. Errors: LUO_ENOMEM. */
luo_status luo_toy_deal(luo_arena *arena, luo_toy *toy, const int32_t *part, luo_err *err);
/* How many keys an iteration touches at most. */
int64_t luo_toy_most(const luo_toy *toy);
/* The parameters at the start, rows x width. */
void luo_toy_start(const luo_toy *toy, double *rows);
/* The keys that iteration k of worker w touches, ascending, all dense rows among them; returns how
 * many. */
int32_t luo_toy_keys(const luo_toy *toy, int64_t worker, int64_t k, uint64_t *keys);
/* grads[n x width] = -rate x the gradient of the mean loss over the batch, at values[n x width] of
 * those keys. Returns that loss. */
double luo_toy_step(const luo_toy *toy, int64_t worker, int64_t k, double rate, int32_t n,
                    const uint64_t *keys, const double *values, double *grads);
/* Mean loss over samples that no worker has. */
double luo_toy_loss(const luo_toy *toy, const double *rows);

/* wide, wide_deep: sample i of the batch, with its keys; *label its label. */
const int32_t *luo_toy_sample(const luo_toy *toy, int64_t worker, int64_t k, int32_t i,
                              double *label);
/* 1 / (1 + e^-x). */
double luo_toy_sigmoid(double x);
#endif
