#include "core/io/result/table.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/io/files.h"

enum { PAGE = 4096, FULL = 1 << 16 };

static luo_status failure(luo_table *t, luo_err *err)
{
    char why[128];
    if (t->failed == LUO_ENOMEM) return luo_err_nomem(err);
    if (t->failed != LUO_EIO) /* the sentence was given when it happened */
        return luo_err_set(err, t->failed, "%s was given a broken row.", t->def->file);
    luo_errno_text(t->why, why, sizeof why);
    return luo_err_set(err, LUO_EIO, "cannot write %s: %s; its %lld complete rows stay readable.",
                       t->path, why, (long long)(t->on_disk > 0 ? t->on_disk : 0));
}

static luo_status lost(luo_table *t, luo_err *err)
{
    t->why = errno;
    t->failed = LUO_EIO;
    return failure(t, err);
}

/* Writes n bytes that end a row; on failure the file keeps whole rows only. */
static luo_status put(luo_table *t, const char *at, size_t n, luo_err *err)
{
    size_t done = 0;
    while (done < n) {
        const ssize_t w = write(t->fd, at + done, n - done);
        if (w > 0) {
            done += (size_t)w;
            continue;
        }
        if (w < 0 && errno == EINTR) continue;
        const int why = w < 0 ? errno : ENOSPC;
        size_t whole = done;
        while (whole > 0 && at[whole - 1] != '\n') whole--;
        for (size_t i = 0; i < whole; i++) t->on_disk += at[i] == '\n';
        t->bytes += (int64_t)whole;
        /* A file that cannot be cut (a device) has nothing to cut. */
        if (ftruncate(t->fd, (off_t)t->bytes) != 0) errno = 0;
        errno = why;
        return lost(t, err);
    }
    for (size_t i = 0; i < n; i++) t->on_disk += at[i] == '\n';
    t->bytes += (int64_t)n;
    return LUO_OK;
}

/* A row that runs over the end of a page is written as a comment, which turns into the row with
 * its first byte. */
static luo_status put_across(luo_table *t, char *at, size_t n, luo_err *err)
{
    const off_t place = (off_t)t->bytes;
    const char first = at[0];
    at[0] = '#';
    const luo_status st = put(t, at, n, err);
    at[0] = first;
    if (st != LUO_OK) return st;
    ssize_t w;
    do w = pwrite(t->fd, &first, 1, place);
    while (w < 0 && errno == EINTR);
    return w == 1 ? LUO_OK : lost(t, err);
}

/* Length of the whole rows of text[0..n) that end within `room` bytes, or of the first row. */
static size_t rows_within(const char *text, size_t n, size_t room)
{
    size_t end = n < room ? n : room;
    while (end > 0 && text[end - 1] != '\n') end--;
    if (end > 0) return end;
    const char *nl = memchr(text, '\n', n);
    return nl ? (size_t)(nl - text) + 1 : 0;
}

luo_status luo_table_flush(luo_table *t, luo_err *err)
{
    if (!t->def) return LUO_OK;
    if (t->failed != LUO_OK) return failure(t, err);
    size_t at = 0;
    while (at < t->row_at) {
        const size_t room = PAGE - (size_t)(t->bytes % PAGE);
        const size_t n = rows_within(t->buf.at + at, t->row_at - at, room);
        LUO_TRY(n > room ? put_across(t, t->buf.at + at, n, err) : put(t, t->buf.at + at, n, err));
        at += n;
    }
    memmove(t->buf.at, t->buf.at + at, t->buf.len - at + 1);
    t->buf.len -= at;
    t->row_at = 0;
    return LUO_OK;
}

luo_status luo_table_open(luo_table *t, const char *dir, const luo_table_def *def, luo_err *err)
{
    memset(t, 0, sizeof *t);
    t->def = def;
    t->fd = -1;
    luo_str path = {0};
    luo_str_addf(&path, "%s/%s", dir, def->file);
    luo_table_header(&t->buf, def);
    if (path.failed || t->buf.failed) {
        luo_str_free(&path);
        return t->failed = luo_err_nomem(err);
    }
    t->path = path.at;
    t->row_at = t->buf.len;
    t->fd = open(t->path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (t->fd < 0) return lost(t, err);
    t->on_disk = -1; /* the header is no row */
    return luo_table_flush(t, err);
}

static void cell(luo_table *t, int32_t column)
{
    if (column != t->column && !t->wrong) {
        t->wrong = column + 1;
        t->wanted = t->column;
    }
    if (t->column++ > 0) luo_str_addc(&t->buf, ',');
}

void luo_table_none(luo_table *t, int32_t column)
{
    cell(t, column);
}

void luo_table_int(luo_table *t, int32_t column, int64_t v)
{
    assert(t->def->columns[column].kind == LUO_CELL_INT);
    cell(t, column);
    luo_str_addi(&t->buf, v);
}

void luo_table_int_opt(luo_table *t, int32_t column, int64_t v)
{
    if (v < 0)
        luo_table_none(t, column);
    else
        luo_table_int(t, column, v);
}

void luo_print_fixed(luo_str *s, double v, int decimals)
{
    static const double scale[] = {1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9};
    assert(isfinite(v) && decimals >= 0 && decimals <= 9);
    const double scaled = fabs(v) * scale[decimals];
    if (scaled >= 9e15) { /* no longer an exact integer */
        luo_str_addf(s, "%.*f", decimals, v);
        return;
    }
    uint64_t u = (uint64_t)(scaled + 0.5);
    char buf[32], *p = buf + sizeof buf;
    const bool minus = v < 0 && u > 0;
    for (int i = 0; i < decimals; i++, u /= 10) *--p = (char)('0' + u % 10);
    if (decimals > 0) *--p = '.';
    do *--p = (char)('0' + u % 10);
    while (u /= 10);
    if (minus) *--p = '-';
    luo_str_addn(s, p, (size_t)(buf + sizeof buf - p));
}

void luo_table_num(luo_table *t, int32_t column, double v)
{
    assert(column < t->def->n);
    const luo_cell_kind kind = t->def->columns[column].kind;
    assert(kind != LUO_CELL_INT && kind != LUO_CELL_TEXT);
    cell(t, column);
    if (!isfinite(v)) return;
    switch (kind) {
    case LUO_CELL_SECONDS: luo_print_fixed(&t->buf, v, 9); return;
    case LUO_CELL_RATIO: luo_print_fixed(&t->buf, v, 6); return;
    case LUO_CELL_RATE: luo_print_fixed(&t->buf, v, 3); return;
    case LUO_CELL_NUMBER: luo_str_addf(&t->buf, "%.12g", v); return;
    case LUO_CELL_INT:
    case LUO_CELL_TEXT: return;
    }
}

void luo_table_text(luo_table *t, int32_t column, const char *text)
{
    cell(t, column);
    const bool quote = strpbrk(text, ",\"\r\n") || text[0] == '#' || text[0] == ' ' ||
                       (text[0] && text[strlen(text) - 1] == ' ');
    if (!quote) {
        luo_str_add(&t->buf, text);
        return;
    }
    luo_str_addc(&t->buf, '"');
    for (const char *p = text; *p; p++) {
        if (*p == '"') luo_str_addc(&t->buf, '"');
        luo_str_addc(&t->buf, *p == '\n' || *p == '\r' ? ' ' : *p);
    }
    luo_str_addc(&t->buf, '"');
}

void luo_table_again(luo_table *t, int32_t column, int32_t end, const char *text, size_t n)
{
    cell(t, column);
    t->column = end;
    luo_str_addn(&t->buf, text, n);
}

static luo_status broken(luo_table *t, luo_err *err)
{
    const luo_table_def *def = t->def;
    if (t->wrong)
        t->failed = luo_err_set(err, LUO_EBUG, "a row of %s was given `%s` where `%s` is next.",
                                def->file, def->columns[t->wrong - 1].name,
                                t->wanted < def->n ? def->columns[t->wanted].name : "the end");
    else
        t->failed = luo_err_set(err, LUO_EBUG, "a row of %s has %d cells; it has %d columns.",
                                def->file, t->column, def->n);
    return t->failed;
}

luo_status luo_table_end(luo_table *t, luo_err *err)
{
    if (t->failed != LUO_OK) return failure(t, err);
    if (t->wrong || t->column != t->def->n) return broken(t, err);
    luo_str_addc(&t->buf, '\n');
    if (t->buf.failed) return t->failed = luo_err_nomem(err);
    t->column = 0;
    t->row_at = t->buf.len;
    t->rows++;
    return t->buf.len < FULL ? LUO_OK : luo_table_flush(t, err);
}

luo_status luo_table_close(luo_table *t, luo_err *err)
{
    if (!t->def) return LUO_OK;
    luo_status st = luo_table_flush(t, err);
    if (t->fd >= 0 && close(t->fd) != 0 && st == LUO_OK) st = lost(t, err);
    luo_str_free(&t->buf);
    free(t->path);
    memset(t, 0, sizeof *t);
    return st;
}
