/* bench_kernels.c: the host kernels on one core, at the sizes of a llama of 25 million
 * parameters (8 layers, hidden 512, 8 heads, feed-forward 1376) and 2,048 tokens in 4 documents.
 * Prints `kernel_NAME_PRECISION VALUE UNIT`: GFLOP/s of the products, GB/s of arrays read and
 * written of the rest. */
#include <cblas.h>
#include <string.h>

#include "core/base/rng.h"
#include "exec/bind/kernels.h"
#include "tests/bench/bench.h"

enum { T = 2048, H = 512, N = 8, G = 8, D = 64, F = 1376, V = 4096, REPEAT = 7, ARRAYS = 6 };

static const int32_t kv_of[N] = {0, 1, 2, 3, 4, 5, 6, 7}, starts[] = {0, 300, 512, 1200, T};
static const luo_heads heads = {N, G, D, kv_of, true, 0, 0, 0, 0};
static const luo_documents docs = {4, starts};
static int32_t ids[T], positions[T];
static void *x[ARRAYS], *work; /* arrays of T x V */

typedef struct row {
    const char *name;
    void (*call)(const luo_kernels *k);
    double flops, elements; /* one of them is 0 */
} row;

static void gemm_qkv(const luo_kernels *k)
{
    k->gemm(false, true, T, H, H, x[0], H, x[1], H, false, x[2], H);
}
static void gemm_gate(const luo_kernels *k)
{
    k->gemm(false, true, T, F, H, x[0], H, x[1], H, false, x[2], F);
}
static void gemm_down(const luo_kernels *k)
{
    k->gemm(false, true, T, H, F, x[0], F, x[1], F, false, x[2], H);
}
static void gemm_gate_dx(const luo_kernels *k)
{
    k->gemm(false, false, T, H, F, x[0], F, x[1], H, false, x[2], H);
}
static void gemm_gate_dw(const luo_kernels *k)
{
    k->gemm(true, false, F, H, T, x[0], F, x[1], H, true, x[2], H);
}
static void gemm_head(const luo_kernels *k)
{
    k->gemm(false, true, T, V, H, x[0], H, x[1], H, false, x[2], V);
}
static void attention(const luo_kernels *k)
{
    char *rows = (char *)x[4];
    k->attention(T, &heads, &docs, x[0], x[1], x[2], x[3], rows, work);
}
static void attention_dx(const luo_kernels *k)
{
    char *out = (char *)x[5];
    const size_t one = (size_t)T * H * k->elem;
    k->attention_dx(T, &heads, &docs, x[0], x[3], x[4], x[0], x[1], x[2], out, out + one,
                    out + 2 * one, work);
}
static void norm(const luo_kernels *k)
{
    k->norm(T, H, 1e-5, 0, x[0], x[1], NULL, x[2]);
}
static void layernorm(const luo_kernels *k)
{
    k->norm(T, H, 1e-5, 0, x[0], x[1], x[3], x[2]);
}
static void norm_dx(const luo_kernels *k)
{
    k->norm_dx(T, H, 1e-5, 0, false, x[0], x[1], x[2], x[3]);
}
static void norm_dw(const luo_kernels *k)
{
    k->norm_dw(T, H, 1e-5, x[0], x[1], true, x[2], NULL);
}
static void rope(const luo_kernels *k)
{
    k->rope(T, N, D, (luo_turns){.base = 1e4}, false, positions, x[0], x[1]);
}
static void swiglu(const luo_kernels *k)
{
    k->swiglu(T * F, x[0], x[1], x[2], x[3]);
}
static void swiglu_dx(const luo_kernels *k)
{
    k->swiglu_dx(T * F, x[0], x[1], x[2], x[3], x[4], x[5]);
}
static void gelu(const luo_kernels *k)
{
    k->gelu(T * F, x[0], x[1]);
}
static void gelu_dx(const luo_kernels *k)
{
    k->gelu_dx(T * F, x[0], x[1], x[2]);
}
static void add(const luo_kernels *k)
{
    const void *in[] = {x[0], x[1]};
    k->add(T * H, 2, in, x[0]);
}
static void embedding(const luo_kernels *k)
{
    k->embedding(T, H, 0, V, 1, ids, x[0], x[1]);
}
static void embedding_dw(const luo_kernels *k)
{
    k->embedding_dw(T, H, 0, V, 1, ids, x[0], true, x[1]);
}
static void row_max(const luo_kernels *k)
{
    k->row_max(T, V, V, x[0], x[1], 0);
}
static void row_sum(const luo_kernels *k)
{
    k->row_sum(T, V, V, x[0], x[1], x[2], x[3], 0);
}
static void loss_dx(const luo_kernels *k)
{
    k->loss_dx(T, V, 0, x[0], x[1], ids, 1e-3, x[2], NULL, 0);
}
static void sum_squares(const luo_kernels *k)
{
    if (!(k->sum_squares(T * V, x[0]) > 0)) luo_bench_fail("sum of squares of random numbers is 0");
}
static void adamw(const luo_kernels *k)
{
    const luo_adam a = {1e-3, 0.9, 0.95, 1e-8, 0.1, 1, 10};
    k->adamw(T * V, &a, x[0], x[1], x[2], x[3]);
}

#define PRODUCT(m, n, k) 2.0 * (m) * (n) * (k), 0
static const row rows[] = {
    {"gemm_qkv", gemm_qkv, PRODUCT(T, H, H)},
    {"gemm_gate", gemm_gate, PRODUCT(T, F, H)},
    {"gemm_gate_dx", gemm_gate_dx, PRODUCT(T, F, H)},
    {"gemm_gate_dw", gemm_gate_dw, PRODUCT(T, F, H)},
    {"gemm_down", gemm_down, PRODUCT(T, H, F)},
    {"gemm_head", gemm_head, PRODUCT(T, V, H)},
    {"attention", attention, -2, 0}, /* products per pair of query and key */
    {"attention_dx", attention_dx, -5, 0},
    {"rmsnorm", norm, 0, 2.0 * T *H},
    {"layernorm", layernorm, 0, 2.0 * T *H},
    {"rmsnorm_dx", norm_dx, 0, 3.0 * T *H},
    {"rmsnorm_dw", norm_dw, 0, 2.0 * T *H},
    {"rope", rope, 0, 2.0 * T *H},
    {"swiglu", swiglu, 0, 4.0 * T *F},
    {"swiglu_dx", swiglu_dx, 0, 6.0 * T *F},
    {"gelu", gelu, 0, 2.0 * T *F},
    {"gelu_dx", gelu_dx, 0, 3.0 * T *F},
    {"add", add, 0, 3.0 * T *H},
    {"embedding", embedding, 0, 2.0 * T *H},
    {"embedding_dw", embedding_dw, 0, 3.0 * T *H},
    {"row_max", row_max, 0, 1.0 * T *V},
    {"row_sum", row_sum, 0, 2.0 * T *V},
    {"loss_dx", loss_dx, 0, 2.0 * T *V},
    {"sum_squares", sum_squares, 0, 1.0 * T *V},
    {"adamw", adamw, 0, 7.0 * T *V},
};

/* A pair of a query and a key it sees costs 2 d flops per product and head. */
static double attention_flops(double products)
{
    double pairs = 0;
    for (int i = 0; i < docs.n; i++) {
        const double n = starts[i + 1] - starts[i];
        pairs += n * (n + 1) / 2;
    }
    return -products * pairs * 2 * D * N;
}

static void fill(const luo_kernels *k) /* numbers in [0, 1), the same 4,096 again and again */
{
    static union {
        float f32[4096];
        double f64[4096];
    } some;
    luo_rng rng = luo_rng_seed(1);
    for (int i = 0; i < 4096; i++) {
        if (k->elem == sizeof(float))
            some.f32[i] = (float)luo_rng_u(&rng);
        else
            some.f64[i] = luo_rng_u(&rng);
    }
    const size_t n = 4096 * k->elem;
    for (int a = 0; a < ARRAYS; a++)
        for (size_t at = 0; at < (size_t)T * V * k->elem; at += n)
            memcpy((char *)x[a] + at, &some, n);
}

static void one(const luo_kernels *k, const row *r)
{
    double took[REPEAT];
    fill(k);
    attention(k); /* its statistics for attention_dx */
    for (int i = 0; i < REPEAT; i++) {
        const double start = luo_bench_now();
        r->call(k);
        took[i] = luo_bench_now() - start;
    }
    const double s = luo_bench_median(took, REPEAT);
    const double flops = r->flops < 0 ? attention_flops(r->flops) : r->flops;
    const double bytes = r->elements * (double)k->elem;
    printf("kernel_%s_%s %.1f %s\n", r->name, k->name, 1e-9 * (flops > 0 ? flops : bytes) / s,
           flops > 0 ? "GFLOP/s" : "GB/s");
}

int main(void)
{
    const luo_kernels *both[] = {&luo_kernels_f32, &luo_kernels_f64};
    openblas_set_num_threads(1);
    for (int a = 0; a < ARRAYS; a++)
        if (!(x[a] = malloc((size_t)T * V * sizeof(double)))) luo_bench_fail("out of memory");
    if (!(work = malloc(luo_kernels_f64.attention_work(T, &heads, &docs, true))))
        luo_bench_fail("out of memory");
    for (int32_t i = 0; i < T; i++) ids[i] = (i * 37) % V, positions[i] = i;
    for (int p = 0; p < 2; p++)
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) one(both[p], &rows[i]);
    for (int a = 0; a < ARRAYS; a++) free(x[a]);
    free(work);
    return 0;
}
