/* training_group.c: how long the workers of a group exchange, by simulated steps. One is simulated
 * once for all groups that are alike. */
#include <math.h>

#include "core/run/training/training_internal.h"

enum {
    MANY_SETS = 1 << 16, /* remembered groups; then they are forgotten */
    MANY_DEVICES = 1024  /* of a group that is compared with others: that takes their square */
};

/* ---- which groups are alike: those that have one signature ---- */

typedef struct signature { /* of workers, their devices and what joins these */
    training *t;
    uint64_t hash;
    int32_t ndev, nlinks, nnodes; /* in it, in t->seen_dev and t->seen_link */
} signature;

static void put(signature *p, const void *bytes, size_t n)
{
    p->hash = luo_hash_bytes(p->hash, bytes, n);
}

static void put_number(signature *p, int32_t n)
{
    put(p, &n, sizeof n);
}

/* Links have numbers in the order in which the signature meets them; a new one is described. */
static void put_link(signature *p, int32_t l)
{
    const luo_link *link = &p->t->run->job.scenario->cluster->links[l];
    const luo_world *world = luo_events_world(p->t->run->clock.events);
    int32_t *number = &p->t->link_number[l];
    if (*number < 0) {
        *number = p->nlinks;
        p->t->seen_link[p->nlinks++] = l;
        put_number(p, (int32_t)link->kind);
        put(p, &link->bytes_per_s, sizeof link->bytes_per_s);
        put(p, &link->latency_s, sizeof link->latency_s);
        put(p, &world->link_factor[l], sizeof world->link_factor[l]);
        put(p, &world->link_extra_latency_s[l], sizeof world->link_extra_latency_s[l]);
    }
    put_number(p, *number);
}

static void put_path(signature *p, int32_t a, int32_t b)
{
    const luo_cluster *cluster = p->t->run->job.scenario->cluster;
    const double hops_s = luo_cluster_hop_latency(cluster, a, b);
    luo_hop hop[LUO_PATH_MAX];
    const int32_t n = luo_cluster_path(cluster, a, b, hop);
    put(p, &hops_s, sizeof hops_s);
    put_number(p, n);
    for (int32_t i = 0; i < n; i++) {
        put_link(p, hop[i].link);
        put_number(p, hop[i].up);
    }
}

static void put_device(signature *p, int32_t d)
{
    const luo_device *device = &p->t->run->job.scenario->cluster->devices[d];
    int32_t *number = &p->t->node_number[device->node];
    if (*number < 0) *number = p->nnodes++;
    put_number(p, device->kind);
    put_number(p, *number);
    for (int32_t i = 0; i < p->ndev; i++) put_path(p, p->t->seen_dev[i], d);
    p->t->seen_dev[p->ndev++] = d;
}

static void put_worker(signature *p, int32_t w)
{
    const luo_pipeline *pipeline = &p->t->plan->pipelines[w];
    put_number(p, p->t->cut[w]);
    for (int32_t s = 0; s < pipeline->nstages; s++)
        for (int32_t k = 0; k < pipeline->stages[s].ndev; k++)
            put_device(p, pipeline->stages[s].dev[k]);
}

static uint64_t signature_of(training *t, const int32_t *member, int32_t n)
{
    const luo_cluster *cluster = t->run->job.scenario->cluster;
    signature p = {.t = t, .hash = LUO_HASH_EMPTY};
    for (int32_t i = 0; i < n; i++) put_worker(&p, member[i]);
    for (int32_t i = 0; i < p.nlinks; i++) t->link_number[t->seen_link[i]] = -1;
    for (int32_t i = 0; i < p.ndev; i++) t->node_number[cluster->devices[t->seen_dev[i]].node] = -1;
    return p.hash;
}

/* ---- nodes that are alike in any order ---- */

typedef struct party { /* members on one node */
    int32_t node, first, n;
    uint64_t hash;
} party;

/* Its node; -1: several. */
static int32_t node_of(const training *t, int32_t w)
{
    const luo_device *devices = t->run->job.scenario->cluster->devices;
    const luo_pipeline *pipeline = &t->plan->pipelines[w];
    const int32_t node = devices[pipeline->stages[0].dev[0]].node;
    for (int32_t s = 0; s < pipeline->nstages; s++)
        for (int32_t k = 0; k < pipeline->stages[s].ndev; k++)
            if (devices[pipeline->stages[s].dev[k]].node != node) return -1;
    return node;
}

/* Members by node; 0: they cannot be cut so. */
static int32_t cut_by_node(const training *t, const int32_t *member, int32_t n, party *out)
{
    int32_t at = 0;
    for (int32_t i = 0; i < n; i++) {
        const int32_t node = node_of(t, member[i]);
        if (node < 0 || (at > 0 && node < out[at - 1].node)) return 0;
        if (at == 0 || node > out[at - 1].node) out[at++] = (party){.node = node, .first = i};
        out[at - 1].n++;
    }
    return at;
}

static bool may_swap(const training *t, const party *a, const party *b)
{
    const luo_node *x = &t->run->job.scenario->cluster->nodes[a->node];
    const luo_node *y = &t->run->job.scenario->cluster->nodes[b->node];
    return x->group == y->group && x->rack == y->rack;
}

/* Which of several nodes of one type in a rack has which part of a group makes no difference: they
 * are told by what they have. */
static luo_status arrange(training *t, const int32_t *member, int32_t n, int32_t *out, luo_err *err)
{
    party *at = LUO_NEW_N(t->run->scratch, party, n);
    if (!at) return luo_err_nomem(err);
    const int32_t parties = cut_by_node(t, member, n, at);
    for (int32_t i = 0; i < n && parties == 0; i++) out[i] = member[i];
    for (int32_t i = 0; i < parties; i++) {
        party x = at[i];
        int32_t k = i;
        x.hash = signature_of(t, member + x.first, x.n);
        for (; k > 0 && may_swap(t, &at[k - 1], &x) && at[k - 1].hash > x.hash; k--)
            at[k] = at[k - 1];
        at[k] = x;
    }
    for (int32_t i = 0; i < parties; i++)
        for (int32_t k = 0; k < at[i].n; k++) *out++ = member[at[i].first + k];
    return LUO_OK;
}

/* ---- seconds ---- */

static int32_t devices_of(const training *t, const int32_t *member, int32_t n)
{
    int32_t ndev = 0;
    for (int32_t i = 0; i < n; i++)
        for (int32_t s = 0; s < t->plan->pipelines[member[i]].nstages; s++)
            ndev += t->plan->pipelines[member[i]].stages[s].ndev;
    return ndev;
}

/* These members on links as they are now. */
static uint64_t key_of(const training *t, const int32_t *member, int32_t n)
{
    return luo_hash_bytes(luo_hash_bytes(LUO_HASH_EMPTY, &t->links, sizeof t->links), member,
                          (size_t)n * sizeof *member);
}

/* A step of these workers, all devices well. */
static luo_status step_of(training *t, const int32_t *member, int32_t n, double *seconds,
                          luo_err *err)
{
    uint64_t key = key_of(t, member, n);
    if (devices_of(t, member, n) <= MANY_DEVICES) {
        int32_t *arranged = LUO_NEW_N(t->run->scratch, int32_t, n);
        if (!arranged) return luo_err_nomem(err);
        LUO_TRY(arrange(t, member, n, arranged, err));
        key = signature_of(t, arranged, n);
    }
    const int64_t known = luo_map_get(&t->steps, key, luo_judge_bits(-1));
    *seconds = luo_judge_number(known);
    if (*seconds >= 0) return LUO_OK;
    LUO_TRY(luo_training_step_of(t, member, n, seconds, err));
    int64_t *slot = luo_map_at(&t->steps, key, 0);
    if (!slot) return luo_err_nomem(err);
    *slot = luo_judge_bits(*seconds);
    return LUO_OK;
}

luo_status luo_training_group(training *t, const int32_t *member, int32_t n, double *seconds,
                              luo_err *err)
{
    const uint64_t key = key_of(t, member, n);
    double together = 0, slowest = 0;
    *seconds = luo_judge_number(luo_map_get(&t->exchanges, key, luo_judge_bits(-1)));
    if (*seconds >= 0) return LUO_OK;
    LUO_TRY(step_of(t, member, n, &together, err));
    for (int32_t i = 0; i < n; i++) {
        double alone = 0;
        LUO_TRY(step_of(t, &member[i], 1, &alone, err));
        slowest = fmax(slowest, alone);
    }
    *seconds = isinf(together) ? INFINITY : fmax(0, together - slowest);
    if (t->exchanges.n >= MANY_SETS) luo_map_clear(&t->exchanges);
    int64_t *slot = luo_map_at(&t->exchanges, key, 0);
    if (!slot) return luo_err_nomem(err);
    *slot = luo_judge_bits(*seconds);
    return LUO_OK;
}
