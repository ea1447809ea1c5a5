/* update.c: the norm of the gradients and AdamW: every cell of every piece, cut into
 * chunks that lie on the device as two tables, so that one kernel does all of them. */
#include <math.h>

#include "exec/cuda/bind.h"
#include "exec/recipe.h"

gpu_piece gpu_piece_at(const luo_job *j, int32_t piece)
{
    const luo_bound *b = &j->bound;
    const int32_t w = b->weight_buffer[piece], s = b->state_buffer[piece];
    const int64_t n = b->piece[piece].state_frame.volume;
    if (w < 0 || s < 0) return (gpu_piece){0};
    void *weight = j->slab + b->layout.at[w];
    if (b->piece[piece].param->counted) return (gpu_piece){weight, weight, NULL, NULL};
    float *state = (float *)(void *)(j->slab + luo_bound_state_offset(b, s));
    if (w == s || j->x->config.dtype == LUO_BF16) /* w == s in f32: weight and state are the same */
        return (gpu_piece){weight, state, state + n, state + 2 * n};
    return (gpu_piece){weight, weight, state, state + n};
}

/* ---- tables ---- */

static const char *grad_of(const luo_job *j, const luo_bound_pair *p, int32_t task)
{
    return gpu_buf(j, p->grad, task);
}

static int64_t chunks_of(int64_t n)
{
    return (n + GPU_CHUNK - 1) / GPU_CHUNK;
}

static int64_t piece_of(int64_t left)
{
    return left < GPU_CHUNK ? left : GPU_CHUNK;
}

static bool is_counted(const luo_job *j, int32_t pair)
{
    return j->bound.pair[pair].piece->param->counted;
}

/* Never cut: one run of cells. */
static luo_status put_counted(gpu_binder *b, int32_t task)
{
    luo_job *j = b->job;
    gpu_counted *at = LUO_NEW_N(b->tmp, gpu_counted, j->bound.npairs);
    if (!at) return luo_err_nomem(b->err);
    for (int32_t i = 0; i < j->bound.npairs; i++) {
        const luo_bound_pair *p = &j->bound.pair[i];
        const gpu_piece w = gpu_piece_at(j, (int32_t)(p->piece - j->bound.piece));
        if (!is_counted(j, i) || p->ncells == 0) continue;
        if (p->ncells > 1 || j->grad_type != GPU_F32)
            return luo_err_set(b->err, LUO_EBUG, "`%s`, which counts move, is cut.",
                               p->piece->param->name);
        at[j->ncounted++] =
            (gpu_counted){(const float *)(const void *)grad_of(j, p, task) + p->cells[0].grad,
                          w.master + p->cells[0].weight, p->cells[0].n};
    }
    return gpu_binder_put(b, at, j->ncounted * (int64_t)sizeof *at, (const void **)&j->counted);
}

static luo_status put_norm(gpu_binder *b, int32_t task)
{
    luo_job *j = b->job;
    const int64_t elem = gpu_elem(j->grad_type);
    for (int32_t i = 0; i < j->bound.npairs; i++)
        for (int32_t k = 0; k < j->bound.pair[i].owned.n; k++)
            j->nnorm += chunks_of(j->bound.pair[i].owned.at[k].n);
    gpu_norm_chunk *at = LUO_NEW_N(b->tmp, gpu_norm_chunk, j->nnorm), *next = at;
    if (!at) return luo_err_nomem(b->err);
    for (int32_t i = 0; i < j->bound.npairs; i++) {
        const luo_bound_pair *p = &j->bound.pair[i];
        const char *grad = grad_of(j, p, task);
        for (int32_t k = 0; k < p->owned.n; k++)
            for (int64_t c = 0; c < p->owned.at[k].n; c += GPU_CHUNK)
                *next++ = (gpu_norm_chunk){grad + (p->owned.at[k].at + c) * elem,
                                           piece_of(p->owned.at[k].n - c)};
    }
    return gpu_binder_put(b, at, j->nnorm * (int64_t)sizeof *at, (const void **)&j->norm_chunk);
}

static gpu_update_chunk chunk_of(const luo_job *j, const luo_bound_pair *p, const gpu_piece *w,
                                 int32_t task, const luo_cells *c, int64_t first)
{
    const bool apart = (const void *)w->master != w->weight; /* the weight is a copy in bf16 */
    const int64_t weight = c->weight + first, state = c->state + first;
    return (gpu_update_chunk){.grad =
                                  grad_of(j, p, task) + (c->grad + first) * gpu_elem(j->grad_type),
                              .master = w->master + (apart ? state : weight),
                              .m = w->m + state,
                              .v = w->v + state,
                              .weight = apart ? (char *)w->weight + weight * 2 : NULL,
                              .n = (int32_t)piece_of(c->n - first),
                              .decays = p->decays};
}

static int64_t count_chunks(const luo_job *j, bool counted)
{
    int64_t n = 0;
    for (int32_t i = 0; i < j->bound.npairs; i++)
        for (int32_t k = 0; k < j->bound.pair[i].ncells && is_counted(j, i) == counted; k++)
            n += chunks_of(j->bound.pair[i].cells[k].n);
    return n;
}

/* Those of what counts move stand behind the others: of a step in parts they are summed, too. */
static luo_status put_update(gpu_binder *b, int32_t task)
{
    luo_job *j = b->job;
    j->nupdate = count_chunks(j, false);
    j->nsum = j->nupdate + count_chunks(j, true);
    gpu_update_chunk *at = LUO_NEW_N(b->tmp, gpu_update_chunk, j->nsum), *next = at;
    if (!at) return luo_err_nomem(b->err);
    gpu_update_chunk *counts = at + j->nupdate;
    for (int32_t i = 0; i < j->bound.npairs; i++) {
        const luo_bound_pair *p = &j->bound.pair[i];
        const gpu_piece w = gpu_piece_at(j, (int32_t)(p->piece - j->bound.piece));
        for (int32_t k = 0; k < p->ncells; k++)
            for (int64_t c = 0; c < p->cells[k].n; c += GPU_CHUNK)
                if (is_counted(j, i))
                    *counts++ = (gpu_update_chunk){
                        .grad = grad_of(j, p, task) + (p->cells[k].grad + c) * gpu_elem(GPU_F32),
                        .n = (int32_t)piece_of(p->cells[k].n - c)};
                else
                    *next++ = chunk_of(j, p, &w, task, &p->cells[k], c);
    }
    return gpu_binder_put(b, at, j->nsum * (int64_t)sizeof *at, (const void **)&j->update_chunk);
}

luo_status gpu_bind_update(gpu_binder *b)
{
    luo_job *j = b->job;
    int32_t task = -1;
    for (int32_t i = 0; i < j->bound.role->ninstr; i++)
        if (j->op[i].b->kind == LUO_OP_UPDATE) task = gpu_task_of(j, i);
    if (task < 0) return LUO_OK;
    for (int32_t i = 0; i < j->bound.npairs; i++) {
        const gpu_type t =
            gpu_type_of(luo_bound_desc(&j->bound, j->bound.pair[i].grad)->elem_bytes);
        if (i > 0 && t != j->grad_type)
            return luo_err_set(b->err, LUO_EBUG, "gradients of device %d are of several types.",
                               (int)j->x->device);
        j->grad_type = t;
    }
    j->updates = true;
    LUO_TRY(put_norm(b, task));
    LUO_TRY(put_update(b, task));
    LUO_TRY(put_counted(b, task));
    LUO_TRY(gpu_bind_parts(b));
    if (8 * j->nnorm > j->work_bytes) j->work_bytes = 8 * j->nnorm;
    return LUO_OK;
}

/* ---- the numbers of a step ---- */

gpu_step_block gpu_step_numbers(const luo_job *j, int64_t step, int64_t targets)
{
    return (gpu_step_block){.scale = 1.0 / (double)targets,
                            .lr = LUO_LEARNING_RATE,
                            .beta1 = LUO_BETA1,
                            .beta2 = LUO_BETA2,
                            .eps = LUO_ADAM_EPS,
                            .weight_decay = LUO_WEIGHT_DECAY,
                            .correction1 = 1 - pow(LUO_BETA1, (double)(step + 1)),
                            .correction2 = 1 - pow(LUO_BETA2, (double)(step + 1)),
                            .clip_norm = LUO_CLIP_NORM,
                            .clip_eps = LUO_CLIP_EPS,
                            .most_squares =
                                luo_bound_most_squares(j->x->config.dtype, j->x->config.nranks)};
}

/* ---- running them ---- */

luo_status gpu_run_norm(luo_rank *r, const gpu_op *op, int32_t task)
{
    const luo_job *j = r->job;
    LUO_TRY(gpu_take_gradients(r));
    return gpu_check(&r->err,
                     gpu_grad_norm(r->x->stream[LUO_STREAM_COMPUTE], j->nnorm, j->norm_chunk,
                                   j->grad_type, gpu_batch_numbers(j), j->device_answer, j->work,
                                   gpu_buf(j, op->b->instr->out[0], task)),
                     "the norm of the gradients");
}

static luo_status update(luo_rank *r, const gpu_op *op, int32_t task)
{
    const luo_job *j = r->job;
    const luo_instr *i = op->b->instr;
    const float *squares = gpu_buf(j, i->in[i->nin - 1], task);
    if (!luo_step_part_is_last(&r->order->part)) return gpu_keep_gradients(r, squares);
    LUO_TRY(gpu_take_gradients(r));
    LUO_TRY(gpu_check(&r->err,
                      gpu_move_bias(r->x->stream[LUO_STREAM_COMPUTE], j->ncounted, j->counted,
                                    r->x->config.model->moe.bias_rate, squares,
                                    gpu_batch_numbers(j)),
                      "the update of biases"));
    return gpu_check(&r->err,
                     gpu_update(r->x->stream[LUO_STREAM_COMPUTE], j->nupdate, j->update_chunk,
                                j->grad_type, squares, gpu_batch_numbers(j), j->device_answer),
                     "the update");
}

/* Of a staggered step the update is made when the norm is there, not made early and amended: steps
 * of ranks begin together here, so that nothing would be gained. The numbers are the same. */
luo_status gpu_run_update(luo_rank *r, const gpu_op *op, int32_t task)
{
    return r->job->bound.set->staggered ? LUO_OK : update(r, op, task);
}

luo_status gpu_run_amend(luo_rank *r, const gpu_op *op, int32_t task)
{
    return update(r, op, task);
}
