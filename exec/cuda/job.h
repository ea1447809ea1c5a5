/* job.h: a bound program on one GPU; for exec/cuda only.
 *
 *   executor.c  the row of exec/rank/rank.h: the GPU, streams, libraries
 *   bind.c      memory, tables on the device, the table of operations
 *   ops.c, products.c, update.c   how each kind of COMPUTE is launched
 *   comm/transfer.c  communications: what is packed, sent and put where
 *   lanes.c     streams, tickets, waits
 *   batch.c     the micro-batches of a step on the device
 *   stamps.c    when the streams were where
 *   report.c    what became of a step
 *   pace.c      the device's clock; stragglers
 *   graph.c     a step captured once and launched again
 *   watching.c  what the watchdog is shown
 *   step.c      submit and wait, a whole step
 *   state.c, move.c   parameters and their state; switches
 *   context/    attention where sequences are cut among devices
 *   apart/      state in a layout of its own; a step in parts
 *   moe/moe.h   layers with experts
 *
 * The compute stream plays the role that the host's one thread has (exec/host/job.h): it launches
 * operations in the order of the program and waits (for events) where the host's thread waits. So
 * what exec/bind/layout.h promises to one thread holds for it. Each lane of communication has a
 * stream of its own, which takes an instruction over at an event of the compute stream and gives it
 * back by an event: its ticket. What goes ahead it takes over when its room is empty, and the
 * compute stream unpacks it where it waits for it. The host waits once, at the end of a step; with
 * experts also for counts (moe/moe.h). It allocates nothing in it but plans of products of experts,
 * room for an auction and for sums of parts.
 */
#ifndef LUO_EXEC_CUDA_JOB_H
#define LUO_EXEC_CUDA_JOB_H
#include <pthread.h>

#include "core/run/interp.h"
#include "core/run/parts.h"
#include "exec/bind/bound.h"
#include "exec/clock.h"
#include "exec/cuda/comm/comm.h"
#include "exec/cuda/context/sights.h"
#include "exec/cuda/fuse.h"
#include "exec/cuda/kernels/kernels.h"
#include "exec/cuda/product.h"
#include "exec/data/batch.h"
#include "exec/state/gather.h"

typedef struct gpu_op gpu_op;
typedef struct gpu_mover gpu_mover;
typedef luo_status (*gpu_run)(luo_rank *r, const gpu_op *op, int32_t task);

/* ---- bound once per program ---- */

typedef struct gpu_table { /* segments on the device */
    const gpu_copy_segment *at;
    int32_t n;
    int64_t elements;
} gpu_table;

typedef struct gpu_cells { /* cells copied between buffers or LUO_ROUTE_SCRATCH */
    int32_t from, to;      /* from -1: nothing to copy */
    bool staged;           /* by way of message memory, since they overlap */
    gpu_table in, out;     /* staged: into and out of it; else `in` does it all */
} gpu_cells;

typedef struct gpu_transfer { /* a communication or LOCAL of a Reshard, bound */
    const luo_bound_comm *b;
    gpu_comm *comm; /* NULL: a group of one */
    gpu_cells enter, leave, local;
    gpu_table pack, unpack;
    bool send_direct, recv_direct; /* nothing is packed; nothing is unpacked */
    const int64_t *counts;         /* RS, AG: of the pieces as they travel, with padding */
    int64_t longest;               /* of a padded one: elements of each; else 0 */
    bool uneven;                   /* reduce-scatter of such counts that differ */
    gpu_message *message;          /* P2P: of its latest run */
    char *memory; /* `deep` copies of: what is sent, what is received, what else is needed */
    int64_t send_bytes, recv_bytes, work_bytes, copy_bytes;
    int32_t deep;
    int64_t uses;       /* copies given out in this step */
    int64_t *ticket_of; /* per copy: its last user's ticket */
    int64_t latest;     /* ticket; of one that goes ahead: of the task at hand */
} gpu_transfer;

struct gpu_op {
    const luo_bound_op *b;
    gpu_run run; /* on the compute stream; NULL: communication */
    gpu_transfer *transfer;
    /* matmul..: per product; plans overwrite the result, or add to it (NULL: no run needs it) */
    const gpu_fused *fused;
    gpu_product_plan *(*plan)[2];
    gpu_heads heads; /* its arrays lie on the device */
    luo_turns turns; /* of rotary positions; its array too */
    int32_t order;   /* embedding_dw: index in luo_job.batch.order */
    int32_t sight;   /* attention: index in luo_job.batch.sight; -1: the micro-batch's documents */
};

/* Where a piece of a parameter lies on the device. f32: master is the weight's buffer, in
 * weight_frame. bf16: master is f32 and stands before the moments, in state_frame; weight is its
 * copy, in weight_frame. m and v are in state_frame. */
typedef struct gpu_piece {
    void *weight;
    float *master, *m, *v;
} gpu_piece;

/* ---- data of a step: batch.c ---- */

typedef struct gpu_order { /* for the gradient of a table: tokens lo.. sorted by what they name */
    luo_data data;
    int64_t tokens; /* of micro-batches of that length */
    int64_t lo, rows;
    int64_t at; /* behind the first order of a region, in values */
} gpu_order;

typedef struct gpu_sight { /* lists of an attention that sees a part of a micro-batch */
    int64_t tokens;        /* of micro-batches of that length */
    luo_block block;       /* tokens alone */
    bool whole; /* of whole documents (gpu_documents); else of a block (context/sights.h) */
    bool causal;
    int64_t window;
    int64_t at; /* behind the first list of a region, in values */
} gpu_sight;

typedef struct gpu_documents { /* per token its document's first, and the one after its last */
    const int32_t *start_of, *end_of;
} gpu_documents;

typedef struct gpu_tokens { /* of one micro-batch, on the device */
    const int32_t *of[3];   /* by luo_data */
    const int32_t *start_of, *end_of;
    const int32_t *pad;    /* not 0: no data */
    const int32_t *order;  /* at gpu_order.at */
    const int32_t *sights; /* at gpu_sight.at */
} gpu_tokens;

typedef struct gpu_batch {
    int32_t nmicro; /* numbers of micro-batches in tasks are below it */
    bool *runs;     /* per number: a task here has it */
    int32_t norders;
    gpu_order *order;
    int32_t nsights;
    gpu_sight *sight;
    int32_t *sight_room; /* host: 2 values a token */
    gpu_tokens *tokens;  /* per micro-batch */
    int64_t *first;     /* per micro-batch: its region in the block, in bytes */
    int64_t *data_tokens[2]; /* per micro-batch, of what is staged: tokens that are no pads */
    int64_t bytes;      /* of the block: the numbers of the step, then a region each */
    char *block;        /* device */
    char *staged[2];    /* page-locked; one is filled while the other may still be read */
    int64_t step[2];    /* what they hold; -1: nothing, or a part of a step */
    int64_t targets[2]; /* of the whole step */
    int32_t turn;       /* the one of the step at hand */
    void *scratch;      /* host: luo_batch_fill, sorting */
} gpu_batch;

/* ---- time: stamps.c, pace.c ---- */

typedef enum gpu_mark_kind {
    GPU_MARK_COMPUTE,
    GPU_MARK_RECOMPUTE,
    GPU_MARK_WAIT, /* for communication, or packs for it */
    GPU_MARK_END
} gpu_mark_kind;
typedef struct gpu_mark { /* what the compute stream does from a stamp on, until the next */
    gpu_mark_kind kind;
    int32_t task, instr; /* at hand; WAIT: the communication */
} gpu_mark;
typedef struct gpu_span { /* of one run of a communication, or when traced of any instruction */
    int32_t task, instr;
} gpu_span;

enum { GPU_GRAPHS = 2 }; /* of a job: without and with a trace */

typedef struct gpu_marks {
    _Atomic int32_t nmarks; /* read by the watcher while a step is launched */
    int32_t nspans;
    gpu_mark *mark;
    gpu_span *span;
} gpu_marks;
typedef struct gpu_stamps {
    /* Mapped memory: one stamp per mark, then two per span. 0: not reached. */
    uint64_t *slot, *device_slot;
    int32_t cap_marks, cap_spans;
    gpu_marks list[1 + GPU_GRAPHS], *now; /* of a step that is launched, of graphs; at hand */
    _Atomic int32_t passed;  /* marks seen so far in this step */
} gpu_stamps;

/* The device's clock reads CLOCK_MONOTONIC + offset_ns, give or take error_ns. */
typedef struct gpu_clock {
    int64_t offset_ns, error_ns;
    int64_t at_ns; /* when that was found; 0: never */
} gpu_clock;

/* ---- a step ---- */

enum { GPU_LANE_BITS = 4 }; /* a ticket is number << GPU_LANE_BITS | lane */
_Static_assert(LUO_LANES <= 1 << GPU_LANE_BITS, "a ticket names its lane in its last digits");

typedef struct gpu_ticket { /* a communication of a step, by number - 1 */
    cudaEvent_t event;
    const gpu_op *op;
    int32_t task;
} gpu_ticket;

typedef struct gpu_lane {   /* numbers of tickets; 0: none */
    int64_t issued, waited; /* given out; the compute stream is behind */
    int64_t must;           /* it has to be behind when its task ends */
} gpu_lane;

struct luo_rank { /* the interpreter's context */
    luo_job *job;
    luo_exec *x;
    const luo_step_order *order;
    int32_t task;    /* at hand; -1: none */
    int64_t tickets; /* given out */
    int32_t npace;   /* dates of a straggler's speed; 0: it is none in this step */
    double start_s;
    bool has_loss;
    bool summed; /* gradients are those of all parts of the step */
    bool captures;
    luo_ledger ledger;
    luo_arena *scratch; /* of the ledger and the part at hand, reset per step */
    luo_arena *walk;    /* of the interpreter */
    luo_op_record *record;
    luo_comm_use *use, *used; /* per instruction of the role; those that ran */
    gpu_mover *mover;         /* of a switch, see move.c */
    luo_err err;
};

typedef struct gpu_graph { /* a step as it runs when nothing disturbs it */
    int64_t quiet;         /* undisturbed steps so far; the second is captured */
    cudaGraphExec_t exec;  /* NULL: none */
    bool has_loss;
} gpu_graph;

struct luo_job {
    luo_exec *x;
    luo_arena *arena;
    int32_t id;
    luo_bound bound;
    char *slab, *messages; /* device */
    int64_t slab_bytes, message_bytes;
    char *tables; /* device: segments, chunks, heads */
    int64_t table_bytes;
    void *work; /* device: of operations; one at a time on the compute stream */
    int64_t work_bytes;
    gpu_op *op;                       /* per instruction of the role */
    bool *fresh;                      /* per buffer: gradient not written in this step yet */
    const gpu_norm_chunk *norm_chunk; /* device */
    const gpu_update_chunk *update_chunk;
    int64_t nnorm, nupdate, nsum; /* nsum: nupdate, then counts of biases, which are summed alone */
    const int64_t *sum_at; /* device, per update chunk: where its sums are in a step in parts */
    gpu_table copies;      /* of weights over the slab, before a step */
    const gpu_counted *counted; /* device: biases that counts move */
    int64_t ncounted;
    bool updates; /* this rank takes part in the update, if perhaps with no cell */
    gpu_type grad_type;
    gpu_batch batch;
    gpu_stamps stamps;
    gpu_step_answer *answer, *device_answer; /* mapped */
    uint64_t *since, *spun;                  /* device: of the pace */
    gpu_pace *pace, *device_pace;            /* mapped */
    int32_t cap_pace;
    gpu_ticket *ticket; /* one per communication of a step */
    int32_t ntickets;
    cudaEvent_t handover; /* from the compute stream to a lane */
    cudaEvent_t taken[LUO_ROOMS]; /* the compute stream has unpacked what lay there */
    cudaEvent_t ended;    /* of a step */
    gpu_lane lane[LUO_LANES];
    gpu_graph graph[GPU_GRAPHS]; /* by the order's trace */
    bool no_graph;               /* this program cannot be captured */
    struct gpu_moe *moe;         /* layers with experts (moe/moe.h); NULL: the model has none */
    luo_rank rank;
    luo_state state; /* state.c */
    float *arrays;   /* what state.at points to; NULL: nothing is fetched */
    luo_job *next;   /* of luo_exec.jobs */
    bool broken;     /* a step failed half-way: peers may wait for ever */
};

struct luo_exec {
    luo_arena *arena;
    luo_rank_config config;
    int32_t device; /* of the cluster */
    gpu_facts facts;
    gpu_blas *blas;
    gpu_comms *comms;
    gpu_watcher *watcher;
    cudaStream_t stream[LUO_LANES]; /* LUO_STREAM_COMPUTE, .._MOVE, .. */
    gpu_clock clock;
    uint64_t *probe, *device_probe; /* mapped: the clock is read here */
    luo_job *jobs;                  /* all that are bound */
    pthread_mutex_t watched;        /* guards at_hand, and its stamps from the watcher's look */
    luo_job *at_hand;               /* whose step is under way; NULL: none */
    _Atomic int64_t progress;       /* grows as long as something goes on */
    _Atomic bool agrees;            /* it waits for other ranks in MPI */
    double stuck_s;                 /* of a step without progress; INFINITY: any time is fine */
    bool graphs;
    struct gpu_sums *sums;     /* of a step in parts; NULL: none yet */
    char remark[LUO_ERR_TEXT]; /* for the log; "": nothing */
    bool told;                 /* it was */
    luo_gatherer *gatherer;
    int64_t held_bytes; /* of the slabs of all jobs */
    int64_t window;     /* elements of state that travel at once, of a piece or a message */
};

static inline void *gpu_buf(const luo_job *job, int32_t buffer, int32_t task)
{
    return luo_layout_at(&job->bound.layout, job->slab, buffer, task);
}
static inline gpu_array gpu_at(const luo_job *job, int32_t buffer, int32_t task)
{
    return (gpu_array){gpu_buf(job, buffer, task),
                       gpu_type_of(luo_bound_desc(&job->bound, buffer)->elem_bytes)};
}

/* bind.c */
luo_status gpu_bind(luo_exec *exec, int32_t id, const luo_programs *set, const luo_recipe *recipe,
                    luo_job **out, luo_err *err);
void gpu_unbind(luo_job *job);

/* ops.c, update.c: what an operation does is enqueued on the compute stream. */
/* The first contribution to a gradient of a step overwrites what the last step left: false then,
 * and for results that are no gradient. */
bool gpu_adds(luo_rank *rank, int32_t buffer);
/* The activation of n elements, and its gradient: operands as core/graph/ops.inc has them. */
luo_status gpu_activate(luo_rank *rank, const gpu_op *op, int64_t n, int32_t task);
luo_status gpu_activate_dx(luo_rank *rank, const gpu_op *op, int64_t n, int32_t task);
luo_status gpu_run_norm(luo_rank *rank, const gpu_op *op, int32_t task);
luo_status gpu_run_update(luo_rank *rank, const gpu_op *op, int32_t task);
luo_status gpu_run_amend(luo_rank *rank, const gpu_op *op, int32_t task);
gpu_piece gpu_piece_at(const luo_job *job, int32_t piece);
gpu_step_block gpu_step_numbers(const luo_job *job, int64_t step, int64_t targets);

/* context/block.c: documents among the tokens that an attention has, counted from the first. */
gpu_documents gpu_documents_of(const luo_rank *rank, const gpu_op *op, int32_t task);
/* Values that the lists take. */
int64_t gpu_sight_values(const gpu_sight *sight);

/* apart/copies.c: weights whose state lies here in a layout of its own. */
luo_status gpu_copy_weights(luo_rank *rank);

/* apart/parts.c */
/* Room for the gradients of a step in parts, at its first; nothing for a whole step. Errors:
 * LUO_EBUG a later part keeps state elsewhere than the first; LUO_EOOM, LUO_ENOMEM. */
luo_status gpu_begin_part(luo_job *job, const luo_step_part *part, luo_err *err);
/* In place of an update: adds the gradients of this part, which is not the last, to those before,
 * and answers as an update does. */
luo_status gpu_keep_gradients(luo_rank *rank, const float *squares);
/* In the last part: gradients become those of the whole step; once, whoever asks first. */
luo_status gpu_take_gradients(luo_rank *rank);
/* Memory that these sums take here, from the first step in parts on. */
int64_t gpu_sum_bytes(const luo_exec *exec);
void gpu_free_sums(luo_exec *exec);

/* comm/transfer.c: the parts of a communication, enqueued; LOCAL of a Reshard. */
luo_status gpu_transfer_pack(luo_rank *rank, const gpu_op *op, int32_t task, int32_t copy,
                             cudaStream_t stream);
luo_status gpu_transfer_send(luo_rank *rank, const gpu_op *op, int32_t task, int32_t copy,
                             cudaStream_t stream);
luo_status gpu_transfer_unpack(luo_rank *rank, const gpu_op *op, int32_t task, int32_t copy,
                               cudaStream_t stream);
luo_status gpu_run_local_move(luo_rank *rank, const gpu_op *op, int32_t task);

/* lanes.c */
luo_status gpu_lanes_open(luo_exec *exec, luo_err *err);
void gpu_lanes_close(luo_exec *exec);
luo_status gpu_events_open(luo_job *job, int64_t communications, luo_err *err);
void gpu_events_close(luo_job *job);
luo_status gpu_lanes_begin(luo_rank *rank); /* of a step */
/* A task begins, behind gpu_finish_task: what has come ahead for it counts as its own. */
void gpu_lanes_turn(luo_rank *rank, int32_t task);
/* The compute stream waits: for a ticket and all before it in its lane; for what an instruction of
 * a Reshard has to find done; for all that touches buffers of the task; for everything. */
luo_status gpu_finish(luo_rank *rank, int64_t ticket);
luo_status gpu_settle(luo_rank *rank, const gpu_op *op, const luo_issue *issue);
luo_status gpu_finish_task(luo_rank *rank);
luo_status gpu_finish_all(luo_rank *rank);
/* task: that at hand; of one that goes ahead, also the next. */
luo_status gpu_start(luo_rank *rank, const gpu_op *op, int32_t task, int64_t *ticket);

/* batch.c */
luo_status gpu_batch_open(luo_job *job, luo_err *err);
void gpu_batch_close(luo_job *job);
/* The step that gpu_batch_send sends, or the part of it. *targets: of the whole step. Errors:
 * LUO_EBUG a part has sequences that the step has not; LUO_ENOMEM. */
luo_status gpu_batch_prepare(luo_rank *rank, const luo_step_order *order, int64_t *targets,
                             luo_err *err);
luo_status gpu_batch_send(luo_rank *rank);
/* Meanwhile: the image of a step to come. Pre: the step at hand was sent. */
void gpu_batch_ahead(luo_job *job, int64_t step);
const gpu_step_block *gpu_batch_numbers(const luo_job *job); /* on the device */

/* stamps.c */
luo_status gpu_stamps_open(luo_job *job, int64_t runs, int64_t communications, luo_err *err);
void gpu_stamps_close(luo_job *job);
/* Pre: nothing runs. graph: marks are those of this one of the job's graphs; NULL: of no graph. */
void gpu_stamps_begin(luo_job *job, const gpu_graph *graph);
void gpu_stamps_forget(luo_job *job); /* the marks at hand, to make them anew */
luo_status gpu_mark_now(luo_rank *rank, gpu_mark_kind kind, int32_t task, int32_t instr);
luo_status gpu_span_begin(luo_rank *rank, cudaStream_t stream, int32_t task, int32_t instr,
                          int32_t *span);
luo_status gpu_span_end(luo_rank *rank, cudaStream_t stream, int32_t span);
uint64_t gpu_mark_stamp(const gpu_stamps *stamps, int32_t mark); /* 0: not reached */
uint64_t gpu_span_stamp(const gpu_stamps *stamps, int32_t span, bool end);
/* Tells x->config.where which marks the compute stream has passed. One thread at a time. */
void gpu_stamps_look(luo_job *job);

/* pace.c */
enum { GPU_CLOCK_ROUNDS = 16 }; /* when an executor is opened */
/* Compares the clocks; keeps the better of what is known and what is found. Pre: nothing runs. */
luo_status gpu_clock_read(luo_exec *exec, int rounds, luo_err *err);
double gpu_clock_host_s(const luo_exec *exec, uint64_t stamp); /* CLOCK_MONOTONIC */
luo_status gpu_pace_open(luo_job *job, luo_err *err);
void gpu_pace_close(luo_job *job);
luo_status gpu_pace_begin(luo_rank *rank, luo_err *err); /* of a step; sets rank->npace */
luo_status gpu_pace_before(luo_rank *rank);              /* around what a straggler computes */
luo_status gpu_pace_after(luo_rank *rank);

/* report.c */
luo_status gpu_report(luo_rank *rank, luo_step_report *out, luo_err *err);

/* graph.c */
/* Launches the step at hand: captures it, launches the captured one, or calls `walk`. */
luo_status gpu_graph_launch(luo_rank *rank, luo_status (*walk)(luo_rank *rank), luo_err *err);
void gpu_graph_close(luo_job *job);

/* watch.c of COMM watches; watching.c says what this executor has to show. */
luo_status gpu_watch_open(luo_exec *exec, luo_err *err);
void gpu_abort(luo_exec *exec); /* all communicators, and the graphs that hold them */
void gpu_watch_at(luo_exec *exec, luo_job *job); /* NULL: no step is under way */
void gpu_watch_peek(luo_exec *exec);             /* what the watchdog's thread does, done at once */
void gpu_watch_goes_on(luo_exec *exec);          /* of work that leaves no stamps */

/* step.c */
luo_status gpu_step(luo_job *job, const luo_step_order *order, luo_step_report *out, luo_err *err);
/* The host waits for an event, and lets the watchdog look meanwhile. It keeps its core for spin_s,
 * then sleeps for a share of the time it has waited. */
luo_status gpu_await(luo_rank *rank, cudaEvent_t event, double spin_s, const char *what,
                     luo_err *err);
/* The result of an operation that makes the loss of the step goes to the answer. */
luo_status gpu_keep_loss(luo_rank *rank, const gpu_op *op, int32_t task, cudaStream_t stream);

/* state.c */
enum { GPU_WINDOW = 8 << 20 }; /* as fast as longer ones, and small beside a plan */
/* Memory is laid out and zero. Sets job->state, whose arrays are there from gpu_fetch to gpu_store
 * (exec/rank/rank.h): f32, cells of the pieces alone (weight_frame is state_frame). */
luo_status gpu_state_bind(luo_job *job, luo_err *err);
void gpu_state_unbind(luo_job *job); /* also after gpu_state_bind failed or never ran */
luo_state *gpu_state(luo_job *job);
luo_status gpu_fetch(luo_job *job, bool contents, luo_err *err);
luo_status gpu_store(luo_job *job, bool contents, luo_err *err);
/* bf16: working weights of the pieces from their masters. Waits for it. */
luo_status gpu_round_state(luo_job *job, luo_err *err);
luo_status gpu_gather_open(luo_exec *exec, luo_err *err); /* collective, as its end is */
void gpu_gather_close(luo_exec *exec);
luo_status gpu_gather(luo_exec *exec, luo_gather *out);

/* move.c */
luo_status gpu_move(luo_job *from, luo_job *to, const luo_switching *what, const luo_recipe *recipe,
                    luo_step_report *out, luo_err *err);
#endif
