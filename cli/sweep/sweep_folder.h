/* sweep_folder.h: the folder of a sweep, which the processes of all its parts share.
 *
 *   sweep.json               what is swept; another sweep is refused
 *   sweep-parts/I-of-N/      of one part, locked by its process: rows.csv, its journal
 *   sweep.csv                when all rows are there
 * A journal has whole units, and at its end perhaps a part of one if its process was killed. */
#ifndef LUO_CLI_SWEEP_SWEEP_FOLDER_H
#define LUO_CLI_SWEEP_SWEEP_FOLDER_H
#include "cli/cli.h"
#include "core/io/result/lock.h"
#include "core/io/sweep/sweep.h"

typedef struct luo_sweep_folder { /* all zero: none */
    luo_cli *cli;
    const luo_sweep_grid *grid;
    const char *dir;
    int32_t part, parts; /* 1 .. parts */
    luo_lock lock;
    luo_table journal;
    luo_sweep_rows rows; /* of all journals when it was opened, and those put since */
} luo_sweep_folder;

/* definition: of luo_sweep_define. With --force what another sweep left is removed first. Errors:
 * LUO_EUSAGE another sweep or other files are there and not --force, or a process has this part;
 * LUO_EIO; LUO_ENOMEM; of reading journals, in cli->diags. */
luo_status luo_sweep_folder_open(luo_sweep_folder *folder, const char *definition, luo_err *err);
/* The rows of a unit, on disk when it returns. Errors: LUO_EIO; LUO_ENOMEM. */
luo_status luo_sweep_folder_put(luo_sweep_folder *folder, const luo_sweep_row *rows, int32_t n,
                                luo_err *err);
/* Reads what all parts have by now; with at least `units` units (0: whatever there is) writes
 * sweep.csv, and rows are sorted. *missing: units that are not there; then nothing is written.
 * Errors: LUO_EIO; LUO_ENOMEM. */
luo_status luo_sweep_folder_merge(luo_sweep_folder *folder, int64_t units, int64_t *missing,
                                  luo_err *err);
/* Safe on one that is all zero. Errors: LUO_EIO of the journal. */
luo_status luo_sweep_folder_close(luo_sweep_folder *folder, luo_err *err);
#endif
