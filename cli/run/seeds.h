/* seeds.h: one scenario under several seeds, each in a process of its own, then compared. */
#ifndef LUO_CLI_RUN_SEEDS_H
#define LUO_CLI_RUN_SEEDS_H
#include "cli/cli.h"

enum { LUO_SEEDS_MAX = 1024 };

typedef struct luo_seeds {
    const char *text; /* "1-8,11" */
    int32_t n;
    const char **seed;
    const char *dir; /* result set of seed k: dir/seedK */
    bool plots;
    int32_t ninputs;
    const char *const *inputs; /* files that each of them reads */
    /* Runs one seed into a folder; called in a process of its own. */
    luo_status (*run)(luo_cli *cli, const char *seed, const char *dir, luo_err *err);
} luo_seeds;

/* text -> seed[n]. Errors: LUO_EUSAGE. Owner: cli->arena. */
luo_status luo_seeds_read(luo_cli *cli, luo_seeds *seeds, luo_err *err);
/* --jobs of them at a time (as many as there are cores); then dir/compare.csv, seeds.csv, pairs.csv
 * and the figure `goodput`; prints the table. What a seed says goes to dir/seedK.log, which stays
 * where it failed. Errors: LUO_ENO a policy was lost in a seed; the worst of the seeds. A signal
 * ends all: exit 128 + n. */
luo_status luo_seeds_run(luo_cli *cli, const luo_seeds *seeds, luo_err *err);
#endif
