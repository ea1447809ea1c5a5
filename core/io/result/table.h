/* table.h: a CSV file that grows row by row (docs/results.md#a-result-set).
 *
 * The header is written first; rows leave the buffer whole, at the latest at the next flush. What
 * stands on disk after a kill parses, always: the kernel may stop a killed process between two
 * pages of a write, so no write goes over the end of a page but that of a single row, and such a
 * row is a comment until it is complete. */
#ifndef LUO_CORE_IO_RESULT_TABLE_H
#define LUO_CORE_IO_RESULT_TABLE_H
#include <stdbool.h>

#include "core/base/str.h"
#include "core/io/result/columns.h"

typedef struct luo_table { /* fields are private */
    const luo_table_def *def;
    char *path;
    int fd, why;           /* why: errno of the failure */
    int32_t column;        /* next cell of the row under way */
    int32_t wrong, wanted; /* 1 + the first column that was given out of turn, and whose turn it
                            * was; 0: none */
    int64_t rows, on_disk; /* complete rows: all, written */
    int64_t bytes;         /* written to the file */
    size_t row_at;         /* where the row under way begins in buf */
    luo_str buf;
    luo_status failed; /* first error of the file; later calls return it again */
} luo_table;

/* Creates DIR/FILE, truncating, and writes the header. Errors: LUO_EIO; LUO_ENOMEM. */
luo_status luo_table_open(luo_table *table, const char *dir, const luo_table_def *def,
                          luo_err *err);
/* The next cell, printed as its column's kind says. column: LUO_COL_TABLE_name; columns are given
 * in their order, none left out. Numbers that are not finite become empty cells, texts are written
 * by luo_table_put_text. */
void luo_table_int(luo_table *table, int32_t column, int64_t v);
void luo_table_num(luo_table *table, int32_t column, double v);
void luo_table_text(luo_table *table, int32_t column, const char *text);
void luo_table_none(luo_table *table, int32_t column);
/* The one way in which a text becomes a cell: quoted if needed, a line end a blank, other control
 * characters as luo_utf8_show has them, and `'` before what a spreadsheet would compute (csv.h),
 * which readers take away. */
void luo_table_put_text(luo_str *out, const char *text);
/* Integer cell, empty when v is negative. */
void luo_table_int_opt(luo_table *table, int32_t column, int64_t v);
/* The cells from `column` to before `end` as they stand in a row written before: text[0..n), commas
 * between them. */
void luo_table_again(luo_table *table, int32_t column, int32_t end, const char *text, size_t n);
/* Ends the row. Errors: LUO_EBUG a column was given out of turn, or the last ones not; LUO_EIO;
 * LUO_ENOMEM. */
luo_status luo_table_end(luo_table *table, luo_err *err);
/* Writes every complete row; nothing for a table that is all zero. Errors: LUO_EIO `cannot write
 * demo/static/steps.csv: no space left on device; its 412 complete rows stay readable.` (the file
 * is cut back to whole rows). */
luo_status luo_table_flush(luo_table *table, luo_err *err);
/* Flushes and closes; safe on a table that was never opened or is all zero. */
luo_status luo_table_close(luo_table *table, luo_err *err);

/* v with `decimals` (0..9) digits after the point, without the detour over printf; as "%.*f" but
 * that exact ties may round the other way. Pre: v is finite. Never prints "-0". */
void luo_table_print_fixed(luo_str *text, double v, int decimals);
#endif
