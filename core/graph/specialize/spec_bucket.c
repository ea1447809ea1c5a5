/* spec_bucket.c: steps of Reshards that move gradients or weights between the same
 * devices become one call each (docs/architecture/gradients.md#buckets). What is fused stays what
 * it was for the algebra: a bucket only lists the exchanges whose tensors travel together. */
#include <stdlib.h>
#include <string.h>

#include "core/graph/specialize/spec_internal.h"

typedef struct atom { /* one step of one tensor */
    int32_t op, step, level;
    int32_t ready; /* operation that makes the gradient complete, or reads the weight first */
    int32_t bucket;
    luo_bucket_item item;
} atom;

typedef struct maker {
    spec *s;
    luo_intern key;
    bool *early;     /* by tensor: something in Pre or Post but norm and update reads it */
    int32_t *level;  /* by tensor: steps of communication behind it, in Post */
    int32_t *ready;  /* by tensor of gradients: operation of B that completes it; -1: none */
    atom *atom;
    int32_t natoms;
} maker;

/* ---- what the graph says ---- */

static bool is_once(const luo_op *op)
{
    return op->phase == LUO_PHASE_PRE || op->phase == LUO_PHASE_POST;
}

/* The running sum is complete with the last operation that adds to it. */
static int32_t completion(const maker *m, int32_t o)
{
    const luo_graph *graph = m->s->g;
    const luo_op *op = &graph->op[o];
    if (op->phase == LUO_PHASE_B && op->kind != LUO_OP_ACCUMULATE) return o;
    int32_t last = -1;
    for (int32_t i = 0; i < op->nin; i++) {
        const int32_t by = graph->tensor[op->in[i]].op;
        int32_t at = m->ready[op->in[i]];
        if (op->kind == LUO_OP_ACCUMULATE) /* what arrived is added by a kernel of its own */
            at = graph->op[by].kind == LUO_OP_RESHARD ? o : by;
        if (at > last) last = at;
    }
    return last;
}

/* Communication steps of a Reshard before step n. */
static int32_t levels_before(const spec_move *move, int32_t n)
{
    int32_t levels = 0;
    for (int32_t k = 0; k < n; k++)
        for (int32_t i = 0; i < move->step[k].first[move->step[k].n]; i++)
            if (move->step[k].item[i].kind != LUO_INSTR_LOCAL) {
                levels++;
                break;
            }
    return levels;
}

static void look_at(maker *m, int32_t o)
{
    const spec *s = m->s;
    const luo_op *op = &s->g->op[o];
    const bool sums = op->kind == LUO_OP_GRAD_NORM || op->kind == LUO_OP_UPDATE ||
                      op->kind == LUO_OP_AMEND;
    int32_t level = 0;
    for (int32_t i = 0; i < op->nin; i++) {
        const int32_t x = op->in[i];
        m->early[x] |= is_once(op) && !sums;
        if (m->level[x] > level) level = m->level[x];
    }
    if (op->phase == LUO_PHASE_POST && op->kind == LUO_OP_RESHARD)
        level += levels_before(spec_move_of(s, o, 0), spec_move_of(s, o, 0)->nsteps);
    const bool grad = (op->phase == LUO_PHASE_B || op->phase == LUO_PHASE_POST) && !sums;
    const int32_t ready = grad ? completion(m, o) : -1;
    for (int32_t i = 0; i < op->nout; i++) {
        m->level[op->out[i]] = op->phase == LUO_PHASE_POST ? level : 0;
        m->ready[op->out[i]] = ready;
    }
}

static luo_status open(maker *m)
{
    const luo_graph *graph = m->s->g;
    int32_t steps = 0;
    luo_intern_init(&m->key, m->s->arena); /* keys outlive what is made to look them up */
    m->early = LUO_NEW_N(m->s->scratch, bool, graph->ntensors);
    m->level = LUO_NEW_N(m->s->scratch, int32_t, graph->ntensors);
    m->ready = LUO_NEW_N(m->s->scratch, int32_t, graph->ntensors);
    m->s->fused = LUO_NEW_N(m->s->arena, bool, graph->nops);
    m->s->bucket_of = LUO_NEW_N(m->s->arena, int32_t, graph->nops);
    if (!m->s->bucket_of || !m->early || !m->level || !m->ready || !m->s->fused)
        return luo_err_nomem(m->s->err);
    for (int32_t x = 0; x < graph->ntensors; x++) m->ready[x] = -1;
    for (int32_t o = 0; o < graph->nops; o++) m->s->bucket_of[o] = -1;
    for (int32_t o = 0; o < graph->nops; o++) {
        look_at(m, o);
        if (graph->op[o].kind == LUO_OP_RESHARD) steps += spec_move_of(m->s, o, 0)->nsteps;
    }
    m->atom = LUO_NEW_N(m->s->scratch, atom, steps);
    return m->atom ? LUO_OK : luo_err_nomem(m->s->err);
}

/* ---- which steps fuse ---- */

static bool is_weight(const spec *s, int32_t o)
{
    return s->duty[o] == SPEC_GATHER || s->g->op[o].phase == LUO_PHASE_PRE;
}

static bool only(const spec_step *step, int kind)
{
    for (int32_t i = 0; i < step->first[step->n]; i++)
        if (step->item[i].kind != kind) return false;
    return true;
}

/* Only collectives, and nothing that a device copies beside them: inside the tasks pieces and whole
 * tensors lie apart, and only calls bring cells from one to the other. What a device would copy of
 * its own gradient before the first of them, that call reads where it lies. */
static bool only_calls(const spec *s, int32_t o)
{
    const spec_move *move = spec_move_of(s, o, 0);
    int32_t k = 0;
    while (s->duty[o] == SPEC_SCATTER && k < move->nsteps && only(&move->step[k], LUO_INSTR_LOCAL))
        k++;
    if (k == move->nsteps) return false;
    for (; k < move->nsteps; k++)
        if (!only(&move->step[k], LUO_INSTR_COLLECTIVE)) return false;
    return true;
}

/* Does the operation move weights or gradients, once a step or in every task? */
static bool is_candidate(const maker *m, int32_t o)
{
    const spec *s = m->s;
    const luo_op *op = &s->g->op[o];
    if (op->kind != LUO_OP_RESHARD) return false;
    if (s->duty[o] != SPEC_NONE) return only_calls(s, o);
    if (!is_once(op) || m->early[op->out[0]]) return false;
    const int32_t from = s->g->tensor[op->in[0]].kind, to = s->g->tensor[op->out[0]].kind;
    const bool grad = from == LUO_TENSOR_GRAD && to == LUO_TENSOR_GRAD;
    return grad || (from == LUO_TENSOR_STATE && to == LUO_TENSOR_PARAM);
}

/* Gradients are only summed, weights only gathered, each in its own buffer, and nobody waits for
 * the result before the end of Post, or of Pre. */
static bool may_fuse(const maker *m, int32_t o)
{
    const spec *s = m->s;
    const luo_op *op = &s->g->op[o];
    if (!is_candidate(m, o)) return false;
    const bool grad = !is_weight(s, o);
    const spec_move *move = spec_move_of(s, o, 0);
    if (move->nsteps == 0 || move->has_messages) return false;
    if (grad ? m->ready[op->in[0]] < 0 : s->reader[op->out[0]] < 0) return false;
    for (int32_t k = 0; k < move->nsteps; k++)
        for (int32_t c = 0; c < move->step[k].ncalls; c++)
            if ((move->step[k].call[c].coll == LUO_COLL_AG) == grad) return false;
    return true;
}

/* Operation of F that a gradient's last part is the gradient of, or that reads the weight first. */
static int32_t forward_of(const maker *m, const atom *a)
{
    const luo_graph *graph = m->s->g;
    int32_t o = a->ready;
    if (graph->op[o].kind == LUO_OP_ACCUMULATE) o = graph->tensor[graph->op[o].in[0]].op;
    return graph->op[o].forward >= 0 ? graph->op[o].forward : o;
}

/* -1: embedding; a block; nlayers: head. */
static int32_t unit_of(const maker *m, const atom *a)
{
    const spec *s = m->s;
    const int32_t o = forward_of(m, a), layer = s->g->op[o].layer;
    if (layer >= 0) return layer;
    return s->nlayers > 0 && o > s->first_of_layer[0] ? s->nlayers : -1;
}

/* Largest call of the step, in elements. */
static int64_t elements_of(const spec_step *step)
{
    int64_t most = 0;
    for (int32_t c = 0; c < step->ncalls; c++)
        if (step->call[c].cells > most) most = step->call[c].cells;
    return most;
}

/* Unit of B before which a weight is gathered again; -1: none reads it. */
static int32_t back_unit(const spec *s, int32_t o)
{
    return s->unit_back[s->g->op[o].out[0]];
}

/* Equal keys fuse (docs/architecture/gradients.md#buckets). */
static luo_status key_of(maker *m, const atom *a, int32_t *id)
{
    const spec *s = m->s;
    const spec_move *move = spec_move_of(s, a->op, 0);
    const spec_step *step = &move->step[a->step];
    const size_t mark = luo_arena_mark(s->scratch);
    int32_t n = 0, *key = LUO_NEW_N(s->scratch, int32_t, 5 + 2 * step->ncalls + s->nclasses);
    if (!key) return luo_err_nomem(s->err);
    key[n++] = s->g->op[a->op].phase;
    key[n++] = a->level;
    key[n++] = (int32_t)move->elem_bytes;
    key[n++] = s->duty[a->op] == SPEC_GATHER ? back_unit(s, a->op) : -1;
    key[n++] = step->ncalls;
    for (int32_t c = 0; c < step->ncalls; c++) {
        key[n++] = step->call[c].group;
        key[n++] = step->call[c].coll |
                   spec_variant(s->g->op[a->op].variant, step->call[c].coll, true) << 8;
    }
    for (int32_t c = 0; c < s->nclasses; c++) key[n++] = s->cls[c].vs_out[a->ready];
    *id = luo_intern_id(&m->key, key, n, NULL);
    luo_arena_reset(s->scratch, mark);
    return *id >= 0 ? LUO_OK : luo_err_nomem(s->err);
}

static luo_status add_atoms(maker *m, int32_t o)
{
    const spec *s = m->s;
    const luo_op *op = &s->g->op[o];
    const spec_move *move = spec_move_of(s, o, 0);
    const bool weight = is_weight(s, o);
    s->fused[o] = true;
    for (int32_t k = 0; k < move->nsteps; k++) {
        if (move->step[k].ncalls == 0) continue; /* copies in place */
        atom *a = &m->atom[m->natoms++];
        *a = (atom){.op = o, .step = k, .level = levels_before(move, k)};
        a->ready = weight ? s->reader[op->out[0]] : m->ready[op->in[0]];
        if (!weight && op->phase == LUO_PHASE_POST) a->level += m->level[op->in[0]];
        a->item.unit = unit_of(m, a);
        a->item.opens = weight;
        a->item.elements = elements_of(&move->step[k]);
        a->item.bytes = a->item.elements * move->elem_bytes;
        LUO_TRY(key_of(m, a, &a->item.key));
    }
    return LUO_OK;
}

static int by_completion(const void *p, const void *q)
{
    const atom *a = p, *b = q;
    if (a->ready != b->ready) return a->ready < b->ready ? -1 : 1;
    if (a->op != b->op) return a->op < b->op ? -1 : 1;
    return (a->step > b->step) - (a->step < b->step);
}

/* Those in Post, or the others, after the ones that are closed already. */
static luo_status close_some(maker *m, bool post, luo_bucketing rule, luo_bucket_item *item,
                             int32_t *bucket)
{
    spec *s = m->s;
    int32_t n = 0, more = 0;
    for (int32_t i = 0; i < m->natoms; i++)
        if ((s->g->op[m->atom[i].op].phase == LUO_PHASE_POST) == post) item[n++] = m->atom[i].item;
    LUO_TRY(luo_bucket_close(s->scratch, rule, s->in->npipelines, item, n, m->key.n, bucket, &more,
                             s->err));
    n = 0;
    for (int32_t i = 0; i < m->natoms; i++)
        if ((s->g->op[m->atom[i].op].phase == LUO_PHASE_POST) == post)
            m->atom[i].bucket = s->nbuckets + bucket[n++];
    s->nbuckets += more;
    return LUO_OK;
}

static luo_status close_buckets(maker *m)
{
    spec *s = m->s;
    qsort(m->atom, (size_t)m->natoms, sizeof *m->atom, by_completion);
    luo_bucket_item *item = LUO_NEW_N(s->scratch, luo_bucket_item, m->natoms);
    int32_t *bucket = LUO_NEW_N(s->scratch, int32_t, m->natoms);
    if (!item || !bucket) return luo_err_nomem(s->err);
    s->nbuckets = 0;
    LUO_TRY(close_some(m, false, s->in->bucket, item, bucket));
    return close_some(m, true, s->in->post, item, bucket);
}

/* ---- buckets ---- */

static int by_bucket(const void *p, const void *q)
{
    const atom *a = p, *b = q;
    if (a->bucket != b->bucket) return a->bucket < b->bucket ? -1 : 1;
    return by_completion(p, q);
}

static bool stands_at_unit(const spec *s, const spec_bucket *bucket)
{
    return spec_by_unit(s) && (bucket->phase == LUO_PHASE_F || bucket->phase == LUO_PHASE_B);
}

/* Calls stand behind the last Reshard that they are part of, and those of the step before. */
static luo_status place_calls(maker *m)
{
    spec *s = m->s;
    const int32_t nops = s->g->nops;
    int32_t *behind = LUO_NEW_N(s->scratch, int32_t, nops), top = 0;
    if (!behind) return luo_err_nomem(s->err);
    for (int32_t b = 0; b < s->nbuckets; b++)
        if (s->bucket[b].level > top) top = s->bucket[b].level;
    for (int32_t o = 0; o < nops; o++) behind[o] = o;
    for (int32_t level = 0; level <= top; level++)
        for (int32_t b = 0; b < s->nbuckets; b++) {
            spec_bucket *bucket = &s->bucket[b];
            if (bucket->level != level) continue;
            for (int32_t i = 0; i < bucket->n; i++)
                if (behind[bucket->part[i].op] > bucket->after)
                    bucket->after = behind[bucket->part[i].op];
            for (int32_t i = 0; i < bucket->n; i++) behind[bucket->part[i].op] = bucket->after;
            if (stands_at_unit(s, bucket)) bucket->after = s->g->nops;
        }
    return LUO_OK;
}

static int by_issue(const void *p, const void *q)
{
    const spec_bucket *a = p, *b = q;
    if (a->after != b->after) return a->after < b->after ? -1 : 1;
    if (a->phase != b->phase) return a->phase < b->phase ? -1 : 1;
    if (a->level != b->level) return a->level < b->level ? -1 : 1;
    return (a->exchange > b->exchange) - (a->exchange < b->exchange); /* as they were closed */
}

static luo_status fill_buckets(maker *m)
{
    spec *s = m->s;
    spec_part *part = LUO_NEW_N(s->arena, spec_part, m->natoms);
    s->bucket = LUO_NEW_N(s->arena, spec_bucket, s->nbuckets);
    if (!part || !s->bucket) return luo_err_nomem(s->err);
    qsort(m->atom, (size_t)m->natoms, sizeof *m->atom, by_bucket);
    for (int32_t i = 0; i < m->natoms; i++) {
        const atom *a = &m->atom[i];
        spec_bucket *b = &s->bucket[a->bucket];
        part[i] = (spec_part){a->op, a->step, a->ready};
        if (b->n++ > 0) continue;
        *b = (spec_bucket){.phase = s->g->op[a->op].phase, .level = a->level, .after = -1, .n = 1,
                           .part = &part[i], .exchange = a->bucket, .unit = a->item.unit + 1,
                           .unit_back = s->duty[a->op] == SPEC_GATHER ? back_unit(s, a->op) : -1,
                           .elem_bytes = spec_move_of(s, a->op, 0)->elem_bytes};
    }
    LUO_TRY(place_calls(m));
    qsort(s->bucket, (size_t)s->nbuckets, sizeof *s->bucket, by_issue);
    for (int32_t b = 0; b < s->nbuckets; b++)
        for (int32_t i = 0; i < s->bucket[b].n; i++)
            s->bucket_of[s->bucket[b].part[i].op] = b; /* levels ascend */
    return LUO_OK;
}

/* ---- one step of many tensors ---- */

static const luo_move *move_of(const spec *s, const spec_part *part, int32_t call)
{
    const spec_move *move = spec_move_of(s, part->op, 0);
    return &move->resolution->moves.at[move->step[part->step].call[call].move];
}

/* Bytes and counts of a call are the sums of its parts'. */
static luo_status sum_call(spec *s, const spec_bucket *bucket, const spec_call *call, int32_t c,
                           spec_item *it)
{
    const int32_t n = s->group[call->group].n;
    const bool whole = call->coll == LUO_COLL_AR;
    int64_t *counts = whole ? NULL : LUO_NEW_N(s->arena, int64_t, n);
    if (!whole && !counts) return luo_err_nomem(s->err);
    *it = (spec_item){.kind = LUO_INSTR_COLLECTIVE, .stream = LUO_STREAM_DP,
                      .coll = (uint8_t)call->coll, .slot.group = call->group, .call = c};
    for (int32_t i = 0; i < bucket->n; i++) {
        const luo_move *move = move_of(s, &bucket->part[i], c);
        for (int32_t k = 0; k < move->nregion; k++) {
            const int64_t cells = luo_region_volume(&move->region[k]);
            it->bytes += cells * bucket->elem_bytes;
            if (counts) counts[k] += cells;
        }
    }
    for (int32_t k = 1; counts && k < n; k++) it->v |= counts[k] != counts[0];
    if (it->v) it->slot.counts = counts;
    it->variant = spec_variant(s->g->op[bucket->part[0].op].variant, call->coll, it->v);
    return LUO_OK;
}

static bool calls_here(const spec_step *step, int32_t i, int32_t *n)
{
    *n = 0;
    for (int32_t k = step->first[i]; k < step->first[i + 1]; k++)
        *n += step->item[k].kind == LUO_INSTR_COLLECTIVE;
    return *n > 0;
}

static luo_status make_step(spec *s, spec_bucket *bucket)
{
    const spec_move *move = spec_move_of(s, bucket->part[0].op, 0);
    const spec_step *step =
        &move->step[bucket->part[0].step]; /* equal groups: the others have the same */
    int32_t n = 0, items = 0, k;
    for (int32_t i = 0; i < step->n; i++)
        if (calls_here(step, i, &k)) n++, items += k;
    int32_t *dev = LUO_NEW_N(s->arena, int32_t, n), *first = LUO_NEW_N(s->arena, int32_t, n + 1);
    spec_item *item = LUO_NEW_N(s->arena, spec_item, items);
    spec_item *call = LUO_NEW_N(s->scratch, spec_item, step->ncalls);
    if (!dev || !first || !item || !call) return luo_err_nomem(s->err);
    for (int32_t c = 0; c < step->ncalls; c++)
        LUO_TRY(sum_call(s, bucket, &step->call[c], c, &call[c]));
    n = items = 0;
    for (int32_t i = 0; i < step->n; i++) {
        if (!calls_here(step, i, &k)) continue;
        dev[n] = step->dev[i];
        first[n++] = items;
        for (int32_t j = 0; j < k; j++) item[items++] = call[step->item[step->first[i] + j].call];
    }
    first[n] = items;
    bucket->step = (spec_step){.id = s->nsteps++,
                               .n = n,
                               .dev = dev,
                               .first = first,
                               .item = item,
                               .ncalls = step->ncalls,
                               .call = step->call};
    return LUO_OK;
}

static luo_status list_exchanges(spec *s)
{
    const int32_t was = s->nexchanges;
    luo_exchange *at = LUO_NEW_N(s->arena, luo_exchange, was + s->nbuckets);
    if (!at) return luo_err_nomem(s->err);
    if (was) memcpy(at, s->exchange, (size_t)was * sizeof *at);
    for (int32_t i = 0; i < s->nbuckets; i++) {
        spec_bucket *bucket = &s->bucket[i];
        int32_t *part = LUO_NEW_N(s->arena, int32_t, bucket->n);
        if (!part) return luo_err_nomem(s->err);
        for (int32_t k = 0; k < bucket->n; k++)
            part[k] = s->exchange_of[(int64_t)bucket->part[k].op * s->in->nlengths] +
                      bucket->part[k].step;
        bucket->exchange = was + i;
        at[was + i] = (luo_exchange){.op = s->g->nops + i,
                                     .src = "",
                                     .dst = "",
                                     .elem_bytes = bucket->elem_bytes,
                                     .nparts = bucket->n,
                                     .part = part};
    }
    s->exchange = at;
    s->nexchanges = was + s->nbuckets;
    return LUO_OK;
}

static luo_status make(maker *m)
{
    spec *s = m->s;
    LUO_TRY(open(m));
    for (int32_t o = 0; o < s->g->nops; o++)
        if (may_fuse(m, o)) LUO_TRY(add_atoms(m, o));
    if (m->natoms == 0) return LUO_OK;
    LUO_TRY(close_buckets(m));
    LUO_TRY(fill_buckets(m));
    for (int32_t b = 0; b < s->nbuckets; b++) LUO_TRY(make_step(s, &s->bucket[b]));
    return list_exchanges(s);
}

luo_status luo_spec_make_buckets(spec *s)
{
    maker m = {.s = s};
    if (luo_bucketing_is_off(s->in->bucket)) return LUO_OK;
    const size_t mark = luo_arena_mark(s->scratch);
    const luo_status st = make(&m);
    luo_arena_reset(s->scratch, mark);
    return st;
}
