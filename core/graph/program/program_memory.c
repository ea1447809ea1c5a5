/* program_memory.c: memory of one device from buffer lifetimes (docs/cost-model.md#memory).
 *
 * A kept activation lives from the instruction of F (or BI) that makes it to the last one of B
 * (or BI, BW) that touches it, once per micro-batch in flight; work lives inside one task, and so
 * does what a reduce-scatter of gradients receives beside the gradients it reads. One pass over the
 * instructions gives every segment its own curve, one pass over the tasks adds them up. */
#include <string.h>

#include "core/graph/program/memory_rules.h"

typedef struct span { /* of one buffer in one segment */
    int32_t first, last; /* instructions; -1: untouched */
    bool written_first;
} span;

typedef struct look {
    const luo_role *role;
    int32_t *home;  /* by buffer: last segment of B, BI or BW that touches it, -1: none */
    int64_t *kept, *work; /* by instruction of the segment: bytes that appear (or go) there */
    span *span;     /* by buffer */
    int32_t *turn;  /* by buffer: luo_role_order */
    int64_t *bytes; /* by buffer: luo_memory_bytes */
    int64_t made, freed; /* of the segment: kept bytes that appear, and that go */
} look;

static void keep(look *l, int32_t at, int64_t bytes)
{
    l->kept[at] += bytes;
    l->made += bytes;
}

static void give_back(look *l, int32_t at, int64_t bytes)
{
    l->kept[at] -= bytes;
    l->freed += bytes;
}

static void touch(look *l, int32_t b, int32_t i, bool write)
{
    span *s = &l->span[b];
    if (s->first < 0) *s = (span){i, i, write};
    s->last = i;
}

static void find_homes(look *l)
{
    const luo_role *role = l->role;
    for (int32_t b = 0; b < role->nbuf; b++) l->home[b] = -1;
    for (int32_t s = 0; s < role->nseg; s++) {
        if (!luo_phase_is_backward(role->seg[s].phase)) continue;
        for (int32_t i = role->seg[s].first; i < role->seg[s].first + role->seg[s].n; i++) {
            for (int32_t k = 0; k < role->instr[i].nin; k++) l->home[role->instr[i].in[k]] = s;
            for (int32_t k = 0; k < role->instr[i].nout; k++) l->home[role->instr[i].out[k]] = s;
        }
    }
}

static void place(look *l, int32_t s, int32_t b)
{
    const luo_segment *seg = &l->role->seg[s];
    const luo_buffer *buf = &l->role->buf[b];
    const int64_t bytes = l->bytes[b];
    span *p = &l->span[b];
    const int32_t from = p->first - seg->first, to = p->last - seg->first;
    if (buf->buffer_class == LUO_BUFFER_STASH) {
        if (!luo_phase_ends_backward(seg->phase) && p->written_first) keep(l, from, bytes);
        if (luo_phase_is_backward(seg->phase) && l->home[b] == s) give_back(l, to + 1, bytes);
    } else if (buf->buffer_class >= LUO_BUFFER_WORK) {
        l->work[from] += bytes;
        l->work[to + 1] -= bytes;
    }
    p->first = -1;
}

static void add_up(look *l, const luo_segment *seg, luo_memory_curve *curve)
{
    int64_t kept = 0, work = 0;
    *curve = (luo_memory_curve){.made = l->made, .freed = l->freed, .at = seg->first};
    for (int32_t i = 0; i <= seg->n; i++) {
        kept += l->kept[i];
        work += l->work[i];
        if (i < seg->n && kept + work > curve->peak) {
            curve->peak = kept + work;
            curve->kept = kept;
            curve->work = work;
            curve->at = seg->first + i;
        }
        l->kept[i] = l->work[i] = 0;
    }
    l->made = l->freed = 0;
}

/* Bytes that a reduce-scatter receives if it leaves its part where the whole was: they need a place
 * of their own meanwhile. */
static int64_t received_apart(const luo_programs *set, const luo_program *program,
                              const luo_instr *instr)
{
    if (set->memory.flat_gradients || instr->kind != LUO_INSTR_COLLECTIVE ||
        instr->coll != LUO_COLL_RS || instr->slot < 0 || instr->nin == 0 || instr->nout == 0 ||
        instr->in[0] != instr->out[0] || instr->npieces > 1)
        return 0;
    const luo_group *group = &set->groups[program->slots[instr->slot].group];
    return (instr->bytes + group->n - 1) / group->n;
}

int64_t luo_memory_packed(const luo_programs *set, const luo_program *program, const int32_t *turn,
                          const luo_instr *instr)
{
    const luo_role *role = &set->roles[program->role];
    if (instr->npieces < 2 || set->memory.flat_gradients || luo_instr_adjoins(role, turn, instr))
        return 0;
    const luo_group *group = &set->groups[program->slots[instr->slot].group];
    return instr->bytes +
           (instr->coll == LUO_COLL_RS ? (instr->bytes + group->n - 1) / group->n : 0);
}

static bool is_shared(const luo_instr *instr)
{
    return instr->kind == LUO_INSTR_COLLECTIVE && instr->stream == LUO_STREAM_DP;
}

/* The operands of calls first..end-1 are in use up to instruction `last`. */
static void hold(look *l, int32_t first, int32_t end, int32_t last)
{
    for (int32_t i = first; i < end; i++) {
        const luo_instr *in = &l->role->instr[i];
        if (!is_shared(in)) continue;
        for (int32_t k = 0; k < in->nin + in->nout; k++) {
            span *s = &l->span[k < in->nin ? in->in[k] : in->out[k - in->nin]];
            if (s->last < last) s->last = last;
        }
    }
}

/* Inside tasks gradients are cut while the next ones are made: what a call reads is in use until
 * something waits for it, or for a later one, since these calls follow each other. */
static void hold_until_waited(look *l, const luo_segment *seg)
{
    const int32_t end = seg->first + seg->n;
    int32_t open = seg->first;
    if (!luo_phase_in_task(seg->phase)) return;
    for (int32_t i = seg->first; i < end; i++)
        for (int32_t k = 0; k < l->role->instr[i].ndep; k++) {
            const int32_t d = l->role->instr[i].dep[k];
            if (d < open || d >= end || !is_shared(&l->role->instr[d])) continue;
            hold(l, open, d + 1, i);
            open = d + 1;
        }
    hold(l, open, end, end - 1);
}

/* Outputs that forward of these tokens sends on, where the stack keeps them until backward. */
static int64_t sent(const look *l, const luo_programs *set, int32_t chunk, int64_t tokens)
{
    const luo_role *role = l->role;
    int64_t n = 0;
    if (!set->memory.outputs_kept) return 0;
    for (int32_t s = 0; s < role->nseg; s++) {
        const luo_segment *seg = &role->seg[s];
        if (seg->phase != LUO_PHASE_F || seg->chunk != chunk || seg->tokens != tokens) continue;
        for (int32_t i = seg->first; i < seg->first + seg->n; i++) {
            const luo_instr *in = &role->instr[i];
            if (in->kind != LUO_INSTR_P2P || in->stream != LUO_STREAM_PP) continue;
            if (in->bytes == 0 || in->nin == 0) continue;
            if (role->buf[in->in[0]].buffer_class != LUO_BUFFER_STASH) n += l->bytes[in->in[0]];
        }
    }
    return n;
}

static void keep_outputs(look *l, const luo_programs *set, const luo_segment *seg)
{
    const int64_t n = sent(l, set, seg->chunk, seg->tokens);
    if (seg->phase == LUO_PHASE_F) keep(l, seg->n, n); /* work until then */
    if (luo_phase_begins_backward(seg->phase)) give_back(l, seg->n, n);
}

static void make_curve(look *l, const luo_programs *set, const luo_program *program, int32_t s,
                       luo_memory_curve *curve)
{
    const luo_role *role = l->role;
    const luo_segment *seg = &role->seg[s];
    const int32_t end = seg->first + seg->n;
    for (int32_t i = seg->first; i < end; i++) {
        for (int32_t k = 0; k < role->instr[i].nin; k++) touch(l, role->instr[i].in[k], i, false);
        for (int32_t k = 0; k < role->instr[i].nout; k++) touch(l, role->instr[i].out[k], i, true);
    }
    hold_until_waited(l, seg);
    int64_t most[LUO_DP_LANES] = {0}; /* from the first bucket of the lane on */
    for (int32_t i = seg->first; i < end; i++) {
        int64_t bucket = 0;
        if (!set->memory.calls_beside)
            bucket = luo_memory_packed(set, program, l->turn, &role->instr[i]);
        int64_t *had = &most[role->instr[i].lane];
        if (bucket > *had) {
            l->work[i - seg->first] += bucket - *had;
            l->work[seg->n] -= bucket - *had;
            *had = bucket;
        }
        const int64_t apart = received_apart(set, program, &role->instr[i]);
        l->work[i - seg->first] += apart; /* all of them are under way before the first is needed */
        l->work[seg->n] -= apart;
        const int64_t beside = luo_memory_beside(set, role, &role->instr[i]);
        l->work[i - seg->first] += beside;
        l->work[i - seg->first + 1] -= beside;
        for (int32_t k = 0; k < role->instr[i].nin + role->instr[i].nout; k++) {
            const luo_instr *in = &role->instr[i];
            const int32_t b = k < in->nin ? in->in[k] : in->out[k - in->nin];
            if (l->span[b].first >= 0) place(l, s, b);
        }
    }
    keep_outputs(l, set, seg);
    add_up(l, seg, curve);
}

/* Where calls run beside tasks packed ones have room of their own, in each lane that of its
 * largest. */
static int64_t packed_room(const look *l, const luo_programs *set, const luo_program *program)
{
    int64_t most[LUO_DP_LANES] = {0}, sum = 0;
    for (int32_t i = 0; set->memory.calls_beside && i < l->role->ninstr; i++) {
        const luo_instr *instr = &l->role->instr[i];
        const int64_t bytes = luo_memory_packed(set, program, l->turn, instr);
        if (bytes > most[instr->lane]) most[instr->lane] = bytes;
    }
    for (int32_t k = 0; k < LUO_DP_LANES; k++) sum += most[k];
    return sum;
}

/* Tensors are cut by whole rows or heads, which some devices may get none of; an array is cut
 * anywhere, so what is cut at all is cut evenly. */
static void cut_evenly(const luo_programs *set, int64_t weights, int64_t states, luo_memory *memory)
{
    if (!set->memory.flat_gradients || states == 0 || states >= weights) return;
    memory->optimizer = (int64_t)((double)memory->optimizer / (double)states * (double)weights /
                                  (set->copies > 0 ? set->copies : set->npipelines));
}

/* Matrices of experts have other copies than all else. */
static bool is_of_experts(const luo_buffer *buffer)
{
    return buffer->rank == 3 && buffer->letters && buffer->letters[0] == 'e';
}

static void count_state(const luo_programs *set, const luo_role *role, luo_memory *memory)
{
    int64_t weight = 0, weights = 0, states = 0, experts = 0;
    for (int32_t b = 0; b < role->nbuf; b++) {
        const int64_t n = role->buf[b].bytes;
        const bool apart = is_of_experts(&role->buf[b]);
        switch ((luo_buffer_class)role->buf[b].buffer_class) {
        case LUO_BUFFER_WEIGHT:
            memory->weights += n;
            if (!weight || role->buf[b].elem_bytes < weight) /* what counts move may be wider */
                weight = role->buf[b].elem_bytes;
            if (!apart && !strchr(role->buf[b].tensor, '@')) /* a copy has no state */
                weights += n / role->buf[b].elem_bytes;
            break;
        case LUO_BUFFER_GRADIENT:
            memory->gradients += n;
            break;
        case LUO_BUFFER_OPTIMIZER:
            if (apart) experts += n;
            else memory->optimizer += n, states += n / role->buf[b].elem_bytes;
            break;
        case LUO_BUFFER_STASH:
        case LUO_BUFFER_WORK:
        case LUO_BUFFER_COMM: break;
        }
    }
    cut_evenly(set, weights, states, memory);
    memory->optimizer += experts;
    luo_memory_held(&set->memory, weight, &memory->gradients, &memory->optimizer);
    memory->gradients += luo_memory_dummies(set, role);
}

/* The most bytes of tensors at any moment. */
static int64_t walk_tasks(const luo_program *program, const luo_memory_curve *curves,
                          luo_memory *memory)
{
    const int64_t room = memory->buffers;
    const int64_t state = memory->weights + memory->gradients + memory->optimizer + room;
    int64_t kept = 0, most = -1;
    for (int32_t t = 0; t < program->ntask; t++) {
        const luo_memory_curve *curve = &curves[program->tasks[t].seg];
        if (state + kept + curve->peak > most) {
            most = state + kept + curve->peak;
            memory->activations = kept + curve->kept;
            memory->buffers = curve->work + room;
            memory->peak_instruction = curve->at;
        }
        kept += curve->made - curve->freed;
    }
    return most < 0 ? state : most;
}

luo_status luo_program_account(luo_arena *arena, const luo_programs *set,
                               const luo_program *program, luo_memory_account *out, luo_err *err)
{
    const luo_role *role = &set->roles[program->role];
    luo_memory_curve *curves = LUO_NEW_N(arena, luo_memory_curve, role->nseg);
    const size_t mark = luo_arena_mark(arena);
    look l = {.role = role,
              .home = LUO_NEW_N(arena, int32_t, role->nbuf),
              .kept = LUO_NEW_N(arena, int64_t, role->ninstr + 1),
              .work = LUO_NEW_N(arena, int64_t, role->ninstr + 1),
              .span = LUO_NEW_N(arena, span, role->nbuf),
              .turn = LUO_NEW_N(arena, int32_t, role->nbuf),
              .bytes = LUO_NEW_N(arena, int64_t, role->nbuf)};
    if (!l.home || !l.kept || !l.work || !l.span || !l.turn || !l.bytes || !curves)
        return luo_err_nomem(err);
    for (int32_t b = 0; b < role->nbuf; b++) l.span[b].first = -1;
    find_homes(&l);
    luo_role_order(role, l.turn);
    luo_memory_bytes(set, role, l.bytes);
    for (int32_t s = 0; s < role->nseg; s++) make_curve(&l, set, program, s, &curves[s]);
    *out = (luo_memory_account){.curve = curves};
    count_state(set, role, &out->state);
    out->state.buffers = packed_room(&l, set, program);
    luo_arena_reset(arena, mark);
    return LUO_OK;
}

luo_status luo_program_communicators(luo_arena *scratch, const luo_programs *set,
                                     const luo_program *program, int32_t *out, luo_err *err)
{
    const luo_role *role = &set->roles[program->role];
    const size_t mark = luo_arena_mark(scratch);
    bool *is_in = LUO_NEW_N(scratch, bool, set->ngroups), speaks[LUO_LANES] = {false};
    if (!is_in) return luo_err_nomem(err);
    for (int32_t i = 0; i < role->ninstr; i++) {
        const luo_instr *in = &role->instr[i];
        if (in->kind == LUO_INSTR_COLLECTIVE)
            is_in[program->slots[in->slot].group] = true;
        else if (in->kind == LUO_INSTR_P2P && program->slots[in->slot].nmessage > 0)
            speaks[luo_instr_lane(in)] = true;
    }
    *out = 0;
    for (int32_t g = 0; g < set->ngroups; g++) *out += is_in[g] && set->groups[g].n >= 2;
    for (int32_t l = 0; l < LUO_LANES; l++) *out += speaks[l];
    luo_arena_reset(scratch, mark);
    return LUO_OK;
}

luo_status luo_program_memory(luo_arena *scratch, const luo_programs *set, int32_t device,
                              luo_memory *out, luo_err *err)
{
    const luo_program *program = luo_programs_find(set, device);
    if (!program)
        return luo_err_set(err, LUO_EINPUT, "device %d has no program; name a device of the plan.",
                           (int)device);
    const size_t mark = luo_arena_mark(scratch);
    luo_memory_account account;
    LUO_TRY(luo_program_account(scratch, set, program, &account, err));
    luo_memory memory = account.state;
    int32_t communicators = 0;
    if (set->memory.communicator_bytes > 0)
        LUO_TRY(luo_program_communicators(scratch, set, program, &communicators, err));
    const int64_t tensors = walk_tasks(program, account.curve, &memory);
    luo_memory_total(&set->memory, tensors, communicators, &memory);
    luo_arena_reset(scratch, mark);
    *out = memory;
    return LUO_OK;
}
