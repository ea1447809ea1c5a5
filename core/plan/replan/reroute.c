#include "core/plan/replan/reroute.h"

#include <string.h>

#include "core/hspmd/ann.h"

bool luo_reroute_in_pipeline(const luo_pipeline *pl)
{
    for (int32_t s = 0; s < pl->nstages; s++)
        if (pl->stages[s].nreroute) return true;
    return false;
}

bool luo_plan_is_rerouted(const luo_plan *plan)
{
    for (int32_t i = 0; i < plan->npipelines; i++)
        if (luo_reroute_in_pipeline(&plan->pipelines[i])) return true;
    return false;
}

/* given[j] micro-batches of k went to peer j, whose part of M is c: behind by k * c - M * given. */
luo_status luo_reroute_stage(luo_arena *arena, const luo_stage *st, int32_t micro_batches,
                             int32_t *out, luo_err *err)
{
    int32_t *given = LUO_NEW_N(arena, int32_t, st->nreroute);
    if (!given) return luo_err_nomem(err);
    for (int32_t k = 0; k < micro_batches; k++) {
        int64_t most = INT64_MIN;
        int32_t to = 0;
        for (int32_t j = 0; j < st->nreroute; j++) {
            const int32_t part = st->reroute[j].micro_batches;
            const int64_t behind = (int64_t)(k + 1) * part - (int64_t)micro_batches * given[j];
            if (given[j] == part || behind <= most) continue;
            most = behind;
            to = j;
        }
        given[to]++;
        out[k] = st->reroute[to].pipeline;
    }
    return LUO_OK;
}

/* ---- numbers ---- */

int32_t luo_plan_first_number(const luo_plan *plan, int32_t pipeline)
{
    int32_t first = 0;
    if (!luo_reroute_in_pipeline(&plan->pipelines[pipeline])) return 0;
    for (int32_t i = 0; i < plan->npipelines; i++)
        if (plan->pipelines[i].micro_batches > first) first = plan->pipelines[i].micro_batches;
    for (int32_t i = 0; i < pipeline; i++)
        if (luo_reroute_in_pipeline(&plan->pipelines[i])) first += plan->pipelines[i].micro_batches;
    return first;
}

void luo_plan_find_number(const luo_plan *plan, int32_t pipeline, int32_t number,
                          int32_t *of_pipeline, int32_t *micro_batch)
{
    *of_pipeline = pipeline;
    *micro_batch = number;
    for (int32_t i = 0; i < plan->npipelines; i++) {
        const int32_t first = luo_plan_first_number(plan, i);
        if (first == 0 || number < first || number - first >= plan->pipelines[i].micro_batches)
            continue;
        *of_pipeline = i;
        *micro_batch = number - first;
    }
}

/* ---- devices that are not there ---- */

static luo_status fill_stage(luo_arena *arena, const luo_plan *plan, int32_t s, luo_stage *st,
                             int32_t *next, luo_err *err)
{
    const luo_stage *peer = &plan->pipelines[st->reroute[0].pipeline].stages[s];
    int32_t *dev = LUO_NEW_N(arena, int32_t, peer->ndev);
    if (!dev) return luo_err_nomem(err);
    if (*next + peer->ndev > LUO_DEVICE_LIMIT)
        return luo_err_set(err, LUO_EINPUT, "the lost stages need device ids above %d; fewer "
                           "devices are taken.", (int)LUO_DEVICE_LIMIT - 1);
    for (int32_t k = 0; k < peer->ndev; k++) dev[k] = (*next)++;
    st->ndev = peer->ndev;
    st->dev = dev;
    st->shares = peer->shares;
    return LUO_OK;
}

luo_status luo_plan_fill_absent(luo_arena *arena, const luo_plan *plan, const luo_plan **out,
                                luo_err *err)
{
    *out = plan;
    if (!luo_plan_is_rerouted(plan)) return LUO_OK;
    luo_plan *to = LUO_NEW(arena, luo_plan);
    luo_pipeline *pipes = LUO_NEW_N(arena, luo_pipeline, plan->npipelines);
    if (!to || !pipes) return luo_err_nomem(err);
    int32_t next = plan->devices;
    for (int32_t i = 0; i < plan->npipelines; i++) {
        const luo_pipeline *pl = &plan->pipelines[i];
        luo_stage *st = LUO_NEW_N(arena, luo_stage, pl->nstages);
        if (!st) return luo_err_nomem(err);
        memcpy(st, pl->stages, (size_t)pl->nstages * sizeof *st);
        for (int32_t s = 0; s < pl->nstages; s++)
            if (st[s].nreroute) LUO_TRY(fill_stage(arena, plan, s, &st[s], &next, err));
        pipes[i] = *pl;
        pipes[i].stages = st;
    }
    *to = *plan;
    to->pipelines = pipes;
    to->first_absent = plan->devices;
    *out = to;
    return LUO_OK;
}

/* ---- for closed forms ---- */

/* Micro-batches that stage s of pipeline j runs for others. */
static int32_t taken(const luo_plan *plan, int32_t j, int32_t s)
{
    int32_t n = 0;
    for (int32_t i = 0; i < plan->npipelines; i++) {
        if (s >= plan->pipelines[i].nstages) continue;
        const luo_stage *st = &plan->pipelines[i].stages[s];
        for (int32_t k = 0; k < st->nreroute; k++)
            if (st->reroute[k].pipeline == j) n += st->reroute[k].micro_batches;
    }
    return n;
}

luo_status luo_plan_loaded(luo_arena *arena, const luo_plan *plan, const luo_plan **out,
                           luo_err *err)
{
    *out = plan;
    if (!luo_plan_is_rerouted(plan)) return LUO_OK;
    luo_plan *to = LUO_NEW(arena, luo_plan);
    luo_pipeline *pipes = LUO_NEW_N(arena, luo_pipeline, plan->npipelines);
    if (!to || !pipes) return luo_err_nomem(err);
    for (int32_t i = 0; i < plan->npipelines; i++) {
        const luo_pipeline *pl = &plan->pipelines[i];
        luo_stage *st = LUO_NEW_N(arena, luo_stage, pl->nstages);
        int32_t most = 0;
        if (!st) return luo_err_nomem(err);
        for (int32_t s = 0; s < pl->nstages; s++) {
            const int32_t more = taken(plan, i, s);
            st[s] = pl->stages[s];
            if (st[s].nreroute) st[s] = plan->pipelines[st[s].reroute[0].pipeline].stages[s];
            if (more > most) most = more;
        }
        pipes[i] = *pl;
        pipes[i].stages = st;
        pipes[i].micro_batches += most;
        pipes[i].micro_batch_tokens = NULL;
    }
    *to = *plan;
    to->pipelines = pipes;
    *out = to;
    return LUO_OK;
}

/* ---- from a plan and what is left of its devices ---- */

const char *luo_plan_not_reroutable(const luo_plan *plan)
{
    if (plan->schedule != LUO_SCHED_1F1B && !luo_sched_splits(plan->schedule))
        return "another schedule than 1f1b, zb_h1 and zb_h2";
    if (plan->zero >= 2) return "zero 2 or 3";
    if (luo_plan_has_context(plan)) return "context parallelism";
    if (plan->state_layout.ndev) return "a state layout";
    if (plan->nannotations) return "annotations of its own";
    if (plan->ngroups) return "expert groups";
    return NULL;
}

bool luo_reroute_is_peer(const luo_plan *plan, int32_t lost, int32_t peer, int32_t stage)
{
    const luo_pipeline *pipeline = &plan->pipelines[lost], *y = &plan->pipelines[peer];
    if (lost == peer || pipeline->nstages != y->nstages) return false;
    const luo_stage *a = &pipeline->stages[stage], *b = &y->stages[stage];
    if (a->nlayers != b->nlayers || a->embedding != b->embedding || a->head != b->head ||
        a->recompute != b->recompute || a->nrecompute != b->nrecompute ||
        a->experts_dealt != b->experts_dealt)
        return false;
    return memcmp(a->layers, b->layers, (size_t)a->nlayers * sizeof *a->layers) == 0 &&
           (!a->nrecompute || memcmp(a->recompute_layers, b->recompute_layers,
                                     (size_t)a->nrecompute * sizeof *a->layers) == 0);
}

bool luo_reroute_cuts_alike(const luo_stage *a, const luo_stage *b)
{
    if (a->ndev != b->ndev) return false;
    for (int32_t k = 0; k < a->ndev; k++)
        if ((a->shares ? a->shares[k] : 1) != (b->shares ? b->shares[k] : 1)) return false;
    return true;
}

typedef struct dealer {
    const luo_plan *base;
    const bool *usable;
    luo_arena *arena;
    luo_err *err;
    int32_t *load; /* by pipeline: micro-batches that its devices of the stage at hand run */
    int32_t *part; /* by pipeline: those of the lost stage at hand that it takes */
} dealer;

static bool is_lost(const dealer *d, int32_t i, int32_t s)
{
    const luo_stage *st = &d->base->pipelines[i].stages[s];
    for (int32_t k = 0; k < st->ndev; k++)
        if (!d->usable[st->dev[k]]) return true;
    return false;
}

/* Peers of one lost stage are cut alike: like the first that is there. */
static int32_t first_peer(const dealer *d, int32_t i, int32_t s)
{
    for (int32_t j = 0; j < d->base->npipelines; j++)
        if (luo_reroute_is_peer(d->base, i, j, s) && !is_lost(d, j, s)) return j;
    return -1;
}

static bool takes(const dealer *d, int32_t i, int32_t s, int32_t first, int32_t j)
{
    return luo_reroute_is_peer(d->base, i, j, s) && !is_lost(d, j, s) &&
           luo_reroute_cuts_alike(&d->base->pipelines[first].stages[s],
                                  &d->base->pipelines[j].stages[s]);
}

static luo_status deal(dealer *d, int32_t i, int32_t s, luo_stage *st)
{
    const luo_plan *plan = d->base;
    const int32_t first = first_peer(d, i, s);
    if (first < 0)
        return luo_err_set(d->err, LUO_EINFEASIBLE, "no pipeline is left that can run stage %d of "
                           "pipeline %d; one is needed.", (int)s, (int)i);
    memset(d->part, 0, (size_t)plan->npipelines * sizeof *d->part);
    for (int32_t k = 0; k < plan->pipelines[i].micro_batches; k++) {
        int32_t to = first;
        for (int32_t j = first + 1; j < plan->npipelines; j++)
            if (d->load[j] < d->load[to] && takes(d, i, s, first, j)) to = j;
        d->load[to]++;
        d->part[to]++;
    }
    luo_reroute *reroute = LUO_NEW_N(d->arena, luo_reroute, plan->npipelines);
    if (!reroute) return luo_err_nomem(d->err);
    st->nreroute = 0;
    for (int32_t j = 0; j < plan->npipelines; j++)
        if (d->part[j]) reroute[st->nreroute++] = (luo_reroute){j, d->part[j]};
    st->reroute = reroute;
    st->ndev = 0;
    st->dev = NULL;
    st->shares = NULL;
    return LUO_OK;
}

/* Lost stages of the same number share their peers: what one deals counts for the next. */
static luo_status deal_stage(dealer *d, int32_t s, luo_pipeline *pipes, bool *any)
{
    for (int32_t j = 0; j < d->base->npipelines; j++)
        d->load[j] = d->base->pipelines[j].micro_batches;
    for (int32_t i = 0; i < d->base->npipelines; i++) {
        if (s >= pipes[i].nstages || !is_lost(d, i, s)) continue;
        *any = true;
        LUO_TRY(deal(d, i, s, (luo_stage *)&pipes[i].stages[s]));
    }
    return LUO_OK;
}

static luo_status reroute(dealer *d, luo_plan *to, bool *any)
{
    const luo_plan *plan = d->base;
    luo_pipeline *pipes = LUO_NEW_N(d->arena, luo_pipeline, plan->npipelines);
    d->load = LUO_NEW_N(d->arena, int32_t, plan->npipelines);
    d->part = LUO_NEW_N(d->arena, int32_t, plan->npipelines);
    if (!pipes || !d->load || !d->part) return luo_err_nomem(d->err);
    int32_t stages = 0;
    for (int32_t i = 0; i < plan->npipelines; i++) {
        const luo_pipeline *pl = &plan->pipelines[i];
        luo_stage *st = LUO_NEW_N(d->arena, luo_stage, pl->nstages);
        if (!st) return luo_err_nomem(d->err);
        memcpy(st, pl->stages, (size_t)pl->nstages * sizeof *st);
        pipes[i] = *pl;
        pipes[i].stages = st;
        if (pl->nstages > stages) stages = pl->nstages;
    }
    for (int32_t s = 0; s < stages; s++) LUO_TRY(deal_stage(d, s, pipes, any));
    *to = *plan;
    to->name = "rerouted";
    to->meta_json = NULL;
    to->pipelines = pipes;
    return LUO_OK;
}

luo_status luo_plan_reroute(luo_arena *arena, const luo_plan *base, const bool *usable,
                            const luo_plan **out, luo_err *err)
{
    dealer d = {.base = base, .usable = usable, .arena = arena, .err = err};
    const char *why = luo_plan_not_reroutable(base);
    luo_plan *to = LUO_NEW(arena, luo_plan);
    bool any = false;
    if (!to) return luo_err_nomem(err);
    if (why && !luo_plan_within(base, usable))
        return luo_err_set(err, LUO_EINFEASIBLE, "a plan with %s cannot be rerouted; schedule "
                           "1f1b, zb_h1 or zb_h2, zero 0 or 1 and none of such are expected.",
                           why);
    if (!why) LUO_TRY(reroute(&d, to, &any));
    *out = any ? to : base;
    return LUO_OK;
}

int32_t luo_plan_lost_stages(const luo_plan *plan)
{
    int32_t n = 0;
    for (int32_t i = 0; i < plan->npipelines; i++)
        for (int32_t s = 0; s < plan->pipelines[i].nstages; s++)
            n += plan->pipelines[i].stages[s].nreroute > 0;
    return n;
}
