/* check_vec.c: arrays that grow, the caller's and an arena's. */
#include "core/base/vec.h"
#include "tests/check_main.h"

typedef struct item {
    int64_t key;
    char text[17];
} item;

/* Filled one by one; nothing that was there changes. Loop: of the caller, of an arena. */
START_TEST(keeps_what_is_there)
{
    luo_arena *arena = _i ? luo_arena_new(0) : NULL;
    item *at = NULL;
    int32_t n = 0, cap = 0;
    for (; n < 5000;) {
        ck_assert(LUO_VEC_ROOM_IN(arena, at, n, cap));
        ck_assert_int_lt(n, cap);
        at[n] = (item){.key = n * (int64_t)n, .text = {(char)n}};
        n++;
    }
    for (int32_t i = 0; i < n; i++)
        ck_assert(at[i].key == i * (int64_t)i && at[i].text[0] == (char)i);
    ck_assert_int_le(cap, 2 * n);
    if (!arena) free(at);
    luo_arena_free(arena);
}
END_TEST

START_TEST(doubles)
{
    double *at = NULL;
    int64_t n = 0, cap = 0, grown = 0;
    for (; n < 1 << 12; n++) {
        const int64_t was = cap;
        ck_assert(LUO_VEC_ROOM(at, n, cap));
        grown += cap != was;
        ck_assert(cap == was || was == 0 || cap == 2 * was);
    }
    ck_assert_int_le(grown, 12);
    free(at);
}
END_TEST

/* What cannot be numbered or held is refused, and the array stays. */
START_TEST(too_many)
{
    char *at = NULL, *const before = at;
    int32_t small = INT32_MAX / 2 + 1;
    ck_assert(!LUO_VEC_ROOM(at, small, small));
    ck_assert(at == before && small == INT32_MAX / 2 + 1);
    int64_t *wide = NULL, many = INT64_MAX / 16;
    ck_assert(!LUO_VEC_ROOM(wide, many, many));
    ck_assert(wide == NULL && many == INT64_MAX / 16);
}
END_TEST

LUO_SUITE("base.vec", LUO_T_N(keeps_what_is_there, 2), LUO_T(doubles), LUO_T(too_many))
