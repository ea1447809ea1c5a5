/* prop_events.c: the event engine against a slow twin that looks at all occurrences;
 * looking ahead equals committing; adding an event changes no other draw (A10); the random
 * processes have the means they are given. */
#include <math.h>

#include "core/run/events/events.h"
#include "tests/prop/prop.h"
#include "tests/cluster_fixture.h"

enum { EVENTS = 8, DEVICES = 8 };
static const char *const targets[] = {"device:1", "device:[2-5]", "node:g0-1", "any device:[0-7]",
                                      "group:g0", "any node:g0"};
static int met_changes, met_overlaps, met_ignored;

static luo_event draw_event(luo_arena *a, luo_rng *r, int i)
{
    static const luo_event_kind kinds[] = {LUO_EVENT_STRAGGLER, LUO_EVENT_FAIL, LUO_EVENT_LINK,
                                           LUO_EVENT_STRAGGLER};
    const luo_event_kind kind = kinds[luo_rng_pick(r, 4)];
    const char *target = kind == LUO_EVENT_LINK ? "any link:g0"
                                                : targets[luo_rng_pick(r, LUO_ROWS(targets))];
    luo_event e = fixture_event(luo_arena_printf(a, "e%d", i), kind, target, 0, 0);
    e.trigger = LUO_BETWEEN_S;
    e.at[1] = 100;
    e.slowdown = 0;
    e.slowdown_between[0] = 1.2;
    e.slowdown_between[1] = 4;
    e.bandwidth_factor = 0.25 + 0.5 * luo_rng_u(r);
    e.extra_latency_s = 1e-6;
    e.life = (luo_life){.dist = LUO_DIST_EXPONENTIAL, .mean_s = 30};
    return e;
}

static luo_scenario make_scenario(luo_arena *a, uint64_t seed, int n)
{
    luo_rng r = luo_rng_seed(seed);
    luo_event *ev = LUO_NEW_N(a, luo_event, n);
    luo_arrivals *p = LUO_NEW_N(a, luo_arrivals, 2);
    for (int i = 0; i < n; i++) ev[i] = draw_event(a, &r, i);
    p[0] = (luo_arrivals){.id = "slow", .target = "device:[0-7]", .kind = LUO_EVENT_STRAGGLER,
                         .dist = LUO_DIST_WEIBULL, .mean_s = 60, .shape = 0.7, .slowdown = 1.5,
                         .life = {.dist = LUO_DIST_LOGNORMAL, .median_s = 10, .sigma = 1}};
    p[1] = (luo_arrivals){.id = "die", .target = "device:[0-3]", .kind = LUO_EVENT_FAIL,
                         .dist = LUO_DIST_EXPONENTIAL, .mean_s = 80, .life = {.duration_s = 7}};
    return (luo_scenario){.name = "p", .seed = seed, .cluster = fixture_cluster(a, 1, 2, 4),
                          .nevents = n, .events = ev, .nprocesses = 2, .processes = p};
}

static bool covers(const int32_t *list, int32_t n, int32_t x)
{
    for (int32_t i = 0; i < n; i++)
        if (list[i] == x) return true;
    return false;
}

/* The slow twin: what the occurrences say of one date. */
static void twin(luo_events *e, int32_t dev, double *slow, bool *up)
{
    int32_t n, lives = 0;
    const luo_occurrence *o = luo_events_occurrences(e, &n);
    *slow = 1;
    *up = true;
    for (int32_t i = 0; i < n; i++) {
        if (o[i].end_s >= 0 || !covers(o[i].choice->dev, o[i].choice->ndev, dev)) continue;
        if (o[i].kind == LUO_EVENT_STRAGGLER) *slow *= o[i].value;
        if (o[i].kind == LUO_EVENT_FAIL) *up = false;
        lives++;
    }
    met_overlaps += lives > 1;
}

static double twin_factor(luo_events *e, int32_t link)
{
    int32_t n;
    double factor = 1;
    const luo_occurrence *o = luo_events_occurrences(e, &n);
    for (int32_t i = 0; i < n; i++) {
        if (o[i].end_s >= 0 || !covers(o[i].choice->link, o[i].choice->nlink, link)) continue;
        factor *= o[i].kind == LUO_EVENT_LINK ? o[i].value : o[i].kind == LUO_EVENT_FAIL ? 0 : 1;
    }
    return factor;
}

static luo_status count_ignored(void *ctx, const luo_row_event *row, luo_err *err)
{
    (void)ctx;
    (void)err;
    met_ignored += row->phase == LUO_EVENT_PHASE_IGNORED;
    return LUO_OK;
}

static luo_events *open_events(luo_arena *a, const luo_scenario *sc)
{
    luo_events *e = NULL;
    luo_err err = {0};
    ck_assert_msg(luo_events_new(a, sc, (luo_event_log){.row = count_ignored}, &e, &err) == LUO_OK,
                  "%s", err.text);
    return e;
}

START_TEST(world_equals_twin)
{
    LUO_PROP_FOR(seed, 150)
    {
        luo_arena *a = luo_arena_new(1 << 16);
        const luo_scenario sc = make_scenario(a, seed, EVENTS);
        luo_events *e = open_events(a, &sc), *fine = open_events(a, &sc);
        luo_world *ahead = NULL;
        ck_assert_int_eq(luo_world_new(a, sc.cluster, &ahead, NULL), LUO_OK);
        for (double t = 10; t < 200; t += 10) {
            const luo_change *c;
            int32_t n;
            luo_world_copy(ahead, luo_events_world(e));
            ck_assert_int_eq(luo_events_peek(e, &(double){t}, &c, &n, NULL), LUO_OK);
            for (int32_t i = 0; i < n; i++) {
                ck_assert(c[i].at_s > t - 10 - 1e-9 && c[i].at_s <= t);
                luo_world_apply(ahead, &c[i]);
            }
            met_changes += n;
            luo_events_advance(e, t, 0, NULL);
            for (double s = t - 9; s <= t; s += 1) luo_events_advance(fine, s, 0, NULL);
            const luo_world *w = luo_events_world(e);
            ck_assert(luo_world_equal(w, ahead));
            ck_assert(luo_world_equal(w, luo_events_world(fine)));
            for (int32_t d = 0; d < DEVICES; d++) {
                double slow;
                bool up;
                twin(e, d, &slow, &up);
                ck_assert_double_eq_tol(w->slowdown[d], slow, 1e-12 * slow);
                ck_assert_int_eq(w->up[d], up);
            }
            for (int32_t l = 0; l < w->nlinks; l++)
                ck_assert_double_eq_tol(w->link_factor[l], twin_factor(e, l), 1e-12);
        }
        luo_arena_free(a);
    }
    ck_assert_int_gt(met_changes, 0);
    ck_assert_int_gt(met_overlaps, 0);
    ck_assert_int_gt(met_ignored, 0);
}
END_TEST

/* A10: one more straggler leaves every other occurrence as it was. Failures change who is up, and
 * with it the clocks, so the added event is a straggler. */
START_TEST(adding_an_event_changes_no_draw)
{
    LUO_PROP_FOR(seed, 100)
    {
        luo_arena *a = luo_arena_new(1 << 16);
        const luo_scenario few = make_scenario(a, seed, EVENTS - 1);
        luo_scenario more = make_scenario(a, seed, EVENTS);
        luo_event *ev = LUO_NEW_N(a, luo_event, EVENTS);
        for (int i = 0; i < EVENTS; i++) ev[i] = more.events[i];
        ev[EVENTS - 1] = ev[2]; /* the new one stands in the middle of the file */
        ev[2] = draw_event(a, &(luo_rng){{seed, 1, 2, 3}}, 99);
        ev[2].kind = LUO_EVENT_STRAGGLER;
        ev[2].target = "any device:[0-7]";
        more.events = ev;
        luo_events *x = open_events(a, &few), *y = open_events(a, &more);
        luo_events_advance(x, 500, 0, NULL);
        luo_events_advance(y, 500, 0, NULL);
        int32_t nx, ny, at = 0;
        const luo_occurrence *ox = luo_events_occurrences(x, &nx);
        const luo_occurrence *oy = luo_events_occurrences(y, &ny);
        for (int32_t i = 0; i < ny; i++) {
            if (strcmp(oy[i].id, "e99") == 0) continue;
            ck_assert_int_lt(at, nx);
            ck_assert_str_eq(ox[at].id, oy[i].id);
            ck_assert_str_eq(ox[at].target, oy[i].target);
            ck_assert_double_eq(ox[at].start_s, oy[i].start_s);
            ck_assert_double_eq(ox[at].end_s, oy[i].end_s);
            ck_assert_double_eq(ox[at++].value, oy[i].value);
        }
        ck_assert_int_eq(at, nx);
        luo_arena_free(a);
    }
}
END_TEST

/* Mean of n gaps within 4 standard errors. Weibull 0.7: standard deviation 1.4624 of the mean. */
static const struct {
    luo_dist dist;
    double shape, deviation;
} laws[] = {{LUO_DIST_EXPONENTIAL, 1, 1}, {LUO_DIST_WEIBULL, 0.7, 1.4624}};

START_TEST(arrivals_have_their_mean)
{
    luo_arena *a = luo_arena_new(1 << 16);
    luo_arrivals p = {.id = "p", .target = "device:[0-255]", .kind = LUO_EVENT_STRAGGLER,
                     .dist = laws[_i].dist, .mean_s = 500, .shape = laws[_i].shape, .slowdown = 2,
                     .life = {.duration_s = 1}};
    const luo_scenario sc = {.name = "s", .seed = 11, .cluster = fixture_cluster(a, 1, 32, 8),
                             .nprocesses = 1, .processes = &p};
    luo_events *e = open_events(a, &sc);
    luo_events_advance(e, 50000, 0, NULL);
    int32_t n;
    const luo_occurrence *o = luo_events_occurrences(e, &n);
    double last[256] = {0}, sum = 0;
    for (int32_t i = 0; i < n; i++) {
        sum += o[i].start_s - last[o[i].choice->dev[0]];
        last[o[i].choice->dev[0]] = o[i].start_s;
    }
    const double mean = sum / n, tolerance = 4 * laws[_i].deviation * 500 / sqrt(n);
    ck_assert_msg(fabs(mean - 500) < tolerance + 5, "mean %g of %d", mean, n);
    ck_assert_int_gt(n, 20000);
    luo_arena_free(a);
}
END_TEST
LUO_SUITE("run.events.prop", LUO_T(world_equals_twin), LUO_T(adding_an_event_changes_no_draw),
          LUO_T_N(arrivals_have_their_mean, LUO_ROWS(laws)))
