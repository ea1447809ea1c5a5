/* bind.c: one program on one rank: memory, and a table that a step only walks. */
#include <stdlib.h>
#include <string.h>

#include "exec/host/job.h"

static void *zeroed(int64_t bytes)
{
    void *p = NULL;
    const size_t n = bytes > 0 ? (size_t)bytes : 1;
    if (posix_memalign(&p, 4096, (n + 4095) / 4096 * 4096) != 0) return NULL;
    memset(p, 0, n); /* touched now, so that no step pays for the first use of a page */
    return p;
}

static luo_status bind_all(luo_job *j, luo_err *err)
{
    j->op = LUO_NEW_N(j->arena, host_op, j->b.role->ninstr);
    if (!j->op) return luo_err_nomem(err);
    for (int32_t i = 0; i < j->b.role->ninstr; i++) {
        host_op *op = &j->op[i];
        op->b = &j->b.op[i];
        if (!op->b->comm)
            op->run = host_run_of(op->b->kind);
        else
            LUO_TRY(host_bind_comm(j, op, err));
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

static char *place_idle(luo_job *j, int32_t i, idle *at)
{
    const luo_segment *s = &j->b.role->seg[j->b.seg_of[i]];
    const host_comm *c = j->op[i].comm;
    if (luo_phase_in_task(s->phase) || c->b->outlives) return NULL;
    if (at->seg != j->b.seg_of[i]) *at = (idle){j->b.seg_of[i], at->base, at->base};
    const int64_t bytes = c->message_bytes * c->deep;
    if (at->used + bytes > j->b.layout.kept) return NULL;
    at->used += bytes;
    return j->slab + j->b.layout.own + at->used - bytes;
}

static bool is_bucket(const luo_job *j, int32_t i)
{
    return j->b.role->instr[i].npieces > 0;
}

/* The calls of buckets are made one after the other in each lane, and share the memory of its
 * largest; those before and those behind the micro-batches for themselves, unless micro-batches
 * make calls, too. */
typedef struct bucket_places {
    int32_t largest[2][LUO_DP_LANES]; /* instructions; -1: there are no calls */
    bool in_tasks;
} bucket_places;

static int32_t *largest_of(const luo_job *j, bucket_places *p, int32_t i)
{
    const luo_instr *in = &j->b.role->instr[i];
    return &p->largest[!p->in_tasks && in->phase == LUO_PHASE_POST][in->lane];
}

static void find_largest(const luo_job *j, bucket_places *p)
{
    p->in_tasks = luo_role_has_task_buckets(j->b.role);
    for (int k = 0; k < 2; k++)
        for (int32_t l = 0; l < LUO_DP_LANES; l++) p->largest[k][l] = -1;
    for (int32_t i = 0; i < j->b.role->ninstr; i++) {
        if (!is_bucket(j, i)) continue;
        int32_t *most = largest_of(j, p, i);
        if (*most < 0 || j->op[i].comm->message_bytes > j->op[*most].comm->message_bytes) *most = i;
    }
}

/* Has it the memory of another call? */
static bool shares(const luo_job *j, bucket_places *p, int32_t i)
{
    return is_bucket(j, i) && i != *largest_of(j, p, i);
}

/* Other messages of the two phases lie behind what the larger one takes. */
static void place_buckets(luo_job *j, const bucket_places *p, idle *at)
{
    int64_t most = 0;
    for (int k = 0; k < 2; k++) {
        *at = (idle){-1, 0, 0};
        for (int32_t l = 0; l < LUO_DP_LANES; l++) {
            const int32_t i = p->largest[k][l];
            if (i >= 0) j->op[i].comm->message = place_idle(j, i, at);
        }
        if (at->used > most) most = at->used;
    }
    *at = (idle){-1, most, most};
}

/* One block for all other packed messages. */
static luo_status place_messages(luo_job *j, luo_err *err)
{
    idle at = {-1, 0, 0};
    bucket_places p;
    find_largest(j, &p);
    if (!p.in_tasks) place_buckets(j, &p, &at);
    for (int32_t i = 0; i < j->b.role->ninstr; i++) {
        host_comm *c = j->op[i].comm;
        if (!c || shares(j, &p, i)) continue;
        if (!is_bucket(j, i)) c->message = place_idle(j, i, &at);
        if (!c->message) j->message_bytes += c->message_bytes * c->deep;
    }
    j->messages = zeroed(j->message_bytes);
    if (!j->messages) return luo_err_nomem(err);
    char *top = j->messages;
    for (int32_t i = 0; i < j->b.role->ninstr; i++) {
        host_comm *c = j->op[i].comm;
        if (!c || c->message || shares(j, &p, i)) continue;
        c->message = top;
        top += c->message_bytes * c->deep;
    }
    for (int32_t i = 0; i < j->b.role->ninstr; i++)
        if (is_bucket(j, i)) j->op[i].comm->message = j->op[*largest_of(j, &p, i)].comm->message;
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
    for (int32_t t = 0; t < j->b.program->ntask; t++)
        runs += j->b.role->seg[j->b.program->tasks[t].seg].n;
    if (runs > INT32_MAX) return luo_err_set(err, LUO_E2BIG, "a step has over 2^31 instructions.");
    r->cap_records = (int32_t)runs;
    r->record = LUO_NEW_N(j->arena, luo_op_record, runs);
    r->use = LUO_NEW_N(j->arena, luo_comm_use, j->b.role->ninstr);
    r->used = LUO_NEW_N(j->arena, luo_comm_use, j->b.role->ninstr);
    j->fresh = LUO_NEW_N(j->arena, bool, j->b.role->nbuf);
    if (!r->record || !r->use || !r->used || !j->fresh) return luo_err_nomem(err);
    return host_open_lanes(j, err);
}

static luo_status make_memory(luo_job *j, luo_err *err)
{
    j->slab_bytes = j->b.layout.bytes;
    j->slab = zeroed(j->slab_bytes);
    j->batch_memory = luo_arena_alloc(j->arena, luo_batch_bytes(&j->b.batch, j->b.longest));
    j->attention_work = zeroed((int64_t)host_attention_work(j));
    return j->slab && j->batch_memory && j->attention_work ? LUO_OK : luo_err_nomem(err);
}

static void find_state(luo_job *j)
{
    luo_bound *b = &j->b;
    j->state =
        (luo_state){.device = j->x->device, .n = b->npieces, .at = b->piece, .elem = j->x->k->elem};
    for (int32_t i = 0; i < b->npieces; i++) {
        luo_piece *p = &b->piece[i];
        if (p->piece.empty) continue;
        p->weight = j->slab + b->layout.at[b->weight_buffer[i]];
        p->m = j->slab + b->layout.at[b->state_buffer[i]];
        p->v = (char *)p->m + p->state_frame.volume * (int64_t)j->x->k->elem;
    }
}

static luo_status bind(luo_job *j, const luo_programs *set, const luo_recipe *recipe, luo_err *err)
{
    LUO_TRY(host_open_groups(j->x, set, err)); /* all ranks together: first */
    LUO_TRY(luo_bind(j->arena, &j->x->config, set, recipe, &j->b, err));
    if (j->b.program) LUO_TRY(make_memory(j, err));
    find_state(j);
    if (!j->b.program) return LUO_OK;
    LUO_TRY(bind_all(j, err));
    LUO_TRY(place_messages(j, err));
    if (set->staggered && !(j->undo = zeroed(host_undo_bytes(j)))) return luo_err_nomem(err);
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
    *j = (luo_job){.x = x, .arena = arena, .id = id};
    const luo_status st = bind(j, set, recipe, err);
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
    free(j->undo);
    free(j->attention_work);
    luo_arena_free(j->rank.scratch);
    luo_arena_free(j->rank.walk);
    luo_arena_free(j->arena);
}
