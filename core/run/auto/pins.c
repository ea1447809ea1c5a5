/* Pinned parts of a plan: JSON pointers of plan.json, looked up in the plan itself. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/run/auto/auto.h"

static bool same_ranges(const luo_range *a, int32_t na, const luo_range *b, int32_t nb)
{
    return na == nb && (na == 0 || memcmp(a, b, (size_t)na * sizeof *a) == 0);
}

static bool same_devices(const luo_stage *a, const luo_stage *b)
{
    return a->ndev == b->ndev && memcmp(a->dev, b->dev, (size_t)a->ndev * sizeof *a->dev) == 0;
}

static bool same_shares(const luo_stage *a, const luo_stage *b)
{
    const int32_t tp = luo_stage_tp(a);
    if (!a->shares || !b->shares) return a->shares == b->shares;
    return tp == luo_stage_tp(b) &&
           memcmp(a->shares, b->shares, (size_t)tp * sizeof *a->shares) == 0;
}

static bool same_recompute(const luo_stage *a, const luo_stage *b)
{
    return a->recompute == b->recompute &&
           same_ranges(a->recompute_layers, a->nrecompute, b->recompute_layers, b->nrecompute);
}

static bool same_context(const luo_stage *a, const luo_stage *b)
{
    return a->context_parallel == b->context_parallel && a->context_kind == b->context_kind;
}

/* A part of a stage, or with "" all of it. */
static bool same_stage(const luo_stage *a, const luo_stage *b, const char *part)
{
    const struct {
        const char *name;
        bool same;
    } parts[] = {{"/layers", same_ranges(a->layers, a->nlayers, b->layers, b->nlayers)},
                 {"/devices", same_devices(a, b)},
                 {"/shares", same_shares(a, b)},
                 {"/recompute", same_recompute(a, b)},
                 {"/context_parallel", same_context(a, b)}};
    bool all = true;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        if (strcmp(part, parts[i].name) == 0) return parts[i].same;
        all &= parts[i].same;
    }
    return all;
}

static bool same_stages(const luo_pipeline *a, const luo_pipeline *b)
{
    if (a->nstages != b->nstages) return false;
    for (int32_t s = 0; s < a->nstages; s++)
        if (!same_stage(&a->stages[s], &b->stages[s], "")) return false;
    return true;
}

static bool same_pipeline(const luo_pipeline *a, const luo_pipeline *b, const char *part)
{
    char *end;
    if (strcmp(part, "/micro_batches") == 0) return a->micro_batches == b->micro_batches;
    if (strcmp(part, "/micro_batch_sequences") == 0)
        return a->micro_batch_sequences == b->micro_batch_sequences;
    if (strcmp(part, "/stages") == 0) return same_stages(a, b);
    if (strncmp(part, "/stages/", 8) == 0) {
        const long s = strtol(part + 8, &end, 10);
        if (s < 0 || s >= a->nstages || s >= b->nstages) return false;
        return same_stage(&a->stages[s], &b->stages[s], end);
    }
    return a->micro_batches == b->micro_batches && same_stages(a, b);
}

static bool same_pipelines(const luo_plan *a, const luo_plan *b, const char *part)
{
    char *end;
    if (part[0] == '/') {
        const long i = strtol(part + 1, &end, 10);
        if (i < 0 || i >= a->npipelines || i >= b->npipelines) return false;
        return same_pipeline(&a->pipelines[i], &b->pipelines[i], end);
    }
    if (a->npipelines != b->npipelines) return false;
    for (int32_t i = 0; i < a->npipelines; i++)
        if (!same_pipeline(&a->pipelines[i], &b->pipelines[i], "")) return false;
    return true;
}

static bool keeps(const luo_plan *a, const luo_plan *b, const char *pin)
{
    if (strcmp(pin, "/zero") == 0) return a->zero == b->zero;
    if (strcmp(pin, "/schedule/kind") == 0) return a->schedule == b->schedule;
    if (strcmp(pin, "/schedule/chunks") == 0) return a->chunks == b->chunks;
    if (strcmp(pin, "/schedule") == 0) return a->schedule == b->schedule && a->chunks == b->chunks;
    if (strcmp(pin, "/sequence_parallel") == 0) return a->sequence_parallel == b->sequence_parallel;
    if (strcmp(pin, "/micro_batch_sequences") == 0)
        return a->micro_batch_sequences == b->micro_batch_sequences;
    if (strcmp(pin, "/moe_exchange") == 0) return a->moe_exchange == b->moe_exchange;
    if (strncmp(pin, "/pipelines", 10) == 0) return same_pipelines(a, b, pin + 10);
    return luo_plan_hash(a) == luo_plan_hash(b);
}

const char *luo_auto_pin_broken(const luo_plan *pinned, const luo_plan *plan)
{
    for (int32_t i = 0; i < pinned->npinned; i++)
        if (!keeps(pinned, plan, pinned->pinned[i])) return pinned->pinned[i];
    return NULL;
}
