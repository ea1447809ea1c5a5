/* share.h: whole lengths of a dimension that is cut by shares (HAP: uneven pieces).
 *
 * Notation: L = extent, w_i = weight of device i, W = their sum. */
#ifndef LUO_CORE_PLAN_HAP_GRAPH_SHARE_H
#define LUO_CORE_PLAN_HAP_GRAPH_SHARE_H
#include <stdint.h>

#include "core/base/err.h"

/* Weights of shares: units in a whole. A finer grid would tell apart 0.75 and the 0.749999999 that
 * a linear program returns for it, and an extent of 2 would be cut 1,1 instead of 2,0. */
enum { LUO_SHARE_UNITS = 1 << 20 };

/* len[i] = floor(L w_i / W); what is missing goes, one each, to the largest remainders, ties to the
 * lowest index. Sum of len = L.
 * Shapes: w, len: n.
 * Pre:    1 <= L < 2^31, n >= 1, 0 <= w_i, 0 < W < 2^31.
 * Errors: LUO_EINPUT something of that is not so, len is then untouched.
 * Cost:   O(n * different remainders that get a unit).
 * Source: the largest remainder cut of annotations (core/hspmd/bounds.h), as lengths.
 * See:    tests/unit/check_hap_share.c */
luo_status luo_share_round(int64_t L, const int64_t *w, int32_t n, int64_t *len, luo_err *err);
/* The same as published planners do it: ties to the highest index, and all ones where L is 1. */
luo_status luo_share_round_last(int64_t L, const int64_t *w, int32_t n, int64_t *len, luo_err *err);
/* w[i] = share[i] in units of LUO_SHARE_UNITS, to the nearest.
 * Errors: LUO_EINPUT a share is negative or no number, or all are 0 then. */
luo_status luo_share_snap(const double *share, int32_t n, int64_t *w, luo_err *err);
#endif
