/* plan_shares.h: where the time of a simulated step goes, and what would help. */
#ifndef LUO_CLI_PLAN_PLAN_SHARES_H
#define LUO_CLI_PLAN_PLAN_SHARES_H
#include "core/run/policy/judge.h"

typedef struct luo_plan_share {
    const char *name;
    const char *limit;  /* what it says when it is the largest; NULL: no limit */
    const char *remedy; /* what makes it smaller, beside faster links; NULL: nothing is known */
    bool communication; /* faster links may make it smaller */
    double seconds; /* mean over the devices */
} luo_plan_share;
enum { LUO_PLAN_SHARES = 10 };

/* They sum to the step. */
void luo_plan_shares(const luo_judgement *step, luo_plan_share out[LUO_PLAN_SHARES]);
/* The largest of n that is a limit and more than 2 % of the step; NULL: computation is. */
const luo_plan_share *luo_plan_share_limit(const luo_plan_share *share, int n, double step_s);
/* Its remedy in this plan; of communication without links. Cost: O(pipelines). */
const char *luo_plan_share_remedy(const luo_plan_share *share, const luo_plan *plan);
/* What is communication of it, seconds. */
double luo_plan_share_exposed(const luo_judgement *step);

enum { LUO_PLAN_FASTER = 100 }; /* times as fast */
typedef enum luo_plan_links {
    LUO_PLAN_INSIDE,  /* nodes: NVLink, PCIe, between sockets */
    LUO_PLAN_BETWEEN, /* nodes: network cards, uplinks, lines */
    LUO_PLAN_LINKS
} luo_plan_links;
const char *luo_plan_links_name(luo_plan_links links);
/* Seconds of the plan's step where these links have LUO_PLAN_FASTER times their bandwidth, told by
 * the simulator. Errors: those of luo_judge_plan. Owner: nothing is kept but arena's memory. */
luo_status luo_plan_with_faster(luo_arena *arena, const luo_judge *judge, const luo_plan *plan,
                                const double *rate, luo_plan_links links, double *seconds,
                                luo_err *err);
#endif
