/* memory_walk.h: a step of one device without numbers: every instruction reads and
 * writes marks in 64-byte cells of memory laid out by exec/bind/layout.c. The mark of a value is a
 * hash of what made it and of the marks that it read there and then, so two walks agree only if
 * every instruction has found the same values.
 *
 * Communication is as late and as early as it may be: its results and its scratch are wrong from
 * the moment of its issue until somebody waits for it; what it reads has to be the same at both
 * ends. */
#ifndef LUO_TESTS_CUDA_MEMORY_WALK_H
#define LUO_TESTS_CUDA_MEMORY_WALK_H
#include <stdlib.h>
#include <string.h>

#include "core/base/hash.h"
#include "exec/cuda/fuse.h"

enum { CELL = 64 };

typedef struct late { /* under way */
    int32_t instr, done;
    uint64_t value, reads; /* reads: signature at issue; 0: not looked at again */
} late;

typedef struct walker {
    const luo_bound *b;
    const gpu_fusion *fusion; /* NULL: as the program stands */
    uint64_t *cell;
    int64_t ncells;
    int32_t *done; /* per instruction */
    uint64_t *saw; /* per task and instruction: signature of what was read */
    int32_t task;
    late *under_way;
    int32_t nlate;
    const char *wrong; /* the first thing that went wrong; NULL: nothing */
} walker;

static inline uint64_t mix(uint64_t h, uint64_t v)
{
    return luo_hash_bytes(h, &v, sizeof v);
}

static inline uint64_t cell_mark(uint64_t value, int32_t output, int64_t i)
{
    return mix(mix(mix(LUO_HASH_EMPTY, value), (uint64_t)output), (uint64_t)i);
}

static inline int64_t cells_of_bytes(int64_t bytes)
{
    return (bytes + CELL - 1) / CELL;
}

static inline int64_t first_cell(const walker *w, int32_t buffer)
{
    const luo_layout *l = &w->b->layout;
    return luo_layout_offset(l, buffer, w->task) / CELL;
}

static inline uint64_t signature(const walker *w, int32_t buffer)
{
    const int64_t n = cells_of_bytes(luo_bound_desc(w->b, buffer)->bytes);
    return luo_hash_bytes(LUO_HASH_EMPTY, w->cell + first_cell(w, buffer), (size_t)n * 8);
}

/* What signature() would give if the value were stored. */
static inline uint64_t signature_of(const walker *w, int32_t buffer, uint64_t value, int32_t output)
{
    uint64_t h = LUO_HASH_EMPTY;
    const int64_t n = cells_of_bytes(luo_bound_desc(w->b, buffer)->bytes);
    for (int64_t i = 0; i < n; i++) h = mix(h, cell_mark(value, output, i));
    return h;
}

static inline void store(walker *w, int32_t buffer, uint64_t value, int32_t output)
{
    const int64_t n = cells_of_bytes(luo_bound_desc(w->b, buffer)->bytes);
    uint64_t *at = w->cell + first_cell(w, buffer);
    for (int64_t i = 0; i < n; i++) at[i] = cell_mark(value, output, i);
}

static inline void complain(walker *w, const char *what)
{
    if (!w->wrong) w->wrong = what;
}

static inline bool is_sum(const walker *w, int32_t buffer)
{
    return luo_bound_desc(w->b, buffer)->buffer_class <= LUO_BUFFER_OPTIMIZER;
}

/* What an instruction reads: operands, and results that it only changes in part. */
static inline uint64_t reads_of(const walker *w, const luo_instr *x)
{
    uint64_t h = mix(LUO_HASH_EMPTY, (uint64_t)x->nin);
    for (int32_t k = 0; k < x->nin; k++) h = mix(h, signature(w, x->in[k]));
    for (int32_t k = 0; k < x->nout; k++)
        if (is_sum(w, x->out[k])) h = mix(h, signature(w, x->out[k]));
    return h;
}

static inline uint64_t value_of(const walker *w, int32_t instr, uint64_t reads)
{
    return mix(mix(mix(LUO_HASH_EMPTY, (uint64_t)instr), (uint64_t)w->task), reads);
}

/* ---- communication ---- */

static inline uint64_t garbage(const walker *w, int32_t instr)
{
    return ~value_of(w, instr, 0);
}

static inline void mark_scratch(walker *w, int32_t instr, bool look)
{
    const luo_instr *x = &w->b->role->instr[instr];
    if (x->exchange < 0 || w->b->layout.scratch[instr] < 0) return;
    const luo_route *r = &w->b->route[instr];
    const int64_t bytes = r->scratch_elements * w->b->set->exchanges[x->exchange].elem_bytes;
    uint64_t *at = w->cell + w->b->layout.scratch[instr] / CELL;
    for (int64_t i = 0; i < cells_of_bytes(bytes); i++) {
        const uint64_t mark = cell_mark(garbage(w, r->first), 0, i);
        if (!look && r->first == instr) at[i] = mark;
        if (look && at[i] != mark) complain(w, "the scratch of a Reshard was written");
    }
}

static inline void complete(walker *w, int32_t k)
{
    const late l = w->under_way[k];
    const luo_instr *x = &w->b->role->instr[l.instr];
    memmove(&w->under_way[k], &w->under_way[k + 1],
            (size_t)(w->nlate - k - 1) * sizeof *w->under_way);
    w->nlate--;
    if (l.reads && reads_of(w, x) != l.reads) complain(w, "what is being sent was written");
    for (int32_t o = 0; o < x->nout; o++) {
        if (signature(w, x->out[o]) != signature_of(w, x->out[o], garbage(w, l.instr), o))
            complain(w, "what is being received was written");
        store(w, x->out[o], l.value, o);
    }
    mark_scratch(w, l.instr, true);
}

static inline bool same_reshard(const walker *w, int32_t a, int32_t b)
{
    const luo_exchange *at = w->b->set->exchanges;
    const luo_instr *x = &w->b->role->instr[a], *y = &w->b->role->instr[b];
    return x->exchange >= 0 && y->exchange >= 0 && at[x->exchange].op == at[y->exchange].op;
}

static inline bool touches(const luo_instr *x, int32_t buffer)
{
    for (int32_t k = 0; k < x->nin; k++)
        if (x->in[k] == buffer) return true;
    for (int32_t k = 0; k < x->nout; k++)
        if (x->out[k] == buffer) return true;
    return false;
}

/* An instruction of a Reshard waits for those before it; a lane is in order. */
static inline void settle(walker *w, int32_t i)
{
    const luo_role *r = w->b->role;
    for (int32_t k = 0; k < w->nlate;) {
        const int32_t d = w->under_way[k].instr;
        bool now = same_reshard(w, d, i);
        for (int32_t o = 0; o < r->instr[d].nout; o++)
            now |= luo_instr_lane(&r->instr[d]) == luo_instr_lane(&r->instr[i]) &&
                   touches(&r->instr[i], r->instr[d].out[o]);
        if (now)
            complete(w, k);
        else
            k++;
    }
}

static inline void begin(walker *w, int32_t i, uint64_t reads)
{
    const luo_instr *x = &w->b->role->instr[i];
    bool in_place = false;
    for (int32_t k = 0; k < x->nout; k++)
        for (int32_t j = 0; j < x->nin; j++) in_place |= x->out[k] == x->in[j];
    for (int32_t k = 0; k < x->nout; k++) in_place |= is_sum(w, x->out[k]);
    w->under_way[w->nlate++] = (late){i, w->done[i], value_of(w, i, reads), in_place ? 0 : reads};
    mark_scratch(w, i, false);
    for (int32_t k = 0; k < x->nout; k++) store(w, x->out[k], garbage(w, i), k);
}

/* ---- computing ---- */

static inline int32_t output_of(const luo_instr *x, int32_t buffer)
{
    for (int32_t k = 0; k < x->nout; k++)
        if (x->out[k] == buffer) return k;
    return -1;
}

/* The instruction of the segment that reads a value nobody stores. */
static inline int32_t reader_of(const walker *w, int32_t after, int32_t buffer)
{
    const luo_segment *s = &w->b->role->seg[w->b->seg_of[after]];
    for (int32_t i = after + 1; i < s->first + s->n; i++)
        for (int32_t k = 0; k < w->b->role->instr[i].nin; k++)
            if (w->b->role->instr[i].in[k] == buffer) return i;
    return -1;
}

/* The value of `buffer`, made by output `output` of an instruction, goes through its followers. */
static inline void store_fused(walker *w, int32_t instr, int32_t buffer, uint64_t value,
                               const gpu_fused *f)
{
    int32_t output = output_of(&w->b->role->instr[instr], buffer);
    while (buffer != f->result) {
        const int32_t j = reader_of(w, instr, buffer);
        if (j < 0 || !w->fusion->skip[j]) {
            complain(w, "a fused result has no reader that is skipped");
            return;
        }
        const luo_instr *x = &w->b->role->instr[j];
        uint64_t h = mix(LUO_HASH_EMPTY, (uint64_t)x->nin);
        for (int32_t k = 0; k < x->nin; k++) {
            const bool mine = x->in[k] == buffer;
            if (!mine && x->in[k] != f->bias && x->in[k] != f->plus)
                complain(w, "an operand is missing");
            h = mix(h, mine ? signature_of(w, buffer, value, output) : signature(w, x->in[k]));
        }
        w->saw[(int64_t)w->task * w->b->role->ninstr + j] = h;
        value = value_of(w, j, h);
        output = 0;
        buffer = x->out[0];
    }
    store(w, buffer, value, output);
}

/* All operands are read before any result is stored. */
static inline void compute(walker *w, int32_t i, uint64_t reads)
{
    const luo_instr *x = &w->b->role->instr[i];
    const gpu_fused *f = w->fusion ? w->fusion->of[i] : NULL;
    const luo_bound_op *op = &w->b->op[i];
    const uint64_t value = value_of(w, i, reads);
    for (int32_t k = 0; k < x->nout; k++) {
        const gpu_fused *at = NULL;
        for (int32_t p = 0; f && p < op->nproducts; p++)
            if (op->product[p].c == x->out[k]) at = &f[p];
        if (at)
            store_fused(w, i, x->out[k], value, at);
        else
            store(w, x->out[k], value, k);
    }
}

static inline void walk_instr(walker *w, int32_t i)
{
    const luo_instr *x = &w->b->role->instr[i];
    for (int32_t k = 0; k < w->nlate;) { /* whom this one or another has waited for by now */
        if (w->under_way[k].done < i)
            complete(w, k);
        else
            k++;
    }
    if (w->fusion && w->fusion->skip[i]) return;
    if (x->exchange >= 0) settle(w, i);
    const uint64_t reads = reads_of(w, x);
    w->saw[(int64_t)w->task * w->b->role->ninstr + i] = reads;
    if (x->kind == LUO_INSTR_COLLECTIVE || x->kind == LUO_INSTR_P2P)
        begin(w, i, reads);
    else
        compute(w, i, reads);
}

/* A whole step from the same memory. Owner: arena. */
static inline walker walk_step(luo_arena *arena, const luo_bound *b, const gpu_fusion *fusion)
{
    walker w = {.b = b, .fusion = fusion, .ncells = cells_of_bytes(b->layout.bytes)};
    w.cell = LUO_NEW_N(arena, uint64_t, w.ncells);
    w.done = LUO_NEW_N(arena, int32_t, b->role->ninstr);
    w.under_way = LUO_NEW_N(arena, late, b->role->ninstr);
    w.saw = LUO_NEW_N(arena, uint64_t, (int64_t)b->program->ntask * b->role->ninstr);
    for (int64_t i = 0; i < w.ncells; i++) w.cell[i] = cell_mark(1, 0, i);
    for (int32_t s = 0; s < b->role->nseg; s++)
        if (luo_layout_done(arena, b->role, &b->role->seg[s], w.done, NULL) != LUO_OK) abort();
    for (w.task = 0; w.task < b->program->ntask; w.task++) {
        const luo_segment *s = &b->role->seg[b->program->tasks[w.task].seg];
        for (int32_t i = s->first; i < s->first + s->n; i++) walk_instr(&w, i);
        while (w.nlate) complete(&w, 0);
    }
    return w;
}

/* NULL: every instruction has read the same, and nothing went wrong. */
static inline const char *walks_differ(const walker *x, const walker *y)
{
    if (x->wrong || y->wrong) return x->wrong ? x->wrong : y->wrong;
    const size_t n = (size_t)x->b->program->ntask * (size_t)x->b->role->ninstr;
    return memcmp(x->saw, y->saw, n * sizeof *x->saw) ? "an instruction read something else" : NULL;
}
#endif
