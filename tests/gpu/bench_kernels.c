/* bench_kernels.c: bandwidth of the kernels that memory bounds, over that of a copy.
 *
 * bytes are what has to be read and written once, whatever the kernel does. Operands are of the
 * type of the row; gradients that are added to, exp, sums and the optimizer's numbers are f32. Each
 * buffer is larger than any cache. The sum of losses is not here: one block adds a number a token.
 */
#include "tests/gpu/bench_gpu.h"

enum { BUFFERS = 7 };

typedef struct bench {
    gpu_type type;
    int64_t e;    /* bytes of an element */
    int64_t t, h; /* rows and columns of a buffer of activations; n = t h */
    int64_t n;
    int64_t lt, v;    /* of one of logits */
    void *x[BUFFERS]; /* as large as n or lt v numbers in f32 */
    void *row, *work; /* h numbers; scratch */
    float *stat;      /* per row */
    int32_t *ids, *order, *positions, *labels;
    int64_t distinct; /* ids */
    gpu_step_block *block;
    gpu_step_answer *answer;
    gpu_norm_chunk *norm;
    gpu_update_chunk *update;
    int64_t chunks;
    gpu_copy_segment *segment;
    int32_t segments;
} bench;

static gpu_array at(const bench *b, int i)
{
    return (gpu_array){b->x[i], b->type};
}

static gpu_array sum_at(const bench *b, int i)
{
    return (gpu_array){b->x[i], GPU_F32};
}

static gpu_array row_of(const bench *b)
{
    return (gpu_array){b->row, b->type};
}

/* ---- the kernels ---- */

#define KERNEL(name, call)                                                                         \
    static void name(void *ctx, cudaStream_t s)                                                    \
    {                                                                                              \
        const bench *b = (const bench *)ctx;                                                       \
        gpu_bench_ok((call), #name);                                                               \
    }
static const float EPS = 1e-5f;
static const gpu_array NONE = {NULL, GPU_F32};

KERNEL(bias, gpu_bias(s, b->t, b->h, at(b, 0), row_of(b), at(b, 1)))
KERNEL(bias_dw, gpu_bias_dw(s, b->t, b->h, at(b, 0), true, sum_at(b, 1), b->work))
KERNEL(embedding, gpu_embedding(s, b->t, b->h, 0, b->v, 1, b->ids, at(b, 0), at(b, 1)))
KERNEL(embedding_dw,
       gpu_embedding_dw(s, b->t, b->h, 0, b->v, 1, b->ids, b->order, at(b, 0), true, sum_at(b, 1)))
KERNEL(rms_norm, gpu_norm(s, b->t, b->h, EPS, 0, at(b, 0), row_of(b), NONE, at(b, 1)))
KERNEL(layer_norm, gpu_norm(s, b->t, b->h, EPS, 0, at(b, 0), row_of(b), row_of(b), at(b, 1)))
KERNEL(rms_norm_dx,
       gpu_norm_dx(s, b->t, b->h, EPS, 0, false, at(b, 0), at(b, 1), row_of(b), at(b, 2)))
KERNEL(rms_norm_dw,
       gpu_norm_dw(s, b->t, b->h, EPS, at(b, 0), at(b, 1), true, sum_at(b, 2), NONE, b->work))
static const luo_turns turns = {.base = 1e4};
KERNEL(rope, gpu_rope(s, b->t, b->h / 64, 64, turns, false, b->positions, at(b, 0), at(b, 1)))
KERNEL(swiglu, gpu_swiglu(s, b->n, at(b, 0), at(b, 1), at(b, 2), at(b, 3)))
KERNEL(swiglu_dx,
       gpu_swiglu_dx(s, b->n, at(b, 0), at(b, 1), at(b, 2), at(b, 3), at(b, 4), at(b, 5)))
KERNEL(gelu, gpu_gelu(s, b->n, at(b, 0), at(b, 1)))
KERNEL(gelu_dx, gpu_gelu_dx(s, b->n, at(b, 0), at(b, 1), at(b, 2)))
KERNEL(add, gpu_add(s, b->n, 2, (const gpu_array[]){at(b, 0), at(b, 1)}, at(b, 2)))
KERNEL(accumulate, gpu_add(s, b->n, 2, (const gpu_array[]){sum_at(b, 0), at(b, 1)}, sum_at(b, 0)))
KERNEL(row_max, gpu_row_max(s, b->lt, b->v, b->v, at(b, 0), b->stat, 0))
KERNEL(row_sum, gpu_row_sum(s, b->lt, b->v, b->v, at(b, 0), b->stat, b->work, b->x[1], 0))
KERNEL(loss_dx, gpu_loss_dx(s, b->lt, b->v, 0, b->x[0], b->stat, b->labels, b->block, at(b, 1),
                            NULL, 0))
KERNEL(grad_norm,
       gpu_grad_norm(s, b->chunks, b->norm, GPU_F32, b->block, b->answer, b->work, b->stat))
KERNEL(update, gpu_update(s, b->chunks, b->update, GPU_F32, b->stat, b->block, b->answer))
KERNEL(copy_segments,
       gpu_copy_segments(s, b->segments, b->segment, b->n, (int32_t)b->e, b->x[0], b->x[1]))
KERNEL(convert, gpu_convert(s, b->n, sum_at(b, 0), at(b, 1)))

/* ---- what they run on ---- */

static void *upload(const void *from, size_t bytes)
{
    void *to = gpu_bench_alloc((int64_t)bytes);
    gpu_bench_ok(cudaMemcpy(to, from, bytes, cudaMemcpyHostToDevice), "a copy");
    return to;
}

static void *host(size_t n, size_t size)
{
    void *p = calloc(n + 1, size);
    if (!p) exit(1);
    return p;
}

/* Ids drawn evenly, and their places in order: by counting. */
static void make_ids(bench *b)
{
    int32_t *id = host((size_t)b->t, sizeof *id), *order = host((size_t)b->t, sizeof *order);
    int32_t *first = host((size_t)b->v + 1, sizeof *first);
    uint32_t x = 2463534242u; /* xorshift32, Marsaglia 2003 */
    for (int64_t i = 0; i < b->t; i++) {
        x ^= x << 13, x ^= x >> 17, x ^= x << 5;
        id[i] = (int32_t)(x % (uint32_t)b->v);
        b->distinct += first[id[i] + 1]++ == 0;
    }
    for (int64_t k = 0; k < b->v; k++) first[k + 1] += first[k];
    for (int64_t i = 0; i < b->t; i++) order[first[id[i]]++] = (int32_t)i;
    b->ids = upload(id, (size_t)b->t * sizeof *id);
    b->order = upload(order, (size_t)b->t * sizeof *order);
    for (int64_t i = 0; i < b->t; i++) order[i] = (int32_t)(i % 4096);
    b->positions = upload(order, (size_t)b->t * sizeof *order);
    b->labels = upload(id, (size_t)b->lt * sizeof *id);
    free(id), free(order), free(first);
}

static void make_numbers(bench *b)
{
    const gpu_step_block block = {.scale = 1,
                                  .lr = 1e-4f,
                                  .beta1 = 0.9f,
                                  .beta2 = 0.95f,
                                  .eps = 1e-8f,
                                  .weight_decay = 0.1f,
                                  .correction1 = 0.1f,
                                  .correction2 = 0.05f,
                                  .clip_norm = 1,
                                  .clip_eps = 1e-6f,
                                  .most_squares = 1e30};
    const gpu_step_answer answer = {0};
    b->block = upload(&block, sizeof block);
    b->answer = upload(&answer, sizeof answer);
}

/* A chunk like those of real parameters: gradient, master, m, v, and in bf16 the weight. */
static void make_chunks(bench *b)
{
    b->chunks = b->n / GPU_CHUNK > 0 ? b->n / GPU_CHUNK : 1;
    const int64_t each = b->n < GPU_CHUNK ? b->n : GPU_CHUNK;
    gpu_norm_chunk *norm = host((size_t)b->chunks, sizeof *norm);
    gpu_update_chunk *update = host((size_t)b->chunks, sizeof *update);
    for (int64_t i = 0; i < b->chunks; i++) {
        const int64_t from = i * each;
        norm[i] = (gpu_norm_chunk){(float *)b->x[0] + from, each};
        update[i] =
            (gpu_update_chunk){.grad = (float *)b->x[0] + from,
                               .master = (float *)b->x[1] + from,
                               .m = (float *)b->x[2] + from,
                               .v = (float *)b->x[3] + from,
                               .weight = b->type == GPU_BF16 ? (char *)b->x[4] + from * b->e : NULL,
                               .n = (int32_t)each,
                               .decays = 1};
    }
    b->norm = upload(norm, (size_t)b->chunks * sizeof *norm);
    b->update = upload(update, (size_t)b->chunks * sizeof *update);
    free(norm), free(update);
}

/* A half of every row, as a cut along columns has it: first all left halves. */
static void make_segments(bench *b)
{
    b->segments = (int32_t)(2 * b->t);
    gpu_copy_segment *at_segment = host((size_t)b->segments, sizeof *at_segment);
    const int64_t half = b->h / 2;
    for (int64_t i = 0; i < 2 * b->t; i++)
        at_segment[i] =
            (gpu_copy_segment){i % b->t * b->h + i / b->t * half, i * half, half, i * half};
    b->segment = upload(at_segment, (size_t)b->segments * sizeof *at_segment);
    free(at_segment);
}

static void make(bench *b, gpu_type type)
{
    const bool quick = gpu_bench_quick();
    *b = (bench){.type = type, .e = gpu_elem(type), .h = quick ? 128 : 4096};
    b->v = quick ? 160 : 32000;
    b->t = gpu_bench_bytes() / b->e / b->h;
    b->lt = gpu_bench_bytes() / b->e / b->v;
    b->n = b->t * b->h;
    const int64_t numbers = b->n > b->lt * b->v ? b->n : b->lt * b->v;
    const int64_t table = b->v * b->h; /* of embeddings */
    for (int i = 0; i < BUFFERS; i++)
        b->x[i] = gpu_bench_filled(type, (numbers > table ? numbers : table) * 4 / b->e);
    b->row = gpu_bench_filled(type, b->h);
    size_t work = gpu_columns_work(b->t, 2 * b->h);
    if (work < 8 * (size_t)b->t) work = 8 * (size_t)b->t;
    b->work = gpu_bench_alloc((int64_t)work);
    b->stat = gpu_bench_filled(GPU_F32, b->t > b->lt ? b->t : b->lt);
    make_ids(b);
    make_numbers(b);
    make_chunks(b);
    make_segments(b);
}

/* An update that was given up (a norm that is no number) would be quick. */
static void require_update(const bench *b)
{
    gpu_step_answer a;
    gpu_bench_ok(cudaMemcpy(&a, b->answer, sizeof a, cudaMemcpyDeviceToHost), "a copy");
    if (a.outcome == GPU_UPDATED) return;
    fprintf(stderr, "bench_kernels: the update did nothing, so its time says nothing.\n");
    exit(1);
}

static void give_back(bench *b)
{
    void *all[] = {b->row,    b->work,  b->stat,   b->ids,  b->order,  b->positions,
                   b->labels, b->block, b->answer, b->norm, b->update, b->segment};
    for (int i = 0; i < BUFFERS; i++) gpu_free(b->x[i]);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) gpu_free(all[i]);
}

/* ---- rows ---- */

static void measure_all(const bench *b, cudaStream_t stream, double ceiling)
{
    const double n = (double)b->n, l = (double)(b->lt * b->v), e = (double)b->e;
    const double state = n * (b->type == GPU_BF16 ? 30 : 28); /* read g; m, v, master; weight */
    const struct {
        const char *name;
        gpu_bench_call call;
        double bytes;
        bool logits;
    } rows[] = {{"bias", bias, 2 * n * e, false},
                {"bias_dw", bias_dw, n * e, false},
                {"embedding", embedding, 2 * n * e, false},
                {"embedding_dw", embedding_dw, n * e + 8 * (double)(b->distinct * b->h), false},
                {"rms_norm", rms_norm, 2 * n * e, false},
                {"rms_norm_dx", rms_norm_dx, 3 * n * e, false},
                {"rms_norm_dw", rms_norm_dw, 2 * n * e, false},
                {"layer_norm", layer_norm, 2 * n * e, false},
                {"rope", rope, 2 * n * e, false},
                {"swiglu", swiglu, 4 * n * e, false},
                {"swiglu_dx", swiglu_dx, 6 * n * e, false},
                {"gelu", gelu, 2 * n * e, false},
                {"gelu_dx", gelu_dx, 3 * n * e, false},
                {"add", add, 3 * n * e, false},
                {"accumulate", accumulate, n * (e + 8), false},
                {"row_max", row_max, l * e, true},
                {"row_sum", row_sum, l * (e + 4), true},
                {"loss_dx", loss_dx, l * (e + 4), true},
                {"grad_norm", grad_norm, 4 * n, false},
                {"update", update, state, false},
                {"copy_segments", copy_segments, 2 * n * e, false},
                {"convert", convert, n * (e + 4), false}};
    char shape[64];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        snprintf(shape, sizeof shape, rows[i].logits ? "t=%lld v=%lld" : "t=%lld h=%lld",
                 (long long)(rows[i].logits ? b->lt : b->t),
                 (long long)(rows[i].logits ? b->v : b->h));
        gpu_bench_row(rows[i].name, shape, b->type, gpu_bench_time(rows[i].call, (void *)b, stream),
                      rows[i].bytes, 0, ceiling);
    }
    require_update(b);
}

int main(void)
{
    static const gpu_type types[] = {GPU_BF16, GPU_F32};
    gpu_facts facts;
    bench b;
    const cudaStream_t stream = gpu_bench_open(&facts);
    const double ceiling = gpu_bench_copy_rate(stream);
    puts(GPU_BENCH_HEADER);
    for (int i = 0; i < 2; i++) {
        make(&b, types[i]);
        measure_all(&b, stream, ceiling);
        give_back(&b);
    }
    gpu_bench_ok(cudaStreamDestroy(stream), "a stream");
    return 0;
}
