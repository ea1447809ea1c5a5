/* Layouts of optimizer state beside each other, on the same batches. */
#include "core/run/policy/judge_layouts.h"

#include <math.h>
#include <string.h>

#include "core/plan/length_policies/length_setup.h"

enum { BY_POOL = 6, BY_STEP = 2 };
static const double FAR = 1.15; /* by the pool: equal replicas that are not simulated */

typedef struct alike { /* equal replicas of an entry */
    int32_t entry;
    double seconds;
} alike;

typedef struct comparing {
    luo_arena *arena, *scratch;
    const luo_judge *judge;
    const luo_length_rivals *rivals;
    const luo_step_place *place;
    const luo_length_sample *batch;
    int32_t nbatches;
    const double *rate;
} comparing;

/* ---- equal replicas ---- */

/* Of n, the first `most` in rising order come first. */
static void put_first(alike *x, int32_t n, int32_t most)
{
    for (int32_t i = 0; i < n && i < most; i++)
        for (int32_t k = i + 1; k < n; k++)
            if (x[k].seconds < x[i].seconds) {
                const alike other = x[i];
                x[i] = x[k];
                x[k] = other;
            }
}

/* The best by the pool of those that hold the batch, from *n on; cut: those whose replicas cut
 * sequences, else those that do not. */
static luo_status list_kind(const comparing *c, bool cut, alike *all, int32_t *n, luo_err *err)
{
    luo_length_rivals with = *c->rivals;
    alike *out = all + *n;
    int64_t longest = 0;
    int32_t found = 0;
    for (int32_t k = 0; k < c->nbatches; k++)
        for (int32_t i = 0; i < c->batch[k].n; i++)
            if (c->batch[k].length[i] > longest) longest = c->batch[k].length[i];
    for (int32_t k = 0; k < with.pool->n; k++) {
        const luo_pool_entry *e = &with.pool->entry[k];
        if (e->cap < longest || luo_pool_devices(e) > with.devices || (e->cp > 1) != cut) continue;
        with.uniform = k;
        double ms;
        LUO_TRY(luo_length_mean(c->scratch, &with, LUO_LENGTH_POLICY_UNIFORM_BEST, c->batch,
                                c->nbatches, &ms, err));
        if (isfinite(ms)) out[found++] = (alike){k, 1e-3 * ms};
    }
    put_first(out, found, BY_POOL);
    while (found > BY_POOL || (found > 0 && out[found - 1].seconds > FAR * out[0].seconds)) found--;
    *n += found;
    return LUO_OK;
}

/* A pool knows little of what cutting sequences costs: both kinds are simulated. */
static luo_status list_alike(const comparing *c, alike *out, int32_t *n, luo_err *err)
{
    *n = 0;
    LUO_TRY(list_kind(c, false, out, n, err));
    return list_kind(c, true, out, n, err);
}

static luo_status simulate_batch(const comparing *c, int32_t entry, int32_t k, double *seconds,
                                 luo_err *err)
{
    luo_length_rivals with = *c->rivals;
    luo_length_plans plans;
    luo_judgement judged = {.seconds = INFINITY};
    luo_err why = {0};
    with.uniform = entry;
    luo_status st = luo_length_plan(c->scratch, &with, c->place, LUO_LENGTH_POLICY_UNIFORM_BEST, -1,
                                    c->batch[k].length, c->batch[k].n, &plans, &why);
    if (st == LUO_OK)
        st = luo_judge_plan(c->judge, plans.part[0].plan, c->place->ctx, c->rate, &judged, &why);
    *seconds = judged.seconds;
    return st == LUO_OK || st == LUO_EINFEASIBLE ? LUO_OK : luo_err_set(err, st, "%s", why.text);
}

static luo_status simulate_alike(const comparing *c, alike *x, luo_err *err)
{
    x->seconds = 0;
    for (int32_t k = 0; k < c->nbatches; k++) {
        double seconds;
        LUO_TRY(simulate_batch(c, x->entry, k, &seconds, err));
        x->seconds += seconds / c->nbatches;
    }
    return LUO_OK;
}

/* ---- layouts ---- */

static luo_status place_of(const comparing *c, int32_t entry, luo_judged_layout *x,
                           luo_step_place *place, luo_err *err)
{
    const luo_step_place *was = c->place;
    x->alike = entry;
    *place = *was;
    place->layout = &x->layout;
    place->layout_devices = NULL;
    x->layout = luo_length_layout(was->model, was->cluster, was->devices, was->ndevices);
    if (entry >= 0)
        LUO_TRY(luo_length_plan_layout(c->arena, c->rivals, was, entry, &x->layout, place, err));
    x->devices = place->layout_devices;
    return LUO_OK;
}

static luo_status try_layout(const comparing *c, int32_t entry, luo_judged_layout *x, luo_err *err)
{
    luo_length_rivals with = *c->rivals;
    luo_judged_lengths judged;
    luo_step_place place;
    luo_err why = {0};
    LUO_TRY(place_of(c, entry, x, &place, err));
    if (entry >= 0) with.uniform = entry;
    LUO_TRY(luo_length_moved_ms(c->arena, with.pool, with.candidates, &place, c->judge->stack,
                                &x->moved_ms, err));
    LUO_TRY(luo_lengths_learn_open(c->arena, with.pool, with.candidates, x->moved_ms, &x->learned,
                                   err));
    x->seconds = 0;
    for (int32_t k = 0; k < c->nbatches && isfinite(x->seconds); k++) {
        const luo_status st =
            luo_judge_lengths(c->scratch, c->judge, &with, &place, -1, c->batch[k].length,
                              c->batch[k].n, true, c->rate, &x->learned, &judged, &why);
        if (st == LUO_ENOMEM || st == LUO_ECANCELED) return luo_err_set(err, st, "%s", why.text);
        x->seconds += st == LUO_OK ? judged.seconds / c->nbatches : (double)INFINITY;
    }
    return LUO_OK;
}

static luo_status compare(const comparing *c, luo_judged_layout *best, luo_err *err)
{
    alike *equal = LUO_NEW_N(c->scratch, alike, c->rivals->pool->n);
    int32_t n;
    if (!equal) return luo_err_nomem(err);
    LUO_TRY(list_alike(c, equal, &n, err));
    for (int32_t i = 0; i < n; i++) LUO_TRY(simulate_alike(c, &equal[i], err));
    put_first(equal, n, BY_STEP);
    LUO_TRY(try_layout(c, -1, best, err));
    for (int32_t i = 0; i < n && i < BY_STEP; i++) {
        luo_judged_layout x;
        LUO_TRY(try_layout(c, equal[i].entry, &x, err));
        if (x.seconds <= best->seconds) *best = x;
    }
    return LUO_OK;
}

luo_status luo_judge_layouts(luo_arena *arena, luo_arena *scratch, const luo_judge *judge,
                             const luo_length_rivals *rivals, const luo_step_place *place,
                             const luo_length_sample *batch, int32_t nbatches, const double *rate,
                             luo_judged_layout *out, luo_err *err)
{
    const comparing c = {arena, scratch, judge, rivals, place, batch, nbatches, rate};
    const size_t mark = luo_arena_mark(scratch);
    const luo_status st = compare(&c, out, err);
    luo_arena_reset(scratch, mark);
    return st;
}
