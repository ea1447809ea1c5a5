/* rundir.h: a run directory, DIR/POLICY (docs/results.md), as the sink of a run.
 *
 *   luo_rundir_open(dir, &opts, &r, err);      config/, manifest.json (state running), headers
 *   luo_run_policy(.., luo_rundir_sink(r), ..) rows; flushed at each step boundary
 *   luo_rundir_close(r, LUO_COMPLETE, 0, err); trace.json.gz, manifest.json replaced
 *
 * The order of the files on disk is such that at any moment every CSV parses and manifest.json
 * tells the truth. */
#ifndef LUO_CORE_IO_RESULT_RUNDIR_H
#define LUO_CORE_IO_RESULT_RUNDIR_H
#include "core/run/rows.h"
#include "core/run/scenario.h"

typedef struct luo_fact { /* one line of the manifest */
    const char *name, *value;
} luo_fact;

typedef struct luo_rundir_opts {
    const luo_scenario *scenario;
    const char *policy;  /* label, as in the name of the folder */
    const char *backend; /* "sim" */
    const char *version; /* of luoshu; also in the trace */
    int32_t nfacts;      /* git_commit, build_flags, compiler, wall_start .. as text, in order */
    const luo_fact *facts;
    int32_t nlibraries; /* name and version */
    const luo_fact *libraries;
    int32_t argc, noverrides, ninputs;
    const char *const *argv, *const *overrides;
    const char *const *inputs; /* paths of every input file, copied into config/ */
    bool keep_programs;
    int64_t ops_limit, trace_limit; /* 0: 2,000,000 each */
    /* 0: steps were asked for. Else of a traced step of more operations some devices are kept,
     * of the first step so many that they have ops_first, or one; ops_limit is that of all steps
     * behind the first. */
    int64_t ops_whole, ops_first;
    luo_diags *diags;               /* warnings go here as well; NULL: nowhere */
    /* Seconds of the wall clock from any origin; NULL: columns wall_ are 0. */
    double (*wall_s)(void *ctx);
    /* Called at each step boundary; for progress. May be NULL. */
    void (*progress)(void *ctx, int64_t step, int64_t steps, double t_s, int32_t events);
    void *ctx; /* of the two */
} luo_rundir_opts;

typedef struct luo_rundir luo_rundir;

/* Makes dir, copies inputs below 64 MiB, writes manifest.json with state `running`, and the header
 * of every table. opts and what it points to must live until close.
 * Errors: LUO_EIO; LUO_EINPUT an input cannot be read; LUO_ENOMEM. *out only on success. */
luo_status luo_rundir_open(const char *dir, const luo_rundir_opts *opts, luo_rundir **out,
                           luo_err *err);
/* Gives rundir back and leaves its files as they are, state `running`: another process goes on. */
void luo_rundir_leave(luo_rundir *rundir);
const luo_sink *luo_rundir_sink(const luo_rundir *dir);
/* Appends a line to log.txt: `warning: TEXT`; the last error also stands in the manifest. Failure
 * to write is reported by close. */
void luo_rundir_log(luo_rundir *dir, luo_severity severity, const char *text);
/* Rewrites the manifest of a run whose process has ended without doing so, or never began: state,
 * exit and error. Nothing if DIR has no manifest, or one of a run that has ended. Errors: LUO_EIO,
 * LUO_EINPUT, LUO_ENOMEM. */
luo_status luo_rundir_ended(const char *dir, luo_run_state state, int exit_code, const char *error,
                            luo_err *err);
/* Flushes, writes trace.json.gz when a step was traced or an event fired, replaces the manifest,
 * gives everything back. Pre: state is not running. Errors: the first one of any
 * file, LUO_EIO. rundir is freed in any case; NULL is fine. */
luo_status luo_rundir_close(luo_rundir *rundir, luo_run_state state, int exit_code, luo_err *err);
#endif
