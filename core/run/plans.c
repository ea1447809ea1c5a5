/* Plans of a run: checked, compiled once per length of sequence, weighed, and what running them
 * needs (docs/formats.md#luoshuplan1; ARCHITECTURE.md). */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "core/base/vec.h"
#include "core/run/run.h"

int64_t luo_run_tokens(const luo_run *r, const luo_plan *p)
{
    const int64_t tokens = luo_events_tokens(r->clock.events);
    if (tokens > 0) return tokens;
    return r->job.scenario->length_tokens > 0 ? r->job.scenario->length_tokens : p->sequence_tokens;
}

/* The first plan keeps off the devices that are down in the cluster file; later ones know better
 * who is up. */
static luo_status check_plan(luo_run *r, const luo_plan *p, luo_err *err)
{
    luo_cluster now = *r->job.scenario->cluster;
    luo_plan_finding *f;
    int32_t n = 0;
    if (r->plans.n > 0) now.nhealth = 0;
    const luo_status st = luo_plan_check(r->scratch, p, r->job.scenario->model, &now, &f, &n);
    if (st == LUO_OK) return LUO_OK;
    return n > 0 ? luo_err_set(err, f[0].st, "plan `%s` %s: %s", p->name, f[0].pointer, f[0].text)
                 : luo_err_nomem(err);
}

static double count_operations(const luo_programs *set)
{
    double sum = 0;
    for (int32_t i = 0; i < set->n; i++) {
        const luo_program *p = &set->at[i];
        for (int32_t k = 0; k < p->ntask; k++) sum += set->roles[p->role].seg[p->tasks[k].seg].n;
    }
    return sum;
}

static luo_status warn_of_operations(luo_run *r, const luo_used_plan *u, luo_err *err)
{
    luo_err why = {0};
    if (r->job.opts->trace.kind == LUO_TRACE_NONE || !r->job.sink->ops) return LUO_OK;
    if (luo_work_check(r->job.opts->work, LUO_WORK_OPERATIONS, u->operations,
                       "steps are not traced: the plan has", &why) == LUO_OK)
        return LUO_OK;
    return luo_run_warn(r, err, "%s", why.text);
}

static luo_status describe(luo_run *r, luo_used_plan *u, luo_err *err)
{
    const luo_cluster *c = r->job.scenario->cluster;
    u->dev = LUO_NEW_N(r->arena, int32_t, u->set->n);
    u->member = LUO_NEW_N(r->arena, bool, c->ndevices);
    u->ndev = u->set->n;
    u->program_hash = u->set->hash;
    if (!u->dev || !u->member) return luo_err_nomem(err);
    for (int32_t i = 0; i < u->set->n; i++) {
        u->dev[i] = u->set->at[i].device;
        u->member[u->dev[i]] = true;
        u->peak_flops += luo_cluster_profile(c, u->dev[i])->peak_flops[u->plan->dtype];
    }
    for (int32_t i = 0; i < u->plan->npipelines; i++)
        u->micro_batches += u->plan->pipelines[i].micro_batches;
    u->sequences = luo_plan_sequences(u->plan);
    u->tokens = u->sequence_tokens == u->plan->sequence_tokens
                    ? luo_plan_tokens(u->plan) : u->sequences * u->sequence_tokens;
    u->flops =
        (double)u->tokens * luo_model_flops_per_token(r->job.scenario->model, u->sequence_tokens);
    int64_t parameters = 0;
    LUO_TRY(luo_model_parameters(r->job.scenario->model, &parameters, err));
    static const int64_t state[] = {14, 12, 24}; /* weight and two moments; bf16: and a master */
    u->state_bytes = parameters * state[u->plan->dtype];
    u->write_s = luo_ckpt_write_seconds(r->job.scenario, u);
    u->step_s = -1;
    return LUO_OK;
}

luo_status luo_run_measured(luo_run_job *job, luo_used_plan *u, const luo_step_result *s,
                            luo_err *err)
{
    luo_row_memory *rows = u->memory;
    u->memory = NULL;
    for (int32_t i = 0; rows && job->sink->memory && i < u->ndev; i++) {
        if (s && s->memory_bytes) rows[i].measured_bytes = s->memory_bytes[i];
        LUO_TRY(job->sink->memory(job->sink->ctx, &rows[i], err));
    }
    return LUO_OK;
}

static luo_status list_memory(luo_run *r, luo_used_plan *u, int32_t index, const luo_memory *m,
                              luo_err *err)
{
    u->memory = LUO_NEW_N(r->job.real ? r->arena : r->scratch, luo_row_memory, u->set->n);
    if (!u->memory) return luo_err_nomem(err);
    for (int32_t i = 0; i < u->set->n; i++) {
        const luo_program *p = &u->set->at[i];
        const luo_profile *prof = luo_cluster_profile(r->job.scenario->cluster, p->device);
        u->memory[i] = (luo_row_memory){.plan = index, .device = p->device,
                                        .pipeline = p->pipeline, .stage = p->stage,
                                        .memory = m[i],
                                        .capacity_bytes = (int64_t)prof->memory_bytes,
                                        .reserved_bytes = (int64_t)prof->reserved_bytes};
    }
    return LUO_OK;
}

/* Rows of memory.csv are written at once, or, where use is measured, after the first step. */
static luo_status weigh(luo_run *r, luo_used_plan *u, int32_t index, luo_err *err)
{
    luo_memory *m = LUO_NEW_N(r->scratch, luo_memory, u->set->n);
    if (!m) return luo_err_nomem(err);
    LUO_TRY(luo_plan_memory(r->scratch, u->set, m, err));
    LUO_TRY(luo_plan_fits(u->plan, r->job.scenario->cluster, u->set, m, &u->memory_ratio,
                          &u->memory_device, err));
    if (r->job.sink->plan)
        LUO_TRY(r->job.sink->plan(r->job.sink->ctx, index, u->plan, u->set, err));
    LUO_TRY(list_memory(r, u, index, m, err));
    return r->job.real ? LUO_OK : luo_run_measured(&r->job, u, NULL, err);
}

luo_status luo_run_recompile(luo_run *r, luo_used_plan *u, luo_err *err)
{
    const bool checked = u->program_hash != 0; /* compiled again */
    const luo_compile_opts opts = {.sequence_tokens = u->sequence_tokens,
                                   .check = !checked,
                                   .memory = luo_stack_memory(&r->job.scenario->stack),
                                   .interrupted = r->job.opts->interrupted};
    u->last_use = ++r->plans.uses;
    if (u->set) return LUO_OK;
    u->arena = luo_arena_new(1 << 16);
    if (!u->arena) return luo_err_nomem(err);
    return luo_plan_compile(u->arena, u->plan, r->job.scenario->model, r->job.scenario->cluster,
                            &opts, &u->set, err);
}

static luo_status compile(luo_run *r, luo_used_plan *u, int32_t index, luo_err *err)
{
    LUO_TRY(luo_run_recompile(r, u, err));
    LUO_TRY(describe(r, u, err));
    u->operations = count_operations(u->set);
    LUO_TRY(warn_of_operations(r, u, err));
    return weigh(r, u, index, err);
}

void luo_run_give_back(luo_used_plan *u)
{
    luo_arena_free(u->arena);
    u->arena = NULL;
    u->set = NULL;
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
            luo_used_plan *u = plans->list[i];
            if (!u->set) continue;
            bytes += (int64_t)luo_arena_used(u->arena);
            if (u != keep && i != plans->running && goes_before(plans, u, oldest)) oldest = u;
        }
        if (bytes <= plans->program_bytes || !oldest) return;
        luo_run_give_back(oldest);
    }
}

static luo_status remember(luo_run *r, luo_used_plan *u, luo_err *err)
{
    if (!LUO_VEC_ROOM_IN(r->arena, r->plans.list, r->plans.n, r->plans.room))
        return luo_err_nomem(err);
    r->plans.list[r->plans.n++] = u;
    if (u->memory_ratio > r->plans.memory_ratio) {
        r->plans.memory_ratio = u->memory_ratio;
        r->plans.memory_device = u->memory_device;
    }
    return LUO_OK;
}

luo_bucketing luo_run_bucket(const luo_run *r)
{
    const luo_bucketing none = {0};
    return luo_bucketing_over(r->plans.n > 0 ? r->plans.list[0]->plan->bucket : none,
                              r->job.scenario->stack.bucket);
}

/* As the run has it: ranks do not know the stack. */
static luo_plan with_buckets(const luo_run *r, const luo_plan *given)
{
    luo_plan p = *given;
    p.bucket = luo_bucketing_over(p.bucket, luo_run_bucket(r));
    return p;
}

/* -1: not used yet. */
static int32_t find_used(const luo_run_plans *plans, uint64_t hash, int64_t tokens)
{
    for (int32_t i = 0; i < plans->n; i++)
        if (plans->list[i]->hash == hash && plans->list[i]->sequence_tokens == tokens) return i;
    return -1;
}

luo_programs *luo_run_known_programs(const luo_run *r, const luo_plan *given, int64_t tokens)
{
    const luo_plan p = with_buckets(r, given);
    const int32_t at = find_used(&r->plans, luo_plan_hash(&p), tokens);
    return at < 0 ? NULL : r->plans.list[at]->set;
}

luo_status luo_run_use_plan(luo_run *r, const luo_plan *given, int64_t tokens, int32_t *index,
                            luo_err *err)
{
    const luo_plan plan = with_buckets(r, given), *p = &plan;
    const uint64_t hash = luo_plan_hash(p);
    const int32_t used = find_used(&r->plans, hash, tokens);
    if (used >= 0) {
        LUO_TRY(luo_run_recompile(r, r->plans.list[used], err));
        keep_within_limit(&r->plans, r->plans.list[used]);
        *index = used;
        return LUO_OK;
    }
    const size_t mark = luo_arena_mark(r->scratch);
    luo_used_plan *u = LUO_NEW(r->arena, luo_used_plan);
    luo_plan *copy;
    luo_status st = u ? luo_plan_copy(r->arena, p, &copy, err) : luo_err_nomem(err);
    if (st == LUO_OK) *u = (luo_used_plan){.hash = hash, .sequence_tokens = tokens};
    if (st == LUO_OK) {
        u->plan = copy;
        st = luo_plan_check_work(copy, r->job.opts->work, err);
    }
    if (st == LUO_OK) st = check_plan(r, copy, err);
    if (st == LUO_OK) st = compile(r, u, r->plans.n, err);
    if (st == LUO_OK) st = remember(r, u, err);
    if (st == LUO_OK) {
        *index = r->plans.n - 1;
        keep_within_limit(&r->plans, u);
    } else if (u) {
        luo_arena_free(u->arena);
    }
    luo_arena_reset(r->scratch, mark);
    return st;
}

void luo_run_free_plans(luo_run_plans *plans)
{
    for (int32_t i = 0; i < plans->n; i++) luo_arena_free(plans->list[i]->arena);
    luo_map_free(&plans->communicators);
}

luo_recipe luo_run_recipe(const luo_used_plan *u)
{
    return (luo_recipe){.plan = u->plan, .sequence_tokens = u->sequence_tokens};
}

/* ---- communicators ---- */

static uint64_t group_key(const luo_group *g)
{
    uint64_t h = luo_hash_bytes(LUO_HASH_EMPTY, &g->stream, sizeof g->stream);
    h = luo_hash_bytes(h, g->dev, (size_t)g->n * sizeof *g->dev);
    return h ? h : 1;
}

/* Of the busiest device. keep: those that do not exist do from now on. */
static luo_status count_missing(luo_run *r, const luo_programs *set, bool keep, int32_t *n,
                                luo_err *err)
{
    const size_t mark = luo_arena_mark(r->scratch);
    int32_t *count = LUO_NEW_N(r->scratch, int32_t, r->job.scenario->cluster->ndevices);
    if (!count) return luo_err_nomem(err);
    *n = 0;
    for (int32_t i = 0; i < set->ngroups; i++) {
        const luo_group *g = &set->groups[i];
        if (g->n < 2) continue;
        int64_t *known = luo_map_at(&r->plans.communicators, group_key(g), 0);
        if (!known) return luo_err_nomem(err);
        if (*known) continue;
        *known = keep;
        for (int32_t k = 0; k < g->n; k++)
            if (++count[g->dev[k]] > *n) *n = count[g->dev[k]];
    }
    luo_arena_reset(r->scratch, mark);
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

luo_status luo_run_making(luo_run *r, const luo_programs *set, bool keep, double *seconds,
                          luo_err *err)
{
    int32_t communicators = 0, operators = 0;
    LUO_TRY(count_missing(r, set, keep, &communicators, err));
    LUO_TRY(count_operators(&r->plans, set, keep, &operators, err));
    *seconds = communicators * r->job.cost.communicator_s + operators * r->job.cost.operator_s;
    return LUO_OK;
}
