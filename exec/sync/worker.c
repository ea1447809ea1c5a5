/* worker.c: a worker of parameter servers. */
#include <stdlib.h>
#include <string.h>

#include "exec/sync/sync_rank.h"

typedef struct worker {
    luo_sync_client client;
    luo_sync_rank *rank;
    int32_t n; /* keys of the iteration */
    uint64_t *keys;
    int64_t *counts, *versions;
    bool *given;
    int64_t *all_versions; /* of all rows */
    double *values, *grads;
    double wait_s; /* before the iteration under way */
} worker;

static luo_status make(worker *w, luo_err *err)
{
    luo_sync_rank *r = w->rank;
    const int64_t most = luo_toy_most(&r->toy), cells = most * r->toy.width;
    w->keys = LUO_NEW_N(r->arena, uint64_t, most);
    w->counts = LUO_NEW_N(r->arena, int64_t, most);
    w->versions = LUO_NEW_N(r->arena, int64_t, most);
    w->given = LUO_NEW_N(r->arena, bool, most);
    w->values = LUO_NEW_N(r->arena, double, cells);
    w->grads = LUO_NEW_N(r->arena, double, cells);
    w->all_versions = LUO_NEW_N(r->arena, int64_t, r->toy.rows);
    if (!w->all_versions) return luo_err_nomem(err);
    if (!w->keys || !w->counts || !w->versions || !w->given || !w->values || !w->grads)
        return luo_err_nomem(err);
    for (int64_t i = 0; i < most; i++) w->counts[i] = 1;
    LUO_TRY(luo_sync_client_open(r, r->toy.width, &w->client, err));
    w->client.paced = true;
    return LUO_OK;
}

/* The rows of iteration k, when the clock rule lets it start. */
static luo_status pull(worker *w, int64_t k, luo_err *err)
{
    w->n = luo_toy_keys(&w->rank->toy, w->rank->rank, k, w->keys);
    for (int32_t i = 0; i < w->n; i++) w->versions[i] = -1;
    const luo_het_message m = {.width = w->rank->toy.width,
                               .ask = {.n = w->n,
                                       .keys = w->keys,
                                       .versions = w->versions,
                                       .given = w->given,
                                       .values = w->values}};
    w->client.clock = k;
    /* Without keys too: that an iteration begins is asked of every server. */
    return luo_sync_client_pull(&w->client, &m, err);
}

static luo_status push(worker *w, luo_err *err)
{
    const luo_het_message m = {
        .width = w->rank->toy.width,
        .push = {.n = w->n, .keys = w->keys, .counts = w->counts, .grads = w->grads}};
    return luo_sync_client_exchange(&w->client, &m, err);
}

/* A gradient is divided by the workers, whose sum is then the mean over all samples. */
static luo_status iterate(worker *w, int64_t k, luo_err *err)
{
    luo_sync_rank *r = w->rank;
    const double start_s = luo_sync_now(r), wait_s = w->wait_s;
    luo_toy_step(&r->toy, r->rank, k, r->job.rate / r->workers, w->n, w->keys, w->values, w->grads);
    const double compute_s = luo_sync_compute(r, k, start_s);
    LUO_TRY(push(w, err));
    /* Before servers know it: then no iteration that waited for this one can end before it. */
    const double end_s = luo_sync_now(r);
    luo_sync_client_tell(&w->client, LUO_SYNC_CLOCK);
    if (k + 1 < r->job.iterations) LUO_TRY(pull(w, k + 1, err));
    w->wait_s = w->client.queued_s;
    return luo_sync_row(r, err, "%d,%lld,%.9f,%.9f,%.9f,%.9f,\n", (int)r->rank, (long long)k,
                        start_s, end_s, compute_s, wait_s);
}

/* ---- worker 0, when all are finished ---- */

static luo_status take_logs(luo_sync_rank *r, int64_t **logs, int64_t *n, luo_err *err)
{
    for (int32_t s = 0; s < r->servers && r->job.verify; s++) {
        const size_t bytes = luo_sync_probe(r, r->workers + s, LUO_SYNC_LOG);
        logs[s] = luo_arena_alloc(r->arena, bytes);
        if (!logs[s]) return luo_err_nomem(err);
        luo_sync_receive(r, r->workers + s, LUO_SYNC_LOG, logs[s], bytes);
        n[s] = (int64_t)(bytes / sizeof *logs[s]) / LUO_SYNC_DID_WORDS;
    }
    return LUO_OK;
}

static luo_status verify(luo_sync_rank *r, const double *rows, int64_t **logs, const int64_t *n,
                         luo_err *err)
{
    const int64_t cells = r->toy.rows * r->toy.width;
    double *again = LUO_NEW_N(r->arena, double, cells);
    if (!again) return luo_err_nomem(err);
    LUO_TRY(r->job.mode == LUO_LOOP_BSP ? luo_sync_verify_serial(r, again, err)
                                        : luo_sync_verify_logs(r, logs, n, again, err));
    return luo_sync_fact(r, "verify", luo_sync_verify_differ(rows, again, cells), err);
}

static luo_status finish(worker *w, luo_err *err)
{
    luo_sync_rank *r = w->rank;
    double *rows = LUO_NEW_N(r->arena, double, r->toy.rows * r->toy.width);
    int64_t **logs = LUO_NEW_N(r->arena, int64_t *, r->servers);
    int64_t *n = LUO_NEW_N(r->arena, int64_t, r->servers);
    if (!rows || !logs || !n) return luo_err_nomem(err);
    LUO_TRY(luo_sync_client_all(&w->client, rows, w->all_versions, err));
    luo_sync_client_tell(&w->client, LUO_SYNC_END);
    LUO_TRY(take_logs(r, logs, n, err));
    LUO_TRY(luo_sync_outcome(r, rows, err));
    return r->job.verify ? verify(r, rows, logs, n, err) : LUO_OK;
}

static luo_status begin(worker *w, luo_err *err)
{
    luo_sync_rank *r = w->rank;
    if (r->rank == 0) {
        double *rows = LUO_NEW_N(r->arena, double, r->toy.rows * r->toy.width);
        if (!rows) return luo_err_nomem(err);
        luo_toy_start(&r->toy, rows);
        LUO_TRY(luo_sync_client_init(&w->client, rows, err));
        /* An answer says that they are there. */
        LUO_TRY(luo_sync_client_all(&w->client, rows, w->all_versions, err));
    }
    luo_sync_begin(r);
    return pull(w, 0, err);
}

luo_status luo_sync_worker_servers(luo_sync_rank *rank, luo_err *err)
{
    worker w = {.rank = rank};
    LUO_TRY(make(&w, err));
    LUO_TRY(begin(&w, err));
    for (int64_t k = 0; k < rank->job.iterations; k++) LUO_TRY(iterate(&w, k, err));
    luo_sync_client_tell(&w.client, LUO_SYNC_LEAVE);
    LUO_TRY(luo_sync_bytes(rank, err));
    luo_sync_barrier(rank);
    return rank->rank == 0 ? finish(&w, err) : LUO_OK;
}
