/* prop_reshape.c: after a reshape every device holds the same elements, counted one by
 * one in row-major order (docs/annotations.md#deduction). */
#include "core/graph/deduce.h"
#include "tests/check_main.h"
#include "tests/prop/gen_ann.h"
#include "tests/prop/prop.h"
#include "tests/parked/deduce_reshape.h"

enum { CELLS = 1024, FACTORS = 5 };
static int kept, refused, inner, outer, uneven;

/* Cuts the factor sequence into dimensions at random; ones are put in between. */
static luo_shape group_factors(luo_rng *rng, const int32_t *f, int32_t n)
{
    luo_shape s = {.rank = 1, .dim = {f[0]}};
    for (int32_t k = 1; k < n; k++) {
        if (luo_gen_int(rng, 0, 1)) s.dim[s.rank - 1] *= f[k];
        else s.dim[s.rank++] = f[k];
        if (s.rank < 6 && luo_rng_u(rng) < 0.1) s.dim[s.rank++] = 1;
    }
    return s;
}

static const luo_ann *random_ann(luo_arena *arena, luo_rng *rng, int32_t rank)
{
    static const int32_t sizes[] = {1, 2, 2, 3, 4, 6};
    int32_t *dev = LUO_NEW_N(arena, int32_t, 32);
    for (int32_t k = 0; k < 32; k++) dev[k] = k;
    luo_gen_shuffle(rng, dev, 32);
    luo_ann a = {.u = luo_gen_int(rng, 1, 3), .h = LUO_H_NONE};
    luo_grp *grp = LUO_NEW_N(arena, luo_grp, a.u);
    /* Mostly cuts of the first dimensions: the others are refused. */
    const int32_t keys = luo_gen_int(rng, 0, 3) ? (rank < 2 ? rank : 2) : rank;
    for (int32_t u = 0; u < a.u; u++) {
        const int32_t n = sizes[luo_gen_int(rng, 0, 5)];
        grp[u] = luo_gen_group(arena, rng, dev, n, keys, LUO_PARTIAL);
        dev += n;
    }
    a.grp = grp;
    if (a.u > 1) {
        a.h = luo_gen_int(rng, LUO_PARTIAL, luo_gen_int(rng, 0, rank - 1));
        a.inner = a.h >= 0 && luo_gen_int(rng, 0, 1);
        if (a.h >= 0 && !a.inner && luo_gen_int(rng, 0, 2) == 0)
            a.hshare = luo_gen_shares(arena, rng, a.u);
    }
    return luo_ann_canonical(arena, &a);
}

typedef struct marks {
    const luo_shape *shape;
    bool *held;
} marks;

static void mark_box(void *ctx, const int64_t *lo, const int64_t *hi)
{
    const marks *m = ctx;
    int64_t at[LUO_RANK_MAX];
    const int32_t rank = m->shape->rank;
    for (int32_t d = 0; d < rank; d++) at[d] = lo[d];
    for (bool more = true; more;) {
        int64_t cell = 0;
        for (int32_t d = 0; d < rank; d++) cell = cell * m->shape->dim[d] + at[d];
        m->held[cell] = true;
        more = false;
        for (int32_t d = rank; d-- > 0 && !more;) {
            more = ++at[d] < hi[d];
            if (!more) at[d] = lo[d];
        }
    }
}

static void one_case(uint64_t seed)
{
    static const int32_t primes[] = {2, 2, 3, 4, 1};
    luo_rng rng = luo_rng_seed(seed);
    luo_arena *arena = luo_arena_new(1 << 14);
    int32_t f[FACTORS];
    const int32_t n = luo_gen_int(&rng, 1, FACTORS);
    for (int32_t k = 0; k < n; k++) f[k] = primes[luo_gen_int(&rng, 0, 4)];
    const luo_shape from = group_factors(&rng, f, n), to = group_factors(&rng, f, n);
    const luo_ann *a = random_ann(arena, &rng, from.rank), *b = NULL;
    luo_err err = {0};
    const luo_status st = luo_deduce_reshape(arena, a, &from, &to, "op", &b, &err);
    if (st != LUO_OK) {
        ck_assert_msg(st == LUO_EDEDUCE, "LUO_SEED=%llu LUO_CASES=1: %s", (unsigned long long)seed,
                      err.text);
        refused++;
        luo_arena_free(arena);
        return;
    }
    luo_holdings x, y;
    ck_assert_int_eq(luo_ann_check(b, NULL), LUO_OK);
    ck_assert_int_eq(luo_holdings_make(arena, a, &from, &x, NULL), LUO_OK);
    ck_assert_int_eq(luo_holdings_make(arena, b, &to, &y, NULL), LUO_OK);
    ck_assert_int_eq(x.n, y.n);
    for (int32_t k = 0; k < x.n; k++) {
        bool before[CELLS] = {false}, after[CELLS] = {false};
        marks mx = {&from, before}, my = {&to, after};
        luo_region_each_box(&x.at[k].region, mark_box, &mx);
        luo_region_each_box(&y.at[k].region, mark_box, &my);
        ck_assert_msg(memcmp(before, after, sizeof before) == 0 && x.at[k].dev == y.at[k].dev &&
                          x.at[k].part == y.at[k].part && x.at[k].parts == y.at[k].parts,
                      "LUO_SEED=%llu LUO_CASES=1: device %d", (unsigned long long)seed,
                      x.at[k].dev);
    }
    kept++;
    inner += a->inner;
    outer += a->h >= 0 && !a->inner;
    uneven += a->hshare != b->hshare && b->hshare != NULL;
    luo_arena_free(arena);
}

START_TEST(elements)
{
    LUO_PROP_FOR(seed, 20000) one_case(seed);
    printf("kept %d (inner %d, outer %d, top shares %d), refused %d\n", kept, inner, outer, uneven,
           refused);
    ck_assert_int_gt(kept, 0);
    ck_assert_int_gt(inner, 0);
    ck_assert_int_gt(outer, 0);
    ck_assert_int_gt(uneven, 0);
    ck_assert_int_gt(refused, 0);
}
END_TEST
LUO_MAIN("prop.reshape", elements, 1)
