/* verb_report.c: `luoshu report`: one page of runs, of a sweep or of a replay. */
#include "cli/verb_report.h"

#include <string.h>

#include "cli/embed.h"
#include "cli/inputs.h"
#include "cli/load.h"
#include "cli/run/finish.h"
#include "core/io/report/report.h"
#include "core/io/result/result.h"
#include "core/io/result/resultset.h"

/* Style or script, in the order in which their files stand. */
static luo_status put_parts(luo_str *text, const char *ending, luo_err *err)
{
    for (const luo_embedded *embedded = luo_embedded_page; embedded->name; embedded++)
        if (strcmp(strrchr(embedded->name, '.'), ending) == 0) luo_str_add(text, embedded->text);
    return text->failed ? luo_err_nomem(err) : LUO_OK;
}

/* As it was typed, but for the path of this program. */
static luo_status put_command(luo_cli *cli, luo_str *text, luo_err *err)
{
    luo_str_add(text, "luoshu");
    for (int i = 1; i < cli->argc; i++) {
        luo_str_addc(text, ' ');
        luo_str_add_word(text, cli->argv[i]);
    }
    return text->failed ? luo_err_nomem(err) : LUO_OK;
}

luo_status luo_cli_report(luo_cli *cli, const char *const *paths, int32_t npaths, const char *out)
{
    luo_str style = {0}, script = {0}, command = {0};
    luo_err err = {0};
    luo_status st = put_parts(&style, ".css", &err);
    if (st == LUO_OK) st = put_parts(&script, ".js", &err);
    if (st == LUO_OK) st = put_command(cli, &command, &err);
    if (st == LUO_OK) {
        const luo_report_opts opts = {
            .paths = paths,
            .npaths = npaths,
            .out = out,
            .style = luo_str_get(&style),
            .script = luo_str_get(&script),
            .command = luo_result_shown(cli->arena, luo_str_get(&command))};
        st = luo_report(cli->arena, &opts, &cli->diags);
        if (st == LUO_OK) fprintf(luo_cli_out(cli), "report: %s/report.html\n", out);
    }
    luo_str_free(&style);
    luo_str_free(&script);
    luo_str_free(&command);
    return err.text[0] ? luo_cli_fail(cli, st, &err) : st;
}

/* What is not there yet: figures of each path, and of several those that they share. */
static luo_status draw(luo_cli *cli, const char *out)
{
    const luo_args *args = &cli->args;
    const luo_plot_opts shared = {
        .dir = out, .nruns = args->nfiles, .runs = args->files, .svg_alone = true};
    int32_t figures;
    for (int i = 0; i < args->nfiles; i++) {
        luo_str made = {0};
        if (luo_report_has_figures(args->files[i])) continue;
        const luo_plot_opts own = {.dir = args->files[i], .svg_alone = true};
        const luo_status st = luo_cli_draw(cli, &own, &made);
        luo_str_free(&made);
        LUO_TRY(st);
    }
    if (args->nfiles == 1) return LUO_OK;
    return luo_cli_draw_compared(cli, &shared, "side by side", &figures);
}

/* --out, else what is given alone, else `report`. */
static luo_status open_place(luo_cli *cli, luo_set *set, const char **out, luo_err *err)
{
    const bool own = luo_args_has(&cli->args, "out") || cli->args.nfiles > 1;
    const char *usual = own ? "report" : cli->args.files[0];
    *out = luo_args_get(&cli->args, "out", usual);
    return luo_set_open(set, *out, !own || luo_args_has(&cli->args, "force"), err);
}

luo_status luo_verb_report_run(luo_cli *cli)
{
    const char *out = NULL;
    bool plots;
    luo_set set = {0};
    luo_err err = {0};
    LUO_TRY(luo_cli_files(cli, 1, LUO_ARGS_MAX, "at least one run directory or result set is"));
    LUO_TRY(luo_cli_fail(cli, luo_inputs_on_off(&cli->args, "plots", &plots, &err), &err));
    /* what has no page is told before anything is made */
    LUO_TRY(luo_report_check(cli->arena, cli->args.files, cli->args.nfiles, &cli->diags));
    LUO_TRY(luo_cli_fail(cli, open_place(cli, &set, &out, &err), &err));
    luo_status st = plots ? draw(cli, out) : LUO_OK;
    if (st == LUO_OK) st = luo_cli_report(cli, cli->args.files, cli->args.nfiles, out);
    luo_jsonw_text(&cli->json, "report", luo_arena_printf(cli->arena, "%s/report.html", out));
    luo_set_close(&set, false, NULL);
    return st;
}
