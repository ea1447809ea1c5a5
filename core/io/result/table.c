#include "core/io/result/table.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/utf8.h"
#include "core/io/files.h"
#include "core/io/result/csv.h"

enum { PAGE = 4096, FULL = 1 << 16 };

static luo_status failure(luo_table *table, luo_err *err)
{
    char why[128];
    if (table->failed == LUO_ENOMEM) return luo_err_nomem(err);
    if (table->failed != LUO_EIO) /* the sentence was given when it happened */
        return luo_err_set(err, table->failed, "%s was given a broken row.", table->def->file);
    luo_io_errno_text(table->why, why, sizeof why);
    return luo_err_set(err, LUO_EIO, "cannot write %s: %s; its %lld complete rows stay readable.",
                       table->path, why, (long long)(table->on_disk > 0 ? table->on_disk : 0));
}

static luo_status lost(luo_table *table, luo_err *err)
{
    table->why = errno;
    table->failed = LUO_EIO;
    return failure(table, err);
}

/* Writes n bytes that end a row; on failure the file keeps whole rows only. */
static luo_status put(luo_table *table, const char *at, size_t n, luo_err *err)
{
    size_t done = 0;
    while (done < n) {
        const ssize_t w = write(table->fd, at + done, n - done);
        if (w > 0) {
            done += (size_t)w;
            continue;
        }
        if (w < 0 && errno == EINTR) continue;
        const int why = w < 0 ? errno : ENOSPC;
        size_t whole = done;
        while (whole > 0 && at[whole - 1] != '\n') whole--;
        for (size_t i = 0; i < whole; i++) table->on_disk += at[i] == '\n';
        table->bytes += (int64_t)whole;
        /* A file that cannot be cut (a device) has nothing to cut. */
        if (ftruncate(table->fd, (off_t)table->bytes) != 0) errno = 0;
        errno = why;
        return lost(table, err);
    }
    for (size_t i = 0; i < n; i++) table->on_disk += at[i] == '\n';
    table->bytes += (int64_t)n;
    return LUO_OK;
}

/* A row that runs over the end of a page is written as a comment, which turns into the row with
 * its first byte. */
static luo_status put_across(luo_table *table, char *at, size_t n, luo_err *err)
{
    const off_t place = (off_t)table->bytes;
    const char first = at[0];
    at[0] = '#';
    const luo_status st = put(table, at, n, err);
    at[0] = first;
    if (st != LUO_OK) return st;
    ssize_t w;
    do w = pwrite(table->fd, &first, 1, place);
    while (w < 0 && errno == EINTR);
    return w == 1 ? LUO_OK : lost(table, err);
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

luo_status luo_table_flush(luo_table *table, luo_err *err)
{
    if (!table->def) return LUO_OK;
    if (table->failed != LUO_OK) return failure(table, err);
    size_t at = 0;
    while (at < table->row_at) {
        const size_t room = PAGE - (size_t)(table->bytes % PAGE);
        const size_t n = rows_within(table->buf.at + at, table->row_at - at, room);
        LUO_TRY(n > room ? put_across(table, table->buf.at + at, n, err)
                         : put(table, table->buf.at + at, n, err));
        at += n;
    }
    memmove(table->buf.at, table->buf.at + at, table->buf.len - at + 1);
    table->buf.len -= at;
    table->row_at = 0;
    return LUO_OK;
}

luo_status luo_table_open(luo_table *table, const char *dir, const luo_table_def *def, luo_err *err)
{
    memset(table, 0, sizeof *table);
    table->def = def;
    table->fd = -1;
    luo_str path = {0};
    luo_str_addf(&path, "%s/%s", dir, def->file);
    luo_table_def_header(&table->buf, def);
    if (path.failed || table->buf.failed) {
        luo_str_free(&path);
        return table->failed = luo_err_nomem(err);
    }
    table->path = path.at;
    table->row_at = table->buf.len;
    table->fd = luo_file_new(table->path, 0);
    if (table->fd < 0) return lost(table, err);
    table->on_disk = -1; /* the header is no row */
    return luo_table_flush(table, err);
}

static void cell(luo_table *table, int32_t column)
{
    if (column != table->column && !table->wrong) {
        table->wrong = column + 1;
        table->wanted = table->column;
    }
    if (table->column++ > 0) luo_str_addc(&table->buf, ',');
}

void luo_table_none(luo_table *table, int32_t column)
{
    cell(table, column);
}

void luo_table_int(luo_table *table, int32_t column, int64_t v)
{
    assert(table->def->columns[column].kind == LUO_CELL_INT);
    cell(table, column);
    luo_str_addi(&table->buf, v);
}

void luo_table_int_opt(luo_table *table, int32_t column, int64_t v)
{
    if (v < 0)
        luo_table_none(table, column);
    else
        luo_table_int(table, column, v);
}

void luo_table_print_fixed(luo_str *text, double v, int decimals)
{
    static const double scale[] = {1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9};
    assert(isfinite(v) && decimals >= 0 && decimals <= 9);
    const double scaled = fabs(v) * scale[decimals];
    if (scaled >= 9e15) { /* no longer an exact integer */
        luo_str_addf(text, "%.*f", decimals, v);
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
    luo_str_addn(text, p, (size_t)(buf + sizeof buf - p));
}

void luo_table_num(luo_table *table, int32_t column, double v)
{
    assert(column < table->def->n);
    const luo_cell_kind kind = table->def->columns[column].kind;
    assert(kind != LUO_CELL_INT && kind != LUO_CELL_TEXT);
    cell(table, column);
    if (!isfinite(v)) return;
    switch (kind) {
    case LUO_CELL_SECONDS:
        luo_table_print_fixed(&table->buf, v, 9);
        return;
    case LUO_CELL_RATIO:
        luo_table_print_fixed(&table->buf, v, 6);
        return;
    case LUO_CELL_RATE:
        luo_table_print_fixed(&table->buf, v, 3);
        return;
    case LUO_CELL_NUMBER:
        luo_str_addf(&table->buf, "%.12g", v);
        return;
    case LUO_CELL_INT:
    case LUO_CELL_TEXT:
        return;
    }
}

static void put_shown(luo_str *out, const char *text)
{
    const size_t most = 4 * strlen(text) + 1; /* of one that becomes `\x1b` */
    char *shown = malloc(most);
    if (!shown) {
        out->failed = true;
        return;
    }
    luo_utf8_show(shown, most, text);
    for (const char *p = shown; *p; p++) {
        if (*p == '"') luo_str_addc(out, '"');
        luo_str_addc(out, *p);
    }
    free(shown);
}

void luo_table_put_text(luo_str *out, const char *text)
{
    const bool drives = luo_utf8_drives(text), guard = luo_csv_is_formula(text);
    const bool quote = strpbrk(text, ",\"\r\n") || text[0] == '#' || text[0] == ' ' ||
                       (text[0] && text[strlen(text) - 1] == ' ');
    if (quote) luo_str_addc(out, '"');
    if (guard) luo_str_addc(out, '\'');
    if (quote || drives)
        put_shown(out, text);
    else
        luo_str_add(out, text);
    if (quote) luo_str_addc(out, '"');
}

void luo_table_text(luo_table *table, int32_t column, const char *text)
{
    cell(table, column);
    luo_table_put_text(&table->buf, text);
}

void luo_table_again(luo_table *table, int32_t column, int32_t end, const char *text, size_t n)
{
    cell(table, column);
    table->column = end;
    luo_str_addn(&table->buf, text, n);
}

static luo_status broken(luo_table *table, luo_err *err)
{
    const luo_table_def *def = table->def;
    if (table->wrong)
        table->failed =
            luo_err_set(err, LUO_EBUG, "a row of %s was given `%s` where `%s` is next.", def->file,
                        def->columns[table->wrong - 1].name,
                        table->wanted < def->n ? def->columns[table->wanted].name : "the end");
    else
        table->failed = luo_err_set(err, LUO_EBUG, "a row of %s has %d cells; it has %d columns.",
                                    def->file, table->column, def->n);
    return table->failed;
}

luo_status luo_table_end(luo_table *table, luo_err *err)
{
    if (table->failed != LUO_OK) return failure(table, err);
    if (table->wrong || table->column != table->def->n) return broken(table, err);
    luo_str_addc(&table->buf, '\n');
    if (table->buf.failed) return table->failed = luo_err_nomem(err);
    table->column = 0;
    table->row_at = table->buf.len;
    table->rows++;
    return table->buf.len < FULL ? LUO_OK : luo_table_flush(table, err);
}

luo_status luo_table_close(luo_table *table, luo_err *err)
{
    if (!table->def) return LUO_OK;
    luo_status st = luo_table_flush(table, err);
    if (table->fd >= 0 && close(table->fd) != 0 && st == LUO_OK) st = lost(table, err);
    luo_str_free(&table->buf);
    free(table->path);
    memset(table, 0, sizeof *table);
    return st;
}
