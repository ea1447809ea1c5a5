/* exec/cuda/executor.h: one rank and one GPU: the row of CUDA.
 *
 * Ranks of a host take its visible GPUs in turn; there may be more ranks than GPUs. Computes in f32
 * (never TF32) and in bf16 with f32 weights beside. In the environment: LUO_CUDA_GRAPHS=0 launches
 * every step anew, where else an undisturbed one is captured once as a CUDA graph; the bits are the
 * same. */
#ifndef LUO_EXEC_CUDA_EXECUTOR_H
#define LUO_EXEC_CUDA_EXECUTOR_H
#include "exec/rank.h"

extern const luo_executor luo_cuda_executor;
#endif
