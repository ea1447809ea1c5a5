#include "sim/step/timeline.h"

#include <math.h>

static int32_t span_at(const sim_timeline *t, double when)
{
    int32_t i = t->n - 1;
    while (i > 0 && t->at[i] > when) i--;
    return i;
}

double sim_timeline_value(const sim_timeline *t, double when)
{
    return t->value[span_at(t, when)];
}

double sim_timeline_next(const sim_timeline *t, double when)
{
    const int32_t i = span_at(t, when) + 1;
    return i < t->n ? t->at[i] : HUGE_VAL;
}

double sim_timeline_end(const sim_timeline *t, double start, double work)
{
    if (work <= 0) return start;
    for (int32_t i = span_at(t, start);; i++) {
        const double end = start + work * t->value[i];
        if (i + 1 == t->n || end <= t->at[i + 1]) return end;
        work -= (t->at[i + 1] - start) / t->value[i];
        start = t->at[i + 1];
    }
}
