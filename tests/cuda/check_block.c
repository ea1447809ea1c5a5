/* check_block.c: attention of a block of queries on a block of keys out of order: who sees whom
 * against all pairs, and the kernels against the host's in f64, from nothing and on top of what
 * other blocks gave.
 *
 * Bounds. f32: 1024 roundings of the largest value, or of 1. bf16: besides 2^-7 of it, since what
 * is merged is rounded to bf16 first. */
#include "core/graph/context.h"
#include "exec/bind/kernels.h"
#include "exec/cuda/context/sights.h"
#include "tests/cuda/gpu_case.h"

enum { MOST_HEADS = 4, MOST_TOKENS = 400 };
enum { Q, K_, V, O, ROWS, DO_, DQ, DK, DV, ARRAYS };

static struct {
    int64_t blocks, pairs, seen, blind, pads, merged, zigzag, halves, windows;
} met;

typedef struct kase {
    gpu_case c;
    luo_micro_batch mb;
    int32_t source[MOST_TOKENS], positions[MOST_TOKENS], order[MOST_TOKENS], room[MOST_TOKENS];
    luo_run run[MOST_TOKENS];
    int64_t rank[5]; /* where the tokens of each rank begin */
    int32_t ranks;
    luo_block b;
    bool causal;
    int64_t window;
    int64_t n, g, d;
    int32_t kv_of[MOST_HEADS], heads_of[MOST_HEADS], heads_of_first[MOST_HEADS + 1];
    int32_t *sights;
    gpu_type type;
    gpu_heads heads;
    gpu_block block;
    gpu_case_array *a[ARRAYS], *work;
} kase;

/* ---- micro-batches ---- */

/* Documents of rows of `tokens`, in the order of the ranks; position by place in the data. */
static void draw_tokens(kase *k)
{
    gpu_case *c = &k->c;
    const luo_context context = {
        .c = (int32_t)gpu_case_draw(c, 2, 4), .inner = 1, .zigzag = gpu_case_coin(c)};
    const int64_t multiple = luo_context_multiple(&context), rows = gpu_case_draw(c, 1, 3);
    const int64_t tokens = gpu_case_draw(c, 1, 100), padded = luo_context_pad(tokens, multiple);
    int32_t position[MOST_TOKENS], n = 0;
    for (int64_t i = 0; i < rows * tokens; i++)
        position[i] = i % tokens == 0 || gpu_case_draw(c, 0, 30) == 0 ? 0 : position[i - 1] + 1;
    luo_context_order(&context, rows, padded, k->source);
    for (int64_t p = 0; p < rows * padded; p++) {
        const int64_t row = k->source[p] / padded, at = k->source[p] % padded;
        k->source[p] = at < tokens ? (int32_t)(row * tokens + at) : -1;
        k->positions[p] = at < tokens ? position[row * tokens + at] : 0;
        met.pads += at >= tokens;
        if (at >= tokens) continue;
        const int32_t document = k->source[p] - k->positions[p];
        luo_run *last = n ? &k->run[n - 1] : NULL;
        if (last && last->document == document && last->at + last->n == p &&
            last->position + last->n == k->positions[p])
            last->n++;
        else
            k->run[n++] = (luo_run){(int32_t)p, 1, document, k->positions[p]};
    }
    for (k->ranks = 0; k->ranks < context.c; k->ranks++)
        k->rank[k->ranks + 1] =
            k->rank[k->ranks] + rows * luo_context_part_tokens(&context, padded, k->ranks);
    met.zigzag += context.zigzag;
    k->mb = (luo_micro_batch){.tokens = rows * padded,
                              .positions = k->positions,
                              .source = k->source,
                              .runs = {n, k->run}};
}

static void draw_part(kase *k, bool any, int64_t *first, int64_t *n)
{
    gpu_case *c = &k->c;
    const int64_t r = gpu_case_draw(c, 0, k->ranks - 1), t = k->mb.tokens;
    *first = any ? gpu_case_draw(c, 0, t - 1) : k->rank[r];
    *n = any ? gpu_case_draw(c, 1, t - *first) : k->rank[r + 1] - k->rank[r];
}

/* any: tokens as they come; else those of a rank, which is what the host's kernels count on: of one
 * document they are the same as another's, or wholly before or behind them. */
static void draw_block(kase *k, bool any)
{
    gpu_case *c = &k->c;
    const int64_t t = k->mb.tokens;
    k->b = (luo_block){.runs = &k->mb.runs, .first_keys = gpu_case_coin(c)};
    draw_part(k, any, &k->b.q, &k->b.nq);
    draw_part(k, any, &k->b.k, &k->b.nk);
    if (gpu_case_draw(c, 0, 3) == 0)
        k->b.q = k->b.k = 0, k->b.nq = k->b.nk = t; /* exchange of heads */
    k->causal = gpu_case_coin(c);
    if (k->causal && gpu_case_coin(c)) k->window = gpu_case_draw(c, 1, 30);
    met.windows += k->window > 0;
    k->sights = calloc((size_t)gpu_sights_values(&k->b), sizeof *k->sights);
    ck_assert_ptr_nonnull(k->sights);
    gpu_sights_order(&k->mb, k->order, k->room);
    gpu_sights_fill(&k->mb, k->order, &k->b, k->causal, k->window, k->sights);
    met.blocks++;
    met.merged += !k->b.first_keys;
}

static void begin(kase *k, const char *name, uint64_t seed, bool any)
{
    memset(k, 0, sizeof *k);
    gpu_case_begin(&k->c, name, seed);
    draw_tokens(k);
    draw_block(k, any);
}

static void end(kase *k)
{
    free(k->sights);
    gpu_case_end(&k->c);
}

/* ---- who sees whom ---- */

static bool sees(const kase *k, int64_t query, int64_t key) /* tokens of the micro-batch */
{
    const int32_t q = k->source[query], x = k->source[key];
    if (q < 0 || x < 0 || q - k->positions[query] != x - k->positions[key]) return false;
    return !k->causal || (x <= q && (k->window == 0 || q - x < k->window));
}

/* A list of all places, each once. */
static void check_places(const int32_t *row, int64_t n)
{
    bool seen[MOST_TOKENS] = {false};
    for (int64_t i = 0; i < n; i++) {
        ck_assert(row[i] >= 0 && row[i] < n && !seen[row[i]]);
        seen[row[i]] = true;
    }
}

static void check_ascends(const int32_t *at, int64_t n, int64_t most)
{
    for (int64_t i = 0; i < n; i++) ck_assert(at[i] >= (i ? at[i - 1] : 0) && at[i] <= most);
}

START_TEST(sights_are_all_pairs)
{
    LUO_PROP_FOR(seed, luo_prop_few(150, 600))
    {
        kase k;
        begin(&k, "sights", seed, true);
        const luo_block *b = &k.b;
        const int32_t *query = k.sights, *key = query + 3 * b->nq;
        check_places(query, b->nq);
        check_places(key, b->nk);
        for (int i = 1; i < 3; i++) {
            check_ascends(query + i * b->nq, b->nq, b->nk);
            check_ascends(key + i * b->nk, b->nk, b->nq);
        }
        for (int64_t i = 0; i < b->nq; i++) {
            int64_t seen = 0;
            for (int64_t j = 0; j < b->nk; j++) {
                const bool want = sees(&k, b->q + query[i], b->k + key[j]);
                const bool from_query = j >= query[b->nq + i] && j < query[2 * b->nq + i];
                const bool from_key = i >= key[b->nk + j] && i < key[2 * b->nk + j];
                ck_assert_msg(want == from_query && want == from_key,
                              "LUO_SEED=%llu LUO_CASES=1: query %lld, key %lld",
                              (unsigned long long)seed, (long long)query[i], (long long)key[j]);
                seen += want;
                met.pairs++;
            }
            met.seen += seen;
            met.blind += seen == 0;
        }
        end(&k);
    }
    ck_assert(met.seen > met.pairs / 50 && met.blind > 0 && met.pads > 0 && met.zigzag > 0 &&
              met.merged > 0 && met.windows > 0);
    printf("%lld blocks: %lld pairs, %lld see each other, %lld queries see nobody, %lld pads\n",
           (long long)met.blocks, (long long)met.pairs, (long long)met.seen, (long long)met.blind,
           (long long)met.pads);
}
END_TEST

/* ---- kernels ---- */

static luo_heads host_heads(const kase *k)
{
    const bool capped = k->b.nk % 2 == 0; /* .. and with a scale of their own */
    return (luo_heads){k->n,           k->g,     k->d, k->kv_of, k->causal, 0, capped ? 0.3 : 0,
                       capped ? 2 : 0, k->window};
}

static void draw_heads(kase *k)
{
    gpu_case *c = &k->c;
    int32_t at = 0;
    k->n = gpu_case_draw(c, 1, MOST_HEADS), k->g = gpu_case_draw(c, 1, k->n);
    k->d = gpu_case_coin(c) ? 8 * gpu_case_draw(c, 1, 16) : gpu_case_draw(c, 1, 150);
    k->type = gpu_case_coin(c) ? GPU_F32 : GPU_BF16;
    met.halves += k->type == GPU_BF16;
    for (int64_t j = 0; j < k->n; j++) k->kv_of[j] = (int32_t)gpu_case_draw(c, 0, k->g - 1);
    for (int32_t g = 0; g < k->g; g++) {
        k->heads_of_first[g] = at;
        for (int32_t j = 0; j < k->n; j++)
            if (k->kv_of[j] == g) k->heads_of[at++] = j;
    }
    k->heads_of_first[k->g] = at;
    const int64_t one = (int64_t)sizeof(int32_t);
    k->heads =
        (gpu_heads){.n = k->n,
                    .g = k->g,
                    .d = k->d,
                    .kv_of = gpu_case_bytes(c, one * k->n, k->kv_of)->at,
                    .heads_of = gpu_case_bytes(c, one * k->n, k->heads_of)->at,
                    .heads_of_first = gpu_case_bytes(c, one * (k->g + 1), k->heads_of_first)->at,
                    .causal = k->causal,
                    .scale = host_heads(k).scale,
                    .softcap = host_heads(k).softcap};
    k->block = (gpu_block){k->b.nq, k->b.nk, k->b.first_keys,
                           gpu_case_bytes(c, one * gpu_sights_values(&k->b), k->sights)->at};
}

static double *room(int64_t n, const double *of)
{
    double *p = calloc((size_t)n + 1, sizeof *p);
    ck_assert_ptr_nonnull(p);
    if (of) memcpy(p, of, (size_t)n * sizeof *p);
    return p;
}

static void check(kase *k, int which, const double *want)
{
    gpu_case_check(&k->c, k->a[which], want, NULL,
                   k->type == GPU_BF16 && which != ROWS ? 0x1p17 + 1024 : 1024);
}

static cudaError_t forward_call(void *ctx, cudaStream_t s)
{
    kase *k = ctx;
    return gpu_attention_block(s, &k->block, &k->heads, gpu_case_arg(k->a[Q]),
                               gpu_case_arg(k->a[K_]), gpu_case_arg(k->a[V]), gpu_case_arg(k->a[O]),
                               k->a[ROWS]->at, k->work->at);
}

static void make_inputs(kase *k)
{
    gpu_case *c = &k->c;
    k->a[Q] = gpu_case_in(c, k->type, k->b.nq * k->n * k->d, 2);
    k->a[K_] = gpu_case_in(c, k->type, k->b.nk * k->g * k->d, 1.5);
    k->a[V] = gpu_case_in(c, k->type, k->b.nk * k->g * k->d, 1);
}

static void *host_work(const kase *k, const luo_heads *h, bool back)
{
    void *work = malloc(luo_kernels_f64.block_work(&k->b, h, back));
    ck_assert_ptr_nonnull(work);
    return work;
}

static void forward(kase *k)
{
    draw_heads(k);
    make_inputs(k);
    k->a[O] = gpu_case_out(&k->c, k->type, k->b.nq * k->n * k->d, !k->b.first_keys);
    k->a[ROWS] = gpu_case_out(&k->c, GPU_F32, k->b.nq * k->n, !k->b.first_keys);
    for (int64_t i = 0; !k->b.first_keys && i < k->a[ROWS]->n; i++)
        if (gpu_case_draw(&k->c, 0, 3) == 0) { /* saw nobody so far */
            gpu_case_set(k->a[ROWS], i, -INFINITY);
            for (int64_t e = 0; e < k->d; e++) gpu_case_set(k->a[O], i * k->d + e, 0);
        }
    k->work = gpu_case_work(&k->c, gpu_attention_block_work(&k->block, &k->heads, k->type, false));
    gpu_case_run(&k->c, forward_call, k);

    const luo_heads h = host_heads(k);
    double *o = room(k->a[O]->n, k->b.first_keys ? NULL : k->a[O]->x);
    double *rows = room(k->a[ROWS]->n, k->b.first_keys ? NULL : k->a[ROWS]->x);
    void *work = host_work(k, &h, false);
    luo_kernels_f64.attention_block(&k->b, &h, k->a[Q]->x, k->a[K_]->x, k->a[V]->x, o, rows, work);
    check(k, O, o);
    check(k, ROWS, rows);
    free(o), free(rows), free(work);
}

static cudaError_t backward_call(void *ctx, cudaStream_t s)
{
    kase *k = ctx;
    return gpu_attention_block_dx(
        s, &k->block, &k->heads, gpu_case_arg(k->a[DO_]), gpu_case_arg(k->a[O]), k->a[ROWS]->at,
        gpu_case_arg(k->a[Q]), gpu_case_arg(k->a[K_]), gpu_case_arg(k->a[V]),
        gpu_case_arg(k->a[DQ]), gpu_case_arg(k->a[DK]), gpu_case_arg(k->a[DV]), k->work->at);
}

/* o and rows as these keys alone give them. */
static void make_results(kase *k, const luo_heads *h)
{
    luo_block alone = k->b;
    double *o = room(k->b.nq * k->n * k->d, NULL), *rows = room(k->b.nq * k->n, NULL);
    void *work = host_work(k, h, false);
    alone.first_keys = true;
    luo_kernels_f64.attention_block(&alone, h, k->a[Q]->x, k->a[K_]->x, k->a[V]->x, o, rows, work);
    k->a[O] = gpu_case_in(&k->c, k->type, k->b.nq * k->n * k->d, 1);
    k->a[ROWS] = gpu_case_in(&k->c, GPU_F32, k->b.nq * k->n, 1);
    for (int64_t i = 0; i < k->a[O]->n; i++) gpu_case_set(k->a[O], i, o[i]);
    for (int64_t i = 0; i < k->a[ROWS]->n; i++) gpu_case_set(k->a[ROWS], i, rows[i]);
    free(o), free(rows), free(work);
}

static void backward(kase *k)
{
    draw_heads(k);
    make_inputs(k);
    const luo_heads h = host_heads(k);
    make_results(k, &h);
    k->a[DO_] = gpu_case_in(&k->c, k->type, k->b.nq * k->n * k->d, 1);
    k->a[DQ] = gpu_case_out(&k->c, k->type, k->b.nq * k->n * k->d, !k->b.first_keys);
    k->a[DK] = gpu_case_out(&k->c, k->type, k->b.nk * k->g * k->d, false);
    k->a[DV] = gpu_case_out(&k->c, k->type, k->b.nk * k->g * k->d, false);
    k->work = gpu_case_work(&k->c, gpu_attention_block_work(&k->block, &k->heads, k->type, true));
    gpu_case_run(&k->c, backward_call, k);

    double *dq = room(k->a[DQ]->n, k->b.first_keys ? NULL : k->a[DQ]->x);
    double *dk = room(k->a[DK]->n, NULL), *dv = room(k->a[DV]->n, NULL);
    void *work = host_work(k, &h, true);
    luo_kernels_f64.attention_block_dx(&k->b, &h, k->a[DO_]->x, k->a[O]->x, k->a[ROWS]->x,
                                       k->a[Q]->x, k->a[K_]->x, k->a[V]->x, dq, dk, dv, work);
    check(k, DQ, dq);
    check(k, DK, dk);
    check(k, DV, dv);
    free(dq), free(dk), free(dv), free(work);
}

START_TEST(kernels_are_the_twin)
{
    const uint64_t first = luo_prop_first();
    const uint64_t cases = luo_prop_env("LUO_CASES", luo_prop_few(20, 120));
    printf("seeds %llu..%llu\n", (unsigned long long)first,
           (unsigned long long)(first + cases - 1));
    for (uint64_t seed = first; seed < first + cases; seed++) {
        kase k;
        begin(&k, _i ? "backward" : "forward", seed, false);
        (_i ? backward : forward)(&k);
        end(&k);
    }
    ck_assert(cases < 10 || (met.merged > 0 && met.halves > 0));
}
END_TEST

LUO_SUITE("cuda.block", LUO_T(sights_are_all_pairs), LUO_T_N(kernels_are_the_twin, 2))
