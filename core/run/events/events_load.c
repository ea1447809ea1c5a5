/* From the events and processes of a scenario to the sources of the engine: targets read, what is
 * drawn at load drawn (docs/formats.md). */
#include <math.h>
#include <string.h>

#include "core/run/events/events_internal.h"

static bool has_devices(const luo_target *target)
{
    for (int32_t i = 0; i < target->nchoices; i++)
        if (target->choices[i].ndev == 0) return false;
    return true;
}

static bool has_links(const luo_target *target)
{
    for (int32_t i = 0; i < target->nchoices; i++)
        if (target->choices[i].nlink == 0) return false;
    return true;
}

static luo_status check_target(const luo_event *ev, const luo_target *target, luo_err *err)
{
    const luo_event_value value = luo_event_traits_of(ev->kind).value;
    if (value == LUO_VALUE_SLOWDOWN && !has_devices(target))
        return luo_err_set(err, LUO_EINPUT, "`target` is `%s`; event `%s` slows devices down, so "
                           "devices, nodes, groups or racks are expected.", ev->target, ev->id);
    if (value == LUO_VALUE_FACTOR && !has_links(target))
        return luo_err_set(err, LUO_EINPUT, "`target` is `%s`; event `%s` changes links, so links, "
                           "switches or whole nodes are expected.", ev->target, ev->id);
    return LUO_OK;
}

static void draw_event(luo_event_source *source)
{
    const luo_event *ev = source->event;
    source->at_step = -1;
    if (ev->trigger == LUO_PER_STEP_PROBABILITY) return; /* drawn step by step */
    luo_draw_all(&source->rng, &source->life, &source->draws);
    if (ev->trigger == LUO_AT_STEP) source->at_step = (int64_t)ev->at[0];
    if (ev->trigger == LUO_BETWEEN_STEPS)
        source->at_step =
            (int64_t)floor(ev->at[0] + source->draws.time * (ev->at[1] - ev->at[0] + 1));
}

/* Events with a date go onto the heap, with their announcement. */
static luo_status schedule(luo_events *events, int32_t source, luo_err *err)
{
    const luo_event_source *event_source = &events->sources[source];
    const luo_event *ev = event_source->event;
    double at_s = ev->at[0];
    if (ev->trigger == LUO_BETWEEN_S)
        at_s += event_source->draws.time * (ev->at[1] - ev->at[0]);
    else if (ev->trigger != LUO_AT_S) return LUO_OK;
    if (ev->notice_s > 0)
        LUO_TRY(luo_action_push(events, &events->state,
                                (luo_action){.at_s = fmax(0, at_s - ev->notice_s),
                                             .kind = LUO_ACTION_NOTICE,
                                             .ref = source},
                                err));
    return luo_action_push(events, &events->state,
                           (luo_action){.at_s = at_s, .kind = LUO_ACTION_START, .ref = source},
                           err);
}

static luo_status load_event(luo_events *events, int32_t i, luo_err *err)
{
    const luo_event *ev = &events->scenario->events[i];
    luo_event_source *source = &events->sources[events->nsources];
    *source = (luo_event_source){.id = ev->id,
                                 .kind = ev->kind,
                                 .event = ev,
                                 .life = ev->life,
                                 .entry = i,
                                 .rng = luo_rng_stream(events->scenario->seed, ev->id)};
    if (luo_event_traits_of(ev->kind).hits != LUO_HITS_DATA) {
        luo_status st = luo_target_parse(events->arena, events->scenario->cluster, ev->target,
                                         &source->target, err);
        if (st == LUO_OK) st = check_target(ev, &source->target, err);
        if (st != LUO_OK) return luo_err_at(err, st, NULL, ev->line, ev->col);
    }
    draw_event(source);
    return schedule(events, events->nsources++, err);
}

static luo_status add_process(luo_events *events, const luo_arrivals *arrivals,
                              const luo_cause *cause, const luo_target *target, int32_t entry,
                              luo_err *err)
{
    luo_event_source source = {.id = arrivals->id,
                               .kind = arrivals->kind,
                               .process = arrivals,
                               .cause = cause,
                               .target = *target,
                               .life = arrivals->life,
                               .at_step = -1,
                               .mean_s = arrivals->mean_s,
                               .entry = entry};
    if (cause) {
        if (cause->count <= 0) return LUO_OK;
        if (cause->scope == LUO_SCOPE_JOB &&
            luo_event_traits_of(cause->kind).loss != LUO_LOSS_GONE)
            return luo_err_set(err, LUO_EINPUT,
                               "cause `%s` of process `%s` has scope `job` and "
                               "kind `%s`; only `fail` can hit the whole job.",
                               cause->cause, arrivals->id, luo_event_kind_name(cause->kind));
        source.id = luo_arena_printf(events->arena, "%s#%s", arrivals->id, cause->cause);
        if (!source.id) return luo_err_nomem(err);
        source.kind = cause->kind;
        source.mean_s = arrivals->observed_devices * arrivals->observed_s / (double)cause->count;
        source.life = (luo_life){0};
        if (cause->life_median_s > 0)
            source.life = (luo_life){.dist = LUO_DIST_LOGNORMAL,
                                     .median_s = cause->life_median_s,
                                     .sigma = cause->life_sigma};
    }
    events->sources[events->nsources++] = source;
    return LUO_OK;
}

/* A process must be able to start and end what it does: flaps and lengths have no clocks. */
static luo_status check_process(const luo_arrivals *arrivals, const luo_target *target,
                                luo_err *err)
{
    const luo_event_traits traits = luo_event_traits_of(arrivals->kind);
    if (traits.loss == LUO_LOSS_BY_TURNS || traits.hits == LUO_HITS_DATA)
        return luo_err_set(err, LUO_EINPUT,
                           "process `%s` is of kind `%s`; straggler, fail, leave, "
                           "join, link or causes is expected.",
                           arrivals->id, luo_event_kind_name(arrivals->kind));
    if (target->any || !has_devices(target))
        return luo_err_set(err, LUO_EINPUT,
                           "`target` is `%s`; process `%s` has a clock for each "
                           "device, so devices, nodes, groups or racks are expected.",
                           arrivals->target, arrivals->id);
    return LUO_OK;
}

static luo_status load_process(luo_events *events, int32_t i, luo_err *err)
{
    const luo_arrivals *arrivals = &events->scenario->processes[i];
    const int32_t entry = events->scenario->nevents + i;
    luo_target target;
    luo_status st =
        luo_target_parse(events->arena, events->scenario->cluster, arrivals->target, &target, err);
    if (st == LUO_OK) st = check_process(arrivals, &target, err);
    if (st == LUO_OK && arrivals->kind != LUO_EVENT_CAUSES)
        st = add_process(events, arrivals, NULL, &target, entry, err);
    for (int32_t c = 0; st == LUO_OK && arrivals->kind == LUO_EVENT_CAUSES && c < arrivals->ncauses;
         c++)
        st = add_process(events, arrivals, &arrivals->causes[c], &target, entry, err);
    return luo_err_at(err, st, NULL, arrivals->line, arrivals->col);
}

static luo_status make_state(luo_events *events, luo_event_state *state, luo_err *err)
{
    const luo_cluster *cluster = events->scenario->cluster;
    LUO_TRY(luo_world_new(events->arena, cluster, &state->world, err));
    state->leaving = LUO_NEW_N(events->arena, bool, cluster->ndevices);
    state->base_down = LUO_NEW_N(events->arena, bool, cluster->ndevices);
    state->base_cut = LUO_NEW_N(events->arena, bool, cluster->nlinks);
    state->dev_holds = LUO_NEW_N(events->arena, int32_t, cluster->ndevices);
    state->link_holds = LUO_NEW_N(events->arena, int32_t, cluster->nlinks);
    state->lives = LUO_NEW_N(events->arena, int32_t, events->nsources);
    state->fires = LUO_NEW_N(events->arena, int32_t, events->nsources);
    if (!state->leaving || !state->base_down || !state->base_cut || !state->dev_holds ||
        !state->link_holds || !state->lives || !state->fires)
        return luo_err_nomem(err);
    memset(state->dev_holds, -1, (size_t)cluster->ndevices * sizeof *state->dev_holds);
    memset(state->link_holds, -1, (size_t)cluster->nlinks * sizeof *state->link_holds);
    state->free_effect = state->free_hold = -1;
    return LUO_OK;
}

static luo_status make_world(luo_events *events, luo_err *err)
{
    LUO_TRY(make_state(events, &events->state, err));
    LUO_TRY(make_state(events, &events->ahead, err));
    const luo_world *world = events->state.world;
    events->base_slowdown = LUO_NEW_N(events->arena, double, world->ndevices);
    if (!events->base_slowdown) return luo_err_nomem(err);
    for (int32_t d = 0; d < world->ndevices; d++) {
        events->base_slowdown[d] = world->slowdown[d];
        events->state.base_down[d] = !world->up[d];
    }
    for (int32_t l = 0; l < world->nlinks; l++)
        events->state.base_cut[l] = world->link_factor[l] == 0;
    return LUO_OK;
}

/* In place of the event that a process which died by itself becomes (luo_events_lose_device). */
static const luo_event no_death = {.id = "process", .cause = "", .kind = LUO_EVENT_FAIL};

luo_status luo_events_new(luo_arena *arena, const luo_scenario *scenario, luo_event_log log,
                          luo_events **out, luo_err *err)
{
    luo_events *events = LUO_NEW(arena, luo_events);
    int64_t n = scenario->nevents + 1;
    for (int32_t i = 0; i < scenario->nprocesses; i++)
        n += scenario->processes[i].ncauses > 0 ? scenario->processes[i].ncauses : 1;
    if (events)
        *events = (luo_events){.arena = arena,
                               .scenario = scenario,
                               .log = log,
                               .sources = LUO_NEW_N(arena, luo_event_source, n)};
    if (!events || !events->sources) return luo_err_nomem(err);
    for (int32_t i = 0; i < scenario->nevents; i++) LUO_TRY(load_event(events, i, err));
    for (int32_t i = 0; i < scenario->nprocesses; i++) LUO_TRY(load_process(events, i, err));
    events->sources[events->nsources++] =
        (luo_event_source){.id = "process",
                           .kind = LUO_EVENT_FAIL,
                           .event = &no_death,
                           .at_step = -1,
                           .entry = scenario->nevents + scenario->nprocesses};
    LUO_TRY(make_world(events, err));
    LUO_TRY(luo_scopes_make(events, err));
    LUO_TRY(luo_clocks_make(events, err));
    *out = events;
    return LUO_OK;
}
