/* embed_gmp.c: `luoshu embed gmp`, simulated: a partition of samples and embeddings beside
 * others. */
#include <inttypes.h>

#include "cli/sync/embed_sim.h"
#include "cli/sync/sync_write.h"

/* What a row costs between parts of a node, and of two. */
#define NEAR 0.1
#define FAR 1

enum { OURS, PARTITIONS = LUO_GMP_STARTS + 1 }; /* the refined one, and the starts as they are */

typedef struct row { /* of partitions.csv */
    const char *name;
    double cost, remote; /* remote: rows that a batch asks other parts for, of all parts */
    double *traffic;
    int64_t most_samples, most_embeds; /* of a part */
    luo_gmp_moved moved, with_replicas;
} row;

typedef struct call {
    luo_clicks clicks;
    luo_bigraph graph;
    luo_gmp_opts opts;
    double replicas;
    int64_t per_node, pull_bound, push_bound, iterations;
    const char *data; /* as given */
    int32_t rounds;   /* made */
    row row[PARTITIONS];
} call;

static luo_status read_call(luo_cli *cli, call *c, luo_err *err)
{
    const luo_args *args = &cli->args;
    luo_gmp_opts *opts = &c->opts;
    int64_t parts, rounds, seed, batch;
    LUO_TRY(luo_args_int(args, "workers", 1, 1, LUO_GMP_PARTS, &parts, err));
    LUO_TRY(luo_args_int(args, "per-node", 1, 1, LUO_GMP_PARTS, &c->per_node, err));
    LUO_TRY(luo_args_int(args, "rounds", 5, 0, 1000, &rounds, err));
    LUO_TRY(luo_args_int(args, "seed", 0, 0, INT64_MAX, &seed, err));
    LUO_TRY(luo_args_int(args, "iterations", 0, 1, INT64_C(1) << 40, &c->iterations, err));
    LUO_TRY(luo_args_int(args, "pull-bound", 100, 0, 1000000000, &c->pull_bound, err));
    LUO_TRY(luo_args_int(args, "push-bound", 100, 0, 1000000000, &c->push_bound, err));
    LUO_TRY(luo_args_int(args, "batch", 8192, 1, 100000000, &batch, err));
    LUO_TRY(luo_args_number(args, "balance", 100, 0, 1e9, &opts->balance, err));
    LUO_TRY(luo_args_number(args, "replicas", 0.01, 0, 1, &c->replicas, err));
    LUO_TRY(luo_work_check(&cli->work, LUO_WORK_ITERATIONS, (double)parts * (double)c->iterations,
                           "`embed gmp` has", err));
    c->data = luo_args_get(args, "data", "");
    opts->parts = (int32_t)parts;
    opts->rounds = (int32_t)rounds;
    opts->batch = (double)batch;
    opts->load_weight = 0.01;
    opts->seed = (uint64_t)seed;
    opts->cm = luo_gmp_costs(cli->arena, opts->parts, (int32_t)c->per_node, NEAR, FAR);
    if (!opts->cm) return luo_err_nomem(err);
    LUO_TRY(luo_embed_samples(cli, "data", opts->seed, &c->clicks, err));
    const double edges = (double)c->clicks.samples * c->clicks.slots;
    LUO_TRY(luo_embed_memory(
        cli, (4.0 * opts->parts + 12) * c->clicks.embeds + 8 * edges + 12.0 * c->clicks.samples,
        "`--workers` and `--data` ask for", err));
    return luo_clicks_graph(cli->arena, &c->clicks, &c->graph, err);
}

/* ---- tables ---- */

static luo_status write_parts(const call *c, const luo_gmp *gmp, luo_table *table, luo_err *err)
{
    for (int32_t i = 0; i < c->graph.samples; i++) {
        luo_table_text(table, LUO_COL_PARTITION_kind, "sample");
        luo_table_int(table, LUO_COL_PARTITION_id, i);
        luo_table_int(table, LUO_COL_PARTITION_part, gmp->sample_part[i]);
        LUO_TRY(luo_table_end(table, err));
    }
    for (int32_t e = 0; e < c->graph.embeds; e++) {
        luo_table_text(table, LUO_COL_PARTITION_kind, "embedding");
        luo_table_int(table, LUO_COL_PARTITION_id, (int64_t)c->clicks.key[e]);
        luo_table_int(table, LUO_COL_PARTITION_part, gmp->embed_home[e]);
        LUO_TRY(luo_table_end(table, err));
    }
    return LUO_OK;
}

static luo_status write_partition(const char *dir, const call *c, const luo_gmp *gmp, luo_err *err)
{
    luo_table table;
    luo_status st = luo_table_open(&table, dir, luo_table_def_at(LUO_TABLE_PARTITION), err);
    if (st == LUO_OK) st = write_parts(c, gmp, &table, err);
    const luo_status closed = luo_table_close(&table, st == LUO_OK ? err : NULL);
    return st == LUO_OK ? closed : st;
}

static double per_iteration(int64_t rows, const luo_gmp_moved *moved)
{
    return (double)rows / (double)moved->iterations;
}

static luo_status write_partitions(const char *dir, const call *c, luo_err *err)
{
    luo_table table;
    luo_status st = luo_table_open(&table, dir, luo_table_def_at(LUO_TABLE_PARTITIONS), err);
    for (int i = 0; st == LUO_OK && i < PARTITIONS; i++) {
        const row *r = &c->row[i];
        const luo_gmp_moved *m = &r->moved, *w = &r->with_replicas;
        luo_table_text(&table, LUO_COL_PARTITIONS_partition, r->name);
        luo_table_num(&table, LUO_COL_PARTITIONS_cost, r->cost);
        luo_table_num(&table, LUO_COL_PARTITIONS_remote_rows, r->remote);
        luo_table_int(&table, LUO_COL_PARTITIONS_most_samples, r->most_samples);
        luo_table_int(&table, LUO_COL_PARTITIONS_most_embeddings, r->most_embeds);
        luo_table_int(&table, LUO_COL_PARTITIONS_iterations, m->iterations);
        luo_table_num(&table, LUO_COL_PARTITIONS_pulls, per_iteration(m->pulls, m));
        luo_table_num(&table, LUO_COL_PARTITIONS_pushes, per_iteration(m->pushes, m));
        luo_table_num(&table, LUO_COL_PARTITIONS_replica_pulls, per_iteration(w->pulls, w));
        luo_table_num(&table, LUO_COL_PARTITIONS_replica_pushes, per_iteration(w->pushes, w));
        st = luo_table_end(&table, err);
    }
    const luo_status closed = luo_table_close(&table, st == LUO_OK ? err : NULL);
    return st == LUO_OK ? closed : st;
}

static luo_status write_traffic_of(const row *r, int32_t parts, luo_table *table, luo_err *err)
{
    for (int32_t p = 0; p < parts; p++)
        for (int32_t q = 0; q < parts; q++) {
            luo_table_text(table, LUO_COL_TRAFFIC_partition, r->name);
            luo_table_int(table, LUO_COL_TRAFFIC_part, p);
            luo_table_int(table, LUO_COL_TRAFFIC_home, q);
            luo_table_num(table, LUO_COL_TRAFFIC_rows, r->traffic[p * parts + q]);
            LUO_TRY(luo_table_end(table, err));
        }
    return LUO_OK;
}

static luo_status write_traffic(const char *dir, const call *c, luo_err *err)
{
    luo_table table;
    luo_status st = luo_table_open(&table, dir, luo_table_def_at(LUO_TABLE_TRAFFIC), err);
    for (int i = 0; st == LUO_OK && i < PARTITIONS; i++)
        st = write_traffic_of(&c->row[i], c->opts.parts, &table, err);
    const luo_status closed = luo_table_close(&table, st == LUO_OK ? err : NULL);
    return st == LUO_OK ? closed : st;
}

/* ---- document and text ---- */

static void write_row(luo_jsonw *json, const row *r)
{
    const luo_gmp_moved *m = &r->moved, *w = &r->with_replicas;
    luo_jsonw_open(json, NULL, '{');
    luo_jsonw_text(json, "partition", r->name);
    luo_jsonw_num(json, "cost", r->cost, 6);
    luo_jsonw_num(json, "remote_rows", r->remote, 3);
    luo_jsonw_int(json, "most_samples", r->most_samples);
    luo_jsonw_int(json, "most_embeddings", r->most_embeds);
    luo_jsonw_int(json, "iterations", m->iterations);
    luo_jsonw_num(json, "pulls", per_iteration(m->pulls, m), 3);
    luo_jsonw_num(json, "pushes", per_iteration(m->pushes, m), 3);
    luo_jsonw_num(json, "replica_pulls", per_iteration(w->pulls, w), 3);
    luo_jsonw_num(json, "replica_pushes", per_iteration(w->pushes, w), 3);
    luo_jsonw_close(json);
}

static void write_facts(luo_jsonw *json, const void *ctx)
{
    const call *c = ctx;
    luo_jsonw_text(json, "kind", "gmp");
    luo_jsonw_seed(json, "seed", c->opts.seed);
    luo_jsonw_text(json, "data", c->data);
    luo_jsonw_bool(json, "synthetic", c->clicks.synthetic);
    luo_jsonw_int(json, "samples", c->graph.samples);
    luo_jsonw_int(json, "slots", c->clicks.slots);
    luo_jsonw_int(json, "embeddings", c->graph.embeds);
    luo_jsonw_int(json, "parts", c->opts.parts);
    luo_jsonw_int(json, "per_node", c->per_node);
    luo_jsonw_int(json, "batch", (int64_t)c->opts.batch);
    luo_jsonw_num(json, "balance", c->opts.balance, 6);
    luo_jsonw_num(json, "replicas_ratio", c->replicas, 6);
    luo_jsonw_int(json, "pull_bound", c->pull_bound);
    luo_jsonw_int(json, "push_bound", c->push_bound);
    luo_jsonw_int(json, "rounds", c->rounds);
    luo_jsonw_open(json, "partitions", '[');
    for (int i = 0; i < PARTITIONS; i++) write_row(json, &c->row[i]);
    luo_jsonw_close(json);
}

static void print_text(luo_cli *cli, const char *dir, const call *c)
{
    FILE *out = luo_cli_out(cli);
    fprintf(out, "%d samples%s with %d keys each, %d embeddings, %d parts, %d round%s\n",
            c->graph.samples, c->clicks.synthetic ? " (synthetic)" : "", c->clicks.slots,
            c->graph.embeds, c->opts.parts, c->rounds, c->rounds == 1 ? "" : "s");
    fprintf(out, "%-9s %14s %12s %12s %12s %12s %12s %10s\n", "partition", "cost", "pulls",
            "pushes", "r. pulls", "r. pushes", "samples", "embeddings");
    for (int i = 0; i < PARTITIONS; i++) {
        const row *r = &c->row[i];
        const luo_gmp_moved *m = &r->moved, *w = &r->with_replicas;
        fprintf(out, "%-9s %14.6g %12.1f %12.1f %12.1f %12.1f %12" PRId64 " %10" PRId64 "\n",
                r->name, r->cost, per_iteration(m->pulls, m), per_iteration(m->pushes, m),
                per_iteration(w->pulls, w), per_iteration(w->pushes, w), r->most_samples,
                r->most_embeds);
    }
    fprintf(out,
            "pulls and pushes of other parts' rows an iteration; r.: with replicas of %g of the "
            "embeddings; samples and embeddings of the largest part\n"
            "%s/partition.csv\n%s/summary.json\n",
            c->replicas, dir, dir);
}

/* ---- the whole ---- */

static int64_t most_of(const int64_t *n, int32_t parts)
{
    int64_t most = 0;
    for (int32_t p = 0; p < parts; p++)
        if (n[p] > most) most = n[p];
    return most;
}

static luo_status judge(const call *c, const luo_gmp *gmp, row *r, luo_err *err)
{
    const int32_t parts = c->opts.parts;
    r->cost = luo_gmp_cost(gmp);
    luo_gmp_traffic(gmp, r->traffic);
    for (int32_t p = 0; p < parts; p++)
        for (int32_t q = 0; q < parts; q++) r->remote += p != q ? r->traffic[p * parts + q] : 0;
    r->most_samples = most_of(gmp->samples_of, parts);
    r->most_embeds = most_of(gmp->embeds_of, parts);
    LUO_TRY(luo_gmp_train(gmp, 0, 0, 0, c->iterations, c->opts.seed, &r->moved, err));
    return luo_gmp_train(gmp, c->replicas, c->pull_bound, c->push_bound, c->iterations,
                         c->opts.seed, &r->with_replicas, err);
}

/* Partition i; what it took is given back. */
static luo_status partition(luo_cli *cli, call *c, int i, const char *dir, luo_err *err)
{
    const size_t parts = (size_t)c->opts.parts;
    luo_gmp_opts opts = c->opts;
    luo_gmp gmp;
    row *r = &c->row[i];
    opts.start = i == OURS ? LUO_GMP_MODULO : (luo_gmp_start)(i - 1);
    r->name = i == OURS ? "gmp" : luo_gmp_start_name(opts.start);
    r->traffic = LUO_NEW_N(cli->arena, double, parts *parts);
    if (!r->traffic) return luo_err_nomem(err);
    const size_t mark = luo_arena_mark(cli->arena);
    luo_status st = luo_gmp_make(cli->arena, &c->graph, &opts, &gmp, err);
    if (st == LUO_OK && i == OURS) c->rounds = luo_gmp_refine(&gmp);
    if (st == LUO_OK && i == OURS) st = write_partition(dir, c, &gmp, err);
    if (st == LUO_OK) st = judge(c, &gmp, r, err);
    luo_arena_reset(cli->arena, mark);
    return st;
}

static luo_status simulate(luo_cli *cli, call *c, const char *dir, luo_set *set, luo_err *err)
{
    LUO_TRY(luo_folder_take(cli, dir, true, 0, NULL, set, err));
    for (int i = 0; i < PARTITIONS; i++) LUO_TRY(partition(cli, c, i, dir, err));
    LUO_TRY(write_partitions(dir, c, err));
    LUO_TRY(write_traffic(dir, c, err));
    LUO_TRY(luo_sync_write_summary(cli, dir, write_facts, c, err));
    print_text(cli, dir, c);
    return LUO_OK;
}

luo_status luo_embed_partition(luo_cli *cli, luo_err *err)
{
    call c = {0};
    luo_set set = {0};
    LUO_TRY(read_call(cli, &c, err));
    const char *dir = luo_arena_printf(cli->arena, "gmp-seed%" PRIu64, c.opts.seed);
    if (!dir) return luo_err_nomem(err);
    luo_cli_flush(cli);
    const luo_status st = simulate(cli, &c, luo_args_get(&cli->args, "out", dir), &set, err);
    const luo_status closed =
        luo_folder_give(cli, &set, luo_folder_end_of(st), st == LUO_OK ? err : NULL);
    return st == LUO_OK ? closed : st;
}
