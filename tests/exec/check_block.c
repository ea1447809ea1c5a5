/* check_block.c: attention of blocks of queries and keys that lie out of order, merged
 * step by step as a ring of devices does it, against numbers worked out by an independent program
 * and against plain attention of the whole. */
#include <math.h>

#include "core/graph/context.h"
#include "exec/bind/kernels.h"
#include "tests/check_main.h"
#include "tests/prop/prop.h"

enum { S = 16, HEADS = 4, KV = 2, D = 2, Q = S * HEADS * D, K = S * KV * D };

static const int32_t kv_of[HEADS] = {0, 0, 1, 1};

typedef struct tensors { /* in the order of the sequence, or reordered */
    double q[Q], k[K], v[K], dout[Q], o[Q], rows[S * HEADS], dq[Q], dk[K], dv[K];
} tensors;

typedef struct setup {
    luo_context x;
    int64_t s;              /* tokens, with pads */
    int32_t docs, start[4]; /* documents, without pads */
    bool causal;
    int64_t window;
    int32_t source[S]; /* place -> token of the sequence */
    luo_run run[S];
    luo_runs runs;
} setup;

static void fill(tensors *t)
{
    for (int i = 0; i < Q; i++) t->q[i] = sin(i + 1), t->dout[i] = cos(2 * i + 1);
    for (int i = 0; i < K; i++) t->k[i] = cos(i + 1), t->v[i] = sin(2 * i + 1);
}

static int32_t document_of(const setup *u, int32_t token)
{
    for (int32_t d = 0; d < u->docs; d++)
        if (token >= u->start[d] && token < u->start[d + 1]) return d;
    return -1;
}

static void order(setup *u)
{
    u->runs = (luo_runs){0, u->run};
    luo_context_order(&u->x, 1, u->s, u->source);
    for (int32_t p = 0; p < u->s; p++) {
        const int32_t token = u->source[p], d = document_of(u, token);
        if (d < 0) continue;
        luo_run *last = u->runs.n ? &u->run[u->runs.n - 1] : NULL;
        if (last && last->document == d && last->at + last->n == p &&
            u->start[d] + last->position + last->n == token)
            last->n++;
        else
            u->run[u->runs.n++] = (luo_run){p, 1, d, token - u->start[d]};
    }
}

/* Rows of `width` from the order of the sequence into that of the ranks, or back. */
static void move(const setup *u, const double *from, double *to, int64_t width, bool back)
{
    for (int32_t p = 0; p < u->s; p++) {
        const int64_t a = (int64_t)u->source[p] * width, b = p * width;
        memcpy(to + (back ? a : b), from + (back ? b : a), (size_t)width * sizeof *to);
    }
}

static luo_block block_of(const setup *u, int32_t q, int32_t k, bool first)
{
    luo_block b = {.runs = &u->runs, .first_keys = first};
    for (int32_t o = 0; o < luo_context_parts(&u->x); o++) {
        const int64_t n = luo_context_part_tokens(&u->x, u->s, o);
        if (o < q) b.q += n;
        if (o < k) b.k += n;
        if (o == q) b.nq = n;
        if (o == k) b.nk = n;
    }
    return b;
}

/* All parts of the ring, each step by step; gradients of a block add up over the parts. */
static void go_round(const setup *u, tensors *t)
{
    const luo_kernels *kernels = &luo_kernels_f64;
    const luo_heads heads = {HEADS, KV, D, kv_of, u->causal, 0, 0, 0, u->window};
    const int32_t parts = luo_context_parts(&u->x);
    double work[4096], dk[K], dv[K];
    memset(t->dk, 0, sizeof t->dk);
    memset(t->dv, 0, sizeof t->dv);
    for (int32_t r = 0; r < parts; r++)
        for (int back = 0; back < 2; back++)
            for (int32_t j = 0; j < parts; j++) {
                const luo_block b = block_of(u, r, (r - j + parts) % parts, j == 0);
                const int64_t q = b.q * HEADS * D, k = b.k * KV * D;
                double *rows = t->rows + b.q * HEADS;
                ck_assert_uint_le(kernels->block_work(&b, &heads, back), sizeof work);
                if (!back) {
                    kernels->attention_block(&b, &heads, t->q + q, t->k + k, t->v + k, t->o + q,
                                             rows, work);
                    continue;
                }
                kernels->attention_block_dx(&b, &heads, t->dout + q, t->o + q, rows, t->q + q,
                                            t->k + k, t->v + k, t->dq + q, dk, dv, work);
                for (int64_t i = 0; i < b.nk * KV * D; i++) {
                    t->dk[k + i] += dk[i];
                    t->dv[k + i] += dv[i];
                }
            }
}

static void run(const setup *u, const tensors *in, tensors *out)
{
    tensors t;
    move(u, in->q, t.q, HEADS * D, false);
    move(u, in->dout, t.dout, HEADS * D, false);
    move(u, in->k, t.k, KV * D, false);
    move(u, in->v, t.v, KV * D, false);
    go_round(u, &t);
    move(u, t.o, out->o, HEADS * D, true);
    move(u, t.dq, out->dq, HEADS * D, true);
    move(u, t.dk, out->dk, KV * D, true);
    move(u, t.dv, out->dv, KV * D, true);
}

static double far(const double *a, const double *b, int64_t n)
{
    double most = 0;
    for (int64_t i = 0; i < n; i++) most = fmax(most, fabs(a[i] - b[i]));
    return most;
}

/* ---- numbers of an independent program: 8 tokens, causal ---- */

static const luo_context paths[] = {
    {1, 1, false, NULL},
    {2, 1, true, NULL},
    {4, 1, true, NULL},
    {2, 1, false, NULL},
    {4, 1, false, NULL},
    {2, 1, true, (const uint32_t[]){3, 1}},
    {2, 1, false, (const uint32_t[]){3, 1}},
    {4, 4, false, NULL},
    {4, 4, true, NULL},
    {2, 2, true, (const uint32_t[]){1, 3}},
    {4, 2, true, NULL},
};

START_TEST(vectors)
{
    static const double o7[2] = {.078567200550, .047058860890},
                        dq7[2] = {-.192144485309, .052273998101},
                        dk0[2] = {.119540761899, -.008692287414},
                        dv0[2] = {.420686692499, .110133781553},
                        packed[2] = {-.499695866525, .478940710301};
    tensors in, out;
    fill(&in);
    setup u = {.x = paths[_i], .s = 8, .docs = 1, .start = {0, 8}, .causal = true};
    order(&u);
    run(&u, &in, &out);
    const int64_t at = 7 * HEADS * D;
    ck_assert_double_lt(far(out.o + at, o7, 2), 6e-13);
    ck_assert_double_lt(far(out.dq + at, dq7, 2), 6e-13);
    ck_assert_double_lt(far(out.dk, dk0, 2), 6e-13);
    ck_assert_double_lt(far(out.dv, dv0, 2), 6e-13);
    u.docs = 2;
    u.start[1] = 5;
    u.start[2] = 8;
    order(&u);
    run(&u, &in, &out);
    ck_assert_double_lt(far(out.o + at, packed, 2), 6e-13);
}
END_TEST

/* ---- plain attention of the whole ---- */

static void plain(const setup *u, const tensors *in, tensors *out)
{
    const luo_heads heads = {HEADS, KV, D, kv_of, u->causal, 0, 0, 0, u->window};
    const luo_documents docs = {u->docs, u->start};
    double work[4096];
    luo_kernels_f64.attention(S, &heads, &docs, in->q, in->k, in->v, out->o, out->rows, work);
    luo_kernels_f64.attention_dx(S, &heads, &docs, in->dout, out->o, out->rows, in->q, in->k, in->v,
                                 out->dq, out->dk, out->dv, work);
}

START_TEST(whole)
{
    double most = 0;
    int rings = 0, both = 0, pads = 0, packed = 0, windows = 0;
    tensors in, want, got;
    fill(&in);
    LUO_PROP_FOR(seed, 400) {
        luo_rng rng = luo_rng_seed(seed);
        uint32_t share[S];
        const int32_t parts = 1 + (int32_t)luo_rng_pick(&rng, 4);
        setup u = {.x = {.inner = 1 + (int32_t)luo_rng_pick(&rng, 2),
                         .zigzag = luo_rng_pick(&rng, 2)},
                   .s = S, .causal = luo_rng_pick(&rng, 3) > 0};
        u.x.c = parts * u.x.inner;
        for (int32_t r = 0; r < u.x.c; r++) share[r] = 1 + (uint32_t)luo_rng_pick(&rng, 2);
        if (luo_rng_pick(&rng, 2)) u.x.share = share;
        if (S % luo_context_multiple(&u.x)) continue;
        u.docs = 1 + (int32_t)luo_rng_pick(&rng, 3);
        for (int32_t d = 1; d <= u.docs; d++)
            u.start[d] = u.start[d - 1] + 1 + (int32_t)luo_rng_pick(&rng, S / u.docs);
        u.window = u.causal && luo_rng_pick(&rng, 2) ? 1 + (int64_t)luo_rng_pick(&rng, 7) : 0;
        order(&u);
        memset(&want, 0, sizeof want);
        plain(&u, &in, &want);
        run(&u, &in, &got);
        most = fmax(most, fmax(far(want.o, got.o, Q), far(want.dq, got.dq, Q)));
        most = fmax(most, fmax(far(want.dk, got.dk, K), far(want.dv, got.dv, K)));
        rings += parts > 1;
        both += u.x.inner > 1;
        pads += u.start[u.docs] < S;
        packed += u.docs > 1;
        windows += u.window > 0 && parts > 1;
    }
    printf("%d rings, %d with windows, %d with exchange, %d with pads, %d packed: differ by %.2g\n",
           rings, windows, both, pads, packed, most);
    ck_assert_double_lt(most, 2e-15);
}
END_TEST

LUO_SUITE("exec.block", LUO_T_N(vectors, LUO_ROWS(paths)), LUO_T(whole))
