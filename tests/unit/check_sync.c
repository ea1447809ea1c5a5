/* check_sync.c: random numbers, the clock rule, parameter servers and rings. Vectors: the table of
 * S = 0, 1, none; PS1, RG1, RN1. Stragglers; deaths. */
#include <math.h>

#include "core/sync/clock.h"
#include "core/sync/draws.h"
#include "core/sync/exchange.h"
#include "core/sync/loop.h"
#include "tests/check_main.h"

static luo_arena *arena;

static void begin(void)
{
    arena = luo_arena_new(1 << 16);
    ck_assert_ptr_nonnull(arena);
}

static bool near(double a, double b)
{
    return fabs(a - b) <= 1e-9 * fmax(1, fabs(b));
}

START_TEST(draws)
{
    ck_assert(luo_draw_u(1, 0, 0) == .6935121390102292); /* RN1 */
    ck_assert(luo_draw_u(1, 0, 1) == .42321144819582723);
    ck_assert(luo_draw_u(1, 1, 0) == .8323609501268625);
}
END_TEST

/* ---- four workers, compute 1, 1, 1, 2, communication .1, horizon 22 ---- */

static const double four[] = {1, 1, 1, 2};
static luo_loop_opts table(luo_loop_mode mode)
{
    return (luo_loop_opts){
        .mode = mode, .workers = 4, .compute_s = four, .horizon_s = 22, .sync_s = .1};
}

static const struct {
    luo_loop_mode mode;
    int64_t staleness, iterations[4], gap;
    double wait_s;
} rows[] = {
    {LUO_LOOP_BSP, 0, {10, 10, 10, 10}, 1, 10},
    {LUO_LOOP_SSP, 0, {10, 10, 10, 10}, 1, 10},
    {LUO_LOOP_SSP, 1, {11, 11, 11, 10}, 2, 8.9},
    {LUO_LOOP_ASP, 0, {20, 20, 20, 10}, 10, 0},
    {LUO_LOOP_SSP, -1, {20, 20, 20, 10}, 10, 0},
    {LUO_LOOP_SSP, 50, {20, 20, 20, 10}, 10, 0}, /* more than there are iterations: as asp */
    {LUO_LOOP_ALLREDUCE, 0, {10, 10, 10, 10}, 0, 10},
};

START_TEST(clock_rule)
{
    luo_loop_opts opts = table(rows[_i].mode);
    luo_loop_summary s;
    luo_err err = {0};
    begin();
    opts.staleness = rows[_i].staleness;
    ck_assert_msg(luo_loop_run(arena, &opts, &s, &err) == LUO_OK, "%s", err.text);
    for (int w = 0; w < 4; w++) {
        ck_assert_int_eq(s.iterations[w], rows[_i].iterations[w]);
        ck_assert_double_eq_tol(s.wait_s[w], w < 3 ? rows[_i].wait_s : 0, 1e-9);
    }
    ck_assert_int_eq(s.nahead - 1, rows[_i].gap);
    ck_assert(!s.lost && s.t_s == 22);
    luo_arena_free(arena);
}
END_TEST

/* By hand: worker 3 dies at 5 in its third iteration: the others are then bound by each other. */
START_TEST(who_dies_leaves_the_clock)
{
    static const luo_loop_death death[] = {{5, 3}, {12.5, 0}, {12.5, 1}, {12.5, 2}};
    luo_loop_opts opts = table(LUO_LOOP_BSP);
    luo_loop_summary s;
    begin();
    opts.death = death;
    opts.ndeaths = 1;
    ck_assert_int_eq(luo_loop_run(arena, &opts, &s, NULL), LUO_OK);
    /* Two rounds of 2.1; the third begins at 4.2 and ends for three of them at 5.3; from then on a
     * round takes 1.1: (22 - 5.3) / 1.1 = 15.18. */
    ck_assert_int_eq(s.iterations[3], 2);
    ck_assert_int_eq(s.iterations[0], 3 + 15);
    ck_assert_double_eq_tol(s.wait_s[0], 2, 1e-9);
    opts.ndeaths = 4;
    ck_assert_int_eq(luo_loop_run(arena, &opts, &s, NULL), LUO_OK);
    ck_assert(s.lost && s.t_s == 12.5 && s.lost_by == 2);
    ck_assert_int_eq(s.iterations[0], 3 + 6); /* 5.3 + 6 x 1.1 = 11.9 */
    luo_arena_free(arena);
}
END_TEST

/* Whom it blocks is released at its death, not at the next end of an iteration. */
START_TEST(a_death_releases)
{
    static const double two[] = {1, 100};
    static const luo_loop_death death[] = {{7, 1}};
    const luo_loop_opts opts = {.mode = LUO_LOOP_BSP,
                                .workers = 2,
                                .compute_s = two,
                                .horizon_s = 10,
                                .death = death,
                                .ndeaths = 1};
    luo_loop_summary s;
    begin();
    ck_assert_int_eq(luo_loop_run(arena, &opts, &s, NULL), LUO_OK);
    ck_assert_int_eq(s.iterations[0], 1 + 3); /* 1, then 8, 9, 10 */
    ck_assert_double_eq_tol(s.wait_s[0], 6, 1e-9);
    luo_arena_free(arena);
}
END_TEST

START_TEST(a_dead_server_ends_it)
{
    static const luo_loop_death death[] = {{3, LUO_LOOP_SERVER}};
    luo_loop_opts opts = table(LUO_LOOP_ASP);
    luo_loop_summary s;
    begin();
    opts.death = death;
    opts.ndeaths = 1;
    ck_assert_int_eq(luo_loop_run(arena, &opts, &s, NULL), LUO_OK);
    ck_assert(s.lost && s.t_s == 3 && s.lost_by == LUO_LOOP_SERVER);
    ck_assert_int_eq(s.updates, 2 + 2 + 2 + 1);
    luo_arena_free(arena);
}
END_TEST

/* A group that closed before its last member died ends after the run: it does not count. One that
 * leaves another worker behind does. */
START_TEST(the_last_death_ends_it)
{
    static const double one[] = {1, 1};
    static const luo_loop_death death[] = {{3, 0}, {3.5, 1}};
    static const luo_loop_mode modes[] = {LUO_LOOP_ALLREDUCE, LUO_LOOP_PREDUCE, LUO_LOOP_ADPSGD};
    luo_loop_opts opts = {.mode = modes[_i],
                          .workers = 2,
                          .compute_s = one,
                          .horizon_s = 100,
                          .sync_s = .9, /* the second iterations end at 3.8 */
                          .preduce = {.max_group = 2, .wait_s = .1},
                          .death = death,
                          .ndeaths = 2};
    luo_loop_summary s;
    begin();
    ck_assert_int_eq(luo_loop_run(arena, &opts, &s, NULL), LUO_OK);
    ck_assert(s.lost && s.t_s == 3.5 && s.lost_by == 1);
    ck_assert(s.updates == 2 && s.groups == 1);
    opts.ndeaths = 1; /* its third group is of worker 1 alone */
    opts.horizon_s = 5;
    ck_assert_int_eq(luo_loop_run(arena, &opts, &s, NULL), LUO_OK);
    ck_assert(!s.lost && s.iterations[0] == 2 && s.iterations[1] == 2);
    luo_arena_free(arena);
}
END_TEST

START_TEST(one_worker_never_waits)
{
    for (int mode = 0; mode < LUO_LOOP_MODES; mode++) {
        static const double one[] = {1};
        const luo_loop_opts opts = {.mode = (luo_loop_mode)mode,
                                    .workers = 1,
                                    .compute_s = one,
                                    .horizon_s = 10,
                                    .sync_s = .25,
                                    .preduce = {.max_group = 1}};
        luo_loop_summary s;
        begin();
        ck_assert_int_eq(luo_loop_run(arena, &opts, &s, NULL), LUO_OK);
        ck_assert_int_eq(s.iterations[0], 8);
        ck_assert(s.wait_s[0] == 0 && luo_loop_ahead_quantile(&s, 1) == 0);
        luo_arena_free(arena);
    }
}
END_TEST

/* The state machine alone: what it refuses, and who is told to start. */
START_TEST(clock_by_hand)
{
    luo_clock c;
    luo_err err = {0};
    const int32_t *started;
    begin();
    ck_assert_int_eq(luo_clock_new(arena, 3, 1, &c, NULL), LUO_OK);
    ck_assert_int_eq(luo_clock_finish(&c, 0, NULL), LUO_OK);
    ck_assert_int_eq(luo_clock_finish(&c, 0, &err), LUO_EBUG);
    ck_assert_str_eq(err.text,
                     "worker 0 finishes an iteration and runs none; it has to be started first.");
    ck_assert_int_eq(luo_clock_finish(&c, 3, NULL), LUO_EBUG);
    ck_assert_int_eq(luo_clock_release(&c, &started), 1);
    ck_assert_int_eq(started[0], 0);
    ck_assert_int_eq(luo_clock_finish(&c, 0, NULL), LUO_OK); /* 2, 0, 0 */
    ck_assert_int_eq(luo_clock_release(&c, &started), 0);
    ck_assert_int_eq(luo_clock_finish(&c, 2, NULL), LUO_OK); /* 2, 0, 1 */
    ck_assert(!luo_clock_may_start(&c, 0) && luo_clock_may_start(&c, 2));
    luo_clock_leave(&c, 1); /* 2, -, 1: the least is 1 */
    luo_clock_leave(&c, 1);
    ck_assert_int_eq(c.living, 2);
    ck_assert_int_eq(luo_clock_release(&c, &started), 2);
    ck_assert(started[0] == 0 && started[1] == 2);
    ck_assert_int_eq(luo_clock_finish(&c, 1, NULL), LUO_EBUG);
    luo_arena_free(arena);
}
END_TEST

/* A group without --sync-s communicates by the ring of its size: 2 x 3 (.01 + 4 / (4 x 10)) = .66 s
 * for four, so six rounds of 1.66 s by second 10; each round sends 2 x 3 x 4 bytes. */
START_TEST(groups_by_ring)
{
    static const double even[] = {1, 1, 1, 1};
    const luo_loop_opts opts = {.mode = LUO_LOOP_ALLREDUCE,
                                .workers = 4,
                                .compute_s = even,
                                .horizon_s = 10,
                                .sync_s = NAN,
                                .ring_bytes = 4,
                                .net = {.01, 10}};
    luo_loop_summary s;
    begin();
    ck_assert_int_eq(luo_loop_run(arena, &opts, &s, NULL), LUO_OK);
    ck_assert_int_eq(s.groups, 6);
    ck_assert(near(s.ring_bytes, 6 * 24));
    luo_arena_free(arena);
}
END_TEST

/* ---- exchange ---- */

START_TEST(ring)
{
    const luo_exchange_net net = {1e-5, 1e9};
    ck_assert(near(luo_exchange_ring(4, 4e6, &net), .00606)); /* RG1 */
    ck_assert(luo_exchange_ring(1, 4e6, &net) == 0);
    /* each of 3 sends 2/3 of 80 bytes twice, in 7 rounds of its own */
    ck_assert(luo_exchange_ring_bytes(3, 80, 3 * 7) == 2 * 2 * 80 * 7);
    ck_assert(luo_exchange_ring_bytes(1, 80, 7) == 0);
}
END_TEST

/* Four workers of PS1, all of them or the first alone. */
static luo_status round_of(const luo_exchange_table *table, int32_t workers,
                           luo_exchange_bytes *sum, luo_err *err)
{
    int64_t keys[4][4] = {{0, 1, 2, 2}, {0, 3}, {4, 4, 4}, {0, 2, 4, 6}};
    static const int64_t n[] = {4, 2, 3, 4};
    LUO_TRY(luo_exchange_open(arena, table->servers, workers, sum, err));
    for (int32_t w = 0; w < workers; w++)
        LUO_TRY(luo_exchange_add_keys(sum, table, w, keys[w], n[w], 1, err));
    return LUO_OK;
}

START_TEST(by_servers)
{
    const luo_exchange_net net = {1e-3, 1e6};
    luo_exchange_table table = {.width = 16, .vocab = 8, .servers = 2};
    luo_exchange_bytes sum;
    luo_err err = {0};
    begin();
    ck_assert_int_eq(round_of(&table, 4, &sum, NULL), LUO_OK); /* PS1 */
    ck_assert(sum.in[0] == 640 && sum.in[1] == 160 && sum.out[0] == 512 && sum.out[1] == 128);
    ck_assert(near(luo_exchange_time(&sum, &net), .00264));
    ck_assert(sum.push == 10 * 72 && sum.request == 10 * 8 && sum.pull == 10 * 64);
    /* Contiguous: keys 0 to 3 and 4 to 7; 0 1 2 | 0 3 | - | 0 2 and - | - | 4 | 4 6. */
    table.shard = LUO_EXCHANGE_RANGE;
    ck_assert_int_eq(round_of(&table, 4, &sum, NULL), LUO_OK);
    ck_assert(sum.in[0] == 7 * 80 && sum.in[1] == 3 * 80);
    /* Two servers with a worker's keys on both: its own NIC carries more than theirs. */
    table.shard = LUO_EXCHANGE_MOD;
    ck_assert_int_eq(round_of(&table, 1, &sum, NULL), LUO_OK);
    ck_assert(near(luo_exchange_time(&sum, &net), 2e-3 + 3 * 80 / 1e6));
    /* All of five rows in three rounds. */
    ck_assert_int_eq(luo_exchange_open(arena, 2, 1, &sum, NULL), LUO_OK);
    luo_exchange_add_rows(&sum, &table, 0, 5, 3);
    ck_assert(sum.in[0] == 9 * 80 && sum.in[1] == 6 * 80 && sum.pull == 15 * 64);
    table.servers = 0;
    ck_assert_int_eq(round_of(&table, 1, &sum, &err), LUO_EUSAGE);
    ck_assert_str_eq(err.text, "parameters lie on 0 servers; at least one server is expected.");
    table = (luo_exchange_table){.width = 16, .vocab = 6, .servers = 2};
    ck_assert_int_eq(round_of(&table, 4, &sum, &err), LUO_EINPUT);
    ck_assert_str_eq(err.text, "key 6 of worker 3; 0 to 5 is expected.");
    luo_arena_free(arena);
}
END_TEST

/* Contiguous pieces: ascending, every server about the same, whatever divides what. */
START_TEST(ranges)
{
    for (int64_t vocab = 1; vocab < 40; vocab++)
        for (int32_t servers = 1; servers < 12; servers++) {
            const luo_exchange_table t = {
                .vocab = vocab, .servers = servers, .shard = LUO_EXCHANGE_RANGE};
            int64_t count[12] = {0};
            int32_t before = 0;
            for (int64_t key = 0; key < vocab; key++) {
                const int32_t at = luo_exchange_server(&t, key);
                ck_assert(at >= before && at < servers);
                count[at]++;
                before = at;
            }
            for (int32_t s = 0; s < servers; s++)
                ck_assert(count[s] == vocab / servers || count[s] == vocab / servers + 1);
        }
}
END_TEST

/* ---- stragglers ---- */

static const struct {
    const char *text, *says;
} specs[] = {
    {"none", ""},
    {"factor:2=1.8,0=3", ""},
    {"bern:p=0.1,sleep=0.5", ""},
    {"bern:sleep=0.5,p=1", ""},
    {"trace:a.csv", ""},
#define FORMS "`none`, `factor:2=1.8,5=3`, `bern:p=0.1,sleep=0.5` or `trace:FILE` is expected."
    {"slow", "straggler `slow` is none; " FORMS},
    {"", "straggler `` is none; " FORMS},
    {"trace:", "straggler `trace:` is none; " FORMS},
    {"factor:", "straggler `factor:` is none; " FORMS},
    {"factor:1", "straggler `factor:1` is none; " FORMS},
    {"factor:1=2;", "straggler `factor:1=2;` is none; " FORMS},
    {"factor:1=2,", "straggler `factor:1=2,` is none; " FORMS},
    {"factor:3=2", "straggler `factor:3=2` names worker 3; workers are 0 to 2."},
    {"factor:-1=2", "straggler `factor:-1=2` names worker -1; workers are 0 to 2."},
    {"factor:1=2,1=3", "straggler `factor:1=2,1=3` names worker 1 twice; once is expected."},
    {"factor:1=x", "straggler `factor:1=x`: the factor of worker 1 is no number; one from 1e-06 to "
                   "1e+06 is expected."},
    {"factor:1=nan", "straggler `factor:1=nan`: the factor of worker 1 is no number; one from "
                     "1e-06 to 1e+06 is expected."},
    {"bern:p=0.1", "straggler `bern:p=0.1` is none; " FORMS},
    {"bern:p=0.1,p=0.2", "straggler `bern:p=0.1,p=0.2` is none; " FORMS},
    {"bern:p=2,sleep=1", "straggler `bern:p=2,sleep=1`: `p` is no probability; a number from 0 to "
                         "1 is expected."},
    {"bern:p=1,sleep=-1", "straggler `bern:p=1,sleep=-1`: `sleep` is no time; seconds from 0 to "
                          "1e+10 are expected."},
};

START_TEST(straggler_texts)
{
    luo_straggler s;
    luo_err err = {0};
    begin();
    const luo_status st = luo_straggler_parse(arena, specs[_i].text, 3, &s, &err);
    ck_assert_int_eq(st, specs[_i].says[0] ? LUO_EUSAGE : LUO_OK);
    ck_assert_str_eq(err.text, specs[_i].says);
    luo_arena_free(arena);
}
END_TEST

START_TEST(straggler_seconds)
{
    luo_straggler_row trace[] = {{1, 3, 9}, {0, 2, 7}, {1, 0, 8}};
    luo_straggler_row twice[] = {{1, 3, 9}, {0, 2, 7}, {1, 3, 8}};
    luo_straggler s;
    luo_err err = {0};
    int sleeps = 0;
    begin();
    ck_assert_int_eq(luo_straggler_parse(arena, "factor:2=1.5", 3, &s, NULL), LUO_OK);
    ck_assert(luo_straggler_seconds(&s, 0, 2, 5, 4) == 6 &&
              luo_straggler_seconds(&s, 0, 1, 5, 4) == 4);
    ck_assert(luo_straggler_seconds(&s, 0, 0, 5, 4) == 4);
    ck_assert_int_eq(luo_straggler_parse(arena, "bern:p=0.1,sleep=0.5", 3, &s, NULL), LUO_OK);
    for (int k = 0; k < 10000; k++) {
        const double t = luo_straggler_seconds(&s, 1, 2, k, 4);
        ck_assert(t == (luo_draw_u(1, 2, (uint64_t)k) < 0.1 ? 4.5 : 4));
        sleeps += t > 4;
    }
    ck_assert_int_lt(abs(sleeps - 1000), 120); /* 4 sigma */
    ck_assert_int_eq(luo_straggler_parse(arena, "trace:x", 3, &s, NULL), LUO_OK);
    ck_assert_int_eq(luo_straggler_trace(&s, trace, 3, NULL), LUO_OK);
    ck_assert(luo_straggler_seconds(&s, 0, 1, 0, 4) == 8 &&
              luo_straggler_seconds(&s, 0, 1, 3, 4) == 9);
    ck_assert(luo_straggler_seconds(&s, 0, 1, 1, 4) == 4 &&
              luo_straggler_seconds(&s, 0, 2, 2, 4) == 4);
    ck_assert_int_eq(luo_straggler_trace(&s, twice, 3, &err), LUO_EINPUT);
    ck_assert_str_eq(err.text, "iteration 3 of worker 1 stands there twice; once is expected.");
    luo_arena_free(arena);
}
END_TEST

START_TEST(too_many_iterations)
{
    luo_loop_opts opts = table(LUO_LOOP_ASP);
    luo_work limits = {0};
    luo_loop_summary s = {.updates = -7};
    luo_err err = {0};
    begin();
    limits.most[LUO_WORK_ITERATIONS] = 70; /* as many as there are */
    opts.limits = &limits;
    ck_assert_int_eq(luo_loop_run(arena, &opts, &s, &err), LUO_OK);
    s.updates = -7;
    limits.most[LUO_WORK_ITERATIONS] = 69;
    ck_assert_int_eq(luo_loop_run(arena, &opts, &s, &err), LUO_E2BIG);
    ck_assert_int_eq(s.updates, -7); /* untouched */
    ck_assert_ptr_nonnull(strstr(err.text, "`--limit iterations=VALUE` raises it."));
    luo_arena_free(arena);
}
END_TEST

LUO_SUITE("sync", LUO_T(draws), LUO_T_N(clock_rule, LUO_ROWS(rows)),
          LUO_T(who_dies_leaves_the_clock), LUO_T(a_death_releases), LUO_T(a_dead_server_ends_it),
          LUO_T_N(the_last_death_ends_it, 3), LUO_T(one_worker_never_waits), LUO_T(clock_by_hand),
          LUO_T(groups_by_ring), LUO_T(ring), LUO_T(by_servers), LUO_T(ranges),
          LUO_T_N(straggler_texts, LUO_ROWS(specs)), LUO_T(straggler_seconds),
          LUO_T(too_many_iterations))
