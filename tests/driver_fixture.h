/* driver_fixture.h: a small run for tests of the driver on the backend of fake_backend.h.
 *
 * Model: 24 layers. Cluster: 4 nodes of 2 devices. Plan: 2 pipelines of 2 stages of 2 devices,
 * 16 micro-batches; pipeline i stage s on node 2i + s. A stage of 12 layers takes 0.12 s, a
 * pipeline with m = 8: (8 + 1) * 0.12 = 1.08 s a step. */
#ifndef LUO_TESTS_DRIVER_FIXTURE_H
#define LUO_TESTS_DRIVER_FIXTURE_H
#include "tests/fake_backend.h"

static const double STEP = 1.08;
static const luo_model model = {.name = "llama-test", .family = LUO_FAMILY_LLAMA, .layers = 24,
                                .hidden = 512, .ffn_hidden = 1024, .heads = 8, .kv_heads = 8,
                                .head_dim = 64, .vocab = 1024, .max_sequence_tokens = 256,
                                .causal = true, .rope_base = 10000, .norm_eps = 1e-6,
                                .dtype = LUO_BF16};
static luo_event events[8];
static luo_policy_spec spec;
static luo_scenario sc;
static luo_arena *arena;
static luo_run_opts opts; /* set anew by prepare */

static inline luo_plan *base_plan(const luo_cluster *c)
{
    static const int32_t dev[] = {0, 1, 2, 3, 4, 5, 6, 7};
    static const luo_range layers[] = {{0, 12}, {12, 24}};
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
    *p = (luo_plan){.name = "base", .model = "llama-test", .cluster = "small", .layers = 24,
                    .devices = c->ndevices, .dtype = LUO_BF16, .sequence_tokens = 256,
                    .micro_batch_sequences = 1, .schedule = LUO_SCHED_1F1B, .chunks = 1,
                    .npipelines = 2, .pipelines = pl};
    return p;
}

/* A scenario of `steps` steps under one policy with nevents of `events`. */
static inline void prepare(const char *policy, int64_t steps, int32_t nevents)
{
    if (arena) luo_arena_free(arena);
    arena = luo_arena_new(1 << 16);
    fake_reset();
    luo_cluster *c = fixture_cluster(arena, 1, 4, 2);
    c->storage_read_bytes_per_s = c->storage_write_bytes_per_s = 1e9;
    spec = (luo_policy_spec){.name = policy, .label = policy, .restart_s = -1,
                             .threshold_slowdown = 1.2, .replan_gap = 0.3, .payback_steps = 50,
                             .planner_s = 2, .window_steps = 5, .top_k = 32,
                             .payback_given = true};
    sc = (luo_scenario){.name = "t", .seed = 7, .cluster = c, .model = &model,
                        .plan = base_plan(c), .steps = steps, .npolicies = 1, .policies = &spec,
                        .nevents = nevents, .events = events, .detect_fail_s = 30,
                        .process_start_s = 60, .communicator_s = 0.05, .truth = true};
    luo_stack_default(&sc.stack);
    opts = (luo_run_opts){.backend = &fake_backend, .trace = {.kind = LUO_TRACE_NONE}};
}

static inline luo_status run(luo_err *err)
{
    return luo_run_policy(&sc, 0, &opts, &fake_sink, err);
}

static inline void run_ok(void)
{
    luo_err err = {0};
    ck_assert_msg(run(&err) == LUO_OK, "%s", err.text);
    ck_assert_int_eq(fake.summary.state, LUO_COMPLETE);
}

/* Blocking rows tile the run, and the parts of `time` sum to it (docs/results.md). */
static inline void check_books(void)
{
    const luo_run_summary *s = &fake.summary;
    double at = 0, steps = 0;
    for (int32_t i = 0; i < fake.ntime; i++) {
        if (!fake.time[i].blocking) continue;
        ck_assert_double_eq_tol(fake.time[i].start_s, at, 1e-9 * (1 + at));
        ck_assert_double_gt(fake.time[i].end_s, fake.time[i].start_s);
        at = fake.time[i].end_s;
    }
    ck_assert_double_eq_tol(at, s->total_s, 1e-9 * s->total_s);
    const luo_parts *p = &s->time;
    const double parts = p->compute_s + p->recompute_s + p->tp_s + p->ep_s + p->cp_s + p->pp_s +
                         p->dp_s + p->move_s + p->io_s + p->bubble_s;
    const double sum = parts + s->redone_s + s->detect_s + s->plan_s + s->specialize_s +
                       s->switch_s + s->checkpoint_s + s->restart_s + s->wait_s;
    ck_assert_double_eq_tol(sum, s->total_s, 1e-9 * s->total_s);
    for (int32_t i = 0; i < fake.nsteps; i++) {
        const luo_row_step *r = &fake.steps[i];
        steps += r->end_s - r->start_s;
        ck_assert_double_eq_tol(r->parts.compute_s + r->parts.bubble_s, r->end_s - r->start_s,
                                1e-9 * (r->end_s - r->start_s));
    }
    ck_assert_double_le(parts, steps * (1 + 1e-9));
}

/* Seconds of the last step. */
static inline double last_step(void)
{
    const luo_row_step *s = &fake.steps[fake.nsteps - 1];
    return s->end_s - s->start_s;
}

/* Has a plan of the run this device? */
static inline bool holds(const luo_plan *p, int32_t device)
{
    int32_t n, *dev;
    ck_assert_int_eq(luo_plan_devices(fake.arena, p, &dev, &n, NULL), LUO_OK);
    for (int32_t i = 0; i < n; i++)
        if (dev[i] == device) return true;
    return false;
}

static inline const luo_row_event *event_row(const char *phase, int skip)
{
    for (int32_t i = 0; i < fake.nevents; i++)
        if (strcmp(luo_event_phase_name(fake.events[i].phase), phase) == 0 && skip-- == 0)
            return &fake.events[i];
    ck_abort_msg("no event row `%s`", phase);
}
#endif
