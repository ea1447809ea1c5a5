/* files.h: folders, and sentences for what the system says. Whole files: io.h. */
#ifndef LUO_CORE_IO_FILES_H
#define LUO_CORE_IO_FILES_H
#include <stdbool.h>
#include <stddef.h>

#include "core/base/str.h"

/* Text of an errno value with a small first letter: "no space left on device". */
void luo_io_errno_text(int code, char *out, size_t size);
/* LUO_EIO `cannot WHAT PATH: REASON.` from errno; returns it. */
luo_status luo_io_err(luo_err *err, const char *what, const char *path);
/* Writes all n bytes, however often the system takes some or a signal comes between.
 * Errors: false, errno says why; some may have been written. */
bool luo_file_put(int fd, const void *bytes, size_t n);
/* mkdir -p. Errors: LUO_EIO `cannot make DIR: ..`. */
luo_status luo_file_make_dir(const char *path, luo_err *err);
/* The same, whose last folder is no link: a folder of results that came from others may hold one to
 * elsewhere. Errors: LUO_EIO with the sentence. */
luo_status luo_file_make_own_dir(const char *path, luo_err *err);
/* A new empty file, open for writing and, by flags, more; what had its name goes, a link is not
 * followed. Errors: -1, errno says why. */
int luo_file_new(const char *path, int flags);
/* Path of `name` in the folder of this program's own file, whether it is there or not.
 * Errors: LUO_EIO the folder is not known, or the path is longer than `size`. */
luo_status luo_file_beside(const char *name, char *out, size_t size, luo_err *err);
#endif
