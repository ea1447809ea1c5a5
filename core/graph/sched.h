/* core/graph/sched.h: the order of forward and backward tasks on a stage (section 12). */
#ifndef LUO_CORE_GRAPH_SCHED_H
#define LUO_CORE_GRAPH_SCHED_H
#include <stdbool.h>
#include <stdint.h>

#include "core/base/arena.h"
#include "core/base/err.h"

typedef enum luo_sched_kind {
    LUO_SCHED_GPIPE,
    LUO_SCHED_1F1B,
    LUO_SCHED_INTERLEAVED
} luo_sched_kind;

typedef struct luo_task {
    bool backward;
    int32_t micro_batch, chunk;
} luo_task;

/* Fails like luo_sched_make does: S, m, v at least 1, v = 1 unless interleaved, m a multiple of S
 * if interleaved. */
luo_status luo_sched_check(luo_sched_kind kind, int32_t S, int32_t m, int32_t v, luo_err *err);
/* Tasks of stage s of S with m micro-batches and v chunks (v = 1 unless interleaved): 2*m*v tasks.
 * Errors: LUO_EINPUT `interleaved schedule: 5 micro-batches are not a multiple of 3 stages`. */
luo_status luo_sched_make(luo_arena *arena, luo_sched_kind kind, int32_t S, int32_t s, int32_t m,
                          int32_t v, const luo_task **tasks, int32_t *n, luo_err *err);
/* Largest number of chunk activations alive on stage s at once. */
int32_t luo_sched_kept(luo_sched_kind kind, int32_t S, int32_t s, int32_t m, int32_t v);
/* "gpipe" "1f1b" "interleaved_1f1b". */
const char *luo_sched_name(luo_sched_kind kind);
luo_status luo_sched_parse(const char *name, luo_sched_kind *out, luo_err *err);

/* Event simulation of one pipeline (accuracy.md 7; Malleus 6.1): forward[s*v + c], backward[..]
 * seconds of stage s, chunk c; transfer[k]: seconds between stage k and k+1 (interleaved: S links,
 * the last joins stage S-1 to stage 0; NULL: free), FIFO per direction; blocking: the sender's
 * stage is busy until its transfer ends. Out: *makespan, latest finish. Cost: O(S*m*v). */
luo_status luo_sched_makespan(luo_arena *scratch, luo_sched_kind kind, int32_t S, int32_t m,
                              int32_t v, const double *forward, const double *backward,
                              const double *transfer, bool blocking, double *makespan,
                              luo_err *err);
/* A task on its stage: given when the stage was done with the one before (`free`) and when it may
 * begin (`start`, its input is there); made: when its result goes on (`end`) and when the stage is
 * done with it (`free`). */
typedef struct luo_turn {
    double free, start, end;
} luo_turn;
typedef void (*luo_turn_fn)(void *ctx, int32_t s, const luo_task *t, luo_turn *x);
typedef struct luo_course {
    luo_sched_kind kind;
    int32_t S, m, v;
    const double *transfer; /* as above */
    bool blocking;
    luo_turn_fn turn; /* called for every task, those of a stage in their order */
    void *ctx;
    double *last; /* [c*S + s]: when the last backward of the chunk begins; NULL: not wanted */
} luo_course;
/* The same where a task may wait for something within. */
luo_status luo_sched_course(luo_arena *scratch, const luo_course *x, double *makespan,
                            luo_err *err);
/* The same with times that differ per micro-batch i: forward[(s*v + c)*m + i], backward too.
 * last: not NULL: last[c*S + s] becomes the start of the last backward of chunk c on stage s. */
luo_status luo_sched_makespan_each(luo_arena *scratch, luo_sched_kind kind, int32_t S, int32_t m,
                                   int32_t v, const double *forward, const double *backward,
                                   const double *transfer, bool blocking, double *makespan,
                                   double *last, luo_err *err);
#endif
