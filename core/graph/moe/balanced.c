/* balanced.c: equally many tokens for every expert (Lewis et al. 2021), by an auction: experts bid
 * for tokens, prices rise until every token has a buyer.
 *
 * Differs from the published layer, whose test makes eps always the least one. And scores count in
 * whole parts of eps: bids are often equal but for how sums were rounded, which differs from cut to
 * cut of a model; sums of whole numbers are the same in any order. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/graph/moe/gate.h"

enum { EPS = 1 << 12 }; /* so many parts */
enum { STICKY_ROUNDS = 100 }; /* rounds in which experts look at their own tokens first */

typedef struct bid {
    double value; /* score less price */
    int32_t token;
    bool owned;
} bid;

typedef struct auction {
    int64_t tokens, each;
    int32_t experts, round;
    double *score, *price, *offer; /* whole parts of eps; offer: a token's highest in this round */
    int32_t *owner, *buyer;
    bid *list;
} auction;

static int by_value(const void *a, const void *b)
{
    const bid *x = a, *y = b;
    if (x->owned != y->owned) return x->owned ? -1 : 1;
    if (x->value != y->value) return x->value > y->value ? -1 : 1;
    return (x->token > y->token) - (x->token < y->token);
}

static void rank_tokens(auction *a, int32_t expert)
{
    for (int64_t t = 0; t < a->tokens; t++)
        a->list[t] = (bid){a->score[t * a->experts + expert] - a->price[t], (int32_t)t,
                           a->round < STICKY_ROUNDS && a->owner[t] == expert};
    qsort(a->list, (size_t)a->tokens, sizeof *a->list, by_value);
}

/* What the best ones are worth more than the next. Ownership changes nothing but the order. */
static void offer(auction *a, int32_t expert)
{
    rank_tokens(a, expert);
    const double next = a->each < a->tokens ? a->list[a->each].value : a->list[a->each - 1].value;
    for (int64_t i = 0; i < a->each; i++) {
        const int32_t t = a->list[i].token;
        const bool own = a->owner[t] == expert;
        const double value = own ? EPS : a->list[i].value - next + EPS;
        if (a->buyer[t] >= 0 && a->offer[t] >= value) continue;
        a->buyer[t] = expert;
        a->offer[t] = value;
    }
}

static bool play(auction *a)
{
    bool all = true;
    for (int64_t t = 0; t < a->tokens; t++) a->buyer[t] = -1;
    for (int32_t e = 0; e < a->experts; e++) offer(a, e);
    for (int64_t t = 0; t < a->tokens; t++) {
        all &= a->buyer[t] >= 0;
        a->owner[t] = a->buyer[t];
        if (a->buyer[t] >= 0) a->price[t] += a->offer[t];
    }
    a->round++;
    return all;
}

static void count_parts(auction *a, const double *scores)
{
    const int64_t n = a->tokens * a->experts;
    double least = scores[0], most = least;
    for (int64_t i = 1; i < n; i++) {
        least = fmin(least, scores[i]);
        most = fmax(most, scores[i]);
    }
    const double eps = fmax((most - least) / 50, 1e-4);
    for (int64_t i = 0; i < n; i++) a->score[i] = nearbyint((scores[i] - least) / eps * EPS);
}

luo_status luo_gate_balance(luo_arena *arena, int64_t tokens, int32_t experts, const double *scores,
                            int32_t *expert, int32_t *rounds, luo_err *err)
{
    auction a = {.tokens = tokens,
                 .each = tokens / experts,
                 .experts = experts,
                 .score = LUO_NEW_N(arena, double, tokens *experts),
                 .price = LUO_NEW_N(arena, double, tokens),
                 .offer = LUO_NEW_N(arena, double, tokens),
                 .owner = LUO_NEW_N(arena, int32_t, tokens),
                 .buyer = LUO_NEW_N(arena, int32_t, tokens),
                 .list = LUO_NEW_N(arena, bid, tokens)};
    if (!a.score || !a.price || !a.offer || !a.owner || !a.buyer || !a.list)
        return luo_err_nomem(err);
    for (int64_t t = 0; t < tokens; t++) a.owner[t] = -1;
    if (tokens > 0 && experts > 1) {
        count_parts(&a, scores);
        while (!play(&a)) continue;
        memcpy(expert, a.owner, (size_t)tokens * sizeof *expert);
    } else {
        memset(expert, 0, (size_t)tokens * sizeof *expert);
    }
    if (rounds) *rounds = a.round;
    return LUO_OK;
}

/* Their differences as well. */
static bool all_numbers(const double *scores, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (!(fabs(scores[i]) < DBL_MAX / 4)) return false;
    return true;
}

luo_status luo_gate_deal(luo_arena *arena, int64_t tokens, int32_t experts, const double *scores,
                         int32_t *expert, luo_err *err)
{
    const int64_t n = (tokens + experts - 1) / experts * experts, given = tokens * experts;
    double *all = LUO_NEW_N(arena, double, n *experts), least = given > 0 ? scores[0] : 0;
    int32_t *at = LUO_NEW_N(arena, int32_t, n);
    if (!all || !at) return luo_err_nomem(err);
    for (int64_t t = 0; t < tokens; t++) expert[t] = (int32_t)(t % experts);
    if (!all_numbers(scores, given)) return LUO_OK;
    for (int64_t i = 0; i < given; i++) least = fmin(least, all[i] = scores[i]);
    for (int64_t i = given; i < n * experts; i++) all[i] = least;
    LUO_TRY(luo_gate_balance(arena, n, experts, all, at, NULL, err));
    if (tokens > 0) memcpy(expert, at, (size_t)tokens * sizeof *at);
    return LUO_OK;
}
