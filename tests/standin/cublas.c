/* cublas.c: products of cuBLASLt through CBLAS: bf16 is widened to f32 and rounded
 * once at the end. What the real library would refuse is refused; what a caller has promised
 * (alignment, the shape that an algorithm was chosen for) is checked at each product. */
#include <cblas.h>
#include <stdlib.h>
#include <string.h>

#include "cublasLt.h"
#include "ops.h"

struct cublasLtContext {
    int unused;
};
typedef struct standin_matrix_layout { /* compared as bytes */
    uint64_t rows, cols;
    int64_t ld;
    int32_t type, order;
} layout;
typedef struct standin_matmul_desc {
    int32_t ta, tb, epilogue, bias_type, compute;
    const void *bias;
} desc;
typedef struct standin_matmul_preference {
    uint64_t workspace;
    uint32_t align[4]; /* A, B, C, D */
} preference;

typedef struct chosen { /* what cublasLtMatmulAlgo_t holds */
    uint64_t shape;     /* hash of what it was chosen for */
    uint64_t kind;      /* the same but for rows and columns, of which it takes most others */
    uint64_t workspace;
    uint32_t align[4];
    uint64_t mark;
} chosen;
enum { WORKSPACE = 16384 };
static const uint64_t MARK = UINT64_C(0x6c756f7368752121);
_Static_assert(sizeof(chosen) <= sizeof(cublasLtMatmulAlgo_t), "does not fit");

#define STATUSES(X)                                                                                \
    X(SUCCESS, "success")                                                                          \
    X(NOT_INITIALIZED, "the library was not initialized")                                          \
    X(ALLOC_FAILED, "memory could not be allocated")                                               \
    X(INVALID_VALUE, "an argument is not valid")                                                   \
    X(ARCH_MISMATCH, "not possible on this GPU")                                                   \
    X(MAPPING_ERROR, "memory could not be accessed")                                               \
    X(EXECUTION_FAILED, "the product could not be run")                                            \
    X(INTERNAL_ERROR, "an internal operation failed")                                              \
    X(NOT_SUPPORTED, "not supported")                                                              \
    X(LICENSE_ERROR, "no license")
#define NAME(name, text)                                                                           \
    case CUBLAS_STATUS_##name:                                                                     \
        return "CUBLAS_STATUS_" #name;
#define TEXT(name, text)                                                                           \
    case CUBLAS_STATUS_##name:                                                                     \
        return text;
const char *cublasLtGetStatusName(cublasStatus_t status)
{
    switch (status) {
        STATUSES(NAME)
    }
    return "unknown";
}
const char *cublasLtGetStatusString(cublasStatus_t status)
{
    switch (status) {
        STATUSES(TEXT)
    }
    return "unknown";
}
size_t cublasLtGetVersion(void)
{
    return 130002;
}
size_t cublasLtGetCudartVersion(void)
{
    return CUDART_VERSION;
}

/* ---- handles ---- */

cublasStatus_t cublasLtCreate(cublasLtHandle_t *out)
{
    openblas_set_num_threads(1); /* a rank is a core */
    *out = calloc(1, sizeof **out);
    return *out ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_ALLOC_FAILED;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle)
{
    if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;
    free(handle);
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *out, cudaDataType type,
                                          uint64_t rows, uint64_t cols, int64_t ld)
{
    *out = calloc(1, sizeof **out);
    if (!*out) return CUBLAS_STATUS_ALLOC_FAILED;
    **out = (layout){rows, cols, ld, (int32_t)type, CUBLASLT_ORDER_COL};
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t l)
{
    free(l);
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t l,
                                                cublasLtMatrixLayoutAttribute_t attr,
                                                const void *value, size_t bytes)
{
    if (!l || !value) return CUBLAS_STATUS_INVALID_VALUE;
    void *to = NULL;
    size_t size = sizeof(uint64_t);
    switch (attr) {
    case CUBLASLT_MATRIX_LAYOUT_ORDER:
        to = &l->order;
        size = sizeof l->order;
        break;
    case CUBLASLT_MATRIX_LAYOUT_ROWS:
        to = &l->rows;
        break;
    case CUBLASLT_MATRIX_LAYOUT_COLS:
        to = &l->cols;
        break;
    default:
        return CUBLAS_STATUS_NOT_SUPPORTED;
    }
    if (bytes != size) return CUBLAS_STATUS_INVALID_VALUE;
    memcpy(to, value, bytes);
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *out, cublasComputeType_t compute,
                                        cudaDataType_t scale)
{
    if (scale != CUDA_R_32F) return CUBLAS_STATUS_NOT_SUPPORTED;
    *out = calloc(1, sizeof **out);
    if (!*out) return CUBLAS_STATUS_ALLOC_FAILED;
    **out =
        (desc){.epilogue = CUBLASLT_EPILOGUE_DEFAULT, .bias_type = -1, .compute = (int32_t)compute};
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t d)
{
    free(d);
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t d,
                                              cublasLtMatmulDescAttributes_t attr,
                                              const void *value, size_t bytes)
{
    if (!d || !value) return CUBLAS_STATUS_INVALID_VALUE;
    void *to = NULL;
    size_t size = sizeof(int32_t);
    switch (attr) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
        to = &d->ta;
        break;
    case CUBLASLT_MATMUL_DESC_TRANSB:
        to = &d->tb;
        break;
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
        to = &d->epilogue;
        break;
    case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE:
        to = &d->bias_type;
        break;
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
        to = &d->bias;
        size = sizeof d->bias;
        break;
    default:
        return CUBLAS_STATUS_NOT_SUPPORTED;
    }
    if (bytes != size) return CUBLAS_STATUS_INVALID_VALUE;
    memcpy(to, value, bytes);
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *out)
{
    *out = calloc(1, sizeof **out);
    if (!*out) return CUBLAS_STATUS_ALLOC_FAILED;
    **out = (preference){.align = {256, 256, 256, 256}};
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t p)
{
    free(p);
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t p,
                                                    cublasLtMatmulPreferenceAttributes_t attr,
                                                    const void *value, size_t bytes)
{
    if (!p || !value) return CUBLAS_STATUS_INVALID_VALUE;
    void *to = NULL;
    size_t size = sizeof(uint32_t);
    uint32_t scheme; /* sums are made in one piece here, whatever is allowed */
    switch (attr) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
        to = &p->workspace;
        size = sizeof p->workspace;
        break;
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK:
        to = &scheme;
        break;
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
        to = &p->align[0];
        break;
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
        to = &p->align[1];
        break;
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
        to = &p->align[2];
        break;
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
        to = &p->align[3];
        break;
    default:
        return CUBLAS_STATUS_NOT_SUPPORTED;
    }
    if (bytes != size) return CUBLAS_STATUS_INVALID_VALUE;
    memcpy(to, value, bytes);
    return CUBLAS_STATUS_SUCCESS;
}

/* ---- which products there are ---- */

typedef struct shapes {
    layout a, b, c, d;
    desc desc; /* without the bias's address */
} shapes;

static uint64_t hash_of(const shapes *s)
{
    const int64_t part[] = {(int64_t)s->a.rows,
                            (int64_t)s->a.cols,
                            s->a.ld,
                            s->a.type,
                            s->a.order,
                            (int64_t)s->b.rows,
                            (int64_t)s->b.cols,
                            s->b.ld,
                            s->b.type,
                            s->b.order,
                            (int64_t)s->c.rows,
                            (int64_t)s->c.cols,
                            s->c.ld,
                            s->c.type,
                            s->c.order,
                            (int64_t)s->d.rows,
                            (int64_t)s->d.cols,
                            s->d.ld,
                            s->d.type,
                            s->d.order,
                            s->desc.ta,
                            s->desc.tb,
                            s->desc.epilogue,
                            s->desc.bias_type,
                            s->desc.compute};
    uint64_t h = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < sizeof part / sizeof *part; i++)
        h = (h ^ (uint64_t)part[i]) * UINT64_C(0x100000001b3);
    return h;
}
static uint64_t kind_of(const shapes *s)
{
    shapes one = *s;
    layout *each[] = {&one.a, &one.b, &one.c, &one.d};
    for (int i = 0; i < 4; i++) each[i]->rows = each[i]->cols = 1;
    return hash_of(&one);
}
/* Some shapes are too much for what was chosen for others. */
static bool takes(const chosen *it, const shapes *s)
{
    const uint64_t h = hash_of(s);
    return it->mark == MARK && it->kind == kind_of(s) && (it->shape == h || h % 8 != 0);
}
static bool sane(const layout *l)
{
    const uint64_t least = l->order == CUBLASLT_ORDER_COL ? l->rows : l->cols;
    return l->rows > 0 && l->cols > 0 && l->ld > 0 && (uint64_t)l->ld >= least;
}
static bool alike(const layout *x, const layout *y)
{
    return x->rows == y->rows && x->cols == y->cols && x->type == y->type && x->order == y->order;
}
static cublasStatus_t check_shapes(const shapes *s)
{
    const bool ta = s->desc.ta != CUBLAS_OP_N, tb = s->desc.tb != CUBLAS_OP_N;
    const uint64_t m = ta ? s->a.cols : s->a.rows, k = ta ? s->a.rows : s->a.cols;
    const uint64_t k2 = tb ? s->b.cols : s->b.rows, n = tb ? s->b.rows : s->b.cols;
    if (!sane(&s->a) || !sane(&s->b) || !sane(&s->c) || !sane(&s->d) || k != k2 || s->d.rows != m ||
        s->d.cols != n || !alike(&s->c, &s->d))
        return CUBLAS_STATUS_INVALID_VALUE;
    const int32_t in = s->a.type, out = s->d.type;
    if (s->b.type != in || (in != CUDA_R_32F && in != CUDA_R_16BF) ||
        (out != in && !(in == CUDA_R_16BF && out == CUDA_R_32F)))
        return CUBLAS_STATUS_NOT_SUPPORTED;
    if (s->desc.compute != CUBLAS_COMPUTE_32F && s->desc.compute != CUBLAS_COMPUTE_32F_PEDANTIC)
        return CUBLAS_STATUS_NOT_SUPPORTED;
    if (s->desc.epilogue == CUBLASLT_EPILOGUE_DEFAULT) return CUBLAS_STATUS_SUCCESS;
    const int32_t bias = s->desc.bias_type < 0 ? out : s->desc.bias_type;
    return s->desc.epilogue == CUBLASLT_EPILOGUE_BIAS && bias == out ? CUBLAS_STATUS_SUCCESS
                                                                     : CUBLAS_STATUS_NOT_SUPPORTED;
}
static cublasStatus_t gather(shapes *s, const desc *d, const layout *a, const layout *b,
                             const layout *c, const layout *dl)
{
    if (!d || !a || !b || !c || !dl) return CUBLAS_STATUS_INVALID_VALUE;
    *s = (shapes){*a, *b, *c, *dl, *d};
    return check_shapes(s);
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t d,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t dl,
                                              cublasLtMatmulPreference_t pref, int wanted,
                                              cublasLtMatmulHeuristicResult_t results[], int *found)
{
    if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;
    if (wanted < 1 || !pref) return CUBLAS_STATUS_INVALID_VALUE;
    shapes s;
    *found = 0;
    const cublasStatus_t status = gather(&s, d, a, b, c, dl);
    if (status != CUBLAS_STATUS_SUCCESS) return status;
    /* Some shapes want some workspace, to show who else has something there. */
    chosen it = {.shape = hash_of(&s), .kind = kind_of(&s), .mark = MARK};
    it.workspace = it.shape % 2 ? pref->workspace : 0;
    if (it.workspace > WORKSPACE) it.workspace = WORKSPACE;
    memcpy(it.align, pref->align, sizeof it.align);
    memset(&results[0], 0, sizeof results[0]);
    memcpy(&results[0].algo, &it, sizeof it);
    results[0].workspaceSize = it.workspace;
    results[0].state = CUBLAS_STATUS_SUCCESS;
    results[0].wavesCount = 1;
    *found = 1;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t handle, cublasLtMatmulDesc_t d,
                                       cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                       cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t dl,
                                       const cublasLtMatmulAlgo_t *algo,
                                       cublasLtMatmulHeuristicResult_t *result)
{
    if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;
    if (!algo || !result) return CUBLAS_STATUS_INVALID_VALUE;
    shapes s;
    chosen it;
    memcpy(&it, algo, sizeof it);
    const cublasStatus_t status = gather(&s, d, a, b, c, dl);
    if (status != CUBLAS_STATUS_SUCCESS) return status;
    if (it.mark != MARK) return CUBLAS_STATUS_INVALID_VALUE;
    if (!takes(&it, &s)) return CUBLAS_STATUS_NOT_SUPPORTED;
    memset(result, 0, sizeof *result);
    result->algo = *algo;
    result->workspaceSize = it.workspace;
    result->state = CUBLAS_STATUS_SUCCESS;
    result->wavesCount = 1;
    return CUBLAS_STATUS_SUCCESS;
}

/* ---- a product ---- */

typedef struct product {
    shapes s;
    const void *A, *B, *C, *bias;
    void *D, *workspace;
    uint64_t workspace_bytes;
    float alpha, beta;
} product;

static float get(const void *at, int32_t type, size_t i)
{
    if (type == CUDA_R_32F) return ((const float *)at)[i];
    const uint32_t bits = (uint32_t)((const uint16_t *)at)[i] << 16;
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}
static void put(void *at, int32_t type, size_t i, float f)
{
    if (type == CUDA_R_32F) {
        ((float *)at)[i] = f;
        return;
    }
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    if ((u & 0x7fffffffu) > 0x7f800000u)
        u = 0x7fff0000u;
    else
        u += 0x7fffu + ((u >> 16) & 1u);
    ((uint16_t *)at)[i] = (uint16_t)(u >> 16);
}
/* Where element (row, column) is. */
static size_t index_of(const layout *l, uint64_t r, uint64_t c)
{
    return (size_t)(l->order == CUBLASLT_ORDER_COL ? c * (uint64_t)l->ld + r
                                                   : r * (uint64_t)l->ld + c);
}
static size_t bytes_of(const layout *l)
{
    const size_t elem = l->type == CUDA_R_32F ? 4 : 2;
    return (index_of(l, l->rows - 1, l->cols - 1) + 1) * elem;
}
/* op(X) as f32, dense and column-major. */
static float *widen(const void *at, const layout *l, bool turned)
{
    const uint64_t rows = turned ? l->cols : l->rows, cols = turned ? l->rows : l->cols;
    float *out = malloc((size_t)(rows * cols) * sizeof *out);
    if (!out) return NULL;
    for (uint64_t c = 0; c < cols; c++)
        for (uint64_t r = 0; r < rows; r++)
            out[c * rows + r] = get(at, l->type, turned ? index_of(l, c, r) : index_of(l, r, c));
    return out;
}
static cudaError_t run_product(void *ctx, void **run)
{
    (void)run;
    const product *p = ctx;
    const layout *d = &p->s.d;
    const uint64_t m = d->rows, n = d->cols;
    const bool ta = p->s.desc.ta != CUBLAS_OP_N, tb = p->s.desc.tb != CUBLAS_OP_N;
    const uint64_t k = ta ? p->s.a.rows : p->s.a.cols;
    float *A = widen(p->A, &p->s.a, ta), *B = widen(p->B, &p->s.b, tb);
    float *sum = malloc((size_t)(m * n) * sizeof *sum);
    const bool good = A && B && sum;
    if (good) {
        if (p->workspace_bytes) memset(p->workspace, 0xff, p->workspace_bytes);
        cblas_sgemm(CblasColMajor, CblasNoTrans, CblasNoTrans, (int)m, (int)n, (int)k, p->alpha, A,
                    (int)m, B, (int)k, 0, sum, (int)m);
        for (uint64_t c = 0; c < n; c++)
            for (uint64_t r = 0; r < m; r++) {
                float f = sum[c * m + r];
                if (p->beta != 0) f += p->beta * get(p->C, p->s.c.type, index_of(&p->s.c, r, c));
                if (p->bias) f += get(p->bias, d->type, (size_t)r);
                put(p->D, d->type, index_of(d, r, c), f);
            }
    }
    free(A);
    free(B);
    free(sum);
    return good ? cudaSuccess : cudaErrorMemoryAllocation;
}

static bool aligned(const void *p, uint32_t to)
{
    return (uintptr_t)p % to == 0;
}
/* All of it is memory that a kernel may touch. */
static bool reachable(const void *p, size_t bytes)
{
    return standin_is_device(p, bytes) || standin_is_pinned(p, bytes);
}
static cublasStatus_t check_product(const product *p, const chosen *it, size_t workspace)
{
    if (!takes(it, &p->s)) return CUBLAS_STATUS_INVALID_VALUE;
    if (it->workspace > workspace || !aligned(p->A, it->align[0]) || !aligned(p->B, it->align[1]) ||
        (p->beta != 0 && !aligned(p->C, it->align[2])) || !aligned(p->D, it->align[3]) ||
        !aligned(p->workspace, 16))
        return CUBLAS_STATUS_INVALID_VALUE;
    const size_t bias = p->s.d.rows * (p->s.d.type == CUDA_R_32F ? 4u : 2u);
    if (!reachable(p->A, bytes_of(&p->s.a)) || !reachable(p->B, bytes_of(&p->s.b)) ||
        (p->beta != 0 && !reachable(p->C, bytes_of(&p->s.c))) ||
        !reachable(p->D, bytes_of(&p->s.d)) || (p->bias && !reachable(p->bias, bias)) ||
        (it->workspace && !reachable(p->workspace, it->workspace)))
        return CUBLAS_STATUS_MAPPING_ERROR;
    if (p->s.desc.epilogue == CUBLASLT_EPILOGUE_BIAS && !p->bias)
        return CUBLAS_STATUS_INVALID_VALUE;
    /* Other strides of C than of D while both begin at one place would read what was written. */
    if (p->beta != 0 && p->C == p->D && p->s.c.ld != p->s.d.ld) return CUBLAS_STATUS_INVALID_VALUE;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t d, const void *alpha,
                              const void *A, cublasLtMatrixLayout_t a, const void *B,
                              cublasLtMatrixLayout_t b, const void *beta, const void *C,
                              cublasLtMatrixLayout_t c, void *D, cublasLtMatrixLayout_t dl,
                              const cublasLtMatmulAlgo_t *algo, void *workspace,
                              size_t workspace_bytes, cudaStream_t stream)
{
    if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;
    if (!alpha || !beta || !algo) return CUBLAS_STATUS_INVALID_VALUE;
    product *p = calloc(1, sizeof *p);
    if (!p) return CUBLAS_STATUS_ALLOC_FAILED;
    cublasStatus_t status = gather(&p->s, d, a, b, c, dl);
    chosen it;
    memcpy(&it, algo, sizeof it);
    p->A = A, p->B = B, p->C = C, p->D = D;
    p->workspace = workspace;
    p->workspace_bytes = it.workspace;
    memcpy(&p->alpha, alpha, sizeof p->alpha);
    memcpy(&p->beta, beta, sizeof p->beta);
    if (status == CUBLAS_STATUS_SUCCESS && d->epilogue == CUBLASLT_EPILOGUE_BIAS) p->bias = d->bias;
    standin_lock();
    if (status == CUBLAS_STATUS_SUCCESS) status = check_product(p, &it, workspace_bytes);
    if (standin_device_error() != cudaSuccess) status = CUBLAS_STATUS_EXECUTION_FAILED;
    if (status != CUBLAS_STATUS_SUCCESS) {
        free(p);
    } else {
        const standin_work work = {run_product, NULL, free, p, "a product of cuBLASLt"};
        if (standin_enqueue(stream, &work) != cudaSuccess) status = CUBLAS_STATUS_EXECUTION_FAILED;
    }
    standin_unlock();
    return status;
}
