/* het_loop.h: workers that read and update rows of an embedding table in rounds, with what that
 * moves.
 *
 * In a round every worker looks up the keys of its batch, all at once, then computes, then updates
 * them, all at once, lower workers first. The round ends when the slowest worker has computed and
 * everything has been sent: 2 alpha + the largest of bytes in and bytes out of any NIC / bandwidth.
 * Key k lies on server k mod S. */
#ifndef LUO_CORE_SYNC_EMBED_HET_LOOP_H
#define LUO_CORE_SYNC_EMBED_HET_LOOP_H
#include "core/base/tally.h"
#include "core/sync/embed/het.h"
#include "core/sync/loop.h"

/* Bytes on the wire of one row pushed, one row pulled, one key asked for. */
typedef struct luo_het_wire {
    double push, pull, meta;
} luo_het_wire;
/* Rows of so many 4-byte numbers with key and version; without a cache (core/sync/exchange.h) with
 * the key alone, and nothing but numbers come back. */
luo_het_wire luo_het_wire_cached(int64_t floats);
luo_het_wire luo_het_wire_plain(int64_t floats);

typedef struct luo_het_loop_opts {
    int32_t workers, servers;
    int64_t iterations; /* of each worker */
    int32_t keys;       /* of a batch */
    int32_t vocab;      /* all keys are below it, which spares an index of them; 0: not known */
    /* Batch k of a worker: writes `keys` keys. */
    luo_status (*batch)(void *ctx, int32_t worker, int64_t k, uint64_t *keys, luo_err *err);
    void *ctx;
    luo_het_opts cache; /* of each worker; width and link are set here */
    luo_het_wire wire;
    luo_exchange_net net;
    double compute_s; /* of a batch, without stragglers */
    luo_straggler straggler;
    uint64_t seed;      /* of stragglers */
    luo_loop_sink sink; /* its iterations; there are no groups */
} luo_het_loop_opts;

typedef struct luo_het_loop {
    luo_het_traffic traffic; /* of all workers, before the flush at the end */
    double push, pull, meta; /* bytes; the same */
    double flush;            /* bytes that the flush at the end pushes */
    double *in, *out;        /* bytes by server, the flush left out */
    double *wait_s;          /* by worker: until the slowest has computed */
    double t_s;              /* when the last round ends */
    luo_tally missed;        /* updates by others that a read of a key lacks, key by key as batches
                              * have them; the caller frees it */
} luo_het_loop;

/* Pre: workers, servers, iterations, keys >= 1; times >= 0 and finite.
 * Checks as it goes that no read misses more than P + (W - 1) Q updates of others, and at the end,
 * when all is flushed, that the servers have every update.
 * Errors: LUO_EBUG one of these does not hold; LUO_ENOMEM; those of batch and sink.
 * Owner: arena; missed. Cost: O(keys) a batch; memory by the rows that are touched, 64 to 128
 * bytes each, or with `vocab` 16 bytes a key; and by those of the caches (het_cache.h). */
luo_status luo_het_loop_run(luo_arena *arena, const luo_het_loop_opts *opts, luo_het_loop *out,
                            luo_err *err);
#endif
