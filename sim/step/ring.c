/* ring.c: rings step by step (--comm message) that have their wires to themselves.
 *
 * Where no two edges share a wire, an edge begins step k when it and the edge before it have done
 * k - 1 of them, and takes its own time for it whoever else is at work: a recurrence, for which
 * SimGrid is not asked. When somebody else comes to one of the wires, or a link changes, edges go
 * on in SimGrid from where they are (drive.c), which is also the slow twin in the tests. */
#include "sim/step/ring.h"

#include <math.h>
#include <stdlib.h>

typedef struct pace { /* of an edge, per step */
    double delay_s, move_s, bytes; /* until bytes move; until they have */
} pace;

typedef struct round_trip {
    int32_t n, steps;
    pace *pace;
    double *end, *next; /* per edge: of the last step known, since the ring's start */
} round_trip;

static pace pace_of(const sim_step *step, const sim_transfer *transfer, const sim_flow *flow)
{
    const int32_t steps = transfer->ring->steps;
    const double extra = step->links_quiet ? 0 : sim_grid_extra(step->grid, flow) * transfer->hops;
    pace p = {.delay_s = (flow->delay_s * transfer->factor + extra) / steps};
    double room = HUGE_VAL;
    for (int32_t w = 0; w < flow->nwires; w++)
        room = fmin(room, sim_grid_room(step->grid, flow->wire[w]));
    if (!sim_flow_carries(flow)) return p;
    p.bytes = sim_grid_bytes(flow, transfer->factor / steps);
    p.move_s = p.bytes / room;
    return p;
}

static bool open_trip(round_trip *trip, const sim_step *step, const sim_transfer *transfer)
{
    const int32_t n = transfer->traffic->nflows;
    *trip =
        (round_trip){n, transfer->ring->steps, malloc((size_t)n * sizeof *trip->pace),
                     calloc((size_t)n, sizeof *trip->end), calloc((size_t)n, sizeof *trip->next)};
    if (!trip->pace || !trip->end || !trip->next) return false;
    for (int32_t e = 0; e < n; e++)
        trip->pace[e] = pace_of(step, transfer, &transfer->traffic->flows[e]);
    return true;
}

static void close_trip(round_trip *trip)
{
    free(trip->pace);
    free(trip->end);
    free(trip->next);
}

/* Dates at which edges begin their next step. */
static double begins(const round_trip *trip, int32_t e)
{
    return fmax(trip->end[e], trip->end[e > 0 ? e - 1 : trip->n - 1]);
}

static void advance(round_trip *trip)
{
    for (int32_t e = 0; e < trip->n; e++)
        trip->next[e] = begins(trip, e) + trip->pace[e].delay_s + trip->pace[e].move_s;
    double *was = trip->end;
    trip->end = trip->next;
    trip->next = was;
}

/* No wire is passed by two edges. No actor may run meanwhile: users is the step's. */
static bool edges_part(sim_step *step, const sim_traffic *traffic)
{
    bool apart = true;
    for (int pass = 0; pass < 2; pass++)
        for (int32_t e = 0; e < traffic->nflows; e++)
            for (int32_t w = 0; w < traffic->flows[e].nwires; w++) {
                const int32_t wire = traffic->flows[e].wire[w];
                if (pass == 0)
                    step->users[wire] = 0;
                else if (step->users[wire]++ > 0)
                    apart = false;
            }
    return apart;
}

bool sim_ring_alone(sim_step *step, sim_transfer *transfer, double *end_s)
{
    round_trip trip;
    if (!edges_part(step, transfer->traffic) || !sim_alone_take(step, transfer)) return false;
    const bool known = open_trip(&trip, step, transfer);
    *end_s = 0;
    for (int32_t k = 0; known && k < trip.steps; k++) advance(&trip);
    for (int32_t e = 0; known && e < trip.n; e++) *end_s = fmax(*end_s, trip.end[e]);
    close_trip(&trip);
    if (!known) sim_alone_done(step, transfer);
    return known;
}

/* The step under way at that date, of an edge that begins it at `begun`. */
static sim_edge_left left_of(const pace *p, double begun, double at)
{
    const double gone = at - begun - p->delay_s;
    if (gone < 0) return (sim_edge_left){fmin(p->delay_s, -gone), 1};
    return (sim_edge_left){0, p->move_s > 0 ? fmax(0, 1 - gone / p->move_s) : 0};
}

/* Bytes that have moved make their wires busy; what is left will do so in SimGrid. */
static void was_busy(sim_step *step, const sim_flow *flow, double seconds)
{
    for (int32_t w = 0; w < flow->nwires; w++) step->busy_s[flow->wire[w]] += seconds;
}

/* On wires that others pass as well, since nobody holds them up there, both count. */
bool sim_ring_stand(sim_step *step, const sim_transfer *transfer, double at, sim_edge_left *left)
{
    round_trip trip;
    sim_ring *ring = transfer->ring;
    const bool known = open_trip(&trip, step, transfer);
    for (int32_t e = 0; known && e < trip.n; e++) ring->done[e] = 0;
    for (int32_t k = 0; known && k < trip.steps; k++) {
        for (int32_t e = 0; e < trip.n; e++) {
            const pace *p = &trip.pace[e];
            const double begun = begins(&trip, e);
            if (ring->done[e] < k) continue; /* stands before */
            if (begun + p->delay_s + p->move_s <= at) ring->done[e]++;
            else left[e] = begun <= at ? left_of(p, begun, at) : (sim_edge_left){-1, 1};
        }
        advance(&trip);
    }
    for (int32_t e = 0; known && e < trip.n; e++) {
        const bool under_hop = ring->done[e] < trip.steps && left[e].delay_s >= 0;
        const double part = under_hop ? 1 - left[e].part : 0;
        was_busy(step, &transfer->traffic->flows[e], (ring->done[e] + part) * trip.pace[e].move_s);
    }
    close_trip(&trip);
    return known;
}
