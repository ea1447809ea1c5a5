/* Flow form of a collective (docs/cost-model.md#three-fidelities); the reasoning stands in
 * cost.h. */
#include <math.h>
#include <stdlib.h>

#include "core/base/vec.h"
#include "core/cost/collective.h"

typedef struct maker {
    luo_arena *arena;
    const luo_cost_ctx *ctx;
    const luo_cluster *c;
    int coll;
    double bytes;
    int32_t root; /* device; -1 unless broadcast */
    luo_spread spread;
    luo_net_algorithm algorithm; /* between nodes: the one that luo_cost_group takes */
    int32_t nodes;
    luo_members *at; /* in ring order */
    luo_flow *flows;
    int32_t n, room;
    luo_err *err;
} maker;

static int by_place(const void *a, const void *b, const luo_cluster *cluster)
{
    const luo_node *x = &cluster->nodes[((const luo_members *)a)->node];
    const luo_node *y = &cluster->nodes[((const luo_members *)b)->node];
    if (x->site != y->site) return x->site < y->site ? -1 : 1;
    if (x->rack != y->rack) return x->rack < y->rack ? -1 : 1;
    return x < y ? -1 : x > y;
}

/* Heap sort: qsort has no context and core no globals. */
static void sift(luo_members *members, int32_t at, int32_t n, const luo_cluster *cluster)
{
    for (int32_t child; (child = 2 * at + 1) < n; at = child) {
        if (child + 1 < n && by_place(&members[child], &members[child + 1], cluster) < 0) child++;
        if (by_place(&members[at], &members[child], cluster) >= 0) return;
        const luo_members t = members[at];
        members[at] = members[child];
        members[child] = t;
    }
}

static void sort_nodes(luo_members *members, int32_t n, const luo_cluster *cluster)
{
    for (int32_t i = n / 2 - 1; i >= 0; i--) sift(members, i, n, cluster);
    for (int32_t i = n - 1; i > 0; i--) {
        const luo_members t = members[0];
        members[0] = members[i];
        members[i] = t;
        sift(members, 0, i, cluster);
    }
}

static luo_status add(maker *k, int32_t src, int32_t dst, double bytes, double delay)
{
    if (!LUO_VEC_ROOM_IN(k->arena, k->flows, k->n, k->room)) return luo_err_nomem(k->err);
    k->flows[k->n++] = (luo_flow){src, dst, bytes, delay};
    return LUO_OK;
}

typedef struct load {
    int32_t link; /* 2*link + direction */
    double seconds_per_byte;
} load;

static int by_link(const void *a, const void *b)
{
    const load *x = a, *y = b;
    return (x->link > y->link) - (x->link < y->link);
}

/* Seconds per byte of the most loaded link when each flow carries one byte. */
static luo_status unit_seconds(maker *k, const luo_flow *flow, int32_t n, double *out)
{
    const size_t mark = luo_arena_mark(k->arena);
    load *loads = LUO_NEW_N(k->arena, load, (size_t)n * LUO_PATH_MAX);
    if (!loads) return luo_err_nomem(k->err);
    size_t count = 0;
    for (int32_t i = 0; i < n; i++) {
        luo_hop hops[LUO_PATH_MAX];
        const int32_t len = luo_cluster_path(k->c, flow[i].src, flow[i].dst, hops);
        for (int32_t h = 0; h < len; h++)
            loads[count++] = (load){2 * hops[h].link + hops[h].up,
                                    1 / k->c->links[hops[h].link].bytes_per_s};
    }
    qsort(loads, count, sizeof *loads, by_link);
    double worst = 0, sum = 0;
    for (size_t i = 0; i < count; i++) {
        sum = i && loads[i].link == loads[i - 1].link ? sum + loads[i].seconds_per_byte
                                                      : loads[i].seconds_per_byte;
        worst = fmax(worst, sum);
    }
    luo_arena_reset(k->arena, mark);
    *out = worst;
    return LUO_OK;
}

/* Position in ring order where a chain begins: the root's, or 0. */
static int32_t chain_start(const maker *k, const luo_members *members)
{
    for (int32_t i = 0; i < members->n; i++)
        if (luo_members_device(k->c, members, i) == k->root) return i;
    return 0;
}

static luo_status add_inside_edges(maker *k, const luo_members *members)
{
    const int32_t first = k->coll == LUO_COLL_BCAST ? chain_start(k, members) : 0;
    const int32_t edges = k->coll == LUO_COLL_BCAST ? members->n - 1 : members->n;
    for (int32_t i = 0; i < edges; i++) {
        const int32_t a = luo_members_device(k->c, members, (first + i) % members->n);
        const int32_t reach = k->coll == LUO_COLL_A2A ? members->n - 1 : 1;
        for (int32_t d = 1; d <= reach; d++)
            LUO_TRY(
                add(k, a, luo_members_device(k->c, members, (first + i + d) % members->n), 0, 0));
    }
    return LUO_OK;
}

/* total: the closed form's time; large: the part of it that large messages need. */
static luo_status inside(maker *k, const luo_members *members, double total, double large)
{
    const int32_t first = k->n;
    double unit = 0;
    LUO_TRY(add_inside_edges(k, members));
    LUO_TRY(unit_seconds(k, k->flows + first, k->n - first, &unit));
    for (luo_flow *flow = k->flows + first; flow < k->flows + k->n; flow++) {
        const double latency = luo_cluster_path_latency(k->c, flow->src, flow->dst);
        const double carried = fmin(large, fmax(0, total - latency));
        flow->bytes = carried / unit;
        flow->delay_s = fmax(0, total - carried - latency);
    }
    return LUO_OK;
}

static luo_status all_inside(maker *k)
{
    const int32_t least = k->nodes > 1 ? k->spread.least : k->at[0].n;
    if (least < 2) return LUO_OK;
    const double volume = luo_cost_volume(k->coll, k->nodes * least);
    for (int32_t i = 0; i < k->nodes; i++) {
        const luo_busbw busbw = luo_busbw_of_node(k->ctx, k->coll, &k->at[i], least, k->bytes);
        LUO_TRY(inside(k, &k->at[i], volume * k->bytes / busbw.at_size,
                       volume * k->bytes / busbw.largest));
    }
    return LUO_OK;
}

/* NIC of the sender and of the receiver get one flow more; how loaded are they then? */
static int32_t nic_load(const maker *k, int32_t a, int32_t b, const int32_t out[64],
                        const int32_t in[64])
{
    const int32_t na = luo_cluster_nic(k->c, a, b) % 64, nb = luo_cluster_nic(k->c, b, a) % 64;
    return out[na] > in[nb] ? out[na] : in[nb];
}

/* Lane i goes from member i to member i, but where NICs are chosen by both slots (`shared`) to the
 * member that loads them least, the next one on ties. */
static void pick_lanes(const maker *k, const luo_members *a, const luo_members *b, int32_t *to)
{
    const luo_node_group *ga = &k->c->groups[k->c->nodes[a->node].group];
    const luo_node_group *gb = &k->c->groups[k->c->nodes[b->node].group];
    const int32_t n = k->spread.least;
    int32_t out[64] = {0}, in[64] = {0};
    bool used[64] = {false};
    for (int32_t i = 0; i < n; i++) {
        const int32_t src = luo_members_device(k->c, a, i);
        int32_t best = 0, least = INT32_MAX;
        for (int32_t d = 0; d < n; d++) {
            const int32_t j = (i + d) % n;
            if (used[j] || (least < INT32_MAX && !ga->nic_shared && !gb->nic_shared)) continue;
            const int32_t busy = nic_load(k, src, luo_members_device(k->c, b, j), out, in);
            if (busy < least) {
                least = busy;
                best = j;
            }
        }
        const int32_t dst = luo_members_device(k->c, b, best);
        out[luo_cluster_nic(k->c, src, dst) % 64]++;
        in[luo_cluster_nic(k->c, dst, src) % 64]++;
        used[best] = true;
        to[i] = dst;
    }
}

/* Delay and bandwidth seconds of an edge: it is as slow as the slower of its nodes. Uplinks and
 * lines are links of the flows, so they bound no node here; their latency stays in the delay. */
static luo_net edge_net(const maker *k, const luo_members *a, const luo_members *b)
{
    const luo_members *ends[2] = {a, b};
    luo_spread free = k->spread;
    double total = 0, seconds = 0;
    free.bytes_per_s = HUGE_VAL;
    for (int i = 0; i < 2; i++) {
        const luo_node_group *group = &k->c->groups[k->c->nodes[ends[i]->node].group];
        const luo_net net =
            luo_net_of_node(k->ctx, k->coll, &free, ends[i], k->bytes, k->algorithm);
        const double alone = net.seconds * group->devices_per_node / free.least;
        seconds = fmax(seconds, alone);
        total = fmax(total, net.delay_s + alone);
    }
    return (luo_net){total - seconds, seconds};
}

static luo_status between(maker *k, const luo_members *a, const luo_members *b)
{
    const luo_node_group *ga = &k->c->groups[k->c->nodes[a->node].group];
    const luo_node_group *gb = &k->c->groups[k->c->nodes[b->node].group];
    const luo_net net = edge_net(k, a, b);
    double lane = fmin(luo_net_lane_bytes_per_s(ga), luo_net_lane_bytes_per_s(gb));
    if (k->coll == LUO_COLL_A2A) lane /= k->nodes - 1;
    int32_t to[64] = {0};
    pick_lanes(k, a, b, to);
    for (int32_t i = 0; i < k->spread.least; i++) {
        const int32_t src = luo_members_device(k->c, a, i);
        const double latency = luo_cluster_path_latency(k->c, src, to[i]);
        const double total = net.delay_s + net.seconds;
        const double carried = fmin(net.seconds, fmax(0, total - latency));
        LUO_TRY(add(k, src, to[i], carried * lane, fmax(0, total - carried - latency)));
    }
    return LUO_OK;
}

static luo_status all_between(maker *k)
{
    if (k->nodes < 2) return LUO_OK;
    luo_net_times ways = {{0}};
    for (int32_t i = 0; i < k->nodes; i++)
        luo_net_times_add(&ways, k->ctx, k->coll, &k->spread, &k->at[i], k->bytes, 0);
    k->algorithm = luo_net_times_best(&ways);
    int32_t first = 0;
    for (int32_t i = 0; i < k->nodes && k->coll == LUO_COLL_BCAST; i++)
        if (k->c->devices[k->root].node == k->at[i].node) first = i;
    const int32_t edges = k->coll == LUO_COLL_BCAST ? k->nodes - 1 : k->nodes;
    const int32_t reach = k->coll == LUO_COLL_A2A ? k->nodes - 1 : 1;
    for (int32_t i = 0; i < edges; i++)
        for (int32_t d = 1; d <= reach; d++)
            LUO_TRY(between(k, &k->at[(first + i) % k->nodes], &k->at[(first + i + d) % k->nodes]));
    return LUO_OK;
}

luo_status luo_cost_flow(luo_arena *arena, const luo_cost_ctx *ctx, int coll, const int32_t *dev,
                         int32_t n, int64_t bytes, luo_flow **flows, int32_t *nflows, luo_err *err)
{
    *flows = NULL;
    *nflows = 0;
    if (n < 2 || bytes <= 0) return LUO_OK;
    maker k = {.arena = arena,
               .ctx = ctx,
               .c = ctx->cluster,
               .coll = coll,
               .bytes = (double)bytes,
               .root = coll == LUO_COLL_BCAST ? dev[0] : -1,
               .err = err,
               .spread = luo_spread_of(ctx->cluster, dev, n)};
    k.at = LUO_NEW_N(arena, luo_members, k.spread.nodes);
    if (!k.at) return luo_err_nomem(err);
    luo_member_walk walk = luo_members_of(k.c, dev, n);
    while (luo_members_next(&walk, &k.at[k.nodes])) k.nodes++;
    sort_nodes(k.at, k.nodes, k.c);
    LUO_TRY(all_inside(&k));
    LUO_TRY(all_between(&k));
    *flows = k.flows;
    *nflows = k.n;
    return LUO_OK;
}
