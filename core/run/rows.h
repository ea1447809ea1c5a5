/* rows.h: rows of the result tables (docs/results.md) and where they go.
 * The driver knows rows, not files: core/io/result/rundir.c is a sink that writes CSV. */
#ifndef LUO_CORE_RUN_ROWS_H
#define LUO_CORE_RUN_ROWS_H
#include "core/base/words.h"
#include "core/cost/spread.h"
#include "core/plan/plan.h"
#include "core/run/backend.h"
#include "core/sync/loop.h"

typedef struct luo_row_step {
    int64_t step, sequences, tokens;
    int32_t attempt, plan, devices_used, devices_up, slowest_device;
    double start_s, end_s, tokens_per_s, max_slowdown;
    luo_parts parts; /* means over the devices of the plan */
    bool has_loss;   /* loss, grad_norm: empty on sim */
    double loss, grad_norm, wall_s;
} luo_row_step;

typedef enum luo_span_kind {
    LUO_SPAN_STEP,
    LUO_SPAN_DETECT,
    LUO_SPAN_PLAN,
    LUO_SPAN_SPECIALIZE,
    LUO_SPAN_SWITCH,
    LUO_SPAN_CHECKPOINT,
    LUO_SPAN_RESTART,
    LUO_SPAN_WAIT,
    LUO_SPAN_KINDS
} luo_span_kind;
const char *luo_span_kind_name(luo_span_kind k);

typedef struct luo_row_timeline {
    double start_s, end_s;
    luo_span_kind kind;
    bool blocking; /* blocking rows tile the run without gap */
    bool redone;   /* a step that was lost or repeated */
    int64_t step, bytes;
    int32_t plan;
    const char *event; /* id or "" */
} luo_row_timeline;

/* What happened to an event, or was made of it; never: its time did not come; passed: a checkpoint
 * that could not be used. */
#define LUO_EVENT_PHASE_LIST(X)                                                                    \
    X(LUO_EVENT_PHASE_FIRED, "fired")                                                              \
    X(LUO_EVENT_PHASE_ENDED, "ended")                                                              \
    X(LUO_EVENT_PHASE_IGNORED, "ignored")                                                          \
    X(LUO_EVENT_PHASE_DETECTED, "detected")                                                        \
    X(LUO_EVENT_PHASE_DECIDED, "decided")                                                          \
    X(LUO_EVENT_PHASE_SWITCHED, "switched")                                                        \
    X(LUO_EVENT_PHASE_RESTARTED, "restarted")                                                      \
    X(LUO_EVENT_PHASE_PASSED, "passed")                                                            \
    X(LUO_EVENT_PHASE_LOST, "lost")                                                                \
    X(LUO_EVENT_PHASE_NEVER, "never")
typedef enum luo_event_phase { LUO_EVENT_PHASE_LIST(LUO_WORD_VALUE) } luo_event_phase;
const char *luo_event_phase_name(luo_event_phase phase);

typedef struct luo_row_event {
    double t_s, value;
    int64_t step;
    bool has_value;
    luo_event_phase phase;
    const char *id, *kind, *target, *detail;
} luo_row_event;

typedef struct luo_row_switch {
    double t_s, detect_s, plan_s, specialize_s, move_s, total_s;
    int32_t from_plan, to_plan, messages, max_sender;
    const char *event, *source; /* devices | checkpoint */
    int64_t bytes_local, bytes_nvlink, bytes_pcie, bytes_nic, max_sender_bytes;
} luo_row_switch;

typedef struct luo_row_truth {
    const char *id, *kind, *target;
    double value, start_s, end_s, detected_s; /* end_s < 0: for ever; detected_s < 0: never */
    int64_t first_step, last_step;
} luo_row_truth;

typedef struct luo_row_assignment {
    int64_t step, sequence, length_tokens;
    int32_t pipeline, micro_batch, position;
} luo_row_assignment;

typedef struct luo_row_memory {
    int32_t plan, device, pipeline, stage;
    int64_t capacity_bytes, reserved_bytes, measured_bytes; /* measured 0: not known */
    luo_memory memory;
} luo_row_memory;

typedef struct luo_row_device { /* totals at the end of the run */
    int32_t device;
    double up_s, used_s, mean_slowdown;
    luo_parts parts;
    double caused_slowdown; /* < 0: not computed */
} luo_row_device;

/* What became of a run, as manifest.json, summary.json and compare.csv say it. FAILED: it could not
 * go on for a fault of ours or of a process; real backends: one died and nothing answers, or all
 * are stuck. */
#define LUO_RUN_STATE_LIST(X)                                                                      \
    X(RUNNING, "running")                                                                          \
    X(COMPLETE, "complete")                                                                        \
    X(INTERRUPTED, "interrupted")                                                                  \
    X(LOST, "lost")                                                                                \
    X(FAILED, "failed")
#define LUO_RUN_STATE_ENUM(id, name) LUO_##id,
typedef enum luo_run_state { LUO_RUN_STATE_LIST(LUO_RUN_STATE_ENUM) LUO_RUN_STATES } luo_run_state;
#undef LUO_RUN_STATE_ENUM
const char *luo_run_state_name(luo_run_state state);
/* By name; LUO_RUN_STATES: there is none. */
luo_run_state luo_run_state_find(const char *name);
/* Of a run that ended with this status: complete, lost or failed. */
luo_run_state luo_run_state_of(luo_status st);

/* Tokens per second of the extent as files have it, to 1e-9 s: whoever reads a file finds the same
 * digits. 0 without time; NAN: the extent is not known. */
double luo_run_goodput(int64_t kept_tokens, double extent_s);

/* Whole-run figures for summary.json. */
typedef struct luo_run_summary {
    const char *policy, *backend;
    luo_run_state state;
    int64_t steps_done, steps_redone, tokens, kept_tokens;
    double total_s, step_mean_s, step_p50_s, step_p90_s, step_p99_s, step_max_s;
    /* What the scenario gave it: its duration, or the run if that took longer. A run of a number of
     * steps gave itself its time, if it made them all; NAN if it did not. */
    double extent_s;
    double tokens_per_s, mfu_ratio;
    double expert_imbalance_ratio; /* mean over steps that stayed; NAN: real, or no experts */
    luo_parts time;                                       /* of steps that stayed */
    double redone_s, detect_s, plan_s, specialize_s, switch_s, checkpoint_s, restart_s, wait_s;
    const luo_time_range *range; /* of a step; NULL: it was not simulated */
    int32_t ndraws;
    const double *draws; /* seconds of steps with drawn constants */
    double peak_memory_ratio;
    int32_t peak_memory_device, switches, restarts;
    int32_t detect_true, detect_false, detect_missed;
    double detect_mean_delay_s;
    int32_t nplans;
    const struct luo_plan_use {
        uint64_t hash, program_hash;
        int64_t steps;
    } * plans;
    int32_t nnever, nassumptions, nwarnings;
    const char *const *never, *const *assumptions, *const *warnings;
} luo_run_summary;

/* Receivers; each may be NULL (row not wanted). A status that is not LUO_OK ends the run. Rows
 * and what they point to live only during the call. */
typedef struct luo_sink {
    void *ctx;
    luo_status (*step)(void *ctx, const luo_row_step *row, luo_err *err);
    luo_status (*timeline)(void *ctx, const luo_row_timeline *row, luo_err *err);
    luo_status (*event)(void *ctx, const luo_row_event *row, luo_err *err);
    /* A line of log.txt: figures that were measured, which the tables of events leave out. */
    luo_status (*note)(void *ctx, const char *text, luo_err *err);
    /* A warning for whoever started the run: a line of log.txt, and the terminal. */
    luo_status (*tell)(void *ctx, const char *text, luo_err *err);
    luo_status (*plan)(void *ctx, int32_t index, const luo_plan *plan, const luo_programs *set,
                       luo_err *err);
    luo_status (*memory)(void *ctx, const luo_row_memory *row, luo_err *err);
    luo_status (*switched)(void *ctx, const luo_row_switch *row, luo_err *err);
    luo_status (*truth)(void *ctx, const luo_row_truth *row, luo_err *err);
    luo_status (*assignment)(void *ctx, const luo_row_assignment *row, luo_err *err);
    /* Of `training`: an iteration that has ended, and who begins to average; id: 0 first. */
    luo_status (*iteration)(void *ctx, const luo_loop_row *row, luo_err *err);
    luo_status (*group)(void *ctx, int64_t id, const luo_preduce_group *group, luo_err *err);
    /* A traced step: records of all devices, times since start_s. */
    luo_status (*ops)(void *ctx, int64_t step, int32_t attempt, double start_s, int32_t plan,
                      const luo_programs *set, const luo_step_result *result, luo_err *err);
    /* At the end, once: totals over the run. comm: per plan. */
    luo_status (*links)(void *ctx, const luo_link_use *use, int32_t n, double total_s,
                        luo_err *err);
    /* use: as of links; NULL: not wanted. */
    luo_status (*link_windows)(void *ctx, const luo_link_windows *windows,
                               const luo_link_use *use, double total_s, luo_err *err);
    luo_status (*comm)(void *ctx, int32_t plan, const luo_programs *set, const luo_comm_use *use,
                       int32_t n, luo_err *err);
    luo_status (*device)(void *ctx, const luo_row_device *row, luo_err *err);
    luo_status (*summary)(void *ctx, const luo_run_summary *summary, luo_err *err);
    /* After every step boundary: flush; and shows progress. eta_s < 0: not known. */
    luo_status (*boundary)(void *ctx, int64_t step, int64_t steps, double t_s, int32_t events,
                           luo_err *err);
} luo_sink;
#endif
