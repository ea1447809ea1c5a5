/* The Megatron user's planner: every plan of alike pipelines that divides and fits, ranked by the
 * closed form of a whole step (docs/cost-model.md#a-whole-step). uniform_shapes.c is the grid,
 * uniform_frame.c the seconds of stages, uniform_price.c memory and closed form; here shapes are
 * priced, best bound first, and made plans. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/plan/grid.h"
#include "core/plan/uniform/uniform_internal.h"

static const char *const balanced_names[] = {"", "-uneven"};

/* ---- ranking ---- */

static int by_bound(const void *a, const void *b)
{
    const uniform_shape *x = a, *y = b;
    if (x->bound_s != y->bound_s) return x->bound_s < y->bound_s ? -1 : 1;
    return (x->order > y->order) - (x->order < y->order);
}

static bool before(const uniform_shape *x, const uniform_shape *y)
{
    if (x->cost.step != y->cost.step) return x->cost.step < y->cost.step;
    return x->order < y->order;
}

typedef struct best {
    uniform_shape *at; /* best first */
    int32_t n, most;
    bool one_each; /* of a family the best alone */
} best;

/* Shapes on the same devices in stages and groups of the same sizes. */
static bool one_family(const uniform_frame *x, const uniform_frame *y)
{
    return x->pool == y->pool && x->tp == y->tp && x->pp == y->pp &&
           x->context.c == y->context.c && x->neighbours == y->neighbours;
}

static void take_out(best *b, int32_t i)
{
    memmove(&b->at[i], &b->at[i + 1], (size_t)(b->n - 1 - i) * sizeof *b->at);
    b->n--;
}

static void keep(best *b, const uniform_shape *shape)
{
    int32_t place = 0;
    for (int32_t i = 0; b->one_each && i < b->n; i++) {
        if (!one_family(b->at[i].frame, shape->frame)) continue;
        if (!before(shape, &b->at[i])) return;
        take_out(b, i);
        break;
    }
    while (place < b->n && before(&b->at[place], shape)) place++;
    if (place == b->most) return;
    if (b->n == b->most) b->n--;
    memmove(&b->at[place + 1], &b->at[place], (size_t)(b->n - place) * sizeof *b->at);
    b->at[place] = *shape;
    b->n++;
}

/* Can a shape with that bound still be among them? */
static bool may_enter(const best *b, double bound_s)
{
    return b->n < b->most || (b->n > 0 && bound_s <= b->at[b->n - 1].cost.step);
}

/* Prices shapes until no bound leaves hope. */
static luo_status find_best(uniform_search *search, best *all, best *families)
{
    if (search->nshapes > 0)
        qsort(search->shape, (size_t)search->nshapes, sizeof *search->shape, by_bound);
    for (int32_t i = 0; i < search->nshapes; i++) {
        uniform_shape *shape = &search->shape[i];
        if (!may_enter(all, shape->bound_s) && !may_enter(families, shape->bound_s)) break;
        uniform_weigh(search, shape);
        if (shape->memory_ratio > 1) continue;
        LUO_TRY(uniform_price(search, shape));
        keep(all, shape);
        keep(families, shape);
    }
    return LUO_OK;
}

/* The best of families that are not among the best; all has room for them. */
static void join(best *all, const best *families)
{
    const int32_t n = all->n;
    all->most += families->n;
    for (int32_t i = 0; i < families->n; i++) {
        bool there = false;
        for (int32_t k = 0; k < n; k++) there |= all->at[k].order == families->at[i].order;
        if (!there) keep(all, &families->at[i]);
    }
}

/* ---- plans ---- */

/* Model FLOP of a step over the sum of what matrix products reach on the devices. */
static double bound(const uniform_search *search)
{
    double flops_per_s = 0;
    for (int32_t i = 0; i < search->nusable; i++) {
        const luo_profile *profile = luo_cluster_profile(search->cluster, search->usable[i]);
        flops_per_s += profile->peak_flops[search->model->dtype] * profile->gemm_ratio /
                       luo_cluster_base_slowdown(search->cluster, search->usable[i]);
    }
    const double tokens = (double)(search->opts->batch_sequences * search->opts->sequence_tokens);
    return tokens * luo_model_flops_per_token(search->model, search->opts->sequence_tokens) /
           flops_per_s;
}

static void set_context(luo_plan *plan, const luo_context *context)
{
    const bool ring = context->inner == 1, both = !ring && context->inner < context->c;
    for (int32_t i = 0; i < plan->npipelines && context->c > 1; i++)
        for (int32_t k = 0; k < plan->pipelines[i].nstages; k++) {
            luo_stage *stage =
                (luo_stage *)(uintptr_t)&plan->pipelines[i].stages[k]; /* just made */
            stage->context_kind = ring ? LUO_CONTEXT_RING : both ? LUO_CONTEXT_2D : LUO_CONTEXT_A2A;
            stage->context_inner = both ? context->inner : 0;
        }
}

static const char *name_of(const uniform_search *search, const uniform_shape *shape)
{
    const uniform_frame *frame = shape->frame;
    char more[96];
    int n = snprintf(more, sizeof more, "%s%s", balanced_names[shape->layers != NULL],
                     frame->dealt ? "-dealt" : "");
    if (shape->chunks > 1) n += snprintf(more + n, sizeof more - (size_t)n, "-v%d", shape->chunks);
    if (frame->context.c > 1)
        n += snprintf(more + n, sizeof more - (size_t)n, "-cp%d", frame->context.c);
    if (shape->group) snprintf(more + n, sizeof more - (size_t)n, "-shard%d", shape->group);
    return luo_arena_printf(search->scratch, "uniform-tp%d-pp%d-dp%d%s", frame->tp, frame->pp,
                            frame->dp, more);
}

luo_status uniform_make_plan(uniform_search *search, luo_arena *arena, const uniform_shape *shape,
                             luo_plan **out)
{
    const uniform_frame *frame = shape->frame;
    const luo_grid grid = {.name = name_of(search, shape),
                           .model = search->model,
                           .cluster = search->cluster,
                           .dtype = search->model->dtype,
                           .sequence_tokens = search->opts->sequence_tokens,
                           .micro_batches = frame->micro_batches,
                           .pipeline_micro_batches = frame->dealt,
                           .micro_batch_sequences = frame->micro_batch_sequences,
                           .zero = shape->zero,
                           .pipelines = frame->dp,
                           .stages = frame->pp,
                           .tp = frame->tp,
                           .chunks = shape->chunks,
                           .context_parallel = frame->context.c,
                           .layers = shape->layers,
                           .sequence_parallel = search->opts->sequence_parallel && frame->tp > 1,
                           .recompute = (luo_recompute)frame->recompute,
                           .dev = search->dev};
    uniform_place(search, frame);
    if (!grid.name) return luo_err_nomem(search->err);
    LUO_TRY(luo_plan_grid(arena, &grid, out, search->err));
    (*out)->schedule = shape->schedule;
    (*out)->staggered = search->opts->staggered;
    set_context(*out, &frame->context);
    if (shape->zero == 3)
        (*out)->sharding = (luo_sharding){.kind = shape->shard, .pipelines = shape->group};
    return LUO_OK;
}

static luo_status build(uniform_search *search, const uniform_shape *shape, luo_uniform_result *out)
{
    const luo_step_cost *cost = &shape->cost;
    const uniform_frame *frame = shape->frame;
    *out =
        (luo_uniform_result){.objective_s = cost->step,
                             .pipeline_s = cost->pipeline,
                             .ideal_s = cost->ideal,
                             .dp_s = cost->dp + cost->tied,
                             .optimizer_s = cost->optimizer,
                             .jitter = cost->jitter,
                             .bound_s = bound(search),
                             .memory_ratio = shape->memory_ratio,
                             .idle = search->nusable - frame->dp * frame->pp * uniform_width(frame),
                             .shapes = search->nshapes,
                             .priced = search->npriced};
    LUO_TRY(uniform_make_plan(search, search->arena, shape, &out->plan));
    out->plan->meta_json = luo_arena_printf(search->arena,
                                            "{\"bound_s\":%.9g,\"objective_s\":%.9g,\"planner\":"
                                            "\"uniform\"}",
                                            out->bound_s, out->objective_s);
    return out->plan->meta_json ? LUO_OK : luo_err_nomem(search->err);
}

/* ---- what cannot be ---- */

static luo_status check_halves(const uniform_search *search)
{
    const luo_uniform_opts *opts = search->opts;
    if (opts->schedule <= 0 || !luo_sched_splits((luo_sched_kind)(opts->schedule - 1)) ||
        opts->zero < 2)
        return LUO_OK;
    return luo_err_set(search->err, LUO_EINPUT,
                       "schedule `%s` is asked for with zero %d, which cuts "
                       "gradients in a whole backward; ask for zero 0 or 1.",
                       luo_sched_name((luo_sched_kind)(opts->schedule - 1)), opts->zero);
}

static luo_status check_schedule(const uniform_search *search)
{
    const luo_uniform_opts *opts = search->opts;
    const bool interleaved =
        opts->schedule <= 0 || opts->schedule == 1 + (int)LUO_SCHED_INTERLEAVED;
    if (opts->chunks > 1 && (!interleaved || opts->schedule == 0))
        return luo_err_set(search->err, LUO_EINPUT,
                           "%d chunks a stage are asked for with schedule "
                           "`%s`; only `interleaved_1f1b` has several.",
                           opts->chunks,
                           luo_sched_name(opts->schedule > 0 ? (luo_sched_kind)(opts->schedule - 1)
                                                             : LUO_SCHED_1F1B));
    if (opts->chunks == 1 && opts->schedule == 1 + (int)LUO_SCHED_INTERLEAVED)
        return luo_err_set(search->err, LUO_EINPUT,
                           "one chunk a stage is asked for with schedule "
                           "`interleaved_1f1b`; two at least are needed.");
    return check_halves(search);
}

static luo_status check_opts(const uniform_search *search)
{
    const luo_uniform_opts *opts = search->opts;
    if (opts->batch_sequences < 1 || opts->sequence_tokens < 1)
        return luo_err_set(search->err, LUO_EINPUT,
                           "the batch holds %lld sequences of %lld tokens; at "
                           "least one of each is expected.",
                           (long long)opts->batch_sequences, (long long)opts->sequence_tokens);
    if (!luo_model_has_layers(search->model))
        return luo_err_set(search->err, LUO_EINPUT,
                           "model `%s` is a %s; planner `uniform` plans "
                           "transformers.",
                           search->model->name, luo_family_desc_of(search->model->family)->name);
    if (opts->cp > 1) LUO_TRY(luo_model_check_context(search->model, search->err));
    if (opts->tp && !luo_model_tp_divides(search->model, opts->tp))
        return uniform_refuse_tp(search);
    if (opts->pp && opts->layers == LUO_UNIFORM_EQUAL && search->model->layers % opts->pp)
        return luo_err_set(search->err, LUO_EINPUT,
                           "%d stages do not divide %lld layers; stages of "
                           "equally many are asked for.",
                           opts->pp, (long long)search->model->layers);
    if (opts->pp > search->model->layers)
        return luo_err_set(search->err, LUO_EINPUT,
                           "%d stages are more than the %lld layers; each "
                           "stage has one at least.",
                           opts->pp, (long long)search->model->layers);
    return check_schedule(search);
}

static luo_status run_search(uniform_search *search, best *b)
{
    LUO_TRY(check_opts(search));
    LUO_TRY(uniform_take_devices(search));
    search->groups = LUO_NEW_N(search->scratch, int32_t, search->nusable);
    search->dev = LUO_NEW_N(search->scratch, int32_t, search->nusable);
    b->most = search->opts->top > 0 ? search->opts->top : 1;
    best families = {.most = search->opts->families, .one_each = true};
    families.at = LUO_NEW_N(search->scratch, uniform_shape, families.most + 1);
    b->at = LUO_NEW_N(search->scratch, uniform_shape, b->most + families.most + 1);
    if (!search->groups || !search->dev || !b->at || !families.at)
        return luo_err_nomem(search->err);
    LUO_TRY(uniform_list_shapes(search));
    LUO_TRY(find_best(search, b, &families));
    join(b, &families);
    return b->n == 0 ? uniform_refuse(search) : LUO_OK;
}

luo_status luo_plan_uniform(luo_arena *arena, const luo_model *model, const luo_cluster *cluster,
                            const luo_uniform_opts *opts, luo_uniform_result **out, int32_t *n,
                            luo_err *err)
{
    luo_status st = LUO_OK;
    luo_stack stack;
    luo_uniform_opts own = *opts;
    luo_stack_default(&stack);
    if (!own.stack) own.stack = &stack;
    uniform_search search = {
        .arena = arena,
        .scratch = luo_arena_new(0),
        .model = model,
        .cluster = cluster,
        .opts = &own,
        .err = err,
        .tightest = INFINITY,
        .groups_pool = -1,
        .cost = {.cluster = cluster, .stack = own.stack, .dtype = model->dtype}};
    best b = {0};
    if (!search.scratch) return luo_err_nomem(err);
    LUO_TRY_OUT(run_search(&search, &b));
    luo_uniform_result *result = LUO_NEW_N(arena, luo_uniform_result, b.n);
    if (!result) {
        st = luo_err_nomem(err);
        goto out;
    }
    for (int32_t i = 0; i < b.n; i++) LUO_TRY_OUT(build(&search, &b.at[i], &result[i]));
    *out = result;
    *n = b.n;
out:
    luo_map_free(&search.known);
    luo_arena_free(search.scratch);
    return st;
}
