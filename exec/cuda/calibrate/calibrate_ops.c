/* calibrate_ops.c: products, attention and streaming kernels of one GPU. Lists begin with
 * what is small. Everything is measured with numbers as steps have them (gpu_fill_normal). */
#include <stdlib.h>

#include "exec/cuda/calibrate/calibrate.h"

/* ---- products ---- */

typedef struct product {
    gpu_blas *blas;
    gpu_product shape;
    gpu_product_plan *plan;
    int64_t bytes; /* of A, B and C */
} product;

static int64_t padded(int64_t bytes)
{
    return (bytes + 255) / 256 * 256;
}

enum { WEIGHTS_IN_1 = 50 }; /* weights are of size 1/50, activations of size 1 */

static luo_status fill_product(gpu_bench *bench, const product *p)
{
    const gpu_product *s = &p->shape;
    char *A = gpu_bench_place(bench, 0, p->bytes), *B = A + padded(s->m * s->k * gpu_elem(s->in));
    LUO_TRY(gpu_fill_normal(A, s->in, s->m * s->k, 1, 1, bench->err));
    LUO_TRY(gpu_fill_normal(B, s->in, s->k * s->n, 1.0 / WEIGHTS_IN_1, 2, bench->err));
    return gpu_bench_spread(bench, p->bytes);
}

static luo_status run_product(gpu_bench *bench, void *what, int64_t turn)
{
    const product *p = what;
    const int64_t e = gpu_elem(p->shape.in);
    char *A = gpu_bench_place(bench, turn, p->bytes);
    char *B = A + padded(p->shape.m * p->shape.k * e);
    char *C = B + padded(p->shape.k * p->shape.n * e);
    return gpu_product_run(p->blas, p->plan, bench->stream, A, B, NULL, NULL, C, bench->err);
}

static luo_status time_product(gpu_bench *bench, gpu_blas *blas, gpu_type type, int64_t m,
                               int64_t n, int64_t k, int32_t place)
{
    const int64_t e = gpu_elem(type);
    double s = 0;
    int32_t samples = 0;
    product p = {.blas = blas,
                 .shape = {.tb = true,
                           .m = m,
                           .n = n,
                           .k = k,
                           .lda = k,
                           .ldb = k,
                           .ldc = n,
                           .in = type,
                           .out = type},
                 .bytes = padded(m * k * e) + padded(k * n * e) + padded(m * n * e)};
    if (p.bytes > bench->slab_bytes) return LUO_OK; /* a GPU of little memory has fewer rows */
    LUO_TRY(gpu_product_find(blas, &p.shape, &p.plan, bench->err));
    LUO_TRY(fill_product(bench, &p));
    LUO_TRY(gpu_bench_time(bench, run_product, &p, &s, &samples));
    gpu_bench_row(bench, "gemm", type, m, n, k, s, samples, place);
    return LUO_OK;
}

/* n and k of h/8, h/4, h and 4 h for h 1024, 4096 and 8192. */
static const int64_t shapes[][2] = {{128, 1024},  {1024, 1024}, {4096, 1024}, {512, 4096},
                                    {1024, 4096}, {4096, 4096}, {8192, 8192}, {16384, 4096}};
static const int64_t rows[] = {16, 128, 1024, 4096, 16384};
enum { SHAPES = sizeof shapes / sizeof *shapes, ROWS = sizeof rows / sizeof *rows };

static luo_status products_of(gpu_bench *bench, gpu_blas *blas, gpu_type type)
{
    int32_t place = 0;
    for (int i = 0; i < ROWS * SHAPES && place < bench->m->networks; i++) {
        if (bench->m->quick && i % 4 != 1) continue;
        const int64_t *s = shapes[i % SHAPES];
        LUO_TRY(time_product(bench, blas, type, rows[i / SHAPES], s[0], s[1], place++));
    }
    return LUO_OK;
}

luo_status gpu_measure_products(gpu_bench *bench)
{
    gpu_blas *blas;
    LUO_TRY(gpu_blas_open(&blas, bench->err));
    luo_status st = LUO_OK;
    if (bench->facts.major >= 8) st = products_of(bench, blas, GPU_BF16);
    if (st == LUO_OK) st = products_of(bench, blas, GPU_F32);
    gpu_blas_close(blas);
    return st;
}

/* ---- attention ---- */

enum { HEADS = 16 };

typedef struct attention {
    int64_t t, bytes;
    gpu_type type;
    gpu_heads heads;
    const int32_t *start_of, *end_of;
    char *work;
    bool backward;
} attention;

/* q, k, v, o and, backward, their gradients: 8 arrays, and the statistics. */
static luo_status run_attention(gpu_bench *bench, void *what, int64_t turn)
{
    const attention *a = what;
    const int64_t one = padded(a->t * a->heads.n * a->heads.d * gpu_elem(a->type));
    char *at = gpu_bench_place(bench, turn, a->bytes);
    gpu_array array[8];
    for (int i = 0; i < 8; i++) array[i] = (gpu_array){at + i * one, a->type};
    float *stats = (float *)(void *)(at + 8 * one);
    const cudaError_t code =
        a->backward ? gpu_attention_dx(bench->stream, a->t, &a->heads, a->start_of, a->end_of,
                                       array[7], array[3], stats, array[0], array[1], array[2],
                                       array[4], array[5], array[6], a->work)
                    : gpu_attention(bench->stream, a->t, &a->heads, a->start_of, a->end_of,
                                    array[0], array[1], array[2], array[3], stats);
    return gpu_check(bench->err, code, "attention");
}

/* Backward: o and the statistics are those of the forward pass. */
static luo_status fill_attention(gpu_bench *bench, const attention *a)
{
    const int64_t n = a->t * a->heads.n * a->heads.d, one = padded(n * gpu_elem(a->type));
    attention forward = *a;
    for (int i = 0; i < 8; i++)
        LUO_TRY(gpu_fill_normal(bench->slab + i * one, a->type, n, 1, (uint64_t)i + 1, bench->err));
    forward.backward = false;
    if (a->backward) LUO_TRY(run_attention(bench, &forward, 0));
    LUO_TRY(gpu_check(bench->err, cudaStreamSynchronize(bench->stream), "attention"));
    return gpu_bench_spread(bench, a->bytes);
}

/* On the device: of every token where its document begins and ends, then which keys a head reads.
 */
typedef struct tables {
    int32_t *host, *device; /* most starts, most ends, then those of heads */
    int64_t most;
} tables;

enum { OF_HEADS = 3 * HEADS + 1 };

static void free_tables(tables *t)
{
    free(t->host);
    gpu_free(t->device);
}

static luo_status make_tables(gpu_bench *bench, tables *t)
{
    const size_t n = 2 * (size_t)t->most + OF_HEADS;
    void *device = NULL;
    t->host = calloc(n, sizeof *t->host);
    if (!t->host) return luo_err_nomem(bench->err);
    LUO_TRY(gpu_alloc((int64_t)(n * sizeof *t->host), "tables of attention", &device, bench->err));
    t->device = device;
    int32_t *heads = t->host + 2 * t->most;
    for (int32_t i = 0; i < HEADS; i++) heads[i] = heads[HEADS + i] = heads[2 * HEADS + i] = i;
    heads[3 * HEADS] = HEADS;
    return LUO_OK;
}

/* One document of so many tokens, heads with keys of their own. */
static luo_status put_tables(gpu_bench *bench, const tables *t, attention *a)
{
    const size_t bytes = (2 * (size_t)t->most + OF_HEADS) * sizeof *t->host;
    for (int64_t i = 0; i < a->t; i++) t->host[t->most + i] = (int32_t)a->t;
    a->start_of = t->device;
    a->end_of = t->device + t->most;
    a->heads.kv_of = t->device + 2 * t->most;
    a->heads.heads_of = a->heads.kv_of + HEADS;
    a->heads.heads_of_first = a->heads.heads_of + HEADS;
    return gpu_check(bench->err, cudaMemcpy(t->device, t->host, bytes, cudaMemcpyHostToDevice),
                     "copying tables");
}

static luo_status time_attention(gpu_bench *bench, const tables *t, attention *a, int32_t place)
{
    const char *op = a->backward ? "attention_backward" : "attention_forward";
    const int64_t elem = gpu_elem(a->type);
    double s = 0;
    int32_t samples = 0;
    void *work = NULL;
    a->bytes = 8 * padded(a->t * HEADS * a->heads.d * elem) + padded(a->t * HEADS * 4);
    if (a->bytes > bench->slab_bytes) return LUO_OK;
    LUO_TRY(put_tables(bench, t, a));
    if (a->backward)
        LUO_TRY(gpu_alloc((int64_t)gpu_attention_dx_work(a->t, &a->heads, a->type), "attention",
                          &work, bench->err));
    a->work = work;
    luo_status st = fill_attention(bench, a);
    if (st == LUO_OK) st = gpu_bench_time(bench, run_attention, a, &s, &samples);
    gpu_free(work);
    if (st == LUO_OK) gpu_bench_row(bench, op, a->type, a->t, HEADS, a->heads.d, s, samples, place);
    return st;
}

/* f32 has no tensor cores to go to: its longer rows would take minutes and nobody trains so. */
static const int64_t tokens[] = {128, 512, 1024, 2048, 4096, 8192, 16384, 32768};
enum { TOKENS = sizeof tokens / sizeof *tokens, TOKENS_F32 = 4 };

static luo_status attention_of(gpu_bench *bench, const tables *t, gpu_type type, int64_t head_size)
{
    const int32_t most = type == GPU_BF16 ? TOKENS : TOKENS_F32;
    int32_t place = 0;
    for (int32_t i = 0; i < most && place < bench->m->networks; i++) {
        if (bench->m->quick && i % 3 != 1) continue;
        for (int back = 0; back < 2; back++) {
            attention a = {.t = tokens[i],
                           .type = type,
                           .heads = {.n = HEADS, .g = HEADS, .d = head_size, .causal = true},
                           .backward = back};
            LUO_TRY(time_attention(bench, t, &a, place));
        }
        place++;
    }
    return LUO_OK;
}

luo_status gpu_measure_attention(gpu_bench *bench)
{
    tables t = {.most = tokens[TOKENS - 1]};
    luo_status st = make_tables(bench, &t);
    if (st == LUO_OK && bench->facts.major >= 8) st = attention_of(bench, &t, GPU_BF16, 128);
    if (st == LUO_OK && bench->facts.major >= 8) st = attention_of(bench, &t, GPU_BF16, 64);
    if (st == LUO_OK) st = attention_of(bench, &t, GPU_F32, 128);
    free_tables(&t);
    return st;
}

/* ---- streaming ---- */

typedef struct streaming {
    int64_t n; /* elements of one array */
    gpu_type type;
    int32_t arrays; /* 3: y = a + b; 2: copied */
} streaming;

static luo_status run_stream(gpu_bench *bench, void *what, int64_t turn)
{
    const streaming *s = what;
    const int64_t one = padded(s->n * gpu_elem(s->type));
    char *at = gpu_bench_place(bench, turn, s->arrays * one);
    const gpu_array x[2] = {{at, s->type}, {at + one, s->type}};
    const gpu_array y = {at + (s->arrays - 1) * one, s->type};
    const cudaError_t code = s->arrays == 3 ? gpu_add(bench->stream, s->n, 2, x, y)
                                            : gpu_convert(bench->stream, s->n, x[0], y);
    return gpu_check(bench->err, code, "a streaming kernel");
}

static luo_status time_stream(gpu_bench *bench, streaming *s, int32_t place)
{
    const int64_t bytes = s->arrays * s->n * gpu_elem(s->type);
    const int64_t all = s->arrays * padded(s->n * gpu_elem(s->type));
    double seconds = 0;
    int32_t samples = 0;
    if (bytes + 1024 > bench->slab_bytes) return LUO_OK;
    LUO_TRY(gpu_fill_normal(bench->slab, s->type, all / gpu_elem(s->type), 1, 1, bench->err));
    LUO_TRY(gpu_bench_spread(bench, all));
    LUO_TRY(gpu_bench_time(bench, run_stream, s, &seconds, &samples));
    gpu_bench_row(bench, "stream", s->type, bytes, 1, 1, seconds, samples, place);
    return LUO_OK;
}

luo_status gpu_measure_streams(gpu_bench *bench)
{
    int32_t place = 0;
    for (int64_t bytes = 1 << 16; bytes <= 1 << 30 && place < bench->m->networks; bytes *= 4)
        for (int i = 0; i < 4; i++) {
            const gpu_type type = i < 2 ? GPU_BF16 : GPU_F32;
            streaming s = {.n = bytes / gpu_elem(type), .type = type, .arrays = 2 + i % 2};
            if (bench->m->quick && i > 0) continue;
            LUO_TRY(time_stream(bench, &s, place++));
        }
    return LUO_OK;
}
