/* product.c: matrix products by cuBLASLt.
 *
 * cuBLASLt is column-major and we are row-major. A row-major C is the transpose of a column-major
 * one, so C = A B is asked for as C^T = B^T A^T: the operands change places, and nothing is ever
 * transposed in memory. The bias then runs along the rows of what cuBLASLt makes, which is what its
 * epilogue does. (cuBLASLt's own row-major order is left alone: fewer kernels know it.) */
#include "exec/cuda/product.h"

#include <assert.h>
#include <cublasLt.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/hash.h"

enum {
    ALIGN = 64,    /* of every operand: LUO_LAYOUT_ALIGN */
    PROPOSALS = 8, /* looked at until one can be taken */
};

struct gpu_product_plan {
    gpu_product what;
    cublasLtMatmulDesc_t desc;                 /* NULL: nothing for cuBLASLt to do */
    cublasLtMatrixLayout_t first, second, out; /* of B, A and C */
    cublasLtMatmulAlgo_t algo;
    size_t workspace;
    bool varies; /* `what` has the most rows of a class; layouts are those of the last run: */
    int64_t rows;
    bool takes;                    /* the algorithm takes so many */
    bool warm;                     /* it has run */
    struct gpu_product_plan *next; /* made before; for closing */
    struct gpu_product_plan *same; /* of another product with the same hash */
};

struct gpu_blas {
    cublasLtHandle_t handle;
    void *workspace;
    size_t workspace_bytes;
    luo_arena *arena;
    luo_map plan_of; /* hash of a product: its plan's address */
    gpu_product_plan *plans;
    int64_t nplans;
};

static luo_status check(luo_err *err, cublasStatus_t code, const char *what)
{
    if (code == CUBLAS_STATUS_SUCCESS) return LUO_OK;
    return luo_err_set(err, code == CUBLAS_STATUS_ALLOC_FAILED ? LUO_EOOM : LUO_EBACKEND,
                       "%s failed with %s (%s).", what, cublasLtGetStatusName(code),
                       cublasLtGetStatusString(code));
}

/* ---- opening ---- */

static luo_status workspace_bytes(size_t *out, luo_err *err)
{
    const char *text = getenv("CUBLASLT_WORKSPACE_SIZE");
    char *end = NULL;
    errno = 0;
    const long long kib = text && *text ? strtoll(text, &end, 10) : 32 << 10;
    if (errno || (end && *end) || kib < 0 || kib > INT64_C(1) << 30)
        return luo_err_set(err, LUO_EINPUT,
                           "CUBLASLT_WORKSPACE_SIZE is `%s`; a number of KiB is expected.", text);
    *out = (size_t)kib << 10;
    return LUO_OK;
}

luo_status gpu_blas_open(gpu_blas **out, luo_err *err)
{
    luo_arena *arena = luo_arena_new(0);
    gpu_blas *blas = arena ? LUO_NEW(arena, gpu_blas) : NULL;
    if (!blas) {
        luo_arena_free(arena);
        return luo_err_nomem(err);
    }
    blas->arena = arena;
    luo_status st = workspace_bytes(&blas->workspace_bytes, err);
    if (st == LUO_OK)
        st = gpu_alloc((int64_t)blas->workspace_bytes, "the workspace of products",
                       &blas->workspace, err);
    if (st == LUO_OK) st = check(err, cublasLtCreate(&blas->handle), "opening cuBLASLt");
    if (st == LUO_OK)
        *out = blas;
    else
        gpu_blas_close(blas);
    return st;
}

/* What is destroyed was made, so that nothing can go wrong; and nobody is left to be told. */
static void discard(gpu_product_plan *plan)
{
    if (plan->desc) (void)cublasLtMatmulDescDestroy(plan->desc);
    if (plan->first) (void)cublasLtMatrixLayoutDestroy(plan->first);
    if (plan->second) (void)cublasLtMatrixLayoutDestroy(plan->second);
    if (plan->out) (void)cublasLtMatrixLayoutDestroy(plan->out);
    plan->desc = NULL;
    plan->first = plan->second = plan->out = NULL;
}

void gpu_blas_close(gpu_blas *blas)
{
    if (!blas) return;
    for (gpu_product_plan *plan = blas->plans; plan; plan = plan->next) discard(plan);
    if (blas->handle) (void)cublasLtDestroy(blas->handle);
    gpu_free(blas->workspace);
    luo_map_free(&blas->plan_of);
    luo_arena_free(blas->arena);
}

int64_t gpu_blas_plans(const gpu_blas *blas)
{
    return blas->nplans;
}

void gpu_blas_version(char *text, size_t size)
{
    const size_t v = cublasLtGetVersion(), major = v >= 100000 ? v / 10000 : v / 1000;
    const size_t rest = v >= 100000 ? v % 10000 : v % 1000;
    snprintf(text, size, "%zu.%zu.%zu", major, rest / 100, rest % 100);
}

/* ---- the cache ---- */

static uint64_t hash_of(const gpu_product *product, bool varies)
{
    const int64_t key[] = {product->ta,       product->tb,    product->add, product->m,
                           product->n,        product->k,     product->lda, product->ldb,
                           product->ldc,      product->in,    product->out, product->has_bias,
                           product->has_plus, product->align, varies};
    return luo_hash_bytes(LUO_HASH_EMPTY, key, sizeof key);
}

static bool same(const gpu_product *a, const gpu_product *b)
{
    return a->ta == b->ta && a->tb == b->tb && a->add == b->add && a->m == b->m && a->n == b->n &&
           a->k == b->k && a->lda == b->lda && a->ldb == b->ldb && a->ldc == b->ldc &&
           a->in == b->in && a->out == b->out && a->has_bias == b->has_bias &&
           a->has_plus == b->has_plus && a->align == b->align;
}

/* ---- a plan ---- */

static cudaDataType_t type_of(gpu_type t)
{
    return t == GPU_BF16 ? CUDA_R_16BF : CUDA_R_32F;
}

static luo_status set_desc(cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t what,
                           const void *value, size_t size, luo_err *err)
{
    return check(err, cublasLtMatmulDescSetAttribute(desc, what, value, size),
                 "describing a product");
}

static luo_status describe(const gpu_product *product, cublasLtMatmulDesc_t *out, luo_err *err)
{
    const cublasOperation_t first = product->tb ? CUBLAS_OP_T : CUBLAS_OP_N;
    const cublasOperation_t second = product->ta ? CUBLAS_OP_T : CUBLAS_OP_N;
    const cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_BIAS;
    const int32_t bias = (int32_t)type_of(product->in);
    const void *like = (const void *)(uintptr_t)ALIGN; /* heuristics read its alignment from it */
    LUO_TRY(check(err, cublasLtMatmulDescCreate(out, CUBLAS_COMPUTE_32F, CUDA_R_32F),
                  "describing a product"));
    LUO_TRY(set_desc(*out, CUBLASLT_MATMUL_DESC_TRANSA, &first, sizeof first, err));
    LUO_TRY(set_desc(*out, CUBLASLT_MATMUL_DESC_TRANSB, &second, sizeof second, err));
    if (!product->has_bias) return LUO_OK;
    LUO_TRY(set_desc(*out, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue, err));
    LUO_TRY(set_desc(*out, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, &bias, sizeof bias, err));
    return set_desc(*out, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &like, sizeof like, err);
}

/* A stored row-major matrix of `rows` rows is a column-major one of `rows` columns. */
static luo_status lay_out(cublasLtMatrixLayout_t *out, gpu_type t, int64_t rows, int64_t cols,
                          int64_t ld, luo_err *err)
{
    return check(err,
                 cublasLtMatrixLayoutCreate(out, type_of(t), (uint64_t)cols, (uint64_t)rows, ld),
                 "describing a matrix");
}

static luo_status prefer(cublasLtMatmulPreference_t pref, const gpu_blas *blas, int32_t aligned,
                         luo_err *err)
{
    static const cublasLtMatmulPreferenceAttributes_t operands[] = {
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES};
    const uint64_t most = blas->workspace_bytes;
    /* Partial sums stay in f32: the other ways add them up in the type of the result. */
    const uint32_t scheme = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    const uint32_t align = aligned > 0 ? (uint32_t)aligned : ALIGN;
    cublasStatus_t code = cublasLtMatmulPreferenceSetAttribute(
        pref, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &most, sizeof most);
    if (code == CUBLAS_STATUS_SUCCESS)
        code = cublasLtMatmulPreferenceSetAttribute(
            pref, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &scheme, sizeof scheme);
    for (int i = 0; i < 4 && code == CUBLAS_STATUS_SUCCESS; i++)
        code = cublasLtMatmulPreferenceSetAttribute(pref, operands[i], &align, sizeof align);
    return check(err, code, "describing what a product may use");
}

static luo_status unsupported(const gpu_product *product, const char *why, luo_err *err)
{
    return luo_err_set(err, LUO_EUNSUP,
                       "cuBLASLt has no algorithm for C[%lld x %lld] = A%s B%s over %lld, %s to "
                       "%s%s%s (%s); a plan with other shares or --dtype f32 may run.",
                       (long long)product->m, (long long)product->n, product->ta ? "^T" : "",
                       product->tb ? "^T" : "", (long long)product->k,
                       product->in == GPU_BF16 ? "bf16" : "f32",
                       product->out == GPU_BF16 ? "bf16" : "f32", product->has_bias ? ", bias" : "",
                       product->has_plus ? ", sum" : "", why);
}

static luo_status choose(const gpu_blas *blas, gpu_product_plan *plan,
                         cublasLtMatmulPreference_t pref, luo_err *err)
{
    cublasLtMatmulHeuristicResult_t found[PROPOSALS];
    int n = 0;
    LUO_TRY(prefer(pref, blas, plan->what.align, err));
    const cublasStatus_t code =
        cublasLtMatmulAlgoGetHeuristic(blas->handle, plan->desc, plan->first, plan->second,
                                       plan->out, plan->out, pref, PROPOSALS, found, &n);
    if (code == CUBLAS_STATUS_NOT_SUPPORTED || (code == CUBLAS_STATUS_SUCCESS && n == 0))
        return unsupported(&plan->what, cublasLtGetStatusName(CUBLAS_STATUS_NOT_SUPPORTED), err);
    LUO_TRY(check(err, code, "choosing an algorithm"));
    for (int i = 0; i < n; i++) {
        if (found[i].state != CUBLAS_STATUS_SUCCESS) continue;
        if (found[i].workspaceSize > blas->workspace_bytes) continue;
        plan->algo = found[i].algo;
        plan->workspace = found[i].workspaceSize;
        return LUO_OK;
    }
    return unsupported(&plan->what, "all that it proposed failed", err);
}

static luo_status fill(const gpu_blas *blas, gpu_product_plan *plan, luo_err *err)
{
    const gpu_product *product = &plan->what;
    cublasLtMatmulPreference_t pref = NULL;
    LUO_TRY(describe(product, &plan->desc, err));
    LUO_TRY(lay_out(&plan->first, product->in, product->tb ? product->n : product->k,
                    product->tb ? product->k : product->n, product->ldb, err));
    LUO_TRY(lay_out(&plan->second, product->in, product->ta ? product->k : product->m,
                    product->ta ? product->m : product->k, product->lda, err));
    LUO_TRY(lay_out(&plan->out, product->out, product->m, product->n, product->ldc, err));
    LUO_TRY(check(err, cublasLtMatmulPreferenceCreate(&pref), "choosing an algorithm"));
    const luo_status st = choose(blas, plan, pref, err);
    (void)cublasLtMatmulPreferenceDestroy(pref); /* it was made: see discard() */
    return st;
}

static bool is_empty(const gpu_product *product)
{
    return product->m == 0 || product->n == 0 || product->k == 0;
}

static luo_status validate(const gpu_product *product, luo_err *err)
{
    const bool types = product->in == GPU_BF16 || product->out == GPU_F32;
    const bool bias = !product->has_bias || (product->in == product->out && product->k > 0);
    const bool lds = product->lda >= (product->ta ? product->m : product->k) &&
                     product->ldb >= (product->tb ? product->k : product->n) &&
                     product->ldc >= product->n && product->m >= 0 && product->n >= 0 &&
                     product->k >= 0;
    if (types && bias && lds && !(product->add && product->has_plus)) return LUO_OK;
    return luo_err_set(err, LUO_EBUG, "a product of [%lld x %lld x %lld] is asked for wrongly.",
                       (long long)product->m, (long long)product->n, (long long)product->k);
}

static int64_t rows_of(const gpu_product *product)
{
    return product->ta ? product->k : product->m;
}

static luo_status make(gpu_blas *blas, const gpu_product *what, bool varies, gpu_product_plan **out,
                       luo_err *err)
{
    gpu_product_plan *plan = LUO_NEW(blas->arena, gpu_product_plan);
    if (!plan) return luo_err_nomem(err);
    plan->what = *what;
    plan->varies = varies;
    plan->rows = rows_of(what);
    plan->takes = true;
    const luo_status st = is_empty(what) ? LUO_OK : fill(blas, plan, err);
    if (st != LUO_OK) {
        discard(plan);
        return st;
    }
    plan->next = blas->plans;
    blas->plans = plan;
    blas->nplans++;
    *out = plan;
    return LUO_OK;
}

static luo_status find(gpu_blas *blas, const gpu_product *product, bool varies,
                       gpu_product_plan **out, luo_err *err)
{
    LUO_TRY(validate(product, err));
    int64_t *slot = luo_map_at(&blas->plan_of, hash_of(product, varies), 0);
    if (!slot) return luo_err_nomem(err);
    gpu_product_plan *at = (gpu_product_plan *)(intptr_t)*slot;
    while (at && (at->varies != varies || !same(&at->what, product))) at = at->same;
    if (!at) {
        LUO_TRY(make(blas, product, varies, &at, err));
        at->same = (gpu_product_plan *)(intptr_t)*slot;
        *slot = (int64_t)(intptr_t)at;
    }
    *out = at;
    return LUO_OK;
}

luo_status gpu_product_find(gpu_blas *blas, const gpu_product *product, gpu_product_plan **out,
                            luo_err *err)
{
    return find(blas, product, false, out, err);
}

/* ---- running ---- */

/* Sums of no products. */
static luo_status run_empty(const gpu_product *product, cudaStream_t stream, const void *plus,
                            void *C, luo_err *err)
{
    const size_t elem = (size_t)gpu_elem(product->out), ld = (size_t)product->ldc * elem;
    const size_t row = (size_t)product->n * elem, rows = (size_t)product->m;
    if (row == 0 || rows == 0 || product->add || plus == C) return LUO_OK;
    if (product->has_plus)
        return gpu_check(
            err, cudaMemcpy2DAsync(C, ld, plus, ld, row, rows, cudaMemcpyDeviceToDevice, stream),
            "a product over nothing");
    return gpu_check(err, cudaMemset2DAsync(C, ld, 0, row, rows, stream), "a product over nothing");
}

luo_status gpu_product_run(gpu_blas *blas, const gpu_product_plan *plan, cudaStream_t stream,
                           const void *A, const void *B, const void *bias, const void *plus,
                           void *C, luo_err *err)
{
    const gpu_product *product = &plan->what;
    const float one = 1, beta = product->add || product->has_plus ? 1 : 0;
    assert(product->has_bias == (bias != NULL) && product->has_plus == (plus != NULL));
    if (!plan->desc) return run_empty(product, stream, plus, C, err);
    if (product->has_bias)
        LUO_TRY(set_desc(plan->desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias, err));
    const cublasStatus_t code =
        cublasLtMatmul(blas->handle, plan->desc, &one, B, plan->first, A, plan->second, &beta,
                       product->has_plus ? plus : C, plan->out, C, plan->out, &plan->algo,
                       blas->workspace, plan->workspace, stream);
    return check(err, code, "a product");
}

/* ---- rows that vary ---- */

static gpu_product with_rows(const gpu_product *p, int64_t n)
{
    gpu_product q = *p;
    *(q.ta ? &q.k : &q.m) = n;
    return q;
}

static luo_status find_class(gpu_blas *blas, const gpu_product *p, gpu_product_plan **out,
                             luo_err *err)
{
    int64_t most = 1;
    while (most < rows_of(p)) most *= 2;
    const gpu_product q = with_rows(p, most);
    return find(blas, &q, true, out, err);
}

/* What is stored row by row has its rows as columns: see lay_out(). */
static luo_status set_rows(cublasLtMatrixLayout_t layout, int64_t n, luo_err *err)
{
    const uint64_t cols = (uint64_t)n;
    return check(
        err,
        cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_COLS, &cols, sizeof cols),
        "describing a matrix");
}

/* Can the algorithm of the class take so many rows, and with which workspace? */
static luo_status ask(const gpu_blas *blas, gpu_product_plan *plan, int64_t n, luo_err *err)
{
    cublasLtMatmulHeuristicResult_t found;
    if (n == plan->rows) return LUO_OK;
    LUO_TRY(set_rows(plan->second, n, err));
    LUO_TRY(set_rows(plan->what.ta ? plan->first : plan->out, n, err));
    const cublasStatus_t code =
        cublasLtMatmulAlgoCheck(blas->handle, plan->desc, plan->first, plan->second, plan->out,
                                plan->out, &plan->algo, &found);
    if (code != CUBLAS_STATUS_NOT_SUPPORTED && code != CUBLAS_STATUS_INVALID_VALUE)
        LUO_TRY(check(err, code, "asking for an algorithm"));
    plan->rows = n;
    plan->takes = code == CUBLAS_STATUS_SUCCESS && found.workspaceSize <= blas->workspace_bytes;
    if (plan->takes) plan->workspace = found.workspaceSize;
    return LUO_OK;
}

luo_status gpu_product_run_rows(gpu_blas *blas, const gpu_product *product, cudaStream_t stream,
                                const void *A, const void *B, void *C, luo_err *err)
{
    gpu_product_plan *plan;
    assert(!product->has_bias && !product->has_plus && !(product->ta && product->tb));
    if (is_empty(product)) return run_empty(product, stream, NULL, C, err);
    LUO_TRY(find_class(blas, product, &plan, err));
    LUO_TRY(ask(blas, plan, rows_of(product), err));
    if (!plan->takes) LUO_TRY(gpu_product_find(blas, product, &plan, err));
    return gpu_product_run(blas, plan, stream, A, B, NULL, NULL, C, err);
}

luo_status gpu_product_warm_rows(gpu_blas *blas, const gpu_product *p, int64_t most,
                                 cudaStream_t stream, const void *A, const void *B, void *C,
                                 luo_err *err)
{
    for (int64_t last = 0, n = 1; last < most; last = n, n *= 2) {
        const gpu_product q = with_rows(p, n < most ? n : most);
        gpu_product_plan *plan;
        if (is_empty(&q)) return LUO_OK;
        LUO_TRY(find_class(blas, &q, &plan, err));
        if (plan->warm) continue;
        LUO_TRY(gpu_product_run_rows(blas, &q, stream, A, B, C, err));
        plan->warm = true;
    }
    return LUO_OK;
}
