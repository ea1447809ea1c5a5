/* gpu.c: the process's GPU: choosing it, its memory, errors in words. */
#include "exec/cuda/gpu.h"

#include <cublasLt.h>
#include <nccl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/rng.h"

luo_status gpu_check(luo_err *err, cudaError_t code, const char *what)
{
    if (code == cudaSuccess) return LUO_OK;
    (void)
        cudaGetLastError(); /* an error that was reported shall not be met again by the next call */
    return luo_err_set(err, code == cudaErrorMemoryAllocation ? LUO_EOOM : LUO_EBACKEND,
                       "%s failed with %s (%s).", what, cudaGetErrorName(code),
                       cudaGetErrorString(code));
}

void gpu_prepare_environment(void)
{
    /* A kernel that is loaded when it is first needed may wait for the device to be idle, and so
     * for a receive that was posted early, whose sender waits for that very kernel. */
    setenv("CUDA_MODULE_LOADING", "EAGER", 0);
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
}

/* ---- choosing ---- */

/* CUDA says the same of a driver that is too old and of none. */
static luo_status no_driver(luo_err *err)
{
    int driver = 0, runtime = 0;
    (void)cudaDriverGetVersion(&driver);
    (void)cudaRuntimeGetVersion(&runtime);
    (void)cudaGetLastError();
    if (driver == 0)
        return luo_err_set(err, LUO_EBACKEND,
                           "this host has no driver for NVIDIA GPUs; one for CUDA %d.%d is needed.",
                           runtime / 1000, runtime % 1000 / 10);
    return luo_err_set(err, LUO_EBACKEND,
                       "the driver of this host is for CUDA up to %d.%d, but luoshu was built with "
                       "%d.%d; a newer driver is needed.",
                       driver / 1000, driver % 1000 / 10, runtime / 1000, runtime % 1000 / 10);
}

static luo_status choose(int32_t local, int *device, luo_err *err)
{
    int n = 0;
    const cudaError_t code = cudaGetDeviceCount(&n);
    if (code == cudaErrorNoDevice || (code == cudaSuccess && n == 0))
        return luo_err_set(err, LUO_EBACKEND,
                           "this host has no GPU that CUDA sees; one is needed, and "
                           "CUDA_VISIBLE_DEVICES must not hide it.");
    if (code == cudaErrorInsufficientDriver) return no_driver(err);
    LUO_TRY(gpu_check(err, code, "looking for GPUs"));
    *device = (int)(local % n);
    return gpu_check(err, cudaSetDevice(*device), "taking the GPU");
}

static luo_status attribute(enum cudaDeviceAttr which, int device, int32_t *out, luo_err *err)
{
    int value = 0;
    LUO_TRY(gpu_check(err, cudaDeviceGetAttribute(&value, which, device), "asking the GPU"));
    *out = value;
    return LUO_OK;
}

static luo_status ask_versions(gpu_facts *facts, luo_err *err)
{
    int runtime = 0, driver = 0, nccl = 0;
    LUO_TRY(gpu_check(err, cudaRuntimeGetVersion(&runtime), "asking CUDA for its version"));
    LUO_TRY(gpu_check(err, cudaDriverGetVersion(&driver), "asking the driver for its version"));
    const ncclResult_t code = ncclGetVersion(&nccl);
    if (code != ncclSuccess)
        return luo_err_set(err, LUO_EBACKEND, "asking NCCL for its version failed (%s).",
                           ncclGetErrorString(code));
    facts->runtime = runtime;
    facts->driver = driver;
    facts->nccl = nccl;
    facts->cublas = (int32_t)cublasLtGetVersion();
    return LUO_OK;
}

const char *gpu_nccl_version(int32_t v, char text[32])
{
    if (v == 0)
        snprintf(text, 32, "none");
    else if (v < 10000) /* up to 2.8 */
        snprintf(text, 32, "%d.%d.%d", v / 1000, v % 1000 / 100, v % 100);
    else
        snprintf(text, 32, "%d.%d.%d", v / 10000, v % 10000 / 100, v % 100);
    return text;
}

static luo_status ask(int device, gpu_facts *facts, luo_err *err)
{
    struct cudaDeviceProp p;
    LUO_TRY(gpu_check(err, cudaGetDeviceProperties(&p, device), "asking the GPU"));
    snprintf(facts->name, sizeof facts->name, "%.63s", p.name);
    facts->memory = (int64_t)p.totalGlobalMem;
    if (gethostname(facts->host, sizeof facts->host) != 0) facts->host[0] = 0;
    facts->host[sizeof facts->host - 1] = 0;
    LUO_TRY(gpu_check(err, cudaDeviceGetPCIBusId(facts->bus, (int)sizeof facts->bus, device),
                      "asking for the GPU's bus"));
    LUO_TRY(attribute(cudaDevAttrComputeCapabilityMajor, device, &facts->major, err));
    LUO_TRY(attribute(cudaDevAttrComputeCapabilityMinor, device, &facts->minor, err));
    LUO_TRY(attribute(cudaDevAttrMultiProcessorCount, device, &facts->sms, err));
    LUO_TRY(attribute(cudaDevAttrClockRate, device, &facts->clock_khz, err));
    return ask_versions(facts, err);
}

/* A kernel of ours runs here, and can write where the host reads: the plainest way to find out. */
static luo_status try_kernel(const gpu_facts *facts, luo_err *err)
{
    void *slot = NULL, *there = NULL;
    LUO_TRY(gpu_alloc_mapped((int64_t)sizeof(uint64_t), "the first kernel", &slot, &there, err));
    cudaError_t code = gpu_stamp(NULL, there);
    if (code == cudaSuccess) code = cudaStreamSynchronize(NULL);
    const bool wrote = *(const volatile uint64_t *)slot != 0;
    gpu_free_mapped(slot);
    if (code == cudaErrorNoKernelImageForDevice || code == cudaErrorInvalidDeviceFunction ||
        code == cudaErrorUnsupportedPtxVersion) {
        (void)cudaGetLastError();
        return luo_err_set(err, LUO_EBACKEND,
                           "luoshu's kernels were not built for `%s` (compute capability %d.%d); "
                           "build with an nvcc that knows it, and with a driver as new as that.",
                           facts->name, (int)facts->major, (int)facts->minor);
    }
    LUO_TRY(gpu_check(err, code, "the first kernel"));
    if (wrote) return LUO_OK;
    return luo_err_set(err, LUO_EBACKEND,
                       "what a kernel on `%s` writes does not reach the host's memory; mapped "
                       "host memory is needed.",
                       facts->name);
}

luo_status gpu_open(int32_t local, gpu_facts *out, luo_err *err)
{
    gpu_facts facts;
    int device = 0;
    memset(&facts, 0, sizeof facts); /* every byte is sent */
    LUO_TRY(choose(local, &device, err));
    LUO_TRY(ask(device, &facts, err));
    LUO_TRY(try_kernel(&facts, err));
    *out = facts;
    return LUO_OK;
}

/* ---- memory ---- */

static luo_status no_room(luo_err *err, int64_t bytes, const char *what)
{
    size_t free_bytes = 0, total = 0;
    (void)cudaGetLastError();
    if (cudaMemGetInfo(&free_bytes, &total) != cudaSuccess) (void)cudaGetLastError();
    return luo_err_set(err, LUO_EOOM,
                       "%s takes %.3f GiB of the GPU's memory, of which %.3f of %.3f are free; a "
                       "plan with smaller stages or recompute needs less.",
                       what, (double)bytes / (1 << 30), (double)free_bytes / (1 << 30),
                       (double)total / (1 << 30));
}

luo_status gpu_alloc(int64_t bytes, const char *what, void **out, luo_err *err)
{
    const size_t n = bytes > 0 ? (size_t)bytes : 1;
    void *p = NULL;
    const cudaError_t code = cudaMalloc(&p, n);
    if (code == cudaErrorMemoryAllocation) return no_room(err, bytes, what);
    LUO_TRY(gpu_check(err, code, what));
    luo_status st = gpu_check(err, cudaMemset(p, 0, n), what);
    if (st == LUO_OK) st = gpu_check(err, cudaStreamSynchronize(NULL), what); /* memset may lag */
    if (st == LUO_OK)
        *out = p;
    else
        gpu_free(p);
    return st;
}

void gpu_free(void *p)
{
    if (cudaFree(p) != cudaSuccess) (void)cudaGetLastError(); /* the step that failed has said so */
}

/* A prime, so that no row length divides it. */
enum { NORMAL_BLOCK = 262139 };

static void put_normal(luo_rng *rng, gpu_type type, double size, unsigned char *to)
{
    const float v = (float)(size * luo_rng_normal(rng));
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    const uint16_t half = (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
    if (type == GPU_BF16)
        memcpy(to, &half, sizeof half);
    else
        memcpy(to, &bits, sizeof bits);
}

luo_status gpu_fill_normal(void *at, gpu_type type, int64_t n, double size, uint64_t seed,
                           luo_err *err)
{
    const int64_t elem = gpu_elem(type), block = n < NORMAL_BLOCK ? n : NORMAL_BLOCK;
    luo_rng rng = luo_rng_stream(seed, "numbers to measure with");
    unsigned char *host = malloc((size_t)(block * elem) + 1);
    if (!host) return luo_err_nomem(err);
    for (int64_t i = 0; i < block; i++) put_normal(&rng, type, size, host + i * elem);
    luo_status st = gpu_check(
        err, cudaMemcpy(at, host, (size_t)(block * elem), cudaMemcpyHostToDevice), "copying");
    free(host);
    for (int64_t done = block; st == LUO_OK && done < n; done *= 2) { /* what is there, again */
        const int64_t more = n - done < done ? n - done : done;
        st = gpu_check(err,
                       cudaMemcpyAsync((char *)at + done * elem, at, (size_t)(more * elem),
                                       cudaMemcpyDeviceToDevice, NULL),
                       "copying");
    }
    if (st == LUO_OK) st = gpu_check(err, cudaStreamSynchronize(NULL), "copying");
    return st;
}

luo_status gpu_alloc_mapped(int64_t bytes, const char *what, void **out, void **device,
                            luo_err *err)
{
    const size_t n = bytes > 0 ? (size_t)bytes : 1;
    void *p = NULL, *there = NULL;
    const cudaError_t code = cudaHostAlloc(&p, n, cudaHostAllocMapped | cudaHostAllocPortable);
    if (code == cudaErrorMemoryAllocation) {
        (void)cudaGetLastError();
        return luo_err_set(err, LUO_ENOMEM,
                           "%s takes %lld bytes of page-locked memory, which this host does not "
                           "give; a larger limit of locked memory (ulimit -l) is needed.",
                           what, (long long)bytes);
    }
    LUO_TRY(gpu_check(err, code, what));
    memset(p, 0, n);
    const luo_status st = gpu_check(err, cudaHostGetDevicePointer(&there, p, 0), what);
    if (st != LUO_OK) {
        gpu_free_mapped(p);
        return st;
    }
    *out = p;
    *device = there;
    return LUO_OK;
}

void gpu_free_mapped(void *p)
{
    if (p && cudaFreeHost(p) != cudaSuccess) (void)cudaGetLastError();
}
