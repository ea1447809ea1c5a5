/* exec/cuda/comm.h: NCCL: communicators made once and kept, communications enqueued, and what
 * watches them.
 *
 * Which communicator. A collective: that of its group, by (stream, ordered devices). Messages: one
 * per (lane direction, senders then receivers in order) of their exchange, since NCCL runs what is
 * issued on one communicator in order, and a receive posted early must not stand before a send that
 * it needs (ARCHITECTURE.md, lanes of pp). All members derive the same list in the same order from
 * the program set. */
#ifndef LUO_EXEC_CUDA_COMM_H
#define LUO_EXEC_CUDA_COMM_H
#include "exec/bound.h"
#include "exec/cuda/gpu.h"

typedef struct gpu_comms gpu_comms; /* of an executor */
typedef struct gpu_comm gpu_comm;   /* one communicator */

/* Ranks tell each other their facts over MPI: differing NCCL or driver versions, GPU types and
 * compute capabilities are reported (mixed GPU types are allowed: one line on stderr's log through
 * *warning, NULL: none); NCCL versions that differ are an error. Ranks that share a GPU get an
 * NCCL_HOSTID of their own. A root communicator of all ranks is made: others are split off it.
 * Errors: LUO_EBACKEND. Collective. Owner: gpu_comms_close. */
luo_status gpu_comms_open(const luo_rank_config *config, const gpu_facts *mine, gpu_comms **out,
                          luo_err *err);
void gpu_comms_close(gpu_comms *c); /* aborts what an error has left */
/* What ranks should know before they start ("2 GPU types: ..."); "" if nothing. */
const char *gpu_comms_warning(const gpu_comms *c);

/* Makes the communicators that a set of programs (of steps or of a switch) needs and does not find
 * in the cache, by ncclCommSplit of the root or, where that is not possible, by a unique id through
 * MPI. Non-blocking, polled. Collective over all ranks, in the order of the set.
 * Errors: LUO_EBACKEND, LUO_ETIMEOUT, LUO_ENOMEM. */
luo_status gpu_comms_bind(gpu_comms *c, const luo_programs *set, luo_err *err);
/* The communicator of an instruction of this rank's program. NULL: a group of one. */
gpu_comm *gpu_comms_find(const gpu_comms *c, const luo_programs *set, const luo_program *program,
                         const luo_instr *instr);
int32_t gpu_comms_count(const gpu_comms *c); /* made so far, this rank's */

/* Enqueue on `stream`; types by elem_bytes (2: bf16, 4: f32, 1: bytes). Counts in elements.
 * v-variants (counts that differ) are grouped sends and receives, reductions of them followed by
 * sums in rank order. Errors: LUO_EPEER a communicator was aborted; LUO_EBACKEND. */
luo_status gpu_all_reduce(gpu_comm *g, const void *from, void *to, int64_t n, int64_t elem_bytes,
                          luo_reduce how, cudaStream_t stream, luo_err *err);
/* counts: per rank of the group; from holds all of them packed. work: for uneven counts,
 * (ranks) * counts[own] elements; NULL if even. */
luo_status gpu_reduce_scatter(gpu_comm *g, const void *from, void *to, const int64_t *counts,
                              int64_t elem_bytes, luo_reduce how, void *work, cudaStream_t stream,
                              luo_err *err);
luo_status gpu_all_gather(gpu_comm *g, const void *from, void *to, const int64_t *counts,
                          int64_t elem_bytes, cudaStream_t stream, luo_err *err);
typedef struct gpu_message {
    int32_t device; /* peer */
    bool send;
    void *at;
    int64_t n; /* elements */
} gpu_message;
/* One group: all of them proceed together. */
luo_status gpu_exchange(gpu_comm *g, int32_t n, const gpu_message *message, int64_t elem_bytes,
                        cudaStream_t stream, luo_err *err);

/* ---- watching: watch.c ---- */

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
void gpu_watch_arm(gpu_watch *w, double now_s, double limit_s);
void gpu_watch_disarm(gpu_watch *w);
/* progress: any number that changes as long as something goes on. broken: text of an asynchronous
 * error of a communicator; NULL: none. The verdict is reported at the call that reaches it. */
gpu_watch_verdict gpu_watch_look(gpu_watch *w, double now_s, int64_t progress, const char *broken);

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
void gpu_watcher_arm(gpu_watcher *w, double limit_s);
/* LUO_OK, LUO_ESTUCK or LUO_EPEER with the sentence, after which all communicators are aborted. */
luo_status gpu_watcher_disarm(gpu_watcher *w, luo_err *err);
void gpu_watcher_stop(gpu_watcher *w);
/* For gpu_watched of a gpu_comms. */
const char *gpu_comms_broken(gpu_comms *c);
void gpu_comms_abort(gpu_comms *c);
#endif
