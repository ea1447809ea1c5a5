/* check_suite_fit.c: constants from published steps: what made the steps is found again,
 * as far as predictions go; rows that are no basis for fits are not looked at. */
#include <math.h>

#include "core/base/rng.h"
#include "core/io/read/read.h"
#include "core/plan/suite/suite_fit.h"
#include "tests/check_main.h"

enum { ROWS = 60 };

typedef struct bench {
    luo_arena *arena;
    luo_profile *profile;
    luo_stack stack;
    luo_suite_row rows[ROWS];
    luo_case cases[ROWS];
    const luo_case *list[ROWS];
    int32_t n;
} bench;

static luo_profile *profile(void *ctx, const luo_suite_row *row, const char *name, luo_err *err)
{
    bench *b = ctx;
    luo_diags d;
    (void)row;
    (void)err;
    luo_diags_init(&d, b->arena);
    if (!b->profile) ck_assert_int_eq(luo_read_profile(b->arena, name, &b->profile, &d), LUO_OK);
    return b->profile;
}

static luo_stack *stack(void *ctx, const luo_suite_row *row, luo_err *err)
{
    (void)row;
    (void)err;
    return &((bench *)ctx)->stack;
}

static int32_t pick(luo_rng *r, int32_t n)
{
    return (int32_t)(luo_rng_u(r) * n);
}

/* Small networks on one node and large ones on several. */
static luo_suite_row random_row(luo_rng *r)
{
    const int32_t tp = 1 << pick(r, 4), pp = 1 << pick(r, 3), dp = 1 << pick(r, 3);
    const int64_t heads = 16 << pick(r, 3);
    return (luo_suite_row){
        .id = "r", .suite = "made", .system = "megatron", .gpu = "A100-80G-SXM", .date = "",
        .fabric = "ib-hdr200x8", .model = "gpt", .precision = "bf16", .layers_per_stage = "",
        .stage_devices = "", .source = "", .note = "", .mem_by_rank = "", .file = "f", .line = 2,
        .layers = pp * (2 + pick(r, 6)), .heads = heads, .kv_heads = heads, .hidden = 64 * heads,
        .ffn = 256 * heads, .vocab = 50257, .seq = 1024, .gbs = (int64_t)dp * 8 * pp,
        .gpus = tp * pp * dp, .gpus_per_node = 8, .tp = tp, .pp = pp, .dp = dp, .vpp = 1, .cp = 1,
        .mbs = 1 << pick(r, 3), .recompute = 2 * pick(r, 2), .ep = 1};
}

/* Steps as the constants of the moment say. */
static void measure(bench *b)
{
    for (int32_t i = 0; i < b->n; i++) {
        luo_step_cost cost;
        luo_err err = {0};
        ck_assert_msg(luo_case_closed(b->arena, &b->cases[i], &cost, &err) == LUO_OK, "%s",
                      err.text);
        b->cases[i].measured_s = cost.step;
    }
}

static void make(bench *b, uint64_t seed)
{
    luo_rng r = luo_rng_stream(seed, "suite");
    const luo_suite_kit kit = {profile, stack, NULL, b};
    *b = (bench){.arena = luo_arena_new(0)};
    luo_stack_default(&b->stack);
    while (b->n < ROWS) {
        luo_err err = {0};
        b->rows[b->n] = random_row(&r);
        if (luo_case_make(b->arena, &b->rows[b->n], &kit, &b->cases[b->n], &err) != LUO_OK)
            continue;
        b->list[b->n] = &b->cases[b->n];
        b->n++;
    }
}

static const char *const names[] = {"gemm_ratio", "memory_ratio", "host_launch_us", "busbw_factor"};
enum { NAMES = sizeof names / sizeof *names };

/* Random constants inside the bounds make the steps; the fit, which starts elsewhere, tells the
 * steps again within 1 %. */
START_TEST(found_again)
{
    bench b;
    const luo_suite_param *p[NAMES];
    luo_profile *profiles[1];
    luo_stack *stacks[1];
    luo_suite_fitted fitted;
    luo_err err = {0};
    luo_rng r = luo_rng_stream((uint64_t)_i, "constants");
    make(&b, (uint64_t)_i);
    profiles[0] = b.profile;
    stacks[0] = &b.stack;
    const luo_suite_fit f = {.cases = b.list, .ncases = b.n, .profiles = profiles, .stacks = stacks,
                             .nprofiles = 1, .nstacks = 1, .params = p, .nparams = NAMES};
    for (int i = 0; i < NAMES; i++) {
        p[i] = luo_suite_param_of(names[i]);
        const double v = p[i]->lo + (0.2 + 0.6 * luo_rng_u(&r)) * (p[i]->hi - p[i]->lo);
        ck_assert_int_eq(luo_suite_fit_set(&f, p[i], v, &err), LUO_OK);
    }
    measure(&b);
    for (int i = 0; i < NAMES; i++)
        ck_assert_int_eq(luo_suite_fit_set(&f, p[i], p[i]->otherwise, &err), LUO_OK);
    ck_assert_msg(luo_suite_fit_run(b.arena, &f, &fitted, &err) == LUO_OK, "%s", err.text);
    double sum = 0;
    for (int32_t i = 0; i < b.n; i++) {
        luo_step_cost cost;
        ck_assert_int_eq(luo_case_closed(b.arena, &b.cases[i], &cost, &err), LUO_OK);
        sum += fabs(cost.step / b.cases[i].measured_s - 1) / b.n;
    }
    ck_assert_msg(sum < 0.01, "seed %d: mean error %g", _i, sum);
    luo_arena_free(b.arena);
}
END_TEST

/* A row that excludes itself changes nothing, however far off it is. */
START_TEST(excluded_rows)
{
    bench b;
    luo_profile *profiles[1];
    luo_stack *stacks[1];
    const luo_suite_param *p[1] = {luo_suite_param_of("host_launch_us")};
    luo_suite_fitted one, other;
    luo_err err = {0};
    make(&b, 7);
    profiles[0] = b.profile;
    stacks[0] = &b.stack;
    const luo_suite_fit f = {.cases = b.list, .ncases = b.n, .profiles = profiles, .stacks = stacks,
                             .nprofiles = 1, .nstacks = 1, .params = p, .nparams = 1};
    measure(&b);
    b.rows[3].note = "exclude from fits: a made-up outlier";
    ck_assert_int_eq(luo_suite_fit_run(b.arena, &f, &one, &err), LUO_OK);
    b.cases[3].measured_s *= 100;
    ck_assert_int_eq(luo_suite_fit_run(b.arena, &f, &other, &err), LUO_OK);
    ck_assert(one.value[0] == other.value[0] && one.objective == other.objective);
    luo_arena_free(b.arena);
}
END_TEST

START_TEST(too_few_rows)
{
    bench b;
    luo_profile *profiles[1];
    luo_stack *stacks[1];
    const luo_suite_param *p[2] = {luo_suite_param_of("gemm_ratio"),
                                   luo_suite_param_of("busbw_factor")};
    luo_suite_fitted out;
    luo_err err = {0};
    make(&b, 1);
    profiles[0] = b.profile;
    stacks[0] = &b.stack;
    const luo_suite_fit f = {.cases = b.list, .ncases = 1, .profiles = profiles, .stacks = stacks,
                             .nprofiles = 1, .nstacks = 1, .params = p, .nparams = 2};
    measure(&b);
    ck_assert_int_eq(luo_suite_fit_run(b.arena, &f, &out, &err), LUO_EINPUT);
    ck_assert_str_eq(err.text, "1 rows for 2 parameters; give at least as many rows as parameters "
                               "or name fewer with --fit.");
    luo_arena_free(b.arena);
}
END_TEST

/* A search begins at the default, inside its bounds, which docs/calibration.md has, and what it may
 * find can be set. */
START_TEST(where_searches_begin)
{
    luo_stack stack;
    luo_value_key key;
    luo_source page;
    luo_err err = {0};
    int n = 0;
    luo_arena *arena = luo_arena_new(0);
    ck_assert_msg(luo_source_read(arena, "docs/calibration.md", &page, &err) == LUO_OK, "%s",
                  err.text);
    for (int of_stack = 0; of_stack < 2; of_stack++)
        for (int i = 0; of_stack ? luo_stack_value_key(i, &key) : luo_profile_value_key(i, &key);
             i++) {
            const luo_suite_param *p = luo_suite_param_of(key.name);
            if (!p || p->of_stack != of_stack) continue; /* `gemm_ratio` is a name of both */
            ck_assert_msg(p->otherwise == key.otherwise, "%s begins at %g, the default is %g",
                          p->name, p->otherwise, key.otherwise);
            ck_assert_msg(p->lo < p->hi && p->lo <= p->otherwise && p->otherwise <= p->hi, "%s",
                          p->name);
            ck_assert_msg(!p->logarithmic || p->lo > 0, "%s", p->name);
            ck_assert_msg(luo_limit_holds(&key.limit, p->lo) && luo_limit_holds(&key.limit, p->hi),
                          "%s", p->name);
            const char *row = luo_arena_printf(arena, "\n| `%s` | %.15g to %.15g | %s |\n", p->name,
                                               p->lo, p->hi, p->logarithmic ? "factors" : "steps");
            ck_assert_msg(strstr(page.text, row) != NULL, "docs/calibration.md lacks:%s", row);
            luo_stack_default(&stack);
            if (of_stack) ck_assert_int_eq(luo_stack_set(&stack, p->key, p->hi, &err), LUO_OK);
            n++;
        }
    ck_assert_int_eq(n, 14);
    ck_assert_ptr_null(luo_suite_param_of("sm_count"));
    luo_arena_free(arena);
}
END_TEST

/* Of every suite one stage looks at all rows, and all its constants can be fitted; of vtrain alone
 * the profile is the GPU's own. */
START_TEST(what_is_fitted_on_a_suite)
{
    static const struct {
        const char *suite;
        int params;
    } suites[] = {{"vtrain", 8}, {"bloom", 3}, {"foundry", 5}, {"megatron-core", 3},
                  {"sailor-gh200", 3}, {"simumax-b200", 1}};
    for (int i = 0; i < LUO_ROWS(suites); i++) {
        const luo_suite_recipe *r = luo_suite_recipe_of(suites[i].suite);
        char text[256], *at = text;
        int n = 0;
        ck_assert_msg(r != NULL, "%s", suites[i].suite);
        ck_assert_int_eq(r->of_gpu, i == 0);
        ck_assert_msg(r->stage[0].one_node && r->stage[0].several, "%s", suites[i].suite);
        ck_assert_ptr_null(r->stage[1].params);
        snprintf(text, sizeof text, "%s", r->stage[0].params);
        for (char *word; (word = strsep(&at, ",")); n++)
            ck_assert_msg(luo_suite_param_of(word) != NULL, "%s: %s", suites[i].suite, word);
        ck_assert_int_eq(n, suites[i].params);
    }
    ck_assert_ptr_null(luo_suite_recipe_of("sailor-mixed"));
}
END_TEST

LUO_SUITE("plan.suite_fit", LUO_T(where_searches_begin), LUO_T(what_is_fitted_on_a_suite),
          LUO_T_N(found_again, 5), LUO_T(excluded_rows), LUO_T(too_few_rows))
