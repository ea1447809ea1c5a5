/* alone.c: transfers that have their wires to themselves.
 *
 * Flows that meet nobody but each other always take the same course, so it is worked out once per
 * traffic, and SimGrid need not hear of them. Such a transfer owns its wires until it is done or
 * another one comes to one of them: then SimGrid gets what is left. Loose wires hold nothing up
 * whoever uses them, so nobody owns them. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sim/step/ring.h"

enum { TURNS = 64 }; /* of the rates: a course that has more is SimGrid's */

static bool is_loose(const sim_step *step, int32_t wire)
{
    return step->net->loose[wire] && step->grid->wire_factor[wire] >= 1;
}

/* ---- the course of a traffic that is alone ---- */

typedef struct fluid {
    sim_step *s;
    const sim_traffic *t;
    double now;          /* since the transfer's start */
    int32_t begun;       /* flows[0..begun) have */
    double *begin, *left, *rate, *end; /* per flow; end -1: not yet */
    double *room;        /* per wire of the net .. */
    int32_t *users;      /* .. not given away, and flows that have no rate yet */
} fluid;

static bool runs(const fluid *x, int32_t i)
{
    return i < x->begun && x->end[i] < 0;
}

static double fair(const fluid *x, int32_t wire)
{
    return x->room[wire] / x->users[wire];
}

/* Flows that a wire of the least fair share holds up get it. */
static int32_t settle(fluid *x, double least)
{
    int32_t n = 0;
    for (int32_t i = 0; i < x->begun; i++) {
        const sim_flow *flow = &x->t->flows[i];
        bool tight = false;
        if (!runs(x, i) || x->rate[i] >= 0) continue;
        for (int32_t w = 0; w < flow->nwires; w++)
            tight = tight || fair(x, flow->wire[w]) <= least * (1 + 1e-12);
        if (tight) x->rate[i] = -2;
    }
    for (int32_t i = 0; i < x->begun; i++) {
        const sim_flow *f = &x->t->flows[i];
        if (x->rate[i] != -2) continue;
        x->rate[i] = least;
        n++;
        for (int32_t w = 0; w < f->nwires; w++) {
            x->room[f->wire[w]] -= least;
            x->users[f->wire[w]]--;
        }
    }
    return n;
}

/* Max-min fair rates, as SimGrid has them. */
static void share(fluid *x)
{
    int32_t open = 0;
    for (int32_t i = 0; i < x->begun; i++) {
        const sim_flow *flow = &x->t->flows[i];
        x->rate[i] = -1;
        for (int32_t w = 0; w < flow->nwires; w++) {
            x->users[flow->wire[w]] = 0;
            x->room[flow->wire[w]] = sim_grid_room(x->s->grid, flow->wire[w]);
        }
    }
    for (int32_t i = 0; i < x->begun; i++) {
        if (!runs(x, i)) continue;
        open++;
        for (int32_t w = 0; w < x->t->flows[i].nwires; w++) x->users[x->t->flows[i].wire[w]]++;
    }
    while (open > 0) {
        double least = HUGE_VAL;
        for (int32_t i = 0; i < x->begun; i++)
            for (int32_t w = 0; runs(x, i) && x->rate[i] < 0 && w < x->t->flows[i].nwires; w++)
                least = fmin(least, fair(x, x->t->flows[i].wire[w]));
        open -= settle(x, least);
    }
}

/* Until the next flow begins or ends, or `until`. */
static double next_turn(const fluid *x, double until)
{
    double at = x->begun < x->t->nflows ? fmin(until, x->begin[x->begun]) : until;
    for (int32_t i = 0; i < x->begun; i++)
        if (runs(x, i)) at = fmin(at, x->now + x->left[i] / x->rate[i]);
    return at;
}

static bool any_left(const fluid *x)
{
    if (x->begun < x->t->nflows) return true;
    for (int32_t i = 0; i < x->begun; i++)
        if (x->end[i] < 0) return true;
    return false;
}

static void turn(fluid *x, double at)
{
    for (int32_t i = 0; i < x->begun; i++) {
        if (!runs(x, i)) continue;
        const double ends = x->now + x->left[i] / x->rate[i];
        x->left[i] -= (at - x->now) * x->rate[i];
        if (ends <= at * (1 + 1e-12)) x->end[i] = at;
    }
    x->now = at;
    for (; x->begun < x->t->nflows && x->begin[x->begun] <= at; x->begun++)
        if (!sim_flow_carries(&x->t->flows[x->begun])) x->end[x->begun] = at;
}

/* No actor may run while one of these is at work: room and users are the step's. */
static bool prepare(fluid *x, sim_step *step, const sim_traffic *traffic)
{
    const size_t n = (size_t)traffic->nflows;
    double *at = malloc(4 * n * sizeof *at + 1);
    *x = (fluid){step, traffic, 0, 0, at, at + n, at + 2 * n, at + 3 * n, step->room, step->users};
    if (!at) return false;
    for (int32_t i = 0; i < traffic->nflows; i++) {
        const sim_flow *flow = &traffic->flows[i];
        const double extra =
            step->links_quiet ? 0 : sim_grid_extra(step->grid, flow) * traffic->hops;
        x->begin[i] = fmax(i > 0 ? x->begin[i - 1] : 0, flow->delay_s + extra);
        x->left[i] = sim_grid_bytes(flow, 1);
        x->end[i] = -1;
    }
    return true;
}

/* Lets the flows run up to `until`. False: the rates change too often. */
static bool run(fluid *x, double until)
{
    turn(x, 0);
    for (int32_t k = 0; x->now < until && any_left(x); k++) {
        if (k == TURNS) return false;
        share(x);
        turn(x, next_turn(x, until));
    }
    return true;
}

/* Known already for the links as they are, or worked out. end NULL: it is SimGrid's. */
static const sim_course *course_of(sim_step *step, const sim_traffic *traffic)
{
    sim_course *course = &step->courses[traffic - step->net->traffics];
    fluid x;
    if (course->changes == step->grid->changes + 1) return course;
    const size_t bytes = (size_t)traffic->nflows * sizeof *course->end;
    if (!course->room) course->room = luo_arena_alloc(step->kept, bytes);
    course->changes = step->grid->changes + 1;
    course->end = NULL;
    if (course->room && prepare(&x, step, traffic)) {
        if (run(&x, HUGE_VAL)) course->end = memcpy(course->room, x.end, bytes);
        free(x.begin);
    }
    return course;
}

/* ---- wires of one's own ---- */

static void leave(sim_step *step, const sim_transfer *transfer)
{
    for (int32_t i = 0; i < transfer->traffic->nflows; i++) {
        const sim_flow *flow = &transfer->traffic->flows[i];
        for (int32_t w = 0; w < flow->nwires; w++)
            if (step->owner[flow->wire[w]] == transfer) step->owner[flow->wire[w]] = NULL;
    }
}

static bool own(sim_step *step, sim_transfer *transfer, const sim_flow *flow)
{
    for (int32_t i = 0; i < flow->nwires; i++) {
        const int32_t w = flow->wire[i];
        if (step->grid->wire_factor[w] <= 0 || sim_wire_is_shared(step->net, w)) return false;
        if (is_loose(step, w) || step->owner[w] == transfer) continue;
        if (step->busy[w] > 0 || step->owner[w]) return false;
        step->owner[w] = transfer;
    }
    return true;
}

bool sim_alone_take(sim_step *step, sim_transfer *transfer)
{
    bool alone = !step->links_change;
    for (int32_t i = 0; alone && i < transfer->traffic->nflows; i++)
        alone = own(step, transfer, &transfer->traffic->flows[i]);
    if (!alone) leave(step, transfer);
    return alone;
}

/* Noise makes bytes and delays longer, but not what a link adds. */
bool sim_alone_begin(sim_step *step, sim_transfer *transfer)
{
    if (transfer->factor != 1 && !step->links_quiet) return false;
    if (!sim_alone_take(step, transfer)) return false;
    if (course_of(step, transfer->traffic)->end) return true;
    leave(step, transfer);
    return false;
}

double sim_alone_date(const sim_step *step, const sim_transfer *transfer, int32_t flow)
{
    return transfer->start +
           transfer->factor * step->courses[transfer->traffic - step->net->traffics].end[flow];
}

void sim_alone_done(sim_step *step, sim_transfer *transfer)
{
    leave(step, transfer);
    transfer->alone = false;
}

/* SimGrid gets what is left of flows that have begun; the others begin there. Other actors may run
 * meanwhile. */
static void hand_over(sim_step *step, sim_transfer *transfer)
{
    const int32_t n = transfer->n;
    fluid x;
    if (!prepare(&x, step, transfer->traffic)) {
        sim_step_fail(step, LUO_ENOMEM, -1, -1);
        return;
    }
    run(&x, (sim_now(step) - transfer->start) / transfer->factor);
    for (int32_t i = 0; i < n && !step->stopped; i++)
        if (x.end[i] < 0 && x.left[i] > 0)
            transfer->comm[i] = sim_grid_start(step->grid, &transfer->traffic->flows[i],
                                               fmax(1, x.left[i] * transfer->factor));
    free(x.begin);
}

/* The same of a ring: its edges begin when its driver runs, at this date. */
static void hand_over_ring(sim_step *step, sim_transfer *transfer)
{
    transfer->stand = LUO_NEW_N(step->arena, sim_edge_left, transfer->traffic->nflows);
    if (!transfer->stand ||
        !sim_ring_stand(step, transfer, sim_now(step) - transfer->start, transfer->stand))
        sim_step_fail(step, LUO_ENOMEM, -1, -1);
}

static void end_alone(sim_step *step, sim_transfer *transfer)
{
    transfer->handed = true;
    sim_alone_done(step, transfer);
    if (transfer->ring)
        hand_over_ring(step, transfer);
    else if (!step->stopped && sim_transfer_comms(step, transfer))
        hand_over(step, transfer);
    transfer->handed = false;
    sim_driver_wake(transfer->driver);
}

void sim_alone_disturb(sim_step *step, const sim_flow *flow)
{
    for (int32_t i = 0; i < flow->nwires;) {
        sim_transfer *owner = step->owner[flow->wire[i]];
        if (owner) end_alone(step, owner);
        i = owner ? 0 : i + 1; /* others may have come meanwhile */
    }
}

void sim_alone_end_all(sim_step *step)
{
    for (sim_transfer *transfer = step->active, *next; transfer; transfer = next) {
        next = transfer->after;
        if (!transfer->alone) continue;
        end_alone(step, transfer);
        next = step->active; /* the list may be another one by now */
    }
}
