/* sense.c: A4 (docs/architecture/tests.md): on plans bound by communication, doubling
 * devices, halving NIC bandwidth and moving a node to another rack each change the step by more
 * than 1 % in the right direction, under every model of communication. (Users of other simulators
 * got one answer whatever N or topology: astra-sim #207, SimAI #208.) */
#include <math.h>

#include "core/io/read/read.h"
#include "sim/sim.h"
#include "tests/check_main.h"
#include "tests/plan_make.h"

/* Small compute beside its weights: one short sequence a step. */
static const luo_model model = {
    .name = "m", .family = LUO_FAMILY_LLAMA, .layers = 4, .hidden = 2048, .ffn_hidden = 5504,
    .heads = 16, .kv_heads = 16, .head_dim = 128, .vocab = 32000, .max_sequence_tokens = 256,
    .norm = LUO_NORM_RMS, .activation = LUO_ACT_SWIGLU, .position = LUO_POS_ROPE, .causal = true,
    .norm_eps = 1e-6, .rope_base = 10000};

typedef struct place { /* nodes of four A100 */
    int nodes;
    double nic_gbytes_per_s, uplink_gbytes_per_s;
    const char *racks; /* "[r0]" or one per node */
} place;

static luo_arena *arena;

static luo_cluster *read_cluster(const place *p)
{
    luo_diags diags;
    luo_cluster *c = NULL;
    const char *text = luo_arena_printf(
        arena,
        "schema: luoshu.cluster/1\nname: c\nnode_groups:\n"
        "  - {name: a, nodes: %d, devices_per_node: 4, profile: scenarios/profiles/a100-80.yaml,\n"
        "     racks: %s, scale_up: {kind: nvswitch, bandwidth_gbytes_per_s: 300, latency_us: 1},\n"
        "     nics: {count: 4, bandwidth_gbytes_per_s: %g, latency_us: 2}}\n"
        "fabric: {kind: two_tier, hop_latency_us: 0.5, rack_uplink_gbytes_per_s: %g}\n",
        p->nodes, p->racks, p->nic_gbytes_per_s, p->uplink_gbytes_per_s);
    const luo_source src = {"c.yaml", text, strlen(text)};
    luo_diags_init(&diags, arena);
    luo_read_cluster_text(arena, &src, NULL, &c, &diags);
    ck_assert_msg(c != NULL, "%s", diags.first ? diags.first->err.text : "?");
    return c;
}

static luo_programs *compile(const char *line, const luo_cluster *c)
{
    const luo_compile_opts opts = {.check = true};
    luo_programs *set = NULL;
    luo_err err = {0};
    luo_plan *p = luo_test_plan(arena, line);
    p->sequence_tokens = 256;
    p->devices = c->ndevices;
    ck_assert_msg(luo_plan_compile(arena, p, &model, c, &opts, &set, &err) == LUO_OK, "%s",
                  err.text);
    return set;
}

/* Seconds of a step of this plan here; comm_s: those of device 0 in which it only communicates. */
static double step(const char *line, place p, luo_comm_mode comm, double *comm_s)
{
    const luo_cluster *c = read_cluster(&p);
    const luo_programs *set = compile(line, c);
    luo_stack stack;
    luo_world *world;
    luo_backend_state *b = NULL;
    luo_step_result r = {0};
    luo_err err = {0};
    luo_stack_default(&stack);
    const luo_backend_config config = {.cluster = c, .stack = &stack, .dtype = LUO_BF16,
                                       .comm = comm, .fold = true};
    ck_assert_int_eq(luo_world_new(arena, c, &world, &err), LUO_OK);
    ck_assert_msg(luo_sim_backend.open(&config, &b, &err) == LUO_OK, "%s", err.text);
    const luo_step_request q = {.programs = set, .world = world};
    ck_assert_msg(luo_sim_backend.run_ranks(b, &q, &r, &err) == LUO_OK, "%s", err.text);
    ck_assert_msg(r.status == LUO_OK, "%s", r.text);
    const double seconds = r.end_s - r.start_s;
    *comm_s = r.parts[0].tp_s + r.parts[0].pp_s + r.parts[0].dp_s;
    luo_sim_backend.close(b);
    return seconds;
}

/* Data parallelism over two nodes, tensor parallelism inside: gradients cross the NICs. */
#define DATA "1: [0-3]*4 || 1: [4-7]*4"
#define DATA_TWICE "1: [0-3]*4 || 1: [4-7]*4 || 1: [8-11]*4 || 1: [12-15]*4"
#define MUCH "64: [0-3]*4 || 64: [4-7]*4"
#define MUCH_HALVED "32: [0-3]*4 || 32: [4-7]*4 || 32: [8-11]*4 || 32: [12-15]*4"
/* Tensor parallelism over two nodes: sums of activations, of 1 MiB each, cross the NICs. Over fast
 * ones they take the latency of a tree, so these rows have slow ones. */
#define TENSOR "2: [0-7]*4"
/* Stages on nodes of their own. */
#define STAGES "1: [0-3]*2 [4-7]*2"

static const struct {
    const char *what;
    const char *plan[2];
    place place[2];
    int direction; /* of the second against the first */
    double least;  /* change, relative */
} rows[] = {
    {"twice the devices, the same work each: longer rings",
     {DATA, DATA_TWICE}, {{2, 25, 1000, "[r0]"}, {4, 25, 1000, "[r0]"}}, 1, 0.01},
    {"twice the devices, the same work in all, much of it", {MUCH, MUCH_HALVED},
     {{2, 25, 1000, "[r0]"}, {4, 25, 1000, "[r0]"}}, -1, 0.2},
    {"half the NIC bandwidth, data", {DATA, DATA},
     {{2, 25, 1000, "[r0]"}, {2, 12.5, 1000, "[r0]"}}, 1, 0.5},
    {"half the NIC bandwidth, tensor", {TENSOR, TENSOR},
     {{2, 1, 1000, "[r0]"}, {2, 0.5, 1000, "[r0]"}}, 1, 0.5},
    {"half the NIC bandwidth, stages", {STAGES, STAGES},
     {{2, 2.5, 1000, "[r0]"}, {2, 1.25, 1000, "[r0]"}}, 1, 0.01},
    {"a node in another rack, data", {DATA_TWICE, DATA_TWICE},
     {{4, 25, 25, "[r0]"}, {4, 25, 25, "[r0, r0, r0, r1]"}}, 1, 0.2},
    {"a node in another rack, tensor", {TENSOR, TENSOR},
     {{2, 1, 1, "[r0]"}, {2, 1, 1, "[r0, r1]"}}, 1, 0.01},
    {"a node in another rack, stages", {STAGES, STAGES},
     {{2, 25, 2.5, "[r0]"}, {2, 25, 2.5, "[r0, r1]"}}, 1, 0.01},
    {"half the uplinks", {DATA_TWICE, DATA_TWICE},
     {{4, 25, 25, "[r0, r0, r1, r1]"}, {4, 25, 12.5, "[r0, r0, r1, r1]"}}, 1, 0.2},
};

START_TEST(sense)
{
    static const luo_comm_mode modes[] = {LUO_COMM_MODEL, LUO_COMM_FLOW, LUO_COMM_MESSAGE};
    const int row = _i / LUO_ROWS(modes);
    const luo_comm_mode comm = modes[_i % LUO_ROWS(modes)];
    double s[2], comm_s[2];
    arena = luo_arena_new(1 << 20);
    for (int k = 0; k < 2; k++)
        s[k] = step(rows[row].plan[k], rows[row].place[k], comm, &comm_s[k]);
    const double change = rows[row].direction * (s[1] / s[0] - 1);
    ck_assert_msg(change > rows[row].least, "%s: %g s, then %g s", rows[row].what, s[0], s[1]);
    if (rows[row].direction > 0) /* it is the communication that grows, not something else */
        ck_assert_msg(fabs(comm_s[1] - comm_s[0] - (s[1] - s[0])) < 0.02 * s[1],
                      "%s: communication of %g s, then %g s", rows[row].what, comm_s[0], comm_s[1]);
    luo_arena_free(arena);
}
END_TEST

LUO_MAIN("backend.sense", sense, LUO_ROWS(rows) * 3)
