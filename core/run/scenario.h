/* scenario.h: what is to be run (docs/formats.md#luoshuscenario1). */
#ifndef LUO_CORE_RUN_SCENARIO_H
#define LUO_CORE_RUN_SCENARIO_H
#include "core/cost/cluster.h"
#include "core/graph/moe/load.h"
#include "core/plan/length_policies/length_setup.h"
#include "core/plan/malleus/malleus.h"
#include "core/plan/plan.h"

/* Of times between arrivals, and of lives, which have one more. */
#define LUO_DIST_ARRIVAL_LIST(X)                                                                   \
    X(LUO_DIST_EXPONENTIAL, "exponential")                                                         \
    X(LUO_DIST_WEIBULL, "weibull")
#define LUO_DIST_LIST(X) LUO_DIST_ARRIVAL_LIST(X) X(LUO_DIST_LOGNORMAL, "lognormal")
typedef enum luo_dist { LUO_DIST_NONE, LUO_DIST_LIST(LUO_WORD_VALUE) } luo_dist;

typedef struct luo_life { /* how long: fixed, drawn, or for ever (all 0) */
    double duration_s;
    int64_t steps; /* of events: over when the step so many later begins; 0: not by steps */
    luo_dist dist;
    double mean_s, shape, median_s, sigma;
} luo_life;

/* The kinds of events: constant, word; then 1 where it may stand: in `events` of a scenario, in an
 * events.csv, in `processes` of a scenario, in a causes.csv; what it hits, its quantity, what
 * becomes of the devices and links that it hits. Then its functions, in events/events_kinds.c: when
 * there is nothing for it to do (`idle_`), what it does once at its start (`begin_`), and what it
 * makes of a device, a link or the data while it is on (`apply_`). Readers, checks and texts are
 * made of this list; a kind without functions does not compile. Backends know of changes alone
 * (events/world.h).
 */
#define LUO_EVENT_KIND_LIST(X)                                                                     \
    X(STRAGGLER, "straggler", 1, 1, 1, 1, DEVICES, SLOWDOWN, NONE, devices_down, ramp, slow)       \
    X(FAIL, "fail", 1, 1, 1, 1, ANY, NONE, GONE, all_down, nothing, down)                          \
    X(LEAVE, "leave", 1, 1, 0, 0, ANY, NONE, GONE, all_down, leave, down)                          \
    X(JOIN, "join", 1, 1, 0, 0, ANY, NONE, BACK, all_up, join, nothing)                            \
    X(LINK, "link", 1, 1, 1, 1, LINKS, FACTOR, NONE, links_down, nothing, narrow)                  \
    X(FLAP, "flap", 1, 0, 0, 0, LINKS, NONE, BY_TURNS, all_down, flap, down)                       \
    X(LENGTHS, "lengths", 1, 0, 0, 0, DATA, TOKENS, NONE, never, nothing, lengths)                 \
    X(CAUSES, "causes", 0, 0, 1, 0, DEVICES, NONE, NONE, never, nothing, nothing) /* of others */
typedef enum luo_event_kind {
#define LUO_EVENT_ENUM(kind, ...) LUO_EVENT_##kind,
    LUO_EVENT_KIND_LIST(LUO_EVENT_ENUM)
#undef LUO_EVENT_ENUM
} luo_event_kind;
#define LUO_EVENT_ONE(...) +1
enum { LUO_EVENT_KINDS = 0 LUO_EVENT_KIND_LIST(LUO_EVENT_ONE) };
#undef LUO_EVENT_ONE
/* LUO_WHERE_##flag(item): the item of a kind with this flag, nothing of others. */
#define LUO_WHERE_0(...)
#define LUO_WHERE_1(...) __VA_ARGS__
typedef enum luo_event_hits {
    LUO_HITS_ANY, /* devices, links and what has both */
    LUO_HITS_DEVICES,
    LUO_HITS_LINKS,
    LUO_HITS_DATA /* has no target */
} luo_event_hits;
typedef enum luo_event_value {
    LUO_VALUE_NONE,
    LUO_VALUE_SLOWDOWN,
    LUO_VALUE_FACTOR, /* of a link's bandwidth */
    LUO_VALUE_TOKENS
} luo_event_value;
typedef enum luo_event_loss {
    LUO_LOSS_NONE,
    LUO_LOSS_GONE,
    LUO_LOSS_BY_TURNS,
    LUO_LOSS_BACK /* what was gone is there again; over at once */
} luo_event_loss;
typedef struct luo_event_traits {
    luo_event_hits hits;
    luo_event_value value;
    luo_event_loss loss;
} luo_event_traits;
const char *luo_event_kind_name(luo_event_kind k);
luo_event_traits luo_event_traits_of(luo_event_kind k);
bool luo_event_takes_down(luo_event_kind k); /* devices: failures, leaves, flaps */

typedef enum luo_trigger {
    LUO_AT_S,
    LUO_AT_STEP,
    LUO_BETWEEN_S,
    LUO_BETWEEN_STEPS,
    LUO_PER_STEP_PROBABILITY
} luo_trigger;

typedef struct luo_event {
    const char *id, *target, *cause; /* cause "" when not given */
    luo_event_kind kind;
    luo_trigger trigger;
    double at[2]; /* seconds or steps; the probability in at[0] */
    double slowdown, slowdown_between[2]; /* one of them; 0: not given */
    double ramp_s, notice_s, down_s, up_s, bandwidth_factor, extra_latency_s;
    luo_life life;
    int64_t tokens; /* LENGTHS of kind fixed */
    bool hard;      /* on real backends: the rank kills itself */
    int line, col;
} luo_event;

typedef enum luo_scope {
    LUO_SCOPE_DEVICE,
    LUO_SCOPE_NODE,
    LUO_SCOPE_LINK,
    LUO_SCOPE_JOB,
    LUO_SCOPES
} luo_scope;

typedef struct luo_cause { /* a row of causes.csv */
    const char *cause;
    luo_event_kind kind;
    luo_scope scope;
    int64_t count;
    double life_median_s, life_sigma, value; /* 0: not given */
} luo_cause;

typedef struct luo_arrivals { /* random arrivals, one clock per device */
    const char *id, *target;
    luo_event_kind kind;
    luo_dist dist;
    double mean_s, shape;
    luo_life life;
    double slowdown, slowdown_between[2], bandwidth_factor, extra_latency_s;
    int32_t ncauses; /* kind causes */
    const luo_cause *causes;
    double observed_devices, observed_s;
    int line, col;
} luo_arrivals;

/* When nothing has failed: the old plan trains on while the planner runs; all devices wait for it;
 * whichever brings the run further. */
#define LUO_PLAN_MODE_LIST(X)                                                                      \
    X(LUO_PLAN_ASYNC, "async")                                                                     \
    X(LUO_PLAN_SYNC, "sync")                                                                       \
    X(LUO_PLAN_AUTO, "auto")
typedef enum luo_plan_mode { LUO_PLAN_MODE_LIST(LUO_WORD_VALUE) } luo_plan_mode;

typedef enum luo_judged { /* by what plans are ranked (docs/planners.md#which-plan-is-taken) */
    LUO_JUDGED_AUTO,      /* by the simulated step up to LUO_JUDGE_DEVICES devices */
    LUO_JUDGED_SIMULATED,
    LUO_JUDGED_OBJECTIVE, /* by a closed form (core/plan/step/step.h); auto beyond */
    LUO_JUDGED_PUBLISHED  /* by the objective of the policy's own search, nobody else's plans */
} luo_judged;
/* Words that a user may give; the rest follows from other options. */
#define LUO_JUDGED_LIST(X)                                                                         \
    X(LUO_JUDGED_SIMULATED, "simulated")                                                           \
    X(LUO_JUDGED_OBJECTIVE, "objective")

#define LUO_OPTIMIZER_STEP_LIST(X)                                                                 \
    X(LUO_STEP_TOGETHER, "together")                                                               \
    X(LUO_STEP_STAGGERED, "staggered")
typedef enum luo_optimizer_step { /* optimizer_step of a policy's plans */
    LUO_STEP_AS_PLANNED,          /* as the first plan says */
    LUO_OPTIMIZER_STEP_LIST(LUO_WORD_VALUE)
} luo_optimizer_step;

/* What policies for uneven lengths know of slow devices: the speed of each replica; nothing; and,
 * beside that speed, which devices go to which replica (lengths/joint.h), and replicas that are
 * cut around slow devices or leave them idle (core/plan/length_policies/length_slow.h). */
#define LUO_LENGTH_STRAGGLERS_LIST(X)                                                              \
    X(LUO_STRAGGLERS_DISPATCH, "dispatch")                                                         \
    X(LUO_STRAGGLERS_NONE, "none")                                                                 \
    X(LUO_STRAGGLERS_JOINT, "joint")
typedef enum luo_length_stragglers {
    LUO_LENGTH_STRAGGLERS_LIST(LUO_WORD_VALUE)
} luo_length_stragglers;

typedef struct luo_length_spec { /* keys of policies for uneven lengths */
    luo_length_assign assign;
    luo_proposals proposals;
    bool published_dispatch;
    luo_pack_score score;
    int32_t kicks, max_plans;
    int32_t ahead, workers; /* lengths/planning.h */
    luo_length_stragglers stragglers;
    double switch_ms;
    int32_t ncontext;
    int32_t context[LUO_CONTEXT_SIZES];
} luo_length_spec;

/* How replicas of policy `static` train beside each other (training/training.h). */
#define LUO_TRAINING_LIST(X)                                                                       \
    X(LUO_TRAINING_ALLREDUCE, "allreduce")                                                         \
    X(LUO_TRAINING_BSP, "bsp")                                                                     \
    X(LUO_TRAINING_SSP, "ssp")                                                                     \
    X(LUO_TRAINING_ASP, "asp")                                                                     \
    X(LUO_TRAINING_PREDUCE, "preduce")                                                             \
    X(LUO_TRAINING_ADPSGD, "adpsgd")
typedef enum luo_training_mode {
    LUO_TRAINING_NONE, /* as the programs of the plan have it */
    LUO_TRAINING_LIST(LUO_WORD_VALUE)
} luo_training_mode;

typedef struct luo_training_spec {
    luo_training_mode mode;
    int32_t staleness;        /* SSP */
    int32_t servers;          /* BSP, SSP, ASP */
    const int32_t *server_devices; /* so many; NULL: they are hosts beside the cluster */
    int32_t max_group, guard; /* PREDUCE; 0: all workers; no guard */
    double wait_s, wait_max_s, wait_min_s;
    double request_s; /* PREDUCE: to the controller, and as long back again */
    bool adaptive;
} luo_training_spec;

typedef struct luo_policy_spec {
    const char *name, *label; /* label = name unless given */
    const luo_plan *plan;     /* own plan, or NULL */
    const char *planner;      /* own planner of the first plan, or NULL */
    double restart_s;         /* < 0: from costs */
    double threshold_slowdown, replan_gap, payback_steps, planner_s;
    bool payback_given; /* else payback_steps is the least of what is expected */
    int32_t window_steps, top_k;
    int32_t reentry_probes; /* good ones before a device that came up may hold layers */
    luo_plan_mode plan_mode;
    luo_optimizer_step optimizer_step;
    luo_malleus_rank rank; /* of the search */
    luo_judged judged;
    bool split2, dp_auto;
    bool deals_batch; /* of replicas that leave, to the others; else it is lost */
    bool planner_measured, always_switch, strict_uniform;
    bool planner_default; /* planner_s is not given */
    luo_length_spec lengths;
    luo_training_spec training;
    int32_t job; /* of `jobs` it runs this one, from 1 on; 0: there are none */
    bool alone;  /* without the others, to compare with */
    int line, col;
} luo_policy_spec;

typedef struct luo_job_spec { /* one of several that share the cluster (core/run/jobs/jobs.h) */
    const char *name;
    const luo_model *model;
    const luo_plan *plan; /* no device is in the plans of two jobs */
    double start_s;
    int64_t steps;     /* 0: by duration */
    double duration_s; /* steps begin until so long after start_s */
} luo_job_spec;

typedef enum luo_checkpoint_kind {
    LUO_CHECKPOINT_NONE,
    LUO_CHECKPOINT_STEPS,
    LUO_CHECKPOINT_S,
    LUO_CHECKPOINT_AUTO
} luo_checkpoint_kind;

typedef enum luo_checkpoint_target {
    LUO_TARGET_STORAGE,
    LUO_TARGET_DISK, /* of each node */
    LUO_TARGET_PEER  /* memory of each node and of the next one */
} luo_checkpoint_target;

typedef struct luo_scenario {
    const char *name;
    uint64_t seed;
    const luo_cluster *cluster;
    const luo_model *model;
    const luo_plan *plan;  /* NULL: made by `planner` */
    const char *planner;   /* "uniform", "malleus" */
    int64_t steps;         /* 0: by duration */
    double duration_s;
    int64_t batch_sequences; /* 0: the plan's own micro-batches */
    int64_t batch_tokens;    /* 0: a batch is a number of sequences */
    bool truncate_last;      /* of batch_tokens: the last sequence is cut to fit */
    int64_t length_tokens;   /* data.lengths of kind fixed; 0: the plan's */
    const luo_lengths *lengths; /* NULL: not given */
    int32_t npolicies, nevents, nprocesses;
    const luo_policy_spec *policies;
    const luo_event *events; /* of the file and of its traces, in that order */
    const luo_arrivals *processes;
    double compute_sigma, comm_sigma;
    int32_t nloads; /* expert_load, by step; 0: not given */
    const luo_expert_load *loads;
    int32_t njobs; /* 0: one run, of `model` */
    const luo_job_spec *jobs;
    int64_t joint_steps; /* of each job, before later ones are taken for the same; 0: all */
    struct {
        luo_checkpoint_kind kind;
        int64_t every_steps;
        double every_s;
        bool blocking;
        luo_checkpoint_target target;
    } checkpoint;
    double detect_fail_s, process_start_s, communicator_s, replacement_s;
    double operator_s; /* of programs that are new, each instruction of the busiest device */
    struct { /* not given: our choice, which real backends do not wait out */
        bool detect_fail, process_start, communicator, replacement;
    } cost_default;
    bool truth;
    luo_stack stack;
    uint64_t hash; /* of the canonical JSON of all values with defaults */
} luo_scenario;

/* Rows of experts as programs of a step are to cost them; NULL: equally many for each. A step that
 * a table leaves out is as the last one before. */
const luo_expert_load *luo_run_load(const luo_scenario *scenario, int64_t step);
#endif
