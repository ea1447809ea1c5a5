/* read_trace.h: targets of events, judged alike in scenario.yaml and in traces. */
#ifndef LUO_CORE_IO_READ_READ_TRACE_H
#define LUO_CORE_IO_READ_READ_TRACE_H
#include "core/cost/cluster.h"
#include "core/run/scenario.h"

/* Can what happens to an event of that kind happen to the target? process: each device has its own
 * clock, so `any` and links make no sense. what: "event `a`". Nothing is kept in the arena. */
luo_status luo_trace_check_target(luo_arena *arena, const luo_cluster *cluster, luo_event_kind kind,
                                  bool process, const char *target, const char *what, luo_err *err);
#endif
