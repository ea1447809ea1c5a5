/* Batches, choices and programs of the steps of a run. */
#include "core/run/lengths/lengths_run.h"

#include <math.h>
#include <string.h>

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

static void keep_layout(luo_length_choice *choice, const luo_judged_layout *best)
{
    choice->setup.layout = best->layout;
    choice->setup.place.layout_devices = best->devices;
}

static luo_status judge_layouts(luo_run *run, luo_arena *arena, const trial *t,
                                luo_length_choice *choice, luo_err *err)
{
    luo_judged_layout best;
    LUO_TRY(luo_judge_layouts(arena, run->lengths->step_arena, &run->decision.judge,
                              &choice->setup.rivals, &choice->setup.place, t->batch,
                              LUO_JUDGE_BATCHES, t->rate, &best, err));
    keep_layout(choice, &best);
    choice->setup.moved_ms = best.moved_ms;
    if (best.alike >= 0) choice->setup.rivals.uniform = best.alike;
    choice->learned = best.learned;
    return LUO_OK;
}

/* Of one_plan or hotspa. Ours has the plan of one_plan among its own; where its state lies is its
 * own affair. */
static luo_status judge_rival_layout(luo_run *run, luo_arena *arena, const trial *t,
                                     luo_length_policy rival, luo_length_choice *choice,
                                     luo_err *err)
{
    luo_judged_layout best;
    LUO_TRY(luo_judge_rival_layout(arena, run->lengths->step_arena, &run->decision.judge, rival,
                                   &choice->setup.rivals, &choice->setup.place, t->batch,
                                   LUO_JUDGE_BATCHES, t->rate, &best, err));
    if (run->job.policy->rule == rival && isfinite(best.seconds)) keep_layout(choice, &best);
    return LUO_OK;
}

static luo_status judge_choice(luo_run *run, luo_arena *arena, const luo_length_setup_in *in,
                               const double *place, luo_length_choice *choice, luo_err *err)
{
    const luo_length_policy policy = run->job.policy->rule;
    const bool ours = policy == LUO_LENGTH_POLICY_HYDRAULIS;
    trial t;
    luo_length_setup_rates(&choice->setup, place);
    LUO_TRY(open_trial(run, in, place, &t, err));
    if (ours || policy == LUO_LENGTH_POLICY_ONE_PLAN)
        LUO_TRY(judge_rival_layout(run, arena, &t, LUO_LENGTH_POLICY_ONE_PLAN, choice, err));
    else if (policy == LUO_LENGTH_POLICY_HOTSPA)
        LUO_TRY(judge_rival_layout(run, arena, &t, policy, choice, err));
    else
        LUO_TRY(luo_judge_rival(run->lengths->step_arena, &run->decision.judge, policy,
                                &choice->setup.place, t.batch, LUO_JUDGE_BATCHES, t.rate,
                                &choice->setup.rivals, err));
    return ours ? judge_layouts(run, arena, &t, choice, err) : LUO_OK;
}

/* Where plans are simulated, so is what is chosen once for all steps. */
static luo_status choose_once(luo_run *run, luo_arena *arena, const luo_length_setup_in *in,
                              const double *place, luo_length_choice *choice, luo_err *err)
{
    LUO_TRY(luo_lengths_learn_open(arena, &choice->setup.pool, &choice->setup.found,
                                   choice->setup.moved_ms, &choice->learned, err));
    if (!luo_run_judges(run)) return LUO_OK;
    const size_t mark = luo_arena_mark(run->lengths->step_arena);
    const luo_status st = judge_choice(run, arena, in, place, choice, err);
    luo_arena_reset(run->lengths->step_arena, mark);
    return st;
}

static luo_status make_choice(luo_run *run, luo_arena *arena, luo_length_setup_in *in,
                              const double *rate, const bool *candidate, double **place,
                              luo_length_choice **out, luo_err *err)
{
    const int32_t all = run->job.scenario->cluster->ndevices;
    luo_length_choice *choice = *out = LUO_NEW(arena, luo_length_choice);
    int32_t *devices = LUO_NEW_N(arena, int32_t, all);
    *place = LUO_NEW_N(arena, double, all);
    if (!choice || !devices || !*place) return luo_err_nomem(err);
    in->ndevices = 0;
    for (int32_t d = 0; d < all; d++) {
        if (!isfinite(rate[d]) || !candidate[d]) continue;
        (*place)[in->ndevices] = knows_rates(run) ? fmax(1, rate[d]) : 1;
        devices[in->ndevices++] = d;
    }
    in->devices = devices;
    if (in->ndevices == 0)
        return luo_err_set(err, LUO_EINFEASIBLE, "no device of the cluster is usable.");
    LUO_TRY(luo_length_setup_make(arena, in, &choice->setup, err));
    return choose_once(run, arena, in, *place, choice, err);
}

/* All that is chosen once for the devices with a finite rate; *run->lengths changes only if that
 * succeeds. */
static luo_status set_up(luo_run *run, const double *rate, const bool *candidate, luo_err *err)
{
    luo_run_lengths *lengths = run->lengths;
    luo_arena *arena = luo_arena_new(1 << 20);
    luo_length_setup_in in = lengths->orders.in;
    luo_length_choice *chosen;
    double *place;
    if (!arena) return luo_err_nomem(err);
    const luo_status st = make_choice(run, arena, &in, rate, candidate, &place, &chosen, err);
    if (st != LUO_OK) {
        luo_arena_free(arena);
        return st;
    }
    luo_arena_free(lengths->setup_arena);
    lengths->setup_arena = arena;
    lengths->orders.in = in;
    luo_length_setup_copy(&lengths->orders.choice.setup, &chosen->setup);
    lengths->orders.choice.learned = chosen->learned;
    lengths->orders.rate = place;
    lengths->stale = true;
    lengths->chosen = &lengths->orders.choice;
    lengths->current = -1;
    lengths->step = -1;
    luo_length_setup_rates(&lengths->orders.choice.setup, lengths->orders.rate);
    return LUO_OK;
}

/* ---- a step ---- */

/* What the planner knows of slow devices has changed: its plans are for another world. */
static bool update_rates(luo_run *run)
{
    luo_run_lengths *lengths = run->lengths;
    bool changed = false;
    for (int32_t i = 0; i < lengths->orders.in.ndevices && knows_rates(run); i++) {
        const double rate = fmax(1, run->health.detect.accepted[lengths->orders.in.devices[i]]);
        changed |= rate != lengths->orders.rate[i];
        lengths->orders.rate[i] = rate;
    }
    if (!changed) return false;
    luo_length_setup_rates(&lengths->orders.choice.setup, lengths->orders.rate);
    luo_lengths_forget(&lengths->orders.choice.learned);
    lengths->stale = true;
    return true;
}

static luo_status choose(luo_run *run, luo_err *err)
{
    luo_run_lengths *lengths = run->lengths;
    const luo_orders_ask ask = {
        .policy = run->job.policy->rule,
        .judge = luo_run_judges(run) ? &run->decision.judge : NULL,
        .joint = run->job.spec->lengths.stragglers == LUO_STRAGGLERS_JOINT,
        .length = lengths->length,
        .n = lengths->n,
        .chosen = lengths->chosen,
        .current = lengths->current,
    };
    luo_orders_answer answer;
    LUO_TRY(luo_orders_choose(lengths->step_arena, &lengths->orders, &ask, &answer, err));
    lengths->plans = answer.judged.plans;
    lengths->chosen = answer.of;
    return LUO_OK;
}

/* What was made for other rates; no plan that is still to be bound lies there. */
static luo_status forget_slow(luo_run_lengths *lengths, luo_err *err)
{
    if (!lengths->stale) return LUO_OK;
    LUO_TRY(luo_orders_forget(&lengths->orders, err));
    if (lengths->chosen != &lengths->orders.choice) lengths->current = -1;
    lengths->chosen = &lengths->orders.choice;
    lengths->stale = false;
    return LUO_OK;
}

static luo_status plan_step(luo_run *run, luo_err *err)
{
    luo_run_lengths *lengths = run->lengths;
    lengths->step = -1;
    luo_arena_reset(lengths->step_arena, 0);
    LUO_TRY(forget_slow(lengths, err));
    LUO_TRY(luo_batches_draw(lengths->step_arena, &lengths->batches, run->clock.step,
                             luo_step_lengths_at(run->clock.lengths, run->clock.step),
                             &lengths->length, &lengths->n, err));
    LUO_TRY(choose(run, err));
    lengths->step = run->clock.step;
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
    const luo_length_stretch *stretch = &run->lengths->plans.part[part];
    const luo_batch_work work = work_of(run, stretch->plan);
    const bool real = run->job.real && run->backend.state;
    luo_used_plan was = {0};
    luo_plan *held = NULL;
    int32_t plan;
    if (real) { /* the frame's last batch goes when it gets a new one */
        was = *luo_run_plan(&run->plans);
        LUO_TRY(luo_plan_copy(run->lengths->step_arena, was.plan, &held, err));
        was.plan = held;
    }
    LUO_TRY(luo_run_use_batch(run, stretch->frame, stretch->plan, &work, &plan, err));
    run->lengths->bound = part;
    run->lengths->adopted = true;
    run->lengths->used = plan;
    if (part == 0) run->lengths->first = plan;
    if (real) return luo_run_rebind(run, &was, plan, err);
    run->plans.running = plan;
    run->health.has_predicted = false;
    return LUO_OK;
}

enum { TRIES = 4, TIGHTENED = 16 };
static const double SMALLER = 0.95;

/* The step's plan had no room: micro-batches of that candidate get less, or, every so often and in
 * the end always, another one is taken. *tries: so far. */
static luo_status choose_smaller(luo_run *run, int32_t *tries, luo_err *err)
{
    luo_run_lengths *lengths = run->lengths;
    const int32_t p = lengths->plans.step.plan;
    luo_length_choice *of = lengths->chosen;
    luo_arena *arena = of == &lengths->orders.choice ? lengths->setup_arena : lengths->orders.arena;
    if (++*tries % TRIES != 0 && *tries < TIGHTENED)
        LUO_TRY(luo_length_setup_tighten(arena, &of->setup, p, SMALLER, err));
    else
        luo_lengths_bar(&of->learned, p);
    LUO_TRY(choose(run, err));
    if (!lengths->chosen->learned.barred[lengths->plans.step.plan]) return LUO_OK;
    return luo_err_set(err, LUO_EINFEASIBLE, "no plan is left.");
}

/* The same where there are no candidates to choose among. */
static luo_status pack_smaller(luo_run *run, int32_t *tries, luo_err *err)
{
    if (++*tries == TRIES) return luo_err_set(err, LUO_EINFEASIBLE, "no plan is left.");
    luo_length_setup_tighten_all(&run->lengths->orders.choice.setup, SMALLER);
    return choose(run, err);
}

/* The first part, once all others are known to have room as well. */
static luo_status bind_all(luo_run *run, luo_err *err)
{
    const luo_length_plans *plans = &run->lengths->plans;
    for (int32_t k = 1; k < plans->n; k++) LUO_TRY(luo_run_fits(run, plans->part[k].plan, err));
    return luo_run_lengths_bind(run, 0, err);
}

/* The first part of the step's plans. A pool knows memory by replicas alone: where the plan as a
 * whole has no room for this batch, smaller micro-batches or the next best plan are taken. */
static luo_status bind_first(luo_run *run, luo_err *err)
{
    luo_run_lengths *lengths = run->lengths;
    const bool ours = run->job.policy->rule == LUO_LENGTH_POLICY_HYDRAULIS;
    luo_err first = {0}, why = {0};
    int32_t tries = 0;
    luo_status st = bind_all(run, &first);
    while (st == LUO_EOOM) {
        st = ours ? choose_smaller(run, &tries, &why) : pack_smaller(run, &tries, &why);
        if (st == LUO_OK) st = bind_all(run, &why);
    }
    luo_orders_bar_none(&lengths->orders);
    if (st == LUO_OK) return LUO_OK;
    const bool room = st == LUO_EINFEASIBLE || first.st == st;
    return luo_err_set(err, room ? first.st : st, "%s", room ? first.text : why.text);
}

static bool is_bound(const luo_run *run)
{
    const luo_run_lengths *lengths = run->lengths;
    return lengths->bound == 0 && run->plans.running == lengths->used &&
           run->plans.list[lengths->used]->set;
}

luo_status luo_run_lengths_boundary(luo_run *run, luo_err *err)
{
    luo_run_lengths *lengths = run->lengths;
    const bool changed = update_rates(run);
    if (run->ledger.ckpt.on) luo_batches_forget(&lengths->batches, run->ledger.ckpt.valid_step);
    if (changed || lengths->step > run->clock.step)
        luo_planning_restart(&lengths->planning, run->clock.step, run->clock.t_s);
    if (!changed && lengths->step == run->clock.step && is_bound(run)) return LUO_OK;
    const bool measured = run->job.spec->planner_measured;
    const double began = measured ? run->job.opts->clock() : 0;
    LUO_TRY(plan_step(run, err));
    if (measured) lengths->planning.plan_s = run->job.opts->clock() - began;
    const double ready = luo_planning_ready(&lengths->planning, run->clock.step, run->clock.t_s);
    LUO_TRY(luo_run_span_until(run, LUO_SPAN_PLAN, ready, 0, err));
    LUO_TRY(bind_first(run, err));
    luo_planning_began(&lengths->planning, run->clock.step, run->clock.t_s);
    return LUO_OK;
}

luo_status luo_run_lengths_rows(luo_run *run, luo_err *err)
{
    const luo_run_lengths *lengths = run->lengths;
    const luo_sink *sink = run->job.sink;
    if (!sink->assignment || lengths->plans.n != 1) return LUO_OK;
    const luo_plan *plan = lengths->plans.part[0].plan;
    int64_t all = 0;
    for (int32_t i = 0; i < plan->npipelines; i++) all += plan->pipelines[i].micro_batches;
    int64_t *first = LUO_NEW_N(run->scratch, int64_t, plan->npipelines + 1);
    int32_t *filled = LUO_NEW_N(run->scratch, int32_t, all);
    if (!first || !filled) return luo_err_nomem(err);
    for (int32_t i = 0; i < plan->npipelines; i++)
        first[i + 1] = first[i] + plan->pipelines[i].micro_batches;
    for (int32_t i = 0; i < plan->nassignment; i++) {
        const luo_assignment *assignment = &plan->assignment[i];
        const luo_row_assignment row = {
            .step = run->clock.step,
            .sequence = assignment->sequence,
            .length_tokens = assignment->length_tokens,
            .pipeline = assignment->pipeline,
            .micro_batch = assignment->micro_batch,
            .position = filled[first[assignment->pipeline] + assignment->micro_batch]++};
        LUO_TRY(sink->assignment(sink->ctx, &row, err));
    }
    return LUO_OK;
}

static const double AS_KNOWN = 1.1; /* slower than this times what is known is news */

/* result: its devices are in the order of their numbers, as those of the setup. */
static bool is_as_known(const luo_run_lengths *lengths, const luo_used_plan *used,
                        const luo_step_result *result)
{
    const luo_length_setup_in *in = &lengths->orders.in;
    for (int32_t i = 0, k = 0; i < result->n; i++) {
        while (k < in->ndevices && in->devices[k] < used->dev[i]) k++;
        const bool planned = k < in->ndevices && in->devices[k] == used->dev[i];
        const double rate = planned ? lengths->orders.rate[k] : 1;
        if (result->compute_s[i] > AS_KNOWN * rate * result->predicted_s[i]) return false;
    }
    return true;
}

void luo_run_lengths_learn(luo_run *run, const luo_step_result *result, double seconds)
{
    luo_run_lengths *lengths = run->lengths;
    const int32_t p = lengths->plans.step.plan;
    lengths->current = p;
    if (p < 0 || !is_as_known(lengths, luo_run_plan(&run->plans), result)) return;
    luo_orders_learn(&lengths->orders, seconds);
    if (!luo_run_judges(run))
        luo_lengths_learn(&lengths->chosen->learned, p, lengths->plans.ms, seconds);
}

/* ---- begin and end ---- */

luo_status luo_run_lengths_begin(luo_run *run, luo_err *err)
{
    const luo_scenario *sc = run->job.scenario;
    const luo_policy_spec *spec = run->job.spec;
    luo_run_lengths *lengths = run->lengths = LUO_NEW(run->arena, luo_run_lengths);
    double *rate;
    bool *candidate;
    if (!lengths) return luo_err_nomem(err);
    *lengths = (luo_run_lengths){.step = -1, .current = -1, .step_arena = luo_arena_new(1 << 16)};
    if (!lengths->step_arena) return luo_err_nomem(err);
    if (run->job.policy->rule == LUO_LENGTH_POLICY_HOTSPA) LUO_TRY(check_parts(run, err));
    if (!sc->lengths) return check_batch(run, 0, err);
    const int64_t ctx = luo_batches_context(sc);
    LUO_TRY(check_batch(run, ctx, err));
    LUO_TRY(warn_of_cuts(run, ctx, err));
    lengths->orders.in = setup_in(run, ctx);
    luo_batches_open(sc->lengths, &lengths->orders.in.rule, lengths->orders.in.limit, sc->seed,
                     &lengths->batches);
    LUO_TRY(luo_planning_open(run->arena, spec->planner_measured ? 0 : run->job.cost.planner_s,
                              spec->lengths.workers, spec->lengths.ahead, &lengths->planning, err));
    LUO_TRY(luo_first_rates(run, &rate, &candidate, err));
    LUO_TRY(set_up(run, rate, candidate, err));
    LUO_TRY(plan_step(run, err));
    return bind_first(run, err);
}

static bool same_devices(const luo_run *run)
{
    const luo_run_lengths *lengths = run->lengths;
    int32_t i = 0;
    for (int32_t d = 0; d < run->job.scenario->cluster->ndevices; d++) {
        if (!isfinite(run->health.rate[d]) || !run->health.reentry.candidate[d]) continue;
        if (i == lengths->orders.in.ndevices || lengths->orders.in.devices[i++] != d) return false;
    }
    return i == lengths->orders.in.ndevices;
}

luo_status luo_run_lengths_again(void *run_, const luo_plan **frame, luo_err *err)
{
    luo_run *run = run_;
    luo_run_lengths *lengths = run->lengths;
    *frame = NULL;
    const bool anew = !same_devices(run);
    if (!anew && lengths->adopted) return LUO_OK;
    if (anew) {
        LUO_TRY(set_up(run, run->health.rate, run->health.reentry.candidate, err));
        lengths->adopted = false;
        luo_planning_restart(&lengths->planning, 0, run->clock.t_s);
    }
    LUO_TRY(plan_step(run, err));
    *frame = lengths->plans.part[0].frame;
    lengths->step = -1; /* the batch of the checkpoint's step is another one */
    return LUO_OK;
}

void luo_run_lengths_free(luo_run_lengths *lengths)
{
    if (!lengths) return;
    luo_batches_free(&lengths->batches);
    luo_arena_free(lengths->setup_arena);
    luo_arena_free(lengths->step_arena);
    luo_orders_free(&lengths->orders);
}
