/* jobs_net.c: which links jobs share. */
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
    for (int32_t i = 0; i < n; i++) LUO_TRY(separate(arena, u.shared, &out[i], err));
    return LUO_OK;
}
