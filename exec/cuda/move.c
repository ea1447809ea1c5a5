/* move.c: a switch carried out: master weights and both moments of every cell that its
 * new owner did not have, from GPU to GPU. A message between two devices holds, move by move, the
 * weight's cells, then those of the moments, as on host; it travels in slices. What a device keeps
 * is copied to the new job's memory. Working weights in bf16 are made of their masters afterwards.
 */
#include <mpi.h>
#include <sched.h>
#include <string.h>
#include <time.h>

#include "core/plan/migrate.h"
#include "exec/cuda/comm/packed.h"

enum { CARRY = 256 << 20 }; /* elements of one kernel */

typedef struct message {
    const luo_message *m;
    gpu_packed cells;
    char *packed; /* device: one slice */
} message;

struct gpu_mover {
    luo_job *from, *to;
    const luo_switching *sw;
    luo_arena *arena, *scratch, *walk; /* lists; thrown away; the interpreter */
    cudaStream_t stream;
    gpu_packed kept, local; /* without an instruction; of LOCAL */
    gpu_comm *comm;
    int32_t n;
    message *message;
    cudaEvent_t done[2]; /* of a round of slices */
    bool under_way;      /* the device may work on all this */
    luo_err *err;
};

/* ---- lists ---- */

static gpu_list empty(const gpu_mover *m)
{
    return (gpu_list){.arena = m->arena, .scratch = m->scratch, .err = m->err};
}

/* State whose region does not change stays on its device without an instruction. */
static luo_status list_kept(gpu_mover *m)
{
    const luo_bound *a = &m->from->bound, *b = &m->to->bound;
    gpu_list c = empty(m);
    for (int32_t i = 0; i < a->npieces; i++)
        if (!a->piece[i].piece.empty && !b->piece[i].piece.empty &&
            luo_region_equal(&a->piece[i].piece, &b->piece[i].piece))
            LUO_TRY(gpu_list_carry(&c, m->from, m->to, i, &a->piece[i].piece));
    return gpu_packed_make(&c, GPU_PACKED_CARRY, CARRY, &m->kept);
}

static luo_status list_local(gpu_mover *m)
{
    const luo_switch *sw = &m->sw->sw;
    gpu_list c = empty(m);
    for (int64_t i = 0; i < sw->nmove; i++)
        if (sw->move[i].kind == LUO_MOVE_COPY && sw->move[i].dst == m->to->x->device)
            LUO_TRY(gpu_list_carry(&c, m->from, m->to, sw->move[i].tensor, &sw->move[i].region));
    return gpu_packed_make(&c, GPU_PACKED_CARRY, CARRY, &m->local);
}

/* All cells of one message, in the order of the moves on both sides. The program says how many
 * bytes they are, or it was made for another precision. */
static luo_status list_message(gpu_mover *m, message *x)
{
    const luo_switch *sw = &m->sw->sw;
    const int32_t mine = m->to->x->device;
    const int32_t src = x->m->send ? mine : x->m->peer, dst = x->m->send ? x->m->peer : mine;
    gpu_list c = empty(m);
    if (luo_bound_rank_of(&m->to->x->config, x->m->peer) < 0)
        return luo_err_set(m->err, LUO_EBACKEND,
                           "the switch needs device %d, for which no rank runs.", (int)x->m->peer);
    for (int64_t i = 0; i < sw->nmove; i++) {
        const luo_switch_move *v = &sw->move[i];
        if (v->kind == LUO_MOVE_SEND && v->src == src && v->dst == dst)
            LUO_TRY(gpu_list_pack(&c, x->m->send ? m->from : m->to, v->tensor, &v->region));
    }
    if (c.elements * (int64_t)sizeof(float) != x->m->bytes)
        return luo_err_set(m->err, LUO_EBUG,
                           "a switch says that device %d sends %lld bytes to device %d where "
                           "state of %lld bytes is to go.",
                           (int)src, (long long)x->m->bytes, (int)dst,
                           (long long)(c.elements * (int64_t)sizeof(float)));
    return gpu_packed_make(&c, x->m->send ? GPU_PACKED_PACK : GPU_PACKED_UNPACK, m->to->x->window,
                           &x->cells);
}

static luo_status list_messages(gpu_mover *m, const luo_program *p, const luo_instr *instr)
{
    const luo_slot *slot = &p->slots[instr->slot];
    if (m->message)
        return luo_err_set(m->err, LUO_EBUG, "a switch has several batches of messages.");
    m->comm = gpu_comms_find(m->to->x->comms, m->sw->set, p, instr);
    m->message = LUO_NEW_N(m->arena, message, slot->nmessage);
    if (!m->message) return luo_err_nomem(m->err);
    m->n = slot->nmessage;
    for (int32_t i = 0; i < m->n; i++) {
        message *x = &m->message[i];
        void *packed;
        x->m = &slot->message[i];
        LUO_TRY(list_message(m, x));
        const int64_t window = m->to->x->window;
        const int64_t most = x->cells.elements < window ? x->cells.elements : window;
        LUO_TRY(gpu_alloc(most * (int64_t)sizeof(float), "a message of a switch", &packed, m->err));
        x->packed = packed;
    }
    return LUO_OK;
}

/* All that can fail on this rank alone. */
static luo_status prepare(gpu_mover *m, const luo_program *p)
{
    for (int k = 0; k < 2; k++)
        LUO_TRY(gpu_check(m->err, cudaEventCreateWithFlags(&m->done[k], cudaEventDisableTiming),
                          "making events"));
    LUO_TRY(list_kept(m));
    if (!p) return LUO_OK;
    const luo_role *role = &m->sw->set->roles[p->role];
    for (int32_t i = 0; i < role->ninstr; i++) {
        if (role->instr[i].kind == LUO_INSTR_LOCAL) LUO_TRY(list_local(m));
        if (role->instr[i].kind == LUO_INSTR_P2P) LUO_TRY(list_messages(m, p, &role->instr[i]));
    }
    return LUO_OK;
}

/* ---- doing it ---- */

static luo_status carry(gpu_mover *m, const gpu_packed *p)
{
    for (int32_t k = 0; k < p->nslices; k++)
        LUO_TRY(gpu_packed_copy(p, k, m->stream, m->from->slab, m->to->slab, m->err));
    return LUO_OK;
}

/* Until the stream has passed an event; the watcher's thread ends it where a peer is gone. */
static luo_status await(gpu_mover *m, cudaEvent_t event)
{
    for (int tries = 0;; tries++) {
        const cudaError_t code = cudaEventQuery(event);
        if (code != cudaErrorNotReady) {
            gpu_watch_goes_on(m->to->x);
            return gpu_check(m->err, code, "a switch");
        }
        if (tries < 100)
            sched_yield();
        else
            nanosleep(&(struct timespec){0, 50000}, NULL);
    }
}

/* The k-th slice of all messages that have so many, sends packed before, receives put where they
 * belong. Both ends of a message cut it alike, and every device does round after round: so none
 * waits for a later round of another. */
static luo_status round_of_slices(gpu_mover *m, int32_t k, gpu_message *at)
{
    int32_t n = 0;
    for (int32_t i = 0; i < m->n; i++) {
        const message *x = &m->message[i];
        if (k >= x->cells.nslices) continue;
        at[n++] = (gpu_message){x->m->peer, x->m->send, x->packed, x->cells.slice[k].elements};
        if (x->m->send)
            LUO_TRY(gpu_packed_copy(&x->cells, k, m->stream, m->from->slab, x->packed, m->err));
    }
    LUO_TRY(gpu_exchange(m->comm, n, at, (int64_t)sizeof(float), m->stream, m->err));
    for (int32_t i = 0; i < m->n; i++) {
        const message *x = &m->message[i];
        if (k < x->cells.nslices && !x->m->send)
            LUO_TRY(gpu_packed_copy(&x->cells, k, m->stream, x->packed, m->to->slab, m->err));
    }
    return LUO_OK;
}

/* The host is one round ahead of the device. */
static luo_status exchange(gpu_mover *m)
{
    int32_t rounds = 0;
    gpu_message *at = LUO_NEW_N(m->arena, gpu_message, m->n);
    if (!at) return luo_err_nomem(m->err);
    for (int32_t i = 0; i < m->n; i++)
        if (m->message[i].cells.nslices > rounds) rounds = m->message[i].cells.nslices;
    for (int32_t k = 0; k < rounds; k++) {
        if (k >= 2) LUO_TRY(await(m, m->done[k % 2]));
        LUO_TRY(round_of_slices(m, k, at));
        LUO_TRY(gpu_check(m->err, cudaEventRecord(m->done[k % 2], m->stream), "an event"));
    }
    return LUO_OK;
}

static luo_status submit(luo_rank *r, const luo_issue *issue, int64_t *ticket)
{
    gpu_mover *m = r->mover;
    *ticket = 0;
    switch ((luo_instr_kind)issue->instr->kind) {
    case LUO_INSTR_LOCAL:
        return carry(m, &m->local);
    case LUO_INSTR_P2P:
        return exchange(m);
    case LUO_INSTR_IO: /* read from a checkpoint: a switch reads none */
        break;
    case LUO_INSTR_COMPUTE:
    case LUO_INSTR_COLLECTIVE:
        return luo_err_set(m->err, LUO_EBUG, "instruction %d has no place in a switch; report it.",
                           (int)issue->instr->id);
    }
    return luo_err_set(m->err, LUO_ELOST,
                       "a switch wants state that no device has; go back to "
                       "a checkpoint.");
}

static luo_status wait(luo_rank *r, const int64_t *tickets, int32_t n)
{
    (void)r, (void)tickets, (void)n; /* one stream, waited for at the end */
    return LUO_OK;
}

static const luo_executor mover_executor = {.submit = submit, .wait = wait};

static luo_status carry_out(gpu_mover *m, const luo_program *p)
{
    luo_rank r = {.x = m->to->x, .job = m->to, .mover = m, .task = -1};
    m->under_way = true;
    LUO_TRY(carry(m, &m->kept));
    if (p) {
        const luo_status st = luo_interp_program(&mover_executor, &r, m->sw->set, p, false,
                                                 m->walk);
        if (st != LUO_OK) return m->err->st == st ? st : luo_err_nomem(m->err);
    }
    LUO_TRY(gpu_check(m->err, cudaEventRecord(m->done[0], m->stream), "an event"));
    LUO_TRY(await(m, m->done[0]));
    m->under_way = false;
    return gpu_round_state(m->to, m->err);
}

/* ---- the whole switch ---- */

/* All or none: a rank without memory for its messages would leave its peers waiting. */
static luo_status agree(luo_status mine, luo_err *err)
{
    int bad = mine != LUO_OK, any = 0;
    if (MPI_Allreduce(&bad, &any, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD) != MPI_SUCCESS)
        return luo_err_set(err, LUO_EBACKEND, "MPI failed when the ranks began a switch.");
    if (mine != LUO_OK || !any) return mine;
    return luo_err_set(err, LUO_ECANCELED, "another rank could not begin the switch.");
}

/* Memory of the device cannot be given back while a kernel waits for a peer that is gone. */
static void close_device(gpu_mover *m)
{
    gpu_packed_free(&m->kept);
    gpu_packed_free(&m->local);
    for (int32_t i = 0; i < m->n; i++) {
        gpu_packed_free(&m->message[i].cells);
        gpu_free(m->message[i].packed);
    }
    for (int k = 0; k < 2; k++)
        if (m->done[k]) (void)cudaEventDestroy(m->done[k]);
}

static void close_mover(gpu_mover *m)
{
    if (!m->under_way) close_device(m);
    if (m->arena) luo_arena_free(m->arena);
    if (m->scratch) luo_arena_free(m->scratch);
    if (m->walk) luo_arena_free(m->walk);
}

static luo_status open_mover(gpu_mover *m)
{
    m->arena = luo_arena_new(1 << 18);
    m->scratch = luo_arena_new(1 << 16);
    m->walk = luo_arena_new(1 << 16);
    return m->arena && m->scratch && m->walk ? LUO_OK : luo_err_nomem(m->err);
}

static luo_status run(gpu_mover *m)
{
    luo_exec *x = m->to->x;
    const luo_programs *set = m->sw->set;
    const luo_program *p = set ? luo_programs_find(set, x->device) : NULL;
    if (set) LUO_TRY(gpu_comms_bind(x->comms, set, m->err)); /* all ranks together: first */
    luo_status st = open_mover(m);
    if (st == LUO_OK) st = prepare(m, p);
    LUO_TRY(agree(st, m->err));
    return carry_out(m, p);
}

static bool given_up(const luo_exec *x)
{
    return x->config.abort && atomic_load_explicit(x->config.abort, memory_order_relaxed);
}

luo_status gpu_move(luo_job *from, luo_job *to, const luo_switching *what, const luo_recipe *recipe,
                    luo_step_report *out, luo_err *err)
{
    (void)recipe; /* `what` was made from it */
    luo_exec *x = to->x;
    luo_err verdict = {0};
    gpu_mover m = {
        .from = from, .to = to, .sw = what, .stream = x->stream[LUO_STREAM_MOVE], .err = err};
    const double began = luo_clock_s();
    if (from->broken)
        return luo_err_set(err, LUO_EBACKEND,
                           "a step of the plan to leave failed half-way; the processes have to "
                           "start again.");
    gpu_watcher_arm(x->watcher, x->stuck_s);
    const luo_status st = run(&m);
    const luo_status seen = gpu_watcher_disarm(x->watcher, &verdict);
    close_mover(&m);
    *out = (luo_step_report){.status = seen, .start_s = began, .end_s = luo_clock_s()};
    out->parts.move_s = out->end_s - began;
    to->broken = st != LUO_OK || seen != LUO_OK;
    if (seen != LUO_OK) {
        memcpy(out->text, verdict.text, sizeof out->text);
        return LUO_OK;
    }
    if (st != LUO_OK) return st;
    to->state.step = from->state.step;
    if (given_up(x)) out->status = LUO_ECANCELED;
    return LUO_OK;
}
