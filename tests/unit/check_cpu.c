/* check_cpu.c: costs of CPU ranks: the formula of a product, measured rows of whole
 * instructions, and what lies between them (core/cost/cpu.h). */
#include <math.h>

#include "core/cost/fit/cpu_fit.h"
#include "tests/cost_fixture.h"
#include "tests/prop/prop.h"

static const luo_value values[] = {
    LUO_VALUE("peak_f32_tflop_per_s", 0.1),
    LUO_VALUE("memory_gbytes_per_s", 20),
    LUO_VALUE("memory_gib", 8),
    LUO_VALUE("memory_ratio", 1),
    LUO_VALUE("gemm_ratio", 0.5),
    LUO_VALUE("gemm_depth", 10),
    LUO_VALUE("launch_us", 2),
};

static luo_profile profile(const luo_op_time *rows, int32_t n)
{
    luo_profile p = {.name = "cpu",
                     .cpu = true,
                     .nvalues = LUO_ROWS(values),
                     .values = values,
                     .nop_times = n,
                     .op_times = rows};
    luo_err err = {0};
    ck_assert_msg(luo_profile_finish(&p, &err) == LUO_OK, "%s", err.text);
    return p;
}

/* One instruction of a kind, with buffers of so many elements. */
typedef struct one {
    luo_instr in;
    luo_buffer buf[3];
    luo_role role;
    luo_op_info op;
    luo_cost_ctx ctx;
    int32_t ids[3];
    luo_stack stack;
} one;

static void make(one *x, const char *kind, luo_cost_key key, int64_t a, int64_t b, int64_t y)
{
    const int64_t n[3] = {a, b, y};
    *x = (one){.ids = {0, 1, 2}, .op = {"x", luo_op_kind_of(kind), -1}};
    for (int i = 0; i < 3; i++)
        x->buf[i] = (luo_buffer){.rank = 1, .dim = {n[i]}, .buffer_class = LUO_BUFFER_WORK};
    x->in = (luo_instr){.kind = LUO_INSTR_COMPUTE,
                        .cost = key,
                        .nin = 2,
                        .in = x->ids,
                        .nout = 1,
                        .out = x->ids + 2};
    x->role = (luo_role){.ninstr = 1, .instr = &x->in, .nbuf = 3, .buf = x->buf};
    luo_stack_default(&x->stack);
    x->ctx = (luo_cost_ctx){.stack = &x->stack, .dtype = LUO_F32, .nops = 1, .ops = &x->op};
}

static double seconds_of(const one *x, const luo_profile *p)
{
    double s = -1;
    luo_err err = {0};
    const luo_status st = luo_cpu_instr(&x->ctx, p, &x->role, &x->in, &s, &err);
    ck_assert_msg(st == LUO_OK, "%s", err.text);
    return s;
}

static double product_of(const luo_profile *p, const char *kind, int64_t m, int64_t n, int64_t k)
{
    one x;
    make(&x, kind, (luo_cost_key){LUO_COST_GEMM, {m, n, k, 1, 4, 0}}, 1, 1, 1);
    return seconds_of(&x, p);
}

START_TEST(product_formula)
{
    const luo_profile p = profile(NULL, 0);
    /* 2*10*20*(30 + 10) / 50e9 + 4*(300 + 600 + 400) / 20e9 + 2e-6 */
    luo_near(product_of(&p, "matmul", 10, 20, 30), 16000 / 50e9 + 5200 / 20e9 + 2e-6, 1e-12, "mnk");
    const luo_gemm g = {10, 20, 30, 3, 4, LUO_GEMM_PLAIN};
    double s = 0;
    ck_assert_int_eq(luo_cost_gemm(&p, LUO_F32, &g, &s, NULL), LUO_OK);
    luo_near(s, 3 * (16000 / 50e9 + 5200 / 20e9) + 2e-6, 1e-12, "batch");
    ck_assert_int_eq(luo_cost_gemm(&p, LUO_F64, &g, &s, NULL), LUO_EINPUT);
}
END_TEST

/* The formula's seconds, without launch. */
static double plain(int64_t m, int64_t n, int64_t k)
{
    const luo_profile p = profile(NULL, 0);
    return product_of(&p, "matmul", m, n, k) - p.launch_s;
}

START_TEST(rows_of_products)
{
    const luo_op_time rows[] = {
        {"matmul", LUO_F32, 64, 64, 64, 2 * plain(64, 64, 64)},
        {"matmul", LUO_F32, 0, 64, 64, 5}, /* the formula says nothing of it: left out */
        {"matmul", LUO_F32, 512, 512, 512, 1.25 * plain(512, 512, 512)},
        {"matmul", LUO_F64, 64, 64, 64, 1},
        {"matmul_dx", LUO_F32, 64, 64, 64, 1},
    };
    const luo_profile p = profile(rows, LUO_ROWS(rows));
    luo_near(product_of(&p, "matmul", 64, 64, 64), rows[0].seconds + 2e-6, 1e-12, "at a row");
    luo_near(product_of(&p, "matmul", 512, 512, 512), rows[2].seconds + 2e-6, 1e-12, "at another");
    /* halfway in log size: the geometric mean of the ratios */
    const double half = plain(181, 181, 181) * sqrt(2 * 1.25);
    luo_near(product_of(&p, "matmul", 181, 181, 181) - 2e-6, half, 1e-2, "halfway");
    luo_near(product_of(&p, "matmul_dw", 64, 64, 64), plain(64, 64, 64) + 2e-6, 1e-12, "no rows");
    LUO_PROP_FOR(seed, 200)
    {
        luo_rng rng = luo_rng_seed(seed);
        const int64_t m = 1 + (int64_t)luo_rng_pick(&rng, 2000),
                      n = 1 + (int64_t)luo_rng_pick(&rng, 2000);
        const int64_t k = 1 + (int64_t)luo_rng_pick(&rng, 2000);
        const double r = (product_of(&p, "matmul", m, n, k) - 2e-6) / plain(m, n, k);
        ck_assert_msg(r > 1.25 - 1e-9 && r < 2 + 1e-9, "%d: ratio %g at %d %d %d", (int)seed, r,
                      (int)m, (int)n, (int)k);
    }
}
END_TEST

/* Two sequences of 100 tokens and 3 heads are 6 heads of one. */
START_TEST(rows_of_attention)
{
    const luo_cost_key key = {LUO_COST_ATTENTION_B, {3, 16, 200, 100, 1, 0}};
    const luo_op_time rows[] = {{"attention_dx", LUO_F32, 100, 6, 16, 7e-4}};
    const luo_profile p = profile(rows, LUO_ROWS(rows)), bare = profile(NULL, 0);
    one x;
    make(&x, "attention_dx", key, 5, 5, 5);
    luo_near(seconds_of(&x, &p), 7e-4 + 2e-6, 1e-12, "at a row");
    double by_key = 0;
    luo_cost_key_seconds(&bare, &x.stack, &key, LUO_F32, &by_key, NULL);
    luo_near(seconds_of(&x, &bare), by_key, 1e-12, "by its key");
    x.in.cost.a[3] = 64; /* 3 and a bit of a sequence */
    const luo_cpu_size s = luo_cpu_size_of(&x.role, &x.in, LUO_OP_ATTENTION_DX);
    ck_assert(s.m == 64 && s.n == 12 && s.k == 16);
    x.in.cost.a[7] = 16; /* a window: 64 x 16 - 16^2 / 2 pairs are half the square of 42 */
    ck_assert_int_eq(luo_cpu_size_of(&x.role, &x.in, LUO_OP_ATTENTION_DX).m, 42);
    x.in.cost.a[7] = 80;
    ck_assert_int_eq(luo_cpu_size_of(&x.role, &x.in, LUO_OP_ATTENTION_DX).m, 64);
}
END_TEST

START_TEST(rows_of_others)
{
    const luo_op_time rows[] = {{"add", LUO_F32, 2500, 2, 1, 5}, /* rows of others lie between */
                                {"norm", LUO_F32, 2500, 3, 1, 5},
                                {"norm", LUO_F32, 4000, 2, 1, 9e-6},
                                {"norm", LUO_F32, 0, 2, 1, 5},
                                {"norm", LUO_F32, 1000, 2, 1, 3e-6},
                                {"norm", LUO_F64, 2500, 2, 1, 5}};
    static const double at[][2] = {{0, 0},       {500, 1.5e-6}, {1000, 3e-6},
                                   {2500, 6e-6}, {4000, 9e-6},  {40000, 90e-6}};
    const luo_profile p = profile(rows, LUO_ROWS(rows)), bare = profile(NULL, 0);
    const luo_cost_key key = {LUO_COST_STREAM, {20000}};
    one x;
    for (int i = 0; i < LUO_ROWS(at); i++) {
        const int64_t n = (int64_t)at[i][0];
        make(&x, "norm", key, n / 2, n / 4, n - n / 2 - n / 4);
        luo_near(seconds_of(&x, &p), at[i][1] + 2e-6, 1e-12, "norm");
        luo_near(seconds_of(&x, &bare), 1e-6 + 2e-6, 1e-12, "norm by its bytes");
    }
    make(&x, "embedding", key, 10, 1000000, 640);
    x.buf[1].buffer_class = LUO_BUFFER_WEIGHT;
    ck_assert_int_eq(luo_cpu_size_of(&x.role, &x.in, LUO_OP_EMBEDDING).m, 650);
    ck_assert_int_eq(luo_cpu_size_of(&x.role, &x.in, LUO_OP_NORM).m, 1000650);
    make(&x, "loss", (luo_cost_key){LUO_COST_NONE, {0}}, 10, 10, 10);
    luo_near(seconds_of(&x, &bare), 2e-6, 1e-12, "no key");
}
END_TEST

/* A role on a CPU: no floor of the host, no launches of the optimizer, base_slowdown. */
START_TEST(role_on_cpu)
{
    luo_arena *arena = luo_arena_new(0);
    const luo_profile p = profile(NULL, 0);
    luo_node_group g = luo_test_group("c", 1, 2, &p);
    g.base_slowdown = 1.5;
    const luo_cluster c = luo_test_cluster(arena, &g, 1);
    one x;
    double s[2] = {-1, -1};
    make(&x, "update", (luo_cost_key){LUO_COST_OPTIMIZER, {100, 34}}, 1, 1, 1);
    luo_instr in[2] = {x.in, {.kind = LUO_INSTR_P2P, .layer = -1}};
    x.role.instr = in;
    x.role.ninstr = 2;
    x.ctx.cluster = &c;
    ck_assert_int_eq(luo_cost_role(arena, &x.ctx, 1, &x.role, NULL, s, NULL), LUO_OK);
    luo_near(s[0], 1.5 * (3400 / 20e9 + 2e-6), 1e-12, "update");
    ck_assert(s[1] == 0);
    luo_arena_free(arena);
}
END_TEST

/* Rows whose times say nothing of the work (one of a few small ones was disturbed): larger products
 * are not promised any speed, but at most twice what the fastest row had. */
START_TEST(fit_of_small_rows_is_bounded)
{
    LUO_PROP_FOR(seed, 50)
    {
        luo_rng rng = luo_rng_seed(seed);
        luo_op_time rows[6];
        double fastest = 0;
        for (int i = 0; i < 6; i++) {
            const int64_t m = 64, n = 16 << i % 3, k = i < 3 ? 64 : 160;
            const double moved = (double)(m * k + k * n + 2 * m * n);
            const double s = moved * 1e-10 * (1 + 2 * luo_rng_u(&rng));
            rows[i] = (luo_op_time){"matmul", LUO_F32, m, n, k, s};
            fastest = fmax(fastest, 2 * (double)(m * n * k) / s);
        }
        luo_cpu_fit fit;
        ck_assert_int_eq(luo_cpu_fit_rows(rows, 6, LUO_F32, 20e9, &fit, NULL), LUO_OK);
        ck_assert_msg(fit.peak_flops >= fastest && fit.peak_flops <= 2 * fastest * (1 + 1e-9),
                      "seed %d: %g of %g", (int)seed, fit.peak_flops, fastest);
        ck_assert(fit.gemm_ratio > 0 && fit.gemm_ratio <= 1 && fit.gemm_depth >= 0);
    }
}
END_TEST

/* Rows that are told by what they move alone say nothing of what larger products reach: the fastest
 * row's rate stands for it, not twice that. */
START_TEST(fit_of_rows_that_only_move)
{
    luo_op_time rows[12];
    double fastest = 0;
    for (int i = 0; i < 12; i++) {
        const int64_t m = 32 << i % 3, n = 16 << i / 3, k = 64 - i;
        const double moved = (double)(m * k + k * n + 2 * m * n), s = moved * 1e-10;
        rows[i] = (luo_op_time){"matmul", LUO_F32, m, n, k, s};
        fastest = fmax(fastest, 2 * (double)(m * n * k) / s);
    }
    luo_cpu_fit fit;
    ck_assert_int_eq(luo_cpu_fit_rows(rows, 12, LUO_F32, 40e9, &fit, NULL), LUO_OK);
    luo_near(fit.peak_flops, fastest, 1e-9, "peak");
    luo_near(fit.gemm_ratio, 1, 1e-9, "ratio");
}
END_TEST

/* Rows made by the formula give its constants back; the best product's rate is the peak. */
START_TEST(fit_finds_constants)
{
    LUO_PROP_FOR(seed, 50)
    {
        luo_rng rng = luo_rng_seed(seed);
        luo_op_time rows[60];
        const double peak = 50e9 * (1 + luo_rng_u(&rng)), w = 20e9,
                     beta = 0.2 + 0.7 * luo_rng_u(&rng);
        const double depth = seed % 5 ? 40 * luo_rng_u(&rng) : 0, eta = 0.6 + 0.4 * luo_rng_u(&rng);
        double fastest = 0;
        for (int i = 0; i < 60; i++) {
            const int64_t m = 8 + (int64_t)luo_rng_pick(&rng, 500),
                          n = 8 + (int64_t)luo_rng_pick(&rng, 500);
            const int64_t k = 8 + (int64_t)luo_rng_pick(&rng, 500);
            const double mn = (double)(m * n), all = (double)(m * k + k * n + 2 * m * n);
            const double s = 2 * mn * ((double)k + depth) / (peak * eta) + 4 * all / (beta * w);
            rows[i] = (luo_op_time){i % 2 ? "matmul" : "matmul_dw", LUO_F32, m, n, k, s};
            fastest = fmax(fastest, 2 * mn * (double)k / s);
        }
        luo_cpu_fit fit;
        luo_err err = {0};
        ck_assert_int_eq(luo_cpu_fit_rows(rows, 60, LUO_F32, w, &fit, &err), LUO_OK);
        ck_assert_int_eq(fit.products, 60);
        ck_assert(fit.peak_flops >= fastest);
        luo_near(fit.peak_flops * fit.gemm_ratio, peak * eta, 1e-6, "rate");
        ck_assert_double_eq_tol(fit.gemm_depth, depth, 1e-3 * (depth + 0.1));
        ck_assert_msg(fit.gemm_ratio <= 1 && fit.memory_ratio <= 1 && fit.gemm_depth >= 0,
                      "bounds");
        ck_assert_msg(fit.error < 1e-6, "seed %d: error %g", (int)seed, fit.error);
        ck_assert_int_eq(luo_cpu_fit_rows(rows, 60, LUO_F64, w, &fit, &err), LUO_OK);
        ck_assert(fit.products == 0 && fit.peak_flops == 0);
    }
    const luo_op_time a[] = {{"attention", LUO_F32, 100, 2, 10, 2e-5},
                             {"matmul", LUO_F32, 100, 100, 100, 2e-5},
                             {"attention_dx", LUO_F32, 100, 2, 10, 1e-5}};
    luo_cpu_fit fit;
    ck_assert_int_eq(luo_cpu_fit_rows(a, 3, LUO_F32, 1e9, &fit, NULL), LUO_OK);
    luo_near(fit.attention_forward_ratio, 2.0 * 2 * 10 * 1e4 / 2e-5 / 1e11, 1e-12, "forward");
    luo_near(fit.attention_backward_ratio, 5.0 * 2 * 10 * 1e4 / 1e-5 / 1e11, 1e-12, "backward");
}
END_TEST

/* Without a table a step takes the way's latency, 50 us, and no protocol of NCCL has a say: a ring
 * of n has n - 1 steps and an all-reduce twice as many, of 1/n of the bytes each at 0.8 * 5 GB/s.
 */
START_TEST(steps_of_collectives)
{
    static const struct {
        luo_coll coll;
        int32_t n;
        double bytes, want;
    } row[] = {
        {LUO_COLL_AR, 2, 1, 100e-6},     {LUO_COLL_AR, 8, 1, 700e-6},
        {LUO_COLL_AG, 8, 1, 350e-6},     {LUO_COLL_RS, 4, 1, 150e-6},
        {LUO_COLL_AG, 8, 32e6, 7350e-6}, {LUO_COLL_AR, 4, 4e6, 300e-6 + 1500e-6},
    };
    static const int32_t dev[] = {0, 1, 2, 3, 4, 5, 6, 7};
    luo_arena *a = luo_arena_new(0);
    luo_profile p = profile(NULL, 0);
    luo_node_group group = {.name = "g",
                            .nodes = 1,
                            .devices_per_node = 8,
                            .profile = &p,
                            .base_slowdown = 1,
                            .has_pcie = true,
                            .pcie_bytes_per_s = 5e9,
                            .pcie_latency_s = 50e-6,
                            .host_cores = 2,
                            .sockets = 1};
    luo_stack stack;
    luo_stack_default(&stack);
    const luo_cluster cluster = luo_test_cluster(a, &group, 1);
    const luo_cost_ctx ctx = {.cluster = &cluster, .stack = &stack};
    for (int i = 0; i < LUO_ROWS(row); i++) {
        const double seconds =
            luo_cost_group_seconds(&ctx, row[i].coll, dev, row[i].n, (int64_t)row[i].bytes, 0);
        luo_near(seconds, row[i].want, 1e-5, "a collective");
    }
    luo_arena_free(a);
}
END_TEST

LUO_SUITE("cost.cpu", LUO_T(steps_of_collectives), LUO_T(product_formula), LUO_T(rows_of_products),
          LUO_T(rows_of_attention), LUO_T(rows_of_others), LUO_T(role_on_cpu),
          LUO_T(fit_of_small_rows_is_bounded), LUO_T(fit_of_rows_that_only_move),
          LUO_T(fit_finds_constants))
