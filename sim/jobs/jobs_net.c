/* jobs_net.c: which links jobs share. */
#include <stdlib.h>

#include "core/base/vec.h"
#include "sim/jobs/jobs.h"

/* Calls fn for each hop that messages of the class, to others or among its members, may go over. */
typedef void hop_fn(void *ctx, int32_t class, int32_t hop);

static void walk_members(const sim_net *net, int32_t class, hop_fn *fn, void *ctx)
{
    const sim_class *c = &net->classes[class];
    const luo_program *at = net->set->at;
    for (int32_t a = 0; a < c->n; a++)
        for (int32_t b = 0; b < c->n; b++) {
            luo_hop hops[LUO_PATH_MAX];
            const int32_t n = luo_cluster_path(net->config->cluster, at[c->member[a]].device,
                                               at[c->member[b]].device, hops);
            for (int32_t h = 0; h < n; h++) fn(ctx, class, 2 * hops[h].link + hops[h].up);
        }
}

static void walk_flow(const sim_net *net, const sim_flow *flow, hop_fn *fn, void *ctx)
{
    for (int32_t w = 0; w < flow->nwires; w++)
        for (int32_t i = 0; i < net->wires[flow->wire[w]].nways; i++) {
            fn(ctx, flow->src, net->wires[flow->wire[w]].hop[i]);
            fn(ctx, flow->dst, net->wires[flow->wire[w]].hop[i]);
        }
}

static void walk_hops(const sim_net *net, hop_fn *fn, void *ctx)
{
    for (int32_t k = 0; k < net->nclasses; k++) walk_members(net, k, fn, ctx);
    for (int32_t t = 0; t < net->ntraffics; t++)
        for (int32_t i = 0; i < net->traffics[t].nflows; i++)
            walk_flow(net, &net->traffics[t].flows[i], fn, ctx);
}

typedef struct users { /* per hop: the first job that uses it, + 1; and is it the only one? */
    int32_t job, *first;
    bool *shared;
} users;

static void note_user(void *ctx, int32_t class, int32_t hop)
{
    users *u = ctx;
    (void)class;
    if (u->first[hop] == 0) u->first[hop] = u->job + 1;
    u->shared[hop] |= u->first[hop] != u->job + 1;
}

/* ---- hops that hold nobody up ---- */

/* As sim/net/loose.c has it, over all jobs: what goes over a hop also goes over the narrowest wire
 * of its flow. Where that is narrower, and all hops of those wires together are no wider than the
 * hop, it is never full before them. */
typedef struct limit {
    int32_t hop, by; /* a hop of the narrowest wire */
    double bytes_per_s;
} limit;

typedef struct limits {
    luo_arena *arena;
    const bool *shared;
    bool *full; /* per hop: it may be */
    bool last;  /* of several that are narrowest; else the first */
    limit *at;
    int32_t n, room;
} limits;

static double hop_room(const sim_net *net, int32_t wire)
{
    return net->wires[wire].bytes_per_s / net->wires[wire].nways;
}

/* Pre: the flow has a wire. */
static int32_t narrowest(const sim_net *net, const sim_flow *flow, bool last)
{
    int32_t best = flow->wire[0];
    for (int32_t i = 1; i < flow->nwires; i++) {
        const double is = net->wires[flow->wire[i]].bytes_per_s;
        const double was = net->wires[best].bytes_per_s;
        if (is < was || (last && is == was)) best = flow->wire[i];
    }
    return best;
}

static luo_status add_limits(limits *l, const sim_net *net, int32_t hop, int32_t by)
{
    for (int32_t i = 0; i < net->wires[by].nways; i++) {
        if (!LUO_VEC_ROOM_IN(l->arena, l->at, l->n, l->room)) return LUO_ENOMEM;
        l->at[l->n++] = (limit){hop, net->wires[by].hop[i], hop_room(net, by)};
    }
    return LUO_OK;
}

static luo_status add_flow(limits *l, const sim_net *net, const sim_flow *flow)
{
    for (int32_t i = 0; i < flow->nwires; i++) {
        const sim_wire *wire = &net->wires[flow->wire[i]];
        const int32_t by = narrowest(net, flow, l->last);
        const bool wider = wire->bytes_per_s > net->wires[by].bytes_per_s;
        for (int32_t k = 0; k < wire->nways; k++) {
            const int32_t hop = wire->hop[k];
            if (!l->shared[hop]) continue;
            if (wider) LUO_TRY(add_limits(l, net, hop, by));
            else l->full[hop] = true;
        }
    }
    return LUO_OK;
}

static int by_hops(const void *a, const void *b)
{
    const limit *x = a, *y = b;
    if (x->hop != y->hop) return x->hop < y->hop ? -1 : 1;
    return (x->by > y->by) - (x->by < y->by);
}

static double hop_bytes_per_s(const luo_cluster *cluster, int32_t hop)
{
    const luo_link *link = &cluster->links[hop / 2];
    const bool down = link->kind == LUO_LINK_STORAGE && hop % 2 == 0;
    return down ? link->down_bytes_per_s : link->bytes_per_s;
}

static void sum_limits(limits *l, const luo_cluster *cluster)
{
    if (l->n > 0) qsort(l->at, (size_t)l->n, sizeof *l->at, by_hops);
    for (int32_t i = 0, k; i < l->n; i = k) {
        double sum = 0;
        for (k = i; k < l->n && l->at[k].hop == l->at[i].hop; k++)
            if (k == i || l->at[k].by != l->at[k - 1].by) sum += l->at[k].bytes_per_s;
        if (sum > hop_bytes_per_s(cluster, l->at[i].hop)) l->full[l->at[i].hop] = true;
    }
}

/* What members of a class exchange among themselves is no flow, so its hops may be full. */
static void note_full(void *ctx, int32_t class, int32_t hop)
{
    limits *l = ctx;
    (void)class;
    l->full[hop] = true;
}

static luo_status find_full(const sim_net *const *net, int32_t n, limits *l)
{
    for (int32_t i = 0; i < n; i++) {
        for (int32_t k = 0; k < net[i]->nclasses; k++) walk_members(net[i], k, note_full, l);
        for (int32_t t = 0; t < net[i]->ntraffics; t++)
            for (int32_t f = 0; f < net[i]->traffics[t].nflows; f++)
                LUO_TRY(add_flow(l, net[i], &net[i]->traffics[t].flows[f]));
    }
    sum_limits(l, net[0]->config->cluster);
    return LUO_OK;
}

/* Hops over which jobs cannot meet are shared no more. */
static luo_status drop_loose(luo_arena *arena, const sim_net *const *net, int32_t n, bool *shared)
{
    const int32_t hops = 2 * net[0]->config->cluster->nlinks;
    limits l[2];
    for (int last = 0; last < 2; last++) {
        l[last] = (limits){
            .arena = arena, .shared = shared, .full = LUO_NEW_N(arena, bool, hops), .last = last};
        if (!l[last].full) return LUO_ENOMEM;
        LUO_TRY(find_full(net, n, &l[last]));
    }
    for (int32_t h = 0; h < hops; h++) shared[h] = shared[h] && l[0].full[h] && l[1].full[h];
    return LUO_OK;
}

/* ---- nets ---- */

typedef struct meeting { /* of one net */
    const sim_net *net;
    const bool *shared;
    bool *single, any;
} meeting;

static void note_meeting(void *ctx, int32_t class, int32_t hop)
{
    meeting *m = ctx;
    if (!m->shared[hop]) return;
    const sim_class *c = &m->net->classes[class];
    for (int32_t i = 0; i < c->n; i++) m->single[c->member[i]] = true;
    m->any = true;
}

/* The net again, with what others make of it. */
static luo_status separate(luo_arena *arena, const bool *shared, const sim_net **net, luo_err *err)
{
    sim_sharing *sharing = LUO_NEW(arena, sim_sharing);
    sim_net *again;
    meeting m = {*net, shared, LUO_NEW_N(arena, bool, (*net)->set->n), false};
    if (!sharing || !m.single) return luo_err_nomem(err);
    walk_hops(*net, note_meeting, &m);
    if (!m.any) return LUO_OK;
    *sharing = (sim_sharing){shared, m.single};
    LUO_TRY(sim_net_make(arena, (*net)->config, (*net)->set, sharing, &again, err));
    *net = again;
    return LUO_OK;
}

luo_status sim_jobs_nets(luo_arena *arena, const luo_backend_config *config,
                         const luo_programs *const *set, int32_t n, const sim_net **out,
                         luo_err *err)
{
    const int32_t hops = 2 * config[0].cluster->nlinks;
    users u = {0, LUO_NEW_N(arena, int32_t, hops), LUO_NEW_N(arena, bool, hops)};
    if (!u.first || !u.shared) return luo_err_nomem(err);
    for (int32_t i = u.job = 0; i < n; u.job = ++i) {
        sim_net *net;
        LUO_TRY(sim_net_make(arena, &config[i], set[i], NULL, &net, err));
        out[i] = net;
        walk_hops(net, note_user, &u);
    }
    if (drop_loose(arena, out, n, u.shared) != LUO_OK) return luo_err_nomem(err);
    for (int32_t i = 0; i < n; i++) LUO_TRY(separate(arena, u.shared, &out[i], err));
    return LUO_OK;
}
