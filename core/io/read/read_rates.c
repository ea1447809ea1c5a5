/* read_rates.c: straggling rates of devices, seconds of iterations of workers, and loads of experts
 * step by step (docs/formats.md#tables-1, docs/formats.md#luoshuparams1). */
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
    luo_csv_cell cell[LUO_RA_N];
    rates r = {.arena = arena, .cluster = cluster,
               .last = LUO_NEW_N(arena, int32_t, LUO_DEVICES_MAX)};
    r.failed = !r.last;
    r.table = luo_csv_open(src, luo_input_table_rates.columns, luo_input_table_rates.n, diags);
    while (!r.failed && luo_csv_next(r.table, cell))
        if (check_row(&r, cell)) add_row(&r, cell);
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

/* ---- loads of experts ---- */

typedef struct load_table {
    luo_arena *arena;
    luo_csv *table;
    const luo_model *model;
    luo_load_row *rows;
    luo_expert_load *loads; /* their rows are found when all are there */
    int64_t nrows, room;
    int32_t n, cap;
    int line;          /* of the row before */
    bool failed, idle; /* idle: the layer has no tokens so far */
} load_table;

/* Rows stand in order, so a look at the last one finds a second. */
static bool loads_in_order(const load_table *table, int64_t step, const luo_load_row *row)
{
    if (table->n == 0 || step > table->loads[table->n - 1].step) return true;
    if (step < table->loads[table->n - 1].step) return false;
    const luo_load_row *last = &table->rows[table->nrows - 1];
    return row->layer > last->layer || (row->layer == last->layer && row->expert > last->expert);
}

static bool check_load(const load_table *table, int64_t step, const luo_load_row *row)
{
    if (!loads_in_order(table, step, row)) {
        luo_csv_error(table->table, LUO_LO_STEP,
                      "this row does not come after the one of line %d; rows stand in order of "
                      "step, layer and expert, each of them once.",
                      table->line);
        return false;
    }
    if (!table->model) return true;
    if (row->layer >= table->model->layers || !luo_model_has_experts(table->model, row->layer)) {
        luo_csv_error(table->table, LUO_LO_LAYER, "model `%s` has no layer %d with experts.",
                      table->model->name, row->layer);
        return false;
    }
    if (row->expert >= table->model->moe.experts) {
        luo_csv_error(table->table, LUO_LO_EXPERT,
                      "expert %d is not in model `%s`; experts are 0 to %d.", row->expert,
                      table->model->name, (int)table->model->moe.experts - 1);
        return false;
    }
    return true;
}

/* At the end of a layer of a step. */
static void check_load_layer(const load_table *table)
{
    if (table->idle)
        luo_csv_error(table->table, LUO_LO_TOKENS,
                      "no expert of layer %d in step %lld, whose rows end at line %d, has tokens; "
                      "one with tokens is expected, or no row.",
                      table->rows[table->nrows - 1].layer,
                      (long long)table->loads[table->n - 1].step, table->line);
}

static void add_load(load_table *table, int64_t step, luo_load_row row)
{
    const bool next_step = table->n == 0 || step != table->loads[table->n - 1].step;
    const bool next = next_step || row.layer != table->rows[table->nrows - 1].layer;
    if (next) check_load_layer(table);
    if (!LUO_VEC_ROOM_IN(table->arena, table->rows, table->nrows, table->room) ||
        (next_step && !LUO_VEC_ROOM_IN(table->arena, table->loads, table->n, table->cap))) {
        table->failed = true;
        return;
    }
    if (next_step) table->loads[table->n++] = (luo_expert_load){.step = step};
    table->idle = (next || table->idle) && row.tokens == 0;
    table->rows[table->nrows++] = row;
    table->loads[table->n - 1].nrows++;
    table->line = luo_csv_line(table->table);
}

static void read_loads(load_table *table)
{
    luo_csv_cell cell[LUO_LO_N];
    while (!table->failed && luo_csv_next(table->table, cell)) {
        const luo_load_row row = {(int32_t)cell[LUO_LO_LAYER].whole,
                                  (int32_t)cell[LUO_LO_EXPERT].whole,
                                  (uint32_t)cell[LUO_LO_TOKENS].whole};
        if (check_load(table, cell[LUO_LO_STEP].whole, &row))
            add_load(table, cell[LUO_LO_STEP].whole, row);
    }
    check_load_layer(table);
}

luo_status luo_read_expert_load_text(luo_arena *arena, const luo_source *src,
                                     const luo_model *model, luo_expert_load **out, int32_t *n,
                                     luo_diags *diags)
{
    const luo_input_table *table = &luo_input_table_expert_load;
    load_table r = {.arena = arena,
                .model = model,
                .table = luo_csv_open(src, table->columns, table->n, diags)};
    int64_t at = 0;
    read_loads(&r);
    const luo_status st = luo_csv_close(r.table);
    if (r.failed)
        return luo_diags_add(diags, LUO_ERROR, LUO_ENOMEM, src->name, 0, 0,
                             "this process is out of memory; free some or use less.");
    if (st != LUO_OK) return st;
    if (r.n == 0)
        return luo_diags_add(diags, LUO_ERROR, LUO_EINPUT, src->name, 1, 1,
                             "there is no load; one row or more is expected.");
    for (int32_t i = 0; i < r.n; at += r.loads[i++].nrows) r.loads[i].rows = r.rows + at;
    *out = r.loads;
    *n = r.n;
    return LUO_OK;
}

luo_status luo_read_expert_load(luo_arena *arena, const char *path, const luo_model *model,
                                luo_expert_load **out, int32_t *n, luo_diags *diags)
{
    luo_err err;
    luo_source src;
    if (luo_source_read(arena, path, &src, &err) != LUO_OK) return luo_diags_err(diags, &err);
    return luo_read_expert_load_text(arena, &src, model, out, n, diags);
}

luo_status luo_read_straggler(luo_arena *arena, const char *path, int32_t workers,
                              luo_straggler_row **out, int64_t *n, luo_diags *diags)
{
    const luo_input_table *table = &luo_input_table_straggler;
    luo_csv_cell cell[LUO_IT_N];
    luo_straggler_row *rows = NULL;
    int64_t count = 0, cap = 0;
    bool failed = false;
    luo_csv *csv = luo_csv_open_path(path, table->columns, table->n, diags);
    while (!failed && luo_csv_next(csv, cell)) {
        if (cell[LUO_IT_WORKER].whole >= workers) {
            luo_csv_error(csv, LUO_IT_WORKER, "worker %lld is none; workers are 0 to %d.",
                          (long long)cell[LUO_IT_WORKER].whole, workers - 1);
            continue;
        }
        failed = !LUO_VEC_ROOM_IN(arena, rows, count, cap);
        if (!failed)
            rows[count++] =
                (luo_straggler_row){(int32_t)cell[LUO_IT_WORKER].whole,
                                    cell[LUO_IT_ITERATION].whole, cell[LUO_IT_SECONDS].number};
    }
    const luo_status st = luo_csv_close(csv);
    if (failed)
        return luo_diags_add(diags, LUO_ERROR, LUO_ENOMEM, path, 0, 0,
                             "this process is out of memory; free some or use less.");
    if (st != LUO_OK) return st;
    *out = rows;
    *n = count;
    return LUO_OK;
}
