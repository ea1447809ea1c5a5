/* builtin.h: profiles and stacks that are part of the program, so that a file or an option
 * can name them without a path, wherever the program stands. */
#ifndef LUO_CORE_IO_BUILTIN_H
#define LUO_CORE_IO_BUILTIN_H
#include "core/io/io.h"

typedef struct luo_builtin {
    const char *name, *text; /* name: path in the repository; the last row is {0, 0} */
} luo_builtin;
extern const luo_builtin luo_builtin_files[]; /* made when the program is built */

#define LUO_BUILTIN_PROFILES "profiles"
#define LUO_BUILTIN_STACKS "profiles/stacks"

/* The path under which luo_files_get finds it, "built-in:profiles/h100.yaml" for h100, in path.
 * False: there is none of that name. */
bool luo_builtin_path(const char *folder, const char *word, char *path, size_t size);
/* The file of such a path. False: it is no such path, or there is none. */
bool luo_builtin_get(const char *path, luo_source *out);
/* Where `path` could not be read: is its last part a name without an ending, which may mean one of
 * the folder? Then *err says so, and which, with LUO_EINPUT; else LUO_OK and *err stays. */
luo_status luo_builtin_refuse(const char *folder, const char *path, luo_err *err);
/* Names of a folder, in order, each followed by a blank. */
void luo_builtin_names(const char *folder, luo_str *out);
#endif
