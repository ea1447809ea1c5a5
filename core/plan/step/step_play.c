/* step_play.c: what shares links over time: calls of gradients and weights, and messages. A part
 * begins when all before it have ended; its bytes move at the max-min share of the links on its
 * way. */
#include <math.h>

#include "core/base/vec.h"
#include "core/plan/step/step_internal.h"

luo_status step_open_player(const stepper *w, step_player *x)
{
    const int64_t nlinks = 2 * (int64_t)w->in->cluster->nlinks;
    *x = (step_player){.w = w,
                       .room = LUO_NEW_N(w->scratch, double, nlinks),
                       .asked = LUO_NEW_N(w->scratch, double, nlinks),
                       .links = LUO_NEW_N(w->scratch, int32_t, nlinks),
                       .listed = LUO_NEW_N(w->scratch, bool, nlinks),
                       .full = LUO_NEW_N(w->scratch, bool, nlinks)};
    if (!x->room || !x->asked || !x->links || !x->listed || !x->full) return luo_err_nomem(w->err);
    return LUO_OK;
}

luo_status step_add_part(step_player *x, const step_slice *slice, double bytes, double date,
                         double *end)
{
    if (!LUO_VEC_ROOM_IN(x->w->scratch, x->parts, x->nparts, x->cap_parts))
        return luo_err_nomem(x->w->err);
    x->parts[x->nparts++] =
        (step_part){.slice = slice, .left = bytes, .date = date, .end = end, .first_after = -1};
    return LUO_OK;
}

luo_status step_put_before(step_player *x, int32_t before, int32_t after, double lag)
{
    if (!LUO_VEC_ROOM_IN(x->w->scratch, x->edges, x->nedges, x->cap_edges))
        return luo_err_nomem(x->w->err);
    x->edges[x->nedges] = (step_edge){after, x->parts[before].first_after, lag};
    x->parts[before].first_after = x->nedges++;
    x->parts[after].nbefore++;
    return LUO_OK;
}

/* Links that parts on their way use, with all their room. */
static void list_links(step_player *x)
{
    x->nlinks = 0;
    for (int32_t i = 0; i < x->nlive; i++) {
        step_part *p = &x->parts[x->live[i]];
        p->frozen = p->state != STEP_PART_MOVING;
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
static int32_t ask(step_player *x)
{
    int32_t n = 0;
    for (int32_t i = 0; i < x->nlinks; i++) x->asked[x->links[i]] = 0;
    for (int32_t i = 0; i < x->nlive; i++) {
        const step_part *p = &x->parts[x->live[i]];
        n += !p->frozen;
        for (int32_t k = 0; !p->frozen && k < p->slice->nloads; k++)
            x->asked[p->slice->loads[k].at] += p->slice->loads[k].seconds;
    }
    return n;
}

/* Bytes a second that a link lets through of each part whose rate is not known. */
static double let_through(const step_player *x, int32_t link)
{
    return x->asked[link] > 0 ? x->room[link] / x->asked[link] : HUGE_VAL;
}

/* Parts on a link that lets no more through get that rate. */
static void freeze(step_player *x, double rate)
{
    for (int32_t i = 0; i < x->nlinks; i++)
        x->full[x->links[i]] = let_through(x, x->links[i]) <= rate * (1 + 1e-9);
    for (int32_t i = 0; i < x->nlive; i++) {
        step_part *p = &x->parts[x->live[i]];
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
static void share_links(step_player *x)
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

static double next_date(step_player *x, double now)
{
    double next = HUGE_VAL;
    for (int32_t i = 0; i < x->nlive; i++) {
        step_part *p = &x->parts[x->live[i]];
        if (p->state == STEP_PART_MOVING) p->date = now + p->left / p->rate;
        next = fmin(next, p->date);
    }
    return next;
}

static void end_part(step_player *x, int32_t id, double now)
{
    step_part *p = &x->parts[id];
    p->state = STEP_PART_ENDED;
    if (p->end) *p->end = fmax(*p->end, now);
    for (int32_t e = p->first_after; e >= 0; e = x->edges[e].next) {
        step_part *after = &x->parts[x->edges[e].part];
        after->date = fmax(after->date, now + x->edges[e].lag);
        if (--after->nbefore == 0) x->live[x->nlive++] = x->edges[e].part;
    }
}

/* Those whose turn it is at `now`; parts that this lets begin are behind them in the list. */
static void turn_parts(step_player *x, double was, double now)
{
    int32_t kept = 0;
    for (int32_t i = 0; i < x->nlive; i++) {
        step_part *p = &x->parts[x->live[i]];
        const bool due = p->date <= now;
        if (p->state == STEP_PART_MOVING) p->left = fmax(0, p->left - p->rate * (now - was));
        if (due && p->state == STEP_PART_WAITING) {
            p->state = STEP_PART_FIXED;
            p->date = now + p->slice->fixed;
        }
        if (due && p->state == STEP_PART_FIXED && p->date <= now) {
            p->state = p->slice->nloads > 0 && p->left > 0 ? STEP_PART_MOVING : STEP_PART_ENDED;
            x->changed = x->changed || p->state == STEP_PART_MOVING;
            if (p->state == STEP_PART_ENDED) end_part(x, x->live[i], now);
        } else if (due && p->state == STEP_PART_MOVING) {
            x->changed = true;
            end_part(x, x->live[i], now);
        }
        if (p->state != STEP_PART_ENDED) x->live[kept++] = x->live[i];
    }
    x->nlive = kept;
}

luo_status step_play_parts(step_player *x)
{
    double now = 0;
    x->live = LUO_NEW_N(x->w->scratch, int32_t, x->nparts);
    if (!x->live) return luo_err_nomem(x->w->err);
    for (int32_t i = 0; i < x->nparts; i++)
        if (x->parts[i].nbefore == 0) x->live[x->nlive++] = i;
    while (x->nlive > 0) {
        if (x->changed) share_links(x);
        x->changed = false;
        const double was = now;
        now = next_date(x, was);
        turn_parts(x, was, now);
    }
    return LUO_OK;
}
