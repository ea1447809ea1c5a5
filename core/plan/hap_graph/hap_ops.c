/* Kinds of operations: what their gradients read, and their work: 2 FLOP per multiply-add, bytes
 * moved for class elt. */
#include "core/plan/hap_graph/hap_ops.h"

#include <string.h>

const char *luo_hap_class_name(luo_hap_class class)
{
    static const char *const names[] = {
#define LUO_HAP_WORD(value, word) [value] = word,
        LUO_HAP_CLASS_LIST(LUO_HAP_WORD)
#undef LUO_HAP_WORD
    };
    return names[class];
}

double luo_hap_op_product(const luo_hap_op *op)
{
    bool seen[128] = {false};
    double product = 1;
    for (int32_t j = 0; j < 2 && j < op->nin; j++)
        for (const char *at = op->in_is[j]; *at; at++)
            if (!seen[(int)*at]) {
                seen[(int)*at] = true;
                product *= (double)op->size[(int)*at];
            }
    return product;
}

static double bytes(const luo_hap_graph *graph, int32_t x)
{
    return (double)graph->tensor[x].bytes;
}

static double elements(const luo_hap_graph *graph, int32_t x)
{
    return (double)graph->tensor[x].elements;
}

/* ---- what the gradient of an operand reads beside that of the result ---- */

static void need_none(luo_hap_op *op)
{
    (void)op;
}
static void need_others(luo_hap_op *op)
{
    for (int32_t j = 0; j < op->nin; j++) op->need[j] = ((1u << op->nin) - 1) & ~(1u << j);
}
static void need_product(luo_hap_op *op)
{
    op->need[0] = 2;
    op->need[1] = 1;
    op->weight = 1;
    if (op->nin == 3) op->bias = 2;
}
static void need_experts(luo_hap_op *op)
{
    for (int32_t j = 1; j < op->nin; j++) {
        op->need[0] |= 1u << j;
        op->need[j] = 1;
    }
}
static void need_gated(luo_hap_op *op)
{
    op->need[0] = 3;
    op->need[1] = 1;
}
static void need_norm(luo_hap_op *op)
{
    op->need[0] = 3;
    op->need[1] = 1;
}
static void need_embedding(luo_hap_op *op)
{
    op->need[1] = 1;
}
static void need_loss(luo_hap_op *op)
{
    op->need[0] = 2;
}

/* ---- work ---- */

static void work_einsum(const luo_hap_graph *graph, luo_hap_op *op)
{
    (void)graph;
    op->forward = 2 * luo_hap_op_product(op);
    op->backward[0] = op->backward[1] = op->forward;
    op->compat = 3 * luo_hap_op_product(op);
    if (op->kind == LUO_HAP_EXPERT) op->weight = 1;
}
static void work_linear(const luo_hap_graph *graph, luo_hap_op *op)
{
    work_einsum(graph, op);
    if (op->bias >= 0) op->backward[op->bias] = op->nout * elements(graph, op->out[0]);
    if (op->kind == LUO_HAP_QKV) op->compat = 0; /* counted with attention */
}
static void work_conv(const luo_hap_graph *graph, luo_hap_op *op)
{
    work_linear(graph, op);
    /* published planners leave out the size of the kernel */
    op->compat = 3 * (double)graph->tensor[op->in[1]].dim[0] * elements(graph, op->in[0]);
}
static void work_attention(const luo_hap_graph *graph, luo_hap_op *op)
{
    const luo_hap_tensor *tensor = &graph->tensor[op->in[0]];
    const double keys = (double)graph->tensor[op->in[1]].dim[1];
    const double all = 4 * (double)tensor->elements * keys;
    op->forward = all;
    op->backward[0] = op->backward[1] = all / 2;
    op->backward[2] = all;
    op->compat =
        6 * (double)tensor->elements * keys + 5 * (double)(tensor->dim[0] * tensor->dim[1]) * keys;
}
static void work_unary(const luo_hap_graph *graph, luo_hap_op *op)
{
    op->forward = 2 * bytes(graph, op->in[0]);
    op->backward[0] = 3 * bytes(graph, op->in[0]);
    op->compat = 3 * elements(graph, op->in[0]);
}
static void work_gated(const luo_hap_graph *graph, luo_hap_op *op)
{
    op->forward = 3 * bytes(graph, op->out[0]);
    op->backward[0] = 4 * bytes(graph, op->out[0]);
    op->backward[1] = 3 * bytes(graph, op->out[0]);
    op->compat = 3 * elements(graph, op->out[0]);
}
/* Everything is read and written once, each way. */
static void work_latent(const luo_hap_graph *graph, luo_hap_op *op)
{
    op->forward = bytes(graph, op->out[0]) + bytes(graph, op->out[1]);
    for (int32_t j = 0; j < op->nin; j++) {
        op->forward += bytes(graph, op->in[j]);
        op->backward[j] = 2 * bytes(graph, op->in[j]);
    }
    op->compat = elements(graph, op->out[0]) + elements(graph, op->out[1]);
}
/* Ids of tokens, and of their experts. */
static void work_hash(const luo_hap_graph *graph, luo_hap_op *op)
{
    op->forward = bytes(graph, op->out[0]);
    op->compat = elements(graph, op->out[0]);
}
/* Rows are read or written beside tokens, each way. */
static void work_rows(const luo_hap_graph *graph, luo_hap_op *op)
{
    op->forward = op->backward[0] = bytes(graph, op->in[0]) + bytes(graph, op->out[0]);
    op->compat = elements(graph, op->in[0]);
}
/* One product after the other. */
static void work_experts(const luo_hap_graph *graph, luo_hap_op *op)
{
    (void)graph;
    const double one = 2 * luo_hap_op_product(op);
    op->forward = op->backward[0] = op->nout * one;
    for (int32_t j = 1; j < op->nin; j++) op->backward[j] = one;
    op->compat = 1.5 * op->forward;
}
static void work_add(const luo_hap_graph *graph, luo_hap_op *op)
{
    op->forward = (op->nin + 1) * bytes(graph, op->out[0]);
    op->compat = elements(graph, op->in[0]);
}
static void work_norm(const luo_hap_graph *graph, luo_hap_op *op)
{
    op->forward = 2 * bytes(graph, op->in[0]);
    op->backward[0] = 4 * bytes(graph, op->in[0]);
    op->compat = 10 * elements(graph, op->in[0]);
}
static void work_pool(const luo_hap_graph *graph, luo_hap_op *op)
{
    op->forward = op->backward[0] = 1.25 * bytes(graph, op->in[0]);
    op->compat = 3 * elements(graph, op->in[0]);
}
static void work_adaptive(const luo_hap_graph *graph, luo_hap_op *op)
{
    op->forward = op->backward[0] = 1.25 * bytes(graph, op->out[0]);
    op->compat = elements(graph, op->in[0]);
}
static void work_embedding(const luo_hap_graph *graph, luo_hap_op *op)
{
    op->forward = op->backward[1] = 2 * bytes(graph, op->out[0]);
    op->compat = elements(graph, op->in[0]);
}
static void work_append(const luo_hap_graph *graph, luo_hap_op *op)
{
    const luo_hap_tensor *tensor = &graph->tensor[op->out[0]];
    op->forward = op->backward[0] = 2 * bytes(graph, op->out[0]);
    op->compat = (double)tensor->elements / (double)tensor->dim[1]; /* batch by width */
}
static void work_take(const luo_hap_graph *graph, luo_hap_op *op)
{
    op->forward = op->backward[0] = 2 * bytes(graph, op->out[0]);
    op->compat = elements(graph, op->out[0]);
}
static void work_gate(const luo_hap_graph *graph, luo_hap_op *op)
{
    work_einsum(graph, op);
    op->weight = -1;
    op->compat = 10 * elements(graph, op->in[0]);
}
/* Everything is read and written once, each way: of one sample they are too small to compute long.
 */
static void work_interaction(const luo_hap_graph *graph, luo_hap_op *op)
{
    op->forward = bytes(graph, op->in[0]) + bytes(graph, op->in[1]) + bytes(graph, op->out[0]);
    op->backward[0] = op->backward[1] = op->forward;
    op->compat = elements(graph, op->out[0]);
}
static void work_loss(const luo_hap_graph *graph, luo_hap_op *op)
{
    op->forward = op->backward[0] = 2 * bytes(graph, op->in[0]);
    op->compat = 16 * elements(graph, op->in[0]);
}

static const luo_hap_op_desc descs[] = {
#define LUO_HAP_OP(kind, name, class, nin, nout, lin, need, work, sends)                           \
    {name, LUO_HAP_ON_##class, nin, nout, lin, need_##need, work_##work, sends},
#include "core/plan/hap_graph/hap_ops.inc"
#undef LUO_HAP_OP
};

const luo_hap_op_desc *luo_hap_op_desc_of(luo_hap_kind kind)
{
    return &descs[kind];
}
