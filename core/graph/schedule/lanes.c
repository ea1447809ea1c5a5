/* lanes.c: list scheduling of calls on lanes of devices. */
#include "core/graph/schedule/lanes.h"

#include <stdlib.h>
#include <string.h>

#include "core/graph/intern.h"

enum { LINKS = 2, PARTS = 12 }; /* work is counted in so many parts of a ns */

typedef struct list { /* item[first[i]..first[i+1]) */
    int32_t *first, *item;
} list;

typedef struct field { /* all calls */
    luo_arena *arena; /* thrown away */
    const luo_lane_call *call;
    int32_t n, ndev, ngroups, lanes, ncols;
    int32_t *col;  /* per device: devices with the same calls are one column; -1: no calls */
    list cols;     /* per call: its columns */
    int32_t *root; /* per call: smallest call of its component, in the end */
    int32_t *local_call, *local_col, *local_group; /* numbers in the component at hand */
    int32_t *stamp_col, *stamp_group;              /* component that gave them + 1 */
    luo_err *err;
} field;

/* ---- columns ---- */

static luo_status calls_of_devices(field *f, list *out)
{
    int32_t total = 0;
    out->first = LUO_NEW_N(f->arena, int32_t, f->ndev + 1);
    if (!out->first) return luo_err_nomem(f->err);
    for (int32_t i = 0; i < f->n; i++)
        for (int32_t k = 0; k < f->call[i].ndev; k++, total++) out->first[f->call[i].dev[k] + 1]++;
    for (int32_t d = 0; d < f->ndev; d++) out->first[d + 1] += out->first[d];
    out->item = LUO_NEW_N(f->arena, int32_t, total);
    int32_t *at = LUO_NEW_N(f->arena, int32_t, f->ndev);
    if (!out->item || !at) return luo_err_nomem(f->err);
    for (int32_t i = 0; i < f->n; i++)
        for (int32_t k = 0; k < f->call[i].ndev; k++) {
            const int32_t d = f->call[i].dev[k];
            out->item[out->first[d] + at[d]++] = i;
        }
    return LUO_OK;
}

static luo_status make_columns(field *f)
{
    list calls = {0};
    luo_intern key;
    luo_intern_init(&key, f->arena);
    LUO_TRY(calls_of_devices(f, &calls));
    f->col = LUO_NEW_N(f->arena, int32_t, f->ndev);
    if (!f->col) return luo_err_nomem(f->err);
    for (int32_t d = 0; d < f->ndev; d++) {
        const int32_t n = calls.first[d + 1] - calls.first[d];
        f->col[d] = n == 0 ? -1 : luo_intern_id(&key, &calls.item[calls.first[d]], n, NULL);
        if (n > 0 && f->col[d] < 0) return luo_err_nomem(f->err);
    }
    f->ncols = key.n;
    return LUO_OK;
}

static luo_status columns_of_calls(field *f)
{
    int32_t total = 0, n = 0;
    for (int32_t i = 0; i < f->n; i++) total += f->call[i].ndev;
    int32_t *seen = LUO_NEW_N(f->arena, int32_t, f->ncols);
    f->cols.first = LUO_NEW_N(f->arena, int32_t, f->n + 1);
    f->cols.item = LUO_NEW_N(f->arena, int32_t, total);
    if (!seen || !f->cols.first || !f->cols.item) return luo_err_nomem(f->err);
    for (int32_t i = 0; i < f->n; i++) {
        for (int32_t k = 0; k < f->call[i].ndev; k++) {
            const int32_t c = f->col[f->call[i].dev[k]];
            if (seen[c] == i + 1) continue;
            seen[c] = i + 1;
            f->cols.item[n++] = c;
        }
        f->cols.first[i + 1] = n;
    }
    return LUO_OK;
}

/* ---- components ---- */

static int32_t root_of(field *f, int32_t i)
{
    while (f->root[i] != i) i = f->root[i] = f->root[f->root[i]];
    return i;
}

static void join(field *f, int32_t a, int32_t b)
{
    a = root_of(f, a);
    b = root_of(f, b);
    if (a < b) f->root[b] = a;
    else f->root[a] = b;
}

static luo_status find_components(field *f)
{
    int32_t *last_col = LUO_NEW_N(f->arena, int32_t, f->ncols);
    int32_t *last_group = LUO_NEW_N(f->arena, int32_t, f->ngroups);
    f->root = LUO_NEW_N(f->arena, int32_t, f->n);
    if (!last_col || !last_group || !f->root) return luo_err_nomem(f->err);
    for (int32_t i = 0; i < f->n; i++) f->root[i] = i;
    for (int32_t i = 0; i < f->n; i++) {
        const luo_lane_call *call = &f->call[i];
        for (int32_t k = f->cols.first[i]; k < f->cols.first[i + 1]; k++) {
            int32_t *last = &last_col[f->cols.item[k]];
            if (*last) join(f, *last - 1, i);
            *last = i + 1;
        }
        for (int32_t k = 0; k < call->ngroup; k++) {
            int32_t *last = &last_group[call->group[k]];
            if (*last) join(f, *last - 1, i);
            *last = i + 1;
        }
        for (int32_t k = 0; k < call->nbefore; k++) join(f, call->before[k], i);
    }
    for (int32_t i = 0; i < f->n; i++) f->root[i] = root_of(f, i);
    return LUO_OK;
}

/* ---- one component on its machine ---- */

typedef struct part { /* a call of the component */
    const luo_lane_call *call;
    int32_t ncols, *col;     /* local numbers */
    int32_t ngroups, *group;
    int32_t waits;           /* calls before it that have not ended */
    bool started, ended, moves;
    int64_t fixed_end, work; /* work: in parts of a ns, what is left to be moved */
    int64_t start, end;
    int32_t turn;
    uint8_t *lane; /* per column */
} part;

typedef struct component {
    luo_arena *arena;
    luo_err *err;
    int32_t n, ncols, ngroups, lanes;
    part *at;
    list after; /* calls that each one holds up */
    int64_t *left;   /* per column: ns that have not started */
    uint32_t *taken; /* per column: lanes */
    int32_t *moving; /* per column and kind of link */
    bool *busy;      /* per group */
    int32_t *open, nopen; /* calls that have not started, ascending .. */
    int32_t *able, nable; /* .. and those of them that could when this date came */
    int32_t *running, nrunning, turn, ended;
    int64_t now;
} component;

static int64_t alone(const part *p)
{
    return p->call->fixed + p->call->moving;
}

static bool can_start(const component *c, const part *p)
{
    const uint32_t all = (1U << c->lanes) - 1;
    if (p->started || p->waits > 0 || p->call->ready > c->now) return false;
    for (int32_t k = 0; k < p->ngroups; k++)
        if (c->busy[p->group[k]]) return false;
    for (int32_t k = 0; k < p->ncols; k++)
        if (c->taken[p->col[k]] == all) return false;
    return true;
}

static int64_t way_left(const component *c, const part *p)
{
    int64_t most = 0;
    for (int32_t k = 0; k < p->ncols; k++)
        if (c->left[p->col[k]] > most) most = c->left[p->col[k]];
    return p->call->tail + most;
}

/* A start takes lanes and groups and gives none back, so within a date nothing becomes able. */
static void list_able(component *c)
{
    int32_t kept = 0;
    c->nable = 0;
    for (int32_t k = 0; k < c->nopen; k++) {
        const int32_t i = c->open[k];
        if (c->at[i].started) continue;
        c->open[kept++] = i;
        if (can_start(c, &c->at[i])) c->able[c->nable++] = i;
    }
    c->nopen = kept;
}

/* The call that starts next; NULL: none can. */
static part *choose(const component *c)
{
    part *best = NULL;
    int64_t longest = 0;
    for (int32_t k = 0; k < c->nable; k++) {
        part *p = &c->at[c->able[k]];
        if (best && p->call->rank > best->call->rank) continue;
        if (!can_start(c, p)) continue;
        const int64_t way = way_left(c, p);
        const bool goes_first =
            !best || p->call->rank < best->call->rank || way > longest ||
            (way == longest && p->call->ready < best->call->ready);
        if (!goes_first) continue;
        best = p;
        longest = way;
    }
    return best;
}

static void start(component *c, part *p)
{
    p->started = true;
    p->start = c->now;
    p->fixed_end = c->now + p->call->fixed;
    p->work = p->call->moving * PARTS;
    p->turn = c->turn++;
    for (int32_t k = 0; k < p->ncols; k++) {
        uint32_t *taken = &c->taken[p->col[k]];
        while (*taken >> p->lane[k] & 1) p->lane[k]++;
        *taken |= 1U << p->lane[k];
        c->left[p->col[k]] -= alone(p);
    }
    for (int32_t k = 0; k < p->ngroups; k++) c->busy[p->group[k]] = true;
    c->running[c->nrunning++] = (int32_t)(p - c->at);
}

static int32_t *sharers(component *c, const part *p, int32_t k)
{
    return &c->moving[p->col[k] * LINKS + p->call->link];
}

static void end(component *c, part *p)
{
    p->ended = true;
    p->end = c->now;
    c->ended++;
    for (int32_t k = 0; k < p->ncols; k++) {
        c->taken[p->col[k]] &= ~(1U << p->lane[k]);
        if (p->moves) --*sharers(c, p, k);
    }
    for (int32_t k = 0; k < p->ngroups; k++) c->busy[p->group[k]] = false;
    const int32_t i = (int32_t)(p - c->at);
    for (int32_t k = c->after.first[i]; k < c->after.first[i + 1]; k++)
        c->at[c->after.item[k]].waits--;
}

/* Parts of a ns that are moved in one. */
static int64_t rate(component *c, const part *p)
{
    int32_t most = 1;
    for (int32_t k = 0; k < p->ncols; k++)
        if (*sharers(c, p, k) > most) most = *sharers(c, p, k);
    return PARTS / most;
}

static int64_t next_of(component *c, const part *p)
{
    if (!p->moves) return p->fixed_end;
    const int64_t r = rate(c, p);
    return c->now + (p->work + r - 1) / r;
}

/* The date at which something changes next; -1: never. */
static int64_t next_date(component *c)
{
    int64_t date = -1;
    for (int32_t k = 0; k < c->nrunning; k++) {
        const int64_t t = next_of(c, &c->at[c->running[k]]);
        if (date < 0 || t < date) date = t;
    }
    for (int32_t k = 0; k < c->nopen; k++) {
        const part *p = &c->at[c->open[k]];
        if (!p->started && p->call->ready > c->now && (date < 0 || p->call->ready < date))
            date = p->call->ready;
    }
    return date;
}

static void move_on(component *c, int64_t date)
{
    for (int32_t k = 0; k < c->nrunning; k++) {
        part *p = &c->at[c->running[k]];
        if (p->moves) p->work -= rate(c, p) * (date - c->now);
    }
    c->now = date;
    for (int32_t k = 0; k < c->nrunning; k++) { /* rates are of before */
        part *p = &c->at[c->running[k]];
        if (p->moves ? p->work <= 0 : p->fixed_end <= date && p->work == 0) end(c, p);
    }
    int32_t kept = 0;
    for (int32_t k = 0; k < c->nrunning; k++) {
        part *p = &c->at[c->running[k]];
        if (p->ended) continue;
        c->running[kept++] = c->running[k];
        if (p->moves || p->fixed_end > date) continue;
        p->moves = true;
        for (int32_t i = 0; i < p->ncols; i++) ++*sharers(c, p, i);
    }
    c->nrunning = kept;
}

static luo_status run(component *c)
{
    while (c->ended < c->n) {
        list_able(c);
        for (part *p; (p = choose(c)) != NULL;) start(c, p);
        const int64_t date = next_date(c);
        if (date < 0)
            return luo_err_set(c->err, LUO_EBUG, "calls come before each other in a circle.");
        move_on(c, date);
    }
    return LUO_OK;
}

/* ---- setting it up ---- */

static luo_status number(field *f, const int32_t *id, int32_t n, component *c)
{
    const int32_t mark = id[0] + 1;
    for (int32_t i = 0; i < n; i++) f->local_call[id[i]] = i;
    for (int32_t i = 0; i < n; i++) {
        const luo_lane_call *call = &f->call[id[i]];
        part *p = &c->at[i];
        *p = (part){.call = call, .ngroups = call->ngroup, .waits = call->nbefore};
        p->ncols = f->cols.first[id[i] + 1] - f->cols.first[id[i]];
        p->col = LUO_NEW_N(f->arena, int32_t, p->ncols);
        p->group = LUO_NEW_N(f->arena, int32_t, p->ngroups);
        p->lane = LUO_NEW_N(f->arena, uint8_t, p->ncols);
        if (!p->col || !p->group || !p->lane) return luo_err_nomem(f->err);
        for (int32_t k = 0; k < p->ncols; k++) {
            const int32_t g = f->cols.item[f->cols.first[id[i]] + k];
            if (f->stamp_col[g] != mark) f->local_col[g] = c->ncols++;
            f->stamp_col[g] = mark;
            p->col[k] = f->local_col[g];
        }
        for (int32_t k = 0; k < p->ngroups; k++) {
            const int32_t g = call->group[k];
            if (f->stamp_group[g] != mark) f->local_group[g] = c->ngroups++;
            f->stamp_group[g] = mark;
            p->group[k] = f->local_group[g];
        }
    }
    return LUO_OK;
}

static void put(int32_t *key, int32_t *n, int64_t v)
{
    key[(*n)++] = (int32_t)(uint32_t)v;
    key[(*n)++] = (int32_t)(v >> 32);
}

/* Equal keys have equal timetables. */
static luo_status key_of(const field *f, const component *c, int32_t **key, int32_t *len)
{
    int64_t room = 0;
    for (int32_t i = 0; i < c->n; i++)
        room += 14 + c->at[i].ncols + c->at[i].ngroups + c->at[i].call->nbefore;
    int32_t n = 0, *at = LUO_NEW_N(f->arena, int32_t, room);
    if (!at) return luo_err_nomem(f->err);
    for (int32_t i = 0; i < c->n; i++) {
        const part *p = &c->at[i];
        put(at, &n, p->call->ready);
        put(at, &n, p->call->fixed);
        put(at, &n, p->call->moving);
        put(at, &n, p->call->tail);
        put(at, &n, p->call->rank);
        at[n++] = p->call->link;
        at[n++] = p->ncols;
        at[n++] = p->ngroups;
        at[n++] = p->call->nbefore;
        for (int32_t k = 0; k < p->ncols; k++) at[n++] = p->col[k];
        for (int32_t k = 0; k < p->ngroups; k++) at[n++] = p->group[k];
        for (int32_t k = 0; k < p->call->nbefore; k++)
            at[n++] = f->local_call[p->call->before[k]];
    }
    *key = at;
    *len = n;
    return LUO_OK;
}

static luo_status link_calls(const field *f, component *c)
{
    int32_t total = 0;
    c->after.first = LUO_NEW_N(f->arena, int32_t, c->n + 1);
    int32_t *at = LUO_NEW_N(f->arena, int32_t, c->n);
    if (!c->after.first || !at) return luo_err_nomem(f->err);
    for (int32_t i = 0; i < c->n; i++)
        for (int32_t k = 0; k < c->at[i].call->nbefore; k++, total++)
            c->after.first[f->local_call[c->at[i].call->before[k]] + 1]++;
    for (int32_t i = 0; i < c->n; i++) c->after.first[i + 1] += c->after.first[i];
    c->after.item = LUO_NEW_N(f->arena, int32_t, total);
    if (!c->after.item) return luo_err_nomem(f->err);
    for (int32_t i = 0; i < c->n; i++)
        for (int32_t k = 0; k < c->at[i].call->nbefore; k++) {
            const int32_t b = f->local_call[c->at[i].call->before[k]];
            c->after.item[c->after.first[b] + at[b]++] = i;
        }
    return LUO_OK;
}

static luo_status prepare(const field *f, component *c)
{
    LUO_TRY(link_calls(f, c));
    c->left = LUO_NEW_N(f->arena, int64_t, c->ncols);
    c->taken = LUO_NEW_N(f->arena, uint32_t, c->ncols);
    c->moving = LUO_NEW_N(f->arena, int32_t, (int64_t)c->ncols * LINKS);
    c->busy = LUO_NEW_N(f->arena, bool, c->ngroups);
    c->running = LUO_NEW_N(f->arena, int32_t, c->n);
    c->open = LUO_NEW_N(f->arena, int32_t, c->n);
    c->able = LUO_NEW_N(f->arena, int32_t, c->n);
    if (!c->left || !c->taken || !c->moving || !c->busy || !c->running || !c->open || !c->able)
        return luo_err_nomem(f->err);
    for (c->nopen = 0; c->nopen < c->n; c->nopen++) c->open[c->nopen] = c->nopen;
    for (int32_t i = 0; i < c->n; i++)
        for (int32_t k = 0; k < c->at[i].ncols; k++)
            c->left[c->at[i].col[k]] += alone(&c->at[i]);
    return LUO_OK;
}

/* ---- all components ---- */

typedef struct slot { /* of a call, for sorting */
    int64_t start;
    int32_t turn, id;
} slot;

static int by_component(const void *p, const void *q)
{
    const slot *a = p, *b = q;
    if (a->start != b->start) return a->start < b->start ? -1 : 1; /* smallest call of it */
    return (a->id > b->id) - (a->id < b->id);
}

static int by_start(const void *p, const void *q)
{
    const slot *a = p, *b = q;
    if (a->start != b->start) return a->start < b->start ? -1 : 1;
    if (a->turn != b->turn) return a->turn < b->turn ? -1 : 1;
    return (a->id > b->id) - (a->id < b->id);
}

typedef struct scheduler {
    field *f;
    luo_intern key;
    component **known; /* per key */
    luo_timetable *out;
    int32_t *turn; /* per call */
} scheduler;

static void copy(scheduler *s, const component *from, const component *c, const int32_t *id)
{
    field *f = s->f;
    luo_timetable *timetable = s->out;
    for (int32_t i = 0; i < c->n; i++) {
        const luo_lane_call *call = &f->call[id[i]];
        const part *p = &from->at[i];
        timetable->start[id[i]] = p->start;
        timetable->end[id[i]] = p->end;
        s->turn[id[i]] = p->turn;
        if (p->end + call->tail > timetable->end_ns) timetable->end_ns = p->end + call->tail;
        for (int32_t k = 0; k < c->at[i].ncols; k++) /* local columns are equal in both */
            f->stamp_col[f->cols.item[f->cols.first[id[i]] + k]] = -1 - p->lane[k];
        for (int32_t k = 0; k < call->ndev; k++)
            timetable->lane[id[i]][k] = (uint8_t)(-1 - f->stamp_col[f->col[call->dev[k]]]);
    }
}

static luo_status schedule(scheduler *s, const int32_t *id, int32_t n)
{
    field *f = s->f;
    int32_t *key = NULL, len = 0;
    bool fresh;
    component *c = LUO_NEW(f->arena, component);
    if (!c) return luo_err_nomem(f->err);
    *c = (component){.arena = f->arena, .err = f->err, .n = n, .lanes = f->lanes,
                     .at = LUO_NEW_N(f->arena, part, n)};
    if (!c->at) return luo_err_nomem(f->err);
    LUO_TRY(number(f, id, n, c));
    LUO_TRY(key_of(f, c, &key, &len));
    const int32_t k = luo_intern_id(&s->key, key, len, &fresh);
    if (k < 0) return luo_err_nomem(f->err);
    if (fresh) {
        s->known[k] = c;
        LUO_TRY(prepare(f, c));
        LUO_TRY(run(c));
    }
    copy(s, s->known[k], c, id);
    return LUO_OK;
}

static luo_status schedule_all(scheduler *s, slot *slots, int32_t *id)
{
    field *f = s->f;
    for (int32_t i = 0; i < f->n; i++) slots[i] = (slot){f->root[i], 0, i};
    if (f->n > 1) qsort(slots, (size_t)f->n, sizeof *slots, by_component);
    for (int32_t i = 0; i < f->n; i++) id[i] = slots[i].id;
    for (int32_t i = 0, n; i < f->n; i += n) {
        for (n = 1; i + n < f->n && slots[i + n].start == slots[i].start;) n++;
        LUO_TRY(schedule(s, id + i, n));
    }
    for (int32_t i = 0; i < f->n; i++) slots[i] = (slot){s->out->start[i], s->turn[i], i};
    if (f->n > 1) qsort(slots, (size_t)f->n, sizeof *slots, by_start);
    for (int32_t i = 0; i < f->n; i++) s->out->order[i] = slots[i].id;
    return LUO_OK;
}

static luo_status open_table(luo_arena *arena, const field *f, luo_timetable *timetable)
{
    *timetable =
        (luo_timetable){LUO_NEW_N(arena, int32_t, f->n), LUO_NEW_N(arena, int64_t, f->n),
                        LUO_NEW_N(arena, int64_t, f->n), LUO_NEW_N(arena, uint8_t *, f->n), 0};
    if (!timetable->order || !timetable->start || !timetable->end || !timetable->lane)
        return luo_err_nomem(f->err);
    for (int32_t i = 0; i < f->n; i++) {
        timetable->lane[i] = LUO_NEW_N(arena, uint8_t, f->call[i].ndev);
        if (!timetable->lane[i]) return luo_err_nomem(f->err);
    }
    return LUO_OK;
}

static luo_status work(field *f, luo_arena *arena, luo_timetable *out)
{
    scheduler s = {.f = f, .out = out};
    LUO_TRY(open_table(arena, f, out));
    LUO_TRY(make_columns(f));
    LUO_TRY(columns_of_calls(f));
    LUO_TRY(find_components(f));
    f->local_call = LUO_NEW_N(f->arena, int32_t, f->n);
    f->local_col = LUO_NEW_N(f->arena, int32_t, f->ncols);
    f->stamp_col = LUO_NEW_N(f->arena, int32_t, f->ncols);
    f->local_group = LUO_NEW_N(f->arena, int32_t, f->ngroups);
    f->stamp_group = LUO_NEW_N(f->arena, int32_t, f->ngroups);
    s.turn = LUO_NEW_N(f->arena, int32_t, f->n);
    s.known = LUO_NEW_N(f->arena, component *, f->n);
    slot *slots = LUO_NEW_N(f->arena, slot, f->n);
    int32_t *id = LUO_NEW_N(f->arena, int32_t, f->n);
    if (!f->local_call || !f->local_col || !f->stamp_col || !f->local_group || !f->stamp_group ||
        !s.turn || !s.known || !slots || !id)
        return luo_err_nomem(f->err);
    luo_intern_init(&s.key, f->arena);
    return schedule_all(&s, slots, id);
}

luo_status luo_lanes_schedule(luo_arena *arena, const luo_lane_call *call, int32_t n, int32_t ndev,
                              int32_t ngroups, int32_t lanes, luo_timetable *out, luo_err *err)
{
    luo_arena *tmp = luo_arena_new(1 << 16);
    if (!tmp) return luo_err_nomem(err);
    field f = {.arena = tmp, .call = call, .n = n, .ndev = ndev, .ngroups = ngroups,
               .lanes = lanes, .err = err};
    const luo_status st = work(&f, arena, out);
    luo_arena_free(tmp);
    return st;
}
