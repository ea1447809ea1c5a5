#include "core/io/result/csv.h"
#include "core/io/json_number.h"

#include <csv.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/utf8.h"
#include "core/io/document/input.h"

struct luo_csv {
    const char *name;
    const luo_csv_column *columns;
    int n;
    luo_diags *diags;
    luo_status st;
    /* where lines come from: text in memory, or a file */
    const char *at, *end;
    FILE *file;
    char *line_buf;
    size_t line_cap;
    int line;
    /* the row being read */
    struct csv_parser parser;
    bool parser_open, header_read, over;
    char *row;
    size_t row_cap, row_len;
    size_t start[LUO_CSV_COLUMNS];
    int fields, header_fields;
    int column_of[LUO_CSV_COLUMNS]; /* field -> column */
    int field_of[LUO_CSV_COLUMNS];  /* column -> field, -1: none */
    bool foreign;                   /* columns of others are no errors */
    bool forgiving;                 /* a row with an error is left out, no error of the table */
    char delimiter;
    char *unused[LUO_CSV_COLUMNS]; /* their names */
    int nunused;
};

static luo_status vcomplain(luo_csv *csv, luo_status st, int field, const char *fmt, va_list ap)
    LUO_PRINTF(4, 0);
static luo_status vcomplain(luo_csv *csv, luo_status st, int field, const char *fmt, va_list ap)
{
    if (csv->forgiving && st == LUO_EINPUT) {
        char text[LUO_ERR_TEXT];
        vsnprintf(text, sizeof text, fmt, ap);
        luo_diags_add(csv->diags, LUO_WARNING, st, csv->name, csv->line, field + 1,
                      "%s The row is left out.", text);
        return st;
    }
    luo_diags_vadd(csv->diags, LUO_ERROR, st, csv->name, csv->line, field + 1, fmt, ap);
    if (csv->st == LUO_OK) csv->st = st;
    return st;
}

static luo_status complain(luo_csv *csv, luo_status st, int field, const char *fmt, ...)
    LUO_PRINTF(4, 5);
static luo_status complain(luo_csv *csv, luo_status st, int field, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vcomplain(csv, st, field, fmt, ap);
    va_end(ap);
    return st;
}

luo_status luo_csv_error(luo_csv *csv, int column, const char *fmt, ...)
{
    const int field = csv->field_of[column];
    va_list ap;
    va_start(ap, fmt);
    vcomplain(csv, LUO_EINPUT, field < 0 ? 0 : field, fmt, ap);
    va_end(ap);
    return LUO_EINPUT;
}

static void out_of_memory(luo_csv *csv)
{
    luo_diags_add(csv->diags, LUO_ERROR, LUO_ENOMEM, csv->name, 0, 0,
                  "this process is out of memory; free some or use less.");
    csv->st = LUO_ENOMEM;
    csv->over = true;
}

/* ---- lines ---- */

/* The next physical line without its end; false: none. */
static bool raw_line(luo_csv *csv, const char **line, size_t *len)
{
    if (csv->file) {
        const ssize_t n = getline(&csv->line_buf, &csv->line_cap, csv->file);
        if (n < 0) {
            if (ferror(csv->file))
                complain(csv, LUO_EINPUT, 0, "the file cannot be read to its end.");
            return false;
        }
        *line = csv->line_buf;
        *len = (size_t)n;
    } else {
        if (csv->at == csv->end) return false;
        const char *nl = memchr(csv->at, '\n', (size_t)(csv->end - csv->at));
        *line = csv->at;
        *len = (size_t)((nl ? nl + 1 : csv->end) - csv->at);
        csv->at += *len;
    }
    csv->line++;
    if (*len && (*line)[*len - 1] == '\n') --*len;
    if (*len && (*line)[*len - 1] == '\r') --*len;
    if (csv->line == 1 && *len >= 3 && memcmp(*line, "\xef\xbb\xbf", 3) == 0) {
        *line += 3;
        *len -= 3;
    }
    return true;
}

static bool blank(const char *line, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (line[i] != ' ' && line[i] != '\t') return false;
    return true;
}

/* ---- cells of one line ---- */

static void on_field(void *data, size_t len, void *ctx)
{
    luo_csv *csv = ctx;
    if (csv->fields < LUO_CSV_COLUMNS) {
        csv->start[csv->fields] = csv->row_len;
        memcpy(csv->row + csv->row_len, data, len);
        csv->row_len += len;
        csv->row[csv->row_len++] = 0;
    }
    csv->fields++;
}

static bool open_parser(luo_csv *csv)
{
    if (csv->parser_open) csv_free(&csv->parser);
    csv->parser_open = csv_init(&csv->parser, CSV_STRICT | CSV_STRICT_FINI) == 0;
    if (csv->parser_open) {
        csv_set_blk_size(&csv->parser, 4096);
        csv_set_delim(&csv->parser, (unsigned char)csv->delimiter);
    } else
        out_of_memory(csv);
    return csv->parser_open;
}

static bool room_for(luo_csv *csv, size_t len)
{
    const size_t need = len + LUO_CSV_COLUMNS + 1;
    if (csv->row_cap >= need) return true;
    char *row = realloc(csv->row, 2 * need);
    if (!row) {
        out_of_memory(csv);
        return false;
    }
    csv->row = row;
    csv->row_cap = 2 * need;
    return true;
}

/* True: the row is in csv->row. A quote left open ends with its line, not with the file. */
static bool split(luo_csv *csv, const char *line, size_t len)
{
    if (!room_for(csv, len)) return false;
    csv->fields = 0;
    csv->row_len = 0;
    if (memchr(line, 0, len) || memchr(line, '\r', len)) {
        complain(csv, LUO_EPARSE, 0,
                 "a 0 character or a lone carriage return; text lines are "
                 "expected.");
        return false;
    }
    const size_t got = csv_parse(&csv->parser, line, len, on_field, NULL, csv);
    if (got == len && csv_fini(&csv->parser, on_field, NULL, csv) == 0) return true;
    if (csv_error(&csv->parser) == CSV_ENOMEM)
        out_of_memory(csv);
    else
        complain(csv, LUO_EPARSE, csv->fields,
                 "a quote is open or stands within a cell; quote the "
                 "whole cell and double the quotes inside.");
    open_parser(csv);
    return false;
}

static bool next_split(luo_csv *csv)
{
    const char *line;
    size_t len;
    while (!csv->over && raw_line(csv, &line, &len)) {
        if (blank(line, len) || line[0] == '#') continue;
        if (split(csv, line, len)) return true;
        if (!csv->header_read) break; /* without a header there is nothing to read by */
    }
    csv->over = true;
    return false;
}

/* ---- header ---- */

static void keep_unused(luo_csv *csv, const char *name)
{
    char *copy = strdup(name);
    if (copy)
        csv->unused[csv->nunused++] = copy;
    else
        out_of_memory(csv);
}

/* A misspelt column is one error: the one it was meant for is not reported as missing, too. */
static void unknown_column(luo_csv *csv, int field, const char *name, bool *excused)
{
    int meant;
    const char *names[LUO_CSV_COLUMNS];
    luo_str text = {0};
    for (int i = 0; i < csv->n; i++) names[i] = csv->columns[i].name;
    luo_say_unknown(&text, name, names, csv->n, &meant);
    complain(csv, LUO_EINPUT, field, "unknown column `%.60s`; %s", name, luo_str_get(&text));
    luo_str_free(&text);
    if (meant >= 0) excused[meant] = true;
}

static void read_header(luo_csv *csv)
{
    bool excused[LUO_CSV_COLUMNS] = {false};
    csv->header_fields = csv->fields;
    for (int f = 0; f < csv->fields && f < LUO_CSV_COLUMNS; f++) {
        const char *name = csv->row + csv->start[f];
        int i = 0;
        while (i < csv->n && strcmp(csv->columns[i].name, name) != 0) i++;
        csv->column_of[f] = i;
        if (i == csv->n && csv->foreign)
            keep_unused(csv, name);
        else if (i == csv->n)
            unknown_column(csv, f, name, excused);
        else if (csv->field_of[i] >= 0)
            complain(csv, LUO_EINPUT, f, "column `%s` is given twice; each column is given once.",
                     name);
        else
            csv->field_of[i] = f;
    }
    for (int i = 0; i < csv->n; i++)
        if (csv->columns[i].required && !excused[i] && csv->field_of[i] < 0)
            complain(csv, LUO_EINPUT, 0, "column `%s` is missing.", csv->columns[i].name);
    if (csv->fields > LUO_CSV_COLUMNS)
        complain(csv, LUO_EINPUT, LUO_CSV_COLUMNS, "more than %d columns; none of our tables has.",
                 LUO_CSV_COLUMNS);
    if (csv->st != LUO_OK) csv->over = true; /* rows cannot be judged by a wrong header */
}

static luo_csv *open_table(const char *name, const luo_csv_column *columns, int n, char delimiter,
                           luo_diags *diags)
{
    luo_csv *csv = calloc(1, sizeof *csv);
    if (!csv) {
        luo_diags_add(diags, LUO_ERROR, LUO_ENOMEM, name, 0, 0,
                      "this process is out of memory; free some or use less.");
        return NULL;
    }
    csv->name = name;
    csv->columns = columns;
    csv->n = n;
    csv->diags = diags;
    csv->delimiter = delimiter;
    for (int i = 0; i < n; i++) csv->field_of[i] = -1;
    open_parser(csv);
    return csv;
}

static luo_csv *begin(luo_csv *csv)
{
    if (next_split(csv))
        read_header(csv);
    else if (csv->st == LUO_OK)
        complain(csv, LUO_EINPUT, 0, "the table is empty; a header line is expected.");
    csv->header_read = true;
    return csv;
}

luo_csv *luo_csv_open(const luo_source *src, const luo_csv_column *columns, int n, luo_diags *diags)
{
    luo_csv *csv = open_table(src->name, columns, n, ',', diags);
    if (!csv) return NULL;
    csv->at = src->text;
    csv->end = src->text + src->len;
    return begin(csv);
}

/* False: there is no such file, which is reported. */
static bool open_file(luo_csv *csv, const char *path)
{
    luo_err err = {0};
    int fd;
    csv->st = luo_input_open(path, LUO_INPUT_READ, "a readable table", &fd, &err);
    if (csv->st == LUO_OK && !(csv->file = fdopen(fd, "r"))) {
        close(fd);
        csv->st = luo_err_nomem(&err);
    }
    if (csv->st == LUO_OK) return true;
    luo_diags_err(csv->diags, &err);
    csv->over = true;
    return false;
}

static luo_csv *open_path(const char *path, const luo_csv_column *columns, int n, bool foreign,
                          luo_diags *diags)
{
    luo_csv *csv = open_table(path, columns, n, ',', diags);
    if (!csv) return NULL;
    csv->foreign = foreign;
    return open_file(csv, path) ? begin(csv) : csv;
}

luo_csv *luo_csv_open_plain(const char *path, char delimiter, luo_diags *diags)
{
    luo_csv *csv = open_table(path, NULL, 0, delimiter, diags);
    if (!csv) return NULL;
    for (int i = 0; i < LUO_CSV_COLUMNS; i++) csv->field_of[i] = i;
    csv->header_read = true; /* a bad line does not end the table */
    open_file(csv, path);
    return csv;
}

int luo_csv_next_plain(luo_csv *csv, const char **cells)
{
    if (!csv || !next_split(csv)) return 0;
    for (int i = 0; i < csv->fields && i < LUO_CSV_COLUMNS; i++)
        cells[i] = csv->row + csv->start[i];
    return csv->fields;
}

luo_csv *luo_csv_open_path(const char *path, const luo_csv_column *columns, int n, luo_diags *diags)
{
    return open_path(path, columns, n, false, diags);
}

luo_csv *luo_csv_open_foreign(const char *path, const luo_csv_column *columns, int n,
                              luo_diags *diags)
{
    return open_path(path, columns, n, true, diags);
}

const char *luo_csv_unused(const luo_csv *csv, int i)
{
    return csv && i < csv->nunused ? csv->unused[i] : NULL;
}

/* ---- rows ---- */

static void bad_cell(luo_csv *csv, int i, const char *text)
{
    const luo_csv_column *column = &csv->columns[i];
    char buf[128];
    luo_str words = {0};
    const char *want = buf;
    int n = 0;
    if (column->type == LUO_CSV_WORD) {
        while (column->words[n]) n++;
        luo_words_expected(&words, text, column->words, n);
        luo_csv_error(csv, i, *text ? "`%s` is `%.60s`; %s" : "`%s` is empty%.0s; %s", column->name,
                      text, luo_str_get(&words));
        luo_str_free(&words);
        return;
    } else if (column->type == LUO_CSV_TEXT) {
        const bool drives = *text && luo_utf8_valid(text, strlen(text));
        luo_csv_error(csv, i,
                      drives ? "`%s` holds %s; a text is expected."
                             : "`%s` is %s; a text is expected.",
                      column->name,
                      !*text   ? "empty"
                      : drives ? "control characters"
                               : "not UTF-8");
        return;
    } else {
        double v;
        const bool number = luo_json_number_float(text, strlen(text), &v);
        luo_say_limit(&column->limit, column->type == LUO_CSV_WHOLE, number ? v : NAN, buf,
                      sizeof buf - 10);
        if (column->inf) strcat(buf, " or `inf`");
    }
    if (*text)
        luo_csv_error(csv, i, "`%s` is `%.60s`; %s is expected.", column->name, text, want);
    else
        luo_csv_error(csv, i, "`%s` is empty; %s is expected.", column->name, want);
}

bool luo_csv_is_formula(const char *text)
{
    text += strspn(text, "' \t"); /* spreadsheets pass over blanks */
    return *text && strchr("=+-@", *text) && (text[1] || *text != '-');
}

static bool take_cell(const luo_csv_column *column, const char *text, luo_csv_cell *out)
{
    const size_t n = strlen(text);
    switch (column->type) {
    case LUO_CSV_WHOLE:
        if (!luo_json_number_whole(text, n, &out->whole)) return false;
        out->number = (double)out->whole;
        return luo_limit_holds(&column->limit, out->number);
    case LUO_CSV_NUMBER:
        if (column->inf && strcmp(text, "inf") == 0) {
            out->number = INFINITY;
            return true;
        }
        return luo_json_number_float(text, n, &out->number) &&
               luo_limit_holds(&column->limit, out->number);
    case LUO_CSV_WORD:
        for (out->whole = 0; column->words[out->whole]; out->whole++)
            if (strcmp(column->words[out->whole], text) == 0) return true;
        return false;
    case LUO_CSV_TEXT:
        break;
    }
    if (*text == '\'' && luo_csv_is_formula(text + 1)) out->text = text + 1;
    return luo_utf8_valid(text, n) && !luo_utf8_drives(text);
}

static bool take_row(luo_csv *csv, luo_csv_cell *cells)
{
    bool good = true;
    if (csv->fields != csv->header_fields) {
        complain(csv, LUO_EINPUT,
                 csv->fields < csv->header_fields ? csv->fields : csv->header_fields,
                 "the row has %d cells; the header has %d.", csv->fields, csv->header_fields);
        return false;
    }
    for (int i = 0; i < csv->n; i++) {
        const int f = csv->field_of[i];
        const char *text = f < 0 ? "" : csv->row + csv->start[f];
        cells[i] = (luo_csv_cell){.given = *text != 0, .text = text};
        if (!*text && !csv->columns[i].required) continue;
        if (*text && take_cell(&csv->columns[i], text, &cells[i])) continue;
        bad_cell(csv, i, text);
        good = false;
    }
    return good;
}

bool luo_csv_next(luo_csv *csv, luo_csv_cell *cells)
{
    while (csv && next_split(csv))
        if (take_row(csv, cells)) return true;
    return false;
}

void luo_csv_forgive(luo_csv *csv)
{
    if (csv) csv->forgiving = true;
}

int luo_csv_line(const luo_csv *csv)
{
    return csv->line;
}

bool luo_csv_has(const luo_csv *csv, int column)
{
    return csv && csv->field_of[column] >= 0;
}

luo_status luo_csv_close(luo_csv *csv)
{
    if (!csv) return LUO_ENOMEM;
    const luo_status st = csv->st;
    if (csv->parser_open) csv_free(&csv->parser);
    if (csv->file) fclose(csv->file);
    for (int i = 0; i < csv->nunused; i++) free(csv->unused[i]);
    free(csv->line_buf);
    free(csv->row);
    free(csv);
    return st;
}
