/* launch.cuh: the one way to start a kernel; callers include no other launch API, so that
 * the same sources run on tests/standin. */
#ifndef LUO_EXEC_CUDA_KERNELS_LAUNCH_CUH
#define LUO_EXEC_CUDA_KERNELS_LAUNCH_CUH
#include <cuda_runtime.h>

#include <utility>

/* What a block gets without asking. */
enum { GPU_SHARED_PLAIN = 48 * 1024 };

/* Enqueues kernel(args...) on `stream`; args are converted to the kernel's parameter types and
 * copied now. grid, block: a 0 in grid does nothing. shared: bytes of gpu_dynamic_shared(); beyond
 * GPU_SHARED_PLAIN the kernel is allowed so much first, and must always be launched with the same
 * number then, since a captured launch keeps the kernel's allowance, not a copy of it.
 * Returns what CUDA returned; may be captured. */
template <typename... Wanted, typename... Given>
cudaError_t gpu_launch(void (*kernel)(Wanted...), dim3 grid, dim3 block, size_t shared,
                       cudaStream_t stream, Given &&...args)
{
    if (grid.x == 0 || grid.y == 0 || grid.z == 0) return cudaSuccess;
    if (shared > GPU_SHARED_PLAIN) {
        const cudaError_t code = cudaFuncSetAttribute(
            kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared));
        if (code != cudaSuccess) return code;
    }
    cudaLaunchConfig_t config = {};
    config.gridDim = grid;
    config.blockDim = block;
    config.dynamicSmemBytes = shared;
    config.stream = stream;
    return cudaLaunchKernelEx(&config, kernel, std::forward<Given>(args)...);
}
#endif
