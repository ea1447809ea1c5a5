/* check_exec.c: one rank of the CUDA executor, on the stand-in, beside the host's in
 * f64: what it trains, in which order its streams ever run, captured or not, given up or slowed
 * down. Several ranks: tests/cuda/mpi. */
#include <pthread.h>

#include "core/base/hash.h"
#include "core/run/parts.h"
#include "exec/clock.h"
#include "exec/cuda/executor.h"
#include "tests/mpi/trial.h"
#include "tests/prop/prop.h"
#include "tests/standin/standin.h"

static int checks, failures;

#define EXPECT(cond, ...)                                                                          \
    do {                                                                                           \
        checks++;                                                                                  \
        if (cond) break;                                                                           \
        failures++;                                                                                \
        printf("FAIL %s:%d: ", __FILE__, __LINE__);                                                \
        printf(__VA_ARGS__);                                                                       \
        printf("\n");                                                                              \
        fflush(stdout);                                                                            \
    } while (0)

/* ---- a plan on one executor ---- */

typedef struct run {
    const luo_rank_executor *e;
    luo_exec *x;
    luo_job *job;
    luo_programs *set;
    luo_recipe recipe;
    luo_progress_report where;
} run;

static void need(luo_status st, const char *what, const luo_err *err)
{
    if (st != LUO_OK) luo_lab_die(what, err);
}

static void state_back(run *r, bool contents)
{
    luo_err err = {0};
    if (r->e->store) need(r->e->store(r->job, contents, &err), "store", &err);
}

static const luo_state *state_here(run *r, bool contents)
{
    luo_err err = {0};
    if (r->e->fetch) need(r->e->fetch(r->job, contents, &err), "fetch", &err);
    return r->e->state(r->job);
}

static run *begin(luo_arena *a, luo_lab *lab, const luo_rank_executor *e, const luo_plan *plan,
                  const luo_model *model, luo_dtype dtype)
{
    luo_err err = {0};
    run *r = LUO_NEW(a, run);
    luo_plan *p = LUO_NEW(a, luo_plan);
    const luo_compile_opts opts = {.check = true};
    *p = *plan;
    p->dtype = dtype;
    r->e = e;
    r->recipe = (luo_recipe){.plan = p, .sequence_tokens = p->sequence_tokens};
    const luo_rank_config config = {.nranks = 1,
                                    .device_of = lab->devices,
                                    .model = model,
                                    .cluster = lab->cluster,
                                    .dtype = dtype,
                                    .corpus = lab->corpus,
                                    .where = &r->where,
                                    .abort = &lab->abort};
    r->where.job = -1;
    need(e->open(&config, &r->x, &err), "open", &err);
    need(luo_plan_compile(a, p, model, lab->cluster, &opts, &r->set, &err), "compile", &err);
    need(e->bind(r->x, 3, r->set, &r->recipe, &r->job, &err), "bind", &err);
    luo_state *s = (luo_state *)(uintptr_t)state_here(r, false);
    luo_state_init(s, model, 7);
    state_back(r, true);
    return r;
}

static void end(run *r)
{
    r->e->unbind(r->job);
    r->e->close(r->x);
}

static luo_step_report step_as(run *r, const luo_step_order *order)
{
    luo_err err = {0};
    luo_step_report report = {0};
    need(r->e->step(r->job, order, &report, &err), "step", &err);
    return report;
}

static luo_step_report step(run *r, int64_t step)
{
    static const luo_pace even = {-INFINITY, 1};
    const luo_step_order order = {.step = step,
                                  .quiet = true,
                                  .npace = 1,
                                  .pace = &even,
                                  .withdraw_s = INFINITY,
                                  .kill_s = INFINITY};
    return step_as(r, &order);
}

/* Every bit of the state. */
static uint64_t print_of(run *r)
{
    uint64_t h = LUO_HASH_EMPTY;
    const luo_state *s = state_here(r, true);
    for (int32_t i = 0; i < s->n; i++) {
        const luo_piece *p = &s->at[i];
        if (p->piece.empty) continue;
        h = luo_hash_bytes(h, p->weight, (size_t)p->weight_frame.volume * s->elem);
        h = luo_hash_bytes(h, p->m, (size_t)p->state_frame.volume * s->elem);
        h = luo_hash_bytes(h, p->v, (size_t)p->state_frame.volume * s->elem);
    }
    state_back(r, false);
    return h;
}

/* ---- numbers ---- */

typedef struct reference { /* what the host makes in f64 */
    double loss[STEPS], norm[STEPS];
    double *early, *late; /* state after the first step and after the last: weight, m, v */
} reference;

/* By parameter: weights, first moments, second moments. */
static double *copy_of(luo_arena *a, run *r)
{
    const luo_state *s = state_here(r, true);
    int64_t n = 0, at = 0;
    for (int32_t i = 0; i < s->n; i++) n += 3 * s->at[i].weight_frame.volume;
    double *all = LUO_NEW_N(a, double, n);
    for (int32_t i = 0; i < s->n; i++) {
        const void *from[3] = {s->at[i].weight, s->at[i].m, s->at[i].v};
        for (int k = 0; k < 3; k++)
            for (int64_t c = 0; c < s->at[i].weight_frame.volume; c++)
                all[at++] = luo_real_at(from[k], s->elem, c);
    }
    state_back(r, false);
    return all;
}

/* The steps jump, so that data prepared for a step that does not come is seen to be made anew. */
static const int64_t steps[STEPS] = {0, 1, 4};

static reference by_host(luo_arena *a, luo_lab *lab, const luo_plan *plan, const luo_model *model)
{
    reference ref;
    run *r = begin(a, lab, &luo_host_executor, plan, model, LUO_F64);
    for (int i = 0; i < STEPS; i++) {
        const luo_step_report report = step(r, steps[i]);
        ref.loss[i] = report.loss;
        ref.norm[i] = report.grad_norm;
        if (i == 0) ref.early = copy_of(a, r);
    }
    ref.late = copy_of(a, r);
    end(r);
    return ref;
}

typedef struct bounds {
    double curve, state; /* relative: loss and norm; of the largest of a tensor: m and v */
    double weight;
} bounds;

/* f32 as the several-rank plans of the host (tests/mpi). bf16: its last digit is 2^-9 of a value,
 * and each of some tens of roundings between two sums adds one: measured errors are a third of
 * these bounds. Weights of bf16 are compared by the step that AdamW makes at most. */
static bounds bounds_of(luo_dtype dtype)
{
    if (dtype == LUO_F32) return (bounds){1e-4, 1e-4, 1e-4};
    return (bounds){2e-2, 6e-2, 2 * LUO_LEARNING_RATE * STEPS};
}

static worst compare_states(run *r, const reference *ref, luo_dtype dtype)
{
    const double *late = ref->late, *early = ref->early;
    const luo_state *s = state_here(r, true);
    const bounds bound = bounds_of(dtype);
    worst w = {0, ""};
    for (int32_t i = 0; i < s->n; i++) {
        const luo_piece *p = &s->at[i];
        const int64_t n = p->weight_frame.volume;
        const truth t = truth_of(late, early, n);
        const void *at[3] = {p->weight, p->m, p->v};
        late += 3 * n;
        early += 3 * n;
        for (int k = is_rounding(p->param) ? 3 : 0; k < 3; k++)
            for (int64_t c = 0; c < n; c++) {
                const double x = luo_real_at(at[k], s->elem, c);
                double e = fabs(x - t.at[k][c]) / t.most[k] / bound.state;
                if (k == 0 && dtype == LUO_F32) e = far_weight(&t, c, x, 4) / bound.weight;
                if (k == 0 && dtype == LUO_BF16) e = fabs(x - t.at[k][c]) / bound.weight;
                if (e <= w.error) continue;
                w.error = isnan(e) ? INFINITY : e;
                snprintf(w.name, sizeof w.name, "%s of %s: %.9g, not %.9g",
                         k == 0   ? "weight"
                         : k == 1 ? "m"
                                  : "v",
                         p->param->name, x, t.at[k][c]);
            }
    }
    state_back(r, false);
    return w;
}

static void trains_as_host(luo_lab *lab, const row *at, const luo_model *model, luo_dtype dtype)
{
    luo_arena *a = luo_arena_new(1 << 20);
    const luo_plan *plan = plan_of(a, at, dtype);
    const reference ref = by_host(a, lab, plan, model);
    const bounds bound = bounds_of(dtype);
    run *r = begin(a, lab, &luo_cuda_executor, plan, model, dtype);
    for (int i = 0; i < STEPS; i++) {
        const luo_step_report got = step(r, steps[i]);
        EXPECT(got.status == LUO_OK && got.has_loss, "`%s` %s: step %d: %s", at->line,
               luo_dtype_name(dtype), i, got.text);
        EXPECT(far(got.loss, ref.loss[i]) <= bound.curve &&
                   far(got.grad_norm, ref.norm[i]) <= bound.curve,
               "`%s` %s: step %d: loss %.9g (%.9g), norm %.9g (%.9g)", at->line,
               luo_dtype_name(dtype), i, got.loss, ref.loss[i], got.grad_norm, ref.norm[i]);
    }
    const worst w = compare_states(r, &ref, dtype);
    EXPECT(w.error <= 1, "`%s` %s: %s, %.3g times the bound", at->line, luo_dtype_name(dtype),
           w.name, w.error);
    if (getenv("LUO_VERBOSE"))
        printf("`%s` %s: %.3g of the bound (%s)\n", at->line, luo_dtype_name(dtype), w.error,
               w.name);
    EXPECT(r->e->state(r->job)->step == steps[STEPS - 1] + 1, "steps are counted");
    end(r);
    luo_arena_free(a);
}

static const row plans[] = {
    {.line = "2: [0]*2", .model = LLAMA, .sequences = 1},
    {.line = "2: [0]*2", .model = GPT, .sequences = 1},
    {.line = "1: [0]*1", .model = GROUPED, .recompute = 1, .sequences = 1},
    {.line = "3: [0]*2", .model = LLAMA, .recompute = 2, .tokens = {16, 32, 7}, .sequences = 1},
    {.line = "2: [0]*1", .model = QKNORM, .order = 1, .sequences = 3},
    {.line = "3: [0]*1", .model = GPT, .recompute = 1, .tokens = {5, 40, 5}, .sequences = 1},
    {.line = "3: [0]*2", .model = GPT, .order = 2, .sequences = 1},
    {.line = "3: [0]*2",
     .model = MLP_BIASED,
     .recompute = 2,
     .tokens = {16, 32, 7},
     .sequences = 1},
    {.line = "2: [0]*1", .model = MLP_GATED, .order = 2, .sequences = 2},
};

static void numbers(luo_lab *lab)
{
    for (size_t i = 0; i < sizeof plans / sizeof *plans; i++) {
        const luo_model model =
            model_of(plans[i].model, strchr(plans[i].line, '2') && plans[i].line[7] == '2' ? 2 : 1);
        trains_as_host(lab, &plans[i], &model, LUO_F32);
        trains_as_host(lab, &plans[i], &model, LUO_BF16);
    }
    /* heads of 64: tensor cores */
    const row wide = {.line = "1: [0]*1", .model = LLAMA, .tokens = {40}};
    const luo_model model = luo_test_llama(1, 128, 96, 2, 64);
    trains_as_host(lab, &wide, &model, LUO_BF16);
}

/* ---- the same bits ---- */

typedef struct outcome {
    double loss[4];
    uint64_t print;
} outcome;

static outcome train_bits(luo_lab *lab, const row *at, luo_dtype dtype, const char *graphs)
{
    luo_arena *a = luo_arena_new(1 << 20);
    const luo_plan *plan = plan_of(a, at, dtype);
    const luo_model model = model_of(at->model, plan->layers);
    outcome o;
    if (graphs)
        setenv("LUO_CUDA_GRAPHS", graphs, 1);
    else
        unsetenv("LUO_CUDA_GRAPHS");
    run *r = begin(a, lab, &luo_cuda_executor, plan, &model, dtype);
    for (int i = 0; i < 4; i++) o.loss[i] = step(r, i).loss;
    o.print = print_of(r);
    const char *said = r->e->remark(r->x);
    EXPECT(!said, "a remark: %s", said ? said : "");
    end(r);
    luo_arena_free(a);
    return o;
}

static void same_bits(luo_lab *lab)
{
    const row at = {.line = "2: [0]*1", .model = LLAMA, .recompute = 1, .tokens = {16, 24}};
    const uint64_t first = luo_prop_first(), seeds = 2 * luo_prop_env("LUO_SCALE", 1);
    for (int d = 0; d < 2; d++) {
        const luo_dtype dtype = d ? LUO_BF16 : LUO_F32;
        standin_seed(first);
        const outcome ref = train_bits(lab, &at, dtype, "0");
        for (uint64_t s = first; s < first + seeds; s++) {
            standin_seed(s);
            const outcome got = train_bits(lab, &at, dtype, s % 2 ? "0" : NULL);
            EXPECT(memcmp(&got, &ref, sizeof got) == 0,
                   "%s, order %llu: other bits (loss %.9g, not %.9g)", luo_dtype_name(dtype),
                   (unsigned long long)s, got.loss[3], ref.loss[3]);
        }
    }
}

/* ---- steps that do not count ---- */

typedef struct bell { /* gives a step up after a while, as the listener does */
    luo_lab *lab;
    double after_s;
} bell;

static void *ring(void *ctx)
{
    const bell *b = ctx;
    nanosleep(&(struct timespec){0, (long)(b->after_s * 1e9)}, NULL);
    b->lab->abort = true;
    return NULL;
}

static luo_step_report step_with_bell(luo_lab *lab, run *r, int64_t i, double after_s)
{
    pthread_t thread;
    bell b = {lab, after_s};
    const bool rings = pthread_create(&thread, NULL, ring, &b) == 0;
    const luo_step_report report = step(r, i);
    if (rings) pthread_join(thread, NULL);
    lab->abort = false;
    return report;
}

static void given_up(luo_lab *lab)
{
    luo_arena *a = luo_arena_new(1 << 20);
    const row at = {.line = "2: [0]*1", .model = GPT};
    const luo_plan *plan = plan_of(a, &at, LUO_F32);
    const luo_model model = model_of(at.model, plan->layers);
    run *r = begin(a, lab, &luo_cuda_executor, plan, &model, LUO_F32);
    run *twin = begin(a, lab, &luo_cuda_executor, plan, &model, LUO_F32);
    luo_rng rng = luo_rng_seed(luo_prop_first());
    double step_s = 0;
    for (int i = 0; i < 3; i++) { /* launched, captured, launched again */
        const uint64_t before = print_of(r);
        lab->abort = true;
        const luo_step_report drained = step(r, i);
        lab->abort = false;
        EXPECT(drained.status == LUO_ECANCELED && !drained.has_loss && print_of(r) == before,
               "a drained step left status %s", luo_status_name(drained.status));
        const double late = step_s * (double)luo_rng_pick(&rng, 1000) / 1000;
        const luo_step_report rung = step_with_bell(lab, r, i, late);
        if (rung.status != LUO_OK) {
            EXPECT(rung.status == LUO_ECANCELED && print_of(r) == before, "a step given up");
            EXPECT(step(r, i).status == LUO_OK, "the step after it");
        }
        const luo_step_report plain = step(twin, i);
        step_s = plain.end_s - plain.start_s;
        EXPECT(print_of(r) == print_of(twin), "another state than undisturbed");
    }
    end(r);
    end(twin);
    luo_arena_free(a);
}

static void not_finite(luo_lab *lab)
{
    luo_arena *a = luo_arena_new(1 << 20);
    const row at = {.line = "2: [0]*2", .model = LLAMA};
    const luo_plan *plan = plan_of(a, &at, LUO_BF16);
    const luo_model model = model_of(at.model, plan->layers);
    run *r = begin(a, lab, &luo_cuda_executor, plan, &model, LUO_BF16);
    const luo_state *s = state_here(r, true);
    luo_real_put(s->at[s->n - 1].weight, s->elem, 0, INFINITY);
    state_back(r, true);
    const uint64_t before = print_of(r);
    const luo_step_report got = step(r, 0);
    EXPECT(got.status == LUO_EBACKEND && strstr(got.text, "of step 0 are not finite") &&
               print_of(r) == before && !got.has_loss,
           "%s: %s", luo_status_name(got.status), got.text);
    lab->abort = true;
    EXPECT(step(r, 0).status == LUO_ECANCELED, "drained and not finite");
    lab->abort = false;
    end(r);
    luo_arena_free(a);
}

/* ---- time ---- */

static luo_step_report paced_step(run *r, int64_t i, double slowdown, bool trace)
{
    const luo_pace pace[2] = {{-INFINITY, 1}, {luo_clock_s() - 1, slowdown}};
    const luo_step_order order = {.step = i,
                                  .trace = trace,
                                  .npace = 2,
                                  .pace = pace,
                                  .withdraw_s = INFINITY,
                                  .kill_s = INFINITY};
    return step_as(r, &order);
}

/* What slowdowns add to a step that a slowdown of 5 has made: on a GPU, where launching such short
 * kernels takes longer than they do, the first spins fit into the gaps between them. */
typedef struct added {
    double none_s, full_s, some_s, more_s;
} added;

static added add_slowdowns(run *r, int64_t i)
{
    added a = {.none_s = paced_step(r, i, 1 + 1e-9, false).compute_s,
               .full_s = paced_step(r, i + 1, 5, false).compute_s};
    a.some_s = paced_step(r, i + 2, 9, false).compute_s - a.full_s;
    a.more_s = paced_step(r, i + 3, 17, false).compute_s - a.full_s;
    return a;
}

static bool as_it_should(const added *x)
{
    const double ratio = x->more_s / x->some_s, share = x->some_s / 4 / x->none_s;
    const double first = (x->full_s - x->none_s) / x->some_s;
    if (!standin_is_here())
        return x->some_s > 0 && ratio > 2.2 && ratio < 4 && share > 0.05 && share < 2;
    return fabs(first - 1) < 0.01 && fabs(ratio - 3) < 0.03 && share > 0.5 && share < 1;
}

/* The stand-in's clock counts work: there 4 units of slowdown add the same wherever they stand, 12
 * three times as much, and each the step but for what the clock itself takes. On a GPU something
 * may disturb one try, not ten. */
static void straggler(luo_arena *a, luo_lab *lab, const luo_plan *plan, const luo_model *model)
{
    bool good = false;
    standin_clock_by_work(true);
    run *r = begin(a, lab, &luo_cuda_executor, plan, model, LUO_F32);
    for (int i = 0; i < (standin_is_here() ? 1 : 10) && !good; i++) {
        const added x = add_slowdowns(r, 4 * i);
        good = as_it_should(&x);
        if (good && !getenv("LUO_VERBOSE")) break;
        printf("a step takes %.6f s, with a slowdown of 5 %.6f s, of 9 and 17 %.6f s and %.6f s "
               "more\n",
               x.none_s, x.full_s, x.some_s, x.more_s);
    }
    EXPECT(good, "slowdowns take other times than they should");
    end(r);
    standin_clock_by_work(false);
}

static int by_place(const void *x, const void *y)
{
    const luo_op_record *a = x, *b = y;
    if (a->task != b->task) return a->task < b->task ? -1 : 1;
    return (a->instr > b->instr) - (a->instr < b->instr);
}

/* Steps that nothing disturbs: the second with a trace is captured, as is the second without. */
static luo_step_report captured_trace(run *r, int64_t i)
{
    static const luo_pace pace = {-INFINITY, 1};
    luo_step_order order = {
        .quiet = true, .npace = 1, .pace = &pace, .withdraw_s = INFINITY, .kill_s = INFINITY};
    const int64_t before = standin_count().executables;
    luo_step_report got = {0};
    for (int k = 0; k < 6; k++) {
        order.step = i + k;
        order.trace = k % 2;
        got = step_as(r, &order);
        const int64_t graphs = k < 2 ? 0 : k == 2 ? 1 : 2;
        EXPECT(!standin_is_here() || standin_count().executables == before + graphs,
               "%lld graphs after %d steps", (long long)(standin_count().executables - before),
               k + 1);
    }
    return got;
}

static void records(run *r, bool captured)
{
    const luo_program *p = &r->set->at[0];
    const luo_role *role = &r->set->roles[p->role];
    const int64_t done = r->where.done;
    const luo_step_report got = captured ? captured_trace(r, 31) : paced_step(r, 30, 1, true);
    const double total = got.end_s - got.start_s;
    luo_op_record *at = calloc((size_t)got.nrecords + 1, sizeof *at);
    int32_t n = 0, wrong = 0;
    memcpy(at, got.records, (size_t)got.nrecords * sizeof *at);
    qsort(at, (size_t)got.nrecords, sizeof *at, by_place);
    for (int32_t t = 0; t < p->ntask; t++) {
        const luo_segment *s = &role->seg[p->tasks[t].seg];
        for (int32_t i = s->first; i < s->first + s->n && n < got.nrecords; i++, n++) {
            const luo_op_record *o = &at[n];
            wrong += o->task != t || o->instr != i || o->device != 0;
            wrong += !(o->start_s > -1e-3 && o->start_s <= o->end_s && o->end_s < total + 1e-3);
            wrong += n > 0 && o->start_s < at[n - 1].end_s; /* one stream */
        }
    }
    EXPECT(n == got.nrecords && n > role->ninstr / 2 && wrong == 0, "%d records, %d wrong", n,
           wrong);
    EXPECT(fabs(luo_parts_total(&got.parts) - total) < 1e-9, "parts of %g sum to %g", total,
           luo_parts_total(&got.parts));
    EXPECT(got.parts.compute_s > 0 && got.parts.recompute_s > 0 &&
               fabs(got.parts.compute_s + got.parts.recompute_s - got.compute_s) < 2e-3,
           "computed for %g, parts say %g and %g", got.compute_s, got.parts.compute_s,
           got.parts.recompute_s);
    EXPECT(r->where.done >= done + p->ntask && r->where.job == -1 && !r->where.waiting,
           "passed %lld marks", (long long)(r->where.done - done));
    EXPECT(got.memory_bytes > 0 && got.predicted_s == 0, "memory of a step");
    free(at);
}

static void times(luo_lab *lab)
{
    luo_arena *a = luo_arena_new(1 << 20);
    const row at = {.line = "1: [0]*1", .model = LLAMA, .recompute = 2};
    const luo_plan *plan = plan_of(a, &at, LUO_F32);
    const luo_model model = model_of(at.model, plan->layers);
    straggler(a, lab, plan, &model);
    run *r = begin(a, lab, &luo_cuda_executor, plan, &model, LUO_F32);
    records(r, false);
    records(r, true);
    end(r);
    luo_arena_free(a);
}

/* ---- what fails ---- */

/* The launch that fails while the step is captured spoils the capture, not the step. */
static void no_graph(luo_lab *lab)
{
    if (!standin_is_here()) return;
    luo_arena *a = luo_arena_new(1 << 20);
    const row at = {.line = "2: [0]*2", .model = LLAMA};
    const luo_plan *plan = plan_of(a, &at, LUO_F32);
    const luo_model model = model_of(at.model, plan->layers);
    unsetenv("LUO_CUDA_GRAPHS");
    run *r = begin(a, lab, &luo_cuda_executor, plan, &model, LUO_F32);
    run *twin = begin(a, lab, &luo_cuda_executor, plan, &model, LUO_F32);
    for (int i = 0; i < 3; i++) {
        if (i == 1) standin_fail(STANDIN_LAUNCH, 40);
        EXPECT(step(r, i).status == LUO_OK && step(twin, i).status == LUO_OK, "step %d", i);
    }
    const char *said = r->e->remark(r->x);
    EXPECT(said && strstr(said, "not captured as CUDA graphs"), "no word of the capture");
    EXPECT(!r->e->remark(r->x) && !twin->e->remark(twin->x), "a remark is made once");
    EXPECT(print_of(r) == print_of(twin), "captured and launched steps differ");
    end(r);
    end(twin);
    luo_arena_free(a);
}

/* A kernel that faults loses the device: the step and all later ones say so. */
static void refusals(luo_lab *lab)
{
    luo_err err = {0};
    luo_exec *x = NULL;
    const luo_model model = model_of(LLAMA, 1);
    luo_rank_config config = {.nranks = 1,
                              .device_of = lab->devices,
                              .model = &model,
                              .cluster = lab->cluster,
                              .dtype = LUO_F64,
                              .corpus = lab->corpus};
    EXPECT(luo_cuda_executor.open(&config, &x, &err) == LUO_EUNSUP && strstr(err.text, "f64"),
           "f64: %s", err.text);
}

static void no_memory(luo_lab *lab)
{
    if (!standin_is_here()) return;
    luo_arena *a = luo_arena_new(1 << 20);
    luo_err err = {0};
    const row at = {.line = "2: [0]*2", .model = LLAMA};
    const luo_plan *plan = plan_of(a, &at, LUO_F32);
    const luo_model model = model_of(at.model, plan->layers);
    run *r = begin(a, lab, &luo_cuda_executor, plan, &model, LUO_F32);
    luo_job *job = NULL;
    luo_status st = LUO_EOOM;
    int64_t n = 0;
    for (; st == LUO_EOOM && n < 64; n++) {
        standin_fail(STANDIN_MALLOC, n);
        st = r->e->bind(r->x, 4, r->set, &r->recipe, &job, &err);
    }
    standin_fail(STANDIN_MALLOC, -1);
    EXPECT(st == LUO_OK && n > 5, "%lld allocations failed, then: %s", (long long)n, err.text);
    if (st == LUO_OK) r->e->unbind(job);
    EXPECT(step(r, 0).status == LUO_OK, "the job beside it");
    end(r);
    luo_arena_free(a);
}

static const struct part {
    const char *name;
    void (*check)(luo_lab *lab);
} parts[] = {{"numbers", numbers},       {"same_bits", same_bits}, {"given_up", given_up},
             {"not_finite", not_finite}, {"times", times},         {"no_graph", no_graph},
             {"no_memory", no_memory},   {"refusals", refusals}};

int main(int argc, char **argv)
{
    luo_lab lab;
    const char *only = argc > 1 ? argv[1] : NULL; /* a part's name */
    setvbuf(stdout, NULL, _IOLBF, 0);
    setenv("CUBLASLT_WORKSPACE_SIZE", "16",
           0); /* the stand-in is slow where much memory is in use */
    luo_lab_open(&lab, &argc, &argv);
    const standin_counts before = standin_count();
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        const double began = luo_clock_s();
        if (only && strcmp(only, parts[i].name) != 0) continue;
        parts[i].check(&lab);
        if (getenv("LUO_VERBOSE")) printf("%s: %.1f s\n", parts[i].name, luo_clock_s() - began);
    }
    const standin_counts after = standin_count();
    EXPECT(after.allocations == before.allocations && after.pinned == before.pinned &&
               after.streams == before.streams && after.events == before.events &&
               after.graphs == before.graphs && after.executables == before.executables,
           "left behind: %lld allocations, %lld pinned, %lld streams, %lld events, %lld graphs, "
           "%lld executables",
           (long long)(after.allocations - before.allocations),
           (long long)(after.pinned - before.pinned), (long long)(after.streams - before.streams),
           (long long)(after.events - before.events), (long long)(after.graphs - before.graphs),
           (long long)(after.executables - before.executables));
    printf("%d%%: Checks: %d, Failures: %d, Errors: 0\n", 100 * (checks - failures) / checks,
           checks, failures);
    luo_lab_close(&lab);
    return failures > 0;
}
