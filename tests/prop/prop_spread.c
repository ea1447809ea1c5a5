/* prop_spread.c: the range of a simulated step from sensitivities against draws of all constants,
 * each with a simulated step of its own, on random small plans; and that of a pair of plans. */
#include "core/cost/spread.h"

#include <math.h>
#include <string.h>

#include "core/plan/compile.h"
#include "core/plan/grid.h"
#include "core/run/policy/judge_range.h"
#include "sim/sim.h"
#include "tests/cost_fixture.h"
#include "tests/plan_make.h"
#include "tests/prop/prop.h"

enum { DRAWS = 300 }; /* the deviation of so many is known to 4 % */
#define NEAR 0.15
#define LITTLE 2e-3 /* deviations of a pair below it are noise of clamps and of waves of tiles */

typedef struct random_case {
    luo_arena *arena;
    luo_profile profile;
    luo_model model;
    luo_stack stack;
    luo_cluster cluster;
    luo_judge judge;
    luo_err err;
} random_case;

static double between(luo_rng *rng, double lo, double hi)
{
    return lo + (hi - lo) * luo_rng_u(rng);
}

/* Ratios far enough from 1 that no draw is cut; spreads of 2 to 12 %. */
static void make_profile(random_case *c, luo_rng *rng)
{
    static const struct {
        const char *name;
        double lo, hi;
    } rates[] = {{"gemm_ratio", 0.4, 0.65},
                 {"memory_ratio", 0.4, 0.65},
                 {"attention_forward_ratio", 0.2, 0.5},
                 {"attention_backward_ratio", 0.2, 0.5},
                 {"net_ratio", 0.4, 0.65},
                 {"net_half_bytes", 1e6, 2e7},
                 {"net_step_us", 1, 10},
                 {"launch_us", 1, 10},
                 {"p2p_us", 5, 20}};
    luo_value *v = LUO_NEW_N(c->arena, luo_value, LUO_ROWS(rates) + 3);
    int32_t n = 0;
    v[n++] = (luo_value)LUO_VALUE("peak_bf16_tflop_per_s", 300);
    v[n++] = (luo_value)LUO_VALUE("memory_gbytes_per_s", 2000);
    v[n++] = (luo_value)LUO_VALUE("memory_gib", 80);
    for (int i = 0; i < LUO_ROWS(rates); i++)
        v[n++] = (luo_value){.name = rates[i].name,
                             .source = "random",
                             .value = between(rng, rates[i].lo, rates[i].hi),
                             .provenance = LUO_FROM_CHOSEN,
                             .has_spread = true,
                             .spread = between(rng, 0.02, 0.12)};
    c->profile = (luo_profile){.name = "random", .nvalues = n, .values = v};
    ck_assert_msg(luo_profile_finish(&c->profile, &c->err) == LUO_OK, "%s", c->err.text);
}

static void make_stack(random_case *c, luo_rng *rng, double source, double residual)
{
    static const char *const names[] = {"host_launch_us", "busbw_factor", "tp_exposed_factor"};
    static const double at[] = {10, 1, 0.5};
    luo_stack_default(&c->stack);
    for (int i = 0; i < LUO_ROWS(names); i++) {
        const luo_value v = {.name = names[i],
                             .source = "random",
                             .value = at[i],
                             .provenance = LUO_FROM_CHOSEN,
                             .has_spread = true,
                             .spread = between(rng, 0.02, 0.12)};
        ck_assert_msg(luo_stack_take(&c->stack, &v, &c->err) == LUO_OK, "%s", c->err.text);
    }
    c->stack.source_spread = source;
    c->stack.residual_spread = residual;
}

static void make_case(random_case *c, luo_rng *rng, double source, double residual)
{
    *c = (random_case){.arena = luo_arena_new(1 << 20)};
    luo_node_group *group = LUO_NEW(c->arena, luo_node_group);
    make_profile(c, rng);
    make_stack(c, rng, source, residual);
    *group = luo_test_group("g", 2, 4, &c->profile);
    c->cluster = luo_test_cluster(c->arena, group, 1);
    const int64_t hidden = (int64_t)256 << luo_rng_pick(rng, 4);
    c->model = luo_test_llama(4, hidden, 2 * hidden, 8, 4096);
    c->judge = (luo_judge){.simulator = &luo_sim_backend,
                           .model = &c->model,
                           .cluster = &c->cluster,
                           .stack = &c->stack,
                           .comm = LUO_COMM_MODEL};
}

static luo_programs *make_plan(random_case *c, luo_rng *rng)
{
    static const int32_t shapes[][3] = {{1, 1, 8}, {2, 1, 4}, {1, 2, 4}, {8, 1, 1},
                                        {4, 2, 1}, {2, 2, 2}, {2, 4, 1}}; /* dp, pp, tp */
    const int32_t *shape = shapes[luo_rng_pick(rng, LUO_ROWS(shapes))];
    const luo_compile_opts opts = {.check = true};
    int32_t *dev = LUO_NEW_N(c->arena, int32_t, 8);
    luo_plan *plan = NULL;
    luo_programs *set = NULL;
    for (int32_t i = 0; i < 8; i++) dev[i] = i;
    const luo_grid g = {.name = "g",
                        .model = &c->model,
                        .cluster = &c->cluster,
                        .dtype = LUO_BF16,
                        .sequence_tokens = 512 << luo_rng_pick(rng, 3),
                        .micro_batches = 1 + (int32_t)luo_rng_pick(rng, 4),
                        .micro_batch_sequences = 1,
                        .zero = (int32_t)luo_rng_pick(rng, 2),
                        .pipelines = shape[0],
                        .stages = shape[1],
                        .tp = shape[2],
                        .dev = dev};
    ck_assert_msg(luo_plan_grid(c->arena, &g, &plan, &c->err) == LUO_OK &&
                      luo_plan_compile(c->arena, plan, &c->model, &c->cluster, &opts, &set,
                                       &c->err) == LUO_OK,
                  "%s", c->err.text);
    return set;
}

static luo_time_range range_of(random_case *c, const luo_programs *set)
{
    luo_time_range range;
    ck_assert_msg(
        luo_judge_range(c->arena, &c->judge, set, LUO_BF16, NULL, NULL, &range, &c->err) == LUO_OK,
        "%s", c->err.text);
    return range;
}

static double *draws_of(random_case *c, const luo_programs *set, uint64_t seed)
{
    double *out = LUO_NEW_N(c->arena, double, DRAWS);
    ck_assert_msg(luo_judge_draws(c->arena, &c->judge, set, LUO_BF16, NULL, NULL, seed, DRAWS, out,
                                  &c->err) == LUO_OK,
                  "%s", c->err.text);
    return out;
}

/* Standard deviation of ln(a / b); b NULL: of ln(a). */
static double deviation(const double *a, const double *b)
{
    double sum = 0, squares = 0;
    for (int32_t i = 0; i < DRAWS; i++) {
        const double x = log(a[i]) - (b ? log(b[i]) : 0);
        sum += x;
        squares += x * x;
    }
    return sqrt((squares - sum * sum / DRAWS) / (DRAWS - 1));
}

START_TEST(a_range_is_that_of_draws)
{
    LUO_PROP_FOR(seed, 2)
    {
        luo_rng rng = luo_rng_seed(seed);
        random_case c;
        make_case(&c, &rng, between(&rng, 0, 0.1), between(&rng, 0, 0.1));
        const luo_programs *set = make_plan(&c, &rng);
        const double want = deviation(draws_of(&c, set, seed), NULL);
        const double got = range_of(&c, set).sd;
        printf("seed %llu: sd %.4f, of draws %.4f\n", (unsigned long long)seed, got, want);
        ck_assert_msg(fabs(got / want - 1) <= NEAR, "seed %llu", (unsigned long long)seed);
        luo_arena_free(c.arena);
    }
}
END_TEST

/* Draws of the source and of the model are the same for both, so they say nothing here. */
START_TEST(a_pair_is_that_of_paired_draws)
{
    int32_t apart = 0;
    LUO_PROP_FOR(seed, 2)
    {
        luo_rng rng = luo_rng_seed(seed);
        random_case c;
        make_case(&c, &rng, 0.1, 0);
        const luo_programs *a = make_plan(&c, &rng), *b = make_plan(&c, &rng);
        const luo_time_range of_a = range_of(&c, a), of_b = range_of(&c, b);
        const double want = deviation(draws_of(&c, a, seed), draws_of(&c, b, seed));
        const double got = luo_time_range_pair_sd(&of_a, 1, &of_b, 1, false);
        printf("seed %llu: sd of a pair %.4f, of draws %.4f\n", (unsigned long long)seed, got,
               want);
        ck_assert_msg(fabs(got - want) <= NEAR * want + LITTLE, "seed %llu",
                      (unsigned long long)seed);
        ck_assert(got < 0.1); /* the source alone is */
        apart += got > 10 * LITTLE;
        luo_arena_free(c.arena);
    }
    printf("pairs that differ in what moves them: %d\n", apart);
    ck_assert_int_gt(apart, 0);
}
END_TEST

START_TEST(without_spread_there_is_no_range)
{
    luo_rng rng = luo_rng_seed(luo_prop_first());
    random_case c;
    make_case(&c, &rng, 0, 0);
    luo_value *v = (luo_value *)(uintptr_t)c.profile.values;
    for (int32_t i = 0; i < c.profile.nvalues; i++) v[i].spread = 0;
    for (int32_t i = 0; i < c.stack.ngiven; i++) c.stack.given[i].spread = 0;
    const luo_programs *set = make_plan(&c, &rng);
    const luo_time_range range = range_of(&c, set);
    const double *draws = draws_of(&c, set, 1);
    ck_assert_int_eq(range.n, 0);
    ck_assert(luo_time_range_low(&range, 2.5) == 2.5 && luo_time_range_high(&range, 2.5) == 2.5);
    for (int32_t i = 1; i < DRAWS; i++) ck_assert(draws[i] == draws[0]);
    luo_arena_free(c.arena);
}
END_TEST

LUO_SUITE("cost.spread", LUO_T(a_range_is_that_of_draws), LUO_T(a_pair_is_that_of_paired_draws),
          LUO_T(without_spread_there_is_no_range))
