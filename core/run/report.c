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

static luo_status never_rows(luo_run *run, luo_run_summary *summary, luo_err *err)
{
    LUO_TRY(
        luo_events_never(run->clock.events, run->arena, &summary->never, &summary->nnever, err));
    for (int32_t i = 0; i < summary->nnever; i++)
        LUO_TRY(luo_run_event(run, LUO_EVENT_PHASE_NEVER, summary->never[i], "", "", false, 0, "",
                              err));
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
        const luo_traffic *traffic = used->traffic;
        if (traffic)
            LUO_TRY(run->job.sink->comm(run->job.sink->ctx, i, &traffic->set, traffic->use,
                                        traffic->n, err));
        if (used->ncomm == 0) continue;
        LUO_TRY(luo_run_recompile(run, used, err));
        LUO_TRY(
            run->job.sink->comm(run->job.sink->ctx, i, used->set, used->comm, used->ncomm, err));
        if (!kept) luo_run_give_back(used);
    }
    return LUO_OK;
}

static luo_status step_figures(luo_run *run, luo_run_summary *summary, luo_err *err)
{
    luo_account *account = &run->ledger.account;
    luo_tally *tally = &account->safe_s;
    const int64_t n = run->clock.step - run->clock.first_step;
    bool good = luo_tally_take(tally, &account->open_s) && luo_tally_take(tally, &account->fresh_s);
    for (int64_t i = 0; run->job.real && good && i < n; i++)
        good = luo_tally_add(tally, account->step_s[i]);
    if (!good) return luo_err_nomem(err);
    if (tally->count == 0) return LUO_OK;
    summary->step_mean_s = tally->sum / (double)tally->count;
    summary->step_p50_s = luo_tally_quantile(tally, 0.5);
    summary->step_p90_s = luo_tally_quantile(tally, 0.9);
    summary->step_p99_s = luo_tally_quantile(tally, 0.99);
    summary->step_max_s = tally->largest;
    return LUO_OK;
}

static void add_kept(luo_run_summary *summary, const luo_share *share, double *flops, double *peak)
{
    const luo_parts *parts = &share->parts;
    summary->expert_imbalance_ratio += share->imbalance; /* a sum so far */
    summary->steps_done += share->steps;
    summary->kept_tokens += share->tokens;
    summary->time.compute_s += parts->compute_s;
    summary->time.recompute_s += parts->recompute_s;
    summary->time.tp_s += parts->tp_s;
    summary->time.ep_s += parts->ep_s;
    summary->time.cp_s += parts->cp_s;
    summary->time.pp_s += parts->pp_s;
    summary->time.dp_s += parts->dp_s;
    summary->time.move_s += parts->move_s;
    summary->time.io_s += parts->io_s;
    summary->time.bubble_s += parts->bubble_s;
    *flops += share->flops;
    *peak += share->peak;
}

/* A run that ends early must not look better for the time it left out. */
static double extent(const luo_run *run)
{
    if (run->job.scenario->duration_s > 0)
        return fmax(run->job.scenario->duration_s, run->clock.t_s);
    return run->clock.state == LUO_COMPLETE ? run->clock.t_s : NAN;
}

static void time_figures(luo_run *run, luo_run_summary *summary)
{
    const luo_account *account = &run->ledger.account;
    double flops = 0, peak = 0;
    add_kept(summary, &account->safe, &flops, &peak);
    add_kept(summary, &account->open, &flops, &peak);
    add_kept(summary, &account->fresh, &flops, &peak);
    summary->steps_redone = account->redone;
    summary->tokens = account->tokens;
    summary->total_s = run->clock.t_s;
    summary->redone_s = account->span[LUO_SPAN_STEP];
    summary->detect_s = account->span[LUO_SPAN_DETECT];
    summary->plan_s = account->span[LUO_SPAN_PLAN];
    summary->specialize_s = account->span[LUO_SPAN_SPECIALIZE];
    summary->switch_s = account->span[LUO_SPAN_SWITCH];
    summary->checkpoint_s = account->span[LUO_SPAN_CHECKPOINT];
    summary->restart_s = account->span[LUO_SPAN_RESTART];
    summary->wait_s = account->span[LUO_SPAN_WAIT];
    summary->mfu_ratio = peak > 0 ? flops / peak : 0;
    if (run->job.real || !run->job.scenario->model->moe.experts || summary->steps_done == 0)
        summary->expert_imbalance_ratio = NAN;
    else
        summary->expert_imbalance_ratio /= (double)summary->steps_done;
    summary->tokens_per_s = summary->total_s > 0 ? (double)summary->tokens / summary->total_s : 0;
    summary->extent_s = extent(run);
}

/* Missed: what hit the plan, is worth seeing, and was not seen. */
static void detection(luo_run *run, luo_run_summary *summary)
{
    int32_t n;
    const luo_occurrence *occurrence = luo_events_occurrences(run->clock.events, &n);
    for (int32_t i = 0; i < n && !run->job.policy->bound; i++) {
        if (!occurrence[i].touched || occurrence[i].detected_s >= 0 || !occurrence[i].choice)
            continue;
        const luo_event_traits traits = luo_event_traits_of(occurrence[i].kind);
        if (traits.value == LUO_VALUE_SLOWDOWN &&
            occurrence[i].value >= run->job.spec->threshold_slowdown)
            summary->detect_missed++;
        if (traits.loss == LUO_LOSS_GONE) summary->detect_missed++;
    }
    summary->detect_true = run->health.detect_true;
    summary->detect_false = run->health.detect_false;
    summary->detect_mean_delay_s =
        run->health.detect_true > 0 ? run->health.detect_delay_s / run->health.detect_true : 0;
}

static luo_status plan_uses(luo_run *run, luo_run_summary *summary, luo_err *err)
{
    struct luo_plan_use *use = LUO_NEW_N(run->arena, struct luo_plan_use, run->plans.n);
    if (!use) return luo_err_nomem(err);
    for (int32_t i = 0; i < run->plans.n; i++)
        use[i] = (struct luo_plan_use){run->plans.list[i]->hash, run->plans.list[i]->program_hash,
                                       run->plans.list[i]->steps};
    summary->plans = use;
    summary->nplans = run->plans.n;
    return LUO_OK;
}

static luo_status warn_of_overlap(luo_run *run, luo_err *err)
{
    const luo_overlap *overlap = luo_events_overlap(run->clock.events);
    if (!overlap->what) return LUO_OK;
    const char *name =
        *overlap->name ? overlap->name : luo_arena_printf(run->arena, "%d", overlap->target);
    if (!name) return luo_err_nomem(err);
    return luo_run_warn(run, err,
                        "%s %s make %.3g together at %.3f s; the end of the range, %.3g, is what "
                        "it runs with, here and wherever events overlap beyond it",
                        overlap->what, name, overlap->product, overlap->at_s, overlap->cut);
}

luo_status luo_run_report_end(luo_run *run, luo_err *err)
{
    luo_run_summary summary = {.policy = run->job.spec->label ? run->job.spec->label
                                                              : run->job.spec->name,
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
    LUO_TRY(never_rows(run, &summary, err));
    LUO_TRY(device_rows(run, err));
    LUO_TRY(traffic_rows(run, err));
    if (!run->job.sink->summary) return LUO_OK;
    time_figures(run, &summary);
    LUO_TRY(step_figures(run, &summary, err));
    LUO_TRY(luo_run_range(run, &summary, err));
    detection(run, &summary);
    LUO_TRY(plan_uses(run, &summary, err));
    LUO_TRY(luo_run_report_assumptions(run, &summary.assumptions, &summary.nassumptions, err));
    summary.warnings = run->ledger.warnings;
    summary.nwarnings = run->ledger.nwarnings;
    return run->job.sink->summary(run->job.sink->ctx, &summary, err);
}
