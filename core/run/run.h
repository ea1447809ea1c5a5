/* run.h: one run in progress, shared by the files of the driver; nobody else includes it.
 *
 * Files: driver.c (the loop), lengths/ (batches of uneven lengths), attempt.c (one attempt of a
 * step), ahead.c (what changes meanwhile), health/sample.c (speeds of devices), health/drift.c
 * (many small slowdowns), health/reentry.c (devices outside the plan), ask.c (asking the policy),
 * policy/hope.c (waiting), apply.c (failures, decisions, how they are carried out), move.c (state
 * between devices), plans.c (compiled plans), ledger.c (where the time went), checkpoint.c, real.c
 * and health/pace.c (backends that hold data), policy/oracle.c (the bound), health/score.c (what
 * the detector saw), health/caused.c (what slow devices did), report.c and assume.c (rows of the
 * end). Times are run time; the backend's clock is run time + t0. */
#ifndef LUO_CORE_RUN_RUN_H
#define LUO_CORE_RUN_RUN_H
#include "core/base/hash.h"
#include "core/base/rng.h"
#include "core/base/tally.h"
#include "core/plan/compile.h"
#include "core/plan/planners.h"
#include "core/run/driver.h"
#include "core/run/events/events.h"
#include "core/run/events/step_lengths.h"
#include "core/run/health/detect.h"
#include "core/run/lengths/traffic.h"
#include "core/run/policy/judge.h"
#include "core/run/policy/policy.h"
#include "core/run/tries.h"

/* ---- plans.c ---- */

typedef struct luo_used_plan { /* a plan of this run, compiled for one length of sequence */
    luo_arena *arena;          /* of the programs; NULL: given back, see luo_run_use_plan */
    const luo_plan *plan;
    const luo_plan *frame; /* of plans that change with the batch: what stays; else NULL */
    luo_patterns *patterns;    /* of a frame: what the programs of its batches have in common */
    luo_programs *set;         /* NULL with it */
    const luo_expert_load *load; /* that it is costed with */
    double imbalance;            /* by it, of experts */
    uint64_t hash, program_hash; /* of a frame: of all programs it was bound to, in their order */
    int64_t last_use;
    int32_t ndev;
    int64_t sequence_tokens, sequences, tokens, micro_batches;
    double operations;  /* of a step, all devices */
    double flops;       /* model FLOP of a step (docs/cost-model.md) */
    double peak_flops;  /* per second, sum over its devices */
    double memory_ratio;
    int32_t memory_device;
    bool *member;       /* per device of the cluster */
    int32_t *dev;       /* ascending */
    int64_t state_bytes;
    double write_s;     /* of a checkpoint */
    int32_t nmemory;
    luo_row_memory *memory; /* of its devices, until they are written; NULL after that */
    int64_t steps;      /* attempts that ended well */
    double step_s;      /* the last of them; < 0: none yet */
    int32_t ncomm;
    luo_comm_use *comm; /* totals */
    luo_traffic *traffic; /* the same of a frame, whose programs differ from step to step */
} luo_used_plan;

/* ---- ledger.c ---- */

typedef struct luo_share { /* steps between two checkpoints */
    luo_parts parts;
    double seconds, flops, peak; /* peak: FLOP that the devices could have done meanwhile */
    double imbalance;            /* of experts, sum over the steps */
    int64_t steps, tokens;
} luo_share;

/* Steps like the one before, which most steps of a long run are. What they add to the totals of
 * devices, links and groups is added in one go, when another kind of step comes. */
typedef struct luo_repeat {
    int64_t name; /* of the result (luo_step_result) kept last; 0: it has none */
    int32_t plan; /* that made it */
    luo_parts mean;       /* over its devices, not rounded yet */
    int32_t slowest;      /* the device, and its slowdown (luo_row_step) */
    double max_slowdown;
    int64_t times;  /* so many are not in the totals yet, */
    double seconds; /* which took so long together; */
    int64_t in_row; /* the last of them without a pause, not in the windows of links yet */
    double row_start_s, row_end_s;
    luo_arena *arena; /* of the copies; NULL: none was needed so far */
    int64_t copied;   /* name of the result that the copies are of */
    luo_step_result result; /* copies: the arrays that the totals need */
} luo_repeat;

typedef struct luo_account {
    luo_repeat repeat;
    luo_share safe, open, fresh; /* behind the valid checkpoint; after it; after one that is being
                                    written */
    double span[LUO_SPAN_KINDS]; /* blocking time; LUO_SPAN_STEP: lost and redone */
    int64_t tokens, redone;
    luo_tally safe_s, open_s, fresh_s; /* times of those steps */
    double *step_s; /* backends with data: of steps that stay, by step, as they may lose the last
                       checkpoint as well */
    int64_t cap_steps;
    luo_parts *parts; /* per device, all attempts that ended well */
    double *used_s, *up_s, *up_since;
    double *compute_s, *predicted_s; /* compute_s on the scale of the profile (health/pace.c) */
} luo_account;

/* ---- checkpoint.c ---- */

typedef struct luo_ckpt {
    bool on, writing;
    int64_t every_steps, next_step;
    double every_s, next_s;
    int64_t valid_step;  /* the run can go back to the start of this step */
    int32_t valid_plan;  /* that wrote it; -1: the initial state */
    int64_t writing_step;
    int32_t writing_plan;
    double done_s;
    double valid_from_s, writing_from_s; /* when their writes began */
    double *down_s;      /* target peer, per node: when it last had no device; < 0: never */
    int64_t writes;      /* begun so far */
} luo_ckpt;

/* ---- health/reentry.c ---- */

typedef struct luo_outside { /* a device that does not hold layers now, or did not once */
    int32_t good;            /* probes in a row */
    int32_t need;            /* of them, before it may hold layers */
    int32_t backoff;         /* 0, 10, 20 .. 160 */
    bool suspended;          /* it was put out of a plan because it was slow */
    bool back;               /* healthy, with as many good probes as it needs */
    int64_t entered;         /* step at which it last came into a plan */
} luo_outside;

typedef struct luo_reentry {
    bool *candidate; /* per device: may hold layers */
    luo_outside *outside;
    int32_t waiting; /* devices of whom more good probes are wanted, at the last probes */
} luo_reentry;

/* ---- health/pace.c ---- */

enum { LUO_PACE_STEPS = 3 };
typedef struct luo_pace_meter { /* how fast this machine is against the profile */
    bool known;     /* factor is */
    double *factor; /* per device: seconds measured per second predicted, under this plan */
    double first;   /* of the median device, under the first plan; 0: not known */
    bool own;       /* each device is held against itself */
    int32_t n;      /* steps sampled, until it is known */
    double *sample; /* LUO_PACE_STEPS per device; not above 0: none */
} luo_pace_meter;

/* A run is seven parts; a function takes those that it uses, or the whole run when it needs most of
 * them. */

typedef struct luo_run_job { /* what is to be done; does not change after the start */
    const luo_scenario *scenario;
    const luo_policy_spec *spec;
    const luo_policy *policy; /* of the scenario */
    const luo_run_opts *opts;
    const luo_sink *sink;
    bool real; /* the backend holds data, so time passes by itself */
    struct {   /* of the scenario, as they are waited out */
        double detect_fail_s, process_start_s, communicator_s, replacement_s, planner_s,
            operator_s;
    } cost;
} luo_run_job;

typedef struct luo_run_clock { /* when it is, and what has happened to the cluster until then */
    double t0;
    double t_s;
    int64_t step;
    int64_t first_step; /* that the run began with; > 0: resumed */
    int64_t last_event_step;
    int64_t tried; /* steps below have been begun, so what they train on is decided */
    luo_run_state state;
    luo_events *events;
    int64_t up_at; /* luo_events_happenings when `up` was counted; -1: never */
    int32_t up;    /* devices of the cluster that are up */
    int64_t seen;  /* luo_events_happenings that luo_run_trigger has looked at; -1: none */
    luo_step_lengths *lengths;
} luo_run_clock;

typedef struct luo_run_plans { /* those of this run, compiled */
    luo_used_plan **list;
    int32_t n, room;
    int32_t running;       /* index of the one that runs */
    int64_t uses;          /* a clock for last_use */
    int64_t program_bytes; /* limit of luo_run_use_plan */
    luo_map communicators; /* that exist */
    luo_map checked;       /* programs that passed luo_program_check (luo_compile_opts) */
    double memory_ratio;
    int32_t memory_device;
} luo_run_plans;

typedef struct luo_run_health {              /* what is known of the devices */
    bool *usable, *was_usable, *was_leaving; /* per device */
    bool *emptied; /* per device: it was down since state was last placed, so it holds none */
    double *rate;  /* per device, for snapshots */
    luo_detect detect;
    luo_drift drift;
    luo_reentry reentry;
    luo_pace_meter pace; /* backends with data */
    double *predicted;   /* per device, of the last step under the running plan */
    bool has_predicted;
    /* Equal samples in a row, of the same rates and a cluster in which nothing happened; when the
     * detector has seen enough of them, more of the same tell nothing new. */
    struct {
        int64_t n, happenings, accepts; /* luo_events_happenings, detect.accepts at the last */
    } alike;
    struct { /* luo_run_apply: was the plan within the usable devices? */
        int64_t seen; /* run->clock.seen */
        int32_t plan; /* -1: not looked at yet */
        bool whole;
    } within;
    bool discard;           /* the samples of the next step */
    int64_t sampled_writes; /* ckpt.writes at the last step whose samples could be taken */
    bool skipped;           /* the samples of that step, for a checkpoint */
    luo_rng *probe;         /* per device: noise of its probes; NULL: none */
    double *probe_base;     /* per device: of a probe at the start */
    int32_t detect_true, detect_false;
    double detect_delay_s;
} luo_run_health;

typedef struct luo_bound_start { /* a plan that a policy of the scenario begins with */
    const luo_plan *plan, *from; /* from: where the straggler planner starts (luo_offers_start) */
    double share; /* of its step, for as many tokens as a step of the run has */
} luo_bound_start;

typedef struct luo_run_decision { /* why the policy is asked, and what it has said */
    int trigger;
    int32_t failures;         /* since a step last ended well */
    double failed_since_s;    /* start of the attempt that failed, or of the outage */
    const char *cause;        /* id of what the trigger is about; "" */
    int32_t seen;             /* occurrences looked at */
    const luo_policy *acting; /* that decided last */
    struct {
        bool on;
        double ready_s, planned_s; /* planned_s: that the planner took */
        int trigger;
        luo_decision d;
    } pending; /* a decision of a planner that still runs */
    double memory_factor;
    void *memory;    /* of the policy */
    luo_judge judge; /* simulator NULL: there is none */
    struct {         /* of a policy that is a bound */
        luo_world *healthy;
        double *work;         /* per device: that it does in a second when it is well */
        double base;          /* of the devices of the base plan */
        double best_s;        /* of the fastest plan on healthy devices; 0: not yet known */
        const luo_plan *best; /* that plan; NULL: the base plan */
        int32_t nstarts, best_start; /* best_start: whose policies have found it */
        luo_bound_start *start;      /* start[0] is of this run */
        luo_map fastest;      /* steps of the fastest plan, by slowdowns: the bits of a double */
    } bound;
    int32_t switches, restarts;
} luo_run_decision;

typedef struct luo_run_ledger { /* where the time went, and what a failure would lose */
    luo_account account;
    luo_ckpt ckpt;
    luo_tries tries;     /* of steps since the newest valid checkpoint */
    int64_t done_before; /* steps below were tried in a time whose attempts are forgotten */
    int32_t nlinks;
    luo_link_use *links;
    luo_link_windows windows;
    int32_t nwarnings, cap_warnings;
    const char **warnings;
} luo_run_ledger;

typedef struct luo_run_backend { /* who does the steps; all but the first two: with data */
    const luo_backend *table;
    luo_backend_state *state;
    luo_state_info info;  /* by the last INIT or LOAD */
    bool *running;        /* per device: its process was started and has not died */
    bool died;            /* processes are gone: state comes back from a checkpoint only */
    bool unplanned;       /* .. and no event had said so */
    int32_t deaths;       /* without an event */
    int32_t died_last;    /* device; -1: not known */
    const char *died_why; /* as the backend told it */
    int32_t nkills;       /* failures with `hard: true` that the next attempt carries out */
    int32_t *kills;
    luo_world *struck; /* the world of that attempt */
} luo_run_backend;

typedef struct luo_batch_work { /* of data; pads are none */
    int64_t sequences, tokens;
    double flops;
} luo_batch_work;

typedef struct luo_run {
    luo_arena *arena, *scratch;
    struct luo_run_lengths *lengths; /* NULL: all steps have one length of sequence */
    luo_run_job job;
    luo_run_clock clock;
    luo_run_plans plans;
    luo_run_health health;
    luo_run_decision decision;
    luo_run_ledger ledger;
    luo_run_backend backend;
} luo_run;

static inline luo_used_plan *luo_run_plan(const luo_run_plans *plans)
{
    return plans->list[plans->running];
}

/* plans.c */
/* Compiled form of p for sequences of so many tokens, from the cache if it was used before. When
 * the programs of all plans take more than program_bytes, those of the plan used longest ago are
 * given back, and compiled again when it comes back; the first plan's, to which runs return, last.
 * Errors: those of luo_plan_check, luo_plan_compile, luo_program_check; LUO_EOOM. */
luo_status luo_run_use_plan(luo_run *run, const luo_plan *p, int64_t tokens, int32_t *index,
                            luo_err *err);
/* The same for a plan of one batch: it takes the place of the last one of its frame, which is what
 * the result tables know. Pre: the plan is the frame with a batch. */
luo_status luo_run_use_batch(luo_run *run, const luo_plan *frame, const luo_plan *plan,
                             const luo_batch_work *work, int32_t *index, luo_err *err);
/* Has a plan of a batch room that a later part of the step is to run? Nothing is kept of it.
 * Errors: those of luo_plan_compile; LUO_EOOM. */
luo_status luo_run_fits(luo_run *run, const luo_plan *plan, luo_err *err);
/* What policies and tables see of a used plan. */
static inline const luo_plan *luo_run_plan_of(const luo_used_plan *used)
{
    return used->frame ? used->frame : used->plan;
}
/* Programs of a plan that luo_run_use_plan has compiled and not given back; else NULL. */
luo_programs *luo_run_known_programs(const luo_run *run, const luo_plan *p, int64_t tokens);
luo_status luo_run_first_plan(luo_run *run, luo_err *err);
/* Programs of a plan that were given back. */
luo_status luo_run_recompile(luo_run *run, luo_used_plan *used, luo_err *err);
/* The running plan's programs are those of the step's load of experts. */
luo_status luo_run_follow_load(luo_run *run, luo_err *err);
void luo_run_give_back(luo_used_plan *used);
/* Seconds of making what does not exist: communicators and, of programs that are new, operators,
 * each counted on the busiest device. keep: they exist then. Errors: LUO_ENOMEM. */
luo_status luo_run_making(luo_run *run, const luo_programs *set, bool keep, double *seconds,
                          luo_err *err);
luo_recipe luo_run_recipe(const luo_used_plan *used);
/* Rows of memory.csv, with what the step measured (NULL: nothing); once per plan. */
luo_status luo_run_measured(luo_run_job *job, luo_used_plan *used, const luo_step_result *result,
                            luo_err *err);
/* Keeps what events say of the lengths of steps to come; after every change of run->clock.events.
 * Errors: LUO_ENOMEM. */
luo_status luo_run_follow_lengths(luo_run *run, luo_err *err);
/* Length of the sequences of the step at hand: event, scenario, plan. */
int64_t luo_run_tokens(const luo_run *run, const luo_plan *plan);
/* How tensors travel under a plan that does not say: as under the first one, else as the stack
 * says. */
luo_bucketing luo_run_bucket(const luo_run *run);
void luo_run_free_plans(luo_run_plans *plans);

/* range.c: fills range and draws of the summary, if they are asked for and steps of the backend can
 * be simulated apart.
 * Errors: those of the simulator. */
luo_status luo_run_range(luo_run *run, luo_run_summary *summary, luo_err *err);

/* ledger.c */
luo_status luo_account_init(luo_run *run, luo_err *err);
void luo_account_free(luo_run_ledger *ledger);
/* Is this the step that was kept last, again? Then what was worked out for it holds. */
bool luo_account_repeats(const luo_run *run, const luo_step_result *result);
/* Brings the totals of devices, links and groups up to date. Errors: LUO_ENOMEM. */
luo_status luo_account_catch_up(luo_run *run, luo_err *err);
/* Parts of the step that luo_account_step took last, as means over the devices of the plan; they
 * sum to `seconds`. */
void luo_account_mean(const luo_account *account, double seconds, luo_parts *out);
luo_status luo_account_step(luo_run *run, const luo_step_result *result, double start_s,
                            double end_s, luo_err *err);
/* The share after the valid checkpoint is lost: back to `step`. */
void luo_account_rollback(luo_run *run, int64_t step);
/* Time that going back to the last checkpoint would waste. */
double luo_account_open_s(const luo_run_ledger *ledger);
/* A checkpoint at ckpt.valid_step has become valid. */
luo_status luo_account_safe(luo_run_ledger *ledger, luo_err *err);
luo_status luo_account_attempt(luo_run *run, int32_t *attempt, luo_err *err);
void luo_account_changes(luo_run *run); /* up times, from the last changes of the engine */
double luo_account_parts_sum(const luo_parts *parts);

/* checkpoint.c */
luo_status luo_ckpt_init(luo_run *run, luo_err *err);
/* Of every plan that is used. Errors: LUO_EINPUT, target peer, a host cannot hold its shares. */
luo_status luo_ckpt_check_room(const luo_run *run, const luo_used_plan *used, luo_err *err);
/* Ends a write that is done, starts one that is due; called at each boundary. */
luo_status luo_ckpt_boundary(luo_run *run, luo_err *err);
/* Writes now and waits for it. */
luo_status luo_ckpt_write(luo_run *run, luo_err *err);
/* Real backends: a complete run leaves its last state behind, if it writes checkpoints at all. */
luo_status luo_ckpt_last(luo_run *run, luo_err *err);
/* Forgets a write in flight; returns the step to go back to, and what reading it costs. */
int64_t luo_ckpt_restore(luo_run *run, double *read_s);
/* Of the running plan; of reading it back. */
double luo_ckpt_read_seconds(const luo_run *run);
/* Failures per second on the devices of the running plan, from the random processes of the
 * scenario; 0: there is none. */
double luo_ckpt_failure_rate(const luo_run *run);
/* What a failure failure_s from now would cost that goes back to the last checkpoint: reading it,
 * and half of the steps, of step_s each, between two of them; without checkpoints all steps. */
double luo_ckpt_setback_s(const luo_run *run, double step_s, double failure_s);
/* Memory that went with its node: after every change. */
void luo_ckpt_changes(luo_run *run);
double luo_ckpt_write_seconds(const luo_scenario *sc, const luo_used_plan *used);

/* ask.c */
/* run->judge; before there is a plan with the stack's buckets. */
void luo_run_set_judge(luo_run *run);
/* Are plans ranked by simulated steps in this run? */
bool luo_run_judges(const luo_run *run);
/* What a policy would see now. It shares run->rate. */
luo_snapshot luo_run_snapshot(luo_run *run, int trigger);
/* Out: *seconds: what planning costs the run, fixed or measured (docs/formats.md#luoshuscenario1,
 * `planner_time`). */
luo_status luo_run_ask(luo_run *run, int trigger, luo_decision *out, double *seconds, luo_err *err);
/* What would the policy say after a failure if these devices were there? Nothing is charged, logged
 * or remembered. */
luo_status luo_run_ask_what_if(luo_run *run, const bool *usable, const bool *leaving,
                               luo_decision *out, luo_err *err);
/* Nothing has failed: do the devices wait for the planner, which takes so long? */
bool luo_run_waits_for_planner(const luo_run_job *job, const luo_decision *decision,
                               double seconds);

/* health/reentry.c */
luo_status luo_reentry_init(luo_run *run, luo_err *err); /* Pre: the first plan is set */
void luo_reentry_plan(luo_run *run, const luo_used_plan *was, const luo_used_plan *now);
void luo_reentry_change(luo_run *run,
                        int32_t device); /* it has become usable, or is not any more */
/* A probe of a device outside the plan; its rate was looked at. */
void luo_reentry_probe(luo_run *run, int32_t device, double sample);

/* health/drift.c: after the samples of a step */
luo_status luo_run_drift_step(luo_run *run, luo_err *err);

/* policy/hope.c */
typedef struct luo_refusal { /* no plan was possible on these devices */
    const bool *usable;
    const struct luo_refusal *before;
} luo_refusal;
typedef struct luo_refusals {
    const luo_refusal *last;
    int32_t n;
} luo_refusals;
/* No plan is possible now: waits until that may have changed, or for the end of a run of given
 * length. *hope: false: it will not change, and nothing was waited for. *refusals: what was found
 * so far in this wait, {0} at first. */
luo_status luo_run_wait(luo_run *run, luo_refusals *refusals, bool *hope, luo_err *err);

/* apply.c */
void luo_run_trigger(luo_run *run);                   /* looks at what the last changes did */
luo_status luo_run_apply(luo_run *run, luo_err *err); /* decides and acts; at a boundary */

/* move.c */
/* Moves state from one plan to the other; row: traffic and seconds. *broken: a device or link
 * failed meanwhile, or is gone already; nothing has moved. Errors: LUO_ELOST no living owner of
 * some state. */
luo_status luo_run_move(luo_run *run, const luo_used_plan *was, int32_t to, luo_row_switch *row,
                        bool *broken, luo_err *err);

/* The same plan, or frame, for other lengths of sequences: on a backend with data all state goes
 * over from what held it to its buffers. */
luo_status luo_run_rebind(luo_run *run, const luo_used_plan *was, int32_t plan, luo_err *err);

/* Told to stop: who works long within a step returns LUO_ECANCELED then. */
bool luo_run_interrupted(const luo_run_job *job);
luo_backend_config luo_run_config(const luo_run *run); /* what its backend is opened with */

/* ---- health/caused.c ---- */

/* caused[d], per device of the cluster: >= 1; -1: not computed (no simulator, `oracle`, not used by
 * the first plan, too much work). Pre: the run has ended. Errors: those of a step; LUO_ENOMEM. */
luo_status luo_run_caused(luo_run *run, double *caused, luo_err *err);

/* ahead.c */
/* Changes from now on into the request, dated in the backend's clock, and a way to those after. */
luo_status luo_run_look_ahead(luo_run *run, luo_ahead *ahead, luo_step_request *request,
                              luo_err *err);
/* Run time goes to the end of an attempt or a move; if it failed: not before the change that broke
 * it. */
luo_status luo_run_end_of(luo_run *run, const luo_ahead *ahead, const luo_step_result *result,
                          luo_err *err);

/* attempt.c */
luo_status luo_run_step(luo_run *run, luo_err *err);
/* What an attempt that ended well becomes: rows, totals, samples; the next step is at hand. */
luo_status luo_run_keep(luo_run *run, const luo_step_result *result, int32_t attempt,
                        double start_s, luo_err *err);

/* health/sample.c */
luo_status luo_run_sample_init(luo_run *run, luo_err *err);
/* What a step that ended well tells of the speed of devices: samples of those in the plan, probes
 * of those that are not; confirmed changes become trigger. repeats: luo_account_repeats, before the
 * step was taken into account. */
luo_status luo_run_sample_step(luo_run *run, const luo_step_result *result, bool repeats,
                               luo_err *err);

/* policy/oracle.c: nothing for other policies. Errors: LUO_EINPUT on backends with data. */
luo_status luo_run_oracle_init(luo_run *run, luo_err *err);
/* driver.c: the plan that the run of another policy of the scenario begins with. Errors: those of
 * luo_run_first_plan. Owner: arena. */
luo_status luo_run_first_of(luo_arena *arena, const luo_run_job *job, int32_t policy,
                            const luo_plan **out, luo_err *err);
/* One step that ends at t_s, unless the run is lost. */
luo_status luo_run_oracle_step(luo_run *run, luo_step_result *result, luo_err *err);

/* health/score.c */
void luo_run_score_new(luo_run *run); /* looks at new occurrences */
luo_status luo_run_score_rate(luo_run *run, int32_t device, const luo_rate_change *change,
                              luo_err *err);
luo_status luo_run_score_failure(luo_run *run, double since_s, luo_err *err);

/* report.c */
luo_status luo_run_report_end(luo_run *run, luo_err *err);
/* assume.c */
luo_status luo_run_report_assumptions(luo_run *run, const char *const **out, int32_t *n,
                                      luo_err *err);

/* driver.c: helpers of all */
bool luo_run_is_over(const luo_run *run);
/* A blocking period of `seconds`: the backend sleeps, events go on, a timeline row is written. With
 * real time it begins where the last one ended, whatever was done since, and is as long as that
 * took if that was longer. */
luo_status luo_run_span(luo_run *run, luo_span_kind kind, double seconds, int64_t bytes,
                        luo_err *err);
luo_status luo_run_span_until(luo_run *run, luo_span_kind kind, double end_s, int64_t bytes,
                              luo_err *err);
/* A line of log.txt. */
luo_status luo_run_note(luo_run_job *job, luo_err *err, const char *fmt, ...) LUO_PRINTF(3, 4);
luo_status luo_run_timeline(luo_run *run, luo_span_kind kind, double start_s, double end_s,
                            bool blocking, bool redone, int64_t bytes, luo_err *err);
/* A row of events.csv; id "" and target "" where there is none. has: value is written. */
luo_status luo_run_event(luo_run *run, luo_event_phase phase, const char *id, const char *kind,
                         const char *target, bool has, double value, const char *detail,
                         luo_err *err);
/* A warning in log.txt that the terminal gets, too. */
luo_status luo_run_tell(luo_run_job *job, luo_err *err, const char *fmt, ...) LUO_PRINTF(3, 4);
luo_status luo_run_warn(luo_run *run, luo_err *err, const char *fmt, ...) LUO_PRINTF(3, 4);
/* Brings the event engine to t_s of the run. */
luo_status luo_run_advance(luo_run *run, double t_s, luo_err *err);
#endif
