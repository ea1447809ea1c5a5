/* What a bare plan does when a process has died: the best plan of the uniform planner on the
 * devices that are left, from the last checkpoint. The micro-batches stay as long as they are, so
 * that the run sees the same data; rates of devices play no part. */
#include <math.h>
#include <stdio.h>

#include "core/plan/planners.h"
#include "core/run/policy/offers.h"

enum { OFFERS = 8 };

static bool packs(const luo_plan *plan)
{
    for (int32_t i = 0; i < plan->npipelines; i++)
        if (plan->pipelines[i].micro_batch_tokens) return true;
    return false;
}

/* The driver takes a tenth of the memory away each time a plan did not fit: the next offer. */
static int32_t tried(const luo_snapshot *now)
{
    int32_t n = 0;
    for (double f = now->memory_factor; f < 0.95; f /= 0.9) n++;
    return n;
}

static luo_status uniform(luo_arena *arena, const luo_snapshot *now, luo_uniform_result **out,
                         int32_t *n, luo_err *err)
{
    const luo_plan *base = now->base;
    const int32_t ndevices = now->scenario->cluster->ndevices;
    int32_t *dev = LUO_NEW_N(arena, int32_t, ndevices), left = 0;
    if (!dev) return luo_err_nomem(err);
    for (int32_t d = 0; d < ndevices; d++)
        if (!isinf(now->rate[d]) && !now->leaving[d]) dev[left++] = d;
    if (left == 0)
        return luo_err_set(err, LUO_EINFEASIBLE, "no device is left; one at least is needed.");
    const luo_uniform_opts opts = {.batch_sequences = luo_plan_sequences(base),
                                   .sequence_tokens = base->sequence_tokens,
                                   .top = OFFERS,
                                   .micro_batch_sequences = base->micro_batch_sequences,
                                   .zero = base->zero,
                                   .recompute = -1,
                                   .sequence_parallel = base->sequence_parallel,
                                   .staggered = base->staggered,
                                   .devices = dev,
                                   .ndevices = left,
                                   .stack = &now->scenario->stack};
    luo_model *model = LUO_NEW(arena, luo_model); /* as the plan has it (--dtype) */
    if (!model) return luo_err_nomem(err);
    *model = *now->scenario->model;
    model->dtype = base->dtype;
    return luo_plan_uniform(arena, model, now->scenario->cluster, &opts, out, n, err);
}

enum { OFFERED = 2 };

luo_status luo_offers_uniform(luo_arena *arena, const luo_snapshot *now, luo_offers *out,
                              luo_err *err)
{
    luo_uniform_result *found;
    int32_t n;
    if (packs(now->base)) return LUO_OK;
    LUO_TRY(uniform(arena, now, &found, &n, err));
    for (int32_t i = 0; i < n && i < OFFERED; i++)
        luo_offers_add(out, "uniform", found[i].plan, found[i].objective_s);
    return LUO_OK;
}

static void restart(luo_decision *out, const luo_plan *plan)
{
    out->action = LUO_RESTART;
    out->plan = plan;
    snprintf(out->why, sizeof out->why, "restart on %d pipelines", plan->npipelines);
}

static luo_status decide(luo_arena *arena, const luo_snapshot *now, luo_decision *out, luo_err *err)
{
    luo_uniform_result *offer;
    luo_err why = {0};
    int32_t n = 0;
    *out = (luo_decision){.action = LUO_KEEP, .old_s = -1, .new_s = -1};
    if (!(now->trigger & LUO_TRIGGER_FAIL)) return LUO_OK;
    /* a device outside the plan died, and took the others' processes along */
    if (luo_snapshot_whole(now)) {
        restart(out, now->plan);
        return LUO_OK;
    }
    out->action = LUO_LOSE;
    if (packs(now->base)) {
        snprintf(out->why, sizeof out->why, "no other plan keeps the packed micro-batches");
        return LUO_OK;
    }
    const luo_status st = uniform(arena, now, &offer, &n, &why);
    if (st != LUO_OK && st != LUO_EINFEASIBLE && st != LUO_EINPUT)
        return luo_err_set(err, st, "%s", why.text);
    const int32_t k = tried(now);
    if (st != LUO_OK || k >= n) {
        snprintf(out->why, sizeof out->why, "%.150s", st != LUO_OK ? why.text : "no plan fits");
        return LUO_OK;
    }
    out->new_s = offer[k].objective_s;
    restart(out, offer[k].plan);
    return LUO_OK;
}

const luo_policy luo_policy_survive = {.name = "survive", .plans = true, .decide = decide};
