#include "core/io/document/input.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "core/io/files.h"
#include "core/io/io.h"

enum { GRACE_MS = 1000, SILENCE_S = 300, PIPES_MAX = 64 };

/* Bytes that came through pipes, which give them once, while a file is opened by who asks what it
 * is, by its reader and by who copies the inputs of a run. Kept as long as the process. */
static struct {
    dev_t device;
    ino_t inode;
    int memory;
} kept[PIPES_MAX];
static int nkept;

typedef struct opening {
    const char *path, *expected;
    luo_err *err;
} opening;

luo_status luo_input_unreadable(const char *path, luo_err *err)
{
    char why[128];
    luo_io_errno_text(errno ? errno : EIO, why, sizeof why);
    return luo_err_set(err, LUO_EINPUT, "cannot read `%s`: %s.", path, why);
}

static luo_status unreadable(const opening *o)
{
    return luo_input_unreadable(o->path, o->err);
}

static luo_status refuse(const opening *o, const char *what)
{
    return luo_err_set(o->err, LUO_EINPUT, "`%s` is %s; %s is expected.", o->path, what,
                       o->expected);
}

luo_status luo_input_too_big(const char *path, luo_err *err)
{
    luo_err_set(err, LUO_E2BIG, "`%s` is larger than %zu MiB, which is the limit.", path,
                LUO_FILE_BYTES >> 20);
    return luo_err_at(err, LUO_E2BIG, path, 0, 0);
}

/* ---- what may be opened ---- */

static luo_status check_kind(const opening *o, luo_input what, mode_t mode)
{
    if (S_ISREG(mode)) return LUO_OK;
    if (S_ISDIR(mode)) return refuse(o, "a folder");
    if (S_ISSOCK(mode)) return refuse(o, "a socket");
    if (!S_ISFIFO(mode)) return refuse(o, "a device");
    return what == LUO_INPUT_READ ? LUO_OK : refuse(o, "a pipe");
}

/* ---- pipes ---- */

static luo_status keep_block(const opening *o, int memory, const char *block, ssize_t n)
{
    while (n > 0) {
        const ssize_t did = write(memory, block, (size_t)n);
        if (did < 0 && errno == EINTR) continue;
        if (did < 0) return errno == ENOSPC ? luo_err_nomem(o->err) : unreadable(o);
        block += did;
        n -= did;
    }
    return LUO_OK;
}

/* Until there is something to read, or the last writer has gone. */
static luo_status wait_for_bytes(const opening *o, int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    const int n = poll(&p, 1, SILENCE_S * 1000);
    if (n < 0 && errno != EINTR) return unreadable(o);
    return n == 0 ? refuse(o, "a pipe whose writer sends nothing") : LUO_OK;
}

/* A writer that was started beside us may need a moment to open its end. */
static bool may_still_come(int *waited_ms)
{
    const struct timespec pause = {0, 10000000};
    if (*waited_ms >= GRACE_MS) return false;
    nanosleep(&pause, NULL);
    *waited_ms += 10;
    return true;
}

static luo_status drain(const opening *o, int fd, int memory)
{
    char block[1 << 15];
    size_t total = 0;
    int waited_ms = 0;
    for (;;) {
        const ssize_t n = read(fd, block, sizeof block);
        if (n > 0) {
            total += (size_t)n;
            if (total > LUO_FILE_BYTES) return luo_input_too_big(o->path, o->err);
            LUO_TRY(keep_block(o, memory, block, n));
        } else if (n == 0 && total > 0) {
            return LUO_OK;
        } else if (n == 0 && !may_still_come(&waited_ms)) {
            return refuse(o, "a pipe that nobody writes to");
        } else if (n < 0 && errno == EAGAIN) {
            LUO_TRY(wait_for_bytes(o, fd));
        } else if (n < 0 && errno != EINTR) {
            return unreadable(o);
        }
    }
}

static luo_status keep_pipe(const opening *o, int fd, const struct stat *info, int *memory)
{
    for (int i = 0; i < nkept; i++)
        if (kept[i].device == info->st_dev && kept[i].inode == info->st_ino) {
            *memory = kept[i].memory;
            return LUO_OK;
        }
    if (nkept == PIPES_MAX) return refuse(o, "one pipe too many");
    *memory = memfd_create("luoshu-input", MFD_CLOEXEC);
    if (*memory < 0) return unreadable(o);
    const luo_status st = drain(o, fd, *memory);
    if (st != LUO_OK) {
        close(*memory);
        return st;
    }
    kept[nkept].device = info->st_dev;
    kept[nkept].inode = info->st_ino;
    kept[nkept++].memory = *memory;
    return LUO_OK;
}

/* A new description of what was kept, so that it is read from its beginning. */
static luo_status reopen(const opening *o, int memory, int *fd)
{
    char name[40];
    snprintf(name, sizeof name, "/proc/self/fd/%d", memory);
    *fd = open(name, O_RDONLY | O_CLOEXEC);
    return *fd < 0 ? unreadable(o) : LUO_OK;
}

luo_status luo_input_open(const char *path, luo_input what, const char *expected, int *fd,
                          luo_err *err)
{
    const opening o = {path, expected, err};
    struct stat info;
    int memory = -1;
    if (stat(path, &info) != 0) return unreadable(&o);
    LUO_TRY(check_kind(&o, what, info.st_mode)); /* to open a device may already do something */
    *fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (*fd < 0) return unreadable(&o);
    luo_status st = fstat(*fd, &info) == 0 ? LUO_OK : unreadable(&o);
    if (st == LUO_OK) st = check_kind(&o, what, info.st_mode);
    if (st == LUO_OK && S_ISREG(info.st_mode)) return LUO_OK;
    if (st == LUO_OK) st = keep_pipe(&o, *fd, &info, &memory);
    close(*fd);
    return st == LUO_OK ? reopen(&o, memory, fd) : st;
}
