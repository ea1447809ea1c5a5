/* coord_step.c: one step or one switch of all ranks, and how it ended. */
#include <math.h>
#include <stdio.h>

#include "exec/clock.h"
#include "exec/coordinator/coord.h"

static luo_status empty_result(luo_backend_state *backend, const luo_step_request *request,
                               luo_step_result *out, luo_err *err)
{
    const int32_t n = request->programs->n;
    luo_parts *parts = LUO_NEW_N(backend->last, luo_parts, n);
    double *zero = LUO_NEW_N(backend->last, double, n);
    if (!parts || !zero) return luo_err_nomem(err);
    const double now = luo_coord_time(backend, luo_clock_s());
    *out = (luo_step_result){.start_s = now,
                             .end_s = now,
                             .failed_device = -1,
                             .failed_link = -1,
                             .n = n,
                             .parts = parts,
                             .compute_s = zero,
                             .predicted_s = zero};
    return LUO_OK;
}

/* ---- failures ---- */

/* A process is gone: all of them have to start again. */
static luo_status tell_death(luo_backend_state *backend, const luo_step_request *request,
                             luo_step_result *out)
{
    const luo_workers *workers = &backend->workers;
    out->status = LUO_EPEER;
    out->died = true;
    out->failed_device = workers->loss.rank >= 0 ? workers->at[workers->loss.rank].device : -1;
    out->end_s = fmax(out->start_s, luo_coord_time(backend, workers->loss.at_s));
    snprintf(out->text, sizeof out->text,
             "%.600s in step %lld, noticed at %.3f s; all processes have to start again.",
             workers->loss.text, (long long)request->step,
             luo_coord_time(backend, workers->loss.at_s));
    backend->dead = false;
    luo_coord_forget_jobs(backend);
    return LUO_OK;
}

static luo_status tell_stuck(luo_backend_state *backend, const luo_step_request *request,
                             luo_step_result *out)
{
    const luo_workers *workers = &backend->workers;
    int32_t r = 0;
    out->status = LUO_ESTUCK;
    out->end_s = luo_coord_time(backend, luo_clock_s());
    while (r < workers->n && !(workers->at[r].answered && workers->at[r].status == LUO_ESTUCK)) r++;
    if (r < workers->n) /* its own watchdog was first, and knows what it waited for */
        snprintf(out->text, sizeof out->text, "%s", workers->at[r].text);
    else
        luo_coord_stuck_text(workers, request->programs, backend->options->stuck_s, request->step,
                             out->text, sizeof out->text);
    luo_workers_drop(&backend->workers);
    luo_coord_forget_jobs(backend);
    return LUO_OK;
}

static void tell_device(const luo_backend_state *backend, int32_t device, double at_s,
                        luo_step_result *out)
{
    out->status = LUO_EPEER;
    out->failed_device = device;
    out->end_s = fmax(out->start_s, luo_coord_time(backend, at_s));
    snprintf(out->text, sizeof out->text, "device %d failed in the step.",
             device);
}

static void tell_link(const luo_backend_state *backend, int32_t link, double at_s,
                      luo_step_result *out)
{
    out->status = LUO_EPEER;
    out->failed_link = link;
    out->end_s = fmax(out->start_s, luo_coord_time(backend, at_s));
    snprintf(out->text, sizeof out->text, "link `%s` failed while in use.",
             backend->config.cluster->links[link].name);
}

/* What fails before anything was sent. */
static bool refused(const luo_backend_state *backend, const luo_coord_orders *orders,
                    luo_step_result *out)
{
    const double now = backend->t0 + out->start_s;
    if (orders->down >= 0) {
        tell_device(backend, orders->down, now, out);
        snprintf(out->text, sizeof out->text, "device %d is down when the step begins.",
                 orders->down);
    } else if (orders->broken >= 0 && orders->break_s <= now) {
        tell_link(backend, orders->broken, now, out);
    }
    return out->status != LUO_OK;
}

/* ---- a command to all, each with orders of its own ---- */

typedef struct round {
    luo_backend_state *b;
    const luo_step_request *q;
    const luo_coord_orders *orders;
    luo_workers_wait wait;
} round_trip;

static luo_status send_step(const round_trip *trip, int32_t job, luo_err *err)
{
    luo_workers *workers = &trip->b->workers;
    luo_wire wire = {0};
    luo_status st = LUO_OK;
    luo_workers_begin(workers, &wire);
    for (int32_t r = 0; st == LUO_OK && r < workers->n; r++) {
        wire.len = 0;
        luo_wire_put_int(&wire, workers->serial);
        luo_wire_put_int(&wire, trip->b->job[job].id);
        luo_message_put_step_order(&wire, &trip->orders->at[r], workers->asked_s);
        st = luo_workers_send(workers, r, LUO_SAY_STEP, &wire, err);
    }
    luo_wire_free(&wire);
    return st;
}

static luo_status send_move(const round_trip *trip, int32_t from, int32_t to,
                            const luo_recipe *recipe, luo_err *err)
{
    luo_workers *workers = &trip->b->workers;
    luo_wire wire = {0};
    luo_status st = LUO_OK;
    const luo_step_order quiet = {.withdraw_s = INFINITY, .kill_s = INFINITY};
    luo_workers_begin(workers, &wire);
    for (int32_t r = 0; st == LUO_OK && r < workers->n; r++) {
        wire.len = 0;
        luo_wire_put_int(&wire, workers->serial);
        luo_wire_put_int(&wire, trip->b->job[from].id);
        luo_wire_put_int(&wire, trip->b->job[to].id);
        luo_wire_put_int(&wire, recipe ? recipe->ndead : 0);
        for (int32_t i = 0; recipe && i < recipe->ndead; i++)
            luo_wire_put_int(&wire, recipe->dead[i]);
        luo_wire_put_int(&wire, trip->q ? (int64_t)trip->q->programs->hash : 0);
        luo_message_put_step_order(&wire, trip->orders ? &trip->orders->at[r] : &quiet,
                                   workers->asked_s);
        st = luo_workers_send(workers, r, LUO_SAY_MOVE, &wire, err);
    }
    luo_wire_free(&wire);
    return st;
}

static luo_status wait_for(round_trip *trip, const char *what, luo_err *err)
{
    trip->wait = (luo_workers_wait){.what = what,
                                    .stuck_s = trip->b->options->stuck_s,
                                    .abort_s = trip->orders ? trip->orders->break_s : INFINITY};
    const luo_status st = luo_workers_wait_all(&trip->b->workers, &trip->wait, err);
    if (st == LUO_EPEER) trip->b->dead = true;
    return st == LUO_OK ? luo_workers_answers(&trip->b->workers, err) : st;
}

luo_status luo_coord_hold(luo_backend_state *backend, int32_t job, luo_err *err)
{
    round_trip trip = {.b = backend};
    if (backend->holder == job) return LUO_OK;
    if (backend->holder < 0)
        return luo_err_set(err, LUO_EBUG,
                           "no state was made or loaded; luo_backend.state has to "
                           "be called first.");
    LUO_TRY(send_move(&trip, backend->holder, job, NULL, err));
    LUO_TRY(wait_for(&trip, "bind the state again", err));
    backend->holder = job;
    return LUO_OK;
}

/* ---- how it ended ---- */

/* A step that was drained because a device withdrew or a link broke; otherwise it is our fault. */
static luo_status tell_drained(const round_trip *trip, luo_step_result *out, luo_err *err)
{
    luo_backend_state *backend = trip->b;
    const luo_workers_wait *wait = &trip->wait;
    if (wait->withdrew >= 0)
        tell_device(backend, backend->workers.at[wait->withdrew].device, wait->withdrew_s, out);
    else if (wait->drained_s >= 0)
        tell_link(backend, trip->orders->broken, wait->drained_s, out);
    else
        return luo_err_set(err, LUO_EBUG, "ranks drained a step that nobody had aborted.");
    return LUO_OK;
}

static luo_status run_step(round_trip *trip, luo_step_result *out, luo_err *err)
{
    luo_backend_state *backend = trip->b;
    const luo_recipe *recipe = trip->q->recipe;
    int32_t job;
    LUO_TRY(luo_coord_prepare(backend, recipe->plan, recipe->sequence_tokens, trip->q->programs,
                              &job, err));
    LUO_TRY(luo_coord_hold(backend, job, err));
    LUO_TRY(send_step(trip, job, err));
    LUO_TRY(wait_for(trip, "go on", err));
    out->end_s = luo_coord_time(backend, luo_clock_s());
    LUO_TRY(luo_coord_result(backend, trip->q, out, err));
    if (out->status == LUO_ECANCELED) LUO_TRY(tell_drained(trip, out, err));
    if (out->status == LUO_OK) LUO_TRY(luo_coord_dump(backend, trip->q, err));
    return LUO_OK;
}

/* The job to leave keeps its state until every rank has said that the move is done. */
static luo_status run_switch(round_trip *trip, luo_step_result *out, luo_err *err)
{
    luo_backend_state *backend = trip->b;
    const luo_recipe *recipe = trip->q->recipe;
    int32_t job;
    if (backend->holder < 0 || backend->job[backend->holder].plan != luo_plan_hash(recipe->from))
        return luo_err_set(err, LUO_EBUG, "a switch leaves a plan that does not hold the state.");
    LUO_TRY(luo_coord_prepare(backend, recipe->plan, recipe->sequence_tokens, NULL, &job, err));
    LUO_TRY(send_move(trip, backend->holder, job, recipe, err));
    LUO_TRY(wait_for(trip, "go on with the switch", err));
    out->end_s = luo_coord_time(backend, luo_clock_s());
    LUO_TRY(luo_coord_result(backend, trip->q, out, err));
    if (out->status == LUO_ECANCELED) return tell_drained(trip, out, err);
    if (out->status == LUO_OK) backend->holder = job;
    return LUO_OK;
}

static const char slow_note[] =
    "slow links delay point-to-point messages alone; collectives and switches go on at full speed";

/* One a step: who was refused, what rank 0 was warned of, what slow links mean. */
static const char *note_of(luo_backend_state *backend, bool slow_links)
{
    if (backend->workers.refused[0]) {
        char *text = luo_arena_strdup(backend->last, backend->workers.refused);
        backend->workers.refused[0] = 0;
        return text;
    }
    const bool warned = backend->warned;
    backend->warned = true;
    if (backend->device_info.warning[0] && !warned) return backend->device_info.warning;
    return slow_links ? slow_note : NULL;
}

luo_status luo_coord_run(luo_backend_state *backend, const luo_step_request *request,
                         luo_step_result *out, luo_err *err)
{
    luo_coord_orders orders;
    luo_err why = {0};
    luo_arena_reset(backend->last, 0);
    if (!request->recipe)
        return luo_err_set(err, LUO_EBUG,
                           "a backend of other processes needs the recipe of the "
                           "programs.");
    LUO_TRY(empty_result(backend, request, out, err));
    if (backend->dead) return tell_death(backend, request, out);
    if (!backend->workers.alive)
        return luo_err_set(err, LUO_EBUG,
                           "no processes run; luo_backend.state has to be called "
                           "first.");
    LUO_TRY(luo_coord_orders_make(backend->last, backend, request, &orders, err));
    if (refused(backend, &orders, out)) return LUO_OK;
    round_trip trip = {.b = backend, .q = request, .orders = &orders};
    const luo_status st =
        request->recipe->from ? run_switch(&trip, out, &why) : run_step(&trip, out, &why);
    out->note = note_of(backend, orders.slow_links && !request->recipe->from);
    if (st == LUO_EPEER && backend->dead) return tell_death(backend, request, out);
    if (st == LUO_ESTUCK) return tell_stuck(backend, request, out);
    return st == LUO_OK ? LUO_OK : luo_err_set(err, st, "%s", why.text);
}
