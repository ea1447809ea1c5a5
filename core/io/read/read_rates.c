/* read_rates.c: straggling rates of devices (docs/formats.md#tables-1,
 * docs/formats.md#luoshuparams1). */
#include <string.h>

#include "core/base/vec.h"
#include "core/io/io.h"
#include "core/io/read/input_tables.h"
#include "core/io/read/read.h"

typedef struct rates {
    luo_arena *arena;
    luo_csv *table;
    const luo_cluster *cluster;
    int32_t *last; /* per device: 1 + its latest row; 0: none */
    luo_rate_row *at;
    int32_t n, cap;
    bool failed;
} rates;

/* Rows of one device stand in order of time, so a look at the last one finds a second. */
static bool check_row(rates *r, const luo_csv_cell *cells)
{
    const int32_t device = (int32_t)cells[LUO_RA_DEVICE].whole;
    if (r->cluster && device >= r->cluster->ndevices) {
        luo_csv_error(r->table, LUO_RA_DEVICE, "device %d is not in the cluster; devices are 0 to "
                                               "%d.", device, r->cluster->ndevices - 1);
        return false;
    }
    if (!r->last[device]) return true;
    const luo_rate_row *before = &r->at[r->last[device] - 1];
    const double t = cells[LUO_RA_T].number;
    if (t > before->t_s) return true;
    if (!luo_csv_has(r->table, LUO_RA_T))
        luo_csv_error(r->table, LUO_RA_DEVICE, "device %d is given twice, first at line %d; one "
                                               "row per device is allowed.", device, before->line);
    else
        luo_csv_error(r->table, LUO_RA_T,
                      "`t_s` is `%s`, and at line %d device %d is at %.9g "
                      "already; rows of a device stand in order of time.",
                      cells[LUO_RA_T].given ? cells[LUO_RA_T].text : "0", before->line, device,
                      before->t_s);
    return false;
}

static void add_row(rates *r, const luo_csv_cell *cells)
{
    if (!LUO_VEC_ROOM_IN(r->arena, r->at, r->n, r->cap)) {
        r->failed = true;
        return;
    }
    luo_rate_row row = {.device = (int32_t)cells[LUO_RA_DEVICE].whole,
                        .rate = cells[LUO_RA_RATE].number,
                        .t_s = cells[LUO_RA_T].given ? cells[LUO_RA_T].number : 0,
                        .state = LUO_RATE_USED,
                        .line = luo_csv_line(r->table)};
    if (cells[LUO_RA_STATE].given) row.state = (luo_rate_state)cells[LUO_RA_STATE].whole;
    if (row.state == LUO_RATE_FAILED) row.rate = INFINITY;
    if (isinf(row.rate)) row.state = LUO_RATE_FAILED;
    r->at[r->n++] = row;
    r->last[row.device] = r->n;
}

luo_status luo_read_rates_text(luo_arena *arena, const luo_source *src, const luo_cluster *cluster,
                               luo_rate_row **out, int32_t *n, luo_diags *diags)
{
    luo_csv_cell c[LUO_RA_N];
    rates r = {.arena = arena, .cluster = cluster,
               .last = LUO_NEW_N(arena, int32_t, LUO_DEVICES_MAX)};
    r.failed = !r.last;
    r.table = luo_csv_open(src, luo_input_table_rates.columns, luo_input_table_rates.n, diags);
    while (!r.failed && luo_csv_next(r.table, c))
        if (check_row(&r, c)) add_row(&r, c);
    luo_status st = luo_csv_close(r.table);
    if (r.failed)
        st = luo_diags_add(diags, LUO_ERROR, LUO_ENOMEM, src->name, 0, 0,
                           "this process is out of memory; free some or use less.");
    if (st != LUO_OK) return st;
    *out = r.at;
    *n = r.n;
    return LUO_OK;
}

luo_status luo_read_rates(luo_arena *arena, const char *path, const luo_cluster *cluster,
                          luo_rate_row **out, int32_t *n, luo_diags *diags)
{
    luo_err err;
    luo_source src;
    if (luo_source_read(arena, path, &src, &err) != LUO_OK) return luo_diags_err(diags, &err);
    return luo_read_rates_text(arena, &src, cluster, out, n, diags);
}
