/* check_replicas.c: runs under `spares` and `drop_replica` on a backend that answers from
 * a formula. Base: 2 pipelines of 2 stages of 12 layers (0.12 s each), 16 micro-batches; a node of
 * two devices is a stage; nodes from the fifth on are spare. */
#include <math.h>

#include "core/run/policy/offers.h"
#include "tests/driver_fixture.h"

static luo_arrivals processes[2];

/* As prepare, on a cluster with so many nodes that the plan leaves free. */
static void with_spares(const char *policy, int64_t steps, int32_t nevents, int32_t spares)
{
    prepare(policy, steps, nevents);
    luo_cluster *c = fixture_cluster(arena, 1, 4 + spares, 2);
    c->storage_read_bytes_per_s = c->storage_write_bytes_per_s = 1e9;
    sc.cluster = c;
    sc.plan = base_plan(c);
    spec.deals_batch = true;
}

static const luo_plan *last_plan(void)
{
    const int32_t i = fake.nswitches > 0 ? fake.switches[fake.nswitches - 1].to_plan : 0;
    return fake.plans[i].plan;
}

/* ---- spares ---- */

/* The node of the failed device goes, with its neighbour; the newcomers copy from the other
 * pipeline; steps are as fast as before. */
START_TEST(a_spare_takes_the_place)
{
    events[0] = fixture_event("gpu", LUO_EVENT_FAIL, _i ? "node:g0-1" : "device:3", 7, 0);
    with_spares("spares", 20, 1, 1);
    run_ok();
    check_books();
    const luo_plan *p = last_plan();
    ck_assert_int_eq(fake.summary.restarts, 0);
    ck_assert_int_eq(fake.summary.switches, 1);
    ck_assert_int_eq(fake.summary.steps_redone, 1);
    ck_assert(!holds(p, 2) && !holds(p, 3) && holds(p, 8) && holds(p, 9));
    ck_assert_int_eq(p->pipelines[0].stages[1].dev[0], 8);
    ck_assert_int_eq(p->pipelines[0].stages[1].dev[1], 9);
    ck_assert_double_eq_tol(last_step(), STEP, 1e-9);
    ck_assert_str_eq(fake.switches[0].source, "devices");
    ck_assert_str_eq(event_row("decided", 0)->detail, "1 spare node in place of as many");
}
END_TEST

/* What comes back is a spare: it takes the place of the next one that fails. */
START_TEST(the_repaired_are_spares)
{
    events[0] = fixture_event("gpu", LUO_EVENT_FAIL, "device:3", 7, 45);
    events[1] = fixture_event("gpu2", LUO_EVENT_FAIL, "device:8", 100, 0);
    with_spares("spares", 120, 2, 1);
    run_ok();
    check_books();
    ck_assert_int_eq(fake.summary.switches, 2);
    ck_assert_int_eq(fake.summary.restarts, 0);
    ck_assert(holds(last_plan(), 2) && holds(last_plan(), 3) && !holds(last_plan(), 8));
    ck_assert_double_eq_tol(last_step(), STEP, 1e-9);
}
END_TEST

/* Two nodes fail, there is one spare: what `restart` would do, until a node is back. */
START_TEST(too_few_spares)
{
    events[0] = fixture_event("gpu", LUO_EVENT_FAIL, "node:g0-1", 7, 0);
    events[1] = fixture_event("gpu2", LUO_EVENT_FAIL, "node:g0-3", 7, 300);
    with_spares("spares", 600, 2, 1);
    spec.payback_steps = _i ? 0 : 1e9;
    run_ok();
    check_books();
    ck_assert_int_eq(fake.summary.restarts, 1);
    ck_assert_int_eq(fake.summary.switches, !_i);
    ck_assert(strncmp(event_row("decided", 0)->detail, "restart on", 10) == 0);
    ck_assert(holds(last_plan(), 8));
    if (_i) return;
    ck_assert_str_eq(event_row("decided", 1)->detail,
                     "the plan of the scenario, 1 of its nodes replaced");
    ck_assert_double_eq_tol(last_step(), STEP, 1e-9);
}
END_TEST

/* A slow node is replaced when that pays; a spare that is slow itself is none. */
START_TEST(slow_nodes_if_it_pays)
{
    events[0] = fixture_event("slow", LUO_EVENT_STRAGGLER, "device:1", 5.4, 0);
    events[0].slowdown = 3;
    with_spares("spares", 60, 1, _i != 2);
    spec.payback_steps = _i == 1 ? 0 : 1e6;
    run_ok();
    check_books();
    ck_assert_int_eq(fake.summary.switches, _i == 0);
    ck_assert(holds(last_plan(), 1) == (_i != 0));
    ck_assert_double_eq_tol(last_step(), _i ? 8 * 0.36 : STEP, 1e-9);
    if (_i == 1) ck_assert_str_eq(event_row("decided", 0)->detail, "a spare node does not pay");
}
END_TEST

/* Both copies of a stage are gone: its state comes from the checkpoint, on the spares. */
START_TEST(spares_without_a_copy)
{
    events[0] = fixture_event("gpu", LUO_EVENT_FAIL, "device:0", 7, 0);
    events[1] = fixture_event("gpu2", LUO_EVENT_FAIL, "device:4", 7, 0);
    with_spares("spares", 20, 2, 2);
    sc.checkpoint.kind = LUO_CHECKPOINT_STEPS;
    sc.checkpoint.every_steps = 4;
    run_ok();
    check_books();
    ck_assert_int_eq(fake.summary.restarts, 1);
    ck_assert_int_eq(fake.summary.switches, 0);
    ck_assert(holds(last_plan(), 8) && holds(last_plan(), 10));
    ck_assert_double_eq_tol(last_step(), STEP, 1e-9);
}
END_TEST

/* A node is announced to leave: its spare is there before it goes. */
START_TEST(spares_before_a_notice_ends)
{
    events[0] = fixture_event("spot", LUO_EVENT_LEAVE, "node:g0-2", 40, 0);
    events[0].notice_s = 30;
    with_spares("spares", 60, 1, 1);
    run_ok();
    check_books();
    ck_assert_int_eq(fake.summary.switches, 1);
    ck_assert_int_eq(fake.summary.steps_redone, 0);
    ck_assert(holds(last_plan(), 8) && !holds(last_plan(), 4));
}
END_TEST

/* ---- drop_replica ---- */

/* Dealt: one pipeline of 16 micro-batches, (16 + 1) * 0.12 s. Lost: 8 of them, as long as before.
 * When the device is back, so is the replica. */
START_TEST(a_replica_leaves_and_comes_back)
{
    events[0] = fixture_event("gpu", LUO_EVENT_FAIL, "device:3", 7, _i / 2 ? 60 : 0);
    with_spares("drop_replica", 100, 1, 0);
    spec.deals_batch = _i % 2 == 0;
    run_ok();
    check_books();
    const luo_row_step *alone = &fake.steps[12];
    ck_assert_int_eq(fake.summary.restarts, 0);
    ck_assert_int_eq(fake.summary.switches, _i / 2 ? 2 : 1);
    ck_assert_int_eq(fake.summary.steps_redone, 1);
    ck_assert_int_eq(alone->sequences, _i % 2 ? 8 : 16);
    ck_assert_double_eq_tol(alone->end_s - alone->start_s, _i % 2 ? STEP : 17 * 0.12, 1e-9);
    ck_assert_int_eq(last_plan()->npipelines, 1 + _i / 2);
    ck_assert_int_eq(fake.plans[1].plan->npipelines, 1);
    ck_assert(!holds(fake.plans[1].plan, 0)); /* all of its pipeline leaves */
    ck_assert_str_eq(event_row("decided", 0)->detail,
                     _i % 2 ? "1 of 2 replicas; the batch of the others is lost"
                            : "1 of 2 replicas; the batch of the others is dealt to them");
    if (_i / 2) ck_assert_str_eq(event_row("decided", 1)->detail, "2 of 2 replicas");
    if (_i / 2) ck_assert_double_eq_tol(last_step(), STEP, 1e-9);
}
END_TEST

/* Both fail: the run waits for the first that is whole again, or is lost; nothing else holds its
 * state, so it comes from the checkpoint. */
START_TEST(no_replica_is_left)
{
    luo_err err = {0};
    events[0] = fixture_event("gpu", LUO_EVENT_FAIL, "device:3", 7, 0);
    events[1] = fixture_event("gpu2", LUO_EVENT_FAIL, "device:5", 7, _i ? 93 : 0);
    with_spares("drop_replica", 60, 2, 0);
    const luo_status st = run(&err);
    check_books();
    ck_assert_int_eq(st, _i ? LUO_OK : LUO_ENO);
    if (!_i) return;
    ck_assert_int_eq(fake.summary.restarts, 1);
    ck_assert_int_eq(last_plan()->npipelines, 1);
    ck_assert(holds(last_plan(), 4));
}
END_TEST

/* Lower pipelines take what is left over, and the batch stays whole. */
START_TEST(batches_are_dealt_evenly)
{
    events[0] = fixture_event("gpu", LUO_EVENT_FAIL, "device:9", 7, 0);
    with_spares("drop_replica", 20, 1, 2);
    luo_plan *p = (luo_plan *)sc.plan;
    luo_pipeline *pl = LUO_NEW_N(arena, luo_pipeline, 3);
    luo_stage *st = LUO_NEW_N(arena, luo_stage, 2);
    static const int32_t dev[] = {8, 9, 10, 11};
    for (int s = 0; s < 2; s++) {
        st[s] = p->pipelines[0].stages[s];
        st[s].dev = dev + 2 * s;
    }
    memcpy(pl, p->pipelines, 2 * sizeof *pl);
    pl[2] = pl[0];
    pl[2].stages = st;
    pl[2].micro_batches = 5;
    p->pipelines = pl;
    p->npipelines = 3;
    run_ok();
    check_books();
    ck_assert_int_eq(last_plan()->npipelines, 2);
    ck_assert_int_eq(last_plan()->pipelines[0].micro_batches, 11);
    ck_assert_int_eq(last_plan()->pipelines[1].micro_batches, 10);
}
END_TEST

/* ---- what they offer to others ---- */

/* Nothing while all is well; with a device gone the base plan on the spare node, and what is left
 * of it with the whole batch, whatever becomes of the batch under the policy itself. */
START_TEST(what_they_offer)
{
    with_spares("malleus", 1, 0, 1);
    spec.deals_batch = false;
    double rate[10];
    const bool leaving[10] = {false};
    for (int d = 0; d < 10; d++) rate[d] = 1;
    if (_i > 0) rate[5] = INFINITY;
    if (_i > 1) rate[8] = 3; /* the spare is slow */
    const luo_snapshot now = {.scenario = &sc, .spec = &spec, .base = sc.plan, .plan = sc.plan,
                             .rate = rate, .leaving = leaving};
    luo_offers o = {0};
    ck_assert_int_eq(luo_offers_spares(arena, &now, &o, NULL), LUO_OK);
    ck_assert_int_eq(o.n, _i == 1);
    if (_i == 1) {
        ck_assert_str_eq(o.at[0].from, "spares");
        ck_assert_int_eq(o.at[0].plan->pipelines[1].stages[0].dev[1], 9);
    }
    ck_assert_int_eq(luo_offers_drop_replica(arena, &now, true, &o, NULL), LUO_OK);
    ck_assert_int_eq(o.n, _i == 0 ? 0 : _i == 1 ? 2 : 1);
    if (_i == 0) return;
    const luo_offer *x = &o.at[o.n - 1];
    ck_assert_str_eq(x->from, "drop_replica");
    ck_assert_int_eq(x->plan->npipelines, 1);
    ck_assert_int_eq(x->plan->pipelines[0].micro_batches, 16);
}
END_TEST

/* A slow device: its replica may go for others' sake, though the policy itself keeps it. */
START_TEST(what_they_offer_of_slow)
{
    with_spares("malleus", 1, 0, 1);
    double rate[10];
    const bool leaving[10] = {false};
    for (int d = 0; d < 10; d++) rate[d] = d == 5 ? spec.threshold_slowdown : 1;
    const luo_snapshot now = {.scenario = &sc, .spec = &spec, .base = sc.plan, .plan = sc.plan,
                             .rate = rate, .leaving = leaving};
    luo_offers o = {0};
    ck_assert_int_eq(luo_offers_drop_replica(arena, &now, true, &o, NULL), LUO_OK);
    ck_assert_int_eq(o.n, 0);
    ck_assert_int_eq(luo_offers_drop_replica(arena, &now, false, &o, NULL), LUO_OK);
    ck_assert_int_eq(o.n, 1);
    ck_assert_int_eq(o.at[0].plan->pipelines[0].stages[0].dev[0], 0);
    ck_assert_int_eq(o.at[0].plan->pipelines[0].micro_batches, 16);
}
END_TEST

/* ---- fewer processes than devices ---- */

/* There is a process for eight devices of twelve: whoever answers a failure takes as many at most,
 * free ones among them. */
START_TEST(no_more_devices_than_ranks)
{
    static const char *const names[] = {"restart", "oobleck", "spares", "drop_replica"};
    int32_t n, *dev;
    events[0] = fixture_event("gpu", LUO_EVENT_FAIL, "device:3", 7, _i / 4 ? 60 : 0);
    with_spares(names[_i % 4], 150, 1, 2);
    spec.payback_steps = 1e6;
    opts.ranks = 8;
    run_ok();
    check_books();
    ck_assert_int_gt(fake.summary.switches + fake.summary.restarts, 0);
    for (int32_t i = 0; i < fake.nplans; i++) {
        ck_assert_int_eq(luo_plan_devices(fake.arena, fake.plans[i].plan, &dev, &n, NULL), LUO_OK);
        ck_assert_msg(n <= 8, "%s: plan %d has %d devices", names[_i % 4], i, n);
    }
    if (_i % 4 != 3) ck_assert(holds(last_plan(), 8) || _i / 4);
}
END_TEST

/* ---- what they ask of the base plan ---- */

static const struct refusal {
    const char *policy, *says;
    int32_t pipelines, zero, annotations;
    bool deals;
} refusals[] = {
    {"drop_replica", "the base plan has one; several pipelines are expected", 1, 0, 0, true},
    {"drop_replica", "zero 0 or 1 is expected", 2, 3, 0, true},
    {"drop_replica", NULL, 2, 3, 0, false},
    {"drop_replica", "without `annotations`", 2, 0, 1, false},
    {"spares", "without `annotations`", 2, 0, 1, false},
    {"spares", NULL, 2, 3, 0, false},
};
START_TEST(what_the_base_plan_must_be)
{
    const struct refusal *x = &refusals[_i];
    const luo_pipeline pipelines[2] = {{.nstages = 0}};
    const luo_plan plan = {.npipelines = x->pipelines, .pipelines = pipelines, .zero = x->zero,
                           .nannotations = x->annotations};
    const luo_policy_spec s = {.deals_batch = x->deals};
    const luo_snapshot now = {.base = &plan, .plan = &plan, .spec = &s};
    luo_err err = {0};
    const luo_status st = luo_policy_find(x->policy)->check(&now, &err);
    ck_assert_int_eq(st, x->says ? LUO_EINPUT : LUO_OK);
    if (x->says) ck_assert_msg(strstr(err.text, x->says) != NULL, "%s", err.text);
}
END_TEST

/* Random failures and stragglers: books balance, and what is running can run. */
START_TEST(busy_runs)
{
    luo_err err = {0};
    with_spares(_i % 2 ? "spares" : "drop_replica", 400, 0, 1);
    spec.deals_batch = _i % 4 < 2;
    processes[0] = (luo_arrivals){.id = "slow", .target = "device:[0-9]",
                                 .kind = LUO_EVENT_STRAGGLER, .dist = LUO_DIST_WEIBULL,
                                 .mean_s = 900, .shape = 0.7, .slowdown_between = {1.2, 4},
                                 .life = {.dist = LUO_DIST_EXPONENTIAL, .mean_s = 60}};
    processes[1] = (luo_arrivals){.id = "die", .target = "device:[0-9]", .kind = LUO_EVENT_FAIL,
                                 .dist = LUO_DIST_EXPONENTIAL, .mean_s = 2000,
                                 .life = {.dist = LUO_DIST_LOGNORMAL, .median_s = 100,
                                          .sigma = 0.8}};
    sc.seed = (uint64_t)_i + 1;
    sc.processes = processes;
    sc.nprocesses = 2;
    sc.checkpoint.kind = LUO_CHECKPOINT_STEPS;
    sc.checkpoint.every_steps = 20;
    const luo_status st = run(&err);
    ck_assert_msg(st == LUO_OK || st == LUO_ENO, "seed %d: %s", _i + 1, err.text);
    check_books();
    ck_assert_int_gt(fake.summary.switches, 0);
}
END_TEST

LUO_SUITE("run.replicas", LUO_T_N(a_spare_takes_the_place, 2), LUO_T(the_repaired_are_spares),
          LUO_T_N(too_few_spares, 2), LUO_T_N(slow_nodes_if_it_pays, 3),
          LUO_T(spares_without_a_copy), LUO_T(spares_before_a_notice_ends),
          LUO_T_N(a_replica_leaves_and_comes_back, 4), LUO_T_N(no_replica_is_left, 2),
          LUO_T(batches_are_dealt_evenly), LUO_T_N(what_they_offer, 3),
          LUO_T(what_they_offer_of_slow),
          LUO_T_N(no_more_devices_than_ranks, 8),
          LUO_T_N(what_the_base_plan_must_be, LUO_ROWS(refusals)),
          LUO_T_N(busy_runs, 12))
