/* drain.h: steps that are given up, wherever that falls, and steps whose gradients are
 * not finite: all ranks end alike and state is as before the step, to the bit; staggered: what was
 * updated before the norm was known is taken back. Run by `mpirun -n 8`, on the executor of the
 * lab. */
#ifndef LUO_TESTS_MPI_DRAIN_H
#define LUO_TESTS_MPI_DRAIN_H
#include <pthread.h>
#include <time.h>

#include "core/base/rng.h"
#include "tests/mpi/trial.h"
#include "tests/prop/prop.h"

/* ---- a step that is given up ---- */

/* One rank drains from the first instruction: every rank reports it and keeps its state. */
static inline bool run_drain(luo_lab *lab, int drains, luo_dtype dtype, bool staggered)
{
    luo_arena *a = luo_arena_new(1 << 20);
    const row r = {.line = "3: [0,1]*2 [2]*2 || 3: [3,4]*1 [5]*3", .model = LLAMA, .zero = 1};
    luo_plan *p = plan_of(a, &r, dtype);
    p->staggered = staggered;
    const luo_model model = model_of(r.model, p->layers);
    luo_exec *x = luo_lab_executor(lab, &model, dtype);
    luo_trial t = luo_lab_bind(a, lab, x, p, &model), ref = refer(a, lab, x, p, &model);
    curve c;
    int64_t n;
    luo_trial_init(&t, &model, 5);
    luo_trial_init(&ref, &model, 5);
    train(&ref, &c, 0, 1);
    const double *early = dtype == LUO_F64 ? NULL : spread(a, lab, &ref, &n);
    train(&ref, &c, 1, 1);
    train(&t, &c, 0, 1);
    lab->abort = lab->rank == drains;
    int status = (int)luo_lab_step(&t, 1).status,
        part = luo_programs_find(t.set, lab->rank) != NULL;
    lab->abort = false;
    int wrong = part && status != (int)LUO_ECANCELED, any;
    MPI_Allreduce(&wrong, &any, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    train(&t, &c, 1, 1);
    worst w = compare(a, &t, spread(a, lab, &ref, &n), early);
    if (any) w = (worst){INFINITY, "status of a drained step"};
    const bool good = judge(lab, "drain", r.line, w, bound_of(dtype));
    t.executor->unbind(t.job);
    close_reference(lab, &ref);
    lab->executor->close(x);
    luo_arena_free(a);
    return good;
}

/* ---- .. at any time ---- */

typedef struct bell { /* gives a step up after a while, as the listener does */
    luo_lab *lab;
    double after_s;
} bell;

static inline void *ring(void *ctx)
{
    const bell *b = ctx;
    nanosleep(&(struct timespec){0, (long)(b->after_s * 1e9)}, NULL);
    b->lab->abort = true;
    return NULL;
}

/* Sum over the bits of what this rank keeps. */
static inline uint64_t print_of(const luo_trial *t)
{
    const luo_state *s = luo_trial_take(t, true);
    uint64_t h = 1469598103934665603U;
    for (int32_t i = 0; i < s->n; i++) {
        const luo_piece *p = &s->at[i];
        const unsigned char *at[3] = {p->weight, p->m, p->v};
        const int64_t cells[3] = {p->weight_frame.volume, p->state_frame.volume,
                                  p->state_frame.volume};
        for (int k = 0; k < 3 && !p->piece.empty; k++)
            for (int64_t b = 0; b < cells[k] * (int64_t)s->elem; b++)
                h = (h ^ at[k][b]) * 1099511628211U;
    }
    luo_trial_put(t, false);
    return h;
}

static inline luo_step_report step_with_bell(luo_lab *lab, luo_trial *t, int64_t step,
                                             double after_s)
{
    pthread_t thread;
    bell b = {lab, after_s};
    MPI_Barrier(MPI_COMM_WORLD);
    const bool rings = after_s >= 0 && pthread_create(&thread, NULL, ring, &b) == 0;
    const luo_step_report r = luo_lab_step(t, step);
    if (rings) pthread_join(thread, NULL);
    lab->abort = false;
    return r;
}

/* Some ranks are told to give up at times of their own, or none is. A twin makes the same steps
 * undisturbed. Without ZeRO-1 the weights are not made again in Pre: all their bits count. */
static inline bool run_bells(luo_lab *lab, int cases, luo_dtype dtype, bool staggered,
                             int *given_up)
{
    luo_arena *a = luo_arena_new(1 << 20);
    const row r = {.line = "3: [0,1]*2 [2]*2 || 3: [3,4]*1 [5]*3", .model = GPT};
    luo_plan *p = plan_of(a, &r, dtype);
    p->staggered = staggered;
    const luo_model model = model_of(r.model, p->layers);
    luo_exec *x = luo_lab_executor(lab, &model, dtype);
    luo_trial t = luo_lab_bind(a, lab, x, p, &model), twin = luo_lab_bind(a, lab, x, p, &model);
    luo_rng rng = luo_rng_seed(luo_prop_first() + (uint64_t)lab->rank);
    luo_trial_init(&t, &model, 5);
    luo_trial_init(&twin, &model, 5);
    const bool part = luo_programs_find(t.set, lab->rank) != NULL;
    int wrong = 0, any;
    double step_s = 5e-3;
    for (int k = 0; k < cases; k++) {
        const uint64_t before = print_of(&t);
        const double at_s = step_s * 1.2 * (double)luo_rng_pick(&rng, 1000) / 1000;
        luo_step_report report = step_with_bell(lab, &t, k, luo_rng_pick(&rng, 4) ? -1 : at_s);
        int ok = !part || report.status == LUO_OK, all, one;
        MPI_Allreduce(&ok, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
        ok = part && report.status == LUO_OK;
        MPI_Allreduce(&ok, &one, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
        wrong += all != one; /* all or none */
        *given_up += !all;
        if (!all) {
            wrong += (part && report.status != LUO_ECANCELED) || report.has_loss;
            wrong += print_of(&t) != before;
            report = step_with_bell(lab, &t, k, -1);
        }
        const luo_step_report calm = luo_lab_step(&twin, k);
        wrong += report.status != LUO_OK || print_of(&t) != print_of(&twin);
        wrong += report.has_loss != calm.has_loss || report.loss != calm.loss;
        double took = calm.end_s - calm.start_s;
        MPI_Allreduce(&took, &step_s, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    }
    MPI_Allreduce(&wrong, &any, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    const bool good = judge(lab, "bells", r.line, (worst){any, "ranks that disagree"}, 0);
    t.executor->unbind(t.job);
    twin.executor->unbind(twin.job);
    lab->executor->close(x);
    luo_arena_free(a);
    return good;
}

/* ---- gradients that are not finite ---- */

/* One weight of the last stage is infinite. Without a word of the coordinator every rank says so;
 * when one rank drains, every rank says that the step was given up, whatever arrived there. */
static inline bool run_infinite(luo_lab *lab, luo_dtype dtype, bool staggered)
{
    luo_arena *a = luo_arena_new(1 << 20);
    const row r = {.line = "2: [0,1]*1 [2]*1 || 2: [3]*2", .model = LLAMA};
    luo_plan *p = plan_of(a, &r, dtype);
    p->staggered = staggered;
    const luo_model model = model_of(r.model, p->layers);
    luo_exec *x = luo_lab_executor(lab, &model, dtype);
    luo_trial t = luo_lab_bind(a, lab, x, p, &model);
    luo_state *s = luo_trial_take(&t, false);
    luo_state_init(s, &model, 5);
    for (int32_t i = 0; i < s->n; i++)
        if (strcmp(s->at[i].param->name, "norm.weight") == 0 && !s->at[i].piece.empty)
            luo_real_put(s->at[i].weight, s->elem, 0, INFINITY);
    luo_trial_put(&t, true);
    const bool part = luo_programs_find(t.set, lab->rank) != NULL;
    const uint64_t before = print_of(&t);
    int wrong = 0, any;
    for (int drains = -1; drains < 4; drains++) {
        const luo_status want = drains < 0 ? LUO_EBACKEND : LUO_ECANCELED;
        lab->abort = lab->rank == drains;
        const luo_step_report report = luo_lab_step(&t, 0);
        lab->abort = false;
        wrong += (part && report.status != want) || print_of(&t) != before || report.has_loss;
        MPI_Barrier(MPI_COMM_WORLD);
    }
    MPI_Allreduce(&wrong, &any, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    const bool good = judge(lab, "infinite", r.line, (worst){any, "ranks that disagree"}, 0);
    t.executor->unbind(t.job);
    lab->executor->close(x);
    luo_arena_free(a);
    return good;
}
#endif
