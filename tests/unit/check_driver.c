/* check_driver.c: the step loop on a backend that answers from a formula. */
#include "core/run/policy/judge.h"
#include "sim/sim.h"
#include "tests/driver_fixture.h"

static luo_arrivals processes[2];

START_TEST(quiet_run)
{
    static const char *const names[] = {"static", "restart", "rebalance"};
    prepare(names[_i], 10, 0);
    run_ok();
    check_books();
    ck_assert_int_eq(fake.nsteps, 10);
    ck_assert_double_eq_tol(fake.summary.total_s, 10 * STEP, 1e-9);
    ck_assert_double_eq_tol(fake.summary.step_p50_s, STEP, 1e-9);
    ck_assert_int_eq(fake.summary.steps_done, 10);
    ck_assert_int_eq(fake.summary.tokens, 10 * 16 * 256);
    ck_assert_int_eq(fake.summary.switches + fake.summary.restarts, 0);
    ck_assert_double_eq_tol(fake.summary.time.compute_s, 10 * 8 * 0.12, 1e-9);
    ck_assert_int_eq(fake.nwarnings, 0);
    ck_assert_double_eq_tol(fake.up_s[3], 10 * STEP, 1e-9);
    ck_assert_double_eq_tol(fake.used_s[3], 10 * STEP, 1e-9);
}
END_TEST

/* What is said by second, of a run that is over before one second has gone by. */
START_TEST(short_run)
{
    prepare("static", 3, 0);
    fake.layer_s = 1e-3;
    run_ok();
    ck_assert_double_eq_tol(fake.summary.total_s, 3 * STEP / 10, 1e-9);
    ck_assert_double_eq_tol(fake.summary.tokens_per_s, 3 * 16 * 256 / (3 * STEP / 10), 1e-6);
}
END_TEST

/* Slow from 5.4 s (a boundary) on, factor 2: stage 0 of pipeline 0 takes 0.24 s. */
static void straggler(const char *policy)
{
    events[0] = fixture_event("slow", LUO_EVENT_STRAGGLER, "device:1", 5.4, 0);
    prepare(policy, 40, 1);
    run_ok();
    check_books();
}

START_TEST(static_endures_a_straggler)
{
    straggler("static");
    ck_assert_double_eq_tol(fake.summary.step_max_s, 8 * 0.24 + 0.04, 1e-9); /* and one forward */
    ck_assert_int_eq(fake.summary.detect_true, 1);
    ck_assert_int_eq(fake.summary.detect_false, 0);
    const luo_row_event *e = event_row("detected", 0);
    ck_assert_str_eq(e->id, "slow");
    ck_assert_str_eq(e->detail, "slower");
    ck_assert(!e->has_value); /* what was measured stands in log.txt */
    ck_assert_int_eq(fake.nnotes, 1);
    ck_assert_str_eq(fake.notes[0], "step 8: device 1: rate 1.000000 -> 2.000000, samples "
                                    "1 1 1 1 1 | 2 2 2 2");
    ck_assert_int_eq(e->step, 8); /* the median of 5 moves with the third slow step; confirmed */
    ck_assert_int_eq(fake.steps[20].slowest_device, 1);
    ck_assert_double_eq_tol(fake.steps[20].max_slowdown, 2, 1e-12);
    ck_assert_int_eq(fake.ntruth, 1);
    ck_assert_double_gt(fake.truth[0].detected_s, 5.4);
    ck_assert_double_lt(fake.truth[0].end_s, 0);
    ck_assert_double_gt(fake.mean_slowdown[1], 1.5);
}
END_TEST

START_TEST(rebalance_moves_micro_batches)
{
    straggler("rebalance");
    ck_assert_int_eq(fake.summary.switches, 1);
    ck_assert_int_eq(fake.nplans, 2);
    const luo_plan *p = fake.plans[1].plan;
    ck_assert_int_eq(p->pipelines[0].micro_batches + p->pipelines[1].micro_batches, 16);
    ck_assert_int_lt(p->pipelines[0].micro_batches, 8);
    ck_assert_double_lt(fake.steps[39].end_s - fake.steps[39].start_s, 8 * 0.24);
    ck_assert_int_eq(fake.nswitches, 1);
    ck_assert_str_eq(fake.switches[0].source, "devices");
    ck_assert_double_eq(fake.switches[0].specialize_s, 0); /* same groups: no communicator */
    /* planned beside the training: switched at the first boundary 2 s after the detection */
    const luo_row_event *seen = event_row("detected", 0), *done = event_row("switched", 0);
    ck_assert_double_ge(done->t_s, seen->t_s + 2);
    ck_assert_double_lt(done->t_s, seen->t_s + 2 + 2 * 2.0);
}
END_TEST

START_TEST(failure_ends_static_and_rebalance)
{
    static const char *const names[] = {"static", "rebalance"};
    luo_err err = {0};
    events[0] = fixture_event("gpu", LUO_EVENT_FAIL, "device:3", 3, 100);
    prepare(names[_i], 40, 1);
    ck_assert_int_eq(run(&err), LUO_ENO);
    ck_assert_ptr_nonnull(strstr(err.text, "lost the run in step 2"));
    ck_assert_int_eq(fake.summary.state, LUO_LOST);
    check_books();
    ck_assert_str_eq(event_row("lost", 0)->id, "gpu");
    ck_assert_int_eq(fake.summary.steps_done, 2);
    ck_assert_int_eq(fake.summary.steps_redone, 1);
    ck_assert_double_eq_tol(fake.summary.redone_s, 3 - 2 * STEP, 1e-9);
    ck_assert_double_eq_tol(fake.summary.detect_s, 30, 1e-9);
}
END_TEST

/* Device 3 dies in step 6; checkpoints every 4 steps: back to step 4, three nodes are left. */
START_TEST(restart_survives_a_failure)
{
    events[0] = fixture_event("gpu", LUO_EVENT_FAIL, "device:3", 7, 0);
    prepare("restart", 20, 1);
    sc.checkpoint.kind = LUO_CHECKPOINT_STEPS;
    sc.checkpoint.every_steps = 4;
    sc.checkpoint.blocking = _i == 1;
    run_ok();
    check_books();
    const luo_run_summary *s = &fake.summary;
    ck_assert_int_eq(s->steps_done, 20);
    /* 4 and 5, and the attempt that broke; a blocking write of 0.9 s makes it 4 and the attempt */
    ck_assert_int_eq(s->steps_redone, 3 - _i);
    ck_assert_int_eq(s->restarts, 1);
    ck_assert_double_eq_tol(s->detect_s, 30, 1e-9);
    ck_assert_double_eq_tol(s->plan_s, 2, 1e-9);
    int64_t parameters;
    luo_model_parameters(&model, &parameters, NULL);
    const double read = 14 * (double)parameters / 1e9;
    ck_assert_double_ge(s->restart_s, 60 + read);
    ck_assert_double_lt(s->restart_s, 60 + read + 1);
    if (_i == 1)
        ck_assert_double_gt(s->checkpoint_s, 4 * read * (1 - 1e-9));
    else
        ck_assert_double_eq(s->checkpoint_s, 0);
    ck_assert_int_eq(fake.nplans, 2);
    const luo_plan *p = fake.plans[1].plan;
    for (int32_t i = 0; i < p->npipelines; i++)
        for (int32_t k = 0; k < p->pipelines[i].nstages; k++)
            for (int32_t d = 0; d < 2; d++)
                ck_assert_int_ne(p->pipelines[i].stages[k].dev[d] / 2, 1); /* the whole node left */
    int attempts = 0;
    for (int32_t i = 0; i < fake.nsteps; i++) attempts += fake.steps[i].attempt > 0;
    ck_assert_int_eq(attempts, 3 - _i);
    ck_assert_int_eq(fake.summary.tokens, (22 - _i) * 16 * 256);
    ck_assert_int_eq(fake.summary.kept_tokens, 20 * 16 * 256);
    ck_assert_str_eq(fake.switches[0].source, "checkpoint");
    ck_assert_int_eq(s->detect_true, 1);
}
END_TEST

START_TEST(without_checkpoints_all_is_redone)
{
    events[0] = fixture_event("gpu", LUO_EVENT_FAIL, "device:3", 7, 0);
    prepare("restart", 10, 1);
    run_ok();
    check_books();
    ck_assert_int_eq(fake.summary.steps_done, 10);
    ck_assert_int_eq(fake.summary.steps_redone, 7);
    ck_assert_double_eq_tol(fake.summary.redone_s, 7, 1e-9);
}
END_TEST

/* The slow node leaves after a save; when it is fast again it comes back, since that pays. */
START_TEST(restart_drops_and_takes_back)
{
    events[0] = fixture_event("slow", LUO_EVENT_STRAGGLER, "device:1", 5.4, 300);
    events[0].slowdown = 3;
    prepare("restart", 600, 1);
    spec.payback_steps = 1e7; /* the closed form knows a small model, not this backend */
    run_ok();
    check_books();
    ck_assert_int_eq(fake.summary.restarts, 2);
    ck_assert_int_eq(fake.summary.steps_redone, 0); /* saved first: nothing had failed */
    ck_assert_double_gt(fake.summary.checkpoint_s, 0);
    ck_assert_int_eq(fake.nplans, 2); /* what it comes back to is the scenario's own plan */
    int32_t n, *dev;
    luo_plan_devices(fake.arena, fake.plans[1].plan, &dev, &n, NULL);
    ck_assert_int_eq(dev[0], 2);
    ck_assert_int_eq(luo_plan_sequences(fake.plans[1].plan), 16);
    ck_assert_double_gt(fake.summary.specialize_s + fake.summary.restart_s, 2 * 60);
}
END_TEST

/* One step does not pay for a minute; what is expected between events does: by those so far, or of
 * the scenario's processes. */
START_TEST(restart_does_not_return_for_little)
{
    static luo_arrivals often = {.id = "often",
                                 .target = "device:7",
                                 .kind = LUO_EVENT_STRAGGLER,
                                 .mean_s = 1e9,
                                 .slowdown = 1.01};
    events[0] = fixture_event("gone", LUO_EVENT_FAIL, "device:1", 5.4, 300);
    prepare("restart", 600, 1);
    spec.payback_steps = 1;
    spec.payback_given = _i == 0;
    if (_i == 2) {
        sc.processes = &often;
        sc.nprocesses = 1;
    }
    run_ok();
    check_books();
    ck_assert_int_eq(fake.summary.restarts, _i == 0 ? 1 : 2);
}
END_TEST

/* A node that is slow leaves when that pays, as it comes back when that does. */
START_TEST(restart_weighs_the_way_out)
{
    events[0] = fixture_event("slow", LUO_EVENT_STRAGGLER, "device:1", 5.4, 0);
    prepare("restart", 100, 1);
    if (_i) spec.payback_steps = 1e7;
    run_ok();
    check_books();
    ck_assert_int_eq(fake.summary.restarts, _i);
    ck_assert_str_eq(event_row("decided", 0)->detail,
                     _i ? "restart on 1 pipelines" : "a restart does not pay");
}
END_TEST

/* Everything is down from 3 s to 100 s: the run waits, then goes on from the start. */
START_TEST(waits_for_repair)
{
    events[0] = fixture_event("all", LUO_EVENT_FAIL, "group:g0", 3, 97);
    prepare("restart", 10, 1);
    run_ok();
    check_books();
    ck_assert_double_eq_tol(fake.summary.wait_s, 100 - 3 - 30 - 2, 1e-6);
    ck_assert_int_eq(fake.summary.restarts, 1);
    ck_assert_double_lt(fake.up_s[0], fake.summary.total_s - 96);
}
END_TEST

START_TEST(nothing_comes_back)
{
    luo_err err = {0};
    events[0] = fixture_event("all", LUO_EVENT_FAIL, "group:g0", 3, 0);
    prepare("restart", 10, 1);
    ck_assert_int_eq(run(&err), LUO_ENO);
    ck_assert_int_eq(fake.summary.state, LUO_LOST);
    check_books();
}
END_TEST

static char lost_detail[64];

static luo_status keep_lost(void *ctx, const luo_row_event *row, luo_err *err)
{
    (void)ctx;
    (void)err;
    if (row->phase == LUO_EVENT_PHASE_LOST)
        snprintf(lost_detail, sizeof lost_detail, "%s", row->detail);
    return LUO_OK;
}

/* Devices fail so often that no attempt comes to its end: the run is lost. */
START_TEST(no_attempt_comes_through)
{
    luo_err err = {0};
    luo_sink sink = fake_sink;
    prepare("restart", 10, 0);
    processes[0] = (luo_arrivals){.id = "p",
                                 .target = "device:[0-7]",
                                 .kind = LUO_EVENT_FAIL,
                                 .dist = LUO_DIST_EXPONENTIAL,
                                 .mean_s = 0.4,
                                 .life = {.duration_s = 0.001}};
    sc.processes = processes;
    sc.nprocesses = 1;
    spec.planner_s = spec.restart_s = sc.detect_fail_s = 0.1;
    sc.truth = false;
    sink.event = keep_lost; /* too many rows to keep */
    sink.timeline = NULL;
    sink.switched = NULL;
    ck_assert_int_eq(luo_run_policy(&sc, 0, &opts, &sink, &err), LUO_ENO);
    ck_assert_str_eq(lost_detail, "no attempt of the step comes through");
}
END_TEST

/* Announced 60 s ahead: the node is gone before it goes, nothing is lost. */
START_TEST(announced_leave_costs_no_step)
{
    events[0] = fixture_event("spot", LUO_EVENT_LEAVE, "node:g0-3", 100, 0);
    events[0].notice_s = 60;
    prepare("restart", 200, 1);
    run_ok();
    check_books();
    ck_assert_int_eq(fake.summary.restarts, 1);
    ck_assert_int_eq(fake.summary.steps_redone, 0);
    ck_assert_double_eq(fake.summary.detect_s, 0);
    ck_assert_double_lt(event_row("restarted", 0)->t_s, 110);
}
END_TEST

START_TEST(dead_link_and_crash)
{
    static const luo_cause software = {
        .cause = "software", .kind = LUO_EVENT_FAIL, .scope = LUO_SCOPE_JOB, .count = 1};
    events[0] = fixture_event("nic", LUO_EVENT_FAIL, "link:g0-2/nic0", 7, 200);
    prepare("restart", 30, 1);
    if (_i == 1) {
        processes[0] = (luo_arrivals){.id = "c",
                                     .target = "device:[0-7]",
                                     .ncauses = 1,
                                     .kind = LUO_EVENT_CAUSES,
                                     .causes = &software,
                                     .observed_devices = 8,
                                     .observed_s = 20};
        sc.processes = processes;
        sc.nprocesses = 1;
        sc.nevents = 0;
        sc.steps = 60;
        sc.checkpoint.kind = LUO_CHECKPOINT_STEPS;
        sc.checkpoint.every_steps = 1;
        sc.checkpoint.blocking = true;
        spec.restart_s = 10;
    }
    run_ok();
    check_books();
    ck_assert_int_gt(fake.summary.restarts, 0);
    if (_i == 0) return;
    ck_assert_double_eq_tol(fake.summary.restart_s, 10.0 * fake.summary.restarts, 1e-6);
    ck_assert_int_eq(fake.nplans, 1); /* nobody is missing: the scenario's own plan */
}
END_TEST

START_TEST(checkpoints)
{
    prepare("restart", 40, 0);
    sc.checkpoint.kind = LUO_CHECKPOINT_S;
    sc.checkpoint.every_s = 5;
    run_ok();
    check_books();
    int writes = 0;
    for (int32_t i = 0; i < fake.ntime; i++)
        writes += fake.time[i].kind == LUO_SPAN_CHECKPOINT && !fake.time[i].blocking &&
                  !fake.time[i].redone;
    ck_assert_int_eq(writes, 7); /* at 5.4, 10.8, 16.2 .. 37.8; the last boundary ends the run */
}
END_TEST

START_TEST(auto_period)
{
    prepare("restart", 60, 0);
    processes[0] = (luo_arrivals){.id = "f",
                                 .target = "device:[0-7]",
                                 .kind = LUO_EVENT_FAIL,
                                 .dist = LUO_DIST_EXPONENTIAL,
                                 .mean_s = 1e6};
    sc.processes = processes;
    sc.nprocesses = 1;
    sc.checkpoint.kind = LUO_CHECKPOINT_AUTO;
    sc.checkpoint.blocking = true;
    ((luo_cluster *)sc.cluster)->storage_write_bytes_per_s = 1e10;
    run_ok();
    check_books();
    int64_t parameters;
    luo_model_parameters(&model, &parameters, NULL);
    const double write = 14 * (double)parameters / 1e10, period = sqrt(2 * write * 1e6 / 8);
    const double writes = floor(60 * STEP / period);
    ck_assert_double_eq_tol(fake.summary.checkpoint_s, write * writes, 2 * write);
    prepare("restart", 5, 0);
    sc.checkpoint.kind = LUO_CHECKPOINT_AUTO;
    run_ok();
    ck_assert_int_eq(fake.nwarnings, 1);
}
END_TEST

/* A backend that does not slow links down says so where links are to be slow, and only there. */
static const struct {
    luo_event_kind kind;
    int can, warnings;
} slow_links[] = {
    {LUO_EVENT_LINK, 0, 1}, {LUO_EVENT_FLAP, 0, 1}, {LUO_EVENT_STRAGGLER, 0, 0},
    {LUO_EVENT_LINK, 1, 0}, {LUO_EVENT_FLAP, 1, 0}, {LUO_EVENT_STRAGGLER, 1, 0},
};

START_TEST(links_that_cannot_be_slow)
{
    luo_backend backend = fake_backend;
    const bool device = slow_links[_i].kind == LUO_EVENT_STRAGGLER;
    events[0] = fixture_event("e", slow_links[_i].kind, device ? "device:1" : "link:g0-0/nic0",
                              1000, 1);
    events[0].bandwidth_factor = 0.5;
    events[0].up_s = events[0].down_s = 1;
    prepare("static", 3, 1);
    if (!slow_links[_i].can) backend.caps = LUO_CAP_VIRTUAL_TIME;
    opts.backend = &backend;
    run_ok();
    ck_assert_int_eq(fake.nwarnings, slow_links[_i].warnings);
}
END_TEST

/* The clock of the backend need not start at 0, a change in the middle of a step is felt there. */
START_TEST(change_inside_a_step)
{
    events[0] = fixture_event("slow", LUO_EVENT_STRAGGLER, "device:[0-7]", 0.54, 0);
    prepare("static", 1, 1);
    fake.start_s = 1000;
    run_ok();
    check_books();
    ck_assert_double_eq_tol(fake.summary.total_s, 0.54 + 2 * 0.54, 1e-9);
    ck_assert_double_eq(fake.time[0].start_s, 0);
}
END_TEST

START_TEST(duration_and_lengths)
{
    events[0] = fixture_event("long", LUO_EVENT_LENGTHS, "", 5, 0);
    events[0].tokens = 128;
    prepare("static", 0, 1);
    sc.duration_s = 10;
    run_ok();
    check_books();
    ck_assert_int_eq(fake.summary.steps_done, 10); /* the step that runs at 10 s is finished */
    ck_assert_int_eq(fake.nplans, 2);
    ck_assert_int_eq(fake.steps[9].tokens, 16 * 128);
    ck_assert_int_eq(fake.summary.tokens, 5 * 16 * 256 + 5 * 16 * 128);
}
END_TEST

/* A step that is lost comes again with the lengths that it had; what an event says then, steps that
 * nobody has tried have. Steps 0 to 6 are lost, the last two of 128 tokens; while all wait for the
 * restart, lengths become 64. */
START_TEST(lengths_come_again)
{
    int again = 0;
    events[0] = fixture_event("long", LUO_EVENT_LENGTHS, "", 5, 0);
    events[0].tokens = 128;
    events[1] = fixture_event("gpu", LUO_EVENT_FAIL, "device:3", 7.5, 0);
    events[2] = fixture_event("longer", LUO_EVENT_LENGTHS, "", 38, 0);
    events[2].tokens = 64;
    prepare("restart", 12, 3);
    run_ok();
    check_books();
    ck_assert_int_eq(fake.summary.restarts, 1);
    for (int32_t i = 0; i < fake.nsteps; i++) {
        const luo_row_step *s = &fake.steps[i];
        ck_assert_int_eq(s->tokens, 16 * (s->step < 5 ? 256 : s->step < 7 ? 128 : 64));
        again += s->attempt > 0;
    }
    ck_assert_int_eq(again, 7);
}
END_TEST

/* In proportion to the plan's, the largest remainder first and then the smaller index; at least one
 * each, which the largest pays for. */
static const struct {
    int32_t plan[4], batch, dealt[4];
} dealt[] = {
    {{10, 6, 4, 4}, 24, {10, 6, 4, 4}}, {{8, 8, 8, 8}, 25, {7, 6, 6, 6}},  /* 6.25 each */
    {{8, 8, 8, 8}, 27, {7, 7, 7, 6}},   {{10, 6, 4, 4}, 13, {6, 3, 2, 2}}, /* 5.4, 3.3, 2.2, 2.2 */
    {{4, 4, 6, 10}, 13, {2, 2, 3, 6}},  {{4, 10, 6, 4}, 16, {3, 7, 4, 2}}, /* 2.67, 6.67, 4, 2.67 */
    {{29, 1, 1, 1}, 16, {13, 1, 1, 1}}, /* 14.5, and three halves */
    {{20, 10, 1, 1}, 8, {4, 2, 1, 1}},  /* 5, 2.5, and two quarters */
    {{1, 1, 10, 20}, 8, {1, 1, 2, 4}},  {{5, 1, 1, 1}, 4, {1, 1, 1, 1}},
};

START_TEST(batch_is_dealt)
{
    static const luo_range all = {0, 24};
    prepare("static", 1, 0);
    luo_plan *p = (luo_plan *)sc.plan;
    luo_pipeline *pl = LUO_NEW_N(arena, luo_pipeline, 4);
    luo_stage *st = LUO_NEW_N(arena, luo_stage, 4);
    for (int32_t i = 0; i < 4; i++) {
        st[i] = p->pipelines[i / 2].stages[i % 2]; /* with its devices */
        st[i].layers = &all;
        st[i].embedding = st[i].head = true;
        pl[i] = (luo_pipeline){.micro_batches = dealt[_i].plan[i],
                               .micro_batch_sequences = 1,
                               .nstages = 1,
                               .stages = &st[i]};
    }
    p->pipelines = pl;
    p->npipelines = 4;
    sc.batch_sequences = dealt[_i].batch;
    run_ok();
    const luo_plan *got = fake.plans[0].plan;
    for (int32_t i = 0; i < 4; i++)
        ck_assert_int_eq(got->pipelines[i].micro_batches, dealt[_i].dealt[i]);
    ck_assert_int_eq(fake.steps[0].sequences, dealt[_i].batch);
}
END_TEST

/* Every planner, on few devices and on many, whose number divides by nothing much. */
static const struct {
    const char *planner;
    int32_t nodes;
} starts[] = {{"uniform", 4}, {"hydraulis", 4}, {"hydraulis", 33}};

START_TEST(planner_starts_the_run)
{
    prepare("static", 3, 0);
    sc.plan = NULL;
    sc.planner = starts[_i].planner;
    sc.batch_sequences = 4 * starts[_i].nodes;
    sc.cluster = fixture_cluster(arena, 1, starts[_i].nodes, 2);
    run_ok();
    check_books();
    ck_assert_int_eq(fake.summary.steps_done, 3);
    ck_assert_int_eq(fake.summary.kept_tokens, 3 * 256 * sc.batch_sequences);
    if (_i == 0) ck_assert_int_eq(luo_plan_sequences(fake.plans[0].plan), 16);
}
END_TEST

/* By simulated step of the planner's best; by closed form where the policy ranks so. */
START_TEST(first_plan_is_judged)
{
    luo_uniform_result *r;
    luo_arena *a = luo_arena_new(1 << 16);
    int32_t n;
    double taken = -1;
    prepare("static", 1, 0);
    sc.plan = NULL;
    sc.planner = _i < 2 ? "uniform" : _i == 2 ? "malleus" : "auto";
    sc.batch_sequences = 16;
    spec.judged = _i == 1 ? LUO_JUDGED_OBJECTIVE : LUO_JUDGED_AUTO;
    opts.simulator = &luo_sim_backend;
    run_ok();
    const luo_plan *first = fake.plans[0].plan;
    const luo_uniform_opts o = {.batch_sequences = 16, .top = 8, .zero = -1, .recompute = -1,
                                .sequence_tokens = first->sequence_tokens,
                                .sequence_parallel = true, .stack = &sc.stack};
    const luo_judge j = {.simulator = &luo_sim_backend, .model = sc.model, .cluster = sc.cluster,
                         .stack = &sc.stack, .bucket = sc.stack.bucket, .comm = opts.comm};
    luo_judgement x;
    luo_err err = {0};
    ck_assert_int_eq(luo_judge_plan(&j, first, o.sequence_tokens, NULL, &x, &err), LUO_OK);
    taken = x.seconds;
    ck_assert_int_eq(luo_plan_uniform(a, sc.model, sc.cluster, &o, &r, &n, &err), LUO_OK);
    for (int32_t i = 0; i < n && _i != 1; i++) {
        ck_assert_int_eq(luo_judge_plan(&j, r[i].plan, o.sequence_tokens, NULL, &x, &err), LUO_OK);
        ck_assert_double_le(taken, x.seconds * (1 + 1e-9));
    }
    if (_i == 1) ck_assert_str_eq(first->name, r[0].plan->name);
    luo_arena_free(a);
}
END_TEST

/* What a policy takes for granted is said of it, and of no other. */
static const struct {
    const char *policy, *says[2];
} taken[] = {
    {"static", {NULL}},
    {"rebalance", {NULL}},
    {"oobleck", {NULL}},
    {"restart", {"a restart takes 5 s (chosen)", "when nothing has failed, "}},
    {"spares", {"free nodes of the same group are hot spares, "}},
    {"drop_replica", {"the batch of replicas that left is lost (chosen)"}},
    {"reroute", {"steps follow each other, "}},
    {"malleus", {"plan_mode ", "state that is lost with its devices comes from "}},
};

START_TEST(policies_say_what_they_take_for_granted)
{
    const char *own;
    int n = 0, found = 0;
    prepare(taken[_i].policy, 2, 0);
    spec.restart_s = 5;
    run_ok();
    own = luo_arena_printf(arena, "policy %s: ", taken[_i].policy);
    for (int32_t i = 0; i < fake.nassumptions; i++) {
        const char *line = fake.assumptions[i];
        if (strncmp(line, "policy ", 7) != 0) continue;
        ck_assert_msg(strncmp(line, own, strlen(own)) == 0, "%s", line);
        line += strlen(own);
        if (strncmp(line, "planner_s ", 10) == 0) continue; /* the constants, of every policy */
        n++;
        for (int k = 0; k < 2 && taken[_i].says[k]; k++)
            found += strncmp(line, taken[_i].says[k], strlen(taken[_i].says[k])) == 0;
    }
    ck_assert_int_eq(found, (taken[_i].says[0] != NULL) + (taken[_i].says[1] != NULL));
    ck_assert_int_eq(n, found);
}
END_TEST

static void bad_policy(void)
{
    spec.name = "malleux";
}
static void bad_extent(void)
{
    sc.duration_s = 5;
}
static void bad_clock(void)
{
    spec.planner_measured = true;
}
static void bad_batch(void)
{
    sc.batch_sequences = 1;
}
static void odd_batch(void)
{
    luo_pipeline *pl = (luo_pipeline *)sc.plan->pipelines;
    pl[0].micro_batch_sequences = pl[1].micro_batch_sequences = 2;
    sc.batch_sequences = 25;
}
static void uneven_micro_batches(void)
{
    ((luo_pipeline *)sc.plan->pipelines)[1].micro_batch_sequences = 2;
    sc.batch_sequences = 32;
}
static void micro_batches_of_lengths(void)
{
    static const int64_t tokens[8] = {256, 256, 256, 256, 256, 256, 256, 255};
    ((luo_pipeline *)sc.plan->pipelines)[1].micro_batch_tokens = tokens;
    sc.batch_sequences = 24;
}
static void bad_window(void)
{
    spec.window_steps = 0;
}
static void bad_planner(void)
{
    sc.plan = NULL;
    sc.planner = "magic";
}
static void no_batch(void)
{
    sc.plan = NULL;
    sc.planner = "uniform";
}
static void dead_device(void)
{
    static const luo_health h = {.target = "device:2", .down = true};
    ((luo_cluster *)sc.cluster)->health = &h;
    ((luo_cluster *)sc.cluster)->nhealth = 1;
}
static const struct {
    void (*spoil)(void);
    const char *says;
} bad[] = {
    {bad_policy,
     "policy `malleux` cannot run here; `static`, `restart`, `rebalance`, `oobleck`, `spares`, "
     "`drop_replica`, `reroute`, `malleus`, `oracle`, `padding`, `pack_static`, `pack_dynamic`, "
     "`uniform_best`, `hotspa`, `one_plan` or `hydraulis` is expected."},
    {bad_extent, "`extent` has both; exactly one of `steps` and `duration_s` is expected."},
    {bad_clock, "policy `static` has `planner_time` `measured`, and there is no clock here; use "
                "`fixed`."},
    {bad_batch, "the batch gives 1 micro-batches for 2 pipelines; at least one each is needed."},
    {odd_batch,
     "a batch of 25 sequences is not a multiple of the plan's micro-batches of 2; another "
     "batch is needed."},
    {uneven_micro_batches, "plan `base` has pipelines with different micro-batches; leave `batch` "
                           "to the plan."},
    {micro_batches_of_lengths, "plan `base` has pipelines with different micro-batches; leave "
                               "`batch` to the plan."},
    {bad_window, "policy `static` has `window_steps` 0; 1 to 64 is expected."},
    {bad_planner, "planner `magic` cannot start a run; `uniform`, `malleus`, `hydraulis`, "
                  "`hap` or `auto` is expected, or a plan file."},
    {no_batch, "planner `uniform` needs to know the batch; give `data.batch.sequences` or a plan."},
    {dead_device,
     "plan `base` /pipelines/0/stages/1/devices/0: device 2 is down in cluster `small`; leave it "
     "out."},
};

START_TEST(refused)
{
    luo_err err = {0};
    prepare("static", 5, 0);
    bad[_i].spoil();
    ck_assert_int_eq(run(&err), LUO_EINPUT);
    ck_assert_str_eq(err.text, bad[_i].says);
    ck_assert_int_eq(fake.runs, 0);
}
END_TEST

/* One device of 80 GiB cannot hold the plan: nothing is started (exit 5). */
START_TEST(too_big)
{
    luo_err err = {0};
    prepare("static", 5, 0);
    ((luo_profile *)sc.cluster->groups[0].profile)->memory_bytes = 1e6;
    ck_assert_int_eq(run(&err), LUO_EOOM);
    ck_assert_ptr_nonnull(strstr(err.text, "GiB on device"));
    ck_assert_ptr_nonnull(strstr(err.text, "try more stages, `recompute` or `zero` 1."));
    ck_assert_int_eq(fake.runs, 0);
}
END_TEST

START_TEST(interrupted)
{
    const volatile int stop = 1;
    luo_err err = {0};
    prepare("static", 5, 0);
    opts.interrupted = &stop;
    ck_assert_int_eq(run(&err), LUO_ECANCELED); /* while the first plan is compiled */
    ck_assert_str_eq(err.text, "compiling plan `base` was interrupted.");
    ck_assert_int_eq(fake.nsteps, 0);
}
END_TEST

static volatile int stopped;

static luo_status stop_when_detected(void *ctx, const luo_row_event *row, luo_err *err)
{
    (void)ctx;
    (void)err;
    stopped |= row->phase == LUO_EVENT_PHASE_DETECTED;
    return LUO_OK;
}

/* Everything is down, and comes back late. */
START_TEST(interrupted_waiting)
{
    luo_err err = {0};
    luo_sink sink = fake_sink;
    events[0] = fixture_event("all", LUO_EVENT_FAIL, "group:g0", 3, 1e6);
    prepare("restart", 10, 1);
    opts.interrupted = &stopped;
    sink.event = stop_when_detected;
    ck_assert_msg(luo_run_policy(&sc, 0, &opts, &sink, &err) == LUO_OK, "%s", err.text);
    ck_assert_int_eq(fake.summary.state, LUO_INTERRUPTED);
    ck_assert_double_le(fake.summary.wait_s, 0);
}
END_TEST

/* A backend whose parts of a step do not make the step has a fault, which is not put into books. */
START_TEST(parts_that_do_not_add_up)
{
    luo_err err = {0};
    prepare("static", 3, 0);
    fake.untold_s = _i ? 1e-3 : 1e-9;
    ck_assert_int_eq(run(&err), _i ? LUO_EBUG : LUO_OK);
    if (_i)
        ck_assert_msg(strncmp(err.text, "the parts of device 7 make 1.079 s of a step of 1.08 s",
                              54) == 0, "%s", err.text);
}
END_TEST

/* Random failures and stragglers under each policy: books balance, and the same run twice gives the
 * same rows. */
START_TEST(busy_runs_repeat)
{
    static const char *const names[] = {"static", "restart", "rebalance"};
    static luo_row_timeline first[FAKE_ROWS];
    luo_err err = {0};
    int32_t n = 0;
    for (int twice = 0; twice < 2; twice++) {
        prepare(names[_i % 3], 400, 0);
        spec.payback_steps = 1e9;
        processes[0] = (luo_arrivals){.id = "slow",
                                     .target = "device:[0-7]",
                                     .kind = LUO_EVENT_STRAGGLER,
                                     .dist = LUO_DIST_WEIBULL,
                                     .mean_s = 900,
                                     .shape = 0.7,
                                     .slowdown_between = {1.2, 4},
                                     .life = {.dist = LUO_DIST_EXPONENTIAL, .mean_s = 60}};
        processes[1] =
            (luo_arrivals){.id = "die",
                          .target = "device:[0-7]",
                          .kind = LUO_EVENT_FAIL,
                          .dist = LUO_DIST_EXPONENTIAL,
                          .mean_s = 4000,
                          .life = {.dist = LUO_DIST_LOGNORMAL, .median_s = 100, .sigma = 0.8}};
        sc.seed = (uint64_t)_i / 3 + 1;
        sc.processes = processes;
        sc.nprocesses = _i % 3 == 1 ? 2 : 1;
        sc.checkpoint.kind = LUO_CHECKPOINT_STEPS;
        sc.checkpoint.every_steps = 20;
        const luo_status st = run(&err);
        ck_assert_msg(st == LUO_OK || st == LUO_ENO, "%s", err.text);
        check_books();
        if (twice) {
            ck_assert_int_eq(fake.ntime, n);
            for (int32_t i = 0; i < n; i++) {
                ck_assert_double_eq(fake.time[i].start_s, first[i].start_s);
                ck_assert_double_eq(fake.time[i].end_s, first[i].end_s);
                ck_assert_int_eq(fake.time[i].kind, first[i].kind);
            }
        }
        n = fake.ntime;
        memcpy(first, fake.time, sizeof first);
    }
    if (_i % 3 == 1) ck_assert_int_gt(fake.summary.restarts, 0);
    if (_i % 3 == 2) ck_assert_int_gt(fake.summary.switches, 0);
}
END_TEST
/* What begins in step 2 and lasts for ever does not end where step 2 begins again; what lasts three
 * steps ends when the third behind it begins. */
START_TEST(slow_through_a_restart)
{
    int ended = 0;
    events[0] = fixture_event("slow", LUO_EVENT_STRAGGLER, "device:1", 2.5, 0);
    events[0].life.steps = 3 * _i;
    events[1] = fixture_event("gpu", LUO_EVENT_FAIL, "device:7", 4.9, 0);
    prepare("restart", 10, 2);
    run_ok();
    ck_assert_int_ge(fake.summary.restarts, 1);
    ck_assert_int_ge(fake.summary.steps_redone, 3);
    for (int32_t i = 0; i < fake.nevents; i++) {
        const luo_row_event *e = &fake.events[i];
        if (strcmp(e->id, "slow") != 0 || e->phase != LUO_EVENT_PHASE_ENDED) continue;
        ck_assert_int_eq(e->step, 5);
        ended++;
    }
    ck_assert_int_eq(ended, _i);
}
END_TEST

static luo_str traced;

/* The backend has a record of a step where one is asked for. */
static luo_status run_traced(luo_backend_state *b, const luo_step_request *q, luo_step_result *out,
                             luo_err *err)
{
    static const luo_op_record record;
    LUO_TRY(fake_run(b, q, out, err));
    out->records = &record;
    out->nrecords = q->trace;
    return LUO_OK;
}

static luo_status keep_traced(void *ctx, int64_t step, int32_t attempt, double start_s,
                              int32_t plan, const luo_programs *set,
                              const luo_step_result *result, luo_err *err)
{
    (void)ctx;
    (void)attempt;
    (void)start_s;
    (void)plan;
    (void)set;
    (void)result;
    (void)err;
    luo_str_addf(&traced, "%lld ", (long long)step);
    return LUO_OK;
}

/* By itself: the first two steps, the last one, and from one before an event to two behind it. The
 * event at 5.3 s falls into step 4, from 4.32 to 5.4 s. */
START_TEST(traced_steps)
{
    static const luo_range list[] = {{1, 3}, {11, 14}};
    static const struct {
        luo_trace_steps trace;
        const char *want;
    } rows[] = {
        {{.kind = LUO_TRACE_AUTO}, "0 1 3 4 5 6 11 "},
        {{.kind = LUO_TRACE_NONE}, ""},
        {{.kind = LUO_TRACE_LIST, .nranges = 2, .ranges = list}, "1 2 11 "},
        {{.kind = LUO_TRACE_ALL}, "0 1 2 3 4 5 6 7 8 9 10 11 "},
    };
    luo_backend backend = fake_backend;
    luo_sink sink = fake_sink;
    luo_err err = {0};
    backend.run_ranks = run_traced;
    sink.ops = keep_traced;
    events[0] = fixture_event("slow", LUO_EVENT_STRAGGLER, "device:1", 5.3, 0);
    prepare("static", 12, 1);
    opts.backend = &backend;
    opts.trace = rows[_i].trace;
    luo_str_clear(&traced);
    ck_assert_msg(luo_run_policy(&sc, 0, &opts, &sink, &err) == LUO_OK, "%s", err.text);
    ck_assert_str_eq(luo_str_get(&traced), rows[_i].want);
}
END_TEST

LUO_SUITE("run.driver", LUO_T_N(links_that_cannot_be_slow, LUO_ROWS(slow_links)),
          LUO_T_N(quiet_run, 3), LUO_T(short_run), LUO_T_N(traced_steps, 4),
          LUO_T_N(slow_through_a_restart, 2), LUO_T(static_endures_a_straggler),
          LUO_T(rebalance_moves_micro_batches), LUO_T_N(failure_ends_static_and_rebalance, 2),
          LUO_T_N(restart_survives_a_failure, 2), LUO_T(without_checkpoints_all_is_redone),
          LUO_T(restart_drops_and_takes_back), LUO_T_N(restart_does_not_return_for_little, 3),
          LUO_T_N(restart_weighs_the_way_out, 2), LUO_T(waits_for_repair),
          LUO_T(nothing_comes_back), LUO_T(no_attempt_comes_through),
          LUO_T(announced_leave_costs_no_step), LUO_T_N(dead_link_and_crash, 2), LUO_T(checkpoints),
          LUO_T(auto_period), LUO_T(change_inside_a_step), LUO_T(duration_and_lengths),
          LUO_T(lengths_come_again), LUO_T_N(batch_is_dealt, LUO_ROWS(dealt)),
          LUO_T_N(planner_starts_the_run, LUO_ROWS(starts)), LUO_T_N(first_plan_is_judged, 4),
          LUO_T_N(refused, LUO_ROWS(bad)),
          LUO_T_N(policies_say_what_they_take_for_granted, LUO_ROWS(taken)), LUO_T(too_big),
          LUO_T(interrupted), LUO_T(interrupted_waiting), LUO_T_N(parts_that_do_not_add_up, 2),
          LUO_T_N(busy_runs_repeat, 15))
