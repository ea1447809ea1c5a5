/* units.cuh: arrays read and written in units of V elements, 16 bytes where it can be.
 *
 * How a kernel reads an array is its mode, a template argument: GPU_F32 and GPU_BF16 say that the
 * array has this type and begins at a multiple of 16 bytes; GPU_ANY reads element by element and
 * asks the array for its type. So one source serves all types and alignments, and the fast
 * instances have no questions left. A unit begins at a multiple of V elements unless the mode is
 * GPU_ANY; elements outside lo..hi-1 are neither read nor written.
 */
#ifndef LUO_EXEC_CUDA_KERNELS_UNITS_CUH
#define LUO_EXEC_CUDA_KERNELS_UNITS_CUH
#include "exec/cuda/kernels/device.cuh"
#include "exec/cuda/kernels/kernels.h"
#include "exec/cuda/kernels/launch.cuh"

enum { GPU_ANY = 2 };

/* Elements of a unit where every array has mode M. */
template <int M> constexpr int gpu_width = M == GPU_BF16 ? 8 : 4;

/* A unit as it was read; bf16 stay packed until they are asked for, so that several units can be
 * under way before the first is needed. */
template <int M, int V> struct gpu_unit {
    float at[V];
};
template <int V> struct gpu_unit<GPU_BF16, V> {
    uint32_t at[V / 2];
};

template <int M, int V>
static __device__ __forceinline__ float gpu_value(const gpu_unit<M, V> &u, int e)
{
    if constexpr (M == GPU_BF16)
        return __uint_as_float(e % 2 ? u.at[e / 2] & 0xffff0000u : u.at[e / 2] << 16);
    else
        return u.at[e];
}

/* ---- one element ---- */

static __device__ __forceinline__ float gpu_get(gpu_array a, int64_t i)
{
    if (a.type == GPU_F32) return static_cast<const float *>(a.at)[i];
    return __uint_as_float(static_cast<uint32_t>(static_cast<const uint16_t *>(a.at)[i]) << 16);
}

static __device__ __forceinline__ void gpu_put(gpu_array a, int64_t i, float v)
{
    if (a.type == GPU_F32)
        static_cast<float *>(a.at)[i] = v;
    else
        static_cast<uint16_t *>(a.at)[i] = static_cast<uint16_t>(gpu_pack_bf16(v, 0));
}

/* ---- whole units ---- */

template <int V>
static __device__ __forceinline__ void gpu_load_wide(gpu_unit<GPU_F32, V> &u, gpu_array a,
                                                     int64_t i)
{
    const float4 *from = reinterpret_cast<const float4 *>(static_cast<const float *>(a.at) + i);
#pragma unroll
    for (int k = 0; k < V / 4; k++) {
        const float4 w = from[k];
        u.at[4 * k] = w.x, u.at[4 * k + 1] = w.y, u.at[4 * k + 2] = w.z, u.at[4 * k + 3] = w.w;
    }
}
static __device__ __forceinline__ void gpu_load_wide(gpu_unit<GPU_BF16, 8> &u, gpu_array a,
                                                     int64_t i)
{
    const uint4 w = *reinterpret_cast<const uint4 *>(static_cast<const uint16_t *>(a.at) + i);
    u.at[0] = w.x, u.at[1] = w.y, u.at[2] = w.z, u.at[3] = w.w;
}
static __device__ __forceinline__ void gpu_load_wide(gpu_unit<GPU_BF16, 4> &u, gpu_array a,
                                                     int64_t i)
{
    const uint2 w = *reinterpret_cast<const uint2 *>(static_cast<const uint16_t *>(a.at) + i);
    u.at[0] = w.x, u.at[1] = w.y;
}

template <int V>
static __device__ __forceinline__ void gpu_store_wide(const gpu_unit<GPU_F32, V> &u, gpu_array a,
                                                      int64_t i)
{
    float *to = static_cast<float *>(a.at) + i;
#pragma unroll
    for (int k = 0; k < V; k += 4) {
        const float *v = u.at + k;
        gpu_store_16(to + k, make_uint4(__float_as_uint(v[0]), __float_as_uint(v[1]),
                                        __float_as_uint(v[2]), __float_as_uint(v[3])));
    }
}
static __device__ __forceinline__ void gpu_store_wide(const gpu_unit<GPU_BF16, 8> &u, gpu_array a,
                                                      int64_t i)
{
    gpu_store_16(static_cast<uint16_t *>(a.at) + i, make_uint4(u.at[0], u.at[1], u.at[2], u.at[3]));
}
static __device__ __forceinline__ void gpu_store_wide(const gpu_unit<GPU_BF16, 4> &u, gpu_array a,
                                                      int64_t i)
{
    gpu_store_8(static_cast<uint16_t *>(a.at) + i, make_uint2(u.at[0], u.at[1]));
}

/* ---- units at an edge: element by element ---- */

template <int M, int V>
static __device__ __forceinline__ void gpu_set(gpu_unit<M, V> &u, int e, float v)
{
    if constexpr (M == GPU_BF16) {
        const uint32_t bits = gpu_pack_bf16(v, 0) & 0xffff;
        if (e % 2)
            u.at[e / 2] |= bits << 16;
        else
            u.at[e / 2] = bits;
    } else {
        u.at[e] = v;
    }
}

/* Elements i..i+V-1 of a; `fill` where outside lo..hi-1. */
template <int M, int V>
static __device__ __forceinline__ gpu_unit<M, V> gpu_load(gpu_array a, int64_t i, int64_t lo,
                                                          int64_t hi, float fill = 0)
{
    gpu_unit<M, V> u;
    if constexpr (M != GPU_ANY) {
        a.type = static_cast<gpu_type>(M);
        if (i >= lo && i + V <= hi) {
            gpu_load_wide(u, a, i);
            return u;
        }
    }
#pragma unroll
    for (int e = 0; e < V; e++)
        gpu_set(u, e, i + e >= lo && i + e < hi ? gpu_get(a, i + e) : fill);
    return u;
}

/* a[i + e] = v[e] where lo <= i + e < hi, rounded to a's type. */
template <int M, int V>
static __device__ __forceinline__ void gpu_store(gpu_array a, int64_t i, int64_t lo, int64_t hi,
                                                 const float (&v)[V])
{
    if constexpr (M != GPU_ANY) {
        a.type = static_cast<gpu_type>(M);
        if (i >= lo && i + V <= hi) {
            gpu_unit<M, V> u;
#pragma unroll
            for (int e = 0; e < V; e += 2)
                if constexpr (M == GPU_BF16)
                    u.at[e / 2] = gpu_pack_bf16(v[e], v[e + 1]);
                else
                    u.at[e] = v[e], u.at[e + 1] = v[e + 1];
            gpu_store_wide(u, a, i);
            return;
        }
    }
#pragma unroll
    for (int e = 0; e < V; e++)
        if (i + e >= lo && i + e < hi) gpu_put(a, i + e, v[e]);
}

/* The same where units are whole, that is, where lo and hi are multiples of V unless M is GPU_ANY:
 * rows of gpu_row_mode. i is not below lo. */
template <int M, int V>
static __device__ __forceinline__ gpu_unit<M, V> gpu_load_whole(gpu_array a, int64_t i, int64_t hi)
{
    if constexpr (M == GPU_ANY) return gpu_load<M, V>(a, i, i, hi);
    gpu_unit<M, V> u = {};
    if constexpr (M != GPU_ANY)
        if (i < hi) gpu_load_wide(u, a, i);
    return u;
}
template <int M, int V>
static __device__ __forceinline__ void gpu_store_whole(gpu_array a, int64_t i, int64_t hi,
                                                       const float (&v)[V])
{
    if (M == GPU_ANY)
        gpu_store<M, V>(a, i, i, hi, v);
    else if (i < hi)
        gpu_store<M, V>(a, i, i, i + V, v);
}

/* ---- on the host: which mode, how many blocks ---- */

static inline bool gpu_aligned(const void *at)
{
    return reinterpret_cast<uintptr_t>(at) % 16 == 0;
}
static inline int gpu_mode(gpu_array a)
{
    return gpu_aligned(a.at) ? static_cast<int>(a.type) : static_cast<int>(GPU_ANY);
}
/* One mode for all of them: GPU_ANY unless they have the same. An array of NULL has every mode. */
template <typename... Arrays> static inline int gpu_mode(gpu_array first, Arrays... rest)
{
    const int mode = gpu_mode(rest...);
    return !first.at || gpu_mode(first) == mode ? mode : static_cast<int>(GPU_ANY);
}
/* .. and rows of n elements begin at whole units of it. */
static inline int gpu_row_mode(int mode, int64_t n)
{
    return n % (mode == GPU_BF16 ? 8 : 4) == 0 ? mode : static_cast<int>(GPU_ANY);
}
static inline int gpu_width_of(int mode)
{
    return mode == GPU_BF16 ? 8 : 4;
}

/* Blocks for n things, `per` of them each. More than 2^31 - 1 would need terabytes. */
static inline unsigned gpu_blocks(int64_t n, int64_t per)
{
    return static_cast<unsigned>((n + per - 1) / per);
}

/* kernel<mode> of a mode known at run time. */
#define GPU_OF_MODE(mode, kernel)                                                                  \
    ((mode) == GPU_F32 ? kernel<GPU_F32> : (mode) == GPU_BF16 ? kernel<GPU_BF16> : kernel<GPU_ANY>)
#endif
