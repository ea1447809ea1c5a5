/* job.h: a program set bound to memory and communicators on one rank; for exec/host only.
 *
 * What an instruction computes and moves stands in exec/bind/bound.h; here is what it means in
 * memory, kernels and MPI.
 *
 *   bind.c     memory
 *   ops.c      how each kind of COMPUTE, and LOCAL of the data loader, is run; also attention.c,
 *              moe/experts.c
 *   update.c   norm of the gradients, AdamW, an update taken back
 *   parts.c    gradients summed over the parts of a step
 *   groups.c   communicators
 *   comm.c     messages of a communication: their memory, what MPI counts
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

#include "core/run/interp.h"
#include "core/run/parts.h"
#include "exec/bind/bound.h"
#include "exec/clock.h"
#include "exec/data/batch.h"
#include "exec/state/gather.h"

typedef void (*host_run)(luo_rank *r, const luo_bound_op *op, int32_t task);

typedef struct host_comm { /* what a bound communication needs of MPI and memory */
    const luo_bound_comm *b;
    char *scratch; /* of the Reshard; NULL: none is used */
    MPI_Comm comm;
    MPI_Op reduce;
    int *counts, *starts; /* RS, AG: as bound; A2A: what is sent, then what is received, by rank */
    char *message;        /* `deep` copies of what is sent, then of what is received */
    int64_t send_bytes, message_bytes;
    int32_t deep;
    int64_t uses;       /* copies given out so far */
    int64_t *ticket_of; /* per copy: its last user's ticket */
    int64_t latest;     /* ticket; of one that goes ahead: of the task at hand */
    int32_t nreq;
    struct host_trade *trade; /* A2A in two steps: what both know (moe/trade.c); else NULL */
    struct host_led *led;     /* through leaders: what all steps know (moe/leader.c); else NULL */
} host_comm;

typedef struct host_op {
    host_run run; /* NULL: communication */
    const luo_bound_op *b;
    host_comm *comm;
    double usual_s; /* its processor time while nothing slows it, a running mean; 0: not known */
} host_op;

typedef struct host_pending { /* a communication under way */
    int64_t ticket;
    const host_op *op;
    int32_t task, copy;
    int32_t record; /* host_record */
    MPI_Request *req;
    double start_s, done_s; /* done_s: seen to be complete, 0: not yet */
    double due_s;           /* its sends wait until then (host_now); 0: they are begun */
    bool begun;             /* else it queues: it begins when it is the first of its lane .. */
    int64_t after[LUO_LANES]; /* .. and these tickets are complete, one of each lane; 0: none */
} host_pending;

typedef struct host_lane { /* first in, first out */
    host_pending *at;      /* ring */
    int32_t cap, first, n;
    int64_t done; /* every ticket of this lane up to here is complete */
    int64_t must; /* latest ticket that has to be complete when its task ends */
    bool finishing; /* somebody waits for its first */
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
    bool drain;  /* this rank computes no more */
    bool summed; /* gradients are those of all parts of the step */
    enum { HOST_UPDATED, HOST_DRAINED, HOST_NOT_FINITE } outcome; /* the same on all ranks */
    bool has_loss;
    double loss, grad_norm;
    double aux_loss;          /* of the tokens here */
    double compute_s, owed_s; /* owed: sleep of the pace that is not slept yet */
    luo_ledger ledger;
    luo_arena *scratch;       /* of the ledger, reset per step */
    luo_arena *walk;          /* of the interpreter */
    struct host_mover *mover; /* of a switch, see move.c */
    luo_op_record *record;
    int32_t nrecords, cap_records;
    luo_comm_use *use; /* per instruction of the role */
    luo_comm_use *used; /* those that ran */
    luo_err err;
};

struct luo_job {
    luo_exec *x;
    luo_arena *arena;
    int32_t id;
    luo_bound b;
    char *slab, *messages;
    int64_t slab_bytes, message_bytes;
    host_op *op; /* per instruction of the role */
    void *attention_work;
    int32_t *local_start; /* room for documents of a part of a micro-batch */
    void *batch_memory;
    unsigned char *pads; /* room for a flag per token of a micro-batch */
    int32_t *dealt;      /* room for an expert per token: balanced assignment */
    luo_state state;
    char *undo; /* of a staggered step: weights and moments before its update, pair by pair, cells
                   by cells; NULL: updates wait for the norm */
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
    bool spins; /* there are cores enough for every rank of this host */
    luo_gatherer *gatherer;
    struct host_sums *sums; /* of a step in parts; NULL: none yet */
};

static inline void *host_buf(const luo_rank *rank, int32_t buffer, int32_t task)
{
    return luo_layout_at(&rank->job->b.layout, rank->job->slab, buffer, task);
}
static inline double host_now(void)
{
    return luo_clock_s();
}

/* bind.c */
luo_status host_bind(luo_exec *exec, int32_t id, const luo_programs *set, const luo_recipe *recipe,
                     luo_job **out, luo_err *err);
void host_unbind(luo_job *job);

/* ops.c */
host_run host_run_of(luo_op_kind kind);
/* The first contribution to a gradient of a step overwrites what the last step left: false then,
 * and for results that are no gradient. */
bool host_adds(luo_rank *rank, int32_t buffer);
/* The activation of n elements, and its gradient: operands as core/graph/ops.inc has them. */
void host_activate(const luo_rank *rank, const luo_instr *instr, int64_t n, int32_t task);
void host_activate_dx(const luo_rank *rank, const luo_instr *instr, int64_t n, int32_t task);

/* attention.c */
/* Bytes of working memory that the attentions of a role need at most. */
size_t host_attention_work(const luo_job *job);
void host_run_rope(luo_rank *rank, const luo_bound_op *op, int32_t task);
void host_run_rope_dx(luo_rank *rank, const luo_bound_op *op, int32_t task);
void host_run_latent(luo_rank *rank, const luo_bound_op *op, int32_t task);
void host_run_latent_dx(luo_rank *rank, const luo_bound_op *op, int32_t task);
void host_run_attention(luo_rank *rank, const luo_bound_op *op, int32_t task);
void host_run_attention_dx(luo_rank *rank, const luo_bound_op *op, int32_t task);

/* moe/experts.c */
/* Bytes of working memory that experts need. */
size_t host_experts_work(const luo_job *job);
void host_run_route(luo_rank *rank, const luo_bound_op *op, int32_t task);
void host_run_route_dx(luo_rank *rank, const luo_bound_op *op, int32_t task);
void host_run_pack(luo_rank *rank, const luo_bound_op *op, int32_t task);
void host_run_pack_dx(luo_rank *rank, const luo_bound_op *op, int32_t task);
void host_run_grouped(luo_rank *rank, const luo_bound_op *op, int32_t task);
void host_run_rows_activation(luo_rank *rank, const luo_bound_op *op, int32_t task);
void host_run_rows_activation_dx(luo_rank *rank, const luo_bound_op *op, int32_t task);
void host_run_combine(luo_rank *rank, const luo_bound_op *op, int32_t task);
void host_run_combine_dx(luo_rank *rank, const luo_bound_op *op, int32_t task);
void host_run_token_gate(luo_rank *rank, const luo_bound_op *op, int32_t task);
void host_run_token_gate_dx(luo_rank *rank, const luo_bound_op *op, int32_t task);

/* update.c */
void host_run_grad_norm(luo_rank *rank, const luo_bound_op *op, int32_t task);
/* Bytes of luo_job.undo. */
int64_t host_undo_bytes(const luo_job *job);
void host_run_amend(luo_rank *rank, const luo_bound_op *op, int32_t task);
void host_run_update(luo_rank *rank, const luo_bound_op *op, int32_t task);

/* parts.c */
/* Room for the gradients of a step in parts, at its first; nothing for a whole step. Errors:
 * LUO_EBUG a later part keeps state elsewhere than the first; LUO_ENOMEM. */
luo_status host_begin_part(luo_job *job, const luo_step_part *part, luo_err *err);
/* Adds the gradients of this part, which is not the last, to those before. */
void host_keep_gradients(luo_rank *rank, int32_t task);
/* In the last part: gradients become those of the whole step; once, whoever asks first. */
void host_take_gradients(luo_rank *rank, int32_t task);
/* Memory that these sums take here, from the first step in parts on. */
int64_t host_sum_bytes(const luo_exec *exec);
void host_free_sums(luo_exec *exec);

/* groups.c */
luo_status host_mpi(luo_err *err, int code, const char *what); /* LUO_EBACKEND unless success */
luo_status host_open_groups(luo_exec *exec, const luo_programs *set, luo_err *err);
const host_group *host_find_group(const luo_exec *exec, const luo_group *group); /* NULL: none */

/* comm.c */
/* The memory it needs is op->comm->message_bytes * op->comm->deep. Errors: LUO_E2BIG more elements
 * than MPI counts. */
luo_status host_bind_comm(luo_job *job, host_op *op, luo_err *err);

/* Exchanges of rows, as many as the counts say. */
luo_status host_bind_trade(luo_job *job, host_comm *comm, luo_err *err);
int host_tag_of(const luo_rank *rank, const host_pending *pending); /* of a message; transfer.c */
luo_status host_begin_trade(luo_rank *rank, host_pending *pending);
void host_trade_arrived(luo_rank *rank, const host_pending *pending);

/* transfer.c */
void host_run_local_move(luo_rank *rank, const luo_bound_op *op, int32_t task);
/* Packs and begins the transfer; sends over links that an event slows down are left for later. */
luo_status host_begin(luo_rank *rank, host_pending *pending);
luo_status host_begin_sends(luo_rank *rank, host_pending *pending); /* those that were left */
void host_arrived(luo_rank *rank, const host_pending *pending);     /* unpacks */

/* lanes.c */
luo_status host_open_lanes(luo_job *job, luo_err *err);
bool host_idle(const luo_job *job); /* nothing is under way */
/* Waits for what an instruction depends on; one of a Reshard takes what those before it have made,
 * also where the program names none of them as what it waits for. */
luo_status host_settle(luo_rank *rank, const host_op *op, const luo_issue *issue);
/* A task begins, behind host_finish_task: what has come ahead for it counts as its own. */
void host_turn(luo_rank *rank, int32_t task);
/* A call that runs beside tasks waits for nothing here: it queues. One that goes ahead may be of
 * the next task. */
luo_status host_start(luo_rank *rank, const host_op *op, const luo_issue *issue, int64_t *ticket);
luo_status host_finish(luo_rank *rank, int64_t ticket); /* it and all before it in its lane */
/* All that touches buffers of the task, which are used again by the next. */
luo_status host_finish_task(luo_rank *rank);
luo_status host_finish_all(luo_rank *rank);
/* Lets messages under way go on, ends calls that are done and begins those that queue. */
luo_status host_progress(luo_rank *rank);
/* Waits for requests, giving the core away. who: whose step it belongs to; NULL: to none. */
luo_status host_wait(luo_exec *exec, luo_rank *who, int n, MPI_Request *req, luo_err *err);

/* step.c */
extern const luo_executor luo_host_step_executor;
luo_status host_step(luo_job *job, const luo_step_order *order, luo_step_report *out, luo_err *err);
/* A record of what is issued now, in a traced step, and its times since the start of the step. -1,
 * and nothing: no trace. */
int32_t host_record(luo_rank *rank, int32_t task, int32_t instr);
void host_record_times(luo_rank *rank, int32_t record, double start_s, double end_s);
/* The result of an operation that makes the loss of the step. */
void host_keep_loss(luo_rank *rank, const luo_bound_op *op, int32_t task);
/* Between instructions and while waiting: was the step given up? */
void host_look(luo_rank *rank);

/* move.c */
luo_status host_move(luo_job *from, luo_job *to, const luo_switching *what,
                     const luo_recipe *recipe, luo_step_report *out, luo_err *err);
#endif
