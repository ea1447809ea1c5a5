/* offers.h: the plans that policies would take for a snapshot, each by its own rule, and
 * the choice among them by the simulated step (docs/planners.md#which-plan-is-taken). */
#ifndef LUO_CORE_RUN_POLICY_OFFERS_H
#define LUO_CORE_RUN_POLICY_OFFERS_H
#include "core/plan/malleus/malleus_job.h"
#include "core/run/policy/policy.h"

enum { LUO_OFFERS = 64 };

typedef struct luo_offer {
    const char *from; /* the policy; else "uniform" "base" "running" */
    const luo_plan *plan;
    double objective_s; /* closed form of the step (luo_plan_objective); where that does not know
                           the plan, event time: work alone, nothing is sent */
    double step_s;      /* what it is chosen by; < 0: not asked, INFINITY: it cannot run */
    double risk_s;      /* luo_snapshot_risk_s: it is chosen by both */
} luo_offer;

typedef struct luo_offers {
    luo_offer at[LUO_OFFERS];
    int32_t n;
} luo_offers;

/* Puts a plan behind those that are there, unless it is one of them or there is no room. */
void luo_offers_add(luo_offers *offers, const char *from, const luo_plan *plan, double objective_s);

/* Each adds what the policy would choose from, best first by its closed form. slow_too: nodes with
 * slow devices stay. Errors: LUO_EINFEASIBLE it has no plan; LUO_ENOMEM and those of the cost
 * model. Owner of plans: arena. */
luo_status luo_offers_restart(luo_arena *arena, const luo_snapshot *now, bool slow_too,
                              luo_offers *out, luo_err *err);
luo_status luo_offers_oobleck(luo_arena *arena, const luo_snapshot *now, bool slow_too,
                              luo_offers *out, luo_err *err);
luo_status luo_offers_rebalance(luo_arena *arena, const luo_snapshot *now, luo_offers *out,
                                luo_err *err);
/* The base plan, or the running one that has its shape, on spare nodes. */
luo_status luo_offers_spares(luo_arena *arena, const luo_snapshot *now, luo_offers *out,
                             luo_err *err);
/* The base plan without the replicas that have lost a device, the whole batch on the others;
 * slow_too: replicas with slow devices stay. */
luo_status luo_offers_drop_replica(luo_arena *arena, const luo_snapshot *now, bool slow_too,
                                   luo_offers *out, luo_err *err);
/* The base plan with the micro-batches of lost stages dealt to their peers. */
luo_status luo_offers_reroute(luo_arena *arena, const luo_snapshot *now, luo_offers *out,
                              luo_err *err);
/* The best of planner `uniform` on the devices that are left: 1F1B, layers equal or by speed, types
 * of devices alone or together, micro-batches of the base plan's size and, before a run, of any. */
luo_status luo_offers_uniform(luo_arena *arena, const luo_snapshot *now, luo_offers *out,
                              luo_err *err);
/* Where the straggler planner starts from: the base plan, if that is what it can
 * (luo_malleus_check), else the best 1F1B plan of planner `uniform` for the same batch on the same
 * devices; none fits: the base plan, and the planner has none of its own. */
luo_status luo_offers_start(luo_arena *arena, const luo_scenario *sc, const luo_plan *base,
                            const luo_plan **out, luo_err *err);
/* What policy `malleus` asks its planner with; rate and candidate of the snapshot. start: of
 * luo_offers_start. */
luo_malleus_job luo_offers_job(const luo_snapshot *now, const luo_plan *start);
/* All of these, the planner's own best for the pipelines of the plan it starts from, for one fewer
 * and one more, and for those of the other offers, the base plan and the running one. job: as for
 * luo_plan_malleus, which may refuse it: then there are the others. */
luo_status luo_offers_all(luo_arena *arena, const luo_snapshot *now, const luo_malleus_job *job,
                          luo_offers *out, luo_err *err);

/* What a policy takes that has plans of its own without slow nodes and with them: `own` says which.
 * Those, the plan of the scenario and the running one, where their devices are there and stay, the
 * fastest first (luo_offers_judge). */
typedef luo_status (*luo_offers_own)(luo_arena *arena, const luo_snapshot *now, bool slow_too,
                                     luo_offers *out, luo_err *err);
luo_status luo_offers_best(luo_arena *arena, const luo_snapshot *now, luo_offers_own own,
                           luo_offers *out, luo_err *err);

/* Simulates them (now->step_s), best objective first, as long as the objective leaves hope;
 * and sorts them, least step with its risk first, those not simulated last. Where now->step_s is
 * the closed form or NULL, the objective decides alone.
 * Errors: LUO_EINFEASIBLE none can run; those of luo_judge_step. */
luo_status luo_offers_judge(luo_offers *offers, const luo_snapshot *now, luo_err *err);
#endif
