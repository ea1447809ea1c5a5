/* One command in a process group of its own, under limits, watched until nothing of it is left. */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/storm/storm.h"

static double wall_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- the child ---- */

static void limit(int what, uint64_t most)
{
    const struct rlimit r = {.rlim_cur = most, .rlim_max = most};
    setrlimit((__rlimit_resource_t)what, &r);
}

static int redirect(const char *dir, const char *log, const char *end, int to)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s.%s", dir, log, end);
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    return fd < 0 ? -1 : dup2(fd, to);
}

static void become(char *const *argv, const char *dir, const char *log, const storm_limits *l)
{
    setpgid(0, 0);
    limit(RLIMIT_CORE, 0);
    limit(RLIMIT_FSIZE, l->file_bytes);
#ifndef __SANITIZE_ADDRESS__ /* which reserves terabytes */
    limit(RLIMIT_AS, 16 * l->memory_bytes);
#endif
    signal(SIGXFSZ, SIG_IGN);
    if (redirect(dir, log, "out", 1) >= 0 && redirect(dir, log, "err", 2) >= 0)
        execv(argv[0], argv);
    _exit(127);
}

/* ---- what it uses ---- */

static const uint64_t LARGE = 64 << 20;

/* Memory of one process, if it belongs to the group. */
static uint64_t resident_of(const char *pid, pid_t group, int *members)
{
    char path[64], text[512];
    long member = 0, pages = 0;
    char state = 'Z';
    snprintf(path, sizeof path, "/proc/%.20s/stat", pid);
    FILE *f = fopen(path, "r");
    const size_t n = f ? fread(text, 1, sizeof text - 1, f) : 0;
    if (f) fclose(f);
    text[n] = 0;
    const char *at = strrchr(text, ')'); /* names may hold anything */
    if (!at || sscanf(at, ") %c %*d %ld", &state, &member) != 2 || member != group) return 0;
    if (state == 'Z' || state == 'X') return 0;
    ++*members;
    /* rss is field 24; the state is field 3 */
    for (int field = 2; *at && field < 24; at++) field += *at == ' ';
    return sscanf(at, "%ld", &pages) == 1 ? (uint64_t)pages * (uint64_t)sysconf(_SC_PAGESIZE) : 0;
}

/* Its share of what processes have in common, where that matters: they are forks of one another. */
static uint64_t share_of(const char *pid, uint64_t whole)
{
    char path[64], line[256];
    unsigned long long kib;
    uint64_t bytes = whole;
    snprintf(path, sizeof path, "/proc/%.20s/smaps_rollup", pid);
    FILE *f = fopen(path, "r");
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "Pss: %llu kB", &kib) == 1) bytes = (uint64_t)kib << 10;
    if (f) fclose(f);
    return bytes;
}

static uint64_t resident(pid_t group, int *members)
{
    DIR *d = opendir("/proc");
    uint64_t sum = 0;
    *members = 0;
    for (const struct dirent *e; d && (e = readdir(d));)
        if (isdigit((unsigned char)e->d_name[0])) {
            const uint64_t bytes = resident_of(e->d_name, group, members);
            sum += bytes > LARGE ? share_of(e->d_name, bytes) : bytes;
        }
    if (d) closedir(d);
    return sum;
}

static void read_said(const char *dir, const char *log, storm_end *out)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s.err", dir, log);
    FILE *f = fopen(path, "r");
    const size_t n = f ? fread(out->said, 1, sizeof out->said - 1, f) : 0;
    if (f) fclose(f);
    out->said[n] = 0;
}

/* Ends with the process; then nothing of its group may be left for longer than a moment. */
static void watch(pid_t pid, const storm_limits *l, storm_end *out)
{
    const double began = wall_s();
    double ended = 0;
    int how = 0, members = 0, large = 0; /* in a row: until its exec it is as large as we are */
    for (int round = 0;; round++) {
        if (ended == 0 && waitpid(pid, &how, WNOHANG) == pid) ended = wall_s();
        if (ended > 0 && kill(-pid, 0) < 0 && errno == ESRCH) break;
        const uint64_t bytes = round % 8 == 7 || ended > 0 ? resident(pid, &members) : 0;
        if (bytes > 0) large = bytes > l->memory_bytes ? large + 1 : 0;
        if (bytes > out->peak_bytes && large != 1) out->peak_bytes = bytes;
        if (ended > 0 && members == 0) break;
        if ((ended > 0 && wall_s() > ended + 5) || wall_s() > began + l->wall_s || large > 2) {
            out->late = true;
            kill(-pid, SIGKILL);
        }
        nanosleep(&(struct timespec){0, round < 100 ? 2000000 : 10000000}, NULL);
    }
    out->wall_s = ended - began;
    out->exit = WIFEXITED(how) ? WEXITSTATUS(how) : -1;
    out->signal = WIFSIGNALED(how) ? WTERMSIG(how) : 0;
}

bool storm_start(char *const *argv, const char *dir, const char *log, const storm_limits *limits,
                 storm_end *out)
{
    *out = (storm_end){0};
    fflush(NULL);
    const pid_t pid = fork();
    if (pid < 0) return false;
    if (pid == 0) become(argv, dir, log, limits);
    setpgid(pid, pid);
    watch(pid, limits, out);
    read_said(dir, log, out);
    return true;
}
