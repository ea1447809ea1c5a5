/* exec/host/job.h: a program set bound to memory and communicators on one rank; for exec/host only.
 *
 *   bind.c     memory, the table of bound instructions
 *   ops.c      how each kind of COMPUTE, and LOCAL of the data loader, is bound and run
 *   update.c   pieces of state, norm of the gradients, AdamW
 *   groups.c   communicators
 *   comm.c     communications bound: what is sent from where, and where it is put
 *   transfer.c cells copied, transfers begun and ended
 *   lanes.c    what is under way, waiting
 *   step.c     submit, wait, one step
 *   move.c     a switch
 *
 * A rank computes in one thread, in the order of the program. Communication is begun without
 * blocking and goes on while the rank waits or between instructions.
 */
#ifndef LUO_EXEC_HOST_JOB_H
#define LUO_EXEC_HOST_JOB_H
#include <mpi.h>

#include "core/graph/graph.h"
#include "core/run/interp.h"
#include "core/run/parts.h"
#include "exec/clock.h"
#include "exec/layout.h"
#include "exec/rank.h"
#include "exec/route.h"

typedef struct host_op host_op;
typedef void (*host_run)(luo_rank *r, const host_op *op, int32_t task);

typedef struct host_product { /* buffers and sizes of one GEMM */
    int32_t a, b, c;
    bool ta, tb, add;
    int64_t m, n, k, lda, ldb, ldc;
} host_product;

typedef struct host_comm { /* a communication, bound */
    luo_route route;
    char *scratch; /* of the Reshard; NULL: none is used */
    MPI_Comm comm;
    MPI_Op reduce;
    int *peer;                        /* P2P: world rank per message */
    int *counts, *starts;             /* RS, AG: elements per rank */
    luo_strips send, recv;            /* all of them, one after the other */
    int64_t send_direct, recv_direct; /* offset in the buffer where nothing has to be packed; -1 */
    bool in_place;                    /* AR, AG: the operand lies where its result is put */
    char *message;                    /* `deep` copies of what is sent, then of what is received */
    int64_t send_bytes, message_bytes;
    int32_t deep;
    int64_t uses;       /* copies given out so far */
    int64_t *ticket_of; /* per copy: its last user's ticket */
    int64_t latest;     /* ticket */
    int32_t nreq;
    bool outlives; /* only sends, from memory of its own: goes on when its task has ended */
    bool awaits;   /* only receives */
} host_comm;

struct host_op {
    host_run run; /* NULL: communication */
    const luo_instr *instr;
    luo_op_kind kind;
    int32_t lane;
    int64_t rows, cols, lo, depth;
    int32_t nproducts;
    const host_product *product;
    const luo_heads *heads;
    host_comm *comm;
    double predicted_s;
    bool is_loss; /* its result is the loss of the step */
};

typedef struct host_run3 { /* cells that are neighbours in weight, gradient and state */
    int64_t weight, grad, state, n;
} host_run3;

typedef struct host_pair { /* one parameter piece in the update */
    const luo_piece *piece;
    int32_t grad; /* buffer */
    int32_t nruns;
    const host_run3 *run;
    luo_strips owned; /* of the gradient: cells that this rank counts in the norm */
    bool decays;
} host_pair;

typedef struct host_pending { /* a communication under way */
    int64_t ticket;
    const host_op *op;
    int32_t task, copy;
    MPI_Request *req;
    double start_s, done_s; /* done_s: seen to be complete, 0: not yet */
    double due_s;           /* its sends wait until then (host_now); 0: they are begun */
} host_pending;

typedef struct host_lane { /* first in, first out */
    host_pending *at;      /* ring */
    int32_t cap, first, n;
    int64_t done; /* every ticket of this lane up to here is complete */
    int64_t must; /* latest ticket that has to be complete when its task ends */
} host_lane;

struct luo_rank { /* the interpreter's context */
    luo_job *job;
    luo_exec *x;
    const luo_step_order *order;
    int32_t task; /* whose micro-batch is at hand; -1: none */
    luo_micro_batch mb;
    double scale;    /* 1 / targets of the step */
    int64_t tickets; /* given out; a ticket names its lane in the last digits */
    int32_t delayed; /* transfers whose sends wait for their date */
    double start_s;
    bool drain;                                                   /* this rank computes no more */
    enum { HOST_UPDATED, HOST_DRAINED, HOST_NOT_FINITE } outcome; /* the same on all ranks */
    bool has_loss;
    double loss, grad_norm;
    double compute_s, owed_s; /* owed: sleep of the pace that is not slept yet */
    luo_ledger ledger;
    luo_arena *scratch;       /* of the ledger, reset per step */
    luo_arena *walk;          /* of the interpreter */
    struct host_mover *mover; /* of a switch, see move.c */
    luo_op_record *record;
    int32_t nrecords, cap_records;
    luo_comm_use *use; /* per instruction of the role */
    int32_t nuse;
    luo_comm_use *used; /* those that ran */
    luo_err err;
};

struct luo_job {
    luo_exec *x;
    luo_arena *arena;
    int32_t id;
    const luo_programs *set;
    const luo_recipe *recipe;
    const luo_program *program; /* NULL: this rank has no part in the plan */
    const luo_role *role;
    luo_layout layout;
    const luo_route *route; /* per instruction, of Reshards */
    char *slab, *messages;
    int64_t slab_bytes, message_bytes;
    host_op *op;     /* per instruction of the role */
    int32_t *seg_of; /* per instruction */
    void *attention_work;
    luo_batch_shape batch;
    void *batch_memory;
    host_pair *pair;
    int32_t npairs;
    luo_state state;
    luo_param *param;
    bool *fresh; /* per buffer: gradient not written in this step yet */
    host_lane lane[LUO_LANES];
    luo_rank rank;
    bool broken; /* a step failed half-way: transfers may be under way for ever */
};

typedef struct host_group { /* lives as long as the executor */
    int32_t stream, n;
    const int32_t *dev;
    MPI_Comm comm; /* MPI_COMM_NULL: this rank is not in it */
    struct host_group *next;
} host_group;

struct luo_exec {
    luo_arena *arena;
    luo_rank_config config;
    const luo_kernels *k;
    MPI_Datatype type;
    int32_t device;
    host_group *groups;
    MPI_Comm p2p; /* all ranks */
    int tag_limit;
    bool spins;     /* there are cores enough for every rank of this host */
    char *gathered; /* of luo_gather */
    int64_t gathered_cap;
    int64_t *sizes;
    const void **parts;
};

static inline void *host_buf(const luo_rank *r, int32_t buffer, int32_t task)
{
    return luo_layout_at(&r->job->layout, r->job->slab, buffer, task);
}
static inline const luo_buffer *host_desc(const luo_job *j, int32_t buffer)
{
    return &j->role->buf[buffer];
}
static inline int64_t host_volume(const luo_buffer *b)
{
    int64_t n = 1;
    for (int32_t d = 0; d < b->rank; d++) n *= b->dim[d];
    return n;
}
static inline double host_now(void)
{
    return luo_clock_s();
}

/* bind.c */
luo_status host_bind(luo_exec *x, int32_t id, const luo_programs *set, const luo_recipe *recipe,
                     luo_job **out, luo_err *err);
void host_unbind(luo_job *job);

/* ops.c */
/* Binds a COMPUTE, or a LOCAL that belongs to no Reshard. */
luo_status host_bind_op(luo_job *j, host_op *op, luo_err *err);
/* Bytes of working memory that the attentions of a role need at most. */
size_t host_attention_work(const luo_job *j);

/* update.c */
luo_status host_bind_pieces(luo_job *j, luo_err *err);
luo_status host_bind_update(luo_job *j, host_op *op, luo_err *err);
void host_run_norm(luo_rank *r, const host_op *op, int32_t task);
void host_run_update(luo_rank *r, const host_op *op, int32_t task);

/* groups.c */
luo_status host_mpi(luo_err *err, int code, const char *what); /* LUO_EBACKEND unless success */
int32_t host_rank_of(const luo_exec *x, int32_t device);       /* world rank; -1: none */
luo_status host_open_groups(luo_exec *x, const luo_programs *set, luo_err *err);
const host_group *host_find_group(const luo_exec *x, const luo_group *g); /* NULL: none */

/* comm.c */
/* Counts and routes; the memory it needs is comm->message_bytes * comm->deep. runs: in a step. */
luo_status host_bind_comm(luo_job *j, host_op *op, int64_t runs, luo_err *err);

/* transfer.c */
void host_run_local_move(luo_rank *r, const host_op *op, int32_t task);
/* Packs and begins the transfer; sends over links that an event slows down are left for later. */
luo_status host_begin(luo_rank *r, host_pending *p);
luo_status host_begin_sends(luo_rank *r, host_pending *p); /* those that were left */
void host_arrived(luo_rank *r, const host_pending *p);     /* unpacks */

/* lanes.c */
luo_status host_open_lanes(luo_job *j, luo_err *err);
bool host_idle(const luo_job *j); /* nothing is under way */
/* An instruction of a Reshard takes what those before it have made: waits for them, also where the
 * program names none of them as what it waits for. */
luo_status host_settle(luo_rank *r, const host_op *op);
luo_status host_start(luo_rank *r, const host_op *op, int32_t task, int64_t *ticket);
luo_status host_finish(luo_rank *r, int64_t ticket); /* it and all before it in its lane */
/* All that touches buffers of the task, which are used again by the next. */
luo_status host_finish_task(luo_rank *r);
luo_status host_finish_all(luo_rank *r);
luo_status host_progress(luo_rank *r); /* lets messages under way go on */
/* Waits for requests, giving the core away. who: whose step it belongs to; NULL: to none. */
luo_status host_wait(luo_exec *x, luo_rank *who, int n, MPI_Request *req, luo_err *err);

/* step.c */
extern const luo_backend luo_host_rank_backend; /* submit and wait only */
luo_status host_step(luo_job *job, const luo_step_order *order, luo_step_report *out, luo_err *err);
/* The result of an operation that makes the loss of the step. */
void host_keep_loss(luo_rank *r, const host_op *op, int32_t task);
/* Between instructions and while waiting: was the step given up? */
void host_look(luo_rank *r);

/* move.c, gather.c */
luo_status host_move(luo_job *from, luo_job *to, const luo_switching *what,
                     const luo_recipe *recipe, luo_step_report *out, luo_err *err);
luo_status host_gather(luo_exec *x, luo_gather *out);
#endif
