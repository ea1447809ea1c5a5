/* counts.c: counts of rows on their way to the host. */
#include <math.h>

#include "exec/cuda/moe/moe.h"

static int32_t copy_of(const luo_job *j, int32_t buffer, int32_t task)
{
    const luo_layout *l = &j->bound.layout;
    return l->stride[buffer] ? l->copy[(int64_t)l->life[buffer] * l->ntask + task] : 0;
}

static float *here(const gpu_mirror *m, int32_t copy)
{
    return m->at + (m->n + m->between) * copy;
}

/* Nobody on the host reads these any more: it has asked for all that the task before needed. */
luo_status gpu_counts_made(luo_rank *r, const gpu_op *op, int32_t task, cudaStream_t stream)
{
    const struct gpu_moe *moe = r->job->moe;
    const int32_t k = moe ? moe->makes[op->b->instr->id] : -1;
    if (k < 0) return LUO_OK;
    const gpu_mirror *m = &moe->mirror[k];
    const int32_t copy = copy_of(r->job, m->buffer, task);
    const size_t one = sizeof(float);
    LUO_TRY(gpu_check(&r->err,
                      cudaMemcpyAsync(here(m, copy), gpu_buf(r->job, m->buffer, task),
                                      (size_t)m->n * one, cudaMemcpyDeviceToHost, stream),
                      "copying counts of rows"));
    if (m->between > 0)
        LUO_TRY(gpu_check(&r->err,
                          cudaMemcpyAsync(here(m, copy) + m->n, moe->mid, (size_t)m->between * one,
                                          cudaMemcpyDeviceToHost, stream),
                          "copying counts of rows"));
    m->awaited[copy] = true;
    return gpu_check(&r->err, cudaEventRecord(m->event[copy], stream), "an event");
}

/* Largest whole number up to which f32 has all. */
static bool is_count(float x)
{
    return x >= 0 && x <= 16777216 && x == floorf(x);
}

luo_status gpu_counts_at(luo_rank *r, int32_t buffer, int32_t task, const float **counts,
                         const float **between)
{
    const struct gpu_moe *moe = r->job->moe;
    const int32_t k = moe->mirror_of[buffer];
    if (k < 0)
        return luo_err_set(&r->err, LUO_EBUG, "the host knows no counts of `%s`.",
                           luo_bound_desc(&r->job->bound, buffer)->tensor);
    const gpu_mirror *m = &moe->mirror[k];
    const int32_t copy = copy_of(r->job, buffer, task);
    const float *at = here(m, copy);
    if (m->awaited[copy])
        LUO_TRY(gpu_await(r, m->event[copy], GPU_SPIN_S, "counts of rows", &r->err));
    for (int64_t i = 0; i < m->n + m->between && m->awaited[copy]; i++)
        if (!is_count(at[i]))
            return luo_err_set(&r->err, LUO_EPEER,
                               "counts of rows of `%s` have not come: communication was given up.",
                               luo_bound_desc(&r->job->bound, buffer)->tensor);
    m->awaited[copy] = false;
    *counts = at;
    if (between) *between = at + m->n;
    return LUO_OK;
}
