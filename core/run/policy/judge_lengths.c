/* Simulated steps decide among plans for uneven lengths. */
#include "core/run/policy/judge_lengths.h"

#include <math.h>
#include <string.h>

luo_status luo_lengths_learn_open(luo_arena *arena, int32_t n, const double *guess_ms,
                                  luo_lengths_learned *out, luo_err *err)
{
    *out =
        (luo_lengths_learned){n, LUO_NEW_N(arena, double, n), guess_ms, LUO_NEW_N(arena, bool, n)};
    if (!out->extra_ms || !out->known) return luo_err_nomem(err);
    if (guess_ms) memcpy(out->extra_ms, guess_ms, (size_t)n * sizeof *guess_ms);
    return LUO_OK;
}

void luo_lengths_learn(luo_lengths_learned *learned, int32_t plan, double ms, double seconds)
{
    /* What does not fit with this batch may fit with the next one. */
    learned->known[plan] = isfinite(seconds);
    learned->extra_ms[plan] = isfinite(seconds)   ? fmax(0, 1e3 * seconds - ms)
                              : learned->guess_ms ? learned->guess_ms[plan]
                                                  : 0;
}

static luo_status simulate(const luo_judge *judge, const luo_step_place *place, const double *rate,
                           luo_judged_lengths *now, luo_err *err)
{
    luo_judgement judged;
    luo_err why = {0};
    const luo_status st =
        luo_judge_plan(judge, now->plans.part[0].plan, place->ctx, rate, &judged, &why);
    if (err && why.st != LUO_OK) *err = why;
    now->seconds = st == LUO_OK ? judged.seconds : INFINITY;
    return st;
}

luo_status luo_judge_lengths(luo_arena *arena, const luo_judge *judge,
                             const luo_length_rivals *rivals, const luo_step_place *place,
                             int32_t current, const int64_t *length, int32_t n, bool sure,
                             const double *rate, luo_lengths_learned *learned,
                             luo_judged_lengths *out, luo_err *err)
{
    luo_judged_lengths best = {.seconds = INFINITY};
    bool *tried = LUO_NEW_N(arena, bool, learned->n);
    double *extra = LUO_NEW_N(arena, double, learned->n);
    luo_length_rivals with = *rivals;
    if (!tried || !extra) return luo_err_nomem(err);
    memcpy(extra, learned->extra_ms, (size_t)learned->n * sizeof *extra);
    with.step.extra_ms = extra;
    for (int32_t k = 0; k < LUO_JUDGE_LENGTHS; k++) {
        luo_judged_lengths now = {.seconds = NAN, .simulated = k};
        LUO_TRY(luo_length_plan(arena, &with, place, LUO_LENGTH_POLICY_HYDRAULIS, current, length,
                                n, &now.plans, err));
        const int32_t p = now.plans.step.plan;
        if (tried[p]) break;
        if (!sure && learned->known[p]) {
            *out = now;
            return LUO_OK;
        }
        tried[p] = true;
        now.simulated++;
        LUO_TRY(simulate(judge, place, rate, &now, err));
        luo_lengths_learn(learned, p, now.plans.ms, now.seconds);
        extra[p] = learned->known[p] ? learned->extra_ms[p] : (double)INFINITY;
        if (k == 0 || now.seconds < best.seconds) best = now;
        best.simulated = now.simulated;
    }
    *out = best;
    return LUO_OK;
}
