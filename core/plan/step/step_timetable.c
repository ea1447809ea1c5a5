/* step_timetable.c: when calls of pipelines that differ end.
 *
 * A narrow stage takes part in several slices of the others, one after another, and calls that wait
 * for it hold up others. So the calls get the order and the lanes that a program would give them
 * (core/graph/schedule/lanes.h), and are played: a slice begins when its gradients are complete and
 * the call before it has ended on the lane of each of its devices; its bytes move at the max-min
 * share of the links on its way. */
#include <math.h>
#include <string.h>

#include "core/graph/schedule/lanes.h"
#include "core/plan/step/step_internal.h"

typedef enum part_state { WAITING, FIXED, MOVING, ENDED } part_state;

/* A slice of a call. */
typedef struct part {
    part_state state;
    int32_t call, nbefore; /* nbefore: parts that have to end first */
    const step_slice *slice;
    double left, rate;   /* bytes, and bytes a second */
    double date;         /* of its next turn: ready; its bytes move; they have moved */
    bool frozen;         /* its rate is known */
    int32_t first_after; /* edges to those that wait for it; -1: none */
} part;

typedef struct edge {
    int32_t part, next;
} edge;

typedef struct player {
    stepper *w;
    step_call *calls;
    int32_t ncalls;
    bool weights;
    int32_t nparts, nedges;
    part *parts;
    edge *edges;
    int32_t *live, nlive;   /* parts that wait for none and have not ended */
    double *room, *asked;   /* per link and direction: share that is left, seconds per byte asked */
    int32_t *links, nlinks; /* that parts on their way use */
    bool *listed, *full; /* per link and direction: is it one of them? does it carry all it can? */
} player;

/* ---- parts ---- */

static luo_status make_parts(player *x)
{
    stepper *w = x->w;
    const double each = x->weights ? (double)luo_dtype_bytes(w->plan->dtype) : step_sum_bytes(w);
    int32_t most = 0;
    step_links links;
    LUO_TRY(step_open_links(w, x->weights, &links));
    for (int32_t c = 0; c < x->ncalls; c++) most += w->run[x->calls[c].run].widest;
    x->parts = LUO_NEW_N(w->scratch, part, most);
    x->live = LUO_NEW_N(w->scratch, int32_t, most);
    if (!x->parts || !x->live) return luo_err_nomem(w->err);
    for (int32_t c = 0; c < x->ncalls; c++) {
        const int32_t run = x->calls[c].run;
        const double bytes = (double)x->calls[c].elements * each;
        const step_slice *s;
        LUO_TRY(step_price_slices(&links, run, (int64_t)bytes, &s));
        for (int32_t k = 0; k < w->run[run].widest; k++)
            x->parts[x->nparts++] = (part){.call = c,
                                           .slice = &s[k],
                                           .first_after = -1,
                                           .date = x->calls[c].ready,
                                           .left = bytes};
    }
    return LUO_OK;
}

/* ---- order ---- */

static int64_t ns_of(double seconds)
{
    return seconds > 0 ? (int64_t)ceil(seconds * 1e9) : 0;
}

static double alone_seconds(const part *p)
{
    double most = 0;
    for (int32_t i = 0; i < p->slice->nloads; i++)
        most = fmax(most, p->slice->loads[i].seconds * p->left);
    return most;
}

static bool leaves_node(const luo_cluster *cluster, const step_slice *s)
{
    for (int32_t i = 1; i < s->ndev; i++)
        if (cluster->devices[s->dev[i]].node != cluster->devices[s->dev[0]].node) return true;
    return false;
}

/* As programs order them. Slices of a run are groups. */
static luo_status schedule(player *x, luo_timetable *out)
{
    const stepper *w = x->w;
    const int32_t nruns = w->nruns + step_holds_ends(w);
    int32_t *first = LUO_NEW_N(w->scratch, int32_t, nruns + 1);
    int32_t *group = LUO_NEW_N(w->scratch, int32_t, x->nparts);
    luo_lane_call *call = LUO_NEW_N(w->scratch, luo_lane_call, x->nparts);
    if (!first || !group || !call) return luo_err_nomem(w->err);
    for (int32_t r = 0; r < nruns; r++) first[r + 1] = first[r] + w->run[r].widest;
    for (int32_t i = 0, slice = 0; i < x->nparts; i++) {
        const part *p = &x->parts[i];
        slice = i > 0 && p[-1].call == p->call ? slice + 1 : 0;
        group[i] = first[x->calls[p->call].run] + slice;
        call[i] = (luo_lane_call){.ready = ns_of(p->date),
                                  .fixed = ns_of(p->slice->fixed),
                                  .moving = ns_of(alone_seconds(p)),
                                  .rank = x->weights ? p->call : 0,
                                  .link = leaves_node(w->in->cluster, p->slice),
                                  .ndev = p->slice->ndev,
                                  .dev = p->slice->dev,
                                  .ngroup = 1,
                                  .group = &group[i]};
    }
    return luo_lanes_schedule(w->scratch, call, x->nparts, w->in->cluster->ndevices, first[nruns],
                              w->bucket.lanes, out, w->err);
}

static void put_before(player *x, int32_t before, int32_t after)
{
    x->edges[x->nedges] = (edge){after, x->parts[before].first_after};
    x->parts[before].first_after = x->nedges++;
    x->parts[after].nbefore++;
}

/* last: latest part on each lane of each device; -1: none. lane: by device; NULL: the first. */
static void queue_part(player *x, int32_t id, const uint8_t *lane, int32_t *last)
{
    const step_slice *s = x->parts[id].slice;
    for (int32_t d = 0; d < s->ndev; d++) {
        int32_t *before = &last[(int64_t)s->dev[d] * LUO_LANES_MOST + (lane ? lane[d] : 0)];
        if (*before >= 0) put_before(x, *before, id);
        *before = id;
    }
}

/* Without buckets there is one lane, in the order of the tensors. */
static luo_status order_parts(player *x)
{
    const stepper *w = x->w;
    const bool in_turn = luo_bucketing_is_off(step_rule(w));
    const int64_t nlast = (int64_t)w->in->cluster->ndevices * LUO_LANES_MOST;
    int32_t *last = LUO_NEW_N(w->scratch, int32_t, nlast), nplaces = 0;
    luo_timetable t = {0};
    for (int32_t i = 0; i < x->nparts; i++) nplaces += x->parts[i].slice->ndev;
    x->edges = LUO_NEW_N(w->scratch, edge, nplaces);
    if (!last || !x->edges) return luo_err_nomem(w->err);
    for (int64_t i = 0; i < nlast; i++) last[i] = -1;
    if (!in_turn) LUO_TRY(schedule(x, &t));
    for (int32_t i = 0; i < x->nparts; i++) {
        const int32_t id = in_turn ? i : t.order[i];
        queue_part(x, id, in_turn ? NULL : t.lane[id], last);
    }
    return LUO_OK;
}

/* ---- play ---- */

/* Links that parts on their way use, with all their room. */
static void list_links(player *x)
{
    x->nlinks = 0;
    for (int32_t i = 0; i < x->nlive; i++) {
        part *p = &x->parts[x->live[i]];
        p->frozen = p->state != MOVING;
        for (int32_t k = 0; !p->frozen && k < p->slice->nloads; k++) {
            const int32_t link = p->slice->loads[k].at;
            if (x->listed[link]) continue;
            x->listed[link] = true;
            x->links[x->nlinks++] = link;
            x->room[link] = 1;
        }
    }
}

/* Seconds per byte that parts whose rate is not known ask of each link. Returns their number. */
static int32_t ask(player *x)
{
    int32_t n = 0;
    for (int32_t i = 0; i < x->nlinks; i++) x->asked[x->links[i]] = 0;
    for (int32_t i = 0; i < x->nlive; i++) {
        const part *p = &x->parts[x->live[i]];
        n += !p->frozen;
        for (int32_t k = 0; !p->frozen && k < p->slice->nloads; k++)
            x->asked[p->slice->loads[k].at] += p->slice->loads[k].seconds;
    }
    return n;
}

/* Bytes a second that a link lets through of each part whose rate is not known. */
static double let_through(const player *x, int32_t link)
{
    return x->asked[link] > 0 ? x->room[link] / x->asked[link] : HUGE_VAL;
}

/* Parts on a link that lets no more through get that rate. */
static void freeze(player *x, double rate)
{
    for (int32_t i = 0; i < x->nlinks; i++)
        x->full[x->links[i]] = let_through(x, x->links[i]) <= rate * (1 + 1e-9);
    for (int32_t i = 0; i < x->nlive; i++) {
        part *p = &x->parts[x->live[i]];
        bool uses = false;
        for (int32_t k = 0; !p->frozen && !uses && k < p->slice->nloads; k++)
            uses = x->full[p->slice->loads[k].at];
        if (!uses) continue;
        p->frozen = true;
        p->rate = rate;
        for (int32_t k = 0; k < p->slice->nloads; k++)
            x->room[p->slice->loads[k].at] -= rate * p->slice->loads[k].seconds;
    }
}

/* Max-min: from one link to the next rates only grow. */
static void share_links(player *x)
{
    double rate = 0;
    list_links(x);
    while (ask(x) > 0) {
        double least = HUGE_VAL;
        for (int32_t i = 0; i < x->nlinks; i++) least = fmin(least, let_through(x, x->links[i]));
        rate = fmax(rate, least);
        freeze(x, rate);
    }
    for (int32_t i = 0; i < x->nlinks; i++) x->listed[x->links[i]] = false;
}

static double next_date(player *x, double now)
{
    double next = HUGE_VAL;
    for (int32_t i = 0; i < x->nlive; i++) {
        part *p = &x->parts[x->live[i]];
        if (p->state == MOVING) p->date = now + p->left / p->rate;
        next = fmin(next, p->date);
    }
    return next;
}

static void end_part(player *x, int32_t id, double now)
{
    part *p = &x->parts[id];
    p->state = ENDED;
    x->calls[p->call].end = fmax(x->calls[p->call].end, now);
    for (int32_t e = p->first_after; e >= 0; e = x->edges[e].next) {
        part *after = &x->parts[x->edges[e].part];
        if (--after->nbefore > 0) continue;
        after->date = fmax(after->date, now);
        x->live[x->nlive++] = x->edges[e].part;
    }
}

/* Those whose turn it is at `now`; parts that this lets begin are behind them in the list. */
static void turn_parts(player *x, double was, double now)
{
    int32_t kept = 0;
    for (int32_t i = 0; i < x->nlive; i++) {
        part *p = &x->parts[x->live[i]];
        const bool due = p->date <= now;
        if (p->state == MOVING) p->left = fmax(0, p->left - p->rate * (now - was));
        if (due && p->state == WAITING) {
            p->state = FIXED;
            p->date = now + p->slice->fixed;
        }
        if (due && p->state == FIXED && p->date <= now) {
            p->state = p->slice->nloads > 0 && p->left > 0 ? MOVING : ENDED;
            if (p->state == ENDED) end_part(x, x->live[i], now);
        } else if (due && p->state == MOVING) {
            end_part(x, x->live[i], now);
        }
        if (p->state != ENDED) x->live[kept++] = x->live[i];
    }
    x->nlive = kept;
}

static void play(player *x)
{
    double now = 0;
    for (int32_t i = 0; i < x->nparts; i++)
        if (x->parts[i].nbefore == 0) x->live[x->nlive++] = i;
    while (x->nlive > 0) {
        share_links(x);
        const double was = now;
        now = next_date(x, was);
        turn_parts(x, was, now);
    }
}

luo_status step_carry(stepper *w, step_call *calls, int32_t n, bool weights)
{
    const int64_t nlinks = 2 * (int64_t)w->in->cluster->nlinks;
    player x = {.w = w,
                .calls = calls,
                .ncalls = n,
                .weights = weights,
                .room = LUO_NEW_N(w->scratch, double, nlinks),
                .asked = LUO_NEW_N(w->scratch, double, nlinks),
                .links = LUO_NEW_N(w->scratch, int32_t, nlinks),
                .listed = LUO_NEW_N(w->scratch, bool, nlinks),
                .full = LUO_NEW_N(w->scratch, bool, nlinks)};
    if (!x.room || !x.asked || !x.links || !x.listed || !x.full) return luo_err_nomem(w->err);
    LUO_TRY(make_parts(&x));
    LUO_TRY(order_parts(&x));
    for (int32_t c = 0; c < n; c++) calls[c].end = calls[c].ready;
    play(&x);
    return LUO_OK;
}
