/* Who sent what to whom: pairs the messages of one step and draws the arrows. */
#include <stdlib.h>
#include <string.h>

#include "core/io/trace/trace_step.h"

static uint64_t message_key(const luo_instr *in, const luo_run_task *task, int32_t src, int32_t dst)
{
    const int32_t parts[] = {in->exchange, in->exchange < 0 ? in->op : -1, task->micro_batch, src,
                             dst};
    return luo_hash_bytes(LUO_HASH_EMPTY, parts, sizeof parts);
}

typedef bool (*message_fn)(luo_tstep *c, luo_map *sends, int64_t record, uint64_t key);

/* Calls fn for every message of every record, sends or receives, in record order. The k-th message
 * of a key on one side is the k-th on the other. */
static bool each_message(luo_tstep *step, bool send, message_fn fn, luo_map *sends)
{
    luo_map seen = {0};
    bool ok = true;
    for (int64_t k = 0; ok && k < step->result->nrecords; k++) {
        const luo_op_record *record = &step->result->records[k];
        const luo_program *program = luo_programs_find(step->set, record->device);
        const luo_instr *in = luo_tstep_instr(step, program, k);
        const luo_slot *slot = luo_tstep_slot(program, in);
        if (in->kind != LUO_INSTR_P2P || record->status != LUO_OK || !slot) continue;
        for (int32_t i = 0; ok && i < slot->nmessage; i++) {
            const luo_message *message = &slot->message[i];
            if (message->send != send) continue;
            const uint64_t key = message_key(in, &program->tasks[record->task],
                                             send ? record->device : message->peer,
                                             send ? message->peer : record->device);
            int64_t *turn = luo_map_at(&seen, key, 0);
            ok = turn && fn(step, sends, k, luo_hash_bytes(key, turn, sizeof *turn));
            if (turn) ++*turn;
        }
    }
    luo_map_free(&seen);
    return ok;
}

static bool count_send(luo_tstep *step, luo_map *sends, int64_t record, uint64_t key)
{
    step->nflow++;
    return luo_map_at(sends, key, record) != NULL;
}

static bool pair_receive(luo_tstep *step, luo_map *sends, int64_t record, uint64_t key)
{
    const int64_t send = luo_map_get(sends, key, -1);
    if (send < 0) return true;
    const luo_program *program = luo_programs_find(step->set, step->result->records[record].device);
    const bool of_switch = luo_tstep_instr(step, program, record)->phase == LUO_PHASE_SWITCH;
    step->flow[step->nflow++] = (luo_flow){send, record, of_switch};
    return true;
}

/* Does a P2P instruction only receive? */
static bool receives(const luo_tstep *step, int64_t k)
{
    const luo_program *program = luo_programs_find(step->set, step->result->records[k].device);
    const luo_slot *slot = luo_tstep_slot(program, luo_tstep_instr(step, program, k));
    for (int32_t i = 0; slot && i < slot->nmessage; i++)
        if (slot->message[i].send) return false;
    return true;
}

bool luo_trace_match(luo_tstep *step)
{
    luo_map sends = {0};
    bool ok = each_message(step, true, count_send, &sends);
    step->flow = LUO_NEW_N(step->t->scratch, luo_flow, step->nflow + 1);
    step->nflow = 0;
    ok = ok && step->flow && each_message(step, false, pair_receive, &sends);
    luo_map_free(&sends);
    /* Flows of one receive stand together: it begins with its earliest message. */
    for (int64_t i = 0, j; ok && i < step->nflow; i = j) {
        const int64_t k = step->flow[i].receive;
        int64_t first = step->at[step->flow[i].send].ts;
        for (j = i + 1; j < step->nflow && step->flow[j].receive == k; j++)
            if (step->at[step->flow[j].send].ts < first) first = step->at[step->flow[j].send].ts;
        if (first > step->at[k].end) first = step->at[k].end;
        if (first > step->at[k].ts && receives(step, k)) step->at[k].ts = first;
    }
    return ok;
}

static luo_titem end_of(const luo_tstep *step, int64_t record, int64_t ts)
{
    const luo_op_record *op_record = &step->result->records[record];
    return luo_trace_item(LUO_TITEM_FLOW_S, step->t->cluster->devices[op_record->device].node + 1,
                          8 * op_record->device + step->row[record] + 1, ts);
}

/* An arrow goes from the start of the send to the last moment of the receive. */
bool luo_trace_flows(luo_tstep *step)
{
    for (int64_t i = 0; i < step->nflow; i++) {
        const luo_flow *flow = &step->flow[i];
        if (flow->send >= step->ndrawn || flow->receive >= step->ndrawn) continue;
        const luo_when s = step->at[flow->send], r = step->at[flow->receive];
        if (s.end <= s.ts || r.end <= r.ts || r.end - 1 < s.ts) continue; /* no room for an arrow */
        luo_titem x = end_of(step, flow->send, s.ts);
        x.cat = flow->of_switch ? LUO_TRACE_CAT_SWITCH : LUO_TRACE_CAT_P2P;
        x.name = luo_trace_name(step->t, flow->of_switch ? "switch" : "p2p");
        x.extra = ++step->t->flow_id;
        luo_titem y = end_of(step, flow->receive, r.end - 1);
        y.kind = LUO_TITEM_FLOW_F;
        y.cat = x.cat;
        y.name = x.name;
        y.extra = x.extra;
        if (x.name < 0 || !luo_trace_add(step->t, x) || !luo_trace_add(step->t, y)) return false;
    }
    return true;
}
