/* Backends that hold data and whose ranks are processes: state before the first step and at
 * checkpoints, and processes that die, by an event with `hard: true` or without any.
 *
 * A hard failure at a boundary hits the attempt that follows, since a process is killed while it
 * works; the policy is asked after that attempt. In the event log that is the same as in the
 * simulator, which asks at once. A hard failure that falls into a pause (a restart, a checkpoint)
 * is answered as a soft one. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/run/run.h"

luo_status luo_real_init(luo_run *r, luo_err *err)
{
    const luo_scenario *sc = r->job.scenario;
    const bool real = r->job.real = r->backend.table->caps & LUO_CAP_DATA;
    r->job.cost.detect_fail_s = real && sc->cost_default.detect_fail ? 0 : sc->detect_fail_s;
    r->job.cost.process_start_s = real && sc->cost_default.process_start ? 0 : sc->process_start_s;
    r->job.cost.communicator_s = real && sc->cost_default.communicator ? 0 : sc->communicator_s;
    r->job.cost.operator_s = sc->operator_s;
    r->job.cost.replacement_s = real && sc->cost_default.replacement ? 0 : sc->replacement_s;
    r->job.cost.planner_s = real && r->job.spec->planner_default ? 0 : r->job.spec->planner_s;
    if (!real) return LUO_OK;
    r->backend.running = LUO_NEW_N(r->arena, bool, sc->cluster->ndevices);
    r->backend.kills = LUO_NEW_N(r->arena, int32_t, sc->cluster->ndevices);
    if (!r->backend.running || !r->backend.kills) return luo_err_nomem(err);
    LUO_TRY(luo_world_new(r->arena, sc->cluster, &r->backend.struck, err));
    return luo_pace_init(r, err);
}

/* ---- state ---- */

static luo_status ask_state(luo_run *r, luo_state_action action, int64_t *step, luo_err *err)
{
    const luo_used_plan *u = luo_run_plan(&r->plans);
    const luo_recipe recipe = luo_run_recipe(u);
    const luo_state_request q = {.action = action,
                                 .recipe = &recipe,
                                 .programs = u->set,
                                 .world = luo_events_world(r->clock.events),
                                 .step = *step,
                                 .info = &r->backend.info,
                                 .processes = r->backend.running};
    return r->backend.table->state(r->backend.state, &q, step, err);
}

/* The sentence of the backend up to what would be right: the run has its own answer to that. */
static const char *reason(luo_run *r, const char *text)
{
    size_t n = strcspn(text, ";");
    if (text[n] == 0 && n > 0 && text[n - 1] == '.') n--;
    return luo_arena_strndup(r->arena, text, n);
}

/* A process died while all of them started: nobody knows whose it was, and the plan stays. */
static luo_status died_at_start(luo_run *r, const char *text, luo_err *err)
{
    r->backend.died = r->backend.unplanned = true;
    r->backend.died_last = -1;
    r->backend.died_why = reason(r, text);
    if (!r->backend.died_why) return luo_err_nomem(err);
    if (++r->backend.deaths > r->job.opts->max_restarts)
        return luo_real_give_up(r, "no more restarts are allowed", err);
    r->decision.restarts++;
    LUO_TRY(luo_run_event(r, "restarted", r->decision.cause, r->decision.acting->name, "", false, 0,
                          "a process died while the ranks started", err));
    return luo_run_tell(&r->job, err, "%s; all were started again", r->backend.died_why);
}

/* Without the folder of the run, which events.csv leaves out. */
static const char *short_reason(luo_run *r, const luo_passed *p)
{
    const size_t n = strlen(p->path);
    const char *at = strstr(p->why, p->path);
    if (!at || at[n] != '/') return p->why;
    return luo_arena_printf(r->arena, "%.*s%s", (int)(at - p->why), p->why, at + n + 1);
}

/* Newer checkpoints than the one that was loaded: steps that were thought safe are lost. */
static luo_status tell_passed(luo_run *r, luo_err *err)
{
    const luo_state_info *t = &r->backend.info;
    const char *used = t->loaded ? t->loaded : "an older one";
    for (int32_t i = 0; i < t->npassed; i++) {
        const luo_passed *p = &t->passed[i];
        const char *slash = strrchr(p->path, '/'), *why = short_reason(r, p);
        if (!why) return luo_err_nomem(err);
        LUO_TRY(luo_run_tell(&r->job, err, "checkpoint `%s` is passed over and `%s` is used: %s",
                             p->path, used, p->why));
        const char *detail = luo_arena_printf(r->arena, "step %" PRId64 " is used: %s",
                                              r->ledger.ckpt.valid_step, why);
        if (!detail) return luo_err_nomem(err);
        LUO_TRY(luo_run_event(r, "passed", r->decision.cause, "checkpoint",
                              slash ? slash + 1 : p->path, false, 0, detail, err));
    }
    return LUO_OK;
}

/* INIT or LOAD, in processes that are started for it if there are none. */
static luo_status start_state(luo_run *r, luo_state_action action, int64_t *step, luo_err *err)
{
    for (;;) {
        luo_err why = {0};
        int64_t found = *step;
        r->backend.info = (luo_state_info){0};
        const luo_status st = ask_state(r, action, &found, &why);
        if (st == LUO_OK) {
            *step = found;
            r->backend.died = r->backend.unplanned = false;
            return LUO_OK;
        }
        if (st != LUO_EPEER) return luo_err_set(err, st, "%s", why.text);
        LUO_TRY(died_at_start(r, why.text, err));
    }
}

static luo_status begin_at(luo_run *r, int64_t step, luo_err *err)
{
    if (step < 0 || (r->job.scenario->steps > 0 && step >= r->job.scenario->steps))
        return luo_err_set(err, LUO_EINPUT,
                           "the checkpoint holds %" PRId64 " steps and the run is "
                           "to have %" PRId64 "; a longer run is needed to go on with it.",
                           step, r->job.scenario->steps);
    r->clock.first_step = r->clock.step = step;
    luo_tries_clear(&r->ledger.tries, step);
    r->ledger.ckpt.valid_step = step;
    r->ledger.ckpt.next_step = step + r->ledger.ckpt.every_steps;
    LUO_TRY(luo_events_skip(r->clock.events, step, err));
    return tell_passed(r, err);
}

luo_status luo_real_begin(luo_run *r, luo_err *err)
{
    int64_t step = r->job.opts->resume ? INT64_MAX : 0;
    LUO_TRY(start_state(r, r->job.opts->resume ? LUO_STATE_LOAD : LUO_STATE_INIT, &step, err));
    if (r->backend.table->now) r->clock.t0 = r->backend.table->now(r->backend.state);
    return r->job.opts->resume ? begin_at(r, step, err) : LUO_OK;
}

luo_status luo_real_save(luo_run *r, bool *saved, luo_err *err)
{
    luo_err why = {0};
    int64_t step = r->clock.step;
    const luo_status st = ask_state(r, LUO_STATE_SAVE, &step, &why);
    *saved = st == LUO_OK;
    if (st == LUO_EPEER)
        return luo_run_warn(r, err, "the checkpoint of step %" PRId64 " was not written: %s",
                            r->clock.step, why.text);
    return st == LUO_OK ? LUO_OK : luo_err_set(err, st, "%s", why.text);
}

luo_status luo_real_bind(luo_run *r, int32_t plan, luo_err *err)
{
    const luo_used_plan *u = r->plans.list[plan];
    const luo_recipe recipe = luo_run_recipe(u);
    const luo_state_request q = {.action = LUO_STATE_BIND,
                                 .recipe = &recipe,
                                 .programs = u->set,
                                 .world = luo_events_world(r->clock.events),
                                 .step = r->clock.step};
    int64_t step = r->clock.step;
    luo_err why = {0};
    const luo_status st = r->backend.table->state(r->backend.state, &q, &step, &why);
    return st == LUO_OK || st == LUO_EPEER ? LUO_OK : luo_err_set(err, st, "%s", why.text);
}

static luo_status loaded(luo_run *r, int64_t step, int64_t *wanted, luo_err *err)
{
    if (step > *wanted || step < r->clock.first_step)
        return luo_err_set(err, LUO_EBACKEND,
                           "backend `%s` loaded a checkpoint of step %" PRId64
                           "; one of the steps %" PRId64 " to %" PRId64 " is needed.",
                           r->backend.table->name, step, r->clock.first_step, *wanted);
    if (step < *wanted && r->backend.info.npassed == 0)
        LUO_TRY(luo_run_tell(&r->job, err,
                             "the checkpoint of step %" PRId64 " cannot be read; the run "
                             "went back to step %" PRId64,
                             *wanted, step));
    if (step < *wanted) r->ledger.ckpt.next_step = step + r->ledger.ckpt.every_steps;
    r->ledger.ckpt.valid_step = *wanted = step;
    return tell_passed(r, err);
}

luo_status luo_real_load(luo_run *r, int64_t *step, luo_err *err)
{
    const bool initial = r->ledger.ckpt.valid_plan < 0 && !r->job.opts->resume;
    int64_t found = *step;
    LUO_TRY(start_state(r, initial ? LUO_STATE_INIT : LUO_STATE_LOAD, &found, err));
    return initial ? LUO_OK : loaded(r, found, step, err);
}

/* ---- hard failures ---- */

bool luo_real_strikes(luo_run *r)
{
    int32_t n;
    const luo_change *c = luo_events_changes(r->clock.events, &n);
    r->backend.nkills = 0;
    for (int32_t i = 0; r->job.real && i < n; i++)
        if (c[i].kind == LUO_CHANGE_DOWN && c[i].hard &&
            luo_run_plan(&r->plans)->member[c[i].target])
            r->backend.kills[r->backend.nkills++] = c[i].target;
    return r->backend.nkills > 0;
}

static bool is_killed(const luo_run_backend *backend, int32_t device)
{
    for (int32_t i = 0; i < backend->nkills; i++)
        if (backend->kills[i] == device) return true;
    return false;
}

luo_status luo_real_strike(luo_run *r, luo_step_request *q, luo_err *err)
{
    const luo_used_plan *u = luo_run_plan(&r->plans);
    if (r->backend.nkills == 0) return LUO_OK;
    luo_change *all = LUO_NEW_N(r->scratch, luo_change, u->ndev + q->nchanges);
    int32_t n = 0;
    if (!all) return luo_err_nomem(err);
    luo_world_copy(r->backend.struck, q->world);
    for (int32_t i = 0; i < u->ndev; i++) {
        const int32_t d = u->dev[i];
        if (q->world->up[d]) continue;
        r->backend.struck->up[d] = true;
        all[n++] = (luo_change){.at_s = r->clock.t0 + r->clock.t_s,
                                .kind = LUO_CHANGE_DOWN,
                                .target = d,
                                .hard = is_killed(&r->backend, d)};
    }
    if (q->nchanges > 0) memcpy(all + n, q->changes, (size_t)q->nchanges * sizeof *all);
    q->world = r->backend.struck;
    q->changes = all;
    q->nchanges += n;
    r->backend.nkills = 0;
    return LUO_OK;
}

/* ---- processes that died ---- */

luo_status luo_real_died(luo_run *r, const luo_step_result *s, luo_err *err)
{
    const int32_t d = s->failed_device;
    r->backend.died = true;
    r->backend.died_last = d;
    r->backend.died_why = reason(r, s->text);
    if (!r->backend.died_why) return luo_err_nomem(err);
    memset(r->backend.running, 0,
           (size_t)r->job.scenario->cluster->ndevices * sizeof *r->backend.running);
    if (d >= 0 && !luo_events_world(r->clock.events)->up[d]) return LUO_OK; /* an event said so */
    r->backend.unplanned = true;
    r->backend.deaths++;
    if (d < 0) return LUO_OK;
    LUO_TRY(luo_events_lose_device(r->clock.events, d, r->backend.died_why, err));
    luo_run_trigger(r);
    return LUO_OK;
}

luo_status luo_real_give_up(luo_run *r, const char *why, luo_err *err)
{
    char who[48], way[LUO_ERR_PATH + 64];
    const char *dir = r->job.opts->checkpoints ? r->job.opts->checkpoints : "DIR";
    r->clock.state = LUO_FAILED;
    if (r->backend.died_last >= 0)
        snprintf(who, sizeof who, "device %d", r->backend.died_last);
    else
        snprintf(who, sizeof who, "a process");
    if (r->ledger.ckpt.valid_plan >= 0)
        snprintf(way, sizeof way, "step %" PRId64 " can be resumed with `--resume %.500s`",
                 r->ledger.ckpt.valid_step, dir);
    else
        snprintf(way, sizeof way, "there is no checkpoint of this run to resume from");
    LUO_TRY(luo_run_event(r, "lost", r->decision.cause, r->decision.acting->name, "", false, 0, why,
                          err));
    return luo_err_set(err, LUO_EPEER, "%s died in step %" PRId64 " and %s (%s); %s.", who,
                       r->clock.step, why, r->backend.died_why ? r->backend.died_why : "", way);
}

bool luo_real_has_processes(const luo_run *r, const luo_plan *p)
{
    return !r->job.real || luo_plan_within(p, r->backend.running);
}
