/* checkpoint_folder.c: folders of checkpoints: a hidden one while it is put together, one
 * rename, and hidden again before it is taken apart, so that what is seen is whole. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/vec.h"
#include "core/io/files.h"
#include "exec/state/state_internal.h"

static const char prefix[] = "step-", hidden[] = ".step-";

int64_t luo_checkpoint_step(const char *name)
{
    const size_t n = sizeof prefix - 1;
    if (strncmp(name, prefix, n) != 0 || strspn(name + n, "0123456789") != strlen(name + n))
        return -1;
    const size_t digits = strlen(name + n);
    return digits >= 6 && digits <= 18 ? strtoll(name + n, NULL, 10) : -1;
}

static void path_of(luo_str *out, const char *dir, int64_t step)
{
    luo_str_addf(out, "%s/%s%06lld", dir, prefix, (long long)step);
}

/* DIR/.step-000123.WHAT-PID */
static void hidden_path(luo_str *out, const char *dir, int64_t step, const char *what)
{
    luo_str_addf(out, "%s/%s%06lld.%s-%ld", dir, hidden, (long long)step, what, (long)getpid());
}

/* A folder of plain files and all that is in it; of a link the link, not what it leads to. */
static void remove_folder(const char *path)
{
    const int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    if (!d) {
        if (fd >= 0) close(fd);
        unlink(path);
        return;
    }
    for (const struct dirent *e; (e = readdir(d));)
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            unlinkat(dirfd(d), e->d_name, 0);
    closedir(d);
    rmdir(path);
}

void luo_checkpoint_discard(const char *temporary)
{
    remove_folder(temporary);
}

/* ---- listing ---- */

static int descending(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x < y) - (x > y);
}

luo_status luo_checkpoint_list(luo_arena *arena, const char *dir, int64_t **steps, int32_t *n,
                               luo_err *err)
{
    int64_t *at = NULL;
    int32_t count = 0, cap = 0;
    luo_status st = LUO_OK;
    DIR *d = opendir(dir);
    if (!d) return luo_io_err(err, "read", dir);
    for (const struct dirent *e; st == LUO_OK && (e = readdir(d));) {
        const int64_t step = luo_checkpoint_step(e->d_name);
        if (step < 0) continue;
        if (LUO_VEC_ROOM_IN(arena, at, count, cap))
            at[count++] = step;
        else
            st = luo_err_nomem(err);
    }
    closedir(d);
    if (st == LUO_OK && count) qsort(at, (size_t)count, sizeof *at, descending);
    *steps = at;
    *n = count;
    return st;
}

/* ---- putting together ---- */

static void remove_leftovers(const char *dir)
{
    luo_str path = {0};
    DIR *d = opendir(dir);
    if (!d) return;
    for (const struct dirent *e; (e = readdir(d));) {
        if (strncmp(e->d_name, hidden, sizeof hidden - 1) != 0) continue;
        luo_str_clear(&path);
        luo_str_addf(&path, "%s/%s", dir, e->d_name);
        if (!path.failed) remove_folder(path.at);
    }
    closedir(d);
    luo_str_free(&path);
}

luo_status luo_checkpoint_begin(const char *dir, int64_t step, luo_str *out, luo_err *err)
{
    LUO_TRY(luo_file_make_own_dir(dir, err));
    remove_leftovers(dir);
    hidden_path(out, dir, step, "tmp");
    if (out->failed) return luo_err_nomem(err);
    return mkdir(out->at, 0777) == 0 ? LUO_OK : luo_io_err(err, "make", out->at);
}

/* Both names are there before and after; where the file system cannot exchange them, a kill in
 * between leaves the new one hidden and the old one gone, and the steps before it untouched. */
static bool replace(const char *temporary, const char *final, const char *old)
{
    if (renameat2(AT_FDCWD, temporary, AT_FDCWD, final, RENAME_EXCHANGE) == 0) {
        remove_folder(temporary);
        return true;
    }
    if (errno != EINVAL && errno != ENOSYS) return false;
    if (rename(final, old) != 0 || rename(temporary, final) != 0) return false;
    remove_folder(old);
    return true;
}

luo_status luo_checkpoint_commit(const char *dir, int64_t step, const char *temporary, luo_err *err)
{
    luo_str final = {0}, old = {0};
    path_of(&final, dir, step);
    hidden_path(&old, dir, step, "old");
    luo_status st =
        final.failed || old.failed ? luo_err_nomem(err) : luo_replace_sync_folder(temporary, err);
    if (st == LUO_OK && rename(temporary, final.at) != 0) {
        const bool taken = errno == EEXIST || errno == ENOTEMPTY || errno == ENOTDIR; /* a link */
        if (!taken || !replace(temporary, final.at, old.at)) st = luo_io_err(err, "make", final.at);
    }
    if (st == LUO_OK) st = luo_replace_sync_folder(dir, err);
    luo_str_free(&final);
    luo_str_free(&old);
    return st;
}

void luo_checkpoint_prune(const char *dir, int64_t step, int32_t n)
{
    luo_arena *arena = luo_arena_new(0);
    int64_t *steps;
    int32_t count = 0, kept = 0;
    luo_str path = {0}, old = {0};
    if (!arena || luo_checkpoint_list(arena, dir, &steps, &count, NULL) != LUO_OK) count = 0;
    for (int32_t i = 0; i < count; i++) {
        if (steps[i] == step || kept++ < n) continue;
        luo_str_clear(&path);
        luo_str_clear(&old);
        path_of(&path, dir, steps[i]);
        hidden_path(&old, dir, steps[i], "old");
        if (!path.failed && !old.failed && rename(path.at, old.at) == 0) remove_folder(old.at);
    }
    luo_str_free(&path);
    luo_str_free(&old);
    luo_arena_free(arena);
}
