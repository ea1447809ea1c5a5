#include <string.h>
#include <unistd.h>

#include "core/io/checksum.h"
#include "core/io/files.h"
#include "exec/state/tensor_file.h"

/* ---- numbers ---- */

static double half_of(uint16_t v)
{
    const int exponent = v >> 10 & 31;
    const double sign = v >> 15 ? -1 : 1, fraction = v & 1023;
    if (exponent == 31) return fraction > 0 ? __builtin_nan("") : sign * __builtin_inf();
    if (exponent == 0) return sign * fraction * 0x1p-24;
    return sign * (1024 + fraction) *
           (exponent < 25 ? 1.0 / (double)(1 << (25 - exponent)) : (double)(1 << (exponent - 25)));
}

/* Offsets in a file need not be multiples of anything. */
static double number_at(luo_file_dtype dtype, const unsigned char *p)
{
    uint16_t u16;
    uint32_t u32;
    float f;
    double d;
    switch (dtype) {
    case LUO_FILE_F32:
        memcpy(&f, p, sizeof f);
        return (double)f;
    case LUO_FILE_F64:
        memcpy(&d, p, sizeof d);
        return d;
    case LUO_FILE_F16:
        memcpy(&u16, p, sizeof u16);
        return half_of(u16);
    case LUO_FILE_BF16:
        memcpy(&u16, p, sizeof u16);
        u32 = (uint32_t)u16 << 16;
        memcpy(&f, &u32, sizeof f);
        return (double)f;
    case LUO_FILE_BOOL:
    case LUO_FILE_U8:
    case LUO_FILE_I8:
    case LUO_FILE_F8_E5M2:
    case LUO_FILE_F8_E4M3:
    case LUO_FILE_U16:
    case LUO_FILE_I16:
    case LUO_FILE_U32:
    case LUO_FILE_I32:
    case LUO_FILE_U64:
    case LUO_FILE_I64:
    case LUO_FILE_DTYPES:
        break;
    }
    return __builtin_nan(""); /* luo_state_load takes none of these */
}

void luo_tensor_take(luo_file_dtype dtype, const unsigned char *from, int64_t stride, int64_t n,
                     size_t elem, void *to)
{
    const int64_t size = luo_file_dtype_bytes(dtype);
    if (stride == 1 && size == (int64_t)elem) {
        memcpy(to, from, (size_t)n * elem);
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        const double v = number_at(dtype, from + i * stride * size);
        if (elem == sizeof(float))
            ((float *)to)[i] = (float)v;
        else
            ((double *)to)[i] = v;
    }
}

/* ---- writing ---- */

/* The checksums of tensors that these bytes belong to. */
static void add_up(luo_tensor_writer *writer, const char *from, int64_t n)
{
    while (n > 0 && writer->next < writer->n) {
        luo_file_tensor *tensor = &writer->at[writer->next];
        const int64_t left = tensor->end - writer->done, k = left < n ? left : n;
        tensor->checksum = luo_checksum(tensor->checksum, from, (size_t)k);
        from += k;
        n -= k;
        writer->done += k;
        writer->next += writer->done == tensor->end;
    }
}

luo_status luo_tensor_writer_put(luo_tensor_writer *writer, const void *bytes, size_t n,
                                 luo_err *err)
{
    LUO_TRY(luo_replace_put(&writer->file, bytes, n, err));
    add_up(writer, bytes, (int64_t)n);
    return LUO_OK;
}

static luo_status put_head(luo_tensor_writer *writer, luo_err *err)
{
    luo_str head = {0};
    luo_safetensors_head(&head, writer->at, writer->n);
    const luo_status st =
        head.failed ? luo_err_nomem(err) : luo_replace_put(&writer->file, head.at, head.len, err);
    luo_str_free(&head);
    return st;
}

luo_status luo_tensor_writer_open(luo_tensor_writer *writer, const char *path, luo_file_tensor *at,
                                  int32_t n, luo_err *err)
{
    *writer = (luo_tensor_writer){.at = at, .n = n};
    LUO_TRY(luo_replace_open_own(&writer->file, path, err));
    writer->file.durable = true;
    for (int32_t i = 0; i < n; i++) {
        at[i].summed = writer->file.final != NULL; /* not of what is written through */
        at[i].checksum = 0;
    }
    const luo_status st = put_head(writer, err);
    if (st != LUO_OK) luo_replace_close(&writer->file, false, NULL);
    return st;
}

/* The head again, which is as long now that the checksums are known. */
static luo_status complete_head(luo_tensor_writer *writer, luo_err *err)
{
    if (writer->file.fd < 0 || !writer->file.final) return LUO_OK;
    if (lseek(writer->file.fd, 0, SEEK_SET) != 0)
        return luo_io_err(err, "write", writer->file.path);
    return put_head(writer, err);
}

luo_status luo_tensor_writer_close(luo_tensor_writer *writer, bool good, luo_err *err)
{
    const luo_status st = good ? complete_head(writer, err) : LUO_OK;
    const luo_status closed =
        luo_replace_close(&writer->file, good && st == LUO_OK, st == LUO_OK ? err : NULL);
    return st == LUO_OK ? closed : st;
}
