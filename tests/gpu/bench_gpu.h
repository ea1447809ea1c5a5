/* bench_gpu.h: what the programs of `make bench-gpu` share: time of work on the device,
 * and what the device can do at most, measured.
 *
 * A program prints rows of CSV on stdout, with GPU_BENCH_HEADER first:
 *   name    what ran ("norm", "attention_dx", "layer.down.dw")
 *   shape   its sizes, no comma ("t=8192 h=4096")
 *   type    f32, bf16
 *   s       seconds of one run: median of several, by events on the stream
 *   bytes   that it has to read and write at least; flop: of its products (causal attention: of the
 *           half that is there); 0 where it is not what bounds the kernel
 *   gbytes_per_s, tflop_per_s: bytes / s, flop / s; 0 where bytes or flop are 0
 *   ceiling what the same device was measured to do: of a copy where bytes are given, of a large
 *           product where flop are; share: of the ceiling
 * LUO_GPU_QUICK=1 in the environment makes sizes small and runs few: it shows that the program
 * works, and its numbers are none. Working sets are to be several times the second-level cache
 * (GPU_BENCH_BYTES a buffer): what a step reads is seldom there. */
#ifndef LUO_TESTS_GPU_BENCH_GPU_H
#define LUO_TESTS_GPU_BENCH_GPU_H
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exec/cuda/gpu.h"
#include "exec/cuda/product.h"

#define GPU_BENCH_HEADER "name,shape,type,s,bytes,flop,gbytes_per_s,tflop_per_s,ceiling,share"

static inline void gpu_bench_ok(cudaError_t code, const char *what)
{
    if (code == cudaSuccess) return;
    fprintf(stderr, "%s failed with %s (%s)\n", what, cudaGetErrorName(code),
            cudaGetErrorString(code));
    exit(1);
}

static inline void gpu_bench_done(luo_status st, const luo_err *err)
{
    if (st == LUO_OK) return;
    fprintf(stderr, "%s\n", err->text);
    exit(1);
}

static inline bool gpu_bench_quick(void)
{
    const char *v = getenv("LUO_GPU_QUICK");
    return v && *v && *v != '0';
}

/* Bytes of a buffer that no cache holds. */
static inline int64_t gpu_bench_bytes(void)
{
    return gpu_bench_quick() ? 1 << 14 : INT64_C(1) << 28;
}

static inline void *gpu_bench_alloc(int64_t bytes)
{
    luo_err err = {0};
    void *p = NULL;
    gpu_bench_done(gpu_alloc(bytes, "a benchmark", &p, &err), &err);
    return p;
}

/* Normal numbers, the same in every run: zeros take less power. Owner: gpu_free. */
static inline void *gpu_bench_filled(gpu_type type, int64_t n)
{
    static uint64_t seed; /* other numbers in every array, the same in every run */
    luo_err err = {0};
    void *at = gpu_bench_alloc(n * gpu_elem(type));
    gpu_bench_done(gpu_fill_normal(at, type, n, 1, ++seed, &err), &err);
    return at;
}

/* ---- time ---- */

typedef void (*gpu_bench_call)(void *ctx, cudaStream_t stream); /* enqueues */

static inline int gpu_bench_order(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

/* Median seconds of one run. */
static inline double gpu_bench_time(gpu_bench_call call, void *ctx, cudaStream_t stream)
{
    enum { WARM = 3, RUNS = 21 };
    const int runs = gpu_bench_quick() ? 1 : RUNS;
    float ms[RUNS];
    cudaEvent_t from, to;
    gpu_bench_ok(cudaEventCreate(&from), "an event");
    gpu_bench_ok(cudaEventCreate(&to), "an event");
    for (int i = 0; i < (gpu_bench_quick() ? 1 : WARM); i++) call(ctx, stream);
    for (int i = 0; i < runs; i++) {
        gpu_bench_ok(cudaEventRecord(from, stream), "an event");
        call(ctx, stream);
        gpu_bench_ok(cudaEventRecord(to, stream), "an event");
        gpu_bench_ok(cudaEventSynchronize(to), "a measurement");
        gpu_bench_ok(cudaEventElapsedTime(&ms[i], from, to), "a measurement");
    }
    gpu_bench_ok(cudaEventDestroy(from), "an event");
    gpu_bench_ok(cudaEventDestroy(to), "an event");
    qsort(ms, (size_t)runs, sizeof *ms, gpu_bench_order);
    return 1e-3 * (double)ms[runs / 2];
}

/* ---- ceilings ---- */

typedef struct gpu_bench_copy {
    void *from, *to;
    int64_t bytes;
} gpu_bench_copy;

static inline void gpu_bench_run_copy(void *ctx, cudaStream_t stream)
{
    const gpu_bench_copy *c = (const gpu_bench_copy *)ctx;
    gpu_bench_ok(
        cudaMemcpyAsync(c->to, c->from, (size_t)c->bytes, cudaMemcpyDeviceToDevice, stream),
        "a copy");
}

/* Bytes a second that a copy inside the device's memory reads and writes. */
static inline double gpu_bench_copy_rate(cudaStream_t stream)
{
    gpu_bench_copy c = {.bytes = 4 * gpu_bench_bytes()};
    c.from = gpu_bench_filled(GPU_F32, c.bytes / 4);
    c.to = gpu_bench_alloc(c.bytes);
    const double s = gpu_bench_time(gpu_bench_run_copy, &c, stream);
    gpu_free(c.from);
    gpu_free(c.to);
    return 2 * (double)c.bytes / s;
}

typedef struct gpu_bench_product {
    gpu_blas *blas;
    gpu_product_plan *plan;
    void *a, *b, *c, *bias, *plus;
} gpu_bench_product;

static inline void gpu_bench_run_product(void *ctx, cudaStream_t stream)
{
    const gpu_bench_product *p = (const gpu_bench_product *)ctx;
    luo_err err = {0};
    gpu_bench_done(
        gpu_product_run(p->blas, p->plan, stream, p->a, p->b, p->bias, p->plus, p->c, &err), &err);
}

/* Seconds of a product of normal numbers (zeros take less power, so the clock would be higher). */
static inline double gpu_bench_product_time(gpu_blas *blas, const gpu_product *w,
                                            cudaStream_t stream)
{
    luo_err err = {0};
    gpu_bench_product p = {.blas = blas};
    gpu_bench_done(gpu_product_find(blas, w, &p.plan, &err), &err);
    p.a = gpu_bench_filled(w->in, (w->ta ? w->k : w->m) * w->lda);
    p.b = gpu_bench_filled(w->in, (w->tb ? w->n : w->k) * w->ldb);
    p.c = gpu_bench_filled(w->out, w->m * w->ldc);
    if (w->has_bias) p.bias = gpu_bench_filled(w->in, w->n);
    if (w->has_plus) p.plus = gpu_bench_filled(w->out, w->m * w->ldc);
    const double s = gpu_bench_time(gpu_bench_run_product, &p, stream);
    gpu_free(p.a);
    gpu_free(p.b);
    gpu_free(p.c);
    gpu_free(p.bias);
    gpu_free(p.plus);
    return s;
}

/* Flop a second of a large square product with f32 sums. */
static inline double gpu_bench_product_rate(gpu_blas *blas, gpu_type in, cudaStream_t stream)
{
    const int64_t n = gpu_bench_quick() ? 64 : 8192;
    const gpu_product p = {
        .m = n, .n = n, .k = n, .lda = n, .ldb = n, .ldc = n, .in = in, .out = in};
    const double flop = 2 * (double)n * (double)n * (double)n;
    return flop / gpu_bench_product_time(blas, &p, stream);
}

/* ---- rows ---- */

static inline const char *gpu_bench_type(gpu_type t)
{
    return t == GPU_BF16 ? "bf16" : "f32";
}

/* Of what is given, flop decide: ceiling is in bytes/s or flop/s. */
static inline void gpu_bench_row(const char *name, const char *shape, gpu_type type, double s,
                                 double bytes, double flop, double ceiling)
{
    const double rate = flop > 0 ? flop / s : bytes / s;
    printf("%s,%s,%s,%.9f,%.0f,%.0f,%.3f,%.3f,%.3f,%.4f\n", name, shape, gpu_bench_type(type), s,
           bytes, flop, bytes / s / 1e9, flop / s / 1e12, ceiling / (flop > 0 ? 1e12 : 1e9),
           rate / ceiling);
    fflush(stdout);
}

static inline cudaStream_t gpu_bench_open(gpu_facts *facts)
{
    luo_err err = {0};
    cudaStream_t stream;
    gpu_prepare_environment();
    gpu_bench_done(gpu_open(0, facts, &err), &err);
    gpu_bench_ok(cudaStreamCreate(&stream), "a stream");
    return stream;
}
#endif
