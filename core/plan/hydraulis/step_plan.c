/* From replicas, an assignment and micro-batches to the plan that is compiled. */
#include "core/plan/hydraulis/step_plan.h"

#include <string.h>

typedef struct making {
    luo_arena *arena;
    const luo_step_place *place;
    const luo_pool *pool;
    const luo_replicas *replicas;
} making;

/* Devices of stage s, from *first on; its layers in range[s], which has those before it. */
static void cut_stage(const luo_pool_entry *entry, int32_t layers, int32_t s, luo_range *range,
                      int32_t *first, int32_t *width)
{
    const luo_pool_split *split = entry->split;
    const int32_t begin = s == 0 ? 0 : range[s - 1].hi;
    range[s] = (luo_range){begin, split ? begin + split->layers[s] : (s + 1) * layers / entry->pp};
    *width = split ? split->width[s] : entry->tp * entry->cp;
    *first = split ? split->first[s] : s * *width;
}

static luo_status make_stages(const making *m, const luo_pool_entry *entry, const int32_t *dev,
                              luo_pipeline *pipe, luo_err *err)
{
    const int32_t layers = (int32_t)m->place->model->layers;
    luo_stage *stage = LUO_NEW_N(m->arena, luo_stage, entry->pp);
    luo_range *range = LUO_NEW_N(m->arena, luo_range, entry->pp);
    if (!stage || !range) return luo_err_nomem(err);
    for (int32_t s = 0; s < entry->pp; s++) {
        int32_t first, width;
        cut_stage(entry, layers, s, range, &first, &width);
        stage[s] =
            (luo_stage){.nlayers = 1,
                        .layers = &range[s],
                        .ndev = width,
                        .dev = dev + first,
                        .context_parallel = entry->cp,
                        .context_kind = entry->exchange == LUO_EXCHANGE_RING    ? LUO_CONTEXT_RING
                                        : entry->exchange == LUO_EXCHANGE_HEADS ? LUO_CONTEXT_A2A
                                                                                : LUO_CONTEXT_AUTO,
                        .embedding = s == 0,
                        .head = s == entry->pp - 1};
    }
    pipe->nstages = entry->pp;
    pipe->stages = stage;
    return LUO_OK;
}

static int64_t padded(const luo_pool_entry *entry, int64_t tokens)
{
    const int64_t unit = (int64_t)LUO_POOL_ROUND * entry->cp;
    return (tokens + unit - 1) / unit * unit;
}

/* Place of micro-batch u, which counts by falling time, in the order of the pipeline. Without other
 * stages any order takes the same time: the longest goes last, so that its backward hides the
 * gradients' way, and the second longest first, so that its forward hides that of the weights. */
static int32_t place_of(const luo_pool_entry *entry, const luo_packed *packed, int32_t u)
{
    if (entry->pp > 1) return u;
    return u == 0 ? packed->nbins - 1 : u - 1;
}

static luo_status make_batches(const making *m, const luo_pool_entry *entry,
                               const luo_packed *packed, luo_pipeline *pipe, luo_err *err)
{
    const int32_t n = packed ? packed->nbins : 1;
    const bool full = !packed && (entry->cap == 0 || entry->cap >= m->place->ctx);
    int64_t *tokens = LUO_NEW_N(m->arena, int64_t, n);
    if (!tokens) return luo_err_nomem(err);
    tokens[0] = entry->cap;
    for (int32_t u = 0; packed && u < n; u++)
        tokens[place_of(entry, packed, u)] = padded(entry, packed->tokens[u]);
    pipe->micro_batches = n;
    pipe->micro_batch_sequences = 1;
    pipe->micro_batch_tokens = full ? NULL : tokens;
    return LUO_OK;
}

/* packed NULL: all replicas, without sequences. number[r]: pipeline of the replica, -1: none. */
static luo_status make_pipelines(const making *m, const luo_packed *packed, luo_plan *plan,
                                 int32_t *number, luo_err *err)
{
    luo_pipeline *pipe = LUO_NEW_N(m->arena, luo_pipeline, m->replicas->n);
    const int32_t *dev = m->place->devices;
    int32_t n = 0;
    if (!pipe) return luo_err_nomem(err);
    for (int32_t r = 0; r < m->replicas->n; r++) {
        const luo_pool_entry *entry = &m->pool->entry[m->replicas->replica[r].entry];
        number[r] = -1;
        if (!packed || packed[r].nbins > 0) {
            LUO_TRY(make_stages(m, entry, dev, &pipe[n], err));
            LUO_TRY(make_batches(m, entry, packed ? &packed[r] : NULL, &pipe[n], err));
            plan->sequence_parallel = plan->sequence_parallel || entry->tp > 1;
            number[r] = n++;
        }
        dev += luo_pool_devices(entry);
    }
    plan->npipelines = n;
    plan->pipelines = pipe;
    return LUO_OK;
}

static luo_plan blank(const luo_step_place *place)
{
    luo_plan plan = {.name = "",
                     .model = place->model->name,
                     .cluster = place->cluster->name,
                     .layers = (int32_t)place->model->layers,
                     .devices = place->cluster->ndevices,
                     .dtype = place->dtype,
                     .sequence_tokens = place->ctx,
                     .micro_batch_sequences = 1,
                     .zero = 1,
                     .schedule = LUO_SCHED_1F1B,
                     .chunks = 1};
    const luo_optimizer_layout *layout = place->layout;
    if (!layout) return plan;
    plan.zero = 0;
    plan.state_layout =
        (luo_state_layout){layout->dp, layout->tp, layout->pp, layout->dp * layout->tp * layout->pp,
                           place->layout_devices ? place->layout_devices : place->devices};
    return plan;
}

static luo_status make(const making *m, const luo_step_plan *step, const int64_t *length,
                       const int32_t *names, int32_t n, luo_plan **out, luo_err *err)
{
    luo_plan *plan = LUO_NEW(m->arena, luo_plan);
    int32_t *number = LUO_NEW_N(m->arena, int32_t, m->replicas->n);
    luo_assignment *at = LUO_NEW_N(m->arena, luo_assignment, n);
    if (!plan || !number || !at) return luo_err_nomem(err);
    *plan = blank(m->place);
    LUO_TRY(make_pipelines(m, step ? step->packed : NULL, plan, number, err));
    for (int32_t i = 0; i < n; i++) {
        const int32_t r = step->assign[i];
        const luo_pool_entry *entry = &m->pool->entry[m->replicas->replica[r].entry];
        at[i] = (luo_assignment){names ? names[i] : i, length[i], number[r],
                                 place_of(entry, &step->packed[r], step->bin[i])};
    }
    plan->nassignment = n;
    plan->assignment = at;
    *out = plan;
    return LUO_OK;
}

luo_status luo_step_plan_make(luo_arena *arena, const luo_step_place *place, const luo_pool *pool,
                              const luo_replicas *replicas, const luo_step_plan *step,
                              const int64_t *length, const int32_t *number, int32_t n,
                              luo_plan **out, luo_err *err)
{
    const making m = {arena, place, pool, replicas};
    return make(&m, step, length, number, n, out, err);
}

luo_status luo_step_plan_frame(luo_arena *arena, const luo_step_place *place, const luo_pool *pool,
                               const luo_replicas *replicas, luo_plan **out, luo_err *err)
{
    const making m = {arena, place, pool, replicas};
    return make(&m, NULL, NULL, NULL, 0, out, err);
}

luo_status luo_step_plan_strip(luo_arena *arena, const luo_plan *plan, luo_plan **out,
                               luo_err *err)
{
    luo_plan *bare = LUO_NEW(arena, luo_plan);
    luo_pipeline *pipe = LUO_NEW_N(arena, luo_pipeline, plan->npipelines);
    if (!bare || !pipe) return luo_err_nomem(err);
    for (int32_t i = 0; i < plan->npipelines; i++) {
        pipe[i] = plan->pipelines[i];
        pipe[i].micro_batches = 1;
        pipe[i].micro_batch_tokens = NULL;
    }
    *bare = *plan;
    bare->pipelines = pipe;
    bare->nassignment = 0;
    bare->assignment = NULL;
    *out = bare;
    return LUO_OK;
}
