/* kernels_rope.cu: rotary positions. The sines of a token serve all its heads. */
#include "exec/cuda/kernels/turns.cuh"

namespace
{
enum {
    THREADS = 256,
    TOKENS = 8 /* of a block */,
    PAIRS = 64 /* whose sines are kept at a time */
};

/* sines[token][pair] of pairs first..first+pairs-1; the whole block. */
__device__ __forceinline__ void turn(int64_t token, int tokens, int64_t first, int pairs, int64_t d,
                                     const luo_turns &by, bool back, const int32_t *positions,
                                     double (&turns)[PAIRS], float (&sines)[TOKENS][PAIRS],
                                     float (&cosines)[TOKENS][PAIRS])
{
    const int thread = static_cast<int>(threadIdx.x);
    __syncthreads();    /* others still read the last pairs' */
    if (thread < pairs) turns[thread] = gpu_turns_of(first + thread, d, by);
    __syncthreads();
    const float factor = gpu_turn_factor(by);
    for (int i = thread; i < tokens * pairs; i += THREADS) {
        float s, c;
        gpu_turn(positions[token + i / pairs], turns[i % pairs], factor, back, &s, &c);
        sines[i / pairs][i % pairs] = s;
        cosines[i / pairs][i % pairs] = c;
    }
    __syncthreads();
}

template <int M>
__global__ void __launch_bounds__(THREADS)
    rope(int64_t t, int64_t heads, int64_t d, luo_turns by, bool back, int64_t tokens_each,
         const int32_t *positions, gpu_array x, gpu_array y)
{
    constexpr int V = gpu_width<M>;
    __shared__ double turns[PAIRS];
    __shared__ __align__(16) float sines[TOKENS][PAIRS], cosines[TOKENS][PAIRS];
    const int64_t token = blockIdx.x * tokens_each, left = t - token;
    const int64_t turned = by.turned > 0 ? by.turned : d, half = turned / 2;
    const int tokens = static_cast<int>(left < tokens_each ? left : tokens_each);
    for (int64_t first = 0; first < half; first += PAIRS) {
        const int pairs = static_cast<int>(half - first < PAIRS ? half - first : int64_t{PAIRS});
        turn(token, tokens, first, pairs, turned, by, back, positions, turns, sines, cosines);
        const int units = (pairs + V - 1) / V, rows = tokens * static_cast<int>(heads);
        for (int i = static_cast<int>(threadIdx.x); i < rows * units; i += THREADS) {
            const int row = i / units, j = i % units * V, k = row / static_cast<int>(heads);
            const int64_t at = (token * heads + row) * d + first;
            const gpu_unit<M, V> a = gpu_load_whole<M, V>(x, at + j, at + pairs);
            const gpu_unit<M, V> b = gpu_load_whole<M, V>(x, at + half + j, at + half + pairs);
            float to_a[V], to_b[V];
#pragma unroll
            for (int e = 0; e < V; e++) {
                const float s = sines[k][j + e], c = cosines[k][j + e];
                to_a[e] = gpu_value(a, e) * c - gpu_value(b, e) * s;
                to_b[e] = gpu_value(b, e) * c + gpu_value(a, e) * s;
            }
            gpu_store_whole<M, V>(y, at + j, at + pairs, to_a);
            gpu_store_whole<M, V>(y, at + half + j, at + half + pairs, to_b);
        }
    }
    const int64_t kept = (d - turned + V - 1) / V; /* units that do not turn */
    for (int64_t i = threadIdx.x; i < tokens * heads * kept; i += THREADS) {
        const int64_t end = (token * heads + i / kept + 1) * d;
        const int64_t at = end - d + turned + i % kept * V;
        const gpu_unit<M, V> u = gpu_load_whole<M, V>(x, at, end);
        float to[V];
#pragma unroll
        for (int e = 0; e < V; e++) to[e] = gpu_value(u, e);
        gpu_store_whole<M, V>(y, at, end, to);
    }
}
} // namespace

cudaError_t gpu_rope(cudaStream_t stream, int64_t t, int64_t heads, int64_t d, luo_turns by,
                     bool back, const int32_t *positions, gpu_array x, gpu_array y)
{
    const int64_t turned = by.turned > 0 ? by.turned : d;
    const int mode = gpu_row_mode(gpu_row_mode(gpu_mode(x, y), turned / 2), d);
    const int64_t each = t >= 132 * 4 * TOKENS ? TOKENS : t >= 132 * 8 ? 2 : 1;
    const unsigned grid = heads > 0 ? gpu_blocks(t, each) : 0;
    return gpu_launch(GPU_OF_MODE(mode, rope), grid, THREADS, 0, stream, t, heads, d, by,
                      back, each, positions, x, y);
}
