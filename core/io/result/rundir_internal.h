/* rundir_internal.h: what the files that make up rundir share; not for others. */
#ifndef LUO_CORE_IO_RESULT_RUNDIR_INTERNAL_H
#define LUO_CORE_IO_RESULT_RUNDIR_INTERNAL_H
#include "core/io/result/repeats.h"
#include "core/io/result/rundir.h"
#include "core/io/result/table.h"
#include "core/io/trace/trace.h"

enum { LUO_OPS_LIMIT = 2000000 };

typedef struct luo_rundir_plan {
    uint64_t hash, program_hash;
} luo_rundir_plan;

typedef struct luo_rundir_input {
    int64_t bytes;
    uint64_t hash;
    bool copied; /* not above 64 MiB */
} luo_rundir_input;

/* Steps whose operations are in ops.csv, as ranges. */
typedef struct luo_traced {
    luo_range *at;
    int32_t n, cap;
    int64_t ops;
    bool full;                     /* a step was left out */
    int32_t part_devices, part_of; /* the only step is held for so many devices; 0: whole */
    bool sampled;     /* large steps: some devices */
    bool *hit;        /* per device of the cluster: an event hit it of late */
    int64_t hit_step; /* into which the last event fell; -1: none has */
} luo_traced;

typedef struct luo_op_text { /* cells of an instruction on a device, where they stand in `text` */
    uint32_t at, head, tail; /* before and behind the micro-batch; head 0: not there yet */
} luo_op_text;
typedef struct luo_op_texts { /* of one program set */
    uint64_t hash;
    int32_t n;      /* programs; 0: none */
    int64_t *first; /* per program: of its instructions in `of` */
    luo_op_text *of;
    luo_str text;
} luo_op_texts;

struct luo_rundir {
    luo_rundir_opts opts;
    luo_sink sink;
    char *dir;
    luo_table table[LUO_RUN_TABLES];
    int log_fd;
    bool log_failed;
    char *why; /* the last error in the log */
    double wall_open, wall_last;
    int64_t timeline_seq, event_seq, switch_seq, steps;
    luo_step_repeats held_steps; /* rows that wait for their equals */
    luo_span_repeats held_spans;
    luo_row_memory *need; /* of a plan's devices, until its last row has come */
    int32_t nneed, cap_need;
    luo_rundir_input *inputs;
    luo_rundir_plan *plans;
    int32_t nplans, cap_plans;
    luo_traced traced;
    luo_op_texts op_texts;
    luo_trace *trace;
    luo_arena *scratch;
};

/* ops.c */
luo_status luo_rundir_ops(void *ctx, int64_t step, int32_t attempt, double start_s, int32_t plan,
                          const luo_programs *set, const luo_step_result *result, luo_err *err);
void luo_op_texts_free(luo_op_texts *texts);
/* ops_sample.c: records of some devices, into memory of their own, in their order: of those that an
 * event has just hit, and of the first of each stage of pipelines that differ (in what they run or
 * in types of devices), as far as `room` records go; of one device at least. NULL: out of memory.
 * Pre: records are by device. Cost: O(records + devices * pipelines that differ). */
luo_op_record *luo_ops_sample(const luo_rundir *dir, const luo_programs *set,
                              const luo_step_result *result, int64_t room, int32_t *n);
/* The warning of docs/results.md#exit-codes-and-messages for traced steps; false: nothing was left
 * out. */
bool luo_traced_warning(const luo_traced *traced, int64_t steps, int64_t limit, luo_str *out);
/* totals.c */
luo_status luo_rundir_links(void *ctx, const luo_link_use *use, int32_t n, double total_s,
                            luo_err *err);
luo_status luo_rundir_link_windows(void *ctx, const luo_link_windows *windows,
                                   const luo_link_use *use, double total_s, luo_err *err);
luo_status luo_rundir_comm(void *ctx, int32_t plan, const luo_programs *set,
                           const luo_comm_use *use, int32_t n, luo_err *err);
/* put_rows.c: rows of steps, spans and devices, of which those that repeat are one. */
luo_status luo_rundir_step(void *ctx, const luo_row_step *row, luo_err *err);
luo_status luo_rundir_timeline(void *ctx, const luo_row_timeline *row, luo_err *err);
luo_status luo_rundir_memory(void *ctx, const luo_row_memory *row, luo_err *err);
/* Writes the devices of the plan at hand: its last row has come. */
luo_status luo_rundir_memory_ended(luo_rundir *dir, luo_err *err);
/* Writes all that waits. */
luo_status luo_rundir_put_held(luo_rundir *dir, luo_err *err);
/* rundir.c: seconds of the wall clock; 0 where none is given. */
double luo_rundir_wall(const luo_rundir *dir);
/* The columns from tp_s to dp_s, which stand side by side. */
void luo_rundir_put_parts(luo_table *table, int32_t tp_s, const luo_parts *p);
/* summary.c */
luo_status luo_rundir_tell(void *ctx, const char *text, luo_err *err);
luo_status luo_rundir_summary(void *ctx, const luo_run_summary *summary, luo_err *err);
/* manifest.c */
luo_status luo_rundir_config(luo_rundir *rundir, luo_err *err);
luo_status luo_rundir_manifest(const luo_rundir *dir, luo_run_state state, int exit_code,
                               luo_err *err);
#endif
