/* cli/calibrate_suite.h: constants from published steps. */
#ifndef LUO_CLI_CALIBRATE_SUITE_H
#define LUO_CLI_CALIBRATE_SUITE_H
#include "cli/cli.h"

/* Is it a table of published steps? */
bool luo_calibrate_suite_is(luo_cli *cli, const char *path);
/* Fits on `first` and the files behind it; writes DIR/PROFILE.yaml with its tables,
 * DIR/stacks/STACK.yaml and calibrate.csv. Errors are in cli->diags. */
luo_status luo_calibrate_suites(luo_cli *cli, const char *dir, const char *first);
#endif
