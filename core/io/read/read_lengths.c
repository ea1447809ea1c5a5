/* read_lengths.c: lengths one by one, lengths in classes, and pools of strategies
 * (docs/formats.md#tables-1). */
#include <string.h>

#include "core/base/vec.h"
#include "core/io/read/input_tables.h"
#include "core/io/read/read.h"

static luo_status no_memory(luo_diags *diags, const luo_source *src)
{
    return luo_diags_add(diags, LUO_ERROR, LUO_ENOMEM, src->name, 0, 0,
                         "this process is out of memory; free some or use less.");
}

/* ---- lengths ---- */

static luo_status read_given(luo_arena *arena, const luo_source *src, luo_lengths *out,
                             luo_diags *diags)
{
    const luo_input_table *table = &luo_input_table_lengths;
    luo_csv *csv = luo_csv_open(src, table->columns, table->n, diags);
    luo_csv_cell cells[LUO_LE_N];
    int64_t *at = NULL, n = 0, cap = 0;
    bool failed = false;
    while (!failed && luo_csv_next(csv, cells)) {
        failed = !LUO_VEC_ROOM_IN(arena, at, n, cap);
        if (!failed) at[n++] = cells[LUO_LE_LENGTH].whole;
    }
    const luo_status st = luo_csv_close(csv);
    if (failed) return no_memory(diags, src);
    if (st != LUO_OK) return st;
    if (n == 0)
        return luo_diags_add(diags, LUO_ERROR, LUO_EINPUT, src->name, 1, 1,
                             "there is no length; one row or more is expected.");
    *out = (luo_lengths){.kind = LUO_LENGTH_FILE, .ngiven = n, .given = at};
    return LUO_OK;
}

static void check_row(luo_csv *csv, const luo_csv_cell *cells, luo_length_row *row)
{
    *row = (luo_length_row){cells[LUO_HI_LOW].whole, cells[LUO_HI_HIGH].whole,
                            (double)cells[LUO_HI_COUNT].whole};
    if (row->low >= row->high)
        luo_csv_error(csv, LUO_HI_HIGH,
                      "`high_tokens` is %lld, not above `low_tokens`; it is the "
                      "first length that is not in the class.",
                      (long long)row->high);
    else if (row->high < 2 && row->count > 0)
        luo_csv_error(
            csv, LUO_HI_HIGH,
            "`high_tokens` is 1, so that all sequences of the class would have 0 tokens; 2 "
            "or more is expected.");
    if (row->low < 1) row->low = 1; /* nobody has a sequence of 0 tokens */
}

static luo_status read_classes(luo_arena *arena, const luo_source *src, luo_lengths *out,
                               luo_diags *diags)
{
    const luo_input_table *table = &luo_input_table_histogram;
    luo_csv *csv = luo_csv_open(src, table->columns, table->n, diags);
    luo_csv_cell cells[LUO_HI_N];
    luo_length_row *rows = NULL;
    int32_t n = 0, cap = 0;
    double sum = 0;
    bool failed = false;
    while (!failed && luo_csv_next(csv, cells)) {
        failed = !LUO_VEC_ROOM_IN(arena, rows, n, cap);
        if (failed) break;
        check_row(csv, cells, &rows[n]);
        sum += rows[n++].count;
    }
    const luo_status st = luo_csv_close(csv);
    if (failed) return no_memory(diags, src);
    if (st != LUO_OK) return st;
    if (sum <= 0)
        return luo_diags_add(diags, LUO_ERROR, LUO_EINPUT, src->name, 1, 1,
                             "no class has a sequence; a count above 0 is expected.");
    *out = (luo_lengths){.kind = LUO_LENGTH_HISTOGRAM, .nrows = n, .rows = rows};
    return LUO_OK;
}

luo_status luo_read_lengths_text(luo_arena *arena, const luo_source *src, luo_lengths *out,
                                 luo_diags *diags)
{
    const luo_input_table *table = luo_input_table_of(src);
    if (table == &luo_input_table_histogram) return read_classes(arena, src, out, diags);
    /* Whatever else it is: the reader says what is missing. */
    return read_given(arena, src, out, diags);
}

luo_status luo_read_lengths(luo_arena *arena, const char *path, luo_lengths *out, luo_diags *diags)
{
    luo_err err;
    luo_source src;
    if (luo_source_read(arena, path, &src, &err) != LUO_OK) return luo_diags_err(diags, &err);
    return luo_read_lengths_text(arena, &src, out, diags);
}

/* ---- pools ---- */

static void check_entry(luo_csv *csv, const luo_pool *pool, const luo_pool_entry *entry)
{
    if (entry->b <= 0)
        luo_csv_error(csv, LUO_PO_B, "`b_ms_per_token` is `0`; a number above 0 is expected.");
    for (int32_t i = 0; i < pool->n; i++)
        if (pool->entry[i].tp == entry->tp && pool->entry[i].pp == entry->pp) {
            luo_csv_error(csv, LUO_PO_TP,
                          "(tp %d, pp %d) is given twice, first at line %d; one row per pair is "
                          "allowed.",
                          entry->tp, entry->pp, pool->entry[i].line);
            return;
        }
}

luo_status luo_read_pool_text(luo_arena *arena, const luo_source *src, luo_pool *out,
                              luo_diags *diags)
{
    const luo_input_table *table = &luo_input_table_pool;
    luo_csv *csv = luo_csv_open(src, table->columns, table->n, diags);
    luo_csv_cell cell[LUO_PO_N];
    luo_pool pool = {0};
    int32_t cap = 0;
    bool failed = false;
    while (!failed && luo_csv_next(csv, cell)) {
        failed = !LUO_VEC_ROOM_IN(arena, pool.entry, pool.n, cap);
        if (failed) break;
        const luo_pool_entry entry = {.tp = (int32_t)cell[LUO_PO_TP].whole,
                                      .cp = 1,
                                      .pp = (int32_t)cell[LUO_PO_PP].whole,
                                      .a = cell[LUO_PO_A].number,
                                      .b = cell[LUO_PO_B].number,
                                      .c = cell[LUO_PO_C].number,
                                      .cap = cell[LUO_PO_CAP].whole,
                                      .util = cell[LUO_PO_UTIL].whole,
                                      .line = luo_csv_line(csv)};
        check_entry(csv, &pool, &entry);
        pool.entry[pool.n++] = entry;
    }
    const luo_status st = luo_csv_close(csv);
    if (failed) return no_memory(diags, src);
    if (st != LUO_OK) return st;
    if (pool.n == 0)
        return luo_diags_add(diags, LUO_ERROR, LUO_EINPUT, src->name, 1, 1,
                             "there is no strategy; one row or more is expected.");
    *out = pool;
    return LUO_OK;
}

luo_status luo_read_pool(luo_arena *arena, const char *path, luo_pool *out, luo_diags *diags)
{
    luo_err err;
    luo_source src;
    if (luo_source_read(arena, path, &src, &err) != LUO_OK) return luo_diags_err(diags, &err);
    return luo_read_pool_text(arena, &src, out, diags);
}
