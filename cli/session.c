#include "cli/session.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cli/child.h"
#include "cli/finish.h"
#include "cli/progress.h"
#include "core/io/files.h"
#include "core/io/rundir.h"

static volatile int got_signal;

static void on_signal(int sig)
{
    if (got_signal) _exit(128 + sig);
    got_signal = sig;
}

typedef struct fleet {
    luo_cli *cli;
    const luo_session *s;
    luo_child_slot *slot; /* shared with the children */
    pid_t *pid;           /* 0: not started or ended */
    int32_t n, started, running;
    bool timed_out;
    int stopped; /* signal by which a child alone was told to end; 0: none */
} fleet;

luo_status luo_session_dir(luo_cli *cli, const char *dir, bool force)
{
    DIR *d = opendir(dir);
    if (!d && errno == ENOENT) return LUO_OK;
    if (!d)
        return luo_cli_error(cli, LUO_EUSAGE,
                             "`%s` can not be used as a folder: %s; give another "
                             "--out.",
                             dir, strerror(errno));
    int entries = 0;
    while (readdir(d)) entries++;
    closedir(d);
    if (entries > 2 && !force)
        return luo_cli_error(cli, LUO_EUSAGE,
                             "folder `%s` is not empty; give another --out, or "
                             "--force.",
                             dir);
    return LUO_OK;
}

static void start_next(fleet *f)
{
    const int32_t i = f->started++;
    fflush(stdout);
    fflush(stderr);
    f->pid[i] = luo_child_start(f->cli, f->s, i, &f->slot[i]);
    if (f->pid[i] < 0) {
        f->pid[i] = 0;
        f->slot[i].status =
            luo_err_set(&f->slot[i].err, LUO_EBACKEND, "no process can be started: %s; free some.",
                        strerror(errno));
        return;
    }
    f->running++;
}

/* What the process of a policy can no longer say itself. */
static void tell_manifest(fleet *f, int32_t i, const char *state, int code)
{
    luo_err err = {0};
    const char *dir = luo_child_dir(f->cli, f->s, i);
    luo_status st = dir ? LUO_OK : LUO_ENOMEM;
    if (dir) st = luo_rundir_ended(dir, state, code, f->slot[i].err.text, &err);
    luo_cli_fail(f->cli, st, &err);
}

static void ended(fleet *f, pid_t pid, int how)
{
    for (int32_t i = 0; i < f->n; i++) {
        if (f->pid[i] != pid) continue;
        f->pid[i] = 0;
        f->running--;
        if (WIFSIGNALED(how)) {
            luo_child_killed(f->cli, f->s, i, WTERMSIG(how), &f->slot[i]);
            tell_manifest(f, i, "failed", 128 + WTERMSIG(how));
        }
        if (f->slot[i].stopped) f->stopped = f->slot[i].stopped;
    }
}

static void tell_all(const fleet *f, int sig)
{
    for (int32_t i = 0; i < f->n; i++)
        if (f->pid[i] > 0) kill(f->pid[i], sig);
}

static void wait_all(fleet *f, int cores)
{
    luo_progress p = luo_progress_new(f->cli->quiet);
    const double begin = luo_wall_s();
    bool told = false;
    while (f->running || (f->started < f->n && !got_signal && !f->timed_out)) {
        while (f->started < f->n && f->running < cores && !got_signal && !f->timed_out)
            start_next(f);
        int how;
        const pid_t pid = waitpid(-1, &how, WNOHANG);
        if (pid > 0) {
            ended(f, pid, how);
            continue;
        }
        if (f->s->limit_s > 0 && luo_wall_s() - begin > f->s->limit_s) f->timed_out = true;
        if ((got_signal || f->timed_out) && !told) {
            tell_all(f, got_signal ? got_signal : SIGTERM);
            told = true;
        }
        for (int32_t i = 0; i < f->n; i++) {
            const luo_child_slot *c = &f->slot[i];
            if (f->pid[i] > 0)
                luo_progress_show(&p, f->s->scenario->policies[i].label, c->step, c->steps, c->t_s,
                                  c->events);
        }
        nanosleep(&(struct timespec){0, 2000000}, NULL);
    }
    luo_progress_erase(&p);
}

static luo_status worst(fleet *f)
{
    luo_status st = LUO_OK;
    for (int32_t i = 0; i < f->started; i++) {
        const luo_child_slot *c = &f->slot[i];
        for (int32_t k = 0; k < c->nnotes; k++) luo_cli_note(f->cli, LUO_WARNING, "%s", c->note[k]);
        if (c->status == LUO_OK) continue;
        if (c->status == LUO_ENO) { /* a result, told in the table; not a fault of the input */
            luo_cli_note(f->cli, LUO_WARNING, "%s", c->err.text);
            if (st == LUO_OK) st = LUO_ENO;
            continue;
        }
        luo_diag *before = f->cli->diags.last;
        luo_cli_fail(f->cli, c->status, &c->err);
        if (f->cli->diags.last != before && f->n > 1 && f->cli->diags.last)
            luo_err_prefix(&f->cli->diags.last->err, c->status, "policy `%s`",
                           f->s->scenario->policies[i].label);
        if (luo_status_exit(c->status) >= luo_status_exit(st)) st = c->status;
    }
    if (f->timed_out)
        st = luo_cli_error(f->cli, LUO_ETIMEOUT,
                           "--limit-s %g is over; the rows written so far "
                           "are in `%s`.",
                           f->s->limit_s, f->s->dir);
    return st;
}

static luo_status open_fleet(luo_cli *cli, const luo_session *s, fleet *f)
{
    const int32_t n = s->scenario->npolicies;
    *f = (fleet){.cli = cli, .s = s, .n = n};
    f->pid = LUO_NEW_N(cli->arena, pid_t, n);
    f->slot = mmap(NULL, (size_t)n * sizeof *f->slot, PROT_READ | PROT_WRITE,
                   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (!f->pid || f->slot == MAP_FAILED)
        return luo_cli_error(cli, LUO_ENOMEM, "%s.", luo_status_text(LUO_ENOMEM));
    return LUO_OK;
}

luo_status luo_session_run(luo_cli *cli, const luo_session *s)
{
    fleet f;
    luo_err err = {0};
    LUO_TRY(luo_session_dir(cli, s->dir, s->force));
    LUO_TRY(luo_cli_fail(cli, luo_dir_make(s->dir, &err), &err));
    LUO_TRY(open_fleet(cli, s, &f));
    const struct sigaction act = {.sa_handler = on_signal};
    struct sigaction was[2];
    sigaction(SIGINT, &act, &was[0]);
    sigaction(SIGTERM, &act, &was[1]);
    const long cores = sysconf(_SC_NPROCESSORS_ONLN);
    wait_all(&f, s->at_once > 0 ? s->at_once : cores > 1 ? (int)cores : 1);
    sigaction(SIGINT, &was[0], NULL);
    sigaction(SIGTERM, &was[1], NULL);
    luo_status st = worst(&f);
    luo_cli_flush(cli);
    if (!got_signal) {
        const luo_status last = luo_session_finish(cli, s, f.slot);
        if (luo_status_exit(last) > luo_status_exit(st)) st = last;
    }
    munmap(f.slot, (size_t)f.n * sizeof *f.slot);
    const int sig = got_signal ? got_signal : f.timed_out ? 0 : f.stopped;
    if (sig) {
        luo_cli_flush(cli);
        exit(128 + sig);
    }
    return st;
}
