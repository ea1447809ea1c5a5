/* check_products.c: products by cuBLASLt against the host's in f64, over random shapes
 * with every way of storing, adding and rounding; plans that are kept; what is refused. */
#include "core/base/err.h"
#include "exec/cuda/product.h"
#include "exec/bind/kernels.h"
#include "tests/cuda/gpu_case.h"

void openblas_set_num_threads(int n);

typedef struct product {
    gpu_blas *blas;
    gpu_product what;
    bool captured, rows; /* rows: as one of a class */
    gpu_case_array *a, *b, *c, *bias, *plus;
} product;

static struct {
    int64_t cases, empty, captured, bf16, grad, add, bias, plus, both, apart, rows;
} met;

static void opened(gpu_blas **blas)
{
    luo_err err = {0};
    gpu_facts facts;
    setenv("CUBLASLT_WORKSPACE_SIZE", "1024", 0);
    gpu_prepare_environment();
    openblas_set_num_threads(1);
    ck_assert_msg(gpu_open(0, &facts, &err) == LUO_OK, "%s", err.text);
    ck_assert_msg(gpu_blas_open(blas, &err) == LUO_OK, "%s", err.text);
}

static void *at(const gpu_case_array *a)
{
    return a ? a->at : NULL;
}

static cudaError_t enqueue(const product *p, const gpu_product_plan *plan, cudaStream_t stream)
{
    luo_err err = {0};
    const luo_status st = gpu_product_run(p->blas, plan, stream, at(p->a), at(p->b), at(p->bias),
                                          at(p->plus), at(p->c), &err);
    ck_assert_msg(st == LUO_OK, "%s", err.text);
    return cudaSuccess;
}

static cudaError_t call(void *ctx, cudaStream_t stream)
{
    const product *p = ctx;
    gpu_product_plan *plan = NULL;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    luo_err err = {0};
    if (p->rows) {
        const luo_status st =
            gpu_product_run_rows(p->blas, &p->what, stream, at(p->a), at(p->b), at(p->c), &err);
        ck_assert_msg(st == LUO_OK, "%s", err.text);
        return cudaSuccess;
    }
    ck_assert_msg(gpu_product_find(p->blas, &p->what, &plan, &err) == LUO_OK, "%s", err.text);
    if (!p->captured) return enqueue(p, plan, stream);
    GPU_CASE_OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    enqueue(p, plan, stream);
    GPU_CASE_OK(cudaStreamEndCapture(stream, &graph));
    GPU_CASE_OK(cudaGraphInstantiate(&exec, graph, 0));
    GPU_CASE_OK(cudaGraphLaunch(exec, stream));
    GPU_CASE_OK(cudaStreamSynchronize(stream));
    GPU_CASE_OK(cudaGraphExecDestroy(exec));
    return cudaGraphDestroy(graph);
}

/* Values between the rows of a matrix must neither be read nor written. */
static void poison(gpu_case_array *a, int64_t cols, int64_t ld)
{
    for (int64_t i = 0; i < a->n; i++)
        if (i % ld >= cols) gpu_case_set(a, i, (double)NAN);
}

static gpu_product draw(gpu_case *c, int size)
{
    gpu_product p = {.ta = gpu_case_coin(c), .tb = gpu_case_coin(c)};
    const bool even = gpu_case_coin(c);
    int64_t *dim[] = {&p.m, &p.n, &p.k};
    for (int i = 0; i < 3; i++) {
        *dim[i] = gpu_case_draw(c, 0, 20) ? gpu_case_draw(c, 1, size) : 0;
        if (even) *dim[i] = (*dim[i] + 7) / 8 * 8;
    }
    p.lda = (p.ta ? p.m : p.k) + (even ? 8 * gpu_case_draw(c, 0, 1) : gpu_case_draw(c, 0, 5));
    p.ldb = (p.tb ? p.k : p.n) + (even ? 8 * gpu_case_draw(c, 0, 1) : gpu_case_draw(c, 0, 5));
    p.ldc = p.n + (even ? 8 * gpu_case_draw(c, 0, 1) : gpu_case_draw(c, 0, 5));
    p.in = gpu_case_coin(c) ? GPU_BF16 : GPU_F32;
    p.out = p.in == GPU_BF16 && gpu_case_draw(c, 0, 2) ? GPU_BF16 : GPU_F32;
    p.add = gpu_case_draw(c, 0, 2) == 0;
    p.has_plus = !p.add && gpu_case_draw(c, 0, 2) == 0;
    p.has_bias = p.in == p.out && p.k > 0 && gpu_case_draw(c, 0, 2) == 0;
    if (p.lda == 0) p.lda = 1;
    if (p.ldb == 0) p.ldb = 1;
    if (p.ldc == 0) p.ldc = 1;
    return p;
}

static double roundings(const gpu_product *w)
{
    return (double)w->k + 4;
}

/* Kernels of Hopper were seen to round the product to bf16 before they add a bias, and the two
 * again before they add what lies there (cuBLAS 13.1 on an H200): half a unit of each beside half a
 * unit of the sum. */
static void add_rounded_product(const gpu_product *w, double term, double bias, double *mass)
{
    if (w->out != GPU_BF16) return;
    double rounded = w->has_bias ? fabs(term) : 0;
    if (w->add || w->has_plus) rounded += fabs(term) + fabs(bias);
    *mass += ldexp(rounded, 24 - 8) / roundings(w);
}

/* What should come out, and the sum of absolute values that went into it. */
static void expect(const product *p, double *want, double *mass)
{
    const gpu_product *w = &p->what;
    const int64_t na = p->a->n, nb = p->b->n;
    double *abs_a = calloc((size_t)na + 1, sizeof *abs_a);
    double *abs_b = calloc((size_t)nb + 1, sizeof *abs_b);
    double *before = calloc((size_t)p->c->n + 1, sizeof *before);
    ck_assert(abs_a && abs_b && before);
    for (int64_t i = 0; i < na; i++) abs_a[i] = fabs(p->a->x[i]);
    for (int64_t i = 0; i < nb; i++) abs_b[i] = fabs(p->b->x[i]);
    for (int64_t i = 0; i < p->c->n; i++) {
        const int64_t col = i % w->ldc;
        want[i] = p->c->x[i];
        mass[i] = 0;
        if (col >= w->n) continue;
        double first = w->add ? p->c->x[i] : 0, about = fabs(first);
        if (p->bias) first += p->bias->x[col], about += fabs(p->bias->x[col]);
        if (p->plus) first += p->plus->x[i], about += fabs(p->plus->x[i]);
        before[i] = want[i] = first;
        mass[i] = about;
    }
    if (w->m && w->n && w->k) {
        const luo_kernels *k = &luo_kernels_f64;
        k->gemm(w->ta, w->tb, w->m, w->n, w->k, p->a->x, w->lda, p->b->x, w->ldb, true, want,
                w->ldc);
        k->gemm(w->ta, w->tb, w->m, w->n, w->k, abs_a, w->lda, abs_b, w->ldb, true, mass, w->ldc);
        for (int64_t i = 0; i < p->c->n; i++)
            add_rounded_product(w, want[i] - before[i],
                                p->bias && i % w->ldc < w->n ? p->bias->x[i % w->ldc] : 0,
                                &mass[i]);
    }
    free(before);
    free(abs_a);
    free(abs_b);
}

static void make(gpu_case *c, product *p, int size)
{
    p->what = draw(c, size);
    const gpu_product *w = &p->what;
    p->rows = !w->has_bias && !w->has_plus && !(w->ta && w->tb) && gpu_case_coin(c);
    p->captured = gpu_case_draw(c, 0, 3) == 0 && !p->rows;
    if (!w->has_bias && gpu_case_draw(c, 0, 3) == 0) { /* operands begin at any element */
        p->what.align = w->in == GPU_BF16 ? 2 : 4;
        c->shift = gpu_case_draw(c, 1, 7);
    }
    p->a = gpu_case_in(c, w->in, (w->ta ? w->k : w->m) * w->lda, 1);
    p->b = gpu_case_in(c, w->in, (w->tb ? w->n : w->k) * w->ldb, 1);
    p->c = gpu_case_out(c, w->out, w->m * w->ldc, true);
    if (w->has_bias) p->bias = gpu_case_in(c, w->in, w->n, 1);
    if (w->has_plus) p->plus = gpu_case_in(c, w->out, w->m * w->ldc, 1);
    poison(p->a, w->ta ? w->m : w->k, w->lda);
    poison(p->b, w->tb ? w->k : w->n, w->ldb);
    if (p->plus) poison(p->plus, w->n, w->ldc);
    for (int64_t i = 0; i < p->c->n && !w->add; i++) /* and what is to be overwritten */
        if (i % w->ldc < w->n) gpu_case_set(p->c, i, (double)NAN);
}

static void tally(const product *p)
{
    const gpu_product *w = &p->what;
    met.cases++;
    met.empty += w->m == 0 || w->n == 0 || w->k == 0;
    met.captured += p->captured;
    met.bf16 += w->in == GPU_BF16;
    met.grad += w->in != w->out;
    met.add += w->add;
    met.bias += w->has_bias && !w->has_plus;
    met.plus += w->has_plus && !w->has_bias;
    met.both += w->has_bias && w->has_plus;
    met.apart += w->align > 0;
    met.rows += p->rows;
}

static const char *describe(const gpu_product *w, bool captured, char *text, size_t n)
{
    snprintf(text, n, "%s product [%lld x %lld x %lld, ld %lld %lld %lld]%s%s%s%s%s%s to %s",
             w->in == GPU_BF16 ? "bf16" : "f32", (long long)w->m, (long long)w->n, (long long)w->k,
             (long long)w->lda, (long long)w->ldb, (long long)w->ldc, w->ta ? " ta" : "",
             w->tb ? " tb" : "", w->add ? " add" : "", w->has_bias ? " bias" : "",
             w->has_plus ? " plus" : "", captured ? " captured" : "",
             w->out == GPU_BF16 ? "bf16" : "f32");
    return text;
}

static void one_case(gpu_blas *blas, uint64_t seed)
{
    gpu_case c;
    product p = {.blas = blas};
    gpu_case_begin(&c, "product", seed);
    make(&c, &p, gpu_case_draw(&c, 0, 9) ? 40 : 200);
    char name[128];
    c.name = describe(&p.what, p.captured, name, sizeof name);
    const size_t n = (size_t)p.c->n + 1;
    double *want = calloc(n, sizeof *want), *mass = calloc(n, sizeof *mass);
    ck_assert(want && mass);
    gpu_case_run(&c, call, &p);
    expect(&p, want, mass);
    gpu_case_check(&c, p.c, want, mass, roundings(&p.what));
    tally(&p);
    free(want);
    free(mass);
    gpu_case_end(&c);
}

enum { CASES = 300 };

START_TEST(random_products)
{
    gpu_blas *blas = NULL;
    opened(&blas);
    LUO_PROP_FOR(seed, CASES) one_case(blas, seed);
    printf("%lld products: %lld empty, %lld captured, %lld bf16 (%lld of them to f32), %lld added, "
           "%lld with bias, %lld with a sum, %lld with both, %lld at any element, %lld of a class; "
           "%lld plans\n",
           (long long)met.cases, (long long)met.empty, (long long)met.captured, (long long)met.bf16,
           (long long)met.grad, (long long)met.add, (long long)met.bias, (long long)met.plus,
           (long long)met.both, (long long)met.apart, (long long)met.rows,
           (long long)gpu_blas_plans(blas));
    gpu_blas_close(blas);
    if (luo_prop_env("LUO_CASES", CASES) < CASES) return;
    ck_assert(met.empty > 10 && met.captured > 40 && met.grad > 20 && met.add > 50);
    ck_assert(met.bias > 15 && met.plus > 25 && met.both > 4 && met.apart > 20);
    ck_assert(met.rows > 50);
}
END_TEST

/* After the first products of all classes no run asks for an algorithm again, but for rows that the
 * algorithm of their class does not take; those keep their plan. */
START_TEST(rows_that_vary)
{
    enum { MOST = 100, WIDE = 24, CLASSES = 8 };
    gpu_blas *blas = NULL;
    luo_err err = {0};
    gpu_product p = {
        .ta = _i == 1, .m = WIDE, .n = WIDE, .k = WIDE, .lda = WIDE, .ldb = WIDE, .ldc = WIDE};
    cudaStream_t stream;
    void *x, *c;
    opened(&blas);
    GPU_CASE_OK(cudaStreamCreate(&stream));
    GPU_CASE_OK(cudaMalloc(&x, MOST * WIDE * sizeof(float)));
    GPU_CASE_OK(cudaMalloc(&c, MOST * WIDE * sizeof(float)));
    GPU_CASE_OK(cudaMemset(x, 0, MOST * WIDE * sizeof(float)));
    ck_assert_msg(gpu_product_warm_rows(blas, &p, MOST, stream, x, x, c, &err) == LUO_OK, "%s",
                  err.text);
    const int64_t first = gpu_blas_plans(blas);
    ck_assert(first >= CLASSES && first <= CLASSES + 1); /* 100 is no power of two */
    int64_t met_first = 0;
    for (int round = 0; round < 2; round++) {
        for (int64_t n = 0; n <= MOST; n++) {
            *(p.ta ? &p.k : &p.m) = n;
            ck_assert_msg(gpu_product_run_rows(blas, &p, stream, x, x, c, &err) == LUO_OK, "%s",
                          err.text);
        }
        if (round == 0) met_first = gpu_blas_plans(blas);
    }
    ck_assert(met_first < first + MOST / 2);
    ck_assert_int_eq(gpu_blas_plans(blas), met_first);
    ck_assert_int_eq(gpu_product_warm_rows(blas, &p, MOST, stream, x, x, c, &err), LUO_OK);
    ck_assert_int_eq(gpu_blas_plans(blas), met_first);
    GPU_CASE_OK(cudaStreamSynchronize(stream));
    printf("rows 1 to %d of %s: %lld plans, %lld of them before\n", MOST,
           p.ta ? "ta" : "a plain product", (long long)met_first, (long long)first);
    GPU_CASE_OK(cudaFree(x));
    GPU_CASE_OK(cudaFree(c));
    GPU_CASE_OK(cudaStreamDestroy(stream));
    gpu_blas_close(blas);
}
END_TEST

/* ---- plans ---- */

static const gpu_product base = {.m = 8, .n = 16, .k = 24, .lda = 24, .ldb = 16, .ldc = 16};

/* Every field is part of the key; the same product finds the same plan. */
START_TEST(kept)
{
    gpu_blas *blas = NULL;
    gpu_product_plan *plan[13] = {NULL}, *again = NULL;
    gpu_product p[13];
    opened(&blas);
    for (int i = 0; i < 13; i++) p[i] = base;
    p[1].ta = true, p[2].tb = true, p[3].add = true;
    p[2].ldb = 24;
    p[4].m = 7, p[5].n = 15, p[6].k = 23;
    p[7].lda = 25, p[8].ldb = 17, p[9].ldc = 17;
    p[10].in = p[10].out = GPU_BF16;
    p[11].has_bias = true, p[12].has_plus = true;
    for (int i = 0; i < 13; i++) {
        ck_assert_int_eq(gpu_product_find(blas, &p[i], &plan[i], NULL), LUO_OK);
        for (int k = 0; k < i; k++) ck_assert_ptr_ne(plan[i], plan[k]);
        ck_assert_int_eq(gpu_blas_plans(blas), i + 1);
    }
    for (int i = 0; i < 13; i++) {
        ck_assert_int_eq(gpu_product_find(blas, &p[i], &again, NULL), LUO_OK);
        ck_assert_ptr_eq(again, plan[i]);
    }
    ck_assert_int_eq(gpu_blas_plans(blas), 13);
    gpu_blas_close(blas);
}
END_TEST

/* ---- what is refused ---- */

START_TEST(refused)
{
    gpu_blas *blas = NULL;
    gpu_product_plan *plan = NULL;
    luo_err err = {0};
    gpu_product p[5] = {base, base, base, base, base};
    opened(&blas);
    p[0].out = GPU_BF16;                      /* of f32 */
    p[1].add = p[1].has_plus = true;          /* two sums */
    p[2].k = 0, p[2].has_bias = true;         /* a bias alone */
    p[3].lda = 23;                            /* rows that overlap */
    p[4].in = GPU_BF16, p[4].has_bias = true; /* a bias of another type than the result */
    for (int i = 0; i < 5; i++) {
        ck_assert_int_eq(gpu_product_find(blas, &p[i], &plan, &err), LUO_EBUG);
        ck_assert_str_eq(err.text, p[i].k ? "a product of [8 x 16 x 24] is asked for wrongly."
                                          : "a product of [8 x 16 x 0] is asked for wrongly.");
    }
    ck_assert_ptr_null(plan);
    ck_assert_int_eq(gpu_blas_plans(blas), 0);
    gpu_blas_close(blas);
}
END_TEST

static const struct {
    const char *text;
    bool good;
} workspaces[] = {{"0", true}, {"4096", true}, {"", true}, {"12k", false}, {"-1", false}};

START_TEST(workspace)
{
    gpu_blas *blas = NULL;
    gpu_product_plan *plan = NULL;
    luo_err err = {0};
    char want[128];
    setenv("CUBLASLT_WORKSPACE_SIZE", workspaces[_i].text, 1);
    const luo_status st = gpu_blas_open(&blas, &err);
    ck_assert_int_eq(st, workspaces[_i].good ? LUO_OK : LUO_EINPUT);
    if (workspaces[_i].good) {
        ck_assert_int_eq(gpu_product_find(blas, &base, &plan, &err), LUO_OK);
        gpu_blas_close(blas);
        return;
    }
    snprintf(want, sizeof want, "CUBLASLT_WORKSPACE_SIZE is `%s`; a number of KiB is expected.",
             workspaces[_i].text);
    ck_assert_str_eq(err.text, want);
    ck_assert_ptr_null(blas);
}
END_TEST

/* ---- exec/cuda/gpu.c ---- */

START_TEST(memory)
{
    luo_err err = {0};
    void *p = NULL, *q = NULL, *there = NULL;
    unsigned char got[64];
    ck_assert_int_eq(gpu_alloc(INT64_C(1) << 50, "the slab", &p, &err), LUO_EOOM);
    ck_assert_ptr_nonnull(strstr(err.text, "the slab takes 1048576.000 GiB of the GPU's memory, of "
                                           "which "));
    ck_assert_ptr_null(p);
    ck_assert_int_eq(cudaGetLastError(), cudaSuccess); /* nobody else meets it */
    ck_assert_int_eq(gpu_alloc(64, "a test", &p, &err), LUO_OK);
    GPU_CASE_OK(cudaMemcpy(got, p, 64, cudaMemcpyDeviceToHost));
    for (int i = 0; i < 64; i++) ck_assert_int_eq(got[i], 0);
    ck_assert_int_eq(gpu_alloc(0, "nothing", &q, &err), LUO_OK);
    ck_assert_ptr_nonnull(q);
    gpu_free(q);
    gpu_free(p);
    gpu_free(NULL);
    ck_assert_int_eq(gpu_alloc_mapped(64, "a test", &p, &there, &err), LUO_OK);
    GPU_CASE_OK(cudaMemset(there, 7, 64));
    GPU_CASE_OK(cudaDeviceSynchronize());
    for (int i = 0; i < 64; i++) ck_assert_int_eq(((volatile unsigned char *)p)[i], 7);
    gpu_free_mapped(p);
    gpu_free_mapped(NULL);
}
END_TEST

START_TEST(facts)
{
    luo_err err = {0};
    gpu_facts f, again;
    char version[32];
    int n = 0;
    GPU_CASE_OK(cudaGetDeviceCount(&n));
    ck_assert_int_eq(gpu_open(0, &f, &err), LUO_OK);
    ck_assert_int_eq(gpu_open(n, &again, &err), LUO_OK); /* modulo those there are */
    ck_assert_mem_eq(&f, &again, sizeof f);
    gpu_blas_version(version, sizeof version);
    ck_assert(f.name[0] && f.host[0] && f.bus[0] && f.major >= 7 && f.sms > 0 && f.memory > 0);
    ck_assert(f.runtime >= 11000 && f.driver > 0 && f.nccl > 20000 && f.cublas > 0);
    ck_assert_ptr_nonnull(strchr(version, '.'));
    printf("%s (%d.%d), CUDA %d, cuBLAS %s\n", f.name, (int)f.major, (int)f.minor, (int)f.runtime,
           version);
    ck_assert_int_eq(gpu_check(&err, cudaErrorInvalidValue, "a test"), LUO_EBACKEND);
    ck_assert_ptr_nonnull(strstr(err.text, "a test failed with cudaErrorInvalidValue ("));
    ck_assert_int_eq(gpu_check(&err, cudaErrorMemoryAllocation, "a test"), LUO_EOOM);
}
END_TEST
LUO_SUITE("cuda.products", LUO_T(random_products), LUO_T_N(rows_that_vary, 2), LUO_T(kept),
          LUO_T(refused), LUO_T_N(workspace, LUO_ROWS(workspaces)), LUO_T(memory), LUO_T(facts))
