/* comm_plan.h: which communicators a set of programs needs, who is in each, and in which
 * rounds all ranks make them. Pure: no NCCL, no MPI, no GPU; every rank works out the same.
 *
 * Rules of NCCL that it answers to:
 *  - What is issued on one communicator runs in the order of issue, whatever the stream. So all
 *    instructions that one device has on one communicator belong to one lane, whose stream has that
 *    order anyway: nothing waits that would not wait without NCCL. Only the lanes of stream dp
 *    share communicators: a call in another lane than the one before it of its group waits for
 *    that. Forward and backward, sends and receives of the pipeline are lanes of their own; a
 *    device in the middle of a pipeline receives on one communicator and sends on another, and a
 *    receive posted early holds up no send.
 *  - The k-th send from a to b on a communicator is received by the k-th receive of b from a.
 *    luo_program_check lets messages meet only at the heads of their two lanes, so between two
 *    devices the sends of a lane and the receives of its peer lane are the same list in the same
 *    order. The exchange that a message belongs to need not be part of the key.
 *  - Kernels of several communicators must be able to run side by side or begin in an order that
 *    fits on all ranks. All that can be under way on a device fit onto it (limit_blocks), so with
 *    one stream per lane every program set finishes that luo_program_check has passed. It does so
 *    too with the order of issue as the order in which kernels begin (NCCL_LAUNCH_ORDER_IMPLICIT),
 *    which captured steps need, but not if calls run beside tasks: what is issued behind one would
 *    wait for the call before it. tests/cuda/check_comm_plan.c runs them so.
 */
#ifndef LUO_EXEC_CUDA_COMM_COMM_PLAN_H
#define LUO_EXEC_CUDA_COMM_COMM_PLAN_H
#include "core/graph/program/program.h"

typedef enum gpu_comm_kind { GPU_COMM_GROUP, GPU_COMM_MESSAGES } gpu_comm_kind;

typedef struct gpu_comm_spec { /* the key of a communicator */
    gpu_comm_kind kind;
    /* GROUP: the stream of the group. MESSAGES: the lane of those who send. */
    int32_t lane;
    int32_t nsenders; /* MESSAGES of pp: the first of dev send, the rest receive; else n */
    int32_t n;
    const int32_t *dev; /* a device's rank in the communicator is its position */
    uint64_t hash;      /* of all of the above */
} gpu_comm_spec;

bool gpu_comm_spec_same(const gpu_comm_spec *a, const gpu_comm_spec *b);
void gpu_comm_spec_seal(gpu_comm_spec *spec); /* sets the hash */
/* Rank of a device in the communicator; -1: it is not in it. Cost: O(n). */
int32_t gpu_comm_spec_rank(const gpu_comm_spec *spec, int32_t device);

typedef struct gpu_comm_plan { /* of one set of programs */
    const luo_programs *set;
    int32_t n;
    const gpu_comm_spec *at;
    const int32_t *of_group; /* per group of the set: position in `at`; -1: a group of one */
    const int32_t *of_end;   /* per (device of the set * LUO_LANES + lane): the same for messages */
} gpu_comm_plan;

/* Groups in their order, then for every lane that sends the sets of devices that messages connect,
 * by their smallest sender.
 * Errors: LUO_EINPUT a message to a device without a program; LUO_EUNSUP a device that sends and
 * receives in one such set of the pipeline, which no schedule makes; LUO_ENOMEM.
 * Owner: arena. Cost: O(slots of all devices + devices * lanes). */
luo_status gpu_comm_plan_make(luo_arena *arena, const luo_programs *set, gpu_comm_plan *out,
                              luo_err *err);
/* The communicator of an instruction of a program of the set: position in plan->at; -1: it needs
 * none. */
int32_t gpu_comm_plan_find(const gpu_comm_plan *plan, const luo_program *program,
                           const luo_instr *instr);

/* All communicators made so far, of any plan: the same list on all ranks. {.arena} is an empty one.
 * Plans that come back find theirs. */
typedef struct gpu_comm_book {
    luo_arena *arena;
    int32_t n, cap;
    gpu_comm_spec *at;
} gpu_comm_book;
int32_t gpu_comm_book_find(const gpu_comm_book *book, const gpu_comm_spec *spec); /* -1: none */
/* Appends those of specs[0..n) that it lacks, in their order. Errors: LUO_ENOMEM; the book is then
 * as before. */
luo_status gpu_comm_book_add(gpu_comm_book *book, int32_t n, const gpu_comm_spec *specs,
                             luo_err *err);

/* Rounds in which specs[0..n) can be made: no device is in two of a round, and each comes as early
 * as those before it allow. round[i] of n; returns the number of rounds, -1: out of memory. */
int32_t gpu_comm_rounds(luo_arena *scratch, int32_t n, const gpu_comm_spec *specs, int32_t *round);
#endif
