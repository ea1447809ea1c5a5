/* check_hap_run.c: whole programs carried out with numbers on pretended devices with uneven pieces,
 * some empty: every tensor in every way it is held, the loss and all gradients of parameters are
 * those of one device. Collectives are what they mean: pieces are put together and cut anew; their
 * duals move the gradients back. */
#include <math.h>

#include "core/plan/hap/alternate.h"
#include "core/plan/hap/space_internal.h"
#include "tests/check_main.h"
#include "tests/parked/hap_graphs.h"
#include "tests/parked/hap_kernels.h"
#include "tests/prop/prop.h"

enum { MOST = 6 };

typedef luo_hap_array array;
typedef struct held { /* a fact, or its gradient */
    bool there;
    array at[MOST];
} held;

typedef struct run {
    luo_arena *a;
    const luo_hap_graph *graph;
    const luo_hap_program *program;
    const luo_hap_cuts *cuts;
    int32_t n;
    array *value, *gradient; /* by tensor, on one device */
    held *fact, *back;       /* by fact */
} run;

/* ---- one device ---- */

static void add_to(array *x, const array *y)
{
    for (int64_t i = 0; i < x->n; i++) x->at[i] += y->at[i];
}

/* Ids below the rows of the table that is read with them, labels below the classes. */
static int64_t ids_of(const luo_hap_graph *g, int32_t x)
{
    for (int32_t o = 0; o < g->nops; o++) {
        const luo_hap_op *op = &g->op[o];
        if (op->kind == LUO_HAP_EMBEDDING && op->in[0] == x) return g->tensor[op->in[1]].dim[0];
        if (op->kind == LUO_HAP_LOSS && op->in[1] == x) {
            const luo_hap_tensor *logits = &g->tensor[op->in[0]];
            return logits->dim[logits->rank - 1];
        }
    }
    return 0;
}

static void draw_leaves(run *r, luo_rng *rng)
{
    for (int32_t x = 0; x < r->graph->ntensors; x++) {
        const luo_hap_tensor *tensor = &r->graph->tensor[x];
        const int64_t ids = ids_of(r->graph, x);
        array *y = &r->value[x];
        r->gradient[x] = luo_hap_kernels_array(r->a, tensor->rank, tensor->dim);
        if (tensor->maker >= 0) continue;
        *y = luo_hap_kernels_array(r->a, tensor->rank, tensor->dim);
        for (int64_t i = 0; i < y->n; i++)
            y->at[i] = ids ? (double)luo_rng_pick(rng, ids) : 2 * luo_rng_u(rng) - 1;
    }
}

static void on_one_device(run *r)
{
    const luo_hap_rule all = {0};
    const luo_hap_graph *g = r->graph;
    for (int32_t back = 0; back < 2; back++)
        for (int32_t k = 0; k < g->nops; k++) {
            const luo_hap_op *op = &g->op[back ? g->nops - 1 - k : k];
            array in[LUO_HAP_OPERANDS] = {{0}}, out[LUO_HAP_RESULTS] = {{0}};
            luo_hap_place at = {.once = true};
            for (int32_t j = 0; j < op->nin; j++) in[j] = r->value[op->in[j]];
            if (op->kind == LUO_HAP_LOSS) at.lse = luo_hap_kernels_log_sums(r->a, &in[0]);
            if (!back) luo_hap_kernels_forward(r->a, op, &all, in, &at, out);
            for (int32_t i = 0; i < op->nout; i++) {
                if (!back) r->value[op->out[i]] = out[i];
                out[i] = r->gradient[op->out[i]];
                if (back && op->out[i] == g->loss) out[i].at[0] = 1;
            }
            for (int32_t j = 0; back && j < op->nin; j++) {
                if (!luo_hap_graph_trains(g, op->in[j])) continue;
                const array d = luo_hap_kernels_gradient(r->a, op, &all, in, &at, out, j);
                add_to(&r->gradient[op->in[j]], &d);
            }
        }
}

/* ---- pieces ---- */

static void piece_of(const run *r, const array *x, luo_rel rel, int32_t i, int64_t *lo,
                     int64_t *len)
{
    const int32_t ext = luo_hap_space_extent(r->program->space, x->dim[rel.dim]);
    const double *length = &r->cuts->length[(rel.seg * r->cuts->nextents + ext) * r->n];
    *lo = 0;
    for (int32_t k = 0; k < i; k++) *lo += (int64_t)length[k];
    *len = (int64_t)length[i];
}

static array empty_piece(const run *r, const array *x, luo_rel rel, int32_t i, int64_t *lo)
{
    int64_t dim[LUO_HAP_RANK];
    memcpy(dim, x->dim, sizeof dim);
    *lo = 0;
    if (rel.kind == LUO_REL_G) piece_of(r, x, rel, i, lo, &dim[rel.dim]);
    return luo_hap_kernels_array(r->a, x->rank, dim);
}

/* Whole, or in pieces. Pre: not as a sum. */
static void cut_whole(const run *r, const array *x, luo_rel rel, held *out)
{
    ck_assert(rel.kind != LUO_REL_R);
    for (int32_t i = 0; i < r->n; i++) {
        int64_t lo;
        out->at[i] = empty_piece(r, x, rel, i, &lo);
        for (int64_t k = 0; k < out->at[i].n; k++)
            out->at[i].at[k] = x->at[rel.kind == LUO_REL_G
                                         ? luo_hap_kernels_in_whole(x, &out->at[i], rel.dim, lo, k)
                                         : k];
    }
    out->there = true;
}

/* Puts it together; copies have to be equal. */
static array together(const run *r, const held *x, luo_rel rel, const array *shape)
{
    array sum = luo_hap_kernels_array(r->a, shape->rank, shape->dim);
    ck_assert(x->there);
    for (int32_t i = 0; i < r->n; i++) {
        int64_t lo = 0, len;
        if (rel.kind == LUO_REL_G) piece_of(r, shape, rel, i, &lo, &len);
        for (int64_t k = 0; k < x->at[i].n; k++) {
            const luo_hap_number v = x->at[i].at[k];
            if (rel.kind == LUO_REL_R)
                sum.at[k] += v;
            else if (rel.kind == LUO_REL_G)
                sum.at[luo_hap_kernels_in_whole(shape, &x->at[i], rel.dim, lo, k)] = v;
            else if (i == 0)
                sum.at[k] = v;
            else
                ck_assert_msg(cabs(v - sum.at[k]) < 1e-9, "copies differ");
        }
    }
    return sum;
}

static void same(const array *got, const array *want, const char *what, const char *name)
{
    for (int64_t i = 0; i < want->n; i++)
        ck_assert_msg(cabs(got->at[i] - want->at[i]) < 1e-9 * (1 + cabs(want->at[i])),
                      "%s of `%s`: element %d is %g, not %g", what, name, (int)i, creal(got->at[i]),
                      creal(want->at[i]));
}

/* ---- many devices ---- */

static const luo_hap_triple *triple_of(const run *r, int32_t o)
{
    return &r->program->space->triple[r->program->choice[o]];
}

static const luo_hap_rule *rule_of(const run *r, int32_t o)
{
    return &r->program->space->rule[o][triple_of(r, o)->rule];
}

static int32_t fact_of(const run *r, int32_t x, luo_rel rel)
{
    return luo_hap_space_fact_id(r->program->space, x, rel);
}

static luo_rel result_rel(const run *r, int32_t o, int32_t k)
{
    luo_rel rel = rule_of(r, o)->out[k];
    if (rel.kind == LUO_REL_G) rel.seg = (uint16_t)r->graph->op[o].segment;
    return rel;
}

/* Operand j on every device, made, kept or moved. */
static void bring(run *r, int32_t o, int32_t j)
{
    const int32_t x = r->graph->op[o].in[j];
    const luo_hap_take *take = &triple_of(r, o)->take[j];
    held *to = &r->fact[fact_of(r, x, take->to)];
    if (to->there) return;
    if (r->graph->tensor[x].maker < 0) {
        cut_whole(r, &r->value[x], take->to, to);
        return;
    }
    const array whole = together(r, &r->fact[fact_of(r, x, take->from)], take->from, &r->value[x]);
    cut_whole(r, &whole, take->to, to);
}

/* Where rows of a table or classes of logits begin, and the sums of exponentials, by device. */
static void place_devices(run *r, int32_t o, luo_hap_place *at)
{
    const luo_hap_op *op = &r->graph->op[o];
    const bool loss = op->kind == LUO_HAP_LOSS;
    const luo_hap_take *take = &triple_of(r, o)->take[loss ? 0 : op->nin > 1];
    const array *table = &r->value[op->in[loss ? 0 : op->nin > 1]];
    held lse = {0};
    if (loss) {
        const array sums = luo_hap_kernels_log_sums(r->a, table);
        cut_whole(r, &sums, triple_of(r, o)->take[1].to, &lse);
    }
    for (int32_t i = 0; i < r->n; i++) {
        int64_t len;
        at[i] = (luo_hap_place){.once = i == 0, .lse = lse.at[i]};
        const int32_t rows = loss ? table->rank - 1 : 0;
        if ((loss || op->kind == LUO_HAP_EMBEDDING) && take->to.kind == LUO_REL_G &&
            take->to.dim == rows)
            piece_of(r, table, take->to, i, &at[i].lo, &len);
    }
}

static void operands(run *r, int32_t o, int32_t i, array *in)
{
    const luo_hap_op *op = &r->graph->op[o];
    memset(in, 0, LUO_HAP_OPERANDS * sizeof *in);
    for (int32_t j = 0; j < op->nin; j++)
        in[j] = r->fact[fact_of(r, op->in[j], triple_of(r, o)->take[j].to)].at[i];
}

static void forward(run *r, int32_t o)
{
    const luo_hap_op *op = &r->graph->op[o];
    luo_hap_place at[MOST];
    for (int32_t j = 0; j < op->nin; j++) bring(r, o, j);
    place_devices(r, o, at);
    for (int32_t i = 0; i < r->n; i++) {
        array in[LUO_HAP_OPERANDS], out[LUO_HAP_RESULTS];
        operands(r, o, i, in);
        luo_hap_kernels_forward(r->a, op, rule_of(r, o), in, &at[i], out);
        for (int32_t k = 0; k < op->nout; k++) {
            held *to = &r->fact[fact_of(r, op->out[k], result_rel(r, o, k))];
            to->at[i] = out[k];
            to->there = true;
        }
    }
    for (int32_t k = 0; k < op->nout; k++) {
        const luo_rel rel = result_rel(r, o, k);
        const array *want = &r->value[op->out[k]];
        const array got = together(r, &r->fact[fact_of(r, op->out[k], rel)], rel, want);
        same(&got, want, "value", r->graph->tensor[op->out[k]].name);
    }
}

/* The gradient of a fact: nothing has come yet. */
static held *back_of(run *r, int32_t x, luo_rel rel)
{
    held *back = &r->back[fact_of(r, x, rel)];
    for (int32_t i = 0; i < r->n && !back->there; i++) {
        int64_t lo;
        back->at[i] = empty_piece(r, &r->value[x], luo_rel_dual(rel), i, &lo);
    }
    back->there = true;
    return back;
}

/* What has come for a moved tensor goes to where it was moved from, by the dual collective. A slice
 * leaves zeros outside of the piece, which is a partial sum already. */
static void move_back(run *r, int32_t x, const luo_hap_take *take)
{
    held *from = back_of(r, x, take->from), part = {0};
    const held *to = back_of(r, x, take->to);
    if (take->from.kind == LUO_REL_I) {
        for (int32_t i = 0; i < r->n; i++) {
            int64_t lo, len;
            piece_of(r, &r->value[x], take->to, i, &lo, &len);
            for (int64_t k = 0; k < to->at[i].n; k++)
                from->at[i]
                    .at[luo_hap_kernels_in_whole(&r->value[x], &to->at[i], take->to.dim, lo, k)] +=
                    to->at[i].at[k];
        }
        return;
    }
    const array whole = together(r, to, luo_rel_dual(take->to), &r->value[x]);
    cut_whole(r, &whole, luo_rel_dual(take->from), &part);
    for (int32_t i = 0; i < r->n; i++) add_to(&from->at[i], &part.at[i]);
}

/* Of a parameter: added up as its way says, and kept as one whole for the comparison. */
static void parameter(run *r, int32_t o, int32_t j, const held *part, array *sum)
{
    const luo_hap_take *take = &triple_of(r, o)->take[j];
    luo_rel rel = rule_of(r, o)->grad[j];
    const int32_t x = r->graph->op[o].in[j];
    if (rel.kind == LUO_REL_G) rel.seg = (uint16_t)r->graph->op[o].segment;
    if (take->how == LUO_HAP_HOW_PARAM && rel.kind == LUO_REL_R) /* beside factors of the weight */
        ck_assert_int_eq(triple_of(r, o)->take[r->graph->op[o].weight].how, LUO_HAP_HOW_FACTORS);
    const array whole = together(r, part, rel, &r->value[x]);
    add_to(sum, &whole);
}

static void backward(run *r, int32_t o, array *sums)
{
    const luo_hap_op *op = &r->graph->op[o];
    const luo_hap_rule *rule = rule_of(r, o), all = {0};
    held part[LUO_HAP_OPERANDS] = {{0}};
    luo_hap_place at[MOST];
    place_devices(r, o, at);
    for (int32_t i = 0; i < r->n; i++) {
        array in[LUO_HAP_OPERANDS], dout[LUO_HAP_RESULTS];
        operands(r, o, i, in);
        at[i].once = true; /* a gradient is whole wherever it is computed */
        for (int32_t k = 0; k < op->nout; k++)
            dout[k] = back_of(r, op->out[k], result_rel(r, o, k))->at[i];
        for (int32_t j = 0; j < op->nin; j++) {
            if (!luo_hap_graph_trains(r->graph, op->in[j])) continue;
            part[j].at[i] = luo_hap_kernels_gradient(r->a, op, &all, in, &at[i], dout, j);
            part[j].there = true;
        }
    }
    for (int32_t j = 0; j < op->nin; j++) {
        const luo_hap_take *take = &triple_of(r, o)->take[j];
        if (!part[j].there) continue;
        if (r->graph->tensor[op->in[j]].role == LUO_HAP_PARAM) {
            parameter(r, o, j, &part[j], &sums[op->in[j]]);
            continue;
        }
        held *back = back_of(r, op->in[j], take->to);
        /* whole where a sum is due: the first device gives it, the others give nothing */
        const bool first = rule->grad[j].kind == LUO_REL_I && take->to.kind == LUO_REL_I;
        for (int32_t i = 0; i < (first ? 1 : r->n); i++) add_to(&back->at[i], &part[j].at[i]);
        if (take->how >= LUO_HAP_HOW_GATHER) move_back(r, op->in[j], take);
    }
}

static int moves, uneven, empties; /* proof that the cases hit */

static void on_many_devices(run *r)
{
    const luo_hap_graph *g = r->graph;
    array *sums = LUO_NEW_N(r->a, array, g->ntensors);
    for (int32_t x = 0; x < g->ntensors; x++)
        sums[x] = luo_hap_kernels_array(r->a, g->tensor[x].rank, g->tensor[x].dim);
    for (int32_t o = 0; o < g->nops; o++) {
        forward(r, o);
        for (int32_t j = 0; j < g->op[o].nin; j++)
            moves += triple_of(r, o)->take[j].how >= LUO_HAP_HOW_GATHER;
    }
    const int32_t last = g->tensor[g->loss].maker;
    const luo_rel rel = result_rel(r, last, 0);
    held *back = back_of(r, g->loss, rel);
    for (int32_t i = 0; i < r->n; i++) back->at[i].at[0] = rel.kind == LUO_REL_R ? 1 : 1. / r->n;
    for (int32_t o = g->nops; o-- > 0;) backward(r, o, sums);
    for (int32_t x = 0; x < g->ntensors; x++)
        if (g->tensor[x].role == LUO_HAP_PARAM)
            same(&sums[x], &r->gradient[x], "gradient", g->tensor[x].name);
}

/* ---- programs ---- */

static const luo_hap_mlp_in mlps[] = {{4, 2, {4, 6, 4}, true, false, false},
                                      {6, 3, {2, 6, 4, 3}, false, false, false}};
static const luo_hap_encoder encoder = {3, 4, 4, 2, 6, 7, 0, 0}, experts = {2, 3, 4, 2, 5, 6, 4, 2};

static luo_hap_graph *graph_of(luo_arena *a, int64_t which)
{
    if (which < 2) return luo_hap_graphs_mlp(a, &mlps[which]);
    return which == 2 ? luo_hap_network_bert(a, &encoder, 1) : luo_hap_network_bert(a, &experts, 2);
}

static luo_hap_numbers random_numbers(luo_rng *rng)
{
    const int32_t count[] = {1 + (int32_t)luo_rng_pick(rng, 3), 1 + (int32_t)luo_rng_pick(rng, 3)};
    const double speed[] = {1e3 * exp(5 * luo_rng_u(rng)), 1e3 * exp(5 * luo_rng_u(rng))};
    luo_hap_numbers out = luo_hap_graphs_toy(count, speed, 1, 1, 1, 1);
    for (int32_t l = 0; l < LUO_HAP_LINKS; l++)
        out.line[l].bandwidth_bytes_s = 100 * exp(6 * luo_rng_u(rng));
    return out;
}

/* Shares of types; one of them may have nothing. */
static void random_shares(luo_rng *rng, const luo_hap_numbers *numbers, double *shares)
{
    const double first = luo_rng_pick(rng, 4) ? luo_rng_u(rng) : (double)luo_rng_pick(rng, 2);
    shares[0] = first / numbers->count[0];
    shares[1] = (1 - first) / numbers->count[1];
    uneven += shares[0] != shares[1];
    empties += shares[0] == 0 || shares[1] == 0;
}

static void carry_out(luo_arena *a, luo_rng *rng, luo_hap_graph *graph)
{
    const luo_hap_numbers numbers = random_numbers(rng);
    const luo_hap_opts opts = {.factors = luo_rng_pick(rng, 2),
                               .zero = luo_rng_pick(rng, 3) == 0,
                               .rules = luo_rng_pick(rng, 4) == 0 ? "b" : NULL};
    luo_hap_space *space;
    luo_hap_program *program;
    luo_hap_cuts *cuts;
    double shares[4];
    if (luo_rng_pick(rng, 3) == 0) luo_hap_graph_segment(graph, graph->nops / 2, 1);
    for (int32_t s = 0; s < graph->nsegments; s++) random_shares(rng, &numbers, &shares[2 * s]);
    ck_assert_int_eq(luo_hap_space_new(a, graph, &opts, &space, NULL), LUO_OK);
    ck_assert_int_eq(luo_hap_synth(a, space, &numbers, shares, 0, &program, NULL), LUO_OK);
    ck_assert_int_eq(luo_hap_program_cuts(a, space, &numbers, shares, &cuts, NULL), LUO_OK);
    run r = {.a = a,
             .graph = graph,
             .program = program,
             .cuts = cuts,
             .n = luo_hap_numbers_devices(&numbers),
             .value = LUO_NEW_N(a, array, graph->ntensors),
             .gradient = LUO_NEW_N(a, array, graph->ntensors),
             .fact = LUO_NEW_N(a, held, space->nfacts),
             .back = LUO_NEW_N(a, held, space->nfacts)};
    draw_leaves(&r, rng);
    on_one_device(&r);
    on_many_devices(&r);
}

START_TEST(programs)
{
    LUO_PROP_FOR(seed, 40)
    {
        luo_rng rng = luo_rng_seed(seed);
        luo_arena *a = luo_arena_new(1 << 20);
        carry_out(a, &rng, graph_of(a, (int64_t)(seed % 4)));
        luo_arena_free(a);
    }
    printf("%d moves, %d uneven shares, %d shares of nothing\n", moves, uneven, empties);
    ck_assert(moves > 0 && uneven > 0 && empties > 0);
}
END_TEST

LUO_SUITE("hap.run", LUO_T(programs))
