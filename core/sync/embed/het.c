#include "core/sync/embed/het.h"

#include <string.h>

#include "core/sync/embed/het_cache.h"

static const char *const policy_names[] = {LUO_HET_POLICY_LIST(LUO_WORD_TEXT)};

struct luo_het {
    luo_het_opts opts;
    luo_arena *arena;   /* the cache */
    luo_arena *scratch; /* of one call */
    luo_het_cache cache;
    double *data, *grads; /* rows x width */
    luo_het_traffic traffic;
};

/* The different keys of a call, ascending. Those at order[first[i]..first[i + 1]) are key[i]. */
typedef struct batch {
    int32_t n;
    uint64_t *key;
    int32_t *first, *order;
} batch;

/* Rows on their way to the servers. */
typedef struct pushes {
    int32_t n;
    uint64_t *keys;
    int64_t *counts;
    double *grads;
} pushes;

const char *luo_het_policy_name(luo_het_policy policy)
{
    return policy_names[policy];
}

luo_het_bytes luo_het_bytes_of(const luo_het_traffic *traffic, int64_t floats)
{
    const double row = 4 * (double)floats + 16;
    return (luo_het_bytes){.push = row * (double)traffic->pushed,
                           .pull = row * (double)traffic->pulled,
                           .meta = 16 * (double)traffic->asked};
}

static luo_status check_opts(const luo_het_opts *opts, luo_err *err)
{
    if (opts->rows < 0 || opts->rows > LUO_HET_ROWS || opts->policy >= LUO_HET_POLICIES)
        return luo_err_set(err, LUO_EBUG, "a cache of %lld rows under policy %d is asked for.",
                           (long long)opts->rows, (int)opts->policy);
    if (opts->pull_bound < 0 || opts->push_bound < 0 || opts->width < 0 || !opts->link.exchange)
        return luo_err_set(err, LUO_EBUG, "a cache has bounds of at least 0 and a link.");
    return LUO_OK;
}

luo_status luo_het_new(const luo_het_opts *opts, luo_het **out, luo_err *err)
{
    LUO_TRY(check_opts(opts, err));
    luo_arena *arena = luo_arena_new(0);
    luo_het *het = arena ? LUO_NEW(arena, luo_het) : NULL;
    if (!het) {
        luo_arena_free(arena);
        return luo_err_nomem(err);
    }
    *het = (luo_het){.opts = *opts, .arena = arena, .scratch = luo_arena_new(0)};
    const size_t bytes = (size_t)opts->width * sizeof(double);
    het->data = luo_arena_calloc(arena, (size_t)opts->rows, bytes);
    het->grads = luo_arena_calloc(arena, (size_t)opts->rows, bytes);
    luo_status st = luo_het_cache_init(arena, &het->cache, opts->policy, (int32_t)opts->rows, err);
    if (!het->data || !het->grads || !het->scratch) st = luo_err_nomem(err);
    if (st == LUO_OK)
        *out = het;
    else
        luo_het_free(het);
    return st;
}

void luo_het_free(luo_het *het)
{
    if (!het) return;
    luo_arena_free(het->scratch);
    luo_arena_free(het->arena);
}

/* ---- keys of a call ---- */

typedef struct occurrence {
    uint64_t key;
    int32_t at;
} occurrence;

/* Sorts by key, byte by byte from the lowest, each pass stable: equal keys stay in their order.
 * Returns where the result is. Cost: O(n x bytes of the largest key). */
static occurrence *sort_keys(occurrence *from, occurrence *to, int32_t n, uint64_t largest)
{
    for (int shift = 0; shift < 64 && largest >> shift; shift += 8) {
        int32_t begin[257] = {0};
        for (int32_t i = 0; i < n; i++) begin[((from[i].key >> shift) & 255) + 1]++;
        for (int b = 0; b < 255; b++) begin[b + 1] += begin[b];
        for (int32_t i = 0; i < n; i++) to[begin[(from[i].key >> shift) & 255]++] = from[i];
        occurrence *sorted = to;
        to = from;
        from = sorted;
    }
    return from;
}

static luo_status batch_of(luo_arena *scratch, const uint64_t *keys, int32_t n, batch *out,
                           luo_err *err)
{
    occurrence *unsorted = LUO_NEW_N(scratch, occurrence, n);
    occurrence *other = LUO_NEW_N(scratch, occurrence, n);
    uint64_t largest = 0;
    *out = (batch){.key = LUO_NEW_N(scratch, uint64_t, n),
                   .first = LUO_NEW_N(scratch, int32_t, (size_t)n + 1),
                   .order = LUO_NEW_N(scratch, int32_t, n)};
    if (!unsorted || !other || !out->key || !out->first || !out->order) return luo_err_nomem(err);
    for (int32_t i = 0; i < n; i++) {
        unsorted[i] = (occurrence){keys[i], i};
        if (keys[i] > largest) largest = keys[i];
    }
    if (largest == UINT64_MAX)
        return luo_err_set(err, LUO_EBUG, "a key is 2^64 - 1; the largest is 2^64 - 2.");
    const occurrence *sorted = sort_keys(unsorted, other, n, largest);
    for (int32_t i = 0; i < n; i++) {
        out->order[i] = sorted[i].at;
        if (i > 0 && sorted[i].key == sorted[i - 1].key) continue;
        out->key[out->n] = sorted[i].key;
        out->first[out->n++] = i;
    }
    out->first[out->n] = n;
    return LUO_OK;
}

static luo_status pushes_init(luo_het *het, int32_t most, pushes *out, luo_err *err)
{
    *out = (pushes){.keys = LUO_NEW_N(het->scratch, uint64_t, most),
                    .counts = LUO_NEW_N(het->scratch, int64_t, most),
                    .grads = luo_arena_calloc(het->scratch, (size_t)most,
                                              (size_t)het->opts.width * sizeof(double))};
    return out->keys && out->counts && out->grads ? LUO_OK : luo_err_nomem(err);
}

/* Room for one more gradient, all zero. */
static double *pushes_add(pushes *out, int32_t width, uint64_t key, int64_t count)
{
    out->keys[out->n] = key;
    out->counts[out->n] = count;
    return out->grads + (size_t)out->n++ * (size_t)width;
}

/* What is pending in a row goes out, and the row is as it is when the servers have it. */
static void push_row(luo_het *het, int32_t at, pushes *out)
{
    const size_t width = (size_t)het->opts.width;
    luo_het_row *row = &het->cache.row[at];
    double *grad = het->grads + (size_t)at * width;
    memcpy(pushes_add(out, het->opts.width, row->key, row->pending), grad, width * sizeof *grad);
    memset(grad, 0, width * sizeof *grad);
    row->version += row->pending;
    row->pending = 0;
}

/* ---- messages ---- */

static luo_het_message message_of(const luo_het *het, const pushes *out)
{
    luo_het_message message = {.width = het->opts.width, .ask.bound = het->opts.pull_bound};
    message.push.n = out->n;
    message.push.keys = out->keys;
    message.push.counts = out->counts;
    message.push.grads = out->grads;
    return message;
}

static luo_status send(luo_het *het, const luo_het_message *message, luo_err *err)
{
    if (message->push.n == 0 && message->ask.n == 0) return LUO_OK;
    het->traffic.pushed += message->push.n;
    het->traffic.asked += message->ask.n;
    return het->opts.link.exchange(het->opts.link.ctx, message, err);
}

static luo_status send_pushes(luo_het *het, const pushes *out, luo_err *err)
{
    const luo_het_message message = message_of(het, out);
    return send(het, &message, err);
}

/* ---- lookup ---- */

typedef struct question {
    batch keys;
    int32_t *row; /* of the cache, by key; LUO_HET_NONE */
    luo_het_message m;
} question;

static luo_status ask(luo_het *het, const uint64_t *keys, int32_t n, const pushes *out, question *q,
                      luo_err *err)
{
    LUO_TRY(batch_of(het->scratch, keys, n, &q->keys, err));
    const int32_t unique = q->keys.n;
    q->m = message_of(het, out);
    q->m.ask.n = unique;
    q->m.ask.keys = q->keys.key;
    q->m.ask.versions = LUO_NEW_N(het->scratch, int64_t, unique);
    q->m.ask.given = LUO_NEW_N(het->scratch, bool, unique);
    q->m.ask.values =
        luo_arena_calloc(het->scratch, (size_t)unique, (size_t)het->opts.width * sizeof(double));
    q->row = LUO_NEW_N(het->scratch, int32_t, unique);
    if (!q->m.ask.versions || !q->m.ask.given || !q->m.ask.values || !q->row)
        return luo_err_nomem(err);
    for (int32_t i = 0; i < unique; i++) {
        q->row[i] = luo_het_cache_find(&het->cache, q->keys.key[i]);
        q->m.ask.versions[i] = LUO_HET_NONE;
        if (q->row[i] == LUO_HET_NONE) continue;
        luo_het_cache_touch(&het->cache, q->row[i]);
        q->m.ask.versions[i] = het->cache.row[q->row[i]].version;
        het->traffic.cached++;
    }
    return send(het, &q->m, err);
}

/* data = value + g: the own updates that the servers do not have yet stay in what is read. */
static void refresh(luo_het *het, const question *q)
{
    const size_t width = (size_t)het->opts.width;
    for (int32_t i = 0; i < q->keys.n; i++) {
        if (!q->m.ask.given[i]) continue;
        het->traffic.pulled++;
        if (q->row[i] == LUO_HET_NONE) continue;
        const size_t at = (size_t)q->row[i] * width;
        het->cache.row[q->row[i]].version = q->m.ask.versions[i];
        for (size_t k = 0; k < width; k++)
            het->data[at + k] = q->m.ask.values[(size_t)i * width + k] + het->grads[at + k];
    }
}

/* What the caller reads, before rows that are new make others go. */
static void read_rows(const luo_het *het, const question *q, double *rows, int64_t *seen)
{
    const size_t width = (size_t)het->opts.width;
    for (int32_t i = 0; i < q->keys.n; i++) {
        const int32_t row = q->row[i];
        const bool cached = row != LUO_HET_NONE;
        const double *from =
            cached ? het->data + (size_t)row * width : q->m.ask.values + (size_t)i * width;
        const int64_t updates = q->m.ask.versions[i] + (cached ? het->cache.row[row].pending : 0);
        for (int32_t k = q->keys.first[i]; k < q->keys.first[i + 1]; k++) {
            const size_t at = (size_t)q->keys.order[k];
            if (rows) memcpy(rows + at * width, from, width * sizeof *rows);
            if (seen) seen[at] = updates;
        }
    }
}

/* Makes room if there is none. False: only pinned rows are left. */
static bool make_room(luo_het *het, pushes *out)
{
    if (het->cache.n < het->cache.cap) return true;
    const int32_t victim = luo_het_cache_victim(&het->cache);
    if (victim == LUO_HET_NONE) return false;
    het->traffic.evicted++;
    if (het->cache.row[victim].pending > 0) {
        het->traffic.evicted_dirty++;
        push_row(het, victim, out);
    }
    luo_het_cache_remove(&het->cache, victim);
    return true;
}

/* Keeps what is new; rows that make room go out together, before anything else is asked. */
static luo_status keep(luo_het *het, const question *q, luo_err *err)
{
    const size_t width = (size_t)het->opts.width;
    pushes out;
    LUO_TRY(pushes_init(het, q->keys.n, &out, err));
    for (int32_t i = 0; i < q->keys.n; i++) {
        if (q->row[i] != LUO_HET_NONE) continue;
        if (!make_room(het, &out)) {
            het->traffic.not_kept++;
            continue;
        }
        const int32_t row = luo_het_cache_insert(&het->cache, q->keys.key[i]);
        het->cache.row[row].version = q->m.ask.versions[i];
        memcpy(het->data + (size_t)row * width, q->m.ask.values + (size_t)i * width,
               width * sizeof(double));
    }
    return send_pushes(het, &out, err);
}

static luo_status lookup(luo_het *het, const uint64_t *keys, int32_t n, const pushes *before,
                         double *rows, int64_t *seen, luo_err *err)
{
    question q;
    het->traffic.lookups += n;
    LUO_TRY(ask(het, keys, n, before, &q, err));
    refresh(het, &q);
    read_rows(het, &q, rows, seen);
    return keep(het, &q, err);
}

/* ---- update ---- */

/* The gradients of one key, in the order in which they came. */
static void add_grads(const batch *b, int32_t i, const double *grads, size_t width, double *sum)
{
    for (int32_t k = b->first[i]; k < b->first[i + 1]; k++)
        for (size_t w = 0; w < width; w++) sum[w] += grads[(size_t)b->order[k] * width + w];
}

static luo_status update(luo_het *het, const uint64_t *keys, const double *grads, int32_t n,
                         pushes *out, luo_err *err)
{
    const size_t width = (size_t)het->opts.width;
    batch b;
    het->traffic.updates += n;
    LUO_TRY(batch_of(het->scratch, keys, n, &b, err));
    LUO_TRY(pushes_init(het, b.n, out, err));
    for (int32_t i = 0; i < b.n; i++) {
        const int64_t count = b.first[i + 1] - b.first[i];
        const int32_t at = luo_het_cache_find(&het->cache, b.key[i]);
        if (at == LUO_HET_NONE) {
            add_grads(&b, i, grads, width, pushes_add(out, het->opts.width, b.key[i], count));
            continue;
        }
        add_grads(&b, i, grads, width, het->data + (size_t)at * width);
        add_grads(&b, i, grads, width, het->grads + (size_t)at * width);
        het->cache.row[at].pending += count;
        if (het->cache.row[at].pending > het->opts.push_bound) push_row(het, at, out);
    }
    return LUO_OK;
}

luo_status luo_het_lookup(luo_het *het, const uint64_t *keys, int32_t n, double *rows,
                          int64_t *seen, luo_err *err)
{
    const pushes none = {0};
    const luo_status st = lookup(het, keys, n, &none, rows, seen, err);
    luo_arena_reset(het->scratch, 0);
    return st;
}

luo_status luo_het_update(luo_het *het, const uint64_t *keys, const double *grads, int32_t n,
                          luo_err *err)
{
    pushes out;
    luo_status st = update(het, keys, grads, n, &out, err);
    if (st == LUO_OK) st = send_pushes(het, &out, err);
    luo_arena_reset(het->scratch, 0);
    return st;
}

luo_status luo_het_update_lookup(luo_het *het, const uint64_t *keys, const double *grads, int32_t n,
                                 const uint64_t *next, int32_t nnext, double *rows, int64_t *seen,
                                 luo_err *err)
{
    pushes out;
    luo_status st = update(het, keys, grads, n, &out, err);
    if (st == LUO_OK) st = lookup(het, next, nnext, &out, rows, seen, err);
    luo_arena_reset(het->scratch, 0);
    return st;
}

/* ---- the end ---- */

luo_status luo_het_flush(luo_het *het, luo_err *err)
{
    luo_status st = LUO_OK;
    const luo_het_cache *cache = &het->cache;
    uint64_t *keys = LUO_NEW_N(het->scratch, uint64_t, cache->n);
    int32_t n = 0;
    pushes out;
    batch b;
    if (!keys) return luo_err_nomem(err);
    for (uint64_t i = 0; i <= cache->mask; i++)
        if (cache->index[i] && cache->row[cache->index[i] - 1].pending > 0)
            keys[n++] = cache->row[cache->index[i] - 1].key;
    LUO_TRY_OUT(batch_of(het->scratch, keys, n, &b, err));
    LUO_TRY_OUT(pushes_init(het, b.n, &out, err));
    for (int32_t i = 0; i < b.n; i++) push_row(het, luo_het_cache_find(cache, b.key[i]), &out);
    het->traffic.flushed += b.n;
    st = send_pushes(het, &out, err);
out:
    luo_arena_reset(het->scratch, 0);
    return st;
}

luo_het_traffic luo_het_counted(const luo_het *het)
{
    return het->traffic;
}

int64_t luo_het_pending(const luo_het *het, uint64_t key)
{
    const int32_t row = luo_het_cache_find(&het->cache, key);
    return row == LUO_HET_NONE ? LUO_HET_NONE : het->cache.row[row].pending;
}
