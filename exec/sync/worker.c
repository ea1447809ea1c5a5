/* worker.c: a worker with a clock: rows on parameter servers, and rows that all workers have and
 * all-reduce, or either alone. Where there is an all-reduce it is a barrier. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "exec/sync/sync_rank.h"

typedef struct worker {
    luo_sync_client client;
    luo_sync_rank *rank;
    int32_t n, served; /* keys of the iteration; the first of them are on servers */
    uint64_t *keys;
    int64_t *counts, *versions;
    bool *given;
    int64_t *all_versions; /* of all rows */
    double *values, *grads;
    int64_t ringed;    /* numbers that are all-reduced */
    double *own, *sum; /* they, and a gradient of them */
    int32_t *all;      /* workers */
    double wait_s;     /* before the iteration under way */
} worker;

static luo_status make(worker *w, luo_err *err)
{
    luo_sync_rank *rank = w->rank;
    const int64_t most = luo_toy_most(&rank->toy), cells = most * rank->toy.width;
    w->keys = LUO_NEW_N(rank->arena, uint64_t, most);
    w->counts = LUO_NEW_N(rank->arena, int64_t, most);
    w->versions = LUO_NEW_N(rank->arena, int64_t, most);
    w->given = LUO_NEW_N(rank->arena, bool, most);
    w->values = LUO_NEW_N(rank->arena, double, cells);
    w->grads = LUO_NEW_N(rank->arena, double, cells);
    w->all_versions = LUO_NEW_N(rank->arena, int64_t, rank->toy.rows);
    if (!w->all_versions) return luo_err_nomem(err);
    if (!w->keys || !w->counts || !w->versions || !w->given || !w->values || !w->grads)
        return luo_err_nomem(err);
    w->ringed = luo_sync_ringed(rank);
    w->own = LUO_NEW_N(rank->arena, double, w->ringed);
    w->sum = LUO_NEW_N(rank->arena, double, w->ringed);
    w->all = LUO_NEW_N(rank->arena, int32_t, rank->workers);
    if (!w->own || !w->sum || !w->all) return luo_err_nomem(err);
    for (int32_t i = 0; i < rank->workers; i++) w->all[i] = i;
    for (int64_t i = 0; i < most; i++) w->counts[i] = 1;
    LUO_TRY(luo_sync_client_open(rank, rank->toy.width, &w->client, err));
    w->client.paced = true;
    return LUO_OK;
}

/* The cells of a key that is all-reduced, among those numbers. */
static double *cells_of(const worker *w, double *of, uint64_t key)
{
    return of + ((int64_t)key - w->rank->served) * w->rank->toy.width;
}

/* The rows of iteration k, when the clock rule lets it start. */
static luo_status pull(worker *w, int64_t k, luo_err *err)
{
    w->n = luo_toy_keys(&w->rank->toy, w->rank->rank, k, w->keys);
    const size_t width = (size_t)w->rank->toy.width;
    w->served = luo_sync_served(w->rank, w->keys, w->n);
    for (int32_t i = 0; i < w->n; i++) w->versions[i] = -1;
    for (int32_t i = w->served; i < w->n; i++)
        memcpy(w->values + (size_t)i * width, cells_of(w, w->own, w->keys[i]),
               width * sizeof *w->own);
    const luo_het_message message = {.width = w->rank->toy.width,
                                     .ask = {.n = w->served,
                                             .keys = w->keys,
                                             .versions = w->versions,
                                             .given = w->given,
                                             .values = w->values}};
    w->client.clock = k;
    /* Without keys too: that an iteration begins is asked of every server. */
    return luo_sync_client_pull(&w->client, &message, err);
}

static luo_status push(worker *w, luo_err *err)
{
    const luo_het_message message = {
        .width = w->rank->toy.width,
        .push = {.n = w->served, .keys = w->keys, .counts = w->counts, .grads = w->grads}};
    return luo_sync_client_exchange(&w->client, &message, err);
}

/* Who is first waits for the others: *wait_s. */
static luo_status reduce(worker *w, int64_t k, double *wait_s, luo_err *err)
{
    luo_sync_rank *rank = w->rank;
    const size_t width = (size_t)rank->toy.width;
    *wait_s = 0;
    if (w->ringed == 0) return LUO_OK;
    memset(w->sum, 0, (size_t)w->ringed * sizeof *w->sum);
    for (int32_t i = w->served; i < w->n; i++)
        memcpy(cells_of(w, w->sum, w->keys[i]), w->grads + (size_t)i * width,
               width * sizeof *w->sum);
    const double before_s = luo_sync_now(rank);
    luo_sync_barrier(rank, "to reduce");
    *wait_s = luo_sync_now(rank) - before_s;
    LUO_TRY(luo_sync_ring(rank, w->all, rank->workers, w->sum, w->ringed,
                          LUO_SYNC_RING + (int)(k % LUO_SYNC_RINGS), err));
    for (int64_t i = 0; i < w->ringed; i++) w->own[i] += w->sum[i];
    return LUO_OK;
}

/* A gradient is divided by the workers, whose sum is then the mean over all samples. As the
 * simulator has it, a clock waits behind its communication: so does it here for the all-reduce. */
static luo_status iterate(worker *w, int64_t k, luo_err *err)
{
    luo_sync_rank *rank = w->rank;
    const double start_s = luo_sync_now(rank), wait_s = w->wait_s;
    luo_toy_step(&rank->toy, rank->rank, k, rank->job.rate / rank->workers, w->n, w->keys,
                 w->values, w->grads);
    const double compute_s = luo_sync_compute(rank, k, start_s);
    double ring_s;
    LUO_TRY(push(w, err));
    LUO_TRY(reduce(w, k, &ring_s, err));
    /* Before servers know it: then no iteration that waited for this one can end before it. */
    const double end_s = luo_sync_now(rank) - ring_s;
    luo_sync_client_tell(&w->client, LUO_SYNC_CLOCK);
    if (k + 1 < rank->job.iterations) LUO_TRY(pull(w, k + 1, err));
    w->wait_s = w->client.queued_s + ring_s;
    return luo_sync_row(rank, err, "%d,%lld,%.9f,%.9f,%.9f,%.9f,\n", (int)rank->rank, (long long)k,
                        start_s, end_s, compute_s, wait_s);
}

/* ---- worker 0, when all are finished ---- */

static luo_status take_logs(luo_sync_rank *rank, int64_t **logs, int64_t *n, luo_err *err)
{
    for (int32_t s = 0; s < rank->servers && rank->job.verify; s++) {
        const size_t bytes = luo_sync_probe(rank, rank->workers + s, LUO_SYNC_LOG);
        logs[s] = luo_arena_alloc(rank->arena, bytes);
        if (!logs[s]) return luo_err_nomem(err);
        luo_sync_receive(rank, rank->workers + s, LUO_SYNC_LOG, logs[s], bytes);
        n[s] = (int64_t)(bytes / sizeof *logs[s]) / LUO_SYNC_DID_WORDS;
    }
    return LUO_OK;
}

/* What every worker has of the numbers that are all-reduced, at worker 0. */
static luo_status gather(worker *w, double **copies, luo_err *err)
{
    luo_sync_rank *rank = w->rank;
    const size_t bytes = (size_t)w->ringed * sizeof **copies;
    if (!rank->job.verify || w->ringed == 0) return LUO_OK;
    if (rank->rank > 0) {
        luo_sync_send(rank, 0, LUO_SYNC_RECORD, w->own, bytes);
        return LUO_OK;
    }
    *copies = LUO_NEW_N(rank->arena, double, w->ringed * rank->workers);
    if (!*copies) return luo_err_nomem(err);
    memcpy(*copies, w->own, bytes);
    for (int32_t i = 1; i < rank->workers; i++)
        luo_sync_receive(rank, i, LUO_SYNC_RECORD, *copies + i * w->ringed, bytes);
    return LUO_OK;
}

static luo_status verify(worker *w, const double *rows, const double *copies, int64_t **logs,
                         const int64_t *n, luo_err *err)
{
    luo_sync_rank *rank = w->rank;
    const int64_t cells = rank->toy.rows * rank->toy.width;
    double expected[LUO_SYNC_BYTES], *again = LUO_NEW_N(rank->arena, double, cells);
    if (!again) return luo_err_nomem(err);
    LUO_TRY(rank->job.mode == LUO_LOOP_BSP ? luo_sync_verify_serial(rank, again, err)
                                           : luo_sync_verify_logs(rank, logs, n, again, err));
    double most = luo_sync_verify_differ(rows, again, cells);
    for (int32_t i = 0; copies && i < rank->workers; i++)
        most = fmax(most, luo_sync_verify_differ(copies + i * w->ringed, again + cells - w->ringed,
                                                 w->ringed));
    LUO_TRY(luo_sync_verify_bytes(rank, expected, err));
    LUO_TRY(luo_sync_expected(rank, expected, err));
    return luo_sync_fact(rank, "verify", most, err);
}

static luo_status finish(worker *w, const double *copies, luo_err *err)
{
    luo_sync_rank *rank = w->rank;
    const int64_t cells = rank->toy.rows * rank->toy.width;
    double *rows = LUO_NEW_N(rank->arena, double, cells);
    int64_t **logs = LUO_NEW_N(rank->arena, int64_t *, rank->servers);
    int64_t *n = LUO_NEW_N(rank->arena, int64_t, rank->servers);
    if (!rows || !logs || !n) return luo_err_nomem(err);
    if (rank->served > 0) LUO_TRY(luo_sync_client_all(&w->client, rows, w->all_versions, err));
    memcpy(rows + cells - w->ringed, w->own, (size_t)w->ringed * sizeof *rows);
    luo_sync_client_tell(&w->client, LUO_SYNC_END);
    LUO_TRY(take_logs(rank, logs, n, err));
    LUO_TRY(luo_sync_outcome(rank, rows, err));
    return rank->job.verify ? verify(w, rows, copies, logs, n, err) : LUO_OK;
}

static luo_status begin(worker *w, luo_err *err)
{
    luo_sync_rank *rank = w->rank;
    const int64_t cells = rank->toy.rows * rank->toy.width;
    double *rows = LUO_NEW_N(rank->arena, double, cells);
    if (!rows) return luo_err_nomem(err);
    luo_toy_start(&rank->toy, rows);
    memcpy(w->own, rows + cells - w->ringed, (size_t)w->ringed * sizeof *rows);
    if (rank->rank == 0 && rank->served > 0) {
        LUO_TRY(luo_sync_client_init(&w->client, rows, err));
        /* An answer says that they are there. */
        LUO_TRY(luo_sync_client_all(&w->client, rows, w->all_versions, err));
    }
    luo_sync_begin(rank);
    return pull(w, 0, err);
}

luo_status luo_sync_worker_servers(luo_sync_rank *rank, luo_err *err)
{
    worker w = {.rank = rank};
    double *copies = NULL;
    LUO_TRY(make(&w, err));
    LUO_TRY(begin(&w, err));
    for (int64_t k = 0; k < rank->job.iterations; k++) LUO_TRY(iterate(&w, k, err));
    luo_sync_client_tell(&w.client, LUO_SYNC_LEAVE);
    LUO_TRY(luo_sync_bytes(rank, err));
    luo_sync_barrier(rank, "to finish");
    LUO_TRY(gather(&w, &copies, err));
    return rank->rank == 0 ? finish(&w, copies, err) : LUO_OK;
}
