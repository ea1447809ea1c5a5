#include "core/io/result/lock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "core/io/files.h"

enum { HOST = 256, WAIT_MS = 10000, STEP_MS = 50 };

typedef struct owner {
    long pid; /* 0: not known */
    unsigned long long start;
    char host[HOST];
} owner;

/* Clock ticks from the start of the system to that of the process; 0: there is none, or nobody has
 * waited for its end. Behind the name, which may hold anything, it is the 20th value. */
static unsigned long long start_of(long pid)
{
    char path[64], text[1024];
    unsigned long long start = 0;
    snprintf(path, sizeof path, "/proc/%ld/stat", pid);
    FILE *file = fopen(path, "r");
    if (!file) return 0;
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    fclose(file);
    const char *at = strrchr(text, ')');
    if (at && strncmp(at, ") Z", 3) == 0) return 0;
    for (int i = 0; at && i < 20; i++) at = strchr(at + 1, ' ');
    if (at) start = strtoull(at + 1, NULL, 10);
    return start;
}

static owner myself(void)
{
    owner me = {.pid = (long)getpid(), .start = start_of((long)getpid())};
    if (gethostname(me.host, sizeof me.host - 1) != 0) snprintf(me.host, HOST, "unknown");
    return me;
}

static owner read_owner(int fd)
{
    char text[512];
    owner o = {0};
    const ssize_t n = pread(fd, text, sizeof text - 1, 0);
    if (n <= 0) return o;
    text[n] = 0;
    if (sscanf(text, "pid %ld start %llu host %255s", &o.pid, &o.start, o.host) != 3)
        return (owner){0};
    return o;
}

static luo_status write_owner(int fd, const char *path, luo_err *err)
{
    const owner me = myself();
    char text[512];
    const int n =
        snprintf(text, sizeof text, "pid %ld start %llu host %s\n", me.pid, me.start, me.host);
    if (ftruncate(fd, 0) == 0 && pwrite(fd, text, (size_t)n, 0) == n) return LUO_OK;
    return luo_io_err(err, "write", path);
}

static bool here(const owner *o)
{
    const owner me = myself();
    return strcmp(o->host, me.host) == 0;
}

static bool alive(const owner *o)
{
    return o->pid > 0 && here(o) && o->start != 0 && start_of(o->pid) == o->start;
}

static luo_status refuse(luo_err *err, const char *path, const owner *o)
{
    const int dir = (int)(strrchr(path, '/') - path);
    if (o->pid > 0 && !here(o))
        return luo_err_set(err, LUO_EUSAGE,
                           "folder `%.*s` is in use by process %ld on host `%s`; wait for it, give "
                           "another --out, or remove `%s` if that process is gone.",
                           dir, path, o->pid, o->host, path);
    if (o->pid > 0 && !alive(o))
        return luo_err_set(err, LUO_EUSAGE,
                           "folder `%.*s` is in use by processes that process %ld has left "
                           "behind; wait for them, end them, or give another --out.",
                           dir, path, o->pid);
    return luo_err_set(err, LUO_EUSAGE,
                       "folder `%.*s` is in use by process %ld; wait for it, end it, or give "
                       "another --out.",
                       dir, path, o->pid);
}

/* Is fd still the file that the path names? Its owner removes it when it is done. */
static bool named(int fd, const char *path)
{
    struct stat a, b;
    return fstat(fd, &a) == 0 && stat(path, &b) == 0 && a.st_dev == b.st_dev &&
           a.st_ino == b.st_ino;
}

enum verdict { OURS, THEIRS, GONE, BROKEN };

/* GONE: the file was removed meanwhile; try again. */
static enum verdict attempt(int fd, const char *path, owner *o)
{
    const bool held = flock(fd, LOCK_EX | LOCK_NB) != 0;
    const int why = errno;
    *o = read_owner(fd);
    if (held && why == EWOULDBLOCK) return named(fd, path) ? THEIRS : GONE;
    if (!named(fd, path)) return GONE;
    if (held && why != EOPNOTSUPP && why != ENOLCK && why != ENOSYS && why != EINVAL) {
        errno = why;
        return BROKEN;
    }
    if (alive(o) && o->pid != (long)getpid()) return THEIRS;
    return held && o->pid > 0 && !here(o) ? THEIRS : OURS;
}

/* The file outlives an exec: ranks and their launcher hold it as long as they live. */
static luo_status take(luo_lock *lock, char *path, luo_err *err)
{
    owner o = {0};
    for (int waited = 0;; waited += STEP_MS) {
        const int fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW, 0666);
        if (fd < 0) return luo_io_err(err, "write", path);
        const enum verdict v = attempt(fd, path, &o);
        if (v == OURS) {
            *lock = (luo_lock){path, fd};
            return write_owner(fd, path, err);
        }
        if (v == BROKEN) luo_io_err(err, "lock", path);
        close(fd);
        if (v == BROKEN) return LUO_EIO;
        /* Its owner is dead, or has yet to write its name. */
        const bool dying = v == THEIRS && !alive(&o) && (o.pid == 0 || here(&o));
        if (v == THEIRS && (!dying || waited >= WAIT_MS)) return refuse(err, path, &o);
        if (v == THEIRS) nanosleep(&(struct timespec){0, STEP_MS * 1000000L}, NULL);
    }
}

luo_status luo_lock_take(luo_lock *lock, const char *dir, luo_err *err)
{
    char *path;
    *lock = (luo_lock){0};
    if (asprintf(&path, "%s/" LUO_LOCK_FILE, dir) < 0) return luo_err_nomem(err);
    const luo_status st = take(lock, path, err);
    if (st != LUO_OK && lock->path)
        luo_lock_give(lock);
    else if (st != LUO_OK)
        free(path);
    return st;
}

void luo_lock_give(luo_lock *lock)
{
    if (!lock->path) return;
    unlink(lock->path);
    close(lock->fd);
    free(lock->path);
    *lock = (luo_lock){0};
}

bool luo_lock_left(const char *dir)
{
    char path[4096];
    if (snprintf(path, sizeof path, "%s/" LUO_LOCK_FILE, dir) >= (int)sizeof path) return false;
    const int fd = open(path, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) return false;
    const bool held = flock(fd, LOCK_EX | LOCK_NB) != 0;
    const owner o = read_owner(fd);
    const bool left = !held && o.pid > 0 && here(&o) && (o.pid == (long)getpid() || !alive(&o));
    close(fd);
    return left;
}
