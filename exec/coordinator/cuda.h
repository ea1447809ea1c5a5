/* cuda.h: the row of the backend table for real runs on GPUs, as the coordinator uses it.
 *
 * As exec/coordinator/host.h in everything but the precision (bf16 or f32) and the program of a
 * rank. It is in every build: the coordinator knows no CUDA, and `luoshu-rank-cuda` is a file that
 * may be there.
 */
#ifndef LUO_EXEC_COORDINATOR_CUDA_H
#define LUO_EXEC_COORDINATOR_CUDA_H
#include "core/run/backend.h"

extern const luo_backend luo_cuda_backend;
#endif
