/* spec_write.c: buffers, and the wait edges that follow from who wrote what. */
#include <string.h>

#include "core/graph/specialize/spec_emit.h"

static int32_t *stamps(luo_arena *arena, int32_t n, int32_t v)
{
    int32_t *a = LUO_NEW_N(arena, int32_t, n);
    for (int32_t i = 0; a && i < n; i++) a[i] = v;
    return a;
}

luo_status luo_spec_emit_open(emitter *e)
{
    spec *s = e->s;
    e->mark = luo_arena_mark(s->scratch);
    e->seg = e->besides = e->also = -1;
    luo_intern_init(&e->slot_key, s->scratch);
    e->buffer = LUO_NEW_N(s->scratch, int32_t, s->g->ntensors);
    e->stamp = LUO_NEW_N(s->scratch, int32_t, s->g->ntensors);
    e->again = stamps(s->scratch, s->g->ntensors, -1);
    e->redone = stamps(s->scratch, s->nlayers, -1);
    e->held = LUO_NEW_N(s->scratch, const spec_dims *, s->table_key.n);
    e->sought = LUO_NEW_N(s->scratch, bool, s->table_key.n);
    const bool room = e->buffer && e->stamp && e->again && e->redone && e->held && e->sought;
    return room ? LUO_OK : luo_err_nomem(s->err);
}

/* Asked for every operand of every operation, of few tables. */
const spec_dims *luo_spec_held(const emitter *e, int32_t x)
{
    const spec *s = e->s;
    const int32_t t = s->table_of[(int64_t)x * s->in->nlengths + e->length];
    if (!e->sought[t]) e->held[t] = luo_spec_find(s, &s->table[t], e->dev);
    e->sought[t] = true;
    return e->held[t];
}

void *luo_spec_room(emitter *e, void *at, int32_t n, int32_t *cap, size_t bytes)
{
    if (n < *cap) return at;
    const size_t old = (size_t)*cap, want = old ? 2 * old : 256;
    void *p = luo_arena_grow(e->s->scratch, at, old * bytes, want * bytes);
    if (!p) {
        e->failed = true;
        return NULL;
    }
    *cap = (int32_t)want;
    return p;
}

void luo_spec_begin(emitter *e, int32_t phase, int32_t chunk, int64_t tokens)
{
    luo_segment *at = luo_spec_room(e, e->segment, e->nseg, &e->cap_seg, sizeof *at);
    if (!at) return;
    e->segment = at;
    e->seg = e->nseg++;
    e->phase = phase;
    at[e->seg] = (luo_segment){phase, chunk, tokens, e->ninstr, 0};
    memset(e->last, -1, sizeof e->last);
    e->gate = -1;
    e->computed = e->after = -1;
}

void luo_spec_end(emitter *e)
{
    if (!e->failed) e->segment[e->seg].n = e->ninstr - e->segment[e->seg].first;
}

static bool lasts(const luo_tensor *tensor)
{
    return tensor->kind == LUO_TENSOR_STATE || tensor->kind == LUO_TENSOR_PARAM ||
           tensor->kind == LUO_TENSOR_GRAD;
}

/* What belongs to a micro-batch has a buffer per length; parameters, states and sums have one. */
static int32_t stamp_of(const emitter *e, int32_t x)
{
    if (lasts(&e->s->g->tensor[x])) return 1;
    return e->phase == LUO_PHASE_PRE || e->phase == LUO_PHASE_POST ? 2 : 3 + e->length;
}

int32_t luo_spec_buffer(const emitter *e, int32_t x)
{
    return e->stamp[x] == stamp_of(e, x) ? e->buffer[x] : -1;
}

void luo_spec_bind(emitter *e, int32_t x, int32_t buffer)
{
    e->buffer[x] = buffer;
    e->stamp[x] = stamp_of(e, x);
}

static int32_t class_of(int32_t kind)
{
    switch ((luo_tensor_kind)kind) {
    case LUO_TENSOR_STATE: return LUO_BUFFER_OPTIMIZER;
    case LUO_TENSOR_PARAM: return LUO_BUFFER_WEIGHT;
    case LUO_TENSOR_GRAD: return LUO_BUFFER_GRADIENT;
    case LUO_TENSOR_DATA:
    case LUO_TENSOR_SHARD:
    case LUO_TENSOR_FULL:
    case LUO_TENSOR_VALUE: break;
    }
    return LUO_BUFFER_WORK;
}

/* Under a load of experts rows take the room of those that come. */
static int64_t bytes_of(emitter *e, int32_t x, const spec_dims *dims)
{
    const luo_tensor *tensor = &e->s->g->tensor[x];
    const int64_t bytes = dims->volume * tensor->elem_bytes;
    const bool rows = tensor->letters[0] == 'e' && tensor->letters[1] == 'r';
    spec_load load;
    if (!e->s->in->load || !rows || bytes == 0) return bytes;
    if (luo_spec_load_here(e->s, tensor->layer, x, e->length, e->dev, &load) != LUO_OK) {
        e->failed = true;
        return 0;
    }
    return load.rows * (bytes / (dims->dim[0] * dims->dim[1]));
}

luo_buffer luo_spec_describe(emitter *e, int32_t x)
{
    const luo_tensor *tensor = &e->s->g->tensor[x];
    const spec_dims *dims = luo_spec_held(e, x);
    luo_buffer buffer = {.tensor = tensor->name,
                         .rank = tensor->rank,
                         .elem_bytes = tensor->elem_bytes,
                         .buffer_class = class_of(tensor->kind),
                         .letters = tensor->letters};
    luo_spec_frame(e->s, x, e->length, &buffer.ann, &buffer.shape);
    if (dims) {
        memcpy(buffer.dim, dims->dim, sizeof buffer.dim);
        buffer.bytes = bytes_of(e, x, dims);
    }
    return buffer;
}

luo_buffer luo_spec_describe_between(emitter *e, int32_t o, int32_t step)
{
    const luo_op *op = &e->s->g->op[o];
    const int32_t x = step == LUO_LEADER_GATHER ? op->in[0] : op->out[0];
    luo_buffer buffer = {.tensor = e->s->g->tensor[x].name,
                         .rank = 1,
                         .elem_bytes = e->s->g->tensor[x].elem_bytes,
                         .buffer_class = LUO_BUFFER_COMM};
    if (luo_spec_trade_between(e->s, spec_move_of(e->s, o, e->length), e->dev, step,
                               &buffer.dim[0]) != LUO_OK)
        e->failed = true;
    buffer.bytes = buffer.dim[0] * buffer.elem_bytes;
    return buffer;
}

static int32_t add_buffer(emitter *e, luo_buffer buffer, emit_born from)
{
    emit_buffer *at = luo_spec_room(e, e->buf, e->nbuf, &e->cap_buf, sizeof *at);
    emit_born *born = luo_spec_room(e, e->born, e->nbuf, &e->cap_born, sizeof *born);
    if (!at || !born) return -1;
    e->buf = at;
    e->born = born;
    at[e->nbuf] = (emit_buffer){.b = buffer, .waited_seg = -1};
    born[e->nbuf] = from;
    born[e->nbuf].position = e->position;
    return e->nbuf++;
}

int32_t luo_spec_new_buffer(emitter *e, int32_t x)
{
    const int32_t b = add_buffer(e, luo_spec_describe(e, x), (emit_born){.tensor = x});
    if (b < 0) return 0;
    luo_spec_bind(e, x, b);
    return b;
}

int32_t luo_spec_between(emitter *e, int32_t o, int32_t step)
{
    const emit_born from = {.tensor = o, .between = step + 1};
    const int32_t b = add_buffer(e, luo_spec_describe_between(e, o, step), from);
    return b < 0 ? 0 : b;
}

int32_t luo_spec_slot(emitter *e, const spec_step *step, int32_t k)
{
    const int32_t key[2] = {step->id, k};
    bool fresh;
    const int32_t id = luo_intern_id(&e->slot_key, key, 2, &fresh);
    if (id < 0) {
        e->failed = true;
        return 0;
    }
    if (!fresh) return id;
    spec_slot_ref *at = luo_spec_room(e, e->ref, id, &e->cap_ref, sizeof *at);
    if (!at) return 0;
    e->ref = at;
    at[id] = (spec_slot_ref){step, k};
    return id;
}

luo_instr luo_spec_instr(const emitter *e, int32_t o, luo_instr_kind kind, luo_stream stream)
{
    return (luo_instr){.kind = (uint8_t)kind, .stream = (uint8_t)stream, .phase = (uint8_t)e->phase,
                       .op = o, .exchange = -1, .layer = e->s->g->op[o].layer, .slot = -1};
}

/* ---- wait edges: between lanes only, since a lane is in order ---- */

typedef struct edges {
    int32_t lane;
    int32_t newest[LUO_LANES]; /* in this segment, by lane of the writer */
    int32_t *far;              /* in other segments */
    int32_t nfar;
    bool joins; /* many tensors: of what one lane of a segment wrote, the latest is enough */
} edges;

static int32_t lane_of(const emitter *e, int32_t instr)
{
    return luo_instr_lane(&e->instr[instr]);
}

static void add_far(emitter *e, edges *w, const maker *m)
{
    for (int32_t k = 0; w->joins && k < w->nfar; k++) {
        const luo_segment *seg = &e->segment[m->seg];
        if (w->far[k] < seg->first || w->far[k] >= seg->first + seg->n ||
            lane_of(e, w->far[k]) != lane_of(e, m->instr))
            continue;
        if (w->far[k] < m->instr) w->far[k] = m->instr;
        return;
    }
    w->far[w->nfar++] = m->instr;
}

/* Written by another segment: by Pre for this F, by F for this B, by BI for this BW, by every B for
 * Post. */
static void wait_far(emitter *e, edges *w, emit_buffer *buffer)
{
    const uint32_t bit = 1U << w->lane;
    if (buffer->waited_seg == e->seg && (buffer->waited & bit)) return;
    for (const maker *m = buffer->made; m; m = m->next) {
        const int32_t from = e->segment[m->seg].phase;
        if (lane_of(e, m->instr) == w->lane) continue;
        /* F has waited for it already, and F of this micro-batch came before B; BI before BW. */
        const bool back = luo_phase_is_backward(e->phase);
        if (from == LUO_PHASE_PRE && back) continue;
        if (luo_phase_in_task(from) && back && (buffer->read_there & bit)) continue;
        add_far(e, w, m);
    }
    if (buffer->waited_seg != e->seg) buffer->waited = 0;
    buffer->waited_seg = e->seg;
    buffer->waited |= bit;
}

static void wait_for(emitter *e, edges *w, int32_t buffer)
{
    emit_buffer *b = &e->buf[buffer];
    if (!b->made) return;
    if (b->made->seg != e->seg) {
        wait_far(e, w, b);
        return;
    }
    for (const maker *m = b->made; m && m->seg == e->seg; m = m->next) {
        const int32_t lane = lane_of(e, m->instr);
        if (lane != w->lane && m->instr > w->newest[lane]) w->newest[lane] = m->instr;
    }
    b->read_there |= 1U << w->lane;
}

static int32_t count_makers(const emitter *e, const int32_t *in, int32_t n)
{
    int32_t sum = 0;
    for (int32_t i = 0; i < n; i++)
        for (const maker *m = e->buf[in[i]].made; m; m = m->next) sum++;
    return sum;
}

static void add_edges(emitter *e, luo_instr *instr, const int32_t *in, int32_t nin)
{
    edges w = {.lane = luo_instr_lane(instr), .joins = instr->npieces > 1};
    memset(w.newest, -1, sizeof w.newest);
    const int32_t others = e->besides >= 0 ? count_makers(e, &e->besides, 1) : 0;
    w.far = LUO_NEW_N(e->s->arena, int32_t, count_makers(e, in, nin) + others + LUO_LANES);
    if (!w.far) {
        e->failed = true;
        return;
    }
    for (int32_t k = 0; k < nin; k++) wait_for(e, &w, in[k]);
    if (e->gate >= 0 && w.lane == LUO_STREAM_COMPUTE) { /* a backward begins with its gradient */
        wait_for(e, &w, e->gate);
        e->gate = -1;
    }
    if (w.lane != LUO_STREAM_COMPUTE && e->after > w.newest[LUO_STREAM_COMPUTE])
        w.newest[LUO_STREAM_COMPUTE] = e->after;
    if (e->besides >= 0) wait_for(e, &w, e->besides);
    if (e->also >= 0 && e->also > w.newest[lane_of(e, e->also)])
        w.newest[lane_of(e, e->also)] = e->also;
    for (int32_t l = 0; l < LUO_LANES; l++) {
        if (w.newest[l] <= e->last[w.lane][l]) continue;
        e->last[w.lane][l] = w.newest[l];
        w.far[w.nfar++] = w.newest[l];
    }
    instr->dep = w.far;
    instr->ndep = w.nfar;
}

/* Two parts of one Reshard in different lanes, such as messages and what stays on the device: who
 * reads the buffer needs both. */
static bool goes_beside(const emitter *e, int32_t a, int32_t b)
{
    return e->instr[a].op == e->instr[b].op && lane_of(e, a) != lane_of(e, b);
}

static void write_to(emitter *e, int32_t buffer, int32_t instr)
{
    emit_buffer *b = &e->buf[buffer];
    const bool first = !b->made || b->made->seg != e->seg;
    maker *m = NULL;
    b->made_in |= (uint8_t)(1U << e->phase);
    while (b->made && b->made->seg == e->seg && !goes_beside(e, b->made->instr, instr)) {
        m = b->made; /* what it wrote is written over, or added to */
        b->made = m->next;
    }
    if (!m) m = LUO_NEW(e->s->scratch, maker);
    if (!m) {
        e->failed = true;
        return;
    }
    *m = (maker){instr, e->seg, b->made};
    b->made = m;
    if (first) b->read_there = 0;
}

void luo_spec_push(emitter *e, const luo_instr *proto, const int32_t *in, int32_t nin,
                   const int32_t *out, int32_t nout)
{
    luo_instr *at = NULL;
    if (!e->failed) at = luo_spec_room(e, e->instr, e->ninstr, &e->cap_instr, sizeof *at);
    int32_t *list = at ? LUO_NEW_N(e->s->arena, int32_t, nin + nout) : NULL;
    if (!list) {
        e->failed = true;
        return;
    }
    e->instr = at;
    luo_instr *instr = &at[e->ninstr];
    *instr = *proto;
    instr->id = e->ninstr;
    const bool comm = instr->kind == LUO_INSTR_COLLECTIVE || instr->kind == LUO_INSTR_P2P;
    instr->at_start = e->at_start && comm;
    if (nin) memcpy(list, in, (size_t)nin * sizeof *in);
    if (nout) memcpy(list + nin, out, (size_t)nout * sizeof *out);
    instr->in = list;
    instr->out = list + nin;
    instr->nin = nin;
    instr->nout = nout;
    add_edges(e, instr, in, nin);
    if (luo_instr_lane(instr) == LUO_STREAM_COMPUTE) e->computed = instr->id;
    for (int32_t k = 0; k < nin; k++) e->buf[in[k]].read_in |= (uint8_t)(1U << e->phase);
    for (int32_t k = 0; k < nout; k++) write_to(e, out[k], instr->id);
    e->ninstr++;
}

/* What F makes and B reads is kept per micro-batch in flight, and what BI makes and BW reads. */
static void classify(emitter *e)
{
    const uint8_t f = 1U << LUO_PHASE_F, bi = 1U << LUO_PHASE_BI, bw = 1U << LUO_PHASE_BW;
    const uint8_t b = (1U << LUO_PHASE_B) | bi | bw;
    for (int32_t i = 0; i < e->nbuf; i++) {
        const emit_buffer *buffer = &e->buf[i];
        if (buffer->b.buffer_class != LUO_BUFFER_WORK) continue;
        if ((buffer->made_in & f) && (buffer->read_in & b) && !(buffer->made_in & b))
            e->buf[i].b.buffer_class = LUO_BUFFER_STASH;
        if ((buffer->made_in & bi) && (buffer->read_in & bw) && !(buffer->made_in & bw))
            e->buf[i].b.buffer_class = LUO_BUFFER_STASH;
    }
}

static void *keep(emitter *e, const void *at, int32_t n, size_t bytes)
{
    void *p = luo_arena_alloc(e->s->arena, (size_t)n * bytes);
    if (!p) e->failed = true;
    else if (n) memcpy(p, at, (size_t)n * bytes);
    return p;
}

luo_status luo_spec_emit_close(emitter *e, luo_role *role, const spec_slot_ref **refs)
{
    if (!e->failed) classify(e);
    luo_buffer *buf = LUO_NEW_N(e->s->arena, luo_buffer, e->nbuf);
    if (!buf || e->failed) return luo_err_nomem(e->s->err);
    for (int32_t i = 0; i < e->nbuf; i++) {
        buf[i] = e->buf[i].b;
        e->born[i].buffer_class = buf[i].buffer_class;
    }
    *role = (luo_role){.ninstr = e->ninstr,
                       .nseg = e->nseg,
                       .nbuf = e->nbuf,
                       .nslot = e->slot_key.n,
                       .npieces = e->npieces,
                       .buf = buf,
                       .instr = keep(e, e->instr, e->ninstr, sizeof *e->instr),
                       .seg = keep(e, e->segment, e->nseg, sizeof *e->segment)};
    *refs = keep(e, e->ref, e->slot_key.n, sizeof *e->ref);
    return e->failed ? luo_err_nomem(e->s->err) : LUO_OK;
}
