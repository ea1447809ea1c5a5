/* policy.h: what a training run does when the world changes (ARCHITECTURE.md; docs/policies.md).
 *
 * A policy is a row of a table: a name and one function from a snapshot of the run to a decision.
 * The driver measures, decides when to ask, charges time and carries decisions out. */
#ifndef LUO_CORE_RUN_POLICY_POLICY_H
#define LUO_CORE_RUN_POLICY_POLICY_H
#include "core/run/scenario.h"

enum { /* trigger: why the policy is asked; a mask */
    LUO_TRIGGER_FAIL = 1,   /* the plan has lost a device or a link, or the job crashed */
    LUO_TRIGGER_RATE = 2,   /* the detector accepted a new rate */
    LUO_TRIGGER_JOIN = 4,   /* a device outside the plan became usable */
    LUO_TRIGGER_NOTICE = 8  /* a device of the plan was announced to leave */
};

typedef struct luo_snapshot {
    const luo_scenario *scenario;
    const luo_policy_spec *spec;
    const luo_plan *base; /* of the start of the run */
    const luo_plan *plan; /* the running one */
    int trigger;
    const double *rate;        /* per device: accepted slowdown, INFINITY when not usable */
    const bool *leaving;       /* per device */
    const double *predicted_s; /* per device: compute of the last step on a nominal device of its
                                  type; 0: not in the plan; NULL: no step yet */
    int64_t micro_batches;     /* of a step, all pipelines, of the base plan's size */
    int64_t sequence_tokens;
    double expected_s;     /* until the next event: of the scenario's processes, without any
                              the mean between those so far; 0: not known */
    double failure_s;      /* the same of failures of devices; of processes those of the plan */
    double memory_factor;  /* plan with this share of the memory: a plan did not fit */
    bool issue_order;      /* of the backend: LUO_CAP_ISSUE_ORDER */
    const bool *candidate; /* per device: may hold layers (core/run/health/reentry.c) */
    /* Of a policy for uneven lengths: all that it has chosen, chosen anew for the devices with a
     * finite rate; *frame: the replicas of the next step; NULL: these are the
     * devices that it plans for. Function NULL: only whether it could is asked. */
    luo_status (*plan_lengths)(void *run, const luo_plan **frame, luo_err *err);
    luo_arena *keep; /* lives as long as the run .. */
    void **memory;   /* .. as what a policy remembers; NULL at first */
    /* Seconds that communicators and operators of p would take which do not exist yet, and those
     * until devices that come into the plan are ready. */
    luo_status (*specialize_s)(void *run, const luo_plan *p, double *seconds, luo_err *err);
    /* Seconds that a restart with p would cost now: processes, communicators, reading, and what
     * was done since the checkpoint, which is saved first or done again. */
    luo_status (*restart_s)(void *run, const luo_plan *p, double *seconds, luo_err *err);
    /* Seconds that a failure failure_s from now, with steps of step_s until then, would cost more
     * where no copy is left of some state: processes, reading, and what is done again. */
    double (*setback_s)(void *run, double step_s, double failure_s);
    /* Seconds of a step of plan on the devices as they are: simulated (luo_judge_step), or by the
     * closed form (luo_plan_objective). NULL: plans are ranked by the policy's own objective. */
    luo_status (*step_s)(void *run, const luo_plan *p, double *seconds, luo_err *err);
    bool closed_form;
    void *run;
} luo_snapshot;

/* Steps of step_s seconds in which the way to a plan has to pay: `payback_steps`, or, where that is
 * not given, those until the next event is expected, 50 at least. */
double luo_snapshot_payback(const luo_snapshot *now, double step_s);
/* Of a step of plan that takes step_s: the share of what the failure that is expected next costs
 * more with plan, where no copy of some state is left when a node fails
 * (luo_policy_plan_survives_node). 0: no failure is expected, or whether a switch pays is not
 * asked. A failure counts as one in `payback_steps` steps at most, as events do. */
double luo_snapshot_risk_s(const luo_snapshot *now, const luo_plan *plan, double step_s);
/* Seconds of a step of p on the devices as they are: simulated, or by the closed form of groups. */
luo_status luo_snapshot_step_s(luo_arena *scratch, const luo_snapshot *now, const luo_plan *plan,
                               double *seconds, luo_err *err);
/* Seconds of moving state from the running plan to this one and of making its communicators;
 * where state is lost, those of a restart. */
luo_status luo_snapshot_switch_s(luo_arena *scratch, const luo_snapshot *now, const luo_plan *to,
                                 double *seconds, luo_err *err);
/* Is a copy of every layer's state left when any one node fails? Not with ZeRO, whose shards have
 * one owner. Cost: O(nodes * layers * devices). */
bool luo_policy_plan_survives_node(const luo_plan *plan, const luo_cluster *cluster);
/* Are all devices of the running plan usable? */
bool luo_snapshot_whole(const luo_snapshot *now);
/* Is a device of the running plan announced to leave? */
bool luo_snapshot_leaves(const luo_snapshot *now);

typedef enum luo_action {
    LUO_KEEP,    /* go on with the running plan */
    LUO_SWITCH,  /* to `plan`, state moves between devices */
    LUO_RESTART, /* of all processes from a checkpoint, with `plan` */
    LUO_WAIT,    /* until the world changes */
    LUO_LOSE     /* give up */
} luo_action;

typedef struct luo_decision {
    luo_action action;
    const luo_plan *plan;
    double old_s, new_s; /* event times of the running and the new plan; < 0: not computed */
    bool known;          /* the answer was remembered: the planner took no time */
    char why[160];       /* for events.csv: words and counts, nothing that was measured */
    char figures[320];   /* for log.txt: what was measured and computed from it; "" */
} luo_decision;

/* No other plan is taken, for this reason ("" if it needs none): the running one goes on. After a
 * failure nothing goes on by itself: it starts again if all its devices are back, else it waits. */
void luo_decision_stay(const luo_snapshot *now, const char *why, luo_decision *out);
/* The running plan could go on: does out->plan, with steps of out->new_s, save more than the way_s
 * seconds of the way to it (docs/planners.md#when-it-plans-again)? Sets old_s and figures. */
luo_status luo_decision_weigh(luo_arena *scratch, const luo_snapshot *now, double way_s,
                              luo_decision *out, bool *pays, luo_err *err);

typedef struct luo_policy {
    const char *name;
    const char *keys; /* of a scenario that are its own, words; luo_policy_has_key */
    bool plans; /* costs planner_s each time it is asked, unless the answer is known */
    bool objectives; /* `rank` may also be one of those of its own search */
    luo_plan_mode plan_mode; /* defaults of keys */
    int32_t reentry_probes;
    bool lengths; /* for uneven lengths: each step has a plan of its own, by `rule` */
    luo_length_policy rule;
    bool bound; /* no run but what no run could be faster than; never asked (oracle.c) */
    luo_status (*decide)(luo_arena *arena, const luo_snapshot *now, luo_decision *out,
                         luo_err *err);
    /* Can it work on this base plan? Asked before the run starts; NULL: on any. */
    luo_status (*check)(const luo_snapshot *now, luo_err *err);
} luo_policy;

/* `check` of policies whose pipelines differ in borders or micro-batches, which those of ZeRO-2 and
 * 3 cannot. Errors: LUO_EINPUT. */
luo_status luo_policy_check_zero(const luo_snapshot *now, luo_err *err);

/* Can the policy of this spec work on a run that begins with this plan? Errors: LUO_EINPUT. */
luo_status luo_policy_accepts(const luo_scenario *sc, const luo_policy_spec *spec,
                              const luo_plan *base, luo_err *err);
/* NULL: not in this build. */
const luo_policy *luo_policy_find(const char *name);
/* Keys of every policy whose plans come from another plan or planner. */
#define LUO_POLICY_KEYS_ALL "optimizer_step"
/* Does a scenario's key belong to it? Its own and those of all; what its planner costs, if it
 * plans; what is a trigger to it, unless it is a bound. */
bool luo_policy_has_key(const luo_policy *policy, const char *key);

/* The policies of scenarios, in the order of the documentation (docs/formats.md#luoshuscenario1):
 * all lists of them are made from this one. X(name): the row is luo_policy_name. */
#define LUO_POLICIES(X)                                                                            \
    X(static) X(restart) X(rebalance) X(oobleck) X(spares) X(drop_replica) X(reroute) X(malleus)   \
    X(oracle)
#define LUO_POLICY_ROW(name) extern const luo_policy luo_policy_##name;
LUO_POLICIES(LUO_POLICY_ROW)
#undef LUO_POLICY_ROW
/* Those for uneven lengths, after the others. */
extern const luo_policy luo_policy_of_lengths[LUO_LENGTH_POLICIES];
/* Not for scenarios: what a run without a policy does when a process has died: the best plan of the
 * uniform planner on the devices that are left, with the micro-batches of the base plan. */
extern const luo_policy luo_policy_survive;

/* No run but a bound of runs: real backends refuse it. */
bool luo_policy_is_upper_bound(const char *name);
/* Names of the policies of this build, in the order of the documentation. */
const char *const *luo_policy_names(int32_t *n);
#endif
