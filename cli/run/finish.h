/* finish.h: what follows when all policies have run. */
#ifndef LUO_CLI_RUN_FINISH_H
#define LUO_CLI_RUN_FINISH_H
#include "cli/run/child.h"
#include "core/io/plot/plots.h"

/* compare.csv, compare.json, figures; the table and the paths on stdout. slots: of the policies.
 * stopped: the first two alone. whole: compare.csv is there, with a policy that came to its end. */
luo_status luo_finish_session(luo_cli *cli, const luo_session *session, const luo_child_slot *slots,
                              bool stopped, bool *whole);
/* Draws figures of a run or result set with the built-in scripts, which are written there; made:
 * the paths. Errors are in cli->diags. */
luo_status luo_cli_draw(luo_cli *cli, const luo_plot_opts *how, luo_str *made);
/* Draws all figures of a folder and prints their paths; where gnuplot is missing a warning. */
luo_status luo_cli_draw_all(luo_cli *cli, const char *dir);
/* Draws what luo_plot_compared has data for, of what->dir and what->runs; nothing if there is none.
 * figures: how many; with --verbose their paths are printed. */
luo_status luo_cli_draw_compared(luo_cli *cli, const luo_plot_opts *what, const char *title,
                                 int32_t *figures);
/* One line: where the results are, and how many figures. */
void luo_cli_tell_place(luo_cli *cli, const char *dir, int32_t figures);
/* Writes the built-in gnuplot scripts into dir/plots/gp. */
luo_status luo_cli_scripts(luo_cli *cli, const char *dir, const char **folder, luo_err *err);
#endif
