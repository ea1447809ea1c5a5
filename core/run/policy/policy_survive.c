/* What a bare plan does when a process has died: the best plan of the uniform planner on the
 * devices that are left, from the last checkpoint. The micro-batches stay as long as they are, so
 * that the run sees the same data; rates of devices play no part. */
#include <math.h>
#include <stdio.h>

#include "core/plan/planners.h"
#include "core/run/policy/judge.h"
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

/* Plans for the batch of the base plan, as *how says otherwise. */
static luo_status uniform(luo_arena *arena, const luo_scenario *sc, const luo_plan *base,
                          const luo_uniform_opts *how, luo_uniform_result **out, int32_t *n,
                          luo_err *err)
{
    luo_uniform_opts opts = *how;
    luo_model *model = LUO_NEW(arena, luo_model); /* as the plan has it (--dtype) */
    if (!model) return luo_err_nomem(err);
    *model = *sc->model;
    model->dtype = base->dtype;
    opts.batch_sequences = luo_plan_sequences(base);
    opts.sequence_tokens = base->sequence_tokens;
    opts.recompute = -1;
    opts.sequence_parallel = base->sequence_parallel;
    opts.staggered = base->staggered;
    opts.stack = &sc->stack;
    return luo_plan_uniform(arena, model, sc->cluster, &opts, out, n, err);
}

static luo_status on_the_left(luo_arena *arena, const luo_snapshot *now,
                              const luo_uniform_opts *how, luo_uniform_result **out, int32_t *n,
                              luo_err *err)
{
    const int32_t ndevices = now->scenario->cluster->ndevices;
    int32_t *dev = LUO_NEW_N(arena, int32_t, ndevices);
    luo_uniform_opts opts = *how;
    if (!dev) return luo_err_nomem(err);
    for (int32_t d = 0; d < ndevices; d++)
        if (!isinf(now->rate[d]) && !now->leaving[d]) dev[opts.ndevices++] = d;
    if (opts.ndevices == 0)
        return luo_err_set(err, LUO_EINFEASIBLE, "no device is left; one at least is needed.");
    opts.devices = dev;
    return uniform(arena, now->scenario, now->base, &opts, out, n, err);
}

luo_status luo_offers_start(luo_arena *arena, const luo_scenario *sc, const luo_plan *base,
                            const luo_plan **out, luo_err *err)
{
    const luo_malleus_job job = {.base = base};
    luo_uniform_opts opts = {.zero = base->zero < 2 ? base->zero : -1,
                             .micro_batch_sequences = base->micro_batch_sequences};
    luo_uniform_result *found;
    int32_t n, *dev;
    luo_err why = {0};
    *out = base;
    if (luo_malleus_check(&job, NULL) == LUO_OK) return LUO_OK;
    LUO_TRY(luo_plan_devices(arena, base, &dev, &n, err));
    opts.devices = dev;
    opts.ndevices = n;
    const luo_status st = uniform(arena, sc, base, &opts, &found, &n, &why);
    if (st == LUO_OK) *out = found->plan;
    if (st == LUO_OK || st == LUO_EINFEASIBLE || st == LUO_EINPUT) return LUO_OK;
    return luo_err_set(err, st, "%s", why.text);
}

enum { OFFERED = 4 };

/* With micro-batches of that size; 0: of any. */
static luo_status offer_uniform(luo_arena *arena, const luo_snapshot *now, int32_t size,
                                luo_offers *out, luo_err *err)
{
    const bool large = now->scenario->cluster->ndevices > LUO_JUDGE_DEVICES; /* it takes long */
    const luo_uniform_opts opts = {.zero = now->base->zero < 2 ? -1 : now->base->zero,
                                   .micro_batch_sequences = size,
                                   .top = OFFERED,
                                   .families = large ? 0 : OFFERED,
                                   .layers = large ? LUO_UNIFORM_EQUAL : LUO_UNIFORM_BOTH,
                                   .types = !large};
    luo_uniform_result *found;
    int32_t n;
    LUO_TRY(on_the_left(arena, now, &opts, &found, &n, err));
    for (int32_t i = 0; i < n; i++)
        luo_offers_add(out, "uniform", found[i].plan, found[i].objective_s);
    return LUO_OK;
}

luo_status luo_offers_uniform(luo_arena *arena, const luo_snapshot *now, luo_offers *out,
                              luo_err *err)
{
    if (packs(now->base)) return LUO_OK;
    LUO_TRY(offer_uniform(arena, now, now->base->micro_batch_sequences, out, err));
    /* a run keeps its micro-batches as long as they are */
    if (now->keep || now->scenario->cluster->ndevices > LUO_JUDGE_DEVICES) return LUO_OK;
    return offer_uniform(arena, now, 0, out, err);
}

static void restart(luo_decision *out, const luo_plan *plan)
{
    out->action = LUO_RESTART;
    out->plan = plan;
    snprintf(out->why, sizeof out->why, "restart on %d pipelines", plan->npipelines);
}

static luo_status decide(luo_arena *arena, const luo_snapshot *now, luo_decision *out, luo_err *err)
{
    const luo_uniform_opts opts = {.zero = now->base->zero,
                                   .micro_batch_sequences = now->base->micro_batch_sequences,
                                   .top = OFFERS};
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
    const luo_status st = on_the_left(arena, now, &opts, &offer, &n, &why);
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
