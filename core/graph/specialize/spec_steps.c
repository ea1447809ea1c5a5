/* spec_steps.c: the steps of a resolution, turned round: from what moves to what each
 * device does. Collectives keep their list order; all messages of a device in one step are one
 * batch, and all cells for one ordered pair one message (docs/annotations.md#operations). */
#include <stdlib.h>
#include <string.h>

#include "core/base/vec.h"
#include "core/graph/specialize/spec_internal.h"

typedef struct pair {
    int32_t from, to;
    int64_t elements;
} pair;

typedef struct tally { /* what one device does in the step */
    int32_t ncoll, nsend, nrecv, ncopy;
    int64_t copied;
    int32_t items, at; /* items; those filled in so far */
} tally;

typedef struct job { /* one step being made */
    spec *s;
    const spec_move *m;
    const luo_move *at; /* its moves */
    int32_t n, k;
    tally *of;      /* by device index */
    int32_t *list;  /* devices that take part, as indices */
    int32_t nlist;
    pair *sends;
    int32_t nsends;
    spec_item *item;
    int32_t *first;
    spec_call *call;
    int32_t ncalls;
} job;

static int compare_send(const void *a, const void *b)
{
    const pair *x = a, *y = b;
    if (x->from != y->from) return (x->from > y->from) - (x->from < y->from);
    return (x->to > y->to) - (x->to < y->to);
}

static int compare_recv(const void *a, const void *b)
{
    const pair *x = a, *y = b;
    if (x->to != y->to) return (x->to > y->to) - (x->to < y->to);
    return (x->from > y->from) - (x->from < y->from);
}

static luo_status find(const job *j, int32_t dev, tally **t)
{
    const int32_t index = dev <= j->s->max_device ? j->s->index_of[dev] : -1;
    if (index < 0)
        return luo_err_set(j->s->err, LUO_EINPUT,
                           "device %d of `%s` is in no stage; name devices of the plan's stages.",
                           (int)dev, j->m->name);
    *t = &j->of[index];
    return LUO_OK;
}

static void touch(job *j, int32_t dev)
{
    const int32_t index = j->s->index_of[dev];
    const tally *t = &j->of[index];
    if (t->ncoll + t->nsend + t->nrecv + t->ncopy == 0) j->list[j->nlist++] = index;
}

static luo_status check_pipelines(const job *j, const luo_move *move)
{
    const spec *s = j->s;
    if (j->m->trade) return LUO_OK; /* experts may be of several pipelines */
    if (move->kind == LUO_MOVE_SEND && s->in->nabsent)
        return LUO_OK; /* to or from one standing in */
    for (int32_t i = 1; i < move->ndev && j->m->per_micro_batch; i++)
        if (s->pipe_of[move->dev[i]] != s->pipe_of[move->dev[0]])
            return luo_err_set(s->err, LUO_EINPUT,
                               "reshard `%s` joins pipelines %d and %d inside a micro-batch; keep "
                               "members apart until gradients are summed.",
                               j->m->name, (int)s->pipe_of[move->dev[0]],
                               (int)s->pipe_of[move->dev[i]]);
    return LUO_OK;
}

static luo_status count_send(job *j, const luo_move *move)
{
    tally *from, *to;
    int64_t elements = luo_region_volume(&move->region[0]);
    if (j->m->trade) /* how many they are is known when the step runs */
        LUO_TRY(luo_spec_trade_sends(j->s, j->m, move, &elements));
    else if (elements == 0)
        return LUO_OK;
    LUO_TRY(find(j, move->dev[0], &from));
    LUO_TRY(find(j, move->dev[1], &to));
    touch(j, move->dev[0]);
    from->nsend++;
    touch(j, move->dev[1]);
    to->nrecv++;
    j->sends[j->nsends++] = (pair){move->dev[0], move->dev[1], elements};
    return LUO_OK;
}

static luo_status count_move(job *j, const luo_move *move)
{
    LUO_TRY(check_pipelines(j, move));
    if (move->kind == LUO_MOVE_SEND) return count_send(j, move);
    for (int32_t d = 0; d < move->ndev; d++) {
        tally *t;
        LUO_TRY(find(j, move->dev[d], &t));
        touch(j, move->dev[d]);
        if (move->kind != LUO_MOVE_COPY) {
            t->ncoll++;
            continue;
        }
        t->ncopy++;
        t->copied += luo_region_volume(&move->region[0]);
    }
    return LUO_OK;
}

/* A lone copy of everything the device holds is a new name for the same buffer. */
static bool is_alias(const job *j, const tally *t, int32_t dev)
{
    if (t->ncoll || t->nsend || t->nrecv) return false;
    if (j->k > 0) return true;
    const spec_dims *had = luo_spec_find(j->s, j->m->from, dev);
    return had && had->volume == t->copied;
}

static void count_items(job *j)
{
    for (int32_t i = 0; i < j->nlist; i++) {
        tally *t = &j->of[j->list[i]];
        t->items = t->ncoll + (t->nsend || t->nrecv);
        if (t->copied > 0 && !is_alias(j, t, j->s->dev[j->list[i]])) t->items++;
    }
}

/* ---- second pass: items ---- */

static luo_status group_id(spec *s, luo_stream stream, const int32_t *dev, int32_t n, int32_t *id)
{
    const size_t mark = luo_arena_mark(s->scratch);
    int32_t *key = LUO_NEW_N(s->scratch, int32_t, n + 1);
    if (!key) return luo_err_nomem(s->err);
    key[0] = (int32_t)stream;
    memcpy(key + 1, dev, (size_t)n * sizeof *dev);
    bool fresh;
    *id = luo_intern_id(&s->group_key, key, n + 1, &fresh);
    luo_arena_reset(s->scratch, mark);
    if (*id < 0) return luo_err_nomem(s->err);
    if (!fresh) return LUO_OK;
    if (!LUO_VEC_ROOM_IN(s->arena, s->group, *id, s->cap_group)) return luo_err_nomem(s->err);
    s->group[*id] = (luo_group){n, s->group_key.key[*id].at + 1, (int32_t)stream};
    return LUO_OK;
}

static spec_item *next_item(job *j, int32_t dev)
{
    tally *t = &j->of[j->s->index_of[dev]];
    return &j->item[t->at++];
}

/* LUO_COLLS: none. */
static luo_coll coll_of(luo_move_kind k)
{
    switch (k) {
    case LUO_MOVE_AR: return LUO_COLL_AR;
    case LUO_MOVE_RS: return LUO_COLL_RS;
    case LUO_MOVE_AG: return LUO_COLL_AG;
    case LUO_MOVE_A2A: return LUO_COLL_A2A;
    case LUO_MOVE_COPY:
    case LUO_MOVE_SEND:
    case LUO_MOVE_LOAD: break;
    }
    return LUO_COLLS;
}

static luo_status add_collective(job *j, const luo_move *move)
{
    spec *s = j->s;
    const luo_stream stream = j->m->per_micro_batch ? LUO_STREAM_TP : LUO_STREAM_DP;
    if (coll_of(move->kind) == LUO_COLLS)
        return luo_err_set(s->err, LUO_EBUG,
                           "a Reshard has a move of kind %d, which is no "
                           "communication of a program; report it.",
                           (int)move->kind);
    spec_item it = {.kind = LUO_INSTR_COLLECTIVE,
                    .stream = (uint8_t)stream,
                    .coll = (uint8_t)coll_of(move->kind),
                    .v = move->v,
                    .call = j->ncalls};
    it.variant = spec_variant(j->m->variant, it.coll, it.v);
    LUO_TRY(group_id(s, stream, move->dev, move->ndev, &it.slot.group));
    int64_t cells = 0, *counts = move->v ? LUO_NEW_N(s->arena, int64_t, move->ndev) : NULL;
    if (move->v && !counts) return luo_err_nomem(s->err);
    for (int32_t i = 0; i < move->nregion; i++) {
        const int64_t n = luo_region_volume(&move->region[i]);
        if (counts) counts[i] = n;
        cells += n;
    }
    it.bytes = cells * j->m->elem_bytes;
    if (it.coll == LUO_COLL_A2A) it.bytes = (it.bytes + move->ndev - 1) / move->ndev;
    if (j->m->trade) LUO_TRY(luo_spec_trade_bytes(s, j->m, move, &it.bytes));
    it.slot.counts = counts;
    j->call[j->ncalls++] =
        (spec_call){it.slot.group, it.coll, (int32_t)(move - j->m->resolution->moves.at), cells};
    for (int32_t i = 0; i < move->ndev; i++) *next_item(j, move->dev[i]) = it;
    return LUO_OK;
}

/* Sums the cells of equal pairs. Pre: sorted. */
static void merge_pairs(job *j)
{
    int32_t n = 0;
    for (int32_t i = 0; i < j->nsends; i++) {
        if (n && compare_send(&j->sends[n - 1], &j->sends[i]) == 0)
            j->sends[n - 1].elements += j->sends[i].elements;
        else
            j->sends[n++] = j->sends[i];
    }
    j->nsends = n;
}

static int32_t run_length(const job *j, int32_t i, bool send)
{
    int32_t n = 1;
    const pair *p = j->sends;
    while (i + n < j->nsends && (send ? p[i + n].from == p[i].from : p[i + n].to == p[i].to)) n++;
    return n;
}

/* Adds the runs of one direction to the devices' batches; sends are added first. */
static luo_status add_messages(job *j, bool send, spec_item **batch)
{
    spec *s = j->s;
    for (int32_t i = 0, n; i < j->nsends; i += n) {
        n = run_length(j, i, send);
        const pair *p = &j->sends[i];
        const int32_t self = send ? p->from : p->to, index = s->index_of[self];
        spec_item *it = batch[index];
        if (!it) {
            it = batch[index] = next_item(j, self);
            *it = (spec_item){.kind = LUO_INSTR_P2P, .stream = LUO_STREAM_DP};
            if (j->m->trade) it->coll = LUO_COLL_A2A;
            it->slot.group = -1;
            if (j->m->per_micro_batch) it->stream = LUO_STREAM_TP;
        }
        const int32_t had = it->slot.nmessage;
        luo_message *all = LUO_NEW_N(s->arena, luo_message, had + n);
        if (!all) return luo_err_nomem(s->err);
        if (had) memcpy(all, it->slot.message, (size_t)had * sizeof *all);
        for (int32_t k = 0; k < n; k++) {
            const int32_t peer = send ? p[k].to : p[k].from;
            const int64_t bytes = p[k].elements * j->m->elem_bytes;
            all[had + k] = (luo_message){peer, send, p[k].elements, bytes};
            if (send) it->bytes += bytes;
            if (j->m->per_micro_batch && s->stage_of[peer] != s->stage_of[self])
                it->stream = LUO_STREAM_PP;
        }
        it->slot.message = all;
        it->slot.nmessage = had + n;
    }
    return LUO_OK;
}

static luo_status add_batches(job *j)
{
    if (j->nsends == 0) return LUO_OK;
    spec_item **batch = LUO_NEW_N(j->s->scratch, spec_item *, j->s->ndev);
    if (!batch) return luo_err_nomem(j->s->err);
    qsort(j->sends, (size_t)j->nsends, sizeof *j->sends, compare_send);
    merge_pairs(j);
    LUO_TRY(add_messages(j, true, batch));
    qsort(j->sends, (size_t)j->nsends, sizeof *j->sends, compare_recv);
    return add_messages(j, false, batch);
}

static void add_copies(job *j)
{
    for (int32_t i = 0; i < j->nlist; i++) {
        tally *t = &j->of[j->list[i]];
        if (t->at == j->first[i + 1]) continue;
        spec_item *it = &j->item[t->at++];
        *it = (spec_item){.kind = LUO_INSTR_LOCAL, .stream = LUO_STREAM_COMPUTE,
                          .bytes = t->copied * j->m->elem_bytes};
        it->slot.group = -1;
    }
}

/* Will the instruction say where its cells lie? */
static bool names_pieces(const job *j, const spec_item *it)
{
    return it->kind == LUO_INSTR_COLLECTIVE && it->stream == LUO_STREAM_DP &&
           !luo_bucketing_is_off(j->s->in->bucket);
}

/* Equal structures have equal instructions; only groups and peers may differ, and where `alike` is
 * equal the offsets of pieces. */
static luo_status structure_id(job *j, int32_t i, int32_t *id, int32_t *alike)
{
    const int32_t n = j->first[i + 1] - j->first[i];
    const size_t mark = luo_arena_mark(j->s->scratch);
    int32_t *key = LUO_NEW_N(j->s->scratch, int32_t, 8 * n), len = 4 * n;
    if (!key) return luo_err_nomem(j->s->err);
    for (int32_t k = 0; k < n; k++) {
        const spec_item *it = &j->item[j->first[i] + k];
        bool receives = false;
        for (int32_t m = 0; m < it->slot.nmessage; m++) receives |= !it->slot.message[m].send;
        key[4 * k] = it->kind | it->stream << 4 | it->coll << 8 | it->v << 12 | it->variant << 13;
        key[4 * k + 1] = receives;
        key[4 * k + 2] = (int32_t)(uint32_t)it->bytes;
        key[4 * k + 3] = (int32_t)(it->bytes >> 32);
    }
    *alike = luo_intern_id(&j->s->structure_key, key, len, NULL);
    for (int32_t k = 0; k < n; k++) {
        const spec_item *it = &j->item[j->first[i] + k];
        int64_t offset;
        if (!names_pieces(j, it)) continue;
        LUO_TRY(luo_spec_offset(j->s, j->m, &j->call[it->call], j->s->dev[j->list[i]], &offset));
        if (offset == 0) continue;
        key[4 * k + 1] |= 2;
        key[len++] = (int32_t)(uint32_t)offset;
        key[len++] = (int32_t)(offset >> 32);
    }
    *id = luo_intern_id(&j->s->structure_key, key, len, NULL);
    luo_arena_reset(j->s->scratch, mark);
    return *id >= 0 && *alike >= 0 ? LUO_OK : luo_err_nomem(j->s->err);
}

static luo_status fill(job *j, spec_step *step)
{
    spec *s = j->s;
    int32_t *dev = LUO_NEW_N(s->arena, int32_t, j->nlist);
    int32_t *structure = LUO_NEW_N(s->arena, int32_t, j->nlist);
    int32_t *alike = LUO_NEW_N(s->arena, int32_t, j->nlist);
    j->first = LUO_NEW_N(s->arena, int32_t, j->nlist + 1);
    if (!dev || !structure || !alike || !j->first) return luo_err_nomem(s->err);
    for (int32_t i = 0; i < j->nlist; i++) {
        tally *t = &j->of[j->list[i]];
        dev[i] = s->dev[j->list[i]];
        t->at = j->first[i];
        j->first[i + 1] = j->first[i] + t->items;
    }
    j->item = LUO_NEW_N(s->arena, spec_item, j->first[j->nlist]);
    j->call = LUO_NEW_N(s->arena, spec_call, j->n);
    if (!j->item || !j->call) return luo_err_nomem(s->err);
    for (int32_t i = 0; i < j->n; i++)
        if (j->at[i].kind != LUO_MOVE_COPY && j->at[i].kind != LUO_MOVE_SEND)
            LUO_TRY(add_collective(j, &j->at[i]));
    LUO_TRY(add_batches(j));
    add_copies(j);
    for (int32_t i = 0; i < j->nlist; i++) LUO_TRY(structure_id(j, i, &structure[i], &alike[i]));
    *step = (spec_step){.id = s->nsteps++,
                        .n = j->nlist,
                        .dev = dev,
                        .first = j->first,
                        .structure = structure,
                        .alike = alike,
                        .item = j->item,
                        .ncalls = j->ncalls,
                        .call = j->call};
    return LUO_OK;
}

static luo_status make_step(spec *s, const spec_move *move, int32_t first, int32_t n, int32_t k,
                            spec_step *step)
{
    job j = {.s = s,
             .m = move,
             .at = move->resolution->moves.at + first,
             .n = n,
             .k = k,
             .of = LUO_NEW_N(s->scratch, tally, s->ndev),
             .list = LUO_NEW_N(s->scratch, int32_t, s->ndev),
             .sends = LUO_NEW_N(s->scratch, pair, n)};
    if (!j.of || !j.list || !j.sends) return luo_err_nomem(s->err);
    for (int32_t i = 0; i < n; i++) LUO_TRY(count_move(&j, &j.at[i]));
    qsort(j.list, (size_t)j.nlist, sizeof *j.list, luo_vec_by_int32);
    count_items(&j);
    return fill(&j, step);
}

luo_status luo_spec_make_steps(spec *s, spec_move *move)
{
    const luo_moves *all = &move->resolution->moves;
    for (int32_t i = 0; i < all->n; i++) move->has_messages |= all->at[i].kind == LUO_MOVE_SEND;
    move->nsteps = move->resolution->nsteps;
    move->step = LUO_NEW_N(s->arena, spec_step, move->nsteps);
    if (!move->step) return luo_err_nomem(s->err);
    int32_t first = 0;
    for (int32_t k = 0; k < move->nsteps; k++) {
        int32_t n = 0;
        while (first + n < all->n && all->at[first + n].step == k) n++;
        const size_t mark = luo_arena_mark(s->scratch);
        const luo_status st = make_step(s, move, first, n, k, &move->step[k]);
        luo_arena_reset(s->scratch, mark);
        if (st != LUO_OK) return st;
        first += n;
    }
    return LUO_OK;
}

int32_t luo_spec_take_part(const spec_step *step, int32_t dev)
{
    int32_t lo = 0, hi = step->n;
    while (lo < hi) {
        const int32_t mid = lo + (hi - lo) / 2;
        if (step->dev[mid] < dev)
            lo = mid + 1;
        else hi = mid;
    }
    return lo < step->n && step->dev[lo] == dev ? lo : -1;
}
