/* embed.c: a worker that trains `wide` on cached rows with bounded staleness
 * (core/sync/embed/het.h).
 *
 * A row is a weight, which is trained, and a whole number: every update adds 1 to 3 to it, so that
 * the sum is known exactly whatever the order was. */
#include <stdlib.h>
#include <string.h>

#include "core/base/stats.h"
#include "core/base/vec.h"
#include "core/sync/draws.h"
#include "exec/sync/sync_rank.h"

enum { WIDTH = LUO_SYNC_EMBED_WIDTH };

typedef struct record { /* a key that was read, or updated; all are sent as numbers */
    double key, t_s;
    double seen; /* updates in what was read; -1: it was updated */
} record;
_Static_assert(sizeof(record) == LUO_SYNC_RECORD_BYTES, "messages of records are checked by it");

typedef struct embed {
    luo_sync_rank *rank;
    luo_sync_client client;
    luo_het *het;
    int32_t n; /* keys of an iteration, repeated ones too */
    uint64_t *keys, *next;
    double *rows, *grads;
    int64_t *seen;
    record *records;
    int64_t nrecords, cap_records;
} embed;

/* ---- what an iteration does ---- */

static void keys_of(const embed *e, int64_t worker, int64_t k, uint64_t *keys)
{
    const luo_toy *toy = &e->rank->toy;
    for (int32_t i = 0; i < toy->batch; i++) {
        double label;
        const int32_t *key = luo_toy_sample(toy, worker, k, i, &label);
        for (int64_t s = 0; s < toy->clicks.slots; s++)
            keys[i * toy->clicks.slots + s] = (uint64_t)key[s];
    }
}

static double whole_of(const embed *e, int64_t worker, int64_t k, int32_t i)
{
    const uint64_t of = (uint64_t)worker << 48 ^ (uint64_t)k << 20 ^ (uint64_t)i;
    return (double)(1 + luo_draw_mix((uint64_t)e->rank->job.seed ^ of) % 3);
}

static void step(embed *e, int64_t k)
{
    const luo_sync_rank *rank = e->rank;
    const int32_t slots = (int32_t)rank->toy.clicks.slots;
    for (int32_t i = 0; i < rank->toy.batch; i++) {
        double label, z = 0;
        luo_toy_sample(&rank->toy, rank->rank, k, i, &label);
        for (int32_t s = 0; s < slots; s++) z += e->rows[WIDTH * (i * slots + s)];
        const double by =
            -rank->job.rate / rank->workers / rank->toy.batch * (luo_toy_sigmoid(z) - label);
        for (int32_t s = 0; s < slots; s++) {
            e->grads[WIDTH * (i * slots + s)] = by;
            e->grads[WIDTH * (i * slots + s) + 1] = whole_of(e, rank->rank, k, i * slots + s);
        }
    }
}

static luo_status remember(embed *e, const uint64_t *keys, double t_s, const int64_t *seen,
                           luo_err *err)
{
    for (int32_t i = 0; i < e->n && e->rank->job.verify; i++) {
        if (!LUO_VEC_ROOM(e->records, e->nrecords, e->cap_records)) return luo_err_nomem(err);
        e->records[e->nrecords++] = (record){(double)keys[i], t_s, seen ? (double)seen[i] : -1};
    }
    return LUO_OK;
}

/* An update, and the lookup of the next iteration in the same message. */
static luo_status exchange(embed *e, int64_t k, luo_err *err)
{
    const bool last = k + 1 == e->rank->job.iterations;
    const double before_s = luo_sync_now(e->rank);
    e->client.clock = k;
    if (!last) keys_of(e, e->rank->rank, k + 1, e->next);
    LUO_TRY(last ? luo_het_update(e->het, e->keys, e->grads, e->n, err)
                 : luo_het_update_lookup(e->het, e->keys, e->grads, e->n, e->next, e->n, e->rows,
                                         e->seen, err));
    LUO_TRY(remember(e, e->keys, luo_sync_now(e->rank), NULL, err));
    if (last) return LUO_OK;
    LUO_TRY(remember(e, e->next, before_s, e->seen, err));
    uint64_t *keys = e->keys;
    e->keys = e->next;
    e->next = keys;
    return LUO_OK;
}

static luo_status iterate(embed *e, int64_t k, luo_err *err)
{
    luo_sync_rank *rank = e->rank;
    const double start_s = luo_sync_now(rank);
    step(e, k);
    const double compute_s = luo_sync_compute(rank, k, start_s);
    LUO_TRY(exchange(e, k, err));
    return luo_sync_row(rank, err, "%d,%lld,%.9f,%.9f,%.9f,0,\n", (int)rank->rank, (long long)k,
                        start_s, luo_sync_now(rank), compute_s);
}

/* ---- before ---- */

/* Part p: worker p and server p. All ranks come to the same partition. */
static luo_status partition(embed *e, luo_err *err)
{
    luo_sync_rank *rank = e->rank;
    luo_bigraph graph;
    luo_clicks trained = rank->toy.clicks;
    trained.samples = rank->toy.trained;
    LUO_TRY(luo_clicks_graph(rank->arena, &trained, &graph, err));
    const luo_gmp_opts opts = {.parts = rank->workers,
                               .rounds = (int32_t)rank->job.rounds,
                               .batch = rank->toy.batch,
                               .balance = rank->job.balance,
                               .load_weight = 0.01,
                               .cm = luo_gmp_costs(rank->arena, rank->workers, 1, 0, 1)};
    int32_t *part = LUO_NEW_N(rank->arena, int32_t, graph.samples);
    int32_t *home = LUO_NEW_N(rank->arena, int32_t, graph.embeds);
    if (!part || !home || !opts.cm) return luo_err_nomem(err);
    LUO_TRY(luo_gmp_partition(&graph, &opts, part, home, err));
    LUO_TRY(luo_toy_deal(rank->arena, &rank->toy, part, err));
    for (int32_t w = 0; w < rank->workers; w++)
        if (rank->toy.first[w] == rank->toy.first[w + 1])
            return luo_err_set(err, LUO_EINPUT,
                               "part %d of the partition has no sample; fewer workers or a larger "
                               "--balance is expected.",
                               (int)w);
    e->client.home = home;
    return LUO_OK;
}

static luo_status make(embed *e, luo_err *err)
{
    luo_sync_rank *rank = e->rank;
    const luo_sync_job *job = &rank->job;
    LUO_TRY(luo_sync_client_open(rank, WIDTH, &e->client, err));
    if (job->embed == LUO_SYNC_GMP) LUO_TRY(partition(e, err));
    e->n = (int32_t)luo_toy_most(&rank->toy);
    e->keys = LUO_NEW_N(rank->arena, uint64_t, e->n);
    e->next = LUO_NEW_N(rank->arena, uint64_t, e->n);
    e->rows = LUO_NEW_N(rank->arena, double, WIDTH * e->n);
    e->grads = LUO_NEW_N(rank->arena, double, WIDTH * e->n);
    e->seen = LUO_NEW_N(rank->arena, int64_t, e->n);
    if (!e->keys || !e->next || !e->rows || !e->grads || !e->seen) return luo_err_nomem(err);
    const luo_het_opts opts = {.rows = job->embed == LUO_SYNC_PS ? 0 : job->cache_rows,
                               .policy = (luo_het_policy)job->policy,
                               .pull_bound = job->pull_bound,
                               .push_bound = job->push_bound,
                               .width = WIDTH,
                               .link = {luo_sync_client_exchange, &e->client}};
    return luo_het_new(&opts, &e->het, err);
}

/* ---- after ---- */

static luo_status write_traffic(embed *e, luo_err *err)
{
    const luo_het_traffic traffic = luo_het_counted(e->het);
    const struct {
        const char *name;
        double value;
    } facts[] = {{"asked", (double)traffic.asked},
                 {"cached", (double)traffic.cached},
                 {"pulled", (double)traffic.pulled},
                 {"pushed", (double)traffic.pushed},
                 {"pulled_away", (double)e->client.pulled_away},
                 {"pushed_away", (double)e->client.pushed_away}};
    for (size_t i = 0; i < sizeof facts / sizeof *facts; i++)
        LUO_TRY(luo_sync_fact(e->rank, facts[i].name, facts[i].value, err));
    return luo_sync_bytes(e->rank, err);
}

/* Rows whose whole number or version is not the exact sum of what all workers gave. */
static luo_status check_sums(embed *e, const double *rows, const int64_t *versions, luo_err *err)
{
    luo_sync_rank *rank = e->rank;
    double *sum = LUO_NEW_N(rank->arena, double, rank->toy.rows);
    int64_t *updates = LUO_NEW_N(rank->arena, int64_t, rank->toy.rows), wrong = 0;
    if (!sum || !updates) return luo_err_nomem(err);
    for (int32_t w = 0; w < rank->workers; w++)
        for (int64_t k = 0; k < rank->job.iterations; k++) {
            keys_of(e, w, k, e->keys);
            for (int32_t i = 0; i < e->n; i++) {
                sum[e->keys[i]] += whole_of(e, w, k, i);
                updates[e->keys[i]]++;
            }
        }
    for (int64_t i = 0; i < rank->toy.rows; i++)
        wrong += rows[WIDTH * i + 1] != sum[i] || versions[i] != updates[i];
    return luo_sync_fact(rank, "sums_wrong", (double)wrong, err);
}

static int by_key_and_time(const void *a, const void *b)
{
    const record *x = a, *y = b;
    if (x->key != y->key) return x->key < y->key ? -1 : 1;
    return (x->t_s > y->t_s) - (x->t_s < y->t_s);
}

/* Records ascend by key and time: updates that had ended when a read began have to be in it, but
 * for the bound. Clocks of ranks are one on this host. */
static luo_status check_reads(luo_sync_rank *rank, const record *at, int64_t n, luo_err *err)
{
    double *missing = LUO_NEW_N(rank->arena, double, n);
    int64_t ended = 0, nreads = 0;
    if (!missing) return luo_err_nomem(err);
    for (int64_t i = 0; i < n; i++) {
        if (i == 0 || at[i].key != at[i - 1].key) ended = 0;
        if (at[i].seen < 0)
            ended++;
        else
            missing[nreads++] = at[i].seen < (double)ended ? (double)ended - at[i].seen : 0;
    }
    if (nreads == 0) return LUO_OK;
    luo_stats_sort(missing, nreads);
    LUO_TRY(luo_sync_fact(rank, "stale_max", missing[nreads - 1], err));
    LUO_TRY(luo_sync_fact(rank, "stale_p50", luo_stats_quantile(missing, nreads, 0.5), err));
    LUO_TRY(luo_sync_fact(rank, "stale_p99", luo_stats_quantile(missing, nreads, 0.99), err));
    const bool caches = rank->job.embed != LUO_SYNC_PS && rank->job.cache_rows > 0;
    const int64_t bound = rank->job.pull_bound + (rank->workers - 1) * rank->job.push_bound;
    return luo_sync_fact(rank, "stale_bound", caches ? (double)bound : 0, err);
}

/* Records of all workers, at worker 0. */
static luo_status gather(embed *e, luo_err *err)
{
    luo_sync_rank *rank = e->rank;
    if (rank->rank > 0) {
        luo_sync_send(rank, 0, LUO_SYNC_RECORD, e->records, (size_t)e->nrecords * sizeof(record));
        return LUO_OK;
    }
    for (int32_t w = 1; w < rank->workers; w++) {
        const size_t bytes = luo_sync_probe(rank, w, LUO_SYNC_RECORD);
        const int64_t n = e->nrecords + (int64_t)(bytes / sizeof(record));
        record *all = realloc(e->records, (size_t)n * sizeof *all + 1);
        if (!all) return luo_err_nomem(err);
        e->records = all;
        luo_sync_receive(rank, w, LUO_SYNC_RECORD, all + e->nrecords, bytes);
        e->nrecords = n;
    }
    qsort(e->records, (size_t)e->nrecords, sizeof *e->records, by_key_and_time);
    return check_reads(rank, e->records, e->nrecords, err);
}

static luo_status finish(embed *e, luo_err *err)
{
    luo_sync_rank *rank = e->rank;
    double *rows = LUO_NEW_N(rank->arena, double, WIDTH * rank->toy.rows);
    double *weights = LUO_NEW_N(rank->arena, double, rank->toy.rows);
    int64_t *versions = LUO_NEW_N(rank->arena, int64_t, rank->toy.rows);
    if (!rows || !weights || !versions) return luo_err_nomem(err);
    LUO_TRY(luo_sync_client_all(&e->client, rows, versions, err));
    luo_sync_client_tell(&e->client, LUO_SYNC_END);
    for (int64_t i = 0; i < rank->toy.rows; i++) weights[i] = rows[WIDTH * i];
    LUO_TRY(luo_sync_outcome(rank, weights, err));
    return rank->job.verify ? check_sums(e, rows, versions, err) : LUO_OK;
}

static luo_status train(embed *e, luo_err *err)
{
    luo_sync_rank *rank = e->rank;
    LUO_TRY(make(e, err));
    luo_sync_begin(rank);
    const double before_s = luo_sync_now(rank);
    keys_of(e, rank->rank, 0, e->keys);
    LUO_TRY(luo_het_lookup(e->het, e->keys, e->n, e->rows, e->seen, err));
    LUO_TRY(remember(e, e->keys, before_s, e->seen, err));
    for (int64_t k = 0; k < rank->job.iterations; k++) LUO_TRY(iterate(e, k, err));
    LUO_TRY(luo_het_flush(e->het, err));
    LUO_TRY(write_traffic(e, err));
    luo_sync_barrier(rank, "to finish");
    if (rank->job.verify) LUO_TRY(gather(e, err));
    return rank->rank == 0 ? finish(e, err) : LUO_OK;
}

luo_status luo_sync_worker_embed(luo_sync_rank *rank, luo_err *err)
{
    embed e = {.rank = rank};
    const luo_status st = train(&e, err);
    luo_het_free(e.het);
    free(e.records);
    return st;
}
