#include "core/run/policy.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/run/driver.h"

/* In the order of the documentation (conventions.md 7). */
static const luo_policy *const table[] = {&luo_policy_static, &luo_policy_restart,
                                          &luo_policy_rebalance, &luo_policy_oobleck,
                                          &luo_policy_malleus, &luo_policy_oracle};
enum { NPOLICIES = sizeof table / sizeof *table };

const luo_policy *luo_policy_find(const char *name)
{
    for (int32_t i = 0; i < NPOLICIES; i++)
        if (strcmp(table[i]->name, name) == 0) return table[i];
    return NULL;
}

luo_status luo_policy_check_zero(const luo_picture *now, luo_err *err)
{
    if (now->base->zero < 2) return LUO_OK;
    return luo_err_set(err, LUO_EINPUT, "the base plan has zero %d, which needs pipelines of equal "
                       "borders and micro-batches; zero 0 or 1 is expected.", (int)now->base->zero);
}

double luo_picture_payback(const luo_picture *now, double step_s)
{
    const double least = now->spec->payback_steps;
    if (now->spec->payback_given || !(step_s > 0)) return least;
    return fmax(least, now->expected_s / step_s);
}

bool luo_picture_whole(const luo_picture *now)
{
    const luo_plan *p = now->plan;
    for (int32_t i = 0; i < p->npipelines; i++)
        for (int32_t s = 0; s < p->pipelines[i].nstages; s++)
            for (int32_t k = 0; k < p->pipelines[i].stages[s].ndev; k++)
                if (isinf(now->rate[p->pipelines[i].stages[s].dev[k]])) return false;
    return true;
}

void luo_decide_to_stay(const luo_picture *now, const char *why, luo_decision *out)
{
    const bool failed = now->news & LUO_NEWS_FAIL;
    if (!failed || !luo_picture_whole(now)) {
        out->verb = failed ? LUO_WAIT : LUO_KEEP;
        snprintf(out->why, sizeof out->why, "%.150s", why);
        return;
    }
    out->verb = LUO_RESTART;
    out->plan = now->plan;
    snprintf(out->why, sizeof out->why, "%.120s%srestart on the same devices", why,
             *why ? "; " : "");
}

const char *const *luo_policy_names(int32_t *n)
{
    static const char *const names[NPOLICIES] = {"static",  "restart", "rebalance",
                                                 "oobleck", "malleus", "oracle"};
    *n = NPOLICIES;
    return names;
}

bool luo_policy_is_bound(const char *name)
{
    const luo_policy *p = luo_policy_find(name);
    return p && p->bound;
}
