/* move.c: a switch carried out: weights and both moments of every cell that its new owner
 * did not have. A message between two devices holds, move by move, the weight's cells, then those
 * of the moments. What a device keeps is copied to the new job's memory. */
#include <stdlib.h>
#include <string.h>

#include "core/plan/migrate.h"
#include "exec/host/job.h"

enum {
    KINDS = 3,           /* weight, first and second moment */
    PART_MOST = 1 << 30, /* bytes of one MPI message */
};

typedef struct host_mover {
    luo_job *from, *to;
    const luo_switching *sw;
    luo_arena *arena, *walk; /* messages; the interpreter */
    bool posted;             /* messages are under way, from and to the arena */
} host_mover;

/* ---- cells of a piece ---- */

static void *array_of(const luo_piece *piece, int kind)
{
    return kind == 0 ? piece->weight : kind == 1 ? piece->m : piece->v;
}

/* Arrays that a parameter has. */
static int kinds_of(const luo_param *param)
{
    return param->counted ? 1 : KINDS;
}

/* Between a piece and a packed run of cells, which *at passes. */
static luo_status transfer(luo_rank *rank, const luo_piece *piece, const luo_region *cells,
                           bool packs, char **at)
{
    const size_t elem = rank->x->k->elem, mark = luo_arena_mark(rank->mover->arena);
    for (int kind = 0; kind < kinds_of(piece->param); kind++) {
        luo_copy_segments segments;
        char *array = array_of(piece, kind);
        const luo_frame *frame = kind == 0 ? &piece->weight_frame : &piece->state_frame;
        LUO_TRY(luo_frame_segments(rank->mover->arena, frame, cells, &segments, &rank->err));
        for (int32_t i = 0; i < segments.n; i++) {
            const size_t n = (size_t)segments.at[i].n * elem;
            char *here = array + (size_t)segments.at[i].at * elem;
            memcpy(packs ? *at : here, packs ? here : *at, n);
            *at += n;
        }
    }
    luo_arena_reset(rank->mover->arena, mark);
    return LUO_OK;
}

static luo_status carry(luo_rank *rank, const luo_piece *from, const luo_piece *to,
                        const luo_region *cells)
{
    const size_t mark = luo_arena_mark(rank->mover->arena);
    const size_t bytes =
        (size_t)(luo_region_volume(cells) * kinds_of(from->param)) * rank->x->k->elem;
    char *packed = luo_arena_alloc(rank->mover->arena, bytes), *at = packed;
    if (!packed) return luo_err_nomem(&rank->err);
    LUO_TRY(transfer(rank, from, cells, true, &at));
    at = packed;
    LUO_TRY(transfer(rank, to, cells, false, &at));
    luo_arena_reset(rank->mover->arena, mark);
    return LUO_OK;
}

/* ---- the instructions ---- */

static luo_status move_here(luo_rank *rank)
{
    const luo_switching *switching = rank->mover->sw;
    for (int64_t i = 0; i < switching->sw.nmove; i++) {
        const luo_switch_move *move = &switching->sw.move[i];
        if (move->kind == LUO_MOVE_COPY && move->dst == rank->x->device)
            LUO_TRY(carry(rank, &rank->mover->from->state.at[move->tensor],
                          &rank->mover->to->state.at[move->tensor], &move->region));
    }
    return LUO_OK;
}

typedef struct packed { /* one message */
    char *cells;
    int64_t bytes;
    MPI_Request *part; /* it may be longer than MPI counts */
    int32_t nparts;
} packed;

/* All cells of one message, in the order of the moves on both sides. */
static luo_status wrap(luo_rank *rank, const luo_message *message, bool packs, const packed *p)
{
    const luo_switching *switching = rank->mover->sw;
    const int32_t src = message->send ? rank->x->device : message->peer,
                  dst = message->send ? message->peer : rank->x->device;
    const luo_state *state = message->send ? &rank->mover->from->state : &rank->mover->to->state;
    char *at = p->cells;
    for (int64_t i = 0; i < switching->sw.nmove; i++) {
        const luo_switch_move *move = &switching->sw.move[i];
        if (move->kind == LUO_MOVE_SEND && move->src == src && move->dst == dst)
            LUO_TRY(transfer(rank, &state->at[move->tensor], &move->region, packs, &at));
    }
    return LUO_OK;
}

/* Bytes of a message by its moves: what the program says, or it was made for another precision. */
static luo_status measure(luo_rank *rank, const luo_message *message, packed *p)
{
    const luo_switching *switching = rank->mover->sw;
    const int32_t src = message->send ? rank->x->device : message->peer,
                  dst = message->send ? message->peer : rank->x->device;
    const int64_t elem = (int64_t)rank->x->k->elem;
    int64_t bytes = 0;
    for (int64_t i = 0; i < switching->sw.nmove; i++) {
        const luo_switch_move *move = &switching->sw.move[i];
        if (move->kind == LUO_MOVE_SEND && move->src == src && move->dst == dst)
            bytes += luo_region_volume(&move->region) *
                     kinds_of(rank->mover->from->state.at[move->tensor].param) * elem;
    }
    if (bytes != message->bytes)
        return luo_err_set(&rank->err, LUO_EBUG,
                           "a switch says that device %d sends %lld bytes to device %d where "
                           "state of %lld bytes is to go.",
                           (int)src, (long long)message->bytes, (int)dst, (long long)bytes);
    p->bytes = bytes;
    p->nparts = (int32_t)((bytes + PART_MOST - 1) / PART_MOST);
    p->cells = luo_arena_alloc(rank->mover->arena, (size_t)bytes);
    p->part = LUO_NEW_N(rank->mover->arena, MPI_Request, p->nparts);
    return p->cells && p->part ? LUO_OK : luo_err_nomem(&rank->err);
}

static luo_status post(luo_rank *rank, const luo_message *message, const packed *p)
{
    const int peer = (int)luo_bound_rank_of(&rank->x->config, message->peer);
    for (int32_t k = 0; k < p->nparts; k++) {
        char *at = p->cells + (int64_t)k * PART_MOST;
        const int64_t left = p->bytes - (int64_t)k * PART_MOST;
        const int n = (int)(left < PART_MOST ? left : PART_MOST);
        const int code = message->send
                             ? MPI_Isend(at, n, MPI_BYTE, peer, 0, rank->x->p2p, &p->part[k])
                             : MPI_Irecv(at, n, MPI_BYTE, peer, 0, rank->x->p2p, &p->part[k]);
        LUO_TRY(host_mpi(&rank->err, code, message->send ? "a send" : "a receive"));
    }
    return LUO_OK;
}

/* What can fail on this rank alone comes before the first message. */
static luo_status exchange(luo_rank *rank, const luo_slot *slot)
{
    packed *p = LUO_NEW_N(rank->mover->arena, packed, slot->nmessage);
    if (!p) return luo_err_nomem(&rank->err);
    for (int32_t i = 0; i < slot->nmessage; i++) {
        if (luo_bound_rank_of(&rank->x->config, slot->message[i].peer) < 0)
            return luo_err_set(&rank->err, LUO_EBACKEND,
                               "the switch needs device %d, for which no rank "
                               "runs.",
                               (int)slot->message[i].peer);
        LUO_TRY(measure(rank, &slot->message[i], &p[i]));
        if (slot->message[i].send) LUO_TRY(wrap(rank, &slot->message[i], true, &p[i]));
    }
    rank->mover->posted = true;
    for (int32_t i = 0; i < slot->nmessage; i++) LUO_TRY(post(rank, &slot->message[i], &p[i]));
    for (int32_t i = 0; i < slot->nmessage; i++)
        LUO_TRY(host_wait(rank->x, rank, (int)p[i].nparts, p[i].part, &rank->err));
    rank->mover->posted = false;
    for (int32_t i = 0; i < slot->nmessage; i++)
        if (!slot->message[i].send) LUO_TRY(wrap(rank, &slot->message[i], false, &p[i]));
    return LUO_OK;
}

static luo_status submit(luo_rank *rank, const luo_issue *issue, int64_t *ticket)
{
    *ticket = 0;
    switch ((luo_instr_kind)issue->instr->kind) {
    case LUO_INSTR_LOCAL:
        return move_here(rank);
    case LUO_INSTR_P2P:
        return exchange(rank, issue->slot);
    case LUO_INSTR_IO: /* read from a checkpoint: a switch reads none */
        break;
    case LUO_INSTR_COMPUTE:
    case LUO_INSTR_COLLECTIVE:
        return luo_err_set(&rank->err, LUO_EBUG,
                           "instruction %d has no place in a switch; report it.",
                           (int)issue->instr->id);
    }
    return luo_err_set(&rank->err, LUO_ELOST,
                       "a switch wants state that no device has; go back to "
                       "a checkpoint.");
}

static luo_status wait(luo_rank *rank, const int64_t *tickets, int32_t n)
{
    (void)rank, (void)tickets, (void)n; /* every instruction has ended when submit returns */
    return LUO_OK;
}

static const luo_executor mover_executor = {.submit = submit, .wait = wait};

/* ---- the whole switch ---- */

/* State whose region does not change stays on its device without an instruction. */
static luo_status keep(luo_rank *rank)
{
    const luo_state *state = &rank->mover->from->state, *b = &rank->mover->to->state;
    for (int32_t i = 0; i < state->n; i++)
        if (!state->at[i].piece.empty && !b->at[i].piece.empty &&
            luo_region_equal(&state->at[i].piece, &b->at[i].piece))
            LUO_TRY(carry(rank, &state->at[i], &b->at[i], &state->at[i].piece));
    return LUO_OK;
}

static luo_status carry_out(luo_rank *rank)
{
    host_mover *mover = rank->mover;
    LUO_TRY(keep(rank));
    const luo_program *program =
        mover->sw->set ? luo_programs_find(mover->sw->set, rank->x->device) : NULL;
    if (!program) return LUO_OK;
    const luo_status st =
        luo_interp_program(&mover_executor, rank, mover->sw->set, program, false, mover->walk);
    return st == LUO_OK || rank->err.st != LUO_OK ? st : luo_err_nomem(&rank->err);
}

luo_status host_move(luo_job *from, luo_job *to, const luo_switching *what,
                     const luo_recipe *recipe, luo_step_report *out, luo_err *err)
{
    (void)recipe; /* `what` was made from it */
    if (from->broken)
        return luo_err_set(err, LUO_EBACKEND,
                           "a step of the plan to leave failed half-way; the processes have to "
                           "start again.");
    host_mover mover = {.from = from,
                        .to = to,
                        .sw = what,
                        .arena = luo_arena_new(1 << 18),
                        .walk = luo_arena_new(1 << 16)};
    luo_rank rank = {.x = from->x, .job = to, .mover = &mover, .task = -1};
    const double began = host_now();
    const luo_status st = mover.arena && mover.walk ? carry_out(&rank) : luo_err_nomem(&rank.err);
    if (!mover.posted) luo_arena_free(mover.arena); /* else MPI may still write there */
    luo_arena_free(mover.walk);
    if (st != LUO_OK) return luo_err_set(err, st, "%s", rank.err.text);
    host_look(&rank);
    to->state.step = from->state.step;
    *out = (luo_step_report){
        .status = rank.drain ? LUO_ECANCELED : LUO_OK, .start_s = began, .end_s = host_now()};
    out->parts.move_s = out->end_s - began;
    return LUO_OK;
}
