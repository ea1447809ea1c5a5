/* calibrate.h: measures GPUs with the executor's own kernels, products and communicators
 * (docs/calibration.md#measuring-a-machine): what `luoshu-rank-cuda --calibrate DIR` does, on one
 * rank for what one GPU can, on all for communication.
 *
 *   calibrate.c        timing, the table of what is measured, facts of the device
 *   calibrate_ops.c    products, attention, streaming kernels
 *   calibrate_host.c   launches, copies between host and device, the disk
 *   calibrate_comm.c   collectives and messages
 *   calibrate_steps.c  steps of small networks: what the host costs
 *
 * Rows of op_times: `gemm` m x n x k; `attention_forward`, `attention_backward` of m tokens, n
 * query heads of size k, causal; `stream`, m bytes moved by one kernel. Every fourth size is held
 * out: role validation.
 */
#ifndef LUO_EXEC_CUDA_CALIBRATE_CALIBRATE_H
#define LUO_EXEC_CUDA_CALIBRATE_CALIBRATE_H
#include "exec/calibrate/calibrate.h"
#include "exec/cuda/comm/comm.h"
#include "exec/cuda/product.h"

typedef struct gpu_bench { /* one rank while it measures */
    luo_measurer *m;
    gpu_facts facts;
    cudaStream_t stream;
    cudaEvent_t begin, end;
    char *slab; /* device memory that everything is measured in, touched in turns */
    int64_t slab_bytes;
    luo_err *err;
} gpu_bench;

/* Enqueues what is measured once, on b->stream; turn: counts, so that buffers can alternate. */
typedef luo_status (*gpu_bench_fn)(gpu_bench *b, void *what, int64_t turn);

/* Five runs to warm up; then as many as fill a millisecond, 64 at most, are captured in one graph,
 * as steps run, so that no time of the host is between them; it is launched until 20 repetitions
 * and 0.2 s (with m->networks: once, for tests). Median of the time of one run, by events. */
luo_status gpu_bench_time(gpu_bench *bench, gpu_bench_fn run, void *what, double *seconds,
                          int32_t *samples);
/* A graph of so many runs, one after the other. Owner: the caller. */
luo_status gpu_bench_capture(gpu_bench *bench, gpu_bench_fn run, void *what, int32_t times,
                             cudaGraphExec_t *out);
/* One row of op_times; `place` counts the rows of a kind: every fourth is held out. */
void gpu_bench_row(gpu_bench *bench, const char *op, gpu_type type, int64_t m, int64_t n, int64_t k,
                   double seconds, int32_t samples, int32_t place);
/* A place of the slab for n bytes: the slab is used round and round. NULL: it is too small. */
void *gpu_bench_place(const gpu_bench *bench, int64_t turn, int64_t bytes);
/* The first place of n bytes is copied to all others that gpu_bench_time comes to. */
luo_status gpu_bench_spread(gpu_bench *bench, int64_t bytes);

/* Fact `beside_bytes NAME`: what a rank keeps of the GPU beside its tensors (context, code of
 * kernels and libraries, communicators). Pre: nobody else uses the GPUs; `ranks` of this host have
 * a slab each and stand still. */
luo_status gpu_measure_beside(gpu_bench *bench, const char *name, int32_t ranks);
luo_status gpu_measure_products(gpu_bench *bench);
luo_status gpu_measure_attention(gpu_bench *bench);
luo_status gpu_measure_streams(gpu_bench *bench);
luo_status gpu_measure_launches(gpu_bench *bench);
luo_status gpu_measure_copies(gpu_bench *bench);
luo_status gpu_measure_disk(gpu_bench *bench);
/* Facts `step_gpu_s NAME`, `step_kernels NAME`, `step_s NAME`. Pre: one rank; bench holds no
 * memory. */
luo_status gpu_measure_steps(gpu_bench *bench);
luo_status gpu_measure_comm(gpu_bench *bench);

extern const luo_measuring gpu_measuring;
#endif
