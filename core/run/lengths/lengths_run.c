/* Batches, choices and programs of the steps of a run. */
#include "core/run/lengths/lengths_run.h"

#include <math.h>
#include <string.h>

#include "core/plan/length_policies/length_slow.h"
#include "core/run/first/first.h"
#include "core/run/policy/judge_layouts.h"
#include "core/run/run.h"

/* ---- setup ---- */

static luo_status check_batch(const luo_run *run, int64_t ctx, luo_err *err)
{
    const luo_scenario *sc = run->job.scenario;
    if (!sc->lengths || (sc->batch_sequences == 0 && sc->batch_tokens == 0))
        return luo_err_set(err, LUO_EINPUT,
                           "policy `%s` needs to know the batch; give `data.batch` and "
                           "`data.lengths`.",
                           run->job.spec->name);
    if (sc->batch_tokens > 0 && sc->batch_tokens < ctx)
        return luo_err_set(err, LUO_EINPUT,
                           "a batch of %lld tokens is below the longest sequence of %lld; one "
                           "sequence must fit.",
                           (long long)sc->batch_tokens, (long long)ctx);
    return LUO_OK;
}

static luo_status check_parts(luo_run *run, luo_err *err)
{
    if (!(run->backend.table->caps & LUO_CAP_PARTS))
        return luo_err_set(err, LUO_EINPUT,
                           "policy `%s` runs a step in parts, one plan after another, which "
                           "backend `%s` does not.",
                           run->job.spec->name, run->backend.table->name);
    if (run->job.opts->trace.kind == LUO_TRACE_NONE || !run->job.sink->ops) return LUO_OK;
    return luo_run_warn(run, err, "steps of policy `%s` that run several plans are not traced",
                        run->job.spec->name);
}

static luo_status warn_of_cuts(luo_run *run, int64_t ctx, luo_err *err)
{
    const luo_lengths *lengths = run->job.scenario->lengths;
    const int64_t longest = luo_lengths_longest(lengths);
    const luo_length_beyond beyond = luo_lengths_beyond(lengths, ctx);
    if (longest <= ctx) return LUO_OK;
    if (beyond.longer <= 0 || lengths->kind == LUO_LENGTH_MIXTURE)
        return luo_run_warn(run, err,
                            "sequences of up to %lld tokens are cut to the %lld that model `%s` "
                            "takes",
                            (long long)longest, (long long)ctx, run->job.scenario->model->name);
    return luo_run_warn(run, err,
                        "sequences of up to %lld tokens are cut to the %lld that model `%s` takes: "
                        "%.1f %% of them, and %.1f %% of all tokens",
                        (long long)longest, (long long)ctx, run->job.scenario->model->name,
                        100 * beyond.longer / beyond.sequences, 100 * beyond.over / beyond.tokens);
}

static luo_length_setup_in setup_in(const luo_run *run, int64_t ctx)
{
    const luo_scenario *sc = run->job.scenario;
    const luo_length_spec *spec = &run->job.spec->lengths;
    luo_length_setup_in in = {.model = sc->model,
                              .cluster = sc->cluster,
                              .stack = &sc->stack,
                              .lengths = sc->lengths,
                              .rule = {.tokens = sc->batch_tokens,
                                       .sequences = sc->batch_sequences,
                                       .most = ctx,
                                       .keeps_last = !sc->truncate_last},
                              .limit =
                                  (int64_t)luo_work_most(run->job.opts->work, LUO_WORK_SEQUENCES),
                              .seed = sc->seed,
                              .ncontext = spec->ncontext,
                              .proposals = spec->proposals,
                              .assign = spec->assign,
                              .switch_ms = spec->switch_ms,
                              .step = {.score = spec->score,
                                       .published = spec->published_dispatch,
                                       .kicks = spec->kicks,
                                       .most = spec->max_plans,
                                       .seed = sc->seed,
                                       .current = -1}};
    memcpy(in.context, spec->context, sizeof in.context);
    return in;
}

static bool knows_rates(const luo_run *run)
{
    return run->job.spec->lengths.stragglers != LUO_STRAGGLERS_NONE;
}

/* What is judged before the first step: on the batches that come next, and the devices as they are
 * thought to be. */
typedef struct trial {
    luo_length_sample batch[LUO_JUDGE_BATCHES];
    double *rate; /* per device of the cluster */
} trial;

static luo_status open_trial(luo_run *run, const luo_length_setup_in *in, const double *place,
                             trial *out, luo_err *err)
{
    luo_arena *scratch = run->lengths->step_arena;
    const int32_t ndevices = run->job.scenario->cluster->ndevices;
    out->rate = LUO_NEW_N(scratch, double, ndevices);
    if (!out->rate) return luo_err_nomem(err);
    for (int32_t d = 0; d < ndevices; d++) out->rate[d] = 1;
    for (int32_t i = 0; i < in->ndevices; i++) out->rate[in->devices[i]] = place[i];
    for (int32_t k = 0; k < LUO_JUDGE_BATCHES; k++) {
        int64_t *length;
        LUO_TRY(luo_batches_draw(scratch, &run->lengths->batches, run->clock.step + k, 0, &length,
                                 &out->batch[k].n, err));
        out->batch[k].length = length;
    }
    return LUO_OK;
}

static luo_status judge_layouts(luo_run *run, luo_arena *arena, const trial *t,
                                luo_length_choice *x, luo_err *err)
{
    luo_judged_layout best;
    LUO_TRY(luo_judge_layouts(arena, run->lengths->step_arena, &run->decision.judge,
                              &x->setup.rivals, &x->setup.place, t->batch, LUO_JUDGE_BATCHES,
                              t->rate, &best, err));
    x->setup.layout = best.layout;
    x->setup.place.layout_devices = best.devices;
    x->setup.moved_ms = best.moved_ms;
    if (best.alike >= 0) x->setup.rivals.uniform = best.alike;
    x->learned = best.learned;
    return LUO_OK;
}

static luo_status judge_choice(luo_run *run, luo_arena *arena, const luo_length_setup_in *in,
                               const double *place, luo_length_choice *x, luo_err *err)
{
    const luo_length_policy policy = run->job.policy->rule;
    const bool ours = policy == LUO_LENGTH_POLICY_HYDRAULIS;
    trial t;
    luo_length_setup_rates(&x->setup, place);
    LUO_TRY(open_trial(run, in, place, &t, err));
    /* ours has the plan of one_plan among its own */
    LUO_TRY(luo_judge_rival(run->lengths->step_arena, &run->decision.judge,
                            ours ? LUO_LENGTH_POLICY_ONE_PLAN : policy, &x->setup.place, t.batch,
                            LUO_JUDGE_BATCHES, t.rate, &x->setup.rivals, err));
    return ours ? judge_layouts(run, arena, &t, x, err) : LUO_OK;
}

/* Where plans are simulated, so is what is chosen once for all steps. */
static luo_status choose_once(luo_run *run, luo_arena *arena, const luo_length_setup_in *in,
                              const double *place, luo_length_choice *x, luo_err *err)
{
    LUO_TRY(luo_lengths_learn_open(arena, &x->setup.pool, &x->setup.found, x->setup.moved_ms,
                                   &x->learned, err));
    if (!luo_run_judges(run)) return LUO_OK;
    const size_t mark = luo_arena_mark(run->lengths->step_arena);
    const luo_status st = judge_choice(run, arena, in, place, x, err);
    luo_arena_reset(run->lengths->step_arena, mark);
    return st;
}

static luo_status make_choice(luo_run *run, luo_arena *arena, luo_length_setup_in *in,
                              const double *rate, const bool *candidate, double **place,
                              luo_length_choice **out, luo_err *err)
{
    const int32_t all = run->job.scenario->cluster->ndevices;
    luo_length_choice *x = *out = LUO_NEW(arena, luo_length_choice);
    int32_t *devices = LUO_NEW_N(arena, int32_t, all);
    *place = LUO_NEW_N(arena, double, all);
    if (!x || !devices || !*place) return luo_err_nomem(err);
    in->ndevices = 0;
    for (int32_t d = 0; d < all; d++) {
        if (!isfinite(rate[d]) || !candidate[d]) continue;
        (*place)[in->ndevices] = knows_rates(run) ? fmax(1, rate[d]) : 1;
        devices[in->ndevices++] = d;
    }
    in->devices = devices;
    if (in->ndevices == 0)
        return luo_err_set(err, LUO_EINFEASIBLE, "no device of the cluster is usable.");
    LUO_TRY(luo_length_setup_make(arena, in, &x->setup, err));
    return choose_once(run, arena, in, *place, x, err);
}

/* All that is chosen once for the devices with a finite rate; *run->lengths changes only if that
 * succeeds. */
static luo_status set_up(luo_run *run, const double *rate, const bool *candidate, luo_err *err)
{
    luo_run_lengths *x = run->lengths;
    luo_arena *arena = luo_arena_new(1 << 20);
    luo_length_setup_in in = x->in;
    luo_length_choice *chosen;
    double *place;
    if (!arena) return luo_err_nomem(err);
    const luo_status st = make_choice(run, arena, &in, rate, candidate, &place, &chosen, err);
    if (st != LUO_OK) {
        luo_arena_free(arena);
        return st;
    }
    luo_arena_free(x->setup_arena);
    x->setup_arena = arena;
    x->in = in;
    luo_length_setup_copy(&x->choice.setup, &chosen->setup);
    x->choice.learned = chosen->learned;
    x->rate = place;
    x->stale = true;
    x->chosen = &x->choice;
    x->current = -1;
    x->step = -1;
    luo_length_setup_rates(&x->choice.setup, x->rate);
    return LUO_OK;
}

/* ---- a step ---- */

/* What the planner knows of slow devices has changed: its plans are for another world. */
static bool update_rates(luo_run *run)
{
    luo_run_lengths *x = run->lengths;
    bool changed = false;
    for (int32_t i = 0; i < x->in.ndevices && knows_rates(run); i++) {
        const double rate = fmax(1, run->health.detect.accepted[x->in.devices[i]]);
        changed |= rate != x->rate[i];
        x->rate[i] = rate;
    }
    if (changed) luo_length_setup_rates(&x->choice.setup, x->rate);
    x->stale |= changed;
    return changed;
}

/* Per device of the cluster, for the simulator: what the planner knows. */
static luo_status known_rates(const luo_run *run, double **out, luo_err *err)
{
    const luo_run_lengths *x = run->lengths;
    const int32_t n = run->job.scenario->cluster->ndevices;
    *out = LUO_NEW_N(x->step_arena, double, n);
    if (!*out) return luo_err_nomem(err);
    for (int32_t d = 0; d < n; d++) (*out)[d] = 1;
    for (int32_t i = 0; i < x->in.ndevices; i++) (*out)[x->in.devices[i]] = x->rate[i];
    return LUO_OK;
}

/* Where plans are simulated, candidates of which nothing is known are, before they are used; else
 * their first steps show what they are worth. */
static luo_status choose_on(luo_run *run, const luo_length_setup *setup,
                            luo_lengths_learned *learned, int32_t current, luo_length_plans *out,
                            luo_err *err)
{
    luo_run_lengths *x = run->lengths;
    const bool ours = run->job.policy->rule == LUO_LENGTH_POLICY_HYDRAULIS;
    luo_length_rivals rivals = setup->rivals;
    luo_judged_lengths judged;
    luo_err why = {0};
    double *rate;
    rivals.step.extra_ms = ours ? learned->extra_ms : NULL;
    if (!ours || !luo_run_judges(run))
        return luo_length_plan(x->step_arena, &rivals, &setup->place, run->job.policy->rule,
                               current, x->length, x->n, out, err);
    LUO_TRY(known_rates(run, &rate, err));
    const luo_status st =
        luo_judge_lengths(x->step_arena, &run->decision.judge, &rivals, &setup->place, current,
                          x->length, x->n, false, rate, learned, &judged, &why);
    if (st != LUO_OK) return luo_err_set(err, st, "%s", why.text);
    *out = judged.plans;
    return LUO_OK;
}

/* Candidates may be cut around slow devices, or leave them idle. */
static bool knows_slow(const luo_run *run)
{
    const luo_run_lengths *x = run->lengths;
    if (run->job.spec->lengths.stragglers != LUO_STRAGGLERS_JOINT) return false;
    for (int32_t i = 0; i < x->in.ndevices; i++)
        if (x->rate[i] > 1) return true;
    return false;
}

/* By what devices may go to other replicas: speeds as they are, those of their types, or nothing.
 */
static const double *sorted_by(const luo_run *run)
{
    const luo_length_setup *setup = &run->lengths->choice.setup;
    if (run->job.policy->rule != LUO_LENGTH_POLICY_HYDRAULIS) return NULL;
    if (knows_slow(run)) return setup->speed;
    return setup->mixed ? setup->type : NULL;
}

/* The setup with the devices in another order; optimizer state stays where it is. rate: as
 * x->rate, in that order. */
static luo_status reorder(luo_run *run, luo_arena *arena, luo_joint_order order, const double *by,
                          luo_length_setup *out, double **rate, luo_err *err)
{
    luo_run_lengths *x = run->lengths;
    const luo_length_setup *setup = &x->choice.setup;
    const int32_t n = x->in.ndevices;
    int32_t *at = LUO_NEW_N(arena, int32_t, n), *devices = LUO_NEW_N(arena, int32_t, n);
    double *speed = LUO_NEW_N(arena, double, n);
    *rate = LUO_NEW_N(arena, double, n);
    if (!at || !devices || !speed || !*rate) return luo_err_nomem(err);
    LUO_TRY(
        luo_joint_place(arena, run->job.scenario->cluster, x->in.devices, by, n, order, at, err));
    for (int32_t k = 0; k < n; k++) {
        devices[k] = x->in.devices[at[k]];
        speed[k] = setup->speed[at[k]];
        (*rate)[k] = x->rate[at[k]];
    }
    luo_length_setup_copy(out, setup);
    if (!out->place.layout_devices) out->place.layout_devices = x->in.devices;
    out->place.devices = devices;
    luo_length_setup_speeds(out, speed);
    return LUO_OK;
}

/* Kept until rates change: what is known of the candidates for slow devices is kept with them. */
static luo_status make_slow(luo_run *run, luo_joint_order order, const double *by,
                            luo_length_choice **out, luo_err *err)
{
    luo_run_lengths *x = run->lengths;
    luo_length_choice *slow = *out = LUO_NEW(x->slow_arena, luo_length_choice);
    double *rate;
    if (!slow) return luo_err_nomem(err);
    LUO_TRY(reorder(run, x->slow_arena, order, by, &slow->setup, &rate, err));
    LUO_TRY(luo_length_slow_add(x->slow_arena, &x->in, rate, &slow->setup, err));
    return luo_lengths_learn_more(x->slow_arena, &x->choice.learned, &slow->setup.pool,
                                  &slow->setup.found, slow->setup.moved_ms, &slow->learned, err);
}

static luo_status choose_slow(luo_run *run, luo_joint_order order, const double *by,
                              luo_length_plans *out, luo_err *err)
{
    luo_run_lengths *x = run->lengths;
    if (!x->slow[order]) {
        luo_length_choice *made;
        LUO_TRY(make_slow(run, order, by, &made, err));
        x->slow[order] = made;
    }
    luo_length_choice *slow = x->slow[order];
    luo_length_setup_speeds(&slow->setup, slow->setup.speed); /* candidates are shared */
    return choose_on(run, &slow->setup, &slow->learned, slow == x->chosen ? x->current : -1, out,
                     err);
}

static double expected_ms(const luo_length_choice *of, const luo_length_plans *plans)
{
    const int32_t p = plans->step.plan;
    return plans->ms + (p >= 0 ? of->learned.extra_ms[p] : 0);
}

static const double WORTH_IT = 0.99; /* of the time: below that devices go to other replicas */

static luo_status choose_in_order(luo_run *run, luo_joint_order order, const double *by,
                                  luo_length_choice **of, luo_length_plans *out, luo_err *err)
{
    luo_run_lengths *x = run->lengths;
    luo_length_setup setup;
    double *rate;
    *of = &x->choice;
    if (knows_slow(run)) {
        LUO_TRY(choose_slow(run, order, by, out, err));
        *of = x->slow[order];
        return LUO_OK;
    }
    LUO_TRY(reorder(run, x->step_arena, order, by, &setup, &rate, err));
    return choose_on(run, &setup, &x->choice.learned, x->current, out, err);
}

static luo_status choose(luo_run *run, luo_err *err)
{
    luo_run_lengths *x = run->lengths;
    const double *by = sorted_by(run);
    luo_length_choice *chosen = &x->choice;
    LUO_TRY(choose_on(run, &x->choice.setup, &x->choice.learned,
                      x->chosen == &x->choice ? x->current : -1, &x->plans, err));
    for (int order = LUO_JOINT_AS_THEY_ARE + 1; by && order < LUO_JOINT_ORDERS; order++) {
        luo_length_plans plans;
        luo_length_choice *of;
        LUO_TRY(choose_in_order(run, (luo_joint_order)order, by, &of, &plans, err));
        if (expected_ms(of, &plans) >= WORTH_IT * expected_ms(chosen, &x->plans)) continue;
        x->plans = plans;
        chosen = of;
    }
    if (by) luo_length_setup_speeds(&x->choice.setup, x->choice.setup.speed); /* they are shared */
    x->chosen = chosen;
    return LUO_OK;
}

/* What was made for other rates; no plan that is still to be bound lies there. */
static void forget_slow(luo_run_lengths *x)
{
    if (!x->stale) return;
    luo_arena_reset(x->slow_arena, 0);
    for (int order = 0; order < LUO_JOINT_ORDERS; order++) x->slow[order] = NULL;
    if (x->chosen != &x->choice) x->current = -1;
    x->chosen = &x->choice;
    x->stale = false;
}

static luo_status plan_step(luo_run *run, luo_err *err)
{
    luo_run_lengths *x = run->lengths;
    x->step = -1;
    luo_arena_reset(x->step_arena, 0);
    forget_slow(x);
    LUO_TRY(luo_batches_draw(x->step_arena, &x->batches, run->clock.step,
                             luo_step_lengths_at(run->clock.lengths, run->clock.step), &x->length,
                             &x->n, err));
    LUO_TRY(choose(run, err));
    x->step = run->clock.step;
    return LUO_OK;
}

/* Tokens and FLOP of a part are those of its sequences; pads are no data. */
static luo_batch_work work_of(const luo_run *run, const luo_plan *plan)
{
    luo_batch_work work = {0};
    for (int32_t i = 0; i < plan->nassignment; i++) {
        const int64_t tokens = plan->assignment[i].length_tokens;
        work.sequences++;
        work.tokens += tokens;
        work.flops += (double)tokens * luo_model_flops_per_token(run->job.scenario->model, tokens);
    }
    return work;
}

static luo_batch_work work_of_all(const luo_run *run)
{
    luo_batch_work all = {0};
    for (int32_t k = 0; k < run->lengths->plans.n; k++) {
        const luo_batch_work one = work_of(run, run->lengths->plans.part[k].plan);
        all.sequences += one.sequences;
        all.tokens += one.tokens;
        all.flops += one.flops;
    }
    return all;
}

void luo_run_lengths_whole(luo_run *run)
{
    const luo_batch_work work = work_of_all(run);
    run->plans.running = run->lengths->first;
    luo_used_plan *used = luo_run_plan(&run->plans);
    used->sequences = work.sequences;
    used->tokens = work.tokens;
    used->flops = work.flops;
}

luo_status luo_run_lengths_bind(luo_run *run, int32_t part, luo_err *err)
{
    const luo_length_stretch *p = &run->lengths->plans.part[part];
    const luo_batch_work work = work_of(run, p->plan);
    const bool real = run->job.real && run->backend.state;
    luo_used_plan was = {0};
    luo_plan *held = NULL;
    int32_t plan;
    if (real) { /* the frame's last batch goes when it gets a new one */
        was = *luo_run_plan(&run->plans);
        LUO_TRY(luo_plan_copy(run->lengths->step_arena, was.plan, &held, err));
        was.plan = held;
    }
    LUO_TRY(luo_run_use_batch(run, p->frame, p->plan, &work, &plan, err));
    run->lengths->bound = part;
    run->lengths->adopted = true;
    run->lengths->used = plan;
    if (part == 0) run->lengths->first = plan;
    if (real) return luo_run_rebind(run, &was, plan, err);
    run->plans.running = plan;
    run->health.has_predicted = false;
    return LUO_OK;
}

static void ask_all_again(luo_run_lengths *x)
{
    luo_lengths_bar_none(&x->choice.learned);
    for (int order = 0; order < LUO_JOINT_ORDERS; order++)
        if (x->slow[order]) luo_lengths_bar_none(&x->slow[order]->learned);
}

enum { TRIES = 4, TIGHTENED = 16 };
static const double SMALLER = 0.95;

/* The step's plan had no room: micro-batches of that candidate get less, or, every so often and in
 * the end always, another one is taken. *tries: so far. */
static luo_status choose_smaller(luo_run *run, int32_t *tries, luo_err *err)
{
    luo_run_lengths *x = run->lengths;
    const int32_t p = x->plans.step.plan;
    luo_length_choice *of = x->chosen;
    luo_arena *arena = of == &x->choice ? x->setup_arena : x->slow_arena;
    if (++*tries % TRIES != 0 && *tries < TIGHTENED)
        LUO_TRY(luo_length_setup_tighten(arena, &of->setup, p, SMALLER, err));
    else
        luo_lengths_bar(&of->learned, p);
    LUO_TRY(choose(run, err));
    if (!x->chosen->learned.barred[x->plans.step.plan]) return LUO_OK;
    return luo_err_set(err, LUO_EINFEASIBLE, "no plan is left.");
}

/* The same where there are no candidates to choose among. */
static luo_status pack_smaller(luo_run *run, int32_t *tries, luo_err *err)
{
    if (++*tries == TRIES) return luo_err_set(err, LUO_EINFEASIBLE, "no plan is left.");
    luo_length_setup_tighten_all(&run->lengths->choice.setup, SMALLER);
    return choose(run, err);
}

/* The first part of the step's plans. A pool knows memory by replicas alone: where the plan as a
 * whole has no room for this batch, smaller micro-batches or the next best plan are taken. */
static luo_status bind_first(luo_run *run, luo_err *err)
{
    luo_run_lengths *x = run->lengths;
    const bool ours = run->job.policy->rule == LUO_LENGTH_POLICY_HYDRAULIS;
    luo_err first = {0}, why = {0};
    int32_t tries = 0;
    luo_status st = luo_run_lengths_bind(run, 0, &first);
    while (st == LUO_EOOM) {
        st = ours ? choose_smaller(run, &tries, &why) : pack_smaller(run, &tries, &why);
        if (st == LUO_OK) st = luo_run_lengths_bind(run, 0, &why);
    }
    ask_all_again(x);
    if (st == LUO_OK) return LUO_OK;
    const bool room = st == LUO_EINFEASIBLE || first.st == st;
    return luo_err_set(err, room ? first.st : st, "%s", room ? first.text : why.text);
}

static bool is_bound(const luo_run *run)
{
    const luo_run_lengths *x = run->lengths;
    return x->bound == 0 && run->plans.running == x->used && run->plans.list[x->used]->set;
}

luo_status luo_run_lengths_boundary(luo_run *run, luo_err *err)
{
    luo_run_lengths *x = run->lengths;
    const bool changed = update_rates(run);
    if (run->ledger.ckpt.on) luo_batches_forget(&x->batches, run->ledger.ckpt.valid_step);
    if (changed || x->step > run->clock.step)
        luo_planning_restart(&x->planning, run->clock.step, run->clock.t_s);
    if (!changed && x->step == run->clock.step && is_bound(run)) return LUO_OK;
    const bool measured = run->job.spec->planner_measured;
    const double began = measured ? run->job.opts->clock() : 0;
    LUO_TRY(plan_step(run, err));
    if (measured) x->planning.plan_s = run->job.opts->clock() - began;
    const double ready = luo_planning_ready(&x->planning, run->clock.step, run->clock.t_s);
    LUO_TRY(luo_run_span_until(run, LUO_SPAN_PLAN, ready, 0, err));
    LUO_TRY(bind_first(run, err));
    luo_planning_began(&x->planning, run->clock.step, run->clock.t_s);
    return LUO_OK;
}

luo_status luo_run_lengths_rows(luo_run *run, luo_err *err)
{
    const luo_run_lengths *x = run->lengths;
    const luo_sink *sink = run->job.sink;
    if (!sink->assignment || x->plans.n != 1) return LUO_OK;
    const luo_plan *plan = x->plans.part[0].plan;
    int64_t all = 0;
    for (int32_t i = 0; i < plan->npipelines; i++) all += plan->pipelines[i].micro_batches;
    int64_t *first = LUO_NEW_N(run->scratch, int64_t, plan->npipelines + 1);
    int32_t *filled = LUO_NEW_N(run->scratch, int32_t, all);
    if (!first || !filled) return luo_err_nomem(err);
    for (int32_t i = 0; i < plan->npipelines; i++)
        first[i + 1] = first[i] + plan->pipelines[i].micro_batches;
    for (int32_t i = 0; i < plan->nassignment; i++) {
        const luo_assignment *a = &plan->assignment[i];
        const luo_row_assignment row = {.step = run->clock.step,
                                        .sequence = a->sequence,
                                        .length_tokens = a->length_tokens,
                                        .pipeline = a->pipeline,
                                        .micro_batch = a->micro_batch,
                                        .position = filled[first[a->pipeline] + a->micro_batch]++};
        LUO_TRY(sink->assignment(sink->ctx, &row, err));
    }
    return LUO_OK;
}

static const double AS_KNOWN = 1.1; /* slower than this times what is known is news */

/* result: its devices are in the order of their numbers, as those of the setup. */
static bool is_as_known(const luo_run_lengths *x, const luo_used_plan *used,
                        const luo_step_result *result)
{
    for (int32_t i = 0, k = 0; i < result->n; i++) {
        while (k < x->in.ndevices && x->in.devices[k] < used->dev[i]) k++;
        const double rate = k < x->in.ndevices && x->in.devices[k] == used->dev[i] ? x->rate[k] : 1;
        if (result->compute_s[i] > AS_KNOWN * rate * result->predicted_s[i]) return false;
    }
    return true;
}

void luo_run_lengths_learn(luo_run *run, const luo_step_result *result, double seconds)
{
    luo_run_lengths *x = run->lengths;
    const int32_t p = x->plans.step.plan;
    x->current = p;
    if (p >= 0 && !luo_run_judges(run) && is_as_known(x, luo_run_plan(&run->plans), result))
        luo_lengths_learn(&x->chosen->learned, p, x->plans.ms, seconds);
}

/* ---- begin and end ---- */

luo_status luo_run_lengths_begin(luo_run *run, luo_err *err)
{
    const luo_scenario *sc = run->job.scenario;
    const luo_policy_spec *spec = run->job.spec;
    luo_run_lengths *x = run->lengths = LUO_NEW(run->arena, luo_run_lengths);
    double *rate;
    bool *candidate;
    if (!x) return luo_err_nomem(err);
    *x = (luo_run_lengths){.step = -1,
                           .current = -1,
                           .step_arena = luo_arena_new(1 << 16),
                           .slow_arena = luo_arena_new(1 << 16)};
    if (!x->step_arena || !x->slow_arena) return luo_err_nomem(err);
    if (run->job.policy->rule == LUO_LENGTH_POLICY_HOTSPA) LUO_TRY(check_parts(run, err));
    if (!sc->lengths) return check_batch(run, 0, err);
    const int64_t ctx = luo_batches_context(sc);
    LUO_TRY(check_batch(run, ctx, err));
    LUO_TRY(warn_of_cuts(run, ctx, err));
    x->in = setup_in(run, ctx);
    luo_batches_open(sc->lengths, &x->in.rule, x->in.limit, sc->seed, &x->batches);
    LUO_TRY(luo_planning_open(run->arena, spec->planner_measured ? 0 : run->job.cost.planner_s,
                              spec->lengths.workers, spec->lengths.ahead, &x->planning, err));
    LUO_TRY(luo_first_rates(run, &rate, &candidate, err));
    LUO_TRY(set_up(run, rate, candidate, err));
    LUO_TRY(plan_step(run, err));
    return bind_first(run, err);
}

static bool same_devices(const luo_run *run)
{
    const luo_run_lengths *x = run->lengths;
    int32_t i = 0;
    for (int32_t d = 0; d < run->job.scenario->cluster->ndevices; d++) {
        if (!isfinite(run->health.rate[d]) || !run->health.reentry.candidate[d]) continue;
        if (i == x->in.ndevices || x->in.devices[i++] != d) return false;
    }
    return i == x->in.ndevices;
}

luo_status luo_run_lengths_again(void *run_, const luo_plan **frame, luo_err *err)
{
    luo_run *run = run_;
    luo_run_lengths *x = run->lengths;
    *frame = NULL;
    const bool anew = !same_devices(run);
    if (!anew && x->adopted) return LUO_OK;
    if (anew) {
        LUO_TRY(set_up(run, run->health.rate, run->health.reentry.candidate, err));
        x->adopted = false;
        luo_planning_restart(&x->planning, 0, run->clock.t_s);
    }
    LUO_TRY(plan_step(run, err));
    *frame = x->plans.part[0].frame;
    x->step = -1; /* the batch of the checkpoint's step is another one */
    return LUO_OK;
}

void luo_run_lengths_free(luo_run_lengths *x)
{
    if (!x) return;
    luo_batches_free(&x->batches);
    luo_arena_free(x->setup_arena);
    luo_arena_free(x->step_arena);
    luo_arena_free(x->slow_arena);
}
