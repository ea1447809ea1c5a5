/* replace.h: the one way in which files are replaced.
 *
 * Text is written into a file without a name, which takes its place when it is whole; where the
 * file system has no such files, into FINAL.tmp-PID beside it. So a process that is ended leaves
 * nothing behind, or only there.
 *
 * What a user names (`open`): symbolic links are followed, so that what they point to is replaced
 * and they stay; a character device or a pipe is written through; other things are refused. What
 * lies in a folder of results (`open_own`) may be somebody else's work: whatever stands there, but
 * a folder, is replaced itself and never followed or opened.
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
    bool nameless;   /* it has that name for the moment of its rename alone */
} luo_replace;

/* Errors: LUO_EIO with the reason; LUO_ENOMEM. Nothing is left then, and replace is closed. */
luo_status luo_replace_open(luo_replace *replace, const char *path, luo_err *err);
luo_status luo_replace_open_own(luo_replace *replace, const char *path, luo_err *err);
/* Writes all of it. Errors: LUO_EIO. */
luo_status luo_replace_put(luo_replace *replace, const void *bytes, size_t n, luo_err *err);
/* good: fsync, and rename to its place. Else, or if one of these fails, the temporary file is
 * removed and its place is as before. Safe on one that is closed. Errors: LUO_EIO. */
luo_status luo_replace_close(luo_replace *replace, bool good, luo_err *err);
/* fsync of a folder. Errors: LUO_EIO. */
luo_status luo_replace_sync_folder(const char *path, luo_err *err);
#endif
