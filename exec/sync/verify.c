/* verify.c: the same training once more, serially, from what was decided. */
#include <math.h>
#include <string.h>

#include "exec/sync/sync_rank.h"

double luo_sync_verify_differ(const double *a, const double *b, int64_t n)
{
    double most = 0, largest = 0;
    for (int64_t i = 0; i < n; i++) {
        if (!isfinite(a[i]) || !isfinite(b[i])) return INFINITY;
        most = fmax(most, fabs(a[i] - b[i]));
        largest = fmax(largest, fabs(b[i]));
    }
    return largest > 0 ? most / largest : most;
}

/* ---- bsp ---- */

/* Every gradient is that of the weights at the start of the iteration. */
luo_status luo_sync_verify_serial(luo_sync_rank *rank, double *rows, luo_err *err)
{
    const int64_t cells = rank->toy.rows * rank->toy.width;
    double *next = LUO_NEW_N(rank->arena, double, cells),
           *own = LUO_NEW_N(rank->arena, double, cells);
    luo_sync_local local;
    if (!next || !own) return luo_err_nomem(err);
    LUO_TRY(luo_sync_local_open(rank, &local, err));
    local.rate = rank->job.rate / rank->workers;
    luo_toy_start(&rank->toy, rows);
    for (int64_t k = 0; k < rank->job.iterations; k++) {
        memcpy(next, rows, (size_t)cells * sizeof *rows);
        for (int32_t w = 0; w < rank->workers; w++) {
            memcpy(own, rows, (size_t)cells * sizeof *rows);
            luo_sync_local_step(&local, w, k, own);
            for (int64_t i = 0; i < cells; i++) next[i] += own[i] - rows[i];
        }
        memcpy(rows, next, (size_t)cells * sizeof *rows);
    }
    return LUO_OK;
}

/* ---- ssp, asp ---- */

typedef struct pulled {  /* of one worker, in one iteration */
    int32_t n, answered; /* keys; servers that have answered */
    int64_t k;
    uint64_t *keys;
    double *values, *grads;
} pulled;

/* A server may answer the next pull of a worker before another has added its push: two iterations
 * of a worker are alive. */
typedef struct replay {
    luo_sync_rank *rank;
    luo_sync_client client; /* for where keys lie */
    double *rows;
    pulled (*by)[2];     /* by worker; k modulo 2 */
    int64_t ringed;      /* how often all have all-reduced */
    int32_t contributed; /* workers whose part of the next all-reduce is known */
} replay;

static luo_status open_pulled(luo_sync_rank *rank, pulled *out, luo_err *err)
{
    const int64_t most = luo_toy_most(&rank->toy), cells = most * rank->toy.width;
    *out = (pulled){.k = -1,
                    .keys = LUO_NEW_N(rank->arena, uint64_t, most),
                    .values = LUO_NEW_N(rank->arena, double, cells),
                    .grads = LUO_NEW_N(rank->arena, double, cells)};
    return out->keys && out->values && out->grads ? LUO_OK : luo_err_nomem(err);
}

static luo_status open_replay(replay *p, luo_err *err)
{
    luo_sync_rank *rank = p->rank;
    p->by = luo_arena_calloc(rank->arena, (size_t)rank->workers, sizeof *p->by);
    if (!p->by) return luo_err_nomem(err);
    for (int32_t i = 0; i < 2 * rank->workers; i++)
        LUO_TRY(open_pulled(rank, &p->by[i / 2][i % 2], err));
    return luo_sync_client_open(rank, rank->toy.width, &p->client, err);
}

static bool complete(const replay *p, int64_t worker, int64_t k)
{
    const pulled *own = &p->by[worker][k & 1];
    return own->k == k && own->answered == p->rank->servers;
}

/* What is all-reduced changes when all workers have their gradients. */
static void contribute(replay *p, int64_t k)
{
    const luo_sync_rank *rank = p->rank;
    const size_t width = (size_t)rank->toy.width;
    if (luo_sync_ringed(rank) == 0 || ++p->contributed < rank->workers) return;
    for (int32_t w = 0; w < rank->workers; w++) {
        const pulled *own = &p->by[w][k & 1];
        for (int32_t i = luo_sync_served(rank, own->keys, own->n); i < own->n; i++)
            for (size_t c = 0; c < width; c++)
                p->rows[own->keys[i] * width + c] += own->grads[(size_t)i * width + c];
    }
    p->contributed = 0;
    p->ringed++;
}

/* All answers are there: the gradient, at them and at what is all-reduced. */
static void compute(replay *p, int64_t worker, int64_t k)
{
    const luo_sync_rank *rank = p->rank;
    const size_t width = (size_t)rank->toy.width;
    pulled *own = &p->by[worker][k & 1];
    for (int32_t i = luo_sync_served(rank, own->keys, own->n); i < own->n; i++)
        memcpy(own->values + (size_t)i * width, p->rows + own->keys[i] * width,
               width * sizeof(double));
    luo_toy_step(&rank->toy, worker, k, rank->job.rate / rank->workers, own->n, own->keys,
                 own->values, own->grads);
    contribute(p, k);
}

/* A server has answered: the worker has its rows as they are now; with the last one, the gradient.
 * False: the worker is not there yet. */
static bool answered(replay *p, int32_t server, int64_t worker, int64_t k)
{
    const size_t width = (size_t)p->rank->toy.width;
    pulled *own = &p->by[worker][k & 1];
    if (k > 0 && !complete(p, worker, k - 1)) return false;
    if (luo_sync_ringed(p->rank) > 0 && p->ringed < k) return false;
    if (own->k < k) {
        own->k = k;
        own->answered = 0;
        own->n = luo_toy_keys(&p->rank->toy, worker, k, own->keys);
    }
    const int32_t n = luo_sync_served(p->rank, own->keys, own->n);
    for (int32_t i = 0; i < n; i++)
        if (luo_sync_client_server(&p->client, own->keys[i]) == server)
            memcpy(own->values + (size_t)i * width, p->rows + own->keys[i] * width,
                   width * sizeof(double));
    if (++own->answered == p->rank->servers) compute(p, worker, k);
    return true;
}

/* A server has added a gradient. False: it is not known yet. */
static bool added(replay *p, int32_t server, int64_t worker, int64_t k)
{
    const size_t width = (size_t)p->rank->toy.width;
    const pulled *own = &p->by[worker][k & 1];
    if (!complete(p, worker, k)) return false;
    const int32_t n = luo_sync_served(p->rank, own->keys, own->n);
    for (int32_t i = 0; i < n; i++)
        for (size_t c = 0; c < width && luo_sync_client_server(&p->client, own->keys[i]) == server;
             c++)
            p->rows[own->keys[i] * width + c] += own->grads[(size_t)i * width + c];
    return true;
}

luo_status luo_sync_verify_logs(luo_sync_rank *rank, int64_t *const *logs, const int64_t *n,
                                double *rows, luo_err *err)
{
    replay p = {.rank = rank, .rows = rows};
    int64_t *at = LUO_NEW_N(rank->arena, int64_t, rank->servers);
    bool moved = true, left = false;
    if (!at) return luo_err_nomem(err);
    LUO_TRY(open_replay(&p, err));
    luo_toy_start(&rank->toy, rows);
    /* Each server in its own order, as far as what it did is known: the others' answers go first.
     */
    while (moved) {
        moved = left = false;
        for (int32_t s = 0; s < rank->servers; s++) {
            for (; at[s] < n[s]; at[s]++, moved = true) {
                const int64_t *did = logs[s] + at[s] * LUO_SYNC_DID_WORDS;
                if (!(did[0] == LUO_SYNC_DID_ADD ? added(&p, s, did[1], did[2])
                                                 : answered(&p, s, did[1], did[2])))
                    break;
            }
            left = left || at[s] < n[s];
        }
    }
    if (!left) return LUO_OK;
    return luo_err_set(err, LUO_EBUG, "the logs of the servers contradict each other.");
}

/* ---- bytes ---- */

luo_exchange_table luo_sync_table(const luo_sync_rank *rank, int64_t vocab)
{
    return (luo_exchange_table){.width = 2 * rank->toy.width,
                                .vocab = vocab,
                                .servers = rank->servers,
                                .shard = (luo_exchange_shard)rank->job.shard};
}

luo_status luo_sync_count(const luo_sync_rank *rank, const luo_exchange_table *table,
                          int32_t worker, int64_t k, uint64_t *keys, luo_exchange_bytes *bytes,
                          luo_err *err)
{
    int32_t n = luo_toy_keys(&rank->toy, worker, k, keys);
    while (n > 0 && (int64_t)keys[n - 1] >= table->vocab) n--;
    return luo_exchange_add_keys(bytes, table, worker, (int64_t *)keys, n, 1, err);
}

luo_status luo_sync_verify_bytes(luo_sync_rank *rank, double *out, luo_err *err)
{
    const luo_exchange_table table = luo_sync_table(rank, rank->served);
    const int64_t n = rank->job.iterations;
    luo_exchange_bytes bytes = {0};
    uint64_t *keys = LUO_NEW_N(rank->arena, uint64_t, luo_toy_most(&rank->toy));
    if (!keys) return luo_err_nomem(err);
    if (rank->servers > 0)
        LUO_TRY(luo_exchange_open(rank->arena, rank->servers, rank->workers, &bytes, err));
    for (int64_t k = 0; k < n && rank->servers > 0; k++)
        for (int32_t w = 0; w < rank->workers; w++)
            LUO_TRY(luo_sync_count(rank, &table, w, k, keys, &bytes, err));
    out[LUO_SYNC_PUSHED] = bytes.push;
    out[LUO_SYNC_PULLED] = bytes.pull;
    out[LUO_SYNC_ASKED] = bytes.request;
    out[LUO_SYNC_PASSED] = luo_exchange_ring_bytes(
        rank->workers, (double)(luo_sync_ringed(rank) * (int64_t)sizeof(double)),
        n * rank->workers);
    return LUO_OK;
}

/* ---- groups ---- */

static void average(luo_sync_rank *rank, const int64_t *group, double *weights, double *mean,
                    double *rows)
{
    const int64_t cells = rank->toy.rows * rank->toy.width;
    const int32_t n = (int32_t)group[0];
    luo_preduce_weights(group + 1 + n, n, rank->job.beta, weights);
    memset(mean, 0, (size_t)cells * sizeof *mean);
    for (int32_t m = 0; m < n; m++)
        for (int64_t i = 0; i < cells; i++) mean[i] += weights[m] * rows[group[1 + m] * cells + i];
    for (int32_t m = 0; m < n; m++)
        memcpy(rows + group[1 + m] * cells, mean, (size_t)cells * sizeof *mean);
}

luo_status luo_sync_verify_groups(luo_sync_rank *rank, const int64_t *log, int64_t words,
                                  double *rows, luo_err *err)
{
    const int64_t cells = rank->toy.rows * rank->toy.width;
    double *mean = LUO_NEW_N(rank->arena, double, cells);
    double *weights = LUO_NEW_N(rank->arena, double, rank->workers);
    luo_sync_local local;
    if (!mean || !weights) return luo_err_nomem(err);
    LUO_TRY(luo_sync_local_open(rank, &local, err));
    for (int32_t w = 0; w < rank->workers; w++) luo_toy_start(&rank->toy, rows + w * cells);
    for (int64_t at = 0; at < words; at += 1 + 2 * log[at]) {
        for (int32_t m = 0; m < log[at]; m++) {
            const int64_t worker = log[at + 1 + m], k = log[at + 1 + log[at] + m];
            luo_sync_local_step(&local, worker, k, rows + worker * cells);
        }
        average(rank, log + at, weights, mean, rows);
    }
    return LUO_OK;
}
