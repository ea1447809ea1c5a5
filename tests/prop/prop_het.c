/* prop_het.c: caches of several workers against an obvious twin, message by message; sums are kept,
 * reads miss no more than they may, and traffic falls with rows and bounds. */
#include "core/sync/draws.h"
#include "core/sync/embed/het.h"
#include "core/sync/embed/het_loop.h"
#include "tests/check_main.h"
#include "tests/prop/prop.h"

enum { WORKERS = 3, KEYS = 12, BATCH = 8, ROWS = 8, STEPS = 250 };

/* ---- the slow twin: a table of all keys, scanned for everything ---- */

typedef struct twin_row {
    bool cached, pinned, asked, pushed;
    int64_t version, pending, touches, when;
    double data, grad;
} twin_row;

typedef struct twin {
    luo_het_opts o;
    twin_row row[KEYS];
    int64_t clock;
    luo_het_traffic t;
} twin;

typedef struct server {
    int64_t version[KEYS];
    double value[KEYS];
} server;

static void twin_push(twin *w, server *s, int key)
{
    twin_row *r = &w->row[key];
    s->value[key] += r->grad;
    s->version[key] += r->pending;
    r->version += r->pending;
    r->pending = 0;
    r->grad = 0;
    w->t.pushed++;
}

static int twin_cached(const twin *w)
{
    int n = 0;
    for (int k = 0; k < KEYS; k++) n += w->row[k].cached;
    return n;
}

static bool goes_before(const twin *w, const twin_row *a, const twin_row *b)
{
    if (w->o.policy != LUO_HET_LRU && a->touches != b->touches) return a->touches < b->touches;
    return a->when < b->when;
}

/* False: nothing may go. */
static bool twin_evict(twin *w, server *s)
{
    int victim = -1;
    for (int k = 0; k < KEYS; k++)
        if (w->row[k].cached && !w->row[k].pinned &&
            (victim < 0 || goes_before(w, &w->row[k], &w->row[victim])))
            victim = k;
    if (victim < 0) return false;
    w->t.evicted++;
    if (w->row[victim].pending) {
        w->t.evicted_dirty++;
        twin_push(w, s, victim);
    }
    w->row[victim].cached = false;
    return true;
}

static void twin_read(twin *w, const server *s, int key)
{
    twin_row *r = &w->row[key];
    if (!r->cached) *r = (twin_row){.version = -1};
    if (r->version == -1 || s->version[key] - r->version > w->o.pull_bound) {
        r->data = s->value[key] + r->grad;
        r->version = s->version[key];
        w->t.pulled++;
    }
}

static void twin_lookup(twin *w, server *s, const uint64_t *keys, int n, double *rows,
                        int64_t *seen)
{
    bool fresh[KEYS] = {false};
    for (int i = 0; i < n; i++) w->row[keys[i]].asked = true;
    w->t.lookups += n;
    for (int k = 0; k < KEYS; k++) {
        twin_row *r = &w->row[k];
        if (!r->asked) continue;
        w->t.asked++;
        w->t.cached += r->cached;
        fresh[k] = !r->cached;
        if (r->cached) {
            r->when = w->clock++;
            r->pinned |= w->o.policy == LUO_HET_LFUOPT && r->touches == 10;
            r->touches++;
        }
        twin_read(w, s, k);
    }
    for (int i = 0; i < n; i++) {
        rows[i] = w->row[keys[i]].data;
        seen[i] = w->row[keys[i]].version + w->row[keys[i]].pending;
    }
    for (int k = 0; k < KEYS; k++) {
        if (!fresh[k]) continue;
        if (twin_cached(w) == w->o.rows && !twin_evict(w, s)) {
            w->t.not_kept++;
            continue;
        }
        w->row[k].cached = true;
        w->row[k].touches = 1;
        w->row[k].when = w->clock++;
    }
    for (int k = 0; k < KEYS; k++) w->row[k].asked = false;
}

static void twin_update(twin *w, server *s, const uint64_t *keys, const double *grads, int n)
{
    w->t.updates += n;
    for (int i = 0; i < n; i++) {
        twin_row *r = &w->row[keys[i]];
        if (!r->cached && !r->pushed) *r = (twin_row){0};
        r->data += grads[i];
        r->grad += grads[i];
        r->pending++;
        r->pushed = true;
    }
    for (int k = 0; k < KEYS; k++) {
        twin_row *r = &w->row[k];
        if (r->pushed && (!r->cached || r->pending > w->o.push_bound)) twin_push(w, s, k);
        r->pushed = false;
    }
}

/* ---- both beside each other ---- */

typedef struct scene {
    luo_rng rng;
    luo_het_store store;
    luo_het *het[WORKERS];
    twin twin[WORKERS];
    server server;
    int64_t narrow;   /* keys at first */
    double sum[KEYS]; /* of all gradients of a key */
    int64_t updates[KEYS];
} scene;

static int evicted, pinned_out, missing, fused; /* what the cases hit */

static void begin(scene *s, uint64_t seed)
{
    *s = (scene){.rng = luo_rng_seed(seed), .store.width = 1};
    s->store.dense = luo_rng_pick(&s->rng, 2) ? KEYS : 0;
    s->narrow = 1 + luo_rng_pick(&s->rng, 4);
    for (int w = 0; w < WORKERS; w++) {
        luo_het_opts o = {.width = 1, .link = {luo_het_store_exchange, &s->store}};
        o.policy = (luo_het_policy)luo_rng_pick(&s->rng, LUO_HET_POLICIES);
        o.rows = luo_rng_pick(&s->rng, ROWS + 1);
        o.pull_bound = luo_rng_pick(&s->rng, 5);
        o.push_bound = luo_rng_pick(&s->rng, 5);
        if (w > 0) { /* the bound of what a read misses is one of workers alike */
            o.pull_bound = s->twin[0].o.pull_bound;
            o.push_bound = s->twin[0].o.push_bound;
        }
        s->twin[w].o = o;
        ck_assert_int_eq(luo_het_new(&o, &s->het[w], NULL), LUO_OK);
    }
}

/* Low keys more often; at first few of them alone, so that rows are pinned. */
static int draw_batch(scene *s, uint64_t *keys, double *grads)
{
    const int n = (int)luo_rng_pick(&s->rng, BATCH + 1);
    for (int i = 0; i < n; i++) {
        keys[i] = (uint64_t)luo_rng_pick(&s->rng, 1 + luo_rng_pick(&s->rng, s->narrow));
        if (grads) grads[i] = (double)luo_rng_pick(&s->rng, 9) - 4;
    }
    return n;
}

/* One assertion for all, since Check notes each in a file. */
static void check_reads(const scene *s, int w, const uint64_t *keys, int n, const double *rows,
                        const double *twin_rows, const int64_t *seen, const int64_t *twin_seen)
{
    const luo_het_opts *o = &s->twin[w].o;
    bool same = true, bounded = true;
    for (int i = 0; i < n; i++) {
        const int64_t missed = s->updates[keys[i]] - seen[i];
        same &= rows[i] == twin_rows[i] && seen[i] == twin_seen[i];
        bounded &= missed >= 0 && missed <= o->pull_bound + (WORKERS - 1) * o->push_bound;
        missing += missed > 0;
    }
    ck_assert(same);
    ck_assert(bounded);
}

static void step(scene *s)
{
    uint64_t keys[BATCH], next[BATCH];
    double grads[BATCH], rows[BATCH], twin_rows[BATCH];
    int64_t seen[BATCH], twin_seen[BATCH];
    const int w = (int)luo_rng_pick(&s->rng, WORKERS), n = draw_batch(s, keys, grads),
              nnext = draw_batch(s, next, NULL), what = (int)luo_rng_pick(&s->rng, 3);
    if (what != 1) {
        twin_update(&s->twin[w], &s->server, keys, grads, n);
        for (int i = 0; i < n; i++) {
            s->sum[keys[i]] += grads[i];
            s->updates[keys[i]]++;
        }
    }
    if (what != 0) twin_lookup(&s->twin[w], &s->server, next, nnext, twin_rows, twin_seen);
    luo_status st = LUO_OK;
    if (what == 0) st = luo_het_update(s->het[w], keys, grads, n, NULL);
    if (what == 1) st = luo_het_lookup(s->het[w], next, nnext, rows, seen, NULL);
    if (what == 2)
        st = luo_het_update_lookup(s->het[w], keys, grads, n, next, nnext, rows, seen, NULL);
    ck_assert_int_eq(st, LUO_OK);
    fused += what == 2;
    if (what != 0) check_reads(s, w, next, nnext, rows, twin_rows, seen, twin_seen);
}

static void check_server(const scene *s)
{
    bool same = true;
    for (int k = 0; k < KEYS; k++) {
        const double *value = luo_het_store_value(&s->store, (uint64_t)k);
        same &= (value ? *value : 0) == s->server.value[k];
        same &= luo_het_store_version(&s->store, (uint64_t)k) == s->server.version[k];
    }
    ck_assert(same);
}

static void check_worker(const scene *s, int w)
{
    const twin *t = &s->twin[w];
    const luo_het_traffic got = luo_het_counted(s->het[w]);
    ck_assert_mem_eq(&got, &t->t, sizeof got);
    for (int k = 0; k < KEYS; k++)
        ck_assert_int_eq(luo_het_pending(s->het[w], (uint64_t)k),
                         t->row[k].cached ? t->row[k].pending : LUO_HET_NONE);
    evicted += t->t.evicted > 0;
    pinned_out += t->t.not_kept > 0 && t->o.rows > 0;
}

/* After a flush the servers have every update once. */
static void flush(scene *s)
{
    for (int w = 0; w < WORKERS; w++) {
        ck_assert_int_eq(luo_het_flush(s->het[w], NULL), LUO_OK);
        luo_het_free(s->het[w]);
    }
    for (int k = 0; k < KEYS; k++) {
        const double *value = luo_het_store_value(&s->store, (uint64_t)k);
        ck_assert((value ? *value : 0) == s->sum[k]);
        ck_assert_int_eq(luo_het_store_version(&s->store, (uint64_t)k), s->updates[k]);
    }
    luo_het_store_free(&s->store);
}

START_TEST(twins)
{
    LUO_PROP_FOR(seed, 400)
    {
        scene s;
        begin(&s, seed);
        for (int i = 0; i < STEPS; i++) {
            if (i == STEPS / 2) s.narrow = KEYS;
            step(&s);
            check_server(&s);
        }
        for (int w = 0; w < WORKERS; w++) check_worker(&s, w);
        flush(&s);
    }
    printf("evicted %d, kept out by pinned rows %d, reads that miss updates %d, fused %d\n",
           evicted, pinned_out, missing, fused);
    fflush(stdout);
    ck_assert(evicted > 0 && pinned_out > 0 && missing > 0 && fused > 0);
}
END_TEST

/* ---- a fixed stream of keys ---- */

static luo_status stream(void *ctx, int32_t worker, int64_t k, uint64_t *keys, luo_err *err)
{
    const uint64_t seed = *(const uint64_t *)ctx;
    (void)err;
    for (uint64_t i = 0; i < BATCH; i++) {
        const double u = luo_draw_u(seed, (uint64_t)worker, (uint64_t)k * BATCH + i);
        keys[i] = (uint64_t)(u * u * 5 * KEYS);
    }
    return LUO_OK;
}

/* With an index of keys, and without one: the same. */
static int64_t moved(uint64_t seed, int32_t workers, int64_t rows, int64_t pull, int64_t push)
{
    luo_arena *arena = luo_arena_new(0);
    luo_het_loop sum, dense;
    luo_het_loop_opts o = {.workers = workers,
                           .servers = 2,
                           .iterations = 40,
                           .keys = BATCH,
                           .batch = stream,
                           .ctx = &seed,
                           .cache = {.rows = rows, .pull_bound = pull, .push_bound = push},
                           .wire = luo_het_wire_cached(4),
                           .net = {0, 1}};
    ck_assert_int_eq(luo_het_loop_run(arena, &o, &sum, NULL), LUO_OK);
    o.vocab = 5 * KEYS;
    ck_assert_int_eq(luo_het_loop_run(arena, &o, &dense, NULL), LUO_OK);
    ck_assert_mem_eq(&dense.traffic, &sum.traffic, sizeof sum.traffic);
    ck_assert(dense.t_s == sum.t_s && dense.flush == sum.flush);
    ck_assert(luo_tally_quantile(&dense.missed, .9) == luo_tally_quantile(&sum.missed, .9));
    luo_tally_free(&dense.missed);
    luo_tally_free(&sum.missed);
    luo_arena_free(arena);
    return sum.traffic.pulled + sum.traffic.pushed;
}

/* lru has what a smaller lru has. With one worker that alone decides what is pulled, and what is
 * pushed only ever waits longer. */
START_TEST(more_rows)
{
    int less = 0;
    LUO_PROP_FOR(seed, 50)
    {
        int64_t before = moved(seed, 1, 0, 2, 2);
        for (int64_t rows = 1; rows <= 5 * KEYS; rows += 3) {
            const int64_t now = moved(seed, 1, rows, 2, 2);
            ck_assert_int_le(now, before);
            less += now < before;
            before = now;
        }
    }
    ck_assert_int_gt(less, 0);
}
END_TEST

/* With a cache that holds everything. */
START_TEST(wider_bounds)
{
    int less = 0;
    LUO_PROP_FOR(seed, 50)
    {
        int64_t before = moved(seed, 3, 5 * KEYS, 0, 0);
        for (int64_t bound = 1; bound < 64; bound *= 2) {
            const int64_t now = moved(seed, 3, 5 * KEYS, bound, bound);
            ck_assert_int_le(now, before);
            less += now < before;
            before = now;
        }
    }
    ck_assert_int_gt(less, 0);
}
END_TEST

LUO_SUITE("het.prop", LUO_T(twins), LUO_T(more_rows), LUO_T(wider_bounds))
