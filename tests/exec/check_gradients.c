/* check_gradients.c: every backward kernel and every gate against difference quotients of its
 * forward kernel, in double precision. L = sum of c_i y_i with random c, so that dL/dy = c; the
 * slope of L at each input cell is taken from five points. Every operation that computes and every
 * gate has a chain of kernels here. */
#include <cblas.h>
#include <math.h>

#include "core/graph/op.h"
#include "exec/bind/kernels.h"
#include "tests/check_main.h"
#include "tests/prop/prop.h"

enum { MOST = 2048, INPUTS = 3, CASES = 25, OPS = 8 };
static const double STEP = 1e-3, RELATIVE = 1e-7;

typedef struct chain {
    luo_rng rng;
    int64_t t, h, n, g, d, v, cut; /* sizes; v is cut in two at `cut` */
    bool flag;
    luo_gate gate;
    double bias[64]; /* of the gate */
    int32_t ints[2][64];
    int ninputs;
    int64_t count[INPUTS], ny;
    double x[INPUTS][MOST], dx[INPUTS][MOST], y[MOST], c[MOST];
} chain;

typedef struct chain_row {
    const char *name;
    void (*make)(chain *c);
    void (*forward)(chain *c);  /* x -> y */
    void (*backward)(chain *c); /* c, x -> dx */
    luo_op_kind ops[OPS];       /* up to the first 0, which is of no kernel */
    int gate;                   /* -1: none */
} chain_row;

static const luo_kernels *const k = &luo_kernels_f64;

static void has(chain *c, int64_t n)
{
    ck_assert(n <= MOST && c->ninputs < INPUTS);
    c->count[c->ninputs++] = n;
}
static int64_t draw(chain *c, int64_t lo, int64_t hi)
{
    return lo + luo_rng_pick(&c->rng, hi - lo + 1);
}

/* ---- linear and bias: x [t x h], w [h x n], b [n] ---- */
static void linear_make(chain *c)
{
    has(c, c->t * c->h), has(c, c->h * c->n), has(c, c->n);
    c->ny = c->t * c->n;
}
static void linear(chain *c)
{
    double xw[MOST];
    k->gemm(false, false, c->t, c->n, c->h, c->x[0], c->h, c->x[1], c->n, false, xw, c->n);
    k->bias(c->t, c->n, xw, c->x[2], c->y);
}
static void linear_dx(chain *c)
{
    k->gemm(false, true, c->t, c->h, c->n, c->c, c->n, c->x[1], c->n, false, c->dx[0], c->h);
    k->gemm(true, false, c->h, c->n, c->t, c->x[0], c->h, c->c, c->n, false, c->dx[1], c->n);
    k->bias_dw(c->t, c->n, c->c, false, c->dx[2]);
}

/* ---- embedding: a table [v - 1 x h] of the ids 1..v-1 ---- */
static void embedding_make(chain *c)
{
    has(c, (c->v - 1) * c->h);
    c->ny = c->t * c->h;
    for (int64_t i = 0; i < c->t; i++) c->ints[0][i] = (int32_t)draw(c, 0, c->v);
}
static void embedding(chain *c)
{
    k->embedding(c->t, c->h, 1, c->v, 1.5, c->ints[0], c->x[0], c->y);
}
static void embedding_dx(chain *c)
{
    k->embedding_dw(c->t, c->h, 1, c->v, 1.5, c->ints[0], c->c, false, c->dx[0]);
}

/* ---- norms: flag LayerNorm ---- */
static void norm_make(chain *c)
{
    has(c, c->t * c->h), has(c, c->h);
    if (c->flag) has(c, c->h);
    c->ny = c->t * c->h;
}
static void norm(chain *c)
{
    k->norm(c->t, c->h, 1e-2, 0.5, c->x[0], c->x[1], c->flag ? c->x[2] : NULL, c->y);
}
static void norm_dx(chain *c)
{
    k->norm_dx(c->t, c->h, 1e-2, 0.5, c->flag, c->c, c->x[0], c->x[1], c->dx[0]);
    k->norm_dw(c->t, c->h, 1e-2, c->c, c->x[0], false, c->dx[1], c->flag ? c->dx[2] : NULL);
}

/* ---- rope: by a table, with a factor ---- */
static const double radians[8] = {1, 0.3, 0.07, 0.02, 5e-3, 1e-3, 3e-4, 1e-4};
static const luo_turns by = {1e4, radians, 1.25, 0};
static void rope_make(chain *c)
{
    c->h = 2 * c->d + (c->flag ? c->v : 0); /* elements of a head, of which 2 d turn */
    has(c, c->t * c->n * c->h);
    c->ny = c->count[0];
    for (int64_t i = 0; i < c->t; i++) c->ints[0][i] = (int32_t)draw(c, 0, 5000);
}
static luo_turns turns_of(const chain *c)
{
    luo_turns turns = by;
    turns.turned = c->flag ? 2 * (int)c->d : 0;
    return turns;
}
static void rope(chain *c)
{
    k->rope(c->t, c->n, c->h, turns_of(c), false, c->ints[0], c->x[0], c->y);
}
static void rope_dx(chain *c)
{
    k->rope(c->t, c->n, c->h, turns_of(c), true, c->ints[0], c->c, c->dx[0]);
}

/* ---- positions of latent attention: q and k of n heads, what they share; y: both ---- */
static void latent_make(chain *c)
{
    c->h = 2 * c->d + draw(c, 1, 4); /* elements of a head */
    has(c, c->t * c->n * c->h), has(c, c->t * c->n * (c->h - 2 * c->d)), has(c, c->t * 2 * c->d);
    c->ny = 2 * c->count[0];
    for (int64_t i = 0; i < c->t; i++) c->ints[0][i] = (int32_t)draw(c, 0, 5000);
}
static void latent(chain *c)
{
    k->latent(c->t, c->n, c->h, 2 * c->d, by, c->ints[0], c->x[0], c->x[1], c->x[2], c->y,
              c->y + c->count[0]);
}
static void latent_dx(chain *c)
{
    k->latent_dx(c->t, c->n, c->h, 2 * c->d, by, c->ints[0], c->c, c->c + c->count[0], c->dx[0],
                 c->dx[1], c->dx[2]);
}

/* ---- attention over two documents; flag: causal; h: elements of a value ---- */
static void attention_make(chain *c)
{
    has(c, c->t * c->n * c->d), has(c, c->t * c->g * c->d), has(c, c->t * c->g * c->h);
    c->ny = c->t * c->n * c->h;
    for (int64_t j = 0; j < c->n; j++) c->ints[0][j] = (int32_t)draw(c, 0, c->g - 1);
    c->ints[1][1] = (int32_t)draw(c, 1, c->t - 1), c->ints[1][2] = (int32_t)c->t;
}
static double rows[MOST];
static luo_heads heads_of(const chain *c, int64_t u)
{
    const bool capped = c->v % 2 == 0; /* .. and with a scale of its own */
    const int64_t window = c->flag ? c->t % 4 : 0; /* 0: none */
    return (luo_heads){c->n, c->g, c->d, c->ints[0], c->flag, u, capped ? 0.7 : 0, capped ? 1.5 : 0,
                       window};
}
static void attention_both(chain *c, bool back)
{
    const luo_heads heads = heads_of(c, c->h);
    const luo_documents docs = {2, c->ints[1]};
    void *work = malloc(k->attention_work(c->t, &heads, &docs, back));
    ck_assert_ptr_nonnull(work);
    if (back)
        k->attention_dx(c->t, &heads, &docs, c->c, c->y, rows, c->x[0], c->x[1], c->x[2], c->dx[0],
                        c->dx[1], c->dx[2], work);
    else
        k->attention(c->t, &heads, &docs, c->x[0], c->x[1], c->x[2], c->y, rows, work);
    free(work);
}
static void attention(chain *c)
{
    attention_both(c, false);
}
static void attention_dx(chain *c)
{
    attention(c); /* y and rows at x itself */
    attention_both(c, true);
}

/* ---- the same in blocks, as two devices of a ring have them: cut anywhere ---- */
static void block_make(chain *c)
{
    c->h = c->d;
    attention_make(c);
    c->cut = draw(c, 1, c->t - 1);
}
static void block_pair(chain *c, const luo_runs *runs, int own, int other, bool back)
{
    static double dk[MOST], dv[MOST];
    const luo_heads heads = heads_of(c, 0);
    const int64_t at[3] = {0, c->cut, c->t}, row = c->n * c->d, keys = c->g * c->d;
    const luo_block b = {
        runs, at[own], at[own + 1] - at[own], at[other], at[other + 1] - at[other], other == 0};
    const int64_t q = b.q * row, first = b.k * keys;
    void *work = malloc(k->block_work(&b, &heads, back));
    ck_assert_ptr_nonnull(work);
    if (back)
        k->attention_block_dx(&b, &heads, c->c + q, c->y + q, rows + b.q * c->n, c->x[0] + q,
                              c->x[1] + first, c->x[2] + first, c->dx[0] + q, dk, dv, work);
    else
        k->attention_block(&b, &heads, c->x[0] + q, c->x[1] + first, c->x[2] + first, c->y + q,
                           rows + b.q * c->n, work);
    free(work);
    for (int64_t i = 0; back && i < b.nk * keys; i++) { /* the first device comes first */
        c->dx[1][first + i] = (own ? c->dx[1][first + i] : 0) + dk[i];
        c->dx[2][first + i] = (own ? c->dx[2][first + i] : 0) + dv[i];
    }
}
static void block_both(chain *c, bool back)
{
    const int32_t end = c->ints[1][1];
    const luo_run run[2] = {{0, end, 0, 0}, {end, (int32_t)c->t - end, 1, 0}};
    const luo_runs runs = {2, run};
    for (int own = 0; own < 2; own++)
        for (int other = 0; other < 2; other++) block_pair(c, &runs, own, other, back);
}
static void block(chain *c)
{
    block_both(c, false);
}
static void block_dx(chain *c)
{
    block(c);
    block_both(c, true);
}

/* ---- activations ---- */
static void swiglu_make(chain *c)
{
    has(c, c->t * c->h), has(c, c->t * c->h);
    c->ny = c->t * c->h;
}
static double silu[MOST];
static void swiglu(chain *c)
{
    k->swiglu(c->ny, c->x[0], c->x[1], c->y, silu);
}
static void swiglu_dx(chain *c)
{
    swiglu(c);
    k->swiglu_dx(c->ny, c->c, c->x[0], c->x[1], silu, c->dx[0], c->dx[1]);
}
static void geglu(chain *c)
{
    k->geglu(c->ny, c->x[0], c->x[1], c->y, silu);
}
static void geglu_dx(chain *c)
{
    geglu(c);
    k->geglu_dx(c->ny, c->c, c->x[0], c->x[1], silu, c->dx[0], c->dx[1]);
}
static void gelu_make(chain *c)
{
    has(c, c->t * c->h);
    c->ny = c->t * c->h;
}
static void gelu(chain *c)
{
    k->gelu(c->ny, c->x[0], c->y);
}
static void gelu_dx(chain *c)
{
    k->gelu_dx(c->ny, c->c, c->x[0], c->dx[0]);
}

static void gelu_erf(chain *c)
{
    k->gelu_erf(c->ny, c->x[0], c->y);
}
static void gelu_erf_dx(chain *c)
{
    k->gelu_erf_dx(c->ny, c->c, c->x[0], c->dx[0]);
}
static void relu(chain *c)
{
    k->relu(c->ny, c->x[0], c->y);
}
static void relu_dx(chain *c)
{
    for (int64_t i = 0; i < c->ny; i++) /* away from the bend */
        if (fabs(c->x[0][i]) < 0.05) c->x[0][i] = 0.05;
    k->relu_dx(c->ny, c->c, c->x[0], c->dx[0]);
}

/* ---- sums: each summand has the gradient of the sum ---- */
static void add_make(chain *c)
{
    for (int i = 0; i < 3; i++) has(c, c->t * c->h);
    c->ny = c->t * c->h;
}
static void add(chain *c)
{
    const void *const x[3] = {c->x[0], c->x[1], c->x[2]};
    k->add(c->ny, 3, x, c->y);
}
static void add_dx(chain *c)
{
    for (int i = 0; i < 3; i++) memcpy(c->dx[i], c->c, sizeof(double) * (size_t)c->ny);
}

/* ---- experts: logits [t x E], x [t x h], w [E x h x h]; behind y the loss of the gate ---- */
static int32_t drawn_kind; /* of gate */
static void draw_gate(chain *c)
{
    const int32_t groups = (int32_t)draw(c, 1, 3), each = (int32_t)draw(c, 2, 4);
    luo_gate *g = &c->gate;
    *g = (luo_gate){.kind = (luo_gate_kind)drawn_kind, .experts = groups * each};
    g->k = (int32_t)draw(c, 1, each);
    g->renorm = c->flag;
    switch (g->kind) {
    case LUO_GATE_TOPK:
        g->scale = draw(c, 0, 1) ? 1.5 : 0;
        g->groups = groups;
        g->groups_kept = (int32_t)draw(c, 1, groups);
        break;
    case LUO_GATE_KTOP1:
        g->k = groups;
        break;
    case LUO_GATE_HASH:
    case LUO_GATE_BALANCED:
        g->k = 1;
        break;
    case LUO_GATE_SAM:
        g->groups = groups;
        break;
    case LUO_GATE_SIGMOID:
        g->scale = c->flag ? 2.5 : 0;
        g->groups = groups;
        g->groups_kept = (int32_t)draw(c, 1, groups);
        if (draw(c, 0, 1)) g->bias = c->bias;
        for (int32_t e = 0; e < g->experts; e++) c->bias[e] = luo_rng_normal(&c->rng) / 4;
        break;
    }
    /* neither has all choices of a token any more */
    const bool all = g->kind == LUO_GATE_SAM || g->kind == LUO_GATE_BALANCED;
    if (!all && draw(c, 0, 1)) g->capacity_factor = 0.3 + 0.1 * (double)draw(c, 0, 6);
    ck_assert_int_eq(luo_gate_check(g, NULL), LUO_OK);
}
static void experts_make(chain *c)
{
    draw_gate(c);
    c->h = draw(c, 1, 5);
    has(c, c->t * c->gate.experts), has(c, c->t * c->h), has(c, c->gate.experts * c->h * c->h);
    c->ny = c->t * c->h + 1;
    for (int64_t i = 0; i < c->t; i++) c->ints[0][i] = (int32_t)draw(c, 0, 5000);
}

typedef struct routed {
    double weights[MOST], ids[MOST], p[MOST], load[64], counts[64], rows[MOST], made[MOST];
    double work[1024];
} routed;
static routed r;
static const double *loads(const chain *c)
{
    return c->gate.kind == LUO_GATE_TOPK || c->gate.kind == LUO_GATE_KTOP1 ? r.load : NULL;
}
static void choose(const chain *c)
{
    const int32_t n = c->gate.experts;
    if (c->gate.kind == LUO_GATE_HASH)
        k->route_hash(c->t, &c->gate, c->ints[0], r.ids, r.work);
    else if (c->gate.kind == LUO_GATE_BALANCED)
        k->route_dealt(c->t, n, c->ints[1], c->x[0], r.weights, r.ids, r.p);
    else
        k->route(c->t, &c->gate, c->x[0], NULL, r.weights, r.ids, r.p, r.load, r.work);
}
static const double *weights_of(const chain *c)
{
    return c->gate.kind == LUO_GATE_HASH ? NULL : r.weights;
}
static void experts(chain *c)
{
    const int32_t n = c->gate.experts;
    choose(c);
    k->pack(c->t, c->h, n, c->gate.k, c->x[1], r.ids, r.rows, r.counts, r.work);
    for (int64_t e = 0, at = 0; e < n; at += (int64_t)r.counts[e++] * c->h)
        k->gemm(false, false, (int64_t)r.counts[e], c->h, c->h, r.rows + at, c->h,
                c->x[2] + e * c->h * c->h, c->h, false, r.made + at, c->h);
    k->combine(c->t, c->h, n, c->gate.k, r.made, r.ids, weights_of(c), c->y, r.work);
    const bool judged = c->gate.kind == LUO_GATE_SAM || loads(c);
    c->y[c->ny - 1] = judged ? k->balance(c->t, &c->gate, r.ids, r.p, NULL, loads(c)) : 0;
}
/* Balanced assignment is held: its choices are those of all tokens together. */
static void deal(chain *c)
{
    luo_arena *arena = luo_arena_new(0);
    ck_assert_int_eq(luo_gate_deal(arena, c->t, c->gate.experts, c->x[0], c->ints[1], NULL),
                     LUO_OK);
    c->ints[1][0] = -1; /* a pad */
    luo_arena_free(arena);
}
static void experts_dx(chain *c)
{
    static double dmade[MOST], drows[MOST], dweights[MOST];
    const int32_t n = c->gate.experts, each = c->gate.k;
    if (c->gate.kind == LUO_GATE_BALANCED) deal(c);
    double *const loss = &c->c[c->ny - 1];
    *loss = fabs(*loss);
    experts(c);
    memset(c->dx[0], 0, sizeof(double) * (size_t)c->count[0]);
    k->combine_dx(c->t, c->h, n, each, c->c, r.ids, weights_of(c), r.made, dmade, dweights, r.work);
    for (int64_t e = 0, at = 0; e < n; at += (int64_t)r.counts[e++] * c->h) {
        const int64_t m = (int64_t)r.counts[e], w = e * c->h * c->h;
        k->gemm(false, true, m, c->h, c->h, dmade + at, c->h, c->x[2] + w, c->h, false, drows + at,
                c->h);
        k->gemm(true, false, c->h, c->h, m, r.rows + at, c->h, dmade + at, c->h, false,
                c->dx[2] + w, c->h);
    }
    k->combine(c->t, c->h, n, each, drows, r.ids, NULL, c->dx[1], r.work);
    if (c->gate.kind != LUO_GATE_HASH)
        k->route_dx(c->t, &c->gate, dweights, r.weights, r.ids, r.p, NULL, loads(c), *loss,
                    c->dx[0]);
}

/* ---- the gate of a token: logits [t], x [t x h] ---- */
static void token_gate_make(chain *c)
{
    has(c, c->t), has(c, c->t * c->h);
    c->ny = c->t * c->h;
}
static void token_gate(chain *c)
{
    k->token_gate(c->t, c->h, c->x[0], c->x[1], c->y);
}
static void token_gate_dx(chain *c)
{
    k->token_gate_dx(c->t, c->h, c->c, c->x[0], c->x[1], c->dx[0], c->dx[1]);
}

/* ---- cross-entropy: logits [t x v], whose columns lie on two devices; labels -1 too ---- */
static void entropy_make(chain *c)
{
    has(c, c->t * c->v);
    c->ny = 1;
    c->cut = draw(c, 1, c->v - 1);
    for (int64_t i = 0; i < c->t; i++) c->ints[0][i] = (int32_t)draw(c, -1, c->v - 1);
}
static double sums[64], most[64], part_exp[2][MOST];
static double cap_of(const chain *c)
{
    return c->flag ? 1.5 : 0;
}
static void entropy(chain *c)
{
    double part[2][MOST], max[2][64], sum[2][64], target[2][64], each[64];
    const int64_t width[2] = {c->cut, c->v - c->cut}, lo[2] = {0, c->cut};
    for (int p = 0; p < 2; p++) {
        for (int64_t i = 0; i < c->t; i++)
            memcpy(part[p] + i * width[p], c->x[0] + i * c->v + lo[p],
                   sizeof(double) * (size_t)width[p]);
        k->row_max(c->t, width[p], width[p], part[p], max[p], cap_of(c));
        k->row_target(c->t, width[p], lo[p], part[p], c->ints[0], target[p], cap_of(c));
    }
    for (int64_t i = 0; i < c->t; i++) most[i] = fmax(max[0][i], max[1][i]);
    for (int p = 0; p < 2; p++)
        k->row_sum(c->t, width[p], width[p], part[p], most, sum[p], part_exp[p], cap_of(c));
    for (int64_t i = 0; i < c->t; i++) {
        sums[i] = sum[0][i] + sum[1][i];
        target[0][i] += target[1][i];
    }
    k->loss(c->t, most, sums, target[0], c->ints[0], 1 / (double)c->t, each);
    k->sum(c->t, each, false, c->y);
}
static void entropy_dx(chain *c)
{
    const int64_t width[2] = {c->cut, c->v - c->cut}, lo[2] = {0, c->cut};
    double d[MOST];
    entropy(c);
    for (int p = 0; p < 2; p++) {
        k->loss_dx(c->t, width[p], lo[p], part_exp[p], sums, c->ints[0], c->c[0] / (double)c->t, d,
                   most, cap_of(c));
        for (int64_t i = 0; i < c->t; i++)
            memcpy(c->dx[0] + i * c->v + lo[p], d + i * width[p],
                   sizeof(double) * (size_t)width[p]);
    }
}

static double value(const chain_row *row, chain *c)
{
    double s = 0;
    row->forward(c);
    for (int64_t i = 0; i < c->ny; i++) s += c->c[i] * c->y[i];
    return s;
}
static double value_at(const chain_row *row, chain *c, double *x, double v)
{
    const double before = *x;
    *x = v;
    const double s = value(row, c);
    *x = before;
    return s;
}

static double slope_at(const chain_row *row, chain *c, double *x, double step)
{
    const double near = value_at(row, c, x, *x + step) - value_at(row, c, x, *x - step);
    const double far = value_at(row, c, x, *x + 2 * step) - value_at(row, c, x, *x - 2 * step);
    return (8 * near - far) / (12 * step);
}

typedef struct tally {
    int cases, quotients, near_ties;
    double worst; /* relative error */
} tally;

/* Where a choice changes between the points, quotients of other steps differ. */
static void check_input(const chain_row *row, chain *c, int a, uint64_t seed, tally *t)
{
    double top = 1e-3;
    for (int64_t i = 0; i < c->count[a]; i++) top = fmax(top, fabs(c->dx[a][i]));
    for (int64_t i = 0; i < c->count[a]; i++) {
        double *x = &c->x[a][i];
        const double slope = slope_at(row, c, x, STEP);
        const double error = fabs(slope - c->dx[a][i]) / top;
        t->quotients++;
        if (error <= RELATIVE) {
            t->worst = fmax(t->worst, error);
            continue;
        }
        if (row->gate >= 0 && fabs(slope - slope_at(row, c, x, STEP / 2)) > RELATIVE * top) {
            t->near_ties++;
            continue;
        }
        ck_abort_msg("%s LUO_SEED=%llu LUO_CASES=1: slope at input %d[%lld] is %.12g, the kernel "
                     "says %.12g",
                     row->name, (unsigned long long)seed, a, (long long)i, slope, c->dx[a][i]);
    }
}

#define ROW(name, ...)                                                                             \
    {                                                                                              \
#name, name##_make, name, name##_dx, {__VA_ARGS__ }, -1                                    \
    }
#define geglu_make swiglu_make
#define gelu_erf_make gelu_make
#define relu_make gelu_make
#define ROW_OF_ACTIVATION(name)                                                                    \
    ROW(name, LUO_OP_ACTIVATION, LUO_OP_ACTIVATION_DX, LUO_OP_ROWS_ACTIVATION,                     \
        LUO_OP_ROWS_ACTIVATION_DX)
#define ROW_OF_OPS(name, a, b) ROW(name, LUO_OP_##a, LUO_OP_##b)
#define ROW_OF_GATE(kind, name)                                                                    \
    {name,                                                                                         \
     experts_make,                                                                                 \
     experts,                                                                                      \
     experts_dx,                                                                                   \
     {LUO_OP_ROUTE, LUO_OP_ROUTE_DX, LUO_OP_PACK, LUO_OP_PACK_DX, LUO_OP_COMBINE,                  \
      LUO_OP_COMBINE_DX},                                                                          \
     kind},
static const chain_row chains[] = {ROW(linear, LUO_OP_MATMUL, LUO_OP_MATMUL_DX, LUO_OP_MATMUL_DW,
                                       LUO_OP_BIAS, LUO_OP_BIAS_DW, LUO_OP_GROUPED,
                                       LUO_OP_GROUPED_DX, LUO_OP_GROUPED_DW),
                                   ROW_OF_OPS(embedding, EMBEDDING, EMBEDDING_DW),
                                   ROW(norm, LUO_OP_NORM, LUO_OP_NORM_DX, LUO_OP_NORM_DW),
                                   ROW_OF_OPS(rope, ROPE, ROPE_DX),
                                   ROW_OF_OPS(latent, LATENT, LATENT_DX),
                                   ROW_OF_OPS(attention, ATTENTION, ATTENTION_DX),
                                   ROW_OF_OPS(block, ATTENTION, ATTENTION_DX),
                                   ROW_OF_ACTIVATION(swiglu),
                                   ROW_OF_ACTIVATION(geglu),
                                   ROW_OF_ACTIVATION(gelu),
                                   ROW_OF_ACTIVATION(gelu_erf),
                                   ROW_OF_ACTIVATION(relu),
                                   ROW(add, LUO_OP_ADD),
                                   ROW_OF_OPS(token_gate, TOKEN_GATE, TOKEN_GATE_DX),
                                   ROW(entropy, LUO_OP_ROW_MAX, LUO_OP_ROW_SUM, LUO_OP_ROW_TARGET,
                                       LUO_OP_LOSS, LUO_OP_LOSS_DX, LUO_OP_SUM),
                                   LUO_GATE_LIST(ROW_OF_GATE)};
static tally tallies[LUO_ROWS(chains)];

START_TEST(gradient_is_the_slope)
{
    static chain c;
    const chain_row *row = &chains[_i];
    openblas_set_num_threads(1);
    LUO_PROP_FOR(seed, CASES)
    {
        memset(&c, 0, sizeof c);
        c.rng = luo_rng_seed(seed);
        c.t = draw(&c, 2, 9), c.h = draw(&c, 4, 12), c.n = draw(&c, 1, 4), c.g = draw(&c, 1, c.n);
        c.d = draw(&c, 1, 6), c.v = draw(&c, 2, 15), c.flag = draw(&c, 0, 1) == 1;
        drawn_kind = row->gate;
        row->make(&c);
        for (int a = 0; a < c.ninputs; a++)
            for (int64_t i = 0; i < c.count[a]; i++) {
                c.x[a][i] = luo_rng_normal(&c.rng);
                c.dx[a][i] = (double)NAN;
            }
        for (int64_t i = 0; i < c.ny; i++) c.c[i] = luo_rng_normal(&c.rng);
        row->backward(&c);
        for (int a = 0; a < c.ninputs; a++) check_input(row, &c, a, seed, &tallies[_i]);
        tallies[_i].cases++;
    }
    ck_assert_int_lt(tallies[_i].near_ties * 20, tallies[_i].quotients);
}
END_TEST

/* An operation that computes has an emission of that kind; others communicate, store, or are of the
 * optimizer. */
#define EMIT_compute true
#define EMIT_placeholder false
#define EMIT_state false
#define EMIT_reshard false
#define EMIT_accumulate false
#define EMIT_over_all false
static const bool computes[] = {
#define LUO_OP(kind, name, operands, nin, nout, deduce, gradient, emit, ...) EMIT_##emit,
#include "core/graph/ops.inc"
#undef LUO_OP
};

static bool tally_of_op(luo_op_kind op, tally *out)
{
    *out = (tally){0};
    for (int i = 0; i < LUO_ROWS(chains); i++)
        for (int j = 0; j < OPS && chains[i].ops[j]; j++) {
            if (chains[i].ops[j] != op) continue;
            out->cases += tallies[i].cases;
            out->quotients += tallies[i].quotients;
            out->worst = fmax(out->worst, tallies[i].worst);
        }
    return out->cases > 0;
}

static void print_tally(const char *what, const char *name, const tally *t)
{
    printf("%-9s  %-18s  %5d  %9d  %.1e\n", what, name, t->cases, t->quotients, t->worst);
}

START_TEST(every_operation_and_gate_has_a_chain)
{
    printf("difference quotients of kernels\n%-9s  %-18s  cases  quotients  worst relative error\n",
           "", "");
    for (int i = 0; i < LUO_ROWS(chains); i++)
        print_tally(chains[i].gate < 0 ? "kernels" : "gate", chains[i].name, &tallies[i]);
    for (int op = 0; op < LUO_OP_KINDS; op++) {
        tally t;
        if (!computes[op]) continue;
        ck_assert_msg(tally_of_op((luo_op_kind)op, &t),
                      "operation `%s` has no chain of kernels whose gradients are measured",
                      luo_op_kind_name((luo_op_kind)op));
        print_tally("operation", luo_op_kind_name((luo_op_kind)op), &t);
    }
}
END_TEST

int main(void)
{
    const luo_test_row tests[] = {LUO_T_N(gradient_is_the_slope, LUO_ROWS(chains)),
                                  LUO_T(every_operation_and_gate_has_a_chain)};
    setenv("CK_FORK", "no", 0); /* one test counts what the others have met */
    return luo_run_suite("exec.gradients", tests, LUO_ROWS(tests));
}
