/* dsjson_file.c: a whole ds_parallel_config file: its entries as annotations, the rest of
 * it kept as it is (docs/annotations.md). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/parked/dsjson_internal.h"

typedef struct walk {
    luo_doc doc;
    luo_dsjson *file;
    int32_t n, cap, first, last; /* items; blocks of the range being walked */
} walk;

/* ---- dimensions: JSON names those of an [in, out] matrix, ours is stored [out, in] ---- */

static bool turned(const char *name)
{
    return strcmp(name, "qkv") == 0 || strcmp(name, "dense_h_to_4h") == 0 ||
           strcmp(name, "lm_head") == 0;
}

static const luo_ann *turn(luo_arena *arena, const luo_ann *a)
{
    luo_ann b = *a;
    luo_grp *g = LUO_NEW_N(arena, luo_grp, a->u);
    for (int32_t u = 0; g && u < a->u; u++) {
        luo_ent *ent = LUO_NEW_N(arena, luo_ent, a->grp[u].nent);
        if (!ent) return NULL;
        g[u] = a->grp[u];
        for (int32_t k = 0; k < g[u].nent; k++) {
            ent[k] = a->grp[u].ent[k];
            if (ent[k].key == 0 || ent[k].key == 1) ent[k].key = 1 - ent[k].key;
        }
        g[u].ent = ent;
    }
    b.grp = g;
    return g ? luo_ann_canonical(arena, &b) : NULL;
}

/* ---- reading ---- */

static void take_item(walk *w, const luo_doc_node *x, const char *path)
{
    luo_err err;
    luo_arena *arena = w->doc.arena;
    luo_ds_item item = {.first = w->first, .last = w->last};
    const luo_status st = luo_dsjson_take_entry(arena, x, x->key, &item.ann, &item.type, &err);
    if (st == LUO_ENOMEM)
        luo_doc_nomem(&w->doc);
    else if (st != LUO_OK)
        luo_doc_error(&w->doc, x, "%s", err.text);
    if (st != LUO_OK) return;
    if (turned(x->key)) item.ann = turn(arena, item.ann);
    item.path = luo_arena_strdup(arena, path);
    item.name = x->key;
    if (w->n == w->cap) {
        const size_t old = (size_t)w->cap * sizeof item;
        w->file->items = luo_arena_grow(arena, w->file->items, old, 2 * old + 16 * sizeof item);
        w->cap = 2 * w->cap + 16;
    }
    if (!item.ann || !item.path || !w->file->items) {
        luo_doc_nomem(&w->doc);
        return;
    }
    w->file->items[w->n++] = item;
    w->file->n = w->n;
}

static bool known(const char *key, const char *const *keys)
{
    for (; *keys; keys++)
        if (strcmp(*keys, key) == 0) return true;
    return false;
}

static void warn_unknown(walk *w, const luo_doc_node *map, const char *const *keys)
{
    for (const luo_doc_node *x = map ? map->first : NULL; x; x = x->next)
        if (x->key && !known(x->key, keys))
            luo_diags_add(w->doc.diags, LUO_WARNING, LUO_OK, w->doc.src->name, x->key_line,
                          x->key_col, "unknown key `%.80s`; it is kept as it is.", x->key);
}

static void entry(walk *w, const luo_doc_node *up, const char *prefix, const char *name)
{
    char path[160];
    const luo_doc_node *x = luo_doc_get(up, name);
    if (!x || w->doc.st == LUO_ENOMEM) return;
    snprintf(path, sizeof path, "%s%s", prefix, name);
    take_item(w, x, path);
}

static int32_t number(walk *w, const luo_doc_node *x, int32_t least, int32_t most)
{
    int64_t v = -1;
    if (luo_doc_int(x, &v) && v >= least && v <= most) return (int32_t)v;
    luo_doc_error(&w->doc, x, "a whole number from %d to %d is expected.", least, most);
    return least;
}

static void read_range(walk *w, const luo_doc_node *block)
{
    const luo_doc_node *x = luo_doc_get(block, "range");
    if (!x || x->type != LUO_DOC_LIST) {
        luo_doc_error(&w->doc, x ? x : block,
                      "key `range` is missing; [N] or [first,..,last] is "
                      "expected.");
    } else if (x->n == 0) {
        luo_doc_error(&w->doc, x, "`range` is empty; at least 1 is expected.");
    } else {
        w->first = number(w, x->first, 0, 65535);
        w->last = number(w, x->last, w->first, 65535);
    }
}

static bool any_true(const luo_doc_node *x)
{
    for (const luo_doc_node *y = x ? x->first : NULL; y; y = y->next)
        if (any_true(y)) return true;
    return luo_doc_is(x, "true");
}

static void block(walk *w, const luo_doc_node *x)
{
    static const char *const keys[] = {"range", "recompute", "output_recompute", "cpu_offload",
                                       "rmsnorm1", "attn", "rmsnorm2", "mlp", NULL};
    static const char *const attn[] = {"qkv", "dense", NULL};
    static const char *const mlp[] = {"dense_h_to_4h", "dense_4h_to_h", "activation_func", NULL};
    char prefix[100];
    const luo_doc_node *a = luo_doc_get(x, "attn"), *m = luo_doc_get(x, "mlp");
    const luo_doc_node *offload = luo_doc_get(x, "cpu_offload");
    warn_unknown(w, x, keys);
    warn_unknown(w, a, attn);
    warn_unknown(w, m, mlp);
    read_range(w, x);
    if (any_true(offload))
        luo_doc_error(&w->doc, offload,
                      "`cpu_offload` is true; weights stay on the devices, "
                      "false is expected.");
    snprintf(prefix, sizeof prefix, "llama.blocks.%s.", x->key);
    entry(w, x, prefix, "rmsnorm1");
    snprintf(prefix, sizeof prefix, "llama.blocks.%s.attn.", x->key);
    for (int i = 0; attn[i]; i++) entry(w, a, prefix, attn[i]);
    snprintf(prefix, sizeof prefix, "llama.blocks.%s.", x->key);
    entry(w, x, prefix, "rmsnorm2");
    snprintf(prefix, sizeof prefix, "llama.blocks.%s.mlp.", x->key);
    for (int i = 0; i < 2; i++) entry(w, m, prefix, mlp[i]);
}

/* A name without dots, which paths of items are made of. */
static bool block_name(const char *name)
{
    return strncmp(name, "blocks", 6) == 0 && strlen(name) <= 60 && !strchr(name, '.');
}

static void blocks(walk *w, const luo_doc_node *map)
{
    if (map->type != LUO_DOC_MAP) {
        luo_doc_error(&w->doc, map, "`blocks` is no object; one with `blocksN` is expected.");
        return;
    }
    for (const luo_doc_node *x = map->first; x; x = x->next) {
        if (block_name(x->key) && x->type == LUO_DOC_MAP)
            block(w, x);
        else
            luo_doc_error_key(&w->doc, x,
                              "`%.60s` stands among the blocks; `blocksN` is "
                              "expected.",
                              x->key);
    }
    w->first = w->last = -1;
}

static void whole(walk *w)
{
    static const char *const keys[] = {"zero", "devices", "recompute_granularity",
                                       "recompute_layer_idxs_list", "input", "label", "llama",
                                       "lm_head", NULL};
    static const char *const inner[] = {"wte", "rmsnorm_final", "blocks", NULL};
    const luo_doc_node *root = w->doc.root, *llama = luo_doc_get(root, "llama");
    const luo_doc_node *b = luo_doc_get(llama, "blocks");
    w->first = w->last = -1;
    warn_unknown(w, root, keys);
    warn_unknown(w, llama, inner);
    entry(w, root, "", "input");
    entry(w, llama, "llama.", "wte");
    if (b) blocks(w, b);
    entry(w, llama, "llama.", "rmsnorm_final");
    entry(w, root, "", "lm_head");
    entry(w, root, "", "label");
}

static void take_head(walk *w)
{
    const luo_doc_node *list = luo_doc_get(w->doc.root, "devices");
    const luo_doc_node *zero = luo_doc_get(w->doc.root, "zero");
    w->file->zero = luo_doc_is(zero, "true");
    if (zero && !w->file->zero && !luo_doc_is(zero, "false"))
        luo_doc_error(&w->doc, zero, "`zero` is neither `true` nor `false`.");
    if (!list || list->type != LUO_DOC_LIST) return;
    int32_t *dev = LUO_NEW_N(w->doc.arena, int32_t, list->n), n = 0;
    if (!dev) luo_doc_nomem(&w->doc);
    for (const luo_doc_node *x = dev ? list->first : NULL; x; x = x->next)
        dev[n++] = number(w, x, 0, LUO_DEVICE_LIMIT - 1);
    w->file->dev = dev;
    w->file->ndev = n;
}

/* What is kept has to be what jansson, which writes it, can hold. */
static json_t *load(const char *text)
{
    const char *start = strncmp(text, "\xef\xbb\xbf", 3) == 0 ? text + 3 : text;
    return json_loads(start, JSON_REJECT_DUPLICATES, NULL);
}

static void read_object(walk *w)
{
    json_t *kept = load(w->doc.src->text);
    w->file = LUO_NEW(w->doc.arena, luo_dsjson);
    if (w->file) w->file->text = luo_arena_strdup(w->doc.arena, w->doc.src->text);
    if (!w->file || !w->file->text) {
        luo_doc_nomem(&w->doc);
    } else {
        if (!kept) luo_doc_error(&w->doc, w->doc.root, "a number is too large to be kept.");
        take_head(w);
        whole(w);
    }
    json_decref(kept);
}

luo_status luo_dsjson_read(luo_arena *arena, const luo_source *src, luo_dsjson **out,
                           luo_diags *diags)
{
    walk w = {.doc = {.arena = arena, .src = src, .diags = diags}};
    luo_doc_parse_json(&w.doc);
    if (w.doc.st == LUO_OK && w.doc.root->type == LUO_DOC_MAP)
        read_object(&w);
    else if (w.doc.st == LUO_OK)
        luo_doc_error(&w.doc, w.doc.root,
                      "the file holds no object; a ds_parallel_config is "
                      "expected.");
    if (w.doc.st == LUO_OK) *out = w.file;
    return w.doc.st;
}

/* ---- writing ---- */

/* The object at a path of names with dots between. */
static json_t *at_path(json_t *root, const char *path)
{
    char name[80];
    for (json_t *at = root;; path++) {
        const size_t n = strcspn(path, ".");
        snprintf(name, sizeof name, "%.*s", (int)n, path);
        at = json_object_get(at, name);
        path += n;
        if (!*path) return at;
    }
}

static luo_status put_item(luo_arena *scratch, json_t *root, const luo_ds_item *x, luo_err *err)
{
    json_t *made, *at = at_path(root, x->path);
    if (!at)
        return luo_err_set(err, LUO_EBUG, "items are not those of the file; keep them as read.");
    const luo_ann *a = turned(x->name) ? turn(scratch, x->ann) : x->ann;
    const luo_status st = a ? luo_dsjson_make_entry(a, x->type, &made, err) : luo_err_nomem(err);
    if (st != LUO_OK) return luo_err_prefix(err, st, "JSON entry '%s'", x->name);
    json_object_update(at, made); /* keys of the entry that are not ours stay */
    json_decref(made);
    return LUO_OK;
}

luo_status luo_dsjson_write(luo_arena *scratch, const luo_dsjson *file, luo_str *out,
                            luo_err *err)
{
    luo_status st = LUO_OK;
    json_t *root = load(file->text);
    if (!root) return luo_err_nomem(err);
    for (int32_t i = 0; i < file->n && st == LUO_OK; i++)
        st = put_item(scratch, root, &file->items[i], err);
    char *text = st == LUO_OK ? json_dumps(root, JSON_INDENT(4) | JSON_REAL_PRECISION(17)) : NULL;
    json_decref(root);
    if (st != LUO_OK) return st;
    if (text) luo_str_add(out, text);
    luo_str_addc(out, '\n');
    free(text);
    return text && !out->failed ? LUO_OK : luo_err_nomem(err);
}

luo_status luo_dsjson_weight(luo_arena *arena, const luo_ds_item *item, const luo_ann **out,
                             luo_err *err)
{
    *out = item->ann;
    if (strncmp(item->name, "rmsnorm", 7) != 0) return LUO_OK;
    luo_ann a = *item->ann;
    luo_grp *g = LUO_NEW_N(arena, luo_grp, a.u);
    luo_ent *ent = LUO_NEW_N(arena, luo_ent, a.u);
    if (!g || !ent) return luo_err_nomem(err);
    for (int32_t u = 0; u < a.u; u++) {
        ent[u] = (luo_ent){LUO_DUP, a.grp[u].ndev, NULL};
        g[u] = (luo_grp){a.grp[u].ndev, a.grp[u].dev, 1, &ent[u]};
    }
    a.grp = g;
    *out = luo_ann_canonical(arena, &a);
    return *out ? LUO_OK : luo_err_nomem(err);
}
