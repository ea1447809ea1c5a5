/* replay_files.h: what `luoshu replay` writes and prints. */
#ifndef LUO_CLI_REPLAY_REPLAY_FILES_H
#define LUO_CLI_REPLAY_REPLAY_FILES_H
#include "cli/cli.h"
#include "core/run/replay/replay.h"

/* Timelines in the folder, and how each begins. */
#define LUO_REPLAY_RECORDED "recorded.csv"
#define LUO_REPLAY_IDEAL "ideal.csv"
#define LUO_REPLAY_TIMES "op_times.csv" /* of an older luoshu; --force removes it */
#define LUO_REPLAY_SAYS "# luoshu replay: "

typedef struct luo_replay_files {
    const char *path; /* the timeline, as named */
    const char *dir;
    const luo_replay *replay;
    const luo_replay_figures *figures;
    const char *answer; /* of luo_replay_files_say */
} luo_replay_files;

/* What stragglers cost and who they are: one sentence, a line. */
void luo_replay_files_say(const luo_replay_figures *figures, luo_str *text);

/* Writes attribution.csv, compare_steps.csv, compare_steps-ideal.csv, devices.csv, the first step
 * as recorded.csv and ideal.csv, and summary.json, which has the answer and the ideal durations,
 * into dir, which is there. Errors: LUO_EIO; LUO_ENOMEM. */
luo_status luo_replay_files_write(luo_cli *cli, const luo_replay_files *files, luo_err *err);
/* The answer first, then who is slow. */
void luo_replay_files_print(luo_cli *cli, const luo_replay_files *files);
/* Writes a scenario of the job into `path`: with --model, --cluster and --plan (plan.json beside
 * the timeline), a straggler for each worker whose computation takes over 1.05 times the mean of
 * all. Errors: LUO_EUSAGE; LUO_EINPUT the plan has other pipelines; those of files, in cli->diags;
 * LUO_EIO; LUO_ENOMEM. */
luo_status luo_replay_files_scenario(luo_cli *cli, const luo_replay_files *files, const char *path,
                                     luo_err *err);
#endif
