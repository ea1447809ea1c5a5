/* spec_order.c: the order in which every device issues its calls of buckets, and the
 * lane of each.
 *
 * What is put in order is a *knot*: a call of a bucket, with those in which a device moves the same
 * cells again, which follow each other on it. All devices follow one order of knots, so that none
 * waits for another in a circle. */
#include <math.h>
#include <string.h>

#include "core/base/vec.h"
#include "core/graph/schedule/lanes.h"
#include "core/graph/specialize/spec_internal.h"

typedef struct knot {
    int32_t bucket, ndev, ngroup, nbefore;
    int32_t *dev;    /* indices in spec.dev */
    int32_t *group;
    int32_t *before; /* knots of the step before that share a device */
} knot;

typedef struct sorter {
    spec *s;
    knot *at;
    int32_t n, cap;
    int32_t *first_of;  /* by bucket: its first knot */
    int32_t **knot_of;  /* by bucket and call of its step */
    bool *apart;        /* by step: seen, no device moves the same cells by two calls */
    int32_t *bucket_of; /* by exchange: bucket of the part; -1: none */
    luo_lane_call *call;
    bool estimated;
    spec_dates dates;
    int32_t *order[2];  /* knots of Pre, of Post */
    int32_t norder[2];
    uint8_t **lane;     /* by knot, by device of it */
} sorter;

/* Calls inside tasks stand where their units begin and end. */
static bool is_once(const spec_bucket *bucket)
{
    return bucket->phase == LUO_PHASE_PRE || bucket->phase == LUO_PHASE_POST;
}

/* ---- knots ---- */

static int32_t root_of(int32_t *up, int32_t i)
{
    while (up[i] != i) i = up[i] = up[up[i]];
    return i;
}

static void join(int32_t *up, int32_t a, int32_t b)
{
    a = root_of(up, a);
    b = root_of(up, b);
    if (a < b) up[b] = a;
    else up[a] = b;
}

static bool same_cells(const luo_move *v, const luo_move *w)
{
    for (int32_t i = 0; i < v->nregion; i++)
        for (int32_t k = 0; k < w->nregion; k++)
            if (luo_region_overlap(&v->region[i], &w->region[k])) return true;
    return false;
}

/* Joins calls of a device that move the same cells of a part. Returns whether there are any. */
static bool join_part(const sorter *w, const spec_part *part, int32_t *up)
{
    const spec_move *move = spec_move_of(w->s, part->op, 0);
    const spec_step *step = &move->step[part->step];
    bool any = false;
    for (int32_t i = 0; i < step->n; i++)
        for (int32_t k = step->first[i]; k < step->first[i + 1]; k++)
            for (int32_t j = step->first[i]; j < k; j++) {
                const int32_t a = step->item[j].call, b = step->item[k].call;
                if (!same_cells(&move->resolution->moves.at[step->call[a].move],
                                &move->resolution->moves.at[step->call[b].move]))
                    continue;
                join(up, a, b);
                any = true;
            }
    return any;
}

/* up: by call of the bucket's step, the least one of its knot. Calls of all parts have the same
 * numbers. Steps of many parts are one and the same. */
static void join_calls(sorter *w, const spec_bucket *bucket, int32_t *up)
{
    for (int32_t c = 0; c < bucket->step.ncalls; c++) up[c] = c;
    for (int32_t k = 0; k < bucket->n; k++) {
        const spec_step *step =
            &spec_move_of(w->s, bucket->part[k].op, 0)->step[bucket->part[k].step];
        if (w->apart[step->id]) continue;
        w->apart[step->id] = !join_part(w, &bucket->part[k], up);
    }
    for (int32_t c = 0; c < bucket->step.ncalls; c++) up[c] = root_of(up, c);
}

static luo_status grow(sorter *w)
{
    return LUO_VEC_ROOM_IN(w->s->scratch, w->at, w->n, w->cap) ? LUO_OK : luo_err_nomem(w->s->err);
}

/* Of the device's calls, does this one begin a knot's part? */
static bool begins(const spec_step *step, const int32_t *of, int32_t i, int32_t k)
{
    for (int32_t j = step->first[i]; j < k; j++)
        if (of[step->item[j].call] == of[step->item[k].call]) return false;
    return true;
}

static luo_status fill_knots(sorter *w, const spec_step *step, const int32_t *of, int32_t first)
{
    const spec *s = w->s;
    for (int32_t i = 0; i < step->n; i++)
        for (int32_t k = step->first[i]; k < step->first[i + 1]; k++)
            w->at[of[step->item[k].call]].ndev += begins(step, of, i, k);
    for (int32_t c = 0; c < step->ncalls; c++) w->at[of[c]].ngroup++;
    for (int32_t k = first; k < w->n; k++) {
        knot *x = &w->at[k];
        x->dev = LUO_NEW_N(s->scratch, int32_t, x->ndev);
        x->group = LUO_NEW_N(s->scratch, int32_t, x->ngroup);
        if (!x->dev || !x->group) return luo_err_nomem(s->err);
        x->ndev = x->ngroup = 0;
    }
    for (int32_t i = 0; i < step->n; i++)
        for (int32_t k = step->first[i]; k < step->first[i + 1]; k++) {
            knot *x = &w->at[of[step->item[k].call]];
            if (begins(step, of, i, k)) x->dev[x->ndev++] = s->index_of[step->dev[i]];
        }
    for (int32_t c = 0; c < step->ncalls; c++) {
        knot *x = &w->at[of[c]];
        x->group[x->ngroup++] = step->call[c].group;
    }
    return LUO_OK;
}

static luo_status make_knots(sorter *w, int32_t b)
{
    const spec *s = w->s;
    const spec_step *step = &s->bucket[b].step;
    const int32_t first = w->first_of[b] = w->n;
    int32_t *up = LUO_NEW_N(s->scratch, int32_t, step->ncalls);
    int32_t *of = LUO_NEW_N(s->scratch, int32_t, step->ncalls);
    if (!up || !of) return luo_err_nomem(s->err);
    join_calls(w, &s->bucket[b], up);
    for (int32_t c = 0; c < step->ncalls; c++) {
        if (up[c] != c) continue;
        LUO_TRY(grow(w));
        of[c] = w->n;
        w->at[w->n++] = (knot){.bucket = b};
    }
    for (int32_t c = 0; c < step->ncalls; c++) of[c] = of[up[c]];
    w->knot_of[b] = of;
    return fill_knots(w, step, of, first);
}

/* ---- what comes before what ---- */

static bool share(const knot *a, const knot *b) /* devices ascend */
{
    for (int32_t i = 0, k = 0; i < a->ndev && k < b->ndev;) {
        if (a->dev[i] == b->dev[k]) return true;
        if (a->dev[i] < b->dev[k]) i++;
        else k++;
    }
    return false;
}

static luo_status map_parts(sorter *w)
{
    const spec *s = w->s;
    w->bucket_of = LUO_NEW_N(s->scratch, int32_t, s->nexchanges);
    if (!w->bucket_of) return luo_err_nomem(s->err);
    for (int32_t i = 0; i < s->nexchanges; i++) w->bucket_of[i] = -1;
    for (int32_t b = 0; b < s->nbuckets; b++)
        for (int32_t k = 0; k < s->bucket[b].n; k++) {
            const spec_part *part = &s->bucket[b].part[k];
            w->bucket_of[s->exchange_of[(int64_t)part->op * s->in->nlengths] + part->step] = b;
        }
    return LUO_OK;
}

/* Knots of the steps before the parts of a knot's bucket. seen: by bucket. */
static luo_status find_before(sorter *w, knot *x, int32_t *seen, int32_t mark)
{
    const spec *s = w->s;
    const spec_bucket *bucket = &s->bucket[x->bucket];
    int32_t room = 0;
    for (int32_t k = 0; k < bucket->n; k++) {
        const spec_part *part = &bucket->part[k];
        for (int32_t j = 0; j < part->step; j++) {
            const int32_t e = s->exchange_of[(int64_t)part->op * s->in->nlengths] + j;
            const int32_t o = w->bucket_of[e];
            if (o < 0 || seen[o] == mark) continue;
            seen[o] = mark;
            const int32_t end = o + 1 < s->nbuckets ? w->first_of[o + 1] : w->n;
            for (int32_t y = w->first_of[o]; y < end; y++) {
                if (!share(x, &w->at[y])) continue;
                if (!LUO_VEC_ROOM_IN(s->scratch, x->before, x->nbefore, room))
                    return luo_err_nomem(s->err);
                x->before[x->nbefore++] = y;
            }
        }
    }
    return LUO_OK;
}

static luo_status order_steps(sorter *w)
{
    const spec *s = w->s;
    int32_t *seen = LUO_NEW_N(s->scratch, int32_t, s->nbuckets);
    if (!seen) return luo_err_nomem(s->err);
    for (int32_t i = 0; i < w->n; i++) LUO_TRY(find_before(w, &w->at[i], seen, i + 1));
    return LUO_OK;
}

/* ---- estimates ---- */

static int64_t ns_of(double seconds)
{
    const double most = 1e15; /* eleven days: sums stay in range */
    return seconds > 0 ? (int64_t)(fmin(seconds * 1e9, most) + 0.5) : 0;
}

typedef struct times { /* of a call */
    int64_t fixed, moving;
    int32_t link;
} times;

static luo_status time_of(const sorter *w, const spec_item *it, times *t)
{
    const spec *s = w->s;
    const luo_spec_clock *clock = s->in->clock;
    const luo_group *group = &s->group[it->slot.group];
    double fixed, moving;
    *t = (times){1, it->bytes, 1};
    if (!w->estimated) return LUO_OK;
    LUO_TRY(clock->call(clock->ctx, it->coll, group->dev, group->n, it->bytes, &fixed, &moving,
                        &t->link));
    t->fixed = ns_of(fixed);
    t->moving = ns_of(moving);
    return LUO_OK;
}

/* A device makes its calls of a knot one after another: the busiest device counts. */
static void time_part(const sorter *w, int32_t b, const times *of, int32_t i, int32_t first)
{
    const spec_step *step = &w->s->bucket[b].step;
    const int32_t *knot_of = w->knot_of[b], id = knot_of[step->item[first].call];
    int64_t fixed = 0, moving = 0;
    luo_lane_call *call = &w->call[id];
    for (int32_t k = first; k < step->first[i + 1]; k++) {
        const times *c = &of[step->item[k].call];
        if (knot_of[step->item[k].call] != id) continue;
        fixed += c->fixed;
        moving += c->moving;
        if (c->link > call->link) call->link = c->link;
    }
    if (fixed > call->fixed) call->fixed = fixed;
    if (moving > call->moving) call->moving = moving;
}

static luo_status time_bucket(sorter *w, int32_t b)
{
    const spec *s = w->s;
    const spec_step *step = &s->bucket[b].step;
    times *of = LUO_NEW_N(s->scratch, times, step->ncalls);
    bool *known = LUO_NEW_N(s->scratch, bool, step->ncalls);
    if (!of || !known) return luo_err_nomem(s->err);
    for (int32_t k = 0; k < step->first[step->n]; k++) {
        const int32_t c = step->item[k].call;
        if (!known[c]) LUO_TRY(time_of(w, &step->item[k], &of[c]));
        known[c] = true;
    }
    for (int32_t i = 0; i < step->n; i++)
        for (int32_t k = step->first[i]; k < step->first[i + 1]; k++)
            if (begins(step, w->knot_of[b], i, k)) time_part(w, b, of, i, k);
    return LUO_OK;
}

/* When the last gradient of a knot is complete on the last of its pipelines. */
static int64_t ready_of(const sorter *w, const knot *x)
{
    const spec *s = w->s;
    const spec_bucket *bucket = &s->bucket[x->bucket];
    int64_t latest = 0;
    int32_t last = -1;
    for (int32_t i = 0; w->estimated && i < x->ndev; i++) {
        const int32_t p = s->pipe_of[s->dev[x->dev[i]]];
        if (p < 0 || w->dates.of_pipe[p] == last) continue;
        last = w->dates.of_pipe[p];
        for (int32_t k = 0; k < bucket->n; k++) {
            const int64_t t = ns_of(w->dates.done[last][bucket->part[k].ready]);
            if (t > latest) latest = t;
        }
    }
    for (int32_t k = 0; !w->estimated && k < bucket->n; k++)
        if (bucket->part[k].ready > latest) latest = bucket->part[k].ready;
    return latest;
}

/* Does it sum over two stages, for a tied table? */
static bool joins_stages(const spec *s, const spec_bucket *bucket)
{
    const luo_op *op = &s->g->op[bucket->part[0].op];
    return luo_annset_get(s->g->set, s->g->tensor[op->in[0]].ann)->u > s->in->npipelines;
}

/* Sums over two stages come when all others are done: neither stage keeps its own sums waiting for
 * the other, whose backward may end later than was estimated. */
static void put_off(sorter *w)
{
    int64_t latest = 0, all = 0;
    for (int32_t i = 0; i < w->n; i++) {
        if (w->call[i].ready > latest) latest = w->call[i].ready;
        all += w->call[i].fixed + w->call[i].moving;
    }
    for (int32_t i = 0; i < w->n; i++) {
        const spec_bucket *bucket = &w->s->bucket[w->at[i].bucket];
        if (bucket->phase == LUO_PHASE_POST && joins_stages(w->s, bucket))
            w->call[i].ready = latest + all;
    }
}

static luo_status estimate(sorter *w)
{
    const spec *s = w->s;
    memset(w->call, 0, (size_t)w->n * sizeof *w->call);
    if (w->estimated) LUO_TRY(luo_spec_find_dates(s, &w->dates));
    for (int32_t b = 0; b < s->nbuckets; b++) {
        const size_t mark = luo_arena_mark(s->scratch);
        if (is_once(&s->bucket[b])) LUO_TRY(time_bucket(w, b));
        luo_arena_reset(s->scratch, mark);
    }
    for (int32_t i = 0; i < w->n; i++) {
        const knot *x = &w->at[i];
        const spec_bucket *b = &s->bucket[x->bucket];
        luo_lane_call *call = &w->call[i];
        call->ndev = x->ndev, call->dev = x->dev;
        call->ngroup = x->ngroup, call->group = x->group;
        if (b->phase == LUO_PHASE_PRE)
            call->rank = b->part[0].ready; /* what is used first */
        else
            call->ready = ready_of(w, x);
    }
    return LUO_OK;
}

/* A step takes after it what comes after its calls. Buckets of later levels stand further back. */
static void find_tails(sorter *w)
{
    int32_t top = 0;
    for (int32_t i = 0; i < w->n; i++)
        if (w->s->bucket[w->at[i].bucket].level > top) top = w->s->bucket[w->at[i].bucket].level;
    for (int32_t level = top; level > 0; level--)
        for (int32_t i = 0; i < w->n; i++) {
            const knot *x = &w->at[i];
            const luo_lane_call *c = &w->call[i];
            if (w->s->bucket[x->bucket].level != level) continue;
            for (int32_t k = 0; k < x->nbefore; k++) {
                luo_lane_call *y = &w->call[x->before[k]];
                if (c->tail + c->fixed + c->moving > y->tail)
                    y->tail = c->tail + c->fixed + c->moving;
            }
        }
}

/* ---- the schedule ---- */

static luo_status schedule(sorter *w, int32_t post)
{
    spec *s = w->s;
    const int32_t phase = post ? LUO_PHASE_POST : LUO_PHASE_PRE;
    int32_t n = 0, *of = LUO_NEW_N(s->scratch, int32_t, w->n);
    int32_t *number = LUO_NEW_N(s->scratch, int32_t, w->n);
    luo_lane_call *call = LUO_NEW_N(s->scratch, luo_lane_call, w->n);
    if (!of || !number || !call) return luo_err_nomem(s->err);
    for (int32_t i = 0; i < w->n; i++) {
        if (s->bucket[w->at[i].bucket].phase != phase) continue;
        number[i] = n;
        of[n++] = i;
    }
    for (int32_t i = 0; i < n; i++) {
        const knot *x = &w->at[of[i]];
        for (int32_t k = 0; k < x->nbefore; k++) x->before[k] = number[x->before[k]];
        call[i] = w->call[of[i]];
        call[i].before = x->before;
        call[i].nbefore = x->nbefore;
    }
    luo_timetable timetable;
    const int32_t lanes = s->in->dp_lanes ? s->in->dp_lanes : 1;
    LUO_TRY(luo_lanes_schedule(s->scratch, call, n, s->ndev, s->group_key.n, lanes, &timetable,
                               s->err));
    for (int32_t i = 0; i < n; i++) {
        w->lane[of[i]] = timetable.lane[i];
        timetable.order[i] = of[timetable.order[i]];
    }
    w->order[post] = timetable.order;
    w->norder[post] = n;
    return LUO_OK;
}

/* The calls of a knot on its k-th device. Pre: turn has room for them. */
static int32_t turns_of(const sorter *w, int32_t x, int32_t k, spec_turn *turn)
{
    const spec *s = w->s;
    const int32_t b = w->at[x].bucket;
    const spec_step *step = &s->bucket[b].step;
    const int32_t i = luo_spec_take_part(step, s->dev[w->at[x].dev[k]]);
    int32_t n = 0;
    for (int32_t j = step->first[i]; j < step->first[i + 1]; j++)
        if (w->knot_of[b][step->item[j].call] == x)
            turn[n++] = (spec_turn){b, j - step->first[i], w->lane[x][k]};
    return n;
}

static luo_status take_turns(sorter *w)
{
    spec *s = w->s;
    int32_t total = 0;
    s->first_turn = LUO_NEW_N(s->arena, int32_t, s->ndev + 1);
    int32_t *at = LUO_NEW_N(s->scratch, int32_t, s->ndev);
    if (!s->first_turn || !at) return luo_err_nomem(s->err);
    for (int32_t b = 0; b < s->nbuckets; b++) {
        const spec_step *step = &s->bucket[b].step;
        if (!is_once(&s->bucket[b])) continue;
        for (int32_t i = 0; i < step->n; i++)
            s->first_turn[s->index_of[step->dev[i]] + 1] += step->first[i + 1] - step->first[i];
        total += step->first[step->n];
    }
    for (int32_t d = 0; d < s->ndev; d++) s->first_turn[d + 1] += s->first_turn[d];
    s->turn = LUO_NEW_N(s->arena, spec_turn, total);
    if (!s->turn) return luo_err_nomem(s->err);
    for (int32_t post = 0; post < 2; post++)
        for (int32_t i = 0; i < w->norder[post]; i++) {
            const int32_t x = w->order[post][i];
            for (int32_t k = 0; k < w->at[x].ndev; k++) {
                const int32_t d = w->at[x].dev[k];
                at[d] += turns_of(w, x, k, &s->turn[s->first_turn[d] + at[d]]);
            }
        }
    return LUO_OK;
}

static luo_status order(sorter *w)
{
    spec *s = w->s;
    w->first_of = LUO_NEW_N(s->scratch, int32_t, s->nbuckets);
    w->knot_of = LUO_NEW_N(s->scratch, int32_t *, s->nbuckets);
    w->apart = LUO_NEW_N(s->scratch, bool, s->nsteps);
    if (!w->first_of || !w->knot_of || !w->apart) return luo_err_nomem(s->err);
    for (int32_t b = 0; b < s->nbuckets; b++) {
        w->first_of[b] = w->n;
        if (is_once(&s->bucket[b])) LUO_TRY(make_knots(w, b));
    }
    LUO_TRY(map_parts(w));
    LUO_TRY(order_steps(w));
    w->call = LUO_NEW_N(s->scratch, luo_lane_call, w->n);
    w->lane = LUO_NEW_N(s->scratch, uint8_t *, w->n);
    if (!w->call || !w->lane) return luo_err_nomem(s->err);
    w->estimated = s->in->clock != NULL;
    luo_status st = estimate(w);
    if (st != LUO_OK && st != LUO_ENOMEM && w->estimated) { /* something is not known */
        w->estimated = false;
        st = estimate(w);
    }
    if (st != LUO_OK) return st;
    find_tails(w);
    put_off(w);
    LUO_TRY(schedule(w, 0));
    LUO_TRY(schedule(w, 1));
    return take_turns(w);
}

luo_status luo_spec_order_buckets(spec *s)
{
    sorter w = {.s = s};
    if (s->nbuckets == 0) return LUO_OK;
    s->behind[0] = s->behind[1] = -1;
    for (int32_t b = 0; b < s->nbuckets; b++) {
        int32_t *behind = &s->behind[s->bucket[b].phase == LUO_PHASE_POST];
        if (is_once(&s->bucket[b]) && s->bucket[b].after > *behind) *behind = s->bucket[b].after;
    }
    const size_t mark = luo_arena_mark(s->scratch);
    const luo_status st = order(&w);
    luo_arena_reset(s->scratch, mark);
    return st;
}
