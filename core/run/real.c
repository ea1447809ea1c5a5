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

#include "core/run/health/pace.h"
#include "core/run/real.h"

luo_status luo_real_init(luo_run *run, luo_err *err)
{
    const luo_scenario *sc = run->job.scenario;
    const bool real = run->job.real = run->backend.table->caps & LUO_CAP_DATA;
    run->job.cost.detect_fail_s = real && sc->cost_default.detect_fail ? 0 : sc->detect_fail_s;
    run->job.cost.process_start_s =
        real && sc->cost_default.process_start ? 0 : sc->process_start_s;
    run->job.cost.communicator_s = real && sc->cost_default.communicator ? 0 : sc->communicator_s;
    run->job.cost.operator_s = sc->operator_s;
    run->job.cost.replacement_s = real && sc->cost_default.replacement ? 0 : sc->replacement_s;
    run->job.cost.planner_s = real && run->job.spec->planner_default ? 0 : run->job.spec->planner_s;
    if (real && sc->nloads > 0)
        return luo_err_set(err, LUO_EINPUT,
                           "`expert_load` is of simulations: real runs have the load of their "
                           "data; leave it out.");
    if (!real) return LUO_OK;
    run->backend.running = LUO_NEW_N(run->arena, bool, sc->cluster->ndevices);
    run->backend.kills = LUO_NEW_N(run->arena, int32_t, sc->cluster->ndevices);
    if (!run->backend.running || !run->backend.kills) return luo_err_nomem(err);
    LUO_TRY(luo_world_new(run->arena, sc->cluster, &run->backend.struck, err));
    return luo_pace_init(run, err);
}

/* ---- state ---- */

static luo_status ask_state(luo_run *run, luo_state_action action, int64_t *step, luo_err *err)
{
    const luo_used_plan *used = luo_run_plan(&run->plans);
    const luo_recipe recipe = luo_run_recipe(used);
    const luo_state_request request = {.action = action,
                                       .recipe = &recipe,
                                       .programs = used->set,
                                       .world = luo_events_world(run->clock.events),
                                       .step = *step,
                                       .info = &run->backend.info,
                                       .processes = run->backend.running};
    return run->backend.table->state(run->backend.state, &request, step, err);
}

/* The sentence of the backend up to what would be right: the run has its own answer to that. */
static const char *reason(luo_run *run, const char *text)
{
    size_t n = strcspn(text, ";");
    if (text[n] == 0 && n > 0 && text[n - 1] == '.') n--;
    return luo_arena_strndup(run->arena, text, n);
}

/* A process died while all of them started: nobody knows whose it was, and the plan stays. */
static luo_status died_at_start(luo_run *run, const char *text, luo_err *err)
{
    run->backend.died = run->backend.unplanned = true;
    run->backend.died_last = -1;
    run->backend.died_why = reason(run, text);
    if (!run->backend.died_why) return luo_err_nomem(err);
    if (++run->backend.deaths > run->job.opts->max_restarts)
        return luo_real_give_up(run, "no more restarts are allowed", err);
    run->decision.restarts++;
    LUO_TRY(luo_run_event(run, LUO_EVENT_PHASE_RESTARTED, run->decision.cause,
                          run->decision.acting->name, "", false, 0,
                          "a process died while the ranks started", err));
    return luo_run_tell(&run->job, err, "%s; all were started again", run->backend.died_why);
}

/* Without the folder of the run, which events.csv leaves out. */
static const char *short_reason(luo_run *run, const luo_passed *passed)
{
    const size_t n = strlen(passed->path);
    const char *at = strstr(passed->why, passed->path);
    if (!at || at[n] != '/') return passed->why;
    return luo_arena_printf(run->arena, "%.*s%s", (int)(at - passed->why), passed->why, at + n + 1);
}

/* Newer checkpoints than the one that was loaded: steps that were thought safe are lost. */
static luo_status tell_passed(luo_run *run, luo_err *err)
{
    const luo_state_info *info = &run->backend.info;
    const char *used = info->loaded ? info->loaded : "an older one";
    for (int32_t i = 0; i < info->npassed; i++) {
        const luo_passed *passed = &info->passed[i];
        const char *slash = strrchr(passed->path, '/'), *why = short_reason(run, passed);
        if (!why) return luo_err_nomem(err);
        LUO_TRY(luo_run_tell(&run->job, err, "checkpoint `%s` is passed over and `%s` is used: %s",
                             passed->path, used, passed->why));
        const char *detail = luo_arena_printf(run->arena, "step %" PRId64 " is used: %s",
                                              run->ledger.ckpt.valid_step, why);
        if (!detail) return luo_err_nomem(err);
        LUO_TRY(luo_run_event(run, LUO_EVENT_PHASE_PASSED, run->decision.cause, "checkpoint",
                              slash ? slash + 1 : passed->path, false, 0, detail, err));
    }
    return LUO_OK;
}

/* INIT or LOAD, in processes that are started for it if there are none. */
static luo_status start_state(luo_run *run, luo_state_action action, int64_t *step, luo_err *err)
{
    for (;;) {
        luo_err why = {0};
        int64_t found = *step;
        run->backend.info = (luo_state_info){0};
        const luo_status st = ask_state(run, action, &found, &why);
        if (st == LUO_OK) {
            *step = found;
            run->backend.died = run->backend.unplanned = false;
            return LUO_OK;
        }
        if (st != LUO_EPEER) return luo_err_set(err, st, "%s", why.text);
        LUO_TRY(died_at_start(run, why.text, err));
    }
}

static luo_status begin_at(luo_run *run, int64_t step, luo_err *err)
{
    if (step < 0 || (run->job.scenario->steps > 0 && step >= run->job.scenario->steps))
        return luo_err_set(err, LUO_EINPUT,
                           "the checkpoint holds %" PRId64 " steps and the run is "
                           "to have %" PRId64 "; a longer run is needed to go on with it.",
                           step, run->job.scenario->steps);
    run->clock.first_step = run->clock.step = step;
    luo_tries_clear(&run->ledger.tries, step);
    run->ledger.ckpt.valid_step = step;
    run->ledger.ckpt.next_step = step + run->ledger.ckpt.every_steps;
    LUO_TRY(luo_events_skip(run->clock.events, step, err));
    LUO_TRY(luo_run_follow_lengths(run, err));
    return tell_passed(run, err);
}

luo_status luo_real_begin(luo_run *run, luo_err *err)
{
    int64_t step = run->job.opts->resume ? INT64_MAX : 0;
    LUO_TRY(start_state(run, run->job.opts->resume ? LUO_STATE_LOAD : LUO_STATE_INIT, &step, err));
    if (run->backend.table->now) run->clock.t0 = run->backend.table->now(run->backend.state);
    return run->job.opts->resume ? begin_at(run, step, err) : LUO_OK;
}

luo_status luo_real_save(luo_run *run, bool *saved, luo_err *err)
{
    luo_err why = {0};
    int64_t step = run->clock.step;
    const luo_status st = ask_state(run, LUO_STATE_SAVE, &step, &why);
    *saved = st == LUO_OK;
    if (st == LUO_EPEER)
        return luo_run_warn(run, err, "the checkpoint of step %" PRId64 " was not written: %s",
                            run->clock.step, why.text);
    return st == LUO_OK ? LUO_OK : luo_err_set(err, st, "%s", why.text);
}

luo_status luo_real_bind(luo_run *run, int32_t plan, luo_err *err)
{
    const luo_used_plan *used = run->plans.list[plan];
    const luo_recipe recipe = luo_run_recipe(used);
    const luo_state_request request = {.action = LUO_STATE_BIND,
                                       .recipe = &recipe,
                                       .programs = used->set,
                                       .world = luo_events_world(run->clock.events),
                                       .step = run->clock.step};
    int64_t step = run->clock.step;
    luo_err why = {0};
    const luo_status st = run->backend.table->state(run->backend.state, &request, &step, &why);
    return st == LUO_OK || st == LUO_EPEER ? LUO_OK : luo_err_set(err, st, "%s", why.text);
}

static luo_status loaded(luo_run *run, int64_t step, int64_t *wanted, luo_err *err)
{
    if (step > *wanted || step < run->clock.first_step)
        return luo_err_set(err, LUO_EBACKEND,
                           "backend `%s` loaded a checkpoint of step %" PRId64
                           "; one of the steps %" PRId64 " to %" PRId64 " is needed.",
                           run->backend.table->name, step, run->clock.first_step, *wanted);
    if (step < *wanted && run->backend.info.npassed == 0)
        LUO_TRY(luo_run_tell(&run->job, err,
                             "the checkpoint of step %" PRId64 " cannot be read; the run "
                             "went back to step %" PRId64,
                             *wanted, step));
    if (step < *wanted) run->ledger.ckpt.next_step = step + run->ledger.ckpt.every_steps;
    run->ledger.ckpt.valid_step = *wanted = step;
    return tell_passed(run, err);
}

luo_status luo_real_load(luo_run *run, int64_t *step, luo_err *err)
{
    const bool initial = run->ledger.ckpt.valid_plan < 0 && !run->job.opts->resume;
    int64_t found = *step;
    LUO_TRY(start_state(run, initial ? LUO_STATE_INIT : LUO_STATE_LOAD, &found, err));
    return initial ? LUO_OK : loaded(run, found, step, err);
}

/* ---- hard failures ---- */

bool luo_real_strikes(luo_run *run)
{
    int32_t n;
    const luo_change *change = luo_events_changes(run->clock.events, &n);
    run->backend.nkills = 0;
    for (int32_t i = 0; run->job.real && i < n; i++)
        if (change[i].kind == LUO_CHANGE_DOWN && change[i].hard &&
            luo_run_plan(&run->plans)->member[change[i].target])
            run->backend.kills[run->backend.nkills++] = change[i].target;
    return run->backend.nkills > 0;
}

static bool is_killed(const luo_run_backend *backend, int32_t device)
{
    for (int32_t i = 0; i < backend->nkills; i++)
        if (backend->kills[i] == device) return true;
    return false;
}

luo_status luo_real_strike(luo_run *run, luo_step_request *request, luo_err *err)
{
    const luo_used_plan *used = luo_run_plan(&run->plans);
    if (run->backend.nkills == 0) return LUO_OK;
    luo_change *all = LUO_NEW_N(run->scratch, luo_change, used->ndev + request->nchanges);
    int32_t n = 0;
    if (!all) return luo_err_nomem(err);
    luo_world_copy(run->backend.struck, request->world);
    for (int32_t i = 0; i < used->ndev; i++) {
        const int32_t d = used->dev[i];
        if (request->world->up[d]) continue;
        run->backend.struck->up[d] = true;
        all[n++] = (luo_change){.at_s = run->clock.t0 + run->clock.t_s,
                                .kind = LUO_CHANGE_DOWN,
                                .target = d,
                                .hard = is_killed(&run->backend, d)};
    }
    if (request->nchanges > 0)
        memcpy(all + n, request->changes, (size_t)request->nchanges * sizeof *all);
    request->world = run->backend.struck;
    request->changes = all;
    request->nchanges += n;
    run->backend.nkills = 0;
    return LUO_OK;
}

/* ---- processes that died ---- */

luo_status luo_real_died(luo_run *run, const luo_step_result *result, luo_err *err)
{
    const int32_t d = result->failed_device;
    run->backend.died = true;
    run->backend.died_last = d;
    run->backend.died_why = reason(run, result->text);
    if (!run->backend.died_why) return luo_err_nomem(err);
    memset(run->backend.running, 0,
           (size_t)run->job.scenario->cluster->ndevices * sizeof *run->backend.running);
    /* an event said so, be it that the device is back by now */
    if (d >= 0 && (!luo_events_world(run->clock.events)->up[d] || run->health.emptied[d]))
        return LUO_OK;
    run->backend.unplanned = true;
    run->backend.deaths++;
    if (d < 0) return LUO_OK;
    LUO_TRY(luo_events_lose_device(run->clock.events, d, run->backend.died_why, err));
    luo_run_trigger(run);
    return LUO_OK;
}

luo_status luo_real_give_up(luo_run *run, const char *why, luo_err *err)
{
    char who[48], way[LUO_ERR_PATH + 64];
    const char *dir = run->job.opts->checkpoints ? run->job.opts->checkpoints : "DIR";
    run->clock.state = LUO_FAILED;
    if (run->backend.died_last >= 0)
        snprintf(who, sizeof who, "device %d", run->backend.died_last);
    else
        snprintf(who, sizeof who, "a process");
    if (run->ledger.ckpt.valid_plan >= 0)
        snprintf(way, sizeof way, "step %" PRId64 " can be resumed with `--resume %.500s`",
                 run->ledger.ckpt.valid_step, dir);
    else
        snprintf(way, sizeof way, "there is no checkpoint of this run to resume from");
    LUO_TRY(luo_run_event(run, LUO_EVENT_PHASE_LOST, run->decision.cause,
                          run->decision.acting->name, "", false, 0, why, err));
    return luo_err_set(err, LUO_EPEER, "%s died in step %" PRId64 " and %s (%s); %s.", who,
                       run->clock.step, why, run->backend.died_why ? run->backend.died_why : "",
                       way);
}

bool luo_real_has_processes(const luo_run *run, const luo_plan *plan)
{
    return !run->job.real || luo_plan_within(plan, run->backend.running);
}
