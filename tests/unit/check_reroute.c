/* check_reroute.c: plans with lost stages (core/plan/replan/reroute.h): how micro-batches are
 * dealt, their numbers, and that programs run each of them once on every stage. That they train
 * like one device, tests/mpi/reroute.c shows. */
#include "core/io/write_plan.h"
#include "core/plan/replan/reroute.h"

#include "core/io/read/read.h"
#include "tests/check_main.h"
#include "tests/plan_make.h"
#include "tests/prop/prop.h"

static bool *without(luo_arena *a, const luo_plan *p, const int *lost)
{
    bool *usable = LUO_NEW_N(a, bool, p->devices);
    for (int32_t d = 0; d < p->devices; d++) usable[d] = true;
    for (; *lost >= 0; lost++) usable[*lost] = false;
    return usable;
}

/* ---- assignment ---- */

static const struct {
    const char *line;
    int lost[4];
    const char *deals; /* pipeline.stage: peer x micro-batches .. */
} dealt[] = {
    {"4: [0]*1 [1]*1 || 4: [2]*1 [3]*1 || 4: [4]*1 [5]*1", {1, -1}, "0.1: 1x2 2x2;"},
    {"3: [0]*1 [1]*1 || 3: [2]*1 [3]*1 || 3: [4]*1 [5]*1", {4, -1}, "2.0: 0x2 1x1;"},
    /* those with less to run take more */
    {"4: [0]*1 [1]*1 || 6: [2]*1 [3]*1 || 2: [4]*1 [5]*1", {1, -1}, "0.1: 2x4;"},
    /* two lost stages of one number share their peers, of several they do not meet */
    {"2: [0]*1 [1]*1 || 2: [2]*1 [3]*1 || 2: [4]*1 [5]*1 || 2: [6]*1 [7]*1", {1, 3, -1},
     "0.1: 2x1 3x1;1.1: 2x1 3x1;"},
    {"2: [0]*1 [1]*1 || 2: [2]*1 [3]*1", {0, 3, -1}, "0.0: 1x2;1.1: 0x2;"},
    /* one device takes its group along */
    {"2: [0,1]*1 [2,3]*1 || 2: [4,5]*1 [6,7]*1", {3, -1}, "0.1: 1x2;"},
    /* other borders, other widths */
    {"2: [0]*1 [1]*2 || 2: [2]*2 [3]*1 || 2: [4]*1 [5]*2", {0, -1}, "0.0: 2x2;"},
    {"2: [0]*1 [1]*2 || 2: [2]*1 [3]*2 || 2: [4,5]*1 [6]*2", {0, -1}, "0.0: 1x2;"},
    {"2: [0]*1 [1]*1 || 2: [2]*1 [3]*1", {1, 3, -1}, NULL},
    {"2: [0]*1 [1]*1 || 2: [2]*1 [3]*1", {-1}, ""},
};

START_TEST(deal)
{
    luo_arena *a = luo_arena_new(0);
    const luo_plan *base = luo_test_plan(a, dealt[_i].line), *p = NULL;
    luo_err err = {0};
    luo_str s = {0};
    const luo_status st =
        luo_plan_reroute(a, base, without(a, base, dealt[_i].lost), &p, &err);
    if (!dealt[_i].deals) {
        ck_assert_int_eq(st, LUO_EINFEASIBLE);
        ck_assert_str_eq(err.text, "no pipeline is left that can run stage 1 of pipeline 0; one is "
                                   "needed.");
        luo_arena_free(a);
        return;
    }
    ck_assert_int_eq(st, LUO_OK);
    ck_assert_int_eq(p == base, dealt[_i].deals[0] == 0);
    for (int32_t i = 0; i < p->npipelines; i++)
        for (int32_t k = 0; k < p->pipelines[i].nstages; k++) {
            const luo_stage *stage = &p->pipelines[i].stages[k];
            for (int32_t r = 0; r < stage->nreroute; r++) {
                if (r == 0) luo_str_addf(&s, "%d.%d:", (int)i, (int)k);
                luo_str_addf(&s, " %dx%d%s", (int)stage->reroute[r].pipeline,
                             (int)stage->reroute[r].micro_batches,
                             r == stage->nreroute - 1 ? ";" : "");
            }
        }
    ck_assert_str_eq(luo_str_get(&s), dealt[_i].deals);
    luo_str_free(&s);
    luo_arena_free(a);
}
END_TEST

/* In turns, however unequal the parts. */
START_TEST(routes)
{
    luo_arena *a = luo_arena_new(0);
    const luo_reroute r[] = {{4, 1}, {2, 3}, {7, 2}};
    const luo_stage st = {.nreroute = 3, .reroute = r};
    const int32_t want[] = {2, 7, 4, 2, 7, 2};
    int32_t got[6];
    ck_assert_int_eq(luo_reroute_stage(a, &st, 6, got, NULL), LUO_OK);
    for (int k = 0; k < 6; k++) ck_assert_int_eq(got[k], want[k]);
    luo_arena_free(a);
}
END_TEST

START_TEST(numbers)
{
    luo_arena *a = luo_arena_new(0);
    const luo_plan *base = luo_test_plan(
        a, "2: [0]*1 [1]*1 || 5: [2]*1 [3]*1 || 3: [4]*1 [5]*1 || 4: [6]*1 [7]*1");
    const luo_plan *p;
    const int lost[] = {1, 4, -1}, first[] = {5, 0, 7, 0};
    ck_assert_int_eq(luo_plan_reroute(a, base, without(a, base, lost), &p, NULL), LUO_OK);
    for (int32_t i = 0; i < 4; i++) {
        ck_assert_int_eq(luo_plan_first_number(base, i), 0);
        ck_assert_int_eq(luo_plan_first_number(p, i), first[i]);
        for (int32_t k = 0; k < p->pipelines[i].micro_batches; k++) {
            int32_t pipeline, micro_batch;
            luo_plan_find_number(p, first[i] ? 3 : i, first[i] + k, &pipeline, &micro_batch);
            ck_assert_int_eq(pipeline, i);
            ck_assert_int_eq(micro_batch, k);
        }
    }
    luo_arena_free(a);
}
END_TEST

/* Written and read again it is the same plan; nothing lost: the hash says nothing of it. */
START_TEST(text)
{
    luo_arena *a = luo_arena_new(0);
    const luo_plan *base = luo_test_plan(a, "4: [0]*1 [1]*1 || 4: [2]*1 [3]*1"), *p;
    luo_plan *again;
    luo_diags diags;
    luo_str s = {0}, canonical = {0};
    luo_diags_init(&diags, a);
    ck_assert_int_eq(luo_plan_reroute(a, base, without(a, base, (const int[]){3, -1}), &p, NULL),
                     LUO_OK);
    luo_plan_canonical(&canonical, base);
    ck_assert_ptr_null(strstr(luo_str_get(&canonical), "reroute"));
    ck_assert(luo_plan_hash(p) != luo_plan_hash(base));
    luo_plan_json(&s, p);
    const luo_source src = {"p.json", luo_str_get(&s), strlen(luo_str_get(&s))};
    ck_assert_int_eq(luo_read_plan_text(a, &src, &again, &diags), LUO_OK);
    ck_assert(luo_plan_hash(again) == luo_plan_hash(p));
    luo_str_free(&s);
    luo_str_free(&canonical);
    luo_arena_free(a);
}
END_TEST

/* ---- programs ---- */

static luo_plan *draw(luo_arena *a, luo_rng *rng)
{
    luo_str line = {0};
    const int pipes = 2 + (int)luo_rng_pick(rng, 3), stages = 1 + (int)luo_rng_pick(rng, 4);
    const int tp = 1 + (int)luo_rng_pick(rng, 2);
    int next = 0, layers[4];
    for (int s = 0; s < stages; s++) layers[s] = 1 + (int)luo_rng_pick(rng, 2);
    for (int p = 0; p < pipes; p++) {
        luo_str_addf(&line, "%s%d:", p ? " || " : "", 1 + (int)luo_rng_pick(rng, 9));
        for (int s = 0; s < stages; s++, next += tp)
            luo_str_addf(&line, " [%d-%d]*%d", next, next + tp - 1, layers[s]);
    }
    luo_plan *plan = luo_test_plan(a, luo_str_get(&line));
    plan->zero = (int32_t)luo_rng_pick(rng, 2);
    plan->schedule = luo_rng_pick(rng, 2) ? LUO_SCHED_ZB_H1 : LUO_SCHED_1F1B;
    plan->sequence_tokens = 64;
    luo_str_free(&line);
    return plan;
}

/* Micro-batches of F and B on a device, as numbers; each once, and no more in flight than the
 * schedule keeps of its own. */
static void count_tasks(const luo_programs *set, const luo_plan *p, const luo_program *x,
                        int32_t *runs)
{
    const luo_role *role = &set->roles[x->role];
    const luo_pipeline *pipe = &p->pipelines[x->pipeline];
    const int32_t kept =
        luo_sched_kept(p->schedule, pipe->nstages, x->stage, pipe->micro_batches, 1);
    int32_t flying = 0;
    for (int32_t t = 0; t < x->ntask; t++) {
        int32_t pipeline, k;
        if (x->tasks[t].micro_batch < 0) continue;
        luo_plan_find_number(p, x->pipeline, x->tasks[t].micro_batch, &pipeline, &k);
        const int32_t phase = role->seg[x->tasks[t].seg].phase;
        flying += phase == LUO_PHASE_F ? 1 : luo_phase_begins_backward(phase) ? -1 : 0;
        ck_assert_int_le(flying, kept);
        runs[(pipeline * 16 + k) * 4 + x->stage] +=
            phase == LUO_PHASE_F ? 1 : phase == LUO_PHASE_BW ? 10000 : 100;
    }
}

/* What a device keeps of micro-batches is no more than with all devices there. */
static void check_memory(luo_arena *a, const luo_plan *base, const luo_programs *set)
{
    const luo_model model = luo_test_llama(base->layers, 32, 48, 4, 64);
    luo_programs *whole;
    luo_memory before, after;
    ck_assert_int_eq(luo_plan_compile(a, base, &model, NULL, NULL, &whole, NULL), LUO_OK);
    for (int32_t i = 0; i < set->n; i++) {
        const int32_t d = set->at[i].device;
        ck_assert_int_eq(luo_program_memory(a, whole, d, &before, NULL), LUO_OK);
        ck_assert_int_eq(luo_program_memory(a, set, d, &after, NULL), LUO_OK);
        ck_assert_msg(after.activations <= before.activations, "device %d, %s: %lld, %lld before",
                      d, luo_sched_name(base->schedule), (long long)after.activations,
                      (long long)before.activations);
    }
}

static void check_programs(luo_arena *a, const luo_plan *p, const luo_plan *base)
{
    const luo_model model = luo_test_llama(p->layers, 32, 48, 4, 64);
    const luo_compile_opts opts = {.check = true};
    luo_programs *set;
    luo_err err = {0};
    int32_t *runs = LUO_NEW_N(a, int32_t, (int64_t)p->npipelines * 16 * 4);
    int32_t *dev, n;
    ck_assert_msg(luo_plan_compile(a, p, &model, NULL, &opts, &set, &err) == LUO_OK, "%s",
                  err.text);
    ck_assert_int_eq(luo_plan_devices(a, p, &dev, &n, NULL), LUO_OK);
    ck_assert_int_eq(set->n, n);
    check_memory(a, base, set);
    for (int32_t i = 0; i < n; i++) {
        ck_assert_int_eq(set->at[i].device, dev[i]);
        count_tasks(set, p, &set->at[i], runs);
    }
    for (int32_t i = 0; i < p->npipelines; i++)
        for (int32_t k = 0; k < p->pipelines[i].micro_batches; k++)
            for (int32_t s = 0; s < p->pipelines[i].nstages; s++) {
                const luo_stage *st = &p->pipelines[i].stages[s];
                const luo_stage *at = st->nreroute
                                          ? &p->pipelines[st->reroute[0].pipeline].stages[s] : st;
                ck_assert_int_eq(runs[(i * 16 + k) * 4 + s],
                                 at->ndev * (luo_sched_splits(p->schedule) ? 10101 : 101));
            }
}

START_TEST(programs)
{
    int rerouted = 0, several = 0;
    LUO_PROP_FOR(seed, 120) {
        luo_arena *a = luo_arena_new(0);
        luo_rng rng = luo_rng_seed(seed);
        const luo_plan *base = draw(a, &rng), *p = NULL;
        int lost[8], n = 0;
        while (n < 6 && (n == 0 || luo_rng_pick(&rng, 2)))
            lost[n++] = (int)luo_rng_pick(&rng, (uint32_t)base->devices);
        lost[n] = -1;
        if (luo_plan_reroute(a, base, without(a, base, lost), &p, NULL) == LUO_OK) {
            luo_plan_finding *at;
            int32_t found;
            ck_assert_msg(luo_plan_check(a, p, NULL, NULL, &at, &found) == LUO_OK, "seed %llu: %s",
                          (unsigned long long)seed, found ? at->text : "");
            check_programs(a, p, base);
            rerouted++;
            several += n > 2;
        }
        luo_arena_free(a);
    }
    printf("%d plans rerouted, %d with more than two devices lost\n", rerouted, several);
    ck_assert_int_gt(rerouted, 20);
}
END_TEST

LUO_SUITE("plan.reroute", LUO_T_N(deal, LUO_ROWS(dealt)), LUO_T(routes), LUO_T(numbers),
          LUO_T(text), LUO_T(programs))
