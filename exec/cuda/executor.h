/* executor.h: one rank and one GPU: the row of CUDA.
 *
 * Ranks of a host take its visible GPUs in turn; there may be more ranks than GPUs. Computes in f32
 * (never TF32) and in bf16 with f32 weights beside. In the environment:
 *   LUO_CUDA_GRAPHS=0      every step is launched anew; else an undisturbed one is captured once as
 *                          a CUDA graph. The bits are the same.
 *   LUO_CUDA_STUCK_S=N     a step without progress for N seconds is given up here: its
 *                          communicators are aborted, its status is LUO_ESTUCK. Else that is left
 *                          to the coordinator, which knows all ranks. */
#ifndef LUO_EXEC_CUDA_EXECUTOR_H
#define LUO_EXEC_CUDA_EXECUTOR_H
#include "exec/rank/rank.h"

extern const luo_rank_executor luo_cuda_executor;
#endif
