/* Effects of occurrences on the world (docs/formats.md#luoshuscenario1, "Overlaps"): slowdowns
 * multiply, bandwidth factors multiply, extra latencies add, and a device or link is up when
 * nothing that is on holds it down. */
#include <math.h>

#include "core/base/quantity.h"
#include "core/run/events/events_internal.h"

enum { RAMP_STEPS = 10 };

static luo_status change(luo_events *events, luo_event_state *state, luo_change c, luo_err *err)
{
    LUO_TRY(luo_event_room(events, &state->changes, state->nchanges, &state->cap_changes,
                           sizeof *state->changes, err));
    c.at_s = state->now_s;
    state->changes[state->nchanges++] = c;
    luo_world_apply(state->world, &c);
    return LUO_OK;
}

/* What overlaps make, held to [lo, hi]; the first one beyond is kept for the run to tell. */
static double cut(luo_events *events, const luo_event_state *state, const char *what,
                  int32_t target, const char *name, double product, double lo, double hi)
{
    const double v = fmin(fmax(product, lo), hi);
    if (v != product && !state->quiet && !events->overlap.what)
        events->overlap = (luo_overlap){what, name, target, product, v, state->now_s};
    return v;
}

static double cut_slowdown(luo_events *events, const luo_event_state *state, int32_t dev,
                           double product)
{
    const double most = luo_quantity_at(LUO_Q_SLOWDOWN)->highest /
                        luo_cluster_base_slowdown(events->scenario->cluster, dev);
    return cut(events, state, "slowdowns of device", dev, "", product, 1, fmax(1, most));
}

static double cut_factor(luo_events *events, const luo_event_state *state, int32_t link,
                         double product)
{
    return cut(events, state, "bandwidth factors of link", link,
               events->scenario->cluster->links[link].name, product,
               luo_quantity_at(LUO_Q_LINK_FACTOR)->lowest, 1);
}

static double cut_latency(luo_events *events, const luo_event_state *state, int32_t link,
                          double sum)
{
    return cut(events, state, "extra latencies of link", link,
               events->scenario->cluster->links[link].name, sum, 0,
               luo_quantity_at(LUO_Q_LATENCY)->highest);
}

static bool is_held_down(const luo_event_state *state, int32_t dev)
{
    bool down = state->base_down[dev];
    for (int32_t h = state->dev_holds[dev]; h >= 0; h = state->holds[h].next)
        down |= state->effects[state->holds[h].effect].down;
    return down;
}

static bool is_held_hard(const luo_events *events, const luo_event_state *state, int32_t dev)
{
    bool hard = false;
    for (int32_t h = state->dev_holds[dev]; h >= 0; h = state->holds[h].next) {
        const luo_effect *f = &state->effects[state->holds[h].effect];
        const luo_event *ev = events->sources[f->source].event;
        hard |= f->down && ev && ev->hard;
    }
    return hard;
}

static luo_status refresh_device(luo_events *events, luo_event_state *state, int32_t dev,
                                 luo_err *err)
{
    const bool down = is_held_down(state, dev);
    double slowdown = events->base_slowdown[dev];
    for (int32_t h = state->dev_holds[dev]; h >= 0; h = state->holds[h].next) {
        const luo_effect *f = &state->effects[state->holds[h].effect];
        if (events->sources[f->source].kind == LUO_EVENT_STRAGGLER)
            slowdown *= 1 + (f->value - 1) * f->level;
    }
    slowdown = cut_slowdown(events, state, dev, slowdown);
    if (slowdown != state->world->slowdown[dev])
        LUO_TRY(change(events, state,
                       (luo_change){.kind = LUO_CHANGE_SLOWDOWN, .target = dev, .value = slowdown},
                       err));
    if (down == !state->world->up[dev]) return LUO_OK;
    LUO_TRY(change(events, state,
                   (luo_change){.kind = down ? LUO_CHANGE_DOWN : LUO_CHANGE_UP,
                                .target = dev,
                                .hard = down && is_held_hard(events, state, dev)},
                   err));
    if (down)
        luo_clocks_pause(events, state, dev);
    else
        luo_clocks_resume(events, state, dev);
    return LUO_OK;
}

static luo_status refresh_link(luo_events *events, luo_event_state *state, int32_t link,
                               luo_err *err)
{
    double factor = 1, latency_s = 0;
    bool down = state->base_cut[link];
    for (int32_t h = state->link_holds[link]; h >= 0; h = state->holds[h].next) {
        const luo_effect *f = &state->effects[state->holds[h].effect];
        down |= f->down;
        if (events->sources[f->source].kind != LUO_EVENT_LINK) continue;
        factor *= f->value;
        latency_s += f->latency_s;
    }
    factor = down ? 0 : cut_factor(events, state, link, factor);
    latency_s = cut_latency(events, state, link, latency_s);
    if (factor == state->world->link_factor[link] &&
        latency_s == state->world->link_extra_latency_s[link])
        return LUO_OK;
    return change(
        events, state,
        (luo_change){
            .kind = LUO_CHANGE_LINK, .target = link, .value = factor, .latency_s = latency_s},
        err);
}

static luo_status refresh(luo_events *events, luo_event_state *state, const luo_choice *c,
                          luo_err *err)
{
    for (int32_t i = 0; c && i < c->ndev; i++)
        LUO_TRY(refresh_device(events, state, c->dev[i], err));
    for (int32_t i = 0; c && i < c->nlink; i++)
        LUO_TRY(refresh_link(events, state, c->link[i], err));
    return LUO_OK;
}

static luo_status hold(luo_events *events, luo_event_state *state, int32_t *head, int32_t effect,
                       luo_err *err)
{
    int32_t h = state->free_hold;
    if (h >= 0)
        state->free_hold = state->holds[h].next;
    else {
        LUO_TRY(luo_event_room(events, &state->holds, state->nholds, &state->cap_holds,
                               sizeof *state->holds, err));
        h = state->nholds++;
    }
    state->holds[h] = (luo_hold){.effect = effect, .next = *head};
    *head = h;
    state->effects[effect].held++;
    return LUO_OK;
}

/* Takes out of the list what belongs to `effect`, or, if it is -1, to failures, a flap that is up
 * at the moment included. */
static void release(const luo_events *events, luo_event_state *state, int32_t *head, int32_t effect)
{
    for (int32_t *at = head; *at >= 0;) {
        const int32_t h = *at, f = state->holds[h].effect;
        if (effect >= 0 ? f != effect
                        : !luo_event_takes_down(events->sources[state->effects[f].source].kind)) {
            at = &state->holds[h].next;
            continue;
        }
        *at = state->holds[h].next;
        state->holds[h].next = state->free_hold;
        state->free_hold = h;
        state->effects[f].held--;
    }
}

static luo_status new_effect(luo_events *events, luo_event_state *state, int32_t *out, luo_err *err)
{
    if (state->free_effect >= 0) {
        *out = state->free_effect;
        state->free_effect = state->effects[*out].next_free;
        return LUO_OK;
    }
    LUO_TRY(luo_event_room(events, &state->effects, state->neffects, &state->cap_effects,
                           sizeof *state->effects, err));
    *out = state->neffects++;
    return LUO_OK;
}

/* Is the target in that state already (or, for slowness, in none)? */
static bool is_idle(const luo_event_state *state, luo_event_kind kind, const luo_choice *c)
{
    bool any_up = false, any_down = false;
    if (kind == LUO_EVENT_LENGTHS) return false;
    for (int32_t i = 0; i < c->ndev; i++)
        *(state->world->up[c->dev[i]] ? &any_up : &any_down) = true;
    if (kind == LUO_EVENT_STRAGGLER) return !any_up;
    if (kind == LUO_EVENT_LINK) any_up = any_down = false;
    for (int32_t i = 0; i < c->nlink; i++)
        *(state->world->link_factor[c->link[i]] > 0 ? &any_up : &any_down) = true;
    return kind == LUO_EVENT_JOIN ? !any_down : !any_up;
}

static double magnitude(const luo_event_source *src, const luo_draws *d)
{
    const double *between = src->event ? src->event->slowdown_between
                                       : src->process->slowdown_between;
    switch (src->kind) {
    case LUO_EVENT_STRAGGLER:
        if (src->cause) return src->cause->value > 0 ? src->cause->value : 1;
        if (between[1] > 0) return between[0] + d->magnitude * (between[1] - between[0]);
        return src->event ? src->event->slowdown : src->process->slowdown;
    case LUO_EVENT_LINK:
        if (src->cause) return src->cause->value > 0 ? src->cause->value : 1;
        return src->event ? src->event->bandwidth_factor : src->process->bandwidth_factor;
    case LUO_EVENT_LENGTHS: return (double)src->event->tokens;
    case LUO_EVENT_FAIL:
    case LUO_EVENT_LEAVE:
    case LUO_EVENT_JOIN:
    case LUO_EVENT_FLAP:
    case LUO_EVENT_CAUSES: break;
    }
    return 1;
}

static luo_status push(luo_events *events, luo_event_state *state, int32_t effect,
                       luo_action_kind kind, double at_s, int32_t k, luo_err *err)
{
    const luo_action a = {
        .at_s = at_s, .kind = kind, .ref = effect, .k = k, .serial = state->effects[effect].serial};
    return luo_action_push(events, state, a, err);
}

/* Ramps, flaps and the end of the effect. */
static luo_status plan_future(luo_events *events, luo_event_state *state, int32_t effect,
                              double life_s, luo_err *err)
{
    const luo_event *ev = events->sources[state->effects[effect].source].event;
    if (ev && ev->kind == LUO_EVENT_STRAGGLER && ev->ramp_s > 0) {
        state->effects[effect].level = 0;
        for (int32_t k = 1; k <= RAMP_STEPS; k++)
            LUO_TRY(push(events, state, effect, LUO_ACTION_RAMP,
                         state->now_s + ev->ramp_s * k / RAMP_STEPS, k, err));
    }
    if (ev && ev->kind == LUO_EVENT_FLAP)
        LUO_TRY(push(events, state, effect, LUO_ACTION_TOGGLE, state->now_s + ev->down_s, 0, err));
    if (life_s < INFINITY)
        LUO_TRY(push(events, state, effect, LUO_ACTION_END, state->now_s + life_s, 0, err));
    return LUO_OK;
}

static luo_status record(luo_events *events, luo_event_state *state, int32_t source,
                         const luo_choice *c, const char *id, double value, double life_s,
                         int32_t *out, luo_err *err)
{
    const luo_event_source *src = &events->sources[source];
    const char *cause = src->cause ? src->cause->cause : src->event ? src->event->cause : "";
    *out = -1;
    if (state->quiet || luo_event_is_hushed(events, src)) return LUO_OK;
    LUO_TRY(luo_event_room(events, &events->occurrences, events->noccurrences,
                           &events->cap_occurrences, sizeof *events->occurrences, err));
    if (!cause) cause = "";
    const char *semi = *cause ? "; " : "";
    char *detail;
    if (src->life.steps > 0)
        detail = luo_arena_printf(events->arena, "%s%sfor %lld steps", cause, semi,
                                  (long long)src->life.steps);
    else if (life_s < INFINITY)
        detail = luo_arena_printf(events->arena, "%s%sfor %.3f s", cause, semi, life_s);
    else
        detail = luo_arena_strdup(events->arena, cause);
    if (!detail) return luo_err_nomem(err);
    events->occurrences[events->noccurrences] = (luo_occurrence){.id = id,
                                                                 .target = c ? c->name : "job",
                                                                 .detail = detail,
                                                                 .choice = c,
                                                                 .kind = src->kind,
                                                                 .value = value,
                                                                 .start_s = state->now_s,
                                                                 .end_s = -1,
                                                                 .first_step = state->step,
                                                                 .last_step = -1,
                                                                 .detected_s = -1};
    *out = events->noccurrences++;
    return LUO_OK;
}

/* The newest `lengths` that is on decides; ends of older ones do not show. */
static void refresh_tokens(const luo_events *events, luo_event_state *state)
{
    int64_t newest = -1;
    state->tokens = 0;
    for (int32_t i = 0; i < state->neffects; i++) {
        const luo_effect *f = &state->effects[i];
        if (f->serial <= newest || events->sources[f->source].kind != LUO_EVENT_LENGTHS) continue;
        newest = f->serial;
        state->tokens = (int64_t)f->value;
    }
}

/* What is over at its start: a join, and a crash of the job. */
static luo_status close_at_once(luo_events *events, luo_event_state *state, int32_t occurrence,
                                luo_err *err)
{
    if (occurrence < 0) return LUO_OK;
    luo_occurrence *o = &events->occurrences[occurrence];
    o->end_s = o->start_s;
    o->last_step = o->first_step;
    return luo_event_emit(events, state, o, LUO_EVENT_PHASE_FIRED, err);
}

static luo_status drop_free(luo_events *events, luo_event_state *state, const luo_choice *c,
                            luo_err *err)
{
    for (int32_t i = 0; i < state->neffects; i++) {
        luo_effect *f = &state->effects[i];
        if (f->serial < 0 || f->held > 0 || !luo_event_takes_down(events->sources[f->source].kind))
            continue;
        LUO_TRY(luo_effect_end(events, state, i, err));
    }
    return refresh(events, state, c, err);
}

static luo_status join(luo_events *events, luo_event_state *state, const luo_choice *c,
                       luo_err *err)
{
    for (int32_t i = 0; i < c->ndev; i++) {
        state->base_down[c->dev[i]] = false;
        release(events, state, &state->dev_holds[c->dev[i]], -1);
    }
    for (int32_t i = 0; i < c->nlink; i++) {
        state->base_cut[c->link[i]] = false;
        release(events, state, &state->link_holds[c->link[i]], -1);
    }
    return drop_free(events, state, c, err);
}

static luo_status crash_job(luo_events *events, luo_event_state *state, luo_err *err)
{
    for (int up = 0; up < 2; up++)
        for (int32_t i = 0; i < events->njob; i++)
            if (!is_held_down(state, events->job[i]))
                LUO_TRY(change(events, state,
                               (luo_change){.kind = up ? LUO_CHANGE_UP : LUO_CHANGE_DOWN,
                                            .target = events->job[i]},
                               err));
    state->crash = true;
    return LUO_OK;
}

static luo_status hold_all(luo_events *events, luo_event_state *state, int32_t effect, luo_err *err)
{
    const luo_choice *c = state->effects[effect].choice;
    for (int32_t i = 0; c && i < c->ndev; i++)
        LUO_TRY(hold(events, state, &state->dev_holds[c->dev[i]], effect, err));
    for (int32_t i = 0; c && i < c->nlink; i++)
        LUO_TRY(hold(events, state, &state->link_holds[c->link[i]], effect, err));
    return LUO_OK;
}

luo_status luo_effect_start(luo_events *events, luo_event_state *s, int32_t source,
                            const luo_choice *choice, const char *id, const luo_draws *draws,
                            luo_err *err)
{
    const luo_event_source *src = &events->sources[source];
    const double value = magnitude(src, draws);
    const double life_s = luo_draw_life(&src->life, draws);
    const bool job = !choice && src->kind != LUO_EVENT_LENGTHS;
    const bool idle = job ? events->njob == 0 : is_idle(s, src->kind, choice);
    int32_t occurrence, effect;

    if (idle && !s->quiet) events->sources[source].ignored = true;
    if (idle && luo_event_is_hushed(events, src)) return LUO_OK;
    if (idle) {
        const luo_occurrence o = {.id = id, .target = choice ? choice->name : "job", .detail = "",
                                  .kind = src->kind, .value = value};
        return luo_event_emit(events, s, &o, LUO_EVENT_PHASE_IGNORED, err);
    }
    s->fired++;
    s->fires[source]++;
    LUO_TRY(record(events, s, source, choice, id, value, life_s, &occurrence, err));
    if (src->kind == LUO_EVENT_JOIN) LUO_TRY(join(events, s, choice, err));
    if (job) LUO_TRY(crash_job(events, s, err));
    if (src->kind == LUO_EVENT_JOIN || job) return close_at_once(events, s, occurrence, err);

    LUO_TRY(new_effect(events, s, &effect, err));
    s->effects[effect] = (luo_effect){
        .source = source,
        .occurrence = occurrence,
        .choice = choice,
        .value = value,
        .latency_s = src->event ? src->event->extra_latency_s : src->process->extra_latency_s,
        .level = 1,
        .down = luo_event_takes_down(src->kind),
        .next_free = -1,
        .serial = s->serial++,
        .end_step = src->life.steps > 0 ? s->step + src->life.steps : -1};
    s->lives[source]++;
    for (int32_t i = 0; choice && i < choice->ndev && src->kind == LUO_EVENT_LEAVE; i++)
        s->leaving[choice->dev[i]] = false;
    LUO_TRY(hold_all(events, s, effect, err));
    LUO_TRY(plan_future(events, s, effect, life_s, err));
    if (src->kind == LUO_EVENT_LENGTHS) refresh_tokens(events, s);
    LUO_TRY(refresh(events, s, choice, err));
    return occurrence < 0 ? LUO_OK
                          : luo_event_emit(events, s, &events->occurrences[occurrence],
                                           LUO_EVENT_PHASE_FIRED, err);
}

luo_status luo_effect_end(luo_events *events, luo_event_state *state, int32_t effect, luo_err *err)
{
    luo_effect *f = &state->effects[effect];
    const luo_choice *c = f->choice;
    const int32_t occurrence = f->occurrence;
    for (int32_t i = 0; c && i < c->ndev; i++)
        release(events, state, &state->dev_holds[c->dev[i]], effect);
    for (int32_t i = 0; c && i < c->nlink; i++)
        release(events, state, &state->link_holds[c->link[i]], effect);
    const bool lengths = events->sources[f->source].kind == LUO_EVENT_LENGTHS;
    state->lives[f->source]--;
    f->serial = -1;
    f->next_free = state->free_effect;
    state->free_effect = effect;
    if (lengths) refresh_tokens(events, state);
    LUO_TRY(refresh(events, state, c, err));
    if (occurrence < 0) return LUO_OK;
    luo_occurrence *o = &events->occurrences[occurrence];
    o->end_s = state->now_s;
    o->last_step = state->step;
    return luo_event_emit(events, state, o, LUO_EVENT_PHASE_ENDED, err);
}

luo_status luo_effect_ramp(luo_events *events, luo_event_state *state, int32_t effect, int32_t k,
                           luo_err *err)
{
    state->effects[effect].level = (double)k / RAMP_STEPS;
    return refresh(events, state, state->effects[effect].choice, err);
}

luo_status luo_effect_toggle(luo_events *events, luo_event_state *state, int32_t effect,
                             luo_err *err)
{
    luo_effect *f = &state->effects[effect];
    const luo_event *ev = events->sources[f->source].event;
    f->down = !f->down && !state->calm;
    const double next_s = luo_event_later(state->now_s, f->down ? ev->down_s : ev->up_s);
    if (!state->calm) LUO_TRY(push(events, state, effect, LUO_ACTION_TOGGLE, next_s, 0, err));
    return refresh(events, state, state->effects[effect].choice, err);
}
