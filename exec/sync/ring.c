/* ring.c: all-reduce among any set of workers by messages alone. A communicator for each set would
 * run out of them: there are 2^workers sets. */
#include <stdlib.h>

#include "exec/sync/sync_rank.h"

typedef struct ring {
    luo_sync_rank *rank;
    int32_t n, me, before, after; /* ranks of the neighbours */
    int tag;
    int64_t count;
    double *data, *arrived;
} ring;

static int64_t begin_of(const ring *r, int32_t part)
{
    return r->count * part / r->n;
}

static int32_t wrap(const ring *r, int32_t part)
{
    return (part % r->n + r->n) % r->n;
}

/* Part `out` goes to the next member while part `in` comes from the one before. */
static void pass(ring *r, int32_t out, int32_t in, double *into)
{
    MPI_Request requests[2];
    const int64_t from = begin_of(r, out), n_out = begin_of(r, out + 1) - from;
    const int64_t n_in = begin_of(r, in + 1) - begin_of(r, in);
    luo_sync_die(r->rank);
    r->rank->bytes[LUO_SYNC_PASSED] += n_out * (int64_t)sizeof *r->data;
    r->rank->payload[LUO_SYNC_PASSED] += n_out * (int64_t)sizeof *r->data;
    luo_watch_begin(&r->rank->watch, "worker %d and worker %d of its group to pass sums on",
                    (int)r->before, (int)r->after);
    MPI_Irecv(into, (int)n_in, MPI_DOUBLE, r->before, r->tag, r->rank->world, &requests[0]);
    MPI_Isend(r->data + from, (int)n_out, MPI_DOUBLE, r->after, r->tag, r->rank->world,
              &requests[1]);
    luo_watch_all(requests, 2);
    luo_watch_end(&r->rank->watch);
}

static void reduce_scatter(ring *r)
{
    for (int32_t step = 0; step + 1 < r->n; step++) {
        const int32_t in = wrap(r, r->me - step - 1);
        const int64_t from = begin_of(r, in), n = begin_of(r, in + 1) - from;
        pass(r, wrap(r, r->me - step), in, r->arrived);
        for (int64_t i = 0; i < n; i++) r->data[from + i] += r->arrived[i];
    }
}

static void all_gather(ring *r)
{
    for (int32_t step = 0; step + 1 < r->n; step++) {
        const int32_t in = wrap(r, r->me - step);
        pass(r, wrap(r, r->me + 1 - step), in, r->data + begin_of(r, in));
    }
}

luo_status luo_sync_ring(luo_sync_rank *rank, const int32_t *members, int32_t n, double *data,
                         int64_t count, int tag, luo_err *err)
{
    ring r = {.rank = rank, .n = n, .tag = tag, .count = count, .data = data};
    if (n == 1) return LUO_OK;
    while (members[r.me] != rank->rank) r.me++;
    r.before = members[wrap(&r, r.me - 1)];
    r.after = members[wrap(&r, r.me + 1)];
    r.arrived = malloc(((size_t)(count / n) + 1) * sizeof *r.arrived);
    if (!r.arrived) return luo_err_nomem(err);
    reduce_scatter(&r);
    all_gather(&r);
    free(r.arrived);
    return LUO_OK;
}
