/* training_time.c: how long workers compute and exchange, by simulated steps. */
#include <math.h>
#include <string.h>

#include "core/run/training/training_internal.h"

/* Of a worker whose paths are looked at: that takes their square. Wider ones cross everything. */
enum { MANY_DEVICES = 1024 };

bool luo_training_uses_servers(const luo_training_spec *spec)
{
    return spec->mode == LUO_TRAINING_BSP || spec->mode == LUO_TRAINING_SSP ||
           spec->mode == LUO_TRAINING_ASP;
}

static bool holds(const luo_pipeline *pipeline, const luo_world *world)
{
    for (int32_t s = 0; s < pipeline->nstages; s++)
        for (int32_t i = 0; i < pipeline->stages[s].ndev; i++)
            if (!world->up[pipeline->stages[s].dev[i]]) return false;
    return true;
}

bool luo_training_is_up(const training *t, int32_t w)
{
    return holds(&t->plan->pipelines[w], luo_events_world(t->run->clock.events));
}

/* ---- workers that are alike ---- */

static bool same_place(const luo_cluster *cluster, int32_t a, int32_t b, int32_t first_a,
                       int32_t first_b, bool alone)
{
    const luo_device *x = &cluster->devices[a], *y = &cluster->devices[b];
    const luo_device *fx = &cluster->devices[first_a], *fy = &cluster->devices[first_b];
    return x->kind == y->kind &&
           (alone || (x->slot == y->slot && x->node - fx->node == y->node - fy->node));
}

/* Stages that say more than these are compared with nobody. */
static bool same_cut(const luo_stage *a, const luo_stage *b)
{
    const bool plain = !a->shares && !b->shares && !a->context_shares && !b->context_shares &&
                       a->nrecompute + b->nrecompute + a->nreroute + b->nreroute == 0;
    return plain && a->ndev == b->ndev && a->nlayers == b->nlayers &&
           memcmp(a->layers, b->layers, (size_t)a->nlayers * sizeof *a->layers) == 0 &&
           a->context_parallel == b->context_parallel && a->context_kind == b->context_kind &&
           a->context_layout == b->context_layout && a->context_inner == b->context_inner &&
           a->recompute == b->recompute && a->embedding == b->embedding && a->head == b->head &&
           a->experts_dealt == b->experts_dealt;
}

static bool same_cuts(const luo_pipeline *x, const luo_pipeline *y)
{
    if (x->nstages != y->nstages) return false;
    for (int32_t s = 0; s < x->nstages; s++)
        if (!same_cut(&x->stages[s], &y->stages[s])) return false;
    return true;
}

/* Same cuts on devices of the same types, as far from each other, at the same places of their nodes
 * (which one device does not care about). Racks are not looked at: clusters of several compare
 * nobody. */
static bool alike(const training *t, int32_t v, int32_t w)
{
    const luo_cluster *cluster = t->run->job.scenario->cluster;
    const luo_pipeline *x = &t->plan->pipelines[v], *y = &t->plan->pipelines[w];
    const int32_t first_x = x->stages[0].dev[0], first_y = y->stages[0].dev[0];
    const bool alone = x->nstages == 1 && x->stages[0].ndev == 1;
    if (!same_cuts(x, y) || (!alone && cluster->nracks > 1)) return false;
    for (int32_t s = 0; s < x->nstages; s++) {
        const luo_stage *a = &x->stages[s], *b = &y->stages[s];
        for (int32_t k = 0; k < a->ndev; k++)
            if (!same_place(cluster, a->dev[k], b->dev[k], first_x, first_y, alone)) return false;
    }
    return true;
}

void luo_training_compare(training *t)
{
    for (int32_t w = 0; w < t->n; w++) {
        int32_t v = 0, c = 0;
        while (v < w && (t->like[v] != v || !alike(t, v, w))) v++;
        t->like[w] = v;
        while (c < w &&
               (t->cut[c] != c || !same_cuts(&t->plan->pipelines[c], &t->plan->pipelines[w])))
            c++;
        t->cut[w] = c;
    }
}

/* ---- iterations ---- */

/* All devices well. */
static void all_well(training *t)
{
    for (int32_t d = 0; d < t->run->job.scenario->cluster->ndevices; d++) t->rate[d] = 1;
}

static bool is_well(const luo_world *world, int32_t link)
{
    return world->link_factor[link] == 1 && world->link_extra_latency_s[link] == 0;
}

static bool path_is_well(const training *t, int32_t a, int32_t b)
{
    luo_hop hop[LUO_PATH_MAX];
    const int32_t n = luo_cluster_path(t->run->job.scenario->cluster, a, b, hop);
    for (int32_t i = 0; i < n; i++)
        if (!is_well(luo_events_world(t->run->clock.events), hop[i].link)) return false;
    return true;
}

/* Any two of its devices may talk. Uses t->seen_dev. */
static bool crosses(const training *t, int32_t w)
{
    const luo_pipeline *pipeline = &t->plan->pipelines[w];
    int32_t n = 0;
    for (int32_t s = 0; s < pipeline->nstages; s++)
        for (int32_t k = 0; k < pipeline->stages[s].ndev; k++)
            t->seen_dev[n++] = pipeline->stages[s].dev[k];
    for (int32_t i = 0; i < n && n <= MANY_DEVICES; i++)
        for (int32_t k = 0; k < n; k++)
            if (!path_is_well(t, t->seen_dev[i], t->seen_dev[k])) return true;
    return n > MANY_DEVICES;
}

void luo_training_see_links(training *t)
{
    const luo_world *world = luo_events_world(t->run->clock.events);
    uint64_t h = LUO_HASH_EMPTY;
    for (int32_t l = 0; l < world->nlinks; l++) {
        const double is[] = {world->link_factor[l], world->link_extra_latency_s[l]};
        if (is_well(world, l)) continue;
        h = luo_hash_bytes(h, &l, sizeof l);
        h = luo_hash_bytes(h, is, sizeof is);
    }
    t->links = h == LUO_HASH_EMPTY ? 0 : h;
    for (int32_t w = 0; w < t->n; w++) t->crosses[w] = t->links != 0 && crosses(t, w);
}

/* A step of these pipelines of the plan, and of nothing else, at t->rate. INFINITY: as *why says.
 */
static luo_status ask(training *t, const int32_t *member, int32_t n, const luo_world *links,
                      double *seconds, luo_err *why)
{
    luo_run *run = t->run;
    luo_plan part = *t->plan;
    luo_pipeline *pipelines = LUO_NEW_N(run->scratch, luo_pipeline, n);
    if (!pipelines) return luo_err_nomem(why);
    for (int32_t i = 0; i < n; i++) pipelines[i] = t->plan->pipelines[member[i]];
    part.pipelines = pipelines;
    part.npipelines = n;
    run->decision.judge.links = links;
    const luo_status st = luo_judge_step(&run->decision.judge, &part, luo_run_tokens(run, t->plan),
                                         t->rate, seconds, why);
    run->decision.judge.links = NULL;
    return st;
}

/* The same on healthy links, on which it has to be possible. */
static luo_status seconds_of(training *t, const int32_t *member, int32_t n, double *seconds,
                             luo_err *err)
{
    luo_err why = {0};
    const luo_status st = ask(t, member, n, NULL, seconds, &why);
    if (st != LUO_OK) return luo_err_set(err, st, "%s", why.text);
    if (isfinite(*seconds)) return LUO_OK;
    return luo_err_set(err, LUO_EINPUT, "pipeline %d of the plan cannot be a worker: %s", member[0],
                       why.text);
}

/* The same on links as they are; INFINITY: one is down. */
static luo_status seconds_now(training *t, const int32_t *member, int32_t n, double *seconds,
                              luo_err *err)
{
    const luo_world *world = luo_events_world(t->run->clock.events);
    luo_err why = {0};
    const luo_status st = ask(t, member, n, world, seconds, &why);
    if (st != LUO_OK) return luo_err_set(err, st, "%s", why.text);
    if (isfinite(*seconds)) return LUO_OK;
    LUO_TRY(seconds_of(t, member, n, seconds, err));
    *seconds = INFINITY; /* it is the links */
    return LUO_OK;
}

luo_status luo_training_step_of(training *t, const int32_t *member, int32_t n, double *seconds,
                                luo_err *err)
{
    all_well(t);
    return t->links == 0 ? seconds_of(t, member, n, seconds, err)
                         : seconds_now(t, member, n, seconds, err);
}

/* The speeds of one worker's devices on those of another. */
static void lend_rates(training *t, int32_t from, int32_t to)
{
    const luo_world *world = luo_events_world(t->run->clock.events);
    const luo_pipeline *x = &t->plan->pipelines[from], *y = &t->plan->pipelines[to];
    for (int32_t s = 0; s < x->nstages; s++)
        for (int32_t k = 0; k < x->stages[s].ndev; k++)
            t->rate[y->stages[s].dev[k]] = world->slowdown[x->stages[s].dev[k]];
}

/* Worker w, its devices at t->rate, on links as they are now. */
static uint64_t key_of(const training *t, int32_t w)
{
    const luo_pipeline *pipeline = &t->plan->pipelines[w];
    uint64_t h = luo_hash_bytes(LUO_HASH_EMPTY, &t->links, sizeof t->links);
    h = luo_hash_bytes(h, &w, sizeof w);
    for (int32_t s = 0; s < pipeline->nstages; s++)
        for (int32_t k = 0; k < pipeline->stages[s].ndev; k++)
            h = luo_hash_bytes(h, &t->rate[pipeline->stages[s].dev[k]], sizeof *t->rate);
    return h;
}

/* No other worker is on the same links. */
static luo_status seconds_across(training *t, int32_t w, double *seconds, luo_err *err)
{
    lend_rates(t, w, w);
    const uint64_t key = key_of(t, w);
    *seconds = luo_judge_number(luo_map_get(&t->iterations, key, luo_judge_bits(-1)));
    if (*seconds >= 0) return LUO_OK;
    LUO_TRY(seconds_now(t, &w, 1, seconds, err));
    int64_t *slot = luo_map_at(&t->iterations, key, 0);
    if (!slot) return luo_err_nomem(err);
    *slot = luo_judge_bits(*seconds);
    return LUO_OK;
}

luo_status luo_training_seconds(training *t, int32_t w, double *seconds, luo_err *err)
{
    all_well(t);
    if (t->crosses[w]) return seconds_across(t, w, seconds, err);
    lend_rates(t, w, t->like[w]);
    return seconds_of(t, &t->like[w], 1, seconds, err);
}

/* ---- exchanges ---- */

luo_status luo_training_exchange(training *t, const int32_t *member, int32_t n, double *seconds,
                                 luo_err *err)
{
    if (luo_training_uses_servers(t->spec)) return luo_training_servers(t, seconds, err);
    return luo_training_group(t, member, n, seconds, err);
}
