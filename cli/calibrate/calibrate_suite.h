/* calibrate_suite.h: constants from published steps. */
#ifndef LUO_CLI_CALIBRATE_CALIBRATE_SUITE_H
#define LUO_CLI_CALIBRATE_CALIBRATE_SUITE_H
#include "cli/cli.h"
#include "core/cost/profile.h"
#include "core/io/io.h"

/* Is it a table of published steps? */
bool luo_calibrate_suite_is(luo_cli *cli, const char *path);
/* Fits on `first` and the files behind it; writes DIR/PROFILE.yaml with its tables,
 * DIR/stacks/STACK.yaml and calibrate.csv. Errors are in cli->diags. */
luo_status luo_calibrate_suites(luo_cli *cli, const char *dir, const char *first);

/* ---- what other calibrations write by ---- */

/* An entry of `values` that a calibration writes. spread: 0 writes none. */
typedef struct luo_calibrated_value {
    const char *key;
    double value, spread;
    const char *source;
    luo_provenance provenance;
} luo_calibrated_value;
/* The text of a profile or stack with the entry of its key replaced, or put first where it had
 * none; NULL: out of memory. */
const char *luo_calibrate_text_with(luo_arena *arena, const char *text,
                                    const luo_calibrated_value *value);
/* The file of a profile or a stack, built in or not. */
luo_status luo_calibrate_source(luo_cli *cli, bool stack, const char *path, luo_source *out,
                                luo_err *err);
/* DIR/NAME.yaml and the tables that the profile `src` names, or DIR/stacks/NAME.yaml: text under
 * that name. */
luo_status luo_calibrate_member_write(luo_cli *cli, const char *dir, const luo_source *src,
                                      const char *text, const char *name, bool stack, luo_err *err);

/* ---- calibrate_sources.c: all suites of a folder at once ---- */

/* DIR/PROFILE.yaml, DIR/stacks/STACK.yaml and constants.csv from FOLDER/suites. Errors are in
 * cli->diags. */
luo_status luo_calibrate_sources(luo_cli *cli, const char *dir, const char *folder);

/* ---- calibrate_layers.c: times of whole layers ---- */

bool luo_calibrate_layers_is(luo_cli *cli, const char *path);
/* DIR/PROFILE.yaml and calibrate.csv for --profile, --model, --stack. Errors are in cli->diags. */
luo_status luo_calibrate_layers(luo_cli *cli, const char *dir, const char *from);
#endif
