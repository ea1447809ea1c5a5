/* One attempt of a step: what will change during it is looked up, the backend runs it, and the
 * result becomes rows, totals and samples. */
#include <math.h>
#include <string.h>

#include "core/run/run.h"

/* The look-ahead reaches this many times the expected step, times what the changes found in it
 * can slow it down by. */
static const double SKEW_S = 0.1; /* between clocks of one run's machines */
enum { AHEAD = 4, UNKNOWN_STEP_S = 3600, AHEAD_ROUNDS = 8, FAILURES_IN_A_ROW = 1000 };

/* How much longer a step can take at most under these changes, compared with now. */
static double worst_factor(const luo_run *r, const luo_change *c, int32_t n)
{
    const luo_world *w = luo_events_world(r->events);
    double worst = 1;
    for (int32_t i = 0; i < n; i++) {
        if (c[i].kind == LUO_CHANGE_SLOWDOWN)
            worst = fmax(worst, c[i].value / w->slowdown[c[i].target]);
        if (c[i].kind == LUO_CHANGE_LINK && c[i].value > 0)
            worst = fmax(worst, w->link_factor[c[i].target] / c[i].value);
    }
    return worst;
}

luo_status luo_run_look_ahead(luo_run *r, const luo_change **out, int32_t *n, luo_err *err)
{
    const double last = luo_run_plan(r)->step_s;
    const double span = AHEAD * (last > 0 ? last : UNKNOWN_STEP_S);
    double reach = span;
    const luo_change *c;
    for (int round = 0;; round++) {
        const double until_s = r->t_s + reach;
        r->ahead_s = until_s;
        LUO_TRY(luo_events_peek(r->events, &r->ahead_s, &c, n, err));
        const double need = span * worst_factor(r, c, *n);
        if (need <= reach || r->ahead_s < until_s || round == AHEAD_ROUNDS) break;
        reach = 2 * need;
    }
    *out = c;
    if (*n == 0 || (r->t0 == 0 && !r->real)) return LUO_OK;
    const bool *member = luo_run_plan(r)->member;
    luo_change *shifted = LUO_NEW_N(r->scratch, luo_change, *n);
    if (!shifted) return luo_err_nomem(err);
    for (int32_t i = 0; i < *n; i++) {
        shifted[i] = c[i];
        shifted[i].at_s += r->t0;
        /* who does not take part fails silently: his process would take the others with it */
        shifted[i].hard = c[i].kind == LUO_CHANGE_DOWN && c[i].hard && member[c[i].target];
    }
    *out = shifted;
    return LUO_OK;
}

/* --trace-steps auto: the first 2 steps, and from 1 before to 2 after each event. */
static bool wants_trace(const luo_run *r)
{
    const luo_trace_steps *t = &r->opts->trace;
    if (!r->sink->ops) return false;
    switch (t->kind) {
    case LUO_TRACE_NONE: return false;
    case LUO_TRACE_ALL: return true;
    case LUO_TRACE_LIST:
        for (int32_t i = 0; i < t->nranges; i++)
            if (r->step >= t->ranges[i].lo && r->step < t->ranges[i].hi) return true;
        return false;
    case LUO_TRACE_AUTO: break;
    }
    const double step_s = luo_run_plan(r)->step_s;
    return r->step < 2 || (r->last_event_step >= 0 && r->step <= r->last_event_step + 2) ||
           (step_s > 0 && luo_events_next(r->events) <= r->t_s + 2 * step_s);
}

/* Device whose compute was slowest against what was predicted; ties, up to rounding, go to the
 * smaller id. */
static void find_slowest(const luo_run *r, const luo_step_result *s, luo_row_step *row)
{
    const luo_used_plan *u = luo_run_plan(r);
    const double pace = luo_pace_of_step(r, s);
    row->slowest_device = u->ndev > 0 ? u->dev[0] : -1;
    row->max_slowdown = 1;
    for (int32_t i = 0; i < u->ndev; i++) {
        const double q = luo_pace_ratio(r, s, i) / pace;
        if (q <= row->max_slowdown * (1 + 1e-9)) continue;
        row->max_slowdown = q;
        row->slowest_device = u->dev[i];
    }
}

static int32_t count_up(const luo_run *r)
{
    const luo_world *w = luo_events_world(r->events);
    int32_t n = 0;
    for (int32_t d = 0; d < w->ndevices; d++) n += w->up[d];
    return n;
}

static luo_status step_row(luo_run *r, const luo_step_result *s, int32_t attempt, double start_s,
                           luo_err *err)
{
    if (!r->sink->step) return LUO_OK;
    const luo_used_plan *u = luo_run_plan(r);
    const double seconds = r->t_s - start_s;
    luo_row_step row = {.step = r->step, .sequences = u->sequences, .tokens = u->tokens,
                        .attempt = attempt, .plan = r->plan, .devices_used = u->ndev,
                        .devices_up = count_up(r), .start_s = start_s, .end_s = r->t_s,
                        .tokens_per_s = seconds > 0 ? (double)u->tokens / seconds : 0,
                        .has_loss = s->has_loss, .loss = s->loss, .grad_norm = s->grad_norm};
    find_slowest(r, s, &row);
    luo_account_mean(r, s, seconds, &row.parts);
    return r->sink->step(r->sink->ctx, &row, err);
}

static luo_status keep(luo_run *r, const luo_step_result *s, int32_t attempt, double start_s,
                       luo_err *err)
{
    const luo_used_plan *u = luo_run_plan(r);
    LUO_TRY(luo_run_timeline(r, LUO_SPAN_STEP, start_s, r->t_s, true, attempt > 0, 0, err));
    LUO_TRY(luo_account_step(r, s, start_s, r->t_s, err));
    LUO_TRY(step_row(r, s, attempt, start_s, err));
    if (r->sink->ops && s->nrecords > 0)
        LUO_TRY(r->sink->ops(r->sink->ctx, r->step, attempt, s->start_s - r->t0, r->plan, u->set, s,
                             err));
    LUO_TRY(luo_run_measured(r, luo_run_plan(r), s, err));
    memset(r->predicted, 0, (size_t)r->sc->cluster->ndevices * sizeof *r->predicted);
    for (int32_t i = 0; i < u->ndev; i++) r->predicted[u->dev[i]] = s->predicted_s[i];
    r->has_predicted = true;
    LUO_TRY(luo_sample_step(r, s, err));
    r->failures = 0;
    r->step++;
    return LUO_OK;
}

/* The attempt failed: its time is lost, and what failed becomes known only after a while. */
static luo_status lose(luo_run *r, const luo_step_result *s, int32_t attempt, double start_s,
                       luo_err *err)
{
    if (r->t_s > start_s)
        LUO_TRY(luo_run_timeline(r, LUO_SPAN_STEP, start_s, r->t_s, true, true, 0, err));
    r->account.span[LUO_SPAN_STEP] += r->t_s - start_s;
    r->account.redone++;
    if (r->sink->ops && s->nrecords > 0)
        LUO_TRY(r->sink->ops(r->sink->ctx, r->step, attempt, s->start_s - r->t0, r->plan,
                             luo_run_plan(r)->set, s, err));
    if (s->status != LUO_EPEER) {
        if (r->real) r->state = LUO_FAILED;
        return luo_err_set(err, s->status, "%s", s->text);
    }
    if (++r->failures > FAILURES_IN_A_ROW)
        return luo_err_set(err, LUO_EBACKEND, "step %lld failed %d times in a row (%s); a policy "
                           "or events that let it end are needed.", (long long)r->step,
                           FAILURES_IN_A_ROW, s->text);
    r->news |= LUO_NEWS_FAIL;
    r->failed_since_s = start_s;
    if (r->unplanned && r->deaths > r->opts->max_restarts)
        return luo_real_give_up(r, "no more restarts are allowed", err);
    return LUO_OK;
}

luo_status luo_run_warn_ahead(luo_run *r, luo_err *err)
{
    if (r->t_s <= r->ahead_s) return LUO_OK;
    double until_s = r->t_s;
    const luo_change *c;
    int32_t n = 0, late = 0;
    LUO_TRY(luo_events_peek(r->events, &until_s, &c, &n, err));
    for (int32_t i = 0; i < n; i++) late += c[i].at_s > r->ahead_s;
    if (late == 0 && until_s == r->t_s) return LUO_OK;
    return luo_run_warn(r, err, "step %lld lasted beyond what was looked ahead; %d or more changes "
                        "of devices and links act from its end on", (long long)r->step, late);
}

double luo_run_end_of(const luo_run *r, const luo_step_request *q, const luo_step_result *s)
{
    const int32_t d = s->failed_device;
    const bool fell = s->status == LUO_EPEER && d >= 0 && q->world->up[d];
    for (int32_t i = 0; fell && i < q->nchanges && q->changes[i].at_s <= s->end_s + SKEW_S; i++)
        if (q->changes[i].kind == LUO_CHANGE_DOWN && q->changes[i].target == d)
            return fmax(s->end_s, q->changes[i].at_s) - r->t0;
    return s->end_s - r->t0;
}

static luo_status bound_step(luo_run *r, luo_err *err)
{
    luo_step_result s = {0};
    int32_t attempt;
    const double start_s = r->t_s;
    LUO_TRY(luo_account_attempt(r, &attempt, err));
    LUO_TRY(luo_bound_step(r, &s, err));
    if (r->state == LUO_RUNNING) return keep(r, &s, attempt, start_s, err);
    r->account.span[LUO_SPAN_STEP] += r->t_s - start_s;
    if (r->t_s == start_s) return LUO_OK;
    return luo_run_timeline(r, LUO_SPAN_STEP, start_s, r->t_s, true, true, 0, err);
}

luo_status luo_run_step(luo_run *r, luo_err *err)
{
    if (r->policy->bound) return bound_step(r, err);
    const luo_recipe recipe = luo_run_recipe(luo_run_plan(r));
    luo_step_request q = {.programs = luo_run_plan(r)->set, .recipe = &recipe,
                          .world = luo_events_world(r->events), .step = r->step,
                          .trace = wants_trace(r)};
    luo_step_result s = {0};
    const double start_s = r->t_s;
    LUO_TRY(luo_run_look_ahead(r, &q.changes, &q.nchanges, err));
    LUO_TRY(luo_real_strike(r, &q, err));
    LUO_TRY(luo_account_attempt(r, &q.attempt, err));
    LUO_TRY(r->backend->run_ranks(r->b, &q, &s, err));
    r->t_s = luo_run_end_of(r, &q, &s);
    luo_arena_reset(r->scratch, 0);
    if (s.note) LUO_TRY(luo_run_warn(r, err, "%s", s.note));
    LUO_TRY(luo_run_warn_ahead(r, err));
    LUO_TRY(luo_run_advance(r, r->t_s, err));
    if (s.status == LUO_EPEER && s.died) LUO_TRY(luo_real_died(r, &s, err));
    return s.status == LUO_OK ? keep(r, &s, q.attempt, start_s, err)
                              : lose(r, &s, q.attempt, start_s, err);
}
