/* Choice of the plan of a step. */
#include "core/plan/hydraulis/step.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 16, KICKED = 4, REFINEMENTS = 20 };
static const double LESS = 1e-9; /* what counts as an improvement, ms */

typedef struct call {
    luo_arena *arena;
    const luo_pool *pool;
    const luo_replicas *plans;
    int32_t nplans, n;
    const int64_t *length;
    const luo_step_opts *opts;
} call;

static double extra(const call *c, int32_t plan)
{
    return c->opts->extra_ms ? c->opts->extra_ms[plan] : 0;
}

static double score_of(const luo_step_plan *plan, luo_pack_score score)
{
    return score == LUO_SCORE_MAX ? plan->max : plan->sum;
}

/* ---- packing of an assignment ---- */

static luo_status pack_replica(luo_arena *arena, const luo_pool *pool, const luo_replicas *plan,
                               const int64_t *length, int32_t n, const int32_t *assign, int32_t r,
                               luo_pack_score score, int32_t *bin, luo_packed *out, luo_err *err)
{
    int32_t mine = 0;
    for (int32_t i = 0; i < n; i++) mine += assign[i] == r;
    int64_t *own = LUO_NEW_N(arena, int64_t, mine);
    int32_t *at = LUO_NEW_N(arena, int32_t, mine), k = 0;
    if (!own || !at) return luo_err_nomem(err);
    for (int32_t i = 0; i < n; i++)
        if (assign[i] == r) own[k++] = length[i];
    LUO_TRY(luo_pack(arena, &pool->entry[plan->replica[r].entry], own, mine, score, at, out, err));
    k = 0;
    for (int32_t i = 0; i < n; i++)
        if (assign[i] == r) bin[i] = at[k++];
    return LUO_OK;
}

static double scored(const luo_pool *pool, const luo_replicas *plan, const luo_packed *packed,
                     int32_t r, luo_pack_score score)
{
    return plan->replica[r].mu * luo_pack_score_of(packed->t, packed->nbins,
                                                   pool->entry[plan->replica[r].entry].pp, score);
}

static void tell_scores(const luo_pool *pool, const luo_replicas *plan, luo_step_plan *step_plan)
{
    step_plan->max = step_plan->sum = 0;
    for (int32_t r = 0; r < plan->n; r++) {
        step_plan->max =
            fmax(step_plan->max, scored(pool, plan, &step_plan->packed[r], r, LUO_SCORE_MAX));
        step_plan->sum =
            fmax(step_plan->sum, scored(pool, plan, &step_plan->packed[r], r, LUO_SCORE_SUM));
    }
}

/* Sequences by replica, those of r from first[r] on: one pass instead of one per replica. */
static luo_status group(luo_arena *arena, int32_t n, const int32_t *assign, int32_t m,
                        int32_t **member, int32_t **first, luo_err *err)
{
    *member = LUO_NEW_N(arena, int32_t, n);
    *first = LUO_NEW_N(arena, int32_t, m + 2);
    if (!*member || !*first) return luo_err_nomem(err);
    int32_t *at = *first + 1; /* at[r] ends as first[r + 1] */
    for (int32_t i = 0; i < n; i++) at[assign[i] + 1]++;
    for (int32_t r = 1; r <= m; r++) at[r] += at[r - 1];
    for (int32_t i = 0; i < n; i++) (*member)[at[assign[i]]++] = i;
    return LUO_OK;
}

static luo_status pack_all(luo_arena *arena, const luo_pool *pool, const luo_replicas *plan,
                           const int64_t *length, int32_t n, luo_pack_score score,
                           luo_step_plan *step_plan, luo_err *err)
{
    int32_t *member, *first;
    int64_t *own = LUO_NEW_N(arena, int64_t, n);
    int32_t *bin = LUO_NEW_N(arena, int32_t, n);
    if (!own || !bin) return luo_err_nomem(err);
    LUO_TRY(group(arena, n, step_plan->assign, plan->n, &member, &first, err));
    for (int32_t r = 0; r < plan->n; r++) {
        const int32_t *mine = member + first[r], count = first[r + 1] - first[r];
        for (int32_t k = 0; k < count; k++) own[k] = length[mine[k]];
        LUO_TRY(luo_pack(arena, &pool->entry[plan->replica[r].entry], own, count, score, bin,
                         &step_plan->packed[r], err));
        for (int32_t k = 0; k < count; k++) step_plan->bin[mine[k]] = bin[k];
    }
    tell_scores(pool, plan, step_plan);
    return LUO_OK;
}

static luo_status make_step(luo_arena *arena, int32_t n, int32_t m, luo_step_plan *plan,
                            luo_err *err)
{
    plan->assign = LUO_NEW_N(arena, int32_t, n);
    plan->bin = LUO_NEW_N(arena, int32_t, n);
    plan->packed = LUO_NEW_N(arena, luo_packed, m);
    return plan->assign && plan->bin && plan->packed ? LUO_OK : luo_err_nomem(err);
}

luo_status luo_step_event(luo_arena *scratch, const luo_pool *pool, const luo_replicas *plan,
                          const luo_packed *packed, const double *mu, double *ms, luo_err *err)
{
    *ms = 0;
    for (int32_t r = 0; r < plan->n; r++) {
        double own;
        LUO_TRY(luo_pack_event(scratch, packed[r].t, packed[r].nbins,
                               pool->entry[plan->replica[r].entry].pp, NULL, &own, err));
        *ms = fmax(*ms, own * (mu ? mu[r] : plan->replica[r].mu));
    }
    return LUO_OK;
}

/* ---- which plans are worth a whole solution ---- */

typedef struct entrant {
    int32_t plan;
    double bound, fast; /* with extra; fast: dispatch, by list scheduling at first */
} entrant;

static int by_bound(const void *x, const void *y)
{
    const entrant *a = x, *b = y;
    if (a->bound != b->bound) return a->bound < b->bound ? -1 : 1;
    return a->plan < b->plan ? -1 : a->plan > b->plan;
}

static int by_fast(const void *x, const void *y)
{
    const entrant *a = x, *b = y;
    if (a->fast != b->fast) return a->fast < b->fast ? -1 : 1;
    return a->plan < b->plan ? -1 : a->plan > b->plan;
}

static luo_dispatch_opts dispatch_opts(const luo_step_opts *opts, bool fast)
{
    return (luo_dispatch_opts){
        .published = opts->published, .fast = fast, .kicks = opts->kicks, .seed = opts->seed};
}

/* The `most` plans with the best fast answer, best first. A plan whose bound is no better than the
 * last of as many answers cannot be among them, so it is not asked. */
static luo_status choose_entrants(const call *c, entrant **out, int32_t *n, luo_err *err)
{
    const int32_t most = c->opts->most > 0 ? c->opts->most : MOST;
    const luo_dispatch_opts opts = dispatch_opts(c->opts, true);
    entrant *all = LUO_NEW_N(c->arena, entrant, c->nplans);
    int32_t *assign = LUO_NEW_N(c->arena, int32_t, c->n), count = 0, kept = 0;
    if (!all || !assign) return luo_err_nomem(err);
    for (int32_t p = 0; p < c->nplans; p++) {
        const double bound = luo_dispatch_bound(c->pool, c->plans[p].replica, c->plans[p].n,
                                                c->length, c->n, c->opts->published);
        if (isfinite(bound)) all[count++] = (entrant){p, bound + extra(c, p), 0};
    }
    qsort(all, (size_t)count, sizeof *all, by_bound);
    for (int32_t k = 0; k < count; k++) {
        entrant e = all[k];
        double fast;
        if (kept == most && e.bound > all[kept - 1].fast) break;
        LUO_TRY(luo_dispatch(c->arena, c->pool, c->plans[e.plan].replica, c->plans[e.plan].n,
                             c->length, c->n, &opts, assign, &fast, err));
        e.fast = fast + extra(c, e.plan);
        if (kept == most && by_fast(&e, &all[kept - 1]) > 0) continue;
        all[kept < most ? kept++ : kept - 1] = e;
        qsort(all, (size_t)kept, sizeof *all, by_fast);
    }
    *out = all;
    *n = kept;
    return LUO_OK;
}

/* ---- the step ---- */

static bool better(const call *c, double value, int32_t plan, double best, int32_t held)
{
    if (held < 0 || value < best - LESS) return true;
    if (value > best + LESS || held == c->opts->current) return false;
    return plan == c->opts->current || plan < held;
}

/* One plan whole, its score with extra in e->fast; *best is the better one of the two. */
static luo_status solve(const call *c, entrant *e, int32_t kicks, luo_step_plan *best,
                        double *value, luo_err *err)
{
    const luo_replicas *plan = &c->plans[e->plan];
    luo_dispatch_opts opts = dispatch_opts(c->opts, false);
    luo_step_plan step_plan = {
        .plan = e->plan, .bound = e->bound - extra(c, e->plan), .solved = best->solved};
    opts.kicks = kicks;
    if (!better(c, e->bound, e->plan, *value, best->plan)) return LUO_OK;
    LUO_TRY(make_step(c->arena, c->n, plan->n, &step_plan, err));
    LUO_TRY(luo_dispatch(c->arena, c->pool, plan->replica, plan->n, c->length, c->n, &opts,
                         step_plan.assign, &step_plan.dispatch, err));
    e->fast = step_plan.dispatch + extra(c, e->plan);
    best->solved = ++step_plan.solved;
    /* Packed, no replica is faster than its estimate. */
    if (!better(c, e->fast, e->plan, *value, best->plan)) return LUO_OK;
    LUO_TRY(pack_all(c->arena, c->pool, plan, c->length, c->n, c->opts->score, &step_plan, err));
    const double now = score_of(&step_plan, c->opts->score) + extra(c, e->plan);
    if (!better(c, now, e->plan, *value, best->plan)) return LUO_OK;
    *value = now;
    *best = step_plan;
    return LUO_OK;
}

/* All without kicks, then those with the best dispatch again with them. */
static luo_status solve_all(const call *c, entrant *at, int32_t n, luo_step_plan *best,
                            luo_err *err)
{
    double value = INFINITY;
    for (int32_t k = 0; k < n; k++) LUO_TRY(solve(c, &at[k], 0, best, &value, err));
    qsort(at, (size_t)n, sizeof *at, by_fast);
    for (int32_t k = 0; k < n && k < KICKED && c->opts->kicks != 0; k++)
        if (at[k].bound < value - LESS)
            LUO_TRY(solve(c, &at[k], c->opts->kicks, best, &value, err));
    return LUO_OK;
}

/* ---- after packing ---- */

static int32_t latest(const call *c, const luo_replicas *plan, const luo_step_plan *step_plan)
{
    int32_t at = 0;
    double most = -1;
    for (int32_t r = 0; r < plan->n; r++) {
        const double t = scored(c->pool, plan, &step_plan->packed[r], r, c->opts->score);
        if (t <= most) continue;
        most = t;
        at = r;
    }
    return at;
}

/* The replica of each entry and speed that is done first: others of its kind are no better. */
static bool first_of_kind(const call *c, const luo_replicas *plan, const luo_step_plan *step_plan,
                          int32_t r)
{
    const double mine = scored(c->pool, plan, &step_plan->packed[r], r, c->opts->score);
    for (int32_t k = 0; k < plan->n; k++) {
        if (plan->replica[k].entry != plan->replica[r].entry ||
            plan->replica[k].mu != plan->replica[r].mu || k == r)
            continue;
        const double other = scored(c->pool, plan, &step_plan->packed[k], k, c->opts->score);
        if (other < mine || (other == mine && k < r)) return false;
    }
    return true;
}

/* Both replicas packed anew with sequence i moved. *after: the later one of the two. */
static luo_status moved(const call *c, const luo_replicas *plan, luo_step_plan *step_plan,
                        int32_t i, int32_t to, luo_packed out[2], double *after, luo_err *err)
{
    const int32_t from = step_plan->assign[i];
    step_plan->assign[i] = to;
    for (int k = 0; k < 2; k++)
        LUO_TRY(pack_replica(c->arena, c->pool, plan, c->length, c->n, step_plan->assign,
                             k ? to : from, c->opts->score, step_plan->bin, &out[k], err));
    *after = fmax(scored(c->pool, plan, &out[0], from, c->opts->score),
                  scored(c->pool, plan, &out[1], to, c->opts->score));
    return LUO_OK;
}

/* One sequence of the latest replica to where that lowers the step, if there is one. */
static luo_status refine_once(const call *c, const luo_replicas *plan, luo_step_plan *step_plan,
                              bool *improved, luo_err *err)
{
    const int32_t from = latest(c, plan, step_plan);
    const double now = scored(c->pool, plan, &step_plan->packed[from], from, c->opts->score);
    int32_t *bin = LUO_NEW_N(c->arena, int32_t, c->n);
    bool *first = LUO_NEW_N(c->arena, bool, plan->n);
    if (!bin || !first) return luo_err_nomem(err);
    *improved = false;
    memcpy(bin, step_plan->bin, (size_t)c->n * sizeof *bin);
    for (int32_t r = 0; r < plan->n; r++)
        first[r] = r != from && first_of_kind(c, plan, step_plan, r);
    for (int32_t i = 0; i < c->n; i++) {
        if (step_plan->assign[i] != from) continue;
        for (int32_t r = 0; r < plan->n; r++) {
            const luo_pool_entry *entry = &c->pool->entry[plan->replica[r].entry];
            luo_packed two[2];
            double after;
            if (!first[r] || c->length[i] > entry->cap ||
                scored(c->pool, plan, &step_plan->packed[r], r, LUO_SCORE_SUM) +
                        plan->replica[r].mu * luo_pool_cost(entry, c->length[i]) >=
                    now)
                continue;
            LUO_TRY(moved(c, plan, step_plan, i, r, two, &after, err));
            if (after < now - LESS) {
                step_plan->packed[from] = two[0];
                step_plan->packed[r] = two[1];
                *improved = true;
                return LUO_OK;
            }
            step_plan->assign[i] = from;
            memcpy(step_plan->bin, bin, (size_t)c->n * sizeof *bin);
        }
    }
    return LUO_OK;
}

static luo_status refine(const call *c, luo_step_plan *step_plan, luo_err *err)
{
    const luo_replicas *plan = &c->plans[step_plan->plan];
    bool improved = !c->opts->unrefined;
    for (int round = 0; round < REFINEMENTS && improved; round++)
        LUO_TRY(refine_once(c, plan, step_plan, &improved, err));
    tell_scores(c->pool, plan, step_plan);
    return LUO_OK;
}

/* ---- answer ---- */

static luo_status fits_no_plan(const call *c, luo_err *err)
{
    int64_t longest = 0, most = 0;
    for (int32_t i = 0; i < c->n; i++) longest = c->length[i] > longest ? c->length[i] : longest;
    for (int32_t p = 0; p < c->nplans; p++) {
        const int64_t held = luo_dispatch_longest(c->pool, c->plans[p].replica, c->plans[p].n);
        most = held > most ? held : most;
    }
    return luo_err_set(err, LUO_EINFEASIBLE,
                       "a sequence of %lld tokens fits no plan, the largest replica holds %lld; "
                       "shorter sequences or more memory are needed.",
                       (long long)longest, (long long)most);
}

luo_status luo_step_choose(luo_arena *arena, const luo_pool *pool, const luo_replicas *plans,
                           int32_t nplans, const int64_t *length, int32_t n,
                           const luo_step_opts *opts, luo_step_plan *out, luo_err *err)
{
    const call c = {arena, pool, plans, nplans, n, length, opts};
    luo_step_plan best = {.plan = -1};
    entrant *entrants = NULL;
    int32_t count = 0;
    assert(n >= 1);
    LUO_TRY(choose_entrants(&c, &entrants, &count, err));
    if (count == 0) return fits_no_plan(&c, err);
    LUO_TRY(solve_all(&c, entrants, count, &best, err));
    LUO_TRY(refine(&c, &best, err));
    LUO_TRY(luo_step_event(arena, pool, &plans[best.plan], best.packed, NULL, &best.event, err));
    *out = best;
    return LUO_OK;
}

void luo_step_speeds(const luo_pool *pool, const luo_replicas *plan, const double *rate)
{
    for (int32_t r = 0, at = 0; r < plan->n; r++) {
        luo_replica *replica = &plan->replica[r];
        const luo_pool_entry *entry = &pool->entry[replica->entry];
        const int32_t end = at + luo_pool_devices(entry);
        const bool known = !rate || entry->split;
        for (replica->mu = known ? 1 : 0; at < end; at++)
            if (!known) replica->mu = fmax(replica->mu, rate[at]);
    }
}

luo_step_floor luo_step_floor_of(const luo_pool *pool, int32_t devices, const double *rate,
                                 const int64_t *length, int32_t n)
{
    luo_step_floor out = {0, 0};
    double speed = 0, fastest = rate ? INFINITY : 1;
    for (int32_t i = 0; i < devices; i++) {
        speed += rate ? 1 / rate[i] : 1;
        if (rate) fastest = fmin(fastest, rate[i]);
    }
    int64_t longest = 0;
    double alone = INFINITY;
    for (int32_t i = 0; i < n; i++) {
        double least = INFINITY;
        longest = length[i] > longest ? length[i] : longest;
        for (int32_t k = 0; k < pool->n; k++)
            if (pool->entry[k].cap >= length[i])
                least = fmin(least, luo_pool_devices(&pool->entry[k]) *
                                        luo_pool_cost(&pool->entry[k], length[i]));
        out.balanced_ms += least / speed;
    }
    for (int32_t k = 0; k < pool->n && n > 0; k++)
        if (pool->entry[k].cap >= longest && luo_pool_devices(&pool->entry[k]) <= devices)
            alone = fmin(alone, pool->entry[k].pp * luo_pool_cost(&pool->entry[k], longest));
    out.floor_ms = n > 0 ? fastest * alone : 0;
    return out;
}
