/* embed_het.c: `luoshu embed ps|het`, simulated: rows of embedding tables on servers, without and
 * with a cache at each worker. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "cli/sync/embed_sim.h"
#include "cli/sync/sync_run.h"
#include "cli/sync/sync_write.h"
#include "core/sync/draws.h"
#include "core/sync/embed/het_loop.h"

enum { WORKERS = 1 << 12 };

static const char *const policies[] = {LUO_HET_POLICY_LIST(LUO_WORD_ONLY)};

typedef struct call {
    bool cached;
    luo_het_loop_opts opts;
    int64_t width;
    /* where keys come from: a formula, or samples */
    bool zipf_keys;
    luo_sync_keys keys;
    luo_zipf zipf;
    luo_clicks clicks;
    int64_t batch; /* samples of a worker in an iteration */
} call;

/* ---- keys ---- */

static luo_status draw_batch(void *ctx, int32_t worker, int64_t k, uint64_t *keys, luo_err *err)
{
    const call *c = ctx;
    const uint64_t n = (uint64_t)c->opts.keys;
    (void)err;
    for (uint64_t i = 0; i < n; i++) {
        const double u = luo_draw_u(c->opts.seed, (uint64_t)worker, (uint64_t)k * n + i);
        keys[i] = (uint64_t)luo_zipf_key(&c->zipf, u);
    }
    return LUO_OK;
}

/* Batches are dealt to workers in turn, over and over. */
static luo_status deal_batch(void *ctx, int32_t worker, int64_t k, uint64_t *keys, luo_err *err)
{
    const call *c = ctx;
    const int64_t slots = c->clicks.slots, first = (k * c->opts.workers + worker) * c->batch;
    (void)err;
    for (int64_t i = 0; i < c->batch; i++) {
        const int32_t *from = c->clicks.embed + (first + i) % c->clicks.samples * slots;
        for (int64_t s = 0; s < slots; s++) keys[i * slots + s] = (uint64_t)from[s];
    }
    return LUO_OK;
}

static luo_status too_many_keys(int64_t batch, int64_t slots, luo_err *err)
{
    return luo_err_set(err, LUO_EUSAGE,
                       "a batch of %" PRId64 " samples with %" PRId64 " keys each is asked for; "
                       "at most 1e8 keys are taken.",
                       batch, slots);
}

/* What docs/embeddings.md#how-it-grows measured; a cached row by its upper end. */
static double bytes_of(const call *c)
{
    const double workers = c->opts.workers, keys = c->opts.keys;
    const double source =
        c->zipf_keys ? 8.0 * c->opts.vocab : 4.0 * c->clicks.samples * c->clicks.slots;
    return source + 16.0 * c->opts.vocab + 8 * workers * keys +
           80 * workers * (double)c->opts.cache.rows;
}

static luo_status read_keys(luo_cli *cli, call *c, luo_err *err)
{
    const char *text = luo_args_get(&cli->args, "keys", "");
    int64_t slots;
    c->zipf_keys = strncmp(text, "zipf", 4) == 0;
    if (c->zipf_keys && luo_args_has(&cli->args, "batch"))
        return luo_err_set(err, LUO_EUSAGE,
                           "`--batch` is given and `--keys` is `%s`, which has a batch of its own; "
                           "leave it out.",
                           text);
    if (c->zipf_keys) {
        LUO_TRY(luo_sync_keys_parse(text, &c->keys, err));
        c->batch = c->keys.batch;
        slots = c->keys.slots;
    } else {
        LUO_TRY(luo_args_int(&cli->args, "batch", 32, 1, 10000000, &c->batch, err));
        LUO_TRY(luo_embed_samples(cli, "keys", c->opts.seed, &c->clicks, err));
        slots = c->clicks.slots;
    }
    if (c->batch * slots > 100000000) return too_many_keys(c->batch, slots, err);
    c->opts.keys = (int32_t)(c->batch * slots);
    c->opts.batch = c->zipf_keys ? draw_batch : deal_batch;
    c->opts.ctx = c;
    c->opts.vocab = c->zipf_keys ? (int32_t)c->keys.vocab : c->clicks.embeds;
    LUO_TRY(luo_embed_memory(cli, bytes_of(c), "`--keys` and `--workers` ask for", err));
    if (!c->zipf_keys) return LUO_OK;
    return luo_zipf_make(cli->arena, c->keys.theta, c->keys.vocab, &c->zipf, err);
}

/* ---- options ---- */

/* More rows than there are keys are as good as those. */
static luo_status read_cache(luo_cli *cli, call *c, luo_err *err)
{
    const luo_args *args = &cli->args;
    const int64_t keys = c->zipf_keys ? c->keys.vocab : c->clicks.embeds;
    int64_t rows;
    int policy;
    LUO_TRY(luo_args_int(args, "cache-rows", 0, 0, LUO_HET_ROWS, &rows, err));
    LUO_TRY(luo_args_choice(args, "policy", LUO_HET_LRU, policies, LUO_HET_POLICIES, &policy, err));
    LUO_TRY(luo_args_int(args, "pull-bound", 100, 0, 1000000000, &c->opts.cache.pull_bound, err));
    LUO_TRY(luo_args_int(args, "push-bound", 100, 0, 1000000000, &c->opts.cache.push_bound, err));
    c->opts.cache.rows = rows < keys ? rows : keys;
    c->opts.cache.policy = (luo_het_policy)policy;
    return luo_embed_memory(cli, bytes_of(c), "`--keys`, `--workers` and `--cache-rows` ask for",
                            err);
}

static luo_status read_call(luo_cli *cli, call *c, luo_err *err)
{
    const luo_args *args = &cli->args;
    luo_het_loop_opts *opts = &c->opts;
    int64_t workers, servers, seed;
    LUO_TRY(luo_args_int(args, "workers", 1, 1, WORKERS, &workers, err));
    LUO_TRY(luo_args_int(args, "servers", 1, 1, WORKERS, &servers, err));
    LUO_TRY(luo_args_int(args, "iterations", 100, 1, INT64_C(1) << 40, &opts->iterations, err));
    LUO_TRY(luo_args_int(args, "seed", 0, 0, INT64_MAX, &seed, err));
    LUO_TRY(luo_args_int(args, "width", 16, 1, 1 << 20, &c->width, err));
    LUO_TRY(luo_args_number(args, "compute-s", 0, 0, 1e10, &opts->compute_s, err));
    LUO_TRY(luo_sync_cost_net(args, &opts->net, err));
    opts->workers = (int32_t)workers;
    opts->servers = (int32_t)servers;
    opts->seed = (uint64_t)seed;
    LUO_TRY(luo_work_check(&cli->work, LUO_WORK_ITERATIONS,
                           (double)workers * (double)opts->iterations, "`embed` has", err));
    LUO_TRY(luo_sync_straggler_read(cli, opts->workers, &opts->straggler, err));
    LUO_TRY(read_keys(cli, c, err));
    opts->wire = c->cached ? luo_het_wire_cached(c->width) : luo_het_wire_plain(c->width);
    return c->cached ? read_cache(cli, c, err) : LUO_OK;
}

/* ---- what came out ---- */

typedef struct facts {
    const call *call;
    const char *keys; /* as given */
    luo_het_loop *s;
    double bytes, plain; /* of all iterations; without a cache */
    double p50, p99;
} facts;

static facts facts_of(luo_cli *cli, const call *c, luo_het_loop *loop)
{
    const luo_het_wire plain = luo_het_wire_plain(c->width);
    facts f = {.call = c, .keys = luo_args_get(&cli->args, "keys", ""), .s = loop};
    f.bytes = loop->push + loop->pull + loop->meta;
    f.plain = (double)loop->traffic.asked * (plain.push + plain.pull + plain.meta);
    f.p50 = luo_tally_quantile(&loop->missed, 0.5);
    f.p99 = luo_tally_quantile(&loop->missed, 0.99);
    return f;
}

/* Of the rows that were asked for, those that a cache had, fresh enough. */
static double hit_rate(const luo_het_traffic *traffic)
{
    return 1 - (double)traffic->pulled / (double)traffic->asked;
}

static void write_traffic(luo_jsonw *json, const facts *f)
{
    const luo_het_traffic *traffic = &f->s->traffic;
    luo_jsonw_open(json, "bytes", '{');
    luo_jsonw_int(json, "push", (int64_t)f->s->push);
    luo_jsonw_int(json, "pull", (int64_t)f->s->pull);
    luo_jsonw_int(json, "meta", (int64_t)f->s->meta);
    luo_jsonw_int(json, "flush", (int64_t)f->s->flush);
    luo_jsonw_close(json);
    luo_jsonw_int(json, "no_cache_bytes", (int64_t)f->plain);
    luo_jsonw_num(json, "saved_ratio", 1 - f->bytes / f->plain, 6);
    luo_jsonw_num(json, "saved_with_flush_ratio", 1 - (f->bytes + f->s->flush) / f->plain, 6);
    luo_jsonw_num(json, "hit_rate", hit_rate(traffic), 6);
    luo_jsonw_int(json, "lookups", traffic->lookups);
    luo_jsonw_int(json, "asked", traffic->asked);
    luo_jsonw_int(json, "cached", traffic->cached);
    luo_jsonw_int(json, "pulls", traffic->pulled);
    luo_jsonw_int(json, "pushes", traffic->pushed);
    luo_jsonw_int(json, "evicted", traffic->evicted);
    luo_jsonw_int(json, "evicted_dirty", traffic->evicted_dirty);
    luo_jsonw_int(json, "not_kept", traffic->not_kept);
}

static void write_facts(luo_jsonw *json, const void *ctx)
{
    const facts *f = ctx;
    const luo_het_loop_opts *opts = &f->call->opts;
    luo_jsonw_text(json, "kind", f->call->cached ? "het" : "ps");
    luo_jsonw_int(json, "workers", opts->workers);
    luo_jsonw_int(json, "servers", opts->servers);
    luo_jsonw_seed(json, "seed", opts->seed);
    luo_jsonw_text(json, "keys", f->keys);
    luo_jsonw_bool(json, "synthetic", f->call->zipf_keys || f->call->clicks.synthetic);
    luo_jsonw_int(json, "width", f->call->width);
    if (f->call->cached) {
        luo_jsonw_int(json, "cache_rows", opts->cache.rows);
        luo_jsonw_text(json, "policy", luo_het_policy_name(opts->cache.policy));
        luo_jsonw_int(json, "pull_bound", opts->cache.pull_bound);
        luo_jsonw_int(json, "push_bound", opts->cache.push_bound);
    }
    luo_jsonw_num(json, "total_s", f->s->t_s, 9);
    luo_jsonw_open(json, "iterations", '[');
    for (int32_t w = 0; w < opts->workers; w++) luo_jsonw_int(json, NULL, opts->iterations);
    luo_jsonw_close(json);
    luo_jsonw_num(json, "updates_per_s",
                  f->s->t_s > 0 ? (double)opts->workers * (double)opts->iterations / f->s->t_s : 0,
                  3);
    luo_jsonw_open(json, "wait_s", '[');
    for (int32_t w = 0; w < opts->workers; w++) luo_jsonw_num(json, NULL, f->s->wait_s[w], 9);
    luo_jsonw_close(json);
    write_traffic(json, f);
    luo_jsonw_open(json, "staleness", '{');
    luo_jsonw_int(json, "max", (int64_t)f->s->missed.largest);
    luo_jsonw_num(json, "p50", f->p50, 3);
    luo_jsonw_num(json, "p99", f->p99, 3);
    luo_jsonw_close(json);
}

/* Values are in order once a quantile was asked for. */
static luo_status write_staleness(const char *dir, const luo_tally *missed, luo_err *err)
{
    luo_table table;
    luo_status st = luo_table_open(&table, dir, luo_table_def_at(LUO_TABLE_STALENESS), err);
    for (int32_t i = 0; st == LUO_OK && i < missed->sorted; i++) {
        double value;
        memcpy(&value, &missed->at[i].bits, sizeof value);
        luo_table_int(&table, LUO_COL_STALENESS_missed, (int64_t)value);
        luo_table_int(&table, LUO_COL_STALENESS_reads, missed->at[i].times);
        st = luo_table_end(&table, err);
    }
    const luo_status closed = luo_table_close(&table, st == LUO_OK ? err : NULL);
    return st == LUO_OK ? closed : st;
}

/* "56.79 % less" than without a cache; a small cache may cost more than none. */
static void print_saved(FILE *out, const facts *f, double bytes)
{
    const double ratio = bytes / f->plain;
    fprintf(out, "%.2f %% %s", 100 * fabs(1 - ratio), ratio <= 1 ? "less" : "more");
}

static void print_text(luo_cli *cli, const char *dir, const facts *f)
{
    FILE *out = luo_cli_out(cli);
    const luo_het_loop *loop = f->s;
    const luo_het_loop_opts *opts = &f->call->opts;
    fprintf(out, "%s, %d workers, %" PRId64 " iterations of %d keys%s, %.6g s\n",
            f->call->cached ? "het" : "ps", opts->workers, opts->iterations, opts->keys,
            f->call->zipf_keys || f->call->clicks.synthetic ? " (synthetic)" : "", loop->t_s);
    if (f->call->cached)
        fprintf(out,
                "cache: %" PRId64 " rows, %s, pull bound %" PRId64 ", push bound %" PRId64 "\n",
                opts->cache.rows, luo_het_policy_name(opts->cache.policy), opts->cache.pull_bound,
                opts->cache.push_bound);
    fprintf(out, "%.6g bytes: %.6g pushed, %.6g pulled, %.6g of keys and versions", f->bytes,
            loop->push, loop->pull, loop->meta);
    if (f->call->cached) {
        fputs("; ", out);
        print_saved(out, f, f->bytes);
        fprintf(out, " than the %.6g without a cache", f->plain);
    }
    fprintf(out,
            "\nof %" PRId64 " rows asked for %" PRId64 " were pulled (hit rate %.4f), %" PRId64
            " pushed\n",
            loop->traffic.asked, loop->traffic.pulled, hit_rate(&loop->traffic),
            loop->traffic.pushed);
    if (loop->flush > 0) {
        fprintf(out, "pending at the end: %.6g bytes more, with which it is ", loop->flush);
        print_saved(out, f, f->bytes + loop->flush);
        fputc('\n', out);
    }
    fprintf(out,
            "updates by others that a read misses: median %.6g, 99th of 100 %.6g, at most %.6g\n"
            "%s/iterations.csv\n%s/summary.json\n",
            f->p50, f->p99, loop->missed.largest, dir, dir);
}

static luo_status write_all(luo_cli *cli, const call *c, const luo_sync_write *write,
                            luo_het_loop *loop, luo_err *err)
{
    const facts f = facts_of(cli, c, loop);
    luo_exchange_bytes servers = {.servers = c->opts.servers, .in = loop->in, .out = loop->out};
    LUO_TRY(luo_sync_write_servers(write->dir, &servers, err));
    LUO_TRY(write_staleness(write->dir, &loop->missed, err));
    LUO_TRY(luo_sync_write_summary(cli, write->dir, write_facts, &f, err));
    print_text(cli, write->dir, &f);
    return LUO_OK;
}

static luo_status simulate(luo_cli *cli, call *c, luo_sync_write *write, luo_err *err)
{
    luo_het_loop sum;
    const char *dir =
        luo_arena_printf(cli->arena, "%s-seed%" PRIu64, c->cached ? "het" : "ps", c->opts.seed);
    if (!dir) return luo_err_nomem(err);
    LUO_TRY(luo_sync_write_open(cli, luo_args_get(&cli->args, "out", dir), write, err));
    c->opts.sink = luo_sync_write_sink(write);
    LUO_TRY(luo_het_loop_run(cli->arena, &c->opts, &sum, err));
    const luo_status st = write_all(cli, c, write, &sum, err);
    luo_tally_free(&sum.missed);
    return st;
}

luo_status luo_embed_cached(luo_cli *cli, bool cached, luo_err *err)
{
    call c = {.cached = cached};
    luo_sync_write write = {0};
    LUO_TRY(read_call(cli, &c, err));
    luo_cli_flush(cli);
    const luo_status st = simulate(cli, &c, &write, err);
    const luo_status closed =
        luo_sync_write_close(cli, &write, luo_folder_end_of(st), st == LUO_OK ? err : NULL);
    return st == LUO_OK ? closed : st;
}
