/* plan_hydraulis.h: one call of `luoshu plan hydraulis`, for its files. */
#ifndef LUO_CLI_PLAN_PLAN_HYDRAULIS_H
#define LUO_CLI_PLAN_PLAN_HYDRAULIS_H
#include "cli/plan/plan.h"
#include "cli/plan/plan_judge.h"
#include "core/plan/hydraulis/pool_memory.h"
#include "core/plan/hydraulis/propagation.h"
#include "core/plan/length_policies/length_policy.h"
#include "core/plan/length_policies/length_setup.h"
#include "core/run/lengths/orders.h"
#include "core/run/policy/judge_layouts.h"

enum { LUO_HYDRAULIS_WARNINGS = 32 };

typedef struct luo_hydraulis_step { /* of --steps */
    int64_t *length, tokens, longest;
    int32_t n;
    luo_step_plan plan;          /* of the planner, with what follows */
    const luo_length_choice *of; /* whose candidate it is: the call's, or more for slow devices */
    luo_replicas replicas;       /* as fast as the devices they have */
    const int32_t *devices;      /* by place */
    luo_propagation moves;       /* NAN: not known */
    luo_step_floor floor, plain; /* plain: without context parallelism */
    bool switched;
    double plan_ms;                       /* this machine's */
    double event_ms[LUO_LENGTH_POLICIES]; /* by the pool; NAN: a sequence fits nowhere */
    double step_s[LUO_LENGTH_POLICIES];   /* simulated; NAN: not, or it does not fit */
} luo_hydraulis_step;

typedef struct luo_hydraulis_call {
    luo_model *model;
    luo_cluster *cluster;
    luo_stack stack;
    int32_t ndevices, *devices;           /* usable */
    double *rate;                         /* per device of the cluster */
    const double *place_rate;             /* of devices[i] */
    double *type;                         /* of devices[i]: luo_pool_model_speeds */
    const char *lengths_name, *pool_name; /* pool_name NULL: from the cost model */
    luo_length_part parts[LUO_PRESET_PARTS];
    luo_lengths lengths;
    luo_length_beyond beyond; /* of them as they were given */
    luo_pool_params params;
    bool memory_table; /* caps by the published formula; else by the closed form of memory */
    luo_pool pool;
    luo_optimizer_layout layout;
    const int32_t *layout_devices;        /* NULL: in the order of `devices` */
    luo_judged_layout rival_layout[LUO_LENGTH_POLICIES]; /* where rivals have their state; tp 0 or
                                                            seconds INFINITY: as ours */
    int32_t alike; /* entry whose equal replicas have state there, where that was judged */
    luo_candidates_in in;
    luo_candidates found;
    luo_step_opts opts;
    luo_length_rivals rivals;
    int32_t nwritten; /* plan files: that of the last step, where it is no candidate; candidates,
                         the best one first */
    int32_t *written; /* -1: the plan of the last step, which is no candidate */
    uint64_t plan_hash; /* of the first */
    double stall_s;     /* of the steps, one worker planning ahead as runs do by default */
    double switch_ms;
    bool judged, joint; /* joint: `stragglers` */
    luo_proposals proposals;
    luo_lengths_learned learned;
    luo_orders orders; /* once there are steps */
    /* Per plan, of those that were asked for; NULL: none was. propagation_ms: exposed; 0: not
     * known. */
    luo_propagation *propagation;
    double *propagation_ms;
    bool *propagated;
    int32_t nsteps;
    luo_hydraulis_step *step;
    double proposal_s;
    int nwarnings;
    const char *warning[LUO_HYDRAULIS_WARNINGS];
} luo_hydraulis_call;

void luo_hydraulis_warn(luo_cli *cli, luo_hydraulis_call *call, const char *fmt, ...)
    LUO_PRINTF(3, 4);
/* A call from nothing to its answer; what it has beside the arena of the command is freed. */
luo_status luo_hydraulis_answer(luo_cli *cli,
                                luo_status (*how)(luo_cli *, luo_hydraulis_call *, luo_err *),
                                luo_err *err);
/* Where plans of this call lie. */
luo_step_place luo_hydraulis_place(const luo_hydraulis_call *call);
/* Options into *call: files, pool, devices. call->nsteps: where --steps is not given. */
luo_status luo_hydraulis_read(luo_cli *cli, luo_hydraulis_call *call, luo_err *err);
/* Only what a pool of the cost model needs, and that pool, as it is without --pool: for those who
 * plan nothing. */
luo_status luo_hydraulis_model_pool(luo_cli *cli, luo_hydraulis_call *call, luo_err *err);
/* Candidates, their speeds, and luo_hydraulis_rivals. */
luo_status luo_hydraulis_plan(luo_cli *cli, luo_hydraulis_call *call, luo_err *err);
/* Does the step's plan stand in the list of the call, with the devices in their order? */
static inline bool luo_hydraulis_is_listed(const luo_hydraulis_call *call,
                                           const luo_hydraulis_step *step)
{
    return step->of == &call->orders.choice && step->devices == call->devices;
}
/* What rivals choose, where there are steps, and with it the optimizer's layout. */
luo_status luo_hydraulis_rivals(luo_cli *cli, luo_hydraulis_call *call, luo_err *err);
/* Batches of --steps under every policy; simulated where plans are judged so. */
luo_status luo_hydraulis_steps(luo_cli *cli, luo_hydraulis_call *call, luo_err *err);
/* Fills call->propagation[plan], unless it is there; what is not known is NAN, with a warning. */
luo_status luo_hydraulis_propagate(luo_cli *cli, luo_hydraulis_call *call, int32_t plan,
                                   luo_err *err);
/* Where the step's plan lies. */
luo_step_place luo_hydraulis_step_place(const luo_hydraulis_call *call,
                                        const luo_hydraulis_step *step);
/* The step's plan without its batch. Errors: LUO_ENOMEM. Owner: the arena of the command. */
luo_status luo_hydraulis_step_frame(luo_cli *cli, const luo_hydraulis_call *call,
                                    const luo_hydraulis_step *step, luo_plan **out, luo_err *err);
/* Fills step->moves. */
luo_status luo_hydraulis_step_moves(luo_cli *cli, luo_hydraulis_call *call,
                                    luo_hydraulis_step *step, luo_err *err);
void luo_hydraulis_text(luo_cli *cli, const luo_hydraulis_call *call);
void luo_hydraulis_json(luo_cli *cli, const luo_hydraulis_call *call);
/* Mean over the steps; NAN: one of them is not known. */
double luo_hydraulis_mean(const luo_hydraulis_call *call, luo_length_policy policy, bool simulated);
#endif
