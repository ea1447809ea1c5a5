/* What a run takes for granted: every cost that was chosen and not measured, every profile value
 * that is only reported, every rule of ours that moves the result (docs/formats.md#luoshuscenario1
 * and docs/results.md). */
#include <stdarg.h>
#include <stdio.h>

#include "core/base/vec.h"
#include "core/run/run.h"

typedef struct list {
    luo_arena *arena;
    const char **at;
    int32_t n, cap;
    luo_status st;
} list;

static void say(list *l, const char *fmt, ...) LUO_PRINTF(2, 3);
static void say(list *l, const char *fmt, ...)
{
    char text[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (l->st != LUO_OK) return;
    const bool room = LUO_VEC_ROOM_IN(l->arena, l->at, l->n, l->cap);
    const char *copy = room ? luo_arena_strdup(l->arena, text) : NULL;
    if (copy) l->at[l->n++] = copy;
    else l->st = LUO_ENOMEM;
}

static void costs(list *l, const luo_run_job *job)
{
    const luo_scenario *sc = job->scenario;
    if (job->real)
        say(l,
            "costs: at least detect_fail_s %g, process_start_s %g, communicator_s %g, "
            "replacement_s %g are waited out, as far as the scenario gives them; what really takes "
            "longer takes longer",
            job->cost.detect_fail_s, job->cost.process_start_s, job->cost.communicator_s,
            job->cost.replacement_s);
    else
        say(l, "costs: detect_fail_s %g, process_start_s %g, communicator_s %g, replacement_s %g "
            "(chosen)", sc->detect_fail_s, sc->process_start_s, sc->communicator_s,
            sc->replacement_s);
    if (sc->operator_s > 0)
        say(l, "costs: operator_s %g for every instruction of the busiest device, once for a plan",
            sc->operator_s);
    say(l, "communicators of the first plan exist before the run; later ones are counted on the "
        "busiest device");
    if (sc->nloads > 0 && sc->loads->nrows)
        say(l, "expert_load: by a table of %d steps, equal before the first", sc->nloads);
    else if (sc->nloads > 0)
        say(l, "expert_load: zipf, exponent %g", sc->loads->exponent);
    if (sc->compute_sigma > 0 || sc->comm_sigma > 0)
        say(l, "noise: compute_sigma %g, comm_sigma %g", sc->compute_sigma, sc->comm_sigma);
}

static void communication(list *l, const luo_run_job *job)
{
    if (job->real || job->policy->bound) return;
    if (job->opts->comm == LUO_COMM_MODEL)
        say(l, "communication: closed forms (--comm model): transfers that share links do not slow "
            "each other down; steps in which they would were 9 %% too short to 12 %% too long "
            "against flows");
    if (job->opts->comm == LUO_COMM_MESSAGE)
        say(l, "communication: collectives that step round a ring go step by step (--comm "
            "message); trees, all-to-all and messages are flows");
}

static bool staggers(const luo_run_plans *plans)
{
    const luo_used_plan *used = luo_run_plan(plans);
    return used && used->plan->staggered;
}

static void vocabulary(list *l, const luo_run *run)
{
    const luo_used_plan *used = luo_run_plan(&run->plans);
    const luo_model *model = run->job.scenario->model;
    const int64_t rows = used ? luo_plan_vocab(used->plan, model) : model->vocab;
    if (rows != model->vocab)
        say(l, "vocabulary: %lld rows are padded to %lld, a multiple of 128 for each part that "
            "tensor parallelism cuts them into", (long long)model->vocab, (long long)rows);
}

static void staggered(list *l, const luo_run *run)
{
    if (!staggers(&run->plans)) return;
    if (run->job.real)
        say(l, "optimizer_step staggered: ranks begin every step together; what is updated before "
            "the norm of all gradients is known is amended where that is beyond the bound");
    else
        say(l, "optimizer_step staggered: a step is the third of three without a barrier between "
            "them, the first after a start, a switch or an event as well; the norm of all "
            "gradients is never beyond the bound, so that no update is made twice");
}

static void uneven(list *l, const luo_run *run)
{
    static const char *const stragglers[] = {LUO_LENGTH_STRAGGLERS_LIST(LUO_WORD_TEXT)};
    const luo_policy_spec *spec = run->job.spec;
    const luo_lengths *lengths = run->job.scenario->lengths;
    const bool knows = luo_policy_has_key(run->job.policy, "stragglers");
    say(l,
        "policy %s: planner_s %g (%s) a step, %d steps ahead on %d workers%s%s; "
        "threshold_slowdown %g, replan_gap %g, window_steps %d (chosen)",
        spec->name, run->job.cost.planner_s, spec->planner_measured ? "measured" : "fixed",
        spec->lengths.ahead, spec->lengths.workers, knows ? ", stragglers " : "",
        knows ? stragglers[spec->lengths.stragglers] : "", spec->threshold_slowdown,
        spec->replan_gap, spec->window_steps);
    if (lengths && luo_lengths_synthetic(lengths))
        say(l, "lengths of sequences: %s, synthetic", luo_length_kind_name(lengths->kind));
}

static void policy(list *l, const luo_run *run)
{
    const luo_policy_spec *spec = run->job.spec;
    if (run->job.policy->bound)
        say(l,
            "policy %s: a bound and no run: the fastest plan that any policy finds for the "
            "devices as they are, by simulated step (above %d devices only with `rank: "
            "simulated`), or that for healthy devices at the share of its work per time that they "
            "can do; nothing is lost, moved, planned or saved",
            spec->name, LUO_JUDGE_DEVICES);
    if (!run->job.policy->plans) return;
    if (run->job.policy->lengths) {
        uneven(l, run);
        return;
    }
    say(l,
        "policy %s: planner_s %g (%s), threshold_slowdown %g, replan_gap %g, window_steps %d, "
        "payback_steps %g%s (chosen)",
        spec->name, run->job.cost.planner_s, spec->planner_measured ? "measured" : "fixed",
        spec->threshold_slowdown, spec->replan_gap, spec->window_steps, spec->payback_steps,
        spec->payback_given ? "" : " or, if more, those until the next event is expected");
    if (run->job.policy == &luo_policy_malleus) {
        static const char *const modes[] = {LUO_PLAN_MODE_LIST(LUO_WORD_TEXT)};
        static const char *const groupings[] = {LUO_MALLEUS_GROUPING_LIST(LUO_WORD_TEXT)};
        say(l,
            "policy malleus: plan_mode %s, rank %s, top_k %d, grouping %s, dp %s, "
            "reentry_probes %d, always_switch %s (chosen)",
            modes[spec->plan_mode], luo_malleus_rank_name(spec->rank), spec->top_k,
            groupings[spec->split2], spec->dp_auto ? "auto" : "fixed",
            spec->reentry_probes, spec->always_switch ? "true" : "false");
        say(l, "policy malleus: state that is lost with its devices comes from the last "
            "checkpoint, as with restart");
        if (run->job.real)
            say(l, "policy malleus: the planner runs while the ranks wait, whatever plan_mode "
                "says");
    }
    if (run->job.policy == &luo_policy_spares)
        say(l, "policy spares: free nodes of the same group are hot spares, whose processes run; "
            "with too few of them it does what restart does");
    if (run->job.policy == &luo_policy_drop_replica)
        say(l, "policy drop_replica: the batch of replicas that left is %s (chosen)",
            spec->deals_batch ? "dealt to the others" : "lost");
    if (run->job.policy == &luo_policy_reroute && !staggers(&run->plans))
        say(l, "policy reroute: steps follow each other, no stage begins one before the gradients "
            "of all are summed; ReCycle's optimizer is staggered (optimizer_step)");
    if (run->job.policy == &luo_policy_restart) {
        if (spec->restart_s >= 0)
            say(l, "policy restart: a restart takes %g s (chosen)", spec->restart_s);
        else
            say(l, "policy restart: process start + communicators + reading the state; steps since "
                "the last checkpoint are redone");
        say(l, "policy restart: when nothing has failed, state is saved first if that is cheaper "
            "than redoing; nodes come back when payback_steps pay for it");
    }
}

static void checkpoints(list *l, const luo_run *run)
{
    static const char *const targets[] = {"storage", "disk", "the memory of the next node"};
    const luo_used_plan *used = run->plans.list[0];
    if (run->job.policy->bound) return;
    if (!run->ledger.ckpt.on) {
        say(l, "no checkpoints: a restart goes back to the first step");
        return;
    }
    if (run->job.real) {
        say(l,
            "checkpoint: written and waited for%s, at least %.6g s (closed form: bytes over "
            "bandwidth); a complete run leaves its last state behind",
            run->job.scenario->checkpoint.blocking ? ""
                                                   : ", although the scenario says `background`",
            used->write_s);
        return;
    }
    say(l, "checkpoint: %lld bytes to %s in %.6g s by closed form (bytes over bandwidth), %s",
        (long long)used->state_bytes, targets[run->job.scenario->checkpoint.target], used->write_s,
        run->job.scenario->checkpoint.blocking ? "blocking"
                                               : "in the background at no cost to the step");
}

static void real_run(list *l, const luo_run *run)
{
    if (!run->job.real) return;
    if (run->clock.first_step > 0)
        say(l, "resumed: the run begins with step %lld; events of earlier steps do not fire",
            (long long)run->clock.first_step);
    if (run->health.pace.first > 0)
        say(l,
            "this machine computes at %.4g of the profile's speed (median device, fastest of the "
            "first %d good steps, found anew under each plan); slowdowns are relative to %s",
            1 / run->health.pace.first, LUO_PACE_STEPS,
            run->health.pace.own
                ? "each device's own first steps, as the profile is not of processors"
                : "that");
    else
        say(l, "fewer than %d good steps: nothing was detected, slowdowns are relative to the "
            "median device", LUO_PACE_STEPS);
    say(l, "step_s begins when the last step ended: the way to the ranks is part of it, as bubble");
}

static void quantiles(list *l, const luo_run_ledger *ledger)
{
    const double off = luo_tally_off(&ledger->account.safe_s);
    if (off > 0)
        say(l, "quantiles of step_s: more than %d different values came, so they are counted in "
            "classes; a quantile is off by at most %.2g of itself", LUO_TALLY_MOST, off);
}

static void profiles(list *l, const luo_run_job *job)
{
    const luo_cluster *cluster = job->scenario->cluster;
    for (int32_t k = 0; k < cluster->nkinds; k++) {
        const luo_profile *profile = luo_device_kind_profile(cluster, k);
        bool seen = false;
        for (int32_t before = 0; before < k; before++)
            seen |= luo_device_kind_profile(cluster, before) == profile;
        for (int32_t i = 0; !seen && i < profile->nvalues; i++) {
            const luo_value *value = &profile->values[i];
            if (value->provenance != LUO_FROM_REPORTED && value->provenance != LUO_FROM_CHOSEN)
                continue;
            say(l, "profile %s: %s %g (%s; %s)", profile->name, value->name, value->value,
                value->provenance == LUO_FROM_CHOSEN ? "chosen" : "reported", value->source);
        }
    }
}

luo_status luo_run_report_assumptions(luo_run *run, const char *const **out, int32_t *n,
                                      luo_err *err)
{
    list l = {.arena = run->arena};
    costs(&l, &run->job);
    communication(&l, &run->job);
    policy(&l, run);
    staggered(&l, run);
    vocabulary(&l, run);
    checkpoints(&l, run);
    real_run(&l, run);
    quantiles(&l, &run->ledger);
    profiles(&l, &run->job);
    say(&l, "mfu_ratio: model FLOP without recompute, causal attention counted in full, over the "
        "peaks of the devices in use during the steps that stay");
    if (l.st != LUO_OK) return luo_err_nomem(err);
    *out = l.at;
    *n = l.n;
    return LUO_OK;
}
