/* check_checkpoint.c: checkpoints in the memory of nodes and of those behind them (`target:
 * peer`), on a backend that answers from a formula. Four nodes of two devices; the plan uses
 * all of them. */
#include "tests/driver_fixture.h"

static void peers(int64_t steps, int32_t nevents, int64_t every)
{
    prepare("restart", steps, nevents);
    spec.planner_s = 0;
    sc.checkpoint.kind = LUO_CHECKPOINT_STEPS;
    sc.checkpoint.every_steps = every;
    sc.checkpoint.blocking = true;
    sc.checkpoint.target = LUO_TARGET_PEER;
}

static double checkpoint_s(void)
{
    for (int32_t i = 0; i < fake.ntime; i++)
        if (fake.time[i].kind == LUO_SPAN_CHECKPOINT)
            return fake.time[i].end_s - fake.time[i].start_s;
    ck_abort_msg("no checkpoint was written");
}

/* A quarter of the state leaves every node through its NICs; storage is not asked. */
START_TEST(shares_go_over_the_nics)
{
    int64_t parameters;
    peers(10, 0, 4);
    luo_cluster *c = (luo_cluster *)sc.cluster;
    c->storage_write_bytes_per_s = _i ? 1e6 : 1e12;
    ck_assert_int_eq(luo_model_parameters(&model, &parameters, NULL), LUO_OK);
    const luo_node_group *g = &c->groups[0];
    const double share = (double)parameters * 14 / 4;
    run_ok();
    check_books();
    ck_assert_double_eq_tol(checkpoint_s(), share / (g->nics * g->nic_bytes_per_s), 1e-9);
}
END_TEST

/* Nodes that lose all devices at 7 s, after the checkpoint at step 4; up again at 20 s, before the
 * run looks for it. */
static const struct loss {
    const char *target[2];
    bool lost;
} losses[] = {
    {{"device:2", "device:4"}, false}, /* a device is no node */
    {{"node:g0-1", NULL}, false},      /* node 2 has its copy */
    {{"node:g0-1", "node:g0-3"}, false},
    {{"node:g0-1", "node:g0-2"}, true},
    {{"node:g0-3", "node:g0-0"}, true}, /* behind the last comes the first */
};
START_TEST(a_node_and_the_next_one)
{
    const struct loss *x = &losses[_i];
    const int32_t n = x->target[1] ? 2 : 1;
    for (int32_t i = 0; i < n; i++)
        events[i] = fixture_event(x->target[i], LUO_EVENT_FAIL, x->target[i], 7, 13);
    peers(20, n, 4);
    run_ok();
    check_books();
    ck_assert_int_eq(fake.summary.restarts, 1);
    /* at step 6 (5.4 s and a checkpoint of little time), and the attempt */
    ck_assert_int_eq(fake.summary.steps_redone, x->lost ? 7 : 3);
    ck_assert_str_eq(event_row("restarted", 0)->detail,
                     x->lost ? "state from the beginning" : "state from checkpoint");
}
END_TEST

/* A node is lost, and after the restart, before the next checkpoint, the one that had its copy: all
 * have had their shares again since. */
START_TEST(one_after_the_other)
{
    events[0] = fixture_event("a", LUO_EVENT_FAIL, "node:g0-1", 7, 13);
    events[1] = fixture_event("b", LUO_EVENT_FAIL, "node:g0-2", 99, 13);
    peers(40, 2, 4);
    run_ok();
    check_books();
    ck_assert_int_eq(fake.summary.restarts, 2);
    for (int32_t i = 0; i < 2; i++) {
        ck_assert_str_eq(event_row("restarted", i)->detail, "state from checkpoint");
        ck_assert(!event_row("restarted", i)->has_value && event_row("restarted", i)->value == 0);
    }
    const luo_row_timeline *second = NULL; /* checkpoint that ended well */
    for (int32_t i = 0, seen = 0; i < fake.ntime && !second; i++)
        if (fake.time[i].kind == LUO_SPAN_CHECKPOINT && ++seen == 2) second = &fake.time[i];
    ck_assert_double_gt(second->start_s, 99);
}
END_TEST

/* Hosts hold the shares of four nodes, a quarter and another, but not those of the three that are
 * left, a third and another: told when that plan comes, not only of the first one. */
START_TEST(room_of_a_later_plan)
{
    int64_t parameters;
    luo_err err = {0};
    ck_assert_int_eq(luo_model_parameters(&model, &parameters, NULL), LUO_OK);
    events[0] = fixture_event("gone", LUO_EVENT_FAIL, "node:g0-1", 7, 1e6);
    peers(20, 1, 4);
    ((luo_cluster *)sc.cluster)->groups[0].host_memory_bytes =
        (double)parameters * 14 * (_i ? 1.1 : 0.6);
    const luo_status st = run(&err);
    ck_assert_msg(st == (_i ? LUO_OK : LUO_EINPUT), "%s: %s", luo_status_name(st), err.text);
    if (!_i) ck_assert_msg(strstr(err.text, "checkpoints in memory") != NULL, "%s", err.text);
}
END_TEST

LUO_SUITE("run.checkpoint", LUO_T_N(room_of_a_later_plan, 2), LUO_T_N(shares_go_over_the_nics, 2),
          LUO_T_N(a_node_and_the_next_one, LUO_ROWS(losses)), LUO_T(one_after_the_other))
