/* trace_spill.h: events of a long run wait in a file, sorted by piece, and come back in the
 * order of the trace; not for others. */
#ifndef LUO_CORE_IO_TRACE_TRACE_SPILL_H
#define LUO_CORE_IO_TRACE_TRACE_SPILL_H
#include "core/io/trace/trace_internal.h"

/* Between two rows or steps: puts what is held into the file if it is much, and there is a folder
 * for it. Errors: LUO_EIO; LUO_ENOMEM. */
luo_status luo_trace_spill(luo_trace *trace, luo_err *err);

typedef struct luo_trace_source luo_trace_source;
typedef struct luo_trace_reader {
    luo_trace_source *source; /* sorted pieces: those of the file, then what is held */
    int32_t n;
    bool failed; /* the file cannot be read */
} luo_trace_reader;
/* Sorts what is held. False: out of memory. */
bool luo_trace_reader_open(luo_trace_reader *reader, luo_trace *trace);
/* The next event by time, longer before shorter, then as they came; NULL: no more. It stays until
 * the next call. */
const luo_titem *luo_trace_reader_next(luo_trace_reader *reader);
void luo_trace_reader_close(luo_trace_reader *reader);

/* Tracks of an event: of the run, or of a node and a device. */
void luo_trace_mark(luo_trace *trace, const luo_titem *titem);
#endif
