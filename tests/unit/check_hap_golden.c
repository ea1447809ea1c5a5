/* check_hap_golden.c: networks of the published evaluation on the published bandwidths: baselines
 * and the planner (vectors of "goldens"), and what the search needs for it. */
#include <math.h>

#include "core/plan/hap/baseline.h"
#include "tests/check_main.h"
#include "tests/parked/hap_graphs.h"

static const struct {
    const char *set, *model;
    double cost[LUO_HAP_BASELINES]; /* 0: none */
    double hap, share[2];           /* share 0: even */
} rows[] = {
    {"H8", "vgg19", {.1638540497, .1530257493}, .0678901043, {.1871999, .1042667}},
    {"H8", "bert-base", {2.028302458, 1.725804133}, 1.720709402, {.1871999, .1042667}},
    {"H8", "bert-moe", {3.087702611, 2.664618022, 3.026553278}, 2.659523291, {.1871999, .1042667}},
    {"H29", "vgg19", {1.240597972, 1.229769672}, .264885548, {0}},
    {"H29", "vit", {1.464937752, 1.347664251}, 1.347664251, {.0507702, .0282780}},
    {"H29", "bert-base", {3.079540689, 2.777042364}, 2.704999873, {.0507702, .0282780}},
    {"H64", "bert-base", {3.079540689, 2.777042364}, 2.777042364, {.0234000, .0130333}},
    {"H64", "bert-moe", {34.28187764, 33.81815511, 11.60490862}, 11.60427062, {0}},
};

static void near(const char *what, const char *model, double got, double want)
{
    ck_assert_msg(fabs(got - want) <= 1e-9 * want, "%s of %s: %.11g, not %.11g", what, model, got,
                  want);
}

START_TEST(row)
{
    luo_arena *a = luo_arena_new(1 << 20);
    const luo_hap_numbers numbers = luo_hap_graphs_set(rows[_i].set);
    const int32_t n = luo_hap_numbers_devices(&numbers);
    const luo_hap_graph *graph = luo_hap_graphs_named(a, rows[_i].model, n, 0);
    const luo_hap_job job = {
        .opts = {.factors = true}, .no_memory = true, .zero = LUO_HAP_ZERO_OFF};
    luo_hap_result *result;
    for (int32_t b = 0; b < LUO_HAP_BASELINES; b++) {
        ck_assert_int_eq(
            luo_hap_baseline_find(a, graph, &numbers, &job, (luo_hap_baseline)b, &result, NULL),
            LUO_OK);
        ck_assert_int_eq(result != NULL, rows[_i].cost[b] > 0);
        if (result)
            near(luo_hap_baseline_name((luo_hap_baseline)b), rows[_i].model, result->cost_s,
                 rows[_i].cost[b]);
    }
    ck_assert_int_eq(luo_hap_alternate(a, graph, &numbers, &job, &result, NULL), LUO_OK);
    near("hap", rows[_i].model, result->cost_s, rows[_i].hap);
    for (int t = 0; t < 2; t++) {
        const double want = rows[_i].share[t] > 0 ? rows[_i].share[t] : 1. / n;
        ck_assert_msg(fabs(result->shares[t] - want) < 1e-6, "share %d: %.9g", t,
                      result->shares[t]);
    }
    printf("%s %s: %d operations, %d triples, %d words, %lld states, %lld pops, %d rounds\n",
           rows[_i].set, rows[_i].model, graph->nops, result->space->ntriples, result->space->words,
           (long long)result->states, (long long)result->pops, result->rounds);
    luo_arena_free(a);
}
END_TEST

START_TEST(parameters)
{
    static const struct {
        const char *model;
        int32_t n, nops;
        int64_t parameters;
    } counts[] = {{"bert-base", 8, 124, 136304128},
                  {"bert-moe", 8, 142, 561028096},
                  {"bert-moe", 64, 142, 3732438016},
                  {"vit", 29, 126, 85150474},
                  {"vgg19", 8, 44, 139611210}};
    luo_arena *a = luo_arena_new(1 << 20);
    for (int i = 0; i < LUO_ROWS(counts); i++) {
        const luo_hap_graph *graph = luo_hap_graphs_named(a, counts[i].model, counts[i].n, 0);
        int64_t sum = 0;
        for (int32_t x = 0; x < graph->ntensors; x++)
            if (graph->tensor[x].role == LUO_HAP_PARAM) sum += graph->tensor[x].elements;
        ck_assert_int_eq(graph->nops, counts[i].nops);
        ck_assert_int_eq(sum, counts[i].parameters);
    }
    luo_arena_free(a);
}
END_TEST

START_TEST(long_bert) /* 48 layers on H64, search alone */
{
    luo_arena *a = luo_arena_new(1 << 20);
    const luo_hap_numbers numbers = luo_hap_graphs_set("H64");
    const luo_hap_graph *graph = luo_hap_graphs_named(a, "bert-base", 64, 48);
    for (int layers = 0; layers < 2; layers++) {
        const luo_hap_opts opts = {.factors = true, .layers = layers};
        luo_hap_space *space;
        luo_hap_program *program;
        double shares[2];
        ck_assert(luo_hap_start_shares(graph, &numbers, LUO_HAP_START_PROP, false, shares));
        ck_assert_int_eq(luo_hap_space_new(a, graph, &opts, &space, NULL), LUO_OK);
        ck_assert_int_eq(luo_hap_synth(a, space, &numbers, shares, 0, &program, NULL), LUO_OK);
        near("search", "bert-48", program->cost_s, 8.70834725038);
        printf("bert-48, layers %d: %d operations, %d triples, %lld states, %lld pops\n", layers,
               graph->nops, space->ntriples, (long long)program->states, (long long)program->pops);
    }
    luo_arena_free(a);
}
END_TEST

LUO_SUITE("hap.golden", LUO_T_N(row, LUO_ROWS(rows)), LUO_T(parameters), LUO_T(long_bert))
