/* Hot spare nodes take the place of nodes with a failed or slow device (what
 * MegaScale, arXiv 2402.15627 section 4, does when it evicts a node): the plan stays, device by
 * device, and the newcomers get their state from peers that hold a copy. Choices of ours where the
 * page is silent:
 * - spares are the usable nodes of the same group that the plan leaves free, by number; a node that
 *   comes back is a spare from then on, and nothing moves back;
 * - a slow node is only replaced when the time saved in the steps of luo_snapshot_payback pays for
 *   the way; a slow node is nobody's spare;
 * - when there are too few spares, what `restart` does is done; when there are enough again, the
 *   plan of the scenario comes back when that pays;
 * - state that has no copy left comes from the checkpoint, at the cost of a restart. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/run/policy/offers.h"

typedef struct exchange { /* of nodes */
    const luo_snapshot *now;
    bool *member; /* per device: of the plan */
    bool *taken;  /* per node: it replaces one */
    int32_t *to;  /* per device: what stands in its place */
    int32_t n;    /* nodes replaced */
} exchange;

static bool is_there(const luo_snapshot *now, int32_t d)
{
    return !isinf(now->rate[d]) && !now->leaving[d];
}

static bool is_well(const luo_snapshot *now, int32_t d)
{
    return is_there(now, d) && now->rate[d] < now->spec->threshold_slowdown;
}

static luo_status begin(luo_arena *arena, const luo_snapshot *now, const luo_plan *plan,
                        exchange *x, luo_err *err)
{
    const luo_cluster *cluster = now->scenario->cluster;
    int32_t n, *dev;
    *x = (exchange){.now = now,
                    .member = LUO_NEW_N(arena, bool, cluster->ndevices),
                    .taken = LUO_NEW_N(arena, bool, cluster->nnodes),
                    .to = LUO_NEW_N(arena, int32_t, cluster->ndevices)};
    if (!x->member || !x->taken || !x->to) return luo_err_nomem(err);
    LUO_TRY(luo_plan_devices(arena, plan, &dev, &n, err));
    for (int32_t i = 0; i < n; i++) x->member[dev[i]] = true;
    for (int32_t d = 0; d < cluster->ndevices; d++) x->to[d] = d;
    return LUO_OK;
}

/* Can node s stand in for node n? Then its devices are written down. */
static bool replace(exchange *x, const luo_node *n, int32_t spare)
{
    const luo_cluster *cluster = x->now->scenario->cluster;
    const luo_node *s = &cluster->nodes[spare];
    const luo_device *kind = cluster->devices;
    const int32_t per_node = cluster->groups[n->group].devices_per_node;
    int32_t next = 0;
    if (s->group != n->group || x->taken[spare]) return false;
    for (int32_t k = 0; k < per_node; k++)
        if (x->member[s->first_device + k]) return false;
    for (int turn = 0; turn < 2; turn++, next = 0)
        for (int32_t k = 0; k < per_node; k++) {
            if (!x->member[n->first_device + k]) continue;
            while (next < per_node && (!is_well(x->now, s->first_device + next) ||
                                       kind[s->first_device + next].kind !=
                                           kind[n->first_device + k].kind))
                next++;
            if (next == per_node) return false;
            if (turn == 1) x->to[n->first_device + k] = s->first_device + next;
            next++;
        }
    x->taken[spare] = true;
    x->n++;
    return true;
}

/* false: a node has to go, and there is none for it. */
static bool find_spares(exchange *x)
{
    const luo_cluster *cluster = x->now->scenario->cluster;
    bool enough = true;
    for (int must = 1; must >= 0; must--) /* those that are gone first */
        for (int32_t i = 0; i < cluster->nnodes; i++) {
            const luo_node *node = &cluster->nodes[i];
            bool well = true, there = true, done = false;
            for (int32_t d = node->first_device;
                 d < node->first_device + cluster->groups[node->group].devices_per_node; d++) {
                if (!x->member[d]) continue;
                well = well && is_well(x->now, d);
                there = there && is_there(x->now, d);
            }
            if (well || there == (must == 1)) continue;
            for (int32_t s = 0; s < cluster->nnodes && !done; s++) done = replace(x, node, s);
            if (must && !done) enough = false;
        }
    return enough;
}

static luo_status rename_devices(luo_arena *arena, const luo_plan *plan, const int32_t *to,
                                 const luo_plan **out, luo_err *err)
{
    luo_plan *copy;
    LUO_TRY(luo_plan_copy(arena, plan, &copy, err));
    luo_pipeline *pl = LUO_NEW_N(arena, luo_pipeline, plan->npipelines);
    if (!pl) return luo_err_nomem(err);
    for (int32_t i = 0; i < plan->npipelines; i++) {
        luo_stage *st = LUO_NEW_N(arena, luo_stage, plan->pipelines[i].nstages);
        if (!st) return luo_err_nomem(err);
        pl[i] = copy->pipelines[i];
        for (int32_t s = 0; s < pl[i].nstages; s++) {
            int32_t *dev = LUO_NEW_N(arena, int32_t, pl[i].stages[s].ndev);
            if (!dev) return luo_err_nomem(err);
            st[s] = pl[i].stages[s];
            for (int32_t k = 0; k < st[s].ndev; k++) dev[k] = to[st[s].dev[k]];
            st[s].dev = dev;
        }
        pl[i].stages = st;
    }
    copy->pipelines = pl;
    copy->name = "spares";
    copy->meta_json = NULL;
    *out = copy;
    return LUO_OK;
}

/* The same but for its devices? */
static bool same_shape(const luo_plan *a, const luo_plan *b)
{
    if (a->npipelines != b->npipelines) return false;
    for (int32_t i = 0; i < a->npipelines; i++) {
        const luo_pipeline *pipeline = &a->pipelines[i], *y = &b->pipelines[i];
        if (pipeline->nstages != y->nstages || pipeline->micro_batches != y->micro_batches)
            return false;
        for (int32_t s = 0; s < pipeline->nstages; s++)
            if (pipeline->stages[s].ndev != y->stages[s].ndev ||
                pipeline->stages[s].nlayers != y->stages[s].nlayers ||
                memcmp(pipeline->stages[s].layers, y->stages[s].layers,
                       (size_t)pipeline->stages[s].nlayers * sizeof *pipeline->stages[s].layers) !=
                    0)
                return false;
    }
    return true;
}

/* Nothing failed, and nobody is about to leave: does it pay? */
static luo_status weigh(luo_arena *arena, const luo_snapshot *now, luo_decision *out, luo_err *err)
{
    double way_s;
    bool pays;
    LUO_TRY(luo_snapshot_step_s(arena, now, out->plan, &out->new_s, err));
    LUO_TRY(luo_snapshot_switch_s(arena, now, out->plan, &way_s, err));
    LUO_TRY(luo_decision_weigh(arena, now, way_s, out, &pays, err));
    if (pays) return LUO_OK;
    out->action = LUO_KEEP;
    snprintf(out->why, sizeof out->why, "a spare node does not pay");
    return LUO_OK;
}

/* The plan whose nodes are replaced. */
static const luo_plan *to_keep(const luo_snapshot *now)
{
    return same_shape(now->plan, now->base) ? now->plan : now->base;
}

static luo_status check(const luo_snapshot *now, luo_err *err)
{
    const luo_plan *plan = now->base;
    if (plan->nannotations > 0 || plan->state_layout.ndev > 0)
        return luo_err_set(err, LUO_EINPUT, "policy `spares` gives the places of the base plan to "
                           "other devices, but annotations of the plan name devices; a plan "
                           "without `annotations` and `state_layout` is expected.");
    return LUO_OK;
}

luo_status luo_offers_spares(luo_arena *arena, const luo_snapshot *now, luo_offers *out,
                             luo_err *err)
{
    const luo_plan *plan;
    exchange x;
    if (check(now, NULL) != LUO_OK) return LUO_OK;
    LUO_TRY(begin(arena, now, to_keep(now), &x, err));
    if (!find_spares(&x) || x.n == 0) return LUO_OK;
    LUO_TRY(rename_devices(arena, to_keep(now), x.to, &plan, err));
    luo_offers_add(out, "spares", plan, 0);
    return LUO_OK;
}

static luo_status decide(luo_arena *arena, const luo_snapshot *now, luo_decision *out, luo_err *err)
{
    const bool failed = now->trigger & LUO_TRIGGER_FAIL;
    const luo_plan *from = to_keep(now);
    exchange x;
    LUO_TRY(begin(arena, now, from, &x, err));
    if (!find_spares(&x)) return luo_policy_restart.decide(arena, now, out, err);
    *out = (luo_decision){.action = LUO_SWITCH, .old_s = -1, .new_s = -1};
    LUO_TRY(rename_devices(arena, from, x.to, &out->plan, err));
    if (luo_plan_hash(out->plan) == luo_plan_hash(now->plan)) {
        luo_decision_stay(now, failed ? "" : "no spare node is better", out);
        return LUO_OK;
    }
    if (from == now->plan)
        snprintf(out->why, sizeof out->why, "%d spare node%s in place of as many", (int)x.n,
                 x.n == 1 ? "" : "s");
    else
        snprintf(out->why, sizeof out->why, "the plan of the scenario, %d of its nodes replaced",
                 (int)x.n);
    return failed || luo_snapshot_leaves(now) ? LUO_OK : weigh(arena, now, out, err);
}

const luo_policy luo_policy_spares = {.name = "spares", .plans = true, .decide = decide,
                                      .check = check,
                                      .keys = "restart_s payback_steps payback rank"};
