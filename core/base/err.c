#include "core/base/err.h"

#include <stdio.h>
#include <string.h>

#include "core/base/utf8.h"

static const struct {
    const char *name, *text;
    int code;
} table[] = {
#define ROW(name, exit, text) {#name, text, exit},
    LUO_STATUS_LIST(ROW)
#undef ROW
};

static int known(luo_status st)
{
    return (int)st >= 0 && st < LUO_STATUS_COUNT;
}

const char *luo_status_name(luo_status st)
{
    return known(st) ? table[st].name : "LUO_?";
}

const char *luo_status_text(luo_status st)
{
    return known(st) ? table[st].text : "unknown status";
}

int luo_status_exit(luo_status st)
{
    return known(st) ? table[st].code : 70;
}

/* Every sentence is made here. It may quote any bytes of a file, so they are given a form that can
 * be shown. A text that does not fit ends in "..", so that a cut is never silent. */
static void format(char *out, size_t size, const char *fmt, va_list ap)
{
    char raw[LUO_ERR_TEXT + 1]; /* one more than fits, so that luo_utf8_show sees the cut */
    vsnprintf(raw, sizeof raw, fmt, ap);
    luo_utf8_show(out, size, raw);
}

luo_status luo_err_set(luo_err *err, luo_status st, const char *fmt, ...)
{
    if (!err) return st;
    va_list ap;
    va_start(ap, fmt);
    err->st = st;
    err->line = err->col = 0;
    err->path[0] = err->pointer[0] = 0;
    format(err->text, sizeof err->text, fmt, ap);
    va_end(ap);
    return st;
}

luo_status luo_err_at(luo_err *err, luo_status st, const char *path, int line, int col)
{
    if (!err || st == LUO_OK || err->path[0]) return st;
    luo_utf8_show(err->path, sizeof err->path, path ? path : "");
    err->line = line;
    err->col = col;
    return st;
}

luo_status luo_err_part(luo_err *err, luo_status st, const char *fmt, ...)
{
    if (!err || st == LUO_OK || err->pointer[0]) return st;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(err->pointer, sizeof err->pointer, fmt, ap);
    va_end(ap);
    return st;
}

luo_status luo_err_prefix(luo_err *err, luo_status st, const char *fmt, ...)
{
    if (!err || st == LUO_OK) return st;
    char head[LUO_ERR_TEXT], all[2 * LUO_ERR_TEXT + 2];
    va_list ap;
    va_start(ap, fmt);
    format(head, sizeof head, fmt, ap);
    va_end(ap);
    snprintf(all, sizeof all, "%s: %s", head, err->text);
    luo_utf8_show(err->text, sizeof err->text, all);
    return st;
}

luo_status luo_err_nomem(luo_err *err)
{
    return luo_err_set(err, LUO_ENOMEM, "this process is out of memory; free some or use less.");
}

const char *luo_severity_name(luo_severity severity)
{
    static const char *const names[] = {
        [LUO_NOTE] = "note", [LUO_WARNING] = "warning", [LUO_ERROR] = "error"};
    return names[severity];
}

void luo_diags_init(luo_diags *diags, luo_arena *arena)
{
    memset(diags, 0, sizeof *diags);
    diags->arena = arena;
}

static luo_diag_file *file_of(const luo_diags *diags, const char *path)
{
    luo_diag_file *file = diags->files;
    while (file && strncmp(file->path, path, sizeof file->path - 1) != 0) file = file->next;
    return file;
}

bool luo_diags_full(const luo_diags *diags, const char *path)
{
    const luo_diag_file *file = file_of(diags, path ? path : "");
    return file && file->n_errors >= LUO_DIAGS_MAX;
}

/* Counts an error of the file. False: it is one too many. */
static bool count(luo_diags *diags, luo_status st, const char *path)
{
    luo_diag_file *file = file_of(diags, path);
    diags->n_errors++;
    if (luo_status_exit(st) > luo_status_exit(diags->worst)) diags->worst = st;
    if (!file) {
        file = LUO_NEW(diags->arena, luo_diag_file);
        if (!file) return true; /* append will fail, too */
        snprintf(file->path, sizeof file->path, "%s", path);
        file->next = diags->files;
        diags->files = file;
    }
    if (++file->n_errors <= LUO_DIAGS_MAX) return true;
    file->n_dropped++;
    diags->n_dropped++;
    return false;
}

static luo_diag *append_diag(luo_diags *diags, luo_severity severity, luo_status st,
                             const char *path)
{
    if (severity == LUO_ERROR && !count(diags, st, path)) return NULL;
    luo_diag *diag = LUO_NEW(diags->arena, luo_diag);
    if (!diag) {
        diags->worst = LUO_ENOMEM;
        if (diags->spared) return NULL;
        diags->spared = true;
        diag = &diags->spare;
    }
    diag->severity = severity;
    if (diags->last)
        diags->last->next = diag;
    else
        diags->first = diag;
    diags->last = diag;
    return diag;
}

/* A file that one command reads several times has its notes once, whichever file named it: that
 * stands in brackets behind the sentence by now. */
static bool has_note(const luo_diags *diags, const luo_err *err)
{
    const size_t n = strlen(err->text);
    for (const luo_diag *diag = diags->first; diag; diag = diag->next) {
        const char *text = diag->err.text;
        if (diag->severity == LUO_NOTE && diag->err.line == err->line &&
            diag->err.col == err->col && strcmp(diag->err.path, err->path) == 0 &&
            strncmp(text, err->text, n) == 0 &&
            (text[n] == '\0' || strncmp(text + n, " (in ", 5) == 0))
            return true;
    }
    return false;
}

luo_status luo_diags_vadd(luo_diags *diags, luo_severity severity, luo_status st, const char *path,
                          int line, int col, const char *fmt, va_list ap)
{
    luo_err err = {.st = st, .line = line, .col = col};
    luo_utf8_show(err.path, sizeof err.path, path ? path : "");
    format(err.text, sizeof err.text, fmt, ap);
    if (severity == LUO_NOTE && path && has_note(diags, &err)) return st;
    luo_diag *diag = append_diag(diags, severity, st, path ? path : "");
    if (diag) diag->err = err;
    return st;
}

luo_status luo_diags_add(luo_diags *diags, luo_severity severity, luo_status st, const char *path,
                         int line, int col, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    luo_diags_vadd(diags, severity, st, path, line, col, fmt, ap);
    va_end(ap);
    return st;
}

luo_status luo_diags_err(luo_diags *diags, const luo_err *err)
{
    luo_diag *diag = append_diag(diags, LUO_ERROR, err->st, err->path);
    if (diag) diag->err = *err;
    return err->st;
}
