/* check_hydraulis.c: costs, caps, dispatch, packing, 1F1B of uneven micro-batches: vectors that a
 * small reference program found by brute force. */
#include <math.h>

#include "core/plan/hydraulis/pool_model.h"
#include "core/plan/hydraulis/propose.h"
#include "tests/check_main.h"
#include "tests/cost_fixture.h"
#include "tests/hydraulis_fixture.h"

#define NEAR(x, y, tolerance) ck_assert_double_eq_tol(x, y, tolerance)

/* ---- caps ---- */

static const struct {
    bool big; /* 32B */
    luo_optimizer_layout layout;
    int32_t tp, pp;
    double cap; /* before it is rounded */
} caps[] = {
    {false, {8, 4, 1}, 1, 2, 11280},   {false, {8, 4, 1}, 1, 4, 12694},
    {false, {8, 4, 1}, 2, 1, 21981},   {false, {8, 4, 1}, 2, 2, 24836},
    {false, {8, 4, 1}, 4, 1, 46125},   {false, {8, 4, 1}, 4, 2, 48776},
    {false, {8, 4, 1}, 8, 1, 85358},   {false, {8, 4, 1}, 16, 1, 137985},
    {true, {64, 16, 1}, 2, 2, 4872},   {true, {64, 16, 1}, 4, 1, 9480},
    {true, {64, 16, 1}, 4, 2, 14055},  {true, {64, 16, 1}, 4, 4, 16315},
    {true, {64, 16, 1}, 8, 1, 24764},  {true, {64, 16, 1}, 8, 2, 28794},
    {true, {64, 16, 1}, 16, 1, 48375}, {true, {64, 16, 1}, 1, 2, 85},
    {true, {2, 16, 1}, 4, 1, 6156},    {true, {2, 16, 1}, 4, 2, 10731},
    {true, {2, 16, 1}, 8, 1, 18908},   {true, {2, 16, 1}, 16, 1, 38536},
};

START_TEST(cap_row)
{
    luo_arena *a = luo_arena_new(0);
    const luo_pool_memory memory =
        published_memory(a, caps[_i].big ? &published_32b : &published_7b);
    const double cap = luo_pool_cap(&memory, &caps[_i].layout, caps[_i].tp, caps[_i].pp);
    ck_assert_double_eq(floor(cap), caps[_i].cap);
    luo_arena_free(a);
}
END_TEST

START_TEST(caps_of_a_pool)
{
    luo_arena *a = luo_arena_new(0);
    const luo_pool pool = POOL_32B(a, 2, 16, 1);
    ck_assert_int_eq(pool.entry[entry_of(&pool, 16, 1)].cap, 38528);
    ck_assert_int_eq(pool.entry[entry_of(&pool, 8, 1)].cap, 18816);
    ck_assert_int_eq(pool.entry[entry_of(&pool, 2, 1)].cap, 0); /* states alone do not fit */
    ck_assert_int_eq(pool.entry[entry_of(&pool, 1, 2)].cap, 0);
    luo_arena_free(a);
}
END_TEST

/* The files are what was published: as many rows, none twice, and speeds that A800 and A100 (312
 * TFLOP/s) reach: 6 FLOP a parameter and token. */
static const struct {
    const published_model *of;
    int32_t rows;
    int64_t ffn;
} pools[] = {{&published_7b, 13, 11008},
             {&published_13b, 12, 13824},
             {&published_32b, 15, 17920},
             {&published_7b_a100, 10, 11008}};

START_TEST(published_pools)
{
    luo_arena *a = luo_arena_new(0);
    const published_model *of = pools[_i].of;
    const luo_pool pool = published_pool(a, of, (luo_optimizer_layout){32, 8, 1});
    const double h = (double)of->hidden, layer = h * (4 * h + 3 * (double)pools[_i].ffn);
    int32_t fit = 0;
    ck_assert_int_eq(pool.n, pools[_i].rows);
    for (int32_t k = 0; k < pool.n; k++) {
        const luo_pool_entry *e = &pool.entry[k];
        const double flops = 6 * layer * (double)of->layers / e->pp / e->tp / (e->b * 1e-3);
        fit += e->cap > 0;
        ck_assert_int_eq(e->cap % LUO_POOL_ROUND, 0);
        ck_assert_msg(flops > 50e12 && flops < 312e12, "(%d, %d): %g TFLOP/s", e->tp,
                      e->pp, flops / 1e12);
    }
    ck_assert_int_gt(fit, pool.n / 2);
    luo_arena_free(a);
}
END_TEST

/* What no file gives is the model's: 16 + 8 F/H bytes of activations, 16 (4 + 3 F/H) of state. */
START_TEST(memory_of_the_model)
{
    luo_model model = {.family = LUO_FAMILY_LLAMA, .layers = 32, .hidden = 4096,
                       .ffn_hidden = 11008, .heads = 32, .kv_heads = 32, .head_dim = 128,
                       .vocab = 30592, .activation = LUO_ACT_SWIGLU, .norm = LUO_NORM_RMS};
    const luo_stack stack = {.attention_fused = true};
    const luo_pool_model_in in = {.model = &model, .stack = &stack};
    const double act = 50;
    luo_pool_params params = luo_pool_params_none();
    params.bound_mib = 81252;
    const luo_pool_memory m = luo_pool_memory_of(&in, &params);
    NEAR(m.act_bytes[0], 16 + 8 * 11008 / 4096.0, 0.05);
    NEAR(m.act_bytes[3], m.act_bytes[0], 0.05);
    NEAR(m.state_bytes, 16 * (4 + 3 * 11008 / 4096.0), 0.1);
    NEAR(m.optimizer_share, 0.75, 1e-12);
    NEAR(m.safe_gib, 0, 1e-12);
    NEAR(m.gap_mib, 4096, 1e-12);
    params = (luo_pool_params){.nact = 1, .act_bytes = &act, .bound_mib = 40536};
    const luo_pool_memory given = luo_pool_memory_of(&in, &params);
    NEAR(given.act_bytes[4], 50, 1e-12); /* the last one holds */
    NEAR(given.optimizer_share, 0, 1e-12); /* 0 can be said */
    NEAR(given.bound_mib, 40536, 1e-12);
}
END_TEST

/* Devices of two types, the fast ones first: costs are those of the slow ones. Numbers of stages
 * that do not divide the layers are left out, and the widest group is of all devices. */
START_TEST(slowest_type_counts)
{
    static const luo_value values[] = {LUO_VALUE("peak_bf16_tflop_per_s", 100),
                                       LUO_VALUE("memory_gbytes_per_s", 1000),
                                       LUO_VALUE("memory_gib", 80)};
    static const int32_t dev[] = {0, 1, 2, 3, 4, 5, 6, 7};
    luo_arena *a = luo_arena_new(0);
    const luo_model model = {.family = LUO_FAMILY_LLAMA, .layers = 8, .hidden = 2048,
                             .ffn_hidden = 5504, .heads = 16, .kv_heads = 16, .head_dim = 128,
                             .vocab = 32000, .activation = LUO_ACT_SWIGLU, .norm = LUO_NORM_RMS,
                             .max_sequence_tokens = 8192, .causal = true, .dtype = LUO_BF16};
    const luo_profile fast = luo_ref_profile();
    luo_profile slow = {.name = "slow", .nvalues = LUO_ROWS(values), .values = values};
    luo_stack stack;
    luo_pool pool[2];
    luo_err err = {0};
    luo_stack_default(&stack);
    ck_assert_int_eq(luo_profile_finish(&slow, &err), LUO_OK);
    for (int k = 0; k < 2; k++) {
        luo_node_group g[] = {luo_test_group("f", 2, 2, k ? &slow : &fast),
                              luo_test_group("s", 2, 2, &slow)};
        const luo_cluster c = luo_test_cluster(a, g, 2);
        const luo_pool_model_in in = {.model = &model, .cluster = &c, .stack = &stack,
                                      .ndevices = 8, .devices = dev, .layout = {8, 1, 1},
                                      .ctx = 8192, .tp_most = 8, .pp_most = 4};
        ck_assert_msg(luo_pool_model(a, &in, &pool[k], &err) == LUO_OK, "%s", err.text);
    }
    static const int32_t shapes[][2] = {{1, 1}, {1, 2}, {1, 4}, {2, 1}, {2, 2},
                                        {2, 4}, {4, 1}, {4, 2}, {8, 1}};
    ck_assert_int_eq(pool[0].n, LUO_ROWS(shapes));
    ck_assert_int_eq(pool[1].n, LUO_ROWS(shapes));
    for (int i = 0; i < LUO_ROWS(shapes); i++) {
        const luo_pool_entry *x = &pool[0].entry[i], *y = &pool[1].entry[i];
        ck_assert(x->tp == shapes[i][0] && x->pp == shapes[i][1]);
        ck_assert(x->tp == y->tp && x->cap == y->cap && y->b > 0);
        if (x->tp == 8) continue; /* a group of both types */
        luo_near(x->a, y->a, 1e-9, "a");
        luo_near(x->b, y->b, 1e-9, "b");
        luo_near(x->c, y->c, 1e-9, "c");
    }
    luo_arena_free(a);
}
END_TEST

/* ---- context parallelism ---- */

START_TEST(context_cost)
{
    luo_arena *a = luo_arena_new(0);
    luo_pool pool = POOL_32B(a, 64, 16, 1);
    const luo_pool_context x = {60, 6656, 64, 64, 50e6, 1};
    const int32_t at = entry_of(&pool, 16, 1), before = pool.n;
    ck_assert_int_eq(luo_pool_add_context(a, &pool, &x, 4, NULL), LUO_OK);
    ck_assert_int_eq(pool.n, 2 * before);
    const luo_pool_entry *e = &pool.entry[before + at];
    ck_assert_int_eq(e->cp, 4);
    ck_assert_int_eq(e->exchange, LUO_EXCHANGE_RING); /* the other link is slow here */
    NEAR(e->moved, 0.00599, 5e-6);
    NEAR(luo_pool_cost(e, 26886), 937.507, 5e-4);
    ck_assert_int_eq(e->cap, 4 * pool.entry[at].cap);
    luo_arena_free(a);
}
END_TEST

START_TEST(context_heads)
{
    luo_arena *a = luo_arena_new(0);
    const luo_pool_entry one = ENTRY(2, 1, 1e-6, .1, 5, 8192, 512);
    luo_pool pool = {1, LUO_NEW(a, luo_pool_entry)};
    pool.entry[0] = one;
    const luo_pool_context fast = {10, 1000, 8, 8, 1, 1e6}; /* the ring's link is slow */
    ck_assert_int_eq(luo_pool_add_context(a, &pool, &fast, 4, NULL), LUO_OK);
    ck_assert_int_eq(pool.entry[1].exchange, LUO_EXCHANGE_HEADS);
    /* (1e-6*1e6 + .1*1000)/4 + 8*10*2*1000*1000*3/(16*2*1e6) */
    NEAR(luo_pool_cost(&pool.entry[1], 1000), 25.25 + 15, 1e-9);
    luo_pool grouped = {1, pool.entry};
    const luo_pool_context few = {10, 1000, 8, 4, 1, 1e6}; /* 2*4 ranks, 4 heads of keys */
    ck_assert_int_eq(luo_pool_add_context(a, &grouped, &few, 4, NULL), LUO_OK);
    ck_assert_int_eq(grouped.entry[1].exchange, LUO_EXCHANGE_RING);
    luo_arena_free(a);
}
END_TEST

/* ---- dispatch ---- */

enum { A, B, D, TOYS };
static const luo_pool_entry toys[] = {ENTRY(4, 1, 1e-6, .02, 1, 8000, 0),
                                      ENTRY(1, 4, 1e-6, .02, .5, 2000, 0),
                                      ENTRY(2, 1, 2e-6, .04, 1, 4000, 0)};

typedef struct wanted {
    const char *id;
    int32_t m;
    struct {
        int32_t entry; /* toy, or -(tp*10 + pp) of the 7B pool */
        double mu;
    } replica[4];
    int32_t n;
    int64_t length[9];
    double best;
} wanted;
static const wanted dispatches[] = {
    {"H1", 2, {{A, 1}, {D, 1}}, 6, {4000, 1000, 1000, 1000, 1000, 2000}, 159},
    {"H2", 2, {{A, 1}, {B, 1}}, 6, {6000, 1000, 500, 500, 2000, 1500}, 200},
    {"H4",
     3,
     {{-81, 1}, {-41, 1}, {-41, 1}},
     8,
     {32000, 16000, 9000, 4000, 3000, 2000, 1000, 600},
     1690.834331},
    {"H5",
     3,
     {{-81, 1}, {-41, 1}, {-14, 1}},
     8,
     {32000, 16000, 9000, 4000, 3000, 2000, 1000, 600},
     1759.199411},
    {"H7", 2, {{D, 1}, {D, 1}}, 7, {500, 500, 500, 500, 1000, 1000, 3000}, 158.5},
    {"H8", 2, {{A, 1}, {D, 1}}, 6, {5000, 5000, 3000, 3000, 1000, 1000}, 292},
    {"H10",
     4,
     {{-41, 1}, {-41, 1}, {-41, 1}, {-41, 1}},
     8,
     {32000, 16000, 9000, 4000, 3000, 2000, 1000, 600},
     2862.451296},
    {"J1", 2, {{A, 1}, {D, 2}}, 6, {4000, 1000, 1000, 1000, 1000, 2000}, 180},
    {"J2", 3, {{A, 1.5}, {D, 1}, {D, 1}}, 6, {7000, 3000, 3000, 1000, 1000, 1000}, 0},
};

START_TEST(dispatch_row)
{
    const wanted *w = &dispatches[_i];
    luo_arena *a = luo_arena_new(0);
    luo_pool big = POOL_7B(a, 8, 4, 1);
    luo_pool pool = {TOYS + big.n, LUO_NEW_N(a, luo_pool_entry, TOYS + big.n)};
    luo_replica replica[4];
    int64_t length[9];
    int32_t assign[9], n = w->n;
    double best, bound, want = w->best;
    memcpy(pool.entry, toys, sizeof toys);
    memcpy(pool.entry + TOYS, big.entry, (size_t)big.n * sizeof *big.entry);
    memcpy(length, w->length, sizeof length);
    if (want == 0) { /* J2 has seven */
        length[n++] = 500;
        want = 283.5;
    }
    for (int32_t r = 0; r < w->m; r++) {
        const int32_t e = w->replica[r].entry;
        replica[r] =
            (luo_replica){e >= 0 ? e : TOYS + entry_of(&big, -e / 10, -e % 10), w->replica[r].mu};
    }
    const luo_dispatch_opts opts = {.published = true, .kicks = -1};
    ck_assert_int_eq(luo_dispatch(a, &pool, replica, w->m, length, n, &opts, assign, &best, NULL),
                     LUO_OK);
    NEAR(best, want, 1e-5);
    bound = luo_dispatch_bound(&pool, replica, w->m, length, n, true);
    ck_assert_double_le(bound, best + 1e-9);
    for (int32_t i = 0; i < n; i++)
        ck_assert_int_le(length[i], pool.entry[replica[assign[i]].entry].cap);
    luo_arena_free(a);
}
END_TEST

START_TEST(dispatch_ends)
{
    luo_arena *a = luo_arena_new(0);
    luo_pool pool = {TOYS, LUO_NEW_N(a, luo_pool_entry, TOYS)};
    memcpy(pool.entry, toys, sizeof toys);
    const luo_replica replica[] = {{D, 1}, {B, 1}};
    const luo_dispatch_opts opts = {.kicks = -1};
    const int64_t length[] = {4001};
    int32_t assign[1] = {7};
    double best = 3;
    luo_err err = {0};
    ck_assert_int_eq(luo_dispatch(a, &pool, replica, 2, length, 1, &opts, assign, &best, &err),
                     LUO_EINFEASIBLE);
    ck_assert_str_eq(err.text, "a sequence of 4001 tokens fits on no replica, the largest holds "
                               "4000; a replica with more room is needed.");
    ck_assert_int_eq(assign[0], 7);
    ck_assert_double_eq(best, 3);
    ck_assert(isinf(luo_dispatch_bound(&pool, replica, 2, length, 1, false)));
    ck_assert_int_eq(luo_dispatch(a, &pool, replica, 2, length, 0, &opts, assign, &best, &err),
                     LUO_OK);
    ck_assert_double_eq(best, 0);
    luo_arena_free(a);
}
END_TEST

/* ---- packing ---- */

static const struct {
    const char *id;
    luo_pool_entry entry;
    int32_t n;
    int64_t length[8];
    int32_t bins[2]; /* by score: sum, max */
    double score[2];
} packs[] = {
    {"P1",
     ENTRY(4, 1, 1e-6, .02, 5, 4000, 1000),
     5,
     {4000, 1000, 1000, 1000, 1000},
     {2, 2},
     {190, 202}},
    {"P2",
     ENTRY(1, 4, 1e-6, .02, 5, 4000, 1000),
     5,
     {4000, 1000, 1000, 1000, 1000},
     {2, 2},
     {493, 505}},
    {"P4",
     ENTRY(1, 4, 1e-6, .02, 5, 6000, 0),
     5,
     {3000, 3000, 2000, 2000, 2000},
     {5, 5},
     {517, 592}},
    {"P5",
     ENTRY(4, 1, 1e-5, .01, 10, 8000, 0),
     7,
     {8000, 4000, 4000, 2000, 2000, 2000, 2000},
     {3, 3},
     {1390, 2190}},
    {"P7",
     ENTRY(1, 4, 9.55466937e-07, 4.55224977e-02, 14.2737, 12672, 384),
     6,
     {9000, 4000, 3000, 2000, 1000, 600},
     {3, 2},
     {2545.5699, 2629.1008}},
    {"P8",
     ENTRY(1, 4, 1e-6, .02, 20, 3000, 500),
     7,
     {2000, 2000, 2000, 1500, 1500, 500, 500},
     {5, 5},
     {509, 512}},
};

START_TEST(pack_row)
{
    for (int score = LUO_SCORE_SUM; score <= LUO_SCORE_MAX; score++) {
        luo_arena *a = luo_arena_new(0);
        int32_t bin[8];
        luo_packed out;
        ck_assert_int_eq(luo_pack(a, &packs[_i].entry, packs[_i].length, packs[_i].n,
                                  (luo_pack_score)score, bin, &out, NULL),
                         LUO_OK);
        ck_assert_int_eq(out.nbins, packs[_i].bins[score]);
        NEAR(out.score, packs[_i].score[score], 1e-4);
        for (int32_t u = 0; u < out.nbins; u++) {
            ck_assert_int_le(out.tokens[u], packs[_i].entry.cap);
            if (u > 0) ck_assert_double_le(out.t[u], out.t[u - 1]);
        }
        luo_arena_free(a);
    }
}
END_TEST

static const struct {
    luo_pool_entry entry;
    int32_t n;
    int64_t length[6];
    int32_t nbins;
    int64_t tokens[3]; /* by falling time */
} greedy[] = {
    {ENTRY(1, 4, 1e-6, .02, 5, 6000, 0), 5, {3000, 3000, 2000, 2000, 2000}, 3, {5000, 5000, 2000}},
    {ENTRY(1, 4, 9.55466937e-07, 4.55224977e-02, 14.2737, 12672, 384),
     6,
     {9000, 4000, 3000, 2000, 1000, 600},
     2,
     {12600, 7000}},
};

START_TEST(greedy_row)
{
    luo_arena *a = luo_arena_new(0);
    int32_t bin[6];
    luo_packed out;
    ck_assert_int_eq(luo_pack_greedy(a, &greedy[_i].entry, greedy[_i].length, greedy[_i].n,
                                     greedy[_i].entry.cap, bin, &out, NULL),
                     LUO_OK);
    ck_assert_int_eq(out.nbins, greedy[_i].nbins);
    for (int32_t u = 0; u < out.nbins; u++) ck_assert_int_eq(out.tokens[u], greedy[_i].tokens[u]);
    luo_arena_free(a);
}
END_TEST

static const struct {
    int32_t n, pp;
    double t[6], event, sum;
} events[] = {
    {3, 2, {9, 6, 3}, 25, 27},
    {4, 3, {12, 9, 6, 3}, 49, 54},
    {4, 4, {10, 10, 10, 10}, 70, 70},
    {6, 3, {30, 3, 3, 3, 3, 3}, 105, 105},
    {6, 3, {3, 30, 3, 3, 30, 3}, 183, 132}, /* in this order the score is no bound */
};

START_TEST(event_row)
{
    luo_arena *a = luo_arena_new(0);
    double ms;
    ck_assert_int_eq(luo_pack_event(a, events[_i].t, events[_i].n, events[_i].pp, NULL, &ms, NULL),
                     LUO_OK);
    NEAR(ms, events[_i].event, 1e-9);
    NEAR(luo_pack_score_of(events[_i].t, events[_i].n, events[_i].pp, LUO_SCORE_SUM),
         events[_i].sum, 1e-9);
    luo_arena_free(a);
}
END_TEST

/* ---- proposal ---- */

static const luo_pool_entry three[] = {ENTRY(1, 1, 4e-6, .08, 2, 2048, 0),
                                       ENTRY(2, 1, 2e-6, .045, 3, 4096, 0),
                                       ENTRY(4, 1, 1e-6, .026, 5, 8192, 0)};
static const luo_pool_entry five[] = {
    ENTRY(1, 1, 4e-6, .08, 2, 1024, 0), ENTRY(1, 2, 2e-6, .041, 1, 2048, 0),
    ENTRY(1, 4, 1e-6, .021, .5, 4096, 0), ENTRY(2, 2, 1e-6, .023, 1.5, 8192, 0),
    ENTRY(4, 1, 1e-6, .026, 5, 8192, 0)};
static int64_t ends3[] = {2048, 4096, 8192}, ends5[] = {1024, 2048, 4096, 8192};
static int64_t ends7[] = {1024, 2048, 4096, 8192, 16384, 32768};
static int64_t l3[] = {1000, 3000, 7000}, l5[] = {500, 1500, 3000, 7000};
static int64_t l7[] = {500, 1500, 3000, 6000, 12000, 24000};
static double n3[] = {40, 6, 2}, n5[] = {60, 16, 6, 1}, n7[] = {100, 25, 12, 6, 2, 1};

enum { F = LUO_PROPOSE_FLOOR, P = LUO_PROPOSE_PUBLISHED };
static const struct {
    int which; /* 3, 5, 7: pool, grid and histogram */
    int32_t devices;
    int mode;
    int64_t longest;
    double ms;
    int32_t nparts; /* 0: not looked at */
    struct {
        int32_t copies, tp, pp;
    } part[3];
} proposals[] = {
    {3, 4, F, 8192, 2304, 1, {{1, 4, 1}}},
    {3, 6, F, 8192, 1720, 2, {{2, 1, 1}, {1, 4, 1}}},
    {3, 8, F, 8192, 1024, 2, {{4, 1, 1}, {1, 4, 1}}},
    {3, 16, F, 8192, 472, 3, {{8, 1, 1}, {2, 2, 1}, {1, 4, 1}}},
    {3, 20, F, 8192, 430, 0, {{0}}},
    {3, 6, P, 8192, 1720, 0, {{0}}},
    {3, 16, P, 8192, 472, 0, {{0}}},
    {5, 8, P, 8192, 1153.5, 1, {{2, 2, 2}}},
    {5, 8, F, 8192, 1259.25, 1, {{2, 2, 2}}},
    {5, 12, P, 8192, 756, 2, {{4, 1, 1}, {2, 2, 2}}},
    {5, 12, F, 8192, 764, 2, {{4, 1, 1}, {2, 4, 1}}},
    {5, 24, P, 8192, 375.1, 0, {{0}}},
    {5, 24, F, 8192, 382, 0, {{0}}},
    {7, 32, F, 8192, 1301.671, 2, {{9, 1, 2}, {7, 2, 1}}},
    {7, 32, F, 32768, 1974.143, 3, {{6, 1, 2}, {6, 2, 1}, {1, 8, 1}}},
    {7, 32, P, 8192, 1152.285, 0, {{0}}},
    {7, 32, P, 32768, 1790.191, 2, {{8, 1, 2}, {4, 4, 1}}},
};

START_TEST(proposal_row)
{
    luo_arena *a = luo_arena_new(0);
    const int which = proposals[_i].which;
    luo_pool pool = {which == 3 ? 3 : 5, NULL};
    pool.entry = LUO_NEW_N(a, luo_pool_entry, 5);
    memcpy(pool.entry, which == 3 ? three : five, (size_t)pool.n * sizeof *three);
    if (which == 7) pool = POOL_7B(a, 8, 4, 1);
    const luo_propose_grid grid = {which == 3   ? 3
                                   : which == 5 ? 4
                                                : 6,
                                   which == 3   ? ends3
                                   : which == 5 ? ends5
                                                : ends7};
    const luo_histogram h = {which == 3   ? 3
                             : which == 5 ? 4
                                          : 6,
                             which == 3   ? l3
                             : which == 5 ? l5
                                          : l7,
                             which == 3   ? n3
                             : which == 5 ? n5
                                          : n7,
                             0};
    luo_proposal *found, *p = NULL;
    int32_t n;
    ck_assert_int_eq(luo_propose(a, &pool, &h, proposals[_i].devices, 1, &grid,
                                 (luo_propose_mode)proposals[_i].mode, &found, &n, NULL),
                     LUO_OK);
    for (int32_t i = 0; i < n; i++)
        if (found[i].longest == proposals[_i].longest) p = &found[i];
    ck_assert_ptr_nonnull(p);
    NEAR(p->ms, proposals[_i].ms, 6e-4);
    if (proposals[_i].nparts > 0) ck_assert_int_eq(p->nparts, proposals[_i].nparts);
    for (int32_t k = 0; k < proposals[_i].nparts; k++) {
        ck_assert_int_eq(p->part[k].copies, proposals[_i].part[k].copies);
        ck_assert_int_eq(pool.entry[p->part[k].entry].tp, proposals[_i].part[k].tp);
        ck_assert_int_eq(pool.entry[p->part[k].entry].pp, proposals[_i].part[k].pp);
    }
    luo_arena_free(a);
}
END_TEST

LUO_SUITE("hydraulis", LUO_T_N(cap_row, LUO_ROWS(caps)), LUO_T(caps_of_a_pool),
          LUO_T_N(published_pools, LUO_ROWS(pools)), LUO_T(memory_of_the_model),
          LUO_T(slowest_type_counts),
          LUO_T(context_cost),
          LUO_T(context_heads), LUO_T_N(dispatch_row, LUO_ROWS(dispatches)), LUO_T(dispatch_ends),
          LUO_T_N(pack_row, LUO_ROWS(packs)), LUO_T_N(greedy_row, LUO_ROWS(greedy)),
          LUO_T_N(event_row, LUO_ROWS(events)), LUO_T_N(proposal_row, LUO_ROWS(proposals)))
