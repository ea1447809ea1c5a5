/* Asking the policy: the snapshot it gets, what its planner costs, and who waits for it
 * (docs/planners.md#who-waits-for-the-planner). */
#include <math.h>

#include "core/plan/objective/objective.h"
#include "core/plan/replan/reroute.h"
#include "core/run/run.h"

static double restart_cost(const luo_run *r)
{
    if (r->spec->restart_s >= 0) return r->spec->restart_s;
    return r->sc->process_start_s + luo_ckpt_read_seconds(r);
}

/* Compiled only to count what has to be made, where that costs something and the run has not
 * compiled the plan itself. Operators are known by the hash of their programs. */
static luo_status specialize_s(void *run, const luo_plan *p, double *seconds, luo_err *err)
{
    luo_run *r = run;
    const luo_compile_opts opts = {.sequence_tokens = luo_run_tokens(r, p),
                                   .bucket = luo_run_bucket(r),
                                   .interrupted = r->opts->interrupted,
                                   .unnamed = r->cost.operator_s <= 0};
    luo_programs *set = luo_run_known_programs(r, p, opts.sequence_tokens);
    *seconds = 0;
    if (r->cost.operator_s <= 0 && r->cost.communicator_s <= 0) return LUO_OK;
    if (set) return luo_run_making(r, set, false, seconds, err);
    luo_arena *a = luo_arena_new(1 << 16);
    luo_status st = a ? LUO_OK : luo_err_nomem(err);
    if (st == LUO_OK)
        st = luo_plan_compile(a, p, r->sc->model, r->sc->cluster, &opts, &set, err);
    if (st == LUO_OK) st = luo_run_making(r, set, false, seconds, err);
    luo_arena_free(a);
    return st;
}

static luo_status simulated_step(void *run, const luo_plan *p, double *seconds, luo_err *err)
{
    luo_run *r = run;
    return luo_judge_step(&r->judge, p, luo_run_tokens(r, p), r->rate, seconds, err);
}

static luo_status closed_form(void *run, const luo_plan *p, double *seconds, luo_err *err)
{
    luo_run *r = run;
    const luo_objective_in in = {r->sc->model, r->sc->cluster, &r->sc->stack, luo_run_tokens(r, p),
                                 r->rate};
    luo_objective x = {.step = INFINITY};
    if (luo_objective_knows(p)) LUO_TRY(luo_plan_objective(r->scratch, &in, p, &x, err));
    *seconds = x.step;
    return LUO_OK;
}

void luo_run_set_judge(luo_run *r)
{
    luo_judge_free(&r->judge);
    r->judge = (luo_judge){.simulator = r->opts->simulator, .model = r->sc->model,
                           .cluster = r->sc->cluster, .stack = &r->sc->stack,
                           .bucket = luo_run_bucket(r), .interrupted = r->opts->interrupted,
                           .comm = r->opts->simulator == r->backend ? r->opts->comm
                                                                    : LUO_COMM_FLOW};
}

bool luo_run_judges(const luo_run *r)
{
    const luo_judged by = r->spec->judged;
    if (!r->judge.simulator || by == LUO_JUDGED_OBJECTIVE || by == LUO_JUDGED_PUBLISHED)
        return false;
    return by == LUO_JUDGED_SIMULATED || r->sc->cluster->ndevices <= LUO_JUDGE_DEVICES;
}

/* Without a simulator at hand every policy keeps to the form of its own. */
static bool by_closed_form(const luo_run *r)
{
    if (r->spec->judged == LUO_JUDGED_PUBLISHED || luo_run_judges(r)) return false;
    return (r->judge.simulator || r->spec->judged == LUO_JUDGED_OBJECTIVE) &&
           luo_objective_knows(r->plans[0]->plan);
}

static bool node_is_whole(const luo_run *r, int32_t device)
{
    const luo_cluster *c = r->sc->cluster;
    const luo_node *n = &c->nodes[c->devices[device].node];
    for (int32_t s = 0; s < c->groups[n->group].devices_per_node; s++)
        if (!r->usable[n->first_device + s]) return false;
    return true;
}

/* Of the devices that can be used so many take part as there may be processes: on whole nodes,
 * which most policies need, before others; there those of the plan, then others by number. */
static void fill_rates(luo_run *r)
{
    const bool *member = luo_run_plan(r)->member;
    const int32_t n = r->sc->cluster->ndevices;
    int32_t left = r->opts->ranks > 0 ? r->opts->ranks : n;
    for (int32_t d = 0; d < n; d++) r->rate[d] = INFINITY;
    for (int turn = 0; turn < 4; turn++)
        for (int32_t d = 0; d < n && left > 0; d++) {
            if (!r->usable[d] || member[d] != (turn % 2 == 0)) continue;
            if (node_is_whole(r, d) != (turn < 2)) continue;
            r->rate[d] = fmax(1, r->detect.accepted[d]);
            left--;
        }
}

/* Occurrences so far are those of the file and of processes alike. */
static double expected_s(const luo_run *r)
{
    int32_t n;
    const double rate = luo_events_rate(r->events);
    luo_events_occurrences(r->events, &n);
    return rate > 0 ? 1 / rate : n > 0 ? r->t_s / n : 0;
}

luo_snapshot luo_run_snapshot(luo_run *r, int trigger)
{
    const luo_used_plan *u = luo_run_plan(r);
    fill_rates(r);
    return (luo_snapshot){.scenario = r->sc,
                          .spec = r->spec,
                          .base = r->plans[0]->plan,
                          .plan = u->plan,
                          .trigger = trigger,
                          .rate = r->rate,
                          .leaving = luo_events_leaving(r->events),
                          .predicted_s = r->has_predicted ? r->predicted : NULL,
                          .micro_batches = u->micro_batches,
                          .sequence_tokens = u->sequence_tokens,
                          .expected_s = expected_s(r),
                          .restart_cost_s = restart_cost(r),
                          .memory_factor = r->memory_factor,
                          .issue_order = r->backend->caps & LUO_CAP_ISSUE_ORDER,
                          .candidate = r->reentry.candidate,
                          .keep = r->arena,
                          .memory = &r->memory,
                          .specialize_s = specialize_s,
                          .step_s = luo_run_judges(r)   ? simulated_step
                                    : by_closed_form(r) ? closed_form
                                                        : NULL,
                          .closed_form = by_closed_form(r),
                          .run = r};
}

luo_status luo_run_ask(luo_run *r, int trigger, luo_decision *out, double *seconds, luo_err *err)
{
    const double began = r->spec->planner_measured ? r->opts->clock() : 0;
    const bool survive = r->unplanned && r->opts->answer_deaths && r->policy == &luo_policy_static;
    const luo_snapshot now = luo_run_snapshot(r, trigger);
    r->acting = survive ? &luo_policy_survive : r->policy;
    LUO_TRY(r->acting->decide(r->scratch, &now, out, err));
    *seconds = r->spec->planner_measured ? r->opts->clock() - began : r->cost.planner_s;
    if (!r->acting->plans || out->known || out->action == LUO_LOSE) *seconds = 0;
    if (out->figures[0])
        LUO_TRY(luo_run_note(r, err, "step %lld: %s: %s: %s", (long long)r->step, r->acting->name,
                             out->why, out->figures));
    return luo_run_event(r, "decided", r->cause, r->acting->name, "", false, 0, out->why, err);
}

luo_status luo_run_ask_what_if(luo_run *r, const bool *usable, const bool *leaving,
                               luo_decision *out, luo_err *err)
{
    void *nothing = NULL;
    luo_snapshot then = luo_run_snapshot(r, LUO_TRIGGER_FAIL);
    for (int32_t d = 0; d < r->sc->cluster->ndevices; d++)
        r->rate[d] = !usable[d] ? INFINITY : r->usable[d] ? r->rate[d] : 1;
    then.leaving = leaving;
    then.keep = r->scratch;
    then.step_s = NULL; /* whether there is a plan, not which */
    then.memory = &nothing;
    return r->acting->decide(r->scratch, &then, out, err);
}

bool luo_run_waits_for_planner(const luo_run *r, const luo_decision *d, double seconds)
{
    if (r->spec->plan_mode != LUO_PLAN_AUTO) return r->spec->plan_mode == LUO_PLAN_SYNC;
    if (!(d->old_s > 0) || d->new_s < 0) return false;
    if (isinf(d->old_s)) return true;
    const double steps = ceil(seconds / d->old_s); /* that the old plan would make meanwhile */
    return seconds + steps * d->new_s < steps * d->old_s;
}

luo_status luo_run_check_policy(luo_run *r, luo_err *err)
{
    if (r->policy->plans && luo_plan_is_rerouted(r->plans[0]->plan))
        return luo_err_set(err, LUO_EINPUT, "policy `%s` starts from a plan of which every stage "
                           "has devices, and the base plan has a stage without; give it some.",
                           r->policy->name);
    if (!r->policy->check) return LUO_OK;
    const luo_snapshot now = luo_run_snapshot(r, 0);
    return r->policy->check(&now, err);
}
