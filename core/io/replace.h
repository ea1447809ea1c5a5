/* replace.h: the one way in which files are replaced.
 *
 * Where a regular file or nothing stands, text is written beside it and renamed over it when it is
 * whole; symbolic links are followed, so that what they point to is replaced and they stay. A
 * character device or a pipe is written through. Anything else is refused.
 *
 *   luo_replace_open(&f, path, err);  write to f.fd
 *   luo_replace_close(&f, good, err); the new file, or, if not good, the old one untouched */
#ifndef LUO_CORE_IO_REPLACE_H
#define LUO_CORE_IO_REPLACE_H
#include <stdbool.h>

#include "core/base/err.h"

typedef struct luo_replace {
    int fd;          /* -1: closed */
    bool durable;    /* set by the caller: the folder is synced, too */
    char *path;      /* as given */
    char *final;     /* behind all links; NULL: written through */
    char *temporary; /* FINAL.tmp-PID */
} luo_replace;

/* Errors: LUO_EIO with the reason; LUO_ENOMEM. Nothing is left then, and f is closed. */
luo_status luo_replace_open(luo_replace *f, const char *path, luo_err *err);
/* Writes all of it. Errors: LUO_EIO. */
luo_status luo_replace_put(luo_replace *f, const void *bytes, size_t n, luo_err *err);
/* good: fsync, and rename to its place. Else, or if one of these fails, the temporary file is
 * removed and its place is as before. Safe on one that is closed. Errors: LUO_EIO. */
luo_status luo_replace_close(luo_replace *f, bool good, luo_err *err);
/* fsync of a folder. Errors: LUO_EIO. */
luo_status luo_replace_sync_folder(const char *path, luo_err *err);
#endif
