/* check_hap_cluster.c: numbers of the planner `hap` from a cluster. */
#include <math.h>

#include "core/plan/hap/alternate.h"
#include "core/plan/hap/hap_cluster.h"
#include "tests/cluster_fixture.h"
#include "tests/parked/hap_graphs.h"

static luo_hap_devices devices_of(luo_arena *a, const luo_cluster *cluster, const int32_t *usable,
                                  int32_t n)
{
    static const double rate[] = {1, 1, 1, 1, 1, 1, 1, 1};
    luo_hap_devices d;
    ck_assert_int_le(cluster->ndevices, LUO_ROWS(rate));
    ck_assert_int_eq(luo_hap_devices_of(a, cluster, usable, n, rate, &d, NULL), LUO_OK);
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

/* A slow device is of a type of its own, also beside a group that is slow by itself. */
START_TEST(slow_devices_are_types)
{
    luo_arena *a = luo_arena_new(0);
    luo_cluster *cluster = fixture_cluster(a, 2, 2, 4);
    const int32_t usable[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    const double rate[] = {1, 1, 1, 5, 1, 1, 1, .5, 1, 2, 1, 1, 1, 1, 1, 1};
    luo_hap_devices d;
    luo_err err = {0};
    cluster->groups[1].profile = cluster->groups[0].profile;
    cluster->groups[0].base_slowdown = 1;
    cluster->groups[1].base_slowdown = 2.5;
    ck_assert_int_eq(luo_hap_devices_of(a, cluster, usable, 16, rate, &d, &err), LUO_OK);
    ck_assert_int_eq(d.ntypes, 3); /* 2.5 * 2 is as slow as 5 */
    ck_assert_int_eq(d.count[0], 7);
    ck_assert_int_eq(d.count[1], 2);
    ck_assert_int_eq(d.count[2], 7);
    ck_assert_double_eq(d.slowdown[1], 5);
    ck_assert_int_eq(d.device[7], 3);
    ck_assert_int_eq(d.device[8], 9);
    luo_arena_free(a);
}
END_TEST

START_TEST(types_have_a_limit)
{
    luo_arena *a = luo_arena_new(0);
    const luo_cluster *cluster = fixture_cluster(a, 1, 5, 4);
    int32_t usable[LUO_HAP_TYPES + 1];
    double rate[LUO_HAP_TYPES + 1];
    luo_hap_devices d;
    luo_err err = {0};
    for (int i = 0; i <= LUO_HAP_TYPES; i++) {
        usable[i] = i;
        rate[i] = 1 + i * .125;
    }
    ck_assert_int_eq(luo_hap_devices_of(a, cluster, usable, LUO_HAP_TYPES, rate, &d, &err), LUO_OK);
    ck_assert_int_eq(d.ntypes, LUO_HAP_TYPES);
    ck_assert_int_eq(luo_hap_devices_of(a, cluster, usable, LUO_HAP_TYPES + 1, rate, &d, &err),
                     LUO_E2BIG);
    ck_assert_str_eq(err.text, "the cluster has more than 16 types of devices, slow ones by their "
                               "slowdown counted; planner `hap` takes at most so many: give "
                               "rounder slowdowns.");
    luo_arena_free(a);
}
END_TEST

/* The linear programme gives a slow device less, in J and in shares. */
START_TEST(slow_devices_get_less)
{
    luo_arena *a = luo_arena_new(0);
    const luo_cluster *cluster = fixture_cluster(a, 1, 2, 4);
    luo_stack stack;
    luo_stack_default(&stack);
    const luo_cost_ctx ctx = {.cluster = cluster, .stack = &stack, .dtype = LUO_F32};
    const luo_hap_mlp_in in = {1 << 14, 2, {4096, 4096, 4096}, false, false, false};
    const luo_hap_graph *graph = luo_hap_graphs_mlp(a, &in);
    const int32_t all[] = {0, 1, 2, 3, 4, 5, 6, 7};
    const double rate[] = {1, 1, 1, 5, 1, 1, 1, 1};
    const luo_hap_job job = {.no_memory = true};
    luo_hap_devices d;
    luo_hap_numbers numbers;
    luo_hap_result *healthy, *slow;
    luo_err err = {0};
    d = devices_of(a, cluster, all, 8);
    ck_assert_int_eq(luo_hap_cluster_numbers(a, graph, &ctx, &d, &numbers, &err), LUO_OK);
    ck_assert_int_eq(luo_hap_alternate(a, graph, &numbers, &job, &healthy, &err), LUO_OK);
    ck_assert_int_eq(luo_hap_devices_of(a, cluster, all, 8, rate, &d, &err), LUO_OK);
    ck_assert_int_eq(luo_hap_cluster_numbers(a, graph, &ctx, &d, &numbers, &err), LUO_OK);
    ck_assert_double_eq(numbers.slowdown[1], 5 * luo_cluster_base_slowdown(cluster, 3));
    ck_assert_int_eq(luo_hap_alternate(a, graph, &numbers, &job, &slow, &err), LUO_OK);
    ck_assert(slow->shares[1] < slow->shares[0] / 2);
    ck_assert(slow->cost_s > healthy->cost_s);
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
        seconds = luo_cost_group_seconds(&ctx, LUO_COLL_AR, all, 8, bytes, 0);
        ck_assert_double_eq_tol(line->latency_s + (double)bytes / line->bandwidth_bytes_s, seconds,
                                1e-9 * seconds);
        const luo_hap_line *grouped = &numbers.line[LUO_HAP_LINK_AG_GROUPED];
        seconds = luo_cost_group_seconds(&ctx, LUO_COLL_BCAST, all, 8, bytes / 8, 0);
        ck_assert_double_eq_tol(grouped->latency_s + (double)bytes / 8 / grouped->bandwidth_bytes_s,
                                seconds, 1e-9 * seconds);
    }
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

LUO_SUITE("hap.cluster", LUO_T(types_by_first_appearance), LUO_T(slow_devices_are_types),
          LUO_T(types_have_a_limit), LUO_T(slow_devices_get_less), LUO_T(by_the_cost_model),
          LUO_T(as_given))
