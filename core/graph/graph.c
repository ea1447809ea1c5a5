/* graph.c: the container of tensors and operations. */
#include "core/graph/graph.h"
#include "core/base/vec.h"

#include <assert.h>
#include <math.h>
#include <string.h>

static void set_sizes(luo_graph *graph, const luo_model *model)
{
    graph->size['t' - 'a'] = LUO_DIM_TOKENS;
    graph->size['h' - 'a'] = model->hidden;
    graph->size['n' - 'a'] = model->heads;
    graph->size['g' - 'a'] = model->kv_heads;
    graph->size['d' - 'a'] = model->head_dim;
    graph->size['f' - 'a'] = model->ffn_hidden;
    graph->size['v' - 'a'] = model->vocab;
    graph->size['p' - 'a'] = luo_model_position_rows(model);
    graph->size['q' - 'a'] = model->latent.q_lora;
    graph->size['c' - 'a'] = model->latent.kv_lora;
    graph->size['i' - 'a'] = model->latent.nope;
    graph->size['b' - 'a'] = model->latent.rope;
    graph->size['u' - 'a'] = model->latent.v;
    if (model->moe.experts == 0) return;
    const luo_moe *moe = &model->moe;
    graph->size['e' - 'a'] = moe->experts;
    graph->size['k' - 'a'] = moe->experts_per_token;
    graph->size['w' - 'a'] = moe->expert_ffn_hidden;
    graph->size['s' - 'a'] = moe->shared_experts * moe->shared_ffn_hidden;
    graph->size['o' - 'a'] = 1;
    graph->size['r' - 'a'] = LUO_DIM_ROWS;
    graph->size['z' - 'a'] = 1;
    graph->gate = luo_model_gate(model);
    graph->rows_per_token =
        luo_gate_kept(moe->capacity_factor) * (double)moe->experts_per_token / (double)moe->experts;
}

luo_graph *luo_graph_new(luo_arena *arena, const luo_model *model, luo_dtype dtype)
{
    luo_graph *graph = LUO_NEW(arena, luo_graph);
    if (!graph) return NULL;
    graph->arena = arena;
    graph->set = luo_annset_new(arena);
    if (!graph->set) return NULL;
    set_sizes(graph, model);
    graph->causal = model->causal;
    graph->elem_bytes = luo_dtype_bytes(dtype);
    graph->sum_bytes = dtype == LUO_F64 ? 8 : 4;
    /* Two moments, and a master copy when the working weights are too coarse
     * (docs/cost-model.md#precision). */
    graph->state_bytes = dtype == LUO_BF16 ? 12 : 2 * graph->elem_bytes;
    graph->ids = graph->labels = graph->exp = graph->row_sum = graph->loss = -1;
    return graph;
}

/* Room for one more of n elements of `bytes`; false: out of memory. */
static bool room(luo_graph *graph, void **at, int32_t n, int32_t *cap, size_t bytes)
{
    return n < *cap || luo_vec_grow32(graph->arena, at, cap, bytes);
}

int32_t luo_graph_tensor(luo_graph *graph, const char *name, const char *letters, int32_t kind,
                         int32_t layer)
{
    void *at = graph->tensor;
    if (graph->failed || !name ||
        !room(graph, &at, graph->ntensors, &graph->cap_tensors, sizeof *graph->tensor)) {
        graph->failed = true;
        return 0;
    }
    graph->tensor = at;
    luo_tensor *tensor = &graph->tensor[graph->ntensors];
    *tensor = (luo_tensor){.name = name,
                           .letters = letters,
                           .kind = kind,
                           .layer = layer,
                           .op = -1,
                           .ann = -1,
                           .elem_bytes = graph->elem_bytes,
                           .rank = (int32_t)strlen(letters)};
    for (int32_t d = 0; d < tensor->rank; d++) tensor->dim[d] = graph->size[letters[d] - 'a'];
    if (kind == LUO_TENSOR_STATE) tensor->elem_bytes = graph->state_bytes;
    if (kind == LUO_TENSOR_GRAD) tensor->elem_bytes = graph->sum_bytes;
    return graph->ntensors++;
}

int32_t luo_graph_op(luo_graph *graph, luo_op_kind kind, const char *name, int32_t layer,
                     const int32_t *in, int32_t nin, const int32_t *out, int32_t nout)
{
    void *at = graph->op;
    int32_t *list = graph->failed ? NULL : LUO_NEW_N(graph->arena, int32_t, nin + nout);
    if (!list || !name || !room(graph, &at, graph->nops, &graph->cap_ops, sizeof *graph->op)) {
        graph->failed = true;
        return 0;
    }
    graph->op = at;
    if (nin) memcpy(list, in, (size_t)nin * sizeof *in);
    if (nout) memcpy(list + nin, out, (size_t)nout * sizeof *out);
    graph->op[graph->nops] = (luo_op){.name = name,
                                      .kind = (int32_t)kind,
                                      .layer = layer,
                                      .forward = -1,
                                      .nin = nin,
                                      .nout = nout,
                                      .in = list,
                                      .out = list + nin};
    for (int32_t i = 0; i < nout; i++) graph->tensor[out[i]].op = graph->nops;
    return graph->nops++;
}

int32_t luo_graph_find(const luo_graph *graph, const char *name)
{
    for (int32_t i = 0; i < graph->ntensors; i++)
        if (strcmp(graph->tensor[i].name, name) == 0) return i;
    return -1;
}

int32_t luo_graph_insert_reshard(luo_graph *graph, int32_t o, int32_t i)
{
    if (graph->failed) return 0;
    const luo_op reader = graph->op[o];
    const luo_tensor from = graph->tensor[reader.in[i]];
    const char *name = luo_arena_printf(graph->arena, "%s@%s", from.name, reader.name);
    const int32_t x = reader.in[i];
    const int32_t kind = from.kind == LUO_TENSOR_DATA ? LUO_TENSOR_VALUE : from.kind;
    const int32_t y = luo_graph_tensor(graph, name, from.letters, kind, reader.layer);
    luo_graph_op(graph, LUO_OP_RESHARD, name, reader.layer, &x, 1, &y, 1);
    int32_t *in = LUO_NEW_N(graph->arena, int32_t, reader.nin);
    if (graph->failed || !in) {
        graph->failed = true;
        return 0;
    }
    const luo_op made = graph->op[graph->nops - 1];
    graph->tensor[y].elem_bytes = from.elem_bytes;
    memcpy(in, reader.in, (size_t)reader.nin * sizeof *in);
    in[i] = y;
    memmove(&graph->op[o + 1], &graph->op[o], (size_t)(graph->nops - 1 - o) * sizeof *graph->op);
    graph->op[o] = made;
    graph->op[o + 1].in = in;
    for (int32_t k = o; k < graph->nops; k++)
        for (int32_t j = 0; j < graph->op[k].nout; j++) graph->tensor[graph->op[k].out[j]].op = k;
    return y;
}

static bool is_of_task(char letter)
{
    return letter == 't' || letter == 'r' || letter == 'z';
}

bool luo_tensor_is_task(const luo_tensor *tensor)
{
    for (const char *c = tensor->letters; *c; c++)
        if (is_of_task(*c)) return true;
    return false;
}

static int64_t rows_of(const luo_graph *graph, int64_t tokens)
{
    const int64_t n = (int64_t)ceil((double)tokens * graph->rows_per_token - 1e-9);
    return n > graph->least_rows ? n : graph->least_rows;
}

luo_shape luo_graph_shape(const luo_graph *graph, int32_t x, int64_t tokens, int32_t members)
{
    const luo_tensor *tensor = &graph->tensor[x];
    luo_shape shape = {.rank = tensor->rank};
    const int32_t h = tensor->ann >= 0 ? luo_annset_get(graph->set, tensor->ann)->h : LUO_H_NONE;
    for (int32_t d = 0; d < tensor->rank; d++) {
        shape.dim[d] = tensor->dim[d];
        if (tensor->dim[d] == LUO_DIM_TOKENS) shape.dim[d] = tokens;
        if (tensor->dim[d] == LUO_DIM_ROWS) shape.dim[d] = rows_of(graph, tokens);
        /* experts of one group of all pipelines have no members: rows are those of all the same */
        const bool joined = graph->joins && tensor->letters[d] != 't';
        if ((d == h || joined) && is_of_task(tensor->letters[d])) shape.dim[d] *= members;
    }
    return shape;
}

bool luo_tensor_is_copy(const luo_graph *graph, int32_t x)
{
    int32_t from = x;
    while (graph->op[graph->tensor[from].op].kind == LUO_OP_RESHARD)
        from = graph->op[graph->tensor[from].op].in[0];
    return graph->tensor[from].place != graph->tensor[x].place;
}

/* data(o) and after-accumulation flow along the tensors in operation order. */
void luo_graph_segment(luo_graph *graph, int32_t o)
{
    luo_op *op = &graph->op[o];
    const bool gathers = op->nout > 0 && graph->tensor[op->out[0]].kind == LUO_TENSOR_FULL;
    int32_t phase = op->kind == LUO_OP_PLACEHOLDER || gathers ? LUO_PHASE_F : LUO_PHASE_PRE;
    for (int32_t i = 0; i < op->nin; i++) {
        const luo_op *from = &graph->op[graph->tensor[op->in[i]].op];
        int32_t p = from->kind == LUO_OP_ACCUMULATE ? LUO_PHASE_POST : from->phase;
        if (p == LUO_PHASE_F && op->forward >= 0) p = LUO_PHASE_B;
        if (p > phase) phase = p;
    }
    op->phase = phase;
}

static void print_tensors(luo_str *s, const luo_graph *graph, const int32_t *at, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        const luo_tensor *tensor = &graph->tensor[at[i]];
        luo_str_addf(s, "%s%s(%s)", i ? ", " : "", tensor->name, tensor->letters);
        const char *text = tensor->ann >= 0 ? luo_annset_text(graph->set, tensor->ann) : NULL;
        if (text) luo_str_addf(s, " %s", text);
    }
}

void luo_graph_print(luo_str *text, const luo_graph *graph)
{
    for (int32_t o = 0; o < graph->nops; o++) {
        const luo_op *op = &graph->op[o];
        luo_str_addf(text, "%d %s %s %s: ", o, luo_phase_name((luo_phase)op->phase),
                     luo_op_kind_name((luo_op_kind)op->kind), op->name);
        print_tensors(text, graph, op->in, op->nin);
        luo_str_add(text, " -> ");
        print_tensors(text, graph, op->out, op->nout);
        luo_str_addc(text, '\n');
    }
}
