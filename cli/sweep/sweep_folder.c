#include "cli/sweep/sweep_folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "core/base/vec.h"
#include "core/io/files.h"
#include "core/io/result/result.h"

#define PARTS "sweep-parts"
#define JOURNAL "rows.csv"

static const char *path_in(const luo_sweep_folder *f, const char *name)
{
    return luo_arena_printf(f->cli->arena, "%s/%s", f->dir, name);
}

/* The folder itself, for a moment; where its file system has no locks, parts may wait in vain for
 * each other's rows, and the next call finds them. -1: it cannot be opened. */
static int hold(const luo_sweep_folder *f)
{
    const int fd = open(f->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0)
        while (flock(fd, LOCK_EX) != 0 && errno == EINTR) continue;
    return fd;
}

/* ---- folders of parts ---- */

static int is_part(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

/* Calls `visit` with the folder of each part, by name. */
static luo_status each_part(luo_sweep_folder *f,
                            luo_status (*visit)(luo_sweep_folder *f, const char *dir, luo_err *err),
                            luo_err *err)
{
    struct dirent **entry = NULL;
    const char *parts = path_in(f, PARTS);
    luo_status st = parts ? LUO_OK : luo_err_nomem(err);
    const int n = parts ? scandir(parts, &entry, is_part, alphasort) : 0;
    for (int i = 0; i < n; i++) {
        const char *dir = luo_arena_printf(f->cli->arena, "%s/%s", parts, entry[i]->d_name);
        if (st == LUO_OK) st = dir ? visit(f, dir, err) : luo_err_nomem(err);
        free(entry[i]);
    }
    free(entry);
    return st;
}

static luo_status read_part(luo_sweep_folder *f, const char *dir, luo_err *err)
{
    luo_diags diags;
    if (!luo_result_has(dir, JOURNAL)) return LUO_OK;
    luo_diags_init(&diags, f->cli->arena);
    const luo_status st = luo_sweep_read(f->cli->arena, dir, JOURNAL, f->grid, &f->rows, &diags);
    for (const luo_diag *d = diags.first; st != LUO_OK && d; d = d->next)
        if (d->severity == LUO_ERROR) *err = d->err;
    return st;
}

/* Not while a process works on it. */
static luo_status remove_part(luo_sweep_folder *f, const char *dir, luo_err *err)
{
    luo_lock lock;
    const char *journal = luo_arena_printf(f->cli->arena, "%s/%s", dir, JOURNAL);
    if (!journal) return luo_err_nomem(err);
    LUO_TRY(luo_lock_take(&lock, dir, err));
    unlink(journal);
    luo_lock_give(&lock);
    rmdir(dir); /* what else lies there stays */
    return LUO_OK;
}

static luo_status remove_sweep(luo_sweep_folder *f, luo_err *err)
{
    static const char *const files[] = {"sweep.csv", "plots/swept.csv",
                                       LUO_SWEEP_ANSWER, LUO_SWEEP_DEFINITION};
    LUO_TRY(each_part(f, remove_part, err));
    for (int k = 1; k <= LUO_SWEEP_KEYS; k++) {
        const char *svg = luo_arena_printf(f->cli->arena, "%s/plots/sweep-%d.svg", f->dir, k);
        const char *png = luo_arena_printf(f->cli->arena, "%s/plots/sweep-%d.png", f->dir, k);
        if (!svg || !png) return luo_err_nomem(err);
        unlink(svg);
        unlink(png);
    }
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        const char *path = path_in(f, files[i]);
        if (!path) return luo_err_nomem(err);
        unlink(path);
    }
    return LUO_OK;
}

/* ---- opening ---- */

static bool is_empty(const luo_sweep_folder *f)
{
    struct dirent **entry = NULL;
    const int n = scandir(f->dir, &entry, is_part, NULL);
    for (int i = 0; i < n; i++) free(entry[i]);
    free(entry);
    return n <= 0;
}

/* Is it this sweep's, or free for it? */
static luo_status claim(luo_sweep_folder *f, const char *definition, luo_err *err)
{
    luo_source old;
    const bool force = luo_args_has(&f->cli->args, "force");
    const char *path = path_in(f, LUO_SWEEP_DEFINITION);
    if (!path) return luo_err_nomem(err);
    if (luo_result_has(f->dir, LUO_SWEEP_DEFINITION)) {
        LUO_TRY(luo_source_read(f->cli->arena, path, &old, err));
        if (strcmp(old.text, definition) == 0) return LUO_OK;
        if (!force)
            return luo_err_set(err, LUO_EUSAGE,
                               "folder `%s` has a sweep of other keys, values, seeds, options or "
                               "files; give another --out, or --force to replace it.",
                               f->dir);
        LUO_TRY(remove_sweep(f, err));
    } else if (!force && !is_empty(f)) {
        return luo_err_set(err, LUO_EUSAGE,
                           "folder `%s` is not empty; give another --out, or --force.", f->dir);
    }
    return luo_file_write_own(path, definition, strlen(definition), err);
}

static luo_status put_rows(luo_sweep_folder *f, const luo_sweep_row *rows, int64_t n, luo_err *err)
{
    for (int64_t i = 0; i < n; i++)
        LUO_TRY(luo_sweep_put(f->cli->arena, &f->journal, f->grid, &rows[i], err));
    return luo_table_flush(&f->journal, err);
}

/* A new journal with the whole units of the old one takes its place. */
static luo_status open_journal(luo_sweep_folder *f, const char *dir, luo_err *err)
{
    luo_table_def *def = LUO_NEW(f->cli->arena, luo_table_def);
    char name[64];
    snprintf(name, sizeof name, JOURNAL ".tmp-%ld", (long)getpid());
    const char *temporary = luo_arena_printf(f->cli->arena, "%s/%s", dir, name);
    const char *final = luo_arena_printf(f->cli->arena, "%s/%s", dir, JOURNAL);
    if (!def || !temporary || !final) return luo_err_nomem(err);
    *def = *luo_table_def_at(LUO_TABLE_SWEEP);
    def->file = luo_arena_strdup(f->cli->arena, name);
    if (!def->file) return luo_err_nomem(err);
    LUO_TRY(luo_table_open(&f->journal, dir, def, err));
    LUO_TRY(put_rows(f, f->rows.at, f->rows.n, err));
    return rename(temporary, final) == 0 ? LUO_OK : luo_io_err(err, "write", final);
}

luo_status luo_sweep_folder_open(luo_sweep_folder *f, const char *definition, luo_err *err)
{
    char name[64];
    snprintf(name, sizeof name, PARTS "/%d-of-%d", (int)f->part, (int)f->parts);
    const char *dir = path_in(f, name);
    if (!dir) return luo_err_nomem(err);
    LUO_TRY(luo_file_make_dir(f->dir, err));
    const int held = hold(f);
    luo_status st = claim(f, definition, err);
    if (st == LUO_OK) st = luo_file_make_own_dir(dir, err);
    if (st == LUO_OK) st = luo_lock_take(&f->lock, dir, err);
    if (held >= 0) close(held);
    LUO_TRY(st);
    LUO_TRY(read_part(f, dir, err));
    LUO_TRY(open_journal(f, dir, err));
    return each_part(f, read_part, err);
}

luo_status luo_sweep_folder_put(luo_sweep_folder *f, const luo_sweep_row *rows, int32_t n,
                                luo_err *err)
{
    return put_rows(f, rows, n, err);
}

/* ---- the end ---- */

luo_status luo_sweep_folder_merge(luo_sweep_folder *f, int64_t units, int64_t *missing,
                                  luo_err *err)
{
    const int held = hold(f);
    luo_sweep_rows_free(&f->rows);
    *missing = 0;
    luo_status st = each_part(f, read_part, err);
    for (int64_t i = 0; i < units; i++) *missing += luo_sweep_find(&f->rows, i) < 0;
    if (st == LUO_OK && *missing == 0) {
        luo_sweep_sort(&f->rows);
        st = luo_sweep_write(f->cli->arena, f->dir, f->grid, &f->rows, err);
    }
    if (held >= 0) close(held);
    return st;
}

luo_status luo_sweep_folder_close(luo_sweep_folder *f, luo_err *err)
{
    const luo_status st = luo_table_close(&f->journal, err);
    luo_lock_give(&f->lock);
    luo_sweep_rows_free(&f->rows);
    return st;
}
