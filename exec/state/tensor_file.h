/* tensor_file.h: safetensors files of any size: mapped to be read, streamed to be written. */
#ifndef LUO_EXEC_STATE_TENSOR_FILE_H
#define LUO_EXEC_STATE_TENSOR_FILE_H
#include "core/io/replace.h"
#include "core/io/checkpoint/safetensors_head.h"

typedef struct luo_tensor_part { /* a file */
    const char *path;
    const unsigned char *map;
    size_t bytes;
    int64_t data;   /* bytes in front of its first tensor */
    int64_t before; /* bytes of the parts before it */
} luo_tensor_part;

typedef struct luo_tensor_file {
    const char *path; /* as given */
    int32_t nparts;
    luo_tensor_part *parts;
    size_t bytes; /* of all parts */
    luo_safetensors head; /* tensors of all parts; data: of a single one */
} luo_tensor_file;

/* A safetensors file, or the index of several (core/io/checkpoint/safetensors_index.h), which then
 * count as one. They must not change while they are open. Errors: LUO_EINPUT missing or broken, or
 * an index that says something else than its files; LUO_EPARSE; each names the file; LUO_ENOMEM.
 * Owner: names belong to arena, the mappings are given back by close. */
luo_status luo_tensor_file_open(luo_arena *arena, const char *path, luo_tensor_file *out,
                                luo_err *err);
void luo_tensor_file_close(luo_tensor_file *file);
static inline const unsigned char *luo_tensor_file_at(const luo_tensor_file *file,
                                                      const luo_file_tensor *tensor)
{
    const luo_tensor_part *part = &file->parts[tensor->part];
    return part->map + part->data + tensor->begin;
}
/* Of the file that has it. */
static inline const char *luo_tensor_file_path(const luo_tensor_file *file,
                                               const luo_file_tensor *tensor)
{
    return file->parts[tensor->part].path;
}

/* Which tensors a rank verifies: of `ranks` ranks each has a share, and all together have all. */
typedef struct luo_share {
    int32_t rank, ranks;
    _Atomic int64_t *done; /* counts up with each tensor, so that one sees it going on; NULL */
} luo_share;

/* Reads the tensors of this share and compares their bytes with the checksums that the file has; a
 * file that has none passes. Errors: LUO_EINPUT, with file and tensor. */
luo_status luo_tensor_file_verify(const luo_tensor_file *file, luo_share share, luo_err *err);

/* n elements, `stride` apart in a tensor of the file, to neighbours of elem bytes (4 or 8).
 * Pre: dtype is F16, BF16, F32 or F64. Rounds to nearest where it must. */
void luo_tensor_take(luo_file_dtype dtype, const unsigned char *from, int64_t stride, int64_t n,
                     size_t elem, void *to);

typedef struct luo_tensor_writer {
    luo_replace file;
    luo_file_tensor *at; /* n */
    int32_t n, next;     /* tensor that the next bytes belong to */
    int64_t done;        /* bytes of all tensors so far */
} luo_tensor_writer;

/* Begins the file that is to replace PATH with the head of at[0..n), whose places it sets, and,
 * where the file can be gone back in, checksums. Owner: at stays the caller's, until close.
 * Errors: LUO_EIO, LUO_ENOMEM; nothing is left then. */
luo_status luo_tensor_writer_open(luo_tensor_writer *writer, const char *path, luo_file_tensor *at,
                                  int32_t n, luo_err *err);
/* The next n bytes of the tensors, which follow one another in the order of the head. */
luo_status luo_tensor_writer_put(luo_tensor_writer *writer, const void *bytes, size_t n,
                                 luo_err *err);
/* good: the head with its checksums, fsync, rename to PATH, fsync of the folder; else, or if one of
 * these fails, PATH is as before. */
luo_status luo_tensor_writer_close(luo_tensor_writer *writer, bool good, luo_err *err);
#endif
