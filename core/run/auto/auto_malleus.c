/* What policy `malleus` would take, where devices differ in type or speed. */
#include <math.h>
#include <stdio.h>

#include "core/plan/replan/reroute.h"
#include "core/run/auto/auto_internal.h"
#include "core/run/policy/offers.h"

typedef struct asked {
    const auto_asking *asking;
} asked;

static luo_status step_s(void *run, const luo_plan *plan, double *seconds, luo_err *err)
{
    const luo_auto_in *in = ((const asked *)run)->asking->in;
    return luo_judge_step(in->judge, plan, in->opts.sequence_tokens, in->rate, seconds, err);
}

/* Why there is nothing for it to do; NULL: there is. */
static const char *not_asked(const auto_asking *asking)
{
    const luo_auto_in *in = asking->in;
    if (!asking->slow && !asking->mixed)
        return "not tried: devices are of one type, and none is slow";
    if (asking->nbase == 0) return "no plan of alike 1F1B pipelines fits to start from";
    if (in->opts.cp > 1) return "not tried: it has no context parallelism";
    return NULL;
}

static void keep_hopeful(const auto_asking *asking, luo_offers *offers, luo_auto_candidate *out)
{
    double least_s = INFINITY;
    int32_t n = 0;
    for (int32_t i = 0; i < offers->n; i++) {
        least_s = fmin(least_s, offers->at[i].objective_s);
        if (offers->at[i].objective_s <= AUTO_HOPELESS_CLOSED * asking->best_s)
            offers->at[n++] = offers->at[i];
    }
    if (n == 0) auto_has_hope(asking, least_s, AUTO_HOPELESS_CLOSED, out);
    offers->n = n;
}

static luo_status ask(auto_asking *asking, const luo_plan *base, luo_offers *offers,
                      luo_auto_candidate *out, luo_err *err)
{
    const luo_auto_in *in = asking->in;
    const luo_judge *judge = in->judge;
    const int32_t n = judge->cluster->ndevices;
    asked a = {asking};
    double *rate = LUO_NEW_N(asking->arena, double, n);
    bool *none = LUO_NEW_N(asking->arena, bool, n);
    if (!rate || !none) return luo_err_nomem(err);
    for (int32_t d = 0; d < n; d++) rate[d] = in->candidate[d] ? in->rate[d] : (double)INFINITY;
    const luo_malleus_job job = {.model = judge->model,
                                 .cluster = judge->cluster,
                                 .stack = judge->stack,
                                 .base = base,
                                 .rate = in->rate,
                                 .candidate = in->candidate,
                                 .sequence_tokens = in->opts.sequence_tokens,
                                 .search_healthy = true,
                                 .memory_factor = 1};
    const luo_snapshot now = {.scenario = in->scenario,
                              .spec = in->spec,
                              .base = base,
                              .plan = base,
                              .rate = rate,
                              .leaving = none,
                              .candidate = in->candidate,
                              .micro_batches = in->opts.batch_sequences /
                                               base->pipelines[0].micro_batch_sequences,
                              .sequence_tokens = in->opts.sequence_tokens,
                              .memory_factor = 1,
                              .step_s = step_s,
                              .closed_form = !in->simulated,
                              .run = &a};
    LUO_TRY(luo_offers_all(asking->arena, &now, &job, offers, err));
    out->tried += offers->n;
    keep_hopeful(asking, offers, out);
    return offers->n > 0 ? luo_offers_judge(offers, &now, err) : LUO_OK;
}

luo_status auto_ask_malleus(auto_asking *asking, luo_auto_candidate *out, luo_err *err)
{
    const char *why = not_asked(asking);
    luo_offers *offers = LUO_NEW(asking->arena, luo_offers);
    if (why) snprintf(out->why, sizeof out->why, "%s", why);
    if (why) return LUO_OK;
    if (!offers) return luo_err_nomem(err);
    for (int32_t b = 0; b < asking->nbase; b++) {
        luo_err none = {0};
        const luo_status st = ask(asking, asking->base[b], offers, out, &none);
        LUO_TRY(auto_refuse(st, &none, out, err));
        bool taken = st != LUO_OK;
        for (int32_t i = 0; i < offers->n && !taken; i++) {
            const int32_t tried = out->tried;
            if (luo_plan_is_rerouted(offers->at[i].plan)) continue;
            LUO_TRY(auto_try(asking, offers->at[i].plan, out, err));
            taken = out->tried > tried; /* the fastest that keeps what is pinned */
        }
    }
    return LUO_OK;
}
