/* exec/cuda/job.h: a bound program on one GPU; for exec/cuda only.
 *
 *   executor.c  the row of exec/rank.h: the GPU, streams, libraries
 *   bind.c      memory, tables on the device, the table of operations
 *   ops.c, products.c, update.c   how each kind of COMPUTE is launched
 *   transfer.c  communications: what is packed, sent and put where
 *   lanes.c     streams, tickets, waits
 *   batch.c     the micro-batches of a step on the device
 *   stamps.c    when the streams were where
 *   report.c    what became of a step
 *   pace.c      the device's clock; stragglers
 *   graph.c     a step captured once and launched again
 *   step.c      submit and wait, a whole step
 *   state.c, move.c   parameters and their state; switches
 *
 * The compute stream plays the role that the host's one thread has (exec/host/job.h): it launches
 * operations in the order of the program and waits (for events) where the host's thread waits. So
 * what exec/layout.h promises to one thread holds for it. Each lane of communication has a stream
 * of its own, which takes an instruction over at an event of the compute stream and gives it back
 * by an event: its ticket. The host waits once, at the end of a step, and allocates nothing in it.
 */
#ifndef LUO_EXEC_CUDA_JOB_H
#define LUO_EXEC_CUDA_JOB_H
#include "core/run/interp.h"
#include "core/run/parts.h"
#include "exec/bound.h"
#include "exec/clock.h"
#include "exec/cuda/comm.h"
#include "exec/cuda/kernels.h"
#include "exec/cuda/product.h"

typedef struct gpu_op gpu_op;
typedef luo_status (*gpu_run)(luo_rank *r, const gpu_op *op, int32_t task);

/* ---- bound once per program ---- */

typedef struct gpu_table { /* strips on the device */
    const gpu_strip *at;
    int32_t n;
    int64_t elements;
} gpu_table;

typedef struct gpu_move_cells { /* cells between two ends (buffers or LUO_ROUTE_SCRATCH) */
    int32_t from, to;           /* from -1: nothing to copy */
    bool staged;                /* through message memory: they overlap */
    gpu_table in, out;          /* staged: into and out of message memory; else `in` does it all */
} gpu_move_cells;

typedef struct gpu_transfer { /* a communication, bound */
    const luo_bound_comm *b;
    gpu_comm *comm;                     /* NULL: a group of one */
    gpu_move_cells enter, leave, local; /* local: LOCAL of a Reshard */
    gpu_table pack, unpack;
    gpu_message *message; /* P2P: per message of the slot, of its latest run */
    char *memory; /* `deep` copies of: what is sent, what is received, what else is needed */
    int64_t send_bytes, recv_bytes, work_bytes, copy_bytes;
    int32_t deep;
    int64_t uses;       /* copies given out in this step */
    int64_t *ticket_of; /* per copy: its last user's ticket */
    int64_t latest;     /* ticket */
} gpu_transfer;

struct gpu_op {
    const luo_bound_op *b;
    gpu_run run; /* on the compute stream; NULL: communication */
    gpu_transfer *transfer;
    /* matmul..: per product, result overwritten and added to (NULL where no run needs it) */
    gpu_product_plan *(*plan)[2];
    gpu_heads heads; /* its arrays lie on the device */
    int32_t order;   /* embedding_dw: index in luo_job.batch.order */
};

/* Where a piece of a parameter lies on the device. f32: master is the weight's buffer, in
 * weight_frame. bf16: master is f32 and stands before the moments, in state_frame; weight is its
 * copy, in weight_frame. m and v are in state_frame. */
typedef struct gpu_piece {
    void *weight;
    float *master, *m, *v;
} gpu_piece;

/* ---- data of a step: batch.c ---- */

typedef struct gpu_order { /* rows of a table's gradient: tokens lo.. of ids or positions, sorted */
    luo_data data;
    int64_t lo, rows;
    int64_t at; /* in a region, in values */
} gpu_order;

typedef struct gpu_tokens { /* of one micro-batch, on the device */
    const int32_t *of[3];   /* by luo_data */
    const int32_t *start_of, *end_of;
    const int32_t *order; /* all of luo_batch.order: at gpu_order.at */
} gpu_tokens;

typedef struct gpu_batch {
    int32_t nmicro; /* of this pipeline */
    int32_t norders;
    gpu_order *order;
    gpu_tokens *tokens; /* per micro-batch */
    int64_t *first;     /* per micro-batch: its region in the block, in bytes */
    int64_t bytes;      /* of the block: the numbers of the step, then a region each */
    char *block;        /* device */
    char *staged[2];    /* page-locked; one is filled while the other may still be read */
    int64_t step[2];    /* what they hold; -1: nothing */
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

typedef struct gpu_stamps {
    /* Mapped memory: one stamp per mark, then two per span. 0: not reached. */
    uint64_t *slot, *device_slot;
    int32_t nmarks, cap_marks, nspans, cap_spans;
    gpu_mark *mark;
    gpu_span *span;
    _Atomic int32_t passed; /* marks seen so far in this step */
} gpu_stamps;

/* The device's clock reads ns = (CLOCK_MONOTONIC seconds) * 1e9 + offset_ns, give or take. */
typedef struct gpu_clock {
    double offset_ns, error_ns;
} gpu_clock;

/* ---- a step ---- */

typedef struct gpu_lane {
    int64_t issued, waited; /* tickets (their numbers): given out; the compute stream is behind */
    int64_t must;           /* has to be behind when its task ends */
} gpu_lane;

enum { GPU_LANE_BITS = 4 }; /* a ticket names its lane in its last digits */
_Static_assert(LUO_LANES <= 1 << GPU_LANE_BITS, "a ticket names its lane in its last digits");

struct luo_rank { /* the interpreter's context */
    luo_job *job;
    luo_exec *x;
    const luo_step_order *order;
    int32_t task;    /* at hand; -1: none */
    int64_t tickets; /* given out */
    bool paced;      /* this step runs with a straggler's spins */
    double start_s;
    bool has_loss;
    luo_ledger ledger;
    luo_arena *scratch; /* of the ledger, reset per step */
    luo_arena *walk;    /* of the interpreter */
    luo_op_record *record;
    luo_comm_use *use, *used; /* per instruction of the role; those that ran */
    luo_err err;
};

typedef struct gpu_graph { /* a step as it runs when nothing disturbs it */
    int64_t quiet;         /* undisturbed steps so far; the second is captured */
    cudaGraphExec_t exec;  /* NULL: none */
    bool refused;          /* it can not be captured */
    int32_t nmarks, nspans;
    bool has_loss;
} gpu_graph;

struct luo_job {
    luo_exec *x;
    luo_arena *arena;
    int32_t id;
    luo_bound bound;
    char *slab, *messages; /* device */
    int64_t slab_bytes, message_bytes;
    char *tables; /* device: strips, chunks, heads */
    void *work;   /* device: of operations; one at a time on the compute stream */
    int64_t work_bytes;
    gpu_op *op;                       /* per instruction of the role */
    bool *fresh;                      /* per buffer: gradient not written in this step yet */
    const gpu_norm_chunk *norm_chunk; /* device */
    const gpu_update_chunk *update_chunk;
    int64_t nnorm, nupdate;
    gpu_type grad_type;
    gpu_batch batch;
    gpu_stamps stamps;
    gpu_step_answer *answer, *device_answer; /* mapped */
    uint64_t *since, *spun;                  /* device: of the pace */
    gpu_pace *pace;                          /* device */
    int32_t cap_pace;
    cudaEvent_t *event; /* one per communication of a step, by ticket */
    int32_t nevents;
    cudaEvent_t handover; /* from the compute stream to a lane */
    cudaEvent_t ended;    /* of a step */
    gpu_lane lane[LUO_LANES];
    gpu_graph graph;
    luo_rank rank;
    luo_state state; /* state.c */
    void *hold;      /* of state.c */
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
    _Atomic(luo_job *) at_hand;     /* for the watcher; NULL: none */
    bool graphs;
    void *gatherer; /* of state.c */
};

static inline void *gpu_buf(const luo_job *j, int32_t buffer, int32_t task)
{
    return luo_layout_at(&j->bound.layout, j->slab, buffer, task);
}
static inline gpu_array gpu_at(const luo_job *j, int32_t buffer, int32_t task)
{
    return (gpu_array){gpu_buf(j, buffer, task),
                       gpu_type_of(luo_bound_desc(&j->bound, buffer)->elem_bytes)};
}

/* executor.c */
extern const luo_executor luo_cuda_executor;

/* bind.c */
luo_status gpu_bind(luo_exec *x, int32_t id, const luo_programs *set, const luo_recipe *recipe,
                    luo_job **out, luo_err *err);
void gpu_unbind(luo_job *job);
gpu_piece gpu_piece_at(const luo_job *j, int32_t piece);

/* step.c */
luo_status gpu_step(luo_job *job, const luo_step_order *order, luo_step_report *out, luo_err *err);

/* state.c, move.c */
/* Memory is laid out and zero. Sets job->state. */
luo_status gpu_state_bind(luo_job *job, luo_err *err);
void gpu_state_unbind(luo_job *job); /* also after gpu_state_bind failed or never ran */
luo_state *gpu_state(luo_job *job);
luo_status gpu_move(luo_job *from, luo_job *to, const luo_switching *what, const luo_recipe *recipe,
                    luo_step_report *out, luo_err *err);
luo_status gpu_gather_open(luo_exec *x, luo_err *err);
void gpu_gather_close(luo_exec *x);
luo_status gpu_gather(luo_exec *x, luo_gather *out);
#endif
