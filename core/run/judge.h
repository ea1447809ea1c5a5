/* core/run/judge.h: what a step of a plan takes, told by the simulator: what planners and policies
 * rank plans by (Malleus, amendment 1). Slowdowns are those that are believed; links are
 * healthy. */
#ifndef LUO_CORE_RUN_JUDGE_H
#define LUO_CORE_RUN_JUDGE_H
#include "core/base/hash.h"
#include "core/run/backend.h"

enum { LUO_JUDGE_DEVICES = 256 }; /* most devices of a cluster whose plans are simulated unasked */

typedef struct luo_judge {
    const luo_backend *simulator; /* with virtual time */
    const luo_model *model;
    const luo_cluster *cluster;
    const luo_stack *stack;
    luo_bucketing bucket;
    luo_comm_mode comm;
    const volatile int *interrupted; /* as in luo_backend_config */
    luo_map known; /* steps by plan, tokens and slowdowns: bits of a double. {0} at first */
} luo_judge;

/* Seconds of one step with sequences of that many tokens. rate: per device, slowdown, INFINITY when
 * not usable. *seconds: INFINITY where the plan cannot run: a device is not usable, it does not
 * compile or does not fit in memory; then *err says why, with LUO_OK.
 * Errors: LUO_EBACKEND, LUO_ECANCELED, LUO_ENOMEM. Owner: nothing is kept but known. Cost: a
 * compilation and one simulated step, the first time. */
luo_status luo_judge_step(luo_judge *j, const luo_plan *p, int64_t sequence_tokens,
                          const double *rate, double *seconds, luo_err *err);
void luo_judge_free(luo_judge *j);

/* A double in a luo_map. */
int64_t luo_judge_bits(double v);
double luo_judge_number(int64_t bits);
#endif
