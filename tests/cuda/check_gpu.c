/* check_gpu.c: what the stand-in can make go wrong and a GPU cannot be asked to: memory
 * that is not there, kernels that do not run; nothing is left behind. */
#include "exec/cuda/gpu.h"
#include "exec/cuda/product.h"
#include "tests/check_main.h"
#include "tests/standin/standin.h"

static const gpu_product product = {.m = 8, .n = 8, .k = 8, .lda = 8, .ldb = 8, .ldc = 8};

static bool same_counts(const standin_counts *a, const standin_counts *b)
{
    return a->allocations == b->allocations && a->bytes == b->bytes && a->pinned == b->pinned &&
           a->streams == b->streams && a->events == b->events;
}

START_TEST(memory)
{
    luo_err err = {0};
    void *p = NULL, *q = NULL;
    standin_set_memory(INT64_C(1) << 30);
    ck_assert_int_eq(gpu_alloc(INT64_C(3) << 28, "the slab", &p, &err), LUO_OK);
    ck_assert_int_eq(gpu_alloc(INT64_C(1) << 29, "the slab", &q, &err), LUO_EOOM);
    ck_assert_str_eq(err.text,
                     "the slab takes 0.500 GiB of the GPU's memory, of which 0.250 of 1.000 are "
                     "free; a plan with smaller stages or recompute needs less.");
    ck_assert_ptr_null(q);
    ck_assert_int_eq(cudaGetLastError(), cudaSuccess);
    gpu_free(p);
}
END_TEST

/* The n-th thing that opening needs is refused. */
START_TEST(opening)
{
    luo_err err = {0};
    gpu_facts f;
    gpu_blas *blas = NULL;
    const standin_counts before = standin_count();
    standin_fail(_i ? STANDIN_LAUNCH : STANDIN_MALLOC, 0);
    luo_status st = gpu_open(0, &f, &err);
    if (st == LUO_OK) st = gpu_blas_open(&blas, &err);
    ck_assert_int_eq(st, _i ? LUO_EBACKEND : LUO_EOOM);
    ck_assert_ptr_nonnull(strstr(err.text, _i ? "the first kernel failed with "
                                              : "the workspace of products takes "));
    ck_assert_ptr_null(blas);
    const standin_counts after = standin_count();
    ck_assert(same_counts(&before, &after));
    ck_assert_int_eq(gpu_open(0, &f, &err), LUO_OK); /* and the next try is not disturbed */
    ck_assert_int_eq(gpu_blas_open(&blas, &err), LUO_OK);
    gpu_blas_close(blas);
}
END_TEST

START_TEST(closing)
{
    luo_err err = {0};
    gpu_facts f;
    gpu_blas *blas = NULL;
    gpu_product_plan *plan = NULL;
    ck_assert_int_eq(gpu_open(0, &f, &err), LUO_OK);
    const standin_counts before = standin_count();
    ck_assert_int_eq(gpu_blas_open(&blas, &err), LUO_OK);
    ck_assert_int_eq(gpu_product_find(blas, &product, &plan, &err), LUO_OK);
    gpu_blas_close(blas);
    gpu_blas_close(NULL);
    const standin_counts after = standin_count();
    ck_assert(same_counts(&before, &after));
}
END_TEST
LUO_SUITE("cuda.gpu", LUO_T(memory), LUO_T_N(opening, 2), LUO_T(closing))
