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

static const char *path_in(const luo_sweep_folder *folder, const char *name)
{
    return luo_arena_printf(folder->cli->arena, "%s/%s", folder->dir, name);
}

/* The folder itself, for a moment; where its file system has no locks, parts may wait in vain for
 * each other's rows, and the next call finds them. -1: it cannot be opened. */
static int hold(const luo_sweep_folder *folder)
{
    const int fd = open(folder->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
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
static luo_status each_part(luo_sweep_folder *folder,
                            luo_status (*visit)(luo_sweep_folder *folder, const char *dir,
                                                luo_err *err),
                            luo_err *err)
{
    struct dirent **entry = NULL;
    const char *parts = path_in(folder, PARTS);
    luo_status st = parts ? LUO_OK : luo_err_nomem(err);
    const int n = parts ? scandir(parts, &entry, is_part, alphasort) : 0;
    for (int i = 0; i < n; i++) {
        const char *dir = luo_arena_printf(folder->cli->arena, "%s/%s", parts, entry[i]->d_name);
        if (st == LUO_OK) st = dir ? visit(folder, dir, err) : luo_err_nomem(err);
        free(entry[i]);
    }
    free(entry);
    return st;
}

static luo_status read_part(luo_sweep_folder *folder, const char *dir, luo_err *err)
{
    luo_diags diags;
    if (!luo_result_has(dir, JOURNAL)) return LUO_OK;
    luo_diags_init(&diags, folder->cli->arena);
    const luo_status st =
        luo_sweep_read(folder->cli->arena, dir, JOURNAL, folder->grid, &folder->rows, &diags);
    for (const luo_diag *diag = diags.first; st != LUO_OK && diag; diag = diag->next)
        if (diag->severity == LUO_ERROR) *err = diag->err;
    return st;
}

/* Not while a process works on it. */
static luo_status remove_part(luo_sweep_folder *folder, const char *dir, luo_err *err)
{
    luo_lock lock;
    const char *journal = luo_arena_printf(folder->cli->arena, "%s/%s", dir, JOURNAL);
    if (!journal) return luo_err_nomem(err);
    LUO_TRY(luo_lock_take(&lock, dir, err));
    unlink(journal);
    luo_lock_give(&lock);
    rmdir(dir); /* what else lies there stays */
    return LUO_OK;
}

static luo_status remove_sweep(luo_sweep_folder *folder, luo_err *err)
{
    static const char *const files[] = {"sweep.csv", "plots/swept.csv",
                                       LUO_SWEEP_ANSWER, LUO_SWEEP_DEFINITION};
    LUO_TRY(each_part(folder, remove_part, err));
    for (int k = 1; k <= LUO_SWEEP_KEYS; k++) {
        const char *svg =
            luo_arena_printf(folder->cli->arena, "%s/plots/sweep-%d.svg", folder->dir, k);
        const char *png =
            luo_arena_printf(folder->cli->arena, "%s/plots/sweep-%d.png", folder->dir, k);
        if (!svg || !png) return luo_err_nomem(err);
        unlink(svg);
        unlink(png);
    }
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        const char *path = path_in(folder, files[i]);
        if (!path) return luo_err_nomem(err);
        unlink(path);
    }
    return LUO_OK;
}

/* ---- opening ---- */

static bool is_empty(const luo_sweep_folder *folder)
{
    struct dirent **entry = NULL;
    const int n = scandir(folder->dir, &entry, is_part, NULL);
    for (int i = 0; i < n; i++) free(entry[i]);
    free(entry);
    return n <= 0;
}

/* Is it this sweep's, or free for it? */
static luo_status claim(luo_sweep_folder *folder, const char *definition, luo_err *err)
{
    luo_source old;
    const bool force = luo_args_has(&folder->cli->args, "force");
    const char *path = path_in(folder, LUO_SWEEP_DEFINITION);
    if (!path) return luo_err_nomem(err);
    if (luo_result_has(folder->dir, LUO_SWEEP_DEFINITION)) {
        LUO_TRY(luo_source_read(folder->cli->arena, path, &old, err));
        if (strcmp(old.text, definition) == 0) return LUO_OK;
        if (!force)
            return luo_err_set(err, LUO_EUSAGE,
                               "folder `%s` has a sweep of other keys, values, seeds, options or "
                               "files; give another --out, or --force to replace it.",
                               folder->dir);
        LUO_TRY(remove_sweep(folder, err));
    } else if (!force && !is_empty(folder)) {
        return luo_err_set(err, LUO_EUSAGE,
                           "folder `%s` is not empty; give another --out, or --force.",
                           folder->dir);
    }
    return luo_file_write_own(path, definition, strlen(definition), err);
}

static luo_status put_rows(luo_sweep_folder *folder, const luo_sweep_row *rows, int64_t n,
                           luo_err *err)
{
    for (int64_t i = 0; i < n; i++)
        LUO_TRY(luo_sweep_put(folder->cli->arena, &folder->journal, folder->grid, &rows[i], err));
    return luo_table_flush(&folder->journal, err);
}

/* A new journal with the whole units of the old one takes its place. */
static luo_status open_journal(luo_sweep_folder *folder, const char *dir, luo_err *err)
{
    luo_table_def *def = LUO_NEW(folder->cli->arena, luo_table_def);
    char name[64];
    snprintf(name, sizeof name, JOURNAL ".tmp-%ld", (long)getpid());
    const char *temporary = luo_arena_printf(folder->cli->arena, "%s/%s", dir, name);
    const char *final = luo_arena_printf(folder->cli->arena, "%s/%s", dir, JOURNAL);
    if (!def || !temporary || !final) return luo_err_nomem(err);
    *def = *luo_table_def_at(LUO_TABLE_SWEEP);
    def->file = luo_arena_strdup(folder->cli->arena, name);
    if (!def->file) return luo_err_nomem(err);
    LUO_TRY(luo_table_open(&folder->journal, dir, def, err));
    LUO_TRY(put_rows(folder, folder->rows.at, folder->rows.n, err));
    return rename(temporary, final) == 0 ? LUO_OK : luo_io_err(err, "write", final);
}

luo_status luo_sweep_folder_open(luo_sweep_folder *folder, const char *definition, luo_err *err)
{
    char name[64];
    snprintf(name, sizeof name, PARTS "/%d-of-%d", (int)folder->part, (int)folder->parts);
    const char *dir = path_in(folder, name);
    if (!dir) return luo_err_nomem(err);
    LUO_TRY(luo_file_make_dir(folder->dir, err));
    const int held = hold(folder);
    luo_status st = claim(folder, definition, err);
    if (st == LUO_OK) st = luo_file_make_own_dir(dir, err);
    if (st == LUO_OK) st = luo_lock_take(&folder->lock, dir, err);
    if (held >= 0) close(held);
    LUO_TRY(st);
    LUO_TRY(read_part(folder, dir, err));
    LUO_TRY(open_journal(folder, dir, err));
    return each_part(folder, read_part, err);
}

luo_status luo_sweep_folder_put(luo_sweep_folder *folder, const luo_sweep_row *rows, int32_t n,
                                luo_err *err)
{
    return put_rows(folder, rows, n, err);
}

/* ---- the end ---- */

luo_status luo_sweep_folder_merge(luo_sweep_folder *folder, int64_t units, int64_t *missing,
                                  luo_err *err)
{
    const int held = hold(folder);
    luo_sweep_rows_free(&folder->rows);
    *missing = 0;
    luo_status st = each_part(folder, read_part, err);
    for (int64_t i = 0; i < units; i++) *missing += luo_sweep_find(&folder->rows, i) < 0;
    if (st == LUO_OK && *missing == 0) {
        luo_sweep_sort(&folder->rows);
        st = luo_sweep_write(folder->cli->arena, folder->dir, folder->grid, &folder->rows, err);
    }
    if (held >= 0) close(held);
    return st;
}

luo_status luo_sweep_folder_close(luo_sweep_folder *folder, luo_err *err)
{
    const luo_status st = luo_table_close(&folder->journal, err);
    luo_lock_give(&folder->lock);
    luo_sweep_rows_free(&folder->rows);
    return st;
}
