/* product.h: matrix products by cuBLASLt: descriptors and algorithms chosen once per
 * shape and kept.
 *
 * bf16: products of bf16, sums in f32. f32: plain f32 sums and products, never TF32. */
#ifndef LUO_EXEC_CUDA_PRODUCT_H
#define LUO_EXEC_CUDA_PRODUCT_H
#include "exec/bind/bound.h"
#include "exec/cuda/gpu.h"

typedef struct gpu_blas gpu_blas; /* handle, workspace, cache of plans */

/* Workspace: 32 MiB, or as stated by the user in CUBLASLT_WORKSPACE_SIZE (KiB).
 * Owner: gpu_blas_close. */
luo_status gpu_blas_open(gpu_blas **out, luo_err *err);
void gpu_blas_close(gpu_blas *blas);

/* C[m x n] = A B (+ C if add), row-major as luo_kernels.gemm (exec/bind/kernels.h). */
typedef struct gpu_product {
    bool ta, tb, add;
    int64_t m, n, k, lda, ldb, ldc;
    gpu_type in, out; /* of A and B; of C. in f32: out f32 */
    bool has_bias;    /* C += bias[n] over every row, of type `in`; then out = in and k > 0 */
    int32_t align;    /* bytes that divide the address of every operand; 0: LUO_LAYOUT_ALIGN */
    bool has_plus;    /* C = A B + plus[m x n], rows ldc apart, of C's type; not with add */
} gpu_product;
typedef struct gpu_product_plan gpu_product_plan; /* owned by the gpu_blas */

/* A product of a bound operation, without bias and plus. */
static inline gpu_product gpu_product_of(const luo_product *product, bool add, gpu_type in,
                                         gpu_type out)
{
    return (gpu_product){.ta = product->ta,
                         .tb = product->tb,
                         .add = add,
                         .m = product->m,
                         .n = product->n,
                         .k = product->k,
                         .lda = product->lda,
                         .ldb = product->ldb,
                         .ldc = product->ldc,
                         .in = in,
                         .out = out};
}
/* Does it ever run with this `add`? sums: its result is a gradient, of which the first contribution
 * overwrites, so that it runs both ways. */
static inline bool gpu_product_runs(const luo_product *product, bool sums, bool add)
{
    return add ? product->add || sums : !product->add;
}

/* Finds or makes the plan of a product: layouts, heuristics (the fastest of the first few that
 * cuBLASLt proposes is taken by its own ranking; no timing, so the choice repeats). m, n or k of 0
 * is allowed and plans nothing. Errors: LUO_EUNSUP no algorithm for this shape; LUO_EBACKEND;
 * LUO_ENOMEM. Not while a stream is captured. */
luo_status gpu_product_find(gpu_blas *blas, const gpu_product *product, gpu_product_plan **out,
                            luo_err *err);
/* Enqueues; b's products are of one stream at a time, since they share its workspace. bias and
 * plus: NULL unless the plan has them. All of them are aligned as it says. C
 * overlaps neither A, B nor bias; plus may be C itself. */
luo_status gpu_product_run(gpu_blas *blas, const gpu_product_plan *plan, cudaStream_t stream,
                           const void *A, const void *B, const void *bias, const void *plus,
                           void *C, luo_err *err);

/* The same where m (with ta: k) is another number of rows in every run, as of experts. Products of
 * up to 1, 2, 4, 8 .. rows each share an algorithm, that of so many; one whose rows it cannot take
 * gets a plan of its own. Without bias and plus, and not with both ta and tb. Errors: those of
 * gpu_product_find and gpu_product_run. Cost: no call that asks for algorithms once each class has
 * been met. */
luo_status gpu_product_run_rows(gpu_blas *blas, const gpu_product *product, cudaStream_t stream,
                                const void *A, const void *B, void *C, luo_err *err);
/* Runs one product of every class up to so many rows, unless it has run before: cuBLASLt has then
 * loaded the code of all of them, for which the device may have to be idle. p: m (with ta: k) is
 * not looked at. C is overwritten; what A and B hold does not matter. */
luo_status gpu_product_warm_rows(gpu_blas *blas, const gpu_product *p, int64_t most,
                                 cudaStream_t stream, const void *A, const void *B, void *C,
                                 luo_err *err);
int64_t gpu_blas_plans(const gpu_blas *blas); /* made so far */
/* "13.1.0", for records. */
void gpu_blas_version(char *text, size_t size);
#endif
