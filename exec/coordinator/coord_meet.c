/* coord_meet.c: when communications really began and ended, from what all their sides
 * recorded.
 *
 * A rank knows when it asked for a communication and when it saw the end of it; in between it may
 * have waited for others to come. As in the simulator, a collective begins when its last rank has
 * asked, a message when both sides have, and a sender's record ends when the message is there.
 * Clocks of one host are one clock; between hosts they agree as well as the start of the step was
 * told. */
#include <math.h>
#include <stdlib.h>

#include "exec/coordinator/coord.h"

typedef struct side { /* one record of a communication */
    int32_t exchange, micro_batch, phase, group, device, instr;
    int32_t turn; /* among the same of its device */
    int32_t record;
} side;

static int by_rendezvous(const side *a, const side *b)
{
    if (a->exchange != b->exchange) return a->exchange < b->exchange ? -1 : 1;
    if (a->micro_batch != b->micro_batch) return a->micro_batch < b->micro_batch ? -1 : 1;
    if (a->phase != b->phase) return a->phase < b->phase ? -1 : 1;
    return (a->group > b->group) - (a->group < b->group);
}

static int by_device(const void *x, const void *y)
{
    const side *a = x, *b = y;
    const int m = by_rendezvous(a, b);
    if (m) return m;
    if (a->device != b->device) return a->device < b->device ? -1 : 1;
    return (a->instr > b->instr) - (a->instr < b->instr);
}

static int by_turn(const void *x, const void *y)
{
    const side *a = x, *b = y;
    const int m = by_rendezvous(a, b);
    if (m) return m;
    if (a->turn != b->turn) return a->turn < b->turn ? -1 : 1;
    return (a->device > b->device) - (a->device < b->device);
}

static int32_t list_sides(const luo_programs *set, const luo_op_record *records, int32_t n,
                          side *out)
{
    int32_t sides = 0;
    for (int32_t i = 0; i < n; i++) {
        const luo_program *program = luo_programs_find(set, records[i].device);
        const luo_instr *in = &set->roles[program->role].instr[records[i].instr];
        const bool p2p = in->kind == LUO_INSTR_P2P;
        if (!p2p && in->kind != LUO_INSTR_COLLECTIVE) continue;
        out[sides++] = (side){.exchange = in->exchange,
                              .micro_batch = program->tasks[records[i].task].micro_batch,
                              .phase = in->phase,
                              .group = p2p ? -1 : program->slots[in->slot].group,
                              .device = records[i].device,
                              .instr = in->id,
                              .record = i};
    }
    qsort(out, (size_t)sides, sizeof *out, by_device);
    for (int32_t i = 1; i < sides; i++)
        if (by_rendezvous(&out[i - 1], &out[i]) == 0 && out[i - 1].device == out[i].device)
            out[i].turn = out[i - 1].turn + 1;
    qsort(out, (size_t)sides, sizeof *out, by_turn);
    return sides;
}

static int32_t end_of_rendezvous(const side *at, int32_t i, int32_t n)
{
    int32_t k = i + 1;
    while (k < n && by_rendezvous(&at[i], &at[k]) == 0 && at[i].turn == at[k].turn) k++;
    return k;
}

static void meet(const side *at, int32_t n, const double *asked_s, luo_op_record *records)
{
    double last = 0;
    for (int32_t i = 0; i < n; i++) last = fmax(last, asked_s[at[i].record]);
    for (int32_t i = 0; i < n; i++) {
        luo_op_record *record = &records[at[i].record];
        record->start_s = fmin(fmax(record->start_s, last), record->end_s);
    }
}

static const side *find(const side *at, int32_t n, int32_t device)
{
    for (int32_t i = 0; i < n; i++)
        if (at[i].device == device) return &at[i];
    return NULL;
}

static bool receives(const luo_slot *slot)
{
    return slot->nmessage > 0 && !slot->message[slot->nmessage - 1].send; /* sends come first */
}

/* Batches of messages: what a device gets decides when its batch begins; what it sends, when the
 * batch of one that only sends ends. */
static void match(const luo_programs *set, const side *at, int32_t n, const double *asked_s,
                  const double *seen_s, luo_op_record *records)
{
    for (int32_t i = 0; i < n; i++) {
        luo_op_record *record = &records[at[i].record];
        const luo_program *program = luo_programs_find(set, at[i].device);
        const luo_slot *slot = &program->slots[set->roles[program->role].instr[at[i].instr].slot];
        const bool gets = receives(slot);
        double begin = record->start_s, end = gets ? record->end_s : 0;
        for (int32_t m = 0; m < slot->nmessage; m++) {
            const side *peer = find(at, n, slot->message[m].peer);
            if (!peer || (gets && slot->message[m].send)) continue;
            begin = fmax(begin, asked_s[peer->record]);
            if (!gets) end = fmax(end, seen_s[peer->record]);
        }
        if (end > 0) record->end_s = fmax(end, record->start_s);
        record->start_s = fmin(begin, record->end_s);
    }
}

luo_status luo_coord_meet(luo_arena *scratch, const luo_programs *set, luo_op_record *records,
                          int32_t n, luo_err *err)
{
    side *at = LUO_NEW_N(scratch, side, n);
    double *asked_s = LUO_NEW_N(scratch, double, n), *seen_s = LUO_NEW_N(scratch, double, n);
    if (!at || !asked_s || !seen_s) return luo_err_nomem(err);
    for (int32_t i = 0; i < n; i++) {
        asked_s[i] = records[i].start_s;
        seen_s[i] = records[i].end_s;
    }
    const int32_t sides = list_sides(set, records, n, at);
    for (int32_t i = 0, k; i < sides; i = k) {
        k = end_of_rendezvous(at, i, sides);
        if (at[i].group >= 0)
            meet(at + i, k - i, asked_s, records);
        else
            match(set, at + i, k - i, asked_s, seen_s, records);
    }
    return LUO_OK;
}
