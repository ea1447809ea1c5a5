/* toy_run.h: `luoshu sync` and `embed` with --backend host: toy models on processes, under the
 * controllers that are simulated otherwise (exec/sync). */
#ifndef LUO_CLI_SYNC_TOY_RUN_H
#define LUO_CLI_SYNC_TOY_RUN_H
#include "cli/sync/sync_write.h"
#include "exec/sync/sync_job.h"

/* Trains a toy under that mode; embed: LUO_SYNC_NO_EMBED, or how `wide` keeps its table (asp).
 * Errors: LUO_EUSAGE; LUO_EINPUT a trace or a log; LUO_EPEER a rank was killed; LUO_ESTUCK;
 * LUO_EBACKEND; LUO_EIO; LUO_ENOMEM; err is empty where cli->diags has them. */
luo_status luo_toy_run(luo_cli *cli, luo_loop_mode mode, luo_sync_embed embed, luo_err *err);

/* ---- toy_job.c ---- */

/* The options as a job, but for its folder. Errors: LUO_EUSAGE; LUO_EINPUT a trace; LUO_ENOMEM. */
luo_status luo_toy_job_read(luo_cli *cli, luo_loop_mode mode, luo_sync_embed embed,
                            luo_sync_job *out, luo_err *err);

/* ---- toy_log.c ---- */

typedef struct luo_toy_fact { /* of a rank, in the order written */
    const char *name;
    double value;
} luo_toy_fact;

typedef struct luo_toy_log { /* what the ranks have written, as far as they came */
    luo_loop_summary summary;
    luo_toy_fact *facts;
    int64_t nfacts, cap_facts;
} luo_toy_log;

/* Reads the logs in `ranks` and gives rows and groups to the sink, by time. What a killed rank has
 * not written whole is left out. Errors: LUO_EINPUT a log that is none; LUO_EIO; LUO_ENOMEM. */
luo_status luo_toy_log_read(luo_cli *cli, const luo_sync_job *job, const char *ranks,
                            const luo_loop_sink *sink, luo_toy_log *out, luo_err *err);
/* Sum and largest of the facts of that name; NAN: there is none. */
double luo_toy_log_sum(const luo_toy_log *log, const char *name);
double luo_toy_log_most(const luo_toy_log *log, const char *name);
#endif
