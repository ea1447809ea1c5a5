/* events.h: what happens to the cluster, and when (docs/formats.md).
 *
 * The engine turns events and processes of a scenario into a world that changes in time. All
 * draws come from streams named after the event, or the process and device, so that adding an
 * event changes no other draw. Times are run time in seconds, lost time included.
 *
 * Decisions where the conventions leave a choice:
 * - between_s: a + u*(b-a); between_steps [a,b]: a + floor(u*(b-a+1)), both ends can be drawn.
 * - per_step_probability: the four values are drawn at every first attempt of a step, also
 *   during a life, and used only when no life is on.
 * - ramp_s: at k/10 of it the slowdown is 1 + (value-1)*k/10, k = 1..10.
 * - leave: down at the trigger's time, announced notice_s before; with a trigger by step, announced
 *   at the step and down notice_s later. A process that leaves announces nothing.
 * - flap: down at the start. join: ends every failure on its target, those of `health` and flaps
 *   that are up at the moment included.
 * - fail, leave, flap on what is all down, join on what is all up, straggler on devices that are
 *   all down, link on links that are all down: ignored.
 * - causes of scope job: all devices of the plan go down and are up again at the same date.
 * - overlaps: slowdowns multiply, bandwidth factors multiply, extra latencies add, each up to the
 * end of its range (core/base/quantity.h; base_slowdown counts); what is beyond is cut.
 * - duration_steps n: over at the start of the first attempt of the step n after the one in which
 *   it began.
 * - at one date: ends first, then ramps and flaps, then announcements, then starts in file order,
 *   then processes by device. */
#ifndef LUO_CORE_RUN_EVENTS_EVENTS_H
#define LUO_CORE_RUN_EVENTS_EVENTS_H
#include "core/base/work.h"
#include "core/run/rows.h"
#include "core/run/scenario.h"
#include "core/run/events/world.h"

typedef struct luo_occurrence { /* one life of an event or a process, for truth.csv */
    const char *id, *target, *detail;
    const struct luo_target_choice *choice; /* NULL: the whole job */
    luo_event_kind kind;
    double value;          /* slowdown, bandwidth factor or tokens; 1 for the rest */
    double start_s, end_s; /* end_s < 0: not over */
    int64_t first_step, last_step; /* last_step < 0: not over */
    double detected_s;     /* < 0: never; set by the driver */
    bool touched;          /* it hit the plan that was running; set by the driver */
} luo_occurrence;

typedef struct luo_overlap { /* effects that are on together beyond the range of their quantity */
    const char *what;        /* "slowdowns of device"; NULL: never */
    const char *name;        /* of the link; "": a device */
    int32_t target;
    double product, cut, at_s;
} luo_overlap;

typedef struct luo_events luo_events;

/* Receives the phases fired, ended, ignored, and detected of announcements, as they are committed.
 * The row lives during the call. */
typedef struct luo_event_log {
    void *ctx;
    luo_status (*row)(void *ctx, const luo_row_event *row, luo_err *err);
} luo_event_log;

/* Reads the targets, draws what is drawn at load, makes the world of t = 0 (nothing has fired).
 * Errors: LUO_EINPUT, LUO_EPARSE with line and column of the event; LUO_ENOMEM.
 * Owner: arena; the scenario must live as long. */
luo_status luo_events_new(luo_arena *arena, const luo_scenario *scenario, luo_event_log log,
                          luo_events **out, luo_err *err);
const luo_world *luo_events_world(const luo_events *events);
/* How many events and processes have begun, ended or changed. As long as it is the same, so are
 * world, leaving and tokens. */
int64_t luo_events_happenings(const luo_events *events);
/* Date of the next change that is known; INFINITY: none. */
double luo_events_next(const luo_events *events);
enum { LUO_AHEAD_MAX = 4096 };
/* Dated changes in (now, *until_s], in order, without committing anything. At most about
 * LUO_AHEAD_MAX happenings are looked at: *until_s is then set back to the date up to which the
 * list is whole. The list lives until the next call. Cost: when nothing is due O(1), else a copy of
 * the state. */
luo_status luo_events_peek(luo_events *events, double *until_s, const luo_change **changes,
                           int32_t *n, luo_err *err);
/* Goes on from where the last look ended; the list has only what follows. Pre: nothing was
 * committed since the last call of luo_events_peek. */
luo_status luo_events_peek_on(luo_events *events, double *until_s, const luo_change **changes,
                              int32_t *n, luo_err *err);
/* What is down or announced to leave and comes back, by itself or by a join of the file, sooner or
 * later; not what waits for a step. Processes bring nothing back: their clocks stand still while
 * their device is down; and what they may still take away does not count. world, leaving: as they
 * are now, with all that back. Owner: arena. Cost: of all events of the file. */
typedef struct luo_event_returns {
    luo_world *world;
    bool *leaving;
    bool any;
    double lengths_s; /* of the next change of lengths; it counts in `any`. INFINITY: none */
} luo_event_returns;
luo_status luo_events_returns(luo_arena *arena, luo_events *events, luo_event_returns *out,
                              luo_err *err);
/* Commits everything up to and including to_s; `step` is the step it falls into. */
luo_status luo_events_advance(luo_events *events, double to_s, int64_t step, luo_err *err);
/* Triggers by step, at the start of an attempt of `step` at t_s. Later attempts trigger nothing.
 * Pre: everything up to t_s is committed; steps ascend by one. */
luo_status luo_events_step(luo_events *events, int64_t step, double t_s, luo_err *err);
/* The run begins with `step`: triggers of earlier steps draw, and only those of lengths fire, since
 * their data go on. Pre: before the first luo_events_step. */
luo_status luo_events_skip(luo_events *events, int64_t step, luo_err *err);
/* A device is down from now on although no event said so; logged as `fired`, id process-N, kind
 * fail, with `detail`; a join ends it. Pre: everything up to now is committed, the device is up.
 * Errors: LUO_ENOMEM, of the log. */
luo_status luo_events_lose_device(luo_events *events, int32_t device, const char *detail,
                                  luo_err *err);
/* The devices that causes of scope job hit. Owner: the list must live. */
void luo_events_set_job(luo_events *events, const int32_t *dev, int32_t n);
/* True once after the job was hit as a whole. */
bool luo_events_take_crash(luo_events *events);
/* Per device: announced to leave and still up. */
const bool *luo_events_leaving(const luo_events *events);
/* Tokens of a sequence by the last `lengths` event that is on; 0: none. */
int64_t luo_events_tokens(const luo_events *events);
/* What the last call of advance or step changed, in order. Lives until the next of them. */
const luo_change *luo_events_changes(const luo_events *events, int32_t *n);
/* All occurrences so far, in the order they started. Pre of writing: detected_s, touched only. */
luo_occurrence *luo_events_occurrences(luo_events *events, int32_t *n);
/* Ids of events that never came and of processes without any arrival, in file order; what came and
 * was ignored has its row. */
luo_status luo_events_never(luo_events *events, luo_arena *arena, const char *const **out,
                            int32_t *n, luo_err *err);
/* The first overlap that was cut. */
const luo_overlap *luo_events_overlap(const luo_events *events);
/* Between two calls of luo_events_progress processes write at most about so many rows; what they do
 * after that is done, but stands neither in the log nor among the occurrences. */
enum { LUO_EVENT_ROWS = 100000 };
void luo_events_progress(luo_events *events);
bool luo_events_hushed(const luo_events *events); /* has that ever happened? */
/* Arrivals per second of all processes, while all devices are up; 0: there is none. */
double luo_events_rate(const luo_events *events);
/* Changes by events and processes that are known beforehand in so many seconds (INFINITY: in any):
 * those of flaps, and those to be expected of processes. */
double luo_events_expected(const luo_events *events, double duration_s);
/* More changes than the limit of work are refused from now on, by advance and step. */
void luo_events_set_work(luo_events *events, const luo_work *limits);
/* Are so many more than were committed within it? Errors: LUO_E2BIG. */
luo_status luo_events_check_work(const luo_events *events, int64_t more, luo_err *err);
/* Number fired so far. */
int32_t luo_events_fired(const luo_events *events);
#endif
