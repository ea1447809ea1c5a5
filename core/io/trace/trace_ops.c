/* Slices and waits of one traced step. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "core/io/trace/trace_spill.h"
#include "core/io/trace/trace_step.h"

static const char *kind_name(const luo_instr *in, const luo_slot *slot)
{
    bool send = false, receive = false;
    switch ((luo_instr_kind)in->kind) {
    case LUO_INSTR_COMPUTE:
        return in->recompute ? "recompute" : luo_phase_name(in->phase);
    case LUO_INSTR_COLLECTIVE:
        return luo_coll_name(in->coll) ? luo_coll_name(in->coll) : "collective";
    case LUO_INSTR_LOCAL:
        return "local";
    case LUO_INSTR_IO:
        return "io";
    case LUO_INSTR_P2P:
        break;
    }
    for (int32_t i = 0; slot && i < slot->nmessage; i++) {
        send |= slot->message[i].send;
        receive |= !slot->message[i].send;
    }
    return send && receive ? "send_recv" : receive ? "recv" : "send";
}

/* "d.layers.9.mlp.down" -> "d.layers.mlp.down": ops of all layers have one name, so one colour. */
static int32_t slice_name(luo_trace *trace, const char *op, bool recompute)
{
    luo_str text = {0};
    for (const char *at = op; *at;) {
        const size_t digits = strspn(at + 1, "0123456789");
        const bool number = *at == '.' && digits > 0 && !isalnum((unsigned char)at[1 + digits]);
        if (number)
            at += 1 + digits;
        else
            luo_str_addc(&text, *at++);
    }
    if (recompute) luo_str_add(&text, " recompute");
    const int32_t name = text.failed ? -1 : luo_trace_name(trace, luo_str_get(&text));
    luo_str_free(&text);
    return name;
}

/* Instructions of a role are called alike on all devices: a message that one sends, all send. */
static const struct luo_tname *names_of(luo_tstep *step, const luo_program *program,
                                        const luo_instr *in)
{
    struct luo_tname *tname = &step->name[step->first_name[program->role] + in->id];
    if (tname->slice) return tname;
    const char *op = in->op >= 0 ? step->set->ops[in->op].name : "";
    const char *kind = kind_name(in, luo_tstep_slot(program, in));
    tname->slice =
        1 + (*op ? slice_name(step->t, op, in->recompute) : luo_trace_name(step->t, kind));
    tname->op = 1 + luo_trace_name(step->t, op);
    tname->kind = 1 + luo_trace_name(step->t, kind);
    return tname;
}

static bool room_for_names(luo_tstep *step)
{
    int32_t n = 0;
    step->first_name = LUO_NEW_N(step->t->scratch, int32_t, step->set->nroles);
    for (int32_t i = 0; step->first_name && i < step->set->nroles; i++) {
        step->first_name[i] = n;
        n += step->set->roles[i].ninstr;
    }
    step->name = LUO_NEW_N(step->t->scratch, struct luo_tname, n);
    return step->first_name && step->name;
}

static bool add_slice(luo_tstep *step, const luo_program *program, int64_t k)
{
    const luo_op_record *record = &step->result->records[k];
    const luo_instr *in = luo_tstep_instr(step, program, k);
    luo_titem titem =
        luo_trace_item(LUO_TITEM_OP, step->t->cluster->devices[record->device].node + 1,
                       8 * record->device + step->row[k] + 1, step->at[k].ts);
    titem.dur = step->at[k].end - step->at[k].ts;
    titem.cat = (uint8_t)(LUO_TRACE_CAT_STREAM + in->stream);
    const struct luo_tname *name = names_of(step, program, in);
    titem.name = name->slice - 1;
    titem.text = name->op - 1;
    titem.extra = name->kind - 1;
    titem.step = step->step;
    titem.attempt = step->attempt;
    titem.pipeline = program->pipeline;
    titem.stage = program->stage;
    titem.micro_batch = program->tasks[record->task].micro_batch;
    titem.layer = in->layer;
    titem.bytes = in->bytes;
    titem.instruction = in->id;
    return titem.name >= 0 && titem.text >= 0 && titem.extra >= 0 && luo_trace_add(step->t, titem);
}

static int by_start(const void *a, const void *b)
{
    const luo_when *x = a, *y = b;
    if (x->ts != y->ts) return x->ts < y->ts ? -1 : 1;
    return (x->end > y->end) - (x->end < y->end);
}

/* The time in which no stream of the device is busy, as `wait` slices on its compute track. Gaps
 * below a microsecond are launch and rounding, not waiting. before: where that track ended when
 * the step began; steps are rounded one by one, so that may be later than the step's start. */
static bool add_waits(luo_tstep *step, int32_t device, int64_t before, const luo_when *busy,
                      int64_t n)
{
    enum { LEAST_NS = 1000 };
    luo_titem titem = luo_trace_item(LUO_TITEM_WAIT, step->t->cluster->devices[device].node + 1,
                                     8 * device + LUO_STREAM_COMPUTE + 1, 0);
    titem.cat = LUO_TRACE_CAT_BUBBLE;
    titem.name = luo_trace_name(step->t, "wait");
    titem.step = step->step;
    titem.attempt = step->attempt;
    const size_t mark = luo_arena_mark(step->t->scratch);
    luo_when *when = LUO_NEW_N(step->t->scratch, luo_when, n + 1);
    bool ok = when && titem.name >= 0;
    if (ok) {
        memcpy(when, busy, (size_t)n * sizeof *when);
        qsort(when, (size_t)n, sizeof *when, by_start);
        when[n] = (luo_when){step->end, step->end};
    }
    int64_t until = step->start > before ? step->start : before;
    int64_t *last = step->t->track_end + 8 * device + LUO_STREAM_COMPUTE;
    for (int64_t i = 0; ok && i <= n; i++) {
        if (when[i].ts - until >= LEAST_NS) {
            titem.ts = until;
            titem.dur = when[i].ts - until;
            ok = luo_trace_add(step->t, titem);
            if (when[i].ts > *last) *last = when[i].ts;
        }
        if (when[i].end > until) until = when[i].end;
    }
    luo_arena_reset(step->t->scratch, mark);
    return ok;
}

/* Slices of one track may not overlap. Every stream has its track; pp, whose four lanes run side
 * by side, has the two spare ones as well and takes the first that is free. What still overlaps
 * (a clock that is off by a hair) begins where the one before it ends. */
static void choose_row(luo_tstep *step, const luo_program *program, int64_t k)
{
    const luo_instr *in = luo_tstep_instr(step, program, k);
    const int pp[] = {LUO_STREAM_PP, LUO_TRACE_PP_2, LUO_TRACE_PP_3};
    const int n = in->stream == LUO_STREAM_PP ? 3 : 1;
    int64_t *last = step->t->track_end + 8 * step->result->records[k].device;
    luo_when *when = &step->at[k];
    int best = in->stream;
    for (int i = 0; i < n; i++) {
        if (last[pp[i]] > when->ts && i + 1 < n) continue;
        if (n > 1) best = pp[i];
        break;
    }
    if (when->ts < last[best]) when->ts = last[best];
    if (when->end < when->ts) when->end = when->ts;
    last[best] = when->end;
    step->row[k] = (uint8_t)best;
}

typedef struct turn {
    int64_t ts, record;
} turn;

static int by_turn(const void *a, const void *b)
{
    const turn *x = a, *y = b;
    if (x->ts != y->ts) return x->ts < y->ts ? -1 : 1;
    return (x->record > y->record) - (x->record < y->record);
}

/* Records first..first+n-1 are one device's. */
static bool add_device(luo_tstep *step, const luo_program *program, int64_t first, int64_t n)
{
    const size_t mark = luo_arena_mark(step->t->scratch);
    const int64_t before = step->t->track_end[8 * program->device + LUO_STREAM_COMPUTE];
    turn *order = LUO_NEW_N(step->t->scratch, turn, n);
    bool ok = order != NULL;
    for (int64_t i = 0; ok && i < n; i++) order[i] = (turn){step->at[first + i].ts, first + i};
    if (ok) qsort(order, (size_t)n, sizeof *order, by_turn);
    for (int64_t i = 0; ok && i < n; i++) choose_row(step, program, order[i].record);
    luo_arena_reset(step->t->scratch, mark);
    for (int64_t k = first; ok && k < first + n; k++) ok = add_slice(step, program, k);
    return ok && add_waits(step, program->device, before, step->at + first, n) &&
           luo_trace_memory(step, program, first, n);
}

/* Draws device after device until the room is used up; false: out of memory. */
static bool add_devices(luo_tstep *step)
{
    luo_trace *trace = step->t;
    int64_t k = 0, owed = 0; /* ends of arrows, drawn after the last device */
    while (k < step->result->nrecords) {
        const int32_t device = step->result->records[k].device;
        const luo_program *program = luo_programs_find(step->set, device);
        const int64_t mark = trace->n;
        int64_t n = 0;
        for (; k + n < step->result->nrecords && step->result->records[k + n].device == device;
             n++) {
            const luo_slot *slot = luo_tstep_slot(program, luo_tstep_instr(step, program, k + n));
            owed += slot ? slot->nmessage : 0;
        }
        if (!add_device(step, program, k, n)) return false;
        if (luo_trace_room(trace, false) < owed) {
            trace->n = mark;
            trace->full = true;
            return true;
        }
        k += n;
        step->ndrawn = k;
        step->ndevices++;
    }
    return true;
}

static bool times(luo_tstep *step)
{
    const luo_step_result *result = step->result;
    step->at = LUO_NEW_N(step->t->scratch, luo_when, result->nrecords);
    step->row = LUO_NEW_N(step->t->scratch, uint8_t, result->nrecords);
    if (!step->at || !step->row) return false;
    for (int64_t k = 0; k < result->nrecords; k++) {
        const int64_t ts = step->start + luo_trace_ns(result->records[k].start_s);
        const int64_t end = step->start + luo_trace_ns(result->records[k].end_s);
        step->at[k] = (luo_when){ts, end > ts ? end : ts};
    }
    return luo_trace_match(step);
}

luo_status luo_trace_step(luo_trace *trace, int64_t step, int32_t attempt, double start_s,
                          const luo_programs *set, const luo_step_result *result, luo_err *err)
{
    if (trace->full || result->nrecords == 0) return LUO_OK;
    LUO_TRY(luo_trace_spill(trace, err));
    const int64_t before = trace->n;
    const size_t mark = luo_arena_mark(trace->scratch);
    /* late in a long run two dates that are one differ by more than a nanosecond */
    const int64_t from = luo_trace_ns(start_s), start = from > trace->until ? from : trace->until;
    luo_tstep c = {.t = trace,
                   .set = set,
                   .result = result,
                   .step = step,
                   .attempt = attempt,
                   .start = start,
                   .end = start + luo_trace_ns(result->end_s - result->start_s)};
    trace->until = c.end;
    bool ok = room_for_names(&c) && times(&c) && add_devices(&c);
    if (ok && trace->full && trace->nsteps > 0) {
        trace->n = before; /* after the first only whole steps */
        c.ndrawn = 0;
        c.ndevices = 0;
    }
    ok = ok && luo_trace_flows(&c);
    if (ok && c.ndrawn > 0 && result->links &&
        luo_trace_room(trace, false) >= 4 * (int64_t)result->nlinks)
        ok = luo_trace_nics(trace, start, c.end, result->links, result->nlinks);
    if (c.ndrawn > 0) trace->nsteps++;
    if (ok && trace->full && c.ndevices > 0) {
        trace->part_devices = c.ndevices;
        trace->part_of = set->n;
    }
    luo_arena_reset(trace->scratch, mark);
    return ok ? LUO_OK : luo_err_nomem(err);
}
