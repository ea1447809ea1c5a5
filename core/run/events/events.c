/* The event engine: dated actions and clocks, committed in order of time. */
#include "core/run/events/events.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/base/vec.h"
#include "core/run/events/events_internal.h"

luo_status luo_event_room(luo_events *e, void *array, int32_t n, int32_t *cap, size_t bytes,
                          luo_err *err)
{
    return n < *cap || luo_vec_grow32(e->arena, array, cap, bytes) ? LUO_OK : luo_err_nomem(err);
}

double luo_event_later(double now_s, double span_s)
{
    return fmax(now_s + span_s, nextafter(now_s, INFINITY));
}

luo_status luo_event_emit(luo_events *e, luo_event_state *s, const luo_occurrence *o,
                          const char *phase, luo_err *err)
{
    if (s->quiet || !e->log.row) return LUO_OK;
    const luo_row_event row = {.t_s = s->now_s, .value = o->value, .step = s->step,
                               .has_value = o->kind == LUO_EVENT_STRAGGLER ||
                                            o->kind == LUO_EVENT_LINK ||
                                            o->kind == LUO_EVENT_LENGTHS,
                               .id = o->id, .phase = phase, .kind = luo_event_kind_name(o->kind),
                               .target = o->target, .detail = o->detail};
    e->rows++;
    return e->log.row(e->log.ctx, &row, err);
}

bool luo_event_is_hushed(luo_events *e, const luo_event_source *src)
{
    const bool hushed = src->process && e->rows >= LUO_EVENT_ROWS;
    e->hushed |= hushed;
    return hushed;
}

static bool action_before(const luo_action *a, const luo_action *b)
{
    if (a->at_s != b->at_s) return a->at_s < b->at_s;
    if (a->kind != b->kind) return a->kind < b->kind;
    return a->seq < b->seq;
}

luo_status luo_action_push(luo_events *e, luo_event_state *s, luo_action a, luo_err *err)
{
    LUO_TRY(luo_event_room(e, &s->actions, s->nactions, &s->cap_actions, sizeof *s->actions, err));
    a.seq = s->seq++;
    int32_t at = s->nactions++;
    for (; at > 0 && action_before(&a, &s->actions[(at - 1) / 2]); at = (at - 1) / 2)
        s->actions[at] = s->actions[(at - 1) / 2];
    s->actions[at] = a;
    return LUO_OK;
}

static luo_action pop(luo_event_state *s)
{
    const luo_action top = s->actions[0], last = s->actions[--s->nactions];
    int32_t at = 0;
    for (;;) {
        int32_t next = 2 * at + 1;
        if (next >= s->nactions) break;
        if (next + 1 < s->nactions && action_before(&s->actions[next + 1], &s->actions[next]))
            next++;
        if (!action_before(&s->actions[next], &last)) break;
        s->actions[at] = s->actions[next];
        at = next;
    }
    s->actions[at] = last;
    return top;
}

static const luo_choice *chosen(const luo_event_source *src, const luo_draws *d)
{
    if (src->kind == LUO_EVENT_LENGTHS) return NULL;
    return &src->target.choices[(int32_t)floor(d->pick * (double)src->target.nchoices)];
}

static luo_status start_event(luo_events *e, luo_event_state *s, int32_t source,
                              const luo_draws *d, luo_err *err)
{
    const luo_event_source *src = &e->sources[source];
    return luo_effect_start(e, s, source, chosen(src, d), src->id, d, err);
}

static luo_status announce(luo_events *e, luo_event_state *s, int32_t source, luo_err *err)
{
    const luo_event_source *src = &e->sources[source];
    const luo_choice *c = chosen(src, &src->draws);
    for (int32_t i = 0; i < c->ndev; i++) s->leaving[c->dev[i]] = s->world->up[c->dev[i]];
    const luo_occurrence o = {.id = src->id, .target = c->name, .kind = src->kind, .value = 1,
                              .detail = "announced"};
    return luo_event_emit(e, s, &o, "detected", err);
}

static luo_status act(luo_events *e, luo_event_state *s, const luo_action *a, luo_err *err)
{
    if (a->kind == LUO_ACTION_START)
        return start_event(e, s, a->ref, &e->sources[a->ref].draws, err);
    if (a->kind == LUO_ACTION_NOTICE) return announce(e, s, a->ref, err);
    if (s->effects[a->ref].serial != a->serial) return LUO_OK; /* ended by a join */
    if (a->kind == LUO_ACTION_END) return luo_effect_end(e, s, a->ref, err);
    if (a->kind == LUO_ACTION_RAMP) return luo_effect_ramp(e, s, a->ref, a->k, err);
    return luo_effect_toggle(e, s, a->ref, err);
}

static luo_status tick(luo_events *e, luo_event_state *s, luo_err *err)
{
    luo_draws d;
    const luo_choice *choice;
    const luo_clock *c = &s->clocks[luo_clocks_take(e, s, &d)];
    const luo_event_source *src = &e->sources[c->source];
    const int32_t source = c->source, device = c->device;
    LUO_TRY(luo_scope_choice(e, src, device, &d, &choice, err));
    const bool nameless = s->quiet || luo_event_is_hushed(e, src);
    const char *id = nameless ? "" : luo_arena_printf(e->arena, "%s#%d", src->id, device);
    if (!id) return luo_err_nomem(err);
    return luo_effect_start(e, s, source, choice, id, &d, err);
}

luo_status luo_events_check_work(const luo_events *e, int64_t more, luo_err *err)
{
    char subject[64];
    if (!e->work || e->done + more <= luo_work_most(e->work, LUO_WORK_CHANGES)) return LUO_OK;
    snprintf(subject, sizeof subject, "after %.9g s the scenario makes", e->state.now_s);
    return luo_work_over(e->work, LUO_WORK_CHANGES, subject, err);
}

/* After `most` happenings it ends at the date of the last, all of that date included. */
static luo_status run_until(luo_events *e, luo_event_state *s, double to_s, int64_t most,
                            luo_err *err)
{
    for (int64_t k = 0;; k++) {
        const double action = s->nactions > 0 ? s->actions[0].at_s : INFINITY;
        const double clock = s->calm ? INFINITY : luo_clocks_next(s), next = fmin(action, clock);
        if (next > to_s || next == INFINITY) break;
        if (k >= most && next > s->now_s) return LUO_OK;
        s->now_s = next;
        if (!s->quiet) {
            e->done++;
            LUO_TRY(luo_events_check_work(e, 0, err));
        }
        if (action <= clock) {
            const luo_action a = pop(s);
            LUO_TRY(act(e, s, &a, err));
        } else {
            LUO_TRY(tick(e, s, err));
        }
    }
    if (to_s > s->now_s) s->now_s = to_s;
    return LUO_OK;
}

double luo_events_next(const luo_events *e)
{
    const double action = e->state.nactions > 0 ? e->state.actions[0].at_s : INFINITY;
    return fmin(action, luo_clocks_next(&e->state));
}

luo_status luo_events_advance(luo_events *e, double to_s, int64_t step, luo_err *err)
{
    e->state.step = step;
    e->state.nchanges = 0;
    return run_until(e, &e->state, to_s, INT64_MAX, err);
}

/* ahead = state, with room of its own. */
static luo_status copy_state(luo_events *e, luo_err *err)
{
    const luo_event_state *s = &e->state;
    luo_event_state *a = &e->ahead, was = *a;
    while (was.cap_actions <= s->nactions)
        LUO_TRY(luo_event_room(e, &was.actions, was.cap_actions, &was.cap_actions,
                               sizeof *was.actions, err));
    while (was.cap_effects <= s->neffects)
        LUO_TRY(luo_event_room(e, &was.effects, was.cap_effects, &was.cap_effects,
                               sizeof *was.effects, err));
    while (was.cap_holds <= s->nholds)
        LUO_TRY(luo_event_room(e, &was.holds, was.cap_holds, &was.cap_holds, sizeof *was.holds,
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
    KEEP(lives, e->nsources);
    KEEP(fires, e->nsources);
    KEEP(clocks, s->nclocks);
    KEEP(heap, s->nclocks);
    KEEP(pos, s->nclocks);
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

luo_status luo_events_peek(luo_events *e, double *until_s, const luo_change **changes, int32_t *n,
                           luo_err *err)
{
    *n = 0;
    *changes = NULL;
    e->peeking = luo_events_next(e) <= *until_s;
    if (!e->peeking) return LUO_OK;
    LUO_TRY(copy_state(e, err));
    e->ahead.quiet = true;
    return luo_events_peek_on(e, until_s, changes, n, err);
}

luo_status luo_events_peek_on(luo_events *e, double *until_s, const luo_change **changes,
                              int32_t *n, luo_err *err)
{
    if (!e->peeking) return luo_events_peek(e, until_s, changes, n, err);
    e->ahead.nchanges = 0;
    LUO_TRY(run_until(e, &e->ahead, *until_s, LUO_AHEAD_MAX, err));
    *until_s = e->ahead.now_s;
    *n = e->ahead.nchanges;
    *changes = e->ahead.changes;
    return LUO_OK;
}

/* What a happening of a calm look ahead brings back. */
static void take_returns(const luo_event_state *s, const luo_events *e, luo_event_returns *out)
{
    for (int32_t i = 0; i < s->nchanges; i++) {
        const luo_change *c = &s->changes[i];
        if (c->kind == LUO_CHANGE_UP) {
            out->any |= !out->world->up[c->target] || out->leaving[c->target];
            out->world->up[c->target] = true;
            out->leaving[c->target] = false;
        } else if (c->kind == LUO_CHANGE_LINK && c->value > out->world->link_factor[c->target]) {
            out->any |= out->world->link_factor[c->target] <= 0;
            out->world->link_factor[c->target] = c->value;
        }
    }
    if (s->tokens == e->state.tokens || out->lengths_s < INFINITY) return;
    out->lengths_s = s->now_s;
    out->any = true;
}

luo_status luo_events_returns(luo_arena *arena, luo_events *e, luo_event_returns *out, luo_err *err)
{
    const luo_event_state *now = &e->state;
    luo_event_state *s = &e->ahead;
    *out = (luo_event_returns){.lengths_s = INFINITY,
                               .leaving = LUO_NEW_N(arena, bool, now->world->ndevices)};
    if (!out->leaving) return luo_err_nomem(err);
    memcpy(out->leaving, now->leaving, (size_t)now->world->ndevices * sizeof *out->leaving);
    LUO_TRY(luo_world_new(arena, e->scenario->cluster, &out->world, err));
    luo_world_copy(out->world, now->world);
    LUO_TRY(copy_state(e, err));
    e->peeking = false;
    s->quiet = s->calm = true;
    while (s->nactions > 0) {
        s->nchanges = 0;
        LUO_TRY(run_until(e, s, s->actions[0].at_s, INT64_MAX, err));
        take_returns(s, e, out);
    }
    return LUO_OK;
}

static luo_status start_at_step(luo_events *e, int32_t source, luo_err *err)
{
    luo_event_state *s = &e->state;
    const luo_event_source *src = &e->sources[source];
    const double notice_s = src->event->notice_s;
    if (src->kind != LUO_EVENT_LEAVE || notice_s <= 0)
        return start_event(e, s, source, &src->draws, err);
    LUO_TRY(announce(e, s, source, err));
    return luo_action_push(e, s, (luo_action){.at_s = s->now_s + notice_s, .ref = source,
                                              .kind = LUO_ACTION_START}, err);
}

static luo_status end_at_step(luo_events *e, int64_t step, luo_err *err)
{
    luo_event_state *s = &e->state;
    for (int32_t i = 0; i < s->neffects; i++)
        if (s->effects[i].serial >= 0 && s->effects[i].end_step == step)
            LUO_TRY(luo_effect_end(e, s, i, err));
    return LUO_OK;
}

/* Triggers of the next step. behind: it was done before this run began. What befell the cluster
 * then is over; the data of later steps are what they are because of what came before. */
static luo_status trigger(luo_events *e, bool behind, luo_err *err)
{
    luo_event_state *s = &e->state;
    const int64_t step = s->next_step++;
    LUO_TRY(end_at_step(e, step, err));
    for (int32_t i = 0; i < e->nsources; i++) {
        luo_event_source *src = &e->sources[i];
        const bool starts = !behind || src->kind == LUO_EVENT_LENGTHS;
        if (starts && src->at_step == step) LUO_TRY(start_at_step(e, i, err));
        if (!src->event || src->event->trigger != LUO_PER_STEP_PROBABILITY) continue;
        luo_draw_all(&src->rng, &src->life, &src->draws);
        if (starts && s->lives[i] == 0 && src->draws.time < src->event->at[0])
            LUO_TRY(start_at_step(e, i, err));
    }
    return LUO_OK;
}

luo_status luo_events_step(luo_events *e, int64_t step, double t_s, luo_err *err)
{
    LUO_TRY(luo_events_advance(e, t_s, step, err));
    if (step < e->state.next_step) return LUO_OK;
    assert(step == e->state.next_step);
    return trigger(e, false, err);
}

luo_status luo_events_skip(luo_events *e, int64_t step, luo_err *err)
{
    luo_event_state *s = &e->state;
    while (s->next_step < step) {
        s->step = s->next_step;
        LUO_TRY(trigger(e, true, err));
    }
    s->step = step;
    return LUO_OK;
}

luo_status luo_events_lose_device(luo_events *e, int32_t device, const char *detail, luo_err *err)
{
    const luo_choice *choice;
    const luo_draws none = {0};
    luo_event_source *src = &e->sources[e->nsources - 1];
    luo_event *death = LUO_NEW(e->arena, luo_event);
    char *id = luo_arena_printf(e->arena, "process-%d", e->deaths + 1);
    char *cause = luo_arena_strdup(e->arena, detail);
    if (!death || !id || !cause) return luo_err_nomem(err);
    LUO_TRY(luo_scope_device(e, device, &choice, err));
    *death = (luo_event){.id = id, .cause = cause, .kind = LUO_EVENT_FAIL};
    src->event = death;
    e->deaths++;
    e->state.nchanges = 0;
    return luo_effect_start(e, &e->state, e->nsources - 1, choice, id, &none, err);
}

const luo_world *luo_events_world(const luo_events *e)
{
    return e->state.world;
}

void luo_events_set_job(luo_events *e, const int32_t *dev, int32_t n)
{
    e->job = dev;
    e->njob = n;
}

bool luo_events_take_crash(luo_events *e)
{
    const bool crash = e->state.crash;
    e->state.crash = false;
    return crash;
}

const bool *luo_events_leaving(const luo_events *e)
{
    return e->state.leaving;
}

int64_t luo_events_tokens(const luo_events *e)
{
    return e->state.tokens;
}

double luo_events_expected(const luo_events *e, double duration_s)
{
    double sum = 0;
    for (int32_t i = 0; i < e->nsources; i++) {
        const luo_event_source *s = &e->sources[i];
        const luo_event *ev = s->event;
        double span = duration_s;
        if (ev && s->life.duration_s > 0) span = fmin(span, s->life.duration_s);
        if (span == INFINITY) continue; /* as long as the run lasts, and who knows how long */
        if (s->process) sum += 2 * span / s->mean_s * s->target.choices->ndev;
        else if (ev && ev->kind == LUO_EVENT_FLAP) sum += 2 * span / (ev->down_s + ev->up_s);
    }
    return sum;
}

double luo_events_rate(const luo_events *e)
{
    double rate = 0;
    for (int32_t i = 0; i < e->nsources; i++)
        if (e->sources[i].process)
            rate += e->sources[i].target.choices->ndev / e->sources[i].mean_s;
    return rate;
}

void luo_events_set_work(luo_events *e, const luo_work *limits)
{
    e->work = limits;
}

const luo_overlap *luo_events_overlap(const luo_events *e)
{
    return &e->overlap;
}

void luo_events_progress(luo_events *e)
{
    e->rows = 0;
}

bool luo_events_hushed(const luo_events *e)
{
    return e->hushed;
}

int32_t luo_events_fired(const luo_events *e)
{
    return e->state.fired;
}

const luo_change *luo_events_changes(const luo_events *e, int32_t *n)
{
    *n = e->state.nchanges;
    return e->state.changes;
}

luo_occurrence *luo_events_occurrences(luo_events *e, int32_t *n)
{
    *n = e->noccurrences;
    return e->occurrences;
}

luo_status luo_events_never(luo_events *e, luo_arena *arena, const char *const **out, int32_t *n,
                            luo_err *err)
{
    const luo_scenario *sc = e->scenario;
    const int32_t entries = sc->nevents + sc->nprocesses;
    const char **ids = LUO_NEW_N(arena, const char *, entries);
    int32_t *fires = LUO_NEW_N(arena, int32_t, entries + 1);
    if (!ids || !fires) return luo_err_nomem(err);
    for (int32_t i = 0; i < e->nsources; i++)
        fires[e->sources[i].entry] += e->state.fires[i] + e->sources[i].ignored;
    *n = 0;
    for (int32_t i = 0; i < entries; i++)
        if (fires[i] == 0)
            ids[(*n)++] = i < sc->nevents ? sc->events[i].id : sc->processes[i - sc->nevents].id;
    *out = ids;
    return LUO_OK;
}
