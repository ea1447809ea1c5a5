/* moe.h: layers with experts in a bound program on one GPU; for exec/cuda only.
 *
 *   experts.c   choices, rows by expert, their activations
 *   grouped.c   products of the rows of each expert
 *   counts.c    counts of rows that the host knows: it asks for products and messages of their size
 *   trade.c     rows to the experts and back, in one step or by node in two
 *   leader.c    the same through the first device of each node
 *   open.c      memory of all that; the loss of unbalanced experts
 *   experts.h   the kernels: route.cu, rows.cu, counting.cuh
 *
 * How many rows an expert gets is known when the step runs. Whoever makes counts on the device has
 * them copied to page-locked memory behind it, with an event; who needs them waits for that event
 * on the host, once for each task and buffer, and lets the watchdog look meanwhile. So steps with
 * experts are launched one by one, never captured as graphs. */
#ifndef LUO_EXEC_CUDA_MOE_MOE_H
#define LUO_EXEC_CUDA_MOE_MOE_H
#include "exec/cuda/bind.h"
#include "exec/cuda/moe/experts.h"

typedef struct gpu_mirror { /* of a buffer of counts, one for each of its copies */
    int32_t buffer, copies;
    int64_t n, between; /* counts; and those of what goes through here, see trade.c, leader.c */
    float *at;          /* page-locked: n + between of every copy */
    cudaEvent_t *event; /* per copy: they have come */
    bool *awaited;      /* per copy: nobody has waited for it yet */
} gpu_mirror;

struct gpu_moe { /* of a job */
    luo_gate gate;
    gpu_gate asked;
    int32_t nmirrors;
    gpu_mirror *mirror;
    int32_t *mirror_of;   /* per buffer; -1: none */
    int32_t *makes;       /* per instruction: the mirror of the counts that it makes; -1: none */
    gpu_message *message; /* room for one exchange */
    int64_t *start;       /* the same: first row of a sender's for an expert here */
    char *mid;            /* device: between the two steps of an exchange */
    int64_t mid_bytes;
    const gpu_op *mid_user; /* second step of the latest one; NULL: none in this step */
    double *loss, *parts;   /* device: of the step, this device's part of it; of gpu_balance */
    double *loss_here;      /* page-locked: the same when the step has ended */
    /* balanced assignment: what the host deals by */
    cudaEvent_t logits_are_here;
    float *logits;
    int32_t *dealt, *dealt_there; /* page-locked, device */
    void *batch_memory;
};

/* In the middle of a launch the device idles until the host goes on: it does not fall asleep. */
#define GPU_SPIN_S 20e-3

gpu_gate gpu_gate_of(const luo_gate *gate); /* open.c */

/* open.c. NULL without experts. */
luo_status gpu_moe_open(luo_job *job, luo_err *err);
void gpu_moe_close(luo_job *job);
luo_status gpu_moe_begin(luo_rank *rank); /* of a step */
luo_status gpu_moe_end(luo_rank *rank);
int64_t gpu_moe_bytes(const luo_job *job); /* of the device, beside the slab */
double gpu_moe_loss(const luo_job *job);   /* Pre: the step has ended */

/* counts.c */
/* Behind an instruction on its stream: counts that it has made go to the host. */
luo_status gpu_counts_made(luo_rank *rank, const gpu_op *op, int32_t task, cudaStream_t stream);
/* Counts of a buffer; *between, NULL: not wanted. Waits for them. Errors: LUO_EPEER they are no
 * counts: communication was given up. */
luo_status gpu_counts_at(luo_rank *rank, int32_t buffer, int32_t task, const float **counts,
                         const float **between);

/* trade.c */
luo_status gpu_bind_trade(gpu_binder *binder, gpu_op *op);
/* Memory between the steps is one for all exchanges: the compute stream waits for the last. */
luo_status gpu_trade_settle(luo_rank *rank, const gpu_op *op);
luo_status gpu_trade_send(luo_rank *rank, const gpu_op *op, int32_t task, cudaStream_t stream);
int64_t gpu_trade_blocks(const luo_bound_trade *trade);   /* that arrive at experts here */
int64_t gpu_trade_messages(const luo_bound_trade *trade); /* of one exchange at most */
int64_t gpu_trade_mid_bytes(const luo_bound_comm *comm);  /* 0: it goes in one step */
/* Counts of what goes through here, in the middle of the way: by node of the senders of this node
 * for the experts of its place. */
int64_t gpu_trade_between(const luo_bound_trade *trade);

/* experts.c */
luo_status gpu_bind_places(gpu_binder *binder, gpu_op *op);
luo_status gpu_run_route(luo_rank *rank, const gpu_op *op, int32_t task);
luo_status gpu_run_route_dx(luo_rank *rank, const gpu_op *op, int32_t task);
luo_status gpu_run_pack(luo_rank *rank, const gpu_op *op, int32_t task);
luo_status gpu_run_pack_dx(luo_rank *rank, const gpu_op *op, int32_t task);
luo_status gpu_run_combine(luo_rank *rank, const gpu_op *op, int32_t task);
luo_status gpu_run_combine_dx(luo_rank *rank, const gpu_op *op, int32_t task);
luo_status gpu_run_token_gate(luo_rank *rank, const gpu_op *op, int32_t task);
luo_status gpu_run_token_gate_dx(luo_rank *rank, const gpu_op *op, int32_t task);
luo_status gpu_run_rows_activation(luo_rank *rank, const gpu_op *op, int32_t task);
luo_status gpu_run_rows_activation_dx(luo_rank *rank, const gpu_op *op, int32_t task);

/* grouped.c */
/* Rows of expert e here, from all that send some. */
int64_t gpu_expert_rows(const luo_expert_rows *rows, const float *counts, int64_t e);
luo_status gpu_run_grouped(luo_rank *rank, const gpu_op *op, int32_t task);
/* Products of all numbers of rows that can come run once, at the end of binding: code that is
 * loaded while steps run can wait for kernels of NCCL that wait for peers. Their memory is there,
 * no step runs. */
luo_status gpu_moe_warm(luo_job *job, const luo_programs *set, luo_err *err);
#endif
