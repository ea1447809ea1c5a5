/* Where the time of a run went (docs/results.md, `time`): parts of the steps that stay, steps
 * that were lost or redone, and blocking periods. They sum to the run's length.
 *
 * A step stays for good once a checkpoint behind it is valid. Until then it stands in `open`, or in
 * `fresh` while a checkpoint in front of it is still being written; going back empties both. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "core/base/vec.h"
#include "core/run/run.h"

static void add_parts(luo_parts *to, const luo_parts *p, double factor)
{
    to->compute_s += factor * p->compute_s;
    to->recompute_s += factor * p->recompute_s;
    to->tp_s += factor * p->tp_s;
    to->ep_s += factor * p->ep_s;
    to->cp_s += factor * p->cp_s;
    to->pp_s += factor * p->pp_s;
    to->dp_s += factor * p->dp_s;
    to->move_s += factor * p->move_s;
    to->io_s += factor * p->io_s;
    to->bubble_s += factor * p->bubble_s;
}

double luo_parts_sum(const luo_parts *p)
{
    return p->compute_s + p->recompute_s + p->tp_s + p->ep_s + p->cp_s + p->pp_s + p->dp_s +
           p->move_s + p->io_s + p->bubble_s;
}

static void add_share(luo_share *to, luo_share *from)
{
    add_parts(&to->parts, &from->parts, 1);
    to->seconds += from->seconds;
    to->flops += from->flops;
    to->peak += from->peak;
    to->steps += from->steps;
    to->tokens += from->tokens;
    *from = (luo_share){0};
}

luo_status luo_account_init(luo_run *r, luo_err *err)
{
    luo_account *a = &r->ledger.account;
    const int32_t n = r->job.scenario->cluster->ndevices;
    a->parts = LUO_NEW_N(r->arena, luo_parts, n);
    a->used_s = LUO_NEW_N(r->arena, double, n);
    a->compute_s = LUO_NEW_N(r->arena, double, n);
    a->predicted_s = LUO_NEW_N(r->arena, double, n);
    a->up_s = LUO_NEW_N(r->arena, double, n);
    a->up_since = LUO_NEW_N(r->arena, double, n);
    if (!a->parts || !a->used_s || !a->compute_s || !a->predicted_s || !a->up_s || !a->up_since)
        return luo_err_nomem(err);
    for (int32_t d = 0; d < n; d++)
        a->up_since[d] = luo_events_world(r->clock.events)->up[d] ? 0 : NAN;
    return LUO_OK;
}

void luo_account_changes(luo_run *r)
{
    luo_account *a = &r->ledger.account;
    int32_t n;
    const luo_change *c = luo_events_changes(r->clock.events, &n);
    for (int32_t i = 0; i < n; i++) {
        double *since = &a->up_since[c[i].target];
        if (c[i].kind == LUO_CHANGE_DOWN) {
            if (!isnan(*since)) a->up_s[c[i].target] += c[i].at_s - *since;
            *since = NAN;
        } else if (c[i].kind == LUO_CHANGE_UP && isnan(*since)) {
            *since = c[i].at_s;
        }
    }
}

luo_status luo_account_attempt(luo_run *r, int32_t *attempt, luo_err *err)
{
    const int32_t known = r->clock.step < r->ledger.done_before ? 1 : 0;
    return luo_tries_add(r->arena, &r->ledger.tries, r->clock.step, known, attempt)
               ? LUO_OK
               : luo_err_nomem(err);
}

/* The time of every step that stays, for the quantiles: counted, or 8 bytes a step. */
static luo_status keep_seconds(luo_run *r, double seconds, luo_err *err)
{
    luo_account *a = &r->ledger.account;
    luo_tally *t = r->ledger.ckpt.writing ? &a->fresh_s : &a->open_s;
    if (!r->job.real) return luo_tally_add(t, seconds) ? LUO_OK : luo_err_nomem(err);
    const int64_t k = r->clock.step - r->clock.first_step;
    if (!LUO_VEC_ROOM_IN(r->arena, a->step_s, k, a->cap_steps)) return luo_err_nomem(err);
    a->step_s[k] = seconds;
    return LUO_OK;
}

static void add_devices(luo_run *r, const luo_step_result *result, double seconds)
{
    luo_account *a = &r->ledger.account;
    const luo_used_plan *u = luo_run_plan(&r->plans);
    const double pace = luo_pace_of_step(r, result);
    for (int32_t i = 0; i < u->ndev; i++) {
        const int32_t d = u->dev[i];
        add_parts(&a->parts[d], &result->parts[i], 1);
        if (r->job.real) a->parts[d].bubble_s += seconds - (result->end_s - result->start_s);
        a->used_s[d] += seconds;
        if (result->predicted_s[i] <= 0) continue;
        a->compute_s[d] += luo_pace_ratio(r, result, i) / pace * result->predicted_s[i];
        a->predicted_s[d] += result->predicted_s[i];
    }
}

static void add_links(luo_run_ledger *ledger, const luo_step_result *result)
{
    for (int32_t i = 0; result->links && i < result->nlinks && i < ledger->nlinks; i++) {
        ledger->links[i].bytes_up += result->links[i].bytes_up;
        ledger->links[i].bytes_down += result->links[i].bytes_down;
        ledger->links[i].busy_up_s += result->links[i].busy_up_s;
        ledger->links[i].busy_down_s += result->links[i].busy_down_s;
    }
}

/* Backends list the groups of one program set in one order; another length starts a new list. */
static luo_status add_comm(luo_run *r, const luo_step_result *result, luo_err *err)
{
    luo_used_plan *u = luo_run_plan(&r->plans);
    if (!u->comm && result->ncomm > 0) {
        u->comm = LUO_NEW_N(r->arena, luo_comm_use, result->ncomm);
        if (!u->comm) return luo_err_nomem(err);
        u->ncomm = result->ncomm;
        for (int32_t i = 0; i < u->ncomm; i++) {
            u->comm[i] = result->comm[i];
            u->comm[i].calls = u->comm[i].bytes = 0;
            u->comm[i].busy_s = u->comm[i].exposed_s = 0;
        }
    }
    for (int32_t i = 0; i < result->ncomm && i < u->ncomm; i++) {
        const luo_comm_use *c = &result->comm[i];
        u->comm[i].calls += c->calls;
        u->comm[i].bytes += c->bytes;
        u->comm[i].busy_s += c->busy_s;
        u->comm[i].exposed_s += c->exposed_s;
    }
    return LUO_OK;
}

void luo_account_mean(const luo_run_plans *plans, const luo_step_result *result, double seconds,
                      luo_parts *out)
{
    const int32_t n = luo_run_plan(plans)->ndev;
    *out = (luo_parts){0};
    for (int32_t i = 0; i < n; i++) add_parts(out, &result->parts[i], 1.0 / n);
    /* The rounding of the mean, and of dates late in a long run: of the bubble, or where there is
     * none of what is largest. */
    out->bubble_s += seconds - luo_parts_sum(out);
    if (out->bubble_s >= 0) return;
    double *const part[] = {&out->compute_s, &out->recompute_s, &out->tp_s,
                            &out->ep_s,      &out->cp_s,        &out->pp_s,
                            &out->dp_s,      &out->move_s,      &out->io_s};
    double *largest = part[0];
    for (size_t i = 1; i < sizeof part / sizeof *part; i++)
        if (*part[i] > *largest) largest = part[i];
    *largest += out->bubble_s;
    out->bubble_s = 0;
}

luo_status luo_account_step(luo_run *r, const luo_step_result *result, double start_s,
                            double end_s, luo_err *err)
{
    luo_account *a = &r->ledger.account;
    luo_used_plan *u = luo_run_plan(&r->plans);
    luo_share *to = r->ledger.ckpt.writing ? &a->fresh : &a->open;
    /* with real time the way to the ranks belongs to the step: everybody waits, a bubble */
    const double seconds = end_s - start_s;
    const double own = r->job.real ? result->end_s - result->start_s : seconds;
    luo_parts mean;
    luo_account_mean(&r->plans, result, seconds, &mean);
    for (int32_t i = 0; i < u->ndev; i++)
        if (fabs(luo_parts_sum(&result->parts[i]) - own) > 1e-6 * own + 4 * DBL_EPSILON * end_s)
            return luo_err_set(err, LUO_EBUG, "the parts of device %d make %.9g s of a step of "
                               "%.9g s.", u->dev[i], luo_parts_sum(&result->parts[i]), own);
    add_parts(&to->parts, &mean, 1);
    to->seconds += seconds;
    to->flops += u->flops;
    to->peak += u->peak_flops * seconds;
    to->steps++;
    to->tokens += u->tokens;
    a->tokens += u->tokens;
    u->steps++;
    u->step_s = seconds;
    add_devices(r, result, seconds);
    add_links(&r->ledger, result);
    LUO_TRY(add_comm(r, result, err));
    return keep_seconds(r, seconds, err);
}

/* A checkpoint before the last one: of the steps that were safe, those after it go, in proportion,
 * as nobody has kept their parts apart. */
static void unsafe(luo_account *a, int64_t gone)
{
    luo_share part = a->safe;
    if (gone >= a->safe.steps) {
        add_share(&a->open, &a->safe);
        return;
    }
    const double f = (double)gone / (double)a->safe.steps;
    part.parts = (luo_parts){0};
    add_parts(&part.parts, &a->safe.parts, f);
    part.seconds *= f;
    part.flops *= f;
    part.peak *= f;
    part.steps = gone;
    part.tokens = part.tokens / a->safe.steps * gone;
    add_parts(&a->safe.parts, &part.parts, -1);
    a->safe.seconds -= part.seconds;
    a->safe.flops -= part.flops;
    a->safe.peak -= part.peak;
    a->safe.steps -= part.steps;
    a->safe.tokens -= part.tokens;
    add_share(&a->open, &part);
}

void luo_account_rollback(luo_run *r, int64_t step)
{
    luo_account *a = &r->ledger.account;
    if (step < r->ledger.tries.from) { /* even the checkpoint is gone */
        unsafe(a, r->ledger.tries.from - step);
        if (r->ledger.tries.to > r->ledger.done_before) r->ledger.done_before = r->ledger.tries.to;
        luo_tries_clear(&r->ledger.tries, step);
        luo_tally_free(&a->safe_s); /* without data: all, as there is one checkpoint at a time */
    }
    luo_tally_free(&a->open_s);
    luo_tally_free(&a->fresh_s);
    a->span[LUO_SPAN_STEP] += a->open.seconds + a->fresh.seconds;
    a->redone += a->open.steps + a->fresh.steps;
    a->open = a->fresh = (luo_share){0};
    r->clock.step = step;
}

/* What lies before the checkpoint that has just become valid stays; its tries are forgotten. */
luo_status luo_account_safe(luo_run_ledger *ledger, luo_err *err)
{
    luo_account *a = &ledger->account;
    const int64_t step = ledger->ckpt.valid_step;
    add_share(&a->safe, &a->open);
    a->open = a->fresh;
    a->fresh = (luo_share){0};
    if (!luo_tally_take(&a->safe_s, &a->open_s)) return luo_err_nomem(err);
    const luo_tally empty = a->open_s;
    a->open_s = a->fresh_s;
    a->fresh_s = empty;
    if (step > ledger->tries.from && step <= ledger->tries.to)
        luo_tries_forget(&ledger->tries, step);
    return LUO_OK;
}

void luo_account_free(luo_run_ledger *ledger)
{
    luo_tally_free(&ledger->account.safe_s);
    luo_tally_free(&ledger->account.open_s);
    luo_tally_free(&ledger->account.fresh_s);
}
