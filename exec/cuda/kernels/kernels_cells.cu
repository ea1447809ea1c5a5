/* kernels_cells.cu: cells copied from where they lie to where they belong, and from one
 * type to another. */
#include "exec/cuda/kernels/units.cuh"

namespace
{
enum { THREADS = 256, EACH = 4 /* units of 16 bytes a thread */ };

/* The last segment of first..last that begins at or before element i, so one of those with
 * elements. */
__device__ __forceinline__ int32_t find(const gpu_copy_segment *segment, int32_t first,
                                        int32_t last, int64_t i)
{
    while (first < last) {
        const int32_t middle = first + (last - first + 1) / 2;
        if (segment[middle].first <= i)
            first = middle;
        else
            last = middle - 1;
    }
    return first;
}

/* Elements i.. below end, V at most, one by one. */
template <class E>
__device__ __forceinline__ void copy_single(const gpu_copy_segment *segment, int32_t s, int64_t i,
                                            int64_t end, const E *in, E *out)
{
    for (; i < end; i++) {
        while (i >= segment[s].first + segment[s].n) s++;
        out[segment[s].to + i - segment[s].first] = in[segment[s].from + i - segment[s].first];
    }
}

/* The block finds the segments of its first and its last element, and each unit looks between them,
 * mostly at one or two. A unit that lies in one segment, and at 16 bytes on both sides, goes in one
 * piece. */
template <class E>
__global__ void __launch_bounds__(THREADS)
    copy_segments(int32_t nsegments, const gpu_copy_segment *segment, int64_t elements, const E *in,
                  E *out)
{
    constexpr int V = 16 / sizeof(E);
    __shared__ int32_t ends[2];
    const int64_t first = static_cast<int64_t>(blockIdx.x) * THREADS * EACH * V;
    const int64_t past =
        first + THREADS * EACH * V < elements ? first + THREADS * EACH * V : elements;
    if (threadIdx.x < 2)
        ends[threadIdx.x] = find(segment, 0, nsegments - 1, threadIdx.x ? past - 1 : first);
    __syncthreads();
    uint4 whole[EACH];
    E *to[EACH];
    unsigned pieces = 0; /* bit k: unit k goes element by element, after the others' loads */
#pragma unroll
    for (int k = 0; k < EACH; k++) {
        const int64_t i = first + (k * THREADS + static_cast<int64_t>(threadIdx.x)) * V;
        to[k] = nullptr;
        if (i >= past) continue;
        const gpu_copy_segment s = segment[find(segment, ends[0], ends[1], i)];
        const E *from = in + s.from + (i - s.first);
        E *into = out + s.to + (i - s.first);
        if (i + V <= s.first + s.n &&
            (reinterpret_cast<uintptr_t>(from) | reinterpret_cast<uintptr_t>(into)) % 16 == 0) {
            whole[k] = *reinterpret_cast<const uint4 *>(from);
            to[k] = into;
        } else {
            pieces |= 1u << k;
        }
    }
#pragma unroll
    for (int k = 0; k < EACH; k++)
        if (to[k]) gpu_store_16(to[k], whole[k]);
#pragma unroll 1
    for (int k = 0; pieces >> k; k++) {
        const int64_t i = first + (k * THREADS + static_cast<int64_t>(threadIdx.x)) * V;
        if (pieces >> k & 1)
            copy_single(segment, find(segment, ends[0], ends[1], i), i, i + V < past ? i + V : past,
                        in, out);
    }
}
} // namespace

cudaError_t gpu_copy_segments(cudaStream_t stream, int32_t nsegments,
                              const gpu_copy_segment *segment, int64_t elements, int32_t elem_bytes,
                              const void *in, void *out)
{
    if (elem_bytes != 2 && elem_bytes != 4) return cudaErrorInvalidValue;
    const unsigned grid =
        nsegments > 0 ? gpu_blocks(elements, THREADS * EACH * (16 / elem_bytes)) : 0;
    if (elem_bytes == 2)
        return gpu_launch(copy_segments<uint16_t>, grid, THREADS, 0, stream, nsegments, segment,
                          elements, static_cast<const uint16_t *>(in),
                          static_cast<uint16_t *>(out));
    return gpu_launch(copy_segments<uint32_t>, grid, THREADS, 0, stream, nsegments, segment,
                      elements, static_cast<const uint32_t *>(in), static_cast<uint32_t *>(out));
}

cudaError_t gpu_convert(cudaStream_t stream, int64_t n, gpu_array from, gpu_array to)
{
    return gpu_add(stream, n, 1, &from, to);
}
