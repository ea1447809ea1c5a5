/* bind.c: one program on one rank: memory, and a table that a step only walks. */
#include <stdlib.h>
#include <string.h>

#include "exec/data/batch.h"
#include "exec/host/job.h"

static void *zeroed(int64_t bytes)
{
    void *p = NULL;
    const size_t n = bytes > 0 ? (size_t)bytes : 1;
    if (posix_memalign(&p, 4096, (n + 4095) / 4096 * 4096) != 0) return NULL;
    memset(p, 0, n); /* touched now, so that no step pays for the first use of a page */
    return p;
}

static luo_status bind_all(luo_job *job, luo_err *err)
{
    job->op = LUO_NEW_N(job->arena, host_op, job->b.role->ninstr);
    if (!job->op) return luo_err_nomem(err);
    for (int32_t i = 0; i < job->b.role->ninstr; i++) {
        host_op *op = &job->op[i];
        op->b = &job->b.op[i];
        if (!op->b->comm)
            op->run = host_run_of(op->b->kind);
        else
            LUO_TRY(host_bind_comm(job, op, err));
        if (op->b->comm && op->b->instr->kind == LUO_INSTR_LOCAL) op->run = host_run_local_move;
    }
    return LUO_OK;
}

/* Before and behind the micro-batches none is in flight, so that what they leave for their backward
 * parts has nothing in it: reduce-scatters of all gradients are under way then. */
typedef struct idle { /* of that memory */
    int32_t seg;
    int64_t base, used; /* base: taken in all segments */
} idle;

static char *place_idle(luo_job *job, int32_t i, idle *at)
{
    const luo_segment *segment = &job->b.role->seg[job->b.seg_of[i]];
    const host_comm *comm = job->op[i].comm;
    if (luo_phase_in_task(segment->phase) || comm->b->outlives || !job->x->config.messages_inside)
        return NULL;
    if (at->seg != job->b.seg_of[i]) *at = (idle){job->b.seg_of[i], at->base, at->base};
    const int64_t bytes = comm->message_bytes * comm->deep;
    if (at->used + bytes > job->b.layout.kept) return NULL;
    at->used += bytes;
    return job->slab + job->b.layout.own + at->used - bytes;
}

static bool is_bucket(const luo_job *job, int32_t i)
{
    return job->b.role->instr[i].npieces > 0;
}

/* The calls of buckets are made one after the other in each lane, and share the memory of its
 * largest; those before and those behind the micro-batches for themselves, unless micro-batches
 * make calls, too. */
typedef struct bucket_places {
    int32_t largest[2][LUO_DP_LANES]; /* instructions; -1: there are no calls */
    bool in_tasks;
} bucket_places;

static int32_t *largest_of(const luo_job *job, bucket_places *places, int32_t i)
{
    const luo_instr *in = &job->b.role->instr[i];
    return &places->largest[!places->in_tasks && in->phase == LUO_PHASE_POST][in->lane];
}

static void find_largest(const luo_job *job, bucket_places *places)
{
    places->in_tasks = luo_layout_has_task_buckets(job->b.role);
    for (int k = 0; k < 2; k++)
        for (int32_t l = 0; l < LUO_DP_LANES; l++) places->largest[k][l] = -1;
    for (int32_t i = 0; i < job->b.role->ninstr; i++) {
        if (!is_bucket(job, i)) continue;
        int32_t *most = largest_of(job, places, i);
        if (*most < 0 || job->op[i].comm->message_bytes > job->op[*most].comm->message_bytes)
            *most = i;
    }
}

/* Has it the memory of another call? */
static bool shares(const luo_job *job, bucket_places *places, int32_t i)
{
    return is_bucket(job, i) && i != *largest_of(job, places, i);
}

/* Other messages of the two phases lie behind what the larger one takes. */
static void place_buckets(luo_job *job, const bucket_places *places, idle *at)
{
    int64_t most = 0;
    for (int k = 0; k < 2; k++) {
        *at = (idle){-1, 0, 0};
        for (int32_t l = 0; l < LUO_DP_LANES; l++) {
            const int32_t i = places->largest[k][l];
            if (i >= 0) job->op[i].comm->message = place_idle(job, i, at);
        }
        if (at->used > most) most = at->used;
    }
    *at = (idle){-1, most, most};
}

/* One block for all other packed messages, rooms of what goes ahead first. */
static luo_status place_messages(luo_job *job, luo_err *err)
{
    idle at = {-1, 0, 0};
    bucket_places places;
    job->message_bytes = LUO_ROOMS * job->b.room_bytes;
    find_largest(job, &places);
    if (!places.in_tasks) place_buckets(job, &places, &at);
    for (int32_t i = 0; i < job->b.role->ninstr; i++) {
        host_comm *comm = job->op[i].comm;
        if (!comm || comm->b->ahead || shares(job, &places, i)) continue;
        if (!is_bucket(job, i)) comm->message = place_idle(job, i, &at);
        if (!comm->message) job->message_bytes += comm->message_bytes * comm->deep;
    }
    job->messages = zeroed(job->message_bytes);
    if (!job->messages) return luo_err_nomem(err);
    char *top = job->messages + LUO_ROOMS * job->b.room_bytes;
    for (int32_t i = 0; i < job->b.role->ninstr; i++) {
        host_comm *c = job->op[i].comm;
        if (c && c->b->ahead) c->message = job->messages + c->b->room;
        if (!c || c->message || shares(job, &places, i)) continue;
        c->message = top;
        top += c->message_bytes * c->deep;
    }
    for (int32_t i = 0; i < job->b.role->ninstr; i++)
        if (is_bucket(job, i))
            job->op[i].comm->message = job->op[*largest_of(job, &places, i)].comm->message;
    return LUO_OK;
}

static luo_status open_rank(luo_job *job, luo_err *err)
{
    luo_rank *rank = &job->rank;
    *rank = (luo_rank){.job = job,
                       .x = job->x,
                       .task = -1,
                       .scratch = luo_arena_new(1 << 16),
                       .walk = luo_arena_new(1 << 16)};
    if (!rank->scratch || !rank->walk) return luo_err_nomem(err);
    int64_t runs = 0;
    for (int32_t t = 0; t < job->b.program->ntask; t++)
        runs += job->b.role->seg[job->b.program->tasks[t].seg].n;
    if (runs > INT32_MAX) return luo_err_set(err, LUO_E2BIG, "a step has over 2^31 instructions.");
    rank->cap_records = (int32_t)runs;
    rank->record = LUO_NEW_N(job->arena, luo_op_record, runs);
    rank->use = LUO_NEW_N(job->arena, luo_comm_use, job->b.role->ninstr);
    rank->used = LUO_NEW_N(job->arena, luo_comm_use, job->b.role->ninstr);
    job->fresh = LUO_NEW_N(job->arena, bool, job->b.role->nbuf);
    if (!rank->record || !rank->use || !rank->used || !job->fresh) return luo_err_nomem(err);
    return host_open_lanes(job, err);
}

static luo_status make_memory(luo_job *job, luo_err *err)
{
    job->slab_bytes = job->b.layout.bytes;
    job->slab = zeroed(job->slab_bytes);
    job->batch_memory = luo_arena_alloc(job->arena, luo_batch_bytes(&job->b.batch, job->b.longest));
    job->pads = LUO_NEW_N(job->arena, unsigned char, job->b.longest);
    job->dealt = LUO_NEW_N(job->arena, int32_t, job->b.longest);
    const size_t attention = host_attention_work(job), experts = host_experts_work(job);
    job->attention_work = zeroed((int64_t)(attention > experts ? attention : experts));
    job->local_start = LUO_NEW_N(job->arena, int32_t, job->b.longest + 1);
    return job->local_start && job->slab && job->batch_memory && job->pads && job->dealt &&
                   job->attention_work
               ? LUO_OK
               : luo_err_nomem(err);
}

static void find_state(luo_job *job)
{
    luo_bound *bound = &job->b;
    job->state = (luo_state){
        .device = job->x->device, .n = bound->npieces, .at = bound->piece, .elem = job->x->k->elem};
    for (int32_t i = 0; i < bound->npieces; i++) {
        luo_piece *piece = &bound->piece[i];
        if (piece->piece.empty) continue;
        const bool apart = bound->weight_buffer[i] == bound->state_buffer[i];
        piece->weight = job->slab + bound->layout.at[bound->weight_buffer[i]];
        if (piece->param->counted) continue;
        piece->m = job->slab + bound->layout.at[bound->state_buffer[i]];
        if (apart)
            piece->m = (char *)piece->m + piece->state_frame.volume * (int64_t)job->x->k->elem;
        piece->v = (char *)piece->m + piece->state_frame.volume * (int64_t)job->x->k->elem;
    }
}

static luo_status bind(luo_job *job, const luo_programs *set, const luo_recipe *recipe,
                       luo_err *err)
{
    LUO_TRY(host_open_groups(job->x, set, err)); /* all ranks together: first */
    LUO_TRY(luo_bind(job->arena, &job->x->config, set, recipe, &job->b, err));
    if (job->b.program) LUO_TRY(make_memory(job, err));
    find_state(job);
    if (!job->b.program) return LUO_OK;
    LUO_TRY(bind_all(job, err));
    LUO_TRY(place_messages(job, err));
    if (set->staggered && !(job->undo = zeroed(host_undo_bytes(job)))) return luo_err_nomem(err);
    return open_rank(job, err);
}

luo_status host_bind(luo_exec *exec, int32_t id, const luo_programs *set, const luo_recipe *recipe,
                     luo_job **out, luo_err *err)
{
    luo_arena *arena = luo_arena_new(1 << 18);
    luo_job *job = arena ? LUO_NEW(arena, luo_job) : NULL;
    if (!job) {
        luo_arena_free(arena);
        return luo_err_nomem(err);
    }
    *job = (luo_job){.x = exec, .arena = arena, .id = id};
    const luo_status st = bind(job, set, recipe, err);
    if (st == LUO_OK)
        *out = job;
    else
        host_unbind(job);
    return st;
}

void host_unbind(luo_job *job)
{
    if (!job || !host_idle(job)) return; /* after an error MPI may still write there */
    free(job->slab);
    free(job->messages);
    free(job->undo);
    free(job->attention_work);
    luo_arena_free(job->rank.scratch);
    luo_arena_free(job->rank.walk);
    luo_arena_free(job->arena);
}
