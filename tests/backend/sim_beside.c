/* sim_beside.c: computation beside calls between pipelines, against times found by hand, and
 * against a twin that follows kernels and calls of a device from date to date. */
#include "core/base/rng.h"
#include "core/cost/cost.h"
#include "tests/prop/prop.h"
#include "tests/sim_fixture.h"

#define EXACT 1e-9

/* Devices 0 to n - 1 run the role, each a pipeline; all join the collectives of `calls`. */
static void fill(rig *r, int32_t role, int32_t n, int32_t ncalls, const int32_t *calls)
{
    int32_t dev[8];
    for (int32_t d = 0; d < n; d++) dev[d] = d;
    const int32_t group = rig_group(r, LUO_STREAM_DP, n, dev);
    for (int32_t d = 0; d < n; d++) {
        rig_device(r, d, role, d, 0);
        for (int32_t s = 0; s < r->set.roles[role].nseg; s++)
            rig_task(r, d, s, luo_phase_in_task(r->set.roles[role].seg[s].phase) ? 0 : -1);
        for (int32_t k = 0; k < ncalls; k++) rig_join(r, d, calls[k], group);
    }
}

/* A gather of 0.1 s beside two kernels of 0.08 and 0.12 s. While it runs they lose x of their
 * speed: when it ends, they have done 0.1 (1 - x) of their 0.2 s, so that all takes 0.2 + 0.1 x. */
typedef struct place {
    const char *what;
    rig_shape shape;
    double loss, gather_s;
} place;

static const place places[] = {
    {"over the network", {.nodes = 4, .net_loss = 0.2}, 0.2, 0.1},
    {"inside a node", {.devices_per_node = 4, .nvlink_loss = 0.1, .net_loss = 0.5}, 0.1, 0.1},
    {"over both", {.nodes = 2, .devices_per_node = 2, .nvlink_loss = 0.1, .net_loss = 0.2}, 0.2,
     0.1},
    {"over both", {.nodes = 2, .devices_per_node = 2, .nvlink_loss = 0.2, .net_loss = 0.1}, 0.2,
     0.1},
    {"no loss", {.nodes = 4, .nvlink_loss = 0.5}, 0, 0.1},
    {"CPU ranks have none", {.nodes = 4, .cores = 1, .net_loss = 0.2}, 0, 0.1},
};

/* Bytes that a gather of four takes so long for. */
static int64_t gather_bytes(const rig_shape *shape, double seconds)
{
    const bool wide = shape->nodes > 1;
    const int32_t nodes = wide ? shape->nodes : 4, per = wide && shape->devices_per_node ? 2 : 1;
    const double rate = wide ? per * 10e9 : 100e9;
    return llround(seconds * rate * nodes / (nodes - 1));
}

enum { MODES = 3 };

START_TEST(gather_beside_kernels)
{
    const place *p = &places[_i / (2 * MODES)];
    rig *r = rig_new(&p->shape);
    const int32_t role = rig_role(r);
    rig_segment(r, role, LUO_PHASE_PRE, 0);
    const int32_t gather = rig_collective(r, role, LUO_STREAM_DP, LUO_COLL_AG,
                                          gather_bytes(&p->shape, p->gather_s), 0);
    rig_segment(r, role, LUO_PHASE_F, 0);
    rig_work(r, role, 0.08);
    rig_segment(r, role, LUO_PHASE_B, 0);
    rig_work(r, role, 0.12);
    r->stack.dp_overlap = true;
    r->config.comm = (luo_comm_mode)(_i % MODES);
    r->config.fold = _i / MODES % 2 == 0;
    fill(r, role, 4, 1, &gather);
    luo_step_result s = rig_step(r);
    if (p->shape.cores == 0) {
        const double want = 0.2 + p->loss * p->gather_s;
        rig_near(rig_seconds(&s), want, 1e-6, p->what);
        rig_near(s.predicted_s[0], want, 1e-6, "what a nominal device needs");
        s = rig_step(r);
        rig_near(rig_seconds(&s), want, 1e-6, "the same again");
    } else {
        rig_near(s.parts[0].compute_s, 0.2, 1e-6, p->what); /* it takes turns with the gather */
    }
    rig_free(r);
}
END_TEST

/* Two lanes: while both calls are under way the larger loss counts, once. Each of four devices in
 * two nodes sums with its like on the other node (x = 0.1) and, for a shorter time, with its
 * neighbour (x = 0.3). */
START_TEST(larger_loss_counts)
{
    rig *r = rig_new(&(rig_shape){.nodes = 2, .devices_per_node = 2, .nvlink_loss = 0.3,
                                  .net_loss = 0.1});
    static const int32_t near_of[2][2] = {{0, 1}, {2, 3}}, wide_of[2][2] = {{0, 2}, {1, 3}};
    int32_t group[2][2];
    const int32_t role = rig_role(r);
    rig_segment(r, role, LUO_PHASE_F, 0);
    rig_work(r, role, 0.2); /* with calls of ZeRO-3 */
    const int32_t wide = rig_collective(r, role, LUO_STREAM_DP, LUO_COLL_AR, 1000000000, 0);
    const int32_t near = rig_collective(r, role, LUO_STREAM_DP, LUO_COLL_AR, 5000000000, 1);
    ((luo_instr *)r->set.roles[role].instr)[near].lane = 1;
    rig_segment(r, role, LUO_PHASE_B, 0);
    r->stack.dp_overlap = true;
    r->config.fold = _i == 0;
    for (int k = 0; k < 2; k++) {
        group[0][k] = rig_group(r, LUO_STREAM_DP, 2, near_of[k]);
        group[1][k] = rig_group(r, LUO_STREAM_DP, 2, wide_of[k]);
    }
    for (int32_t d = 0; d < 4; d++) {
        rig_device(r, d, role, d, 0);
        rig_task(r, d, 0, 0);
        rig_task(r, d, 1, 0);
        rig_join(r, d, near, group[0][d / 2]);
        rig_join(r, d, wide, group[1][d % 2]);
    }
    r->config.comm = LUO_COMM_MODEL;
    luo_step_result s = rig_step(r);
    double wide_s = 0, near_s = 0;
    for (int32_t i = 0; i < s.ncomm; i++)
        *(s.comm[i].group == group[0][0] || s.comm[i].group == group[0][1] ? &near_s : &wide_s) =
            s.comm[i].busy_s / (double)s.comm[i].calls;
    ck_assert(near_s > 0 && near_s < wide_s && wide_s < 0.2);
    rig_near(rig_seconds(&s), 0.2 + 0.3 * near_s + 0.1 * (wide_s - near_s), 1e-6, "both");
    rig_free(r);
}
END_TEST

/* Four nodes; a gather of 0.1 s beside a backward of 0.2 s. */
static rig *gather_beside_work(bool trace)
{
    rig *r = rig_new(&(rig_shape){.nodes = 4, .net_loss = 0.2});
    const int32_t role = rig_role(r);
    rig_segment(r, role, LUO_PHASE_PRE, 0);
    const int32_t gather = rig_collective(r, role, LUO_STREAM_DP, LUO_COLL_AG,
                                          llround(0.1 * 10e9 * 4 / 3), 0);
    rig_segment(r, role, LUO_PHASE_F, 0);
    rig_segment(r, role, LUO_PHASE_B, 0);
    rig_work(r, role, 0.2);
    r->stack.dp_overlap = true;
    r->trace = trace;
    fill(r, role, 4, 1, &gather);
    return r;
}

/* A device of half the speed does half as much beside the call, and loses as many seconds. Only one
 * that the call is beside is slowed; the world of the step before is forgotten. */
START_TEST(slow_devices)
{
    rig *r = gather_beside_work(false);
    for (int32_t k = 0; k < 3; k++) {
        r->world->slowdown[2] = k == 1 ? 2 : 1;
        const luo_step_result s = rig_step(r);
        rig_near(s.compute_s[2], (k == 1 ? 0.4 : 0.2) + 0.02, 1e-6, "the slow one");
        rig_near(s.compute_s[1], 0.22, 1e-6, "another");
    }
    rig_free(r);
}
END_TEST

/* A link that is down ends the forerun, and the step; one that goes down ends the step alone. */
START_TEST(links_go_down)
{
    rig *r = gather_beside_work(true);
    const int32_t nic = r->cluster.nodes[1].nic;
    if (_i == 0) r->world->link_factor[nic] = 0;
    const luo_change down = {.at_s = 0.05, .kind = LUO_CHANGE_LINK, .target = nic, .value = 0};
    const luo_step_result s = rig_step_with(r, &down, _i);
    ck_assert_int_eq(s.status, LUO_EPEER);
    ck_assert_int_eq(s.failed_link, nic);
    ck_assert(fabs(rig_seconds(&s) - 0.05 * _i) < 1e-6);
    rig_free(r);
}
END_TEST

/* The host's share of a kernel is not slowed: of (d^2 + h^2)^(1/2) only d. */
START_TEST(host_is_not_slowed)
{
    luo_stack stack;
    luo_stack_default(&stack);
    stack.host_exponent = 2;
    rig_near(luo_cost_slowed(&stack, 3, 5, 0.25), sqrt(16 + 16), EXACT, "3 and 4 of 5");
    rig_near(luo_cost_slowed(&stack, 5, 5, 0.2), 6.25, EXACT, "no host");
    rig_near(luo_cost_slowed(&stack, 0, 5, 0.2), 5, EXACT, "host alone");
    rig_near(luo_cost_slowed(&stack, 3, 5, 0), 5, EXACT, "no loss");
}
END_TEST

/* ---- the twin ---- */

enum { KERNELS_MAX = 12 };

typedef struct scene { /* a backward: kernel i, then its call, in one lane; then an update */
    int32_t n;
    double work[KERNELS_MAX], call[KERNELS_MAX], update, loss;
} scene;

/* From date to date, at which a kernel or a call ends. */
static double twin(const scene *x)
{
    double now = 0, left = x->work[0], call = 0;
    int32_t kernel = 0, called = 0; /* the ones at hand */
    bool calls = false;
    while (called < x->n) {
        if (!calls && called < kernel) {
            calls = true;
            call = x->call[called];
        }
        const double speed = calls ? 1 - x->loss : 1;
        double span = calls ? call : HUGE_VAL;
        if (kernel < x->n) span = fmin(span, left / speed);
        now += span;
        call -= span;
        if (kernel < x->n && (left -= span * speed) <= 1e-15) left = x->work[++kernel % x->n];
        if (calls && call <= 1e-15) calls = false, called++;
    }
    return now + x->update;
}

static double simulated(const scene *x, bool fold)
{
    rig *r = rig_new(&(rig_shape){.nodes = 4, .net_loss = x->loss});
    const int32_t role = rig_role(r);
    int32_t calls[KERNELS_MAX], work[KERNELS_MAX];
    rig_segment(r, role, LUO_PHASE_F, 0);
    rig_segment(r, role, LUO_PHASE_B, 0);
    for (int32_t i = 0; i < x->n; i++) work[i] = rig_work(r, role, x->work[i]);
    rig_segment(r, role, LUO_PHASE_POST, 0);
    for (int32_t i = 0; i < x->n; i++) {
        calls[i] = rig_collective(r, role, LUO_STREAM_DP, LUO_COLL_AR,
                                  llround(x->call[i] * 10e9 / 1.5), i);
        rig_after(r, role, calls[i], work[i]);
    }
    const int32_t update = rig_work(r, role, x->update);
    for (int32_t i = 0; i < x->n; i++) rig_after(r, role, update, calls[i]);
    r->stack.dp_overlap = true;
    r->config.fold = fold;
    fill(r, role, 4, x->n, calls);
    return rig_run(r);
}

/* Kernels and calls of 1 to 20 ms, calls of some scenes longer than all kernels. First order is off
 * by less than loss squared. */
START_TEST(backward_and_calls)
{
    double worst = 0, sum = 0;
    int32_t slowed = 0, n = 0;
    LUO_PROP_FOR(seed, 100)
    {
        luo_rng rng = luo_rng_seed(seed);
        scene x = {.n = 2 + (int32_t)luo_rng_pick(&rng, KERNELS_MAX - 1), .update = 0.005};
        x.loss = 0.05 * (double)(1 + luo_rng_pick(&rng, 4));
        const double longer = luo_rng_pick(&rng, 2) ? 1 : 0.3;
        for (int32_t i = 0; i < x.n; i++) {
            x.work[i] = 0.001 * (double)(1 + luo_rng_pick(&rng, 20));
            x.call[i] = longer * 0.001 * (double)(1 + luo_rng_pick(&rng, 20));
        }
        scene free = x;
        free.loss = 0;
        const double want = twin(&x), alone = twin(&free);
        const double got = simulated(&x, true), apart = simulated(&x, false);
        rig_near(apart, got, 1e-6, "device by device");
        rig_near(simulated(&free, true), alone, 1e-6, "no loss");
        const double off = fabs(got / want - 1);
        ck_assert_msg(off < x.loss * x.loss, "LUO_SEED=%llu: %.9g s, twin %.9g s, loss %g",
                      (unsigned long long)seed, got, want, x.loss);
        worst = fmax(worst, off);
        sum += off;
        n++;
        slowed += want > alone * 1.001;
    }
    printf("%d scenes, %d slowed: off by %.4f %% in the mean, %.3f %% at most\n", n, slowed,
           100 * sum / n, 100 * worst);
    ck_assert(n < 100 || slowed >= 50);
}
END_TEST

LUO_SUITE("backend.sim_beside", LUO_T_N(gather_beside_kernels, 2 * MODES * LUO_ROWS(places)),
          LUO_T_N(larger_loss_counts, 2), LUO_T(slow_devices), LUO_T_N(links_go_down, 2),
          LUO_T(host_is_not_slowed),
          LUO_T(backward_and_calls))
