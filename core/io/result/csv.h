/* csv.h: strict tables with libcsv (docs/formats.md#rules-for-all-files): one physical line at a
 * time, so that line numbers are exact; memory constant in the number of rows.
 *
 *   luo_csv *t = luo_csv_open(src, columns, n, diags);
 *   while (luo_csv_next(t, cells)) ... cells[i] belongs to columns[i] ...
 *   st = luo_csv_close(t);
 * Rows with an error are reported and left out. Memory from malloc. */
#ifndef LUO_CORE_IO_RESULT_CSV_H
#define LUO_CORE_IO_RESULT_CSV_H
#include <math.h>

#include "core/io/io.h"
#include "core/io/say.h"

typedef enum luo_csv_type {
    LUO_CSV_WHOLE,
    LUO_CSV_NUMBER,
    LUO_CSV_TEXT,
    LUO_CSV_WORD
} luo_csv_type;

typedef struct luo_csv_column {
    const char *name;
    luo_csv_type type;
    bool required; /* the column must exist and its cells are not empty */
    luo_limit limit;
    const char *const *words; /* LUO_CSV_WORD: ended by NULL */
    bool inf;                 /* the word `inf` is a number here (rates.csv) */
    const char *says;         /* its meaning in docs/formats.md; NULL: a table of somebody else's */
} luo_csv_column;

typedef struct luo_csv_cell {
    bool given;
    const char *text; /* until the next row; "" when not given */
    int64_t whole;    /* WHOLE: value; WORD: index */
    double number;    /* WHOLE and NUMBER */
} luo_csv_cell;

enum { LUO_CSV_COLUMNS = 64 };
typedef struct luo_csv luo_csv;

/* Would a spreadsheet take the text for a formula (= + - @ first, `-` not alone), or is it one
 * behind `'`? Such a text is written with one more `'` before it, which is taken away when it is
 * read. */
bool luo_csv_is_formula(const char *text);

/* NULL: out of memory (reported). src must outlive the table. */
luo_csv *luo_csv_open(const luo_source *src, const luo_csv_column *columns, int n,
                      luo_diags *diags);
/* The same from a file of any length, line by line. A missing file is reported, then there are no
 * rows. */
luo_csv *luo_csv_open_path(const char *path, const luo_csv_column *columns, int n,
                           luo_diags *diags);
/* A table of somebody else's: its columns that we do not know are left alone. */
luo_csv *luo_csv_open_foreign(const char *path, const luo_csv_column *columns, int n,
                              luo_diags *diags);
/* A table of somebody else's without a header line: all its cells are texts, `delimiter` between
 * them. A missing file is reported, then there are no rows. */
luo_csv *luo_csv_open_plain(const char *path, char delimiter, luo_diags *diags);
/* How many cells its next line has, 0: there is none. cells: of LUO_CSV_COLUMNS the first ones,
 * until the next line; luo_csv_error takes their numbers for columns. */
int luo_csv_next_plain(luo_csv *csv, const char **cells);
/* The i-th column of a foreign table that is none of ours, until the table is closed; NULL: there
 * is none. */
const char *luo_csv_unused(const luo_csv *csv, int i);
/* The next good row. False: there is none. */
bool luo_csv_next(luo_csv *csv, luo_csv_cell *cells);
/* From here on a row with an error is told as a warning: the table is good without it. */
void luo_csv_forgive(luo_csv *csv);
int luo_csv_line(const luo_csv *csv);
/* True if the header has column i. */
bool luo_csv_has(const luo_csv *csv, int column);
/* An error of the present row at a column. */
luo_status luo_csv_error(luo_csv *csv, int column, const char *fmt, ...) LUO_PRINTF(3, 4);
/* Status of the first error. NULL is LUO_ENOMEM. */
luo_status luo_csv_close(luo_csv *csv);
#endif
