/* spec_bucket_emit.c: the calls of a bucket on one device, and where its pieces lie. */
#include "core/graph/specialize/spec_emit.h"

/* ---- pieces ---- */

/* Number of element x among those of the spans; -1: it is in none. */
static int64_t rank_of(const luo_region *region, int32_t d, int64_t x)
{
    int64_t before = 0;
    for (int32_t k = 0; k < region->dim[d].n; k++) {
        const luo_span span = region->dim[d].at[k];
        if (x >= span.lo && x < span.hi) return before + x - span.lo;
        before += span.hi - span.lo;
    }
    return -1;
}

static int64_t extent(const luo_region *region, int32_t d)
{
    int64_t n = 0;
    for (int32_t k = 0; k < region->dim[d].n; k++)
        n += region->dim[d].at[k].hi - region->dim[d].at[k].lo;
    return n;
}

/* Where the first cell of `part` lies in a buffer that holds `frame`, row-major. */
static int64_t offset_in(const luo_region *frame, const luo_region *part)
{
    int64_t at = 0;
    for (int32_t d = 0; d < frame->rank; d++)
        at = at * extent(frame, d) + rank_of(frame, d, part->dim[d].at[0].lo);
    return at;
}

/* Empty: the device holds nothing of it. */
static luo_status frame_of(const spec *s, int32_t ann, const luo_shape *shape, int32_t dev,
                           luo_region *out)
{
    const luo_ann *a = luo_annset_get(s->g->set, ann);
    *out = (luo_region){.rank = shape->rank, .empty = true};
    for (int32_t u = 0; u < a->u; u++)
        for (int32_t i = 0; i < a->grp[u].ndev; i++)
            if (a->grp[u].dev[i] == dev)
                return luo_region_of(s->scratch, a, shape, u, i, out, s->err);
    return LUO_OK;
}

luo_status luo_spec_offset(const spec *s, const spec_move *m, const spec_call *call, int32_t dev,
                           int64_t *out)
{
    const luo_move *move = &m->resolution->moves.at[call->move];
    const bool gathers = move->kind == LUO_MOVE_AG;
    const spec_dims *dims = luo_spec_find(s, gathers ? m->to : m->from, dev);
    *out = 0;
    if (call->cells == 0 || (dims && call->cells == dims->volume))
        return LUO_OK; /* all of the buffer */
    luo_region frame;
    const size_t mark = luo_arena_mark(s->scratch);
    LUO_TRY(frame_of(s, gathers ? m->dst : m->src, &m->shape, dev, &frame));
    int64_t least = INT64_MAX;
    for (int32_t i = 0; i < move->nregion && !frame.empty; i++) {
        if (move->region[i].empty) continue;
        const int64_t at = offset_in(&frame, &move->region[i]);
        if (at < least) least = at;
    }
    if (least < INT64_MAX) *out = least;
    luo_arena_reset(s->scratch, mark);
    return LUO_OK;
}

static const spec_call *call_of(const spec_move *move, const spec_part *part, const spec_item *it)
{
    return &move->step[part->step].call[it->call];
}

static const spec_item *item_of(const spec_slot_ref *ref, int32_t dev)
{
    return &ref->step->item[ref->step->first[luo_spec_take_part(ref->step, dev)] + ref->item];
}

luo_status luo_spec_place_pieces(const spec *s, int32_t dev, const spec_slot_ref *refs,
                                 luo_role *role)
{
    int64_t *offset = LUO_NEW_N(s->arena, int64_t, role->npieces);
    if (!offset) return luo_err_nomem(s->err);
    for (int32_t i = 0; i < role->ninstr; i++) {
        const luo_instr *instr = &role->instr[i];
        if (instr->npieces == 0) continue;
        const spec_item *it = item_of(&refs[instr->slot], dev);
        const spec_part *part = s->bucket[instr->op - s->g->nops].part;
        for (int32_t k = 0; k < instr->npieces; k++) {
            const spec_move *move = spec_move_of(s, part[k].op, 0);
            LUO_TRY(luo_spec_offset(s, move, call_of(move, &part[k], it), dev,
                                    &offset[instr->first_piece + k]));
        }
    }
    role->offset = offset;
    return LUO_OK;
}

/* ---- calls ---- */

/* Step in which the device has its first call, or its last; -1: it has none. */
static int32_t step_of_call(const spec_move *move, int32_t dev, bool last)
{
    int32_t found = -1;
    for (int32_t k = 0; k < move->nsteps && (last || found < 0); k++) {
        const spec_step *step = &move->step[k];
        const int32_t i = luo_spec_take_part(step, dev);
        for (int32_t n = i < 0 ? 0 : step->first[i]; i >= 0 && n < step->first[i + 1]; n++)
            if (step->item[n].kind == LUO_INSTR_COLLECTIVE) found = k;
    }
    return found;
}

/* Buffers of a tensor at both ends of a call. Once a step gradients are summed where they were
 * added up, and weights gathered where they are used. In a task they lie apart from their pieces:
 * what comes first reads those of a weight, what comes last writes those of a gradient. */
static void ends_of(const emitter *e, const spec_part *part, int32_t *in, int32_t *out)
{
    const spec *s = e->s;
    const luo_op *op = &s->g->op[part->op];
    const spec_move *move = spec_move_of(s, part->op, 0);
    const int32_t from = luo_spec_buffer(e, op->in[0]), to = luo_spec_buffer(e, op->out[0]);
    switch ((spec_duty)s->duty[part->op]) {
    case SPEC_GATHER:
        *in = step_of_call(move, e->dev, false) == part->step ? from : to;
        *out = to;
        return;
    case SPEC_SCATTER:
        *in = from;
        *out = step_of_call(move, e->dev, true) == part->step ? to : from;
        return;
    case SPEC_NONE: *in = *out = op->phase == LUO_PHASE_PRE ? to : from;
    }
}

int32_t luo_spec_call_before(const emitter *e, int32_t group, const luo_instr *i)
{
    for (int32_t k = e->ninstr - 1; k >= e->segment[e->seg].first; k--) {
        const luo_instr *instr = &e->instr[k];
        if (instr->kind != LUO_INSTR_COLLECTIVE || instr->stream != LUO_STREAM_DP) continue;
        if (item_of(&e->ref[instr->slot], e->dev)->slot.group != group) continue;
        return luo_instr_lane(instr) == luo_instr_lane(i) ? -1 : k;
    }
    return -1;
}

void luo_spec_count_pieces(const spec *s, const spec_bucket *bucket, const spec_item *it,
                           luo_instr_piece *piece)
{
    for (int32_t p = 0; p < bucket->n; p++)
        piece[p].count =
            call_of(spec_move_of(s, bucket->part[p].op, 0), &bucket->part[p], it)->cells;
}

/* i: position of the device in the bucket's step. */
static bool emit_call(emitter *e, const spec_turn *turn, int32_t i)
{
    spec *s = e->s;
    const int32_t b = turn->bucket, k = turn->item;
    const spec_bucket *bucket = &s->bucket[b];
    const spec_item *it = &bucket->step.item[bucket->step.first[i] + k];
    luo_instr_piece *piece = LUO_NEW_N(s->arena, luo_instr_piece, bucket->n);
    int32_t *in = LUO_NEW_N(s->scratch, int32_t, bucket->n);
    int32_t *out = LUO_NEW_N(s->scratch, int32_t, bucket->n);
    if (!piece || !in || !out) return false;
    luo_spec_count_pieces(s, bucket, it, piece);
    for (int32_t p = 0; p < bucket->n; p++) {
        ends_of(e, &bucket->part[p], &in[p], &out[p]);
        piece[p].buffer = it->coll == LUO_COLL_AG ? out[p] : in[p];
    }
    luo_instr instr = {.kind = LUO_INSTR_COLLECTIVE,
                       .stream = it->stream,
                       .phase = (uint8_t)e->phase,
                       .coll = it->coll,
                       .lane = turn->lane,
                       .v = it->v,
                       .variant = it->variant,
                       .op = s->g->nops + b,
                       .exchange = bucket->exchange,
                       .layer = -1,
                       .slot = luo_spec_slot(e, &bucket->step, k),
                       .bytes = it->bytes,
                       .recompute = bucket->phase == LUO_PHASE_F && luo_phase_is_backward(e->phase),
                       .npieces = bucket->n,
                       .first_piece = e->npieces,
                       .piece = piece};
    e->npieces += bucket->n;
    e->also = luo_spec_call_before(e, it->slot.group, &instr);
    luo_spec_push(e, &instr, in, bucket->n, out, bucket->n);
    e->also = -1;
    return true;
}

void luo_spec_emit_bucket(emitter *e, int32_t b)
{
    const spec_step *step = &e->s->bucket[b].step;
    const int32_t i = luo_spec_take_part(step, e->dev);
    for (int32_t k = 0; i >= 0 && k < step->first[i + 1] - step->first[i]; k++)
        if (!emit_call(e, &(spec_turn){b, k, 0}, i)) e->failed = true;
}

void luo_spec_emit_turns(emitter *e)
{
    const spec *s = e->s;
    const int32_t d = s->index_of[e->dev];
    for (int32_t j = s->first_turn[d]; j < s->first_turn[d + 1]; j++) {
        const spec_turn *turn = &s->turn[j];
        const spec_bucket *bucket = &s->bucket[turn->bucket];
        if (bucket->phase != e->phase) continue;
        if (!emit_call(e, turn, luo_spec_take_part(&bucket->step, e->dev))) e->failed = true;
    }
}

int32_t luo_spec_emit_buckets(emitter *e, int32_t o)
{
    const spec *s = e->s;
    int32_t lo = 0, hi = s->nbuckets; /* those behind o: they are sorted by that */
    while (lo < hi) {
        const int32_t mid = lo + (hi - lo) / 2;
        if (s->bucket[mid].after < o) lo = mid + 1;
        else hi = mid;
    }
    int32_t last = -1;
    for (; lo < s->nbuckets && s->bucket[lo].after == o; lo++) {
        luo_spec_emit_bucket(e, lo);
        last = lo;
    }
    return last;
}
