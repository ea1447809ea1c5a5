/* lengths_tokens.c: documents of the files that host training reads (core/io/tokens.h), with the
 * same ends: exec/data/data_file.c finds them token by token. */
#include "core/io/import/import_internal.h"
#include "core/io/tokens.h"

enum { CHUNK = 1 << 16 };

static luo_status put(import_job *job, const char *path, int64_t tokens)
{
    return import_put(job, tokens, IMPORT_NO_ARRIVAL, path, 0, 0);
}

/* ---- .u16, .u32 ---- */

static luo_status one_list(import_job *job, const char *path, int fd)
{
    const int32_t width = luo_tokens_width(path);
    const uint32_t end = luo_tokens_end(width);
    unsigned char at[CHUNK];
    int64_t length = 0, bytes = 0;
    bool ended = false;
    size_t n;
    do {
        LUO_TRY(import_read(job, path, fd, at, sizeof at, &n));
        bytes += (int64_t)n;
        for (size_t i = 0; i + (size_t)width <= n; i += (size_t)width) {
            ended = luo_tokens_entry(at + i, width) == end;
            if (!ended) {
                length++;
                continue;
            }
            LUO_TRY(put(job, path, length));
            length = 0;
        }
    } while (n == sizeof at);
    LUO_TRY(luo_tokens_check_size(path, bytes, &job->err));
    return ended ? LUO_OK : put(job, path, length); /* an empty file is an empty document */
}

/* ---- texts: a document begins with a line that holds something behind one that holds nothing */

typedef struct text {
    int64_t length;    /* of the document so far */
    bool line_begins;  /* the next byte is the first of a line */
    bool return_waits; /* a carriage return is: an empty line if a line end follows */
    bool above_empty;  /* the line before holds nothing */
} text;

static luo_status begin_line(import_job *job, const char *path, text *t)
{
    t->line_begins = false;
    if (!t->above_empty) return LUO_OK;
    t->above_empty = false;
    LUO_TRY(put(job, path, t->length));
    t->length = 0;
    return LUO_OK;
}

static luo_status take_byte(import_job *job, const char *path, text *t, unsigned char c)
{
    if (t->return_waits && c != '\n') {
        LUO_TRY(begin_line(job, path, t));
        t->return_waits = false;
        t->length++;
    }
    if (c == '\n') {
        t->length += 1 + t->return_waits;
        t->above_empty = t->line_begins;
        t->line_begins = true;
        t->return_waits = false;
        return LUO_OK;
    }
    if (t->line_begins && c == '\r') {
        t->return_waits = true;
        return LUO_OK;
    }
    if (t->line_begins) LUO_TRY(begin_line(job, path, t));
    t->length++;
    return LUO_OK;
}

static luo_status one_text(import_job *job, const char *path, int fd)
{
    unsigned char at[CHUNK];
    text t = {.line_begins = true};
    size_t n;
    do {
        LUO_TRY(import_read(job, path, fd, at, sizeof at, &n));
        for (size_t i = 0; i < n; i++) LUO_TRY(take_byte(job, path, &t, at[i]));
    } while (n == sizeof at);
    if (t.return_waits) {
        LUO_TRY(begin_line(job, path, &t));
        t.length++;
    }
    return put(job, path, t.length);
}

static luo_status one_file(import_job *job, const char *path, int fd)
{
    LUO_TRY(luo_tokens_check_name(path, &job->err));
    return luo_tokens_width(path) == 1 ? one_text(job, path, fd) : one_list(job, path, fd);
}

luo_status import_tokens(import_job *job)
{
    return import_each_file(job, one_file);
}
