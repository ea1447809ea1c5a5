/* sweep_units.h: runs of a sweep in processes side by side, each of which leaves rows alone. */
#ifndef LUO_CLI_SWEEP_SWEEP_UNITS_H
#define LUO_CLI_SWEEP_SWEEP_UNITS_H
#include "cli/run/session.h"
#include "core/io/sweep/sweep.h"

typedef struct luo_sweep_units {
    luo_cli *cli;
    const char *path; /* of the scenario */
    const luo_sweep_grid *grid;
    const luo_run_opts *run;
    int32_t jobs;
    /* All rows of a unit, in this process; other statuses than LUO_OK end the sweep. */
    luo_status (*put)(void *ctx, const luo_sweep_row *rows, int32_t n, luo_err *err);
    void *ctx;
} luo_sweep_units;

/* Reads the scenario of a unit. cli: arena and diags are the unit's own. Errors: those of
 * luo_inputs_read, told in cli->diags or err. */
luo_status luo_sweep_unit_read(luo_cli *cli, const luo_sweep_units *units, int64_t unit,
                               luo_session *out, luo_err *err);
/* Runs unit[0..n), in any order. What a scenario or a plan is at fault for stands in its row. Stops
 * when this process is asked to end (luo_process_asked), with LUO_OK. Errors are those of this
 * machine: LUO_EBACKEND a process was ended; LUO_EIO; LUO_ENOMEM; of put. */
luo_status luo_sweep_units_run(const luo_sweep_units *units, const int64_t *unit, int64_t n,
                               luo_err *err);
#endif
