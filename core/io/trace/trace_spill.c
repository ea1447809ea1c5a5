#include "core/io/trace/trace_spill.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/str.h"
#include "core/io/files.h"

enum { BLOCK = 1024 }; /* events read at once */

struct luo_trace_source {
    int fd;
    int64_t at, end; /* in the file: the next block, the end of the piece */
    luo_titem *block;
    int64_t i, n; /* in the block */
};

static int by_time(const void *a, const void *b)
{
    const luo_titem *x = a, *y = b;
    if (x->ts != y->ts) return x->ts < y->ts ? -1 : 1;
    if (x->dur != y->dur) return x->dur > y->dur ? -1 : 1;
    return x->seq < y->seq ? -1 : x->seq > y->seq;
}

void luo_trace_mark(luo_trace *trace, const luo_titem *titem)
{
    if (titem->pid == LUO_TRACE_RUN) {
        trace->used_run[0] = trace->used_run[titem->tid] = true;
        return;
    }
    trace->used_node[titem->pid - 1] = true;
    if (titem->tid > 0) trace->used[titem->tid - 1] = true;
}

/* ---- to the file ---- */

/* It has no name, so that nothing is left of it whatever happens. */
static luo_status open_file(luo_trace *trace, luo_err *err)
{
    char *path;
    if (trace->spill_fd >= 0) return LUO_OK;
    if (asprintf(&path, "%s/trace-XXXXXX", trace->spill_dir) < 0) return luo_err_nomem(err);
    trace->spill_fd = mkostemp(path, O_CLOEXEC);
    const luo_status st =
        trace->spill_fd < 0 || unlink(path) != 0 ? luo_io_err(err, "write", path) : LUO_OK;
    free(path);
    return st;
}

static luo_status put(luo_trace *trace, int64_t n, luo_err *err)
{
    return luo_file_put(trace->spill_fd, trace->at, (size_t)n * sizeof *trace->at)
               ? LUO_OK
               : luo_io_err(err, "write the trace in", trace->spill_dir);
}

luo_status luo_trace_spill(luo_trace *trace, luo_err *err)
{
    const int64_t n = trace->n - trace->spilled;
    if (!trace->spill_dir || n < trace->hold) return LUO_OK;
    LUO_TRY(open_file(trace, err));
    int64_t *ends = realloc(trace->piece_end, ((size_t)trace->npieces + 1) * sizeof *ends);
    if (!ends) return luo_err_nomem(err);
    trace->piece_end = ends;
    qsort(trace->at, (size_t)n, sizeof *trace->at, by_time);
    for (int64_t i = 0; i < n; i++) luo_trace_mark(trace, &trace->at[i]);
    LUO_TRY(put(trace, n, err));
    trace->spilled = trace->piece_end[trace->npieces++] = trace->n;
    return LUO_OK;
}

/* ---- and back ---- */

bool luo_trace_reader_open(luo_trace_reader *reader, luo_trace *trace)
{
    const int64_t held = trace->n - trace->spilled;
    *reader = (luo_trace_reader){.n = trace->npieces + 1};
    reader->source = calloc((size_t)reader->n, sizeof *reader->source);
    bool ok = reader->source != NULL;
    for (int32_t i = 0; ok && i < trace->npieces; i++) {
        luo_trace_source *source = &reader->source[i];
        *source = (luo_trace_source){.fd = trace->spill_fd,
                                     .at = i ? trace->piece_end[i - 1] : 0,
                                     .end = trace->piece_end[i],
                                     .block = malloc(BLOCK * sizeof *source->block)};
        ok = source->block != NULL;
    }
    if (!ok) return false;
    if (held > 0) qsort(trace->at, (size_t)held, sizeof *trace->at, by_time);
    for (int64_t i = 0; i < held; i++) luo_trace_mark(trace, &trace->at[i]);
    reader->source[trace->npieces] = (luo_trace_source){.fd = -1, .block = trace->at, .n = held};
    return true;
}

static bool fill(luo_trace_source *source)
{
    source->i = 0;
    source->n = source->end - source->at < BLOCK ? source->end - source->at : BLOCK;
    char *to = (char *)source->block;
    off_t from = (off_t)(source->at * (int64_t)sizeof *source->block);
    for (size_t left = (size_t)source->n * sizeof *source->block; left > 0;) {
        const ssize_t k = pread(source->fd, to, left, from);
        if (k < 0 && errno == EINTR) continue;
        if (k <= 0) return false;
        to += k;
        from += k;
        left -= (size_t)k;
    }
    source->at += source->n;
    return true;
}

static const luo_titem *first_of(luo_trace_reader *reader, luo_trace_source *source)
{
    if (source->i == source->n && source->at < source->end && !fill(source)) reader->failed = true;
    return source->i < source->n && !reader->failed ? &source->block[source->i] : NULL;
}

const luo_titem *luo_trace_reader_next(luo_trace_reader *reader)
{
    luo_trace_source *best = NULL;
    const luo_titem *found = NULL;
    for (int32_t i = 0; i < reader->n; i++) {
        const luo_titem *titem = first_of(reader, &reader->source[i]);
        if (!titem || (found && by_time(found, titem) < 0)) continue;
        found = titem;
        best = &reader->source[i];
    }
    if (best) best->i++;
    return reader->failed ? NULL : found;
}

void luo_trace_reader_close(luo_trace_reader *reader)
{
    for (int32_t i = 0; reader->source && i + 1 < reader->n; i++) free(reader->source[i].block);
    free(reader->source);
    *reader = (luo_trace_reader){0};
}
