/* bind.c: one program on one GPU: memory laid out once, instructions turned into a table
 * that a step only walks. */
#include "exec/cuda/bind.h"
#include "core/plan/replan/reroute.h"
#include "exec/cuda/moe/moe.h"

#include <stdlib.h>
#include <string.h>

/* ---- tables on the device ---- */

enum { TABLE_ALIGN = 16 };

static luo_status grow(gpu_binder *b, void **at, size_t *cap, size_t need, size_t size)
{
    if (need <= *cap) return LUO_OK;
    size_t more = *cap ? 2 * *cap : 4096;
    if (more < need) more = need;
    void *p = luo_arena_grow(b->tmp, *at, *cap * size, more * size);
    if (!p) return luo_err_nomem(b->err);
    *at = p;
    *cap = more;
    return LUO_OK;
}

luo_status gpu_binder_put(gpu_binder *b, const void *data, int64_t bytes, const void **at)
{
    const size_t from = (b->bytes + TABLE_ALIGN - 1) / TABLE_ALIGN * TABLE_ALIGN;
    void *blob = b->blob, *patch = b->patch;
    LUO_TRY(grow(b, &blob, &b->cap_bytes, from + (size_t)bytes, 1));
    b->blob = blob;
    LUO_TRY(grow(b, &patch, &b->cap_patches, b->npatches + 1, sizeof *b->patch));
    b->patch = patch;
    if (bytes > 0) memcpy(b->blob + from, data, (size_t)bytes);
    b->bytes = from + (size_t)bytes;
    b->patch[b->npatches++] = (struct gpu_patch){at, from};
    return LUO_OK;
}

static luo_status send_tables(gpu_binder *b)
{
    luo_job *j = b->job;
    void *p;
    LUO_TRY(gpu_alloc((int64_t)b->bytes, "the tables of a program", &p, b->err));
    j->tables = p;
    j->table_bytes = (int64_t)b->bytes;
    for (size_t i = 0; i < b->npatches; i++) *b->patch[i].at = j->tables + b->patch[i].offset;
    if (b->bytes == 0) return LUO_OK;
    LUO_TRY(gpu_check(b->err, cudaMemcpy(p, b->blob, b->bytes, cudaMemcpyHostToDevice),
                      "sending the tables of a program"));
    return gpu_check(b->err, cudaStreamSynchronize(NULL), "sending the tables of a program");
}

/* ---- instructions ---- */

int32_t gpu_task_of(const luo_job *j, int32_t instr)
{
    const luo_program *p = j->bound.program;
    for (int32_t t = p->ntask - 1; t >= 0; t--)
        if (p->tasks[t].seg == j->bound.seg_of[instr]) return t;
    return -1;
}

static luo_status bind_one(gpu_binder *b, gpu_op *op)
{
    const luo_instr *i = op->b->instr;
    if (!op->b->comm) {
        LUO_TRY(gpu_bind_op(b, op));
        if (b->fusion.skip[i->id]) op->run = gpu_run_nothing;
        return LUO_OK;
    }
    if (i->kind == LUO_INSTR_LOCAL) op->run = gpu_run_local_move;
    return gpu_bind_transfer(b, op);
}

static luo_status bind_all(gpu_binder *b)
{
    luo_job *j = b->job;
    const int32_t n = j->bound.role->ninstr;
    j->op = LUO_NEW_N(j->arena, gpu_op, n);
    j->fresh = LUO_NEW_N(j->arena, bool, j->bound.role->nbuf);
    if (!j->op || !j->fresh) return luo_err_nomem(b->err);
    LUO_TRY(gpu_fuse(b->tmp, &j->bound, &b->fusion, b->err));
    for (int32_t i = 0; i < n; i++) {
        j->op[i].b = &j->bound.op[i];
        LUO_TRY(bind_one(b, &j->op[i]));
    }
    LUO_TRY(gpu_bind_update(b));
    LUO_TRY(gpu_bind_copies(b));
    return send_tables(b);
}

static bool is_bucket(const luo_job *j, int32_t i)
{
    return j->bound.role->instr[i].npieces > 0;
}

/* One block for all packed messages: rooms of what goes ahead, buckets, all others. */
static luo_status place_messages(luo_job *j, luo_err *err)
{
    void *p;
    const int32_t n = j->bound.role->ninstr;
    const int64_t rooms = LUO_ROOMS * j->bound.room_bytes;
    int64_t bucket[LUO_DP_LANES] = {0}; /* calls of a lane follow each other: its largest's */
    for (int32_t i = 0; i < n; i++) {
        const gpu_transfer *t = j->op[i].transfer;
        if (!t || t->b->ahead) continue;
        if (!is_bucket(j, i))
            j->message_bytes += t->copy_bytes * t->deep;
        else if (t->copy_bytes > bucket[j->bound.role->instr[i].lane])
            bucket[j->bound.role->instr[i].lane] = t->copy_bytes;
    }
    j->message_bytes += rooms;
    for (int32_t l = 0; l < LUO_DP_LANES; l++) j->message_bytes += bucket[l];
    LUO_TRY(gpu_alloc(j->message_bytes, "memory for messages", &p, err));
    j->messages = p;
    char *at = j->messages + rooms;
    for (int32_t l = 0; l < LUO_DP_LANES; at += bucket[l++])
        for (int32_t i = 0; i < n; i++)
            if (is_bucket(j, i) && j->bound.role->instr[i].lane == l)
                j->op[i].transfer->memory = at;
    for (int32_t i = 0; i < n; i++) {
        gpu_transfer *t = j->op[i].transfer;
        if (!t || is_bucket(j, i)) continue;
        t->memory = t->b->ahead ? j->messages + t->b->room : at;
        if (!t->b->ahead) at += t->copy_bytes * t->deep;
    }
    return LUO_OK;
}

/* ---- the rest ---- */

static luo_status open_rank(luo_job *j, luo_err *err)
{
    luo_rank *r = &j->rank;
    const int64_t n = j->bound.role->ninstr;
    *r = (luo_rank){.job = j,
                    .x = j->x,
                    .task = -1,
                    .scratch = luo_arena_new(1 << 16),
                    .walk = luo_arena_new(1 << 16)};
    r->use = LUO_NEW_N(j->arena, luo_comm_use, n);
    r->used = LUO_NEW_N(j->arena, luo_comm_use, n);
    return r->scratch && r->walk && r->use && r->used ? LUO_OK : luo_err_nomem(err);
}

static luo_status open_time(luo_job *j, luo_err *err)
{
    const luo_program *p = j->bound.program;
    int64_t runs = 0, communications = 0;
    for (int32_t t = 0; t < p->ntask; t++) {
        const luo_segment *s = &j->bound.role->seg[p->tasks[t].seg];
        runs += s->n;
        for (int32_t i = s->first; i < s->first + s->n; i++) communications += !j->op[i].run;
    }
    j->rank.record = LUO_NEW_N(j->arena, luo_op_record, runs);
    if (!j->rank.record) return luo_err_nomem(err);
    LUO_TRY(gpu_stamps_open(j, runs, communications, err));
    LUO_TRY(gpu_events_open(j, communications, err));
    return gpu_pace_open(j, err);
}

static luo_status open_answer(luo_job *j, luo_err *err)
{
    void *at, *there;
    LUO_TRY(gpu_alloc_mapped((int64_t)sizeof *j->answer, "the answer of a step", &at, &there, err));
    j->answer = at;
    j->device_answer = there;
    return gpu_alloc(j->work_bytes, "working memory of operations", &j->work, err);
}

static luo_status bind_tables(luo_job *j, luo_err *err)
{
    gpu_binder b = {.job = j, .tmp = luo_arena_new(1 << 16), .err = err};
    const luo_status st = b.tmp ? bind_all(&b) : luo_err_nomem(err);
    luo_arena_free(b.tmp);
    return st;
}

/* A switch needs the memory of both plans until state has moved. */
static luo_status make_slab(luo_job *j, luo_err *err)
{
    void *p;
    luo_err why = {0};
    const int64_t bytes = j->bound.layout.bytes, held = j->x->held_bytes;
    const luo_status st = gpu_alloc(bytes, "a device's part of the plan", &p, &why);
    if (st != LUO_OK && (st != LUO_EOOM || held == 0)) return luo_err_set(err, st, "%s", why.text);
    if (st != LUO_OK)
        return luo_err_set(err, st,
                           "the next plan does not fit beside the %.3f GiB of the plan to leave, "
                           "which a switch needs until state has moved: %s",
                           (double)held / (1 << 30), why.text);
    j->slab = p;
    j->slab_bytes = bytes;
    j->x->held_bytes += bytes;
    return LUO_OK;
}

/* The same on all ranks: they have one plan. */
static luo_status refuse(const luo_plan *p, luo_err *err)
{
    if (p->schedule == LUO_SCHED_ZB_H2 && luo_plan_lost_stages(p) > 0)
        return luo_err_set(err, LUO_EUNSUP,
                           "plan `%s` reroutes micro-batches under schedule zb_h2, whose messages "
                           "can wait for each other for ever where communication begins in the "
                           "order of issue, as NCCL's; schedule zb_h1 is expected.", p->name);
    return LUO_OK;
}

/* Communicators come first: all ranks take part in making them, whatever happens to one later. */
static luo_status bind(luo_job *j, const luo_programs *set, const luo_recipe *recipe, luo_err *err)
{
    LUO_TRY(refuse(recipe->plan, err));
    LUO_TRY(gpu_comms_bind(j->x->comms, set, err));
    LUO_TRY(luo_bind(j->arena, &j->x->config, set, recipe, &j->bound, err));
    if (!j->bound.program) return gpu_state_bind(j, err); /* none lies here */
    LUO_TRY(make_slab(j, err));
    LUO_TRY(gpu_state_bind(j, err));
    LUO_TRY(bind_tables(j, err));
    LUO_TRY(gpu_moe_open(j, err));
    LUO_TRY(place_messages(j, err));
    LUO_TRY(gpu_batch_open(j, err));
    LUO_TRY(open_answer(j, err));
    LUO_TRY(open_rank(j, err));
    LUO_TRY(open_time(j, err));
    return gpu_moe_warm(j, set, err);
}

static void list(luo_job *j, bool in)
{
    pthread_mutex_lock(&j->x->watched);
    luo_job **at = &j->x->jobs;
    while (*at && *at != j) at = &(*at)->next;
    if (in)
        *at = j;
    else if (*at)
        *at = j->next;
    pthread_mutex_unlock(&j->x->watched);
}

luo_status gpu_bind(luo_exec *x, int32_t id, const luo_programs *set, const luo_recipe *recipe,
                    luo_job **out, luo_err *err)
{
    luo_arena *arena = luo_arena_new(1 << 18);
    luo_job *j = arena ? LUO_NEW(arena, luo_job) : NULL;
    if (!j) {
        luo_arena_free(arena);
        return luo_err_nomem(err);
    }
    j->x = x;
    j->arena = arena;
    j->id = id;
    const luo_status st = bind(j, set, recipe, err);
    if (st != LUO_OK) {
        gpu_unbind(j);
        return st;
    }
    list(j, true);
    *out = j;
    return LUO_OK;
}

void gpu_unbind(luo_job *j)
{
    if (!j) return;
    if (j->broken) gpu_abort(j->x); /* what waits for peers would never end */
    list(j, false);
    gpu_graph_close(j);
    gpu_state_unbind(j);
    gpu_moe_close(j);
    gpu_events_close(j);
    gpu_stamps_close(j);
    gpu_pace_close(j);
    gpu_batch_close(j);
    gpu_free_mapped(j->answer);
    gpu_free(j->work);
    gpu_free(j->tables);
    gpu_free(j->messages);
    gpu_free(j->slab);
    j->x->held_bytes -= j->slab_bytes;
    if (j->rank.scratch) luo_arena_free(j->rank.scratch);
    if (j->rank.walk) luo_arena_free(j->rank.walk);
    luo_arena_free(j->arena);
}
