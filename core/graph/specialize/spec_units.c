/* spec_units.c: ZeRO-2 and 3: which Reshards work inside the tasks, and for which unit:
 * embedding, a block, or head. What pipelines gather and scatter together is the same in all of
 * them, so units are, too. */
#include "core/graph/specialize/spec_internal.h"

static spec_duty duty_of(const luo_graph *graph, const luo_op *op)
{
    if (op->kind != LUO_OP_RESHARD) return SPEC_NONE;
    const luo_op *f = op->forward >= 0 ? &graph->op[op->forward] : op;
    if (f->kind != LUO_OP_RESHARD) return SPEC_NONE;
    const int32_t from = graph->tensor[f->in[0]].kind, to = graph->tensor[f->out[0]].kind;
    const bool gathers = from == LUO_TENSOR_PARAM && to == LUO_TENSOR_FULL;
    if (!graph->scatter_each) return SPEC_NONE; /* gathered for one operation, where the plan says */
    if (op->phase == LUO_PHASE_F) return gathers ? SPEC_GATHER : SPEC_NONE;
    if (op->phase != LUO_PHASE_B) return SPEC_NONE;
    const bool piece = from == LUO_TENSOR_STATE || from == LUO_TENSOR_SHARD;
    const bool whole = piece && to == LUO_TENSOR_PARAM;
    return gathers || whole ? SPEC_SCATTER : SPEC_NONE;
}

static int32_t unit_of(const spec *s, int32_t o)
{
    const luo_op *op = &s->g->op[o];
    const int32_t f = op->forward >= 0 ? op->forward : o, layer = s->g->op[f].layer;
    if (layer >= 0) return layer + 1;
    return s->nlayers > 0 && f > s->first_of_layer[0] ? s->nlayers + 1 : 0;
}

/* A weight that no gradient needs is gathered in B all the same, with the others of its unit: what
 * runs again reads it, and a unit is one call. */
static void find_readers(spec *s)
{
    const luo_graph *graph = s->g;
    for (int32_t o = 0; o < graph->nops; o++) {
        const luo_op *op = &graph->op[o];
        const bool forward = op->phase == LUO_PHASE_F;
        if (!forward && op->phase != LUO_PHASE_B) continue;
        for (int32_t i = 0; i < op->nin; i++) {
            const int32_t x = op->in[i];
            if (forward && s->reader[x] < 0) s->reader[x] = o;
            if (!forward && s->unit_back[x] < 0) s->unit_back[x] = s->unit_of[o];
        }
    }
    for (int32_t x = 0; x < graph->ntensors; x++)
        if (s->reader[x] >= 0 && s->unit_back[x] < 0) s->unit_back[x] = s->unit_of[s->reader[x]];
}

static bool makes_late_gradient(const luo_op *op)
{
    return op->kind == LUO_OP_MATMUL_DW || op->kind == LUO_OP_BIAS_DW ||
           op->kind == LUO_OP_EMBEDDING_DW || op->kind == LUO_OP_GROUPED_DW;
}

/* Which half of a backward cut in two: gradients of weights and what becomes of them, which no
 * stage before waits for. All else is on the way to the gradient of the stage's input, but norms'
 * weights: they take no time worth moving, and would keep the norm's input and its output's
 * gradient alive, so that memory were more than 1F1B's. Source: arXiv 2401.10241, which moves
 * products. */
static void find_late(spec *s)
{
    const luo_graph *graph = s->g;
    for (int32_t o = 0; o < graph->nops; o++) {
        const luo_op *op = &graph->op[o];
        if (op->phase != LUO_PHASE_B) continue;
        s->late[o] = makes_late_gradient(op);
        for (int32_t i = 0; i < op->nin; i++) s->late[o] |= s->late[graph->tensor[op->in[i]].op];
    }
}

luo_status luo_spec_find_units(spec *s)
{
    const luo_graph *graph = s->g;
    s->duty = LUO_NEW_N(s->arena, uint8_t, graph->nops);
    s->unit_of = LUO_NEW_N(s->arena, int32_t, graph->nops);
    s->reader = LUO_NEW_N(s->arena, int32_t, graph->ntensors);
    s->unit_back = LUO_NEW_N(s->arena, int32_t, graph->ntensors);
    s->late = LUO_NEW_N(s->arena, bool, graph->nops);
    if (!s->duty || !s->unit_of || !s->reader || !s->unit_back || !s->late)
        return luo_err_nomem(s->err);
    for (int32_t x = 0; x < graph->ntensors; x++) s->reader[x] = s->unit_back[x] = -1;
    for (int32_t o = 0; o < graph->nops; o++) {
        s->duty[o] = (uint8_t)duty_of(graph, &graph->op[o]);
        s->unit_of[o] = unit_of(s, o);
    }
    find_readers(s);
    find_late(s);
    return LUO_OK;
}
