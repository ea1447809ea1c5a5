#include "cli/run/child.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli/build_info.h"
#include "cli/machine.h"
#include "cli/run/child_memory.h"
#include "cli/run/progress.h"
#include "core/io/io.h"
#include "core/io/libraries.h"
#include "core/io/result/rundir.h"
#include "exec/state/checkpoint.h"

const char *luo_child_dir(luo_cli *cli, const luo_session *session, int32_t index)
{
    return luo_arena_printf(cli->arena, "%s/%s", session->dir,
                            session->scenario->policies[index].label);
}

/* Of a policy of a real run. */
static const char *checkpoints_of(luo_cli *cli, const luo_session *session, int32_t index)
{
    const char *dir = luo_child_dir(cli, session, index);
    return dir ? luo_arena_printf(cli->arena, "%s/checkpoints", dir) : NULL;
}

/* Are its checkpoints in memory while it runs? */
static bool in_memory(const luo_session *session)
{
    return session->exec && session->scenario->checkpoint.target == LUO_TARGET_PEER;
}

static double wall(void *ctx)
{
    (void)ctx;
    return luo_cli_wall_s();
}

static void progress(void *ctx, int64_t step, int64_t steps, double t_s, int32_t events)
{
    luo_child_slot *slot = ctx;
    slot->step = step;
    slot->steps = steps;
    slot->t_s = t_s;
    slot->events = events;
}

static luo_run_state state_of(luo_status st)
{
    if (*luo_process_asked() && (st == LUO_OK || st == LUO_ECANCELED)) return LUO_INTERRUPTED;
    return luo_run_state_of(st);
}

/* What a policy of a real run has for itself: its checkpoints, and the words of its ranks. */
static luo_status own_options(luo_cli *cli, const luo_session *session, int32_t index,
                              const char *dir, const luo_scratch *memory, luo_exec_options *out,
                              luo_run_opts *how, luo_err *err)
{
    *out = *session->exec;
    how->checkpoints = checkpoints_of(cli, session, index);
    out->checkpoints = in_memory(session) ? memory->path : how->checkpoints;
    out->log = luo_arena_printf(cli->arena, "%s/ranks.log", dir);
    if (!out->checkpoints || !out->log) return luo_err_nomem(err);
    how->options = out;
    return LUO_OK;
}

static void wall_start(char *text, size_t size)
{
    const time_t now = time(NULL);
    struct tm utc;
    strftime(text, size, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &utc));
}

enum { FACTS = 4 + LUO_MACHINE_FACTS + LUO_MACHINE_GPU_FACTS };

/* told is filled later, when ranks have been set up, and written at the end of the run. */
static luo_status list_facts(luo_cli *cli, const luo_session *session, const char *start,
                             const luo_device_info *device_info, luo_fact out[FACTS], int32_t *n,
                             luo_err *err)
{
    out[(*n)++] = (luo_fact){"git_commit", luo_build_git};
    out[(*n)++] = (luo_fact){"build_flags", luo_build_flags};
    out[(*n)++] = (luo_fact){"compiler", luo_build_compiler};
    out[(*n)++] = (luo_fact){"wall_start", start};
    if (!session->exec) return LUO_OK;
    LUO_TRY(luo_machine_facts(cli->arena, session->exec, out + *n, err));
    *n += LUO_MACHINE_FACTS;
    if (!session->exec->gpus) return LUO_OK;
    luo_machine_gpu_facts(device_info, out + *n);
    *n += LUO_MACHINE_GPU_FACTS;
    return LUO_OK;
}

typedef struct words { /* what the manifest of a run says */
    char start[32], backend[256];
    luo_fact facts[FACTS], libraries[2];
    luo_rundir_opts opts;
} words;

/* w must stay where it is: its parts point to each other. */
static luo_status find_words(luo_cli *cli, const luo_session *session, int32_t index,
                             const luo_device_info *device_info, words *w, luo_err *err)
{
    int32_t nfacts = 0;
    wall_start(w->start, sizeof w->start);
    LUO_TRY(list_facts(cli, session, w->start, device_info, w->facts, &nfacts, err));
    session->run.backend->describe(w->backend, sizeof w->backend);
    w->libraries[0] = (luo_fact){"backend", w->backend};
    w->libraries[1] = (luo_fact){"files", luo_io_libraries};
    const bool chosen = session->run.trace.kind == LUO_TRACE_AUTO; /* which steps, by us */
    const int64_t share = LUO_TRACE_OPS / session->scenario->npolicies;
    w->opts = (luo_rundir_opts){.scenario = session->scenario,
                                .policy = session->scenario->policies[index].label,
                                .backend = session->run.backend->name,
                                .version = LUO_VERSION,
                                .nfacts = nfacts,
                                .facts = w->facts,
                                .nlibraries = 2,
                                .libraries = w->libraries,
                                .argc = cli->argc,
                                .argv = (const char *const *)cli->argv,
                                .ninputs = session->ninputs,
                                .inputs = session->inputs,
                                .noverrides = session->noverrides,
                                .overrides = session->overrides,
                                .keep_programs = session->keep_programs,
                                .ops_limit = chosen ? LUO_TRACE_OPS : 0,
                                .ops_whole = chosen ? LUO_TRACE_WHOLE : 0,
                                .ops_first = share > LUO_TRACE_WHOLE ? share : LUO_TRACE_WHOLE,
                                .trace_limit = chosen ? 4 * LUO_TRACE_OPS : 0,
                                .wall_s = wall};
    return LUO_OK;
}

luo_status luo_child_begin(luo_cli *cli, const luo_session *session, int32_t index, const char *dir,
                           luo_err *err)
{
    words w;
    luo_device_info device_info = {0};
    luo_rundir *rundir;
    const char *at =
        luo_arena_printf(cli->arena, "%s/%s", dir, session->scenario->policies[index].label);
    if (!at) return luo_err_nomem(err);
    LUO_TRY(find_words(cli, session, index, &device_info, &w, err));
    LUO_TRY(luo_rundir_open(at, &w.opts, &rundir, err));
    luo_rundir_leave(rundir);
    return LUO_OK;
}

/* The run came to its end, which may be that it is lost: an error after that is to be told. */
static bool is_answer(luo_status st)
{
    return st == LUO_OK || st == LUO_ENO;
}

static luo_status run(luo_cli *cli, const luo_session *session, int32_t index, luo_child_slot *slot,
                      luo_diags *notes, luo_err *err)
{
    words w;
    luo_device_info device_info = {0};
    LUO_TRY(find_words(cli, session, index, &device_info, &w, err));
    w.opts.diags = notes;
    w.opts.progress = progress;
    w.opts.ctx = slot;
    luo_rundir *dir;
    luo_err late = {0};
    luo_exec_options exec = {0};
    luo_run_opts how = session->run;
    const char *at = luo_child_dir(cli, session, index);
    if (!at) return luo_err_nomem(err);
    LUO_TRY(luo_rundir_open(at, &w.opts, &dir, err));
    luo_status st = session->exec
                        ? own_options(cli, session, index, at, &slot->memory, &exec, &how, err)
                        : LUO_OK;
    exec.device_info = &device_info;
    how.interrupted = luo_process_asked();
    how.clock = luo_cli_wall_s;
    if (st == LUO_OK)
        st = luo_run_policy(session->scenario, index, &how, luo_rundir_sink(dir), err);
    luo_process_closing();
    if (in_memory(session) && how.checkpoints) {
        luo_scratch memory = slot->memory; /* the parent has its own part of it to give back */
        const luo_status kept = luo_child_memory_close(&memory, how.checkpoints, &late);
        if (is_answer(st) && kept != LUO_OK) st = luo_err_set(err, kept, "%s", late.text);
    }
    if (st != LUO_OK) luo_rundir_log(dir, LUO_ERROR, err->text);
    const int code = *luo_process_asked() ? 128 + *luo_process_asked() : luo_status_exit(st);
    const luo_status closed = luo_rundir_close(dir, state_of(st), code, &late);
    if (!is_answer(st) || closed == LUO_OK) return st;
    *err = late;
    return closed;
}

static void keep_notes(luo_child_slot *slot, const luo_diags *notes)
{
    for (const luo_diag *diag = notes->first; diag && slot->nnotes < LUO_NOTES_MAX;
         diag = diag->next)
        snprintf(slot->note[slot->nnotes++], sizeof slot->note[0], "%s", diag->err.text);
}

typedef struct task { /* what a child is given */
    luo_cli *cli;
    const luo_session *session;
    int32_t index;
    luo_child_slot *slot;
} task;

static int run_task(void *ctx)
{
    const task *t = ctx;
    luo_child_slot *slot = t->slot;
    luo_process_catch(); /* as the parent does; between fork and here nothing was lost */
    luo_diags notes;
    luo_diags_init(&notes, t->cli->arena);
    const double begin = luo_cli_wall_s();
    slot->status = run(t->cli, t->session, t->index, slot, &notes, &slot->err);
    slot->wall_s = luo_cli_wall_s() - begin;
    slot->stopped = *luo_process_asked();
    keep_notes(slot, &notes);
    return slot->stopped ? 128 + slot->stopped : luo_status_exit(slot->status);
}

luo_status luo_child_start(luo_cli *cli, const luo_session *session, int32_t index,
                           luo_child_slot *slot, luo_process *out, int *why)
{
    task t = {cli, session, index, slot};
    if (in_memory(session)) slot->status = luo_scratch_open(&slot->memory, &slot->err);
    if (slot->status != LUO_OK) return slot->status;
    const luo_process_opts opts = {
        .inside = run_task, .ctx = &t, .closing = &slot->closing, .parent_signal = SIGTERM};
    const luo_status st = luo_process_start(&opts, out, why);
    if (st != LUO_OK) luo_scratch_close(&slot->memory);
    return st;
}

/* ---- a child that was ended ---- */

/* A program that does what it must not ends by one of these; by others somebody ends it. */
static bool own_fault(int sig)
{
    static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS};
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
        if (sig == faults[i]) return true;
    return false;
}

/* How a real run can go on. */
static void say_way(luo_cli *cli, const luo_session *session, int32_t index, char *text,
                    size_t size)
{
    luo_found found = {0};
    const char *dir = checkpoints_of(cli, session, index);
    if (dir && luo_checkpoint_find(cli->arena, dir, INT64_MAX, &found, NULL) == LUO_OK)
        snprintf(text, size, "; step %lld can be resumed with `--resume %.500s`",
                 (long long)found.step, dir);
    else
        snprintf(text, size, "; there is no checkpoint of this run to resume from");
}

static void say_killed(luo_cli *cli, const luo_session *session, int32_t index, int sig,
                       luo_child_slot *slot)
{
    char way[LUO_ERR_PATH + 64] = "";
    const char *label = session->scenario->policies[index].label;
    if (own_fault(sig)) {
        slot->status = luo_err_set(&slot->err, LUO_EBUG,
                                   "policy `%s` ended by signal %d; its rows so far are readable; "
                                   "please report this with its manifest.json.",
                                   label, sig);
        return;
    }
    if (session->exec) say_way(cli, session, index, way, sizeof way);
    slot->status = luo_err_set(&slot->err, LUO_EBACKEND,
                               "the process of policy `%s` was ended from outside by signal %d "
                               "(%s) in step %lld; its rows so far are readable%s.",
                               label, sig, strsignal(sig), (long long)slot->step, way);
}

void luo_child_ended(luo_cli *cli, const luo_session *session, int32_t index,
                     const luo_process *process, luo_child_slot *slot)
{
    const int sig = luo_process_signal(process), code = luo_process_code(process);
    (void)luo_child_memory_close(&slot->memory, checkpoints_of(cli, session, index), NULL);
    if (sig == SIGKILL && process->told)
        slot->stopped = process->told; /* killed since it had not heard that */
    else if (sig)
        say_killed(cli, session, index, sig, slot);
    else if (code > 128 && !slot->stopped)
        slot->stopped = code - 128;
}
