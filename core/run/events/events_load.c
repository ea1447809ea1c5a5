/* From the events and processes of a scenario to the sources of the engine: targets read, what is
 * drawn at load drawn (docs/formats.md). */
#include <math.h>
#include <string.h>

#include "core/run/events/events_internal.h"

const char *luo_event_kind_name(luo_event_kind k)
{
#define WORD(kind, word, ...) word,
    static const char *const words[] = {LUO_EVENT_KIND_LIST(WORD)};
#undef WORD
    return words[k];
}

static bool has_devices(const luo_target *t)
{
    for (int32_t i = 0; i < t->nchoices; i++)
        if (t->choices[i].ndev == 0) return false;
    return true;
}

static bool has_links(const luo_target *t)
{
    for (int32_t i = 0; i < t->nchoices; i++)
        if (t->choices[i].nlink == 0) return false;
    return true;
}

static luo_status check_target(const luo_event *ev, const luo_target *t, luo_err *err)
{
    if (ev->kind == LUO_EVENT_STRAGGLER && !has_devices(t))
        return luo_err_set(err, LUO_EINPUT, "`target` is `%s`; event `%s` slows devices down, so "
                           "devices, nodes, groups or racks are expected.", ev->target, ev->id);
    if (ev->kind == LUO_EVENT_LINK && !has_links(t))
        return luo_err_set(err, LUO_EINPUT, "`target` is `%s`; event `%s` changes links, so links, "
                           "switches or whole nodes are expected.", ev->target, ev->id);
    return LUO_OK;
}

static void draw_event(luo_event_source *s)
{
    const luo_event *ev = s->event;
    s->at_step = -1;
    if (ev->trigger == LUO_PER_STEP_PROBABILITY) return; /* drawn step by step */
    luo_draw_all(&s->rng, &s->life, &s->draws);
    if (ev->trigger == LUO_AT_STEP) s->at_step = (int64_t)ev->at[0];
    if (ev->trigger == LUO_BETWEEN_STEPS)
        s->at_step = (int64_t)floor(ev->at[0] + s->draws.time * (ev->at[1] - ev->at[0] + 1));
}

/* Events with a date go onto the heap, with their announcement. */
static luo_status schedule(luo_events *e, int32_t source, luo_err *err)
{
    const luo_event_source *s = &e->sources[source];
    const luo_event *ev = s->event;
    double at_s = ev->at[0];
    if (ev->trigger == LUO_BETWEEN_S) at_s += s->draws.time * (ev->at[1] - ev->at[0]);
    else if (ev->trigger != LUO_AT_S) return LUO_OK;
    if (ev->kind == LUO_EVENT_LEAVE && ev->notice_s > 0)
        LUO_TRY(luo_action_push(e, &e->state, (luo_action){.at_s = fmax(0, at_s - ev->notice_s),
                                .kind = LUO_ACTION_NOTICE, .ref = source}, err));
    return luo_action_push(e, &e->state, (luo_action){.at_s = at_s, .kind = LUO_ACTION_START,
                                                      .ref = source}, err);
}

static luo_status load_event(luo_events *e, int32_t i, luo_err *err)
{
    const luo_event *ev = &e->scenario->events[i];
    luo_event_source *s = &e->sources[e->nsources];
    *s = (luo_event_source){.id = ev->id, .kind = ev->kind, .event = ev, .life = ev->life,
                            .entry = i, .rng = luo_rng_stream(e->scenario->seed, ev->id)};
    if (ev->kind != LUO_EVENT_LENGTHS) {
        luo_status st =
            luo_target_parse(e->arena, e->scenario->cluster, ev->target, &s->target, err);
        if (st == LUO_OK) st = check_target(ev, &s->target, err);
        if (st != LUO_OK) return luo_err_at(err, st, NULL, ev->line, ev->col);
    }
    draw_event(s);
    return schedule(e, e->nsources++, err);
}

static luo_status add_process(luo_events *e, const luo_process *p, const luo_cause *cause,
                              const luo_target *target, int32_t entry, luo_err *err)
{
    luo_event_source s = {.id = p->id, .kind = p->kind, .process = p, .cause = cause,
                          .target = *target, .life = p->life, .at_step = -1, .mean_s = p->mean_s,
                          .entry = entry};
    if (cause) {
        if (cause->count <= 0) return LUO_OK;
        if (cause->scope == LUO_SCOPE_JOB && cause->kind != LUO_EVENT_FAIL)
            return luo_err_set(err, LUO_EINPUT, "cause `%s` of process `%s` has scope `job` and "
                               "kind `%s`; only `fail` can hit the whole job.", cause->cause, p->id,
                               luo_event_kind_name(cause->kind));
        s.id = luo_arena_printf(e->arena, "%s#%s", p->id, cause->cause);
        if (!s.id) return luo_err_nomem(err);
        s.kind = cause->kind;
        s.mean_s = p->observed_devices * p->observed_s / (double)cause->count;
        s.life = (luo_life){0};
        if (cause->life_median_s > 0)
            s.life = (luo_life){.dist = LUO_DIST_LOGNORMAL, .median_s = cause->life_median_s,
                                .sigma = cause->life_sigma};
    }
    e->sources[e->nsources++] = s;
    return LUO_OK;
}

/* A process must be able to start and end what it does: flaps and lengths have no clocks. */
static luo_status check_process(const luo_process *p, const luo_target *t, luo_err *err)
{
    if (p->kind == LUO_EVENT_FLAP || p->kind == LUO_EVENT_LENGTHS)
        return luo_err_set(err, LUO_EINPUT, "process `%s` is of kind `%s`; straggler, fail, leave, "
                           "join, link or causes is expected.", p->id,
                           luo_event_kind_name(p->kind));
    if (t->any || !has_devices(t))
        return luo_err_set(err, LUO_EINPUT, "`target` is `%s`; process `%s` has a clock for each "
                           "device, so devices, nodes, groups or racks are expected.", p->target,
                           p->id);
    return LUO_OK;
}

static luo_status load_process(luo_events *e, int32_t i, luo_err *err)
{
    const luo_process *p = &e->scenario->processes[i];
    const int32_t entry = e->scenario->nevents + i;
    luo_target t;
    luo_status st = luo_target_parse(e->arena, e->scenario->cluster, p->target, &t, err);
    if (st == LUO_OK) st = check_process(p, &t, err);
    if (st == LUO_OK && p->kind != LUO_EVENT_CAUSES) st = add_process(e, p, NULL, &t, entry, err);
    for (int32_t c = 0; st == LUO_OK && p->kind == LUO_EVENT_CAUSES && c < p->ncauses; c++)
        st = add_process(e, p, &p->causes[c], &t, entry, err);
    return luo_err_at(err, st, NULL, p->line, p->col);
}

static luo_status make_state(luo_events *e, luo_event_state *s, luo_err *err)
{
    const luo_cluster *c = e->scenario->cluster;
    LUO_TRY(luo_world_new(e->arena, c, &s->world, err));
    s->leaving = LUO_NEW_N(e->arena, bool, c->ndevices);
    s->base_down = LUO_NEW_N(e->arena, bool, c->ndevices);
    s->base_cut = LUO_NEW_N(e->arena, bool, c->nlinks);
    s->dev_holds = LUO_NEW_N(e->arena, int32_t, c->ndevices);
    s->link_holds = LUO_NEW_N(e->arena, int32_t, c->nlinks);
    s->lives = LUO_NEW_N(e->arena, int32_t, e->nsources);
    s->fires = LUO_NEW_N(e->arena, int32_t, e->nsources);
    if (!s->leaving || !s->base_down || !s->base_cut || !s->dev_holds || !s->link_holds ||
        !s->lives || !s->fires)
        return luo_err_nomem(err);
    memset(s->dev_holds, -1, (size_t)c->ndevices * sizeof *s->dev_holds);
    memset(s->link_holds, -1, (size_t)c->nlinks * sizeof *s->link_holds);
    s->free_effect = s->free_hold = -1;
    return LUO_OK;
}

static luo_status make_world(luo_events *e, luo_err *err)
{
    LUO_TRY(make_state(e, &e->state, err));
    LUO_TRY(make_state(e, &e->ahead, err));
    const luo_world *w = e->state.world;
    e->base_slowdown = LUO_NEW_N(e->arena, double, w->ndevices);
    if (!e->base_slowdown) return luo_err_nomem(err);
    for (int32_t d = 0; d < w->ndevices; d++) {
        e->base_slowdown[d] = w->slowdown[d];
        e->state.base_down[d] = !w->up[d];
    }
    for (int32_t l = 0; l < w->nlinks; l++) e->state.base_cut[l] = w->link_factor[l] == 0;
    return LUO_OK;
}

/* In place of the event that a process which died by itself becomes (luo_events_lose_device). */
static const luo_event no_death = {.id = "process", .cause = "", .kind = LUO_EVENT_FAIL};

luo_status luo_events_new(luo_arena *arena, const luo_scenario *scenario, luo_event_log log,
                          luo_events **out, luo_err *err)
{
    luo_events *e = LUO_NEW(arena, luo_events);
    int64_t n = scenario->nevents + 1;
    for (int32_t i = 0; i < scenario->nprocesses; i++)
        n += scenario->processes[i].ncauses > 0 ? scenario->processes[i].ncauses : 1;
    if (e) *e = (luo_events){.arena = arena, .scenario = scenario, .log = log,
                             .sources = LUO_NEW_N(arena, luo_event_source, n)};
    if (!e || !e->sources) return luo_err_nomem(err);
    for (int32_t i = 0; i < scenario->nevents; i++) LUO_TRY(load_event(e, i, err));
    for (int32_t i = 0; i < scenario->nprocesses; i++) LUO_TRY(load_process(e, i, err));
    e->sources[e->nsources++] = (luo_event_source){
        .id = "process", .kind = LUO_EVENT_FAIL, .event = &no_death, .at_step = -1,
        .entry = scenario->nevents + scenario->nprocesses};
    LUO_TRY(make_world(e, err));
    LUO_TRY(luo_scopes_make(e, err));
    LUO_TRY(luo_clocks_make(e, err));
    *out = e;
    return LUO_OK;
}
