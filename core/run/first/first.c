/* The plan that a run begins with: given, or made by a planner
 * (docs/formats.md#luoshuscenario1). */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "core/base/words.h"
#include "core/plan/malleus/malleus_job.h"
#include "core/run/first/first.h"
#include "core/run/lengths/lengths_run.h"
#include "core/run/policy/offers.h"
#include "core/run/run.h"

/* ---- given ---- */

/* Micro-batches of a given plan for the batch of the scenario: in proportion, largest remainder,
 * ties to the smaller index (docs/annotations.md#cutting-by-shares); exact when the batch is the
 * plan's own. */
static luo_status deal_batch(luo_run *run, const luo_plan *plan, luo_plan *out, luo_err *err)
{
    const int32_t n = plan->npipelines, size = plan->pipelines[0].micro_batch_sequences;
    int64_t was = 0, given = 0;
    for (int32_t i = 0; i < n; i++) {
        was += plan->pipelines[i].micro_batches;
        if (plan->pipelines[i].micro_batch_sequences != size ||
            plan->pipelines[i].micro_batch_tokens)
            return luo_err_set(err, LUO_EINPUT,
                               "plan `%s` has pipelines with different "
                               "micro-batches; leave `batch` to the plan.",
                               plan->name);
    }
    if (run->job.scenario->batch_sequences % size)
        return luo_err_set(err, LUO_EINPUT,
                           "a batch of %" PRId64 " sequences is not a multiple of "
                           "the plan's micro-batches of %d; another batch is needed.",
                           run->job.scenario->batch_sequences, size);
    const int64_t M = run->job.scenario->batch_sequences / size;
    LUO_TRY(luo_work_check(run->job.opts->work, LUO_WORK_MICRO_BATCHES, (double)M,
                           "the batch gives", err));
    if (M < n)
        return luo_err_set(err, LUO_EINPUT, "the batch gives %" PRId64 " micro-batches for %d "
                           "pipelines; at least one each is needed.", M, n);
    luo_pipeline *pl = LUO_NEW_N(run->arena, luo_pipeline, n);
    int64_t *rest = LUO_NEW_N(run->arena, int64_t, n);
    if (!pl || !rest) return luo_err_nomem(err);
    for (int32_t i = 0; i < n; i++) {
        pl[i] = plan->pipelines[i];
        const int64_t share = M * pl[i].micro_batches;
        rest[i] = share % was;
        pl[i].micro_batches = (int32_t)(share / was);
        if (pl[i].micro_batches == 0) { /* each needs one */
            pl[i].micro_batches = 1;
            rest[i] = -1;
        }
        given += pl[i].micro_batches;
    }
    for (; given < M; given++) {
        int32_t to = 0;
        for (int32_t i = 1; i < n; i++)
            if (rest[i] > rest[to]) to = i;
        pl[to].micro_batches++;
        rest[to] = -1;
    }
    for (; given > M; given--) {
        int32_t from = 0;
        for (int32_t i = 1; i < n; i++)
            if (pl[i].micro_batches > pl[from].micro_batches) from = i;
        pl[from].micro_batches--;
    }
    *out = *plan;
    out->pipelines = pl;
    return LUO_OK;
}

static luo_status use_given(luo_run *run, const luo_plan *given, luo_err *err)
{
    luo_plan dealt = *given;
    if (run->job.scenario->batch_sequences > 0 &&
        luo_plan_sequences(given) != run->job.scenario->batch_sequences)
        LUO_TRY(deal_batch(run, given, &dealt, err));
    if (run->job.spec->optimizer_step)
        dealt.staggered = run->job.spec->optimizer_step == LUO_STEP_STAGGERED;
    return luo_run_use_plan(run, &dealt, luo_run_tokens(run, &dealt), &run->plans.running, err);
}

/* ---- made ---- */

luo_status luo_first_batch(const luo_run *run, const char *planner, luo_err *err)
{
    if (run->job.scenario->batch_sequences > 0) return LUO_OK;
    return luo_err_set(err, LUO_EINPUT, "planner `%s` needs to know the batch; give "
                       "`data.batch.sequences` or a plan.", planner);
}

luo_uniform_opts luo_first_opts(const luo_run *run, int32_t top)
{
    const luo_scenario *sc = run->job.scenario;
    return (luo_uniform_opts){.staggered = run->job.spec->optimizer_step == LUO_STEP_STAGGERED,
                              .batch_sequences = sc->batch_sequences,
                              .top = top,
                              .zero = -1,
                              .recompute = -1,
                              .sequence_tokens = sc->length_tokens > 0
                                                     ? sc->length_tokens
                                                     : sc->model->max_sequence_tokens,
                              .sequence_parallel = true,
                              .stack = &sc->stack,
                              .work = run->job.opts->work};
}

enum { OFFERS = 8, FAMILIES = 4 };

luo_status luo_first_use(luo_run *run, const luo_plan *const *plan, int32_t n, luo_err *err)
{
    luo_status st = LUO_EOOM;
    for (int32_t i = 0; i < n && st == LUO_EOOM; i++)
        st = luo_run_use_plan(run, plan[i], luo_run_tokens(run, plan[i]), &run->plans.running, err);
    if (st == LUO_EOOM && err) st = err->st = LUO_EINFEASIBLE;
    return st;
}

luo_status luo_first_rates(luo_run *run, double **rate, bool **candidate, luo_err *err)
{
    const luo_cluster *cluster = run->job.scenario->cluster;
    luo_world *world;
    LUO_TRY(luo_world_new(run->arena, cluster, &world, err));
    *rate = LUO_NEW_N(run->arena, double, cluster->ndevices);
    *candidate = LUO_NEW_N(run->arena, bool, cluster->ndevices);
    if (!*rate || !*candidate) return luo_err_nomem(err);
    for (int32_t d = 0; d < cluster->ndevices; d++) {
        (*rate)[d] = world->up[d] ? 1 : (double)INFINITY;
        (*candidate)[d] = true;
    }
    for (int32_t i = 0; i < cluster->nstandby; i++) (*candidate)[cluster->standby[i]] = false;
    return LUO_OK;
}

/* The best of the uniform planner: by simulated step where plans are ranked by it, else by its
 * closed form, and then the first whose compiled form fits. */
luo_status luo_first_uniform(luo_run *run, luo_err *err)
{
    const luo_scenario *sc = run->job.scenario;
    const bool judged = luo_run_judges(run);
    luo_uniform_opts opts = luo_first_opts(run, OFFERS);
    luo_uniform_result *offer;
    luo_judged_plan *best;
    const luo_plan *plan[OFFERS + FAMILIES];
    double *rate;
    bool *candidate;
    int32_t n;
    LUO_TRY(luo_first_batch(run, "uniform", err));
    if (judged) opts.families = FAMILIES;
    LUO_TRY(luo_plan_uniform(run->arena, sc->model, sc->cluster, &opts, &offer, &n, err));
    for (int32_t i = 0; i < n; i++) plan[i] = offer[i].plan;
    if (judged) {
        LUO_TRY(luo_first_rates(run, &rate, &candidate, err));
        LUO_TRY(luo_judge_uniform(run->arena, &run->decision.judge, offer, n,
                                  luo_run_tokens(run, plan[0]), rate, &best, &n, err));
        for (int32_t i = 0; i < n; i++) plan[i] = best[i].result->plan;
    }
    return luo_first_use(run, plan, n, err);
}

typedef struct start { /* what plans are asked with */
    luo_run *run;
    const luo_malleus_job *job;
} start;

static luo_status step_s(void *start_, const luo_plan *plan, double *seconds, luo_err *err)
{
    const start *x = start_;
    return luo_judge_step(&x->run->decision.judge, plan, luo_run_tokens(x->run, plan), x->job->rate,
                          seconds, err);
}

/* What every policy would take for these devices, the fastest by simulated step. */
static luo_status best_of_all(luo_run *run, const luo_malleus_job *job,
                              const luo_uniform_result *uniform, int32_t n, luo_err *err)
{
    const luo_pipeline *first = &job->base->pipelines[0];
    const int32_t ndevices = run->job.scenario->cluster->ndevices;
    bool *none = LUO_NEW_N(run->arena, bool, ndevices);
    double *rate = LUO_NEW_N(run->arena, double, ndevices);
    const luo_plan *plan[LUO_OFFERS];
    start x = {run, job};
    luo_offers offers;
    if (!none || !rate) return luo_err_nomem(err);
    for (int32_t d = 0; d < ndevices; d++)
        rate[d] = job->candidate[d] ? job->rate[d] : (double)INFINITY;
    const luo_snapshot now = {.scenario = run->job.scenario,
                              .spec = run->job.spec,
                              .base = job->base,
                              .plan = job->base,
                              .rate = rate,
                              .leaving = none,
                              .candidate = job->candidate,
                              .micro_batches =
                                  run->job.scenario->batch_sequences / first->micro_batch_sequences,
                              .sequence_tokens = job->sequence_tokens,
                              .memory_factor = 1,
                              .step_s = step_s,
                              .run = &x};
    LUO_TRY(luo_offers_all(run->arena, &now, job, &offers, err));
    for (int32_t i = 0; i < n; i++)
        luo_offers_add(&offers, "uniform", uniform[i].plan, uniform[i].objective_s);
    LUO_TRY(luo_offers_judge(&offers, &now, err));
    for (int32_t i = 0; i < offers.n; i++) plan[i] = offers.at[i].plan;
    return luo_first_use(run, plan, offers.n, err);
}

enum { TRIES = 8 };

/* Caps are estimates; what does not fit is planned with less memory. */
static luo_status best_of_search(luo_run *run, luo_malleus_job *job, luo_err *err)
{
    luo_malleus_answer answer;
    luo_status st = LUO_EOOM;
    for (int i = 0; i < TRIES && st == LUO_EOOM; i++) {
        LUO_TRY(luo_plan_malleus(run->arena, job, &answer, err));
        st = luo_run_use_plan(run, answer.plan, luo_run_tokens(run, answer.plan),
                              &run->plans.running, err);
        job->memory_factor *= 0.9;
    }
    if (st == LUO_EOOM && err) st = err->st = LUO_EINFEASIBLE;
    return st;
}

/* Types of devices that differ get shares that differ: the straggler planner on base rates, from
 * the best uniform plan; beside it, where plans are simulated, what policy `malleus` asks. No seed
 * of the scenario enters, so runs of several seeds begin alike. */
luo_status luo_first_malleus(luo_run *run, luo_err *err)
{
    const luo_scenario *sc = run->job.scenario;
    const bool judged = luo_run_judges(run);
    const luo_uniform_opts opts = luo_first_opts(run, judged ? OFFERS : 1);
    luo_uniform_result *base;
    double *rate;
    bool *candidate;
    int32_t n;
    LUO_TRY(luo_first_batch(run, "malleus", err));
    LUO_TRY(
        luo_plan_uniform_fitting(run->arena, sc->model, sc->cluster, &opts, &base, &n, NULL, err));
    LUO_TRY(luo_first_rates(run, &rate, &candidate, err));
    luo_malleus_job job = {.model = sc->model,
                           .cluster = sc->cluster,
                           .stack = &sc->stack,
                           .base = base->plan,
                           .rate = rate,
                           .candidate = candidate,
                           .sequence_tokens = luo_run_tokens(run, base->plan),
                           .memory_factor = 1};
    return judged ? best_of_all(run, &job, base, n, err) : best_of_search(run, &job, err);
}

static const struct {
    const char *name;
    luo_status (*plan)(luo_run *r, luo_err *err);
} planners[] = {
#define LUO_PLANNER(name, says, options) {#name, luo_first_##name},
#include "core/run/first/planners.inc"
#undef LUO_PLANNER
};

luo_status luo_run_first_plan(luo_run *run, luo_err *err)
{
    const char *planner =
        run->job.spec->planner ? run->job.spec->planner : run->job.scenario->planner;
    luo_run_set_judge(run);
    if (run->job.policy->lengths) return luo_run_lengths_begin(run, err);
    if (run->job.spec->plan) return use_given(run, run->job.spec->plan, err);
    if (!run->job.spec->planner && run->job.scenario->plan)
        return use_given(run, run->job.scenario->plan, err);
    if (!planner) return luo_first_uniform(run, err);
    for (size_t i = 0; i < sizeof planners / sizeof *planners; i++)
        if (strcmp(planner, planners[i].name) == 0) return planners[i].plan(run, err);
    const char *names[sizeof planners / sizeof *planners];
    luo_str text = {0};
    for (size_t i = 0; i < sizeof planners / sizeof *planners; i++) names[i] = planners[i].name;
    luo_words_choices(&text, names, sizeof planners / sizeof *planners);
    const luo_status st = luo_err_set(err, LUO_EINPUT,
                                      "planner `%s` cannot start a run; %s is expected, or a plan "
                                      "file.",
                                      planner, luo_str_get(&text));
    luo_str_free(&text);
    return st;
}
