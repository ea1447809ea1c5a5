/* check_judge_lengths.c: plans for uneven lengths and layouts of optimizer state, chosen by the
 * simulated step: never slower than equal replicas and one plan for all. */
#include "core/run/policy/judge_layouts.h"
#include "core/plan/length_policies/length_setup.h"
#include "sim/sim.h"
#include "tests/driver_fixture.h"

enum { STEPS = 3, DEVICES = 8, CTX = 128, TOKENS = 2048, LIMIT = 100000 };

typedef struct scene {
    luo_model model;
    luo_length_setup_in in;
    luo_length_setup setup;
    luo_judge judge;
    luo_length_sample batch[STEPS];
} scene;

static void good(luo_status st, const luo_err *err)
{
    ck_assert_msg(st == LUO_OK, "%s", err->text);
}

/* nic_bytes_per_s: of each node; 0: as the fixture has it. */
static scene *open_scene_on(uint64_t seed, double nic_bytes_per_s)
{
    static const luo_lengths uneven = {
        .kind = LUO_LENGTH_LOGNORMAL, .median = 40, .sigma = 1.2, .low = 4, .high = CTX};
    static const int32_t devices[DEVICES] = {0, 1, 2, 3, 4, 5, 6, 7};
    luo_length_source source = luo_length_source_open(seed);
    luo_err err = {0};
    prepare("hydraulis", 1, 0);
    scene *s = LUO_NEW(arena, scene);
    if (nic_bytes_per_s > 0) {
        luo_node_group *group = (luo_node_group *)(uintptr_t)sc.cluster->groups;
        group->nics = 1;
        group->nic_bytes_per_s = nic_bytes_per_s;
    }
    s->model = model;
    s->model.layers = 4;
    s->in = (luo_length_setup_in){.model = &s->model, .cluster = sc.cluster, .stack = &sc.stack,
                                  .ndevices = DEVICES, .devices = devices, .lengths = &uneven,
                                  .rule = {.tokens = TOKENS, .most = CTX, .least = 4},
                                  .limit = LIMIT, .seed = seed, .switch_ms = 1,
                                  .step = {.kicks = 4, .most = 4, .seed = seed, .current = -1}};
    good(luo_length_setup_make(arena, &s->in, &s->setup, &err), &err);
    s->judge = (luo_judge){.simulator = &luo_sim_backend, .model = &s->model,
                           .cluster = sc.cluster, .stack = &sc.stack, .bucket = sc.stack.bucket,
                           .comm = LUO_COMM_FLOW};
    for (int k = 0; k < STEPS; k++) {
        int64_t *length;
        good(luo_lengths_batch(arena, &uneven, &s->in.rule, LIMIT, &source, &length,
                               &s->batch[k].n, &err),
             &err);
        s->batch[k].length = length;
    }
    return s;
}

static scene *open_scene(uint64_t seed)
{
    return open_scene_on(seed, 0);
}

static void close_scene(scene *s)
{
    luo_judge_free(&s->judge);
    luo_arena_free(arena);
    arena = NULL;
}

/* The step of a policy that has one plan, where state lies in `place`. */
static double step_of(const scene *s, const luo_length_rivals *with, const luo_step_place *place,
                      luo_length_policy policy, int k)
{
    luo_length_plans plans;
    luo_judgement judged;
    luo_err err = {0};
    const luo_status st = luo_length_plan(arena, with, place, policy, -1, s->batch[k].length,
                                          s->batch[k].n, &plans, &err);
    if (st == LUO_EINFEASIBLE) return INFINITY;
    good(st, &err);
    good(luo_judge_plan(&s->judge, plans.part[0].plan, CTX, NULL, &judged, &err), &err);
    return judged.seconds;
}

static luo_judged_layout judge_layouts(const scene *s, const luo_length_rivals *with)
{
    luo_arena *scratch = luo_arena_new(0);
    luo_judged_layout x;
    luo_err err = {0};
    good(luo_judge_layouts(arena, scratch, &s->judge, with, &s->setup.place, s->batch, 1, NULL, &x,
                           &err),
         &err);
    luo_arena_free(scratch);
    ck_assert_int_eq(x.layout.dp * x.layout.tp * x.layout.pp, DEVICES);
    ck_assert(isfinite(x.seconds));
    return x;
}

/* Every step is at least as fast as that of one_plan and of the equal replicas whose state lies so,
 * whatever was learned: in odd seeds that all of which nothing is known are faster. */
START_TEST(no_slower_than_rivals)
{
    const uint64_t seed = (uint64_t)_i + 1;
    scene *s = open_scene(seed);
    luo_length_rivals with = s->setup.rivals;
    luo_step_place place = s->setup.place;
    luo_judged_layout x = judge_layouts(s, &with);
    place.layout = &x.layout;
    place.layout_devices = x.devices;
    if (x.alike >= 0) with.uniform = x.alike;
    for (int k = 0; k < STEPS; k++) {
        luo_judged_lengths out;
        luo_judgement again;
        luo_err err = {0};
        for (int32_t p = 0; p < x.learned.n && seed % 2; p++)
            if (!x.learned.known[p]) x.learned.extra_ms[p] = -1000;
        good(luo_judge_lengths(arena, &s->judge, &with, &place, -1, s->batch[k].length,
                               s->batch[k].n, true, NULL, &x.learned, &out, &err),
             &err);
        const double one = step_of(s, &with, &place, LUO_LENGTH_POLICY_ONE_PLAN, k);
        const double alike = step_of(s, &with, &place, LUO_LENGTH_POLICY_UNIFORM_BEST, k);
        ck_assert_msg(out.seconds <= one, "seed %d: %g, one plan %g", _i + 1, out.seconds, one);
        if (x.alike >= 0)
            ck_assert_msg(out.seconds <= alike, "seed %d: %g, equal replicas %g", _i + 1,
                          out.seconds, alike);
        good(luo_judge_plan(&s->judge, out.plans.part[0].plan, CTX, NULL, &again, &err), &err);
        ck_assert_double_eq(again.seconds, out.seconds);
    }
    close_scene(s);
}
END_TEST

/* The layout that is answered is no slower on its batch than the own step of any equal replicas
 * that the pool does not call far. */
START_TEST(layouts_of_equal_replicas)
{
    scene *s = open_scene(5);
    luo_arena *scratch = luo_arena_new(0);
    luo_length_rivals with = s->setup.rivals;
    luo_err err = {0};
    double best = INFINITY;
    const luo_judged_layout x = judge_layouts(s, &with), again = judge_layouts(s, &with);
    ck_assert_double_eq(x.seconds, again.seconds);
    ck_assert_int_eq(x.alike, again.alike);
    double least = INFINITY, ms[64];
    ck_assert_int_le(s->setup.pool.n, 64);
    for (int32_t k = 0; k < s->setup.pool.n; k++) {
        with.uniform = k;
        ms[k] = INFINITY;
        if (luo_pool_devices(&s->setup.pool.entry[k]) > DEVICES) continue;
        good(luo_length_mean(scratch, &with, LUO_LENGTH_POLICY_UNIFORM_BEST, &s->batch[0], 1,
                             &ms[k], &err),
             &err);
        least = fmin(least, ms[k]);
    }
    for (int32_t k = 0; k < s->setup.pool.n; k++) {
        with.uniform = k;
        if (ms[k] <= 1.02 * least)
            best = fmin(best, step_of(s, &with, &s->setup.place, LUO_LENGTH_POLICY_UNIFORM_BEST,
                                      0));
    }
    ck_assert_msg(x.seconds <= best * 1.01, "%g, equal replicas %g", x.seconds, best);
    luo_arena_free(scratch);
    close_scene(s);
}
END_TEST

/* Where nodes have slow links, what a step moves is most of it: equal replicas chosen by the pool
 * alone take longer. The chosen ones are as fast as any that the pool has, but for 5 %. */
START_TEST(equal_replicas_on_slow_links)
{
    const uint64_t seed = (uint64_t)_i + 1;
    scene *s = open_scene_on(seed, 2e8);
    luo_arena *scratch = luo_arena_new(0);
    luo_length_rivals with = s->setup.rivals, other = with;
    luo_err err = {0};
    double least = INFINITY;
    good(luo_judge_rival(scratch, &s->judge, LUO_LENGTH_POLICY_UNIFORM_BEST, &s->setup.place,
                         s->batch, 1, NULL, &with, &err),
         &err);
    const double own = step_of(s, &with, &s->setup.place, LUO_LENGTH_POLICY_UNIFORM_BEST, 0);
    for (int32_t k = 0; k < s->setup.pool.n; k++) {
        other.uniform = k;
        if (luo_pool_devices(&s->setup.pool.entry[k]) > DEVICES) continue;
        least = fmin(least, step_of(s, &other, &s->setup.place, LUO_LENGTH_POLICY_UNIFORM_BEST, 0));
    }
    ck_assert_msg(own <= 1.05 * least, "seed %d: %g, best of all %g", _i + 1, own, least);
    luo_arena_free(scratch);
    close_scene(s);
}
END_TEST

/* one_plan has its state where its plan is fastest: it is no slower than on the layout of
 * uniform_best, and than uniform_best; the plans that are tried are held to the same batch. */
START_TEST(one_plan_has_its_own_layout)
{
    const uint64_t seed = (uint64_t)_i / 2 + 1;
    scene *s = open_scene_on(seed, _i % 2 ? 2e8 : 0);
    luo_arena *scratch = luo_arena_new(0);
    luo_length_rivals with = s->setup.rivals, alike = with, held = with;
    luo_optimizer_layout layout;
    luo_step_place place = s->setup.place, as_alike;
    luo_judged_layout x;
    luo_err err = {0};
    good(luo_judge_rival_layout(arena, scratch, &s->judge, LUO_LENGTH_POLICY_ONE_PLAN, &with,
                                &place, s->batch, 1, NULL, &x, &err),
         &err);
    place.layout = &x.layout;
    place.layout_devices = x.devices;
    const double own = step_of(s, &with, &place, LUO_LENGTH_POLICY_ONE_PLAN, 0);
    ck_assert_double_eq_tol(own, x.seconds, 1e-9 * own);
    good(luo_judge_rival(scratch, &s->judge, LUO_LENGTH_POLICY_UNIFORM_BEST, &s->setup.place,
                         s->batch, 1, NULL, &alike, &err),
         &err);
    ck_assert_int_eq(with.uniform, alike.uniform);
    const double equal = step_of(s, &alike, &s->setup.place, LUO_LENGTH_POLICY_UNIFORM_BEST, 0);
    ck_assert_msg(own <= 1.01 * equal, "case %d: %g, equal replicas %g", _i, own, equal);
    good(luo_length_plan_layout(arena, &alike, &s->setup.place, alike.uniform, &layout, &as_alike,
                                &err),
         &err);
    good(luo_judge_rival(scratch, &s->judge, LUO_LENGTH_POLICY_ONE_PLAN, &as_alike, s->batch, 1,
                         NULL, &held, &err),
         &err);
    const double before = step_of(s, &held, &as_alike, LUO_LENGTH_POLICY_ONE_PLAN, 0);
    ck_assert_msg(own <= before, "case %d: %g, with the state of equal replicas %g", _i, own,
                  before);
    luo_arena_free(scratch);
    close_scene(s);
}
END_TEST

/* All parts of a step of hotspa. */
static double step_of_buckets(const scene *s, const luo_length_rivals *with,
                              const luo_step_place *place)
{
    luo_length_plans plans;
    luo_judge judge = s->judge;
    luo_err err = {0};
    double sum = 0;
    good(luo_length_plan(arena, with, place, LUO_LENGTH_POLICY_HOTSPA, -1, s->batch[0].length,
                         s->batch[0].n, &plans, &err),
         &err);
    for (int32_t k = 0; k < plans.n; k++) {
        luo_judgement judged;
        judge.part = (luo_step_part){.index = k, .n = plans.n};
        good(luo_judge_plan(&judge, plans.part[k].plan, CTX, NULL, &judged, &err), &err);
        sum += judged.seconds;
    }
    return sum;
}

/* hotspa has its state where its buckets are fastest: it is no slower than its buckets on the
 * layout of uniform_best or of hydraulis, and than uniform_best, which is one bucket. */
START_TEST(hotspa_has_its_own_layout)
{
    const uint64_t seed = (uint64_t)_i / 2 + 1;
    scene *s = open_scene_on(seed, _i % 2 ? 2e8 : 0);
    luo_arena *scratch = luo_arena_new(0);
    luo_length_rivals with = s->setup.rivals, alike = with, ours = with;
    luo_step_place place = s->setup.place;
    luo_judged_layout x;
    luo_err err = {0};
    good(luo_judge_rival_layout(arena, scratch, &s->judge, LUO_LENGTH_POLICY_HOTSPA, &with,
                                &s->setup.place, s->batch, 1, NULL, &x, &err),
         &err);
    place.layout = &x.layout;
    place.layout_devices = x.devices;
    const double own = step_of_buckets(s, &with, &place);
    ck_assert_double_eq_tol(own, x.seconds, 1e-9 * own);
    const double before = step_of_buckets(s, &s->setup.rivals, &s->setup.place);
    ck_assert_msg(own <= 1.001 * before, "case %d: %g, with the state of equal replicas %g", _i,
                  own, before);
    const luo_judged_layout y = judge_layouts(s, &ours);
    place.layout = &y.layout;
    place.layout_devices = y.devices;
    const double there = step_of_buckets(s, &s->setup.rivals, &place);
    ck_assert_msg(own <= 1.001 * there, "case %d: %g, with the state of ours %g", _i, own, there);
    good(luo_judge_rival(scratch, &s->judge, LUO_LENGTH_POLICY_UNIFORM_BEST, &s->setup.place,
                         s->batch, 1, NULL, &alike, &err),
         &err);
    const double equal = step_of(s, &alike, &s->setup.place, LUO_LENGTH_POLICY_UNIFORM_BEST, 0);
    ck_assert_msg(own <= 1.001 * equal, "case %d: %g, equal replicas %g", _i, own, equal);
    luo_arena_free(scratch);
    close_scene(s);
}
END_TEST

/* What moves is learned apart for replicas of one stage and of several. */
START_TEST(learns_by_stages)
{
    luo_pool_entry entry[] = {{.tp = 2, .cp = 1, .pp = 1}, {.tp = 1, .cp = 1, .pp = 2}};
    const luo_pool pool = {2, entry};
    luo_replica wide[] = {{.entry = 0}}, deep[] = {{.entry = 1}}, both[] = {{.entry = 0},
                                                                            {.entry = 1}};
    luo_replicas plan[] = {{.n = 1, .replica = wide}, {.n = 1, .replica = wide},
                           {.n = 1, .replica = deep}, {.n = 2, .replica = both}};
    const luo_candidates found = {.n = 4, .plan = plan};
    static const double moved[] = {100, 200, 300, 400};
    luo_lengths_learned x;
    luo_err err = {0};
    arena = luo_arena_new(0);
    good(luo_lengths_learn_open(arena, &pool, &found, moved, &x, &err), &err);
    for (int p = 0; p < 4; p++) {
        ck_assert_double_eq(x.extra_ms[p], 0.25 * moved[p]);
        ck_assert(!x.known[p]);
    }
    luo_lengths_learn(&x, 0, 50, 0.06); /* 10 of 100 ms */
    ck_assert_double_eq_tol(x.extra_ms[0], 10, 1e-9);
    ck_assert(x.known[0]);
    ck_assert_double_eq_tol(x.extra_ms[1], 0.5 * 0.1 * 200, 1e-9);
    ck_assert_double_eq(x.extra_ms[2], 0.25 * 300); /* of several stages nothing is known */
    ck_assert_double_eq(x.extra_ms[3], 0.25 * 400);
    luo_lengths_learn(&x, 2, 50, 0.35); /* all of it: no less than was thought */
    ck_assert_double_eq_tol(x.extra_ms[2], 300, 1e-9);
    ck_assert_double_eq(x.extra_ms[3], 0.25 * 400);
    luo_lengths_learn(&x, 0, 50, 0.04); /* faster than by the pool */
    ck_assert_double_eq_tol(x.extra_ms[0], -10, 1e-9);
    ck_assert_double_eq_tol(x.extra_ms[1], 0.5 * 0.02 * 200, 1e-9);
    luo_lengths_learn(&x, 2, 50, INFINITY); /* did not fit: it is a guess again */
    ck_assert(!x.known[2]);
    ck_assert_double_eq_tol(x.extra_ms[2], 0.25 * 300, 1e-9);
    luo_lengths_bar(&x, 1);
    luo_lengths_forget(&x); /* other speeds: guesses, by the share that was seen to move */
    ck_assert(!x.known[0]);
    ck_assert_double_eq_tol(x.extra_ms[0], 0.5 * 0.02 * 100, 1e-9);
    ck_assert(isinf(x.extra_ms[1])); /* barred all the same */
    luo_arena_free(arena);
    arena = NULL;
}
END_TEST

LUO_SUITE("run.judge_lengths", LUO_T_N(no_slower_than_rivals, 4), LUO_T(layouts_of_equal_replicas),
          LUO_T_N(equal_replicas_on_slow_links, 4), LUO_T_N(one_plan_has_its_own_layout, 8),
          LUO_T_N(hotspa_has_its_own_layout, 8), LUO_T(learns_by_stages))
