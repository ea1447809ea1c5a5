/* Dispatch: list scheduling, local search, kicks; exact search of small cases. Inside, sequences
 * are known by their place in the order of falling length. */
#include "core/plan/hydraulis/dispatch.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    EXACT_SEQUENCES = 10,
    EXACT_REPLICAS = 4,
    MANY = 256,
    KICKS = 32,
    KICKS_OF_MANY = 8,
    KICK_MOVES = 3
};
static const double LESS = 1e-9; /* what counts as an improvement, ms */
static const int32_t NONE = -1;

typedef struct load { /* of a replica */
    double cost;      /* sum */
    int64_t tokens;
    int32_t n, longest; /* sequences; the longest one, NONE: empty */
} load;

typedef struct side {   /* a replica, what does not change of it */
    const double *cost; /* by sequence */
    double mu, c;
    int64_t cap;
    int32_t fill; /* stages - 1 */
} side;

typedef struct work {
    int32_t n, m;          /* sequences, replicas */
    const int64_t *length; /* falling */
    const side *side;
    load *load;
    int32_t *at;  /* replica by sequence */
    double *time; /* D_r */
    double bound;
} work;

/* ---- times ---- */

static double time_of(const side *s, const load *l)
{
    if (l->n == 0) return 0;
    const double micro_batches = ceil((double)l->tokens / (double)s->cap); /* exact below 2^52 */
    return s->mu * (l->cost + s->fill * s->cost[l->longest] + s->c * (micro_batches + s->fill));
}

static load with(const work *w, int32_t r, int32_t i)
{
    load l = w->load[r];
    l.cost += w->side[r].cost[i];
    l.tokens += w->length[i];
    l.n++;
    if (l.longest == NONE || i < l.longest) l.longest = i;
    return l;
}

/* next: the longest one of r that is not i. */
static load without(const work *w, int32_t r, int32_t i, int32_t next)
{
    load l = w->load[r];
    l.cost -= w->side[r].cost[i];
    l.tokens -= w->length[i];
    l.n--;
    l.longest = next;
    if (l.n == 0) l.cost = 0;
    return l;
}

static bool fits(const work *w, int32_t r, int32_t i)
{
    return w->length[i] <= w->side[r].cap;
}

static void set_load(work *w, int32_t r, load l)
{
    w->load[r] = l;
    w->time[r] = time_of(&w->side[r], &l);
}

static int32_t longest_but(const work *w, int32_t r, int32_t i)
{
    for (int32_t j = w->load[r].longest; j != NONE && j < w->n; j++)
        if (w->at[j] == r && j != i) return j;
    return NONE;
}

/* Sums are made anew, in one order, so that they do not depend on the way to an assignment. */
static void recount(work *w, int32_t r)
{
    load l = {.longest = NONE};
    for (int32_t i = 0; i < w->n; i++) {
        if (w->at[i] != r) continue;
        l.cost += w->side[r].cost[i];
        l.tokens += w->length[i];
        if (l.n++ == 0) l.longest = i;
    }
    set_load(w, r, l);
}

static void put(work *w, int32_t i, int32_t to)
{
    const int32_t from = w->at[i];
    w->at[i] = to;
    recount(w, from);
    recount(w, to);
}

static int32_t latest(const work *w)
{
    int32_t r = 0;
    for (int32_t k = 1; k < w->m; k++)
        if (w->time[k] > w->time[r]) r = k;
    return r;
}

/* ---- list scheduling ---- */

static void clear(work *w)
{
    for (int32_t r = 0; r < w->m; r++) {
        w->load[r] = (load){.longest = NONE};
        w->time[r] = 0;
    }
    for (int32_t i = 0; i < w->n; i++) w->at[i] = NONE;
}

static void longest_first(work *w)
{
    clear(w);
    for (int32_t i = 0; i < w->n; i++) {
        int32_t to = NONE;
        double least = INFINITY;
        for (int32_t r = 0; r < w->m; r++) {
            if (w->time[r] >= least || !fits(w, r, i)) continue; /* times only grow */
            const load l = with(w, r, i);
            const double t = time_of(&w->side[r], &l);
            if (t < least) {
                least = t;
                to = r;
            }
        }
        assert(to != NONE);
        w->at[i] = to;
        set_load(w, to, with(w, to, i));
    }
}

/* ---- moves and swaps off the latest replica ---- */

typedef struct step { /* i leaves for `to`; j NONE or comes back */
    int32_t i, j, to;
    double after; /* later one of the two replicas */
} step;

static void try_moves(const work *w, int32_t from, int32_t i, double left, step *best)
{
    for (int32_t r = 0; r < w->m; r++) {
        if (r == from || w->time[r] >= best->after || !fits(w, r, i)) continue;
        const load l = with(w, r, i);
        const double after = fmax(left, time_of(&w->side[r], &l));
        if (after < best->after) *best = (step){i, NONE, r, after};
    }
}

/* j takes the place of the longer i on r, or nothing. */
static load swapped(const work *w, int32_t r, int32_t out, int32_t in, int32_t longest)
{
    load l = w->load[r];
    l.cost += w->side[r].cost[in] - w->side[r].cost[out];
    l.tokens += w->length[in] - w->length[out];
    l.longest = longest;
    return l;
}

static void try_swaps(const work *w, int32_t from, int32_t i, int32_t next, step *best)
{
    for (int32_t j = i + 1; j < w->n; j++) {
        const int32_t r = w->at[j];
        if (r == from || w->time[r] >= best->after || w->length[j] == w->length[i] ||
            !fits(w, r, i))
            continue; /* a longer sequence makes r no faster */
        const int32_t mine = next == NONE || j < next ? j : next;
        const load take = swapped(w, r, j, i, w->load[r].longest < i ? w->load[r].longest : i);
        if (w->side[r].mu * take.cost >= best->after) continue;
        const load give =
            swapped(w, from, i, j, w->load[from].longest == i ? mine : w->load[from].longest);
        const double left = time_of(&w->side[from], &give);
        if (left >= best->after) continue;
        const double after = fmax(left, time_of(&w->side[r], &take));
        if (after < best->after) *best = (step){i, j, r, after};
    }
}

static bool improve(work *w)
{
    const int32_t from = latest(w);
    const double now = w->time[from];
    if (now <= w->bound + LESS) return false;
    step best = {NONE, NONE, NONE, now - LESS};
    for (int32_t i = 0; i < w->n; i++) {
        if (w->at[i] != from) continue;
        const int32_t next = longest_but(w, from, i);
        const load l =
            without(w, from, i, w->load[from].longest == i ? next : w->load[from].longest);
        const double left = time_of(&w->side[from], &l);
        if (left < best.after) try_moves(w, from, i, left, &best);
        try_swaps(w, from, i, next, &best);
    }
    if (best.to == NONE) return false;
    if (best.j != NONE) w->at[best.j] = from;
    put(w, best.i, best.to);
    return true;
}

static void local_search(work *w)
{
    for (int64_t round = 10 * (int64_t)w->n; round > 0 && improve(w); round--) continue;
}

/* ---- kicks ---- */

static void kick(work *w, luo_rng *rng)
{
    for (int k = 0; k < KICK_MOVES; k++) {
        const int32_t i = (int32_t)luo_rng_pick(rng, w->n), r = (int32_t)luo_rng_pick(rng, w->m);
        if (w->at[i] != r && fits(w, r, i)) put(w, i, r);
    }
}

static void restore(work *w, const int32_t *at)
{
    memcpy(w->at, at, (size_t)w->n * sizeof *at);
    for (int32_t r = 0; r < w->m; r++) recount(w, r);
}

static void search(work *w, const luo_dispatch_opts *opts, int32_t *kept)
{
    luo_rng rng = luo_rng_stream(opts->seed, "hydraulis");
    const int32_t kicks = opts->kicks >= 0 ? opts->kicks : w->n > MANY ? KICKS_OF_MANY : KICKS;
    longest_first(w);
    if (opts->fast) return;
    local_search(w);
    double best = w->time[latest(w)];
    for (int32_t k = 0; k < kicks && best > w->bound + LESS; k++) {
        memcpy(kept, w->at, (size_t)w->n * sizeof *kept);
        kick(w, &rng);
        local_search(w);
        const double now = w->time[latest(w)];
        if (now < best - LESS)
            best = now;
        else
            restore(w, kept);
    }
}

/* ---- exact search ---- */

/* Replica r looks like an earlier one that holds nothing either. */
static bool seen(const work *w, int32_t r)
{
    if (w->load[r].n > 0) return false;
    for (int32_t k = 0; k < r; k++)
        if (w->load[k].n == 0 && w->side[k].cost == w->side[r].cost &&
            w->side[k].mu == w->side[r].mu)
            return true;
    return false;
}

static void branch(work *w, int32_t i, double now, double *best, int32_t *kept)
{
    if (i == w->n) {
        *best = now;
        memcpy(kept, w->at, (size_t)w->n * sizeof *kept);
        return;
    }
    for (int32_t r = 0; r < w->m; r++) {
        if (!fits(w, r, i) || seen(w, r)) continue;
        const load before = w->load[r];
        const double time = w->time[r];
        set_load(w, r, with(w, r, i));
        w->at[i] = r;
        const double then = fmax(now, w->time[r]);
        if (then < *best - LESS) branch(w, i + 1, then, best, kept);
        w->load[r] = before;
        w->time[r] = time;
    }
}

static void exact(work *w, int32_t *kept)
{
    double best = w->time[latest(w)];
    memcpy(kept, w->at, (size_t)w->n * sizeof *kept);
    clear(w);
    branch(w, 0, 0, &best, kept);
    restore(w, kept);
}

/* ---- set up ---- */

typedef struct ranked {
    int64_t length;
    int32_t index;
} ranked;

static int falling(const void *x, const void *y)
{
    const ranked *a = x, *b = y;
    if (a->length != b->length) return a->length > b->length ? -1 : 1;
    return a->index < b->index ? -1 : a->index > b->index;
}

luo_status luo_dispatch_order(luo_arena *scratch, const int64_t *length, int32_t n, int32_t *order,
                              luo_err *err)
{
    ranked *at = LUO_NEW_N(scratch, ranked, n);
    if (!at) return luo_err_nomem(err);
    for (int32_t i = 0; i < n; i++) at[i] = (ranked){length[i], i};
    qsort(at, (size_t)n, sizeof *at, falling);
    for (int32_t i = 0; i < n; i++) order[i] = at[i].index;
    return LUO_OK;
}

/* One row of costs for each entry that a replica has. */
static luo_status make_sides(luo_arena *scratch, const luo_pool *pool, const luo_replica *replica,
                             bool published, work *w, luo_err *err)
{
    const double **row = LUO_NEW_N(scratch, const double *, pool->n);
    side *sides = LUO_NEW_N(scratch, side, w->m);
    if (!row || !sides) return luo_err_nomem(err);
    for (int32_t r = 0; r < w->m; r++) {
        const luo_pool_entry *entry = &pool->entry[replica[r].entry];
        if (!row[replica[r].entry]) {
            double *cost = LUO_NEW_N(scratch, double, w->n);
            if (!cost) return luo_err_nomem(err);
            for (int32_t i = 0; i < w->n; i++) cost[i] = luo_pool_cost(entry, w->length[i]);
            row[replica[r].entry] = cost;
        }
        sides[r] = (side){row[replica[r].entry], replica[r].mu, published ? 0 : entry->c,
                          entry->cap, entry->pp - 1};
    }
    w->side = sides;
    return LUO_OK;
}

int64_t luo_dispatch_longest(const luo_pool *pool, const luo_replica *replica, int32_t nreplicas)
{
    int64_t most = 0;
    for (int32_t r = 0; r < nreplicas; r++)
        if (pool->entry[replica[r].entry].cap > most) most = pool->entry[replica[r].entry].cap;
    return most;
}

static luo_status check_longest(const luo_pool *pool, const luo_replica *replica, int32_t m,
                                int64_t longest, luo_err *err)
{
    const int64_t most = luo_dispatch_longest(pool, replica, m);
    if (longest <= most) return LUO_OK;
    return luo_err_set(err, LUO_EINFEASIBLE,
                       "a sequence of %lld tokens fits on no replica, the largest holds %lld; a "
                       "replica with more room is needed.",
                       (long long)longest, (long long)most);
}

static luo_status make_work(luo_arena *scratch, const luo_pool *pool, const luo_replica *replica,
                            const int64_t *length, const int32_t *order, bool published, work *w,
                            luo_err *err)
{
    int64_t *sorted = LUO_NEW_N(scratch, int64_t, w->n);
    w->load = LUO_NEW_N(scratch, load, w->m);
    w->time = LUO_NEW_N(scratch, double, w->m);
    w->at = LUO_NEW_N(scratch, int32_t, w->n);
    if (!sorted || !w->load || !w->time || !w->at) return luo_err_nomem(err);
    for (int32_t i = 0; i < w->n; i++) sorted[i] = length[order[i]];
    w->length = sorted;
    LUO_TRY(check_longest(pool, replica, w->m, sorted[0], err));
    LUO_TRY(make_sides(scratch, pool, replica, published, w, err));
    w->bound = luo_dispatch_bound(pool, replica, w->m, sorted, w->n, published);
    return LUO_OK;
}

luo_status luo_dispatch(luo_arena *scratch, const luo_pool *pool, const luo_replica *replica,
                        int32_t nreplicas, const int64_t *length, int32_t n,
                        const luo_dispatch_opts *opts, int32_t *assign, double *best, luo_err *err)
{
    luo_status st = LUO_OK;
    const size_t mark = luo_arena_mark(scratch);
    work w = {.n = n, .m = nreplicas};
    int32_t *order = LUO_NEW_N(scratch, int32_t, n), *kept = LUO_NEW_N(scratch, int32_t, n);

    assert(nreplicas >= 1);
    if (!order || !kept) {
        st = luo_err_nomem(err);
        goto out;
    }
    if (n == 0) {
        *best = 0;
        goto out;
    }
    LUO_TRY_OUT(luo_dispatch_order(scratch, length, n, order, err));
    LUO_TRY_OUT(make_work(scratch, pool, replica, length, order, opts->published, &w, err));
    search(&w, opts, kept);
    if (!opts->fast && !opts->heuristic && n <= EXACT_SEQUENCES && nreplicas <= EXACT_REPLICAS)
        exact(&w, kept);
    for (int32_t i = 0; i < n; i++) assign[order[i]] = w.at[i];
    *best = w.time[latest(&w)];
out:
    luo_arena_reset(scratch, mark);
    return st;
}

/* ---- bound ---- */

/* Replicas alike count once. */
static bool is_first(const luo_replica *replica, int32_t r)
{
    for (int32_t k = 0; k < r; k++)
        if (replica[k].entry == replica[r].entry && replica[k].mu == replica[r].mu) return false;
    return true;
}

static double alone(const luo_pool_entry *entry, double mu, int64_t longest, bool published)
{
    return mu * entry->pp * (luo_pool_cost(entry, longest) + (published ? 0 : entry->c));
}

/* Sum over the sequences of their least weighted cost: sum of weight * D_r is no less, whatever
 * goes where. */
static double least_work(const luo_pool *pool, const luo_replica *replica, const int32_t *kind,
                         const double *weight, int32_t nkinds, const int64_t *length, int32_t n)
{
    double sum = 0;
    for (int32_t i = 0; i < n; i++) {
        double least = INFINITY;
        for (int32_t k = 0; k < nkinds; k++) {
            const luo_replica *r = &replica[kind[k]];
            const luo_pool_entry *entry = &pool->entry[r->entry];
            if (length[i] <= entry->cap)
                least = fmin(least, weight[k] * r->mu * luo_pool_cost(entry, length[i]));
        }
        sum += least;
    }
    return sum;
}

double luo_dispatch_bound(const luo_pool *pool, const luo_replica *replica, int32_t nreplicas,
                          const int64_t *length, int32_t n, bool published)
{
    enum { KINDS = 64 }; /* more than that: only the longest counts */
    int32_t kind[KINDS], nkinds = 0;
    double weight[KINDS], total = 0, squares = 0, tokens = 0, floor_ms = INFINITY;
    int64_t longest = 0;
    for (int32_t i = 0; i < n; i++) {
        longest = length[i] > longest ? length[i] : longest;
        tokens += (double)length[i];
        squares += (double)length[i] * (double)length[i];
    }
    if (n == 0) return 0;
    for (int32_t r = 0; r < nreplicas; r++) {
        const luo_pool_entry *entry = &pool->entry[replica[r].entry];
        if (entry->cap >= longest)
            floor_ms = fmin(floor_ms, alone(entry, replica[r].mu, longest, published));
        if (nkinds <= KINDS && is_first(replica, r) && nkinds++ < KINDS) {
            kind[nkinds - 1] = r;
            weight[nkinds - 1] =
                1 / (replica[r].mu * luo_pool_cost(entry, (int64_t)(squares / tokens)));
        }
    }
    if (nkinds > KINDS || isinf(floor_ms)) return floor_ms;
    for (int32_t r = 0; r < nreplicas; r++)
        for (int32_t k = 0; k < nkinds; k++)
            if (replica[kind[k]].entry == replica[r].entry && replica[kind[k]].mu == replica[r].mu)
                total += weight[k];
    return fmax(floor_ms, least_work(pool, replica, kind, weight, nkinds, length, n) / total);
}
