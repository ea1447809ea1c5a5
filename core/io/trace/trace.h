/* trace.h: trace.json.gz, the Chrome trace format that Perfetto opens (docs/results.md#the-trace).
 *
 * Notation: ts, dur = nanoseconds of run time as integers; printed as microseconds with three
 * decimals. pid = node index + 1, tid = 8 * device + stream + 1; pid LUO_TRACE_RUN is the run.
 * Everything is kept until the end, because the file is sorted by time and names only those tracks
 * that carry something; memory is bounded by the limit (about 90 bytes an event). */
#ifndef LUO_CORE_IO_TRACE_TRACE_H
#define LUO_CORE_IO_TRACE_TRACE_H
#include "core/run/rows.h"

enum { LUO_TRACE_RUN = 1000000, LUO_TRACE_LIMIT = 2000000 };
enum { LUO_TRACE_STEPS = 1, LUO_TRACE_PHASES = 2, LUO_TRACE_EVENTS = 3 }; /* tids of the run */

typedef struct luo_trace luo_trace;

/* limit: most events in the file (0: LUO_TRACE_LIMIT); one in ten is kept free for the tracks of
 * the run. NULL: out of memory. cluster must outlive it. */
luo_trace *luo_trace_new(const luo_cluster *cluster, int64_t limit);
void luo_trace_free(luo_trace *trace); /* NULL is fine */
/* From now on no more than `hold` events (0: 65,536) and one step are held in memory; the others
 * wait in a file without a name in that folder. Errors: LUO_ENOMEM. */
luo_status luo_trace_spill_to(luo_trace *trace, const char *dir, int64_t hold, luo_err *err);

/* One traced step: slices of every record, waits, flows of messages, memory and NIC counters.
 * Steps come in order of time. A step that does not fit is left out whole, and with it all later
 * ones; the very first is held for as many devices as fit. Errors: LUO_ENOMEM. */
luo_status luo_trace_step(luo_trace *trace, int64_t step, int32_t attempt, double start_s,
                          const luo_programs *set, const luo_step_result *result, luo_err *err);
/* A row of timeline.csv: steps on track 1, up to half of the limit, other blocking rows on 2, the
 * rest on 3. */
luo_status luo_trace_span(luo_trace *trace, const luo_row_timeline *row, luo_err *err);
/* A row of events.csv: an instant on the run track and on the devices it hits, and the slowdown
 * counters of stragglers. */
luo_status luo_trace_event(luo_trace *trace, const luo_row_event *row, luo_err *err);
/* Events held so far. */
int64_t luo_trace_events(const luo_trace *trace);
/* Appends the warning that something found no room; false: everything did. */
bool luo_trace_warning(const luo_trace *trace, luo_str *out);

typedef struct luo_trace_head { /* otherData */
    const char *scenario, *policy, *backend, *version;
    uint64_t seed, scenario_hash;
    int32_t nplans;
    const uint64_t *plans, *programs; /* hashes */
} luo_trace_head;
/* Writes DIR/NAME (temporary file, rename). Errors: LUO_EIO; LUO_ENOMEM.
 * Cost: 2,000,000 events in under 5 s. */
luo_status luo_trace_write(luo_trace *trace, const char *dir, const char *name,
                           const luo_trace_head *head, luo_err *err);
/* Appends the same bytes to out. Errors: LUO_EIO; LUO_ENOMEM. */
luo_status luo_trace_print(luo_trace *trace, const luo_trace_head *head, luo_str *out,
                           luo_err *err);
#endif
