#include "cli/child_memory.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/io/files.h"

const char *luo_child_memory(luo_cli *cli, pid_t parent, int32_t index)
{
    return luo_arena_printf(cli->arena, "/dev/shm/luoshu-%ld-%d", (long)parent, (int)index);
}

luo_status luo_child_memory_open(const char *memory, luo_err *err)
{
    if (mkdir(memory, 0700) == 0) return LUO_OK;
    return luo_err_io(err, "make", memory);
}

static luo_status copy_file(const char *from, const char *to, luo_err *err)
{
    const int in = open(from, O_RDONLY | O_CLOEXEC);
    if (in < 0) return luo_err_io(err, "read", from);
    const int out = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    luo_status st = out < 0 ? luo_err_io(err, "write", to) : LUO_OK;
    ssize_t n = 1;
    while (st == LUO_OK && n > 0) {
        n = sendfile(out, in, NULL, (size_t)1 << 30);
        if (n < 0) st = luo_err_io(err, "write", to);
    }
    if (out >= 0 && close(out) != 0 && st == LUO_OK) st = luo_err_io(err, "write", to);
    close(in);
    return st;
}

static luo_status empty(const char *from, const char *to, luo_err *err);

static luo_status take_away(const char *from, bool folder, const char *to, luo_err *err)
{
    luo_status st = LUO_OK;
    if (folder) st = empty(from, to, err);
    else if (to) st = copy_file(from, to, err);
    if (folder) rmdir(from);
    else unlink(from);
    return st;
}

/* What a folder holds goes to `to` (NULL: nowhere) and away. The first error is kept; all the rest
 * is removed nevertheless. */
static luo_status empty(const char *from, const char *to, luo_err *err)
{
    DIR *dir = opendir(from);
    luo_status st = LUO_OK;
    if (!dir) return errno == ENOENT ? LUO_OK : luo_err_io(err, "read", from);
    if (to) st = luo_dir_make(to, err);
    for (const struct dirent *e = readdir(dir); e; e = readdir(dir)) {
        luo_str a = {0}, b = {0};
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) continue;
        luo_str_addf(&a, "%s/%s", from, e->d_name);
        if (to) luo_str_addf(&b, "%s/%s", to, e->d_name);
        const char *target = to && st == LUO_OK ? luo_str_get(&b) : NULL;
        luo_err why = {0};
        luo_status one = a.failed || b.failed ? luo_err_nomem(&why) : LUO_OK;
        if (one == LUO_OK) one = take_away(luo_str_get(&a), e->d_type == DT_DIR, target, &why);
        if (one != LUO_OK && st == LUO_OK) st = luo_err_set(err, one, "%s", why.text);
        luo_str_free(&a);
        luo_str_free(&b);
    }
    closedir(dir);
    return st;
}

luo_status luo_child_memory_close(const char *memory, const char *keep, luo_err *err)
{
    const luo_status st = empty(memory, keep, err);
    rmdir(memory);
    return st;
}
