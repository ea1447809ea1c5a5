/* gate_route.c: choices, places among the rows of an expert, auxiliary loss. */
#include "tests/parked/gate_route.h"

#include <math.h>
#include <string.h>

typedef struct router { /* the routes being made */
    const luo_gate *gate;
    int64_t tokens;
    int32_t *expert;
    double *weight, *probability, *work;
    int64_t *location, *count;
    double *mean; /* of probabilities, by expert */
} router;

static luo_status open_router(luo_arena *arena, router *r, luo_err *err)
{
    const int64_t n = r->tokens * r->gate->k;
    r->expert = LUO_NEW_N(arena, int32_t, n);
    r->weight = LUO_NEW_N(arena, double, n);
    r->location = LUO_NEW_N(arena, int64_t, n);
    r->probability = LUO_NEW_N(arena, double, r->gate->experts);
    r->work = LUO_NEW_N(arena, double, luo_gate_work(r->gate));
    r->count = LUO_NEW_N(arena, int64_t, 2 * (int64_t)r->gate->experts);
    r->mean = LUO_NEW_N(arena, double, r->gate->experts);
    return r->expert && r->weight && r->location && r->probability && r->work && r->count && r->mean
               ? LUO_OK
               : luo_err_nomem(err);
}

static luo_status check_logits(const router *r, const double *logits, luo_err *err)
{
    const int32_t n = r->gate->experts;
    if (r->gate->kind == LUO_GATE_HASH) return LUO_OK;
    for (int64_t i = 0; i < r->tokens * n; i++)
        if (!isfinite(logits[i]))
            return luo_err_set(err, LUO_EINPUT, "gate: a logit of token %lld is not a number.",
                               (long long)(i / n));
    return LUO_OK;
}

/* max(0, p - the smallest chosen) over the experts outside the chosen group. */
static double misaligned(const luo_gate *gate, const double *probability, const int32_t *expert)
{
    const int32_t each = gate->experts / (gate->groups > 0 ? gate->groups : 1);
    const double last = probability[expert[gate->k - 1]];
    double sum = 0;
    for (int32_t e = 0; e < gate->experts; e++)
        if (e / each != expert[0] / each) sum += fmax(0, probability[e] - last);
    return sum;
}

/* Choices of every token; the sum of what they are misaligned by. */
static double choose_all(router *r, const double *logits, const int32_t *ids)
{
    const luo_gate *gate = r->gate;
    double loss = 0;
    for (int64_t t = 0; t < r->tokens; t++) {
        int32_t *expert = r->expert + t * gate->k;
        luo_gate_choose(gate, logits ? logits + t * gate->experts : NULL, ids ? ids[t] : 0,
                        r->probability, expert, r->weight + t * gate->k, r->work);
        for (int32_t e = 0; e < gate->experts; e++)
            r->mean[e] += r->probability[e] / (double)r->tokens;
        if (gate->kind == LUO_GATE_SAM) loss += misaligned(gate, r->probability, expert);
    }
    return loss;
}

/* Of the j-th choices, behind all earlier choices of the same expert. */
static void locate(router *r)
{
    int64_t *before = r->count + r->gate->experts;
    for (int32_t j = 0; j < r->gate->k; j++) {
        memcpy(before, r->count, (size_t)r->gate->experts * sizeof *before);
        for (int64_t t = 0; t < r->tokens; t++) {
            const int64_t at = t * r->gate->k + j;
            r->location[at] = before[r->expert[at]]++;
        }
        memcpy(r->count, before, (size_t)r->gate->experts * sizeof *before);
    }
}

/* E times the sum over experts of mean probability and share of the choices, for every choice;
 * k-top-1: over the experts of its prototype. */
static double auxiliary(const router *r)
{
    const luo_gate *gate = r->gate;
    double sum = 0;
    for (int64_t i = 0; i < r->tokens * gate->k; i++) sum += r->mean[r->expert[i]];
    const int32_t n = gate->kind == LUO_GATE_KTOP1 ? gate->experts / gate->k : gate->experts;
    return r->tokens ? sum * n / (double)r->tokens : 0;
}

static luo_status balance(luo_arena *arena, router *r, const double *scores, luo_err *err)
{
    if (r->tokens % r->gate->experts)
        return luo_err_set(err, LUO_EINPUT,
                           "base gate: %lld tokens cannot be dealt to %d experts; a multiple is "
                           "needed.",
                           (long long)r->tokens, (int)r->gate->experts);
    const int32_t n = r->gate->experts;
    LUO_TRY(luo_gate_balance(arena, r->tokens, n, scores, r->expert, NULL, err));
    for (int64_t t = 0; t < r->tokens; t++)
        r->weight[t] = 1 / (1 + exp(-scores[t * n + r->expert[t]]));
    return LUO_OK;
}

luo_status luo_gate_route(luo_arena *arena, const luo_gate *gate, int64_t tokens,
                          const double *logits, const int32_t *ids, luo_gate_routes *out,
                          luo_err *err)
{
    router r = {.gate = gate, .tokens = tokens};
    double loss = 0;
    LUO_TRY(luo_gate_check(gate, err));
    LUO_TRY(open_router(arena, &r, err));
    LUO_TRY(check_logits(&r, logits, err));
    if (gate->kind == LUO_GATE_BALANCED)
        LUO_TRY(balance(arena, &r, logits, err));
    else
        loss = choose_all(&r, logits, ids);
    locate(&r);
    if (gate->kind == LUO_GATE_TOPK || gate->kind == LUO_GATE_KTOP1) loss = auxiliary(&r);
    *out = (luo_gate_routes){.tokens = tokens,
                             .capacity = luo_gate_capacity(gate, tokens),
                             .k = gate->k,
                             .expert = r.expert,
                             .weight = r.weight,
                             .location = r.location,
                             .loss = loss};
    return LUO_OK;
}

void luo_gate_counts(const luo_gate_routes *routes, int32_t experts, int64_t *counts)
{
    memset(counts, 0, (size_t)experts * sizeof *counts);
    for (int64_t i = 0; i < routes->tokens * routes->k; i++)
        if (!luo_gate_drops(routes, i)) counts[routes->expert[i]]++;
}
