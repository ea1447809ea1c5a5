/* bounds.c: cutting a length by shares (docs/annotations.md#cutting-by-shares). */
#include <assert.h>
#include <inttypes.h>

#include "core/hspmd/bounds.h"
#include "core/hspmd/region.h"

static void cut_even(int64_t len, int32_t n, int64_t *bounds)
{
    const int64_t q = len / n, more = len % n;
    for (int32_t k = 0; k <= n; k++) bounds[k] = k * q + (k < more ? k : more);
}

/* Largest t such that at least `want` of r[0..n) are >= t. Pre: 1 <= want <= n, r >= 0. */
static int64_t threshold(const int64_t *r, int32_t n, int64_t want)
{
    int64_t lo = 0, hi = 0;
    for (int32_t k = 0; k < n; k++)
        if (r[k] > hi) hi = r[k];
    while (lo < hi) {
        const int64_t t = lo + (hi - lo + 1) / 2;
        int64_t reach = 0;
        for (int32_t k = 0; k < n; k++) reach += r[k] >= t;
        if (reach >= want) lo = t;
        else hi = t - 1;
    }
    return lo;
}

/* The remainders r_k lie in bounds[1..n] until they are turned into bounds: no scratch needed. */
static void cut_shares(int64_t len, int32_t n, const uint32_t *share, int64_t *bounds)
{
    int64_t total = 0, left = len;
    for (int32_t k = 0; k < n; k++) total += share[k];
    assert(total > 0);
    for (int32_t k = 0; k < n; k++) {
        const unsigned __int128 x = (unsigned __int128)len * share[k];
        left -= (int64_t)(x / (uint64_t)total);
        bounds[k + 1] = (int64_t)(x % (uint64_t)total);
    }
    const int64_t t = left ? threshold(bounds + 1, n, left) : 0;
    int64_t ties = left; /* places left for r_k = t after all r_k > t */
    for (int32_t k = 0; left && k < n; k++) ties -= bounds[k + 1] > t;
    bounds[0] = 0;
    for (int32_t k = 0; k < n; k++) {
        const unsigned __int128 x = (unsigned __int128)len * share[k];
        const int64_t r = bounds[k + 1];
        const int one = left && (r > t || (r == t && ties-- > 0));
        bounds[k + 1] = bounds[k] + (int64_t)(x / (uint64_t)total) + one;
    }
}

void luo_bounds_cut(int64_t len, int32_t n, const uint32_t *share, int64_t *bounds)
{
    assert(n >= 1 && len >= 0);
    if (share) cut_shares(len, n, share, bounds);
    else cut_even(len, n, bounds);
}

int64_t luo_bounds_gcd(int64_t a, int64_t b)
{
    while (b) {
        const int64_t r = a % b;
        a = b;
        b = r;
    }
    return a;
}

/* True if the even cut has these sizes: the longer parts first, one element apart. */
static bool is_even(int32_t n, const int64_t *bounds)
{
    const int64_t first = bounds[1] - bounds[0];
    int64_t last = first;
    for (int32_t k = 1; k < n; k++) {
        const int64_t size = bounds[k + 1] - bounds[k];
        if (size > last || size < first - 1) return false;
        last = size;
    }
    return true;
}

luo_status luo_bounds_shares(luo_arena *arena, int32_t n, const int64_t *bounds,
                             const uint32_t **share, luo_err *err)
{
    int64_t g = 0, max = 0;
    for (int32_t k = 0; k < n; k++) {
        const int64_t size = bounds[k + 1] - bounds[k];
        g = luo_bounds_gcd(g, size);
        if (size > max) max = size;
    }
    *share = NULL;
    if (max == 0) return LUO_OK;
    if (max / g > INT32_MAX) {
        if (is_even(n, bounds)) return LUO_OK;
        return luo_err_set(err, LUO_E2BIG,
                           "annotation: share %" PRId64 " is above the limit %d", max / g,
                           INT32_MAX);
    }
    uint32_t *list = luo_arena_alloc(arena, (size_t)n * sizeof *list);
    if (!list) return luo_err_nomem(err);
    for (int32_t k = 0; k < n; k++) list[k] = (uint32_t)((bounds[k + 1] - bounds[k]) / g);
    *share = list;
    return LUO_OK;
}
