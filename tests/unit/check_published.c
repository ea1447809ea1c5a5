/* check_published.c: the closed form of a step against published measurements, with the
 * constants that docs/calibration.md#the-vtrain-search gives. Needs the data folder: LUO_DATA=DIR;
 * without it, skipped with one line (docs/calibration.md#validation). All rows are calibration
 * rows: this tests the code, it is no accuracy figure. */
#include <math.h>

#include "core/io/read/read.h"
#include "tests/cost_fixture.h"
#include "tests/step_fixture.h"

enum { LAYERS = 10, HIDDEN, HEADS, KV_HEADS, FFN, VOCAB, SEQ, TP = 18, PP, VPP, DP, MBS = 23, GBS,
       SP, RECOMPUTE, ZERO, STEP = 30, NOTE = 36, CELLS };

static luo_arena *arena;
static luo_profile *a100;
static luo_stack stack;

static bool split(char *line, char *cell[CELLS])
{
    int n = 0;
    for (char *p = line; p && n < CELLS; n++) {
        cell[n] = p;
        p = strchr(p, ',');
        if (p) *p++ = 0;
    }
    return n == CELLS && *cell[STEP] && !strstr(cell[NOTE], "exclude from fits");
}

static int64_t number(char *const cell[CELLS], int at, int64_t otherwise)
{
    return *cell[at] ? atoll(cell[at]) : otherwise;
}

static luo_model model_of(char *const cell[CELLS])
{
    const int64_t h = number(cell, HIDDEN, 0), a = number(cell, HEADS, 1);
    return (luo_model){.name = "row", .family = LUO_FAMILY_GPT, .layers = number(cell, LAYERS, 0),
                       .hidden = h, .ffn_hidden = number(cell, FFN, 4 * h), .heads = a,
                       .kv_heads = number(cell, KV_HEADS, a), .head_dim = h / a,
                       .vocab = number(cell, VOCAB, 0), .linear_bias = true, .out_bias = true,
                       .qkv_bias = true,
                       .tied_embeddings = true, .causal = true, .norm = LUO_NORM_LAYER,
                       .activation = LUO_ACT_GELU, .position = LUO_POS_LEARNED};
}

/* Predicted seconds; Megatron's order of devices (docs/planners.md#order-of-devices). */
static double predict(char *const cell[CELLS], double nics)
{
    const luo_model m = model_of(cell);
    const int32_t tp = (int32_t)number(cell, TP, 1), pp = (int32_t)number(cell, PP, 1);
    const int32_t dp = (int32_t)number(cell, DP, 1), v = (int32_t)number(cell, VPP, 1);
    const int32_t n = tp * pp * dp, per_node = n < 8 ? n : 8;
    const int64_t gbs = number(cell, GBS, 1), even = gbs / dp < 4 ? gbs / dp : 4;
    const int64_t mbs = number(cell, MBS, pp > 1 ? 1 : even); /* the rule for what is not printed */
    luo_node_group g = luo_test_group("n", (n + per_node - 1) / per_node, per_node, a100);
    g.nic_bytes_per_s = nics / 8;
    const luo_cluster c = luo_test_cluster(arena, &g, 1);
    int32_t *dev = LUO_NEW_N(arena, int32_t, n);
    for (int32_t d = 0; d < dp; d++)
        for (int32_t p = 0; p < pp; p++)
            for (int32_t t = 0; t < tp; t++) dev[(d * pp + p) * tp + t] = t + tp * (d + dp * p);
    const luo_grid grid = {
        .model = &m, .cluster = &c, .dtype = LUO_BF16, .sequence_tokens = number(cell, SEQ, 0),
        .micro_batch_sequences = (int32_t)mbs, .micro_batches = gbs / dp / mbs, .tp = tp,
        .stages = pp, .pipelines = dp, .chunks = v, .dev = dev,
        .recompute = !strcmp(cell[RECOMPUTE], "full")        ? LUO_RECOMPUTE_FULL
                     : !strcmp(cell[RECOMPUTE], "selective") ? LUO_RECOMPUTE_SELECTIVE
                                                             : LUO_RECOMPUTE_NONE,
        .zero = (int32_t)number(cell, ZERO, 0), .sequence_parallel = number(cell, SP, 0) == 1};
    luo_step_cost out;
    luo_err err = {0};
    ck_assert_msg(luo_test_step(arena, &grid, &stack, (luo_bucketing){0}, &out, &err) == LUO_OK,
                  "%s: %s", cell[0], err.text);
    return out.step;
}

static const struct {
    const char *file, *stack;
    double host_us, host_exponent, nics, jitter;
    int rows;
    double one_node, several; /* mean |ln(predicted/measured)|; -1: no such row */
} suites[] = {
    /* docs/calibration.md#the-vtrain-search: the search ends at 0.0741, the mean over the two
     * strata */
    {"vtrain.csv", "megatron-deepspeed", 51.8, 3.17, 100e9, 0, 330, 0.0706, 0.0776},
    {"megatron-sc21.csv", "megatron", 15, 3, 200e9, 0.01, 5, -1, 0.0162},
    {"korthikanti.csv", "megatron", 15, 3, 200e9, 0.01, 4, 0.0310, 0.0337},
};

START_TEST(published)
{
    char line[4096], *cell[CELLS];
    const char *data = getenv("LUO_DATA");
    if (!data || !*data) {
        if (_i == 0) printf("skipped: LUO_DATA names no data folder\n");
        return;
    }
    luo_diags diags;
    arena = luo_arena_new(1 << 20);
    luo_diags_init(&diags, arena);
    luo_read_profile(arena, "scenarios/profiles/a100-80.yaml", &a100, &diags);
    luo_read_stack(arena,
                   luo_arena_printf(arena, "scenarios/profiles/stacks/%s.yaml", suites[_i].stack),
                   &stack, &diags);
    ck_assert_int_eq(diags.n_errors, 0);
    a100->net_ratio = 0.8;
    stack.p2p_blocking = false;
    luo_stack_set(&stack, "host_launch_us", suites[_i].host_us, NULL);
    luo_stack_set(&stack, "host_exponent", suites[_i].host_exponent, NULL);
    luo_stack_set(&stack, "scale_jitter", suites[_i].jitter, NULL);
    FILE *f = fopen(luo_arena_printf(arena, "%s/suites/%s", data, suites[_i].file), "r");
    ck_assert_msg(f && fgets(line, sizeof line, f), "%s/suites/%s", data, suites[_i].file);
    double sum[2] = {0, 0};
    int n[2] = {0, 0};
    while (fgets(line, sizeof line, f)) {
        if (!split(line, cell)) continue;
        const size_t mark = luo_arena_mark(arena);
        const int several = number(cell, 6, 1) > 8;
        sum[several] += fabs(log(predict(cell, suites[_i].nics) / atof(cell[STEP])));
        n[several]++;
        luo_arena_reset(arena, mark);
    }
    fclose(f);
    ck_assert_int_eq(n[0] + n[1], suites[_i].rows);
    if (suites[_i].one_node >= 0)
        ck_assert_double_eq_tol(sum[0] / n[0], suites[_i].one_node, 2e-4);
    ck_assert_double_eq_tol(sum[1] / n[1], suites[_i].several, 2e-4);
    luo_arena_free(arena);
}
END_TEST
LUO_MAIN("published", published, LUO_ROWS(suites))
