/* convert_internal.h: what converters share; not for others.
 *
 * A converter reads job->src, adds what it makes by convert_add and says in job->summary what that
 * is. It tells errors in job->diags and returns the status of the first. */
#ifndef LUO_CORE_IO_CONVERT_CONVERT_INTERNAL_H
#define LUO_CORE_IO_CONVERT_CONVERT_INTERNAL_H
#include "core/base/str.h"
#include "core/io/convert/convert.h"
#include "core/io/document/doc.h"

typedef struct convert_job {
    luo_arena *arena;
    const luo_convert_opts *opts;
    luo_diags *diags;
    luo_source src;
    luo_convert_made made;
} convert_job;

typedef luo_status convert_fn(convert_job *job);
#define LUO_CONVERTER(kind, word, function, options, out, source) convert_fn function;
#include "core/io/convert/converters.inc"
#undef LUO_CONVERTER

/* An error of the source; line 0: of the whole file. Returns LUO_EINPUT. */
luo_status convert_error(convert_job *job, int line, int col, const char *fmt, ...)
    LUO_PRINTF(4, 5);
/* An error of the command line; returns LUO_EUSAGE. */
luo_status convert_usage(convert_job *job, const char *fmt, ...) LUO_PRINTF(2, 3);
/* What would change cost or numbers: an error at its place, or, with --approximate, a warning that
 * it is left out. */
luo_status convert_refuse(convert_job *job, const char *name, int line, int col, const char *why);
/* Tokens of a sequence of a plan whose source does not say them: --seq-length, or 4096, or what the
 * model takes if that is less, which a note says. */
int64_t convert_sequence(convert_job *job, int64_t most);
luo_status convert_note(convert_job *job, luo_severity severity, const char *fmt, ...)
    LUO_PRINTF(3, 4);
luo_status convert_nomem(convert_job *job);
/* Adds a file; text is copied and freed. */
luo_status convert_add(convert_job *job, const char *name, luo_str *text);
/* What it says, in a sentence. */
luo_status convert_say(convert_job *job, const char *fmt, ...) LUO_PRINTF(2, 3);
/* The tree of a source that has to be JSON; *root is set where LUO_OK is returned. */
luo_status convert_json(convert_job *job, luo_doc *doc);
/* A note that lists keys without use; n 0: none. */
luo_status convert_unused(convert_job *job, const char *const *names, int32_t n);
#endif
