/* check_modes.c: who waits for the planner, when the policy is asked, and what comes
 * back into a plan when, with a policy of two plans: both pipelines, or the first one alone when
 * a device of the second is slow or gone. */
#include "tests/driver_fixture.h"

enum { ASKED = 64 };
static struct {
    double old_s, new_s; /* told to the driver; 0: -1 */
    bool known;          /* every answer was remembered */
    int n;
    int trigger[ASKED];
    bool candidate[ASKED][8];
    double failure_s[ASKED], setback_s[ASKED]; /* of steps of 2 s, 1000 s from now */
} asked;

static const luo_plan *first_alone(luo_arena *a, const luo_plan *base)
{
    luo_plan *p;
    ck_assert_int_eq(luo_plan_copy(a, base, &p, NULL), LUO_OK);
    luo_pipeline *pl = LUO_NEW(a, luo_pipeline);
    *pl = base->pipelines[0];
    pl->micro_batches = 16;
    p->npipelines = 1;
    p->pipelines = pl;
    return p;
}

static luo_status decide(luo_arena *a, const luo_snapshot *now, luo_decision *out, luo_err *err)
{
    (void)err;
    bool whole = true;
    for (int32_t d = 4; d < 8; d++) whole &= now->candidate[d] && now->rate[d] < 1.2;
    if (asked.n < ASKED) {
        asked.trigger[asked.n] = now->trigger;
        asked.failure_s[asked.n] = now->failure_s;
        asked.setback_s[asked.n] = now->setback_s(now->run, 2, 1000);
        memcpy(asked.candidate[asked.n++], now->candidate, 8 * sizeof(bool));
    }
    *out = (luo_decision){.action = LUO_KEEP, .old_s = -1, .new_s = -1, .known = asked.known};
    const luo_plan *p = whole ? now->base : first_alone(a, now->base);
    if (luo_plan_hash(p) == luo_plan_hash(now->plan)) return LUO_OK;
    out->action = LUO_SWITCH;
    out->plan = p;
    if (asked.old_s > 0) {
        out->old_s = asked.old_s;
        out->new_s = asked.new_s;
    }
    return LUO_OK;
}

static const luo_policy two_plans = {.name = "two", .plans = true, .decide = decide};

static void prepare_two(int64_t steps, int32_t nevents)
{
    memset(&asked, 0, sizeof asked);
    prepare("two", steps, nevents);
    opts.policy = &two_plans;
    spec.planner_s = 0;
    spec.reentry_probes = 5;
}

/* Vector AT1 of docs/planners.md#who-waits-for-the-planner: a healthy step of 10 s, of 23.62 s with
 * the straggler of t = 100; a switch of 3 s. Four samples confirm the change at 194.48. */
static const struct {
    luo_plan_mode mode;
    double planner_s, end_s; /* of the switch */
    bool waits;
} at1[] = {
    {LUO_PLAN_ASYNC, 0.5, 221.10, false}, {LUO_PLAN_SYNC, 0.5, 197.98, true},
    {LUO_PLAN_AUTO, 0.5, 197.98, true},   {LUO_PLAN_ASYNC, 30, 244.72, false},
    {LUO_PLAN_SYNC, 30, 227.48, true},    {LUO_PLAN_AUTO, 30, 244.72, false},
};

/* Slowdown of a stage of pipeline 0 with which a step takes that long. */
static double slowdown_for(double seconds)
{
    luo_world *w;
    double lo = 1, hi = 10;
    ck_assert_int_eq(luo_world_new(arena, sc.cluster, &w, NULL), LUO_OK);
    for (int i = 0; i < 100; i++) {
        w->slowdown[5] = (lo + hi) / 2;
        if (fake_seconds(sc.plan, w) < seconds) lo = w->slowdown[5];
        else hi = w->slowdown[5];
    }
    return hi;
}

START_TEST(vector_at1)
{
    events[0] = fixture_event("slow", LUO_EVENT_STRAGGLER, "device:5", 100, 0);
    prepare_two(30, 1);
    asked.old_s = 23.62;
    asked.new_s = 10.49;
    spec.plan_mode = at1[_i].mode;
    spec.planner_s = at1[_i].planner_s;
    sc.communicator_s = 0;
    fake.layer_s = 0.01 * 10 / STEP;
    fake.move_s = 3;
    events[0].slowdown = slowdown_for(23.62);
    run_ok();
    check_books();
    ck_assert_int_eq(fake.nswitches, 1);
    ck_assert_double_eq_tol(event_row("detected", 0)->t_s, 194.48, 1e-9);
    ck_assert_double_eq_tol(fake.switches[0].t_s, at1[_i].end_s, 1e-9);
    ck_assert_double_eq_tol(fake.switches[0].plan_s, at1[_i].planner_s, 1e-9);
    ck_assert_double_eq_tol(fake.switches[0].move_s, 3, 1e-9);
    ck_assert_double_eq_tol(fake.summary.plan_s, at1[_i].waits ? at1[_i].planner_s : 0, 1e-9);
    int planned = 0;
    for (int32_t i = 0; i < fake.ntime; i++)
        planned += fake.time[i].kind == LUO_SPAN_PLAN && fake.time[i].blocking == at1[_i].waits;
    ck_assert_int_eq(planned, 1);
}
END_TEST

/* A remembered answer costs no planner time, whoever would have waited. */
START_TEST(known_answers_are_free)
{
    events[0] = fixture_event("slow", LUO_EVENT_STRAGGLER, "device:5", 5.4, 0);
    prepare_two(30, 1);
    spec.planner_s = 7;
    spec.plan_mode = LUO_PLAN_SYNC;
    asked.known = _i == 1;
    run_ok();
    check_books();
    ck_assert_int_eq(fake.nswitches, 1);
    ck_assert_double_eq_tol(fake.summary.plan_s, _i == 1 ? 0 : 7, 1e-9);
    ck_assert_double_eq_tol(fake.switches[0].plan_s, _i == 1 ? 0 : 7, 1e-9);
}
END_TEST

/* Failures: state comes from the other pipeline; with ZeRO-1 nobody else has it, and it comes from
 * the checkpoint, or without one from the beginning. The log says which. */
static const struct {
    const char *target;
    int32_t zero;
    bool checkpoint;
    const char *phase, *detail, *source;
    int64_t redone;
} failures[] = {
    {"device:5", 0, true, "switched", "state from devices", "devices", 1},
    {"node:g0-3", 0, false, "switched", "state from devices", "devices", 1},
    {"device:5", 1, true, "restarted", "state from checkpoint", "checkpoint", 3},
    {"device:5", 1, false, "restarted", "state from the beginning", "checkpoint", 7},
};

START_TEST(failures_say_where_state_comes_from)
{
    events[0] = fixture_event("gpu", LUO_EVENT_FAIL, failures[_i].target, 7, 0);
    prepare_two(20, 1);
    ((luo_plan *)sc.plan)->zero = failures[_i].zero;
    sc.checkpoint.kind = failures[_i].checkpoint ? LUO_CHECKPOINT_STEPS : LUO_CHECKPOINT_NONE;
    sc.checkpoint.every_steps = 4;
    run_ok();
    check_books();
    ck_assert_str_eq(event_row(failures[_i].phase, 0)->detail, failures[_i].detail);
    ck_assert_int_eq(fake.nswitches, 1);
    ck_assert_str_eq(fake.switches[0].source, failures[_i].source);
    ck_assert_int_eq(fake.summary.steps_redone, failures[_i].redone);
    ck_assert_int_eq(fake.nwarnings, failures[_i].zero);
    ck_assert_double_eq_tol(fake.summary.detect_s, 30, 1e-9);
}
END_TEST

/* Step at which the k-th switch took place. */
static int64_t switch_step(int k)
{
    return event_row("switched", k)->step;
}

/* Node 2 fails at 7 s and is up again at 60 s: asked after five probes. */
START_TEST(joins_after_probes)
{
    events[0] = fixture_event("gone", LUO_EVENT_FAIL, "node:g0-2", 7, 53);
    prepare_two(60, 1);
    spec.reentry_probes = _i;
    run_ok();
    check_books();
    ck_assert_int_eq(fake.summary.switches, 2);
    ck_assert_int_eq(fake.summary.restarts, 0);
    int64_t up = 0; /* the step in which it came up */
    while (fake.steps[up].end_s < 60) up++;
    ck_assert_int_eq(switch_step(1) - fake.steps[up].step, _i > 0 ? _i : 1);
    ck_assert(asked.trigger[asked.n - 1] & LUO_TRIGGER_JOIN);
    ck_assert(asked.candidate[asked.n - 1][4]);
    ck_assert(!asked.candidate[0][4]);
    ck_assert_int_eq(asked.n, 2);
}
END_TEST

/* Device 5 is slow and put out, once or again soon after it came back; then device 1 becomes slow,
 * and what the policy may plan with has device 5 at its slow rate the first time. */
START_TEST(slow_devices_outside)
{
    prepare_two(200, 2 + _i);
    for (int i = 0; i <= _i; i++) {
        const bool last = i == _i;
        events[i] = fixture_event(i == 0 ? "a" : "b", LUO_EVENT_STRAGGLER, "device:5", 0,
                                  last ? 0 : 30);
        events[i].trigger = LUO_AT_STEP;
        events[i].at[0] = 10 + 80 * i;
        events[i].slowdown = 3;
    }
    events[_i + 1] = fixture_event("c", LUO_EVENT_STRAGGLER, "device:1", 0, 0);
    events[_i + 1].trigger = LUO_AT_STEP;
    events[_i + 1].at[0] = 160;
    events[_i + 1].slowdown = 2;
    run_ok();
    ck_assert_int_eq(asked.n, _i == 0 ? 2 : 4);
    ck_assert(asked.trigger[asked.n - 1] & LUO_TRIGGER_RATE);
    ck_assert(asked.candidate[asked.n - 1][5] == (_i == 0));
    ck_assert(asked.candidate[asked.n - 1][4]);
}
END_TEST

/* Device 5 is slow again and again, 20 steps after it has come back: it needs 10 good probes, then
 * 20. The first time the detector's word is enough. */
START_TEST(back_off)
{
    enum { TIMES = 4 };
    prepare_two(400, TIMES);
    for (int i = 0; i < TIMES; i++) {
        events[i] = fixture_event(i == 0 ? "a" : i == 1 ? "b" : i == 2 ? "c" : "d",
                                  LUO_EVENT_STRAGGLER, "device:5", 0, 30);
        events[i].trigger = LUO_AT_STEP;
        events[i].at[0] = 10 + 80 * i;
        events[i].slowdown = 3;
    }
    run_ok();
    check_books();
    ck_assert_int_eq(fake.nswitches, 2 * TIMES);
    static const int64_t least[TIMES] = {0, 10, 20, 40};
    for (int i = 0; i < TIMES; i++) {
        int64_t fine = switch_step(2 * i); /* the first step that ends without the straggler */
        while (fake.steps[fine].end_s < event_row("ended", i)->t_s) fine++;
        const int64_t probes = switch_step(2 * i + 1) - fine;
        if (least[i] == 0) ck_assert_int_le(probes, 6);
        else ck_assert_int_eq(probes, least[i]);
    }
}
END_TEST

/* A slow device outside the plan that becomes less slow is no trigger until it is healthy. */
START_TEST(slow_outside_is_no_trigger)
{
    events[0] = fixture_event("a", LUO_EVENT_STRAGGLER, "device:5", 5.4, 60);
    events[1] = fixture_event("b", LUO_EVENT_STRAGGLER, "device:5", 5.4, 0);
    events[0].slowdown = 4;
    events[1].slowdown = 1.5;
    prepare_two(100, 2);
    run_ok();
    ck_assert_int_eq(asked.n, 1);
    ck_assert_int_eq(asked.trigger[0], LUO_TRIGGER_RATE);
}
END_TEST

/* Four devices at 1.25: none of them is a change of 0.3, but steps are a quarter longer. Five steps
 * fill the windows, and the median moves with the third of them; then it is drift for five. */
START_TEST(many_small_slow_downs)
{
    events[0] = fixture_event("a", LUO_EVENT_STRAGGLER, "device:[4-7]", 10 * STEP, 0);
    events[0].slowdown = _i == 0 ? 1.25 : 1.19;
    prepare_two(60, 1);
    run_ok();
    ck_assert_int_eq(asked.n, _i == 0 ? 1 : 0);
    if (_i == 1) return;
    ck_assert_int_eq(asked.trigger[0], LUO_TRIGGER_RATE);
    ck_assert_str_eq(event_row("detected", 0)->detail, "drift of several devices");
    ck_assert_int_eq(switch_step(0), 10 + 3 - 1 + 5);
    ck_assert_int_eq(fake.nswitches, 1);
}
END_TEST

/* ---- what the policy is told of failures ---- */

/* Devices of the second pipeline fail at 10 s, and at 20 s; the policy is asked at 40 s. One of 8
 * devices fails in 5e8 s where processes say so. To go back to a checkpoint takes 60 s of processes
 * and reading 14 bytes a parameter at 1 GB/s, or what is set; and half of the 10 steps of 2 s or of
 * the 8 s between two; without checkpoints the 9 steps so far and those until the failure. */
static const struct {
    luo_checkpoint_kind kind;
    int32_t nevents;
    double process_s, restart_s, failure_s, setback_s;
} told[] = {{LUO_CHECKPOINT_STEPS, 1, 0, -1, 40, 60 + 10},
            {LUO_CHECKPOINT_S, 2, 0, -1, 20, 60 + 4},
            {LUO_CHECKPOINT_STEPS, 2, 0, 7, 20, 7 + 10},
            {LUO_CHECKPOINT_STEPS, 2, 4e9, -1, 5e8, 60 + 10},
            {LUO_CHECKPOINT_NONE, 1, 0, -1, 40, 60 + 9 * 1.08 + 1000}};

START_TEST(told_of_failures)
{
    static luo_arrivals process = {
        .id = "p", .target = "device:[0-7]", .kind = LUO_EVENT_FAIL, .dist = LUO_DIST_EXPONENTIAL};
    int64_t parameters;
    events[0] = fixture_event("a", LUO_EVENT_FAIL, "device:5", 10, 0);
    events[1] = fixture_event("b", LUO_EVENT_FAIL, "device:6", 20, 0);
    prepare_two(20, told[_i].nevents);
    process.mean_s = told[_i].process_s;
    sc.processes = &process;
    sc.nprocesses = told[_i].process_s > 0;
    spec.restart_s = told[_i].restart_s;
    sc.checkpoint.kind = told[_i].kind;
    sc.checkpoint.every_steps = 10;
    sc.checkpoint.every_s = 8;
    ck_assert_int_eq(luo_model_parameters(&model, &parameters, NULL), LUO_OK);
    const double read_s = told[_i].restart_s < 0 ? (double)parameters * 14 / 1e9 : 0;
    run_ok();
    ck_assert_int_ge(asked.n, 1);
    ck_assert_int_eq(asked.trigger[0] & LUO_TRIGGER_FAIL, LUO_TRIGGER_FAIL);
    ck_assert_double_eq_tol(asked.failure_s[0], told[_i].failure_s, 1e-9 * told[_i].failure_s);
    ck_assert_double_eq_tol(asked.setback_s[0], told[_i].setback_s + read_s, 1e-9);
}
END_TEST

LUO_SUITE("run.modes", LUO_T_N(vector_at1, LUO_ROWS(at1)), LUO_T_N(known_answers_are_free, 2),
          LUO_T_N(failures_say_where_state_comes_from, LUO_ROWS(failures)),
          LUO_T_N(joins_after_probes, 6), LUO_T(back_off), LUO_T_N(slow_devices_outside, 2),
          LUO_T(slow_outside_is_no_trigger), LUO_T_N(many_small_slow_downs, 2),
          LUO_T_N(told_of_failures, LUO_ROWS(told)))
