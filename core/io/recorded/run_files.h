/* run_files.h: a training that ran elsewhere as a run directory, for `luoshu compare`: what was
 * printed of its steps, and nothing else. */
#ifndef LUO_CORE_IO_RECORDED_RUN_FILES_H
#define LUO_CORE_IO_RECORDED_RUN_FILES_H
#include "core/io/convert/convert_internal.h"

typedef struct recorded_iteration {
    double step_s, loss, grad_norm; /* NAN: not printed */
} recorded_iteration;

typedef struct recorded_run {
    const recorded_iteration *at;
    int64_t n, sequences, tokens, devices; /* sequences and tokens of a step */
} recorded_run;

/* Adds manifest.json, steps.csv, timeline.csv, the other tables without rows and summary.json of
 * backend `recorded`, without plans; what is not known is empty or null. Pre: n > 0. Errors:
 * LUO_ENOMEM. */
luo_status recorded_run_add(convert_job *job, const recorded_run *run);
#endif
