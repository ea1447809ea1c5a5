/* check_preduce.c: partial reduce. Vectors PR1 to PR6, PW1 and LA1; guard, pairs,
 * adaptive waits, leaves; AD-PSGD's pairs. */
#include <math.h>

#include "core/base/str.h"
#include "core/sync/adpsgd.h"
#include "core/sync/draws.h"
#include "core/sync/loop.h"
#include "core/sync/loop_queue.h"
#include "core/sync/mixing.h"
#include "tests/check_main.h"

static luo_arena *arena;
static luo_str said; /* groups, "{0,2}@1.000 " */

static void begin(void)
{
    arena = luo_arena_new(1 << 16);
    ck_assert_ptr_nonnull(arena);
    luo_str_clear(&said);
}

static void say(const luo_preduce_group *g)
{
    if (g->n == 0) return;
    for (int32_t i = 0; i < g->n; i++) luo_str_addf(&said, "%s%d", i ? "," : "{", g->member[i]);
    luo_str_addf(&said, "}%s@%.3g ", g->guard ? "g" : "", g->t_s);
}

static luo_preduce controller(const luo_preduce_opts *opts)
{
    luo_preduce p;
    luo_err err = {0};
    ck_assert_msg(luo_preduce_new(arena, opts, &p, &err) == LUO_OK, "%s", err.text);
    return p;
}

/* ---- open arrivals ---- */

typedef struct arrival {
    double t_s;
    int32_t rank; /* -1: end of the list */
} arrival;

static const struct {
    arrival at[5];
    const char *groups;
} opened[] = {
    {{{0, 0}, {.4, 2}, {1.5, 1}, {1.7, 3}, {0, -1}}, "{0,2}@1 {1,3}@2.5 "}, /* PR1 */
    {{{0, 0}, {.1, 1}, {.2, 2}, {.3, 3}, {0, -1}}, "{0,1,2,3}@0.3 "},       /* PR2 */
    {{{0, 0}, {.5, 1}, {.9, 2}, {5, 3}, {0, -1}}, "{0,1,2}@1 {3}@6 "},      /* PR3 */
    {{{0, 3}, {1, 1}, {1.5, 0}, {2.5, 2}, {0, -1}}, "{1,3}@1 {0,2}@2.5 "},  /* at the deadline */
};

START_TEST(open_arrivals)
{
    const luo_preduce_opts opts = {.workers = 4, .max_group = 4, .wait_s = 1};
    luo_preduce_group g;
    begin();
    luo_preduce p = controller(&opts);
    for (const arrival *a = opened[_i].at; a->rank >= 0; a++) {
        if (luo_preduce_deadline(&p) < a->t_s) {
            luo_preduce_timer(&p, luo_preduce_deadline(&p), &g);
            say(&g);
        }
        ck_assert_int_eq(luo_preduce_arrive(&p, a->t_s, a->rank, 0, &g, NULL), LUO_OK);
        say(&g);
    }
    if (isfinite(luo_preduce_deadline(&p))) {
        luo_preduce_timer(&p, luo_preduce_deadline(&p), &g);
        say(&g);
    }
    ck_assert_str_eq(luo_str_get(&said), opened[_i].groups);
    luo_arena_free(arena);
}
END_TEST

/* ---- closed loops ---- */

static luo_status hear(void *ctx, int64_t id, const luo_preduce_group *g, luo_err *err)
{
    (void)err;
    if (id < *(const int64_t *)ctx) say(g);
    return LUO_OK;
}

static luo_loop_summary closed_loop(const double *compute, double horizon_s, luo_preduce_opts how,
                                    int64_t told)
{
    luo_loop_summary s;
    luo_err err = {0};
    const luo_loop_opts opts = {.mode = LUO_LOOP_PREDUCE,
                                .workers = 4,
                                .compute_s = compute,
                                .horizon_s = horizon_s,
                                .sync_s = .1,
                                .preduce = how,
                                .sink = {.group = hear, .ctx = &told}};
    begin();
    ck_assert_msg(luo_loop_run(arena, &opts, &s, &err) == LUO_OK, "%s", err.text);
    return s;
}

static const double slow_last[] = {1, 1, 1, 2}, isolated[] = {1, 1.03, 5, 5.02};

START_TEST(pr4)
{
    const luo_preduce_opts how = {.max_group = 4, .wait_s = .2};
    const luo_loop_summary s = closed_loop(slow_last, 22, how, 3);
    static const int64_t iterations[] = {17, 17, 17, 9}, sizes[] = {0, 7, 0, 15, 2};
    ck_assert_mem_eq(s.iterations, iterations, sizeof iterations);
    ck_assert_int_eq(s.updates, 60);
    ck_assert_mem_eq(s.sizes, sizes, sizeof sizes);
    ck_assert_str_eq(luo_str_get(&said), "{0,1,2}@1.2 {3}@2.2 {0,1,2}@2.5 ");
    luo_arena_free(arena);
}
END_TEST

/* A request and its answer of .05 s each and no communication instead of one of .1 s: the same
 * iterations; groups begin when those of PR4 end, and what travels is waited for. */
START_TEST(pr4_by_requests)
{
    int64_t told = 3;
    luo_loop_opts opts = {.mode = LUO_LOOP_PREDUCE,
                          .workers = 4,
                          .compute_s = slow_last,
                          .horizon_s = 22,
                          .sync_s = .1,
                          .preduce = {.max_group = 4, .wait_s = .2}};
    luo_loop_summary known, s;
    begin();
    ck_assert_int_eq(luo_loop_run(arena, &opts, &known, NULL), LUO_OK);
    opts.sync_s = 0;
    opts.request_s = .05;
    opts.sink = (luo_loop_sink){.group = hear, .ctx = &told};
    ck_assert_int_eq(luo_loop_run(arena, &opts, &s, NULL), LUO_OK);
    for (int w = 0; w < 4; w++) {
        ck_assert_int_eq(s.iterations[w], known.iterations[w]);
        ck_assert_double_eq_tol(s.wait_s[w], known.wait_s[w] + .1 * (double)s.iterations[w], 1e-9);
    }
    ck_assert_str_eq(luo_str_get(&said), "{0,1,2}@1.3 {3}@2.3 {0,1,2}@2.6 ");
    luo_arena_free(arena);
}
END_TEST

START_TEST(pr5)
{
    const luo_preduce_opts how = {.max_group = 4, .wait_s = .2, .guard = 3};
    const luo_loop_summary s = closed_loop(slow_last, 22, how, 100);
    static const int64_t iterations[] = {16, 16, 16, 9};
    ck_assert_mem_eq(s.iterations, iterations, sizeof iterations);
    ck_assert_int_eq(s.updates, 57);
    ck_assert_int_eq(s.groups, 22);
    ck_assert_int_eq(s.guards, 4);
    ck_assert_ptr_nonnull(strstr(luo_str_get(&said), "{0,1,2,3}g@6.6 "));
    ck_assert_ptr_nonnull(strstr(luo_str_get(&said), "{0,1,2,3}g@11 "));
    ck_assert_ptr_nonnull(strstr(luo_str_get(&said), "{0,1,2,3}g@15.4 "));
    ck_assert_ptr_nonnull(strstr(luo_str_get(&said), "{0,3}g@20.4 "));
    luo_arena_free(arena);
}
END_TEST

START_TEST(pr6)
{
    static const int64_t alone[] = {35, 35, 7, 7}, guarded[] = {25, 25, 7, 7};
    luo_preduce_opts how = {.max_group = 2, .wait_s = .2};
    luo_loop_summary s = closed_loop(isolated, 40, how, 1000);
    ck_assert_mem_eq(s.iterations, alone, sizeof alone);
    ck_assert_ptr_nonnull(strstr(luo_str_get(&said), "{2,3}"));
    for (const char *at = luo_str_get(&said); (at = strchr(at, '{')); at++)
        ck_assert(strncmp(at, "{0,1}@", 6) == 0 || strncmp(at, "{2,3}@", 6) == 0);
    ck_assert_double_eq_tol(s.lambda2, 1, 1e-12);
    luo_arena_free(arena);
    how.guard = 2;
    s = closed_loop(isolated, 40, how, 1000);
    ck_assert_mem_eq(s.iterations, guarded, sizeof guarded);
    const char *guard = strstr(luo_str_get(&said), "}g");
    ck_assert_ptr_nonnull(guard);
    ck_assert(strncmp(guard - 6, "{0,2,3}g@5.52 ", 14) == 0);
    ck_assert(s.lambda2 < 1 - 1e-6);
    luo_arena_free(arena);
}
END_TEST

/* ---- weights, mixing ---- */

START_TEST(weights)
{
    static const int64_t k[] = {5, 5, 3};
    double w[3];
    luo_preduce_weights(k, 3, .5, w); /* PW1 */
    ck_assert(fabs(w[0] - 4. / 9) < 1e-15 && fabs(w[1] - 4. / 9) < 1e-15);
    ck_assert(fabs(w[2] - 1. / 9) < 1e-15);
    luo_preduce_weights(k, 3, 1, w);
    for (int i = 0; i < 3; i++) ck_assert(fabs(w[i] - 1. / 3) < 1e-15);
}
END_TEST

static const struct {
    const char *groups;
    double lambda2;
} windows[] = {
    /* LA1 */
    {"01 23", 1}, {"01 23 12 03", .75},     {"0123", 0},
    {"012 3", 1}, {"01 23 01 23 0123", .8}, /* by hand: 1 of the first four, 0 of the last */
};

START_TEST(mixing)
{
    luo_mixing m;
    double lambda2;
    begin();
    ck_assert_int_eq(luo_mixing_new(arena, 4, &m, NULL), LUO_OK);
    for (int times = 0; times < 2; times++) { /* after luo_mixing_clear as at first */
        int32_t member[4], n = 0;
        for (const char *at = windows[_i].groups;; at++) {
            if (*at >= '0') member[n++] = *at - '0';
            if (*at >= '0') continue;
            luo_mixing_add(&m, member, NULL, n);
            n = 0;
            if (!*at) break;
        }
        ck_assert_int_eq(luo_mixing_lambda2(arena, &m, NULL, &lambda2, NULL), LUO_OK);
        ck_assert_double_eq_tol(lambda2, windows[_i].lambda2, 1e-12);
        luo_mixing_clear(&m);
    }
    luo_arena_free(arena);
}
END_TEST

/* Two workers with weights a, b: W^T W = 2 (a a, a b; a b, b b), of rank one: 0 is its second. A
 * third, never met, leaves 1 beside 2 (a^2 + b^2). */
START_TEST(mixing_with_weights)
{
    static const int32_t member[] = {0, 1};
    static const double even[] = {.5, .5}, uneven[] = {.8, .2};
    luo_mixing m;
    double lambda2;
    begin();
    for (int32_t n = 2; n < 4; n++) {
        ck_assert_int_eq(luo_mixing_new(arena, n, &m, NULL), LUO_OK);
        luo_mixing_add(&m, member, uneven, 2);
        ck_assert_int_eq(luo_mixing_lambda2(arena, &m, NULL, &lambda2, NULL), LUO_OK);
        ck_assert_double_eq_tol(lambda2, n == 2 ? 0 : 1, 1e-12);
    }
    /* Even weights are as none: the mean of (.5 .5; .5 .5) twice and (1.28 .32; .32 .08). */
    ck_assert_int_eq(luo_mixing_new(arena, 2, &m, NULL), LUO_OK);
    luo_mixing_add(&m, member, even, 2);
    luo_mixing_add(&m, member, NULL, 2);
    luo_mixing_add(&m, member, uneven, 2);
    ck_assert_int_eq(luo_mixing_lambda2(arena, &m, NULL, &lambda2, NULL), LUO_OK);
    const double a = (.5 + .5 + 1.28) / 3, b = (.5 + .5 + .32) / 3, d = (.5 + .5 + .08) / 3;
    ck_assert_double_eq_tol(lambda2, (a + d) / 2 - sqrt((a - d) * (a - d) / 4 + b * b), 1e-12);
    luo_arena_free(arena);
}
END_TEST

START_TEST(mixing_of_the_living)
{
    static const int32_t pair[] = {0, 2};
    static const bool gone[] = {false, true, false}, most_gone[] = {true, true, false};
    luo_mixing m;
    double lambda2;
    luo_err err = {0};
    begin();
    ck_assert_int_eq(luo_mixing_new(arena, 3, &m, NULL), LUO_OK);
    ck_assert_int_eq(luo_mixing_lambda2(arena, &m, NULL, &lambda2, NULL), LUO_OK);
    ck_assert(isnan(lambda2)); /* no group */
    luo_mixing_add(&m, pair, NULL, 2);
    ck_assert_int_eq(luo_mixing_lambda2(arena, &m, gone, &lambda2, NULL), LUO_OK);
    ck_assert_double_eq_tol(lambda2, 0, 1e-12);
    ck_assert_int_eq(luo_mixing_lambda2(arena, &m, NULL, &lambda2, NULL), LUO_OK);
    ck_assert_double_eq_tol(lambda2, 1, 1e-12);
    ck_assert_int_eq(luo_mixing_lambda2(arena, &m, most_gone, &lambda2, NULL), LUO_OK);
    ck_assert(isnan(lambda2));
    ck_assert_int_eq(luo_mixing_new(arena, 1025, &m, &err), LUO_E2BIG);
    ck_assert_str_eq(err.text, "the mixing of 1025 workers is asked for; eigenvalues are computed "
                               "for 1 to 1024.");
    luo_arena_free(arena);
}
END_TEST

/* ---- options of the controller ---- */

START_TEST(refused)
{
    static const struct {
        luo_preduce_opts opts;
        const char *says;
    } rows[] = {
        {{.workers = 4},
         "groups of at most 0 among 4 workers; 1 to all of at least one worker are "
         "expected."},
        {{.workers = 4, .max_group = 5},
         "groups of at most 5 among 4 workers; 1 to all of at "
         "least one worker are expected."},
        {{.workers = 4, .max_group = 4, .wait_s = -1},
         "a group waits -1 s with guard 0; numbers "
         "from 0 on are expected."},
        {{.workers = 4, .max_group = 4, .guard = -1},
         "a group waits 0 s with guard -1; numbers "
         "from 0 on are expected."},
        {{.workers = 4, .max_group = 4, .adaptive = true, .wait_min_s = 2, .wait_max_s = 1},
         "adaptive waits are from 2 to 1 s; a range from 0 on is expected."},
    };
    luo_preduce p;
    begin();
    for (int i = 0; i < LUO_ROWS(rows); i++) {
        luo_err err = {0};
        ck_assert_int_eq(luo_preduce_new(arena, &rows[i].opts, &p, &err), LUO_EUSAGE);
        ck_assert_str_eq(err.text, rows[i].says);
    }
    luo_arena_free(arena);
}
END_TEST

START_TEST(misused)
{
    const luo_preduce_opts opts = {.workers = 3, .max_group = 3, .wait_s = 1};
    luo_preduce_group g;
    luo_err err = {0};
    begin();
    luo_preduce p = controller(&opts);
    ck_assert_int_eq(luo_preduce_arrive(&p, 0, 1, 0, &g, NULL), LUO_OK);
    ck_assert_int_eq(luo_preduce_arrive(&p, 0, 1, 0, &g, &err), LUO_EBUG);
    ck_assert_str_eq(err.text, "worker 1 arrives and waits already, or has left; each arrives once "
                               "before its group.");
    ck_assert_int_eq(luo_preduce_arrive(&p, 0, 3, 0, &g, NULL), LUO_EBUG);
    luo_preduce_leave(&p, 0, 0, &g);
    ck_assert_int_eq(luo_preduce_arrive(&p, 0, 0, 0, &g, NULL), LUO_EBUG);
    luo_preduce_timer(&p, .5, &g); /* too early */
    ck_assert_int_eq(g.n, 0);
    luo_arena_free(arena);
}
END_TEST

START_TEST(leaves)
{
    luo_preduce_opts opts = {.workers = 3, .max_group = 3, .wait_s = INFINITY};
    luo_preduce_group g;
    begin();
    luo_preduce p = controller(&opts);
    /* Those who are left are all: the group closes. */
    ck_assert_int_eq(luo_preduce_arrive(&p, 1, 2, 4, &g, NULL), LUO_OK);
    ck_assert_int_eq(luo_preduce_arrive(&p, 2, 0, 3, &g, NULL), LUO_OK);
    luo_preduce_leave(&p, 5, 1, &g);
    say(&g);
    ck_assert(g.iteration[0] == 3 && g.iteration[1] == 4);
    luo_preduce_leave(&p, 5, 1, &g);
    ck_assert_int_eq(g.n, 0);
    /* The first of a group leaves: the others keep its deadline; alone it takes that with it. */
    opts.wait_s = 1;
    p = controller(&opts);
    ck_assert_int_eq(luo_preduce_arrive(&p, 1, 2, 0, &g, NULL), LUO_OK);
    luo_preduce_leave(&p, 1.5, 2, &g);
    ck_assert(isinf(luo_preduce_deadline(&p)));
    opts.workers = 4;
    opts.max_group = 4;
    p = controller(&opts);
    ck_assert_int_eq(luo_preduce_arrive(&p, 1, 2, 0, &g, NULL), LUO_OK);
    ck_assert_int_eq(luo_preduce_arrive(&p, 1.2, 3, 0, &g, NULL), LUO_OK);
    luo_preduce_leave(&p, 1.5, 2, &g);
    ck_assert(g.n == 0 && luo_preduce_deadline(&p) == 2);
    luo_preduce_timer(&p, 2, &g);
    say(&g);
    ck_assert_str_eq(luo_str_get(&said), "{0,2}@5 {3}@2 ");
    luo_arena_free(arena);
}
END_TEST

/* A guard group waits for who was never connected, until that one dies. */
START_TEST(a_guard_group_closes_at_a_death)
{
    const luo_preduce_opts opts = {.workers = 3, .max_group = 2, .wait_s = 1, .guard = 1};
    luo_preduce_group g;
    begin();
    luo_preduce p = controller(&opts);
    for (int round = 0; round < 3; round++)
        for (int32_t w = 0; w < 2; w++) {
            ck_assert_int_eq(luo_preduce_arrive(&p, round, w, round, &g, NULL), LUO_OK);
            say(&g);
        }
    luo_preduce_timer(&p, 100, &g); /* the guard has no deadline */
    say(&g);
    luo_preduce_leave(&p, 101, 2, &g);
    say(&g);
    ck_assert_str_eq(luo_str_get(&said), "{0,1}@0 {0,1}@1 {0,1}g@101 ");
    luo_preduce_join(&p, 2); /* it is waited for again, and given up when it dies again */
    for (int32_t w = 0; w < 2; w++) {
        ck_assert_int_eq(luo_preduce_arrive(&p, 102, w, 3, &g, NULL), LUO_OK);
        say(&g);
    }
    ck_assert_str_eq(luo_str_get(&said), "{0,1}@0 {0,1}@1 {0,1}g@101 ");
    luo_preduce_leave(&p, 103, 2, &g);
    say(&g);
    ck_assert_str_eq(luo_str_get(&said), "{0,1}@0 {0,1}@1 {0,1}g@101 {0,1}g@103 ");
    luo_arena_free(arena);
}
END_TEST

START_TEST(adaptive)
{
    const luo_preduce_opts opts = {.workers = 3,
                                   .max_group = 2,
                                   .wait_s = 1,
                                   .adaptive = true,
                                   .wait_max_s = 3,
                                   .wait_min_s = .95};
    luo_preduce_group g;
    begin();
    luo_preduce p = controller(&opts);
    static const double waits[] = {1, 2, 3, 3}; /* alone: twice as long, up to wait_max_s */
    for (int i = 0; i < 4; i++) {
        ck_assert_int_eq(luo_preduce_arrive(&p, 10 * i, 0, i, &g, NULL), LUO_OK);
        ck_assert(luo_preduce_deadline(&p) == 10 * i + waits[i]);
        luo_preduce_timer(&p, 10 * i + waits[i], &g);
        ck_assert_int_eq(g.n, 1);
    }
    for (int32_t w = 0; w < 2; w++)
        ck_assert_int_eq(luo_preduce_arrive(&p, 50, w, 0, &g, NULL), LUO_OK);
    ck_assert_int_eq(g.n, 2);
    ck_assert_int_eq(luo_preduce_arrive(&p, 60, 1, 0, &g, NULL), LUO_OK);
    ck_assert(luo_preduce_deadline(&p) == 60.95); /* not .9 */
    ck_assert_int_eq(luo_preduce_arrive(&p, 60, 2, 0, &g, NULL), LUO_OK);
    ck_assert_int_eq(luo_preduce_arrive(&p, 70, 0, 0, &g, NULL), LUO_OK);
    ck_assert(fabs(luo_preduce_deadline(&p) - 72.7) < 1e-12);
    luo_arena_free(arena);
}
END_TEST

START_TEST(pairs)
{
    const luo_preduce_opts opts = {
        .workers = 5, .max_group = 5, .wait_s = 1, .pairs = true, .guard = 1};
    luo_preduce_group g, part;
    begin();
    luo_preduce p = controller(&opts);
    for (int round = 0; round < 2; round++)
        for (int32_t w = 4; w >= 0; w--) {
            ck_assert_int_eq(luo_preduce_arrive(&p, round, w, 0, &g, NULL), LUO_OK);
            for (int32_t i = 0; g.n > 0 && (luo_preduce_group_part(&g, i, &part), part.n > 0); i++)
                say(&part);
        }
    /* Pairs connect pairs alone: the guard group has to wait for all three parts: 4 first, then 3
     * and 2 (one part), then 1. */
    ck_assert_str_eq(luo_str_get(&said), "{0,1}@0 {2,3}@0 {4}@0 {1,2,3,4}g@1 ");
    luo_arena_free(arena);
}
END_TEST

/* ---- AD-PSGD ---- */

START_TEST(everyone_has_one_partner)
{
    int32_t shuffle[9], partner[9], met[9][9] = {{0}};
    for (int64_t step = 0; step < 400; step++) {
        luo_adpsgd_pairs(9, 5, step, shuffle, partner);
        int alone = 0;
        for (int w = 0; w < 9; w++) {
            ck_assert_int_eq(partner[partner[w]], w);
            alone += partner[w] == w;
            met[w][partner[w]]++;
        }
        ck_assert_int_eq(alone, 1);
    }
    for (int w = 0; w < 9; w++)
        for (int v = 0; v < 9; v++) ck_assert_int_lt(abs(met[w][v] - 400 / 9), 28); /* 4 sigma */
}
END_TEST

START_TEST(adpsgd_arrivals)
{
    int32_t shuffle[3], partner[3];
    luo_adpsgd a;
    luo_preduce_group g;
    begin();
    ck_assert_int_eq(luo_adpsgd_new(arena, 3, 1, &a, NULL), LUO_OK);
    luo_adpsgd_pairs(3, 1, 0, shuffle, partner);
    for (int32_t w = 0; w < 3; w++) {
        ck_assert_int_eq(luo_adpsgd_arrive(&a, w, w, 0, &g, NULL), LUO_OK);
        ck_assert_int_eq(g.n, partner[w] == w ? 1 : partner[w] < w ? 2 : 0);
        if (g.n == 2) ck_assert(g.member[0] == partner[w] && g.member[1] == w);
    }
    /* Whose partner leaves goes on alone, at once or when it arrives. */
    luo_adpsgd_pairs(3, 1, 1, shuffle, partner);
    const int32_t first = partner[0] == 0 ? 1 : 0, other = partner[first];
    ck_assert_int_eq(luo_adpsgd_arrive(&a, 5, first, 1, &g, NULL), LUO_OK);
    ck_assert_int_eq(luo_adpsgd_arrive(&a, 5, first, 1, &g, NULL), LUO_EBUG);
    luo_adpsgd_alone(&a, 6, &g);
    ck_assert_int_eq(g.n, 0);
    luo_adpsgd_leave(&a, other);
    luo_adpsgd_alone(&a, 6, &g);
    ck_assert(g.n == 1 && g.member[0] == first && g.t_s == 6 && g.iteration[0] == 1);
    luo_adpsgd_alone(&a, 6, &g);
    ck_assert_int_eq(g.n, 0);
    /* Back again, it takes part from a step on that nobody has begun: its partners of those before
     * are alone, that one waits for it. */
    ck_assert_int_eq(luo_adpsgd_join(&a, other, 2), 3);
    for (int64_t step = 2; step < 40; step++) {
        luo_adpsgd_pairs(3, 1, step, shuffle, partner);
        if (partner[first] != other) continue;
        ck_assert_int_eq(luo_adpsgd_arrive(&a, 7, first, step, &g, NULL), LUO_OK);
        ck_assert_int_eq(g.n, step < 3);
        if (step < 3) continue;
        ck_assert_int_eq(luo_adpsgd_arrive(&a, 8, other, step, &g, NULL), LUO_OK);
        ck_assert(g.n == 2 && g.t_s == 8 && g.iteration[1] == step);
    }
    luo_arena_free(arena);
}
END_TEST

/* Without a straggler pairs never wait, whatever the number of workers. */
START_TEST(adpsgd_loop)
{
    double compute[33];
    luo_loop_summary s;
    for (int w = 0; w < 33; w++) compute[w] = 1;
    for (int32_t n = 2; n < 34; n++) {
        const luo_loop_opts opts = {.mode = LUO_LOOP_ADPSGD,
                                    .workers = n,
                                    .compute_s = compute,
                                    .horizon_s = 11,
                                    .sync_s = .1};
        begin();
        ck_assert_int_eq(luo_loop_run(arena, &opts, &s, NULL), LUO_OK);
        ck_assert_int_eq(s.updates, 10 * n);
        ck_assert_int_eq(s.sizes[2], 10 * (n / 2));
        ck_assert_int_eq(s.sizes[1], n % 2 ? 10 : 0);
        luo_arena_free(arena);
    }
}
END_TEST

LUO_SUITE("preduce", LUO_T_N(open_arrivals, LUO_ROWS(opened)), LUO_T(pr4), LUO_T(pr4_by_requests),
          LUO_T(pr5), LUO_T(pr6), LUO_T(weights), LUO_T_N(mixing, LUO_ROWS(windows)),
          LUO_T(mixing_with_weights), LUO_T(mixing_of_the_living), LUO_T(refused), LUO_T(misused),
          LUO_T(leaves), LUO_T(a_guard_group_closes_at_a_death), LUO_T(adaptive), LUO_T(pairs),
          LUO_T(everyone_has_one_partner), LUO_T(adpsgd_arrivals), LUO_T(adpsgd_loop))
