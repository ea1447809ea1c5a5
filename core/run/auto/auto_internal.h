/* auto_internal.h: what the files of auto share. Not for others. */
#ifndef LUO_CORE_RUN_AUTO_AUTO_INTERNAL_H
#define LUO_CORE_RUN_AUTO_AUTO_INTERNAL_H
#include "core/run/auto/auto.h"

typedef struct auto_asking {
    luo_arena *arena;
    const luo_auto_in *in;
    const int32_t *devices; /* usable */
    int32_t ndevices;
    bool mixed, slow;                  /* are they of several types; is one of them slow? */
    const luo_uniform_result *uniform; /* found by auto_ask_uniform */
    int32_t nuniform;
    /* Its best that every policy can work on: for the cluster as if nothing were slow or lost,
     * which is the shape of a run that was under way, and for what is usable. */
    const luo_plan *base[2];
    int32_t nbase;
    double best_s; /* the fastest simulated step of those that were asked before; INFINITY: none */
} auto_asking;

/* *out: plan, step and tried, or why. Errors: those after which nobody else is asked. */
#define LUO_AUTO_CANDIDATE(name)                                                                   \
    luo_status auto_ask_##name(auto_asking *asking, luo_auto_candidate *out, luo_err *err);
#include "core/run/auto/candidates.inc"
#undef LUO_AUTO_CANDIDATE

/* A plan whose closed form is so many times the best step that was simulated cannot win, and is not
 * simulated: of many devices that takes seconds.
 * CLOSED: the closed form of pipelines (luo_plan_objective), which stands at most 1.05 times above
 * the simulated step (tests/diff/diff_offers.c), or leaves something out.
 * ADDED: J of planner `hap`. It adds up what overlaps, at most twice the step, and prices small
 * pieces as if all were as small: 2.5 times the simulated step is the most that was seen. */
#define AUTO_HOPELESS_CLOSED 1.1
#define AUTO_HOPELESS_ADDED 4
/* May a plan of that closed form still win? Else *out, if it has no plan, says so. */
bool auto_has_hope(const auto_asking *asking, double closed_s, double hopeless,
                   luo_auto_candidate *out);
/* Simulates the plan, with what is pinned of it, and keeps it if it is faster than what *out has.
 */
luo_status auto_try(const auto_asking *asking, const luo_plan *plan, luo_auto_candidate *out,
                    luo_err *err);
/* pins.c: what is pinned and can be had of every plan, since no layout hangs on it: buckets and
 * lanes of calls, how ZeRO-3 shards, when the optimizer steps, how rows of experts travel. */
void auto_take_pins(const luo_plan *pinned, luo_plan *plan);
/* auto_experts.c: plans of a model with experts, which groups of devices share; the best of them
 * and of what *out has. */
luo_status auto_try_experts(const auto_asking *asking, luo_auto_candidate *out, luo_err *err);
/* auto_uniform.c: uniform plans of the model on the usable devices, as `opts` says otherwise; none
 * is no error, *n = 0. Errors: LUO_ENOMEM. */
luo_status auto_list_uniform(const auto_asking *asking, const luo_model *model,
                             luo_uniform_opts opts, luo_uniform_result **out, int32_t *n,
                             luo_err *err);
/* Nobody has this much time: what ends all of it, or LUO_OK with the sentence in out->why. */
luo_status auto_refuse(luo_status st, const luo_err *why, luo_auto_candidate *out, luo_err *err);
#endif
