/* tables_scene.h: a model with tables on a cluster, with samples that are drawn: for the tests of
 * core/run/tables. */
#ifndef LUO_TESTS_TABLES_SCENE_H
#define LUO_TESTS_TABLES_SCENE_H
#include "core/io/read/read.h"
#include "core/run/tables/step.h"
#include "sim/sim.h"
#include "tests/check_main.h"

static luo_arena *arena; /* from open_scene to close_scene */
static luo_stack stack;

typedef struct scene {
    luo_cluster *cluster;
    luo_judge judge;
    luo_clicks clicks;
    luo_tables_in in;
    luo_tables_answer out;
    double *rate;
    bool *candidate;
} scene;

static inline scene *open_scene(const char *cluster, const luo_model *model, int64_t batch,
                                uint64_t seed)
{
    luo_diags diags;
    arena = luo_arena_new(1 << 16);
    scene *s = LUO_NEW(arena, scene);
    luo_diags_init(&diags, arena);
    ck_assert_int_eq(luo_read_cluster(arena, cluster, &s->cluster, &diags), LUO_OK);
    luo_stack_default(&stack);
    s->rate = LUO_NEW_N(arena, double, s->cluster->ndevices);
    s->candidate = LUO_NEW_N(arena, bool, s->cluster->ndevices);
    for (int32_t d = 0; d < s->cluster->ndevices; d++) s->rate[d] = 1, s->candidate[d] = true;
    const luo_clicks_spec spec = {batch, model->features.slots, model->features.rows, 1.05, 1, 0};
    ck_assert_int_eq(luo_clicks_draw(arena, &spec, seed, &s->clicks, NULL), LUO_OK);
    s->judge = (luo_judge){.simulator = &luo_sim_backend,
                           .model = model,
                           .cluster = s->cluster,
                           .stack = &stack,
                           .comm = LUO_COMM_FLOW};
    s->in = (luo_tables_in){.judge = &s->judge,
                            .samples = &s->clicks,
                            .batch = batch,
                            .rate = s->rate,
                            .candidate = s->candidate};
    return s;
}

static inline void close_scene(void)
{
    luo_arena_free(arena);
    arena = NULL;
}

static inline const luo_programs *step(const tables_layout *l, luo_tables_way way,
                                       const tables_dense *dense, const tables_traffic *traffic)
{
    luo_err err = {0};
    luo_programs *set;
    ck_assert_msg(tables_step(arena, l, way, dense, traffic, &set, &err) == LUO_OK, "%s", err.text);
    ck_assert_msg(luo_program_check(arena, set, &err) == LUO_OK, "%s: %s",
                  luo_tables_way_of(way)->name, err.text);
    return set;
}

static inline double simulate(const scene *s, const luo_programs *set)
{
    luo_judgement j = {0};
    luo_err err = {0};
    ck_assert_msg(luo_judge_simulate(arena, &s->judge, set, LUO_F32, s->rate, &j, &err) == LUO_OK,
                  "%s", err.text);
    return j.seconds;
}

static inline void ask(scene *s)
{
    luo_err err = {0};
    ck_assert_msg(luo_tables_plan(&s->in, &s->out, &err) == LUO_OK, "%s", err.text);
}
#endif
