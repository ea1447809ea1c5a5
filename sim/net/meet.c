/* meet.c: collectives of several classes.
 *
 * Groups that one instruction of a folded class uses side by side (one per member) are one
 * rendezvous: its classes start together when the last has arrived, and its flows are those of all
 * groups.
 *
 * Where tensor parallelism is uneven a device is in several groups of one exchange, called one
 * after another. Then a class has several instructions in one rendezvous. The first meets for all;
 * the groups talk in as many rounds as the class with most instructions has. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/cost/overlap.h"
#include "sim/net/traffic.h"

typedef struct use { /* of a group by a collective of a class */
    sim_key key;
    int32_t group, class, instr;
    int32_t root; /* a use of the same rendezvous; smallest at the end */
    const luo_slot *slot;
} use;

typedef struct known { /* calls of equal groups with equal bytes share their traffic */
    const luo_cost_call *calls;
    int32_t n, stream, traffic, next;
} known;

typedef struct meeter {
    sim_maker *k;
    use *uses;
    int32_t nuses, room_uses;
    sim_rendezvous *rendezvous_of;
    int32_t nrendezvous, room_rendezvous;
    known *list;
    int32_t nknown, room_known;
    luo_map known_of; /* hash -> last known of it */
    int32_t *stamp;    /* per class: rendezvous it was last seen in, + 1 */
    int32_t *round_of; /* per group, in the rendezvous at hand; else 0 */
} meeter;

static int by_group(const void *a, const void *b)
{
    const use *x = a, *y = b;
    const int order = sim_key_order(&x->key, &y->key);
    if (order) return order;
    if (x->group != y->group) return x->group < y->group ? -1 : 1;
    if (x->class != y->class) return x->class < y->class ? -1 : 1;
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
    for (int32_t l = 0; l < net->nclasses; l++) {
        const sim_class *class = &net->classes[l];
        for (int32_t i = 0; i < class->role->ninstr; i++) {
            const luo_instr *in = &class->role->instr[i];
            int32_t last = -1;
            if (class->ops[i].what != SIM_MEET) continue;
            for (int32_t d = 0; d < class->n; d++) {
                const luo_slot *slot = sim_slot(net, class, d, in);
                if (slot->group == last) continue;
                last = slot->group;
                LUO_TRY(sim_maker_room(m->k, &m->uses, m->nuses, &m->room_uses, sizeof *m->uses));
                m->uses[m->nuses++] = (use){sim_key_of(in), slot->group, l, i, 0, slot};
            }
        }
    }
    return LUO_OK;
}

static sim_cross *cross_of(const meeter *m, const use *u)
{
    const sim_class *class = &m->k->net->classes[u->class];
    return &class->cross[class->ops[u->instr].cross];
}

/* sim_cross.rendezvous holds, for a while, the first use of the instruction + 1. */
static void unite(meeter *m)
{
    use *u = m->uses;
    for (int32_t i = 0; i < m->nuses; i++) {
        sim_cross *cross = cross_of(m, &u[i]);
        u[i].root = i;
        if (i > 0 && u[i].group == u[i - 1].group && sim_key_order(&u[i].key, &u[i - 1].key) == 0)
            join(u, i - 1, i);
        if (cross->rendezvous > 0) join(u, cross->rendezvous - 1, i);
        else cross->rendezvous = i + 1;
    }
    for (int32_t i = 0; i < m->nuses; i++) u[i].root = root_of(u, i);
}

/* Nodes of the group and the least number of its devices on one; members[]: how many on each. */
static int32_t count_nodes(const sim_maker *maker, const int32_t *dev, int32_t n, int32_t *least)
{
    const luo_cluster *cluster = maker->net->config->cluster;
    int32_t nodes = 0;
    for (int32_t i = 0; i < n; i++) nodes += maker->members[cluster->devices[dev[i]].node]++ == 0;
    *least = n;
    for (int32_t i = 0; i < n; i++)
        if (maker->members[cluster->devices[dev[i]].node] < *least)
            *least = maker->members[cluster->devices[dev[i]].node];
    return nodes;
}

static luo_status add_part(sim_maker *maker, const luo_cost_call *call, const luo_cost_part *part,
                           double factor)
{
    const luo_cluster *cluster = maker->net->config->cluster;
    luo_flow *flow = NULL;
    int32_t n = 0, least = 0;
    LUO_TRY(luo_cost_flow(maker->flows, &maker->net->cost, part->coll, part->dev, call->n,
                          part->bytes, &flow, &n, maker->err));
    const int32_t nodes = count_nodes(maker, call->dev, call->n, &least);
    const bool all = part->coll == LUO_COLL_A2A;
    const double size = (double)part->bytes;
    /* What flows of luo_cost_flow would carry at efficiency 1. */
    const double inner = luo_cost_volume(part->coll, nodes > 1 ? nodes * least : call->n) * size;
    const double outer = luo_cost_volume(part->coll, nodes) * size / least / (all ? nodes - 1 : 1);
    luo_status st = LUO_OK;
    for (int32_t i = 0; st == LUO_OK && i < n; i++) {
        const int32_t node = cluster->devices[flow[i].src].node;
        const bool near = node == cluster->devices[flow[i].dst].node;
        const double latency = luo_cluster_path_latency(cluster, flow[i].src, flow[i].dst);
        const sim_message msg = {part->reversed ? flow[i].dst : flow[i].src,
                                 part->reversed ? flow[i].src : flow[i].dst, flow[i].bytes * factor,
                                 (flow[i].delay_s + latency) * factor,
                                 !near ? outer
                                 : all ? inner / (maker->members[node] - 1)
                                       : inner};
        st = sim_maker_message(maker, &msg);
    }
    for (int32_t i = 0; i < call->n; i++) maker->members[cluster->devices[call->dev[i]].node] = 0;
    return st;
}

static int by_ends(const void *a, const void *b)
{
    const sim_message *x = a, *y = b;
    if (x->src != y->src) return x->src < y->src ? -1 : 1;
    return (x->dst > y->dst) - (x->dst < y->dst);
}

/* Sums come out alike whatever sorts. */
static int by_ends_and_size(const void *a, const void *b)
{
    const sim_message *x = a, *y = b;
    const int order = by_ends(x, y);
    if (order) return order;
    if (x->bytes != y->bytes) return x->bytes < y->bytes ? -1 : 1;
    if (x->delay_s != y->delay_s) return x->delay_s < y->delay_s ? -1 : 1;
    return (x->payload > y->payload) - (x->payload < y->payload);
}

/* Parts follow each other: what goes the same way in several of them is one flow, as long as they
 * are together. */
static void merge_parts(sim_maker *maker, int32_t first)
{
    sim_message *at = maker->messages;
    int32_t n = first;
    qsort(at + first, (size_t)(maker->nmessages - first), sizeof *at, by_ends_and_size);
    for (int32_t i = first; i < maker->nmessages; i++) {
        if (n > first && by_ends(&at[n - 1], &at[i]) == 0) {
            at[n - 1].bytes += at[i].bytes;
            at[n - 1].delay_s += at[i].delay_s;
            at[n - 1].payload += at[i].payload;
        } else {
            at[n++] = at[i];
        }
    }
    maker->nmessages = n;
}

static luo_status add_flows(sim_maker *maker, const luo_cost_call *call, double factor)
{
    const int32_t first = maker->nmessages, parts = luo_cost_call_parts(call);
    int32_t *room = luo_arena_alloc(maker->scratch, (size_t)call->n * sizeof *room);
    if (!room) return luo_err_nomem(maker->err);
    for (int32_t i = 0; i < parts; i++) {
        const luo_cost_part part = luo_cost_call_part(call, i, room);
        luo_arena_reset(maker->flows, 0);
        LUO_TRY(add_part(maker, call, &part, factor));
    }
    if (parts > 1) merge_parts(maker, first);
    return LUO_OK;
}

static int by_value(const void *a, const void *b)
{
    const int32_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* Classes of the groups, each once. */
static luo_status carry(sim_maker *maker, const luo_cost_call *calls, int32_t n, double seconds,
                        sim_traffic *traffic)
{
    int32_t most = 0, count = 0;
    for (int32_t i = 0; i < n; i++) most += calls[i].n;
    int32_t *class = luo_arena_alloc(maker->scratch, (size_t)most * sizeof *class);
    if (!class) return luo_err_nomem(maker->err);
    for (int32_t i = 0, at = 0; i < n; i++)
        for (int32_t d = 0; d < calls[i].n; d++)
            class[at++] = maker->net->class_of[calls[i].dev[d]];
    qsort(class, (size_t)most, sizeof *class, by_value);
    for (int32_t i = 0; i < most; i++)
        if (count == 0 || class[i] != class[count - 1]) class[count++] = class[i];
    if (sim_net_threads(maker->arena, maker->net, class, count, seconds, traffic) != LUO_OK)
        return luo_err_nomem(maker->err);
    return LUO_OK;
}

static luo_status new_traffic(sim_maker *maker, const luo_instr *in, const luo_cost_call *calls,
                              int32_t n, int32_t *id)
{
    double seconds = 0;
    /* docs/cost-model.md#overlap */
    const double factor = luo_overlap_exposed_factor(maker->net->config->stack, in);
    int32_t steps = 1;
    for (int32_t i = 0; i < n; i++) {
        const double s = luo_cost_call_seconds(&maker->net->cost, &calls[i], 0);
        seconds = fmax(seconds, s * factor);
        LUO_TRY(add_flows(maker, &calls[i], factor));
        if (i == 0) steps = luo_cost_call_steps(&maker->net->cost, &calls[i]);
    }
    LUO_TRY(sim_maker_close(maker, seconds, steps, id));
    maker->traffics[*id].ring = steps > 1 && in->variant != LUO_COLL_GROUPED;
    return carry(maker, calls, n, seconds, &maker->traffics[*id]);
}

/* Calls of n groups by one instruction. */
static uint64_t hash_of(const luo_cost_call *calls, int32_t n)
{
    uint64_t h = LUO_HASH_EMPTY;
    for (int32_t i = 0; i < n; i++) {
        const luo_cost_call *call = &calls[i];
        const int64_t key[] = {call->n, call->dev[0], call->dev[call->n - 1], call->bytes};
        h = luo_hash_bytes(h, key, sizeof key);
    }
    return h;
}

static bool is_known(const known *t, const luo_instr *in, const luo_cost_call *calls, int32_t n)
{
    bool same = t->n == n && t->stream == in->stream;
    for (int32_t i = 0; same && i < n; i++) same = luo_cost_call_equal(&t->calls[i], &calls[i]);
    return same;
}

static luo_status traffic_for(meeter *m, const luo_instr *in, const luo_cost_call *calls, int32_t n,
                              int32_t *id)
{
    int64_t *last = luo_map_at(&m->known_of, hash_of(calls, n), -1);
    if (!last) return luo_err_nomem(m->k->err);
    for (int32_t i = (int32_t)*last; i >= 0; i = m->list[i].next)
        if (is_known(&m->list[i], in, calls, n)) {
            *id = m->list[i].traffic;
            return LUO_OK;
        }
    LUO_TRY(new_traffic(m->k, in, calls, n, id));
    luo_cost_call *copy = luo_arena_alloc(m->k->scratch, (size_t)n * sizeof *copy);
    if (!copy) return luo_err_nomem(m->k->err);
    memcpy(copy, calls, (size_t)n * sizeof *copy);
    LUO_TRY(sim_maker_room(m->k, &m->list, m->nknown, &m->room_known, sizeof *m->list));
    m->list[m->nknown] = (known){copy, n, in->stream, *id, (int32_t)*last};
    *last = m->nknown++;
    return LUO_OK;
}

/* Classes of the groups, in order of first appearance, then ascending; a device without program. */
static int by_number(const void *a, const void *b)
{
    const int32_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static luo_status find_classes(meeter *m, const luo_slot *const *slots, int32_t n,
                               sim_rendezvous *out)
{
    const sim_net *net = m->k->net;
    const int32_t mark = m->nrendezvous + 1;
    int32_t count = 0, most = 0;
    for (int32_t i = 0; i < n; i++) most += net->set->groups[slots[i]->group].n;
    if (most > net->nclasses) most = net->nclasses;
    int32_t *classes = LUO_NEW_N(m->k->arena, int32_t, most);
    if (!classes) return luo_err_nomem(m->k->err);
    *out = (sim_rendezvous){0, classes, -1};
    for (int32_t i = 0; i < n; i++) {
        const luo_group *group = &net->set->groups[slots[i]->group];
        for (int32_t d = 0; d < group->n; d++) {
            const int32_t class = net->class_of[group->dev[d]];
            if (class < 0) out->missing_device = group->dev[d];
            if (class < 0 || m->stamp[class] == mark) continue;
            m->stamp[class] = mark;
            classes[count++] = class;
        }
    }
    qsort(classes, (size_t)count, sizeof *classes, by_number);
    out->nclasses = count;
    return LUO_OK;
}

static int by_class(const void *a, const void *b)
{
    const use *x = a, *y = b;
    if (x->class != y->class) return x->class < y->class ? -1 : 1;
    if (x->instr != y->instr) return x->instr < y->instr ? -1 : 1;
    return (x->group > y->group) - (x->group < y->group);
}

static int32_t segment_of(const meeter *m, const use *u)
{
    const luo_role *role = m->k->net->classes[u->class].role;
    int32_t s = 0;
    while (s < role->nseg && u->instr >= role->seg[s].first + role->seg[s].n) s++;
    return s;
}

/* A group talks in the round in which the class with most instructions before it calls it, in one
 * segment: those of others are for micro-batches of other lengths. Marks what follows; round_of:
 * per group. Uses are in by_class order. Returns the number of rounds. */
static int32_t find_rounds(const meeter *m, const use *u, int32_t n, int32_t *round_of)
{
    int32_t rounds = 1, own = 0;
    for (int32_t i = 0; i < n; i++) {
        const bool same_class = i > 0 && u[i].class == u[i - 1].class;
        const bool same_instr = same_class && u[i].instr == u[i - 1].instr;
        if (!same_class || segment_of(m, &u[i]) != segment_of(m, &u[i - 1])) own = 0;
        else if (!same_instr) own++;
        cross_of(m, &u[i])->follows = own > 0;
        if (own > round_of[u[i].group]) round_of[u[i].group] = own;
        if (own + 1 > rounds) rounds = own + 1;
    }
    return rounds;
}

/* Traffic of every round for one instruction's bytes. */
static luo_status make_rounds(meeter *m, const luo_instr *in, const luo_slot *const *slots,
                              int32_t n, int32_t rounds, sim_cross *cross)
{
    int32_t *id = LUO_NEW_N(m->k->arena, int32_t, rounds);
    luo_cost_call *now = luo_arena_alloc(m->k->scratch, (size_t)n * sizeof *now);
    if (!id || !now) return luo_err_nomem(m->k->err);
    for (int32_t r = 0; r < rounds; r++) {
        int32_t count = 0;
        for (int32_t i = 0; i < n; i++)
            if (m->round_of[slots[i]->group] == r) now[count++] = sim_call(m->k->net, in, slots[i]);
        LUO_TRY(traffic_for(m, in, now, count, &id[r]));
    }
    cross->ntraffics = rounds;
    cross->traffic = id;
    return LUO_OK;
}

static luo_status make_rendezvous(meeter *m, use *u, int32_t n)
{
    const luo_slot **slots = luo_arena_alloc(m->k->scratch, (size_t)n * sizeof *slots);
    int32_t ngroups = 0;
    const sim_cross *last = NULL;
    int64_t last_bytes = 0;
    if (!slots) return luo_err_nomem(m->k->err);
    for (int32_t i = 0; i < n; i++)
        if (i == 0 || u[i].group != u[i - 1].group) slots[ngroups++] = u[i].slot;
    LUO_TRY(sim_maker_room(m->k, &m->rendezvous_of, m->nrendezvous, &m->room_rendezvous,
                           sizeof *m->rendezvous_of));
    LUO_TRY(find_classes(m, slots, ngroups, &m->rendezvous_of[m->nrendezvous]));
    if (n > 1) qsort(u, (size_t)n, sizeof *u, by_class);
    const int32_t rounds = find_rounds(m, u, n, m->round_of);
    for (int32_t i = 0; i < n; i++) {
        sim_cross *cross = cross_of(m, &u[i]);
        const luo_instr *in = &m->k->net->classes[u[i].class].role->instr[u[i].instr];
        const int64_t bytes = sim_bytes(m->k->net, in, in->bytes);
        if (i > 0 && u[i].class == u[i - 1].class && u[i].instr == u[i - 1].instr) continue;
        cross->rendezvous = m->nrendezvous;
        if (m->rendezvous_of[m->nrendezvous].missing_device >= 0) continue;
        if (last && last_bytes == bytes) {
            cross->ntraffics = last->ntraffics;
            cross->traffic = last->traffic;
            continue;
        }
        LUO_TRY(make_rounds(m, in, slots, ngroups, rounds, cross));
        last = cross;
        last_bytes = bytes;
    }
    for (int32_t i = 0; i < ngroups; i++) m->round_of[slots[i]->group] = 0;
    m->nrendezvous++;
    return LUO_OK;
}

static luo_status make_all_rendezvous(meeter *m)
{
    LUO_TRY(collect(m));
    if (m->nuses > 1) qsort(m->uses, (size_t)m->nuses, sizeof *m->uses, by_group);
    unite(m);
    if (m->nuses > 1) qsort(m->uses, (size_t)m->nuses, sizeof *m->uses, by_root);
    for (int32_t i = 0, n; i < m->nuses; i += n) {
        for (n = 1; i + n < m->nuses && m->uses[i + n].root == m->uses[i].root;) n++;
        LUO_TRY(make_rendezvous(m, m->uses + i, n));
    }
    sim_rendezvous *out = LUO_NEW_N(m->k->arena, sim_rendezvous, m->nrendezvous);
    if (!out) return luo_err_nomem(m->k->err);
    if (m->nrendezvous) memcpy(out, m->rendezvous_of, (size_t)m->nrendezvous * sizeof *out);
    m->k->net->rendezvous_of = out;
    m->k->net->nrendezvous = m->nrendezvous;
    return LUO_OK;
}

luo_status sim_make_rendezvous(sim_maker *maker)
{
    meeter m = {.k = maker,
                .stamp = LUO_NEW_N(maker->scratch, int32_t, maker->net->nclasses),
                .round_of = LUO_NEW_N(maker->scratch, int32_t, maker->net->set->ngroups)};
    if (!m.stamp || !m.round_of) return luo_err_nomem(maker->err);
    const luo_status st = make_all_rendezvous(&m);
    luo_map_free(&m.known_of);
    return st;
}
