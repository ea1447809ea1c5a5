/* kernels_pointwise.cu: what looks at one element at a time. */
#include "exec/cuda/kernels/units.cuh"

namespace
{
enum { THREADS = 256, EACH = 2 /* units a thread */ };

template <int N> struct arrays {
    gpu_array at[N];
};

/* An Op says how many arrays it reads and writes, and what becomes of one element of each. */
template <int M, class Op>
__global__ void __launch_bounds__(THREADS)
    pointwise(int64_t n, arrays<Op::IN> in, arrays<Op::OUT> out)
{
    constexpr int V = gpu_width<M>;
    const int64_t first = (static_cast<int64_t>(blockIdx.x) * THREADS * EACH + threadIdx.x) * V;
    gpu_unit<M, V> u[EACH][Op::IN];
#pragma unroll
    for (int k = 0; k < EACH; k++)
#pragma unroll
        for (int a = 0; a < Op::IN; a++)
            u[k][a] = gpu_load<M, V>(in.at[a], first + k * THREADS * V, 0, n);
#pragma unroll
    for (int k = 0; k < EACH; k++) {
        float v[Op::OUT][V];
#pragma unroll
        for (int e = 0; e < V; e++) {
            float x[Op::IN], y[Op::OUT];
#pragma unroll
            for (int a = 0; a < Op::IN; a++) x[a] = gpu_value(u[k][a], e);
            Op::run(x, y);
#pragma unroll
            for (int a = 0; a < Op::OUT; a++) v[a][e] = y[a];
        }
#pragma unroll
        for (int a = 0; a < Op::OUT; a++)
            gpu_store<M, V>(out.at[a], first + k * THREADS * V, 0, n, v[a]);
    }
}

template <class Op>
cudaError_t run(cudaStream_t stream, int mode, int64_t n, arrays<Op::IN> in, arrays<Op::OUT> out)
{
    const unsigned grid = gpu_blocks(n, static_cast<int64_t>(THREADS) * EACH * gpu_width_of(mode));
    if (mode == GPU_F32)
        return gpu_launch(pointwise<GPU_F32, Op>, grid, THREADS, 0, stream, n, in, out);
    if (mode == GPU_BF16)
        return gpu_launch(pointwise<GPU_BF16, Op>, grid, THREADS, 0, stream, n, in, out);
    return gpu_launch(pointwise<GPU_ANY, Op>, grid, THREADS, 0, stream, n, in, out);
}

/* 1 / (1 + exp(-x)), and 1 minus that. From exp of a number below 0: no overflow, no cancellation.
 */
__device__ __forceinline__ void sigmoid(float x, float &s, float &rest)
{
    const float e = expf(-fabsf(x));
    const float large = 1 / (1 + e), small = e * large;
    s = x < 0 ? small : large;
    rest = x < 0 ? large : small;
}

struct swiglu { /* gate, up -> y, silu */
    enum { IN = 2, OUT = 2 };
    static __device__ __forceinline__ void run(const float (&x)[2], float (&y)[2])
    {
        float s, rest;
        sigmoid(x[0], s, rest);
        y[1] = x[0] * s;
        y[0] = y[1] * x[1];
    }
};

/* silu' = s + silu (1 - s). The sigmoid is computed again: silu / gate has none at 0. */
struct swiglu_dx { /* dy, gate, up, silu -> dgate, dup */
    enum { IN = 4, OUT = 2 };
    static __device__ __forceinline__ void run(const float (&x)[4], float (&y)[2])
    {
        float s, rest;
        sigmoid(x[1], s, rest);
        y[1] = x[0] * x[3];
        y[0] = x[0] * x[2] * (s + x[3] * rest);
    }
};

/* The tanh form, as gpt2: (1 + tanh(u)) / 2 is the sigmoid of 2u, so gelu(x) =
 * x sigmoid(2 sqrt(2/pi) (x + 0.044715 x^3)). */
constexpr float TWO_C = 1.5957691216057308f, CUBE = 0.044715f;

struct gelu {
    enum { IN = 1, OUT = 1 };
    static __device__ __forceinline__ void run(const float (&x)[1], float (&y)[1])
    {
        float s, rest;
        sigmoid(TWO_C * x[0] * (1 + CUBE * x[0] * x[0]), s, rest);
        y[0] = x[0] * s;
    }
};

struct gelu_dx { /* dy, x -> dx */
    enum { IN = 2, OUT = 1 };
    static __device__ __forceinline__ void run(const float (&x)[2], float (&y)[1])
    {
        const float v = x[1];
        float s, rest;
        sigmoid(TWO_C * v * (1 + CUBE * v * v), s, rest);
        y[0] = x[0] * (s + v * s * rest * (TWO_C * (1 + 3 * CUBE * v * v)));
    }
};

struct geglu { /* gate, up -> y, gelu */
    enum { IN = 2, OUT = 2 };
    static __device__ __forceinline__ void run(const float (&x)[2], float (&y)[2])
    {
        const float in[1] = {x[0]};
        float out[1];
        gelu::run(in, out);
        y[1] = out[0];
        y[0] = y[1] * x[1];
    }
};

struct geglu_dx { /* dy, gate, up, gelu -> dgate, dup */
    enum { IN = 4, OUT = 2 };
    static __device__ __forceinline__ void run(const float (&x)[4], float (&y)[2])
    {
        const float in[2] = {x[0] * x[2], x[1]};
        float out[1];
        gelu_dx::run(in, out);
        y[1] = x[0] * x[3];
        y[0] = out[0];
    }
};

/* x Phi(x), whose slope is Phi(x) + x phi(x). */
struct gelu_erf {
    enum { IN = 1, OUT = 1 };
    static __device__ __forceinline__ void run(const float (&x)[1], float (&y)[1])
    {
        y[0] = x[0] / 2 * erfcf(-x[0] * 0.70710678f);
    }
};

struct gelu_erf_dx { /* dy, x -> dx */
    enum { IN = 2, OUT = 1 };
    static __device__ __forceinline__ void run(const float (&x)[2], float (&y)[1])
    {
        const float v = x[1], phi = 0.39894228f * expf(-v * v / 2);
        y[0] = x[0] * (erfcf(-v * 0.70710678f) / 2 + v * phi);
    }
};

struct relu {
    enum { IN = 1, OUT = 1 };
    static __device__ __forceinline__ void run(const float (&x)[1], float (&y)[1])
    {
        y[0] = x[0] > 0 ? x[0] : 0;
    }
};

struct relu_dx { /* dy, x -> dx */
    enum { IN = 2, OUT = 1 };
    static __device__ __forceinline__ void run(const float (&x)[2], float (&y)[1])
    {
        y[0] = x[1] > 0 ? x[0] : 0;
    }
};

/* ---- sums of tensors: the first summand, the others and the result each of a mode ---- */

enum { ADD_MOST = 8 };

template <int MX, int M, int MY>
__global__ void __launch_bounds__(THREADS)
    add(int64_t n, int32_t count, arrays<ADD_MOST> x, gpu_array y)
{
    constexpr int V = MX == GPU_BF16 && M == GPU_BF16 && MY == GPU_BF16 ? 8 : 4;
    const int64_t first = (static_cast<int64_t>(blockIdx.x) * THREADS * EACH + threadIdx.x) * V;
    gpu_unit<MX, V> a[EACH];
    gpu_unit<M, V> b[EACH];
#pragma unroll
    for (int k = 0; k < EACH; k++) {
        a[k] = gpu_load<MX, V>(x.at[0], first + k * THREADS * V, 0, n);
        if (count > 1) b[k] = gpu_load<M, V>(x.at[1], first + k * THREADS * V, 0, n);
    }
#pragma unroll
    for (int k = 0; k < EACH; k++) {
        float v[V];
#pragma unroll
        for (int e = 0; e < V; e++)
            v[e] = count > 1 ? gpu_value(a[k], e) + gpu_value(b[k], e) : gpu_value(a[k], e);
#pragma unroll
        for (int j = 2; j < ADD_MOST; j++) {
            if (j >= count) continue;
            const gpu_unit<M, V> c = gpu_load<M, V>(x.at[j], first + k * THREADS * V, 0, n);
#pragma unroll
            for (int e = 0; e < V; e++) v[e] += gpu_value(c, e);
        }
        gpu_store<MY, V>(y, first + k * THREADS * V, 0, n, v);
    }
}

template <int MX, int M, int MY>
cudaError_t run_add(cudaStream_t stream, int64_t n, int32_t count, const arrays<ADD_MOST> &x,
                    gpu_array y)
{
    constexpr int V = MX == GPU_BF16 && M == GPU_BF16 && MY == GPU_BF16 ? 8 : 4;
    const unsigned grid = gpu_blocks(n, static_cast<int64_t>(THREADS) * EACH * V);
    return gpu_launch(add<MX, M, MY>, grid, THREADS, 0, stream, n, count, x, y);
}
} // namespace

cudaError_t gpu_swiglu(cudaStream_t stream, int64_t n, gpu_array gate, gpu_array up, gpu_array y,
                       gpu_array silu)
{
    return run<swiglu>(stream, gpu_mode(gate, up, y, silu), n, {{gate, up}}, {{y, silu}});
}

cudaError_t gpu_swiglu_dx(cudaStream_t stream, int64_t n, gpu_array dy, gpu_array gate,
                          gpu_array up, gpu_array silu, gpu_array dgate, gpu_array dup)
{
    return run<swiglu_dx>(stream, gpu_mode(dy, gate, up, silu, dgate, dup), n,
                          {{dy, gate, up, silu}}, {{dgate, dup}});
}

cudaError_t gpu_geglu(cudaStream_t stream, int64_t n, gpu_array gate, gpu_array up, gpu_array y,
                      gpu_array kept)
{
    return run<geglu>(stream, gpu_mode(gate, up, y, kept), n, {{gate, up}}, {{y, kept}});
}

cudaError_t gpu_geglu_dx(cudaStream_t stream, int64_t n, gpu_array dy, gpu_array gate, gpu_array up,
                         gpu_array kept, gpu_array dgate, gpu_array dup)
{
    return run<geglu_dx>(stream, gpu_mode(dy, gate, up, kept, dgate, dup), n,
                         {{dy, gate, up, kept}}, {{dgate, dup}});
}

cudaError_t gpu_gelu_erf(cudaStream_t stream, int64_t n, gpu_array x, gpu_array y)
{
    return run<gelu_erf>(stream, gpu_mode(x, y), n, {{x}}, {{y}});
}

cudaError_t gpu_gelu_erf_dx(cudaStream_t stream, int64_t n, gpu_array dy, gpu_array x, gpu_array dx)
{
    return run<gelu_erf_dx>(stream, gpu_mode(dy, x, dx), n, {{dy, x}}, {{dx}});
}

cudaError_t gpu_relu(cudaStream_t stream, int64_t n, gpu_array x, gpu_array y)
{
    return run<relu>(stream, gpu_mode(x, y), n, {{x}}, {{y}});
}

cudaError_t gpu_relu_dx(cudaStream_t stream, int64_t n, gpu_array dy, gpu_array x, gpu_array dx)
{
    return run<relu_dx>(stream, gpu_mode(dy, x, dx), n, {{dy, x}}, {{dx}});
}

cudaError_t gpu_gelu(cudaStream_t stream, int64_t n, gpu_array x, gpu_array y)
{
    return run<gelu>(stream, gpu_mode(x, y), n, {{x}}, {{y}});
}

cudaError_t gpu_gelu_dx(cudaStream_t stream, int64_t n, gpu_array dy, gpu_array x, gpu_array dx)
{
    return run<gelu_dx>(stream, gpu_mode(dy, x, dx), n, {{dy, x}}, {{dx}});
}

cudaError_t gpu_add(cudaStream_t stream, int64_t n, int32_t count, const gpu_array *x, gpu_array y)
{
    if (count < 0 || count > ADD_MOST) return cudaErrorInvalidValue;
    if (count == 0 || (count == 1 && x[0].at == y.at && x[0].type == y.type)) return cudaSuccess;
    arrays<ADD_MOST> in = {};
    for (int32_t i = 0; i < count; i++) in.at[i] = x[i];
    const int first = gpu_mode(x[0]), to = gpu_mode(y);
    int rest = count > 1 ? gpu_mode(x[1]) : first;
    for (int32_t i = 2; i < count; i++)
        if (gpu_mode(x[i]) != rest) rest = GPU_ANY;
    const int all = first * 9 + rest * 3 + to;
    enum { F = GPU_F32, B = GPU_BF16 };
    switch (all) {
    case F * 9 + F * 3 + F:
        return run_add<F, F, F>(stream, n, count, in, y);
    case B * 9 + B * 3 + B:
        return run_add<B, B, B>(stream, n, count, in, y);
    case F * 9 + B * 3 + F: /* gradients onto an accumulator */
        return run_add<F, B, F>(stream, n, count, in, y);
    case F * 9 + F * 3 + B: /* converting, count 1 */
        return run_add<F, F, B>(stream, n, count, in, y);
    case B * 9 + B * 3 + F:
        return run_add<B, B, F>(stream, n, count, in, y);
    default:
        return run_add<GPU_ANY, GPU_ANY, GPU_ANY>(stream, n, count, in, y);
    }
}
