/* columns.h: every column of every result table, in order, with its format and meaning.
 *
 * The one list behind the writer, `luoshu check`, the column help of the report and the test of
 * acceptance A6 (docs/architecture/tests.md). A value that does not exist is an empty cell; `help`
 * says when. */
#ifndef LUO_CORE_IO_RESULT_COLUMNS_H
#define LUO_CORE_IO_RESULT_COLUMNS_H
#include <stdint.h>

typedef enum luo_cell_kind {
    LUO_CELL_INT,     /* %lld */
    LUO_CELL_SECONDS, /* %.9f */
    LUO_CELL_RATIO,   /* %.6f: ratios, factors, slowdowns */
    LUO_CELL_RATE,    /* %.3f */
    LUO_CELL_NUMBER,  /* %.12g: no unit (loss, gradient norm) */
    LUO_CELL_TEXT
} luo_cell_kind;

typedef struct luo_column {
    const char *name;
    luo_cell_kind kind;
    const char *help;
} luo_column;

typedef struct luo_table_def {
    const char *file; /* "steps.csv" */
    const char *help;
    int32_t n;
    const luo_column *columns;
} luo_table_def;

typedef enum luo_table_id {
    LUO_TABLE_STEPS,
    LUO_TABLE_TIMELINE,
    LUO_TABLE_EVENTS,
    LUO_TABLE_OPS,
    LUO_TABLE_MEMORY,
    LUO_TABLE_COMM,
    LUO_TABLE_LINKS,
    LUO_TABLE_DEVICES,
    LUO_TABLE_SWITCHES,
    LUO_TABLE_TRUTH, /* the last of a run directory */
    LUO_TABLE_COMPARE,
    LUO_TABLE_COMPARE_STEPS,
    LUO_TABLE_COMPARE_OPS,
    LUO_TABLE_SEEDS, /* this one and the next: of a comparison */
    LUO_TABLE_PAIRS,
    LUO_TABLE_PLOT_TIMELOST, /* from here on: plots/ beside the figures */
    LUO_TABLE_PLOT_THROUGHPUT,
    LUO_TABLE_PLOT_STEPCDF,
    LUO_TABLE_PLOT_LOST,
    LUO_TABLE_PLOT_MARKS,
    LUO_TABLE_PLOT_BREAKDOWN,
    LUO_TABLE_PLOT_GANTT,
    LUO_TABLE_PLOT_SLOWDOWN,
    LUO_TABLE_PLOT_BUSIEST,
    LUO_TABLE_PLOT_PREDICTED, /* this one and the next: of a comparison */
    LUO_TABLE_PLOT_BANDS,
    LUO_TABLE_VALIDATE, /* of `validate` */
    LUO_TABLES
} luo_table_id;
enum { LUO_RUN_TABLES = LUO_TABLE_TRUTH + 1 };

/* Pre: 0 <= id < LUO_TABLES. */
const luo_table_def *luo_table_def_at(luo_table_id id);
/* By file name ("steps.csv"); NULL if there is none. */
const luo_table_def *luo_table_def_find(const char *file);
/* Index of a column by name; -1: none. */
int32_t luo_table_column(const luo_table_def *def, const char *name);
#endif
