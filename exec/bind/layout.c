/* layout.c: three parts of the slab: what keeps its place, what F leaves for B, and work,
 * which is packed segment by segment since tasks follow each other. */
#include "exec/bind/layout.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/vec.h"
#include "core/graph/program/memory_rules.h"

enum { NOWHERE = -1, EVERYWHERE = -2 };

typedef struct span { /* of a buffer or a scratch inside its segment: instructions first..last */
    int32_t first, last;
} span;

typedef struct maker {
    luo_arena *arena, *tmp; /* result; thrown away */
    const luo_programs *set;
    const luo_program *program;
    const luo_role *role;
    const luo_route *routes;
    bool messages_inside;
    int64_t weight_bytes;
    int64_t *at, *stride, *scratch; /* of the result */
    int32_t *copy;
    int64_t *need;      /* bytes by buffer */
    int64_t bytes;      /* laid out so far */
    int32_t *home;      /* by buffer: the segment that touches it, NOWHERE, EVERYWHERE */
    int32_t *first_home, *last_home; /* by buffer: the first one, the last one */
    uint8_t *life;      /* by buffer: luo_layout_life */
    bool *exposed;      /* by buffer: some segment reads it before writing it */
    bool *outside;      /* by buffer: touched in Pre or Post */
    int32_t *group;     /* by segment: tree of segments that hand buffers of the life at hand to
                           each other */
    int32_t *done;      /* by instruction: the last one at which its buffers are in use */
    luo_err *err;
} maker;

static int64_t aligned(int64_t bytes)
{
    return (bytes + LUO_LAYOUT_ALIGN - 1) / LUO_LAYOUT_ALIGN * LUO_LAYOUT_ALIGN;
}

static int32_t operands(const luo_instr *instr)
{
    return instr->nin + instr->nout;
}

static int32_t operand(const luo_instr *instr, int32_t k)
{
    return k < instr->nin ? instr->in[k] : instr->out[k - instr->nin];
}

/* Rows of experts: as many as could arrive, which is every token of the longest micro-batch with
 * each of its choices that can be here. A device whose part of evenly dealt rows rounds to nothing
 * has some all the same. All else is as large as the program says. */
static int64_t most_rows(const luo_programs *set, const luo_role *role, const luo_buffer *rows)
{
    int64_t tokens = 0, choices = rows->dim[0] ? rows->dim[0] : rows->shape.dim[0];
    for (int32_t s = 0; s < role->nseg; s++)
        if (role->seg[s].tokens > tokens) tokens = role->seg[s].tokens;
    for (int32_t b = 0; b < role->nbuf; b++)
        if (role->buf[b].letters && strcmp(role->buf[b].letters, "tk") == 0 &&
            role->buf[b].shape.dim[1] < choices)
            choices = role->buf[b].shape.dim[1]; /* of tokens, of which none may be here */
    const bool joined = rows->ann && rows->ann->u < set->npipelines; /* of several pipelines */
    return (joined ? set->npipelines : 1) * tokens * choices;
}

int64_t luo_layout_bytes(const luo_programs *set, const luo_role *role, int32_t buffer)
{
    const luo_buffer *b = &role->buf[buffer];
    if (b->buffer_class == LUO_BUFFER_COMM) return 0;
    if (!b->letters || strncmp(b->letters, "er", 2) != 0) return b->bytes;
    const int64_t width = b->dim[2] ? b->dim[2] : b->shape.dim[2];
    return most_rows(set, role, b) * width * b->elem_bytes;
}

int64_t luo_layout_weights(const luo_buffer *buffer, int64_t weight_bytes)
{
    int64_t volume = buffer->buffer_class == LUO_BUFFER_OPTIMIZER ? weight_bytes : 0;
    for (int32_t d = 0; d < buffer->rank; d++) volume *= buffer->dim[d];
    return aligned(volume);
}

static luo_status open(maker *m)
{
    const luo_role *role = m->role;
    m->need = LUO_NEW_N(m->tmp, int64_t, role->nbuf);
    if (!m->need) return luo_err_nomem(m->err);
    for (int32_t b = 0; b < role->nbuf; b++)
        m->need[b] =
            luo_layout_bytes(m->set, role, b) + luo_layout_weights(&role->buf[b], m->weight_bytes);
    m->at = LUO_NEW_N(m->arena, int64_t, role->nbuf);
    m->stride = LUO_NEW_N(m->arena, int64_t, role->nbuf);
    m->scratch = LUO_NEW_N(m->arena, int64_t, role->ninstr);
    m->copy = LUO_NEW_N(m->arena, int32_t, LUO_LIVES * (int64_t)m->program->ntask);
    m->life = LUO_NEW_N(m->arena, uint8_t, role->nbuf);
    m->first_home = LUO_NEW_N(m->tmp, int32_t, role->nbuf);
    m->home = LUO_NEW_N(m->tmp, int32_t, role->nbuf);
    m->last_home = LUO_NEW_N(m->tmp, int32_t, role->nbuf);
    m->exposed = LUO_NEW_N(m->tmp, bool, role->nbuf);
    m->outside = LUO_NEW_N(m->tmp, bool, role->nbuf);
    m->group = LUO_NEW_N(m->tmp, int32_t, role->nseg);
    m->done = LUO_NEW_N(m->tmp, int32_t, role->ninstr);
    if (!m->at || !m->stride || !m->scratch || !m->copy || !m->home || !m->last_home ||
        !m->life || !m->first_home || !m->exposed || !m->outside || !m->group || !m->done)
        return luo_err_nomem(m->err);
    for (int32_t b = 0; b < role->nbuf; b++) m->home[b] = NOWHERE;
    for (int32_t i = 0; i < role->ninstr; i++) m->scratch[i] = -1;
    return LUO_OK;
}

/* ---- who touches what ---- */

static bool per_micro_batch(const luo_segment *segment)
{
    return luo_phase_in_task(segment->phase);
}

static void touch(maker *m, int32_t s, int32_t b, bool read, int32_t *seen)
{
    if (seen[b] != s + 1 && read) m->exposed[b] = true;
    seen[b] = s + 1;
    if (m->home[b] == NOWHERE) m->home[b] = m->first_home[b] = s;
    if (m->home[b] != s) m->home[b] = EVERYWHERE;
    m->last_home[b] = s;
    if (!per_micro_batch(&m->role->seg[s])) m->outside[b] = true;
}

static luo_status look(maker *m)
{
    const luo_role *role = m->role;
    int32_t *seen = LUO_NEW_N(m->tmp, int32_t, role->nbuf);
    if (!seen) return luo_err_nomem(m->err);
    for (int32_t s = 0; s < role->nseg; s++)
        for (int32_t i = role->seg[s].first; i < role->seg[s].first + role->seg[s].n; i++) {
            const luo_instr *instr = &role->instr[i];
            for (int32_t k = 0; k < instr->nin; k++) touch(m, s, instr->in[k], true, seen);
            for (int32_t k = 0; k < instr->nout; k++) touch(m, s, instr->out[k], false, seen);
        }
    for (int32_t b = 0; b < role->nbuf; b++) {
        if (m->home[b] != EVERYWHERE || role->seg[m->last_home[b]].phase != LUO_PHASE_BW) continue;
        const bool halves = role->seg[m->first_home[b]].phase == LUO_PHASE_BI;
        m->life[b] = halves ? LUO_LIFE_HALVES : LUO_LIFE_WEIGHTS;
    }
    return LUO_OK;
}

/* One segment hands it to another, for the same micro-batch. */
static bool is_kept(const maker *m, int32_t b)
{
    const bool state = m->role->buf[b].buffer_class <= LUO_BUFFER_OPTIMIZER;
    return !state && !m->outside[b] && m->home[b] == EVERYWHERE && m->exposed[b];
}

/* Nobody else ever lies there. */
static bool is_own(const maker *m, int32_t b)
{
    if (m->role->buf[b].buffer_class <= LUO_BUFFER_OPTIMIZER) return true;
    return (m->home[b] == EVERYWHERE || m->exposed[b]) && !is_kept(m, b);
}

static int64_t scratch_bytes(const maker *m, int32_t i)
{
    const luo_instr *instr = &m->role->instr[i];
    if (!m->routes || instr->exchange < 0 || m->routes[i].first != i) return 0;
    return m->routes[i].scratch_elements * m->set->exchanges[instr->exchange].elem_bytes;
}

static void put_scratch(maker *m, int32_t i, int64_t at)
{
    for (int32_t k = i; k <= m->routes[i].last; k++) m->scratch[k] = at;
}

/* That of calls which may run beside tasks. */
static void place_scratch_apart(maker *m)
{
    for (int32_t i = 0; i < m->role->ninstr; i++) {
        const luo_instr *instr = &m->role->instr[i];
        if (luo_phase_in_task(instr->phase) || instr->stream != LUO_STREAM_DP) continue;
        const int64_t bytes = scratch_bytes(m, i);
        if (bytes > 0) put_scratch(m, i, m->bytes);
        m->bytes += aligned(bytes);
    }
}

static luo_status place_own(maker *m)
{
    const int32_t n = m->role->nbuf;
    int32_t *turn = LUO_NEW_N(m->tmp, int32_t, n), *order = LUO_NEW_N(m->tmp, int32_t, n), last = 0;
    if (!turn || !order) return luo_err_nomem(m->err);
    luo_role_order(m->role, turn);
    for (int32_t b = 0; b < n; b++)
        if (turn[b] >= 0) order[turn[b]] = b, last++;
    for (int32_t b = 0; b < n; b++)
        if (turn[b] < 0) order[last++] = b;
    for (int32_t k = 0; k < n; k++) {
        if (!is_own(m, order[k])) continue;
        m->at[order[k]] = m->bytes;
        m->bytes += aligned(m->need[order[k]]);
    }
    place_scratch_apart(m);
    return LUO_OK;
}

/* ---- what is left for another task: copies ---- */

static int32_t root(const maker *m, int32_t s)
{
    while (m->group[s] != s) s = m->group[s];
    return s;
}

static bool is_of(const maker *m, int32_t b, luo_layout_life life)
{
    return m->life[b] == life && is_kept(m, b);
}

static luo_status join_segments(maker *m, luo_layout_life life)
{
    const luo_role *role = m->role;
    int32_t *before = LUO_NEW_N(m->tmp, int32_t, role->nbuf); /* segment + 1 */
    if (!before) return luo_err_nomem(m->err);
    for (int32_t s = 0; s < role->nseg; s++) m->group[s] = s;
    for (int32_t s = 0; s < role->nseg; s++)
        for (int32_t i = role->seg[s].first; i < role->seg[s].first + role->seg[s].n; i++)
            for (int32_t k = 0; k < operands(&role->instr[i]); k++) {
                const int32_t b = operand(&role->instr[i], k);
                if (!is_of(m, b, life)) continue;
                if (before[b]) m->group[root(m, s)] = root(m, before[b] - 1);
                before[b] = s + 1;
            }
    for (int32_t s = 0; s < role->nseg; s++) m->group[s] = root(m, s);
    return LUO_OK;
}

typedef struct unit {                 /* the tasks of one micro-batch in one group of segments */
    int32_t group, micro_batch, last; /* task */
    int32_t copy;                     /* -1: none yet */
} unit;

static int by_unit(const void *a, const void *b)
{
    const unit *x = a, *y = b;
    if (x->group != y->group) return x->group < y->group ? -1 : 1;
    if (x->micro_batch != y->micro_batch) return x->micro_batch < y->micro_batch ? -1 : 1;
    return (x->last > y->last) - (x->last < y->last);
}

static unit *find_unit(unit *at, int32_t n, int32_t group, int32_t micro_batch)
{
    int32_t lo = 0, hi = n - 1;
    while (lo < hi) {
        const int32_t mid = lo + (hi - lo) / 2;
        const bool before =
            at[mid].group < group || (at[mid].group == group && at[mid].micro_batch < micro_batch);
        if (before)
            lo = mid + 1;
        else
            hi = mid;
    }
    return &at[lo];
}

/* One per (group, micro-batch), with its last task. */
static luo_status list_units(const maker *m, unit **out, int32_t *nout)
{
    const luo_program *program = m->program;
    unit *at = LUO_NEW_N(m->tmp, unit, program->ntask);
    int32_t n = 0;
    if (!at) return luo_err_nomem(m->err);
    for (int32_t t = 0; t < program->ntask; t++)
        at[t] = (unit){m->group[program->tasks[t].seg], program->tasks[t].micro_batch, t, -1};
    if (program->ntask) qsort(at, (size_t)program->ntask, sizeof *at, by_unit);
    for (int32_t k = 0; k < program->ntask; k++) {
        const bool same =
            n && at[n - 1].group == at[k].group && at[n - 1].micro_batch == at[k].micro_batch;
        at[same ? n - 1 : n++] = at[k];
    }
    *out = at;
    *nout = n;
    return LUO_OK;
}

/* Groups whose copies are equally large share them: pool[group] is the first of these.
 * Micro-batches of several lengths, or of pipelines whose stage is lost, are not all in flight at
 * once. */
static void find_pools(const maker *m, const int64_t *sum, int32_t *pool)
{
    for (int32_t s = 0; s < m->role->nseg; s++) {
        pool[s] = s;
        for (int32_t t = 0; t < s && pool[s] == s; t++)
            if (sum[t] == sum[s]) pool[s] = t;
    }
}

/* The lowest copy that no micro-batch in flight uses. most[pool]: copies needed. */
static luo_status choose_copies(maker *m, luo_layout_life life, const int32_t *pool, int32_t *most)
{
    const luo_program *program = m->program;
    const int32_t nseg = m->role->nseg;
    unit *units = NULL;
    int32_t n = 0;
    LUO_TRY(list_units(m, &units, &n));
    int32_t *start = LUO_NEW_N(m->tmp, int32_t, nseg + 1); /* of a pool's flags */
    bool *used = LUO_NEW_N(m->tmp, bool, n);
    if (!start || !used) return luo_err_nomem(m->err);
    for (int32_t k = 0; k < n; k++) start[pool[units[k].group] + 1]++;
    for (int32_t s = 0; s < nseg; s++) start[s + 1] += start[s];
    for (int32_t t = 0; t < program->ntask; t++) {
        const int32_t g = m->group[program->tasks[t].seg], of = pool[g];
        unit *u = find_unit(units, n, g, program->tasks[t].micro_batch);
        if (u->copy < 0) {
            u->copy = 0;
            while (used[start[of] + u->copy]) u->copy++;
            used[start[of] + u->copy] = true;
            if (u->copy >= most[of]) most[of] = u->copy + 1;
        }
        m->copy[(int64_t)life * program->ntask + t] = u->copy;
        if (u->last == t) used[start[of] + u->copy] = false;
    }
    return LUO_OK;
}

/* Copies of a pool lie one behind the other, each with all buffers of the group that uses it. */
static luo_status place_life(maker *m, luo_layout_life life)
{
    const luo_role *role = m->role;
    int32_t *most = LUO_NEW_N(m->tmp, int32_t, role->nseg);
    int64_t *sum = LUO_NEW_N(m->tmp, int64_t, role->nseg);
    int64_t *start = LUO_NEW_N(m->tmp, int64_t, role->nseg);
    int32_t *pool = LUO_NEW_N(m->tmp, int32_t, role->nseg);
    if (!most || !sum || !start || !pool) return luo_err_nomem(m->err);
    LUO_TRY(join_segments(m, life));
    for (int32_t b = 0; b < role->nbuf; b++) {
        if (!is_of(m, b, life)) continue;
        const int32_t g = m->group[m->last_home[b]];
        m->at[b] = sum[g];
        sum[g] += aligned(m->need[b]);
    }
    find_pools(m, sum, pool);
    LUO_TRY(choose_copies(m, life, pool, most));
    for (int32_t s = 0; s < role->nseg; s++) {
        start[s] = m->bytes;
        m->bytes += most[s] * sum[s];
    }
    for (int32_t b = 0; b < role->nbuf; b++) {
        if (!is_of(m, b, life)) continue;
        const int32_t g = m->group[m->last_home[b]];
        m->at[b] += start[pool[g]];
        m->stride[b] = sum[g];
    }
    return LUO_OK;
}

static luo_status place_kept(maker *m)
{
    bool any[LUO_LIVES] = {false};
    for (int32_t b = 0; b < m->role->nbuf; b++) any[m->life[b]] |= is_kept(m, b);
    for (int life = 0; life < LUO_LIVES; life++)
        if (any[life]) LUO_TRY(place_life(m, (luo_layout_life)life));
    return LUO_OK;
}

/* ---- work: packed inside a segment ---- */

/* Until when an instruction uses its buffers. */
luo_status luo_layout_done(luo_arena *tmp, const luo_role *role, const luo_segment *seg,
                           int32_t *done, luo_err *err)
{
    const int32_t end = seg->first + seg->n;
    const size_t mark = luo_arena_mark(tmp);
    int32_t *next = LUO_NEW_N(tmp, int32_t, seg->n); /* pending after this one on its lane */
    if (!next) return luo_err_nomem(err);
    int32_t oldest[LUO_LANES], newest[LUO_LANES];
    memset(oldest, -1, sizeof oldest);
    for (int32_t i = seg->first; i < end; i++) {
        const luo_instr *instr = &role->instr[i];
        for (int32_t k = 0; k < instr->ndep; k++) {
            if (instr->dep[k] < seg->first || instr->dep[k] >= end) continue;
            int32_t *o = &oldest[luo_instr_lane(&role->instr[instr->dep[k]])];
            for (; *o >= 0 && *o <= instr->dep[k]; *o = next[*o - seg->first]) done[*o] = i - 1;
        }
        const bool comm = instr->kind == LUO_INSTR_COLLECTIVE || instr->kind == LUO_INSTR_P2P;
        const int32_t lane = luo_instr_lane(instr);
        done[i] = comm ? end - 1 : i;
        if (!comm) continue;
        next[i - seg->first] = -1;
        if (oldest[lane] < 0)
            oldest[lane] = i;
        else
            next[newest[lane] - seg->first] = i;
        newest[lane] = i;
    }
    luo_arena_reset(tmp, mark);
    return LUO_OK;
}

typedef struct block { /* in use until instruction `last` */
    int64_t lo, hi;
    int32_t last;
} block;

typedef struct packer {
    maker *m;
    block *at; /* by address */
    int32_t n, cap;
    int64_t top;
} packer;

/* The lowest free place for `bytes` from instruction `first` to `last`. */
static luo_status pack(packer *p, int64_t bytes, int32_t first, int32_t last, int64_t *at)
{
    const int64_t size = aligned(bytes);
    int64_t lo = 0;
    int32_t n = 0, before = -1; /* position of the new block */
    for (int32_t k = 0; k < p->n; k++) {
        const block b = p->at[k];
        if (b.last < first) continue;
        if (before < 0 && b.lo - lo >= size) before = n;
        if (before < 0) lo = b.hi;
        p->at[n++] = b;
    }
    p->n = n;
    *at = lo;
    if (size == 0) return LUO_OK;
    if (!LUO_VEC_ROOM_IN(p->m->tmp, p->at, n, p->cap)) return luo_err_nomem(p->m->err);
    if (before < 0) before = n;
    memmove(&p->at[before + 1], &p->at[before], (size_t)(n - before) * sizeof *p->at);
    p->at[before] = (block){lo, lo + size, last};
    p->n++;
    if (lo + size > p->top) p->top = lo + size;
    return LUO_OK;
}

/* Scratch of the Reshard that begins with instruction i. */
static luo_status pack_scratch(packer *p, int32_t i)
{
    maker *m = p->m;
    const int64_t bytes = scratch_bytes(m, i);
    int32_t last = i;
    int64_t at;
    if (bytes == 0 || m->scratch[i] >= 0) return LUO_OK;
    for (int32_t k = i; k <= m->routes[i].last; k++)
        if (m->done[k] > last) last = m->done[k];
    LUO_TRY(pack(p, bytes, i, last, &at));
    put_scratch(m, i, m->bytes + at);
    return LUO_OK;
}

static luo_status pack_segment(maker *m, const luo_segment *seg, span *spans, packer *p)
{
    const luo_role *role = m->role;
    LUO_TRY(luo_layout_done(m->tmp, role, seg, m->done, m->err));
    for (int32_t i = seg->first; i < seg->first + seg->n; i++)
        for (int32_t k = 0; k < operands(&role->instr[i]); k++) {
            span *s = &spans[operand(&role->instr[i], k)];
            if (s->first < 0) *s = (span){i, i};
            if (m->done[i] > s->last) s->last = m->done[i];
        }
    p->n = 0;
    for (int32_t i = seg->first; i < seg->first + seg->n; i++) {
        LUO_TRY(pack_scratch(p, i));
        for (int32_t k = 0; k < operands(&role->instr[i]); k++) {
            const int32_t b = operand(&role->instr[i], k);
            if (is_own(m, b) || is_kept(m, b) || spans[b].first != i) continue;
            LUO_TRY(pack(p, m->need[b], i, spans[b].last, &m->at[b]));
            m->at[b] += m->bytes;
            spans[b].first = EVERYWHERE; /* placed */
        }
    }
    return LUO_OK;
}

static luo_status place_work(maker *m)
{
    packer p = {.m = m};
    span *spans = LUO_NEW_N(m->tmp, span, m->role->nbuf);
    if (!spans) return luo_err_nomem(m->err);
    for (int32_t b = 0; b < m->role->nbuf; b++) spans[b] = (span){NOWHERE, NOWHERE};
    for (int32_t s = 0; s < m->role->nseg; s++)
        LUO_TRY(pack_segment(m, &m->role->seg[s], spans, &p));
    m->bytes += p.top;
    return LUO_OK;
}

bool luo_layout_has_task_buckets(const luo_role *role)
{
    for (int32_t i = 0; i < role->ninstr; i++) {
        const bool in_task = luo_phase_in_task(role->instr[i].phase);
        if (role->instr[i].npieces > 0 && in_task) return true;
    }
    return false;
}

/* Calls of buckets in Pre or in Post: one place a lane, its largest call's. */
static int64_t packed_in(const maker *m, const int32_t *turn, luo_phase phase)
{
    int64_t most[LUO_DP_LANES] = {0}, sum = 0;
    for (int32_t i = 0; i < m->role->ninstr; i++) {
        const luo_instr *in = &m->role->instr[i];
        if ((luo_phase)in->phase != phase || in->npieces == 0) continue;
        const int64_t bytes = aligned(luo_memory_packed(m->set, m->program, turn, in));
        if (bytes > most[in->lane]) most[in->lane] = bytes;
    }
    for (int32_t l = 0; l < LUO_DP_LANES; l++) sum += most[l];
    return sum;
}

static luo_status make_room(maker *m, int64_t own)
{
    int32_t *turn = LUO_NEW_N(m->tmp, int32_t, m->role->nbuf);
    if (!turn) return luo_err_nomem(m->err);
    luo_role_order(m->role, turn);
    const int64_t before = packed_in(m, turn, LUO_PHASE_PRE);
    const int64_t behind = packed_in(m, turn, LUO_PHASE_POST);
    const int64_t need = before > behind ? before : behind;
    if (m->bytes < own + need) m->bytes = own + need;
    return LUO_OK;
}

static luo_status make(maker *m, luo_layout *out)
{
    LUO_TRY(open(m));
    LUO_TRY(look(m));
    LUO_TRY(place_own(m));
    const int64_t own = m->bytes;
    LUO_TRY(place_kept(m));
    if (m->messages_inside && !luo_layout_has_task_buckets(m->role)) LUO_TRY(make_room(m, own));
    const int64_t kept = m->bytes - own;
    LUO_TRY(place_work(m));
    *out = (luo_layout){.bytes = m->bytes,
                        .nbuf = m->role->nbuf,
                        .at = m->at,
                        .stride = m->stride,
                        .life = m->life,
                        .ntask = m->program->ntask,
                        .copy = m->copy,
                        .scratch = m->scratch,
                        .own = own,
                        .kept = kept,
                        .work = m->bytes - own - kept};
    return LUO_OK;
}

luo_status luo_layout_make(luo_arena *arena, const luo_programs *set, const luo_program *program,
                           const luo_route *routes, bool messages_inside, int64_t weight_bytes,
                           luo_layout *out, luo_err *err)
{
    maker m = {.arena = arena,
               .tmp = luo_arena_new(1 << 16),
               .set = set,
               .program = program,
               .role = &set->roles[program->role],
               .routes = routes,
               .messages_inside = messages_inside,
               .weight_bytes = weight_bytes,
               .err = err};
    if (!m.tmp) return luo_err_nomem(err);
    const luo_status st = make(&m, out);
    luo_arena_free(m.tmp);
    return st;
}
