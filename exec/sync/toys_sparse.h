/* toys_sparse.h: what toys.c and toys_sparse.c share: toys whose rows are the keys of a click log.
 */
#ifndef LUO_EXEC_SYNC_TOYS_SPARSE_H
#define LUO_EXEC_SYNC_TOYS_SPARSE_H
#include "exec/sync/toys.h"

/* Streams of draws beside those of stragglers and of --keys, which have the seed itself. */
typedef enum luo_toy_stream {
    LUO_TOY_DATA = 0x7079,
    LUO_TOY_TRUTH = 0x7472,
    LUO_TOY_START = 0x7374
} luo_toy_stream;
enum { LUO_TOY_HELD_OUT = 1 << 20 }; /* in the place of a worker */
double luo_toy_draw(const luo_toy *toy, luo_toy_stream stream, uint64_t row, uint64_t k);

static inline bool luo_toy_sparse(const luo_toy *toy)
{
    return toy->kind == LUO_TOY_WIDE || toy->kind == LUO_TOY_WIDE_DEEP;
}

/* The parts of the functions of toys.h that are of these toys. */
luo_status luo_toy_sparse_make(luo_arena *arena, const luo_sync_job *job, luo_toy *toy,
                               luo_diags *diags, luo_err *err);
int64_t luo_toy_sparse_most(const luo_toy *toy);
void luo_toy_sparse_start(const luo_toy *toy, double *rows);
int32_t luo_toy_sparse_keys(const luo_toy *toy, int64_t worker, int64_t k, uint64_t *keys);
/* Adds the gradients of the sum of losses to grads; returns the mean loss. */
double luo_toy_sparse_step(const luo_toy *toy, int64_t worker, int64_t k, int32_t n,
                           const uint64_t *keys, const double *values, double *grads);
double luo_toy_sparse_loss(const luo_toy *toy, const double *rows);
#endif
