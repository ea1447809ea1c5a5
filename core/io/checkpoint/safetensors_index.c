#include "core/io/checkpoint/safetensors_index.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static int by_tensor(const void *a, const void *b)
{
    const luo_tensor_place *x = a, *y = b;
    return strcmp(x->tensor, y->tensor);
}

static int by_text(const void *a, const void *b)
{
    const char *const *x = a, *const *y = b;
    return strcmp(*x, *y);
}

/* Files lie beside the index; a way to somewhere else is none of its. */
static bool plain_name(const char *file)
{
    return file && *file && !strchr(file, '/') && strcmp(file, ".") != 0 && strcmp(file, "..") != 0;
}

static luo_status take_places(luo_arena *arena, const json_t *map, luo_tensor_place *at,
                              luo_err *err)
{
    const char *tensor;
    json_t *v;
    int32_t n = 0;
    json_object_foreach((json_t *)map, tensor, v)
    {
        const char *file = json_string_value(v);
        if (!plain_name(file))
            return luo_err_set(err, LUO_EINPUT,
                               "`%.80s` in `weight_map` is no name of a file; one beside the index "
                               "is expected.",
                               tensor);
        at[n] = (luo_tensor_place){luo_arena_strdup(arena, tensor), luo_arena_strdup(arena, file)};
        if (!at[n].tensor || !at[n].file) return luo_err_nomem(err);
        n++;
    }
    return LUO_OK;
}

static luo_status take_map(luo_arena *arena, const json_t *root, luo_safetensors_index *out,
                           luo_err *err)
{
    const json_t *map = json_object_get(root, "weight_map");
    const size_t n = json_object_size(map);
    if (n == 0)
        return luo_err_set(err, LUO_EINPUT,
                           "this is JSON without a `weight_map`; a safetensors file, or the index "
                           "of several, is expected.");
    luo_tensor_place *at = LUO_NEW_N(arena, luo_tensor_place, n);
    const char **files = LUO_NEW_N(arena, const char *, n);
    int32_t nfiles = 0;
    if (!at || !files) return luo_err_nomem(err);
    LUO_TRY(take_places(arena, map, at, err));
    for (size_t i = 0; i < n; i++) files[i] = at[i].file;
    qsort(at, n, sizeof *at, by_tensor);
    qsort(files, n, sizeof *files, by_text);
    for (size_t i = 0; i < n; i++)
        if (nfiles == 0 || strcmp(files[i], files[nfiles - 1]) != 0) files[nfiles++] = files[i];
    *out = (luo_safetensors_index){(int32_t)n, nfiles, at, files};
    return LUO_OK;
}

luo_status luo_safetensors_index_read(luo_arena *arena, const char *text, size_t n,
                                      luo_safetensors_index *out, luo_err *err)
{
    json_error_t e;
    json_t *root = json_loadb(text, n, JSON_REJECT_DUPLICATES, &e);
    if (!root && json_error_code(&e) == json_error_out_of_memory) return luo_err_nomem(err);
    if (!root)
        return luo_err_set(err, LUO_EPARSE,
                           "this begins like JSON and is none at line %d (%s); a safetensors file, "
                           "or the index of several, is expected.",
                           e.line, e.text);
    const luo_status st = take_map(arena, root, out, err);
    json_decref(root);
    return st;
}
