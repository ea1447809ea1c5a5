#include "core/io/checkpoint/safetensors_head.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/io/document/doc.h"
#include "core/io/jsonw.h"

#define HEAD_BYTES_MAX UINT64_C(100000000) /* the limit of the format's own reader */

const char *luo_file_dtype_name(luo_file_dtype t)
{
    static const char *const names[] = {
#define NAME(name, bytes) #name,
        LUO_FILE_DTYPE_LIST(NAME)
#undef NAME
    };
    return t < LUO_FILE_DTYPES ? names[t] : "?";
}

int64_t luo_file_dtype_bytes(luo_file_dtype t)
{
    static const int64_t sizes[] = {
#define SIZE(name, bytes) bytes,
        LUO_FILE_DTYPE_LIST(SIZE)
#undef SIZE
    };
    return t < LUO_FILE_DTYPES ? sizes[t] : 0;
}

/* ---- one tensor ---- */

static luo_status wrong(luo_err *err, const char *name, const char *what)
{
    return luo_err_set(err, LUO_EINPUT, "tensor `%.80s`: %s.", name, what);
}

static luo_status take_dtype(const luo_doc_node *node, luo_file_tensor *tensor, luo_err *err)
{
    if (!node || !node->quoted)
        return wrong(err, tensor->name, "no `dtype` is given; a text such as `F32` is expected");
    for (int k = 0; k < LUO_FILE_DTYPES; k++)
        if (strcmp(node->text, luo_file_dtype_name((luo_file_dtype)k)) == 0) {
            tensor->dtype = (luo_file_dtype)k;
            return LUO_OK;
        }
    return luo_err_set(
        err, LUO_EINPUT,
        "tensor `%.80s`: unknown `dtype` `%.20s`; F32, F64, F16 or BF16 is expected.", tensor->name,
        node->text);
}

/* A whole number from 0 to below limit; -1: it is not. */
static int64_t whole(const luo_doc_node *node, int64_t limit)
{
    int64_t n = -1;
    return luo_doc_int(node, &n) && n < limit ? n : -1;
}

static luo_status take_shape(const luo_doc_node *node, luo_file_tensor *tensor, luo_err *err)
{
    if (!node || node->type != LUO_DOC_LIST)
        return wrong(err, tensor->name, "no `shape` is given; a list of dimensions is expected");
    if (node->n > LUO_RANK_MAX)
        return luo_err_set(err, LUO_EINPUT,
                           "tensor `%.80s`: `shape` has %d dimensions; up to %d are expected.",
                           tensor->name, node->n, LUO_RANK_MAX);
    tensor->rank = node->n;
    const luo_doc_node *x = node->first;
    for (int32_t d = 0; d < tensor->rank; d++, x = x->next) {
        tensor->dim[d] = whole(x, LUO_DIM_LIMIT);
        if (tensor->dim[d] < 0)
            return luo_err_set(err, LUO_EINPUT,
                               "tensor `%.80s`: dimension %d of `shape` is no whole number from 0 "
                               "to below 2^40; one is expected.",
                               tensor->name, d);
    }
    return LUO_OK;
}

/* Bytes that the shape needs; -1: more than 64 bits hold. */
static int64_t bytes_of(const luo_file_tensor *tensor)
{
    int64_t n = luo_file_dtype_bytes(tensor->dtype);
    for (int32_t d = 0; d < tensor->rank; d++)
        if (tensor->dim[d] == 0) return 0;
    for (int32_t d = 0; d < tensor->rank; d++) {
        if (n > INT64_MAX / tensor->dim[d]) return -1;
        n *= tensor->dim[d];
    }
    return n;
}

static luo_status take_offsets(const luo_doc_node *node, int64_t room, luo_file_tensor *tensor,
                               luo_err *err)
{
    if (!node || node->type != LUO_DOC_LIST || node->n != 2)
        return wrong(err, tensor->name,
                     "no `data_offsets` are given; a begin and an end are expected");
    tensor->begin = whole(node->first, INT64_MAX);
    tensor->end = whole(node->last, INT64_MAX);
    if (tensor->begin < 0 || tensor->end < tensor->begin)
        return wrong(err, tensor->name,
                     "its `data_offsets` are no begin and end; two whole numbers that "
                     "do not descend are expected");
    if (tensor->end > room)
        return luo_err_set(err, LUO_EINPUT,
                           "tensor `%.80s` ends at byte %" PRId64 " behind the head; the file has "
                           "%" PRId64 " there.",
                           tensor->name, tensor->end, room);
    const int64_t need = bytes_of(tensor);
    if (need < 0)
        return wrong(err, tensor->name, "its shape is too large; below 2^63 bytes are expected");
    if (tensor->end - tensor->begin == need) return LUO_OK;
    return luo_err_set(err, LUO_EINPUT,
                       "tensor `%.80s` has %" PRId64 " bytes of data; its shape and dtype need "
                       "%" PRId64 ".",
                       tensor->name, tensor->end - tensor->begin, need);
}

static luo_status take_tensor(luo_arena *arena, const luo_doc_node *node, int64_t room,
                              luo_file_tensor *tensor, luo_err *err)
{
    static const char *const keys[] = {"dtype", "shape", "data_offsets"};
    const luo_doc_node *given[3] = {NULL};
    *tensor = (luo_file_tensor){.name = luo_arena_strdup(arena, node->key)};
    if (!tensor->name) return luo_err_nomem(err);
    if (node->type != LUO_DOC_MAP)
        return wrong(err, tensor->name,
                     "no object stands here; one of `dtype`, `shape` and "
                     "`data_offsets` is expected");
    for (const luo_doc_node *x = node->first; x; x = x->next) {
        int k = 0;
        while (k < 3 && strcmp(x->key, keys[k]) != 0) k++;
        if (k == 3)
            return luo_err_set(err, LUO_EINPUT,
                               "tensor `%.80s`: unknown key `%.40s`; `dtype`, `shape` and "
                               "`data_offsets` are expected.",
                               tensor->name, x->key);
        given[k] = x;
    }
    LUO_TRY(take_dtype(given[0], tensor, err));
    LUO_TRY(take_shape(given[1], tensor, err));
    return take_offsets(given[2], room, tensor, err);
}

/* ---- all of them ---- */

static luo_status check_metadata(const luo_doc_node *node, luo_err *err)
{
    if (node->type != LUO_DOC_MAP)
        return luo_err_set(err, LUO_EINPUT,
                           "`__metadata__` is no object; one of texts is expected.");
    for (const luo_doc_node *x = node->first; x; x = x->next)
        if (!x->quoted)
            return luo_err_set(err, LUO_EINPUT,
                               "`%.40s` in `__metadata__` is no text; one is expected.", x->key);
    return LUO_OK;
}

static int by_place(const void *a, const void *b)
{
    const luo_file_tensor *tensor = a, *file_tensor = b;
    if (tensor->begin != file_tensor->begin) return tensor->begin < file_tensor->begin ? -1 : 1;
    return tensor->end != file_tensor->end ? (tensor->end < file_tensor->end ? -1 : 1)
                                           : strcmp(tensor->name, file_tensor->name);
}

static int by_name(const void *a, const void *b)
{
    const luo_file_tensor *tensor = a, *file_tensor = b;
    return strcmp(tensor->name, file_tensor->name);
}

static luo_status check_places(luo_file_tensor *at, int32_t n, int64_t room, luo_err *err)
{
    int64_t end = 0;
    qsort(at, (size_t)n, sizeof *at, by_place);
    for (int32_t i = 0; i < n; i++) {
        if (at[i].begin != end)
            return luo_err_set(err, LUO_EINPUT,
                               "tensor `%.80s` begins at byte %" PRId64 " behind the head; %" PRId64
                               " is expected, where the one before ends.",
                               at[i].name, at[i].begin, end);
        end = at[i].end;
    }
    if (end == room) return LUO_OK;
    return luo_err_set(err, LUO_EINPUT,
                       "the tensors end at byte %" PRId64 " behind the head; the file has %" PRId64
                       " there.",
                       end, room);
}

/* ---- checksums ---- */

static const char sum_key[] = "crc32:";

static luo_status take_sum(luo_file_tensor *tensor, const char *text, luo_err *err)
{
    if (strlen(text) != 8 || strspn(text, "0123456789abcdef") != 8)
        return wrong(err, tensor->name,
                     "its checksum in `__metadata__` is none; 8 hexadecimal digits "
                     "are expected");
    tensor->checksum = (uint32_t)strtoul(text, NULL, 16);
    tensor->summed = true;
    return LUO_OK;
}

/* Of all tensors or of none: a damaged key would hide what it guards. at[0..n): by name. */
static luo_status take_sums(const luo_doc_node *metadata, luo_file_tensor *at, int32_t n,
                            luo_err *err)
{
    int32_t found = 0;
    for (const luo_doc_node *node = metadata ? metadata->first : NULL; node; node = node->next) {
        if (strncmp(node->key, sum_key, sizeof sum_key - 1) != 0) continue;
        const luo_file_tensor name = {.name = node->key + sizeof sum_key - 1};
        luo_file_tensor *tensor = n ? bsearch(&name, at, (size_t)n, sizeof *at, by_name) : NULL;
        if (!tensor) return wrong(err, name.name, "it has a checksum and is not there");
        LUO_TRY(take_sum(tensor, node->text, err));
        found++;
    }
    for (int32_t i = 0; found > 0 && i < n; i++)
        if (!at[i].summed) return wrong(err, at[i].name, "it has no checksum and others have one");
    return LUO_OK;
}

static luo_status take_all(luo_arena *arena, const luo_doc_node *root, int64_t room,
                           luo_safetensors *out, luo_err *err)
{
    const luo_doc_node *metadata = NULL;
    int32_t n = 0;
    if (root->type != LUO_DOC_MAP)
        return luo_err_set(err, LUO_EINPUT,
                           "the head holds no object; one of tensors is expected.");
    luo_file_tensor *at = LUO_NEW_N(arena, luo_file_tensor, root->n);
    if (!at) return luo_err_nomem(err);
    for (const luo_doc_node *node = root->first; node; node = node->next) {
        if (strcmp(node->key, "__metadata__") == 0) {
            LUO_TRY(check_metadata(node, err));
            metadata = node;
        } else {
            LUO_TRY(take_tensor(arena, node, room, &at[n++], err));
        }
    }
    LUO_TRY(check_places(at, n, room, err));
    qsort(at, (size_t)n, sizeof *at, by_name);
    LUO_TRY(take_sums(metadata, at, n, err));
    out->n = n;
    out->at = at;
    return LUO_OK;
}

static luo_status head_length(const unsigned char *p, size_t n, uint64_t *out, luo_err *err)
{
    uint64_t length = 0;
    if (n < 8)
        return luo_err_set(err, LUO_EINPUT,
                           "the file has %zu bytes; a safetensors file begins with 8 bytes that "
                           "tell the length of its head.",
                           n);
    for (int i = 7; i >= 0; i--) length = length << 8 | p[i];
    if (length > n - 8)
        return luo_err_set(err, LUO_EINPUT,
                           "the head is said to have %" PRIu64 " bytes; the file has %zu behind "
                           "that number.",
                           length, n - 8);
    if (length > HEAD_BYTES_MAX)
        return luo_err_set(err, LUO_EINPUT,
                           "the head has %" PRIu64 " bytes; up to %" PRIu64 " are expected.",
                           length, HEAD_BYTES_MAX);
    *out = length;
    return LUO_OK;
}

static luo_status read_head(luo_arena *arena, luo_arena *scratch, const void *file, size_t n,
                            luo_safetensors *out, luo_err *err)
{
    uint64_t length = 0;
    const luo_doc_node *root = NULL;
    luo_err why;
    LUO_TRY(head_length(file, n, &length, err));
    const luo_status st =
        luo_doc_tree(scratch, (const char *)file + 8, (size_t)length, &root, &why);
    if (st == LUO_ENOMEM) return luo_err_nomem(err);
    if (st != LUO_OK)
        return luo_err_set(err, LUO_EPARSE, "the head is no JSON at line %d, column %d: %s",
                           why.line, why.col, why.text);
    luo_safetensors safetensors = {.data = 8 + (int64_t)length};
    LUO_TRY(take_all(arena, root, (int64_t)(n - 8 - (size_t)length), &safetensors, err));
    *out = safetensors;
    return LUO_OK;
}

luo_status luo_safetensors_read(luo_arena *arena, const void *file, size_t n, luo_safetensors *out,
                                luo_err *err)
{
    luo_arena *scratch = luo_arena_new(0);
    const luo_status st = scratch ? read_head(arena, scratch, file, n, out, err)
                                  : luo_err_nomem(err);
    luo_arena_free(scratch);
    return st;
}

const luo_file_tensor *luo_safetensors_find(const luo_safetensors *safetensors, const char *name)
{
    const luo_file_tensor key = {.name = name};
    if (!safetensors->n) return NULL;
    return bsearch(&key, safetensors->at, (size_t)safetensors->n, sizeof key, by_name);
}

/* ---- writing ---- */

static void put_tensor(luo_str *text, const luo_file_tensor *tensor)
{
    luo_str_addc(text, ',');
    luo_jsonw_quote(text, tensor->name);
    luo_str_addf(text, ":{\"dtype\":\"%s\",\"shape\":[", luo_file_dtype_name(tensor->dtype));
    for (int32_t d = 0; d < tensor->rank; d++)
        luo_str_addf(text, "%s%" PRId64, d ? "," : "", tensor->dim[d]);
    luo_str_addf(text, "],\"data_offsets\":[%" PRId64 ",%" PRId64 "]}", tensor->begin, tensor->end);
}

static void put_sum(luo_str *text, const luo_file_tensor *tensor)
{
    luo_str key = {0};
    luo_str_addf(&key, "%s%s", sum_key, tensor->name);
    luo_str_addc(text, ',');
    luo_jsonw_quote(text, luo_str_get(&key));
    luo_str_addf(text, ":\"%08" PRIx32 "\"", tensor->checksum);
    if (key.failed) text->failed = true;
    luo_str_free(&key);
}

void luo_safetensors_head(luo_str *out, luo_file_tensor *at, int32_t n)
{
    luo_str text = {0};
    char length[8];
    int64_t end = 0;
    /* Readers of Hugging Face want to know the library; `pt` is what all of them take. */
    luo_str_add(&text, "{\"__metadata__\":{\"format\":\"pt\"");
    for (int32_t i = 0; i < n; i++)
        if (at[i].summed) put_sum(&text, &at[i]);
    luo_str_addc(&text, '}');
    for (int32_t i = 0; i < n; i++) {
        at[i].begin = end;
        at[i].end = end += bytes_of(&at[i]);
        put_tensor(&text, &at[i]);
    }
    luo_str_addc(&text, '}');
    while (!text.failed && text.len % 8) luo_str_addc(&text, ' ');
    for (int i = 0; i < 8; i++) length[i] = (char)((uint64_t)text.len >> 8 * i);
    luo_str_addn(out, length, sizeof length);
    luo_str_addn(out, luo_str_get(&text), text.len);
    if (text.failed) out->failed = true;
    luo_str_free(&text);
}
