#include "cli/sync/sync_compare.h"

#include <math.h>
#include <string.h>

#include "cli/moe/moe_sim.h"
#include "core/io/document/doc.h"
#include "core/io/io.h"
#include "core/io/result/result.h"
#include "core/io/result/table.h"

typedef struct run { /* numbers that a folder does not have are NAN */
    const char *name, *kind, *state;
    int64_t workers, iterations;
    double updates_per_s, wait, staleness_p99, loss_last, saved, cost, moved_rows;
} run;

/* ---- summary.json ---- */

/* NULL: no JSON object of `sync` or `embed`, which alone say their kind. */
static const luo_doc_node *summary_of(luo_arena *arena, const char *dir, luo_err *err)
{
    const luo_doc_node *root = NULL;
    const char *path = luo_arena_printf(arena, "%s/summary.json", dir);
    luo_source src;
    if (!path || !luo_result_has(dir, "summary.json")) return NULL;
    if (luo_source_read(arena, path, &src, err) != LUO_OK ||
        luo_doc_tree(arena, src.text, src.len, &root, err) != LUO_OK)
        return NULL;
    return root && root->type == LUO_DOC_MAP && luo_doc_text(root, "kind") ? root : NULL;
}

bool luo_sync_compare_takes(const luo_cli *cli)
{
    for (int i = 0; i < cli->args.nfiles; i++)
        if (summary_of(cli->arena, cli->args.files[i], NULL)) return true;
    return false;
}

static double number(const luo_doc_node *map, const char *key)
{
    double v = NAN;
    luo_doc_real(luo_doc_get(map, key), &v);
    return v;
}

static double sum(const luo_doc_node *list)
{
    double all = 0, v;
    for (const luo_doc_node *node = list ? list->first : NULL; node; node = node->next)
        if (luo_doc_real(node, &v)) all += v;
    return all;
}

/* The last part of a path, without slashes behind it. */
static const char *name_of(luo_arena *arena, const char *path)
{
    size_t n = strlen(path), first;
    while (n > 1 && path[n - 1] == '/') n--;
    for (first = n; first > 0 && path[first - 1] != '/';) first--;
    return luo_arena_strndup(arena, path + first, n - first);
}

static luo_status lacks(const char *dir, const char *keys, luo_err *err)
{
    return luo_err_set(err, LUO_EINPUT,
                       "`%s/summary.json` lacks %s; a file that luoshu wrote is expected.", dir,
                       keys);
}

/* A partition that was simulated; the first is the refined one. It has no time. */
static luo_status read_partition(const char *dir, const luo_doc_node *map, run *out, luo_err *err)
{
    const luo_doc_node *list = luo_doc_get(map, "partitions");
    const luo_doc_node *ours = list ? list->first : NULL;
    out->cost = number(ours, "cost");
    out->moved_rows = number(ours, "replica_pulls") + number(ours, "replica_pushes");
    if (!luo_doc_int(luo_doc_get(map, "parts"), &out->workers) || !ours ||
        !luo_doc_int(luo_doc_get(ours, "iterations"), &out->iterations) || !isfinite(out->cost) ||
        !isfinite(out->moved_rows))
        return lacks(dir, "`parts`, or of its first partition `cost`, `iterations` or traffic",
                     err);
    out->iterations *= out->workers; /* each is one of every part */
    return LUO_OK;
}

static luo_status read_run(luo_cli *cli, const char *dir, run *out, luo_err *err)
{
    const luo_doc_node *map = summary_of(cli->arena, dir, err);
    if (!map)
        return luo_err_set(err, LUO_EINPUT,
                           "`%s` is no folder of `luoshu sync` or `embed`, as others here are; "
                           "compare runs of one kind.",
                           dir);
    const luo_doc_node *iterations = luo_doc_get(map, "iterations");
    const double total_s = number(map, "total_s");
    *out = (run){.name = name_of(cli->arena, dir),
                 .kind = luo_doc_text(map, "kind"),
                 .state = luo_doc_text(map, "state"),
                 .iterations = (int64_t)sum(iterations),
                 .updates_per_s = number(map, "updates_per_s"),
                 .staleness_p99 = number(luo_doc_get(map, "staleness"), "p99"),
                 .loss_last = number(map, "loss_last"),
                 .saved = number(map, "saved_with_flush_ratio"),
                 .wait = NAN,
                 .cost = NAN,
                 .moved_rows = NAN};
    if (!out->name) return luo_err_nomem(err);
    out->name = luo_result_shown(cli->arena, out->name);
    out->kind = luo_result_shown(cli->arena, out->kind);
    if (out->state) out->state = luo_result_shown(cli->arena, out->state);
    if (strcmp(out->kind, "replay") == 0)
        return luo_err_set(err, LUO_EINPUT,
                           "`%s` is of `luoshu replay`, which has no comparison; folders of "
                           "`luoshu sync` or `embed` are expected.",
                           dir);
    if (luo_moe_kind_is(out->kind))
        return luo_err_set(err, LUO_EINPUT,
                           "`%s` is of `luoshu moe %s`, which has no comparison; folders of "
                           "`luoshu sync` or `embed` are expected.",
                           dir, out->kind);
    if (!out->state) out->state = "complete"; /* of `embed`, which nothing stops */
    if (luo_doc_get(map, "partitions")) return read_partition(dir, map, out, err);
    if (!luo_doc_int(luo_doc_get(map, "workers"), &out->workers) || !iterations || !(total_s >= 0))
        return lacks(dir, "`workers`, `iterations` or `total_s`", err);
    out->wait = sum(luo_doc_get(map, "wait_s")) / ((double)out->workers * total_s);
    return LUO_OK;
}

/* ---- what comes out ---- */

static double ratio(const run *first, const run *r)
{
    return r->updates_per_s / first->updates_per_s;
}

static luo_status write_table(const char *out, const run *r, int n, luo_err *err)
{
    luo_table table;
    luo_status st = luo_table_open(&table, out, luo_table_def_at(LUO_TABLE_COMPARE_SYNC), err);
    for (int i = 0; st == LUO_OK && i < n; i++) {
        luo_table_text(&table, LUO_COL_COMPARE_SYNC_run, r[i].name);
        luo_table_text(&table, LUO_COL_COMPARE_SYNC_kind, r[i].kind);
        luo_table_text(&table, LUO_COL_COMPARE_SYNC_state, r[i].state);
        luo_table_int(&table, LUO_COL_COMPARE_SYNC_workers, r[i].workers);
        luo_table_int(&table, LUO_COL_COMPARE_SYNC_iterations, r[i].iterations);
        luo_table_num(&table, LUO_COL_COMPARE_SYNC_updates_per_s, r[i].updates_per_s);
        luo_table_num(&table, LUO_COL_COMPARE_SYNC_updates_ratio, ratio(r, &r[i]));
        luo_table_num(&table, LUO_COL_COMPARE_SYNC_wait_ratio, r[i].wait);
        luo_table_num(&table, LUO_COL_COMPARE_SYNC_staleness_p99, r[i].staleness_p99);
        luo_table_num(&table, LUO_COL_COMPARE_SYNC_loss_last, r[i].loss_last);
        luo_table_num(&table, LUO_COL_COMPARE_SYNC_saved_ratio, r[i].saved);
        luo_table_num(&table, LUO_COL_COMPARE_SYNC_cost, r[i].cost);
        luo_table_num(&table, LUO_COL_COMPARE_SYNC_moved_rows, r[i].moved_rows);
        st = luo_table_end(&table, err);
    }
    const luo_status closed = luo_table_close(&table, st == LUO_OK ? err : NULL);
    return st == LUO_OK ? closed : st;
}

static void print_number(FILE *out, int width, const char *fmt, double v)
{
    char text[32] = "-";
    if (isfinite(v)) snprintf(text, sizeof text, fmt, v);
    fprintf(out, " %*s", width, text);
}

static void print_text(FILE *out, const run *r, int n)
{
    bool parts = false;
    for (int i = 0; i < n; i++) parts |= isfinite(r[i].cost);
    fprintf(out, "%-16s %-9s %7s %10s %10s %6s %6s %5s %9s %6s", "run", "kind", "workers",
            "iterations", "updates/s", "ratio", "wait%", "stale", "loss", "saved%");
    fprintf(out, "%s\n", parts ? "         cost  moved rows" : "");
    for (int i = 0; i < n; i++) {
        fprintf(out, "%-16s %-9s %7lld %10lld", r[i].name, r[i].kind, (long long)r[i].workers,
                (long long)r[i].iterations);
        print_number(out, 10, "%.3f", r[i].updates_per_s);
        print_number(out, 6, "%.3f", ratio(r, &r[i]));
        print_number(out, 6, "%.1f", 100 * r[i].wait);
        print_number(out, 5, "%.0f", r[i].staleness_p99);
        print_number(out, 9, "%.6f", r[i].loss_last);
        print_number(out, 6, "%.1f", 100 * r[i].saved);
        if (parts) print_number(out, 12, "%.6g", r[i].cost);
        if (parts) print_number(out, 11, "%.1f", r[i].moved_rows);
        const bool whole = strcmp(r[i].state, "complete") == 0;
        fprintf(out, "%s%s\n", whole ? "" : "  ", whole ? "" : r[i].state);
    }
}

luo_status luo_sync_compare(luo_cli *cli, const char *out, luo_err *err)
{
    const int n = cli->args.nfiles;
    run *runs = LUO_NEW_N(cli->arena, run, n);
    if (!runs) return luo_err_nomem(err);
    for (int i = 0; i < n; i++) LUO_TRY(read_run(cli, cli->args.files[i], &runs[i], err));
    LUO_TRY(write_table(out, runs, n, err));
    print_text(luo_cli_out(cli), runs, n);
    return LUO_OK;
}
