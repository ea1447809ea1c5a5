/* Draws and clocks of random processes (docs/formats.md): one clock per device, which runs
 * only while its device is up. An indexed heap keeps the earliest on top; equal dates go by the
 * clock's index, that is by device, then source. */
#include <math.h>

#include "core/run/events/events_internal.h"

void luo_draw_all(luo_rng *rng, const luo_life *life, luo_draws *out)
{
    out->time = luo_rng_u(rng);
    out->pick = luo_rng_u(rng);
    out->magnitude = luo_rng_u(rng);
    out->life = luo_rng_u(rng);
    out->life2 = life->dist == LUO_DIST_LOGNORMAL ? luo_rng_u(rng) : 0;
}

double luo_draw_life(const luo_life *life, const luo_draws *draws)
{
    switch (life->dist) {
    case LUO_DIST_EXPONENTIAL:
        return luo_rng_exponential_of(draws->life, life->mean_s);
    case LUO_DIST_WEIBULL:
        return luo_rng_weibull_of(draws->life, life->mean_s, life->shape);
    case LUO_DIST_LOGNORMAL:
        return life->median_s * exp(life->sigma * luo_rng_normal_of(draws->life, draws->life2));
    case LUO_DIST_NONE: break;
    }
    return life->duration_s > 0 ? life->duration_s : INFINITY;
}

static double gap(const luo_event_source *source, const luo_draws *draws)
{
    const luo_arrivals *arrivals = source->process;
    if (!source->cause && arrivals->dist == LUO_DIST_WEIBULL)
        return luo_rng_weibull_of(draws->time, source->mean_s, arrivals->shape);
    return luo_rng_exponential_of(draws->time, source->mean_s);
}

static bool before(const luo_event_state *state, int32_t a, int32_t b)
{
    const double x = state->clocks[a].due_s, y = state->clocks[b].due_s;
    return x < y || (x == y && a < b);
}

static void put(luo_event_state *state, int32_t at, int32_t clock)
{
    state->heap[at] = clock;
    state->pos[clock] = at;
}

static void sift_up(luo_event_state *state, int32_t at)
{
    const int32_t c = state->heap[at];
    for (; at > 0 && before(state, c, state->heap[(at - 1) / 2]); at = (at - 1) / 2)
        put(state, at, state->heap[(at - 1) / 2]);
    put(state, at, c);
}

static void sift_down(luo_event_state *state, int32_t at)
{
    const int32_t c = state->heap[at];
    for (;;) {
        int32_t next = 2 * at + 1;
        if (next >= state->nclocks) break;
        if (next + 1 < state->nclocks && before(state, state->heap[next + 1], state->heap[next]))
            next++;
        if (!before(state, state->heap[next], c)) break;
        put(state, at, state->heap[next]);
        at = next;
    }
    put(state, at, c);
}

static void set_due(luo_event_state *state, int32_t clock, double due_s)
{
    state->clocks[clock].due_s = due_s;
    sift_up(state, state->pos[clock]);
    sift_down(state, state->pos[clock]);
}

/* Has the source a clock on this device? A cause's target is that of its process. */
static bool ticks_on(const luo_event_source *source, int32_t device)
{
    const luo_choice *choice = source->target.choices;
    for (int32_t i = 0; i < choice->ndev; i++)
        if (choice->dev[i] == device) return true;
    return false;
}

static luo_status start_clock(luo_events *events, int32_t source, int32_t device, luo_err *err)
{
    const luo_event_source *src = &events->sources[source];
    luo_event_state *state = &events->state;
    const size_t mark = luo_arena_mark(events->arena);
    char *name = luo_arena_printf(events->arena, "%s#%d", src->id, device);
    if (!name) return luo_err_nomem(err);
    luo_clock *clock = &state->clocks[state->nclocks];
    *clock = (luo_clock){
        .source = source, .device = device, .rng = luo_rng_stream(events->scenario->seed, name)};
    luo_arena_reset(events->arena, mark);
    luo_draw_all(&clock->rng, &src->life, &clock->draws);
    clock->left_s = gap(src, &clock->draws);
    clock->due_s = state->world->up[device] ? clock->left_s : INFINITY;
    put(state, state->nclocks, state->nclocks);
    sift_up(state, state->nclocks++);
    return LUO_OK;
}

static luo_status make_room(luo_events *events, int64_t n, luo_err *err)
{
    luo_event_state *state = &events->state;
    state->clocks = LUO_NEW_N(events->arena, luo_clock, n);
    state->heap = LUO_NEW_N(events->arena, int32_t, n);
    state->pos = LUO_NEW_N(events->arena, int32_t, n);
    events->moved = LUO_NEW_N(events->arena, int32_t, n);
    events->was = LUO_NEW_N(events->arena, luo_clock, n);
    events->is_moved = LUO_NEW_N(events->arena, bool, n);
    return state->clocks && state->heap && state->pos && events->moved && events->was &&
                   events->is_moved
               ? LUO_OK
               : luo_err_nomem(err);
}

luo_status luo_clocks_make(luo_events *events, luo_err *err)
{
    const int32_t ndevices = events->state.world->ndevices;
    int64_t n = 0;
    for (int32_t i = 0; i < events->nsources; i++)
        if (events->sources[i].process) n += events->sources[i].target.choices->ndev;
    events->first_clock = LUO_NEW_N(events->arena, int32_t, ndevices + 1);
    if (!events->first_clock) return luo_err_nomem(err);
    LUO_TRY(make_room(events, n, err));
    for (int32_t d = 0; n > 0 && d < ndevices; d++) {
        events->first_clock[d] = events->state.nclocks;
        for (int32_t i = 0; i < events->nsources; i++)
            if (events->sources[i].process && ticks_on(&events->sources[i], d))
                LUO_TRY(start_clock(events, i, d, err));
    }
    events->first_clock[ndevices] = events->state.nclocks;
    return LUO_OK;
}

double luo_clocks_next(const luo_event_state *state)
{
    return state->nclocks > 0 ? state->clocks[state->heap[0]].due_s : INFINITY;
}

/* Before a look ahead changes a clock. */
static void keep_clock(luo_events *events, const luo_event_state *state, int32_t clock)
{
    if (state != &events->ahead || events->is_moved[clock]) return;
    events->is_moved[clock] = true;
    events->moved[events->nmoved] = clock;
    events->was[events->nmoved++] = state->clocks[clock];
}

void luo_clocks_rewind(luo_events *events)
{
    luo_event_state *state = &events->state;
    for (int32_t i = 0; i < events->nmoved; i++) {
        const int32_t clock = events->moved[i];
        state->clocks[clock] = events->was[i];
        set_due(state, clock, events->was[i].due_s);
        events->is_moved[clock] = false;
    }
    events->nmoved = 0;
}

int32_t luo_clocks_take(luo_events *events, luo_event_state *state, luo_draws *draws)
{
    const int32_t clock = state->heap[0];
    luo_clock *c = &state->clocks[clock];
    const luo_event_source *src = &events->sources[c->source];
    keep_clock(events, state, clock);
    *draws = c->draws;
    luo_draw_all(&c->rng, &src->life, &c->draws);
    set_due(state, clock, luo_event_later(c->due_s, gap(src, &c->draws)));
    return clock;
}

void luo_clocks_pause(luo_events *events, luo_event_state *state, int32_t device)
{
    for (int32_t i = events->first_clock[device]; i < events->first_clock[device + 1]; i++) {
        keep_clock(events, state, i);
        state->clocks[i].left_s = state->clocks[i].due_s - state->now_s;
        set_due(state, i, INFINITY);
    }
}

void luo_clocks_resume(luo_events *events, luo_event_state *state, int32_t device)
{
    for (int32_t i = events->first_clock[device]; i < events->first_clock[device + 1]; i++) {
        keep_clock(events, state, i);
        set_due(state, i, state->now_s + state->clocks[i].left_s);
    }
}
