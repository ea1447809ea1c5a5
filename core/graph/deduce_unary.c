/* deduce_unary.c: rules with one operand: permute, the complete form and the demand for
 * an uncut dimension (docs/annotations.md). */
#include <string.h>

#include "core/graph/deduce.h"
#include "core/graph/deduce_order.h"

/* Entries of g with keys mapped by to[key + 2]; room for group->nent. */
static void map_entries(const luo_grp *group, const int32_t *to, luo_ent *ent)
{
    for (int32_t e = 0; e < group->nent; e++) {
        ent[e] = group->ent[e];
        ent[e].key = to[ent[e].key - LUO_PARTIAL];
    }
}

luo_status luo_deduce_permute(luo_arena *arena, const luo_ann *ann, const int32_t *perm,
                              int32_t rank, const luo_ann **res, luo_err *err)
{
    int32_t to[LUO_RANK_MAX - LUO_PARTIAL] = {LUO_PARTIAL, LUO_DUP};
    const luo_shape shape = {.rank = rank};
    LUO_TRY(luo_ann_bind(ann, &shape, LUO_BIND_ROUND, "operand of permute", err));
    for (int32_t j = 0; j < rank; j++) to[perm[j] - LUO_PARTIAL] = j;
    luo_grp *grp = LUO_NEW_N(arena, luo_grp, ann->u);
    if (!grp) return luo_err_nomem(err);
    for (int32_t u = 0; u < ann->u; u++) {
        luo_ent *ent = LUO_NEW_N(arena, luo_ent, ann->grp[u].nent);
        if (!ent) return luo_err_nomem(err);
        map_entries(&ann->grp[u], to, ent);
        grp[u] = ann->grp[u];
        grp[u].ent = ent;
    }
    luo_ann out = *ann;
    if (ann->h >= 0) out.h = to[ann->h - LUO_PARTIAL];
    out.grp = grp;
    const luo_ann *canonical = luo_ann_canonical(arena, &out);
    if (!canonical) return luo_err_nomem(err);
    *res = canonical;
    return LUO_OK;
}

/* Both -1 and -2: equal split coordinates become duplicates numbered in list order. */
static luo_status merge_copies(luo_arena *arena, const luo_grp *group, luo_grp *out, luo_err *err)
{
    luo_coords coords = {.ndev = group->ndev};
    int32_t fewest, most, *at;
    for (int32_t d = 0; d < LUO_RANK_MAX; d++) {
        const int32_t n = luo_grp_count(group, d), stride = luo_grp_stride(group, d);
        if (n == 1) continue;
        coords.key[coords.n] = (luo_ent){d, n, luo_grp_share(group, d)};
        coords.coord[coords.n] = LUO_NEW_N(arena, int32_t, group->ndev);
        if (!coords.coord[coords.n]) return luo_err_nomem(err);
        for (int32_t i = 0; i < group->ndev; i++) coords.coord[coords.n][i] = i / stride % n;
        coords.n++;
    }
    luo_ent *ent = LUO_NEW_N(arena, luo_ent, coords.n + 1);
    int32_t *dev = LUO_NEW_N(arena, int32_t, group->ndev);
    if (!ent || !dev || !luo_coords_duplicates(arena, &coords, &fewest, &most) ||
        !luo_coords_order(arena, &coords, ent, &at))
        return luo_err_nomem(err);
    for (int32_t i = 0; i < group->ndev; i++) dev[at ? at[i] : i] = group->dev[i];
    *out = (luo_grp){.ndev = group->ndev, .dev = dev, .nent = coords.n, .ent = ent};
    return LUO_OK;
}

static luo_status complete_group(luo_arena *arena, const luo_grp *group, luo_grp *out, luo_err *err)
{
    static const int32_t to[] = {LUO_DUP, LUO_DUP, 0, 1, 2, 3, 4, 5, 6, 7};
    *out = *group;
    if (luo_grp_count(group, LUO_PARTIAL) == 1) return LUO_OK;
    if (luo_grp_count(group, LUO_DUP) > 1) return merge_copies(arena, group, out, err);
    luo_ent *ent = LUO_NEW_N(arena, luo_ent, group->nent);
    if (!ent) return luo_err_nomem(err);
    map_entries(group, to, ent);
    out->ent = ent;
    return LUO_OK;
}

luo_status luo_deduce_complete(luo_arena *arena, const luo_ann *ann, const luo_ann **res,
                               luo_err *err)
{
    if (!luo_ann_has_partial(ann)) {
        *res = ann;
        return LUO_OK;
    }
    luo_ann out = *ann;
    luo_grp *grp = LUO_NEW_N(arena, luo_grp, ann->u);
    if (!grp) return luo_err_nomem(err);
    for (int32_t u = 0; u < ann->u; u++) LUO_TRY(complete_group(arena, &ann->grp[u], &grp[u], err));
    out.grp = grp;
    if (ann->h == LUO_PARTIAL) out.h = LUO_DUP;
    const luo_ann *canonical = luo_ann_canonical(arena, &out);
    if (!canonical) return luo_err_nomem(err);
    *res = canonical;
    return LUO_OK;
}

luo_status luo_deduce_want_whole(const luo_ann *ann, int32_t d, const char *tensor, const char *op,
                                 const char *why, luo_err *err)
{
    if (luo_ann_has_partial(ann))
        return luo_err_set(err, LUO_EDEDUCE, "op '%s': D_PARTIAL: '%s' is Partial; %s", op, tensor,
                           why);
    bool cut = ann->h == d;
    for (int32_t u = 0; u < ann->u && !cut; u++) cut = luo_grp_count(&ann->grp[u], d) > 1;
    if (!cut) return LUO_OK;
    return luo_err_set(err, LUO_EDEDUCE, "op '%s': D_UNCUT: dimension %d of '%s' is cut; %s", op, d,
                       tensor, why);
}
