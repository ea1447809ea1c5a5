/* specialize.c: the steps of specialization in order (docs/architecture/programs.md). */
#include "core/graph/specialize/spec_internal.h"

/* What the emitter asks of the graph again and again. */
static luo_status index_graph(spec *s)
{
    const luo_graph *graph = s->g;
    for (int32_t o = 0; o < graph->nops; o++)
        if (graph->op[o].layer >= s->nlayers) s->nlayers = graph->op[o].layer + 1;
    s->first_of_layer = LUO_NEW_N(s->arena, int32_t, s->nlayers);
    s->sum_of = LUO_NEW_N(s->arena, int32_t, graph->ntensors);
    s->weight_of = LUO_NEW_N(s->arena, int32_t, graph->ntensors);
    if (!s->first_of_layer || !s->sum_of || !s->weight_of) return luo_err_nomem(s->err);
    for (int32_t x = 0; x < graph->ntensors; x++) s->sum_of[x] = s->weight_of[x] = -1;
    for (int32_t o = graph->nops - 1; o >= 0; o--) {
        const luo_op *op = &graph->op[o];
        const int32_t kind = op->kind;
        if (op->forward < 0 && op->layer >= 0 && op->phase == LUO_PHASE_F)
            s->first_of_layer[op->layer] = o;
        if (kind == LUO_OP_RESHARD && (graph->tensor[op->in[0]].kind == LUO_TENSOR_STATE ||
                                       graph->tensor[op->in[0]].kind == LUO_TENSOR_SHARD))
            s->weight_of[op->in[0]] = op->out[0];
        if (kind == LUO_OP_RESHARD &&
            graph->op[graph->tensor[op->in[0]].op].kind == LUO_OP_GRAD_NORM)
            s->norm = op->out[0];
        for (int32_t i = 0; i < op->nin && kind == LUO_OP_ACCUMULATE; i++)
            if (graph->op[graph->tensor[op->in[i]].op].kind != LUO_OP_RESHARD)
                s->sum_of[op->in[i]] = op->out[0];
    }
    return LUO_OK;
}

static luo_status list_ops(spec *s, luo_programs *out)
{
    luo_op_info *info = LUO_NEW_N(s->arena, luo_op_info, s->g->nops + s->nbuckets);
    if (!info) return luo_err_nomem(s->err);
    for (int32_t o = 0; o < s->g->nops; o++) {
        const luo_op *op = &s->g->op[o];
        info[o] = (luo_op_info){op->name, (luo_op_kind)op->kind, op->layer};
    }
    for (int32_t b = 0; b < s->nbuckets; b++) {
        const bool weights = s->bucket[b].phase <= LUO_PHASE_F;
        const char *name = luo_arena_printf(s->arena, "bucket.%d.%s", (int)b,
                                            weights ? "weights" : "gradients");
        if (!name) return luo_err_nomem(s->err);
        info[s->g->nops + b] = (luo_op_info){name, LUO_OP_RESHARD, -1};
    }
    out->nops = s->g->nops + s->nbuckets;
    out->ops = info;
    return LUO_OK;
}

static luo_status specialize(spec *s, luo_programs *out)
{
    LUO_TRY(index_graph(s));
    LUO_TRY(luo_spec_find_stages(s));
    LUO_TRY(luo_spec_find_units(s));
    LUO_TRY(luo_spec_make_tables(s));
    LUO_TRY(luo_spec_make_moves(s));
    LUO_TRY(luo_spec_make_buckets(s));
    LUO_TRY(luo_spec_order_buckets(s));
    LUO_TRY(luo_spec_list_places(s));
    LUO_TRY(luo_spec_make_roles(s, out));
    LUO_TRY(list_ops(s, out));
    out->ngroups = s->group_key.n;
    out->groups = s->group;
    out->nexchanges = s->nexchanges;
    out->exchanges = s->exchange;
    out->npipelines = s->in->npipelines;
    out->schedule = s->in->schedule;
    return LUO_OK;
}

/* Patterns are of use where there are several lengths or compilations. What they do not know of:
 * loads of experts, devices that stand in for others, norms that nothing waits for. */
static luo_status with_patterns(spec *s, luo_programs *set)
{
    const bool apply = !s->in->load && !s->in->nabsent && !s->g->staggered;
    luo_patterns *own = NULL;
    if (apply && !s->in->patterns && s->in->nlengths > 1)
        LUO_TRY(luo_patterns_open(s->scratch, LUO_PATTERN_BYTES, &own, s->err));
    if (apply) s->patterns = own ? own : s->in->patterns;
    const luo_status st = specialize(s, set);
    luo_patterns_free(own);
    return st;
}

luo_status luo_graph_specialize(luo_arena *arena, const luo_spec *in, luo_programs **out,
                                luo_err *err)
{
    spec s = {.in = in, .g = in->graph, .arena = arena, .err = err, .norm = -1};
    luo_programs *set = LUO_NEW(arena, luo_programs);
    s.scratch = luo_arena_new(1 << 20);
    if (!set || !s.scratch) {
        luo_arena_free(s.scratch);
        return luo_err_nomem(err);
    }
    const luo_status st = with_patterns(&s, set);
    luo_arena_free(s.scratch);
    if (st == LUO_OK) *out = set;
    return st;
}
