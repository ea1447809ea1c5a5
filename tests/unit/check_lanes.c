/* check_lanes.c: order and lanes of calls that share devices. */
#include "tests/check_main.h"
#include "tests/lanes_scenes.h"

static luo_timetable made(luo_arena *a, const scene *s, int32_t lanes)
{
    luo_timetable t;
    luo_err err = {0};
    ck_assert_msg(luo_lanes_schedule(a, s->call, s->n, TWIN_DEVICES, s->ngroups, lanes, &t, &err) ==
                      LUO_OK, "%s", err.text);
    twin w;
    ck_assert_int_eq(twin_run(&w, s->call, s->n, lanes, t.order, &t), t.end_ns);
    for (int32_t i = 0; i < s->n; i++) {
        ck_assert_int_eq(w.start[i], t.start[i]);
        ck_assert_int_eq(w.end[i], t.end[i]);
    }
    return t;
}

/* Latest end in ms where calls are issued as they become ready, in one lane. */
static double by_completion(const scene *s)
{
    int32_t order[TWIN_CALLS];
    for (int32_t i = 0; i < s->n; i++) order[i] = i;
    twin w;
    return (double)twin_run(&w, s->call, s->n, 1, order, NULL) / MS;
}

static void runs(const luo_timetable *t, int32_t i, double from, double to)
{
    ck_assert_msg(t->start[i] == (int64_t)(from * MS) && t->end[i] == (int64_t)(to * MS),
                  "call %d runs from %g to %g ms, not from %g to %g", (int)i,
                  (double)t->start[i] / MS, (double)t->end[i] / MS, from, to);
}

static void lasts(luo_arena *a, const scene *s, int32_t lanes, double ms)
{
    const luo_timetable t = made(a, s, lanes);
    ck_assert_msg(t.end_ns == (int64_t)(ms * MS), "%d lanes end at %g ms, not at %g", (int)lanes,
                  (double)t.end_ns / MS, ms);
}

START_TEST(one_group) /* L1 */
{
    luo_arena *a = luo_arena_new(1 << 16);
    scene layers, pairs;
    one_each(&layers);
    two_each(&pairs);
    for (int32_t lanes = 1; lanes <= 4; lanes++) {
        luo_timetable t = made(a, &layers, lanes);
        for (int k = 0; k < 4; k++) runs(&t, k, 2 + 4 * k, 6 + 4 * k);
        t = made(a, &pairs, lanes);
        runs(&t, 0, 4, 11);
        runs(&t, 1, 11, 18);
    }
    luo_arena_free(a);
}
END_TEST

START_TEST(shifted_borders) /* L2 */
{
    luo_arena *a = luo_arena_new(1 << 16);
    scene s;
    shifted(&s);
    luo_timetable t = made(a, &s, 1);
    runs(&t, 0, 2, 6);
    runs(&t, 1, 6, 10);
    runs(&t, 3, 8, 12);
    runs(&t, 2, 12, 16);
    for (int32_t lanes = 2; lanes <= 4; lanes += 2) {
        t = made(a, &s, lanes);
        runs(&t, 0, 2, 6);
        runs(&t, 1, 6, 13);
        runs(&t, 2, 6, 13);
        runs(&t, 3, 8, 14);
        ck_assert(t.lane[2][0] == 1 && t.lane[2][1] == 0);
        ck_assert(t.lane[3][0] == 0 && t.lane[3][1] == 1);
    }
    ck_assert(by_completion(&s) == 18);
    luo_arena_free(a);
}
END_TEST

START_TEST(uneven_shares) /* L3 */
{
    luo_arena *a = luo_arena_new(1 << 16);
    scene s;
    uneven(&s);
    luo_timetable t = made(a, &s, 1);
    runs(&t, 0, 4, 9);
    runs(&t, 2, 4, 7);
    runs(&t, 5, 8, 11);
    runs(&t, 3, 9, 14);
    runs(&t, 1, 14, 17);
    runs(&t, 4, 17, 20);
    for (int32_t lanes = 2; lanes <= 4; lanes += 2) {
        t = made(a, &s, lanes);
        runs(&t, 0, 4, 12);
        runs(&t, 1, 4, 9);
        runs(&t, 2, 4, 9);
        runs(&t, 4, 9, 14);
        runs(&t, 5, 9, 14);
        runs(&t, 3, 12, 17.5);
    }
    ck_assert(by_completion(&s) == 23);
    luo_arena_free(a);
}
END_TEST

START_TEST(many_borders) /* L4 */
{
    static const struct {
        int32_t most, calls;
        double lanes[3], completion; /* one, two, four lanes */
    } rows[] = {{4, 9, {89, 88, 89}, 141}, {99, 5, {87, 89.5, 89.5}, 137},
                {1, 32, {101, 87, 88.5}, 161}};
    luo_arena *a = luo_arena_new(1 << 16);
    scene s;
    for (int k = 0; k < LUO_ROWS(rows); k++) {
        two_pipelines(&s, rows[k].most);
        ck_assert_int_eq(s.n, rows[k].calls);
        for (int l = 0; l < 3; l++) lasts(a, &s, 1 << l, rows[k].lanes[l]);
        ck_assert(by_completion(&s) == rows[k].completion);
    }
    two_pipelines(&s, 4);
    static const double at[9][2] = {{4, 21}, {37, 54}, {54, 71}, {71, 88}, {20, 37},
                                    {37, 54}, {54, 71}, {71, 76}, {76, 89}};
    const luo_timetable t = made(a, &s, 1);
    for (int i = 0; i < 9; i++) runs(&t, i, at[i][0], at[i][1]);
    luo_arena_free(a);
}
END_TEST

START_TEST(two_levels) /* L5 */
{
    luo_arena *a = luo_arena_new(1 << 16);
    scene s;
    levels(&s);
    luo_timetable t = made(a, &s, 1);
    runs(&t, 4, 9, 10);
    runs(&t, 2, 10, 15);
    runs(&t, 6, 15, 16);
    t = made(a, &s, 2);
    runs(&t, 4, 8, 9);
    runs(&t, 2, 9, 14);
    runs(&t, 6, 14, 15);
    luo_arena_free(a);
}
END_TEST

START_TEST(ranks_and_links)
{
    luo_arena *a = luo_arena_new(1 << 16);
    scene s = {0};
    add(&s, 0, 1, 0, 1);
    add(&s, 1, 2, 0, 9);
    s.call[1].rank = 1; /* longer, and yet later */
    luo_timetable t = made(a, &s, 1);
    runs(&t, 0, 0, 2);
    runs(&t, 1, 2, 12);
    s.call[1].rank = 0;
    s.call[1].tail = MS;
    t = made(a, &s, 1);
    runs(&t, 1, 0, 10);
    t = made(a, &s, 2); /* one link: half as fast beside each other */
    runs(&t, 0, 0, 3);
    runs(&t, 1, 0, 11);
    s.call[1].link = 1;
    t = made(a, &s, 2);
    runs(&t, 0, 0, 2);
    runs(&t, 1, 0, 10);
    luo_arena_free(a);
}
END_TEST

START_TEST(a_circle)
{
    static const int32_t zero = 0, one = 1;
    luo_arena *a = luo_arena_new(1 << 16);
    scene s = {0};
    luo_timetable t;
    luo_err err;
    add(&s, 0, 1, 0, 1);
    add(&s, 2, 3, 0, 1);
    s.call[0].before = &one;
    s.call[1].before = &zero;
    s.call[0].nbefore = s.call[1].nbefore = 1;
    ck_assert_int_eq(luo_lanes_schedule(a, s.call, 2, 4, 2, 2, &t, &err), LUO_EBUG);
    luo_arena_free(a);
}
END_TEST

LUO_SUITE("lanes", LUO_T(one_group), LUO_T(shifted_borders), LUO_T(uneven_shares),
          LUO_T(many_borders), LUO_T(two_levels), LUO_T(ranks_and_links), LUO_T(a_circle))
