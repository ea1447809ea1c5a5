/* step_dense.c: forward and backward of the dense part, as its program of planner `hap` cuts it:
 * products of the device's piece, and between two operations what brings a value, and its gradient
 * on the way back, to where it is read. Data-parallel is the program by samples everywhere.
 *
 * Notation: of layer i, b = samples, i = columns that it is given, o = columns that it makes. A
 * device whose piece is empty computes nothing, and calls all collectives. */
#include "core/plan/hap_graph/rules.h"
#include "core/run/tables/step.h"

/* ---- pieces ---- */

typedef struct columns { /* of a value: samples x columns */
    int64_t n;
    const int64_t *piece; /* by worker, where they are cut */
} columns;

static columns given_to(const tables_maker *maker, int32_t i)
{
    return (columns){maker->layer[i].in, maker->dense->in[i]};
}

static columns made_by(const tables_maker *maker, int32_t i)
{
    return (columns){maker->layer[i].out, maker->dense->out[i]};
}

/* The device's extent of an axis under a rule. */
static int64_t extent(const tables_maker *maker, int32_t i, const luo_hap_rule *rule, char letter)
{
    const bool cut = rule->letter == letter;
    if (letter == TABLES_B) return cut ? maker->l->samples[maker->worker] : maker->l->in->batch;
    const columns c = letter == TABLES_I ? given_to(maker, i) : made_by(maker, i);
    return cut ? c.piece[maker->worker] : c.n;
}

/* Elements of a value that a device has of it in that relation. */
static int64_t held(const tables_maker *maker, luo_rel rel, columns c, int32_t worker)
{
    const bool cut = rel.kind == LUO_REL_G;
    const int64_t samples = cut && rel.dim == 0 ? maker->l->samples[worker] : maker->l->in->batch;
    return samples * (cut && rel.dim == 1 ? c.piece[worker] : c.n);
}

/* Of every device; NULL: equally many. */
static const int64_t *counts_of(tables_maker *maker, luo_rel rel, columns c)
{
    bool same = true;
    if (rel.kind != LUO_REL_G) return NULL;
    for (int32_t w = 1; w < maker->l->n && same; w++)
        same = held(maker, rel, c, w) == held(maker, rel, c, 0);
    if (same) return NULL;
    int64_t *counts = LUO_NEW_N(maker->arena, int64_t, maker->l->n);
    maker->failed |= !counts;
    for (int32_t w = 0; counts && w < maker->l->n; w++) counts[w] = held(maker, rel, c, w);
    return counts;
}

static const char *name_of(tables_maker *maker, const char *head, int32_t layer, const char *tail)
{
    const char *name = tables_layer_name(maker->arena, layer, maker->bottom);
    return luo_arena_printf(maker->arena, "%s%s%s", head, name ? name : "", tail);
}

/* ---- computing ---- */

/* A sum of no products is written all the same; nothing at all is not: the answer is dep. */
static int32_t product(tables_maker *maker, const char *op, int64_t rows, int64_t cols,
                       int64_t inner, int32_t dep, int32_t dep2)
{
    luo_instr in = {.kind = LUO_INSTR_COMPUTE,
                    .stream = LUO_STREAM_COMPUTE,
                    .flops = 2 * rows * cols * inner,
                    .cost = {LUO_COST_GEMM, {rows, cols, inner, 1, maker->elem_bytes, 0}}};
    if (rows * cols == 0) return dep == TABLES_NONE ? dep2 : dep;
    if (inner == 0) {
        in.bytes = rows * cols * maker->elem_bytes;
        in.cost = (luo_cost_key){LUO_COST_STREAM, {in.bytes}};
    }
    return tables_add(maker, op, in, dep, dep2);
}

static int32_t activation(tables_maker *maker, const char *op, int64_t times, int64_t elements,
                          int32_t dep)
{
    if (elements == 0) return dep;
    return tables_stream(maker, op, (double)(times * elements * maker->elem_bytes), dep);
}

/* ---- moving ---- */

typedef struct move { /* from one relation to another */
    const char *op;
    luo_coll coll;
    luo_rel from, to;
    columns columns;
} move;

/* Of an exchange each device has as much as the one that has most, before or behind it. */
static double bytes_of(const tables_maker *maker, const move *x)
{
    int64_t most = 0;
    if (x->coll != LUO_COLL_A2A)
        return (double)(maker->l->in->batch * x->columns.n * maker->elem_bytes);
    for (int32_t w = 0; w < maker->l->n; w++) {
        const int64_t from = held(maker, x->from, x->columns, w),
                      to = held(maker, x->to, x->columns, w);
        if (from > most) most = from;
        if (to > most) most = to;
    }
    return (double)(most * maker->elem_bytes);
}

static tables_value moved(tables_maker *maker, const move *x, tables_value at,
                          luo_buffer_class kind)
{
    const bool gathers = x->coll == LUO_COLL_AG;
    const int64_t *counts =
        x->coll == LUO_COLL_A2A ? NULL : counts_of(maker, gathers ? x->from : x->to, x->columns);
    const int32_t id =
        tables_collective(maker, x->op, x->coll, TABLES_MOVES, bytes_of(maker, x), counts, at.id);
    const int32_t buffer = tables_buffer(maker, x->op, kind, maker->elem_bytes,
                                         held(maker, x->to, x->columns, maker->worker));
    tables_uses(maker, id, at.buffer, buffer);
    return (tables_value){id, buffer};
}

/* The collective that takes a value from one relation to another. LUO_COLLS: none. */
static luo_coll coll_of(luo_rel from, luo_rel to)
{
    if (from.kind == LUO_REL_R) return to.kind == LUO_REL_I ? LUO_COLL_AR : LUO_COLL_RS;
    if (from.kind == LUO_REL_G && to.kind == LUO_REL_G) return LUO_COLL_A2A;
    return from.kind == LUO_REL_G ? LUO_COLL_AG : LUO_COLLS;
}

static bool is_moved(const luo_hap_take *take)
{
    return take->how >= LUO_HAP_HOW_GATHER && take->how != LUO_HAP_HOW_SLICE;
}

static tables_value arrive(tables_maker *maker, const char *op, const luo_hap_take *take, columns c,
                           tables_value value)
{
    if (!is_moved(take)) return value;
    return moved(maker, &(move){op, coll_of(take->from, take->to), take->from, take->to, c}, value,
                 LUO_BUFFER_STASH);
}

/* The gradient goes back the other way; made: `at` has been computed for it alone. */
static int32_t depart(tables_maker *maker, const char *op, const luo_hap_take *take, columns c,
                      int32_t at, bool made)
{
    const luo_rel from = luo_rel_dual(take->to), to = luo_rel_dual(take->from);
    if (!is_moved(take)) return at;
    const int32_t buffer =
        tables_buffer(maker, luo_arena_printf(maker->arena, "%s.from", op), LUO_BUFFER_WORK,
                      maker->elem_bytes, held(maker, from, c, maker->worker));
    if (made) tables_uses(maker, at, TABLES_NONE, buffer);
    return moved(maker, &(move){op, coll_of(from, to), from, to, c}, (tables_value){at, buffer},
                 LUO_BUFFER_WORK)
        .id;
}

/* ---- parameters ---- */

enum { WEIGHT = 1, BIAS = 2 }; /* operands of a product */

static bool is_how(const tables_maker *maker, int32_t i, int32_t operand, luo_hap_how how)
{
    return maker->dense->product[i].take[operand].how == how;
}

static int64_t all_of(const tables_maker *maker, int32_t i, int32_t operand)
{
    const luo_dense_layer *layer = &maker->layer[i];
    return operand == WEIGHT ? layer->in * layer->out : layer->out;
}

/* Elements of a piece along dimension dim. */
static int64_t piece_of(const tables_maker *maker, int32_t i, int32_t operand, int32_t dim,
                        int32_t worker)
{
    const luo_dense_layer *layer = &maker->layer[i];
    if (operand == BIAS) return maker->dense->out[i][worker];
    return dim == 0 ? maker->dense->in[i][worker] * layer->out
                    : layer->in * maker->dense->out[i][worker];
}

static int64_t kept(const tables_maker *maker, int32_t i, int32_t operand, bool gradient)
{
    const luo_hap_take *take = &maker->dense->product[i].take[operand];
    if (take->how == LUO_HAP_HOW_ZERO && !gradient)
        return piece_of(maker, i, operand, 0, maker->worker);
    return take->to.kind == LUO_REL_G ? piece_of(maker, i, operand, take->to.dim, maker->worker)
                                      : all_of(maker, i, operand);
}

int64_t tables_kept(const tables_maker *maker, int32_t i)
{
    return kept(maker, i, WEIGHT, false) + kept(maker, i, BIAS, false);
}

int64_t tables_gradients(const tables_maker *maker, int32_t i)
{
    return kept(maker, i, WEIGHT, true) + kept(maker, i, BIAS, true);
}

/* Pieces of ZeRO along dimension 0. */
static const int64_t *pieces_of(tables_maker *maker, int32_t i, int32_t operand)
{
    int64_t *counts = LUO_NEW_N(maker->arena, int64_t, maker->l->n);
    bool same = true;
    maker->failed |= !counts;
    for (int32_t w = 0; counts && w < maker->l->n; w++) {
        counts[w] = piece_of(maker, i, operand, 0, w);
        same = same && counts[w] == counts[0];
    }
    return same ? NULL : counts;
}

/* A copy of what is kept in pieces, for one product; {TABLES_NONE, TABLES_NONE}: it is no such. */
static tables_value gathered(tables_maker *maker, const char *op, int32_t i, int32_t operand)
{
    tables_value value = {TABLES_NONE, TABLES_NONE};
    if (!is_how(maker, i, operand, LUO_HAP_HOW_ZERO)) return value;
    const double bytes = (double)(all_of(maker, i, operand) * maker->elem_bytes);
    value.id = tables_collective(maker, op, LUO_COLL_AG, TABLES_MOVES, bytes,
                                 pieces_of(maker, i, operand), TABLES_NONE);
    value.buffer =
        tables_buffer(maker, op, LUO_BUFFER_WORK, maker->elem_bytes, all_of(maker, i, operand));
    tables_uses(maker, value.id, TABLES_NONE, value.buffer);
    return value;
}

bool tables_reduces(const tables_maker *maker)
{
    bool any = false;
    for (int32_t i = 0; i < maker->layers; i++)
        for (int32_t j = WEIGHT; j <= BIAS; j++)
            any |= is_how(maker, i, j, LUO_HAP_HOW_AR) || is_how(maker, i, j, LUO_HAP_HOW_ZERO);
    return any;
}

bool tables_moves(const tables_maker *maker)
{
    bool any = maker->bottom > 0 && is_moved(&maker->dense->meets);
    for (int32_t i = 0; i < maker->layers; i++)
        any |= is_moved(&maker->dense->product[i].take[0]) ||
               is_moved(&maker->dense->activation[i].take[0]) ||
               is_how(maker, i, WEIGHT, LUO_HAP_HOW_FACTORS) ||
               is_how(maker, i, WEIGHT, LUO_HAP_HOW_ZERO) ||
               is_how(maker, i, BIAS, LUO_HAP_HOW_ZERO);
    return any;
}

/* Layers whose gradients come first go first; weights and biases of a layer together. */
int32_t tables_reduce(tables_maker *maker)
{
    int32_t last = TABLES_NONE;
    for (int32_t i = maker->layers; i-- > 0;) {
        double summed = 0;
        for (int32_t j = WEIGHT; j <= BIAS; j++) {
            const double bytes = 4.0 * (double)all_of(maker, i, j);
            if (is_how(maker, i, j, LUO_HAP_HOW_AR)) summed += bytes;
            if (is_how(maker, i, j, LUO_HAP_HOW_ZERO))
                last = tables_collective(maker, "dense.scatter", LUO_COLL_RS, TABLES_DENSE, bytes,
                                         pieces_of(maker, i, j), maker->weights[i]);
        }
        if (summed > 0)
            last = tables_collective(maker, "dense.reduce", LUO_COLL_AR, TABLES_DENSE, summed, NULL,
                                     maker->weights[i]);
    }
    return last;
}

/* ---- layers ---- */

tables_value tables_meet(tables_maker *maker, tables_value value)
{
    return arrive(maker, "bottom_mlp.meet", &maker->dense->meets, made_by(maker, maker->bottom - 1),
                  value);
}

int32_t tables_part(tables_maker *maker, int32_t dep)
{
    return depart(maker, "d.bottom_mlp.meet", &maker->dense->meets,
                  made_by(maker, maker->bottom - 1), dep, true);
}

tables_value tables_layer_forward(tables_maker *maker, int32_t i, tables_value x)
{
    const tables_cut *cut = &maker->dense->product[i], *act = &maker->dense->activation[i];
    const luo_hap_rule *rule = &cut->rule;
    x = arrive(maker, name_of(maker, "", i, ".in"), &cut->take[0], given_to(maker, i), x);
    maker->given[i] = x.buffer;
    const tables_value bias = gathered(maker, name_of(maker, "", i, ".bias.gather"), i, BIAS),
                       weight = gathered(maker, name_of(maker, "", i, ".weight.gather"), i, WEIGHT);
    const int32_t before = maker->ninstr, last = weight.id == TABLES_NONE ? bias.id : weight.id;
    const int32_t id =
        product(maker, name_of(maker, "", i, ""), extent(maker, i, rule, TABLES_B),
                extent(maker, i, rule, TABLES_O), extent(maker, i, rule, TABLES_I), x.id, last);
    tables_value y = {
        id, tables_buffer(maker, name_of(maker, "", i, ".out"), LUO_BUFFER_STASH, maker->elem_bytes,
                          held(maker, rule->out[0], made_by(maker, i), maker->worker))};
    if (maker->ninstr > before) {
        tables_uses(maker, id, x.buffer, y.buffer);
        tables_reads(maker, id, weight.buffer);
    }
    y = arrive(maker, name_of(maker, "", i, ".sum"), &act->take[0], made_by(maker, i), y);
    const int32_t made = maker->ninstr;
    const int64_t elements =
        extent(maker, i, &act->rule, TABLES_B) * extent(maker, i, &act->rule, TABLES_O);
    y.id = activation(maker, name_of(maker, "", i, ".activation"), 2, elements, y.id);
    if (maker->ninstr > made) tables_uses(maker, y.id, y.buffer, y.buffer);
    maker->made[i] = y.buffer;
    return y;
}

/* Sufficient factors: what was given, and the gradient of what was made, of all samples. */
static int32_t gather_factors(tables_maker *maker, int32_t i, int32_t dep)
{
    const luo_rel rows = {.kind = LUO_REL_G}, whole = {.kind = LUO_REL_I};
    const columns in = given_to(maker, i), out = made_by(maker, i);
    const move x = {name_of(maker, "", i, ".factor"), LUO_COLL_AG, rows, whole, in},
               dy = {name_of(maker, "d.", i, ".factor"), LUO_COLL_AG, rows, whole, out};
    moved(maker, &x, (tables_value){TABLES_NONE, maker->given[i]}, LUO_BUFFER_WORK);
    return moved(maker, &dy, (tables_value){dep, TABLES_NONE}, LUO_BUFFER_WORK).id;
}

int32_t tables_layer_backward(tables_maker *maker, int32_t i, bool wanted, int32_t dep)
{
    const tables_cut *cut = &maker->dense->product[i], *act = &maker->dense->activation[i];
    const luo_hap_rule *rule = &cut->rule;
    const bool factors = is_how(maker, i, WEIGHT, LUO_HAP_HOW_FACTORS);
    const int64_t elements =
        extent(maker, i, &act->rule, TABLES_B) * extent(maker, i, &act->rule, TABLES_O);
    const int64_t rows = extent(maker, i, rule, TABLES_B), in = extent(maker, i, rule, TABLES_I),
                  out = extent(maker, i, rule, TABLES_O);
    int32_t before = maker->ninstr;
    int32_t dy = activation(maker, name_of(maker, "d.", i, ".activation"), 3, elements, dep);
    if (maker->ninstr > before) tables_uses(maker, dy, maker->made[i], TABLES_NONE);
    dy = depart(maker, name_of(maker, "d.", i, ".sum"), &act->take[0], made_by(maker, i), dy,
                maker->ninstr > before);
    const int32_t all = factors ? gather_factors(maker, i, dy) : dy;
    before = maker->ninstr;
    maker->weights[i] = product(maker, name_of(maker, "d.", i, ".weight"), in, out,
                                factors ? maker->l->in->batch : rows, all, TABLES_NONE);
    if (maker->ninstr > before) tables_uses(maker, maker->weights[i], maker->given[i], TABLES_NONE);
    if (!wanted) return maker->weights[i];
    const tables_value weight =
        gathered(maker, name_of(maker, "d.", i, ".weight.gather"), i, WEIGHT);
    before = maker->ninstr;
    const int32_t dx = product(maker, name_of(maker, "d.", i, ""), rows, in, out, dy, weight.id);
    if (maker->ninstr > before) tables_reads(maker, dx, weight.buffer);
    return depart(maker, name_of(maker, "d.", i, ".in"), &cut->take[0], given_to(maker, i), dx,
                  maker->ninstr > before);
}
