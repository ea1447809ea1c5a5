#include "cli/plan/plan_shares.h"

#include <string.h>

static const double LITTLE = 0.02; /* a share that limits nothing */

void luo_plan_shares(const luo_judgement *step, luo_plan_share out[LUO_PLAN_SHARES])
{
    const luo_parts *parts = &step->mean;
    const luo_plan_share all[LUO_PLAN_SHARES] = {
        {"compute", NULL, NULL, false, parts->compute_s},
        {"recompute", "memory, which recompute makes", "more memory on a device", false,
         parts->recompute_s},
        {"tp", "tensor parallelism", NULL, true, parts->tp_s},
        {"ep", "expert parallelism", NULL, true, parts->ep_s},
        {"cp", "context parallelism", NULL, true, parts->cp_s},
        {"pp", "transfers between stages", NULL, true, parts->pp_s},
        {"dp", "data parallelism", "a larger batch", true, parts->dp_s},
        {"other", NULL, NULL, false, parts->move_s + parts->io_s},
        {"imbalance", "the imbalance of the stages", "layers that divide better among the stages",
         false, step->imbalance_s},
        {"bubble", "the bubble of the pipeline", "more micro-batches: a larger batch", false,
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

static bool one_stage(const luo_plan *plan)
{
    for (int32_t i = 0; i < plan->npipelines; i++)
        if (plan->pipelines[i].nstages > 1) return false;
    return true;
}

const char *luo_plan_share_remedy(const luo_plan_share *share, const luo_plan *plan)
{
    if (strcmp(share->name, "imbalance") == 0 && one_stage(plan))
        return "work that divides better among the devices";
    return share->remedy;
}

double luo_plan_share_exposed(const luo_judgement *step)
{
    const luo_parts *parts = &step->mean;
    return parts->tp_s + parts->ep_s + parts->cp_s + parts->pp_s + parts->dp_s;
}

/* ---- faster links ---- */

const char *luo_plan_links_name(luo_plan_links links)
{
    return links == LUO_PLAN_INSIDE ? "inside a node" : "between nodes";
}

static luo_plan_links links_of(luo_link_kind kind)
{
    switch (kind) {
    case LUO_LINK_NVLINK:
    case LUO_LINK_PCIE:
    case LUO_LINK_PCIE_SWITCH:
    case LUO_LINK_SOCKET:
        return LUO_PLAN_INSIDE;
    case LUO_LINK_NIC:
    case LUO_LINK_UPLINK:
    case LUO_LINK_LINE:
        return LUO_PLAN_BETWEEN;
    case LUO_LINK_STORAGE:
        break;
    }
    return LUO_PLAN_LINKS;
}

static void speed_up_group(luo_node_group *group, luo_plan_links links)
{
    double *const inside[] = {&group->scale_up_bytes_per_s, &group->pcie_bytes_per_s,
                              &group->socket_bytes_per_s};
    if (links == LUO_PLAN_BETWEEN) group->nic_bytes_per_s *= LUO_PLAN_FASTER;
    for (size_t i = 0; i < sizeof inside / sizeof *inside && links == LUO_PLAN_INSIDE; i++)
        *inside[i] *= LUO_PLAN_FASTER;
}

/* The cluster with faster links; what does not change is shared. */
static luo_status speed_up(luo_arena *arena, const luo_cluster *cluster, luo_plan_links links,
                           luo_cluster *out, luo_err *err)
{
    luo_node_group *groups = LUO_NEW_N(arena, luo_node_group, cluster->ngroups);
    luo_site_link *lines = LUO_NEW_N(arena, luo_site_link, cluster->nsite_links);
    luo_link *link = LUO_NEW_N(arena, luo_link, cluster->nlinks);
    if (!groups || !lines || !link) return luo_err_nomem(err);
    *out = *cluster;
    for (int32_t i = 0; i < cluster->ngroups; i++) {
        groups[i] = cluster->groups[i];
        speed_up_group(&groups[i], links);
    }
    for (int32_t i = 0; i < cluster->nsite_links; i++) {
        lines[i] = cluster->site_links[i];
        if (links == LUO_PLAN_BETWEEN) lines[i].bytes_per_s *= LUO_PLAN_FASTER;
    }
    for (int32_t i = 0; i < cluster->nlinks; i++) {
        link[i] = cluster->links[i];
        if (links_of(link[i].kind) != links) continue;
        link[i].bytes_per_s *= LUO_PLAN_FASTER;
        link[i].down_bytes_per_s *= LUO_PLAN_FASTER;
    }
    if (links == LUO_PLAN_BETWEEN) out->rack_uplink_bytes_per_s *= LUO_PLAN_FASTER;
    out->groups = groups;
    out->site_links = lines;
    out->links = link;
    return LUO_OK;
}

luo_status luo_plan_with_faster(luo_arena *arena, const luo_judge *judge, const luo_plan *plan,
                                const double *rate, luo_plan_links links, double *seconds,
                                luo_err *err)
{
    luo_cluster cluster;
    luo_judgement step;
    luo_judge other = *judge;
    LUO_TRY(speed_up(arena, judge->cluster, links, &cluster, err));
    other.cluster = &cluster;
    LUO_TRY(luo_judge_plan(&other, plan, plan->sequence_tokens, rate, &step, err));
    *seconds = step.seconds;
    return LUO_OK;
}
