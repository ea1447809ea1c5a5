#include "core/sync/preduce.h"
#include "core/base/vec.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LEAST_GROUP = 2 }; /* adaptive: a group below it should have waited longer */

static luo_status check(const luo_preduce_opts *o, luo_err *err)
{
    if (o->workers < 1 || o->max_group < 1 || o->max_group > o->workers)
        return luo_err_set(err, LUO_EUSAGE,
                           "groups of at most %d among %d workers; 1 to all of at least one worker "
                           "are expected.",
                           o->max_group, o->workers);
    if (!(o->wait_s >= 0) || o->guard < 0)
        return luo_err_set(err, LUO_EUSAGE,
                           "a group waits %g s with guard %d; numbers from 0 on are expected.",
                           o->wait_s, o->guard);
    if (o->adaptive && !(o->wait_min_s >= 0 && o->wait_max_s >= o->wait_min_s))
        return luo_err_set(err, LUO_EUSAGE,
                           "adaptive waits are from %g to %g s; a range from 0 on is expected.",
                           o->wait_min_s, o->wait_max_s);
    return LUO_OK;
}

/* ---- the union of workers since the last guard group ---- */

static void separate(luo_preduce *p)
{
    for (int32_t w = 0; w < p->opts.workers; w++) {
        p->parent[w] = w;
        p->alive[w] = !p->gone[w];
    }
    p->components = p->living;
}

static int32_t root_of(const luo_preduce *p, int32_t w)
{
    while (p->parent[w] != w) w = p->parent[w] = p->parent[p->parent[w]];
    return w;
}

/* Components are those with a living worker. */
static void unite(luo_preduce *p, int32_t a, int32_t b)
{
    int32_t x = root_of(p, a), y = root_of(p, b);
    if (x == y) return;
    if (p->alive[x] < p->alive[y]) {
        const int32_t other = x;
        x = y;
        y = other;
    }
    p->parent[y] = x;
    p->components -= p->alive[x] > 0 && p->alive[y] > 0;
    p->alive[x] += p->alive[y];
}

luo_status luo_preduce_new(luo_arena *arena, const luo_preduce_opts *opts, luo_preduce *out,
                           luo_err *err)
{
    LUO_TRY(check(opts, err));
    const int32_t n = opts->workers;
    luo_preduce p = {.opts = *opts, .living = n, .deadline = INFINITY};
    p.ready = LUO_NEW_N(arena, int32_t, n);
    p.member = LUO_NEW_N(arena, int32_t, n);
    p.iteration = LUO_NEW_N(arena, int64_t, n);
    p.member_iteration = LUO_NEW_N(arena, int64_t, n);
    p.gone = LUO_NEW_N(arena, bool, n);
    p.waiting = LUO_NEW_N(arena, bool, n);
    p.wait = LUO_NEW_N(arena, double, n);
    p.parent = LUO_NEW_N(arena, int32_t, n);
    p.alive = LUO_NEW_N(arena, int32_t, n);
    if (!p.ready || !p.member || !p.iteration || !p.member_iteration || !p.gone || !p.waiting ||
        !p.wait || !p.parent || !p.alive)
        return luo_err_nomem(err);
    for (int32_t w = 0; w < n; w++) p.wait[w] = opts->wait_s;
    separate(&p);
    *out = p;
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

static void adapt(luo_preduce *p, const luo_preduce_group *part)
{
    for (int32_t i = 0; i < part->n; i++) {
        double *wait = &p->wait[part->member[i]];
        *wait = part->n < LEAST_GROUP ? fmin(2 * *wait, p->opts.wait_max_s)
                                      : fmax(0.9 * *wait, p->opts.wait_min_s);
    }
}

/* Waits of the members, and, of pairs, the union: as they are cut. */
static void settle(luo_preduce *p, const luo_preduce_group *closed)
{
    luo_preduce_group part;
    for (int32_t i = 0; luo_preduce_group_part(closed, i, &part), part.n > 0; i++) {
        if (p->opts.adaptive) adapt(p, &part);
        if (closed->pairs && part.n == 2) unite(p, part.member[0], part.member[1]);
    }
}

/* Does the count of arrivals pass a multiple of guard x workers? */
static bool guard_is_due(const luo_preduce *p, int64_t before)
{
    const int64_t every = (int64_t)p->opts.guard * p->opts.workers;
    return every > 0 && p->seen / every > before / every;
}

static void close_group(luo_preduce *p, double t_s, luo_preduce_group *out)
{
    const int64_t before = p->seen;
    memcpy(p->member, p->ready, (size_t)p->nready * sizeof *p->member);
    qsort(p->member, (size_t)p->nready, sizeof *p->member, luo_vec_by_int32);
    for (int32_t i = 0; i < p->nready; i++) {
        p->member_iteration[i] = p->iteration[p->member[i]];
        p->waiting[p->member[i]] = false;
    }
    *out = (luo_preduce_group){.t_s = t_s,
                               .n = p->nready,
                               .member = p->member,
                               .iteration = p->member_iteration,
                               .guard = p->is_guard,
                               .pairs = p->opts.pairs && !p->is_guard};
    settle(p, out);
    p->seen += p->nready;
    p->nready = 0;
    p->deadline = INFINITY;
    if (p->is_guard) {
        separate(p);
        p->need_guard = false;
    }
    if (guard_is_due(p, before)) p->need_guard = true;
}

static bool full(const luo_preduce *p)
{
    if (p->nready == 0) return false;
    if (p->is_guard) return p->components == 1;
    return p->nready >= (p->opts.max_group < p->living ? p->opts.max_group : p->living);
}

luo_status luo_preduce_arrive(luo_preduce *preduce, double t_s, int32_t rank, int64_t iteration,
                              luo_preduce_group *out, luo_err *err)
{
    luo_preduce *p = preduce;
    out->n = 0;
    if (rank < 0 || rank >= p->opts.workers || p->gone[rank] || p->waiting[rank])
        return luo_err_set(err, LUO_EBUG,
                           "worker %d arrives and waits already, or has left; each arrives once "
                           "before its group.",
                           rank);
    if (p->nready == 0) {
        p->is_guard = p->need_guard;
        p->deadline = p->is_guard ? INFINITY : t_s + p->wait[rank];
    }
    p->ready[p->nready++] = rank;
    p->waiting[rank] = true;
    p->iteration[rank] = iteration;
    if (p->is_guard || !p->opts.pairs) unite(p, rank, p->ready[0]);
    if (full(p)) close_group(p, t_s, out);
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

static void drop_ready(luo_preduce *p, int32_t rank)
{
    int32_t at = 0;
    while (p->ready[at] != rank) at++;
    p->nready--;
    memmove(p->ready + at, p->ready + at + 1, (size_t)(p->nready - at) * sizeof *p->ready);
    p->waiting[rank] = false;
    if (p->nready == 0) p->deadline = INFINITY;
}

void luo_preduce_leave(luo_preduce *preduce, double t_s, int32_t rank, luo_preduce_group *out)
{
    luo_preduce *p = preduce;
    out->n = 0;
    if (p->gone[rank]) return;
    const int32_t root = root_of(p, rank);
    p->gone[rank] = true;
    p->living--;
    if (--p->alive[root] == 0) p->components--;
    if (p->waiting[rank]) drop_ready(p, rank);
    if (full(p)) close_group(p, t_s, out);
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
