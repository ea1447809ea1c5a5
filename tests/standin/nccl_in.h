/* nccl_in.h: NCCL over MPI, as its files share it: nccl.c and nccl_call.c
 * (the API), nccl_meet.c
 * (ranks that find each other), nccl_op.c (operations in streams), nccl_move.c (what they send).
 *
 * What a real NCCL makes of a mistake is often a hang, or numbers that are wrong now and then. Here
 * a mistake ends the process with a sentence:
 *  - members of a communicator that call different things (kind, count, type, reduction), or of
 * which one runs a captured operation and another one does not;
 *  - captured and other operations of a communicator under way at once although
 *    NCCL_GRAPH_MIXING_SUPPORT is 0;
 *  - a communicator that is destroyed, or whose abort is waited for, while a graph holds it;
 *  - one that is used after its end, or destroyed with operations under way;
 *  - memory that is not the device's; operands that overlap results other than NCCL allows.
 * Kept are: operations of a communicator follow each other in order of issue whatever their
 * streams; a send ends when its receive has begun; under NCCL_LAUNCH_ORDER_IMPLICIT=1 an operation
 * begins after those issued before it on any communicator; non-blocking communicators are busy for
 * a while after each call, and what was called stands in the stream only after that. */
#ifndef LUO_STANDIN_NCCL_IN_H
#define LUO_STANDIN_NCCL_IN_H
#include <mpi.h>
#include <pthread.h>

#include "nccl.h"
#include "ops.h"
#include "standin_nccl.h"

_Noreturn void nccl_die(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* MPI from this thread? Dies if it is not the one that MPI allows. */
void nccl_mpi_thread(void);
int nccl_tag(uint64_t number);                      /* of MPI, from any number */
bool nccl_set(const char *name, const char *value); /* of the environment */

/* ---- nccl_meet.c: members of a communicator tell each other a few bytes through a leader ---- */

typedef struct nccl_card { /* what a member tells */
    uint64_t rendezvous;
    int32_t world, rank, n, color, key;
    char host[160], bus[32];
} nccl_card;
typedef struct nccl_rendezvous nccl_rendezvous;
/* Of n members; leader: world rank. Never waits. */
nccl_rendezvous *nccl_meet(uint64_t rendezvous, int n, int leader, const nccl_card *mine);
/* NULL: not yet; else n cards, by rank. */
const nccl_card *nccl_met(nccl_rendezvous *m);
void nccl_rendezvous_end(nccl_rendezvous *m);

/* ---- communicators ---- */

typedef struct nccl_op nccl_op;
struct ncclComm {
    uint64_t id;
    int n, rank;
    int *world; /* per rank; NULL: not made yet */
    bool blocking;
    bool ended, aborted, finalized; /* ended: destroyed or aborted; the struct stays */
    ncclResult_t error;
    int polls; /* for so many more it is busy */
    pthread_t maker;
    nccl_rendezvous *rendezvous;
    void (*met)(ncclComm_t comm, const nccl_card *card);
    ncclComm_t child, parent; /* a split under way: parent NULL at its end */
    uint64_t splits;
    int64_t collectives;  /* begun */
    int64_t under_way[2]; /* issued and not done; captured ones: begun and not done */
    int64_t graphs;       /* captured operations that graphs hold */
    nccl_op *deferred;    /* issued, not in its stream yet */
    nccl_op *latest[2];   /* last issued; last captured */
    ncclComm_t next;      /* all */
};
extern ncclComm_t nccl_all;
extern standin_nccl_counts nccl_counts;
extern bool nccl_hangs, nccl_holds_aborts, nccl_refuses_splits;

/* A call that was begun; under the lock. */
ncclResult_t nccl_begun(ncclComm_t c);
/* May the communicator be called? */
ncclResult_t nccl_ready(ncclComm_t c);
void nccl_check(ncclComm_t comm); /* dies after its end */
/* code, and why for ncclGetLastError. */
ncclResult_t nccl_refuse(ncclResult_t code, const char *why);

/* ---- nccl_op.c ---- */

typedef enum nccl_kind {
    NCCL_SEND,
    NCCL_RECV,
    NCCL_AR,
    NCCL_RS,
    NCCL_AG,
    NCCL_BCAST,
    NCCL_REDUCE
} nccl_kind;
typedef struct nccl_part {
    nccl_kind kind;
    const char *from;
    char *to;
    size_t n; /* elements, as the call has them */
    ncclDataType_t type;
    ncclRedOp_t how;
    int peer; /* or root */
} nccl_part;

struct nccl_op { /* one collective, or what a group has: broadcasts and reduces; messages */
    ncclComm_t comm;
    cudaStream_t stream;
    int refs;
    int32_t n, room;
    nccl_part *part;
    uint64_t capture;              /* 0: not captured */
    nccl_op *before, *before_here; /* issued before it: on any communicator, on this one */
    int64_t begun, done;           /* runs */
};

nccl_op *nccl_op_make(ncclComm_t comm, cudaStream_t stream);
bool nccl_op_add(nccl_op *op, const nccl_part *part);
void nccl_op_release(nccl_op *op);
/* Takes its place in the orders of issue; takes the reference over. */
void nccl_op_issue(nccl_op *op);
ncclResult_t nccl_op_enqueue(nccl_op *op);
void nccl_op_withdraw(nccl_op *op); /* issued, and will never stand in its stream */

/* ---- nccl_move.c ---- */

typedef struct nccl_run nccl_run;
nccl_run *nccl_run_begin(nccl_op *op);
bool nccl_run_over(nccl_run *run);     /* works on it; releases it if true */
void nccl_run_drop(nccl_run *run);     /* aborted */
size_t nccl_size(ncclDataType_t type); /* 0: not known here */
#endif
