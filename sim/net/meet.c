/* meet.c: collectives of several lanes.
 *
 * Groups that one instruction of a folded lane uses side by side (one per member) are one meeting:
 * its lanes start together when the last has arrived, and its flows are those of all groups.
 *
 * Where tensor parallelism is uneven a device is in several groups of one exchange, called one
 * after another. Then a lane has several instructions in one meeting. The first meets for all; the
 * groups talk in as many rounds as the lane with most instructions has. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sim/net/traffic.h"

typedef struct use { /* of a group by a collective of a lane */
    sim_key key;
    int32_t group, lane, instr;
    int32_t root; /* a use of the same meeting; smallest at the end */
} use;

typedef struct known { /* collectives over equal groups with equal bytes share their traffic */
    const int32_t *groups;
    int32_t n, coll, stream, traffic, next;
    int64_t bytes;
} known;

typedef struct meeter {
    sim_maker *k;
    use *uses;
    int32_t nuses, room_uses;
    sim_meeting *meetings;
    int32_t nmeetings, room_meetings;
    known *list;
    int32_t nknown, room_known;
    luo_map known_of; /* hash -> last known of it */
    int32_t *stamp;    /* per lane: meeting it was last seen in, + 1 */
    int32_t *round_of; /* per group, in the meeting at hand; else 0 */
} meeter;

static int by_group(const void *a, const void *b)
{
    const use *x = a, *y = b;
    const int order = sim_key_order(&x->key, &y->key);
    if (order) return order;
    if (x->group != y->group) return x->group < y->group ? -1 : 1;
    if (x->lane != y->lane) return x->lane < y->lane ? -1 : 1;
    return (x->instr > y->instr) - (x->instr < y->instr);
}

static int by_root(const void *a, const void *b)
{
    const use *x = a, *y = b;
    if (x->root != y->root) return x->root < y->root ? -1 : 1;
    return by_group(a, b);
}

static int32_t root_of(use *u, int32_t i)
{
    while (u[i].root != i) i = u[i].root = u[u[i].root].root;
    return i;
}

static void join(use *u, int32_t a, int32_t b)
{
    a = root_of(u, a);
    b = root_of(u, b);
    if (a < b) u[b].root = a;
    else u[a].root = b;
}

static luo_status collect(meeter *m)
{
    const sim_net *net = m->k->net;
    for (int32_t l = 0; l < net->nlanes; l++) {
        const sim_lane *lane = &net->lanes[l];
        for (int32_t i = 0; i < lane->role->ninstr; i++) {
            const luo_instr *in = &lane->role->instr[i];
            int32_t last = -1;
            if (lane->ops[i].what != SIM_MEET) continue;
            for (int32_t d = 0; d < lane->n; d++) {
                const int32_t group = sim_slot(net, lane, d, in)->group;
                if (group == last) continue;
                last = group;
                LUO_TRY(sim_maker_room(m->k, &m->uses, m->nuses, &m->room_uses, sizeof *m->uses));
                m->uses[m->nuses++] = (use){sim_key_of(in), group, l, i, 0};
            }
        }
    }
    return LUO_OK;
}

static sim_cross *cross_of(const meeter *m, const use *u)
{
    const sim_lane *lane = &m->k->net->lanes[u->lane];
    return &lane->cross[lane->ops[u->instr].cross];
}

/* sim_cross.meeting holds, for a while, the first use of the instruction + 1. */
static void unite(meeter *m)
{
    use *u = m->uses;
    for (int32_t i = 0; i < m->nuses; i++) {
        sim_cross *cross = cross_of(m, &u[i]);
        u[i].root = i;
        if (i > 0 && u[i].group == u[i - 1].group && sim_key_order(&u[i].key, &u[i - 1].key) == 0)
            join(u, i - 1, i);
        if (cross->meeting > 0) join(u, cross->meeting - 1, i);
        else cross->meeting = i + 1;
    }
    for (int32_t i = 0; i < m->nuses; i++) u[i].root = root_of(u, i);
}

/* Nodes of the group and the least number of its devices on one; members[]: how many on each. */
static int32_t count_nodes(const sim_maker *k, const luo_group *g, int32_t *least)
{
    const luo_cluster *c = k->net->config->cluster;
    int32_t nodes = 0;
    for (int32_t i = 0; i < g->n; i++) nodes += k->members[c->devices[g->dev[i]].node]++ == 0;
    *least = g->n;
    for (int32_t i = 0; i < g->n; i++)
        if (k->members[c->devices[g->dev[i]].node] < *least)
            *least = k->members[c->devices[g->dev[i]].node];
    return nodes;
}

static luo_status add_flows(sim_maker *k, const luo_instr *in, const luo_group *g, int64_t bytes,
                            double factor)
{
    const luo_cluster *c = k->net->config->cluster;
    luo_flow *f = NULL;
    int32_t n = 0, least = 0;
    luo_arena_reset(k->flows, 0);
    LUO_TRY(luo_cost_flow(k->flows, &k->net->cost, in->coll, g->dev, g->n, bytes, &f, &n,
                          k->err));
    const int32_t nodes = count_nodes(k, g, &least);
    const bool all = in->coll == LUO_COLL_A2A;
    const double size = (double)bytes;
    /* What flows of luo_cost_flow would carry at efficiency 1. */
    const double inner = luo_cost_volume(in->coll, nodes > 1 ? nodes * least : g->n) * size;
    const double outer = luo_cost_volume(in->coll, nodes) * size / least / (all ? nodes - 1 : 1);
    luo_status st = LUO_OK;
    for (int32_t i = 0; st == LUO_OK && i < n; i++) {
        const int32_t node = c->devices[f[i].src].node;
        const bool near = node == c->devices[f[i].dst].node;
        const double latency = luo_cluster_path_latency(c, f[i].src, f[i].dst);
        const sim_message msg = {f[i].src, f[i].dst, f[i].bytes * factor,
                                 (f[i].delay_s + latency) * factor,
                                 !near ? outer : all ? inner / (k->members[node] - 1) : inner};
        st = sim_maker_message(k, &msg);
    }
    for (int32_t i = 0; i < g->n; i++) k->members[c->devices[g->dev[i]].node] = 0;
    return st;
}

static int by_value(const void *a, const void *b)
{
    const int32_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* Lanes of the groups, each once. */
static luo_status carry(sim_maker *k, const int32_t *groups, int32_t n, double seconds,
                        sim_traffic *t)
{
    int32_t most = 0, count = 0;
    for (int32_t i = 0; i < n; i++) most += k->net->set->groups[groups[i]].n;
    int32_t *lane = luo_arena_alloc(k->scratch, (size_t)most * sizeof *lane);
    if (!lane) return luo_err_nomem(k->err);
    for (int32_t i = 0, at = 0; i < n; i++) {
        const luo_group *g = &k->net->set->groups[groups[i]];
        for (int32_t d = 0; d < g->n; d++) lane[at++] = k->net->lane_of[g->dev[d]];
    }
    qsort(lane, (size_t)most, sizeof *lane, by_value);
    for (int32_t i = 0; i < most; i++)
        if (count == 0 || lane[i] != lane[count - 1]) lane[count++] = lane[i];
    if (sim_net_threads(k->arena, k->net, lane, count, seconds, t) != LUO_OK)
        return luo_err_nomem(k->err);
    return LUO_OK;
}

static luo_status new_traffic(sim_maker *k, const luo_instr *in, const int32_t *groups, int32_t n,
                              int32_t *id)
{
    const int64_t bytes = sim_bytes(k->net, in, in->bytes);
    double seconds = 0;
    /* accuracy.md 6.1 */
    const double factor =
        in->stream == LUO_STREAM_TP ? k->net->config->stack->tp_exposed_factor : 1;
    int32_t steps = 1;
    for (int32_t i = 0; i < n; i++) {
        const luo_group *g = &k->net->set->groups[groups[i]];
        double s = 0;
        LUO_TRY(luo_cost_group(&k->net->cost, in->coll, g->dev, g->n, bytes, 0, &s, k->err));
        seconds = fmax(seconds, s * factor);
        LUO_TRY(add_flows(k, in, g, bytes, factor));
        if (i == 0) steps = luo_cost_steps(&k->net->cost, in->coll, g->dev, g->n, bytes);
    }
    LUO_TRY(sim_maker_close(k, seconds, steps, id));
    k->traffics[*id].ring = steps > 1;
    return carry(k, groups, n, seconds, &k->traffics[*id]);
}

static luo_status traffic_for(meeter *m, const luo_instr *in, const int32_t *groups, int32_t n,
                              int32_t *id)
{
    const int64_t bytes = sim_bytes(m->k->net, in, in->bytes);
    uint64_t h = luo_hash_bytes(LUO_HASH_EMPTY, groups, (size_t)n * sizeof *groups);
    h = luo_hash_bytes(h, &bytes, sizeof bytes);
    int64_t *last = luo_map_at(&m->known_of, h, -1);
    if (!last) return luo_err_nomem(m->k->err);
    for (int32_t i = (int32_t)*last; i >= 0; i = m->list[i].next) {
        const known *t = &m->list[i];
        if (t->n == n && t->coll == in->coll && t->stream == in->stream && t->bytes == bytes &&
            memcmp(t->groups, groups, (size_t)n * sizeof *groups) == 0) {
            *id = t->traffic;
            return LUO_OK;
        }
    }
    LUO_TRY(new_traffic(m->k, in, groups, n, id));
    int32_t *copy = luo_arena_alloc(m->k->scratch, (size_t)n * sizeof *copy);
    if (!copy) return luo_err_nomem(m->k->err);
    memcpy(copy, groups, (size_t)n * sizeof *copy);
    LUO_TRY(sim_maker_room(m->k, &m->list, m->nknown, &m->room_known, sizeof *m->list));
    m->list[m->nknown] = (known){copy, n, in->coll, in->stream, *id, (int32_t)*last, bytes};
    *last = m->nknown++;
    return LUO_OK;
}

/* Lanes of the groups, in order of first appearance, then ascending; a device without program. */
static int by_number(const void *a, const void *b)
{
    const int32_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static luo_status find_lanes(meeter *m, const int32_t *groups, int32_t n, sim_meeting *out)
{
    const sim_net *net = m->k->net;
    const int32_t mark = m->nmeetings + 1;
    int32_t count = 0, most = 0;
    for (int32_t i = 0; i < n; i++) most += net->set->groups[groups[i]].n;
    if (most > net->nlanes) most = net->nlanes;
    int32_t *lanes = LUO_NEW_N(m->k->arena, int32_t, most);
    if (!lanes) return luo_err_nomem(m->k->err);
    *out = (sim_meeting){0, lanes, -1};
    for (int32_t i = 0; i < n; i++) {
        const luo_group *g = &net->set->groups[groups[i]];
        for (int32_t d = 0; d < g->n; d++) {
            const int32_t lane = net->lane_of[g->dev[d]];
            if (lane < 0) out->missing_device = g->dev[d];
            if (lane < 0 || m->stamp[lane] == mark) continue;
            m->stamp[lane] = mark;
            lanes[count++] = lane;
        }
    }
    qsort(lanes, (size_t)count, sizeof *lanes, by_number);
    out->nlanes = count;
    return LUO_OK;
}

static int by_lane(const void *a, const void *b)
{
    const use *x = a, *y = b;
    if (x->lane != y->lane) return x->lane < y->lane ? -1 : 1;
    if (x->instr != y->instr) return x->instr < y->instr ? -1 : 1;
    return (x->group > y->group) - (x->group < y->group);
}

/* A group talks in the round in which the lane with most instructions before it calls it. Marks
 * what follows; round_of: per group. Uses are in by_lane order. Returns the number of rounds. */
static int32_t find_rounds(const meeter *m, const use *u, int32_t n, int32_t *round_of)
{
    int32_t rounds = 1, own = 0;
    for (int32_t i = 0; i < n; i++) {
        const bool same_lane = i > 0 && u[i].lane == u[i - 1].lane;
        if (!same_lane) own = 0;
        else if (u[i].instr != u[i - 1].instr) own++;
        cross_of(m, &u[i])->follows = own > 0;
        if (own > round_of[u[i].group]) round_of[u[i].group] = own;
        if (own + 1 > rounds) rounds = own + 1;
    }
    return rounds;
}

/* Traffic of every round for one instruction's bytes. */
static luo_status make_rounds(meeter *m, const luo_instr *in, const int32_t *groups, int32_t n,
                              int32_t rounds, sim_cross *cross)
{
    int32_t *id = LUO_NEW_N(m->k->arena, int32_t, rounds), *now;
    now = luo_arena_alloc(m->k->scratch, (size_t)n * sizeof *now);
    if (!id || !now) return luo_err_nomem(m->k->err);
    for (int32_t r = 0; r < rounds; r++) {
        int32_t count = 0;
        for (int32_t i = 0; i < n; i++)
            if (m->round_of[groups[i]] == r) now[count++] = groups[i];
        LUO_TRY(traffic_for(m, in, now, count, &id[r]));
    }
    cross->ntraffics = rounds;
    cross->traffic = id;
    return LUO_OK;
}

static luo_status make_meeting(meeter *m, use *u, int32_t n)
{
    int32_t *groups = luo_arena_alloc(m->k->scratch, (size_t)n * sizeof *groups), ngroups = 0;
    const sim_cross *last = NULL;
    int64_t last_bytes = 0;
    if (!groups) return luo_err_nomem(m->k->err);
    for (int32_t i = 0; i < n; i++)
        if (i == 0 || u[i].group != u[i - 1].group) groups[ngroups++] = u[i].group;
    LUO_TRY(sim_maker_room(m->k, &m->meetings, m->nmeetings, &m->room_meetings,
                           sizeof *m->meetings));
    LUO_TRY(find_lanes(m, groups, ngroups, &m->meetings[m->nmeetings]));
    if (n > 1) qsort(u, (size_t)n, sizeof *u, by_lane);
    const int32_t rounds = find_rounds(m, u, n, m->round_of);
    for (int32_t i = 0; i < n; i++) {
        sim_cross *cross = cross_of(m, &u[i]);
        const luo_instr *in = &m->k->net->lanes[u[i].lane].role->instr[u[i].instr];
        const int64_t bytes = sim_bytes(m->k->net, in, in->bytes);
        if (i > 0 && u[i].lane == u[i - 1].lane && u[i].instr == u[i - 1].instr) continue;
        cross->meeting = m->nmeetings;
        if (m->meetings[m->nmeetings].missing_device >= 0) continue;
        if (last && last_bytes == bytes) {
            cross->ntraffics = last->ntraffics;
            cross->traffic = last->traffic;
            continue;
        }
        LUO_TRY(make_rounds(m, in, groups, ngroups, rounds, cross));
        last = cross;
        last_bytes = bytes;
    }
    for (int32_t i = 0; i < ngroups; i++) m->round_of[groups[i]] = 0;
    m->nmeetings++;
    return LUO_OK;
}

static luo_status make_meetings(meeter *m)
{
    LUO_TRY(collect(m));
    if (m->nuses > 1) qsort(m->uses, (size_t)m->nuses, sizeof *m->uses, by_group);
    unite(m);
    if (m->nuses > 1) qsort(m->uses, (size_t)m->nuses, sizeof *m->uses, by_root);
    for (int32_t i = 0, n; i < m->nuses; i += n) {
        for (n = 1; i + n < m->nuses && m->uses[i + n].root == m->uses[i].root;) n++;
        LUO_TRY(make_meeting(m, m->uses + i, n));
    }
    sim_meeting *out = LUO_NEW_N(m->k->arena, sim_meeting, m->nmeetings);
    if (!out) return luo_err_nomem(m->k->err);
    if (m->nmeetings) memcpy(out, m->meetings, (size_t)m->nmeetings * sizeof *out);
    m->k->net->meetings = out;
    m->k->net->nmeetings = m->nmeetings;
    return LUO_OK;
}

luo_status sim_make_meetings(sim_maker *k)
{
    meeter m = {.k = k, .stamp = LUO_NEW_N(k->scratch, int32_t, k->net->nlanes),
                .round_of = LUO_NEW_N(k->scratch, int32_t, k->net->set->ngroups)};
    if (!m.stamp || !m.round_of) return luo_err_nomem(k->err);
    const luo_status st = make_meetings(&m);
    luo_map_free(&m.known_of);
    return st;
}
