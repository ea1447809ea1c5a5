/* check_hap_rules.c: every rule of every kind of operation, carried out with numbers on three
 * devices with random uneven pieces, one of them empty: results and gradients lie as it says. */
#include "tests/parked/hap_kernels.h"

#include "tests/check_main.h"
#include "tests/prop/prop.h"

enum { DEVICES = 3 };

/* ---- pieces ---- */

typedef struct cut { /* lengths of the axis that is cut */
    int64_t lo[DEVICES], len[DEVICES];
} cut;

static cut cut_of(luo_rng *rng, int64_t extent)
{
    cut c = {0};
    const int32_t empty = (int32_t)luo_rng_pick(rng, DEVICES);
    const int32_t first = (empty + 1) % DEVICES, second = (empty + 2) % DEVICES;
    c.len[first] = 1 + luo_rng_pick(rng, extent - 1);
    c.len[second] = extent - c.len[first];
    for (int32_t i = 1; i < DEVICES; i++) c.lo[i] = c.lo[i - 1] + c.len[i - 1];
    return c;
}

static void split(luo_arena *a, luo_rng *rng, const luo_hap_array *x, luo_rel rel, const cut *c,
                  luo_hap_array *piece)
{
    for (int32_t i = 0; i < DEVICES; i++) {
        int64_t dim[LUO_HAP_RANK];
        memcpy(dim, x->dim, sizeof dim);
        if (rel.kind == LUO_REL_G) dim[rel.dim] = c->len[i];
        piece[i] = luo_hap_kernels_array(a, x->rank, dim);
        for (int64_t at = 0; at < piece[i].n; at++)
            if (rel.kind == LUO_REL_G)
                piece[i].at[at] =
                    x->at[luo_hap_kernels_in_whole(x, &piece[i], rel.dim, c->lo[i], at)];
            else if (rel.kind == LUO_REL_I)
                piece[i].at[at] = x->at[at];
            else if (i < DEVICES - 1)
                piece[i].at[at] = luo_rng_u(rng) - 0.5;
            else
                piece[i].at[at] = x->at[at] - piece[0].at[at] - piece[1].at[at];
    }
}

/* Is x what the pieces are said to be? */
static void compare(luo_arena *a, const luo_hap_array *x, luo_rel rel, const cut *c,
                    const luo_hap_array *piece, const char *what)
{
    luo_hap_array sum = luo_hap_kernels_array(a, x->rank, x->dim);
    for (int32_t i = 0; i < DEVICES; i++)
        for (int64_t at = 0; at < piece[i].n; at++) {
            const luo_hap_number v = piece[i].at[at];
            if (rel.kind == LUO_REL_G)
                sum.at[luo_hap_kernels_in_whole(x, &piece[i], rel.dim, c->lo[i], at)] = v;
            else if (rel.kind == LUO_REL_R)
                sum.at[at] += v;
            else
                ck_assert_msg(cabs(v - x->at[at]) < 1e-9, "%s: device %d, element %d", what, i,
                              (int)at);
        }
    for (int64_t at = 0; at < x->n && rel.kind != LUO_REL_I; at++)
        ck_assert_msg(cabs(sum.at[at] - x->at[at]) < 1e-9, "%s: element %d is %g, not %g", what,
                      (int)at, creal(sum.at[at]), creal(x->at[at]));
}

typedef struct whole_run { /* on one device */
    luo_hap_array in[LUO_HAP_OPERANDS], out[LUO_HAP_RESULTS], dout[LUO_HAP_RESULTS];
    luo_hap_array grad[LUO_HAP_OPERANDS];
    luo_hap_place at;
} whole_run;

static luo_hap_array random_array(luo_arena *a, luo_rng *rng, const luo_hap_tensor *x)
{
    luo_hap_array y = luo_hap_kernels_array(a, x->rank, x->dim);
    for (int64_t i = 0; i < y.n; i++) y.at[i] = 2 * luo_rng_u(rng) - 1;
    return y;
}

/* Ids and labels are rows of a table of that many. */
static void to_ids(luo_rng *rng, luo_hap_array *x, int64_t rows)
{
    for (int64_t i = 0; i < x->n; i++) x->at[i] = (double)luo_rng_pick(rng, rows);
}

static whole_run run_whole(luo_arena *a, luo_rng *rng, const luo_hap_graph *g, const luo_hap_op *op)
{
    whole_run w = {.at = {.once = true}};
    const luo_hap_rule rule = {0};
    for (int32_t j = 0; j < op->nin; j++) w.in[j] = random_array(a, rng, &g->tensor[op->in[j]]);
    if (op->kind == LUO_HAP_EMBEDDING) to_ids(rng, &w.in[0], w.in[1].dim[0]);
    if (op->kind == LUO_HAP_LOSS) {
        to_ids(rng, &w.in[1], w.in[0].dim[w.in[0].rank - 1]);
        w.at.lse = luo_hap_kernels_log_sums(a, &w.in[0]);
    }
    luo_hap_kernels_forward(a, op, &rule, w.in, &w.at, w.out);
    for (int32_t k = 0; k < op->nout; k++) {
        w.dout[k] = random_array(a, rng, &g->tensor[op->out[k]]);
        if (g->tensor[op->out[k]].role == LUO_HAP_MASK)
            memset(w.dout[k].at, 0, (size_t)w.dout[k].n * sizeof(luo_hap_number));
    }
    for (int32_t j = 0; j < op->nin; j++)
        if (luo_hap_graph_trains(g, op->in[j]))
            w.grad[j] = luo_hap_kernels_gradient(a, op, &rule, w.in, &w.at, w.dout, j);
    return w;
}

/* What each device knows of a loss or a table by this rule. */
static void place_devices(luo_arena *a, luo_rng *rng, const luo_hap_op *op,
                          const luo_hap_rule *rule, const whole_run *w, const cut *c,
                          luo_hap_place *at)
{
    const int32_t cut_at = op->kind == LUO_HAP_LOSS ? w->in[0].rank - 1 : 0;
    const luo_rel rel = rule->in[op->kind == LUO_HAP_LOSS ? 0 : 1];
    luo_hap_array lse[DEVICES] = {{0}};
    if (op->kind == LUO_HAP_LOSS) split(a, rng, &w->at.lse, rule->in[1], c, lse);
    for (int32_t i = 0; i < DEVICES; i++) {
        at[i] = (luo_hap_place){.once = i == 0, .lse = lse[i]};
        if (rel.kind == LUO_REL_G && rel.dim == cut_at) at[i].lo = c->lo[i];
    }
}

static void check_rule(luo_arena *a, luo_rng *rng, const luo_hap_graph *g, const luo_hap_op *op,
                       const luo_hap_rule *rule, const whole_run *w)
{
    const cut c = cut_of(rng, rule->letter ? op->size[(int)rule->letter] : 2);
    luo_hap_array in[LUO_HAP_OPERANDS][DEVICES], mine[DEVICES][LUO_HAP_OPERANDS];
    luo_hap_array out[DEVICES][LUO_HAP_RESULTS], dout[LUO_HAP_RESULTS][DEVICES], piece[DEVICES];
    luo_hap_place at[DEVICES];
    char what[64], name[8];
    memset(mine, 0, sizeof mine);
    for (int32_t j = 0; j < op->nin; j++) split(a, rng, &w->in[j], rule->in[j], &c, in[j]);
    place_devices(a, rng, op, rule, w, &c, at);
    for (int32_t i = 0; i < DEVICES; i++) {
        for (int32_t j = 0; j < op->nin; j++) mine[i][j] = in[j][i];
        luo_hap_kernels_forward(a, op, rule, mine[i], &at[i], out[i]);
    }
    for (int32_t k = 0; k < op->nout; k++) {
        for (int32_t i = 0; i < DEVICES; i++) piece[i] = out[i][k];
        snprintf(what, sizeof what, "%s, rule %s, result %d", op->name,
                 luo_hap_rule_name(rule, name), k);
        compare(a, &w->out[k], rule->out[k], &c, piece, what);
        split(a, rng, &w->dout[k], luo_rel_dual(rule->out[k]), &c, dout[k]);
    }
    for (int32_t j = 0; j < op->nin; j++) {
        if (!luo_hap_graph_trains(g, op->in[j])) continue;
        for (int32_t i = 0; i < DEVICES; i++) {
            const luo_hap_array d[LUO_HAP_RESULTS] = {dout[0][i], dout[1][i], dout[2][i]};
            at[i].once = true; /* a gradient is whole wherever it is computed */
            const luo_hap_rule complete = {0};
            piece[i] = luo_hap_kernels_gradient(a, op, &complete, mine[i], &at[i], d, j);
        }
        snprintf(what, sizeof what, "%s, rule %s, gradient %d", op->name,
                 luo_hap_rule_name(rule, name), j);
        compare(a, &w->grad[j], rule->grad[j], &c, piece, what);
    }
}

/* ---- rows ---- */

typedef struct operand {
    luo_hap_role role;
    const char *dims; /* a digit each */
} operand;

static const struct {
    luo_hap_kind kind;
    const char *name, *signature, *whole;
    operand in[LUO_HAP_OPERANDS];
    int64_t sizes[3];
    const char *rules;
} rows[] = {
    {LUO_HAP_LINEAR, "linear", "ba,ac->bc", "", {{1, "43"}, {1, "32"}}, {0}, "b a c rep lin0"},
    {LUO_HAP_LINEAR,
     "with_bias",
     "bsa,ac,c->bsc",
     "",
     {{1, "234"}, {1, "43"}, {1, "3"}},
     {0},
     "b s a c rep lin0"},
    {LUO_HAP_LINEAR,
     "output",
     "bshe,hem,m->bsm",
     "e",
     {{1, "2232"}, {1, "323"}, {1, "3"}},
     {0},
     "b s h m rep lin0"},
    {LUO_HAP_LINEAR, "single", "ba,ac->bc", "", {{1, "13"}, {1, "32"}}, {0}, "a c rep lin0"},
    {LUO_HAP_QKV,
     "qkv",
     "bsm,mphe,phe->bshe,bshe,bshe",
     "pe",
     {{1, "223"}, {1, "3322"}, {1, "322"}},
     {0},
     "b s m h rep lin0"},
    {LUO_HAP_ATTENTION,
     "attention",
     "bshe,bthe,bthe->bshe",
     "ste",
     {{1, "2322"}, {1, "2322"}, {1, "2322"}},
     {0},
     "b h rep"},
    {LUO_HAP_CONV,
     "conv",
     "bcij,ockl,o->boij",
     "ijkl",
     {{1, "2233"}, {1, "3233"}, {1, "3"}},
     {0},
     "b c o rep lin0"},
    {LUO_HAP_UNARY, "relu", "bsm->bsm", "", {{1, "232"}}, {0}, "b s m rep"},
    {LUO_HAP_GATED, "swiglu", "bsm,bsm->bsm", "", {{1, "232"}, {1, "232"}}, {0}, "b s m rep lin1"},
    {LUO_HAP_NORM, "rms_norm", "bsm,m->bsm", "m", {{1, "235"}, {1, "5"}}, {0}, "b s rep"},
    {LUO_HAP_ADD,
     "add",
     "bsm,bsm->bsm",
     "",
     {{1, "232"}, {1, "232"}},
     {0},
     "b s m rep lin0 lin1 lin01"},
    {LUO_HAP_ADD,
     "add_position",
     "bsm,sm->bsm",
     "",
     {{1, "232"}, {1, "32"}},
     {0},
     "b s m rep lin0 lin1 lin01"},
    {LUO_HAP_NORM, "norm", "bsm,m,m->bsm", "m", {{1, "235"}, {1, "5"}, {1, "5"}}, {0}, "b s rep"},
    {LUO_HAP_POOL, "pool", "bcij->bcIJ", "ijIJ", {{1, "2344"}}, {2, 2}, "b c rep"},
    {LUO_HAP_ADAPTIVE_POOL, "adaptive", "bcij->bcIJ", "ijIJ", {{1, "2322"}}, {3, 3}, "b c rep"},
    {LUO_HAP_EMBEDDING, "embedding", "bs,vm->bsm", "", {{0, "23"}, {1, "53"}}, {0}, "b s v m rep"},
    {LUO_HAP_APPEND, "append", "bum,m->bsm", "us", {{1, "233"}, {1, "3"}}, {4}, "b m rep"},
    {LUO_HAP_TAKE, "take", "bsm->bm", "s", {{1, "233"}}, {0}, "b m rep lin0"},
    {LUO_HAP_GATE, "gate", "bsm,mE->bsEc,bsEc", "smEc", {{1, "233"}, {1, "32"}}, {2}, "b rep"},
    {LUO_HAP_DISPATCH,
     "dispatch",
     "bsm,bsEc->bEcm",
     "",
     {{1, "223"}, {1, "2232"}},
     {0},
     "b s m E c rep lin0 lin1"},
    {LUO_HAP_EXPERT,
     "expert",
     "bEcm,Emf->bEcf",
     "",
     {{1, "2322"}, {1, "322"}},
     {0},
     "b E c m f rep lin0"},
    {LUO_HAP_COMBINE,
     "combine",
     "bEcm,bsEc->bsm",
     "",
     {{1, "2322"}, {1, "2232"}},
     {0},
     "b E c m s rep lin0 lin1"},
    {LUO_HAP_INTERACTION,
     "interaction",
     "bm,bsm->bp",
     "msp",
     {{1, "43"}, {1, "423"}},
     {6},
     "b rep"},
    {LUO_HAP_LOSS, "loss", "bv,b->", "", {{1, "45"}, {0, "4"}}, {0}, "b v rep"},
    {LUO_HAP_LOSS, "token_loss", "bsv,bs->", "", {{1, "324"}, {0, "32"}}, {0}, "b s v rep"},
};

static luo_hap_graph *graph_of(luo_arena *a, int row)
{
    static const char *const names[] = {"y0", "y1", "y2"};
    luo_hap_graph *g = luo_hap_graph_new(a, 4);
    int32_t in[LUO_HAP_OPERANDS] = {-1, -1, -1};
    for (int32_t j = 0; j < LUO_HAP_OPERANDS && rows[row].in[j].dims; j++) {
        int64_t dim[LUO_HAP_RANK];
        const char *digits = rows[row].in[j].dims;
        for (int32_t d = 0; digits[d]; d++) dim[d] = digits[d] - '0';
        in[j] =
            luo_hap_graph_leaf(g, "x", rows[row].in[j].role, false, (int32_t)strlen(digits), dim);
    }
    luo_hap_graph_op(g, rows[row].kind, rows[row].name, rows[row].signature, rows[row].whole,
                     rows[row].sizes, in, names);
    ck_assert_msg(g->st == LUO_OK, "%s", g->err.text);
    return g;
}

START_TEST(rules_of_a_kind)
{
    luo_arena *a = luo_arena_new(1 << 16);
    const luo_hap_graph *g = graph_of(a, _i);
    const luo_hap_op *op = &g->op[0];
    luo_hap_rule *rule;
    char text[64] = "", name[8];
    int32_t n;
    ck_assert_int_eq(luo_hap_rules(a, op, &rule, &n, NULL), LUO_OK);
    for (int32_t i = 0; i < n; i++) {
        if (i) strcat(text, " ");
        strcat(text, luo_hap_rule_name(&rule[i], name));
    }
    ck_assert_str_eq(text, rows[_i].rules);
    LUO_PROP_FOR(seed, 3)
    {
        luo_rng rng = luo_rng_seed(seed);
        const size_t mark = luo_arena_mark(a);
        const whole_run w = run_whole(a, &rng, g, op);
        for (int32_t i = 0; i < n; i++) check_rule(a, &rng, g, op, &rule[i], &w);
        luo_arena_reset(a, mark);
    }
    luo_arena_free(a);
}
END_TEST

START_TEST(sentences)
{
    static const char *const names[] = {"y"};
    luo_arena *a = luo_arena_new(0);
    luo_hap_graph *g = luo_hap_graph_new(a, 4);
    luo_err err = {0};
    int32_t in[2];
    in[0] = luo_hap_graph_leaf(g, "x", LUO_HAP_INPUT, false, 2, (int64_t[]){4, 64});
    in[1] = luo_hap_graph_leaf(g, "w", LUO_HAP_PARAM, false, 2, (int64_t[]){65, 8});
    ck_assert_int_eq(luo_hap_graph_check(g, &err), LUO_EINPUT);
    ck_assert_str_eq(err.text, "the graph has 0 losses; exactly one is needed.");
    luo_hap_graph_op(g, LUO_HAP_LINEAR, "ffn1", "bs,sn->bn", "", NULL, in, names);
    ck_assert_int_eq(luo_hap_graph_check(g, &err), LUO_EINPUT);
    ck_assert_str_eq(err.text,
                     "op `ffn1` uses letter `s` with extents 64 and 65; equal extents are needed.");
    g = luo_hap_graph_new(a, 4);
    in[0] = 5;
    luo_hap_graph_op(g, LUO_HAP_UNARY, "relu", "b->b", "", NULL, in, names);
    ck_assert_int_eq(luo_hap_graph_check(g, &err), LUO_EINPUT);
    ck_assert_str_eq(err.text, "op `relu` reads tensor 5 before it is produced; ops must be in "
                               "topological order.");
    g = luo_hap_graph_new(a, 4);
    luo_hap_graph_leaf(g, "x", LUO_HAP_INPUT, false, 1, (int64_t[]){0});
    ck_assert_int_eq(luo_hap_graph_check(g, &err), LUO_EINPUT);
    ck_assert_str_eq(err.text, "tensor `x` has a dimension of 0; 1 to 2147483647 is expected.");
    luo_arena_free(a);
}
END_TEST

/* Axes of a graph: not the whole ones, also where they are too short to be cut. */
START_TEST(letters_of_a_graph)
{
    luo_arena *a = luo_arena_new(0);
    luo_hap_graph *g = luo_hap_graph_new(a, 4);
    const int32_t x = luo_hap_graph_leaf(g, "x", LUO_HAP_INPUT, false, 3, (int64_t[]){1, 2, 8});
    const int32_t w = luo_hap_graph_leaf(g, "w", LUO_HAP_PARAM, false, 2, (int64_t[]){8, 4});
    char letters[128] = "q";
    luo_hap_graph_op(g, LUO_HAP_LINEAR, "y", "bsm,mn->bsn", "s", NULL, (int32_t[]){x, w},
                     (const char *[]){"y"});
    ck_assert_str_eq(luo_hap_rule_letters(g, letters), "bmn");
    luo_arena_free(a);
}
END_TEST

LUO_SUITE("hap.rules", LUO_T_N(rules_of_a_kind, LUO_ROWS(rows)), LUO_T(letters_of_a_graph),
          LUO_T(sentences))
