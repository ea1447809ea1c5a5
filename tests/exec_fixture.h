/* exec_fixture.h: plans run on an executor inside one test program: one rank alone, or the
 * ranks that mpirun started. The coordinator has no part in it. */
#ifndef LUO_TESTS_EXEC_FIXTURE_H
#define LUO_TESTS_EXEC_FIXTURE_H
#include <math.h>
#include <mpi.h>
#include <string.h>

#include "core/io/read/read.h"
#include "exec/rank/rank.h"
#include "tests/plan_make.h"

void openblas_set_num_threads(int n);

typedef struct luo_lab { /* one process */
    const luo_rank_executor *executor; /* that binds plans: host, unless the program says so */
    luo_arena *arena;
    int32_t rank, nranks;
    int32_t *devices;
    luo_cluster *cluster;
    luo_corpus *corpus;
    _Atomic bool abort;
    int opened;        /* executors */
    bool calls_beside; /* of executors on GPUs, which read it once a process; else every second */
    bool beside;       /* of the executor that was opened last */
} luo_lab;

typedef struct luo_trial { /* a plan bound to an executor */
    const luo_rank_executor *executor;
    luo_exec *x;
    luo_job *job;
    luo_programs *set;
    luo_recipe *recipe;
    bool beside; /* its calls run beside tasks */
} luo_trial;

static inline void luo_lab_die(const char *what, const luo_err *err)
{
    fprintf(stderr, "%s: %s\n", what, err->text);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

/* Of sanitized builds; see exec/rank/boot.c: leaks of MPI_Init are Open MPI's, ours are looked for
 * before it unloads its parts. */
extern void __lsan_disable(void) __attribute__((weak));
extern void __lsan_enable(void) __attribute__((weak));
extern void __lsan_do_leak_check(void) __attribute__((weak));

/* Ends the program where there are fewer ranks. */
static inline void luo_lab_need(const luo_lab *lab, const char *what, int ranks)
{
    luo_err e = {0};
    if (lab->nranks >= ranks) return;
    luo_err_set(&e, LUO_EINPUT, "%d ranks are needed", ranks);
    luo_lab_die(what, &e);
}

static inline void luo_lab_open(luo_lab *lab, int *argc, char ***argv)
{
    int rank, n, level;
    luo_err err = {0};
    luo_diags diags;
    if (__lsan_disable) __lsan_disable();
    MPI_Init_thread(argc, argv, MPI_THREAD_FUNNELED, &level);
    if (__lsan_enable) __lsan_enable();
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &n);
    openblas_set_num_threads(1);
    *lab = (luo_lab){.executor = &luo_host_executor,
                     .arena = luo_arena_new(1 << 20),
                     .rank = rank,
                     .nranks = n};
    lab->devices = LUO_NEW_N(lab->arena, int32_t, n);
    for (int32_t i = 0; i < n; i++) lab->devices[i] = i;
    luo_diags_init(&diags, lab->arena);
    if (luo_read_cluster(lab->arena, "scenarios/clusters/tiny8.yaml", &lab->cluster, &diags) !=
        LUO_OK)
        luo_lab_die("cluster", &diags.first->err);
    if (luo_corpus_open(NULL, 64, 7, &lab->corpus, &err) != LUO_OK) luo_lab_die("corpus", &err);
}

static inline void luo_lab_close(luo_lab *lab)
{
    luo_corpus_close(lab->corpus);
    luo_arena_free(lab->arena);
    if (__lsan_do_leak_check) __lsan_do_leak_check();
    MPI_Finalize();
}

static inline luo_exec *luo_lab_executor(luo_lab *lab, const luo_model *model, luo_dtype dtype)
{
    luo_err err = {0};
    luo_exec *x = NULL;
    lab->beside =
        lab->executor == &luo_host_executor ? lab->opened++ % 2 > 0 : lab->calls_beside;
    const luo_rank_config config = {.rank = lab->rank,
                                    .nranks = lab->nranks,
                                    .device_of = lab->devices,
                                    .share_gpus = true,
                                    .model = model,
                                    .cluster = lab->cluster,
                                    .dtype = dtype,
                                    .corpus = lab->corpus,
                                    .abort = &lab->abort,
                                    .calls_beside = lab->beside};
    if (lab->executor->open(&config, &x, &err) != LUO_OK) luo_lab_die("open", &err);
    return x;
}

static inline luo_trial luo_lab_bind(luo_arena *a, luo_lab *lab, luo_exec *x, const luo_plan *plan,
                                     const luo_model *model)
{
    luo_err err = {0};
    luo_trial t = {.executor = lab->executor, .x = x, .recipe = LUO_NEW(a, luo_recipe),
                   .beside = lab->beside};
    const luo_compile_opts opts = {.check = true};
    *t.recipe = (luo_recipe){.plan = plan, .sequence_tokens = plan->sequence_tokens};
    if (luo_plan_compile(a, plan, model, lab->cluster, &opts, &t.set, &err) != LUO_OK)
        luo_lab_die("compile", &err);
    if (t.executor->bind(x, 0, t.set, t.recipe, &t.job, &err) != LUO_OK)
        luo_lab_die("bind", &err);
    return t;
}

static inline luo_step_report luo_lab_part_traced(luo_trial *t, int64_t step,
                                                  const luo_step_part *part, bool trace)
{
    static const luo_pace even = {-INFINITY, 1};
    luo_err err = {0};
    luo_step_report r = {0};
    const luo_step_order order = {.step = step,
                                  .part = *part,
                                  .quiet = true,
                                  .trace = trace,
                                  .npace = 1,
                                  .pace = &even,
                                  .withdraw_s = INFINITY,
                                  .kill_s = INFINITY};
    if (t->executor->step(t->job, &order, &r, &err) != LUO_OK) luo_lab_die("step", &err);
    return r;
}

static inline luo_step_report luo_lab_part(luo_trial *t, int64_t step, const luo_step_part *part)
{
    return luo_lab_part_traced(t, step, part, false);
}

static inline luo_step_report luo_lab_step(luo_trial *t, int64_t step)
{
    const luo_step_part whole = {0};
    return luo_lab_part(t, step, &whole);
}

/* The state of a trial, with its arrays; contents: those of the executor, else any. They are there
 * until luo_trial_put. */
static inline luo_state *luo_trial_take(const luo_trial *t, bool contents)
{
    luo_err err = {0};
    if (t->executor->fetch && t->executor->fetch(t->job, contents, &err) != LUO_OK)
        luo_lab_die("fetch", &err);
    return t->executor->state(t->job);
}

static inline void luo_trial_put(const luo_trial *t, bool contents)
{
    luo_err err = {0};
    if (t->executor->store && t->executor->store(t->job, contents, &err) != LUO_OK)
        luo_lab_die("store", &err);
}

static inline void luo_trial_init(const luo_trial *t, const luo_model *model, uint64_t seed)
{
    luo_state_init(luo_trial_take(t, false), model, seed);
    luo_trial_put(t, true);
}

static inline double luo_real_at(const void *array, size_t elem, int64_t i)
{
    return elem == 4 ? (double)((const float *)array)[i] : ((const double *)array)[i];
}

static inline void luo_real_put(void *array, size_t elem, int64_t i, double v)
{
    if (elem == 4)
        ((float *)array)[i] = (float)v;
    else
        ((double *)array)[i] = v;
}
#endif
