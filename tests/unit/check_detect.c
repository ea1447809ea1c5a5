/* tests/unit/check_detect.c: the median rule, rows by arithmetic. Those of Malleus 19.7 that do not
 * need the confirmation step are among them (DV2, DV3, DV4, DV9). */
#include "core/run/detect.h"
#include "tests/check_main.h"

enum { SAMPLES = 24 };
static const struct {
    const char *id;
    double accepted, sample[SAMPLES]; /* 0 ends */
    int at;                           /* index at which the change is seen, -1: none */
    double rate;
} rows[] = {
    {"step", 1, {1, 1, 1, 1, 1, 2.5, 2.5, 2.5, 2.5}, 7, 2.5},
    {"DV2", 1, {1, 1, 1, 1, 3, 1, 1, 1, 1, 1, 1}, -1, 1},
    {"DV3", 1, {1, 1, 1, 3, 3, 1, 1, 1, 1, 1, 1}, -1, 1},
    {"DV4", 1, {1, 1, 1, 1, 1, 1.25, 1.25, 1.25, 1.25, 1.25, 1.25, 1.25, 1.25, 1.25}, -1, 1},
    {"back", 2.57, {2.57, 2.57, 2.57, 2.57, 2.57, 1, 1, 1, 1, 1}, 7, 1},
    {"DV9", 6.87, {6.87, 6.2, 7.5, 6.9, 7.8, 6.1, 7.7, 6.5, 7.9, 7.6}, -1, 6.87},
    {"needs a full window", 1, {3, 3, 3, 3}, -1, 1},
    {"full window", 1, {3, 3, 3, 3, 3}, 4, 3},
};

START_TEST(detect_row)
{
    luo_arena *a = luo_arena_new(4096);
    luo_detect d;
    ck_assert_int_eq(luo_detect_init(a, 3, 5, 0.3, &d, NULL), LUO_OK);
    luo_detect_accept(&d, 1, rows[_i].accepted);
    int at = -1;
    for (int i = 0; i < SAMPLES && rows[_i].sample[i] > 0; i++) {
        ck_assert(!luo_detect_push(&d, 0, 1)); /* a neighbour is not touched */
        if (luo_detect_push(&d, 1, rows[_i].sample[i]) && at < 0) at = i;
    }
    ck_assert_msg(at == rows[_i].at, "%s: %d", rows[_i].id, at);
    ck_assert_double_eq(d.accepted[1], rows[_i].rate);
    luo_arena_free(a);
}
END_TEST

START_TEST(window_starts_again)
{
    luo_arena *a = luo_arena_new(4096);
    luo_detect d;
    ck_assert_int_eq(luo_detect_init(a, 1, 4, 0.3, &d, NULL), LUO_OK);
    for (int i = 0; i < 1000; i++) ck_assert(!luo_detect_push(&d, 0, 1));
    for (int i = 0; i < 2; i++) ck_assert(!luo_detect_push(&d, 0, 1.5));
    luo_detect_forget(&d);
    for (int i = 0; i < 3; i++) ck_assert(!luo_detect_push(&d, 0, 1.5));
    ck_assert(luo_detect_push(&d, 0, 1.7)); /* even window: mean of the middle two, 1.5 */
    ck_assert_double_eq(d.accepted[0], 1.5);
    luo_arena_free(a);
}
END_TEST
LUO_SUITE("run.detect", LUO_T_N(detect_row, LUO_ROWS(rows)), LUO_T(window_starts_again))
