/* ops.c: which kernel does what each operation of the graph computes (core/graph/ops.inc
 * has their operands); exec/bind/bound_ops.c knows their sizes. */
#include <string.h>

#include "core/graph/rope.h"
#include "exec/cuda/moe/moe.h"

static cudaStream_t compute(const luo_rank *rank)
{
    return rank->x->stream[LUO_STREAM_COMPUTE];
}

static gpu_array in_of(const luo_rank *rank, const gpu_op *op, int32_t i, int32_t task)
{
    return gpu_at(rank->job, op->b->instr->in[i], task);
}

static gpu_array out_of(const luo_rank *rank, const gpu_op *op, int32_t i, int32_t task)
{
    return gpu_at(rank->job, op->b->instr->out[i], task);
}

static luo_status done(luo_rank *rank, const gpu_op *op, cudaError_t code)
{
    return gpu_check(&rank->err, code, luo_op_kind_name(op->b->kind));
}

bool gpu_adds(luo_rank *rank, int32_t buffer)
{
    luo_job *job = rank->job;
    if (luo_bound_desc(&job->bound, buffer)->buffer_class != LUO_BUFFER_GRADIENT) return false;
    const bool add = !job->fresh[buffer];
    job->fresh[buffer] = false;
    return add;
}

static void need(gpu_binder *binder, size_t bytes)
{
    if ((int64_t)bytes > binder->job->work_bytes) binder->job->work_bytes = (int64_t)bytes;
}

static const gpu_tokens *tokens_of(const luo_rank *rank, int32_t task)
{
    return &rank->job->batch.tokens[rank->job->bound.program->tasks[task].micro_batch];
}

/* ---- bias, embedding, norm ---- */

static luo_status run_bias(luo_rank *rank, const gpu_op *op, int32_t task)
{
    const gpu_array array = in_of(rank, op, 0, task);
    if (op->b->left_out)
        return done(rank, op,
                    gpu_add(compute(rank), op->b->rows * op->b->cols, 1, &array,
                            out_of(rank, op, 0, task)));
    return done(rank, op,
                gpu_bias(compute(rank), op->b->rows, op->b->cols, array, in_of(rank, op, 1, task),
                         out_of(rank, op, 0, task)));
}

static luo_status bind_bias_dw(gpu_binder *binder, gpu_op *op)
{
    need(binder, gpu_columns_work(op->b->rows, op->b->cols));
    return LUO_OK;
}

static luo_status run_bias_dw(luo_rank *rank, const gpu_op *op, int32_t task)
{
    const bool add = gpu_adds(rank, op->b->instr->out[0]);
    return done(rank, op,
                gpu_bias_dw(compute(rank), op->b->rows, op->b->cols, in_of(rank, op, 0, task), add,
                            out_of(rank, op, 0, task), rank->job->work));
}

static luo_status run_embedding(luo_rank *rank, const gpu_op *op, int32_t task)
{
    const luo_bound_op *bound_op = op->b;
    return done(rank, op,
                gpu_embedding(compute(rank), bound_op->rows, bound_op->cols, bound_op->lo,
                              bound_op->depth, (float)bound_op->scale, in_of(rank, op, 0, task).at,
                              in_of(rank, op, 1, task), out_of(rank, op, 0, task)));
}

static luo_status run_embedding_dw(luo_rank *rank, const gpu_op *op, int32_t task)
{
    const luo_bound_op *bound_op = op->b;
    const bool add = gpu_adds(rank, bound_op->instr->out[0]);
    const int32_t *order = tokens_of(rank, task)->order + rank->job->batch.order[op->order].at;
    return done(rank, op,
                gpu_embedding_dw(compute(rank), bound_op->rows, bound_op->cols, bound_op->lo,
                                 bound_op->depth, (float)bound_op->scale,
                                 in_of(rank, op, 0, task).at, order, in_of(rank, op, 1, task), add,
                                 out_of(rank, op, 0, task)));
}

static float eps_of(const luo_rank *rank)
{
    return (float)rank->x->config.model->norm_eps;
}

/* What norms add to their weight. */
static float one_of(const luo_rank *rank)
{
    return rank->x->config.model->norm_offset ? 1 : 0;
}

static luo_status run_norm(luo_rank *rank, const gpu_op *op, int32_t task)
{
    const gpu_array none = {0}, array = op->b->instr->nin > 2 ? in_of(rank, op, 2, task) : none;
    return done(rank, op,
                gpu_norm(compute(rank), op->b->rows, op->b->cols, eps_of(rank), one_of(rank),
                         in_of(rank, op, 0, task), in_of(rank, op, 1, task), array,
                         out_of(rank, op, 0, task)));
}

static luo_status run_norm_dx(luo_rank *rank, const gpu_op *op, int32_t task)
{
    const bool centred = rank->x->config.model->norm == LUO_NORM_LAYER;
    return done(rank, op,
                gpu_norm_dx(compute(rank), op->b->rows, op->b->cols, eps_of(rank), one_of(rank),
                            centred, in_of(rank, op, 0, task), in_of(rank, op, 1, task),
                            in_of(rank, op, 2, task), out_of(rank, op, 0, task)));
}

static luo_status bind_norm_dw(gpu_binder *binder, gpu_op *op)
{
    need(binder, gpu_columns_work(op->b->rows, 2 * op->b->cols));
    return LUO_OK;
}

static luo_status run_norm_dw(luo_rank *rank, const gpu_op *op, int32_t task)
{
    const luo_instr *instr = op->b->instr;
    bool add = gpu_adds(rank, instr->out[0]);
    const bool adds = instr->nout > 1 ? gpu_adds(rank, instr->out[1]) : add;
    if (add != adds) { /* one is summed over micro-batches, the other not: it begins with zeros */
        const gpu_array zero = out_of(rank, op, add, task);
        const size_t bytes = (size_t)(op->b->cols * gpu_elem(zero.type));
        LUO_TRY(done(rank, op, cudaMemsetAsync(zero.at, 0, bytes, compute(rank))));
        add = true;
    }
    const gpu_array none = {0}, db = instr->nout > 1 ? out_of(rank, op, 1, task) : none;
    return done(rank, op,
                gpu_norm_dw(compute(rank), op->b->rows, op->b->cols, eps_of(rank),
                            in_of(rank, op, 0, task), in_of(rank, op, 1, task), add,
                            out_of(rank, op, 0, task), db, rank->job->work));
}

/* ---- attention ---- */

/* Which query heads read each key-value head: the other way round of kv_of. */
static luo_status bind_heads(gpu_binder *binder, gpu_op *op)
{
    const luo_heads *heads = op->b->heads;
    int32_t *of = LUO_NEW_N(binder->tmp, int32_t, heads->n),
            *first = LUO_NEW_N(binder->tmp, int32_t, heads->g + 1);
    if (!of || !first) return luo_err_nomem(binder->err);
    int32_t n = 0;
    for (int32_t g = 0; g < heads->g; g++) {
        first[g] = n;
        for (int32_t q = 0; q < heads->n; q++)
            if (heads->kv_of[q] == g) of[n++] = q;
    }
    first[heads->g] = n;
    op->heads = (gpu_heads){.n = heads->n,
                            .g = heads->g,
                            .d = heads->d,
                            .causal = heads->causal,
                            .u = heads->u,
                            .scale = heads->scale,
                            .softcap = heads->softcap,
                            .window = heads->window};
    const int64_t one = (int64_t)sizeof(int32_t);
    LUO_TRY(gpu_binder_put(binder, heads->kv_of, one * heads->n, (const void **)&op->heads.kv_of));
    LUO_TRY(gpu_binder_put(binder, of, one * heads->n, (const void **)&op->heads.heads_of));
    return gpu_binder_put(binder, first, one * (heads->g + 1),
                          (const void **)&op->heads.heads_of_first);
}

static luo_status bind_attention(gpu_binder *binder, gpu_op *op)
{
    LUO_TRY(bind_heads(binder, op));
    return op->b->block ? gpu_bind_block(binder, op, false) : gpu_bind_documents(binder, op);
}

static luo_status bind_attention_dx(gpu_binder *binder, gpu_op *op)
{
    LUO_TRY(bind_heads(binder, op));
    if (op->b->block) return gpu_bind_block(binder, op, true);
    const gpu_type type = gpu_type_of(gpu_in(binder->job, op, 3)->elem_bytes);
    need(binder, gpu_attention_dx_work(op->b->rows, &op->heads, type));
    return gpu_bind_documents(binder, op);
}

static luo_status bind_turns(gpu_binder *binder, gpu_op *op)
{
    const double *radians = op->b->turns->frequency;
    const int64_t bytes = op->b->turns->turned / 2 * (int64_t)sizeof *radians;
    op->turns = *op->b->turns;
    return radians ? gpu_binder_put(binder, radians, bytes, (const void **)&op->turns.frequency)
                   : LUO_OK;
}

static luo_status rope(luo_rank *rank, const gpu_op *op, int32_t task, bool back)
{
    for (int32_t k = 0; k < 2; k++) {
        const luo_buffer *buffer = gpu_in(rank->job, op, k);
        const int32_t *positions =
            tokens_of(rank, task)->of[LUO_DATA_POSITIONS] + (k ? op->b->depth : op->b->lo);
        LUO_TRY(
            done(rank, op,
                 gpu_rope(compute(rank), buffer->dim[0], buffer->dim[1], buffer->dim[2], op->turns,
                          back, positions, in_of(rank, op, k, task), out_of(rank, op, k, task))));
    }
    return LUO_OK;
}

static luo_status run_rope(luo_rank *rank, const gpu_op *op, int32_t task)
{
    return rope(rank, op, task, false);
}

static luo_status run_rope_dx(luo_rank *rank, const gpu_op *op, int32_t task)
{
    return rope(rank, op, task, true);
}

static luo_status run_attention(luo_rank *rank, const gpu_op *op, int32_t task)
{
    const gpu_documents documents = gpu_documents_of(rank, op, task);
    return done(rank, op,
                gpu_attention(compute(rank), op->b->rows, &op->heads, documents.start_of,
                              documents.end_of, in_of(rank, op, 0, task), in_of(rank, op, 1, task),
                              in_of(rank, op, 2, task), out_of(rank, op, 0, task),
                              out_of(rank, op, 1, task).at));
}

static luo_status run_attention_dx(luo_rank *rank, const gpu_op *op, int32_t task)
{
    const gpu_documents documents = gpu_documents_of(rank, op, task);
    gpu_array in[6], out[3];
    for (int32_t k = 0; k < 6; k++) in[k] = in_of(rank, op, k, task);
    for (int32_t k = 0; k < 3; k++) out[k] = out_of(rank, op, k, task);
    return done(rank, op,
                gpu_attention_dx(compute(rank), op->b->rows, &op->heads, documents.start_of,
                                 documents.end_of, in[0], in[1], in[2].at, in[3], in[4], in[5],
                                 out[0], out[1], out[2], rank->job->work));
}

/* ---- latent attention ---- */

static luo_status run_latent(luo_rank *rank, const gpu_op *op, int32_t task)
{
    const luo_buffer *buffer = gpu_in(rank->job, op, 0);
    return done(rank, op,
                gpu_latent(compute(rank), buffer->dim[0], buffer->dim[1], buffer->dim[2],
                           gpu_in(rank->job, op, 2)->dim[1], op->turns,
                           tokens_of(rank, task)->of[LUO_DATA_POSITIONS] + op->b->lo,
                           in_of(rank, op, 0, task), in_of(rank, op, 1, task),
                           in_of(rank, op, 2, task), out_of(rank, op, 0, task),
                           out_of(rank, op, 1, task)));
}

static luo_status run_latent_dx(luo_rank *rank, const gpu_op *op, int32_t task)
{
    const luo_buffer *buffer = gpu_in(rank->job, op, 0), *shared = gpu_out(rank->job, op, 2);
    return done(
        rank, op,
        gpu_latent_dx(compute(rank), shared->dim[0], buffer->dim[1], buffer->dim[2], shared->dim[1],
                      op->turns, tokens_of(rank, task)->of[LUO_DATA_POSITIONS] + op->b->lo,
                      in_of(rank, op, 0, task), in_of(rank, op, 1, task), out_of(rank, op, 0, task),
                      out_of(rank, op, 1, task), out_of(rank, op, 2, task)));
}

/* ---- pointwise ---- */

luo_status gpu_activate(luo_rank *rank, const gpu_op *op, int64_t n, int32_t task)
{
    const luo_activation kind = rank->x->config.model->activation;
    const gpu_array x = in_of(rank, op, 0, task), y = out_of(rank, op, 0, task);
    if (kind == LUO_ACT_GELU) return done(rank, op, gpu_gelu(compute(rank), n, x, y));
    if (kind == LUO_ACT_GELU_ERF) return done(rank, op, gpu_gelu_erf(compute(rank), n, x, y));
    if (kind == LUO_ACT_RELU) return done(rank, op, gpu_relu(compute(rank), n, x, y));
    return done(rank, op,
                (kind == LUO_ACT_GEGLU ? gpu_geglu : gpu_swiglu)(
                    compute(rank), n, x, in_of(rank, op, 1, task), y, out_of(rank, op, 1, task)));
}

luo_status gpu_activate_dx(luo_rank *rank, const gpu_op *op, int64_t n, int32_t task)
{
    const luo_activation kind = rank->x->config.model->activation;
    const gpu_array dy = in_of(rank, op, 0, task), array = in_of(rank, op, 1, task);
    const gpu_array dx = out_of(rank, op, 0, task);
    if (kind == LUO_ACT_GELU) return done(rank, op, gpu_gelu_dx(compute(rank), n, dy, array, dx));
    if (kind == LUO_ACT_GELU_ERF)
        return done(rank, op, gpu_gelu_erf_dx(compute(rank), n, dy, array, dx));
    if (kind == LUO_ACT_RELU) return done(rank, op, gpu_relu_dx(compute(rank), n, dy, array, dx));
    return done(rank, op,
                (kind == LUO_ACT_GEGLU ? gpu_geglu_dx : gpu_swiglu_dx)(
                    compute(rank), n, dy, array, in_of(rank, op, 2, task), in_of(rank, op, 3, task),
                    dx, out_of(rank, op, 1, task)));
}

static luo_status run_activation(luo_rank *rank, const gpu_op *op, int32_t task)
{
    return gpu_activate(rank, op, op->b->rows, task);
}

static luo_status run_activation_dx(luo_rank *rank, const gpu_op *op, int32_t task)
{
    return gpu_activate_dx(rank, op, op->b->rows, task);
}

static luo_status run_add(luo_rank *rank, const gpu_op *op, int32_t task)
{
    gpu_array array[LUO_SUMMANDS];
    int32_t n = 0;
    for (int32_t k = 0; k < op->b->instr->nin; k++)
        if (!(op->b->left_out >> k & 1)) array[n++] = in_of(rank, op, k, task);
    return done(rank, op, gpu_add(compute(rank), op->b->rows, n, array, out_of(rank, op, 0, task)));
}

/* A contribution that arrived by communication, onto the running sum. */
static luo_status run_accumulate(luo_rank *rank, const gpu_op *op, int32_t task)
{
    const gpu_array sum = out_of(rank, op, 0, task), array[2] = {sum, in_of(rank, op, 0, task)};
    const bool add = gpu_adds(rank, op->b->instr->out[0]);
    return done(rank, op,
                gpu_add(compute(rank), op->b->rows, add ? 2 : 1, add ? array : array + 1, sum));
}

/* ---- data, loss ---- */

static luo_status run_placeholder(luo_rank *rank, const gpu_op *op, int32_t task)
{
    const int32_t *from = tokens_of(rank, task)->of[op->b->depth] + op->b->lo;
    return done(rank, op,
                cudaMemcpyAsync(out_of(rank, op, 0, task).at, from,
                                (size_t)op->b->rows * sizeof(int32_t), cudaMemcpyDeviceToDevice,
                                compute(rank)));
}

static float softcap_of(const luo_rank *rank)
{
    return (float)rank->x->config.model->logit_softcap;
}

static luo_status run_row_max(luo_rank *rank, const gpu_op *op, int32_t task)
{
    return done(rank, op,
                gpu_row_max(compute(rank), op->b->rows, op->b->cols, op->b->depth,
                            in_of(rank, op, 0, task), out_of(rank, op, 0, task).at,
                            softcap_of(rank)));
}

static luo_status run_row_sum(luo_rank *rank, const gpu_op *op, int32_t task)
{
    return done(rank, op,
                gpu_row_sum(compute(rank), op->b->rows, op->b->cols, op->b->depth,
                            in_of(rank, op, 0, task), in_of(rank, op, 1, task).at,
                            out_of(rank, op, 0, task).at, out_of(rank, op, 1, task).at,
                            softcap_of(rank)));
}

static luo_status run_row_target(luo_rank *rank, const gpu_op *op, int32_t task)
{
    return done(rank, op,
                gpu_row_target(compute(rank), op->b->rows, op->b->cols, op->b->lo,
                               in_of(rank, op, 0, task), in_of(rank, op, 1, task).at,
                               out_of(rank, op, 0, task).at, softcap_of(rank)));
}

static luo_status run_loss(luo_rank *rank, const gpu_op *op, int32_t task)
{
    const int32_t *labels = tokens_of(rank, task)->of[LUO_DATA_LABELS] + op->b->lo;
    return done(rank, op,
                gpu_loss(compute(rank), op->b->rows, in_of(rank, op, 0, task).at,
                         in_of(rank, op, 1, task).at, in_of(rank, op, 2, task).at, labels,
                         gpu_batch_numbers(rank->job), out_of(rank, op, 0, task).at));
}

static luo_status run_loss_dx(luo_rank *rank, const gpu_op *op, int32_t task)
{
    return done(
        rank, op,
        gpu_loss_dx(compute(rank), op->b->rows, op->b->cols, op->b->lo, in_of(rank, op, 0, task).at,
                    in_of(rank, op, 1, task).at, in_of(rank, op, 2, task).at,
                    gpu_batch_numbers(rank->job), out_of(rank, op, 0, task),
                    op->b->instr->nin > 3 ? in_of(rank, op, 3, task).at : NULL, softcap_of(rank)));
}

static luo_status run_sum(luo_rank *rank, const gpu_op *op, int32_t task)
{
    const bool add = gpu_adds(rank, op->b->instr->out[0]);
    return done(rank, op,
                gpu_sum(compute(rank), op->b->rows, in_of(rank, op, 0, task).at, add,
                        out_of(rank, op, 0, task).at));
}

/* ---- the table ---- */

typedef struct kernel {
    gpu_run run; /* NULL: set by bind */
    luo_status (*bind)(gpu_binder *b, gpu_op *op);
} kernel;

static const kernel kernel_none = {NULL, NULL}; /* communication and storage */
static const kernel kernel_placeholder = {run_placeholder, NULL};
static const kernel kernel_products = {NULL, gpu_bind_products};
static const kernel kernel_bias = {run_bias, NULL};
static const kernel kernel_bias_dw = {run_bias_dw, bind_bias_dw};
static const kernel kernel_embedding = {run_embedding, NULL};
static const kernel kernel_embedding_dw = {run_embedding_dw, gpu_bind_order};
static const kernel kernel_norm = {run_norm, NULL};
static const kernel kernel_norm_dx = {run_norm_dx, NULL};
static const kernel kernel_norm_dw = {run_norm_dw, bind_norm_dw};
static const kernel kernel_rope = {run_rope, bind_turns};
static const kernel kernel_rope_dx = {run_rope_dx, bind_turns};
static const kernel kernel_latent = {run_latent, bind_turns};
static const kernel kernel_latent_dx = {run_latent_dx, bind_turns};
static const kernel kernel_attention = {run_attention, bind_attention};
static const kernel kernel_attention_dx = {run_attention_dx, bind_attention_dx};
static const kernel kernel_activation = {run_activation, NULL};
static const kernel kernel_activation_dx = {run_activation_dx, NULL};
static const kernel kernel_add = {run_add, NULL};
static const kernel kernel_route = {gpu_run_route, NULL};
static const kernel kernel_route_dx = {gpu_run_route_dx, NULL};
static const kernel kernel_pack = {gpu_run_pack, gpu_bind_places};
static const kernel kernel_pack_dx = {gpu_run_pack_dx, gpu_bind_places};
static const kernel kernel_grouped = {gpu_run_grouped, NULL};
static const kernel kernel_rows_activation = {gpu_run_rows_activation, NULL};
static const kernel kernel_rows_activation_dx = {gpu_run_rows_activation_dx, NULL};
static const kernel kernel_combine = {gpu_run_combine, gpu_bind_places};
static const kernel kernel_combine_dx = {gpu_run_combine_dx, gpu_bind_places};
static const kernel kernel_token_gate = {gpu_run_token_gate, NULL};
static const kernel kernel_token_gate_dx = {gpu_run_token_gate_dx, NULL};
static const kernel kernel_row_max = {run_row_max, NULL};
static const kernel kernel_row_sum = {run_row_sum, NULL};
static const kernel kernel_row_target = {run_row_target, NULL};
static const kernel kernel_loss = {run_loss, NULL};
static const kernel kernel_loss_dx = {run_loss_dx, NULL};
static const kernel kernel_sum = {run_sum, NULL};
static const kernel kernel_accumulate = {run_accumulate, NULL};
static const kernel kernel_grad_norm = {gpu_run_norm, NULL};
static const kernel kernel_update = {gpu_run_update, NULL};
static const kernel kernel_amend = {gpu_run_amend, NULL};

static const kernel *const kernels[LUO_OP_KINDS] = {
#define LUO_OP(kind, name, operands, nin, nout, deduce, gradient, emit, cost, size, keeps, bind,   \
               kernel)                                                                             \
    [LUO_OP_##kind] = &kernel_##kernel,
#include "core/graph/ops.inc"
#undef LUO_OP
};

luo_status gpu_bind_op(gpu_binder *binder, gpu_op *op)
{
    const luo_bound_op *at = op->b;
    const kernel *k = at->kind < LUO_OP_KINDS ? kernels[at->kind] : &kernel_none;
    if (!k->run && !k->bind)
        return luo_err_set(binder->err, LUO_EBUG,
                           "instruction %d is of a kind that this executor does not know.",
                           (int)at->instr->id);
    op->run = k->run;
    return k->bind ? k->bind(binder, op) : LUO_OK;
}
