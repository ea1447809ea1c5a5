/* check_types.c: nodes of several types: what is read, that every device has its own constants,
 * that what is done together is done at the pace of the slowest, and that plans for such a cluster
 * fit each device's own memory. */
#include "core/cost/spread.h"
#include "core/cost/step/layer.h"
#include "core/io/read/read.h"
#include "sim/sim.h"
#include "tests/cost_fixture.h"
#include "tests/plan_make.h"

#include <math.h>

static luo_arena *arena;

/* ---- files ---- */

static luo_cluster *read_text(const char *groups)
{
    const char *text = luo_arena_printf(
        arena, "schema: luoshu.cluster/1\nname: c\nnode_groups:\n%sfabric: {kind: single}\n",
        groups);
    const luo_source src = {"c.yaml", text, strlen(text)};
    luo_cluster *c = NULL;
    luo_diags diags;
    luo_diags_init(&diags, arena);
    luo_read_cluster_text(arena, &src, NULL, &c, &diags);
    ck_assert_msg(c != NULL, "%s", diags.first ? diags.first->err.text : "");
    return c;
}

START_TEST(reads)
{
    arena = luo_arena_new(0);
    const luo_cluster *c = read_text(
        "  - {name: a, nodes: 2, devices_per_node: 4, profiles: [rtx-4090, t4, rtx-4090, t4],\n"
        "     pcie: {bandwidth_gbytes_per_s: 12}, nics: {count: 1, bandwidth_gbytes_per_s: 12}}\n"
        "  - {name: b, nodes: 1, devices_per_node: 2, profiles: [t4, t4],\n"
        "     pcie: {bandwidth_gbytes_per_s: 12}, nics: {count: 1, bandwidth_gbytes_per_s: 12}}\n");
    static const int32_t kind[] = {0, 1, 0, 1, 0, 1, 0, 1, 2, 2};
    static const char *const name[] = {"rtx-4090", "t4", "t4"};
    luo_str text = {0};
    ck_assert_int_eq(c->nkinds, 3);
    for (int32_t d = 0; d < c->ndevices; d++) {
        ck_assert_int_eq(c->devices[d].kind, kind[d]);
        ck_assert_str_eq(luo_cluster_profile(c, d)->name, name[kind[d]]);
        ck_assert_ptr_eq(luo_cluster_profile(c, d), luo_device_kind_profile(c, kind[d]));
    }
    ck_assert_ptr_eq(luo_cluster_profile(c, 1), luo_cluster_profile(c, 9)); /* read once */
    ck_assert_ptr_null(c->groups[1].profiles);                              /* as `profile: t4` */
    luo_node_group_say_profiles(&text, &c->groups[0]);
    luo_str_add(&text, ", ");
    luo_node_group_say_profiles(&text, &c->groups[1]);
    ck_assert_str_eq(luo_str_get(&text), "2 rtx-4090 + 2 t4, t4");
    luo_str_free(&text);
    luo_arena_free(arena);
}
END_TEST

/* ---- clusters by hand ---- */

/* A slow type: a quarter of REF's speeds, half of its memory, other constants of communication. */
static luo_profile slow_profile(double curve_bytes_per_s)
{
    static const luo_value values[] = {
        LUO_VALUE("peak_bf16_tflop_per_s", 78), LUO_VALUE("peak_f32_tflop_per_s", 78),
        LUO_VALUE("memory_gbytes_per_s", 500),  LUO_VALUE("memory_gib", 40),
        LUO_VALUE("sm_count", 108),             LUO_VALUE("net_ratio", 0.45),
        LUO_VALUE("p2p_us", 30),                LUO_VALUE("overlap_loss_nvlink_ratio", 0.3)};
    luo_profile p = {.name = "slow", .nvalues = LUO_ROWS(values), .values = values};
    ck_assert_int_eq(luo_profile_finish(&p, NULL), LUO_OK);
    static luo_curve_point point;
    static const luo_curve curve = {LUO_COLL_AR, 2, 1, &point};
    point = (luo_curve_point){1, curve_bytes_per_s};
    p.ncurves = curve_bytes_per_s > 0;
    p.curves = &curve;
    return p;
}

static luo_profile fast, slow;

/* `nodes` nodes with a device of each letter, f or s, on links that cost nearly nothing. */
static luo_cluster cluster_of(const char *types, int32_t nodes)
{
    const int32_t n = (int32_t)strlen(types);
    const luo_profile **profiles = LUO_NEW_N(arena, const luo_profile *, n);
    luo_node_group *group = LUO_NEW(arena, luo_node_group);
    for (int32_t i = 0; i < n; i++) profiles[i] = types[i] == 'f' ? &fast : &slow;
    *group = luo_test_group("n", nodes, n, profiles[0]);
    group->scale_up = LUO_SCALE_UP_NONE;
    group->has_pcie = true;
    group->pcie_bytes_per_s = group->nic_bytes_per_s = 1e15;
    group->nic_latency_s = 0;
    for (int32_t i = 1; i < n; i++)
        if (profiles[i] != profiles[0]) group->profiles = profiles;
    return luo_test_cluster(arena, group, 1);
}

static double group_seconds(const luo_cluster *c, const int32_t *dev, int32_t n)
{
    luo_stack stack;
    luo_stack_default(&stack);
    const luo_cost_ctx ctx = {.cluster = c, .stack = &stack, .dtype = LUO_BF16};
    const double seconds = luo_cost_group_seconds(&ctx, LUO_COLL_AR, dev, n, 1 << 28, 0);
    return seconds;
}

static double message_seconds(const luo_cluster *c, int32_t a, int32_t b)
{
    luo_stack stack;
    luo_stack_default(&stack);
    const luo_cost_ctx ctx = {.cluster = c, .stack = &stack, .dtype = LUO_BF16};
    const double seconds = luo_cost_p2p_seconds(&ctx, a, b, 1 << 28, 0);
    return seconds;
}

/* Whichever way round, and whether the type stands first in its node or not. */
START_TEST(the_slowest_decides)
{
    arena = luo_arena_new(0);
    fast = luo_ref_profile();
    slow = slow_profile(_i ? 1e9 : 0);
    const luo_cluster c = cluster_of(_i == 2 ? "sffs" : "ffss", 2);
    const int32_t f[2] = {1, _i == 2 ? 2 : 0}, s[2] = {_i == 2 ? 0 : 2, 3};
    const int32_t ff[] = {f[0], f[1]}, ss[] = {s[0], s[1]}, fs[] = {f[0], s[1]};
    const int32_t across[] = {f[0], 4 + f[0]}, slowly[] = {s[0], 4 + s[0]};
    const int32_t both[] = {f[0], 4 + s[0]};
    ck_assert_double_eq(group_seconds(&c, fs, 2), group_seconds(&c, ss, 2));
    ck_assert_double_eq(message_seconds(&c, f[0], s[0]), message_seconds(&c, s[0], s[1]));
    ck_assert_double_eq(message_seconds(&c, s[0], f[0]), message_seconds(&c, s[0], s[1]));
    ck_assert_double_gt(message_seconds(&c, s[0], s[1]), message_seconds(&c, f[0], f[1]));
    if (_i) ck_assert_double_gt(group_seconds(&c, ss, 2), group_seconds(&c, ff, 2));
    ck_assert_double_eq(group_seconds(&c, both, 2), group_seconds(&c, slowly, 2));
    luo_near(group_seconds(&c, slowly, 2), 2 * group_seconds(&c, across, 2), 0.01, "net_ratio");
    luo_arena_free(arena);
}
END_TEST

/* Kernels and updates by device; the loss beside communication is that of who loses most. */
START_TEST(each_has_its_own)
{
    arena = luo_arena_new(0);
    luo_stack stack;
    luo_layer_cost alone[2], together;
    double update[2], both;
    fast = luo_ref_profile();
    slow = slow_profile(0);
    const luo_cluster c = cluster_of("ffss", 1);
    const luo_model m = luo_test_llama(4, 1024, 2816, 16, 32000);
    luo_stack_default(&stack);
    stack.host_launch_s = 0;
    const luo_cost_ctx ctx = {.cluster = &c, .stack = &stack, .dtype = LUO_BF16};
    const luo_layer_shape one = {.model = &m, .tokens = 2048, .sequence_tokens = 1024, .tp = 1};
    luo_layer_shape two = one;
    const int32_t pair[] = {1, 2};
    for (int k = 0; k < 2; k++) {
        ck_assert_int_eq(luo_cost_layer(&ctx, &one, &pair[k], 0, &alone[k], NULL), LUO_OK);
        ck_assert_int_eq(luo_cost_optimizer(&ctx, &pair[k], 1, 1e9, &update[k], NULL), LUO_OK);
    }
    luo_near(alone[1].forward, 4 * alone[0].forward, 0.1, "a layer");
    ck_assert_int_eq(luo_cost_optimizer(&ctx, pair, 2, 1e9, &both, NULL), LUO_OK);
    ck_assert_double_eq(both, update[1]);
    luo_near(update[1], 4 * update[0], 0.01, "an update");
    ck_assert_double_eq(luo_cost_overlap_loss(&ctx, pair, 2), 0.3);
    two.tp = 2;
    const int32_t slows[] = {2, 3};
    ck_assert_int_eq(luo_cost_layer(&ctx, &two, pair, 0, &together, NULL), LUO_OK);
    ck_assert_int_eq(luo_cost_layer(&ctx, &two, slows, 0, &alone[1], NULL), LUO_OK);
    ck_assert_double_eq(together.forward, alone[1].forward);
    luo_arena_free(arena);
}
END_TEST

/* A constant of either type is one, moves its slots alone, and both types are told as unfitted. */
START_TEST(constants_by_type)
{
    arena = luo_arena_new(0);
    luo_stack stack, moved_stack;
    luo_constants constants;
    luo_cluster moved;
    luo_str text = {0};
    fast = luo_ref_profile();
    slow = slow_profile(0);
    const luo_cluster c = cluster_of("fsfs", 1);
    luo_stack_default(&stack);
    ck_assert_int_eq(luo_constants_of(arena, &c, &stack, &constants, NULL), LUO_OK);
    double *shift = LUO_NEW_N(arena, double, constants.n);
    int32_t found = 0;
    for (int32_t i = 0; i < constants.n; i++)
        if (constants.at[i].profile == &slow && strcmp(constants.at[i].name, "memory_ratio") == 0) {
            shift[i] = 0.1;
            found++;
        }
    ck_assert_int_eq(found, 1);
    ck_assert_int_eq(
        luo_constants_move(arena, &constants, shift, &moved, &moved_stack, NULL, NULL), LUO_OK);
    for (int32_t d = 0; d < 4; d++)
        luo_near(luo_cluster_profile(&moved, d)->memory_ratio, d % 2 ? 0.72 * exp(0.1) : 0.72,
                 1e-12, "memory_ratio");
    ck_assert_ptr_eq(luo_cluster_profile(&moved, 1), luo_cluster_profile(&moved, 3));
    luo_time_range_say_unfitted(&text, &c, &stack);
    ck_assert_ptr_nonnull(strstr(luo_str_get(&text), "profile `ref` and profile `slow`"));
    luo_str_free(&text);
    luo_arena_free(arena);
}
END_TEST

/* ---- steps ---- */

static double simulate(const luo_cluster *c, const luo_programs *set, bool fold)
{
    luo_stack stack;
    luo_err err = {0};
    luo_stack_default(&stack);
    stack.scale_jitter = 0;
    const luo_backend_config config = {.cluster = c,
                                       .stack = &stack,
                                       .dtype = LUO_BF16,
                                       .comm = LUO_COMM_FLOW,
                                       .fold = fold};
    luo_backend_state *state = NULL;
    luo_world *world = NULL;
    luo_step_result s;
    ck_assert_int_eq(luo_world_new(arena, c, &world, &err), LUO_OK);
    const luo_step_request q = {.programs = set, .world = world};
    ck_assert_int_eq(luo_sim_backend.open(&config, &state, &err), LUO_OK);
    ck_assert_msg(luo_sim_backend.run_ranks(state, &q, &s, &err) == LUO_OK, "%s", err.text);
    ck_assert_msg(s.status == LUO_OK, "%s", s.text);
    luo_sim_backend.close(state);
    return s.end_s - s.start_s;
}

static double step(const char *types, int32_t nodes, const char *line)
{
    const luo_cluster c = cluster_of(types, nodes);
    luo_plan *p = luo_test_plan(arena, line);
    const luo_model m = luo_test_llama(p->layers, 1024, 2816, 16, 4096);
    const luo_compile_opts opts = {.check = true};
    luo_programs *set = NULL;
    luo_err err = {0};
    ck_assert_msg(luo_plan_compile(arena, p, &m, &c, &opts, &set, &err) == LUO_OK, "%s", err.text);
    const double folded = simulate(&c, set, true);
    luo_near(folded, simulate(&c, set, false), 1e-6, "folded");
    return folded;
}

/* A group of two types is as slow as the slow one; stages on two types of a node take what they
 * take on two nodes, where links take nothing. */
START_TEST(steps_of_two_types)
{
    arena = luo_arena_new(0);
    fast = luo_ref_profile();
    slow = slow_profile(0);
    const double mixed = step("fsfs", 1, "4: [0,1]*4 || 4: [2,3]*4");
    /* but for the fast ones' calls, which begin a little earlier and slow other kernels */
    luo_near(mixed, step("ssss", 1, "4: [0,1]*4 || 4: [2,3]*4"), 1e-3, "as slow as the slow one");
    ck_assert_double_gt(mixed, 2 * step("ffff", 1, "4: [0,1]*4 || 4: [2,3]*4"));
    luo_near(step("ffss", 1, "8: [0,1]*6 [2,3]*2"), step("ffss", 2, "8: [0,1]*6 [6,7]*2"), 0.02,
             "the same on two nodes");
    ck_assert_double_lt(step("ffss", 1, "8: [0,1]*6 [2,3]*2"),
                        0.8 * step("ffss", 1, "8: [0,1]*2 [2,3]*6"));
    luo_arena_free(arena);
}
END_TEST

LUO_SUITE("types", LUO_T(reads), LUO_T_N(the_slowest_decides, 3), LUO_T(each_has_its_own),
          LUO_T(constants_by_type), LUO_T(steps_of_two_types))
