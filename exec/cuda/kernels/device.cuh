/* device.cuh: what only the device compiler understands, each instruction a function.
 *
 * tests/standin/exec/cuda/kernels/device.cuh has the same functions for processors: a new one goes
 * into both. Those that a warp executes together say so: all 32 lanes call them at once.
 *
 * Fragments of m16n8k16 as in the PTX ISA ("Matrix fragments for mma.m16n8k16"), with lane = 32-bit
 * lane number, r = lane / 4, c = lane % 4; two bf16 share a register, the lower column (for B: the
 * lower row) in the lower half:
 *   A 16 x 16:  a[0] (r, 2c..2c+1)  a[1] (r+8, 2c..)  a[2] (r, 2c+8..)  a[3] (r+8, 2c+8..)
 *   B 16 x 8:   b0 (rows 2c..2c+1, column r)          b1 (rows 2c+8..2c+9, column r)
 *   C 16 x 8:   c[0..1] (r, 2c..2c+1)                 c[2..3] (r+8, 2c..2c+1)
 */
#ifndef LUO_EXEC_CUDA_KERNELS_DEVICE_CUH
#define LUO_EXEC_CUDA_KERNELS_DEVICE_CUH
#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstdint>

/* Does this code have the tensor-core functions below (sm_80 and later)? Elsewhere gpu_mma_bf16
 * traps: a launcher must not choose a kernel with it for an older GPU. */
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
#define GPU_HAS_MMA_BF16 1
#else
#define GPU_HAS_MMA_BF16 0
#endif

/* The dynamic shared memory of the block, as many bytes as the launch said; 128-byte aligned. */
static __device__ __forceinline__ unsigned char *gpu_dynamic_shared()
{
    extern __shared__ __align__(128) unsigned char gpu_dynamic_shared_bytes[];
    return gpu_dynamic_shared_bytes;
}

/* The device's clock in ns, alike for all its multiprocessors; where it starts is not said, and its
 * steps may be as coarse as 1 us. Read where it stands. */
static __device__ __forceinline__ uint64_t gpu_clock_ns()
{
    uint64_t t;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t)::"memory");
    return t;
}

/* x, but the compiler does not know that it is: what depends on it is computed where it is needed,
 * not ahead of a loop (registers). */
static __device__ __forceinline__ int gpu_anew(int x)
{
    asm volatile("" : "+r"(x));
    return x;
}

/* at, which is an address of global memory or NULL, and the compiler knows it: accesses need not
 * ask what memory it is. */
template <class T> static __device__ __forceinline__ T *gpu_global(T *at)
{
    __builtin_assume(__isGlobal(at));
    return at;
}

/* 2^x within 2 ulp; results below the smallest normal number are 0. -inf gives 0. */
static __device__ __forceinline__ float gpu_exp2(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

/* Two floats rounded to nearest even as a register of a fragment, lo in the lower half. */
static __device__ __forceinline__ uint32_t gpu_pack_bf16(float lo, float hi)
{
    const __nv_bfloat162 both = __floats2bfloat162_rn(lo, hi);
    uint32_t bits;
    memcpy(&bits, &both, sizeof bits);
    return bits;
}

/* 16 and 8 bytes to global memory in one instruction, which the compiler does not always make of
 * an assignment: it may take a vector apart and not find its parts again. `to` is a multiple of
 * their number. */
static __device__ __forceinline__ void gpu_store_16(void *to, uint4 w)
{
    asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(__cvta_generic_to_global(to)),
                 "r"(w.x), "r"(w.y), "r"(w.z), "r"(w.w)
                 : "memory");
}
static __device__ __forceinline__ void gpu_store_8(void *to, uint2 w)
{
    asm volatile("st.global.v2.b32 [%0], {%1, %2};" ::"l"(__cvta_generic_to_global(to)), "r"(w.x),
                 "r"(w.y)
                 : "memory");
}

/* C += A B on the tensor cores, 16 x 8 x 16, the whole warp. Products are exact, sums f32 in an
 * order of the hardware's. Below sm_80: traps. */
static __device__ __forceinline__ void gpu_mma_bf16(float (&c)[4], const uint32_t (&a)[4],
                                                    uint32_t b0, uint32_t b1)
{
#if GPU_HAS_MMA_BF16
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#else
    (void)c, (void)a, (void)b0, (void)b1;
    __trap();
#endif
}

/* Four 8 x 8 matrices of 16-bit elements from shared memory, the whole warp. Lane l gives the
 * address of row l % 8 of matrix l / 8: 16 bytes, 16-byte aligned. r[j] is of matrix j elements
 * (lane / 4, 2 (lane % 4)) and the one right of it. Below sm_75: traps. */
static __device__ __forceinline__ void gpu_ldmatrix_x4(uint32_t (&r)[4], const void *row)
{
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 750
    const uint32_t at = static_cast<uint32_t>(__cvta_generic_to_shared(row));
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(at)
                 : "memory");
#else
    (void)r, (void)row;
    __trap();
#endif
}
/* The same, each matrix transposed: r[j] is of matrix j elements (2 (lane % 4), lane / 4) and the
 * one below it. */
static __device__ __forceinline__ void gpu_ldmatrix_x4_trans(uint32_t (&r)[4], const void *row)
{
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 750
    const uint32_t at = static_cast<uint32_t>(__cvta_generic_to_shared(row));
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(at)
                 : "memory");
#else
    (void)r, (void)row;
    __trap();
#endif
}

/* Copies 16 bytes from global to shared memory, both 16-byte aligned, without waiting: what lies at
 * `shared` is undefined until this thread has waited (below), and for others until a barrier after
 * that. valid false: 16 zero bytes instead, `global` is not read. Below sm_80: a plain copy. */
static __device__ __forceinline__ void gpu_copy_async(void *shared, const void *global,
                                                      bool valid = true)
{
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
    const uint32_t to = static_cast<uint32_t>(__cvta_generic_to_shared(shared));
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(global),
                 "r"(valid ? 16 : 0)
                 : "memory");
#else
    *static_cast<uint4 *>(shared) =
        valid ? *static_cast<const uint4 *>(global) : make_uint4(0, 0, 0, 0);
#endif
}
/* The copies of this thread since the last commit become a group. */
static __device__ __forceinline__ void gpu_copy_async_commit()
{
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
/* Waits until at most N of this thread's groups are still under way, the youngest. */
template <int N> static __device__ __forceinline__ void gpu_copy_async_wait()
{
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
#endif
}
#endif
