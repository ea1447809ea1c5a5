/* diff_sim_fold.c: pipelines of unequal tensor parallelism, whose buckets are called by
 * turns: one lane for devices alike takes the time of them all, in every number of lanes of stream
 * dp, and no lane waits for another for ever where their devices do not. The same with a backward
 * cut in two, and with noise, of which both draw the same numbers. */
#include "core/base/rng.h"
#include "core/io/read/read.h"
#include "tests/plan_make.h"
#include "tests/prop/prop.h"
#include "tests/sim_fixture.h"

#define ALIKE 1e-6
#define DATES_S 1e-8 /* SimGrid takes dates less than 1e-9 s apart as one: some of them add up */
/* A lane sends when the last of its devices is done, each device when it is: 1 of 100 plans feels
 * that, 1e-4 of its step at most in 240. */
#define ALIKE_NOISY 5e-4
enum { STEPS = 2 };

typedef struct tally {
    int plans, turns; /* turns: a device has several calls of a bucket */
    int close;        /* steps within ALIKE */
} tally;

/* Two to four pipelines on 8 nodes of 8 devices; a stage has 1 to 8 devices of one node. */
static luo_plan *random_plan(luo_arena *a, luo_rng *r)
{
    const int layers = 4 + (int)luo_rng_pick(r, 9), pipes = 2 + (int)luo_rng_pick(r, 3);
    luo_str line = {0};
    for (int p = 0, node = 0; p < pipes; p++) {
        const int stages = 1 + (int)luo_rng_pick(r, pipes > 2 ? 2 : 3);
        luo_str_addf(&line, "%s%d:", p ? " || " : "", stages + (int)luo_rng_pick(r, 4));
        for (int s = 0, first = 0; s < stages; s++, node++) {
            const int tp = 1 << luo_rng_pick(r, 4), rest = stages - 1 - s;
            const int n = rest ? 1 + (int)luo_rng_pick(r, layers - first - rest) : layers - first;
            luo_str_addf(&line, " [%d-%d]*%d", 8 * node, 8 * node + tp - 1, n);
            first += n;
        }
    }
    luo_plan *p = luo_test_plan(a, luo_str_get(&line));
    luo_str_free(&line);
    p->zero = (int32_t)luo_rng_pick(r, 2);
    p->bucket = (luo_bucketing){LUO_BUCKET_MIB, true, luo_rng_pick(r, 2) ? 25 : 400,
                                1 + (int32_t)luo_rng_pick(r, 4)};
    return p;
}

static void cut_in_two(luo_rng *r, luo_plan *p)
{
    p->schedule = LUO_SCHED_ZB_H1;
    p->sequence_parallel = luo_rng_pick(r, 2);
    for (int32_t i = 0; i < p->npipelines; i++)
        for (int32_t s = 0; s < p->pipelines[i].nstages; s++)
            ((luo_stage *)p->pipelines[i].stages)[s].recompute = (luo_recompute)luo_rng_pick(r, 3);
}

static bool has_turns(const luo_programs *set)
{
    for (int32_t r = 0; r < set->nroles; r++) {
        const luo_role *role = &set->roles[r];
        for (int32_t i = 0; i < role->ninstr; i++)
            for (int32_t k = 0; k < i && role->instr[i].npieces; k++)
                if (role->instr[k].npieces && role->instr[k].exchange == role->instr[i].exchange &&
                    role->instr[k].phase == role->instr[i].phase)
                    return true;
    }
    return false;
}

/* Seconds of each step; sigma: of computation and of communication. */
static void simulate(luo_arena *a, const luo_cluster *c, const luo_programs *set,
                     const luo_stack *stack, bool fold, double sigma, double took[STEPS])
{
    luo_err err = {0};
    const luo_backend_config config = {.cluster = c,
                                       .stack = stack,
                                       .dtype = LUO_BF16,
                                       .comm = LUO_COMM_FLOW,
                                       .fold = fold,
                                       .compute_sigma = sigma,
                                       .comm_sigma = sigma,
                                       .seed = 7};
    luo_backend_state *state = NULL;
    luo_world *world = NULL;
    luo_step_result s;
    ck_assert_int_eq(luo_world_new(a, c, &world, &err), LUO_OK);
    const luo_step_request q = {.programs = set, .world = world};
    ck_assert_int_eq(luo_sim_backend.open(&config, &state, &err), LUO_OK);
    for (int i = 0; i < (sigma > 0 ? STEPS : 1); i++) {
        ck_assert_msg(luo_sim_backend.run_ranks(state, &q, &s, &err) == LUO_OK, "%s", err.text);
        ck_assert_msg(s.status == LUO_OK, "%s", s.text);
        took[i] = s.end_s - s.start_s;
    }
    luo_sim_backend.close(state);
}

static void one(uint64_t seed, bool split, double sigma, tally *t)
{
    luo_arena *a = luo_arena_new(1 << 20);
    luo_rng r = luo_rng_seed(seed);
    const luo_compile_opts opts = {.check = true};
    luo_diags diags;
    luo_cluster *cluster = NULL;
    luo_programs *set = NULL;
    luo_err err = {0};
    double folded[STEPS], apart[STEPS];
    luo_diags_init(&diags, a);
    luo_read_cluster(a, "scenarios/clusters/a100-64.yaml", &cluster, &diags);
    ck_assert_msg(cluster != NULL, "run from the root of the repository");
    luo_plan *p = random_plan(a, &r);
    if (split) cut_in_two(&r, p);
    const bool small = luo_rng_pick(&r, 4) == 0;
    const luo_model m = small ? luo_test_llama(p->layers, 256, 704, 8, 1024)
                              : luo_test_llama(p->layers, 4096, 11008, 32, 32000);
    ck_assert_msg(luo_plan_compile(a, p, &m, cluster, &opts, &set, &err) == LUO_OK,
                  "LUO_SEED=%llu: %s", (unsigned long long)seed, err.text);
    luo_stack stack;
    luo_stack_default(&stack);
    stack.scale_jitter = 0;
    stack.dp_overlap = luo_rng_pick(&r, 2);
    simulate(a, cluster, set, &stack, true, sigma, folded);
    simulate(a, cluster, set, &stack, false, sigma, apart);
    for (int i = 0; i < (sigma > 0 ? STEPS : 1); i++) {
        const double off = fabs(folded[i] - apart[i]);
        ck_assert_msg(off < fmax(DATES_S, (sigma > 0 ? ALIKE_NOISY : ALIKE) * apart[i]),
                      "LUO_SEED=%llu, step %d: %.9f s folded, %.9f s device by device",
                      (unsigned long long)seed, i, folded[i], apart[i]);
        t->close += off < fmax(DATES_S, ALIKE * apart[i]);
    }
    if (sigma > 0) ck_assert_double_ne(folded[0], folded[1]);
    t->plans++;
    t->turns += has_turns(set);
    luo_arena_free(a);
}

START_TEST(calls_by_turns)
{
    tally t = {0};
    LUO_PROP_FOR(seed, 60) one(seed, false, 0, &t);
    printf("%d plans, %d with several calls of a bucket on a device\n", t.plans, t.turns);
    ck_assert(t.plans < 60 || t.turns >= 20);
}
END_TEST

START_TEST(split_backward)
{
    tally t = {0};
    LUO_PROP_FOR(seed, 40) one(seed, true, 0, &t);
}
END_TEST

START_TEST(noise)
{
    tally t = {0};
    LUO_PROP_FOR(seed, 40) one(seed, seed % 2, 0.05, &t);
    printf("%d of %d steps with noise are as without\n", t.close, STEPS * t.plans);
    ck_assert(t.close >= STEPS * t.plans * 9 / 10);
}
END_TEST

LUO_SUITE("diff.sim_fold", LUO_T(calls_by_turns), LUO_T(split_backward), LUO_T(noise))
