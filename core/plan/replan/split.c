/* The canonical layer split of one pipeline (docs/planners.md#layers-and-micro-batches): keeps the
 * smallest possible slowest stage and, under it, gives the fast stages as many layers as they take,
 * which makes the sum of stage times small and the split unique. */
#include <assert.h>
#include <math.h>

#include "core/plan/planners.h"

/* Layers that stage j can run without being slower than `slowest`, within its cap. The slack
 * absorbs the rounding of slowest = y*n, nothing more. */
static int64_t room(double y, double slowest, const int64_t *cap, int32_t j, int64_t layers)
{
    const double q = floor(slowest / y * (1 + 1e-12));
    int64_t n = q >= (double)layers ? layers : (int64_t)q;
    if (cap && cap[j] < n) n = cap[j];
    return n < 0 ? 0 : n;
}

/* Next class after y in rising order; INFINITY when there is none. */
static double next_class(int32_t stages, const double *y, double after)
{
    double next = INFINITY;
    for (int32_t j = 0; j < stages; j++)
        if (y[j] > after && y[j] < next) next = y[j];
    return next;
}

typedef struct level { /* of the stages of one class that take more than `height` layers */
    int32_t open;
    int64_t next; /* least height above this one at which a stage is full */
} level;

static level look(int32_t stages, const double *y, double of, const int64_t *most, int64_t height)
{
    level l = {0, INT64_MAX};
    for (int32_t j = 0; j < stages; j++) {
        if (y[j] != of || most[j] <= height) continue;
        l.open++;
        if (most[j] < l.next) l.next = most[j];
    }
    return l;
}

/* Deals `layers` evenly over the stages of class y, the larger shares to later stages: as water
 * rises, and what does not fill a level to the last ones that take it. */
static void deal(int32_t stages, const double *y, double of, const int64_t *most, int64_t layers,
                 int64_t *out)
{
    int64_t height = 0;
    for (;;) {
        const level l = look(stages, y, of, most, height);
        if (l.open == 0 || layers < l.open) break;
        const int64_t even = layers / l.open,
                      rise = even < l.next - height ? even : l.next - height;
        height += rise;
        layers -= rise * l.open;
    }
    for (int32_t j = stages - 1; j >= 0; j--) {
        if (y[j] != of) continue;
        out[j] = most[j] < height ? most[j] : height;
        if (most[j] <= height || layers == 0) continue;
        out[j]++;
        layers--;
    }
    assert(layers == 0);
}

luo_status luo_plan_split_layers(luo_arena *scratch, int32_t stages, const double *y,
                                 int64_t layers, const int64_t *cap, int64_t *out, luo_err *err)
{
    assert(stages >= 1);
    luo_status st = LUO_OK;
    const size_t mark = luo_arena_mark(scratch);
    int64_t *most = LUO_NEW_N(scratch, int64_t, stages);
    double slowest = 0;
    int64_t left = layers;

    if (!most) return luo_err_nomem(err);
    LUO_TRY_OUT(luo_plan_minmax(stages, y, NULL, layers, NULL, cap, most, &slowest, err));
    for (int32_t j = 0; j < stages; j++) {
        most[j] = room(y[j], slowest, cap, j, layers);
        out[j] = 0;
    }
    for (double of = next_class(stages, y, 0); left > 0 && of < INFINITY;
         of = next_class(stages, y, of)) {
        int64_t sum = 0;
        for (int32_t j = 0; j < stages; j++) sum += y[j] == of ? most[j] : 0;
        const int64_t give = sum < left ? sum : left;
        deal(stages, y, of, most, give, out);
        left -= give;
    }
    assert(left == 0);
out:
    luo_arena_reset(scratch, mark);
    return st;
}
