/* check_experts.c: pipelines agree on how experts are held. */
#include "core/plan/check/check_internal.h"

/* 1 + experts_dealt of the stage that holds layer l; 0: none does. */
static int experts_of(const luo_pipeline *pl, int32_t l)
{
    for (int32_t s = 0; s < pl->nstages; s++)
        for (int32_t k = 0; k < pl->stages[s].nlayers; k++)
            if (l >= pl->stages[s].layers[k].lo && l < pl->stages[s].layers[k].hi)
                return 1 + pl->stages[s].experts_dealt;
    return 0;
}

/* Keys about experts would change nothing in a model without any. */
static void check_no_experts(luo_checker *checker)
{
    if (!checker->model || checker->model->moe.experts) return;
    for (int32_t i = 0; i < checker->p->npipelines; i++)
        for (int32_t s = 0; s < checker->p->pipelines[i].nstages; s++) {
            if (!checker->p->pipelines[i].stages[s].experts_dealt) continue;
            luo_check_place(checker, "/pipelines/%d/stages/%d/experts", i, s);
            luo_check_find(checker,
                           "`experts` is `expert`, but model `%s` has no experts; leave it out.",
                           checker->model->name);
        }
    luo_check_place(checker, "/expert_parallel");
    if (checker->p->expert_parallel)
        luo_check_find(checker,
                       "`expert_parallel` is given, but model `%s` has no experts; leave it out.",
                       checker->model->name);
    luo_check_place(checker, "/moe_exchange");
    if (checker->p->moe_exchange)
        luo_check_find(checker,
                       "`moe_exchange` is `%s`, but model `%s` has no experts; leave it out.",
                       luo_alltoall_kind_name(checker->p->moe_exchange), checker->model->name);
    luo_check_place(checker, "/expert_groups");
    if (checker->p->ngroups)
        luo_check_find(checker,
                       "`expert_groups` are given, but model `%s` has no experts; leave them out.",
                       checker->model->name);
}

static void check_agreement(luo_checker *checker)
{
    bool any = false;
    for (int32_t i = 0; i < checker->p->npipelines; i++)
        for (int32_t s = 0; s < checker->p->pipelines[i].nstages; s++)
            any = any || checker->p->pipelines[i].stages[s].experts_dealt;
    for (int32_t l = 0; any && l < checker->p->layers; l++)
        for (int32_t i = 1; i < checker->p->npipelines; i++) {
            const int a = experts_of(&checker->p->pipelines[0], l);
            const int b = experts_of(&checker->p->pipelines[i], l);
            if (!a || !b || a == b) continue;
            luo_check_place(checker, "/pipelines/%d/stages", i);
            luo_check_find(
                checker,
                "layer %d has `experts` `%s` in pipeline %d and `%s` in pipeline 0; they must "
                "agree.",
                l, b == 2 ? "expert" : "tensor", i, a == 2 ? "expert" : "tensor");
            return;
        }
}

static bool same_layers(const luo_pipeline *a, const luo_pipeline *b)
{
    if (a->nstages != b->nstages) return false;
    for (int32_t s = 0; s < a->nstages; s++) {
        if (a->stages[s].nlayers != b->stages[s].nlayers) return false;
        for (int32_t k = 0; k < a->stages[s].nlayers; k++)
            if (a->stages[s].layers[k].lo != b->stages[s].layers[k].lo ||
                a->stages[s].layers[k].hi != b->stages[s].layers[k].hi)
                return false;
    }
    return true;
}

static void check_groups(luo_checker *checker)
{
    const luo_plan *plan = checker->p;
    int32_t *by = LUO_NEW_N(checker->arena, int32_t, plan->npipelines + 1);
    if (!by) checker->failed = true;
    for (int32_t g = 0; by && g < plan->ngroups; g++)
        for (int32_t k = 0; k < plan->expert_groups[g].n; k++) {
            const int32_t i = plan->expert_groups[g].pipeline[k];
            luo_check_place(checker, "/expert_groups/%d/%d", g, k);
            if (i < 0 || i >= plan->npipelines) {
                luo_check_find(checker, "pipeline %d does not exist; pipelines are 0 to %d.", i,
                               plan->npipelines - 1);
                continue;
            }
            if (by[i])
                luo_check_find(checker, "pipeline %d is in two expert groups; one is allowed.", i);
            by[i] = 1;
            const int32_t first = plan->expert_groups[g].pipeline[0];
            if (first >= 0 && first < plan->npipelines &&
                !same_layers(&plan->pipelines[first], &plan->pipelines[i]))
                luo_check_find(
                    checker,
                    "pipelines %d and %d share experts but cut the layers differently; equal "
                    "stage layers are required.",
                    first, i);
        }
}

void luo_check_experts(luo_checker *checker)
{
    check_no_experts(checker);
    check_agreement(checker);
    check_groups(checker);
}
