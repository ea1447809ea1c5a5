#include "exec/bind/bound.h"

#include <string.h>

#include "core/cost/cost.h"
#include "exec/bind/bound_internal.h"

int32_t luo_rank_of(const luo_rank_config *config, int32_t device)
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

static luo_status refuse(const luo_binder *k)
{
    const luo_plan *p = k->b->recipe->plan;
    if (p->state_layout.data > 0)
        return luo_err_set(k->err, LUO_EUNSUP,
                           "plan `%s` keeps optimizer state in a layout of its "
                           "own (`state_layout`), which this executor does not do; leave it out.",
                           p->name);
    return LUO_OK;
}

static bool good_width(const luo_buffer *b, luo_dtype dtype)
{
    const int64_t elem = luo_dtype_bytes(dtype);
    if (b->buffer_class == LUO_BUFFER_OPTIMIZER)
        return b->elem_bytes == (dtype == LUO_BF16 ? 12 : 2 * elem);
    if (b->elem_bytes == 4 && b->letters && strcmp(b->letters, "t") == 0) return true; /* data */
    if (dtype != LUO_BF16 || b->buffer_class == LUO_BUFFER_WEIGHT) return b->elem_bytes == elem;
    if (b->buffer_class == LUO_BUFFER_GRADIENT) return b->elem_bytes == 4;
    return b->elem_bytes == elem || b->elem_bytes == 4;
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

static luo_status bind_one(luo_binder *k, luo_bound_op *op)
{
    const luo_instr *i = op->instr;
    op->lane = luo_instr_lane(i);
    op->kind = LUO_OP_RESHARD;
    if (i->kind == LUO_INSTR_IO)
        return luo_err_set(k->err, LUO_EBUG, "instruction %d of a step reads or writes files.",
                           (int)i->id);
    return i->exchange < 0 ? luo_bind_op(k, op) : luo_bind_comm(k, op);
}

static luo_status predict(luo_binder *k)
{
    luo_bound *b = k->b;
    const luo_rank_config *c = b->config;
    if (!c->stack) return LUO_OK;
    const luo_cost_ctx ctx = {.cluster = c->cluster,
                              .stack = c->stack,
                              .dtype = c->dtype,
                              .ops = b->set->ops,
                              .nops = b->set->nops};
    const size_t mark = luo_arena_mark(k->arena);
    double *s = LUO_NEW_N(k->arena, double, b->role->ninstr);
    if (!s) return luo_err_nomem(k->err);
    const luo_status st = luo_cost_role(k->arena, &ctx, b->device, b->role, NULL, s, k->err);
    for (int32_t i = 0; st == LUO_OK && i < b->role->ninstr; i++) b->op[i].predicted_s = s[i];
    luo_arena_reset(k->arena, mark);
    return st;
}

/* The loss of the step is what the last reduction makes or, where none is needed, the running sum
 * (one operation per length of micro-batches; the last to run has it). */
static void mark_loss(luo_bound *b)
{
    bool reduced = false;
    for (int pass = 0; pass < 2 && !reduced; pass++)
        for (int32_t i = 0; i < b->role->ninstr; i++) {
            const luo_instr *at = &b->role->instr[i];
            const char *name = b->set->ops[at->op].name;
            if (!at->nout || strcmp(name, pass ? "loss.part" : "loss.all") != 0) continue;
            b->op[i].is_loss = true;
            reduced |= pass == 0;
        }
}

static luo_status bind_all(luo_binder *k)
{
    luo_bound *b = k->b;
    b->op = LUO_NEW_N(k->arena, luo_bound_op, b->role->ninstr);
    b->seg_of = LUO_NEW_N(k->arena, int32_t, b->role->ninstr);
    if (!b->op || !b->seg_of) return luo_err_nomem(k->err);
    for (int32_t s = 0; s < b->role->nseg; s++)
        for (int32_t i = 0; i < b->role->seg[s].n; i++) b->seg_of[b->role->seg[s].first + i] = s;
    for (int32_t i = 0; i < b->role->ninstr; i++) {
        b->op[i].instr = &b->role->instr[i];
        LUO_TRY(bind_one(k, &b->op[i]));
    }
    mark_loss(b);
    return predict(k);
}

/* ---- memory and data ---- */

/* Where cells lie comes before the memory: some Reshards need room between their steps. */
static luo_status lay_out(luo_binder *k)
{
    luo_bound *b = k->b;
    luo_route *route = LUO_NEW_N(k->arena, luo_route, b->role->ninstr);
    if (!route) return luo_err_nomem(k->err);
    for (int32_t i = 0; i < b->role->ninstr; i++)
        if (b->role->instr[i].exchange >= 0)
            LUO_TRY(luo_route_of(k->arena, b->set, b->program, i, &route[i], k->err));
    b->route = route;
    LUO_TRY(luo_layout_make(k->arena, b->set, b->program, route, b->config->messages_inside,
                            &b->layout, k->err));
    for (int32_t i = 0; i < b->role->ninstr; i++) {
        if (b->role->instr[i].exchange < 0 || route[i].nparts == 0) continue;
        const int64_t elem = b->set->exchanges[b->role->instr[i].exchange].elem_bytes;
        LUO_TRY(luo_layout_join(k->arena, &b->layout, i, elem, &route[i], k->err));
    }
    return LUO_OK;
}

static luo_status shape_data(luo_binder *k)
{
    luo_bound *b = k->b;
    b->longest = 1;
    LUO_TRY(luo_batch_shape_of(k->arena, b->recipe->plan, b->config->model->causal,
                               b->recipe->sequence_tokens, &b->batch, k->err));
    for (int32_t p = 0; p < b->batch.npipelines; p++)
        for (int32_t m = 0; m < b->batch.nmicro[p]; m++)
            if (luo_batch_padded(&b->batch, p, m) > b->longest)
                b->longest = luo_batch_padded(&b->batch, p, m);
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
    luo_binder k = {arena, out, err};
    LUO_TRY(refuse(&k));
    if (!out->program) return luo_bind_pieces(&k); /* none lies here */
    out->role = &set->roles[out->program->role];
    LUO_TRY(luo_bound_check_width(out->role, config->dtype, err));
    LUO_TRY(lay_out(&k));
    LUO_TRY(luo_bind_pieces(&k));
    LUO_TRY(bind_all(&k));
    return shape_data(&k);
}

/* ---- for the report of a step ---- */

double luo_bound_predicted(const luo_bound *b)
{
    double sum = 0;
    for (int32_t t = 0; t < b->program->ntask; t++) {
        const luo_segment *s = &b->role->seg[b->program->tasks[t].seg];
        for (int32_t i = s->first; i < s->first + s->n; i++) sum += b->op[i].predicted_s;
    }
    return sum;
}

int32_t luo_bound_use(const luo_bound *b, const luo_comm_use *use, luo_comm_use *used)
{
    int32_t n = 0;
    for (int32_t i = 0; i < b->role->ninstr; i++) {
        const luo_instr *at = &b->role->instr[i];
        if (use[i].calls == 0) continue;
        luo_comm_use u = use[i];
        const luo_slot *slot = &b->program->slots[at->slot];
        const bool p2p = at->kind == LUO_INSTR_P2P;
        u.group = p2p ? -1 : slot->group;
        u.exchange = at->exchange;
        u.coll = at->coll;
        u.stream = at->stream;
        u.devices = p2p ? slot->nmessage + 1 : b->set->groups[slot->group].n;
        used[n++] = u;
    }
    return n;
}
