/* judge_lengths.h: the plan of a step of uneven lengths, chosen by the simulated step
 * (docs/planners.md#hydraulis). */
#ifndef LUO_CORE_RUN_POLICY_JUDGE_LENGTHS_H
#define LUO_CORE_RUN_POLICY_JUDGE_LENGTHS_H
#include "core/plan/length_policies/length_plan.h"
#include "core/run/policy/judge.h"

/* What the pool does not know, such as what moves between the optimizer's layout and a plan: the
 * milliseconds that a step of each candidate took longer than by the pool (below 0: less), as far
 * as one was simulated or run. */
typedef struct luo_lengths_learned {
    int32_t n;              /* candidates */
    double *extra_ms;       /* what is not known: a guess, `guess` of `shown` of what moves */
    const double *moved_ms; /* per candidate: luo_propagation.exposed_ms; NULL: guesses are 0 */
    double guess;           /* half */
    /* Least share of that which a step was seen to take longer: of candidates whose replicas have
     * one stage, and of those that have several, since what moves to several stages moves to one
     * after the other. */
    double shown[2];
    bool *staged; /* per candidate: a replica has several stages */
    bool *known, *barred; /* barred: does not fit the batch at hand */
} luo_lengths_learned;
/* Nothing is known of the candidates but what moves. Errors: LUO_ENOMEM. Owner: arena; moved_ms
 * lives as long. */
luo_status luo_lengths_learn_open(luo_arena *arena, const luo_pool *pool,
                                  const luo_candidates *candidates, const double *moved_ms,
                                  luo_lengths_learned *out, luo_err *err);
/* The same with what is known of the first candidates, those of `from`. */
luo_status luo_lengths_learn_more(luo_arena *arena, const luo_lengths_learned *from,
                                  const luo_pool *pool, const luo_candidates *candidates,
                                  const double *moved_ms, luo_lengths_learned *out, luo_err *err);
/* The candidate of equal replicas of an entry of the pool, on all devices; -1: there is none. */
int32_t luo_lengths_find_alike(const luo_length_rivals *rivals, int32_t entry);
/* The speeds of devices have changed: what is known was seen with others, and is a guess again. */
void luo_lengths_forget(luo_lengths_learned *learned);
/* Nothing will be simulated or run: all of what moves counts. */
void luo_lengths_guess_all(luo_lengths_learned *learned);
/* Candidate p is out of the question until all are asked again. */
void luo_lengths_bar(luo_lengths_learned *learned, int32_t p);
void luo_lengths_bar_none(luo_lengths_learned *learned);
/* A step that by the pool takes ms has taken so many seconds; INFINITY: it cannot run. */
void luo_lengths_learn(luo_lengths_learned *learned, int32_t plan, double ms, double seconds);

typedef struct luo_judged_lengths {
    luo_length_plans plans;
    double seconds;    /* simulated; INFINITY: none of those that were simulated can run, and *err
                          says why; NAN: the answer was not simulated */
    int32_t simulated; /* plans */
    bool guessed;      /* seconds were, by what was learned, while others were tried */
} luo_judged_lengths;

/* The plan of a batch: the best candidate by pool and `learned`, where what is not known counts as
 * the guess, so that nothing is left out that may be better. One of which nothing is known is
 * simulated on this batch and learned, until the best one is known, at most LUO_JUDGE_LENGTHS
 * times, twice as often while few are known; then the fastest of those and of the best one of
 * which something was known before. The plans of uniform_best and one_plan, where they are
 * candidates, are simulated before, whatever the pool says of them: a pool that is wrong about them
 * leaves us no slower than they are. sure: the answer has to have been simulated on this batch, and
 * those two have been as well, and the best one also with fuller micro-batches.
 * In/out: *learned. rate: as luo_judge_plan. current: plan of the step before; -1: none.
 * Errors: those of luo_length_plan and luo_judge_plan. Owner: arena. */
enum { LUO_JUDGE_LENGTHS = 8 };
luo_status luo_judge_lengths(luo_arena *arena, const luo_judge *judge,
                             const luo_length_rivals *rivals, const luo_step_place *place,
                             int32_t current, const int64_t *length, int32_t n, bool sure,
                             const double *rate, luo_lengths_learned *learned,
                             luo_judged_lengths *out, luo_err *err);
#endif
