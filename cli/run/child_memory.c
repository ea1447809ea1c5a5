#include "cli/run/child_memory.h"

#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/io/files.h"

static luo_status copy_file(const char *from, const char *to, luo_err *err)
{
    const int in = open(from, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (in < 0) return luo_io_err(err, "read", from);
    const int out = luo_file_new(to, 0);
    luo_status st = out < 0 ? luo_io_err(err, "write", to) : LUO_OK;
    ssize_t n = 1;
    while (st == LUO_OK && n > 0) {
        n = sendfile(out, in, NULL, (size_t)1 << 30);
        if (n < 0) st = luo_io_err(err, "write", to);
    }
    if (out >= 0 && close(out) != 0 && st == LUO_OK) st = luo_io_err(err, "write", to);
    close(in);
    return st;
}

/* A checkpoint: a folder of files. */
static luo_status copy_folder(const char *from, const char *to, luo_err *err)
{
    luo_status st = luo_file_make_dir(to, err);
    DIR *dir = opendir(from);
    if (!dir && st == LUO_OK) st = luo_io_err(err, "read", from);
    for (const struct dirent *e; st == LUO_OK && (e = readdir(dir)) != NULL;) {
        luo_str text = {0}, b = {0};
        luo_str_addf(&text, "%s/%s", from, e->d_name);
        luo_str_addf(&b, "%s/%s", to, e->d_name);
        if (text.failed || b.failed)
            st = luo_err_nomem(err);
        else if (e->d_type == DT_REG)
            st = copy_file(luo_str_get(&text), luo_str_get(&b), err);
        luo_str_free(&text);
        luo_str_free(&b);
    }
    if (dir) closedir(dir);
    return st;
}

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *where)
{
    (void)info;
    (void)kind;
    (void)where;
    remove(path);
    return 0;
}

static void remove_all(const char *path)
{
    nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* It appears by one rename, as if the ranks had written it there. */
static luo_status keep_one(const char *memory, const char *name, const char *keep, luo_err *err)
{
    luo_str from = {0}, part = {0}, to = {0};
    luo_str_addf(&from, "%s/%s", memory, name);
    luo_str_addf(&part, "%s/.%s", keep, name);
    luo_str_addf(&to, "%s/%s", keep, name);
    luo_status st = from.failed || part.failed || to.failed ? luo_err_nomem(err) : LUO_OK;
    if (st == LUO_OK) st = copy_folder(luo_str_get(&from), luo_str_get(&part), err);
    if (st == LUO_OK && rename(luo_str_get(&part), luo_str_get(&to)) != 0)
        st = luo_io_err(err, "write", luo_str_get(&to));
    if (st != LUO_OK && !part.failed) remove_all(luo_str_get(&part));
    luo_str_free(&from);
    luo_str_free(&part);
    luo_str_free(&to);
    return st;
}

luo_status luo_child_memory_close(luo_scratch *memory, const char *keep, luo_err *err)
{
    luo_status st = LUO_OK;
    DIR *dir = memory->path[0] ? opendir(memory->path) : NULL;
    for (const struct dirent *e; dir && st == LUO_OK && keep && (e = readdir(dir)) != NULL;)
        if (e->d_name[0] != '.') st = keep_one(memory->path, e->d_name, keep, err);
    if (dir) closedir(dir);
    luo_scratch_close(memory);
    return st;
}
