#include "core/io/scratch.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "core/io/files.h"

#define MEMORY "/dev/shm"

/* NEW_S: so old is a folder without a lock that its process was killed while it made it. */
enum { OPEN_FOLDERS = 16, NEW_S = 60 };

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *where)
{
    (void)info, (void)kind, (void)where;
    remove(path);
    return 0; /* the others go all the same */
}

static void remove_tree(const char *path)
{
    nftw(path, remove_one, OPEN_FOLDERS, FTW_DEPTH | FTW_PHYS);
}

/* Nobody else can have put something there: a folder and no link, of this user, closed to others.
 */
static bool is_ours(const char *path, time_t *changed)
{
    struct stat info;
    if (lstat(path, &info) != 0 || !S_ISDIR(info.st_mode)) return false;
    *changed = info.st_mtime;
    return info.st_uid == geteuid() && (info.st_mode & 077) == 0;
}

static void sweep_one(const char *path)
{
    time_t changed;
    if (!is_ours(path, &changed)) return;
    if (luo_lock_left(path))
        remove_tree(path);
    else if (time(NULL) - changed > NEW_S)
        rmdir(path); /* if it is empty */
}

static void begin_of(char *out, size_t size)
{
    snprintf(out, size, "luoshu-%ld-", (long)geteuid());
}

void luo_scratch_sweep(void)
{
    char begin[32], path[64];
    DIR *dir = opendir(MEMORY);
    begin_of(begin, sizeof begin);
    for (const struct dirent *e; dir && (e = readdir(dir));)
        if (strncmp(e->d_name, begin, strlen(begin)) == 0 &&
            snprintf(path, sizeof path, MEMORY "/%s", e->d_name) < (int)sizeof path)
            sweep_one(path);
    if (dir) closedir(dir);
}

luo_status luo_scratch_open(luo_scratch *scratch, luo_err *err)
{
    char begin[32];
    luo_scratch_sweep();
    begin_of(begin, sizeof begin);
    *scratch = (luo_scratch){0};
    snprintf(scratch->path, sizeof scratch->path, MEMORY "/%sXXXXXX", begin);
    if (!mkdtemp(scratch->path)) {
        const luo_status st = luo_io_err(err, "make a folder in", MEMORY);
        *scratch = (luo_scratch){0};
        return st;
    }
    const luo_status st = luo_lock_take(&scratch->lock, scratch->path, err);
    if (st != LUO_OK) luo_scratch_close(scratch);
    return st;
}

void luo_scratch_close(luo_scratch *scratch)
{
    if (scratch->path[0]) remove_tree(scratch->path);
    luo_lock_give(&scratch->lock);
    *scratch = (luo_scratch){0};
}
