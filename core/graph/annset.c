/* core/graph/annset.c */
#include "core/graph/annset.h"

#include <assert.h>
#include <string.h>

#include "core/base/vec.h"
#include "core/graph/intern.h"
#include "core/hspmd/resolve.h"

enum { TAG_EINSUM, TAG_COMPLETE, TAG_FOLD, TAG_SUMMED, TERMS_MAX = 8 };

struct luo_annset {
    luo_arena *arena, *scratch;
    luo_intern hashes; /* (hash, k-th of that hash) -> index in by_hash, which is the id */
    int32_t n, cap;
    const luo_ann **ann;
    const char **text;
    luo_intern memo; /* (rule, operands) -> index in result */
    int32_t cap_result;
    int32_t *result;
};

luo_annset *luo_annset_new(luo_arena *arena)
{
    luo_annset *s = LUO_NEW(arena, luo_annset);
    if (!s) return NULL;
    s->arena = arena;
    s->scratch = luo_arena_new(1 << 16);
    if (!s->scratch) return NULL;
    luo_intern_init(&s->hashes, arena);
    luo_intern_init(&s->memo, arena);
    return s;
}

void luo_annset_free(luo_annset *s)
{
    if (!s) return;
    luo_arena_free(s->scratch);
    s->scratch = NULL;
}

static bool grow(luo_annset *s)
{
    const size_t old = (size_t)s->cap, cap = old ? 2 * old : 64;
    const luo_ann **ann = luo_arena_grow(s->arena, s->ann, old * sizeof *ann, cap * sizeof *ann);
    if (ann) s->ann = ann;
    const char **text = luo_arena_grow(s->arena, s->text, old * sizeof *text, cap * sizeof *text);
    if (!ann || !text) return false;
    memset(text + old, 0, (cap - old) * sizeof *text);
    s->text = text;
    s->cap = (int32_t)cap;
    return true;
}

/* Ids of `hashes` and of annotations are the same numbers: one key is made per annotation. */
luo_status luo_annset_add(luo_annset *s, const luo_ann *a, int32_t *id, luo_err *err)
{
    const uint64_t hash = luo_ann_hash(a);
    int32_t key[3] = {(int32_t)(uint32_t)hash, (int32_t)(uint32_t)(hash >> 32), 0};
    for (;; key[2]++) {
        bool fresh = false;
        const int32_t i = luo_intern_id(&s->hashes, key, 3, &fresh);
        if (i < 0) return luo_err_nomem(err);
        if (!fresh && !luo_ann_equal(s->ann[i], a)) continue;
        *id = i;
        if (!fresh) return LUO_OK;
        break;
    }
    if (s->n == s->cap && !grow(s)) return luo_err_nomem(err);
    s->ann[s->n] = luo_ann_canonical(s->arena, a);
    return s->ann[s->n++] ? LUO_OK : luo_err_nomem(err);
}

const luo_ann *luo_annset_get(const luo_annset *s, int32_t id)
{
    assert(id >= 0 && id < s->n);
    return s->ann[id];
}

int32_t luo_annset_count(const luo_annset *s)
{
    return s->n;
}

const char *luo_annset_text(luo_annset *s, int32_t id)
{
    if (s->text[id]) return s->text[id];
    luo_str t = {0};
    luo_ann_print(&t, luo_annset_get(s, id));
    if (!t.failed) s->text[id] = luo_arena_strdup(s->arena, luo_str_get(&t));
    luo_str_free(&t);
    return s->text[id];
}

/* Place of the result of a rule; *fresh: it is still to be computed. NULL: out of memory. */
static int32_t *remember(luo_annset *s, const int32_t *key, int32_t n, bool *fresh)
{
    const int32_t i = luo_intern_id(&s->memo, key, n, fresh);
    if (i < 0) return NULL;
    if (!LUO_VEC_ROOM_IN(s->arena, s->result, i, s->cap_result)) return NULL;
    if (*fresh) s->result[i] = -1;
    return &s->result[i];
}

/* Canonicalises, interns and remembers what a rule made in the scratch arena. */
static luo_status keep(luo_annset *s, luo_status st, const luo_ann *made, size_t mark,
                       int32_t *place, int32_t *res, luo_err *err)
{
    const luo_ann *a = st == LUO_OK ? luo_ann_canonical(s->scratch, made) : NULL;
    if (st == LUO_OK) st = a ? luo_annset_add(s, a, place, err) : luo_err_nomem(err);
    if (st == LUO_OK) *res = *place;
    luo_arena_reset(s->scratch, mark);
    return st;
}

static void pack(const char *letters, int32_t out[2])
{
    uint64_t v = 0;
    for (const char *c = letters; *c; c++) v = v * 27 + (uint64_t)(*c - 'a' + 1);
    out[0] = (int32_t)(uint32_t)v;
    out[1] = (int32_t)(uint32_t)(v >> 32);
}

luo_status luo_annset_einsum(luo_annset *s, const luo_term *terms, int32_t n, const char *out,
                             const char *op, int32_t *res, luo_err *err)
{
    assert(n <= TERMS_MAX);
    int32_t key[4 + 4 * TERMS_MAX] = {TAG_EINSUM, n};
    luo_operand operand[TERMS_MAX];
    pack(out, key + 2);
    for (int32_t i = 0; i < n; i++) {
        const luo_term *t = &terms[i];
        operand[i] = (luo_operand){luo_annset_get(s, t->ann), t->letters, t->name, t->label_only};
        key[4 + 4 * i] = t->ann;
        key[5 + 4 * i] = t->label_only;
        pack(t->letters, key + 6 + 4 * i);
    }
    bool fresh;
    int32_t *place = remember(s, key, 4 + 4 * n, &fresh);
    if (!place) return luo_err_nomem(err);
    if (*place >= 0) {
        *res = *place;
        return LUO_OK;
    }
    const size_t mark = luo_arena_mark(s->scratch);
    const luo_ann *made = NULL;
    const luo_status st = luo_deduce_einsum(s->scratch, operand, n, out, op, &made, err);
    return keep(s, st, made, mark, place, res, err);
}

luo_status luo_annset_complete(luo_annset *s, int32_t id, int32_t *res, luo_err *err)
{
    const int32_t key[2] = {TAG_COMPLETE, id};
    bool fresh;
    int32_t *place = remember(s, key, 2, &fresh);
    if (!place) return luo_err_nomem(err);
    if (*place >= 0) {
        *res = *place;
        return LUO_OK;
    }
    const size_t mark = luo_arena_mark(s->scratch);
    const luo_ann *made = NULL;
    const luo_status st = luo_ann_complete(s->scratch, luo_annset_get(s, id), &made, err);
    return keep(s, st, made, mark, place, res, err);
}

luo_status luo_annset_fold(luo_annset *s, int32_t id, const luo_shape *shape, int32_t *res,
                           luo_err *err)
{
    int32_t key[3 + 2 * LUO_RANK_MAX] = {TAG_FOLD, id, shape->rank};
    for (int32_t d = 0; d < shape->rank; d++) {
        key[3 + 2 * d] = (int32_t)(uint32_t)(uint64_t)shape->dim[d];
        key[4 + 2 * d] = (int32_t)(uint32_t)((uint64_t)shape->dim[d] >> 32);
    }
    bool fresh;
    int32_t *place = remember(s, key, 3 + 2 * shape->rank, &fresh);
    if (!place) return luo_err_nomem(err);
    if (*place >= 0) {
        *res = *place;
        return LUO_OK;
    }
    const size_t mark = luo_arena_mark(s->scratch);
    const luo_ann *made = NULL;
    const luo_status st = luo_zero_fold(s->scratch, luo_annset_get(s, id), shape, &made, err);
    return keep(s, st, made, mark, place, res, err);
}

luo_status luo_annset_fold_groups(luo_annset *s, int32_t id, const luo_shape *shape, int32_t size,
                                  bool keep_copies, int32_t *res, luo_err *err)
{
    const size_t mark = luo_arena_mark(s->scratch);
    const luo_ann *made = NULL;
    int32_t place = -1;
    const luo_status st = luo_zero_fold_groups(s->scratch, luo_annset_get(s, id), shape, size,
                                               keep_copies, &made, err);
    return keep(s, st, made, mark, &place, res, err);
}

luo_status luo_annset_across(luo_annset *s, int32_t id, int32_t *res, luo_err *err)
{
    const size_t mark = luo_arena_mark(s->scratch);
    luo_ann sum = *luo_annset_get(s, id);
    int32_t place = -1;
    sum.h = LUO_PARTIAL;
    return keep(s, LUO_OK, &sum, mark, &place, res, err);
}

luo_status luo_annset_summed(luo_annset *s, int32_t id, int32_t *res, luo_err *err)
{
    const int32_t key[2] = {TAG_SUMMED, id};
    const luo_ann *a = luo_annset_get(s, id);
    bool fresh;
    int32_t *place = remember(s, key, 2, &fresh);
    if (!place) return luo_err_nomem(err);
    if (*place >= 0) {
        *res = *place;
        return LUO_OK;
    }
    const size_t mark = luo_arena_mark(s->scratch);
    luo_ann sum = *a;
    luo_grp *grp = LUO_NEW_N(s->scratch, luo_grp, a->u);
    if (!grp) return luo_err_nomem(err);
    for (int32_t u = 0; u < a->u; u++) {
        luo_ent *ent = LUO_NEW_N(s->scratch, luo_ent, a->grp[u].nent);
        if (!ent) return luo_err_nomem(err);
        grp[u] = a->grp[u];
        grp[u].ent = ent;
        for (int32_t k = 0; k < a->grp[u].nent; k++) {
            ent[k] = a->grp[u].ent[k];
            if (ent[k].key == LUO_DUP) ent[k].key = LUO_PARTIAL;
        }
    }
    sum.grp = grp;
    return keep(s, LUO_OK, &sum, mark, place, res, err);
}

luo_status luo_annset_pick(luo_annset *s, int32_t a, int32_t b, const bool *from_b, int32_t *res,
                           luo_err *err)
{
    const luo_ann *x = luo_annset_get(s, a), *y = luo_annset_get(s, b);
    assert(x->u == y->u && x->h == y->h);
    const size_t mark = luo_arena_mark(s->scratch);
    luo_grp *grp = LUO_NEW_N(s->scratch, luo_grp, x->u);
    if (!grp) return luo_err_nomem(err);
    for (int32_t u = 0; u < x->u; u++) grp[u] = from_b[u] ? y->grp[u] : x->grp[u];
    luo_ann made = *x;
    int32_t place = -1;
    made.grp = grp;
    return keep(s, LUO_OK, &made, mark, &place, res, err);
}

luo_status luo_annset_members(luo_annset *s, int32_t id, const bool *keep_part, int32_t parts,
                              int32_t *res, luo_err *err)
{
    const luo_ann *a = luo_annset_get(s, id);
    const size_t mark = luo_arena_mark(s->scratch);
    luo_grp *grp = LUO_NEW_N(s->scratch, luo_grp, a->u);
    uint32_t *share = LUO_NEW_N(s->scratch, uint32_t, a->u);
    if (!grp || !share) return luo_err_nomem(err);
    luo_ann part = {.h = a->h, .inner = a->inner, .grp = grp};
    if (a->hshare) part.hshare = share;
    for (int32_t u = 0; u < a->u; u++) {
        if (!keep_part[(int64_t)u * parts / a->u]) continue;
        if (a->hshare) share[part.u] = a->hshare[u];
        grp[part.u++] = a->grp[u];
    }
    assert(part.u > 0);
    if (part.u == 1) part.h = LUO_H_NONE, part.inner = false, part.hshare = NULL;
    int32_t made = -1;
    return keep(s, LUO_OK, &part, mark, &made, res, err);
}

luo_status luo_annset_present(luo_annset *s, int32_t id, int32_t absent, int32_t *res,
                              luo_err *err)
{
    const luo_ann *a = luo_annset_get(s, id);
    const size_t mark = luo_arena_mark(s->scratch);
    bool *keep_member = LUO_NEW_N(s->scratch, bool, a->u);
    int32_t left = 0;
    if (!keep_member) return luo_err_nomem(err);
    for (int32_t u = 0; u < a->u; u++) left += keep_member[u] = a->grp[u].dev[0] < absent;
    *res = id;
    luo_status st = LUO_OK;
    if (left < a->u) st = luo_annset_members(s, id, keep_member, a->u, res, err);
    luo_arena_reset(s->scratch, mark);
    return st;
}

luo_status luo_annset_stand_in(luo_annset *s, int32_t id, int32_t absent, const int32_t *stands,
                               int32_t *res, luo_err *err)
{
    const size_t mark = luo_arena_mark(s->scratch);
    luo_ann made = *luo_annset_get(s, id);
    luo_grp *grp = LUO_NEW_N(s->scratch, luo_grp, made.u);
    int32_t place = -1;
    if (!grp) return luo_err_nomem(err);
    for (int32_t u = 0; u < made.u; u++) {
        int32_t *dev = LUO_NEW_N(s->scratch, int32_t, made.grp[u].ndev);
        if (!dev) return luo_err_nomem(err);
        grp[u] = made.grp[u];
        for (int32_t i = 0; i < grp[u].ndev; i++) {
            const int32_t d = grp[u].dev[i];
            dev[i] = d < absent ? d : stands[d - absent];
        }
        grp[u].dev = dev;
    }
    made.grp = grp;
    return keep(s, LUO_OK, &made, mark, &place, res, err);
}
