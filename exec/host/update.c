/* update.c: the norm of all gradients, AdamW; where updates do not wait for the norm, an update
 * that was made too early is taken back and made anew. */
#include <math.h>
#include <string.h>

#include "exec/host/job.h"
#include "exec/recipe.h"

static void put_real(const luo_rank *rank, void *at, double v)
{
    if (rank->x->k->elem == sizeof(float))
        *(float *)at = (float)v;
    else
        *(double *)at = v;
}

static double get_real(const luo_rank *rank, const void *at)
{
    return rank->x->k->elem == sizeof(float) ? (double)*(const float *)at : *(const double *)at;
}

static double most_squares(const luo_rank *rank)
{
    return luo_bound_most_squares(rank->x->config.dtype, rank->x->config.nranks);
}

/* Sum of squares of the cells counted here; what isn't finite counts as the most there is. A rank
 * that drains makes it -inf. So the sum over all ranks tells every one of them the same, whatever
 * garbage the gradients of a drained step are: below 0, nothing may be updated. */
void host_run_grad_norm(luo_rank *rank, const luo_bound_op *op, int32_t task)
{
    double sum = 0;
    const int64_t elem = (int64_t)rank->x->k->elem;
    host_take_gradients(rank, task);
    for (int32_t i = 0; i < rank->job->b.npairs; i++) {
        const luo_bound_pair *pair = &rank->job->b.pair[i];
        const char *g = host_buf(rank, pair->grad, task);
        for (int32_t k = 0; k < pair->owned.n; k++)
            sum += rank->x->k->sum_squares(pair->owned.at[k].n, g + pair->owned.at[k].at * elem);
    }
    if (!(sum < most_squares(rank))) sum = most_squares(rank);
    put_real(rank, host_buf(rank, op->instr->out[0], task), rank->drain ? -INFINITY : sum);
}

static void update_pair(luo_rank *rank, const luo_bound_pair *pair, luo_adam *adam, int32_t task)
{
    const int64_t elem = (int64_t)rank->x->k->elem;
    const char *g = host_buf(rank, pair->grad, task);
    adam->weight_decay = pair->decays ? LUO_WEIGHT_DECAY : 0;
    for (int32_t k = 0; k < pair->ncells; k++) {
        const luo_cells *cells = &pair->cells[k];
        rank->x->k->adamw(cells->n, adam, g + cells->grad * elem,
                          (char *)pair->piece->weight + cells->weight * elem,
                          (char *)pair->piece->m + cells->state * elem,
                          (char *)pair->piece->v + cells->state * elem);
    }
}

/* Up where fewer tokens than the mean chose the expert, down where more did. */
static void move_bias(luo_rank *rank, const luo_bound_pair *pair, int32_t task)
{
    const int64_t elem = (int64_t)rank->x->k->elem;
    const double rate = rank->x->config.model->moe.bias_rate;
    const char *counts = host_buf(rank, pair->grad, task);
    double sum = 0, n = 0;
    for (int32_t k = 0; k < pair->ncells; k++) {
        n += (double)pair->cells[k].n;
        for (int64_t i = 0; i < pair->cells[k].n; i++)
            sum += get_real(rank, counts + (pair->cells[k].grad + i) * elem);
    }
    for (int32_t k = 0; k < pair->ncells; k++)
        for (int64_t i = 0; i < pair->cells[k].n; i++) {
            char *bias = (char *)pair->piece->weight + (pair->cells[k].weight + i) * elem;
            const double more = sum / n - get_real(rank, counts + (pair->cells[k].grad + i) * elem);
            put_real(rank, bias, get_real(rank, bias) + rate * ((more > 0) - (more < 0)));
        }
}

static void update_all(luo_rank *rank, int32_t task, double grad_scale)
{
    luo_adam adam = {.lr = LUO_LEARNING_RATE,
                     .beta1 = LUO_BETA1,
                     .beta2 = LUO_BETA2,
                     .eps = LUO_ADAM_EPS,
                     .step = rank->order->step + 1,
                     .grad_scale = grad_scale};
    for (int32_t i = 0; i < rank->job->b.npairs; i++) {
        const luo_bound_pair *pair = &rank->job->b.pair[i];
        if (pair->piece->param->counted)
            move_bias(rank, pair, task);
        else
            update_pair(rank, pair, &adam, task);
    }
}

/* What the gradients are scaled with, by the sum of squares of all of them. False: nothing may be
 * updated. */
static bool judge(luo_rank *rank, double squares, double *grad_scale)
{
    if (!(squares >= 0 && squares < most_squares(rank))) {
        rank->outcome = squares < 0 ? HOST_DRAINED : HOST_NOT_FINITE;
        return false;
    }
    rank->grad_norm = sqrt(squares);
    *grad_scale = fmin(1, LUO_CLIP_NORM / (rank->grad_norm + LUO_CLIP_EPS));
    return true;
}

/* ---- staggered: updated first, judged when the norm is there ---- */

static int64_t cells_of(const luo_job *job)
{
    int64_t n = 0;
    for (int32_t i = 0; i < job->b.npairs; i++)
        for (int32_t k = 0; k < job->b.pair[i].ncells; k++) n += job->b.pair[i].cells[k].n;
    return n;
}

int64_t host_undo_bytes(const luo_job *job)
{
    return 3 * cells_of(job) * (int64_t)job->x->k->elem;
}

static void keep(char **copy, char *here, int64_t bytes, bool back)
{
    memcpy(back ? here : *copy, back ? *copy : here, (size_t)bytes);
    *copy += bytes;
}

/* Weights and moments as they were: kept, or taken back. Bit by bit, which AdamW run backward, as
 * the paper has it, is not. */
static void copy_state(luo_rank *rank, bool back)
{
    const int64_t elem = (int64_t)rank->x->k->elem;
    char *at = rank->job->undo;
    for (int32_t i = 0; i < rank->job->b.npairs; i++) {
        const luo_bound_pair *pair = &rank->job->b.pair[i];
        for (int32_t k = 0; k < pair->ncells; k++) {
            const luo_cells *cells = &pair->cells[k];
            keep(&at, (char *)pair->piece->weight + cells->weight * elem, cells->n * elem, back);
            if (pair->piece->param->counted) continue;
            keep(&at, (char *)pair->piece->m + cells->state * elem, cells->n * elem, back);
            keep(&at, (char *)pair->piece->v + cells->state * elem, cells->n * elem, back);
        }
    }
}

void host_run_amend(luo_rank *rank, const luo_bound_op *op, int32_t task)
{
    const double squares = get_real(rank, host_buf(rank, op->instr->in[op->instr->nin - 1], task));
    double grad_scale = 0;
    const bool updates = judge(rank, squares, &grad_scale);
    if (!luo_step_part_is_last(&rank->order->part)) return; /* nothing was updated */
    if (updates && grad_scale == 1) return;
    copy_state(rank, true);
    if (updates) update_all(rank, task, grad_scale);
}

void host_run_update(luo_rank *rank, const luo_bound_op *op, int32_t task)
{
    double grad_scale = 1;
    const bool waits = !rank->job->undo;
    if (waits) {
        const int32_t norm = op->instr->in[op->instr->nin - 1];
        if (!judge(rank, get_real(rank, host_buf(rank, norm, task)), &grad_scale)) return;
    }
    if (!luo_step_part_is_last(&rank->order->part)) {
        host_keep_gradients(rank, task);
        return;
    }
    host_take_gradients(rank, task);
    if (!waits) copy_state(rank, false);
    update_all(rank, task, grad_scale);
}
