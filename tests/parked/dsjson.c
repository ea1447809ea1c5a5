#include "tests/parked/dsjson.h"

#include <stdlib.h>
#include <string.h>

#include "tests/parked/dsjson_internal.h"

/* ---- reading ---- */

typedef struct entry {
    luo_arena *arena;
    const char *name;
    luo_err *err;
    const luo_doc_node *root, *groups;
    luo_ds_type type;
    int32_t u;
} entry;

#define BAD(e, fmt, ...) \
    luo_err_set((e)->err, LUO_EINPUT, "JSON entry '%s': " fmt, (e)->name, __VA_ARGS__)

static bool is_list(const luo_doc_node *v)
{
    return v && v->type == LUO_DOC_LIST;
}

/* Count of member u in a list of them, or in the old form, a plain number; 0: neither. */
static int64_t count_of(const luo_doc_node *v, int32_t u)
{
    int64_t n = 0;
    if (is_list(v))
        luo_doc_int(luo_doc_nth(v, u), &n);
    else if (u == 0)
        luo_doc_int(v, &n);
    return n;
}

static int32_t counts_in(const luo_doc_node *v)
{
    int64_t n;
    return is_list(v) ? v->n : luo_doc_int(v, &n);
}

static luo_status read_type(entry *e)
{
    const char *type = luo_doc_text(e->root, "type");
    if (type && strcmp(type, "variable") == 0) e->type = LUO_DS_VARIABLE;
    else if (type && strcmp(type, "placeholder") == 0) e->type = LUO_DS_PLACEHOLDER;
    else return BAD(e, "type `%.40s` is neither `variable` nor `placeholder`.", type ? type : "");
    return LUO_OK;
}

static luo_status read_groups(entry *e)
{
    const luo_doc_node *all = luo_doc_get(e->root, "device_group_union");
    e->groups = all ? all : luo_doc_get(e->root, "device_group");
    e->u = !all ? 1 : is_list(all) ? all->n : 0;
    if (!is_list(e->groups) || e->u < 1)
        return BAD(e, "%s is not a list of device groups.",
                   all ? "`device_group_union`" : "`device_group`");
    return LUO_OK;
}

static luo_status read_devices(entry *e, int32_t u, luo_grp *g)
{
    const luo_doc_node *list =
        luo_doc_get(e->root, "device_group_union") ? luo_doc_nth(e->groups, u) : e->groups;
    const int32_t n = is_list(list) ? list->n : 0;
    int32_t *dev = LUO_NEW_N(e->arena, int32_t, n), i = 0;
    if (!dev) return luo_err_nomem(e->err);
    for (const luo_doc_node *x = n ? list->first : NULL; x; x = x->next) {
        int64_t id = -1;
        luo_doc_int(x, &id);
        if (id < 0 || id >= LUO_DEVICE_LIMIT)
            return BAD(e, "device %d of group %d is no device id.", i, u);
        dev[i++] = (int32_t)id;
    }
    g->dev = dev;
    g->ndev = n;
    return LUO_OK;
}

/* The count of a member, with the top level taken out where `folded`. */
static luo_status unfold(entry *e, const luo_doc_node *v, int32_t u, bool folded, const char *what,
                         int32_t *out)
{
    const int64_t n = count_of(v, u);
    if (n < 1 || n > LUO_DEVICE_LIMIT)
        return BAD(e, "%s of member %d is no count above 0.", what, u);
    if (folded && e->u > 1 && n % e->u)
        return BAD(e, "%s %lld of member %d is not a multiple of %d subgroups.", what,
                   (long long)n, u, e->u);
    *out = (int32_t)(folded ? n / e->u : n);
    return LUO_OK;
}

static luo_status check_length(entry *e, const luo_doc_node *v, const char *what)
{
    if (counts_in(v) == e->u) return LUO_OK;
    return BAD(e, "%s has %d counts for %d subgroups.", what, counts_in(v), e->u);
}

/* Splits by ascending dimension. */
static luo_status read_splits(entry *e, int32_t u, luo_ent *ent, int32_t *n)
{
    const luo_doc_node *split = luo_doc_get(e->root, "split");
    const luo_doc_node *v;
    int32_t known = 0;
    char dim[4] = "0", what[24] = "split \"0\"";
    if (split && split->type != LUO_DOC_MAP) return BAD(e, "%s is no object.", "`split`");
    for (int32_t d = 0; d < LUO_RANK_MAX; d++) {
        dim[0] = what[7] = (char)('0' + d);
        v = luo_doc_get(split, dim);
        if (!v) continue;
        known++;
        LUO_TRY(check_length(e, v, what));
        LUO_TRY(unfold(e, v, u, e->type == LUO_DS_PLACEHOLDER && d == 0, what, &ent[*n].n));
        ent[(*n)++].key = d;
    }
    for (const luo_doc_node *x = split && known < split->n ? split->first : NULL; x; x = x->next)
        if (strlen(x->key) != 1 || x->key[0] < '0' || x->key[0] >= '0' + LUO_RANK_MAX)
            return BAD(e, "split \"%.20s\" is no dimension.", x->key);
    /* Data without a split of dimension 0 cannot be cut over several members. */
    if (e->type == LUO_DS_PLACEHOLDER && e->u > 1 && !luo_doc_get(split, "0"))
        return BAD(e, "split \"0\" is missing for %d subgroups.", e->u);
    return LUO_OK;
}

static luo_status read_dup(entry *e, int32_t u, luo_ent *ent)
{
    const luo_doc_node *dup = luo_doc_get(e->root, "dup");
    if (!dup) return BAD(e, "%s is missing.", "`dup`");
    LUO_TRY(check_length(e, dup, "dup"));
    ent->key = LUO_DUP;
    return unfold(e, dup, u, e->type == LUO_DS_VARIABLE, "dup", &ent->n);
}

/* variable: -1, then the splits; placeholder: the splits, then -1. */
static luo_status read_member(entry *e, int32_t u, luo_grp *g)
{
    luo_ent *ent = LUO_NEW_N(e->arena, luo_ent, LUO_RANK_MAX + 1);
    int32_t n = e->type == LUO_DS_VARIABLE;
    if (!ent) return luo_err_nomem(e->err);
    LUO_TRY(read_devices(e, u, g));
    LUO_TRY(read_splits(e, u, ent, &n));
    LUO_TRY(read_dup(e, u, e->type == LUO_DS_VARIABLE ? &ent[0] : &ent[n++]));
    g->ent = ent;
    g->nent = n;
    return LUO_OK;
}

luo_status luo_dsjson_take_entry(luo_arena *arena, const luo_doc_node *root, const char *name,
                                 const luo_ann **out, luo_ds_type *type, luo_err *err)
{
    entry e = {.arena = arena, .name = name, .err = err, .root = root};
    if (root->type != LUO_DOC_MAP) return BAD(&e, "%s is expected.", "an object");
    LUO_TRY(read_type(&e));
    LUO_TRY(read_groups(&e));
    luo_grp *g = LUO_NEW_N(arena, luo_grp, e.u);
    if (!g) return luo_err_nomem(err);
    for (int32_t u = 0; u < e.u; u++) LUO_TRY(read_member(&e, u, &g[u]));
    const luo_ann a = {.u = e.u, .grp = g,
                       .h = e.u == 1 ? LUO_H_NONE : e.type == LUO_DS_VARIABLE ? LUO_DUP : 0};
    const luo_status st = luo_ann_check(&a, err);
    if (st != LUO_OK) return luo_err_prefix(err, st, "JSON entry '%s'", name);
    *out = luo_ann_canonical(arena, &a);
    *type = e.type;
    return *out ? LUO_OK : luo_err_nomem(err);
}

luo_status luo_dsjson_read_entry(luo_arena *arena, const char *json, const char *name,
                                 const luo_ann **out, luo_ds_type *type, luo_err *err)
{
    const luo_doc_node *root = NULL;
    luo_err why = {0};
    const luo_status st = luo_doc_tree(arena, json, strlen(json), &root, &why);
    if (st == LUO_OK) return luo_dsjson_take_entry(arena, root, name, out, type, err);
    return luo_err_set(err, st, "JSON entry '%s': line %d, column %d: %s", name, why.line, why.col,
                       why.text);
}

/* ---- writing ---- */

static luo_status unrep(luo_err *err, const char *what)
{
    return luo_err_set(err, LUO_EUNREP, "JSON cannot express %s.", what);
}

static luo_status check_shape(const luo_ann *a, luo_ds_type type, luo_err *err)
{
    char h[32];
    if (a->hshare) return unrep(err, "shares");
    if (luo_ann_has_partial(a)) return unrep(err, "partial values");
    if (a->u > 1 && a->inner) return unrep(err, "the inner pattern");
    for (int32_t u = 0; u < a->u; u++)
        for (int32_t k = 0; k < a->grp[u].nent; k++)
            if (a->grp[u].ent[k].share) return unrep(err, "shares");
    const int32_t want = type == LUO_DS_VARIABLE ? LUO_DUP : 0;
    if (a->u == 1 || a->h == want) return LUO_OK;
    snprintf(h, sizeof h, "h=%d of a %s", a->h,
             type == LUO_DS_VARIABLE ? "variable" : "placeholder");
    return unrep(err, h);
}

/* Keys of g in the order that the type implies; count 1 where g has none. */
static int32_t implied(const luo_grp *g, luo_ds_type type, int32_t *key)
{
    int32_t n = 0;
    if (type == LUO_DS_VARIABLE) key[n++] = LUO_DUP;
    for (int32_t d = 0; d < LUO_RANK_MAX; d++)
        if (luo_grp_count(g, d) > 1) key[n++] = d;
    if (type == LUO_DS_PLACEHOLDER) key[n++] = LUO_DUP;
    return n;
}

/* Device at index i of the implied order: the one with the same coordinates. */
static int32_t device_at(const luo_grp *g, const int32_t *key, int32_t n, int32_t i)
{
    int32_t coord[LUO_RANK_MAX + 1] = {0}, at = 0;
    for (int32_t k = n; k-- > 0;) {
        const int32_t count = luo_grp_count(g, key[k]);
        coord[k] = i % count;
        i /= count;
    }
    for (int32_t e = 0; e < g->nent; e++) {
        int32_t k = 0;
        while (k < n && key[k] != g->ent[e].key) k++;
        at = at * g->ent[e].n + (k < n ? coord[k] : 0);
    }
    return g->dev[at];
}

static void put_groups(json_t *root, const luo_ann *a, luo_ds_type type)
{
    json_t *all = json_array();
    for (int32_t u = 0; u < a->u; u++) {
        int32_t key[LUO_RANK_MAX + 1];
        const int32_t n = implied(&a->grp[u], type, key);
        json_t *list = json_array();
        for (int32_t i = 0; i < a->grp[u].ndev; i++)
            json_array_append_new(list, json_integer(device_at(&a->grp[u], key, n, i)));
        json_array_append_new(all, list);
    }
    json_object_set_new(root, "device_group_union", all);
}

static json_t *counts(const luo_ann *a, int32_t key, bool folded)
{
    json_t *list = json_array();
    for (int32_t u = 0; u < a->u; u++)
        json_array_append_new(list, json_integer((json_int_t)luo_grp_count(&a->grp[u], key) *
                                                 (folded ? a->u : 1)));
    return list;
}

static bool any_has(const luo_ann *a, int32_t key)
{
    for (int32_t u = 0; u < a->u; u++)
        if (luo_grp_count(&a->grp[u], key) > 1) return true;
    return false;
}

luo_status luo_dsjson_make_entry(const luo_ann *a, luo_ds_type type, json_t **out, luo_err *err)
{
    LUO_TRY(check_shape(a, type, err));
    json_t *root = json_object(), *split = json_object();
    const bool data = type == LUO_DS_PLACEHOLDER;
    for (int32_t d = 0; d < LUO_RANK_MAX; d++) {
        const char dim[2] = {(char)('0' + d), 0};
        if (any_has(a, d) || (data && d == 0 && a->u > 1))
            json_object_set_new(split, dim, counts(a, d, data && d == 0));
    }
    json_object_set_new(root, "split", split);
    json_object_set_new(root, "dup", counts(a, LUO_DUP, !data));
    put_groups(root, a, type);
    json_object_set_new(root, "type", json_string(data ? "placeholder" : "variable"));
    if (json_object_size(root) != 4) {
        json_decref(root);
        return luo_err_nomem(err);
    }
    *out = root;
    return LUO_OK;
}

luo_status luo_dsjson_write_entry(const luo_ann *a, luo_ds_type type, luo_str *out, luo_err *err)
{
    json_t *root;
    LUO_TRY(luo_dsjson_make_entry(a, type, &root, err));
    char *text = json_dumps(root, 0);
    json_decref(root);
    if (text) luo_str_add(out, text);
    free(text);
    return text && !out->failed ? LUO_OK : luo_err_nomem(err);
}
