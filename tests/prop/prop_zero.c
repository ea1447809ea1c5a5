/* prop_zero.c: the ZeRO-1 fold (docs/annotations.md#zero): every state shard lies inside its own
 * device's parameter shard, every element of the state has exactly one holder, gradients reach the
 * states and states the parameters, and without empty regions that gather is never bsr. */
#include "core/hspmd/fold.h"
#include "core/hspmd/resolve.h"
#include "tests/check_main.h"
#include "tests/prop/gen_ann.h"
#include "tests/prop/prop.h"

enum { POOL = 32 };
static int folded, members, empties, split_rs, split_ag, gather_bsr;

static const luo_region *region_on(const luo_holdings *h, int32_t dev)
{
    for (int32_t k = 0; k < h->n; k++)
        if (h->at[k].dev == dev) return &h->at[k].region;
    return NULL;
}

static const luo_ann *random_param(luo_arena *arena, luo_rng *rng, luo_shape *shape)
{
    static const int32_t us[] = {1, 1, 2, 2, 3, 4}, sizes[] = {1, 2, 3, 4, 6, 8};
    static const int32_t side[] = {0, 24, 14, 8};
    int32_t *pool = LUO_NEW_N(arena, int32_t, POOL);
    for (int32_t k = 0; k < POOL; k++) pool[k] = k;
    luo_gen_shuffle(rng, pool, POOL);
    *shape = (luo_shape){.rank = luo_gen_int(rng, 1, 3)};
    for (int32_t d = 0; d < shape->rank; d++)
        shape->dim[d] = luo_gen_int(rng, 1, side[shape->rank]);
    luo_ann a = {.u = us[luo_gen_int(rng, 0, 5)]};
    a.h = a.u > 1 ? LUO_DUP : LUO_H_NONE;
    luo_grp *grp = LUO_NEW_N(arena, luo_grp, a.u);
    for (int32_t u = 0; u < a.u; u++) {
        const int32_t n = sizes[luo_gen_int(rng, 0, 5)];
        grp[u] = luo_gen_group(arena, rng, pool, n, shape->rank, LUO_DUP);
        pool += n;
    }
    a.grp = grp;
    return luo_ann_canonical(arena, &a);
}

/* The gradient of a duplicate is a sum, or a duplicate as well: at random per member. */
static const luo_ann *random_gradient(luo_arena *arena, luo_rng *rng, const luo_ann *param)
{
    luo_ann a = *param;
    luo_grp *grp = LUO_NEW_N(arena, luo_grp, a.u);
    if (a.u > 1) a.h = LUO_PARTIAL;
    for (int32_t u = 0; u < a.u; u++) {
        luo_ent *ent = LUO_NEW_N(arena, luo_ent, param->grp[u].nent);
        const bool sum = luo_rng_pick(rng, 2);
        grp[u] = param->grp[u];
        grp[u].ent = ent;
        for (int32_t e = 0; e < grp[u].nent; e++) {
            ent[e] = param->grp[u].ent[e];
            if (ent[e].key == LUO_DUP && sum) ent[e].key = LUO_PARTIAL;
        }
    }
    a.grp = grp;
    return luo_ann_canonical(arena, &a);
}

static luo_resolve_kind resolve(luo_arena *arena, const luo_ann *from, const luo_ann *to,
                                const luo_shape *shape, uint64_t seed)
{
    const luo_resolve_opts opts = {0};
    luo_resolution r = {0};
    luo_err err = {0};
    const luo_status st = luo_resolve(arena, from, to, shape, &opts, &r, &err);
    ck_assert_msg(st == LUO_OK, "LUO_SEED=%llu LUO_CASES=1: %s", (unsigned long long)seed,
                  err.text);
    if (strstr(r.text, "bsr")) return LUO_RESOLVE_BSR;
    return r.kind;
}

static bool any_empty(const luo_holdings *h)
{
    bool empty = false;
    for (int32_t k = 0; k < h->n; k++) empty = empty || h->at[k].region.empty;
    return empty;
}

static void one_case(uint64_t seed)
{
    luo_rng rng = luo_rng_seed(seed);
    luo_arena *arena = luo_arena_new(1 << 14);
    luo_shape shape;
    const luo_ann *param = random_param(arena, &rng, &shape), *state = NULL;
    luo_holdings hp, hs;
    luo_region whole;
    ck_assert_int_eq(luo_ann_check(param, NULL), LUO_OK);
    ck_assert_int_eq(luo_fold_zero(arena, param, &shape, &state, NULL), LUO_OK);
    ck_assert_int_eq(luo_ann_check(state, NULL), LUO_OK);
    ck_assert_int_eq(luo_holdings_make(arena, param, &shape, &hp, NULL), LUO_OK);
    ck_assert_int_eq(luo_holdings_make(arena, state, &shape, &hs, NULL), LUO_OK);
    ck_assert_int_eq(hp.n, hs.n);
    int64_t held = 0;
    for (int32_t k = 0; k < hs.n; k++) {
        const luo_region *mine = region_on(&hp, hs.at[k].dev);
        ck_assert_msg(mine && luo_region_contains(mine, &hs.at[k].region),
                      "LUO_SEED=%llu LUO_CASES=1: device %d", (unsigned long long)seed,
                      hs.at[k].dev);
        held += luo_region_volume(&hs.at[k].region);
        empties += hs.at[k].region.empty;
        for (int32_t j = 0; j < k; j++) {
            luo_region both;
            luo_region_intersect(arena, &hs.at[k].region, &hs.at[j].region, &both, NULL);
            ck_assert_msg(both.empty, "LUO_SEED=%llu LUO_CASES=1: devices %d and %d overlap",
                          (unsigned long long)seed, hs.at[k].dev, hs.at[j].dev);
        }
    }
    ck_assert_int_eq(
        luo_region_footprint(arena, &(luo_ann){.u = 1, .h = LUO_H_NONE}, &shape, 0, &whole, NULL),
        LUO_OK);
    ck_assert_int_eq(held, luo_region_volume(&whole));
    const luo_ann *grad = random_gradient(arena, &rng, param);
    split_rs += resolve(arena, grad, state, &shape, seed) == LUO_RESOLVE_SPLIT_RS;
    const luo_resolve_kind back = resolve(arena, state, param, &shape, seed);
    split_ag += back == LUO_RESOLVE_SPLIT_AG;
    gather_bsr += back == LUO_RESOLVE_BSR;
    ck_assert_msg(back != LUO_RESOLVE_BSR || any_empty(&hs),
                  "LUO_SEED=%llu LUO_CASES=1: the gather is bsr", (unsigned long long)seed);
    folded += !luo_ann_equal(param, state);
    members += param->u > 1;
    luo_arena_free(arena);
}

START_TEST(fold)
{
    LUO_PROP_FOR(seed, 3000) one_case(seed);
    ck_assert_int_gt(folded, 0);
    ck_assert_int_gt(members, 0);
    ck_assert_int_gt(empties, 0);
    ck_assert_int_gt(split_rs, 0);
    ck_assert_int_gt(split_ag, 0);
    printf("folded %d, split_rs %d, split_ag %d, gather by bsr %d\n", folded, split_rs, split_ag,
           gather_bsr);
}
END_TEST
LUO_MAIN("prop.zero", fold, 1)
