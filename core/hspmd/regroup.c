/* regroup.c: members side by side read as one. Copies of copies are copies, and sums of
 * sums are a sum, so where members are copies (h = -1) or summands (h = -2) of each other and are
 * cut alike, some of them together are one member with a further entry in front. */
#include <stdlib.h>
#include <string.h>

#include "core/base/vec.h"
#include "core/hspmd/regroup.h"
#include "core/hspmd/resolve.h"

luo_status luo_regroup_join(luo_arena *arena, const luo_grp *group, int32_t n, int32_t key,
                            luo_grp *out, bool *works, luo_err *err)
{
    int32_t ndev = 0, at = 0, more = 0;
    *works = false;
    for (int32_t k = 0; k < n; k++) ndev += group[k].ndev;
    for (int32_t k = 1; k < n; k++)
        if (group[k].ndev != group[0].ndev || !luo_grp_same_cut(&group[k], &group[0]))
            return LUO_OK;
    const bool has = luo_grp_count(&group[0], key) > 1;
    if (has && group[0].ent[0].key != key) return LUO_OK; /* it could not stand in front */
    int32_t *dev = LUO_NEW_N(arena, int32_t, ndev);
    luo_ent *ent = LUO_NEW_N(arena, luo_ent, group[0].nent + 1);
    if (!dev || !ent) return luo_err_nomem(err);
    for (int32_t k = 0; k < n; k++) {
        memcpy(dev + at, group[k].dev, (size_t)group[k].ndev * sizeof *dev);
        at += group[k].ndev;
    }
    ent[more++] = (luo_ent){.key = key, .n = n * (has ? group[0].ent[0].n : 1)};
    for (int32_t e = has; e < group[0].nent; e++) ent[more++] = group[0].ent[e];
    *out = (luo_grp){.ndev = ndev, .dev = dev, .nent = more, .ent = ent};
    *works = true;
    return LUO_OK;
}

static luo_status same_set(luo_arena *arena, const luo_grp *a, const luo_grp *b, bool *same,
                           luo_err *err)
{
    const size_t size = (size_t)a->ndev * sizeof *a->dev;
    *same = a->ndev == b->ndev;
    if (!*same) return LUO_OK;
    int32_t *x = LUO_NEW_N(arena, int32_t, 2 * a->ndev);
    if (!x) return luo_err_nomem(err);
    memcpy(x, a->dev, size);
    memcpy(x + a->ndev, b->dev, size);
    qsort(x, (size_t)a->ndev, sizeof *x, luo_vec_by_int32);
    qsort(x + a->ndev, (size_t)a->ndev, sizeof *x, luo_vec_by_int32);
    *same = memcmp(x, x + a->ndev, size) == 0;
    return LUO_OK;
}

luo_status luo_regroup_like(luo_arena *arena, const luo_ann *ann, const luo_ann *like,
                            const luo_ann **out, luo_err *err)
{
    *out = NULL;
    if (ann->u <= like->u || like->u < 2 || (ann->h != LUO_DUP && ann->h != LUO_PARTIAL))
        return LUO_OK;
    luo_grp *grp = LUO_NEW_N(arena, luo_grp, like->u);
    if (!grp) return luo_err_nomem(err);
    int32_t m = 0;
    for (int32_t u = 0; u < like->u; u++) {
        int32_t n = 0, ndev = 0;
        bool works;
        while (m + n < ann->u && ndev < like->grp[u].ndev) ndev += ann->grp[m + n++].ndev;
        if (n == 0) return LUO_OK;
        LUO_TRY(luo_regroup_join(arena, &ann->grp[m], n, ann->h, &grp[u], &works, err));
        if (works) LUO_TRY(same_set(arena, &grp[u], &like->grp[u], &works, err));
        if (!works) return LUO_OK;
        m += n;
    }
    if (m < ann->u) return LUO_OK;
    const luo_ann made = {.u = like->u, .h = ann->h, .grp = grp};
    *out = luo_ann_canonical(arena, &made);
    return *out ? LUO_OK : luo_err_nomem(err);
}
