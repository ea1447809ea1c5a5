/* step_messages.c: what stages of a pipeline send to each other. */
#include <math.h>

#include "core/plan/step/step_internal.h"

/* Pair i of devices between a stage and the next; false: there are no more. A device of a narrow
 * stage has several others, of which the first stands for all. */
static bool pair_of(const luo_stage *a, const luo_stage *b, int32_t i, int32_t pair[2])
{
    const int32_t tp[2] = {luo_stage_tp(a), luo_stage_tp(b)};
    const int32_t most = tp[0] > tp[1] ? tp[0] : tp[1], least = tp[0] + tp[1] - most;
    const int32_t rank = i / least, at = i % least;
    if (rank >= a->context_parallel) return false;
    pair[0] = a->dev[rank * tp[0] + at * tp[0] / least];
    pair[1] = b->dev[rank * tp[1] + at * tp[1] / least];
    return true;
}

static bool is_far(const stepper *w, const int32_t pair[2])
{
    const luo_device *device = w->in->cluster->devices;
    return device[pair[0]].node != device[pair[1]].node;
}

/* How many devices of a node send to another behind stage s: pipelines go in step. */
int32_t *step_senders(const stepper *w, int32_t device, int32_t s)
{
    const int32_t node = w->in->cluster->devices[device].node;
    return &w->senders[(size_t)node * (size_t)w->most_stages + (size_t)s];
}

/* Messages behind the stage: chunks also go from the last to the first. */
const luo_stage *step_next(const stepper *w, const luo_pipeline *pl, int32_t s)
{
    if (s + 1 < pl->nstages) return &pl->stages[s + 1];
    return pl->nstages > 1 && w->plan->chunks > 1 ? &pl->stages[0] : NULL;
}

luo_status step_count_senders(stepper *w)
{
    const luo_plan *plan = w->plan;
    for (int32_t i = 0; i < plan->npipelines; i++)
        if (plan->pipelines[i].nstages > w->most_stages)
            w->most_stages = plan->pipelines[i].nstages;
    w->senders =
        LUO_NEW_N(w->scratch, int32_t, (size_t)w->in->cluster->nnodes * (size_t)w->most_stages);
    if (!w->senders) return luo_err_nomem(w->err);
    for (int32_t i = 0; i < plan->npipelines; i++)
        for (int32_t s = 0; s < plan->pipelines[i].nstages; s++) {
            const luo_stage *stage = step_next(w, &plan->pipelines[i], s);
            int32_t pair[2];
            for (int32_t k = 0; stage && pair_of(&plan->pipelines[i].stages[s], stage, k, pair);
                 k++)
                *step_senders(w, pair[0], s) += is_far(w, pair);
        }
    return LUO_OK;
}

/* What a device sends to the stage behind, or in front: with sequence parallelism each has its part
 * of the tokens, else everyone of the other needs all of them. */
static int64_t bytes_of(const stepper *w, const step_stage *from, const step_stage *to, bool far)
{
    const int32_t tp[2] = {from->shape.tp, to->shape.tp};
    const int64_t all =
        luo_layer_tokens(&from->shape) * w->in->model->hidden * luo_dtype_bytes(w->plan->dtype);
    if (w->plan->sequence_parallel) return all / (tp[0] < tp[1] ? tp[0] : tp[1]);
    const int32_t each = tp[1] > tp[0] ? tp[1] / tp[0] : 1;
    return w->in->stack->scatter_gather && far && tp[0] == tp[1] ? all / tp[0] : all * each;
}

void step_cost_message(const stepper *w, step_pipe *pipe, int32_t s)
{
    const step_stage *a = &pipe->stage[s], *b = &pipe->stage[(s + 1) % pipe->n];
    int32_t pair[2];
    pipe->transfer[s] = pipe->back[s] = 0;
    for (int32_t i = 0; pair_of(a->at, b->at, i, pair); i++) {
        const bool far = is_far(w, pair);
        const luo_device *from = &w->in->cluster->devices[pair[0]];
        const int32_t nics = w->in->cluster->groups[from->group].nics;
        const int32_t sharers = far ? *step_senders(w, pair[0], s) : 0;
        const double part = far ? 1.0 / (sharers > nics ? sharers : nics) : 0;
        const double forth =
            luo_cost_p2p_seconds(&w->ctx, pair[0], pair[1], bytes_of(w, a, b, far), part);
        const double back =
            luo_cost_p2p_seconds(&w->ctx, pair[1], pair[0], bytes_of(w, b, a, far), part);
        pipe->transfer[s] = fmax(pipe->transfer[s], forth);
        pipe->back[s] = fmax(pipe->back[s], back);
    }
}

luo_status step_price_message(step_links *links, int32_t pipeline, int32_t s, bool back,
                              const step_slice **slices, int32_t *n)
{
    const stepper *w = links->w;
    const step_pipe *pipe = &w->pipe[pipeline];
    const luo_pipeline *pl = &w->plan->pipelines[pipeline];
    const int32_t after = (s + 1) % pipe->n;
    const step_stage *a = &pipe->stage[s], *b = &pipe->stage[after];
    int32_t pair[2];
    for (*n = 0; pair_of(&pl->stages[s], &pl->stages[after], *n, pair); ++*n) {
    }
    step_slice *made = LUO_NEW_N(w->scratch, step_slice, *n);
    if (!made) return luo_err_nomem(w->err);
    for (int32_t i = 0; pair_of(&pl->stages[s], &pl->stages[after], i, pair); i++) {
        const int64_t bytes =
            back ? bytes_of(w, b, a, is_far(w, pair)) : bytes_of(w, a, b, is_far(w, pair));
        LUO_TRY(step_price_pair(links, pair[back], pair[!back], bytes, &made[i]));
    }
    *slices = made;
    return LUO_OK;
}
