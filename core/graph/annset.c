/* core/graph/annset.c */
#include "core/graph/annset.h"

#include <assert.h>
#include <string.h>

#include "core/base/vec.h"
#include "core/graph/intern.h"
#include "core/hspmd/fold.h"
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
    luo_annset *set = LUO_NEW(arena, luo_annset);
    if (!set) return NULL;
    set->arena = arena;
    set->scratch = luo_arena_new(1 << 16);
    if (!set->scratch) return NULL;
    luo_intern_init(&set->hashes, arena);
    luo_intern_init(&set->memo, arena);
    return set;
}

void luo_annset_free(luo_annset *set)
{
    if (!set) return;
    luo_arena_free(set->scratch);
    set->scratch = NULL;
}

static bool grow(luo_annset *set)
{
    const size_t old = (size_t)set->cap, cap = old ? 2 * old : 64;
    const luo_ann **ann =
        luo_arena_grow(set->arena, set->ann, old * sizeof *ann, cap * sizeof *ann);
    if (ann) set->ann = ann;
    const char **text =
        luo_arena_grow(set->arena, set->text, old * sizeof *text, cap * sizeof *text);
    if (!ann || !text) return false;
    memset(text + old, 0, (cap - old) * sizeof *text);
    set->text = text;
    set->cap = (int32_t)cap;
    return true;
}

/* Ids of `hashes` and of annotations are the same numbers: one key is made per annotation. */
luo_status luo_annset_add(luo_annset *set, const luo_ann *ann, int32_t *id, luo_err *err)
{
    const uint64_t hash = luo_ann_hash(ann);
    int32_t key[3] = {(int32_t)(uint32_t)hash, (int32_t)(uint32_t)(hash >> 32), 0};
    for (;; key[2]++) {
        bool fresh = false;
        const int32_t i = luo_intern_id(&set->hashes, key, 3, &fresh);
        if (i < 0) return luo_err_nomem(err);
        if (!fresh && !luo_ann_equal(set->ann[i], ann)) continue;
        *id = i;
        if (!fresh) return LUO_OK;
        break;
    }
    if (set->n == set->cap && !grow(set)) return luo_err_nomem(err);
    set->ann[set->n] = luo_ann_canonical(set->arena, ann);
    return set->ann[set->n++] ? LUO_OK : luo_err_nomem(err);
}

const luo_ann *luo_annset_get(const luo_annset *set, int32_t id)
{
    assert(id >= 0 && id < set->n);
    return set->ann[id];
}

int32_t luo_annset_count(const luo_annset *set)
{
    return set->n;
}

const char *luo_annset_text(luo_annset *set, int32_t id)
{
    if (set->text[id]) return set->text[id];
    luo_str text = {0};
    luo_ann_print(&text, luo_annset_get(set, id));
    if (!text.failed) set->text[id] = luo_arena_strdup(set->arena, luo_str_get(&text));
    luo_str_free(&text);
    return set->text[id];
}

/* Place of the result of a rule; *fresh: it is still to be computed. NULL: out of memory. */
static int32_t *remember(luo_annset *set, const int32_t *key, int32_t n, bool *fresh)
{
    const int32_t i = luo_intern_id(&set->memo, key, n, fresh);
    if (i < 0) return NULL;
    if (!LUO_VEC_ROOM_IN(set->arena, set->result, i, set->cap_result)) return NULL;
    if (*fresh) set->result[i] = -1;
    return &set->result[i];
}

/* Canonicalises, interns and remembers what a rule made in the scratch arena. */
static luo_status keep(luo_annset *set, luo_status st, const luo_ann *made, size_t mark,
                       int32_t *place, int32_t *res, luo_err *err)
{
    const luo_ann *ann = st == LUO_OK ? luo_ann_canonical(set->scratch, made) : NULL;
    if (st == LUO_OK) st = ann ? luo_annset_add(set, ann, place, err) : luo_err_nomem(err);
    if (st == LUO_OK) *res = *place;
    luo_arena_reset(set->scratch, mark);
    return st;
}

static void pack(const char *letters, int32_t out[2])
{
    uint64_t v = 0;
    for (const char *c = letters; *c; c++) v = v * 27 + (uint64_t)(*c - 'a' + 1);
    out[0] = (int32_t)(uint32_t)v;
    out[1] = (int32_t)(uint32_t)(v >> 32);
}

luo_status luo_annset_einsum(luo_annset *set, const luo_term *terms, int32_t n, const char *out,
                             const char *op, int32_t *res, luo_err *err)
{
    assert(n <= TERMS_MAX);
    int32_t key[4 + 4 * TERMS_MAX] = {TAG_EINSUM, n};
    luo_operand operand[TERMS_MAX];
    pack(out, key + 2);
    for (int32_t i = 0; i < n; i++) {
        const luo_term *term = &terms[i];
        operand[i] = (luo_operand){luo_annset_get(set, term->ann), term->letters, term->name,
                                   term->label_only};
        key[4 + 4 * i] = term->ann;
        key[5 + 4 * i] = term->label_only;
        pack(term->letters, key + 6 + 4 * i);
    }
    bool fresh;
    int32_t *place = remember(set, key, 4 + 4 * n, &fresh);
    if (!place) return luo_err_nomem(err);
    if (*place >= 0) {
        *res = *place;
        return LUO_OK;
    }
    const size_t mark = luo_arena_mark(set->scratch);
    const luo_ann *made = NULL;
    const luo_status st = luo_deduce_einsum(set->scratch, operand, n, out, op, &made, err);
    return keep(set, st, made, mark, place, res, err);
}

luo_status luo_annset_complete(luo_annset *set, int32_t id, int32_t *res, luo_err *err)
{
    const int32_t key[2] = {TAG_COMPLETE, id};
    bool fresh;
    int32_t *place = remember(set, key, 2, &fresh);
    if (!place) return luo_err_nomem(err);
    if (*place >= 0) {
        *res = *place;
        return LUO_OK;
    }
    const size_t mark = luo_arena_mark(set->scratch);
    const luo_ann *made = NULL;
    const luo_status st = luo_deduce_complete(set->scratch, luo_annset_get(set, id), &made, err);
    return keep(set, st, made, mark, place, res, err);
}

luo_status luo_annset_fold(luo_annset *set, int32_t id, const luo_shape *shape, int32_t *res,
                           luo_err *err)
{
    int32_t key[3 + 2 * LUO_RANK_MAX] = {TAG_FOLD, id, shape->rank};
    for (int32_t d = 0; d < shape->rank; d++) {
        key[3 + 2 * d] = (int32_t)(uint32_t)(uint64_t)shape->dim[d];
        key[4 + 2 * d] = (int32_t)(uint32_t)((uint64_t)shape->dim[d] >> 32);
    }
    bool fresh;
    int32_t *place = remember(set, key, 3 + 2 * shape->rank, &fresh);
    if (!place) return luo_err_nomem(err);
    if (*place >= 0) {
        *res = *place;
        return LUO_OK;
    }
    const size_t mark = luo_arena_mark(set->scratch);
    const luo_ann *made = NULL;
    const luo_status st = luo_fold_zero(set->scratch, luo_annset_get(set, id), shape, &made, err);
    return keep(set, st, made, mark, place, res, err);
}

luo_status luo_annset_fold_groups(luo_annset *set, int32_t id, const luo_shape *shape, int32_t size,
                                  bool keep_copies, int32_t *res, luo_err *err)
{
    const size_t mark = luo_arena_mark(set->scratch);
    const luo_ann *made = NULL;
    int32_t place = -1;
    const luo_status st = luo_fold_zero_groups(set->scratch, luo_annset_get(set, id), shape, size,
                                               keep_copies, &made, err);
    return keep(set, st, made, mark, &place, res, err);
}

luo_status luo_annset_across(luo_annset *set, int32_t id, int32_t *res, luo_err *err)
{
    const size_t mark = luo_arena_mark(set->scratch);
    luo_ann sum = *luo_annset_get(set, id);
    int32_t place = -1;
    sum.h = LUO_PARTIAL;
    return keep(set, LUO_OK, &sum, mark, &place, res, err);
}

/* A deep copy of the groups, whose entries the caller changes; NULL: out of memory. */
static luo_grp *copy_groups(luo_annset *set, const luo_ann *ann)
{
    luo_grp *grp = LUO_NEW_N(set->scratch, luo_grp, ann->u);
    for (int32_t u = 0; grp && u < ann->u; u++) {
        luo_ent *ent = LUO_NEW_N(set->scratch, luo_ent, ann->grp[u].nent);
        if (!ent) return NULL;
        for (int32_t k = 0; k < ann->grp[u].nent; k++) ent[k] = ann->grp[u].ent[k];
        grp[u] = ann->grp[u];
        grp[u].ent = ent;
    }
    return grp;
}

/* The entry, of a copy. */
static luo_ent *entry(luo_grp *grp, int32_t u, int32_t k)
{
    return (luo_ent *)&grp[u].ent[k];
}

luo_status luo_annset_summed(luo_annset *set, int32_t id, int32_t *res, luo_err *err)
{
    const int32_t key[2] = {TAG_SUMMED, id};
    const luo_ann *ann = luo_annset_get(set, id);
    bool fresh;
    int32_t *place = remember(set, key, 2, &fresh);
    if (!place) return luo_err_nomem(err);
    if (*place >= 0) {
        *res = *place;
        return LUO_OK;
    }
    const size_t mark = luo_arena_mark(set->scratch);
    luo_ann sum = *ann;
    luo_grp *grp = copy_groups(set, ann);
    if (!grp) return luo_err_nomem(err);
    for (int32_t u = 0; u < ann->u; u++)
        for (int32_t k = 0; k < grp[u].nent; k++)
            if (grp[u].ent[k].key == LUO_DUP) entry(grp, u, k)->key = LUO_PARTIAL;
    sum.grp = grp;
    return keep(set, LUO_OK, &sum, mark, place, res, err);
}

luo_status luo_annset_rename(luo_annset *set, int32_t id, const int32_t *to, int32_t *res,
                             luo_err *err)
{
    const size_t mark = luo_arena_mark(set->scratch);
    luo_ann made = *luo_annset_get(set, id);
    luo_grp *grp = copy_groups(set, &made);
    int32_t place = -1;
    if (!grp) return luo_err_nomem(err);
    for (int32_t u = 0; u < made.u; u++)
        for (int32_t k = 0; k < grp[u].nent; k++)
            if (grp[u].ent[k].key >= 0) entry(grp, u, k)->key = to[grp[u].ent[k].key];
    if (made.h >= 0) made.h = to[made.h];
    made.grp = grp;
    return keep(set, LUO_OK, &made, mark, &place, res, err);
}

luo_status luo_annset_inner_sums(luo_annset *set, int32_t id, int32_t *res, luo_err *err)
{
    const size_t mark = luo_arena_mark(set->scratch);
    luo_ann made = *luo_annset_get(set, id);
    luo_grp *grp = copy_groups(set, &made);
    int32_t place = -1;
    if (!grp) return luo_err_nomem(err);
    for (int32_t u = 0; u < made.u; u++)
        for (int32_t k = 0; k < grp[u].nent; k++)
            if (grp[u].ent[k].key == 0)
                *entry(grp, u, k) = (luo_ent){LUO_PARTIAL, grp[u].ent[k].n, NULL};
    made.grp = grp;
    return keep(set, LUO_OK, &made, mark, &place, res, err);
}

luo_status luo_annset_even(luo_annset *set, int32_t id, int32_t *res, luo_err *err)
{
    const size_t mark = luo_arena_mark(set->scratch);
    luo_ann made = *luo_annset_get(set, id);
    luo_grp *grp = copy_groups(set, &made);
    int32_t place = -1;
    if (!grp) return luo_err_nomem(err);
    for (int32_t u = 0; u < made.u; u++)
        for (int32_t k = 0; k < grp[u].nent; k++) entry(grp, u, k)->share = NULL;
    made.grp = grp;
    made.hshare = NULL;
    return keep(set, LUO_OK, &made, mark, &place, res, err);
}

luo_status luo_annset_pick(luo_annset *set, int32_t a, int32_t b, const bool *from_b, int32_t *res,
                           luo_err *err)
{
    const luo_ann *ann = luo_annset_get(set, a), *y = luo_annset_get(set, b);
    assert(ann->u == y->u && ann->h == y->h);
    const size_t mark = luo_arena_mark(set->scratch);
    luo_grp *grp = LUO_NEW_N(set->scratch, luo_grp, ann->u);
    if (!grp) return luo_err_nomem(err);
    for (int32_t u = 0; u < ann->u; u++) grp[u] = from_b[u] ? y->grp[u] : ann->grp[u];
    luo_ann made = *ann;
    int32_t place = -1;
    made.grp = grp;
    return keep(set, LUO_OK, &made, mark, &place, res, err);
}

static bool same_group(const luo_grp *a, const luo_grp *b)
{
    return a->ndev == b->ndev && memcmp(a->dev, b->dev, (size_t)a->ndev * sizeof *a->dev) == 0;
}

luo_status luo_annset_join(luo_annset *set, int32_t a, int32_t b, int32_t top, int32_t *res,
                           luo_err *err)
{
    const luo_ann *x = luo_annset_get(set, a), *y = luo_annset_get(set, b);
    assert(x->u == y->u);
    const size_t mark = luo_arena_mark(set->scratch);
    luo_grp *grp = LUO_NEW_N(set->scratch, luo_grp, 2 * (int64_t)x->u);
    if (!grp) return luo_err_nomem(err);
    luo_ann made = {.grp = grp};
    int32_t place = -1;
    for (int32_t u = 0; u < x->u; u++) {
        grp[made.u++] = x->grp[u];
        if (!same_group(&x->grp[u], &y->grp[u])) grp[made.u++] = y->grp[u];
    }
    made.h = made.u > 1 ? top : LUO_H_NONE;
    return keep(set, LUO_OK, &made, mark, &place, res, err);
}

bool luo_annset_is_part(const luo_annset *set, int32_t part, int32_t whole)
{
    const luo_ann *x = luo_annset_get(set, part), *y = luo_annset_get(set, whole);
    int32_t n = 0; /* members of both come in one order */
    for (int32_t u = 0; u < y->u && n < x->u; u++)
        n += same_group(&x->grp[n], &y->grp[u]) && luo_grp_same_cut(&x->grp[n], &y->grp[u]);
    return x->u < y->u && n == x->u && y->h == LUO_DUP;
}

luo_status luo_annset_members(luo_annset *set, int32_t id, const bool *keep_part, int32_t parts,
                              int32_t *res, luo_err *err)
{
    const luo_ann *ann = luo_annset_get(set, id);
    const size_t mark = luo_arena_mark(set->scratch);
    luo_grp *grp = LUO_NEW_N(set->scratch, luo_grp, ann->u);
    uint32_t *share = LUO_NEW_N(set->scratch, uint32_t, ann->u);
    if (!grp || !share) return luo_err_nomem(err);
    luo_ann part = {.h = ann->h, .inner = ann->inner, .grp = grp};
    if (ann->hshare) part.hshare = share;
    for (int32_t u = 0; u < ann->u; u++) {
        if (!keep_part[(int64_t)u * parts / ann->u]) continue;
        if (ann->hshare) share[part.u] = ann->hshare[u];
        grp[part.u++] = ann->grp[u];
    }
    assert(part.u > 0);
    if (part.u == 1) part.h = LUO_H_NONE, part.inner = false, part.hshare = NULL;
    int32_t made = -1;
    return keep(set, LUO_OK, &part, mark, &made, res, err);
}

luo_status luo_annset_present(luo_annset *set, int32_t id, int32_t absent, int32_t *res,
                              luo_err *err)
{
    const luo_ann *ann = luo_annset_get(set, id);
    const size_t mark = luo_arena_mark(set->scratch);
    bool *keep_member = LUO_NEW_N(set->scratch, bool, ann->u);
    int32_t left = 0;
    if (!keep_member) return luo_err_nomem(err);
    for (int32_t u = 0; u < ann->u; u++) left += keep_member[u] = ann->grp[u].dev[0] < absent;
    *res = id;
    luo_status st = LUO_OK;
    if (left < ann->u) st = luo_annset_members(set, id, keep_member, ann->u, res, err);
    luo_arena_reset(set->scratch, mark);
    return st;
}

luo_status luo_annset_stand_in(luo_annset *set, int32_t id, int32_t absent, const int32_t *stands,
                               int32_t *res, luo_err *err)
{
    const size_t mark = luo_arena_mark(set->scratch);
    luo_ann made = *luo_annset_get(set, id);
    luo_grp *grp = LUO_NEW_N(set->scratch, luo_grp, made.u);
    int32_t place = -1;
    if (!grp) return luo_err_nomem(err);
    for (int32_t u = 0; u < made.u; u++) {
        int32_t *dev = LUO_NEW_N(set->scratch, int32_t, made.grp[u].ndev);
        if (!dev) return luo_err_nomem(err);
        grp[u] = made.grp[u];
        for (int32_t i = 0; i < grp[u].ndev; i++) {
            const int32_t d = grp[u].dev[i];
            dev[i] = d < absent ? d : stands[d - absent];
        }
        grp[u].dev = dev;
    }
    made.grp = grp;
    return keep(set, LUO_OK, &made, mark, &place, res, err);
}
