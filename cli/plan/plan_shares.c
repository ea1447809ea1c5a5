#include "cli/plan/plan_shares.h"

#include <string.h>

static const double LITTLE = 0.02; /* a share that limits nothing */

void luo_plan_shares(const luo_judgement *step, luo_plan_share out[LUO_PLAN_SHARES])
{
    const luo_parts *parts = &step->mean;
    const luo_plan_share all[LUO_PLAN_SHARES] = {
        {"compute", NULL, NULL, parts->compute_s},
        {"recompute", "memory, which recompute makes", "more memory on a device",
         parts->recompute_s},
        {"tp", "tensor parallelism", "faster links inside a node", parts->tp_s},
        {"ep", "expert parallelism", "faster links between experts", parts->ep_s},
        {"cp", "context parallelism", "faster links between the parts of a sequence", parts->cp_s},
        {"pp", "transfers between stages", "faster links between nodes", parts->pp_s},
        {"dp", "data parallelism", "faster links between nodes, or a larger batch", parts->dp_s},
        {"other", NULL, NULL, parts->move_s + parts->io_s},
        {"imbalance", "the imbalance of the stages", "layers that divide better among the stages",
         step->imbalance_s},
        {"bubble", "the bubble of the pipeline", "more micro-batches: a larger batch",
         parts->bubble_s - step->imbalance_s}};
    memcpy(out, all, sizeof all);
}

const luo_plan_share *luo_plan_share_limit(const luo_plan_share *share, int n, double step_s)
{
    const luo_plan_share *limit = NULL;
    double most = LITTLE * step_s;
    for (int i = 0; i < n; i++)
        if (share[i].limit && share[i].seconds > most) {
            most = share[i].seconds;
            limit = &share[i];
        }
    return limit;
}

double luo_plan_share_exposed(const luo_judgement *step)
{
    const luo_parts *parts = &step->mean;
    return parts->tp_s + parts->ep_s + parts->cp_s + parts->pp_s + parts->dp_s;
}
