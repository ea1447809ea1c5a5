/* exec/host/update.c: the pieces of state a rank keeps, the norm of all gradients, AdamW. */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "exec/host/job.h"
#include "exec/recipe.h"

static int32_t find_buffer(const luo_job *j, int32_t buffer_class, const char *name)
{
    for (int32_t b = 0; j->role && b < j->role->nbuf; b++)
        if (j->role->buf[b].buffer_class == buffer_class &&
            strcmp(j->role->buf[b].tensor, name) == 0)
            return b;
    return -1;
}

static luo_status region_here(luo_job *j, const luo_ann *a, const luo_shape *shape, luo_region *out,
                              luo_err *err)
{
    *out = (luo_region){.rank = shape->rank, .empty = true};
    for (int32_t u = 0; u < a->u; u++)
        for (int32_t i = 0; i < a->grp[u].ndev; i++)
            if (a->grp[u].dev[i] == j->x->device)
                return luo_region_of(j->arena, a, shape, u, i, out, err);
    return LUO_OK;
}

static luo_status bind_piece(luo_job *j, luo_piece *p, luo_err *err)
{
    const luo_param *q = p->param;
    LUO_TRY(region_here(j, q->state, &q->shape, &p->piece, err));
    if (p->piece.empty) return LUO_OK;
    char name[256];
    snprintf(name, sizeof name, "%s.state", q->name);
    const int32_t w = find_buffer(j, LUO_BUFFER_WEIGHT, q->name);
    const int32_t s = find_buffer(j, LUO_BUFFER_OPTIMIZER, name);
    if (w < 0 || s < 0)
        return luo_err_set(err, LUO_EBUG, "parameter `%s` has no buffer on device %d.", q->name,
                           (int)j->x->device);
    LUO_TRY(luo_frame_of(j->arena, host_desc(j, w), j->x->device, &p->weight_frame, err));
    LUO_TRY(luo_frame_of(j->arena, host_desc(j, s), j->x->device, &p->state_frame, err));
    p->weight = j->slab + j->layout.at[w];
    p->m = j->slab + j->layout.at[s];
    p->v = (char *)p->m + p->state_frame.volume * (int64_t)j->x->k->elem;
    return LUO_OK;
}

luo_status host_bind_pieces(luo_job *j, luo_err *err)
{
    luo_state *s = &j->state;
    LUO_TRY(luo_plan_params(j->arena, j->recipe->plan, j->x->config.model, &j->param, &s->n, err));
    s->at = LUO_NEW_N(j->arena, luo_piece, s->n);
    if (!s->at) return luo_err_nomem(err);
    s->device = j->x->device;
    s->elem = j->x->k->elem;
    for (int32_t i = 0; i < s->n; i++) {
        s->at[i].param = &j->param[i];
        s->at[i].piece = (luo_region){.rank = j->param[i].shape.rank, .empty = true};
        if (j->program) LUO_TRY(bind_piece(j, &s->at[i], err));
    }
    return LUO_OK;
}

/* ---- the update: states, then their gradients, then the norm ---- */

static const luo_piece *piece_of(const luo_job *j, const char *state)
{
    const size_t n = strlen(state) - strlen(".state");
    for (int32_t i = 0; i < j->state.n; i++) {
        const char *name = j->state.at[i].param->name;
        if (strlen(name) == n && memcmp(name, state, n) == 0) return &j->state.at[i];
    }
    return NULL;
}

/* Cuts three lists of strips over the same cells at all their ends. */
static luo_status merge(luo_job *j, const luo_strips *w, const luo_strips *g, const luo_strips *s,
                        host_pair *out, luo_err *err)
{
    host_run3 *run = LUO_NEW_N(j->arena, host_run3, w->n + g->n + s->n);
    if (!run) return luo_err_nomem(err);
    int32_t a = 0, b = 0, c = 0, n = 0;
    int64_t pa = 0, pb = 0, pc = 0;
    while (a < w->n && b < g->n && c < s->n) {
        int64_t len = w->at[a].n - pa;
        if (g->at[b].n - pb < len) len = g->at[b].n - pb;
        if (s->at[c].n - pc < len) len = s->at[c].n - pc;
        run[n++] = (host_run3){w->at[a].at + pa, g->at[b].at + pb, s->at[c].at + pc, len};
        if ((pa += len) == w->at[a].n) a++, pa = 0;
        if ((pb += len) == g->at[b].n) b++, pb = 0;
        if ((pc += len) == s->at[c].n) c++, pc = 0;
    }
    out->run = run;
    out->nruns = n;
    return LUO_OK;
}

static luo_status bind_pair(luo_job *j, int32_t state, int32_t grad, host_pair *out, luo_err *err)
{
    luo_frame f;
    luo_strips w, g, s;
    const luo_piece *p = piece_of(j, host_desc(j, state)->tensor);
    if (!p || p->piece.empty)
        return luo_err_set(err, LUO_EBUG, "state `%s` is updated on device %d but not kept there.",
                           host_desc(j, state)->tensor, (int)j->x->device);
    LUO_TRY(luo_frame_of(j->arena, host_desc(j, grad), j->x->device, &f, err));
    LUO_TRY(luo_frame_strips(j->arena, &p->weight_frame, &p->piece, &w, err));
    LUO_TRY(luo_frame_strips(j->arena, &f, &p->piece, &g, err));
    LUO_TRY(luo_frame_strips(j->arena, &p->state_frame, &p->piece, &s, err));
    *out = (host_pair){.piece = p, .grad = grad, .decays = luo_param_decays(p->param)};
    LUO_TRY(merge(j, &w, &g, &s, out, err));
    return luo_owned_strips(j->arena, p->param->state, &p->param->shape, j->x->device, &f,
                            &out->owned, err);
}

/* The states, their gradients, the norm; one instruction of a role. */
luo_status host_bind_update(luo_job *j, host_op *op, luo_err *err)
{
    const luo_instr *update = op->instr;
    int32_t n = 0;
    while (n < update->nin && host_desc(j, update->in[n])->buffer_class == LUO_BUFFER_OPTIMIZER)
        n++;
    if (update->nin != 2 * n + 1 || j->pair)
        return luo_err_set(err, LUO_EBUG, "the update of device %d has %d states and %d operands.",
                           (int)j->x->device, (int)n, (int)update->nin);
    j->pair = LUO_NEW_N(j->arena, host_pair, n);
    if (!j->pair) return luo_err_nomem(err);
    for (int32_t i = 0; i < n; i++)
        LUO_TRY(bind_pair(j, update->in[i], update->in[n + i], &j->pair[i], err));
    j->npairs = n;
    return LUO_OK;
}

/* ---- running them ---- */

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

/* What one rank adds at most, so that the sum of all ranks stays finite. */
static double most_squares(const luo_rank *r)
{
    const double most = r->x->k->elem == sizeof(float) ? (double)FLT_MAX : DBL_MAX;
    return most / 2 / r->x->config.nranks;
}

/* Sum of squares of the cells counted here; what isn't finite counts as the most there is. A rank
 * that drains makes it -inf. So the sum over all ranks tells every one of them the same, whatever
 * garbage the gradients of a drained step are: below 0, nothing may be updated. */
void host_run_norm(luo_rank *r, const host_op *op, int32_t task)
{
    double sum = 0;
    const int64_t elem = (int64_t)r->x->k->elem;
    for (int32_t i = 0; i < r->job->npairs; i++) {
        const host_pair *p = &r->job->pair[i];
        const char *g = host_buf(r, p->grad, task);
        for (int32_t k = 0; k < p->owned.n; k++)
            sum += r->x->k->sum_squares(p->owned.at[k].n, g + p->owned.at[k].at * elem);
    }
    if (!(sum < most_squares(r))) sum = most_squares(r);
    put_real(r, host_buf(r, op->instr->out[0], task), r->drain ? -INFINITY : sum);
}

static void update_pair(luo_rank *r, const host_pair *p, luo_adam *a, int32_t task)
{
    const int64_t elem = (int64_t)r->x->k->elem;
    const char *g = host_buf(r, p->grad, task);
    a->weight_decay = p->decays ? LUO_WEIGHT_DECAY : 0;
    for (int32_t k = 0; k < p->nruns; k++) {
        const host_run3 *c = &p->run[k];
        r->x->k->adamw(c->n, a, g + c->grad * elem, (char *)p->piece->weight + c->weight * elem,
                       (char *)p->piece->m + c->state * elem,
                       (char *)p->piece->v + c->state * elem);
    }
}

void host_run_update(luo_rank *r, const host_op *op, int32_t task)
{
    const double squares = get_real(r, host_buf(r, op->instr->in[op->instr->nin - 1], task));
    if (!(squares >= 0 && squares < most_squares(r))) {
        r->outcome = squares < 0 ? HOST_DRAINED : HOST_NOT_FINITE;
        return;
    }
    r->grad_norm = sqrt(squares);
    luo_adam a = {.lr = LUO_LEARNING_RATE,
                  .beta1 = LUO_BETA1,
                  .beta2 = LUO_BETA2,
                  .eps = LUO_ADAM_EPS,
                  .step = r->order->step + 1,
                  .grad_scale = fmin(1, LUO_CLIP_NORM / (r->grad_norm + LUO_CLIP_EPS))};
    for (int32_t i = 0; i < r->job->npairs; i++) update_pair(r, &r->job->pair[i], &a, task);
}
