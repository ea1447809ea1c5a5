/* check_flow.c: the flow form ends with the closed form when nothing disturbs it
 * (docs/cost-model.md#three-fidelities). The twin here gives each flow the smallest equal share of
 * its links, which is what max-min sharing gives to flows that are alike. */
#include <math.h>

#include "tests/cost_fixture.h"

enum { MIB = 1 << 20 };
static luo_arena *arena;
static luo_profile ref;
static luo_stack stack;
static const luo_curve_point points[] = {
    {65536, 4e9}, {MIB, 24e9}, {64.0 * MIB, 160e9}, {1024.0 * MIB, 235e9}};
static const luo_curve curves[] = {{LUO_COLL_AR, 8, 4, points}};

static double ends(const luo_cluster *c, const luo_flow *f, int32_t n)
{
    int32_t *count = LUO_NEW_N(arena, int32_t, 2 * c->nlinks);
    luo_hop hops[LUO_PATH_MAX];
    double last = 0;
    for (int32_t i = 0; i < n; i++) {
        const int32_t len = luo_cluster_path(c, f[i].src, f[i].dst, hops);
        for (int32_t k = 0; k < len; k++) count[2 * hops[k].link + hops[k].up]++;
    }
    for (int32_t i = 0; i < n; i++) {
        double rate = HUGE_VAL;
        const int32_t len = luo_cluster_path(c, f[i].src, f[i].dst, hops);
        for (int32_t k = 0; k < len; k++)
            rate = fmin(rate, c->links[hops[k].link].bytes_per_s /
                                  count[2 * hops[k].link + hops[k].up]);
        last = fmax(last, f[i].delay_s + luo_cluster_path_latency(c, f[i].src, f[i].dst) +
                              f[i].bytes / rate);
    }
    return last;
}

/* `groups` groups of n devices each, dev[g*n..), all at the same time. */
static double flow_seconds(const luo_cost_ctx *ctx, int coll, const int32_t *dev, int32_t n,
                           int32_t groups, int64_t bytes)
{
    luo_flow *all = NULL;
    int32_t count = 0;
    for (int32_t g = 0; g < groups; g++) {
        luo_flow *f;
        int32_t nf = 0;
        ck_assert_int_eq(luo_cost_flow(arena, ctx, coll, dev + g * n, n, bytes, &f, &nf, NULL),
                         LUO_OK);
        luo_flow *more = LUO_NEW_N(arena, luo_flow, count + nf);
        if (count) memcpy(more, all, (size_t)count * sizeof *all);
        if (nf) memcpy(more + count, f, (size_t)nf * sizeof *f);
        all = more;
        count += nf;
    }
    return ends(ctx->cluster, all, count);
}

static void compare(const char *what, const luo_cluster *c, const int32_t *dev, int32_t n,
                    int32_t groups, double tol)
{
    const luo_cost_ctx ctx = {.cluster = c, .stack = &stack, .dtype = LUO_BF16};
    for (int coll = 0; coll < LUO_COLLS; coll++)
        for (int64_t bytes = 4096; bytes <= (int64_t)4096 * MIB; bytes *= 32) {
            char text[128];
            snprintf(text, sizeof text, "%s, %s of %lld", what,
                     luo_coll_name((luo_coll)coll),
                     (long long)bytes);
            const double model = luo_cost_group_seconds(&ctx, coll, dev, n, bytes, 0);
            luo_near(flow_seconds(&ctx, coll, dev, n, groups, bytes), model, tol, text);
        }
}

static void setup(void)
{
    arena = luo_arena_new(1 << 20);
    ref = luo_ref_profile();
    luo_stack_default(&stack);
}

static const int32_t ids[64] = {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15,
                                16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31,
                                32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43, 44, 45, 46, 47,
                                48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 58, 59, 60, 61, 62, 63};

START_TEST(one_node)
{
    setup();
    if (_i & 1) {
        ref.ncurves = 1;
        ref.curves = curves; /* above 200e9: more than the ports of the second cluster have */
    }
    luo_node_group g = luo_test_group("a", 1, 8, &ref);
    if (_i & 2) g.scale_up_bytes_per_s = 150e9;
    const luo_cluster c = luo_test_cluster(arena, &g, 1);
    for (int32_t n = 2; n <= 8; n++) compare("nvswitch", &c, ids, n, 1, 1e-9);
    luo_arena_free(arena);
}
END_TEST

/* PCIe with switches and sockets, and a mesh: several flows share a link. */
START_TEST(one_node_shared_links)
{
    static const luo_mesh_link pairs[] = {{0, 1, 1}, {1, 2, 2}, {2, 3, 1}, {0, 3, 1}, {4, 5, 1}};
    setup();
    luo_node_group g = luo_test_group("a", 1, 8, &ref);
    g.scale_up = _i ? LUO_SCALE_UP_MESH : LUO_SCALE_UP_NONE;
    g.scale_up_bytes_per_s = 20e9;
    g.nmesh = _i ? LUO_ROWS(pairs) : 0;
    g.mesh = pairs;
    g.has_pcie = true;
    g.pcie_bytes_per_s = 16e9;
    g.devices_per_switch = 2;
    g.sockets = 2;
    g.socket_bytes_per_s = 20e9;
    const luo_cluster c = luo_test_cluster(arena, &g, 1);
    const luo_cost_ctx ctx = {.cluster = &c, .stack = &stack, .dtype = LUO_BF16};
    for (int32_t n = 2; n <= 8; n++)
        for (int64_t bytes = MIB; bytes <= (int64_t)1024 * MIB; bytes *= 32) {
            double model = luo_cost_group_seconds(&ctx, LUO_COLL_AR, ids, n, bytes, 0);
            luo_near(flow_seconds(&ctx, LUO_COLL_AR, ids, n, 1, bytes), model, 1e-9, "ring");
            model = luo_cost_group_seconds(&ctx, LUO_COLL_A2A, ids, n, bytes, 0);
            /* pairs differ here: the equal shares of the twin are a bound from above */
            const double f = flow_seconds(&ctx, LUO_COLL_A2A, ids, n, 1, bytes);
            ck_assert(f <= model * (1 + 1e-9));
        }
    luo_arena_free(arena);
}
END_TEST

static const struct {
    const char *what;
    int32_t nics;
    bool shared, pcie;
} nodes[] = {
    {"a NIC each", 8, false, false},          {"two devices a NIC", 4, false, false},
    {"two NICs a device", 16, false, false},  {"one NIC", 1, false, false},
    {"shared NICs", 4, true, false},          {"narrow PCIe", 8, false, true},
};

START_TEST(several_nodes)
{
    setup();
    luo_node_group g = luo_test_group("a", 4, 8, &ref);
    g.nics = nodes[_i].nics;
    g.nic_shared = nodes[_i].shared;
    g.has_pcie = nodes[_i].pcie;
    g.pcie_bytes_per_s = 20e9;
    const luo_cluster c = luo_test_cluster(arena, &g, 1);
    for (int32_t n = 2; n <= 4; n++) compare(nodes[_i].what, &c, ids, 8 * n, 1, 1e-9);
    /* same slots meet on two of the four NICs: not undisturbed */
    const bool alike = !nodes[_i].shared;
    int32_t lanes[32]; /* 8 groups of one device per node, all at once: share 1/8 */
    for (int32_t i = 0; i < 32; i++) lanes[i] = i % 4 * 8 + i / 4;
    if (alike) compare(nodes[_i].what, &c, lanes, 4, 8, 1e-9);
    int32_t pairs[32]; /* 4 groups of two devices per node: share 1/4 */
    for (int32_t i = 0; i < 32; i++) pairs[i] = i % 8 / 2 * 8 + i / 8 * 2 + i % 2;
    if (alike) compare(nodes[_i].what, &c, pairs, 8, 4, 1e-9);
    luo_arena_free(arena);
}
END_TEST

/* Each of M devices has S bytes, an M-th of them for every other: the slow twin sends them all, as
 * messages of a bandwidth that the network reaches of its cards'. */
START_TEST(all_to_all_is_its_messages)
{
    static const int32_t cards[] = {8, 4, 1};
    const int64_t bytes = INT64_C(1) << 34; /* so that no latency counts */
    setup();
    luo_node_group g = luo_test_group("a", 4, 8, &ref);
    g.nics = cards[_i];
    const luo_cluster c = luo_test_cluster(arena, &g, 1);
    const luo_cost_ctx ctx = {.cluster = &c, .stack = &stack, .dtype = LUO_BF16};
    for (int32_t n = 16; n <= 32; n += 8) {
        luo_flow *f = LUO_NEW_N(arena, luo_flow, n * n);
        int32_t count = 0;
        for (int32_t a = 0; a < n; a++)
            for (int32_t b = 0; b < n; b++)
                if (a / 8 != b / 8)
                    f[count++] = (luo_flow){a, b, (double)bytes / n / ref.net_ratio, 0};
        const double model = luo_cost_group_seconds(&ctx, LUO_COLL_A2A, ids, n, bytes, 0);
        luo_near(ends(&c, f, count), model, 0.01, "all messages at once");
        luo_near(flow_seconds(&ctx, LUO_COLL_A2A, ids, n, 1, bytes), model, 1e-6, "its flows");
    }
    luo_arena_free(arena);
}
END_TEST

/* Unequal NICs, racks with a narrow uplink, rails, two sites. */
START_TEST(fabrics)
{
    static const char *const racks[] = {"r0", "r1", "r0", "r1"}, *const r2[] = {"r2"};
    static const luo_site_link line[] = {{"main", "west", 5e9, 30e-3}};
    setup();
    luo_node_group g[2] = {luo_test_group("a", 4, 8, &ref), luo_test_group("b", 2, 8, &ref)};
    g[0].nracks = 4;
    g[0].racks = racks;
    luo_cluster c = {.name = "c", .ngroups = 1, .groups = g, .hop_latency_s = 0.5e-6,
                     .rack_uplink_bytes_per_s = 100e9};
    c.fabric = _i == 0 ? LUO_FABRIC_TWO_TIER : LUO_FABRIC_RAIL;
    if (_i == 2) {
        c.ngroups = 2;
        c.fabric = LUO_FABRIC_SINGLE;
        g[1].nic_bytes_per_s = 10e9;
    }
    if (_i == 3) {
        c.ngroups = 2;
        c.fabric = LUO_FABRIC_SINGLE;
        g[1].site = "west";
        g[1].nracks = 1;
        g[1].racks = r2;
        c.nsite_links = 1;
        c.site_links = line;
    }
    luo_err err = {0};
    ck_assert_msg(luo_cluster_finish(arena, &c, &err) == LUO_OK, "%s", err.text);
    const luo_cost_ctx ctx = {.cluster = &c, .stack = &stack, .dtype = LUO_BF16};
    const int32_t n = _i < 2 ? 32 : 48;
    for (int64_t bytes = MIB; bytes <= (int64_t)1024 * MIB; bytes *= 32) {
        double model = luo_cost_group_seconds(&ctx, LUO_COLL_AR, ids, n, bytes, 0);
        luo_near(flow_seconds(&ctx, LUO_COLL_AR, ids, n, 1, bytes), model, 1e-9, "all-reduce");
        model = luo_cost_group_seconds(&ctx, LUO_COLL_AG, ids, n, bytes, 0);
        luo_near(flow_seconds(&ctx, LUO_COLL_AG, ids, n, 1, bytes), model, 1e-9, "all-gather");
    }
    luo_arena_free(arena);
}
END_TEST

START_TEST(messages)
{
    setup();
    if (_i & 1) {
        static const luo_curve two[] = {{LUO_COLL_AR, 2, 4, points}};
        ref.ncurves = 1;
        ref.curves = two;
    }
    luo_node_group g = luo_test_group("a", 2, 8, &ref);
    if (_i & 2) {
        static const luo_p2p_time times[] = {{"nic", 4096, 3e-5}, {"nic", 64.0 * MIB, 9e-3}};
        ref.np2p_times = 2;
        ref.p2p_times = times;
    }
    const luo_cluster c = luo_test_cluster(arena, &g, 1);
    const luo_cost_ctx ctx = {.cluster = &c, .stack = &stack, .dtype = LUO_BF16};
    for (int32_t dst = 1; dst < 16; dst += 7)
        for (int64_t bytes = 1; bytes <= (int64_t)1024 * MIB; bytes *= 16) {
            luo_flow f;
            const double model = luo_cost_p2p_seconds(&ctx, 0, dst, bytes, 0);
            luo_cost_p2p_flow(&ctx, 0, dst, bytes, &f);
            luo_near(ends(&c, &f, 1), model, 1e-9, "message");
        }
    luo_arena_free(arena);
}
END_TEST

/* What a flow collective must look like: each node sends and receives on the ring. */
START_TEST(shape)
{
    setup();
    ref.net_half_bytes = 1e6; /* so that the ring is the fastest way */
    luo_node_group g = luo_test_group("a", 3, 4, &ref);
    const luo_cluster c = luo_test_cluster(arena, &g, 1);
    const luo_cost_ctx ctx = {.cluster = &c, .stack = &stack, .dtype = LUO_BF16};
    luo_flow *f;
    int32_t n = 0;
    luo_cost_flow(arena, &ctx, LUO_COLL_AR, ids, 12, 64 * MIB, &f, &n, NULL);
    ck_assert_int_eq(n, 3 * 4 + 3 * 4);
    for (int32_t i = 0; i < 12; i++) ck_assert_int_eq(f[i].src / 4, f[i].dst / 4);
    for (int32_t i = 12; i < 24; i++) {
        ck_assert_int_eq((f[i].src / 4 + 1) % 3, f[i].dst / 4);
        ck_assert_int_eq(f[i].src % 4, f[i].dst % 4);
        luo_near(f[i].bytes, 4.0 / 3 * 64 * MIB / 4 / 0.9, 1e-12, "bytes / e_n");
    }
    luo_cost_flow(arena, &ctx, LUO_COLL_BCAST, (const int32_t[]){5, 0, 9}, 3, MIB, &f, &n, NULL);
    ck_assert_int_eq(n, 2); /* one device a node: a chain from the root's */
    ck_assert(f[0].src == 5 && f[0].dst == 9 && f[1].src == 9 && f[1].dst == 0);
    luo_cost_flow(arena, &ctx, LUO_COLL_AR, ids, 1, MIB, &f, &n, NULL);
    ck_assert_int_eq(n, 0);
    luo_arena_free(arena);
}
END_TEST

LUO_SUITE("flow", LUO_T_N(one_node, 4), LUO_T_N(one_node_shared_links, 2),
          LUO_T_N(several_nodes, LUO_ROWS(nodes)), LUO_T_N(all_to_all_is_its_messages, 3),
          LUO_T_N(fabrics, 4), LUO_T_N(messages, 4),
          LUO_T(shape))
