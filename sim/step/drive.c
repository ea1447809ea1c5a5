/* drive.c: drivers: actors that carry transfers out in SimGrid, one each at a time.
 *
 * There are as many as transfers were ever under way at once: sleeping until the start, sending and
 * waiting is all that needs an actor. One that has finished takes what became ready by it. */
#include <math.h>
#include <simgrid/actor.h>
#include <simgrid/comm.h>

#include "sim/step/ring.h"
#include "sim/shim.h"
#include "sim/step/step.h"

/* ---- how busy wires are ---- */

static void wire_on(sim_step *s, const sim_flow *f)
{
    for (int32_t i = 0; i < f->nwires; i++)
        if (s->busy[f->wire[i]]++ == 0) s->busy_since[f->wire[i]] = sim_now(s);
}

static void wire_off(sim_step *s, const sim_flow *f)
{
    for (int32_t i = 0; i < f->nwires; i++)
        if (--s->busy[f->wire[i]] == 0)
            s->busy_s[f->wire[i]] += sim_now(s) - s->busy_since[f->wire[i]];
}

/* ---- sleeping and waking ---- */

static void driver_wait(sim_driver *d)
{
    d->blocked = true;
    sg_sem_acquire(d->sem);
}

/* Until it is woken, and at most until that date, which lies ahead. False: it was not woken. */
static bool driver_wait_until(sim_driver *d, double at)
{
    d->blocked = true;
    const bool late = sg_sem_acquire_timeout(d->sem, at - sim_now(d->step));
    const bool woken = !d->blocked;
    if (late && woken) sg_sem_acquire(d->sem); /* at that date as well: not twice */
    d->blocked = false;
    return woken;
}

void sim_driver_wake(sim_driver *d)
{
    if (!d || !d->blocked) return;
    d->blocked = false;
    sg_sem_release(d->sem);
}

/* ---- active transfers, so that a failure can end them ---- */

static void activate(sim_step *s, sim_transfer *t)
{
    t->after = s->active;
    t->before = NULL;
    if (s->active) s->active->before = t;
    s->active = t;
}

static void deactivate(sim_step *s, sim_transfer *t)
{
    if (t->before) t->before->after = t->after;
    else s->active = t->after;
    if (t->after) t->after->before = t->before;
}

bool sim_transfer_comms(sim_step *s, sim_transfer *t)
{
    if (!t->comm) t->comm = LUO_NEW_N(s->arena, sg_comm_t, t->traffic->nflows);
    if (!t->comm) sim_step_fail(s, LUO_ENOMEM, -1, -1);
    return t->comm != NULL;
}

void sim_transfers_cancel(sim_step *s)
{
    for (sim_transfer *t = s->active; t; t = t->after)
        for (int32_t i = t->first; i < t->n; i++)
            if (t->comm && t->comm[i]) luo_sg_comm_cancel(t->comm[i]);
}

/* ---- one transfer ---- */

/* The cause of a transfer that failed: a link that is down, else an end (then the actor of dated
 * changes has said so already). */
static void fail_transfer(sim_step *s, const sim_transfer *t)
{
    if (!s->stopped) sim_step_fail(s, LUO_EPEER, -1, sim_grid_broken(s->grid, t->traffic));
}

static double delay_of(const sim_step *s, const sim_transfer *t, const sim_flow *f)
{
    const double extra = s->links_quiet ? 0 : sim_grid_extra(s->grid, f) * t->hops;
    return f->delay_s * t->factor + extra;
}

static bool start_flow(sim_step *s, sim_transfer *t, const sim_flow *f)
{
    const int32_t i = t->n;
    if (sim_flow_carries(f)) {
        if (!t->alone) {
            sim_alone_disturb(s, f);
            wire_on(s, f); /* before others can run */
            t->comm[i] = sim_grid_start(s->grid, f, sim_grid_bytes(f, t->factor));
            if (!t->comm[i]) wire_off(s, f);
            if (!t->comm[i]) return false;
        } else {
            wire_on(s, f);
        }
    }
    t->n++;
    return true;
}

static bool wait_flow(sim_step *s, sim_transfer *t, const sim_flow *f)
{
    const int32_t i = t->first++;
    bool early = true; /* a date that is reached may still differ by what the clock can't tell */
    while (t->handed) driver_wait(t->driver);
    while (early && t->alone && !s->stopped &&
           sim_alone_date(s, t, i) > sim_now(s) + SIM_INSTANT) {
        early = driver_wait_until(t->driver, sim_alone_date(s, t, i));
        while (t->handed) driver_wait(t->driver);
    }
    if (!sim_flow_carries(f)) return true;
    const bool known = t->comm && t->comm[i]; /* else it has ended while it was alone */
    const sg_error_t st = known ? sg_comm_wait(t->comm[i]) : SG_OK;
    wire_off(s, f);
    return st == SG_OK;
}

/* All flows, each after its delay (ascending). A transfer that fails waits for its other flows
 * before it says so: handles must be given back. */
static bool drive_flows(sim_driver *d, sim_transfer *t)
{
    sim_step *s = d->step;
    const sim_traffic *traffic = t->traffic;
    bool good = true;
    t->driver = d;
    activate(s, t);
    for (int32_t i = 0; good && i < traffic->nflows; i++) {
        sim_sleep_until(s, t->start + delay_of(s, t, &traffic->flows[i]));
        if (i == 0) t->moved_s = sim_now(s);
        if (i == 0 && !s->stopped) t->alone = sim_alone_begin(s, t);
        if (!t->alone && !sim_transfer_comms(s, t)) return false;
        good = !s->stopped && start_flow(s, t, &traffic->flows[i]);
    }
    if (!good) fail_transfer(s, t);
    for (int32_t i = 0; t->first < t->n; i++) {
        if (wait_flow(s, t, &traffic->flows[i])) continue;
        good = false;
        fail_transfer(s, t);
    }
    deactivate(s, t);
    if (t->alone) sim_alone_done(s, t);
    return good && !s->stopped;
}

static void complete(sim_step *s, sim_transfer *t, double end)
{
    s->driver_here = true;
    if (t->execution) sim_execution_done(t->job, end);
    else if (t->gather) sim_gather_done(t->gather, t->start, end);
    else sim_message_done(t, end);
    s->driver_here = false;
}

static void drive_whole(sim_driver *d, sim_transfer *t)
{
    sim_step *s = d->step;
    const bool good = drive_flows(d, t);
    s->in_flight -= t->traffic->nflows;
    if (good) complete(s, t, sim_now(s));
}

static void drive_execution(sim_step *s, sim_transfer *t)
{
    double end = 0;
    const luo_status st = sim_execute(t->job, &end);
    if (st == LUO_OK) complete(s, t, end);
    else if (!s->stopped) sim_step_fail(s, st, t->job->rank->class->program->device, -1);
}

/* ---- one edge of a ring, step by step ---- */

static bool drive_step(sim_step *s, sim_transfer *t, const sim_flow *f)
{
    const sim_edge_left left = t->left;
    const double part = t->factor / t->ring->steps * (left.delay_s < 0 ? 1 : left.part);
    const double delay = left.delay_s < 0 ? delay_of(s, t, f) / t->ring->steps : left.delay_s;
    sg_comm_t comm[1];
    sim_transfer one = {.traffic = t->traffic, .factor = part, .comm = comm};
    t->left.delay_s = -1;
    sim_sleep_until(s, sim_now(s) + delay);
    if (s->stopped || !start_flow(s, &one, f)) {
        fail_transfer(s, t);
        return false;
    }
    activate(s, &one);
    const bool good = wait_flow(s, &one, f);
    deactivate(s, &one);
    if (!good) fail_transfer(s, t);
    return good && !s->stopped;
}

static void drive_edge(sim_step *s, sim_driver *d, sim_transfer *t)
{
    sim_ring *ring = t->ring;
    const int32_t n = t->traffic->nflows, before = (t->edge + n - 1) % n, next = (t->edge + 1) % n;
    sim_sleep_until(s, t->start);
    for (int32_t k = ring->done[t->edge]; k < ring->steps; k++) {
        while (k > 0 && ring->done[before] < k && !s->stopped) {
            ring->waiter[t->edge] = d;
            driver_wait(d);
        }
        ring->waiter[t->edge] = NULL;
        if (s->stopped || !drive_step(s, t, &t->traffic->flows[t->edge])) return;
        ring->done[t->edge]++;
        sim_driver_wake(ring->waiter[next]);
    }
    if (--ring->left > 0) return;
    s->in_flight -= n;
    complete(s, t, sim_now(s));
}

static void push_ready(sim_step *s, sim_transfer *t);

/* left NULL: none of them has begun. */
static void push_edges(sim_step *s, const sim_transfer *whole, const sim_edge_left *left)
{
    const int32_t n = whole->traffic->nflows;
    sim_transfer *edges = LUO_NEW_N(s->arena, sim_transfer, n);
    if (!edges) {
        sim_step_fail(s, LUO_ENOMEM, -1, -1);
        return;
    }
    for (int32_t i = 0; i < n; i++) {
        edges[i] = (sim_transfer){.traffic = whole->traffic, .start = whole->start,
                                  .factor = whole->factor, .hops = whole->hops,
                                  .gather = whole->gather, .ring = whole->ring, .edge = i,
                                  .left = left ? left[i] : (sim_edge_left){-1, 1}, .broken = -1};
        push_ready(s, &edges[i]);
    }
}

static void drive_ring(sim_step *s, sim_driver *d, sim_transfer *t)
{
    double end_s = 0;
    sim_sleep_until(s, t->start);
    if (s->stopped) return;
    t->driver = d;
    t->alone = sim_ring_alone(s, t, &end_s);
    if (!t->alone) {
        push_edges(s, t, NULL);
        return;
    }
    activate(s, t);
    while (t->alone && !s->stopped && t->start + end_s > sim_now(s) + SIM_INSTANT)
        driver_wait_until(d, t->start + end_s);
    deactivate(s, t);
    if (s->stopped) return;
    if (!t->alone) { /* somebody came: edges go on one by one */
        push_edges(s, t, t->stand);
        return;
    }
    sim_edge_left *left = LUO_NEW_N(s->arena, sim_edge_left, t->traffic->nflows);
    if (!left || !sim_ring_stand(s, t, end_s, left)) sim_step_fail(s, LUO_ENOMEM, -1, -1);
    sim_alone_done(s, t);
    s->in_flight -= t->traffic->nflows;
    if (!s->stopped) complete(s, t, sim_now(s));
}

/* ---- drivers ---- */

static void put_back(sim_step *s, sim_transfer *t)
{
    t->next = s->free_transfers;
    s->free_transfers = t;
}

static void drive(sim_driver *d, sim_transfer *t)
{
    sim_step *s = d->step;
    if (t->ring) { /* edges of one ring know each other */
        if (t->edge < 0) drive_ring(s, d, t);
        else drive_edge(s, d, t);
        return;
    }
    if (t->broken >= 0) {
        sim_sleep_until(s, t->start);
        sim_step_fail(s, LUO_EPEER, -1, t->broken);
    } else if (t->execution) {
        drive_execution(s, t);
    } else if (t->talk) {
        sim_talk_drive(t);
    } else {
        drive_whole(d, t);
    }
    put_back(s, t);
}

static sim_transfer *take(sim_step *s)
{
    sim_transfer *t = s->ready;
    if (!t) return NULL;
    s->ready = t->next;
    if (!s->ready) s->ready_last = NULL;
    s->nready--;
    return t;
}

static void driver_main(int argc, char **argv);

static void call_driver(sim_step *s)
{
    s->called++;
    sim_driver *d = s->idle;
    if (d) {
        s->idle = d->next_idle;
        sim_driver_wake(d);
        return;
    }
    d = LUO_NEW(s->arena, sim_driver);
    if (!d) {
        sim_step_fail(s, LUO_ENOMEM, -1, -1);
        return;
    }
    *d = (sim_driver){.step = s, .sem = sg_sem_init(0), .next = s->drivers};
    s->drivers = d;
    sg_actor_t actor = sg_actor_init("driver", s->grid->control);
    sg_actor_set_data(actor, d);
    sg_actor_start(actor, driver_main, 0, NULL);
}

/* One driver on its way per ready transfer; `here`: the running one takes one as well. */
static void call_drivers(sim_step *s, int32_t here)
{
    while (s->called + here < s->nready && !s->stopped) call_driver(s);
}

static void driver_main(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    sim_driver *d = sg_actor_get_data(sg_actor_self());
    sim_step *s = d->step;
    s->called--;
    while (!s->over && !s->stopped) {
        sim_transfer *t = take(s);
        call_drivers(s, 0);
        if (t) {
            drive(d, t);
            continue;
        }
        d->next_idle = s->idle;
        s->idle = d;
        driver_wait(d);
        s->called--;
    }
}

void sim_drivers_wake(sim_step *s)
{
    s->idle = NULL;
    for (sim_driver *d = s->drivers; d; d = d->next) sim_driver_wake(d);
}

/* ---- transfers ---- */

/* A class may be late with what could have begun before: it begins now. */
static void push_ready(sim_step *s, sim_transfer *t)
{
    t->start = fmax(t->start, sim_now(s));
    if (s->ready_last) s->ready_last->next = t;
    else s->ready = t;
    s->ready_last = t;
    s->nready++;
    call_drivers(s, s->driver_here);
}

/* ---- beginnings ---- */

/* Storage is shared by all, so it is never done in closed form but for want of room. */
static bool in_closed_form(sim_step *s, const sim_transfer *t)
{
    const bool storage = !t->gather && !t->post;
    if (s->net->config->comm == LUO_COMM_MODEL && !storage) return true;
    if (s->in_flight + t->traffic->nflows <= SIM_FLOWS_MAX) return false;
    s->closed_instead++;
    return true;
}

/* A transfer makes each of its wires busy once, however many of its flows share it. Others at the
 * same time are not seen here: links then are busy for the sum, at most for the step. */
void sim_wires_busy(sim_step *s, const sim_traffic *t, double seconds)
{
    s->closed++;
    for (int32_t i = 0; i < t->nflows; i++)
        for (int32_t w = 0; w < t->flows[i].nwires; w++) {
            const int32_t wire = t->flows[i].wire[w];
            if (s->closed_on[wire] == s->closed) continue;
            s->closed_on[wire] = s->closed;
            s->busy_s[wire] += seconds;
        }
}

static void done_here(sim_step *s, sim_transfer *t, double end)
{
    sim_wires_busy(s, t->traffic, end - t->start);
    t->moved_s = t->start;
    if (t->gather) sim_gather_done(t->gather, t->start, end);
    else sim_message_done(t, end);
}

void sim_break_at(sim_step *s, double at, int32_t link)
{
    sim_transfer *t = LUO_NEW(s->arena, sim_transfer);
    if (!t) {
        sim_step_fail(s, LUO_ENOMEM, -1, -1);
        return;
    }
    *t = (sim_transfer){.start = at, .broken = link};
    push_ready(s, t);
}

void sim_transfer_begin(sim_step *s, sim_transfer *t)
{
    if (t->execution || t->talk) {
        push_ready(s, t);
        return;
    }
    s->runs[t->traffic - s->net->traffics]++;
    if (t->traffic->nflows == 0) {
        done_here(s, t, t->start);
        put_back(s, t);
    } else if (in_closed_form(s, t)) {
        const double before = t->post ? t->post->before_s * t->factor : 0;
        const double end =
            sim_closed_end(s, t->traffic, t->start, before, t->factor, &t->broken);
        if (t->broken < 0) {
            done_here(s, t, end);
            put_back(s, t);
            return;
        }
        t->start = end;
        push_ready(s, t);
    } else {
        s->in_flight += t->traffic->nflows;
        push_ready(s, t);
    }
}

void sim_ring_begin(sim_step *s, sim_gather *g, const sim_traffic *traffic, double start)
{
    const int32_t n = traffic->nflows;
    sim_ring *ring = LUO_NEW(s->arena, sim_ring);
    sim_transfer *whole = LUO_NEW(s->arena, sim_transfer);
    int32_t *done = LUO_NEW_N(s->arena, int32_t, n);
    struct sim_driver **waiter = LUO_NEW_N(s->arena, sim_driver *, n);
    if (!ring || !whole || !done || !waiter) {
        sim_step_fail(s, LUO_ENOMEM, -1, -1);
        return;
    }
    *ring = (sim_ring){g, n, traffic->hops, done, waiter};
    s->runs[traffic - s->net->traffics]++;
    s->in_flight += n;
    *whole = (sim_transfer){.traffic = traffic, .start = start, .factor = g->factor,
                            .hops = traffic->hops, .gather = g, .ring = ring, .edge = -1,
                            .broken = -1};
    push_ready(s, whole);
}
