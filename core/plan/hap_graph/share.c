/* Whole lengths by largest remainder. */
#include "core/plan/hap_graph/share.h"

#include <inttypes.h>
#include <math.h>

static luo_status check(int64_t L, const int64_t *w, int32_t n, int64_t *sum, luo_err *err)
{
    *sum = 0;
    if (L < 1 || L > INT32_MAX)
        return luo_err_set(err, LUO_EINPUT,
                           "extent %" PRId64 " cannot be cut; 1 to %d is expected.", L, INT32_MAX);
    for (int32_t i = 0; i < n; i++) {
        if (w[i] < 0 || w[i] > INT32_MAX)
            return luo_err_set(err, LUO_EINPUT,
                               "share %" PRId64 " of device %d is not usable; 0 to %d is expected.",
                               w[i], i, INT32_MAX);
        *sum += w[i];
    }
    if (n < 1 || *sum < 1 || *sum > INT32_MAX)
        return luo_err_set(err, LUO_EINPUT,
                           "shares sum to %" PRId64 "; a sum of 1 to %d is expected.", *sum,
                           INT32_MAX);
    return LUO_OK;
}

/* The largest remainder below `below`, -1: none. */
static int64_t largest(int64_t L, const int64_t *w, int32_t n, int64_t sum, int64_t below)
{
    int64_t most = -1;
    for (int32_t i = 0; i < n; i++) {
        const int64_t rest = L * w[i] % sum;
        if (rest > most && rest < below) most = rest;
    }
    return most;
}

static luo_status cut(int64_t L, const int64_t *w, int32_t n, int64_t *len, bool last, luo_err *err)
{
    int64_t sum, left = L;
    LUO_TRY(check(L, w, n, &sum, err));
    for (int32_t i = 0; i < n; i++) {
        len[i] = L * w[i] / sum;
        left -= len[i];
    }
    for (int64_t rest = sum; left > 0;) {
        rest = largest(L, w, n, sum, rest);
        for (int32_t k = 0; k < n && left > 0; k++) {
            const int32_t i = last ? n - 1 - k : k;
            if (L * w[i] % sum != rest) continue;
            len[i]++;
            left--;
        }
    }
    return LUO_OK;
}

luo_status luo_share_round(int64_t L, const int64_t *w, int32_t n, int64_t *len, luo_err *err)
{
    return cut(L, w, n, len, false, err);
}

luo_status luo_share_round_last(int64_t L, const int64_t *w, int32_t n, int64_t *len, luo_err *err)
{
    if (L != 1) return cut(L, w, n, len, true, err);
    int64_t sum;
    LUO_TRY(check(L, w, n, &sum, err));
    for (int32_t i = 0; i < n; i++) len[i] = 1;
    return LUO_OK;
}

luo_status luo_share_snap(const double *share, int32_t n, int64_t *w, luo_err *err)
{
    int64_t sum = 0;
    for (int32_t i = 0; i < n; i++) {
        if (!(share[i] >= 0) || share[i] > 1024)
            return luo_err_set(err, LUO_EINPUT,
                               "share %g of device %d is not usable; 0 to 1 is expected.", share[i],
                               i);
        w[i] = (int64_t)floor(share[i] * LUO_SHARE_UNITS + 0.5);
        sum += w[i];
    }
    if (sum == 0)
        return luo_err_set(err, LUO_EINPUT,
                           "all shares are 0; one above half a millionth is needed.");
    return LUO_OK;
}
