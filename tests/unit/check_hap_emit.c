/* check_hap_emit.c: programs as annotations: those of HN2 word for word, all others parse and have
 * each name once. */
#include <math.h>

#include "core/hspmd/ann.h"
#include "core/plan/hap/alternate.h"
#include "core/plan/hap/emit.h"
#include "core/plan/hap_graph/hap_model.h"
#include "tests/cluster_fixture.h"
#include "tests/parked/hap_graphs.h"
#include "tests/plan_make.h"

static const luo_plan_annotation hn2[] = {
    {"x", "[0,1]{-1:2}", "", "auto"},           {"w0", "[0,1]{1:(3,1)}", "", "auto"},
    {"h0", "[0,1]{1:(3,1)}", "", "auto"},       {"a0", "[0,1]{1:(3,1)}", "", "auto"},
    {"w1", "[0,1]{0:(3,1)}", "", "auto"},       {"h1", "[0,1]{-2:2}", "", "auto"},
    {"h1", "[0,1]{0:(3,1)}", "loss", "padded"}, {"y", "[0,1]{0:(3,1)}", "", "auto"},
    {"L", "[0,1]{-2:2}", "", "auto"},           {"d.h1@loss", "[0,1]{0:(3,1)}", "", "auto"},
    {"d.h1", "[0,1]{-1:2}", "", "padded"},      {"d.a0", "[0,1]{1:(3,1)}", "", "auto"},
    {"d.w1", "[0,1]{0:(3,1)}", "", "auto"},     {"d.h0", "[0,1]{1:(3,1)}", "", "auto"},
    {"d.w0", "[0,1]{1:(3,1)}", "", "auto"},
};

START_TEST(of_hn2)
{
    luo_arena *a = luo_arena_new(0);
    const luo_hap_mlp_in in = {4, 2, {32, 32, 32}, false, false, false};
    const luo_hap_graph *graph = luo_hap_graphs_mlp(a, &in);
    const luo_hap_numbers numbers = luo_hap_graphs_toy(NULL, (double[]){300, 100}, 4, 40, 20, 80);
    const luo_hap_job job = {0};
    luo_hap_result *result;
    luo_plan_annotation *at;
    int32_t n;
    ck_assert_int_eq(luo_hap_alternate(a, graph, &numbers, &job, &result, NULL), LUO_OK);
    ck_assert_int_eq(luo_hap_emit(a, result->program, &result->numbers, result->shares,
                                  (int32_t[]){0, 1}, &at, &n, NULL),
                     LUO_OK);
    ck_assert_int_eq(n, LUO_ROWS(hn2));
    for (int32_t i = 0; i < n; i++) {
        ck_assert_str_eq(at[i].tensor, hn2[i].tensor);
        ck_assert_str_eq(at[i].annotation, hn2[i].annotation);
        ck_assert_str_eq(at[i].at, hn2[i].at);
        ck_assert_str_eq(at[i].variant, hn2[i].variant);
    }
    luo_arena_free(a);
}
END_TEST

static void check_all(luo_arena *a, const luo_plan_annotation *at, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        const luo_ann *ann;
        luo_err err = {0};
        const luo_status st = luo_ann_parse(a, at[i].annotation, &ann, &err);
        ck_assert_msg(st == LUO_OK, "%s: %s", at[i].annotation, err.text);
        for (int32_t k = 0; k < i; k++)
            ck_assert_msg(strcmp(at[k].tensor, at[i].tensor) != 0 ||
                              strcmp(at[k].at, at[i].at) != 0,
                          "`%s` at `%s` twice", at[i].tensor, at[i].at);
    }
}

static bool has(const luo_plan_annotation *at, int32_t n, const char *tensor, const char *variant)
{
    for (int32_t i = 0; i < n; i++)
        if (strcmp(at[i].tensor, tensor) == 0 && strcmp(at[i].variant, variant) == 0) return true;
    return false;
}

START_TEST(of_others) /* exchanges, factors, ZeRO, pieces of no length */
{
    luo_arena *a = luo_arena_new(0);
    const int32_t count[] = {2, 3}, device[] = {4, 7, 0, 1, 2};
    const luo_hap_encoder sizes = {4, 8, 16, 2, 32, 32, 4, 3};
    luo_hap_numbers numbers = luo_hap_graphs_toy(count, (double[]){3e6, 1e6}, 4, 4e3, 2e3, 16e3);
    const luo_hap_graph *graph = luo_hap_network_bert(a, &sizes, 2);
    const struct {
        luo_hap_job job;
        const char *tensor, *variant;
    } jobs[] = {{{.starts = 0}, "d.E", "auto"},
                {{.opts = {.factors = true, .rules = "b"}}, "d.0.wqkv", "factors"},
                {{.opts = {.rules = "b"}, .zero = LUO_HAP_ZERO_ON}, "d.0.wqkv", "padded"}};
    for (int k = 0; k < LUO_ROWS(jobs); k++) {
        luo_hap_result *result;
        luo_plan_annotation *at;
        int32_t n;
        if (k == 1) numbers.line[LUO_HAP_LINK_AR].bandwidth_bytes_s = 10; /* so that factors pay */
        ck_assert_int_eq(luo_hap_alternate(a, graph, &numbers, &jobs[k].job, &result, NULL),
                         LUO_OK);
        ck_assert_int_eq(luo_hap_emit(a, result->program, &result->numbers, result->shares, device,
                                      &at, &n, NULL),
                         LUO_OK);
        check_all(a, at, n);
        ck_assert_msg(has(at, n, jobs[k].tensor, jobs[k].variant), "job %d: `%s` `%s`", k,
                      jobs[k].tensor, jobs[k].variant);
    }
    luo_arena_free(a);
}
END_TEST

/* A plan whose step is above what is of use is none; others are as without a bound. */
START_TEST(of_no_use)
{
    luo_arena *a = luo_arena_new(0);
    const luo_cluster *cluster = fixture_cluster(a, 1, 1, 4);
    const luo_model model = luo_test_llama(2, 256, 704, 4, 1000);
    const double rate[] = {1, 1, 1, 4};
    luo_stack stack;
    luo_stack_default(&stack);
    luo_hap_ask ask = {.model = &model,
                       .cluster = cluster,
                       .stack = &stack,
                       .usable = (int32_t[]){0, 1, 2, 3},
                       .nusable = 4,
                       .rate = rate,
                       .sequences = 16,
                       .tokens = 128,
                       .micro_batches = 1};
    luo_plan *any, *plan;
    double step_s, again_s;
    ck_assert_int_eq(luo_hap_plan(a, &ask, &any, &step_s, NULL), LUO_OK);
    ck_assert_ptr_nonnull(any);
    ask.most_s = 1.01 * step_s;
    ck_assert_int_eq(luo_hap_plan(a, &ask, &plan, &again_s, NULL), LUO_OK);
    ck_assert_ptr_nonnull(plan);
    ck_assert(luo_plan_hash(plan) == luo_plan_hash(any) && again_s == step_s);
    ask.most_s = .1 * step_s;
    ck_assert_int_eq(luo_hap_plan(a, &ask, &plan, &again_s, NULL), LUO_OK);
    ck_assert_ptr_null(plan);
    ck_assert(again_s > ask.most_s);
    luo_arena_free(a);
}
END_TEST

/* The fewest micro-batches that fit, tried one after another. */
static int32_t one_by_one(luo_arena *a, const luo_hap_ask *ask, const luo_hap_devices *devices)
{
    const luo_cost_ctx ctx = {
        .cluster = ask->cluster, .stack = ask->stack, .dtype = ask->model->dtype};
    const luo_hap_job job = {.opts = {.sayable = true, .factors = true}, .as_it_is = ask->as_it_is};
    for (int32_t m = 1; ask->sequences % m == 0; m *= 2) {
        luo_hap_graph *graph;
        luo_hap_numbers numbers;
        luo_hap_result *result;
        ck_assert_int_eq(luo_hap_model_graph(a, ask->model, ctx.dtype, ask->sequences / m,
                                             ask->tokens, &graph, NULL),
                         LUO_OK);
        ck_assert_int_eq(luo_hap_cluster_numbers(a, graph, &ctx, devices, &numbers, NULL), LUO_OK);
        if (luo_hap_alternate(a, graph, &numbers, &job, &result, NULL) == LUO_OK) return m;
    }
    return 0;
}

/* From room for all samples at once to room for nothing: halving finds what looking at every number
 * finds, and where one copy of the state has no room that is what is said. */
START_TEST(fewest_micro_batches)
{
    static const double rate[] = {1, 1, 1, 2};
    int32_t met[3] = {0};
    for (int32_t k = 0; k < 40; k++) {
        luo_arena *a = luo_arena_new(0);
        const luo_model model = luo_test_llama(2, 256, 704, 4, 1000);
        const luo_cluster *cluster = fixture_cluster(a, 1, 1, 4);
        luo_profile *profile = (luo_profile *)(uintptr_t)luo_cluster_profile(cluster, 0);
        luo_stack stack;
        luo_hap_devices devices;
        luo_err err = {0};
        luo_plan *plan;
        double step_s;
        luo_stack_default(&stack);
        profile->reserved_bytes = 0;
        profile->memory_bytes = 6e6 * pow(1.15, k);
        const luo_hap_ask ask = {.model = &model,
                                 .cluster = cluster,
                                 .stack = &stack,
                                 .usable = (int32_t[]){0, 1, 2, 3},
                                 .nusable = 4,
                                 .rate = rate,
                                 .sequences = 16,
                                 .tokens = 128,
                                 .micro_batches = 1,
                                 .as_it_is = k % 2};
        ck_assert_int_eq(luo_hap_devices_of(a, cluster, ask.usable, 4, rate, &devices, NULL),
                         LUO_OK);
        const int32_t m = one_by_one(a, &ask, &devices);
        const luo_status st = luo_hap_plan(a, &ask, &plan, &step_s, &err);
        ck_assert_msg(st == (m ? LUO_OK : LUO_EINFEASIBLE), "%d: %d, %s", k, m, err.text);
        if (m) ck_assert_int_eq(plan->pipelines[0].micro_batches, m);
        if (!m && strstr(err.text, "one copy of parameters"))
            met[2]++;
        else
            met[m > 1]++;
        luo_arena_free(a);
    }
    printf("%d fit at once or never, %d in parts, %d copies without room\n", met[0], met[1],
           met[2]);
    ck_assert(met[0] > 0 && met[1] > 0 && met[2] > 0);
}
END_TEST

LUO_SUITE("hap.emit", LUO_T(of_hn2), LUO_T(of_others), LUO_T(of_no_use),
          LUO_T(fewest_micro_batches))
