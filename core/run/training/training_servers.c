/* training_servers.c: exchanges with parameter servers: by the formula where servers are beside the
 * cluster, by simulated messages where they are devices of it. */
#include <math.h>
#include <stdlib.h>

#include "core/plan/compile.h"
#include "core/run/training/training_internal.h"
#include "core/sync/exchange.h"

/* ---- beside the cluster ---- */

/* The net is as bad as the path from a worker to another one. */
static void see_path(const training *t, int32_t v, int32_t w, bool events, luo_exchange_net *net)
{
    const luo_cluster *cluster = t->run->job.scenario->cluster;
    const luo_world *world = luo_events_world(t->run->clock.events);
    const int32_t a = t->plan->pipelines[v].stages[0].dev[0];
    const int32_t b = t->plan->pipelines[w].stages[0].dev[0];
    luo_hop hop[LUO_PATH_MAX];
    double least = 1, extra_s = 0;
    const int32_t n = luo_cluster_path(cluster, a, b, hop);
    for (int32_t i = 0; i < n && events; i++) {
        least = fmin(least, world->link_factor[hop[i].link]);
        extra_s += world->link_extra_latency_s[hop[i].link];
    }
    net->alpha_s = fmax(net->alpha_s, luo_cluster_path_latency(cluster, a, b) + extra_s);
    net->bytes_per_s = fmin(net->bytes_per_s, luo_cluster_path_bytes_per_s(cluster, a, b) * least);
}

/* Latency and bandwidth between neighbouring workers that live, at their worst, with link events.
 * One that is alone has the net of all, without them: links go down with nodes. */
static luo_exchange_net net_of(const training *t)
{
    luo_exchange_net net = {0, INFINITY};
    const bool events = t->living > 1;
    int32_t before = -1;
    for (int32_t w = 0; w < t->n; w++) {
        if (events && t->at[w].phase == TRAINER_GONE) continue;
        if (before >= 0) see_path(t, before, w, events, &net);
        before = w;
    }
    return net;
}

/* All parameters in f32 to the servers and back; the NIC of a server carries those of all workers
 * that live (docs/sync.md#time, without the keys that dense gradients do not need). */
static void by_formula(const training *t, double each, double *seconds)
{
    const luo_exchange_net net = net_of(t);
    const double slowest = fmax(each, each * t->living / t->spec->servers);
    *seconds = t->n < 2              ? 0
               : net.bytes_per_s > 0 ? 2 * net.alpha_s + slowest / net.bytes_per_s
                                     : INFINITY;
}

/* ---- on devices ---- */

static int32_t width_of(const training *t, int32_t w)
{
    int32_t n = 0;
    for (int32_t s = 0; s < t->plan->pipelines[w].nstages; s++)
        n += t->plan->pipelines[w].stages[s].ndev;
    return n;
}

int64_t luo_training_messages(const training *t)
{
    int64_t n = 0;
    for (int32_t w = 0; w < t->n; w++) n += width_of(t, w);
    return 2 * n * t->spec->servers;
}

static int by_ends(const void *a, const void *b)
{
    const luo_pair *x = a, *y = b;
    if (x->src != y->src) return x->src < y->src ? -1 : 1;
    return (x->dst > y->dst) - (x->dst < y->dst);
}

/* A device may be of a worker and a server, so a pair may come twice. */
static int32_t merge(luo_pair *pairs, int32_t n)
{
    int32_t kept = 0;
    if (n > 0) qsort(pairs, (size_t)n, sizeof *pairs, by_ends);
    for (int32_t i = 0; i < n; i++) {
        luo_pair *last = kept > 0 ? &pairs[kept - 1] : NULL;
        if (last && last->src == pairs[i].src && last->dst == pairs[i].dst)
            last->bytes += pairs[i].bytes;
        else
            pairs[kept++] = pairs[i];
    }
    return kept;
}

/* Parameters of a worker lie evenly on its devices, and evenly on the servers. */
static int32_t list_pairs(const training *t, double each, luo_pair *pairs)
{
    int32_t n = 0;
    for (int32_t w = 0; w < t->n; w++) {
        const luo_pipeline *pipeline = &t->plan->pipelines[w];
        if (t->at[w].phase == TRAINER_GONE) continue;
        const int64_t bytes = (int64_t)ceil(each / width_of(t, w) / t->spec->servers);
        for (int32_t k = 0; k < pipeline->nstages; k++)
            for (int32_t i = 0; i < pipeline->stages[k].ndev; i++)
                for (int32_t s = 0; s < t->spec->servers; s++) {
                    const int32_t a = pipeline->stages[k].dev[i], b = t->spec->server_devices[s];
                    if (a == b) continue;
                    pairs[n++] = (luo_pair){.src = a, .dst = b, .bytes = bytes};
                    pairs[n++] = (luo_pair){.src = b, .dst = a, .bytes = bytes};
                }
    }
    return merge(pairs, n);
}

/* The worst latency of a path, as links are; INFINITY: one is down. */
static double latency_of(const training *t, const luo_pair *pairs, int32_t n)
{
    const luo_cluster *cluster = t->run->job.scenario->cluster;
    const luo_world *world = luo_events_world(t->run->clock.events);
    luo_hop hop[LUO_PATH_MAX];
    double worst = 0;
    for (int32_t k = 0; k < n; k++) {
        const int32_t hops = luo_cluster_path(cluster, pairs[k].src, pairs[k].dst, hop);
        double seconds = luo_cluster_path_latency(cluster, pairs[k].src, pairs[k].dst);
        for (int32_t i = 0; i < hops; i++) {
            seconds += world->link_extra_latency_s[hop[i].link];
            if (!(world->link_factor[hop[i].link] > 0)) return INFINITY;
        }
        worst = fmax(worst, seconds);
    }
    return worst;
}

/* Messages up and down at once, and one latency more: what comes down is asked for first. */
static luo_status simulate(training *t, const luo_pair *pairs, int32_t n, double *seconds,
                           luo_err *err)
{
    luo_judge *judge = &t->run->decision.judge;
    luo_judgement step = {0};
    luo_programs *set;
    const double latency_s = latency_of(t, pairs, n);
    *seconds = latency_s;
    if (n == 0 || isinf(latency_s)) return LUO_OK;
    LUO_TRY(luo_compile_messages(t->run->scratch, pairs, n, "servers", &set, err));
    judge->links = t->links ? luo_events_world(t->run->clock.events) : NULL;
    const luo_status st = luo_judge_simulate(t->run->scratch, judge, set, t->plan->dtype, NULL,
                                             &step, err);
    judge->links = NULL;
    *seconds = latency_s + step.seconds;
    return st;
}

/* All workers that live exchange at once, as the formula has it too. */
static luo_status by_messages(training *t, double each, double *seconds, luo_err *err)
{
    uint64_t key = luo_hash_bytes(LUO_HASH_EMPTY, &t->links, sizeof t->links);
    for (int32_t w = 0; w < t->n; w++) {
        const bool gone = t->at[w].phase == TRAINER_GONE;
        key = luo_hash_bytes(key, &gone, sizeof gone);
    }
    *seconds = luo_judge_number(luo_map_get(&t->exchanges, key, luo_judge_bits(-1)));
    if (*seconds >= 0) return LUO_OK;
    luo_pair *pairs = LUO_NEW_N(t->run->scratch, luo_pair, luo_training_messages(t));
    if (!pairs) return luo_err_nomem(err);
    LUO_TRY(simulate(t, pairs, list_pairs(t, each, pairs), seconds, err));
    int64_t *slot = luo_map_at(&t->exchanges, key, 0);
    if (!slot) return luo_err_nomem(err);
    *slot = luo_judge_bits(*seconds);
    return LUO_OK;
}

/* ---- both ---- */

luo_status luo_training_servers(training *t, double *seconds, luo_err *err)
{
    int64_t parameters = 0;
    LUO_TRY(luo_model_parameters(t->run->job.scenario->model, &parameters, err));
    if (t->spec->server_devices) return by_messages(t, 4 * (double)parameters, seconds, err);
    by_formula(t, 4 * (double)parameters, seconds);
    return LUO_OK;
}

int32_t luo_training_dead_server(const training *t)
{
    const luo_world *world = luo_events_world(t->run->clock.events);
    for (int32_t s = 0; t->spec->server_devices && s < t->spec->servers; s++)
        if (!world->up[t->spec->server_devices[s]]) return s;
    return -1;
}
