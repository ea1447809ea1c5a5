/* verb_compare.c: `luoshu compare RUN...`. */
#include <string.h>

#include "cli/load.h"
#include "cli/run/finish.h"
#include "cli/sync/sync_compare.h"
#include "core/io/compare/compare.h"
#include "core/io/result/resultset.h"

/* Without --out: the folder that holds the first run. */
static const char *beside(luo_cli *cli, const char *run)
{
    size_t n = strlen(run);
    while (n > 1 && run[n - 1] == '/') n--;
    while (n > 0 && run[n - 1] != '/') n--;
    if (n == 0) return ".";
    return luo_arena_strndup(cli->arena, run, n > 1 ? n - 1 : n);
}

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

static luo_status compare_runs(luo_cli *cli, const char *out)
{
    const luo_compare_opts opts = {.paths = cli->args.files,
                                   .npaths = cli->args.nfiles,
                                   .out = out,
                                   .allow_different = luo_args_has(&cli->args, "allow-different"),
                                   .json = &cli->json};
    luo_str text = {0};
    luo_status st = luo_compare(cli->arena, &opts, &text, &cli->diags);
    fputs(luo_str_get(&text), luo_cli_out(cli));
    luo_str_free(&text);
    return st == LUO_OK ? luo_cli_draw_compared(cli, out, title(cli)) : st;
}

luo_status luo_verb_compare_run(luo_cli *cli)
{
    LUO_TRY(luo_cli_files(cli, 1, LUO_ARGS_MAX, "at least one run directory or result set is"));
    const char *out = luo_args_get(&cli->args, "out", NULL);
    const bool force = !out || luo_args_has(&cli->args, "force");
    if (!out) out = beside(cli, cli->args.files[0]);
    if (!out) return luo_cli_error(cli, LUO_ENOMEM, "%s.", luo_status_text(LUO_ENOMEM));
    luo_set set;
    luo_err err = {0};
    LUO_TRY(luo_cli_fail(cli, luo_set_open(&set, out, force, &err), &err));
    const luo_status st = luo_sync_compare_takes(cli)
                              ? luo_cli_fail(cli, luo_sync_compare(cli, out, &err), &err)
                              : compare_runs(cli, out);
    if (st == LUO_OK || st == LUO_ENO) fprintf(luo_cli_out(cli), "written to %s\n", out);
    print_json(cli, out);
    luo_set_close(&set, false, NULL);
    return st;
}
