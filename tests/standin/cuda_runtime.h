/* cuda_runtime.h: what .cu sources need beyond the runtime API: the language (CUDA's
 * words as macros), intrinsics, typed launches. A kernel is an ordinary function, called once per
 * thread, each on a fiber of its own (block.c). */
#ifndef LUO_STANDIN_CUDA_RUNTIME_H
#define LUO_STANDIN_CUDA_RUNTIME_H
#include "cuda_runtime_api.h"

#ifdef __cplusplus
#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <tuple>
#include <type_traits>
#include <utility>

/* ---- the language ---- */

#define __global__
#define __device__
#define __host__
#define __constant__ static const
#define __grid_constant__
#define __launch_bounds__(...)
#define __forceinline__ inline __attribute__((always_inline))
#define __align__(n) __attribute__((aligned(n)))
/* Shared variables are static ones, in a section of their own that is poisoned before each block.
 * The text after # hides from GCC that sections are the same, which it would not mix with those of
 * templates; in templates it forgets them all the same, so that the Makefile moves variables there
 * (shared.sh), of functions in which it finds a mark. */
#define STANDIN_TEXT_(x) #x
#define STANDIN_TEXT(x) STANDIN_TEXT_(x)
#define STANDIN_JOIN_(a, b) a##b
#define STANDIN_JOIN(a, b) STANDIN_JOIN_(a, b)
#define STANDIN_SECTION section("standin_shared,\"aw\",@nobits#" STANDIN_TEXT(__COUNTER__))
#define __shared__                                                                                 \
    static char STANDIN_JOIN(standin_mark_, __COUNTER__) __attribute__((used, STANDIN_SECTION));   \
    static __attribute__((STANDIN_SECTION))
#ifndef __CUDA_ARCH__
#define __CUDA_ARCH__ 900
#endif

extern "C" {
extern uint3 threadIdx, blockIdx; /* of the fiber that runs */
extern dim3 blockDim, gridDim;
void standin_syncthreads(void);
int standin_syncthreads_count(int yes);
void standin_syncwarp(unsigned mask);
uint64_t standin_shuffle(unsigned mask, uint64_t bits, int from_lane);
unsigned standin_ballot(unsigned mask, int yes);
/* Prints what a kernel did wrong, and where, and ends the process. */
void standin_fault(const char *what) __attribute__((noreturn));
uint64_t standin_clock_ns(void);
/* Ends the process if an aligned word of the argument is an address of the host's own memory. */
void standin_check_argument(const void *kernel, const void *argument, size_t bytes);
/* self: `bytes` of a callable, copied now; run(self) is one thread. */
cudaError_t standin_launch(const cudaLaunchConfig_t *config, const void *kernel,
                           void (*run)(const void *self), const void *self, size_t bytes);
}
static constexpr int warpSize = 32;

/* ---- together ---- */

#define __syncthreads() standin_syncthreads()
static inline int __syncthreads_count(int yes)
{
    return standin_syncthreads_count(yes);
}
static inline int __syncthreads_or(int yes)
{
    return standin_syncthreads_count(yes) > 0;
}
static inline int __syncthreads_and(int yes)
{
    return standin_syncthreads_count(!yes) == 0;
}
static inline void __syncwarp(unsigned mask = 0xffffffffu)
{
    standin_syncwarp(mask);
}
static inline void __threadfence()
{
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}
static inline void __threadfence_block()
{
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}
static inline void __threadfence_system()
{
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}
static inline int standin_lane()
{
    return static_cast<int>((threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) &
                            31u);
}
template <typename T> static inline T standin_shuffled(unsigned mask, T v, int from)
{
    static_assert(sizeof(T) <= 8 && std::is_trivially_copyable<T>::value, "not shuffled by CUDA");
    uint64_t bits = 0;
    memcpy(&bits, &v, sizeof v);
    bits = standin_shuffle(mask, bits, from);
    memcpy(static_cast<void *>(&v), &bits, sizeof v);
    return v;
}
template <typename T> static inline T __shfl_sync(unsigned mask, T v, int src, int width = 32)
{
    const int lane = standin_lane();
    return standin_shuffled(mask, v, (lane & ~(width - 1)) | (src & (width - 1)));
}
template <typename T> static inline T __shfl_xor_sync(unsigned mask, T v, int lanes, int width = 32)
{
    const int lane = standin_lane(), from = lane ^ lanes;
    return standin_shuffled(mask, v, from < (lane & ~(width - 1)) + width ? from : lane);
}
template <typename T>
static inline T __shfl_down_sync(unsigned mask, T v, unsigned by, int width = 32)
{
    const int lane = standin_lane(), from = lane + static_cast<int>(by);
    return standin_shuffled(mask, v, from < (lane & ~(width - 1)) + width ? from : lane);
}
template <typename T>
static inline T __shfl_up_sync(unsigned mask, T v, unsigned by, int width = 32)
{
    const int lane = standin_lane(), from = lane - static_cast<int>(by);
    return standin_shuffled(mask, v, from >= (lane & ~(width - 1)) ? from : lane);
}
static inline unsigned __ballot_sync(unsigned mask, int yes)
{
    return standin_ballot(mask, yes);
}
static inline int __any_sync(unsigned mask, int yes)
{
    return standin_ballot(mask, yes) != 0;
}
static inline int __all_sync(unsigned mask, int yes)
{
    return standin_ballot(mask, !yes) == 0;
}

/* ---- memory: one fiber runs at a time, so plain accesses are atomic ---- */

#define STANDIN_ATOMIC(name, expr)                                                                 \
    template <typename T, typename U> static inline T name(T *at, U given)                         \
    {                                                                                              \
        const T old = *at, v = static_cast<T>(given);                                              \
        *at = (expr);                                                                              \
        return old;                                                                                \
    }
STANDIN_ATOMIC(atomicAdd, old + v)
STANDIN_ATOMIC(atomicSub, old - v)
STANDIN_ATOMIC(atomicMax, old < v ? v : old)
STANDIN_ATOMIC(atomicMin, v < old ? v : old)
STANDIN_ATOMIC(atomicOr, old | v)
STANDIN_ATOMIC(atomicAnd, old &v)
STANDIN_ATOMIC(atomicExch, v)
static inline unsigned atomicInc(unsigned *at, unsigned most)
{
    const unsigned old = *at;
    *at = old >= most ? 0 : old + 1;
    return old;
}
template <typename T> static inline T atomicCAS(T *at, T expected, T v)
{
    const T old = *at;
    if (old == expected) *at = v;
    return old;
}
template <typename T> static inline T __ldg(const T *at)
{
    return *at;
}
template <typename T> static inline T __ldcs(const T *at)
{
    return *at;
}
template <typename T> static inline T __ldcg(const T *at)
{
    return *at;
}
template <typename T> static inline void __stcs(T *at, T v)
{
    *at = v;
}
template <typename T> static inline void __stcg(T *at, T v)
{
    *at = v;
}

/* ---- numbers ---- */

template <typename To, typename From> static inline To standin_bits(From v)
{
    static_assert(sizeof(To) == sizeof(From), "of one size");
    To to;
    memcpy(&to, &v, sizeof to);
    return to;
}
static inline unsigned __float_as_uint(float v)
{
    return standin_bits<unsigned>(v);
}
static inline int __float_as_int(float v)
{
    return standin_bits<int>(v);
}
static inline float __uint_as_float(unsigned v)
{
    return standin_bits<float>(v);
}
static inline float __int_as_float(int v)
{
    return standin_bits<float>(v);
}
static inline long long __double_as_longlong(double v)
{
    return standin_bits<long long>(v);
}
static inline double __longlong_as_double(long long v)
{
    return standin_bits<double>(v);
}
static inline int __popc(unsigned v)
{
    return __builtin_popcount(v);
}
static inline int __clz(int v)
{
    return v ? __builtin_clz(static_cast<unsigned>(v)) : 32;
}
static inline int __ffs(int v)
{
    return __builtin_ffs(v);
}
static inline float rsqrtf(float v)
{
    return 1.0f / sqrtf(v);
}
static inline double rsqrt(double v)
{
    return 1.0 / sqrt(v);
}
static inline float __fdividef(float a, float b)
{
    return a / b;
}
static inline float __frcp_rn(float v)
{
    return 1.0f / v;
}
static inline float __frsqrt_rn(float v)
{
    return 1.0f / sqrtf(v);
}
static inline float __fsqrt_rn(float v)
{
    return sqrtf(v);
}
static inline float __fmaf_rn(float a, float b, float c)
{
    return fmaf(a, b, c);
}
static inline float __fadd_rn(float a, float b)
{
    return a + b;
}
static inline float __fmul_rn(float a, float b)
{
    return a * b;
}
static inline double __dadd_rn(double a, double b)
{
    return a + b;
}
/* The C library declares functions of these names. */
#define __expf(v) expf(v)
#define __exp10f(v) exp10f(v)
#define __logf(v) logf(v)
#define __log2f(v) log2f(v)
#define __powf(v, w) powf(v, w)
#define __sinf(v) sinf(v)
#define __cosf(v) cosf(v)
#define __sincosf(v, s, c) sincosf(v, s, c)

#define STANDIN_MIN_MAX(type)                                                                      \
    static inline constexpr type min(type a, type b)                                               \
    {                                                                                              \
        return b < a ? b : a;                                                                      \
    }                                                                                              \
    static inline constexpr type max(type a, type b)                                               \
    {                                                                                              \
        return a < b ? b : a;                                                                      \
    }
STANDIN_MIN_MAX(int)
STANDIN_MIN_MAX(unsigned)
STANDIN_MIN_MAX(long)
STANDIN_MIN_MAX(unsigned long)
STANDIN_MIN_MAX(long long)
STANDIN_MIN_MAX(unsigned long long)
STANDIN_MIN_MAX(float)
STANDIN_MIN_MAX(double)

/* Sine and cosine of pi v. */
static inline void sincospif(float v, float *s, float *c)
{
    const double turn = 3.14159265358979323846 * static_cast<double>(v);
    *s = static_cast<float>(sin(turn)), *c = static_cast<float>(cos(turn));
}

#define __trap() standin_fault("__trap()")
static inline long long clock64()
{
    return static_cast<long long>(standin_clock_ns());
}
static inline void __nanosleep(unsigned)
{
}

/* ---- typed calls of the runtime ---- */

template <typename T> static inline cudaError_t cudaMalloc(T **out, size_t bytes)
{
    return ::cudaMalloc(reinterpret_cast<void **>(out), bytes);
}
template <typename T> static inline cudaError_t cudaMallocHost(T **out, size_t bytes)
{
    return ::cudaMallocHost(reinterpret_cast<void **>(out), bytes);
}
template <typename T>
static inline cudaError_t cudaHostAlloc(T **out, size_t bytes, unsigned int flags)
{
    return ::cudaHostAlloc(reinterpret_cast<void **>(out), bytes, flags);
}
template <typename... P>
static inline cudaError_t cudaFuncSetAttribute(void (*kernel)(P...), enum cudaFuncAttribute attr,
                                               int value)
{
    return ::cudaFuncSetAttribute(reinterpret_cast<const void *>(kernel), attr, value);
}

template <typename... P> struct standin_call {
    void (*kernel)(P...);
    std::tuple<P...> args;
    static void run(const void *self)
    {
        const standin_call *c = static_cast<const standin_call *>(self);
        std::apply(c->kernel, c->args);
    }
};
/* Arguments with padding hold bytes of anything there, and are not looked at. */
template <typename P> static inline void standin_check(const void *kernel, const P &argument)
{
    if (std::has_unique_object_representations<P>::value)
        standin_check_argument(kernel, &argument, sizeof argument);
}
template <typename... P, typename... Given>
static inline cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t *config, void (*kernel)(P...),
                                             Given &&...given)
{
    static_assert((std::is_trivially_copyable<P>::value && ...), "copied to the device as bytes");
    const standin_call<P...> call = {kernel, std::tuple<P...>(std::forward<Given>(given)...)};
    const void *name = reinterpret_cast<const void *>(kernel);
    std::apply([name](const P &...given_now) { (standin_check(name, given_now), ...); }, call.args);
    return standin_launch(config, name, standin_call<P...>::run, &call, sizeof call);
}
#endif
#endif
