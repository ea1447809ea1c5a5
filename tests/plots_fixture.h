/* plots_fixture.h: a run made by hand with all that figures are drawn from. */
#ifndef LUO_TESTS_PLOTS_FIXTURE_H
#define LUO_TESTS_PLOTS_FIXTURE_H
#include "tests/check_main.h"
#include "tests/run_fixture.h"

/* A run of n steps; after half of them a failure, a restart, and two steps again. bare: no events,
 * nothing traced. event: its id. */
static inline void fix_run_of(fixture *f, const char *dir, const char *name, int n, double factor,
                              bool bare, const char *event, const char *target)
{
    luo_rundir_opts opts = fix_opts(f);
    luo_rundir *r = NULL;
    luo_err err = {0};
    double t = 0;
    opts.policy = name;
    ck_assert_msg(
        luo_rundir_open(luo_arena_printf(f->arena, "%s/%s", dir, name), &opts, &r, &err) == LUO_OK,
        "%s", err.text);
    const luo_sink *k = luo_rundir_sink(r);
    ck_assert_int_eq(k->plan(k->ctx, 0, &f->plan, &f->set, &err), LUO_OK);
    for (int32_t d = 0; d < FIX_DEVICES; d++) {
        const luo_row_memory m = {.device = d,
                                  .stage = d / 2,
                                  .capacity_bytes = 96LL << 30,
                                  .reserved_bytes = 6LL << 30,
                                  .memory = {.weights = 20LL << 30,
                                             .gradients = 20LL << 30,
                                             .optimizer = 30LL << 30,
                                             .activations = (d == 3 ? 40LL : 10LL) << 30,
                                             .peak = (d == 3 ? 110LL : 80LL) << 30}};
        ck_assert_int_eq(k->memory(k->ctx, &m, &err), LUO_OK);
    }
    for (int i = 0; i < n; i++) {
        const double dur = 0.15 * factor * (1 + 0.1 * (i % 7 == 3));
        const int step = i > n / 2 ? i - 2 : i;
        const luo_row_step row = {
            .step = step,
            .attempt = i > n / 2 && i <= n / 2 + 2,
            .tokens = 16,
            .start_s = t,
            .end_s = t + dur,
            .tokens_per_s = 16 / dur,
            .slowest_device = -1,
            .max_slowdown = 1,
            .parts = {.compute_s = 0.6 * dur, .tp_s = 0.2 * dur, .bubble_s = 0.2 * dur}};
        const luo_row_timeline line = {.start_s = t,
                                       .end_s = t + dur,
                                       .kind = LUO_SPAN_STEP,
                                       .blocking = true,
                                       .step = step,
                                       .event = ""};
        const luo_step_result result = fix_result(f);
        ck_assert_int_eq(k->step(k->ctx, &row, &err), LUO_OK);
        ck_assert_int_eq(k->timeline(k->ctx, &line, &err), LUO_OK);
        if (i == 0 && !bare)
            ck_assert_int_eq(k->ops(k->ctx, 0, 0, 0, 0, &f->set, &result, &err), LUO_OK);
        t += dur;
        if (i != n / 2 || bare) continue;
        const luo_row_event e = {.t_s = t,
                                 .id = event,
                                 .phase = LUO_EVENT_PHASE_FIRED,
                                 .kind = "fail",
                                 .target = target,
                                 .detail = "",
                                 .step = step};
        const luo_row_timeline restart = {.start_s = t,
                                          .end_s = t + 1,
                                          .kind = LUO_SPAN_RESTART,
                                          .blocking = true,
                                          .step = step,
                                          .event = event};
        const luo_row_switch sw = {.t_s = t,
                                   .to_plan = 0,
                                   .event = event,
                                   .detect_s = 0.2,
                                   .move_s = 0.8,
                                   .total_s = 1,
                                   .source = "devices"};
        ck_assert_int_eq(k->event(k->ctx, &e, &err), LUO_OK);
        ck_assert_int_eq(k->timeline(k->ctx, &restart, &err), LUO_OK);
        ck_assert_int_eq(k->switched(k->ctx, &sw, &err), LUO_OK);
        t += 1;
    }
    for (int32_t d = 0; d < FIX_DEVICES; d++) {
        const luo_row_device row = {.device = d,
                                    .up_s = t,
                                    .used_s = t,
                                    .mean_slowdown = 1,
                                    .caused_slowdown = bare ? -1 : 1 + 0.1 * d};
        ck_assert_int_eq(k->device(k->ctx, &row, &err), LUO_OK);
    }
    if (!bare) ck_assert_int_eq(k->links(k->ctx, f->links, f->cluster.nlinks, t, &err), LUO_OK);
    if (!bare)
        ck_assert_int_eq(k->link_windows(k->ctx, &f->windows, f->links, t, &err), LUO_OK);
    const luo_run_summary sum = {.policy = name,
                                 .backend = "sim",
                                 .state = bare ? LUO_LOST : LUO_COMPLETE,
                                 .steps_done = n - 2,
                                 .steps_redone = 2,
                                 .tokens = 16 * n,
                                 .total_s = t,
                                 .step_mean_s = 0.15,
                                 .tokens_per_s = 100,
                                 .kept_tokens = 16 * n,
                                 .extent_s = t,
                                 .mfu_ratio = 0.3,
                                 .time = {.compute_s = 0.5 * t, .bubble_s = 0.4 * t},
                                 .redone_s = 0.1 * t};
    ck_assert_int_eq(k->summary(k->ctx, &sum, &err), LUO_OK);
    ck_assert_int_eq(luo_rundir_close(r, sum.state, 0, &err), LUO_OK);
}

static inline void fix_run(fixture *f, const char *dir, const char *name, int n, double factor,
                           bool bare)
{
    fix_run_of(f, dir, name, n, factor, bare, "gpu1", "device:1");
}
#endif
