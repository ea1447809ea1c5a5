/* diff_orders.c: plans for uneven lengths around slow devices (`stragglers: joint`) against those
 * that only give slow replicas less (`dispatch`), as runs choose them: by what is known of other
 * batches. On the same batches no step of the first takes longer than one of the second by more
 * than a hundredth. */
#include "core/run/lengths/orders.h"
#include "sim/sim.h"
#include "tests/driver_fixture.h"
#include "tests/prop/prop.h"

enum { CASES = 3, BATCHES = 6, DEVICES = 8, CTX = 4096, LIMIT = 100000 };

typedef struct scene {
    uint64_t seed;
    luo_rng rng;
    bool sure; /* as the command asks: every answer is simulated */
    luo_model model;
    luo_length_setup_in in;
    luo_length_setup setup;
    luo_judge judge;
    double rate[DEVICES];
} scene;

static int others; /* steps in which devices went to other replicas */

static void good(luo_status st, const luo_err *err)
{
    ck_assert_msg(st == LUO_OK, "%s", err->text);
}

static const luo_lengths uneven = {
    .kind = LUO_LENGTH_LOGNORMAL, .median = 200, .sigma = 1.6, .low = 32, .high = CTX};

/* Two nodes of four; one or two devices are slow. */
static void open_world(scene *s)
{
    static const double slowdown[] = {1.3, 2, 3, 6}, nic[] = {25e9, 100e9};
    luo_cluster *c = fixture_cluster(arena, 1, 2, DEVICES / 2);
    c->groups[0].nic_bytes_per_s = nic[luo_rng_pick(&s->rng, 2)];
    sc.cluster = c;
    for (int d = 0; d < DEVICES; d++) s->rate[d] = 1;
    for (int k = 1 + (int)luo_rng_pick(&s->rng, 2); k > 0; k--)
        s->rate[luo_rng_pick(&s->rng, DEVICES)] = slowdown[luo_rng_pick(&s->rng, 4)];
}

static scene *open_scene(uint64_t seed)
{
    static const int32_t devices[DEVICES] = {0, 1, 2, 3, 4, 5, 6, 7};
    luo_err err = {0};
    prepare("hydraulis", 1, 0);
    scene *s = LUO_NEW(arena, scene);
    s->seed = seed;
    s->rng = luo_rng_seed(seed);
    open_world(s);
    s->sure = seed % 3 == 0;
    s->model = model;
    s->model.layers = 4 << luo_rng_pick(&s->rng, 2);
    s->model.max_sequence_tokens = CTX;
    s->in = (luo_length_setup_in){
        .model = &s->model,
        .cluster = sc.cluster,
        .stack = &sc.stack,
        .ndevices = DEVICES,
        .devices = devices,
        .lengths = &uneven,
        .rule = {.tokens = CTX * (2 << luo_rng_pick(&s->rng, 3)), .most = CTX, .least = 32},
        .limit = LIMIT,
        .seed = seed,
        .switch_ms = 1,
        .step = {.kicks = 4, .most = 4, .seed = seed, .current = -1}};
    good(luo_length_setup_make(arena, &s->in, &s->setup, &err), &err);
    luo_length_setup_rates(&s->setup, s->rate);
    s->judge = (luo_judge){.simulator = &luo_sim_backend,
                           .model = &s->model,
                           .cluster = sc.cluster,
                           .stack = &sc.stack,
                           .bucket = sc.stack.bucket,
                           .comm = LUO_COMM_FLOW};
    return s;
}

static void open_orders(scene *s, luo_orders *x)
{
    luo_err err = {0};
    *x = (luo_orders){.in = s->in, .rate = s->rate};
    luo_length_setup_copy(&x->choice.setup, &s->setup);
    good(luo_lengths_learn_open(arena, &s->setup.pool, &s->setup.found, s->setup.moved_ms,
                                &x->choice.learned, &err),
         &err);
    good(luo_orders_forget(x, &err), &err);
}

/* Seconds of the step that is chosen. */
static double step_of(scene *s, luo_orders *x, luo_orders_ask *ask)
{
    luo_orders_answer answer;
    luo_judgement judged;
    luo_err err = {0};
    good(luo_orders_choose(arena, x, ask, &answer, &err), &err);
    others += answer.devices != s->setup.place.devices;
    ask->chosen = answer.of;
    ask->current = answer.judged.plans.step.plan;
    good(luo_judge_plan(&s->judge, answer.judged.plans.part[0].plan, CTX, s->rate, &judged, &err),
         &err);
    ck_assert_msg(isfinite(judged.seconds), "%s", err.text);
    return judged.seconds;
}

static void try_scene(scene *s)
{
    luo_length_source source = luo_length_source_open(s->seed);
    luo_orders plain, joint;
    luo_orders_ask asks[2] = {
        {.policy = LUO_LENGTH_POLICY_HYDRAULIS, .judge = &s->judge, .sure = s->sure},
        {.policy = LUO_LENGTH_POLICY_HYDRAULIS,
         .judge = &s->judge,
         .sure = s->sure,
         .joint = true}};
    luo_err err = {0};
    open_orders(s, &plain);
    open_orders(s, &joint);
    for (int k = 0; k < BATCHES; k++) {
        int64_t *length;
        int32_t n;
        good(luo_lengths_batch(arena, &uneven, &s->in.rule, LIMIT, &source, &length, &n, &err),
             &err);
        for (int i = 0; i < 2; i++) {
            asks[i].length = length;
            asks[i].n = n;
        }
        const double before = step_of(s, &plain, &asks[0]), after = step_of(s, &joint, &asks[1]);
        ck_assert_msg(after <= 1.01 * before, "LUO_SEED=%llu LUO_CASES=1: batch %d: %g s, not %g",
                      (unsigned long long)s->seed, k, after, before);
    }
    luo_orders_free(&plain);
    luo_orders_free(&joint);
}

START_TEST(joint_is_no_slower)
{
    LUO_PROP_FOR(seed, CASES)
    {
        scene *s = open_scene(seed);
        try_scene(s);
        luo_judge_free(&s->judge);
        luo_arena_free(arena);
        arena = NULL;
    }
    ck_assert_int_gt(others, 0);
}
END_TEST

/* ---- steps that are not as expected ---- */

typedef struct step_row { /* three steps in the first order and in another one .. */
    double first, other;  /* .. take so long, over what was expected in the first order */
    bool stays;           /* devices stay in the other order */
} step_row;

static const step_row steps[] = {
    {1, 0.98, true}, {1, 1.02, false}, {1.3, 1.25, true}, {0.9, 0.95, false}};

static luo_joint_order choose_order(luo_orders *x, const luo_orders_ask *ask)
{
    luo_orders_answer answer;
    luo_err err = {0};
    good(luo_orders_choose(arena, x, ask, &answer, &err), &err);
    return x->order;
}

static void learn_steps(luo_orders *x, luo_joint_order order, double ratio)
{
    x->order = order;
    x->first_ms = 100;
    for (int k = 0; k < LUO_ORDERS_STEPS; k++) luo_orders_learn(x, 0.1 * ratio);
}

START_TEST(goes_back)
{
    scene *s = open_scene(2);
    luo_orders x;
    luo_length_source source = luo_length_source_open(s->seed);
    luo_orders_ask ask = {.policy = LUO_LENGTH_POLICY_HYDRAULIS, .judge = &s->judge, .joint = true};
    int64_t *length;
    luo_err err = {0};
    open_orders(s, &x);
    good(luo_lengths_batch(arena, &uneven, &s->in.rule, LIMIT, &source, &length, &ask.n, &err),
         &err);
    ask.length = length;
    const luo_joint_order other = choose_order(&x, &ask);
    ck_assert_int_ne(other, LUO_JOINT_AS_THEY_ARE);
    for (int i = 0; i < LUO_ROWS(steps); i++) {
        learn_steps(&x, LUO_JOINT_AS_THEY_ARE, steps[i].first);
        learn_steps(&x, other, steps[i].other);
        ck_assert_int_eq(choose_order(&x, &ask) == other, steps[i].stays);
    }
    good(luo_orders_forget(&x, &err), &err);
    ck_assert_int_eq(choose_order(&x, &ask), other);
    luo_orders_free(&x);
    luo_judge_free(&s->judge);
    luo_arena_free(arena);
    arena = NULL;
}
END_TEST

LUO_SUITE("diff.orders", LUO_T(joint_is_no_slower), LUO_T(goes_back))
