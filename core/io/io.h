/* io.h: whole files, on disk or in memory, and what kind of file one is. Readers: read/read.h.
 *
 * Owner: all that is read belongs to arena. Files are at most LUO_FILE_BYTES long. */
#ifndef LUO_CORE_IO_IO_H
#define LUO_CORE_IO_IO_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/arena.h"
#include "core/base/err.h"
#include "core/base/str.h"

#define LUO_FILE_BYTES ((size_t)64 << 20)

/* ---- whole files ---- */

typedef struct luo_source { /* a file in memory */
    const char *name;       /* shown in messages; base of the paths that the file names */
    const char *text;       /* ended by a 0 that is not counted */
    size_t len;
} luo_source;

/* Where files named by other files come from: a table in memory, for the embedded demo and for
 * fuzzing. get returns LUO_EINPUT with a sentence when there is no such file. A NULL luo_files is
 * the disk. */
typedef struct luo_files {
    luo_status (*get)(void *ctx, luo_arena *arena, const char *path, luo_source *out, luo_err *err);
    void *ctx;
} luo_files;

/* `--set PATH=VALUE` arguments; they must outlive what is read. */
typedef struct luo_overrides {
    int32_t n;
    const char *const *at;
    const char *dtype; /* of the model, whatever its file says; NULL: that */
    const char *part; /* only those whose path begins so, as "cluster.", without it; NULL: all */
} luo_overrides;

/* Errors: LUO_EINPUT missing or unreadable; LUO_E2BIG over 64 MiB; LUO_ENOMEM. */
luo_status luo_source_read(luo_arena *arena, const char *path, luo_source *out, luo_err *err);
/* The same through files; NULL: the disk. */
luo_status luo_files_get(const luo_files *files, luo_arena *arena, const char *path,
                         luo_source *out, luo_err *err);
/* Path of `name` as written in the file `base`: relative to base's folder unless it starts with
 * `/`; "." and "folder/.." are taken out. NULL: out of memory. */
const char *luo_file_path_join(luo_arena *arena, const char *base, const char *name);
/* A whole file by replace.h: written beside its place, fsync, rename. Errors: LUO_EIO with the
 * reason; the old file is then untouched and the temporary one is gone. */
luo_status luo_file_write_atomic(const char *path, const char *text, size_t len, luo_err *err);
/* The same of a file in a folder of results, where a link is replaced and not followed. */
luo_status luo_file_write_own(const char *path, const char *text, size_t len, luo_err *err);
/* FNV-1a over the bytes of the file. */
uint64_t luo_source_hash(const luo_source *src);

/* ---- any file of ours ---- */

typedef enum luo_file_kind {
    LUO_FILE_CLUSTER,
    LUO_FILE_PROFILE,
    LUO_FILE_STACK,
    LUO_FILE_MODEL, /* also a Hugging Face config.json */
    LUO_FILE_SCENARIO,
    LUO_FILE_PLAN,
    LUO_FILE_PARAMS,
    LUO_FILE_TABLE /* CSV, known by its header */
} luo_file_kind;
const char *luo_file_kind_name(luo_file_kind k); /* "cluster" */
/* From `schema`, `model_type` or the CSV header. Errors: LUO_EINPUT what it is not. */
luo_status luo_file_kind_of(const char *path, luo_file_kind *out, luo_diags *diags);
luo_status luo_file_kind_of_text(const luo_source *src, luo_file_kind *out, luo_diags *diags);
/* Reads a file of that kind and all it names, for its errors alone. */
luo_status luo_file_check(luo_arena *arena, const char *path, luo_file_kind k, luo_diags *diags);
#endif
