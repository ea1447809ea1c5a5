/* real.h: runs on backends that hold data: processes, their state, what of costs is waited out. */
#ifndef LUO_CORE_RUN_REAL_H
#define LUO_CORE_RUN_REAL_H
#include "core/run/run.h"

/* What of the scenario's costs is waited out; arrays. */
luo_status luo_real_init(luo_run *run, luo_err *err);
/* State before the first step, or of a checkpoint; run time begins when it is there. */
luo_status luo_real_begin(luo_run *run, luo_err *err);
/* A checkpoint of the state at this boundary. *saved: false when a process died meanwhile. */
luo_status luo_real_save(luo_run *run, bool *saved, luo_err *err);
/* Buffers and communicators of a plan in all processes, before state moves there. A process that
 * dies meanwhile is found out by the move. */
luo_status luo_real_bind(luo_run *run, int32_t plan, luo_err *err);
/* State for the running plan from the newest checkpoint that is not after *step; without any, as
 * before the first step. Out: *step. Processes that die meanwhile are started again. */
luo_status luo_real_load(luo_run *run, int64_t *step, luo_err *err);
/* Collects failures with `hard: true` at this boundary on devices of the plan: true if there are
 * any; the next attempt is hit by them. */
bool luo_real_strikes(luo_run *run);
/* Puts them into the request: the world without them, and changes dated now. */
luo_status luo_real_strike(luo_run *run, luo_step_request *request, luo_err *err);
/* The attempt or move failed because a process died: its device is lost unless an event has taken
 * it. Pre: events are committed up to its end. */
luo_status luo_real_died(luo_run *run, const luo_step_result *result, luo_err *err);
/* Nothing answers this death: the run ends with LUO_EPEER, the sentence says where to resume. */
luo_status luo_real_give_up(luo_run *run, const char *why, luo_err *err);
/* Do all devices of the plan have a process? */
bool luo_real_has_processes(const luo_run *run, const luo_plan *plan);
#endif
