/* exchange.h: seconds and bytes of one exchange of gradients: ring all-reduce, parameter servers.
 *
 * Notation: W workers, S servers, rows of d floats of 4 bytes; u unique keys of a worker. Each
 * worker pushes u (4d + 8) bytes and a request of 8u, and pulls 4du. NICs carry both directions at
 * once. */
#ifndef LUO_CORE_SYNC_EXCHANGE_H
#define LUO_CORE_SYNC_EXCHANGE_H
#include <stdbool.h>
#include <stdint.h>

#include "core/base/err.h"
#include "core/base/words.h"

typedef struct luo_exchange_net {
    double alpha_s, bytes_per_s; /* latency of a message; bandwidth of a NIC, one direction */
} luo_exchange_net;

/* How gradients of workers with a clock travel:
 *   ps         rows and dense parameters by servers
 *   allreduce  all by a ring, which is a barrier
 *   hybrid     rows by servers, beside dense parameters by a ring */
#define LUO_EXCHANGE_HOW_LIST(X)                                                                   \
    X(LUO_EXCHANGE_PS, "ps")                                                                       \
    X(LUO_EXCHANGE_ALLREDUCE, "allreduce")                                                         \
    X(LUO_EXCHANGE_HYBRID, "hybrid")
typedef enum luo_exchange_how { LUO_EXCHANGE_HOW_LIST(LUO_WORD_VALUE) } luo_exchange_how;
enum { LUO_EXCHANGE_HOWS = LUO_EXCHANGE_HYBRID + 1 };
/* What of `hybrid` goes to servers: rows of tables; or where that is cheaper. */
#define LUO_EXCHANGE_PICK_LIST(X)                                                                  \
    X(LUO_EXCHANGE_BY_KIND, "kind")                                                                \
    X(LUO_EXCHANGE_BY_COST, "cost")
typedef enum luo_exchange_pick { LUO_EXCHANGE_PICK_LIST(LUO_WORD_VALUE) } luo_exchange_pick;
enum { LUO_EXCHANGE_PICKS = LUO_EXCHANGE_BY_COST + 1 };

/* 2 (W - 1) (alpha + bytes / (W bandwidth)). Pre: workers >= 1. See: RG1. */
double luo_exchange_ring(int64_t workers, double bytes, const luo_exchange_net *net);
/* What all workers send when each goes through `rounds / workers` such rings: 2 (W - 1) / W of the
 * bytes in each of the rounds. */
double luo_exchange_ring_bytes(int64_t workers, double bytes, int64_t rounds);

/*   mod    key k lies on server k mod S
 *   range  keys of 0..vocab in S contiguous pieces */
#define LUO_EXCHANGE_SHARD_LIST(X)                                                                 \
    X(LUO_EXCHANGE_MOD, "mod")                                                                     \
    X(LUO_EXCHANGE_RANGE, "range")
typedef enum luo_exchange_shard { LUO_EXCHANGE_SHARD_LIST(LUO_WORD_VALUE) } luo_exchange_shard;
enum { LUO_EXCHANGE_SHARDS = LUO_EXCHANGE_RANGE + 1 };

typedef struct luo_exchange_table { /* rows that are exchanged by key */
    int64_t width;                  /* floats of a row */
    int64_t vocab;                  /* keys are 0 .. vocab - 1 */
    int32_t servers;
    luo_exchange_shard shard;
} luo_exchange_table;

typedef struct luo_exchange_bytes { /* what servers and workers have moved */
    int32_t servers, workers;
    double *in, *out;           /* by server */
    double *moved;              /* by worker: pushed, with requests, which is more than it pulls */
    double push, request, pull; /* sums; a request carries keys alone */
} luo_exchange_bytes;

/* Where a key lies. Pre: 0 <= key < vocab (RANGE). */
int32_t luo_exchange_server(const luo_exchange_table *table, int64_t key);
/* Nothing is moved yet. Errors: LUO_EUSAGE no server; LUO_ENOMEM. Owner: arena. */
luo_status luo_exchange_open(luo_arena *arena, int32_t servers, int32_t workers,
                             luo_exchange_bytes *out, luo_err *err);
/* A worker touches keys[0..n) in `times` rounds, doubles counted once; keys are sorted.
 * Pre: as many servers as bytes has. Errors: LUO_EINPUT a key outside of 0..vocab.
 * Cost: O(n log n). Source: docs/sync.md#time. See: PS1. */
luo_status luo_exchange_add_keys(luo_exchange_bytes *bytes, const luo_exchange_table *table,
                                 int32_t worker, int64_t *keys, int64_t n, int64_t times,
                                 luo_err *err);
/* A worker touches all of the rows 0 .. rows - 1, as dense parameters are. Cost: O(servers). */
void luo_exchange_add_rows(luo_exchange_bytes *bytes, const luo_exchange_table *table,
                           int32_t worker, int64_t rows, int64_t times);
/* 2 alpha + largest of bytes in and bytes out of any NIC / bandwidth: of one round of all. */
double luo_exchange_time(const luo_exchange_bytes *bytes, const luo_exchange_net *net);
/* `cost`: is a ring of the whole table cheaper than one round of its rows by servers? */
bool luo_exchange_table_by_ring(const luo_exchange_bytes *round, const luo_exchange_table *table,
                                const luo_exchange_net *net);
#endif
