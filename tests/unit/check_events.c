/* check_events.c: every kind of event, every trigger, overlaps, draws
 * (docs/formats.md#luoshuscenario1 and 9) on a cluster of 2 nodes of 4 devices, node g0-0 in rack
 * r0 and g0-1 in r1. */
#include <math.h>

#include "core/base/rng.h"
#include "core/run/events/events.h"
#include "core/run/run.h"
#include "tests/cluster_fixture.h"

enum { LOG_MAX = 64 };
static int64_t nrows; /* of count_row */
static struct {
    luo_arena *a;
    luo_scenario sc;
    luo_events *e;
    luo_event events[12];
    luo_arrivals processes[2];
    int rows;
    char text[LOG_MAX][96]; /* "12.000 fired id target" */
} f;

static luo_status keep_row(void *ctx, const luo_row_event *row, luo_err *err)
{
    (void)ctx;
    (void)err;
    ck_assert_int_lt(f.rows, LOG_MAX);
    snprintf(f.text[f.rows++], sizeof f.text[0], "%.3f %s %s %s", row->t_s,
             luo_event_phase_name(row->phase), row->id, row->target);
    return LUO_OK;
}

static luo_status count_row(void *ctx, const luo_row_event *row, luo_err *err)
{
    (void)ctx;
    (void)row;
    (void)err;
    nrows++;
    return LUO_OK;
}

static luo_status open_logged(int32_t nevents, int32_t nprocesses, luo_event_log log, luo_err *err)
{
    f.sc = (luo_scenario){.name = "t", .seed = 7, .cluster = fixture_cluster(f.a, 1, 2, 4),
                          .nevents = nevents, .events = f.events, .nprocesses = nprocesses,
                          .processes = f.processes};
    f.rows = 0;
    return luo_events_new(f.a, &f.sc, log, &f.e, err);
}

static luo_status open_events(int32_t nevents, int32_t nprocesses, luo_err *err)
{
    return open_logged(nevents, nprocesses, (luo_event_log){.row = keep_row}, err);
}

static void start(int32_t nevents, int32_t nprocesses)
{
    luo_err err = {0};
    f.a = luo_arena_new(1 << 16);
    ck_assert_msg(open_events(nevents, nprocesses, &err) == LUO_OK, "%s", err.text);
}

static void to(double t)
{
    luo_err err = {0};
    ck_assert_msg(luo_events_advance(f.e, t, 0, &err) == LUO_OK, "%s", err.text);
}

static double slow(int32_t dev)
{
    return luo_events_world(f.e)->slowdown[dev];
}

static bool up(int32_t dev)
{
    return luo_events_world(f.e)->up[dev];
}

static int32_t link_of(const char *name)
{
    const int32_t l = luo_cluster_find_link(f.sc.cluster, name);
    ck_assert_int_ge(l, 0);
    return l;
}

static double factor(const char *name)
{
    return luo_events_world(f.e)->link_factor[link_of(name)];
}

START_TEST(ramp_rises_in_ten_steps)
{
    f.events[0] = fixture_event("a", LUO_EVENT_STRAGGLER, "device:3", 100, 50);
    f.events[0].slowdown = 3;
    f.events[0].ramp_s = 20;
    start(1, 0);
    const luo_change *c;
    int32_t n;
    ck_assert_double_eq(luo_events_next(f.e), 100);
    ck_assert_int_eq(luo_events_peek(f.e, &(double){1000}, &c, &n, NULL), LUO_OK);
    ck_assert_int_eq(n, 11);
    for (int32_t k = 1; k <= 10; k++) {
        ck_assert_int_eq(c[k - 1].kind, LUO_CHANGE_SLOWDOWN);
        ck_assert_int_eq(c[k - 1].target, 3);
        ck_assert_double_eq_tol(c[k - 1].at_s, 100 + 2 * k, 1e-9);
        ck_assert_double_eq_tol(c[k - 1].value, 1 + 0.2 * k, 1e-12);
    }
    ck_assert_double_eq(c[10].at_s, 150);
    ck_assert_double_eq(c[10].value, 1);
    ck_assert_double_eq(slow(3), 1); /* looking ahead commits nothing */
    to(101);
    ck_assert_double_eq(slow(3), 1);
    to(110);
    ck_assert_double_eq_tol(slow(3), 2, 1e-12);
    to(1000);
    ck_assert_double_eq(slow(3), 1);
    ck_assert_str_eq(f.text[0], "100.000 fired a device:3");
    ck_assert_str_eq(f.text[1], "150.000 ended a device:3");
}
END_TEST

START_TEST(slowdowns_and_factors_multiply)
{
    f.events[0] = fixture_event("a", LUO_EVENT_STRAGGLER, "device:[1-2]", 10, 20);
    f.events[1] = fixture_event("b", LUO_EVENT_STRAGGLER, "device:2", 20, 20);
    f.events[1].slowdown = 1.5;
    f.events[2] = fixture_event("c", LUO_EVENT_LINK, "link:g0-0/nic1", 10, 20);
    f.events[2].bandwidth_factor = 0.5;
    f.events[2].extra_latency_s = 5e-6;
    f.events[3] = fixture_event("d", LUO_EVENT_LINK, "link:g0-0/nic1", 20, 20);
    f.events[3].bandwidth_factor = 0.25;
    f.events[3].extra_latency_s = 1e-6;
    start(4, 0);
    const int32_t l = link_of("g0-0/nic1");
    to(25);
    ck_assert_double_eq(slow(1), 2);
    ck_assert_double_eq(slow(2), 3);
    ck_assert_double_eq(factor("g0-0/nic1"), 0.125);
    ck_assert_double_eq_tol(luo_events_world(f.e)->link_extra_latency_s[l], 6e-6, 1e-18);
    to(35);
    ck_assert_double_eq(slow(1), 1);
    ck_assert_double_eq(slow(2), 1.5);
    ck_assert_double_eq(factor("g0-0/nic1"), 0.25);
    to(100);
    ck_assert_double_eq(slow(2), 1);
    ck_assert_double_eq(factor("g0-0/nic1"), 1);
    ck_assert_double_eq(luo_events_world(f.e)->link_extra_latency_s[l], 0);
}
END_TEST

/* Products and sums beyond the range of their quantity are cut, the first is kept to be told; when
 * effects end, what is left counts as if nothing had been cut. */
START_TEST(overlaps_are_cut)
{
    for (int i = 0; i < 3; i++) {
        f.events[i] = fixture_event("a", LUO_EVENT_STRAGGLER, "device:2", 10 * (i + 1), 100);
        f.events[i].slowdown = 1e4;
        f.events[3 + i] = fixture_event("c", LUO_EVENT_LINK, "link:g0-0/nic1", 10, 100);
        f.events[3 + i].bandwidth_factor = 1e-4;
        f.events[3 + i].extra_latency_s = 600;
    }
    start(6, 0);
    const int32_t l = link_of("g0-0/nic1");
    to(5);
    ck_assert_ptr_null(luo_events_overlap(f.e)->what);
    to(35);
    const luo_overlap *o = luo_events_overlap(f.e);
    ck_assert_str_eq(o->what, "bandwidth factors of link");
    ck_assert_str_eq(o->name, "g0-0/nic1");
    ck_assert(o->at_s == 10 && o->cut == 1e-6);
    ck_assert_double_eq(slow(2), 1e6);
    ck_assert_double_eq(factor("g0-0/nic1"), 1e-6);
    ck_assert_double_eq(luo_events_world(f.e)->link_extra_latency_s[l], 1e3);
    to(125);
    ck_assert_double_eq(slow(2), 1e4);
    to(200);
    ck_assert_double_eq(slow(2), 1);
    ck_assert_double_eq(factor("g0-0/nic1"), 1);
    luo_arena_free(f.a);
}
END_TEST

/* Which devices and links a failure takes, by its target. */
static const struct {
    const char *target, *down; /* digits: devices that must be down */
    const char *nic;           /* a link that must be down */
} fails[] = {
    {"device:5", "5", NULL},           {"node:g0-1", "4567", "g0-1/nic0"},
    {"rack:r0", "0123", "g0-0/nic1"},  {"group:g0", "01234567", "g0-1/nic1"},
    {"switch:r1/leaf", "", "g0-1/nic0"}, {"link:g0-0/nic0", "", "g0-0/nic0"},
};

START_TEST(fail_takes_its_target)
{
    f.events[0] = fixture_event("a", LUO_EVENT_FAIL, fails[_i].target, 10, 30);
    start(1, 0);
    to(39);
    for (int32_t d = 0; d < 8; d++)
        ck_assert_int_eq(!up(d), strchr(fails[_i].down, '0' + d) != NULL);
    if (fails[_i].nic) ck_assert_double_eq(factor(fails[_i].nic), 0);
    to(40);
    for (int32_t d = 0; d < 8; d++) ck_assert(up(d));
    if (fails[_i].nic) ck_assert_double_eq(factor(fails[_i].nic), 1);
}
END_TEST

START_TEST(down_until_the_last_hold_ends)
{
    f.events[0] = fixture_event("dev", LUO_EVENT_FAIL, "device:1", 10, 100);
    f.events[1] = fixture_event("node", LUO_EVENT_FAIL, "node:g0-0", 20, 20);
    f.events[2] = fixture_event("again", LUO_EVENT_FAIL, "device:1", 30, 1000);
    f.events[3] = fixture_event("slow", LUO_EVENT_STRAGGLER, "device:1", 35, 10);
    f.events[4] = fixture_event("late", LUO_EVENT_STRAGGLER, "device:1", 500, 10);
    start(5, 0);
    to(50);
    ck_assert(up(0));
    ck_assert(!up(1)); /* its own failure lasts */
    to(110);
    ck_assert(up(1));
    ck_assert_str_eq(f.text[2], "30.000 ignored again device:1");
    ck_assert_str_eq(f.text[3], "35.000 ignored slow device:1");
    const char *const *never;
    int32_t n;
    ck_assert_int_eq(luo_events_never(f.e, f.a, &never, &n, NULL), LUO_OK);
    ck_assert_int_eq(n, 1); /* what was ignored has its row, and is not told again */
    ck_assert_str_eq(never[0], "late");
    ck_assert_int_eq(luo_events_fired(f.e), 2);
}
END_TEST

START_TEST(join_ends_failures)
{
    f.events[0] = fixture_event("a", LUO_EVENT_FAIL, "node:g0-1", 10, 0);
    f.events[1] = fixture_event("b", LUO_EVENT_JOIN, "device:5", 20, 0);
    f.events[2] = fixture_event("c", LUO_EVENT_JOIN, "node:g0-1", 30, 0);
    f.events[3] = fixture_event("d", LUO_EVENT_JOIN, "node:g0-1", 40, 0);
    start(4, 0);
    to(25);
    ck_assert(up(5));
    ck_assert(!up(4));
    to(50);
    ck_assert(up(4));
    ck_assert_double_eq(factor("g0-1/nic0"), 1);
    ck_assert_str_eq(f.text[2], "30.000 ended a node:g0-1");
    ck_assert_str_eq(f.text[3], "30.000 fired c node:g0-1");
    ck_assert_str_eq(f.text[4], "40.000 ignored d node:g0-1");
    int32_t n;
    const luo_occurrence *o = luo_events_occurrences(f.e, &n);
    ck_assert_int_eq(n, 3);
    ck_assert_double_eq(o[0].end_s, 30);
}
END_TEST

/* What was repaired does not fall again, though it was up at that moment. */
START_TEST(join_ends_a_flap_that_is_up)
{
    f.events[0] = fixture_event("a", LUO_EVENT_FLAP, "node:g0-1", 10, 0);
    f.events[0].down_s = 5;
    f.events[0].up_s = 100;
    f.events[1] = fixture_event("b", LUO_EVENT_FAIL, "device:5", 20, 0);
    f.events[2] = fixture_event("c", LUO_EVENT_JOIN, "node:g0-1", 25, 0);
    start(3, 0);
    to(24);
    ck_assert(up(4) && !up(5));
    to(26);
    ck_assert(up(4) && up(5));
    to(117);
    ck_assert(up(4) && up(5));
    ck_assert_str_eq(f.text[2], "25.000 ended a node:g0-1");
    ck_assert_str_eq(f.text[3], "25.000 ended b device:5");
    ck_assert_str_eq(f.text[4], "25.000 fired c node:g0-1");
}
END_TEST

START_TEST(leave_is_announced)
{
    f.events[0] = fixture_event("a", LUO_EVENT_LEAVE, "node:g0-1", 100, 0);
    f.events[0].notice_s = 30;
    start(1, 0);
    to(69);
    ck_assert(!luo_events_leaving(f.e)[4]);
    to(70);
    ck_assert(luo_events_leaving(f.e)[4]);
    ck_assert(!luo_events_leaving(f.e)[3]);
    ck_assert(up(4));
    to(100);
    ck_assert(!up(4));
    ck_assert(!luo_events_leaving(f.e)[4]);
}
END_TEST

START_TEST(flap_alternates)
{
    f.events[0] = fixture_event("a", LUO_EVENT_FLAP, "link:g0-0/nic0", 100, 25);
    f.events[0].down_s = 2;
    f.events[0].up_s = 8;
    start(1, 0);
    static const struct { double t, factor; } at[] = {{99, 1}, {100, 0}, {101, 0}, {102, 1},
        {109, 1}, {110, 0}, {112, 1}, {121, 0}, {122, 1}, {125, 1}, {1000, 1}};
    for (int i = 0; i < LUO_ROWS(at); i++) {
        to(at[i].t);
        ck_assert_double_eq(factor("g0-0/nic0"), at[i].factor);
    }
    ck_assert(luo_events_next(f.e) == INFINITY);
}
END_TEST

START_TEST(lengths_newest_wins)
{
    f.events[0] = fixture_event("a", LUO_EVENT_LENGTHS, "", 10, 100);
    f.events[0].tokens = 8192;
    f.events[1] = fixture_event("b", LUO_EVENT_LENGTHS, "", 20, 10);
    f.events[1].tokens = 512;
    start(2, 0);
    static const struct { double t; int64_t tokens; } at[] = {{5, 0}, {15, 8192}, {25, 512},
                                                              {35, 8192}, {120, 0}};
    for (int i = 0; i < LUO_ROWS(at); i++) {
        to(at[i].t);
        ck_assert_int_eq(luo_events_tokens(f.e), at[i].tokens);
    }
}
END_TEST

/* Expected draws straight from the stream: time, pick, magnitude, life. */
START_TEST(draws_follow_the_stream)
{
    f.events[0] = fixture_event("x", LUO_EVENT_STRAGGLER, "any device:[2-5]", 0, 0);
    f.events[0].trigger = LUO_BETWEEN_S;
    f.events[0].at[0] = 50;
    f.events[0].at[1] = 150;
    f.events[0].slowdown = 0;
    f.events[0].slowdown_between[0] = 1.5;
    f.events[0].slowdown_between[1] = 3.5;
    f.events[0].life = (luo_life){.dist = LUO_DIST_LOGNORMAL, .median_s = 40, .sigma = 0.5};
    f.events[1] = f.events[0];
    f.events[1].id = "y";
    f.events[1].trigger = LUO_BETWEEN_STEPS;
    f.events[1].at[0] = 3;
    f.events[1].at[1] = 6;
    start(2, 0);
    luo_rng x = luo_rng_stream(7, "x"), y = luo_rng_stream(7, "y");
    const double t = 50 + 100 * luo_rng_u(&x);
    const int32_t dev = 2 + (int32_t)floor(4 * luo_rng_u(&x));
    const double value = 1.5 + 2 * luo_rng_u(&x), u1 = luo_rng_u(&x);
    const double life = 40 * exp(0.5 * luo_rng_normal_of(u1, luo_rng_u(&x)));
    const int64_t step = 3 + (int64_t)floor(4 * luo_rng_u(&y));
    ck_assert_double_eq(luo_events_next(f.e), t);
    to(t);
    ck_assert_double_eq(slow(dev), value);
    ck_assert_double_eq_tol(luo_events_next(f.e), t + life, 1e-9);
    to(t + life + 1);
    ck_assert_double_eq(slow(dev), 1);
    const int32_t other = 2 + (int32_t)floor(4 * luo_rng_u(&y));
    for (int64_t s = 0; s < 10; s++) {
        ck_assert_int_eq(luo_events_step(f.e, s, 1000 + (double)s, NULL), LUO_OK);
        ck_assert_int_eq(slow(other) > 1, s >= step);
    }
}
END_TEST

/* Any of the steps, the last one too, with equal chances. */
START_TEST(every_step_is_drawn)
{
    int met[4] = {0};
    for (int k = 0; k < 24; k++) {
        char id[8];
        snprintf(id, sizeof id, "e%d", k);
        f.events[0] = fixture_event(id, LUO_EVENT_STRAGGLER, "device:3", 0, 0);
        f.events[0].trigger = LUO_BETWEEN_STEPS;
        f.events[0].at[0] = 3;
        f.events[0].at[1] = 6;
        start(1, 0);
        luo_rng rng = luo_rng_stream(7, id);
        const int64_t drawn = (int64_t)floor(4 * luo_rng_u(&rng));
        met[drawn]++;
        for (int64_t s = 0; s < 10; s++) {
            ck_assert_int_eq(luo_events_step(f.e, s, 1000 + (double)s, NULL), LUO_OK);
            ck_assert_int_eq(slow(3) > 1, s >= 3 + drawn);
        }
        luo_arena_free(f.a);
    }
    for (int k = 0; k < 4; k++) ck_assert_int_gt(met[k], 0);
}
END_TEST

START_TEST(step_triggers_once)
{
    f.events[0] = fixture_event("a", LUO_EVENT_FAIL, "device:1", 0, 5);
    f.events[0].trigger = LUO_AT_STEP;
    f.events[0].at[0] = 2;
    f.events[1] = fixture_event("l", LUO_EVENT_LEAVE, "device:6", 0, 0);
    f.events[1].trigger = LUO_AT_STEP;
    f.events[1].at[0] = 3;
    f.events[1].notice_s = 4;
    f.events[2] = fixture_event("n", LUO_EVENT_LEAVE, "device:7", 0, 0); /* without a notice */
    f.events[2].trigger = LUO_AT_STEP;
    f.events[2].at[0] = 4;
    start(3, 0);
    luo_events_step(f.e, 0, 0, NULL);
    luo_events_step(f.e, 1, 10, NULL);
    ck_assert(up(1));
    luo_events_step(f.e, 2, 20, NULL);
    ck_assert(!up(1));
    luo_events_step(f.e, 2, 30, NULL); /* the step is run again: nothing fires a second time */
    ck_assert(up(1));
    luo_events_step(f.e, 3, 40, NULL);
    ck_assert(up(6));
    ck_assert(luo_events_leaving(f.e)[6]);
    to(44);
    ck_assert(!up(6));
    ck_assert_int_eq(f.rows, 4);
    luo_events_step(f.e, 4, 50, NULL);
    ck_assert(!up(7) && !luo_events_leaving(f.e)[7]);
    ck_assert_int_eq(f.rows, 5);
    ck_assert_str_eq(f.text[4], "50.000 fired n device:7");
}
END_TEST

/* Drawn at each first attempt, four values a time; at most one life at once. */
START_TEST(per_step_probability)
{
    f.events[0] = fixture_event("p", LUO_EVENT_STRAGGLER, "any device:[0-7]", 0, 25);
    f.events[0].trigger = LUO_PER_STEP_PROBABILITY;
    f.events[0].at[0] = 0.2;
    start(1, 0);
    luo_rng r = luo_rng_stream(7, "p");
    double busy_until = -1;
    int fired = 0;
    for (int64_t s = 0; s < 60; s++) {
        const double t = 10 * (double)s, u = luo_rng_u(&r);
        for (int i = 0; i < 3; i++) luo_rng_u(&r);
        if (u < 0.2 && t >= busy_until) {
            busy_until = t + 25;
            fired++;
        }
        luo_events_step(f.e, s, t, NULL);
        luo_events_step(f.e, s, t, NULL);
        ck_assert_int_eq(luo_events_fired(f.e), fired);
    }
    ck_assert_int_gt(fired, 3);
}
END_TEST

/* The clock of device 2 stands still while the device is down. */
START_TEST(clock_runs_only_while_up)
{
    f.processes[0] = (luo_arrivals){.id = "p", .target = "device:2", .kind = LUO_EVENT_STRAGGLER,
                                   .dist = LUO_DIST_EXPONENTIAL, .mean_s = 1000, .slowdown = 2,
                                   .life = {.duration_s = 1}};
    f.events[0] = fixture_event("off", LUO_EVENT_FAIL, "device:2", 5, 300);
    start(1, 1);
    luo_rng r = luo_rng_stream(7, "p#2");
    const double first = luo_rng_exponential_of(luo_rng_u(&r), 1000);
    for (int i = 0; i < 3; i++) luo_rng_u(&r);
    const double second = luo_rng_exponential_of(luo_rng_u(&r), 1000);
    ck_assert_double_gt(first, 5);
    to(305);
    ck_assert_double_eq_tol(luo_events_next(f.e), first + 300, 1e-9);
    to(first + 300);
    ck_assert_double_eq(slow(2), 2);
    to(first + 302);
    ck_assert_double_eq_tol(luo_events_next(f.e), first + second + 300, 1e-9);
    ck_assert_str_eq(f.text[2] + strlen(f.text[2]) - 12, "p#2 device:2");
}
END_TEST

START_TEST(causes_hit_their_scope)
{
    static const luo_cause causes[] = {
        {.cause = "board", .kind = LUO_EVENT_FAIL, .scope = LUO_SCOPE_NODE, .count = 40,
         .life_median_s = 10},
        {.cause = "cable", .kind = LUO_EVENT_LINK, .scope = LUO_SCOPE_LINK, .count = 40,
         .life_median_s = 10, .value = 0.5},
        {.cause = "software", .kind = LUO_EVENT_FAIL, .scope = LUO_SCOPE_JOB, .count = 40},
        {.cause = "none", .kind = LUO_EVENT_FAIL, .scope = LUO_SCOPE_DEVICE, .count = 0},
    };
    static const int32_t job[] = {0, 1, 2, 3};
    f.processes[0] = (luo_arrivals){.id = "c", .target = "device:[0-7]", .kind = LUO_EVENT_CAUSES,
                                   .ncauses = 4, .causes = causes, .observed_devices = 8,
                                   .observed_s = 4000};
    start(0, 1);
    luo_events_set_job(f.e, job, 4);
    int hits[3] = {0};
    const double step = 50;
    for (double t = step; t < 2000 && f.rows < LOG_MAX - 8; t += step) {
        to(t);
        const bool crash = luo_events_take_crash(f.e);
        ck_assert(!crash || !luo_events_take_crash(f.e));
    }
    int32_t n;
    const luo_occurrence *o = luo_events_occurrences(f.e, &n);
    for (int32_t i = 0; i < n; i++) {
        ck_assert(strncmp(o[i].id, "c#", 2) == 0);
        const int which = o[i].id[2] == 'b' ? 0 : o[i].id[2] == 'c' ? 1 : 2;
        static const char *const prefix[] = {"node:g0-", "link:g0-", "job"};
        ck_assert_int_eq(strncmp(o[i].target, prefix[which], strlen(prefix[which])), 0);
        ck_assert_int_eq(o[i].choice == NULL, which == 2);
        if (which == 2) ck_assert_double_eq(o[i].start_s, o[i].end_s);
        hits[which]++;
    }
    for (int i = 0; i < 3; i++) ck_assert_int_gt(hits[i], 0);
}
END_TEST

static const struct {
    luo_event_kind kind;
    const char *target, *says;
} bad[] = {
    {LUO_EVENT_STRAGGLER, "link:g0-0/nic0",
     "`target` is `link:g0-0/nic0`; event `a` slows devices down, so devices, nodes, groups or "
     "racks are expected."},
    {LUO_EVENT_LINK, "device:1",
     "`target` is `device:1`; event `a` changes links, so links, switches or whole nodes are "
     "expected."},
    {LUO_EVENT_FAIL, "node:g0-9", NULL},
};

START_TEST(bad_targets)
{
    luo_err err = {0};
    f.a = luo_arena_new(1 << 16);
    f.events[0] = fixture_event("a", bad[_i].kind, bad[_i].target, 1, 1);
    f.events[0].line = 12;
    f.events[0].col = 5;
    ck_assert_int_eq(open_events(1, 0, &err), LUO_EINPUT);
    ck_assert_int_eq(err.line, 12);
    if (bad[_i].says) ck_assert_str_eq(err.text, bad[_i].says);
}
END_TEST

/* Arrivals every 10 ms up to 10^9 s: looking ahead must end all the same, and say where. */
START_TEST(ahead_is_bounded)
{
    f.processes[0] = (luo_arrivals){.id = "p", .target = "device:[0-7]",
                                   .kind = LUO_EVENT_STRAGGLER, .dist = LUO_DIST_EXPONENTIAL,
                                   .mean_s = 0.01, .slowdown = 2, .life = {.duration_s = 0.001}};
    start(0, 1);
    const luo_change *c;
    luo_change early[64];
    int32_t n, few;
    double until_s = 0.005;
    ck_assert_int_eq(luo_events_peek(f.e, &until_s, &c, &few, NULL), LUO_OK);
    ck_assert(few > 2 && few < 64 && until_s == 0.005);
    memcpy(early, c, (size_t)few * sizeof *c);
    until_s = 1e9;
    ck_assert_int_eq(luo_events_peek(f.e, &until_s, &c, &n, NULL), LUO_OK);
    ck_assert_int_ge(n, LUO_AHEAD_MAX);
    ck_assert_int_lt(n, LUO_AHEAD_MAX + 8);
    ck_assert_double_eq(until_s, c[n - 1].at_s);
    ck_assert(until_s > 1 && until_s < 10);
    for (int32_t i = 0; i < few; i++)
        ck_assert(c[i].at_s == early[i].at_s && c[i].target == early[i].target);
}
END_TEST

/* Processes that write and write, without a step that ends well: the rows end, what happens does
 * not; at the next step that ends well they are written again. */
START_TEST(rows_are_bounded)
{
    f.processes[0] = (luo_arrivals){.id = "p", .target = "device:[0-7]",
                                   .kind = LUO_EVENT_STRAGGLER, .dist = LUO_DIST_EXPONENTIAL,
                                   .mean_s = 0.01, .slowdown = 2, .life = {.duration_s = 0.001}};
    luo_err err = {0};
    f.a = luo_arena_new(1 << 16);
    ck_assert_int_eq(open_logged(0, 1, (luo_event_log){.row = count_row}, &err), LUO_OK);
    ck_assert_int_eq(luo_events_advance(f.e, 10, 0, NULL), LUO_OK);
    ck_assert(!luo_events_hushed(f.e));
    const int64_t each = nrows;
    ck_assert(each > 10000 && each < LUO_EVENT_ROWS);
    ck_assert_int_eq(luo_events_advance(f.e, 1000, 0, NULL), LUO_OK);
    ck_assert(luo_events_hushed(f.e));
    ck_assert(nrows >= LUO_EVENT_ROWS && nrows <= LUO_EVENT_ROWS + 8);
    ck_assert_int_gt(luo_events_fired(f.e), 4 * LUO_EVENT_ROWS);
    nrows = 0;
    luo_events_progress(f.e);
    ck_assert_int_eq(luo_events_advance(f.e, 1010, 1, NULL), LUO_OK);
    ck_assert_int_gt(nrows, each / 2);
}
END_TEST

/* What comes back, against a run of the same events to their end. */
START_TEST(returns)
{
    static const struct {
        luo_event_kind kind;
        const char *target;
        double at_s, duration_s;
    } more[] = {{LUO_EVENT_FAIL, "device:2", 3, 4},   {LUO_EVENT_FAIL, "device:[0-3]", 3, 0},
                {LUO_EVENT_FAIL, "device:2", 6, 20},  {LUO_EVENT_JOIN, "device:[0-1]", 8, 0},
                {LUO_EVENT_FLAP, "device:4", 2, 0},   {LUO_EVENT_LEAVE, "device:5", 6, 3},
                {LUO_EVENT_LEAVE, "device:5", 6, 0},  {LUO_EVENT_FAIL, "link:g0-1/nic0", 1, 9},
                {LUO_EVENT_FAIL, "link:g0-1/nic1", 1, 0}, {LUO_EVENT_FAIL, "device:6", 6, 1}};
    const uint32_t all = 1u << LUO_ROWS(more);
    luo_arena *names = luo_arena_new(0);
    for (uint32_t k = 0; k < all; k += 1 + k % 7) {
        int32_t n = 0;
        for (int i = 0; i < LUO_ROWS(more); i++) {
            if (!(k >> i & 1)) continue;
            f.events[n] = fixture_event(luo_arena_printf(names, "e%d", i), more[i].kind,
                                        more[i].target, more[i].at_s, more[i].duration_s);
            f.events[n].notice_s = more[i].kind == LUO_EVENT_LEAVE ? 2 : 0;
            f.events[n].down_s = 0.5;
            f.events[n++].up_s = 0.25;
        }
        luo_err err = {0};
        f.a = luo_arena_new(1 << 16);
        ck_assert_int_eq(open_logged(n, 0, (luo_event_log){.row = count_row}, &err), LUO_OK);
        luo_event_returns back;
        ck_assert_int_eq(luo_events_advance(f.e, 5, 0, NULL), LUO_OK);
        ck_assert_int_eq(luo_events_returns(f.a, f.e, &back, NULL), LUO_OK);
        const luo_world *w = luo_events_world(f.e);
        bool up[8], cut[64], any = false;
        for (int32_t d = 0; d < 8; d++) up[d] = w->up[d];
        for (int32_t l = 0; l < w->nlinks; l++) cut[l] = w->link_factor[l] <= 0;
        bool expect[8], expect_cut[64], left[8] = {0};
        memcpy(expect, up, sizeof up);
        memcpy(expect_cut, cut, sizeof cut);
        const bool leaves = luo_events_leaving(f.e)[5];
        for (double t = 5; t < 40; t += 0.125) {
            ck_assert_int_eq(luo_events_advance(f.e, t, 0, NULL), LUO_OK);
            for (int32_t d = 0; d < 8; d++) {
                left[d] |= !w->up[d];
                expect[d] |= w->up[d];
            }
            for (int32_t l = 0; l < w->nlinks; l++) expect_cut[l] &= w->link_factor[l] <= 0;
        }
        for (int32_t d = 0; d < 8; d++) {
            ck_assert_msg(back.world->up[d] == expect[d], "case %u, device %d", k, d);
            any |= expect[d] && !up[d];
        }
        for (int32_t l = 0; l < w->nlinks; l++) {
            ck_assert_msg((back.world->link_factor[l] <= 0) == expect_cut[l], "case %u, link %d", k,
                          l);
            any |= cut[l] && !expect_cut[l];
        }
        const bool returned = leaves && left[5] && w->up[5];
        ck_assert_int_eq(back.leaving[5], leaves && !returned);
        ck_assert_int_eq(back.any, any || returned);
        luo_arena_free(f.a);
    }
    luo_arena_free(names);
}
END_TEST

/* What follows, look by look, is what one look shows; and nothing was committed. */
START_TEST(ahead_goes_on)
{
    static const double until[] = {0.001, 0.5, 0.5, 0.9, 3, 3.5, 20};
    f.processes[0] = (luo_arrivals){.id = "p",
                                   .target = "device:[0-7]",
                                   .kind = LUO_EVENT_STRAGGLER,
                                   .dist = LUO_DIST_EXPONENTIAL,
                                   .mean_s = 0.1,
                                   .slowdown = 2,
                                   .life = {.duration_s = 0.001}};
    start(0, 1);
    const luo_change *c;
    luo_change all[LUO_AHEAD_MAX];
    int32_t n = 0, most, seen = 0;
    double to_s = 20;
    ck_assert_int_eq(luo_events_peek(f.e, &to_s, &c, &most, NULL), LUO_OK);
    ck_assert(most > 1000 && most < LUO_AHEAD_MAX && to_s == 20);
    memcpy(all, c, (size_t)most * sizeof *c);
    for (int k = 0; k < LUO_ROWS(until); k++) {
        to_s = until[k];
        ck_assert_int_eq(k == 0 ? luo_events_peek(f.e, &to_s, &c, &n, NULL)
                                : luo_events_peek_on(f.e, &to_s, &c, &n, NULL),
                         LUO_OK);
        ck_assert_double_eq(to_s, until[k]);
        for (int32_t i = 0; i < n; i++, seen++) {
            ck_assert_int_lt(seen, most);
            ck_assert(c[i].at_s == all[seen].at_s && c[i].target == all[seen].target &&
                      c[i].value == all[seen].value && c[i].at_s <= until[k]);
        }
    }
    ck_assert_int_eq(seen, most);
    ck_assert_double_eq(luo_events_next(f.e), all[0].at_s);
}
END_TEST

START_TEST(bad_processes)
{
    static const luo_cause job_slow = {.cause = "s", .kind = LUO_EVENT_STRAGGLER,
                                       .scope = LUO_SCOPE_JOB, .count = 1};
    static const struct {
        luo_event_kind kind;
        const char *target, *says;
    } rows[] = {
        {LUO_EVENT_FAIL, "any device:[0-7]",
         "`target` is `any device:[0-7]`; process `p` has a clock for each device, so devices, "
         "nodes, groups or racks are expected."},
        {LUO_EVENT_FLAP, "device:1",
         "process `p` is of kind `flap`; straggler, fail, leave, join, link or causes is "
         "expected."},
        {LUO_EVENT_CAUSES, "device:1",
         "cause `s` of process `p` has scope `job` and kind `straggler`; only `fail` can hit the "
         "whole job."},
    };
    f.a = luo_arena_new(1 << 16);
    for (int i = 0; i < LUO_ROWS(rows); i++) {
        luo_err err = {0};
        f.processes[0] = (luo_arrivals){.id = "p", .target = rows[i].target, .kind = rows[i].kind,
                                       .dist = LUO_DIST_EXPONENTIAL, .mean_s = 1, .ncauses = 1,
                                       .causes = &job_slow, .observed_devices = 1, .observed_s = 1,
                                       .line = 3, .col = 4};
        ck_assert_int_eq(open_events(0, 1, &err), LUO_EINPUT);
        ck_assert_str_eq(err.text, rows[i].says);
    }
}
END_TEST
/* From step 2 on for 3 steps, whenever they come; a step that is tried again ends nothing. */
START_TEST(life_in_steps)
{
    luo_err err = {0};
    f.a = luo_arena_new(1 << 16);
    f.events[0] = fixture_event("a", LUO_EVENT_STRAGGLER, "device:1", 0, 0);
    f.events[0].trigger = LUO_AT_STEP;
    f.events[0].at[0] = 2;
    f.events[0].life.steps = 3;
    f.events[1] = fixture_event("b", LUO_EVENT_FAIL, "device:2", 3.5, 0); /* in step 3 */
    f.events[1].life.steps = 1;
    ck_assert_int_eq(open_events(2, 0, &err), LUO_OK);
    for (int64_t step = 0; step < 8; step++)
        for (int attempt = 0; attempt < 2; attempt++) {
            const double t = (double)step + 0.4 * attempt;
            ck_assert_int_eq(luo_events_step(f.e, step, t, &err), LUO_OK);
            ck_assert_double_eq(slow(1), step >= 2 && step < 5 ? 2 : 1);
            ck_assert_int_eq(luo_events_advance(f.e, t + 0.3 + 0.2 * attempt, step, &err), LUO_OK);
            ck_assert_int_eq(up(2), step != 3 || attempt == 0);
        }
    ck_assert_int_eq(f.rows, 4);
    ck_assert_str_eq(f.text[0], "2.000 fired a device:1");
    ck_assert_str_eq(f.text[1], "3.500 fired b device:2");
    ck_assert_str_eq(f.text[2], "4.000 ended b device:2");
    ck_assert_str_eq(f.text[3], "5.000 ended a device:1");
    int32_t n;
    ck_assert_str_eq(luo_events_occurrences(f.e, &n)[0].detail, "for 3 steps");
    luo_arena_free(f.a);
}
END_TEST

/* Devices of a node go down for 2 s and are up for 3, two changes each 5 s: 40 in 100 s, 20 in the
 * 50 s that another lasts; of eight devices each is struck every 10 s, and gets over it: 160. What
 * lasts as long as a run of unknown length is not counted. */
START_TEST(changes_are_counted_before)
{
    f.events[0] = fixture_event("a", LUO_EVENT_FLAP, "node:g0-1", 10, 0);
    f.events[1] = fixture_event("b", LUO_EVENT_FLAP, "node:g0-0", 10, 50);
    for (int i = 0; i < 2; i++) f.events[i].down_s = 2, f.events[i].up_s = 3;
    f.processes[0] = (luo_arrivals){.id = "p",
                                   .target = "device:[0-7]",
                                   .kind = LUO_EVENT_STRAGGLER,
                                   .dist = LUO_DIST_EXPONENTIAL,
                                   .mean_s = 10,
                                   .slowdown = 2,
                                   .life = {.duration_s = 1}};
    start(2, 1);
    ck_assert_double_eq(luo_events_expected(f.e, 100), 40 + 20 + 160);
    ck_assert_double_eq(luo_events_expected(f.e, INFINITY), 20);
    ck_assert_double_eq(luo_events_rate(f.e), 0.8);
    luo_arena_free(f.a);
    start(1, 0);
    ck_assert_double_eq(luo_events_expected(f.e, 100), 40);
    ck_assert_double_eq(luo_events_rate(f.e), 0);
    luo_arena_free(f.a);
}
END_TEST

/* Ranks of real runs are told once, before a step: of an hour at least, and from there on as far as
 * one more look gets. Dates are those of the backend's clock, which began at 50 s. The simulator
 * asks again; it is told four times the last step. */
START_TEST(ranks_are_told_all)
{
    static const double dates[] = {60, 3050, 1000050};
    luo_err err = {0};
    f.events[0] = fixture_event("a", LUO_EVENT_STRAGGLER, "device:3", 10, 0);
    f.events[1] = fixture_event("b", LUO_EVENT_STRAGGLER, "device:2", 3000, 0);
    f.events[2] = fixture_event("c", LUO_EVENT_STRAGGLER, "device:1", 1e6, 0);
    start(3, 0);
    const luo_run_opts opts = {0};
    luo_used_plan used = {.step_s = 5}, *list[] = {&used};
    luo_run run = {.scratch = f.a, .plans = {.list = list, .n = 1}};
    run.job.opts = &opts;
    run.job.real = _i == 1;
    run.clock.t0 = 50;
    run.clock.events = f.e;
    luo_ahead ahead;
    luo_step_request request = {0};
    ck_assert_int_eq(luo_run_look_ahead(&run, &ahead, &request, &err), LUO_OK);
    ck_assert_int_eq(request.nchanges, run.job.real ? 3 : 1);
    for (int32_t i = 0; i < request.nchanges; i++)
        ck_assert_double_eq(request.changes[i].at_s, dates[i]);
    ck_assert_double_eq(ahead.whole_s, run.job.real ? 50 + 1e9 : 50 + 4 * 5);
    ck_assert_int_eq(ahead.given, request.nchanges); /* what the limit of work counts */
    luo_arena_free(f.a);
}
END_TEST

LUO_SUITE("run.events", LUO_T(every_step_is_drawn), LUO_T(life_in_steps),
          LUO_T(ramp_rises_in_ten_steps),
          LUO_T(slowdowns_and_factors_multiply), LUO_T(overlaps_are_cut),
          LUO_T_N(fail_takes_its_target, LUO_ROWS(fails)), LUO_T(down_until_the_last_hold_ends),
          LUO_T(join_ends_failures), LUO_T(join_ends_a_flap_that_is_up),
          LUO_T(leave_is_announced), LUO_T(flap_alternates),
          LUO_T(lengths_newest_wins), LUO_T(draws_follow_the_stream), LUO_T(step_triggers_once),
          LUO_T(per_step_probability), LUO_T(clock_runs_only_while_up),
          LUO_T(causes_hit_their_scope), LUO_T_N(bad_targets, LUO_ROWS(bad)), LUO_T(bad_processes),
          LUO_T(ahead_is_bounded), LUO_T(ahead_goes_on), LUO_T_N(ranks_are_told_all, 2),
          LUO_T(changes_are_counted_before),
          LUO_T(rows_are_bounded), LUO_T(returns))
