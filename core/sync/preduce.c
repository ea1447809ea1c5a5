#include "core/sync/preduce.h"
#include "core/base/vec.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LEAST_GROUP = 2 }; /* adaptive: a group below it should have waited longer */

static luo_status check(const luo_preduce_opts *opts, luo_err *err)
{
    if (opts->workers < 1 || opts->max_group < 1 || opts->max_group > opts->workers)
        return luo_err_set(err, LUO_EUSAGE,
                           "groups of at most %d among %d workers; 1 to all of at least one worker "
                           "are expected.",
                           opts->max_group, opts->workers);
    if (!(opts->wait_s >= 0) || opts->guard < 0)
        return luo_err_set(err, LUO_EUSAGE,
                           "a group waits %g s with guard %d; numbers from 0 on are expected.",
                           opts->wait_s, opts->guard);
    if (opts->adaptive && !(opts->wait_min_s >= 0 && opts->wait_max_s >= opts->wait_min_s))
        return luo_err_set(err, LUO_EUSAGE,
                           "adaptive waits are from %g to %g s; a range from 0 on is expected.",
                           opts->wait_min_s, opts->wait_max_s);
    return LUO_OK;
}

/* ---- the union of workers since the last guard group ---- */

static void separate(luo_preduce *reduce)
{
    for (int32_t w = 0; w < reduce->opts.workers; w++) {
        reduce->parent[w] = w;
        reduce->alive[w] = !reduce->gone[w];
    }
    reduce->components = reduce->living;
}

static int32_t root_of(const luo_preduce *reduce, int32_t w)
{
    while (reduce->parent[w] != w) w = reduce->parent[w] = reduce->parent[reduce->parent[w]];
    return w;
}

/* Components are those with a living worker. */
static void unite(luo_preduce *reduce, int32_t a, int32_t b)
{
    int32_t x = root_of(reduce, a), y = root_of(reduce, b);
    if (x == y) return;
    if (reduce->alive[x] < reduce->alive[y]) {
        const int32_t other = x;
        x = y;
        y = other;
    }
    reduce->parent[y] = x;
    reduce->components -= reduce->alive[x] > 0 && reduce->alive[y] > 0;
    reduce->alive[x] += reduce->alive[y];
}

luo_status luo_preduce_new(luo_arena *arena, const luo_preduce_opts *opts, luo_preduce *out,
                           luo_err *err)
{
    LUO_TRY(check(opts, err));
    const int32_t n = opts->workers;
    luo_preduce reduce = {.opts = *opts, .living = n, .deadline = INFINITY};
    reduce.ready = LUO_NEW_N(arena, int32_t, n);
    reduce.member = LUO_NEW_N(arena, int32_t, n);
    reduce.iteration = LUO_NEW_N(arena, int64_t, n);
    reduce.member_iteration = LUO_NEW_N(arena, int64_t, n);
    reduce.gone = LUO_NEW_N(arena, bool, n);
    reduce.waiting = LUO_NEW_N(arena, bool, n);
    reduce.wait = LUO_NEW_N(arena, double, n);
    reduce.parent = LUO_NEW_N(arena, int32_t, n);
    reduce.alive = LUO_NEW_N(arena, int32_t, n);
    if (!reduce.ready || !reduce.member || !reduce.iteration || !reduce.member_iteration ||
        !reduce.gone || !reduce.waiting || !reduce.wait || !reduce.parent || !reduce.alive)
        return luo_err_nomem(err);
    for (int32_t w = 0; w < n; w++) reduce.wait[w] = opts->wait_s;
    separate(&reduce);
    *out = reduce;
    return LUO_OK;
}

/* ---- groups ---- */

void luo_preduce_group_part(const luo_preduce_group *closed, int32_t i, luo_preduce_group *part)
{
    *part = *closed;
    const int32_t size = closed->pairs ? 2 : closed->n;
    if ((int64_t)i * size >= closed->n) {
        part->n = 0;
        return;
    }
    const int32_t from = i * size;
    part->member += from;
    part->iteration += from;
    part->n = closed->n - from < size ? closed->n - from : size;
}

static void adapt(luo_preduce *reduce, const luo_preduce_group *part)
{
    for (int32_t i = 0; i < part->n; i++) {
        double *wait = &reduce->wait[part->member[i]];
        *wait = part->n < LEAST_GROUP ? fmin(2 * *wait, reduce->opts.wait_max_s)
                                      : fmax(0.9 * *wait, reduce->opts.wait_min_s);
    }
}

/* Waits of the members, and, of pairs, the union: as they are cut. */
static void settle(luo_preduce *reduce, const luo_preduce_group *closed)
{
    luo_preduce_group part;
    for (int32_t i = 0; luo_preduce_group_part(closed, i, &part), part.n > 0; i++) {
        if (reduce->opts.adaptive) adapt(reduce, &part);
        if (closed->pairs && part.n == 2) unite(reduce, part.member[0], part.member[1]);
    }
}

/* Does the count of arrivals pass a multiple of guard x workers? */
static bool guard_is_due(const luo_preduce *reduce, int64_t before)
{
    const int64_t every = (int64_t)reduce->opts.guard * reduce->opts.workers;
    return every > 0 && reduce->seen / every > before / every;
}

static void close_group(luo_preduce *reduce, double t_s, luo_preduce_group *out)
{
    const int64_t before = reduce->seen;
    memcpy(reduce->member, reduce->ready, (size_t)reduce->nready * sizeof *reduce->member);
    qsort(reduce->member, (size_t)reduce->nready, sizeof *reduce->member, luo_vec_by_int32);
    for (int32_t i = 0; i < reduce->nready; i++) {
        reduce->member_iteration[i] = reduce->iteration[reduce->member[i]];
        reduce->waiting[reduce->member[i]] = false;
    }
    *out = (luo_preduce_group){.t_s = t_s,
                               .n = reduce->nready,
                               .member = reduce->member,
                               .iteration = reduce->member_iteration,
                               .guard = reduce->is_guard,
                               .pairs = reduce->opts.pairs && !reduce->is_guard};
    settle(reduce, out);
    reduce->seen += reduce->nready;
    reduce->nready = 0;
    reduce->deadline = INFINITY;
    if (reduce->is_guard) {
        separate(reduce);
        reduce->need_guard = false;
    }
    if (guard_is_due(reduce, before)) reduce->need_guard = true;
}

static bool full(const luo_preduce *reduce)
{
    if (reduce->nready == 0) return false;
    if (reduce->is_guard) return reduce->components == 1;
    return reduce->nready >=
           (reduce->opts.max_group < reduce->living ? reduce->opts.max_group : reduce->living);
}

luo_status luo_preduce_arrive(luo_preduce *preduce, double t_s, int32_t rank, int64_t iteration,
                              luo_preduce_group *out, luo_err *err)
{
    luo_preduce *reduce = preduce;
    out->n = 0;
    if (rank < 0 || rank >= reduce->opts.workers || reduce->gone[rank] || reduce->waiting[rank])
        return luo_err_set(err, LUO_EBUG,
                           "worker %d arrives and waits already, or has left; each arrives once "
                           "before its group.",
                           rank);
    if (reduce->nready == 0) {
        reduce->is_guard = reduce->need_guard;
        reduce->deadline = reduce->is_guard ? INFINITY : t_s + reduce->wait[rank];
    }
    reduce->ready[reduce->nready++] = rank;
    reduce->waiting[rank] = true;
    reduce->iteration[rank] = iteration;
    if (reduce->is_guard || !reduce->opts.pairs) unite(reduce, rank, reduce->ready[0]);
    if (full(reduce)) close_group(reduce, t_s, out);
    return LUO_OK;
}

double luo_preduce_deadline(const luo_preduce *preduce)
{
    return preduce->deadline;
}

void luo_preduce_timer(luo_preduce *preduce, double t_s, luo_preduce_group *out)
{
    out->n = 0;
    if (preduce->nready > 0 && !preduce->is_guard && t_s >= preduce->deadline)
        close_group(preduce, t_s, out);
}

static void drop_ready(luo_preduce *reduce, int32_t rank)
{
    int32_t at = 0;
    while (reduce->ready[at] != rank) at++;
    reduce->nready--;
    memmove(reduce->ready + at, reduce->ready + at + 1,
            (size_t)(reduce->nready - at) * sizeof *reduce->ready);
    reduce->waiting[rank] = false;
    if (reduce->nready == 0) reduce->deadline = INFINITY;
}

void luo_preduce_leave(luo_preduce *preduce, double t_s, int32_t rank, luo_preduce_group *out)
{
    luo_preduce *reduce = preduce;
    out->n = 0;
    if (reduce->gone[rank]) return;
    const int32_t root = root_of(reduce, rank);
    reduce->gone[rank] = true;
    reduce->living--;
    if (--reduce->alive[root] == 0) reduce->components--;
    if (reduce->waiting[rank]) drop_ready(reduce, rank);
    if (full(reduce)) close_group(reduce, t_s, out);
}

void luo_preduce_join(luo_preduce *preduce, int32_t rank)
{
    if (!preduce->gone[rank]) return;
    preduce->gone[rank] = false;
    preduce->living++;
    if (preduce->alive[root_of(preduce, rank)]++ == 0) preduce->components++;
}

void luo_preduce_weights(const int64_t *iteration, int32_t n, double beta, double *w)
{
    int64_t latest = iteration[0];
    double sum = 0;
    for (int32_t i = 1; i < n; i++)
        if (iteration[i] > latest) latest = iteration[i];
    for (int32_t i = 0; i < n; i++) sum += w[i] = pow(beta, (double)(latest - iteration[i]));
    for (int32_t i = 0; i < n; i++) w[i] /= sum;
}
