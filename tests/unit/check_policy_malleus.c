/* check_policy_malleus.c: the policy `malleus` on a backend that answers from a
 * formula: what it remembers, when it switches, what failures and joins make of it, and that its
 * keys act. */
#include "core/plan/malleus/malleus_job.h"
#include "core/run/policy/plan_cache.h"
#include "tests/driver_fixture.h"
#include "tests/prop/prop.h"

/* Large enough that two devices are nearly twice as fast as one. */
static const luo_model large = {.name = "llama-test", .family = LUO_FAMILY_LLAMA, .layers = 24,
                                .hidden = 4096, .ffn_hidden = 11008, .heads = 32, .kv_heads = 32,
                                .head_dim = 128, .vocab = 1024, .max_sequence_tokens = 256,
                                .causal = true, .rope_base = 10000, .norm_eps = 1e-6,
                                .dtype = LUO_BF16};

static void prepare_malleus(int64_t steps, int32_t nevents)
{
    prepare("malleus", steps, nevents);
    sc.model = &large;
    spec.reentry_probes = 5;
    spec.plan_mode = LUO_PLAN_AUTO;
    spec.payback_steps = 1000;
}

static int uses(const luo_plan *p, int32_t device)
{
    int n = 0;
    for (int32_t i = 0; i < p->npipelines; i++)
        for (int32_t s = 0; s < p->pipelines[i].nstages; s++)
            for (int32_t k = 0; k < p->pipelines[i].stages[s].ndev; k++)
                n += p->pipelines[i].stages[s].dev[k] == device;
    return n;
}

static double seconds_of(int64_t step)
{
    return fake.steps[step].end_s - fake.steps[step].start_s;
}

/* ---- stragglers ---- */

/* Device 1 is slow twice. The third and fourth switch go where the first two did: from memory, and
 * over communicators that exist. */
START_TEST(straggler_comes_and_goes)
{
    static const char *const ids[] = {"a", "b"};
    for (int i = 0; i < 2; i++) {
        events[i] = fixture_event(ids[i], LUO_EVENT_STRAGGLER, "device:1", 0, 60);
        events[i].trigger = LUO_AT_STEP;
        events[i].at[0] = 10 + 300 * i;
        events[i].slowdown = 4;
    }
    prepare_malleus(600, 2);
    run_ok();
    check_books();
    ck_assert_int_eq(fake.summary.restarts, 0);
    ck_assert_int_eq(fake.nswitches, 4);
    ck_assert_int_eq(fake.nplans, 2);
    for (int i = 0; i < 4; i++) {
        const luo_row_switch *s = &fake.switches[i];
        ck_assert_int_eq(s->to_plan, i % 2 == 0);
        ck_assert_str_eq(s->source, "devices");
        ck_assert_double_eq(s->detect_s, 0);
        ck_assert_double_eq_tol(s->plan_s, i < 2 ? 2 : 0, 1e-9);
        if (i == 0) ck_assert_double_gt(s->specialize_s, 0);
        else ck_assert_double_eq(s->specialize_s, 0);
        ck_assert_str_eq(event_row("switched", i)->detail, "state from devices");
        ck_assert_int_eq(strstr(event_row("decided", i)->detail, ", known") != NULL, i >= 2);
    }
    ck_assert_int_eq(uses(fake.plans[1].plan, 1), 0);
    ck_assert_double_lt(seconds_of(40), 2.5 * STEP); /* static: 3.9 s */
    ck_assert_double_eq_tol(seconds_of(250), STEP, 1e-9);
}
END_TEST

/* The first device of a plan alone leaves and comes back: it has to be replaced before. */
START_TEST(first_device_is_replaced)
{
    events[0] = fixture_event("a", LUO_EVENT_STRAGGLER, "device:0", 5.4, 60);
    events[0].slowdown = 4;
    prepare_malleus(300, 1);
    sc.replacement_s = 7;
    run_ok();
    check_books();
    ck_assert_int_eq(fake.nswitches, 2);
    ck_assert_int_eq(uses(fake.plans[1].plan, 0), 0);
    ck_assert_int_eq(uses(fake.plans[1].plan, 1), 1);
    ck_assert_double_eq_tol(fake.summary.wait_s, 7, 1e-9);
}
END_TEST

/* What a switch would save in so many steps does not pay for it; or it is not asked to. */
START_TEST(adopt_test)
{
    events[0] = fixture_event("slow", LUO_EVENT_STRAGGLER, "device:1", 5.4, 0);
    prepare_malleus(60, 1);
    spec.payback_steps = 1;
    sc.communicator_s = 1000;
    spec.always_switch = _i == 1;
    run_ok();
    check_books();
    ck_assert_int_eq(fake.nswitches, _i);
    const char *why = event_row("decided", 0)->detail;
    ck_assert_int_eq(strcmp(why, "a switch does not pay") == 0, _i == 0);
}
END_TEST

/* What is assumed of malleus is said of malleus alone. */
START_TEST(its_settings_are_told)
{
    static const char begins[] = "policy malleus: plan_mode auto, rank filled, top_k 32,";
    int told = 0;
    prepare_malleus(3, 0);
    if (_i) spec.name = spec.label = "static";
    run_ok();
    for (int32_t i = 0; i < fake.nassumptions; i++) {
        told += strncmp(fake.assumptions[i], begins, sizeof begins - 1) == 0;
        ck_assert(!_i || strncmp(fake.assumptions[i], "policy malleus", 14) != 0);
    }
    ck_assert_int_eq(told, !_i);
}
END_TEST

START_TEST(noise_is_no_trigger)
{
    events[0] = fixture_event("watch", LUO_EVENT_STRAGGLER, "device:1", 5.4, 0);
    events[0].slowdown = 1.19;
    prepare_malleus(60, 1);
    run_ok();
    ck_assert_int_eq(fake.nswitches, 0);
    for (int32_t i = 0; i < fake.nevents; i++)
        ck_assert(fake.events[i].phase != LUO_EVENT_PHASE_DECIDED);
}
END_TEST

/* ---- failures ---- */

/* Without ZeRO the other pipeline has all state; with ZeRO-1 a part of it is gone. */
START_TEST(failure)
{
    events[0] = fixture_event("gpu", LUO_EVENT_FAIL, "device:5", 7, 0);
    prepare_malleus(40, 1);
    sc.checkpoint.kind = LUO_CHECKPOINT_STEPS;
    sc.checkpoint.every_steps = 4;
    ((luo_plan *)sc.plan)->zero = _i;
    ((luo_cluster *)sc.cluster)->storage_write_bytes_per_s = 1e12;
    run_ok();
    check_books();
    ck_assert_int_eq(fake.summary.switches, 1 - _i);
    ck_assert_int_eq(fake.summary.restarts, _i);
    ck_assert_str_eq(event_row(_i ? "restarted" : "switched", 0)->detail,
                     _i ? "state from checkpoint" : "state from devices");
    ck_assert_str_eq(fake.switches[0].source, _i ? "checkpoint" : "devices");
    ck_assert_double_eq_tol(fake.summary.detect_s, 30, 1e-9);
    ck_assert_double_eq_tol(fake.summary.plan_s, 2, 1e-9); /* all wait */
    ck_assert_int_eq(uses(fake.plans[1].plan, 5), 0);
    ck_assert_int_eq(fake.summary.steps_done, 40);
}
END_TEST

/* A link that is up again when the failure is noticed, or a crash of the whole job, leaves all
 * devices but no process: the running plan starts again. */
START_TEST(all_are_back)
{
    static const luo_cause crash[] = {
        {.cause = "software", .kind = LUO_EVENT_FAIL, .scope = LUO_SCOPE_JOB, .count = 1}};
    static const luo_arrivals any = {.id = "c", .target = "device:[0-7]", .kind = LUO_EVENT_CAUSES,
                                    .ncauses = 1, .causes = crash, .observed_devices = 1,
                                    .observed_s = 1600};
    events[0] = fixture_event("gpu", LUO_EVENT_FAIL, "device:5", 7.2, 3);
    prepare_malleus(400, _i == 0);
    sc.checkpoint.kind = LUO_CHECKPOINT_STEPS;
    sc.checkpoint.every_steps = 4;
    ((luo_cluster *)sc.cluster)->storage_write_bytes_per_s = 1e12;
    if (_i) {
        sc.nprocesses = 1;
        sc.processes = &any;
    }
    run_ok();
    check_books();
    ck_assert_int_gt(fake.summary.restarts, 0);
    ck_assert_int_eq(fake.summary.switches, 0);
    ck_assert_str_eq(event_row("decided", 0)->detail, "restart on the same devices");
    ck_assert_int_eq(fake.nplans, 1);
    ck_assert_int_eq(fake.summary.steps_done, 400);
}
END_TEST

/* A better plan is there, but no switch pays: after an outage that is over before it is found the
 * running plan starts again. */
START_TEST(outage_and_no_switch)
{
    events[0] = fixture_event("slow", LUO_EVENT_STRAGGLER, "device:1", 5.4, 0);
    events[0].slowdown = 4;
    events[1] = fixture_event("gpu", LUO_EVENT_FAIL, "device:5", 60, 3);
    prepare_malleus(40, 2);
    spec.payback_steps = 0;
    run_ok();
    check_books();
    ck_assert_int_eq(fake.summary.restarts, 1);
    ck_assert_int_eq(fake.nplans, 1);
    ck_assert_str_eq(event_row("decided", 0)->detail, "a switch does not pay");
    ck_assert_str_eq(event_row("decided", 1)->detail,
                     "a switch does not pay; restart on the same devices");
    ck_assert_double_eq_tol(fake.summary.detect_s, 30, 1e-9);
}
END_TEST

/* The plan leaves node 3 idle: it replaces the node that fails, and nothing is restarted. */
START_TEST(standby_devices_come_first)
{
    static const luo_range all = {0, 24};
    static const int32_t dev[] = {0, 1, 2, 3};
    luo_stage st[2];
    luo_pipeline pl[2];
    events[0] = fixture_event("node", LUO_EVENT_FAIL, "node:g0-1", 7, 0);
    events[1] = fixture_event("idle", LUO_EVENT_FAIL, "node:g0-2", 3, 0); /* nobody cares */
    prepare_malleus(40, 2);
    for (int32_t i = 0; i < 2; i++) {
        st[i] = (luo_stage){.nlayers = 1, .layers = &all, .ndev = 2, .dev = dev + 2 * i,
                            .context_parallel = 1, .embedding = true, .head = true};
        pl[i] = (luo_pipeline){.micro_batches = 8, .micro_batch_sequences = 1, .nstages = 1,
                               .stages = &st[i]};
    }
    ((luo_plan *)sc.plan)->pipelines = pl;
    run_ok();
    check_books();
    ck_assert_int_eq(fake.summary.switches, 1);
    ck_assert_int_eq(fake.summary.restarts, 0);
    const luo_plan *p = fake.plans[1].plan;
    ck_assert_int_eq(uses(p, 0) + uses(p, 1) + uses(p, 6) + uses(p, 7), 4);
    ck_assert_int_eq(uses(p, 2) + uses(p, 4), 0);
    ck_assert_int_eq(p->npipelines, 2);
}
END_TEST

/* A suspended device that is still slow is better than none. */
START_TEST(slow_devices_are_the_last_resort)
{
    events[0] = fixture_event("slow", LUO_EVENT_STRAGGLER, "device:[0-1]", 5.4, 0);
    events[1] = fixture_event("gone", LUO_EVENT_FAIL, "device:[2-7]", 300, 0);
    events[0].slowdown = 50;
    prepare_malleus(100, 2);
    run_ok();
    check_books();
    ck_assert_int_eq(uses(fake.plans[1].plan, 0), 0);
    ck_assert_int_eq(uses(fake.plans[2].plan, 0), 1);
    ck_assert_int_eq(fake.summary.restarts, 1); /* nobody else had any state */
}
END_TEST

/* ---- joins ---- */

/* Node 3 was down from the start; it comes, is probed five times, and is taken in. */
START_TEST(elastic_join)
{
    static const luo_health down = {.target = "node:g0-3", .down = true};
    static const luo_range layers[] = {{0, 8}, {8, 16}, {16, 24}};
    static const int32_t dev[] = {0, 1, 2, 3, 4, 5};
    luo_stage st[3];
    events[0] = fixture_event("new", LUO_EVENT_JOIN, "node:g0-3", 20, 0);
    prepare_malleus(100, 1);
    ((luo_cluster *)sc.cluster)->health = &down;
    ((luo_cluster *)sc.cluster)->nhealth = 1;
    for (int32_t s = 0; s < 3; s++)
        st[s] = (luo_stage){.nlayers = 1, .layers = &layers[s], .ndev = 2, .dev = dev + 2 * s,
                            .context_parallel = 1, .embedding = s == 0, .head = s == 2};
    const luo_pipeline pl = {.micro_batches = 16, .micro_batch_sequences = 1, .nstages = 3,
                             .stages = st};
    ((luo_plan *)sc.plan)->npipelines = 1;
    ((luo_plan *)sc.plan)->pipelines = &pl;
    if (_i == 1) spec.payback_steps = 0;
    run_ok();
    check_books();
    ck_assert_int_eq(fake.nswitches, 1 - _i);
    const luo_row_event *e = event_row("decided", 0);
    int64_t joined = 0;
    while (fake.steps[joined].end_s < 20) joined++;
    ck_assert_int_eq(e->step, joined + 5);
    if (_i == 1) return;
    ck_assert_int_eq(uses(fake.plans[1].plan, 6), 1);
    ck_assert_double_lt(seconds_of(99), seconds_of(10));
}
END_TEST

/* ---- what it cannot work on ---- */

static void deal_sequences(luo_plan *p)
{
    static const int64_t tokens[8] = {256, 256, 256, 256, 256, 256, 256, 256};
    luo_pipeline *pl = (luo_pipeline *)p->pipelines;
    for (int i = 0; i < 2; i++) pl[i].micro_batch_tokens = tokens;
}

START_TEST(refused_before_the_run)
{
    luo_err err = {0};
    prepare_malleus(10, 0);
    deal_sequences((luo_plan *)sc.plan);
    ck_assert_int_eq(run(&err), LUO_EINPUT);
    ck_assert_ptr_nonnull(strstr(err.text, "which sequences go where"));
    ck_assert_int_eq(fake.runs, 0);
}
END_TEST

/* A plan that its planner cannot start from is kept while all is well; when a device fails, it
 * starts from the best one that it can, for the same batch. */
static const struct other_base {
    luo_sched_kind schedule;
    int32_t zero, context; /* context: parallel, so many times */
} other_bases[] = {
    {LUO_SCHED_GPIPE, 0, 1},
    {LUO_SCHED_ZB_H1, 1, 1},
    {LUO_SCHED_1F1B, 3, 1},
    {LUO_SCHED_1F1B, 0, 2},
};

START_TEST(any_plan_is_kept)
{
    const struct other_base *x = &other_bases[_i];
    events[0] = fixture_event("gpu", LUO_EVENT_FAIL, "device:3", 7, 0);
    prepare_malleus(20, 1);
    luo_plan *base = (luo_plan *)sc.plan;
    base->schedule = x->schedule;
    base->zero = x->zero;
    for (int32_t i = 0; i < 2; i++)
        for (int32_t s = 0; s < 2; s++)
            ((luo_stage *)base->pipelines[i].stages)[s].context_parallel = x->context;
    run_ok();
    check_books();
    ck_assert_int_eq(fake.nswitches, 1);
    ck_assert_int_eq(fake.switches[0].from_plan, 0);
    const luo_plan *p = fake.plans[1].plan;
    ck_assert_int_eq(p->schedule, LUO_SCHED_1F1B);
    ck_assert_int_le(p->zero, 1);
    ck_assert_int_eq(luo_plan_sequences(p), luo_plan_sequences(base));
    ck_assert_int_eq(uses(p, 3), 0);
}
END_TEST

/* ---- memory ---- */

START_TEST(snapshots)
{
    enum { N = 4, GAP = 300 };
    luo_arena *a = luo_arena_new(0);
    luo_plan_cache p = {0};
    double rate[N] = {1, 2, 10, INFINITY};
    bool candidate[N] = {true, true, true, false};
    const luo_cluster *c = fixture_cluster(a, 1, 4, 2);
    luo_snapshot_key key = {.n = N, .rate = rate, .candidate = candidate, .memory_factor = 1,
                           .sequence_tokens = 256, .micro_batches = 16};
    arena = arena ? arena : luo_arena_new(0);
    luo_plan *plan = base_plan(c);
    const luo_plan *const plans[] = {plan};
    ck_assert_ptr_null(luo_plan_cache_find(&p, &key, 0.3, 1.2));
    ck_assert_int_eq(luo_plan_cache_add(&p, a, &key, plans, 1, NULL), LUO_OK);
    ck_assert_ptr_nonnull(luo_plan_cache_find(&p, &key, 0.3, 1.2));
    rate[3] = 5; /* of nobody who may hold layers */
    rate[0] = 1.19;
    rate[1] = 2.299;
    rate[2] = 11.49;
    ck_assert_ptr_nonnull(luo_plan_cache_find(&p, &key, 0.3, 1.2));
    ck_assert_ptr_null(luo_plan_cache_find(&p, &key, 0.1, 1.2));
    const struct {
        int device;
        double rate;
    } other[] = {{0, 1.2}, {1, 2.31}, {1, 1.69}, {2, 11.51}, {2, 8.49}};
    for (size_t i = 0; i < LUO_ROWS(other); i++) {
        const double was = rate[other[i].device];
        rate[other[i].device] = other[i].rate;
        ck_assert_ptr_null(luo_plan_cache_find(&p, &key, 0.3, 1.2));
        rate[other[i].device] = was;
    }
    candidate[3] = true;
    ck_assert_ptr_null(luo_plan_cache_find(&p, &key, 0.3, 1.2));
    candidate[3] = false;
    key.micro_batches = 17;
    ck_assert_ptr_null(luo_plan_cache_find(&p, &key, 0.3, 1.2));
    key.micro_batches = 16;
    key.failures = true;
    ck_assert_ptr_null(luo_plan_cache_find(&p, &key, 0.3, 1.2));
    key.failures = false;
    key.memory_factor = 0.9;
    ck_assert_ptr_null(luo_plan_cache_find(&p, &key, 0.3, 1.2));
    /* 32 are known; of two equal ones the newer counts */
    for (int i = 0; i < 40; i++) {
        rate[2] = ldexp(1000, i % 39); /* the first one again at the end */
        plan->layers = i;
        ck_assert_int_eq(luo_plan_cache_add(&p, a, &key, plans, 1, NULL), LUO_OK);
    }
    ck_assert_int_eq(p.n, LUO_PLAN_CACHE);
    rate[2] = 1000;
    ck_assert_int_eq(luo_plan_cache_find(&p, &key, 0.3, 1.2)->plan[0]->layers, 39);
    rate[2] = ldexp(1000, 9); /* i = 9: the second of those that are left */
    ck_assert_int_eq(luo_plan_cache_find(&p, &key, 0.3, 1.2)->plan[0]->layers, 9);
    rate[2] = ldexp(1000, 7); /* gone */
    ck_assert_ptr_null(luo_plan_cache_find(&p, &key, 0.3, 1.2));
    luo_arena_free(a);
}
END_TEST

static luo_status no_communicators(void *run, const luo_plan *p, double *seconds, luo_err *err);

static double setback_of_100(void *run, double step_s, double failure_s)
{
    (void)run;
    (void)step_s;
    (void)failure_s;
    return 100;
}

/* Two plans are known: one of 1 s a step, of which each device holds state that no other has, and a
 * slower one with copies. A failure that costs 100 s more with the first and is expected in F s is
 * 100 / F a step: so much slower the second may be. F counts as 50 steps at least (payback_steps).
 * Which trigger asks plays no part. */
static const struct {
    double failure_s, slower;
    bool always_switch, safe;
} risks[] = {{0, 1e-6, false, false},    {1000, 0.099, false, true}, {1000, 0.101, false, false},
             {1000, 1e-6, true, false},  {60, 1.66, false, true},    {60, 1.67, false, false},
             {10, 1.99, false, true},    {10, 2.01, false, false},   {1e6, 0.9e-4, false, true},
             {1e6, 1.1e-4, false, false}};

static double slower;

/* The plan's zero says how fast it is; the base plan is the slowest. */
static luo_status step_by_zero(void *run, const luo_plan *p, double *seconds, luo_err *err)
{
    (void)run;
    (void)err;
    *seconds = p->zero == 1 ? 1 : p->sequence_tokens == 256 ? 10 : 1 + slower;
    return LUO_OK;
}

START_TEST(safe_plans_where_failures_are_expected)
{
    static const int triggers[] = {LUO_TRIGGER_RATE, LUO_TRIGGER_FAIL};
    double rate[8];
    bool candidate[8], leaving[8] = {0};
    luo_plan_cache cache = {0};
    void *memory = &cache;
    prepare_malleus(1, 0);
    spec.payback_steps = 50;
    spec.always_switch = risks[_i].always_switch;
    slower = risks[_i].slower;
    luo_plan *const base = base_plan(sc.cluster), *const fast = base_plan(sc.cluster),
                    *const safe = base_plan(sc.cluster);
    const luo_plan *const plans[] = {fast, safe};
    fast->zero = 1;
    safe->sequence_tokens = 257;
    for (int d = 0; d < 8; d++) {
        rate[d] = 1;
        candidate[d] = true;
    }
    const luo_snapshot_key key = {.n = 8,
                                  .rate = rate,
                                  .candidate = candidate,
                                  .memory_factor = 1,
                                  .sequence_tokens = 256,
                                  .micro_batches = 16,
                                  .failures = risks[_i].failure_s > 0};
    ck_assert_int_eq(luo_plan_cache_add(&cache, arena, &key, plans, 2, NULL), LUO_OK);
    luo_snapshot now = {.scenario = &sc,
                        .spec = &spec,
                        .base = base,
                        .plan = base,
                        .rate = rate,
                        .leaving = leaving,
                        .micro_batches = 16,
                        .sequence_tokens = 256,
                        .memory_factor = 1,
                        .candidate = candidate,
                        .keep = arena,
                        .memory = &memory,
                        .specialize_s = no_communicators,
                        .failure_s = risks[_i].failure_s,
                        .setback_s = setback_of_100,
                        .step_s = step_by_zero};
    for (int i = 0; i < LUO_ROWS(triggers); i++) {
        luo_decision d;
        luo_err err = {0};
        now.trigger = triggers[i];
        ck_assert_msg(luo_policy_malleus.decide(arena, &now, &d, &err) == LUO_OK, "%s", err.text);
        ck_assert_msg(d.action == LUO_SWITCH && d.known, "%d: %s", i, d.why);
        ck_assert_msg(d.plan->zero == !risks[_i].safe, "%d: zero %d", i, d.plan->zero);
    }
}
END_TEST

/* A plan is known that is as fast as the base plan: the same pipelines in the other order. Without
 * a simulator both are as good, and the base plan is taken, since going there takes no longer. */
START_TEST(base_among_equals)
{
    double rate[8];
    bool candidate[8], leaving[8] = {0};
    luo_plan_cache cache = {0};
    void *memory = &cache;
    luo_decision d;
    luo_err err = {0};
    prepare_malleus(1, 0);
    luo_plan *const base = base_plan(sc.cluster), *const other = base_plan(sc.cluster),
                    *const running = base_plan(sc.cluster);
    luo_pipeline *const turned = (luo_pipeline *)(uintptr_t)other->pipelines,
                        *const uneven = (luo_pipeline *)(uintptr_t)running->pipelines;
    const luo_pipeline first = turned[0];
    const luo_plan *const plans[] = {other};
    turned[0] = turned[1];
    turned[1] = first;
    uneven[0].micro_batches = 12;
    uneven[1].micro_batches = 4;
    ck_assert(luo_plan_hash(other) != luo_plan_hash(base));
    for (int i = 0; i < 8; i++) {
        rate[i] = 1;
        candidate[i] = true;
    }
    const luo_snapshot_key key = {.n = 8, .rate = rate, .candidate = candidate, .memory_factor = 1,
                                  .sequence_tokens = 256, .micro_batches = 16};
    ck_assert_int_eq(luo_plan_cache_add(&cache, arena, &key, plans, 1, NULL), LUO_OK);
    const luo_snapshot now = {.scenario = &sc, .spec = &spec, .base = base, .plan = running,
                              .rate = rate, .leaving = leaving, .micro_batches = 16,
                              .sequence_tokens = 256, .memory_factor = 1, .candidate = candidate,
                              .keep = arena, .memory = &memory, .trigger = LUO_TRIGGER_RATE,
                              .specialize_s = no_communicators};
    ck_assert_msg(luo_policy_malleus.decide(arena, &now, &d, &err) == LUO_OK, "%s", err.text);
    ck_assert_msg(d.action == LUO_SWITCH && d.known, "%s", d.why);
    ck_assert(luo_plan_hash(d.plan) == luo_plan_hash(base));
}
END_TEST

/* ---- keys ---- */

static luo_status no_communicators(void *run, const luo_plan *p, double *seconds, luo_err *err)
{
    (void)run;
    (void)p;
    (void)err;
    *seconds = 0;
    return LUO_OK;
}

typedef struct ask {
    luo_plan *base;
    double rate[64];
    bool candidate[64], leaving[64];
    void *memory;
} ask;

static uint64_t decided(ask *a)
{
    luo_arena *keep = luo_arena_new(0);
    luo_decision d;
    luo_err err = {0};
    a->memory = NULL;
    const luo_snapshot now = {.scenario = &sc, .spec = &spec, .base = a->base, .plan = a->base,
                             .trigger = LUO_TRIGGER_RATE, .rate = a->rate, .leaving = a->leaving,
                             .micro_batches = 64, .sequence_tokens = 256, .memory_factor = 1,
                             .candidate = a->candidate, .keep = keep, .memory = &a->memory,
                             .specialize_s = no_communicators};
    ck_assert_msg(luo_policy_malleus.decide(arena, &now, &d, &err) == LUO_OK, "%s", err.text);
    const uint64_t hash = d.action == LUO_SWITCH ? luo_plan_hash(d.plan) : 0;
    luo_arena_free(keep);
    return hash;
}

/* 8 nodes of 8 devices: 2 pipelines of 4 stages of 8. */
static luo_plan *wide_base(const luo_cluster *c)
{
    luo_plan *p = base_plan(c);
    luo_pipeline *pl = LUO_NEW_N(arena, luo_pipeline, 2);
    luo_range *layers = LUO_NEW_N(arena, luo_range, 4);
    int32_t *dev = LUO_NEW_N(arena, int32_t, 64);
    for (int32_t d = 0; d < 64; d++) dev[d] = d;
    for (int32_t i = 0; i < 2; i++) {
        luo_stage *st = LUO_NEW_N(arena, luo_stage, 4);
        for (int32_t s = 0; s < 4; s++) {
            layers[s] = (luo_range){6 * s, 6 * s + 6};
            st[s] = (luo_stage){.nlayers = 1, .layers = &layers[s], .ndev = 8,
                                .dev = dev + 32 * i + 8 * s, .context_parallel = 1,
                                .embedding = s == 0, .head = s == 3};
        }
        pl[i] = (luo_pipeline){.micro_batches = 32, .micro_batch_sequences = 1, .nstages = 4,
                               .stages = st};
    }
    p->pipelines = pl;
    return p;
}

static void rank_steady(void) { spec.rank = LUO_RANK_STEADY; }
static void top_1(void) { spec.top_k = 1; }
static void split2(void) { spec.split2 = true; }
static void dp_auto(void) { spec.dp_auto = true; }
static void threshold(void) { spec.threshold_slowdown = 3; }
static void payback(void) { spec.payback_steps = 0; }
static const struct {
    const char *key;
    void (*change)(void);
} keys[] = {{"rank: steady", rank_steady},
            {"top_k: 1", top_1},
            {"grouping: split2", split2},
            {"dp: auto", dp_auto},
            {"threshold_slowdown: 3", threshold},
            {"payback_steps: 0", payback}};

/* For each key there are rates under which it changes the decision. */
START_TEST(keys_act)
{
    bool acted = false;
    LUO_PROP_FOR(seed, 300) {
        luo_rng rng = luo_rng_stream(seed, "keys_act");
        ask a = {0};
        if (acted) break;
        prepare_malleus(1, 0);
        sc.cluster = fixture_cluster(arena, 1, 8, 8);
        a.base = wide_base(sc.cluster);
        for (int d = 0; d < 64; d++) {
            a.rate[d] = luo_rng_u(&rng) < 0.9 ? 1 : 1 + 4 * luo_rng_u(&rng);
            a.candidate[d] = true;
        }
        const uint64_t before = decided(&a);
        keys[_i].change();
        acted = decided(&a) != before;
    }
    ck_assert_msg(acted, "`%s` changes nothing", keys[_i].key);
}
END_TEST

LUO_SUITE("run.policy_malleus", LUO_T(straggler_comes_and_goes), LUO_T(first_device_is_replaced),
          LUO_T_N(adopt_test, 2), LUO_T_N(its_settings_are_told, 2), LUO_T(noise_is_no_trigger),
          LUO_T_N(failure, 2), LUO_T_N(all_are_back, 2), LUO_T(outage_and_no_switch),
          LUO_T(standby_devices_come_first), LUO_T(slow_devices_are_the_last_resort),
          LUO_T_N(elastic_join, 2), LUO_T(refused_before_the_run),
          LUO_T_N(any_plan_is_kept, LUO_ROWS(other_bases)), LUO_T(snapshots),
          LUO_T_N(safe_plans_where_failures_are_expected, LUO_ROWS(risks)),
          LUO_T(base_among_equals), LUO_T_N(keys_act, LUO_ROWS(keys)))
