/* timeline.h: a factor that is constant between known dates, and work that is slowed by it. */
#ifndef LUO_SIM_STEP_TIMELINE_H
#define LUO_SIM_STEP_TIMELINE_H
#include <stdint.h>

typedef struct sim_timeline {
    int32_t n;           /* >= 1 */
    const double *at;    /* ascending; value[i] holds from at[i] on; at[0] is the start of time */
    const double *value; /* seconds needed per second of work: > 0, HUGE_VAL = nothing moves */
} sim_timeline;

double sim_timeline_value(const sim_timeline *timeline, double when);
/* First date after `when` at which the value changes; HUGE_VAL: none. */
double sim_timeline_next(const sim_timeline *timeline, double when);
/* When `work` seconds of work that begin at `start` end; HUGE_VAL: never. */
double sim_timeline_end(const sim_timeline *timeline, double start, double work);
#endif
