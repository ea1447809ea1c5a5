/* check_moe_layer.c: parts of a layer with experts, put together again from the cost model's own
 * functions, and how they grow with the busiest expert. */
#include <math.h>

#include "core/plan/moe/moe_layer.h"
#include "tests/cost_fixture.h"
#include "tests/plan_make.h"

enum { EXPERTS = 16, EACH = 2, DEVICES = 8, TOKENS = 4096, HIDDEN = 1024, FFN = 4096 };

typedef struct made {
    luo_arena *arena;
    luo_profile profile;
    luo_node_group group;
    luo_cluster cluster;
    luo_stack stack;
    luo_model model;
    luo_moe_layer_in in;
} made;

/* Two nodes of four; a host that takes no time. */
static void make(made *m)
{
    m->arena = luo_arena_new(0);
    m->profile = luo_ref_profile();
    m->group = luo_test_group("g", 2, 4, &m->profile);
    m->cluster = luo_test_cluster(m->arena, &m->group, 1);
    luo_stack_default(&m->stack);
    m->stack.host_launch_s = 0;
    m->model = luo_test_llama(4, HIDDEN, 4096, 16, 32000);
    m->model.family = LUO_FAMILY_MOE;
    m->model.moe = (luo_moe){.experts = EXPERTS,
                             .experts_per_token = EACH,
                             .expert_ffn_hidden = FFN,
                             .first_dense_layers = 1,
                             .every_layers = 2};
    m->in = (luo_moe_layer_in){.model = &m->model,
                               .cluster = &m->cluster,
                               .stack = &m->stack,
                               .dtype = LUO_BF16,
                               .devices = DEVICES,
                               .tokens = TOKENS};
}

static luo_moe_layer of(const made *m, double exponent)
{
    luo_moe_layer_in in = m->in;
    luo_moe_layer out;
    luo_err err = {0};
    in.exponent = exponent;
    ck_assert_msg(luo_moe_layer_of(&in, &out, &err) == LUO_OK, "%s", err.text);
    return out;
}

/* Of n devices, `apart` from each other. */
static double all_to_all_of(const made *m, int32_t n, int32_t apart, int64_t bytes)
{
    const luo_cost_ctx ctx = {.cluster = &m->cluster, .stack = &m->stack, .dtype = LUO_BF16};
    int32_t dev[DEVICES];
    for (int32_t i = 0; i < n; i++) dev[i] = i * apart;
    const double s = luo_cost_group_seconds(&ctx, LUO_COLL_A2A, dev, n, bytes, 0);
    return s * m->stack.tp_exposed_factor;
}

static double all_to_all(const made *m, int64_t bytes)
{
    return all_to_all_of(m, DEVICES, 1, bytes);
}

/* Capacity is of the tokens of a device. */
static void count(const made *m, double exponent, int64_t *counts)
{
    const luo_expert_load load = {.exponent = exponent};
    const luo_gate gate = {.experts = EXPERTS, .k = EACH};
    const double factor = m->model.moe.capacity_factor;
    ck_assert_int_eq(
        luo_load_layer(m->arena, &load, 0, &gate, TOKENS * DEVICES, DEVICES, counts, NULL), LUO_OK);
    const int64_t most = DEVICES * EACH * (int64_t)ceil(factor * TOKENS / EXPERTS);
    for (int32_t e = 0; factor > 0 && e < EXPERTS; e++)
        if (counts[e] > most) counts[e] = most;
}

/* Products and activation of a device with experts e and e + 1. */
static double experts_of(const made *m, const int64_t *counts)
{
    static const int64_t size[2][2] = {{2 * FFN, HIDDEN}, {HIDDEN, FFN}};
    double sum, s;
    const int64_t rows = counts[0] + counts[1];
    ck_assert_int_eq(luo_cost_stream(&m->profile, 3.0 * 2 * (double)rows * FFN, &sum, NULL),
                     LUO_OK);
    for (int i = 0; i < 2; i++) {
        luo_cost_key key = {LUO_COST_GROUPED, {rows, size[i][0], size[i][1], 2, 2}};
        for (int t = 0; t < LUO_GROUPED_TILES; t++)
            key.a[5 + t] = luo_load_tiles(counts, 2, 1, LUO_GROUPED_TILE >> t, 1);
        ck_assert_int_eq(luo_cost_grouped(&m->profile, LUO_BF16, &key, &s, NULL), LUO_OK);
        sum += s;
    }
    return sum;
}

/* Balanced assignment has no popular experts. */
START_TEST(alike_under_balance)
{
    made m;
    make(&m);
    m.model.moe.gate = LUO_GATE_BALANCED;
    m.model.moe.experts_per_token = 1;
    const luo_moe_layer even = of(&m, 0), x = of(&m, 1);
    luo_near(x.expert_ratio, 1, 1e-12, "ratio");
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < LUO_MOE_PARTS; i++)
            luo_near(x.seconds[k][i], even.seconds[k][i], 1e-12, "alike");
    luo_arena_free(m.arena);
}
END_TEST

/* Capacity for half of the choices halves the rows that are sent, without and with a load of equal
 * experts; more capacity than choices changes nothing. */
START_TEST(half_of_all)
{
    made m;
    make(&m);
    const luo_moe_layer all = of(&m, 0);
    m.model.moe.capacity_factor = 3;
    const luo_moe_layer more = of(&m, 0);
    m.model.moe.capacity_factor = 0.5;
    const luo_moe_layer half = of(&m, 0);
    const int64_t rows = TOKENS * EACH, bytes = rows * HIDDEN * 2;
    luo_near(more.seconds[1][LUO_MOE_EXCHANGE], all.seconds[1][LUO_MOE_EXCHANGE], 1e-12, "more");
    luo_near(all.seconds[1][LUO_MOE_EXCHANGE], 2 * all_to_all(&m, bytes), 1e-9, "all");
    luo_near(half.seconds[1][LUO_MOE_EXCHANGE], 2 * all_to_all(&m, bytes / 2), 1e-9, "half");
    ck_assert(half.seconds[0][LUO_MOE_EXPERTS] < all.seconds[0][LUO_MOE_EXPERTS]);
    luo_arena_free(m.arena);
}
END_TEST

static const double capacities[] = {0, 4, 1, 0.25};

START_TEST(by_hand)
{
    made m;
    int64_t counts[EXPERTS], most = 0, busiest = 0;
    double experts = 0;
    int64_t all = 0;
    make(&m);
    m.model.moe.capacity_factor = capacities[_i];
    const luo_moe_layer x = of(&m, 1);
    count(&m, 1, counts);
    for (int32_t e = 0; e < EXPERTS; e++) all += counts[e];
    for (int32_t r = 0; r < DEVICES; r++) {
        const int64_t rows = counts[2 * r] + counts[2 * r + 1];
        const int64_t out = (all - rows + DEVICES - 2) / (DEVICES - 1);
        most = rows > most ? rows : most;
        most = out > most ? out : most;
        experts = fmax(experts, experts_of(&m, counts + 2 * r));
        for (int e = 0; e < 2; e++)
            busiest = counts[2 * r + e] > busiest ? counts[2 * r + e] : busiest;
    }
    const double rows_s = all_to_all(&m, most * HIDDEN * 2), *f = x.seconds[0];
    luo_near(f[LUO_MOE_EXCHANGE], 2 * rows_s + all_to_all(&m, 4 * EXPERTS), 1e-9, "exchange");
    luo_near(x.seconds[1][LUO_MOE_EXCHANGE], 2 * rows_s, 1e-9, "gradients");
    luo_near(f[LUO_MOE_EXPERTS], experts, 1e-6, "experts");
    luo_near(x.expert_ratio, (double)busiest * EXPERTS / (double)all, 1e-12, "ratio");
    const luo_gemm router = {TOKENS, EXPERTS, HIDDEN, 1, 2, LUO_GEMM_PLAIN};
    double gate;
    luo_cost_gemm(&m.profile, LUO_BF16, &router, &gate, NULL);
    ck_assert(f[LUO_MOE_GATE] > gate && f[LUO_MOE_GATE] < gate + 20e-6); /* and the choices */
    ck_assert(f[LUO_MOE_TRANSFORM] > 0 && x.seconds[1][LUO_MOE_TRANSFORM] > 0);
    luo_arena_free(m.arena);
}
END_TEST

/* The busiest expert decides, until it has all tokens (above 1.5 here); what is done with tokens at
 * home knows nothing of it. */
START_TEST(grows)
{
    made m;
    make(&m);
    const luo_moe_layer even = of(&m, 0);
    luo_moe_layer last = even;
    luo_near(even.expert_ratio, 1, 1e-9, "all alike");
    for (double exponent = 0.25; exponent <= 1.5; exponent += 0.25) {
        const luo_moe_layer x = of(&m, exponent);
        ck_assert(x.expert_ratio > last.expert_ratio && x.device_ratio <= x.expert_ratio);
        for (int pass = 0; pass < 2; pass++) {
            for (int part = LUO_MOE_GATE; part <= LUO_MOE_TRANSFORM; part++)
                luo_near(x.seconds[pass][part], even.seconds[pass][part], 1e-9, "at home");
            ck_assert(x.seconds[pass][LUO_MOE_EXCHANGE] > last.seconds[pass][LUO_MOE_EXCHANGE]);
            ck_assert(x.seconds[pass][LUO_MOE_EXPERTS] > last.seconds[pass][LUO_MOE_EXPERTS]);
        }
        last = x;
    }
    luo_arena_free(m.arena);
}
END_TEST

/* By node: an exchange of the 4 devices of a node and one of the 2 of the same place; nothing else
 * is another. */
START_TEST(by_node)
{
    made m;
    make(&m);
    const luo_moe_layer flat = of(&m, 0);
    m.in.exchange = LUO_ALLTOALL_2D;
    const luo_moe_layer x = of(&m, 0);
    const int64_t bytes[2] = {TOKENS * EACH * HIDDEN * 2, 4 * EXPERTS};
    double s[2];
    for (int k = 0; k < 2; k++)
        s[k] = all_to_all_of(&m, 4, 1, bytes[k]) + all_to_all_of(&m, 2, 4, bytes[k]);
    luo_near(x.seconds[0][LUO_MOE_EXCHANGE], 2 * s[0] + s[1], 1e-9, "exchange");
    luo_near(x.seconds[1][LUO_MOE_EXCHANGE], 2 * s[0], 1e-9, "gradients");
    for (int pass = 0; pass < 2; pass++)
        for (int part = 0; part < (int)LUO_MOE_PARTS; part++)
            if (part != LUO_MOE_EXCHANGE) /* the host's floor is shared among more calls */
                luo_near(x.seconds[pass][part], flat.seconds[pass][part], 1e-3, "the rest");
    luo_arena_free(m.arena);
}
END_TEST

/* Of a leader: three messages in, the rows of four devices to the other one, three messages out. */
static double through_leaders(const made *m, int64_t bytes)
{
    const luo_cost_ctx ctx = {.cluster = &m->cluster, .stack = &m->stack, .dtype = LUO_BF16};
    double messages = 0, one = -1;
    for (int32_t i = 1; i < 4; i++)
        for (int away = 0; away < 2; away++) {
            one = luo_cost_p2p_seconds(&ctx, away ? 0 : i, away ? i : 0, bytes, 0);
            messages += one * m->stack.tp_exposed_factor;
        }
    return messages + all_to_all_of(m, 2, 4, 4 * bytes);
}

START_TEST(leaders)
{
    made m;
    make(&m);
    m.in.exchange = LUO_ALLTOALL_LEADER;
    const luo_moe_layer x = of(&m, 0);
    const double rows = through_leaders(&m, TOKENS * EACH * HIDDEN * 2);
    const double counts = through_leaders(&m, 4 * EXPERTS);
    luo_near(x.seconds[0][LUO_MOE_EXCHANGE], 2 * rows + counts, 1e-9, "exchange");
    luo_near(x.seconds[1][LUO_MOE_EXCHANGE], 2 * rows, 1e-9, "gradients");
    luo_arena_free(m.arena);
}
END_TEST

/* One device: nothing travels. Shared experts count as experts; a gate without a router is cheaper.
 */
START_TEST(variants)
{
    made m;
    make(&m);
    const luo_moe_layer all = of(&m, 0);
    m.model.moe.shared_experts = 1;
    m.model.moe.shared_ffn_hidden = FFN;
    const luo_moe_layer shared = of(&m, 0);
    for (int pass = 0; pass < 2; pass++) {
        ck_assert(shared.seconds[pass][LUO_MOE_EXPERTS] > 1.2 * all.seconds[pass][LUO_MOE_EXPERTS]);
        luo_near(shared.seconds[pass][LUO_MOE_GATE], all.seconds[pass][LUO_MOE_GATE], 1e-9, "gate");
        ck_assert(shared.seconds[pass][LUO_MOE_EXCHANGE] == all.seconds[pass][LUO_MOE_EXCHANGE]);
    }
    m.model.moe.shared_experts = 0;
    m.model.moe.gate = LUO_GATE_HASH;
    const luo_moe_layer hashed = of(&m, 0);
    ck_assert(hashed.seconds[0][LUO_MOE_GATE] < all.seconds[0][LUO_MOE_GATE]);
    ck_assert(hashed.seconds[1][LUO_MOE_GATE] == 0);
    m.in.devices = 1;
    const luo_moe_layer alone = of(&m, 1);
    ck_assert(alone.seconds[0][LUO_MOE_EXCHANGE] == 0 && alone.seconds[1][LUO_MOE_EXCHANGE] == 0);
    ck_assert(alone.device_ratio == 1 && alone.expert_ratio > 1);
    luo_arena_free(m.arena);
}
END_TEST

START_TEST(too_many_devices)
{
    made m;
    luo_err err = {0};
    luo_moe_layer x = {.expert_ratio = -1};
    make(&m);
    m.model.moe.experts = 4;
    ck_assert_int_eq(luo_moe_layer_of(&m.in, &x, &err), LUO_EINPUT);
    ck_assert_str_eq(err.text,
                     "8 devices cannot have 4 experts among them; at most as many devices "
                     "as experts are expected.");
    ck_assert(x.expert_ratio == -1);
    luo_arena_free(m.arena);
}
END_TEST

LUO_SUITE("moe_layer", LUO_T_N(by_hand, LUO_ROWS(capacities)), LUO_T(alike_under_balance),
          LUO_T(half_of_all), LUO_T(grows), LUO_T(by_node), LUO_T(leaders), LUO_T(variants),
          LUO_T(too_many_devices))
