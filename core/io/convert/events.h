/* events.h: an event trace as it grows: rows t_s, kind, target (docs/formats.md#event_trace). */
#ifndef LUO_CORE_IO_CONVERT_EVENTS_H
#define LUO_CORE_IO_CONVERT_EVENTS_H
#include "core/io/convert/convert_internal.h"

/* Which devices or nodes counts and names stand for (--units): `device:[0-31]`, or `node:GROUP`,
 * nodes GROUP-0, GROUP-1 .. */
typedef struct convert_units {
    const int32_t *device; /* NULL: nodes */
    const char *group;
    int32_t n; /* of devices; of nodes: as many as are asked for */
} convert_units;

typedef struct convert_events {
    convert_job *job;
    convert_units units;
    luo_str text;
    int64_t n;
    double last_s;
} convert_events;

/* most: units that the source has at once at most, which are devices 0 .. most - 1 if --units says
 * nothing. Errors: LUO_EUSAGE. */
luo_status convert_events_begin(convert_job *job, int32_t most, convert_events *events);
/* A row of unit `unit`. Errors: LUO_EINPUT it is none of the units. */
luo_status convert_events_put(convert_events *events, double t_s, const char *kind, int32_t unit);
/* events.csv, and what it says. Errors: LUO_EINPUT no row. */
luo_status convert_events_end(convert_events *events);

/* Counts of units that are up, by time (conventions of docs/formats.md#files-of-other-tools):
 * all up before; a fall takes the highest that is up, a rise returns the lowest that is down. */
typedef struct convert_count {
    double t_s;
    int64_t n;
} convert_count;
luo_status convert_counts(convert_job *job, const convert_count *counts, int64_t n);
#endif
