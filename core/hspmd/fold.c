/* fold.c: where the optimizer state of a parameter lies under ZeRO-1 (docs/annotations.md#zero).
 *
 * Duplicates of a member become further cuts of dimension 0, inside the part they duplicate, and
 * the device list is sorted by the new coordinates. The published code keeps the list order, by
 * which a state shard may lie outside its device's parameter shard (fault K9). */
#include "core/hspmd/fold.h"
#include "core/hspmd/bounds.h"
#include "core/hspmd/regroup.h"
#include "core/hspmd/resolve.h"

/* Shares of the n*d pieces: the n old parts of dimension 0, each cut evenly in d. */
static luo_status piece_shares(luo_arena *arena, const luo_grp *group, int64_t len, int32_t n,
                               int32_t d, const uint32_t **share, luo_err *err)
{
    int64_t *old = LUO_NEW_N(arena, int64_t, n + 1);
    int64_t *fine = LUO_NEW_N(arena, int64_t, n * d + 1);
    if (!old || !fine) return luo_err_nomem(err);
    luo_bounds_cut(len, n, luo_grp_share(group, 0), old);
    for (int32_t c = 0; c < n; c++) {
        luo_bounds_cut(old[c + 1] - old[c], d, NULL, fine + c * d);
        for (int32_t k = 0; k < d; k++) fine[c * d + k] += old[c];
    }
    fine[n * d] = len;
    return luo_bounds_shares(arena, n * d, fine, share, err);
}

/* New entries: the one of dimension 0 keeps its place (in front if there was none). */
static int32_t fold_entries(const luo_grp *group, int32_t parts, const uint32_t *share,
                            luo_ent *ent)
{
    int32_t n = 0;
    if (luo_grp_count(group, 0) == 1) {
        ent[0] = (luo_ent){.key = 0, .n = parts, .share = share};
        n = 1;
    }
    for (int32_t e = 0; e < group->nent; e++) {
        if (group->ent[e].key == LUO_DUP) continue;
        ent[n] = group->ent[e];
        if (ent[n].key == 0) ent[n] = (luo_ent){.key = 0, .n = parts, .share = share};
        n++;
    }
    return n;
}

static luo_status fold_group(luo_arena *arena, const luo_grp *group, int64_t len, luo_grp *out,
                             luo_err *err)
{
    const int32_t n = luo_grp_count(group, 0), d = luo_grp_count(group, LUO_DUP);
    *out = *group;
    if (d == 1) return LUO_OK;
    luo_ent *ent = LUO_NEW_N(arena, luo_ent, group->nent + 1);
    const uint32_t *share;
    int32_t *dev = LUO_NEW_N(arena, int32_t, group->ndev);
    if (!ent || !dev) return luo_err_nomem(err);
    LUO_TRY(piece_shares(arena, group, len, n, d, &share, err));
    *out = (luo_grp){.ndev = group->ndev, .dev = dev, .ent = ent};
    out->nent = fold_entries(group, n * d, share, ent);
    for (int32_t i = 0; i < group->ndev; i++) {
        int32_t at = 0;
        for (int32_t e = 0; e < out->nent; e++) {
            int32_t c = luo_grp_coord(group, i, ent[e].key);
            if (ent[e].key == 0) c = c * d + luo_grp_coord(group, i, LUO_DUP);
            at = at * ent[e].n + c;
        }
        dev[at] = group->dev[i];
    }
    return LUO_OK;
}

luo_status luo_fold_zero(luo_arena *arena, const luo_ann *param, const luo_shape *shape,
                         const luo_ann **out, luo_err *err)
{
    if (luo_ann_has_partial(param) || param->h >= 0 || shape->rank < 1)
        return luo_err_set(err, LUO_EINPUT,
                           "ZeRO-1 needs a parameter without Partial, with h absent or -1 and at "
                           "least one dimension");
    luo_status st = LUO_OK;
    const size_t mark = luo_arena_mark(arena);
    luo_grp *grp = LUO_NEW_N(arena, luo_grp, param->u);
    if (!grp) return luo_err_nomem(err);
    const luo_ann folded = {.u = param->u,
                            .h = param->u > 1 ? 0 : LUO_H_NONE,
                            .inner = param->u > 1,
                            .grp = grp};
    for (int32_t u = 0; u < param->u; u++)
        LUO_TRY_OUT(fold_group(arena, &param->grp[u], shape->dim[0], &grp[u], err));
    const luo_ann *canonical = luo_ann_canonical(arena, &folded);
    if (canonical) *out = canonical;
    else st = luo_err_nomem(err);
out:
    if (st != LUO_OK) luo_arena_reset(arena, mark);
    return st;
}

/* Copies of a group's members become cuts of dimension 0; those of a member itself stay. */
static luo_status fold_front(luo_arena *arena, const luo_grp *group, int32_t n, luo_grp *out,
                             luo_err *err)
{
    luo_ent *ent = LUO_NEW_N(arena, luo_ent, group->nent + 1);
    if (!ent) return luo_err_nomem(err);
    ent[0] = (luo_ent){.key = 0, .n = n};
    for (int32_t e = 0; e < group->nent; e++) {
        ent[e + 1] = group->ent[e];
        if (group->ent[e].key == LUO_DUP) ent[e + 1].n /= n;
    }
    *out = *group;
    out->ent = ent;
    out->nent = group->nent + 1;
    return LUO_OK;
}

luo_status luo_fold_zero_groups(luo_arena *arena, const luo_ann *param, const luo_shape *shape,
                                int32_t size, bool keep, const luo_ann **out, luo_err *err)
{
    const int32_t u = param->u / size;
    luo_grp *grp = LUO_NEW_N(arena, luo_grp, u);
    if (!grp) return luo_err_nomem(err);
    for (int32_t k = 0; k < u; k++) {
        const luo_grp *first = &param->grp[k * size];
        luo_grp one;
        bool works;
        LUO_TRY(luo_regroup_join(arena, first, size, LUO_DUP, &one, &works, err));
        if (!works)
            return luo_err_set(err, LUO_EINPUT, "members %d to %d are cut in different ways; "
                               "copies cut alike are expected.", (int)(k * size),
                               (int)(k * size + size - 1));
        if (keep && luo_grp_count(first, LUO_DUP) > 1)
            LUO_TRY(fold_front(arena, &one, size, &grp[k], err));
        else
            LUO_TRY(fold_group(arena, &one, shape->dim[0], &grp[k], err));
    }
    const luo_ann folded = {.u = u, .h = LUO_DUP, .grp = grp};
    *out = luo_ann_canonical(arena, &folded);
    return *out ? LUO_OK : luo_err_nomem(err);
}
