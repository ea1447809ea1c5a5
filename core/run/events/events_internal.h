/* events_internal.h: inside of the event engine; included by events*.c only.
 *
 * What changes in time stands in `luo_event_state`, whose arrays are copied as a whole to look
 * ahead. What does not (sources: events and processes with their targets) is shared, and so are the
 * clocks, of which there are as many as devices times sources: a look ahead writes down what it
 * changes of them, and luo_clocks_rewind takes it back. */
#ifndef LUO_CORE_RUN_EVENTS_EVENTS_INTERNAL_H
#define LUO_CORE_RUN_EVENTS_EVENTS_INTERNAL_H
#include "core/base/rng.h"
#include "core/run/events/events.h"

typedef struct luo_target_choice luo_choice;

/* The four values of an occurrence; a lognormal life takes its second draw last. */
typedef struct luo_draws {
    double time, pick, magnitude, life, life2;
} luo_draws;

/* An event of the file, a process, or one cause of a process. */
typedef struct luo_event_source {
    const char *id;
    luo_event_kind kind;
    const luo_event *event;      /* or */
    const luo_arrivals *process; /* with, for causes: */
    const luo_cause *cause;
    luo_target target;
    luo_life life;
    luo_rng rng;     /* of an event, at load */
    luo_draws draws; /* of an event with one occurrence */
    int64_t at_step; /* triggers by step; -1 */
    double mean_s;   /* of a process: exponential of causes included */
    bool ignored;    /* it came and found nothing to do */
    int32_t entry;   /* index in events, or nevents + index in processes: for `never` */
} luo_event_source;

typedef struct luo_effect {     /* an occurrence that is on */
    int32_t source, occurrence; /* occurrence -1 while looking ahead */
    const luo_choice *choice;
    double value, latency_s;
    double level; /* of a ramp, 0..1 */
    bool down;    /* takes its target down now */
    int32_t held; /* devices and links still in its hands */
    int32_t next_free;
    int64_t end_step; /* it ends when this step begins; -1: not by steps */
    int64_t serial;   /* names the use of this slot; -1: free */
} luo_effect;

typedef struct luo_hold { /* member of the list of effects of a device or a link */
    int32_t effect, next;
} luo_hold;

enum { LUO_RAMP_STEPS = 10 };

typedef enum luo_action_kind {
    LUO_ACTION_END,
    LUO_ACTION_RAMP,
    LUO_ACTION_TOGGLE,
    LUO_ACTION_NOTICE,
    LUO_ACTION_START
} luo_action_kind;

typedef struct luo_action {
    double at_s;
    luo_action_kind kind;
    int64_t seq;
    int32_t ref;    /* effect, or source of NOTICE and START */
    int32_t k;      /* RAMP: which of LUO_RAMP_STEPS */
    int64_t serial; /* of the effect */
} luo_action;

typedef struct luo_clock { /* of one source on one device */
    int32_t source, device;
    luo_rng rng;
    luo_draws draws;
    double due_s;  /* while its device is up */
    double left_s; /* while it is down */
} luo_clock;

typedef struct luo_event_state {
    double now_s;
    int64_t step, seq, serial, tokens, next_step;
    bool quiet; /* looking ahead: nothing is logged */
    bool calm;  /* looking for what comes back: no clocks, and a flap that lets go stays so */
    bool crash;
    int32_t fired;
    luo_world *world;
    bool *leaving;                   /* per device */
    bool *base_down, *base_cut;      /* per device, per link: down by health */
    int32_t *dev_holds, *link_holds; /* heads of lists, -1: empty */
    int32_t *lives, *fires;          /* per source */
    int32_t nactions, cap_actions, neffects, cap_effects, free_effect, nholds, cap_holds, free_hold;
    luo_action *actions; /* binary heap */
    luo_effect *effects;
    luo_hold *holds;
    int32_t nclocks;
    luo_clock *clocks;   /* by device, then source; ahead: those of the state */
    int32_t *heap, *pos; /* clocks by due_s */
    int32_t nchanges, cap_changes;
    luo_change *changes; /* since they were last cleared */
} luo_event_state;

struct luo_events {
    luo_arena *arena;
    const luo_scenario *scenario;
    luo_event_log log;
    int32_t nsources; /* the last one: processes that died, never scheduled */
    luo_event_source *sources;
    int32_t deaths;
    int32_t *first_clock;  /* ndevices + 1 */
    double *base_slowdown; /* per device: by health */
    const int32_t *job;
    int32_t njob;
    const luo_choice **dev_choice, **node_choice, **nic_choice; /* made when first hit */
    int32_t noccurrences, cap_occurrences;
    luo_occurrence *occurrences;
    const luo_work *work;
    int64_t done;        /* happenings that were committed */
    luo_overlap overlap; /* the first that was cut */
    luo_event_state state, ahead;
    bool peeking; /* ahead is a copy of state, moved on */
    /* Clocks as they were before the look ahead changed them: the first nmoved of both lists. */
    int32_t nmoved, *moved;
    luo_clock *was;
    bool *is_moved;      /* per clock: it stands in the lists */
    double next_clock_s; /* luo_clocks_next of the state while they are moved */
    int64_t happenings;  /* committed so far, of any kind */
    int64_t rows; /* written since a step last ended well */
    bool hushed;  /* a process had none left */
};

/* What all that is on makes of a device, a link or the data. */
typedef struct luo_burden {
    double slowdown, factor, latency_s;
    bool down;
    int64_t tokens;
} luo_burden;

typedef struct luo_event_deed { /* functions of a kind (core/run/scenario.h) */
    bool (*idle)(const luo_event_state *state, const luo_choice *c);
    /* effect -1: of a kind that brings back, which holds nothing. */
    luo_status (*begin)(luo_events *events, luo_event_state *state, int32_t effect,
                        const luo_choice *c, luo_err *err);
    void (*apply)(const luo_effect *f, luo_burden *burden);
} luo_event_deed;

/* events_kinds.c */
const luo_event_deed *luo_event_deed_of(luo_event_kind k);
/* Slowdown, bandwidth factor or tokens of an occurrence; 1 for the rest. */
double luo_event_magnitude(const luo_event_source *src, const luo_draws *draws);

/* events_clock.c */
void luo_draw_all(luo_rng *rng, const luo_life *life, luo_draws *out);
double luo_draw_life(const luo_life *life, const luo_draws *draws); /* INFINITY: for ever */
luo_status luo_clocks_make(luo_events *events, luo_err *err);
double luo_clocks_next(const luo_event_state *state);
/* The clock due now draws its next arrival; returns its index, *draws: those of this arrival. */
int32_t luo_clocks_take(luo_events *events, luo_event_state *state, luo_draws *draws);
void luo_clocks_pause(luo_events *events, luo_event_state *state, int32_t device);
void luo_clocks_resume(luo_events *events, luo_event_state *state, int32_t device);
/* Takes back what a look ahead did to the clocks. Cost: of those that it changed. */
void luo_clocks_rewind(luo_events *events);

/* events_scope.c */
luo_status luo_scopes_make(luo_events *events, luo_err *err);
/* What an arrival on a device hits: the device, or by the scope of a cause its node or one of the
 * NICs of its node; NULL: the whole job. */
luo_status luo_scope_choice(luo_events *events, const luo_event_source *src, int32_t device,
                            const luo_draws *draws, const luo_choice **out, luo_err *err);
luo_status luo_scope_device(luo_events *events, int32_t device, const luo_choice **out,
                            luo_err *err);

/* events_effect.c: all of them append what changes to state->changes. */
luo_status luo_effect_start(luo_events *events, luo_event_state *state, int32_t source,
                            const luo_choice *choice, const char *id, const luo_draws *draws,
                            luo_err *err);
luo_status luo_effect_end(luo_events *events, luo_event_state *state, int32_t effect, luo_err *err);
luo_status luo_effect_ramp(luo_events *events, luo_event_state *state, int32_t effect, int32_t k,
                           luo_err *err);
luo_status luo_effect_toggle(luo_events *events, luo_event_state *state, int32_t effect,
                             luo_err *err);
/* What held a target down lets go of it. */
luo_status luo_effect_bring_back(luo_events *events, luo_event_state *state,
                                 const luo_choice *choice, luo_err *err);

/* events.c */
luo_status luo_action_push(luo_events *events, luo_event_state *state, luo_action action,
                           luo_err *err);
/* Has this source no rows left? Then what it does is not written down, but done all the same. */
bool luo_event_is_hushed(luo_events *events, const luo_event_source *src);
luo_status luo_event_emit(luo_events *events, luo_event_state *state,
                          const luo_occurrence *occurrence, luo_event_phase phase, luo_err *err);
/* now + span, and later than now even where the span is below the resolution of dates. */
double luo_event_later(double now_s, double span_s);
/* Grows an array of the arena so that one more fits. */
luo_status luo_event_room(luo_events *events, void *array, int32_t n, int32_t *cap, size_t bytes,
                          luo_err *err);
#endif
