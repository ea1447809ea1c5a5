/* faults.c: the state of the world during a step: what is slow, what is down, and when. */
#include <math.h>
#include <simgrid/actor.h>
#include <stdlib.h>

#include "sim/step/step.h"

/* ---- slowdowns: known in advance, so one timeline per pace ---- */

/* Changes of the slowdown of a device in this step. */
static int32_t count_changes(const sim_step *s, int32_t device)
{
    int32_t n = 0;
    for (int32_t i = 0; i < s->nchanges; i++)
        n += s->changes[i].kind == LUO_CHANGE_SLOWDOWN && s->changes[i].target == device;
    return n;
}

static bool same_slowness(const sim_step *s, int32_t a, int32_t b)
{
    return s->world->slowdown[a] == s->world->slowdown[b] && count_changes(s, a) == 0 &&
           count_changes(s, b) == 0;
}

static luo_status slow_timeline(const sim_step *s, int32_t device, sim_timeline *out)
{
    const int32_t n = count_changes(s, device);
    double *at = LUO_NEW_N(s->arena, double, n + 1), *value = LUO_NEW_N(s->arena, double, n + 1);
    if (!at || !value) return LUO_ENOMEM;
    *out = (sim_timeline){1, at, value};
    value[0] = s->world->slowdown[device];
    for (int32_t i = 0; i < s->nchanges && n > 0; i++) {
        const luo_change *c = &s->changes[i];
        if (c->kind != LUO_CHANGE_SLOWDOWN || c->target != device) continue;
        at[out->n] = c->at_s;
        value[out->n++] = c->value;
    }
    return LUO_OK;
}

static int32_t device_of(const luo_rank *r, int32_t member)
{
    return r->step->net->set->at[r->class->member[member]].device;
}

static luo_status make_paces(luo_rank *r)
{
    sim_step *s = r->step;
    r->paces = LUO_NEW_N(s->arena, sim_pace, r->class->n);
    r->pace_of = LUO_NEW_N(s->arena, int32_t, r->class->n);
    int32_t *head = LUO_NEW_N(s->arena, int32_t, r->class->n); /* a device of each pace */
    if (!r->paces || !r->pace_of || !head) return LUO_ENOMEM;
    r->npaces = 0;
    for (int32_t m = 0; m < r->class->n; m++) {
        int32_t k = 0;
        while (k < r->npaces && (s->rng || !same_slowness(s, device_of(r, m), head[k]))) k++;
        r->pace_of[m] = k;
        if (k < r->npaces) continue;
        head[r->npaces++] = device_of(r, m);
        r->paces[k] = (sim_pace){.ledger = {.arena = s->arena}};
        LUO_TRY(slow_timeline(s, device_of(r, m), &r->paces[k].slow));
    }
    return LUO_OK;
}

/* ---- links ---- */

static bool is_link_change(const luo_change *c, int32_t link)
{
    return c->kind == LUO_CHANGE_LINK && c->target == link;
}

static void set_links(sim_step *s)
{
    s->links_quiet = true;
    for (int32_t l = 0; l < s->world->nlinks; l++) {
        sim_grid_set_link(s->grid, l, s->world->link_factor[l], s->world->link_extra_latency_s[l]);
        if (s->world->link_factor[l] != 1 || s->world->link_extra_latency_s[l] != 0)
            s->links_quiet = false;
    }
    for (int32_t i = 0; i < s->nchanges; i++)
        if (s->changes[i].kind == LUO_CHANGE_LINK) s->links_quiet = false;
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
static reach reach_after(const sim_step *s, const int32_t *links, int32_t n, int32_t after)
{
    reach r = {1, 0, -1};
    for (int32_t k = 0; k < n; k++) {
        double factor = s->world->link_factor[links[k]];
        double extra = s->world->link_extra_latency_s[links[k]];
        for (int32_t i = 0; i <= after; i++)
            if (is_link_change(&s->changes[i], links[k])) {
                factor = s->changes[i].value;
                extra = s->changes[i].latency_s;
            }
        see_link(&r, links[k], factor, extra);
    }
    return r;
}

static int32_t last_before(const sim_step *s, double when)
{
    int32_t i = -1;
    while (i + 1 < s->nchanges && s->changes[i + 1].at_s <= when) i++;
    return i;
}

/* Fixed seconds (with the extra latency at the start, `hops` times), then `spread` seconds that go
 * as fast as the slowest of the links lets them. */
static double end_over(const sim_step *s, const int32_t *links, int32_t n, double start,
                       double fixed, double spread, int32_t hops, int32_t *broken)
{
    int32_t i = last_before(s, start);
    reach r = reach_after(s, links, n, i);
    double now = start + fixed + hops * r.extra_s;
    *broken = -1;
    for (i = last_before(s, now);; i++) {
        r = reach_after(s, links, n, i);
        if (r.down >= 0) {
            *broken = r.down;
            return now;
        }
        const double next = i + 1 < s->nchanges ? s->changes[i + 1].at_s : HUGE_VAL;
        const double end = now + spread / r.factor;
        if (end <= next) return end;
        spread -= (next - now) * r.factor;
        now = next;
    }
}

double sim_closed_end(const sim_step *s, const sim_traffic *t, double start, double before_s,
                      double factor, int32_t *broken)
{
    const double spread = before_s + t->spread_s * factor;
    *broken = -1;
    if (s->links_quiet) return start + t->fixed_s * factor + spread;
    int32_t *links = LUO_NEW_N(s->arena, int32_t, t->nloads);
    if (!links) return start; /* the next allocation ends the step */
    for (int32_t i = 0; i < t->nloads; i++) links[i] = t->loads[i].hop / 2;
    return end_over(s, links, t->nloads, start, t->fixed_s * factor, spread, t->hops, broken);
}

/* ---- links inside classes ---- */

static luo_status inner_links(luo_rank *r)
{
    const luo_cluster *c = r->step->net->config->cluster;
    const int32_t n = r->class->n;
    bool *seen = LUO_NEW_N(r->step->arena, bool, c->nlinks);
    r->inner = LUO_NEW_N(r->step->arena, int32_t, (size_t)n * (size_t)n * LUO_PATH_MAX);
    if (!seen || !r->inner) return LUO_ENOMEM;
    r->ninner = 0;
    for (int32_t a = 0; a < n; a++)
        for (int32_t b = 0; b < n; b++) {
            luo_hop hops[LUO_PATH_MAX];
            const int32_t len = luo_cluster_path(c, device_of(r, a), device_of(r, b), hops);
            for (int32_t h = 0; h < len; h++) {
                if (seen[hops[h].link]) continue;
                seen[hops[h].link] = true;
                r->inner[r->ninner++] = hops[h].link;
            }
        }
    return LUO_OK;
}

static bool touched(const sim_step *s, int32_t link)
{
    if (s->world->link_factor[link] != 1 || s->world->link_extra_latency_s[link] != 0) return true;
    for (int32_t i = 0; i < s->nchanges; i++)
        if (is_link_change(&s->changes[i], link)) return true;
    return false;
}

static luo_status check_inner(luo_rank *r)
{
    const size_t mark = luo_arena_mark(r->step->arena);
    LUO_TRY(inner_links(r));
    bool any = false;
    for (int32_t i = 0; i < r->ninner; i++) any = any || touched(r->step, r->inner[i]);
    if (any) return LUO_OK;
    luo_arena_reset(r->step->arena, mark);
    r->ninner = 0;
    return LUO_OK;
}

/* The part of the seconds that bandwidth decides: what large messages would need. */
static double spread_of(const luo_rank *r, const luo_instr *in, double seconds)
{
    const int64_t huge = INT64_C(1) << 50;
    const luo_slot *slot = sim_slot(r->step->net, r->class, 0, in);
    double large = 0;
    luo_err err;
    if (in->kind == LUO_INSTR_COLLECTIVE) {
        const luo_group *g = &r->step->net->set->groups[slot->group];
        if (luo_cost_group(&r->step->net->cost, in->coll, g->dev, g->n, huge, 0, &large, &err))
            return seconds;
        const int64_t bytes = sim_bytes(r->step->net, in, in->bytes);
        return fmin(seconds, large * ((double)bytes / (double)huge));
    }
    if (slot->nmessage == 0) return seconds;
    const luo_message *m = &slot->message[0];
    if (luo_cost_p2p(&r->step->net->cost, device_of(r, 0), m->peer, huge, 0, &large, &err))
        return seconds;
    return fmin(seconds, large * ((double)sim_bytes(r->step->net, in, m->bytes) / (double)huge));
}

double sim_inner_end(luo_rank *r, const luo_instr *in, double start, double seconds)
{
    int32_t broken = -1;
    if (in->slot < 0 || seconds <= 0) return start;
    const double spread = spread_of(r, in, seconds);
    const double end = end_over(r->step, r->inner, r->ninner, start, seconds - spread, spread, 1,
                                &broken);
    if (broken >= 0) sim_break_at(r->step, end, broken);
    return end;
}

/* ---- dated changes ---- */

static void apply(sim_step *s, const luo_change *c)
{
    if (c->kind == LUO_CHANGE_LINK) {
        s->links_change = true;
        sim_alone_end_all(s);
        sim_grid_set_link(s->grid, c->target, c->value, c->latency_s);
        s->links_change = false;
    } else if (c->kind == LUO_CHANGE_DOWN && s->net->class_of[c->target] >= 0) {
        sim_step_fail(s, LUO_EPEER, c->target, -1);
    }
}

static void faults_main(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    sim_step *s = sg_actor_get_data(sg_actor_self());
    sg_actor_daemonize(sg_actor_self()); /* or the step lasts until the last date */
    for (int32_t i = 0; i < s->nchanges && !s->stopped && !s->over; i++) {
        sim_sleep_until(s, s->changes[i].at_s);
        if (!s->stopped && !s->over) apply(s, &s->changes[i]);
    }
}

luo_status sim_faults_begin(sim_step *s)
{
    set_links(s);
    for (int32_t l = 0; l < s->net->nclasses; l++) {
        luo_rank *r = &s->ranks[l];
        LUO_TRY(make_paces(r));
        r->ninner = 0;
        if (!s->links_quiet && r->class->n > 1) LUO_TRY(check_inner(r));
    }
    bool needed = false; /* slowdowns stand in the timelines */
    for (int32_t i = 0; i < s->nchanges; i++)
        needed = needed || s->changes[i].kind != LUO_CHANGE_SLOWDOWN;
    if (!needed) return LUO_OK;
    sg_actor_t actor = sg_actor_init("changes", s->grid->control);
    sg_actor_set_data(actor, s);
    sg_actor_start(actor, faults_main, 0, NULL);
    return LUO_OK;
}
