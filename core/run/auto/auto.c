/* Asking planners and choosing among them. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/run/auto/auto_internal.h"

static const double EQUAL = 1e-9;

static const struct {
    const char *name;
    luo_status (*ask)(auto_asking *asking, luo_auto_candidate *out, luo_err *err);
} planners[LUO_AUTO_PLANNERS] = {
#define LUO_AUTO_CANDIDATE(name) {#name, auto_ask_##name},
#include "core/run/auto/candidates.inc"
#undef LUO_AUTO_CANDIDATE
};

const char *luo_auto_planner_name(luo_auto_planner planner)
{
    return planners[planner].name;
}

luo_status auto_refuse(luo_status st, const luo_err *why, luo_auto_candidate *out, luo_err *err)
{
    if (st == LUO_ENOMEM || st == LUO_ECANCELED || st == LUO_EBACKEND || st == LUO_EBUG)
        return luo_err_set(err, st, "%s", why->text);
    if (st != LUO_OK) snprintf(out->why, sizeof out->why, "%s", why->text);
    return LUO_OK;
}

bool auto_has_hope(const auto_asking *asking, double closed_s, double hopeless,
                   luo_auto_candidate *out)
{
    const double best_s = fmin(asking->best_s, out->step.seconds);
    if (!(closed_s > hopeless * best_s)) return true;
    if (!out->plan)
        snprintf(out->why, sizeof out->why, "not simulated: %.6g s by closed form, %.3gx slower",
                 closed_s, closed_s / best_s);
    return false;
}

/* May the plan be answered? Else *out says why not. */
static luo_status is_asked(const auto_asking *asking, const luo_plan *plan, luo_auto_candidate *out,
                           bool *asked, luo_err *err)
{
    const luo_auto_in *in = asking->in;
    const char *broken = NULL, *other = luo_auto_size_broken(&in->opts, plan);
    char why[sizeof out->why] = "";
    if (in->pinned) LUO_TRY(luo_auto_pin_broken(in->pinned, plan, &broken, err));
    if (broken) snprintf(why, sizeof why, "its plans break pinned %s", broken);
    if (other) snprintf(why, sizeof why, "its plans have another %s than is asked", other);
    const bool taken = !in->for_policy ||
                       luo_policy_accepts(in->scenario, in->spec, plan, NULL) == LUO_OK;
    if (!taken) snprintf(why, sizeof why, "policy `%s` cannot work on its plans", in->spec->name);
    *asked = !broken && !other && taken;
    if (!*asked && !out->plan) memcpy(out->why, why, sizeof why);
    return LUO_OK;
}

/* Owner: arena. */
static luo_status with_pins(const auto_asking *asking, const luo_plan **plan, luo_err *err)
{
    if (!asking->in->pinned) return LUO_OK;
    luo_plan *copy = LUO_NEW(asking->arena, luo_plan);
    if (!copy) return luo_err_nomem(err);
    *copy = **plan;
    auto_take_pins(asking->in->pinned, copy);
    *plan = copy;
    return LUO_OK;
}

luo_status auto_try(const auto_asking *asking, const luo_plan *plan, luo_auto_candidate *out,
                    luo_err *err)
{
    const luo_auto_in *in = asking->in;
    luo_judgement step;
    luo_err why = {0};
    bool asked;
    LUO_TRY(with_pins(asking, &plan, err));
    LUO_TRY(is_asked(asking, plan, out, &asked, err));
    if (!asked) return LUO_OK;
    out->tried++;
    const luo_status st =
        luo_judge_plan(in->judge, plan, in->opts.sequence_tokens, in->rate, &step, &why);
    if (st != LUO_OK) return luo_err_set(err, st, "%s", why.text);
    if (isinf(step.seconds) && !out->plan) snprintf(out->why, sizeof out->why, "%s", why.text);
    if (isinf(step.seconds) || step.seconds >= out->step.seconds) return LUO_OK;
    out->plan = plan;
    out->step = step;
    out->why[0] = 0;
    return LUO_OK;
}

/* Those that build on others' answers are asked behind them. */
static luo_status ask_all(auto_asking *asking, luo_auto_answer *out, luo_err *err)
{
    static const luo_auto_planner order[LUO_AUTO_PLANNERS] = {LUO_AUTO_uniform, LUO_AUTO_search,
                                                              LUO_AUTO_malleus, LUO_AUTO_hap};
    for (int k = 0; k < LUO_AUTO_PLANNERS; k++) {
        luo_auto_candidate *candidate = &out->at[order[k]];
        *candidate = (luo_auto_candidate){.planner = order[k], .step = {.seconds = INFINITY}};
        luo_err why = {0};
        if (asking->in->asks) asking->in->asks(asking->in->judge->watcher, order[k], k);
        const luo_status st = planners[order[k]].ask(asking, candidate, &why);
        /* Sizes that do not divide, or no device at all: the others have nothing to say either. */
        if (order[k] == LUO_AUTO_uniform && (st == LUO_EINPUT || asking->ndevices == 0))
            return luo_err_set(err, st, "%s", why.text);
        LUO_TRY(auto_refuse(st, &why, candidate, err));
        if (candidate->plan) asking->best_s = fmin(asking->best_s, candidate->step.seconds);
    }
    return LUO_OK;
}

luo_status luo_auto_plan(luo_arena *arena, const luo_auto_in *in, luo_auto_answer *out,
                         luo_err *err)
{
    auto_asking asking = {.arena = arena, .in = in, .best_s = INFINITY};
    LUO_TRY(ask_all(&asking, out, err));
    out->best = -1;
    for (int32_t k = 0; k < LUO_AUTO_PLANNERS; k++) {
        if (!out->at[k].plan) continue;
        if (out->best < 0 ||
            out->at[k].step.seconds < (1 - EQUAL) * out->at[out->best].step.seconds)
            out->best = k;
    }
    if (out->best >= 0) return LUO_OK;
    return luo_err_set(err, LUO_EINFEASIBLE, "no planner has a plan; uniform: %s",
                       out->at[LUO_AUTO_uniform].why);
}
