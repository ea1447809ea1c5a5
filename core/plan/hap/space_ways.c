/* Ways in which an operand comes to the relation that a rule wants. */
#include <string.h>

#include "core/base/vec.h"
#include "core/plan/hap/space_internal.h"
#include "core/plan/hap_graph/hap_ops.h"

typedef struct want { /* an operand of a rule */
    luo_hap_maker *maker;
    int32_t op, j, tensor;
    const luo_hap_rule *rule;
    luo_rel to, grad;
} want;

static const luo_hap_tensor *tensor_of(const want *w)
{
    return &w->maker->space->graph->tensor[w->tensor];
}

static const luo_hap_op *op_of(const want *w)
{
    return &w->maker->space->graph->op[w->op];
}

/* Compat counts elements. */
static double volume(const luo_hap_space *space, int32_t tensor)
{
    const luo_hap_tensor *hap_tensor = &space->graph->tensor[tensor];
    return (double)(space->opts.compat ? hap_tensor->elements : hap_tensor->bytes);
}

static int32_t extent_of(const want *w, luo_rel rel)
{
    return luo_hap_space_extent(w->maker->space, tensor_of(w)->dim[rel.dim]);
}

static luo_status add(const want *w, const luo_hap_way *way, luo_err *err)
{
    luo_hap_ways *ways = &w->maker->ways[w->j];
    if (!LUO_VEC_ROOM_IN(w->maker->arena, ways->at, ways->n, ways->cap)) return luo_err_nomem(err);
    ways->at[ways->n++] = *way;
    return LUO_OK;
}

static luo_hap_way way_of(const want *w, luo_hap_how how, luo_rel from)
{
    return (luo_hap_way){.take = {(uint8_t)how, from, w->to}, .pre = -1, .post = -1, .moved = -1};
}

static void move(luo_hap_way *way, luo_hap_move kind, bool backward, luo_rel from, int32_t ext,
                 luo_rel to, int32_t ext2, double bytes)
{
    way->coll[way->ncoll++] = (luo_hap_coll){.kind = (uint8_t)kind,
                                             .backward = backward,
                                             .seg = from.seg,
                                             .seg2 = to.seg,
                                             .ext = ext,
                                             .ext2 = ext2,
                                             .bytes = bytes};
}

/* ---- parameters ---- */

/* Gathers what the gradient of the weight reads: x, and the gradients of all results. */
static luo_status add_factors(const want *w, luo_hap_way way, luo_err *err)
{
    const luo_hap_op *op = op_of(w);
    const luo_rel cut = w->rule->in[0];
    const int32_t ext = luo_hap_space_extent(w->maker->space, op->size[(int)w->rule->letter]);
    luo_rel piece = cut;
    piece.seg = (uint16_t)op->segment;
    way.take.how = LUO_HAP_HOW_FACTORS;
    way.ncoll = 0;
    move(&way, LUO_HAP_MOVE_AG, true, piece, ext, piece, ext, volume(w->maker->space, op->in[0]));
    for (int32_t k = 0; k < op->nout; k++)
        move(&way, LUO_HAP_MOVE_AG, true, piece, ext, piece, ext,
             volume(w->maker->space, op->out[k]));
    return add(w, &way, err);
}

static bool factors_help(const want *w)
{
    const luo_hap_op *op = op_of(w);
    const char letter = w->rule->letter;
    if (!w->maker->space->opts.factors || w->j != op->weight || !letter) return false;
    if (!strchr(op->in_is[0], letter) || strchr(op->in_is[w->j], letter)) return false;
    for (int32_t k = 0; k < op->nout; k++)
        if (!strchr(op->out_is[k], letter)) return false;
    return tensor_of(w)->readers == 1;
}

/* Pieces, gathered for forward and again for backward, so that no more than one is whole at a time.
 */
static luo_status add_zero(const want *w, luo_hap_way way, luo_err *err)
{
    const luo_rel cut = {.kind = LUO_REL_G, .dim = 0, .seg = (uint16_t)op_of(w)->segment};
    const int32_t ext = extent_of(w, cut);
    const double bytes = volume(w->maker->space, w->tensor);
    way.take.how = LUO_HAP_HOW_ZERO;
    way.ncoll = 0;
    move(&way, LUO_HAP_MOVE_AG, false, cut, ext, cut, ext, bytes);
    move(&way, LUO_HAP_MOVE_RS, true, cut, ext, cut, ext, bytes);
    move(&way, LUO_HAP_MOVE_AG, true, cut, ext, cut, ext, bytes);
    return add(w, &way, err);
}

/* Copies of a parameter: their gradients are whole already, or are summed. */
static luo_status add_copies(const want *w, luo_hap_way way, luo_err *err)
{
    const luo_hap_space *space = w->maker->space;
    const bool shared = tensor_of(w)->readers > 1;
    if (w->grad.kind == LUO_REL_I) {
        luo_hap_way plain = way;
        if (shared) {
            plain.take.to.seg = 1;
            plain.post = luo_hap_space_fact_id(space, w->tensor, plain.take.to);
        }
        LUO_TRY(add(w, &plain, err));
        if (!shared) return LUO_OK;
    }
    way.take.how = LUO_HAP_HOW_AR;
    move(&way, LUO_HAP_MOVE_AR, true, w->to, -1, w->to, -1, volume(space, w->tensor));
    LUO_TRY(add(w, &way, err));
    if (space->opts.zero && tensor_of(w)->rank > 0 && tensor_of(w)->dim[0] > 1 &&
        (!space->opts.sayable || tensor_of(w)->plan_dim[0] >= 0))
        LUO_TRY(add_zero(w, way, err));
    if (factors_help(w)) LUO_TRY(add_factors(w, way, err));
    if (w->j == op_of(w)->bias && space->opts.factors && w->rule->letter) {
        way.take.how = LUO_HAP_HOW_PARAM;
        way.ncoll = 0;
        way.with_factors = true;
        LUO_TRY(add(w, &way, err));
    }
    return LUO_OK;
}

/* A parameter that several operations read has one relation, which the first of them chooses. */
static luo_status keep_shared(const want *w, luo_err *err)
{
    luo_rel rel = w->to;
    for (; rel.seg <= 1; rel.seg++) {
        luo_hap_way way = way_of(w, LUO_HAP_HOW_KEPT, rel);
        way.pre = luo_hap_space_fact_id(w->maker->space, w->tensor, rel);
        way.take.to = rel;
        if (w->maker->reached[way.pre]) LUO_TRY(add(w, &way, err));
        if (rel.kind == LUO_REL_G || w->grad.kind != LUO_REL_I) break;
    }
    return LUO_OK;
}

static bool read_before(const want *w)
{
    const luo_hap_op *op = w->maker->space->graph->op;
    for (int32_t o = 0; o < w->op; o++)
        for (int32_t j = 0; j < op[o].nin; j++)
            if (op[o].in[j] == w->tensor) return true;
    return false;
}

static luo_status find_param(const want *w, luo_err *err)
{
    luo_hap_way way = way_of(w, LUO_HAP_HOW_PARAM, w->to);
    if (w->to.kind == LUO_REL_R) return LUO_OK;
    if (tensor_of(w)->readers > 1) {
        if (read_before(w)) return keep_shared(w, err);
        way.post = luo_hap_space_fact_id(w->maker->space, w->tensor, w->to);
    }
    return w->to.kind == LUO_REL_G ? add(w, &way, err) : add_copies(w, way, err);
}

/* ---- activations ---- */

/* Moves from a sum. */
static void from_sum(const want *w, luo_hap_way *way, bool trains, double bytes)
{
    if (w->to.kind == LUO_REL_I) {
        way->take.how = LUO_HAP_HOW_REDUCE;
        move(way, LUO_HAP_MOVE_AR, false, w->to, -1, w->to, -1, bytes);
        if (trains) move(way, LUO_HAP_MOVE_AR, true, w->to, -1, w->to, -1, bytes);
        return;
    }
    const int32_t ext = extent_of(w, w->to);
    way->take.how = LUO_HAP_HOW_SCATTER;
    move(way, LUO_HAP_MOVE_RS, false, w->to, ext, w->to, ext, bytes);
    if (trains) move(way, LUO_HAP_MOVE_AG, true, w->to, ext, w->to, ext, bytes);
}

static void from_pieces(const want *w, luo_hap_way *way, bool trains, double bytes)
{
    const luo_rel from = way->take.from, to = w->to;
    const int32_t ext = extent_of(w, from);
    if (to.kind == LUO_REL_I) {
        way->take.how = LUO_HAP_HOW_GATHER;
        move(way, LUO_HAP_MOVE_AG, false, from, ext, from, ext, bytes);
        if (trains) move(way, LUO_HAP_MOVE_RS, true, from, ext, from, ext, bytes);
        return;
    }
    const bool same = from.dim == to.dim;
    const luo_hap_move kind = same ? LUO_HAP_MOVE_RE : LUO_HAP_MOVE_A2A;
    const int32_t ext2 = extent_of(w, to);
    way->take.how = same ? LUO_HAP_HOW_RESHARE : LUO_HAP_HOW_EXCHANGE;
    move(way, kind, false, from, ext, to, ext2, bytes);
    if (trains) move(way, kind, true, to, ext2, from, ext, bytes);
}

static bool may_move(const luo_hap_tensor *tensor, luo_rel from, luo_rel to)
{
    const bool pieces = from.kind == LUO_REL_G && to.kind == LUO_REL_G;
    switch (tensor->moves) {
    case LUO_HAP_MOVES_ALL:
        break;
    case LUO_HAP_MOVES_ROWS:
        return pieces && from.dim + to.dim == 1;
    case LUO_HAP_MOVES_NONE:
        return false;
    }
    return true;
}

static luo_status add_move(const want *w, luo_rel from, luo_err *err)
{
    const luo_hap_space *space = w->maker->space;
    const luo_hap_tensor *tensor = tensor_of(w);
    if (!may_move(tensor, from, w->to)) return LUO_OK;
    const bool trains = luo_hap_graph_trains(space->graph, w->tensor);
    luo_hap_way way = way_of(w, LUO_HAP_HOW_SLICE, from);
    if (space->opts.compat) {
        if (!luo_hap_op_desc_of(space->graph->op[tensor->maker].kind)->sends) return LUO_OK;
        way.moved = luo_hap_space_moved(space, w->tensor);
    }
    way.pre = luo_hap_space_fact_id(space, w->tensor, from);
    way.post = luo_hap_space_fact_id(space, w->tensor, w->to);
    if (from.kind == LUO_REL_R) from_sum(w, &way, trains, volume(space, w->tensor));
    if (from.kind == LUO_REL_G) from_pieces(w, &way, trains, volume(space, w->tensor));
    return add(w, &way, err);
}

static luo_status find_value(const want *w, luo_err *err)
{
    const luo_hap_space *space = w->maker->space;
    const int32_t end = space->base[w->tensor + 1];
    const int32_t moved = luo_hap_space_moved(space, w->tensor);
    luo_hap_way way = way_of(w, LUO_HAP_HOW_KEPT, w->to);
    way.pre = luo_hap_space_fact_id(space, w->tensor, w->to);
    if (w->maker->reached[way.pre]) LUO_TRY(add(w, &way, err));
    if (w->to.kind == LUO_REL_R) return LUO_OK;
    for (int32_t f = space->base[w->tensor]; f < end; f++)
        if (w->maker->reached[f] && f != way.pre && f != moved)
            LUO_TRY(add_move(w, luo_hap_space_fact(space, f).rel, err));
    return LUO_OK;
}

luo_status luo_hap_ways_find(luo_hap_maker *maker, int32_t o, const luo_hap_rule *rule, int32_t j,
                             luo_err *err)
{
    const luo_hap_op *op = &maker->space->graph->op[o];
    want w = {maker, o, j, op->in[j], rule, rule->in[j], rule->grad[j]};
    maker->ways[j].n = 0;
    if (w.to.kind == LUO_REL_G) w.to.seg = (uint16_t)op->segment;
    if (tensor_of(&w)->role == LUO_HAP_PARAM) return find_param(&w, err);
    if (tensor_of(&w)->role != LUO_HAP_INPUT) return find_value(&w, err);
    const luo_hap_way way = way_of(&w, LUO_HAP_HOW_INPUT, w.to);
    return w.to.kind == LUO_REL_R ? LUO_OK : add(&w, &way, err);
}
