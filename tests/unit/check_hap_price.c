/* check_hap_price.c: collectives in two forms (HV1, HV2), re-shares (HG4), memory (HM1), J and
 * texts of programs (HN2, HN4, HN6, HS1) at given shares. */
#include <math.h>

#include "core/plan/hap/search.h"
#include "tests/check_main.h"
#include "tests/parked/hap_graphs.h"

#define NEAR(x, y) ck_assert_double_eq_tol((x), (y), 1e-9 * ((y) > 1 ? (y) : 1))

static const struct {
    const char *id;
    double latency, most, seconds;
    bool grouped;
} forms[] = {
    {"HV1", 0, .3633, 1.9961715231, false},
    {"HV1", 0, .41, 2.1938247477, true},
    {"HV2", .01, .3633, 2.0061715231, false},
    {"HV2", .01, .41, 2.2338247477, true},
};

START_TEST(form)
{
    luo_hap_numbers numbers = luo_hap_graphs_set("H4");
    double most = forms[_i].most;
    const luo_hap_cuts cuts = {.nextents = 1, .ndevices = 4, .most = &most};
    const luo_hap_coll coll = {.kind = LUO_HAP_MOVE_AG, .bytes = 4e9};
    bool grouped;
    for (int32_t l = 0; l < LUO_HAP_LINKS; l++) numbers.line[l].latency_s = forms[_i].latency;
    NEAR(luo_hap_price(&numbers, &cuts, &coll, &grouped), forms[_i].seconds);
    ck_assert_int_eq(grouped, forms[_i].grouped);
}
END_TEST

static const struct {
    const char *set;
    double crossover;
} crossovers[] = {{"H4", .39927}, {"H8", .12933}, {"H29", .05114}};

START_TEST(crossover)
{
    const luo_hap_numbers numbers = luo_hap_graphs_set(crossovers[_i].set);
    const luo_hap_coll coll = {.kind = LUO_HAP_MOVE_AG, .bytes = 4e9};
    for (int side = 0; side < 2; side++) {
        double most = crossovers[_i].crossover + (side ? 1e-5 : -1e-5);
        const luo_hap_cuts cuts = {
            .nextents = 1, .ndevices = luo_hap_numbers_devices(&numbers), .most = &most};
        bool grouped;
        luo_hap_price(&numbers, &cuts, &coll, &grouped);
        ck_assert_int_eq(grouped, side);
    }
}
END_TEST

static const struct {
    int32_t n;
    double from[4], to[4], moved;
} reshares[] = {{3, {5, 3, 2}, {2, 3, 5}, 3}, {2, {6, 2}, {4, 4}, 2}, {4, {4, 4}, {0, 0, 4, 4}, 4}};

START_TEST(reshare) /* HG4 */
{
    NEAR(luo_hap_price_reshare(reshares[_i].n, reshares[_i].from, reshares[_i].to),
         reshares[_i].moved);
}
END_TEST

static const luo_hap_mlp_in hn2 = {4, 2, {32, 32, 32}, false, false, false},
                            hn6 = {4, 2, {32, 32, 32}, true, false, false},
                            hs1 = {4, 2, {64, 64, 8}, true, false, false};
static const struct {
    const char *id;
    const luo_hap_mlp_in *graph;
    double speed[2], elt, share, cost;
    luo_hap_opts opts;
    const char *text;
} programs[] = {
    {"HN2", &hn2, {300, 100}, 4, .75, 143.68, {0}, "c w0:G1\nc\nc w1:G0\nb h1:RS0\n"},
    {"HN2 even", &hn2, {300, 100}, 4, .5, 236.16, {0}, "c w0:G1\nc\nc w1:G0\nb h1:RS0\n"},
    {"HN4", &hn2, {3e6, 1e6}, 4, .75, 38.410528, {0}, NULL},
    {"HN4 even", &hn2, {3e6, 1e6}, 4, .5, 25.621056, {0}, NULL},
    {"HN6", &hn6, {300, 100}, 4, .75, 144.32, {0}, "c w0:G1 v0:G0\nc\nc w1:G0 v1:I\nb h1:RS0\n"},
    {"HS1",
     &hs1,
     {1e6, 1e6},
     10,
     .5,
     80.0579136,
     {.factors = true, .rules = "b"},
     "b w0:I/SFB v0:I\nb\nb w1:I/SFB v1:I\nb\n"},
};

START_TEST(program)
{
    luo_arena *a = luo_arena_new(0);
    const luo_hap_graph *graph = luo_hap_graphs_mlp(a, programs[_i].graph);
    const luo_hap_numbers numbers =
        luo_hap_graphs_toy(NULL, programs[_i].speed, programs[_i].elt, 40, 20, 80);
    const double shares[] = {programs[_i].share, 1 - programs[_i].share};
    for (int layers = 0; layers < 2; layers++) {
        luo_hap_opts opts = programs[_i].opts;
        luo_hap_space *space;
        luo_hap_program *found;
        luo_str text = {0};
        luo_err err = {0};
        opts.layers = layers;
        ck_assert_int_eq(luo_hap_numbers_check(&numbers, graph, &err), LUO_OK);
        ck_assert_int_eq(luo_hap_space_new(a, graph, &opts, &space, &err), LUO_OK);
        ck_assert_int_eq(luo_hap_synth(a, space, &numbers, shares, 0, &found, &err), LUO_OK);
        luo_hap_program_print(&text, found);
        ck_assert_msg(fabs(found->cost_s - programs[_i].cost) <= 1e-9 * programs[_i].cost,
                      "%s: %.10g\n%s", programs[_i].id, found->cost_s, luo_str_get(&text));
        if (programs[_i].text) ck_assert_str_eq(luo_str_get(&text), programs[_i].text);
        luo_str_free(&text);
    }
    luo_arena_free(a);
}
END_TEST

START_TEST(memory) /* HM1 */
{
    luo_arena *a = luo_arena_new(0);
    const luo_hap_graph *graph = luo_hap_graphs_mlp(a, &hn2);
    const luo_hap_numbers numbers = luo_hap_graphs_toy(NULL, (double[]){300, 100}, 4, 40, 20, 80);
    const double shares[] = {.75, .25};
    const luo_hap_opts opts = {0};
    luo_hap_space *space;
    luo_hap_program *found;
    luo_hap_cuts *cuts;
    double bytes[2];
    ck_assert_int_eq(luo_hap_space_new(a, graph, &opts, &space, NULL), LUO_OK);
    ck_assert_int_eq(luo_hap_synth(a, space, &numbers, shares, 0, &found, NULL), LUO_OK);
    ck_assert_int_eq(luo_hap_program_cuts(a, space, &numbers, shares, &cuts, NULL), LUO_OK);
    ck_assert_int_eq(luo_hap_program_memory(a, found, cuts, bytes, NULL), LUO_OK);
    NEAR(bytes[0], 26768);
    NEAR(bytes[1], 9608);
    luo_arena_free(a);
}
END_TEST

START_TEST(sentences)
{
    luo_arena *a = luo_arena_new(0);
    const luo_hap_graph *graph = luo_hap_graphs_mlp(a, &hn2);
    luo_hap_numbers numbers = luo_hap_graphs_toy(NULL, (double[]){300, 100}, 4, 40, 20, 80);
    const double wrong[] = {.7, .5};
    const luo_hap_opts opts = {0};
    luo_hap_space *space;
    luo_hap_program *found;
    luo_err err = {0};
    ck_assert_int_eq(luo_hap_space_new(a, graph, &opts, &space, NULL), LUO_OK);
    ck_assert_int_eq(luo_hap_synth(a, space, &numbers, wrong, 0, &found, &err), LUO_EINPUT);
    ck_assert_str_eq(err.text, "shares of segment 0 sum to 1.2; they must sum to 1.");
    numbers.count[1] = 0;
    ck_assert_int_eq(luo_hap_numbers_check(&numbers, graph, &err), LUO_EINPUT);
    ck_assert_str_eq(err.text, "type `B` has 0 devices; 1 or more is expected.");
    numbers.count[1] = 1;
    numbers.line[LUO_HAP_LINK_AG].bandwidth_bytes_s = 0;
    ck_assert_int_eq(luo_hap_numbers_check(&numbers, graph, &err), LUO_EINPUT);
    ck_assert_str_eq(err.text, "bandwidth of `allgather` is 0; a number above 0 is expected.");
    numbers.line[LUO_HAP_LINK_AG].latency_s = -1;
    numbers.line[LUO_HAP_LINK_AG].bandwidth_bytes_s = 1;
    ck_assert_int_eq(luo_hap_numbers_check(&numbers, graph, &err), LUO_EINPUT);
    ck_assert_str_eq(err.text, "latency of `allgather` is -1; a number from 0 on is expected.");
    numbers.speed[1][LUO_HAP_ON_GEMM] = 0;
    ck_assert_int_eq(luo_hap_numbers_check(&numbers, graph, &err), LUO_EINPUT);
    ck_assert_str_eq(err.text, "type `B` has speed 0 for class `gemm`; remove it from the cluster "
                               "or give a speed.");
    numbers.speed[1][LUO_HAP_ON_GEMM] = (double)NAN;
    ck_assert_int_eq(luo_hap_numbers_check(&numbers, graph, &err), LUO_EINPUT);
    ck_assert_str_eq(err.text, "type `B` has no `gemm_tflop_per_s`, needed by op `h0`; a number "
                               "above 0 or null is expected.");
    luo_arena_free(a);
}
END_TEST

LUO_SUITE("hap.price", LUO_T_N(form, LUO_ROWS(forms)), LUO_T_N(crossover, LUO_ROWS(crossovers)),
          LUO_T_N(reshare, LUO_ROWS(reshares)), LUO_T_N(program, LUO_ROWS(programs)), LUO_T(memory),
          LUO_T(sentences))
