/* check_cost.c: products, attention, host floor, collectives. */
#include "core/cost/cost.h"

#include <math.h>

#include "tests/cost_fixture.h"

static const struct {
    const char *id;
    luo_gemm g;
    bool no_sm;
    double seconds;
} gemms[] = {
    {"ACC-G1", {8192, 3072, 1024, 1, 2, LUO_GEMM_PLAIN}, false, 2.4757104453e-4},
    {"ACC-G3", {2048, 6912, 2304, 1, 2, LUO_GEMM_PLAIN}, false, 2.7259677538e-4},
    {"ACC-G4", {128, 13824, 4096, 1, 2, LUO_GEMM_PLAIN}, false, 8.5828977778e-5},
    {"ACC-G5", {128, 13952, 4096, 1, 2, LUO_GEMM_PLAIN}, false, 1.14592e-4},
    {"ACC-G9", {128, 13952, 4096, 1, 2, LUO_GEMM_PLAIN}, true, 8.6579911111e-5},
    {"ACC-G6", {16, 4096, 4096, 1, 2, LUO_GEMM_PLAIN}, false, 2.8576e-5},
    {"ACC-G8", {1000, 1000, 1000, 1, 4, LUO_GEMM_PLAIN}, false, 1.9879876923e-5},
    {"ACC-G10", {2048, 2048, 108, 64, 2, LUO_GEMM_MISALIGNED}, false, 4.4521803815e-3},
    {"ACC-G11", {4096, 0, 128, 1, 2, LUO_GEMM_PLAIN}, false, 0},
};

START_TEST(gemm)
{
    luo_profile p = luo_ref_profile();
    double s = -1;
    if (gemms[_i].no_sm) p.sm_count = 0;
    ck_assert_int_eq(luo_cost_gemm(&p, LUO_BF16, &gemms[_i].g, &s, NULL), LUO_OK);
    luo_near(s, gemms[_i].seconds, 1e-9, gemms[_i].id);
}
END_TEST

/* Products of layers under a recipe: operands of a byte at the peak of fp8, and casts beside. */
START_TEST(fp8)
{
    static const double bytes[] = {0, 4, 6, 4.0625};
    luo_profile p = luo_ref_profile();
    luo_cost_key key = {LUO_COST_GEMM, {4096, 8192, 2048, 1, 2, LUO_GEMM_PLAIN}};
    const double bandwidth = p.memory_bytes_per_s * p.memory_ratio;
    double plain = -1, s = -1;
    luo_err err = {0};
    luo_stack stack;
    luo_stack_default(&stack);
    luo_cost_key_seconds(&p, &stack, &key, LUO_BF16, &plain, NULL);
    key.a[LUO_COST_PRODUCT] = LUO_WEIGHTS_Y;
    key.a[LUO_COST_CAST] = 1000000;
    luo_cost_key_seconds(&p, &stack, &key, LUO_BF16, &s, NULL);
    ck_assert_double_eq(s, plain);
    luo_stack_switch(&stack, "fp8_recipe", "current", NULL);
    ck_assert_int_eq(luo_cost_key_seconds(&p, &stack, &key, LUO_BF16, &s, &err), LUO_EINPUT);
    ck_assert_ptr_nonnull(strstr(err.text, "has no value `peak_fp8_tflop_per_s`"));
    p.fp8_flops = p.peak_flops[LUO_BF16];
    for (int i = LUO_FP8_DELAYED; i < LUO_FP8_RECIPES; i++) {
        stack.fp8_recipe = (luo_fp8_recipe)i;
        ck_assert_double_eq(luo_cost_cast_bytes(&stack), bytes[i]);
        luo_cost_key_seconds(&p, &stack, &key, LUO_BF16, &s, NULL);
        const double casts = bytes[i] * (1e6 + 8192 * 2048.0) / bandwidth + 2 * p.launch_s;
        luo_near(s, plain + casts, 1e-9, "input and weights");
    }
    stack.fp8_weights_once = true;
    key.a[LUO_COST_PRODUCT] = LUO_WEIGHTS_DX;
    luo_cost_key_seconds(&p, &stack, &key, LUO_BF16, &s, NULL);
    luo_near(s, plain + 4.0625e6 / bandwidth + p.launch_s, 1e-9, "the gradient");
    ck_assert_double_eq(luo_cost_update_bytes(&stack), stack.optimizer_bytes + 4.0625);
    key.a[LUO_COST_PRODUCT] = LUO_WEIGHTS_OTHER;
    luo_cost_key_seconds(&p, &stack, &key, LUO_BF16, &s, NULL);
    ck_assert_double_eq(s, plain);
    ck_assert_int_eq(luo_cost_key_seconds(&p, &stack, &key, LUO_F32, &s, &err), LUO_EINPUT);
    ck_assert_str_eq(err.text, "stack `luoshu-cuda` has fp8_recipe blockwise, which is for bf16; "
                               "the data are f32.");
}
END_TEST

/* 36 and 84 bytes of an element where a norm of bf16 is many kernels, 4 and 8 where it is one. */
START_TEST(eager)
{
    const luo_profile p = luo_ref_profile();
    luo_cost_key key = {LUO_COST_STREAM, {4000000}};
    double s = -1, t = -1;
    luo_stack stack;
    luo_stack_default(&stack);
    ck_assert_double_eq(luo_eager_bytes(luo_eager_norm[0], 2, 1), 36);
    ck_assert_double_eq(luo_eager_bytes(luo_eager_norm[1], 2, 1), 84);
    ck_assert_double_eq(luo_eager_bytes(luo_eager_rope, 2, 1), 20);
    ck_assert_double_eq(luo_eager_bytes(luo_eager_gate[0], 2, 1), 10);
    ck_assert_double_eq(luo_eager_bytes(luo_eager_gate[1], 2, 1), 18);
    key.a[LUO_COST_EAGER] = 36000000;
    luo_cost_key_seconds(&p, &stack, &key, LUO_BF16, &s, NULL);
    luo_cost_stream(&p, 4e6, &t, NULL);
    ck_assert_double_eq(s, t);
    luo_stack_switch(&stack, "elementwise", "eager", NULL);
    luo_cost_key_seconds(&p, &stack, &key, LUO_BF16, &s, NULL);
    luo_cost_stream(&p, 36e6, &t, NULL);
    ck_assert_double_eq(s, t);
}
END_TEST

/* V-M4: rows 1000, 24, 0 and 3000 in tiles of 128 by 128, N 2048: 528 of them. */
START_TEST(experts)
{
    luo_profile p = luo_ref_profile();
    const double k = 1024, peak = p.peak_flops[LUO_BF16] * p.gemm_ratio;
    const luo_cost_key key = {LUO_COST_GROUPED,
                              {4024, 2048, 1024, 3, 2, 4 + 1 + 12, 8 + 1 + 24, 16 + 1 + 47}};
    ck_assert_int_eq(key.a[6] * 2048 / 128, 528);
    double s = -1, least = HUGE_VAL;
    p.sm_count = 0;
    p.memory_bytes_per_s = 1e30;
    ck_assert_int_eq(luo_cost_grouped(&p, LUO_BF16, &key, &s, NULL), LUO_OK);
    const double by[] = {17 * 16 * 256 * 128.0,       33 * 8 * 128 * 256.0,
                         528 * 128 * 128 / 0.95,      33 * 32 * 128 * 64 / 0.8,
                         64 * 16 * 64 * 128 / 0.8,    64 * 32 * 64 * 64 / 0.6};
    for (int i = 0; i < 6; i++) least = fmin(least, 2 * by[i] * (k + p.gemm_depth) / peak);
    luo_near(s, least + p.launch_s, 1e-12, "tiles");
    const luo_cost_key even = {LUO_COST_GROUPED, {4096, 2048, 1024, 4, 2, 16, 32, 64}};
    const luo_gemm same = {1024, 2048, 1024, 4, 2, LUO_GEMM_EXPERTS};
    double t = -1;
    p = luo_ref_profile();
    luo_cost_grouped(&p, LUO_BF16, &even, &s, NULL);
    luo_cost_gemm(&p, LUO_BF16, &same, &t, NULL);
    luo_near(s, t, 1e-12, "equal rows are a batch");
}
END_TEST

/* Weights of experts are read, and their gradients read and written in f32, beside the tiles. */
START_TEST(experts_beside)
{
    luo_profile p = luo_ref_profile();
    const double bytes_per_s = p.memory_bytes_per_s * p.memory_ratio;
    luo_gemm g = {4096, 2048, 1024, 4, 2, LUO_GEMM_PLAIN};
    double plain = -1, s = -1;
    ck_assert_int_eq(luo_cost_gemm(&p, LUO_BF16, &g, &plain, NULL), LUO_OK);
    g.form = LUO_GEMM_EXPERTS;
    ck_assert_int_eq(luo_cost_gemm(&p, LUO_BF16, &g, &s, NULL), LUO_OK);
    luo_near(s, plain + 2.0 * 4 * 2048 * 1024 / bytes_per_s, 1e-12, "weights");
    g.form = LUO_GEMM_SUMS;
    ck_assert_int_eq(luo_cost_gemm(&p, LUO_BF16, &g, &s, NULL), LUO_OK);
    luo_near(s, plain + 8.0 * 4 * 4096 * 2048 / bytes_per_s, 1e-12, "gradients");
    g = (luo_gemm){8, 2048, 1024, 4, 2, LUO_GEMM_EXPERTS}; /* few rows: memory alone */
    p.gemm_ratio = 1e6;
    ck_assert_int_eq(luo_cost_gemm(&p, LUO_BF16, &g, &s, NULL), LUO_OK);
    luo_near(s, 2.0 * 4 * (8 * 3072 + 2048 * 1024) / bytes_per_s + p.launch_s, 1e-12, "memory");
}
END_TEST

/* Third-party data beside the checkout, else skipped: products of 20 to 256 experts with 128 to
 * 9856 rows each on a B200,
 * gradients in f32, by the constants that were found on dense steps there. */
START_TEST(experts_as_measured)
{
    static const char *const file = "../shared/data/micro/simumax_b200_ops.csv";
    static const char *const stages[] = {"fwd", "bwd_grad_act", "bwd_grad_w"};
    static const luo_gemm_form form[] = {LUO_GEMM_EXPERTS, LUO_GEMM_EXPERTS, LUO_GEMM_SUMS};
    double sum[3] = {0}, off[3] = {0};
    int n[3] = {0};
    char line[512];
    luo_profile p = luo_ref_profile();
    FILE *in = fopen(file, "r");
    if (!in) {
        printf("skipped: %s is not there\n", file);
        return;
    }
    p.sm_count = 0;
    p.memory_bytes_per_s = 8e12;
    p.gemm_ratio = 0.442305;
    while (fgets(line, sizeof line, in)) {
        long long q, m, k, c;
        double peak, efficiency, s;
        const char *at = strstr(line, "group_matmul,\"ng="), *stage = strstr(line, "stage=");
        const char *end = strrchr(line, '"');
        if (!at || !stage || !end || !strstr(line, "main_grad_dtype=fp32")) continue;
        ck_assert_int_eq(
            sscanf(at, "group_matmul,\"ng=%lld, M=%lld, N=%lld, K=%lld", &q, &m, &c, &k), 4);
        ck_assert_int_eq(sscanf(end, "\",%lf,%lf", &peak, &efficiency), 2);
        int i = 0;
        while (strncmp(stage + 6, stages[i], strlen(stages[i])) != 0 ||
               stage[6 + strlen(stages[i])] != ',')
            ck_assert_int_lt(++i, 3);
        const luo_gemm g[] = {
            {m, c, k, q, 2, form[0]}, {m, k, c, q, 2, form[1]}, {c, k, m, q, 2, form[2]}};
        p.peak_flops[LUO_BF16] = 1e12 * peak;
        ck_assert_int_eq(luo_cost_gemm(&p, LUO_BF16, &g[i], &s, NULL), LUO_OK);
        const double measured = 2.0 * (double)(q * m * c) * (double)k / (1e12 * peak * efficiency);
        sum[i] += fabs(log(s / measured));
        off[i] += log(s / measured);
        n[i]++;
    }
    fclose(in);
    for (int i = 0; i < 3; i++) {
        printf("experts, %-12s %d rows, mean |ln| %.3f, bias %+.3f\n", stages[i], n[i],
               sum[i] / n[i], off[i] / n[i]);
        ck_assert(n[i] == 20 && sum[i] / n[i] < 0.20 && fabs(off[i]) / n[i] < 0.20);
    }
}
END_TEST

static const struct {
    const char *id;
    luo_attention a;
    bool fused;
    double forward, backward;
} attentions[] = {
    /* ACC-A1 is printed as 1.4723648849e-3; A2, which is (A1 - kappa)*1.5 + kappa, and the formula
     * both give 1.4723648875e-3. */
    {"ACC-A1", {32, 128, 4, 2048, 0, NULL, true, 0, 0, 0}, true, 1.4723648875e-3, 3.3411929262e-3},
    {"ACC-A2", {32, 128, 3, 0, 0, (const int64_t[]){4096, 2048, 2048}, true, 0, 0, 0}, true,
     2.2065473313e-3, 5.0097893894e-3},
    {"ACC-A4", {12, 128, 1, 2048, 0, NULL, true, 0, 0, 0}, false, 4.8688393846e-4, 7.2510014359e-4},
};

START_TEST(attention)
{
    const luo_profile p = luo_ref_profile();
    for (int back = 0; back < 2; back++) {
        double s = 0;
        ck_assert_int_eq((attentions[_i].fused ? luo_cost_attention : luo_cost_attention_unfused)(
                             &p, LUO_BF16, &attentions[_i].a, back, &s, NULL),
                         LUO_OK);
        luo_near(s, back ? attentions[_i].backward : attentions[_i].forward, 1e-9,
                 attentions[_i].id);
    }
}
END_TEST

/* A micro-batch that is no multiple of the length: the rest is one shorter sequence. */
START_TEST(attention_rest)
{
    const luo_profile p = luo_ref_profile();
    const luo_attention packed = {8, 64, 3, 0, 0, (const int64_t[]){512, 512, 100}, true, 0, 0, 0};
    const luo_attention even = {8, 64, 2, 512, 100, NULL, true, 0, 0, 0};
    const luo_cost_key key = {LUO_COST_ATTENTION_F, {8, 64, 1124, 512, 1, 0}};
    double a, b, c;
    luo_cost_attention(&p, LUO_BF16, &packed, false, &a, NULL);
    luo_cost_attention(&p, LUO_BF16, &even, false, &b, NULL);
    luo_stack stack;
    luo_stack_default(&stack);
    luo_cost_key_seconds(&p, &stack, &key, LUO_BF16, &c, NULL);
    ck_assert_double_eq(a, b);
    ck_assert_double_eq(a, c);
    luo_cost_attention_unfused(&p, LUO_BF16, &packed, false, &a, NULL);
    luo_cost_attention_unfused(&p, LUO_BF16, &even, false, &b, NULL);
    ck_assert_double_ge(a, b); /* two of one length go as one batch */
}
END_TEST

/* Pairs block by block: on average half of a block's own keys are behind each of its queries. */
static double pairs_of_blocks(const luo_attention *a, double depth, double multiprocessors)
{
    enum { QUERIES = 128 };
    double pairs = 0, longest = 0;
    for (int64_t s = 0; s < a->sequences; s++) {
        const int64_t l = a->lengths ? a->lengths[s] : a->tokens;
        for (int64_t q = 0; q < l; q += QUERIES) {
            const double keys = a->causal ? (double)q + QUERIES / 2.0 : (double)l;
            pairs += (double)a->heads * QUERIES * (keys + depth);
        }
        longest = fmax(longest, (double)l);
    }
    return pairs + multiprocessors * QUERIES * (longest + depth);
}

START_TEST(attention_blocks)
{
    static const int64_t lengths[] = {4096, 128, 512, 1024};
    const luo_attention cases[] = {{16, 128, 1, 32768, 0, NULL, true, 0, 0, 0},
                                   {16, 64, 1, 128, 0, NULL, true, 0, 0, 0},
                                   {4, 128, 4, 0, 0, lengths, true, 0, 0, 0},
                                   {4, 128, 4, 0, 0, lengths, false, 0, 0, 0},
                                   {32, 64, 3, 2048, 0, NULL, true, 0, 0, 0}};
    luo_profile p = luo_ref_profile();
    p.sm_count = 132;
    for (size_t i = 0; i < LUO_ROWS(cases); i++) {
        const luo_attention *a = &cases[i];
        double s = 0;
        p.attention_depth = 150;
        ck_assert_int_eq(luo_cost_attention(&p, LUO_BF16, a, false, &s, NULL), LUO_OK);
        const double flops = 4.0 * (double)a->head_dim * pairs_of_blocks(a, 150, 132);
        luo_near(s - p.launch_s, flops / (p.peak_flops[LUO_BF16] * p.attention_forward_ratio), 1e-9,
                 "blocks");
    }
    const luo_attention nothing = {8, 64, 0, 512, 0, NULL, true, 0, 0, 0};
    double s = 1;
    luo_cost_attention(&p, LUO_BF16, &nothing, false, &s, NULL);
    ck_assert_double_eq(s, 0);
}
END_TEST

START_TEST(host)
{
    luo_stack s;
    luo_stack_default(&s);
    ck_assert_double_eq_tol(s.host_launch_s, 15e-6, 1e-18);
    s.host_launch_s = 5e-5;
    luo_near(luo_cost_host(&s, 3e-4, 18), 9.1097669156e-4, 1e-9, "ACC-H1");
    luo_near(luo_cost_host(&s, 3e-2, 18), 3.0000269998e-2, 1e-9, "ACC-H2");
    luo_near(luo_cost_host(&s, 0, 18), 0, 0, "nothing to do");
    luo_near(luo_cost_jitter(&s, 256), 1, 0, "up to 256 devices");
    luo_near(luo_cost_jitter(&s, 1024), 1.02, 1e-12, "jitter");
    static const struct {
        luo_ring r;
        double seconds;
    } rings[] = {
        {{4, false, 2, 2, 3, 0, 0}, 11}, {{2, false, 2, 2, 3, 0, 0}, 5}, /* V-C5 */
        {{4, true, 5, 5, 3, 0, 0}, 24}, {{2, true, 5, 5, 3, 0, 0}, 13},
        {{1, true, 5, 5, 3, 0, 0}, 5}, {{4, false, 1, 2, 0.5, 0, 0}, 7},
        {{4, false, 2, 2, 3, 0, 3}, 8 + 2}, /* the first hop is over when the first step begins */
        {{2, true, 5, 5, 3, 1, 0}, 13 + 0.5}, 
    };
    for (size_t i = 0; i < LUO_ROWS(rings); i++)
        luo_near(luo_cost_ring(&rings[i].r), rings[i].seconds, 1e-12, "ring");
}
END_TEST

enum { MIB = 1 << 20 };
static const luo_curve_point at2[] = {{MIB, 24e9}, {64.0 * MIB, 160e9}, {1024.0 * MIB, 200e9}};
static const luo_curve_point at8[] = {{MIB, 20e9}, {64.0 * MIB, 200e9}, {1024.0 * MIB, 230e9}};
static const luo_curve curves[] = {{LUO_COLL_AR, 2, 3, at2}, {LUO_COLL_AR, 8, 3, at8}};

static const struct {
    const char *id;
    int coll;
    int32_t n;
    int64_t bytes;
    double seconds;
} one_node[] = {
    {"ACC-C1", LUO_COLL_AR, 8, 64 * MIB, 5.8720256e-4},
    {"ACC-C2", LUO_COLL_AR, 5, 16 * MIB, 2.1081318534e-4},
    {"ACC-C3", LUO_COLL_AR, 8, 64 * 1024, 9.17504e-5},
    {"ACC-C4", LUO_COLL_RS, 8, 64 * MIB, 2.9360128e-4},
    {"all-gather from all-reduce", LUO_COLL_AG, 8, 64 * MIB, 2.9360128e-4},
    {"all-to-all from all-gather", LUO_COLL_A2A, 8, 64 * MIB, 2.9360128e-4},
    {"broadcast", LUO_COLL_BCAST, 8, 64 * MIB, 3.3554432e-4},
    {"ACC-C6", LUO_COLL_AR, 1, 64 * MIB, 0},
    {"no bytes", LUO_COLL_AR, 8, 0, 0},
    {"ACC-C7", LUO_COLL_AR, 16, 64 * MIB, 6.291456e-4},
};

static const int32_t ids[256] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

START_TEST(collective_one_node)
{
    luo_arena *arena = luo_arena_new(0);
    luo_profile p = luo_ref_profile();
    p.ncurves = 2;
    p.curves = curves;
    luo_node_group g = luo_test_group("a", 1, 16, &p);
    const luo_cluster c = luo_test_cluster(arena, &g, 1);
    luo_stack stack;
    luo_stack_default(&stack);
    const luo_cost_ctx ctx = {.cluster = &c, .stack = &stack, .dtype = LUO_BF16};
    const double s =
        luo_cost_group_seconds(&ctx, one_node[_i].coll, ids, one_node[_i].n, one_node[_i].bytes, 0);
    luo_near(s, one_node[_i].seconds, 1e-9, one_node[_i].id);
    luo_arena_free(arena);
}
END_TEST

/* `nodes` nodes of 8, all of them or one device of each. */
static void several(const char *id, int32_t nodes, int32_t each, double nics, double busbw,
                    int64_t bytes, double share, double want)
{
    luo_arena *arena = luo_arena_new(0);
    luo_profile p = luo_ref_profile();
    const luo_curve_point point = {1, busbw};
    const luo_curve curve = {LUO_COLL_AR, 8, 1, &point};
    p.net_ratio = 0.965;
    p.ncurves = 1;
    p.curves = &curve;
    luo_node_group g = luo_test_group("a", nodes, 8, &p);
    g.nic_bytes_per_s = nics / 8;
    const luo_cluster c = luo_test_cluster(arena, &g, 1);
    luo_stack stack;
    luo_stack_default(&stack);
    const luo_cost_ctx ctx = {.cluster = &c, .stack = &stack, .dtype = LUO_BF16};
    int32_t dev[256], n = 0;
    for (int32_t i = 0; i < nodes; i++)
        for (int32_t k = 0; k < each; k++) dev[n++] = 8 * i + k;
    const double s = luo_cost_group_seconds(&ctx, LUO_COLL_AR, dev, n, bytes, share);
    luo_near(s, want, 1e-9, id);
    for (int32_t i = 0; i < n / 2; i++) { /* order does not matter */
        const int32_t t = dev[i];
        dev[i] = dev[n - 1 - i];
        dev[n - 1 - i] = t;
    }
    for (int32_t i = 0; i + 9 < n; i += 9) {
        const int32_t t = dev[i];
        dev[i] = dev[i + 9];
        dev[i + 9] = t;
    }
    const double again = luo_cost_group_seconds(&ctx, LUO_COLL_AR, dev, n, bytes, share);
    ck_assert_double_eq(s, again);
    luo_arena_free(arena);
}

START_TEST(collective_several_nodes)
{
    several("ACC-C8", 4, 8, 200e9, 200e9, (int64_t)256 * MIB, 1, 2.60046848e-3);
    several("C8 by its own share", 4, 8, 200e9, 200e9, (int64_t)256 * MIB, 0, 2.60046848e-3);
    several("ACC-C9", 32, 1, 100e9, 200e9, (int64_t)1024 * MIB, 0.125, 1.8110775411e-1);
    several("C9 by its own share", 32, 1, 100e9, 200e9, (int64_t)1024 * MIB, 0, 1.8110775411e-1);
}
END_TEST

/* A mesh whose table exists, and one without for that number of devices: then the ring's. */
START_TEST(mesh_tables)
{
    luo_arena *arena = luo_arena_new(0);
    luo_profile p = luo_ref_profile();
    const luo_curve mesh_curves[] = {{LUO_COLL_AR, 8, 3, at8}, {LUO_COLL_AR, 2, 3, at2},
                                     {LUO_COLL_AR, 4, 3, at2}};
    p.name = "v100";
    p.ncurves = 3;
    p.curves = mesh_curves;
    luo_node_group g = luo_test_group("a", 1, 8, &p);
    const luo_mesh_link pairs[] = {{0, 1, 2}};
    g.scale_up = LUO_SCALE_UP_MESH;
    g.nmesh = 1;
    g.mesh = pairs;
    g.has_pcie = true;
    g.pcie_bytes_per_s = 16e9;
    const luo_cluster c = luo_test_cluster(arena, &g, 1);
    luo_stack stack;
    luo_stack_default(&stack);
    const luo_cost_ctx ctx = {.cluster = &c, .stack = &stack, .dtype = LUO_BF16};
    const uint64_t without =
        UINT64_C(1) << 2 | UINT64_C(1) << 4 | UINT64_C(1) << 5 | UINT64_C(1) << 6;
    double s = luo_cost_group_seconds(&ctx, LUO_COLL_AR, ids, 5, 1 << 30, 0);
    luo_near(s, 8.4e-6 + 8 * 5.7e-6 + 1.6 * (1 << 30) / (0.8 * 16e9), 1e-12, "mesh, 5 devices");
    ck_assert_uint_eq(luo_cost_mesh_without(&g, &p), without);
    s = luo_cost_group_seconds(&ctx, LUO_COLL_AG, ids, 4, MIB, 0);
    luo_near(s, 0.75 * MIB / 24e9, 1e-12, "mesh, 4 devices");
    luo_arena_free(arena);
}
END_TEST

/* Without any table: the best protocol of the ring, by hand for two sizes. */
START_TEST(no_table)
{
    luo_arena *arena = luo_arena_new(0);
    const luo_profile p = luo_ref_profile();
    luo_node_group g[2] = {luo_test_group("a", 1, 8, &p), luo_test_group("b", 1, 4, &p)};
    g[1].scale_up = LUO_SCALE_UP_NONE;
    g[1].has_pcie = true;
    g[1].pcie_bytes_per_s = 16e9;
    const luo_cluster c = luo_test_cluster(arena, g, 2);
    luo_stack stack;
    luo_stack_default(&stack);
    const luo_cost_ctx ctx = {.cluster = &c, .stack = &stack, .dtype = LUO_BF16};
    double s =
        luo_cost_group_seconds(&ctx, LUO_COLL_AR, ids, 8, 1000, 0); /* LL: 14 steps of 0.6 us */
    luo_near(s, 6.6e-6 + 14 * 0.6e-6 + 1.75 * 1000 / (0.8 * 300e9 * 0.5), 1e-12, "LL");
    s = luo_cost_group_seconds(&ctx, LUO_COLL_AR, ids, 8, 1 << 30, 0); /* Simple */
    luo_near(s, 8.4e-6 + 14 * 3.4e-6 + 1.75 * (1 << 30) / (0.8 * 300e9), 1e-12, "Simple");
    s = luo_cost_group_seconds(&ctx, LUO_COLL_RS, ids + 8, 4, 1 << 30, 0);
    luo_near(s, 8.4e-6 + 3 * 5.7e-6 + 0.75 * (1 << 30) / (0.8 * 16e9), 1e-12, "PCIe");
    luo_arena_free(arena);
}
END_TEST

START_TEST(p2p)
{
    luo_arena *arena = luo_arena_new(0);
    luo_profile p = luo_ref_profile();
    luo_node_group g = luo_test_group("a", 2, 8, &p);
    luo_cluster c = luo_test_cluster(arena, &g, 1);
    luo_stack stack;
    luo_stack_default(&stack);
    const luo_cost_ctx ctx = {.cluster = &c, .stack = &stack, .dtype = LUO_BF16};
    double s = luo_cost_p2p_seconds(&ctx, 0, 0, MIB, 0);
    luo_near(s, 0, 0, "to itself");
    s = luo_cost_p2p_seconds(&ctx, 0, 1, MIB, 0);
    luo_near(s, 10e-6 + MIB / 300e9, 1e-12, "link");
    s = luo_cost_p2p_seconds(&ctx, 0, 8, MIB, 0);
    luo_near(s, 10e-6 + MIB / (0.9 * 200e9 / 8), 1e-12, "all of the node send");
    s = luo_cost_p2p_seconds(&ctx, 0, 8, MIB, 1);
    luo_near(s, 10e-6 + MIB / (0.9 * 200e9), 1e-12, "alone");
    p.ncurves = 2;
    p.curves = curves;
    s = luo_cost_p2p_seconds(&ctx, 0, 1, 64 * MIB, 0);
    luo_near(s, 10e-6 + 64.0 * MIB / 160e9, 1e-12, "curve of 2 devices");
    const luo_p2p_time times[] = {{"nic", MIB, 1e-4}, {"nic", 4.0 * MIB, 2e-4}};
    p.np2p_times = 2;
    p.p2p_times = times;
    s = luo_cost_p2p_seconds(&ctx, 0, 8, 1000, 0);
    luo_near(s, 1e-4, 1e-12, "measured, below");
    s = luo_cost_p2p_seconds(&ctx, 0, 8, 2 * MIB, 0); /* half way in log2: mean bandwidth */
    luo_near(s, 2.0 * MIB / ((MIB / 1e-4 + 4.0 * MIB / 2e-4) / 2), 1e-12, "measured, between");
    s = luo_cost_p2p_seconds(&ctx, 0, 8, 8 * MIB, 0);
    luo_near(s, 4e-4, 1e-12, "measured, above");
    luo_arena_free(arena);
}
END_TEST

START_TEST(instructions)
{
    luo_arena *arena = luo_arena_new(0);
    luo_profile p = luo_ref_profile();
    const luo_op_time times[] = {{"gemm", LUO_BF16, 64, 64, 64, 1e-3}};
    luo_node_group g = luo_test_group("a", 1, 2, &p);
    g.base_slowdown = 2;
    const luo_cluster c = luo_test_cluster(arena, &g, 1);
    luo_stack stack;
    luo_stack_default(&stack);
    stack.host_launch_s = 0;
    const luo_cost_ctx ctx = {.cluster = &c, .stack = &stack, .dtype = LUO_BF16};
    const luo_cost_key gemm_key = {LUO_COST_GEMM, {8192, 3072, 1024, 1, 2, 0}};
    const luo_cost_key small = {LUO_COST_GEMM, {64, 64, 64, 1, 2, 0}};
    const luo_cost_key adam = {LUO_COST_OPTIMIZER, {1000000, 34}};
    const luo_cost_key bad = {99, {0}};
    double s = -1;
    ck_assert_int_eq(luo_cost_instr(&ctx, 1, &gemm_key, LUO_BF16, &s, NULL), LUO_OK);
    luo_near(s, 2 * 2.4757104453e-4, 1e-9, "base_slowdown");
    luo_cost_instr(&ctx, 1, &adam, LUO_BF16, &s, NULL);
    luo_near(s, 2 * (34e6 / (0.72 * 2e12) + 4e-6), 1e-12, "optimizer");
    stack.optimizer_bytes = 17;
    luo_cost_instr(&ctx, 1, &adam, LUO_BF16, &s, NULL);
    luo_near(s, 2 * (17e6 / (0.72 * 2e12) + 4e-6), 1e-12, "another stack's optimizer");
    const luo_cost_key att = {LUO_COST_ATTENTION_F, {12, 128, 2048, 2048, 1, 0}};
    stack.attention_fused = false;
    luo_cost_instr(&ctx, 1, &att, LUO_BF16, &s, NULL);
    luo_near(s, 2 * 4.8688393846e-4, 1e-9, "ACC-A4 by its key");
    ck_assert_int_eq(luo_cost_instr(&ctx, 1, &bad, LUO_BF16, &s, NULL), LUO_EBUG);
    p.nop_times = 1;
    p.op_times = times;
    luo_cost_instr(&ctx, 0, &small, LUO_BF16, &s, NULL);
    luo_near(s, 2e-3, 1e-12, "measured op");
    stack.host_launch_s = 1;
    luo_cost_instr(&ctx, 0, &small, LUO_BF16, &s, NULL);
    luo_near(s, 2 * luo_cost_host(&stack, 1e-3, 1), 1e-12, "host floor");
    luo_err err = {0};
    ck_assert_int_eq(luo_cost_instr(&ctx, 0, &gemm_key, LUO_F64, &s, &err), LUO_EINPUT);
    ck_assert_str_eq(err.text, "profile `ref` has no peak for dtype `f64`; it lists bf16, f32.");
    p.memory_bytes_per_s = 0;
    ck_assert_int_eq(luo_cost_instr(&ctx, 0, &gemm_key, LUO_BF16, &s, &err), LUO_EINPUT);
    ck_assert_str_eq(err.text, "profile `ref` has no value `memory_gbytes_per_s`; give it or an "
                               "op_times table.");
    luo_arena_free(arena);
}
END_TEST

/* luo_cost_role: the instructions of a layer sum to t_layer less its communication. */
START_TEST(role_floor)
{
    luo_arena *arena = luo_arena_new(0);
    const luo_profile p = luo_ref_profile();
    luo_node_group g = luo_test_group("a", 1, 2, &p);
    const luo_cluster c = luo_test_cluster(arena, &g, 1);
    luo_stack stack;
    luo_stack_default(&stack);
    stack.host_launch_s = 5e-5;
    const luo_cost_ctx ctx = {.cluster = &c, .stack = &stack, .dtype = LUO_BF16};
    const luo_cost_key key = {LUO_COST_GEMM, {1024, 1024, 1024, 1, 2, 0}};
    const luo_cost_key adam = {LUO_COST_OPTIMIZER, {1000000, 34}};
    const luo_instr instr[] = {
        {.kind = LUO_INSTR_COMPUTE, .layer = 3, .cost = key},
        {.kind = LUO_INSTR_COMPUTE, .layer = 3, .cost = key},
        {.kind = LUO_INSTR_COLLECTIVE, .stream = LUO_STREAM_TP, .layer = 3},
        {.kind = LUO_INSTR_COMPUTE, .layer = 3, .recompute = true, .cost = key},
        {.kind = LUO_INSTR_COMPUTE, .layer = -1, .cost = key},
        {.kind = LUO_INSTR_COMPUTE, .layer = -1, .cost = adam},
        {.kind = LUO_INSTR_COMPUTE, .layer = 3, .cost = adam},
    };
    const luo_segment seg[] = {{LUO_PHASE_F, 0, 1, 0, 5}, {LUO_PHASE_POST, 0, 0, 5, 2}};
    const luo_role role = {.ninstr = 7, .nseg = 2, .instr = instr, .seg = seg};
    const luo_comm_cost comm[7] = {[2] = {1e-4, 0}};
    double s[7], one;
    ck_assert_int_eq(luo_cost_role(arena, &ctx, 0, &role, comm, s, NULL), LUO_OK);
    luo_cost_key_seconds(&p, &stack, &key, LUO_BF16, &one, NULL);
    luo_near(s[0] + s[1], luo_cost_host(&stack, 2 * one + 1e-4, 3) - 1e-4, 1e-12, "layer");
    luo_near(s[3], luo_cost_host(&stack, one, 1), 1e-12, "recompute apart");
    luo_near(s[4], luo_cost_host(&stack, one, 1), 1e-12, "no layer");
    luo_near(s[2], 0, 0, "communication is not compute");
    luo_near(s[5] + s[6], 2 * (34e6 / (0.72 * 2e12) + 4e-6) + 40 * 5e-5, 1e-12, "40 launches");
    luo_arena_free(arena);
}
END_TEST

static const struct {
    luo_value value;
    bool without_peak, without_w, without_memory;
    const char *says;
} profiles[] = {
    {LUO_VALUE("gemm_ratio", 0.5), false, false, false, ""},
    {LUO_VALUE("gemm_ratio", 0.5), true, false, false,
     "profile `x` has no value `peak_bf16_tflop_per_s` (not known in any source); measure it with "
     "`luoshu calibrate`."},
    {LUO_VALUE("gemm_ratio", 0.5), false, true, false,
     "profile `x` has no value `memory_gbytes_per_s`; give it or an op_times table."},
    {LUO_VALUE("gemm_ratio", 0.5), false, false, true,
     "profile `x` has no value `memory_gib`; give it."},
    {LUO_VALUE("gemm_ratio", 1.5), false, false, false,
     "`gemm_ratio` of profile `x` is 1.5; a number from 1e-09 to 1 is expected."},
    {LUO_VALUE("gemm_rati", 1), false, false, false,
     "profile `x` has an unknown value `gemm_rati`; did you mean `gemm_ratio`?"},
    {LUO_VALUE("zzz", 1), false, false, false,
     "profile `x` has an unknown value `zzz`; `peak_bf16_tflop_per_s`, "
     "`peak_f32_tflop_per_s`, `peak_f64_tflop_per_s`, `peak_f16_tflop_per_s`, "
     "`peak_tf32_tflop_per_s`, `peak_fp8_tflop_per_s`, `memory_gbytes_per_s`, `memory_gib`, "
     "`reserved_gib`, `sm_count`, `launch_us`, `gemm_ratio`, `gemm_depth`, `memory_ratio`, "
     "`attention_forward_ratio`, `attention_backward_ratio`, `attention_depth`, "
     "`misaligned_factor`, `net_ratio`, `net_half_bytes`, `net_step_us`, `p2p_us`, "
     "`overlap_loss_nvlink_ratio`, "
     "`overlap_loss_net_ratio`, `tables_nvlink_gbytes_per_s`, `tables_pcie_gbytes_per_s`, "
     "`tables_socket_gbytes_per_s`, `tables_nic_gbytes_per_s`, `tables_uplink_gbytes_per_s` or "
     "`tables_line_gbytes_per_s` is expected."},
    {LUO_VALUE("memory_gib", 80), false, false, false,
     "profile `x` gives `memory_gib` twice; give it once."},
    {LUO_VALUE("launch_us", NAN), false, false, false,
     "`launch_us` of profile `x` is nan; a number from 0 to 1e+09 is expected."},
};

START_TEST(profile)
{
    luo_value v[4];
    int32_t n = 0;
    if (!profiles[_i].without_peak) v[n++] = (luo_value)LUO_VALUE("peak_f16_tflop_per_s", 125);
    if (!profiles[_i].without_w) v[n++] = (luo_value)LUO_VALUE("memory_gbytes_per_s", 900);
    if (!profiles[_i].without_memory) v[n++] = (luo_value)LUO_VALUE("memory_gib", 16);
    v[n++] = profiles[_i].value;
    v[n - 1].line = 7;
    v[n - 1].col = 3;
    luo_profile p = {.name = "x", .nvalues = n, .values = v};
    luo_err err = {0};
    const luo_status st = luo_profile_finish(&p, &err);
    ck_assert_int_eq(st, *profiles[_i].says ? LUO_EINPUT : LUO_OK);
    ck_assert_str_eq(err.text, profiles[_i].says);
    if (st != LUO_OK) {
        ck_assert_int_eq(err.line, strstr(err.text, "has no value") ? 0 : 7);
        return;
    }
    ck_assert_double_eq(p.peak_flops[LUO_BF16], 125e12); /* docs/cost-model.md#precision */
    ck_assert_double_eq(p.gemm_ratio, 0.5);
    ck_assert_double_eq_tol(p.p2p_s, 10e-6, 1e-18);
    ck_assert_double_eq_tol(p.reserved_bytes, 1.86 * 1073741824, 1);
    ck_assert_double_eq(p.net_half_bytes, 13450000);
}
END_TEST

START_TEST(stack_values)
{
    luo_stack s;
    luo_err err = {0};
    luo_stack_default(&s);
    ck_assert(s.attention_fused && !s.p2p_blocking && !s.scatter_gather);
    ck_assert_int_eq(luo_stack_set(&s, "host_launch_us", 50, &err), LUO_OK);
    ck_assert_double_eq_tol(s.host_launch_s, 50e-6, 1e-18);
    ck_assert(s.grad_comm_bytes == 0);
    ck_assert_int_eq(luo_stack_set(&s, "grad_comm_bytes", 4, &err), LUO_OK);
    ck_assert(s.grad_comm_bytes == 4);
    ck_assert_int_eq(luo_stack_set(&s, "tp_exposed_factor", 1.5, &err), LUO_EINPUT);
    ck_assert_str_eq(err.text, "`tp_exposed_factor` is 1.5; a number from 0 to 1 is expected.");
    ck_assert_int_eq(luo_stack_set(&s, "dp_overlap", 0.95, &err), LUO_EINPUT);
    ck_assert_str_eq(err.text, "`dp_overlap` is 0.95; 0 (off) or 1 (on) is expected.");
    ck_assert(!s.dp_overlap);
    ck_assert_int_eq(luo_stack_set(&s, "p2p", 1, &err), LUO_OK);
    ck_assert(s.p2p_blocking);
    ck_assert_int_eq(luo_stack_switch(&s, "attention", "unfused", &err), LUO_OK);
    ck_assert(!s.attention_fused);
    ck_assert_int_eq(luo_stack_switch(&s, "attention", "flash", &err), LUO_EINPUT);
    ck_assert_str_eq(err.text, "`attention` is `flash`; `unfused` or `fused` is expected.");
    ck_assert_int_eq(luo_stack_set(&s, "dp_overlop", 1, &err), LUO_EINPUT);
    ck_assert_str_eq(err.text, "a stack has no `dp_overlop`; did you mean `dp_overlap`?");
    ck_assert(s.bucket.rule == LUO_BUCKET_UNSAID && !s.bucket.has_mib);
    ck_assert_int_eq(luo_stack_switch(&s, "bucket_rule", "megatorn", &err), LUO_EINPUT);
    ck_assert_str_eq(err.text, "`bucket_rule` is `megatorn`; did you mean `megatron`?");
    ck_assert_int_eq(luo_stack_switch(&s, "bucket_rule", "megatron", &err), LUO_OK);
    ck_assert_int_eq(luo_stack_set(&s, "bucket_mib", 25, &err), LUO_EINPUT);
    ck_assert_str_eq(err.text, "`bucket_mib` belongs to `bucket_rule` mib; leave it out for "
                               "megatron.");
    ck_assert_int_eq(luo_stack_switch(&s, "bucket_rule", "mib", &err), LUO_OK);
    ck_assert_int_eq(luo_stack_set(&s, "bucket_mib", 25, &err), LUO_OK);
    ck_assert(s.bucket.rule == LUO_BUCKET_MIB && s.bucket.has_mib && s.bucket.mib == 25);
    ck_assert_int_eq(luo_stack_switch(&s, "bucket_rule", "unit", &err), LUO_EINPUT);
    ck_assert_int_eq(luo_stack_switch(&s, "fp8_recipe", "curent", &err), LUO_EINPUT);
    ck_assert_str_eq(err.text, "`fp8_recipe` is `curent`; did you mean `current`?");
    ck_assert_int_eq(luo_stack_switch(&s, "fp8_recipe", "current", &err), LUO_OK);
    ck_assert_int_eq(s.fp8_recipe, LUO_FP8_CURRENT);
}
END_TEST

#define OF(field) offsetof(luo_stack, field)
static const struct {
    const char *name;
    size_t at;
    double unit;
} stack_numbers[] = {
    {"host_launch_us", OF(host_launch_s), 1e-6},
    {"host_exponent", OF(host_exponent), 1},
    {"busbw_factor", OF(busbw_factor), 1},
    {"kernels_forward", OF(kernels_forward), 1},
    {"gemm_ratio", OF(gemm_ratio), 1},
    {"attention_ratio", OF(attention_ratio), 1},
    {"grad_comm_bytes", OF(grad_comm_bytes), 1},
    {"optimizer_bytes", OF(optimizer_bytes), 1},
    {"tp_exposed_factor", OF(tp_exposed_factor), 1},
    {"scale_jitter", OF(scale_jitter), 1},
    {"gradient_bytes", OF(memory.gradient_bytes), 1},
    {"f32_state_bytes", OF(memory.f32_state_bytes), 1},
    {"framework_gib", OF(memory.framework_bytes), 1073741824.0},
    {"communicator_mib", OF(memory.communicator_bytes), 1048576.0},
    {"allocator_factor", OF(memory.allocator_factor), 1},
    {"headroom_factor", OF(memory.headroom_factor), 1},
    {"bucket_mib", OF(bucket.mib), 1},
    {"source_spread", OF(source_spread), 1},
    {"residual_spread", OF(residual_spread), 1},
};

/* Files say microseconds and GiB; what computes has seconds and bytes. */
START_TEST(units_of_a_stack)
{
    luo_value_key key;
    int n = 0;
    while (luo_stack_value_key(n, &key)) n++;
    ck_assert_int_eq(n, LUO_ROWS(stack_numbers) + 1); /* and `dp_lanes`, a whole number */
    for (int i = 0; i < LUO_ROWS(stack_numbers); i++) {
        luo_stack s;
        luo_err err = {0};
        double got;
        luo_stack_default(&s);
        ck_assert(luo_stack_value_key(i, &key));
        ck_assert_str_eq(key.name, stack_numbers[i].name);
        memcpy(&got, (const char *)&s + stack_numbers[i].at, sizeof got);
        luo_near(got, key.otherwise * stack_numbers[i].unit, 1e-15, key.name);
        ck_assert_int_eq(luo_stack_set(&s, stack_numbers[i].name, 1, &err), LUO_OK);
        memcpy(&got, (const char *)&s + stack_numbers[i].at, sizeof got);
        luo_near(got, stack_numbers[i].unit, 1e-15, key.name);
    }
}
END_TEST

/* What a measured table of a collective may be. */
START_TEST(tables_of_collectives)
{
    static const luo_curve_point at[] = {{1e3, 1e9}, {1e6, 2e9}},
                                 falling[] = {{1e6, 2e9}, {1e3, 1e9}},
                                 same[] = {{1e3, 1e9}, {1e3, 2e9}}, none[] = {{1e3, 0}};
    const struct {
        luo_curve curve[2];
        int32_t n;
        bool good;
    } rows[] = {
        {{{LUO_COLL_AR, 2, 2, at}}, 1, true},
        {{{LUO_COLL_AR, 2, 1, at}}, 1, true},
        {{{LUO_COLL_AR, 1, 2, at}}, 1, false},
        {{{LUO_COLL_AR, 2, 0, at}}, 1, false},
        {{{LUO_COLL_AR, 2, 2, falling}}, 1, false},
        {{{LUO_COLL_AR, 2, 2, same}}, 1, false},
        {{{LUO_COLL_AR, 2, 1, none}}, 1, false},
        {{{LUO_COLL_AR, 2, 2, at}, {LUO_COLL_AR, 4, 2, at}}, 2, true},
        {{{LUO_COLL_AR, 2, 2, at}, {LUO_COLL_AG, 2, 2, at}}, 2, true},
        {{{LUO_COLL_AR, 2, 2, at}, {LUO_COLL_AR, 2, 1, at}}, 2, false},
    };
    for (int i = 0; i < LUO_ROWS(rows); i++) {
        luo_value v[] = {LUO_VALUE("peak_bf16_tflop_per_s", 125),
                         LUO_VALUE("memory_gbytes_per_s", 900), LUO_VALUE("memory_gib", 16)};
        luo_profile p = {
            .name = "x", .nvalues = 3, .values = v, .ncurves = rows[i].n, .curves = rows[i].curve};
        luo_err err = {0};
        const luo_status st = luo_profile_finish(&p, &err);
        ck_assert_msg(st == (rows[i].good ? LUO_OK : LUO_EINPUT), "row %d: %s", i, err.text);
        if (!rows[i].good)
            ck_assert_ptr_nonnull(strstr(err.text, "profile `x` has a bad all_reduce"));
    }
}
END_TEST

/* A window leaves out all pairs but n w - w^2 / 2, of fused attention alone; one that is as long as
 * the sequence changes nothing. Pairs that are seen are counted one by one. */
START_TEST(attention_windows)
{
    const luo_profile p = luo_ref_profile();
    luo_attention a = {
        .heads = 16, .head_dim = 128, .sequences = 2, .tokens = 2048, .causal = true};
    double all, cut, same;
    for (int back = 0; back < 2; back++) {
        a.window = 0;
        ck_assert_int_eq(luo_cost_attention(&p, LUO_BF16, &a, back, &all, NULL), LUO_OK);
        for (int64_t w = 1; w < 4096; w *= 4) {
            double seen = 0; /* the diagonal counts half, and so do the pairs at the window's end */
            for (int64_t q = 0; q < a.tokens; q++) seen += q < w ? (double)q + 0.5 : (double)w;
            a.window = w;
            ck_assert_int_eq(luo_cost_attention(&p, LUO_BF16, &a, back, &cut, NULL), LUO_OK);
            luo_near((cut - p.launch_s) / (all - p.launch_s), seen / (2048.0 * 2048 / 2), 1e-9,
                     "pairs of a window");
        }
        a.window = 2048;
        ck_assert_int_eq(luo_cost_attention(&p, LUO_BF16, &a, back, &same, NULL), LUO_OK);
        ck_assert(same == all);
        a.window = 16;
        ck_assert_int_eq(luo_cost_attention_unfused(&p, LUO_BF16, &a, back, &cut, NULL), LUO_OK);
        a.window = 0;
        ck_assert_int_eq(luo_cost_attention_unfused(&p, LUO_BF16, &a, back, &same, NULL), LUO_OK);
        ck_assert(same == cut);
    }
}
END_TEST

LUO_SUITE("cost", LUO_T(attention_windows), LUO_T_N(gemm, LUO_ROWS(gemms)),
          LUO_T(experts), LUO_T(fp8), LUO_T(eager),
          LUO_T(experts_beside),
          LUO_T(experts_as_measured), LUO_T_N(attention, LUO_ROWS(attentions)),
          LUO_T(attention_rest), LUO_T(attention_blocks), LUO_T(host),
          LUO_T_N(collective_one_node, LUO_ROWS(one_node)), LUO_T(collective_several_nodes),
          LUO_T(mesh_tables), LUO_T(no_table), LUO_T(p2p), LUO_T(instructions), LUO_T(role_floor),
          LUO_T_N(profile, LUO_ROWS(profiles)), LUO_T(stack_values), LUO_T(units_of_a_stack),
          LUO_T(tables_of_collectives))
