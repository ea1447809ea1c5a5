/* moe_exchange.c: `luoshu moe exchange`: a2a_sweep.csv, and what wins where. */
#include <math.h>

#include "cli/moe/moe_sim.h"
#include "cli/sync/sync_write.h"
#include "core/cost/alltoall_links.h"

enum { EVERY = 8, NODES = 4096, EACH = 64 }; /* sizes between lines of the text; most of options */
static const double GIB = 1024.0 * 1024.0 * 1024.0;

typedef struct call {
    luo_alltoall_cluster of;
    luo_alltoall_row *row; /* over bytes alone */
    int32_t nrows;
    const char *cluster;
} call;

/* ---- options ---- */

static luo_status read_shape(const luo_args *args, call *c, luo_err *err)
{
    int64_t nodes, each;
    const bool given = luo_args_has(args, "devices-per-node");
    LUO_TRY(luo_args_int(args, "nodes", c->of.shape.nodes, 2, NODES, &nodes, err));
    LUO_TRY(luo_args_int(args, "devices-per-node", c->of.shape.each, 1, EACH, &each, err));
    if (!given && !c->of.even)
        return luo_err_set(err, LUO_EINPUT,
                           "nodes of cluster `%s` have different numbers of devices; give one by "
                           "--devices-per-node.",
                           c->cluster);
    if (each > 1 && !c->of.joined)
        return luo_err_set(err, LUO_EINPUT,
                           "nodes of cluster `%s` have one device, so that nothing is known of "
                           "links inside a node; leave out --devices-per-node.",
                           c->cluster);
    c->of.shape.nodes = (int32_t)nodes;
    c->of.shape.each = (int32_t)each;
    double gib;
    LUO_TRY(luo_args_number(args, "free-gib", c->of.free_bytes / GIB, 0, 1e6, &gib, err));
    if (luo_args_has(args, "free-gib")) c->of.free_bytes = gib * GIB;
    return LUO_OK;
}

/* ---- a2a_sweep.csv ---- */

static luo_status write_row(luo_table *table, const char *figure, const char *swept,
                            const luo_alltoall_row *row, luo_err *err)
{
    luo_table_text(table, LUO_COL_A2A_SWEEP_figure, figure);
    luo_table_text(table, LUO_COL_A2A_SWEEP_swept, swept);
    luo_table_int(table, LUO_COL_A2A_SWEEP_nodes, row->at.nodes);
    luo_table_int(table, LUO_COL_A2A_SWEEP_devices_per_node, row->at.each);
    luo_table_int(table, LUO_COL_A2A_SWEEP_bytes, (int64_t)row->bytes);
    for (int k = 0; k < LUO_ALLTOALL_KINDS; k++)
        luo_table_num(table, LUO_COL_A2A_SWEEP_flat_s + k, row->seconds[k]);
    luo_table_text(table, LUO_COL_A2A_SWEEP_winner, luo_alltoall_kind_name(row->best));
    luo_table_text(table, LUO_COL_A2A_SWEEP_leader_fits, row->leader_fits ? "yes" : "no");
    luo_table_int_opt(table, LUO_COL_A2A_SWEEP_limit_bytes,
                      row->limit >= 1 ? llround(row->limit) : -1);
    for (int k = 0; k < LUO_ALLTOALL_KINDS; k++)
        luo_table_int(table, LUO_COL_A2A_SWEEP_flat_messages + k, (int64_t)row->messages[k]);
    for (int k = 0; k < LUO_ALLTOALL_KINDS; k++)
        luo_table_int(table, LUO_COL_A2A_SWEEP_flat_nic_bytes + k, llround(row->nic_bytes[k]));
    return luo_table_end(table, err);
}

static luo_status write_axis(luo_cli *cli, luo_table *table, call *c, luo_alltoall_axis axis,
                             luo_err *err)
{
    static const char *const swept[] = {"nothing", "nodes", "devices_per_node"};
    const bool alone = axis == LUO_ALLTOALL_SIZE;
    luo_alltoall_row *row;
    int32_t n;
    LUO_TRY(luo_alltoall_sweep(cli->arena, &c->of.shape, &c->of.links, c->of.free_bytes, axis, &row,
                               &n, err));
    for (int32_t i = 0; i < n; i++)
        LUO_TRY(write_row(table, alone ? "a2a_size" : "a2a_map", swept[axis], &row[i], err));
    if (alone) c->row = row, c->nrows = n;
    return LUO_OK;
}

static luo_status write_table(luo_cli *cli, const char *dir, call *c, luo_err *err)
{
    luo_table table;
    luo_status st = luo_table_open(&table, dir, luo_table_def_at(LUO_TABLE_A2A_SWEEP), err);
    if (st == LUO_OK) st = write_axis(cli, &table, c, LUO_ALLTOALL_SIZE, err);
    if (st == LUO_OK) st = write_axis(cli, &table, c, LUO_ALLTOALL_NODES, err);
    if (st == LUO_OK && c->of.joined) st = write_axis(cli, &table, c, LUO_ALLTOALL_EACH, err);
    const luo_status closed = luo_table_close(&table, st == LUO_OK ? err : NULL);
    return st == LUO_OK ? closed : st;
}

/* ---- summary.json, text ---- */

static void write_facts(luo_jsonw *json, const void *ctx)
{
    const call *c = ctx;
    const luo_alltoall_links *links = &c->of.links;
    luo_jsonw_text(json, "kind", "exchange");
    luo_jsonw_text(json, "cluster", c->cluster);
    luo_jsonw_int(json, "nodes", c->of.shape.nodes);
    luo_jsonw_int(json, "devices_per_node", c->of.shape.each);
    luo_jsonw_int(json, "nics_per_node", links->nics);
    luo_jsonw_num(json, "message_s", links->message_s, 9);
    luo_jsonw_num(json, "nic_bytes_per_s", links->bytes_per_s, 0);
    luo_jsonw_num(json, "inner_message_s", c->of.joined ? links->inner_message_s : (double)NAN, 9);
    luo_jsonw_num(json, "inner_bytes_per_s", c->of.joined ? links->inner_bytes_per_s : (double)NAN,
                  0);
    luo_jsonw_num(json, "memory_bytes_per_s", links->memory_bytes_per_s, 0);
    luo_jsonw_num(json, "free_bytes", c->of.free_bytes, 0);
    luo_jsonw_num(json, "limit_bytes", c->row[0].limit, 0);
}

static void print_bytes(FILE *out, int width, double bytes)
{
    static const char *const unit[] = {"B", "KiB", "MiB", "GiB"};
    int u = 0;
    while (u < 3 && bytes >= 1024) bytes /= 1024, u++;
    fprintf(out, "%*.4g %s", width, bytes, unit[u]);
}

static void print_rows(FILE *out, const call *c)
{
    fprintf(out, "%11s %11s %11s %11s  %s\n", "a device", "flat ms", "leader ms", "2d ms",
            "fastest");
    for (int32_t i = 0; i < c->nrows; i += EVERY) {
        const luo_alltoall_row *row = &c->row[i];
        print_bytes(out, 7, row->bytes);
        for (int k = 0; k < LUO_ALLTOALL_KINDS; k++) fprintf(out, " %11.6f", 1e3 * row->seconds[k]);
        fprintf(out, "  %s\n", luo_alltoall_kind_name(row->best));
    }
    fprintf(out, "%11s %11.0f %11.0f %11.0f  sent by the busiest NIC\n", "messages",
            c->row->messages[0], c->row->messages[1], c->row->messages[2]);
    fprintf(out, "%11s %11.4g %11.4g %11.4g  of those of a device\n", "bytes",
            c->row->nic_bytes[0] / c->row->bytes, c->row->nic_bytes[1] / c->row->bytes,
            c->row->nic_bytes[2] / c->row->bytes);
}

static void print_text(luo_cli *cli, const char *dir, const call *c)
{
    FILE *out = luo_cli_out(cli);
    const luo_alltoall_links *links = &c->of.links;
    luo_err err = {0};
    fprintf(out, "%d nodes of %d devices and %d NIC%s: a message %.3g us, %.4g GB/s a NIC\n",
            (int)c->of.shape.nodes, (int)c->of.shape.each, (int)links->nics,
            links->nics == 1 ? "" : "s", 1e6 * links->message_s, links->bytes_per_s / 1e9);
    if (c->of.joined)
        fprintf(out, "inside a node: a message %.3g us, %.4g GB/s; memory %.4g GB/s\n",
                1e6 * links->inner_message_s, links->inner_bytes_per_s / 1e9,
                links->memory_bytes_per_s / 1e9);
    print_rows(out, c);
    if (c->row->limit > 0) {
        fputs("leader is faster than flat below ", out);
        print_bytes(out, 0, c->row->limit);
        fputc('\n', out);
    } else {
        fputs("leader is never faster than flat\n", out);
    }
    for (int32_t i = 0; i < c->nrows && err.st == LUO_OK; i++)
        if (luo_alltoall_fits(&c->of.shape, LUO_ALLTOALL_LEADER, c->row[i].bytes, c->of.free_bytes,
                              0, &err) != LUO_OK) {
            fputs("from ", out);
            print_bytes(out, 0, c->row[i].bytes);
            fprintf(out, " on: %s\n", err.text);
            break;
        }
    fprintf(out, "%s/a2a_sweep.csv\n%s/summary.json\n", dir, dir);
}

luo_status luo_moe_exchange_run(luo_cli *cli, luo_moe_sim *sim, luo_err *err)
{
    const luo_cost_ctx cost = {.cluster = sim->cluster, .stack = &sim->stack, .dtype = LUO_BF16};
    call c = {.cluster = sim->cluster->name};
    LUO_TRY(luo_alltoall_links_of(&cost, &c.of, err));
    LUO_TRY(read_shape(&cli->args, &c, err));
    LUO_TRY(luo_folder_take(cli, sim->dir, true, 0, NULL, &sim->set, err));
    LUO_TRY(write_table(cli, sim->dir, &c, err));
    LUO_TRY(luo_sync_write_summary(cli, sim->dir, write_facts, &c, err));
    print_text(cli, sim->dir, &c);
    return LUO_OK;
}
