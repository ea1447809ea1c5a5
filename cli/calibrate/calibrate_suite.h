/* calibrate_suite.h: constants from published steps. */
#ifndef LUO_CLI_CALIBRATE_CALIBRATE_SUITE_H
#define LUO_CLI_CALIBRATE_CALIBRATE_SUITE_H
#include "cli/cli.h"
#include "core/io/io.h"

/* Is it a table of published steps? */
bool luo_calibrate_suite_is(luo_cli *cli, const char *path);
/* Fits on `first` and the files behind it; writes DIR/PROFILE.yaml with its tables,
 * DIR/stacks/STACK.yaml and calibrate.csv. Errors are in cli->diags. */
luo_status luo_calibrate_suites(luo_cli *cli, const char *dir, const char *first);

/* ---- what other calibrations write by ---- */

/* The text of a profile or stack with the value of `key` replaced, or put first where it had none;
 * NULL: out of memory. */
const char *luo_calibrate_text_with(luo_arena *arena, const char *text, const char *key,
                                    double value, const char *source);
/* DIR/NAME.yaml and the tables that `src` names. */
luo_status luo_calibrate_text_write(luo_cli *cli, const char *dir, const luo_source *src,
                                    const char *text, const char *name, luo_err *err);

/* ---- calibrate_layers.c: times of whole layers ---- */

bool luo_calibrate_layers_is(luo_cli *cli, const char *path);
/* DIR/PROFILE.yaml and calibrate.csv for --profile, --model, --stack. Errors are in cli->diags. */
luo_status luo_calibrate_layers(luo_cli *cli, const char *dir, const char *from);
#endif
