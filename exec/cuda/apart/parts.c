/* parts.c: a step in parts (luo_step_part): gradients of one part after the other are summed where
 * optimizer state lies, which is the same place in all of them. The sums belong to the executor,
 * since each part is a program of its own. A part ends when the host has waited for it, so that the
 * next one finds what it has left. */
#include "exec/cuda/bind.h"

struct gpu_sums {
    luo_arena *arena; /* of `of` */
    luo_sums of;
    float *at; /* device */
    int64_t bytes;
};

/* ---- binding ---- */

/* Pre: the update's chunks are cut: one place a chunk. */
luo_status gpu_bind_parts(gpu_binder *binder)
{
    luo_job *job = binder->job;
    const luo_bound *bound = &job->bound;
    int64_t *at = LUO_NEW_N(binder->tmp, int64_t, job->nsum), *next = at;
    if (!at) return luo_err_nomem(binder->err);
    int64_t *counts = at + job->nupdate;
    for (int32_t i = 0; i < bound->npairs; i++) {
        const luo_bound_pair *pair = &bound->pair[i];
        const int64_t sum = bound->sums.at[pair->piece - bound->piece];
        int64_t **to = pair->piece->param->counted ? &counts : &next;
        for (int32_t k = 0; k < pair->ncells; k++)
            for (int64_t c = 0; c < pair->cells[k].n; c += GPU_CHUNK)
                *(*to)++ = sum + pair->cells[k].state + c;
    }
    return gpu_binder_put(binder, at, job->nsum * (int64_t)sizeof *at, (const void **)&job->sum_at);
}

/* ---- begin ---- */

static luo_status make_room(struct gpu_sums *sums, const luo_sums *of, luo_err *err)
{
    void *p;
    const int64_t bytes = of->elements * (int64_t)sizeof(float);
    luo_arena_reset(sums->arena, 0);
    sums->of = (luo_sums){0};
    LUO_TRY(luo_sums_copy(sums->arena, of, &sums->of, err));
    if (bytes <= sums->bytes) return LUO_OK; /* the first part overwrites them */
    gpu_free(sums->at);
    sums->at = NULL;
    sums->bytes = 0;
    LUO_TRY(gpu_alloc(bytes, "the gradients of a step in parts", &p, err));
    sums->at = p;
    sums->bytes = bytes;
    return LUO_OK;
}

static luo_status open_sums(luo_exec *exec, const luo_job *job, luo_err *err)
{
    if (!exec->sums && !(exec->sums = LUO_NEW(exec->arena, struct gpu_sums)))
        return luo_err_nomem(err);
    if (!exec->sums->arena && !(exec->sums->arena = luo_arena_new(1 << 16)))
        return luo_err_nomem(err);
    return make_room(exec->sums, &job->bound.sums, err);
}

luo_status gpu_begin_part(luo_job *job, const luo_step_part *part, luo_err *err)
{
    static const luo_sums none = {0};
    luo_exec *exec = job->x;
    if (part->n < 2) return LUO_OK;
    if (part->index == 0) return open_sums(exec, job, err);
    return luo_sums_check(exec->sums ? &exec->sums->of : &none, &job->bound.sums, exec->device,
                          err);
}

int64_t gpu_sum_bytes(const luo_exec *exec)
{
    return exec->sums ? exec->sums->bytes : 0;
}

void gpu_free_sums(luo_exec *exec)
{
    if (!exec->sums) return;
    gpu_free(exec->sums->at);
    if (exec->sums->arena) luo_arena_free(exec->sums->arena);
}

/* ---- sums ---- */

static luo_status sum(luo_rank *rank, gpu_sum_way way, const float *squares)
{
    const luo_job *job = rank->job;
    return gpu_check(&rank->err,
                     gpu_sum_gradients(rank->x->stream[LUO_STREAM_COMPUTE], job->nsum,
                                       job->update_chunk, job->sum_at, rank->x->sums->at,
                                       job->grad_type, way, squares, gpu_batch_numbers(job),
                                       job->device_answer),
                     "the gradients of a part of a step");
}

luo_status gpu_keep_gradients(luo_rank *rank, const float *squares)
{
    return sum(rank, rank->order->part.index == 0 ? GPU_SUM_FIRST : GPU_SUM_MORE, squares);
}

luo_status gpu_take_gradients(luo_rank *rank)
{
    const luo_step_part *part = &rank->order->part;
    if (part->index == 0 || !luo_step_part_is_last(part) || rank->summed) return LUO_OK;
    rank->summed = true;
    return sum(rank, GPU_SUM_TAKE, NULL);
}
