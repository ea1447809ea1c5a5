/* Pool, candidates and rivals in the order in which they need each other. */
#include "core/plan/length_policies/length_setup.h"

#include <math.h>
#include <string.h>

#include "core/plan/hydraulis/pool_model.h"
#include "core/plan/hydraulis/pool_room.h"
#include "core/plan/hydraulis/propagation.h"

enum { GRAD_BYTES = 4, SAMPLES = 4, GRID = 1024, GRID_POINTS = 32 };
enum { FEW_DEVICES = 64, STEP_OF_MANY = 4 };

static const double SAME_SPEED = 0.99;

luo_optimizer_layout luo_length_layout(const luo_model *model, const luo_cluster *cluster,
                                       const int32_t *devices, int32_t ndevices)
{
    const int32_t node = cluster->groups[cluster->devices[devices[0]].group].devices_per_node;
    const int64_t cut = luo_model_has_attention(model) ? model->heads : model->ffn_hidden;
    int32_t tp = 1;
    while (2 * tp <= node && ndevices % (2 * tp) == 0 && cut % (2 * tp) == 0) tp *= 2;
    return (luo_optimizer_layout){ndevices / tp, tp, 1};
}

luo_status luo_length_add_context(luo_arena *arena, const luo_length_setup_in *in, luo_pool *pool,
                                  luo_err *err)
{
    const luo_node_group *group = &in->cluster->groups[in->cluster->devices[in->devices[0]].group];
    const double bytes_per_ms = luo_cost_node_bytes_per_s(group) * 1e-3;
    const luo_pool_context context = {in->model->layers,   in->model->hidden, in->model->heads,
                                      in->model->kv_heads, bytes_per_ms,      bytes_per_ms};
    if (in->ncontext > 0) LUO_TRY(luo_model_check_context(in->model, err));
    if (in->ncontext > 0 && bytes_per_ms <= 0)
        return luo_err_set(err, LUO_EINPUT,
                           "the cluster's nodes have no network, which context "
                           "parallelism needs.");
    for (int32_t k = 0; k < in->ncontext; k++)
        LUO_TRY(luo_pool_add_context(arena, pool, &context, in->context[k], err));
    return LUO_OK;
}

static luo_status make_pool(luo_arena *arena, const luo_length_setup_in *in, luo_length_setup *out,
                            luo_err *err)
{
    const luo_pool_model_in model = {.model = in->model,
                                     .cluster = in->cluster,
                                     .stack = in->stack,
                                     .ndevices = in->ndevices,
                                     .devices = in->devices,
                                     .layout = out->layout,
                                     .ctx = in->rule.most};
    LUO_TRY(luo_pool_model(arena, &model, &out->pool, err));
    out->type = LUO_NEW_N(arena, double, in->ndevices);
    out->speed = LUO_NEW_N(arena, double, in->ndevices);
    if (!out->type || !out->speed) return luo_err_nomem(err);
    LUO_TRY(luo_pool_model_speeds(&model, out->type, err));
    out->mixed = luo_length_setup_mixes(out->type, in->ndevices);
    LUO_TRY(luo_length_add_context(arena, in, &out->pool, err));
    return luo_pool_room_check(&out->place, in->stack, &out->pool, err);
}

bool luo_length_setup_mixes(const double *type, int32_t ndevices)
{
    for (int32_t i = 0; i < ndevices; i++)
        if (type[i] < SAME_SPEED) return true;
    return false;
}

/* A table of lengths can hold one that is in no sample and on no device. */
static luo_status check_longest(const luo_length_setup *setup, const luo_length_setup_in *in,
                                luo_err *err)
{
    const luo_histogram *histogram = &setup->found.histogram;
    int64_t most = 0;
    for (int32_t k = 0; k < setup->pool.n; k++)
        if (luo_pool_devices(&setup->pool.entry[k]) <= in->ndevices &&
            setup->pool.entry[k].cap > most)
            most = setup->pool.entry[k].cap;
    if (histogram->n == 0 || histogram->length[histogram->n - 1] <= most) return LUO_OK;
    return luo_err_set(err, LUO_EINFEASIBLE,
                       "%lld tokens exceed every strategy on %d devices (largest cap %lld); "
                       "shorter sequences, context parallelism or more memory are needed.",
                       (long long)histogram->length[histogram->n - 1], in->ndevices,
                       (long long)most);
}

static int64_t grid_of(int64_t ctx)
{
    const int64_t fine = (ctx + GRID_POINTS - 1) / GRID_POINTS;
    return fine > GRID ? fine : ctx < GRID ? fine : GRID;
}

luo_status luo_length_choose_on_samples(luo_arena *arena, const luo_lengths *lengths,
                                        const luo_batch_rule *rule, int64_t limit, uint64_t seed,
                                        int64_t grid_step, luo_length_rivals *rivals, luo_err *err)
{
    luo_length_source source = {.rng = luo_rng_stream(seed, "hydraulis")};
    luo_length_sample sample[SAMPLES];
    for (int s = 0; s < SAMPLES; s++) {
        int64_t *length;
        LUO_TRY(
            luo_lengths_batch(arena, lengths, rule, limit, &source, &length, &sample[s].n, err));
        sample[s].length = length;
    }
    return luo_length_rivals_choose(arena, sample, SAMPLES, grid_step, rivals, err);
}

static luo_status choose_rivals(luo_arena *arena, const luo_length_setup_in *in,
                                luo_length_setup *out, luo_err *err)
{
    out->rivals = (luo_length_rivals){.pool = &out->pool,
                                      .candidates = &out->found,
                                      .devices = in->ndevices,
                                      .rate = out->type,
                                      .ctx = in->rule.most,
                                      .alike = -1,
                                      .assign = in->assign,
                                      .switch_ms = in->switch_ms,
                                      .step = in->step};
    return luo_length_choose_on_samples(arena, in->lengths, &in->rule, in->limit, in->seed,
                                        grid_of(in->rule.most), &out->rivals, err);
}

static luo_status find_moved_ms(luo_arena *arena, const luo_pool *pool, const luo_replicas *plan,
                                const luo_step_place *place, const luo_stack *stack, double *out,
                                luo_err *err)
{
    const luo_propagation_in how = {place, stack, GRAD_BYTES, 0};
    const size_t mark = luo_arena_mark(arena);
    luo_propagation propagation;
    const luo_status st = luo_propagation_of(arena, &how, pool, plan, &propagation, err);
    luo_arena_reset(arena, mark);
    *out = st == LUO_OK && isfinite(propagation.exposed_ms) ? propagation.exposed_ms : 0;
    return st == LUO_ENOMEM ? st : LUO_OK;
}

luo_status luo_length_moved_ms(luo_arena *arena, const luo_pool *pool,
                               const luo_candidates *candidates, const luo_step_place *place,
                               const luo_stack *stack, double **out, luo_err *err)
{
    double *ms = *out = LUO_NEW_N(arena, double, candidates->n);
    if (!ms) return luo_err_nomem(err);
    for (int32_t p = 0; p < candidates->n; p++)
        LUO_TRY(find_moved_ms(arena, pool, &candidates->plan[p], place, stack, &ms[p], err));
    return LUO_OK;
}

luo_status luo_length_moved_alike_ms(luo_arena *arena, const luo_length_rivals *rivals,
                                     const luo_step_place *place, const luo_stack *stack,
                                     double **out, luo_err *err)
{
    const luo_pool *pool = rivals->pool;
    double *ms = *out = LUO_NEW_N(arena, double, pool->n);
    if (!ms) return luo_err_nomem(err);
    for (int32_t k = 0; k < pool->n; k++) {
        const size_t mark = luo_arena_mark(arena);
        luo_replicas alike;
        luo_optimizer_layout layout;
        luo_step_place own;
        if (luo_pool_devices(&pool->entry[k]) > rivals->devices) continue;
        LUO_TRY(luo_length_alike(arena, rivals, k, &alike, err));
        LUO_TRY(luo_length_plan_layout(arena, rivals, place, k, &layout, &own, err));
        LUO_TRY(find_moved_ms(arena, pool, &alike, &own, stack, &ms[k], err));
        luo_arena_reset(arena, mark);
    }
    return LUO_OK;
}

void luo_length_candidates_in(const luo_length_setup_in *in, const luo_length_setup *setup,
                              luo_candidates_in *out)
{
    const int32_t devices = in->ndevices;
    const bool many = devices > FEW_DEVICES && devices % STEP_OF_MANY == 0;
    *out =
        (luo_candidates_in){.pool = &setup->pool,
                            .lengths = in->lengths,
                            .rule = in->rule,
                            .seed = in->seed,
                            .devices = devices,
                            .device_step = in->device_step > 0 ? in->device_step
                                           : many              ? STEP_OF_MANY
                                                               : 1,
                            .grid_step = in->grid_step > 0 ? in->grid_step : grid_of(in->rule.most),
                            .floor = in->proposals != LUO_PROPOSALS_PUBLIC,
                            .published = in->proposals != LUO_PROPOSALS_FLOOR,
                            .sequences = in->limit,
                            .rate = setup->type};
}

luo_status luo_length_setup_make(luo_arena *arena, const luo_length_setup_in *in,
                                 luo_length_setup *out, luo_err *err)
{
    luo_candidates_in candidates;
    *out = (luo_length_setup){
        .layout = luo_length_layout(in->model, in->cluster, in->devices, in->ndevices),
        .place = {.model = in->model,
                  .cluster = in->cluster,
                  .ndevices = in->ndevices,
                  .devices = in->devices,
                  .dtype = in->model->dtype,
                  .ctx = in->rule.most}};
    out->place.layout = &out->layout;
    LUO_TRY(make_pool(arena, in, out, err));
    luo_length_candidates_in(in, out, &candidates);
    LUO_TRY(luo_candidates_make(arena, &candidates, &out->found, err));
    LUO_TRY(check_longest(out, in, err));
    LUO_TRY(choose_rivals(arena, in, out, err));
    const luo_step_place place = out->place;
    if (out->rivals.uniform >= 0)
        LUO_TRY(luo_length_plan_layout(arena, &out->rivals, &place, out->rivals.uniform,
                                       &out->layout, &out->place, err));
    return luo_length_moved_ms(arena, &out->pool, &out->found, &out->place, in->stack,
                               &out->moved_ms, err);
}

void luo_length_setup_copy(luo_length_setup *to, const luo_length_setup *from)
{
    *to = *from;
    to->rivals.pool = &to->pool;
    to->rivals.candidates = &to->found;
    to->place.layout = &to->layout;
}

static void tighten_entry(luo_pool_entry *entry, double share)
{
    const int64_t unit = (int64_t)LUO_POOL_ROUND * entry->cp;
    entry->cap = (int64_t)((double)entry->cap * share) / unit * unit;
    if (entry->util > entry->cap) entry->util = entry->cap;
}

luo_status luo_length_setup_tighten(luo_arena *arena, luo_length_setup *setup, int32_t p,
                                    double share, luo_err *err)
{
    const luo_replicas from = setup->found.plan[p];
    luo_replicas plan = {from.n, LUO_NEW_N(arena, luo_replica, from.n)};
    luo_pool pool = {setup->pool.n, LUO_NEW_N(arena, luo_pool_entry, setup->pool.n + from.n)};
    if (!plan.replica || !pool.entry) return luo_err_nomem(err);
    memcpy(pool.entry, setup->pool.entry, (size_t)pool.n * sizeof *pool.entry);
    for (int32_t r = 0; r < from.n; r++) {
        int32_t k = 0;
        while (k < r && from.replica[k].entry != from.replica[r].entry) k++;
        plan.replica[r] = (luo_replica){k < r ? plan.replica[k].entry : pool.n, from.replica[r].mu};
        if (k < r) continue;
        pool.entry[pool.n] = pool.entry[from.replica[r].entry];
        tighten_entry(&pool.entry[pool.n++], share);
    }
    setup->pool = pool;
    setup->found.plan[p] = plan;
    setup->found.longest[p] = luo_dispatch_longest(&pool, plan.replica, plan.n);
    return LUO_OK;
}

void luo_length_setup_tighten_all(luo_length_setup *setup, double share)
{
    for (int32_t k = 0; k < setup->pool.n; k++) tighten_entry(&setup->pool.entry[k], share);
    for (int32_t p = 0; p < setup->found.n; p++)
        setup->found.longest[p] = luo_dispatch_longest(&setup->pool, setup->found.plan[p].replica,
                                                       setup->found.plan[p].n);
}

void luo_length_setup_speeds(luo_length_setup *setup, double *speed)
{
    for (int32_t p = 0; p < setup->found.n; p++)
        luo_step_speeds(&setup->pool, &setup->found.plan[p], speed);
    setup->speed = speed;
    setup->rivals.rate = speed;
}

void luo_length_setup_rates(luo_length_setup *setup, const double *rate)
{
    for (int32_t i = 0; i < setup->place.ndevices; i++)
        setup->speed[i] = setup->type[i] * (rate ? rate[i] : 1);
    luo_length_setup_speeds(setup, setup->speed);
}
