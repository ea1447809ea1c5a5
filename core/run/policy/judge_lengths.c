/* Simulated steps decide among plans for uneven lengths. */
#include "core/run/policy/judge_lengths.h"

#include <math.h>
#include <string.h>

static const double FIRST_SHOWN = 0.5, LEAST_SHOWN = 0.02, FIRST_GUESS = 0.5;

static void guess(luo_lengths_learned *learned)
{
    for (int32_t p = 0; p < learned->n && learned->moved_ms; p++)
        if (!learned->known[p] && !learned->barred[p])
            learned->extra_ms[p] =
                learned->guess * learned->shown[learned->staged[p]] * learned->moved_ms[p];
}

static bool has_stages(const luo_pool *pool, const luo_replicas *plan)
{
    for (int32_t r = 0; r < plan->n; r++)
        if (pool->entry[plan->replica[r].entry].pp > 1) return true;
    return false;
}

luo_status luo_lengths_learn_open(luo_arena *arena, const luo_pool *pool,
                                  const luo_candidates *candidates, const double *moved_ms,
                                  luo_lengths_learned *out, luo_err *err)
{
    const int32_t n = candidates->n;
    *out = (luo_lengths_learned){.n = n,
                                 .extra_ms = LUO_NEW_N(arena, double, n),
                                 .moved_ms = moved_ms,
                                 .guess = FIRST_GUESS,
                                 .shown = {FIRST_SHOWN, FIRST_SHOWN},
                                 .staged = LUO_NEW_N(arena, bool, n),
                                 .known = LUO_NEW_N(arena, bool, n),
                                 .barred = LUO_NEW_N(arena, bool, n)};
    if (!out->extra_ms || !out->staged || !out->known || !out->barred) return luo_err_nomem(err);
    for (int32_t p = 0; p < n; p++) out->staged[p] = has_stages(pool, &candidates->plan[p]);
    guess(out);
    return LUO_OK;
}

luo_status luo_lengths_learn_more(luo_arena *arena, const luo_lengths_learned *from,
                                  const luo_pool *pool, const luo_candidates *candidates,
                                  const double *moved_ms, luo_lengths_learned *out, luo_err *err)
{
    LUO_TRY(luo_lengths_learn_open(arena, pool, candidates, moved_ms, out, err));
    memcpy(out->extra_ms, from->extra_ms, (size_t)from->n * sizeof *out->extra_ms);
    memcpy(out->known, from->known, (size_t)from->n * sizeof *out->known);
    memcpy(out->shown, from->shown, sizeof out->shown);
    out->guess = from->guess;
    guess(out);
    return LUO_OK;
}

void luo_lengths_forget(luo_lengths_learned *learned)
{
    for (int32_t p = 0; p < learned->n; p++) {
        learned->known[p] = false;
        if (!learned->barred[p]) learned->extra_ms[p] = 0;
    }
    guess(learned);
}

void luo_lengths_guess_all(luo_lengths_learned *learned)
{
    learned->guess = learned->shown[0] = learned->shown[1] = 1;
    guess(learned);
}

void luo_lengths_bar(luo_lengths_learned *learned, int32_t p)
{
    learned->barred[p] = true;
    learned->known[p] = false;
    learned->extra_ms[p] = INFINITY;
}

void luo_lengths_bar_none(luo_lengths_learned *learned)
{
    for (int32_t p = 0; p < learned->n; p++) {
        if (learned->barred[p]) learned->extra_ms[p] = 0;
        learned->barred[p] = false;
    }
    guess(learned);
}

void luo_lengths_learn(luo_lengths_learned *learned, int32_t plan, double ms, double seconds)
{
    const double extra = 1e3 * seconds - ms;
    const double moved = learned->moved_ms ? learned->moved_ms[plan] : 0;
    /* What does not fit with this batch may fit with the next one. */
    learned->known[plan] = isfinite(seconds);
    learned->extra_ms[plan] = isfinite(seconds) ? extra : 0;
    double *shown = &learned->shown[learned->staged[plan]];
    if (isfinite(seconds) && moved > 0) *shown = fmin(*shown, fmax(LEAST_SHOWN, extra / moved));
    guess(learned);
}

static luo_status simulate_plans(const luo_judge *judge, const luo_step_place *place,
                                 const double *rate, luo_judged_lengths *now, luo_err *err)
{
    luo_judgement judged;
    luo_err why = {0};
    const luo_status st =
        luo_judge_plan(judge, now->plans.part[0].plan, place->ctx, rate, &judged, &why);
    if (err && why.st != LUO_OK) *err = why;
    now->seconds = st == LUO_OK ? judged.seconds : INFINITY;
    return st;
}

typedef struct judging {
    luo_arena *arena;
    const luo_judge *judge;
    const luo_length_rivals *rivals;
    const luo_step_place *place;
    const int64_t *length;
    int32_t n;
    const double *rate;
    bool sure;
    luo_lengths_learned *learned;
    bool *tried; /* per candidate: simulated on this batch */
    luo_judged_lengths best;
} judging;

/* Simulates what *now has, learns of it and keeps it if it is the fastest. */
static luo_status try_plan(judging *j, luo_judged_lengths *now, luo_err *err)
{
    j->tried[now->plans.step.plan] = true;
    LUO_TRY(simulate_plans(j->judge, j->place, j->rate, now, err));
    luo_lengths_learn(j->learned, now->plans.step.plan, now->plans.ms, now->seconds);
    const int32_t simulated = j->best.simulated + 1;
    if (j->best.plans.n == 0 || now->seconds < j->best.seconds) j->best = *now;
    j->best.simulated = simulated;
    return LUO_OK;
}

int32_t luo_lengths_find_alike(const luo_length_rivals *rivals, int32_t entry)
{
    for (int32_t p = 0; p < rivals->candidates->n && entry >= 0; p++) {
        const luo_replicas *plan = &rivals->candidates->plan[p];
        int32_t r = 0;
        while (r < plan->n && plan->replica[r].entry == entry) r++;
        if (r == plan->n && r == rivals->devices / luo_pool_devices(&rivals->pool->entry[entry]))
            return p;
    }
    return -1;
}

/* One candidate, if it holds the batch and is not known well enough. */
static luo_status try_candidate(judging *j, int32_t p, luo_err *err)
{
    luo_step_opts opts = j->rivals->step;
    luo_judged_lengths now = {.seconds = NAN};
    luo_step_plan step;
    luo_err why = {0};
    opts.extra_ms = NULL;
    opts.current = -1;
    if (p < 0 || j->tried[p] || j->learned->barred[p] || (!j->sure && j->learned->known[p]))
        return LUO_OK;
    const luo_status st =
        luo_step_choose(j->arena, j->rivals->pool, &j->rivals->candidates->plan[p], 1, j->length,
                        j->n, &opts, &step, &why);
    if (st == LUO_EINFEASIBLE) return LUO_OK;
    if (st != LUO_OK) return luo_err_set(err, st, "%s", why.text);
    step.plan = p;
    LUO_TRY(
        luo_length_plan_of(j->arena, j->rivals, j->place, &step, j->length, j->n, &now.plans, err));
    return try_plan(j, &now, err);
}

/* How many candidates a batch may be simulated with. */
static int32_t most_of(const luo_lengths_learned *learned)
{
    int32_t known = 0;
    for (int32_t p = 0; p < learned->n; p++) known += learned->known[p];
    return known < LUO_JUDGE_LENGTHS ? 2 * LUO_JUDGE_LENGTHS : LUO_JUDGE_LENGTHS;
}

/* The best candidate by the pool and what was learned: of those that were known before, or of all
 * but those that turned out not to run this batch. extra: room for one per candidate. */
static luo_status propose(judging *j, int32_t current, bool of_known, double *extra,
                          luo_judged_lengths *out, luo_err *err)
{
    const luo_lengths_learned *learned = j->learned;
    luo_length_rivals with = *j->rivals;
    for (int32_t p = 0; p < learned->n; p++) {
        const bool left_out = !learned->known[p] && (of_known || j->tried[p]);
        extra[p] = left_out ? (double)INFINITY : learned->extra_ms[p];
    }
    with.step.extra_ms = extra;
    *out = (luo_judged_lengths){.seconds = NAN, .simulated = j->best.simulated};
    return luo_length_plan(j->arena, &with, j->place, LUO_LENGTH_POLICY_HYDRAULIS, current,
                           j->length, j->n, &out->plans, err);
}

/* The best of those that were known before this batch: simulated on it, or by what was learned. */
static luo_status try_known(judging *j, int32_t current, double *extra, luo_err *err)
{
    luo_judged_lengths now;
    luo_err why = {0};
    bool any = false;
    for (int32_t p = 0; p < j->learned->n; p++) any |= j->learned->known[p];
    if (!any) return LUO_OK;
    const luo_status st = propose(j, current, true, extra, &now, &why);
    if (st == LUO_EINFEASIBLE) return LUO_OK;
    if (st != LUO_OK) return luo_err_set(err, st, "%s", why.text);
    const int32_t p = now.plans.step.plan;
    if (!j->learned->known[p]) return LUO_OK; /* nothing else holds the batch */
    if (j->sure) return try_plan(j, &now, err);
    now.seconds = 1e-3 * (now.plans.ms + j->learned->extra_ms[p]);
    now.guessed = true;
    j->best = now;
    return LUO_OK;
}

/* Until the best one by the pool and what was learned is known. */
static luo_status search(judging *j, int32_t current, double *extra, luo_err *err)
{
    const int32_t most = most_of(j->learned);
    for (int32_t k = 0; k < most; k++) {
        luo_judged_lengths now;
        LUO_TRY(propose(j, current, false, extra, &now, err));
        const int32_t p = now.plans.step.plan;
        if (j->tried[p]) return LUO_OK;
        if (!j->sure && j->learned->known[p]) {
            j->best = now;
            return LUO_OK;
        }
        LUO_TRY(try_plan(j, &now, err));
    }
    return LUO_OK;
}

/* The best one with fuller micro-batches: what a product costs goes up in steps, which no pool
 * knows. Nothing is learned of it. */
static luo_status try_full(judging *j, luo_err *err)
{
    luo_judged_lengths now = {.seconds = NAN};
    luo_step_plan step;
    if (j->best.plans.n != 1 || j->best.plans.step.plan < 0) return LUO_OK;
    LUO_TRY(luo_length_pack_full(j->arena, j->rivals, j->length, j->n, &j->best.plans.step, &step,
                                 err));
    LUO_TRY(
        luo_length_plan_of(j->arena, j->rivals, j->place, &step, j->length, j->n, &now.plans, err));
    LUO_TRY(simulate_plans(j->judge, j->place, j->rate, &now, err));
    now.simulated = j->best.simulated + 1;
    if (now.seconds < j->best.seconds)
        j->best = now;
    else
        j->best.simulated++;
    return LUO_OK;
}

luo_status luo_judge_lengths(luo_arena *arena, const luo_judge *judge,
                             const luo_length_rivals *rivals, const luo_step_place *place,
                             int32_t current, const int64_t *length, int32_t n, bool sure,
                             const double *rate, luo_lengths_learned *learned,
                             luo_judged_lengths *out, luo_err *err)
{
    judging j = {.arena = arena,
                 .judge = judge,
                 .rivals = rivals,
                 .place = place,
                 .length = length,
                 .n = n,
                 .rate = rate,
                 .sure = sure,
                 .learned = learned,
                 .tried = LUO_NEW_N(arena, bool, learned->n),
                 .best = {.seconds = INFINITY}};
    double *extra = LUO_NEW_N(arena, double, learned->n);
    if (!j.tried || !extra) return luo_err_nomem(err);
    LUO_TRY(try_known(&j, current, extra, err));
    LUO_TRY(try_candidate(&j, luo_lengths_find_alike(rivals, rivals->uniform), err));
    LUO_TRY(try_candidate(&j, rivals->plan, err));
    LUO_TRY(search(&j, current, extra, err));
    if (sure) LUO_TRY(try_full(&j, err));
    *out = j.best;
    if (j.best.guessed) out->seconds = NAN;
    return LUO_OK;
}
