/* bound_ops.c: what each operation of the graph computes (core/graph/graph.h has their
 * operands), as sizes and buffers. */
#include <string.h>

#include "core/graph/rope.h"
#include "core/hspmd/bounds.h"
#include "core/plan/annotated.h"
#include "exec/bind/bound_internal.h"

/* ---- sizes ---- */

static luo_status wrong(const luo_binder *binder, const luo_bound_op *op)
{
    const luo_op_info *info = &binder->b->set->ops[op->instr->op];
    return luo_err_set(binder->err, LUO_EBUG,
                       "operation `%s` (%s) of instruction %d has %d operands and %d results, "
                       "which this executor does not know; known: %s.",
                       info->name, luo_op_info_kind(info), (int)op->instr->id, (int)op->instr->nin,
                       (int)op->instr->nout,
                       info->kind < LUO_OP_KINDS ? luo_op_desc_of(info->kind)->operands
                                                 : "operations of a graph");
}

/* Frame of a buffer along one dimension, as a single interval. */
static luo_status interval(luo_binder *binder, int32_t buffer, int32_t dim, luo_span *out)
{
    luo_frame frame;
    const luo_buffer *b = luo_bound_desc(binder->b, buffer);
    LUO_TRY(luo_frame_of(binder->arena, b, binder->b->device, &frame, binder->err));
    if (frame.region.empty) {
        *out = (luo_span){0, 0};
        return LUO_OK;
    }
    if (frame.region.dim[dim].n != 1)
        return luo_err_set(binder->err, LUO_EUNSUP,
                           "tensor `%s` lies in %d separate slices on device %d; "
                           "plans whose shares are contiguous can be run.",
                           b->tensor, (int)frame.region.dim[dim].n, (int)binder->b->device);
    *out = frame.region.dim[dim].at[0];
    return LUO_OK;
}

/* First token of a buffer inside its own micro-batch. */
static luo_status first_token(luo_binder *binder, const luo_bound_op *op, int32_t buffer,
                              int64_t *out)
{
    luo_span span = {0, 0};
    const int64_t tokens = binder->b->role->seg[binder->b->seg_of[op->instr->id]].tokens;
    LUO_TRY(interval(binder, buffer, 0, &span));
    *out = tokens > 0 ? span.lo % tokens : 0;
    return LUO_OK;
}

/* ---- sums of partial and complete summands ---- */

/* Coordinate of this device among those whose values sum up (LUO_PARTIAL) or that have copies
 * (LUO_DUP); 0: there is one alone. */
static int32_t coord_of(const luo_binder *binder, const luo_buffer *buffer, int32_t key)
{
    const luo_ann *ann = buffer->ann;
    for (int32_t u = 0; u < ann->u; u++)
        for (int32_t i = 0; i < ann->grp[u].ndev; i++)
            if (ann->grp[u].dev[i] == binder->b->device) return luo_grp_coord(&ann->grp[u], i, key);
    return 0;
}

/* Complete summands are added by the first device alone. Other plans have no such sums, but buffers
 * of gradients that were summed where they lie, whose annotation is that of before. */
static void leave_out(const luo_binder *binder, luo_bound_op *op)
{
    if (!luo_plan_is_annotated(binder->b->recipe->plan)) return;
    if (coord_of(binder, luo_op_out(binder, op, 0), LUO_PARTIAL) == 0) return;
    for (int32_t i = 0; i < op->instr->nin; i++)
        if (!luo_ann_has_partial(luo_op_in(binder, op, i)->ann)) op->left_out |= 1u << i;
}

/* ---- bias, embedding, norm ---- */

/* Where the operand is an empty piece all of its sizes are 0: those of the result are taken, which
 * is full of zeros then. */
static luo_status bind_rows(luo_binder *binder, luo_bound_op *op)
{
    op->rows = luo_op_in(binder, op, 0)->dim[0];
    op->cols = luo_bound_width(luo_op_in(binder, op, 0));
    if (op->kind == LUO_OP_BIAS)
        leave_out(binder, op);
    else
        op->cols = luo_bound_volume(luo_op_out(binder, op, 0));
    return LUO_OK;
}

/* Rows lo.. of the table lie here. */
static luo_status bind_table(luo_binder *binder, luo_bound_op *op, int32_t table)
{
    luo_span span = {0, 0};
    LUO_TRY(interval(binder, table, 0, &span));
    op->rows = luo_op_in(binder, op, 0)->dim[0];
    op->cols = luo_op_out(binder, op, 0)->dim[1]; /* of the result, or of the table's gradient */
    op->lo = span.lo;
    op->depth = span.hi;
    op->scale = 1;
    const luo_model *model = binder->b->config->model;
    const bool positions = luo_bound_desc(binder->b, table)->letters[0] == 'p';
    if (!positions && model->embedding_scale > 0) op->scale = model->embedding_scale;
    if (positions) { /* rows that no position has stand first */
        op->lo -= model->position_offset;
        op->depth -= model->position_offset;
    }
    return LUO_OK;
}

static luo_status bind_embedding(luo_binder *binder, luo_bound_op *op)
{
    return bind_table(binder, op, op->instr->in[1]);
}

static luo_status bind_embedding_dw(luo_binder *binder, luo_bound_op *op)
{
    return bind_table(binder, op, op->instr->out[0]);
}

/* Over the last dimension: heads are rows too. */
static luo_status bind_norm(luo_binder *binder, luo_bound_op *op)
{
    const luo_buffer *buffer = luo_op_in(binder, op, 0);
    const luo_buffer *result = luo_op_out(binder, op, 0);
    op->cols = result->dim[result->rank - 1];
    op->rows = op->cols ? luo_bound_volume(buffer) / op->cols : 0;
    return LUO_OK;
}

/* ---- pointwise ---- */

static luo_status bind_volume(luo_binder *binder, luo_bound_op *op)
{
    op->rows = luo_bound_volume(luo_op_out(binder, op, 0));
    return LUO_OK;
}

/* x -> y, or gate, up -> y, silu. */
static luo_status bind_activation(luo_binder *binder, luo_bound_op *op)
{
    if (op->instr->nin > 1 && op->instr->nout < 2) return wrong(binder, op);
    return bind_volume(binder, op);
}

/* dy, x -> dx, or dy, gate, up, silu -> dgate, dup. */
static luo_status bind_activation_dx(luo_binder *binder, luo_bound_op *op)
{
    if (op->instr->nout > 1 && op->instr->nin < 4) return wrong(binder, op);
    return bind_volume(binder, op);
}

static luo_status bind_add(luo_binder *binder, luo_bound_op *op)
{
    LUO_TRY(bind_volume(binder, op));
    leave_out(binder, op);
    return op->instr->nin <= LUO_SUMMANDS ? LUO_OK : wrong(binder, op);
}

/* ---- matrix products ---- */

/* A weight is stored [out x in] when its letters begin with those of the result. */
static bool out_major(const luo_buffer *w, const luo_buffer *y)
{
    const char *tail = y->letters + 1;
    return strncmp(w->letters, tail, strlen(tail)) == 0;
}

/* Elements that a token of the tensor with these letters has, by the sizes of the weight. */
static int64_t width_in(const luo_buffer *buffer, const char *letters)
{
    int64_t n = 1;
    for (int32_t d = 0; d < buffer->rank; d++)
        if (strchr(letters + 1, buffer->letters[d])) n *= buffer->dim[d];
    return n;
}

static luo_product *products(luo_binder *binder, luo_bound_op *op, int32_t n)
{
    luo_product *product = LUO_NEW_N(binder->arena, luo_product, n);
    op->product = product;
    op->nproducts = n;
    return product;
}

static luo_status bind_matmul(luo_binder *binder, luo_bound_op *op)
{
    const luo_instr *instr = op->instr;
    if (instr->nin != 1 + instr->nout) return wrong(binder, op);
    luo_product *product = products(binder, op, instr->nout);
    if (!product) return luo_err_nomem(binder->err);
    const luo_buffer *buffer = luo_op_in(binder, op, 0);
    for (int32_t j = 0; j < instr->nout; j++) {
        const luo_buffer *w = luo_op_in(binder, op, 1 + j), *y = luo_op_out(binder, op, j);
        const bool tb = out_major(w, y);
        const int64_t n = luo_bound_width(y), depth = luo_bound_width(buffer);
        product[j] = (luo_product){.a = instr->in[0],
                                   .b = instr->in[1 + j],
                                   .c = instr->out[j],
                                   .tb = tb,
                                   .m = y->dim[0],
                                   .n = n,
                                   .k = depth,
                                   .lda = depth,
                                   .ldb = tb ? depth : n,
                                   .ldc = n};
    }
    return LUO_OK;
}

static luo_status bind_matmul_dx(luo_binder *binder, luo_bound_op *op)
{
    const luo_instr *instr = op->instr;
    if (instr->nout != 1 || instr->nin % 2) return wrong(binder, op);
    luo_product *product = products(binder, op, instr->nin / 2);
    if (!product) return luo_err_nomem(binder->err);
    const luo_buffer *dx = luo_op_out(binder, op, 0);
    for (int32_t j = 0; j < instr->nin / 2; j++) {
        const luo_buffer *dy = luo_op_in(binder, op, 2 * j),
                         *buffer = luo_op_in(binder, op, 2 * j + 1);
        const bool plain = out_major(buffer, dy);
        const int64_t n = luo_bound_width(dx), depth = luo_bound_width(dy);
        product[j] = (luo_product){.a = instr->in[2 * j],
                                   .b = instr->in[2 * j + 1],
                                   .c = instr->out[0],
                                   .tb = !plain,
                                   .add = j > 0,
                                   .m = dx->dim[0],
                                   .n = n,
                                   .k = depth,
                                   .lda = depth,
                                   .ldb = plain ? n : depth,
                                   .ldc = n};
    }
    return LUO_OK;
}

static luo_status bind_matmul_dw(luo_binder *binder, luo_bound_op *op)
{
    const luo_instr *instr = op->instr;
    if (instr->nin != 1 + instr->nout) return wrong(binder, op);
    luo_product *product = products(binder, op, instr->nout);
    if (!product) return luo_err_nomem(binder->err);
    const luo_buffer *buffer = luo_op_in(binder, op, 0);
    for (int32_t j = 0; j < instr->nout; j++) {
        const luo_buffer *dy = luo_op_in(binder, op, 1 + j), *dw = luo_op_out(binder, op, j);
        const bool plain = out_major(dw, dy);
        const int64_t ny = width_in(dw, dy->letters), nx = width_in(dw, buffer->letters);
        product[j] = (luo_product){.a = plain ? instr->in[1 + j] : instr->in[0],
                                   .b = plain ? instr->in[0] : instr->in[1 + j],
                                   .c = instr->out[j],
                                   .ta = true,
                                   .m = plain ? ny : nx,
                                   .n = plain ? nx : ny,
                                   .k = buffer->dim[0],
                                   .lda = plain ? ny : nx,
                                   .ldb = plain ? nx : ny,
                                   .ldc = plain ? nx : ny};
    }
    return LUO_OK;
}

/* ---- attention ---- */

static luo_status bind_rope(luo_binder *binder, luo_bound_op *op)
{
    const luo_model *model = binder->b->config->model;
    const luo_recipe *recipe = binder->b->recipe;
    const int64_t asked = recipe->sequence_tokens;
    luo_turns *turns = LUO_NEW(binder->arena, luo_turns);
    double *room = LUO_NEW_N(binder->arena, double, luo_rope_pairs(model));
    if (!turns || !room) return luo_err_nomem(binder->err);
    *turns = luo_rope_turns(model, op->instr->layer,
                            asked > 0 ? asked : recipe->plan->sequence_tokens, room);
    op->turns = turns;
    LUO_TRY(first_token(binder, op, op->instr->in[0], &op->lo));
    return first_token(binder, op, op->instr->in[1], &op->depth);
}

/* Which of the local key-value heads each local query head reads. */
static luo_status bind_heads(luo_binder *binder, luo_bound_op *op, int32_t q, int32_t kv,
                             int32_t v)
{
    const luo_model *model = binder->b->config->model;
    luo_span sq = {0, 0}, sk = {0, 0};
    LUO_TRY(interval(binder, q, 1, &sq));
    LUO_TRY(interval(binder, kv, 1, &sk));
    luo_heads *heads = LUO_NEW(binder->arena, luo_heads);
    int32_t *kv_of = LUO_NEW_N(binder->arena, int32_t, sq.hi - sq.lo);
    if (!heads || !kv_of) return luo_err_nomem(binder->err);
    const int64_t share = model->heads / model->kv_heads;
    for (int64_t n = sq.lo; n < sq.hi; n++) {
        const int64_t g = n / share;
        if (g < sk.lo || g >= sk.hi)
            return luo_err_set(binder->err, LUO_EUNSUP,
                               "query head %lld and its key-value head %lld lie "
                               "on different devices; shares that keep them together can be run.",
                               (long long)n, (long long)g);
        kv_of[n - sq.lo] = (int32_t)(g - sk.lo);
    }
    const luo_buffer *buffer = luo_bound_desc(binder->b, q);
    *heads = (luo_heads){sq.hi - sq.lo,
                         sk.hi - sk.lo,
                         buffer->dim[2],
                         kv_of,
                         model->causal,
                         luo_bound_desc(binder->b, v)->dim[2],
                         model->attention_scale,
                         model->attention_softcap,
                         luo_window_of(&model->window, op->instr->layer)};
    op->heads = heads;
    op->rows = buffer->dim[0];
    return LUO_OK;
}

/* Which tokens these are, where context-parallel ranks keep them out of order. */
static luo_status bind_block(luo_binder *binder, luo_bound_op *op, int32_t q, int32_t kv,
                             bool backward)
{
    const luo_plan *plan = binder->b->recipe->plan;
    const luo_context context =
        luo_plan_context(plan, binder->b->config->model->causal, binder->b->program->pipeline);
    const luo_instr *instr = op->instr;
    if (!luo_context_is_on(&context)) return LUO_OK;
    luo_block *block = LUO_NEW(binder->arena, luo_block);
    if (!block) return luo_err_nomem(binder->err);
    LUO_TRY(first_token(binder, op, q, &block->q));
    LUO_TRY(first_token(binder, op, kv, &block->k));
    block->nq = luo_bound_desc(binder->b, q)->dim[0];
    block->nk = luo_bound_desc(binder->b, kv)->dim[0];
    block->first_keys = backward ? instr->nin < 7 : instr->nin < 5;
    op->block = block;
    return LUO_OK;
}

static luo_status bind_attention(luo_binder *binder, luo_bound_op *op)
{
    LUO_TRY(bind_heads(binder, op, op->instr->in[0], op->instr->in[1], op->instr->in[2]));
    LUO_TRY(first_token(binder, op, op->instr->in[0], &op->lo));
    return bind_block(binder, op, op->instr->in[0], op->instr->in[1], false);
}

static luo_status bind_attention_dx(luo_binder *binder, luo_bound_op *op)
{
    LUO_TRY(bind_heads(binder, op, op->instr->in[3], op->instr->in[4], op->instr->in[5]));
    LUO_TRY(first_token(binder, op, op->instr->in[3], &op->lo));
    return bind_block(binder, op, op->instr->in[3], op->instr->in[4], true);
}

/* ---- experts ---- */

static luo_status bind_logits_of(luo_binder *binder, luo_bound_op *op, int32_t i)
{
    op->rows = luo_op_in(binder, op, i)->dim[0];
    op->cols = luo_op_in(binder, op, i)->dim[1];
    return first_token(binder, op, op->instr->in[i], &op->lo);
}

static luo_status bind_route(luo_binder *binder, luo_bound_op *op)
{
    return bind_logits_of(binder, op, 0);
}

static luo_status bind_route_dx(luo_binder *binder, luo_bound_op *op)
{
    op->depth = coord_of(binder, luo_op_in(binder, op, 3), LUO_DUP);
    return bind_logits_of(binder, op, 3);
}

static luo_status bind_tokens(luo_binder *binder, luo_bound_op *op)
{
    op->rows = luo_op_in(binder, op, 0)->dim[0];
    op->cols = luo_op_in(binder, op, 0)->dim[1];
    return LUO_OK;
}

static luo_status bind_unpacked(luo_binder *binder, luo_bound_op *op)
{
    op->rows = luo_op_out(binder, op, 0)->dim[0];
    op->cols = luo_op_out(binder, op, 0)->dim[1];
    return LUO_OK;
}

/* A device without columns has gradients of 0 for its logits. */
static luo_status bind_token_gate(luo_binder *binder, luo_bound_op *op)
{
    op->rows = luo_op_out(binder, op, 0)->dim[0];
    op->cols = luo_op_out(binder, op, op->instr->nout - 1)->dim[1];
    return LUO_OK;
}

static luo_status bind_experts(luo_binder *binder, luo_bound_op *op, int32_t counts)
{
    const luo_buffer *buffer = luo_bound_desc(binder->b, counts);
    luo_expert_rows *rows = LUO_NEW(binder->arena, luo_expert_rows);
    if (!rows) return luo_err_nomem(binder->err);
    *rows = (luo_expert_rows){counts, buffer->dim[0], buffer->dim[1]};
    op->experts = rows;
    return LUO_OK;
}

/* Length along dimension d of what lies here, however little there is along the others: a piece
 * that is empty by one of them has sizes of 0. */
static luo_status length_of(luo_binder *binder, const luo_buffer *buffer, int32_t d, int64_t *out)
{
    const luo_ann *ann = buffer->ann;
    *out = buffer->dim[d];
    for (int32_t u = 0; u < ann->u && luo_bound_volume(buffer) == 0; u++)
        for (int32_t i = 0; i < ann->grp[u].ndev; i++) {
            const luo_grp *grp = &ann->grp[u];
            const int32_t n = luo_grp_count(grp, d), at = luo_grp_coord(grp, i, d);
            if (grp->dev[i] != binder->b->device) continue;
            int64_t *bound = LUO_NEW_N(binder->arena, int64_t, (int64_t)n + 1);
            if (!bound) return luo_err_nomem(binder->err);
            luo_bounds_cut(buffer->shape.dim[d], n, luo_grp_share(grp, d), bound);
            *out = bound[at + 1] - bound[at];
        }
    return LUO_OK;
}

/* Is the weight [columns of y x columns of x]? */
static bool widens(const luo_buffer *w, const luo_buffer *y)
{
    return w->letters && y->letters && w->letters[1] == y->letters[2];
}

static luo_status bind_grouped(luo_binder *binder, luo_bound_op *op)
{
    const luo_instr *instr = op->instr;
    if (instr->nin != 2 + instr->nout) return wrong(binder, op);
    luo_product *product = products(binder, op, instr->nout);
    if (!product) return luo_err_nomem(binder->err);
    for (int32_t j = 0; j < instr->nout; j++) {
        const luo_buffer *w = luo_op_in(binder, op, 2 + j), *y = luo_op_out(binder, op, j);
        const bool tb = widens(w, y);
        int64_t n, depth;
        LUO_TRY(length_of(binder, w, tb ? 1 : 2, &n));
        LUO_TRY(length_of(binder, w, tb ? 2 : 1, &depth));
        product[j] = (luo_product){.a = instr->in[0],
                                   .b = instr->in[2 + j],
                                   .c = instr->out[j],
                                   .tb = tb,
                                   .n = n,
                                   .k = depth,
                                   .lda = depth,
                                   .ldb = tb ? depth : n,
                                   .ldc = n};
    }
    return bind_experts(binder, op, instr->in[1]);
}

static luo_status bind_grouped_dx(luo_binder *binder, luo_bound_op *op)
{
    const luo_instr *instr = op->instr;
    if (instr->nout != 1 || instr->nin % 2 == 0) return wrong(binder, op);
    luo_product *product = products(binder, op, instr->nin / 2);
    if (!product) return luo_err_nomem(binder->err);
    for (int32_t j = 0; j < instr->nin / 2; j++) {
        const luo_buffer *dy = luo_op_in(binder, op, 1 + 2 * j),
                         *buffer = luo_op_in(binder, op, 2 + 2 * j);
        const bool plain = widens(buffer, dy); /* w [dy x dx] */
        int64_t n, depth;
        LUO_TRY(length_of(binder, buffer, plain ? 2 : 1, &n));
        LUO_TRY(length_of(binder, buffer, plain ? 1 : 2, &depth));
        product[j] = (luo_product){.a = instr->in[1 + 2 * j],
                                   .b = instr->in[2 + 2 * j],
                                   .c = instr->out[0],
                                   .tb = !plain,
                                   .add = j > 0,
                                   .n = n,
                                   .k = depth,
                                   .lda = depth,
                                   .ldb = plain ? n : depth,
                                   .ldc = n};
    }
    return bind_experts(binder, op, instr->in[0]);
}

static luo_status bind_grouped_dw(luo_binder *binder, luo_bound_op *op)
{
    const luo_instr *instr = op->instr;
    if (instr->nin != 2 + instr->nout) return wrong(binder, op);
    luo_product *product = products(binder, op, instr->nout);
    if (!product) return luo_err_nomem(binder->err);
    for (int32_t j = 0; j < instr->nout; j++) {
        const luo_buffer *dy = luo_op_in(binder, op, 2 + j), *dw = luo_op_out(binder, op, j);
        const bool plain = widens(dw, dy);
        const int32_t x = instr->in[0], y = instr->in[2 + j];
        product[j] = (luo_product){.a = plain ? y : x,
                                   .b = plain ? x : y,
                                   .c = instr->out[j],
                                   .ta = true,
                                   .m = dw->dim[1],
                                   .n = dw->dim[2],
                                   .lda = dw->dim[1],
                                   .ldb = dw->dim[2],
                                   .ldc = dw->dim[2]};
    }
    return bind_experts(binder, op, instr->in[1]);
}

static luo_status bind_rows_activation(luo_binder *binder, luo_bound_op *op)
{
    const luo_instr *instr = op->instr;
    LUO_TRY(length_of(binder, luo_op_in(binder, op, 0), 2, &op->cols));
    return bind_experts(binder, op, instr->in[instr->nin - 1]);
}

/* ---- loss ---- */

/* row_max, row_sum, row_target, loss_dx */
static luo_status bind_logits(luo_binder *binder, luo_bound_op *op)
{
    luo_span span = {0, 0};
    LUO_TRY(interval(binder, op->instr->in[0], 1, &span));
    op->rows = luo_op_out(binder, op, 0)->dim[0];
    op->cols = luo_op_in(binder, op, 0)->dim[1];
    op->lo = span.lo;
    const int64_t tokens = binder->b->config->model->vocab - span.lo;
    op->depth = tokens < 0 ? 0 : tokens < op->cols ? tokens : op->cols;
    return LUO_OK;
}

/* The graph's loss knows no labels; which tokens are targets is known to the data loader. */
static luo_status bind_loss(luo_binder *binder, luo_bound_op *op)
{
    op->rows = luo_op_in(binder, op, 0)->dim[0];
    return first_token(binder, op, op->instr->in[0], &op->lo);
}

static luo_status bind_sum(luo_binder *binder, luo_bound_op *op)
{
    op->rows = luo_bound_volume(luo_op_in(binder, op, 0));
    return LUO_OK;
}

/* ---- data ---- */

static luo_status bind_placeholder(luo_binder *binder, luo_bound_op *op)
{
    static const char *const names[] = {
        [LUO_DATA_IDS] = "ids", [LUO_DATA_LABELS] = "labels", [LUO_DATA_POSITIONS] = "positions"};
    const luo_buffer *buffer = luo_op_out(binder, op, 0);
    op->depth = -1;
    for (int i = 0; i < 3; i++)
        if (strcmp(buffer->tensor, names[i]) == 0) op->depth = i;
    if (op->depth < 0) return wrong(binder, op);
    op->rows = buffer->dim[0];
    return first_token(binder, op, op->instr->out[0], &op->lo);
}

/* ---- the table ---- */

static luo_status bind_nothing(luo_binder *binder, luo_bound_op *op)
{
    (void)binder, (void)op;
    return LUO_OK;
}

static luo_status bind_update(luo_binder *binder, luo_bound_op *op)
{
    return luo_bind_update(binder, op);
}

/* Communication and storage: nobody computes them. */
static luo_status bind_none(luo_binder *binder, luo_bound_op *op)
{
    return wrong(binder, op);
}

static luo_status (*const binds[LUO_OP_KINDS])(luo_binder *k, luo_bound_op *op) = {
#define LUO_OP(kind, name, operands, nin, nout, deduce, gradient, emit, cost, size, keeps, bind,   \
               ...)                                                                                \
    [LUO_OP_##kind] = bind_##bind,
#include "core/graph/ops.inc"
#undef LUO_OP
};

luo_status luo_bind_op(luo_binder *binder, luo_bound_op *op)
{
    const luo_instr *instr = op->instr;
    op->kind = binder->b->set->ops[instr->op].kind;
    if (op->kind >= LUO_OP_KINDS) return wrong(binder, op);
    const luo_op_desc *desc = luo_op_desc_of(op->kind);
    if (instr->nin < desc->nin || instr->nout < desc->nout) return wrong(binder, op);
    return binds[op->kind](binder, op);
}
