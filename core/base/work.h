/* work.h: limits of work: how much a file may ask for before somebody says that it is
 * meant. Below the defaults a run ends in reasonable time and memory; `--limit NAME=VALUE` raises
 * one. What no machine could represent is another table (core/base/quantity.h). */
#ifndef LUO_CORE_BASE_WORK_H
#define LUO_CORE_BASE_WORK_H
#include <stdint.h>

#include "core/base/err.h"

/* id, name, default, most that can be asked for, what is counted, what it bounds. Measured on two
 * cores: 1e5 micro-batches on two stages take 4 s a step; 1e7 operations 1.3 GB; 5e4 events on one
 * device 5 s; 1e6 changes 20 s and 200 MB of rows. */
#define LUO_WORK_LIST(X)                                                                           \
    X(LUO_WORK_MICRO_BATCHES, "micro-batches", 100000, 1 << 30, "micro-batches",                   \
      "of a step, all pipelines")                                                                  \
    X(LUO_WORK_SEQUENCES, "sequences", 1000000, 1 << 30, "sequences", "of a step")                 \
    X(LUO_WORK_OPERATIONS, "operations", 10000000, INT64_C(1) << 40, "operations",                 \
      "recorded of a traced step")                                                                 \
    X(LUO_WORK_WHAT_IFS, "what-if-ops", 5000000, INT64_C(1) << 40, "operations",                   \
      "of steps simulated for the column caused_slowdown")                                         \
    X(LUO_WORK_RANGES, "range-ops", 5000000, INT64_C(1) << 40, "operations",                       \
      "of steps simulated by flows for a range; above it by closed forms")                         \
    X(LUO_WORK_EVENTS, "events", 50000, 1 << 30, "events", "of a scenario and its traces")         \
    X(LUO_WORK_CHANGES, "changes", 1000000, INT64_C(1) << 40, "changes",                           \
      "that events and processes make in a run")                                                   \
    X(LUO_WORK_ITERATIONS, "iterations", 10000000, INT64_C(1) << 40, "iterations",                 \
      "of all workers, without a scenario")                                                        \
    X(LUO_WORK_EMBED_MIB, "embed-mib", 4096, INT64_C(1) << 30, "MiB of memory",                    \
      "for keys, caches and parts of `embed`")

typedef enum luo_work_id {
#define LUO_WORK_ID(id, name, most, highest, unit, bounds) id,
    LUO_WORK_LIST(LUO_WORK_ID)
#undef LUO_WORK_ID
        LUO_WORKS
} luo_work_id;

typedef struct luo_work {
    int64_t most[LUO_WORKS]; /* 0: the default */
} luo_work;

const char *luo_work_name(luo_work_id id);
const char *luo_work_unit(luo_work_id id);
const char *luo_work_bounds(luo_work_id id);
int64_t luo_work_default(luo_work_id id);
/* limits NULL: the defaults. */
int64_t luo_work_most(const luo_work *limits, luo_work_id id);
/* Is so much allowed? subject: "plan `x` has". Errors: LUO_E2BIG, naming the limit, its value and
 * how to raise it. */
luo_status luo_work_check(const luo_work *limits, luo_work_id id, double asked, const char *subject,
                          luo_err *err);
/* The same where it is met on the way and nobody knows how much is asked for. Returns LUO_E2BIG. */
luo_status luo_work_over(const luo_work *limits, luo_work_id id, const char *subject, luo_err *err);
/* "NAME=VALUE" into limits. Errors: LUO_EUSAGE. */
luo_status luo_work_set(luo_work *limits, const char *text, luo_err *err);
#endif
