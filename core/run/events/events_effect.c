/* Effects of occurrences on the world (docs/formats.md#luoshuscenario1, "Overlaps"): slowdowns
 * multiply, bandwidth factors multiply, extra latencies add, and a device or link is up when
 * nothing that is on holds it down. */
#include <math.h>

#include "core/base/quantity.h"
#include "core/run/events/events_internal.h"

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

/* What a list of holds makes of its device or link. */
static void carry(const luo_events *events, const luo_event_state *state, int32_t head,
                  luo_burden *burden)
{
    for (int32_t h = head; h >= 0; h = state->holds[h].next) {
        const luo_effect *effect = &state->effects[state->holds[h].effect];
        luo_event_deed_of(events->sources[effect->source].kind)->apply(effect, burden);
    }
}

static luo_burden burden_of_device(const luo_events *events, const luo_event_state *state,
                                   int32_t dev)
{
    luo_burden burden = {.slowdown = events->base_slowdown[dev], .down = state->base_down[dev]};
    carry(events, state, state->dev_holds[dev], &burden);
    return burden;
}

static bool is_held_hard(const luo_events *events, const luo_event_state *state, int32_t dev)
{
    bool hard = false;
    for (int32_t h = state->dev_holds[dev]; h >= 0; h = state->holds[h].next) {
        const luo_effect *effect = &state->effects[state->holds[h].effect];
        const luo_event *ev = events->sources[effect->source].event;
        hard |= effect->down && ev && ev->hard;
    }
    return hard;
}

static luo_status refresh_device(luo_events *events, luo_event_state *state, int32_t dev,
                                 luo_err *err)
{
    const luo_burden burden = burden_of_device(events, state, dev);
    const double slowdown = cut_slowdown(events, state, dev, burden.slowdown);
    const bool down = burden.down;
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
    luo_burden burden = {.factor = 1, .down = state->base_cut[link]};
    carry(events, state, state->link_holds[link], &burden);
    const double factor = burden.down ? 0 : cut_factor(events, state, link, burden.factor);
    const double latency_s = cut_latency(events, state, link, burden.latency_s);
    if (factor == state->world->link_factor[link] &&
        latency_s == state->world->link_extra_latency_s[link])
        return LUO_OK;
    return change(
        events, state,
        (luo_change){
            .kind = LUO_CHANGE_LINK, .target = link, .value = factor, .latency_s = latency_s},
        err);
}

static luo_status refresh(luo_events *events, luo_event_state *state, const luo_choice *choice,
                          luo_err *err)
{
    for (int32_t i = 0; choice && i < choice->ndev; i++)
        LUO_TRY(refresh_device(events, state, choice->dev[i], err));
    for (int32_t i = 0; choice && i < choice->nlink; i++)
        LUO_TRY(refresh_link(events, state, choice->link[i], err));
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

static luo_status record(luo_events *events, luo_event_state *state, int32_t source,
                         const luo_choice *choice, const char *id, double value, double life_s,
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
    events->occurrences[events->noccurrences] =
        (luo_occurrence){.id = id,
                         .target = choice ? choice->name : "job",
                         .detail = detail,
                         .choice = choice,
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
        const luo_effect *effect = &state->effects[i];
        const luo_event_kind kind = events->sources[effect->source].kind;
        luo_burden burden = {0};
        if (effect->serial <= newest || luo_event_traits_of(kind).hits != LUO_HITS_DATA) continue;
        newest = effect->serial;
        luo_event_deed_of(kind)->apply(effect, &burden);
        state->tokens = burden.tokens;
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

static luo_status drop_free(luo_events *events, luo_event_state *state, const luo_choice *choice,
                            luo_err *err)
{
    for (int32_t i = 0; i < state->neffects; i++) {
        luo_effect *effect = &state->effects[i];
        if (effect->serial < 0 || effect->held > 0 ||
            !luo_event_takes_down(events->sources[effect->source].kind))
            continue;
        LUO_TRY(luo_effect_end(events, state, i, err));
    }
    return refresh(events, state, choice, err);
}

luo_status luo_effect_bring_back(luo_events *events, luo_event_state *state,
                                 const luo_choice *choice, luo_err *err)
{
    for (int32_t i = 0; i < choice->ndev; i++) {
        state->base_down[choice->dev[i]] = false;
        release(events, state, &state->dev_holds[choice->dev[i]], -1);
    }
    for (int32_t i = 0; i < choice->nlink; i++) {
        state->base_cut[choice->link[i]] = false;
        release(events, state, &state->link_holds[choice->link[i]], -1);
    }
    return drop_free(events, state, choice, err);
}

static luo_status crash_job(luo_events *events, luo_event_state *state, luo_err *err)
{
    for (int up = 0; up < 2; up++)
        for (int32_t i = 0; i < events->njob; i++)
            if (!burden_of_device(events, state, events->job[i]).down)
                LUO_TRY(change(events, state,
                               (luo_change){.kind = up ? LUO_CHANGE_UP : LUO_CHANGE_DOWN,
                                            .target = events->job[i]},
                               err));
    state->crash = true;
    return LUO_OK;
}

static luo_status hold_all(luo_events *events, luo_event_state *state, int32_t effect, luo_err *err)
{
    const luo_choice *choice = state->effects[effect].choice;
    for (int32_t i = 0; choice && i < choice->ndev; i++)
        LUO_TRY(hold(events, state, &state->dev_holds[choice->dev[i]], effect, err));
    for (int32_t i = 0; choice && i < choice->nlink; i++)
        LUO_TRY(hold(events, state, &state->link_holds[choice->link[i]], effect, err));
    return LUO_OK;
}

static luo_status push_end(luo_events *events, luo_event_state *state, int32_t effect,
                           double life_s, luo_err *err)
{
    return luo_action_push(events, state,
                           (luo_action){.at_s = state->now_s + life_s,
                                        .kind = LUO_ACTION_END,
                                        .ref = effect,
                                        .serial = state->effects[effect].serial},
                           err);
}

luo_status luo_effect_start(luo_events *events, luo_event_state *state, int32_t source,
                            const luo_choice *choice, const char *id, const luo_draws *draws,
                            luo_err *err)
{
    const luo_event_source *src = &events->sources[source];
    const luo_event_deed *deed = luo_event_deed_of(src->kind);
    const luo_event_traits traits = luo_event_traits_of(src->kind);
    const double value = luo_event_magnitude(src, draws);
    const double life_s = luo_draw_life(&src->life, draws);
    const bool data = traits.hits == LUO_HITS_DATA, job = !choice && !data;
    const bool idle = job ? events->njob == 0 : deed->idle(state, choice);
    int32_t occurrence, effect;

    if (idle && !state->quiet) events->sources[source].ignored = true;
    if (idle && luo_event_is_hushed(events, src)) return LUO_OK;
    if (idle) {
        const luo_occurrence o = {.id = id,
                                  .target = choice ? choice->name : "job",
                                  .detail = "",
                                  .kind = src->kind,
                                  .value = value};
        return luo_event_emit(events, state, &o, LUO_EVENT_PHASE_IGNORED, err);
    }
    state->fired++;
    state->fires[source]++;
    LUO_TRY(record(events, state, source, choice, id, value, life_s, &occurrence, err));
    if (job || traits.loss == LUO_LOSS_BACK) {
        LUO_TRY(job ? crash_job(events, state, err) : deed->begin(events, state, -1, choice, err));
        return close_at_once(events, state, occurrence, err);
    }

    LUO_TRY(new_effect(events, state, &effect, err));
    state->effects[effect] = (luo_effect){
        .source = source,
        .occurrence = occurrence,
        .choice = choice,
        .value = value,
        .latency_s = src->event ? src->event->extra_latency_s : src->process->extra_latency_s,
        .level = 1,
        .down = luo_event_takes_down(src->kind),
        .next_free = -1,
        .serial = state->serial++,
        .end_step = src->life.steps > 0 ? state->step + src->life.steps : -1};
    state->lives[source]++;
    LUO_TRY(hold_all(events, state, effect, err));
    LUO_TRY(deed->begin(events, state, effect, choice, err));
    if (life_s < INFINITY) LUO_TRY(push_end(events, state, effect, life_s, err));
    if (data) refresh_tokens(events, state);
    LUO_TRY(refresh(events, state, choice, err));
    return occurrence < 0 ? LUO_OK
                          : luo_event_emit(events, state, &events->occurrences[occurrence],
                                           LUO_EVENT_PHASE_FIRED, err);
}

luo_status luo_effect_end(luo_events *events, luo_event_state *state, int32_t effect, luo_err *err)
{
    luo_effect *f = &state->effects[effect];
    const luo_choice *choice = f->choice;
    const int32_t occurrence = f->occurrence;
    for (int32_t i = 0; choice && i < choice->ndev; i++)
        release(events, state, &state->dev_holds[choice->dev[i]], effect);
    for (int32_t i = 0; choice && i < choice->nlink; i++)
        release(events, state, &state->link_holds[choice->link[i]], effect);
    const luo_event_kind kind = events->sources[f->source].kind;
    state->lives[f->source]--;
    f->serial = -1;
    f->next_free = state->free_effect;
    state->free_effect = effect;
    if (luo_event_traits_of(kind).hits == LUO_HITS_DATA) refresh_tokens(events, state);
    LUO_TRY(refresh(events, state, choice, err));
    if (occurrence < 0) return LUO_OK;
    luo_occurrence *o = &events->occurrences[occurrence];
    o->end_s = state->now_s;
    o->last_step = state->step;
    return luo_event_emit(events, state, o, LUO_EVENT_PHASE_ENDED, err);
}

luo_status luo_effect_ramp(luo_events *events, luo_event_state *state, int32_t effect, int32_t k,
                           luo_err *err)
{
    state->effects[effect].level = (double)k / LUO_RAMP_STEPS;
    return refresh(events, state, state->effects[effect].choice, err);
}

luo_status luo_effect_toggle(luo_events *events, luo_event_state *state, int32_t effect,
                             luo_err *err)
{
    luo_effect *f = &state->effects[effect];
    const luo_event *ev = events->sources[f->source].event;
    f->down = !f->down && !state->calm;
    const double next_s = luo_event_later(state->now_s, f->down ? ev->down_s : ev->up_s);
    const luo_action next = {
        .at_s = next_s, .kind = LUO_ACTION_TOGGLE, .ref = effect, .serial = f->serial};
    if (!state->calm) LUO_TRY(luo_action_push(events, state, next, err));
    return refresh(events, state, state->effects[effect].choice, err);
}
