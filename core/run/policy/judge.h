/* judge.h: what a step of a plan takes, told by the simulator: what planners and policies
 * rank plans by (docs/planners.md#which-plan-is-taken). Slowdowns are those that are believed;
 * links are healthy unless said otherwise. */
#ifndef LUO_CORE_RUN_POLICY_JUDGE_H
#define LUO_CORE_RUN_POLICY_JUDGE_H
#include "core/base/hash.h"
#include "core/graph/moe/load.h"
#include "core/plan/planners.h"
#include "core/run/backend.h"

enum {
    LUO_JUDGE_DEVICES = 256, /* most devices of a cluster whose plans are simulated unasked */
    LUO_JUDGE_BEST = 16,    /* so many of the uniform planner's best are simulated, .. */
    LUO_JUDGE_FAMILIES = 8  /* .. and the best of so many families: closed forms err alike in one */
};

typedef struct luo_judge {
    const luo_backend *simulator; /* with virtual time */
    const luo_model *model;
    const luo_cluster *cluster;
    const luo_stack *stack;
    luo_bucketing bucket;
    const luo_expert_load *load; /* as in luo_compile_opts */
    const luo_world *links;      /* how they are; of its devices nothing is taken. NULL: healthy */
    luo_comm_mode comm;
    bool one_comm_stream;            /* as in luo_backend_config */
    const volatile int *interrupted; /* as in luo_backend_config */
    void (*watch)(void *watcher); /* called before each simulated step; NULL: nobody looks */
    void *watcher;
    luo_step_part part;              /* which one of a step a plan does; not for luo_judge_step */
    luo_map known; /* steps by plan, tokens, slowdowns and links: bits of a double. {0} at first */
} luo_judge;

typedef struct luo_judgement { /* of a plan and one step of it */
    double seconds;      /* INFINITY: it cannot run */
    luo_parts mean;      /* where the time goes, mean over the devices */
    double imbalance_s;  /* of the bubble, mean: what the busiest device works longer than this */
    double memory_ratio; /* worst device of the compiled plan; 0: it was not compiled */
} luo_judgement;

/* One step of programs: out but for memory_ratio. rate: as below, all devices are up; NULL: the
 * cluster as its file has it. known, bucket and model are not used.
 * Errors: those of the simulator and of the step. Cost: one simulated step. */
luo_status luo_judge_simulate(luo_arena *scratch, const luo_judge *judge, const luo_programs *set,
                              luo_dtype dtype, const double *rate, luo_judgement *out,
                              luo_err *err);

/* Compiles a plan, weighs it and simulates a step. As luo_judge_step, but rate may be NULL, and
 * nothing is remembered. */
luo_status luo_judge_plan(const luo_judge *judge, const luo_plan *plan, int64_t sequence_tokens,
                          const double *rate, luo_judgement *out, luo_err *err);

/* Seconds of one step with sequences of that many tokens. rate: per device, slowdown, INFINITY when
 * not usable. *seconds: INFINITY where the plan cannot run: a device is not usable, it does not
 * compile or does not fit in memory; then *err says why, with LUO_OK.
 * Errors: LUO_EBACKEND, LUO_ECANCELED, LUO_ENOMEM. Owner: nothing is kept but known. Cost: a
 * compilation and one simulated step, the first time. */
luo_status luo_judge_step(luo_judge *judge, const luo_plan *plan, int64_t sequence_tokens,
                          const double *rate, double *seconds, luo_err *err);
void luo_judge_free(luo_judge *judge);

typedef struct luo_judged_plan {
    const luo_uniform_result *result;
    luo_judgement step;
} luo_judged_plan;
/* The uniform planner's answers that can run, by simulated step, of equal ones the first. Pre:
 * n >= 1. Errors: LUO_EINFEASIBLE none can run, with what stood
 * against the last; those of luo_judge_plan. Owner: arena. */
luo_status luo_judge_uniform(luo_arena *arena, const luo_judge *judge,
                             const luo_uniform_result *result, int32_t n, int64_t sequence_tokens,
                             const double *rate, luo_judged_plan **out, int32_t *nout,
                             luo_err *err);

/* A double in a luo_map. */
int64_t luo_judge_bits(double v);
double luo_judge_number(int64_t bits);
#endif
