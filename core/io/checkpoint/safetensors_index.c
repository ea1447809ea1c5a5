#include "core/io/checkpoint/safetensors_index.h"

#include <stdlib.h>
#include <string.h>

#include "core/io/document/doc.h"

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

static luo_status take_places(luo_arena *arena, const luo_doc_node *map, luo_tensor_place *at,
                              luo_err *err)
{
    for (const luo_doc_node *node = map->first; node; node = node->next, at++) {
        if (!node->quoted || !plain_name(node->text))
            return luo_err_set(err, LUO_EINPUT,
                               "`%.80s` in `weight_map` is no name of a file; one beside the index "
                               "is expected.",
                               node->key);
        *at = (luo_tensor_place){luo_arena_strdup(arena, node->key),
                                 luo_arena_strdup(arena, node->text)};
        if (!at->tensor || !at->file) return luo_err_nomem(err);
    }
    return LUO_OK;
}

static luo_status take_map(luo_arena *arena, const luo_doc_node *root, luo_safetensors_index *out,
                           luo_err *err)
{
    const luo_doc_node *map = luo_doc_get(root, "weight_map");
    const size_t n = map && map->type == LUO_DOC_MAP ? (size_t)map->n : 0;
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

static luo_status read_index(luo_arena *arena, luo_arena *scratch, const char *text, size_t n,
                             luo_safetensors_index *out, luo_err *err)
{
    const luo_doc_node *root = NULL;
    luo_err why;
    const luo_status st = luo_doc_tree(scratch, text, n, &root, &why);
    if (st == LUO_ENOMEM) return luo_err_nomem(err);
    if (st == LUO_OK) return take_map(arena, root, out, err);
    return luo_err_set(err, LUO_EPARSE,
                       "this begins like JSON and is none at line %d, column %d: %s", why.line,
                       why.col, why.text);
}

luo_status luo_safetensors_index_read(luo_arena *arena, const char *text, size_t n,
                                      luo_safetensors_index *out, luo_err *err)
{
    luo_arena *scratch = luo_arena_new(0);
    const luo_status st =
        scratch ? read_index(arena, scratch, text, n, out, err) : luo_err_nomem(err);
    luo_arena_free(scratch);
    return st;
}
