/* bound_update.c: the pieces of state that a rank keeps, and the update cell by cell. */
#include <float.h>
#include <stdio.h>
#include <string.h>

#include "exec/bind/bound_internal.h"

/* ---- pieces ---- */

static int32_t find_buffer(const luo_bound *b, int32_t buffer_class, const char *name)
{
    for (int32_t i = 0; b->role && i < b->role->nbuf; i++)
        if (b->role->buf[i].buffer_class == buffer_class &&
            strcmp(b->role->buf[i].tensor, name) == 0)
            return i;
    return -1;
}

static luo_status region_here(luo_binder *k, const luo_ann *a, const luo_shape *shape,
                              luo_region *out)
{
    *out = (luo_region){.rank = shape->rank, .empty = true};
    for (int32_t u = 0; u < a->u; u++)
        for (int32_t i = 0; i < a->grp[u].ndev; i++)
            if (a->grp[u].dev[i] == k->b->device)
                return luo_region_of(k->arena, a, shape, u, i, out, k->err);
    return LUO_OK;
}

static luo_status bind_piece(luo_binder *k, int32_t i)
{
    luo_bound *b = k->b;
    luo_piece *p = &b->piece[i];
    const luo_param *q = p->param;
    LUO_TRY(region_here(k, q->state, &q->shape, &p->piece));
    if (p->piece.empty) return LUO_OK;
    char name[256];
    snprintf(name, sizeof name, "%s.state", q->name);
    const int32_t w = find_buffer(b, LUO_BUFFER_WEIGHT, q->name);
    const int32_t s = find_buffer(b, LUO_BUFFER_OPTIMIZER, name);
    if (w < 0 || s < 0)
        return luo_err_set(k->err, LUO_EBUG, "parameter `%s` has no buffer on device %d.", q->name,
                           (int)b->device);
    b->weight_buffer[i] = w;
    b->state_buffer[i] = s;
    LUO_TRY(luo_frame_of(k->arena, luo_bound_desc(b, w), b->device, &p->weight_frame, k->err));
    return luo_frame_of(k->arena, luo_bound_desc(b, s), b->device, &p->state_frame, k->err);
}

luo_status luo_bind_pieces(luo_binder *k)
{
    luo_bound *b = k->b;
    int32_t n;
    LUO_TRY(luo_plan_params(k->arena, b->recipe->plan, b->config->model, &b->param, &n, k->err));
    b->piece = LUO_NEW_N(k->arena, luo_piece, n);
    b->weight_buffer = LUO_NEW_N(k->arena, int32_t, n);
    b->state_buffer = LUO_NEW_N(k->arena, int32_t, n);
    if (!b->piece || !b->weight_buffer || !b->state_buffer) return luo_err_nomem(k->err);
    b->npieces = n;
    for (int32_t i = 0; i < n; i++) {
        b->weight_buffer[i] = b->state_buffer[i] = -1;
        b->piece[i].param = &b->param[i];
        b->piece[i].piece = (luo_region){.rank = b->param[i].shape.rank, .empty = true};
        if (b->program) LUO_TRY(bind_piece(k, i));
    }
    return LUO_OK;
}

/* ---- the update: states, then their gradients, then the norm unless it is staggered ---- */

double luo_bound_most_squares(luo_dtype dtype, int32_t nranks)
{
    if (dtype == LUO_F64) return DBL_MAX / 2 / nranks;
    return (double)(float)((double)FLT_MAX / 2 / nranks);
}

static const luo_piece *piece_of(const luo_bound *b, const char *state)
{
    const size_t n = strlen(state) - strlen(".state");
    for (int32_t i = 0; i < b->npieces; i++) {
        const char *name = b->piece[i].param->name;
        if (strlen(name) == n && memcmp(name, state, n) == 0) return &b->piece[i];
    }
    return NULL;
}

/* Cuts three lists of segments over the same cells at all their ends. */
static luo_status merge(luo_binder *k, const luo_copy_segments *w, const luo_copy_segments *g,
                        const luo_copy_segments *s, luo_bound_pair *out)
{
    luo_cells *at = LUO_NEW_N(k->arena, luo_cells, w->n + g->n + s->n);
    if (!at) return luo_err_nomem(k->err);
    int32_t a = 0, b = 0, c = 0, n = 0;
    int64_t pa = 0, pb = 0, pc = 0;
    while (a < w->n && b < g->n && c < s->n) {
        int64_t len = w->at[a].n - pa;
        if (g->at[b].n - pb < len) len = g->at[b].n - pb;
        if (s->at[c].n - pc < len) len = s->at[c].n - pc;
        at[n++] = (luo_cells){w->at[a].at + pa, g->at[b].at + pb, s->at[c].at + pc, len};
        if ((pa += len) == w->at[a].n) a++, pa = 0;
        if ((pb += len) == g->at[b].n) b++, pb = 0;
        if ((pc += len) == s->at[c].n) c++, pc = 0;
    }
    out->cells = at;
    out->ncells = n;
    return LUO_OK;
}

static luo_status bind_pair(luo_binder *k, int32_t state, int32_t grad, luo_bound_pair *out)
{
    luo_bound *b = k->b;
    luo_frame f;
    luo_copy_segments w, g, s;
    const luo_piece *p = piece_of(b, luo_bound_desc(b, state)->tensor);
    if (!p || p->piece.empty)
        return luo_err_set(k->err, LUO_EBUG,
                           "state `%s` is updated on device %d but not kept there.",
                           luo_bound_desc(b, state)->tensor, (int)b->device);
    LUO_TRY(luo_frame_of(k->arena, luo_bound_desc(b, grad), b->device, &f, k->err));
    LUO_TRY(luo_frame_segments(k->arena, &p->weight_frame, &p->piece, &w, k->err));
    LUO_TRY(luo_frame_segments(k->arena, &f, &p->piece, &g, k->err));
    LUO_TRY(luo_frame_segments(k->arena, &p->state_frame, &p->piece, &s, k->err));
    *out = (luo_bound_pair){.piece = p,
                            .weight = b->weight_buffer[p - b->piece],
                            .grad = grad,
                            .state = state,
                            .decays = luo_param_decays(p->param)};
    LUO_TRY(merge(k, &w, &g, &s, out));
    return luo_owned_segments(k->arena, p->param->state, &p->param->shape, b->device, &f,
                              &out->owned, k->err);
}

/* The states, their gradients, the norm if it is waited for; one instruction of a role. */
luo_status luo_bind_update(luo_binder *k, luo_bound_op *op)
{
    luo_bound *b = k->b;
    const luo_instr *update = op->instr;
    int32_t n = 0;
    while (n < update->nin &&
           luo_bound_desc(b, update->in[n])->buffer_class == LUO_BUFFER_OPTIMIZER)
        n++;
    if (update->nin != 2 * n + !b->set->staggered || b->pair)
        return luo_err_set(k->err, LUO_EBUG,
                           "the update of device %d has %d states and %d operands.", (int)b->device,
                           (int)n, (int)update->nin);
    b->pair = LUO_NEW_N(k->arena, luo_bound_pair, n);
    if (!b->pair) return luo_err_nomem(k->err);
    for (int32_t i = 0; i < n; i++)
        LUO_TRY(bind_pair(k, update->in[i], update->in[n + i], &b->pair[i]));
    b->npairs = n;
    return LUO_OK;
}
