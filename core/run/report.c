/* The rows of the end: truth, devices, links, communication, and the summary. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/run/run.h"

static luo_status truth_rows(luo_run *run, luo_err *err)
{
    int32_t n;
    const luo_occurrence *occurrence = luo_events_occurrences(run->clock.events, &n);
    for (int32_t i = 0; run->job.sink->truth && run->job.scenario->truth && i < n; i++) {
        const luo_row_truth row = {
            .id = occurrence[i].id,
            .kind = luo_event_kind_name(occurrence[i].kind),
            .target = occurrence[i].target,
            .value = occurrence[i].value,
            .start_s = occurrence[i].start_s,
            .end_s = occurrence[i].end_s,
            .detected_s = occurrence[i].detected_s,
            .first_step = occurrence[i].first_step,
            .last_step = occurrence[i].last_step < 0 ? run->clock.step : occurrence[i].last_step};
        LUO_TRY(run->job.sink->truth(run->job.sink->ctx, &row, err));
    }
    return LUO_OK;
}

static luo_status never_rows(luo_run *run, luo_run_summary *s, luo_err *err)
{
    LUO_TRY(luo_events_never(run->clock.events, run->arena, &s->never, &s->nnever, err));
    for (int32_t i = 0; i < s->nnever; i++)
        LUO_TRY(luo_run_event(run, LUO_EVENT_PHASE_NEVER, s->never[i], "", "", false, 0, "", err));
    return LUO_OK;
}

static luo_status device_rows(luo_run *run, luo_err *err)
{
    const luo_account *account = &run->ledger.account;
    double *caused = run->job.sink->device
                         ? LUO_NEW_N(run->arena, double, run->job.scenario->cluster->ndevices)
                         : NULL;
    if (!run->job.sink->device) return LUO_OK;
    if (!caused) return luo_err_nomem(err);
    LUO_TRY(luo_run_caused(run, caused, err));
    for (int32_t d = 0; d < run->job.scenario->cluster->ndevices; d++) {
        luo_row_device row = {
            .device = d,
            .parts = account->parts[d],
            .used_s = account->used_s[d],
            .caused_slowdown = caused[d],
            .mean_slowdown = 1,
            .up_s = account->up_s[d] +
                    (isnan(account->up_since[d]) ? 0 : run->clock.t_s - account->up_since[d])};
        if (account->predicted_s[d] > 0)
            row.mean_slowdown = account->compute_s[d] / account->predicted_s[d];
        LUO_TRY(run->job.sink->device(run->job.sink->ctx, &row, err));
    }
    return LUO_OK;
}

static luo_status traffic_rows(luo_run *run, luo_err *err)
{
    if (run->job.sink->links)
        LUO_TRY(run->job.sink->links(run->job.sink->ctx, run->ledger.links, run->ledger.nlinks,
                                     run->clock.t_s, err));
    if (run->job.sink->link_windows)
        LUO_TRY(run->job.sink->link_windows(run->job.sink->ctx, &run->ledger.windows,
                                            run->ledger.links, run->clock.t_s, err));
    for (int32_t i = 0; run->job.sink->comm && i < run->plans.n; i++) {
        luo_used_plan *used = run->plans.list[i];
        const bool kept = used->set != NULL;
        const luo_traffic *t = used->traffic;
        if (t) LUO_TRY(run->job.sink->comm(run->job.sink->ctx, i, &t->set, t->use, t->n, err));
        if (used->ncomm == 0) continue;
        LUO_TRY(luo_run_recompile(run, used, err));
        LUO_TRY(
            run->job.sink->comm(run->job.sink->ctx, i, used->set, used->comm, used->ncomm, err));
        if (!kept) luo_run_give_back(used);
    }
    return LUO_OK;
}

static luo_status step_figures(luo_run *run, luo_run_summary *s, luo_err *err)
{
    luo_account *account = &run->ledger.account;
    luo_tally *tally = &account->safe_s;
    const int64_t n = run->clock.step - run->clock.first_step;
    bool good = luo_tally_take(tally, &account->open_s) && luo_tally_take(tally, &account->fresh_s);
    for (int64_t i = 0; run->job.real && good && i < n; i++)
        good = luo_tally_add(tally, account->step_s[i]);
    if (!good) return luo_err_nomem(err);
    if (tally->count == 0) return LUO_OK;
    s->step_mean_s = tally->sum / (double)tally->count;
    s->step_p50_s = luo_tally_quantile(tally, 0.5);
    s->step_p90_s = luo_tally_quantile(tally, 0.9);
    s->step_p99_s = luo_tally_quantile(tally, 0.99);
    s->step_max_s = tally->largest;
    return LUO_OK;
}

static void add_kept(luo_run_summary *s, const luo_share *x, double *flops, double *peak)
{
    const luo_parts *parts = &x->parts;
    s->expert_imbalance_ratio += x->imbalance; /* a sum so far */
    s->steps_done += x->steps;
    s->kept_tokens += x->tokens;
    s->time.compute_s += parts->compute_s;
    s->time.recompute_s += parts->recompute_s;
    s->time.tp_s += parts->tp_s;
    s->time.ep_s += parts->ep_s;
    s->time.cp_s += parts->cp_s;
    s->time.pp_s += parts->pp_s;
    s->time.dp_s += parts->dp_s;
    s->time.move_s += parts->move_s;
    s->time.io_s += parts->io_s;
    s->time.bubble_s += parts->bubble_s;
    *flops += x->flops;
    *peak += x->peak;
}

/* A run that ends early must not look better for the time it left out. */
static double extent(const luo_run *run)
{
    if (run->job.scenario->duration_s > 0)
        return fmax(run->job.scenario->duration_s, run->clock.t_s);
    return run->clock.state == LUO_COMPLETE ? run->clock.t_s : NAN;
}

static void time_figures(luo_run *run, luo_run_summary *s)
{
    const luo_account *account = &run->ledger.account;
    double flops = 0, peak = 0;
    add_kept(s, &account->safe, &flops, &peak);
    add_kept(s, &account->open, &flops, &peak);
    add_kept(s, &account->fresh, &flops, &peak);
    s->steps_redone = account->redone;
    s->tokens = account->tokens;
    s->total_s = run->clock.t_s;
    s->redone_s = account->span[LUO_SPAN_STEP];
    s->detect_s = account->span[LUO_SPAN_DETECT];
    s->plan_s = account->span[LUO_SPAN_PLAN];
    s->specialize_s = account->span[LUO_SPAN_SPECIALIZE];
    s->switch_s = account->span[LUO_SPAN_SWITCH];
    s->checkpoint_s = account->span[LUO_SPAN_CHECKPOINT];
    s->restart_s = account->span[LUO_SPAN_RESTART];
    s->wait_s = account->span[LUO_SPAN_WAIT];
    s->mfu_ratio = peak > 0 ? flops / peak : 0;
    if (run->job.real || !run->job.scenario->model->moe.experts || s->steps_done == 0)
        s->expert_imbalance_ratio = NAN;
    else s->expert_imbalance_ratio /= (double)s->steps_done;
    s->tokens_per_s = s->total_s > 0 ? (double)s->tokens / s->total_s : 0;
    s->extent_s = extent(run);
}

/* Missed: what hit the plan, is worth seeing, and was not seen. */
static void detection(luo_run *run, luo_run_summary *s)
{
    int32_t n;
    const luo_occurrence *occurrence = luo_events_occurrences(run->clock.events, &n);
    for (int32_t i = 0; i < n && !run->job.policy->bound; i++) {
        if (!occurrence[i].touched || occurrence[i].detected_s >= 0 || !occurrence[i].choice)
            continue;
        const luo_event_traits traits = luo_event_traits_of(occurrence[i].kind);
        if (traits.value == LUO_VALUE_SLOWDOWN &&
            occurrence[i].value >= run->job.spec->threshold_slowdown)
            s->detect_missed++;
        if (traits.loss == LUO_LOSS_GONE) s->detect_missed++;
    }
    s->detect_true = run->health.detect_true;
    s->detect_false = run->health.detect_false;
    s->detect_mean_delay_s =
        run->health.detect_true > 0 ? run->health.detect_delay_s / run->health.detect_true : 0;
}

static luo_status plan_uses(luo_run *run, luo_run_summary *s, luo_err *err)
{
    struct luo_plan_use *use = LUO_NEW_N(run->arena, struct luo_plan_use, run->plans.n);
    if (!use) return luo_err_nomem(err);
    for (int32_t i = 0; i < run->plans.n; i++)
        use[i] = (struct luo_plan_use){run->plans.list[i]->hash, run->plans.list[i]->program_hash,
                                       run->plans.list[i]->steps};
    s->plans = use;
    s->nplans = run->plans.n;
    return LUO_OK;
}

static luo_status warn_of_overlap(luo_run *run, luo_err *err)
{
    const luo_overlap *o = luo_events_overlap(run->clock.events);
    if (!o->what) return LUO_OK;
    const char *name = *o->name ? o->name : luo_arena_printf(run->arena, "%d", o->target);
    if (!name) return luo_err_nomem(err);
    return luo_run_warn(run, err,
                        "%s %s make %.3g together at %.3f s; the end of the range, %.3g, is what "
                        "it runs with, here and wherever events overlap beyond it",
                        o->what, name, o->product, o->at_s, o->cut);
}

luo_status luo_run_report_end(luo_run *run, luo_err *err)
{
    luo_run_summary s = {.policy =
                             run->job.spec->label ? run->job.spec->label : run->job.spec->name,
                         .backend = run->backend.table->name,
                         .state = run->clock.state,
                         .peak_memory_ratio = run->plans.memory_ratio,
                         .peak_memory_device = run->plans.memory_device,
                         .switches = run->decision.switches,
                         .restarts = run->decision.restarts};
    for (int32_t i = 0; i < run->plans.n; i++)
        LUO_TRY(luo_run_measured(&run->job, run->plans.list[i], NULL,
                                 err)); /* of those that made no step */
    LUO_TRY(luo_account_catch_up(run, err));
    LUO_TRY(warn_of_overlap(run, err));
    LUO_TRY(truth_rows(run, err));
    LUO_TRY(never_rows(run, &s, err));
    LUO_TRY(device_rows(run, err));
    LUO_TRY(traffic_rows(run, err));
    if (!run->job.sink->summary) return LUO_OK;
    time_figures(run, &s);
    LUO_TRY(step_figures(run, &s, err));
    LUO_TRY(luo_run_range(run, &s, err));
    detection(run, &s);
    LUO_TRY(plan_uses(run, &s, err));
    LUO_TRY(luo_run_report_assumptions(run, &s.assumptions, &s.nassumptions, err));
    s.warnings = run->ledger.warnings;
    s.nwarnings = run->ledger.nwarnings;
    return run->job.sink->summary(run->job.sink->ctx, &s, err);
}
