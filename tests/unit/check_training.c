/* check_training.c: replicas that do not all wait for each other, by hand
 * (tests/training_fixture.h): what link events do to iterations and exchanges, which members a
 * group costs, ties, errors. */
#include "tests/training_fixture.h"

/* n workers of two stages each: on dev[2i] and dev[2i + 1]. */
static void workers_of_two(luo_training_mode mode, const int32_t *dev, int32_t n, int64_t steps,
                           int32_t nevents)
{
    static const luo_range half[] = {{0, 12}, {12, 24}};
    workers(mode, dev, n, steps, nevents);
    luo_stage *st = LUO_NEW_N(arena, luo_stage, 2 * n);
    for (int32_t i = 0; i < 2 * n; i++)
        st[i] = (luo_stage){.nlayers = 1,
                            .layers = &half[i % 2],
                            .ndev = 1,
                            .dev = dev + i,
                            .context_parallel = 1,
                            .embedding = i % 2 == 0,
                            .head = i % 2 == 1};
    for (int32_t i = 0; i < n; i++) {
        luo_pipeline *p = (luo_pipeline *)&sc.plan->pipelines[i];
        p->nstages = 2;
        p->stages = &st[2 * i];
    }
}

/* An error of the simulator reaches the user with its sentence. */
START_TEST(its_sentence)
{
    luo_err err = {0};
    workers(LUO_TRAINING_ALLREDUCE, eight, 8, 4, 0);
    broken = LUO_EBACKEND;
    ck_assert_int_eq(run(&err), LUO_EBACKEND);
    ck_assert_str_eq(err.text, "the simulator is gone; start it.");
}
END_TEST

/* The slow worker arrives with the 300th iteration of the other, a rounding apart: always one group
 * of both. So late in a run a rounding is more than 1e-12 s. */
START_TEST(ties)
{
    static const int32_t two[] = {0, 2};
    events[0] = fixture_event("slow", LUO_EVENT_STRAGGLER, "device:2", 0, 0);
    events[0].slowdown = 300;
    workers(LUO_TRAINING_PREDUCE, two, 2, 3010, 1);
    spec.training.wait_s = 0;
    unit_s = 6.1;
    run_ok();
    for (int32_t k = 1; k <= 10; k++) ends(301 * k - 1, 2 * k * (300 * 6.1 + .5));
}
END_TEST

/* A pair in one node, and one in two: not what the first two of the plan would take. */
START_TEST(who_is_in_a_group)
{
    static const int32_t four[] = {0, 1, 2, 4};
    workers(LUO_TRAINING_PREDUCE, four, 4, 100, 0);
    spec.training.max_group = 2;
    run_ok();
    ends(0, 1.5);               /* two at 1.1, two at 1.5 */
    ends(1, 2.2 + .8);          /* 2.2, then 3.0 */
    ck_assert_int_eq(asked, 3); /* one alone, a pair of each kind */
}
END_TEST

/* Devices 4 to 7 are of a second type. */
START_TEST(types_of_a_group)
{
    workers(LUO_TRAINING_PREDUCE, eight, 8, 100, 0);
    sc.cluster = fixture_cluster(arena, 2, 2, 2);
    spec.training.max_group = 2;
    run_ok();
    ends(0, 2.2); /* four at 1.1, and again at 2.2; then four at 2.3 */
    ends(1, 3.3);
    ck_assert_int_eq(asked, 4); /* one alone and a pair of each type */
}
END_TEST

/* The NIC of device 4, and when the first two sums of all end. The first computes until 1. */
static const struct row {
    luo_event_kind kind;
    double at_s, duration_s, factor, extra_s, first_s, second_s;
} rows[] = {
    {LUO_EVENT_LINK, 0, 0, .5, 0, 2, 4},
    {LUO_EVENT_LINK, 0, 0, 1, .25, 1.75, 3.5},
    {LUO_EVENT_LINK, 0, 0, .5, .25, 2.25, 4.5},
    {LUO_EVENT_LINK, 1.25, 0, .5, 0, 1.75, 3.75}, /* half of it is left, and takes .5 */
    {LUO_EVENT_LINK, 0, 1.5, .5, 0, 1.75, 3.25},  /* well again: a quarter of a second is left */
    {LUO_EVENT_LINK, 0, 1, .5, 0, 1.5, 3},        /* while they compute */
    {LUO_EVENT_FAIL, 1.25, 2, 1, 0, 3.5, 5},
    {LUO_EVENT_FAIL, .5, 2, 1, 0, 3, 4.5}, /* it is down when the exchange begins */
};

static void slow_link(const struct row *r, const char *target)
{
    events[0] = fixture_event("l", r->kind, target, r->at_s, r->duration_s);
    events[0].bandwidth_factor = r->factor;
    events[0].extra_latency_s = r->extra_s;
}

/* AD-PSGD: a worker's step ends when both of its pair have computed it and exchanged, by recursion
 * over steps. */
static double pair_done(int32_t w, int64_t k, double slowdown)
{
    int32_t shuffle[8], partner[8];
    luo_adpsgd_pairs(8, sc.seed, k, shuffle, partner);
    const int32_t v = partner[w];
    const double before = k > 0 ? pair_done(w, k - 1, slowdown) : 0;
    const double its = k > 0 ? pair_done(v, k - 1, slowdown) : 0;
    return fmax(before + (w == 3 ? slowdown : 1), its + (v == 3 ? slowdown : 1)) +
           (v / 2 == w / 2 ? .1 : .5);
}

START_TEST(pairs_wait_for_their_partner)
{
    double end[8 * 9];
    events[0] = fixture_event("slow", LUO_EVENT_STRAGGLER, "device:3", 0, 0);
    events[0].slowdown = 3;
    workers(LUO_TRAINING_ADPSGD, eight, 8, 4, 1);
    for (int32_t i = 0; i < 8 * 9; i++) end[i] = pair_done(i % 8, i / 8, 3);
    run_ok();
    for (int32_t i = 1; i < 8 * 9; i++) /* by time */
        for (int32_t k = i; k > 0 && end[k] < end[k - 1]; k--) {
            const double t = end[k];
            end[k] = end[k - 1];
            end[k - 1] = t;
        }
    for (int32_t step = 0; step < 4; step++) ends(step, end[8 * step + 7]);
}
END_TEST

/* Who leaves is waited for by nobody, and who is back is a partner again. */
START_TEST(pairs_of_who_comes_back)
{
    double end_s[3];
    for (int i = 0; i < 3; i++) {
        events[0] = fixture_event("gone", LUO_EVENT_FAIL, "device:3", 2.5, 0);
        events[1] = fixture_event("back", LUO_EVENT_JOIN, "device:3", 7.2, 0);
        workers(LUO_TRAINING_ADPSGD, eight, 8, 40, i);
        run_ok();
        ck_assert_int_eq(fake.nsteps, 40);
        end_s[i] = fake.steps[39].end_s;
    }
    /* 320 iterations by 8, by 7 but for the first three of one, and by 8 but for some four of one
     */
    ck_assert_double_eq_tol(end_s[1] / end_s[0], 317. / 320 * 8 / 7, .02);
    ck_assert_double_eq_tol(end_s[2] / end_s[0], 324. / 320, .02);
}
END_TEST

START_TEST(links_slow_exchanges)
{
    slow_link(&rows[_i], "link:g0-2/nic0");
    workers(LUO_TRAINING_ALLREDUCE, eight, 8, 4, 1);
    run_ok();
    ends(0, rows[_i].first_s);
    ends(1, rows[_i].second_s);
}
END_TEST

/* Two workers, each on two nodes: an iteration takes 1.5 s alone, and both need no more together.
 * The NIC of device 2, which is of the first. */
static const int32_t across[] = {0, 2, 4, 6};
static const struct row inner[] = {
    {LUO_EVENT_LINK, 0, 0, .5, 0, 2, 4},          {LUO_EVENT_LINK, 0, 0, 1, .25, 1.75, 3.5},
    {LUO_EVENT_LINK, .75, 0, .5, 0, 1.75, 3.75},  /* half of it is left, and takes 1 s */
    {LUO_EVENT_LINK, 0, 1, .5, 0, 1.75, 3.25},    /* well again: half is left, .75 s */
    {LUO_EVENT_FAIL, .75, 2, 1, 0, 3.5, 5},       /* it stands still */
    {LUO_EVENT_FAIL, 0, 2, 1, 0, 3.5, 5},         /* from the beginning */
    {LUO_EVENT_FAIL, 1.5 + .75, 2, 1, 0, 1.5, 5}, /* in the second */
    {LUO_EVENT_FAIL, 1.5, 2, 1, 0, 3.5, 5},       /* before the sum of the first */
};

START_TEST(links_inside_a_worker)
{
    slow_link(&inner[_i], "link:g0-1/nic0");
    workers_of_two(LUO_TRAINING_ALLREDUCE, across, 2, 2, 1);
    run_ok();
    ends(0, inner[_i].first_s);
    ends(1, inner[_i].second_s);
}
END_TEST

/* Who stands still waits: the parts of the first step are means over devices of both workers. */
START_TEST(who_stands_still_waits)
{
    slow_link(&inner[4], "link:g0-1/nic0");
    workers_of_two(LUO_TRAINING_ALLREDUCE, across, 2, 2, 1);
    run_ok();
    ck_assert_double_eq_tol(fake.steps[0].parts.compute_s, 1.5, 1e-12);
    ck_assert_double_eq_tol(fake.steps[0].parts.bubble_s, 2, 1e-12);
}
END_TEST

/* Without a group its worker is slow alone: the other ends at 1.5, 3, 4.5 and 6, it at 2, 4, 6. A
 * straggler on its devices is slow on these links, too: 2 + 1 s. */
START_TEST(links_slow_their_worker_alone)
{
    for (int i = 0; i < 2; i++) {
        slow_link(&inner[0], "link:g0-1/nic0");
        events[1] = fixture_event("s", LUO_EVENT_STRAGGLER, "device:0", 0, 0);
        events[1].slowdown = 2;
        workers_of_two(LUO_TRAINING_PREDUCE, across, 2, 3, 1 + i);
        spec.training.max_group = 1;
        run_ok();
        ends(0, i ? 3 : 2);
        ends(1, i ? 4.5 : 4);
        ends(2, i ? 6 : 6);
    }
}
END_TEST

/* Links that no worker has inside of it: nothing more is simulated for its iterations. */
START_TEST(links_of_nobody)
{
    static const char *const nic[] = {"link:g0-1/nic1", "link:g0-1/nic0"};
    int64_t more[2];
    for (int i = 0; i < 2; i++) {
        workers_of_two(LUO_TRAINING_ASP, across, 2, 4, 0);
        run_ok();
        more[i] = -asked;
        slow_link(&inner[0], nic[i]);
        workers_of_two(LUO_TRAINING_ASP, across, 2, 4, 1);
        run_ok();
        more[i] += asked;
    }
    ck_assert_int_eq(more[0], 0);
    ck_assert_int_eq(more[1], 1);
}
END_TEST

/* An iteration that ends as its link goes down, but for a rounding, has ended: the servers are on
 * other links. Events of nobody's device make roundings. */
START_TEST(down_as_it_ends)
{
    static const char *const id[] = {"a", "b", "c", "d", "e"};
    double end_s[2];
    for (int i = 0; i < 2; i++) {
        for (int k = 0; k < 5; k++)
            events[k] = fixture_event(id[k], LUO_EVENT_STRAGGLER, "device:7", .37 * (k + 1), .1);
        events[5] = fixture_event("l", LUO_EVENT_FAIL, "link:g0-1/nic0", 6.1 + .5, 10);
        workers_of_two(LUO_TRAINING_ASP, across, 2, 1, 5 + i);
        unit_s = 6.1;
        run_ok();
        end_s[i] = fake.steps[0].end_s;
    }
    ck_assert_double_eq_tol(end_s[1], end_s[0], 1e-12);
}
END_TEST

static void is_lost_after_a_step(void)
{
    luo_err err = {0};
    ck_assert_int_eq(run(&err), LUO_ENO);
    ck_assert_int_eq(fake.summary.state, LUO_LOST);
    ck_assert_int_eq(fake.summary.steps_done, 1);
    ck_assert_str_eq(event_row("lost", 0)->detail, "no worker can go on: a link is down for ever");
}

/* The other goes on without it; a barrier never does. */
START_TEST(down_for_ever_inside)
{
    const struct row down = {LUO_EVENT_FAIL, 2, 0, 1, 0, 0, 0};
    slow_link(&down, "link:g0-1/nic0");
    workers_of_two(LUO_TRAINING_ALLREDUCE, across, 2, 4, 1);
    is_lost_after_a_step();
    workers_of_two(LUO_TRAINING_PREDUCE, across, 2, 4, 1);
    spec.training.max_group = 1;
    run_ok(); /* eight iterations, one of them by the first */
    ends(3, 7 * 1.5);
}
END_TEST

/* Groups of 0 to 2, of 3 to 5, and of 6 and 7, which are on one node. */
START_TEST(links_slow_who_cross_them)
{
    static const char *const nic[] = {"link:g0-0/nic0", "link:g0-2/nic1", "link:g0-3/nic1"};
    static const double end_s[] = {2, 2, 1.5};
    for (int i = 0; i < 3; i++) {
        slow_link(&rows[0], nic[i]);
        workers(LUO_TRAINING_PREDUCE, eight, 8, 1, 1);
        spec.training.max_group = 3;
        run_ok();
        ends(0, end_s[i]);
    }
}
END_TEST

/* Half of an exchange with the servers is left, and the link has half its bandwidth. */
START_TEST(servers_too)
{
    workers(LUO_TRAINING_BSP, eight, 8, 1, 0);
    run_ok();
    const double exchange_s = fake.steps[0].end_s - 1;
    ck_assert_double_gt(exchange_s, 0);
    const struct row half = {LUO_EVENT_LINK, 1 + exchange_s / 2, 0, .5, 0, 0, 0};
    slow_link(&half, "link:g0-2/nic0");
    workers(LUO_TRAINING_BSP, eight, 8, 2, 1);
    run_ok();
    ends(0, 1 + 1.5 * exchange_s);
    ends(1, 2 + 3.5 * exchange_s);
}
END_TEST

START_TEST(down_for_ever)
{
    const struct row down = {LUO_EVENT_FAIL, 2, 0, 1, 0, 0, 0};
    slow_link(&down, "link:g0-2/nic0");
    workers(LUO_TRAINING_ALLREDUCE, eight, 8, 4, 1);
    is_lost_after_a_step();
}
END_TEST

/* A node fails with its NICs: the six others go on as six, and one of two as it was. */
START_TEST(links_of_who_is_gone)
{
    static const int32_t two[] = {0, 2};
    for (int i = 0; i < 2; i++) {
        const int32_t n = i ? 2 : 6; /* who live, and who are in the same step */
        workers(LUO_TRAINING_ASP, i ? two : eight, n, 1, 0);
        run_ok();
        const double exchange_s = fake.steps[0].end_s - 1;
        events[0] = fixture_event("f", LUO_EVENT_FAIL, i ? "node:g0-1" : "node:g0-3", .5, 0);
        workers(LUO_TRAINING_ASP, i ? two : eight, i ? 2 : 8, i ? 1 : 3, 1);
        run_ok();
        /* Alone: the same bytes for each worker, half as many at the server. */
        if (i)
            ends(0, 2 + exchange_s);
        else
            ends(2, 4 * (1 + exchange_s));
    }
}
END_TEST

/* Two of three are on one node: what is left, a half, they do there. */
START_TEST(who_leaves_an_exchange)
{
    static const int32_t three[] = {0, 1, 2};
    events[0] = fixture_event("f", LUO_EVENT_FAIL, "device:2", 1.25, 0);
    workers(LUO_TRAINING_ALLREDUCE, three, 3, 1, 1);
    run_ok();
    ends(0, 1 + .25 + .05 + 1 + .1); /* two iterations of each */
}
END_TEST

/* Device 7 serves, and is no worker: its part of the parameters is gone with it. */
START_TEST(a_dead_server)
{
    luo_err err = {0};
    for (int i = 0; i < 2; i++) { /* in a step, and between two of them */
        events[0] = fixture_event("f", LUO_EVENT_FAIL, "device:7", 1.25, 0);
        if (i) events[0].trigger = LUO_AT_STEP, events[0].at[0] = events[0].at[1] = 1;
        workers(LUO_TRAINING_BSP, eight, 6, 4, 1);
        spec.training.server_devices = (const int32_t[]){6, 7};
        spec.training.servers = 2;
        ck_assert_int_eq(run(&err), LUO_ENO);
        ck_assert_int_eq(fake.summary.state, LUO_LOST);
        ck_assert_int_eq(fake.summary.steps_done, i);
        const luo_row_event *row = event_row("lost", 0);
        ck_assert_str_eq(row->detail, "server 1 is gone with device 7");
        if (!i) ck_assert_double_eq_tol(row->t_s, 1.25, 1e-12);
    }
    workers(LUO_TRAINING_BSP, eight, 6, 1, 1); /* nobody's device */
    spec.training.server_devices = (const int32_t[]){6};
    events[0] = fixture_event("f", LUO_EVENT_FAIL, "device:7", 1.25, 0);
    run_ok();
}
END_TEST

/* Requests take .25 s, and answers. */
static const struct asked_row {
    double fails_s, end_s; /* of the step, which is as many iterations as workers */
    const char *what;
} answers[] = {
    {0, 1 + .25 + .25 + .5, "both arrive at 1.25, and begin at 1.5"},
    {1.125, 1 + .25 + .25 + 1 + .25 + .25, "its request is under way: the other goes on alone"},
    {1.375, 1 + .25 + .25 + 1 + .25 + .25, "the group has closed, but it does not exchange"},
    {1.75, 1.75 + 1 + .25 + .25, "it exchanges: nothing is left of that for the other"},
};

START_TEST(requests)
{
    static const int32_t two[] = {0, 2};
    const struct asked_row *r = &answers[_i];
    events[0] = fixture_event("f", LUO_EVENT_FAIL, "device:2", r->fails_s, 0);
    workers(LUO_TRAINING_PREDUCE, two, 2, 1, r->fails_s > 0);
    spec.training.wait_s = 0;
    spec.training.request_s = .25;
    run_ok();
    ends(0, r->end_s);
}
END_TEST

LUO_SUITE("run.training", LUO_T(a_dead_server), LUO_T_N(requests, LUO_ROWS(answers)),
          LUO_T(its_sentence), LUO_T(ties), LUO_T(who_is_in_a_group),
          LUO_T(pairs_wait_for_their_partner), LUO_T(pairs_of_who_comes_back),
          LUO_T(types_of_a_group), LUO_T_N(links_slow_exchanges, LUO_ROWS(rows)),
          LUO_T_N(links_inside_a_worker, LUO_ROWS(inner)), LUO_T(who_stands_still_waits),
          LUO_T(links_slow_their_worker_alone), LUO_T(links_of_nobody), LUO_T(down_as_it_ends),
          LUO_T(down_for_ever_inside), LUO_T(links_slow_who_cross_them), LUO_T(servers_too),
          LUO_T(down_for_ever), LUO_T(links_of_who_is_gone), LUO_T(who_leaves_an_exchange))
