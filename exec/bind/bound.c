#include "exec/bind/bound.h"

#include <string.h>

#include "core/cost/cost.h"
#include "exec/bind/bound_internal.h"
#include "exec/data/batch.h"

int32_t luo_bound_rank_of(const luo_rank_config *config, int32_t device)
{
    int32_t lo = 0, hi = config->nranks;
    while (lo < hi) {
        const int32_t mid = lo + (hi - lo) / 2;
        if (config->device_of[mid] < device)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < config->nranks && config->device_of[lo] == device ? lo : -1;
}

/* ---- what cannot be run ---- */

static bool good_width(const luo_buffer *buffer, luo_dtype dtype)
{
    const int64_t elem = luo_dtype_bytes(dtype);
    if (dtype == LUO_BF16 && buffer->elem_bytes == 4 && buffer->letters &&
        strcmp(buffer->letters, "e") == 0)
        return true; /* what counts move, and its state */
    if (buffer->buffer_class == LUO_BUFFER_OPTIMIZER)
        return dtype == LUO_BF16 ? buffer->elem_bytes == 12
                                 : buffer->elem_bytes % elem == 0 && buffer->elem_bytes <= 3 * elem;
    if (buffer->elem_bytes == 4 && buffer->letters && strcmp(buffer->letters, "t") == 0)
        return true; /* data */
    if (dtype != LUO_BF16 || buffer->buffer_class == LUO_BUFFER_WEIGHT)
        return buffer->elem_bytes == elem;
    if (buffer->buffer_class == LUO_BUFFER_GRADIENT) return buffer->elem_bytes == 4;
    return buffer->elem_bytes == elem || buffer->elem_bytes == 4;
}

luo_status luo_bound_check_width(const luo_role *role, luo_dtype dtype, luo_err *err)
{
    for (int32_t b = 0; b < role->nbuf; b++)
        if (!good_width(&role->buf[b], dtype))
            return luo_err_set(err, LUO_EUNSUP,
                               "tensor `%s` has %lld bytes an element, but this run "
                               "computes in %s; use plans of that precision (--dtype).",
                               role->buf[b].tensor, (long long)role->buf[b].elem_bytes,
                               luo_dtype_name(dtype));
    return LUO_OK;
}

/* ---- the instructions ---- */

static luo_status bind_one(luo_binder *binder, luo_bound_op *op)
{
    const luo_instr *instr = op->instr;
    op->lane = luo_instr_lane(instr);
    op->kind = LUO_OP_RESHARD;
    if (instr->kind == LUO_INSTR_IO)
        return luo_err_set(binder->err, LUO_EBUG, "instruction %d of a step reads or writes files.",
                           (int)instr->id);
    return instr->exchange < 0 ? luo_bind_op(binder, op) : luo_bind_comm(binder, op);
}

static luo_status predict(luo_binder *binder)
{
    luo_bound *bound = binder->b;
    const luo_rank_config *config = bound->config;
    if (!config->stack) return LUO_OK;
    const luo_cost_ctx ctx = {.cluster = config->cluster,
                              .stack = config->stack,
                              .dtype = config->dtype,
                              .ops = bound->set->ops,
                              .nops = bound->set->nops};
    const size_t mark = luo_arena_mark(binder->arena);
    double *s = LUO_NEW_N(binder->arena, double, bound->role->ninstr);
    if (!s) return luo_err_nomem(binder->err);
    const luo_status st =
        luo_cost_role(binder->arena, &ctx, bound->device, bound->role, NULL, s, binder->err);
    for (int32_t i = 0; st == LUO_OK && i < bound->role->ninstr; i++)
        bound->op[i].predicted_s = s[i];
    luo_arena_reset(binder->arena, mark);
    return st;
}

/* The loss of the step is what the last reduction makes or, where none is needed, the running sum
 * (one operation per length of micro-batches; the last to run has it). */
static void mark_loss(luo_bound *bound)
{
    bool reduced = false;
    for (int pass = 0; pass < 2 && !reduced; pass++)
        for (int32_t i = 0; i < bound->role->ninstr; i++) {
            const luo_instr *at = &bound->role->instr[i];
            const char *name = bound->set->ops[at->op].name;
            if (!at->nout || strcmp(name, pass ? "loss.part" : "loss.all") != 0) continue;
            bound->op[i].is_loss = true;
            reduced |= pass == 0;
        }
}

static luo_status bind_all(luo_binder *binder)
{
    luo_bound *bound = binder->b;
    bound->op = LUO_NEW_N(binder->arena, luo_bound_op, bound->role->ninstr);
    bound->seg_of = LUO_NEW_N(binder->arena, int32_t, bound->role->ninstr);
    if (!bound->op || !bound->seg_of) return luo_err_nomem(binder->err);
    for (int32_t s = 0; s < bound->role->nseg; s++)
        for (int32_t i = 0; i < bound->role->seg[s].n; i++)
            bound->seg_of[bound->role->seg[s].first + i] = s;
    for (int32_t i = 0; i < bound->role->ninstr; i++) {
        bound->op[i].instr = &bound->role->instr[i];
        LUO_TRY(bind_one(binder, &bound->op[i]));
    }
    mark_loss(bound);
    luo_bind_rooms(bound);
    return predict(binder);
}

/* ---- memory and data ---- */

/* Where cells lie comes before the memory: some Reshards need room between their steps. */
static luo_status lay_out(luo_binder *binder)
{
    luo_bound *bound = binder->b;
    luo_route *route = LUO_NEW_N(binder->arena, luo_route, bound->role->ninstr);
    if (!route) return luo_err_nomem(binder->err);
    for (int32_t i = 0; i < bound->role->ninstr; i++)
        if (bound->role->instr[i].exchange >= 0)
            LUO_TRY(
                luo_route_of(binder->arena, bound->set, bound->program, i, &route[i], binder->err));
    bound->route = route;
    LUO_TRY(luo_layout_make(binder->arena, bound->set, bound->program, route,
                            bound->config->messages_inside, bound->weight_bytes, &bound->layout,
                            binder->err));
    for (int32_t i = 0; i < bound->role->ninstr; i++) {
        if (bound->role->instr[i].exchange < 0 || route[i].nparts == 0) continue;
        const int64_t elem = bound->set->exchanges[bound->role->instr[i].exchange].elem_bytes;
        LUO_TRY(luo_layout_join(binder->arena, &bound->layout, i, elem, &route[i], binder->err));
    }
    return LUO_OK;
}

static luo_status shape_data(luo_binder *binder)
{
    luo_bound *bound = binder->b;
    bound->longest = 1;
    LUO_TRY(luo_batch_shape_of(binder->arena, bound->recipe->plan, bound->config->model->causal,
                               bound->recipe->sequence_tokens, &bound->batch, binder->err));
    for (int32_t p = 0; p < bound->batch.npipelines; p++)
        for (int32_t m = 0; m < bound->batch.nmicro[p]; m++)
            if (luo_batch_padded(&bound->batch, p, m) > bound->longest)
                bound->longest = luo_batch_padded(&bound->batch, p, m);
    return LUO_OK;
}

luo_status luo_bind(luo_arena *arena, const luo_rank_config *config, const luo_programs *set,
                    const luo_recipe *recipe, luo_bound *out, luo_err *err)
{
    const int32_t device = config->device_of[config->rank];
    *out = (luo_bound){.config = config,
                       .device = device,
                       .set = set,
                       .recipe = recipe,
                       .program = luo_programs_find(set, device)};
    luo_binder binder = {arena, out, err};
    if (!out->program) return luo_bind_pieces(&binder); /* none lies here */
    out->role = &set->roles[out->program->role];
    LUO_TRY(luo_bound_check_width(out->role, config->dtype, err));
    if (recipe->plan->state_layout.ndev > 0 && config->dtype == LUO_BF16)
        out->weight_bytes = luo_dtype_bytes(LUO_BF16);
    LUO_TRY(lay_out(&binder));
    LUO_TRY(luo_bind_pieces(&binder));
    LUO_TRY(luo_bind_copies(&binder));
    LUO_TRY(bind_all(&binder));
    return shape_data(&binder);
}

/* ---- for the report of a step ---- */

double luo_bound_predicted(const luo_bound *bound)
{
    double sum = 0;
    for (int32_t t = 0; t < bound->program->ntask; t++) {
        const luo_segment *segment = &bound->role->seg[bound->program->tasks[t].seg];
        for (int32_t i = segment->first; i < segment->first + segment->n; i++)
            sum += bound->op[i].predicted_s;
    }
    return sum;
}

int32_t luo_bound_use(const luo_bound *bound, const luo_comm_use *use, luo_comm_use *used)
{
    int32_t n = 0;
    for (int32_t i = 0; i < bound->role->ninstr; i++) {
        const luo_instr *at = &bound->role->instr[i];
        if (use[i].calls == 0) continue;
        luo_comm_use comm_use = use[i];
        const luo_slot *slot = &bound->program->slots[at->slot];
        const bool p2p = at->kind == LUO_INSTR_P2P;
        comm_use.group = p2p ? -1 : slot->group;
        comm_use.exchange = at->exchange;
        comm_use.coll = at->coll;
        comm_use.stream = at->stream;
        comm_use.devices = p2p ? slot->nmessage + 1 : bound->set->groups[slot->group].n;
        used[n++] = comm_use;
    }
    return n;
}
