/* Writing a graph down. */
#include "core/plan/hap_graph/hap_graph.h"

#include <assert.h>
#include <ctype.h>
#include <inttypes.h>
#include <string.h>

#include "core/base/vec.h"
#include "core/plan/hap_graph/hap_ops.h"

luo_hap_graph *luo_hap_graph_new(luo_arena *arena, int64_t elem_bytes)
{
    assert(elem_bytes >= 1);
    luo_hap_graph *graph = LUO_NEW(arena, luo_hap_graph);
    if (!graph) return NULL;
    graph->arena = arena;
    graph->elem_bytes = elem_bytes;
    graph->nsegments = 1;
    graph->loss = graph->block = -1;
    return graph;
}

static int32_t fail(luo_hap_graph *graph, luo_status st)
{
    graph->st = st;
    return -1;
}

static int32_t add_tensor(luo_hap_graph *graph, const luo_hap_tensor *tensor, int64_t elem_bytes)
{
    if (!LUO_VEC_ROOM_IN(graph->arena, graph->tensor, graph->ntensors, graph->cap_tensors))
        return fail(graph, luo_err_nomem(&graph->err));
    luo_hap_tensor *hap_tensor = &graph->tensor[graph->ntensors];
    *hap_tensor = *tensor;
    hap_tensor->name = luo_arena_strdup(graph->arena, tensor->name);
    if (!hap_tensor->name) return fail(graph, luo_err_nomem(&graph->err));
    hap_tensor->elements = 1;
    for (int32_t d = 0; d < hap_tensor->rank; d++) {
        hap_tensor->plan_dim[d] = (int8_t)d;
        if (hap_tensor->dim[d] < 1 || hap_tensor->dim[d] > INT32_MAX ||
            hap_tensor->elements > INT64_MAX / 16 / hap_tensor->dim[d])
            return fail(graph, luo_err_set(&graph->err, LUO_EINPUT,
                                           "tensor `%s` has a dimension of %" PRId64
                                           "; 1 to %d is expected.",
                                           hap_tensor->name, hap_tensor->dim[d], INT32_MAX));
        hap_tensor->elements *= hap_tensor->dim[d];
    }
    hap_tensor->bytes = hap_tensor->elements * elem_bytes;
    return graph->ntensors++;
}

int32_t luo_hap_graph_leaf(luo_hap_graph *graph, const char *name, luo_hap_role role, bool whole,
                           int32_t rank, const int64_t *dims)
{
    assert(rank >= 0 && rank <= LUO_HAP_RANK && role <= LUO_HAP_PARAM);
    luo_hap_tensor tensor = {.name = name, .role = role, .rank = rank, .maker = -1};
    if (graph->st != LUO_OK) return -1;
    memcpy(tensor.dim, dims, (size_t)rank * sizeof *dims);
    return add_tensor(graph, &tensor, whole ? 4 : graph->elem_bytes);
}

/* The next letters of a signature, up to `,`, `-` or its end. */
static const char *letters(luo_arena *arena, const char **at)
{
    const size_t n = strspn(*at, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ");
    const char *text = luo_arena_strndup(arena, *at, n);
    *at += n;
    if (**at == ',') ++*at;
    return text;
}

static luo_status read_operand(luo_hap_graph *graph, luo_hap_op *op, int32_t j, luo_err *err)
{
    const luo_hap_tensor *tensor = &graph->tensor[op->in[j]];
    if ((int32_t)strlen(op->in_is[j]) != tensor->rank)
        return luo_err_set(err, LUO_EINPUT,
                           "op `%s` reads tensor `%s` of %d dimensions as `%s`; a letter each is "
                           "needed.",
                           op->name, tensor->name, tensor->rank, op->in_is[j]);
    for (int32_t d = 0; d < tensor->rank; d++) {
        int64_t *size = &op->size[(int)op->in_is[j][d]];
        if (*size && *size != tensor->dim[d])
            return luo_err_set(err, LUO_EINPUT,
                               "op `%s` uses letter `%c` with extents %" PRId64 " and %" PRId64
                               "; equal extents are needed.",
                               op->name, op->in_is[j][d], *size, tensor->dim[d]);
        *size = tensor->dim[d];
    }
    return LUO_OK;
}

static luo_status read_operands(luo_hap_graph *graph, luo_hap_op *op, const int32_t *in,
                                const char *signature, luo_err *err)
{
    const char *at = signature;
    while (*at != '-' && op->nin < LUO_HAP_OPERANDS) {
        const int32_t j = op->nin++;
        op->in[j] = in[j];
        op->in_is[j] = letters(graph->arena, &at);
        if (!op->in_is[j]) return luo_err_nomem(err);
        if (in[j] < 0 || in[j] >= graph->ntensors)
            return luo_err_set(err, LUO_EINPUT,
                               "op `%s` reads tensor %d before it is produced; ops must be in "
                               "topological order.",
                               op->name, in[j]);
        LUO_TRY(read_operand(graph, op, j, err));
    }
    at += 2;
    while (op->nout < luo_hap_op_desc_of(op->kind)->nout) {
        op->out_is[op->nout] = letters(graph->arena, &at);
        if (!op->out_is[op->nout++]) return luo_err_nomem(err);
    }
    return LUO_OK;
}

/* What has no gradient: where tokens go. */
static bool is_choice(luo_hap_kind kind, int32_t k)
{
    return (kind == LUO_HAP_GATE && k == 0) || (kind == LUO_HAP_ROUTE && k == 1) ||
           kind == LUO_HAP_HASH;
}

static luo_status make_results(luo_hap_graph *graph, luo_hap_op *op, const int64_t *sizes,
                               const char *const *names, luo_err *err)
{
    for (int32_t k = 0; k < op->nout; k++) {
        luo_hap_tensor tensor = {.name = names[k], .role = LUO_HAP_VALUE_OF, .maker = graph->nops};
        for (const char *at = op->out_is[k]; *at; at++) {
            int64_t *size = &op->size[(int)*at];
            if (!*size && sizes) *size = *sizes++;
            tensor.dim[tensor.rank++] = *size;
        }
        if (is_choice(op->kind, k)) tensor.role = LUO_HAP_MASK;
        op->out[k] = add_tensor(graph, &tensor, graph->elem_bytes);
        if (op->out[k] < 0) {
            *err = graph->err;
            return graph->st;
        }
    }
    return LUO_OK;
}

/* What its kind says, and no work for gradients that nobody wants. */
static void describe(luo_hap_graph *graph, luo_hap_op *op)
{
    const luo_hap_op_desc *desc = luo_hap_op_desc_of(op->kind);
    op->class = desc->class;
    op->lin = desc->lin;
    op->add = op->kind == LUO_HAP_ADD;
    desc->need(op);
    desc->work(graph, op);
    for (int32_t j = 0; j < op->nin; j++) {
        graph->tensor[op->in[j]].readers++;
        if (!luo_hap_graph_trains(graph, op->in[j])) op->backward[j] = 0;
    }
    if (op->kind == LUO_HAP_LOSS) {
        graph->loss = op->out[0];
        graph->nlosses++;
    }
}

static luo_status write_op(luo_hap_graph *graph, luo_hap_op *op, const char *signature,
                           const int64_t *sizes, const int32_t *in, const char *const *names)
{
    luo_err *err = &graph->err;
    if (!op->name || !op->whole) return luo_err_nomem(err);
    LUO_TRY(read_operands(graph, op, in, signature, err));
    LUO_TRY(make_results(graph, op, sizes, names, err));
    if (!LUO_VEC_ROOM_IN(graph->arena, graph->op, graph->nops, graph->cap_ops))
        return luo_err_nomem(err);
    describe(graph, op);
    graph->op[graph->nops++] = *op;
    return LUO_OK;
}

int32_t luo_hap_graph_op(luo_hap_graph *graph, luo_hap_kind kind, const char *name,
                         const char *signature, const char *whole, const int64_t *sizes,
                         const int32_t *in, const char *const *names)
{
    luo_hap_op op = {.kind = kind, .bias = -1, .weight = -1};
    if (graph->st != LUO_OK) return -1;
    op.name = luo_arena_strdup(graph->arena, name);
    op.whole = luo_arena_strdup(graph->arena, whole);
    op.segment = graph->nsegments - 1;
    op.block = graph->block;
    graph->st = write_op(graph, &op, signature, sizes, in, names);
    return graph->st == LUO_OK ? op.out[0] : -1;
}

void luo_hap_graph_segment(luo_hap_graph *graph, int32_t first, int32_t segment)
{
    for (int32_t o = first; o < graph->nops; o++) graph->op[o].segment = segment;
    graph->nsegments = segment + 1;
}

static int32_t count_blocks(const luo_hap_graph *graph)
{
    int32_t n = 0;
    for (int32_t o = 0; o < graph->nops; o++)
        if (graph->op[o].block >= n) n = graph->op[o].block + 1;
    return n;
}

/* Work up to and with block `last`, as a part of all. What is of no block goes with the block
 * before it, as luo_hap_graph_cut deals it: the embedding begins, the head ends. */
static double part_up_to(const luo_hap_graph *graph, int32_t last)
{
    double part = 0, all = 0;
    int32_t block = -1;
    for (int32_t o = 0; o < graph->nops; o++) {
        const double work = luo_hap_graph_work(&graph->op[o]);
        all += work;
        if (graph->op[o].block >= 0) block = graph->op[o].block;
        if (block <= last) part += work;
    }
    return all > 0 ? part / all : 1;
}

luo_status luo_hap_graph_cut(luo_hap_graph *graph, int32_t count, luo_err *err)
{
    const int32_t blocks = count_blocks(graph);
    const int32_t n = count ? count : blocks;
    int32_t segment = 0;
    if (n > blocks)
        return luo_err_set(err, LUO_EUSAGE,
                           "%d segments for %d blocks; at most one segment per block.", n, blocks);
    graph->nsegments = n ? n : 1;
    for (int32_t b = 0; b < blocks; b++) {
        for (int32_t o = 0; o < graph->nops; o++)
            if (graph->op[o].block == b) graph->op[o].segment = segment;
        const bool must = blocks - 1 - b <= n - 1 - segment; /* the rest gets a block each */
        if (segment < n - 1 && (must || part_up_to(graph, b) * n >= segment + 1 - 1e-9)) segment++;
    }
    for (int32_t o = 0, now = 0; o < graph->nops; o++) {
        if (graph->op[o].block >= 0) now = graph->op[o].segment;
        graph->op[o].segment = now;
    }
    return LUO_OK;
}

luo_status luo_hap_graph_check(const luo_hap_graph *graph, luo_err *err)
{
    if (graph->st != LUO_OK) {
        if (err) *err = graph->err;
        return graph->st;
    }
    if (graph->nlosses != 1)
        return luo_err_set(err, LUO_EINPUT, "the graph has %d losses; exactly one is needed.",
                           graph->nlosses);
    return LUO_OK;
}

double luo_hap_graph_work(const luo_hap_op *op)
{
    double work = op->forward;
    for (int32_t j = 0; j < op->nin; j++) work += op->backward[j];
    return work;
}

bool luo_hap_graph_trains(const luo_hap_graph *graph, int32_t x)
{
    const luo_hap_role role = graph->tensor[x].role;
    return role == LUO_HAP_PARAM || role == LUO_HAP_VALUE_OF;
}
