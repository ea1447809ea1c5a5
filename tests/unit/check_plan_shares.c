/* check_plan_shares.c: what would help a plan, beside faster links. */
#include <string.h>

#include "cli/plan/plan_shares.h"
#include "tests/check_main.h"
#include "tests/plan_make.h"

static const struct {
    const char *plan, *share, *remedy; /* NULL: nothing but links */
} rows[] = {
    {"8: [0,1]*4 [2,3]*4", "tp", NULL},
    {"8: [0,1]*4 || 8: [2,3]*4", "dp", "a larger batch"},
    {"8: [0]*4 [4]*4 || 8: [1]*4 [5]*4", "imbalance", "layers that divide better among the stages"},
    {"8: [0-3]*4", "imbalance", "work that divides better among the devices"},
    {"8: [0-3]*4", "recompute", "more memory on a device"},
    {"8: [0,1]*4 [2,3]*4", "bubble", "more micro-batches: a larger batch"},
};

START_TEST(remedies)
{
    luo_arena *a = luo_arena_new(0);
    const luo_judgement step = {.seconds = 1};
    luo_plan_share share[LUO_PLAN_SHARES];
    const luo_plan *plan = luo_test_plan(a, rows[_i].plan);
    int found = 0;
    luo_plan_shares(&step, share);
    for (int i = 0; i < LUO_PLAN_SHARES; i++) {
        if (strcmp(share[i].name, rows[_i].share) != 0) continue;
        ck_assert_pstr_eq(luo_plan_share_remedy(&share[i], plan), rows[_i].remedy);
        found++;
    }
    ck_assert_int_eq(found, 1);
    luo_arena_free(a);
}
END_TEST

LUO_SUITE("plan.shares", LUO_T_N(remedies, LUO_ROWS(rows)))
