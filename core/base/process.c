#include "core/base/process.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Codes of shells for what was not run. */
enum { NOT_STARTED = 126, NO_PROGRAM = 127 };

/* ---- in the child ---- */

static bool connect_streams(const luo_process_opts *opts)
{
    const int null = opts->no_input ? open("/dev/null", O_RDWR | O_CLOEXEC) : -1;
    if (opts->no_input && (null < 0 || dup2(null, 0) < 0)) return false;
    return (!opts->out || dup2(opts->out, 1) >= 0) && (!opts->err || dup2(opts->err, 2) >= 0);
}

_Noreturn static void give_up(int tell, int code)
{
    const int why = errno;
    if (tell >= 0 && write(tell, &why, sizeof why) < 0) _exit(NOT_STARTED);
    _exit(code);
}

static volatile bool *told_parent; /* opts.closing of this process; NULL: nowhere */

_Noreturn static void live(const luo_process_opts *opts, int tell, pid_t parent)
{
    told_parent = opts->closing;
    if (opts->group) setpgid(0, 0);
    if (opts->parent_signal) {
        prctl(PR_SET_PDEATHSIG, opts->parent_signal);
        if (getppid() != parent) _exit(1); /* it ended before it could be watched */
    }
    if (!connect_streams(opts)) give_up(tell, NOT_STARTED);
    const int code = opts->inside ? opts->inside(opts->ctx) : 0;
    if (!opts->argv || code != 0) _exit(code);
    execvpe(opts->argv[0], (char *const *)opts->argv,
            opts->env ? (char *const *)opts->env : environ);
    give_up(tell, NO_PROGRAM);
}

/* ---- start ---- */

static luo_status refuse(luo_process *out, int *why, int code)
{
    *out = (luo_process){0};
    if (why) *why = code;
    return LUO_EBACKEND;
}

/* A program closes the pipe by running; a failure is written into it. 0: it runs. */
static int hear_start(int fd)
{
    int why = 0;
    ssize_t n;
    while ((n = read(fd, &why, sizeof why)) < 0 && errno == EINTR) {
    }
    return n == (ssize_t)sizeof why ? why : 0;
}

luo_status luo_process_start(const luo_process_opts *opts, luo_process *out, int *why)
{
    int tell[2] = {-1, -1};
    if (opts->argv && pipe2(tell, O_CLOEXEC) != 0) return refuse(out, why, errno);
    const pid_t parent = getpid(), pid = fork();
    if (pid == 0) live(opts, tell[1], parent);
    int failed = pid < 0 ? errno : 0;
    if (opts->group && pid > 0) setpgid(pid, pid); /* whoever of the two comes first */
    if (opts->argv) {
        close(tell[1]);
        if (pid > 0) failed = hear_start(tell[0]);
        close(tell[0]);
    }
    *out = (luo_process){.pid = pid, .group = opts->group, .closing = opts->closing};
    if (!failed) return LUO_OK;
    luo_process_wait(out, INFINITY);
    return refuse(out, why, failed);
}

/* ---- watch and end ---- */

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static bool look(luo_process *process, int flags)
{
    if (process->pid <= 0) return true;
    const pid_t got = waitpid(process->pid, &process->how, flags);
    if (got == 0 || (got < 0 && errno == EINTR)) return false;
    process->pid = 0;
    return true;
}

bool luo_process_wait(luo_process *process, double seconds)
{
    const struct timespec nap = {.tv_nsec = 2000000};
    const double until = now_s() + seconds;
    const int flags = isinf(seconds) ? 0 : WNOHANG;
    while (!look(process, flags)) {
        if (now_s() >= until) return false;
        if (flags) nanosleep(&nap, NULL);
    }
    return true;
}

void luo_process_tell(const luo_process *process, int sig)
{
    if (process->pid > 0) kill(process->group ? -process->pid : process->pid, sig);
}

void luo_process_end(luo_process *process, double grace_s)
{
    if (grace_s > 0) {
        luo_process_tell(process, SIGTERM);
        luo_process_wait(process, grace_s);
    }
    luo_process_tell(process, SIGKILL);
    luo_process_wait(process, INFINITY);
}

void luo_process_urge(luo_process *process, int sig)
{
    const bool writes = process->closing && *process->closing;
    const double grace_s = writes ? LUO_PROCESS_CLOSE_S : LUO_PROCESS_CHILD_S;
    if (process->told) {
        if (now_s() - process->told_s >= grace_s) luo_process_tell(process, SIGKILL);
        return;
    }
    luo_process_tell(process, sig);
    process->told = sig;
    process->told_s = now_s();
}

/* ---- how it ended ---- */

int luo_process_signal(const luo_process *process)
{
    return WIFSIGNALED(process->how) ? WTERMSIG(process->how) : 0;
}

int luo_process_code(const luo_process *process)
{
    const int sig = luo_process_signal(process);
    return sig ? 128 + sig : WEXITSTATUS(process->how);
}

char *luo_process_text(const luo_process *process, char *text, size_t size)
{
    const int sig = luo_process_signal(process);
    snprintf(text, size, "%s %d", sig ? "signal" : "exit", sig ? sig : luo_process_code(process));
    return text;
}

/* ---- this process ---- */

static volatile int asked, closing;
static volatile double asked_s; /* when */
static timer_t timer;
static pid_t timer_of; /* the process that has it: children inherit none */
static pid_t parent_then; /* when signals were caught last */

/* Of what signals interrupt: only what POSIX allows there. */
static void set_timer(double seconds)
{
    const time_t whole = (time_t)seconds;
    const struct itimerspec at = {
        .it_value = {.tv_sec = whole, .tv_nsec = (long)((seconds - (double)whole) * 1e9)}};
    if (timer_of != getpid() || timer_settime(timer, 0, &at, NULL) != 0)
        alarm((unsigned)(seconds > 0 && whole == 0 ? 1 : whole));
}

/* Nobody waits for one whose parent has died: it has time to close what there is. */
static double time_to_close(void)
{
    return getppid() == parent_then ? LUO_PROCESS_GRACE_S : LUO_PROCESS_CLOSE_S;
}

static void end_now(int sig)
{
    (void)sig;
    if (asked && !closing) _exit(128 + asked); /* else it came from outside, or too late */
}

static void on_signal(int sig, siginfo_t *info, void *context)
{
    const int was = errno;
    (void)context;
    if (asked) {
        if (info->si_pid != getppid() || now_s() - asked_s > LUO_PROCESS_GRACE_S) _exit(128 + sig);
        return;
    }
    asked_s = now_s();
    if (!closing) set_timer(time_to_close());
    asked = sig; /* last: who sees it may stop the timer */
    errno = was;
}

static void handle_all(const struct sigaction *act)
{
    struct sigaction was;
    sigaction(SIGINT, act, NULL); /* also of what a script has started behind it */
    sigaction(SIGTERM, act, NULL);
    if (sigaction(SIGHUP, NULL, &was) == 0 && was.sa_handler != SIG_IGN)
        sigaction(SIGHUP, act, NULL);
}

void luo_process_catch(void)
{
    const struct sigaction end = {.sa_handler = end_now, .sa_flags = SA_RESTART};
    struct sigaction act = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO};
    struct sigevent ring = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGALRM};
    sigaddset(&act.sa_mask, SIGINT);
    sigaddset(&act.sa_mask, SIGTERM);
    sigaddset(&act.sa_mask, SIGHUP);
    sigaction(SIGALRM, &end, NULL);
    if (timer_of != getpid() && timer_create(CLOCK_MONOTONIC, &ring, &timer) == 0)
        timer_of = getpid();
    closing = 0;
    parent_then = getppid();
    handle_all(&act);
    if (asked) set_timer(LUO_PROCESS_GRACE_S); /* between a fork and here */
}

void luo_process_let(void)
{
    const struct sigaction act = {.sa_handler = SIG_DFL};
    handle_all(&act);
    set_timer(0);
    asked = 0;
    closing = 0;
}

const volatile int *luo_process_asked(void)
{
    return &asked;
}

void luo_process_closing(void)
{
    closing = 1;
    if (told_parent) *told_parent = true;
    set_timer(0);
}
