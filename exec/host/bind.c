/* exec/host/bind.c: one program on one rank: memory laid out once, instructions turned into a
 * table that a step only walks. */
#include <stdlib.h>
#include <string.h>

#include "core/cost/cost.h"
#include "exec/host/job.h"

static luo_status refuse(const luo_job *j, luo_err *err)
{
    const luo_plan *p = j->recipe->plan;
    if (p->state_layout.data > 0)
        return luo_err_set(err, LUO_EUNSUP,
                           "plan `%s` keeps optimizer state in a layout of its "
                           "own (`state_layout`), which this executor does not do; leave it out.",
                           p->name);
    return LUO_OK;
}

static void *zeroed(int64_t bytes)
{
    void *p = NULL;
    const size_t n = bytes > 0 ? (size_t)bytes : 1;
    if (posix_memalign(&p, 4096, (n + 4095) / 4096 * 4096) != 0) return NULL;
    memset(p, 0, n); /* touched now, so that no step pays for the first use of a page */
    return p;
}

static luo_status check_width(const luo_job *j, luo_err *err)
{
    const int64_t elem = (int64_t)j->x->k->elem;
    for (int32_t b = 0; b < j->role->nbuf; b++) {
        const luo_buffer *at = &j->role->buf[b];
        const bool state = at->buffer_class == LUO_BUFFER_OPTIMIZER;
        const bool data = at->elem_bytes == 4 && at->letters && strcmp(at->letters, "t") == 0;
        if (data || at->elem_bytes == (state ? 2 * elem : elem)) continue;
        return luo_err_set(err, LUO_EUNSUP,
                           "tensor `%s` has %lld bytes an element, but this run "
                           "computes in %s; use plans of that precision (--dtype).",
                           at->tensor, (long long)at->elem_bytes, j->x->k->name);
    }
    return LUO_OK;
}

static int64_t runs_of(const luo_job *j, int32_t seg)
{
    int64_t n = 0;
    for (int32_t t = 0; t < j->program->ntask; t++) n += j->program->tasks[t].seg == seg;
    return n;
}

static luo_status bind_one(luo_job *j, host_op *op, luo_err *err)
{
    const luo_instr *i = op->instr;
    op->lane = luo_instr_lane(i);
    op->kind = LUO_OP_RESHARD;
    if (i->kind == LUO_INSTR_IO)
        return luo_err_set(err, LUO_EBUG, "instruction %d of a step reads or writes files.",
                           (int)i->id);
    if (i->exchange < 0) return host_bind_op(j, op, err);
    if (i->kind == LUO_INSTR_LOCAL) op->run = host_run_local_move;
    return host_bind_comm(j, op, runs_of(j, j->seg_of[i->id]), err);
}

static luo_status predict(luo_job *j, luo_err *err)
{
    const luo_rank_config *c = &j->x->config;
    if (!c->stack) return LUO_OK;
    const luo_cost_ctx ctx = {.cluster = c->cluster,
                              .stack = c->stack,
                              .dtype = c->dtype,
                              .ops = j->set->ops,
                              .nops = j->set->nops};
    const size_t mark = luo_arena_mark(j->arena);
    double *s = LUO_NEW_N(j->arena, double, j->role->ninstr);
    if (!s) return luo_err_nomem(err);
    const luo_status st = luo_cost_role(j->arena, &ctx, j->x->device, j->role, NULL, s, err);
    for (int32_t i = 0; st == LUO_OK && i < j->role->ninstr; i++) j->op[i].predicted_s = s[i];
    luo_arena_reset(j->arena, mark);
    return st;
}

/* The loss of the step is what the last reduction makes or, where none is needed, the running sum
 * (one operation per length of micro-batches; the last to run has it). */
static void mark_loss(luo_job *j)
{
    bool reduced = false;
    for (int pass = 0; pass < 2 && !reduced; pass++)
        for (int32_t i = 0; i < j->role->ninstr; i++) {
            const luo_instr *at = &j->role->instr[i];
            const char *name = j->set->ops[at->op].name;
            if (!at->nout || strcmp(name, pass ? "loss.part" : "loss.all") != 0) continue;
            j->op[i].is_loss = true;
            reduced |= pass == 0;
        }
}

static luo_status bind_all(luo_job *j, luo_err *err)
{
    j->op = LUO_NEW_N(j->arena, host_op, j->role->ninstr);
    j->seg_of = LUO_NEW_N(j->arena, int32_t, j->role->ninstr);
    if (!j->op || !j->seg_of) return luo_err_nomem(err);
    for (int32_t s = 0; s < j->role->nseg; s++)
        for (int32_t i = 0; i < j->role->seg[s].n; i++) j->seg_of[j->role->seg[s].first + i] = s;
    for (int32_t i = 0; i < j->role->ninstr; i++) {
        j->op[i].instr = &j->role->instr[i];
        LUO_TRY(bind_one(j, &j->op[i], err));
    }
    mark_loss(j);
    return predict(j, err);
}

/* One block for all packed messages. */
static luo_status place_messages(luo_job *j, luo_err *err)
{
    for (int32_t i = 0; i < j->role->ninstr; i++)
        if (j->op[i].comm) j->message_bytes += j->op[i].comm->message_bytes * j->op[i].comm->deep;
    j->messages = zeroed(j->message_bytes);
    if (!j->messages) return luo_err_nomem(err);
    char *at = j->messages;
    for (int32_t i = 0; i < j->role->ninstr; i++) {
        host_comm *c = j->op[i].comm;
        if (!c) continue;
        c->message = at;
        at += c->message_bytes * c->deep;
    }
    return LUO_OK;
}

static luo_status open_rank(luo_job *j, luo_err *err)
{
    luo_rank *r = &j->rank;
    *r = (luo_rank){.job = j,
                    .x = j->x,
                    .task = -1,
                    .scratch = luo_arena_new(1 << 16),
                    .walk = luo_arena_new(1 << 16)};
    if (!r->scratch || !r->walk) return luo_err_nomem(err);
    int64_t runs = 0;
    for (int32_t t = 0; t < j->program->ntask; t++)
        runs += j->role->seg[j->program->tasks[t].seg].n;
    if (runs > INT32_MAX) return luo_err_set(err, LUO_E2BIG, "a step has over 2^31 instructions.");
    r->cap_records = (int32_t)runs;
    r->record = LUO_NEW_N(j->arena, luo_op_record, runs);
    r->use = LUO_NEW_N(j->arena, luo_comm_use, j->role->ninstr);
    r->used = LUO_NEW_N(j->arena, luo_comm_use, j->role->ninstr);
    j->fresh = LUO_NEW_N(j->arena, bool, j->role->nbuf);
    if (!r->record || !r->use || !r->used || !j->fresh) return luo_err_nomem(err);
    return host_open_lanes(j, err);
}

/* Where cells lie comes before the memory: some Reshards need room between their steps. */
static luo_status make_memory(luo_job *j, luo_err *err)
{
    luo_route *route = LUO_NEW_N(j->arena, luo_route, j->role->ninstr);
    if (!route) return luo_err_nomem(err);
    for (int32_t i = 0; i < j->role->ninstr; i++)
        if (j->role->instr[i].exchange >= 0)
            LUO_TRY(luo_route_of(j->arena, j->set, j->program, i, &route[i], err));
    j->route = route;
    LUO_TRY(luo_layout_make(j->arena, j->set, j->program, route, &j->layout, err));
    j->slab_bytes = j->layout.bytes;
    j->slab = zeroed(j->slab_bytes);
    return j->slab ? LUO_OK : luo_err_nomem(err);
}

static luo_status make_data(luo_job *j, luo_err *err)
{
    const int64_t tokens = j->recipe->sequence_tokens;
    int64_t longest = 1;
    LUO_TRY(luo_batch_shape_of(j->arena, j->recipe->plan, tokens, &j->batch, err));
    for (int32_t p = 0; p < j->batch.npipelines; p++)
        for (int32_t m = 0; m < j->batch.nmicro[p]; m++)
            if (j->batch.tokens[p][m] > longest) longest = j->batch.tokens[p][m];
    j->batch_memory = luo_arena_alloc(j->arena, luo_batch_bytes(longest));
    j->attention_work = zeroed((int64_t)host_attention_work(j));
    return j->batch_memory && j->attention_work ? LUO_OK : luo_err_nomem(err);
}

static luo_status bind(luo_job *j, luo_err *err)
{
    LUO_TRY(refuse(j, err));
    LUO_TRY(host_open_groups(j->x, j->set, err));
    j->program = luo_programs_find(j->set, j->x->device);
    if (!j->program) return host_bind_pieces(j, err); /* none lies here */
    j->role = &j->set->roles[j->program->role];
    LUO_TRY(check_width(j, err));
    LUO_TRY(make_memory(j, err));
    LUO_TRY(host_bind_pieces(j, err));
    LUO_TRY(bind_all(j, err));
    LUO_TRY(place_messages(j, err));
    LUO_TRY(make_data(j, err));
    return open_rank(j, err);
}

luo_status host_bind(luo_exec *x, int32_t id, const luo_programs *set, const luo_recipe *recipe,
                     luo_job **out, luo_err *err)
{
    luo_arena *arena = luo_arena_new(1 << 18);
    luo_job *j = arena ? LUO_NEW(arena, luo_job) : NULL;
    if (!j) {
        luo_arena_free(arena);
        return luo_err_nomem(err);
    }
    *j = (luo_job){.x = x, .arena = arena, .id = id, .set = set, .recipe = recipe};
    const luo_status st = bind(j, err);
    if (st == LUO_OK)
        *out = j;
    else
        host_unbind(j);
    return st;
}

void host_unbind(luo_job *j)
{
    if (!j || !host_idle(j)) return; /* after an error MPI may still write there */
    free(j->slab);
    free(j->messages);
    free(j->attention_work);
    luo_arena_free(j->rank.scratch);
    luo_arena_free(j->rank.walk);
    luo_arena_free(j->arena);
}
