/* cost_fixture.h: profiles and clusters for tests of core/cost. All numbers are those of the
 * computed vectors or round synthetic ones. */
#ifndef LUO_TESTS_COST_FIXTURE_H
#define LUO_TESTS_COST_FIXTURE_H
#include "core/cost/cost.h"
#include "tests/check_main.h"

#define LUO_VALUE(n, v) {.name = (n), .source = "test", .value = (v), .provenance = LUO_FROM_CHOSEN}

/* Profile REF of the computed vectors. */
static inline luo_profile luo_ref_profile(void)
{
    static const luo_value values[] = {
        LUO_VALUE("peak_bf16_tflop_per_s", 312), LUO_VALUE("peak_f32_tflop_per_s", 312),
        LUO_VALUE("memory_gbytes_per_s", 2000),  LUO_VALUE("memory_gib", 80),
        LUO_VALUE("sm_count", 108),
    };
    luo_profile p = {.name = "ref", .nvalues = LUO_ROWS(values), .values = values};
    luo_err err = {0};
    const luo_status st = luo_profile_finish(&p, &err);
    ck_assert_msg(st == LUO_OK, "%s", err.text);
    return p;
}

/* A group of nodes with nvswitch, PCIe and one NIC per device. */
static inline luo_node_group luo_test_group(const char *name, int32_t nodes, int32_t devices,
                                            const luo_profile *p)
{
    return (luo_node_group){.name = name, .site = "main", .nodes = nodes,
                            .devices_per_node = devices, .profile = p, .base_slowdown = 1,
                            .scale_up = LUO_SCALE_UP_NVSWITCH, .scale_up_bytes_per_s = 300e9,
                            .scale_up_latency_s = 1e-6, .nics = devices, .nic_bytes_per_s = 25e9,
                            .nic_latency_s = 2e-6};
}

static inline luo_cluster luo_test_cluster(luo_arena *arena, luo_node_group *groups, int32_t n)
{
    luo_cluster c = {.name = "test", .ngroups = n, .groups = groups};
    luo_err err = {0};
    const luo_status st = luo_cluster_finish(arena, &c, &err);
    ck_assert_msg(st == LUO_OK, "%s", err.text);
    return c;
}

/* |got/want - 1| <= tol, and 0 only for 0. */
static inline void luo_near(double got, double want, double tol, const char *what)
{
    const bool ok = want == 0 ? got == 0 : got / want - 1 <= tol && 1 - got / want <= tol;
    ck_assert_msg(ok, "%s: %.17g, expected %.17g", what, got, want);
}
#endif
