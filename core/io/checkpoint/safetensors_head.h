/* safetensors_head.h: the head of a safetensors file: which tensors lie where in it.
 *
 * A file is 8 bytes of head length (little endian), the head in JSON, then the tensors without gap
 * or overlap. Source: the format of huggingface/safetensors, version 1 (its README). Ours: files
 * that we write have in `__metadata__` a text `crc32:NAME` for each tensor, the checksum of its
 * bytes (core/io/checksum.h) in 8 hexadecimal digits. */
#ifndef LUO_CORE_IO_CHECKPOINT_SAFETENSORS_HEAD_H
#define LUO_CORE_IO_CHECKPOINT_SAFETENSORS_HEAD_H
#include "core/base/str.h"
#include "core/hspmd/ann.h"

/* X(name, bytes). */
#define LUO_FILE_DTYPE_LIST(X)                                                                     \
    X(BOOL, 1)                                                                                     \
    X(U8, 1)                                                                                       \
    X(I8, 1)                                                                                       \
    X(F8_E5M2, 1)                                                                                  \
    X(F8_E4M3, 1)                                                                                  \
    X(U16, 2)                                                                                      \
    X(I16, 2)                                                                                      \
    X(F16, 2)                                                                                      \
    X(BF16, 2)                                                                                     \
    X(U32, 4)                                                                                      \
    X(I32, 4)                                                                                      \
    X(F32, 4)                                                                                      \
    X(U64, 8)                                                                                      \
    X(I64, 8)                                                                                      \
    X(F64, 8)
typedef enum luo_file_dtype {
#define LUO_FILE_DTYPE_ENUM(name, bytes) LUO_FILE_##name,
    LUO_FILE_DTYPE_LIST(LUO_FILE_DTYPE_ENUM)
#undef LUO_FILE_DTYPE_ENUM
        LUO_FILE_DTYPES
} luo_file_dtype;
const char *luo_file_dtype_name(luo_file_dtype t); /* "BF16" */
int64_t luo_file_dtype_bytes(luo_file_dtype t);

typedef struct luo_file_tensor {
    const char *name;
    luo_file_dtype dtype;
    int32_t rank;
    int64_t dim[LUO_RANK_MAX];
    int64_t begin, end; /* bytes behind the head */
    bool summed;        /* the file has a checksum of it: */
    uint32_t checksum;
    int32_t part; /* of a model in several files: which one; else 0 */
} luo_file_tensor;

typedef struct luo_safetensors {
    int32_t n;
    const luo_file_tensor *at; /* by name */
    int64_t data;              /* bytes in front of the first tensor */
} luo_safetensors;

/* Reads the head of a whole file of n bytes; the tensors themselves are not touched.
 * Errors: LUO_EPARSE the head is no JSON; LUO_EINPUT anything else that is wrong, by name: length,
 * keys, dtype, dimensions, size, offsets, gaps, overlaps, checksums of some tensors only;
 * LUO_ENOMEM.
 * Owner: arena. Cost: O(head log tensors). */
luo_status luo_safetensors_read(luo_arena *arena, const void *file, size_t n, luo_safetensors *out,
                                luo_err *err);
/* NULL: there is none of that name. */
const luo_file_tensor *luo_safetensors_find(const luo_safetensors *safetensors, const char *name);

/* Sets begin and end of at[0..n), which follow one another in that order, and appends length and
 * head, filled with blanks to a multiple of 8 bytes. Same tensors, same bytes; the length does not
 * depend on what the checksums are. */
void luo_safetensors_head(luo_str *out, luo_file_tensor *at, int32_t n);
#endif
