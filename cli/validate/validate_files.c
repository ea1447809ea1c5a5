/* validate_files.c: the suites of a folder of measurements. */
#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include "cli/validate/validate.h"
#include "core/base/vec.h"

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static bool is_csv(const char *name)
{
    const size_t n = strlen(name);
    return n > 4 && strcmp(name + n - 4, ".csv") == 0 && name[0] != '.';
}

luo_status luo_validate_files(luo_arena *arena, const char *dir, const char ***out, int32_t *n,
                              luo_err *err)
{
    DIR *folder = opendir(dir);
    if (!folder)
        return luo_err_set(err, LUO_EINPUT,
                           "the folder of measurements has no folder `suites`: %s cannot be "
                           "opened.",
                           dir);
    int32_t room = 0;
    const char **names = NULL;
    luo_status st = LUO_OK;
    *n = 0;
    for (struct dirent *entry; st == LUO_OK && (entry = readdir(folder));) {
        if (!is_csv(entry->d_name)) continue;
        const char *name = luo_arena_strdup(arena, entry->d_name);
        if (name && LUO_VEC_ROOM_IN(arena, names, *n, room))
            names[(*n)++] = name;
        else
            st = luo_err_nomem(err);
    }
    closedir(folder);
    if (st == LUO_OK && *n) qsort(names, (size_t)*n, sizeof *names, by_name);
    *out = names;
    return st;
}
