/* spec_moves.c: every Reshard is resolved once per distinct (source, destination,
 * shape), however many layers have it. */
#include <string.h>

#include "core/base/vec.h"
#include "core/graph/specialize/spec_internal.h"

/* Of one pipeline and one length. Weights and their gradients are all pipelines', at any length. */
static bool per_micro_batch(const spec *s, int32_t o)
{
    const luo_op *op = &s->g->op[o];
    return (op->phase == LUO_PHASE_F || op->phase == LUO_PHASE_B) && s->duty[o] == SPEC_NONE;
}

/* Context-parallel ranks, where all pipelines have equally many; else 0. */
static int32_t ranks_of(const luo_graph *graph)
{
    for (int32_t p = 1; p < graph->npipelines; p++)
        if (graph->context[p].c != graph->context[0].c) return 0;
    return graph->npipelines > 0 ? graph->context[0].c : 0;
}

static luo_status resolve(spec *s, spec_move *move)
{
    if (move->src == move->dst) return LUO_OK;
    luo_resolution *resolution = LUO_NEW(s->arena, luo_resolution);
    if (!resolution) return luo_err_nomem(s->err);
    move->resolution = resolution;
    if (move->trade) {
        LUO_TRY(luo_spec_resolve_trade(s, move, resolution));
        return luo_spec_make_steps(s, move);
    }
    const luo_resolve_opts opts = {.planner = s->in->planner,
                                   .elem_bytes = move->elem_bytes,
                                   .name = move->name,
                                   .ranks = ranks_of(s->g)};
    LUO_TRY(luo_resolve(s->arena, luo_annset_get(s->g->set, move->src),
                        luo_annset_get(s->g->set, move->dst), &move->shape, &opts, resolution,
                        s->err));
    return luo_spec_make_steps(s, move);
}

/* Shape of a Reshard's tensor: both ends cut the tokens alike. */
static luo_shape shape_of(const spec *s, int32_t x, int32_t length)
{
    int32_t kept = 0;
    for (int32_t p = 0; p < s->in->npipelines; p++)
        kept += s->has_length[length * s->in->npipelines + p];
    return luo_graph_shape(s->g, x, s->in->lengths[length].tokens, kept);
}

/* Does the variant change what some call of the move says? */
static bool says(const spec_move *m, uint8_t variant)
{
    const luo_moves *moves = m->resolution ? &m->resolution->moves : NULL;
    bool any = false;
    for (int32_t i = 0; moves && i < moves->n; i++) {
        const luo_move *x = &moves->at[i];
        if (x->kind == LUO_MOVE_AG) any |= spec_variant(variant, LUO_COLL_AG, x->v);
        if (x->kind == LUO_MOVE_RS) any |= spec_variant(variant, LUO_COLL_RS, x->v);
    }
    return any;
}

/* Number of a move like move; *fresh: it was not there, and is what move is. */
static luo_status intern_move(spec *s, const spec_move *move, int32_t *id, bool *fresh)
{
    int32_t key[6 + 2 * LUO_RANK_MAX] = {
        move->src, move->dst, (int32_t)move->elem_bytes,
        move->per_micro_batch | move->trade << 1 | move->variant << 2, move->shape.rank};
    for (int32_t d = 0; d < move->shape.rank; d++) {
        key[5 + 2 * d] = (int32_t)(uint32_t)move->shape.dim[d];
        key[6 + 2 * d] = (int32_t)(move->shape.dim[d] >> 32);
    }
    int32_t n_key = 5 + 2 * move->shape.rank;
    if (move->layer >= 0) key[n_key++] = move->layer;
    *id = luo_intern_id(&s->move_key, key, n_key, fresh);
    if (*id < 0) return luo_err_nomem(s->err);
    if (!*fresh) return LUO_OK;
    if (!LUO_VEC_ROOM_IN(s->arena, s->move, *id, s->cap_move)) return luo_err_nomem(s->err);
    s->move[*id] = *move;
    return LUO_OK;
}

static luo_status move_id(spec *s, int32_t o, int32_t length, int32_t *id)
{
    bool fresh;
    const luo_op *op = &s->g->op[o];
    const int32_t n = s->in->nlengths, x = op->in[0], y = op->out[0];
    spec_move move = {.src = s->cut_ann[(int64_t)x * n + length],
                      .dst = s->cut_ann[(int64_t)y * n + length],
                      .from = spec_table_of(s, x, length),
                      .to = spec_table_of(s, y, length),
                      .name = op->name,
                      .shape = shape_of(s, x, length),
                      .elem_bytes = s->g->tensor[y].elem_bytes,
                      .per_micro_batch = per_micro_batch(s, o),
                      .trade = luo_spec_is_trade(op),
                      .layer = -1,
                      .tokens = s->in->lengths[length].tokens};
    if (move.trade && s->in->load) move.layer = op->layer;
    LUO_TRY(intern_move(s, &move, id, &fresh));
    if (fresh) LUO_TRY(resolve(s, &s->move[*id]));
    if (!says(&s->move[*id], op->variant)) return LUO_OK;
    move = s->move[*id];
    move.variant = op->variant;
    LUO_TRY(intern_move(s, &move, id, &fresh));
    return fresh ? luo_spec_make_steps(s, &s->move[*id]) : LUO_OK;
}

/* Exchange ids: one per (Reshard, step), of each length if it runs per micro-batch. */
static void number_exchanges(spec *s)
{
    const int32_t n = s->in->nlengths;
    for (int32_t o = 0; o < s->g->nops; o++) {
        for (int32_t k = 0; k < n; k++) {
            const int64_t at = (int64_t)o * n + k;
            s->exchange_of[at] = -1;
            if (s->move_of[at] < 0) continue;
            const spec_move *move = &s->move[s->move_of[at]];
            if (k > 0 && !move->per_micro_batch) {
                s->exchange_of[at] = s->exchange_of[at - k];
                continue;
            }
            if (move->nsteps) s->exchange_of[at] = s->nexchanges;
            s->nexchanges += move->nsteps;
        }
    }
}

static luo_status list_exchanges(spec *s)
{
    const int32_t n = s->in->nlengths;
    number_exchanges(s);
    s->exchange = LUO_NEW_N(s->arena, luo_exchange, s->nexchanges);
    if (!s->exchange) return luo_err_nomem(s->err);
    for (int64_t at = 0; at < (int64_t)s->g->nops * n; at++) {
        if (s->exchange_of[at] < 0) continue;
        const spec_move *move = &s->move[s->move_of[at]];
        const char *src = luo_annset_text(s->g->set, move->src);
        const char *dst = luo_annset_text(s->g->set, move->dst);
        if (!src || !dst) return luo_err_nomem(s->err);
        for (int32_t k = 0; k < move->nsteps; k++)
            s->exchange[s->exchange_of[at] + k] = (luo_exchange){.op = (int32_t)(at / n),
                                                                 .step = k,
                                                                 .resolution = move->resolution,
                                                                 .src = src,
                                                                 .dst = dst,
                                                                 .shape = move->shape,
                                                                 .elem_bytes = move->elem_bytes};
    }
    return LUO_OK;
}

luo_status luo_spec_make_moves(spec *s)
{
    const int32_t n = s->in->nlengths;
    luo_intern_init(&s->move_key, s->arena);
    luo_intern_init(&s->group_key, s->arena);
    luo_intern_init(&s->structure_key, s->arena);
    s->move_of = LUO_NEW_N(s->arena, int32_t, (int64_t)s->g->nops * n);
    s->exchange_of = LUO_NEW_N(s->arena, int32_t, (int64_t)s->g->nops * n);
    if (!s->move_of || !s->exchange_of) return luo_err_nomem(s->err);
    for (int32_t o = 0; o < s->g->nops; o++)
        for (int32_t k = 0; k < n; k++) {
            int32_t *id = &s->move_of[(int64_t)o * n + k];
            *id = -1;
            if (s->g->op[o].kind == LUO_OP_RESHARD) LUO_TRY(move_id(s, o, k, id));
        }
    return list_exchanges(s);
}
