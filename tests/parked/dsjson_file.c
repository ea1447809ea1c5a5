/* dsjson_file.c: a whole ds_parallel_config file: its entries as annotations, the rest of
 * it kept as it is (docs/annotations.md). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/parked/dsjson_internal.h"
#include "core/io/document/json.h"

typedef struct walk walk;
typedef void visit_fn(walk *w, const luo_json_at *at, const char *path, const char *name);

struct walk {
    luo_json j;
    visit_fn *visit;
    luo_dsjson *file;
    int32_t n, cap, first, last; /* items; blocks of the range being walked */
    luo_err *err;                /* of a write */
    luo_status st;
};

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

/* ---- the walk: the same order when reading and when writing ---- */

static bool known(const char *key, const char *const *keys)
{
    for (; *keys; keys++)
        if (strcmp(*keys, key) == 0) return true;
    return false;
}

static void warn_unknown(walk *w, const luo_json_at *at, const char *const *keys)
{
    const char *key;
    json_t *v;
    char pointer[200];
    int line, col;
    if (w->err) return; /* said when it was read */
    json_object_foreach(at->v, key, v) {
        if (known(key, keys)) continue;
        snprintf(pointer, sizeof pointer, "/%.100s", key);
        luo_json_where(w->j.src->text, w->j.src->len, pointer, true, &line, &col);
        luo_diags_add(w->j.diags, LUO_WARNING, LUO_OK, w->j.src->name, at->up ? 0 : line,
                      at->up ? 0 : col, "unknown key `%.80s`; it is kept as it is.", key);
    }
}

static void entry(walk *w, const luo_json_at *up, const char *prefix, const char *name)
{
    char path[160];
    const luo_json_at at = luo_json_in(up, name);
    if (!at.v || w->st != LUO_OK) return;
    snprintf(path, sizeof path, "%s%s", prefix, name);
    w->visit(w, &at, path, name);
}

static void read_range(walk *w, const luo_json_at *block)
{
    size_t n;
    const luo_json_at at = luo_json_list(&w->j, block, "range", 1, &n);
    if (n == 0) {
        if (!at.v) luo_json_error(&w->j, block, false, "key `range` is missing; [N] or "
                                                       "[first,..,last] is expected.");
        return;
    }
    const luo_json_at first = luo_json_nth(&at, 0), last = luo_json_nth(&at, n - 1);
    w->first = (int32_t)luo_json_item_int(&w->j, &first, 0, 65535);
    w->last = (int32_t)luo_json_item_int(&w->j, &last, w->first, 65535);
}

static bool any_true(const json_t *v)
{
    for (size_t i = 0; i < json_array_size(v); i++)
        if (any_true(json_array_get(v, i))) return true;
    return json_is_true(v);
}

static void block(walk *w, const luo_json_at *at, const char *name)
{
    static const char *const keys[] = {"range", "recompute", "output_recompute", "cpu_offload",
                                       "rmsnorm1", "attn", "rmsnorm2", "mlp", NULL};
    static const char *const attn[] = {"qkv", "dense", NULL};
    static const char *const mlp[] = {"dense_h_to_4h", "dense_4h_to_h", "activation_func", NULL};
    char prefix[100];
    const luo_json_at a = luo_json_in(at, "attn"), m = luo_json_in(at, "mlp");
    const luo_json_at offload = luo_json_in(at, "cpu_offload");
    warn_unknown(w, at, keys);
    if (a.v) warn_unknown(w, &a, attn);
    if (m.v) warn_unknown(w, &m, mlp);
    read_range(w, at);
    if (any_true(offload.v))
        luo_json_error(&w->j, &offload, false, "`cpu_offload` is true; weights stay on the "
                                               "devices, false is expected.");
    snprintf(prefix, sizeof prefix, "llama.blocks.%.60s.", name);
    entry(w, at, prefix, "rmsnorm1");
    snprintf(prefix, sizeof prefix, "llama.blocks.%.60s.attn.", name);
    for (int i = 0; attn[i]; i++) entry(w, &a, prefix, attn[i]);
    snprintf(prefix, sizeof prefix, "llama.blocks.%.60s.", name);
    entry(w, at, prefix, "rmsnorm2");
    snprintf(prefix, sizeof prefix, "llama.blocks.%.60s.mlp.", name);
    for (int i = 0; i < 2; i++) entry(w, &m, prefix, mlp[i]);
}

static void blocks(walk *w, const luo_json_at *at)
{
    const char *name;
    json_t *v;
    if (!json_is_object(at->v)) {
        luo_json_error(&w->j, at, false, "`blocks` is no object; one with `blocksN` is expected.");
        return;
    }
    json_object_foreach(at->v, name, v) {
        const luo_json_at b = luo_json_in(at, name);
        if (strncmp(name, "blocks", 6) == 0 && json_is_object(v)) block(w, &b, name);
        else luo_json_error(&w->j, &b, true, "`%.60s` stands among the blocks; `blocksN` is "
                                             "expected.", name);
    }
    w->first = w->last = -1;
}

static void whole(walk *w, const luo_json_at *root)
{
    static const char *const keys[] = {"zero", "devices", "recompute_granularity",
                                       "recompute_layer_idxs_list", "input", "label", "llama",
                                       "lm_head", NULL};
    static const char *const inner[] = {"wte", "rmsnorm_final", "blocks", NULL};
    const luo_json_at llama = luo_json_in(root, "llama"), b = luo_json_in(&llama, "blocks");
    w->first = w->last = -1;
    warn_unknown(w, root, keys);
    if (llama.v) warn_unknown(w, &llama, inner);
    entry(w, root, "", "input");
    entry(w, &llama, "llama.", "wte");
    if (b.v) blocks(w, &b);
    entry(w, &llama, "llama.", "rmsnorm_final");
    entry(w, root, "", "lm_head");
    entry(w, root, "", "label");
}

/* ---- reading ---- */

static void take_item(walk *w, const luo_json_at *at, const char *path, const char *name)
{
    luo_err err;
    luo_ds_item x = {.first = w->first, .last = w->last};
    luo_status st = luo_dsjson_take_entry(w->j.arena, at->v, name, &x.ann, &x.type, &err);
    if (st == LUO_ENOMEM) luo_json_nomem(&w->j);
    else if (st != LUO_OK) luo_json_error(&w->j, at, false, "%s", err.text);
    if (st != LUO_OK) return;
    if (turned(name)) x.ann = turn(w->j.arena, x.ann);
    x.path = luo_arena_strdup(w->j.arena, path);
    const char *dot = x.path ? strrchr(x.path, '.') : NULL;
    x.name = dot ? dot + 1 : x.path;
    if (w->n == w->cap) {
        const size_t old = (size_t)w->cap * sizeof x;
        w->file->items = luo_arena_grow(w->j.arena, w->file->items, old, 2 * old + 16 * sizeof x);
        w->cap = 2 * w->cap + 16;
    }
    if (!x.ann || !x.path || !w->file->items) {
        w->st = luo_json_nomem(&w->j);
        return;
    }
    w->file->items[w->n++] = x;
    w->file->n = w->n;
}

static void take_head(walk *w, const luo_json_at *root)
{
    size_t n;
    const luo_json_at dev = luo_json_list(&w->j, root, "devices", 0, &n);
    w->file->zero = luo_json_bool(&w->j, root, "zero", false);
    if (dev.v) w->file->dev = luo_json_ids(&w->j, &dev, 0, LUO_DEVICE_LIMIT - 1, &w->file->ndev);
}

static void read_object(walk *w, const luo_json_at *root)
{
    char *text = json_dumps(root->v, JSON_REAL_PRECISION(17));
    w->file = LUO_NEW(w->j.arena, luo_dsjson);
    if (w->file) w->file->text = text ? luo_arena_strdup(w->j.arena, text) : NULL;
    free(text);
    if (!w->file || !w->file->text) {
        luo_json_nomem(&w->j);
        return;
    }
    take_head(w, root);
    whole(w, root);
}

luo_status luo_dsjson_read(luo_arena *arena, const luo_source *src, luo_dsjson **out,
                           luo_diags *diags)
{
    walk w = {.j = {.arena = arena, .src = src, .diags = diags}, .visit = take_item};
    json_t *root = luo_json_load(&w.j);
    if (!root) return w.j.st;
    const luo_json_at at = {.v = root};
    if (json_is_object(root)) read_object(&w, &at);
    else luo_json_error(&w.j, &at, false, "the file holds no object; a ds_parallel_config is "
                                          "expected.");
    json_decref(root);
    if (w.j.st == LUO_OK) *out = w.file;
    return w.j.st;
}

/* ---- writing ---- */

static void put_item(walk *w, const luo_json_at *at, const char *path, const char *name)
{
    json_t *made;
    const luo_ds_item *x = w->n < w->file->n ? &w->file->items[w->n++] : NULL;
    if (!x || strcmp(x->path, path) != 0) {
        w->st = luo_err_set(w->err, LUO_EBUG,
                            "items are not those of the file; keep them as read.");
        return;
    }
    const luo_ann *a = turned(name) ? turn(w->j.arena, x->ann) : x->ann;
    w->st = a ? luo_dsjson_make_entry(a, x->type, &made, w->err) : luo_err_nomem(w->err);
    if (w->st != LUO_OK) {
        luo_err_prefix(w->err, w->st, "JSON entry '%s'", name);
        return;
    }
    json_object_update(at->v, made); /* keys of the entry that are not ours stay */
    json_decref(made);
}

luo_status luo_dsjson_write(luo_arena *scratch, const luo_dsjson *file, luo_str *out,
                            luo_err *err)
{
    luo_diags none;
    const luo_source src = {"", file->text, strlen(file->text)};
    luo_diags_init(&none, scratch);
    walk w = {.j = {.arena = scratch, .src = &src, .diags = &none}, .visit = put_item,
              .file = (luo_dsjson *)file, .err = err};
    json_t *root = luo_json_load(&w.j);
    if (!root) return luo_err_nomem(err);
    const luo_json_at at = {.v = root};
    whole(&w, &at);
    char *text = w.st == LUO_OK ? json_dumps(root, JSON_INDENT(4) | JSON_REAL_PRECISION(17)) : NULL;
    json_decref(root);
    if (w.st != LUO_OK) return w.st;
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
