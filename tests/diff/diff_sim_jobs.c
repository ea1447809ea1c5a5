/* Jobs that share NICs and uplinks: random messages of two or three jobs, which begin at random
 * dates, against one program set that has all of them; and by hand: who shares what, when jobs come
 * and go, steps that are told without being simulated, bytes over links. */
#include "core/run/jobs/jobs.h"
#include "sim/jobs/jobs.h"
#include "tests/prop/prop.h"
#include "tests/sim_fixture.h"

enum { JOBS_MAX = 3, PER_NODE = 3, NODES_MAX = 5, DEVICES_MAX = NODES_MAX * PER_NODE };
static const double nic = 10e9;

typedef struct flow {
    int32_t src, dst, job; /* devices of different nodes */
    int64_t bytes;
    double start; /* the sender works so long first */
} flow;

typedef struct scene {
    int32_t nodes, n, njobs;
    double uplink; /* 0: one switch */
    int32_t rack[NODES_MAX];
    flow flow[DEVICES_MAX];
    double start_s[JOBS_MAX];
    double duration_s[JOBS_MAX]; /* 0: by steps */
} scene;

/* ---- programs ---- */

/* job -1: all of them, each after its start. */
static rig *make_rig(const scene *s, int32_t job)
{
    rig *r = rig_new(&(rig_shape){.nodes = s->nodes,
                                  .devices_per_node = PER_NODE,
                                  .nics = 1,
                                  .nic_bytes_per_s = nic,
                                  .uplink_bytes_per_s = s->uplink,
                                  .rack = s->rack});
    r->set.hash = (uint64_t)(job + 2);
    for (int32_t d = 0; d < s->nodes * PER_NODE; d++) {
        bool any = false;
        for (int k = 0; k < s->n; k++)
            any |= (job < 0 || s->flow[k].job == job) &&
                   (s->flow[k].src == d || s->flow[k].dst == d);
        if (!any) continue;
        const int32_t role = rig_role(r);
        for (int k = 0; k < s->n; k++) {
            const flow *f = &s->flow[k];
            if (f->src != d || (job >= 0 && f->job != job)) continue;
            const double work_s = f->start + (job < 0 ? s->start_s[f->job] : 0);
            const int32_t work = work_s > 0 ? rig_work(r, role, work_s) : -1;
            const int32_t send = rig_p2p(r, role, LUO_STREAM_PP, f->bytes, k);
            if (work >= 0) rig_after(r, role, send, work);
        }
        for (int k = 0; k < s->n; k++)
            if (s->flow[k].dst == d && (job < 0 || s->flow[k].job == job))
                rig_p2p(r, role, LUO_STREAM_PP, 0, k);
        rig_device(r, d, role, 0, d);
        rig_task(r, d, 0, -1);
        for (int32_t i = 0; i < r->set.roles[role].ninstr; i++) {
            const luo_instr *in = &r->set.roles[role].instr[i];
            if (in->kind != LUO_INSTR_P2P) continue;
            const flow *f = &s->flow[in->exchange];
            rig_message(r, d, i, f->src == d ? f->dst : f->src, f->src == d, f->bytes);
        }
    }
    rig_segment(r, rig_role(r), LUO_PHASE_F, 0); /* so that it is training, which is folded */
    return r;
}

/* ---- jobs ---- */

typedef struct played { /* steps of one job beside the others */
    int64_t steps, simulated;
    double first_s, last_s, total_s, bytes;
} played;

/* steps: of each job. */
static played play(const scene *s, int32_t own, const int64_t *steps, int64_t joint_steps,
                   bool message)
{
    static luo_model model = {.name = "m"};
    static luo_plan plan = {.name = "p", .dtype = LUO_BF16};
    rig *r[JOBS_MAX];
    luo_job_spec spec[JOBS_MAX];
    const luo_programs *set[JOBS_MAX];
    double began_s[JOBS_MAX], ended_s[JOBS_MAX];
    played out = {0};
    for (int32_t i = 0; i < s->njobs; i++) {
        static const char *const names[] = {"a", "b", "c"};
        r[i] = make_rig(s, i);
        set[i] = &r[i]->set;
        spec[i] = (luo_job_spec){names[i],     &model,
                                 &plan,        s->start_s[i],
                                 s->duration_s[i] > 0 ? 0 : steps[i], s->duration_s[i]};
        began_s[i] = ended_s[i] = HUGE_VAL;
    }
    const luo_scenario scenario = {.cluster = &r[0]->cluster,
                                   .njobs = s->njobs,
                                   .jobs = spec,
                                   .joint_steps = joint_steps};
    luo_jobs jobs = {.scenario = &scenario,
                     .own = own,
                     .steps = s->duration_s[own] > 0 ? INT64_MAX : steps[own],
                     .set = set,
                     .began_s = began_s,
                     .ended_s = ended_s};
    luo_backend_config config = r[0]->config;
    luo_backend_state *state = NULL;
    luo_err err = {0};
    config.options = &jobs;
    if (message) config.comm = LUO_COMM_MESSAGE;
    ck_assert_msg(luo_sim_jobs_backend.open(&config, &state, &err) == LUO_OK, "%s", err.text);
    for (int64_t k = 0; k < jobs.steps; k++) {
        luo_step_result result;
        const luo_step_request request = {
            .programs = set[own], .world = r[0]->world, .step = k};
        ck_assert_msg(luo_sim_jobs_backend.run_ranks(state, &request, &result, &err) == LUO_OK,
                      "%s", err.text);
        rig_check_parts(&result);
        out.last_s = rig_seconds(&result);
        if (k == 0) out.first_s = out.last_s;
        out.total_s += out.last_s;
        out.simulated += !result.reused;
        out.steps++;
        for (int32_t l = 0; l < result.nlinks; l++)
            if (r[0]->cluster.links[l].kind == LUO_LINK_NIC) out.bytes += result.links[l].bytes_up;
    }
    luo_sim_jobs_backend.close(state);
    for (int32_t i = 0; i < s->njobs; i++) rig_free(r[i]);
    return out;
}

/* ---- against one set ---- */

static double plain_end(const scene *s, const luo_step_result *result, int32_t job)
{
    double end = 0;
    for (int32_t i = 0; i < result->nrecords; i++)
        for (int32_t k = 0; k < s->n; k++)
            if (s->flow[k].job == job && (s->flow[k].src == result->records[i].device ||
                                          s->flow[k].dst == result->records[i].device))
                end = fmax(end, result->records[i].end_s);
    return end - s->start_s[job];
}

static void draw(scene *s, luo_rng *rng)
{
    const int32_t want = 2 + (int32_t)luo_rng_pick(rng, 2);
    bool used[JOBS_MAX] = {false};
    int32_t number[JOBS_MAX], color[DEVICES_MAX];
    *s = (scene){.nodes = 2 + (int32_t)luo_rng_pick(rng, NODES_MAX - 1)};
    s->uplink = luo_rng_pick(rng, 2) ? nic * (0.5 + luo_rng_u(rng)) : 0;
    for (int32_t i = 0; i < s->nodes; i++)
        s->rack[i] = (int32_t)luo_rng_pick(rng, i < 2 ? 1 + (uint64_t)i : 3);
    for (int32_t d = 0; d < s->nodes * PER_NODE; d++)
        color[d] = (int32_t)luo_rng_pick(rng, (uint64_t)want);
    for (int32_t d = 0; d < s->nodes * PER_NODE; d++) {
        int32_t to = d;
        for (int k = 0; k < 8 && (color[to] != color[d] || to / PER_NODE == d / PER_NODE); k++)
            to = (int32_t)luo_rng_pick(rng, (uint64_t)(s->nodes * PER_NODE));
        if (color[to] != color[d] || to / PER_NODE == d / PER_NODE) continue;
        s->flow[s->n++] = (flow){d, to, color[d], 1 + (int64_t)(2e9 * luo_rng_u(rng)),
                                 luo_rng_pick(rng, 3) ? 0.4 * luo_rng_u(rng) : 1e-3};
        used[color[d]] = true;
    }
    for (int32_t j = 0; j < want; j++) {
        number[j] = s->njobs;
        if (used[j]) s->start_s[s->njobs++] = luo_rng_pick(rng, 2) ? 0.2 * luo_rng_u(rng) : 0;
    }
    for (int32_t k = 0; k < s->n; k++) s->flow[k].job = number[s->flow[k].job];
}

START_TEST(jobs_are_as_one_set)
{
    static const int64_t steps[] = {1, 1, 1};
    int several = 0, held_up = 0;
    LUO_PROP_FOR(seed, 40) {
        luo_rng rng = luo_rng_seed(seed);
        scene s;
        draw(&s, &rng);
        if (s.njobs < 2) continue;
        several++;
        rig *r = make_rig(&s, -1);
        r->trace = true;
        r->state = NULL;
        const luo_step_result result = rig_step(r);
        for (int32_t j = 0; j < s.njobs; j++) {
            scene alone = s;
            const double want = plain_end(&s, &result, j);
            const played got = play(&s, j, steps, 0, false);
            ck_assert_msg(fabs(got.first_s - want) <= 1e-8,
                          "seed %d, job %d: %.12g s, one set %.12g s", (int)seed, j, got.first_s,
                          want);
            alone.n = 0;
            alone.njobs = 1;
            for (int32_t k = 0; k < s.n; k++)
                if (s.flow[k].job == j) {
                    alone.flow[alone.n] = s.flow[k];
                    alone.flow[alone.n++].job = 0;
                }
            held_up += got.first_s > 1.01 * play(&alone, 0, steps, 0, false).first_s;
        }
        rig_free(r);
    }
    if (getenv("LUO_CASES")) return;
    ck_assert_msg(several > 25 && held_up > 20, "%d with several jobs, %d held up", several,
                  held_up);
}
END_TEST

/* ---- by hand ---- */

/* Two jobs that send 10^9 bytes from node 0 to node 1, whose NICs of 10^10 bytes/s they share:
 * 0.1 s alone. */
static scene pair(void)
{
    return (scene){.nodes = 2,
                   .n = 2,
                   .njobs = 2,
                   .flow = {{0, 3, 0, 1000000000, 0}, {1, 4, 1, 1000000000, 0}}};
}

START_TEST(equal_jobs_halve_a_link)
{
    static const int64_t steps[] = {1000, 1000};
    const scene s = pair();
    for (int32_t j = 0; j < 2; j++) {
        const played got = play(&s, j, steps, 64, _i == 1);
        rig_near(got.first_s, 0.2, 1e-9, "a step beside another");
        rig_near(got.last_s, 0.2, 1e-9, "the last step");
        rig_near(got.total_s, 200, 1e-9, "all steps");
        rig_near(got.bytes, 1000e9, 1e-12, "bytes through NICs");
        ck_assert_int_le(got.simulated, 2);
    }
}
END_TEST

/* The second begins 0.05 s later: the first has 0.5e9 bytes left then and ends at 0.15 s; the
 * second has 0.5e9 left then and ends at 0.2 s. */
START_TEST(one_comes_while_another_sends)
{
    static const int64_t steps[] = {1, 1};
    scene s = pair();
    s.start_s[1] = 0.05;
    rig_near(play(&s, 0, steps, 0, false).first_s, 0.15, 1e-8, "the first");
    rig_near(play(&s, 1, steps, 0, false).first_s, 0.15, 1e-8, "the second");
}
END_TEST

/* The first has 300 steps, the second 100: 100 steps of 0.2 s, then 200 of 0.1 s. And it goes on
 * alone before the second begins at 50 s: 500 steps of 0.1 s, 100 of 0.2 s, 400 of 0.1 s. */
START_TEST(jobs_come_and_go)
{
    static const int64_t ends[] = {300, 100}, begins[] = {1000, 100};
    scene s = pair();
    played got = play(&s, 0, ends, 64, false);
    rig_near(got.first_s, 0.2, 1e-9, "beside the other");
    rig_near(got.last_s, 0.1, 1e-9, "after it");
    rig_near(got.total_s, 100 * 0.2 + 200 * 0.1, 1e-9, "all steps");
    ck_assert_int_le(got.simulated, 6);
    s.start_s[1] = 50;
    got = play(&s, 0, begins, 64, false);
    rig_near(got.first_s, 0.1, 1e-9, "before the other");
    rig_near(got.total_s, 500 * 0.1 + 100 * 0.2 + 400 * 0.1, 1e-4, "all steps");
    rig_near(play(&s, 1, begins, 64, false).total_s, 100 * 0.2, 1e-4, "the other");
}
END_TEST

/* The second has 19.9 s: its hundredth step begins 19.8 s after its first and ends at 20 s, as if
 * it had 100 steps. */
START_TEST(a_duration_ends_a_job)
{
    static const int64_t steps[] = {300, 0};
    scene s = pair();
    s.duration_s[1] = 19.9;
    rig_near(play(&s, 0, steps, _i, false).total_s, 100 * 0.2 + 200 * 0.1, 1e-9, "the first");
    const played got = play(&s, 1, steps, _i, false);
    ck_assert_int_eq(got.steps, 100);
    rig_near(got.total_s, 100 * 0.2, 1e-9, "the second");
    s.start_s[1] = 0.07;
    ck_assert_int_eq(play(&s, 1, steps, _i, false).steps, 100);
}
END_TEST

/* Unequal jobs by durations, and by the numbers of steps that these gave, are the same jobs; no
 * step begins after the end, and one more would have begun before it. */
START_TEST(durations_are_numbers_of_steps)
{
    static const double durations_s[] = {11.3, 7.9};
    scene by_time = pair();
    by_time.flow[0].start = 0.0317;
    by_time.flow[1].start = 0.1191;
    by_time.start_s[1] = 0.6;
    const scene by_steps = by_time;
    for (int32_t i = 0; i < 2; i++) by_time.duration_s[i] = durations_s[i];
    int64_t steps[2] = {0, 0};
    for (int32_t i = 0; i < 2; i++) {
        const played got = play(&by_time, i, steps, 0, false);
        steps[i] = got.steps;
        ck_assert(got.total_s >= durations_s[i] && got.total_s - got.last_s < durations_s[i]);
    }
    for (int32_t i = 0; i < 2; i++) {
        const played got = play(&by_time, i, steps, 0, false);
        const played want = play(&by_steps, i, steps, 0, false);
        rig_near(got.total_s, want.total_s, 1e-12, "all steps");
        rig_near(got.bytes, want.bytes, 1e-12, "bytes through NICs");
    }
    ck_assert_int_gt(steps[1], 20);
}
END_TEST

/* Jobs that share no link are as each alone. */
START_TEST(jobs_apart_do_not_meet)
{
    static const int64_t steps[] = {200, 150};
    scene s = pair(), alone = pair();
    s.nodes = alone.nodes = 4;
    s.flow[1].src = 6;
    s.flow[1].dst = 9;
    s.flow[1].bytes = 777777777;
    alone.n = alone.njobs = 1;
    const played got = play(&s, 0, steps, 8, false), want = play(&alone, 0, steps, 8, false);
    rig_near(got.total_s, want.total_s, 1e-9, "all steps");
    rig_near(got.first_s, want.first_s, 1e-12, "the first");
    ck_assert_int_le(want.simulated, 1);
}
END_TEST

/* Jobs of two nodes of a rack each, whose messages all cross its uplink: as wide as both NICs it
 * holds nobody up, as wide as one it is shared. */
START_TEST(uplinks_that_are_wide_hold_nobody_up)
{
    static const int64_t steps[] = {20, 20};
    scene s = pair();
    s.nodes = 4;
    s.rack[2] = s.rack[3] = 1;
    s.flow[0].dst = 6;
    s.flow[1].src = 3;
    s.flow[1].dst = 9;
    s.uplink = 2 * nic;
    rig_near(play(&s, 0, steps, 64, false).total_s, 20 * 0.1, 1e-9, "a wide uplink");
    s.uplink = nic;
    rig_near(play(&s, 0, steps, 64, false).total_s, 20 * 0.2, 1e-9, "a narrow one");
}
END_TEST

/* Steps of unequal jobs never come again in the same way: what is told for them after 64 is, in the
 * mean, what they take if all are simulated. */
START_TEST(steps_are_told_as_simulated)
{
    static const int64_t steps[] = {900, 540};
    scene s = pair();
    s.flow[0].start = 0.0317;
    s.flow[1].start = 0.1191;
    const played all = play(&s, 0, steps, 0, false), told = play(&s, 0, steps, 64, false);
    rig_near(told.total_s, all.total_s, 0.01, "all steps");
    ck_assert_int_gt(all.simulated, 0);
    ck_assert(all.total_s > 1.1 * 900 * 0.1317);
}
END_TEST

LUO_SUITE("diff.sim_jobs", LUO_T(jobs_are_as_one_set), LUO_T_N(equal_jobs_halve_a_link, 2),
          LUO_T(one_comes_while_another_sends), LUO_T(jobs_come_and_go),
          LUO_T_N(a_duration_ends_a_job, 2), LUO_T(durations_are_numbers_of_steps),
          LUO_T(jobs_apart_do_not_meet), LUO_T(uplinks_that_are_wide_hold_nobody_up),
          LUO_T(steps_are_told_as_simulated))
