/* step_fixture.h: the closed form of a step of equal pipelines. */
#ifndef LUO_TESTS_STEP_FIXTURE_H
#define LUO_TESTS_STEP_FIXTURE_H
#include "core/plan/grid.h"
#include "core/plan/step/step.h"

/* NULL layers: the first layers % stages have one more. Errors: those of luo_plan_step. */
static inline luo_status luo_test_step(luo_arena *arena, const luo_grid *grid,
                                       const luo_stack *stack, luo_bucketing bucket,
                                       luo_step_cost *out, luo_err *err)
{
    luo_grid g = *grid;
    const luo_step_in in = {.model = g.model, .cluster = g.cluster, .stack = stack,
                            .sequence_tokens = g.sequence_tokens};
    const int32_t chunks = g.chunks > 1 ? g.chunks : 1, parts = chunks * g.stages;
    int64_t *layers = LUO_NEW_N(arena, int64_t, parts);
    luo_plan *plan;
    for (int32_t i = 0; layers && i < parts; i++)
        layers[i] = g.model->layers / parts + (i < g.model->layers % parts);
    if (!g.name) g.name = "test";
    if (!g.layers) g.layers = layers;
    LUO_TRY(luo_plan_grid(arena, &g, &plan, err));
    plan->bucket = bucket;
    return luo_plan_step(arena, &in, plan, out, err);
}
#endif
