/* check_auto_plan.c: planner `auto`: its candidates, its choice, and parts that are pinned. */
#include <math.h>

#include "core/io/read/read.h"
#include "core/run/auto/auto_internal.h"
#include "sim/sim.h"
#include "tests/driver_fixture.h"
#include "tests/plan_make.h"

static luo_model small;

typedef struct scene {
    luo_judge judge;
    luo_auto_in in;
    luo_auto_answer out;
    double rate[8];
    bool candidate[8];
} scene;

static scene *open_scene(void)
{
    prepare("malleus", 1, 0);
    luo_read_policy_defaults(&spec, "malleus");
    small = model;
    small.layers = 8;
    scene *s = LUO_NEW(arena, scene);
    for (int d = 0; d < 8; d++) s->rate[d] = 1, s->candidate[d] = true;
    s->judge = (luo_judge){.simulator = &luo_sim_backend, .model = &small,
                           .cluster = sc.cluster, .stack = &sc.stack, .bucket = sc.stack.bucket,
                           .comm = LUO_COMM_FLOW};
    s->in = (luo_auto_in){.judge = &s->judge, .rate = s->rate, .candidate = s->candidate,
                          .scenario = &sc, .spec = &spec, .simulated = true,
                          .opts = {.batch_sequences = 16, .sequence_tokens = 256, .zero = -1,
                                   .zero_most = 3, .cp = -1, .recompute = -1, .schedule = -1,
                                   .shard = -1, .layers = LUO_UNIFORM_BOTH, .types = true,
                                   .sequence_parallel = true, .stack = &sc.stack}};
    return s;
}

static void ask(scene *s)
{
    luo_err err = {0};
    ck_assert_msg(luo_auto_plan(arena, &s->in, &s->out, &err) == LUO_OK, "%s", err.text);
}

static void close_scene(scene *s)
{
    luo_judge_free(&s->judge);
    luo_arena_free(arena);
    arena = NULL;
}

/* The best is the fastest, each is what its plan takes, and who has no plan says why. */
static void check_answer(scene *s)
{
    const luo_auto_candidate *best = &s->out.at[s->out.best];
    for (int k = 0; k < LUO_AUTO_PLANNERS; k++) {
        const luo_auto_candidate *c = &s->out.at[k];
        luo_judgement again;
        luo_err err = {0};
        ck_assert_int_eq(c->planner, k);
        if (!c->plan) {
            ck_assert_msg(c->why[0], "%s", luo_auto_planner_name(c->planner));
            continue;
        }
        ck_assert_int_gt(c->tried, 0);
        ck_assert(best->step.seconds <= c->step.seconds * (1 + 1e-9));
        ck_assert_int_eq(luo_judge_plan(&s->judge, c->plan, 256, s->rate, &again, &err), LUO_OK);
        ck_assert_double_eq(again.seconds, c->step.seconds);
    }
}

/* `uniform` is what the uniform planner's best is on the simulator. */
START_TEST(uniform_is_uniform)
{
    scene *s = open_scene();
    luo_uniform_opts asked = s->in.opts;
    luo_uniform_result *found;
    luo_judged_plan *judged;
    luo_err err = {0};
    int32_t n;
    ask(s);
    check_answer(s);
    asked.top = LUO_JUDGE_BEST;
    asked.families = LUO_JUDGE_FAMILIES;
    ck_assert_int_eq(luo_plan_uniform(arena, &small, sc.cluster, &asked, &found, &n, &err), LUO_OK);
    ck_assert_int_eq(luo_judge_uniform(arena, &s->judge, found, n, 256, NULL, &judged, &n, &err),
                     LUO_OK);
    ck_assert_double_eq(judged[0].step.seconds, s->out.at[LUO_AUTO_uniform].step.seconds);
    ck_assert_ptr_eq((void *)s->out.at[LUO_AUTO_malleus].plan, NULL);
    ck_assert_ptr_ne(strstr(s->out.at[LUO_AUTO_malleus].why, "not tried"), NULL);
    close_scene(s);
}
END_TEST

START_TEST(slow_devices_bring_malleus_in)
{
    scene *s = open_scene();
    s->rate[5] = 3;
    s->rate[6] = INFINITY;
    ask(s);
    check_answer(s);
    const luo_auto_candidate *malleus = &s->out.at[LUO_AUTO_malleus];
    ck_assert_ptr_ne((void *)malleus->plan, NULL);
    for (int k = 0; k < LUO_AUTO_PLANNERS; k++) {
        int32_t *dev, n;
        luo_err err = {0};
        if (!s->out.at[k].plan) continue;
        ck_assert_int_eq(luo_plan_devices(arena, s->out.at[k].plan, &dev, &n, &err), LUO_OK);
        for (int32_t i = 0; i < n; i++) ck_assert_int_ne(dev[i], 6);
    }
    close_scene(s);
}
END_TEST

/* Experts are shared out among devices, each plan for the whole batch. */
START_TEST(experts_are_shared_out)
{
    scene *s = open_scene();
    small.family = LUO_FAMILY_MOE;
    small.moe = (luo_moe){.experts = 8, .experts_per_token = 2, .expert_ffn_hidden = 512,
                          .every_layers = 1};
    ask(s);
    check_answer(s);
    const luo_auto_candidate *search = &s->out.at[LUO_AUTO_search];
    ck_assert_ptr_ne((void *)search->plan, NULL);
    ck_assert(search->plan->ngroups > 0 || search->plan->pipelines[0].stages[0].experts_dealt);
    ck_assert_int_eq(luo_plan_sequences(search->plan), 16);
    close_scene(s);
}
END_TEST

/* Where rows have to cross nodes, the fastest of three ways is taken; the plans that are compared
 * differ in nothing else. A case in which it is `2d`: tests/golden/plan_auto.sh. */
START_TEST(rows_travel_by_node)
{
    scene *s = open_scene();
    luo_plan *other;
    luo_judgement step;
    luo_err err = {0};
    sc.cluster = s->judge.cluster = fixture_cluster(arena, 1, 4, 2);
    small.family = LUO_FAMILY_MOE;
    small.moe = (luo_moe){
        .experts = 8, .experts_per_token = 2, .expert_ffn_hidden = 16384, .every_layers = 1};
    s->in.opts.tp = s->in.opts.pp = s->in.opts.cp = s->in.opts.zero = 1;
    s->in.opts.batch_sequences = 8;
    ask(s);
    check_answer(s);
    const luo_auto_candidate *search = &s->out.at[LUO_AUTO_search];
    ck_assert_int_eq(luo_plan_copy(arena, search->plan, &other, &err), LUO_OK);
    ck_assert(search->plan->pipelines[0].stages[0].experts_dealt);
    ck_assert_int_gt(search->plan->expert_groups[0].n, 2);
    for (int k = 1; k < LUO_ALLTOALL_KINDS; k++) {
        const int kind = ((int)search->plan->moe_exchange + k) % LUO_ALLTOALL_KINDS;
        other->moe_exchange = (luo_alltoall_kind)kind;
        ck_assert_int_eq(luo_judge_plan(&s->judge, other, 256, s->rate, &step, &err), LUO_OK);
        ck_assert_double_gt(step.seconds, search->step.seconds);
    }
    static const char *const pin[] = {"/moe_exchange"}; /* the slower one, since it is asked for */
    other->pinned = pin;
    other->npinned = 1;
    s->in.pinned = other;
    ask(s);
    ck_assert_ptr_ne((void *)search->plan, NULL);
    ck_assert_int_eq(search->plan->expert_parallel, 0);
    ck_assert_int_eq(search->plan->moe_exchange, other->moe_exchange);
    close_scene(s);
}
END_TEST

/* By closed form a planner has one plan simulated, the first that fits; where there are experts,
 * the first of them that is shared out as well. */
START_TEST(experts_by_closed_form)
{
    scene *s = open_scene();
    small.family = LUO_FAMILY_MOE;
    small.moe = (luo_moe){
        .experts = 8, .experts_per_token = 2, .expert_ffn_hidden = 512, .every_layers = 1};
    s->in.simulated = false;
    ask(s);
    check_answer(s);
    ck_assert_int_eq(s->out.at[LUO_AUTO_uniform].tried, 1);
    ck_assert_int_eq(s->out.at[LUO_AUTO_search].tried, 2);
    ck_assert_int_gt(s->out.at[LUO_AUTO_search].plan->ngroups, 0);
    close_scene(s);
}
END_TEST

START_TEST(no_device_is_a_sentence)
{
    scene *s = open_scene();
    luo_err err = {0};
    for (int d = 0; d < 8; d++) s->rate[d] = INFINITY;
    ck_assert_int_eq(luo_auto_plan(arena, &s->in, &s->out, &err), LUO_EINFEASIBLE);
    ck_assert_ptr_ne(strstr(err.text, "no device"), NULL);
    close_scene(s);
}
END_TEST

/* ---- pins ---- */

static const struct {
    const char *pin, *plan;
    bool kept;
} pins[] = {
    {"/pipelines", "8: [0,1]*4 [2,3]*4 || 8: [4,5]*4 [6,7]*4", true},
    {"/pipelines", "8: [0,1]*5 [2,3]*3 || 8: [4,5]*5 [6,7]*3", false},
    {"/pipelines", "16: [0,1]*4 [2,3]*4", false},
    {"/pipelines/0", "8: [0,1]*4 [2,3]*4 || 8: [4-7]*8", true},
    {"/pipelines/1", "8: [0,1]*4 [2,3]*4 || 8: [4-7]*8", false},
    {"/pipelines/1/micro_batches", "9: [0,1]*4 [2,3]*4 || 8: [4,5]*4 [6,7]*4", true},
    {"/pipelines/0/micro_batches", "9: [0,1]*4 [2,3]*4 || 8: [4,5]*4 [6,7]*4", false},
    {"/pipelines/0/stages", "4: [0,1]*4 [2,3]*4 || 8: [4,5]*4 [6,7]*4", true},
    {"/pipelines/0/stages", "4: [0,1]*8 || 8: [4,5]*4 [6,7]*4", false},
    {"/pipelines/0/stages/1/devices", "4: [0,1]*3 [2,3]*5 || 8: [4,5]*4 [6,7]*4", true},
    {"/pipelines/0/stages/1/layers", "4: [0,1]*3 [2,3]*5 || 8: [4,5]*4 [6,7]*4", false},
    {"/pipelines/0/stages/1/devices", "4: [0,1]*4 [3,2]*4 || 8: [4,5]*4 [6,7]*4", false},
    {"/pipelines/0/stages/1/shares", "8: [0,1]*4 [2,3]:(3,1)*4 || 8: [4,5]*4 [6,7]*4", false},
    {"/pipelines/0/stages/0/shares", "8: [0,1]*4 [2,3]:(3,1)*4 || 8: [4,5]*4 [6,7]*4", true},
    {"/pipelines/1/stages/1", "8: [0,1]*4 [2,3]*4 || 8: [4-7]*8", false},
    {"/pipelines/1/stages/0/experts", "8: [0,1]*4 [2,3]*4 || 8: [4,5]*4 [6,7]*4", true},
    {"/pipelines/1/stages/0/recompute/mode", "9: [0,1]*5 [2,3]*3 || 8: [4,5]*4 [6,7]*4", true},
    {"/pipelines/0/stages/1/devices/1", "8: [0,1]*4 [4,3]*4 || 8: [2,5]*4 [6,7]*4", true},
    {"/pipelines/0/stages/1/devices/0", "8: [0,1]*4 [4,3]*4 || 8: [2,5]*4 [6,7]*4", false},
    {"/pipelines/0/stages/1/devices/2", "8: [0,1]*4 [2-4]*4", false},
    {"/layers", "8: [0,1]*4 [2,3]*4", true},
    {"/devices", "8: [0,1]*4 [2,3]*4 || 8: [4,5]*4 [6,7]*4", true},
    {"", "8: [0,1]*4 [2,3]*4 || 8: [4,5]*4 [6,7]*4", true},
    {"", "8: [0,1]*4 [2,3]*4 || 9: [4,5]*4 [6,7]*4", false},
};

static const char *broken_pin(const luo_plan *was, const luo_plan *now)
{
    const char *broken;
    ck_assert_int_eq(luo_auto_pin_broken(was, now, &broken, NULL), LUO_OK);
    return broken;
}

START_TEST(pins_are_kept)
{
    arena = luo_arena_new(0);
    luo_plan *was = luo_test_plan(arena, "8: [0,1]*4 [2,3]*4 || 8: [4,5]*4 [6,7]*4");
    const luo_plan *now = luo_test_plan(arena, pins[_i].plan);
    was->pinned = &pins[_i].pin;
    was->npinned = 1;
    const char *broken = broken_pin(was, now);
    ck_assert_msg(!broken == pins[_i].kept, "%s in %s", pins[_i].pin, pins[_i].plan);
    if (broken) ck_assert_str_eq(broken, pins[_i].pin);
    luo_arena_free(arena);
    arena = NULL;
}
END_TEST

static void pin_value(const char *pin, void (*change)(luo_plan *))
{
    luo_plan *was = luo_test_plan(arena, "8: [0,1]*4 [2,3]*4");
    luo_plan *now = luo_test_plan(arena, "8: [0,1]*4 [2,3]*4");
    was->pinned = &pin;
    was->npinned = 1;
    ck_assert_ptr_null(broken_pin(was, now));
    change(now);
    ck_assert_msg(broken_pin(was, now) != NULL, "%s", pin);
}

static void other_zero(luo_plan *p) { p->zero = 3; }
static void other_kind(luo_plan *p) { p->schedule = LUO_SCHED_GPIPE; }
static void other_chunks(luo_plan *p) { p->chunks = 2; }
static void other_sp(luo_plan *p) { p->sequence_parallel = !p->sequence_parallel; }
static void other_size(luo_plan *p) { p->micro_batch_sequences = 7; }
static void other_exchange(luo_plan *p)
{
    p->moe_exchange = LUO_ALLTOALL_2D;
}
static void other_together(luo_plan *p)
{
    p->expert_parallel = 2;
}
static void other_step(luo_plan *p)
{
    p->staggered = true;
}
static void other_rule(luo_plan *p)
{
    p->bucket.rule = LUO_BUCKET_DDP;
}
static void other_lanes(luo_plan *p)
{
    p->bucket.lanes = 3;
}
static void other_shard(luo_plan *p)
{
    p->sharding.kind = LUO_SHARD_GRAD_OP;
}
static void other_groups(luo_plan *p)
{
    static const int32_t both[] = {0};
    static const struct luo_expert_group group = {1, both};
    p->expert_groups = &group;
    p->ngroups = 1;
}
static void other_mib(luo_plan *p)
{
    p->bucket.has_mib = true;
    p->bucket.mib = 0.5;
}
static void other_depth(luo_plan *p)
{
    p->sharding.has_depth = true;
    p->sharding.depth = 3;
}

START_TEST(pins_of_values)
{
    arena = luo_arena_new(0);
    pin_value("/zero", other_zero);
    pin_value("/schedule", other_kind);
    pin_value("/schedule", other_chunks);
    pin_value("/schedule/kind", other_kind);
    pin_value("/schedule/chunks", other_chunks);
    pin_value("/sequence_parallel", other_sp);
    pin_value("/micro_batch_sequences", other_size);
    pin_value("/moe_exchange", other_exchange);
    pin_value("/expert_groups", other_groups);
    pin_value("/expert_groups/0", other_groups);
    pin_value("/expert_parallel", other_together);
    pin_value("/optimizer_step", other_step);
    pin_value("/bucket_rule", other_rule);
    pin_value("/bucket_mib", other_mib);
    pin_value("/dp_lanes", other_lanes);
    pin_value("/shard", other_shard);
    pin_value("/prefetch_depth", other_depth);
    luo_arena_free(arena);
    arena = NULL;
}
END_TEST

/* Closed forms that are far above the best step leave no hope, and the line says so. */
START_TEST(hope)
{
    const auto_asking asking = {.best_s = 2};
    luo_auto_candidate x = {.step = {.seconds = INFINITY}};
    ck_assert(auto_has_hope(&asking, 2.19, AUTO_HOPELESS_CLOSED, &x));
    ck_assert_str_eq(x.why, "");
    ck_assert(auto_has_hope(&asking, 7.9, AUTO_HOPELESS_ADDED, &x));
    ck_assert(!auto_has_hope(&asking, 2.5, AUTO_HOPELESS_CLOSED, &x));
    ck_assert_str_eq(x.why, "not simulated: 2.5 s by closed form, 1.25x slower");
    x.step.seconds = 1; /* its own plan counts too, and its line stays */
    x.plan = &(luo_plan){0};
    x.why[0] = 0;
    ck_assert(!auto_has_hope(&asking, 1.2, AUTO_HOPELESS_CLOSED, &x));
    ck_assert_str_eq(x.why, "");
    const auto_asking first = {.best_s = INFINITY};
    x.step.seconds = INFINITY;
    ck_assert(auto_has_hope(&first, 1e9, AUTO_HOPELESS_CLOSED, &x));
}
END_TEST

/* Beside a step that is far shorter than theirs, malleus and hap simulate nothing. */
START_TEST(the_hopeless_are_not_simulated)
{
    scene *s = open_scene();
    auto_asking asking = {.arena = arena, .in = &s->in, .best_s = INFINITY};
    luo_auto_candidate x[3];
    luo_err err = {0};
    s->rate[5] = 3;
    for (int k = 0; k < 3; k++) x[k] = (luo_auto_candidate){.step = {.seconds = INFINITY}};
    ck_assert_int_eq(auto_ask_uniform(&asking, &x[0], &err), LUO_OK);
    asking.best_s = x[0].step.seconds / 100;
    ck_assert_int_eq(auto_ask_malleus(&asking, &x[1], &err), LUO_OK);
    ck_assert_int_eq(auto_ask_hap(&asking, &x[2], &err), LUO_OK);
    ck_assert_int_eq(x[2].tried, 0);
    for (int k = 1; k < 3; k++) {
        ck_assert_ptr_null((void *)x[k].plan);
        ck_assert_msg(strncmp(x[k].why, "not simulated: ", 15) == 0, "%s", x[k].why);
    }
    close_scene(s);
}
END_TEST

/* ---- sizes ---- */

static luo_uniform_opts open_sizes(void)
{
    return (luo_uniform_opts){.zero = -1, .zero_most = 3, .cp = -1, .recompute = -1,
                              .schedule = -1, .layers = LUO_UNIFORM_BOTH,
                              .sequence_parallel = true};
}

/* Each size in turn, asked for as the plan has it and otherwise. */
static const struct {
    const char *name;
    int32_t field, has, other;
} sizes[] = {
    {"tp", offsetof(luo_uniform_opts, tp), 2, 4},
    {"pp", offsetof(luo_uniform_opts, pp), 2, 1},
    {"dp", offsetof(luo_uniform_opts, dp), 2, 4},
    {"cp", offsetof(luo_uniform_opts, cp), 1, 2},
    {"micro-batch size", offsetof(luo_uniform_opts, micro_batch_sequences), 1, 2},
    {"zero", offsetof(luo_uniform_opts, zero), 1, 0},
    {"zero", offsetof(luo_uniform_opts, zero_most), 1, 0},
    {"zero", offsetof(luo_uniform_opts, shard), 0, 1 + LUO_SHARD_FULL},
    {"schedule", offsetof(luo_uniform_opts, schedule), 1 + LUO_SCHED_1F1B,
     1 + LUO_SCHED_ZB_H1},
    {"schedule", offsetof(luo_uniform_opts, chunks), 1, 2},
    {"recompute", offsetof(luo_uniform_opts, recompute), LUO_RECOMPUTE_NONE, LUO_RECOMPUTE_FULL},
};

START_TEST(sizes_are_told)
{
    arena = luo_arena_new(0);
    luo_plan *plan = luo_test_plan(arena, "8: [0,1]*4 [2,3]*4 || 8: [4,5]*4 [6,7]*4");
    luo_uniform_opts asked = open_sizes();
    plan->zero = 1;
    ck_assert_ptr_eq((void *)luo_auto_size_broken(&asked, plan), NULL);
    memcpy((char *)&asked + sizes[_i].field, &sizes[_i].has, sizeof(int32_t));
    ck_assert_ptr_eq((void *)luo_auto_size_broken(&asked, plan), NULL);
    memcpy((char *)&asked + sizes[_i].field, &sizes[_i].other, sizeof(int32_t));
    if (sizes[_i].field == offsetof(luo_uniform_opts, zero_most)) plan->zero = 2; /* 0: 1 */
    const char *broken = luo_auto_size_broken(&asked, plan);
    ck_assert_msg(broken, "%s", sizes[_i].name);
    ck_assert_str_eq(broken, sizes[_i].name);
    luo_arena_free(arena);
    arena = NULL;
}
END_TEST

START_TEST(other_sizes_are_told)
{
    arena = luo_arena_new(0);
    luo_plan *plan = luo_test_plan(arena, "8: [0,1]*5 [2,3]*3 || 8: [4,5]*5 [6,7]*3");
    luo_uniform_opts asked = open_sizes();
    ck_assert_ptr_eq((void *)luo_auto_size_broken(&asked, plan), NULL);
    asked.layers = LUO_UNIFORM_EQUAL;
    ck_assert_str_eq(luo_auto_size_broken(&asked, plan), "layers");
    asked = open_sizes();
    asked.sequence_parallel = false;
    plan->sequence_parallel = true;
    ck_assert_str_eq(luo_auto_size_broken(&asked, plan), "sequence parallelism");
    luo_arena_free(arena);
    arena = NULL;
}
END_TEST

/* Nobody answers with another size than was asked for, whatever would be faster. */
START_TEST(sizes_are_kept)
{
    scene *s = open_scene();
    s->rate[5] = 3; /* malleus is asked as well */
    s->in.opts.recompute = LUO_RECOMPUTE_FULL;
    s->in.opts.tp = 2;
    ask(s);
    check_answer(s);
    for (int k = 0; k < LUO_AUTO_PLANNERS; k++)
        if (s->out.at[k].plan)
            ck_assert_ptr_eq((void *)luo_auto_size_broken(&s->in.opts, s->out.at[k].plan), NULL);
    close_scene(s);
}
END_TEST

/* A plan that breaks a pin is no candidate, and its planner says which. */
START_TEST(pinned_plans_alone)
{
    static const char *const pin = "/zero";
    scene *s = open_scene();
    luo_plan *pinned = luo_test_plan(arena, "16: [0-3]*8");
    pinned->zero = 3;
    pinned->pinned = &pin;
    pinned->npinned = 1;
    s->in.pinned = pinned;
    s->in.opts.zero = 3;
    ask(s);
    check_answer(s);
    for (int k = 0; k < LUO_AUTO_PLANNERS; k++)
        if (s->out.at[k].plan) ck_assert_int_eq(s->out.at[k].plan->zero, 3);
    s->in.opts.zero = 0; /* what is asked breaks what is pinned */
    luo_err err = {0};
    ck_assert_int_eq(luo_auto_plan(arena, &s->in, &s->out, &err), LUO_EINFEASIBLE);
    ck_assert_ptr_ne(strstr(err.text, "pinned /zero"), NULL);
    close_scene(s);
}
END_TEST

/* What no layout hangs on is taken into every plan. */
START_TEST(pins_of_any_plan)
{
    static const char *const pin[] = {"/optimizer_step", "/bucket_mib", "/dp_lanes", "/zero",
                                      "/prefetch_depth"};
    scene *s = open_scene();
    luo_plan *pinned = luo_test_plan(arena, "16: [0-3]*8");
    other_step(pinned);
    other_mib(pinned);
    other_lanes(pinned);
    other_depth(pinned);
    pinned->zero = s->in.opts.zero = 3;
    pinned->pinned = pin;
    pinned->npinned = LUO_ROWS(pin);
    s->in.pinned = pinned;
    ask(s);
    int n = 0;
    for (int i = 0; i < LUO_AUTO_PLANNERS; i++) {
        const luo_plan *plan = s->out.at[i].plan;
        if (!plan) continue;
        n++;
        ck_assert(plan->staggered && plan->bucket.lanes == 3 && plan->bucket.mib == 0.5);
        ck_assert_int_eq(plan->sharding.depth, 3);
    }
    ck_assert_int_gt(n, 0);
    close_scene(s);
}
END_TEST

LUO_SUITE("run.auto", LUO_T(uniform_is_uniform), LUO_T(slow_devices_bring_malleus_in),
          LUO_T(experts_are_shared_out), LUO_T(rows_travel_by_node), LUO_T(experts_by_closed_form),
          LUO_T(no_device_is_a_sentence), LUO_T_N(pins_are_kept, LUO_ROWS(pins)),
          LUO_T(pins_of_values), LUO_T(hope),
          LUO_T(the_hopeless_are_not_simulated), LUO_T_N(sizes_are_told, LUO_ROWS(sizes)),
          LUO_T(other_sizes_are_told), LUO_T(sizes_are_kept), LUO_T(pinned_plans_alone),
          LUO_T(pins_of_any_plan))
