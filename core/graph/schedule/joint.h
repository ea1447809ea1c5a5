/* joint.h: the order of tasks where pipelines share devices: micro-batches of a lost
 * stage run on those of the same stage of other pipelines (ReCycle, arXiv 2405.14009, section 4).
 *
 * A list schedule by event simulation. Work of a stage is one task after another; messages take
 * no time. A stage that is free takes a forward part that is there and for which there is room,
 * else a backward part that is there, else, where backward parts are split as in ReCycle, the
 * weight gradients of the micro-batch that has waited longest; of each the one that came first. So
 * what arrives in some order is received in that order on every device, which is the order in
 * which it was sent: no circle of waits can arise, whatever the tasks really take. (Backward first
 * is up to a fifth slower on small cases. ReCycle solves for the best order.)
 *
 * Steps are scheduled one by one. With a staggered optimizer a station goes on to its next step by
 * itself, in the same order; orders that were made of several steps in a row were no shorter. */
#ifndef LUO_CORE_GRAPH_SCHEDULE_JOINT_H
#define LUO_CORE_GRAPH_SCHEDULE_JOINT_H
#include <stdbool.h>
#include <stdint.h>

#include "core/base/arena.h"
#include "core/base/err.h"
#include "core/graph/schedule/sched.h"

typedef struct luo_joint_batch { /* a micro-batch of any pipeline */
    int32_t nstages;
    const int32_t *station; /* by stage: the devices that run it there */
    /* by stage: what they take, in any unit; at least 0. Split: backward is that of input
     * gradients */
    const int64_t *forward, *backward, *weight;
} luo_joint_batch;

typedef struct luo_joint {
    int32_t nbatches, nstations;
    bool split; /* weight gradients are tasks of their own */
    const luo_joint_batch *batch; /* in the order in which first stages take them */
    const int32_t *kept;          /* by station: micro-batches whose forward part has run and whose
                                     backward part has not, at most; at least 1 */
    const int32_t *waiting;       /* split, by station: micro-batches whose weight gradients are all
                                     that is left, at most, when another part begins */
} luo_joint;

typedef struct luo_joint_task {
    int32_t batch;
    luo_task_phase phase;
} luo_joint_task;

typedef struct luo_joint_order { /* of a station */
    int32_t n;
    luo_joint_task *task;
} luo_joint_order;

/* Tasks of every station in order, and when the last one ends. Every micro-batch visits a station
 * at most once.
 * Always finishes: a last stage needs no room beyond its own, and what is in flight on a stage goes
 * on when the stages behind it are empty.
 * Errors: LUO_ENOMEM. Owner: arena. Cost: O(tasks * (log tasks + stations)).
 * See: tests/prop/prop_joint.c, which tries every order on small cases. */
luo_status luo_joint_schedule(luo_arena *arena, const luo_joint *in, luo_joint_order **out,
                              int64_t *makespan, luo_err *err);
#endif
