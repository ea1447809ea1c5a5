#include "core/sync/embed/het_loop.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct nic {
    double in, out;
} nic;

typedef struct loop {
    const luo_het_loop_opts *o;
    luo_het_loop *sum;
    luo_het_store store;
    luo_map total;    /* updates of a key, by all workers, pending ones included */
    int64_t *totals;  /* the same by key, where the vocabulary is known; by malloc */
    luo_het **worker; /* caches */
    uint64_t *keys;   /* by worker: the batch under way */
    int64_t *seen;
    double *tau;
    nic *nic;    /* of this round: servers, then workers */
    int32_t now; /* worker that sends */
} loop;

luo_het_wire luo_het_wire_cached(int64_t floats)
{
    const luo_het_traffic one = {.pushed = 1, .pulled = 1, .asked = 1};
    const luo_het_bytes bytes = luo_het_bytes_of(&one, floats);
    return (luo_het_wire){bytes.push, bytes.pull, bytes.meta};
}

luo_het_wire luo_het_wire_plain(int64_t floats)
{
    const double row = 4 * (double)floats;
    return (luo_het_wire){row + 8, row, 8};
}

/* ---- what travels ---- */

/* The store, and on the way there and back every row is charged to two NICs. */
static luo_status exchange(void *ctx, const luo_het_message *message, luo_err *err)
{
    loop *l = ctx;
    const luo_het_wire *wire = &l->o->wire;
    const uint64_t servers = (uint64_t)l->o->servers;
    nic *mine = &l->nic[l->o->servers + l->now];
    LUO_TRY(luo_het_store_exchange(&l->store, message, err));
    for (int32_t i = 0; i < message->push.n; i++)
        l->nic[message->push.keys[i] % servers].in += wire->push;
    mine->out += message->push.n * wire->push + message->ask.n * wire->meta;
    for (int32_t i = 0; i < message->ask.n; i++) {
        nic *server = &l->nic[message->ask.keys[i] % servers];
        server->in += wire->meta;
        if (!message->ask.given[i]) continue;
        server->out += wire->pull;
        mine->in += wire->pull;
    }
    return LUO_OK;
}

/* Seconds of what this round sent, which then counts. */
static double close_round(loop *l)
{
    double slowest = 0;
    for (int32_t i = 0; i < l->o->servers + l->o->workers; i++) {
        slowest = fmax(slowest, fmax(l->nic[i].in, l->nic[i].out));
        if (i < l->o->servers) {
            l->sum->in[i] += l->nic[i].in;
            l->sum->out[i] += l->nic[i].out;
        }
        l->nic[i] = (nic){0};
    }
    return 2 * l->o->net.alpha_s + slowest / l->o->net.bytes_per_s;
}

/* ---- a round ---- */

/* NULL: out of memory. */
static int64_t *total_of(loop *l, uint64_t key)
{
    return l->totals ? &l->totals[key] : luo_map_at(&l->total, key, 0);
}

static luo_status note_missed(loop *l, const uint64_t *keys, luo_err *err)
{
    const luo_het_opts *opts = &l->o->cache;
    const double most = (double)opts->pull_bound + (l->o->workers - 1) * (double)opts->push_bound;
    for (int32_t i = 0; i < l->o->keys; i++) {
        const int64_t *total = total_of(l, keys[i]);
        if (!total) return luo_err_nomem(err);
        const double missed = (double)(*total - l->seen[i]);
        if (missed < 0 || missed > most)
            return luo_err_set(err, LUO_EBUG,
                               "a read of key %llu misses %.0f updates; 0 to %.0f are possible.",
                               (unsigned long long)keys[i], missed, most);
        if (!luo_tally_add(&l->sum->missed, missed)) return luo_err_nomem(err);
    }
    return LUO_OK;
}

static luo_status read_batch(loop *l, int32_t w, int64_t k, luo_err *err)
{
    uint64_t *keys = l->keys + (size_t)w * (size_t)l->o->keys;
    LUO_TRY(l->o->batch(l->o->ctx, w, k, keys, err));
    l->now = w;
    LUO_TRY(luo_het_lookup(l->worker[w], keys, l->o->keys, NULL, l->seen, err));
    return note_missed(l, keys, err);
}

static luo_status update_batch(loop *l, int32_t w, luo_err *err)
{
    const uint64_t *keys = l->keys + (size_t)w * (size_t)l->o->keys;
    for (int32_t i = 0; i < l->o->keys; i++) {
        int64_t *total = total_of(l, keys[i]);
        if (!total) return luo_err_nomem(err);
        ++*total;
    }
    l->now = w;
    return luo_het_update(l->worker[w], keys, NULL, l->o->keys, err);
}

static luo_status tell(loop *l, int64_t k, double slowest, double seconds, luo_err *err)
{
    const double start = l->sum->t_s;
    l->sum->t_s = start + slowest + seconds;
    for (int32_t w = 0; w < l->o->workers; w++) {
        const double wait = slowest - l->tau[w];
        const luo_loop_row row = {.worker = w,
                                  .iteration = k,
                                  .start_s = start,
                                  .end_s = l->sum->t_s,
                                  .compute_s = l->tau[w],
                                  .wait_s = wait,
                                  .group = -1};
        l->sum->wait_s[w] += wait;
        if (l->o->sink.iteration) LUO_TRY(l->o->sink.iteration(l->o->sink.ctx, &row, err));
    }
    return LUO_OK;
}

static luo_status play_round(loop *l, int64_t k, luo_err *err)
{
    double slowest = 0;
    for (int32_t w = 0; w < l->o->workers; w++) {
        l->tau[w] = luo_straggler_seconds(&l->o->straggler, l->o->seed, w, k, l->o->compute_s);
        slowest = fmax(slowest, l->tau[w]);
        LUO_TRY(read_batch(l, w, k, err));
    }
    for (int32_t w = 0; w < l->o->workers; w++) LUO_TRY(update_batch(l, w, err));
    return tell(l, k, slowest, close_round(l), err);
}

/* ---- the whole ---- */

static luo_status begin(luo_arena *arena, loop *l, luo_err *err)
{
    const size_t workers = (size_t)l->o->workers, servers = (size_t)l->o->servers;
    luo_het_opts cache = l->o->cache;
    cache.width = 0;
    cache.link = (luo_het_link){exchange, l};
    l->worker = LUO_NEW_N(arena, luo_het *, workers);
    l->keys = LUO_NEW_N(arena, uint64_t, workers * (size_t)l->o->keys);
    l->seen = LUO_NEW_N(arena, int64_t, l->o->keys);
    l->tau = LUO_NEW_N(arena, double, workers);
    l->nic = LUO_NEW_N(arena, nic, servers + workers);
    l->sum->in = LUO_NEW_N(arena, double, servers);
    l->sum->out = LUO_NEW_N(arena, double, servers);
    l->sum->wait_s = LUO_NEW_N(arena, double, workers);
    l->store.dense = l->o->vocab;
    if (l->o->vocab) l->totals = calloc((size_t)l->o->vocab, sizeof *l->totals);
    if (!l->worker || !l->keys || !l->seen || !l->tau || !l->nic || !l->sum->in || !l->sum->out ||
        !l->sum->wait_s || (l->o->vocab && !l->totals))
        return luo_err_nomem(err);
    for (size_t w = 0; w < workers; w++) LUO_TRY(luo_het_new(&cache, &l->worker[w], err));
    return LUO_OK;
}

static void add_traffic(luo_het_traffic *sum, const luo_het_traffic *one)
{
    sum->lookups += one->lookups;
    sum->updates += one->updates;
    sum->asked += one->asked;
    sum->cached += one->cached;
    sum->pulled += one->pulled;
    sum->pushed += one->pushed;
    sum->evicted += one->evicted;
    sum->evicted_dirty += one->evicted_dirty;
    sum->not_kept += one->not_kept;
}

/* Counts, then flushes and looks whether no update got lost. */
static luo_status finish(loop *l, luo_err *err)
{
    luo_het_loop *sum = l->sum;
    int64_t versions = 0, flushed = 0;
    for (int32_t w = 0; w < l->o->workers; w++) {
        const luo_het_traffic traffic = luo_het_counted(l->worker[w]);
        add_traffic(&sum->traffic, &traffic);
        l->now = w;
        LUO_TRY(luo_het_flush(l->worker[w], err));
        flushed += luo_het_counted(l->worker[w]).flushed;
    }
    for (int32_t i = 0; i < l->store.n; i++) versions += l->store.versions[i];
    if (versions != sum->traffic.updates)
        return luo_err_set(err, LUO_EBUG, "servers have %lld of %lld updates.", (long long)versions,
                           (long long)sum->traffic.updates);
    sum->push = l->o->wire.push * (double)sum->traffic.pushed;
    sum->pull = l->o->wire.pull * (double)sum->traffic.pulled;
    sum->meta = l->o->wire.meta * (double)sum->traffic.asked;
    sum->flush = l->o->wire.push * (double)flushed;
    return LUO_OK;
}

luo_status luo_het_loop_run(luo_arena *arena, const luo_het_loop_opts *opts, luo_het_loop *out,
                            luo_err *err)
{
    luo_het_loop sum = {0};
    loop l = {.o = opts, .sum = &sum};
    luo_status st = begin(arena, &l, err);
    for (int64_t k = 0; st == LUO_OK && k < opts->iterations; k++) st = play_round(&l, k, err);
    if (st == LUO_OK) st = finish(&l, err);
    for (int32_t w = 0; l.worker && w < opts->workers; w++) luo_het_free(l.worker[w]);
    luo_het_store_free(&l.store);
    luo_map_free(&l.total);
    free(l.totals);
    if (st == LUO_OK)
        *out = sum;
    else
        luo_tally_free(&sum.missed);
    return st;
}
