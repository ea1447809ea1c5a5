/* lanes_twin.h: calls in a given order on a machine whose devices issue them one after
 * another, the slow twin of core/graph/schedule/lanes.h: no columns, no components, everything
 * looked at again at each date. Work is counted in 1/12 ns, too. */
#ifndef LUO_TESTS_LANES_TWIN_H
#define LUO_TESTS_LANES_TWIN_H
#include <stdbool.h>
#include <string.h>

#include "core/graph/schedule/lanes.h"

enum { TWIN_CALLS = 64, TWIN_DEVICES = 16 };

typedef struct twin {
    const luo_lane_call *call;
    int32_t n, lanes;
    const int32_t *order;
    const luo_timetable *given; /* lanes as they stand here; NULL: any that is free */
    bool started[TWIN_CALLS], ended[TWIN_CALLS];
    int64_t start[TWIN_CALLS], end[TWIN_CALLS], work[TWIN_CALLS], now;
} twin;

static inline bool twin_share(const int32_t *a, int32_t na, const int32_t *b, int32_t nb)
{
    for (int32_t i = 0; i < na; i++)
        for (int32_t k = 0; k < nb; k++)
            if (a[i] == b[k]) return true;
    return false;
}

static inline bool twin_runs(const twin *t, int32_t i)
{
    return t->started[i] && !t->ended[i];
}

static inline bool twin_moves(const twin *t, int32_t i)
{
    return twin_runs(t, i) && t->now >= t->start[i] + t->call[i].fixed;
}

/* Calls on a device that run; or that move beside a call, itself included. */
static inline int32_t twin_count(const twin *t, int32_t dev, const luo_lane_call *beside)
{
    int32_t n = 0;
    for (int32_t i = 0; i < t->n; i++)
        if (twin_share(t->call[i].dev, t->call[i].ndev, &dev, 1))
            n += beside ? twin_moves(t, i) && t->call[i].link == beside->link : twin_runs(t, i);
    return n;
}

static inline int64_t twin_rate(const twin *t, int32_t i)
{
    int32_t most = 1;
    for (int32_t k = 0; k < t->call[i].ndev; k++) {
        const int32_t n = twin_count(t, t->call[i].dev[k], &t->call[i]);
        if (n > most) most = n;
    }
    return 12 / most;
}

/* Lane of a call on a device by the timetable; -1: it is not on it. */
static inline int32_t twin_lane(const twin *t, int32_t i, int32_t dev)
{
    for (int32_t k = 0; k < t->call[i].ndev; k++)
        if (t->call[i].dev[k] == dev) return t->given->lane[i][k];
    return -1;
}

static inline bool twin_lane_free(const twin *t, int32_t i, int32_t dev)
{
    if (!t->given) return twin_count(t, dev, NULL) < t->lanes;
    for (int32_t k = 0; k < t->n; k++)
        if (twin_runs(t, k) && twin_lane(t, k, dev) == twin_lane(t, i, dev)) return false;
    return true;
}

/* With given lanes only what stands before it in the same lane holds a call up. */
static inline bool twin_in_turn(const twin *t, int32_t at)
{
    const luo_lane_call *c = &t->call[t->order[at]];
    for (int32_t k = 0; k < at; k++) {
        const int32_t o = t->order[k];
        for (int32_t d = 0; d < c->ndev && !t->started[o]; d++) {
            if (!twin_share(t->call[o].dev, t->call[o].ndev, &c->dev[d], 1)) continue;
            if (!t->given || twin_lane(t, o, c->dev[d]) == twin_lane(t, t->order[at], c->dev[d]))
                return false;
        }
        if (!t->ended[o] && twin_share(c->group, c->ngroup, t->call[o].group, t->call[o].ngroup))
            return false;
    }
    return true;
}

static inline bool twin_can(const twin *t, int32_t at)
{
    const int32_t i = t->order[at];
    const luo_lane_call *c = &t->call[i];
    bool can = !t->started[i] && c->ready <= t->now && twin_in_turn(t, at);
    for (int32_t k = 0; can && k < c->nbefore; k++) can = t->ended[c->before[k]];
    for (int32_t k = 0; can && k < c->ndev; k++) can = twin_lane_free(t, i, c->dev[k]);
    return can;
}

static inline void twin_sooner(int64_t *date, int64_t now, int64_t t)
{
    if (t >= now && (*date < 0 || t < *date)) *date = t;
}

static inline int64_t twin_next(const twin *t)
{
    int64_t date = -1;
    for (int32_t i = 0; i < t->n; i++) {
        const int64_t waits = t->start[i] + t->call[i].fixed;
        if (!t->started[i] && t->call[i].ready > t->now)
            twin_sooner(&date, t->now, t->call[i].ready);
        if (!twin_runs(t, i)) continue;
        if (waits > t->now || t->work[i] == 0) twin_sooner(&date, t->now, waits);
        else
            twin_sooner(&date, t->now,
                        t->now + (t->work[i] + twin_rate(t, i) - 1) / twin_rate(t, i));
    }
    return date;
}

static inline void twin_go_on(twin *t, int64_t date)
{
    int64_t moved[TWIN_CALLS] = {0};
    for (int32_t i = 0; i < t->n; i++)
        if (twin_moves(t, i)) moved[i] = twin_rate(t, i) * (date - t->now);
    t->now = date;
    for (int32_t i = 0; i < t->n; i++) {
        t->work[i] -= moved[i];
        if (!twin_runs(t, i) || t->work[i] > 0 || t->start[i] + t->call[i].fixed > date) continue;
        t->ended[i] = true;
        t->end[i] = date;
    }
}

/* Latest end with its tail; -1: the calls wait for each other. Dates stand in t. */
static inline int64_t twin_run(twin *t, const luo_lane_call *call, int32_t n, int32_t lanes,
                               const int32_t *order, const luo_timetable *given)
{
    int64_t last = 0;
    memset(t, 0, sizeof *t);
    *t = (twin){.call = call, .n = n, .lanes = lanes, .order = order, .given = given};
    for (;;) {
        for (bool moved = true; moved;) {
            moved = false;
            for (int32_t k = 0; k < n; k++) {
                const int32_t i = order[k];
                if (!twin_can(t, k)) continue;
                t->started[i] = moved = true;
                t->start[i] = t->now;
                t->work[i] = 12 * call[i].moving;
            }
        }
        const int64_t date = twin_next(t);
        if (date < 0) break;
        twin_go_on(t, date);
    }
    for (int32_t i = 0; i < n; i++) {
        if (!t->ended[i]) return -1;
        if (t->end[i] + call[i].tail > last) last = t->end[i] + call[i].tail;
    }
    return last;
}
#endif
