/* The event engine: dated actions and clocks, committed in order of time. */
#include "core/run/events/events.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/base/vec.h"
#include "core/run/events/events_internal.h"

luo_status luo_event_room(luo_events *events, void *array, int32_t n, int32_t *cap, size_t bytes,
                          luo_err *err)
{
    return n < *cap || luo_vec_grow32(events->arena, array, cap, bytes) ? LUO_OK
                                                                        : luo_err_nomem(err);
}

double luo_event_later(double now_s, double span_s)
{
    return fmax(now_s + span_s, nextafter(now_s, INFINITY));
}

luo_status luo_event_emit(luo_events *events, luo_event_state *state,
                          const luo_occurrence *occurrence, luo_event_phase phase, luo_err *err)
{
    if (state->quiet || !events->log.row) return LUO_OK;
    const luo_row_event row = {.t_s = state->now_s,
                               .value = occurrence->value,
                               .step = state->step,
                               .has_value = luo_event_traits_of(occurrence->kind).value !=
                                            LUO_VALUE_NONE,
                               .id = occurrence->id,
                               .phase = phase,
                               .kind = luo_event_kind_name(occurrence->kind),
                               .target = occurrence->target,
                               .detail = occurrence->detail};
    events->rows++;
    return events->log.row(events->log.ctx, &row, err);
}

bool luo_event_is_hushed(luo_events *events, const luo_event_source *src)
{
    const bool hushed = src->process && events->rows >= LUO_EVENT_ROWS;
    events->hushed |= hushed;
    return hushed;
}

static bool action_before(const luo_action *a, const luo_action *b)
{
    if (a->at_s != b->at_s) return a->at_s < b->at_s;
    if (a->kind != b->kind) return a->kind < b->kind;
    return a->seq < b->seq;
}

luo_status luo_action_push(luo_events *events, luo_event_state *state, luo_action action,
                           luo_err *err)
{
    LUO_TRY(luo_event_room(events, &state->actions, state->nactions, &state->cap_actions,
                           sizeof *state->actions, err));
    action.seq = state->seq++;
    int32_t at = state->nactions++;
    for (; at > 0 && action_before(&action, &state->actions[(at - 1) / 2]); at = (at - 1) / 2)
        state->actions[at] = state->actions[(at - 1) / 2];
    state->actions[at] = action;
    return LUO_OK;
}

static luo_action pop(luo_event_state *state)
{
    const luo_action top = state->actions[0], last = state->actions[--state->nactions];
    int32_t at = 0;
    for (;;) {
        int32_t next = 2 * at + 1;
        if (next >= state->nactions) break;
        if (next + 1 < state->nactions &&
            action_before(&state->actions[next + 1], &state->actions[next]))
            next++;
        if (!action_before(&state->actions[next], &last)) break;
        state->actions[at] = state->actions[next];
        at = next;
    }
    state->actions[at] = last;
    return top;
}

static const luo_choice *chosen(const luo_event_source *src, const luo_draws *draws)
{
    if (luo_event_traits_of(src->kind).hits == LUO_HITS_DATA) return NULL;
    return &src->target.choices[(int32_t)floor(draws->pick * (double)src->target.nchoices)];
}

static luo_status start_event(luo_events *events, luo_event_state *state, int32_t source,
                              const luo_draws *draws, luo_err *err)
{
    const luo_event_source *src = &events->sources[source];
    return luo_effect_start(events, state, source, chosen(src, draws), src->id, draws, err);
}

static luo_status announce(luo_events *events, luo_event_state *state, int32_t source, luo_err *err)
{
    const luo_event_source *src = &events->sources[source];
    const luo_choice *choice = chosen(src, &src->draws);
    for (int32_t i = 0; i < choice->ndev; i++)
        state->leaving[choice->dev[i]] = state->world->up[choice->dev[i]];
    const luo_occurrence occurrence = {.id = src->id,
                                       .target = choice->name,
                                       .kind = src->kind,
                                       .value = 1,
                                       .detail = "announced"};
    return luo_event_emit(events, state, &occurrence, LUO_EVENT_PHASE_DETECTED, err);
}

static luo_status act(luo_events *events, luo_event_state *state, const luo_action *action,
                      luo_err *err)
{
    if (action->kind == LUO_ACTION_START)
        return start_event(events, state, action->ref, &events->sources[action->ref].draws, err);
    if (action->kind == LUO_ACTION_NOTICE) return announce(events, state, action->ref, err);
    if (state->effects[action->ref].serial != action->serial) return LUO_OK; /* ended by a join */
    if (action->kind == LUO_ACTION_END) return luo_effect_end(events, state, action->ref, err);
    if (action->kind == LUO_ACTION_RAMP)
        return luo_effect_ramp(events, state, action->ref, action->k, err);
    return luo_effect_toggle(events, state, action->ref, err);
}

static luo_status tick(luo_events *events, luo_event_state *state, luo_err *err)
{
    luo_draws draws;
    const luo_choice *choice;
    const luo_clock *clock = &state->clocks[luo_clocks_take(events, state, &draws)];
    const luo_event_source *src = &events->sources[clock->source];
    const int32_t source = clock->source, device = clock->device;
    LUO_TRY(luo_scope_choice(events, src, device, &draws, &choice, err));
    const bool nameless = state->quiet || luo_event_is_hushed(events, src);
    const char *id = nameless ? "" : luo_arena_printf(events->arena, "%s#%d", src->id, device);
    if (!id) return luo_err_nomem(err);
    return luo_effect_start(events, state, source, choice, id, &draws, err);
}

luo_status luo_events_check_work(const luo_events *events, int64_t more, luo_err *err)
{
    char subject[64];
    if (!events->work || events->done + more <= luo_work_most(events->work, LUO_WORK_CHANGES))
        return LUO_OK;
    snprintf(subject, sizeof subject, "after %.9g s the scenario makes", events->state.now_s);
    return luo_work_over(events->work, LUO_WORK_CHANGES, subject, err);
}

/* After `most` happenings it ends at the date of the last, all of that date included. */
static luo_status run_until(luo_events *events, luo_event_state *state, double to_s, int64_t most,
                            luo_err *err)
{
    for (int64_t k = 0;; k++) {
        const double action = state->nactions > 0 ? state->actions[0].at_s : INFINITY;
        const double clock = state->calm ? INFINITY : luo_clocks_next(state),
                     next = fmin(action, clock);
        if (next > to_s || next == INFINITY) break;
        if (k >= most && next > state->now_s) return LUO_OK;
        state->now_s = next;
        if (!state->quiet) {
            events->done++;
            events->happenings++;
            LUO_TRY(luo_events_check_work(events, 0, err));
        }
        if (action <= clock) {
            const luo_action a = pop(state);
            LUO_TRY(act(events, state, &a, err));
        } else {
            LUO_TRY(tick(events, state, err));
        }
    }
    if (to_s > state->now_s) state->now_s = to_s;
    return LUO_OK;
}

double luo_events_next(const luo_events *events)
{
    const double action = events->state.nactions > 0 ? events->state.actions[0].at_s : INFINITY;
    return fmin(action,
                events->nmoved > 0 ? events->next_clock_s : luo_clocks_next(&events->state));
}

luo_status luo_events_advance(luo_events *events, double to_s, int64_t step, luo_err *err)
{
    luo_clocks_rewind(events);
    events->state.step = step;
    events->state.nchanges = 0;
    return run_until(events, &events->state, to_s, INT64_MAX, err);
}

/* ahead = state, with room of its own; but for the clocks, which both move. */
static luo_status copy_state(luo_events *events, luo_err *err)
{
    const luo_event_state *s = &events->state;
    luo_event_state *a = &events->ahead, was = *a;
    luo_clocks_rewind(events);
    events->next_clock_s = luo_clocks_next(s);
    while (was.cap_actions <= s->nactions)
        LUO_TRY(luo_event_room(events, &was.actions, was.cap_actions, &was.cap_actions,
                               sizeof *was.actions, err));
    while (was.cap_effects <= s->neffects)
        LUO_TRY(luo_event_room(events, &was.effects, was.cap_effects, &was.cap_effects,
                               sizeof *was.effects, err));
    while (was.cap_holds <= s->nholds)
        LUO_TRY(luo_event_room(events, &was.holds, was.cap_holds, &was.cap_holds, sizeof *was.holds,
                               err));
    *a = *s;
#define KEEP(field, n)                                             \
    a->field = was.field;                                          \
    if ((n) > 0) memcpy(a->field, s->field, (size_t)(n) * sizeof *a->field)
    const int32_t ndevices = s->world->ndevices, nlinks = s->world->nlinks;
    KEEP(actions, s->nactions);
    KEEP(effects, s->neffects);
    KEEP(holds, s->nholds);
    KEEP(leaving, ndevices);
    KEEP(base_down, ndevices);
    KEEP(base_cut, nlinks);
    KEEP(dev_holds, ndevices);
    KEEP(link_holds, nlinks);
    KEEP(lives, events->nsources);
    KEEP(fires, events->nsources);
#undef KEEP
    a->world = was.world;
    luo_world_copy(a->world, s->world);
    a->cap_actions = was.cap_actions;
    a->cap_effects = was.cap_effects;
    a->cap_holds = was.cap_holds;
    a->changes = was.changes;
    a->cap_changes = was.cap_changes;
    for (int32_t i = 0; i < a->neffects; i++) a->effects[i].occurrence = -1;
    return LUO_OK;
}

luo_status luo_events_peek(luo_events *events, double *until_s, const luo_change **changes,
                           int32_t *n, luo_err *err)
{
    *n = 0;
    *changes = NULL;
    events->peeking = luo_events_next(events) <= *until_s;
    if (!events->peeking) return LUO_OK;
    LUO_TRY(copy_state(events, err));
    events->ahead.quiet = true;
    return luo_events_peek_on(events, until_s, changes, n, err);
}

luo_status luo_events_peek_on(luo_events *events, double *until_s, const luo_change **changes,
                              int32_t *n, luo_err *err)
{
    if (!events->peeking) return luo_events_peek(events, until_s, changes, n, err);
    events->ahead.nchanges = 0;
    LUO_TRY(run_until(events, &events->ahead, *until_s, LUO_AHEAD_MAX, err));
    *until_s = events->ahead.now_s;
    *n = events->ahead.nchanges;
    *changes = events->ahead.changes;
    return LUO_OK;
}

/* What a happening of a calm look ahead brings back. */
static void take_returns(const luo_event_state *state, const luo_events *events,
                         luo_event_returns *out)
{
    for (int32_t i = 0; i < state->nchanges; i++) {
        const luo_change *change = &state->changes[i];
        if (change->kind == LUO_CHANGE_UP) {
            out->any |= !out->world->up[change->target] || out->leaving[change->target];
            out->world->up[change->target] = true;
            out->leaving[change->target] = false;
        } else if (change->kind == LUO_CHANGE_LINK &&
                   change->value > out->world->link_factor[change->target]) {
            out->any |= out->world->link_factor[change->target] <= 0;
            out->world->link_factor[change->target] = change->value;
        }
    }
    if (state->tokens == events->state.tokens || out->lengths_s < INFINITY) return;
    out->lengths_s = state->now_s;
    out->any = true;
}

luo_status luo_events_returns(luo_arena *arena, luo_events *events, luo_event_returns *out,
                              luo_err *err)
{
    const luo_event_state *now = &events->state;
    luo_event_state *state = &events->ahead;
    *out = (luo_event_returns){.lengths_s = INFINITY,
                               .leaving = LUO_NEW_N(arena, bool, now->world->ndevices)};
    if (!out->leaving) return luo_err_nomem(err);
    memcpy(out->leaving, now->leaving, (size_t)now->world->ndevices * sizeof *out->leaving);
    LUO_TRY(luo_world_new(arena, events->scenario->cluster, &out->world, err));
    luo_world_copy(out->world, now->world);
    LUO_TRY(copy_state(events, err));
    events->peeking = false;
    state->quiet = state->calm = true;
    while (state->nactions > 0) {
        state->nchanges = 0;
        LUO_TRY(run_until(events, state, state->actions[0].at_s, INT64_MAX, err));
        take_returns(state, events, out);
    }
    return LUO_OK;
}

static luo_status start_at_step(luo_events *events, int32_t source, luo_err *err)
{
    luo_event_state *state = &events->state;
    const luo_event_source *src = &events->sources[source];
    const double notice_s = src->event->notice_s;
    events->happenings++;
    if (notice_s <= 0) return start_event(events, state, source, &src->draws, err);
    LUO_TRY(announce(events, state, source, err));
    return luo_action_push(
        events, state,
        (luo_action){.at_s = state->now_s + notice_s, .ref = source, .kind = LUO_ACTION_START},
        err);
}

static luo_status end_at_step(luo_events *events, int64_t step, luo_err *err)
{
    luo_event_state *state = &events->state;
    for (int32_t i = 0; i < state->neffects; i++)
        if (state->effects[i].serial >= 0 && state->effects[i].end_step == step) {
            events->happenings++;
            LUO_TRY(luo_effect_end(events, state, i, err));
        }
    return LUO_OK;
}

/* Triggers of the next step. behind: it was done before this run began. What befell the cluster
 * then is over; the data of later steps are what they are because of what came before. */
static luo_status trigger(luo_events *events, bool behind, luo_err *err)
{
    luo_event_state *state = &events->state;
    const int64_t step = state->next_step++;
    LUO_TRY(end_at_step(events, step, err));
    for (int32_t i = 0; i < events->nsources; i++) {
        luo_event_source *src = &events->sources[i];
        const bool starts = !behind || luo_event_traits_of(src->kind).hits == LUO_HITS_DATA;
        if (starts && src->at_step == step) LUO_TRY(start_at_step(events, i, err));
        if (!src->event || src->event->trigger != LUO_PER_STEP_PROBABILITY) continue;
        luo_draw_all(&src->rng, &src->life, &src->draws);
        if (starts && state->lives[i] == 0 && src->draws.time < src->event->at[0])
            LUO_TRY(start_at_step(events, i, err));
    }
    return LUO_OK;
}

luo_status luo_events_step(luo_events *events, int64_t step, double t_s, luo_err *err)
{
    LUO_TRY(luo_events_advance(events, t_s, step, err));
    if (step < events->state.next_step) return LUO_OK;
    assert(step == events->state.next_step);
    return trigger(events, false, err);
}

luo_status luo_events_skip(luo_events *events, int64_t step, luo_err *err)
{
    luo_event_state *state = &events->state;
    while (state->next_step < step) {
        state->step = state->next_step;
        LUO_TRY(trigger(events, true, err));
    }
    state->step = step;
    return LUO_OK;
}

luo_status luo_events_lose_device(luo_events *events, int32_t device, const char *detail,
                                  luo_err *err)
{
    const luo_choice *choice;
    const luo_draws none = {0};
    luo_event_source *src = &events->sources[events->nsources - 1];
    luo_event *death = LUO_NEW(events->arena, luo_event);
    char *id = luo_arena_printf(events->arena, "process-%d", events->deaths + 1);
    char *cause = luo_arena_strdup(events->arena, detail);
    if (!death || !id || !cause) return luo_err_nomem(err);
    LUO_TRY(luo_scope_device(events, device, &choice, err));
    *death = (luo_event){.id = id, .cause = cause, .kind = LUO_EVENT_FAIL};
    src->event = death;
    events->deaths++;
    events->happenings++;
    luo_clocks_rewind(events);
    events->state.nchanges = 0;
    return luo_effect_start(events, &events->state, events->nsources - 1, choice, id, &none, err);
}

int64_t luo_events_happenings(const luo_events *events)
{
    return events->happenings;
}

const luo_world *luo_events_world(const luo_events *events)
{
    return events->state.world;
}

void luo_events_set_job(luo_events *events, const int32_t *dev, int32_t n)
{
    events->job = dev;
    events->njob = n;
}

bool luo_events_take_crash(luo_events *events)
{
    const bool crash = events->state.crash;
    events->state.crash = false;
    return crash;
}

const bool *luo_events_leaving(const luo_events *events)
{
    return events->state.leaving;
}

int64_t luo_events_tokens(const luo_events *events)
{
    return events->state.tokens;
}

double luo_events_expected(const luo_events *events, double duration_s)
{
    double sum = 0;
    for (int32_t i = 0; i < events->nsources; i++) {
        const luo_event_source *source = &events->sources[i];
        const luo_event *ev = source->event;
        double span = duration_s;
        if (ev && source->life.duration_s > 0) span = fmin(span, source->life.duration_s);
        if (span == INFINITY) continue; /* as long as the run lasts, and who knows how long */
        if (source->process)
            sum += 2 * span / source->mean_s * source->target.choices->ndev;
        else if (ev && luo_event_traits_of(ev->kind).loss == LUO_LOSS_BY_TURNS)
            sum += 2 * span / (ev->down_s + ev->up_s);
    }
    return sum;
}

double luo_events_rate(const luo_events *events)
{
    double rate = 0;
    for (int32_t i = 0; i < events->nsources; i++)
        if (events->sources[i].process)
            rate += events->sources[i].target.choices->ndev / events->sources[i].mean_s;
    return rate;
}

void luo_events_set_work(luo_events *events, const luo_work *limits)
{
    events->work = limits;
}

const luo_overlap *luo_events_overlap(const luo_events *events)
{
    return &events->overlap;
}

void luo_events_progress(luo_events *events)
{
    events->rows = 0;
}

bool luo_events_hushed(const luo_events *events)
{
    return events->hushed;
}

int32_t luo_events_fired(const luo_events *events)
{
    return events->state.fired;
}

const luo_change *luo_events_changes(const luo_events *events, int32_t *n)
{
    *n = events->state.nchanges;
    return events->state.changes;
}

luo_occurrence *luo_events_occurrences(luo_events *events, int32_t *n)
{
    *n = events->noccurrences;
    return events->occurrences;
}

luo_status luo_events_never(luo_events *events, luo_arena *arena, const char *const **out,
                            int32_t *n, luo_err *err)
{
    const luo_scenario *sc = events->scenario;
    const int32_t entries = sc->nevents + sc->nprocesses;
    const char **ids = LUO_NEW_N(arena, const char *, entries);
    int32_t *fires = LUO_NEW_N(arena, int32_t, entries + 1);
    if (!ids || !fires) return luo_err_nomem(err);
    for (int32_t i = 0; i < events->nsources; i++)
        fires[events->sources[i].entry] += events->state.fires[i] + events->sources[i].ignored;
    *n = 0;
    for (int32_t i = 0; i < entries; i++)
        if (fires[i] == 0)
            ids[(*n)++] = i < sc->nevents ? sc->events[i].id : sc->processes[i - sc->nevents].id;
    *out = ids;
    return LUO_OK;
}
