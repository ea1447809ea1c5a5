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
    gpu_blas *b = arena ? LUO_NEW(arena, gpu_blas) : NULL;
    if (!b) {
        luo_arena_free(arena);
        return luo_err_nomem(err);
    }
    b->arena = arena;
    luo_status st = workspace_bytes(&b->workspace_bytes, err);
    if (st == LUO_OK)
        st =
            gpu_alloc((int64_t)b->workspace_bytes, "the workspace of products", &b->workspace, err);
    if (st == LUO_OK) st = check(err, cublasLtCreate(&b->handle), "opening cuBLASLt");
    if (st == LUO_OK)
        *out = b;
    else
        gpu_blas_close(b);
    return st;
}

/* What is destroyed was made, so that nothing can go wrong; and nobody is left to be told. */
static void discard(gpu_product_plan *p)
{
    if (p->desc) (void)cublasLtMatmulDescDestroy(p->desc);
    if (p->first) (void)cublasLtMatrixLayoutDestroy(p->first);
    if (p->second) (void)cublasLtMatrixLayoutDestroy(p->second);
    if (p->out) (void)cublasLtMatrixLayoutDestroy(p->out);
    p->desc = NULL;
    p->first = p->second = p->out = NULL;
}

void gpu_blas_close(gpu_blas *b)
{
    if (!b) return;
    for (gpu_product_plan *p = b->plans; p; p = p->next) discard(p);
    if (b->handle) (void)cublasLtDestroy(b->handle);
    gpu_free(b->workspace);
    luo_map_free(&b->plan_of);
    luo_arena_free(b->arena);
}

int64_t gpu_blas_plans(const gpu_blas *b)
{
    return b->nplans;
}

void gpu_blas_version(char *text, size_t size)
{
    const size_t v = cublasLtGetVersion(), major = v >= 100000 ? v / 10000 : v / 1000;
    const size_t rest = v >= 100000 ? v % 10000 : v % 1000;
    snprintf(text, size, "%zu.%zu.%zu", major, rest / 100, rest % 100);
}

/* ---- the cache ---- */

static uint64_t hash_of(const gpu_product *p, bool varies)
{
    const int64_t key[] = {p->ta,  p->tb,       p->add,      p->m,     p->n,
                           p->k,   p->lda,      p->ldb,      p->ldc,   p->in,
                           p->out, p->has_bias, p->has_plus, p->align, varies};
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

static luo_status describe(const gpu_product *p, cublasLtMatmulDesc_t *out, luo_err *err)
{
    const cublasOperation_t first = p->tb ? CUBLAS_OP_T : CUBLAS_OP_N;
    const cublasOperation_t second = p->ta ? CUBLAS_OP_T : CUBLAS_OP_N;
    const cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_BIAS;
    const int32_t bias = (int32_t)type_of(p->in);
    const void *like = (const void *)(uintptr_t)ALIGN; /* heuristics read its alignment from it */
    LUO_TRY(check(err, cublasLtMatmulDescCreate(out, CUBLAS_COMPUTE_32F, CUDA_R_32F),
                  "describing a product"));
    LUO_TRY(set_desc(*out, CUBLASLT_MATMUL_DESC_TRANSA, &first, sizeof first, err));
    LUO_TRY(set_desc(*out, CUBLASLT_MATMUL_DESC_TRANSB, &second, sizeof second, err));
    if (!p->has_bias) return LUO_OK;
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

static luo_status prefer(cublasLtMatmulPreference_t pref, const gpu_blas *b, int32_t aligned,
                         luo_err *err)
{
    static const cublasLtMatmulPreferenceAttributes_t operands[] = {
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES};
    const uint64_t most = b->workspace_bytes;
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

static luo_status unsupported(const gpu_product *p, const char *why, luo_err *err)
{
    return luo_err_set(err, LUO_EUNSUP,
                       "cuBLASLt has no algorithm for C[%lld x %lld] = A%s B%s over %lld, %s to "
                       "%s%s%s (%s); a plan with other shares or --dtype f32 may run.",
                       (long long)p->m, (long long)p->n, p->ta ? "^T" : "", p->tb ? "^T" : "",
                       (long long)p->k, p->in == GPU_BF16 ? "bf16" : "f32",
                       p->out == GPU_BF16 ? "bf16" : "f32", p->has_bias ? ", bias" : "",
                       p->has_plus ? ", sum" : "", why);
}

static luo_status choose(const gpu_blas *b, gpu_product_plan *p, cublasLtMatmulPreference_t pref,
                         luo_err *err)
{
    cublasLtMatmulHeuristicResult_t found[PROPOSALS];
    int n = 0;
    LUO_TRY(prefer(pref, b, p->what.align, err));
    const cublasStatus_t code = cublasLtMatmulAlgoGetHeuristic(
        b->handle, p->desc, p->first, p->second, p->out, p->out, pref, PROPOSALS, found, &n);
    if (code == CUBLAS_STATUS_NOT_SUPPORTED || (code == CUBLAS_STATUS_SUCCESS && n == 0))
        return unsupported(&p->what, cublasLtGetStatusName(CUBLAS_STATUS_NOT_SUPPORTED), err);
    LUO_TRY(check(err, code, "choosing an algorithm"));
    for (int i = 0; i < n; i++) {
        if (found[i].state != CUBLAS_STATUS_SUCCESS) continue;
        if (found[i].workspaceSize > b->workspace_bytes) continue;
        p->algo = found[i].algo;
        p->workspace = found[i].workspaceSize;
        return LUO_OK;
    }
    return unsupported(&p->what, "all that it proposed failed", err);
}

static luo_status fill(const gpu_blas *b, gpu_product_plan *p, luo_err *err)
{
    const gpu_product *w = &p->what;
    cublasLtMatmulPreference_t pref = NULL;
    LUO_TRY(describe(w, &p->desc, err));
    LUO_TRY(lay_out(&p->first, w->in, w->tb ? w->n : w->k, w->tb ? w->k : w->n, w->ldb, err));
    LUO_TRY(lay_out(&p->second, w->in, w->ta ? w->k : w->m, w->ta ? w->m : w->k, w->lda, err));
    LUO_TRY(lay_out(&p->out, w->out, w->m, w->n, w->ldc, err));
    LUO_TRY(check(err, cublasLtMatmulPreferenceCreate(&pref), "choosing an algorithm"));
    const luo_status st = choose(b, p, pref, err);
    (void)cublasLtMatmulPreferenceDestroy(pref); /* it was made: see discard() */
    return st;
}

static bool is_empty(const gpu_product *p)
{
    return p->m == 0 || p->n == 0 || p->k == 0;
}

static luo_status validate(const gpu_product *p, luo_err *err)
{
    const bool types = p->in == GPU_BF16 || p->out == GPU_F32;
    const bool bias = !p->has_bias || (p->in == p->out && p->k > 0);
    const bool lds = p->lda >= (p->ta ? p->m : p->k) && p->ldb >= (p->tb ? p->k : p->n) &&
                     p->ldc >= p->n && p->m >= 0 && p->n >= 0 && p->k >= 0;
    if (types && bias && lds && !(p->add && p->has_plus)) return LUO_OK;
    return luo_err_set(err, LUO_EBUG, "a product of [%lld x %lld x %lld] is asked for wrongly.",
                       (long long)p->m, (long long)p->n, (long long)p->k);
}

static int64_t rows_of(const gpu_product *p)
{
    return p->ta ? p->k : p->m;
}

static luo_status make(gpu_blas *b, const gpu_product *what, bool varies, gpu_product_plan **out,
                       luo_err *err)
{
    gpu_product_plan *p = LUO_NEW(b->arena, gpu_product_plan);
    if (!p) return luo_err_nomem(err);
    p->what = *what;
    p->varies = varies;
    p->rows = rows_of(what);
    p->takes = true;
    const luo_status st = is_empty(what) ? LUO_OK : fill(b, p, err);
    if (st != LUO_OK) {
        discard(p);
        return st;
    }
    p->next = b->plans;
    b->plans = p;
    b->nplans++;
    *out = p;
    return LUO_OK;
}

static luo_status find(gpu_blas *b, const gpu_product *p, bool varies, gpu_product_plan **out,
                       luo_err *err)
{
    LUO_TRY(validate(p, err));
    int64_t *slot = luo_map_at(&b->plan_of, hash_of(p, varies), 0);
    if (!slot) return luo_err_nomem(err);
    gpu_product_plan *at = (gpu_product_plan *)(intptr_t)*slot;
    while (at && (at->varies != varies || !same(&at->what, p))) at = at->same;
    if (!at) {
        LUO_TRY(make(b, p, varies, &at, err));
        at->same = (gpu_product_plan *)(intptr_t)*slot;
        *slot = (int64_t)(intptr_t)at;
    }
    *out = at;
    return LUO_OK;
}

luo_status gpu_product_find(gpu_blas *b, const gpu_product *p, gpu_product_plan **out, luo_err *err)
{
    return find(b, p, false, out, err);
}

/* ---- running ---- */

/* Sums of no products. */
static luo_status run_empty(const gpu_product *p, cudaStream_t stream, const void *plus, void *C,
                            luo_err *err)
{
    const size_t elem = (size_t)gpu_elem(p->out), ld = (size_t)p->ldc * elem;
    const size_t row = (size_t)p->n * elem, rows = (size_t)p->m;
    if (row == 0 || rows == 0 || p->add || plus == C) return LUO_OK;
    if (p->has_plus)
        return gpu_check(
            err, cudaMemcpy2DAsync(C, ld, plus, ld, row, rows, cudaMemcpyDeviceToDevice, stream),
            "a product over nothing");
    return gpu_check(err, cudaMemset2DAsync(C, ld, 0, row, rows, stream), "a product over nothing");
}

luo_status gpu_product_run(gpu_blas *b, const gpu_product_plan *plan, cudaStream_t stream,
                           const void *A, const void *B, const void *bias, const void *plus,
                           void *C, luo_err *err)
{
    const gpu_product *p = &plan->what;
    const float one = 1, beta = p->add || p->has_plus ? 1 : 0;
    assert(p->has_bias == (bias != NULL) && p->has_plus == (plus != NULL));
    if (!plan->desc) return run_empty(p, stream, plus, C, err);
    if (p->has_bias)
        LUO_TRY(set_desc(plan->desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias, err));
    const cublasStatus_t code = cublasLtMatmul(
        b->handle, plan->desc, &one, B, plan->first, A, plan->second, &beta, p->has_plus ? plus : C,
        plan->out, C, plan->out, &plan->algo, b->workspace, plan->workspace, stream);
    return check(err, code, "a product");
}

/* ---- rows that vary ---- */

static gpu_product with_rows(const gpu_product *p, int64_t n)
{
    gpu_product q = *p;
    *(q.ta ? &q.k : &q.m) = n;
    return q;
}

static luo_status find_class(gpu_blas *b, const gpu_product *p, gpu_product_plan **out,
                             luo_err *err)
{
    int64_t most = 1;
    while (most < rows_of(p)) most *= 2;
    const gpu_product q = with_rows(p, most);
    return find(b, &q, true, out, err);
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
static luo_status ask(const gpu_blas *b, gpu_product_plan *p, int64_t n, luo_err *err)
{
    cublasLtMatmulHeuristicResult_t found;
    if (n == p->rows) return LUO_OK;
    LUO_TRY(set_rows(p->second, n, err));
    LUO_TRY(set_rows(p->what.ta ? p->first : p->out, n, err));
    const cublasStatus_t code = cublasLtMatmulAlgoCheck(b->handle, p->desc, p->first, p->second,
                                                        p->out, p->out, &p->algo, &found);
    if (code != CUBLAS_STATUS_NOT_SUPPORTED && code != CUBLAS_STATUS_INVALID_VALUE)
        LUO_TRY(check(err, code, "asking for an algorithm"));
    p->rows = n;
    p->takes = code == CUBLAS_STATUS_SUCCESS && found.workspaceSize <= b->workspace_bytes;
    if (p->takes) p->workspace = found.workspaceSize;
    return LUO_OK;
}

luo_status gpu_product_run_rows(gpu_blas *b, const gpu_product *p, cudaStream_t stream,
                                const void *A, const void *B, void *C, luo_err *err)
{
    gpu_product_plan *plan;
    assert(!p->has_bias && !p->has_plus && !(p->ta && p->tb));
    if (is_empty(p)) return run_empty(p, stream, NULL, C, err);
    LUO_TRY(find_class(b, p, &plan, err));
    LUO_TRY(ask(b, plan, rows_of(p), err));
    if (!plan->takes) LUO_TRY(gpu_product_find(b, p, &plan, err));
    return gpu_product_run(b, plan, stream, A, B, NULL, NULL, C, err);
}

luo_status gpu_product_warm_rows(gpu_blas *b, const gpu_product *p, int64_t most,
                                 cudaStream_t stream, const void *A, const void *B, void *C,
                                 luo_err *err)
{
    for (int64_t last = 0, n = 1; last < most; last = n, n *= 2) {
        const gpu_product q = with_rows(p, n < most ? n : most);
        gpu_product_plan *plan;
        if (is_empty(&q)) return LUO_OK;
        LUO_TRY(find_class(b, &q, &plan, err));
        if (plan->warm) continue;
        LUO_TRY(gpu_product_run_rows(b, &q, stream, A, B, C, err));
        plan->warm = true;
    }
    return LUO_OK;
}
