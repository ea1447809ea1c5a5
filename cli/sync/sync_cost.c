#include "cli/sync/sync_cost.h"

#include <math.h>

#include "core/sync/draws.h"
#include "core/sync/embed/zipf.h"

static const char *const hows[] = {LUO_EXCHANGE_HOW_LIST(LUO_WORD_TEXT)};

/* Options that say what communication takes. */
static const char *const sized[] = {"exchange", "servers", "shard",
                                    "hybrid",   "keys",    "dense-bytes",
                                    "width",    "alpha-s", "bandwidth-gbytes-per-s"};
/* Those of servers alone. */
static const char *const served[] = {"servers", "shard", "hybrid", "keys", "width"};

static luo_status none_of(const luo_args *args, const char *const *names, size_t n, const char *why,
                          luo_err *err)
{
    for (size_t i = 0; i < n; i++)
        if (luo_args_has(args, names[i]))
            return luo_err_set(err, LUO_EUSAGE, "`--%s` is given and %s; leave it out.", names[i],
                               why);
    return LUO_OK;
}
#define NONE_OF(list, why) none_of(args, list, sizeof list / sizeof *list, why, err)

luo_status luo_sync_cost_net(const luo_args *args, luo_exchange_net *out, luo_err *err)
{
    double gbytes;
    LUO_TRY(luo_args_number(args, "alpha-s", 1e-5, 0, 1e3, &out->alpha_s, err));
    LUO_TRY(luo_args_number(args, "bandwidth-gbytes-per-s", 12.5, 1e-6, 1e6, &gbytes, err));
    out->bytes_per_s = gbytes * 1e9;
    return LUO_OK;
}

static luo_status read_table(const luo_args *args, luo_sync_cost *cost, luo_err *err)
{
    static const char *const shards[] = {LUO_EXCHANGE_SHARD_LIST(LUO_WORD_TEXT)};
    int shard;
    int64_t servers;
    LUO_TRY(luo_args_int(args, "servers", 0, 0, 1 << 17, &servers, err));
    if (servers == 0)
        return luo_err_set(err, LUO_EUSAGE,
                           "`--exchange %s` needs at least one server; add `--servers 1`.",
                           luo_args_get(args, "exchange", "ps"));
    LUO_TRY(luo_args_int(args, "width", 16, 1, 1 << 20, &cost->table.width, err));
    LUO_TRY(luo_args_choice(args, "shard", 0, shards, LUO_EXCHANGE_SHARDS, &shard, err));
    cost->table.servers = (int32_t)servers;
    cost->table.shard = (luo_exchange_shard)shard;
    cost->table.vocab = cost->keys.vocab;
    cost->dense = cost->table;
    return LUO_OK;
}

/* The keys of one iteration of every worker: each iteration takes as long as this one. */
static luo_status draw_keys(luo_cli *cli, luo_sync_cost *cost, luo_err *err)
{
    luo_zipf zipf;
    const int64_t n = cost->keys.batch * cost->keys.slots;
    if ((double)n * cost->workers > 1e8)
        return luo_err_set(err, LUO_EUSAGE,
                           "`--keys` asks for %lld keys of each of %d workers; at most 1e8 in all "
                           "are drawn.",
                           (long long)n, cost->workers);
    LUO_TRY(luo_zipf_make(cli->arena, cost->keys.theta, cost->keys.vocab, &zipf, err));
    int64_t **key = LUO_NEW_N(cli->arena, int64_t *, cost->workers);
    if (!key) return luo_err_nomem(err);
    for (int32_t w = 0; w < cost->workers; w++) {
        key[w] = LUO_NEW_N(cli->arena, int64_t, n);
        if (!key[w]) return luo_err_nomem(err);
        for (int64_t i = 0; i < n; i++)
            key[w][i] = luo_zipf_key(&zipf, luo_draw_u(cost->seed, (uint64_t)w, (uint64_t)i));
    }
    cost->key = key;
    return LUO_OK;
}

luo_status luo_sync_cost_moved(luo_cli *cli, const luo_sync_cost *cost, const int64_t *iterations,
                               luo_exchange_bytes *out, luo_err *err)
{
    const int64_t n = cost->keys.batch * cost->keys.slots;
    LUO_TRY(luo_exchange_open(cli->arena, cost->table.servers, cost->workers, out, err));
    for (int32_t w = 0; w < cost->workers; w++) {
        const int64_t times = iterations ? iterations[w] : 1;
        luo_exchange_add_rows(out, &cost->dense, w, cost->rows, times);
        if (cost->keyed)
            LUO_TRY(luo_exchange_add_keys(out, &cost->table, w, cost->key[w], n, times, err));
    }
    return LUO_OK;
}

/* Dense parameters by all-reduce beside rows by servers; or all by all-reduce, where that is said
 * to be chosen by cost, and is cheaper for the rows. */
static luo_status hybrid_seconds(luo_cli *cli, luo_sync_cost *cost, luo_err *err)
{
    luo_exchange_pick pick;
    luo_exchange_bytes round;
    LUO_TRY(luo_sync_cost_pick(&cli->args, &pick, err));
    LUO_TRY(luo_sync_cost_moved(cli, cost, NULL, &round, err));
    double served_s = luo_exchange_time(&round, &cost->net);
    if (pick == LUO_EXCHANGE_BY_COST &&
        luo_exchange_table_by_ring(&round, &cost->table, &cost->net)) {
        cost->ring_bytes += 4.0 * (double)cost->keys.vocab * (double)cost->table.width;
        cost->keyed = false;
        served_s = 0;
    }
    cost->seconds = fmax(served_s, luo_exchange_ring(cost->workers, cost->ring_bytes, &cost->net));
    return LUO_OK;
}

luo_status luo_sync_cost_pick(const luo_args *args, luo_exchange_pick *out, luo_err *err)
{
    static const char *const picks[] = {LUO_EXCHANGE_PICK_LIST(LUO_WORD_TEXT)};
    int pick;
    LUO_TRY(luo_args_choice(args, "hybrid", 0, picks, LUO_EXCHANGE_PICKS, &pick, err));
    *out = (luo_exchange_pick)pick;
    return LUO_OK;
}

luo_status luo_sync_cost_how(const luo_args *args, luo_loop_mode mode, luo_exchange_how *out,
                             luo_err *err)
{
    static const char *const own[] = {"exchange", "hybrid"};
    int how;
    if (luo_loop_mode_groups(mode)) {
        *out = LUO_EXCHANGE_ALLREDUCE;
        return NONE_OF(own, "groups communicate by all-reduce");
    }
    LUO_TRY(luo_args_choice(args, "exchange", LUO_EXCHANGE_PS, hows, LUO_EXCHANGE_HOWS, &how, err));
    if (how == LUO_EXCHANGE_ALLREDUCE && mode != LUO_LOOP_BSP)
        return luo_err_set(err, LUO_EUSAGE,
                           "`--exchange allreduce` is a barrier and `%s` has none; `ps` "
                           "or `hybrid` is expected.",
                           luo_loop_mode_name(mode));
    if (how != LUO_EXCHANGE_HYBRID && luo_args_has(args, "hybrid"))
        return luo_err_set(err, LUO_EUSAGE,
                           "`--hybrid` is of `--exchange hybrid`, which is not given; leave it "
                           "out.");
    *out = (luo_exchange_how)how;
    return LUO_OK;
}

void luo_sync_cost_note(luo_cli *cli)
{
    luo_cli_note(cli, LUO_NOTE,
                 "the all-reduce of `--exchange hybrid` is a barrier, so workers wait as under "
                 "bsp; only rows on servers may be stale.");
}

/* bsp, ssp, asp */
static luo_status read_clocks(luo_cli *cli, luo_loop_mode mode, luo_sync_cost *cost, luo_err *err)
{
    const luo_args *args = &cli->args;
    const bool dense = luo_args_has(args, "dense-bytes"), keys = luo_args_has(args, "keys");
    luo_exchange_how how;
    luo_exchange_bytes round;
    double bytes;
    LUO_TRY(luo_sync_cost_how(args, mode, &how, err));
    LUO_TRY(luo_args_number(args, "dense-bytes", 0, 1, 1e15, &bytes, err));
    const bool hybrid = how == LUO_EXCHANGE_HYBRID;
    if (hybrid ? !dense || !keys : !dense && !keys)
        return luo_err_set(err, LUO_EUSAGE,
                           "nothing says how much `--exchange %s` moves; `--dense-bytes` %s "
                           "`--keys` %s expected, or `--sync-s`.",
                           hows[how], hybrid ? "and" : "or", hybrid ? "are" : "is");
    if (how == LUO_EXCHANGE_ALLREDUCE) {
        LUO_TRY(NONE_OF(served, "all-reduce has no servers"));
        cost->ring_bytes = bytes;
        cost->seconds = luo_exchange_ring(cost->workers, bytes, &cost->net);
        return LUO_OK;
    }
    if (keys) LUO_TRY(luo_sync_keys_parse(luo_args_get(args, "keys", ""), &cost->keys, err));
    cost->keyed = keys;
    LUO_TRY(read_table(args, cost, err));
    if (keys) LUO_TRY(draw_keys(cli, cost, err));
    if (hybrid) {
        cost->ring_bytes = bytes;
        return hybrid_seconds(cli, cost, err);
    }
    cost->rows = (int64_t)ceil(bytes / (4.0 * (double)cost->dense.width));
    LUO_TRY(luo_sync_cost_moved(cli, cost, NULL, &round, err));
    cost->seconds = luo_exchange_time(&round, &cost->net);
    return LUO_OK;
}

luo_status luo_sync_cost_read(luo_cli *cli, luo_loop_mode mode, int32_t workers, uint64_t seed,
                              luo_sync_cost *out, luo_err *err)
{
    const luo_args *args = &cli->args;
    luo_sync_cost cost = {.workers = workers, .seed = seed, .seconds = NAN};
    if (luo_args_has(args, "sync-s")) {
        cost.given = true;
        LUO_TRY(NONE_OF(sized, "`--sync-s` says how long communication takes"));
        LUO_TRY(luo_args_number(args, "sync-s", 0, 0, 1e10, &cost.seconds, err));
        *out = cost;
        return LUO_OK;
    }
    LUO_TRY(luo_sync_cost_net(args, &cost.net, err));
    if (luo_loop_mode_groups(mode)) {
        luo_exchange_how how;
        LUO_TRY(luo_sync_cost_how(args, mode, &how, err));
        LUO_TRY(NONE_OF(served, "groups communicate by all-reduce"));
        if (!luo_args_has(args, "dense-bytes"))
            return luo_err_set(err, LUO_EUSAGE,
                               "nothing says how long communication takes; `--sync-s`, or "
                               "`--dense-bytes` for a ring all-reduce, is expected.");
        LUO_TRY(luo_args_number(args, "dense-bytes", 0, 1, 1e15, &cost.ring_bytes, err));
    } else {
        LUO_TRY(read_clocks(cli, mode, &cost, err));
    }
    *out = cost;
    return LUO_OK;
}

bool luo_sync_cost_barrier(const luo_sync_cost *cost)
{
    return cost->ring_bytes > 0;
}

bool luo_sync_cost_servers(const luo_sync_cost *cost)
{
    return cost->keyed || cost->rows > 0;
}
