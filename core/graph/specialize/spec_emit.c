/* spec_emit.c: the instructions of one role, for one of its devices.
 *
 * Segments in order: Pre; per length all F, then all B, or all BI and all BW (one per chunk); Post.
 * A segment follows the operation order of the graph, which is what makes the issue order of
 * communication the same on every device. */
#include <assert.h>
#include <string.h>

#include "core/graph/specialize/spec_emit.h"

/* ---- reading and writing tensors ---- */

/* A gathered activation is not kept for the backward pass: only its cut form is, and it is
 * gathered again beside the product that comes before (sequence parallelism;
 * docs/cost-model.md#memory). */
static bool gathers(const emitter *e, int32_t x)
{
    const luo_graph *graph = e->s->g;
    const int32_t o = graph->tensor[x].op;
    const luo_op *op = &graph->op[o];
    if (op->kind != LUO_OP_RESHARD || op->phase != LUO_PHASE_F || spec_crosses(e->c, o) ||
        graph->tensor[x].form != LUO_FORM_WHOLE)
        return false;
    const spec_move *move = spec_move_of(e->s, o, e->length);
    if (move->nsteps == 0) return false;
    const spec_step *step = &move->step[0];
    const int32_t i = luo_spec_take_part(step, e->dev);
    if (i < 0 || step->first[i] == step->first[i + 1]) return false;
    const spec_item *it = &step->item[step->first[i]];
    return it->kind == LUO_INSTR_COLLECTIVE && it->coll == LUO_COLL_AG;
}

/* Buffer that holds tensor x for reading; -1: not on this device. */
static int32_t operand(emitter *e, int32_t x)
{
    if (luo_phase_is_backward(e->phase) && e->again[x] != e->seg && gathers(e, x)) {
        e->again[x] = e->seg;
        luo_spec_emit_reshard(e, e->s->g->tensor[x].op, true);
    }
    return luo_spec_buffer(e, x);
}

/* Buffer for writing tensor y: the running sum it belongs to, or a new one. */
static int32_t result(emitter *e, int32_t y, bool again)
{
    const int32_t sum = e->s->sum_of[y];
    if (sum >= 0 && !again) {
        int32_t b = luo_spec_buffer(e, sum);
        if (b < 0) b = luo_spec_new_buffer(e, sum);
        return b;
    }
    const int32_t kind = e->s->g->tensor[y].kind;
    if (kind == LUO_TENSOR_PARAM || kind == LUO_TENSOR_STATE || kind == LUO_TENSOR_GRAD) {
        const int32_t b = luo_spec_buffer(e, y);
        if (b >= 0) return b;
    }
    return luo_spec_new_buffer(e, y);
}

/* ---- operations ---- */

static bool holds(const emitter *e, int32_t x)
{
    return luo_spec_held(e, x) != NULL;
}

static bool has_cells(const emitter *e, int32_t x)
{
    const spec_dims *dims = luo_spec_held(e, x);
    return dims && dims->volume > 0;
}

/* ---- steps of a ring ---- */

/* The first of the operands that the operation goes on with in place: results so far; nin: none. */
static int32_t first_so_far(const luo_op *op)
{
    return op->kind == LUO_OP_ATTENTION ? 3 : op->kind == LUO_OP_ATTENTION_DX ? 6 : op->nin;
}

/* A result goes on where what was so far lies. -1: there is none; so for gradients of keys. */
static int32_t so_far(emitter *e, const luo_op *op, int32_t j)
{
    const int32_t at = first_so_far(op) + j;
    const int32_t b = at < op->nin ? luo_spec_buffer(e, op->in[at]) : -1;
    if (b >= 0) luo_spec_bind(e, op->out[j], b);
    return b;
}

/* The step does nothing here: the ring of these devices is shorter, or the keys that came round are
 * all behind the mask. The first step that sends sums on has to make them, be they zeros. */
static bool idles(const emitter *e, const luo_op *op)
{
    if (op->ring == 0) return false;
    const luo_context *context = luo_spec_context(e->s, e->dev);
    if (op->ring >= luo_context_parts(context)) return true;
    if (op->kind == LUO_OP_ATTENTION_DX && op->ring == 1) return false;
    return !luo_spec_sees(e->s, op, e->dev);
}

/* A sum of what one or no step made, the others doing nothing here: another name for it. */
static bool adds_nothing(emitter *e, const luo_op *op, int32_t nin)
{
    if (e->s->g->npipelines == 0 || op->kind != LUO_OP_ADD || nin > 1) return false;
    for (int32_t i = 0; i < op->nin; i++) {
        const int32_t b = luo_spec_buffer(e, op->in[i]);
        if (b >= 0) luo_spec_bind(e, op->out[0], b);
    }
    return true;
}

static void compute(emitter *e, int32_t o, bool again)
{
    const luo_op *op = &e->s->g->op[o];
    int32_t in[8], out[4], nin = 0, nout = 0;
    assert(op->nin <= 8 && op->nout <= 4);
    if (idles(e, op)) {
        for (int32_t i = 0; i < op->nout; i++) so_far(e, op, i);
        return;
    }
    for (int32_t i = 0; i < op->nin; i++) {
        const int32_t b = operand(e, op->in[i]);
        if (b >= 0) in[nin++] = b;
    }
    if (adds_nothing(e, op, nin)) return;
    for (int32_t i = 0; i < op->nout; i++) {
        if (!holds(e, op->out[i])) continue;
        const int32_t b = so_far(e, op, i);
        out[nout++] = b >= 0 ? b : result(e, op->out[i], again);
    }
    if (nout == 0) return;
    luo_instr instr = luo_spec_instr(e, o, LUO_INSTR_COMPUTE, LUO_STREAM_COMPUTE);
    instr.recompute = again;
    luo_spec_cost(e->s, o, e->length, e->dev, &instr);
    luo_spec_push(e, &instr, in, nin, out, nout);
}

int64_t luo_spec_loaded(const emitter *e, int32_t o)
{
    const int32_t x = e->s->g->op[o].out[0];
    return luo_spec_held(e, x)->volume * e->s->g->tensor[x].elem_bytes;
}

/* The loader fills the buffer; on the device it is no kernel. */
static void emit_placeholder(emitter *e, int32_t o, bool again)
{
    (void)again;
    const int32_t x = e->s->g->op[o].out[0];
    if (!holds(e, x)) return;
    const int32_t b = luo_spec_new_buffer(e, x);
    luo_instr instr = luo_spec_instr(e, o, LUO_INSTR_LOCAL, LUO_STREAM_COMPUTE);
    instr.bytes = luo_spec_loaded(e, o);
    luo_spec_push(e, &instr, NULL, 0, &b, 1);
}

/* Weight in which the update of `state` writes its piece: the result of the Reshard after it. */
static int32_t weight_of(emitter *e, int32_t state)
{
    const int32_t w = e->s->weight_of[state];
    return e->s->g->tensor[w].kind == LUO_TENSOR_PARAM ? luo_spec_buffer(e, w) : -1;
}

/* Norm of all gradients, their update or what is amended of that: one kernel over all tensors that
 * lie here. */
static void emit_over_all(emitter *e, int32_t o, bool again)
{
    (void)again;
    const luo_op *op = &e->s->g->op[o];
    int32_t *in = LUO_NEW_N(e->s->scratch, int32_t, op->nin + 1);
    int32_t *out = LUO_NEW_N(e->s->scratch, int32_t, op->nin + 1);
    if (!in || !out) {
        e->failed = true;
        return;
    }
    int32_t nin = 0, nout = 0;
    for (int32_t i = 0; i < op->nin; i++) {
        if (!has_cells(e, op->in[i])) continue;
        const bool state = e->s->g->tensor[op->in[i]].kind == LUO_TENSOR_STATE;
        const int32_t b = state ? result(e, op->in[i], false) : luo_spec_buffer(e, op->in[i]);
        if (b < 0) continue;
        in[nin++] = b;
        if (!state) continue;
        out[nout++] = b;
        const int32_t w = weight_of(e, op->in[i]);
        if (w >= 0) out[nout++] = w;
    }
    luo_instr instr = luo_spec_instr(e, o, LUO_INSTR_COMPUTE, LUO_STREAM_COMPUTE);
    if (op->kind == LUO_OP_GRAD_NORM) {
        if (!holds(e, op->out[0])) return;
        out[nout++] = luo_spec_new_buffer(e, op->out[0]);
    } else {
        const bool amends = op->kind == LUO_OP_AMEND;
        const int32_t norm = luo_spec_buffer(e, e->s->norm);
        if (norm >= 0 && amends == e->s->g->staggered) in[nin++] = norm;
        if (!amends) luo_spec_cost(e->s, o, e->length, e->dev, &instr);
        instr.beside = amends;
    }
    luo_spec_push(e, &instr, in, nin, out, nout);
}

/* Sum of gradients after the last micro-batch, into the first operand's buffer. */
static void late_sum(emitter *e, int32_t o)
{
    const luo_op *op = &e->s->g->op[o];
    int32_t in[8], nin = 0;
    assert(op->nin <= 8);
    for (int32_t i = 0; i < op->nin; i++) {
        const int32_t b = luo_spec_buffer(e, op->in[i]);
        if (b >= 0) in[nin++] = b;
    }
    if (nin == 0 || !holds(e, op->out[0])) return;
    luo_spec_bind(e, op->out[0], in[0]);
    if (nin == 1) return; /* the other summands lie elsewhere */
    luo_instr instr = luo_spec_instr(e, o, LUO_INSTR_COMPUTE, LUO_STREAM_COMPUTE);
    luo_spec_cost(e->s, o, e->length, e->dev, &instr);
    luo_spec_push(e, &instr, in, nin, in, 1);
}

static void emit_compute(emitter *e, int32_t o, bool again)
{
    if (e->s->g->op[o].phase == LUO_PHASE_POST)
        late_sum(e, o);
    else
        compute(e, o, again);
}

/* The running sum is kept by the operations that make its parts; only a part that arrived by
 * communication is added by a kernel of its own. */
void luo_spec_emit_accumulate(emitter *e, int32_t o)
{
    const luo_op *op = &e->s->g->op[o];
    for (int32_t k = 0; k < op->nin; k++) {
        if (e->s->sum_of[op->in[k]] >= 0) continue;
        const int32_t b = luo_spec_buffer(e, op->in[k]);
        if (b < 0) continue;
        const int32_t sum = result(e, op->out[0], false);
        luo_instr instr = luo_spec_instr(e, o, LUO_INSTR_COMPUTE, LUO_STREAM_COMPUTE);
        luo_spec_cost(e->s, o, e->length, e->dev, &instr);
        luo_spec_push(e, &instr, &b, 1, &sum, 1);
    }
}

/* ---- Reshards ---- */

typedef struct ends { /* buffers of a Reshard on this device; -1: none */
    int32_t in, out;
    bool in_place;
} ends;

static bool takes_part(const emitter *e, const spec_move *move)
{
    for (int32_t k = 0; k < move->nsteps; k++) {
        const int32_t i = luo_spec_take_part(&move->step[k], e->dev);
        if (i >= 0 && move->step[k].first[i] < move->step[k].first[i + 1]) return true;
    }
    return false;
}

/* The working copy of a parameter is gathered where it lies: a shard is part of its device's own
 * weight. Only a state kept elsewhere is sent out of the optimizer's buffer; a table's
 * pieces for a head on another stage are those of the table's own weight. */
static ends find_weight(emitter *e, const luo_op *op)
{
    const int32_t x = op->in[0], y = op->out[0];
    const bool shard = e->s->g->tensor[y].kind == LUO_TENSOR_SHARD;
    const int32_t w = shard ? e->s->weight_of[y] : y;
    ends r = {-1, holds(e, y) ? result(e, w, false) : -1, !shard};
    const int32_t from = luo_tensor_is_copy(e->s->g, y) ? e->s->weight_of[x] : x;
    if (holds(e, x)) r.in = shard ? result(e, from, false) : r.out;
    return r;
}

/* Gradients are summed where they lie; what is sent on arrives in a buffer of its own. */
static ends find_ends(emitter *e, const luo_op *op, const spec_move *move, bool again, bool moves)
{
    const int32_t x = op->in[0], y = op->out[0];
    const int32_t from = e->s->g->tensor[x].kind, to = e->s->g->tensor[y].kind;
    if (from == LUO_TENSOR_STATE || from == LUO_TENSOR_SHARD) return find_weight(e, op);
    ends r = {holds(e, x) ? operand(e, x) : -1, -1, false};
    /* an empty piece of an activation: nothing moves, and yet it is not what was there */
    const bool vanishes = to == LUO_TENSOR_VALUE && has_cells(e, x) && !has_cells(e, y);
    const bool stays = (!moves && !vanishes) || (to == LUO_TENSOR_GRAD && !move->has_messages);
    if (r.in >= 0 && holds(e, y) && stays) {
        r.out = r.in; /* another name for it, or reduced in place */
        r.in_place = true;
        luo_spec_bind(e, y, r.out);
    } else if (holds(e, y)) {
        r.out = result(e, y, again);
    }
    return r;
}

/* The norm of all gradients, where no update waits for it. */
static bool is_beside(const emitter *e, int32_t o)
{
    return e->s->g->staggered && e->s->g->op[o].out[0] == e->s->norm;
}

/* The norm that nothing waits for has a lane of its own as well, as long as buckets leave one: the
 * weights of the next step do not stand behind it.
 * What a head on another stage sends back of a tied table (ZeRO 2 and 3) is there long before the
 * rest, or long after it, on either of the two stages: it has a lane of its own, so that nothing
 * waits behind it that does not need it. */
static int32_t lane_of(const emitter *e, int32_t o, const spec_item *it)
{
    const luo_op *op = &e->s->g->op[o];
    if (is_beside(e, o) && it->kind != LUO_INSTR_LOCAL) return LUO_DP_LANES - 1;
    if (it->kind != LUO_INSTR_P2P || it->stream != LUO_STREAM_DP || op->forward < 0 ||
        !luo_tensor_is_copy(e->s->g, e->s->g->op[op->forward].out[0]))
        return 0;
    const int32_t lanes = e->s->in->dp_lanes ? e->s->in->dp_lanes : 1;
    return lanes < LUO_DP_LANES ? lanes : LUO_DP_LANES - 1;
}

/* Rows of experts are as many as the counts of both ends say. Through leaders: what one of them has
 * between the steps lies in buffers of its own; all others only send, and then only receive. */
static void push_trade(emitter *e, int32_t o, const luo_instr *instr, const spec_item *it,
                       int32_t step, ends *r)
{
    const luo_op *op = &e->s->g->op[o];
    const bool p2p = it->kind == LUO_INSTR_P2P, last = step == LUO_LEADER_SCATTER;
    const bool through = e->s->in->exchange == LUO_ALLTOALL_LEADER;
    const bool led = p2p || (through && step == LUO_LEADER_EXCHANGE);
    const bool leads = !p2p || it->slot.message[0].send == last;
    int32_t in[3], n = 0, out = r->out;
    if (leads || !last) in[n++] = r->in;
    for (int32_t i = 1; i < op->nin; i++)
        if (op->in[i] != op->in[0]) in[n++] = luo_spec_buffer(e, op->in[i]);
    if (led && !last) out = leads ? luo_spec_between(e, o, step) : -1;
    luo_spec_push(e, instr, in, n, &out, out >= 0);
    if (leads) r->in = out;
}

static void emit_item(emitter *e, int32_t o, const spec_step *t, int32_t k, int32_t i, ends *r,
                      bool again)
{
    const spec_item *it = &t->item[t->first[i] + k];
    const int32_t step = (int32_t)(t - spec_move_of(e->s, o, e->length)->step);
    const bool local = it->kind == LUO_INSTR_LOCAL;
    if (local && r->in_place) return;
    bool sends = it->kind != LUO_INSTR_P2P, receives = sends;
    for (int32_t m = 0; m < it->slot.nmessage; m++) {
        sends |= it->slot.message[m].send;
        receives |= !it->slot.message[m].send;
    }
    luo_instr instr = luo_spec_instr(e, o, (luo_instr_kind)it->kind, (luo_stream)it->stream);
    instr.coll = it->coll;
    instr.v = it->v;
    instr.variant = it->variant;
    instr.lane = (uint8_t)lane_of(e, o, it);
    instr.beside = is_beside(e, o);
    instr.bytes = it->bytes;
    instr.recompute = again;
    instr.exchange = e->s->exchange_of[(int64_t)o * e->s->in->nlengths + e->length] + step;
    if (local)
        instr.cost = (luo_cost_key){LUO_COST_STREAM, {2 * it->bytes}};
    else
        instr.slot = luo_spec_slot(e, t, k);
    if (instr.beside && it->kind == LUO_INSTR_COLLECTIVE)
        e->also = luo_spec_call_before(e, it->slot.group, &instr);
    if (it->coll == LUO_COLL_A2A && !local)
        push_trade(e, o, &instr, it, step, r);
    else
        luo_spec_push(e, &instr, &r->in, sends && r->in >= 0, &r->out, receives && r->out >= 0);
    e->also = -1;
}

/* The buffers of both ends are bound. */
void luo_spec_emit_reshard(emitter *e, int32_t o, bool again)
{
    const luo_op *op = &e->s->g->op[o];
    const spec_move *move = spec_move_of(e->s, o, e->length);
    if (!holds(e, op->in[0]) && !holds(e, op->out[0])) return;
    const bool moves = takes_part(e, move);
    if (!moves && e->s->g->npipelines > 0 && luo_spec_buffer(e, op->in[0]) < 0 &&
        e->s->g->tensor[op->in[0]].kind == LUO_TENSOR_VALUE)
        return; /* of a step that does nothing here */
    if (again) e->again[op->out[0]] = e->seg;
    ends r = find_ends(e, op, move, again, moves);
    if (e->s->nbuckets && e->s->fused[o]) return; /* luo_spec_emit_buckets */
    e->besides = op->after ? luo_spec_buffer(e, op->after) : -1;
    for (int32_t k = 0; k < move->nsteps; k++) {
        const spec_step *step = &move->step[k];
        const int32_t i = luo_spec_take_part(step, e->dev);
        const int32_t items = i >= 0 ? step->first[i + 1] - step->first[i] : 0;
        for (int32_t n = 0; n < items; n++) emit_item(e, o, step, n, i, &r, again);
        if (items > 0 && r.out >= 0 && !move->trade)
            r.in = r.out; /* what is only renamed still lies in `in` */
    }
    e->besides = -1;
    /* as in the systems there are: nothing is recomputed before the gradient is there */
    if (luo_phase_begins_backward(e->phase) && r.out >= 0 && spec_crosses(e->c, o))
        e->gate = r.out;
}

static void emit_reshard(emitter *e, int32_t o, bool again)
{
    luo_spec_emit_reshard(e, o, again);
}

static void emit_accumulate(emitter *e, int32_t o, bool again)
{
    (void)again;
    luo_spec_emit_accumulate(e, o);
}

static void emit_state(emitter *e, int32_t o, bool again)
{
    (void)e, (void)o, (void)again; /* it lies where it is */
}

static void emit_op(emitter *e, int32_t o, bool again)
{
    static void (*const emits[LUO_OP_KINDS])(emitter * e, int32_t o, bool again) = {
#define LUO_OP(kind, name, operands, nin, nout, deduce, gradient, emit, ...)                       \
    [LUO_OP_##kind] = emit_##emit,
#include "core/graph/ops.inc"
#undef LUO_OP
    };
    emits[e->s->g->op[o].kind](e, o, again);
}

/* ---- segments ---- */

/* Full recompute: the whole layer runs again from its kept input (docs/cost-model.md#recompute). */
static void run_again(emitter *e, int32_t layer, int32_t vs)
{
    const luo_graph *graph = e->s->g;
    e->redone[layer] = e->seg;
    for (int32_t o = e->s->first_of_layer[layer]; o < graph->nops && graph->op[o].forward < 0;
         o++) {
        if (graph->op[o].layer != layer) break;
        if (!luo_spec_is_here(e, o, LUO_PHASE_F, vs) || spec_crosses(e->c, o)) continue;
        if (e->s->duty[o] != SPEC_GATHER) emit_op(e, o, true);
    }
}

/* The sum of the loss would hold up those of gradients, which follow it: it comes after them. */
static bool comes_later(const emitter *e, int32_t o)
{
    const luo_graph *graph = e->s->g;
    const luo_op *op = &graph->op[o];
    return e->phase == LUO_PHASE_POST && op->kind == LUO_OP_RESHARD && op->in[0] == graph->loss &&
           o < spec_behind(e->s, e->phase);
}

/* Behind operation o. */
static void emit_buckets(emitter *e, int32_t o)
{
    if (o != spec_behind(e->s, e->phase)) return;
    int32_t n;
    luo_spec_emit_turns(e);
    const int32_t *place = luo_spec_places(e, e->phase, -1, &n);
    for (int32_t i = 0; i < n && place[i] < o; i++)
        if (comes_later(e, place[i])) emit_op(e, place[i], false);
}

static void emit_segment(emitter *e, int32_t phase, int32_t chunk)
{
    const luo_graph *graph = e->s->g;
    const bool per_mb = luo_phase_in_task(phase);
    const int32_t vs = per_mb ? chunk * e->c->S + e->stage : -1;
    int32_t n;
    luo_spec_begin(e, phase, chunk, per_mb ? e->s->in->lengths[e->length].tokens : 0);
    if (per_mb) luo_spec_units_begin(e, vs);
    const int32_t *place = luo_spec_places(e, phase, vs, &n);
    for (int32_t i = 0; i < n; i++) {
        const int32_t o = place[i];
        if (!luo_spec_is_here(e, o, phase, vs)) continue; /* of the other half */
        if (per_mb && luo_spec_units_before(e, o)) continue;
        const int32_t l = graph->op[o].layer;
        if (luo_phase_begins_backward(phase) && l >= 0 && e->c->full[l] && e->redone[l] != e->seg &&
            !spec_crosses(e->c, o))
            run_again(e, l, vs);
        if (per_mb || !comes_later(e, o)) emit_op(e, o, false);
        if (per_mb) luo_spec_units_behind(e, o);
        else emit_buckets(e, o);
    }
    if (per_mb) luo_spec_units_end(e);
    luo_spec_end(e);
}

static void emit_segments(emitter *e, const spec_lengths *lengths)
{
    const bool splits = luo_sched_splits(e->s->in->schedule);
    const int32_t back = splits ? LUO_PHASE_BI : LUO_PHASE_B;
    emit_segment(e, LUO_PHASE_PRE, 0);
    for (int32_t k = 0; k < lengths->n; k++) {
        e->length = lengths->at[k];
        e->position = k;
        for (int32_t c = 0; c < e->c->v; c++) emit_segment(e, LUO_PHASE_F, c);
        for (int32_t c = 0; c < e->c->v; c++) emit_segment(e, back, c);
        for (int32_t c = 0; splits && c < e->c->v; c++) emit_segment(e, LUO_PHASE_BW, c);
    }
    e->length = lengths->n ? lengths->at[0] : 0;
    e->position = 0;
    emit_segment(e, LUO_PHASE_POST, 0);
}

static luo_status emit(emitter *e, int32_t pattern, const spec_lengths *lengths, luo_role *role,
                       const spec_slot_ref **refs)
{
    emit_segments(e, lengths);
    LUO_TRY(luo_spec_emit_close(e, role, refs));
    return pattern < 0 ? LUO_OK : luo_spec_keep_pattern(e, pattern, lengths, role, *refs);
}

luo_status luo_spec_emit_role(spec *s, int32_t dev, const int32_t *lengths, int32_t n,
                              luo_role *role, const spec_slot_ref **refs)
{
    const int32_t p = s->pipe_of[dev]; /* -1: holds state only, Pre and Post are all it has */
    const spec_lengths l = {lengths, n};
    int32_t pattern = -1;
    bool bound = false;
    emitter e = {.s = s, .dev = dev, .stage = s->stage_of[dev],
                 .c = p >= 0 ? &s->cls[s->class_of[p]] : NULL, .length = n ? lengths[0] : 0};
    LUO_TRY(luo_spec_emit_open(&e));
    if (s->patterns) {
        LUO_TRY(luo_spec_find_pattern(&e, &l, &pattern));
        LUO_TRY(luo_spec_bind_pattern(&e, pattern, &l, role, refs, &bound));
    }
    if (!bound) LUO_TRY(emit(&e, pattern, &l, role, refs));
    luo_arena_reset(s->scratch, e.mark);
    return LUO_OK;
}
