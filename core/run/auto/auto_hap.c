/* The planner `hap`, where devices differ in type or speed. */
#include <math.h>
#include <stdio.h>

#include "core/plan/hap/emit.h"
#include "core/run/auto/auto_internal.h"

/* Why there is nothing for it to do; NULL: there is. */
static const char *not_asked(const auto_asking *asking)
{
    const luo_auto_in *in = asking->in;
    const luo_uniform_opts *opts = &in->opts;
    if (in->for_policy) return "not tried: policies that plan cannot work on its plans";
    if (!asking->slow && !asking->mixed)
        return "not tried: devices are of one type, and none is slow";
    if (in->judge->model->family == LUO_FAMILY_VGG) return "not tried: it plans for transformers";
    if (opts->tp > 0 || opts->pp > 0 || opts->dp > 0 || opts->cp > 1 || opts->zero >= 0 ||
        opts->micro_batch_sequences > 0 || opts->recompute >= 0)
        return "not tried: sizes are given that its plans do not have";
    return NULL;
}

luo_status auto_ask_hap(auto_asking *asking, luo_auto_candidate *out, luo_err *err)
{
    const luo_auto_in *in = asking->in;
    const char *why = not_asked(asking);
    luo_plan *plan;
    double step_s;
    if (why) snprintf(out->why, sizeof out->why, "%s", why);
    if (why) return LUO_OK;
    luo_hap_ask ask = {.model = in->judge->model,
                       .cluster = in->judge->cluster,
                       .stack = in->judge->stack,
                       .usable = asking->devices,
                       .nusable = asking->ndevices,
                       .rate = in->rate,
                       .sequences = in->opts.batch_sequences,
                       .tokens = in->opts.sequence_tokens,
                       .micro_batches = 1,
                       .as_it_is = !in->simulated || in->judge->model->moe.experts > 0,
                       .one_start = !in->simulated,
                       .most_s =
                           isfinite(asking->best_s) ? AUTO_HOPELESS_ADDED * asking->best_s : 0};
    while (!out->plan) { /* what is compiled may need more memory than the planner counts */
        luo_err said = {0};
        const luo_status st = luo_hap_plan(asking->arena, &ask, &plan, &step_s, &said);
        if (st == LUO_EINFEASIBLE && out->tried > 0) break;
        if (st != LUO_OK) return luo_err_set(err, st, "%s", said.text);
        if (!plan) {
            auto_has_hope(asking, step_s, AUTO_HOPELESS_ADDED, out);
            break;
        }
        LUO_TRY(auto_try(asking, plan, out, err));
        ask.micro_batches = 2 * plan->pipelines[0].micro_batches;
    }
    return LUO_OK;
}
