/* kernels_time.cu: the device's clock in memory, and time spent on purpose. One thread
 * each. */
#include "exec/cuda/kernels/device.cuh"
#include "exec/cuda/kernels/kernels.h"
#include "exec/cuda/kernels/launch.cuh"

namespace
{
__global__ void stamp(volatile uint64_t *slot)
{
    *slot = gpu_clock_ns();
    __threadfence_system();
}

__device__ __forceinline__ double slowdown_at(int32_t n, const gpu_pace *pace, uint64_t now)
{
    double f = 1;
    for (int32_t i = 0; i < n && pace[i].at_ns <= now; i++) f = pace[i].slowdown;
    return f;
}

/* As the host: what is owed is known when the instruction is done. The flag lies in the host's
 * memory, so it is looked at now and then. */
__global__ void spin(const uint64_t *since, int32_t n, const gpu_pace *pace, uint64_t most_ns,
                     const gpu_step_answer *answer, uint64_t *spun)
{
    const uint64_t begin = gpu_clock_ns(), look_ns = 20000;
    const uint64_t worked = begin > *since ? begin - *since : 0;
    const double more = static_cast<double>(worked) * (slowdown_at(n, pace, begin) - 1);
    const uint64_t owed = more <= 0                              ? 0
                          : more >= static_cast<double>(most_ns) ? most_ns
                                                                 : static_cast<uint64_t>(more);
    const volatile int32_t *drain = answer ? &answer->drain : nullptr;
    uint64_t now = begin, looked = begin;
    bool drains = owed > 0 && drain && *drain;
    while (!drains && now - begin < owed) {
        now = gpu_clock_ns();
        if (!drain || now - looked < look_ns) continue;
        looked = now;
        drains = *drain != 0;
    }
    *spun += now - begin;
}
struct delay_rows {
    gpu_delay_row at[GPU_DELAYS];
};

__global__ void delay(int32_t n, delay_rows row, const gpu_step_answer *answer)
{
    const uint64_t begin = gpu_clock_ns(), look_ns = 20000;
    uint64_t owed = 0, now = begin, looked = begin;
    for (int32_t i = 0; i < n && row.at[i].at_ns <= begin; i++) owed = row.at[i].wait_ns;
    const volatile int32_t *drain = answer ? &answer->drain : nullptr;
    bool drains = owed > 0 && drain && *drain;
    while (!drains && now - begin < owed) {
        now = gpu_clock_ns();
        if (!drain || now - looked < look_ns) continue;
        looked = now;
        drains = *drain != 0;
    }
}
} // namespace

cudaError_t gpu_delay(cudaStream_t stream, int32_t n, const gpu_delay_row *row,
                      const gpu_step_answer *answer)
{
    delay_rows rows = {};
    if (n < 0 || n > GPU_DELAYS) return cudaErrorInvalidValue;
    for (int32_t i = 0; i < n; i++) rows.at[i] = row[i];
    return n == 0 ? cudaSuccess : gpu_launch(delay, 1, 1, 0, stream, n, rows, answer);
}

cudaError_t gpu_stamp(cudaStream_t stream, uint64_t *slot)
{
    return gpu_launch(stamp, 1, 1, 0, stream, slot);
}

cudaError_t gpu_spin(cudaStream_t stream, const uint64_t *since, int32_t n, const gpu_pace *pace,
                     uint64_t most_ns, const gpu_step_answer *answer, uint64_t *spun)
{
    return gpu_launch(spin, 1, 1, 0, stream, since, n, pace, most_ns, answer, spun);
}
