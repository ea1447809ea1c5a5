/* repeats.h: rows that repeat, written once (docs/results.md#rows-that-repeat).
 *
 * The first LUO_REPEATS_WHOLE rows of steps.csv and timeline.csv are a step each, and plans on up
 * to LUO_REPEATS_DEVICES devices have a row of memory.csv a device. Behind that, steps that follow
 * each other and differ in nothing but when they are share a row, and so do devices of a stage that
 * need the same. Here is the one writer and the one reader of such rows:
 *
 *   luo_repeats *rows = luo_repeats_open(arena, dir, LUO_TABLE_STEPS, diags);
 *   while (luo_repeats_next(rows, cells)) ... one step, whatever stands in the file ...
 *   st = luo_repeats_close(rows); */
#ifndef LUO_CORE_IO_RESULT_REPEATS_H
#define LUO_CORE_IO_RESULT_REPEATS_H
#include "core/io/result/columns.h"
#include "core/io/result/csv.h"
#include "core/io/result/table.h"
#include "core/run/rows.h"

enum {
    LUO_REPEATS_WHOLE = 10000,
    LUO_REPEATS_MOST = 1000, /* steps of a row: a run that is killed loses no more */
    LUO_REPEATS_DEVICES = 256
};

/* ---- writing ---- */

typedef struct luo_step_repeats { /* of steps.csv; all zero: none */
    luo_row_step first;
    double end_s, wall_s; /* of the last step; of all */
    int64_t n;            /* 0: nothing waits */
} luo_step_repeats;

typedef struct luo_span_repeats { /* of timeline.csv; all zero: none */
    luo_row_timeline first;
    double end_s;
    int64_t n;
} luo_span_repeats;

/* True if the row repeats what waits; then it is taken in. False: what waits is to be written
 * first. Steps follow each other without a gap and differ in nothing but their number and time, to
 * the last digit that is written; those with a loss, and spans that an event caused, repeat
 * nothing. */
bool luo_repeats_take_step(luo_step_repeats *held, const luo_row_step *row, double wall_s);
bool luo_repeats_take_span(luo_span_repeats *held, const luo_row_timeline *row);

/* A row of memory.csv for devices of one stage that need the same. */
typedef struct luo_memory_repeats {
    const luo_row_memory *first;
    const int32_t *device; /* by pipeline, then ascending */
    int32_t n, pipelines;  /* pipelines: first->pipeline and those behind it, n / pipelines each */
} luo_memory_repeats;

/* What becomes of the rows of one plan: every device is in exactly one, and those are by their
 * first device. Plans on up to LUO_REPEATS_DEVICES have a row a device. type: of the GPU of
 * rows[i]. Errors: LUO_ENOMEM. Owner: arena. Cost: O(n log n). */
luo_status luo_repeats_of_memory(luo_arena *arena, const luo_row_memory *rows, int32_t n,
                                 const int32_t *type, luo_memory_repeats **out, int32_t *nout,
                                 luo_err *err);

/* ---- reading ---- */

typedef struct luo_repeats luo_repeats;

/* Opens DIR/FILE of a table; id: STEPS, TIMELINE or MEMORY, which come one step or device at a
 * time. NULL: out of memory. Owner: arena; luo_repeats_close in any case. */
luo_repeats *luo_repeats_open(luo_arena *arena, const char *dir, luo_table_id id, luo_diags *diags);
/* The next step or device; cells as luo_csv_next has them, with the number, the times, the pipeline
 * of this one (their `text` stays that of the row). Of devices that share a row only the first has
 * `node`. Steps that share a row follow each other in equal time. False: there is none. */
bool luo_repeats_next(luo_repeats *repeats, luo_csv_cell *cells);
/* For luo_csv_error and luo_csv_has. */
luo_csv *luo_repeats_csv(luo_repeats *repeats);
/* Status of the first error. NULL is LUO_ENOMEM. */
luo_status luo_repeats_close(luo_repeats *repeats);
#endif
