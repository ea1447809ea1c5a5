/* verb_plot.c: `luoshu plot RUN...`; of lengths: plot_lengths.c. */
#include <string.h>

#include "cli/plot_lengths.h"
#include "cli/run/finish.h"

/* Options of lengths alone: figures of a run lie in the run. */
static luo_status check_options(const luo_args *args, luo_err *err)
{
    static const char *const theirs[] = {"out", "ctx", "seed"};
    for (size_t i = 0; i < sizeof theirs / sizeof *theirs; i++)
        if (luo_args_has(args, theirs[i]))
            return luo_err_set(err, LUO_EUSAGE,
                               "`--%s` is about lengths, and `%s` is a run; leave it out.",
                               theirs[i], args->files[0]);
    return LUO_OK;
}

/* Which step is drawn is asked of the one figure that shows one. */
static luo_status read_step(const luo_args *args, luo_plot_opts *how, luo_err *err)
{
    how->of_step = luo_args_has(args, "step");
    how->of_plan = luo_args_has(args, "plan");
    if ((how->of_step || how->of_plan) && (!how->figure || strcmp(how->figure, "gantt") != 0))
        return luo_err_set(err, LUO_EUSAGE,
                           "`--%s` is about figure `gantt`; add `--figure gantt`, or leave it out.",
                           how->of_step ? "step" : "plan");
    LUO_TRY(luo_args_int(args, "step", 0, 0, INT64_MAX, &how->step, err));
    return luo_args_int(args, "plan", 0, 0, INT64_MAX, &how->plan, err);
}

luo_status luo_verb_plot_run(luo_cli *cli)
{
    static const char *const widths[] = {"2", "1"};
    luo_err err = {0};
    int width;
    luo_status worst = LUO_OK;
    LUO_TRY(luo_cli_files(cli, 1, LUO_ARGS_MAX,
                          "at least one run, result set or table of lengths is"));
    LUO_TRY(luo_cli_fail(cli, luo_args_choice(&cli->args, "column", 0, widths, 2, &width, &err),
                         &err));
    if (luo_plot_lengths_named(cli->args.files[0])) return luo_plot_lengths_run(cli, width == 1);
    LUO_TRY(luo_cli_fail(cli, check_options(&cli->args, &err), &err));
    for (int i = 0; i < cli->args.nfiles; i++) {
        luo_str made = {0};
        luo_plot_opts how = {.dir = cli->args.files[i],
                             .figure = luo_args_get(&cli->args, "figure", NULL),
                             .column = width == 1};
        LUO_TRY(luo_cli_fail(cli, read_step(&cli->args, &how, &err), &err));
        const luo_status st = luo_cli_draw(cli, &how, &made);
        fputs(luo_str_get(&made), stdout);
        luo_str_free(&made);
        if (luo_status_exit(st) > luo_status_exit(worst)) worst = st;
    }
    return worst;
}
