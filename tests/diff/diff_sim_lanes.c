/* diff_sim_lanes.c: flows of calls in several lanes against the timetables of the computed vectors,
 * L1 to L5 (7, test 7), and the part of vector X that is about lanes. 1 ms there is 10 us here,
 * where the fixed part of a ring of two is less than that of a tree. */
#include "tests/check_main.h"
#include "tests/lanes_scenes.h"
#include "tests/sim_fixture.h"

enum { MOST_DEVICES = 6 };
#define TICK 1e-5 /* s, of a ms in the page */
#define NIC 10e9
#define NEAR 0.01

static const struct {
    void (*make)(scene *s);
    int32_t bucket; /* layers, of L4 */
    double end[3];  /* one, two, four lanes; as computed there */
} scenes[] = {{one_each, 0, {18, 18, 18}},  {two_each, 0, {18, 18, 18}},
              {shifted, 0, {16, 14, 14}},   {uneven, 0, {20, 17.5, 17.5}},
              {NULL, 4, {89, 88, 89}},      {NULL, 99, {87, 89.5, 89.5}},
              {NULL, 1, {101, 87, 88.5}},   {levels, 0, {16, 15, 15}}};

static bool takes_part(const luo_lane_call *c, int32_t dev)
{
    return c->dev[0] == dev || c->dev[1] == dev;
}

/* Work up to a date, on a device that has worked up to `now`. */
static int32_t work_until(rig *r, int32_t role, int64_t *now, int64_t date)
{
    const int32_t id = rig_work(r, role, (double)(date - *now) / MS * TICK);
    *now = date;
    return id;
}

/* Work of the device up to the dates of its calls, in the order of these. done[i]: instruction. */
static void add_work(rig *r, const scene *s, int32_t dev, int32_t role, int32_t *done)
{
    int64_t now = 0;
    for (;;) {
        int64_t next = INT64_MAX;
        for (int32_t i = 0; i < s->n; i++)
            if (takes_part(&s->call[i], dev) && s->call[i].ready > now && s->call[i].ready < next)
                next = s->call[i].ready;
        if (next == INT64_MAX) return;
        const int32_t id = work_until(r, role, &now, next);
        for (int32_t i = 0; i < s->n; i++)
            if (s->call[i].ready == next) done[i] = id;
    }
}

/* Calls in the order of the timetable; what comes before on this device is waited for. */
static void add_calls(rig *r, const scene *s, const luo_timetable *t, int32_t dev, int32_t role,
                      const int32_t *done, int32_t *id)
{
    for (int32_t k = 0; k < s->n; k++) {
        const int32_t i = t->order[k];
        const luo_lane_call *c = &s->call[i];
        id[i] = -1;
        if (!takes_part(c, dev)) continue;
        const int64_t bytes = 1 + (int64_t)((double)c->moving / MS * TICK * NIC);
        id[i] = rig_collective(r, role, LUO_STREAM_DP, LUO_COLL_AR, bytes, i);
        ((luo_instr *)r->set.roles[role].instr)[id[i]].lane = t->lane[i][c->dev[0] != dev];
        rig_after(r, role, id[i], done[i]);
        for (int32_t b = 0; b < c->nbefore; b++)
            if (id[c->before[b]] >= 0) rig_after(r, role, id[i], id[c->before[b]]);
    }
}

/* A device a node; the ring of two costs 1 ms and its bytes. */
static rig *rig_of(const scene *s, const luo_timetable *t, int32_t ndev)
{
    int32_t group[TWIN_CALLS], done[TWIN_CALLS], id[TWIN_CALLS];
    rig *r = rig_new(&(rig_shape){.nodes = ndev, .nic_bytes_per_s = NIC,
                                  .net_half_bytes = TICK / 2 * NIC});
    r->stack.dp_overlap = true; /* calls go when they can, as in the timetable */
    for (int32_t i = 0; i < s->n; i++) {
        group[i] = -1;
        for (int32_t k = 0; k < i && group[i] < 0; k++)
            if (s->group[k] == s->group[i]) group[i] = group[k];
        if (group[i] < 0) group[i] = rig_group(r, LUO_STREAM_DP, 2, s->call[i].dev);
    }
    for (int32_t d = 0; d < ndev; d++) {
        const int32_t role = rig_role(r);
        rig_segment(r, role, LUO_PHASE_POST, 0);
        add_work(r, s, d, role, done);
        add_calls(r, s, t, d, role, done, id);
        rig_device(r, d, role, 0, d);
        for (int32_t i = 0; i < s->n; i++)
            if (id[i] >= 0) rig_join(r, d, id[i], group[i]);
        rig_task(r, d, 0, -1);
    }
    return r;
}

static int32_t devices_of(const scene *s)
{
    int32_t n = 0;
    for (int32_t i = 0; i < s->n; i++)
        for (int32_t k = 0; k < 2; k++)
            if (s->call[i].dev[k] >= n) n = s->call[i].dev[k] + 1;
    return n;
}

START_TEST(flows_take_the_timetable)
{
    const int32_t row = _i / 3, lanes = 1 << _i % 3;
    luo_arena *a = luo_arena_new(1 << 16);
    scene s;
    luo_timetable t;
    luo_err err = {0};
    char what[64];
    if (scenes[row].make) scenes[row].make(&s);
    else two_pipelines(&s, scenes[row].bucket);
    ck_assert_int_eq(luo_lanes_schedule(a, s.call, s.n, TWIN_DEVICES, s.ngroups, lanes, &t, &err),
                     LUO_OK);
    snprintf(what, sizeof what, "scene %d in %d lanes", row, (int)lanes);
    rig_near(rig_run(rig_of(&s, &t, devices_of(&s))) / TICK, scenes[row].end[_i % 3], NEAR, what);
    luo_arena_free(a);
}
END_TEST

/* ---- vector X: three calls that are issued in a circle ---- */

/* order[d]: the two calls of device d; every call in a lane of its own, or all in one. */
static rig *three(const int32_t order[3][2], bool lanes)
{
    static const int32_t members[3][2] = {{0, 1}, {1, 2}, {0, 2}}; /* of a, b, c */
    rig *r = rig_new(&(rig_shape){.nodes = 3});
    int32_t group[3];
    for (int32_t c = 0; c < 3; c++) group[c] = rig_group(r, LUO_STREAM_DP, 2, members[c]);
    for (int32_t d = 0; d < 3; d++) {
        const int32_t role = rig_role(r);
        int32_t id[2];
        for (int32_t k = 0; k < 2; k++) {
            id[k] = rig_collective(r, role, LUO_STREAM_DP, LUO_COLL_AR, 1000, order[d][k]);
            ((luo_instr *)r->set.roles[role].instr)[id[k]].lane = (uint8_t)(lanes ? k : 0);
        }
        rig_device(r, d, role, 0, d);
        for (int32_t k = 0; k < 2; k++) rig_join(r, d, id[k], group[order[d][k]]);
        rig_task(r, d, 0, -1);
    }
    return r;
}

/* Two lanes would finish, but the library may run communicators one after another. */
START_TEST(a_circle_is_refused)
{
    enum { A, B, C };
    static const int32_t circle[3][2] = {{A, C}, {B, A}, {C, B}};
    static const int32_t sequence[3][2] = {{A, C}, {A, B}, {B, C}};
    rig *r = three(circle, _i);
    ck_assert_int_eq(luo_program_check(r->arena, &r->set, &r->err), LUO_EINPUT);
    ck_assert_msg(strstr(r->err.text, "the programs wait for each other for ever") != NULL, "%s",
                  r->err.text);
    rig_free(r);
    ck_assert(rig_run(three(sequence, _i)) > 0);
}
END_TEST

/* ---- vector Q: weights gathered once, in buckets, ahead of the forward that reads them ---- */

enum { UNITS = 4 };
static const struct {
    int32_t n, units[UNITS]; /* buckets */
    double end;              /* of forward: units of 4, gathers of 5 a unit and 1 a bucket */
} gathers[] = {{4, {1, 1, 1, 1}, 28}, {3, {1, 2, 1}, 29}, {2, {2, 2}, 30}, {2, {1, 3}, 34},
               {1, {4}, 37}};

START_TEST(forward_waits_for_the_buckets_it_reads)
{
    static const int32_t both[] = {0, 1};
    rig *r = rig_new(&(rig_shape){.nodes = 2, .nic_bytes_per_s = NIC,
                                  .net_half_bytes = TICK / 2 * NIC});
    const int32_t role = rig_role(r), n = gathers[_i].n;
    int32_t id[UNITS];
    rig_segment(r, role, LUO_PHASE_POST, 0);
    for (int32_t b = 0; b < n; b++)
        id[b] = rig_collective(r, role, LUO_STREAM_DP, LUO_COLL_AR,
                               (int64_t)(5 * gathers[_i].units[b] * TICK * NIC), b);
    for (int32_t b = 0; b < n; b++)
        for (int32_t u = 0; u < gathers[_i].units[b]; u++)
            rig_after(r, role, rig_work(r, role, 4 * TICK), id[b]);
    const int32_t group = rig_group(r, LUO_STREAM_DP, 2, both);
    for (int32_t d = 0; d < 2; d++) {
        rig_device(r, d, role, 0, d);
        for (int32_t b = 0; b < n; b++) rig_join(r, d, id[b], group);
        rig_task(r, d, 0, -1);
    }
    rig_near(rig_run(r) / TICK, gathers[_i].end, NEAR, "forward");
}
END_TEST

LUO_SUITE("diff.sim_lanes", LUO_T_N(flows_take_the_timetable, 3 * LUO_ROWS(scenes)),
          LUO_T_N(a_circle_is_refused, 2),
          LUO_T_N(forward_waits_for_the_buckets_it_reads, LUO_ROWS(gathers)))
