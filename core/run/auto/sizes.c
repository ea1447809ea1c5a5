/* Sizes that were asked for, looked up in a plan. */
#include <stddef.h>

#include "core/run/auto/auto.h"

typedef bool (*stage_fn)(const luo_uniform_opts *asked, const luo_stage *st);

static bool all_stages(const luo_uniform_opts *asked, const luo_plan *plan, stage_fn is)
{
    for (int32_t i = 0; i < plan->npipelines; i++)
        for (int32_t s = 0; s < plan->pipelines[i].nstages; s++)
            if (!is(asked, &plan->pipelines[i].stages[s])) return false;
    return true;
}

static bool has_tensor(const luo_uniform_opts *asked, const luo_stage *st)
{
    return luo_stage_tp(st) == asked->tp;
}

static bool has_context(const luo_uniform_opts *asked, const luo_stage *st)
{
    return st->context_parallel == (asked->cp > 0 ? asked->cp : 1);
}

static bool has_recompute(const luo_uniform_opts *asked, const luo_stage *st)
{
    return (int32_t)st->recompute == asked->recompute && st->nrecompute == 0;
}

static bool keeps_stages(const luo_uniform_opts *asked, const luo_plan *plan)
{
    for (int32_t i = 0; i < plan->npipelines && asked->pp > 0; i++)
        if (plan->pipelines[i].nstages != asked->pp) return false;
    return true;
}

static bool keeps_micro_batch(const luo_uniform_opts *asked, const luo_plan *plan)
{
    for (int32_t i = 0; i < plan->npipelines && asked->micro_batch_sequences > 0; i++)
        if (plan->pipelines[i].micro_batch_sequences != asked->micro_batch_sequences) return false;
    return true;
}

static int32_t layers_of(const luo_stage *st)
{
    int32_t n = 0;
    for (int32_t k = 0; k < st->nlayers; k++) n += st->layers[k].hi - st->layers[k].lo;
    return n;
}

static bool keeps_layers(const luo_uniform_opts *asked, const luo_plan *plan)
{
    const int32_t first = layers_of(&plan->pipelines[0].stages[0]);
    for (int32_t i = 0; i < plan->npipelines && asked->layers == LUO_UNIFORM_EQUAL; i++)
        for (int32_t s = 0; s < plan->pipelines[i].nstages; s++)
            if (layers_of(&plan->pipelines[i].stages[s]) != first) return false;
    return true;
}

static bool keeps_zero(const luo_uniform_opts *asked, const luo_plan *plan)
{
    if (asked->shard > 0 && (plan->zero != 3 || (int)plan->sharding.kind != asked->shard - 1))
        return false;
    if (asked->zero >= 0) return plan->zero == asked->zero;
    return plan->zero <= (asked->zero_most > 0 ? asked->zero_most : 1);
}

static bool keeps_schedule(const luo_uniform_opts *asked, const luo_plan *plan)
{
    const int32_t kind = asked->schedule > 0 ? asked->schedule - 1 : (int32_t)LUO_SCHED_1F1B;
    if (asked->chunks > 0 && plan->chunks != asked->chunks) return false;
    return asked->schedule < 0 || (int32_t)plan->schedule == kind;
}

const char *luo_auto_size_broken(const luo_uniform_opts *asked, const luo_plan *plan)
{
    const struct {
        const char *name;
        bool kept;
    } sizes[] = {
        {"tp", asked->tp == 0 || all_stages(asked, plan, has_tensor)},
        {"pp", keeps_stages(asked, plan)},
        {"dp", asked->dp == 0 || plan->npipelines == asked->dp},
        {"cp", asked->cp < 0 || all_stages(asked, plan, has_context)},
        {"micro-batch size", keeps_micro_batch(asked, plan)},
        {"zero", keeps_zero(asked, plan)},
        {"schedule", keeps_schedule(asked, plan)},
        {"recompute", asked->recompute < 0 || all_stages(asked, plan, has_recompute)},
        {"layers", keeps_layers(asked, plan)},
        {"sequence parallelism", asked->sequence_parallel || !plan->sequence_parallel},
    };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (!sizes[i].kept) return sizes[i].name;
    return NULL;
}
