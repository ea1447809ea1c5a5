/* The rows of the end: truth, devices, links, communication, and the summary. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/run/run.h"

static luo_status truth_rows(luo_run *r, luo_err *err)
{
    int32_t n;
    const luo_occurrence *o = luo_events_occurrences(r->clock.events, &n);
    for (int32_t i = 0; r->job.sink->truth && r->job.scenario->truth && i < n; i++) {
        const luo_row_truth row = {.id = o[i].id,
                                   .kind = luo_event_kind_name(o[i].kind),
                                   .target = o[i].target,
                                   .value = o[i].value,
                                   .start_s = o[i].start_s,
                                   .end_s = o[i].end_s,
                                   .detected_s = o[i].detected_s,
                                   .first_step = o[i].first_step,
                                   .last_step =
                                       o[i].last_step < 0 ? r->clock.step : o[i].last_step};
        LUO_TRY(r->job.sink->truth(r->job.sink->ctx, &row, err));
    }
    return LUO_OK;
}

static luo_status never_rows(luo_run *r, luo_run_summary *s, luo_err *err)
{
    LUO_TRY(luo_events_never(r->clock.events, r->arena, &s->never, &s->nnever, err));
    for (int32_t i = 0; i < s->nnever; i++)
        LUO_TRY(luo_run_event(r, "never", s->never[i], "", "", false, 0, "", err));
    return LUO_OK;
}

static luo_status device_rows(luo_run *r, luo_err *err)
{
    const luo_account *a = &r->ledger.account;
    double *caused = r->job.sink->device
                         ? LUO_NEW_N(r->arena, double, r->job.scenario->cluster->ndevices)
                         : NULL;
    if (!r->job.sink->device) return LUO_OK;
    if (!caused) return luo_err_nomem(err);
    LUO_TRY(luo_run_caused(r, caused, err));
    for (int32_t d = 0; d < r->job.scenario->cluster->ndevices; d++) {
        luo_row_device row = {.device = d,
                              .parts = a->parts[d],
                              .used_s = a->used_s[d],
                              .caused_slowdown = caused[d],
                              .mean_slowdown = 1,
                              .up_s = a->up_s[d] +
                                      (isnan(a->up_since[d]) ? 0 : r->clock.t_s - a->up_since[d])};
        if (a->predicted_s[d] > 0) row.mean_slowdown = a->compute_s[d] / a->predicted_s[d];
        LUO_TRY(r->job.sink->device(r->job.sink->ctx, &row, err));
    }
    return LUO_OK;
}

static luo_status traffic_rows(luo_run *r, luo_err *err)
{
    if (r->job.sink->links)
        LUO_TRY(r->job.sink->links(r->job.sink->ctx, r->ledger.links, r->ledger.nlinks,
                                   r->clock.t_s, err));
    for (int32_t i = 0; r->job.sink->comm && i < r->plans.n; i++) {
        luo_used_plan *u = r->plans.list[i];
        const bool kept = u->set != NULL;
        if (u->ncomm == 0) continue;
        LUO_TRY(luo_run_recompile(r, u, err));
        LUO_TRY(r->job.sink->comm(r->job.sink->ctx, i, u->set, u->comm, u->ncomm, err));
        if (!kept) luo_run_give_back(u);
    }
    return LUO_OK;
}

static luo_status step_figures(luo_run *r, luo_run_summary *s, luo_err *err)
{
    luo_account *a = &r->ledger.account;
    luo_tally *t = &a->safe_s;
    const int64_t n = r->clock.step - r->clock.first_step;
    bool good = luo_tally_take(t, &a->open_s) && luo_tally_take(t, &a->fresh_s);
    for (int64_t i = 0; r->job.real && good && i < n; i++) good = luo_tally_add(t, a->step_s[i]);
    if (!good) return luo_err_nomem(err);
    if (t->count == 0) return LUO_OK;
    s->step_mean_s = t->sum / (double)t->count;
    s->step_p50_s = luo_tally_quantile(t, 0.5);
    s->step_p90_s = luo_tally_quantile(t, 0.9);
    s->step_p99_s = luo_tally_quantile(t, 0.99);
    s->step_max_s = t->largest;
    return LUO_OK;
}

static void add_kept(luo_run_summary *s, const luo_share *x, double *flops, double *peak)
{
    const luo_parts *p = &x->parts;
    s->steps_done += x->steps;
    s->kept_tokens += x->tokens;
    s->time.compute_s += p->compute_s;
    s->time.recompute_s += p->recompute_s;
    s->time.tp_s += p->tp_s;
    s->time.ep_s += p->ep_s;
    s->time.cp_s += p->cp_s;
    s->time.pp_s += p->pp_s;
    s->time.dp_s += p->dp_s;
    s->time.move_s += p->move_s;
    s->time.io_s += p->io_s;
    s->time.bubble_s += p->bubble_s;
    *flops += x->flops;
    *peak += x->peak;
}

/* A run that ends early must not look better for the time it left out. */
static double extent(const luo_run *r)
{
    if (r->job.scenario->duration_s > 0) return fmax(r->job.scenario->duration_s, r->clock.t_s);
    return r->clock.state == LUO_COMPLETE ? r->clock.t_s : NAN;
}

static void time_figures(luo_run *r, luo_run_summary *s)
{
    const luo_account *a = &r->ledger.account;
    double flops = 0, peak = 0;
    add_kept(s, &a->safe, &flops, &peak);
    add_kept(s, &a->open, &flops, &peak);
    add_kept(s, &a->fresh, &flops, &peak);
    s->steps_redone = a->redone;
    s->tokens = a->tokens;
    s->total_s = r->clock.t_s;
    s->redone_s = a->span[LUO_SPAN_STEP];
    s->detect_s = a->span[LUO_SPAN_DETECT];
    s->plan_s = a->span[LUO_SPAN_PLAN];
    s->specialize_s = a->span[LUO_SPAN_SPECIALIZE];
    s->switch_s = a->span[LUO_SPAN_SWITCH];
    s->checkpoint_s = a->span[LUO_SPAN_CHECKPOINT];
    s->restart_s = a->span[LUO_SPAN_RESTART];
    s->wait_s = a->span[LUO_SPAN_WAIT];
    s->mfu_ratio = peak > 0 ? flops / peak : 0;
    s->tokens_per_s = s->total_s > 0 ? (double)s->tokens / s->total_s : 0;
    s->extent_s = extent(r);
    s->goodput_tokens_per_s = s->extent_s == 0 ? 0 : (double)s->kept_tokens / s->extent_s;
}

/* Missed: what hit the plan, is worth seeing, and was not seen. */
static void detection(luo_run *r, luo_run_summary *s)
{
    int32_t n;
    const luo_occurrence *o = luo_events_occurrences(r->clock.events, &n);
    for (int32_t i = 0; i < n && !r->job.policy->bound; i++) {
        if (!o[i].touched || o[i].detected_s >= 0 || !o[i].choice) continue;
        if (o[i].kind == LUO_EVENT_STRAGGLER && o[i].value >= r->job.spec->threshold_slowdown)
            s->detect_missed++;
        if (o[i].kind == LUO_EVENT_FAIL || o[i].kind == LUO_EVENT_LEAVE) s->detect_missed++;
    }
    s->detect_true = r->health.detect_true;
    s->detect_false = r->health.detect_false;
    s->detect_mean_delay_s =
        r->health.detect_true > 0 ? r->health.detect_delay_s / r->health.detect_true : 0;
}

static luo_status plan_uses(luo_run *r, luo_run_summary *s, luo_err *err)
{
    struct luo_plan_use *use = LUO_NEW_N(r->arena, struct luo_plan_use, r->plans.n);
    if (!use) return luo_err_nomem(err);
    for (int32_t i = 0; i < r->plans.n; i++)
        use[i] = (struct luo_plan_use){r->plans.list[i]->hash, r->plans.list[i]->program_hash,
                                       r->plans.list[i]->steps};
    s->plans = use;
    s->nplans = r->plans.n;
    return LUO_OK;
}

static luo_status warn_of_overlap(luo_run *r, luo_err *err)
{
    const luo_overlap *o = luo_events_overlap(r->clock.events);
    if (!o->what) return LUO_OK;
    const char *name = *o->name ? o->name : luo_arena_printf(r->arena, "%d", o->target);
    if (!name) return luo_err_nomem(err);
    return luo_run_warn(r, err,
                        "%s %s make %.3g together at %.3f s; the end of the range, %.3g, is what "
                        "it runs with, here and wherever events overlap beyond it",
                        o->what, name, o->product, o->at_s, o->cut);
}

luo_status luo_report_end(luo_run *r, luo_err *err)
{
    luo_run_summary s = {.policy = r->job.spec->label ? r->job.spec->label : r->job.spec->name,
                         .backend = r->backend.table->name,
                         .state = r->clock.state,
                         .peak_memory_ratio = r->plans.memory_ratio,
                         .peak_memory_device = r->plans.memory_device,
                         .switches = r->decision.switches,
                         .restarts = r->decision.restarts};
    for (int32_t i = 0; i < r->plans.n; i++)
        LUO_TRY(luo_run_measured(&r->job, r->plans.list[i], NULL,
                                 err)); /* of those that made no step */
    LUO_TRY(warn_of_overlap(r, err));
    LUO_TRY(truth_rows(r, err));
    LUO_TRY(never_rows(r, &s, err));
    LUO_TRY(device_rows(r, err));
    LUO_TRY(traffic_rows(r, err));
    if (!r->job.sink->summary) return LUO_OK;
    time_figures(r, &s);
    LUO_TRY(step_figures(r, &s, err));
    detection(r, &s);
    LUO_TRY(plan_uses(r, &s, err));
    LUO_TRY(luo_report_assumptions(r, &s.assumptions, &s.nassumptions, err));
    s.warnings = r->ledger.warnings;
    s.nwarnings = r->ledger.nwarnings;
    return r->job.sink->summary(r->job.sink->ctx, &s, err);
}
