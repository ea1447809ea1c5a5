#include "cli/sync/sync_write.h"

#include <math.h>

#include "core/base/stats.h"
#include "core/io/files.h"
#include "core/io/io.h"
#include "core/io/result/iterations.h"

enum { LISTED = 16 }; /* workers that the text has a line each of */

/* ---- rows of a run ---- */

static luo_status write_iteration(void *ctx, const luo_loop_row *row, luo_err *err)
{
    luo_sync_write *write = ctx;
    return luo_iterations_put(&write->iterations, row, err);
}

static luo_status write_group(void *ctx, int64_t id, const luo_preduce_group *group, luo_err *err)
{
    luo_sync_write *write = ctx;
    return luo_iterations_put_group(&write->groups, id, group, err);
}

luo_loop_sink luo_sync_write_sink(luo_sync_write *write)
{
    return (luo_loop_sink){write_iteration, write_group, write};
}

/* ---- the folder ---- */

luo_status luo_sync_write_open(luo_cli *cli, const char *dir, luo_sync_write *out, luo_err *err)
{
    out->dir = dir;
    LUO_TRY(luo_folder_take(cli, dir, true, 0, NULL, &out->set, err));
    LUO_TRY(luo_table_open(&out->iterations, dir, luo_table_def_at(LUO_TABLE_ITERATIONS), err));
    return luo_table_open(&out->groups, dir, luo_table_def_at(LUO_TABLE_GROUPS), err);
}

luo_status luo_sync_write_close(luo_cli *cli, luo_sync_write *write, luo_folder_end end,
                                luo_err *err)
{
    luo_status st = luo_table_close(&write->iterations, err);
    const luo_status groups = luo_table_close(&write->groups, st == LUO_OK ? err : NULL);
    if (st == LUO_OK) st = groups;
    if (st != LUO_OK) end = luo_folder_end_of(st);
    const luo_status set = luo_folder_give(cli, &write->set, end, st == LUO_OK ? err : NULL);
    return st == LUO_OK ? set : st;
}

/* ---- small tables ---- */

static luo_status write_ahead(const char *dir, const luo_loop_summary *summary, luo_err *err)
{
    luo_table table;
    luo_status st = luo_table_open(&table, dir, luo_table_def_at(LUO_TABLE_AHEAD), err);
    for (int64_t i = 0; st == LUO_OK && i < summary->nahead; i++) {
        luo_table_int(&table, LUO_COL_AHEAD_ahead, i);
        luo_table_int(&table, LUO_COL_AHEAD_iterations, summary->ahead[i]);
        st = luo_table_end(&table, err);
    }
    const luo_status closed = luo_table_close(&table, st == LUO_OK ? err : NULL);
    return st == LUO_OK ? closed : st;
}

luo_status luo_sync_write_servers(const char *dir, const luo_exchange_bytes *bytes, luo_err *err)
{
    luo_table table;
    luo_status st = luo_table_open(&table, dir, luo_table_def_at(LUO_TABLE_SERVERS), err);
    for (int32_t i = 0; st == LUO_OK && i < bytes->servers; i++) {
        luo_table_int(&table, LUO_COL_SERVERS_server, i);
        luo_table_int(&table, LUO_COL_SERVERS_in_bytes, (int64_t)bytes->in[i]);
        luo_table_int(&table, LUO_COL_SERVERS_out_bytes, (int64_t)bytes->out[i]);
        st = luo_table_end(&table, err);
    }
    const luo_status closed = luo_table_close(&table, st == LUO_OK ? err : NULL);
    return st == LUO_OK ? closed : st;
}

/* ---- the document, of --json and of summary.json ---- */

typedef struct facts {
    luo_loop_mode mode;
    const luo_loop_opts *opts;
    const luo_loop_summary *s;
    const luo_sync_cost *cost;
    const luo_exchange_bytes *servers; /* NULL: none */
    const luo_sync_write *write;
    double ring_bytes, updates_per_s, waited; /* waited: share of the workers' time */
} facts;

static const char *name_of(const facts *f)
{
    return f->write->kind ? f->write->kind : luo_loop_mode_name(f->mode);
}

static void json_bytes(luo_jsonw *json, const facts *f)
{
    if (f->cost->given) return;
    luo_jsonw_open(json, "bytes", '{');
    if (f->servers) {
        luo_jsonw_int(json, "push", (int64_t)f->servers->push);
        luo_jsonw_int(json, "pull", (int64_t)f->servers->pull);
        luo_jsonw_int(json, "meta", (int64_t)f->servers->request);
    }
    if (f->cost->ring_bytes > 0) luo_jsonw_int(json, "allreduce", (int64_t)f->ring_bytes);
    luo_jsonw_close(json);
}

static void json_groups(luo_jsonw *json, const facts *f)
{
    const luo_loop_summary *summary = f->s;
    if (!luo_loop_mode_groups(f->opts->mode)) return;
    luo_jsonw_open(json, "groups", '{');
    luo_jsonw_int(json, "count", summary->groups);
    luo_jsonw_int(json, "guard", summary->guards);
    luo_jsonw_open(json, "sizes", '{');
    for (int32_t n = 1; n <= f->opts->workers; n++) {
        char size[16];
        snprintf(size, sizeof size, "%d", n);
        if (summary->sizes[n] > 0) luo_jsonw_int(json, size, summary->sizes[n]);
    }
    luo_jsonw_close(json);
    luo_jsonw_close(json);
    if (isnan(summary->lambda2)) return;
    luo_jsonw_num(json, "lambda2", summary->lambda2, 9);
    luo_jsonw_num(json, "effective_rate_per_s", f->updates_per_s * (1 - summary->lambda2), 3);
}

static void write_facts(luo_jsonw *json, const void *ctx)
{
    const facts *f = ctx;
    const luo_loop_summary *summary = f->s;
    luo_jsonw_text(json, "kind", name_of(f));
    luo_jsonw_int(json, "workers", f->opts->workers);
    luo_jsonw_num(json, "horizon", f->opts->horizon_s, 9);
    luo_jsonw_seed(json, "seed", f->opts->seed);
    luo_jsonw_text(json, "state", summary->lost ? "lost" : "complete");
    luo_jsonw_num(json, "total_s", summary->t_s, 9);
    luo_jsonw_open(json, "iterations", '[');
    for (int32_t w = 0; w < f->opts->workers; w++)
        luo_jsonw_int(json, NULL, summary->iterations[w]);
    luo_jsonw_close(json);
    luo_jsonw_num(json, "updates_per_s", f->updates_per_s, 3);
    luo_jsonw_open(json, "wait_s", '[');
    for (int32_t w = 0; w < f->opts->workers; w++) luo_jsonw_num(json, NULL, summary->wait_s[w], 9);
    luo_jsonw_close(json);
    json_bytes(json, f);
    json_groups(json, f);
    luo_jsonw_open(json, "staleness", '{');
    luo_jsonw_int(json, "max", summary->nahead > 0 ? summary->nahead - 1 : 0);
    luo_jsonw_num(json, "p50", luo_loop_ahead_quantile(summary, 0.5), 3);
    luo_jsonw_num(json, "p99", luo_loop_ahead_quantile(summary, 0.99), 3);
    luo_jsonw_close(json);
    if (f->write->more) f->write->more(json, f->write->more_ctx);
}

luo_status luo_sync_write_summary(luo_cli *cli, const char *dir,
                                  void (*facts_of)(luo_jsonw *json, const void *ctx),
                                  const void *ctx, luo_err *err)
{
    luo_str text = {0};
    luo_jsonw json = luo_jsonw_start(&text);
    const char *path = luo_arena_printf(cli->arena, "%s/summary.json", dir);
    luo_jsonw_open(&json, NULL, '{');
    luo_jsonw_text(&json, "schema", LUO_SET_FLAT_SCHEMA);
    facts_of(&json, ctx);
    luo_jsonw_close(&json);
    const luo_status st = !path || text.failed ? luo_err_nomem(err)
                                               : luo_file_write_own(path, text.at, text.len, err);
    luo_str_free(&text);
    if (st != LUO_OK) return st;
    luo_jsonw_text(&cli->json, "out", dir);
    facts_of(&cli->json, ctx);
    return LUO_OK;
}

/* ---- text ---- */

static void print_sizes(FILE *out, const facts *f)
{
    const luo_loop_summary *summary = f->s;
    int told = 0;
    if (!luo_loop_mode_groups(f->opts->mode)) return;
    fprintf(out, "groups: %lld, of them %lld of the guard; sizes", (long long)summary->groups,
            (long long)summary->guards);
    for (int32_t n = 1; n <= f->opts->workers; n++) {
        if (summary->sizes[n] == 0) continue;
        if (told++ < LISTED) fprintf(out, " %d x%lld", n, (long long)summary->sizes[n]);
    }
    fprintf(out, "%s\n", told > LISTED ? " .." : "");
    if (!isnan(summary->lambda2))
        fprintf(out, "lambda2 %.6f, effective rate (a proxy of ours) %.3f a second\n",
                summary->lambda2, f->updates_per_s * (1 - summary->lambda2));
}

static void print_workers(luo_cli *cli, FILE *out, const facts *f)
{
    const luo_loop_summary *summary = f->s;
    const int32_t n = f->opts->workers;
    if (n <= LISTED) {
        fprintf(out, "%8s %11s %12s\n", "worker", "iterations", "wait_s");
        for (int32_t w = 0; w < n; w++)
            fprintf(out, "%8d %11lld %12.3f\n", w, (long long)summary->iterations[w],
                    summary->wait_s[w]);
        return;
    }
    double *v = LUO_NEW_N(cli->arena, double, n);
    if (!v) return; /* the figures stand in the files all the same */
    for (int32_t w = 0; w < n; w++) v[w] = (double)summary->iterations[w];
    luo_stats_sort(v, n);
    fprintf(out, "iterations of a worker: %.0f to %.0f, median %.1f\n", v[0], v[n - 1],
            luo_stats_quantile(v, n, 0.5));
}

static void print_text(luo_cli *cli, const char *dir, const facts *f)
{
    FILE *out = luo_cli_out(cli);
    const luo_loop_summary *summary = f->s;
    fprintf(out,
            "%s, %d workers, %.6g s: %lld iterations, %.3f a second; waiting %.1f %% of the "
            "workers' time\n",
            name_of(f), f->opts->workers, summary->t_s, (long long)summary->updates,
            f->updates_per_s, 100 * f->waited);
    if (!f->cost->given && !luo_loop_mode_groups(f->opts->mode))
        fprintf(out, "communication %.6g s an iteration\n", f->cost->seconds);
    if (f->servers)
        fprintf(out, "servers: %.6g bytes pushed, %.6g pulled, %.6g of requests\n",
                f->servers->push, f->servers->pull, f->servers->request);
    if (f->cost->ring_bytes > 0) fprintf(out, "all-reduce: %.6g bytes sent\n", f->ring_bytes);
    print_sizes(out, f);
    fprintf(out, "ahead of the slowest: median %.6g, 99th of 100 %.6g, at most %lld iterations\n",
            luo_loop_ahead_quantile(summary, 0.5), luo_loop_ahead_quantile(summary, 0.99),
            (long long)(summary->nahead > 0 ? summary->nahead - 1 : 0));
    print_workers(cli, out, f);
    fprintf(out, "%s/iterations.csv\n%s/summary.json\n", dir, dir);
}

/* Each worker's share of a ring's bytes in each of its iterations. */
static double ring_bytes(const luo_loop_opts *opts, const luo_sync_cost *cost,
                         const luo_loop_summary *summary)
{
    if (luo_loop_mode_groups(opts->mode)) return summary->ring_bytes;
    return luo_exchange_ring_bytes(opts->workers, cost->ring_bytes, summary->updates);
}

luo_status luo_sync_write_end(luo_cli *cli, luo_sync_write *write, luo_loop_mode mode,
                              const luo_loop_opts *opts, const luo_sync_cost *cost,
                              const luo_loop_summary *summary, luo_err *err)
{
    luo_exchange_bytes servers;
    facts f = {.write = write, .mode = mode, .opts = opts, .s = summary, .cost = cost};
    if (luo_sync_cost_servers(cost)) {
        LUO_TRY(luo_sync_cost_moved(cli, cost, summary->iterations, &servers, err));
        LUO_TRY(luo_sync_write_servers(write->dir, &servers, err));
        f.servers = &servers;
    }
    f.ring_bytes = ring_bytes(opts, cost, summary);
    if (summary->t_s > 0) f.updates_per_s = (double)summary->updates / summary->t_s;
    for (int32_t w = 0; w < opts->workers && summary->t_s > 0; w++)
        f.waited += summary->wait_s[w] / summary->t_s / opts->workers;
    LUO_TRY(write_ahead(write->dir, summary, err));
    LUO_TRY(luo_sync_write_summary(cli, write->dir, write_facts, &f, err));
    print_text(cli, write->dir, &f);
    return LUO_OK;
}
