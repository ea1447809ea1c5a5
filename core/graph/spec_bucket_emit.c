/* core/graph/spec_bucket_emit.c: the calls of a bucket on one device, and where its pieces lie. */
#include "core/graph/spec_emit.h"

/* ---- pieces ---- */

/* Number of element x among those of the spans; -1: it is in none. */
static int64_t rank_of(const luo_region *r, int32_t d, int64_t x)
{
    int64_t before = 0;
    for (int32_t k = 0; k < r->dim[d].n; k++) {
        const luo_span s = r->dim[d].at[k];
        if (x >= s.lo && x < s.hi) return before + x - s.lo;
        before += s.hi - s.lo;
    }
    return -1;
}

static int64_t extent(const luo_region *r, int32_t d)
{
    int64_t n = 0;
    for (int32_t k = 0; k < r->dim[d].n; k++) n += r->dim[d].at[k].hi - r->dim[d].at[k].lo;
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

luo_status luo_spec_piece(const spec *s, const spec_move *m, const luo_move *v, int32_t dev,
                          luo_instr_piece *out)
{
    const bool gathers = v->kind == LUO_MOVE_AG;
    const spec_dims *d = luo_spec_find(s, gathers ? m->to : m->from, dev);
    *out = (luo_instr_piece){.buffer = -1};
    for (int32_t i = 0; i < v->nregion; i++) out->count += luo_region_volume(&v->region[i]);
    if (out->count == 0 || (d && out->count == d->volume)) return LUO_OK; /* all of the buffer */
    luo_region frame;
    const size_t mark = luo_arena_mark(s->scratch);
    LUO_TRY(frame_of(s, gathers ? m->dst : m->src, &m->shape, dev, &frame));
    int64_t least = INT64_MAX;
    for (int32_t i = 0; i < v->nregion && !frame.empty; i++) {
        if (v->region[i].empty) continue;
        const int64_t at = offset_in(&frame, &v->region[i]);
        if (at < least) least = at;
    }
    if (least < INT64_MAX) out->offset = least;
    luo_arena_reset(s->scratch, mark);
    return LUO_OK;
}

/* ---- calls ---- */

/* Gradients are summed where they were added up, weights gathered where they are used. */
static int32_t buffer_of(const emitter *e, const luo_op *op)
{
    return luo_spec_buffer(e, op->phase == LUO_PHASE_PRE ? op->out[0] : op->in[0]);
}

static bool emit_call(emitter *e, int32_t b, int32_t i, int32_t k)
{
    spec *s = e->s;
    const spec_bucket *x = &s->bucket[b];
    const spec_item *it = &x->step.item[x->step.first[i] + k];
    luo_instr_piece *piece = LUO_NEW_N(s->arena, luo_instr_piece, x->n);
    int32_t *buffer = LUO_NEW_N(s->scratch, int32_t, x->n);
    if (!piece || !buffer) return false;
    for (int32_t p = 0; p < x->n; p++) {
        const int32_t o = x->part[p].op;
        const spec_move *m = spec_move_of(s, o, 0);
        const spec_call *call = &m->step[x->part[p].step].call[it->call];
        const luo_move *v = &m->resolution->moves.at[call->move];
        if (luo_spec_piece(s, m, v, e->dev, &piece[p]) != LUO_OK) return false;
        piece[p].buffer = buffer[p] = buffer_of(e, &s->g->op[o]);
    }
    luo_instr n = {.kind = LUO_INSTR_COLLECTIVE, .stream = it->stream, .phase = (uint8_t)e->phase,
                   .coll = it->coll, .v = it->v, .op = s->g->nops + b, .exchange = x->exchange,
                   .layer = -1, .slot = luo_spec_slot(e, &x->step, k), .bytes = it->bytes,
                   .npieces = x->n, .piece = piece};
    luo_spec_push(e, &n, buffer, x->n, buffer, x->n);
    return true;
}

void luo_spec_emit_buckets(emitter *e, int32_t o)
{
    const spec *s = e->s;
    int32_t lo = 0, hi = s->nbuckets; /* those behind o: they are sorted by that */
    while (lo < hi) {
        const int32_t mid = lo + (hi - lo) / 2;
        if (s->bucket[mid].after < o) lo = mid + 1;
        else hi = mid;
    }
    for (; lo < s->nbuckets && s->bucket[lo].after == o; lo++) {
        const spec_step *t = &s->bucket[lo].step;
        const int32_t i = luo_spec_take_part(t, e->dev);
        if (i < 0) continue;
        for (int32_t k = 0; k < t->first[i + 1] - t->first[i]; k++)
            if (!emit_call(e, lo, i, k)) e->failed = true;
    }
}
