/* check_reroute.c: stages that have lost their devices, and who runs them instead. */
#include <string.h>

#include "core/plan/check/check_internal.h"
#include "core/plan/replan/reroute.h"

/* A peer has the stage, holds the same there, and cuts it like the first peer. */
static void check_peer(luo_checker *checker, int32_t i, int32_t s, int32_t k, int32_t *by)
{
    const luo_plan *plan = checker->p;
    const luo_stage *st = &plan->pipelines[i].stages[s];
    const int32_t j = st->reroute[k].pipeline, first = st->reroute[0].pipeline;
    luo_check_place(checker, "/pipelines/%d/stages/%d/reroute/%d/pipeline", i, s, k);
    if (j < 0 || j >= plan->npipelines) {
        luo_check_find(checker, "pipeline %d does not exist; pipelines are 0 to %d.", j,
                       plan->npipelines - 1);
        return;
    }
    if (by[j])
        luo_check_find(checker, "pipeline %d is named twice; one entry with the sum is expected.",
                       j);
    by[j] = k + 1;
    if (!luo_reroute_is_peer(plan, i, j, s)) {
        luo_check_find(
            checker,
            "pipeline %d cannot run stage %d of pipeline %d; another pipeline with as many "
            "stages, and the same layers and recompute on this one, is expected.",
            j, s, i);
        return;
    }
    const luo_stage *peer = &plan->pipelines[j].stages[s];
    if (peer->ndev == 0)
        luo_check_find(checker, "stage %d of pipeline %d has no devices either; give one that has.",
                       s, j);
    else if (first >= 0 && first < plan->npipelines && luo_reroute_is_peer(plan, i, first, s) &&
             !luo_reroute_cuts_alike(&plan->pipelines[first].stages[s], peer))
        luo_check_find(
            checker,
            "stage %d of pipelines %d and %d has other tensor-parallel groups; peers of one "
            "stage have equal ones.",
            s, first, j);
}

static void check_lost(luo_checker *checker, int32_t i, int32_t s, int32_t *by)
{
    const luo_plan *plan = checker->p;
    const luo_stage *st = &plan->pipelines[i].stages[s];
    int64_t sum = 0;
    if (st->nreroute == 0) return;
    luo_check_place(checker, "/pipelines/%d/stages/%d/reroute", i, s);
    if (st->ndev)
        luo_check_find(
            checker,
            "stage %d has devices and `reroute`; `devices` is [] where others run the stage.", s);
    const char *why = luo_plan_not_reroutable(plan);
    if (why)
        luo_check_find(
            checker,
            "`reroute` does not go with %s; schedule 1f1b, zb_h1 or zb_h2 and zero 0 or 1 "
            "without such are expected.",
            why);
    memset(by, 0, (size_t)plan->npipelines * sizeof *by);
    for (int32_t k = 0; k < st->nreroute; k++) {
        check_peer(checker, i, s, k, by);
        sum += st->reroute[k].micro_batches;
    }
    luo_check_place(checker, "/pipelines/%d/stages/%d/reroute", i, s);
    if (sum != plan->pipelines[i].micro_batches)
        luo_check_find(checker, "%lld micro-batches are dealt; pipeline %d has %d.", (long long)sum,
                       i, plan->pipelines[i].micro_batches);
}

void luo_check_reroute(luo_checker *checker)
{
    int32_t *by = LUO_NEW_N(checker->arena, int32_t, checker->p->npipelines + 1);
    if (!by) checker->failed = true;
    for (int32_t i = 0; by && i < checker->p->npipelines; i++)
        for (int32_t s = 0; s < checker->p->pipelines[i].nstages; s++)
            check_lost(checker, i, s, by);
}
