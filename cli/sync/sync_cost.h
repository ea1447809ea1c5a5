/* sync_cost.h: --exchange and the options of sizes: how long an iteration communicates, and how
 * many bytes that moves. */
#ifndef LUO_CLI_SYNC_SYNC_COST_H
#define LUO_CLI_SYNC_SYNC_COST_H
#include "cli/cli.h"
#include "cli/sync/sync_keys.h"
#include "core/sync/loop.h"

typedef struct luo_sync_cost {
    bool given;        /* by --sync-s: the rest is not known */
    double seconds;    /* of clocks; NAN: groups, by the ring of their size */
    double ring_bytes; /* all-reduced in an iteration */
    int64_t rows;      /* dense rows on servers */
    bool keyed;        /* keys go to servers */
    luo_exchange_net net;
    luo_sync_keys keys;
    luo_exchange_table dense, table; /* both on the same servers */
    int32_t workers;
    uint64_t seed;
    int64_t *const *key; /* keyed: by worker, batch x slots of them */
} luo_sync_cost;

/* --alpha-s and --bandwidth-gbytes-per-s. Errors: LUO_EUSAGE. */
luo_status luo_sync_cost_net(const luo_args *args, luo_exchange_net *out, luo_err *err);
/* --exchange: groups have none. Errors: LUO_EUSAGE, also where the mode does not go with it. */
luo_status luo_sync_cost_how(const luo_args *args, luo_loop_mode mode, luo_exchange_how *out,
                             luo_err *err);
luo_status luo_sync_cost_pick(const luo_args *args, luo_exchange_pick *out, luo_err *err);
/* Says that the all-reduce of `hybrid` is a barrier. */
void luo_sync_cost_note(luo_cli *cli);
/* Reads the options for that mode. Errors: LUO_EUSAGE; LUO_ENOMEM. */
luo_status luo_sync_cost_read(luo_cli *cli, luo_loop_mode mode, int32_t workers, uint64_t seed,
                              luo_sync_cost *out, luo_err *err);
/* The all-reduce of an exchange is a barrier: clocks are as of bsp. */
bool luo_sync_cost_barrier(const luo_sync_cost *cost);
/* Are there servers? */
bool luo_sync_cost_servers(const luo_sync_cost *cost);
/* What servers have moved after so many iterations of each worker. Pre: there are servers. */
luo_status luo_sync_cost_moved(luo_cli *cli, const luo_sync_cost *cost, const int64_t *iterations,
                               luo_exchange_bytes *out, luo_err *err);
#endif
