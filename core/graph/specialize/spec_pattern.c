/* spec_pattern.c: patterns of roles (pattern.h): what tells them apart, how they are kept, and how
 * a role is bound to one. */
#include <string.h>

#include "core/base/vec.h"
#include "core/graph/specialize/spec_emit.h"

typedef struct origin { /* of an instruction of a Reshard or a bucket */
    int32_t step, item; /* in its resolution, and of the device in that; item -1: without a slot */
} origin;

typedef struct pattern {
    luo_role role;         /* with the numbers of the role it was taken from; no buffers */
    const origin *origin;  /* by instruction */
    const emit_born *born; /* by buffer */
    int64_t noperands;     /* in, out and dep of all instructions */
} pattern;

struct luo_patterns {
    luo_arena *arena;
    const int32_t *graph; /* what the numbers of operations, tensors and buckets stand for */
    int32_t ngraph;
    luo_intern key;  /* of patterns */
    luo_intern part; /* what a device does in the steps of a Reshard */
    pattern *at;     /* by key; without instructions: it had no room */
    int32_t n, room;
    int64_t emitted, bound;
    size_t bytes; /* of the arena, as many as there may be */
};

/* ---- the set ---- */

static luo_status empty(luo_patterns *patterns)
{
    luo_arena_free(patterns->arena);
    patterns->arena = luo_arena_new(1 << 16);
    patterns->at = NULL;
    patterns->graph = NULL;
    patterns->n = patterns->room = patterns->ngraph = 0;
    luo_intern_init(&patterns->key, patterns->arena);
    luo_intern_init(&patterns->part, patterns->arena);
    return patterns->arena ? LUO_OK : LUO_ENOMEM;
}

luo_status luo_patterns_open(luo_arena *arena, size_t bytes, luo_patterns **out, luo_err *err)
{
    luo_patterns *patterns = LUO_NEW(arena, luo_patterns);
    if (!patterns || empty(patterns) != LUO_OK) return luo_err_nomem(err);
    patterns->bytes = bytes;
    *out = patterns;
    return LUO_OK;
}

void luo_patterns_free(luo_patterns *patterns)
{
    if (patterns) luo_arena_free(patterns->arena);
}

void luo_patterns_forget(luo_patterns *patterns)
{
    if (!patterns) return;
    luo_arena_free(patterns->arena);
    patterns->arena = NULL;
    patterns->ngraph = 0; /* of no graph: emptied before the next role */
}

size_t luo_patterns_bytes(const luo_patterns *patterns)
{
    return patterns && patterns->arena ? luo_arena_used(patterns->arena) : 0;
}

void luo_patterns_count(const luo_patterns *patterns, int64_t *emitted, int64_t *bound)
{
    *emitted = patterns->emitted;
    *bound = patterns->bound;
}

static void *copy(luo_arena *arena, const void *from, int32_t n, size_t bytes)
{
    void *at = luo_arena_alloc(arena, (size_t)n * bytes);
    if (at && n) memcpy(at, from, (size_t)n * bytes);
    return at;
}

static bool is_full(const luo_patterns *patterns)
{
    return luo_patterns_bytes(patterns) >= patterns->bytes;
}

/* ---- what tells patterns apart ---- */

typedef struct key {
    emitter *e;
    int32_t *at, n, room;
    int32_t *part_of;  /* by move: id of what the device does in it, + 1; 0: not looked at */
    int32_t *group_of; /* by group: its number among those that the device calls; 0: none yet */
    int32_t ngroups;
} key;

static void add(key *k, int32_t v)
{
    int32_t *at = luo_spec_room(k->e, k->at, k->n, &k->room, sizeof *at);
    if (!at) return;
    k->at = at;
    at[k->n++] = v;
}

/* Calls of one group wait for each other, whichever group that is. */
static void add_group(key *k, int32_t group)
{
    if (!k->group_of[group]) k->group_of[group] = ++k->ngroups;
    add(k, k->group_of[group]);
}

static int32_t code_of(const spec_item *it)
{
    int32_t code = it->kind | it->stream << 4 | it->coll << 8;
    for (int32_t m = 0; m < it->slot.nmessage; m++)
        code |= 1 << (it->slot.message[m].send ? 16 : 17);
    return code;
}

/* The items of the device in a step: *n of them. */
static const spec_item *items_of(const emitter *e, const spec_step *step, int32_t *n)
{
    const int32_t i = luo_spec_take_part(step, e->dev);
    *n = i < 0 ? 0 : step->first[i + 1] - step->first[i];
    return i < 0 ? NULL : &step->item[step->first[i]];
}

/* What the device does in the steps of a move. */
static int32_t part_id(key *k, const spec_move *move)
{
    key part = {.e = k->e};
    add(&part, move->has_messages);
    for (int32_t t = 0; t < move->nsteps; t++) {
        int32_t n;
        const spec_item *it = items_of(k->e, &move->step[t], &n);
        add(&part, -1);
        for (int32_t x = 0; x < n; x++) add(&part, code_of(&it[x]));
    }
    return luo_intern_id(&k->e->s->patterns->part, part.at, part.n, NULL);
}

static void add_part(key *k, int32_t op)
{
    const spec *s = k->e->s;
    int32_t *part = &k->part_of[s->move_of[(int64_t)op * s->in->nlengths + k->e->length]];
    if (!*part) *part = 1 + part_id(k, spec_move_of(s, op, k->e->length));
    if (!*part) k->e->failed = true;
    add(k, *part);
}

/* Which tensors are there, and which have cells: two bits each. */
static void add_tensors(key *k)
{
    const int32_t n = k->e->s->g->ntensors;
    for (int32_t x = 0, bits = 0; x < n; x++) {
        const spec_dims *dims = luo_spec_held(k->e, x);
        bits |= (!dims ? 0 : dims->volume ? 2 : 1) << 2 * (x % 8);
        if (x % 8 < 7 && x < n - 1) continue;
        add(k, bits);
        bits = 0;
    }
}

static bool is_in_task(const spec *s, int32_t o)
{
    return luo_phase_in_task(s->g->op[o].phase);
}

static void add_length(key *k, bool first)
{
    const spec *s = k->e->s;
    add_tensors(k);
    for (int32_t o = 0; o < s->g->nops; o++)
        if (s->g->op[o].kind == LUO_OP_RESHARD && (first || is_in_task(s, o))) add_part(k, o);
}

/* Calls once a step: of Reshards of their own, and of buckets in the device's order. */
static void add_calls(key *k)
{
    const spec *s = k->e->s;
    int32_t n;
    for (int32_t o = 0; o < s->g->nops; o++) {
        if (s->g->op[o].kind != LUO_OP_RESHARD || is_in_task(s, o)) continue;
        const spec_move *move = spec_move_of(s, o, k->e->length);
        for (int32_t t = 0; t < move->nsteps; t++) {
            const spec_item *it = items_of(k->e, &move->step[t], &n);
            for (int32_t x = 0; x < n; x++)
                if (it[x].kind == LUO_INSTR_COLLECTIVE) add_group(k, it[x].slot.group);
        }
    }
    if (!s->nbuckets) return;
    const int32_t d = s->index_of[k->e->dev];
    for (int32_t j = s->first_turn[d]; j < s->first_turn[d + 1]; j++) {
        const spec_turn *turn = &s->turn[j];
        add(k, turn->bucket);
        add(k, turn->item);
        add(k, turn->lane);
        add_group(k, items_of(k->e, &s->bucket[turn->bucket].step, &n)[turn->item].slot.group);
    }
}

/* Pipelines without a batch fall away, so that the number of one says little. */
static void add_layout(key *k, const luo_context *context)
{
    add(k, context->c);
    add(k, context->inner);
    add(k, context->zigzag);
    for (int32_t r = 0; r < context->c; r++)
        add(k, context->share ? (int32_t)context->share[r] : 1);
}

/* Where sequences are cut, what a device does depends on its part and its pipeline. */
static void add_place(key *k, int32_t n)
{
    const spec *s = k->e->s;
    const int32_t p = s->pipe_of[k->e->dev];
    const bool cut = p >= 0 && s->g->npipelines > 0;
    add(k, p < 0 ? -1 : s->class_of[p]);
    add(k, k->e->stage);
    add(k, n);
    add(k, cut ? p : -1);
    add(k, cut ? spec_ring_part(s, k->e->dev) : -1);
    if (cut) add_layout(k, luo_spec_context(s, k->e->dev));
}

/* Length of segment i: those of a task follow each other length by length. */
static int32_t length_of(const spec_lengths *lengths, int32_t i, int32_t nseg)
{
    const int32_t inside = nseg - 2;
    if (lengths->n == 0) return 0;
    return lengths->at[i == 0 || i > inside ? 0 : (i - 1) / (inside / lengths->n)];
}

luo_status luo_spec_find_pattern(emitter *e, const spec_lengths *lengths, int32_t *id)
{
    spec *s = e->s;
    luo_patterns *patterns = s->patterns;
    key k = {.e = e,
             .part_of = LUO_NEW_N(s->scratch, int32_t, s->move_key.n),
             .group_of = LUO_NEW_N(s->scratch, int32_t, s->group_key.n)};
    if (!k.part_of || !k.group_of) return luo_err_nomem(s->err);
    add_place(&k, lengths->n);
    e->length = length_of(lengths, 0, 0);
    add_calls(&k);
    add_length(&k, true);
    for (int32_t i = 1; i < lengths->n; i++) {
        e->length = lengths->at[i];
        add_length(&k, false);
    }
    e->length = length_of(lengths, 0, 0);
    *id = e->failed ? -1 : luo_intern_id(&patterns->key, k.at, k.n, NULL);
    if (*id < 0 || !LUO_VEC_ROOM_IN(patterns->arena, patterns->at, *id, patterns->room))
        return luo_err_nomem(s->err);
    while (patterns->n <= *id) patterns->at[patterns->n++] = (pattern){0};
    return LUO_OK;
}

/* ---- the graph they are of ---- */

static void add_op(key *k, const luo_op *op)
{
    add(k, op->kind);
    add(k, op->phase);
    add(k, op->layer);
    add(k, op->nin);
    add(k, op->nout);
    for (int32_t i = 0; i < op->nin; i++) add(k, op->in[i]);
    for (int32_t i = 0; i < op->nout; i++) add(k, op->out[i]);
}

static void add_class(key *k, const spec_class *class)
{
    const spec *s = k->e->s;
    add(k, class->S);
    add(k, class->v);
    for (int32_t o = 0; o < s->g->nops; o++) {
        add(k, class->vs_in[o]);
        add(k, class->vs_out[o]);
    }
    for (int32_t l = 0; l < s->nlayers; l++) add(k, class->full[l] + 2 * class->selective[l]);
}

static void add_bucket(key *k, const spec_bucket *bucket)
{
    add(k, bucket->phase);
    add(k, bucket->after);
    add(k, bucket->unit);
    add(k, bucket->unit_back);
    add(k, bucket->n);
    for (int32_t i = 0; i < bucket->n; i++) {
        add(k, bucket->part[i].op);
        add(k, bucket->part[i].step);
    }
}

luo_status luo_spec_begin_patterns(spec *s)
{
    luo_patterns *patterns = s->patterns;
    emitter e = {.s = s};
    key k = {.e = &e};
    const size_t mark = luo_arena_mark(s->scratch);
    add(&k, (int32_t)s->in->schedule);
    add(&k, s->g->ntensors);
    for (int32_t o = 0; o < s->g->nops; o++) add_op(&k, &s->g->op[o]);
    for (int32_t i = 0; i < s->in->npipelines; i++) add(&k, s->class_of[i]);
    for (int32_t i = 0; i < s->nclasses; i++) add_class(&k, &s->cls[i]);
    for (int32_t b = 0; b < s->nbuckets; b++) add_bucket(&k, &s->bucket[b]);
    const size_t bytes = (size_t)k.n * sizeof *k.at;
    const bool same =
        patterns->arena && patterns->ngraph == k.n && memcmp(patterns->graph, k.at, bytes) == 0;
    if (!e.failed && (is_full(patterns) || !same)) {
        e.failed = empty(patterns) != LUO_OK ||
                   !(patterns->graph = copy(patterns->arena, k.at, k.n, sizeof *k.at));
        patterns->ngraph = k.n;
    }
    luo_arena_reset(s->scratch, mark);
    return e.failed ? luo_err_nomem(s->err) : LUO_OK;
}

/* ---- keeping ---- */

static origin origin_of(const emitter *e, const luo_instr *instr, const spec_slot_ref *refs)
{
    const spec *s = e->s;
    origin from = {0, instr->slot >= 0 ? refs[instr->slot].item : -1};
    if (instr->op >= s->g->nops || s->g->op[instr->op].kind != LUO_OP_RESHARD) return from;
    from.step = instr->exchange - s->exchange_of[(int64_t)instr->op * s->in->nlengths + e->length];
    return from;
}

static int32_t *copy_operands(luo_arena *arena, luo_instr *instr, int32_t n, int64_t total)
{
    int32_t *at = luo_arena_alloc(arena, (size_t)total * sizeof *at), *next = at;
    for (int32_t i = 0; at && i < n; i++) {
        const int32_t *const from[3] = {instr[i].in, instr[i].out, instr[i].dep};
        const int32_t count[3] = {instr[i].nin, instr[i].nout, instr[i].ndep};
        const int32_t **const to[3] = {&instr[i].in, &instr[i].out, &instr[i].dep};
        for (int k = 0; k < 3; k++) {
            if (count[k]) memcpy(next, from[k], (size_t)count[k] * sizeof *next);
            *to[k] = next;
            next += count[k];
        }
    }
    return at;
}

static luo_instr_piece *copy_pieces(luo_arena *arena, luo_instr *instr, const luo_role *role)
{
    luo_instr_piece *at = LUO_NEW_N(arena, luo_instr_piece, role->npieces);
    for (int32_t i = 0; at && i < role->ninstr; i++) {
        if (!instr[i].npieces) continue;
        memcpy(at + instr[i].first_piece, instr[i].piece, (size_t)instr[i].npieces * sizeof *at);
        instr[i].piece = at + instr[i].first_piece;
    }
    return at;
}

/* Instructions of a role, with all that they point to. */
static luo_instr *copy_instr(luo_arena *arena, const luo_role *role, int64_t noperands,
                             luo_instr_piece **piece)
{
    luo_instr *at = copy(arena, role->instr, role->ninstr, sizeof *at);
    if (!at || !copy_operands(arena, at, role->ninstr, noperands)) return NULL;
    *piece = copy_pieces(arena, at, role);
    return *piece ? at : NULL;
}

luo_status luo_spec_keep_pattern(emitter *e, int32_t id, const spec_lengths *lengths,
                                 const luo_role *role, const spec_slot_ref *refs)
{
    luo_patterns *patterns = e->s->patterns;
    patterns->emitted++;
    if (is_full(patterns)) return LUO_OK;
    pattern x = {.role = *role};
    luo_instr_piece *piece;
    origin *from = LUO_NEW_N(patterns->arena, origin, role->ninstr);
    x.born = copy(patterns->arena, e->born, role->nbuf, sizeof *e->born);
    x.role.seg = copy(patterns->arena, role->seg, role->nseg, sizeof *role->seg);
    for (int32_t i = 0; i < role->ninstr; i++)
        x.noperands += role->instr[i].nin + role->instr[i].nout + role->instr[i].ndep;
    x.role.instr = copy_instr(patterns->arena, role, x.noperands, &piece);
    if (!from || !x.born || !x.role.seg || !x.role.instr) return luo_err_nomem(e->s->err);
    for (int32_t g = 0; g < role->nseg; g++) {
        e->length = length_of(lengths, g, role->nseg);
        for (int32_t i = role->seg[g].first; i < role->seg[g].first + role->seg[g].n; i++)
            from[i] = origin_of(e, &role->instr[i], refs);
    }
    x.origin = from;
    patterns->at[id] = x;
    return LUO_OK;
}

/* ---- binding ---- */

/* What moves on this device; what stays on it is its last item. */
static const spec_item *bind_item(emitter *e, luo_instr *instr, const spec_step *step, int32_t item)
{
    int32_t n;
    const spec_item *it = items_of(e, step, &n);
    it += item < 0 ? n - 1 : item;
    instr->bytes = it->bytes;
    instr->v = it->v;
    instr->variant = it->variant;
    if (item < 0)
        instr->cost = (luo_cost_key){LUO_COST_STREAM, {2 * it->bytes}};
    else
        instr->slot = luo_spec_slot(e, step, item);
    return it;
}

/* piece: of the role. */
static void bind_instr(emitter *e, luo_instr *instr, const origin *from, luo_instr_piece *piece)
{
    const spec *s = e->s;
    const luo_op *op = instr->op < s->g->nops ? &s->g->op[instr->op] : NULL;
    if (!op) {
        const spec_bucket *bucket = &s->bucket[instr->op - s->g->nops];
        instr->exchange = bucket->exchange;
        luo_spec_count_pieces(s, bucket, bind_item(e, instr, &bucket->step, from->item),
                              piece + instr->first_piece);
    } else if (op->kind == LUO_OP_RESHARD) {
        const int64_t at = (int64_t)instr->op * s->in->nlengths + e->length;
        instr->exchange = s->exchange_of[at] + from->step;
        bind_item(e, instr, &s->move[s->move_of[at]].step[from->step], from->item);
    } else if (op->kind == LUO_OP_PLACEHOLDER) {
        instr->bytes = luo_spec_loaded(e, instr->op);
    } else {
        instr->cost = (luo_cost_key){0};
        instr->flops = 0;
        luo_spec_cost(s, instr->op, e->length, e->dev, instr);
    }
}

static void bind_segment(emitter *e, const pattern *p, luo_segment *seg, luo_instr *instr,
                         luo_instr_piece *piece)
{
    if (luo_phase_in_task(seg->phase)) seg->tokens = e->s->in->lengths[e->length].tokens;
    for (int32_t i = seg->first; i < seg->first + seg->n; i++)
        bind_instr(e, &instr[i], &p->origin[i], piece);
}

static luo_buffer *bind_buffers(emitter *e, const pattern *p, const spec_lengths *lengths)
{
    luo_buffer *buf = luo_arena_alloc(e->s->arena, (size_t)p->role.nbuf * sizeof *buf);
    for (int32_t b = 0; buf && b < p->role.nbuf; b++) {
        e->length = lengths->n ? lengths->at[p->born[b].position] : 0;
        const emit_born *born = &p->born[b];
        buf[b] = born->between ? luo_spec_describe_between(e, born->tensor, born->between - 1)
                               : luo_spec_describe(e, born->tensor);
        buf[b].buffer_class = p->born[b].buffer_class;
    }
    return buf;
}

luo_status luo_spec_bind_pattern(emitter *e, int32_t id, const spec_lengths *lengths,
                                 luo_role *role, const spec_slot_ref **refs, bool *bound)
{
    spec *s = e->s;
    const pattern *p = &s->patterns->at[id];
    *bound = p->role.instr != NULL;
    if (!*bound) return LUO_OK;
    luo_instr_piece *piece;
    luo_instr *instr = copy_instr(s->arena, &p->role, p->noperands, &piece);
    luo_segment *seg = copy(s->arena, p->role.seg, p->role.nseg, sizeof *seg);
    luo_buffer *buf = bind_buffers(e, p, lengths);
    if (!instr || !seg || !buf) return luo_err_nomem(s->err);
    for (int32_t g = 0; g < p->role.nseg; g++) {
        e->length = length_of(lengths, g, p->role.nseg);
        bind_segment(e, p, &seg[g], instr, piece);
    }
    *role = p->role;
    role->instr = instr;
    role->seg = seg;
    role->buf = buf;
    role->nslot = e->slot_key.n;
    *refs = copy(s->arena, e->ref, e->slot_key.n, sizeof *e->ref);
    s->patterns->bound++;
    return e->failed || !*refs ? luo_err_nomem(s->err) : LUO_OK;
}
