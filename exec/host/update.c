/* update.c: the norm of all gradients, AdamW; where updates do not wait for the norm, an update
 * that was made too early is taken back and made anew. */
#include <math.h>
#include <string.h>

#include "exec/host/job.h"
#include "exec/recipe.h"

static void put_real(const luo_rank *r, void *at, double v)
{
    if (r->x->k->elem == sizeof(float))
        *(float *)at = (float)v;
    else
        *(double *)at = v;
}

static double get_real(const luo_rank *r, const void *at)
{
    return r->x->k->elem == sizeof(float) ? (double)*(const float *)at : *(const double *)at;
}

static double most_squares(const luo_rank *r)
{
    return luo_bound_most_squares(r->x->config.dtype, r->x->config.nranks);
}

/* Sum of squares of the cells counted here; what isn't finite counts as the most there is. A rank
 * that drains makes it -inf. So the sum over all ranks tells every one of them the same, whatever
 * garbage the gradients of a drained step are: below 0, nothing may be updated. */
void host_run_grad_norm(luo_rank *r, const luo_bound_op *op, int32_t task)
{
    double sum = 0;
    const int64_t elem = (int64_t)r->x->k->elem;
    for (int32_t i = 0; i < r->job->b.npairs; i++) {
        const luo_bound_pair *p = &r->job->b.pair[i];
        const char *g = host_buf(r, p->grad, task);
        for (int32_t k = 0; k < p->owned.n; k++)
            sum += r->x->k->sum_squares(p->owned.at[k].n, g + p->owned.at[k].at * elem);
    }
    if (!(sum < most_squares(r))) sum = most_squares(r);
    put_real(r, host_buf(r, op->instr->out[0], task), r->drain ? -INFINITY : sum);
}

static void update_pair(luo_rank *r, const luo_bound_pair *p, luo_adam *a, int32_t task)
{
    const int64_t elem = (int64_t)r->x->k->elem;
    const char *g = host_buf(r, p->grad, task);
    a->weight_decay = p->decays ? LUO_WEIGHT_DECAY : 0;
    for (int32_t k = 0; k < p->ncells; k++) {
        const luo_cells *c = &p->cells[k];
        r->x->k->adamw(c->n, a, g + c->grad * elem, (char *)p->piece->weight + c->weight * elem,
                       (char *)p->piece->m + c->state * elem,
                       (char *)p->piece->v + c->state * elem);
    }
}

static void update_all(luo_rank *r, int32_t task, double grad_scale)
{
    luo_adam a = {.lr = LUO_LEARNING_RATE,
                  .beta1 = LUO_BETA1,
                  .beta2 = LUO_BETA2,
                  .eps = LUO_ADAM_EPS,
                  .step = r->order->step + 1,
                  .grad_scale = grad_scale};
    for (int32_t i = 0; i < r->job->b.npairs; i++) update_pair(r, &r->job->b.pair[i], &a, task);
}

/* What the gradients are scaled with, by the sum of squares of all of them. False: nothing may be
 * updated. */
static bool judge(luo_rank *r, double squares, double *grad_scale)
{
    if (!(squares >= 0 && squares < most_squares(r))) {
        r->outcome = squares < 0 ? HOST_DRAINED : HOST_NOT_FINITE;
        return false;
    }
    r->grad_norm = sqrt(squares);
    *grad_scale = fmin(1, LUO_CLIP_NORM / (r->grad_norm + LUO_CLIP_EPS));
    return true;
}

/* ---- staggered: updated first, judged when the norm is there ---- */

static int64_t cells_of(const luo_job *j)
{
    int64_t n = 0;
    for (int32_t i = 0; i < j->b.npairs; i++)
        for (int32_t k = 0; k < j->b.pair[i].ncells; k++) n += j->b.pair[i].cells[k].n;
    return n;
}

int64_t host_undo_bytes(const luo_job *j)
{
    return 3 * cells_of(j) * (int64_t)j->x->k->elem;
}

static void keep(char **copy, char *here, int64_t bytes, bool back)
{
    memcpy(back ? here : *copy, back ? *copy : here, (size_t)bytes);
    *copy += bytes;
}

/* Weights and moments as they were: kept, or taken back. Bit by bit, which AdamW run backward, as
 * the paper has it, is not. */
static void copy_state(luo_rank *r, bool back)
{
    const int64_t elem = (int64_t)r->x->k->elem;
    char *at = r->job->undo;
    for (int32_t i = 0; i < r->job->b.npairs; i++) {
        const luo_bound_pair *p = &r->job->b.pair[i];
        for (int32_t k = 0; k < p->ncells; k++) {
            const luo_cells *c = &p->cells[k];
            keep(&at, (char *)p->piece->weight + c->weight * elem, c->n * elem, back);
            keep(&at, (char *)p->piece->m + c->state * elem, c->n * elem, back);
            keep(&at, (char *)p->piece->v + c->state * elem, c->n * elem, back);
        }
    }
}

void host_run_amend(luo_rank *r, const luo_bound_op *op, int32_t task)
{
    const double squares = get_real(r, host_buf(r, op->instr->in[op->instr->nin - 1], task));
    double grad_scale = 0;
    const bool updates = judge(r, squares, &grad_scale);
    if (updates && grad_scale == 1) return;
    copy_state(r, true);
    if (updates) update_all(r, task, grad_scale);
}

void host_run_update(luo_rank *r, const luo_bound_op *op, int32_t task)
{
    double grad_scale = 1;
    if (r->job->undo) copy_state(r, false);
    else if (!judge(r, get_real(r, host_buf(r, op->instr->in[op->instr->nin - 1], task)),
                    &grad_scale))
        return;
    update_all(r, task, grad_scale);
}
