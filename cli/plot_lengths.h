/* plot_lengths.h: `luoshu plot` of lengths instead of runs. */
#ifndef LUO_CLI_PLOT_LENGTHS_H
#define LUO_CLI_PLOT_LENGTHS_H
#include "cli/cli.h"

/* A file, or the name of a preset where no file or folder has it. */
bool luo_plot_lengths_named(const char *name);
/* The figure of all positional arguments. column: 84 mm wide. Errors are in cli->diags. */
luo_status luo_plot_lengths_run(luo_cli *cli, bool column);
#endif
