/* ann_bind.c: an annotation meets the sizes of its tensor (docs/annotations.md#validity, last
 * rows). */
#include <inttypes.h>

#include "core/hspmd/bounds.h"
#include "core/hspmd/region.h"

static luo_status check_shape(const luo_shape *shape, const char *name, luo_err *err)
{
    if (shape->rank < 0 || shape->rank > LUO_RANK_MAX)
        return luo_err_set(err, LUO_E2BIG, "tensor '%s': %d dimensions; the limit is %d", name,
                           shape->rank, LUO_RANK_MAX);
    bool empty = false;
    int64_t cells = 1;
    for (int32_t d = 0; d < shape->rank; d++) {
        const int64_t n = shape->dim[d];
        if (n < 0 || n >= LUO_DIM_LIMIT)
            return luo_err_set(err, LUO_E2BIG,
                               "tensor '%s': dimension %d has size %" PRId64
                               "; sizes are 0 to %" PRId64,
                               name, d, n, LUO_DIM_LIMIT - 1);
        empty = empty || n == 0;
    }
    for (int32_t d = 0; !empty && d < shape->rank; d++) {
        if (cells > INT64_MAX / shape->dim[d])
            return luo_err_set(err, LUO_E2BIG, "tensor '%s': more than %" PRId64 " elements", name,
                               INT64_MAX);
        cells *= shape->dim[d];
    }
    return LUO_OK;
}

static luo_status check_rank(const luo_ann *ann, const luo_shape *shape, const char *name,
                             luo_err *err)
{
    int32_t key = ann->h >= shape->rank ? ann->h : -1;
    for (int32_t u = 0; key < 0 && u < ann->u; u++)
        for (int32_t e = 0; key < 0 && e < ann->grp[u].nent; e++)
            if (ann->grp[u].ent[e].key >= shape->rank) key = ann->grp[u].ent[e].key;
    if (key < 0) return LUO_OK;
    return luo_err_set(err, LUO_EINPUT, "tensor '%s': key %d, but it has %d dimensions", name, key,
                       shape->rank);
}

static luo_status check_member_len(const luo_ann *ann, const luo_shape *shape, const char *name,
                                   luo_err *err)
{
    if (!shape->member_len) return LUO_OK;
    if (ann->h < 0 || ann->inner || ann->hshare)
        return luo_err_set(err, LUO_EINPUT,
                           "tensor '%s': one size per member needs h >= 0, neither inner nor with "
                           "top shares",
                           name);
    int64_t sum = 0;
    for (int32_t u = 0; u < ann->u; u++) {
        if (shape->member_len[u] < 0 || shape->member_len[u] >= LUO_DIM_LIMIT)
            return luo_err_set(err, LUO_E2BIG,
                               "tensor '%s': member %d has size %" PRId64
                               "; sizes are 0 to %" PRId64,
                               name, u, shape->member_len[u], LUO_DIM_LIMIT - 1);
        sum += shape->member_len[u];
    }
    if (sum == shape->dim[ann->h]) return LUO_OK;
    return luo_err_set(err, LUO_EINPUT,
                       "tensor '%s': the sizes of the members sum to %" PRId64
                       ", dimension %d has %" PRId64,
                       name, sum, ann->h, shape->dim[ann->h]);
}

/* EXACT for one cut of `len` elements of dimension d. empty_ok: len is 0 by a zero share above. */
static luo_status check_cut(int32_t d, int64_t len, int32_t n, const uint32_t *share, bool empty_ok,
                            const char *name, luo_err *err)
{
    int64_t total = share ? 0 : n;
    for (int32_t k = 0; share && k < n; k++) total += share[k];
    bool exact = len > 0 || empty_ok || n == 1;
    if (!share) exact = exact && len % n == 0;
    for (int32_t k = 0; share && k < n && exact; k++)
        exact = (unsigned __int128)len * share[k] % (uint64_t)total == 0;
    if (exact) return LUO_OK;
    return luo_err_set(err, LUO_EINPUT,
                       "tensor '%s': dimension %d of size %" PRId64
                       " does not cut exactly by %" PRId64,
                       name, d, len, total);
}

/* The pieces of the inner pattern are cuts as well: every fine interval in U. */
static luo_status check_inner(luo_arena *scratch, const luo_ann *ann, const luo_shape *shape,
                              const char *name, luo_err *err)
{
    const int64_t *p;
    int32_t n;
    LUO_TRY(luo_bounds_inner(scratch, ann, shape, &p, &n, err));
    for (int32_t j = 0; j < n; j++)
        LUO_TRY(check_cut(ann->h, p[j + 1] - p[j], ann->u, NULL, false, name, err));
    return LUO_OK;
}

static luo_status check_members(const luo_ann *ann, const luo_shape *shape, const int64_t *top,
                                const char *name, luo_err *err)
{
    for (int32_t u = 0; u < ann->u; u++)
        for (int32_t e = 0; e < ann->grp[u].nent; e++) {
            const luo_ent *ent = &ann->grp[u].ent[e];
            if (ent->key < 0) continue;
            const bool based = top && ent->key == ann->h;
            const int64_t len = based ? top[u + 1] - top[u] : shape->dim[ent->key];
            LUO_TRY(check_cut(ent->key, len, ent->n, ent->share, based && !len, name, err));
        }
    return LUO_OK;
}

static luo_status check_exact(luo_arena *scratch, const luo_ann *ann, const luo_shape *shape,
                              const char *name, luo_err *err)
{
    int64_t *top = NULL;
    if (ann->h >= 0 && !ann->inner) {
        if (!shape->member_len)
            LUO_TRY(check_cut(ann->h, shape->dim[ann->h], ann->u, ann->hshare, false, name, err));
        LUO_TRY(luo_bounds_top(scratch, ann, shape, &top, err));
    }
    LUO_TRY(check_members(ann, shape, top, name, err));
    return ann->inner ? check_inner(scratch, ann, shape, name, err) : LUO_OK;
}

luo_status luo_ann_bind(const luo_ann *ann, const luo_shape *shape, luo_bind_mode mode,
                        const char *name, luo_err *err)
{
    LUO_TRY(check_shape(shape, name, err));
    LUO_TRY(check_rank(ann, shape, name, err));
    LUO_TRY(check_member_len(ann, shape, name, err));
    if (mode == LUO_BIND_ROUND) return LUO_OK;
    luo_arena *scratch = luo_arena_new(0);
    if (!scratch) return luo_err_nomem(err);
    const luo_status st = check_exact(scratch, ann, shape, name, err);
    luo_arena_free(scratch);
    return st;
}

luo_status luo_shape_parse(const char *text, luo_shape *shape, luo_err *err)
{
    luo_shape s = {0};
    for (const char *at = text; *at || s.rank;) {
        int64_t n = 0;
        if (*at < '0' || *at > '9')
            return luo_err_set(err, LUO_EPARSE, "shape `%s`, column %d: a size is expected.", text,
                               (int)(at - text) + 1);
        for (; *at >= '0' && *at <= '9'; at++)
            if (n < LUO_DIM_LIMIT) n = 10 * n + (*at - '0');
        if (n >= LUO_DIM_LIMIT)
            return luo_err_set(err, LUO_E2BIG, "shape `%s`: sizes are 0 to %" PRId64 ".", text,
                               LUO_DIM_LIMIT - 1);
        if (s.rank == LUO_RANK_MAX)
            return luo_err_set(err, LUO_E2BIG, "shape `%s`: %d dimensions are the limit.", text,
                               LUO_RANK_MAX);
        s.dim[s.rank++] = n;
        if (!*at) break;
        if (*at != 'x')
            return luo_err_set(err, LUO_EPARSE, "shape `%s`, column %d: `x` is expected.", text,
                               (int)(at - text) + 1);
        at++;
    }
    *shape = s;
    return LUO_OK;
}
