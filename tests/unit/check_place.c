/* check_place.c: placement by overlap: vector M1, every permutation of
 * small cases, and the best-first rule above 256 slots. */
#include "core/plan/migrate_place.h"
#include "tests/check_main.h"
#include "tests/prop/prop.h"

typedef struct table {
    int32_t n;
    const int64_t *w;
    const bool *near;
} table;

static int64_t weight_of(const void *ctx, int32_t slot, int32_t group)
{
    const table *t = ctx;
    return t->w[slot * t->n + group];
}

static bool near_of(const void *ctx, int32_t slot, int32_t group)
{
    const table *t = ctx;
    return t->near[slot * t->n + group];
}

START_TEST(vector_m1)
{
    static const int64_t holds[7][2] = {{20, 40}, {40, 60}, {60, 80}, {0, 20},
                                        {20, 40}, {40, 60}, {60, 80}};
    static const int64_t slots[7][2] = {{24, 52}, {52, 80}, {0, 16}, {16, 32},
                                        {32, 48}, {48, 64}, {64, 80}};
    int64_t w[49] = {0}, total = 0, all = 0;
    int32_t group[7];
    for (int s = 0; s < 7; s++) {
        all += slots[s][1] - slots[s][0];
        for (int g = 0; g < 7; g++) {
            const int64_t lo = slots[s][0] > holds[g][0] ? slots[s][0] : holds[g][0];
            const int64_t hi = slots[s][1] < holds[g][1] ? slots[s][1] : holds[g][1];
            w[s * 7 + g] = hi > lo ? hi - lo : 0;
        }
    }
    luo_arena *a = luo_arena_new(0);
    const table t = {7, w, NULL};
    const luo_place_in in = {7, weight_of, NULL, &t};
    ck_assert_int_eq(luo_place_overlap(a, &in, group, &total, NULL), LUO_OK);
    ck_assert_int_eq(total, 100);
    ck_assert_int_eq(all, 136);
    luo_arena_free(a);
}
END_TEST

typedef struct best {
    int64_t stays, near, order;
} best;

static best value(const table *t, const int32_t *group)
{
    best b = {0, 0, 0};
    for (int32_t s = 0; s < t->n; s++) {
        b.stays += weight_of(t, s, group[s]);
        b.near += near_of(t, s, group[s]);
        b.order += (int64_t)s * group[s];
    }
    return b;
}

static bool better(best a, best b)
{
    if (a.stays != b.stays) return a.stays > b.stays;
    if (a.near != b.near) return a.near > b.near;
    return a.order > b.order;
}

static void try_all(const table *t, int32_t *group, int32_t at, best *top)
{
    if (at == t->n) {
        const best b = value(t, group);
        if (better(b, *top)) *top = b;
        return;
    }
    for (int32_t i = at; i < t->n; i++) {
        const int32_t here = group[at];
        group[at] = group[i];
        group[i] = here;
        try_all(t, group, at + 1, top);
        group[i] = group[at];
        group[at] = here;
    }
}

START_TEST(equals_every_permutation)
{
    luo_arena *a = luo_arena_new(0);
    LUO_PROP_FOR(seed, 400)
    {
        luo_rng rng = luo_rng_seed(seed);
        const int32_t n = 1 + (int32_t)luo_rng_pick(&rng, 6);
        const int64_t most = 1 + luo_rng_pick(&rng, 5); /* few values: many ties */
        int64_t w[36], total;
        bool close[36];
        int32_t group[6], order[6];
        best top = {-1, 0, 0};
        for (int32_t i = 0; i < n * n; i++) {
            w[i] = luo_rng_pick(&rng, most);
            close[i] = luo_rng_pick(&rng, 3) == 0;
        }
        for (int32_t i = 0; i < n; i++) order[i] = i;
        const table t = {n, w, close};
        const luo_place_in in = {n, weight_of, near_of, &t};
        ck_assert_int_eq(luo_place_overlap(a, &in, group, &total, NULL), LUO_OK);
        try_all(&t, order, 0, &top);
        const best got = value(&t, group);
        ck_assert_msg(got.stays == top.stays && got.near == top.near && got.order == top.order &&
                          total == top.stays,
                      "seed %llu: %lld/%lld/%lld, every permutation says %lld/%lld/%lld",
                      (unsigned long long)seed, (long long)got.stays, (long long)got.near,
                      (long long)got.order, (long long)top.stays, (long long)top.near,
                      (long long)top.order);
    }
    luo_arena_free(a);
}
END_TEST

/* Slot s wants group n-1-s most and its neighbour a little: the greedy rule finds that, and fills
 * the few slots without any wish in order. */
static int64_t reversed(const void *ctx, int32_t slot, int32_t group)
{
    const int32_t n = *(const int32_t *)ctx;
    if (slot % 50 == 49) return 0;
    if (group == n - 1 - slot) return 10;
    return group == n - 2 - slot ? 3 : 0;
}

START_TEST(best_first_above_the_limit)
{
    luo_arena *a = luo_arena_new(0);
    const int32_t n = LUO_PLACE_EXACT + 44;
    int32_t group[LUO_PLACE_EXACT + 44];
    bool seen[LUO_PLACE_EXACT + 44] = {false};
    int64_t total;
    const luo_place_in in = {n, reversed, NULL, &n};
    ck_assert_int_eq(luo_place_overlap(a, &in, group, &total, NULL), LUO_OK);
    for (int32_t s = 0, last = -1; s < n; s++) {
        ck_assert(!seen[group[s]]);
        seen[group[s]] = true;
        if (s % 50 != 49) ck_assert_int_eq(group[s], n - 1 - s);
        else ck_assert_int_gt(group[s], last);
        if (s % 50 == 49) last = group[s];
    }
    ck_assert_int_eq(total, 10 * (n - n / 50));
    luo_arena_free(a);
}
END_TEST

/* 256 slots are exact still, and take their time: under a second, ties and all. */
START_TEST(the_limit_is_exact)
{
    luo_arena *a = luo_arena_new(0);
    const int32_t n = LUO_PLACE_EXACT;
    int32_t group[LUO_PLACE_EXACT];
    int64_t total;
    const luo_place_in in = {n, reversed, NULL, &n};
    ck_assert_int_eq(luo_place_overlap(a, &in, group, &total, NULL), LUO_OK);
    ck_assert_int_eq(total, 10 * (n - n / 50));
    luo_arena_free(a);
}
END_TEST

LUO_SUITE("place", LUO_T(vector_m1), LUO_T(equals_every_permutation),
          LUO_T(best_first_above_the_limit), LUO_T(the_limit_is_exact))
