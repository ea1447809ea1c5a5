/* What each kind of event is and does: the functions that its row in core/run/scenario.h names. */
#include "core/run/events/events_internal.h"

/* ---- is there nothing to do ---- */

static bool any_device(const luo_event_state *state, const luo_choice *choice, bool up)
{
    for (int32_t i = 0; i < choice->ndev; i++)
        if (state->world->up[choice->dev[i]] == up) return true;
    return false;
}

static bool any_link(const luo_event_state *state, const luo_choice *choice, bool up)
{
    for (int32_t i = 0; i < choice->nlink; i++)
        if ((state->world->link_factor[choice->link[i]] > 0) == up) return true;
    return false;
}

static bool idle_devices_down(const luo_event_state *state, const luo_choice *choice)
{
    return !any_device(state, choice, true);
}

static bool idle_links_down(const luo_event_state *state, const luo_choice *choice)
{
    return !any_link(state, choice, true);
}

static bool idle_all_down(const luo_event_state *state, const luo_choice *choice)
{
    return !any_device(state, choice, true) && !any_link(state, choice, true);
}

static bool idle_all_up(const luo_event_state *state, const luo_choice *choice)
{
    return !any_device(state, choice, false) && !any_link(state, choice, false);
}

static bool idle_never(const luo_event_state *state, const luo_choice *choice)
{
    (void)state, (void)choice;
    return false;
}

/* ---- once, at the start ---- */

static luo_status begin_nothing(luo_events *events, luo_event_state *state, int32_t effect,
                                const luo_choice *choice, luo_err *err)
{
    (void)events, (void)state, (void)effect, (void)choice, (void)err;
    return LUO_OK;
}

static luo_status push(luo_events *events, luo_event_state *state, int32_t effect,
                       luo_action_kind kind, double at_s, int32_t k, luo_err *err)
{
    const luo_action action = {
        .at_s = at_s, .kind = kind, .ref = effect, .k = k, .serial = state->effects[effect].serial};
    return luo_action_push(events, state, action, err);
}

static const luo_event *event_of(const luo_events *events, const luo_event_state *state,
                                 int32_t effect)
{
    return events->sources[state->effects[effect].source].event;
}

static luo_status begin_ramp(luo_events *events, luo_event_state *state, int32_t effect,
                             const luo_choice *choice, luo_err *err)
{
    (void)choice;
    const luo_event *ev = event_of(events, state, effect);
    if (!ev || ev->ramp_s <= 0) return LUO_OK;
    state->effects[effect].level = 0;
    for (int32_t k = 1; k <= LUO_RAMP_STEPS; k++)
        LUO_TRY(push(events, state, effect, LUO_ACTION_RAMP,
                     state->now_s + ev->ramp_s * k / LUO_RAMP_STEPS, k, err));
    return LUO_OK;
}

static luo_status begin_flap(luo_events *events, luo_event_state *state, int32_t effect,
                             const luo_choice *choice, luo_err *err)
{
    (void)choice;
    return push(events, state, effect, LUO_ACTION_TOGGLE,
                state->now_s + event_of(events, state, effect)->down_s, 0, err);
}

static luo_status begin_leave(luo_events *events, luo_event_state *state, int32_t effect,
                              const luo_choice *choice, luo_err *err)
{
    (void)events, (void)effect, (void)err;
    for (int32_t i = 0; choice && i < choice->ndev; i++) state->leaving[choice->dev[i]] = false;
    return LUO_OK;
}

static luo_status begin_join(luo_events *events, luo_event_state *state, int32_t effect,
                             const luo_choice *choice, luo_err *err)
{
    (void)effect;
    return luo_effect_bring_back(events, state, choice, err);
}

/* ---- while it is on ---- */

static void apply_nothing(const luo_effect *effect, luo_burden *burden)
{
    (void)effect, (void)burden;
}

static void apply_slow(const luo_effect *effect, luo_burden *burden)
{
    burden->slowdown *= 1 + (effect->value - 1) * effect->level;
}

static void apply_down(const luo_effect *effect, luo_burden *burden)
{
    burden->down |= effect->down;
}

static void apply_narrow(const luo_effect *effect, luo_burden *burden)
{
    burden->factor *= effect->value;
    burden->latency_s += effect->latency_s;
}

static void apply_lengths(const luo_effect *effect, luo_burden *burden)
{
    burden->tokens = (int64_t)effect->value;
}

/* ---- the table ---- */

#define TRAITS(kind, word, event, row, process, cause, hits, value, loss, ...)                     \
    {LUO_HITS_##hits, LUO_VALUE_##value, LUO_LOSS_##loss},
static const luo_event_traits traits[] = {LUO_EVENT_KIND_LIST(TRAITS)};
#define DEED(kind, word, event, row, process, cause, hits, value, loss, idle, begin, apply)        \
    {idle_##idle, begin_##begin, apply_##apply},
static const luo_event_deed deeds[] = {LUO_EVENT_KIND_LIST(DEED)};
#define WORD(kind, word, ...) word,
static const char *const words[] = {LUO_EVENT_KIND_LIST(WORD)};

const luo_event_deed *luo_event_deed_of(luo_event_kind k)
{
    return &deeds[k];
}

luo_event_traits luo_event_traits_of(luo_event_kind k)
{
    return traits[k];
}

const char *luo_event_kind_name(luo_event_kind k)
{
    return words[k];
}

bool luo_event_takes_down(luo_event_kind k)
{
    return traits[k].loss == LUO_LOSS_GONE || traits[k].loss == LUO_LOSS_BY_TURNS;
}

/* ---- how much ---- */

static double slowdown_of(const luo_event_source *src, const luo_draws *draws)
{
    const double *between =
        src->event ? src->event->slowdown_between : src->process->slowdown_between;
    if (src->cause) return src->cause->value > 0 ? src->cause->value : 1;
    if (between[1] > 0) return between[0] + draws->magnitude * (between[1] - between[0]);
    return src->event ? src->event->slowdown : src->process->slowdown;
}

static double factor_of(const luo_event_source *src)
{
    if (src->cause) return src->cause->value > 0 ? src->cause->value : 1;
    return src->event ? src->event->bandwidth_factor : src->process->bandwidth_factor;
}

double luo_event_magnitude(const luo_event_source *src, const luo_draws *draws)
{
    switch (traits[src->kind].value) {
    case LUO_VALUE_SLOWDOWN:
        return slowdown_of(src, draws);
    case LUO_VALUE_FACTOR:
        return factor_of(src);
    case LUO_VALUE_TOKENS:
        return (double)src->event->tokens;
    case LUO_VALUE_NONE:
        break;
    }
    return 1;
}
