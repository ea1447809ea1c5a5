/* columns.cuh: sums over the rows of a matrix, in two stages: a part of the rows a block,
 * then the parts in order. Partial sums lie in the work memory, f32, one row of columns a part. */
#ifndef LUO_EXEC_CUDA_KERNELS_COLUMNS_CUH
#define LUO_EXEC_CUDA_KERNELS_COLUMNS_CUH
#include "exec/cuda/kernels/units.cuh"

/* At most two blocks on each of 132 multiprocessors, which H100 and H200 have; the number decides
 * the order of the sums, so it is the same everywhere. Fewer rows than 8 are not worth a part. */
constexpr int64_t GPU_PARTS_MOST = 264, GPU_PART_ROWS = 8;

static inline int64_t gpu_parts(int64_t t)
{
    const int64_t parts = (t + GPU_PART_ROWS - 1) / GPU_PART_ROWS;
    return parts < 1 ? 1 : parts < GPU_PARTS_MOST ? parts : GPU_PARTS_MOST;
}

/* out[j] (+)= sum of work[p * stride + first + j], p = 0..parts-1; j = 0..n-1. kernels_rows.cu */
cudaError_t gpu_columns_finish(cudaStream_t stream, int64_t parts, int64_t n, const float *work,
                               int64_t stride, bool add, gpu_array out);
#endif
