/* groups.c: a worker that steps on its own and averages with the members of a group. */
#include <stdlib.h>
#include <string.h>

#include "exec/sync/sync_rank.h"

typedef struct member {
    luo_sync_rank *rank;
    int64_t cells;
    double *rows;      /* all parameters */
    double *averaging; /* weights of a group */
    int64_t *message;  /* of the controller */
    int32_t *member;
    luo_sync_local local;
    MPI_Comm comms[LUO_SYNC_SLOTS]; /* of groups, as the controller numbers them */
} member;

luo_status luo_sync_local_open(luo_sync_rank *rank, luo_sync_local *out, luo_err *err)
{
    const int64_t most = luo_toy_most(&rank->toy), cells = most * rank->toy.width;
    *out = (luo_sync_local){.toy = &rank->toy,
                            .rate = rank->job.rate,
                            .keys = LUO_NEW_N(rank->arena, uint64_t, most),
                            .values = LUO_NEW_N(rank->arena, double, cells),
                            .grads = LUO_NEW_N(rank->arena, double, cells)};
    return out->keys && out->values && out->grads ? LUO_OK : luo_err_nomem(err);
}

void luo_sync_local_step(const luo_sync_local *local, int64_t worker, int64_t k, double *rows)
{
    const size_t width = (size_t)local->toy->width;
    const int32_t n = luo_toy_keys(local->toy, worker, k, local->keys);
    for (int32_t i = 0; i < n; i++)
        memcpy(local->values + (size_t)i * width, rows + local->keys[i] * width,
               width * sizeof *rows);
    luo_toy_step(local->toy, worker, k, local->rate, n, local->keys, local->values, local->grads);
    for (int32_t i = 0; i < n; i++)
        for (size_t c = 0; c < width; c++)
            rows[local->keys[i] * width + c] += local->grads[(size_t)i * width + c];
}

static luo_status make(member *w, luo_err *err)
{
    luo_sync_rank *rank = w->rank;
    w->cells = rank->toy.rows * rank->toy.width;
    w->rows = LUO_NEW_N(rank->arena, double, w->cells);
    w->averaging = LUO_NEW_N(rank->arena, double, rank->workers);
    w->message = LUO_NEW_N(rank->arena, int64_t, LUO_SYNC_HEAD + 2 * rank->workers);
    w->member = LUO_NEW_N(rank->arena, int32_t, rank->workers);
    if (!w->rows || !w->averaging || !w->message || !w->member) return luo_err_nomem(err);
    for (int i = 0; i < LUO_SYNC_SLOTS; i++) w->comms[i] = MPI_COMM_NULL;
    luo_toy_start(&rank->toy, w->rows);
    return luo_sync_local_open(rank, &w->local, err);
}

/* ---- the average of a group ---- */

static void scale(member *w, double by)
{
    for (int64_t i = 0; i < w->cells; i++) w->rows[i] *= by;
}

/* Frees what had the slot: Open MPI does that without the other members, who may do it later. */
static void make_comm(member *w, int32_t at, int32_t n)
{
    MPI_Group all, group;
    luo_watch_begin(&w->rank->watch, "the members of its group to make a communicator");
    if (w->comms[at] != MPI_COMM_NULL) MPI_Comm_free(&w->comms[at]);
    MPI_Comm_group(w->rank->workers_comm, &all);
    MPI_Group_incl(all, n, w->member, &group);
    MPI_Comm_create_group(w->rank->workers_comm, group, at, &w->comms[at]);
    MPI_Group_free(&group);
    MPI_Group_free(&all);
    luo_watch_end(&w->rank->watch);
}

static void reduce_in(member *w, MPI_Comm comm)
{
    MPI_Request request;
    luo_watch_begin(&w->rank->watch, "the members of its group to average");
    MPI_Iallreduce(MPI_IN_PLACE, w->rows, (int)w->cells, MPI_DOUBLE, MPI_SUM, comm, &request);
    luo_watch_all(&request, 1);
    luo_watch_end(&w->rank->watch);
}

static luo_status average(member *w, luo_err *err)
{
    const int64_t *m = w->message;
    const int32_t n = (int32_t)m[1];
    int32_t me = 0;
    for (int32_t i = 0; i < n; i++) w->member[i] = (int32_t)m[LUO_SYNC_HEAD + i];
    while (w->member[me] != w->rank->rank) me++;
    if (n == 1) return LUO_OK;
    luo_preduce_weights(m + LUO_SYNC_HEAD + n, n, w->rank->job.beta, w->averaging);
    scale(w, w->averaging[me]);
    if (m[2] < 0)
        return luo_sync_ring(w->rank, w->member, n, w->rows, w->cells,
                             LUO_SYNC_RING + (int)(m[0] % LUO_SYNC_RINGS), err);
    if (m[3]) make_comm(w, (int32_t)m[2], n);
    reduce_in(w, w->comms[m[2]]);
    return LUO_OK;
}

static luo_status iterate(member *w, int64_t k, luo_err *err)
{
    luo_sync_rank *rank = w->rank;
    const double start_s = luo_sync_now(rank);
    luo_sync_local_step(&w->local, rank->rank, k, w->rows);
    const double compute_s = luo_sync_compute(rank, k, start_s);
    luo_sync_send(rank, rank->workers, LUO_SYNC_ARRIVE, &k, sizeof k);
    luo_sync_receive(rank, rank->workers, LUO_SYNC_GROUP, w->message,
                     luo_sync_probe(rank, rank->workers, LUO_SYNC_GROUP));
    const double wait_s = luo_sync_now(rank) - start_s - compute_s;
    LUO_TRY(average(w, err));
    return luo_sync_row(rank, err, "%d,%lld,%.9f,%.9f,%.9f,%.9f,%lld\n", (int)rank->rank,
                        (long long)k, start_s, luo_sync_now(rank), compute_s, wait_s,
                        (long long)w->message[0]);
}

/* ---- the end ---- */

/* rows of all workers, at worker 0. */
static void gather(member *w, double *all)
{
    luo_sync_rank *rank = w->rank;
    const size_t bytes = (size_t)w->cells * sizeof *w->rows;
    if (rank->rank > 0) {
        luo_sync_send(rank, 0, LUO_SYNC_RECORD, w->rows, bytes);
        return;
    }
    memcpy(all, w->rows, bytes);
    for (int32_t i = 1; i < rank->workers; i++)
        luo_sync_receive(rank, i, LUO_SYNC_RECORD, all + (size_t)i * (size_t)w->cells, bytes);
}

static luo_status average_all(member *w, luo_err *err)
{
    for (int32_t i = 0; i < w->rank->workers; i++) w->member[i] = i;
    scale(w, 1.0 / w->rank->workers);
    return luo_sync_ring(w->rank, w->member, w->rank->workers, w->rows, w->cells,
                         LUO_SYNC_RING + LUO_SYNC_RINGS, err);
}

/* The largest difference of any worker's weights, and of their average. */
static luo_status verify(member *w, const double *before, luo_err *err)
{
    luo_sync_rank *rank = w->rank;
    const int64_t n = w->cells * rank->workers;
    double *again = LUO_NEW_N(rank->arena, double, n),
           *mean = LUO_NEW_N(rank->arena, double, w->cells);
    const size_t bytes = luo_sync_probe(rank, rank->workers, LUO_SYNC_LOG);
    int64_t *log = luo_arena_alloc(rank->arena, bytes);
    if (!again || !mean || !log) return luo_err_nomem(err);
    luo_sync_receive(rank, rank->workers, LUO_SYNC_LOG, log, bytes);
    LUO_TRY(luo_sync_verify_groups(rank, log, (int64_t)(bytes / sizeof *log), again, err));
    for (int64_t i = 0; i < n; i++) mean[i % w->cells] += again[i] / rank->workers;
    const double each = luo_sync_verify_differ(before, again, n);
    const double whole = luo_sync_verify_differ(w->rows, mean, w->cells);
    return luo_sync_fact(rank, "verify", each > whole ? each : whole, err);
}

static luo_status finish(member *w, luo_err *err)
{
    luo_sync_rank *rank = w->rank;
    double *before = NULL;
    if (rank->job.verify && rank->rank == 0) {
        before = LUO_NEW_N(rank->arena, double, w->cells * rank->workers);
        if (!before) return luo_err_nomem(err);
    }
    if (rank->job.verify) gather(w, before);
    LUO_TRY(average_all(w, err));
    if (rank->rank > 0) return LUO_OK;
    LUO_TRY(luo_sync_outcome(rank, w->rows, err));
    return before ? verify(w, before, err) : LUO_OK;
}

luo_status luo_sync_worker_groups(luo_sync_rank *rank, luo_err *err)
{
    member w = {.rank = rank};
    LUO_TRY(make(&w, err));
    for (int64_t k = 0; k < rank->job.iterations; k++) LUO_TRY(iterate(&w, k, err));
    luo_sync_send(rank, rank->workers, LUO_SYNC_LEAVE, NULL, 0);
    LUO_TRY(luo_sync_bytes(rank, err));
    luo_sync_barrier(rank, "to finish");
    LUO_TRY(finish(&w, err));
    for (int i = 0; i < LUO_SYNC_SLOTS; i++)
        if (w.comms[i] != MPI_COMM_NULL) MPI_Comm_free(&w.comms[i]);
    return LUO_OK;
}
