/* cluster_fixture.h: a small cluster and a scenario around it, for tests of core/run.
 * All numbers are round and invented for arithmetic: nothing here is a measurement. */
#ifndef LUO_TESTS_CLUSTER_FIXTURE_H
#define LUO_TESTS_CLUSTER_FIXTURE_H
#include <stddef.h>

#include "core/run/scenario.h"
#include "tests/check_main.h"

static inline luo_profile *fixture_profile(luo_arena *a, const char *name)
{
    luo_profile *p = LUO_NEW(a, luo_profile);
    luo_value *v = LUO_NEW_N(a, luo_value, 4);
    v[0] = (luo_value){.name = "memory_gib", .value = 80};
    v[1] = (luo_value){.name = "memory_gbytes_per_s", .value = 2000};
    v[2] = (luo_value){.name = "peak_bf16_tflop_per_s", .value = 300};
    v[3] = (luo_value){.name = "peak_f32_tflop_per_s", .value = 20};
    for (int i = 0; i < 4; i++) {
        v[i].source = "invented for this test";
        v[i].provenance = LUO_FROM_CHOSEN;
    }
    *p = (luo_profile){.name = name, .values = v, .nvalues = 4};
    ck_assert_int_eq(luo_profile_finish(p, NULL), LUO_OK);
    return p;
}

/* `groups` node groups g0, g1, .. of `nodes` nodes of `slots` devices; racks r0, r1 alternate. */
static inline luo_cluster *fixture_cluster(luo_arena *a, int32_t groups, int32_t nodes,
                                           int32_t slots)
{
    luo_cluster *c = LUO_NEW(a, luo_cluster);
    c->name = "small";
    c->ngroups = groups;
    c->groups = LUO_NEW_N(a, luo_node_group, groups);
    c->fabric = LUO_FABRIC_TWO_TIER;
    c->rack_uplink_bytes_per_s = 400e9;
    for (int32_t g = 0; g < groups; g++) {
        const char **racks = LUO_NEW_N(a, const char *, nodes);
        for (int32_t i = 0; i < nodes; i++) racks[i] = i % 2 ? "r1" : "r0";
        c->groups[g] = (luo_node_group){
            .name = luo_arena_printf(a, "g%d", g), .site = "main", .nodes = nodes,
            .devices_per_node = slots, .nracks = nodes, .racks = racks,
            .profile = fixture_profile(a, luo_arena_printf(a, "type%d", g)), .base_slowdown = 1,
            .scale_up = LUO_SCALE_UP_NVSWITCH, .scale_up_bytes_per_s = 200e9, .nics = 2,
            .nic_bytes_per_s = 25e9, .host_cores = 64, .sockets = 1};
    }
    luo_err err = {0};
    ck_assert_msg(luo_cluster_finish(a, c, &err) == LUO_OK, "%s", err.text);
    return c;
}

static inline luo_event fixture_event(const char *id, luo_event_kind kind, const char *target,
                                      double at_s, double duration_s)
{
    return (luo_event){.id = id, .target = target, .cause = "", .kind = kind, .trigger = LUO_AT_S,
                       .at = {at_s, at_s}, .slowdown = 2, .bandwidth_factor = 1,
                       .life = {.duration_s = duration_s}};
}
#endif
