/* Plans of a run: checked, compiled once per length of sequence, weighed, and what running them
 * needs (docs/formats.md#luoshuplan1; ARCHITECTURE.md). */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "core/base/vec.h"
#include "core/plan/annotate.h"
#include "core/run/policy/judge_range.h"
#include "core/run/run.h"

int64_t luo_run_tokens(const luo_run *run, const luo_plan *plan)
{
    const int64_t tokens = luo_step_lengths_at(run->clock.lengths, run->clock.step);
    if (tokens > 0) return tokens;
    return run->job.scenario->length_tokens > 0 ? run->job.scenario->length_tokens
                                                : plan->sequence_tokens;
}

const luo_expert_load *luo_run_load(const luo_scenario *scenario, int64_t step)
{
    int32_t lo = 0, hi = scenario->nloads; /* those before lo have begun */
    while (lo < hi) {
        const int32_t mid = lo + (hi - lo) / 2;
        if (scenario->loads[mid].step <= step) lo = mid + 1;
        else hi = mid;
    }
    return lo > 0 ? &scenario->loads[lo - 1] : NULL;
}

/* The first plan keeps off the devices that are down in the cluster file; later ones know better
 * who is up. */
static luo_status check_plan(luo_run *run, const luo_plan *plan, luo_err *err)
{
    luo_cluster now = *run->job.scenario->cluster;
    luo_plan_finding *finding;
    int32_t n = 0;
    if (run->plans.n > 0) now.nhealth = 0;
    const luo_status st =
        luo_plan_check(run->scratch, plan, run->job.scenario->model, &now, &finding, &n);
    if (st == LUO_OK) return LUO_OK;
    return n > 0 ? luo_err_set(err, finding[0].st, "plan `%s` %s: %s", plan->name,
                               finding[0].pointer, finding[0].text)
                 : luo_err_nomem(err);
}

static luo_status warn_of_operations(luo_run *run, const luo_used_plan *used, luo_err *err)
{
    luo_err why = {0};
    if (run->job.opts->trace.kind == LUO_TRACE_NONE || !run->job.sink->ops) return LUO_OK;
    if (luo_work_check(run->job.opts->work, LUO_WORK_OPERATIONS, used->operations,
                       "steps are not traced: the plan has", &why) == LUO_OK)
        return LUO_OK;
    return luo_run_warn(run, err, "%s", why.text);
}

static luo_status describe(luo_run *run, luo_used_plan *used, luo_err *err)
{
    const luo_cluster *cluster = run->job.scenario->cluster;
    if (!used->dev) used->dev = LUO_NEW_N(run->arena, int32_t, cluster->ndevices);
    if (!used->member) used->member = LUO_NEW_N(run->arena, bool, cluster->ndevices);
    used->ndev = used->set->n;
    used->program_hash = used->set->hash;
    used->peak_flops = 0;
    used->micro_batches = 0;
    if (!used->dev || !used->member) return luo_err_nomem(err);
    memset(used->member, 0, (size_t)cluster->ndevices * sizeof *used->member);
    for (int32_t i = 0; i < used->set->n; i++) {
        used->dev[i] = used->set->at[i].device;
        used->member[used->dev[i]] = true;
        used->peak_flops +=
            luo_cluster_profile(cluster, used->dev[i])->peak_flops[used->plan->dtype];
    }
    for (int32_t i = 0; i < used->plan->npipelines; i++)
        used->micro_batches += used->plan->pipelines[i].micro_batches;
    used->sequences = luo_plan_sequences(used->plan);
    used->tokens = used->sequence_tokens == used->plan->sequence_tokens
                       ? luo_plan_tokens(used->plan)
                       : used->sequences * used->sequence_tokens;
    used->flops = (double)used->tokens *
                  luo_model_flops_per_token(run->job.scenario->model, used->sequence_tokens);
    int64_t parameters = 0;
    LUO_TRY(luo_model_parameters(run->job.scenario->model, &parameters, err));
    static const int64_t state[] = {14, 12, 24}; /* weight and two moments; bf16: and a master */
    used->state_bytes = parameters * state[used->plan->dtype];
    used->write_s = luo_ckpt_write_seconds(run->job.scenario, used);
    return LUO_OK;
}

luo_status luo_run_measured(luo_run_job *job, luo_used_plan *used, const luo_step_result *result,
                            luo_err *err)
{
    luo_row_memory *rows = used->memory;
    used->memory = NULL;
    for (int32_t i = 0; rows && job->sink->memory && i < used->nmemory; i++) {
        if (result && result->memory_bytes) rows[i].measured_bytes = result->memory_bytes[i];
        LUO_TRY(job->sink->memory(job->sink->ctx, &rows[i], err));
    }
    return LUO_OK;
}

static luo_status list_memory(luo_run *run, luo_used_plan *used, int32_t index,
                              const luo_memory *memory, luo_err *err)
{
    used->memory =
        LUO_NEW_N(run->job.real ? run->arena : run->scratch, luo_row_memory, used->set->n);
    if (!used->memory) return luo_err_nomem(err);
    used->nmemory = used->set->n;
    for (int32_t i = 0; i < used->set->n; i++) {
        const luo_program *program = &used->set->at[i];
        const luo_profile *prof = luo_cluster_profile(run->job.scenario->cluster, program->device);
        used->memory[i] = (luo_row_memory){.plan = index,
                                           .device = program->device,
                                           .pipeline = program->pipeline,
                                           .stage = program->stage,
                                           .memory = memory[i],
                                           .capacity_bytes = (int64_t)prof->memory_bytes,
                                           .reserved_bytes = (int64_t)prof->reserved_bytes};
    }
    return LUO_OK;
}

/* Rows of memory.csv are written at once, or, where use is measured, after the first step; of a
 * frame, for its first batch. */
static luo_status weigh(luo_run *run, luo_used_plan *used, int32_t index, luo_err *err)
{
    luo_memory *memory = LUO_NEW_N(run->scratch, luo_memory, used->set->n);
    if (!memory) return luo_err_nomem(err);
    LUO_TRY(luo_plan_memory(run->scratch, used->set, memory, err));
    LUO_TRY(luo_plan_fits(used->plan, run->job.scenario->cluster, used->set, memory,
                          &used->memory_ratio, &used->memory_device, err));
    if (index < run->plans.n) return LUO_OK;
    if (run->job.sink->plan)
        LUO_TRY(run->job.sink->plan(run->job.sink->ctx, index, luo_run_plan_of(used), used->set,
                                    err));
    LUO_TRY(list_memory(run, used, index, memory, err));
    return run->job.real ? LUO_OK : luo_run_measured(&run->job, used, NULL, err);
}

static luo_status find_imbalance(luo_run *run, luo_used_plan *used, luo_err *err)
{
    return luo_plan_expert_imbalance(run->scratch, used->plan, run->job.scenario->model, used->load,
                                     used->sequence_tokens, &used->imbalance, err);
}

luo_status luo_run_recompile(luo_run *run, luo_used_plan *used, luo_err *err)
{
    const bool checked = used->program_hash != 0; /* compiled again */
    const luo_compile_opts opts = {.sequence_tokens = used->sequence_tokens,
                                   .check = !checked,
                                   .checked = &run->plans.checked,
                                   .patterns = used->patterns,
                                   .memory = luo_stack_memory(&run->job.scenario->stack),
                                   .load = luo_run_load(run->job.scenario, run->clock.step),
                                   .interrupted = run->job.opts->interrupted};
    used->last_use = ++run->plans.uses;
    if (used->set) return LUO_OK;
    used->load = opts.load;
    used->arena = luo_arena_new(1 << 16);
    if (!used->arena) return luo_err_nomem(err);
    LUO_TRY(find_imbalance(run, used, err));
    return luo_plan_compile(used->arena, used->plan, run->job.scenario->model,
                            run->job.scenario->cluster, &opts, &used->set, err);
}

luo_status luo_run_follow_load(luo_run *run, luo_err *err)
{
    luo_used_plan *used = luo_run_plan(&run->plans);
    if (used->frame || used->load == luo_run_load(run->job.scenario, run->clock.step))
        return LUO_OK;
    luo_run_give_back(used);
    run->health.has_predicted = false;
    return luo_run_recompile(run, used, err);
}

static luo_status compile(luo_run *run, luo_used_plan *used, int32_t index, luo_err *err)
{
    LUO_TRY(luo_run_recompile(run, used, err));
    LUO_TRY(describe(run, used, err));
    LUO_TRY(luo_ckpt_check_room(run, used, err));
    used->operations = luo_judge_operations(used->set);
    LUO_TRY(warn_of_operations(run, used, err));
    return weigh(run, used, index, err);
}

void luo_run_give_back(luo_used_plan *used)
{
    luo_arena_free(used->arena);
    luo_patterns_forget(used->patterns);
    used->arena = NULL;
    used->set = NULL;
    used->plan = luo_run_plan_of(used); /* a batch goes with its programs */
}

/* Does x go before y? The first plan goes last. */
static bool goes_before(const luo_run_plans *plans, const luo_used_plan *x, const luo_used_plan *y)
{
    if (!y || y == plans->list[0]) return true;
    return x != plans->list[0] && x->last_use < y->last_use;
}

static void keep_within_limit(luo_run_plans *plans, const luo_used_plan *keep)
{
    for (;;) {
        luo_used_plan *oldest = NULL;
        int64_t bytes = 0;
        for (int32_t i = 0; i < plans->n; i++) {
            luo_used_plan *used = plans->list[i];
            if (!used->set) continue;
            bytes += (int64_t)(luo_arena_used(used->arena) + luo_patterns_bytes(used->patterns));
            if (used != keep && i != plans->running && goes_before(plans, used, oldest))
                oldest = used;
        }
        if (bytes <= plans->program_bytes || !oldest) return;
        luo_run_give_back(oldest);
    }
}

static luo_status remember(luo_run *run, luo_used_plan *used, luo_err *err)
{
    if (!LUO_VEC_ROOM_IN(run->arena, run->plans.list, run->plans.n, run->plans.room))
        return luo_err_nomem(err);
    run->plans.list[run->plans.n++] = used;
    return LUO_OK;
}

static void note_memory(luo_run_plans *plans, const luo_used_plan *used)
{
    if (used->memory_ratio <= plans->memory_ratio) return;
    plans->memory_ratio = used->memory_ratio;
    plans->memory_device = used->memory_device;
}

luo_bucketing luo_run_bucket(const luo_run *run)
{
    const luo_bucketing none = {0};
    return luo_bucketing_over(run->plans.n > 0 ? run->plans.list[0]->plan->bucket : none,
                              run->job.scenario->stack.bucket);
}

/* As the run has it: ranks do not know the stack. */
static luo_plan with_buckets(const luo_run *run, const luo_plan *given)
{
    luo_plan plan = *given;
    plan.bucket = luo_bucketing_over(plan.bucket, luo_run_bucket(run));
    return plan;
}

/* -1: not used yet. */
static int32_t find_used(const luo_run_plans *plans, uint64_t hash, int64_t tokens)
{
    for (int32_t i = 0; i < plans->n; i++)
        if (plans->list[i]->hash == hash && plans->list[i]->sequence_tokens == tokens) return i;
    return -1;
}

luo_programs *luo_run_known_programs(const luo_run *run, const luo_plan *given, int64_t tokens)
{
    const luo_plan plan = with_buckets(run, given);
    const int32_t at = find_used(&run->plans, luo_plan_hash(&plan), tokens);
    return at < 0 ? NULL : run->plans.list[at]->set;
}

/* frame: in the run's arena. */
static luo_status make_frame(luo_run *run, luo_used_plan *used, const luo_plan *frame, luo_err *err)
{
    used->traffic = LUO_NEW(run->arena, luo_traffic);
    if (!used->traffic) return luo_err_nomem(err);
    used->traffic->arena = run->arena;
    used->frame = frame;
    return luo_patterns_open(run->arena, LUO_PATTERN_BYTES, &used->patterns, err);
}

luo_status luo_run_use_plan(luo_run *run, const luo_plan *given, int64_t tokens, int32_t *index,
                            luo_err *err)
{
    const luo_plan plan = with_buckets(run, given), *p = &plan;
    const uint64_t hash = luo_plan_hash(p);
    const int32_t used = find_used(&run->plans, hash, tokens);
    if (used >= 0) {
        LUO_TRY(luo_run_recompile(run, run->plans.list[used], err));
        keep_within_limit(&run->plans, run->plans.list[used]);
        *index = used;
        return LUO_OK;
    }
    const size_t mark = luo_arena_mark(run->scratch);
    luo_used_plan *used_plan = LUO_NEW(run->arena, luo_used_plan);
    luo_plan *copy;
    luo_status st = used_plan ? luo_plan_copy(run->arena, p, &copy, err) : luo_err_nomem(err);
    if (st == LUO_OK)
        *used_plan = (luo_used_plan){.hash = hash, .sequence_tokens = tokens, .step_s = -1};
    if (st == LUO_OK && run->lengths) st = make_frame(run, used_plan, copy, err);
    if (st == LUO_OK) {
        used_plan->plan = copy;
        st = luo_plan_check_work(copy, run->job.opts->work, err);
    }
    if (st == LUO_OK) st = check_plan(run, copy, err);
    if (st == LUO_OK) st = compile(run, used_plan, run->plans.n, err);
    if (st == LUO_OK) st = remember(run, used_plan, err);
    if (st == LUO_OK) {
        *index = run->plans.n - 1;
        note_memory(&run->plans, used_plan);
        keep_within_limit(&run->plans, used_plan);
    } else if (used_plan) {
        luo_arena_free(used_plan->arena);
        luo_patterns_free(used_plan->patterns);
    }
    luo_arena_reset(run->scratch, mark);
    return st;
}

/* ---- plans of batches ---- */

static luo_status new_frame(luo_run *run, const luo_plan *frame, uint64_t hash,
                            luo_used_plan **out, luo_err *err)
{
    luo_plan *copy;
    *out = LUO_NEW(run->arena, luo_used_plan);
    if (!*out) return luo_err_nomem(err);
    LUO_TRY(luo_plan_copy(run->arena, frame, &copy, err));
    **out = (luo_used_plan){.hash = hash,
                            .sequence_tokens = copy->sequence_tokens,
                            .plan = copy,
                            .step_s = -1};
    return make_frame(run, *out, copy, err);
}

/* *used changes only if all of it succeeds; a frame that is new has its rows written then. */
static luo_status bind_batch(luo_run *run, luo_used_plan *used, const luo_plan *plan,
                             const luo_batch_work *work, int32_t index, luo_err *err)
{
    luo_used_plan now = *used;
    const bool fresh = index == run->plans.n;
    luo_plan *copy;
    now.set = NULL;
    now.arena = luo_arena_new(1 << 16);
    now.program_hash = 0;
    if (!now.arena) return luo_err_nomem(err);
    luo_status st = luo_plan_copy(now.arena, plan, &copy, err);
    if (st == LUO_OK) {
        now.plan = copy;
        st = luo_plan_check_work(copy, run->job.opts->work, err);
    }
    if (st == LUO_OK) st = check_plan(run, copy, err);
    const luo_compile_opts opts = {.sequence_tokens = now.sequence_tokens,
                                   .check = fresh,
                                   .checked = &run->plans.checked,
                                   .patterns = used->patterns,
                                   .memory = luo_stack_memory(&run->job.scenario->stack),
                                   .load = luo_run_load(run->job.scenario, run->clock.step),
                                   .interrupted = run->job.opts->interrupted};
    now.load = opts.load;
    if (st == LUO_OK) st = find_imbalance(run, &now, err);
    if (st == LUO_OK)
        st = luo_plan_compile(now.arena, copy, run->job.scenario->model, run->job.scenario->cluster,
                              &opts, &now.set, err);
    if (st == LUO_OK) now.operations = luo_judge_operations(now.set);
    if (st == LUO_OK && fresh) st = warn_of_operations(run, &now, err);
    if (st == LUO_OK) st = weigh(run, &now, index, err);
    if (st == LUO_OK) st = describe(run, &now, err); /* last: its lists are those of *used */
    /* Two runs that say the same have had the same programs in every step. */
    if (used->program_hash)
        now.program_hash = luo_hash_bytes(used->program_hash, &now.program_hash,
                                          sizeof now.program_hash);
    if (st != LUO_OK) {
        luo_arena_free(now.arena);
        return st;
    }
    now.sequences = work->sequences;
    now.tokens = work->tokens;
    now.flops = work->flops;
    now.last_use = ++run->plans.uses;
    luo_arena_free(used->arena);
    *used = now;
    return LUO_OK;
}

luo_status luo_run_use_batch(luo_run *run, const luo_plan *given_frame, const luo_plan *given,
                             const luo_batch_work *work, int32_t *index, luo_err *err)
{
    const luo_plan frame = with_buckets(run, given_frame), plan = with_buckets(run, given);
    const uint64_t hash = luo_plan_hash(&frame);
    const size_t mark = luo_arena_mark(run->scratch);
    luo_used_plan *used, *made = NULL;
    luo_status st = LUO_OK;
    *index = find_used(&run->plans, hash, frame.sequence_tokens);
    if (*index >= 0) {
        used = run->plans.list[*index];
    } else {
        st = new_frame(run, &frame, hash, &made, err);
        used = made;
        *index = run->plans.n;
    }
    if (st == LUO_OK) st = bind_batch(run, used, &plan, work, *index, err);
    if (st == LUO_OK && *index == run->plans.n) st = remember(run, used, err);
    if (st == LUO_OK) {
        note_memory(&run->plans, used);
        keep_within_limit(&run->plans, used);
    } else if (made) {
        luo_patterns_free(made->patterns);
    }
    luo_arena_reset(run->scratch, mark);
    return st;
}

static luo_status fits(luo_run *run, luo_arena *arena, const luo_plan *plan, luo_err *err)
{
    const luo_scenario *sc = run->job.scenario;
    const luo_compile_opts opts = {.sequence_tokens = plan->sequence_tokens,
                                   .memory = luo_stack_memory(&sc->stack),
                                   .load = luo_run_load(sc, run->clock.step),
                                   .interrupted = run->job.opts->interrupted};
    luo_programs *set;
    double ratio;
    int32_t device;
    LUO_TRY(luo_plan_compile(arena, plan, sc->model, sc->cluster, &opts, &set, err));
    luo_memory *memory = LUO_NEW_N(arena, luo_memory, set->n);
    if (!memory) return luo_err_nomem(err);
    LUO_TRY(luo_plan_memory(arena, set, memory, err));
    return luo_plan_fits(plan, sc->cluster, set, memory, &ratio, &device, err);
}

luo_status luo_run_fits(luo_run *run, const luo_plan *given, luo_err *err)
{
    const luo_plan plan = with_buckets(run, given);
    luo_arena *arena = luo_arena_new(1 << 16);
    if (!arena) return luo_err_nomem(err);
    const luo_status st = fits(run, arena, &plan, err);
    luo_arena_free(arena);
    return st;
}

void luo_run_free_plans(luo_run_plans *plans)
{
    for (int32_t i = 0; i < plans->n; i++) {
        luo_arena_free(plans->list[i]->arena);
        luo_patterns_free(plans->list[i]->patterns);
        if (plans->list[i]->traffic) luo_traffic_free(plans->list[i]->traffic);
    }
    luo_map_free(&plans->communicators);
    luo_map_free(&plans->checked);
}

luo_recipe luo_run_recipe(const luo_used_plan *used)
{
    return (luo_recipe){.plan = used->plan, .sequence_tokens = used->sequence_tokens};
}

/* ---- communicators ---- */

static uint64_t group_key(const luo_group *group)
{
    uint64_t h = luo_hash_bytes(LUO_HASH_EMPTY, &group->stream, sizeof group->stream);
    h = luo_hash_bytes(h, group->dev, (size_t)group->n * sizeof *group->dev);
    return h ? h : 1;
}

/* Of the busiest device. keep: those that do not exist do from now on. */
static luo_status count_missing(luo_run *run, const luo_programs *set, bool keep, int32_t *n,
                                luo_err *err)
{
    const size_t mark = luo_arena_mark(run->scratch);
    int32_t *count = LUO_NEW_N(run->scratch, int32_t, run->job.scenario->cluster->ndevices);
    if (!count) return luo_err_nomem(err);
    *n = 0;
    for (int32_t i = 0; i < set->ngroups; i++) {
        const luo_group *group = &set->groups[i];
        if (group->n < 2) continue;
        int64_t *known = luo_map_at(&run->plans.communicators, group_key(group), 0);
        if (!known) return luo_err_nomem(err);
        if (*known) continue;
        *known = keep;
        for (int32_t k = 0; k < group->n; k++)
            if (++count[group->dev[k]] > *n) *n = count[group->dev[k]];
    }
    luo_arena_reset(run->scratch, mark);
    return LUO_OK;
}

/* Instructions of the busiest device; 0: the programs were made before. */
static luo_status count_operators(luo_run_plans *plans, const luo_programs *set, bool keep,
                                  int32_t *n, luo_err *err)
{
    const uint64_t key = luo_hash_bytes(set->hash, "programs", 8);
    int64_t *known = luo_map_at(&plans->communicators, key ? key : 1, 0);
    if (!known) return luo_err_nomem(err);
    *n = 0;
    for (int32_t i = 0; i < set->nroles && !*known; i++)
        if (set->roles[i].ninstr > *n) *n = set->roles[i].ninstr;
    *known = *known || keep;
    return LUO_OK;
}

luo_status luo_run_making(luo_run *run, const luo_programs *set, bool keep, double *seconds,
                          luo_err *err)
{
    int32_t communicators = 0, operators = 0;
    LUO_TRY(count_missing(run, set, keep, &communicators, err));
    LUO_TRY(count_operators(&run->plans, set, keep, &operators, err));
    *seconds = communicators * run->job.cost.communicator_s + operators * run->job.cost.operator_s;
    return LUO_OK;
}
