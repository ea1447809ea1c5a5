/* check_calibrate_gpu.c: calibration multiplies numbers as steps have them. Zeros take
 * less power, which leaves a GPU's clock higher than a step does.
 *
 * A slab holds what was measured in it last: one of so many bytes that only the wanted row fits, or
 * is the last. Sizes are those of the first rows of exec/cuda/calibrate/calibrate_ops.c. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "exec/cuda/calibrate/calibrate.h"
#include "tests/check_main.h"

enum { M = 16, N = 128, K = 1024 }; /* of the first product */
enum { TOKENS = 128, HEADS = 16 };  /* of the first attention */
enum { STREAM = 16384 };            /* of the last of the first size: f32, y = a + b */
enum { Q, K_, V, O, DQ, DK, DV, DO_, ARRAYS };

typedef struct fixture {
    luo_measurer m;
    luo_err err;
    gpu_bench b;
    unsigned char *slab; /* on the host, after measuring */
} fixture;

static void ok(luo_status st, const luo_err *err)
{
    ck_assert_msg(st == LUO_OK, "%s", err->text);
}

static void measure(fixture *f, int64_t slab, luo_status (*what)(gpu_bench *b))
{
    memset(f, 0, sizeof *f);
    f->m = (luo_measurer){.nranks = 1, .networks = 1};
    f->b = (gpu_bench){.m = &f->m, .err = &f->err, .slab_bytes = slab};
    ok(gpu_open(0, &f->b.facts, &f->err), &f->err);
    ck_assert_int_eq(cudaStreamCreateWithFlags(&f->b.stream, cudaStreamNonBlocking), 0);
    ck_assert_int_eq(cudaEventCreate(&f->b.begin), 0);
    ck_assert_int_eq(cudaEventCreate(&f->b.end), 0);
    ok(gpu_alloc(slab, "a slab", (void **)&f->b.slab, &f->err), &f->err);
    ok(what(&f->b), &f->err);
    ck_assert_ptr_nonnull(f->slab = malloc((size_t)slab));
    ck_assert_int_eq(cudaMemcpy(f->slab, f->b.slab, (size_t)slab, cudaMemcpyDeviceToHost), 0);
}
static void done(fixture *f)
{
    free(f->slab);
    gpu_free(f->b.slab);
    ck_assert_int_eq(cudaEventDestroy(f->b.begin), 0);
    ck_assert_int_eq(cudaEventDestroy(f->b.end), 0);
    ck_assert_int_eq(cudaStreamDestroy(f->b.stream), 0);
    luo_str_free(&f->m.ops);
    luo_str_free(&f->m.facts);
}

static double value(gpu_type type, const unsigned char *at, int64_t i)
{
    uint32_t bits = 0;
    float v;
    if (type == GPU_BF16)
        memcpy((char *)&bits + 2, at + 2 * i, 2);
    else
        memcpy(&bits, at + 4 * i, 4);
    memcpy(&v, &bits, sizeof v);
    return (double)v;
}
/* Numbers, none of them 0; size > 0: their standard deviation, about 0. */
static void has_numbers(const char *name, gpu_type type, const unsigned char *at, int64_t n,
                        double size)
{
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < n; i++) {
        const double v = value(type, at, i);
        if (!isfinite(v) || v == 0)
            ck_abort_msg("%s[%lld of %lld] is %g", name, (long long)i, (long long)n, v);
        sum += v, squares += v * v;
    }
    if (size == 0) return;
    ck_assert_msg(fabs(sqrt(squares / (double)n) / size - 1) < 0.05 &&
                      fabs(sum / (double)n) < 0.05 * size,
                  "%s: mean %g, size %g", name, sum / (double)n, sqrt(squares / (double)n));
}

/* _i 1: f32, after bf16, and two places. */
START_TEST(products_have_numbers)
{
    const gpu_type type = _i ? GPU_F32 : GPU_BF16;
    const int64_t elem = gpu_elem(type), one = elem * (M * K + K * N + M * N);
    fixture f;
    measure(&f, _i ? 2 * one : one, gpu_measure_products);
    for (int place = 0; place <= _i; place++) {
        const unsigned char *at = f.slab + place * one;
        has_numbers("A", type, at, M * K, 1);
        has_numbers("B", type, at + elem * M * K, K * N, 0.02);
        has_numbers("C", type, at + elem * (M * K + K * N), M * N, 0.02 * sqrt(K));
    }
    done(&f);
}
END_TEST

/* Backward comes last. _i 0: bf16, heads of 64, which alone fit; 1: f32, heads of 128. */
START_TEST(attention_has_numbers)
{
    const gpu_type type = _i ? GPU_F32 : GPU_BF16;
    const int64_t n = TOKENS * HEADS * (_i ? 128 : 64), array = n * gpu_elem(type);
    const int64_t one = ARRAYS * array + TOKENS * HEADS * 4;
    fixture f;
    measure(&f, _i ? 2 * one : one, gpu_measure_attention);
    for (int place = 0; place <= _i; place++) {
        const unsigned char *at = f.slab + place * one;
        has_numbers("q", type, at + Q * array, n, 1);
        has_numbers("k", type, at + K_ * array, n, 1);
        has_numbers("v", type, at + V * array, n, 1);
        has_numbers("dO", type, at + DO_ * array, n, 1);
        has_numbers("o", type, at + O * array, n, 0);
        has_numbers("statistics", GPU_F32, at + ARRAYS * array, TOKENS * HEADS, 0);
        has_numbers("dv", type, at + DV * array, n, 0);
        ck_assert(memcmp(at + Q * array, at + K_ * array, 256) != 0);
        /* The log of a sum of exp of normal scores over i + 1 keys. */
        const double last = value(GPU_F32, at + ARRAYS * array, (int64_t)(TOKENS - 1) * HEADS);
        ck_assert_msg(fabs(last - log(TOKENS) - 0.5) < 1, "the last token's statistic is %g", last);
    }
    done(&f);
}
END_TEST

START_TEST(streams_have_numbers)
{
    fixture f;
    measure(&f, 1 << 20, gpu_measure_streams);
    has_numbers("a", GPU_F32, f.slab, STREAM, 1);
    has_numbers("b", GPU_F32, f.slab + 4 * STREAM, STREAM, 1);
    has_numbers("sum", GPU_F32, f.slab + 8 * STREAM, STREAM, sqrt(2));
    done(&f);
}
END_TEST

LUO_SUITE("cuda.calibrate_gpu", LUO_T_N(products_have_numbers, 2),
          LUO_T_N(attention_has_numbers, 2), LUO_T(streams_have_numbers))
