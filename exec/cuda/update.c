/* update.c: the norm of the gradients and AdamW: every cell of every piece, cut into
 * chunks that lie on the device as two tables, so that one kernel does all of them. */
#include <math.h>

#include "exec/cuda/bind.h"
#include "exec/recipe.h"

gpu_piece gpu_piece_at(const luo_job *job, int32_t piece)
{
    const luo_bound *bound = &job->bound;
    const int32_t w = bound->weight_buffer[piece], s = bound->state_buffer[piece];
    const int64_t n = bound->piece[piece].state_frame.volume;
    if (w < 0 || s < 0) return (gpu_piece){0};
    void *weight = job->slab + bound->layout.at[w];
    if (bound->piece[piece].param->counted) return (gpu_piece){weight, weight, NULL, NULL};
    float *state = (float *)(void *)(job->slab + luo_bound_state_offset(bound, s));
    if (w == s ||
        job->x->config.dtype == LUO_BF16) /* w == s in f32: weight and state are the same */
        return (gpu_piece){weight, state, state + n, state + 2 * n};
    return (gpu_piece){weight, weight, state, state + n};
}

/* ---- tables ---- */

static const char *grad_of(const luo_job *job, const luo_bound_pair *pair, int32_t task)
{
    return gpu_buf(job, pair->grad, task);
}

static int64_t chunks_of(int64_t n)
{
    return (n + GPU_CHUNK - 1) / GPU_CHUNK;
}

static int64_t piece_of(int64_t left)
{
    return left < GPU_CHUNK ? left : GPU_CHUNK;
}

static bool is_counted(const luo_job *job, int32_t pair)
{
    return job->bound.pair[pair].piece->param->counted;
}

/* Never cut: one run of cells. */
static luo_status put_counted(gpu_binder *binder, int32_t task)
{
    luo_job *job = binder->job;
    gpu_counted *at = LUO_NEW_N(binder->tmp, gpu_counted, job->bound.npairs);
    if (!at) return luo_err_nomem(binder->err);
    for (int32_t i = 0; i < job->bound.npairs; i++) {
        const luo_bound_pair *pair = &job->bound.pair[i];
        const gpu_piece piece = gpu_piece_at(job, (int32_t)(pair->piece - job->bound.piece));
        if (!is_counted(job, i) || pair->ncells == 0) continue;
        if (pair->ncells > 1 || job->grad_type != GPU_F32)
            return luo_err_set(binder->err, LUO_EBUG, "`%s`, which counts move, is cut.",
                               pair->piece->param->name);
        at[job->ncounted++] = (gpu_counted){(const float *)(const void *)grad_of(job, pair, task) +
                                                pair->cells[0].grad,
                                            piece.master + pair->cells[0].weight, pair->cells[0].n};
    }
    return gpu_binder_put(binder, at, job->ncounted * (int64_t)sizeof *at,
                          (const void **)&job->counted);
}

static luo_status put_norm(gpu_binder *binder, int32_t task)
{
    luo_job *job = binder->job;
    const int64_t elem = gpu_elem(job->grad_type);
    for (int32_t i = 0; i < job->bound.npairs; i++)
        for (int32_t k = 0; k < job->bound.pair[i].owned.n; k++)
            job->nnorm += chunks_of(job->bound.pair[i].owned.at[k].n);
    gpu_norm_chunk *at = LUO_NEW_N(binder->tmp, gpu_norm_chunk, job->nnorm), *next = at;
    if (!at) return luo_err_nomem(binder->err);
    for (int32_t i = 0; i < job->bound.npairs; i++) {
        const luo_bound_pair *pair = &job->bound.pair[i];
        const char *grad = grad_of(job, pair, task);
        for (int32_t k = 0; k < pair->owned.n; k++)
            for (int64_t c = 0; c < pair->owned.at[k].n; c += GPU_CHUNK)
                *next++ = (gpu_norm_chunk){grad + (pair->owned.at[k].at + c) * elem,
                                           piece_of(pair->owned.at[k].n - c)};
    }
    return gpu_binder_put(binder, at, job->nnorm * (int64_t)sizeof *at,
                          (const void **)&job->norm_chunk);
}

static gpu_update_chunk chunk_of(const luo_job *job, const luo_bound_pair *pair,
                                 const gpu_piece *piece, int32_t task, const luo_cells *cells,
                                 int64_t first)
{
    const bool apart =
        (const void *)piece->master != piece->weight; /* the weight is a copy in bf16 */
    const int64_t weight = cells->weight + first, state = cells->state + first;
    return (gpu_update_chunk){.grad = grad_of(job, pair, task) +
                                      (cells->grad + first) * gpu_elem(job->grad_type),
                              .master = piece->master + (apart ? state : weight),
                              .m = piece->m + state,
                              .v = piece->v + state,
                              .weight = apart ? (char *)piece->weight + weight * 2 : NULL,
                              .n = (int32_t)piece_of(cells->n - first),
                              .decays = pair->decays};
}

static int64_t count_chunks(const luo_job *job, bool counted)
{
    int64_t n = 0;
    for (int32_t i = 0; i < job->bound.npairs; i++)
        for (int32_t k = 0; k < job->bound.pair[i].ncells && is_counted(job, i) == counted; k++)
            n += chunks_of(job->bound.pair[i].cells[k].n);
    return n;
}

/* Those of what counts move stand behind the others: of a step in parts they are summed, too. */
static luo_status put_update(gpu_binder *binder, int32_t task)
{
    luo_job *job = binder->job;
    job->nupdate = count_chunks(job, false);
    job->nsum = job->nupdate + count_chunks(job, true);
    gpu_update_chunk *at = LUO_NEW_N(binder->tmp, gpu_update_chunk, job->nsum), *next = at;
    if (!at) return luo_err_nomem(binder->err);
    gpu_update_chunk *counts = at + job->nupdate;
    for (int32_t i = 0; i < job->bound.npairs; i++) {
        const luo_bound_pair *pair = &job->bound.pair[i];
        const gpu_piece piece = gpu_piece_at(job, (int32_t)(pair->piece - job->bound.piece));
        for (int32_t k = 0; k < pair->ncells; k++)
            for (int64_t c = 0; c < pair->cells[k].n; c += GPU_CHUNK)
                if (is_counted(job, i))
                    *counts++ =
                        (gpu_update_chunk){.grad = grad_of(job, pair, task) +
                                                   (pair->cells[k].grad + c) * gpu_elem(GPU_F32),
                                           .n = (int32_t)piece_of(pair->cells[k].n - c)};
                else
                    *next++ = chunk_of(job, pair, &piece, task, &pair->cells[k], c);
    }
    return gpu_binder_put(binder, at, job->nsum * (int64_t)sizeof *at,
                          (const void **)&job->update_chunk);
}

luo_status gpu_bind_update(gpu_binder *binder)
{
    luo_job *job = binder->job;
    int32_t task = -1;
    for (int32_t i = 0; i < job->bound.role->ninstr; i++)
        if (job->op[i].b->kind == LUO_OP_UPDATE) task = gpu_task_of(job, i);
    if (task < 0) return LUO_OK;
    for (int32_t i = 0; i < job->bound.npairs; i++) {
        const gpu_type t =
            gpu_type_of(luo_bound_desc(&job->bound, job->bound.pair[i].grad)->elem_bytes);
        if (i > 0 && t != job->grad_type)
            return luo_err_set(binder->err, LUO_EBUG,
                               "gradients of device %d are of several types.", (int)job->x->device);
        job->grad_type = t;
    }
    job->updates = true;
    LUO_TRY(put_norm(binder, task));
    LUO_TRY(put_update(binder, task));
    LUO_TRY(put_counted(binder, task));
    LUO_TRY(gpu_bind_parts(binder));
    if (8 * job->nnorm > job->work_bytes) job->work_bytes = 8 * job->nnorm;
    return LUO_OK;
}

/* ---- the numbers of a step ---- */

gpu_step_block gpu_step_numbers(const luo_job *job, int64_t step, int64_t targets)
{
    return (gpu_step_block){
        .scale = 1.0 / (double)targets,
        .lr = LUO_LEARNING_RATE,
        .beta1 = LUO_BETA1,
        .beta2 = LUO_BETA2,
        .eps = LUO_ADAM_EPS,
        .weight_decay = LUO_WEIGHT_DECAY,
        .correction1 = 1 - pow(LUO_BETA1, (double)(step + 1)),
        .correction2 = 1 - pow(LUO_BETA2, (double)(step + 1)),
        .clip_norm = LUO_CLIP_NORM,
        .clip_eps = LUO_CLIP_EPS,
        .most_squares = luo_bound_most_squares(job->x->config.dtype, job->x->config.nranks)};
}

/* ---- running them ---- */

luo_status gpu_run_norm(luo_rank *rank, const gpu_op *op, int32_t task)
{
    const luo_job *job = rank->job;
    LUO_TRY(gpu_take_gradients(rank));
    return gpu_check(&rank->err,
                     gpu_grad_norm(rank->x->stream[LUO_STREAM_COMPUTE], job->nnorm, job->norm_chunk,
                                   job->grad_type, gpu_batch_numbers(job), job->device_answer,
                                   job->work, gpu_buf(job, op->b->instr->out[0], task)),
                     "the norm of the gradients");
}

static luo_status update(luo_rank *rank, const gpu_op *op, int32_t task)
{
    const luo_job *job = rank->job;
    const luo_instr *instr = op->b->instr;
    const float *squares = gpu_buf(job, instr->in[instr->nin - 1], task);
    if (!luo_step_part_is_last(&rank->order->part)) return gpu_keep_gradients(rank, squares);
    LUO_TRY(gpu_take_gradients(rank));
    LUO_TRY(gpu_check(&rank->err,
                      gpu_move_bias(rank->x->stream[LUO_STREAM_COMPUTE], job->ncounted,
                                    job->counted, rank->x->config.model->moe.bias_rate, squares,
                                    gpu_batch_numbers(job)),
                      "the update of biases"));
    return gpu_check(&rank->err,
                     gpu_update(rank->x->stream[LUO_STREAM_COMPUTE], job->nupdate,
                                job->update_chunk, job->grad_type, squares, gpu_batch_numbers(job),
                                job->device_answer),
                     "the update");
}

/* Of a staggered step the update is made when the norm is there, not made early and amended: steps
 * of ranks begin together here, so that nothing would be gained. The numbers are the same. */
luo_status gpu_run_update(luo_rank *rank, const gpu_op *op, int32_t task)
{
    return rank->job->bound.set->staggered ? LUO_OK : update(rank, op, task);
}

luo_status gpu_run_amend(luo_rank *rank, const gpu_op *op, int32_t task)
{
    return update(rank, op, task);
}
