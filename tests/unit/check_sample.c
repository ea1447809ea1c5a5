/* check_sample.c: what of a step reaches the detector (docs/planners.md#measuring-rates-in-a-run),
 * on a backend that answers from a formula: eight devices, all in the plan. */
#include "tests/driver_fixture.h"

/* Slow by 2 from the boundary before step 5 on. */
static void straggler(int64_t steps)
{
    events[0] = fixture_event("slow", LUO_EVENT_STRAGGLER, "device:1", 5.4, 0);
    prepare("static", steps, 1);
}

static void rate_is(int32_t note, double want)
{
    long long step;
    int device;
    double was, now;
    ck_assert_int_eq(sscanf(fake.notes[note], "step %lld: device %d: rate %lf -> %lf", &step,
                            &device, &was, &now), 4);
    ck_assert_double_eq_tol(now, want, 1e-5);
}

/* State is copied while a step runs that begins with a checkpoint: its sample is left out. */
START_TEST(steps_with_checkpoints)
{
    static const struct {
        int64_t every, seen;
    } rows[] = {{0, 8}, {100, 8}, {6, 9}, {7, 9}, {9, 8}, {2, 11}, {1, 12}};
    straggler(40);
    if (rows[_i].every > 0) sc.checkpoint.kind = LUO_CHECKPOINT_STEPS;
    sc.checkpoint.every_steps = rows[_i].every;
    sc.checkpoint.blocking = true; /* in the background they would wait for each other */
    ((luo_cluster *)sc.cluster)->storage_write_bytes_per_s = 0;
    run_ok();
    check_books();
    ck_assert_int_eq(fake.summary.detect_true, 1);
    ck_assert_int_eq(event_row("detected", 0)->step, rows[_i].seen);
}
END_TEST

/* What all devices measure alike is the profile's fault, up to a quarter. */
START_TEST(all_alike)
{
    straggler(30);
    spec.replan_gap = 0.2;
    fake.machine = _i ? 0.85 : 1.24;
    run_ok();
    ck_assert_int_eq(fake.summary.detect_false, 0);
    ck_assert_int_eq(fake.summary.detect_true, 1);
    ck_assert_int_eq(fake.nnotes, 1);
    rate_is(0, 2);
}
END_TEST

/* Beyond that they are slow. */
START_TEST(all_slow)
{
    prepare("static", 30, 0);
    fake.machine = 2;
    run_ok();
    ck_assert_int_eq(fake.summary.detect_false, 8);
    for (int32_t i = 0; i < 8; i++) rate_is(i, 1.6);
}
END_TEST

/* A half of the devices is no majority, neither when it gets slow nor when it recovers. */
START_TEST(half_slow)
{
    events[0] = fixture_event("half", LUO_EVENT_STRAGGLER, "device:[0-3]", 5.4, 40);
    events[0].slowdown = 1.5;
    prepare("static", 60, 1);
    run_ok();
    ck_assert_int_eq(fake.nnotes, 8);
    for (int32_t i = 0; i < 4; i++) rate_is(i, 1.5);
    for (int32_t i = 4; i < 8; i++) rate_is(i, 1);
}
END_TEST

/* Probes have noise, and are good enough to bring a device back. */
START_TEST(noisy_probes)
{
    events[0] = fixture_event("slow", LUO_EVENT_STRAGGLER, "device:1", 5.4, 300);
    events[0].slowdown = 3;
    prepare("restart", 600, 1);
    spec.payback_steps = 1e7;
    sc.compute_sigma = 0.2;
    run_ok();
    check_books();
    ck_assert_int_eq(fake.summary.restarts, 2);
    ck_assert_double_gt(event_row("restarted", 1)->t_s, 305.4);
}
END_TEST

START_TEST(odd_from_the_start)
{
    static const luo_health h = {.target = "device:2", .slowdown = 1.5};
    prepare("static", 10, 0);
    ((luo_cluster *)sc.cluster)->health = &h;
    ((luo_cluster *)sc.cluster)->nhealth = 1;
    run_ok();
    ck_assert_int_eq(fake.nnotes, 2);
    ck_assert_str_eq(fake.notes[0], "device 2: heterogeneous from start: 1.411765 of the mean of "
                                    "its group");
    rate_is(1, 1.5);
}
END_TEST
LUO_SUITE("run.sample", LUO_T_N(steps_with_checkpoints, 7), LUO_T_N(all_alike, 2), LUO_T(all_slow),
          LUO_T(half_slow), LUO_T(noisy_probes), LUO_T(odd_from_the_start))
