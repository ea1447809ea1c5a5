/* bound_update.c: the pieces of state that a rank keeps, and the update cell by cell. */
#include <float.h>
#include <stdio.h>
#include <string.h>

#include "exec/bind/bound_internal.h"
#include "exec/bind/owned.h"

/* ---- pieces ---- */

static int32_t find_buffer(const luo_bound *bound, int32_t buffer_class, const char *name)
{
    for (int32_t i = 0; bound->role && i < bound->role->nbuf; i++)
        if (bound->role->buf[i].buffer_class == buffer_class &&
            strcmp(bound->role->buf[i].tensor, name) == 0)
            return i;
    return -1;
}

static luo_status region_here(luo_binder *binder, const luo_ann *ann, const luo_shape *shape,
                              luo_region *out)
{
    *out = (luo_region){.rank = shape->rank, .empty = true};
    for (int32_t u = 0; u < ann->u; u++)
        for (int32_t i = 0; i < ann->grp[u].ndev; i++)
            if (ann->grp[u].dev[i] == binder->b->device)
                return luo_region_of(binder->arena, ann, shape, u, i, out, binder->err);
    return LUO_OK;
}

static luo_status bind_piece(luo_binder *binder, int32_t i)
{
    luo_bound *bound = binder->b;
    luo_piece *piece = &bound->piece[i];
    const luo_param *param = piece->param;
    LUO_TRY(region_here(binder, param->state, &param->shape, &piece->piece));
    if (piece->piece.empty) return LUO_OK;
    char name[256];
    snprintf(name, sizeof name, "%s.state", param->name);
    const int32_t s = find_buffer(bound, LUO_BUFFER_OPTIMIZER, name);
    const int32_t w = bound->recipe->plan->state_layout.ndev > 0
                          ? s
                          : find_buffer(bound, LUO_BUFFER_WEIGHT, param->name);
    if (w < 0 || s < 0)
        return luo_err_set(binder->err, LUO_EBUG, "parameter `%s` has no buffer on device %d.",
                           param->name, (int)bound->device);
    bound->weight_buffer[i] = w;
    bound->state_buffer[i] = s;
    LUO_TRY(luo_frame_of(binder->arena, luo_bound_desc(bound, w), bound->device,
                         &piece->weight_frame, binder->err));
    return luo_frame_of(binder->arena, luo_bound_desc(bound, s), bound->device, &piece->state_frame,
                        binder->err);
}

luo_status luo_bind_pieces(luo_binder *binder)
{
    luo_bound *bound = binder->b;
    int32_t n;
    LUO_TRY(luo_plan_params(binder->arena, bound->recipe->plan, bound->config->model, &bound->param,
                            &n, binder->err));
    bound->piece = LUO_NEW_N(binder->arena, luo_piece, n);
    bound->weight_buffer = LUO_NEW_N(binder->arena, int32_t, n);
    bound->state_buffer = LUO_NEW_N(binder->arena, int32_t, n);
    if (!bound->piece || !bound->weight_buffer || !bound->state_buffer)
        return luo_err_nomem(binder->err);
    bound->npieces = n;
    LUO_TRY(luo_sums_make(binder->arena, n, &bound->sums, binder->err));
    for (int32_t i = 0; i < n; i++) {
        bound->weight_buffer[i] = bound->state_buffer[i] = -1;
        bound->piece[i].param = &bound->param[i];
        bound->piece[i].piece = (luo_region){.rank = bound->param[i].shape.rank, .empty = true};
        if (bound->program) LUO_TRY(bind_piece(binder, i));
    }
    return LUO_OK;
}

/* ---- the update: states, then their gradients, then the norm unless it is staggered ---- */

double luo_bound_most_squares(luo_dtype dtype, int32_t nranks)
{
    if (dtype == LUO_F64) return DBL_MAX / 2 / nranks;
    return (double)(float)((double)FLT_MAX / 2 / nranks);
}

static const luo_piece *piece_of(const luo_bound *bound, const char *state)
{
    const size_t n = strlen(state) - strlen(".state");
    for (int32_t i = 0; i < bound->npieces; i++) {
        const char *name = bound->piece[i].param->name;
        if (strlen(name) == n && memcmp(name, state, n) == 0) return &bound->piece[i];
    }
    return NULL;
}

/* Cuts three lists of segments over the same cells at all their ends. */
static luo_status merge(luo_binder *binder, const luo_copy_segments *w, const luo_copy_segments *g,
                        const luo_copy_segments *s, luo_bound_pair *out)
{
    luo_cells *at = LUO_NEW_N(binder->arena, luo_cells, w->n + g->n + s->n);
    if (!at) return luo_err_nomem(binder->err);
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

static luo_status bind_pair(luo_binder *binder, int32_t state, int32_t grad, luo_bound_pair *out)
{
    luo_bound *bound = binder->b;
    luo_frame frame;
    luo_copy_segments segments, g, s;
    const luo_piece *piece = piece_of(bound, luo_bound_desc(bound, state)->tensor);
    if (!piece || piece->piece.empty)
        return luo_err_set(binder->err, LUO_EBUG,
                           "state `%s` is updated on device %d but not kept there.",
                           luo_bound_desc(bound, state)->tensor, (int)bound->device);
    LUO_TRY(luo_frame_of(binder->arena, luo_bound_desc(bound, grad), bound->device, &frame,
                         binder->err));
    LUO_TRY(luo_frame_segments(binder->arena, &piece->weight_frame, &piece->piece, &segments,
                               binder->err));
    LUO_TRY(luo_frame_segments(binder->arena, &frame, &piece->piece, &g, binder->err));
    LUO_TRY(luo_frame_segments(binder->arena, &piece->state_frame, &piece->piece, &s, binder->err));
    *out = (luo_bound_pair){.piece = piece,
                            .weight = bound->weight_buffer[piece - bound->piece],
                            .grad = grad,
                            .state = state,
                            .decays = luo_state_decays(piece->param)};
    LUO_TRY(merge(binder, &segments, &g, &s, out));
    if (piece->param->counted) return LUO_OK;
    return luo_owned_segments(binder->arena, piece->param->state, &piece->param->shape,
                              bound->device, &frame, &out->owned, binder->err);
}

/* The cells of a piece that the working weight of this device has, too. */
static luo_status bind_copy(luo_binder *binder, const luo_piece *piece, int32_t weight)
{
    luo_bound *bound = binder->b;
    luo_frame frame;
    luo_region both;
    luo_copy_segments w, s;
    luo_bound_pair pair = {0};
    LUO_TRY(luo_frame_of(binder->arena, luo_bound_desc(bound, weight), bound->device, &frame,
                         binder->err));
    LUO_TRY(luo_region_intersect(binder->arena, &frame.region, &piece->piece, &both, binder->err));
    if (both.empty) return LUO_OK;
    LUO_TRY(luo_frame_segments(binder->arena, &frame, &both, &w, binder->err));
    LUO_TRY(luo_frame_segments(binder->arena, &piece->weight_frame, &both, &s, binder->err));
    LUO_TRY(merge(binder, &w, &w, &s, &pair));
    bound->copy[bound->ncopies++] = (luo_bound_copy){piece, weight, pair.ncells, pair.cells};
    return LUO_OK;
}

luo_status luo_bind_copies(luo_binder *binder)
{
    luo_bound *bound = binder->b;
    if (bound->recipe->plan->state_layout.ndev == 0) return LUO_OK;
    bound->copy = LUO_NEW_N(binder->arena, luo_bound_copy, bound->npieces);
    if (!bound->copy) return luo_err_nomem(binder->err);
    for (int32_t i = 0; i < bound->npieces; i++) {
        const luo_piece *piece = &bound->piece[i];
        const int32_t w = find_buffer(bound, LUO_BUFFER_WEIGHT, piece->param->name);
        if (w >= 0 && !piece->piece.empty) LUO_TRY(bind_copy(binder, piece, w));
    }
    return LUO_OK;
}

/* The states, their gradients, the norm if it is waited for; one instruction of a role. */
luo_status luo_bind_update(luo_binder *binder, luo_bound_op *op)
{
    luo_bound *bound = binder->b;
    const luo_instr *update = op->instr;
    int32_t n = 0;
    while (n < update->nin &&
           luo_bound_desc(bound, update->in[n])->buffer_class == LUO_BUFFER_OPTIMIZER)
        n++;
    if (update->nin != 2 * n + !bound->set->staggered || bound->pair)
        return luo_err_set(binder->err, LUO_EBUG,
                           "the update of device %d has %d states and %d operands.",
                           (int)bound->device, (int)n, (int)update->nin);
    bound->pair = LUO_NEW_N(binder->arena, luo_bound_pair, n);
    if (!bound->pair) return luo_err_nomem(binder->err);
    for (int32_t i = 0; i < n; i++)
        LUO_TRY(bind_pair(binder, update->in[i], update->in[n + i], &bound->pair[i]));
    bound->npairs = n;
    for (int32_t i = 0; i < n; i++) {
        const luo_piece *piece = bound->pair[i].piece;
        bound->sums.region[piece - bound->piece] = piece->state_frame.region;
    }
    luo_sums_place(&bound->sums);
    return LUO_OK;
}
