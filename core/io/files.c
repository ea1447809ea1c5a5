#include "core/io/files.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void luo_io_errno_text(int code, char *out, size_t size)
{
    snprintf(out, size, "%s", strerror(code));
    out[0] = (char)tolower((unsigned char)out[0]);
}

luo_status luo_io_err(luo_err *err, const char *what, const char *path)
{
    char why[128];
    luo_io_errno_text(errno ? errno : EIO, why, sizeof why);
    return luo_err_set(err, LUO_EIO, "cannot %s %s: %s.", what, path, why);
}

bool luo_file_put(int fd, const void *bytes, size_t n)
{
    const char *at = bytes;
    while (n > 0) {
        const ssize_t done = write(fd, at, n);
        if (done < 0 && errno != EINTR) return false;
        if (done < 0) continue;
        at += done;
        n -= (size_t)done;
    }
    return true;
}

luo_status luo_file_make_dir(const char *path, luo_err *err)
{
    luo_str text = {0};
    luo_status st = LUO_OK;
    luo_str_add(&text, path);
    if (text.failed) return luo_err_nomem(err);
    for (size_t i = 1; st == LUO_OK && i <= text.len; i++) {
        const char c = text.at[i];
        if (c != '/' && c != 0) continue;
        text.at[i] = 0;
        if (mkdir(text.at, 0777) != 0 && errno != EEXIST) st = luo_io_err(err, "make", path);
        text.at[i] = c;
    }
    struct stat info;
    if (st == LUO_OK && (stat(path, &info) != 0 || !S_ISDIR(info.st_mode))) {
        errno = ENOTDIR;
        st = luo_io_err(err, "make", path);
    }
    luo_str_free(&text);
    return st;
}

luo_status luo_file_make_own_dir(const char *path, luo_err *err)
{
    struct stat info;
    if (lstat(path, &info) == 0 && S_ISLNK(info.st_mode))
        return luo_err_set(err, LUO_EIO,
                           "cannot write into `%s`: it is a link to elsewhere; remove it, and a "
                           "folder is made.",
                           path);
    return luo_file_make_dir(path, err);
}

int luo_file_new(const char *path, int flags)
{
    if (unlink(path) != 0 && errno != ENOENT) return -1;
    return open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC | flags, 0666);
}

luo_status luo_file_beside(const char *name, char *out, size_t size, luo_err *err)
{
    const ssize_t n = readlink("/proc/self/exe", out, size - 1);
    if (n <= 0) return luo_io_err(err, "read", "/proc/self/exe");
    out[n] = 0;
    char *end = strrchr(out, '/') + 1;
    const size_t left = size - (size_t)(end - out);
    if ((size_t)snprintf(end, left, "%s", name) < left) return LUO_OK;
    errno = ENAMETOOLONG;
    return luo_io_err(err, "find", name);
}
