/* check_het.c: cached embeddings: vectors HE1 and HE2 cell by cell, fused messages, Zipf keys. */
#include <math.h>

#include "core/sync/draws.h"
#include "core/sync/embed/het.h"
#include "core/sync/embed/zipf.h"
#include "tests/check_main.h"

static luo_het *cache_of(luo_het_store *store, int64_t rows, luo_het_policy policy, int64_t pull,
                         int64_t push)
{
    luo_het *het = NULL;
    const luo_het_opts opts = {.rows = rows,
                               .policy = policy,
                               .pull_bound = pull,
                               .push_bound = push,
                               .width = store->width,
                               .link = {luo_het_store_exchange, store}};
    ck_assert_int_eq(luo_het_new(&opts, &het, NULL), LUO_OK);
    return het;
}

/* ---- HE1: one key, two workers in turn ---- */

static const struct {
    int64_t bound;
    double read[12];
    int64_t pulls[2], pushes[2];
} he1[] = {
    {0, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, {6, 6}, {6, 6}},
    {1, {0, 0, 1, 3, 4, 4, 5, 7, 8, 8, 9, 11}, {3, 4}, {3, 3}},
};

START_TEST(HE1)
{
    luo_het_store store = {.width = 1};
    luo_het *het[2];
    const uint64_t key = 5;
    const double one = 1;
    for (int w = 0; w < 2; w++)
        het[w] = cache_of(&store, 4, LUO_HET_LRU, he1[_i].bound, he1[_i].bound);
    for (int k = 0; k < 12; k++) {
        double value;
        int64_t seen;
        ck_assert_int_eq(luo_het_lookup(het[k % 2], &key, 1, &value, &seen, NULL), LUO_OK);
        ck_assert(value == he1[_i].read[k]);
        ck_assert_int_eq(seen, (int64_t)value); /* every update adds 1 */
        ck_assert_int_eq(luo_het_update(het[k % 2], &key, &one, 1, NULL), LUO_OK);
    }
    for (int w = 0; w < 2; w++) {
        const luo_het_traffic t = luo_het_counted(het[w]);
        ck_assert_int_eq(t.pulled, he1[_i].pulls[w]);
        ck_assert_int_eq(t.pushed, he1[_i].pushes[w]);
        ck_assert_int_eq(luo_het_pending(het[w], key), 0);
        ck_assert_int_eq(t.asked, 6);
        ck_assert_int_eq(t.cached, 5);
        luo_het_free(het[w]);
    }
    ck_assert(luo_het_store_value(&store, key)[0] == 12);
    ck_assert_int_eq(luo_het_store_version(&store, key), 12);
    luo_het_store_free(&store);
}
END_TEST

/* ---- HE2: what each policy evicts ---- */

static const struct {
    luo_het_policy policy;
    int64_t pulls, pushes, evicted, dirty;
    double server[4];   /* keys 1 to 4 */
    int64_t pending[4]; /* -1: not in the cache */
} he2[] = {
    {LUO_HET_LRU, 6, 4, 4, 4, {2, 1, 1, 1}, {2, -1, 1, -1}},
    {LUO_HET_LFU, 5, 4, 3, 3, {3, 1, 1, 1}, {1, -1, 1, -1}},
};

START_TEST(HE2)
{
    static const uint64_t keys[] = {1, 1, 2, 3, 1, 4, 1, 3};
    const double one = 1;
    luo_het_store store = {.width = 1};
    luo_het *het = cache_of(&store, 2, he2[_i].policy, 0, 2);
    for (int k = 0; k < 8; k++) {
        ck_assert_int_eq(luo_het_lookup(het, &keys[k], 1, NULL, NULL, NULL), LUO_OK);
        ck_assert_int_eq(luo_het_update(het, &keys[k], &one, 1, NULL), LUO_OK);
    }
    luo_het_traffic t = luo_het_counted(het);
    ck_assert_int_eq(t.pulled, he2[_i].pulls);
    ck_assert_int_eq(t.pushed, he2[_i].pushes);
    ck_assert_int_eq(t.evicted, he2[_i].evicted);
    ck_assert_int_eq(t.evicted_dirty, he2[_i].dirty);
    for (uint64_t key = 1; key <= 4; key++) {
        ck_assert(luo_het_store_value(&store, key)[0] == he2[_i].server[key - 1]);
        ck_assert_int_eq(luo_het_store_version(&store, key), (int64_t)he2[_i].server[key - 1]);
        ck_assert_int_eq(luo_het_pending(het, key), he2[_i].pending[key - 1]);
    }
    ck_assert_int_eq(luo_het_flush(het, NULL), LUO_OK);
    t = luo_het_counted(het);
    ck_assert_int_eq(t.flushed, 2);
    ck_assert_int_eq(t.pushed, he2[_i].pushes + 2);
    ck_assert(luo_het_store_value(&store, 1)[0] == 4 && luo_het_store_value(&store, 3)[0] == 2);
    ck_assert_int_eq(luo_het_pending(het, 1), 0);
    luo_het_free(het);
    luo_het_store_free(&store);
}
END_TEST

/* ---- what the vectors do not say ---- */

/* After ten touches a row stays for ever; when all rows are such, what is new is not kept. */
START_TEST(pinned)
{
    luo_het_store store = {.width = 0};
    luo_het *het = cache_of(&store, 2, LUO_HET_LFUOPT, 0, 0);
    const uint64_t a[] = {1, 1}, b = 2, c = 3;
    for (int k = 0; k < 11; k++) luo_het_lookup(het, a, 2, NULL, NULL, NULL);  /* 1 + 10 touches */
    for (int k = 0; k < 10; k++) luo_het_lookup(het, &b, 1, NULL, NULL, NULL); /* 1 + 9 */
    luo_het_lookup(het, &c, 1, NULL, NULL, NULL);                              /* b can still go */
    ck_assert_int_eq(luo_het_pending(het, b), LUO_HET_NONE);
    ck_assert_int_eq(luo_het_pending(het, 1), 0);
    for (int k = 0; k < 10; k++) luo_het_lookup(het, &c, 1, NULL, NULL, NULL);
    luo_het_lookup(het, &b, 1, NULL, NULL, NULL);
    ck_assert_int_eq(luo_het_pending(het, b), LUO_HET_NONE);
    ck_assert_int_eq(luo_het_pending(het, c), 0);
    ck_assert_int_eq(luo_het_counted(het).not_kept, 1);
    luo_het_free(het);
    luo_het_store_free(&store);
}
END_TEST

/* A row that is pushed and pulled by one message has its own gradient once, and the version of the
 * server (fault 3 of the public code). */
START_TEST(fused)
{
    luo_het_store store = {.width = 2};
    luo_het *a = cache_of(&store, 4, LUO_HET_LRU, 0, 0);
    luo_het *b = cache_of(&store, 4, LUO_HET_LRU, 0, 0);
    const uint64_t keys[] = {9, 9}, key = 9;
    const double grads[] = {1, 10, 2, 20}, other[] = {4, 40};
    double rows[2];
    int64_t seen;
    luo_het_lookup(a, &key, 1, rows, NULL, NULL);
    luo_het_update(b, &key, other, 1, NULL);
    const luo_status st = luo_het_update_lookup(a, keys, grads, 2, &key, 1, rows, &seen, NULL);
    ck_assert_int_eq(st, LUO_OK);
    ck_assert(rows[0] == 7 && rows[1] == 70);
    ck_assert_int_eq(seen, 3);
    ck_assert_int_eq(luo_het_store_version(&store, key), 3);
    ck_assert_int_eq(luo_het_counted(a).pulled, 2);
    luo_het_lookup(a, &key, 1, rows, &seen, NULL);
    ck_assert(rows[0] == 7 && seen == 3);
    ck_assert_int_eq(luo_het_counted(a).pulled, 2); /* it is not behind */
    luo_het_free(a);
    luo_het_free(b);
    luo_het_store_free(&store);
}
END_TEST

/* A worker sees its own update when the row made room before the next lookup (fault 4). */
START_TEST(evicted_write)
{
    luo_het_store store = {.width = 1};
    luo_het *het = cache_of(&store, 1, LUO_HET_LRU, 9, 9);
    const uint64_t a = 1, b = 2;
    const double one = 1;
    double row;
    luo_het_lookup(het, &a, 1, &row, NULL, NULL);
    luo_het_update(het, &a, &one, 1, NULL);
    luo_het_lookup(het, &b, 1, &row, NULL, NULL);
    luo_het_lookup(het, &a, 1, &row, NULL, NULL);
    ck_assert(row == 1);
    luo_het_free(het);
    luo_het_store_free(&store);
}
END_TEST

/* No rows: every different key is pulled and pushed each time. */
START_TEST(no_cache)
{
    luo_het_store store = {.width = 1};
    luo_het *het = cache_of(&store, 0, LUO_HET_LFU, 5, 5);
    const uint64_t keys[] = {7, 3, 7, 0};
    const double grads[] = {1, 2, 4, 8};
    double rows[4];
    for (int k = 0; k < 2; k++) {
        luo_het_lookup(het, keys, 4, rows, NULL, NULL);
        luo_het_update(het, keys, grads, 4, NULL);
    }
    ck_assert(rows[0] == 5 && rows[1] == 2 && rows[2] == 5 && rows[3] == 8);
    const luo_het_traffic t = luo_het_counted(het);
    ck_assert(t.asked == 6 && t.pulled == 6 && t.pushed == 6 && t.cached == 0 && t.lookups == 8);
    const luo_het_bytes bytes = luo_het_bytes_of(&t, 16);
    ck_assert(bytes.meta == 96 && bytes.pull == 480 && bytes.push == 480);
    luo_het_free(het);
    luo_het_store_free(&store);
}
END_TEST

static luo_status broken(void *ctx, const luo_het_message *message, luo_err *err)
{
    (void)ctx;
    return luo_err_set(err, LUO_EPEER, "server 0 is gone with %d questions.", message->ask.n);
}

START_TEST(errors)
{
    luo_het *het = NULL;
    luo_err err = {0};
    luo_het_opts opts = {.rows = 2, .link = {broken, NULL}};
    const uint64_t keys[] = {1, UINT64_MAX};
    ck_assert_int_eq(luo_het_new(&opts, &het, NULL), LUO_OK);
    ck_assert_int_eq(luo_het_lookup(het, keys, 1, NULL, NULL, &err), LUO_EPEER);
    ck_assert_str_eq(err.text, "server 0 is gone with 1 questions.");
    ck_assert_int_eq(luo_het_lookup(het, keys, 2, NULL, NULL, &err), LUO_EBUG);
    ck_assert_str_eq(err.text, "a key is 2^64 - 1; the largest is 2^64 - 2.");
    luo_het_free(het);
    het = NULL;
    opts.rows = -1;
    ck_assert_int_eq(luo_het_new(&opts, &het, &err), LUO_EBUG);
    ck_assert_str_eq(err.text, "a cache of -1 rows under policy 0 is asked for.");
    opts.rows = 1;
    opts.pull_bound = -1;
    ck_assert_int_eq(luo_het_new(&opts, &het, &err), LUO_EBUG);
    ck_assert_str_eq(err.text, "a cache has bounds of at least 0 and a link.");
    ck_assert_ptr_null(het);
    luo_het_free(NULL);
}
END_TEST

/* ---- Zipf ---- */

/* By the definition: sums from the first key on. */
static int64_t slow_key(double theta, int64_t vocab, double u)
{
    double all = 0, sum = 0;
    int64_t key = 0;
    for (int64_t i = 0; i < vocab; i++) all += pow((double)(i + 1), -theta);
    while (key < vocab - 1 && (sum += pow((double)(key + 1), -theta)) < u * all) key++;
    return key;
}

static const struct {
    double theta;
    int64_t vocab;
} zipfs[] = {{1.05, 1000}, {0, 7}, {2, 100}, {0.5, 1}, {0.9, 4097}};

START_TEST(zipf_twin)
{
    luo_arena *arena = luo_arena_new(0);
    luo_zipf zipf;
    ck_assert_int_eq(luo_zipf_make(arena, zipfs[_i].theta, zipfs[_i].vocab, &zipf, NULL), LUO_OK);
    for (uint64_t k = 0; k < 2000; k++) {
        const double u = luo_draw_u(7, 1, k);
        const int64_t slow = slow_key(zipfs[_i].theta, zipfs[_i].vocab, u);
        ck_assert_int_eq(luo_zipf_key(&zipf, u), slow);
    }
    ck_assert_int_eq(luo_zipf_key(&zipf, 0), 0);
    ck_assert_int_lt(luo_zipf_key(&zipf, 1 - 0x1p-53), zipf.vocab);
    luo_arena_free(arena);
}
END_TEST

/* theta 0 has exact borders: u = i / 8 reaches key i - 1, what is above reaches key i. */
START_TEST(zipf_borders)
{
    luo_arena *arena = luo_arena_new(0);
    luo_zipf zipf;
    ck_assert_int_eq(luo_zipf_make(arena, 0, 8, &zipf, NULL), LUO_OK);
    for (int64_t i = 1; i < 8; i++) {
        ck_assert_int_eq(luo_zipf_key(&zipf, (double)i / 8), i - 1);
        ck_assert_int_eq(luo_zipf_key(&zipf, (double)i / 8 + 0x1p-50), i);
    }
    luo_arena_free(arena);
}
END_TEST

LUO_SUITE("het", LUO_T_N(HE1, LUO_ROWS(he1)), LUO_T_N(HE2, LUO_ROWS(he2)), LUO_T(pinned),
          LUO_T(fused), LUO_T(evicted_write), LUO_T(no_cache), LUO_T(errors),
          LUO_T_N(zipf_twin, LUO_ROWS(zipfs)), LUO_T(zipf_borders))
