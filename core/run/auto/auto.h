/* auto.h: one question for all planners: the fastest plan of this model on this cluster
 * (docs/planners.md#auto). */
#ifndef LUO_CORE_RUN_AUTO_AUTO_H
#define LUO_CORE_RUN_AUTO_AUTO_H
#include "core/plan/planners.h"
#include "core/run/policy/judge.h"
#include "core/run/policy/policy.h"

typedef enum luo_auto_planner {
#define LUO_AUTO_CANDIDATE(name) LUO_AUTO_##name,
#include "core/run/auto/candidates.inc"
#undef LUO_AUTO_CANDIDATE
    LUO_AUTO_PLANNERS
} luo_auto_planner;
const char *luo_auto_planner_name(luo_auto_planner planner);

typedef struct luo_auto_in {
    luo_judge *judge;             /* with model, cluster and stack */
    luo_uniform_opts opts;        /* batch and sizes; what is given there is kept by all */
    const double *rate;           /* per device: slowdown, INFINITY when not usable */
    const bool *candidate;        /* per device: may hold layers */
    const luo_scenario *scenario; /* of malleus: costs of what it weighs .. */
    const luo_policy_spec *spec;  /* .. and its keys, as policy `malleus` has them */
    const luo_plan *pinned;       /* whose `pinned` parts are kept; NULL: nothing is */
    /* Called before each planner is asked, behind n others; watcher: the judge's. May be NULL. */
    void (*asks)(void *watcher, luo_auto_planner planner, int32_t n);
    bool for_policy; /* only plans that the policy of spec can work on */
    bool simulated; /* planners choose among their own by simulated steps, else by closed form */
} luo_auto_in;

typedef struct luo_auto_candidate {
    luo_auto_planner planner;
    const luo_plan *plan;   /* NULL: none, see why */
    luo_judgement step;     /* simulated at the speeds of `rate`; seconds INFINITY: none */
    int32_t tried;          /* plans that were priced or simulated for it */
    char why[LUO_ERR_TEXT]; /* it was not asked, or has no plan: ""  if it has one */
} luo_auto_candidate;

typedef struct luo_auto_answer {
    luo_auto_candidate at[LUO_AUTO_PLANNERS];
    int32_t best; /* fastest; equal ones (1e-9) by the order of candidates.inc */
} luo_auto_answer;

/* Every planner's best plan and the fastest of them on the simulator; so the answer is no slower
 * than any of theirs. `uniform`: as `luoshu plan uniform`. `search`: what uniform has found with
 * layers and recompute of the stages anew (luo_auto_recompute), and luo_auto_pipelines. `malleus`:
 * what policy `malleus` would take, `hap`: luo_hap_plan; both are asked if devices differ in type
 * or speed. A plan that does not keep what is pinned is dropped. Pre: opts has a batch and a length
 * of sequences. Errors: LUO_EINFEASIBLE no planner has a plan; LUO_EINPUT a size that is given does
 * not divide; LUO_ECANCELED, LUO_EBACKEND, LUO_ENOMEM. Owner of plans: arena. Cost: those of the
 * planners, and with `simulated` some forty simulated steps; else one per candidate. */
luo_status luo_auto_plan(luo_arena *arena, const luo_auto_in *in, luo_auto_answer *out,
                         luo_err *err);

/* The size of those that are asked for (not open to the search, as luo_uniform_opts says it) which
 * the plan does not have, such as "tp" or "recompute"; NULL: it has all of them. Layers by speed
 * cannot be told from a plan, nor can the order of devices. */
const char *luo_auto_size_broken(const luo_uniform_opts *asked, const luo_plan *plan);

/* Asks all plans for the sizes that are pinned, in *opts. The pin at which an option has asked for
 * another one, *unlike that option's name without `--`; NULL: there is none. */
const char *luo_auto_pin_sizes(const luo_plan *pinned, luo_uniform_opts *opts, const char **unlike);

/* *broken: the pinned pointer (JSON pointer into plan.json) at which the plan is not as `pinned`
 * is; NULL: it keeps all of them. Parts are compared as the canonical text has them, defaults
 * filled in; one that `pinned` does not have is at its default. Errors: LUO_ENOMEM. */
luo_status luo_auto_pin_broken(const luo_plan *pinned, const luo_plan *plan, const char **broken,
                               luo_err *err);
#endif
