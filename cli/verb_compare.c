/* verb_compare.c: `luoshu compare RUN..`. */
#include <dirent.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/inputs.h"
#include "cli/load.h"
#include "cli/run/finish.h"
#include "cli/sync/sync_compare.h"
#include "core/io/compare/compare.h"
#include "core/io/result/csv.h"
#include "core/io/result/resultset.h"

/* ---- where to write ---- */

/* The folder that holds it. */
static const char *beside(luo_cli *cli, const char *run)
{
    size_t n = strlen(run);
    while (n > 1 && run[n - 1] == '/') n--;
    while (n > 0 && run[n - 1] != '/') n--;
    if (n == 0) return ".";
    return luo_arena_strndup(cli->arena, run, n > 1 ? n - 1 : n);
}

static const char *last_of(luo_cli *cli, const char *path)
{
    size_t n = strlen(path), first;
    while (n > 1 && path[n - 1] == '/') n--;
    for (first = n; first > 0 && path[first - 1] != '/';) first--;
    return luo_arena_strndup(cli->arena, path + first, n - first);
}

static bool is_folder(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

static bool same_folder(const char *a, const char *b)
{
    struct stat x, y;
    return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

_Static_assert((int)LUO_COL_COMPARE_run == (int)LUO_COL_COMPARE_SYNC_run, "one table or the other");
/* Has the table a row of the run `first`, or (NULL) of a run that lies in out? Runs of one name
 * have that of their folder before it. */
static bool has_row(luo_cli *cli, const char *out, luo_table_id id, const char *first)
{
    luo_csv_cell cells[LUO_CSV_COLUMNS];
    luo_diags unheard; /* whatever it is: none of ours */
    bool found = false;
    luo_diags_init(&unheard, cli->arena);
    luo_csv *csv = luo_result_table(cli->arena, out, id, &unheard);
    while (csv && !found && luo_csv_next(csv, cells)) {
        const char *run = cells[LUO_COL_COMPARE_run].text;
        const size_t n = first ? strlen(first) : 0;
        const char *dir = luo_arena_printf(cli->arena, "%s/%s", out, run);
        found = first ? strncmp(run, first, n) == 0 && (!run[n] || run[n] == '_')
                      : dir && luo_result_has(dir, "manifest.json");
    }
    if (csv) luo_csv_close(csv);
    return found;
}

/* Some other file of a comparison; NULL: none. */
static const char *other_file(luo_cli *cli, const char *out)
{
    static const char *const names[] = {"compare.json", "compare_steps", "compare_ops", "seeds.csv",
                                        "pairs.csv"};
    const char *found = NULL;
    DIR *dir = opendir(out);
    for (struct dirent *e; dir && !found && (e = readdir(dir));)
        for (size_t i = 0; !found && i < sizeof names / sizeof *names; i++)
            if (strncmp(e->d_name, names[i], strlen(names[i])) == 0)
                found = luo_arena_strdup(cli->arena, e->d_name);
    if (dir) closedir(dir);
    return found;
}

/* Nobody has said that what stands there may go: that of the same runs does. */
static luo_status check_place(luo_cli *cli, const char *out, luo_table_id id, luo_err *err)
{
    const char *const *runs = cli->args.files;
    const char *file = luo_table_def_at(id)->file, *name = last_of(cli, runs[0]);
    const bool itself = same_folder(runs[0], out), there = luo_result_has(out, file);
    if (!there && id == LUO_TABLE_COMPARE) file = other_file(cli, out);
    if (!file || !name || (!there && id != LUO_TABLE_COMPARE)) return LUO_OK;
    if (itself && luo_result_has(out, "seeds.csv")) return LUO_OK;
    if (!there || !has_row(cli, out, id, itself ? NULL : name))
        return luo_err_set(err, LUO_EUSAGE,
                           "`%s/%s` is there and does not compare `%s`; give --out, or --force to "
                           "replace it.",
                           out, file, runs[0]);
    for (int i = 0; i < cli->args.nfiles; i++) {
        const char *folder = beside(cli, runs[i]);
        if (folder && !same_folder(folder, out) && !same_folder(runs[i], out))
            return luo_err_set(err, LUO_EUSAGE,
                               "`%s/%s` compares runs of that folder and `%s` lies elsewhere; give "
                               "--out, or --force to replace it.",
                               out, file, runs[i]);
    }
    return LUO_OK;
}

/* --out; else a set that is given alone, or the folder of the first run. */
static luo_status find_place(luo_cli *cli, luo_table_id id, const char **out, luo_err *err)
{
    const char *first = cli->args.files[0];
    const bool set =
        cli->args.nfiles == 1 && is_folder(first) && !luo_result_has(first, "manifest.json");
    *out = luo_args_get(&cli->args, "out", NULL);
    if (*out) return LUO_OK;
    *out = set ? first : beside(cli, first);
    if (!*out) return luo_err_nomem(err);
    if (luo_args_has(&cli->args, "force") || !is_folder(first)) return LUO_OK;
    return check_place(cli, *out, id, err);
}

/* ---- the verb ---- */

static void print_json(luo_cli *cli, const char *out)
{
    luo_jsonw_text(&cli->json, "out", out);
    luo_jsonw_open(&cli->json, "runs", '[');
    for (int i = 0; i < cli->args.nfiles; i++)
        luo_jsonw_text(&cli->json, NULL, cli->args.files[i]);
    luo_jsonw_close(&cli->json);
}

/* What was compared with what, as it was asked for. */
static const char *title(luo_cli *cli)
{
    const char *first = cli->args.files[0];
    const char *second = cli->args.nfiles > 1 ? cli->args.files[1] : NULL;
    const char *more = cli->args.nfiles > 2 ? " .." : "";
    char *text =
        second ? luo_arena_printf(cli->arena, "%s beside %s%s", first, second, more) : NULL;
    return text ? text : first;
}

static luo_status compare_runs(luo_cli *cli, const char *out, int32_t *figures)
{
    bool plots;
    luo_err err = {0};
    const luo_compare_opts opts = {.paths = cli->args.files,
                                   .npaths = cli->args.nfiles,
                                   .out = out,
                                   .allow_different = luo_args_has(&cli->args, "allow-different"),
                                   .json = &cli->json};
    const luo_plot_opts draw = {
        .dir = out, .nruns = cli->args.nfiles, .runs = cli->args.files};
    luo_str text = {0};
    LUO_TRY(luo_cli_fail(cli, luo_inputs_on_off(&cli->args, "plots", &plots, &err), &err));
    const luo_status st = luo_compare(cli->arena, &opts, &text, &cli->diags);
    fputs(luo_str_get(&text), luo_cli_out(cli));
    luo_str_free(&text);
    return st == LUO_OK && plots ? luo_cli_draw_compared(cli, &draw, title(cli), figures) : st;
}

luo_status luo_verb_compare_run(luo_cli *cli)
{
    LUO_TRY(luo_cli_files(cli, 1, LUO_ARGS_MAX, "at least one run directory or result set is"));
    const bool sync = luo_sync_compare_takes(cli);
    const bool force = !luo_args_has(&cli->args, "out") || luo_args_has(&cli->args, "force");
    const luo_table_id id = sync ? LUO_TABLE_COMPARE_SYNC : LUO_TABLE_COMPARE;
    const char *out;
    int32_t figures = 0;
    luo_set set;
    luo_err err = {0};
    LUO_TRY(luo_cli_fail(cli, find_place(cli, id, &out, &err), &err));
    LUO_TRY(luo_cli_fail(cli, luo_set_open(&set, out, force, &err), &err));
    const luo_status st =
        sync ? luo_cli_fail(cli, luo_sync_compare(cli, out, &err), &err)
                               : compare_runs(cli, out, &figures);
    if (st == LUO_OK || st == LUO_ENO) luo_cli_tell_place(cli, out, figures);
    print_json(cli, out);
    luo_set_close(&set, false, NULL);
    return st;
}
