/* wires.h: all devices of one Reshard in one process. Routes are followed on arrays of
 * integers; messages are queues, a collective happens when all of its group have come to it. */
#ifndef LUO_TESTS_EXEC_WIRES_H
#define LUO_TESTS_EXEC_WIRES_H
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "tests/exec/cells.h"

typedef struct wire_device {
    const luo_program *program;
    const luo_role *role;
    int32_t *instr, n, at; /* instructions of the Reshard here; how far it is */
    luo_route *route;      /* of each */
    bool posted;           /* the messages of the batch at hand have been sent */
    int64_t **buf, *len;   /* by buffer; NULL: not used */
    int64_t *scratch, nscratch;
} wire_device;

typedef struct wire_message {
    int32_t from, to, exchange;
    int64_t n, *value;
    bool taken;
} wire_message;

typedef struct wires {
    luo_arena *arena;
    const luo_programs *set;
    wire_device *dev;
    int32_t ndev;
    wire_message *post;
    int32_t nposts, cap;
    int scratches, enters, leaves, maxes; /* how often they were met */
    char why[512];                        /* "": all is well */
} wires;

static inline bool wires_say(wires *w, const char *fmt, ...) LUO_PRINTF(2, 3);
static inline bool wires_say(wires *w, const char *fmt, ...)
{
    va_list ap;
    if (w->why[0]) return false;
    va_start(ap, fmt);
    vsnprintf(w->why, sizeof w->why, fmt, ap);
    va_end(ap);
    return false;
}

static inline int64_t *wires_array(luo_arena *a, int64_t n)
{
    int64_t *v = LUO_NEW_N(a, int64_t, n);
    for (int64_t i = 0; i < n; i++) v[i] = CELLS_POISON;
    return v;
}

/* A device with the given instructions; its buffers are poisoned. */
static inline bool wires_add(wires *w, const luo_program *p, const int32_t *instr, int32_t n)
{
    wire_device *d = &w->dev[w->ndev++];
    const luo_role *r = &w->set->roles[p->role];
    luo_err err = {0};
    *d = (wire_device){.program = p,
                       .role = r,
                       .n = n,
                       .instr = LUO_NEW_N(w->arena, int32_t, n),
                       .route = LUO_NEW_N(w->arena, luo_route, n),
                       .buf = LUO_NEW_N(w->arena, int64_t *, r->nbuf),
                       .len = LUO_NEW_N(w->arena, int64_t, r->nbuf)};
    for (int32_t k = 0; k < n; k++) {
        d->instr[k] = instr[k];
        if (luo_route_of(w->arena, w->set, p, instr[k], &d->route[k], &err) != LUO_OK)
            return wires_say(w, "%s", err.text);
        if (d->route[k].first != instr[0] || d->route[k].last != instr[n - 1])
            return wires_say(w, "device %d: the Reshard is %d..%d, not %d..%d", p->device,
                             d->route[k].first, d->route[k].last, instr[0], instr[n - 1]);
        if (k && d->route[k].scratch_elements != d->nscratch)
            return wires_say(w, "device %d: two sizes of one scratch", p->device);
        d->nscratch = d->route[k].scratch_elements;
    }
    d->scratch = wires_array(w->arena, d->nscratch);
    w->scratches += d->nscratch > 0;
    return true;
}

/* Array of a buffer of a device, made on first use. */
static inline int64_t *wires_buffer(wires *w, wire_device *d, int32_t buffer)
{
    luo_frame f;
    if (d->buf[buffer]) return d->buf[buffer];
    luo_frame_of(w->arena, &d->role->buf[buffer], d->program->device, &f, NULL);
    d->len[buffer] = f.volume;
    return d->buf[buffer] = wires_array(w->arena, f.volume);
}

static inline int64_t *wires_end(wires *w, wire_device *d, int32_t buffer, int64_t *len)
{
    int64_t *v = d->scratch;
    *len = d->nscratch;
    if (buffer == LUO_ROUTE_SCRATCH) return v;
    if (buffer < 0) {
        wires_say(w, "device %d: cells of no buffer are moved", d->program->device);
        *len = 0;
        return v;
    }
    v = wires_buffer(w, d, buffer);
    *len = d->len[buffer];
    return v;
}

/* Packs the segments into a new array, or unpacks value[] into them. */
static inline int64_t *wires_pack(wires *w, wire_device *d, int32_t buffer,
                                  const luo_copy_segments *s)
{
    int64_t len, n = 0, *out = LUO_NEW_N(w->arena, int64_t, s->elements + 1);
    if (s->elements == 0) return out;
    const int64_t *from = wires_end(w, d, buffer, &len);
    for (int32_t k = 0; k < s->n; k++) {
        if (s->at[k].n < 1 || s->at[k].at < 0 || s->at[k].at + s->at[k].n > len ||
            (k && s->at[k - 1].at + s->at[k - 1].n == s->at[k].at)) {
            wires_say(w, "device %d: strip %d is bad", d->program->device, k);
            return out;
        }
        for (int64_t i = 0; i < s->at[k].n; i++) out[n++] = from[s->at[k].at + i];
    }
    if (n != s->elements) wires_say(w, "device %d: strips do not add up", d->program->device);
    return out;
}

static inline void wires_unpack(wires *w, wire_device *d, int32_t buffer,
                                const luo_copy_segments *s, const int64_t *value, int64_t n)
{
    int64_t len, got = 0;
    if (n != s->elements)
        wires_say(w, "device %d: %lld elements arrive, not %lld", d->program->device, (long long)n,
                  (long long)s->elements);
    if (w->why[0] || n == 0) return;
    int64_t *to = wires_end(w, d, buffer, &len);
    for (int32_t k = 0; k < s->n; k++)
        for (int64_t i = 0; i < s->at[k].n; i++) {
            if (s->at[k].at < 0 || s->at[k].at + i >= len) {
                wires_say(w, "device %d: a strip ends outside", d->program->device);
                return;
            }
            to[s->at[k].at + i] = value[got++];
        }
}

static inline void wires_copy(wires *w, wire_device *d, const luo_route_copy *c, int *met)
{
    if (c->from == -1) return;
    *met += 1;
    if (d->nscratch == 0) wires_say(w, "device %d: a copy without scratch", d->program->device);
    const int64_t *v = wires_pack(w, d, c->from, &c->src);
    wires_unpack(w, d, c->to, &c->dst, v, c->src.elements);
}

static inline const luo_instr *wires_head(const wire_device *d)
{
    return d->at < d->n ? &d->role->instr[d->instr[d->at]] : NULL;
}

static inline void wires_done(wires *w, wire_device *d)
{
    wires_copy(w, d, &d->route[d->at].leave, &w->leaves);
    d->at++;
    d->posted = false;
}

/* ---- collectives ---- */

static inline wire_device *wires_find(wires *w, int32_t device)
{
    for (int32_t k = 0; k < w->ndev; k++)
        if (w->dev[k].program->device == device) return &w->dev[k];
    return NULL;
}

/* Sums (or takes the largest) of what all ranks sent in place j; of `from` only if it is >= 0. */
static inline int64_t *wires_combine(wires *w, wire_device **rank, int64_t ***sent, int32_t n,
                                     int32_t j, int32_t from, int64_t *len)
{
    const luo_route *first = &rank[from < 0 ? 0 : from]->route[rank[from < 0 ? 0 : from]->at];
    *len = first->send[j].elements;
    int64_t *out = LUO_NEW_N(w->arena, int64_t, *len + 1);
    memcpy(out, sent[from < 0 ? 0 : from][j], (size_t)*len * sizeof *out);
    for (int32_t k = 1; k < n && from < 0; k++) {
        const luo_route *r = &rank[k]->route[rank[k]->at];
        if (r->send[j].elements != *len || r->reduce != first->reduce)
            wires_say(w, "device %d sums otherwise than its group", rank[k]->program->device);
        for (int64_t i = 0; i < *len && !w->why[0]; i++) {
            const int64_t v = sent[k][j][i];
            if (r->reduce == LUO_REDUCE_SUM)
                out[i] += v;
            else if (v > out[i])
                out[i] = v;
        }
    }
    return out;
}

static inline void wires_meet(wires *w, wire_device **rank, int32_t n, int32_t coll)
{
    int64_t ***sent = LUO_NEW_N(w->arena, int64_t **, n), len;
    for (int32_t k = 0; k < n; k++) {
        luo_route *r = &rank[k]->route[rank[k]->at];
        wires_copy(w, rank[k], &r->enter, &w->enters);
        if (r->rank != k || r->n != n)
            wires_say(w, "device %d: rank %d of %d, not %d of %d", rank[k]->program->device,
                      r->rank, r->n, k, n);
        if (w->why[0]) return;
        w->maxes += r->reduce == LUO_REDUCE_MAX;
        sent[k] = LUO_NEW_N(w->arena, int64_t *, n);
        for (int32_t j = 0; j < n; j++) sent[k][j] = wires_pack(w, rank[k], r->in, &r->send[j]);
    }
    for (int32_t k = 0; k < n && !w->why[0]; k++) {
        luo_route *r = &rank[k]->route[rank[k]->at];
        for (int32_t j = 0; j < (coll == LUO_COLL_AG ? n : 1); j++) {
            const bool gathers = coll == LUO_COLL_AG, scatters = coll == LUO_COLL_RS;
            const int64_t *v =
                wires_combine(w, rank, sent, n, scatters ? k : 0, gathers ? j : -1, &len);
            wires_unpack(w, rank[k], r->out, &r->recv[j], v, len);
        }
    }
    for (int32_t k = 0; k < n; k++) wires_done(w, rank[k]);
}

static inline bool wires_collective(wires *w, wire_device *d)
{
    const luo_instr *i = wires_head(d);
    const int32_t id = d->program->slots[i->slot].group;
    const luo_group *g = &w->set->groups[id];
    wire_device **rank = LUO_NEW_N(w->arena, wire_device *, g->n);
    for (int32_t k = 0; k < g->n; k++) {
        rank[k] = wires_find(w, g->dev[k]);
        const luo_instr *x = rank[k] ? wires_head(rank[k]) : NULL;
        if (!x || x->kind != LUO_INSTR_COLLECTIVE || x->exchange != i->exchange ||
            rank[k]->program->slots[x->slot].group != id)
            return false;
    }
    wires_meet(w, rank, g->n, i->coll);
    return true;
}

/* ---- messages and copies ---- */

static inline void wires_post(wires *w, int32_t from, int32_t to, int32_t exchange,
                              const int64_t *v, int64_t n)
{
    if (w->nposts == w->cap) {
        const size_t old = (size_t)w->cap * sizeof *w->post;
        w->post = luo_arena_grow(w->arena, w->post, old, 2 * old + 16 * sizeof *w->post);
        w->cap = 2 * w->cap + 16;
    }
    int64_t *copy = LUO_NEW_N(w->arena, int64_t, n + 1);
    memcpy(copy, v, (size_t)n * sizeof *v);
    w->post[w->nposts++] = (wire_message){from, to, exchange, n, copy, false};
}

static inline wire_message *wires_wanted(wires *w, int32_t from, int32_t to, int32_t exchange)
{
    for (int32_t k = 0; k < w->nposts; k++) {
        wire_message *m = &w->post[k];
        if (!m->taken && m->from == from && m->to == to && m->exchange == exchange) return m;
    }
    return NULL;
}

static inline bool wires_batch(wires *w, wire_device *d)
{
    const luo_instr *i = wires_head(d);
    const luo_slot *slot = &d->program->slots[i->slot];
    const int32_t me = d->program->device;
    luo_route *r = &d->route[d->at];
    bool all = true;
    if (!d->posted) wires_copy(w, d, &r->enter, &w->enters);
    for (int32_t j = 0; j < slot->nmessage && !d->posted; j++)
        if (slot->message[j].send)
            wires_post(w, me, slot->message[j].peer, i->exchange,
                       wires_pack(w, d, r->in, &r->send[j]), r->send[j].elements);
    const bool moved = !d->posted;
    d->posted = true;
    for (int32_t j = 0; j < slot->nmessage; j++)
        all = all &&
              (slot->message[j].send || wires_wanted(w, slot->message[j].peer, me, i->exchange));
    if (!all) return moved;
    for (int32_t j = 0; j < slot->nmessage; j++) {
        if (slot->message[j].send) continue;
        wire_message *m = wires_wanted(w, slot->message[j].peer, me, i->exchange);
        m->taken = true;
        wires_unpack(w, d, r->out, &r->recv[j], m->value, m->n);
    }
    wires_done(w, d);
    return true;
}

static inline bool wires_local(wires *w, wire_device *d)
{
    luo_route *r = &d->route[d->at];
    wires_copy(w, d, &r->enter, &w->enters);
    const int64_t *v = wires_pack(w, d, r->in, &r->send[0]);
    wires_unpack(w, d, r->out, &r->recv[0], v, r->send[0].elements);
    wires_done(w, d);
    return true;
}

static inline bool wires_step(wires *w, wire_device *d)
{
    const luo_instr *i = wires_head(d);
    if (!i || w->why[0]) return false;
    if (i->kind == LUO_INSTR_COLLECTIVE) return wires_collective(w, d);
    if (i->kind == LUO_INSTR_P2P) return wires_batch(w, d);
    return wires_local(w, d);
}

/* Runs all devices to their ends. */
static inline void wires_run(wires *w)
{
    for (bool moved = true; moved && !w->why[0];) {
        moved = false;
        for (int32_t k = 0; k < w->ndev; k++)
            while (wires_step(w, &w->dev[k])) moved = true;
    }
    for (int32_t k = 0; k < w->ndev; k++)
        if (w->dev[k].at < w->dev[k].n)
            wires_say(w, "device %d waits for ever", w->dev[k].program->device);
}

/* ---- before and after ---- */

/* Puts the values of a holding into a buffer: cell after cell, each found by counting. */
static inline void wires_fill(wires *w, wire_device *d, int32_t buffer, const luo_holding *h,
                              const luo_shape *shape, const int64_t *value)
{
    luo_frame f;
    int64_t *v = wires_buffer(w, d, buffer);
    luo_frame_of(w->arena, &d->role->buf[buffer], d->program->device, &f, NULL);
    for (int64_t c = 0, at = 0, n = cells_count(shape); c < n; c++) {
        const bool mine = cells_inside(&h->region, shape, c);
        const bool here = cells_inside(&f.region, shape, c);
        if (mine && !here) wires_say(w, "device %d: no room for its cells", d->program->device);
        if (mine && here) v[at] = value[c];
        at += here;
    }
}

/* What a buffer holds, by cell of the whole tensor; poison where it has no such cell. */
static inline int64_t *wires_spread(wires *w, wire_device *d, int32_t buffer,
                                    const luo_shape *shape)
{
    luo_frame f;
    const int64_t n = cells_count(shape), *v = wires_buffer(w, d, buffer);
    int64_t *out = wires_array(w->arena, n);
    luo_frame_of(w->arena, &d->role->buf[buffer], d->program->device, &f, NULL);
    for (int64_t c = 0, at = 0; c < n; c++)
        if (cells_inside(&f.region, shape, c)) out[c] = v[at++];
    return out;
}
#endif
