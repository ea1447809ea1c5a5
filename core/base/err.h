/* err.h: one error on the caller's stack, and a list of them for readers of files.
 *
 * A sentence reads `what is wrong; what would be right.`, the culprit in backquotes; the command
 * layer prints it as `FILE:LINE:COL: error: SENTENCE`. Library code never prints.
 */
#ifndef LUO_CORE_BASE_ERR_H
#define LUO_CORE_BASE_ERR_H
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#include "core/base/arena.h"
#include "core/base/status.h"

enum { LUO_ERR_TEXT = 1024, LUO_ERR_PATH = 512 };

typedef struct luo_err {
    luo_status st;           /* LUO_OK: nothing happened */
    int line, col;           /* 1-based; 0: unknown */
    char path[LUO_ERR_PATH]; /* "": no file */
    char text[LUO_ERR_TEXT]; /* one sentence */
    char pointer[128];       /* RFC 6901: the part of a JSON file at fault; "": not known */
} luo_err;

#define LUO_TRY(call)                                                                              \
    do {                                                                                           \
        const luo_status luo_try_st_ = (call);                                                     \
        if (luo_try_st_ != LUO_OK) return luo_try_st_;                                             \
    } while (0)
#define LUO_TRY_OUT(call)                                                                          \
    do {                                                                                           \
        st = (call);                                                                               \
        if (st != LUO_OK) goto out;                                                                \
    } while (0)

#if defined(__GNUC__)
#define LUO_PRINTF(f, a) __attribute__((format(printf, f, a)))
#else
#define LUO_PRINTF(f, a)
#endif

/* Writes st and the sentence into err (NULL: nowhere), clears the place; returns st. */
luo_status luo_err_set(luo_err *err, luo_status st, const char *fmt, ...) LUO_PRINTF(3, 4);
/* Adds the place to err unless st is LUO_OK or a place is already known; returns st. */
luo_status luo_err_at(luo_err *err, luo_status st, const char *path, int line, int col);
/* Names the part of a JSON file at fault, for those who know no file, unless st is LUO_OK or a part
 * is already named; returns st. */
luo_status luo_err_part(luo_err *err, luo_status st, const char *fmt, ...) LUO_PRINTF(3, 4);
/* Puts "prefix: " in front of the sentence unless st is LUO_OK; returns st. */
luo_status luo_err_prefix(luo_err *err, luo_status st, const char *fmt, ...) LUO_PRINTF(3, 4);
/* The LUO_ENOMEM sentence, in one place. */
luo_status luo_err_nomem(luo_err *err);

typedef enum luo_severity { LUO_NOTE, LUO_WARNING, LUO_ERROR } luo_severity;
const char *luo_severity_name(luo_severity severity); /* "note" "warning" "error" */

typedef struct luo_diag {
    luo_severity severity;
    luo_err err;
    struct luo_diag *next;
} luo_diag;

/* Errors of one file; path "": those without a file. */
typedef struct luo_diag_file {
    char path[LUO_ERR_PATH];
    int n_errors, n_dropped;
    struct luo_diag_file *next;
} luo_diag_file;

/* Errors, warnings and notes of one or more files, in the order found. Kept at most
 * LUO_DIAGS_MAX errors per file (docs/results.md#exit-codes-and-messages); those above it are
 * counted only. */
enum { LUO_DIAGS_MAX = 20 };
typedef struct luo_diags {
    luo_arena *arena;
    luo_diag *first, *last;
    luo_diag_file *files; /* the latest first */
    int n_errors;         /* all errors, dropped ones included */
    int n_dropped;
    luo_status worst; /* status of the error with the largest exit code; LUO_OK if none */
    luo_diag spare;   /* of the first that the arena has no memory for */
    bool spared;
} luo_diags;

void luo_diags_init(luo_diags *diags, luo_arena *arena);
/* Appends; returns st. path may be NULL. A note on a file that is there already is not said again.
 * Owner: everything is copied into the arena. */
luo_status luo_diags_add(luo_diags *diags, luo_severity severity, luo_status st, const char *path,
                         int line, int col, const char *fmt, ...) LUO_PRINTF(7, 8);
/* Are the next errors of that file (NULL: without one) only counted? */
bool luo_diags_full(const luo_diags *diags, const char *path);
/* The same for callers with arguments of their own: what is one error too many is not even
 * formatted. */
luo_status luo_diags_vadd(luo_diags *diags, luo_severity severity, luo_status st, const char *path,
                          int line, int col, const char *fmt, va_list ap) LUO_PRINTF(7, 0);
/* Appends a copy of err as an error; returns its status. */
luo_status luo_diags_err(luo_diags *diags, const luo_err *err);
#endif
