/* The stand-in itself: threads of a block, what they share, and that mistakes show. */
#include "exec/cuda/kernels/device.cuh"
#include "exec/cuda/kernels/launch.cuh"
#include "tests/check_main.h"
#include "tests/cuda/forked.h"
#include "tests/standin/sanitized.h"
#include "tests/standin/standin.h"

#include <vector>

enum { SEEDS = 40, N = 256 };

template <typename T> struct device_array {
    T *at = nullptr;
    explicit device_array(size_t n)
    {
        ck_assert_int_eq(cudaMalloc(&at, n * sizeof(T)), cudaSuccess);
    }
    ~device_array()
    {
        cudaFree(at);
    }
    void put(const std::vector<T> &v)
    {
        ck_assert_int_eq(cudaMemcpy(at, v.data(), v.size() * sizeof(T), cudaMemcpyHostToDevice),
                         cudaSuccess);
    }
    std::vector<T> get(size_t n)
    {
        std::vector<T> v(n);
        ck_assert_int_eq(cudaMemcpy(v.data(), at, n * sizeof(T), cudaMemcpyDeviceToHost),
                         cudaSuccess);
        return v;
    }
};
/* What a launch gave, once the device has run it. */
static void finish(cudaError_t code)
{
    ck_assert_int_eq(code, cudaSuccess);
    ck_assert_int_eq(cudaDeviceSynchronize(), cudaSuccess);
}
/* Is the answer wrong under at least one seed, or right under all? */
template <typename F> static bool ever_wrong(F right)
{
    bool wrong = false;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        standin_seed(seed);
        wrong = wrong || !right();
    }
    return wrong;
}

/* ---- barriers ---- */

template <bool SYNC> static __global__ void turn_round(const int *x, int *y)
{
    __shared__ int tile[N];
    tile[threadIdx.x] = x[threadIdx.x];
    if (SYNC) __syncthreads();
    y[threadIdx.x] = tile[N - 1 - threadIdx.x];
}
template <bool SYNC> static bool turns_round()
{
    device_array<int> x(N), y(N);
    std::vector<int> v(N);
    for (int i = 0; i < N; i++) v[(size_t)i] = i;
    x.put(v);
    finish(gpu_launch(turn_round<SYNC>, 1, N, 0, nullptr, x.at, y.at));
    const std::vector<int> got = y.get(N);
    for (int i = 0; i < N; i++)
        if (got[(size_t)i] != N - 1 - i) return false;
    return true;
}
/* One barrier between writing and reading, none before it is written again. */
template <bool SYNC> static __global__ void pass_on(int rounds, int *y)
{
    __shared__ int slot;
    int sum = 0;
    for (int i = 0; i < rounds; i++) {
        if (threadIdx.x == (unsigned)i) slot = i;
        __syncthreads();
        sum += slot;
        if (SYNC) __syncthreads();
    }
    y[threadIdx.x] = sum;
}
template <bool SYNC> static bool passes_on()
{
    device_array<int> y(64);
    finish(gpu_launch(pass_on<SYNC>, 1, 64, 0, nullptr, 8, y.at));
    for (int got : y.get(64))
        if (got != 28) return false;
    return true;
}
START_TEST(missing_barriers_show)
{
    ck_assert(!ever_wrong(turns_round<true>));
    ck_assert(ever_wrong(turns_round<false>));
    ck_assert(!ever_wrong(passes_on<true>));
    ck_assert(ever_wrong(passes_on<false>));
}
END_TEST

static __global__ void some_skip(int *y)
{
    if (threadIdx.x < 7) __syncthreads();
    y[threadIdx.x] = 1;
}
static void run_some_skip(void)
{
    device_array<int> y(64);
    finish(gpu_launch(some_skip, 1, 64, 0, nullptr, y.at));
}
START_TEST(a_barrier_that_not_all_reach_is_a_fault)
{
    ck_assert(ends_badly(run_some_skip));
}
END_TEST

/* ---- warps ---- */

static __global__ void sum_blocks(int64_t n, const float *x, float *y)
{
    __shared__ float part[8];
    const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    float v = i < n ? x[i] : 0;
    for (int by = 16; by > 0; by /= 2) v += __shfl_xor_sync(0xffffffffu, v, by);
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = v;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int w = 1; w < 8; w++) v += part[w];
        atomicAdd(y, v);
    }
}
START_TEST(sums_through_shuffles_and_shared_memory)
{
    const int n = 1000;
    std::vector<float> v((size_t)n);
    for (int i = 0; i < n; i++) v[(size_t)i] = (float)(i % 17);
    float want = 0;
    for (float f : v) want += f;
    ck_assert(!ever_wrong([&] {
        device_array<float> x((size_t)n), y(1);
        x.put(v);
        y.put({0});
        finish(gpu_launch(sum_blocks, 4, 256, 0, nullptr, n, x.at, y.at));
        return y.get(1)[0] == want;
    }));
}
END_TEST

static __global__ void shuffle_kinds(int *y)
{
    const int lane = (int)threadIdx.x;
    y[lane] = __shfl_sync(0xffffffffu, lane, 5, 16);
    y[32 + lane] = __shfl_down_sync(0xffffffffu, lane, 3, 8);
    y[64 + lane] = __shfl_up_sync(0xffffffffu, lane, 2);
    y[96 + lane] = __shfl_xor_sync(0xffffffffu, lane, 1);
    y[128 + lane] = (int)__ballot_sync(0xffffffffu, lane % 3 == 0);
}
START_TEST(shuffles_are_those_of_cuda)
{
    device_array<int> y(160);
    finish(gpu_launch(shuffle_kinds, 1, 32, 0, nullptr, y.at));
    const std::vector<int> got = y.get(160);
    unsigned every_third = 0;
    for (int i = 0; i < 32; i += 3) every_third |= 1u << i;
    for (size_t i = 0; i < 32; i++) {
        const int lane = (int)i;
        ck_assert_int_eq(got[i], lane < 16 ? 5 : 21);
        ck_assert_int_eq(got[32 + i], lane % 8 < 5 ? lane + 3 : lane);
        ck_assert_int_eq(got[64 + i], lane >= 2 ? lane - 2 : lane);
        ck_assert_int_eq(got[96 + i], lane ^ 1);
        ck_assert_uint_eq((unsigned)got[128 + i], every_third);
    }
}
END_TEST

/* ---- shared memory begins as poison, in every block ---- */

template <typename T> static __global__ void keep_shared(float *y)
{
    __shared__ T mine[4];
    float *dynamic = reinterpret_cast<float *>(gpu_dynamic_shared());
    y[2 * blockIdx.x] = (float)mine[blockIdx.x % 4];
    y[2 * blockIdx.x + 1] = dynamic[blockIdx.x % 4];
    for (int i = 0; i < 4; i++) {
        mine[i] = 1;
        dynamic[i] = 1;
    }
}
static __global__ void keep_plain(float *y)
{
    __shared__ float mine;
    y[blockIdx.x] = mine;
    mine = 1;
}
/* What looks like a shared variable to the tool that moves them, and is none. */
template <int START> static int count_calls()
{
    static int calls;
    return START + ++calls;
}
START_TEST(shared_memory_is_poison)
{
    ck_assert_int_eq(count_calls<5>(), 6);
    device_array<float> y(16);
    finish(gpu_launch(keep_shared<float>, 8, 1, 16, nullptr, y.at));
    for (float f : y.get(16)) ck_assert(std::isnan(f));
    finish(gpu_launch(keep_shared<double>, 8, 1, 16, nullptr, y.at));
    for (float f : y.get(16)) ck_assert(std::isnan(f));
    finish(gpu_launch(keep_plain, 8, 1, 0, nullptr, y.at));
    const std::vector<float> got = y.get(8);
    for (float f : got) ck_assert(std::isnan(f));
    ck_assert_int_eq(count_calls<5>(), 7);
}
END_TEST

/* ---- tensor cores ---- */

static float part(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return __nv_bfloat16((float)(int)(*state >> 40 & 255) / 64.0f - 2.0f);
}
/* C[16 x 8] = A[16 x 16] B[16 x 8], all row-major in global memory. */
static __global__ void small_product(const __nv_bfloat16 *A, const __nv_bfloat16 *B, float *C)
{
    __nv_bfloat16 *a = reinterpret_cast<__nv_bfloat16 *>(gpu_dynamic_shared()), *b = a + 256;
    const int lane = (int)threadIdx.x;
    gpu_copy_async(a + 8 * lane, A + 8 * lane);
    gpu_copy_async(b + 8 * lane, B + 8 * (lane % 16), lane < 16); /* rows of 8, then zeroes */
    gpu_copy_async_commit();
    gpu_copy_async_wait<0>();
    __syncwarp();
    uint32_t fa[4], fb[4];
    float c[4] = {0, 0, 0, 0};
    gpu_ldmatrix_x4(fa, a + (lane % 16) * 16 + lane / 16 * 8);
    gpu_ldmatrix_x4_trans(fb, b + lane * 8);
    gpu_mma_bf16(c, fa, fb[0], fb[1]);
    gpu_mma_bf16(c, fa, fb[2], fb[3]); /* adds zeroes */
    const int r = lane / 4, k = 2 * (lane % 4);
    C[r * 8 + k] = c[0];
    C[r * 8 + k + 1] = c[1];
    C[(r + 8) * 8 + k] = c[2];
    C[(r + 8) * 8 + k + 1] = c[3];
}
START_TEST(mma_is_the_plain_product)
{
    for (uint64_t seed = 1; seed <= 20; seed++) {
        standin_seed(seed);
        uint64_t state = seed;
        std::vector<__nv_bfloat16> A(256), B(128);
        for (auto &v : A) v = part(&state);
        for (auto &v : B) v = part(&state);
        device_array<__nv_bfloat16> a(256), b(128);
        device_array<float> c(128);
        a.put(A);
        b.put(B);
        finish(gpu_launch(small_product, 1, 32, 1024, nullptr, a.at, b.at, c.at));
        const std::vector<float> got = c.get(128);
        for (size_t i = 0; i < 16; i++)
            for (size_t j = 0; j < 8; j++) {
                double want = 0;
                for (size_t k = 0; k < 16; k++)
                    want += (double)(float)A[i * 16 + k] * (double)(float)B[k * 8 + j];
                ck_assert_double_eq_tol(got[i * 8 + j], want, 1e-5);
            }
    }
}
END_TEST

/* Two groups of copies; waits so that at most WAIT of them are under way, then reads the first. */
template <int WAIT> static __global__ void copy_two(const float4 *x, float *y)
{
    float4 *s = reinterpret_cast<float4 *>(gpu_dynamic_shared());
    gpu_copy_async(s, x);
    gpu_copy_async_commit();
    gpu_copy_async(s + 1, x + 1);
    gpu_copy_async_commit();
    gpu_copy_async_wait<WAIT>();
    y[0] = s[0].x;
    y[1] = s[1].x;
}
START_TEST(a_copy_is_there_once_it_was_waited_for)
{
    device_array<float4> x(2);
    device_array<float> y(2);
    x.put({{1, 1, 1, 1}, {2, 2, 2, 2}});
    finish(gpu_launch(copy_two<0>, 1, 1, 32, nullptr, x.at, y.at));
    ck_assert(y.get(2)[0] == 1 && y.get(2)[1] == 2);
    finish(gpu_launch(copy_two<1>, 1, 1, 32, nullptr, x.at, y.at));
    ck_assert(y.get(2)[0] == 1 && std::isnan(y.get(2)[1]));
    finish(gpu_launch(copy_two<2>, 1, 1, 32, nullptr, x.at, y.at));
    ck_assert(std::isnan(y.get(2)[0]) && std::isnan(y.get(2)[1]));
}
END_TEST

/* ---- bounds ---- */

static __global__ void write_to(float *x, int at)
{
    x[at] = 1;
}
static __global__ void read_shared(float *x, int at)
{
    x[0] = reinterpret_cast<float *>(gpu_dynamic_shared())[at];
}
static void write_beyond(void)
{
    device_array<float> x(10);
    finish(gpu_launch(write_to, 1, 1, 0, nullptr, x.at, 10));
}
static void write_within(void)
{
    device_array<float> x(10);
    finish(gpu_launch(write_to, 1, 1, 0, nullptr, x.at, 9));
}
static void read_beyond_shared(void)
{
    device_array<float> x(1);
    finish(gpu_launch(read_shared, 1, 1, 40, nullptr, x.at, 10));
}
static void touch_from_host(void)
{
    device_array<float> x(1);
    x.at[0] = 1;
}
static void give_host_memory(void)
{
    std::vector<float> x(10000); /* AddressSanitizer's first addresses look like small numbers */
    finish(gpu_launch(write_to, 1, 1, 0, nullptr, x.data() + 5000, 0));
}
START_TEST(what_is_out_of_bounds_ends_the_process)
{
    ck_assert(!ends_badly(write_within));
    ck_assert(ends_badly(write_beyond));
    ck_assert(ends_badly(touch_from_host));
    ck_assert(ends_badly(give_host_memory));
#if STANDIN_SANITIZED
    ck_assert(ends_badly(read_beyond_shared));
#else
    ck_assert(!ends_badly(read_beyond_shared)); /* nobody sees what is only read */
#endif
}
END_TEST

static bool rounds_to(uint32_t float_bits, uint32_t bf16_bits)
{
    return __bfloat16_as_ushort(__nv_bfloat16(__uint_as_float(float_bits))) == bf16_bits;
}
START_TEST(bf16_rounds_to_nearest_even)
{
    uint32_t wrong = 0;
    for (uint32_t hi = 0; hi < 0x10000; hi++) {
        if ((hi & 0x7fff) > 0x7f80) {
            wrong += !std::isnan((float)__nv_bfloat16(__uint_as_float(hi << 16)));
            continue;
        }
        wrong += !rounds_to(hi << 16, hi);
        if ((hi & 0x7fff) == 0x7f80) continue; /* infinite */
        wrong += !rounds_to(hi << 16 | 0x8000, hi + (hi & 1)); /* of two neighbours the even one */
        wrong += !rounds_to(hi << 16 | 0x8001, hi + 1);
        wrong += !rounds_to(hi << 16 | 0x7fff, hi);
    }
    ck_assert_uint_eq(wrong, 0);
}
END_TEST

LUO_SUITE("cuda.standin", LUO_T(missing_barriers_show),
          LUO_T(a_barrier_that_not_all_reach_is_a_fault),
          LUO_T(sums_through_shuffles_and_shared_memory), LUO_T(shuffles_are_those_of_cuda),
          LUO_T(shared_memory_is_poison), LUO_T(mma_is_the_plain_product),
          LUO_T(a_copy_is_there_once_it_was_waited_for),
          LUO_T(what_is_out_of_bounds_ends_the_process), LUO_T(bf16_rounds_to_nearest_even))
