/* run_sim.c: the driver on the simulator. A step's length is taken from a quiet run;
 * events are placed by it, so that no figure of the cost model stands here. */
#include "sim/sim.h"
#include "tests/fake_backend.h"
#include "tests/prop/prop.h"

static const luo_model model = {.name = "llama-test", .family = LUO_FAMILY_LLAMA, .layers = 16,
                                .hidden = 2048, .ffn_hidden = 5632, .heads = 16, .kv_heads = 16,
                                .head_dim = 128, .vocab = 32000, .max_sequence_tokens = 2048,
                                .causal = true, .rope_base = 10000, .norm_eps = 1e-6,
                                .dtype = LUO_BF16};
static luo_event events[4];
static luo_policy_spec spec;
static luo_scenario sc;
static luo_arena *arena;
static bool with_judge; /* plans are ranked by simulated steps */

/* 4 nodes of 2 devices; 2 pipelines of 2 stages of 2 devices, 8 micro-batches each. */
static luo_plan *base_plan(void)
{
    static const int32_t dev[] = {0, 1, 2, 3, 4, 5, 6, 7};
    static const luo_range layers[] = {{0, 8}, {8, 16}};
    luo_plan *p = LUO_NEW(arena, luo_plan);
    luo_pipeline *pl = LUO_NEW_N(arena, luo_pipeline, 2);
    for (int32_t i = 0; i < 2; i++) {
        luo_stage *st = LUO_NEW_N(arena, luo_stage, 2);
        for (int32_t s = 0; s < 2; s++)
            st[s] = (luo_stage){.nlayers = 1, .layers = &layers[s], .ndev = 2,
                                .dev = dev + 4 * i + 2 * s, .context_parallel = 1,
                                .embedding = s == 0, .head = s == 1};
        pl[i] = (luo_pipeline){.micro_batches = 8, .micro_batch_sequences = 1, .nstages = 2,
                               .stages = st};
    }
    *p = (luo_plan){.name = "base", .model = "llama-test", .cluster = "small", .layers = 16,
                    .devices = 8, .dtype = LUO_BF16, .sequence_tokens = 2048,
                    .micro_batch_sequences = 1, .sequence_parallel = true,
                    .schedule = LUO_SCHED_1F1B, .chunks = 1, .npipelines = 2, .pipelines = pl};
    return p;
}

static void prepare(const char *policy, int64_t steps, int32_t nevents)
{
    if (arena) luo_arena_free(arena);
    arena = luo_arena_new(1 << 16);
    fake_reset();
    luo_cluster *c = fixture_cluster(arena, 1, 4, 2);
    c->storage_read_bytes_per_s = c->storage_write_bytes_per_s = 10e9;
    spec = (luo_policy_spec){.name = policy, .label = policy, .restart_s = -1,
                             .threshold_slowdown = 1.2, .replan_gap = 0.3, .payback_steps = 50,
                             .planner_s = 0.1, .window_steps = 5, .top_k = 32};
    sc = (luo_scenario){.name = "t", .seed = 7, .cluster = c, .model = &model,
                        .plan = base_plan(), .steps = steps, .npolicies = 1, .policies = &spec,
                        .nevents = nevents, .events = events, .detect_fail_s = 1,
                        .process_start_s = 6, .communicator_s = 0.05, .truth = true,
                        .checkpoint = {.kind = LUO_CHECKPOINT_STEPS, .every_steps = 4}};
    luo_stack_default(&sc.stack);
}

static luo_status run(luo_err *err)
{
    const luo_run_opts opts = {.backend = &luo_sim_backend,
                               .comm = LUO_COMM_FLOW,
                               .fold = true,
                               .simulator = with_judge ? &luo_sim_backend : NULL,
                               .trace = {.kind = LUO_TRACE_NONE}};
    return luo_run_policy(&sc, 0, &opts, &fake_sink, err);
}

static void run_ok(void)
{
    luo_err err = {0};
    ck_assert_msg(run(&err) == LUO_OK, "%s", err.text);
    ck_assert_int_eq(fake.summary.state, LUO_COMPLETE);
}

/* Blocking rows tile the run; the parts of `time` sum to it within 1e-9. */
static void check_books(void)
{
    const luo_run_summary *s = &fake.summary;
    const luo_parts *p = &s->time;
    double at = 0;
    for (int32_t i = 0; i < fake.ntime; i++) {
        if (!fake.time[i].blocking) continue;
        ck_assert_double_eq(fake.time[i].start_s, at);
        at = fake.time[i].end_s;
    }
    ck_assert_double_eq(at, s->total_s);
    const double sum = p->compute_s + p->recompute_s + p->tp_s + p->ep_s + p->cp_s + p->pp_s +
                       p->dp_s + p->move_s + p->io_s + p->bubble_s + s->redone_s + s->detect_s +
                       s->plan_s + s->specialize_s + s->switch_s + s->checkpoint_s +
                       s->restart_s + s->wait_s;
    ck_assert_double_eq_tol(sum, s->total_s, 1e-9 * s->total_s);
}

static double step_seconds(void)
{
    prepare("static", 3, 0);
    run_ok();
    check_books();
    ck_assert_double_eq_tol(fake.steps[2].end_s - fake.steps[2].start_s,
                            fake.steps[0].end_s - fake.steps[0].start_s, 1e-9);
    return fake.steps[0].end_s - fake.steps[0].start_s;
}

START_TEST(quiet_steps)
{
    const double step = step_seconds();
    const luo_row_step *r = &fake.steps[0];
    ck_assert_double_gt(step, 0);
    ck_assert_double_gt(r->parts.compute_s, 0.3 * step);
    ck_assert_double_gt(r->parts.tp_s, 0);
    ck_assert_double_gt(r->parts.dp_s, 0);
    ck_assert_double_gt(fake.summary.mfu_ratio, 0.05);
    ck_assert_double_lt(fake.summary.mfu_ratio, 1);
    ck_assert(isnan(fake.summary.expert_imbalance_ratio));
    ck_assert_double_eq_tol(fake.steps[0].max_slowdown, 1, 1e-6);
}
END_TEST

/* Two experts get all rows in steps 2 to 4: no other step is longer, and a policy that looks for
 * slow devices sees none. */
START_TEST(loads_by_step)
{
    static const luo_load_row hot[] = {{0, 0, 1}, {0, 1, 1}, {15, 0, 3}, {15, 1, 3}};
    static const luo_load_row even[] = {{15, 0, 5}, {15, 1, 5}, {15, 2, 5}, {15, 3, 5}};
    static const luo_expert_load loads[] = {{.step = 2, .nrows = 4, .rows = hot},
                                            {.step = 5, .nrows = 4, .rows = even}};
    luo_model experts = model;
    experts.family = LUO_FAMILY_MOE;
    experts.moe = (luo_moe){.experts = 4, .experts_per_token = 2, .expert_ffn_hidden = 5632,
                            .every_layers = 1};
    for (int i = 0; i < 2; i++) {
        prepare(i ? "rebalance" : "static", 12, 0);
        sc.model = &experts;
        sc.loads = loads;
        sc.nloads = 2;
        for (int32_t p = 0; p < 2; p++)
            for (int32_t s = 0; s < 2; s++)
                ((luo_stage *)sc.plan->pipelines[p].stages)[s].experts_dealt = true;
        run_ok();
        check_books();
        ck_assert_int_eq(fake.summary.detect_false + fake.nswitches, 0);
        /* 2 layers of 16 have half their devices idle in 3 steps of 12 */
        ck_assert_double_eq_tol(fake.summary.expert_imbalance_ratio,
                                1 + 2.0 / 16 * 3 / 12, 1e-12);
        const double first = fake.steps[0].end_s - fake.steps[0].start_s;
        for (int32_t s = 0; s < 12; s++) {
            const double seconds = fake.steps[s].end_s - fake.steps[s].start_s;
            if (s >= 2 && s < 5) ck_assert_double_gt(seconds, 1.01 * first);
            else ck_assert_double_eq_tol(seconds, first, 1e-9);
        }
    }
}
END_TEST

/* A device at 2.5 from the middle of step 6 on. */
START_TEST(straggler)
{
    const double step = step_seconds();
    double slow[2];
    events[0] = fixture_event("slow", LUO_EVENT_STRAGGLER, "device:1", 6.5 * step, 0);
    events[0].slowdown = 2.5;
    for (int i = 0; i < 2; i++) {
        prepare(i ? "rebalance" : "static", 40, 1);
        run_ok();
        check_books();
        ck_assert_int_eq(fake.summary.detect_true, 1);
        ck_assert_int_eq(fake.summary.detect_false, 0);
        ck_assert_double_eq_tol(fake.steps[30].max_slowdown, 2.5, 1e-6);
        slow[i] = fake.steps[39].end_s - fake.steps[39].start_s;
        const double half = fake.steps[6].end_s - fake.steps[6].start_s;
        ck_assert_double_gt(half, 1.05 * step); /* felt inside the step it falls into */
        ck_assert_double_lt(half, fake.steps[7].end_s - fake.steps[7].start_s);
    }
    ck_assert_double_gt(slow[0], 1.4 * step); /* about half of a step is compute */
    ck_assert_double_lt(slow[1], 0.85 * slow[0]);
    ck_assert_int_eq(fake.summary.switches, 1); /* the half slow step is no rate of its own */
}
END_TEST

/* The slow twin: a run in which the device was slow from the start, beside one without. */
START_TEST(what_a_slow_device_causes)
{
    const double step = step_seconds();
    events[0] = fixture_event("slow", LUO_EVENT_STRAGGLER, "device:1", 0, 0);
    events[1] = fixture_event("less", LUO_EVENT_STRAGGLER, "device:6", 0, 0);
    events[0].slowdown = 2.5;
    events[1].slowdown = 1.2;
    prepare("static", 6, 2);
    run_ok();
    const double both[2] = {fake.caused_slowdown[1], fake.caused_slowdown[6]};
    ck_assert_double_eq(fake.caused_slowdown[0], 1);
    ck_assert_double_gt(both[1], 1);
    for (int i = 0; i < 2; i++) {
        if (i) events[0] = events[1];
        prepare("static", 6, 1);
        run_ok();
        const double alone = fake.steps[5].end_s - fake.steps[5].start_s;
        ck_assert_double_eq_tol(both[i], alone / step, 1e-6);
    }
    prepare("oracle", 3, 1);
    run_ok();
    ck_assert_double_eq(fake.caused_slowdown[6], -1);
}
END_TEST

/* Packed and uneven lengths, and other lengths from step 10 on: predictions know them, so nobody is
 * taken for slow, and who is slow is as slow as he is
 * (docs/planners.md#measuring-rates-in-a-run). */
START_TEST(lengths_are_no_trigger)
{
    static const int64_t uneven[2][8] = {{2048, 2048, 300, 1500, 100, 2048, 700, 64},
                                         {64, 128, 64, 1900, 128, 64, 900, 2000}};
    double rate = 0;
    events[0] = fixture_event("long", LUO_EVENT_LENGTHS, "", 10, 0);
    events[0].trigger = LUO_AT_STEP;
    events[0].tokens = 500;
    events[1] = fixture_event("slow", LUO_EVENT_STRAGGLER, "device:5", 20, 0);
    events[1].trigger = LUO_AT_STEP;
    events[1].slowdown = 2.57;
    prepare("static", 40, 1 + _i % 2);
    sc.compute_sigma = 0.02;
    if (_i / 2 == 0)
        for (int i = 0; i < 2; i++)
            ((luo_pipeline *)sc.plan->pipelines)[i].micro_batch_tokens = uneven[i];
    run_ok();
    check_books();
    ck_assert_int_eq(fake.summary.detect_false, 0);
    ck_assert_int_eq(fake.summary.detect_true, _i % 2);
    ck_assert_int_eq(fake.nnotes, _i % 2);
    if (_i % 2 == 0) return;
    int step = 0; /* step 20 can be one that begins with a checkpoint */
    ck_assert_int_eq(sscanf(fake.notes[0], "step %d: device 5: rate 1.000000 -> %lf", &step, &rate),
                     2);
    ck_assert(step == 23 || step == 24);
    ck_assert_double_eq_tol(rate, 2.57, 0.03);
}
END_TEST

/* A node dies in step 6 and is back later: survived from the checkpoint at 4, twice the same. */
START_TEST(failure_twice_the_same)
{
    static luo_row_timeline first[FAKE_ROWS];
    static luo_row_step steps[256];
    const double step = step_seconds();
    int32_t n = 0, nsteps = 0;
    events[0] = fixture_event("node", LUO_EVENT_FAIL, "node:g0-1", 6.3 * step, 20);
    events[1] = fixture_event("nic", LUO_EVENT_LINK, "link:g0-3/nic0", 2.2 * step, 0);
    events[1].bandwidth_factor = 0.1;
    for (int twice = 0; twice < 2; twice++) {
        prepare("restart", 60, 2);
        sc.compute_sigma = 0.01;
        spec.payback_steps = 1e6;
        run_ok();
        check_books();
        ck_assert_int_ge(fake.summary.restarts, 1);
        ck_assert_int_eq(fake.summary.steps_done, 60);
        ck_assert_int_ge(fake.summary.steps_redone, 3);
        ck_assert_double_eq_tol(fake.summary.detect_s, 1, 1e-9);
        if (twice) {
            ck_assert_int_eq(fake.ntime, n);
            ck_assert_int_eq(fake.nsteps, nsteps);
            for (int32_t i = 0; i < n; i++) {
                ck_assert_double_eq(fake.time[i].start_s, first[i].start_s);
                ck_assert_double_eq(fake.time[i].end_s, first[i].end_s);
            }
            for (int32_t i = 0; i < nsteps; i++) {
                ck_assert_double_eq(fake.steps[i].parts.compute_s, steps[i].parts.compute_s);
                ck_assert_double_eq(fake.steps[i].parts.bubble_s, steps[i].parts.bubble_s);
                ck_assert_int_eq(fake.steps[i].attempt, steps[i].attempt);
            }
        }
        n = fake.ntime;
        nsteps = fake.nsteps;
        memcpy(first, fake.time, sizeof first);
        memcpy(steps, fake.steps, sizeof steps);
    }
}
END_TEST

START_TEST(static_is_lost)
{
    const double step = step_seconds();
    luo_err err = {0};
    events[0] = fixture_event("gpu", LUO_EVENT_FAIL, "device:6", 2.5 * step, 0);
    prepare("static", 10, 1);
    ck_assert_int_eq(run(&err), LUO_ENO);
    ck_assert_int_eq(fake.summary.state, LUO_LOST);
    check_books();
    ck_assert_int_eq(fake.summary.steps_done, 2);
    ck_assert_double_eq_tol(fake.summary.redone_s, 0.5 * step, 1e-6 * step);
}
END_TEST

/* ---- who leaves slow devices behind is not slower than who endures them ---- */

enum { LASTS = 60 }; /* steps for which a speed stays: longer than a change has to pay in */

/* One device is slow twice, or two are; all is well at the end. */
static void draw_stragglers(luo_rng *rng, double *slowdown)
{
    for (int i = 0; i < 2; i++) {
        const int32_t device = (int32_t)luo_rng_pick(rng, 8);
        events[i] = fixture_event(i ? "second" : "first", LUO_EVENT_STRAGGLER,
                                  luo_arena_printf(arena, "device:%d", device), 0, 0);
        slowdown[i] = 1.2 + 3e-6 * (double)(luo_rng_pick(rng, 1000) * luo_rng_pick(rng, 1000));
        events[i].slowdown = slowdown[i];
        events[i].trigger = LUO_AT_STEP;
        events[i].at[0] = 6 + i * LASTS;
        events[i].life.steps = i ? LASTS : LASTS + LASTS * (int32_t)luo_rng_pick(rng, 2);
    }
}

/* Seconds of the run under a policy; *way_s: of its longest change. */
static double seconds_under(const char *policy, uint64_t seed, double step_s, double *way_s)
{
    luo_rng rng = luo_rng_stream(seed, "stragglers");
    double slowdown[2];
    prepare(policy, 4 * LASTS, 2);
    draw_stragglers(&rng, slowdown);
    spec.payback_given = true;
    sc.process_start_s = step_s * (double)luo_rng_pick(&rng, 8);
    sc.communicator_s = 0;
    with_judge = true;
    run_ok();
    with_judge = false;
    check_books();
    *way_s = 0;
    for (int32_t i = 0; i < fake.nswitches; i++)
        *way_s = fmax(*way_s, fake.switches[i].total_s + fake.summary.checkpoint_s);
    return fake.summary.total_s;
}

/* Each of the four changes of speed may cost what it cannot win back, as nobody knows when the next
 * one comes: a way there, or one that does not pay within the steps that it has. */
START_TEST(leaving_is_not_slower)
{
    static const char *const names[] = {"restart", "oobleck"};
    const double step_s = step_seconds();
    int changes = 0;
    LUO_PROP_FOR(seed, 6)
    {
        double none, way_s;
        const double endured_s = seconds_under("static", seed, step_s, &none);
        for (int i = 0; i < 2; i++) {
            const double s = seconds_under(names[i], seed, step_s, &way_s);
            changes += fake.nswitches;
            ck_assert_msg(s <= 1.01 * endured_s + 4 * way_s,
                          "LUO_SEED=%llu LUO_CASES=1: %s takes %.3f s, static %.3f s, a way "
                          "%.3f s",
                          (unsigned long long)seed, names[i], s, endured_s, way_s);
        }
    }
    ck_assert_msg(changes > 0 || luo_prop_env("LUO_CASES", 0) == 1, "nothing was changed");
}
END_TEST

/* ---- the bound ---- */

/* A policy that brings a faster plan than the scenario has is bounded as well, with as many tokens
 * in a step or not, whether plans are simulated (_i % 2) or not. */
START_TEST(bound_of_all_plans)
{
    static luo_policy_spec two[2];
    double tokens_per_s[2];
    luo_err err = {0};
    for (int32_t k = 0; k < 2; k++) {
        prepare("static", 4, 0);
        two[0] = two[1] = spec;
        two[1].name = two[1].label = "oracle";
        luo_plan *own = base_plan();
        own->schedule = LUO_SCHED_ZB_H1;
        own->micro_batch_sequences = 2; /* larger products, which nobody makes of the other plan */
        for (int32_t i = 0; i < 2; i++) {
            ((luo_pipeline *)own->pipelines)[i].micro_batch_sequences = 2;
            ((luo_pipeline *)own->pipelines)[i].micro_batches = _i > 1 ? 16 : 4;
            for (int32_t s = 0; s < 2; s++)
                ((luo_stage *)sc.plan->pipelines[i].stages)[s].recompute = LUO_RECOMPUTE_FULL;
        }
        two[0].plan = own;
        sc.policies = two;
        sc.npolicies = 2;
        const luo_run_opts opts = {.backend = &luo_sim_backend, .comm = LUO_COMM_FLOW,
                                   .fold = true, .trace = {.kind = LUO_TRACE_NONE},
                                   .simulator = &luo_sim_backend};
        two[1].judged = _i % 2 ? LUO_JUDGED_SIMULATED : LUO_JUDGED_OBJECTIVE;
        ck_assert_msg(luo_run_policy(&sc, k, &opts, &fake_sink, &err) == LUO_OK, "%s", err.text);
        tokens_per_s[k] = (double)fake.summary.kept_tokens / fake.summary.total_s;
    }
    ck_assert_msg(tokens_per_s[1] >= tokens_per_s[0] * (1 - 1e-9), "oracle %.3f, static %.3f",
                  tokens_per_s[1], tokens_per_s[0]);
}
END_TEST

LUO_SUITE("backend.run_sim", LUO_T(quiet_steps), LUO_T(loads_by_step), LUO_T(straggler),
          LUO_T(what_a_slow_device_causes), LUO_T_N(lengths_are_no_trigger, 4),
          LUO_T(failure_twice_the_same), LUO_T(static_is_lost), LUO_T(leaving_is_not_slower),
          LUO_T_N(bound_of_all_plans, 4))
