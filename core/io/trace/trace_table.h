/* trace_table.h: a trace made again of the tables of a run, by the writer that the run has. */
#ifndef LUO_CORE_IO_TRACE_TRACE_TABLE_H
#define LUO_CORE_IO_TRACE_TRACE_TABLE_H
#include "core/io/io.h"
#include "core/io/trace/trace.h"

typedef struct luo_trace_run {
    luo_trace *trace; /* luo_trace_free gives it back */
    luo_trace_head head;
} luo_trace_run;

/* path: a run directory, or an ops.csv, whose folder may have no other table. What lies beside it
 * is used: devices.csv names nodes and types, steps.csv says when steps end, timeline.csv and
 * events.csv fill the track of the run. A table does not have the memory of tasks, loads of NICs
 * and, where both ends of a message send, who gets what; so neither does the trace.
 * Errors: LUO_EINPUT, LUO_EPARSE in diags, with line and field; LUO_ENOMEM. Owner: arena, but for
 * the trace, which the arena must outlive. Cost: O(n log n) in rows; a step is in memory at a time.
 * See: tests/golden/export_perfetto.sh */
luo_status luo_trace_read(luo_arena *arena, const char *path, luo_trace_run *out, luo_diags *diags);
#endif
