/* check_alltoall_links.c: what a cluster says of the links of exchanges. */
#include <math.h>

#include "core/cost/alltoall_links.h"
#include "tests/cost_fixture.h"

static luo_alltoall_cluster links_of(luo_arena *arena, luo_node_group *groups, int32_t n,
                                     luo_status want, luo_err *err)
{
    const luo_cluster c = luo_test_cluster(arena, groups, n);
    luo_stack stack;
    luo_stack_default(&stack);
    const luo_cost_ctx ctx = {.cluster = &c, .stack = &stack, .dtype = LUO_BF16};
    luo_alltoall_cluster x = {.shape = {-1, -1, -1}};
    ck_assert_int_eq(luo_alltoall_links_of(&ctx, &x, err), want);
    return x;
}

/* p2p_us 10, net_ratio 0.9 and memory_ratio 0.72 are defaults of profiles. */
START_TEST(one_group)
{
    luo_arena *arena = luo_arena_new(0);
    luo_profile p = luo_ref_profile();
    luo_node_group g[] = {luo_test_group("g", 3, 4, &p)};
    const luo_alltoall_cluster x = links_of(arena, g, 1, LUO_OK, NULL);
    ck_assert(x.shape.nodes == 3 && x.shape.each == 4 && x.even && x.joined);
    ck_assert_int_eq(x.links.nics, 4);
    luo_near(x.links.message_s, 10e-6, 1e-12, "message");
    luo_near(x.links.bytes_per_s, 0.9 * 25e9, 1e-9, "NIC");
    luo_near(x.links.inner_message_s, 10e-6, 1e-12, "message inside");
    luo_near(x.links.inner_bytes_per_s, 300e9, 1e-9, "NVLink");
    luo_near(x.links.memory_bytes_per_s, 0.72 * 2000e9, 1e-9, "memory");
    luo_near(x.free_bytes, p.memory_bytes - p.reserved_bytes, 1e-12, "free");
    luo_arena_free(arena);
}
END_TEST

/* Curves of collectives say how fast large messages are inside a node, not when they begin;
 * measured transfers say both. */
START_TEST(measured)
{
    static const luo_curve_point at[] = {{1e3, 1e7}, {1e9, 200e9}};
    static const luo_curve curve = {LUO_COLL_AR, 2, 2, at};
    static const luo_p2p_time times[] = {{"nic", 8, 4e-6}, {"nic", 1e8, 1e-2}};
    luo_arena *arena = luo_arena_new(0);
    luo_profile p = luo_ref_profile();
    p.ncurves = 1;
    p.curves = &curve;
    p.np2p_times = 2;
    p.p2p_times = times;
    luo_node_group g[] = {luo_test_group("g", 3, 2, &p)};
    const luo_alltoall_cluster x = links_of(arena, g, 1, LUO_OK, NULL);
    luo_stack stack;
    luo_stack_default(&stack);
    luo_near(x.links.message_s, 4e-6, 1e-12, "message");
    luo_near(x.links.bytes_per_s, 1e10, 1e-9, "NIC");
    luo_near(x.links.inner_message_s, 10e-6, 1e-12, "message inside");
    luo_near(x.links.inner_bytes_per_s, 200e9 * stack.busbw_factor, 1e-9, "curve");
    luo_arena_free(arena);
}
END_TEST

/* The slow one decides, whatever the order: its NIC, its memory, its links, its devices. */
START_TEST(unlike_groups)
{
    luo_arena *arena = luo_arena_new(0);
    luo_profile p = luo_ref_profile(), slow = p;
    slow.p2p_s = 30e-6;
    slow.memory_bytes_per_s = 500e9;
    slow.memory_bytes = p.memory_bytes / 2;
    luo_node_group g[] = {luo_test_group("g", 2, 4, &p), luo_test_group("slow", 1, 2, &slow)};
    g[1].nics = 1;
    g[1].nic_bytes_per_s = 10e9;
    g[1].scale_up_bytes_per_s = 50e9;
    const luo_alltoall_cluster x =
        links_of(arena, _i ? (luo_node_group[]){g[1], g[0]} : g, 2, LUO_OK, NULL);
    ck_assert(x.shape.nodes == 3 && x.shape.each == 2 && !x.even && x.joined);
    ck_assert_int_eq(x.links.nics, 1);
    luo_near(x.links.message_s, 30e-6, 1e-12, "message");
    luo_near(x.links.bytes_per_s, 0.9 * 10e9, 1e-9, "NIC");
    luo_near(x.links.inner_message_s, 30e-6, 1e-12, "message inside");
    luo_near(x.links.inner_bytes_per_s, 50e9, 1e-9, "NVLink");
    luo_near(x.links.memory_bytes_per_s, 0.72 * 500e9, 1e-9, "memory");
    luo_near(x.free_bytes, slow.memory_bytes - slow.reserved_bytes, 1e-12, "free");
    luo_arena_free(arena);
}
END_TEST

/* Nodes of one device: nothing is sent inside, and flat wins whatever stands for those links. */
START_TEST(single_devices)
{
    luo_arena *arena = luo_arena_new(0);
    luo_profile p = luo_ref_profile();
    luo_node_group g[] = {luo_test_group("g", 4, 1, &p)};
    const luo_alltoall_cluster x = links_of(arena, g, 1, LUO_OK, NULL);
    ck_assert(x.shape.each == 1 && !x.joined);
    for (double s = 1; s < 1e10; s *= 10)
        ck_assert_int_eq(luo_alltoall_best(&x.shape, &x.links, s, x.free_bytes), LUO_ALLTOALL_FLAT);
    luo_arena_free(arena);
}
END_TEST

START_TEST(one_node)
{
    luo_arena *arena = luo_arena_new(0);
    luo_profile p = luo_ref_profile();
    luo_err err = {0};
    luo_node_group g[] = {luo_test_group("g", 1, 8, &p)};
    const luo_alltoall_cluster x = links_of(arena, g, 1, LUO_EINPUT, &err);
    ck_assert_int_eq(x.shape.nodes, -1); /* untouched */
    ck_assert_str_eq(err.text, "cluster `test` has one node; exchanges are compared between two or "
                               "more.");
    luo_arena_free(arena);
}
END_TEST

LUO_SUITE("alltoall_links", LUO_T(one_group), LUO_T(measured), LUO_T_N(unlike_groups, 2),
          LUO_T(single_devices), LUO_T(one_node))
