#include "cli/run/finish.h"

#include <string.h>

#include "cli/embed.h"
#include "cli/range.h"
#include "core/io/compare/compare.h"
#include "core/io/files.h"
#include "core/io/io.h"
#include "core/io/plot/plots.h"
#include "core/io/result/result.h"

/* The figures are written beside the plots, so that anyone can draw them again or change them. */
luo_status luo_cli_scripts(luo_cli *cli, const char *dir, const char **folder, luo_err *err)
{
    const char *plots = luo_arena_printf(cli->arena, "%s/plots", dir);
    *folder = luo_arena_printf(cli->arena, "%s/gp", plots ? plots : "");
    if (!plots || !*folder) return luo_err_nomem(err);
    LUO_TRY(luo_file_make_own_dir(plots, err));
    LUO_TRY(luo_file_make_own_dir(*folder, err));
    for (const luo_embedded *embedded = luo_embedded_files; embedded->name; embedded++) {
        if (strncmp(embedded->name, "plots/", 6) != 0) continue;
        const char *path = luo_arena_printf(cli->arena, "%s/%s", *folder, embedded->name + 6);
        if (!path) return luo_err_nomem(err);
        LUO_TRY(luo_file_write_own(path, embedded->text, strlen(embedded->text), err));
    }
    return LUO_OK;
}

luo_status luo_cli_draw(luo_cli *cli, const luo_plot_opts *how, luo_str *made)
{
    luo_err err = {0};
    luo_plot_opts opts = *how;
    const luo_status st = luo_cli_scripts(cli, opts.dir, &opts.scripts, &err);
    if (st != LUO_OK) return luo_cli_fail(cli, st, &err);
    return luo_plot(cli->arena, &opts, made, &cli->diags);
}

static luo_status warn_of_gnuplot(luo_cli *cli, const char *dir)
{
    return luo_cli_note(cli, LUO_WARNING,
                        "gnuplot is not installed, so no figures are drawn; install gnuplot-nox "
                        "and run `luoshu plot %s`.",
                        dir);
}

luo_status luo_cli_draw_all(luo_cli *cli, const char *dir)
{
    const luo_plot_opts how = {.dir = dir};
    luo_str made = {0};
    if (!luo_plot_possible(NULL)) return warn_of_gnuplot(cli, dir);
    const luo_status st = luo_cli_draw(cli, &how, &made);
    fputs(luo_str_get(&made), luo_cli_out(cli));
    luo_str_free(&made);
    return st;
}

/* All of them, or how many. */
static int32_t tell_made(luo_cli *cli, const luo_str *made, bool verbose)
{
    int32_t figures = 0;
    for (const char *at = luo_str_get(made); (at = strstr(at, ".svg\n")); at++) figures++;
    if (verbose) fputs(luo_str_get(made), luo_cli_out(cli));
    return figures;
}

void luo_cli_tell_place(luo_cli *cli, const char *dir, int32_t figures)
{
    FILE *out = luo_cli_out(cli);
    fprintf(out, "results: %s", dir);
    if (figures == 1) fputs(" (1 figure in plots/; --verbose names it)", out);
    if (figures > 1) fprintf(out, " (%d figures in plots/; --verbose lists them)", figures);
    fputc('\n', out);
}

luo_status luo_cli_draw_compared(luo_cli *cli, const luo_plot_opts *what, const char *title,
                                 int32_t *figures)
{
    luo_err err = {0};
    luo_str made = {0};
    luo_plot_opts opts = *what;
    const char *dir = what->dir;
    const char *plots = luo_arena_printf(cli->arena, "%s/plots", dir);
    if (!plots) return luo_cli_error(cli, LUO_ENOMEM, "%s.", luo_status_text(LUO_ENOMEM));
    *figures = 0;
    if (!luo_result_has(plots, "predicted.csv") && !luo_result_has(plots, "bands.csv") &&
        what->nruns == 0)
        return LUO_OK;
    if (!luo_plot_possible(NULL))
        return luo_cli_note(cli, LUO_WARNING,
                            "gnuplot is not installed, so no figure is drawn; "
                            "install gnuplot-nox and compare again.");
    luo_status st = luo_cli_scripts(cli, dir, &opts.scripts, &err);
    if (st != LUO_OK) return luo_cli_fail(cli, st, &err);
    st = luo_plot_compared(cli->arena, &opts, title, &made, &cli->diags);
    *figures = tell_made(cli, &made, luo_args_has(&cli->args, "verbose"));
    luo_str_free(&made);
    return st;
}

static luo_status draw(luo_cli *cli, const luo_session *session, int32_t *figures)
{
    luo_str made = {0};
    if (!session->plots) return LUO_OK;
    if (!luo_plot_possible(NULL)) return warn_of_gnuplot(cli, session->dir);
    const luo_plot_opts how = {.dir = session->dir, .svg_alone = true};
    const luo_status st = luo_cli_draw(cli, &how, &made);
    *figures = tell_made(cli, &made, session->verbose);
    luo_str_free(&made);
    return st;
}

static int32_t finished(const luo_session *session, const luo_child_slot *slots)
{
    int32_t n = 0;
    for (int32_t i = 0; i < session->scenario->npolicies; i++)
        n += slots[i].status == LUO_OK || slots[i].status == LUO_ENO;
    return n;
}

/* Has it a row? One whose disk was full may not even say how it ended; its error has been told. */
static bool has_row(luo_cli *cli, const char *dir, luo_status how)
{
    luo_diags unheard;
    luo_result result;
    if (!luo_result_has(dir, "manifest.json")) return false;
    if (how == LUO_OK || how == LUO_ENO) return true;
    luo_diags_init(&unheard, cli->arena);
    return luo_result_read(cli->arena, dir, &result, &unheard) == LUO_OK;
}

/* Folders of the policies that began, whatever became of them: each keeps its row. */
static const char **begun(luo_cli *cli, const luo_session *session, const luo_child_slot *slots,
                          int32_t *n)
{
    const char **paths = LUO_NEW_N(cli->arena, const char *, session->scenario->npolicies);
    *n = 0;
    for (int32_t i = 0; paths && i < session->scenario->npolicies; i++) {
        const char *dir = luo_child_dir(cli, session, i);
        if (dir && has_row(cli, dir, slots[i].status)) paths[(*n)++] = dir;
    }
    return paths;
}

/* One line that says where all is; with --verbose what each policy did, and each trace. */
static void tell_runs(luo_cli *cli, const luo_session *session, const luo_child_slot *slots,
                      int32_t figures)
{
    FILE *out = luo_cli_out(cli);
    luo_cli_tell_place(cli, session->dir, figures);
    for (int32_t i = 0; i < session->scenario->npolicies; i++) {
        const char *dir = luo_child_dir(cli, session, i);
        if (session->verbose)
            fprintf(out, "%s: %s, %lld steps, %.0f s of run time in %.2f s\n",
                    session->scenario->policies[i].label,
                    luo_run_state_name(luo_run_state_of(slots[i].status)), (long long)slots[i].step,
                    slots[i].t_s, slots[i].wall_s);
        if (session->verbose && dir && luo_result_has(dir, "trace.json.gz"))
            fprintf(out, "%s/trace.json.gz\n", dir);
    }
}

/* Quantiles of the steps that `--draws` asked for, of a run directory. */
static luo_status tell_draws(luo_cli *cli, const char *dir, const char *label, int32_t most)
{
    luo_csv_cell cells[LUO_CSV_COLUMNS];
    double *step_s = LUO_NEW_N(cli->arena, double, most);
    int32_t n = 0;
    if (!luo_result_has(dir, luo_table_def_at(LUO_TABLE_DRAWS)->file)) return LUO_OK;
    if (!step_s) return luo_cli_error(cli, LUO_ENOMEM, "%s.", luo_status_text(LUO_ENOMEM));
    luo_csv *csv = luo_result_table(cli->arena, dir, LUO_TABLE_DRAWS, &cli->diags);
    while (csv && n < most && luo_csv_next(csv, cells))
        step_s[n++] = cells[LUO_COL_DRAWS_step_s].number;
    const luo_status st = luo_csv_close(csv);
    if (st != LUO_OK || n == 0) return st;
    luo_stats_sort(step_s, n);
    fprintf(luo_cli_out(cli),
            "%s: %d draws of the constants: step 10th of 100 %.4g s, median %.4g s, 90th %.4g s\n",
            label, n, luo_stats_quantile(step_s, n, 0.1), luo_stats_quantile(step_s, n, 0.5),
            luo_stats_quantile(step_s, n, 0.9));
    return LUO_OK;
}

/* What ranges say beside the table: draws, and once what nobody has fitted, with the widest. */
static luo_status tell_ranges(luo_cli *cli, const luo_session *session, const char *const *paths,
                              int32_t n)
{
    const luo_time_range *widest = NULL;
    luo_diags unheard; /* the comparison has read the same files */
    luo_diags_init(&unheard, cli->arena);
    for (int32_t i = 0; i < n; i++) {
        luo_result result;
        if (luo_result_read(cli->arena, paths[i], &result, &unheard) != LUO_OK) continue;
        if (result.range && (!widest || result.range->sd > widest->sd)) widest = result.range;
        if (session->run.draws) LUO_TRY(tell_draws(cli, paths[i], result.name, session->run.draws));
    }
    if (widest)
        luo_cli_range_warn(cli, session->scenario->cluster, &session->scenario->stack, widest);
    return LUO_OK;
}

static void json(luo_cli *cli, const luo_session *session, const luo_child_slot *slots)
{
    luo_jsonw_text(&cli->json, "out", session->dir);
    luo_jsonw_open(&cli->json, "runs", '[');
    for (int32_t i = 0; i < session->scenario->npolicies; i++) {
        luo_jsonw_open(&cli->json, NULL, '{');
        luo_jsonw_text(&cli->json, "policy", session->scenario->policies[i].label);
        luo_jsonw_text(&cli->json, "dir", luo_child_dir(cli, session, i));
        luo_jsonw_text(&cli->json, "status", luo_status_name(slots[i].status));
        luo_jsonw_int(&cli->json, "steps", slots[i].step);
        luo_jsonw_close(&cli->json);
    }
    luo_jsonw_close(&cli->json);
}

luo_status luo_finish_session(luo_cli *cli, const luo_session *session, const luo_child_slot *slots,
                              bool stopped, bool *whole)
{
    const bool some = finished(session, slots) > 0, shown = some && !stopped;
    int32_t n;
    luo_diags unheard; /* where all have failed, their errors have been told */
    luo_str text = {0};
    json(cli, session, slots);
    const char **paths = begun(cli, session, slots, &n);
    if (!paths) return luo_cli_error(cli, LUO_ENOMEM, "%s.", luo_status_text(LUO_ENOMEM));
    if (n == 0) return LUO_OK;
    const luo_compare_opts opts = {.paths = paths,
                                   .npaths = n,
                                   .out = session->dir,
                                   .allow_different = true,
                                   .json = &cli->json};
    luo_diags_init(&unheard, cli->arena);
    luo_status st = luo_compare(cli->arena, &opts, &text, some || stopped ? &cli->diags : &unheard);
    if (shown) fputs(luo_str_get(&text), luo_cli_out(cli));
    luo_str_free(&text);
    *whole = shown && st == LUO_OK;
    if (!shown) return st;
    if (st == LUO_OK) st = tell_ranges(cli, session, paths, n);
    int32_t figures = 0;
    if (st == LUO_OK) st = draw(cli, session, &figures);
    tell_runs(cli, session, slots, figures);
    return st;
}
