/* cli/verb_compare.c: `luoshu compare RUN...`. */
#include <string.h>

#include "cli/load.h"
#include "cli/session.h"
#include "core/io/compare.h"

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

luo_status luo_verb_compare_run(luo_cli *cli)
{
    LUO_TRY(luo_cli_files(cli, 1, LUO_ARGS_MAX, "at least one run directory or result set is"));
    const char *out = luo_args_get(&cli->args, "out", NULL);
    if (out) LUO_TRY(luo_session_dir(cli, out, luo_args_has(&cli->args, "force")));
    else out = beside(cli, cli->args.files[0]);
    if (!out) return luo_cli_error(cli, LUO_ENOMEM, "%s.", luo_status_text(LUO_ENOMEM));
    const luo_compare_opts opts = {.paths = cli->args.files, .npaths = cli->args.nfiles,
                                   .out = out,
                                   .allow_different = luo_args_has(&cli->args, "allow-different")};
    luo_str text = {0};
    const luo_status st = luo_compare(cli->arena, &opts, &text, &cli->diags);
    fputs(luo_str_get(&text), luo_cli_out(cli));
    if (st == LUO_OK || st == LUO_ENO) fprintf(luo_cli_out(cli), "written to %s\n", out);
    print_json(cli, out);
    luo_str_free(&text);
    return st;
}
