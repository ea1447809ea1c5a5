#include "core/io/replace.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/io/files.h"
#include "core/io/io.h"

static luo_status fault(luo_err *err, const char *path, const char *hint)
{
    char why[128];
    luo_io_errno_text(errno ? errno : EIO, why, sizeof why);
    return luo_err_set(err, LUO_EIO, "cannot write `%s`: %s; %s.", path, why, hint);
}

static luo_status no_room(luo_err *err, const char *path)
{
    return fault(err, path, "choose another place or free some");
}

/* Length of the folder of a path with its slash. */
static size_t folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? (size_t)(slash - path) + 1 : 0;
}

/* Where a file of that name would be made: behind links that point to nothing, too. */
static char *behind_links(const char *path)
{
    char *whole = realpath(path, NULL), *at = whole ? NULL : strdup(path);
    if (whole) return whole;
    for (int links = 0; at && links < 40; links++) {
        char to[PATH_MAX], *next = NULL;
        const ssize_t n = readlink(at, to, sizeof to - 1);
        if (n < 0) return at;
        to[n] = 0;
        if (asprintf(&next, "%.*s%s", to[0] == '/' ? 0 : (int)folder_of(at), at, to) < 0)
            next = NULL;
        free(at);
        at = next;
    }
    if (at) errno = ELOOP;
    free(at);
    return NULL;
}

/* "/proc/self/fd/3". Names a file that has no name. */
static void name_open_file(int fd, char *out, size_t size)
{
    snprintf(out, size, "/proc/self/fd/%d", fd);
}

/* A file of the folder without a name: whatever ends this process, nothing of it stays. Some file
 * systems have none (NFS, FUSE): -1. */
static int open_nameless(const char *final)
{
    char folder[PATH_MAX], link[32];
    const size_t n = folder_of(final);
    if (n >= sizeof folder) return -1;
    snprintf(folder, sizeof folder, "%.*s", n ? (int)n : 1, n ? final : ".");
    const int fd = open(folder, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666);
    name_open_file(fd, link, sizeof link);
    if (fd < 0 || access(link, F_OK) == 0) return fd;
    close(fd); /* without /proc it could never get a name */
    return -1;
}

static luo_status open_beside(luo_replace *replace, const struct stat *old, luo_err *err)
{
    if (asprintf(&replace->temporary, "%s.tmp-%ld", replace->final, (long)getpid()) < 0) {
        replace->temporary = NULL;
        return luo_err_nomem(err);
    }
    replace->fd = open_nameless(replace->final);
    replace->nameless = replace->fd >= 0;
    if (!replace->nameless) replace->fd = luo_file_new(replace->temporary, 0);
    if (replace->fd < 0) return no_room(err, replace->path);
    /* What only its owner could read stays so. */
    if (old && fchmod(replace->fd, old->st_mode & 07777) != 0) return no_room(err, replace->path);
    return LUO_OK;
}

/* Without waiting: a pipe that nobody reads would keep us for ever. */
static luo_status open_through(luo_replace *replace, luo_err *err)
{
    replace->fd = open(replace->path, O_WRONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
    if (replace->fd < 0)
        return fault(err, replace->path,
                     errno == ENXIO ? "a pipe needs a reader first"
                                    : "name a file, or one that can be written");
    const int flags = fcntl(replace->fd, F_GETFL);
    if (flags < 0 || fcntl(replace->fd, F_SETFL, flags & ~O_NONBLOCK) < 0)
        return no_room(err, replace->path);
    return LUO_OK;
}

static luo_status refuse(luo_err *err, const char *path, mode_t mode)
{
    return luo_err_set(err, LUO_EIO, "cannot write `%s`: it is a %s; name a file.", path,
                       S_ISDIR(mode)    ? "folder"
                       : S_ISBLK(mode)  ? "block device"
                       : S_ISSOCK(mode) ? "socket"
                                        : "thing that is no file");
}

luo_status luo_replace_open(luo_replace *replace, const char *path, luo_err *err)
{
    struct stat old;
    luo_status st;
    *replace = (luo_replace){.fd = -1, .path = strdup(path)};
    if (!replace->path) return luo_err_nomem(err);
    const bool there = stat(path, &old) == 0;
    if (!there || S_ISREG(old.st_mode)) {
        errno = 0;
        replace->final = behind_links(path);
        if (replace->final)
            st = open_beside(replace, there ? &old : NULL, err);
        else
            st = errno == ENOMEM ? luo_err_nomem(err) : no_room(err, path);
    } else if (S_ISCHR(old.st_mode) || S_ISFIFO(old.st_mode))
        st = open_through(replace, err);
    else
        st = refuse(err, path, old.st_mode);
    if (st != LUO_OK) luo_replace_close(replace, false, NULL);
    return st;
}

luo_status luo_replace_open_own(luo_replace *replace, const char *path, luo_err *err)
{
    struct stat old;
    luo_status st;
    *replace = (luo_replace){.fd = -1, .path = strdup(path), .final = strdup(path)};
    const bool there = lstat(path, &old) == 0;
    if (!replace->path || !replace->final)
        st = luo_err_nomem(err);
    else if (there && S_ISDIR(old.st_mode))
        st = refuse(err, path, old.st_mode);
    else
        st = open_beside(replace, there && S_ISREG(old.st_mode) ? &old : NULL, err);
    if (st != LUO_OK) luo_replace_close(replace, false, NULL);
    return st;
}

luo_status luo_replace_put(luo_replace *replace, const void *bytes, size_t n, luo_err *err)
{
    return luo_file_put(replace->fd, bytes, n) ? LUO_OK : no_room(err, replace->path);
}

luo_status luo_replace_sync_folder(const char *path, luo_err *err)
{
    const int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const luo_status st = fd < 0 || fsync(fd) != 0 ? luo_io_err(err, "write", path) : LUO_OK;
    if (fd >= 0) close(fd);
    return st;
}

static luo_status sync_folder_of(const char *path, luo_err *err)
{
    const size_t n = folder_of(path);
    char *folder = n ? strndup(path, n) : strdup(".");
    const luo_status st = folder ? luo_replace_sync_folder(folder, err) : luo_err_nomem(err);
    free(folder);
    return st;
}

/* Devices and pipes have nothing to sync. */
static bool synced(const luo_replace *replace)
{
    return !replace->final || fsync(replace->fd) == 0;
}

static bool link_and_rename(const luo_replace *replace)
{
    char link[32];
    name_open_file(replace->fd, link, sizeof link);
    if (replace->nameless) {
        unlink(replace->temporary); /* of a process before that had our number */
        if (linkat(AT_FDCWD, link, AT_FDCWD, replace->temporary, AT_SYMLINK_FOLLOW) != 0)
            return false;
    }
    if (rename(replace->temporary, replace->final) == 0) return true;
    const int why = errno;
    unlink(replace->temporary);
    errno = why;
    return false;
}

/* Between its two names no signal comes. */
static bool put_in_place(const luo_replace *replace)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    const bool done = link_and_rename(replace);
    const int why = errno;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    errno = why;
    return done;
}

luo_status luo_replace_close(luo_replace *replace, bool good, luo_err *err)
{
    luo_status st = LUO_OK;
    bool renamed = false;
    if (replace->fd >= 0 && good && !synced(replace)) st = no_room(err, replace->path);
    if (replace->fd >= 0 && good && st == LUO_OK && replace->final) {
        renamed = put_in_place(replace);
        if (!renamed)
            st = no_room(err, replace->path);
        else if (replace->durable)
            st = sync_folder_of(replace->final, err);
    }
    if (replace->fd >= 0 && close(replace->fd) != 0 && good && st == LUO_OK)
        st = no_room(err, replace->path);
    if (replace->fd >= 0 && replace->temporary && !replace->nameless && !renamed)
        unlink(replace->temporary);
    free(replace->path);
    free(replace->final);
    free(replace->temporary);
    *replace = (luo_replace){.fd = -1};
    return st;
}

static luo_status write_whole(luo_replace *replace, const char *text, size_t len, luo_err *err)
{
    const luo_status st = luo_replace_put(replace, text, len, err);
    const luo_status closed = luo_replace_close(replace, st == LUO_OK, st == LUO_OK ? err : NULL);
    return st == LUO_OK ? closed : st;
}

luo_status luo_file_write_atomic(const char *path, const char *text, size_t len, luo_err *err)
{
    luo_replace replace;
    LUO_TRY(luo_replace_open(&replace, path, err));
    return write_whole(&replace, text, len, err);
}

luo_status luo_file_write_own(const char *path, const char *text, size_t len, luo_err *err)
{
    luo_replace replace;
    LUO_TRY(luo_replace_open_own(&replace, path, err));
    return write_whole(&replace, text, len, err);
}
