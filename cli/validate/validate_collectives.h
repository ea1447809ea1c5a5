/* validate_collectives.h: suite `collectives`: tables of NCCL in DIR/micro. */
#ifndef LUO_CLI_VALIDATE_VALIDATE_COLLECTIVES_H
#define LUO_CLI_VALIDATE_VALIDATE_COLLECTIVES_H
#include "cli/validate/validate.h"

typedef struct luo_collectives { /* rows with their predictions */
    luo_case *cases;
    luo_score *scores;
    int *fold; /* -1: none */
    int32_t n;
} luo_collectives;

/* Reads nccl_busbw.csv and vtrain_allreduce_*.csv of DIR/micro as far as they are there, and
 * predicts each row by luo_cost_group. folds > 0: by what the other folds of its table tell
 * (bandwidths of their sizes; of several nodes net_ratio, net_half_bytes and the step); else by the
 * profile that ships for its GPU. Rows whose size or bandwidth is text, or a bandwidth of one
 * digit, are left out. Errors: LUO_EPARSE, LUO_EINPUT (in cli->diags), LUO_ENOMEM. */
luo_status luo_collectives_read(luo_cli *cli, const char *data, int folds, luo_collectives *out,
                                luo_err *err);
#endif
