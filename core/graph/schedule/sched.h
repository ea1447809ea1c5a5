/* sched.h: the order of forward and backward tasks on a stage. */
#ifndef LUO_CORE_GRAPH_SCHEDULE_SCHED_H
#define LUO_CORE_GRAPH_SCHEDULE_SCHED_H
#include <stdbool.h>
#include <stdint.h>

#include "core/base/arena.h"
#include "core/base/err.h"

typedef enum luo_sched_kind {
#define LUO_SCHED(kind, ...) LUO_SCHED_##kind,
#include "core/graph/schedule/schedules.inc"
#undef LUO_SCHED
    LUO_SCHEDS
} luo_sched_kind;

typedef enum luo_task_phase {
    LUO_TASK_F,
    LUO_TASK_B,  /* whole backward */
    LUO_TASK_BI, /* input gradients: what the stage before waits for */
    LUO_TASK_BW  /* weight gradients: nobody waits for them but the optimizer */
} luo_task_phase;

typedef struct luo_task {
    luo_task_phase phase;
    int32_t micro_batch, chunk;
} luo_task;
/* Does the schedule cut each backward into BI and BW? */
bool luo_sched_splits(luo_sched_kind kind);
/* May a stage hold several parts (chunks) of the layers? */
bool luo_sched_takes_chunks(luo_sched_kind kind);
/* Tasks of one micro-batch in one chunk. */
static inline int32_t luo_sched_phases(luo_sched_kind kind)
{
    return luo_sched_splits(kind) ? 3 : 2;
}

/* Fails like luo_sched_make does: S, m, v at least 1, v = 1 unless interleaved, m a multiple of S
 * if interleaved. */
luo_status luo_sched_check(luo_sched_kind kind, int32_t S, int32_t m, int32_t v, luo_err *err);
/* Tasks of stage s of S with m micro-batches and v chunks (v = 1 unless interleaved): 2*m*v tasks,
 * 3*m with split backward. zb_h1: F and BI as F and B of 1F1B; BW of micro-batch k right behind BI
 * of micro-batch k + s, the rest at the end. With equal stages, F = BI = BW and m >= S the bubble
 * is (S-1)*(F + BI - BW), a third of 1F1B's. zb_h2: twice as many F before the first BI, and BW of
 * micro-batch k behind BI of k + 2s: stage s begins and ends s*F after stage 0, so that the step
 * alone takes as long as under zb_h1, but steps without a barrier between them, F = BI = BW and
 * m >= 2S-1 have no bubble.
 * Errors: LUO_EINPUT `interleaved schedule: 5 micro-batches are not a multiple of 3 stages`. */
luo_status luo_sched_make(luo_arena *arena, luo_sched_kind kind, int32_t S, int32_t s, int32_t m,
                          int32_t v, const luo_task **tasks, int32_t *n, luo_err *err);
/* Largest number of chunk activations alive on stage s at once: from F to B or BI, whole. */
int32_t luo_sched_kept(luo_sched_kind kind, int32_t S, int32_t s, int32_t m, int32_t v);
/* Micro-batches whose BI is done and whose BW is not, at most, when a BI begins; 0 if the backward
 * is whole. What stays alive of them is what weight gradients read: inputs of products and of the
 * embedding, and gradients of their outputs. With those of luo_sched_kept S at most, as many as
 * stage 0 of 1F1B keeps; zb_h2: 2S-1. */
int32_t luo_sched_waiting(luo_sched_kind kind, int32_t s, int32_t m);
/* "1f1b"; "?" out of range. */
const char *luo_sched_name(luo_sched_kind kind);
luo_status luo_sched_parse(const char *name, luo_sched_kind *out, luo_err *err);

/* Event simulation of one pipeline (docs/cost-model.md#pipelines;
 * docs/architecture/schedules.md#orders): forward[s*v + c], backward[..] seconds of stage s, chunk
 * c; weight[..]: those of BW, backward is BI then (NULL: 0; not read if the backward is whole);
 * transfer[k]: seconds between stage k and k+1 (interleaved: S links, the last joins stage S-1 to
 * stage 0; NULL: free), FIFO per direction; blocking: the sender's stage is busy until its transfer
 * ends. Out: *makespan, latest finish. Cost: O(S*m*v). */
luo_status luo_sched_makespan(luo_arena *scratch, luo_sched_kind kind, int32_t S, int32_t m,
                              int32_t v, const double *forward, const double *backward,
                              const double *weight, const double *transfer, bool blocking,
                              double *makespan, luo_err *err);
/* A task on its stage: given when the stage was done with the one before (`free`) and when it may
 * begin (`start`, its input is there); made: when its result goes on (`end`) and when the stage is
 * done with it (`free`), and `start` anew where it began later. */
typedef struct luo_turn {
    double free, start, end;
} luo_turn;
typedef void (*luo_turn_fn)(void *ctx, int32_t s, const luo_task *t, luo_turn *x);
typedef struct luo_course {
    luo_sched_kind kind;
    int32_t S, m, v;
    const double *transfer; /* as above */
    const double *back;     /* the same of backward; NULL: as forward */
    bool blocking;
    luo_turn_fn turn; /* called for every task, those of a stage in their order */
    void *ctx;
    double *last; /* [c*S + s]: when the last B or BW of the chunk begins; NULL: not wanted */
} luo_course;
/* The same where a task may wait for something within. */
luo_status luo_sched_course(luo_arena *scratch, const luo_course *course, double *makespan,
                            luo_err *err);
/* The same with times that differ per micro-batch i: forward[(s*v + c)*m + i], the others too.
 * last: not NULL: last[c*S + s] becomes the start of the last B or BW of chunk c on stage s. */
luo_status luo_sched_makespan_each(luo_arena *scratch, luo_sched_kind kind, int32_t S, int32_t m,
                                   int32_t v, const double *forward, const double *backward,
                                   const double *weight, const double *transfer, bool blocking,
                                   double *makespan, double *last, luo_err *err);
#endif
