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
static const struct luo_tname *names_of(luo_tstep *c, const luo_program *program,
                                        const luo_instr *in)
{
    struct luo_tname *n = &c->name[c->first_name[program->role] + in->id];
    if (n->slice) return n;
    const char *op = in->op >= 0 ? c->set->ops[in->op].name : "";
    const char *kind = kind_name(in, luo_tstep_slot(program, in));
    n->slice = 1 + (*op ? slice_name(c->t, op, in->recompute) : luo_trace_name(c->t, kind));
    n->op = 1 + luo_trace_name(c->t, op);
    n->kind = 1 + luo_trace_name(c->t, kind);
    return n;
}

static bool room_for_names(luo_tstep *c)
{
    int32_t n = 0;
    c->first_name = LUO_NEW_N(c->t->scratch, int32_t, c->set->nroles);
    for (int32_t i = 0; c->first_name && i < c->set->nroles; i++) {
        c->first_name[i] = n;
        n += c->set->roles[i].ninstr;
    }
    c->name = LUO_NEW_N(c->t->scratch, struct luo_tname, n);
    return c->first_name && c->name;
}

static bool add_slice(luo_tstep *c, const luo_program *program, int64_t k)
{
    const luo_op_record *r = &c->result->records[k];
    const luo_instr *in = luo_tstep_instr(c, program, k);
    luo_titem x = luo_trace_item(LUO_TITEM_OP, c->t->cluster->devices[r->device].node + 1,
                                 8 * r->device + c->row[k] + 1, c->at[k].ts);
    x.dur = c->at[k].end - c->at[k].ts;
    x.cat = (uint8_t)(LUO_TRACE_CAT_STREAM + in->stream);
    const struct luo_tname *name = names_of(c, program, in);
    x.name = name->slice - 1;
    x.text = name->op - 1;
    x.extra = name->kind - 1;
    x.step = c->step;
    x.attempt = c->attempt;
    x.pipeline = program->pipeline;
    x.stage = program->stage;
    x.micro_batch = program->tasks[r->task].micro_batch;
    x.layer = in->layer;
    x.bytes = in->bytes;
    x.instruction = in->id;
    return x.name >= 0 && x.text >= 0 && x.extra >= 0 && luo_trace_add(c->t, x);
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
static bool add_waits(luo_tstep *c, int32_t device, int64_t before, const luo_when *busy, int64_t n)
{
    enum { LEAST_NS = 1000 };
    luo_titem x = luo_trace_item(LUO_TITEM_WAIT, c->t->cluster->devices[device].node + 1,
                                 8 * device + LUO_STREAM_COMPUTE + 1, 0);
    x.cat = LUO_TRACE_CAT_BUBBLE;
    x.name = luo_trace_name(c->t, "wait");
    x.step = c->step;
    x.attempt = c->attempt;
    const size_t mark = luo_arena_mark(c->t->scratch);
    luo_when *w = LUO_NEW_N(c->t->scratch, luo_when, n + 1);
    bool ok = w && x.name >= 0;
    if (ok) {
        memcpy(w, busy, (size_t)n * sizeof *w);
        qsort(w, (size_t)n, sizeof *w, by_start);
        w[n] = (luo_when){c->end, c->end};
    }
    int64_t until = c->start > before ? c->start : before;
    int64_t *last = c->t->track_end + 8 * device + LUO_STREAM_COMPUTE;
    for (int64_t i = 0; ok && i <= n; i++) {
        if (w[i].ts - until >= LEAST_NS) {
            x.ts = until;
            x.dur = w[i].ts - until;
            ok = luo_trace_add(c->t, x);
            if (w[i].ts > *last) *last = w[i].ts;
        }
        if (w[i].end > until) until = w[i].end;
    }
    luo_arena_reset(c->t->scratch, mark);
    return ok;
}

/* Slices of one track may not overlap. Every stream has its track; pp, whose four lanes run side
 * by side, has the two spare ones as well and takes the first that is free. What still overlaps
 * (a clock that is off by a hair) begins where the one before it ends. */
static void choose_row(luo_tstep *c, const luo_program *program, int64_t k)
{
    const luo_instr *in = luo_tstep_instr(c, program, k);
    const int pp[] = {LUO_STREAM_PP, LUO_TRACE_PP_2, LUO_TRACE_PP_3};
    const int n = in->stream == LUO_STREAM_PP ? 3 : 1;
    int64_t *last = c->t->track_end + 8 * c->result->records[k].device;
    luo_when *w = &c->at[k];
    int best = in->stream;
    for (int i = 0; i < n; i++) {
        if (last[pp[i]] > w->ts && i + 1 < n) continue;
        if (n > 1) best = pp[i];
        break;
    }
    if (w->ts < last[best]) w->ts = last[best];
    if (w->end < w->ts) w->end = w->ts;
    last[best] = w->end;
    c->row[k] = (uint8_t)best;
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
static bool add_device(luo_tstep *c, const luo_program *program, int64_t first, int64_t n)
{
    const size_t mark = luo_arena_mark(c->t->scratch);
    const int64_t before = c->t->track_end[8 * program->device + LUO_STREAM_COMPUTE];
    turn *order = LUO_NEW_N(c->t->scratch, turn, n);
    bool ok = order != NULL;
    for (int64_t i = 0; ok && i < n; i++) order[i] = (turn){c->at[first + i].ts, first + i};
    if (ok) qsort(order, (size_t)n, sizeof *order, by_turn);
    for (int64_t i = 0; ok && i < n; i++) choose_row(c, program, order[i].record);
    luo_arena_reset(c->t->scratch, mark);
    for (int64_t k = first; ok && k < first + n; k++) ok = add_slice(c, program, k);
    return ok && add_waits(c, program->device, before, c->at + first, n) &&
           luo_trace_memory(c, program, first, n);
}

/* Draws device after device until the room is used up; false: out of memory. */
static bool add_devices(luo_tstep *c)
{
    luo_trace *trace = c->t;
    int64_t k = 0, owed = 0; /* ends of arrows, drawn after the last device */
    while (k < c->result->nrecords) {
        const int32_t device = c->result->records[k].device;
        const luo_program *program = luo_programs_find(c->set, device);
        const int64_t mark = trace->n;
        int64_t n = 0;
        for (; k + n < c->result->nrecords && c->result->records[k + n].device == device; n++) {
            const luo_slot *slot = luo_tstep_slot(program, luo_tstep_instr(c, program, k + n));
            owed += slot ? slot->nmessage : 0;
        }
        if (!add_device(c, program, k, n)) return false;
        if (luo_trace_room(trace, false) < owed) {
            trace->n = mark;
            trace->full = true;
            return true;
        }
        k += n;
        c->ndrawn = k;
        c->ndevices++;
    }
    return true;
}

static bool times(luo_tstep *c)
{
    const luo_step_result *result = c->result;
    c->at = LUO_NEW_N(c->t->scratch, luo_when, result->nrecords);
    c->row = LUO_NEW_N(c->t->scratch, uint8_t, result->nrecords);
    if (!c->at || !c->row) return false;
    for (int64_t k = 0; k < result->nrecords; k++) {
        const int64_t ts = c->start + luo_trace_ns(result->records[k].start_s);
        const int64_t end = c->start + luo_trace_ns(result->records[k].end_s);
        c->at[k] = (luo_when){ts, end > ts ? end : ts};
    }
    return luo_trace_match(c);
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
