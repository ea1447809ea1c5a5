/* bind.h: what binding a program has at hand; for exec/cuda only.
 *
 * Tables that kernels read are collected on the host and go to the device in one piece; until then
 * the places that point to them are kept. */
#ifndef LUO_EXEC_CUDA_BIND_H
#define LUO_EXEC_CUDA_BIND_H
#include "exec/cuda/job.h"

typedef struct gpu_binder {
    luo_job *job;
    luo_arena *tmp; /* thrown away */
    gpu_fusion fusion;
    luo_err *err;
    char *blob;
    size_t bytes, cap_bytes;
    struct gpu_patch {
        const void **at;
        size_t offset;
    } * patch;
    size_t npatches, cap_patches;
} gpu_binder;

/* A copy of `data` will lie on the device, and *at point to it. *at stays where it is. */
luo_status gpu_binder_put(gpu_binder *binder, const void *data, int64_t bytes, const void **at);

/* The last task that runs an instruction; -1: none does. */
int32_t gpu_task_of(const luo_job *job, int32_t instr);

/* ops.c */
luo_status gpu_bind_op(gpu_binder *binder, gpu_op *op);
/* products.c */
luo_status gpu_bind_products(gpu_binder *binder, gpu_op *op);
luo_status gpu_run_nothing(luo_rank *rank, const gpu_op *op, int32_t task);
/* update.c */
luo_status gpu_bind_update(gpu_binder *binder);
/* context/block.c: of an attention whose heads are bound. */
luo_status gpu_bind_block(gpu_binder *binder, gpu_op *op, bool back);
/* .. which has whole documents, all of the micro-batch or some. */
luo_status gpu_bind_documents(gpu_binder *binder, gpu_op *op);
/* apart/ */
luo_status gpu_bind_copies(gpu_binder *binder);
luo_status gpu_bind_parts(gpu_binder *binder);
/* comm/transfer.c */
luo_status gpu_bind_transfer(gpu_binder *binder, gpu_op *op);
/* batch.c */
luo_status gpu_bind_order(gpu_binder *binder, gpu_op *op); /* of an embedding_dw */

static inline const luo_buffer *gpu_in(const luo_job *job, const gpu_op *op, int32_t i)
{
    return luo_bound_desc(&job->bound, op->b->instr->in[i]);
}
static inline const luo_buffer *gpu_out(const luo_job *job, const gpu_op *op, int32_t i)
{
    return luo_bound_desc(&job->bound, op->b->instr->out[i]);
}
#endif
