/* check_spread.c: which constants are uncertain and by how much, how they are moved, what range
 * follows. Predictions are closed forms whose sensitivities are known. */
#include "core/cost/spread.h"

#include <math.h>
#include <string.h>

#include "tests/cost_fixture.h"

#define HARDWARE                                                                                   \
    LUO_VALUE("peak_bf16_tflop_per_s", 312), LUO_VALUE("memory_gbytes_per_s", 2000),               \
        LUO_VALUE("memory_gib", 80)

static luo_arena *arena;
static luo_err err;
static luo_stack stack;
static luo_profile profiles[2];
static luo_cluster cluster;

static luo_value value(const char *name, double v, luo_provenance provenance, double spread)
{
    return (luo_value){.name = name,
                       .source = "2 rows",
                       .value = v,
                       .provenance = provenance,
                       .has_spread = spread >= 0,
                       .spread = spread};
}

static void finish(luo_profile *p, const char *name, const luo_value *values, int32_t n)
{
    *p = (luo_profile){.name = name, .nvalues = n, .values = values};
    ck_assert_msg(luo_profile_finish(p, &err) == LUO_OK, "%s", err.text);
}

static const luo_value bare[] = {HARDWARE};

/* Two groups of type `a` with these values and one of type `b` with none. */
static void open_cluster(const luo_value *values, int32_t n)
{
    arena = luo_arena_new(1 << 16);
    luo_value *all = LUO_NEW_N(arena, luo_value, n + LUO_ROWS(bare));
    luo_node_group *groups = LUO_NEW_N(arena, luo_node_group, 3);
    memcpy(all, bare, sizeof bare);
    if (n) memcpy(all + LUO_ROWS(bare), values, (size_t)n * sizeof *all);
    finish(&profiles[0], "a", all, n + LUO_ROWS(bare));
    finish(&profiles[1], "b", bare, LUO_ROWS(bare));
    groups[0] = luo_test_group("x", 1, 2, &profiles[0]);
    groups[1] = luo_test_group("y", 1, 2, &profiles[1]);
    groups[2] = luo_test_group("z", 1, 2, &profiles[0]);
    cluster = luo_test_cluster(arena, groups, 3);
    luo_stack_default(&stack);
}

static luo_constants constants(void)
{
    luo_constants c;
    ck_assert_int_eq(luo_constants_of(arena, &cluster, &stack, &c, &err), LUO_OK);
    return c;
}

static const luo_constant *find(const luo_constants *c, const char *name, const char *of)
{
    for (int32_t i = 0; i < c->n; i++)
        if (strcmp(c->at[i].name, name) == 0 &&
            strcmp(c->at[i].profile ? c->at[i].profile->name : "", of) == 0)
            return &c->at[i];
    return NULL;
}

/* ---- which are uncertain ---- */

/* Priors by provenance (docs/cost-model.md#ranges). */
static const struct {
    luo_provenance provenance;
    double spread, want;
    const char *origin;
} priors[] = {{LUO_FROM_MEASURED, -1, 0.05, "measured"}, {LUO_FROM_FITTED, -1, 0.15, "fitted"},
              {LUO_FROM_CHOSEN, -1, 0.30, "default"},    {LUO_FROM_PAPER, -1, 0.30, "paper"},
              {LUO_FROM_REPORTED, -1, 0.30, "reported"}, {LUO_FROM_FITTED, 0.02, 0.02, "fitted"},
              {LUO_FROM_CHOSEN, 1.5, 1.5, "default"}};

START_TEST(a_spread_is_given_or_follows_from_provenance)
{
    const luo_value v = value("gemm_ratio", 0.5, priors[_i].provenance, priors[_i].spread);
    open_cluster(&v, 1);
    const luo_constants c = constants();
    const luo_constant *found = find(&c, "gemm_ratio", "a"), *absent = find(&c, "gemm_ratio", "b");
    ck_assert(found && absent);
    luo_near(found->spread, priors[_i].want, 1e-15, "given");
    ck_assert_str_eq(found->origin, priors[_i].origin);
    luo_near(absent->spread, 0.30, 1e-15, "absent");
    ck_assert_str_eq(absent->origin, "default");
    luo_arena_free(arena);
}
END_TEST

START_TEST(a_spread_of_0_is_no_constant)
{
    const luo_value v = value("gemm_ratio", 0.5, LUO_FROM_CHOSEN, 0);
    open_cluster(&v, 1);
    const luo_constants c = constants();
    ck_assert_ptr_null(find(&c, "gemm_ratio", "a"));
    ck_assert_ptr_nonnull(find(&c, "gemm_ratio", "b"));
    luo_arena_free(arena);
}
END_TEST

/* Peaks, memory and tables are definitions; each type is listed once, whatever its groups. */
START_TEST(each_type_has_its_constants_once)
{
    static const char *const of_type[] = {"gemm_ratio", "memory_ratio",   "attention_forward_ratio",
                                          "net_ratio",  "net_half_bytes", "net_step_us",
                                          "launch_us",  "p2p_us"};
    static const char *const of_stack[] = {"host_launch_us", "busbw_factor", "tp_exposed_factor"};
    open_cluster(NULL, 0);
    const luo_constants c = constants();
    ck_assert_int_eq(c.n, 2 * LUO_ROWS(of_type) + LUO_ROWS(of_stack));
    for (int i = 0; i < LUO_ROWS(of_type); i++)
        ck_assert(find(&c, of_type[i], "a") && find(&c, of_type[i], "b"));
    for (int i = 0; i < LUO_ROWS(of_stack); i++) ck_assert(find(&c, of_stack[i], "") != NULL);
    luo_arena_free(arena);
}
END_TEST

/* A factor of the stack that nobody gave is 1: it adds nothing to the profile's constant. */
START_TEST(factors_of_the_stack_count_if_given)
{
    const luo_value v = value("gemm_ratio", 0.6, LUO_FROM_FITTED, -1);
    open_cluster(NULL, 0);
    luo_constants c = constants();
    ck_assert_ptr_null(find(&c, "gemm_ratio", ""));
    ck_assert_int_eq(luo_stack_take(&stack, &v, &err), LUO_OK);
    c = constants();
    luo_near(find(&c, "gemm_ratio", "")->spread, 0.15, 1e-15, "fitted");
    ck_assert_int_eq(luo_stack_set(&stack, "gemm_ratio", 0.7, &err), LUO_OK); /* as --set does */
    c = constants();
    luo_near(find(&c, "gemm_ratio", "")->spread, 0.30, 1e-15, "chosen over fitted");
    luo_arena_free(arena);
}
END_TEST

START_TEST(a_pair_of_ratios_is_as_unsure_as_the_less_sure)
{
    const luo_value v[] = {value("attention_forward_ratio", 0.5, LUO_FROM_MEASURED, -1),
                           value("attention_backward_ratio", 0.4, LUO_FROM_FITTED, -1)};
    open_cluster(v, 2);
    const luo_constants c = constants();
    const luo_constant *found = find(&c, "attention_forward_ratio", "a");
    luo_near(found->spread, 0.15, 1e-15, "of both");
    ck_assert_str_eq(found->also, "attention_backward_ratio");
    luo_arena_free(arena);
}
END_TEST

static const struct {
    const char *name;
    bool of_stack, allowed;
} allowed[] = {{"gemm_ratio", false, true},
               {"attention_backward_ratio", false, true},
               {"gemm_depth", false, true},
               {"memory_gib", false, false},
               {"peak_bf16_tflop_per_s", false, false},
               {"sm_count", false, false},
               {"host_launch_us", true, true},
               {"optimizer_bytes", true, true},
               {"framework_gib", true, false},
               {"source_spread", true, false},
               {"bucket_mib", true, false}};

START_TEST(only_rates_have_a_spread)
{
    const luo_value v = value(allowed[_i].name, 1, LUO_FROM_CHOSEN, 0.1);
    luo_profile p = {.name = "p", .nvalues = 1, .values = &v};
    err = (luo_err){0};
    luo_stack_default(&stack);
    const luo_status st =
        allowed[_i].of_stack ? luo_stack_take(&stack, &v, &err) : luo_profile_finish(&p, &err);
    ck_assert_int_eq(luo_spread_allowed(allowed[_i].name, allowed[_i].of_stack),
                     allowed[_i].allowed);
    ck_assert_int_eq(strncmp(err.text, "`spread`", 8) == 0, !allowed[_i].allowed);
    if (!allowed[_i].allowed) ck_assert_int_eq(st, LUO_EINPUT);
}
END_TEST

/* ---- other values ---- */

static void move(const luo_constants *c, const char *name, const char *of, double by,
                 luo_cluster *to, luo_stack *stack_to, double *taken)
{
    double *shift = LUO_NEW_N(arena, double, c->n), *all = LUO_NEW_N(arena, double, c->n);
    const int32_t i = (int32_t)(find(c, name, of) - c->at);
    shift[i] = by;
    ck_assert_int_eq(luo_constants_move(arena, c, shift, to, stack_to, all, &err), LUO_OK);
    *taken = all[i];
}

START_TEST(all_devices_of_a_type_move_together)
{
    luo_cluster to;
    luo_stack stack_to;
    double taken;
    const luo_value v = value("gemm_ratio", 0.5, LUO_FROM_CHOSEN, -1);
    open_cluster(&v, 1);
    const luo_constants c = constants();
    move(&c, "gemm_ratio", "a", 0.1, &to, &stack_to, &taken);
    luo_near(taken, 0.1, 1e-12, "taken");
    luo_near(to.groups[0].profile->gemm_ratio, 0.5 * exp(0.1), 1e-12, "first group");
    luo_near(to.groups[2].profile->gemm_ratio, 0.5 * exp(0.1), 1e-12, "third group");
    luo_near(to.groups[1].profile->gemm_ratio, 0.8, 1e-15, "another type");
    luo_near(cluster.groups[0].profile->gemm_ratio, 0.5, 1e-15, "the cluster itself");
    luo_near(to.groups[0].profile->memory_ratio, 0.72, 1e-15, "another constant");
    luo_near(stack_to.gemm_ratio, 1, 1e-15, "the stack's of that name");
    luo_arena_free(arena);
}
END_TEST

START_TEST(a_value_stays_within_its_limits)
{
    luo_cluster to;
    luo_stack stack_to;
    double taken;
    open_cluster(NULL, 0);
    const luo_constants c = constants();
    move(&c, "gemm_ratio", "a", 5, &to, &stack_to, &taken);
    luo_near(to.groups[0].profile->gemm_ratio, 1, 1e-15, "a ratio");
    luo_near(taken, log(1 / 0.8), 1e-12, "taken");
    move(&c, "tp_exposed_factor", "", 0.1, &to, &stack_to, &taken);
    luo_near(stack_to.tp_exposed_factor, 1, 1e-15, "a share at its end");
    luo_near(taken, 0, 1e-15, "taken");
    move(&c, "host_launch_us", "", -0.1, &to, &stack_to, &taken);
    luo_near(stack_to.host_launch_s, 15e-6 * exp(-0.1), 1e-12, "in seconds");
    luo_near(stack.host_launch_s, 15e-6, 1e-15, "the stack itself");
    move(&c, "attention_forward_ratio", "b", 0.1, &to, &stack_to, &taken);
    luo_near(to.groups[1].profile->attention_forward_ratio, 0.30 * exp(0.1), 1e-12, "forward");
    luo_near(to.groups[1].profile->attention_backward_ratio, 0.33 * exp(0.1), 1e-12, "backward");
    luo_arena_free(arena);
}
END_TEST

START_TEST(a_value_of_0_stays)
{
    luo_cluster to;
    luo_stack stack_to;
    double taken;
    const luo_value v = value("launch_us", 0, LUO_FROM_CHOSEN, -1);
    open_cluster(&v, 1);
    const luo_constants c = constants();
    move(&c, "launch_us", "a", 0.1, &to, &stack_to, &taken);
    ck_assert(to.groups[0].profile->launch_s == 0 && taken == 0);
    luo_arena_free(arena);
}
END_TEST

/* ---- ranges ---- */

/* weight[0] / gemm_ratio of a + weight[1] / memory_ratio of b + weight[2] * host launch. */
static luo_status add_up(void *ctx, luo_arena *scratch, const luo_cluster *at,
                         const luo_stack *with, double *seconds, luo_err *e)
{
    const double *weight = ctx;
    (void)scratch;
    (void)e;
    *seconds = weight[0] * 0.8 / at->groups[0].profile->gemm_ratio +
               weight[1] * 0.72 / at->groups[1].profile->memory_ratio +
               weight[2] * with->host_launch_s / 15e-6;
    return LUO_OK;
}

static luo_time_range range_of(double *weight)
{
    luo_time_range range;
    const luo_constants c = constants();
    const luo_prediction p = {add_up, weight};
    ck_assert_int_eq(luo_time_range_of(arena, &c, &p, &range, &err), LUO_OK);
    return range;
}

static double sensitivity(const luo_time_range *range, const char *name, const char *of)
{
    for (int32_t i = 0; i < range->n; i++)
        if (strcmp(range->part[i].name, name) == 0 && strcmp(range->part[i].of, of) == 0)
            return range->part[i].sensitivity;
    return NAN;
}

/* Shares of the sum, with the sign of the exponent. */
/* Of those that are looked at together, one matters. */
static luo_status add_message(void *ctx, luo_arena *scratch, const luo_cluster *at,
                              const luo_stack *with, double *seconds, luo_err *e)
{
    const double *share = ctx;
    (void)scratch;
    (void)with;
    (void)e;
    *seconds =
        1 - *share + *share * at->groups[0].profile->p2p_s / cluster.groups[0].profile->p2p_s;
    return LUO_OK;
}

START_TEST(one_of_many_is_found)
{
    static const double shares[] = {0.2, 0.001};
    for (int k = 0; k < 2; k++) {
        double share = shares[k];
        luo_time_range range;
        open_cluster(NULL, 0);
        const luo_constants c = constants();
        const luo_prediction p = {add_message, &share};
        ck_assert_int_eq(luo_time_range_of(arena, &c, &p, &range, &err), LUO_OK);
        luo_near(sensitivity(&range, "p2p_us", "a"), k ? 0 : share, 1e-9, "a message's start");
        ck_assert(sensitivity(&range, "launch_us", "a") == 0);
        ck_assert(sensitivity(&range, "p2p_us", "b") == 0);
        luo_arena_free(arena);
    }
}
END_TEST

START_TEST(sensitivities_are_shares)
{
    double weight[] = {6, 3, 1};
    open_cluster(NULL, 0);
    stack.source_spread = stack.residual_spread = 0;
    const luo_time_range range = range_of(weight);
    ck_assert(fabs(sensitivity(&range, "gemm_ratio", "a") + 0.6) < 1e-9);
    ck_assert(fabs(sensitivity(&range, "memory_ratio", "b") + 0.3) < 1e-9);
    ck_assert(fabs(sensitivity(&range, "host_launch_us", "") - 0.1) < 1e-9);
    ck_assert(sensitivity(&range, "gemm_ratio", "b") == 0);
    const double sd = 0.3 * sqrt(0.6 * 0.6 + 0.3 * 0.3 + 0.1 * 0.1);
    luo_near(range.sd, sd, 5e-3, "sd");
    luo_near(luo_time_range_low(&range, 10), 10 * exp(-1.2816 * range.sd), 1e-12, "low");
    luo_near(luo_time_range_high(&range, 10), 10 * exp(1.2816 * range.sd), 1e-12, "high");
    luo_arena_free(arena);
}
END_TEST

START_TEST(source_and_model_add)
{
    double weight[] = {0, 0, 0};
    open_cluster(NULL, 0);
    stack.source_spread = 0.3;
    stack.residual_spread = 0.4;
    const luo_time_range range = range_of(weight);
    luo_near(range.sd, 0.5, 1e-12, "3, 4, 5");
    luo_arena_free(arena);
}
END_TEST

/* What one device type does to one plan alone stays, what is common goes. */
START_TEST(common_errors_of_a_pair_cancel)
{
    double one[] = {6, 3, 1}, other[] = {3, 6, 1};
    open_cluster(NULL, 0);
    stack.source_spread = 1;
    stack.residual_spread = 0;
    const luo_time_range a = range_of(one), b = range_of(other);
    ck_assert(luo_time_range_pair_sd(&a, 1, &a, 1, false) == 0);
    luo_near(luo_time_range_pair_sd(&a, 1, &b, 1, false), 0.3 * sqrt(0.3 * 0.3 + 0.3 * 0.3), 5e-3,
             "halves that trade places");
    luo_time_range apart = b;
    apart.cluster = "another";
    ck_assert(luo_time_range_pair_sd(&a, 1, &apart, 1, false) > sqrt(2));
    luo_near(luo_time_range_pair_sd(&a, 1, &a, 0.5, false), 0.5 * a.sd, 1e-12,
             "a half that no constant moves");
    luo_arena_free(arena);
}
END_TEST

START_TEST(the_model_errs_alike_in_one_program)
{
    double weight[] = {0, 0, 0};
    open_cluster(NULL, 0);
    stack.source_spread = 0;
    stack.residual_spread = 0.4;
    const luo_time_range range = range_of(weight);
    ck_assert(luo_time_range_pair_sd(&range, 1, &range, 1, true) == 0);
    luo_near(luo_time_range_pair_sd(&range, 1, &range, 1, false), 0.4, 1e-12,
             "half of it is common");
    ck_assert(luo_time_range_differs(0.34, 0.4));
    ck_assert(!luo_time_range_differs(0.33, 0.4));
    ck_assert(luo_time_range_differs(-0.34, 0.4));
    luo_arena_free(arena);
}
END_TEST

START_TEST(words_of_a_range)
{
    double weight[] = {6, 3, 1};
    luo_str text = {0};
    open_cluster(NULL, 0);
    luo_time_range range = range_of(weight);
    luo_time_range_say_parts(&text, &range);
    ck_assert_str_eq(luo_str_get(&text), "of it: gemm_ratio of a (default) 18 %, source 11 %, "
                                         "memory_ratio of b (default) 9 %");
    luo_str_clear(&text);
    range.sd = 0.1;
    luo_time_range_say(&text, &range, 2.38);
    ck_assert_str_eq(luo_str_get(&text), "2.09 to 2.71");
    luo_str_clear(&text);
    luo_time_range_say(&text, &range, 23800);
    ck_assert_str_eq(luo_str_get(&text), "20937 to 27054");
    luo_str_free(&text);
    luo_arena_free(arena);
}
END_TEST

START_TEST(types_and_stacks_without_a_fit_are_named)
{
    const luo_value v = value("net_ratio", 0.5, LUO_FROM_FITTED, -1);
    luo_str text = {0};
    open_cluster(&v, 1);
    luo_time_range_say_unfitted(&text, &cluster, &stack);
    ck_assert_str_eq(luo_str_get(&text), "profile `b` and stack `luoshu-cuda`");
    luo_str_clear(&text);
    profiles[1].cpu = true;
    const luo_value launch = value("host_launch_us", 5, LUO_FROM_MEASURED, -1);
    ck_assert_int_eq(luo_stack_take(&stack, &launch, &err), LUO_OK);
    luo_time_range_say_unfitted(&text, &cluster, &stack);
    ck_assert_str_eq(luo_str_get(&text), "");
    luo_str_free(&text);
    luo_arena_free(arena);
}
END_TEST

/* A stream of its own for each constant: one more changes no draw of the others. */
START_TEST(draws_of_a_constant_are_its_own)
{
    double only_gemm[] = {1, 0, 0}, fewer[20], more[20];
    const luo_value v = value("net_ratio", 0.5, LUO_FROM_CHOSEN, 0);
    const luo_prediction p = {add_up, only_gemm};
    open_cluster(&v, 1);
    luo_constants c = constants();
    ck_assert_int_eq(luo_spread_draws(arena, &c, &p, 7, 20, fewer, &err), LUO_OK);
    luo_arena_free(arena);
    open_cluster(NULL, 0);
    c = constants();
    ck_assert_int_eq(luo_spread_draws(arena, &c, &p, 7, 20, more, &err), LUO_OK);
    for (int i = 0; i < 20; i++) ck_assert(fewer[i] == more[i]);
    ck_assert_int_eq(luo_spread_draws(arena, &c, &p, 8, 20, more, &err), LUO_OK);
    ck_assert(fewer[0] != more[0]);
    luo_arena_free(arena);
}
END_TEST

LUO_SUITE("cost.spread", LUO_T_N(a_spread_is_given_or_follows_from_provenance, LUO_ROWS(priors)),
          LUO_T(a_spread_of_0_is_no_constant), LUO_T(each_type_has_its_constants_once),
          LUO_T(factors_of_the_stack_count_if_given),
          LUO_T(a_pair_of_ratios_is_as_unsure_as_the_less_sure),
          LUO_T_N(only_rates_have_a_spread, LUO_ROWS(allowed)),
          LUO_T(all_devices_of_a_type_move_together), LUO_T(a_value_stays_within_its_limits),
          LUO_T(a_value_of_0_stays), LUO_T(sensitivities_are_shares), LUO_T(one_of_many_is_found),
          LUO_T(source_and_model_add), LUO_T(common_errors_of_a_pair_cancel),
          LUO_T(the_model_errs_alike_in_one_program), LUO_T(words_of_a_range),
          LUO_T(types_and_stacks_without_a_fit_are_named),
          LUO_T(draws_of_a_constant_are_its_own))
