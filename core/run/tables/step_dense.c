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

static columns given_to(const tables_maker *m, int32_t i)
{
    return (columns){m->layer[i].in, m->dense->in[i]};
}

static columns made_by(const tables_maker *m, int32_t i)
{
    return (columns){m->layer[i].out, m->dense->out[i]};
}

/* The device's extent of an axis under a rule. */
static int64_t extent(const tables_maker *m, int32_t i, const luo_hap_rule *rule, char letter)
{
    const bool cut = rule->letter == letter;
    if (letter == TABLES_B) return cut ? m->l->samples[m->worker] : m->l->in->batch;
    const columns c = letter == TABLES_I ? given_to(m, i) : made_by(m, i);
    return cut ? c.piece[m->worker] : c.n;
}

/* Elements of a value that a device has of it in that relation. */
static int64_t held(const tables_maker *m, luo_rel rel, columns c, int32_t worker)
{
    const bool cut = rel.kind == LUO_REL_G;
    const int64_t samples = cut && rel.dim == 0 ? m->l->samples[worker] : m->l->in->batch;
    return samples * (cut && rel.dim == 1 ? c.piece[worker] : c.n);
}

/* Of every device; NULL: equally many. */
static const int64_t *counts_of(tables_maker *m, luo_rel rel, columns c)
{
    bool same = true;
    if (rel.kind != LUO_REL_G) return NULL;
    for (int32_t w = 1; w < m->l->n && same; w++) same = held(m, rel, c, w) == held(m, rel, c, 0);
    if (same) return NULL;
    int64_t *counts = LUO_NEW_N(m->arena, int64_t, m->l->n);
    m->failed |= !counts;
    for (int32_t w = 0; counts && w < m->l->n; w++) counts[w] = held(m, rel, c, w);
    return counts;
}

static const char *name_of(tables_maker *m, const char *head, int32_t layer, const char *tail)
{
    const char *name = tables_layer_name(m->arena, layer, m->bottom);
    return luo_arena_printf(m->arena, "%s%s%s", head, name ? name : "", tail);
}

/* ---- computing ---- */

/* A sum of no products is written all the same; nothing at all is not: the answer is dep. */
static int32_t product(tables_maker *m, const char *op, int64_t rows, int64_t cols, int64_t inner,
                       int32_t dep, int32_t dep2)
{
    luo_instr in = {.kind = LUO_INSTR_COMPUTE,
                    .stream = LUO_STREAM_COMPUTE,
                    .flops = 2 * rows * cols * inner,
                    .cost = {LUO_COST_GEMM, {rows, cols, inner, 1, m->elem_bytes, 0}}};
    if (rows * cols == 0) return dep == TABLES_NONE ? dep2 : dep;
    if (inner == 0) {
        in.bytes = rows * cols * m->elem_bytes;
        in.cost = (luo_cost_key){LUO_COST_STREAM, {in.bytes}};
    }
    return tables_add(m, op, in, dep, dep2);
}

static int32_t activation(tables_maker *m, const char *op, int64_t times, int64_t elements,
                          int32_t dep)
{
    if (elements == 0) return dep;
    return tables_stream(m, op, (double)(times * elements * m->elem_bytes), dep);
}

/* ---- moving ---- */

typedef struct move { /* from one relation to another */
    const char *op;
    luo_coll coll;
    luo_rel from, to;
    columns columns;
} move;

/* Of an exchange each device has as much as the one that has most, before or behind it. */
static double bytes_of(const tables_maker *m, const move *x)
{
    int64_t most = 0;
    if (x->coll != LUO_COLL_A2A) return (double)(m->l->in->batch * x->columns.n * m->elem_bytes);
    for (int32_t w = 0; w < m->l->n; w++) {
        const int64_t from = held(m, x->from, x->columns, w), to = held(m, x->to, x->columns, w);
        if (from > most) most = from;
        if (to > most) most = to;
    }
    return (double)(most * m->elem_bytes);
}

static tables_value moved(tables_maker *m, const move *x, tables_value at, luo_buffer_class kind)
{
    const bool gathers = x->coll == LUO_COLL_AG;
    const int64_t *counts =
        x->coll == LUO_COLL_A2A ? NULL : counts_of(m, gathers ? x->from : x->to, x->columns);
    const int32_t id =
        tables_collective(m, x->op, x->coll, TABLES_MOVES, bytes_of(m, x), counts, at.id);
    const int32_t buffer =
        tables_buffer(m, x->op, kind, m->elem_bytes, held(m, x->to, x->columns, m->worker));
    tables_uses(m, id, at.buffer, buffer);
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

static tables_value arrive(tables_maker *m, const char *op, const luo_hap_take *take, columns c,
                           tables_value x)
{
    if (!is_moved(take)) return x;
    return moved(m, &(move){op, coll_of(take->from, take->to), take->from, take->to, c}, x,
                 LUO_BUFFER_STASH);
}

/* The gradient goes back the other way; made: `at` has been computed for it alone. */
static int32_t depart(tables_maker *m, const char *op, const luo_hap_take *take, columns c,
                      int32_t at, bool made)
{
    const luo_rel from = luo_rel_dual(take->to), to = luo_rel_dual(take->from);
    if (!is_moved(take)) return at;
    const int32_t buffer =
        tables_buffer(m, luo_arena_printf(m->arena, "%s.from", op), LUO_BUFFER_WORK, m->elem_bytes,
                      held(m, from, c, m->worker));
    if (made) tables_uses(m, at, TABLES_NONE, buffer);
    return moved(m, &(move){op, coll_of(from, to), from, to, c}, (tables_value){at, buffer},
                 LUO_BUFFER_WORK)
        .id;
}

/* ---- parameters ---- */

enum { WEIGHT = 1, BIAS = 2 }; /* operands of a product */

static bool is_how(const tables_maker *m, int32_t i, int32_t operand, luo_hap_how how)
{
    return m->dense->product[i].take[operand].how == how;
}

static int64_t all_of(const tables_maker *m, int32_t i, int32_t operand)
{
    const luo_dense_layer *layer = &m->layer[i];
    return operand == WEIGHT ? layer->in * layer->out : layer->out;
}

/* Elements of a piece along dimension dim. */
static int64_t piece_of(const tables_maker *m, int32_t i, int32_t operand, int32_t dim,
                        int32_t worker)
{
    const luo_dense_layer *layer = &m->layer[i];
    if (operand == BIAS) return m->dense->out[i][worker];
    return dim == 0 ? m->dense->in[i][worker] * layer->out : layer->in * m->dense->out[i][worker];
}

static int64_t kept(const tables_maker *m, int32_t i, int32_t operand, bool gradient)
{
    const luo_hap_take *take = &m->dense->product[i].take[operand];
    if (take->how == LUO_HAP_HOW_ZERO && !gradient) return piece_of(m, i, operand, 0, m->worker);
    return take->to.kind == LUO_REL_G ? piece_of(m, i, operand, take->to.dim, m->worker)
                                      : all_of(m, i, operand);
}

int64_t tables_kept(const tables_maker *m, int32_t i)
{
    return kept(m, i, WEIGHT, false) + kept(m, i, BIAS, false);
}

int64_t tables_gradients(const tables_maker *m, int32_t i)
{
    return kept(m, i, WEIGHT, true) + kept(m, i, BIAS, true);
}

/* Pieces of ZeRO along dimension 0. */
static const int64_t *pieces_of(tables_maker *m, int32_t i, int32_t operand)
{
    int64_t *counts = LUO_NEW_N(m->arena, int64_t, m->l->n);
    bool same = true;
    m->failed |= !counts;
    for (int32_t w = 0; counts && w < m->l->n; w++) {
        counts[w] = piece_of(m, i, operand, 0, w);
        same = same && counts[w] == counts[0];
    }
    return same ? NULL : counts;
}

/* A copy of what is kept in pieces, for one product; {TABLES_NONE, TABLES_NONE}: it is no such. */
static tables_value gathered(tables_maker *m, const char *op, int32_t i, int32_t operand)
{
    tables_value x = {TABLES_NONE, TABLES_NONE};
    if (!is_how(m, i, operand, LUO_HAP_HOW_ZERO)) return x;
    const double bytes = (double)(all_of(m, i, operand) * m->elem_bytes);
    x.id = tables_collective(m, op, LUO_COLL_AG, TABLES_MOVES, bytes, pieces_of(m, i, operand),
                             TABLES_NONE);
    x.buffer = tables_buffer(m, op, LUO_BUFFER_WORK, m->elem_bytes, all_of(m, i, operand));
    tables_uses(m, x.id, TABLES_NONE, x.buffer);
    return x;
}

bool tables_reduces(const tables_maker *m)
{
    bool any = false;
    for (int32_t i = 0; i < m->layers; i++)
        for (int32_t j = WEIGHT; j <= BIAS; j++)
            any |= is_how(m, i, j, LUO_HAP_HOW_AR) || is_how(m, i, j, LUO_HAP_HOW_ZERO);
    return any;
}

bool tables_moves(const tables_maker *m)
{
    bool any = m->bottom > 0 && is_moved(&m->dense->meets);
    for (int32_t i = 0; i < m->layers; i++)
        any |= is_moved(&m->dense->product[i].take[0]) ||
               is_moved(&m->dense->activation[i].take[0]) ||
               is_how(m, i, WEIGHT, LUO_HAP_HOW_FACTORS) ||
               is_how(m, i, WEIGHT, LUO_HAP_HOW_ZERO) || is_how(m, i, BIAS, LUO_HAP_HOW_ZERO);
    return any;
}

/* Layers whose gradients come first go first; weights and biases of a layer together. */
int32_t tables_reduce(tables_maker *m)
{
    int32_t last = TABLES_NONE;
    for (int32_t i = m->layers; i-- > 0;) {
        double summed = 0;
        for (int32_t j = WEIGHT; j <= BIAS; j++) {
            const double bytes = 4.0 * (double)all_of(m, i, j);
            if (is_how(m, i, j, LUO_HAP_HOW_AR)) summed += bytes;
            if (is_how(m, i, j, LUO_HAP_HOW_ZERO))
                last = tables_collective(m, "dense.scatter", LUO_COLL_RS, TABLES_DENSE, bytes,
                                         pieces_of(m, i, j), m->weights[i]);
        }
        if (summed > 0)
            last = tables_collective(m, "dense.reduce", LUO_COLL_AR, TABLES_DENSE, summed, NULL,
                                     m->weights[i]);
    }
    return last;
}

/* ---- layers ---- */

tables_value tables_meet(tables_maker *m, tables_value x)
{
    return arrive(m, "bottom_mlp.meet", &m->dense->meets, made_by(m, m->bottom - 1), x);
}

int32_t tables_part(tables_maker *m, int32_t dep)
{
    return depart(m, "d.bottom_mlp.meet", &m->dense->meets, made_by(m, m->bottom - 1), dep, true);
}

tables_value tables_layer_forward(tables_maker *m, int32_t i, tables_value x)
{
    const tables_cut *cut = &m->dense->product[i], *act = &m->dense->activation[i];
    const luo_hap_rule *rule = &cut->rule;
    x = arrive(m, name_of(m, "", i, ".in"), &cut->take[0], given_to(m, i), x);
    m->given[i] = x.buffer;
    const tables_value bias = gathered(m, name_of(m, "", i, ".bias.gather"), i, BIAS),
                       weight = gathered(m, name_of(m, "", i, ".weight.gather"), i, WEIGHT);
    const int32_t before = m->ninstr, last = weight.id == TABLES_NONE ? bias.id : weight.id;
    const int32_t id =
        product(m, name_of(m, "", i, ""), extent(m, i, rule, TABLES_B),
                extent(m, i, rule, TABLES_O), extent(m, i, rule, TABLES_I), x.id, last);
    tables_value y = {id,
                      tables_buffer(m, name_of(m, "", i, ".out"), LUO_BUFFER_STASH, m->elem_bytes,
                                    held(m, rule->out[0], made_by(m, i), m->worker))};
    if (m->ninstr > before) {
        tables_uses(m, id, x.buffer, y.buffer);
        tables_reads(m, id, weight.buffer);
    }
    y = arrive(m, name_of(m, "", i, ".sum"), &act->take[0], made_by(m, i), y);
    const int32_t made = m->ninstr;
    const int64_t elements =
        extent(m, i, &act->rule, TABLES_B) * extent(m, i, &act->rule, TABLES_O);
    y.id = activation(m, name_of(m, "", i, ".activation"), 2, elements, y.id);
    if (m->ninstr > made) tables_uses(m, y.id, y.buffer, y.buffer);
    m->made[i] = y.buffer;
    return y;
}

/* Sufficient factors: what was given, and the gradient of what was made, of all samples. */
static int32_t gather_factors(tables_maker *m, int32_t i, int32_t dep)
{
    const luo_rel rows = {.kind = LUO_REL_G}, whole = {.kind = LUO_REL_I};
    const columns in = given_to(m, i), out = made_by(m, i);
    const move x = {name_of(m, "", i, ".factor"), LUO_COLL_AG, rows, whole, in},
               dy = {name_of(m, "d.", i, ".factor"), LUO_COLL_AG, rows, whole, out};
    moved(m, &x, (tables_value){TABLES_NONE, m->given[i]}, LUO_BUFFER_WORK);
    return moved(m, &dy, (tables_value){dep, TABLES_NONE}, LUO_BUFFER_WORK).id;
}

int32_t tables_layer_backward(tables_maker *m, int32_t i, bool wanted, int32_t dep)
{
    const tables_cut *cut = &m->dense->product[i], *act = &m->dense->activation[i];
    const luo_hap_rule *rule = &cut->rule;
    const bool factors = is_how(m, i, WEIGHT, LUO_HAP_HOW_FACTORS);
    const int64_t elements =
        extent(m, i, &act->rule, TABLES_B) * extent(m, i, &act->rule, TABLES_O);
    const int64_t rows = extent(m, i, rule, TABLES_B), in = extent(m, i, rule, TABLES_I),
                  out = extent(m, i, rule, TABLES_O);
    int32_t before = m->ninstr;
    int32_t dy = activation(m, name_of(m, "d.", i, ".activation"), 3, elements, dep);
    if (m->ninstr > before) tables_uses(m, dy, m->made[i], TABLES_NONE);
    dy = depart(m, name_of(m, "d.", i, ".sum"), &act->take[0], made_by(m, i), dy,
                m->ninstr > before);
    const int32_t all = factors ? gather_factors(m, i, dy) : dy;
    before = m->ninstr;
    m->weights[i] = product(m, name_of(m, "d.", i, ".weight"), in, out,
                            factors ? m->l->in->batch : rows, all, TABLES_NONE);
    if (m->ninstr > before) tables_uses(m, m->weights[i], m->given[i], TABLES_NONE);
    if (!wanted) return m->weights[i];
    const tables_value weight = gathered(m, name_of(m, "d.", i, ".weight.gather"), i, WEIGHT);
    before = m->ninstr;
    const int32_t dx = product(m, name_of(m, "d.", i, ""), rows, in, out, dy, weight.id);
    if (m->ninstr > before) tables_reads(m, dx, weight.buffer);
    return depart(m, name_of(m, "d.", i, ".in"), &cut->take[0], given_to(m, i), dx,
                  m->ninstr > before);
}
