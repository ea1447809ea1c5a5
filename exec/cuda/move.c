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

static gpu_list empty(const gpu_mover *mover)
{
    return (gpu_list){.arena = mover->arena, .scratch = mover->scratch, .err = mover->err};
}

/* State whose region does not change stays on its device without an instruction. */
static luo_status list_kept(gpu_mover *mover)
{
    const luo_bound *a = &mover->from->bound, *b = &mover->to->bound;
    gpu_list list = empty(mover);
    for (int32_t i = 0; i < a->npieces; i++)
        if (!a->piece[i].piece.empty && !b->piece[i].piece.empty &&
            luo_region_equal(&a->piece[i].piece, &b->piece[i].piece))
            LUO_TRY(gpu_list_carry(&list, mover->from, mover->to, i, &a->piece[i].piece));
    return gpu_packed_make(&list, GPU_PACKED_CARRY, CARRY, &mover->kept);
}

static luo_status list_local(gpu_mover *mover)
{
    const luo_switch *sw = &mover->sw->sw;
    gpu_list list = empty(mover);
    for (int64_t i = 0; i < sw->nmove; i++)
        if (sw->move[i].kind == LUO_MOVE_COPY && sw->move[i].dst == mover->to->x->device)
            LUO_TRY(gpu_list_carry(&list, mover->from, mover->to, sw->move[i].tensor,
                                   &sw->move[i].region));
    return gpu_packed_make(&list, GPU_PACKED_CARRY, CARRY, &mover->local);
}

/* All cells of one message, in the order of the moves on both sides. The program says how many
 * bytes they are, or it was made for another precision. */
static luo_status list_message(gpu_mover *mover, message *x)
{
    const luo_switch *sw = &mover->sw->sw;
    const int32_t mine = mover->to->x->device;
    const int32_t src = x->m->send ? mine : x->m->peer, dst = x->m->send ? x->m->peer : mine;
    gpu_list list = empty(mover);
    if (luo_bound_rank_of(&mover->to->x->config, x->m->peer) < 0)
        return luo_err_set(mover->err, LUO_EBACKEND,
                           "the switch needs device %d, for which no rank runs.", (int)x->m->peer);
    for (int64_t i = 0; i < sw->nmove; i++) {
        const luo_switch_move *move = &sw->move[i];
        if (move->kind == LUO_MOVE_SEND && move->src == src && move->dst == dst)
            LUO_TRY(gpu_list_pack(&list, x->m->send ? mover->from : mover->to, move->tensor,
                                  &move->region));
    }
    if (list.elements * (int64_t)sizeof(float) != x->m->bytes)
        return luo_err_set(mover->err, LUO_EBUG,
                           "a switch says that device %d sends %lld bytes to device %d where "
                           "state of %lld bytes is to go.",
                           (int)src, (long long)x->m->bytes, (int)dst,
                           (long long)(list.elements * (int64_t)sizeof(float)));
    return gpu_packed_make(&list, x->m->send ? GPU_PACKED_PACK : GPU_PACKED_UNPACK,
                           mover->to->x->window, &x->cells);
}

static luo_status list_messages(gpu_mover *mover, const luo_program *program,
                                const luo_instr *instr)
{
    const luo_slot *slot = &program->slots[instr->slot];
    if (mover->message)
        return luo_err_set(mover->err, LUO_EBUG, "a switch has several batches of messages.");
    mover->comm = gpu_comms_find(mover->to->x->comms, mover->sw->set, program, instr);
    mover->message = LUO_NEW_N(mover->arena, message, slot->nmessage);
    if (!mover->message) return luo_err_nomem(mover->err);
    mover->n = slot->nmessage;
    for (int32_t i = 0; i < mover->n; i++) {
        message *x = &mover->message[i];
        void *packed;
        x->m = &slot->message[i];
        LUO_TRY(list_message(mover, x));
        const int64_t window = mover->to->x->window;
        const int64_t most = x->cells.elements < window ? x->cells.elements : window;
        LUO_TRY(
            gpu_alloc(most * (int64_t)sizeof(float), "a message of a switch", &packed, mover->err));
        x->packed = packed;
    }
    return LUO_OK;
}

/* All that can fail on this rank alone. */
static luo_status prepare(gpu_mover *mover, const luo_program *program)
{
    for (int k = 0; k < 2; k++)
        LUO_TRY(gpu_check(mover->err,
                          cudaEventCreateWithFlags(&mover->done[k], cudaEventDisableTiming),
                          "making events"));
    LUO_TRY(list_kept(mover));
    if (!program) return LUO_OK;
    const luo_role *role = &mover->sw->set->roles[program->role];
    for (int32_t i = 0; i < role->ninstr; i++) {
        if (role->instr[i].kind == LUO_INSTR_LOCAL) LUO_TRY(list_local(mover));
        if (role->instr[i].kind == LUO_INSTR_P2P)
            LUO_TRY(list_messages(mover, program, &role->instr[i]));
    }
    return LUO_OK;
}

/* ---- doing it ---- */

static luo_status carry(gpu_mover *mover, const gpu_packed *packed)
{
    for (int32_t k = 0; k < packed->nslices; k++)
        LUO_TRY(gpu_packed_copy(packed, k, mover->stream, mover->from->slab, mover->to->slab,
                                mover->err));
    return LUO_OK;
}

/* Until the stream has passed an event; the watcher's thread ends it where a peer is gone. */
static luo_status await(gpu_mover *mover, cudaEvent_t event)
{
    for (int tries = 0;; tries++) {
        const cudaError_t code = cudaEventQuery(event);
        if (code != cudaErrorNotReady) {
            gpu_watch_goes_on(mover->to->x);
            return gpu_check(mover->err, code, "a switch");
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
static luo_status round_of_slices(gpu_mover *mover, int32_t k, gpu_message *at)
{
    int32_t n = 0;
    for (int32_t i = 0; i < mover->n; i++) {
        const message *x = &mover->message[i];
        if (k >= x->cells.nslices) continue;
        at[n++] = (gpu_message){x->m->peer, x->m->send, x->packed, x->cells.slice[k].elements};
        if (x->m->send)
            LUO_TRY(gpu_packed_copy(&x->cells, k, mover->stream, mover->from->slab, x->packed,
                                    mover->err));
    }
    LUO_TRY(gpu_exchange(mover->comm, n, at, (int64_t)sizeof(float), mover->stream, mover->err));
    for (int32_t i = 0; i < mover->n; i++) {
        const message *x = &mover->message[i];
        if (k < x->cells.nslices && !x->m->send)
            LUO_TRY(gpu_packed_copy(&x->cells, k, mover->stream, x->packed, mover->to->slab,
                                    mover->err));
    }
    return LUO_OK;
}

/* The host is one round ahead of the device. */
static luo_status exchange(gpu_mover *mover)
{
    int32_t rounds = 0;
    gpu_message *at = LUO_NEW_N(mover->arena, gpu_message, mover->n);
    if (!at) return luo_err_nomem(mover->err);
    for (int32_t i = 0; i < mover->n; i++)
        if (mover->message[i].cells.nslices > rounds) rounds = mover->message[i].cells.nslices;
    for (int32_t k = 0; k < rounds; k++) {
        if (k >= 2) LUO_TRY(await(mover, mover->done[k % 2]));
        LUO_TRY(round_of_slices(mover, k, at));
        LUO_TRY(
            gpu_check(mover->err, cudaEventRecord(mover->done[k % 2], mover->stream), "an event"));
    }
    return LUO_OK;
}

static luo_status submit(luo_rank *rank, const luo_issue *issue, int64_t *ticket)
{
    gpu_mover *mover = rank->mover;
    *ticket = 0;
    switch ((luo_instr_kind)issue->instr->kind) {
    case LUO_INSTR_LOCAL:
        return carry(mover, &mover->local);
    case LUO_INSTR_P2P:
        return exchange(mover);
    case LUO_INSTR_IO: /* read from a checkpoint: a switch reads none */
        break;
    case LUO_INSTR_COMPUTE:
    case LUO_INSTR_COLLECTIVE:
        return luo_err_set(mover->err, LUO_EBUG,
                           "instruction %d has no place in a switch; report it.",
                           (int)issue->instr->id);
    }
    return luo_err_set(mover->err, LUO_ELOST,
                       "a switch wants state that no device has; go back to "
                       "a checkpoint.");
}

static luo_status wait(luo_rank *rank, const int64_t *tickets, int32_t n)
{
    (void)rank, (void)tickets, (void)n; /* one stream, waited for at the end */
    return LUO_OK;
}

static const luo_executor mover_executor = {.submit = submit, .wait = wait};

static luo_status carry_out(gpu_mover *mover, const luo_program *program)
{
    luo_rank rank = {.x = mover->to->x, .job = mover->to, .mover = mover, .task = -1};
    mover->under_way = true;
    LUO_TRY(carry(mover, &mover->kept));
    if (program) {
        const luo_status st =
            luo_interp_program(&mover_executor, &rank, mover->sw->set, program, false, mover->walk);
        if (st != LUO_OK) return mover->err->st == st ? st : luo_err_nomem(mover->err);
    }
    LUO_TRY(gpu_check(mover->err, cudaEventRecord(mover->done[0], mover->stream), "an event"));
    LUO_TRY(await(mover, mover->done[0]));
    mover->under_way = false;
    return gpu_round_state(mover->to, mover->err);
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
static void close_device(gpu_mover *mover)
{
    gpu_packed_free(&mover->kept);
    gpu_packed_free(&mover->local);
    for (int32_t i = 0; i < mover->n; i++) {
        gpu_packed_free(&mover->message[i].cells);
        gpu_free(mover->message[i].packed);
    }
    for (int k = 0; k < 2; k++)
        if (mover->done[k]) (void)cudaEventDestroy(mover->done[k]);
}

static void close_mover(gpu_mover *mover)
{
    if (!mover->under_way) close_device(mover);
    if (mover->arena) luo_arena_free(mover->arena);
    if (mover->scratch) luo_arena_free(mover->scratch);
    if (mover->walk) luo_arena_free(mover->walk);
}

static luo_status open_mover(gpu_mover *mover)
{
    mover->arena = luo_arena_new(1 << 18);
    mover->scratch = luo_arena_new(1 << 16);
    mover->walk = luo_arena_new(1 << 16);
    return mover->arena && mover->scratch && mover->walk ? LUO_OK : luo_err_nomem(mover->err);
}

static luo_status run(gpu_mover *mover)
{
    luo_exec *exec = mover->to->x;
    const luo_programs *set = mover->sw->set;
    const luo_program *program = set ? luo_programs_find(set, exec->device) : NULL;
    if (set) LUO_TRY(gpu_comms_bind(exec->comms, set, mover->err)); /* all ranks together: first */
    luo_status st = open_mover(mover);
    if (st == LUO_OK) st = prepare(mover, program);
    LUO_TRY(agree(st, mover->err));
    return carry_out(mover, program);
}

static bool given_up(const luo_exec *exec)
{
    return exec->config.abort && atomic_load_explicit(exec->config.abort, memory_order_relaxed);
}

luo_status gpu_move(luo_job *from, luo_job *to, const luo_switching *what, const luo_recipe *recipe,
                    luo_step_report *out, luo_err *err)
{
    (void)recipe; /* `what` was made from it */
    luo_exec *exec = to->x;
    luo_err verdict = {0};
    gpu_mover mover = {
        .from = from, .to = to, .sw = what, .stream = exec->stream[LUO_STREAM_MOVE], .err = err};
    const double began = luo_clock_s();
    if (from->broken)
        return luo_err_set(err, LUO_EBACKEND,
                           "a step of the plan to leave failed half-way; the processes have to "
                           "start again.");
    gpu_watcher_arm(exec->watcher, exec->stuck_s);
    const luo_status st = run(&mover);
    const luo_status seen = gpu_watcher_disarm(exec->watcher, &verdict);
    close_mover(&mover);
    *out = (luo_step_report){.status = seen, .start_s = began, .end_s = luo_clock_s()};
    out->parts.move_s = out->end_s - began;
    to->broken = st != LUO_OK || seen != LUO_OK;
    if (seen != LUO_OK) {
        memcpy(out->text, verdict.text, sizeof out->text);
        return LUO_OK;
    }
    if (st != LUO_OK) return st;
    to->state.step = from->state.step;
    if (given_up(exec)) out->status = LUO_ECANCELED;
    return LUO_OK;
}
