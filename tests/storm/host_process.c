/* host_process.c: processes of a case. What a run starts descends from this process,
 * also when its parents are gone, so only what the case has started is ever looked at or ended. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/storm/host.h"

/* WALL: a run takes two on a quiet machine; but ranks that do not come are waited for for 120
 * (LUO_WORKERS_START_S). LEFT: until all that a run has started is gone. */
static const double WALL_S = 180, LEFT_S = 8;

double storm_clock(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void storm_nap(double seconds)
{
    const struct timespec t = {(time_t)seconds, (long)(1e9 * (seconds - (double)(time_t)seconds))};
    nanosleep(&t, NULL);
}

double storm_patience(void)
{
    const char *v = getenv("CK_TIMEOUT_MULTIPLIER");
    const double times = v ? atof(v) : 1;
    return times < 1 ? 1 : times > 8 ? 8 : times;
}

void storm_adopt(void)
{
    prctl(PR_SET_CHILD_SUBREAPER, 1);
}

void storm_word(storm_command *cmd, const char *word)
{
    if (cmd->n < STORM_WORDS) cmd->word[cmd->n++] = word;
}

static void become(const storm_case *c, const storm_command *cmd, const storm_process *p)
{
    const int out = open(p->out, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    const int err = open(p->err, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    const int null = open("/dev/null", O_RDONLY);
    setsid();
    prctl(PR_SET_PDEATHSIG, SIGTERM); /* of this program, should it be killed */
    dup2(null, 0);
    dup2(out, 1);
    dup2(err, 2);
    setenv("TMPDIR", c->dir, 1); /* what ranks leave lies in the case's folder */
    execv(cmd->word[0], (char *const *)cmd->word);
    _exit(127);
}

void storm_start(storm_case *c, const storm_command *cmd, const char *name, storm_process *out)
{
    luo_str line = {0};
    for (int i = 0; i < cmd->n; i++) luo_str_addf(&line, "%s%s", i ? " " : "", cmd->word[i]);
    storm_tell(c, "%s", luo_str_get(&line));
    luo_str_free(&line);
    *out = (storm_process){.began = storm_clock(),
                           .out = luo_arena_printf(c->arena, "%s/%s.out", c->dir, name),
                           .err = luo_arena_printf(c->arena, "%s/%s.err", c->dir, name)};
    out->pid = fork();
    if (out->pid == 0) become(c, cmd, out);
    if (out->pid > 0) return;
    storm_wrong(c, "the test itself cannot start a process: %s", strerror(errno));
    out->ended = true;
}

void storm_look(storm_process *p)
{
    int how;
    for (pid_t pid; (pid = waitpid(-1, &how, WNOHANG)) > 0;)
        if (p && pid == p->pid) {
            p->ended = true;
            p->how = how;
        }
}

/* ---- the family ---- */

static bool read_stat(const char *pid, storm_relative *out)
{
    char path[300], text[512];
    snprintf(path, sizeof path, "/proc/%s/stat", pid);
    const int fd = open(path, O_RDONLY);
    const ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (fd >= 0) close(fd);
    if (n <= 0) return false;
    text[n] = 0;
    char *open_ = strchr(text, '('), *close_ = strrchr(text, ')');
    int parent;
    if (!open_ || !close_ || sscanf(close_ + 1, " %c %d", &out->state, &parent) != 2) return false;
    *close_ = 0;
    snprintf(out->name, sizeof out->name, "%s", open_ + 1);
    out->pid = (pid_t)atol(pid);
    out->parent = parent;
    return true;
}

static bool known(const storm_relative *at, int n, pid_t pid)
{
    for (int i = 0; i < n; i++)
        if (at[i].pid == pid) return true;
    return pid == getpid();
}

static int by_pid(const void *a, const void *b)
{
    const pid_t x = ((const storm_relative *)a)->pid, y = ((const storm_relative *)b)->pid;
    return (x > y) - (x < y);
}

/* Processes of this machine, those of others too. */
static int list_all(storm_relative *all, int max)
{
    int n = 0;
    DIR *d = opendir("/proc");
    for (const struct dirent *e; d && n < max && (e = readdir(d));)
        if (e->d_name[0] >= '1' && e->d_name[0] <= '9' && read_stat(e->d_name, &all[n])) n++;
    if (d) closedir(d);
    return n;
}

int storm_family(storm_relative *out)
{
    static storm_relative all[8192];
    const int n = list_all(all, 8192);
    int found = 0;
    for (int before = -1; found != before;) { /* children may have smaller numbers than parents */
        before = found;
        for (int i = 0; i < n && found < STORM_FAMILY; i++)
            if (!known(out, found, all[i].pid) && known(out, found, all[i].parent))
                out[found++] = all[i];
    }
    int living = 0;
    for (int i = 0; i < found; i++)
        if (!strchr("ZX", out[i].state)) out[living++] = out[i];
    qsort(out, (size_t)living, sizeof *out, by_pid);
    return living;
}

static void end_all(storm_process *p)
{
    storm_relative at[STORM_FAMILY];
    for (int n; (n = storm_family(at)) > 0; storm_nap(0.01)) {
        for (int i = 0; i < n; i++) kill(at[i].pid, SIGKILL);
        storm_look(p);
    }
}

static void name_all(storm_case *c, const char *what)
{
    storm_relative at[STORM_FAMILY];
    const int n = storm_family(at);
    for (int i = 0; i < n; i++)
        storm_wrong(c, "%s: process %d (%s, state %c, parent %d)", what, (int)at[i].pid, at[i].name,
                    at[i].state, (int)at[i].parent);
}

void storm_wait(storm_case *c, storm_process *p)
{
    const double until = p->began + WALL_S * storm_patience();
    while (!p->ended && storm_clock() < until) {
        storm_look(p);
        if (!p->ended) storm_nap(0.01);
    }
    if (p->ended) return;
    storm_wrong(c, "a hang: no end after %.0f s", storm_clock() - p->began);
    name_all(c, "it hangs");
    p->hung = true;
    end_all(p);
}

void storm_nobody(storm_case *c)
{
    storm_relative at[STORM_FAMILY];
    const double until = storm_clock() + LEFT_S * storm_patience();
    int n;
    for (; (n = storm_family(at)) > 0 && storm_clock() < until; storm_nap(0.01)) storm_look(NULL);
    storm_look(NULL);
    if (n == 0) return;
    name_all(c, "left behind");
    end_all(NULL);
}
