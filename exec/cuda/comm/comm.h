/* comm.h: NCCL: communicators made once and kept, communications enqueued, and what
 * watches them.
 *
 * Which communicator an instruction uses, and why their order cannot block: comm_plan.h.
 *
 * All of them are non-blocking: no call of NCCL keeps this process, so that another thread can
 * abort them at any moment. A call here returns when what it asked for stands in the stream (or in
 * the graph that is captured: the same on all ranks of a communicator, and in ThreadLocal mode,
 * since NCCL launches from a thread of its own). A graph holds the communicators that were captured
 * in it: destroy it before gpu_comms_close, also after an abort, since NCCL waits for that.
 *
 *   comm_plan.c   which, who, in which order (pure)
 *   comm_open.c   facts of all ranks, environment, the root
 *   comm_bind.c   cache, ncclCommSplit
 *   comm_connect.c   connections of those who exchange messages
 *   comm.c        what can go wrong: polls, aborts, the end
 *   comm_calls.c  collectives and exchanges
 *   exec/cuda/watch.c   who looks whether it all goes on
 */
#ifndef LUO_EXEC_CUDA_COMM_COMM_H
#define LUO_EXEC_CUDA_COMM_COMM_H
#include "exec/bind/bound.h"
#include "exec/cuda/gpu.h"

typedef struct gpu_comms gpu_comms; /* of an executor */
typedef struct gpu_comm gpu_comm;   /* one communicator */

/* Ranks tell each other their facts over MPI: NCCL versions that differ are an error; differing GPU
 * types, drivers and libraries are a warning. Ranks that share a GPU get an NCCL_HOSTID of their
 * own; unless the user has set them, NCCL_LAUNCH_ORDER_IMPLICIT becomes 1 where kernels may overlap
 * all the same (NCCL 2.26, CUDA 12.3), NCCL_GRAPH_MIXING_SUPPORT and NCCL_GRAPH_REGISTER 0; where
 * calls run beside tasks (config.calls_beside) NCCL_RUNTIME_CONNECT 0 instead of the first. A root
 * communicator of all ranks is made: others are split off it. Pre: one thread calls all but
 * gpu_comms_broken and gpu_comms_abort. config outlives it. Errors: LUO_EBACKEND, LUO_EPEER,
 * LUO_ETIMEOUT, LUO_ENOMEM. Collective. Owner: gpu_comms_close. */
luo_status gpu_comms_open(const luo_rank_config *config, const gpu_facts *mine, gpu_comms **out,
                          luo_err *err);
/* Collective unless they were aborted. NULL is fine. Aborts that do not end in time are left. */
void gpu_comms_close(gpu_comms *comms);
/* What ranks should know before they start ("2 types of GPU: .."), no full stop; "": nothing. */
const char *gpu_comms_warning(const gpu_comms *comms);

/* Makes the communicators that a set of programs (of steps or of a switch) needs and does not find
 * in the cache, by ncclCommSplit of the root or, where that is not possible, by a unique id through
 * MPI. Collective over all ranks. Groups that do not overlap are made by one split. Devices that
 * exchange messages exchange a byte, so that they are connected before a step.
 * Errors: LUO_EBACKEND a device without a rank, or NCCL's; LUO_EPEER; LUO_ETIMEOUT; LUO_EUNSUP as
 * gpu_comm_plan_make; LUO_ENOMEM. All ranks fail alike. */
luo_status gpu_comms_bind(gpu_comms *comms, const luo_programs *set, luo_err *err);
/* The communicator of an instruction of this rank's program. NULL: a group of one, or
 * gpu_comms_bind was not called for the set. */
gpu_comm *gpu_comms_find(gpu_comms *comms, const luo_programs *set, const luo_program *program,
                         const luo_instr *instr);
/* A communicator of these devices (ascending ranks) outside of any program, for measuring; cached
 * like the others. Collective over all ranks; *out NULL: a group of one, or this rank is not in it.
 */
luo_status gpu_comms_make(gpu_comms *comms, int32_t stream, int32_t n, const int32_t *dev,
                          gpu_comm **out, luo_err *err);
/* Whether steps with communication may be captured as CUDA graphs; the same answer on all ranks.
 * Errors: LUO_EUNSUP a driver under which NCCL makes the captured communications end in the order
 * of issue (before CUDA 12.9), which programs cannot bear; an NCCL that orders nothing. */
luo_status gpu_comms_captures(const gpu_comms *comms, luo_err *err);
int32_t gpu_comms_count(const gpu_comms *comms); /* made so far, this rank's; without the root */

/* Enqueue on `stream`; types by elem_bytes (2: bf16, 4: f32, 1: bytes, for all but sums). Counts in
 * elements; a part of 0 is not sent. comm NULL: a group of one; the operand is copied where the
 * result is wanted. v-variants (counts that differ) are grouped sends and receives, reductions of
 * them followed by sums in rank order. Pre: operand and result are the same (all-reduce), or the
 * operand lies in its place in the result (all-gather), or they do not overlap. Errors: LUO_EPEER a
 * communicator was aborted or a peer is gone; LUO_EBACKEND; LUO_EBUG a peer outside of comm, a type
 * that NCCL has not. */
luo_status gpu_all_reduce(gpu_comm *comm, const void *from, void *to, int64_t n, int64_t elem_bytes,
                          luo_reduce how, cudaStream_t stream, luo_err *err);
/* counts: per rank of the group; from holds all of them packed. work: for uneven counts,
 * (ranks) * counts[own] elements, apart from the others; NULL if even. */
luo_status gpu_reduce_scatter(gpu_comm *comm, const void *from, void *to, const int64_t *counts,
                              int64_t elem_bytes, luo_reduce how, void *work, cudaStream_t stream,
                              luo_err *err);
luo_status gpu_all_gather(gpu_comm *comm, const void *from, void *to, const int64_t *counts,
                          int64_t elem_bytes, cudaStream_t stream, luo_err *err);
/* The same in another way: a broadcast of every part, a reduce of every part, in one group. Sums
 * are NCCL's. */
luo_status gpu_broadcasts(gpu_comm *comm, const void *from, void *to, const int64_t *counts,
                          int64_t elem_bytes, cudaStream_t stream, luo_err *err);
luo_status gpu_reduces(gpu_comm *comm, const void *from, void *to, const int64_t *counts,
                       int64_t elem_bytes, luo_reduce how, cudaStream_t stream, luo_err *err);
typedef struct gpu_message {
    int32_t device; /* peer */
    bool send;
    void *at;
    int64_t n; /* elements */
} gpu_message;
/* One group: all of them proceed together. A message of no elements is not sent. */
luo_status gpu_exchange(gpu_comm *comm, int32_t n, const gpu_message *message, int64_t elem_bytes,
                        cudaStream_t stream, luo_err *err);

/* ---- watching: exec/cuda/watch.c ---- */

/* A state machine without time or libraries of its own, fed by a thread (gpu_watch_start) or a
 * test. It wants to see progress; after `limit_s` without any, or when a communicator reports an
 * error, it says once what to do. */
typedef enum gpu_watch_verdict {
    GPU_WATCH_GOES_ON,
    GPU_WATCH_STUCK,
    GPU_WATCH_BROKEN
} gpu_watch_verdict;
typedef struct gpu_watch {
    double limit_s;            /* INFINITY: never stuck */
    bool armed;                /* a step or a switch is under way */
    int64_t seen;              /* progress as last seen */
    double since_s;            /* .. and since when */
    gpu_watch_verdict verdict; /* stays until the next arming */
    char text[LUO_ERR_TEXT];
} gpu_watch;
void gpu_watch_arm(gpu_watch *watch, double now_s, double limit_s);
void gpu_watch_disarm(gpu_watch *watch);
/* progress: any number that changes as long as something goes on. broken: text of an asynchronous
 * error of a communicator; NULL: none. The verdict is reported at the call that reaches it. */
gpu_watch_verdict gpu_watch_look(gpu_watch *watch, double now_s, int64_t progress,
                                 const char *broken);

/* What the thread asks and does; tests give a fake one. */
typedef struct gpu_watched {
    void *ctx;
    int64_t (*progress)(void *ctx);
    const char *(*broken)(void *ctx);                  /* ncclCommGetAsyncError of all, in words */
    void (*describe)(void *ctx, char *text, size_t n); /* who waits for whom in what */
    void (*abort)(void *ctx);                          /* ncclCommAbort of all */
} gpu_watched;
typedef struct gpu_watcher gpu_watcher; /* the thread */
luo_status gpu_watcher_start(const gpu_watched *what, gpu_watcher **out, luo_err *err);
void gpu_watcher_arm(gpu_watcher *watcher, double limit_s);
/* LUO_OK, LUO_ESTUCK or LUO_EPEER with the sentence, after which all communicators are aborted. */
luo_status gpu_watcher_disarm(gpu_watcher *watcher, luo_err *err);
void gpu_watcher_stop(gpu_watcher *watcher);
/* For gpu_watched of a gpu_comms; of any thread. broken: text lives until the next call. abort:
 * NCCL's kernels end soon after; calls of this rank fail from then on. It does not wait for that.
 */
const char *gpu_comms_broken(gpu_comms *comms);
void gpu_comms_abort(gpu_comms *comms);
#endif
