/* Asking the policy: the snapshot it gets, what its planner costs, and who waits for it
 * (docs/planners.md#who-waits-for-the-planner). */
#include <math.h>

#include "core/plan/step/step.h"
#include "core/run/lengths/lengths_run.h"
#include "core/run/run.h"

/* Compiled only to count what has to be made, where that costs something and the run has not
 * compiled the plan itself. Operators are known by the hash of their programs. */
static luo_status making_s(luo_run *run, const luo_plan *plan, double *seconds, luo_err *err)
{
    const luo_compile_opts opts = {.sequence_tokens = luo_run_tokens(run, plan),
                                   .bucket = luo_run_bucket(run),
                                   .load = luo_run_load(run->job.scenario, run->clock.step),
                                   .interrupted = run->job.opts->interrupted,
                                   .unnamed = run->job.cost.operator_s <= 0};
    luo_programs *set = luo_run_known_programs(run, plan, opts.sequence_tokens);
    *seconds = 0;
    if (run->job.cost.operator_s <= 0 && run->job.cost.communicator_s <= 0) return LUO_OK;
    if (set) return luo_run_making(run, set, false, seconds, err);
    luo_arena *arena = luo_arena_new(1 << 16);
    luo_status st = arena ? LUO_OK : luo_err_nomem(err);
    if (st == LUO_OK)
        st = luo_plan_compile(arena, plan, run->job.scenario->model, run->job.scenario->cluster,
                              &opts, &set, err);
    if (st == LUO_OK) st = luo_run_making(run, set, false, seconds, err);
    luo_arena_free(arena);
    return st;
}

/* Does a device come into the plan? */
static bool is_fresh(const luo_run *run, const luo_plan *plan)
{
    return !luo_plan_within(plan, luo_run_plan(&run->plans)->member);
}

static luo_status specialize_s(void *run, const luo_plan *plan, double *seconds, luo_err *err)
{
    luo_run *r = run;
    LUO_TRY(making_s(r, plan, seconds, err));
    if (is_fresh(r, plan)) *seconds += r->job.cost.replacement_s;
    return LUO_OK;
}

/* As restart_with (apply.c) does it. */
static luo_status restart_s(void *run, const luo_plan *plan, double *seconds, luo_err *err)
{
    luo_run *r = run;
    double making = 0;
    const luo_map known = r->plans.communicators;
    if (r->job.spec->restart_s < 0) { /* all communicators are made anew */
        r->plans.communicators = (luo_map){0};
        const luo_status st = making_s(r, plan, &making, err);
        luo_map_free(&r->plans.communicators);
        r->plans.communicators = known;
        if (st != LUO_OK) return st;
    }
    *seconds = r->job.spec->restart_s >= 0
                   ? r->job.spec->restart_s
                   : r->job.cost.process_start_s + making + luo_ckpt_read_seconds(r);
    if (is_fresh(r, plan)) *seconds += r->job.cost.replacement_s;
    if (!r->backend.died)
        *seconds += fmin(luo_run_plan(&r->plans)->write_s, luo_account_open_s(&r->ledger));
    return LUO_OK;
}

/* What a switch from devices that are left would not take. */
static double setback_s(void *run, double step_s, double failure_s)
{
    const luo_run *r = run;
    const double set = r->job.spec->restart_s;
    const double lost_s = luo_ckpt_setback_s(r, step_s, failure_s);
    return set >= 0 ? set + lost_s - luo_ckpt_read_seconds(r)
                    : r->job.cost.process_start_s + lost_s;
}

static luo_status simulated_step(void *run, const luo_plan *plan, double *seconds, luo_err *err)
{
    luo_run *r = run;
    if (r->decision.judge.load != luo_run_load(r->job.scenario, r->clock.step))
        luo_run_set_judge(r); /* what it knows is of another load */
    return luo_judge_step(&r->decision.judge, plan, luo_run_tokens(r, plan), r->health.rate,
                          seconds, err);
}

static luo_status closed_form(void *run, const luo_plan *plan, double *seconds, luo_err *err)
{
    luo_run *r = run;
    const luo_step_in in = {r->job.scenario->model, r->job.scenario->cluster,
                                 &r->job.scenario->stack, luo_run_tokens(r, plan), r->health.rate};
    luo_step_cost cost = {.step = INFINITY};
    if (luo_plan_step_knows(plan)) LUO_TRY(luo_plan_step(r->scratch, &in, plan, &cost, err));
    *seconds = cost.step;
    return LUO_OK;
}

void luo_run_set_judge(luo_run *run)
{
    luo_judge_free(&run->decision.judge);
    run->decision.judge =
        (luo_judge){.simulator = run->job.opts->simulator,
                    .model = run->job.scenario->model,
                    .cluster = run->job.scenario->cluster,
                    .stack = &run->job.scenario->stack,
                    .bucket = luo_run_bucket(run),
                    .load = luo_run_load(run->job.scenario, run->clock.step),
                    .interrupted = run->job.opts->interrupted,
                    .comm = run->job.opts->simulator == run->backend.table ? run->job.opts->comm
                                                                           : LUO_COMM_FLOW};
}

bool luo_run_judges(const luo_run *run)
{
    const luo_judged by = run->job.spec->judged;
    if (!run->decision.judge.simulator || by == LUO_JUDGED_OBJECTIVE || by == LUO_JUDGED_PUBLISHED)
        return false;
    return by == LUO_JUDGED_SIMULATED || run->job.scenario->cluster->ndevices <= LUO_JUDGE_DEVICES;
}

/* Without a simulator at hand every policy keeps to the form of its own. */
static bool by_closed_form(const luo_run *run)
{
    if (run->job.spec->judged == LUO_JUDGED_PUBLISHED || luo_run_judges(run)) return false;
    return (run->decision.judge.simulator || run->job.spec->judged == LUO_JUDGED_OBJECTIVE) &&
           luo_plan_step_knows(run->plans.list[0]->plan);
}

static bool node_is_whole(const luo_run *run, int32_t device)
{
    const luo_cluster *cluster = run->job.scenario->cluster;
    const luo_node *node = &cluster->nodes[cluster->devices[device].node];
    for (int32_t s = 0; s < cluster->groups[node->group].devices_per_node; s++)
        if (!run->health.usable[node->first_device + s]) return false;
    return true;
}

/* Of the devices that can be used so many take part as there may be processes: on whole nodes,
 * which most policies need, before others; there those of the plan, then others by number. */
static void fill_rates(luo_run *run)
{
    const bool *member = luo_run_plan(&run->plans)->member;
    const int32_t n = run->job.scenario->cluster->ndevices;
    int32_t left = run->job.opts->ranks > 0 ? run->job.opts->ranks : n;
    for (int32_t d = 0; d < n; d++) run->health.rate[d] = INFINITY;
    for (int turn = 0; turn < 4; turn++)
        for (int32_t d = 0; d < n && left > 0; d++) {
            if (!run->health.usable[d] || member[d] != (turn % 2 == 0)) continue;
            if (node_is_whole(run, d) != (turn < 2)) continue;
            run->health.rate[d] = fmax(1, run->health.detect.accepted[d]);
            left--;
        }
}

/* Occurrences so far are those of the file and of processes alike. */
static double expected_s(const luo_run_clock *clock)
{
    int32_t n;
    const double rate = luo_events_rate(clock->events);
    luo_events_occurrences(clock->events, &n);
    return rate > 0 ? 1 / rate : n > 0 ? clock->t_s / n : 0;
}

/* Of devices of the plan, or of any so far. */
static double failure_s(const luo_run *run)
{
    const double rate = luo_ckpt_failure_rate(run);
    int32_t n, failures = 0;
    const luo_occurrence *occurrence = luo_events_occurrences(run->clock.events, &n);
    if (rate > 0) return 1 / rate;
    for (int32_t i = 0; i < n; i++)
        if (occurrence[i].kind == LUO_EVENT_FAIL && occurrence[i].choice)
            failures += occurrence[i].choice->ndev > 0;
    return failures > 0 ? run->clock.t_s / failures : 0;
}

/* The running plan may cut the batch otherwise than the base plan. */
static int64_t count_micro_batches(const luo_used_plan *used, const luo_plan *base)
{
    if (used->plan->micro_batch_sequences == base->micro_batch_sequences)
        return used->micro_batches;
    return luo_plan_sequences(used->plan) / base->micro_batch_sequences;
}

luo_snapshot luo_run_snapshot(luo_run *run, int trigger)
{
    const luo_used_plan *used = luo_run_plan(&run->plans);
    fill_rates(run);
    return (luo_snapshot){.scenario = run->job.scenario,
                          .spec = run->job.spec,
                          .base = luo_run_plan_of(run->plans.list[0]),
                          .plan = luo_run_plan_of(used),
                          .trigger = trigger,
                          .rate = run->health.rate,
                          .leaving = luo_events_leaving(run->clock.events),
                          .predicted_s = run->health.has_predicted ? run->health.predicted : NULL,
                          .micro_batches =
                              count_micro_batches(used, luo_run_plan_of(run->plans.list[0])),
                          .sequence_tokens = used->sequence_tokens,
                          .expected_s = expected_s(&run->clock),
                          .failure_s = failure_s(run),
                          .memory_factor = run->decision.memory_factor,
                          .issue_order = run->backend.table->caps & LUO_CAP_ISSUE_ORDER,
                          .candidate = run->health.reentry.candidate,
                          .plan_lengths = run->lengths ? luo_run_lengths_again : NULL,
                          .keep = run->arena,
                          .memory = &run->decision.memory,
                          .specialize_s = specialize_s,
                          .restart_s = restart_s,
                          .setback_s = setback_s,
                          .step_s = luo_run_judges(run)   ? simulated_step
                                    : by_closed_form(run) ? closed_form
                                                          : NULL,
                          .closed_form = by_closed_form(run),
                          .run = run};
}

luo_status luo_run_ask(luo_run *run, int trigger, luo_decision *out, double *seconds, luo_err *err)
{
    const double began = run->job.spec->planner_measured ? run->job.opts->clock() : 0;
    const bool survive = run->backend.unplanned && run->job.opts->answer_deaths &&
                         run->job.policy == &luo_policy_static;
    const luo_snapshot now = luo_run_snapshot(run, trigger);
    run->decision.acting = survive ? &luo_policy_survive : run->job.policy;
    LUO_TRY(run->decision.acting->decide(run->scratch, &now, out, err));
    *seconds =
        run->job.spec->planner_measured ? run->job.opts->clock() - began : run->job.cost.planner_s;
    if (!run->decision.acting->plans || out->known || out->action == LUO_LOSE) *seconds = 0;
    if (out->figures[0])
        LUO_TRY(luo_run_note(&run->job, err, "step %lld: %s: %s: %s", (long long)run->clock.step,
                             run->decision.acting->name, out->why, out->figures));
    return luo_run_event(run, LUO_EVENT_PHASE_DECIDED, run->decision.cause,
                         run->decision.acting->name, "", false, 0, out->why, err);
}

luo_status luo_run_ask_what_if(luo_run *run, const bool *usable, const bool *leaving,
                               luo_decision *out, luo_err *err)
{
    void *nothing = NULL;
    luo_snapshot then = luo_run_snapshot(run, LUO_TRIGGER_FAIL);
    for (int32_t d = 0; d < run->job.scenario->cluster->ndevices; d++)
        run->health.rate[d] = !usable[d]              ? INFINITY
                              : run->health.usable[d] ? run->health.rate[d]
                                                      : 1;
    then.leaving = leaving;
    then.keep = run->scratch;
    then.plan_lengths = NULL;
    then.step_s = NULL; /* whether there is a plan, not which */
    then.memory = &nothing;
    return run->decision.acting->decide(run->scratch, &then, out, err);
}

bool luo_run_waits_for_planner(const luo_run_job *job, const luo_decision *decision, double seconds)
{
    if (job->spec->plan_mode != LUO_PLAN_AUTO) return job->spec->plan_mode == LUO_PLAN_SYNC;
    if (!(decision->old_s > 0) || decision->new_s < 0) return false;
    if (isinf(decision->old_s)) return true;
    const double steps =
        ceil(seconds / decision->old_s); /* that the old plan would make meanwhile */
    return seconds + steps * decision->new_s < steps * decision->old_s;
}
