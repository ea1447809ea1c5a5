/* check_plan_shares.c: what would help a plan: links where its transfers are. */
#include <string.h>

#include "cli/plan/plan_shares.h"
#include "tests/cluster_fixture.h"
#include "tests/plan_make.h"

/* Nodes of 4 devices. */
static const struct {
    const char *plan, *share, *remedy;
} rows[] = {
    {"8: [0,1]*4 [2,3]*4", "tp", "faster links inside a node"},
    {"8: [2-5]*4 [6,7]*4", "tp", "faster links between nodes"},
    {"8: [0,1]*4 [2,3]*4", "pp", "faster links inside a node"},
    {"8: [0-3]*4 [4-7]*4", "pp", "faster links between nodes"},
    {"8: [0,1]*4 || 8: [2,3]*4", "dp", "faster links inside a node, or a larger batch"},
    {"8: [0,1]*4 || 8: [4,5]*4", "dp", "faster links between nodes, or a larger batch"},
    {"8: [0]*4 [4]*4 || 8: [1]*4 [5]*4", "dp", "faster links inside a node, or a larger batch"},
    {"8: [0]*4 [4]*4 || 8: [1]*2 [5]*6", "dp", "faster links between nodes, or a larger batch"},
    {"8: [0]*4 [4]*4 || 8: [1]*4 [5]*4", "imbalance", "layers that divide better among the stages"},
    {"8: [0-3]*4", "imbalance", "work that divides better among the devices"},
    {"8: [0-3]*4", "recompute", "more memory on a device"},
};

START_TEST(remedies)
{
    luo_arena *a = luo_arena_new(0);
    const luo_cluster *cluster = fixture_cluster(a, 1, 2, 4);
    const luo_judgement step = {.seconds = 1};
    luo_plan_share share[LUO_PLAN_SHARES];
    const luo_plan *plan = luo_test_plan(a, rows[_i].plan);
    int found = 0;
    luo_plan_shares(&step, share);
    for (int i = 0; i < LUO_PLAN_SHARES; i++) {
        if (strcmp(share[i].name, rows[_i].share) != 0) continue;
        ck_assert_str_eq(luo_plan_share_remedy(&share[i], plan, cluster), rows[_i].remedy);
        found++;
    }
    ck_assert_int_eq(found, 1);
    luo_arena_free(a);
}
END_TEST

LUO_SUITE("plan.shares", LUO_T_N(remedies, LUO_ROWS(rows)))
