/* bench_driver.c: what the driver itself costs, on a backend that costs nothing:
 * W4's size (1,024 devices, 70B, 10,000 steps, 100 events) under each policy. */
#include <sys/resource.h>
#include <time.h>

#include "tests/fake_backend.h"

static const luo_model llama70 = {.name = "llama-70b", .family = LUO_FAMILY_LLAMA, .layers = 80,
                                  .hidden = 8192, .ffn_hidden = 28672, .heads = 64, .kv_heads = 8,
                                  .head_dim = 128, .vocab = 32000, .max_sequence_tokens = 4096,
                                  .causal = true, .rope_base = 10000, .norm_eps = 1e-6,
                                  .dtype = LUO_BF16};

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* A step takes 20 s; a slow device makes its own compute slower and nothing else. */
static luo_status idle_run(luo_backend_state *b, const luo_step_request *q, luo_step_result *out,
                           luo_err *err)
{
    (void)b;
    (void)err;
    *out = (luo_step_result){.start_s = fake.now_s, .failed_device = -1, .failed_link = -1,
                             .n = q->programs->n, .end_s = fake.now_s + 20};
    for (int32_t i = 0; i < q->nchanges && q->changes[i].at_s < out->end_s; i++) {
        if (q->changes[i].kind != LUO_CHANGE_DOWN) continue;
        for (int32_t k = 0; k < q->programs->n; k++)
            if (q->programs->at[k].device == q->changes[i].target) {
                out->status = LUO_EPEER;
                out->end_s = q->changes[i].at_s;
            }
    }
    fake.now_s = out->end_s;
    for (int32_t k = 0; k < out->n; k++) {
        fake.predicted_s[k] = 8;
        fake.compute_s[k] = 8 * q->world->slowdown[q->programs->at[k].device];
        fake.parts[k] = (luo_parts){.compute_s = 12, .bubble_s = 8};
    }
    out->parts = fake.parts;
    out->compute_s = fake.compute_s;
    out->predicted_s = fake.predicted_s;
    return LUO_OK;
}

static luo_scenario day(luo_arena *a)
{
    luo_event *ev = LUO_NEW_N(a, luo_event, 100);
    for (int i = 0; i < 100; i++) {
        const luo_event_kind kind = i < 60 ? LUO_EVENT_STRAGGLER
                                   : i < 90 ? LUO_EVENT_FAIL : LUO_EVENT_LINK;
        ev[i] = fixture_event(luo_arena_printf(a, "e%d", i), kind,
                              i < 80 ? "any device:[0-1023]" : i < 90 ? "any node:g0"
                                                                      : "any link:g1", 0, 0);
        ev[i].trigger = LUO_BETWEEN_S;
        ev[i].at[1] = 200000;
        ev[i].bandwidth_factor = 0.5;
        ev[i].life = (luo_life){.dist = LUO_DIST_LOGNORMAL, .median_s = 3600, .sigma = 0.8};
    }
    luo_cluster *c = fixture_cluster(a, 2, 64, 8);
    c->storage_read_bytes_per_s = c->storage_write_bytes_per_s = 40e9;
    return (luo_scenario){.name = "w4", .seed = 1, .cluster = c, .model = &llama70,
                          .planner = "uniform", .steps = 10000, .batch_sequences = 1024,
                          .npolicies = 1, .nevents = 100, .events = ev, .detect_fail_s = 30,
                          .process_start_s = 60, .communicator_s = 0.05,
                          .checkpoint = {.kind = LUO_CHECKPOINT_STEPS, .every_steps = 100}};
}

START_TEST(heterogeneous_day)
{
    static const char *const names[] = {"static", "restart", "rebalance"};
    luo_backend idle = fake_backend;
    idle.run_ranks = idle_run;
    {
        const int i = _i;
        luo_arena *a = luo_arena_new(1 << 20);
        luo_err err = {0};
        luo_policy_spec spec = {.name = names[i], .label = names[i], .restart_s = -1,
                                .threshold_slowdown = 1.2, .replan_gap = 0.3,
                                .payback_steps = 50, .planner_s = 10, .window_steps = 5};
        luo_scenario sc = day(a);
        sc.policies = &spec;
        luo_stack_default(&sc.stack);
        if (i != 1) sc.nevents = 60; /* only restart survives failures */
        fake_reset();
        fake.quiet = true;
        const luo_run_opts opts = {.backend = &idle};
        luo_sink sink = fake_sink;
        sink.plan = NULL;
        const double began = seconds();
        const luo_status st = luo_run_policy(&sc, 0, &opts, &sink, &err);
        if (st != LUO_OK) printf("driver_%s failed: %s\n", names[i], err.text);
        struct rusage use;
        getrusage(RUSAGE_SELF, &use);
        printf("driver_%s_10000_steps %.2f s\n", names[i], seconds() - began);
        printf("driver_%s_plans %d plans, %d restarts, %d switches\n", names[i],
               fake.summary.nplans, fake.summary.restarts, fake.summary.switches);
        printf("driver_%s_memory %ld MiB\n", names[i], use.ru_maxrss / 1024);
        luo_arena_free(a);
    }
    fflush(stdout);
}
END_TEST
LUO_MAIN("bench.driver", heterogeneous_day, 3)
