/* The stand-in's cuBLASLt: random products beside plain loops, and what it refuses. */
#include <cublasLt.h>
#include <math.h>

#include "core/base/rng.h"
#include "tests/check_main.h"
#include "tests/prop/prop.h"

typedef struct matrix {
    int64_t rows, cols, ld;
    cublasLtOrder_t order;
    cudaDataType type;
    size_t n;     /* elements */
    float *value; /* what it holds, of the host */
    void *device;
    cublasLtMatrixLayout_t layout;
} matrix;
typedef struct product {
    cublasLtHandle_t handle;
    cublasLtMatmulDesc_t desc;
    cublasLtMatmulPreference_t pref;
    matrix a, b, c, d;
    float *bias;
    void *bias_device;
    bool ta, tb, has_bias;
    float alpha, beta;
    cublasLtMatmulHeuristicResult_t found;
    void *workspace;
} product;

enum { WORKSPACE = 4096 };

static void good(cublasStatus_t status)
{
    ck_assert_msg(status == CUBLAS_STATUS_SUCCESS, "%s", cublasLtGetStatusName(status));
}
static float rounded(float f, cudaDataType type)
{
    if (type == CUDA_R_32F) return f;
    union {
        float f;
        uint32_t u;
    } v = {f};
    v.u = (v.u + 0x7fff + (v.u >> 16 & 1)) & 0xffff0000u;
    return v.f;
}
static size_t where(const matrix *m, int64_t r, int64_t c)
{
    return (size_t)(m->order == CUBLASLT_ORDER_COL ? c * m->ld + r : r * m->ld + c);
}
/* n values on the device, of m's type. */
static void *upload(const float *value, size_t n, cudaDataType type)
{
    void *out = NULL;
    const size_t elem = type == CUDA_R_32F ? 4 : 2;
    char *bytes = malloc(n * elem);
    for (size_t i = 0; i < n; i++) {
        /* Little-endian: the upper half of a float is its second half. */
        memcpy(bytes + i * elem, (const char *)&value[i] + (4 - elem), elem);
    }
    ck_assert_int_eq(cudaMalloc(&out, n * elem), cudaSuccess);
    ck_assert_int_eq(cudaMemcpy(out, bytes, n * elem, cudaMemcpyHostToDevice), cudaSuccess);
    free(bytes);
    return out;
}
static float *random_values(luo_rng *rng, size_t n, cudaDataType type)
{
    float *v = malloc(n * sizeof *v);
    for (size_t i = 0; i < n; i++) v[i] = rounded((float)luo_rng_normal(rng), type);
    return v;
}
static matrix random_matrix(luo_rng *rng, int64_t rows, int64_t cols, cudaDataType type)
{
    matrix m = {.rows = rows, .cols = cols, .type = type};
    m.order = luo_rng_pick(rng, 2) ? CUBLASLT_ORDER_ROW : CUBLASLT_ORDER_COL;
    m.ld = (m.order == CUBLASLT_ORDER_COL ? rows : cols) + luo_rng_pick(rng, 3);
    m.n = where(&m, rows - 1, cols - 1) + 1;
    m.value = random_values(rng, m.n, type);
    m.device = upload(m.value, m.n, type);
    good(cublasLtMatrixLayoutCreate(&m.layout, type, (uint64_t)rows, (uint64_t)cols, m.ld));
    const int32_t order = (int32_t)m.order;
    good(cublasLtMatrixLayoutSetAttribute(m.layout, CUBLASLT_MATRIX_LAYOUT_ORDER, &order,
                                          sizeof order));
    return m;
}
static void drop_matrix(matrix *m)
{
    free(m->value);
    cudaFree(m->device);
    cublasLtMatrixLayoutDestroy(m->layout);
}

static void describe(product *p)
{
    const cublasOperation_t ta = p->ta ? CUBLAS_OP_T : CUBLAS_OP_N;
    const cublasOperation_t tb = p->tb ? CUBLAS_OP_T : CUBLAS_OP_N;
    const cublasLtEpilogue_t epilogue =
        p->has_bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
    good(cublasLtMatmulDescCreate(&p->desc, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    good(cublasLtMatmulDescSetAttribute(p->desc, CUBLASLT_MATMUL_DESC_TRANSA, &ta, sizeof ta));
    good(cublasLtMatmulDescSetAttribute(p->desc, CUBLASLT_MATMUL_DESC_TRANSB, &tb, sizeof tb));
    good(cublasLtMatmulDescSetAttribute(p->desc, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue,
                                        sizeof epilogue));
    if (p->has_bias)
        good(cublasLtMatmulDescSetAttribute(p->desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER,
                                            &p->bias_device, sizeof p->bias_device));
    const size_t workspace = WORKSPACE;
    good(cublasLtMatmulPreferenceCreate(&p->pref));
    good(cublasLtMatmulPreferenceSetAttribute(p->pref, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                              &workspace, sizeof workspace));
}
static product random_product(luo_rng *rng)
{
    const int64_t m = 1 + luo_rng_pick(rng, 20), n = 1 + luo_rng_pick(rng, 20);
    const int64_t k = 1 + luo_rng_pick(rng, 20);
    const cudaDataType in = luo_rng_pick(rng, 2) ? CUDA_R_16BF : CUDA_R_32F;
    const cudaDataType out = luo_rng_pick(rng, 2) ? CUDA_R_32F : in;
    product p = {.ta = luo_rng_pick(rng, 2),
                 .tb = luo_rng_pick(rng, 2),
                 .has_bias = luo_rng_pick(rng, 2),
                 .alpha = 1,
                 .beta = (float)luo_rng_pick(rng, 2)};
    p.a = random_matrix(rng, p.ta ? k : m, p.ta ? m : k, in);
    p.b = random_matrix(rng, p.tb ? n : k, p.tb ? k : n, in);
    p.d = random_matrix(rng, m, n, out);
    p.c = random_matrix(rng, m, n, out);
    while (p.c.order != p.d.order) {
        drop_matrix(&p.c);
        p.c = random_matrix(rng, m, n, out);
    }
    p.bias = random_values(rng, (size_t)m, out);
    p.bias_device = upload(p.bias, (size_t)m, out);
    ck_assert_int_eq(cudaMalloc(&p.workspace, WORKSPACE), cudaSuccess);
    good(cublasLtCreate(&p.handle));
    describe(&p);
    return p;
}
static void drop_product(product *p)
{
    drop_matrix(&p->a);
    drop_matrix(&p->b);
    drop_matrix(&p->c);
    drop_matrix(&p->d);
    free(p->bias);
    cudaFree(p->bias_device);
    cudaFree(p->workspace);
    good(cublasLtMatmulDescDestroy(p->desc));
    good(cublasLtMatmulPreferenceDestroy(p->pref));
    good(cublasLtDestroy(p->handle));
}
static cublasStatus_t choose(product *p)
{
    int n = 0;
    return cublasLtMatmulAlgoGetHeuristic(p->handle, p->desc, p->a.layout, p->b.layout, p->c.layout,
                                          p->d.layout, p->pref, 1, &p->found, &n);
}
static cublasStatus_t multiply(const product *p, const void *A, size_t workspace)
{
    return cublasLtMatmul(p->handle, p->desc, &p->alpha, A, p->a.layout, p->b.device, p->b.layout,
                          &p->beta, p->c.device, p->c.layout, p->d.device, p->d.layout,
                          &p->found.algo, p->workspace, workspace, NULL);
}

static double wanted(const product *p, int64_t r, int64_t c)
{
    const int64_t k = p->ta ? p->a.rows : p->a.cols;
    double sum = 0;
    for (int64_t i = 0; i < k; i++)
        sum += (double)p->a.value[p->ta ? where(&p->a, i, r) : where(&p->a, r, i)] *
               (double)p->b.value[p->tb ? where(&p->b, c, i) : where(&p->b, i, c)];
    if (p->beta != 0) sum += (double)p->c.value[where(&p->c, r, c)];
    return p->has_bias ? sum + (double)p->bias[r] : sum;
}
static void compare(const product *p)
{
    const size_t elem = p->d.type == CUDA_R_32F ? 4 : 2;
    char *got = malloc(p->d.n * elem);
    ck_assert_int_eq(cudaMemcpy(got, p->d.device, p->d.n * elem, cudaMemcpyDeviceToHost),
                     cudaSuccess);
    const double bound = p->d.type == CUDA_R_32F ? 1e-5 : 1.0 / 256;
    for (int64_t r = 0; r < p->d.rows; r++)
        for (int64_t c = 0; c < p->d.cols; c++) {
            float v = 0;
            memcpy((char *)&v + (4 - elem), got + where(&p->d, r, c) * elem, elem);
            const double want = wanted(p, r, c);
            ck_assert_double_le(fabs((double)v - want), bound * (1 + fabs(want)));
        }
    free(got);
}
START_TEST(products_are_those_of_plain_loops)
{
    LUO_PROP_FOR(seed, 200)
    {
        luo_rng rng = luo_rng_seed(seed);
        product p = random_product(&rng);
        good(choose(&p));
        good(multiply(&p, p.a.device, WORKSPACE));
        compare(&p);
        drop_product(&p);
    }
}
END_TEST

START_TEST(what_was_promised_is_checked)
{
    luo_rng rng = luo_rng_seed(1);
    product p = random_product(&rng);
    ck_assert_int_eq(multiply(&p, p.a.device, WORKSPACE),
                     CUBLAS_STATUS_INVALID_VALUE); /* no algo */
    good(choose(&p));
    /* 256-byte alignment is the promise unless another one is made. */
    ck_assert_int_eq(multiply(&p, (char *)p.a.device + 16, WORKSPACE), CUBLAS_STATUS_INVALID_VALUE);
    ck_assert_int_ne(multiply(&p, p.a.value, WORKSPACE), CUBLAS_STATUS_SUCCESS);
    p.found.algo.data[1]++; /* chosen for another kind of product */
    ck_assert_int_eq(multiply(&p, p.a.device, WORKSPACE), CUBLAS_STATUS_INVALID_VALUE);
    const cublasLtEpilogue_t gelu = CUBLASLT_EPILOGUE_GELU;
    good(cublasLtMatmulDescSetAttribute(p.desc, CUBLASLT_MATMUL_DESC_EPILOGUE, &gelu, sizeof gelu));
    ck_assert_int_eq(choose(&p), CUBLAS_STATUS_NOT_SUPPORTED);
    drop_product(&p);
}
END_TEST
static void shrink(matrix *m, bool turned, int64_t to)
{
    const uint64_t n = (uint64_t)to;
    if (turned)
        m->rows = to;
    else
        m->cols = to;
    good(cublasLtMatrixLayoutSetAttribute(
        m->layout, turned ? CUBLASLT_MATRIX_LAYOUT_ROWS : CUBLASLT_MATRIX_LAYOUT_COLS, &n,
        sizeof n));
}

/* An algorithm takes other columns too, or says that it does not. */
START_TEST(fewer_columns)
{
    int taken = 0, refused = 0;
    LUO_PROP_FOR(seed, 100)
    {
        luo_rng rng = luo_rng_seed(seed);
        product p = random_product(&rng);
        cublasLtMatmulHeuristicResult_t found;
        good(choose(&p));
        const int64_t n = 1 + luo_rng_pick(&rng, p.d.cols);
        shrink(&p.b, p.tb, n);
        shrink(&p.c, false, n);
        shrink(&p.d, false, n);
        const cublasStatus_t st =
            cublasLtMatmulAlgoCheck(p.handle, p.desc, p.a.layout, p.b.layout, p.c.layout,
                                    p.d.layout, &p.found.algo, &found);
        if (st == CUBLAS_STATUS_SUCCESS) {
            ck_assert_uint_eq(found.workspaceSize, p.found.workspaceSize);
            good(multiply(&p, p.a.device, WORKSPACE));
            compare(&p);
            taken++;
        } else {
            ck_assert_int_eq(st, CUBLAS_STATUS_NOT_SUPPORTED);
            ck_assert_int_eq(multiply(&p, p.a.device, WORKSPACE), CUBLAS_STATUS_INVALID_VALUE);
            refused++;
        }
        drop_product(&p);
    }
    ck_assert_msg(taken > 2 * refused && (refused > 3 || taken < 60), "%d, %d", taken, refused);
}
END_TEST
/* Some shapes get a workspace; it is written to. */
START_TEST(workspace_is_used)
{
    int used = 0;
    for (uint64_t seed = 1; seed <= 30; seed++) {
        luo_rng rng = luo_rng_seed(seed);
        product p = random_product(&rng);
        good(choose(&p));
        if (p.found.workspaceSize > 0) {
            used++;
            ck_assert_int_eq(multiply(&p, p.a.device, 0), CUBLAS_STATUS_INVALID_VALUE);
        }
        drop_product(&p);
    }
    ck_assert_int_gt(used, 5);
    ck_assert_int_lt(used, 25);
}
END_TEST

LUO_SUITE("cuda.cublas", LUO_T(products_are_those_of_plain_loops),
          LUO_T(what_was_promised_is_checked), LUO_T(fewer_columns), LUO_T(workspace_is_used))
