/* graph.c: the container of tensors and operations. */
#include "core/graph/graph.h"
#include "core/base/vec.h"

#include <assert.h>
#include <string.h>

static void set_sizes(luo_graph *g, const luo_model *m)
{
    g->size['t' - 'a'] = LUO_DIM_TOKENS;
    g->size['h' - 'a'] = m->hidden;
    g->size['n' - 'a'] = m->heads;
    g->size['g' - 'a'] = m->kv_heads;
    g->size['d' - 'a'] = m->head_dim;
    g->size['f' - 'a'] = m->ffn_hidden;
    g->size['v' - 'a'] = m->vocab;
    g->size['p' - 'a'] = m->max_sequence_tokens;
}

luo_graph *luo_graph_new(luo_arena *arena, const luo_model *model, luo_dtype dtype)
{
    luo_graph *g = LUO_NEW(arena, luo_graph);
    if (!g) return NULL;
    g->arena = arena;
    g->set = luo_annset_new(arena);
    if (!g->set) return NULL;
    set_sizes(g, model);
    g->causal = model->causal;
    g->elem_bytes = luo_dtype_bytes(dtype);
    g->sum_bytes = dtype == LUO_F64 ? 8 : 4;
    /* Two moments, and a master copy when the working weights are too coarse
     * (docs/cost-model.md#precision). */
    g->state_bytes = dtype == LUO_BF16 ? 12 : 2 * g->elem_bytes;
    g->ids = g->labels = g->exp = g->row_sum = g->loss = -1;
    return g;
}

/* Room for one more of n elements of `bytes`; false: out of memory. */
static bool room(luo_graph *g, void **at, int32_t n, int32_t *cap, size_t bytes)
{
    return n < *cap || luo_vec_grow32(g->arena, at, cap, bytes);
}

int32_t luo_graph_tensor(luo_graph *g, const char *name, const char *letters, int32_t kind,
                         int32_t layer)
{
    void *at = g->tensor;
    if (g->failed || !name || !room(g, &at, g->ntensors, &g->cap_tensors, sizeof *g->tensor)) {
        g->failed = true;
        return 0;
    }
    g->tensor = at;
    luo_tensor *x = &g->tensor[g->ntensors];
    *x = (luo_tensor){.name = name, .letters = letters, .kind = kind, .layer = layer, .op = -1,
                      .ann = -1, .elem_bytes = g->elem_bytes, .rank = (int32_t)strlen(letters)};
    for (int32_t d = 0; d < x->rank; d++) x->dim[d] = g->size[letters[d] - 'a'];
    if (kind == LUO_TENSOR_STATE) x->elem_bytes = g->state_bytes;
    if (kind == LUO_TENSOR_GRAD) x->elem_bytes = g->sum_bytes;
    return g->ntensors++;
}

int32_t luo_graph_op(luo_graph *g, luo_op_kind kind, const char *name, int32_t layer,
                     const int32_t *in, int32_t nin, const int32_t *out, int32_t nout)
{
    void *at = g->op;
    int32_t *list = g->failed ? NULL : LUO_NEW_N(g->arena, int32_t, nin + nout);
    if (!list || !name || !room(g, &at, g->nops, &g->cap_ops, sizeof *g->op)) {
        g->failed = true;
        return 0;
    }
    g->op = at;
    if (nin) memcpy(list, in, (size_t)nin * sizeof *in);
    if (nout) memcpy(list + nin, out, (size_t)nout * sizeof *out);
    g->op[g->nops] = (luo_op){.name = name, .kind = (int32_t)kind, .layer = layer, .forward = -1,
                              .nin = nin, .nout = nout, .in = list, .out = list + nin};
    for (int32_t i = 0; i < nout; i++) g->tensor[out[i]].op = g->nops;
    return g->nops++;
}

int32_t luo_graph_find(const luo_graph *g, const char *name)
{
    for (int32_t i = 0; i < g->ntensors; i++)
        if (strcmp(g->tensor[i].name, name) == 0) return i;
    return -1;
}

int32_t luo_graph_insert_reshard(luo_graph *g, int32_t o, int32_t i)
{
    if (g->failed) return 0;
    const luo_op reader = g->op[o];
    const luo_tensor from = g->tensor[reader.in[i]];
    const char *name = luo_arena_printf(g->arena, "%s@%s", from.name, reader.name);
    const int32_t x = reader.in[i];
    const int32_t kind = from.kind == LUO_TENSOR_DATA ? LUO_TENSOR_VALUE : from.kind;
    const int32_t y = luo_graph_tensor(g, name, from.letters, kind, reader.layer);
    luo_graph_op(g, LUO_OP_RESHARD, name, reader.layer, &x, 1, &y, 1);
    int32_t *in = LUO_NEW_N(g->arena, int32_t, reader.nin);
    if (g->failed || !in) {
        g->failed = true;
        return 0;
    }
    const luo_op made = g->op[g->nops - 1];
    g->tensor[y].elem_bytes = from.elem_bytes;
    memcpy(in, reader.in, (size_t)reader.nin * sizeof *in);
    in[i] = y;
    memmove(&g->op[o + 1], &g->op[o], (size_t)(g->nops - 1 - o) * sizeof *g->op);
    g->op[o] = made;
    g->op[o + 1].in = in;
    for (int32_t k = o; k < g->nops; k++)
        for (int32_t j = 0; j < g->op[k].nout; j++) g->tensor[g->op[k].out[j]].op = k;
    return y;
}

luo_shape luo_graph_shape(const luo_graph *g, int32_t x, int64_t tokens, int32_t members)
{
    const luo_tensor *t = &g->tensor[x];
    luo_shape s = {.rank = t->rank};
    const int32_t h = t->ann >= 0 ? luo_annset_get(g->set, t->ann)->h : LUO_H_NONE;
    for (int32_t d = 0; d < t->rank; d++) {
        s.dim[d] = t->dim[d];
        if (t->dim[d] == LUO_DIM_TOKENS) s.dim[d] = d == h ? tokens * members : tokens;
    }
    return s;
}

bool luo_tensor_is_copy(const luo_graph *g, int32_t x)
{
    int32_t from = x;
    while (g->op[g->tensor[from].op].kind == LUO_OP_RESHARD)
        from = g->op[g->tensor[from].op].in[0];
    return g->tensor[from].place != g->tensor[x].place;
}

/* data(o) and after-accumulation flow along the tensors in operation order. */
void luo_graph_segment(luo_graph *g, int32_t o)
{
    luo_op *op = &g->op[o];
    const bool gathers = op->nout > 0 && g->tensor[op->out[0]].kind == LUO_TENSOR_FULL;
    int32_t phase = op->kind == LUO_OP_PLACEHOLDER || gathers ? LUO_PHASE_F : LUO_PHASE_PRE;
    for (int32_t i = 0; i < op->nin; i++) {
        const luo_op *from = &g->op[g->tensor[op->in[i]].op];
        int32_t p = from->kind == LUO_OP_ACCUMULATE ? LUO_PHASE_POST : from->phase;
        if (p == LUO_PHASE_F && op->forward >= 0) p = LUO_PHASE_B;
        if (p > phase) phase = p;
    }
    op->phase = phase;
}

static void print_tensors(luo_str *s, const luo_graph *g, const int32_t *at, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        const luo_tensor *t = &g->tensor[at[i]];
        luo_str_addf(s, "%s%s(%s)", i ? ", " : "", t->name, t->letters);
        const char *text = t->ann >= 0 ? luo_annset_text(g->set, t->ann) : NULL;
        if (text) luo_str_addf(s, " %s", text);
    }
}

void luo_graph_print(luo_str *s, const luo_graph *g)
{
    for (int32_t o = 0; o < g->nops; o++) {
        const luo_op *op = &g->op[o];
        luo_str_addf(s, "%d %s %s %s: ", o, luo_phase_name((luo_phase)op->phase),
                     luo_op_kind_name((luo_op_kind)op->kind), op->name);
        print_tensors(s, g, op->in, op->nin);
        luo_str_add(s, " -> ");
        print_tensors(s, g, op->out, op->nout);
        luo_str_addc(s, '\n');
    }
}
