/* ops.c: which kernel does what each operation of the graph computes (core/graph/ops.inc
 * has their operands); exec/bind/bound_ops.c knows their sizes. */
#include <string.h>

#include "core/graph/rope.h"
#include "exec/cuda/moe/moe.h"

static cudaStream_t compute(const luo_rank *r)
{
    return r->x->stream[LUO_STREAM_COMPUTE];
}

static gpu_array in_of(const luo_rank *r, const gpu_op *op, int32_t i, int32_t task)
{
    return gpu_at(r->job, op->b->instr->in[i], task);
}

static gpu_array out_of(const luo_rank *r, const gpu_op *op, int32_t i, int32_t task)
{
    return gpu_at(r->job, op->b->instr->out[i], task);
}

static luo_status done(luo_rank *r, const gpu_op *op, cudaError_t code)
{
    return gpu_check(&r->err, code, luo_op_kind_name(op->b->kind));
}

bool gpu_adds(luo_rank *r, int32_t buffer)
{
    luo_job *j = r->job;
    if (luo_bound_desc(&j->bound, buffer)->buffer_class != LUO_BUFFER_GRADIENT) return false;
    const bool add = !j->fresh[buffer];
    j->fresh[buffer] = false;
    return add;
}

static void need(gpu_binder *b, size_t bytes)
{
    if ((int64_t)bytes > b->job->work_bytes) b->job->work_bytes = (int64_t)bytes;
}

static const gpu_tokens *tokens_of(const luo_rank *r, int32_t task)
{
    return &r->job->batch.tokens[r->job->bound.program->tasks[task].micro_batch];
}

/* ---- bias, embedding, norm ---- */

static luo_status run_bias(luo_rank *r, const gpu_op *op, int32_t task)
{
    const gpu_array x = in_of(r, op, 0, task);
    if (op->b->left_out)
        return done(r, op,
                    gpu_add(compute(r), op->b->rows * op->b->cols, 1, &x, out_of(r, op, 0, task)));
    return done(r, op,
                gpu_bias(compute(r), op->b->rows, op->b->cols, x, in_of(r, op, 1, task),
                         out_of(r, op, 0, task)));
}

static luo_status bind_bias_dw(gpu_binder *b, gpu_op *op)
{
    need(b, gpu_columns_work(op->b->rows, op->b->cols));
    return LUO_OK;
}

static luo_status run_bias_dw(luo_rank *r, const gpu_op *op, int32_t task)
{
    const bool add = gpu_adds(r, op->b->instr->out[0]);
    return done(r, op,
                gpu_bias_dw(compute(r), op->b->rows, op->b->cols, in_of(r, op, 0, task), add,
                            out_of(r, op, 0, task), r->job->work));
}

static luo_status run_embedding(luo_rank *r, const gpu_op *op, int32_t task)
{
    const luo_bound_op *b = op->b;
    return done(r, op,
                gpu_embedding(compute(r), b->rows, b->cols, b->lo, b->depth, (float)b->scale,
                              in_of(r, op, 0, task).at, in_of(r, op, 1, task),
                              out_of(r, op, 0, task)));
}

static luo_status run_embedding_dw(luo_rank *r, const gpu_op *op, int32_t task)
{
    const luo_bound_op *b = op->b;
    const bool add = gpu_adds(r, b->instr->out[0]);
    const int32_t *order = tokens_of(r, task)->order + r->job->batch.order[op->order].at;
    return done(r, op,
                gpu_embedding_dw(compute(r), b->rows, b->cols, b->lo, b->depth, (float)b->scale,
                                 in_of(r, op, 0, task).at, order, in_of(r, op, 1, task), add,
                                 out_of(r, op, 0, task)));
}

static float eps_of(const luo_rank *r)
{
    return (float)r->x->config.model->norm_eps;
}

/* What norms add to their weight. */
static float one_of(const luo_rank *r)
{
    return r->x->config.model->norm_offset ? 1 : 0;
}

static luo_status run_norm(luo_rank *r, const gpu_op *op, int32_t task)
{
    const gpu_array none = {0}, b = op->b->instr->nin > 2 ? in_of(r, op, 2, task) : none;
    return done(r, op,
                gpu_norm(compute(r), op->b->rows, op->b->cols, eps_of(r), one_of(r),
                         in_of(r, op, 0, task), in_of(r, op, 1, task), b, out_of(r, op, 0, task)));
}

static luo_status run_norm_dx(luo_rank *r, const gpu_op *op, int32_t task)
{
    const bool centred = r->x->config.model->norm == LUO_NORM_LAYER;
    return done(r, op,
                gpu_norm_dx(compute(r), op->b->rows, op->b->cols, eps_of(r), one_of(r), centred,
                            in_of(r, op, 0, task), in_of(r, op, 1, task), in_of(r, op, 2, task),
                            out_of(r, op, 0, task)));
}

static luo_status bind_norm_dw(gpu_binder *b, gpu_op *op)
{
    need(b, gpu_columns_work(op->b->rows, 2 * op->b->cols));
    return LUO_OK;
}

static luo_status run_norm_dw(luo_rank *r, const gpu_op *op, int32_t task)
{
    const luo_instr *i = op->b->instr;
    bool add = gpu_adds(r, i->out[0]);
    const bool adds = i->nout > 1 ? gpu_adds(r, i->out[1]) : add;
    if (add != adds) { /* one is summed over micro-batches, the other not: it begins with zeros */
        const gpu_array zero = out_of(r, op, add, task);
        const size_t bytes = (size_t)(op->b->cols * gpu_elem(zero.type));
        LUO_TRY(done(r, op, cudaMemsetAsync(zero.at, 0, bytes, compute(r))));
        add = true;
    }
    const gpu_array none = {0}, db = i->nout > 1 ? out_of(r, op, 1, task) : none;
    return done(r, op,
                gpu_norm_dw(compute(r), op->b->rows, op->b->cols, eps_of(r), in_of(r, op, 0, task),
                            in_of(r, op, 1, task), add, out_of(r, op, 0, task), db, r->job->work));
}

/* ---- attention ---- */

/* Which query heads read each key-value head: the other way round of kv_of. */
static luo_status bind_heads(gpu_binder *b, gpu_op *op)
{
    const luo_heads *h = op->b->heads;
    int32_t *of = LUO_NEW_N(b->tmp, int32_t, h->n), *first = LUO_NEW_N(b->tmp, int32_t, h->g + 1);
    if (!of || !first) return luo_err_nomem(b->err);
    int32_t n = 0;
    for (int32_t g = 0; g < h->g; g++) {
        first[g] = n;
        for (int32_t q = 0; q < h->n; q++)
            if (h->kv_of[q] == g) of[n++] = q;
    }
    first[h->g] = n;
    op->heads = (gpu_heads){.n = h->n, .g = h->g, .d = h->d, .causal = h->causal, .u = h->u,
                            .scale = h->scale, .softcap = h->softcap,
                            .window = h->window};
    const int64_t one = (int64_t)sizeof(int32_t);
    LUO_TRY(gpu_binder_put(b, h->kv_of, one * h->n, (const void **)&op->heads.kv_of));
    LUO_TRY(gpu_binder_put(b, of, one * h->n, (const void **)&op->heads.heads_of));
    return gpu_binder_put(b, first, one * (h->g + 1), (const void **)&op->heads.heads_of_first);
}

static luo_status bind_attention(gpu_binder *b, gpu_op *op)
{
    LUO_TRY(bind_heads(b, op));
    return op->b->block ? gpu_bind_block(b, op, false) : gpu_bind_documents(b, op);
}

static luo_status bind_attention_dx(gpu_binder *b, gpu_op *op)
{
    LUO_TRY(bind_heads(b, op));
    if (op->b->block) return gpu_bind_block(b, op, true);
    const gpu_type type = gpu_type_of(gpu_in(b->job, op, 3)->elem_bytes);
    need(b, gpu_attention_dx_work(op->b->rows, &op->heads, type));
    return gpu_bind_documents(b, op);
}

static luo_status bind_turns(gpu_binder *b, gpu_op *op)
{
    const double *radians = op->b->turns->frequency;
    const int64_t bytes = op->b->turns->turned / 2 * (int64_t)sizeof *radians;
    op->turns = *op->b->turns;
    return radians ? gpu_binder_put(b, radians, bytes, (const void **)&op->turns.frequency)
                   : LUO_OK;
}

static luo_status rope(luo_rank *r, const gpu_op *op, int32_t task, bool back)
{
    for (int32_t k = 0; k < 2; k++) {
        const luo_buffer *x = gpu_in(r->job, op, k);
        const int32_t *positions =
            tokens_of(r, task)->of[LUO_DATA_POSITIONS] + (k ? op->b->depth : op->b->lo);
        LUO_TRY(done(r, op,
                     gpu_rope(compute(r), x->dim[0], x->dim[1], x->dim[2],
                              op->turns, back, positions,
                              in_of(r, op, k, task), out_of(r, op, k, task))));
    }
    return LUO_OK;
}

static luo_status run_rope(luo_rank *r, const gpu_op *op, int32_t task)
{
    return rope(r, op, task, false);
}

static luo_status run_rope_dx(luo_rank *r, const gpu_op *op, int32_t task)
{
    return rope(r, op, task, true);
}

static luo_status run_attention(luo_rank *r, const gpu_op *op, int32_t task)
{
    const gpu_documents t = gpu_documents_of(r, op, task);
    return done(r, op,
                gpu_attention(compute(r), op->b->rows, &op->heads, t.start_of, t.end_of,
                              in_of(r, op, 0, task), in_of(r, op, 1, task), in_of(r, op, 2, task),
                              out_of(r, op, 0, task), out_of(r, op, 1, task).at));
}

static luo_status run_attention_dx(luo_rank *r, const gpu_op *op, int32_t task)
{
    const gpu_documents t = gpu_documents_of(r, op, task);
    gpu_array in[6], out[3];
    for (int32_t k = 0; k < 6; k++) in[k] = in_of(r, op, k, task);
    for (int32_t k = 0; k < 3; k++) out[k] = out_of(r, op, k, task);
    return done(r, op,
                gpu_attention_dx(compute(r), op->b->rows, &op->heads, t.start_of, t.end_of, in[0],
                                 in[1], in[2].at, in[3], in[4], in[5], out[0], out[1], out[2],
                                 r->job->work));
}

/* ---- latent attention ---- */

static luo_status run_latent(luo_rank *r, const gpu_op *op, int32_t task)
{
    const luo_buffer *q = gpu_in(r->job, op, 0);
    return done(r, op,
                gpu_latent(compute(r), q->dim[0], q->dim[1], q->dim[2],
                           gpu_in(r->job, op, 2)->dim[1], op->turns,
                           tokens_of(r, task)->of[LUO_DATA_POSITIONS] + op->b->lo,
                           in_of(r, op, 0, task), in_of(r, op, 1, task), in_of(r, op, 2, task),
                           out_of(r, op, 0, task), out_of(r, op, 1, task)));
}

static luo_status run_latent_dx(luo_rank *r, const gpu_op *op, int32_t task)
{
    const luo_buffer *q = gpu_in(r->job, op, 0), *shared = gpu_out(r->job, op, 2);
    return done(r, op,
                gpu_latent_dx(compute(r), shared->dim[0], q->dim[1], q->dim[2], shared->dim[1],
                              op->turns,
                              tokens_of(r, task)->of[LUO_DATA_POSITIONS] + op->b->lo,
                              in_of(r, op, 0, task), in_of(r, op, 1, task), out_of(r, op, 0, task),
                              out_of(r, op, 1, task), out_of(r, op, 2, task)));
}

/* ---- pointwise ---- */

luo_status gpu_activate(luo_rank *r, const gpu_op *op, int64_t n, int32_t task)
{
    const luo_activation kind = r->x->config.model->activation;
    const gpu_array x = in_of(r, op, 0, task), y = out_of(r, op, 0, task);
    if (kind == LUO_ACT_GELU) return done(r, op, gpu_gelu(compute(r), n, x, y));
    if (kind == LUO_ACT_GELU_ERF) return done(r, op, gpu_gelu_erf(compute(r), n, x, y));
    if (kind == LUO_ACT_RELU) return done(r, op, gpu_relu(compute(r), n, x, y));
    return done(r, op,
                (kind == LUO_ACT_GEGLU ? gpu_geglu : gpu_swiglu)(
                    compute(r), n, x, in_of(r, op, 1, task), y, out_of(r, op, 1, task)));
}

luo_status gpu_activate_dx(luo_rank *r, const gpu_op *op, int64_t n, int32_t task)
{
    const luo_activation kind = r->x->config.model->activation;
    const gpu_array dy = in_of(r, op, 0, task), x = in_of(r, op, 1, task);
    const gpu_array dx = out_of(r, op, 0, task);
    if (kind == LUO_ACT_GELU) return done(r, op, gpu_gelu_dx(compute(r), n, dy, x, dx));
    if (kind == LUO_ACT_GELU_ERF) return done(r, op, gpu_gelu_erf_dx(compute(r), n, dy, x, dx));
    if (kind == LUO_ACT_RELU) return done(r, op, gpu_relu_dx(compute(r), n, dy, x, dx));
    return done(r, op,
                (kind == LUO_ACT_GEGLU ? gpu_geglu_dx : gpu_swiglu_dx)(
                    compute(r), n, dy, x, in_of(r, op, 2, task), in_of(r, op, 3, task), dx,
                    out_of(r, op, 1, task)));
}

static luo_status run_activation(luo_rank *r, const gpu_op *op, int32_t task)
{
    return gpu_activate(r, op, op->b->rows, task);
}

static luo_status run_activation_dx(luo_rank *r, const gpu_op *op, int32_t task)
{
    return gpu_activate_dx(r, op, op->b->rows, task);
}

static luo_status run_add(luo_rank *r, const gpu_op *op, int32_t task)
{
    gpu_array x[LUO_SUMMANDS];
    int32_t n = 0;
    for (int32_t k = 0; k < op->b->instr->nin; k++)
        if (!(op->b->left_out >> k & 1)) x[n++] = in_of(r, op, k, task);
    return done(r, op, gpu_add(compute(r), op->b->rows, n, x, out_of(r, op, 0, task)));
}

/* A contribution that arrived by communication, onto the running sum. */
static luo_status run_accumulate(luo_rank *r, const gpu_op *op, int32_t task)
{
    const gpu_array sum = out_of(r, op, 0, task), x[2] = {sum, in_of(r, op, 0, task)};
    const bool add = gpu_adds(r, op->b->instr->out[0]);
    return done(r, op, gpu_add(compute(r), op->b->rows, add ? 2 : 1, add ? x : x + 1, sum));
}

/* ---- data, loss ---- */

static luo_status run_placeholder(luo_rank *r, const gpu_op *op, int32_t task)
{
    const int32_t *from = tokens_of(r, task)->of[op->b->depth] + op->b->lo;
    return done(r, op,
                cudaMemcpyAsync(out_of(r, op, 0, task).at, from,
                                (size_t)op->b->rows * sizeof(int32_t), cudaMemcpyDeviceToDevice,
                                compute(r)));
}

static float softcap_of(const luo_rank *r)
{
    return (float)r->x->config.model->logit_softcap;
}

static luo_status run_row_max(luo_rank *r, const gpu_op *op, int32_t task)
{
    return done(r, op,
                gpu_row_max(compute(r), op->b->rows, op->b->cols, op->b->depth,
                            in_of(r, op, 0, task), out_of(r, op, 0, task).at, softcap_of(r)));
}

static luo_status run_row_sum(luo_rank *r, const gpu_op *op, int32_t task)
{
    return done(r, op,
                gpu_row_sum(compute(r), op->b->rows, op->b->cols, op->b->depth,
                            in_of(r, op, 0, task), in_of(r, op, 1, task).at,
                            out_of(r, op, 0, task).at, out_of(r, op, 1, task).at, softcap_of(r)));
}

static luo_status run_row_target(luo_rank *r, const gpu_op *op, int32_t task)
{
    return done(r, op,
                gpu_row_target(compute(r), op->b->rows, op->b->cols, op->b->lo,
                               in_of(r, op, 0, task), in_of(r, op, 1, task).at,
                               out_of(r, op, 0, task).at, softcap_of(r)));
}

static luo_status run_loss(luo_rank *r, const gpu_op *op, int32_t task)
{
    const int32_t *labels = tokens_of(r, task)->of[LUO_DATA_LABELS] + op->b->lo;
    return done(r, op,
                gpu_loss(compute(r), op->b->rows, in_of(r, op, 0, task).at,
                         in_of(r, op, 1, task).at, in_of(r, op, 2, task).at, labels,
                         gpu_batch_numbers(r->job), out_of(r, op, 0, task).at));
}

static luo_status run_loss_dx(luo_rank *r, const gpu_op *op, int32_t task)
{
    return done(r, op,
                gpu_loss_dx(compute(r), op->b->rows, op->b->cols, op->b->lo,
                            in_of(r, op, 0, task).at, in_of(r, op, 1, task).at,
                            in_of(r, op, 2, task).at, gpu_batch_numbers(r->job),
                            out_of(r, op, 0, task),
                            op->b->instr->nin > 3 ? in_of(r, op, 3, task).at : NULL,
                            softcap_of(r)));
}

static luo_status run_sum(luo_rank *r, const gpu_op *op, int32_t task)
{
    const bool add = gpu_adds(r, op->b->instr->out[0]);
    return done(
        r, op,
        gpu_sum(compute(r), op->b->rows, in_of(r, op, 0, task).at, add, out_of(r, op, 0, task).at));
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

luo_status gpu_bind_op(gpu_binder *b, gpu_op *op)
{
    const luo_bound_op *at = op->b;
    const kernel *k = at->kind < LUO_OP_KINDS ? kernels[at->kind] : &kernel_none;
    if (!k->run && !k->bind)
        return luo_err_set(b->err, LUO_EBUG,
                           "instruction %d is of a kind that this executor does not know.",
                           (int)at->instr->id);
    op->run = k->run;
    return k->bind ? k->bind(b, op) : LUO_OK;
}
