/* bench_attention.c: TFLOP/s of attention, forward and backward, over what a large
 * product reaches on the same device.
 *
 * flop: 2 products of the query-key pairs that see each other forward, 5 backward, as others count
 * (Dao 2023); ours makes 7 backward, since it keeps no scores and sums in a fixed order. bytes are
 * 0: memory does not bound it. In the shape, docs is how many documents of unlike length are
 * packed. */
#include "tests/gpu/bench_gpu.h"

typedef struct row {
    gpu_type type;
    int64_t t, n, g, d;
    int32_t docs;
    bool causal;
} row;

static const row rows[] = {
    {GPU_BF16, 4096, 32, 32, 64, 1, true},   {GPU_BF16, 4096, 32, 8, 64, 1, true},
    {GPU_BF16, 16384, 32, 8, 64, 1, true},   {GPU_BF16, 4096, 16, 16, 128, 1, true},
    {GPU_BF16, 4096, 32, 32, 128, 1, true},  {GPU_BF16, 4096, 32, 8, 128, 1, true},
    {GPU_BF16, 4096, 32, 4, 128, 1, true},   {GPU_BF16, 16384, 16, 16, 128, 1, true},
    {GPU_BF16, 16384, 32, 8, 128, 1, true},  {GPU_BF16, 16384, 32, 8, 64, 12, true},
    {GPU_BF16, 16384, 32, 8, 128, 12, true}, {GPU_BF16, 16384, 32, 8, 128, 100, true},
    {GPU_BF16, 4096, 32, 32, 128, 1, false}, {GPU_BF16, 4096, 16, 16, 80, 1, true},
    {GPU_F32, 4096, 16, 16, 64, 1, true},    {GPU_F32, 4096, 16, 16, 128, 1, true},
};
static const row quick[] = {{GPU_BF16, 150, 2, 1, 64, 3, true},
                            {GPU_BF16, 70, 1, 1, 128, 1, false},
                            {GPU_F32, 40, 1, 1, 24, 2, true}};

typedef struct bench {
    const row *what;
    gpu_heads heads;
    int32_t *start_of, *end_of; /* of the device, as all below */
    void *q, *k, *v, *o, *dout, *dq, *dk, *dv, *work;
    float *stat;
} bench;

static int32_t *on_device(const int32_t *from, int64_t n)
{
    int32_t *to = (int32_t *)gpu_bench_alloc(n * (int64_t)sizeof *to);
    gpu_bench_ok(cudaMemcpy(to, from, (size_t)n * sizeof *to, cudaMemcpyHostToDevice), "a copy");
    return to;
}

/* Lengths grow like 1, 2, 3 ..: many short documents and a few long ones. */
static double cut(bench *x)
{
    const row *w = x->what;
    const int64_t share = (int64_t)w->docs * (w->docs + 1) / 2;
    int32_t *start = (int32_t *)malloc((size_t)w->t * sizeof *start);
    int32_t *end = (int32_t *)malloc((size_t)w->t * sizeof *end);
    double pairs = 0;
    if (!start || !end) exit(1);
    for (int64_t i = 0; i < w->docs; i++) {
        const int64_t from = w->t * (i * (i + 1) / 2) / share;
        const int64_t to = w->t * ((i + 1) * (i + 2) / 2) / share;
        const double n = (double)(to - from);
        for (int64_t j = from; j < to; j++) start[j] = (int32_t)from, end[j] = (int32_t)to;
        pairs += w->causal ? n * (n + 1) / 2 : n * n;
    }
    x->start_of = on_device(start, w->t);
    x->end_of = on_device(end, w->t);
    free(start), free(end);
    return pairs;
}

static void group(bench *x)
{
    enum { MOST = 256 };
    int32_t kv_of[MOST], heads_of[MOST], first[MOST + 1];
    const int64_t n = x->what->n, g = x->what->g;
    for (int32_t j = 0; j < n; j++) kv_of[j] = (int32_t)(j / (n / g)), heads_of[j] = j;
    for (int32_t j = 0; j <= g; j++) first[j] = (int32_t)(j * (n / g));
    x->heads = (gpu_heads){.n = n,
                           .g = g,
                           .d = x->what->d,
                           .kv_of = on_device(kv_of, n),
                           .heads_of = on_device(heads_of, n),
                           .heads_of_first = on_device(first, g + 1),
                           .causal = x->what->causal};
}

static void forward(void *ctx, cudaStream_t stream)
{
    const bench *x = (const bench *)ctx;
    const gpu_type type = x->what->type;
    gpu_bench_ok(gpu_attention(stream, x->what->t, &x->heads, x->start_of, x->end_of,
                               (gpu_array){x->q, type}, (gpu_array){x->k, type},
                               (gpu_array){x->v, type}, (gpu_array){x->o, type}, x->stat),
                 "attention");
}

static void backward(void *ctx, cudaStream_t stream)
{
    const bench *x = (const bench *)ctx;
    const gpu_type type = x->what->type;
    gpu_bench_ok(gpu_attention_dx(stream, x->what->t, &x->heads, x->start_of, x->end_of,
                                  (gpu_array){x->dout, type}, (gpu_array){x->o, type}, x->stat,
                                  (gpu_array){x->q, type}, (gpu_array){x->k, type},
                                  (gpu_array){x->v, type}, (gpu_array){x->dq, type},
                                  (gpu_array){x->dk, type}, (gpu_array){x->dv, type}, x->work),
                 "attention_dx");
}

static void measure(const row *w, double ceiling, cudaStream_t stream)
{
    bench x = {.what = w};
    const int64_t nq = w->t * w->n * w->d, nk = w->t * w->g * w->d, elem = gpu_elem(w->type);
    const double flop = 2 * cut(&x) * (double)(w->n * w->d);
    char shape[96];
    group(&x);
    x.q = gpu_bench_filled(w->type, nq), x.dout = gpu_bench_filled(w->type, nq);
    x.k = gpu_bench_filled(w->type, nk), x.v = gpu_bench_filled(w->type, nk);
    x.o = gpu_bench_alloc(nq * elem), x.dq = gpu_bench_alloc(nq * elem);
    x.dk = gpu_bench_alloc(nk * elem), x.dv = gpu_bench_alloc(nk * elem);
    x.stat = (float *)gpu_bench_alloc(w->t * w->n * (int64_t)sizeof *x.stat);
    x.work = gpu_bench_alloc((int64_t)gpu_attention_dx_work(w->t, &x.heads, w->type));
    snprintf(shape, sizeof shape, "t=%lld n=%lld g=%lld d=%lld docs=%d%s", (long long)w->t,
             (long long)w->n, (long long)w->g, (long long)w->d, w->docs,
             w->causal ? " causal" : "");
    gpu_bench_row("attention", shape, w->type, gpu_bench_time(forward, &x, stream), 0, 2 * flop,
                  ceiling);
    gpu_bench_row("attention_dx", shape, w->type, gpu_bench_time(backward, &x, stream), 0, 5 * flop,
                  ceiling);
    void *const all[] = {x.q,
                         x.dout,
                         x.k,
                         x.v,
                         x.o,
                         x.dq,
                         x.dk,
                         x.dv,
                         x.stat,
                         x.work,
                         x.start_of,
                         x.end_of,
                         (void *)x.heads.kv_of,
                         (void *)x.heads.heads_of,
                         (void *)x.heads.heads_of_first};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) gpu_free(all[i]);
}

int main(void)
{
    gpu_facts facts;
    gpu_blas *blas;
    luo_err err = {0};
    const cudaStream_t stream = gpu_bench_open(&facts);
    gpu_bench_done(gpu_blas_open(&blas, &err), &err);
    const double bf16 = gpu_bench_product_rate(blas, GPU_BF16, stream);
    const double f32 = gpu_bench_product_rate(blas, GPU_F32, stream);
    const bool few = gpu_bench_quick();
    const size_t n = few ? sizeof quick / sizeof *quick : sizeof rows / sizeof *rows;
    puts(GPU_BENCH_HEADER);
    for (size_t i = 0; i < n; i++) {
        const row *w = few ? &quick[i] : &rows[i];
        measure(w, w->type == GPU_BF16 ? bf16 : f32, stream);
    }
    gpu_blas_close(blas);
    gpu_bench_ok(cudaStreamDestroy(stream), "a stream");
    return 0;
}
