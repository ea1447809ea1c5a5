#include "core/io/result/resultset.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/io/document/names.h"
#include "core/io/files.h"
#include "core/io/replace.h"
#include "core/io/result/columns.h"

enum { OPEN_FOLDERS = 16, HEAD = 1024 }; /* HEAD: letters that tell whose a file is */

/* In a folder beside until it is put in place: before that it can go. */
#define LUO_SET_BEGUN ".begun"
/* What comes back from LUO_SET_OLD, until all of it is in place. */
#define LUO_SET_BACK ".back"

/* ---- names ---- */

/* False, and errno: too long. */
static bool join(char out[PATH_MAX], const char *dir, const char *name)
{
    const int n = snprintf(out, PATH_MAX, "%s/%s", dir, name);
    if (n >= 0 && n < PATH_MAX) return true;
    errno = ENAMETOOLONG;
    return false;
}

static bool there(const char *dir, const char *name)
{
    char path[PATH_MAX];
    struct stat info;
    return join(path, dir, name) && lstat(path, &info) == 0;
}

/* The folder of a run, or of one that was killed before it had a manifest. */
static bool is_run(const char *dir, const char *name)
{
    char path[PATH_MAX];
    if (!join(path, dir, name)) return false;
    return there(path, "manifest.json") || (there(path, "config") && there(path, "plans"));
}

static bool special(const char *name)
{
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0 || strcmp(name, LUO_LOCK_FILE) == 0 ||
           strcmp(name, LUO_SET_OLD) == 0 || strcmp(name, LUO_SET_BEGUN) == 0 ||
           strcmp(name, LUO_SET_BACK) == 0;
}

/* Of the entries of dir for which fn holds the first by name, whatever the order on the disk, is
 * put into name; false: there is none. */
typedef bool (*entry_fn)(const char *dir, const char *name, const void *ctx);
static bool find(const char *dir, entry_fn fn, const void *ctx, char name[NAME_MAX + 1])
{
    DIR *d = opendir(dir);
    bool found = false;
    for (const struct dirent *e; d && (e = readdir(d));) {
        if (special(e->d_name) || (found && strcmp(e->d_name, name) >= 0)) continue;
        if (!fn(dir, e->d_name, ctx)) continue;
        found = true;
        snprintf(name, NAME_MAX + 1, "%s", e->d_name);
    }
    if (d) closedir(d);
    return found;
}

static bool any_entry(const char *dir, const char *name, const void *ctx)
{
    (void)dir, (void)name, (void)ctx;
    return true;
}

static bool is_empty(const char *dir)
{
    char name[NAME_MAX + 1];
    return !find(dir, any_entry, NULL, name);
}

/* What ranks have said: rank 0 always does, unless all were killed at once. */
static bool is_ranks(const char *dir)
{
    return there(dir, "facts-0.csv") || there(dir, "ranks.log") || is_empty(dir);
}

/* Does the file begin so? NULL, of summary.json: with a schema of ours. */
static bool begins(const char *dir, const char *name, const char *line)
{
    char path[PATH_MAX], head[HEAD + 1];
    FILE *file = join(path, dir, name) ? fopen(path, "r") : NULL;
    if (!file) return false;
    const size_t n = fread(head, 1, HEAD, file);
    fclose(file);
    head[n] = 0;
    if (n == 0) return true; /* killed before it had written any */
    return line ? strncmp(head, line, strlen(line)) == 0
                : strstr(head, "\"schema\": \"" LUO_SET_FLAT_SCHEMA "\"") != NULL;
}

/* Of a run without policies. The folder of a run has such names of its own. */
static bool is_flat(const char *dir, const char *name)
{
    char path[PATH_MAX];
    if (!luo_name_of_flat(name) || there(dir, "manifest.json")) return false;
    const luo_table_def *def = luo_table_def_find(name);
    struct stat info;
    if (!join(path, dir, name) || lstat(path, &info) != 0) return false;
    if (S_ISDIR(info.st_mode)) return !def && is_ranks(path);
    if (!S_ISREG(info.st_mode)) return false;
    if (!def) return begins(dir, name, NULL); /* summary.json */
    luo_str header = {0};
    luo_table_def_header(&header, def);
    const bool ours = !header.failed && begins(dir, name, header.at);
    luo_str_free(&header);
    return ours;
}

static bool of_runs(const char *dir, const char *name, const void *ctx)
{
    (void)ctx;
    return strcmp(name, "compare.csv") == 0 || is_run(dir, name);
}

/* The set of one of several seeds, or the log of one that failed. */
static bool is_seed(const char *dir, const char *name)
{
    char path[PATH_MAX], first[NAME_MAX + 1];
    const char *digits = name + 4;
    const size_t n = strncmp(name, "seed", 4) == 0 ? strspn(digits, "0123456789") : 0;
    if (n == 0 || (digits[n] && strcmp(digits + n, ".log") != 0)) return false;
    if (snprintf(path, sizeof path, "%s/seed%.*s", dir, (int)n, digits) >= PATH_MAX) return false;
    return find(path, of_runs, NULL, first);
}

static bool of_set(const char *dir, const char *name)
{
    return luo_name_of_set(name) || is_run(dir, name) || is_seed(dir, name) || is_flat(dir, name);
}

static bool of_old(const char *dir, const char *name, const void *ctx)
{
    return of_runs(dir, name, ctx) || is_seed(dir, name) || is_flat(dir, name);
}

bool luo_set_old(const luo_set *set)
{
    char name[NAME_MAX + 1];
    return find(set->real, of_old, NULL, name);
}

luo_status luo_set_label(const luo_set *set, const char *label, luo_err *err)
{
    char path[PATH_MAX];
    if (!join(path, set->real, label)) return luo_io_err(err, "make", set->dir);
    if (!there(set->real, label) || is_run(set->real, label)) return LUO_OK;
    DIR *d = opendir(path);
    if (d) closedir(d);
    if (d && is_empty(path)) return LUO_OK;
    return luo_err_set(err, LUO_EUSAGE,
                       "`%s/%s` is in the way of a run and is none; move it, or give another "
                       "--out.",
                       set->dir, label);
}

static bool in_the_way(const char *dir, const char *name, const void *ctx)
{
    (void)ctx;
    return luo_name_of_flat(name) && !is_flat(dir, name);
}

luo_status luo_set_flat(const luo_set *set, luo_err *err)
{
    char name[NAME_MAX + 1];
    if (!find(set->real, in_the_way, NULL, name)) return LUO_OK;
    return luo_err_set(err, LUO_EUSAGE,
                       "`%s/%s` is in the way and no result that --force replaces; move it, or "
                       "give another --out.",
                       set->dir, name);
}

/* ---- removing ---- */

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *where)
{
    (void)info, (void)kind, (void)where;
    return remove(path);
}

static luo_status remove_tree(const char *path, luo_err *err)
{
    struct stat info;
    if (lstat(path, &info) != 0 && errno == ENOENT) return LUO_OK;
    return nftw(path, remove_one, OPEN_FOLDERS, FTW_DEPTH | FTW_PHYS) == 0
               ? LUO_OK
               : luo_io_err(err, "remove", path);
}

/* ---- what was under way when a process was killed ---- */

static luo_status mark(const char *dir, luo_err *err)
{
    char path[PATH_MAX];
    if (!join(path, dir, LUO_SET_BEGUN)) return luo_io_err(err, "make", dir);
    const int fd = open(path, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666);
    return fd >= 0 && close(fd) == 0 ? LUO_OK : luo_io_err(err, "make", path);
}

static void drop(const char *dir, const char *name)
{
    char path[PATH_MAX];
    if (join(path, dir, name)) unlink(path);
}

static bool put_in(const char *what, const char *dir, const char *name)
{
    char path[PATH_MAX];
    return join(path, dir, name) && rename(what, path) == 0;
}

static bool foreign(const char *dir, const char *name, const void *to)
{
    return !of_set(dir, name) && !there(to, name);
}

/* What is no part of a result set goes back to where it was. */
static bool bring_back(const char *from, const char *to)
{
    char name[NAME_MAX + 1], a[PATH_MAX];
    while (find(from, foreign, to, name))
        if (!join(a, from, name) || !put_in(a, to, name)) return false;
    return true;
}

static bool beside_of(const char *dir, const char *name, const void *base)
{
    const size_t n = strlen(base);
    (void)dir;
    return name[0] == '.' && strncmp(name + 1, base, n) == 0 &&
           strncmp(name + 1 + n, ".new-", 5) == 0;
}

/* What was replaced, out of LUO_SET_BACK; nothing if there is none. Can be done again. */
static luo_status put_back(const char *dir, luo_err *err)
{
    char back[PATH_MAX], name[NAME_MAX + 1], path[PATH_MAX];
    if (!there(dir, LUO_SET_BACK)) return LUO_OK;
    bool ok = join(back, dir, LUO_SET_BACK);
    if (ok) drop(back, LUO_LOCK_FILE);
    while (ok && find(back, any_entry, NULL, name))
        ok = join(path, back, name) && put_in(path, dir, name);
    if (ok && there(back, LUO_SET_OLD)) /* one that waited before */
        ok = join(path, back, LUO_SET_OLD) && put_in(path, dir, LUO_SET_OLD);
    return ok && rmdir(back) == 0 ? LUO_OK : luo_io_err(err, "move the results before from", back);
}

/* Folders beside of processes that are dead, as nobody but us has the lock: a set that was begun
 * and never put in place, or what was there before and has yet to go to its own place. */
static luo_status tidy(const luo_set *set, luo_err *err)
{
    char parent[PATH_MAX], left[PATH_MAX], name[NAME_MAX + 1];
    const char *slash = strrchr(set->real, '/');
    snprintf(parent, sizeof parent, "%.*s", (int)(slash - set->real) + (slash == set->real),
             set->real);
    drop(set->real, LUO_SET_BEGUN);
    LUO_TRY(put_back(set->real, err));
    while (find(parent, beside_of, slash + 1, name)) {
        if (!join(left, parent, name)) return luo_io_err(err, "read", parent);
        const bool old = !there(left, LUO_SET_BEGUN) && bring_back(left, set->real) &&
                         !there(set->real, LUO_SET_OLD) && put_in(left, set->real, LUO_SET_OLD);
        if (!old) LUO_TRY(remove_tree(left, err));
    }
    return LUO_OK;
}

/* ---- opening and closing ---- */

static luo_status check_empty(const luo_set *set, luo_err *err)
{
    char name[NAME_MAX + 1];
    if (!find(set->real, any_entry, NULL, name)) return LUO_OK;
    return luo_err_set(err, LUO_EUSAGE, "folder `%s` is not empty; give another --out, or --force.",
                       set->dir);
}

luo_status luo_set_open(luo_set *set, const char *dir, bool force, luo_err *err)
{
    struct stat info;
    const bool is = stat(dir, &info) == 0;
    *set = (luo_set){.made = !is};
    if (is && !S_ISDIR(info.st_mode))
        return luo_err_set(err, LUO_EUSAGE,
                           "`%s` cannot be used as a folder: not a directory; give another --out.",
                           dir);
    luo_status st = luo_file_make_dir(dir, err);
    if (st == LUO_OK) {
        set->dir = strdup(dir);
        set->real = realpath(dir, NULL);
        if (!set->dir || !set->real) st = luo_err_nomem(err);
    }
    if (st == LUO_OK) st = luo_lock_take(&set->lock, dir, err);
    if (st == LUO_OK) st = tidy(set, err);
    if (st == LUO_OK && !force) st = check_empty(set, err);
    if (st != LUO_OK) luo_set_close(set, false, NULL);
    return st;
}

bool luo_set_replaced(const luo_set *set)
{
    return set->real && there(set->real, LUO_SET_OLD);
}

static bool written(const char *dir, const char *name, const void *ctx)
{
    const luo_set *set = ctx;
    return set->replaced ? of_set(dir, name) : is_flat(dir, name) || is_run(dir, name);
}

luo_status luo_set_undo(luo_set *set, luo_err *err)
{
    char name[NAME_MAX + 1], path[PATH_MAX];
    if (!set->real) return LUO_OK;
    while (find(set->real, written, set, name)) {
        if (!join(path, set->real, name)) return luo_io_err(err, "remove", set->dir);
        LUO_TRY(remove_tree(path, err));
    }
    if (set->replaced) {
        if (!join(path, set->real, LUO_SET_OLD) || !put_in(path, set->real, LUO_SET_BACK))
            return luo_io_err(err, "move", path);
        LUO_TRY(put_back(set->real, err));
    }
    luo_lock_give(&set->lock);
    if (set->made) rmdir(set->real); /* unless somebody else has used it */
    return LUO_OK;
}

luo_status luo_set_close(luo_set *set, bool whole, luo_err *err)
{
    char old[PATH_MAX];
    luo_status st = LUO_OK;
    if (whole && set->real && join(old, set->real, LUO_SET_OLD)) st = remove_tree(old, err);
    luo_lock_give(&set->lock);
    free(set->dir);
    free(set->real);
    *set = (luo_set){0};
    return st;
}

/* ---- what the runs read ---- */

/* The part of path below dir; NULL: it lies elsewhere. path may be a name of nothing. */
static char *below(const char *dir, const char *path)
{
    char *whole = path ? realpath(path, NULL) : NULL;
    const size_t n = strlen(dir);
    char *part = NULL;
    if (whole && strncmp(whole, dir, n) == 0 && whole[n] == '/') part = strdup(whole + n + 1);
    if (whole && strcmp(whole, dir) == 0) part = strdup("");
    free(whole);
    return part;
}

static bool replaced(const luo_set *set, const char *path)
{
    char *part = below(set->real, path);
    bool hit = false;
    if (part) {
        part[strcspn(part, "/")] = 0;
        hit = *part && (strcmp(part, LUO_SET_OLD) == 0 || of_set(set->real, part));
    }
    free(part);
    return hit;
}

static luo_status check_read(const luo_set *set, const luo_set_new *how, luo_err *err)
{
    for (int32_t i = 0; i < how->nread; i++)
        if (how->read[i] && replaced(set, how->read[i]))
            return luo_err_set(err, LUO_EUSAGE,
                               "`%s` is read by this run and lies among the results that --force "
                               "replaces; copy it, or give another --out.",
                               how->read[i]);
    char *here = below(set->real, ".");
    const bool inside = here != NULL;
    free(here);
    if (!inside) return LUO_OK;
    return luo_err_set(err, LUO_EUSAGE,
                       "you stand in folder `%s`, whose results --force replaces; go elsewhere, or "
                       "give another --out.",
                       set->dir);
}

/* ---- carrying on: links to the files of a folder ---- */

static struct {
    const char *to;
    size_t from; /* letters of the folder that is left */
} linking;       /* nftw hands nothing on */

static int link_one(const char *path, const struct stat *info, int kind, struct FTW *where)
{
    char to[PATH_MAX];
    (void)info, (void)where;
    if (!join(to, linking.to, path + linking.from + 1)) return -1;
    if (kind == FTW_D) return mkdir(to, 0777) == 0 || errno == EEXIST ? 0 : -1;
    return link(path, to);
}

static luo_status carry(const luo_set *set, const char *keep, const char *to, luo_err *err)
{
    char folder[PATH_MAX];
    char *part = below(set->real, keep), *from = part ? realpath(keep, NULL) : NULL;
    luo_status st = LUO_OK;
    if (from && replaced(set, keep)) {
        linking.to = to;
        linking.from = strlen(set->real);
        *(strrchr(part, '/') ? strrchr(part, '/') : part) = 0; /* its parent */
        st =
            join(folder, to, part) ? luo_file_make_dir(folder, err) : luo_io_err(err, "keep", keep);
        if (st == LUO_OK && nftw(from, link_one, OPEN_FOLDERS, FTW_PHYS) != 0)
            st = luo_io_err(err, "keep", keep);
    }
    free(part);
    free(from);
    return st;
}

/* ---- changing places ---- */

/* The name of what is beside: .NAME.new-PID, in the same folder. */
static luo_status beside(const luo_set *set, char out[PATH_MAX], luo_err *err)
{
    const char *slash = strrchr(set->real, '/');
    if (snprintf(out, PATH_MAX, "%.*s/.%s.new-%ld", (int)(slash - set->real), set->real, slash + 1,
                 (long)getpid()) < PATH_MAX)
        return LUO_OK;
    errno = ENAMETOOLONG;
    return luo_io_err(err, "make", set->dir);
}

/* Where the file system cannot exchange, DIR is missing for a moment and both are beside it. */
static bool exchange(const char *a, const char *b)
{
    char aside[PATH_MAX];
    if (renameat2(AT_FDCWD, a, AT_FDCWD, b, RENAME_EXCHANGE) == 0) return true;
    if (errno != EINVAL && errno != ENOSYS) return false;
    if (snprintf(aside, sizeof aside, "%s-old", a) >= PATH_MAX) return false;
    if (rename(b, aside) != 0) return false;
    return rename(a, b) == 0 && rename(aside, a) == 0;
}

/* From the exchange on, `new` is the folder of what was there before. */
static luo_status swap(luo_set *set, const char *new, luo_lock *lock, bool *done, luo_err *err)
{
    LUO_TRY(luo_replace_sync_folder(new, err));
    *done = exchange(new, set->real);
    if (!*done)
        return luo_err_set(err, LUO_EUSAGE,
                           "folder `%s` cannot be replaced: %s; give another --out.", set->dir,
                           strerror(errno));
    const int was = set->lock.fd; /* of a file that is in `new` now */
    set->lock.fd = lock->fd;
    free(lock->path);
    *lock = (luo_lock){0};
    drop(set->real, LUO_SET_BEGUN);
    const bool moved = bring_back(new, set->real) && put_in(new, set->real, LUO_SET_OLD);
    close(was);
    return moved ? LUO_OK : luo_io_err(err, "move the results before from", new);
}

luo_status luo_set_replace(luo_set *set, const luo_set_new *how, luo_err *err)
{
    char new[PATH_MAX];
    luo_lock lock = {0};
    bool done = false;
    LUO_TRY(check_read(set, how, err));
    LUO_TRY(beside(set, new, err));
    if (mkdir(new, 0777) != 0) return luo_io_err(err, "make", new);
    luo_status st = luo_lock_take(&lock, new, err);
    if (st == LUO_OK) st = mark(new, err);
    if (st == LUO_OK) st = how->begin(how->ctx, new, err);
    if (st == LUO_OK && how->keep) st = carry(set, how->keep, new, err);
    if (st == LUO_OK) st = swap(set, new, &lock, &done, err);
    set->replaced = done;
    luo_lock_give(&lock);
    if (!done) remove_tree(new, NULL);
    return st;
}
