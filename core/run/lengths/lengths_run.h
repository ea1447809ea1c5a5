/* lengths_run.h: a run under a policy for uneven lengths: every step has a batch and plans of its
 * own (docs/policies.md#uneven-lengths). For core/run/ only.
 *
 * A step's plans belong to frames: replicas on devices, without a batch. The frame is the plan of
 * the result tables; the programs that it is bound to change from step to step. Optimizer state of
 * all frames lies in one layout, so that a change of frame moves nothing but what each step moves
 * anyway: parameters from the layout to the plan, gradients back. */
#ifndef LUO_CORE_RUN_LENGTHS_LENGTHS_RUN_H
#define LUO_CORE_RUN_LENGTHS_LENGTHS_RUN_H
#include "core/run/lengths/batches.h"
#include "core/run/lengths/orders.h"
#include "core/run/lengths/planning.h"

struct luo_run;

typedef struct luo_run_lengths {
    luo_batches batches;
    luo_planning planning;
    luo_arena *setup_arena; /* of what orders say of devices, made anew when these change */
    luo_orders orders;
    bool stale;                /* rates are not those that orders are made for */
    luo_length_choice *chosen; /* of which the plans are */
    int32_t current;           /* candidate of it in the step before; -1: none */
    luo_arena *step_arena;     /* of what follows, made anew for every step */
    int64_t step;              /* that is planned; -1: none */
    int64_t *length;
    int32_t n;
    luo_length_plans plans;
    int32_t bound, used; /* part that is bound, and the index of its frame */
    int32_t first;       /* the same of part 0 */
    bool in_step;        /* the plan changes between two parts of a step */
    bool adopted;        /* plans of the setup run; else the run is on its way to them */
} luo_run_lengths;

/* Setup for the devices that are usable at the start, and the plan of the first batch as the first
 * plan of the run. Errors: LUO_EINPUT the batch of the scenario is not known; those of
 * luo_length_setup_make and luo_run_use_batch. */
luo_status luo_run_lengths_begin(struct luo_run *run, luo_err *err);
/* At a boundary: the plans of the step that comes, bound; waits for the planner as far as it is not
 * ahead. Errors: those of luo_length_plan and luo_run_use_batch. */
luo_status luo_run_lengths_boundary(struct luo_run *run, luo_err *err);
/* Part k of the step's plans becomes the running plan. */
luo_status luo_run_lengths_bind(struct luo_run *run, int32_t part, luo_err *err);
/* After all parts of a step: its result is that of part 0, with the whole batch. */
void luo_run_lengths_whole(struct luo_run *run);
/* Rows of assignment.csv for a step that ended well. */
luo_status luo_run_lengths_rows(struct luo_run *run, luo_err *err);
/* A step of the plans has ended well after so many seconds. Unless a device was slow that nobody
 * knows of, it shows what its order of the devices is worth, and where plans are not simulated what
 * its plan costs beyond the pool. */
void luo_run_lengths_learn(struct luo_run *run, const luo_step_result *result, double seconds);
/* luo_snapshot.plan_lengths. */
luo_status luo_run_lengths_again(void *run, const luo_plan **frame, luo_err *err);
void luo_run_lengths_free(luo_run_lengths *lengths);
#endif
