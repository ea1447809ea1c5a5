/* import_walk.c: files of a source, one after another in an order that no file system decides. */
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/vec.h"
#include "core/io/document/input.h"
#include "core/io/import/import_internal.h"

enum { DEPTH = 200 };

luo_status import_read(import_job *job, const char *path, int fd, void *out, size_t size,
                       size_t *got)
{
    char *at = out;
    *got = 0;
    while (*got < size) {
        const ssize_t n = read(fd, at + *got, size - *got);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return luo_input_unreadable(path, &job->err);
        if (n == 0) break;
        *got += (size_t)n;
    }
    return LUO_OK;
}

static luo_status one_file(import_job *job, const char *path, luo_input what, import_file_fn *fn)
{
    int fd;
    LUO_TRY(luo_input_open(path, what, "a file or a folder", &fd, &job->err));
    const luo_status st = fn(job, path, fd);
    close(fd);
    return st;
}

typedef struct names { /* in a folder */
    char **at;
    int64_t n, cap;
} names;

static void free_names(names *list)
{
    for (int64_t i = 0; i < list->n; i++) free(list->at[i]);
    free(list->at);
}

static int by_bytes(const void *x, const void *y)
{
    return strcmp(*(char *const *)x, *(char *const *)y);
}

static luo_status add_name(import_job *job, names *list, const char *name)
{
    if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0) return LUO_OK;
    char *copy = LUO_VEC_ROOM(list->at, list->n, list->cap) ? strdup(name) : NULL;
    if (!copy) return luo_err_nomem(&job->err);
    list->at[list->n++] = copy;
    return LUO_OK;
}

static luo_status list_folder(import_job *job, const char *path, names *out)
{
    DIR *dir = opendir(path);
    luo_status st = LUO_OK;
    if (!dir) return luo_input_unreadable(path, &job->err);
    for (;;) {
        errno = 0;
        const struct dirent *entry = readdir(dir);
        if (!entry && errno) st = luo_input_unreadable(path, &job->err);
        if (entry) st = add_name(job, out, entry->d_name);
        if (!entry || st != LUO_OK) break;
    }
    closedir(dir);
    if (out->n) qsort(out->at, (size_t)out->n, sizeof *out->at, by_bytes);
    return st;
}

static luo_status walk(import_job *job, luo_str *path, int depth, import_file_fn *fn);

static luo_status visit(import_job *job, luo_str *path, int depth, import_file_fn *fn)
{
    struct stat info;
    if (lstat(path->at, &info) != 0) return luo_input_unreadable(path->at, &job->err);
    LUO_TRY(import_check_not_out(job, path->at, &info));
    if (S_ISDIR(info.st_mode)) return walk(job, path, depth + 1, fn);
    if (S_ISREG(info.st_mode)) return one_file(job, path->at, LUO_INPUT_FILE, fn);
    job->made.skipped[S_ISLNK(info.st_mode) ? LUO_IMPORT_LINKS : LUO_IMPORT_SPECIAL]++;
    return LUO_OK;
}

static luo_status walk(import_job *job, luo_str *path, int depth, import_file_fn *fn)
{
    const size_t stem = path->len;
    names list = {0};
    if (depth > DEPTH)
        return luo_err_set(&job->err, LUO_E2BIG,
                           "`%.200s..` lies in more than %d folders of `%s`; a flatter source is "
                           "expected.",
                           path->at, DEPTH, job->opts->source);
    luo_status st = list_folder(job, path->at, &list);
    for (int64_t i = 0; st == LUO_OK && i < list.n; i++) {
        if (path->at[stem - 1] != '/') luo_str_addc(path, '/');
        luo_str_add(path, list.at[i]);
        st = path->failed ? luo_err_nomem(&job->err) : visit(job, path, depth, fn);
        path->len = stem;
        if (path->at) path->at[stem] = 0;
    }
    free_names(&list);
    return st;
}

luo_status import_each_file(import_job *job, import_file_fn *fn)
{
    const char *source = job->opts->source;
    struct stat info;
    luo_str path = {0};
    if (stat(source, &info) != 0) return luo_input_unreadable(source, &job->err);
    if (!S_ISDIR(info.st_mode)) return one_file(job, source, LUO_INPUT_READ, fn);
    LUO_TRY(import_check_not_out(job, source, &info));
    luo_str_add(&path, source);
    const luo_status st = path.failed ? luo_err_nomem(&job->err) : walk(job, &path, 1, fn);
    luo_str_free(&path);
    return st;
}
