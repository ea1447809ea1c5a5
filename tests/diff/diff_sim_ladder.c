/* The simulator against numbers that can be worked out by hand: kernels, transfers, collectives,
 * stragglers, contention, noise; folded and not, in every fidelity. Steps: diff_sim_steps.c. */
#include "core/cost/cost.h"
#include "tests/sim_fixture.h"

#define TIGHT 1e-6
#define ALIKE 1e-3 /* fidelities and folding */
static const char *const mode_names[] = {"model", "flow", "message"};

/* ---- one kernel ---- */

static rig *one_kernel(double seconds)
{
    rig *r = rig_new(&(rig_shape){.devices_per_node = 2});
    const int32_t role = rig_role(r);
    rig_work(r, role, seconds);
    rig_device(r, 0, role, 0, 0);
    rig_task(r, 0, 0, -1);
    return r;
}

START_TEST(one_kernel_takes_its_time)
{
    static const double rows[] = {1e-6, 0.0123, 1, 1000};
    for (int fold = 0; fold < 2; fold++) {
        rig *r = one_kernel(rows[_i]);
        r->config.fold = fold;
        rig_near(rig_run(r), rows[_i], TIGHT, "kernel");
    }
}
END_TEST

/* 2*m*n*k flop at 100 Tflop/s: no launch, no waves lost (sizes are multiples of every tile). */
START_TEST(one_product_takes_what_the_cost_model_says)
{
    rig *r = rig_new(&(rig_shape){0});
    const int32_t role = rig_role(r);
    const luo_cost_key key = {LUO_COST_GEMM, {4096, 8192, 1024, 1, 2, 0}};
    const luo_cost_ctx ctx = {.cluster = &r->cluster, .stack = &r->stack, .dtype = LUO_BF16};
    double want = 0;
    rig_add(r, role, (luo_instr){.kind = LUO_INSTR_COMPUTE, .cost = key});
    rig_device(r, 0, role, 0, 0);
    rig_task(r, 0, 0, -1);
    rig_check(r, luo_cost_instr(&ctx, 0, &key, LUO_BF16, &want, &r->err));
    ck_assert(want >= 2.0 * 4096 * 8192 * 1024 / 100e12);
    rig_near(rig_run(r), want, TIGHT, "product");
}
END_TEST

/* ---- one transfer ---- */

typedef struct transfer {
    bool inside; /* a node */
    int64_t bytes;
    double p2p_s;
} transfer;
static const transfer transfers[] = {
    {true, 1, 0},  {true, 1000000, 0},  {true, 2000000000, 0},  {true, 1000000, 20e-6},
    {false, 1, 0}, {false, 1000000, 0}, {false, 2000000000, 0}, {false, 1000000, 20e-6},
    {false, 1000000007, 0},
};

START_TEST(one_transfer_is_latency_and_bytes)
{
    const transfer *t = &transfers[_i % LUO_ROWS(transfers)];
    const int mode = _i / LUO_ROWS(transfers);
    rig *r = rig_new(&(rig_shape){.nodes = 2, .devices_per_node = t->inside ? 2 : 1,
                                  .port_latency_s = 3e-6, .nic_latency_s = 5e-6,
                                  .p2p_s = t->p2p_s});
    const int32_t sender = rig_role(r), receiver = rig_role(r);
    const int32_t send = rig_p2p(r, sender, LUO_STREAM_PP, t->bytes, 0);
    const int32_t receive = rig_p2p(r, receiver, LUO_STREAM_PP, 0, 0);
    r->config.comm = (luo_comm_mode)mode;
    for (int32_t d = 0; d < 2; d++) {
        rig_device(r, d, d, 0, d);
        rig_task(r, d, 0, -1);
        rig_message(r, d, d ? receive : send, 1 - d, d == 0, t->bytes);
    }
    const double latency = fmax(t->p2p_s, t->inside ? 3e-6 : 5e-6);
    const double want = latency + (double)t->bytes / (t->inside ? 100e9 : 10e9);
    const double got = rig_run(r);
    ck_assert_msg(fabs(got - want) <= 1e-9, "%s row %d: %.12g s, expected %.12g s",
                  mode_names[mode], _i % LUO_ROWS(transfers), got, want);
}
END_TEST

/* ---- collectives ---- */

/* One collective over n devices, all in one node or one on each. */
static rig *one_collective(const rig_shape *shape, int32_t n, luo_coll coll, int64_t bytes)
{
    rig *r = rig_new(shape);
    const int32_t role = rig_role(r);
    const int32_t id = rig_collective(r, role, LUO_STREAM_TP, coll, bytes, 0);
    int32_t dev[256];
    for (int32_t d = 0; d < n; d++) dev[d] = d;
    const int32_t group = rig_group(r, LUO_STREAM_TP, n, dev);
    for (int32_t d = 0; d < n; d++) {
        rig_device(r, d, role, 0, 0);
        rig_task(r, d, 0, -1);
        rig_join(r, d, id, group);
    }
    return r;
}

static const int32_t ring_sizes[] = {2, 3, 4, 8};
enum { RING_CASES = 4 * 5 * 3 * 2 * 2 };

START_TEST(a_collective_takes_its_volume)
{
    int at = _i;
    const int32_t n = ring_sizes[at % 4];
    const luo_coll coll = (luo_coll)((at /= 4) % 5);
    const luo_comm_mode mode = (luo_comm_mode)((at /= 5) % 3);
    const bool inside = (at /= 3) % 2, fold = (at /= 2) % 2;
    const int64_t bytes = 840000000; /* a multiple of all ring sizes */
    const rig_shape shape = {.nodes = inside ? 1 : n, .devices_per_node = inside ? n : 1};
    rig *r = one_collective(&shape, n, coll, bytes);
    r->config.comm = mode;
    r->config.fold = fold;
    const double passes = coll == LUO_COLL_AR ? 2 : 1;
    const double volume = coll == LUO_COLL_BCAST ? 1 : passes * (n - 1) / n;
    char what[96];
    snprintf(what, sizeof what, "%s %s of %d %s nodes, fold %d", mode_names[mode],
             luo_coll_name(coll), n, inside ? "in" : "between", fold);
    rig_near(rig_run(r), volume * (double)bytes / (inside ? 100e9 : 10e9), TIGHT, what);
}
END_TEST

/* The latency of a ring is felt at each of its 2(n-1) steps (docs/cost-model.md#between-nodes:
 * N*VOL(N)*alpha). */
START_TEST(a_ring_between_nodes_pays_latency_per_step)
{
    const int32_t n = 4;
    const double alpha = 7e-6, bandwidth = 10e9;
    rig *r = one_collective(&(rig_shape){.nodes = n, .nic_latency_s = alpha,
                                         .net_half_bytes = alpha * bandwidth},
                            n, LUO_COLL_AR, 40000000);
    r->config.comm = (luo_comm_mode)_i;
    rig_near(rig_run(r), 1.5 * 40e6 / bandwidth + 6 * alpha, TIGHT, mode_names[_i]);
}
END_TEST

/* A small one between nodes goes by a tree in LL (docs/cost-model.md#small-messages), in every
 * fidelity. */
START_TEST(a_small_collective_pays_the_steps_of_a_tree)
{
    const int32_t n = ring_sizes[_i / 3];
    const int64_t bytes = 1 << 10;
    rig *r = one_collective(&(rig_shape){.nodes = n, .nic_latency_s = 1e-7,
                                         .net_half_bytes = 13450000},
                            n, LUO_COLL_AR, bytes);
    const double steps = 2 * ceil(log2(n));
    const double want = 6.6e-6 + steps * 2.7e-6 + 2.0 * (n - 1) / n * (double)bytes / (0.5 * 10e9);
    r->config.comm = (luo_comm_mode)(_i % 3);
    rig_near(rig_run(r), want, TIGHT, mode_names[_i % 3]);
}
END_TEST

/* ---- stragglers ---- */

typedef struct straggler {
    int32_t n;
    luo_change at[2];
    double want;
} straggler;
#define SLOW(t, dev, x) {.at_s = (t), .kind = LUO_CHANGE_SLOWDOWN, .target = (dev), .value = (x)}
static const straggler stragglers[] = { /* a kernel of 1 s on device 0 */
    {1, {SLOW(0.4, 0, 2)}, 0.4 + 2 * 0.6},
    {2, {SLOW(0.4, 0, 2), SLOW(1, 0, 1)}, 0.4 + 0.6 + 0.3},
    {2, {SLOW(0.4, 0, 2), SLOW(0.6, 0, 4)}, 0.4 + 0.2 + 4 * 0.5},
    {1, {SLOW(0.4, 1, 2)}, 1},
    {1, {SLOW(1.5, 0, 2)}, 1},
};

START_TEST(a_straggler_is_felt_in_mid_kernel)
{
    const straggler *row = &stragglers[_i];
    for (int fold = 0; fold < 2; fold++) {
        rig *r = one_kernel(1);
        r->config.fold = fold;
        const luo_step_result s = rig_step_with(r, row->at, row->n);
        ck_assert_int_eq(s.status, LUO_OK);
        rig_near(rig_seconds(&s), row->want, TIGHT, fold ? "folded" : "unfolded");
        rig_near(s.predicted_s[0], 1, TIGHT, "nominal");
        rig_near(s.compute_s[0], row->want, TIGHT, "own compute");
        rig_free(r);
    }
}
END_TEST

START_TEST(a_slow_device_of_the_start_is_slow_in_every_step)
{
    rig *r = one_kernel(1);
    for (int i = 0; i < 3; i++) {
        r->world->slowdown[0] = i == 2 ? 1.5 : 2;
        const luo_step_result s = rig_step(r);
        rig_near(rig_seconds(&s), i == 2 ? 1.5 : 2, TIGHT, "step");
        ck_assert(s.reused == (i == 1));
    }
    rig_free(r);
}
END_TEST

/* One slow member holds up its whole tensor-parallel group; its neighbours wait in the bubble. */
START_TEST(a_group_waits_for_its_slowest_member)
{
    rig *r = rig_new(&(rig_shape){.devices_per_node = 4});
    const int32_t role = rig_role(r), dev[] = {0, 1, 2, 3};
    const int32_t work = rig_work(r, role, 1);
    const int32_t sum = rig_collective(r, role, LUO_STREAM_TP, LUO_COLL_AR, 40000000000, 0);
    rig_after(r, role, sum, work);
    rig_after(r, role, rig_work(r, role, 1), sum);
    const int32_t group = rig_group(r, LUO_STREAM_TP, 4, dev);
    for (int32_t d = 0; d < 4; d++) {
        rig_device(r, d, role, 0, 0);
        rig_task(r, d, 0, -1);
        rig_join(r, d, sum, group);
    }
    r->config.fold = _i % 2;
    r->config.comm = (luo_comm_mode)(_i / 2);
    r->world->slowdown[2] = 3;
    const luo_step_result s = rig_step(r);
    rig_near(rig_seconds(&s), 3 + 0.6 + 3, ALIKE, "step");
    rig_near(s.parts[2].compute_s, 6, ALIKE, "compute of the slow one");
    rig_near(s.parts[0].compute_s, 2, ALIKE, "compute of another");
    rig_near(s.parts[2].tp_s, 0.6, ALIKE, "collective");
    rig_near(s.parts[0].bubble_s, 4, ALIKE, "waiting");
    rig_free(r);
}
END_TEST

/* ---- contention ---- */

/* Two senders in node 0 share its one NIC; receivers are alone in nodes 1 and 2. */
static rig *two_flows(int64_t a, int64_t b)
{
    rig *r = rig_new(&(rig_shape){.nodes = 3, .devices_per_node = 2, .nics = 1});
    const int64_t bytes[] = {a, b};
    for (int32_t k = 0; k < 2; k++) rig_p2p(r, rig_role(r), LUO_STREAM_PP, bytes[k], k);
    for (int32_t k = 0; k < 2; k++) rig_p2p(r, rig_role(r), LUO_STREAM_PP, 0, k);
    for (int32_t k = 0; k < 4; k++) {
        const int32_t dev = k < 2 ? k : 2 * (k - 1), peer = k < 2 ? 2 * (k + 1) : k - 2;
        rig_device(r, dev, k, k % 2, k / 2);
        rig_task(r, dev, 0, -1);
        rig_message(r, dev, 0, peer, k < 2, bytes[k % 2]);
    }
    r->trace = true;
    return r;
}

static double end_of(const luo_step_result *s, int32_t device)
{
    for (int32_t i = 0; i < s->nrecords; i++)
        if (s->records[i].device == device) return s->records[i].end_s;
    return -1;
}

typedef struct sharing {
    int64_t bytes[2];
    double want[2];
} sharing;
static const sharing sharings[] = { /* 10 GB/s, max-min */
    {{1000000000, 1000000000}, {0.2, 0.2}},
    {{1000000000, 3000000000}, {0.2, 0.4}},
    {{4000000000, 1000000000}, {0.5, 0.2}},
};

START_TEST(flows_share_a_nic)
{
    const sharing *row = &sharings[_i / 2];
    rig *r = two_flows(row->bytes[0], row->bytes[1]);
    r->config.fold = _i % 2;
    const luo_step_result s = rig_step(r);
    for (int32_t k = 0; k < 2; k++) {
        rig_near(end_of(&s, k), row->want[k], TIGHT, "sender");
        rig_near(end_of(&s, 2 * (k + 1)), row->want[k], TIGHT, "receiver");
    }
    rig_free(r);
}
END_TEST

START_TEST(a_link_change_is_felt_in_mid_transfer)
{
    rig *r = two_flows(1000000000, 1);
    const int32_t nic = luo_cluster_find_link(&r->cluster, "n-1/nic0");
    ck_assert_int_ge(nic, 0);
    const luo_change half = {.at_s = 0.05, .kind = LUO_CHANGE_LINK, .target = nic, .value = 0.25};
    r->config.fold = _i;
    const luo_step_result s = rig_step_with(r, &half, 1);
    ck_assert_int_eq(s.status, LUO_OK);
    rig_near(rig_seconds(&s), 0.05 + 0.05 * 4, TIGHT, "step");
    r->world->link_factor[nic] = 0.5;
    r->world->link_extra_latency_s[nic] = 0.03;
    const luo_step_result next = rig_step(r);
    rig_near(rig_seconds(&next), 0.2 + 0.03, TIGHT, "next step");
    rig_free(r);
}
END_TEST

/* ---- a network that matters ---- */

/* A4 (docs/architecture/tests.md): a plan bound by communication feels the network, each time in
 * the right direction and by more than 1 %. */
START_TEST(network_and_size_matter)
{
    static const int32_t together[] = {0, 0, 0, 0}, apart[] = {0, 0, 0, 1};
    const rig_shape base = {.nodes = 4, .uplink_bytes_per_s = 4e9, .rack = together};
    rig_shape half = base, moved = base;
    half.nic_bytes_per_s = 5e9;
    moved.rack = apart;
    const double four = rig_run(one_collective(&base, 4, LUO_COLL_AR, 1000000000));
    const double slow = rig_run(one_collective(&half, 4, LUO_COLL_AR, 1000000000));
    const double far = rig_run(one_collective(&moved, 4, LUO_COLL_AR, 1000000000));
    const double two = rig_run(one_collective(&base, 2, LUO_COLL_AR, 1000000000));
    ck_assert_msg(slow > 1.01 * four, "half the NICs: %g s, before %g s", slow, four);
    ck_assert_msg(far > 1.01 * four, "another rack: %g s, before %g s", far, four);
    ck_assert_msg(four > 1.01 * two, "4 devices: %g s, 2: %g s", four, two);
}
END_TEST

/* ---- noise ---- */

/* n kernels of 1 ms; the step is their sum. */
static double noisy(double sigma, uint64_t seed, bool fold)
{
    rig *r = rig_new(&(rig_shape){0});
    const int32_t role = rig_role(r);
    for (int i = 0; i < 2000; i++) rig_work(r, role, 1e-3);
    rig_device(r, 0, role, 0, 0);
    rig_task(r, 0, 0, -1);
    r->config.compute_sigma = sigma;
    r->config.seed = seed;
    r->config.fold = fold;
    return rig_run(r);
}

START_TEST(noise_is_seeded_and_keeps_the_mean)
{
    const double a = noisy(0.05, 1, _i), again = noisy(0.05, 1, _i), b = noisy(0.05, 2, _i);
    ck_assert(a == again);
    ck_assert(a != b);
    rig_near(noisy(0, 1, _i), 2, TIGHT, "without noise");
    rig_near(a, 2, 5e-3, "seed 1"); /* 4.5 standard errors of 0.05 over 2,000 draws */
    rig_near(b, 2, 5e-3, "seed 2");
}
END_TEST

START_TEST(noise_of_communication_is_seeded)
{
    double got[3];
    for (int k = 0; k < 3; k++) {
        rig *r = one_collective(&(rig_shape){.nodes = 4}, 4, LUO_COLL_AR, 1000000000);
        r->config.comm = (luo_comm_mode)_i;
        r->config.comm_sigma = 0.05;
        r->config.seed = k < 2 ? 1 : 2;
        got[k] = rig_run(r);
        rig_near(got[k], 0.15, 0.3, mode_names[_i]);
    }
    ck_assert(got[0] == got[1]);
    ck_assert(got[0] != got[2]);
}
END_TEST

LUO_SUITE("diff.sim_ladder", LUO_T_N(one_kernel_takes_its_time, 4),
          LUO_T(one_product_takes_what_the_cost_model_says),
          LUO_T_N(one_transfer_is_latency_and_bytes, 3 * LUO_ROWS(transfers)),
          LUO_T_N(a_collective_takes_its_volume, RING_CASES),
          LUO_T_N(a_ring_between_nodes_pays_latency_per_step, 3),
          LUO_T_N(a_small_collective_pays_the_steps_of_a_tree, 3 * LUO_ROWS(ring_sizes)),
          LUO_T_N(a_straggler_is_felt_in_mid_kernel, LUO_ROWS(stragglers)),
          LUO_T(a_slow_device_of_the_start_is_slow_in_every_step),
          LUO_T_N(a_group_waits_for_its_slowest_member, 6),
          LUO_T_N(flows_share_a_nic, 2 * LUO_ROWS(sharings)),
          LUO_T_N(a_link_change_is_felt_in_mid_transfer, 2),
          LUO_T(network_and_size_matter), LUO_T_N(noise_is_seeded_and_keeps_the_mean, 2),
          LUO_T_N(noise_of_communication_is_seeded, 3))
