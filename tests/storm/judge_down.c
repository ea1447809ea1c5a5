/* No failed device works. When which device was down is worked out from events.csv and the targets
 * of the scenario alone. */
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/io/read/read.h"
#include "tests/storm/storm.h"

enum { TOGGLES = 1000000 };

typedef struct outage {
    int32_t device;
    double from, to; /* seconds; INFINITY: until the end */
} outage;

typedef struct holder { /* what holds devices down: an event, or the health the cluster began with
                         */
    const char *id;
    double since, down_s, up_s; /* down_s 0: no flap */
    bool *held;                 /* per device */
    bool over;
} holder;

typedef struct history {
    storm_run *r;
    int32_t ndevices, nholders, cap_holders, n, cap;
    holder *holder;
    outage *at;
} history;

static void add_outage(history *h, int32_t device, double from, double to)
{
    if (h->n == h->cap) {
        const int32_t more = h->cap ? 2 * h->cap : 64;
        h->at = luo_arena_grow(h->r->arena, h->at, (size_t)h->cap * sizeof *h->at,
                               (size_t)more * sizeof *h->at);
        h->cap = more;
    }
    h->at[h->n++] = (outage){device, from, to};
}

/* The device is let go at t_s: the times it was down until then. */
static void let_go(history *h, holder *x, int32_t device, double t_s)
{
    if (!x->held[device]) return;
    x->held[device] = false;
    if (x->down_s <= 0) {
        add_outage(h, device, x->since, t_s);
        return;
    }
    double from = x->since;
    for (int k = 0; from < t_s && k < TOGGLES; k++, from += x->down_s + x->up_s)
        add_outage(h, device, from, fmin(from + x->down_s, t_s));
}

static holder *new_holder(history *h, const char *id, double since)
{
    if (h->nholders == h->cap_holders) {
        const int32_t more = h->cap_holders ? 2 * h->cap_holders : 16;
        h->holder =
            luo_arena_grow(h->r->arena, h->holder, (size_t)h->cap_holders * sizeof *h->holder,
                           (size_t)more * sizeof *h->holder);
        h->cap_holders = more;
    }
    holder *x = &h->holder[h->nholders++];
    *x = (holder){.id = id, .since = since, .held = LUO_NEW_N(h->r->arena, bool, h->ndevices)};
    return x;
}

static bool devices_of(history *h, const char *target, const int32_t **dev, int32_t *n)
{
    luo_target t;
    luo_err err = {0};
    *n = 0;
    if (luo_target_parse(h->r->arena, h->r->scenario->cluster, target, &t, &err) != LUO_OK)
        return false;
    *n = t.choices[0].ndev;
    *dev = t.choices[0].dev;
    return true;
}

static const luo_event *event_of(const storm_run *r, const char *id)
{
    for (int32_t i = 0; i < r->scenario->nevents; i++)
        if (strcmp(r->scenario->events[i].id, id) == 0) return &r->scenario->events[i];
    return NULL;
}

/* ---- rows of events.csv ---- */

static void fell(history *h, const char *id, const char *kind, const char *target, double t_s)
{
    const int32_t *dev;
    int32_t n;
    if (strcmp(target, "job") == 0) { /* down and up again at once: at least those of all plans */
        return;
    }
    if (!devices_of(h, target, &dev, &n))
        STORM_WRONG(h->r, "%s/events.csv: target `%s` is none", h->r->dir, target);
    const luo_event *e = event_of(h->r, id);
    holder *x = new_holder(h, id, t_s);
    if (strcmp(kind, "flap") == 0 && e) {
        x->down_s = e->down_s;
        x->up_s = e->up_s;
    }
    for (int32_t i = 0; i < n; i++) x->held[dev[i]] = true;
}

static void ended(history *h, const char *id, double t_s)
{
    for (int32_t i = 0; i < h->nholders; i++) {
        holder *x = &h->holder[i];
        if (x->over || strcmp(x->id, id) != 0) continue;
        for (int32_t d = 0; d < h->ndevices; d++) let_go(h, x, d, t_s);
        x->over = true;
        return;
    }
}

static void joined(history *h, const char *target, double t_s)
{
    const int32_t *dev;
    int32_t n;
    if (!devices_of(h, target, &dev, &n)) return;
    for (int32_t i = 0; i < n; i++)
        for (int32_t k = 0; k < h->nholders; k++) let_go(h, &h->holder[k], dev[i], t_s);
}

static void take_row(history *h, int row)
{
    const storm_sheet *t = &h->r->events;
    const char *phase = storm_cell(t, row, "phase"), *kind = storm_cell(t, row, "kind");
    const char *id = storm_cell(t, row, "id"), *target = storm_cell(t, row, "target");
    const double t_s = storm_number(t, row, "t_s");
    const bool down =
        strcmp(kind, "fail") == 0 || strcmp(kind, "leave") == 0 || strcmp(kind, "flap") == 0;
    if (strcmp(phase, "fired") == 0 && down) fell(h, id, kind, target, t_s);
    if (strcmp(phase, "fired") == 0 && strcmp(kind, "join") == 0) joined(h, target, t_s);
    if (strcmp(phase, "ended") == 0 && down) ended(h, id, t_s);
}

static void begin(history *h)
{
    const luo_cluster *c = h->r->scenario->cluster;
    const int32_t *dev;
    int32_t n;
    for (int32_t i = 0; i < c->nhealth; i++) {
        if (!c->health[i].down || !devices_of(h, c->health[i].target, &dev, &n)) continue;
        holder *x = new_holder(h, "#", 0);
        for (int32_t k = 0; k < n; k++) x->held[dev[k]] = true;
    }
}

/* ---- what has to hold ---- */

static double near(double t_s)
{
    return 2e-9 + 1e-12 * fabs(t_s);
}

static bool uses(const luo_plan *p, int32_t device)
{
    for (int32_t i = 0; i < p->npipelines; i++)
        for (int32_t s = 0; s < p->pipelines[i].nstages; s++)
            for (int32_t d = 0; d < p->pipelines[i].stages[s].ndev; d++)
                if (p->pipelines[i].stages[s].dev[d] == device) return true;
    return false;
}

static luo_plan *plan_of(history *h, int index)
{
    luo_plan *p = NULL;
    luo_diags diags;
    const char *path = luo_arena_printf(h->r->arena, "%s/plans/plan-%03d.json", h->r->dir, index);
    luo_diags_init(&diags, h->r->arena);
    return luo_read_plan(h->r->arena, path, &p, NULL, &diags) == LUO_OK ? p : NULL;
}

/* A step that was finished: none of its devices was down in between. */
static void judge_steps(history *h)
{
    const storm_sheet *t = &h->r->steps;
    luo_plan *p = NULL;
    for (int i = 0, last = -1; i < t->rows; i++) {
        const double from = storm_number(t, i, "t_start_s"), to = storm_number(t, i, "t_end_s");
        const int index = (int)storm_number(t, i, "plan");
        if (index != last) p = plan_of(h, index);
        last = index;
        for (int32_t k = 0; p && k < h->n; k++)
            if (h->at[k].from < to - near(to) && h->at[k].to > from + near(from) &&
                uses(p, h->at[k].device)) {
                STORM_WRONG(h->r,
                            "%s/steps.csv:%d: step from %.9f to %.9f was finished; device "
                            "%d was down from %.9f to %.9f",
                            h->r->dir, i + 2, from, to, h->at[k].device, h->at[k].from,
                            h->at[k].to);
                return;
            }
    }
}

/* No kernel begins, or goes on to its end, on a device that is down. */
static void judge_ops(history *h)
{
    const storm_sheet *t = &h->r->ops;
    const int device = storm_sheet_column(t, "device"), kind = storm_sheet_column(t, "kind");
    const int begin_at = storm_sheet_column(t, "t_start_s"),
              end_at = storm_sheet_column(t, "t_end_s");
    const int status = storm_sheet_column(t, "status");
    for (int i = 0; h->n > 0 && i < t->rows; i++) {
        const char *const *cell = &t->cell[i * t->columns];
        if (strcmp(cell[kind], "COMPUTE") != 0 || strcmp(cell[status], "LUO_OK") != 0) continue;
        const double from = strtod(cell[begin_at], NULL), to = strtod(cell[end_at], NULL);
        const int32_t d = atoi(cell[device]);
        for (int32_t k = 0; k < h->n; k++)
            if (h->at[k].device == d && h->at[k].from < to - near(to) &&
                h->at[k].to > from + near(from)) {
                STORM_WRONG(h->r,
                            "%s/ops.csv:%d: device %d computed from %.9f to %.9f; it was "
                            "down from %.9f to %.9f",
                            h->r->dir, i + 2, d, from, to, h->at[k].from, h->at[k].to);
                return;
            }
    }
}

static int by_time(const void *a, const void *b)
{
    const outage *x = a, *y = b;
    if (x->device != y->device) return x->device < y->device ? -1 : 1;
    return x->from < y->from ? -1 : x->from > y->from;
}

/* Seconds up: the run less the union of the outages. Pre: sorted. */
static void judge_up(history *h)
{
    const storm_sheet *t = &h->r->devices;
    for (int i = 0; i < t->rows; i++) {
        double up_s = h->r->total_s, covered = 0;
        int n = 0;
        for (int32_t k = 0; k < h->n; k++) {
            if (h->at[k].device != i) continue;
            const double from = fmax(h->at[k].from, covered), to = fmin(h->at[k].to, h->r->total_s);
            if (to > from) up_s -= to - from;
            covered = fmax(covered, to);
            n++;
        }
        const double says = storm_number(t, i, "up_s");
        if (fabs(says - up_s) <= (n + 2) * (2e-9 + 1e-11 * h->r->total_s)) continue;
        STORM_WRONG(h->r, "%s/devices.csv:%d: `up_s` is %.9f; by events.csv it is %.9f", h->r->dir,
                    i + 2, says, up_s);
        return;
    }
}

/* Rows of processes are left out where they would have no end; the run says so. */
static bool rows_are_missing(const storm_run *r)
{
    const json_t *all = json_object_get(r->summary, "warnings");
    for (size_t i = 0; i < json_array_size(all); i++)
        if (strstr(json_string_value(json_array_get(all, i)), "is not in events.csv")) return true;
    return false;
}

void storm_judge_down(storm_run *r)
{
    if (rows_are_missing(r)) return;
    history h = {.r = r, .ndevices = r->scenario->cluster->ndevices};
    begin(&h);
    for (int i = 0; i < r->events.rows; i++) take_row(&h, i);
    for (int32_t i = 0; i < h.nholders; i++)
        for (int32_t d = 0; d < h.ndevices; d++) let_go(&h, &h.holder[i], d, r->total_s + 1);
    if (h.n > 0) qsort(h.at, (size_t)h.n, sizeof *h.at, by_time);
    judge_up(&h);
    if (strcmp(r->policy->name, "oracle") == 0) return; /* a line to compare with; no run */
    judge_steps(&h);
    judge_ops(&h);
}
