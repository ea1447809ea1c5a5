/* sweep_job.h: what the files of `luoshu sweep` share. */
#ifndef LUO_CLI_SWEEP_SWEEP_JOB_H
#define LUO_CLI_SWEEP_SWEEP_JOB_H
#include "cli/sweep/sweep_folder.h"
#include "cli/sweep/sweep_units.h"

typedef struct luo_sweep_job {
    luo_cli *cli;
    const char *path; /* of the scenario */
    luo_sweep_grid grid;
    int64_t cells;
    luo_session first; /* of the first cell that can be read */
    int32_t nbounds;   /* policies that only bound others */
    const char **bounds;
    luo_sweep_condition condition; /* of --least */
    bool least, plots;
    luo_sweep_units units;
    luo_sweep_folder folder;
} luo_sweep_job;

/* sweep_inputs.c: options into a grid, and the first cell that can be read. Errors: LUO_EUSAGE; of
 * files, in cli->diags (err is then empty). */
luo_status luo_sweep_job_read(luo_sweep_job *job, luo_err *err);
/* Text of sweep.json. Errors: LUO_ENOMEM. */
luo_status luo_sweep_job_define(luo_sweep_job *job, luo_str *out, luo_err *err);
/* --part, else the task of a Slurm array and the rank of mpirun; 1 of 1. Errors: LUO_EUSAGE. */
luo_status luo_sweep_job_part(const luo_cli *cli, int32_t *part, int32_t *parts, luo_err *err);
/* sweep_least.c: both ends of --over, then halves; tells the answer. Errors: LUO_ENO there is none;
 * of runs and files. */
luo_status luo_sweep_job_least(luo_sweep_job *job, luo_err *err);
/* Runs those of unit[0..n) that no journal has. Errors: of luo_sweep_units_run. */
luo_status luo_sweep_job_run(luo_sweep_job *job, const int64_t *unit, int64_t n, luo_err *err);
/* What the sorted rows say. */
luo_status luo_sweep_job_judge(luo_sweep_job *job, luo_sweep_answer *out, luo_err *err);
/* sweep_answer.c: prints the sentences, and keeps question, sentences and cases in
 * sweep-answer.json. Errors: LUO_EIO; LUO_ENOMEM. */
luo_status luo_sweep_job_tell(luo_sweep_job *job, const luo_sweep_answer *sweep_answer,
                              const char *answer, luo_err *err);
/* plots/swept.csv and, unless --plots off, a figure a key. *drawn grows by the files. Errors:
 * LUO_EIO; LUO_ENOMEM; of figures, in cli->diags. */
luo_status luo_sweep_job_draw(luo_sweep_job *job, const luo_sweep_answer *answer, int32_t *drawn,
                              luo_err *err);
#endif
