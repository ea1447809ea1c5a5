#include "core/cost/overlap.h"

#include <math.h>

void luo_cost_ddp_overlap(int32_t n, const double *ready, const double *seconds, double end,
                          luo_overlap *out)
{
    luo_overlap overlap = {0, 0};
    double queue = 0;
    for (int32_t i = 0; i < n; i++) {
        queue = fmax(queue, ready[i]) + seconds[i];
        overlap.total += seconds[i];
    }
    overlap.exposed = fmax(0, queue - end);
    *out = overlap;
}

enum { RING = 64 }; /* of the last units; depth reaches at most RING - 2 back */

typedef struct timeline { /* of a task: computation beside one lane of communication */
    double compute, lane;  /* ends so far */
    double worked[RING], gathered[RING], scattered[RING]; /* ends, by position % RING */
    const double *gather;
    int32_t n, depth;
} timeline;

/* Gather of the unit at a position waits for the work of the one depth + 1 before. */
static void gather_at(timeline *t, int32_t position, int32_t unit)
{
    if (position >= t->n) return;
    const int32_t before = position - 1 - t->depth;
    const double free = before >= 0 ? t->worked[before % RING] : 0;
    t->lane = fmax(t->lane, free) + t->gather[unit];
    t->gathered[position % RING] = t->lane;
}

static void work_at(timeline *t, int32_t position, double seconds)
{
    t->compute = fmax(t->compute, t->gathered[position % RING]) + seconds;
    t->worked[position % RING] = t->compute;
}

static double forward_end(timeline *t, const double *forward)
{
    for (int32_t i = 0; i <= t->depth; i++) gather_at(t, i, i);
    for (int32_t i = 0; i < t->n; i++) {
        work_at(t, i, forward[i]);
        gather_at(t, i + 1 + t->depth, i + 1 + t->depth);
    }
    return t->compute;
}

/* Units from the last to the first; a unit also waits for the scatter of the one two before. */
static double backward_end(timeline *t, const double *backward, const double *scatter)
{
    const int32_t n = t->n, d = t->depth;
    for (int32_t k = 0; k <= d; k++) gather_at(t, k, n - 1 - k);
    for (int32_t k = 0; k < n; k++) {
        if (k >= 2) t->compute = fmax(t->compute, t->scattered[(k - 2) % RING]);
        work_at(t, k, backward[n - 1 - k]);
        t->lane = fmax(t->lane, t->compute) + scatter[n - 1 - k];
        t->scattered[k % RING] = t->lane;
        gather_at(t, k + 1 + d, n - 2 - k - d);
    }
    return fmax(t->compute, t->lane);
}

void luo_cost_fsdp(int32_t n, const double *forward, const double *backward, const double *gather,
                   const double *scatter, int32_t depth, luo_fsdp *out)
{
    timeline t = {.gather = gather, .n = n,
                  .depth = depth < 0 ? 0 : depth > RING - 2 ? RING - 2 : depth};
    out->forward_end = forward_end(&t, forward);
    t.lane = t.compute; /* no gather crosses the border */
    out->end = n > 0 ? backward_end(&t, backward, scatter) : t.compute;
}
