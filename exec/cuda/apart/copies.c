/* copies.c: weights whose state lies here in a layout of its own (exec/bind/bound.h): the Pre part
 * moves what comes from other devices, and knows what stays as the same cells under another name.
 * They are copied by one kernel over the slab before the step's first instruction, so that all
 * that reads them is behind it on the compute stream. */
#include "exec/cuda/bind.h"

static int64_t weight_elem(const luo_job *job)
{
    return luo_dtype_bytes(job->x->config.dtype);
}

luo_status gpu_bind_copies(gpu_binder *binder)
{
    luo_job *job = binder->job;
    const luo_bound *bound = &job->bound;
    const int64_t elem = weight_elem(job);
    int64_t n = 0, run = 0;
    for (int32_t i = 0; i < bound->ncopies; i++) n += bound->copy[i].ncells;
    if (n > INT32_MAX)
        return luo_err_set(binder->err, LUO_E2BIG, "a step copies over 2^31 strips of weights.");
    gpu_copy_segment *at = LUO_NEW_N(binder->tmp, gpu_copy_segment, n), *next = at;
    if (!at) return luo_err_nomem(binder->err);
    for (int32_t i = 0; i < bound->ncopies; i++) {
        const luo_bound_copy *copy = &bound->copy[i];
        const int64_t from =
            bound->layout.at[bound->weight_buffer[copy->piece - bound->piece]] / elem;
        const int64_t to = bound->layout.at[copy->weight] / elem;
        for (int32_t k = 0; k < copy->ncells; k++) {
            const luo_cells *cells = &copy->cells[k];
            *next++ = (gpu_copy_segment){from + cells->state, to + cells->weight, cells->n, run};
            run += cells->n;
        }
    }
    job->copies = (gpu_table){.n = (int32_t)n, .elements = run};
    return gpu_binder_put(binder, at, n * (int64_t)sizeof *at, (const void **)&job->copies.at);
}

luo_status gpu_copy_weights(luo_rank *rank)
{
    const luo_job *job = rank->job;
    if (job->copies.elements == 0) return LUO_OK;
    return gpu_check(&rank->err,
                     gpu_copy_segments(rank->x->stream[LUO_STREAM_COMPUTE], job->copies.n,
                                       job->copies.at, job->copies.elements,
                                       (int32_t)weight_elem(job), job->slab, job->slab),
                     "copying weights");
}
