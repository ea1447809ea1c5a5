/* bind.c: one program on one GPU: memory laid out once, instructions turned into a table
 * that a step only walks. */
#include "exec/cuda/bind.h"
#include "core/plan/replan/reroute.h"
#include "exec/cuda/moe/moe.h"

#include <stdlib.h>
#include <string.h>

/* ---- tables on the device ---- */

enum { TABLE_ALIGN = 16 };

static luo_status grow(gpu_binder *binder, void **at, size_t *cap, size_t need, size_t size)
{
    if (need <= *cap) return LUO_OK;
    size_t more = *cap ? 2 * *cap : 4096;
    if (more < need) more = need;
    void *p = luo_arena_grow(binder->tmp, *at, *cap * size, more * size);
    if (!p) return luo_err_nomem(binder->err);
    *at = p;
    *cap = more;
    return LUO_OK;
}

luo_status gpu_binder_put(gpu_binder *binder, const void *data, int64_t bytes, const void **at)
{
    const size_t from = (binder->bytes + TABLE_ALIGN - 1) / TABLE_ALIGN * TABLE_ALIGN;
    void *blob = binder->blob, *patch = binder->patch;
    LUO_TRY(grow(binder, &blob, &binder->cap_bytes, from + (size_t)bytes, 1));
    binder->blob = blob;
    LUO_TRY(
        grow(binder, &patch, &binder->cap_patches, binder->npatches + 1, sizeof *binder->patch));
    binder->patch = patch;
    if (bytes > 0) memcpy(binder->blob + from, data, (size_t)bytes);
    binder->bytes = from + (size_t)bytes;
    binder->patch[binder->npatches++] = (struct gpu_patch){at, from};
    return LUO_OK;
}

static luo_status send_tables(gpu_binder *binder)
{
    luo_job *job = binder->job;
    void *p;
    LUO_TRY(gpu_alloc((int64_t)binder->bytes, "the tables of a program", &p, binder->err));
    job->tables = p;
    job->table_bytes = (int64_t)binder->bytes;
    for (size_t i = 0; i < binder->npatches; i++)
        *binder->patch[i].at = job->tables + binder->patch[i].offset;
    if (binder->bytes == 0) return LUO_OK;
    LUO_TRY(gpu_check(binder->err,
                      cudaMemcpy(p, binder->blob, binder->bytes, cudaMemcpyHostToDevice),
                      "sending the tables of a program"));
    return gpu_check(binder->err, cudaStreamSynchronize(NULL), "sending the tables of a program");
}

/* ---- instructions ---- */

int32_t gpu_task_of(const luo_job *job, int32_t instr)
{
    const luo_program *program = job->bound.program;
    for (int32_t t = program->ntask - 1; t >= 0; t--)
        if (program->tasks[t].seg == job->bound.seg_of[instr]) return t;
    return -1;
}

static luo_status bind_one(gpu_binder *binder, gpu_op *op)
{
    const luo_instr *instr = op->b->instr;
    if (!op->b->comm) {
        LUO_TRY(gpu_bind_op(binder, op));
        if (binder->fusion.skip[instr->id]) op->run = gpu_run_nothing;
        return LUO_OK;
    }
    if (instr->kind == LUO_INSTR_LOCAL) op->run = gpu_run_local_move;
    return gpu_bind_transfer(binder, op);
}

static luo_status bind_all(gpu_binder *binder)
{
    luo_job *job = binder->job;
    const int32_t n = job->bound.role->ninstr;
    job->op = LUO_NEW_N(job->arena, gpu_op, n);
    job->fresh = LUO_NEW_N(job->arena, bool, job->bound.role->nbuf);
    if (!job->op || !job->fresh) return luo_err_nomem(binder->err);
    LUO_TRY(gpu_fuse(binder->tmp, &job->bound, &binder->fusion, binder->err));
    for (int32_t i = 0; i < n; i++) {
        job->op[i].b = &job->bound.op[i];
        LUO_TRY(bind_one(binder, &job->op[i]));
    }
    LUO_TRY(gpu_bind_update(binder));
    LUO_TRY(gpu_bind_copies(binder));
    return send_tables(binder);
}

static bool is_bucket(const luo_job *job, int32_t i)
{
    return job->bound.role->instr[i].npieces > 0;
}

/* One block for all packed messages: rooms of what goes ahead, buckets, all others. */
static luo_status place_messages(luo_job *job, luo_err *err)
{
    void *p;
    const int32_t n = job->bound.role->ninstr;
    const int64_t rooms = LUO_ROOMS * job->bound.room_bytes;
    int64_t bucket[LUO_DP_LANES] = {0}; /* calls of a lane follow each other: its largest's */
    for (int32_t i = 0; i < n; i++) {
        const gpu_transfer *transfer = job->op[i].transfer;
        if (!transfer || transfer->b->ahead) continue;
        if (!is_bucket(job, i))
            job->message_bytes += transfer->copy_bytes * transfer->deep;
        else if (transfer->copy_bytes > bucket[job->bound.role->instr[i].lane])
            bucket[job->bound.role->instr[i].lane] = transfer->copy_bytes;
    }
    job->message_bytes += rooms;
    for (int32_t l = 0; l < LUO_DP_LANES; l++) job->message_bytes += bucket[l];
    LUO_TRY(gpu_alloc(job->message_bytes, "memory for messages", &p, err));
    job->messages = p;
    char *at = job->messages + rooms;
    for (int32_t l = 0; l < LUO_DP_LANES; at += bucket[l++])
        for (int32_t i = 0; i < n; i++)
            if (is_bucket(job, i) && job->bound.role->instr[i].lane == l)
                job->op[i].transfer->memory = at;
    for (int32_t i = 0; i < n; i++) {
        gpu_transfer *transfer = job->op[i].transfer;
        if (!transfer || is_bucket(job, i)) continue;
        transfer->memory = transfer->b->ahead ? job->messages + transfer->b->room : at;
        if (!transfer->b->ahead) at += transfer->copy_bytes * transfer->deep;
    }
    return LUO_OK;
}

/* ---- the rest ---- */

static luo_status open_rank(luo_job *job, luo_err *err)
{
    luo_rank *rank = &job->rank;
    const int64_t n = job->bound.role->ninstr;
    *rank = (luo_rank){.job = job,
                       .x = job->x,
                       .task = -1,
                       .scratch = luo_arena_new(1 << 16),
                       .walk = luo_arena_new(1 << 16)};
    rank->use = LUO_NEW_N(job->arena, luo_comm_use, n);
    rank->used = LUO_NEW_N(job->arena, luo_comm_use, n);
    return rank->scratch && rank->walk && rank->use && rank->used ? LUO_OK : luo_err_nomem(err);
}

static luo_status open_time(luo_job *job, luo_err *err)
{
    const luo_program *program = job->bound.program;
    int64_t runs = 0, communications = 0;
    for (int32_t t = 0; t < program->ntask; t++) {
        const luo_segment *segment = &job->bound.role->seg[program->tasks[t].seg];
        runs += segment->n;
        for (int32_t i = segment->first; i < segment->first + segment->n; i++)
            communications += !job->op[i].run;
    }
    job->rank.record = LUO_NEW_N(job->arena, luo_op_record, runs);
    if (!job->rank.record) return luo_err_nomem(err);
    LUO_TRY(gpu_stamps_open(job, runs, communications, err));
    LUO_TRY(gpu_events_open(job, communications, err));
    return gpu_pace_open(job, err);
}

static luo_status open_answer(luo_job *job, luo_err *err)
{
    void *at, *there;
    LUO_TRY(
        gpu_alloc_mapped((int64_t)sizeof *job->answer, "the answer of a step", &at, &there, err));
    job->answer = at;
    job->device_answer = there;
    return gpu_alloc(job->work_bytes, "working memory of operations", &job->work, err);
}

static luo_status bind_tables(luo_job *job, luo_err *err)
{
    gpu_binder binder = {.job = job, .tmp = luo_arena_new(1 << 16), .err = err};
    const luo_status st = binder.tmp ? bind_all(&binder) : luo_err_nomem(err);
    luo_arena_free(binder.tmp);
    return st;
}

/* A switch needs the memory of both plans until state has moved. */
static luo_status make_slab(luo_job *job, luo_err *err)
{
    void *p;
    luo_err why = {0};
    const int64_t bytes = job->bound.layout.bytes, held = job->x->held_bytes;
    const luo_status st = gpu_alloc(bytes, "a device's part of the plan", &p, &why);
    if (st != LUO_OK && (st != LUO_EOOM || held == 0)) return luo_err_set(err, st, "%s", why.text);
    if (st != LUO_OK)
        return luo_err_set(err, st,
                           "the next plan does not fit beside the %.3f GiB of the plan to leave, "
                           "which a switch needs until state has moved: %s",
                           (double)held / (1 << 30), why.text);
    job->slab = p;
    job->slab_bytes = bytes;
    job->x->held_bytes += bytes;
    return LUO_OK;
}

/* The same on all ranks: they have one plan. */
static luo_status refuse(const luo_plan *plan, luo_err *err)
{
    if (plan->schedule == LUO_SCHED_ZB_H2 && luo_plan_lost_stages(plan) > 0)
        return luo_err_set(err, LUO_EUNSUP,
                           "plan `%s` reroutes micro-batches under schedule zb_h2, whose messages "
                           "can wait for each other for ever where communication begins in the "
                           "order of issue, as NCCL's; schedule zb_h1 is expected.",
                           plan->name);
    return LUO_OK;
}

/* Communicators come first: all ranks take part in making them, whatever happens to one later. */
static luo_status bind(luo_job *job, const luo_programs *set, const luo_recipe *recipe,
                       luo_err *err)
{
    LUO_TRY(refuse(recipe->plan, err));
    LUO_TRY(gpu_comms_bind(job->x->comms, set, err));
    LUO_TRY(luo_bind(job->arena, &job->x->config, set, recipe, &job->bound, err));
    if (!job->bound.program) return gpu_state_bind(job, err); /* none lies here */
    LUO_TRY(make_slab(job, err));
    LUO_TRY(gpu_state_bind(job, err));
    LUO_TRY(bind_tables(job, err));
    LUO_TRY(gpu_moe_open(job, err));
    LUO_TRY(place_messages(job, err));
    LUO_TRY(gpu_batch_open(job, err));
    LUO_TRY(open_answer(job, err));
    LUO_TRY(open_rank(job, err));
    LUO_TRY(open_time(job, err));
    return gpu_moe_warm(job, set, err);
}

static void list(luo_job *job, bool in)
{
    pthread_mutex_lock(&job->x->watched);
    luo_job **at = &job->x->jobs;
    while (*at && *at != job) at = &(*at)->next;
    if (in)
        *at = job;
    else if (*at)
        *at = job->next;
    pthread_mutex_unlock(&job->x->watched);
}

luo_status gpu_bind(luo_exec *exec, int32_t id, const luo_programs *set, const luo_recipe *recipe,
                    luo_job **out, luo_err *err)
{
    luo_arena *arena = luo_arena_new(1 << 18);
    luo_job *job = arena ? LUO_NEW(arena, luo_job) : NULL;
    if (!job) {
        luo_arena_free(arena);
        return luo_err_nomem(err);
    }
    job->x = exec;
    job->arena = arena;
    job->id = id;
    const luo_status st = bind(job, set, recipe, err);
    if (st != LUO_OK) {
        gpu_unbind(job);
        return st;
    }
    list(job, true);
    *out = job;
    return LUO_OK;
}

void gpu_unbind(luo_job *job)
{
    if (!job) return;
    if (job->broken) gpu_abort(job->x); /* what waits for peers would never end */
    list(job, false);
    gpu_graph_close(job);
    gpu_state_unbind(job);
    gpu_moe_close(job);
    gpu_events_close(job);
    gpu_stamps_close(job);
    gpu_pace_close(job);
    gpu_batch_close(job);
    gpu_free_mapped(job->answer);
    gpu_free(job->work);
    gpu_free(job->tables);
    gpu_free(job->messages);
    gpu_free(job->slab);
    job->x->held_bytes -= job->slab_bytes;
    if (job->rank.scratch) luo_arena_free(job->rank.scratch);
    if (job->rank.walk) luo_arena_free(job->rank.walk);
    luo_arena_free(job->arena);
}
