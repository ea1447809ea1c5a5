/* verb_plot.c: `luoshu plot RUN...`. */
#include "cli/run/finish.h"

luo_status luo_verb_plot_run(luo_cli *cli)
{
    static const char *const widths[] = {"2", "1"};
    luo_err err = {0};
    int width;
    luo_status worst = LUO_OK;
    LUO_TRY(luo_cli_files(cli, 1, LUO_ARGS_MAX, "at least one run directory or result set is"));
    LUO_TRY(luo_cli_fail(cli, luo_args_choice(&cli->args, "column", 0, widths, 2, &width, &err),
                         &err));
    for (int i = 0; i < cli->args.nfiles; i++) {
        luo_str made = {0};
        const luo_status st = luo_cli_draw(cli, cli->args.files[i],
                                           luo_args_get(&cli->args, "figure", NULL), width == 1,
                                           &made);
        fputs(luo_str_get(&made), stdout);
        luo_str_free(&made);
        if (luo_status_exit(st) > luo_status_exit(worst)) worst = st;
    }
    return worst;
}
