/* gen_ann.h: random members for property tests. */
#ifndef LUO_TESTS_PROP_GEN_ANN_H
#define LUO_TESTS_PROP_GEN_ANN_H
#include "core/base/rng.h"
#include "core/hspmd/region.h"

static inline int32_t luo_gen_int(luo_rng *r, int32_t lo, int32_t hi)
{
    return lo + (int32_t)luo_rng_pick(r, hi - lo + 1);
}

static inline void luo_gen_shuffle(luo_rng *r, int32_t *x, int32_t n)
{
    for (int32_t i = n; i > 1; i--) {
        const int32_t j = luo_gen_int(r, 0, i - 1), t = x[j];
        x[j] = x[i - 1];
        x[i - 1] = t;
    }
}

/* n shares 1..5, one of them 0 with probability 3% (docs/architecture/tests.md). */
static inline uint32_t *luo_gen_shares(luo_arena *arena, luo_rng *r, int32_t n)
{
    uint32_t *share = LUO_NEW_N(arena, uint32_t, n);
    for (int32_t k = 0; k < n; k++) share[k] = (uint32_t)luo_gen_int(r, 1, 5);
    if (n > 1 && luo_rng_u(r) < 0.03) share[luo_gen_int(r, 0, n - 1)] = 0;
    return share;
}

/* A member on dev[0..ndev): factors of ndev dealt out to keys lowest..rank-1, in random order. */
static inline luo_grp luo_gen_group(luo_arena *arena, luo_rng *r, const int32_t *dev, int32_t ndev,
                                    int32_t rank, int32_t lowest)
{
    int32_t count[LUO_ENTRIES_MAX], order[LUO_ENTRIES_MAX], left = ndev, nent = 0;
    const int32_t nkey = rank - lowest;
    luo_ent *ent = LUO_NEW_N(arena, luo_ent, nkey);
    for (int32_t k = 0; k < nkey; k++) {
        count[k] = 1;
        order[k] = k;
    }
    for (int32_t p = 2; left > 1; p++)
        for (; left % p == 0; left /= p) count[luo_gen_int(r, 0, nkey - 1)] *= p;
    luo_gen_shuffle(r, order, nkey);
    for (int32_t k = 0; k < nkey; k++) {
        const int32_t key = order[k] + lowest, n = count[order[k]];
        if (n == 1) continue;
        ent[nent] = (luo_ent){.key = key, .n = n};
        if (key >= 0 && luo_rng_u(r) < 0.3) ent[nent].share = luo_gen_shares(arena, r, n);
        nent++;
    }
    return (luo_grp){.ndev = ndev, .dev = dev, .nent = nent, .ent = ent};
}
#endif
