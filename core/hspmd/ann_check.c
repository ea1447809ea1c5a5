/* ann_check.c: validity of annotations (docs/annotations.md#validity). One function per row of the
 * table, each over the whole annotation, because the order of the rows decides what is reported. */
#include "core/hspmd/ann_check.h"

#include <inttypes.h>
#include <stdio.h>

static luo_status bad(luo_err *err, const char *fmt, ...) LUO_PRINTF(2, 3);

static luo_status bad(luo_err *err, const char *fmt, ...)
{
    char text[LUO_ERR_TEXT];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return luo_err_set(err, LUO_EINPUT, "annotation: %s", text);
}

static luo_status check_nodev(const luo_ann *ann, luo_err *err)
{
    if (ann->u < 1) return bad(err, "it has no subgroups");
    for (int32_t u = 0; u < ann->u; u++)
        if (ann->grp[u].ndev < 1) return bad(err, "subgroup %d has no devices", u);
    return LUO_OK;
}

static luo_status check_ids(const luo_ann *ann, int32_t *max, luo_err *err)
{
    *max = 0;
    for (int32_t u = 0; u < ann->u; u++)
        for (int32_t i = 0; i < ann->grp[u].ndev; i++) {
            const int32_t dev = ann->grp[u].dev[i];
            if (dev < 0 || dev >= LUO_DEVICE_LIMIT)
                return luo_err_set(err, LUO_E2BIG, "annotation: device id %d is %s the limit %d",
                                   dev, dev < 0 ? "below" : "above",
                                   dev < 0 ? 0 : LUO_DEVICE_LIMIT - 1);
            if (dev > *max) *max = dev;
        }
    return LUO_OK;
}

/* Sentence for the second appearance of dev, in member `second`. */
static luo_status twice(const luo_ann *ann, int32_t dev, int32_t second, luo_err *err)
{
    int32_t first = 0;
    for (int32_t i = 0; ann->grp[first].dev[i] != dev;)
        if (++i == ann->grp[first].ndev) {
            first++;
            i = 0;
        }
    if (first == second) return bad(err, "device %d is listed twice (subgroup %d)", dev, first);
    return bad(err, "device %d is listed twice (subgroups %d and %d)", dev, first, second);
}

static luo_status check_dupdev(const luo_ann *ann, luo_err *err)
{
    int32_t max;
    LUO_TRY(check_ids(ann, &max, err));
    const size_t words = (size_t)max / 64 + 1;
    luo_arena *scratch = luo_arena_new(words * 8);
    uint64_t *seen = scratch ? LUO_NEW_N(scratch, uint64_t, words) : NULL;
    luo_status st = seen ? LUO_OK : luo_err_nomem(err);
    for (int32_t u = 0; st == LUO_OK && u < ann->u; u++)
        for (int32_t i = 0; st == LUO_OK && i < ann->grp[u].ndev; i++) {
            const int32_t dev = ann->grp[u].dev[i];
            const uint64_t bit = UINT64_C(1) << (dev % 64);
            if (seen[dev / 64] & bit) st = twice(ann, dev, u, err);
            seen[dev / 64] |= bit;
        }
    luo_arena_free(scratch);
    return st;
}

static luo_status wrong_key(int32_t key, luo_err *err)
{
    return bad(err, "%d is neither a dimension nor -1 (duplicate) nor -2 (partial)", key);
}

static luo_status check_key(const luo_ann *ann, bool h_given, luo_err *err)
{
    if (h_given && ann->h < LUO_PARTIAL) return wrong_key(ann->h, err);
    if (h_given && ann->h >= LUO_RANK_MAX)
        return luo_err_set(err, LUO_E2BIG, "annotation: h %d is above the limit %d", ann->h,
                           LUO_RANK_MAX - 1);
    for (int32_t u = 0; u < ann->u; u++)
        for (int32_t e = 0; e < ann->grp[u].nent; e++) {
            const int32_t key = ann->grp[u].ent[e].key;
            if (key < LUO_PARTIAL) return wrong_key(key, err);
            if (key >= LUO_RANK_MAX)
                return luo_err_set(err, LUO_E2BIG, "annotation: key %d is above the limit %d", key,
                                   LUO_RANK_MAX - 1);
        }
    return LUO_OK;
}

static luo_status check_dupkey(const luo_ann *ann, luo_err *err)
{
    for (int32_t u = 0; u < ann->u; u++) {
        uint32_t seen = 0;
        for (int32_t e = 0; e < ann->grp[u].nent; e++) {
            const int32_t key = ann->grp[u].ent[e].key;
            const uint32_t bit = 1u << (key - LUO_PARTIAL);
            if (seen & bit)
                return bad(err,
                           "key %d appears twice in subgroup %d; merge the entries or permute the "
                           "device list",
                           key, u);
            seen |= bit;
        }
    }
    return LUO_OK;
}

static luo_status check_zero(const luo_ann *ann, luo_err *err)
{
    for (int32_t u = 0; u < ann->u; u++)
        for (int32_t e = 0; e < ann->grp[u].nent; e++)
            if (ann->grp[u].ent[e].n < 1)
                return bad(err, "key %d in subgroup %d has count %d", ann->grp[u].ent[e].key, u,
                           ann->grp[u].ent[e].n);
    return LUO_OK;
}

static luo_status check_sharekey(const luo_ann *ann, luo_err *err)
{
    for (int32_t u = 0; u < ann->u; u++)
        for (int32_t e = 0; e < ann->grp[u].nent; e++)
            if (ann->grp[u].ent[e].share && ann->grp[u].ent[e].key < 0)
                return bad(err, "shares are allowed on a split dimension only, not on %d",
                           ann->grp[u].ent[e].key);
    return LUO_OK;
}

/* Largest share; 0: all zero. */
static uint32_t largest(const uint32_t *share, int32_t n)
{
    uint32_t max = 0;
    for (int32_t k = 0; k < n; k++)
        if (share[k] > max) max = share[k];
    return max;
}

static luo_status share_limit(uint32_t max, luo_err *err)
{
    if (max <= INT32_MAX) return LUO_OK;
    return luo_err_set(err, LUO_E2BIG, "annotation: share %" PRIu32 " is above the limit %d", max,
                       INT32_MAX);
}

static luo_status check_shares(const luo_ann *ann, luo_err *err)
{
    for (int32_t u = 0; u < ann->u; u++)
        for (int32_t e = 0; e < ann->grp[u].nent; e++) {
            const luo_ent *ent = &ann->grp[u].ent[e];
            if (!ent->share) continue;
            const uint32_t max = largest(ent->share, ent->n);
            LUO_TRY(share_limit(max, err));
            if (!max) return bad(err, "shares of key %d in subgroup %d are all zero", ent->key, u);
        }
    return LUO_OK;
}

static luo_status check_count(const luo_ann *ann, luo_err *err)
{
    for (int32_t u = 0; u < ann->u; u++) {
        int64_t product = 1;
        for (int32_t e = 0; e < ann->grp[u].nent; e++) {
            product *= ann->grp[u].ent[e].n; /* both factors are below 2^31 */
            if (product > INT32_MAX)
                return bad(err, "subgroup %d lists %d devices but its counts multiply to above %d",
                           u, ann->grp[u].ndev, INT32_MAX);
        }
        if (product != ann->grp[u].ndev)
            return bad(err, "subgroup %d lists %d devices but its counts multiply to %" PRId64, u,
                       ann->grp[u].ndev, product);
    }
    return LUO_OK;
}

static luo_status check_top(const luo_ann *ann, bool h_given, int64_t n_hshare, luo_err *err)
{
    if (ann->u > 1 && !h_given) return bad(err, "%d subgroups need h=", ann->u);
    if (ann->u == 1 && h_given) return bad(err, "h=%d with a single subgroup; drop h", ann->h);
    if (ann->inner && (ann->h < 0 || n_hshare))
        return bad(err, "the inner pattern needs h >= 0 and no top shares");
    if (!n_hshare) return LUO_OK;
    if (n_hshare != ann->u)
        return bad(err, "%" PRId64 " top shares for %d subgroups", n_hshare, ann->u);
    if (ann->h < 0) return bad(err, "top shares need h >= 0, not h=%d", ann->h);
    const uint32_t max = largest(ann->hshare, ann->u);
    LUO_TRY(share_limit(max, err));
    return max ? LUO_OK : bad(err, "the top shares are all zero");
}

luo_status luo_ann_check_as(const luo_ann *ann, bool h_given, int64_t n_hshare, luo_err *err)
{
    LUO_TRY(check_nodev(ann, err));
    for (int32_t u = 0; u < ann->u; u++)
        if (ann->grp[u].nent > LUO_ENTRIES_MAX)
            return luo_err_set(err, LUO_E2BIG,
                               "annotation: %d entries in subgroup %d are above the limit %d",
                               ann->grp[u].nent, u, LUO_ENTRIES_MAX);
    LUO_TRY(check_dupdev(ann, err));
    LUO_TRY(check_key(ann, h_given, err));
    LUO_TRY(check_dupkey(ann, err));
    LUO_TRY(check_zero(ann, err));
    LUO_TRY(check_sharekey(ann, err));
    LUO_TRY(check_shares(ann, err));
    LUO_TRY(check_count(ann, err));
    return check_top(ann, h_given, n_hshare, err);
}

luo_status luo_ann_check(const luo_ann *ann, luo_err *err)
{
    return luo_ann_check_as(ann, ann->h != LUO_H_NONE, ann->hshare ? ann->u : 0, err);
}
