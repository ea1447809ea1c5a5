/* plan_shares.h: where the time of a simulated step goes, and what would help. */
#ifndef LUO_CLI_PLAN_PLAN_SHARES_H
#define LUO_CLI_PLAN_PLAN_SHARES_H
#include "core/run/policy/judge.h"

typedef struct luo_plan_share {
    const char *name;
    const char *limit;  /* what it says when it is the largest; NULL: no limit */
    const char *remedy; /* what makes it smaller; NULL: nothing is known */
    const char *instead; /* that, where luo_plan_share_remedy says so; NULL: the same */
    double seconds;     /* mean over the devices */
} luo_plan_share;
enum { LUO_PLAN_SHARES = 10 };

/* They sum to the step. */
void luo_plan_shares(const luo_judgement *step, luo_plan_share out[LUO_PLAN_SHARES]);
/* The largest of n that is a limit and more than 2 % of the step; NULL: computation is. */
const luo_plan_share *luo_plan_share_limit(const luo_plan_share *share, int n, double step_s);
/* Its remedy in this plan: of transfers that stay inside nodes (tp: that do not), and of an
 * imbalance where pipelines have one stage, `instead`. Cost: O(devices * stages). */
const char *luo_plan_share_remedy(const luo_plan_share *share, const luo_plan *plan,
                                  const luo_cluster *cluster);
/* What is communication of it, seconds. */
double luo_plan_share_exposed(const luo_judgement *step);
#endif
