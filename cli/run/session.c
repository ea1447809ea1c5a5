#include "cli/run/session.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "cli/folder.h"
#include "cli/run/child.h"
#include "cli/run/finish.h"
#include "cli/run/progress.h"
#include "core/io/files.h"
#include "core/io/result/rundir.h"
#include "core/run/jobs/jobs.h"
#include "core/run/policy/policy.h"

/* By which this process was told to end; 0: by none. */
static int got_signal(void)
{
    return *luo_process_asked();
}

typedef struct workers {
    luo_cli *cli;
    const luo_session *s;
    luo_child_slot *slot; /* shared with the children */
    luo_process *process;
    luo_progress *progress; /* per policy; a line on a terminal is of the first alone */
    int32_t n, started, running;
    bool timed_out;
    int stopped; /* signal by which a child alone was told to end; 0: none */
} workers;

/* ---- the folder ---- */

typedef struct beginning {
    luo_cli *cli;
    const luo_session *s;
} beginning;

static luo_status begin_all(void *ctx, const char *dir, luo_err *err)
{
    const beginning *b = ctx;
    for (int32_t i = 0; i < b->s->scenario->npolicies; i++)
        LUO_TRY(luo_child_begin(b->cli, b->s, i, dir, err));
    return LUO_OK;
}

/* With results of an earlier run in it: the new set takes their place, and they wait in DIR/.old.
 */
static luo_status replace(luo_cli *cli, const luo_session *session, luo_set *set, luo_err *err)
{
    const luo_exec_options none = {0}, *options = session->exec ? session->exec : &none;
    const char **read = LUO_NEW_N(cli->arena, const char *, session->ninputs + 3);
    int32_t n = 0;
    if (!read) return luo_err_nomem(err);
    for (int32_t i = 0; i < session->ninputs; i++) read[n++] = session->inputs[i];
    read[n++] = options->hostfile;
    read[n++] = options->data;
    read[n++] = options->load;
    beginning b = {cli, session};
    const luo_set_new how = {
        .begin = begin_all, .ctx = &b, .nread = n, .read = read, .keep = options->resume};
    return luo_set_replace(set, &how, err);
}

static luo_status open_folder(luo_cli *cli, const luo_session *session, luo_set *set, luo_err *err)
{
    if (!set->dir) LUO_TRY(luo_set_open(set, session->dir, session->force, err));
    for (int32_t i = 0; i < session->scenario->npolicies; i++)
        LUO_TRY(luo_set_label(set, session->scenario->policies[i].label, err));
    return luo_set_old(set) ? replace(cli, session, set, err) : LUO_OK;
}

/* ---- the processes ---- */

static void start_next(workers *f)
{
    const int32_t i = f->started++;
    fflush(stdout);
    fflush(stderr);
    int why;
    const luo_status st = luo_child_start(f->cli, f->s, i, &f->slot[i], &f->process[i], &why);
    if (st == LUO_OK)
        f->running++;
    else if (f->slot[i].status == LUO_OK)
        f->slot[i].status = luo_err_set(&f->slot[i].err, st,
                                        "no process can be started: %s; free some.", strerror(why));
}

/* A policy that hears nothing, as one that was stopped, is killed: it must not keep this one. */
static void end_children(workers *f)
{
    const int sig = got_signal() ? got_signal() : SIGTERM;
    for (int32_t i = 0; i < f->started; i++) luo_process_urge(&f->process[i], sig);
}

static void show(workers *f, int32_t i, bool over)
{
    const luo_child_slot *slot = &f->slot[i];
    const luo_scenario *scenario = f->s->scenario;
    const luo_progress_of_run run = {.policy = scenario->policies[i].label,
                                     .seed = scenario->seed,
                                     .step = slot->step,
                                     .steps = scenario->steps,
                                     .t_s = slot->t_s,
                                     .duration_s = scenario->duration_s,
                                     .events = slot->events,
                                     .over = over};
    luo_progress_run(&f->progress[f->progress->json >= 0 ? i : 0], &run);
}

/* Has one ended? */
static bool look(workers *f)
{
    for (int32_t i = 0; i < f->started; i++) {
        luo_process *process = &f->process[i];
        if (!process->pid || !luo_process_wait(process, 0)) continue;
        f->running--;
        luo_child_ended(f->cli, f->s, i, process, &f->slot[i]);
        if (f->progress->json >= 0) show(f, i, true);
        if (f->slot[i].stopped) f->stopped = f->slot[i].stopped;
        return true;
    }
    return false;
}

static void wait_all(workers *f, int cores)
{
    for (int32_t i = 0; i < f->n; i++) f->progress[i] = luo_progress_new(f->cli);
    const double begin = luo_cli_wall_s();
    while (f->running || (f->started < f->n && !got_signal() && !f->timed_out)) {
        while (f->started < f->n && f->running < cores && !got_signal() && !f->timed_out)
            start_next(f);
        if (look(f)) continue;
        if (f->s->limit_s > 0 && luo_cli_wall_s() - begin > f->s->limit_s) f->timed_out = true;
        if (got_signal()) luo_process_closing();
        if (got_signal() || f->timed_out) end_children(f);
        for (int32_t i = 0; i < f->n; i++)
            if (f->process[i].pid > 0) show(f, i, false);
        nanosleep(&(struct timespec){0, 2000000}, NULL);
    }
    /* Policies may have ended of a signal before this one looked; what is left is written. */
    if (got_signal() || f->timed_out) luo_process_closing();
    luo_progress_erase(f->progress);
}

static luo_status worst(workers *f)
{
    luo_status st = LUO_OK;
    for (int32_t i = 0; i < f->started; i++) {
        const luo_child_slot *slot = &f->slot[i];
        for (int32_t k = 0; k < slot->nnotes; k++)
            luo_cli_note(f->cli, LUO_WARNING, "%s", slot->note[k]);
        if (slot->status == LUO_OK) continue;
        if (slot->status == LUO_ENO) { /* a result, told in the table; not a fault of the input */
            luo_cli_note(f->cli, LUO_WARNING, "%s", slot->err.text);
            if (st == LUO_OK) st = LUO_ENO;
            continue;
        }
        luo_diag *before = f->cli->diags.last;
        luo_cli_fail(f->cli, slot->status, &slot->err);
        if (f->cli->diags.last != before && f->n > 1 && f->cli->diags.last)
            luo_err_prefix(&f->cli->diags.last->err, slot->status, "policy `%s`",
                           f->s->scenario->policies[i].label);
        if (luo_status_exit(slot->status) >= luo_status_exit(st)) st = slot->status;
    }
    if (f->timed_out)
        st = luo_cli_error(f->cli, LUO_ETIMEOUT,
                           "--limit-s %g is over; the rows written so far "
                           "are in `%s`.",
                           f->s->limit_s, f->s->dir);
    return st;
}

static luo_status open_workers(luo_cli *cli, const luo_session *session, workers *f)
{
    const int32_t n = session->scenario->npolicies;
    *f = (workers){.cli = cli, .s = session, .n = n};
    f->process = LUO_NEW_N(cli->arena, luo_process, n);
    f->progress = LUO_NEW_N(cli->arena, luo_progress, n);
    void *slot = mmap(NULL, (size_t)n * sizeof *f->slot, PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (slot != MAP_FAILED) f->slot = slot;
    if (!f->process || !f->progress || !f->slot)
        return luo_cli_error(cli, LUO_ENOMEM, "%s.", luo_status_text(LUO_ENOMEM));
    return LUO_OK;
}

/* What the processes of policies could not say themselves: killed, or never started. */
static luo_status tell_manifests(workers *f, luo_err *err)
{
    for (int32_t i = 0; i < f->n; i++) {
        const luo_child_slot *slot = &f->slot[i];
        const char *dir = luo_child_dir(f->cli, f->s, i);
        const bool failed = slot->status != LUO_OK;
        const int sig = got_signal() ? got_signal() : slot->stopped;
        if (!dir) return luo_err_nomem(err);
        LUO_TRY(luo_rundir_ended(dir, failed ? LUO_FAILED : LUO_INTERRUPTED,
                                 failed ? luo_status_exit(slot->status) : 128 + sig,
                                 failed ? slot->err.text : "It was stopped before it ended.", err));
    }
    return LUO_OK;
}

static luo_status run_all(luo_cli *cli, workers *f, bool *whole)
{
    luo_err err = {0};
    luo_process_catch();
    const long cores = sysconf(_SC_NPROCESSORS_ONLN);
    wait_all(f, f->s->at_once > 0 ? f->s->at_once : cores > 1 ? (int)cores : 1);
    luo_status st = worst(f);
    luo_cli_flush(cli);
    luo_status last = tell_manifests(f, &err);
    if (st == LUO_OK) last = luo_cli_fail(cli, last, &err); /* else why it failed has been told */
    if (last == LUO_OK) last = luo_finish_session(cli, f->s, f->slot, got_signal() != 0, whole);
    if (luo_status_exit(last) > luo_status_exit(st)) st = last;
    *whole &= !got_signal() && !f->timed_out;
    return st;
}

/* A plan that is given and that a policy cannot work on is told before others have run for long;
 * plans that are made are made for their policy. */
static luo_status check_given(luo_cli *cli, const luo_session *session)
{
    luo_status worst = LUO_OK;
    luo_err jobs = {0};
    if (session->scenario->njobs > 0)
        LUO_TRY(luo_cli_fail(cli, luo_jobs_accepts(&session->run, &jobs), &jobs));
    for (int32_t i = 0; i < session->scenario->npolicies; i++) {
        luo_err err = {0};
        const luo_policy_spec *spec = &session->scenario->policies[i];
        const luo_plan *plan = spec->plan      ? spec->plan
                               : spec->planner ? NULL
                                               : session->scenario->plan;
        if (!plan) continue;
        const luo_status st = luo_policy_accepts(session->scenario, spec, plan, &err);
        if (session->scenario->npolicies > 1) luo_err_prefix(&err, st, "policy `%s`", spec->label);
        luo_cli_fail(cli, st, &err);
        if (luo_status_exit(st) > luo_status_exit(worst)) worst = st;
    }
    return worst;
}

luo_status luo_session_run(luo_cli *cli, const luo_session *session)
{
    workers f = {0};
    luo_set own = {0}, *set = session->set ? session->set : &own;
    luo_err err = {0};
    bool whole = false;
    luo_status st = check_given(cli, session);
    if (st == LUO_OK) st = luo_cli_fail(cli, open_folder(cli, session, set, &err), &err);
    if (st == LUO_OK) st = open_workers(cli, session, &f);
    if (st == LUO_OK) st = run_all(cli, &f, &whole);
    const luo_folder_end end = whole ? LUO_FOLDER_WHOLE : LUO_FOLDER_PART;
    const luo_status closed = luo_cli_fail(cli, luo_folder_give(cli, set, end, &err), &err);
    if (st == LUO_OK) st = closed;
    const int sig = got_signal() ? got_signal() : !f.slot || f.timed_out ? 0 : f.stopped;
    if (f.slot) munmap(f.slot, (size_t)f.n * sizeof *f.slot);
    if (sig) {
        luo_cli_flush(cli);
        exit(128 + sig);
    }
    luo_process_let();
    return st;
}
