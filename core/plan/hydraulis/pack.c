/* Packing. For a given number of micro-batches both scores grow with the costliest one alone, so
 * that is what is made small; the number with the least score is taken. Inside, sequences are known
 * by their place in the order of falling length, which is that of falling cost. */
#include "core/plan/hydraulis/pack.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/graph/schedule/sched.h"
#include "core/plan/hydraulis/dispatch.h"

enum { EXACT = 12, NUMBERS = 16 };
static const double LESS = 1e-9; /* what counts as an improvement, ms */

typedef struct bins {
    int32_t n, v;          /* sequences, micro-batches */
    const int64_t *length; /* falling */
    const double *cost;
    int64_t cap;
    int32_t *at;  /* micro-batch by sequence */
    double *load; /* sum of costs, per micro-batch */
    int64_t *tokens;
    double floor; /* no micro-batch can be costliest with less */
} bins;

static void put(bins *b, int32_t i, int32_t u)
{
    b->at[i] = u;
    b->load[u] += b->cost[i];
    b->tokens[u] += b->length[i];
}

static void empty(bins *b)
{
    memset(b->load, 0, (size_t)b->v * sizeof *b->load);
    memset(b->tokens, 0, (size_t)b->v * sizeof *b->tokens);
}

/* Sums anew in one order: they do not depend on how the sequences got there. */
static void recount(bins *b)
{
    empty(b);
    for (int32_t i = 0; i < b->n; i++) put(b, i, b->at[i]);
}

static int32_t costliest(const bins *b)
{
    int32_t u = 0;
    for (int32_t k = 1; k < b->v; k++)
        if (b->load[k] > b->load[u]) u = k;
    return u;
}

static bool fits(const bins *b, int32_t i, int32_t u)
{
    return b->tokens[u] + b->length[i] <= b->cap;
}

/* ---- many sequences ---- */

static bool least_loaded(bins *b)
{
    empty(b);
    for (int32_t i = 0; i < b->n; i++) {
        int32_t to = -1;
        for (int32_t u = 0; u < b->v; u++)
            if (fits(b, i, u) && (to < 0 || b->load[u] < b->load[to])) to = u;
        if (to < 0) return false;
        put(b, i, to);
    }
    return true;
}

static bool first_fit(bins *b)
{
    empty(b);
    for (int32_t i = 0; i < b->n; i++) {
        int32_t u = 0;
        while (u < b->v && !fits(b, i, u)) u++;
        if (u == b->v) return false;
        put(b, i, u);
    }
    for (int32_t u = 0; u < b->v; u++)
        if (b->tokens[u] == 0) return false;
    return true;
}

/* i of the costliest micro-batch changes places with a cheaper j of another one, or joins it. */
static bool improve(bins *b)
{
    const int32_t from = costliest(b);
    int32_t best_i = -1, best_j = -1, best_u = -1, count = 0;
    double best = b->load[from] - LESS;
    if (b->load[from] <= b->floor + LESS) return false;
    for (int32_t i = 0; i < b->n; i++) count += b->at[i] == from;
    for (int32_t i = 0; i < b->n; i++) {
        if (b->at[i] != from) continue;
        for (int32_t u = 0; count > 1 && u < b->v; u++) {
            const double after = fmax(b->load[from] - b->cost[i], b->load[u] + b->cost[i]);
            if (u == from || !fits(b, i, u) || after >= best) continue;
            best = after, best_i = i, best_j = -1, best_u = u;
        }
        for (int32_t j = i + 1; j < b->n; j++) {
            const int32_t u = b->at[j];
            const int64_t more = b->length[i] - b->length[j];
            const double change = b->cost[i] - b->cost[j];
            const double after = fmax(b->load[from] - change, b->load[u] + change);
            if (u == from || b->tokens[u] + more > b->cap || after >= best) continue;
            best = after, best_i = i, best_j = j, best_u = u;
        }
    }
    if (best_i < 0) return false;
    b->at[best_i] = best_u;
    if (best_j >= 0) b->at[best_j] = from;
    recount(b);
    return true;
}

static bool heuristic(bins *b)
{
    if (!least_loaded(b) && !first_fit(b)) return false;
    for (int64_t round = 10 * (int64_t)b->n; round > 0 && improve(b); round--) continue;
    return true;
}

/* ---- few sequences ---- */

typedef struct branching {
    bins *b;
    double best; /* of the costliest micro-batch */
    int32_t *kept;
    bool found;
} branching;

static void branch(branching *x, int32_t i, int32_t used, double now)
{
    bins *b = x->b;
    if (i == b->n) {
        x->best = now;
        x->found = true;
        memcpy(x->kept, b->at, (size_t)b->n * sizeof *b->at);
        return;
    }
    if (b->n - i < b->v - used) return; /* none may stay empty */
    for (int32_t u = 0; u <= used && u < b->v; u++) {
        const double load = b->load[u];
        const double then = fmax(now, load + b->cost[i]);
        if (!fits(b, i, u) || then >= x->best - LESS) continue;
        put(b, i, u);
        branch(x, i + 1, used + (u == used), then);
        b->load[u] = load;
        b->tokens[u] -= b->length[i];
        if (x->best <= b->floor + LESS) return;
    }
}

static bool exact(bins *b, int32_t *kept)
{
    branching x = {.b = b, .best = INFINITY, .kept = kept};
    if (heuristic(b)) {
        x.best = b->load[costliest(b)];
        x.found = true;
        memcpy(kept, b->at, (size_t)b->n * sizeof *kept);
    }
    empty(b);
    branch(&x, 0, 0, 0);
    if (!x.found) return false;
    memcpy(b->at, kept, (size_t)b->n * sizeof *kept);
    recount(b);
    return true;
}

/* ---- how many ---- */

double luo_pack_score_of(const double *t, int32_t nbins, int32_t pp, luo_pack_score score)
{
    double sum = 0, most = 0;
    for (int32_t u = 0; u < nbins; u++) {
        sum += t[u];
        most = fmax(most, t[u]);
    }
    if (score == LUO_SCORE_MAX) return most * (nbins + pp - 1);
    return sum + (pp - 1) * most;
}

/* The same of a number of micro-batches whose costliest one has `most` without c. */
static double score_with(const luo_pool_entry *entry, double cost, int32_t v, double most,
                         luo_pack_score score)
{
    if (v == 0) return 0;
    if (score == LUO_SCORE_MAX) return (most + entry->c) * (v + entry->pp - 1);
    return cost + v * entry->c + (entry->pp - 1) * (most + entry->c);
}

typedef struct packing {
    const luo_pool_entry *entry;
    bins b;
    luo_pack_score score;
    double cost, best;              /* sum of costs; least score so far */
    int32_t *kept, nkept, *scratch; /* its assignment and number */
} packing;

static void try_number(packing *p, int32_t v)
{
    bins *b = &p->b;
    b->v = v;
    b->floor = fmax(b->cost[0], p->cost / v);
    if (score_with(p->entry, p->cost, v, b->floor, p->score) >= p->best - LESS) return;
    /* On one stage the sum does not care which micro-batch is costliest. */
    const bool any = p->entry->pp == 1 && p->score == LUO_SCORE_SUM;
    const bool found = any && heuristic(b);
    if (!found && !(b->n <= EXACT ? exact(b, p->scratch) : heuristic(b))) return;
    const double now = score_with(p->entry, p->cost, v, b->load[costliest(b)], p->score);
    if (now >= p->best - LESS) return;
    p->best = now;
    p->nkept = v;
    memcpy(p->kept, b->at, (size_t)b->n * sizeof *p->kept);
}

/* Numbers of micro-batches from the fewest that tokens need, until nothing can be gained. */
static void try_numbers(packing *p)
{
    const bins *b = &p->b;
    const luo_pool_entry *entry = p->entry;
    int64_t tokens = 0;
    for (int32_t i = 0; i < b->n; i++) tokens += b->length[i];
    const int64_t fewest = (tokens + entry->cap - 1) / entry->cap;
    int64_t most = entry->util > 0 ? tokens / entry->util : b->n;
    if (most > b->n) most = b->n;
    if (most < fewest) most = fewest;
    for (int64_t v = fewest; v <= b->n; v++) {
        if (p->nkept > 0 && (v > most || v >= fewest + NUMBERS)) break;
        /* Each one more adds c to the sum, and the longest sequence stays where it is. */
        const double least = score_with(entry, p->cost, (int32_t)v, b->cost[0], LUO_SCORE_SUM);
        if (p->score == LUO_SCORE_SUM && least >= p->best - LESS) break;
        try_number(p, (int32_t)v);
    }
}

/* ---- what comes out ---- */

typedef struct bin_time {
    double t;
    int32_t bin;
} bin_time;

static int by_falling_time(const void *x, const void *y)
{
    const bin_time *a = x, *b = y;
    if (a->t != b->t) return a->t > b->t ? -1 : 1;
    return a->bin < b->bin ? -1 : a->bin > b->bin;
}

/* Micro-batches numbered anew by falling time. In: bin[n] in any numbering, none empty. */
static luo_status finish(luo_arena *arena, const luo_pool_entry *entry, const int64_t *length,
                         int32_t n, int32_t nbins, int32_t *bin, luo_packed *out, luo_err *err)
{
    luo_packed packed = {.nbins = nbins,
                         .t = LUO_NEW_N(arena, double, nbins),
                         .tokens = LUO_NEW_N(arena, int64_t, nbins)};
    bin_time *time = LUO_NEW_N(arena, bin_time, nbins);
    int32_t *number = LUO_NEW_N(arena, int32_t, nbins);
    if (!packed.t || !packed.tokens || !time || !number) return luo_err_nomem(err);
    for (int32_t u = 0; u < nbins; u++) time[u] = (bin_time){entry->c, u};
    for (int32_t i = 0; i < n; i++) time[bin[i]].t += luo_pool_cost(entry, length[i]);
    qsort(time, (size_t)nbins, sizeof *time, by_falling_time);
    for (int32_t u = 0; u < nbins; u++) {
        number[time[u].bin] = u;
        packed.t[u] = time[u].t;
    }
    for (int32_t i = 0; i < n; i++) {
        bin[i] = number[bin[i]];
        packed.tokens[bin[i]] += length[i];
    }
    *out = packed;
    return LUO_OK;
}

static luo_status make(luo_arena *arena, const int64_t *length, const int32_t *order, packing *p,
                       luo_err *err)
{
    bins *b = &p->b;
    int64_t *sorted = LUO_NEW_N(arena, int64_t, b->n);
    double *cost = LUO_NEW_N(arena, double, b->n);
    b->at = LUO_NEW_N(arena, int32_t, b->n);
    b->load = LUO_NEW_N(arena, double, b->n);
    b->tokens = LUO_NEW_N(arena, int64_t, b->n);
    p->kept = LUO_NEW_N(arena, int32_t, b->n);
    p->scratch = LUO_NEW_N(arena, int32_t, b->n);
    if (!sorted || !cost || !b->at || !b->load || !b->tokens || !p->kept || !p->scratch)
        return luo_err_nomem(err);
    for (int32_t i = 0; i < b->n; i++) {
        sorted[i] = length[order[i]];
        cost[i] = luo_pool_cost(p->entry, sorted[i]);
        p->cost += cost[i];
    }
    b->length = sorted;
    b->cost = cost;
    return LUO_OK;
}

luo_status luo_pack(luo_arena *arena, const luo_pool_entry *entry, const int64_t *length, int32_t n,
                    luo_pack_score score, int32_t *bin, luo_packed *out, luo_err *err)
{
    packing p = {
        .entry = entry, .score = score, .best = INFINITY, .b = {.n = n, .cap = entry->cap}};
    int32_t *order = LUO_NEW_N(arena, int32_t, n);
    if (!order) return luo_err_nomem(err);
    *out = (luo_packed){0};
    if (n == 0) return LUO_OK;
    LUO_TRY(luo_dispatch_order(arena, length, n, order, err));
    LUO_TRY(make(arena, length, order, &p, err));
    assert(p.b.length[0] <= entry->cap);
    try_numbers(&p);
    assert(p.nkept > 0); /* one each always fits */
    for (int32_t i = 0; i < n; i++) bin[order[i]] = p.kept[i];
    LUO_TRY(finish(arena, entry, length, n, p.nkept, bin, out, err));
    out->score = luo_pack_score_of(out->t, out->nbins, entry->pp, score);
    return LUO_OK;
}

/* ---- the baselines' packing ---- */

luo_status luo_pack_greedy(luo_arena *arena, const luo_pool_entry *entry, const int64_t *length,
                           int32_t n, int64_t room, int32_t *bin, luo_packed *out, luo_err *err)
{
    int32_t *order = LUO_NEW_N(arena, int32_t, n), nbins = 0, left = n;
    if (!order) return luo_err_nomem(err);
    LUO_TRY(luo_dispatch_order(arena, length, n, order, err));
    for (int32_t i = 0; i < n; i++) bin[i] = -1;
    for (int32_t last = n - 1; left > 0; nbins++) {
        while (bin[order[last]] >= 0) last--;
        int64_t tokens = length[order[last]];
        bin[order[last]] = nbins;
        left--;
        for (int32_t k = 0; k < last; k++) {
            const int32_t i = order[k];
            if (bin[i] >= 0 || tokens + length[i] > room) continue;
            bin[i] = nbins;
            tokens += length[i];
            left--;
        }
    }
    LUO_TRY(finish(arena, entry, length, n, nbins, bin, out, err));
    out->score = luo_pack_score_of(out->t, out->nbins, entry->pp, LUO_SCORE_SUM);
    return LUO_OK;
}

luo_status luo_pack_single(luo_arena *arena, const luo_pool_entry *entry, const int64_t *length,
                           int32_t n, int32_t *bin, luo_packed *out, luo_err *err)
{
    for (int32_t i = 0; i < n; i++) bin[i] = i;
    LUO_TRY(finish(arena, entry, length, n, n, bin, out, err));
    out->score = luo_pack_score_of(out->t, out->nbins, entry->pp, LUO_SCORE_SUM);
    return LUO_OK;
}

/* ---- 1F1B ---- */

luo_status luo_pack_event(luo_arena *scratch, const double *t, int32_t nbins, int32_t pp,
                          const double *factor, double *ms, luo_err *err)
{
    const size_t mark = luo_arena_mark(scratch);
    double *forward = LUO_NEW_N(scratch, double, (int64_t)pp *nbins);
    double *backward = LUO_NEW_N(scratch, double, (int64_t)pp *nbins);
    luo_status st = LUO_OK;
    *ms = 0;
    if (!forward || !backward) {
        st = luo_err_nomem(err);
    } else if (nbins > 0) {
        for (int32_t s = 0; s < pp; s++)
            for (int32_t u = 0; u < nbins; u++) {
                forward[s * nbins + u] = t[u] / 3 * (factor ? factor[s] : 1);
                backward[s * nbins + u] = 2 * forward[s * nbins + u];
            }
        st = luo_sched_makespan_each(scratch, LUO_SCHED_1F1B, pp, nbins, 1, forward, backward, NULL,
                                     NULL, false, ms, NULL, err);
    }
    luo_arena_reset(scratch, mark);
    return st;
}
