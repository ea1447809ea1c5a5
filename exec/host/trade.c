/* trade.c: rows on their way to experts and back. The counts of both ends have come before. */
#include <limits.h>
#include <string.h>

#include "exec/host/job.h"

luo_status host_bind_trade(luo_job *job, host_comm *comm, luo_err *err)
{
    const luo_bound_trade *t = comm->b->trade;
    if (t->most > INT_MAX)
        return luo_err_set(err, LUO_E2BIG,
                           "rows of experts could be over 2^31 elements; deal the experts to more "
                           "devices.");
    comm->counts = LUO_NEW_N(job->arena, int, 2 * (int64_t)t->n);
    comm->starts = LUO_NEW_N(job->arena, int, 2 * (int64_t)t->n);
    if (!comm->counts || !comm->starts) return luo_err_nomem(err);
    comm->send_bytes = t->counts ? 0 : t->most * (int64_t)job->x->k->elem;
    return LUO_OK;
}

static int64_t value_at(const luo_rank *rank, const void *counts, int64_t i)
{
    return rank->x->k->elem == sizeof(float) ? (int64_t)((const float *)counts)[i]
                                             : (int64_t)((const double *)counts)[i];
}

/* Rows of local expert e that sender s has here. */
static int64_t rows_of(const luo_rank *rank, const luo_bound_trade *t, const void *there, int32_t s,
                       int64_t e)
{
    const int64_t here = t->expert[t->rank + 1] - t->expert[t->rank];
    return value_at(rank, there, s * t->each * here + e);
}

/* What every rank gets from home, and what comes from every rank there; with their starts. Without
 * `home` it is the other way round. */
static void count_parts(luo_rank *rank, const luo_bound_trade *t, int32_t task, host_comm *comm)
{
    const void *home = host_buf(rank, t->home, task), *there = host_buf(rank, t->there, task);
    int *at_home = comm->counts + (t->back ? t->n : 0);
    int *at_there = comm->counts + (t->back ? 0 : t->n);
    for (int32_t r = 0; r < t->n; r++) {
        int64_t n = 0;
        for (int64_t e = t->expert[r]; e < t->expert[r + 1]; e++) n += value_at(rank, home, e);
        at_home[r] = (int)(n * t->width);
        n = 0;
        for (int64_t e = 0; e < t->expert[t->rank + 1] - t->expert[t->rank]; e++)
            n += rows_of(rank, t, there, r, e);
        at_there[r] = (int)(n * t->width);
    }
    for (int32_t k = 0; k < 2; k++)
        for (int32_t r = 0, at = 0; r < t->n; at += comm->counts[k * t->n + r++])
            comm->starts[k * t->n + r] = at;
}

/* Between rows by (sender, expert) and by (expert, sender). */
static void reorder(luo_rank *rank, const luo_bound_trade *t, int32_t task, char *by_sender,
                    char *by_expert)
{
    const void *there = host_buf(rank, t->there, task);
    const int64_t experts = t->expert[t->rank + 1] - t->expert[t->rank];
    const int64_t bytes = t->width * (int64_t)rank->x->k->elem;
    for (int64_t e = 0; e < experts; e++) {
        int64_t from = 0;
        for (int32_t s = 0; s < t->n; s++) {
            for (int64_t i = 0; i < e; i++) from += rows_of(rank, t, there, s, i);
            const size_t n = (size_t)(rows_of(rank, t, there, s, e) * bytes);
            char *at = by_sender + from * bytes;
            if (t->back)
                memcpy(at, by_expert, n);
            else
                memcpy(by_expert, at, n);
            by_expert += n;
            for (int64_t i = e; i < experts; i++) from += rows_of(rank, t, there, s, i);
        }
    }
}

static luo_status exchange(luo_rank *rank, host_pending *pending, const void *from, void *to)
{
    const host_comm *comm = pending->op->comm;
    const int32_t n = comm->b->trade->n;
    return host_mpi(&rank->err,
                    MPI_Ialltoallv(from, comm->counts, comm->starts, rank->x->type, to,
                                   comm->counts + n, comm->starts + n, rank->x->type, comm->comm,
                                   pending->req),
                    "an all-to-all");
}

/* A sender's counts of the experts of a rank; rows of counts that nobody sends are 0. */
static luo_status begin_counts(luo_rank *rank, host_pending *pending)
{
    host_comm *comm = pending->op->comm;
    const luo_bound_trade *t = comm->b->trade;
    const int64_t here = t->expert[t->rank + 1] - t->expert[t->rank];
    void *to = host_buf(rank, t->there, pending->task);
    memset(to, 0, (size_t)luo_bound_desc(&rank->job->b, t->there)->bytes);
    for (int32_t r = 0; r < t->n; r++) {
        comm->counts[r] = (int)(t->expert[r + 1] - t->expert[r]);
        comm->starts[r] = (int)t->expert[r];
        comm->counts[t->n + r] = (int)here;
        comm->starts[t->n + r] = (int)(r * t->each * here);
    }
    return exchange(rank, pending, host_buf(rank, t->home, pending->task), to);
}

luo_status host_begin_trade(luo_rank *rank, host_pending *pending)
{
    host_comm *comm = pending->op->comm;
    const luo_bound_trade *t = comm->b->trade;
    if (t->counts) return begin_counts(rank, pending);
    char *in = host_buf(rank, comm->b->route.in, pending->task);
    char *out = host_buf(rank, comm->b->route.out, pending->task);
    count_parts(rank, t, pending->task, comm);
    if (t->back) reorder(rank, t, pending->task, comm->message, in);
    return exchange(rank, pending, t->back ? comm->message : in, t->back ? out : comm->message);
}

void host_trade_arrived(luo_rank *rank, const host_pending *pending)
{
    const host_comm *comm = pending->op->comm;
    const luo_bound_trade *t = comm->b->trade;
    if (t->counts || t->back) return;
    reorder(rank, t, pending->task, comm->message,
            host_buf(rank, comm->b->route.out, pending->task));
}
