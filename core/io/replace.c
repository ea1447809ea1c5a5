#include "core/io/replace.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
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

static luo_status open_beside(luo_replace *f, const struct stat *old, luo_err *err)
{
    errno = 0;
    f->final = behind_links(f->path);
    if (!f->final) return errno == ENOMEM ? luo_err_nomem(err) : no_room(err, f->path);
    if (asprintf(&f->temporary, "%s.tmp-%ld", f->final, (long)getpid()) < 0) {
        f->temporary = NULL;
        return luo_err_nomem(err);
    }
    const int how = O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC;
    f->fd = open(f->temporary, how, 0666);
    if (f->fd < 0) return no_room(err, f->path);
    /* What only its owner could read stays so. */
    if (old && fchmod(f->fd, old->st_mode & 07777) != 0) return no_room(err, f->path);
    return LUO_OK;
}

/* Without waiting: a pipe that nobody reads would keep us for ever. */
static luo_status open_through(luo_replace *f, luo_err *err)
{
    f->fd = open(f->path, O_WRONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
    if (f->fd < 0)
        return fault(err, f->path,
                     errno == ENXIO ? "a pipe needs a reader first"
                                    : "name a file, or one that can be written");
    const int flags = fcntl(f->fd, F_GETFL);
    if (flags < 0 || fcntl(f->fd, F_SETFL, flags & ~O_NONBLOCK) < 0) return no_room(err, f->path);
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

luo_status luo_replace_open(luo_replace *f, const char *path, luo_err *err)
{
    struct stat old;
    luo_status st;
    *f = (luo_replace){.fd = -1, .path = strdup(path)};
    if (!f->path) return luo_err_nomem(err);
    const bool there = stat(path, &old) == 0;
    if (!there || S_ISREG(old.st_mode))
        st = open_beside(f, there ? &old : NULL, err);
    else if (S_ISCHR(old.st_mode) || S_ISFIFO(old.st_mode))
        st = open_through(f, err);
    else
        st = refuse(err, path, old.st_mode);
    if (st != LUO_OK) luo_replace_close(f, false, NULL);
    return st;
}

luo_status luo_replace_put(luo_replace *f, const void *bytes, size_t n, luo_err *err)
{
    return luo_file_put(f->fd, bytes, n) ? LUO_OK : no_room(err, f->path);
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
static bool synced(const luo_replace *f)
{
    return !f->final || fsync(f->fd) == 0;
}

luo_status luo_replace_close(luo_replace *f, bool good, luo_err *err)
{
    luo_status st = LUO_OK;
    bool renamed = false;
    if (f->fd >= 0 && good && !synced(f)) st = no_room(err, f->path);
    if (f->fd >= 0 && close(f->fd) != 0 && good && st == LUO_OK) st = no_room(err, f->path);
    if (f->fd >= 0 && good && st == LUO_OK && f->final) {
        renamed = rename(f->temporary, f->final) == 0;
        if (!renamed)
            st = no_room(err, f->path);
        else if (f->durable)
            st = sync_folder_of(f->final, err);
    }
    if (f->temporary && !renamed) unlink(f->temporary);
    free(f->path);
    free(f->final);
    free(f->temporary);
    *f = (luo_replace){.fd = -1};
    return st;
}

luo_status luo_file_write_atomic(const char *path, const char *text, size_t len, luo_err *err)
{
    luo_replace f;
    LUO_TRY(luo_replace_open(&f, path, err));
    const luo_status st = luo_replace_put(&f, text, len, err);
    const luo_status closed = luo_replace_close(&f, st == LUO_OK, st == LUO_OK ? err : NULL);
    return st == LUO_OK ? closed : st;
}
