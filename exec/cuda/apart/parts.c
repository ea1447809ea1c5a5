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
luo_status gpu_bind_parts(gpu_binder *b)
{
    luo_job *j = b->job;
    const luo_bound *bound = &j->bound;
    int64_t *at = LUO_NEW_N(b->tmp, int64_t, j->nsum), *next = at;
    if (!at) return luo_err_nomem(b->err);
    int64_t *counts = at + j->nupdate;
    for (int32_t i = 0; i < bound->npairs; i++) {
        const luo_bound_pair *p = &bound->pair[i];
        const int64_t sum = bound->sums.at[p->piece - bound->piece];
        int64_t **to = p->piece->param->counted ? &counts : &next;
        for (int32_t k = 0; k < p->ncells; k++)
            for (int64_t c = 0; c < p->cells[k].n; c += GPU_CHUNK)
                *(*to)++ = sum + p->cells[k].state + c;
    }
    return gpu_binder_put(b, at, j->nsum * (int64_t)sizeof *at, (const void **)&j->sum_at);
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

static luo_status open_sums(luo_exec *x, const luo_job *j, luo_err *err)
{
    if (!x->sums && !(x->sums = LUO_NEW(x->arena, struct gpu_sums))) return luo_err_nomem(err);
    if (!x->sums->arena && !(x->sums->arena = luo_arena_new(1 << 16))) return luo_err_nomem(err);
    return make_room(x->sums, &j->bound.sums, err);
}

luo_status gpu_begin_part(luo_job *j, const luo_step_part *part, luo_err *err)
{
    static const luo_sums none = {0};
    luo_exec *x = j->x;
    if (part->n < 2) return LUO_OK;
    if (part->index == 0) return open_sums(x, j, err);
    return luo_sums_check(x->sums ? &x->sums->of : &none, &j->bound.sums, x->device, err);
}

int64_t gpu_sum_bytes(const luo_exec *x)
{
    return x->sums ? x->sums->bytes : 0;
}

void gpu_free_sums(luo_exec *x)
{
    if (!x->sums) return;
    gpu_free(x->sums->at);
    if (x->sums->arena) luo_arena_free(x->sums->arena);
}

/* ---- sums ---- */

static luo_status sum(luo_rank *r, gpu_sum_way way, const float *squares)
{
    const luo_job *j = r->job;
    return gpu_check(&r->err,
                     gpu_sum_gradients(r->x->stream[LUO_STREAM_COMPUTE], j->nsum,
                                       j->update_chunk, j->sum_at, r->x->sums->at, j->grad_type,
                                       way, squares, gpu_batch_numbers(j), j->device_answer),
                     "the gradients of a part of a step");
}

luo_status gpu_keep_gradients(luo_rank *r, const float *squares)
{
    return sum(r, r->order->part.index == 0 ? GPU_SUM_FIRST : GPU_SUM_MORE, squares);
}

luo_status gpu_take_gradients(luo_rank *r)
{
    const luo_step_part *part = &r->order->part;
    if (part->index == 0 || !luo_step_part_is_last(part) || r->summed) return LUO_OK;
    r->summed = true;
    return sum(r, GPU_SUM_TAKE, NULL);
}
