/* beside.h: computation that is slowed by calls between pipelines beside it.
 *
 * Classes run ahead of SimGrid's clock, so the calls beside a kernel are not known when it begins.
 * So the first step of a world has a forerun: without losses, trace, noise, dated changes and rings
 * step by step. A kernel then lasts longer by loss times the seconds that it had calls beside it
 * there, in this and all later steps of that world. That is first order: how slow kernels move
 * calls is left out (tests/backend/sim_beside.c has by how much). */
#ifndef LUO_SIM_STEP_BESIDE_H
#define LUO_SIM_STEP_BESIDE_H
#include "sim/step/step.h"

typedef struct sim_span {
    double start, end;
} sim_span;

typedef struct sim_loud { /* a call */
    double start, end, loss;
} sim_loud;

struct sim_beside { /* of a class */
    bool on;         /* it has calls that slow computation */
    int32_t tail;    /* calls of Post may be under way from this task on */
    int32_t npaces, *pace_of; /* as in the forerun */
    double **factor; /* per round and task: NULL, or per instruction and pace, seconds needed per
                        second of work; NULL: not known */
    int32_t *pace;   /* of the forerun, per pace of the step at hand */
    /* in a forerun */
    sim_span **span; /* as factor */
    sim_loud *calls;
    int32_t ncalls, open; /* open: calls that are issued and not done */
    double until;         /* end of the last that is done */
};

luo_status sim_beside_init(luo_arena *arena, sim_step *step);
/* Is the world another than that of the last forerun? Then it is that from now on. */
bool sim_beside_is_new(sim_step *step, const luo_world *world);
/* Before each step, when the paces are known. */
luo_status sim_beside_begin(luo_rank *rank);
/* After a forerun; one that failed slows nothing. any: something is slowed. */
luo_status sim_beside_find(sim_step *step, bool *any);

/* Seconds that a kernel needs for each second of work. */
double sim_beside_factor(const luo_rank *rank, int32_t pace, int32_t task, const luo_instr *in);
/* In a forerun: a kernel, and calls. */
luo_status sim_beside_kernel(luo_rank *rank, int32_t pace, int32_t task, const luo_instr *in,
                             double start, double end);
void sim_beside_issued(luo_rank *rank, const sim_op *op);
luo_status sim_beside_called(luo_rank *rank, const sim_op *op, double start, double end);
#endif
