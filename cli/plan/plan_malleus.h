/* plan_malleus.h: one call of `luoshu plan malleus`, for its files. */
#ifndef LUO_CLI_PLAN_PLAN_MALLEUS_H
#define LUO_CLI_PLAN_PLAN_MALLEUS_H
#include "cli/plan/plan.h"
#include "cli/range.h"
#include "core/plan/malleus/malleus_job.h"
#include "core/run/policy/offers.h"

enum { LUO_CALL_WARNINGS = 80 };

typedef struct luo_malleus_call {
    luo_model *model;
    luo_cluster *cluster, healthy; /* healthy: nothing is down or slow in it */
    luo_stack stack;
    luo_plan *prev; /* NULL: not given */
    double *rate;
    bool *candidate;
    luo_malleus_params params;
    luo_malleus_job job;
    luo_malleus_answer answer;
    luo_judged judged;
    luo_offers offers;   /* fastest first; n 0: the search alone decided */
    bool closed_form;    /* of a step decided, nothing was simulated for the choice */
    luo_transition move; /* with prev */
    bool adopt, lost;    /* lost: state without a living owner */
    double planning_s, step_s; /* step_s < 0: not simulated */
    luo_time_range range;      /* of step_s, if that was simulated */
    uint64_t program;
    int64_t *peak; /* per device: bytes of the compiled plan, as `explain` has them */
    int nwarnings;
    const char *warning[LUO_CALL_WARNINGS];
} luo_malleus_call;

/* Warning or note: on stderr, and in the document. */
void luo_malleus_call_warn(luo_cli *cli, luo_malleus_call *call, luo_severity severity,
                           const char *fmt, ...) LUO_PRINTF(4, 5);
/* Base plan into call->job.base, micro-batches into call->job.micro_batches. */
luo_status luo_malleus_call_base(luo_cli *cli, luo_malleus_call *call, luo_err *err);
/* --rates over the cluster's health: call->rate, call->candidate. */
luo_status luo_malleus_call_rates(luo_cli *cli, luo_malleus_call *call, luo_err *err);
/* The plan by simulated step or by its closed form: call->offers, and call->answer is of the
 * fastest one. Nothing where a published objective ranks, or nothing was searched. */
luo_status luo_malleus_call_choose(luo_cli *cli, luo_malleus_call *call, luo_err *err);
void luo_malleus_call_text(luo_cli *cli, const luo_malleus_call *call);
luo_status luo_malleus_call_json(luo_cli *cli, const luo_malleus_call *call, luo_status st,
                                 luo_err *err);
#endif
