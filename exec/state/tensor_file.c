/* tensor_file.c: safetensors files that are read: one, or the several that an index names. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/io/checksum.h"
#include "core/io/document/input.h"
#include "core/io/checkpoint/safetensors_index.h"
#include "exec/state/tensor_file.h"

/* ---- mapping ---- */

static const char wanted[] = "a safetensors file";

static luo_status map_file(int fd, luo_tensor_part *part, luo_err *err)
{
    struct stat info;
    if (fstat(fd, &info) != 0) return luo_input_unreadable(part->path, err);
    part->bytes = (size_t)info.st_size;
    if (!part->bytes) return LUO_OK; /* cannot be mapped; too short, as the reader will say */
    void *at = mmap(NULL, part->bytes, PROT_READ, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED)
        return errno == ENOMEM ? luo_err_nomem(err) : luo_input_unreadable(part->path, err);
    part->map = at;
    return LUO_OK;
}

static luo_status map_part(luo_arena *arena, const char *path, luo_tensor_part *part, luo_err *err)
{
    int fd;
    *part = (luo_tensor_part){.path = luo_arena_strdup(arena, path)};
    if (!part->path) return luo_err_nomem(err);
    LUO_TRY(luo_input_open(path, LUO_INPUT_FILE, wanted, &fd, err));
    const luo_status st = map_file(fd, part, err);
    close(fd);
    return st;
}

void luo_tensor_file_close(luo_tensor_file *file)
{
    for (int32_t i = 0; i < file->nparts; i++)
        if (file->parts[i].map) munmap((void *)file->parts[i].map, file->parts[i].bytes);
    file->nparts = 0;
}

/* ---- one file ---- */

static luo_status read_part(luo_arena *arena, luo_tensor_part *part, luo_safetensors *head,
                            luo_err *err)
{
    const luo_status st = luo_safetensors_read(
        arena, part->map ? part->map : (const unsigned char *)"", part->bytes, head, err);
    if (st == LUO_OK) part->data = head->data;
    return st == LUO_ENOMEM ? st : luo_err_prefix(err, st, "`%s`", part->path);
}

/* As the length of a head, JSON would say 2^56 bytes and more. */
static bool is_json(const luo_tensor_part *part)
{
    return part->bytes >= 8 && part->map[0] == '{' && part->map[7] != 0;
}

/* ---- several ---- */

static int by_name(const void *a, const void *b)
{
    const luo_file_tensor *tensor = a, *file_tensor = b;
    return strcmp(tensor->name, file_tensor->name);
}

static luo_status no_room(luo_err *err, const char *path, const char *tensor, const char *what)
{
    return luo_err_set(err, LUO_EINPUT,
                       "`%s`: tensor `%.80s` %s; an index and files that belong together are "
                       "expected.",
                       path, tensor, what);
}

/* The tensors of all files, and each where the index says. */
static luo_status join_heads(luo_arena *arena, const luo_safetensors_index *index,
                             const luo_safetensors *heads, luo_tensor_file *file, luo_err *err)
{
    int32_t n = 0;
    for (int32_t i = 0; i < index->nfiles; i++) n += heads[i].n;
    luo_file_tensor *at = LUO_NEW_N(arena, luo_file_tensor, n > 0 ? n : 1);
    if (!at) return luo_err_nomem(err);
    n = 0;
    for (int32_t i = 0; i < index->nfiles; i++)
        for (int32_t k = 0; k < heads[i].n; k++) {
            at[n] = heads[i].at[k];
            at[n++].part = i;
        }
    if (n > 0) qsort(at, (size_t)n, sizeof *at, by_name);
    file->head = (luo_safetensors){.n = n, .at = at};
    for (int32_t i = 1; i < n; i++)
        if (strcmp(at[i - 1].name, at[i].name) == 0)
            return no_room(err, file->path, at[i].name, "is in two of its files");
    for (int32_t i = 0; i < index->n; i++) {
        const luo_file_tensor *tensor = luo_safetensors_find(&file->head, index->at[i].tensor);
        if (!tensor || strcmp(index->files[tensor->part], index->at[i].file) != 0)
            return no_room(err, file->path, index->at[i].tensor,
                           "is not in the file that it names");
    }
    return LUO_OK;
}

static luo_status open_parts(luo_arena *arena, const luo_safetensors_index *index,
                             luo_tensor_file *file, luo_err *err)
{
    const char *slash = strrchr(file->path, '/');
    const int folder = slash ? (int)(slash - file->path) + 1 : 0;
    luo_safetensors *heads = LUO_NEW_N(arena, luo_safetensors, index->nfiles);
    file->parts = LUO_NEW_N(arena, luo_tensor_part, index->nfiles);
    if (!heads || !file->parts) return luo_err_nomem(err);
    for (int32_t i = 0; i < index->nfiles; i++) {
        luo_tensor_part *part = &file->parts[file->nparts];
        const char *path = luo_arena_printf(arena, "%.*s%s", folder, file->path, index->files[i]);
        if (!path) return luo_err_nomem(err);
        LUO_TRY(map_part(arena, path, part, err));
        file->nparts++;
        LUO_TRY(read_part(arena, part, &heads[i], err));
        part->before = (int64_t)file->bytes;
        file->bytes += part->bytes;
    }
    return join_heads(arena, index, heads, file, err);
}

static luo_status open_index(luo_arena *arena, luo_tensor_part *text, luo_tensor_file *file,
                             luo_err *err)
{
    luo_safetensors_index index;
    const luo_status st =
        luo_safetensors_index_read(arena, (const char *)text->map, text->bytes, &index, err);
    if (st != LUO_OK) return st == LUO_ENOMEM ? st : luo_err_prefix(err, st, "`%s`", file->path);
    return open_parts(arena, &index, file, err);
}

/* ---- any ---- */

static luo_status open_file(luo_arena *arena, luo_tensor_file *file, luo_err *err)
{
    luo_tensor_part *whole = LUO_NEW(arena, luo_tensor_part);
    if (!whole || !file->path) return luo_err_nomem(err);
    LUO_TRY(map_part(arena, file->path, whole, err));
    if (is_json(whole)) {
        const luo_status st = open_index(arena, whole, file, err);
        munmap((void *)whole->map, whole->bytes);
        return st;
    }
    file->parts = whole;
    file->nparts = 1;
    file->bytes = whole->bytes;
    return read_part(arena, whole, &file->head, err);
}

luo_status luo_tensor_file_open(luo_arena *arena, const char *path, luo_tensor_file *out,
                                luo_err *err)
{
    luo_tensor_file file = {.path = luo_arena_strdup(arena, path)};
    const luo_status st = open_file(arena, &file, err);
    if (st != LUO_OK)
        luo_tensor_file_close(&file);
    else
        *out = file;
    return st;
}

/* ---- checksums ---- */

/* Tensors of about the same number of bytes for each rank, neighbours together. */
static bool in_share(const luo_tensor_file *file, const luo_file_tensor *tensor, luo_share share)
{
    const int64_t each = (int64_t)file->bytes / share.ranks + 1;
    return (file->parts[tensor->part].before + tensor->begin) / each == share.rank;
}

luo_status luo_tensor_file_verify(const luo_tensor_file *file, luo_share share, luo_err *err)
{
    for (int32_t i = 0; i < file->head.n; i++) {
        const luo_file_tensor *tensor = &file->head.at[i];
        if (!tensor->summed || !in_share(file, tensor, share)) continue;
        const uint32_t sum = luo_checksum(0, luo_tensor_file_at(file, tensor),
                                          (size_t)(tensor->end - tensor->begin));
        if (share.done) ++*share.done;
        if (sum != tensor->checksum)
            return luo_err_set(err, LUO_EINPUT,
                               "tensor `%.80s` of `%s` is damaged: its bytes have checksum "
                               "%08" PRIx32 "; %08" PRIx32 " was written with them.",
                               tensor->name, luo_tensor_file_path(file, tensor), sum,
                               tensor->checksum);
    }
    return LUO_OK;
}
