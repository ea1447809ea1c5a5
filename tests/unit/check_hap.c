/* check_hap.c: programs and shares together, vectors HN1 to HN10 and HS2: J, shares and the text of
 * the program. */
#include <math.h>

#include "core/plan/hap/alternate.h"
#include "tests/check_main.h"
#include "tests/parked/hap_graphs.h"

enum { PROP = 1u << LUO_HAP_START_PROP, EVEN = 1u << LUO_HAP_START_EVEN };

static const luo_hap_mlp_in mlps[] = {
    {64, 1, {4, 4}, false, false, false},          {4, 2, {32, 32, 32}, false, false, false},
    {8, 3, {16, 64, 64, 16}, false, false, false}, {16, 2, {16, 16, 16}, false, false, false},
    {4, 2, {32, 32, 32}, true, false, false},      {4, 2, {16, 32, 32}, false, false, false},
    {64, 2, {64, 16, 64}, false, false, false},    {4, 2, {64, 64, 8}, false, false, false},
};
static const struct {
    const char *id;
    int mlp, count[2];
    double speed[2], elt, line[3]; /* ag = rs = p2p, ar, a2a */
    uint32_t starts;
    bool factors;
    const char *rules;
    double cost, share[2];
    const char *text; /* NULL: another program may cost the same */
} rows[] = {
    {"HN1",
     0,
     {1, 1},
     {300, 100},
     4,
     {40, 20, 80},
     0,
     false,
     NULL,
     16,
     {.75, .25},
     "b w0:I/AR\nb\n"},
    {"HN2",
     1,
     {1, 1},
     {300, 100},
     4,
     {40, 20, 80},
     0,
     false,
     NULL,
     143.68,
     {.75, .25},
     "c w0:G1\nc\nc w1:G0\nb h1:RS0\n"},
    {"HN3",
     2,
     {1, 1},
     {300, 100},
     4,
     {40, 20, 80},
     0,
     false,
     NULL,
     902.4,
     {.75, .25},
     "c w0:G1\nc\nc w1:G0\nd h1:RS1\nd w2:G0\nb h2:RS0\n"},
    {"HN4", 1, {1, 1}, {3e6, 1e6}, 4, {40, 20, 80}, 0, false, NULL, 25.621056, {.5, .5}, NULL},
    {"HN5 prop",
     3,
     {2, 2},
     {4000, 1000},
     4,
     {40, 20, 80},
     PROP,
     false,
     NULL,
     78.464,
     {.4, .1},
     NULL},
    {"HN5 even",
     3,
     {2, 2},
     {4000, 1000},
     4,
     {40, 20, 80},
     EVEN,
     false,
     NULL,
     62.016,
     {.25, .25},
     NULL},
    {"HN5", 3, {2, 2}, {4000, 1000}, 4, {40, 20, 80}, 0, false, NULL, 62.016, {.25, .25}, NULL},
    {"HN6",
     4,
     {1, 1},
     {300, 100},
     4,
     {40, 20, 80},
     0,
     false,
     NULL,
     144.32,
     {.75, .25},
     "c w0:G1 v0:G0\nc\nc w1:G0 v1:I\nb h1:RS0\n"},
    {"HN7 prop",
     5,
     {1, 1},
     {10000, 1000},
     -1e9,
     {40, 40, 40},
     PROP,
     false,
     NULL,
     28.672004368,
     {-1, -1},
     NULL},
    {"HN7 even",
     5,
     {1, 1},
     {10000, 1000},
     -1e9,
     {40, 40, 40},
     EVEN,
     false,
     NULL,
     41.984002304,
     {-1, -1},
     NULL},
    {"HN7",
     5,
     {1, 1},
     {10000, 1000},
     -1e9,
     {40, 40, 40},
     0,
     false,
     NULL,
     28.672004368,
     {-1, -1},
     "c w0:G1\nc\nc w1:G0\nrep h1:AR\n"},
    {"HS2 prop",
     7,
     {1, 1},
     {3000, 1000},
     -1e12,
     {40, 20, 80},
     PROP,
     true,
     "b",
     137.344,
     {.5, .5},
     "b w0:I/SFB\nb\nb w1:I/SFB\nb\n"},
};

static luo_hap_result *solve(luo_arena *a, const luo_hap_graph *graph,
                             const luo_hap_numbers *numbers, const luo_hap_job *job)
{
    luo_hap_result *result;
    luo_err err = {0};
    const luo_status st = luo_hap_alternate(a, graph, numbers, job, &result, &err);
    ck_assert_msg(st == LUO_OK, "%s", err.text);
    return result;
}

static void compare(const char *id, const luo_hap_result *result, double cost, const double *share,
                    const char *want)
{
    luo_str text = {0};
    luo_hap_program_print(&text, result->program);
    ck_assert_msg(fabs(result->cost_s - cost) <= 1e-9 * cost, "%s: %.12g, not %.12g; %g %g\n%s", id,
                  result->cost_s, cost, result->shares[0], result->shares[1], luo_str_get(&text));
    for (int t = 0; t < 2 && share[t] >= 0; t++)
        ck_assert_msg(fabs(result->shares[t] - share[t]) <= 1e-6, "%s: share %d is %.9g", id, t,
                      result->shares[t]);
    if (want) ck_assert_str_eq(luo_str_get(&text), want);
    luo_str_free(&text);
}

START_TEST(row)
{
    luo_arena *a = luo_arena_new(0);
    const luo_hap_graph *graph = luo_hap_graphs_mlp(a, &mlps[rows[_i].mlp]);
    const double *line = rows[_i].line, elt = rows[_i].elt;
    luo_hap_numbers numbers =
        luo_hap_graphs_toy(rows[_i].count, rows[_i].speed, fabs(elt), line[0], line[1], line[2]);
    for (int t = 0; t < 2 && elt < 0; t++) numbers.speed[t][LUO_HAP_ON_ELT] = -elt;
    const luo_hap_job job = {.starts = rows[_i].starts,
                             .opts = {.factors = rows[_i].factors, .rules = rows[_i].rules}};
    const luo_hap_result *result = solve(a, graph, &numbers, &job);
    compare(rows[_i].id, result, rows[_i].cost, rows[_i].share, rows[_i].text);
    luo_arena_free(a);
}
END_TEST

START_TEST(first_programs) /* HS2: at the shares of start prop; HN7: the fractional value */
{
    luo_arena *a = luo_arena_new(0);
    luo_hap_numbers numbers = luo_hap_graphs_toy(NULL, (double[]){3000, 1000}, 4, 40, 20, 80);
    for (int t = 0; t < 2; t++) numbers.speed[t][LUO_HAP_ON_ELT] = 1e12;
    const luo_hap_job job = {.starts = PROP, .opts = {.factors = true, .rules = "b"}};
    const luo_hap_result *result = solve(a, luo_hap_graphs_mlp(a, &mlps[7]), &numbers, &job);
    ck_assert_double_eq_tol(result->round[0].program_s, 167.104, 167e-9);
    luo_arena_free(a);
}
END_TEST

START_TEST(forms) /* HN8: latencies, grouped forms */
{
    luo_arena *a = luo_arena_new(0);
    luo_hap_numbers numbers = luo_hap_graphs_toy(NULL, (double[]){1000, 100}, 1, 40, 20, 80);
    const luo_hap_job job = {0};
    numbers.line[LUO_HAP_LINK_AG].latency_s = numbers.line[LUO_HAP_LINK_RS].latency_s = .5;
    numbers.line[LUO_HAP_LINK_AG_GROUPED] = numbers.line[LUO_HAP_LINK_RS_GROUPED] =
        (luo_hap_line){.25, 38};
    numbers.line[LUO_HAP_LINK_AR].latency_s = 1;
    numbers.line[LUO_HAP_LINK_A2A].latency_s = .5;
    for (int t = 0; t < 2; t++) numbers.speed[t][LUO_HAP_ON_ELT] = 1e9;
    const luo_hap_result *result = solve(a, luo_hap_graphs_mlp(a, &mlps[6]), &numbers, &job);
    luo_hap_cuts *cuts;
    luo_str line = {0};
    compare("HN8", result, 858.57902602, (double[]){-1, -1}, NULL);
    ck_assert_int_eq(
        luo_hap_program_cuts(a, result->space, &result->numbers, result->shares, &cuts, NULL),
        LUO_OK);
    luo_hap_program_line(&line, result->program, 2);
    ck_assert_str_eq(luo_str_get(&line), "d a0:AG1 w1:G1");
    const luo_hap_triple *triple = &result->space->triple[result->program->choice[2]];
    ck_assert_int_eq(triple->ncoll, 2);
    for (int i = 0; i < 2; i++) {
        bool grouped;
        const double seconds = luo_hap_price(&result->numbers, cuts, &triple->coll[i], &grouped);
        ck_assert(grouped);
        ck_assert_double_eq_tol(seconds, 108.289473684, 1e-8);
    }
    luo_str_free(&line);
    luo_arena_free(a);
}
END_TEST

static const char hn9[] =
    "m E:G1\nm P:G1\nh x1:AG2 0.wqkv:G2 0.bqkv:G1\nh\nh 0.wo:G0 0.bo:I\nrep 0.z:AR\n"
    "rep 0.ln1g:I/AR 0.ln1b:I/AR\nf 0.w1:G1 0.b1:G0\nf\nf 0.w2:G0 0.b2:I\nrep 0.f2:AR\n"
    "rep 0.ln2g:I/AR 0.ln2b:I/AR\nv WD:G1 bD:G0\nv\n";

START_TEST(encoder) /* HN9 */
{
    luo_arena *a = luo_arena_new(0);
    const luo_hap_encoder sizes = {2, 4, 32, 4, 64, 48, 0, 0};
    const luo_hap_numbers numbers =
        luo_hap_graphs_toy(NULL, (double[]){3e5, 1e5}, 4, 4e3, 2e3, 8e3);
    const luo_hap_graph *graph = luo_hap_network_bert(a, &sizes, 1);
    luo_hap_job job = {0};
    compare("HN9", solve(a, graph, &numbers, &job), 4.36832, (double[]){.75, .25}, NULL);
    job.opts.layers = true; /* of programs that cost the same it finds this one */
    compare("HN9", solve(a, graph, &numbers, &job), 4.36832, (double[]){.75, .25}, hn9);
    job.starts = EVEN;
    compare("HN9 even", solve(a, graph, &numbers, &job), 5.30752, (double[]){-1, -1}, NULL);
    luo_arena_free(a);
}
END_TEST

START_TEST(experts) /* HN10 */
{
    luo_arena *a = luo_arena_new(0);
    const luo_hap_encoder sizes = {4, 8, 16, 2, 32, 32, 4, 3};
    const luo_hap_numbers numbers =
        luo_hap_graphs_toy(NULL, (double[]){3e6, 1e6}, 4, 4e3, 2e3, 16e3);
    const luo_hap_job job = {0};
    const luo_hap_result *result = solve(a, luo_hap_network_bert(a, &sizes, 2), &numbers, &job);
    luo_str text = {0};
    compare("HN10", result, 8.307456, (double[]){.5, .5}, NULL);
    luo_hap_program_print(&text, result->program);
    ck_assert_ptr_nonnull(strstr(luo_str_get(&text), "\nE 1.u:A2A01 1.w1:G0\n"));
    ck_assert_ptr_nonnull(strstr(luo_str_get(&text), "\nb 1.f0:A2A10\n"));
    luo_str_free(&text);
    luo_arena_free(a);
}
END_TEST

/* Data parallelism is fastest, and its copies of the weights do not fit: ZeRO fits where it is
 * offered, else pieces, which charged triples lead to. Bytes of HN-like sums by hand: copies 16 *
 * 128^2, with ZeRO a quarter of it and twice a weight, and activations. */
static const struct {
    double limit;
    luo_hap_zero zero;
    const char *first; /* line of the first operation; NULL: nothing fits */
} limits[] = {
    {300e3, LUO_HAP_ZERO_OFF, "b w0:I/AR"}, {300e3, LUO_HAP_ZERO_AUTO, "b w0:I/AR"},
    {210e3, LUO_HAP_ZERO_AUTO, "b w0:I/Z"}, {210e3, LUO_HAP_ZERO_ON, "b w0:I/Z"},
    {80e3, LUO_HAP_ZERO_AUTO, "c w0:G1"},   {80e3, LUO_HAP_ZERO_OFF, "c w0:G1"},
    {66e3, LUO_HAP_ZERO_AUTO, NULL},        {66e3, LUO_HAP_ZERO_OFF, NULL},
    {65e3, LUO_HAP_ZERO_AUTO, NULL},        {65e3, LUO_HAP_ZERO_OFF, NULL},
};

static const char *refusal(double limit, luo_hap_zero zero)
{
    if (4 * limit < 16 * 128 * 128)
        return "no plan fits: one copy of parameters, gradients and optimizer state needs 0.0 GiB, "
               "all devices have 0.0 GiB; try more devices.";
    if (zero == LUO_HAP_ZERO_OFF)
        return "no plan fits: type `A` needs 0.0 GiB of 0.0 GiB; try --zero on or fewer samples.";
    return "no plan fits: type `A` needs 0.0 GiB of 0.0 GiB; try fewer samples.";
}

START_TEST(under_memory)
{
    luo_arena *a = luo_arena_new(0);
    const luo_hap_mlp_in in = {4, 1, {128, 128}, false, false, false};
    luo_hap_numbers numbers =
        luo_hap_graphs_toy((int32_t[]){2, 2}, (double[]){1e6, 1e6}, 4, 1e9, 1e9, 100);
    numbers.line[LUO_HAP_LINK_AR].latency_s = .01; /* one for copies, two for logits in pieces */
    const luo_hap_job job = {.zero = limits[_i].zero, .opts = {.rules = "bc"}};
    luo_hap_result *result;
    luo_err err = {0};
    luo_str line = {0};
    numbers.memory_bytes[0] = numbers.memory_bytes[1] = limits[_i].limit;
    const luo_status st =
        luo_hap_alternate(a, luo_hap_graphs_mlp(a, &in), &numbers, &job, &result, &err);
    if (!limits[_i].first) {
        ck_assert_int_eq(st, LUO_EINFEASIBLE);
        ck_assert_str_eq(err.text, refusal(limits[_i].limit, limits[_i].zero));
    } else {
        ck_assert_msg(st == LUO_OK, "%s", err.text);
        luo_hap_program_line(&line, result->program, 0);
        ck_assert_str_eq(luo_str_get(&line), limits[_i].first);
        for (int t = 0; t < 2; t++) ck_assert(result->memory_bytes[t] <= limits[_i].limit);
    }
    luo_str_free(&line);
    luo_arena_free(a);
}
END_TEST

/* What fits with ZeRO is found, what fits in pieces alone is not looked for. */
START_TEST(as_it_is)
{
    luo_arena *a = luo_arena_new(0);
    const luo_hap_mlp_in in = {4, 1, {128, 128}, false, false, false};
    luo_hap_numbers numbers =
        luo_hap_graphs_toy((int32_t[]){2, 2}, (double[]){1e6, 1e6}, 4, 1e9, 1e9, 100);
    numbers.line[LUO_HAP_LINK_AR].latency_s = .01;
    const luo_hap_job job = {.zero = limits[_i].zero, .opts = {.rules = "bc"}, .as_it_is = true};
    luo_hap_result *result;
    numbers.memory_bytes[0] = numbers.memory_bytes[1] = limits[_i].limit;
    const luo_status st =
        luo_hap_alternate(a, luo_hap_graphs_mlp(a, &in), &numbers, &job, &result, NULL);
    ck_assert_int_eq(st, limits[_i].limit > 200e3 ? LUO_OK : LUO_EINFEASIBLE);
    luo_arena_free(a);
}
END_TEST

LUO_SUITE("hap", LUO_T_N(row, LUO_ROWS(rows)), LUO_T(first_programs), LUO_T(forms), LUO_T(encoder),
          LUO_T(experts), LUO_T_N(under_memory, LUO_ROWS(limits)),
          LUO_T_N(as_it_is, LUO_ROWS(limits)))
