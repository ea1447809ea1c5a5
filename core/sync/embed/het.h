/* het.h: cached rows of embedding tables with bounded staleness, and the servers' rows.
 *
 * Notation (HET, VLDB 2022, and its public code src/hetu_cache): P = pull bound, Q = push bound,
 * W = workers. A row of the server has a value and a version, the number of updates in it. A row of
 * a worker's cache has data, a pending gradient with the number of updates in it, and the version
 * of the server that it has seen. Gradients are scaled already: servers only add.
 *
 * A worker's cache knows no network. What it has to say to the servers it gives to a link as one
 * message; a simulation links it to a luo_het_store, a real run to ranks. Keys are 0 to 2^64 - 2.
 *
 * A read misses at most P + (W - 1) Q updates of other workers: the servers may be P ahead of the
 * cached row, and each of the others keeps at most Q of its own.
 */
#ifndef LUO_CORE_SYNC_EMBED_HET_H
#define LUO_CORE_SYNC_EMBED_HET_H
#include <stdbool.h>
#include <stdint.h>

#include "core/base/err.h"
#include "core/base/hash.h"
#include "core/base/words.h"

/* Which row makes room for a new one: lru the one touched longest ago; lfu the one with the fewest
 * touches, of these the one touched longest ago; lfuopt as lfu, but a row is never evicted after
 * its tenth touch since it came, and where all rows are such, what is new is not kept. A lookup
 * touches a row once, however often it has its key. */
#define LUO_HET_POLICY_LIST(X)                                                                     \
    X(LUO_HET_LRU, "lru") X(LUO_HET_LFU, "lfu") X(LUO_HET_LFUOPT, "lfuopt")
typedef enum luo_het_policy { LUO_HET_POLICY_LIST(LUO_WORD_VALUE) LUO_HET_POLICIES } luo_het_policy;
const char *luo_het_policy_name(luo_het_policy policy);

/* What a worker sends: pushes, and questions about rows. The pushes are carried out before the
 * questions are answered. Keys of each part ascend; a part may be empty. */
typedef struct luo_het_message {
    int32_t width; /* numbers of a row */
    struct {
        int32_t n;
        const uint64_t *keys;
        const int64_t *counts; /* updates in each gradient, 1 or more */
        const double *grads;   /* n rows */
    } push;
    struct {
        int32_t n;
        const uint64_t *keys;
        int64_t bound;     /* P */
        int64_t *versions; /* of the worker, -1: it has none; of the server, where given */
        bool *given;       /* answer: the worker had none, or was more than P behind */
        double *values;    /* answer: n rows, those of `given` are set */
    } ask;
} luo_het_message;

/* The way to the servers. Errors: its own; after one, the cache can only be freed. */
typedef struct luo_het_link {
    luo_status (*exchange)(void *ctx, const luo_het_message *message, luo_err *err);
    void *ctx;
} luo_het_link;

typedef struct luo_het_opts {
    int64_t rows; /* of the cache, 0..LUO_HET_ROWS; 0: nothing is kept */
    luo_het_policy policy;
    int64_t pull_bound, push_bound; /* P and Q, 0 or more, in updates */
    int32_t width;                  /* numbers of a row; 0: versions and counts alone */
    luo_het_link link;
} luo_het_opts;
enum { LUO_HET_ROWS = 1 << 30, LUO_HET_NONE = -1 };

/* Rows and keys counted since the cache was made; bytes are made of them by luo_het_bytes. */
typedef struct luo_het_traffic {
    int64_t lookups, updates;       /* keys, as they were given */
    int64_t asked;                  /* different keys of a lookup, summed */
    int64_t cached;                 /* of these, those that the cache had */
    int64_t pulled;                 /* of these, those that a server sent */
    int64_t pushed;                 /* rows sent to a server, for whatever reason */
    int64_t evicted, evicted_dirty; /* the second: rows of `pushed` that made room */
    int64_t not_kept;               /* pulled, but only pinned rows were left */
    int64_t flushed;                /* rows of `pushed` that a flush sent */
} luo_het_traffic;

typedef struct luo_het_bytes {
    double push, pull, meta;
} luo_het_bytes;
/* Bytes on the wire for rows of `floats` 4-byte numbers: 16 for each key asked, 4 floats + 16 for
 * each row pulled or pushed. */
luo_het_bytes luo_het_bytes_of(const luo_het_traffic *traffic, int64_t floats);

typedef struct luo_het luo_het; /* the cache of one worker */

/* Errors: LUO_EBUG options out of their range; LUO_ENOMEM. Owner: the caller frees it.
 * Cost: O(rows x (width + 8)) memory at once. */
luo_status luo_het_new(const luo_het_opts *opts, luo_het **out, luo_err *err);
void luo_het_free(luo_het *het); /* what is pending is lost; NULL is fine */

/* Reads the rows of keys[0..n), which may repeat.
 * Shapes: rows n x width (NULL: not wanted); seen n (NULL: not wanted).
 * seen:   how many updates of the row, by whomever, are in what was read.
 * Order:  touches and questions by key; then what is new is kept in that order, and rows that make
 *         room are pushed if updates are pending in them.
 * Errors: LUO_ENOMEM; those of the link.
 * Cost:   O(n) and one message or two.
 * Source: HET; a row that makes room is pushed at once, where the public code waits for the next
 *         update, and a lookup in between misses the worker's own update.
 * See:    tests/unit/check_het.c, tests/prop/prop_het.c */
luo_status luo_het_lookup(luo_het *het, const uint64_t *keys, int32_t n, double *rows,
                          int64_t *seen, luo_err *err);
/* Adds gradient i (n x width) to the row of keys[i]; keys may repeat, each counts as one update.
 * Rows with more than Q updates pending are pushed then, in one message; a row that the cache has
 * not is pushed at once. Cost: O(n), at most one message. Errors: as above. */
luo_status luo_het_update(luo_het *het, const uint64_t *keys, const double *grads, int32_t n,
                          luo_err *err);
/* An update of keys[0..n) and a lookup of next[0..nnext) in one message. As the two one after the
 * other: versions are asked for when pushes are accounted for, where the public code
 * (_embeddingPushPull) reads them before and then has the own gradient twice. Errors: as above. */
luo_status luo_het_update_lookup(luo_het *het, const uint64_t *keys, const double *grads, int32_t n,
                                 const uint64_t *next, int32_t nnext, double *rows, int64_t *seen,
                                 luo_err *err);
/* Pushes all that is pending, by key. Errors: as above. Cost: O(rows). */
luo_status luo_het_flush(luo_het *het, luo_err *err);

luo_het_traffic luo_het_counted(const luo_het *het);
/* Updates pending in the row of key; LUO_HET_NONE: the cache does not have it. */
int64_t luo_het_pending(const luo_het *het, uint64_t key);

/* ---- servers ---- */

/* Rows that were pushed; all others are 0 with version 0. Memory from malloc: by row, with an index
 * of 32 to 64 bytes a row; with `dense` 8 (width + 1) bytes a key, of which a system gives what is
 * touched. */
typedef struct luo_het_store {
    int32_t width;
    int32_t dense;              /* keys are below it, and each is the number of its row; 0: any */
    int32_t n, cap, cap_values; /* rows */
    luo_map row;                /* of a key */
    int64_t *versions;
    double *values; /* n x width */
} luo_het_store;
/* {.width = w, .dense = d} is an empty one. */

/* A link to it: ctx is the luo_het_store. Errors: LUO_ENOMEM. Cost: O(rows of the message). */
luo_status luo_het_store_exchange(void *ctx, const luo_het_message *message, luo_err *err);
int64_t luo_het_store_version(const luo_het_store *store, uint64_t key);
/* width numbers; NULL: the row was never pushed, all its numbers are 0 (`dense` may give these). */
const double *luo_het_store_value(const luo_het_store *store, uint64_t key);
void luo_het_store_free(luo_het_store *store);
#endif
