#include "sim/step/timeline.h"

#include <math.h>

static int32_t span_at(const sim_timeline *timeline, double when)
{
    int32_t i = timeline->n - 1;
    while (i > 0 && timeline->at[i] > when) i--;
    return i;
}

double sim_timeline_value(const sim_timeline *timeline, double when)
{
    return timeline->value[span_at(timeline, when)];
}

double sim_timeline_next(const sim_timeline *timeline, double when)
{
    const int32_t i = span_at(timeline, when) + 1;
    return i < timeline->n ? timeline->at[i] : HUGE_VAL;
}

double sim_timeline_end(const sim_timeline *timeline, double start, double work)
{
    if (work <= 0) return start;
    for (int32_t i = span_at(timeline, start);; i++) {
        const double end = start + work * timeline->value[i];
        if (i + 1 == timeline->n || end <= timeline->at[i + 1]) return end;
        work -= (timeline->at[i + 1] - start) / timeline->value[i];
        start = timeline->at[i + 1];
    }
}
