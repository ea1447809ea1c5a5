/* interp.h: walks one device's program; the same code for every executor. */
#ifndef LUO_CORE_RUN_INTERP_H
#define LUO_CORE_RUN_INTERP_H
#include "core/run/executor.h"

/* What walking a role needs, for whoever walks it more than once, or for several devices.
 * Receives between stages (luo_instr_goes_ahead) are submitted a task ahead: a task begins with its
 * own, unless they have been, and those of the next, so that they may come while it computes. This
 * makes no deadlock: they wait for nothing here, a lane keeps its order, and no task waits for what
 * the next receives. early: calls of Post that run beside tasks (luo_instr_runs_beside) are
 * submitted behind the last run of whatever they wait for, in the order of Post. The first that
 * cannot be, and all calls behind it, stand in Post; all do where tasks make calls themselves
 * (ZeRO-2 and 3), and where not early.
 * Owner: arena. Errors: LUO_ENOMEM. Cost: O(instructions and dependencies). */
typedef struct luo_walk luo_walk;
luo_status luo_walk_make(luo_arena *arena, const luo_role *role, bool early, const luo_walk **out);

/* Submits every instruction of every task in that order with the tickets of its dependencies, then
 * waits for all. walk: of the program's role. Returns the first status that is not LUO_OK (nothing
 * is submitted after it). Cost: one submit per (task, instruction); memory: tickets of instructions
 * that another segment depends on only. scratch is used with mark and reset. */
luo_status luo_interp_walk(const luo_executor *executor, luo_rank *rank, const luo_walk *walk,
                           const luo_program *program, luo_arena *scratch);
/* Both at once. */
luo_status luo_interp_program(const luo_executor *executor, luo_rank *rank, const luo_programs *set,
                              const luo_program *program, bool early, luo_arena *scratch);
#endif
