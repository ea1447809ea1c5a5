/* plan_check.c: what can be wrong with a plan before it is compiled, in the order of
 * docs/formats.md#luoshuplan1. Each check goes on after a finding, so that one run names them
 * all: the first LUO_DIAGS_MAX in words, since a file may have millions. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/base/hash.h"
#include "core/base/vec.h"
#include "core/hspmd/ann.h"
#include "core/plan/check/check_internal.h"

void luo_check_place(luo_checker *checker, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(checker->pointer, sizeof checker->pointer, fmt, ap);
    va_end(ap);
}

void luo_check_find(luo_checker *checker, const char *fmt, ...)
{
    checker->n++;
    if (checker->n > LUO_DIAGS_MAX) return;
    if (!checker->at) checker->at = LUO_NEW_N(checker->arena, luo_plan_finding, LUO_DIAGS_MAX);
    if (!checker->at) {
        checker->failed = true;
        return;
    }
    luo_plan_finding *finding = &checker->at[checker->n - 1];
    va_list ap;
    va_start(ap, fmt);
    finding->st = LUO_EINPUT;
    memcpy(finding->pointer, checker->pointer, sizeof finding->pointer);
    vsnprintf(finding->text, sizeof finding->text, fmt, ap);
    va_end(ap);
}

/* ---- schedule and chunks ---- */

static void check_schedule(luo_checker *checker)
{
    const luo_plan *plan = checker->p;
    const bool inter = luo_sched_takes_chunks(plan->schedule);
    luo_check_place(checker, "/schedule/chunks");
    if (plan->chunks > 1 && !inter)
        luo_check_find(checker,
                       "`chunks` is %d with schedule `%s`; more than 1 needs `interleaved_1f1b`.",
                       plan->chunks, luo_sched_name(plan->schedule));
    luo_check_place(checker, "/schedule/kind");
    if (luo_sched_splits(plan->schedule) && plan->zero >= 2)
        luo_check_find(
            checker,
            "schedule `%s` with zero %d: gradients that are cut in every micro-batch need a "
            "whole backward; use zero 0 or 1, or schedule `1f1b`.",
            luo_sched_name(plan->schedule), plan->zero);
    for (int32_t i = 0; i < plan->npipelines; i++) {
        const luo_pipeline *pl = &plan->pipelines[i];
        for (int32_t s = 0; s < pl->nstages; s++)
            if (pl->stages[s].nlayers != plan->chunks) {
                luo_check_place(checker, "/pipelines/%d/stages/%d/layers", i, s);
                luo_check_find(checker,
                               "stage %d has %d layer ranges; `chunks` %d asks for as many.", s,
                               pl->stages[s].nlayers, plan->chunks);
            }
        if (inter && pl->nstages > 1 && pl->micro_batches % pl->nstages) {
            luo_check_place(checker, "/pipelines/%d/micro_batches", i);
            luo_check_find(
                checker,
                "interleaved schedule: %d micro-batches are not a multiple of %d stages; "
                "choose a multiple.",
                pl->micro_batches, pl->nstages);
        }
    }
}

/* ---- form of the annotations; whether they can be met, the compiler finds ---- */

static void check_ann_devices(luo_checker *checker, const luo_ann *ann)
{
    for (int32_t g = 0; g < ann->u; g++)
        for (int32_t k = 0; k < ann->grp[g].ndev; k++) {
            const int32_t d = ann->grp[g].dev[k];
            if (d >= 0 && d < checker->p->devices) continue;
            luo_check_find(checker,
                           "device %d is not among the %d devices of the plan; ids are 0 to %d.", d,
                           checker->p->devices, checker->p->devices - 1);
            return;
        }
}

static void check_annotations(luo_checker *checker)
{
    luo_map seen = {0};
    for (int32_t k = 0; k < checker->p->nannotations && !checker->failed; k++) {
        const luo_plan_annotation *annotation = &checker->p->annotations[k];
        const luo_ann *ann;
        luo_err err;
        luo_check_place(checker, "/annotations/%d/annotation", k);
        const luo_status st = luo_ann_parse(checker->arena, annotation->annotation, &ann, &err);
        if (st == LUO_ENOMEM)
            checker->failed = true;
        else if (st != LUO_OK)
            luo_check_find(checker, "%s", err.text);
        else
            check_ann_devices(checker, ann);
        const uint64_t key =
            luo_hash_str(luo_hash_bytes(luo_hash_str(LUO_HASH_EMPTY, annotation->tensor), "\n", 1),
                         annotation->at) >>
            1;
        int64_t *first = luo_map_at(&seen, key, k);
        if (!first)
            checker->failed = true;
        else if (*first != k) {
            luo_check_place(checker, "/annotations/%d", k);
            luo_check_find(checker,
                           "tensor `%s` is annotated twice at `%s`; one annotation is allowed.",
                           annotation->tensor, annotation->at);
        }
    }
    luo_map_free(&seen);
}

luo_status luo_plan_check_work(const luo_plan *plan, const luo_work *limits, luo_err *err)
{
    double micro_batches = 0;
    for (int32_t i = 0; i < plan->npipelines; i++)
        micro_batches += plan->pipelines[i].micro_batches;
    const luo_status st =
        luo_work_check(limits, LUO_WORK_MICRO_BATCHES, micro_batches, "the plan has", err);
    return luo_err_part(err, st, "/pipelines");
}

luo_status luo_plan_check(luo_arena *arena, const luo_plan *plan, const luo_model *model,
                          const luo_cluster *cluster, luo_plan_finding **out, int32_t *n)
{
    luo_checker checker = {.arena = arena, .p = plan, .model = model, .cluster = cluster};
    luo_check_layers(&checker);
    luo_check_devices(&checker);
    luo_check_shares(&checker);
    luo_check_reroute(&checker);
    luo_check_contexts(&checker);
    luo_check_ends(&checker);
    luo_check_experts(&checker);
    check_schedule(&checker);
    luo_check_volume(&checker);
    check_annotations(&checker);
    *out = checker.at;
    *n = checker.n;
    if (checker.failed) return LUO_ENOMEM;
    return checker.n ? LUO_EINPUT : LUO_OK;
}
