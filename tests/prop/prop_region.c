/* prop_region.c: the algebra of regions against bit sets, and cuts against a plain
 * reading of docs/annotations.md#cutting-by-shares. */
#include "core/hspmd/bounds.h"
#include "core/hspmd/region.h"
#include "tests/check_main.h"
#include "tests/prop/prop.h"

enum { DIMS = 2, SIDE = 8 };
static int met, inside; /* non-empty answers: proof that the generator hits */

/* The slow twin: a region as bit sets, bit x of word d = index x of dimension d. */
static luo_region from_bits(luo_arena *arena, const uint32_t *bits)
{
    luo_region r = {.rank = DIMS};
    for (int32_t d = 0; d < DIMS; d++) {
        luo_span *at = LUO_NEW_N(arena, luo_span, SIDE);
        int32_t n = 0;
        for (int32_t x = 0; x < SIDE; x++) {
            if (!(bits[d] >> x & 1)) continue;
            if (n && at[n - 1].hi == x) at[n - 1].hi++;
            else at[n++] = (luo_span){x, x + 1};
        }
        r.dim[d].n = n;
        r.dim[d].at = at;
        if (!n) return (luo_region){.rank = DIMS, .empty = true};
    }
    return r;
}

static int count(uint32_t b)
{
    int n = 0;
    for (; b; b &= b - 1) n++;
    return n;
}

static bool agree(const uint32_t *bits) /* a = bits[0..DIMS), b = bits[DIMS..2*DIMS) */
{
    luo_arena *arena = luo_arena_new(1 << 12);
    const uint32_t both[DIMS] = {bits[0] & bits[2], bits[1] & bits[3]};
    const luo_region a = from_bits(arena, bits), b = from_bits(arena, bits + DIMS);
    const luo_region want = from_bits(arena, both);
    const bool a_in_b = a.empty || (both[0] == bits[0] && both[1] == bits[1]);
    luo_region got, back;
    luo_str s = {0}, t = {0};
    ck_assert_int_eq(luo_region_intersect(arena, &a, &b, &got, NULL), LUO_OK);
    luo_region_print(&s, &got);
    luo_region_print(&t, &want);
    bool ok = strcmp(luo_str_get(&s), luo_str_get(&t)) == 0 && luo_region_equal(&got, &want);
    ok = ok && luo_region_volume(&want) == count(both[0]) * count(both[1]);
    ok = ok && luo_region_contains(&b, &a) == a_in_b;
    ok = ok && luo_region_overlap(&a, &b) == !want.empty;
    ok = ok && luo_region_parse(arena, luo_str_get(&s), DIMS, &back, NULL) == LUO_OK &&
         luo_region_equal(&back, &got);
    ok = ok && luo_region_equal(&a, &b) ==
                   ((bits[0] == bits[2] && bits[1] == bits[3]) || (a.empty && b.empty));
    met += !want.empty;
    inside += a_in_b && !a.empty;
    luo_str_free(&s);
    luo_str_free(&t);
    luo_arena_free(arena);
    return ok;
}

/* Clears bits while the case still fails. */
static void shrink(uint32_t *bits, int n)
{
    for (int k = 0; k < n * SIDE; k++) {
        const uint32_t bit = 1u << (k % SIDE);
        if (!(bits[k / SIDE] & bit)) continue;
        bits[k / SIDE] ^= bit;
        if (agree(bits)) bits[k / SIDE] |= bit;
        else k = -1;
    }
}

START_TEST(intersect_is_and)
{
    LUO_PROP_FOR(seed, 20000)
    {
        luo_rng rng = luo_rng_seed(seed);
        uint32_t bits[2 * DIMS];
        for (int i = 0; i < 2 * DIMS; i++)
            bits[i] = (uint32_t)(luo_rng_next(&rng) & ((1u << SIDE) - 1));
        if (seed % 4 == 0) bits[0] &= bits[2], bits[1] &= bits[3];
        if (agree(bits)) continue;
        shrink(bits, 2 * DIMS);
        ck_abort_msg("LUO_SEED=%llu LUO_CASES=1: a %#x %#x, b %#x %#x", (unsigned long long)seed,
                     bits[0], bits[1], bits[2], bits[3]);
    }
    ck_assert_int_gt(met, 0);
    ck_assert_int_gt(inside, 0);
}
END_TEST

/* As docs/annotations.md#cutting-by-shares has it: the largest remainders one by one. */
static void slow_cut(int64_t len, int32_t n, const uint32_t *share, int64_t *b)
{
    int64_t q[64], r[64], total = 0, left = len;
    for (int32_t k = 0; k < n; k++) total += share[k];
    for (int32_t k = 0; k < n; k++) {
        q[k] = len * share[k] / total;
        r[k] = len * share[k] % total;
        left -= q[k];
    }
    for (; left > 0; left--) {
        int32_t best = 0;
        for (int32_t k = 1; k < n; k++)
            if (r[k] > r[best]) best = k;
        q[best]++;
        r[best] = -1;
    }
    b[0] = 0;
    for (int32_t k = 0; k < n; k++) b[k + 1] = b[k] + q[k];
}

START_TEST(cut_is_largest_remainder)
{
    int ties = 0;
    LUO_PROP_FOR(seed, 20000)
    {
        luo_rng rng = luo_rng_seed(seed);
        const int32_t n = (int32_t)luo_rng_pick(&rng, 12) + 1;
        const int64_t len = luo_rng_pick(&rng, seed % 2 ? 40 : 100000);
        uint32_t share[64];
        int64_t want[65], got[65];
        for (int32_t k = 0; k < n; k++) share[k] = (uint32_t)luo_rng_pick(&rng, 5);
        share[luo_rng_pick(&rng, n)] = 1 + (uint32_t)luo_rng_pick(&rng, 4);
        slow_cut(len, n, share, want);
        luo_bounds_cut(len, n, share, got);
        for (int32_t k = 0; k <= n; k++)
            ck_assert_msg(got[k] == want[k], "LUO_SEED=%llu LUO_CASES=1: bound %d",
                          (unsigned long long)seed, k);
        ties += n > 1 && share[0] == share[1];
    }
    ck_assert_int_gt(ties, 0);
}
END_TEST

enum { CELLS = 64 };

/* An annotation of U members; every cell of dimension 0 must be held by each member (h = -1) or
 * by exactly one member (h = 0), and inside a member by exactly one part. */
START_TEST(members_cover)
{
    int inner = 0, empty = 0;
    static const int32_t dev[CELLS] = {0};
    LUO_PROP_FOR(seed, 5000)
    {
        luo_rng rng = luo_rng_seed(seed);
        luo_arena *arena = luo_arena_new(0);
        const int32_t u = 1 + (int32_t)luo_rng_pick(&rng, 4);
        luo_grp *grp = LUO_NEW_N(arena, luo_grp, u);
        uint32_t *top = LUO_NEW_N(arena, uint32_t, u);
        luo_ann a = {.u = u, .h = u == 1 ? LUO_H_NONE : 0, .grp = grp};
        const int kind = (int)luo_rng_pick(&rng, 4);
        for (int32_t k = 0; k < u; k++) top[k] = 1 + (uint32_t)luo_rng_pick(&rng, 3);
        if (u > 1 && kind == 0) a.h = LUO_DUP;
        if (u > 1 && kind == 1) a.inner = true;
        if (u > 1 && kind == 2) a.hshare = top;
        for (int32_t k = 0; k < u; k++) {
            luo_ent *e = LUO_NEW(arena, luo_ent);
            e->n = 1 + (int32_t)luo_rng_pick(&rng, 5);
            uint32_t *share = LUO_NEW_N(arena, uint32_t, e->n);
            for (int32_t j = 0; j < e->n; j++) share[j] = 1 + (uint32_t)luo_rng_pick(&rng, 3);
            if (luo_rng_pick(&rng, 2)) e->share = share;
            grp[k] = (luo_grp){.ndev = e->n, .dev = dev, .nent = 1, .ent = e};
        }
        const luo_shape shape = {.rank = 1, .dim = {luo_rng_pick(&rng, CELLS)}};
        luo_holdings h;
        ck_assert_int_eq(luo_holdings_make(arena, &a, &shape, &h, NULL), LUO_OK);
        int32_t times[4][CELLS] = {{0}};
        for (int32_t k = 0; k < h.n; k++) {
            const luo_region *r = &h.at[k].region;
            empty += r->empty;
            for (int32_t j = 0; j < r->dim[0].n; j++)
                for (int64_t x = r->dim[0].at[j].lo; x < r->dim[0].at[j].hi; x++)
                    times[h.at[k].u][x]++;
        }
        for (int64_t x = 0; x < shape.dim[0]; x++) {
            int32_t sum = 0;
            for (int32_t k = 0; k < u; k++) sum += times[k][x];
            ck_assert_msg(sum == (a.h == LUO_DUP ? u : 1), "LUO_SEED=%llu LUO_CASES=1: cell %d",
                          (unsigned long long)seed, (int)x);
            for (int32_t k = 0; k < u; k++) ck_assert_int_le(times[k][x], 1);
        }
        inner += a.inner;
        luo_arena_free(arena);
    }
    ck_assert_int_gt(inner, 0);
    ck_assert_int_gt(empty, 0);
}
END_TEST

LUO_SUITE("prop.region", LUO_T(intersect_is_and), LUO_T(cut_is_largest_remainder),
          LUO_T(members_cover))
