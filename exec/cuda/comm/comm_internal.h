/* comm_internal.h: what the files of comm.h share. Not for others. */
#ifndef LUO_EXEC_CUDA_COMM_COMM_INTERNAL_H
#define LUO_EXEC_CUDA_COMM_COMM_INTERNAL_H
#include <mpi.h>
#include <nccl.h>
#include <pthread.h>

#include "exec/cuda/comm/comm.h"
#include "exec/cuda/comm/comm_plan.h"

/* Seconds in which a communicator has to be made or ended; NCCL itself gives up on a peer that does
 * not come only after minutes. */
enum { GPU_COMM_PATIENCE_S = 120, GPU_COMM_END_S = 20, GPU_COMM_ABORT_S = 10 };

/* Kernels of NCCL wait on the GPU for their peers. All that may wait at once have to fit beside
 * each other: four lanes of the pipeline and two with collectives. So the blocks of each are
 * limited. */
enum {
    GPU_MESSAGE_BLOCKS = 8,
    GPU_GROUP_BLOCKS = 32,
    GPU_PIPELINE_LANES = 4,
    GPU_GROUP_LANES = 1 + LUO_DP_LANES /* of tensor groups, and between replicas */
};

struct gpu_comm {
    gpu_comms *of;
    gpu_comm_spec spec; /* a copy: the book may grow; its devices stay where they are */
    int32_t rank;
    ncclComm_t nccl; /* NULL: not made yet, or aborted */
    /* Per peer, twice: for messages sent to it, for those it sends. */
    enum gpu_link { GPU_LINK_NONE, GPU_LINK_WANTED, GPU_LINK_MADE } * link;
};

struct gpu_comms {
    luo_arena *arena;
    const luo_rank_config *config;
    int32_t device;
    gpu_facts *facts; /* per rank */
    MPI_Comm mpi;
    int32_t message_blocks, group_blocks;
    bool failed; /* not all of the book could be made */
    bool splits; /* by ncclCommSplit, not by unique ids */
    gpu_comm_book book;
    gpu_comm **of;    /* per entry of the book; NULL: this rank is not in it */
    int32_t cap;      /* of this and of the two lists below; one place more for the root */
    luo_arena *plans; /* of plan */
    gpu_comm_plan plan;
    uint64_t planned; /* hash of its programs */
    char warning[LUO_ERR_TEXT];

    pthread_mutex_t
        lock;        /* of all below, and of every call of NCCL: none may run beside an abort */
    ncclComm_t root; /* NULL: one rank alone */
    gpu_comm **made; /* this rank's, in the order of their making */
    int32_t nmade;
    bool aborted;
    struct gpu_victim { /* aborted by a thread of its own, or by gpu_comms_close */
        ncclComm_t comm;
        pthread_t thread;
        bool begun;
    } * victim; /* root last */
    int32_t nvictims;
    char broken[256];
};

/* ---- comm.c ---- */

/* LUO_OK for ncclSuccess and ncclInProgress; else a sentence. */
luo_status gpu_nccl(luo_err *err, ncclResult_t code, const char *what);
/* Of two calls the first error. */
static inline ncclResult_t gpu_nccl_both(ncclResult_t a, ncclResult_t b)
{
    return a == ncclSuccess || a == ncclInProgress ? b : a;
}
/* Until *comm has done what it was asked for. Not under the lock. Errors: LUO_EPEER aborted;
 * LUO_ETIMEOUT after limit_s; those of gpu_nccl. */
luo_status gpu_comm_settle(gpu_comms *comms, const ncclComm_t *comm, double limit_s,
                           const char *what, luo_err *err);
/* Locks for calls of NCCL. Errors: LUO_EPEER aborted; it is not locked then. */
luo_status gpu_comms_lock(gpu_comms *comms, luo_err *err);
void gpu_comms_unlock(gpu_comms *comms);
luo_status gpu_comms_mpi(luo_err *err, int code, const char *what);
/* Collective: LUO_OK if all bring LUO_OK; mine; LUO_ECANCELED if another rank brings an error. */
luo_status gpu_comms_agree(gpu_comms *comms, luo_status mine, luo_err *err);

/* ---- comm_bind.c ---- */

/* This rank's communicator for position `at` of comms->plan; NULL: none. */
gpu_comm *gpu_comms_planned(const gpu_comms *comms, int32_t at);

/* ---- comm_connect.c ---- */

/* NCCL connects two ranks at the first message between them and keeps both hosts until then, and
 * hosts that wait for each other in the middle of a step may do so for ever. So every pair that
 * exchanges messages in the programs of plan exchanges a byte first. Collective. */
luo_status gpu_comms_connect(gpu_comms *comms, luo_err *err);

/* ---- comm_open.c ---- */

/* What communicators are made with. */
ncclConfig_t gpu_comms_config(int32_t blocks);
#endif
