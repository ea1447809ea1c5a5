/* check_joint.c: uneven lengths together with slow devices: who goes to which replica, and that a
 * detector that knows the work of a step is not fooled by it. */
#include <math.h>
#include <string.h>

#include "core/plan/lengths/lengths.h"
#include "core/run/health/detect.h"
#include "core/run/lengths/joint.h"
#include "tests/check_main.h"

/* ---- places ---- */

enum { DEVICES = 8 };
static const struct {
    luo_joint_order order;
    double rate[DEVICES];
    int32_t place[DEVICES];
} rows[] = {
    {LUO_JOINT_AS_THEY_ARE, {1, 3, 1, 1, 1, 1, 1, 1}, {0, 1, 2, 3, 4, 5, 6, 7}},
    {LUO_JOINT_SLOW_LAST, {1, 1, 1, 1, 1, 1, 1, 1}, {0, 1, 2, 3, 4, 5, 6, 7}},
    {LUO_JOINT_SLOW_LAST, {1, 3, 1, 1, 1, 1, 1, 1}, {4, 5, 6, 7, 0, 2, 3, 1}},
    {LUO_JOINT_SLOW_FIRST, {1, 1, 1, 1, 1, 2, 1, 1}, {4, 6, 7, 5, 0, 1, 2, 3}},
    {LUO_JOINT_SLOW_LAST, {1, 3, 1, 2, 1, 4, 1, 1}, {0, 2, 3, 1, 4, 6, 7, 5}},
    {LUO_JOINT_SLOW_FIRST, {1, 3, 1, 2, 1, 4, 1, 1}, {4, 6, 7, 5, 0, 2, 3, 1}},
};

START_TEST(places)
{
    luo_device device[DEVICES];
    luo_arena *a = luo_arena_new(4096);
    int32_t devices[DEVICES], place[DEVICES];
    memset(device, 0, sizeof device);
    for (int32_t d = 0; d < DEVICES; d++) {
        device[d].node = d / 4;
        devices[d] = d;
    }
    const luo_cluster cluster = {.ndevices = DEVICES, .devices = device};
    luo_err err = {0};
    ck_assert_int_eq(
        luo_joint_place(a, &cluster, devices, rows[_i].rate, DEVICES, rows[_i].order, place, &err),
        LUO_OK);
    for (int32_t k = 0; k < DEVICES; k++)
        ck_assert_msg(place[k] == rows[_i].place[k], "row %d: place %d is %d", _i, k, place[k]);
    luo_arena_free(a);
}
END_TEST

/* ---- the detector ---- */

enum { STEPS = 400, LEARNED = 20 };

typedef struct cost { /* of a sequence, by its tokens, and of a step */
    double square, each, step;
} cost;
static const cost truth = {1e-9, 3e-5, 0.05};
/* What is predicted by: attention 30 % too fast, products 10 % too slow, the rest too fast. */
static const cost model = {0.7e-9, 3.3e-5, 0.04};

/* Seconds of each replica for a batch that is dealt in its order, as they are and as predicted. */
static void deal(luo_length_source *source, const luo_lengths *lengths, luo_arena *a, double *t,
                 double *predicted)
{
    const luo_batch_rule rule = {.tokens = 100000, .most = 32768, .least = 32};
    int64_t *length;
    int32_t n;
    luo_err err = {0};
    luo_arena_reset(a, 0);
    ck_assert_int_eq(luo_lengths_batch(a, lengths, &rule, 10000, source, &length, &n, &err),
                     LUO_OK);
    for (int32_t r = 0; r < DEVICES; r++) t[r] = truth.step, predicted[r] = model.step;
    for (int32_t i = 0; i < n; i++) {
        const double s = (double)length[i];
        t[i % DEVICES] += truth.square * s * s + truth.each * s;
        predicted[i % DEVICES] += model.square * s * s + model.each * s;
    }
}

/* Nobody is slow, and predictions are not quite right. What is measured over what was predicted
 * says so; the time alone, over the mean of a device's own first steps, takes long sequences for
 * slow devices. */
START_TEST(false_alarms)
{
    luo_length_part parts[LUO_PRESET_PARTS];
    luo_lengths lengths;
    luo_arena *a = luo_arena_new(1 << 16), *keep = luo_arena_new(1 << 12);
    luo_detect known, plain;
    luo_length_source source = luo_length_source_open(11);
    luo_rng noise = luo_rng_stream(11, "noise");
    double own[DEVICES] = {0}, scratch[DEVICES];
    int alarms[2] = {0, 0};
    int32_t dev[DEVICES];
    ck_assert(luo_length_preset("syn-code", 32768, parts, &lengths));
    luo_detect_init(keep, DEVICES, 5, 0.3, &known, NULL);
    luo_detect_init(keep, DEVICES, 5, 0.3, &plain, NULL);
    for (int32_t d = 0; d < DEVICES; d++) dev[d] = d;
    for (int step = 0; step < STEPS; step++) {
        double t[DEVICES], predicted[DEVICES], q[2][DEVICES];
        deal(&source, &lengths, a, t, predicted);
        for (int32_t d = 0; d < DEVICES; d++) {
            const double measured = t[d] * exp(0.02 * luo_rng_normal(&noise));
            if (step < LEARNED) own[d] += measured / LEARNED;
            q[0][d] = measured / predicted[d];
            q[1][d] = measured / own[d];
        }
        if (step < LEARNED) continue;
        for (int k = 0; k < 2; k++) {
            luo_detect *detect = k == 0 ? &known : &plain;
            const double common = luo_detect_common(detect, dev, q[k], DEVICES, scratch);
            for (int32_t d = 0; d < DEVICES; d++)
                alarms[k] += luo_detect_push(detect, d, q[k][d] / common, NULL);
        }
    }
    printf("false alarms of %d devices in %d steps: %d by predicted work, %d by time\n", DEVICES,
           STEPS - LEARNED, alarms[0], alarms[1]);
    ck_assert_int_eq(alarms[0], 0);
    ck_assert_int_gt(alarms[1], 20);
    luo_arena_free(a);
    luo_arena_free(keep);
}
END_TEST
LUO_SUITE("run.joint", LUO_T_N(places, LUO_ROWS(rows)), LUO_T(false_alarms))
