/* calibrate_foreign.h: tables that other programs made, as tables of ours. */
#ifndef LUO_CLI_CALIBRATE_CALIBRATE_FOREIGN_H
#define LUO_CLI_CALIBRATE_CALIBRATE_FOREIGN_H
#include "cli/cli.h"

/* Reads PATH if it is what nccl-tests prints (text), a table of all-reduces in ns (columns gpus,
 * op, bytes, time_out_of_place_ns) or one of op efficiencies (gpu, op, shape, peak_tflops,
 * efficiency), and writes DIR/op_times.csv or DIR/collective_times.csv; *name: that file in DIR,
 * NULL: PATH is none of them. Every fourth row becomes validation. Grouped products and attention
 * of unequal head sizes are left out and counted. Errors are in cli->diags. */
bool luo_foreign_is(luo_cli *cli, const char *path);
luo_status luo_foreign_table(luo_cli *cli, const char *dir, const char *path, const char **name);
#endif
