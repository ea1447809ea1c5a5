/* wires.c: from messages between devices to flows between classes.
 *
 * The messages of one class to another usually load parallel links (the NICs of a node) evenly;
 * they become one flow over a bundle of those links. A bundle is used only if all traffic that
 * touches one of its links uses exactly that bundle, else contention on the link would be missed
 * (so none that other program sets send over is in a bundle);
 * then every path has a flow of its own. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/hash.h"
#include "sim/net/net.h"

typedef struct path {
    const sim_message *message;
    int32_t src, dst; /* classes */
    int32_t n;
    int32_t hop[LUO_PATH_MAX + 1];
} path;

typedef struct hop_set {
    int32_t n, wire; /* wire -1: none yet */
    const int32_t *hop;
    bool broken;
} hop_set;

/* Messages of one traffic between one pair of classes. */
typedef struct bunch {
    int32_t first, n; /* in paths */
    int32_t traffic;
    bool whole; /* one flow over bundles */
    int32_t set[LUO_PATH_MAX + 1];
} bunch;

struct sim_router {
    luo_arena *arena;
    const sim_net *net;
    const luo_cluster *c;
    path *paths;
    bunch *bunches;
    hop_set *sets;
    int32_t npaths, nbunches, nsets, ntraffics, room_paths, room_bunches, room_sets;
    luo_map set_of; /* hash of ways -> set */
    int32_t *owner; /* per way: set that has it; -1: none */
    int32_t *wire_of; /* per way: wire of it alone */
    sim_wire *wires;
    int32_t nwires;
    struct hop_load *load; /* work space of even_set */
    int32_t *hop;
    int32_t room_load, room_hop;
};

sim_router *sim_router_new(luo_arena *scratch, const sim_net *net)
{
    sim_router *router = LUO_NEW(scratch, sim_router);
    if (!router) return NULL;
    router->arena = scratch;
    router->net = net;
    router->c = net->config->cluster;
    const int32_t hops = 2 * router->c->nlinks;
    router->owner = LUO_NEW_N(scratch, int32_t, hops);
    router->wire_of = LUO_NEW_N(scratch, int32_t, hops);
    if (!router->owner || !router->wire_of) return NULL;
    for (int32_t w = 0; w < hops; w++) router->owner[w] = router->wire_of[w] = -1;
    return router;
}

static void *more(sim_router *router, void *at, int32_t n, int32_t *room, size_t bytes)
{
    if (n < *room) return at;
    const int32_t next = n < 128 ? 256 : 2 * n;
    at = luo_arena_grow(router->arena, at, (size_t)*room * bytes, (size_t)next * bytes);
    *room = next;
    return at;
}

static double hop_bytes_per_s(const luo_cluster *cluster, int32_t hop)
{
    const luo_link *link = &cluster->links[hop / 2];
    if (link->kind == LUO_LINK_STORAGE && hop % 2 == 0) return link->down_bytes_per_s;
    return link->bytes_per_s;
}

/* Ways of a message to or from the storage: PCIe, NIC, uplink, storage (docs/formats.md). */
static int32_t storage_path(const luo_cluster *cluster, int32_t dev, bool away, int32_t *hop)
{
    const luo_device *device = &cluster->devices[dev];
    const luo_node *node = &cluster->nodes[device->node];
    const int32_t nic = luo_cluster_nic(cluster, dev, dev), up = away ? 1 : 0;
    int32_t links[4], n = 0;
    if (cluster->groups[device->group].has_pcie && nic >= 0) links[n++] = node->pcie + device->slot;
    if (nic >= 0) links[n++] = node->nic + nic;
    if (cluster->fabric != LUO_FABRIC_SINGLE && cluster->uplinks[node->rack] >= 0)
        links[n++] = cluster->uplinks[node->rack] +
                     (cluster->fabric == LUO_FABRIC_RAIL && nic > 0 ? nic : 0);
    if (cluster->storage >= 0) links[n++] = cluster->storage;
    for (int32_t i = 0; i < n; i++) hop[i] = 2 * links[away ? i : n - 1 - i] + up;
    return n;
}

static void find_path(const sim_router *router, const sim_message *message, path *p)
{
    *p = (path){.message = message};
    if (message->src < 0 || message->dst < 0) {
        const int32_t dev = message->src < 0 ? message->dst : message->src;
        p->src = p->dst = router->net->class_of[dev];
        p->n = storage_path(router->c, dev, message->dst < 0, p->hop);
    } else {
        luo_hop hops[LUO_PATH_MAX];
        p->src = router->net->class_of[message->src];
        p->dst = router->net->class_of[message->dst];
        p->n = luo_cluster_path(router->c, message->src, message->dst, hops);
        for (int32_t i = 0; i < p->n; i++) p->hop[i] = 2 * hops[i].link + hops[i].up;
    }
    int32_t kept = 0; /* an unlimited storage is no wire */
    for (int32_t i = 0; i < p->n; i++)
        if (hop_bytes_per_s(router->c, p->hop[i]) > 0) p->hop[kept++] = p->hop[i];
    p->n = kept;
}

static int by_class(const void *a, const void *b)
{
    const path *x = a, *y = b;
    if (x->src != y->src) return x->src < y->src ? -1 : 1;
    if (x->dst != y->dst) return x->dst < y->dst ? -1 : 1;
    return (x->message > y->message) - (x->message < y->message); /* of one array: its order */
}

/* ---- bundles ---- */

static int32_t set_of_hops(sim_router *router, const int32_t *hop, int32_t n)
{
    const uint64_t key = luo_hash_bytes(LUO_HASH_EMPTY, hop, (size_t)n * sizeof *hop);
    for (uint64_t k = key;; k++) { /* another set of the same hash takes the next key */
        int64_t *slot = luo_map_at(&router->set_of, k, -1);
        if (!slot) return -1;
        if (*slot >= 0) {
            const hop_set *set = &router->sets[*slot];
            if (set->n == n && memcmp(set->hop, hop, (size_t)n * sizeof *hop) == 0)
                return (int32_t)*slot;
            continue;
        }
        *slot = router->nsets;
        router->sets =
            more(router, router->sets, router->nsets, &router->room_sets, sizeof *router->sets);
        int32_t *copy = luo_arena_alloc(router->arena, (size_t)n * sizeof *copy);
        if (!router->sets || !copy) return -1;
        memcpy(copy, hop, (size_t)n * sizeof *copy);
        router->sets[router->nsets] = (hop_set){n, -1, copy, false};
        return router->nsets++;
    }
}

static void break_set(hop_set *set)
{
    if (set->n > 1) set->broken = true; /* a single way is always a wire */
}

static void claim(sim_router *router, int32_t set)
{
    hop_set *s = &router->sets[set];
    for (int32_t i = 0; i < s->n; i++) {
        const int32_t before = router->owner[s->hop[i]];
        if (router->net->sharing && router->net->sharing->hop[s->hop[i]]) break_set(s);
        if (before < 0) router->owner[s->hop[i]] = set;
        if (before < 0 || before == set) continue;
        break_set(s);
        break_set(&router->sets[before]);
    }
}

typedef struct hop_load {
    int32_t hop;
    double seconds;
} hop_load;

static int by_hop(const void *a, const void *b)
{
    const hop_load *x = a, *y = b;
    return (x->hop > y->hop) - (x->hop < y->hop);
}

/* The set of ways at hop `h` of the paths, or -1: uneven loads, -2: out of memory. */
static int32_t even_set(sim_router *router, const path *p, int32_t n, int32_t h)
{
    router->load = more(router, router->load, n, &router->room_load, sizeof *router->load);
    router->hop = more(router, router->hop, n, &router->room_hop, sizeof *router->hop);
    if (!router->load || !router->hop) return -2;
    hop_load *load = router->load;
    int32_t *hop = router->hop, m = 0;
    for (int32_t i = 0; i < n; i++)
        load[i] =
            (hop_load){p[i].hop[h], p[i].message->bytes / hop_bytes_per_s(router->c, p[i].hop[h])};
    qsort(load, (size_t)n, sizeof *load, by_hop);
    for (int32_t i = 0; i < n; i++) {
        if (m == 0 || load[m - 1].hop != load[i].hop) load[m++] = load[i];
        else load[m - 1].seconds += load[i].seconds;
    }
    bool even = true;
    for (int32_t i = 0; i < m; i++) {
        hop[i] = load[i].hop;
        even = even && fabs(load[i].seconds - load[0].seconds) <= 1e-9 * load[0].seconds;
    }
    if (!even) return -1;
    const int32_t set = set_of_hops(router, hop, m);
    return set < 0 ? -2 : set;
}

static bool alike(const sim_router *router, const path *p, int32_t n)
{
    for (int32_t i = 1; i < n; i++) {
        if (p[i].n != p[0].n) return false;
        if (fabs(p[i].message->delay_s - p[0].message->delay_s) > 1e-12) return false;
        for (int32_t h = 0; h < p[0].n; h++)
            if (router->c->links[p[i].hop[h] / 2].kind != router->c->links[p[0].hop[h] / 2].kind ||
                p[i].hop[h] % 2 != p[0].hop[h] % 2)
                return false;
    }
    return true;
}

static luo_status find_sets(sim_router *router, bunch *b)
{
    const path *p = router->paths + b->first;
    b->whole = alike(router, p, b->n);
    for (int32_t h = 0; b->whole && h < p[0].n; h++) {
        b->set[h] = even_set(router, p, b->n, h);
        if (b->set[h] == -2) return LUO_ENOMEM;
        if (b->set[h] < 0) b->whole = false;
    }
    for (int32_t h = 0; b->whole && h < p[0].n; h++) claim(router, b->set[h]);
    return LUO_OK;
}

luo_status sim_router_add(sim_router *router, const sim_message *message, int32_t n, int32_t *id)
{
    sim_message *copy = luo_arena_alloc(router->arena, (size_t)n * sizeof *copy);
    if (!copy) return LUO_ENOMEM;
    if (n > 0) memcpy(copy, message, (size_t)n * sizeof *copy);
    const int32_t first = router->npaths;
    for (int32_t i = 0; i < n; i++) {
        router->paths =
            more(router, router->paths, router->npaths, &router->room_paths, sizeof *router->paths);
        if (!router->paths) return LUO_ENOMEM;
        find_path(router, &copy[i], &router->paths[router->npaths++]);
    }
    if (n > 1) qsort(router->paths + first, (size_t)n, sizeof *router->paths, by_class);
    for (int32_t i = first; i < router->npaths;) {
        bunch b = {.first = i, .traffic = router->ntraffics};
        for (; i < router->npaths && router->paths[i].src == router->paths[b.first].src &&
               router->paths[i].dst == router->paths[b.first].dst;
             i++)
            b.n++;
        router->bunches = more(router, router->bunches, router->nbunches, &router->room_bunches,
                               sizeof *router->bunches);
        if (!router->bunches) return LUO_ENOMEM;
        LUO_TRY(find_sets(router, &b));
        router->bunches[router->nbunches++] = b;
    }
    *id = router->ntraffics++;
    return LUO_OK;
}

/* A bunch that cannot use one of its bundles uses none, and so takes its links from other bundles:
 * repeated until nothing changes. */
static void settle(sim_router *router)
{
    for (int32_t b = 0; b < router->nbunches; b++) {
        const path *p = router->paths + router->bunches[b].first;
        for (int32_t i = 0; !router->bunches[b].whole && i < router->bunches[b].n; i++)
            for (int32_t h = 0; h < p[i].n; h++)
                if (router->owner[p[i].hop[h]] >= 0)
                    break_set(&router->sets[router->owner[p[i].hop[h]]]);
    }
    for (bool changed = true; changed;) {
        changed = false;
        for (int32_t b = 0; b < router->nbunches; b++) {
            bunch *at = &router->bunches[b];
            const int32_t hops = router->paths[at->first].n;
            bool broken = false;
            for (int32_t h = 0; at->whole && h < hops; h++)
                broken = broken || router->sets[at->set[h]].broken;
            if (!broken) continue;
            at->whole = false;
            changed = true;
            for (int32_t h = 0; h < hops; h++) break_set(&router->sets[at->set[h]]);
        }
    }
}

/* ---- flows ---- */

static int32_t new_wire(sim_router *router, const int32_t *hop, int32_t n)
{
    sim_wire *wire = &router->wires[router->nwires];
    *wire = (sim_wire){n, hop, 0};
    for (int32_t i = 0; i < n; i++) wire->bytes_per_s += hop_bytes_per_s(router->c, hop[i]);
    return router->nwires++;
}

static int32_t wire_of_hop(sim_router *router, const int32_t *hop)
{
    if (router->wire_of[*hop] < 0) router->wire_of[*hop] = new_wire(router, hop, 1);
    return router->wire_of[*hop];
}

static int32_t wire_of_set(sim_router *router, hop_set *set)
{
    if (set->n == 1) return wire_of_hop(router, set->hop);
    if (set->wire < 0) set->wire = new_wire(router, set->hop, set->n);
    return set->wire;
}

static void emit(sim_router *router, const bunch *b, const path *p, int32_t n, int32_t *wire,
                 sim_flow *flow)
{
    *flow = (sim_flow){p->src, p->dst, p->n, wire, 0, 0};
    for (int32_t h = 0; h < p->n; h++)
        wire[h] = b->whole ? wire_of_set(router, &router->sets[b->set[h]])
                           : wire_of_hop(router, &p->hop[h]);
    for (int32_t i = 0; i < n; i++) {
        flow->bytes += p[i].message->bytes;
        flow->delay_s = fmax(flow->delay_s, p[i].message->delay_s);
    }
}

static int by_hops(const void *a, const void *b)
{
    const path *x = a, *y = b;
    const int order = memcmp(x->hop, y->hop, sizeof x->hop);
    return order ? order : by_class(a, b);
}

/* Number of leading paths that are the same; paths are in by_hops order. */
static int32_t run_of(const path *p, int32_t n)
{
    int32_t k = 1;
    while (k < n && memcmp(p[k].hop, p[0].hop, sizeof p->hop) == 0) k++;
    return k;
}

static luo_status write_bunch(sim_router *router, luo_arena *arena, const bunch *b, sim_flow *flows,
                              int32_t *nflows)
{
    path *p = router->paths + b->first;
    if (!b->whole) qsort(p, (size_t)b->n, sizeof *p, by_hops);
    for (int32_t i = 0; i < b->n;) {
        const int32_t n = b->whole ? b->n : run_of(p + i, b->n - i);
        int32_t *wire = luo_arena_alloc(arena, (size_t)p[i].n * sizeof *wire);
        if (!wire) return LUO_ENOMEM;
        emit(router, b, p + i, n, wire, &flows[(*nflows)++]);
        i += n;
    }
    return LUO_OK;
}

static luo_status write_loads(sim_router *router, luo_arena *arena, const path *p, int32_t n,
                              sim_traffic *traffic)
{
    const size_t mark = luo_arena_mark(router->arena);
    hop_load *load = luo_arena_alloc(router->arena, (size_t)n * (LUO_PATH_MAX + 1) * sizeof *load);
    size_t count = 0, m = 0;
    if (!load) return LUO_ENOMEM;
    for (int32_t i = 0; i < n; i++)
        for (int32_t h = 0; h < p[i].n; h++)
            load[count++] = (hop_load){p[i].hop[h], p[i].message->payload};
    qsort(load, count, sizeof *load, by_hop);
    for (size_t i = 0; i < count; i++) {
        if (m == 0 || load[m - 1].hop != load[i].hop) load[m++] = load[i];
        else load[m - 1].seconds += load[i].seconds;
    }
    sim_load *out = luo_arena_alloc(arena, m * sizeof *out);
    if (!out) return LUO_ENOMEM;
    for (size_t i = 0; i < m; i++) out[i] = (sim_load){load[i].hop, load[i].seconds};
    traffic->loads = out;
    traffic->nloads = (int32_t)m;
    luo_arena_reset(router->arena, mark);
    return LUO_OK;
}

/* Who drives the flows starts them in this order. Stable; they come in few runs of equal delay. */
static void sort_by_delay(sim_flow *flow, int32_t n)
{
    for (int32_t i = 1; i < n; i++) {
        const sim_flow t = flow[i];
        int32_t at = i;
        for (; at > 0 && flow[at - 1].delay_s > t.delay_s; at--) flow[at] = flow[at - 1];
        flow[at] = t;
    }
}

static luo_status write_traffic(sim_router *router, luo_arena *arena, int32_t *at, int32_t id,
                                sim_traffic *traffic)
{
    const int32_t from = *at;
    int32_t npaths = 0;
    for (; *at < router->nbunches && router->bunches[*at].traffic == id; (*at)++)
        npaths += router->bunches[*at].n;
    if (npaths == 0) return LUO_OK;
    sim_flow *flows = luo_arena_alloc(arena, (size_t)npaths * sizeof *flows);
    if (!flows) return LUO_ENOMEM;
    traffic->flows = flows;
    LUO_TRY(
        write_loads(router, arena, router->paths + router->bunches[from].first, npaths, traffic));
    for (int32_t b = from; b < *at; b++)
        LUO_TRY(write_bunch(router, arena, &router->bunches[b], flows, &traffic->nflows));
    sort_by_delay(flows, traffic->nflows);
    return LUO_OK;
}

luo_status sim_router_finish(sim_router *router, luo_arena *arena, sim_net *net,
                             sim_traffic *traffics)
{
    luo_status st = LUO_OK;
    int32_t at = 0;
    settle(router);
    size_t most = (size_t)router->nsets; /* every set, and every way alone */
    for (int32_t s = 0; s < router->nsets; s++) most += (size_t)router->sets[s].n;
    most += (size_t)(2 * router->c->nlinks);
    router->wires = luo_arena_alloc(arena, most * sizeof *router->wires);
    if (!router->wires) st = LUO_ENOMEM;
    for (int32_t t = 0; st == LUO_OK && t < router->ntraffics; t++)
        st = write_traffic(router, arena, &at, t, &traffics[t]);
    /* Ways of single wires lie in paths, which are scratch. */
    for (int32_t w = 0; st == LUO_OK && w < router->nwires; w++) {
        int32_t *hop = luo_arena_alloc(arena, (size_t)router->wires[w].nways * sizeof *hop);
        if (!hop) st = LUO_ENOMEM;
        else
            memcpy(hop, router->wires[w].hop, (size_t)router->wires[w].nways * sizeof *hop);
        router->wires[w].hop = hop;
    }
    net->wires = router->wires;
    net->nwires = router->nwires;
    return st;
}

void sim_router_free(sim_router *router)
{
    luo_map_free(&router->set_of);
}
