/* coord_orders.c: the world and its dated changes as orders to ranks: how fast to compute, how
 * long messages wait, when to fail. */
#include <math.h>
#include <string.h>

#include "exec/clock.h"
#include "exec/coordinator/coord.h"

/* ---- paces and failures of devices ---- */

static luo_status paces(luo_arena *arena, const luo_backend_state *backend,
                        const luo_step_request *request, int32_t device, luo_step_order *order,
                        luo_err *err)
{
    int32_t n = 1;
    for (int32_t i = 0; i < request->nchanges; i++)
        n +=
            request->changes[i].kind == LUO_CHANGE_SLOWDOWN && request->changes[i].target == device;
    luo_pace *pace = LUO_NEW_N(arena, luo_pace, n);
    if (!pace) return luo_err_nomem(err);
    pace[0] = (luo_pace){luo_clock_s() - 1, request->world->slowdown[device]};
    order->pace = pace;
    order->npace = 1;
    for (int32_t i = 0; i < request->nchanges; i++) {
        const luo_change *change = &request->changes[i];
        if (change->kind == LUO_CHANGE_SLOWDOWN && change->target == device)
            pace[order->npace++] = (luo_pace){backend->t0 + change->at_s, change->value};
    }
    return LUO_OK;
}

/* A device without a program that fails softly is not missed; a process that dies is. */
static void failures(const luo_backend_state *backend, const luo_step_request *request,
                     int32_t device, luo_step_order *order)
{
    const bool member = luo_programs_find(request->programs, device) != NULL;
    order->withdraw_s = order->kill_s = INFINITY;
    for (int32_t i = 0; request->world->up[device] && i < request->nchanges; i++) {
        const luo_change *change = &request->changes[i];
        if (change->kind != LUO_CHANGE_DOWN || change->target != device) continue;
        if (change->hard)
            order->kill_s = fmin(order->kill_s, backend->t0 + change->at_s);
        else if (member)
            order->withdraw_s = fmin(order->withdraw_s, backend->t0 + change->at_s);
    }
}

/* ---- links ---- */

typedef struct pair { /* messages go from one device to another */
    int32_t rank, device;
    int32_t nhops;
    luo_hop hops[LUO_PATH_MAX];
} pair;

typedef struct links {
    luo_arena *arena;
    const luo_backend_state *b;
    const luo_step_request *q;
    luo_coord_orders *out;
    int32_t nchanges; /* of links */
    bool *used;
    double *factor, *extra_s; /* as they are at the date at hand */
    int32_t npairs;
    pair *pairs; /* of messages; collectives only mark links as used */
} links;

static bool links_matter(const luo_step_request *request)
{
    for (int32_t i = 0; i < request->world->nlinks; i++)
        if (request->world->link_factor[i] != 1 || request->world->link_extra_latency_s[i] != 0)
            return true;
    for (int32_t i = 0; i < request->nchanges; i++)
        if (request->changes[i].kind == LUO_CHANGE_LINK) return true;
    return false;
}

static void mark_path(links *l, int32_t from, int32_t to)
{
    luo_hop hops[LUO_PATH_MAX];
    const int32_t n = luo_cluster_path(l->b->config.cluster, from, to, hops);
    for (int32_t h = 0; h < n; h++) l->used[hops[h].link] = true;
}

static void add_pair(links *l, int32_t from, int32_t to)
{
    const int32_t rank = luo_workers_rank_of(&l->b->workers, from);
    mark_path(l, from, to);
    for (int32_t i = 0; i < l->npairs; i++)
        if (l->pairs[i].rank == rank && l->pairs[i].device == to) return;
    pair *p = &l->pairs[l->npairs++];
    p->rank = rank;
    p->device = to;
    p->nhops = luo_cluster_path(l->b->config.cluster, from, to, p->hops);
}

static luo_status find_pairs(links *l, luo_err *err)
{
    const luo_programs *set = l->q->programs;
    int64_t most = 0;
    for (int32_t i = 0; i < set->n; i++)
        for (int32_t s = 0; s < set->roles[set->at[i].role].nslot; s++)
            most += set->at[i].slots[s].nmessage;
    l->pairs = LUO_NEW_N(l->arena, pair, most);
    if (!l->pairs) return luo_err_nomem(err);
    for (int32_t i = 0; i < set->n; i++)
        for (int32_t s = 0; s < set->roles[set->at[i].role].nslot; s++) {
            const luo_slot *slot = &set->at[i].slots[s];
            for (int32_t m = 0; m < slot->nmessage; m++)
                if (slot->message[m].send) add_pair(l, set->at[i].device, slot->message[m].peer);
        }
    for (int32_t g = 0; g < set->ngroups; g++) /* as a ring, which is what the simulator uses */
        for (int32_t i = 0; i < set->groups[g].n && set->groups[g].n > 1; i++)
            mark_path(l, set->groups[g].dev[i], set->groups[g].dev[(i + 1) % set->groups[g].n]);
    return LUO_OK;
}

/* What one message waits longer now: the narrowest link decides, extra latencies add. */
static void delay_of(const links *l, const pair *p, double at_s, struct luo_delay *out)
{
    double was = INFINITY, now = INFINITY;
    *out = (struct luo_delay){.at_s = at_s, .device = p->device};
    for (int32_t h = 0; h < p->nhops; h++) {
        const int32_t k = p->hops[h].link;
        const double rate = l->b->config.cluster->links[k].bytes_per_s;
        was = fmin(was, rate);
        if (l->factor[k] > 0) now = fmin(now, rate * l->factor[k]);
        out->extra_s += l->extra_s[k];
    }
    if (now < was) out->s_per_byte = 1 / now - 1 / was;
}

static void add_delay(links *l, const pair *p, double at_s)
{
    luo_step_order *order = &l->out->at[p->rank];
    struct luo_delay *list = (struct luo_delay *)(uintptr_t)order->delay;
    struct luo_delay delay;
    int32_t last = order->ndelay;
    delay_of(l, p, at_s, &delay);
    while (last > 0 && list[last - 1].device != p->device) last--;
    const struct luo_delay none = {0}, *before = last > 0 ? &list[last - 1] : &none;
    if (delay.s_per_byte == before->s_per_byte && delay.extra_s == before->extra_s) return;
    list[order->ndelay++] = delay;
    l->out->slow_links = true;
}

static void break_at(links *l, int32_t link, double at_s)
{
    if (!l->used[link] || at_s >= l->out->break_s) return;
    l->out->break_s = at_s;
    l->out->broken = link;
}

static void take_dates(links *l)
{
    const luo_world *world = l->q->world;
    const double now = luo_clock_s() - 1;
    for (int32_t k = 0; k < world->nlinks; k++)
        if (world->link_factor[k] <= 0) break_at(l, k, now);
    for (int32_t i = 0; i < l->npairs; i++) add_delay(l, &l->pairs[i], now);
    for (int32_t i = 0; i < l->q->nchanges; i++) {
        const luo_change *change = &l->q->changes[i];
        if (change->kind != LUO_CHANGE_LINK) continue;
        l->factor[change->target] = change->value;
        l->extra_s[change->target] = change->latency_s;
        if (change->value <= 0) break_at(l, change->target, l->b->t0 + change->at_s);
        for (int32_t p = 0; p < l->npairs; p++) add_delay(l, &l->pairs[p], l->b->t0 + change->at_s);
    }
}

static luo_status make_links(luo_arena *arena, const luo_backend_state *backend,
                             const luo_step_request *request, luo_coord_orders *out, luo_err *err)
{
    const luo_world *world = request->world;
    links l = {.arena = arena, .b = backend, .q = request, .out = out};
    l.used = LUO_NEW_N(arena, bool, world->nlinks);
    l.factor = LUO_NEW_N(arena, double, world->nlinks);
    l.extra_s = LUO_NEW_N(arena, double, world->nlinks);
    if (!l.used || !l.factor || !l.extra_s) return luo_err_nomem(err);
    memcpy(l.factor, world->link_factor, (size_t)world->nlinks * sizeof *l.factor);
    memcpy(l.extra_s, world->link_extra_latency_s, (size_t)world->nlinks * sizeof *l.extra_s);
    for (int32_t i = 0; i < request->nchanges; i++)
        l.nchanges += request->changes[i].kind == LUO_CHANGE_LINK;
    LUO_TRY(find_pairs(&l, err));
    int32_t *each = LUO_NEW_N(arena, int32_t, backend->workers.n);
    if (!each) return luo_err_nomem(err);
    for (int32_t i = 0; i < l.npairs; i++) each[l.pairs[i].rank] += 1 + l.nchanges;
    for (int32_t r = 0; r < backend->workers.n; r++) {
        out->at[r].delay = LUO_NEW_N(arena, struct luo_delay, each[r]);
        if (!out->at[r].delay) return luo_err_nomem(err);
    }
    take_dates(&l);
    return LUO_OK;
}

/* ---- all ---- */

static bool is_quiet(const luo_step_order *order)
{
    bool quiet = order->ndelay == 0 && isinf(order->withdraw_s);
    for (int32_t i = 0; i < order->npace; i++) quiet &= order->pace[i].slowdown <= 1;
    return quiet;
}

luo_status luo_coord_orders_make(luo_arena *arena, const luo_backend_state *backend,
                                 const luo_step_request *request, luo_coord_orders *out,
                                 luo_err *err)
{
    luo_coord_orders orders = {.at = LUO_NEW_N(arena, luo_step_order, backend->workers.n),
                               .break_s = INFINITY,
                               .broken = -1,
                               .down = -1};
    if (!orders.at) return luo_err_nomem(err);
    for (int32_t i = 0; i < request->programs->n; i++) {
        const int32_t d = request->programs->at[i].device;
        if (luo_workers_rank_of(&backend->workers, d) < 0)
            return luo_err_set(err, LUO_EBUG, "device %d has no process; a restart makes one.", d);
        if (!request->world->up[d] && orders.down < 0) orders.down = d;
    }
    for (int32_t r = 0; r < backend->workers.n; r++) {
        orders.at[r].step = request->step;
        orders.at[r].part = request->part;
        orders.at[r].trace = request->trace;
        LUO_TRY(paces(arena, backend, request, backend->workers.at[r].device, &orders.at[r], err));
        failures(backend, request, backend->workers.at[r].device, &orders.at[r]);
    }
    if (links_matter(request)) LUO_TRY(make_links(arena, backend, request, &orders, err));
    bool quiet = true;
    for (int32_t r = 0; r < backend->workers.n; r++) quiet &= is_quiet(&orders.at[r]);
    for (int32_t r = 0; r < backend->workers.n; r++) orders.at[r].quiet = quiet;
    *out = orders;
    return LUO_OK;
}
