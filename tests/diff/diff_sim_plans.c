/* Compiled plans in the simulator: one lane for a stage takes the time of all its devices, the
 * three fidelities agree where nothing is in the way, and the closed form of a step is near. */
#include "core/io/read/read.h"
#include "core/plan/compile.h"
#include "core/plan/grid.h"
#include "tests/sim_fixture.h"
#include "tests/step_fixture.h"

#define ALIKE 1e-3
#define ROUNDED 1e-7 /* the engine ends flows up to a billionth of a second early */
#define NEAR 1e-2 /* docs/cost-model.md#three-fidelities */

typedef struct plan_row {
    const char *cluster;
    int32_t pipelines, stages, tp, micro_batches, zero, recompute;
    bool crowded; /* links are shared: NICs by tensor and data parallel groups, or ports of devices
                     by messages and a group inside the lane, which one lane does not feel */
} plan_row;
static const plan_row rows[] = {
    {"a100-64", 1, 1, 4, 2, 0, 0, false}, {"a100-64", 8, 1, 1, 2, 0, 0, false},
    {"a100-64", 8, 1, 1, 2, 1, 2, false}, {"a100-64", 1, 4, 2, 6, 0, 0, true},
    {"a100-64", 2, 2, 8, 4, 1, 0, false}, {"a100-64", 4, 2, 4, 3, 1, 2, false},
    {"a100-64", 2, 1, 16, 2, 0, 0, true}, {"a100-64", 2, 2, 16, 3, 1, 0, true},
    {"h100-1024", 4, 2, 4, 4, 1, 0, false},
};

typedef struct plan_case {
    luo_arena *arena;
    luo_cluster *cluster;
    luo_model *model;
    luo_stack stack;
    luo_programs *set;
    int32_t *dev;
    luo_err err;
} plan_case;

/* Llama 7B with 8 layers. overlap: dp_overlap; calls that run beside computation meet others. */
static void plan_make(plan_case *c, const plan_row *row, bool overlap)
{
    const luo_compile_opts opts = {.check = true};
    const int32_t n = row->pipelines * row->stages * row->tp;
    luo_diags diags;
    luo_plan *plan = NULL;
    *c = (plan_case){.arena = luo_arena_new(1 << 20)};
    luo_diags_init(&diags, c->arena);
    luo_stack_default(&c->stack);
    c->stack.dp_overlap = overlap;
    c->stack.scale_jitter = 0;
    luo_read_cluster(c->arena,
                     luo_arena_printf(c->arena, "scenarios/clusters/%s.yaml", row->cluster),
                     &c->cluster, &diags);
    luo_read_model(c->arena, "scenarios/models/llama-7b.yaml", &c->model, &diags);
    ck_assert_msg(c->cluster && c->model, "run from the root of the repository");
    c->model->layers = 8;
    c->dev = LUO_NEW_N(c->arena, int32_t, n);
    for (int32_t i = 0; i < n; i++) c->dev[i] = i;
    const luo_grid g = {.name = "g", .model = c->model, .cluster = c->cluster, .dtype = LUO_BF16,
                        .sequence_tokens = 4096, .micro_batches = row->micro_batches,
                        .micro_batch_sequences = 1, .zero = row->zero, .pipelines = row->pipelines,
                        .stages = row->stages, .tp = row->tp, .sequence_parallel = row->tp > 1,
                        .recompute = (luo_recompute)row->recompute, .dev = c->dev};
    ck_assert_msg(luo_plan_grid(c->arena, &g, &plan, &c->err) == LUO_OK &&
                      luo_plan_compile(c->arena, plan, c->model, c->cluster, &opts, &c->set,
                                       &c->err) == LUO_OK,
                  "%s", c->err.text);
}

static double plan_seconds(plan_case *c, luo_comm_mode mode, bool fold)
{
    const luo_backend_config config = {.cluster = c->cluster, .stack = &c->stack,
                                       .dtype = LUO_BF16, .comm = mode, .fold = fold};
    luo_backend_state *state = NULL;
    luo_world *world = NULL;
    luo_step_result s;
    ck_assert_int_eq(luo_world_new(c->arena, c->cluster, &world, &c->err), LUO_OK);
    const luo_step_request q = {.programs = c->set, .world = world};
    ck_assert_int_eq(luo_sim_backend.open(&config, &state, &c->err), LUO_OK);
    ck_assert_msg(luo_sim_backend.run_ranks(state, &q, &s, &c->err) == LUO_OK, "%s", c->err.text);
    ck_assert_msg(s.status == LUO_OK, "%s", s.text);
    rig_check_parts(&s);
    luo_sim_backend.close(state);
    return s.end_s - s.start_s;
}

START_TEST(a_lane_takes_the_time_of_its_devices)
{
    static const char *const names[] = {"model", "flow", "message"};
    const plan_row *row = &rows[_i / 2];
    plan_case c;
    char what[64];
    double first = 0;
    plan_make(&c, row, _i % 2);
    for (int mode = 0; mode < 3; mode++) {
        const double all = plan_seconds(&c, (luo_comm_mode)mode, false);
        snprintf(what, sizeof what, "row %d, dp_overlap %d, %s, folded", _i / 2, _i % 2,
                 names[mode]);
        rig_near(plan_seconds(&c, (luo_comm_mode)mode, true), all, row->crowded ? NEAR : ALIKE,
                 what);
        snprintf(what, sizeof what, "row %d, dp_overlap %d, %s", _i / 2, _i % 2, names[mode]);
        if (mode == 0) first = all;
        else if (!row->crowded) rig_near(all, first, NEAR, what);
        else ck_assert_msg(all >= first * (1 - ROUNDED), "%s: contention makes it faster", what);
    }
    luo_arena_free(c.arena);
}
END_TEST

/* docs/cost-model.md#a-whole-step. They differ where the closed form has no overlap: gradients with
 * the backward of other layers, sums of one layer with the update of another. */
START_TEST(the_closed_form_of_a_step_is_near)
{
    const plan_row *row = &rows[_i / 2];
    plan_case c;
    luo_step_cost cost;
    plan_make(&c, row, _i % 2);
    const luo_grid grid = {.model = c.model, .cluster = c.cluster, .dtype = LUO_BF16,
                           .sequence_tokens = 4096, .micro_batch_sequences = 1,
                           .micro_batches = row->micro_batches, .tp = row->tp,
                           .stages = row->stages, .pipelines = row->pipelines,
                           .recompute = (luo_recompute)row->recompute, .zero = row->zero,
                           .sequence_parallel = row->tp > 1, .dev = c.dev};
    ck_assert_msg(luo_test_step(c.arena, &grid, &c.stack, (luo_bucketing){0}, &cost, &c.err) ==
                      LUO_OK, "%s", c.err.text);
    rig_near(plan_seconds(&c, LUO_COMM_MODEL, true), cost.step, 0.12, "step");
    luo_arena_free(c.arena);
}
END_TEST

/* grad_comm_bytes (docs/formats.md#names-of-values): gradients of the programs have 4 bytes; 0
 * leaves them. */
START_TEST(gradients_travel_with_the_bytes_of_the_stack)
{
    static const int at[] = {1, 2, 4}; /* rows with replicas */
    static const double each[] = {0, 4, 2, 16};
    const luo_comm_mode mode = (luo_comm_mode)(_i / LUO_ROWS(at) % 3);
    plan_case c;
    double t[LUO_ROWS(each)];
    plan_make(&c, &rows[at[_i % LUO_ROWS(at)]], _i >= 9);
    for (int k = 0; k < LUO_ROWS(each); k++) {
        c.stack.grad_comm_bytes = each[k];
        t[k] = plan_seconds(&c, mode, true);
    }
    ck_assert_msg(t[0] == t[1], "as the program has it %.9f s, 4 bytes %.9f s", t[0], t[1]);
    ck_assert_msg(t[2] < 0.999 * t[1] && t[1] < 0.999 * t[3], "2, 4, 16 bytes: %g, %g, %g s", t[2],
                  t[1], t[3]);
    luo_arena_free(c.arena);
}
END_TEST

LUO_SUITE("diff.sim_plans", LUO_T_N(a_lane_takes_the_time_of_its_devices, 2 * LUO_ROWS(rows)),
          LUO_T_N(the_closed_form_of_a_step_is_near, 2 * LUO_ROWS(rows)),
          LUO_T_N(gradients_travel_with_the_bytes_of_the_stack, 18))
