/* check_hap_cluster.c: numbers of the planner `hap` from a cluster. */
#include <math.h>

#include "core/plan/hap/hap_cluster.h"
#include "tests/cluster_fixture.h"
#include "tests/parked/hap_graphs.h"

static luo_hap_devices devices_of(luo_arena *a, const luo_cluster *cluster, const int32_t *usable,
                                  int32_t n)
{
    luo_hap_devices d;
    ck_assert_int_eq(luo_hap_devices_of(a, cluster, usable, n, &d, NULL), LUO_OK);
    return d;
}

/* Groups of one profile and of unlike slowness are types; devices stand by type. */
START_TEST(types_by_first_appearance)
{
    luo_arena *a = luo_arena_new(0);
    luo_cluster *cluster = fixture_cluster(a, 3, 1, 2);
    const int32_t usable[] = {1, 2, 3, 4};
    cluster->groups[0].base_slowdown = cluster->groups[2].base_slowdown = 2;
    cluster->groups[1].base_slowdown = 1;
    for (int g = 0; g < 3; g++) cluster->groups[g].profile = cluster->groups[0].profile;
    const luo_hap_devices d = devices_of(a, cluster, usable, 4);
    ck_assert_int_eq(d.ntypes, 2);
    ck_assert_int_eq(d.count[0], 2);
    ck_assert_int_eq(d.count[1], 2);
    ck_assert_int_eq(d.device[0], 1);
    ck_assert_int_eq(d.device[1], 4);
    ck_assert_int_eq(d.device[2], 2);
    ck_assert_int_eq(d.device[3], 3);
    luo_arena_free(a);
}
END_TEST

START_TEST(by_the_cost_model)
{
    luo_arena *a = luo_arena_new(0);
    const luo_cluster *cluster = fixture_cluster(a, 1, 2, 4);
    luo_stack stack;
    luo_stack_default(&stack);
    const luo_cost_ctx ctx = {.cluster = cluster, .stack = &stack, .dtype = LUO_F32};
    const luo_hap_mlp_in in = {64, 1, {256, 512}, false, false, false};
    const luo_hap_graph *graph = luo_hap_graphs_mlp(a, &in);
    const int32_t all[] = {0, 1, 2, 3, 4, 5, 6, 7};
    const luo_hap_devices d = devices_of(a, cluster, all, 8);
    luo_hap_numbers numbers;
    luo_err err = {0};
    double seconds;
    const luo_status st = luo_hap_cluster_numbers(a, graph, &ctx, &d, &numbers, &err);
    ck_assert_msg(st == LUO_OK, "%s", err.text);
    ck_assert_int_eq(luo_hap_numbers_check(&numbers, graph, NULL), LUO_OK);
    /* 64 rows on 8 devices */
    const luo_gemm gemm = {8, 512, 256, 1, 4, LUO_GEMM_PLAIN};
    const luo_profile *profile = cluster->groups[0].profile;
    ck_assert_int_eq(luo_cost_gemm(profile, LUO_F32, &gemm, &seconds, NULL), LUO_OK);
    ck_assert_double_eq_tol(luo_hap_numbers_speed(&numbers, graph, 0, 0),
                            2. * 8 * 512 * 256 / seconds / cluster->groups[0].base_slowdown, 1);
    for (int i = 0; i < 2; i++) { /* the line passes through both */
        const int64_t bytes = i ? 64 << 20 : 1 << 20;
        const luo_hap_line *line = &numbers.line[LUO_HAP_LINK_AR];
        ck_assert_int_eq(luo_cost_group(&ctx, LUO_COLL_AR, all, 8, bytes, 0, &seconds, NULL),
                         LUO_OK);
        ck_assert_double_eq_tol(line->latency_s + (double)bytes / line->bandwidth_bytes_s, seconds,
                                1e-9 * seconds);
    }
    ck_assert(numbers.line[LUO_HAP_LINK_AG_GROUPED].latency_s ==
              3 * numbers.line[LUO_HAP_LINK_P2P].latency_s);
    ck_assert(numbers.memory_bytes[0] == profile->memory_bytes - profile->reserved_bytes);
    luo_arena_free(a);
}
END_TEST

START_TEST(as_given)
{
    luo_arena *a = luo_arena_new(0);
    const luo_cluster *cluster = fixture_cluster(a, 1, 1, 2);
    const luo_hap_devices d = devices_of(a, cluster, (int32_t[]){0, 1}, 2);
    luo_hap_type_params type = {cluster->groups[0].profile->name,
                                {1e12, 2e12, (double)NAN, (double)INFINITY}};
    luo_hap_params params = {.ntypes = 1, .type = &type};
    luo_hap_numbers numbers;
    luo_err err = {0};
    params.line[LUO_HAP_LINK_AR] = (luo_hap_line){.5, 7};
    ck_assert_int_eq(luo_hap_cluster_given(&params, &d, &numbers, &err), LUO_OK);
    ck_assert_double_eq(numbers.speed[0][LUO_HAP_ON_GEMM], 1e12 / cluster->groups[0].base_slowdown);
    ck_assert(isnan(numbers.speed[0][LUO_HAP_ON_ATTN]));
    ck_assert(isinf(numbers.speed[0][LUO_HAP_ON_ELT]));
    ck_assert_double_eq(numbers.line[LUO_HAP_LINK_AR].bandwidth_bytes_s, 7);
    type.profile = "another";
    ck_assert_int_eq(luo_hap_cluster_given(&params, &d, &numbers, &err), LUO_EINPUT);
    luo_arena_free(a);
}
END_TEST

LUO_SUITE("hap.cluster", LUO_T(types_by_first_appearance), LUO_T(by_the_cost_model),
          LUO_T(as_given))
