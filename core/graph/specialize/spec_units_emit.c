/* spec_units_emit.c: when weights are gathered and gradients cut inside a task (ZeRO-2
 * and 3).
 *
 * Units in the order in which the segment works on them, depth d. F: unit i waits for its gather,
 * which waits for the work of unit i-1-d; so at most d+1 units are whole. B: the same, and the
 * gradients of a unit are cut when it ends, before the next gather; its pieces are added to the
 * running sums when the unit behind has ended, too, so that the gradients of two units are whole at
 * most. No gather crosses the border of a task. */
#include "core/graph/specialize/spec_emit.h"

/* ---- gathers ---- */

static bool gathered_at(const emitter *e, const spec_bucket *bucket, int32_t unit)
{
    if (bucket->phase != LUO_PHASE_F) return false;
    return (e->phase == LUO_PHASE_F ? bucket->unit : bucket->unit_back) == unit;
}

static int32_t unit_of_reader(const emitter *e, int32_t o)
{
    const spec *s = e->s;
    const int32_t x = s->g->op[o].out[0];
    if (e->c->vs_in[o] != e->vs) return -1;
    if (e->phase == LUO_PHASE_B) return s->unit_back[x];
    return s->reader[x] >= 0 ? s->unit_of[s->reader[x]] : -1;
}

/* Buffers first, one by one, then the calls that fill them together. */
static void gather(emitter *e, int32_t position)
{
    const spec *s = e->s;
    if (position >= e->nunits) return;
    const int32_t unit = e->units[position];
    e->at_start = e->unit < 0;
    e->after = e->computed;
    for (int32_t o = 0; o < s->g->nops; o++)
        if (s->duty[o] == SPEC_GATHER && unit_of_reader(e, o) == unit)
            luo_spec_emit_reshard(e, o, e->phase == LUO_PHASE_B);
    for (int32_t b = 0; b < s->nbuckets; b++)
        if (gathered_at(e, &s->bucket[b], unit)) luo_spec_emit_bucket(e, b);
    e->at_start = false;
    e->after = -1;
}

/* ---- sums of pieces ---- */

static bool is_sum_of_pieces(const emitter *e, int32_t o)
{
    const luo_graph *graph = e->s->g;
    const luo_op *op = &graph->op[o];
    if (op->kind != LUO_OP_ACCUMULATE || op->phase != LUO_PHASE_B) return false;
    return e->s->duty[graph->tensor[op->in[0]].op] == SPEC_SCATTER;
}

/* Calls are told apart by the unit, by the bucket, or by the Reshard. */
static int32_t key_of(const emitter *e, int32_t scatter)
{
    const spec *s = e->s;
    if (spec_by_unit(s)) return s->unit_of[scatter];
    const bool fused = s->nbuckets > 0 && s->fused[scatter];
    return fused ? s->g->nops + s->bucket_of[scatter] : scatter;
}

static void postpone(emitter *e, int32_t o)
{
    const luo_graph *graph = e->s->g;
    emit_late *at = luo_spec_room(e, e->late, e->nlate, &e->cap_late, sizeof *at);
    if (!at) return;
    e->late = at;
    at[e->nlate++] = (emit_late){key_of(e, graph->tensor[graph->op[o].in[0]].op), o};
}

static void add_pieces(emitter *e, int32_t key, bool all)
{
    int32_t kept = 0;
    for (int32_t i = 0; i < e->nlate; i++) {
        if (all || e->late[i].key == key) luo_spec_emit_accumulate(e, e->late[i].op);
        else e->late[kept++] = e->late[i];
    }
    e->nlate = kept;
}

/* Two calls may be under way. */
static void called(emitter *e, int32_t key)
{
    if (e->called >= 0) add_pieces(e, e->called, false);
    e->called = key;
}

/* ---- units ---- */

static int32_t depth_of(const emitter *e)
{
    return e->s->in->prefetch;
}

static void scatter(emitter *e, int32_t unit)
{
    const spec *s = e->s;
    for (int32_t b = 0; b < s->nbuckets; b++)
        if (s->bucket[b].phase == LUO_PHASE_B && s->bucket[b].unit == unit)
            luo_spec_emit_bucket(e, b);
}

/* The unit at hand ends, and the next one begins. */
static void turn(emitter *e)
{
    if (e->unit < 0) {
        for (int32_t i = 0; i <= depth_of(e); i++) gather(e, i);
        e->unit = 0;
        return;
    }
    const int32_t ended = e->units[e->unit++];
    if (e->phase == LUO_PHASE_B) scatter(e, ended);
    gather(e, e->unit + depth_of(e));
    if (e->phase == LUO_PHASE_B) called(e, ended);
}

void luo_spec_units_begin(emitter *e, int32_t vs)
{
    const spec *s = e->s;
    int32_t n;
    e->vs = vs;
    e->nunits = e->nlate = 0;
    e->unit = e->called = -1;
    if (!s->g->scatter_each || !spec_by_unit(s)) return;
    int32_t *at = e->units ? e->units : LUO_NEW_N(s->scratch, int32_t, s->nlayers + 2);
    e->units = at;
    if (!at) {
        e->failed = true;
        return;
    }
    const int32_t *place = luo_spec_places(e, e->phase, vs, &n);
    for (int32_t i = 0; i < n; i++) {
        const int32_t o = place[i];
        if (!luo_spec_is_here(e, o, e->phase, vs)) continue;
        const int32_t unit = spec_unit_at(s, e->c, o);
        if (unit >= 0 && (e->nunits == 0 || at[e->nunits - 1] != unit)) at[e->nunits++] = unit;
    }
}

bool luo_spec_units_before(emitter *e, int32_t o)
{
    const spec *s = e->s;
    const int32_t unit = e->nunits > 0 ? spec_unit_at(s, e->c, o) : -1;
    if (unit >= 0 && (e->unit < 0 || e->units[e->unit] != unit)) turn(e);
    if (s->duty[o] == SPEC_GATHER) return true;
    if (!is_sum_of_pieces(e, o)) return false;
    postpone(e, o);
    return true;
}

void luo_spec_units_behind(emitter *e, int32_t o)
{
    const spec *s = e->s;
    if (spec_by_unit(s) || e->phase != LUO_PHASE_B) return;
    const int32_t bucket = s->nbuckets > 0 ? luo_spec_emit_buckets(e, o) : -1;
    if (bucket >= 0) called(e, s->g->nops + bucket);
    else if (s->duty[o] == SPEC_SCATTER && !(s->nbuckets > 0 && s->fused[o])) called(e, o);
}

void luo_spec_units_end(emitter *e)
{
    if (e->phase == LUO_PHASE_B && e->unit >= 0) scatter(e, e->units[e->unit]);
    if (e->called >= 0) add_pieces(e, e->called, false);
    add_pieces(e, -1, true);
}
