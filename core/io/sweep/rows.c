/* rows.c: rows of a sweep: into its journals and its table, and back out of the journals. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/vec.h"
#include "core/io/files.h"
#include "core/io/result/result.h"
#include "core/io/sweep/sweep.h"

static int64_t unit_of(const luo_sweep_grid *grid, const luo_sweep_row *row)
{
    return row->cell * grid->nseeds + row->seed;
}

int64_t luo_sweep_find(const luo_sweep_rows *rows, int64_t unit)
{
    return luo_map_get(&rows->first, (uint64_t)unit, -1);
}

/* ---- writing ---- */

const luo_table_def *luo_sweep_table(luo_arena *arena, const luo_sweep_grid *grid, const char *file)
{
    const luo_table_def *own = luo_table_def_at(LUO_TABLE_SWEEP);
    luo_table_def *def = LUO_NEW(arena, luo_table_def);
    luo_column *columns = LUO_NEW_N(arena, luo_column, own->n + grid->nkeys);
    if (!def || !columns) return NULL;
    memcpy(columns, own->columns, (size_t)own->n * sizeof *columns);
    for (int32_t k = 0; k < grid->nkeys; k++) {
        luo_str name = {0};
        luo_table_put_text(&name, grid->key[k].name);
        columns[own->n + k] = (luo_column){.name = luo_arena_strdup(arena, luo_str_get(&name)),
                                           .kind = LUO_CELL_TEXT,
                                           .help = "value of the key"};
        const bool failed = name.failed || !columns[own->n + k].name;
        luo_str_free(&name);
        if (failed) return NULL;
    }
    *def = (luo_table_def){file, own->help, own->n + grid->nkeys, columns};
    return def;
}

luo_status luo_sweep_put(luo_arena *scratch, luo_table *table, const luo_sweep_grid *grid,
                         const luo_sweep_row *row, luo_err *err)
{
    const size_t mark = luo_arena_mark(scratch);
    luo_table_int(table, LUO_COL_SWEEP_cell, row->cell);
    luo_table_text(table, LUO_COL_SWEEP_seed, grid->seed[row->seed]);
    luo_table_int(table, LUO_COL_SWEEP_policies, row->policies);
    luo_table_text(table, LUO_COL_SWEEP_policy, row->policy);
    luo_table_text(table, LUO_COL_SWEEP_state, luo_run_state_name(row->state));
    luo_table_int_opt(table, LUO_COL_SWEEP_steps, row->steps);
    luo_table_num(table, LUO_COL_SWEEP_total_s, row->total_s);
    luo_table_num(table, LUO_COL_SWEEP_step_mean_s, row->step_mean_s);
    luo_table_num(table, LUO_COL_SWEEP_low_s, row->low_s);
    luo_table_num(table, LUO_COL_SWEEP_high_s, row->high_s);
    luo_table_num(table, LUO_COL_SWEEP_goodput_tokens_per_s, row->goodput_tokens_per_s);
    luo_table_num(table, LUO_COL_SWEEP_mfu_ratio, row->mfu_ratio);
    luo_table_num(table, LUO_COL_SWEEP_lost_s, row->lost_s);
    luo_table_num(table, LUO_COL_SWEEP_peak_memory_ratio, row->peak_memory_ratio);
    luo_table_text(table, LUO_COL_SWEEP_error, row->error);
    for (int32_t k = 0; k < table->def->n - LUO_COLUMNS_SWEEP; k++) {
        const char *value =
            luo_sweep_value(scratch, &grid->key[k], luo_sweep_pick(grid, row->cell, k));
        if (!value) return luo_err_nomem(err);
        luo_table_text(table, LUO_COLUMNS_SWEEP + k, value);
    }
    luo_arena_reset(scratch, mark);
    return luo_table_end(table, err);
}

luo_status luo_sweep_write(luo_arena *arena, const char *dir, const luo_sweep_grid *grid,
                           const luo_sweep_rows *rows, luo_err *err)
{
    luo_table table = {0};
    const char *name = luo_arena_printf(arena, "sweep.csv.tmp-%ld", (long)getpid());
    const char *temporary = name ? luo_arena_printf(arena, "%s/%s", dir, name) : NULL;
    const char *final = luo_arena_printf(arena, "%s/sweep.csv", dir);
    const luo_table_def *def = name ? luo_sweep_table(arena, grid, name) : NULL;
    if (!temporary || !final || !def) return luo_err_nomem(err);
    luo_status st = luo_table_open(&table, dir, def, err);
    for (int64_t i = 0; st == LUO_OK && i < rows->n; i++)
        st = luo_sweep_put(arena, &table, grid, &rows->at[i], err);
    const luo_status closed = luo_table_close(&table, st == LUO_OK ? err : NULL);
    if (st == LUO_OK) st = closed;
    if (st == LUO_OK && rename(temporary, final) != 0) st = luo_io_err(err, "write", final);
    if (st != LUO_OK) unlink(temporary);
    return st;
}

/* ---- reading ---- */

static int32_t seed_of(const luo_sweep_grid *grid, const char *text)
{
    int32_t i = 0;
    while (i < grid->nseeds && strcmp(grid->seed[i], text) != 0) i++;
    return i;
}

static double number(const luo_csv_cell *cell, int32_t column)
{
    return cell[column].given ? cell[column].number : NAN;
}

/* False: out of memory. */
static bool take(luo_arena *arena, const luo_sweep_grid *grid, const luo_csv_cell *cell,
                 luo_sweep_row *out)
{
    *out = (luo_sweep_row){
        .cell = cell[LUO_COL_SWEEP_cell].whole,
        .seed = seed_of(grid, cell[LUO_COL_SWEEP_seed].text),
        .policies = (int32_t)cell[LUO_COL_SWEEP_policies].whole,
        .policy = luo_arena_strdup(arena, cell[LUO_COL_SWEEP_policy].text),
        .error = luo_arena_strdup(arena, cell[LUO_COL_SWEEP_error].text),
        .state = luo_run_state_find(cell[LUO_COL_SWEEP_state].text),
        .steps = cell[LUO_COL_SWEEP_steps].given ? cell[LUO_COL_SWEEP_steps].whole : -1,
        .total_s = number(cell, LUO_COL_SWEEP_total_s),
        .step_mean_s = number(cell, LUO_COL_SWEEP_step_mean_s),
        .low_s = number(cell, LUO_COL_SWEEP_low_s),
        .high_s = number(cell, LUO_COL_SWEEP_high_s),
        .goodput_tokens_per_s = number(cell, LUO_COL_SWEEP_goodput_tokens_per_s),
        .mfu_ratio = number(cell, LUO_COL_SWEEP_mfu_ratio),
        .lost_s = number(cell, LUO_COL_SWEEP_lost_s),
        .peak_memory_ratio = number(cell, LUO_COL_SWEEP_peak_memory_ratio)};
    return out->policy && out->error;
}

static bool is_sound(const luo_sweep_grid *grid, const luo_sweep_row *row)
{
    return row->cell >= 0 && row->seed < grid->nseeds && row->policies > 0 &&
           row->state != LUO_RUN_STATES;
}

/* Of the rows from `from` on, which are of one unit, those of one that is whole and new stay. */
static luo_status settle(luo_sweep_rows *rows, int64_t from, const luo_sweep_grid *grid,
                         luo_err *err)
{
    if (from == rows->n) return LUO_OK;
    const bool whole = rows->n - from == rows->at[from].policies;
    int64_t *first =
        whole ? luo_map_at(&rows->first, (uint64_t)unit_of(grid, &rows->at[from]), -1) : NULL;
    if (whole && !first) return luo_err_nomem(err);
    if (whole && *first < 0)
        *first = from;
    else
        rows->n = from;
    return LUO_OK;
}

luo_status luo_sweep_read(luo_arena *arena, const char *dir, const char *file,
                          const luo_sweep_grid *grid, luo_sweep_rows *rows, luo_diags *diags)
{
    luo_csv_cell cell[LUO_CSV_COLUMNS];
    luo_csv *csv = luo_result_file(arena, dir, file, LUO_TABLE_SWEEP, diags);
    luo_status st = LUO_OK;
    luo_err err = {0};
    int64_t from = rows->n;
    if (csv) luo_csv_forgive(csv);
    while (st == LUO_OK && csv && luo_csv_next(csv, cell)) {
        luo_sweep_row row;
        if (!take(arena, grid, cell, &row) || !LUO_VEC_ROOM(rows->at, rows->n, rows->cap)) {
            st = luo_err_nomem(&err);
            break;
        }
        if (!is_sound(grid, &row)) continue;
        if (rows->n > from && unit_of(grid, &row) != unit_of(grid, &rows->at[from])) {
            st = settle(rows, from, grid, &err);
            from = rows->n;
        }
        rows->at[rows->n++] = row;
    }
    if (st == LUO_OK) st = settle(rows, from, grid, &err);
    if (st != LUO_OK) luo_diags_err(diags, &err);
    const luo_status read = luo_csv_close(csv);
    return st == LUO_OK ? read : st;
}

static int by_unit(const void *a, const void *b)
{
    const luo_sweep_row *x = a, *y = b;
    if (x->cell != y->cell) return x->cell < y->cell ? -1 : 1;
    if (x->seed != y->seed) return x->seed < y->seed ? -1 : 1;
    return (x->order > y->order) - (x->order < y->order);
}

void luo_sweep_sort(luo_sweep_rows *rows)
{
    for (int64_t i = 0; i < rows->n; i++) rows->at[i].order = i;
    luo_map_clear(&rows->first);
    if (rows->n > 0) qsort(rows->at, (size_t)rows->n, sizeof *rows->at, by_unit);
}

void luo_sweep_rows_free(luo_sweep_rows *rows)
{
    free(rows->at);
    luo_map_free(&rows->first);
    *rows = (luo_sweep_rows){0};
}
