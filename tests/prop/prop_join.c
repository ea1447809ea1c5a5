/* prop_join.c: workers that leave and come back, against a clock that looks at everybody. */
#include "core/base/arena.h"
#include "core/base/rng.h"
#include "core/sync/clock.h"
#include "core/sync/preduce.h"
#include "tests/check_main.h"
#include "tests/prop/prop.h"

enum { MOST = 6, EVENTS = 60 };

typedef struct twin { /* of the clock, by looking at all */
    int64_t clock[MOST];
    bool gone[MOST], runs[MOST];
} twin;

static int64_t least_of(const twin *t, int32_t n)
{
    int64_t least = INT64_MAX;
    for (int32_t w = 0; w < n; w++)
        if (!t->gone[w] && t->clock[w] < least) least = t->clock[w];
    return least;
}

static void release(luo_clock *clock, twin *t, int32_t n, int64_t staleness)
{
    const int32_t *started = NULL;
    const int32_t count = luo_clock_release(clock, &started);
    int32_t k = 0;
    for (int32_t w = 0; w < n; w++) {
        if (t->gone[w] || t->runs[w]) continue;
        if (staleness >= 0 && t->clock[w] - staleness > least_of(t, n)) continue;
        ck_assert_msg(k < count && started[k] == w, "worker %d has to start", w);
        t->runs[w] = true;
        k++;
    }
    ck_assert_int_eq(k, count);
}

static int32_t joins; /* how often somebody came back */

static void one_event(luo_clock *clock, twin *t, int32_t n, luo_rng *r)
{
    luo_err err = {0};
    const int32_t w = (int32_t)luo_rng_pick(r, n);
    const bool leaves = luo_rng_u(r) < 0.2;
    if (t->gone[w]) {
        const int64_t least = least_of(t, n);
        ck_assert_int_eq(luo_clock_join(clock, w, &err), LUO_OK);
        if (least < INT64_MAX) t->clock[w] = least;
        t->gone[w] = false;
        t->runs[w] = true;
        joins++;
    } else if (leaves) {
        luo_clock_leave(clock, w);
        t->gone[w] = true;
        t->runs[w] = false;
    } else if (t->runs[w]) {
        ck_assert_int_eq(luo_clock_finish(clock, w, &err), LUO_OK);
        t->clock[w]++;
        t->runs[w] = false;
    }
    ck_assert(t->gone[w] || clock->clock[w] == t->clock[w]);
}

START_TEST(clock_of_those_who_come_back)
{
    joins = 0;
    LUO_PROP_FOR(seed, 300)
    {
        luo_rng r = luo_rng_stream(seed, "join");
        luo_arena *arena = luo_arena_new(1 << 12);
        luo_err err = {0};
        luo_clock clock;
        twin t = {.runs = {true, true, true, true, true, true}};
        const int32_t n = 1 + (int32_t)luo_rng_pick(&r, MOST);
        const int64_t staleness = luo_rng_pick(&r, 5) - 1;
        ck_assert_int_eq(luo_clock_new(arena, n, staleness, &clock, &err), LUO_OK);
        for (int i = 0; i < EVENTS; i++) {
            one_event(&clock, &t, n, &r);
            release(&clock, &t, n, staleness);
        }
        luo_arena_free(arena);
    }
    ck_assert_int_gt(joins, 500);
}
END_TEST

/* Who is back counts again: for the guard, and for how many a group can have. */
START_TEST(groups_of_those_who_come_back)
{
    luo_arena *arena = luo_arena_new(1 << 12);
    luo_err err = {0};
    luo_preduce preduce;
    luo_preduce_group group = {0};
    const luo_preduce_opts opts = {.workers = 3, .max_group = 3, .wait_s = 10, .guard = 0};
    ck_assert_int_eq(luo_preduce_new(arena, &opts, &preduce, &err), LUO_OK);
    luo_preduce_leave(&preduce, 0, 2, &group);
    luo_preduce_arrive(&preduce, 1, 0, 0, &group, &err);
    ck_assert_int_eq(group.n, 0);
    luo_preduce_arrive(&preduce, 2, 1, 0, &group, &err);
    ck_assert_int_eq(group.n, 2); /* all that live */
    luo_preduce_join(&preduce, 2);
    luo_preduce_join(&preduce, 2); /* once */
    luo_preduce_arrive(&preduce, 3, 0, 1, &group, &err);
    luo_preduce_arrive(&preduce, 3, 1, 1, &group, &err);
    ck_assert_int_eq(group.n, 0); /* three live again */
    luo_preduce_arrive(&preduce, 4, 2, 0, &group, &err);
    ck_assert_int_eq(group.n, 3);
    luo_arena_free(arena);
}
END_TEST

LUO_SUITE("prop.join", LUO_T(clock_of_those_who_come_back), LUO_T(groups_of_those_who_come_back))
