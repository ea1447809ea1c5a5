/* The uniform planner's best, by simulated step or by closed form. */
#include <math.h>

#include "core/run/auto/auto_internal.h"

static luo_status list_devices(auto_asking *asking, luo_err *err)
{
    const luo_auto_in *in = asking->in;
    const int32_t all = in->judge->cluster->ndevices;
    const luo_profile *type = NULL;
    int32_t *dev = LUO_NEW_N(asking->arena, int32_t, all), n = 0;
    if (!dev) return luo_err_nomem(err);
    for (int32_t d = 0; d < all; d++) {
        if (!in->candidate[d] || isinf(in->rate[d])) continue;
        const luo_profile *own = luo_cluster_profile(in->judge->cluster, d);
        asking->mixed |= type && own != type;
        asking->slow |= in->rate[d] > 1;
        type = own;
        dev[n++] = d;
    }
    asking->devices = dev;
    asking->ndevices = n;
    return n > 0 ? LUO_OK
                 : luo_err_set(err, LUO_EINFEASIBLE, "no device of the cluster is usable.");
}

luo_status auto_list_uniform(const auto_asking *asking, const luo_model *model,
                             luo_uniform_opts opts, luo_uniform_result **out, int32_t *n,
                             luo_err *err)
{
    luo_err why = {0};
    opts.devices = asking->devices;
    opts.ndevices = asking->ndevices;
    const luo_status st =
        luo_plan_uniform(asking->arena, model, asking->in->judge->cluster, &opts, out, n, &why);
    if (st == LUO_ENOMEM) return luo_err_set(err, st, "%s", why.text);
    if (st != LUO_OK) *n = 0;
    return LUO_OK;
}

/* Nothing is lost: the usable devices are those of the whole cluster. */
static bool is_whole(const auto_asking *asking)
{
    const luo_cluster *cluster = asking->in->judge->cluster;
    return asking->ndevices == cluster->ndevices && cluster->nstandby == 0 && cluster->nhealth == 0;
}

/* A plan that every policy can work on: 1F1B, ZeRO 0 or 1. */
static luo_status add_base(auto_asking *asking, const luo_uniform_opts *asked, bool usable,
                           luo_err *err)
{
    luo_uniform_opts opts = *asked;
    luo_uniform_result *found;
    int32_t n;
    luo_err why = {0};
    opts.schedule = 0;
    opts.zero_most = 1;
    opts.cp = 0;
    opts.layers = LUO_UNIFORM_EQUAL;
    opts.types = false;
    opts.top = 1;
    opts.families = 0;
    opts.devices = usable ? asking->devices : NULL;
    opts.ndevices = usable ? asking->ndevices : 0;
    const luo_status st =
        luo_plan_uniform_fitting(asking->arena, asking->in->judge->model,
                                 asking->in->judge->cluster, &opts, &found, &n, NULL, &why);
    if (st == LUO_ENOMEM) return luo_err_set(err, st, "%s", why.text);
    if (st != LUO_OK) return LUO_OK;
    for (int32_t i = 0; i < asking->nbase; i++)
        if (luo_plan_hash(asking->base[i]) == luo_plan_hash(found[0].plan)) return LUO_OK;
    asking->base[asking->nbase++] = found[0].plan;
    return LUO_OK;
}

luo_status auto_ask_uniform(auto_asking *asking, luo_auto_candidate *out, luo_err *err)
{
    const luo_judge *judge = asking->in->judge;
    luo_uniform_opts opts = asking->in->opts;
    luo_uniform_result *found;
    LUO_TRY(list_devices(asking, err));
    opts.devices = asking->devices;
    opts.ndevices = asking->ndevices;
    opts.top = LUO_JUDGE_BEST;
    opts.families = LUO_JUDGE_FAMILIES;
    LUO_TRY(luo_plan_uniform(asking->arena, judge->model, judge->cluster, &opts, &found,
                             &asking->nuniform, err));
    asking->uniform = found;
    for (int32_t i = 0; i < asking->nuniform; i++) {
        LUO_TRY(auto_try(asking, found[i].plan, out, err));
        if (!asking->in->simulated && out->plan) break; /* the first that fits */
    }
    LUO_TRY(add_base(asking, &opts, false, err));
    if (!is_whole(asking)) LUO_TRY(add_base(asking, &opts, true, err));
    for (int32_t i = 0; i < asking->nbase && !out->plan; i++)
        LUO_TRY(auto_try(asking, asking->base[i], out, err));
    return LUO_OK;
}
