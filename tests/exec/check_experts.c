/* check_experts.c: a layer of experts by the kernels of host: the vector V-M2, and random layers
 * against a twin that knows no rows: every token goes through its experts one after the other. */
#include <math.h>

#include "core/base/rng.h"
#include "exec/bind/kernels.h"
#include "tests/check_main.h"
#include "tests/parked/gate_route.h"

enum { TOKENS = 12, EXPERTS = 6, WIDE = 5, WORK = 8 * (5 * EXPERTS + EXPERTS + 4) };

static const luo_kernels *const k = &luo_kernels_f64;

typedef struct layer {
    int64_t t, h, f;
    int32_t experts, each;
    double logits[TOKENS * EXPERTS], x[TOKENS * WIDE], dy[TOKENS * WIDE];
    double w[3][EXPERTS * WIDE * WIDE]; /* gate, up, down [e x f x h] */
    /* what comes out */
    double y[TOKENS * WIDE], dlogits[TOKENS * EXPERTS], dx[TOKENS * WIDE];
    double dw[3][EXPERTS * WIDE * WIDE];
} layer;

typedef struct rows { /* of all experts, one behind the other */
    double x[TOKENS * EXPERTS * WIDE], gate[TOKENS * EXPERTS * WIDE], up[TOKENS * EXPERTS * WIDE];
    double a[TOKENS * EXPERTS * WIDE], silu[TOKENS * EXPERTS * WIDE], y[TOKENS * EXPERTS * WIDE];
} rows;

/* ---- by kernels ---- */

static void experts_forward(const layer *l, const double *counts, rows *r)
{
    int64_t at = 0;
    for (int32_t e = 0; e < l->experts; e++) {
        const int64_t n = (int64_t)counts[e], w = e * l->f * l->h;
        k->gemm(false, true, n, l->f, l->h, r->x + at * l->h, l->h, l->w[0] + w, l->h, false,
                r->gate + at * l->f, l->f);
        k->gemm(false, true, n, l->f, l->h, r->x + at * l->h, l->h, l->w[1] + w, l->h, false,
                r->up + at * l->f, l->f);
        k->swiglu(n * l->f, r->gate + at * l->f, r->up + at * l->f, r->a + at * l->f,
                  r->silu + at * l->f);
        k->gemm(false, false, n, l->h, l->f, r->a + at * l->f, l->f, l->w[2] + w, l->h, false,
                r->y + at * l->h, l->h);
        at += n;
    }
}

static void experts_backward(layer *l, const double *counts, const rows *r, rows *d)
{
    int64_t at = 0;
    for (int32_t e = 0; e < l->experts; e++) {
        const int64_t n = (int64_t)counts[e], w = e * l->f * l->h;
        const int64_t f = at * l->f, h = at * l->h;
        k->gemm(false, true, n, l->f, l->h, d->y + h, l->h, l->w[2] + w, l->h, false, d->a + f,
                l->f);
        k->gemm(true, false, l->f, l->h, n, r->a + f, l->f, d->y + h, l->h, false, l->dw[2] + w,
                l->h);
        k->swiglu_dx(n * l->f, d->a + f, r->gate + f, r->up + f, r->silu + f, d->gate + f,
                     d->up + f);
        k->gemm(false, false, n, l->h, l->f, d->gate + f, l->f, l->w[0] + w, l->h, false, d->x + h,
                l->h);
        k->gemm(false, false, n, l->h, l->f, d->up + f, l->f, l->w[1] + w, l->h, true, d->x + h,
                l->h);
        k->gemm(true, false, l->f, l->h, n, d->gate + f, l->f, r->x + h, l->h, false, l->dw[0] + w,
                l->h);
        k->gemm(true, false, l->f, l->h, n, d->up + f, l->f, r->x + h, l->h, false, l->dw[1] + w,
                l->h);
        at += n;
    }
}

static void by_kernels(layer *l)
{
    static rows r, d;
    const luo_gate gate = {.kind = LUO_GATE_TOPK, .experts = l->experts, .k = l->each};
    double weights[TOKENS * EXPERTS], ids[TOKENS * EXPERTS], p[TOKENS * EXPERTS];
    double counts[EXPERTS], dweights[TOKENS * EXPERTS], work[WORK];
    k->route(l->t, &gate, l->logits, NULL, weights, ids, p, NULL, work);
    k->pack(l->t, l->h, l->experts, l->each, l->x, ids, r.x, counts, work);
    experts_forward(l, counts, &r);
    k->combine(l->t, l->h, l->experts, l->each, r.y, ids, weights, l->y, work);
    k->combine_dx(l->t, l->h, l->experts, l->each, l->dy, ids, weights, r.y, d.y, dweights, work);
    experts_backward(l, counts, &r, &d);
    k->combine(l->t, l->h, l->experts, l->each, d.x, ids, NULL, l->dx, work);
    k->route_dx(l->t, &gate, dweights, weights, ids, p, NULL, NULL, 0, l->dlogits);
}

/* ---- token by token, gradients by the chain rule on paper ---- */

static void one_expert(const layer *l, int32_t e, const double *x, const double *dy, double weight,
                       layer *out, double *y, double *dx, double *dweight)
{
    for (int64_t f = 0; f < l->f; f++) {
        const int64_t at = (e * l->f + f) * l->h;
        double g = 0, u = 0, da = 0;
        for (int64_t h = 0; h < l->h; h++) {
            g += l->w[0][at + h] * x[h];
            u += l->w[1][at + h] * x[h];
            da += l->w[2][at + h] * dy[h];
        }
        const double s = 1 / (1 + exp(-g)), a = g * s * u;
        const double dg = weight * da * u * (s + g * s * (1 - s)), du = weight * da * g * s;
        *dweight += a * da;
        for (int64_t h = 0; h < l->h; h++) {
            y[h] += weight * a * l->w[2][at + h];
            dx[h] += dg * l->w[0][at + h] + du * l->w[1][at + h];
            out->dw[0][at + h] += dg * x[h];
            out->dw[1][at + h] += du * x[h];
            out->dw[2][at + h] += weight * a * dy[h];
        }
    }
}

static void twin(const layer *l, layer *out)
{
    *out = (layer){.t = l->t};
    for (int64_t t = 0; t < l->t; t++) {
        const double *logits = l->logits + t * l->experts;
        double p[EXPERTS], dp[EXPERTS] = {0}, sum = 0, mean = 0;
        bool chosen[EXPERTS] = {false};
        for (int32_t e = 0; e < l->experts; e++) sum += p[e] = exp(logits[e]);
        for (int32_t e = 0; e < l->experts; e++) p[e] /= sum;
        for (int32_t j = 0; j < l->each; j++) {
            int32_t best = -1;
            for (int32_t e = 0; e < l->experts; e++)
                if (!chosen[e] && (best < 0 || p[e] > p[best])) best = e;
            chosen[best] = true;
            one_expert(l, best, l->x + t * l->h, l->dy + t * l->h, p[best], out, out->y + t * l->h,
                       out->dx + t * l->h, &dp[best]);
        }
        for (int32_t e = 0; e < l->experts; e++) mean += p[e] * dp[e];
        for (int32_t e = 0; e < l->experts; e++)
            out->dlogits[t * l->experts + e] = p[e] * (dp[e] - mean);
    }
}

/* ---- tests ---- */

START_TEST(vector)
{
    static const double logits[24] = {2, 1, 0, 0, 2, 0, 1, 0, 2, 1, 0, -1,
                                      0, 2, 1, 0, 2, 0, 0, 1, 0, 0, 2, 1};
    static layer l;
    l = (layer){.t = 6, .h = 2, .f = 2, .experts = 4, .each = 2};
    for (int i = 0; i < 24; i++) l.logits[i] = logits[i];
    for (int i = 0; i < 12; i++) l.x[i] = sin(i + 1), l.dy[i] = cos(2 * i + 1);
    for (int m = 0; m < 3; m++)
        for (int i = 0; i < 16; i++) l.w[m][i] = cos((m + 1) * (i + 1)) / 2;
    by_kernels(&l);
    ck_assert(fabs(l.y[0] - .027168934277) < 1e-12 && fabs(l.y[1] + .024838794767) < 1e-12);
    ck_assert(fabs(l.dlogits[0] - .012308631098) < 1e-12);
    ck_assert(fabs(l.dlogits[3] + .003243459340) < 1e-12);
    ck_assert(fabs(l.dw[0][0] - .072061042374) < 1e-12);
}
END_TEST

static void alike(const char *what, const double *a, const double *b, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        ck_assert_msg(fabs(a[i] - b[i]) < 1e-12, "%s[%d]: %.15g, twin %.15g", what, (int)i, a[i],
                      b[i]);
}

START_TEST(random_layers)
{
    static layer l, want;
    luo_rng rng = luo_rng_seed((uint64_t)_i);
    l = (layer){.t = luo_rng_pick(&rng, TOKENS + 1),
                .h = 1 + luo_rng_pick(&rng, WIDE),
                .f = 1 + luo_rng_pick(&rng, WIDE),
                .experts = 1 + (int32_t)luo_rng_pick(&rng, EXPERTS)};
    l.each = 1 + (int32_t)luo_rng_pick(&rng, l.experts);
    const int64_t wide = l.experts * l.f * l.h;
    for (int64_t i = 0; i < l.t * l.experts; i++) l.logits[i] = luo_rng_normal(&rng);
    for (int64_t i = 0; i < l.t * l.h; i++)
        l.x[i] = luo_rng_normal(&rng), l.dy[i] = luo_rng_normal(&rng);
    for (int m = 0; m < 3; m++)
        for (int64_t i = 0; i < wide; i++) l.w[m][i] = luo_rng_normal(&rng);
    by_kernels(&l);
    twin(&l, &want);
    alike("y", l.y, want.y, l.t * l.h);
    alike("dx", l.dx, want.dx, l.t * l.h);
    alike("dlogits", l.dlogits, want.dlogits, l.t * l.experts);
    for (int m = 0; m < 3; m++) alike("dw", l.dw[m], want.dw[m], wide);
}
END_TEST

enum { BALANCED = 7 }; /* the tokens of V-M1, and one that may be a pad */

/* The loss of unbalanced experts without its weight, as written, and its slope. */
static double balance_of(int tokens, const unsigned char *pad, const double *logits,
                         double *dlogits)
{
    const luo_gate gate = {.experts = 4, .k = 2};
    const double none[2 * BALANCED] = {0};
    double weights[2 * BALANCED], ids[2 * BALANCED], p[4 * BALANCED], load[4], work[WORK];
    double loss = 0, n = 0;
    k->route(tokens, &gate, logits, pad, weights, ids, p, load, work);
    for (int i = 0; i < tokens; i++) n += !(pad && pad[i]);
    for (int i = 0; i < 4 * tokens; i++)
        if (!(pad && pad[i / 4])) loss += 4 * p[i] / n * load[i % 4] / n;
    ck_assert(fabs(4 / (n * n) * k->balance(tokens, &gate, ids, p, pad, load) - loss) < 1e-14);
    if (dlogits) k->route_dx(tokens, &gate, none, weights, ids, p, pad, load, 4 / (n * n), dlogits);
    return loss;
}

START_TEST(balance)
{
    double logits[24] = {2, 1, 0, 0, 2, 0, 1, 0, 2, 1, 0, -1, 0, 2, 1, 0, 2, 0, 0, 1, 0, 0, 2, 1};
    double slope[24];
    ck_assert(fabs(balance_of(6, NULL, logits, slope) - 2.212346411) < 1e-9);
    for (int i = 0; i < 24; i++) {
        const double was = logits[i], h = 1e-6;
        logits[i] = was + h;
        const double up = balance_of(6, NULL, logits, NULL);
        logits[i] = was - h;
        const double down = balance_of(6, NULL, logits, NULL);
        logits[i] = was;
        if (fabs(up - down) > .01) continue; /* another choice: ties */
        ck_assert_msg(fabs(slope[i] - (up - down) / (2 * h)) < 1e-8, "%d: %.9g, measured %.9g", i,
                      slope[i], (up - down) / (2 * h));
    }
}
END_TEST

/* Gates of core, which look at all tokens in double and know nothing of kernels. */
START_TEST(gates_as_in_core)
{
    static const luo_gate gates[] = {
        {.kind = LUO_GATE_TOPK, .experts = 12, .k = 3, .renorm = true},
        {.kind = LUO_GATE_KTOP1, .experts = 12, .k = 3},
        {.kind = LUO_GATE_SAM, .experts = 12, .k = 2, .groups = 4},
        {.kind = LUO_GATE_SAM, .experts = 12, .k = 6, .groups = 2},
    };
    enum { T = 20, E = 12, K = 6 };
    const luo_gate *gate = &gates[_i];
    double logits[T * E], weights[T * K], ids[T * K], p[T * E], load[E], work[WORK];
    luo_arena *a = luo_arena_new(0);
    luo_rng rng = luo_rng_seed(5);
    luo_gate_routes want;
    for (int i = 0; i < T * E; i++) logits[i] = luo_rng_normal(&rng);
    ck_assert_int_eq(luo_gate_route(a, gate, T, logits, NULL, &want, NULL), LUO_OK);
    k->route(T, gate, logits, NULL, weights, ids, p, load, work);
    for (int i = 0; i < T * gate->k; i++)
        ck_assert((int32_t)ids[i] == want.expert[i] && weights[i] == want.weight[i]);
    const bool sam = gate->kind == LUO_GATE_SAM;
    const int each = gate->kind == LUO_GATE_KTOP1 ? E / gate->k : E;
    const double loss = k->balance(T, gate, ids, p, NULL, sam ? NULL : load);
    ck_assert(want.loss > 0 && fabs((sam ? 1 : each / (double)(T * T)) * loss - want.loss) < 1e-13);
    luo_arena_free(a);
}
END_TEST

/* By the ids of tokens alone, with and without capacity; rows come back as they went. */
START_TEST(hash)
{
    enum { T = 20, E = 7, H = 2 };
    const luo_gate gate = {
        .kind = LUO_GATE_HASH, .experts = E, .k = 1, .capacity_factor = _i ? 0.5 : 0};
    int32_t tokens[T];
    double ids[T], x[T * H], sent[T * H], y[T * H], counts[E], work[WORK];
    luo_arena *a = luo_arena_new(0);
    luo_gate_routes want;
    int dropped = 0;
    for (int i = 0; i < T; i++) tokens[i] = i % 11 * 1000;
    for (int i = 0; i < T * H; i++) x[i] = i + 1;
    ck_assert_int_eq(luo_gate_route(a, &gate, T, NULL, tokens, &want, NULL), LUO_OK);
    k->route_hash(T, &gate, tokens, ids, work);
    for (int i = 0; i < T; i++) {
        const bool drops = luo_gate_drops(&want, i);
        ck_assert((int32_t)ids[i] == (drops ? -1 - want.expert[i] : want.expert[i]));
        dropped += drops;
    }
    ck_assert((dropped > 0) == (_i > 0));
    k->combine_dx(T, H, E, 1, x, ids, NULL, NULL, sent, NULL, work);
    k->combine(T, H, E, 1, sent, ids, NULL, y, work);
    for (int i = 0; i < T * H; i++) ck_assert(y[i] == (ids[i / H] < 0 ? 0 : x[i]));
    k->pack(T, H, E, 1, x, ids, y, counts, work);
    ck_assert(memcmp(sent, y, (size_t)(T - dropped) * H * sizeof *y) == 0);
    luo_arena_free(a);
}
END_TEST

/* Weights and choices of tokens that were dealt are those of core; a pad has neither. */
START_TEST(dealt)
{
    enum { T = 12, E = 4 };
    const luo_gate gate = {.kind = LUO_GATE_BALANCED, .experts = E, .k = 1};
    double logits[(T + 1) * E], weights[T + 1], ids[T + 1], p[(T + 1) * E];
    int32_t expert[T + 1] = {[T] = -1};
    luo_arena *a = luo_arena_new(0);
    luo_rng rng = luo_rng_seed(7);
    luo_gate_routes want;
    int each[E] = {0};
    for (int i = 0; i < (T + 1) * E; i++) logits[i] = luo_rng_normal(&rng);
    ck_assert_int_eq(luo_gate_route(a, &gate, T, logits, NULL, &want, NULL), LUO_OK);
    ck_assert_int_eq(luo_gate_deal(a, T, E, logits, expert, NULL), LUO_OK);
    k->route_dealt(T + 1, E, expert, logits, weights, ids, p);
    for (int i = 0; i < T; i++) {
        ck_assert((int32_t)ids[i] == want.expert[i] && fabs(weights[i] - want.weight[i]) < 1e-15);
        ck_assert(fabs(weights[i] - 1 / (1 + exp(-logits[i * E + (int)ids[i]]))) < 1e-15);
        each[(int)ids[i]]++;
    }
    for (int e = 0; e < E; e++) ck_assert_int_eq(each[e], T / E);
    ck_assert(ids[T] == -1 && weights[T] == 0);
    luo_arena_free(a);
}
END_TEST

/* A token that is no data changes nothing for the others, wherever it stands. */
START_TEST(balance_without_pads)
{
    static const double data[6][4] = {{2, 1, 0, 0}, {2, 0, 1, 0}, {2, 1, 0, -1},
                                      {0, 2, 1, 0}, {2, 0, 0, 1}, {0, 0, 2, 1}};
    double bare[24], padded[4 * BALANCED], slope[24], got[4 * BALANCED];
    memcpy(bare, data, sizeof bare);
    const double want = balance_of(6, NULL, bare, slope);
    for (int at = 0; at < BALANCED; at++) {
        unsigned char pad[BALANCED] = {0};
        pad[at] = 1;
        for (int i = 0; i < 4 * BALANCED; i++)
            padded[i] = i / 4 == at ? 3 - i % 4 : bare[i - (i / 4 > at) * 4];
        ck_assert(fabs(balance_of(BALANCED, pad, padded, got) - want) < 1e-14);
        for (int i = 0; i < 4 * BALANCED; i++)
            ck_assert(got[i] == (i / 4 == at ? 0 : slope[i - (i / 4 > at) * 4]));
    }
}
END_TEST

/* Dropped choices have no row and give nothing. */
START_TEST(capacity)
{
    static const double logits[6] = {1, 0, 1, 0, 1, 0}, x[3] = {1, 2, 4};
    const luo_gate gate = {.experts = 2, .k = 1, .capacity_factor = 1};
    /* a choice behind the last: somebody else's */
    double weights[4] = {[3] = 7}, ids[4] = {[3] = 0}, p[6], counts[2], packed[3], y[3], work[WORK];
    k->route(3, &gate, logits, NULL, weights, ids, p, NULL, work);
    ck_assert(ids[0] == 0 && ids[1] == 0 && ids[2] == -1 && weights[2] == 0);
    ck_assert(ids[3] == 0 && weights[3] == 7);
    k->pack(3, 1, 2, 1, x, ids, packed, counts, work);
    ck_assert(counts[0] == 2 && counts[1] == 0 && packed[0] == 1 && packed[1] == 2);
    k->combine(3, 1, 2, 1, packed, ids, NULL, y, work);
    ck_assert(y[0] == 1 && y[1] == 2 && y[2] == 0);
}
END_TEST

/* Derivatives of weights, by hand: a gate whose weights sum to 1 would not see a number that all
 * have more. */
START_TEST(derivatives_of_weights)
{
    static const double ids[4] = {1, 0, -1, 1}, weights[4] = {0.5, 2, 0, 3};
    static const double dy[4] = {1, 2, 4, 8};             /* two tokens of two */
    static const double packed[6] = {10, 20, 1, 3, 5, 7}; /* one row of expert 0, two of expert 1 */
    double drows[6] = {0}, dweights[4], work[WORK];
    k->combine_dx(2, 2, 2, 2, dy, ids, weights, packed, drows, dweights, work);
    ck_assert(dweights[0] == 1 * 1 + 2 * 3 && dweights[1] == 1 * 10 + 2 * 20);
    ck_assert(dweights[2] == 0 && dweights[3] == 4 * 5 + 8 * 7);
    ck_assert(drows[0] == 2 && drows[1] == 4 && drows[2] == 0.5 && drows[3] == 1);
    ck_assert(drows[4] == 12 && drows[5] == 24);
}
END_TEST

/* Logits that are no numbers choose different experts all the same. */
START_TEST(no_numbers)
{
    const double logits[4] = {NAN, NAN, INFINITY, NAN};
    const luo_gate gate = {.experts = 4, .k = 3};
    double weights[3], ids[3], p[4], work[WORK];
    k->route(1, &gate, logits, NULL, weights, ids, p, NULL, work);
    ck_assert(ids[0] != ids[1] && ids[0] != ids[2] && ids[1] != ids[2]);
    for (int j = 0; j < 3; j++) ck_assert(ids[j] >= 0 && ids[j] < 4);
}
END_TEST

LUO_SUITE("exec.experts", LUO_T(vector), LUO_T_N(random_layers, 100), LUO_T(balance),
          LUO_T_N(gates_as_in_core, 4), LUO_T_N(hash, 2), LUO_T(dealt), LUO_T(balance_without_pads),
          LUO_T(capacity), LUO_T(derivatives_of_weights), LUO_T(no_numbers))
