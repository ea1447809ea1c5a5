/* faults.c: the state of the world during a step: what is slow, what is down, and when. */
#include <math.h>
#include <simgrid/actor.h>
#include <stdlib.h>

#include "sim/step/step.h"

/* ---- slowdowns: known in advance, so one timeline per pace ---- */

/* Changes of the slowdown of a device in this step. */
static int32_t count_changes(const sim_step *step, int32_t device)
{
    int32_t n = 0;
    for (int32_t i = 0; i < step->nchanges; i++)
        n += step->changes[i].kind == LUO_CHANGE_SLOWDOWN && step->changes[i].target == device;
    return n;
}

static bool same_slowness(const sim_step *step, int32_t a, int32_t b)
{
    return step->world->slowdown[a] == step->world->slowdown[b] && count_changes(step, a) == 0 &&
           count_changes(step, b) == 0;
}

static luo_status slow_timeline(const sim_step *step, int32_t device, sim_timeline *out)
{
    const int32_t n = count_changes(step, device);
    double *at = LUO_NEW_N(step->arena, double, n + 1),
           *value = LUO_NEW_N(step->arena, double, n + 1);
    if (!at || !value) return LUO_ENOMEM;
    *out = (sim_timeline){1, at, value};
    value[0] = step->world->slowdown[device];
    for (int32_t i = 0; i < step->nchanges && n > 0; i++) {
        const luo_change *change = &step->changes[i];
        if (change->kind != LUO_CHANGE_SLOWDOWN || change->target != device) continue;
        at[out->n] = change->at_s;
        value[out->n++] = change->value;
    }
    return LUO_OK;
}

static int32_t device_of(const luo_rank *rank, int32_t member)
{
    return rank->step->net->set->at[rank->class->member[member]].device;
}

static luo_status make_paces(luo_rank *rank)
{
    sim_step *step = rank->step;
    rank->paces = LUO_NEW_N(step->arena, sim_pace, rank->class->n);
    rank->pace_of = LUO_NEW_N(step->arena, int32_t, rank->class->n);
    int32_t *head = LUO_NEW_N(step->arena, int32_t, rank->class->n); /* a device of each pace */
    if (!rank->paces || !rank->pace_of || !head) return LUO_ENOMEM;
    rank->npaces = 0;
    for (int32_t m = 0; m < rank->class->n; m++) {
        int32_t k = 0;
        while (k < rank->npaces &&
               (step->noise || !same_slowness(step, device_of(rank, m), head[k])))
            k++;
        rank->pace_of[m] = k;
        if (k < rank->npaces) continue;
        head[rank->npaces++] = device_of(rank, m);
        rank->paces[k] = (sim_pace){.ledger = {.arena = step->arena}};
        LUO_TRY(slow_timeline(step, device_of(rank, m), &rank->paces[k].slow));
    }
    return LUO_OK;
}

/* ---- links ---- */

static bool is_link_change(const luo_change *change, int32_t link)
{
    return change->kind == LUO_CHANGE_LINK && change->target == link;
}

static void set_links(sim_step *step)
{
    step->links_quiet = true;
    for (int32_t l = 0; l < step->world->nlinks; l++) {
        sim_grid_set_link(step->grid, l, step->world->link_factor[l],
                          step->world->link_extra_latency_s[l]);
        if (step->world->link_factor[l] != 1 || step->world->link_extra_latency_s[l] != 0)
            step->links_quiet = false;
    }
    for (int32_t i = 0; i < step->nchanges; i++)
        if (step->changes[i].kind == LUO_CHANGE_LINK) step->links_quiet = false;
}

typedef struct reach { /* the worst of some links over time, as it is at one date */
    double factor, extra_s;
    int32_t down; /* a link with factor 0; -1: none */
} reach;

static void see_link(reach *r, int32_t link, double factor, double extra_s)
{
    r->extra_s = fmax(r->extra_s, extra_s);
    if (factor >= r->factor) return;
    r->factor = factor;
    if (factor <= 0) r->down = link;
}

/* State of `links` in force from change number `after` (-1: the start) on. */
static reach reach_after(const sim_step *step, const int32_t *links, int32_t n, int32_t after)
{
    reach r = {1, 0, -1};
    for (int32_t k = 0; k < n; k++) {
        double factor = step->world->link_factor[links[k]];
        double extra = step->world->link_extra_latency_s[links[k]];
        for (int32_t i = 0; i <= after; i++)
            if (is_link_change(&step->changes[i], links[k])) {
                factor = step->changes[i].value;
                extra = step->changes[i].latency_s;
            }
        see_link(&r, links[k], factor, extra);
    }
    return r;
}

static int32_t last_before(const sim_step *step, double when)
{
    int32_t i = -1;
    while (i + 1 < step->nchanges && step->changes[i + 1].at_s <= when) i++;
    return i;
}

/* Fixed seconds (with the extra latency at the start, `hops` times), then `spread` seconds that go
 * as fast as the slowest of the links lets them. */
static double end_over(const sim_step *step, const int32_t *links, int32_t n, double start,
                       double fixed, double spread, int32_t hops, int32_t *broken)
{
    int32_t i = last_before(step, start);
    reach r = reach_after(step, links, n, i);
    double now = start + fixed + hops * r.extra_s;
    *broken = -1;
    for (i = last_before(step, now);; i++) {
        r = reach_after(step, links, n, i);
        if (r.down >= 0) {
            *broken = r.down;
            return now;
        }
        const double next = i + 1 < step->nchanges ? step->changes[i + 1].at_s : HUGE_VAL;
        const double end = now + spread / r.factor;
        if (end <= next) return end;
        spread -= (next - now) * r.factor;
        now = next;
    }
}

double sim_closed_end(const sim_step *step, const sim_traffic *traffic, double start,
                      double before_s, double factor, int32_t *broken)
{
    const double spread = before_s + traffic->spread_s * factor;
    *broken = -1;
    if (step->links_quiet) return start + traffic->fixed_s * factor + spread;
    int32_t *links = LUO_NEW_N(step->arena, int32_t, traffic->nloads);
    if (!links) return start; /* the next allocation ends the step */
    for (int32_t i = 0; i < traffic->nloads; i++) links[i] = traffic->loads[i].hop / 2;
    return end_over(step, links, traffic->nloads, start, traffic->fixed_s * factor, spread,
                    traffic->hops, broken);
}

/* ---- links inside classes ---- */

static luo_status inner_links(luo_rank *rank)
{
    const luo_cluster *cluster = rank->step->net->config->cluster;
    const int32_t n = rank->class->n;
    bool *seen = LUO_NEW_N(rank->step->arena, bool, cluster->nlinks);
    rank->inner = LUO_NEW_N(rank->step->arena, int32_t, (size_t)n * (size_t)n * LUO_PATH_MAX);
    if (!seen || !rank->inner) return LUO_ENOMEM;
    rank->ninner = 0;
    for (int32_t a = 0; a < n; a++)
        for (int32_t b = 0; b < n; b++) {
            luo_hop hops[LUO_PATH_MAX];
            const int32_t len =
                luo_cluster_path(cluster, device_of(rank, a), device_of(rank, b), hops);
            for (int32_t h = 0; h < len; h++) {
                if (seen[hops[h].link]) continue;
                seen[hops[h].link] = true;
                rank->inner[rank->ninner++] = hops[h].link;
            }
        }
    return LUO_OK;
}

static bool touched(const sim_step *step, int32_t link)
{
    if (step->world->link_factor[link] != 1 || step->world->link_extra_latency_s[link] != 0)
        return true;
    for (int32_t i = 0; i < step->nchanges; i++)
        if (is_link_change(&step->changes[i], link)) return true;
    return false;
}

static luo_status check_inner(luo_rank *rank)
{
    const size_t mark = luo_arena_mark(rank->step->arena);
    LUO_TRY(inner_links(rank));
    bool any = false;
    for (int32_t i = 0; i < rank->ninner; i++) any = any || touched(rank->step, rank->inner[i]);
    if (any) return LUO_OK;
    luo_arena_reset(rank->step->arena, mark);
    rank->ninner = 0;
    return LUO_OK;
}

/* The part of the seconds that bandwidth decides: what large messages would need. */
static double spread_of(const luo_rank *rank, const luo_instr *in, double seconds)
{
    const int64_t huge = INT64_C(1) << 50;
    const luo_slot *slot = sim_slot(rank->step->net, rank->class, 0, in);
    if (in->kind == LUO_INSTR_COLLECTIVE) {
        luo_cost_call call = sim_call(rank->step->net, in, slot);
        const int64_t bytes = call.bytes;
        call.bytes = huge;
        const double large = luo_cost_call_seconds(&rank->step->net->cost, &call, 0);
        return fmin(seconds, large * ((double)bytes / (double)huge));
    }
    if (slot->nmessage == 0) return seconds;
    const luo_message *message = &slot->message[0];
    const double large =
        luo_cost_p2p_seconds(&rank->step->net->cost, device_of(rank, 0), message->peer, huge, 0);
    return fmin(seconds,
                large * ((double)sim_bytes(rank->step->net, in, message->bytes) / (double)huge));
}

double sim_inner_end(luo_rank *rank, const luo_instr *in, double start, double seconds)
{
    int32_t broken = -1;
    if (in->slot < 0 || seconds <= 0) return start;
    const double spread = spread_of(rank, in, seconds);
    const double end = end_over(rank->step, rank->inner, rank->ninner, start, seconds - spread,
                                spread, 1, &broken);
    if (broken >= 0) sim_break_at(rank->step, end, broken);
    return end;
}

/* ---- dated changes ---- */

static void apply(sim_step *step, const luo_change *change)
{
    if (change->kind == LUO_CHANGE_LINK) {
        step->links_change = true;
        sim_alone_end_all(step);
        sim_grid_set_link(step->grid, change->target, change->value, change->latency_s);
        step->links_change = false;
    } else if (change->kind == LUO_CHANGE_DOWN && step->net->class_of[change->target] >= 0) {
        sim_step_fail(step, LUO_EPEER, change->target, -1);
    }
}

static void faults_main(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    sim_step *step = sg_actor_get_data(sg_actor_self());
    sg_actor_daemonize(sg_actor_self()); /* or the step lasts until the last date */
    for (int32_t i = 0; i < step->nchanges && !step->stopped && !step->over; i++) {
        sim_sleep_until(step, step->changes[i].at_s);
        if (!step->stopped && !step->over) apply(step, &step->changes[i]);
    }
}

luo_status sim_faults_begin(sim_step *step)
{
    set_links(step);
    for (int32_t l = 0; l < step->net->nclasses; l++) {
        luo_rank *rank = &step->ranks[l];
        LUO_TRY(make_paces(rank));
        rank->ninner = 0;
        if (!step->links_quiet && rank->class->n > 1) LUO_TRY(check_inner(rank));
    }
    bool needed = false; /* slowdowns stand in the timelines */
    for (int32_t i = 0; i < step->nchanges; i++)
        needed = needed || step->changes[i].kind != LUO_CHANGE_SLOWDOWN;
    if (!needed) return LUO_OK;
    sg_actor_t actor = sg_actor_init("changes", step->grid->control);
    sg_actor_set_data(actor, step);
    sg_actor_start(actor, faults_main, 0, NULL);
    return LUO_OK;
}
