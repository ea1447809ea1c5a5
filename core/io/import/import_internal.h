/* import_internal.h: what importers share; not for others.
 *
 * An importer reads job->opts->source and calls import_put for each length. It returns the status
 * of the first error, which stands in job->diags. */
#ifndef LUO_CORE_IO_IMPORT_IMPORT_INTERNAL_H
#define LUO_CORE_IO_IMPORT_IMPORT_INTERNAL_H
#include <sys/stat.h>

#include "core/base/str.h"
#include "core/io/import/import.h"
#include "core/io/replace.h"

enum { IMPORT_UNUSED = 64 }; /* names of keys without use that are kept */
#define IMPORT_TOKENS_MAX (INT64_C(1) << 53)
#define IMPORT_NO_ARRIVAL (-1)

typedef struct import_table { /* what is written */
    luo_replace file;
    luo_str text;   /* not on disk yet */
    bool arrivals;  /* of lengths one by one */
    bool header;    /* written */
    int64_t *count; /* of classes */
} import_table;

typedef struct import_job {
    luo_arena *arena;
    const luo_import_opts *opts;
    luo_diags *diags;
    luo_err err; /* for what reports through one, told at the end */
    import_table table;
    luo_import_made made;
    const char *unused[IMPORT_UNUSED];
    struct stat old; /* what stands where the table will, if was_there */
    bool was_there;
    struct stat folder; /* that the table will lie in, if has_folder */
    bool has_folder;
} import_job;

typedef luo_status import_fn(import_job *job);
#define LUO_IMPORTER(kind, word, function, options, source) import_fn function;
#include "core/io/import/importers.inc"
#undef LUO_IMPORTER

/* ---- the table ---- */

luo_status import_table_open(import_job *job);
/* A length, and when it came: ns after the first row, or IMPORT_NO_ARRIVAL, the same in all calls.
 * A length of 0 is counted as empty. path, line, column: where it stands; line 0: the whole file.
 * Errors: LUO_E2BIG above 2^53; LUO_EINPUT in no class; LUO_EIO; LUO_ENOMEM. */
luo_status import_put(import_job *job, int64_t tokens, int64_t arrival_ns, const char *path,
                      int line, int column);
/* good: the table is finished and in its place; else nothing is. Sets job->made of it. */
luo_status import_table_close(import_job *job, bool good);

/* ---- sources ---- */

/* Which of the two numbers of a request count, by --length. Pre: both 0 to 2^53. */
int64_t import_request(const import_job *job, int64_t context, int64_t generated);
/* ns from `first` to `at`; -1: before it, or later than arrival_s goes. */
int64_t import_arrival(int64_t at, int64_t first);
/* A key that has no use. */
luo_status import_unused(import_job *job, const char *name);

/* One file of the source: fd stands at its beginning and is closed by the caller. */
typedef luo_status import_file_fn(import_job *job, const char *path, int fd);
/* Calls fn for the source, or, if it is a folder, for each file in it and in its folders, by the
 * bytes of their names. Symbolic links in it are not followed. */
luo_status import_each_file(import_job *job, import_file_fn *fn);
/* Up to `size` bytes; fewer at the end alone, 0 behind it. Errors: LUO_EINPUT. */
luo_status import_read(import_job *job, const char *path, int fd, void *out, size_t size,
                       size_t *got);
/* Will the table lie in that folder, or does that file stand in its place? Errors: LUO_EUSAGE. */
luo_status import_check_not_out(import_job *job, const char *path, const struct stat *info);
/* The error of job->err into job->diags; returns st. */
luo_status import_tell(import_job *job, luo_status st);
#endif
