/* kernels_latent.cu: latent attention: positions turn the last elements of a query, and what all
 * heads share of a key, which is put behind the part of each head; and back. A block a token. */
#include "exec/cuda/kernels/turns.cuh"

namespace
{
enum { THREADS = 128, PAIRS = 64 /* whose sines are kept at a time */ };

struct latent_shape {
    int64_t heads, d, turned;
    luo_turns by;
    const int32_t *positions;
};

/* Of pairs first..first+pairs-1 of the block's token; the whole block. */
__device__ __forceinline__ void sines_of(const latent_shape &l, int64_t first, int pairs, bool back,
                                         float (&sines)[PAIRS], float (&cosines)[PAIRS])
{
    __syncthreads(); /* others still read the last pairs' */
    for (int i = static_cast<int>(threadIdx.x); i < pairs; i += THREADS)
        gpu_turn(l.positions[blockIdx.x], gpu_turns_of(first + i, l.turned, l.by),
                 gpu_turn_factor(l.by), back, &sines[i], &cosines[i]);
    __syncthreads();
}

/* n elements of each head, from rows of `from_each` to rows of `to_each`. */
template <int M>
__device__ __forceinline__ void copy_heads(int64_t heads, int64_t n, gpu_array from,
                                           int64_t from_each, gpu_array to, int64_t to_each)
{
    constexpr int V = gpu_width<M>;
    const int64_t units = (n + V - 1) / V, row = static_cast<int64_t>(blockIdx.x) * heads;
    for (int64_t i = threadIdx.x; i < heads * units; i += THREADS) {
        const int64_t j = i % units * V;
        const int64_t in = (row + i / units) * from_each, out = (row + i / units) * to_each;
        const gpu_unit<M, V> u = gpu_load_whole<M, V>(from, in + j, in + n);
        float v[V];
#pragma unroll
        for (int e = 0; e < V; e++) v[e] = gpu_value(u, e);
        gpu_store_whole<M, V>(to, out + j, out + n, v);
    }
}

/* A unit of pairs: those at a and half a turn's length behind it, written to `to`. */
template <int M, int V>
__device__ __forceinline__ void put_turned(const float (&a)[V], const float (&b)[V],
                                           const float *sines, const float *cosines, gpu_array y,
                                           int64_t to, int64_t half, int64_t left)
{
    float to_a[V], to_b[V];
#pragma unroll
    for (int e = 0; e < V; e++) {
        const bool in = M != GPU_ANY || e < left;
        const float s = in ? sines[e] : 0, c = in ? cosines[e] : 0;
        to_a[e] = a[e] * c - b[e] * s;
        to_b[e] = b[e] * c + a[e] * s;
    }
    gpu_store_whole<M, V>(y, to, to + left, to_a);
    gpu_store_whole<M, V>(y, to + half, to + half + left, to_b);
}

/* The pairs at x[from..] and x[from + half..], turned, to y[to..] and y[to + half..]. */
template <int M>
__device__ __forceinline__ void turn_unit(gpu_array x, int64_t from, const float *sines,
                                          const float *cosines, gpu_array y, int64_t to,
                                          int64_t half, int64_t left)
{
    constexpr int V = gpu_width<M>;
    const gpu_unit<M, V> u = gpu_load_whole<M, V>(x, from, from + left);
    const gpu_unit<M, V> w = gpu_load_whole<M, V>(x, from + half, from + half + left);
    float a[V], b[V];
#pragma unroll
    for (int e = 0; e < V; e++) a[e] = gpu_value(u, e), b[e] = gpu_value(w, e);
    put_turned<M, V>(a, b, sines, cosines, y, to, half, left);
}

template <int M>
__global__ void __launch_bounds__(THREADS)
    latent(latent_shape l, gpu_array q, gpu_array k, gpu_array shared, gpu_array yq, gpu_array yk)
{
    constexpr int V = gpu_width<M>;
    __shared__ __align__(16) float sines[PAIRS], cosines[PAIRS];
    const int64_t kept = l.d - l.turned, half = l.turned / 2, token = blockIdx.x;
    copy_heads<M>(l.heads, kept, q, l.d, yq, l.d);
    copy_heads<M>(l.heads, kept, k, kept, yk, l.d);
    for (int64_t first = 0; first < half; first += PAIRS) {
        const int pairs = static_cast<int>(half - first < PAIRS ? half - first : int64_t{PAIRS});
        sines_of(l, first, pairs, false, sines, cosines);
        const int units = (pairs + V - 1) / V;
        for (int64_t i = threadIdx.x; i < l.heads * units; i += THREADS) {
            const int j = static_cast<int>(i % units) * V, left = pairs - j;
            const int64_t at = (token * l.heads + i / units) * l.d + kept + first + j;
            turn_unit<M>(q, at, sines + j, cosines + j, yq, at, half, left);
            turn_unit<M>(shared, token * l.turned + first + j, sines + j, cosines + j, yk, at, half,
                         left);
        }
    }
}

/* Sums over the heads in their order. */
template <int M>
__device__ __forceinline__ void sum_heads(const latent_shape &l, gpu_array dyk, int64_t at,
                                          int64_t left, float (&sum)[gpu_width<M>])
{
    constexpr int V = gpu_width<M>;
    const int64_t first = static_cast<int64_t>(blockIdx.x) * l.heads * l.d + l.d - l.turned + at;
#pragma unroll
    for (int e = 0; e < V; e++) sum[e] = 0;
#pragma unroll 4
    for (int64_t h = 0; h < l.heads; h++) {
        const int64_t from = first + h * l.d;
        const gpu_unit<M, V> u = gpu_load_whole<M, V>(dyk, from, from + left);
#pragma unroll
        for (int e = 0; e < V; e++) sum[e] += gpu_value(u, e);
    }
}

template <int M>
__global__ void __launch_bounds__(THREADS) latent_dx(latent_shape l, gpu_array dyq, gpu_array dyk,
                                                     gpu_array dq, gpu_array dk, gpu_array dshared)
{
    constexpr int V = gpu_width<M>;
    __shared__ __align__(16) float sines[PAIRS], cosines[PAIRS];
    const int64_t kept = l.d - l.turned, half = l.turned / 2, token = blockIdx.x;
    copy_heads<M>(l.heads, kept, dyq, l.d, dq, l.d);
    copy_heads<M>(l.heads, kept, dyk, l.d, dk, kept);
    for (int64_t first = 0; first < half; first += PAIRS) {
        const int pairs = static_cast<int>(half - first < PAIRS ? half - first : int64_t{PAIRS});
        sines_of(l, first, pairs, true, sines, cosines);
        const int units = (pairs + V - 1) / V;
        for (int64_t i = threadIdx.x; i < (l.heads + 1) * units; i += THREADS) {
            const int j = static_cast<int>(i % units) * V, left = pairs - j;
            if (i >= units) {
                const int64_t at = (token * l.heads + i / units - 1) * l.d + kept + first + j;
                turn_unit<M>(dyq, at, sines + j, cosines + j, dq, at, half, left);
                continue;
            }
            float a[V], b[V];
            sum_heads<M>(l, dyk, first + j, left, a);
            sum_heads<M>(l, dyk, half + first + j, left, b);
            put_turned<M, V>(a, b, sines + j, cosines + j, dshared, token * l.turned + first + j,
                             half, left);
        }
    }
}

/* Units where all parts of a head are whole units. */
int mode_of(int mode, int64_t d, int64_t turned)
{
    return gpu_row_mode(gpu_row_mode(mode, d - turned), turned / 2);
}
} // namespace

cudaError_t gpu_latent(cudaStream_t stream, int64_t t, int64_t heads, int64_t d, int64_t turned,
                       luo_turns by, const int32_t *positions, gpu_array q, gpu_array k,
                       gpu_array shared, gpu_array yq, gpu_array yk)
{
    const int mode = mode_of(gpu_mode(q, k, shared, yq, yk), d, turned);
    const latent_shape l = {heads, d, turned, by, positions};
    return gpu_launch(GPU_OF_MODE(mode, latent), heads > 0 ? gpu_blocks(t, 1) : 0, THREADS, 0,
                      stream, l, q, k, shared, yq, yk);
}

cudaError_t gpu_latent_dx(cudaStream_t stream, int64_t t, int64_t heads, int64_t d, int64_t turned,
                          luo_turns by, const int32_t *positions, gpu_array dyq, gpu_array dyk,
                          gpu_array dq, gpu_array dk, gpu_array dshared)
{
    const int mode = mode_of(gpu_mode(dyq, dyk, dq, dk, dshared), d, turned);
    const latent_shape l = {heads, d, turned, by, positions};
    return gpu_launch(GPU_OF_MODE(mode, latent_dx), gpu_blocks(t, 1), THREADS, 0, stream, l, dyq,
                      dyk, dq, dk, dshared);
}
