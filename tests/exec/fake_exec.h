/* fake_exec.h: an executor without numerics: memory, state and switches are the host's,
 * a step only takes the time it is told. So that tests of processes, failures and hangs last as
 * long as they have to and no longer.
 *
 * A task takes FAKE_TASK_S seconds times the pace; all ranks meet at the end, as they do in the
 * norm of the gradients, and there they agree whether the step counts. In step FAKE_HANG_STEP
 * device FAKE_HANG_DEVICE stops for ever. In step FAKE_BREAK_STEP device FAKE_BREAK_DEVICE (-2:
 * each) reports FAKE_BREAK_STATUS in the place of meeting the others, as one does whose
 * communicators were aborted. All are told through the environment. */
#ifndef LUO_TESTS_FAKE_EXEC_H
#define LUO_TESTS_FAKE_EXEC_H
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "exec/clock.h"
#include "exec/rank/rank.h"

struct luo_exec {
    luo_rank_config config;
    luo_exec *host;
    double task_s;
    int32_t hang_device, break_device, break_status;
    int64_t hang_step, break_step;
};

struct luo_job {
    luo_exec *x;
    luo_job *host;
    int32_t id;
    const luo_programs *set;
    const luo_program *program; /* NULL: none on this device */
};

static inline double fake_number(const char *name, double otherwise)
{
    const char *text = getenv(name);
    return text ? strtod(text, NULL) : otherwise;
}

static inline luo_status fake_open(const luo_rank_config *config, luo_exec **out, luo_err *err)
{
    luo_exec *x = calloc(1, sizeof *x);
    if (!x) return luo_err_nomem(err);
    x->config = *config;
    x->task_s = fake_number("FAKE_TASK_S", 0.01);
    x->hang_device = (int32_t)fake_number("FAKE_HANG_DEVICE", -1);
    x->hang_step = (int64_t)fake_number("FAKE_HANG_STEP", 0);
    x->break_device = (int32_t)fake_number("FAKE_BREAK_DEVICE", -1);
    x->break_step = (int64_t)fake_number("FAKE_BREAK_STEP", 0);
    x->break_status = (int32_t)fake_number("FAKE_BREAK_STATUS", LUO_EPEER);
    const luo_status st = luo_host_executor.open(config, &x->host, err);
    if (st == LUO_OK)
        *out = x;
    else
        free(x);
    return st;
}

static inline void fake_close(luo_exec *x)
{
    luo_host_executor.close(x->host);
    free(x);
}

static inline luo_status fake_bind(luo_exec *x, int32_t id, const luo_programs *set,
                                   const luo_recipe *recipe, luo_job **out, luo_err *err)
{
    luo_job *j = calloc(1, sizeof *j);
    if (!j) return luo_err_nomem(err);
    *j = (luo_job){.x = x, .id = id, .set = set};
    j->program = luo_programs_find(set, x->config.device_of[x->config.rank]);
    const luo_status st = luo_host_executor.bind(x->host, id, set, recipe, &j->host, err);
    if (st == LUO_OK)
        *out = j;
    else
        free(j);
    return st;
}

static inline void fake_unbind(luo_job *j)
{
    luo_host_executor.unbind(j->host);
    free(j);
}

static inline luo_state *fake_state(luo_job *j)
{
    return luo_host_executor.state(j->host);
}

static inline double fake_slowdown(const luo_step_order *o, double now)
{
    double f = 1;
    for (int32_t i = 0; i < o->npace && o->pace[i].at_s <= now; i++) f = o->pace[i].slowdown;
    return f;
}

/* Works for so long, at the pace of each moment; false: the step is to be drained. */
static inline bool fake_work(const luo_job *j, const luo_step_order *o, double seconds)
{
    double left = seconds;
    while (left > 0 && !*j->x->config.abort) {
        const double began = luo_clock_s(), f = fake_slowdown(o, began);
        usleep((useconds_t)(1e6 * fmin(left * f, 0.002)));
        left -= (luo_clock_s() - began) / f;
    }
    return !*j->x->config.abort;
}

static inline void fake_tasks(const luo_job *j, const luo_step_order *o, luo_step_report *out)
{
    luo_progress_report *w = j->x->config.where;
    const luo_role *role = &j->set->roles[j->program->role];
    const int32_t device = j->program->device;
    for (int32_t t = 0; t < j->program->ntask; t++) {
        const luo_segment *seg = &role->seg[j->program->tasks[t].seg];
        const double began = luo_clock_s();
        w->task = t;
        w->instr = seg->first;
        while (device == j->x->hang_device && o->step == j->x->hang_step) sleep(1);
        if (!fake_work(j, o, j->x->task_s)) return;
        w->done += seg->n;
        out->compute_s += luo_clock_s() - began;
        out->predicted_s += j->x->task_s;
    }
}

/* The last communication of the program: what stands for the rendezvous at the end. */
static inline int32_t fake_rendezvous(const luo_job *j)
{
    const luo_role *role = &j->set->roles[j->program->role];
    int32_t at = role->ninstr - 1;
    while (at > 0 && role->instr[at].slot < 0) at--;
    return at;
}

static inline bool fake_breaks(const luo_job *j, const luo_step_order *o, luo_step_report *out)
{
    const luo_exec *x = j->x;
    const int32_t device = x->config.device_of[x->config.rank];
    if (o->step != x->break_step || (x->break_device != -2 && x->break_device != device))
        return false;
    out->status = (luo_status)x->break_status;
    snprintf(out->text, sizeof out->text,
             "network error: device %d waits in all_reduce of `x`; all processes have to start "
             "again.",
             device);
    return true;
}

static inline luo_status fake_step(luo_job *j, const luo_step_order *o, luo_step_report *out,
                                   luo_err *err)
{
    luo_progress_report *w = j->x->config.where;
    int drained, any = 0;
    (void)err;
    *out = (luo_step_report){.start_s = luo_clock_s()};
    w->job = j->id;
    if (j->program) fake_tasks(j, o, out);
    if (fake_breaks(j, o, out)) return LUO_OK;
    drained = *j->x->config.abort;
    if (j->program) w->instr = fake_rendezvous(j);
    w->waiting = true;
    MPI_Allreduce(&drained, &any, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    w->waiting = false;
    out->end_s = luo_clock_s();
    out->status = any ? LUO_ECANCELED : LUO_OK;
    out->parts.compute_s = out->compute_s;
    out->parts.bubble_s = out->end_s - out->start_s - out->compute_s;
    out->memory_bytes = 1000 + j->x->config.rank;
    out->has_loss = j->program && !any;
    out->loss = 1.0 / (double)(o->step + 1);
    if (!any) fake_state(j)->step++;
    return LUO_OK;
}

static inline luo_status fake_move(luo_job *from, luo_job *to, const luo_switching *what,
                                   const luo_recipe *recipe, luo_step_report *out, luo_err *err)
{
    return luo_host_executor.move(from->host, to->host, what, recipe, out, err);
}

static inline luo_status fake_gather(luo_exec *x, luo_gather *out)
{
    return luo_host_executor.gather(x->host, out);
}

static const luo_rank_executor fake_executor = {.name = "fake",
                                           .open = fake_open,
                                           .close = fake_close,
                                           .bind = fake_bind,
                                           .unbind = fake_unbind,
                                           .state = fake_state,
                                           .step = fake_step,
                                           .move = fake_move,
                                           .gather = fake_gather};
#endif
