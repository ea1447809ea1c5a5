/* copies.c: weights whose state lies here in a layout of its own (exec/bind/bound.h): the Pre part
 * moves what comes from other devices, and knows what stays as the same cells under another name.
 * They are copied by one kernel over the slab before the step's first instruction, so that all
 * that reads them is behind it on the compute stream. */
#include "exec/cuda/bind.h"

static int64_t weight_elem(const luo_job *j)
{
    return luo_dtype_bytes(j->x->config.dtype);
}

luo_status gpu_bind_copies(gpu_binder *b)
{
    luo_job *j = b->job;
    const luo_bound *bound = &j->bound;
    const int64_t elem = weight_elem(j);
    int64_t n = 0, run = 0;
    for (int32_t i = 0; i < bound->ncopies; i++) n += bound->copy[i].ncells;
    if (n > INT32_MAX)
        return luo_err_set(b->err, LUO_E2BIG, "a step copies over 2^31 strips of weights.");
    gpu_copy_segment *at = LUO_NEW_N(b->tmp, gpu_copy_segment, n), *next = at;
    if (!at) return luo_err_nomem(b->err);
    for (int32_t i = 0; i < bound->ncopies; i++) {
        const luo_bound_copy *c = &bound->copy[i];
        const int64_t from = bound->layout.at[bound->weight_buffer[c->piece - bound->piece]] / elem;
        const int64_t to = bound->layout.at[c->weight] / elem;
        for (int32_t k = 0; k < c->ncells; k++) {
            const luo_cells *x = &c->cells[k];
            *next++ = (gpu_copy_segment){from + x->state, to + x->weight, x->n, run};
            run += x->n;
        }
    }
    j->copies = (gpu_table){.n = (int32_t)n, .elements = run};
    return gpu_binder_put(b, at, n * (int64_t)sizeof *at, (const void **)&j->copies.at);
}

luo_status gpu_copy_weights(luo_rank *r)
{
    const luo_job *j = r->job;
    if (j->copies.elements == 0) return LUO_OK;
    return gpu_check(&r->err,
                     gpu_copy_segments(r->x->stream[LUO_STREAM_COMPUTE], j->copies.n, j->copies.at,
                                       j->copies.elements, (int32_t)weight_elem(j), j->slab,
                                       j->slab),
                     "copying weights");
}
