/* sim_ahead.c: all that happens while a step lasts happens in it, however long the
 * changes make it. What is random is how slow which devices become, when, and what fails. */
#include "sim/sim.h"
#include "tests/fake_backend.h"
#include "tests/prop/prop.h"

enum { DEVICES = 4, SLOW = 12, LAYERS = 4 };

static const luo_model model = {.name = "llama-test",
                                .family = LUO_FAMILY_LLAMA,
                                .layers = LAYERS,
                                .hidden = 1024,
                                .ffn_hidden = 2816,
                                .heads = 8,
                                .kv_heads = 8,
                                .head_dim = 128,
                                .vocab = 4096,
                                .max_sequence_tokens = 512,
                                .causal = true,
                                .rope_base = 10000,
                                .norm_eps = 1e-6,
                                .dtype = LUO_BF16};
static luo_arena *arena;
static luo_event events[SLOW + 1];
static luo_policy_spec spec;
static luo_scenario sc;
static bool fold;

/* ---- the latest start of an instruction on each device ---- */

static double last_start_s[DEVICES];

static luo_status keep_ops(void *ctx, int64_t step, int32_t attempt, double start_s, int32_t plan,
                           const luo_programs *set, const luo_step_result *s, luo_err *err)
{
    (void)ctx;
    (void)step;
    (void)attempt;
    (void)plan;
    (void)set;
    (void)err;
    for (int32_t i = 0; i < s->nrecords; i++) {
        double *last = &last_start_s[s->records[i].device];
        *last = fmax(*last, start_s + s->records[i].start_s);
    }
    return LUO_OK;
}

/* ---- runs ---- */

/* `pipelines` pipelines of `stages` stages of `tp` devices each. */
static luo_plan *make_plan(int32_t pipelines, int32_t stages, int32_t tp)
{
    static const int32_t dev[] = {0, 1, 2, 3};
    luo_plan *p = LUO_NEW(arena, luo_plan);
    luo_pipeline *pl = LUO_NEW_N(arena, luo_pipeline, pipelines);
    luo_range *layers = LUO_NEW_N(arena, luo_range, stages);
    for (int32_t s = 0; s < stages; s++)
        layers[s] = (luo_range){s * LAYERS / stages, (s + 1) * LAYERS / stages};
    for (int32_t i = 0; i < pipelines; i++) {
        luo_stage *st = LUO_NEW_N(arena, luo_stage, stages);
        for (int32_t s = 0; s < stages; s++)
            st[s] = (luo_stage){.nlayers = 1,
                                .layers = &layers[s],
                                .ndev = tp,
                                .dev = dev + (i * stages + s) * tp,
                                .context_parallel = 1,
                                .embedding = s == 0,
                                .head = s == stages - 1};
        pl[i] = (luo_pipeline){
            .micro_batches = 4, .micro_batch_sequences = 1, .nstages = stages, .stages = st};
    }
    *p = (luo_plan){.name = "p",
                    .model = "llama-test",
                    .cluster = "small",
                    .layers = LAYERS,
                    .devices = DEVICES,
                    .dtype = LUO_BF16,
                    .sequence_tokens = 512,
                    .micro_batch_sequences = 1,
                    .schedule = LUO_SCHED_1F1B,
                    .chunks = 1,
                    .npipelines = pipelines,
                    .pipelines = pl};
    return p;
}

static void prepare(int64_t steps, const int32_t shape[3])
{
    if (arena) luo_arena_free(arena);
    arena = luo_arena_new(1 << 16);
    spec = (luo_policy_spec){.name = "static",
                             .label = "static",
                             .restart_s = -1,
                             .threshold_slowdown = 1.2,
                             .replan_gap = 0.3,
                             .payback_steps = 50,
                             .window_steps = 5,
                             .top_k = 32};
    sc = (luo_scenario){.name = "t",
                        .seed = 7,
                        .cluster = fixture_cluster(arena, 1, 2, 2),
                        .model = &model,
                        .plan = make_plan(shape[0], shape[1], shape[2]),
                        .steps = steps,
                        .npolicies = 1,
                        .policies = &spec,
                        .events = events,
                        .detect_fail_s = 1};
    luo_stack_default(&sc.stack);
}

static luo_status run(int32_t nevents)
{
    luo_err err = {0};
    luo_sink sink = fake_sink;
    const luo_run_opts opts = {.backend = &luo_sim_backend,
                               .comm = LUO_COMM_FLOW,
                               .fold = fold,
                               .trace = {.kind = LUO_TRACE_ALL}};
    fake_reset();
    memset(last_start_s, 0, sizeof last_start_s);
    sink.ops = keep_ops;
    sc.nevents = nevents;
    const luo_status st = luo_run_policy(&sc, 0, &opts, &sink, &err);
    ck_assert_msg(st == LUO_OK || st == LUO_ENO, "%s", err.text);
    ck_assert_int_eq(fake.nwarnings, 0);
    return st;
}

static double quiet_step(const int32_t shape[3])
{
    prepare(1, shape);
    ck_assert_int_eq(run(0), LUO_OK);
    return fake.summary.total_s;
}

static double log_uniform(luo_rng *g, double lo, double hi)
{
    return lo * pow(hi / lo, luo_rng_u(g));
}

/* Devices become slow, up to 1000 times: from the start of the second step on, or at dates from the
 * start to 30 healthy steps later. */
static int32_t draw_slowness(luo_rng *g, int32_t ndevices, double step_s)
{
    const int32_t n = 1 + (int32_t)(luo_rng_u(g) * SLOW);
    for (int32_t i = 0; i < n; i++) {
        const int32_t d = (int32_t)(luo_rng_u(g) * ndevices);
        const bool by_step = luo_rng_u(g) < 0.4;
        const double at_s = luo_rng_u(g) < 0.3 ? 0 : log_uniform(g, 0.01, 30) * step_s;
        const double life_s = luo_rng_u(g) < 0.5 ? 0 : log_uniform(g, 0.1, 100) * step_s;
        events[i] = fixture_event(luo_arena_printf(arena, "s%d", i), LUO_EVENT_STRAGGLER,
                                  luo_arena_printf(arena, "device:%d", d), at_s, life_s);
        events[i].slowdown = log_uniform(g, 1.2, i == 0 ? 1000 : 1.8);
        if (!by_step) continue;
        events[i].trigger = LUO_AT_STEP;
        events[i].at[0] = events[i].at[1] = 1;
    }
    return n;
}

/* ---- one device: the work of a step goes by at 1 / (product of slownesses) ---- */

static double from_s[SLOW]; /* of each event; INFINITY: not known yet */

static bool is_on(int32_t i, double t)
{
    const double life = events[i].life.duration_s;
    return from_s[i] <= t && (life == 0 || t < from_s[i] + life);
}

static double end_of(int32_t n, double t, double work_s)
{
    for (;;) {
        double f = 1, next = INFINITY;
        for (int32_t i = 0; i < n; i++) {
            const double over = from_s[i] + events[i].life.duration_s;
            if (is_on(i, t)) f *= events[i].slowdown;
            if (from_s[i] > t) next = fmin(next, from_s[i]);
            if (over > t && events[i].life.duration_s > 0) next = fmin(next, over);
        }
        if (t + work_s * f <= next) return t + work_s * f;
        work_s -= (next - t) / f;
        t = next;
    }
}

/* Events by step begin when that step does. */
static void date_events(int32_t n, int32_t step, double t)
{
    for (int32_t i = 0; i < n; i++)
        if (events[i].trigger == LUO_AT_S)
            from_s[i] = events[i].at[0];
        else if (step == 0)
            from_s[i] = INFINITY;
        else if (step == 1)
            from_s[i] = t;
}

START_TEST(slowness_is_integrated)
{
    static const int32_t one[] = {1, 1, 1};
    fold = true;
    const double step_s = quiet_step(one);
    LUO_PROP_FOR(seed, 40)
    {
        luo_rng g = luo_rng_seed(seed);
        prepare(3, one);
        const int32_t n = draw_slowness(&g, 1, step_s);
        ck_assert_int_eq(run(n), LUO_OK);
        ck_assert_int_eq(fake.nsteps, 3);
        double end_s = 0;
        for (int32_t k = 0; k < 3; k++) {
            date_events(n, k, end_s);
            end_s = end_of(n, end_s, step_s);
            ck_assert_msg(fabs(fake.steps[k].end_s - end_s) < 1e-9 * (1 + end_s),
                          "seed %llu: step %d ends at %.12g s, not at %.12g s",
                          (unsigned long long)seed, k, fake.steps[k].end_s, end_s);
        }
    }
}
END_TEST

/* ---- several devices: a failure is noticed in the step it falls into, and ends it ---- */

static void expect_lost_at(uint64_t seed, int32_t nsteps, int32_t device, double at_s, double end_s)
{
    const luo_row_timeline *last = NULL;
    for (int32_t i = 0; i < fake.ntime; i++)
        if (fake.time[i].kind == LUO_SPAN_STEP) last = &fake.time[i];
    ck_assert_msg(fake.nsteps == nsteps && last && last->redone &&
                      fabs(last->end_s - at_s) <= 1e-12 * at_s,
                  "seed %llu: device %d fails at %.12g s; %d steps end well, the last attempt ends "
                  "at %.12g s (without the failure: %d steps, %.12g s)",
                  (unsigned long long)seed, device, at_s, fake.nsteps, last ? last->end_s : -1,
                  nsteps, end_s);
    for (int32_t d = 0; d < DEVICES; d++)
        ck_assert_msg(last_start_s[d] <= at_s,
                      "seed %llu: an instruction starts on device %d at %.12g s, after %.12g s",
                      (unsigned long long)seed, d, last_start_s[d], at_s);
}

START_TEST(failures_are_noticed)
{
    static const int32_t shapes[][3] = {{2, 1, 1}, {4, 1, 1}, {1, 2, 2}, {2, 2, 1}, {1, 1, 4}};
    const int32_t *shape = shapes[_i / 2], used = shape[0] * shape[1] * shape[2];
    fold = _i % 2;
    const double step_s = quiet_step(shape);
    LUO_PROP_FOR(seed, 12)
    {
        luo_rng g = luo_rng_seed(seed);
        prepare(3, shape);
        const int32_t n = draw_slowness(&g, used, step_s);
        ck_assert_int_eq(run(n), LUO_OK);
        const double end_s = fake.summary.total_s, at_s = luo_rng_u(&g) * end_s;
        const double life_s = luo_rng_u(&g) < 0.3 ? 0 : log_uniform(&g, 1e-6, 2) * end_s;
        const int32_t device = (int32_t)(luo_rng_u(&g) * used);
        int32_t whole = 0;
        while (fake.steps[whole].end_s <= at_s) whole++;
        events[n] = fixture_event("gone", LUO_EVENT_FAIL,
                                  luo_arena_printf(arena, "device:%d", device), at_s, life_s);
        ck_assert_int_eq(run(n + 1), LUO_ENO);
        expect_lost_at(seed, whole, device, at_s, end_s);
    }
}
END_TEST

/* ---- a run that is told to stop within a long step ---- */

static volatile int stop;

static luo_status stop_at_event(void *ctx, const luo_row_event *row, luo_err *err)
{
    (void)ctx;
    (void)row;
    (void)err;
    stop = 1;
    return LUO_OK;
}

/* The third step would last a thousand times as long as it was thought to. */
START_TEST(stops_within_a_step)
{
    static const int32_t shape[3] = {1, 2, 1};
    luo_err err = {0};
    luo_sink sink = fake_sink;
    const luo_run_opts opts = {
        .backend = &luo_sim_backend, .comm = LUO_COMM_FLOW, .fold = true, .interrupted = &stop};
    prepare(5, shape);
    fake_reset();
    events[0] = fixture_event("slow", LUO_EVENT_STRAGGLER, "device:0", 0, 0);
    events[0].slowdown = 1000;
    events[0].trigger = LUO_AT_STEP;
    events[0].at[0] = 2;
    events[1] = fixture_event("later", LUO_EVENT_STRAGGLER, "device:0", 1e6, 0);
    events[1].slowdown = 2;
    sc.nevents = 2;
    sink.event = stop_at_event;
    ck_assert_msg(luo_run_policy(&sc, 0, &opts, &sink, &err) == LUO_OK, "%s", err.text);
    ck_assert_int_eq(fake.summary.state, LUO_INTERRUPTED);
    ck_assert_int_eq(fake.summary.steps_done, 2);
}
END_TEST

/* Steps of milliseconds after thirty years: run time itself is no finer than a tenth of a
 * microsecond there. */
START_TEST(short_steps_late)
{
    static const int32_t shape[3] = {2, 1, 1};
    const double step_s = quiet_step(shape);
    prepare(20, shape);
    spec.name = spec.label = "restart";
    spec.restart_s = 1e9;
    events[0] = fixture_event("gone", LUO_EVENT_FAIL, "device:0", 1.5 * step_s, 0.1 * step_s);
    ck_assert_int_eq(run(1), LUO_OK);
    ck_assert_int_eq(fake.summary.restarts, 1);
    ck_assert_double_gt(fake.summary.total_s, 1e9);
}
END_TEST

LUO_SUITE("backend.ahead", LUO_T(slowness_is_integrated), LUO_T_N(failures_are_noticed, 10),
          LUO_T(stops_within_a_step), LUO_T(short_steps_late))
