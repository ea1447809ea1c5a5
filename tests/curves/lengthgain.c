/* lengthgain.c: the planner for uneven lengths beside its rivals: mean simulated step of each on
 * the same batches, a line of CSV; tests/rivals_lengths.sh.
 *
 * usage: lengthgain MODEL CLUSTER LENGTHS CTX TOKENS STEPS SEED; LENGTHS as of `luoshu plan
 * hydraulis`. Without arguments: the names of the columns.
 *
 * A rival chooses its settings by the pool, as in a run. So that it has its best ones, the
 * simulator tries here what else it could have chosen, on the very batches that are compared, and
 * the best mean counts: equal replicas of each strategy that is not far from the best by the pool,
 * HotSPa's buckets for several costs of a change and these very batches (hotspa_run_s: those of a
 * run). It and one_plan have the layouts that they are fastest with. `hydraulis` is the policy as
 * it is in a run, but that it simulates the plan it takes on every batch. hotspa_pool_s is what
 * HotSPa would take if nothing but `switch_ms` were ever moved, by the pool alone. Costs of
 * strategies are those of the cost model. */
#include <math.h>
#include <string.h>

#include "cli/plan/plan_judge.h"
#include "core/plan/length_policies/length_setup.h"
#include "core/run/policy/judge_layouts.h"
#include "tests/bench/bench.h"

enum { STEPS_MOST = 64, LIMIT = 1 << 20, KICKS = -1, MOST = 16, SETS = 3, GRID = 1024 };
static const double FAR = 1.15; /* by the pool: equal replicas that are not tried */
static const double SWITCH_MS = 100;
static const double change_ms[SETS] = {100, 0, 1000};

typedef struct scene {
    luo_arena *arena;
    luo_model *model;
    luo_cluster *cluster;
    luo_stack stack;
    luo_length_part parts[LUO_PRESET_PARTS];
    luo_lengths lengths;
    luo_length_setup_in in;
    luo_length_setup setup;
    luo_judge judge;
    int32_t nsteps;
    luo_length_sample step[STEPS_MOST];
} scene;

static void good(luo_status st, const luo_err *err)
{
    if (st != LUO_OK) luo_bench_fail("lengthgain: %s", err->text);
}

/* ---- what is compared ---- */

static void read_inputs(scene *s, char **arg)
{
    luo_diags diags;
    luo_diags_init(&diags, s->arena);
    const int64_t ctx = atoll(arg[3]);
    luo_read_model(s->arena, arg[0], &s->model, &diags);
    luo_read_cluster(s->arena, arg[1], &s->cluster, &diags);
    if (!luo_length_preset(arg[2], ctx, s->parts, &s->lengths))
        luo_read_lengths(s->arena, arg[2], &s->lengths, &diags);
    if (diags.n_errors || !s->model || !s->cluster) luo_bench_fail("lengthgain: inputs are wrong");
    luo_stack_default(&s->stack);
    int32_t *device = LUO_NEW_N(s->arena, int32_t, s->cluster->ndevices);
    if (!device) luo_bench_fail("no memory");
    for (int32_t d = 0; d < s->cluster->ndevices; d++) device[d] = d;
    s->in = (luo_length_setup_in){.model = s->model,
                                  .cluster = s->cluster,
                                  .stack = &s->stack,
                                  .ndevices = s->cluster->ndevices,
                                  .devices = device,
                                  .lengths = &s->lengths,
                                  .rule = {.tokens = atoll(arg[4]), .most = ctx},
                                  .limit = LIMIT,
                                  .seed = (uint64_t)atoll(arg[6]),
                                  .switch_ms = SWITCH_MS,
                                  .step = {.kicks = KICKS, .most = MOST, .current = -1}};
    s->in.step.seed = s->in.seed;
    s->nsteps = atoi(arg[5]);
    if (s->nsteps < 1 || s->nsteps > STEPS_MOST) luo_bench_fail("lengthgain: 1 to 64 steps");
}

static void draw(scene *s)
{
    luo_length_source source = luo_length_source_open(s->in.seed);
    luo_err err = {0};
    for (int32_t k = 0; k < s->nsteps; k++) {
        int64_t *length;
        good(luo_lengths_batch(s->arena, &s->lengths, &s->in.rule, LIMIT, &source, &length,
                               &s->step[k].n, &err),
             &err);
        s->step[k].length = length;
    }
}

/* ---- a step on the simulator ---- */

/* All parts, one after the other; INFINITY: one cannot run. */
static double simulate(const scene *s, const luo_length_plans *plans)
{
    luo_judge judge = s->judge;
    double seconds = 0;
    for (int32_t k = 0; k < plans->n; k++) {
        luo_judgement judged;
        luo_err err = {0};
        judge.part = (luo_step_part){.index = k, .n = plans->n};
        good(luo_judge_plan(&judge, plans->part[k].plan, s->in.rule.most, NULL, &judged, &err),
             &err);
        seconds += judged.seconds;
    }
    return seconds;
}

/* Means over the batches; INFINITY: it cannot run one of them, or is above `enough` already. */
static double mean_of(const scene *s, const luo_length_rivals *with, luo_length_policy policy,
                      double enough)
{
    double sum = 0;
    for (int32_t k = 0; k < s->nsteps; k++) {
        luo_arena *a = luo_arena_new(0);
        luo_length_plans plans;
        luo_err err = {0};
        const luo_status st = luo_length_plan(a, with, &s->setup.place, policy, -1,
                                              s->step[k].length, s->step[k].n, &plans, &err);
        if (st != LUO_EINFEASIBLE) good(st, &err);
        sum += st == LUO_OK ? simulate(s, &plans) : INFINITY;
        luo_arena_free(a);
        if (sum > enough * s->nsteps) return INFINITY;
    }
    return sum / s->nsteps;
}

static double pool_mean(const scene *s, const luo_length_rivals *with, luo_length_policy policy)
{
    double ms;
    luo_err err = {0};
    good(luo_length_mean(s->arena, with, policy, s->step, s->nsteps, &ms, &err), &err);
    return ms;
}

/* ---- rivals at their best ---- */

static bool can_hold(const scene *s, int32_t k)
{
    const luo_pool_entry *e = &s->setup.pool.entry[k];
    return e->cap >= s->in.rule.most && luo_pool_devices(e) <= s->in.ndevices;
}

/* entry: of uniform_best before, for pack_dynamic; out: the best. */
static double of_alike(const scene *s, luo_length_policy policy, int32_t *entry)
{
    double ms[256], least = INFINITY, best = INFINITY;
    luo_length_rivals with = s->setup.rivals;
    if (s->setup.pool.n > 256) luo_bench_fail("lengthgain: too many strategies");
    for (int32_t k = 0; k < s->setup.pool.n; k++) {
        with.alike = with.uniform = k;
        const bool asked = policy != LUO_LENGTH_POLICY_PACK_DYNAMIC || k == *entry;
        ms[k] = can_hold(s, k) && asked ? pool_mean(s, &with, policy) : INFINITY;
        least = fmin(least, ms[k]);
    }
    /* Of what is padded only the best by the pool is simulated: nothing depends on it. */
    const double far = policy <= LUO_LENGTH_POLICY_PACK_STATIC ? 1 : FAR;
    for (int32_t k = 0; k < s->setup.pool.n; k++) {
        if (ms[k] > far * least || isinf(ms[k])) continue;
        with.alike = with.uniform = k;
        const double seconds = mean_of(s, &with, policy, best);
        if (seconds >= best) continue;
        best = seconds;
        *entry = k;
    }
    return best;
}

static bool same_buckets(const luo_length_rivals *a, const luo_length_rivals *b)
{
    return a->nbuckets == b->nbuckets &&
           memcmp(a->bucket, b->bucket, (size_t)a->nbuckets * sizeof *a->bucket) == 0;
}

/* With the layout that the rival is fastest with, as in a run, but for all of these batches. */
static double of_own_layout(const scene *s, luo_length_policy policy, luo_length_rivals *with)
{
    luo_arena *scratch = luo_arena_new(0);
    luo_judged_layout best;
    luo_err err = {0};
    good(luo_judge_rival_layout(s->arena, scratch, &s->judge, policy, with, &s->setup.place,
                                s->step, s->nsteps, NULL, &best, &err),
         &err);
    luo_arena_free(scratch);
    return best.seconds;
}

/* Buckets for these very batches. On the simulator a change costs what it moves, by the
 * pool the `switch_ms` of a run. */
static double of_buckets(const scene *s, double *pool_s, double *run_s, int32_t *nbuckets)
{
    double best = INFINITY;
    luo_length_rivals tried[SETS + 1];
    tried[0] = s->setup.rivals; /* as in a run */
    *pool_s = INFINITY;
    for (int k = 0; k <= SETS; k++) {
        luo_err err = {0};
        bool again = false;
        if (k > 0) {
            tried[k] = s->setup.rivals;
            tried[k].switch_ms = change_ms[k - 1];
            good(luo_length_rivals_choose(s->arena, s->step, s->nsteps, GRID, &tried[k], &err),
                 &err);
            tried[k].switch_ms = SWITCH_MS;
        }
        for (int j = 0; j < k; j++) again = again || same_buckets(&tried[j], &tried[k]);
        if (again) continue;
        *pool_s = fmin(*pool_s, 1e-3 * pool_mean(s, &tried[k], LUO_LENGTH_POLICY_HOTSPA));
        const double seconds = of_own_layout(s, LUO_LENGTH_POLICY_HOTSPA, &tried[k]);
        if (k == 0) *run_s = seconds;
        if (seconds >= best) continue;
        best = seconds;
        *nbuckets = tried[k].nbuckets;
    }
    return best;
}

static double of_one_plan(const scene *s)
{
    luo_length_rivals with = s->setup.rivals;
    return of_own_layout(s, LUO_LENGTH_POLICY_ONE_PLAN, &with);
}

/* ---- ours ---- */

static double of_planner(const scene *s, int32_t *used)
{
    luo_arena *scratch = luo_arena_new(0);
    luo_length_rivals with = s->setup.rivals;
    luo_step_place place = s->setup.place;
    luo_judged_layout best;
    luo_err err = {0};
    int32_t current = -1;
    double sum = 0;
    bool *was = LUO_NEW_N(s->arena, bool, s->setup.found.n);
    good(luo_judge_layouts(s->arena, scratch, &s->judge, &with, &place, s->step,
                           s->nsteps < LUO_JUDGE_BATCHES ? s->nsteps : LUO_JUDGE_BATCHES, NULL,
                           &best, &err),
         &err);
    luo_arena_free(scratch);
    place.layout = &best.layout;
    place.layout_devices = best.devices;
    if (best.alike >= 0) with.uniform = best.alike;
    for (int32_t k = 0; k < s->nsteps; k++) {
        luo_judged_lengths out;
        good(luo_judge_lengths(s->arena, &s->judge, &with, &place, current, s->step[k].length,
                               s->step[k].n, true, NULL, &best.learned, &out, &err),
             &err);
        current = out.plans.step.plan;
        if (was && !was[current]) ++*used;
        if (was) was[current] = true;
        sum += out.seconds;
    }
    return sum / s->nsteps;
}

int main(int argc, char **argv)
{
    enum { ARGS = 7, POLICIES = LUO_LENGTH_POLICIES };
    scene s = {.arena = luo_arena_new(1 << 20)};
    luo_err err = {0};
    double seconds[POLICIES], pool_s = INFINITY, run_s = INFINITY;
    int32_t entry = 0, buckets = 0, used = 0, sequences = 0;
    if (argc < ARGS + 1) {
        printf("sequences");
        for (int p = 0; p < POLICIES; p++)
            printf(",%s_s", luo_length_policy_name((luo_length_policy)p));
        printf(",hotspa_run_s,hotspa_pool_s,hydraulis_pool_s,uniform_tp,uniform_pp,buckets,plans_"
               "used\n");
        return 0;
    }
    read_inputs(&s, argv + 1);
    draw(&s);
    good(luo_length_setup_make(s.arena, &s.in, &s.setup, &err), &err);
    s.judge = luo_plan_judge(s.model, s.cluster, &s.stack);
    seconds[LUO_LENGTH_POLICY_UNIFORM_BEST] = of_alike(&s, LUO_LENGTH_POLICY_UNIFORM_BEST, &entry);
    for (int p = 0; p < LUO_LENGTH_POLICY_UNIFORM_BEST; p++) {
        int32_t own = entry;
        seconds[p] = of_alike(&s, (luo_length_policy)p, &own);
    }
    seconds[LUO_LENGTH_POLICY_HOTSPA] = of_buckets(&s, &pool_s, &run_s, &buckets);
    seconds[LUO_LENGTH_POLICY_ONE_PLAN] = of_one_plan(&s);
    seconds[LUO_LENGTH_POLICY_HYDRAULIS] = of_planner(&s, &used);
    for (int32_t k = 0; k < s.nsteps; k++) sequences += s.step[k].n;
    printf("%d", sequences / s.nsteps);
    for (int p = 0; p < POLICIES; p++) {
        if (isfinite(seconds[p]))
            printf(",%.6f", seconds[p]);
        else
            printf(",");
    }
    const luo_pool_entry *e = &s.setup.pool.entry[entry];
    printf(",%.6f,%.6f,%.6f,%d,%d,%d,%d\n", run_s, pool_s,
           1e-3 * pool_mean(&s, &s.setup.rivals, LUO_LENGTH_POLICY_HYDRAULIS), e->tp, e->pp,
           buckets, used);
    luo_judge_free(&s.judge);
    luo_arena_free(s.arena);
    return 0;
}
