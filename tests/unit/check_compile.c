/* check_compile.c: the fourteen published plans (docs/results-published.md#the-14-published-plans)
 * compiled and proved, and memory from lifetimes against the closed forms of
 * docs/cost-model.md#memory. */
#include "core/io/read/read.h"
#include "tests/check_main.h"
#include "tests/plan_make.h"

/* ---- published plans ---- */

/* Distinct ordered groups that sum gradients of layer weights, and stage groups of more than one
 * device: the communicators of the published plans. -1: not printed there. */
static const struct {
    int32_t plan, split, stages;
} published[] = {{1, 12, 12}, {2, 16, 8},   {3, 16, 8},   {4, 20, 10},  {5, -1, 10},
                 {6, -1, 10}, {7, 24, 6},   {8, 0, 5},    {9, 0, 4},    {10, 0, 4},
                 {11, 24, 12}, {12, 16, 8}, {13, 32, 8},  {14, -1, 6}};

static bool sums_matrix(const luo_programs *set, const luo_instr *i)
{
    const char *name = set->ops[i->op].name;
    const bool sum = i->kind == LUO_INSTR_COLLECTIVE && i->stream == LUO_STREAM_DP &&
                     i->phase == LUO_PHASE_POST;
    return sum && i->layer >= 0 && !strstr(name, ".norm") && strstr(name, ".weight.state");
}

static int32_t count_split(luo_arena *a, const luo_programs *set)
{
    bool *seen = LUO_NEW_N(a, bool, set->ngroups);
    int32_t n = 0;
    for (int32_t d = 0; d < set->n; d++) {
        const luo_role *r = &set->roles[set->at[d].role];
        for (int32_t i = 0; i < r->ninstr; i++) {
            if (!sums_matrix(set, &r->instr[i])) continue;
            const int32_t g = set->at[d].slots[r->instr[i].slot].group;
            if (!seen[g]) n++;
            seen[g] = true;
        }
    }
    return n;
}

static int32_t count_stream(const luo_programs *set, luo_stream stream)
{
    int32_t n = 0;
    for (int32_t g = 0; g < set->ngroups; g++) n += set->groups[g].stream == (int32_t)stream;
    return n;
}

START_TEST(published_plans)
{
    luo_arena *a = luo_arena_new(1 << 16);
    luo_diags diags;
    luo_diags_init(&diags, a);
    luo_plan *plan;
    luo_model *model;
    char path[128];
    snprintf(path, sizeof path, "scenarios/plans/published/plan-%02d.json",
             (int)published[_i].plan);
    ck_assert_int_eq(luo_read_plan(a, path, &plan, NULL, &diags), LUO_OK);
    snprintf(path, sizeof path, "scenarios/models/%s.yaml", plan->model);
    ck_assert_int_eq(luo_read_model(a, path, &model, &diags), LUO_OK);
    for (plan->zero = 0; plan->zero <= 1; plan->zero++) {
        luo_err err = {0};
        luo_programs *set;
        const luo_compile_opts opts = {.check = true, .bucket = {LUO_BUCKET_MIB, true, 0, 0}};
        const luo_status st = luo_plan_compile(a, plan, model, NULL, &opts, &set, &err);
        ck_assert_msg(st == LUO_OK, "plan %d: %s", (int)published[_i].plan, err.text);
        if (published[_i].split >= 0)
            ck_assert_int_eq(count_split(a, set), published[_i].split);
        ck_assert_int_eq(count_stream(set, LUO_STREAM_TP), published[_i].stages);
        ck_assert_int_le(set->nroles, 16); /* structure, not devices */
    }
    luo_arena_free(a);
}
END_TEST

/* ---- memory ---- */

enum { H = 4096, F = 11008, HEADS = 32, V = 32000, T = 4096 };

/* Activations of one layer and micro-batch, docs/cost-model.md#memory (llama, e = 2), plus the
 * statistics of the attention rows (4 bytes per token and head), which the closed form leaves
 * out. */
static double layer_bytes(double t, double kv, bool sequence_parallel)
{
    const double cut = (4 + 4 * kv / HEADS + 8.0 * F / H) / t, rows = 4.0 * T * HEADS / t;
    if (sequence_parallel) return (double)T * H * (8 / t + cut) + rows;
    return (double)T * H * (8 + cut) + rows;
}

static double layer_parameters(double t, double kv)
{
    return ((2.0 + 2 * kv / HEADS) * H * H + 3.0 * H * F) / t + 2.0 * H;
}

static const struct {
    const char *line;
    luo_sched_kind schedule;
    bool whole_sequence; /* no sequence parallelism */
    int32_t kv, device;
    double t, layers, kept; /* of the device's stage: layers of one micro-batch alive at the peak */
} kept_rows[] = {
    {"8: [0-7]*4 [8-15]*4 [16-23]*4 [24-31]*4", LUO_SCHED_1F1B, false, 32, 0, 8, 4, 4 * 4},
    {"8: [0-7]*4 [8-15]*4 [16-23]*4 [24-31]*4", LUO_SCHED_1F1B, true, 32, 0, 8, 4, 4 * 4},
    {"8: [0-7]*4 [8-15]*4 [16-23]*4 [24-31]*4", LUO_SCHED_1F1B, false, 8, 8, 8, 4, 3 * 4},
    {"3: [0-7]*4 [8-15]*4 [16-23]*4 [24-31]*4", LUO_SCHED_1F1B, false, 32, 0, 8, 4, 3 * 4},
    {"6: [0-3]*2 [4-7]*2", LUO_SCHED_GPIPE, false, 32, 0, 4, 2, 6 * 2},
    {"4: [0-3]*1+1 [4-7]*1+1", LUO_SCHED_INTERLEAVED, false, 32, 0, 4, 2, 5 * 1},
};

static void compile(luo_arena *a, const luo_plan *p, int32_t kv, luo_programs **set)
{
    luo_model m = luo_test_llama(p->layers, H, F, HEADS, V);
    luo_err err = {0};
    m.kv_heads = kv;
    const luo_status st = luo_plan_compile(a, p, &m, NULL, NULL, set, &err);
    ck_assert_msg(st == LUO_OK, "%s", err.text);
}

static luo_memory memory_of(luo_arena *a, const luo_programs *set, int32_t device)
{
    luo_memory m;
    luo_err err = {0};
    ck_assert_int_eq(luo_program_memory(a, set, device, &m, &err), LUO_OK);
    ck_assert_int_eq(m.peak,
                     m.weights + m.gradients + m.optimizer + m.activations + m.buffers);
    return m;
}

/* Within 3 %: a peak inside a backward task has already given back part of one micro-batch. */
START_TEST(kept_activations)
{
    luo_arena *a = luo_arena_new(1 << 16);
    luo_plan *p = luo_test_plan(a, kept_rows[_i].line);
    luo_programs *set;
    p->schedule = kept_rows[_i].schedule;
    p->sequence_parallel = !kept_rows[_i].whole_sequence;
    compile(a, p, kept_rows[_i].kv, &set);
    const luo_memory m = memory_of(a, set, kept_rows[_i].device);
    const double t = kept_rows[_i].t;
    const double want = kept_rows[_i].kept *
                        layer_bytes(t, kept_rows[_i].kv, p->sequence_parallel);
    ck_assert_double_eq_tol((double)m.activations, want, 0.03 * want);
    double phi = kept_rows[_i].layers * layer_parameters(t, kept_rows[_i].kv);
    if (kept_rows[_i].device == 0) phi += (double)V * H / t; /* the embedding */
    ck_assert_double_eq_tol((double)m.weights, 2 * phi, 1);
    ck_assert_double_eq_tol((double)m.gradients, 4 * phi, 1);
    ck_assert_double_eq_tol((double)m.optimizer, 12 * phi, 1);
    luo_arena_free(a);
}
END_TEST

/* Full recompute keeps 2*T*h/t a layer; the layer that runs again is work. */
START_TEST(recompute)
{
    luo_arena *a = luo_arena_new(1 << 16);
    luo_plan *p = luo_test_plan(a, "8: [0-7]*8 [8-15]*8");
    luo_programs *set;
    for (int32_t s = 0; s < 2; s++)
        ((luo_stage *)p->pipelines[0].stages)[s].recompute = LUO_RECOMPUTE_FULL;
    compile(a, p, HEADS, &set);
    const luo_memory m = memory_of(a, set, 0);
    const double kept = 2 * 8 * 2.0 * T * H / 8, one = layer_bytes(8, HEADS, true);
    ck_assert_double_eq_tol((double)m.activations, kept, 0.03 * kept);
    ck_assert_double_ge((double)m.buffers, one);
    ck_assert_double_le((double)m.buffers, one + 4.0 * T * H * 2); /* and gathered inputs */
    luo_arena_free(a);
}
END_TEST

/* Selective recompute keeps as much as none: fused attention has no square to throw away. */
START_TEST(selective)
{
    luo_arena *a = luo_arena_new(1 << 16);
    luo_plan *p = luo_test_plan(a, "4: [0,1]*1 [2,3]*1");
    luo_programs *none, *set;
    compile(a, p, HEADS, &none);
    for (int32_t s = 0; s < 2; s++)
        ((luo_stage *)p->pipelines[0].stages)[s].recompute = LUO_RECOMPUTE_SELECTIVE;
    compile(a, p, HEADS, &set);
    const luo_memory m = memory_of(a, none, 0), with = memory_of(a, set, 0);
    ck_assert(memcmp(&m, &with, sizeof m) == 0);
    int32_t marked = 0, backward = 0;
    for (int32_t i = 0; i < set->roles->ninstr; i++) { /* what unfused attention runs again */
        const luo_instr *x = &set->roles->instr[i], *y = &none->roles->instr[i];
        backward += x->cost.kind == LUO_COST_ATTENTION_B;
        marked += x->cost.kind == LUO_COST_ATTENTION_B && (x->cost.a[4] & LUO_ATTENTION_AGAIN);
        ck_assert(x->kind == y->kind && x->op == y->op);
        ck_assert(y->cost.kind != LUO_COST_ATTENTION_B || y->cost.a[4] == LUO_ATTENTION_CAUSAL);
    }
    ck_assert(backward > 0 && marked == backward);
    luo_arena_free(a);
}
END_TEST

/* ZeRO-1: 12 bytes a parameter spread over the replicas, everything else as before. */
START_TEST(zero)
{
    luo_arena *a = luo_arena_new(1 << 16);
    luo_plan *p = luo_test_plan(a, "2: [0,1]*2 || 2: [2,3]*2 || 2: [4,5]*2 || 2: [6,7]*2");
    luo_programs *off, *on;
    compile(a, p, HEADS, &off);
    p->zero = 1;
    compile(a, p, HEADS, &on);
    const luo_memory x = memory_of(a, off, 0), y = memory_of(a, on, 0);
    ck_assert_int_eq(x.weights, y.weights);
    ck_assert_int_eq(x.gradients, y.gradients);
    /* Norm weights are copied inside a stage as well: they are cut in 8, all else in 4. */
    const int64_t norms = 12 * 5 * H;
    ck_assert_int_eq(y.optimizer, (x.optimizer - norms) / 4 + norms / 8);
    luo_arena_free(a);
}
END_TEST

/* the computed vectors, X: layer 0 runs F0 F1 B0 B1 on one pipeline and F0 B0 F1 B1 on the
 * other. */
START_TEST(unequal_borders)
{
    luo_arena *a = luo_arena_new(1 << 16);
    luo_plan *p = luo_test_plan(a, "2: [0]*1 [1]*1 || 2: [2]*2");
    const luo_model m = luo_test_llama(2, H, F, HEADS, V);
    luo_programs *set;
    luo_err err = {0};
    p->zero = 3;
    ck_assert_int_eq(luo_plan_compile(a, p, &m, NULL, NULL, &set, &err), LUO_EINPUT);
    ck_assert_str_eq(err.text, "zero 3: pipelines 0 and 1 have 2 and 1 stages; give equal borders "
                               "or zero 1.");
    p = luo_test_plan(a, "2: [0]*1 [1]*2 || 2: [2]*2 [3]*1");
    const luo_model three = luo_test_llama(3, H, F, HEADS, V);
    p->zero = 3;
    ck_assert_int_eq(luo_plan_compile(a, p, &three, NULL, NULL, &set, &err), LUO_EINPUT);
    ck_assert_str_eq(err.text, "zero 3: layer 1 is on stage 1 of pipeline 0 and stage 0 of "
                               "pipeline 1; give equal borders or shard hybrid.");
    p->sharding = (luo_sharding){.kind = LUO_SHARD_HYBRID, .pipelines = 1};
    compile(a, p, HEADS, &set);
    luo_arena_free(a);
}
END_TEST

/* Calls of device 0 by collective, phase and group; AG in F and B, RS in B, AR in Post. */
static int calls(const luo_programs *set, luo_coll coll, luo_phase phase, int32_t a, int32_t b)
{
    const luo_program *p = &set->at[0];
    const luo_role *r = &set->roles[p->role];
    int n = 0;
    for (int32_t i = 0; i < r->ninstr; i++) {
        const luo_instr *in = &r->instr[i];
        if (in->kind != LUO_INSTR_COLLECTIVE || in->stream != LUO_STREAM_DP) continue;
        const luo_group *g = &set->groups[p->slots[in->slot].group];
        n += in->coll == coll && in->phase == phase && g->n == 2 && g->dev[0] == a &&
             g->dev[1] == b;
    }
    return n;
}

/* Shard hybrid: gathers and scatters inside groups of two pipelines, sums across them once; pieces
 * are halves, not quarters. Without copies it is shard full. */
START_TEST(shard_hybrid)
{
    luo_arena *a = luo_arena_new(1 << 16);
    luo_plan *p = luo_test_plan(a, "2: [0]*2 || 2: [1]*2 || 2: [2]*2 || 2: [3]*2");
    luo_programs *hybrid, *full, *one, *none;
    luo_err err = {0};
    const luo_model m = luo_test_llama(2, H, F, HEADS, V);
    compile(a, p, HEADS, &none);
    p->zero = 3;
    compile(a, p, HEADS, &full);
    p->sharding = (luo_sharding){.kind = LUO_SHARD_HYBRID, .pipelines = 2};
    compile(a, p, HEADS, &hybrid);
    const int units = 2 + 2;
    ck_assert_int_eq(calls(hybrid, LUO_COLL_AG, LUO_PHASE_F, 0, 1), units);
    ck_assert_int_eq(calls(hybrid, LUO_COLL_AG, LUO_PHASE_B, 0, 1), units);
    ck_assert_int_eq(calls(hybrid, LUO_COLL_RS, LUO_PHASE_B, 0, 1), units);
    ck_assert_int_ge(calls(hybrid, LUO_COLL_AR, LUO_PHASE_POST, 0, 2), 1);
    ck_assert_int_eq(calls(hybrid, LUO_COLL_AR, LUO_PHASE_F, 0, 2) +
                         calls(hybrid, LUO_COLL_AR, LUO_PHASE_B, 0, 2), 0);
    ck_assert_int_eq(memory_of(a, hybrid, 0).optimizer, memory_of(a, none, 0).optimizer / 2);
    ck_assert_int_eq(memory_of(a, full, 0).optimizer, memory_of(a, none, 0).optimizer / 4);
    p->sharding.pipelines = 4;
    compile(a, p, HEADS, &one);
    ck_assert_uint_eq(one->hash, full->hash);
    p = luo_test_plan(a, "2: [0]*2 || 2: [1,4]*2 || 2: [2]*2 || 2: [3]*2");
    p->zero = 3;
    p->sharding = (luo_sharding){.kind = LUO_SHARD_HYBRID, .pipelines = 2};
    ck_assert_int_eq(luo_plan_compile(a, p, &m, NULL, NULL, &one, &err), LUO_EINPUT);
    ck_assert_str_eq(err.text, "shard hybrid: stage 0 of pipelines 0 and 1 has other "
                               "tensor-parallel groups; give equal ones or shard full.");
    luo_arena_free(a);
}
END_TEST

/* Logits on the last stage: T*V/t elements in bf16 and in f32. */
START_TEST(logits)
{
    luo_arena *a = luo_arena_new(1 << 16);
    luo_plan *p = luo_test_plan(a, "4: [0,1]*1 [2,3]*1");
    luo_programs *set;
    compile(a, p, HEADS, &set);
    const luo_memory m = memory_of(a, set, 2);
    ck_assert_double_ge((double)(m.activations + m.buffers), (double)T * V / 2 * 6);
    luo_arena_free(a);
}
END_TEST

START_TEST(unknown_device)
{
    luo_arena *a = luo_arena_new(1 << 16);
    luo_plan *p = luo_test_plan(a, "1: [0]*1");
    luo_programs *set;
    luo_memory m;
    luo_err err = {0};
    compile(a, p, HEADS, &set);
    ck_assert_int_eq(luo_program_memory(a, set, 9, &m, &err), LUO_EINPUT);
    ck_assert_str_eq(err.text, "device 9 has no program; name a device of the plan.");
    luo_arena_free(a);
}
END_TEST

/* Told to stop: the next part of the way is not begun. */
START_TEST(interrupted)
{
    luo_arena *a = luo_arena_new(1 << 16);
    luo_diags diags;
    luo_diags_init(&diags, a);
    luo_plan *plan;
    luo_model *model;
    luo_programs *set;
    luo_err err = {0};
    const volatile int stop = 1;
    const luo_compile_opts opts = {.interrupted = &stop};
    static const char *const path = "scenarios/plans/published/plan-01.json";
    ck_assert_int_eq(luo_read_plan(a, path, &plan, NULL, &diags), LUO_OK);
    ck_assert_int_eq(luo_read_model(a, "scenarios/models/llama-32b.yaml", &model, &diags), LUO_OK);
    ck_assert_int_eq(luo_plan_compile(a, plan, model, NULL, &opts, &set, &err), LUO_ECANCELED);
    ck_assert_ptr_nonnull(strstr(err.text, "was interrupted"));
    luo_arena_free(a);
}
END_TEST

/* All devices of the plan have a number higher by `by`. */
static void move_devices(luo_plan *plan, int32_t by)
{
    for (int32_t i = 0; i < plan->npipelines; i++)
        for (int32_t s = 0; s < plan->pipelines[i].nstages; s++) {
            const luo_stage *stage = &plan->pipelines[i].stages[s];
            for (int32_t k = 0; k < stage->ndev; k++) ((int32_t *)stage->dev)[k] += by;
        }
}

/* Programs that passed pass again on other devices, and no others. */
START_TEST(checked)
{
    luo_arena *a = luo_arena_new(1 << 16);
    luo_diags diags;
    luo_diags_init(&diags, a);
    luo_plan *plan;
    luo_model *model;
    luo_programs *set, *moved, *other;
    luo_err err = {0};
    luo_map passed = {0};
    const luo_compile_opts opts = {.check = true, .checked = &passed};
    static const char *const path = "scenarios/plans/published/plan-01.json";
    ck_assert_int_eq(luo_read_plan(a, path, &plan, NULL, &diags), LUO_OK);
    ck_assert_int_eq(luo_read_model(a, "scenarios/models/llama-32b.yaml", &model, &diags), LUO_OK);
    ck_assert_int_eq(luo_plan_compile(a, plan, model, NULL, &opts, &set, &err), LUO_OK);
    ck_assert_uint_eq(passed.n, 1);
    move_devices(plan, 3);
    ck_assert_int_eq(luo_plan_compile(a, plan, model, NULL, &opts, &moved, &err), LUO_OK);
    ck_assert_uint_eq(passed.n, 1);
    ck_assert(set->hash != moved->hash);
    ck_assert_int_eq(set->at[0].device + 3, moved->at[0].device);
    plan->zero = plan->zero ? 0 : 1;
    ck_assert_int_eq(luo_plan_compile(a, plan, model, NULL, &opts, &other, &err), LUO_OK);
    ck_assert_uint_eq(passed.n, 2);
    luo_map_free(&passed);
    luo_arena_free(a);
}
END_TEST

LUO_SUITE("compile", LUO_T(interrupted), LUO_T(checked),
          LUO_T_N(published_plans, LUO_ROWS(published)),
          LUO_T_N(kept_activations, LUO_ROWS(kept_rows)), LUO_T(recompute), LUO_T(selective),
          LUO_T(zero), LUO_T(unequal_borders),
          LUO_T(shard_hybrid), LUO_T(logits), LUO_T(unknown_device))
