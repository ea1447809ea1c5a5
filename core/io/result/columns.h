/* columns.h: every column of every result table, in order, with its format and meaning, made of
 * the list in columns.inc. Behind the writers, the readers, `luoshu check` and the test of
 * acceptance A6 (docs/architecture/tests.md). */
#ifndef LUO_CORE_IO_RESULT_COLUMNS_H
#define LUO_CORE_IO_RESULT_COLUMNS_H
#include <stdint.h>

#include "core/base/str.h"

typedef enum luo_cell_kind {
    LUO_CELL_INT,     /* %lld */
    LUO_CELL_SECONDS, /* %.9f */
    LUO_CELL_RATIO,   /* %.6f: ratios, factors, slowdowns */
    LUO_CELL_RATE,    /* %.3f */
    LUO_CELL_NUMBER,  /* %.12g: no unit (loss, gradient norm) */
    LUO_CELL_TEXT
} luo_cell_kind;

typedef enum luo_cell_empty { LUO_CELL_FILLED, LUO_CELL_NULLABLE } luo_cell_empty;

typedef struct luo_column {
    const char *name;
    luo_cell_kind kind;
    luo_cell_empty empty;
    const char *help;
} luo_column;

typedef struct luo_table_def {
    const char *file; /* "steps.csv" */
    const char *help;
    int32_t n;
    const luo_column *columns;
} luo_table_def;

/* Tables of a run directory come first, then those of a comparison, of plots/ beside the figures,
 * of `validate` and `calibrate`. */
typedef enum luo_table_id {
#define LUO_TABLE(id, file, help) LUO_TABLE_##id,
#define LUO_COLUMN(id, name, kind, empty, help)
#define LUO_TABLE_END(id)
#include "core/io/result/columns.inc"
    LUO_TABLES
} luo_table_id;
enum { LUO_RUN_TABLES = LUO_TABLE_GROUPS + 1 };

/* LUO_COL_STEPS_t_start_s: index of column t_start_s in steps.csv; LUO_COLUMNS_STEPS: how many
 * there are. Writers and readers name columns by these alone, so a misspelt one does not compile.
 */
enum luo_column_id {
#define LUO_TABLE(id, file, help) LUO_COL_##id##_BEFORE = -1,
#define LUO_COLUMN(id, name, kind, empty, help) LUO_COL_##id##_##name,
#define LUO_TABLE_END(id) LUO_COLUMNS_##id,
#include "core/io/result/columns.inc"
};

/* Pre: 0 <= id < LUO_TABLES. */
const luo_table_def *luo_table_def_at(luo_table_id id);
/* By file name ("steps.csv"); NULL if there is none. */
const luo_table_def *luo_table_def_find(const char *file);
/* Appends the first line of the file. */
void luo_table_def_header(luo_str *text, const luo_table_def *def);
/* Index of a column by name; -1: none. */
int32_t luo_table_def_column(const luo_table_def *def, const char *name);
#endif
