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

static void wire_on(sim_step *step, const sim_flow *flow)
{
    for (int32_t i = 0; i < flow->nwires; i++)
        if (step->busy[flow->wire[i]]++ == 0) step->busy_since[flow->wire[i]] = sim_now(step);
}

static void wire_off(sim_step *step, const sim_flow *flow)
{
    for (int32_t i = 0; i < flow->nwires; i++)
        if (--step->busy[flow->wire[i]] == 0)
            step->busy_s[flow->wire[i]] += sim_now(step) - step->busy_since[flow->wire[i]];
}

/* ---- sleeping and waking ---- */

static void driver_wait(sim_driver *driver)
{
    driver->blocked = true;
    sg_sem_acquire(driver->sem);
}

/* Until it is woken, and at most until that date, which lies ahead. False: it was not woken. */
static bool driver_wait_until(sim_driver *driver, double at)
{
    driver->blocked = true;
    const bool late = sg_sem_acquire_timeout(driver->sem, at - sim_now(driver->step));
    const bool woken = !driver->blocked;
    if (late && woken) sg_sem_acquire(driver->sem); /* at that date as well: not twice */
    driver->blocked = false;
    return woken;
}

void sim_driver_wake(sim_driver *driver)
{
    if (!driver || !driver->blocked) return;
    driver->blocked = false;
    sg_sem_release(driver->sem);
}

/* ---- active transfers, so that a failure can end them ---- */

static void activate(sim_step *step, sim_transfer *transfer)
{
    transfer->after = step->active;
    transfer->before = NULL;
    if (step->active) step->active->before = transfer;
    step->active = transfer;
}

static void deactivate(sim_step *step, sim_transfer *transfer)
{
    if (transfer->before)
        transfer->before->after = transfer->after;
    else
        step->active = transfer->after;
    if (transfer->after) transfer->after->before = transfer->before;
}

bool sim_transfer_comms(sim_step *step, sim_transfer *transfer)
{
    if (!transfer->comm)
        transfer->comm = LUO_NEW_N(step->arena, sg_comm_t, transfer->traffic->nflows);
    if (!transfer->comm) sim_step_fail(step, LUO_ENOMEM, -1, -1);
    return transfer->comm != NULL;
}

void sim_transfers_cancel(sim_step *step)
{
    for (sim_transfer *transfer = step->active; transfer; transfer = transfer->after)
        for (int32_t i = transfer->first; i < transfer->n; i++)
            if (transfer->comm && transfer->comm[i]) luo_shim_comm_cancel(transfer->comm[i]);
}

/* ---- one transfer ---- */

/* The cause of a transfer that failed: a link that is down, else an end (then the actor of dated
 * changes has said so already). */
static void fail_transfer(sim_step *step, const sim_transfer *transfer)
{
    if (!step->stopped)
        sim_step_fail(step, LUO_EPEER, -1, sim_grid_broken(step->grid, transfer->traffic));
}

static double delay_of(const sim_step *step, const sim_transfer *transfer, const sim_flow *flow)
{
    const double extra = step->links_quiet ? 0 : sim_grid_extra(step->grid, flow) * transfer->hops;
    return flow->delay_s * transfer->factor + extra;
}

static bool start_flow(sim_step *step, sim_transfer *transfer, const sim_flow *flow)
{
    const int32_t i = transfer->n;
    if (sim_flow_carries(flow)) {
        if (!transfer->alone) {
            sim_alone_disturb(step, flow);
            wire_on(step, flow); /* before others can run */
            transfer->comm[i] =
                sim_grid_start(step->grid, flow, sim_grid_bytes(flow, transfer->factor));
            if (!transfer->comm[i]) wire_off(step, flow);
            if (!transfer->comm[i]) return false;
        } else {
            wire_on(step, flow);
        }
    }
    transfer->n++;
    return true;
}

static bool wait_flow(sim_step *step, sim_transfer *transfer, const sim_flow *flow)
{
    const int32_t i = transfer->first++;
    bool early = true; /* a date that is reached may still differ by what the clock can't tell */
    while (transfer->handed) driver_wait(transfer->driver);
    while (early && transfer->alone && !step->stopped &&
           sim_alone_date(step, transfer, i) > sim_now(step) + SIM_INSTANT) {
        early = driver_wait_until(transfer->driver, sim_alone_date(step, transfer, i));
        while (transfer->handed) driver_wait(transfer->driver);
    }
    if (!sim_flow_carries(flow)) return true;
    const bool known =
        transfer->comm && transfer->comm[i]; /* else it has ended while it was alone */
    const sg_error_t st = known ? sg_comm_wait(transfer->comm[i]) : SG_OK;
    wire_off(step, flow);
    return st == SG_OK;
}

/* All flows, each after its delay (ascending). A transfer that fails waits for its other flows
 * before it says so: handles must be given back. */
static bool drive_flows(sim_driver *driver, sim_transfer *transfer)
{
    sim_step *step = driver->step;
    const sim_traffic *traffic = transfer->traffic;
    bool good = true;
    transfer->driver = driver;
    activate(step, transfer);
    for (int32_t i = 0; good && i < traffic->nflows; i++) {
        sim_sleep_until(step, transfer->start + delay_of(step, transfer, &traffic->flows[i]));
        if (i == 0) transfer->moved_s = sim_now(step);
        if (i == 0 && !step->stopped) transfer->alone = sim_alone_begin(step, transfer);
        if (!transfer->alone && !sim_transfer_comms(step, transfer)) return false;
        good = !step->stopped && start_flow(step, transfer, &traffic->flows[i]);
    }
    if (!good) fail_transfer(step, transfer);
    for (int32_t i = 0; transfer->first < transfer->n; i++) {
        if (wait_flow(step, transfer, &traffic->flows[i])) continue;
        good = false;
        fail_transfer(step, transfer);
    }
    deactivate(step, transfer);
    if (transfer->alone) sim_alone_done(step, transfer);
    return good && !step->stopped;
}

static void complete(sim_step *step, sim_transfer *transfer, double end)
{
    step->driver_here = true;
    if (transfer->execution)
        sim_execution_done(transfer->job, end);
    else if (transfer->gather)
        sim_gather_done(transfer->gather, transfer->start, end);
    else
        sim_message_done(transfer, end);
    step->driver_here = false;
}

static void drive_whole(sim_driver *driver, sim_transfer *transfer)
{
    sim_step *step = driver->step;
    const bool good = drive_flows(driver, transfer);
    step->in_flight -= transfer->traffic->nflows;
    if (good) complete(step, transfer, sim_now(step));
}

static void drive_execution(sim_step *step, sim_transfer *transfer)
{
    double end = 0;
    const luo_status st = sim_execute(transfer->job, &end);
    if (st == LUO_OK)
        complete(step, transfer, end);
    else if (!step->stopped)
        sim_step_fail(step, st, transfer->job->rank->class->program->device, -1);
}

/* ---- one edge of a ring, step by step ---- */

static bool drive_step(sim_step *step, sim_transfer *transfer, const sim_flow *flow)
{
    const sim_edge_left left = transfer->left;
    const double part =
        transfer->factor / transfer->ring->steps * (left.delay_s < 0 ? 1 : left.part);
    const double delay =
        left.delay_s < 0 ? delay_of(step, transfer, flow) / transfer->ring->steps : left.delay_s;
    sg_comm_t comm[1];
    sim_transfer one = {.traffic = transfer->traffic, .factor = part, .comm = comm};
    transfer->left.delay_s = -1;
    sim_sleep_until(step, sim_now(step) + delay);
    if (step->stopped || !start_flow(step, &one, flow)) {
        fail_transfer(step, transfer);
        return false;
    }
    activate(step, &one);
    const bool good = wait_flow(step, &one, flow);
    deactivate(step, &one);
    if (!good) fail_transfer(step, transfer);
    return good && !step->stopped;
}

static void drive_edge(sim_step *step, sim_driver *driver, sim_transfer *transfer)
{
    sim_ring *ring = transfer->ring;
    const int32_t n = transfer->traffic->nflows, before = (transfer->edge + n - 1) % n,
                  next = (transfer->edge + 1) % n;
    sim_sleep_until(step, transfer->start);
    for (int32_t k = ring->done[transfer->edge]; k < ring->steps; k++) {
        while (k > 0 && ring->done[before] < k && !step->stopped) {
            ring->waiter[transfer->edge] = driver;
            driver_wait(driver);
        }
        ring->waiter[transfer->edge] = NULL;
        if (step->stopped || !drive_step(step, transfer, &transfer->traffic->flows[transfer->edge]))
            return;
        ring->done[transfer->edge]++;
        sim_driver_wake(ring->waiter[next]);
    }
    if (--ring->left > 0) return;
    step->in_flight -= n;
    complete(step, transfer, sim_now(step));
}

static void push_ready(sim_step *step, sim_transfer *transfer);

/* left NULL: none of them has begun. */
static void push_edges(sim_step *step, const sim_transfer *whole, const sim_edge_left *left)
{
    const int32_t n = whole->traffic->nflows;
    sim_transfer *edges = LUO_NEW_N(step->arena, sim_transfer, n);
    if (!edges) {
        sim_step_fail(step, LUO_ENOMEM, -1, -1);
        return;
    }
    for (int32_t i = 0; i < n; i++) {
        edges[i] = (sim_transfer){.traffic = whole->traffic, .start = whole->start,
                                  .factor = whole->factor, .hops = whole->hops,
                                  .gather = whole->gather, .ring = whole->ring, .edge = i,
                                  .left = left ? left[i] : (sim_edge_left){-1, 1}, .broken = -1};
        push_ready(step, &edges[i]);
    }
}

static void drive_ring(sim_step *step, sim_driver *driver, sim_transfer *transfer)
{
    double end_s = 0;
    sim_sleep_until(step, transfer->start);
    if (step->stopped) return;
    transfer->driver = driver;
    transfer->alone = sim_ring_alone(step, transfer, &end_s);
    if (!transfer->alone) {
        push_edges(step, transfer, NULL);
        return;
    }
    activate(step, transfer);
    while (transfer->alone && !step->stopped &&
           transfer->start + end_s > sim_now(step) + SIM_INSTANT)
        driver_wait_until(driver, transfer->start + end_s);
    deactivate(step, transfer);
    if (step->stopped) return;
    if (!transfer->alone) { /* somebody came: edges go on one by one */
        push_edges(step, transfer, transfer->stand);
        return;
    }
    sim_edge_left *left = LUO_NEW_N(step->arena, sim_edge_left, transfer->traffic->nflows);
    if (!left || !sim_ring_stand(step, transfer, end_s, left))
        sim_step_fail(step, LUO_ENOMEM, -1, -1);
    sim_alone_done(step, transfer);
    step->in_flight -= transfer->traffic->nflows;
    if (!step->stopped) complete(step, transfer, sim_now(step));
}

/* ---- drivers ---- */

static void put_back(sim_step *step, sim_transfer *transfer)
{
    transfer->next = step->free_transfers;
    step->free_transfers = transfer;
}

static void drive(sim_driver *driver, sim_transfer *transfer)
{
    sim_step *step = driver->step;
    if (transfer->ring) { /* edges of one ring know each other */
        if (transfer->edge < 0)
            drive_ring(step, driver, transfer);
        else
            drive_edge(step, driver, transfer);
        return;
    }
    if (transfer->broken >= 0) {
        sim_sleep_until(step, transfer->start);
        sim_step_fail(step, LUO_EPEER, -1, transfer->broken);
    } else if (transfer->execution) {
        drive_execution(step, transfer);
    } else if (transfer->talk) {
        sim_talk_drive(transfer);
    } else {
        drive_whole(driver, transfer);
    }
    put_back(step, transfer);
}

static sim_transfer *take(sim_step *step)
{
    sim_transfer *transfer = step->ready;
    if (!transfer) return NULL;
    step->ready = transfer->next;
    if (!step->ready) step->ready_last = NULL;
    step->nready--;
    return transfer;
}

static void driver_main(int argc, char **argv);

static void call_driver(sim_step *step)
{
    step->called++;
    sim_driver *driver = step->idle;
    if (driver) {
        step->idle = driver->next_idle;
        sim_driver_wake(driver);
        return;
    }
    driver = LUO_NEW(step->arena, sim_driver);
    if (!driver) {
        sim_step_fail(step, LUO_ENOMEM, -1, -1);
        return;
    }
    *driver = (sim_driver){.step = step, .sem = sg_sem_init(0), .next = step->drivers};
    step->drivers = driver;
    step->nactors++;
    sg_actor_t actor = sg_actor_init("driver", step->grid->control);
    sg_actor_set_data(actor, driver);
    sg_actor_start(actor, driver_main, 0, NULL);
}

/* One driver on its way per ready transfer; `here`: the running one takes one as well. */
static void call_drivers(sim_step *step, int32_t here)
{
    while (step->called + here < step->nready && !step->stopped) call_driver(step);
}

static void driver_main(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    sim_driver *driver = sg_actor_get_data(sg_actor_self());
    sim_step *step = driver->step;
    step->called--;
    while (!step->over && !step->stopped) {
        sim_transfer *transfer = take(step);
        call_drivers(step, 0);
        if (transfer) {
            drive(driver, transfer);
            continue;
        }
        driver->next_idle = step->idle;
        step->idle = driver;
        driver_wait(driver);
        step->called--;
    }
    sim_actor_ends(step);
}

void sim_drivers_wake(sim_step *step)
{
    step->idle = NULL;
    for (sim_driver *driver = step->drivers; driver; driver = driver->next) sim_driver_wake(driver);
}

/* ---- transfers ---- */

/* A class may be late with what could have begun before: it begins now. */
static void push_ready(sim_step *step, sim_transfer *transfer)
{
    transfer->start = fmax(transfer->start, sim_now(step));
    if (step->ready_last)
        step->ready_last->next = transfer;
    else
        step->ready = transfer;
    step->ready_last = transfer;
    step->nready++;
    call_drivers(step, step->driver_here);
}

/* ---- beginnings ---- */

/* Storage is shared by all, so it is never done in closed form but for want of room. */
static bool in_closed_form(sim_step *step, const sim_transfer *transfer)
{
    const bool storage = !transfer->gather && !transfer->post;
    if (sim_step_comm(step) == LUO_COMM_MODEL && !storage) return true;
    if (step->in_flight + transfer->traffic->nflows <= SIM_FLOWS_MAX) return false;
    step->closed_instead++;
    return true;
}

/* A transfer makes each of its wires busy once, however many of its flows share it. Others at the
 * same time are not seen here: links then are busy for the sum, at most for the step. */
void sim_wires_busy(sim_step *step, const sim_traffic *traffic, double seconds)
{
    step->closed++;
    for (int32_t i = 0; i < traffic->nflows; i++)
        for (int32_t w = 0; w < traffic->flows[i].nwires; w++) {
            const int32_t wire = traffic->flows[i].wire[w];
            if (step->closed_on[wire] == step->closed) continue;
            step->closed_on[wire] = step->closed;
            step->busy_s[wire] += seconds;
        }
}

static void done_here(sim_step *step, sim_transfer *transfer, double end)
{
    sim_wires_busy(step, transfer->traffic, end - transfer->start);
    transfer->moved_s = transfer->start;
    if (transfer->gather)
        sim_gather_done(transfer->gather, transfer->start, end);
    else
        sim_message_done(transfer, end);
}

void sim_break_at(sim_step *step, double at, int32_t link)
{
    sim_transfer *transfer = LUO_NEW(step->arena, sim_transfer);
    if (!transfer) {
        sim_step_fail(step, LUO_ENOMEM, -1, -1);
        return;
    }
    *transfer = (sim_transfer){.start = at, .broken = link};
    push_ready(step, transfer);
}

void sim_transfer_begin(sim_step *step, sim_transfer *transfer)
{
    if (transfer->execution || transfer->talk) {
        push_ready(step, transfer);
        return;
    }
    step->runs[transfer->traffic - step->net->traffics]++;
    if (transfer->traffic->nflows == 0) {
        done_here(step, transfer, transfer->start);
        put_back(step, transfer);
    } else if (in_closed_form(step, transfer)) {
        const double before = transfer->post ? transfer->post->before_s * transfer->factor : 0;
        const double end = sim_closed_end(step, transfer->traffic, transfer->start, before,
                                          transfer->factor, &transfer->broken);
        if (transfer->broken < 0) {
            done_here(step, transfer, end);
            put_back(step, transfer);
            return;
        }
        transfer->start = end;
        push_ready(step, transfer);
    } else {
        step->in_flight += transfer->traffic->nflows;
        push_ready(step, transfer);
    }
}

void sim_ring_begin(sim_step *step, sim_gather *gather, const sim_traffic *traffic, double start)
{
    const int32_t n = traffic->nflows;
    sim_ring *ring = LUO_NEW(step->arena, sim_ring);
    sim_transfer *whole = LUO_NEW(step->arena, sim_transfer);
    int32_t *done = LUO_NEW_N(step->arena, int32_t, n);
    struct sim_driver **waiter = LUO_NEW_N(step->arena, sim_driver *, n);
    if (!ring || !whole || !done || !waiter) {
        sim_step_fail(step, LUO_ENOMEM, -1, -1);
        return;
    }
    *ring = (sim_ring){gather, n, traffic->hops, done, waiter};
    step->runs[traffic - step->net->traffics]++;
    step->in_flight += n;
    *whole = (sim_transfer){.traffic = traffic,
                            .start = start,
                            .factor = gather->factor,
                            .hops = traffic->hops,
                            .gather = gather,
                            .ring = ring,
                            .edge = -1,
                            .broken = -1};
    push_ready(step, whole);
}
