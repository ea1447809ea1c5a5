/* check_real.c: the step loop on a backend that holds data: which state is asked for and
 * when, processes that die, time that passes by itself, and an event log that is the simulator's.
 */
#include "core/base/rng.h"
#include "tests/driver_fixture.h"

static void prepare_real(const char *policy, int64_t steps, int32_t nevents)
{
    prepare(policy, steps, nevents);
    opts.backend = &fake_data_backend;
    ((luo_profile *)sc.cluster->groups[0].profile)->cpu = true;
    opts.max_restarts = 3;
    opts.checkpoints = "out/plan/checkpoints";
}

static void save_every(int64_t steps)
{
    sc.checkpoint.kind = LUO_CHECKPOINT_STEPS;
    sc.checkpoint.every_steps = steps;
    sc.checkpoint.blocking = true;
    ((luo_cluster *)sc.cluster)->storage_write_bytes_per_s = 0;
}

static luo_event at_step(const char *id, luo_event_kind kind, const char *target, int64_t step)
{
    luo_event e = fixture_event(id, kind, target, 0, 0);
    e.trigger = LUO_AT_STEP;
    e.at[0] = (double)step;
    return e;
}

static void die(int64_t step, int32_t device)
{
    fake.deaths[fake.ndeaths++] = (fake_death){.step = step, .device = device};
}

static void asked(const char *want)
{
    ck_assert_str_eq(luo_str_get(&fake.asked), want);
}

static void assumed(const char *start)
{
    for (int32_t i = 0; i < fake.nassumptions; i++)
        if (strncmp(fake.assumptions[i], start, strlen(start)) == 0) return;
    ck_abort_msg("nothing is assumed that begins with `%s`", start);
}

/* What events.csv would hold without its time. */
static char *log_text(void)
{
    luo_str s = {0};
    for (int32_t i = 0; i < fake.nevents; i++) {
        const luo_row_event *e = &fake.events[i];
        luo_str_addf(&s, "%lld,%s,%s,%s,%s,%.6f,%s\n", (long long)e->step, e->id,
                     luo_event_phase_name(e->phase), e->kind, e->target,
                     e->has_value ? e->value : 0, e->detail);
    }
    char *copy = strdup(luo_str_get(&s));
    luo_str_free(&s);
    return copy;
}

START_TEST(state_comes_first)
{
    prepare_real("static", 10, 0);
    fake.state_s = 25; /* before the run begins */
    run_ok();
    check_books();
    asked("init");
    ck_assert_double_eq_tol(fake.summary.total_s, 10 * STEP, 1e-9);
    ck_assert(fake.steps[4].has_loss);
    ck_assert_double_eq(fake.steps[4].loss, 2);
    ck_assert_int_eq(fake.nmemory, 8); /* once per device of the plan, with what was measured */
    for (int32_t d = 0; d < 8; d++) ck_assert_int_eq(fake.memory[d].measured_bytes, 1000 + d);
}
END_TEST

START_TEST(saves_when_asked)
{
    prepare_real("static", 10, 0);
    save_every(4);
    sc.checkpoint.blocking = _i == 0; /* in the background: the steps wait all the same */
    fake.state_s = 0.5;
    run_ok();
    check_books();
    asked("init; save 4; save 8; save 10");
    ck_assert_double_eq_tol(fake.summary.checkpoint_s, 1.5, 1e-9);
    ck_assert_double_eq_tol(fake.summary.total_s, 10 * STEP + 1.5, 1e-9);
    assumed(_i ? "checkpoint: written and waited for, although the scenario says `background`"
               : "checkpoint: written and waited for, at least");
}
END_TEST

/* The closed form of a write is waited out; a write that takes longer takes longer. */
START_TEST(longer_of_the_two)
{
    prepare_real("static", 10, 0);
    save_every(8);
    ((luo_cluster *)sc.cluster)->storage_write_bytes_per_s = 1e9;
    fake.state_s = _i ? 100 : 0.001;
    run_ok();
    check_books();
    int64_t parameters;
    luo_model_parameters(&model, &parameters, NULL);
    const double form = 14 * (double)parameters / 1e9;
    ck_assert_double_eq_tol(fake.summary.checkpoint_s, 2 * (_i ? 100 : form), 1e-6);
}
END_TEST

START_TEST(the_way_to_the_ranks_is_a_bubble)
{
    prepare_real("static", 10, 0);
    fake.gap_s = 0.02;
    run_ok();
    check_books();
    ck_assert_double_eq_tol(fake.summary.total_s, 10 * (STEP + 0.02), 1e-9);
    ck_assert_double_eq_tol(fake.summary.time.compute_s, 10 * 8 * 0.12, 1e-9);
}
END_TEST

START_TEST(failure_goes_back_to_what_was_saved)
{
    events[0] = at_step("gpu", LUO_EVENT_FAIL, "device:3", 6);
    prepare_real("restart", 10, 1);
    if (_i) save_every(4);
    fake.state_s = 500; /* longer than all costs together */
    run_ok();
    check_books();
    asked(_i ? "init; save 4; load 4; save 8; save 10" : "init; init");
    ck_assert_int_eq(fake.summary.restarts, 1);
    ck_assert_int_eq(fake.summary.steps_redone, _i ? 2 : 6);
    ck_assert_double_eq_tol(fake.summary.restart_s, 500, 1e-6);
    ck_assert_double_eq_tol(fake.switches[0].total_s, 30 + 2 + 500, 1e-6);
}
END_TEST

static void choose_all_costs(void)
{
    sc.cost_default.detect_fail = sc.cost_default.process_start = sc.cost_default.communicator =
        sc.cost_default.replacement = spec.planner_default = true;
}

/* What the file does not say is not waited for. */
START_TEST(chosen_costs_cost_nothing)
{
    events[0] = at_step("gpu", LUO_EVENT_FAIL, "device:3", 6);
    prepare_real("restart", 10, 1);
    choose_all_costs();
    ((luo_cluster *)sc.cluster)->storage_read_bytes_per_s = 0;
    run_ok();
    check_books();
    ck_assert_double_eq(fake.summary.detect_s + fake.summary.plan_s + fake.summary.restart_s, 0);
}
END_TEST

/* Each cost that the file gives is waited for, whatever it leaves out beside it. */
START_TEST(given_costs_count)
{
    bool *const chosen[] = {&sc.cost_default.detect_fail, &spec.planner_default,
                            &sc.cost_default.process_start, &sc.cost_default.communicator};
    events[0] = at_step("gpu", LUO_EVENT_FAIL, "device:3", 6);
    prepare_real("restart", 10, 1);
    choose_all_costs();
    *chosen[_i] = false;
    ((luo_cluster *)sc.cluster)->storage_read_bytes_per_s = 0;
    run_ok();
    check_books();
    const double detect = _i == 0 ? 30 : 0, plan = _i == 1 ? 2 : 0, start = _i == 2 ? 60 : 0;
    const double each = _i == 3 ? 0.05 : 0; /* of a communicator; the new plan has some */
    ck_assert_double_eq_tol(fake.summary.detect_s, detect, 1e-9);
    ck_assert_double_eq_tol(fake.summary.plan_s, plan, 1e-9);
    ck_assert_double_ge(fake.summary.restart_s, start + each);
    ck_assert_double_le(fake.summary.restart_s, start + 8 * each);
}
END_TEST

/* The simulator takes what it assumes as it takes what is given. */
START_TEST(chosen_costs_count_when_simulated)
{
    double waited[2];
    for (int k = 0; k < 2; k++) {
        events[0] = at_step("gpu", LUO_EVENT_FAIL, "device:3", 6);
        prepare("restart", 10, 1);
        sc.replacement_s = 7;
        if (k) choose_all_costs();
        run_ok();
        waited[k] = fake.summary.detect_s + fake.summary.plan_s + fake.summary.restart_s;
    }
    ck_assert_double_gt(waited[0], 92);
    ck_assert_double_eq(waited[0], waited[1]);
}
END_TEST

/* A device that comes into the plan has to be replaced first; what the file does not say of it is
 * waited for in the simulator alone. */
static const struct {
    bool real, chosen;
    double wait_s;
} replaced[] = {{true, false, 7}, {true, true, 0}, {false, false, 7}, {false, true, 7}};

START_TEST(replacement)
{
    events[0] = fixture_event("slow", LUO_EVENT_STRAGGLER, "device:1", 5.4, 60);
    events[0].slowdown = 3;
    prepare_real("oobleck", 100, 1);
    if (!replaced[_i].real) opts.backend = &fake_backend;
    spec.payback_steps = 1e9;
    sc.replacement_s = 7;
    sc.cost_default.replacement = replaced[_i].chosen;
    run_ok();
    check_books();
    ck_assert_int_eq(fake.summary.switches, 2); /* without its node, and with it again */
    ck_assert_double_eq_tol(fake.summary.wait_s, replaced[_i].wait_s, 1e-9);
}
END_TEST

START_TEST(death_without_an_event)
{
    prepare_real("restart", 10, 0);
    save_every(4);
    die(6, 3);
    run_ok();
    check_books();
    asked("init; save 4; load 4; save 8; save 10");
    const luo_row_event *e = event_row("fired", 0);
    ck_assert_str_eq(e->id, "process-1");
    ck_assert_str_eq(e->kind, "fail");
    ck_assert_str_eq(e->target, "device:3");
    ck_assert_str_eq(e->detail, "the process of device 3 died");
    ck_assert_int_eq(e->step, 6);
    ck_assert_str_eq(event_row("detected", 0)->id, "process-1");
    ck_assert_str_eq(event_row("restarted", 0)->id, "process-1");
    ck_assert_int_eq(fake.summary.steps_redone, 3); /* 4, 5, and the attempt */
    ck_assert_int_eq(fake.summary.nnever, 0);
    for (int32_t i = 0; i < fake.nplans; i++) {
        int32_t n, *dev;
        luo_plan_devices(fake.arena, fake.plans[i].plan, &dev, &n, NULL);
        for (int32_t k = 0; k < n && i > 0; k++) ck_assert_int_ne(dev[k], 3);
    }
}
END_TEST

/* Policy `static` of a bare plan: the best uniform plan on seven devices, whatever the rates. */
START_TEST(bare_plan_survives)
{
    prepare_real("static", 12, 0);
    save_every(4);
    opts.answer_deaths = true;
    die(6, 3);
    run_ok();
    check_books();
    ck_assert_int_eq(fake.nplans, 2);
    ck_assert_int_eq(luo_plan_sequences(fake.plans[1].plan), 16);
    ck_assert_str_eq(event_row("decided", 0)->kind, "survive");
    ck_assert_str_eq(event_row("restarted", 0)->kind, "survive");
    asked("init; save 4; load 4; save 8; save 12");
}
END_TEST

/* Somebody outside the plan dies and takes all processes along: the same plan again. */
START_TEST(death_outside_the_plan)
{
    prepare_real("static", 12, 0);
    static const int32_t dev[] = {0, 1};
    luo_plan *p = (luo_plan *)sc.plan;
    luo_stage *st = (luo_stage *)p->pipelines[0].stages;
    static const luo_range all[] = {{0, 24}};
    st[0].layers = all;
    st[0].dev = dev;
    st[0].head = true;
    ((luo_pipeline *)p->pipelines)[0].nstages = 1;
    p->npipelines = 1;
    save_every(4);
    opts.answer_deaths = true;
    die(6, 5);
    run_ok();
    check_books();
    ck_assert_int_eq(fake.nplans, 1);
    asked("init; save 4; load 4; save 8; save 12");
}
END_TEST

static const struct {
    const char *policy;
    bool answer, save;
    int32_t max, deaths;
    const char *says;
} gone[] = {
    {"static", false, true, 0, 1,
     "device 3 died in step 6 and no more restarts are allowed (the process of device 3 died); "
     "step "
     "4 can be resumed with `--resume out/plan/checkpoints`."},
    {"static", false, true, 3, 1,
     "device 3 died in step 6 and static has no answer to a failure (the process of device 3 died);"
     " step 4 can be resumed with `--resume out/plan/checkpoints`."},
    {"restart", false, false, 0, 1,
     "device 3 died in step 6 and no more restarts are allowed (the process of device 3 died); "
     "there is no checkpoint of this run to resume from."},
    {"restart", false, true, 1, 2,
     "device 5 died in step 9 and no more restarts are allowed (the process of device 5 died); "
     "step "
     "8 can be resumed with `--resume out/plan/checkpoints`."},
    {"static", true, true, 1, 2,
     "device 5 died in step 9 and no more restarts are allowed (the process of device 5 died); "
     "step "
     "8 can be resumed with `--resume out/plan/checkpoints`."},
};

START_TEST(too_many_deaths)
{
    luo_err err = {0};
    prepare_real(gone[_i].policy, 20, 0);
    if (gone[_i].save) save_every(4);
    opts.answer_deaths = gone[_i].answer;
    opts.max_restarts = gone[_i].max;
    die(6, 3);
    if (gone[_i].deaths > 1) die(9, 5);
    ck_assert_int_eq(run(&err), LUO_EPEER);
    ck_assert_str_eq(err.text, gone[_i].says);
    ck_assert_int_eq(fake.summary.state, LUO_FAILED); /* and the books are written */
    check_books();
    ck_assert_int_eq(event_row("lost", 0)->step, gone[_i].deaths > 1 ? 9 : 6);
}
END_TEST

/* Nobody knows which device it was: the same plan is tried again, as often as is allowed. */
START_TEST(death_while_loading)
{
    luo_err err = {0};
    prepare_real("restart", 10, 0);
    save_every(4);
    die(6, 3);
    fake.dies_loading = 2;
    opts.max_restarts = _i ? 2 : 3;
    const luo_status st = run(&err);
    check_books();
    if (_i == 0) {
        ck_assert_int_eq(st, LUO_OK);
        asked("init; save 4; load 4; load 4; load 4; save 8; save 10");
        return;
    }
    ck_assert_int_eq(st, LUO_EPEER);
    ck_assert_str_eq(err.text,
                     "a process died in step 6 and no more restarts are allowed (a process "
                     "died while it started); step 4 can be resumed with `--resume "
                     "out/plan/checkpoints`.");
}
END_TEST

/* The same before the first step: a death while the processes start is one of the restarts. */
START_TEST(death_at_the_start)
{
    luo_err err = {0};
    prepare_real("restart", 10, 0);
    fake.dies_starting = 2;
    opts.max_restarts = _i ? 1 : 2;
    const luo_status st = run(&err);
    if (_i == 0) {
        check_books();
        ck_assert_int_eq(st, LUO_OK);
        asked("init; init; init");
        ck_assert_int_eq(fake.summary.restarts, 2);
        ck_assert_str_eq(event_row("restarted", 1)->detail,
                         "a process died while the ranks started");
        ck_assert_int_eq(fake.ntold, 2);
        ck_assert_str_eq(fake.info[0], "a process died while it started; all were started again");
        return;
    }
    ck_assert_int_eq(st, LUO_EPEER);
    ck_assert_int_eq(fake.summary.state, LUO_FAILED);
    ck_assert_str_eq(err.text,
                     "a process died in step 0 and no more restarts are allowed (a process "
                     "died while it started); there is no checkpoint of this run to resume from.");
}
END_TEST

/* Two processes of a cluster of eight: what is left is two devices, on the next whole node. */
START_TEST(no_more_devices_than_processes)
{
    static const int32_t dev[] = {0, 1};
    static const luo_range all[] = {{0, 24}};
    int32_t n, *left;
    prepare_real("static", 12, 0);
    luo_plan *p = (luo_plan *)sc.plan;
    luo_stage *st = (luo_stage *)p->pipelines[0].stages;
    st[0].layers = all;
    st[0].dev = dev;
    st[0].head = true;
    ((luo_pipeline *)p->pipelines)[0].nstages = 1;
    p->npipelines = 1;
    opts.answer_deaths = true;
    opts.ranks = 2;
    die(6, 1);
    run_ok();
    check_books();
    ck_assert_int_eq(fake.nplans, 2);
    luo_plan_devices(fake.arena, fake.plans[1].plan, &left, &n, NULL);
    ck_assert_int_eq(n, 2);
    ck_assert_int_eq(left[0], 2);
    ck_assert_int_eq(left[1], 3);
}
END_TEST

START_TEST(hard_failure_is_as_on_the_simulator)
{
    static char *log[2];
    for (int real = 0; real < 2; real++) {
        events[0] = at_step("gpu", LUO_EVENT_FAIL, "device:3", 8);
        events[0].hard = true;
        events[1] = at_step("also", LUO_EVENT_FAIL, "device:6", 8);
        prepare_real("restart", 20, 1 + _i);
        save_every(4);
        if (!real) opts.backend = &fake_backend;
        run_ok();
        check_books();
        ck_assert_int_eq(fake.summary.steps_redone, 4 + real); /* and the attempt it hit */
        if (real) asked("init; save 4; load 4; save 8; save 12; save 16; save 20");
        log[real] = log_text();
    }
    ck_assert_str_eq(log[0], log[1]);
    free(log[0]);
    free(log[1]);
}
END_TEST

/* A process that an event killed is not lost for good, be its device back before that is noticed.
 */
START_TEST(hard_failure_shorter_than_its_notice)
{
    events[0] = fixture_event("gpu", LUO_EVENT_FAIL, "device:3", 7.5, 0.2);
    events[0].hard = true;
    prepare_real("restart", 20, 1);
    opts.max_restarts = 0;
    fake.notice_s = 0.5;
    save_every(4);
    run_ok();
    check_books();
    asked("init; save 4; load 4; save 8; save 12; save 16; save 20");
    ck_assert_int_eq(fake.nplans, 1);
    ck_assert_int_eq(fake.summary.restarts, 1);
}
END_TEST

/* A hard failure of somebody outside the plan kills nobody. */
START_TEST(hard_failure_outside)
{
    events[0] = at_step("gpu", LUO_EVENT_FAIL, "device:3", 6);
    events[1] = fixture_event("gpu2", LUO_EVENT_FAIL, "device:2", 1000, 0);
    events[0].hard = events[1].hard = true;
    prepare_real("restart", 1200, 2);
    sc.checkpoint.kind = LUO_CHECKPOINT_NONE;
    run_ok();
    check_books();
    asked("init; init"); /* the node of both has left the plan with the first */
}
END_TEST

START_TEST(resumed)
{
    events[0] = at_step("early", LUO_EVENT_STRAGGLER, "device:1", 3);
    events[1] = at_step("late", LUO_EVENT_FAIL, "device:3", 9);
    prepare_real("restart", 12, 2);
    events[0].slowdown = 2;
    save_every(4);
    fake.saved[fake.nsaved++] = 6;
    opts.resume = true;
    run_ok();
    check_books();
    asked("load 6; load 6; save 10; save 12");
    ck_assert_int_eq(fake.steps[0].step, 6);
    ck_assert_int_eq(fake.steps[0].attempt, 0);
    ck_assert_int_eq(fake.summary.steps_done, 6);
    ck_assert_int_eq(fake.summary.steps_redone, 3);
    ck_assert_int_eq(fake.summary.kept_tokens, 6 * 16 * 256);
    ck_assert_double_gt(fake.summary.step_p50_s, 1);
    ck_assert_int_eq(fake.nnever, 1);
    ck_assert_str_eq(event_row("never", 0)->id, "early");
    assumed("resumed: the run begins with step 6;");
}
END_TEST

/* What the data became before the checkpoint they still are, and they end when they should. */
START_TEST(resumed_with_other_lengths)
{
    events[0] = at_step("shorter", LUO_EVENT_LENGTHS, "", 2);
    events[1] = at_step("over", LUO_EVENT_LENGTHS, "", 3);
    prepare_real("static", 12, 2);
    events[0].tokens = 128;
    events[0].life.steps = 6;
    events[1].tokens = 64;
    events[1].life.steps = 1;
    fake.saved[fake.nsaved++] = 6;
    opts.resume = true;
    run_ok();
    check_books();
    ck_assert_int_eq(fake.steps[0].step, 6);
    ck_assert_int_eq(fake.steps[0].tokens, 16 * 128);
    ck_assert_int_eq(fake.steps[1].tokens, 16 * 128);
    ck_assert_int_eq(fake.steps[2].tokens, 16 * 256); /* step 8 */
    ck_assert_int_eq(fake.nnever, 0);
}
END_TEST

START_TEST(nothing_left_to_resume)
{
    luo_err err = {0};
    prepare_real("static", 6, 0);
    opts.resume = true;
    if (_i) fake.saved[fake.nsaved++] = 6;
    ck_assert_int_eq(run(&err), LUO_EINPUT);
    ck_assert_str_eq(err.text,
                     _i ? "the checkpoint holds 6 steps and the run is to have 6; a longer"
                          " run is needed to go on with it."
                        : "there is no checkpoint; one is needed.");
    ck_assert_int_eq(fake.runs, 0);
}
END_TEST

/* The newest file is broken: the run goes on from the one before. */
START_TEST(older_checkpoint)
{
    prepare_real("restart", 12, 0);
    save_every(4);
    die(9, 3);
    fake.broken = 8;
    run_ok();
    check_books();
    asked("init; save 4; save 8; load 4; save 8; save 12");
    ck_assert_int_eq(fake.summary.steps_done, 12);
    ck_assert_int_eq(fake.summary.steps_redone, 6); /* 4 to 8, and the attempt */
    ck_assert_int_eq(fake.summary.kept_tokens, 12 * 16 * 256);
    ck_assert_int_eq(fake.ntold, 1);
    ck_assert_str_eq(fake.info[0], "checkpoint `ckpt/step-new` is passed over and `ckpt/step-old` "
                                   "is used: it is damaged.");
    const luo_row_event *e = event_row("passed", 0);
    ck_assert_str_eq(e->kind, "checkpoint");
    ck_assert_str_eq(e->target, "step-new");
    ck_assert_str_eq(e->detail, "step 4 is used: it is damaged.");
}
END_TEST

/* The same where a run begins. */
START_TEST(resumed_from_an_older_one)
{
    prepare_real("static", 12, 0);
    fake.saved[fake.nsaved++] = 4;
    fake.saved[fake.nsaved++] = 8;
    fake.broken = 8;
    opts.resume = true;
    run_ok();
    check_books();
    asked("load 4");
    ck_assert_int_eq(fake.ntold, 1);
    ck_assert_str_eq(event_row("passed", 0)->detail, "step 4 is used: it is damaged.");
    ck_assert_int_eq(event_row("passed", 0)->step, 4);
}
END_TEST

/* Ranks are told once what will change. It is all that happens in the hour that follows, however
 * much that is, and the next thousands of changes after it; what a step of more than an hour meets
 * after both is told as late. */
static const struct {
    double fails_s;
    bool stormy, late;
} hours[] = {{1000, true, false}, {4000, false, false}, {5000, true, true}};

START_TEST(told_for_an_hour)
{
    static const luo_arrivals storm = {.id = "p", .target = "device:[4-7]",
                                      .kind = LUO_EVENT_STRAGGLER, .slowdown = 1.5,
                                      .dist = LUO_DIST_EXPONENTIAL, .mean_s = 0.5,
                                      .life = {.duration_s = 0.01}};
    const double at_s = hours[_i].fails_s;
    const bool late = hours[_i].late;
    luo_err err = {0};
    events[0] = at_step("slow", LUO_EVENT_STRAGGLER, "device:[0-7]", 1);
    events[0].slowdown = 5000; /* 5400 s a step */
    events[1] = fixture_event("gone", LUO_EVENT_FAIL, "device:3", at_s, 0);
    prepare_real("static", 3, 2);
    fake.told_once = fake.quiet = true;
    sc.processes = &storm;
    sc.nprocesses = hours[_i].stormy;
    ck_assert_int_eq(run(&err), LUO_ENO);
    ck_assert_int_eq(fake.summary.steps_done, 1 + late);
    ck_assert_int_eq(fake.nwarnings, late);
    if (!late) ck_assert_double_eq_tol(fake.summary.total_s, at_s + 30, 1e-6); /* found */
}
END_TEST

START_TEST(switches_move_state)
{
    events[0] = at_step("slow", LUO_EVENT_STRAGGLER, "device:1", 5);
    events[1] = at_step("long", LUO_EVENT_LENGTHS, "", 15);
    events[0].slowdown = 2;
    events[1].tokens = 128;
    prepare_real("rebalance", 20, 2);
    run_ok();
    check_books();
    asked("init; bind; move; move");
    ck_assert_int_eq(fake.nplans, 3);
    ck_assert_int_eq(fake.summary.switches, 1);
}
END_TEST

/* Of a process that dies while programs are bound the move that follows says so; anything else that
 * is wrong with them ends the run. */
START_TEST(programs_that_cannot_be_bound)
{
    luo_err err = {0};
    events[0] = at_step("slow", LUO_EVENT_STRAGGLER, "device:1", 5);
    events[0].slowdown = 2;
    prepare_real("rebalance", 20, 1);
    fake.bind_fails = _i ? LUO_ENOMEM : LUO_EPEER;
    const luo_status st = run(&err);
    ck_assert_int_eq(st, _i ? LUO_ENOMEM : LUO_OK);
    ck_assert_str_eq(err.text, _i ? "no room for them" : "");
    asked(_i ? "init; bind" : "init; bind; move");
    if (!_i) ck_assert_int_eq(fake.summary.switches, 1);
}
END_TEST

/* Processes that compute at another speed than the profile says, and not evenly: nothing is seen
 * but what was injected, in the same step, and the log is the simulator's. */
START_TEST(pace_of_the_machine)
{
    static const char *const names[] = {"static", "restart", "rebalance"};
    static char *log[2];
    for (int real = 0; real < 2; real++) {
        events[0] = at_step("slow", LUO_EVENT_STRAGGLER, "device:1", _i % 2 ? 7 : 1);
        events[0].slowdown = 2;
        events[1] = at_step("over", LUO_EVENT_JOIN, "device:1", 30);
        prepare_real(names[_i / 2], 40, 1);
        spec.planner_s = 0;
        if (real) fake.machine = 0.013;
        else opts.backend = &fake_backend;
        run_ok();
        check_books();
        log[real] = log_text();
        ck_assert_int_eq(fake.summary.detect_true, 1);
        ck_assert_int_eq(fake.summary.detect_false, 0);
        if (_i / 2 == 0) ck_assert_double_eq_tol(fake.steps[20].max_slowdown, 2, 1e-9);
        ck_assert_double_gt(fake.mean_slowdown[1], 1.05);
        ck_assert_double_eq_tol(fake.mean_slowdown[4], 1, 1e-9);
        if (real) assumed("this machine computes at 76.92 of the profile's speed");
    }
    ck_assert_str_eq(log[0], log[1]);
    free(log[0]);
    free(log[1]);
}
END_TEST

/* Measured slower than it is, a device leaves the plan; that its probes show less is no trigger. */
START_TEST(probes_after_measurements)
{
    static char *log[2];
    for (int real = 0; real < 2; real++) {
        events[0] = at_step("slow", LUO_EVENT_STRAGGLER, "device:1", 7);
        events[0].slowdown = 2;
        prepare_real("restart", 40, 1);
        spec.payback_steps = 1e9; /* the closed form knows a small model, not this backend */
        spec.planner_s = 0;
        if (real) fake.overdone = 1.6;
        else opts.backend = &fake_backend;
        run_ok();
        check_books();
        ck_assert_int_eq(fake.nplans, 2);
        log[real] = log_text();
    }
    ck_assert_str_eq(log[0], log[1]);
    free(log[0]);
    free(log[1]);
}
END_TEST

/* Under another plan the machine is another one against the profile; nobody has changed. */
START_TEST(pace_under_each_plan)
{
    events[0] = at_step("slow", LUO_EVENT_STRAGGLER, "device:1", 7);
    events[1] = at_step("gpu", LUO_EVENT_FAIL, "device:6", 20);
    prepare_real("restart", 60, 2);
    spec.payback_steps = 1e9;
    events[0].slowdown = 2;
    save_every(5);
    spec.planner_s = 0;
    ((luo_profile *)sc.cluster->groups[0].profile)->cpu = _i;
    fake.machine = 5;
    fake.other_machine = 2; /* from the second plan on */
    if (_i == 0) fake.odd_stage = 3;
    run_ok();
    check_books();
    ck_assert_int_ge(fake.nplans, 3);
    ck_assert_int_eq(fake.summary.detect_false, 0);
    int seen = 0;
    for (int32_t i = 0; i < fake.nevents; i++)
        seen += strcmp(fake.events[i].kind, "straggler") == 0 &&
                fake.events[i].phase == LUO_EVENT_PHASE_DETECTED;
    ck_assert_int_eq(seen, 1);
    for (int32_t d = 2; d < 4; d++) ck_assert_double_eq_tol(fake.mean_slowdown[d], 1, 1e-9);
}
END_TEST

/* Files on the disks of a node that is gone: back to the start, although the files are there. */
START_TEST(disk_is_lost)
{
    events[0] = at_step("node", LUO_EVENT_FAIL, "node:g0-1", 6);
    prepare_real("restart", 10, 1);
    save_every(4);
    sc.checkpoint.target = LUO_TARGET_DISK;
    run_ok();
    check_books();
    asked("init; save 4; init; save 4; save 8; save 10");
    ck_assert_int_eq(fake.summary.steps_redone, 6);
}
END_TEST

/* Random events by step, hard and soft, under policies that survive them: books balance and the
 * log is the simulator's. */
START_TEST(same_log_at_random)
{
    static char *log[2], id[8][8], target[8][16];
    for (int real = 0; real < 2; real++) {
        luo_rng rng = luo_rng_seed((uint64_t)_i);
        for (int32_t k = 0; k < 8; k++) {
            static const luo_event_kind kinds[] = {LUO_EVENT_FAIL, LUO_EVENT_JOIN, LUO_EVENT_FAIL,
                                                   LUO_EVENT_STRAGGLER};
            snprintf(id[k], sizeof id[k], "e%d", k);
            snprintf(target[k], sizeof target[k], "device:%d", (int)luo_rng_pick(&rng, 8));
            events[k] = at_step(id[k], kinds[luo_rng_pick(&rng, 4)], target[k],
                                (int64_t)luo_rng_pick(&rng, 60));
            events[k].slowdown = 2;
            /* after a killed process there is nobody left to copy state from */
            const bool hard = luo_rng_pick(&rng, 2) && _i % 2 == 0;
            events[k].hard = events[k].kind == LUO_EVENT_FAIL && hard;
        }
        prepare_real(_i % 2 ? "oobleck" : "restart", 60, 8);
        spec.planner_s = 0;
        spec.payback_steps = 1e9;
        save_every(7);
        if (real) {
            fake.machine = 3;
            fake.gap_s = 0.01;
            fake.state_s = 1;
        } else {
            opts.backend = &fake_backend;
        }
        luo_err err = {0};
        const luo_status st = run(&err);
        ck_assert_msg(st == LUO_OK || st == LUO_ENO, "seed %d: %s", _i, err.text);
        check_books();
        log[real] = log_text();
    }
    ck_assert_msg(strcmp(log[0], log[1]) == 0, "seed %d:\n%s\n%s", _i, log[0], log[1]);
    free(log[0]);
    free(log[1]);
}
END_TEST

LUO_SUITE("run.real", LUO_T(state_comes_first), LUO_T_N(saves_when_asked, 2),
          LUO_T_N(longer_of_the_two, 2), LUO_T(the_way_to_the_ranks_is_a_bubble),
          LUO_T_N(failure_goes_back_to_what_was_saved, 2), LUO_T(chosen_costs_cost_nothing),
          LUO_T_N(given_costs_count, 4), LUO_T(chosen_costs_count_when_simulated),
          LUO_T_N(replacement, LUO_ROWS(replaced)), LUO_T(death_without_an_event),
          LUO_T(bare_plan_survives), LUO_T(death_outside_the_plan),
          LUO_T_N(too_many_deaths, LUO_ROWS(gone)), LUO_T_N(death_while_loading, 2),
          LUO_T_N(death_at_the_start, 2), LUO_T(no_more_devices_than_processes),
          LUO_T_N(hard_failure_is_as_on_the_simulator, 2),
          LUO_T(hard_failure_shorter_than_its_notice), LUO_T(hard_failure_outside), LUO_T(resumed),
          LUO_T(resumed_with_other_lengths), LUO_T_N(nothing_left_to_resume, 2),
          LUO_T(older_checkpoint), LUO_T(resumed_from_an_older_one),
          LUO_T_N(told_for_an_hour, LUO_ROWS(hours)), LUO_T(switches_move_state),
          LUO_T_N(programs_that_cannot_be_bound, 2), LUO_T_N(pace_of_the_machine, 6),
          LUO_T(probes_after_measurements), LUO_T_N(pace_under_each_plan, 2), LUO_T(disk_is_lost),
          LUO_T_N(same_log_at_random, 60))
