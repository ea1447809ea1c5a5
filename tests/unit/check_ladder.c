/* check_ladder.c: collectives between nodes at every size (docs/cost-model.md): the
 * latency bound of trees in closed form, the half-size curve above, and what joins them. */
#include <math.h>

#include "core/cost/collective.h"
#include "tests/cost_fixture.h"

enum { MIB = 1 << 20, NODES = 1536 };
static luo_arena *arena;
static luo_profile ref;
static luo_stack stack;
static luo_node_group group[2];
static luo_cluster cluster;
static int32_t ids[NODES];

/* Nodes of one device: share 1, and nothing inside. */
static luo_cost_ctx begin(int32_t nodes)
{
    arena = luo_arena_new(1 << 20);
    ref = luo_ref_profile();
    luo_stack_default(&stack);
    group[0] = luo_test_group("a", nodes, 1, &ref);
    cluster = luo_test_cluster(arena, group, 1);
    for (int32_t i = 0; i < nodes; i++) ids[i] = i;
    return (luo_cost_ctx){.cluster = &cluster, .stack = &stack, .dtype = LUO_BF16};
}

static double seconds(const luo_cost_ctx *ctx, int coll, int32_t n, int64_t bytes)
{
    const double s = luo_cost_group_seconds(ctx, coll, ids, n, bytes, 0);
    return s;
}

static double curve(int coll, int32_t n, double bytes)
{
    const double bw = 0.9 * 25e9, x0 = 13450000 * (coll == LUO_COLL_A2A ? 0.075 : 1);
    return luo_cost_volume(coll, n) * (bytes + n * x0) / bw;
}

/* LL: 6.6 us once, 2.7 us a step; LL128: 14 us, 4 us. */
static double tree(int32_t steps, double volume, double bytes, bool ll128)
{
    const double bw = 0.9 * 25e9 * (ll128 ? 0.92 : 0.5);
    return (ll128 ? 14e-6 : 6.6e-6) + steps * (ll128 ? 4e-6 : 2.7e-6) + volume * bytes / bw;
}

static const struct {
    int32_t nodes, depth;
} sizes[] = {{2, 1}, {3, 2}, {4, 2}, {5, 3}, {8, 3}, {9, 4}, {64, 6}, {1024, 10}, {NODES, 11}};

START_TEST(small_ones_take_the_latency_of_a_tree)
{
    const int32_t n = sizes[_i].nodes, depth = sizes[_i].depth;
    const luo_cost_ctx ctx = begin(n);
    static const int without_tree[] = {LUO_COLL_RS, LUO_COLL_AG, LUO_COLL_BCAST, LUO_COLL_A2A};
    luo_near(seconds(&ctx, LUO_COLL_AR, n, 4), tree(2 * depth, 2.0 * (n - 1) / n, 4, false), 1e-12,
             "all-reduce of 4 bytes");
    for (int k = 0; k < LUO_ROWS(without_tree); k++) {
        const int coll = without_tree[k];
        luo_near(seconds(&ctx, coll, n, 4),
                 fmin(tree(n - 1, luo_cost_volume(coll, n), 4, false), curve(coll, n, 4)), 1e-12,
                 "a ring of small messages");
    }
    ck_assert_int_eq(luo_cost_steps(&ctx, LUO_COLL_AR, ids, n, 4), 2 * depth);
    ck_assert_int_eq(luo_cost_steps(&ctx, LUO_COLL_AR, ids, n, INT64_C(1) << 42), 2 * (n - 1));
    if (n == NODES) /* docs/cost-model.md#small-messages: about 0.1 ms and not 0.2 s or more */
        ck_assert(seconds(&ctx, LUO_COLL_AR, n, 4) < 1e-4 && curve(LUO_COLL_AR, n, 4) > 0.2);
    luo_arena_free(arena);
}
END_TEST

START_TEST(large_ones_take_the_half_size_curve)
{
    const int32_t n = sizes[_i].nodes;
    const luo_cost_ctx ctx = begin(n);
    const int64_t bytes = (int64_t)n * 2048 * MIB;
    for (int coll = 0; coll < LUO_COLLS; coll++)
        luo_near(seconds(&ctx, coll, n, bytes), curve(coll, n, (double)bytes), 1e-12, "curve");
    luo_arena_free(arena);
}
END_TEST

/* Every size: the least of the three, never a step up or down at a switch, LL first, the ring last;
 * over 4 nodes all three are seen. */
START_TEST(grows_without_a_jump)
{
    const int32_t n = sizes[_i].nodes, steps = 2 * sizes[_i].depth;
    const luo_cost_ctx ctx = begin(n);
    const double volume = 2.0 * (n - 1) / n;
    int last = 0;
    bool seen[3] = {false};
    double before = 0;
    int64_t bytes = 1;
    for (; bytes < INT64_C(1) << 44; bytes += 1 + bytes / 64) {
        const double t = seconds(&ctx, LUO_COLL_AR, n, bytes), size = (double)bytes;
        const double way[3] = {tree(steps, volume, size, false), tree(steps, volume, size, true),
                               curve(LUO_COLL_AR, n, size)};
        int best = 0;
        for (int k = 1; k < 3; k++)
            if (way[k] < way[best]) best = k;
        luo_near(t, way[best], 1e-12, "the least");
        ck_assert_int_ge(best, last);
        ck_assert(t > before);
        /* what 1/64 more bytes cost in the slowest way */
        if (bytes > 64) ck_assert(t - before <= volume * (size / 64 + 1) / (0.45 * 25e9));
        before = t;
        seen[last = best] = true;
    }
    ck_assert(seen[0] && seen[1] && seen[2]);
    luo_arena_free(arena);
}
END_TEST

/* ---- the slow twin: messages one by one ---- */

/* Last arrival when every node that has the trigger tells one that has not, a step at a time. */
static double told(int32_t n, double step)
{
    double *at = LUO_NEW_N(arena, double, n), last = 0;
    for (int32_t reach = 1; reach < n; reach *= 2)
        for (int32_t i = 0; i < reach && i + reach < n; i++) {
            /* i told reach / 2 before, and is free one step after it knew or told */
            at[i + reach] = fmax(at[i], log2(reach) * step) + step;
            last = fmax(last, at[i + reach]);
        }
    return last;
}

/* Last end of a ring: in step k each node waits for what its neighbour sent in step k - 1. */
static double passed_round(int32_t n, int32_t steps, double step)
{
    double *now = LUO_NEW_N(arena, double, n), *next = LUO_NEW_N(arena, double, n), last = 0;
    for (int32_t k = 0; k < steps; k++) {
        for (int32_t i = 0; i < n; i++)
            next[(i + 1) % n] = fmax(now[i], now[(i + 1) % n]) + step;
        memcpy(now, next, (size_t)n * sizeof *now);
    }
    for (int32_t i = 0; i < n; i++) last = fmax(last, now[i]);
    return last;
}

START_TEST(messages_one_by_one)
{
    const int32_t n = sizes[_i].nodes;
    const luo_cost_ctx ctx = begin(n);
    const double up_and_down = 2 * told(n, 2.7e-6), bytes = 4;
    luo_near(seconds(&ctx, LUO_COLL_AR, n, 4) - 6.6e-6 - 2.0 * (n - 1) / n * bytes / 11.25e9,
             up_and_down, 1e-9, "tree");
    const double large = (double)n * 2048 * MIB, bw = 0.9 * 25e9;
    luo_near(seconds(&ctx, LUO_COLL_AR, n, (int64_t)large),
             passed_round(n, 2 * (n - 1), 13450000 / bw + large / n / bw), 1e-9, "ring");
    luo_arena_free(arena);
}
END_TEST

/* The fabric's own step, a line between sites in each step, and CPUs, which have no NCCL. */
START_TEST(what_a_step_takes)
{
    static const char *const racks[] = {"far"};
    static const luo_site_link line[] = {{"main", "west", 5e9, 30e-3}};
    luo_cost_ctx ctx = begin(16);
    ref.net_step_s = 91e-6;
    luo_near(seconds(&ctx, LUO_COLL_AR, 16, 4), 6.6e-6 + 8 * 91e-6 + 1.875 * 4 / 11.25e9, 1e-12,
             "slow steps");
    ref.cpu = true;
    luo_near(seconds(&ctx, LUO_COLL_AR, 16, 4), curve(LUO_COLL_AR, 16, 4), 1e-12, "CPUs");
    luo_arena_free(arena);
    begin(1);
    group[0] = luo_test_group("a", 8, 1, &ref);
    group[1] = luo_test_group("b", 8, 1, &ref);
    group[1].site = "west";
    group[1].nracks = 1;
    group[1].racks = racks;
    cluster = (luo_cluster){.name = "c", .ngroups = 2, .groups = group, .nsite_links = 1,
                            .site_links = line};
    for (int32_t i = 0; i < 16; i++) ids[i] = i;
    luo_err err = {0};
    ck_assert_msg(luo_cluster_finish(arena, &cluster, &err) == LUO_OK, "%s", err.text);
    ctx.cluster = &cluster;
    luo_near(seconds(&ctx, LUO_COLL_AR, 16, 4),
             6.6e-6 + 8 * (2.7e-6 + 30e-3) + 1.875 * 4 / (0.45 * 5e9), 1e-12, "a line");
    luo_arena_free(arena);
}
END_TEST

LUO_SUITE("ladder", LUO_T_N(small_ones_take_the_latency_of_a_tree, LUO_ROWS(sizes)),
          LUO_T_N(large_ones_take_the_half_size_curve, LUO_ROWS(sizes)),
          LUO_T_N(grows_without_a_jump, LUO_ROWS(sizes)),
          LUO_T_N(messages_one_by_one, LUO_ROWS(sizes)), LUO_T(what_a_step_takes))
