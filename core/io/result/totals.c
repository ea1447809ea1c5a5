/* links.csv, link_windows.csv and comm.csv, written once at the end of a run. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/devset.h"
#include "core/base/vec.h"
#include "core/io/result/rundir_internal.h"

static luo_status put_link(luo_table *table, const luo_link *link, char way, double bytes,
                           double busy_s, double total_s, luo_err *err)
{
    const double bandwidth = way == '>' ? link->bytes_per_s : link->down_bytes_per_s;
    char name[192];
    snprintf(name, sizeof name, "%s%c", link->name, way);
    luo_table_text(table, LUO_COL_LINKS_link, name);
    luo_table_text(table, LUO_COL_LINKS_class, luo_link_kind_name(link->kind));
    luo_table_int(table, LUO_COL_LINKS_bytes, llround(bytes));
    luo_table_num(table, LUO_COL_LINKS_busy_s, busy_s);
    luo_table_num(table, LUO_COL_LINKS_utilisation_ratio,
                  bandwidth > 0 && total_s > 0 ? bytes / (bandwidth * total_s) : NAN);
    luo_table_num(table, LUO_COL_LINKS_peak_gbytes_per_s, busy_s > 0 ? bytes / busy_s * 1e-9 : NAN);
    return luo_table_end(table, err);
}

luo_status luo_rundir_links(void *ctx, const luo_link_use *use, int32_t n, double total_s,
                            luo_err *err)
{
    luo_rundir *dir = ctx;
    luo_table *table = &dir->table[LUO_TABLE_LINKS];
    const luo_cluster *cluster = dir->opts.scenario->cluster;
    for (int32_t i = 0; i < n && i < cluster->nlinks; i++) {
        const luo_link *link = &cluster->links[i];
        LUO_TRY(put_link(table, link, '>', use[i].bytes_up, use[i].busy_up_s, total_s, err));
        LUO_TRY(put_link(table, link, '<', use[i].bytes_down, use[i].busy_down_s, total_s, err));
    }
    return LUO_OK;
}

/* ---- windows ---- */

static const char *const classes[] = {LUO_LINK_CLASS_LIST(LUO_WORD_TEXT) LUO_LINK_CLASS_STORAGE};
enum { CLASSES = sizeof classes / sizeof *classes, OF_CLASS = 6 };

typedef struct busy_link { /* and direction */
    int64_t bytes;
    int32_t link;
    bool down;
} busy_link;

typedef struct busy_class {
    busy_link at[OF_CLASS + 1]; /* most bytes first, then as the links stand */
    int n;
} busy_class;

static void offer_link(busy_class *top, busy_link link)
{
    int k = top->n;
    for (; k > 0 && link.bytes > top->at[k - 1].bytes; k--) top->at[k] = top->at[k - 1];
    top->at[k] = link;
    if (top->n < OF_CLASS) top->n++;
}

static luo_status put_windows(luo_table *table, const luo_link *link, bool down,
                              const double *bytes, double window_s, double total_s, luo_err *err)
{
    const double bandwidth = down ? link->down_bytes_per_s : link->bytes_per_s;
    char name[192];
    snprintf(name, sizeof name, "%s%c", link->name, down ? '<' : '>');
    for (int k = 0; k < LUO_LINK_WINDOWS && k * window_s < total_s; k++) {
        const bool last = k + 1 == LUO_LINK_WINDOWS || (k + 1) * window_s >= total_s;
        const double start_s = k * window_s, end_s = last ? total_s : (k + 1) * window_s;
        luo_table_text(table, LUO_COL_LINK_WINDOWS_link, name);
        luo_table_text(table, LUO_COL_LINK_WINDOWS_class, luo_link_kind_name(link->kind));
        luo_table_num(table, LUO_COL_LINK_WINDOWS_t_start_s, start_s);
        luo_table_num(table, LUO_COL_LINK_WINDOWS_t_end_s, end_s);
        luo_table_int(table, LUO_COL_LINK_WINDOWS_bytes, llround(bytes[k]));
        luo_table_num(table, LUO_COL_LINK_WINDOWS_utilisation_ratio,
                      bandwidth > 0 ? bytes[k] / (bandwidth * (end_s - start_s)) : NAN);
        LUO_TRY(luo_table_end(table, err));
    }
    return LUO_OK;
}

/* The same links as in figure `links`: luo_plotdata_busiest. */
static void choose_links(const luo_cluster *cluster, const luo_link_use *use, int32_t n,
                         busy_class top[CLASSES])
{
    for (int32_t i = 0; i < n && i < cluster->nlinks; i++)
        for (int down = 0; down < 2; down++) {
            const int64_t bytes = llround(down ? use[i].bytes_down : use[i].bytes_up);
            for (int c = 0; bytes > 0 && c < CLASSES; c++)
                if (strcmp(classes[c], luo_link_kind_name(cluster->links[i].kind)) == 0)
                    offer_link(&top[c], (busy_link){bytes, i, down});
        }
}

luo_status luo_rundir_link_windows(void *ctx, const luo_link_windows *windows,
                                   const luo_link_use *use, double total_s, luo_err *err)
{
    luo_rundir *dir = ctx;
    const luo_cluster *cluster = dir->opts.scenario->cluster;
    busy_class top[CLASSES] = {{.n = 0}};
    choose_links(cluster, use, windows->nlinks, top);
    for (int c = 0; c < CLASSES; c++)
        for (int k = 0; k < top[c].n; k++) {
            const busy_link *busy = &top[c].at[k];
            const double *all = busy->down ? windows->down : windows->up;
            LUO_TRY(put_windows(&dir->table[LUO_TABLE_LINK_WINDOWS], &cluster->links[busy->link],
                                busy->down, &all[(int64_t)busy->link * LUO_LINK_WINDOWS],
                                windows->window_s, total_s, err));
        }
    return LUO_OK;
}

/* Slowest kind of link on the way from a to b; -1 when a = b. Kinds stand fastest first. */
static int path_class(const luo_cluster *cluster, int32_t a, int32_t b)
{
    luo_hop hops[LUO_PATH_MAX];
    const int32_t n = luo_cluster_path(cluster, a, b, hops);
    int worst = -1;
    for (int32_t i = 0; i < n; i++) {
        const int kind = (int)cluster->links[hops[i].link].kind;
        if (kind > worst) worst = kind;
    }
    return worst;
}

/* Devices of the sends of an exchange, ascending, and their worst class. */
static int32_t exchange_devices(luo_arena *scratch, const luo_cluster *cluster,
                                const luo_exchange *exchange, int32_t **dev, int *worst)
{
    int32_t n = 0;
    const luo_moves *moves = exchange->resolution ? &exchange->resolution->moves : NULL;
    *worst = -1;
    *dev = LUO_NEW_N(scratch, int32_t, moves ? 2 * moves->n + 1 : 1);
    for (int32_t i = 0; *dev && moves && i < moves->n; i++) {
        if (moves->at[i].kind != LUO_MOVE_SEND || moves->at[i].step != exchange->step) continue;
        const int kind = path_class(cluster, moves->at[i].dev[0], moves->at[i].dev[1]);
        if (kind > *worst) *worst = kind;
        (*dev)[n++] = moves->at[i].dev[0];
        (*dev)[n++] = moves->at[i].dev[1];
    }
    if (n > 0) qsort(*dev, (size_t)n, sizeof **dev, luo_vec_by_int32);
    int32_t kept = 0;
    for (int32_t i = 0; i < n; i++)
        if (i == 0 || (*dev)[i] != (*dev)[i - 1]) (*dev)[kept++] = (*dev)[i];
    return kept;
}

/* Bus bandwidth / algorithm bandwidth as nccl-tests. */
static double bus_factor(int32_t coll, int32_t n)
{
    if (coll == LUO_COLL_AR) return 2.0 * (n - 1) / n;
    return coll == LUO_COLL_BCAST ? 1 : (double)(n - 1) / n;
}

static luo_status put_comm(luo_rundir *dir, int32_t plan, const luo_programs *set,
                           const luo_comm_use *use, luo_str *text, luo_err *err)
{
    luo_table *table = &dir->table[LUO_TABLE_COMM];
    const luo_cluster *cluster = dir->opts.scenario->cluster;
    const bool p2p = use->group < 0;
    int worst = -1;
    luo_str_clear(text);
    if (!p2p) {
        const luo_group *group = &set->groups[use->group];
        luo_devset_print(text, group->dev, group->n);
        for (int32_t i = 0; i < group->n; i++) { /* neighbours on the ring */
            const int kind = path_class(cluster, group->dev[i], group->dev[(i + 1) % group->n]);
            if (kind > worst) worst = kind;
        }
    } else if (use->exchange >= 0) {
        int32_t *dev;
        const int32_t n =
            exchange_devices(dir->scratch, cluster, &set->exchanges[use->exchange], &dev, &worst);
        if (!dev) return luo_err_nomem(err);
        luo_devset_print(text, dev, n);
    }
    const double algbw = use->busy_s > 0 ? (double)use->bytes / use->busy_s * 1e-9 : NAN;
    luo_table_int(table, LUO_COL_COMM_plan, plan);
    luo_table_text(table, LUO_COL_COMM_group, luo_str_get(text));
    luo_table_text(table, LUO_COL_COMM_collective,
                   p2p ? "p2p" : luo_coll_name((luo_coll)use->coll));
    luo_table_text(table, LUO_COL_COMM_stream, luo_stream_name((luo_stream)use->stream));
    luo_table_text(table, LUO_COL_COMM_class,
                   worst < 0 ? "local" : luo_link_kind_name((luo_link_kind)worst));
    luo_table_int(table, LUO_COL_COMM_devices, use->devices);
    luo_table_int(table, LUO_COL_COMM_calls, use->calls);
    luo_table_int(table, LUO_COL_COMM_bytes, use->bytes);
    luo_table_num(table, LUO_COL_COMM_busy_s, use->busy_s);
    luo_table_num(table, LUO_COL_COMM_exposed_s, use->exposed_s);
    luo_table_num(table, LUO_COL_COMM_algbw_gbytes_per_s, algbw);
    luo_table_num(table, LUO_COL_COMM_busbw_gbytes_per_s,
                  p2p ? algbw : algbw * bus_factor(use->coll, use->devices));
    return text->failed ? luo_err_nomem(err) : luo_table_end(table, err);
}

luo_status luo_rundir_comm(void *ctx, int32_t plan, const luo_programs *set,
                           const luo_comm_use *use, int32_t n, luo_err *err)
{
    luo_rundir *dir = ctx;
    luo_str text = {0};
    luo_status st = LUO_OK;
    for (int32_t i = 0; st == LUO_OK && i < n; i++) {
        const size_t mark = luo_arena_mark(dir->scratch);
        st = put_comm(dir, plan, set, &use[i], &text, err);
        luo_arena_reset(dir->scratch, mark);
    }
    luo_str_free(&text);
    return st;
}
