/* CPU ranks in the simulator: they share the cores of their node, a thread computes or communicates
 * but never both, and who waits takes no core (sim/step/thread.c). Against closed forms and a slow
 * twin, folded and not. */
#include "tests/prop/prop.h"
#include "tests/sim_fixture.h"

enum { RANKS_MAX = 9 };
static const double cores[] = {1, 2, 1.5, 3, 8, 16};

/* ---- computing alone ---- */

/* Ranks that work so long each; equal works have one role, so a GPU's lanes would be folded. */
static rig *work_rig(int32_t n, double c, const double *seconds)
{
    rig *r = rig_new(&(rig_shape){.devices_per_node = n, .cores = c});
    for (int32_t d = 0; d < n; d++) {
        const bool same = d > 0 && seconds[d] == seconds[d - 1];
        const int32_t role = same ? rig_program(r, d - 1)->role : rig_role(r);
        if (!same) rig_work(r, role, seconds[d]);
        rig_device(r, d, role, 0, 0);
        rig_task(r, d, 0, -1);
    }
    return r;
}

START_TEST(equal_ranks_share_cores) /* s * max(1, ranks/cores) */
{
    const double c = cores[_i / 2], s = 0.25;
    for (int32_t n = 1; n <= RANKS_MAX; n++) {
        double seconds[RANKS_MAX];
        for (int32_t d = 0; d < n; d++) seconds[d] = s;
        rig *r = work_rig(n, c, seconds);
        r->config.fold = _i % 2;
        /* one rank gets no more than a core, and of less than a core all there is */
        rig_near(rig_run(r), s * fmax(1 / fmin(1, c), n / c), 1e-6, "step");
    }
}
END_TEST

/* Ranks leave one after another, the shortest first; those at work share what there is. */
static double last_of(int32_t n, double c, double *left)
{
    double now = 0;
    for (int32_t open = n; open > 0;) {
        double least = HUGE_VAL;
        for (int32_t d = 0; d < n; d++)
            if (left[d] > 0) least = fmin(least, left[d]);
        const double rate = fmin(fmin(1, c), c / open);
        now += least / rate;
        for (int32_t d = 0; d < n; d++) {
            if (left[d] <= 0) continue;
            left[d] = left[d] - least < 1e-12 ? 0 : left[d] - least;
            open -= left[d] == 0;
        }
    }
    return now;
}

START_TEST(unequal_ranks_share_cores)
{
    LUO_PROP_FOR(seed, 60)
    {
        luo_rng rng = luo_rng_seed(seed);
        const int32_t n = 1 + (int32_t)luo_rng_pick(&rng, RANKS_MAX);
        const double c = cores[luo_rng_pick(&rng, LUO_ROWS(cores))];
        double seconds[RANKS_MAX], left[RANKS_MAX];
        for (int32_t d = 0; d < n; d++)
            seconds[d] = left[d] = 0.001 * (double)(1 + luo_rng_pick(&rng, 500));
        const double want = last_of(n, c, left);
        for (int fold = 0; fold < 2; fold++) {
            rig *r = work_rig(n, c, seconds);
            r->config.fold = fold;
            rig_near(rig_run(r), want, 1e-6, "step");
        }
    }
}
END_TEST

/* One rank of four of one role is slow: folded as one device, all would be as slow as it. */
START_TEST(ranks_of_one_role_stay_apart)
{
    static const double seconds[] = {1, 1, 1, 1};
    for (int fold = 0; fold < 2; fold++) {
        rig *r = work_rig(4, 4, seconds);
        r->config.fold = fold;
        r->world->slowdown[2] = 3;
        const luo_step_result s = rig_step(r);
        rig_near(rig_seconds(&s), 3, 1e-6, "step");
        for (int32_t d = 0; d < 4; d++)
            rig_near(s.parts[d].compute_s, d == 2 ? 3 : 1, 1e-6, "compute");
        rig_free(r);
    }
}
END_TEST

/* A slowed rank sleeps for what it is slower, and leaves its core to others. */
START_TEST(slow_ranks_sleep)
{
    static const double seconds[] = {1, 1.000001};
    rig *r = work_rig(2, 1, seconds);
    r->world->slowdown[1] = 3;
    const luo_step_result s = rig_step(r);
    rig_near(rig_seconds(&s), 2 + 2, 1e-5, "step");
    rig_near(s.compute_s[0], 1, 1e-5, "processor time");
    rig_near(s.compute_s[1], 3, 1e-5, "processor time and sleep");
    rig_near(s.predicted_s[1], 1, 1e-5, "nominal");
    rig_free(r);
}
END_TEST

/* ---- one thread ---- */

enum { SUM_BYTES = 1000000000 };

/* Rank d works before[d], posts the sum, works after[d] beside it, and needs it last. Groups of
 * `size` neighbours. */
static rig *sum_rig(int32_t n, int32_t size, double c, const double *before, const double *after)
{
    rig *r = rig_new(&(rig_shape){.devices_per_node = n, .cores = c});
    for (int32_t d = 0; d < n; d++) {
        const int32_t role = rig_role(r);
        if (before[d] > 0) rig_work(r, role, before[d]);
        const int32_t sum =
            rig_collective(r, role, LUO_STREAM_DP, LUO_COLL_AR, SUM_BYTES, d / size);
        if (after[d] > 0) rig_work(r, role, after[d]);
        rig_after(r, role, rig_work(r, role, 0.001), sum);
        rig_device(r, d, role, 0, d);
        rig_task(r, d, 0, -1);
    }
    for (int32_t d = 0; d < n; d++) {
        int32_t dev[RANKS_MAX];
        for (int32_t i = 0; i < size; i++) dev[i] = d / size * size + i;
        const int32_t group =
            d % size ? r->set.ngroups - 1 : rig_group(r, LUO_STREAM_DP, size, dev);
        rig_join(r, d, before[d] > 0, group);
    }
    return r;
}

/* The collective of two takes 2 * 1/2 * 1 GB / 100 GB/s = 10 ms with a core each. */
START_TEST(one_thread_does_one_thing)
{
    static const double before[] = {0.01, 0.03}, after[] = {0.05, 0.02};
    rig *r = sum_rig(2, 2, 2, before, after);
    r->config.fold = _i;
    const luo_step_result s = rig_step(r);
    /* both wait for it from 60 ms on; only then does it move */
    rig_near(rig_seconds(&s), 0.06 + 0.01 + 0.001, 1e-6, "step");
    for (int32_t d = 0; d < 2; d++) {
        rig_near(s.parts[d].compute_s, before[d] + after[d] + 0.001, 1e-6, "compute");
        /* held up by it: 10 ms, and before that by who is still at work */
        rig_near(s.parts[d].dp_s, 0.071 - before[d] - after[d] - 0.001, 1e-6, "sum");
    }
    rig_free(r);
}
END_TEST

/* Four pairs on two cores want eight cores at once; one pair beside three idle ones does not. */
START_TEST(communication_takes_cores)
{
    static const double none[8] = {0}, one[8] = {0, 0, 1, 1, 1, 1, 1, 1};
    rig_near(rig_run(sum_rig(8, 2, 2, none, none)), (0.01 + 0.001) * 4, 1e-6, "four pairs");
    rig_near(rig_run(sum_rig(8, 8, 2, none, none)), 1.75e9 / 100e9 + 0.004, 1e-6, "all eight");
    /* while six work, the pair has a quarter of a core each: its sum and its work take 44 ms */
    rig *r = sum_rig(8, 2, 2, none, one);
    r->trace = true;
    const luo_step_result s = rig_step(r);
    for (int32_t i = 0; i < s.nrecords; i++)
        if (s.records[i].device == 0 && s.records[i].instr == 1)
            rig_near(s.records[i].end_s, 4 * 0.011, 1e-6, "pair beside work");
    rig_free(r);
}
END_TEST

/* ---- messages ---- */

/* Rank 0 works, sends, works on; rank 1 works first[1] and needs the message last. */
static rig *message_rig(double c, double first, double second)
{
    rig *r = rig_new(&(rig_shape){.devices_per_node = 2, .cores = c, .p2p_s = 0.002});
    const int32_t from = rig_role(r), to = rig_role(r);
    const int32_t made = rig_work(r, from, 0.01);
    const int32_t send = rig_p2p(r, from, LUO_STREAM_PP, SUM_BYTES, 0);
    rig_after(r, from, send, made);
    if (first > 0) rig_work(r, from, first);
    const int32_t got = rig_p2p(r, to, LUO_STREAM_PP, 0, 0);
    if (second > 0) rig_work(r, to, second);
    rig_after(r, to, rig_work(r, to, 0.001), got);
    rig_device(r, 0, from, 0, 0);
    rig_device(r, 1, to, 0, 1);
    for (int32_t d = 0; d < 2; d++) rig_task(r, d, 0, -1);
    rig_message(r, 0, send, 1, true, SUM_BYTES);
    rig_message(r, 1, got, 0, false, SUM_BYTES);
    return r;
}

START_TEST(receiver_copies)
{
    /* 2 ms to be woken, 10 ms to copy; the sender is not held up */
    rig_near(rig_run(message_rig(2, 0, 0)), 0.01 + 0.012 + 0.001, 1e-6, "receiver waits");
    rig_near(rig_run(message_rig(2, 0.5, 0)), 0.01 + 0.5, 1e-6, "sender works on");
    rig_near(rig_run(message_rig(2, 0, 0.1)), 0.1 + 0.012 + 0.001, 1e-6, "receiver works first");
    /* on one core the waiting receiver takes nothing from the sender */
    rig_near(rig_run(message_rig(1, 0, 0)), 0.01 + 0.012 + 0.001, 1e-6, "one core, receiver waits");
    /* then all of it shares the core with the sender's work: both want it for 12 ms */
    rig_near(rig_run(message_rig(1, 0.012, 0)), 0.01 + 0.024 + 0.001, 1e-6, "shared");
}
END_TEST

/* What is posted first need not be ready first: no deadlock where threads meet crosswise. */
START_TEST(crosswise)
{
    rig *r = rig_new(&(rig_shape){.devices_per_node = 3, .cores = 3});
    static const int32_t pair[3][2] = {{0, 1}, {1, 2}, {0, 2}};
    static const luo_stream stream[3] = {LUO_STREAM_DP, LUO_STREAM_TP, LUO_STREAM_MOVE};
    int32_t ids[3][2];
    for (int32_t d = 0; d < 3; d++) {
        const int32_t role = rig_role(r);
        rig_work(r, role, 0.01 * (1 + d));
        for (int32_t k = 0, at = 0; k < 3; k++) {
            const int32_t e = (k + d) % 3; /* in another order on each device */
            if (pair[e][0] != d && pair[e][1] != d) continue;
            ids[d][at++] = e;
            rig_collective(r, role, stream[e], LUO_COLL_AR, SUM_BYTES, e);
        }
        rig_device(r, d, role, 0, d);
        rig_task(r, d, 0, -1);
    }
    int32_t group[3];
    for (int32_t e = 0; e < 3; e++) group[e] = rig_group(r, stream[e], 2, pair[e]);
    for (int32_t d = 0; d < 3; d++)
        for (int32_t k = 0; k < 2; k++) rig_join(r, d, 1 + k, group[ids[d][k]]);
    /* 0 and 1 from 20 ms on, then 1 and 2 or 0 and 2 from 30 ms, then the last: they share threads
     */
    rig_near(rig_run(r), 0.05, 1e-6, "step");
}
END_TEST

/* A rank that dies while threads carry something, or compute, ends the step at that date. */
START_TEST(failure_ends_the_step)
{
    static const double before[] = {0.01, 0.03}, after[] = {0.05, 0.02}, at[] = {0.02, 0.065};
    rig *r = sum_rig(2, 2, 2, before, after);
    const luo_change change = {.at_s = at[_i], .kind = LUO_CHANGE_DOWN, .target = 1};
    r->trace = true; /* else it is not simulated */
    const luo_step_result s = rig_step_with(r, &change, 1);
    ck_assert_int_eq(s.status, LUO_EPEER);
    ck_assert_int_eq(s.failed_device, 1);
    rig_near(rig_seconds(&s), at[_i], 1e-9, "end");
    rig_free(r);
}
END_TEST

LUO_SUITE("backend.sim_thread", LUO_T_N(equal_ranks_share_cores, 2 * LUO_ROWS(cores)),
          LUO_T(unequal_ranks_share_cores), LUO_T(ranks_of_one_role_stay_apart),
          LUO_T(slow_ranks_sleep), LUO_T_N(one_thread_does_one_thing, 2),
          LUO_T(communication_takes_cores), LUO_T(receiver_copies), LUO_T(crosswise),
          LUO_T_N(failure_ends_the_step, 2))
