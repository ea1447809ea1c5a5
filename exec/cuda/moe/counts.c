/* counts.c: counts of rows on their way to the host. */
#include <math.h>

#include "exec/cuda/moe/moe.h"

static int32_t copy_of(const luo_job *job, int32_t buffer, int32_t task)
{
    const luo_layout *layout = &job->bound.layout;
    return layout->stride[buffer]
               ? layout->copy[(int64_t)layout->life[buffer] * layout->ntask + task]
               : 0;
}

static float *here(const gpu_mirror *mirror, int32_t copy)
{
    return mirror->at + (mirror->n + mirror->between) * copy;
}

/* Nobody on the host reads these any more: it has asked for all that the task before needed. */
luo_status gpu_counts_made(luo_rank *rank, const gpu_op *op, int32_t task, cudaStream_t stream)
{
    const struct gpu_moe *moe = rank->job->moe;
    const int32_t k = moe ? moe->makes[op->b->instr->id] : -1;
    if (k < 0) return LUO_OK;
    const gpu_mirror *mirror = &moe->mirror[k];
    const int32_t copy = copy_of(rank->job, mirror->buffer, task);
    const size_t one = sizeof(float);
    LUO_TRY(gpu_check(&rank->err,
                      cudaMemcpyAsync(here(mirror, copy), gpu_buf(rank->job, mirror->buffer, task),
                                      (size_t)mirror->n * one, cudaMemcpyDeviceToHost, stream),
                      "copying counts of rows"));
    if (mirror->between > 0)
        LUO_TRY(gpu_check(&rank->err,
                          cudaMemcpyAsync(here(mirror, copy) + mirror->n, moe->mid,
                                          (size_t)mirror->between * one, cudaMemcpyDeviceToHost,
                                          stream),
                          "copying counts of rows"));
    mirror->awaited[copy] = true;
    return gpu_check(&rank->err, cudaEventRecord(mirror->event[copy], stream), "an event");
}

/* Largest whole number up to which f32 has all. */
static bool is_count(float x)
{
    return x >= 0 && x <= 16777216 && x == floorf(x);
}

luo_status gpu_counts_at(luo_rank *rank, int32_t buffer, int32_t task, const float **counts,
                         const float **between)
{
    const struct gpu_moe *moe = rank->job->moe;
    const int32_t k = moe->mirror_of[buffer];
    if (k < 0)
        return luo_err_set(&rank->err, LUO_EBUG, "the host knows no counts of `%s`.",
                           luo_bound_desc(&rank->job->bound, buffer)->tensor);
    const gpu_mirror *mirror = &moe->mirror[k];
    const int32_t copy = copy_of(rank->job, buffer, task);
    const float *at = here(mirror, copy);
    if (mirror->awaited[copy])
        LUO_TRY(gpu_await(rank, mirror->event[copy], GPU_SPIN_S, "counts of rows", &rank->err));
    for (int64_t i = 0; i < mirror->n + mirror->between && mirror->awaited[copy]; i++)
        if (!is_count(at[i]))
            return luo_err_set(&rank->err, LUO_EPEER,
                               "counts of rows of `%s` have not come: communication was given up.",
                               luo_bound_desc(&rank->job->bound, buffer)->tensor);
    mirror->awaited[copy] = false;
    *counts = at;
    if (between) *between = at + mirror->n;
    return LUO_OK;
}
