#include "cli/plan/plan_shares.h"

#include <string.h>

#define INSIDE "faster links inside a node"
#define BETWEEN "faster links between nodes"

static const double LITTLE = 0.02; /* a share that limits nothing */

void luo_plan_shares(const luo_judgement *step, luo_plan_share out[LUO_PLAN_SHARES])
{
    const luo_parts *parts = &step->mean;
    const luo_plan_share all[LUO_PLAN_SHARES] = {
        {"compute", NULL, NULL, NULL, parts->compute_s},
        {"recompute", "memory, which recompute makes", "more memory on a device", NULL,
         parts->recompute_s},
        {"tp", "tensor parallelism", INSIDE, BETWEEN, parts->tp_s},
        {"ep", "expert parallelism", "faster links between experts", NULL, parts->ep_s},
        {"cp", "context parallelism", "faster links between the parts of a sequence", NULL,
         parts->cp_s},
        {"pp", "transfers between stages", BETWEEN, INSIDE, parts->pp_s},
        {"dp", "data parallelism", BETWEEN ", or a larger batch", INSIDE ", or a larger batch",
         parts->dp_s},
        {"other", NULL, NULL, NULL, parts->move_s + parts->io_s},
        {"imbalance", "the imbalance of the stages", "layers that divide better among the stages",
         "work that divides better among the devices", step->imbalance_s},
        {"bubble", "the bubble of the pipeline", "more micro-batches: a larger batch", NULL,
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

/* ---- what helps ---- */

/* Is a device of one on another node than one of the other? */
static bool apart(const luo_cluster *cluster, const luo_stage *a, const luo_stage *b)
{
    for (int32_t i = 0; i < a->ndev; i++)
        for (int32_t k = 0; k < b->ndev; k++)
            if (cluster->devices[a->dev[i]].node != cluster->devices[b->dev[k]].node) return true;
    return false;
}

static bool groups_cross(const luo_plan *plan, const luo_cluster *cluster)
{
    for (int32_t i = 0; i < plan->npipelines; i++)
        for (int32_t s = 0; s < plan->pipelines[i].nstages; s++)
            if (apart(cluster, &plan->pipelines[i].stages[s], &plan->pipelines[i].stages[s]))
                return true;
    return false;
}

/* Chunks go round: from the last stage to the first. */
static bool stages_cross(const luo_plan *plan, const luo_cluster *cluster)
{
    for (int32_t i = 0; i < plan->npipelines; i++) {
        const luo_pipeline *p = &plan->pipelines[i];
        for (int32_t s = plan->chunks > 1 ? 0 : 1; s < p->nstages; s++)
            if (apart(cluster, &p->stages[s], &p->stages[s > 0 ? s - 1 : p->nstages - 1]))
                return true;
    }
    return false;
}

static bool share_layers(const luo_stage *a, const luo_stage *b)
{
    for (int32_t i = 0; i < a->nlayers; i++)
        for (int32_t k = 0; k < b->nlayers; k++)
            if (a->layers[i].lo < b->layers[k].hi && b->layers[k].lo < a->layers[i].hi) return true;
    return false;
}

/* Copies on the node of the first one are on one node. */
static bool copies_cross(const luo_plan *plan, const luo_cluster *cluster)
{
    const luo_pipeline *first = &plan->pipelines[0];
    for (int32_t i = 0; i < plan->npipelines; i++)
        for (int32_t s = 0; s < plan->pipelines[i].nstages; s++)
            for (int32_t k = 0; k < first->nstages; k++)
                if (share_layers(&plan->pipelines[i].stages[s], &first->stages[k]) &&
                    apart(cluster, &plan->pipelines[i].stages[s], &first->stages[k]))
                    return true;
    return false;
}

static bool one_stage(const luo_plan *plan)
{
    for (int32_t i = 0; i < plan->npipelines; i++)
        if (plan->pipelines[i].nstages > 1) return false;
    return true;
}

const char *luo_plan_share_remedy(const luo_plan_share *share, const luo_plan *plan,
                                  const luo_cluster *cluster)
{
    const struct {
        const char *name;
        bool instead;
    } rows[] = {{"tp", groups_cross(plan, cluster)},
                {"pp", !stages_cross(plan, cluster)},
                {"dp", !copies_cross(plan, cluster)},
                {"imbalance", one_stage(plan)}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strcmp(share->name, rows[i].name) == 0 && rows[i].instead) return share->instead;
    return share->remedy;
}

double luo_plan_share_exposed(const luo_judgement *step)
{
    const luo_parts *parts = &step->mean;
    return parts->tp_s + parts->ep_s + parts->cp_s + parts->pp_s + parts->dp_s;
}
