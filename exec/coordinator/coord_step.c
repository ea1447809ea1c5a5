/* coord_step.c: one step or one switch of all ranks, and how it ended. */
#include <math.h>
#include <stdio.h>

#include "exec/clock.h"
#include "exec/coordinator/coord.h"

static luo_status empty_result(luo_backend_state *b, const luo_step_request *q,
                               luo_step_result *out, luo_err *err)
{
    const int32_t n = q->programs->n;
    luo_parts *parts = LUO_NEW_N(b->last, luo_parts, n);
    double *zero = LUO_NEW_N(b->last, double, n);
    if (!parts || !zero) return luo_err_nomem(err);
    const double now = luo_coord_time(b, luo_clock_s());
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
static luo_status tell_death(luo_backend_state *b, const luo_step_request *q, luo_step_result *out)
{
    const luo_workers *f = &b->workers;
    out->status = LUO_EPEER;
    out->died = true;
    out->failed_device = f->loss.rank >= 0 ? f->at[f->loss.rank].device : -1;
    out->end_s = fmax(out->start_s, luo_coord_time(b, f->loss.at_s));
    snprintf(out->text, sizeof out->text,
             "%.600s in step %lld, noticed at %.3f s; all processes have to start again.",
             f->loss.text, (long long)q->step, luo_coord_time(b, f->loss.at_s));
    b->dead = false;
    luo_coord_forget_jobs(b);
    return LUO_OK;
}

static luo_status tell_stuck(luo_backend_state *b, const luo_step_request *q, luo_step_result *out)
{
    const luo_workers *f = &b->workers;
    int32_t r = 0;
    out->status = LUO_ESTUCK;
    out->end_s = luo_coord_time(b, luo_clock_s());
    while (r < f->n && !(f->at[r].answered && f->at[r].status == LUO_ESTUCK)) r++;
    if (r < f->n) /* its own watchdog was first, and knows what it waited for */
        snprintf(out->text, sizeof out->text, "%s", f->at[r].text);
    else
        luo_coord_stuck_text(f, q->programs, b->options->stuck_s, q->step, out->text,
                             sizeof out->text);
    luo_workers_drop(&b->workers);
    luo_coord_forget_jobs(b);
    return LUO_OK;
}

static void tell_device(const luo_backend_state *b, int32_t device, double at_s,
                        luo_step_result *out)
{
    out->status = LUO_EPEER;
    out->failed_device = device;
    out->end_s = fmax(out->start_s, luo_coord_time(b, at_s));
    snprintf(out->text, sizeof out->text, "device %d failed in the step.",
             device);
}

static void tell_link(const luo_backend_state *b, int32_t link, double at_s, luo_step_result *out)
{
    out->status = LUO_EPEER;
    out->failed_link = link;
    out->end_s = fmax(out->start_s, luo_coord_time(b, at_s));
    snprintf(out->text, sizeof out->text,
             "link `%s` failed while in use.",
             b->config.cluster->links[link].name);
}

/* What fails before anything was sent. */
static bool refused(const luo_backend_state *b, const luo_coord_orders *o, luo_step_result *out)
{
    const double now = b->t0 + out->start_s;
    if (o->down >= 0) {
        tell_device(b, o->down, now, out);
        snprintf(out->text, sizeof out->text,
                 "device %d is down when the step begins.",
                 o->down);
    } else if (o->broken >= 0 && o->break_s <= now) {
        tell_link(b, o->broken, now, out);
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

static luo_status send_step(const round_trip *t, int32_t job, luo_err *err)
{
    luo_workers *f = &t->b->workers;
    luo_wire w = {0};
    luo_status st = LUO_OK;
    luo_workers_begin(f, &w);
    for (int32_t r = 0; st == LUO_OK && r < f->n; r++) {
        w.len = 0;
        luo_wire_put_int(&w, f->serial);
        luo_wire_put_int(&w, t->b->job[job].id);
        luo_put_step_order(&w, &t->orders->at[r], f->asked_s);
        st = luo_workers_send(f, r, LUO_SAY_STEP, &w, err);
    }
    luo_wire_free(&w);
    return st;
}

static luo_status send_move(const round_trip *t, int32_t from, int32_t to, const luo_recipe *recipe,
                            luo_err *err)
{
    luo_workers *f = &t->b->workers;
    luo_wire w = {0};
    luo_status st = LUO_OK;
    const luo_step_order quiet = {.withdraw_s = INFINITY, .kill_s = INFINITY};
    luo_workers_begin(f, &w);
    for (int32_t r = 0; st == LUO_OK && r < f->n; r++) {
        w.len = 0;
        luo_wire_put_int(&w, f->serial);
        luo_wire_put_int(&w, t->b->job[from].id);
        luo_wire_put_int(&w, t->b->job[to].id);
        luo_wire_put_int(&w, recipe ? recipe->ndead : 0);
        for (int32_t i = 0; recipe && i < recipe->ndead; i++) luo_wire_put_int(&w, recipe->dead[i]);
        luo_wire_put_int(&w, t->q ? (int64_t)t->q->programs->hash : 0);
        luo_put_step_order(&w, t->orders ? &t->orders->at[r] : &quiet, f->asked_s);
        st = luo_workers_send(f, r, LUO_SAY_MOVE, &w, err);
    }
    luo_wire_free(&w);
    return st;
}

static luo_status wait_for(round_trip *t, const char *what, luo_err *err)
{
    t->wait = (luo_workers_wait){.what = what,
                               .stuck_s = t->b->options->stuck_s,
                               .abort_s = t->orders ? t->orders->break_s : INFINITY};
    const luo_status st = luo_workers_wait_all(&t->b->workers, &t->wait, err);
    if (st == LUO_EPEER) t->b->dead = true;
    return st == LUO_OK ? luo_workers_answers(&t->b->workers, err) : st;
}

luo_status luo_coord_hold(luo_backend_state *b, int32_t job, luo_err *err)
{
    round_trip t = {.b = b};
    if (b->holder == job) return LUO_OK;
    if (b->holder < 0)
        return luo_err_set(err, LUO_EBUG,
                           "no state was made or loaded; luo_backend.state has to "
                           "be called first.");
    LUO_TRY(send_move(&t, b->holder, job, NULL, err));
    LUO_TRY(wait_for(&t, "bind the state again", err));
    b->holder = job;
    return LUO_OK;
}

/* ---- how it ended ---- */

/* A step that was drained because a device withdrew or a link broke; otherwise it is our fault. */
static luo_status tell_drained(const round_trip *t, luo_step_result *out, luo_err *err)
{
    luo_backend_state *b = t->b;
    const luo_workers_wait *w = &t->wait;
    if (w->withdrew >= 0)
        tell_device(b, b->workers.at[w->withdrew].device, w->withdrew_s, out);
    else if (w->drained_s >= 0)
        tell_link(b, t->orders->broken, w->drained_s, out);
    else
        return luo_err_set(err, LUO_EBUG, "ranks drained a step that nobody had aborted.");
    return LUO_OK;
}

static luo_status run_step(round_trip *t, luo_step_result *out, luo_err *err)
{
    luo_backend_state *b = t->b;
    const luo_recipe *r = t->q->recipe;
    int32_t job;
    LUO_TRY(luo_coord_prepare(b, r->plan, r->sequence_tokens, t->q->programs, &job, err));
    LUO_TRY(luo_coord_hold(b, job, err));
    LUO_TRY(send_step(t, job, err));
    LUO_TRY(wait_for(t, "go on", err));
    out->end_s = luo_coord_time(b, luo_clock_s());
    LUO_TRY(luo_coord_result(b, t->q, out, err));
    if (out->status == LUO_ECANCELED) LUO_TRY(tell_drained(t, out, err));
    if (out->status == LUO_OK) LUO_TRY(luo_coord_dump(b, r, t->q->step, err));
    return LUO_OK;
}

/* The job to leave keeps its state until every rank has said that the move is done. */
static luo_status run_switch(round_trip *t, luo_step_result *out, luo_err *err)
{
    luo_backend_state *b = t->b;
    const luo_recipe *r = t->q->recipe;
    int32_t job;
    if (b->holder < 0 || b->job[b->holder].plan != luo_plan_hash(r->from))
        return luo_err_set(err, LUO_EBUG, "a switch leaves a plan that does not hold the state.");
    LUO_TRY(luo_coord_prepare(b, r->plan, r->sequence_tokens, NULL, &job, err));
    LUO_TRY(send_move(t, b->holder, job, r, err));
    LUO_TRY(wait_for(t, "go on with the switch", err));
    out->end_s = luo_coord_time(b, luo_clock_s());
    LUO_TRY(luo_coord_result(b, t->q, out, err));
    if (out->status == LUO_ECANCELED) return tell_drained(t, out, err);
    if (out->status == LUO_OK) b->holder = job;
    return LUO_OK;
}

static const char slow_note[] =
    "slow links delay point-to-point messages alone; collectives and switches go on at full speed";

/* One a step: who was refused, what rank 0 was warned of, what slow links mean. */
static const char *note_of(luo_backend_state *b, bool slow_links)
{
    if (b->workers.refused[0]) {
        char *text = luo_arena_strdup(b->last, b->workers.refused);
        b->workers.refused[0] = 0;
        return text;
    }
    const bool warned = b->warned;
    b->warned = true;
    if (b->device_info.warning[0] && !warned) return b->device_info.warning;
    return slow_links ? slow_note : NULL;
}

luo_status luo_coord_run(luo_backend_state *b, const luo_step_request *q, luo_step_result *out,
                         luo_err *err)
{
    luo_coord_orders orders;
    luo_err why = {0};
    luo_arena_reset(b->last, 0);
    if (!q->recipe)
        return luo_err_set(err, LUO_EBUG,
                           "a backend of other processes needs the recipe of the "
                           "programs.");
    LUO_TRY(empty_result(b, q, out, err));
    if (b->dead) return tell_death(b, q, out);
    if (!b->workers.alive)
        return luo_err_set(err, LUO_EBUG,
                           "no processes run; luo_backend.state has to be called "
                           "first.");
    LUO_TRY(luo_coord_orders_make(b->last, b, q, &orders, err));
    if (refused(b, &orders, out)) return LUO_OK;
    round_trip t = {.b = b, .q = q, .orders = &orders};
    const luo_status st = q->recipe->from ? run_switch(&t, out, &why) : run_step(&t, out, &why);
    out->note = note_of(b, orders.slow_links && !q->recipe->from);
    if (st == LUO_EPEER && b->dead) return tell_death(b, q, out);
    if (st == LUO_ESTUCK) return tell_stuck(b, q, out);
    return st == LUO_OK ? LUO_OK : luo_err_set(err, st, "%s", why.text);
}
