/* device.c: the one device there is, and names of errors. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ops.h"

enum { VERSION = CUDART_VERSION, SMS = 4, CLOCK_KHZ = 1000000 };

static int capability; /* 10 * major + minor */

bool standin_is_here(void)
{
    return true;
}
void standin_set_capability(int major, int minor)
{
    standin_lock();
    capability = 10 * major + minor;
    standin_unlock();
}
static int driver = CUDART_VERSION;
void standin_set_driver(int version)
{
    driver = version;
}
static int own_capability(void)
{
    const char *given = getenv("STANDIN_CAPABILITY");
    if (capability == 0) capability = given ? atoi(given) : 90;
    return capability;
}

/* ---- the device's clock: another one than the host's, and coarser ---- */

static struct {
    bool known, by_work;
    uint64_t work_ns;
} device_clock;

static bool clock_is_by_work(void)
{
    const char *given = device_clock.known ? NULL : getenv("STANDIN_CLOCK");
    if (given) device_clock.by_work = strcmp(given, "work") == 0;
    device_clock.known = true;
    return device_clock.by_work;
}
void standin_clock_by_work(bool on)
{
    standin_lock();
    device_clock.known = true;
    device_clock.by_work = on;
    standin_unlock();
}
void standin_clock_add(uint64_t ns)
{
    device_clock.work_ns += ns;
}
/* By work, looking takes a tick, so that a kernel that waits for the clock comes to an end. */
uint64_t standin_clock_ns(void)
{
    enum { TICK = 32 };
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    const uint64_t ns = (uint64_t)t.tv_sec * UINT64_C(1000000000) + (uint64_t)t.tv_nsec;
    const uint64_t now = clock_is_by_work() ? device_clock.work_ns += TICK : ns;
    return (now + UINT64_C(1234567890123456789)) / TICK * TICK;
}

#define NAME(name, value, text)                                                                    \
    case cuda##name:                                                                               \
        return "cuda" #name;
#define TEXT(name, value, text)                                                                    \
    case cuda##name:                                                                               \
        return text;
const char *cudaGetErrorName(cudaError_t error)
{
    switch (error) {
        STANDIN_ERRORS(NAME)
    }
    return "unrecognized error code";
}
const char *cudaGetErrorString(cudaError_t error)
{
    switch (error) {
        STANDIN_ERRORS(TEXT)
    }
    return "unrecognized error code";
}

cudaError_t cudaGetDeviceCount(int *count)
{
    *count = 1;
    return cudaSuccess;
}
cudaError_t cudaSetDevice(int device)
{
    return device == 0 ? cudaSuccess : standin_failed(cudaErrorInvalidDevice);
}
cudaError_t cudaGetDevice(int *device)
{
    *device = 0;
    return cudaSuccess;
}
cudaError_t cudaSetDeviceFlags(unsigned int flags)
{
    return flags < 32 ? cudaSuccess : standin_failed(cudaErrorInvalidValue);
}
cudaError_t cudaDriverGetVersion(int *version)
{
    *version = driver;
    return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int *version)
{
    *version = VERSION;
    return cudaSuccess;
}
cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
    *least = 0;
    *greatest = -5;
    return cudaSuccess;
}
/* There is no second device. */
cudaError_t cudaDeviceGetP2PAttribute(int *value, enum cudaDeviceP2PAttr attr, int from, int to)
{
    (void)value, (void)attr, (void)from, (void)to;
    return standin_failed(cudaErrorInvalidDevice);
}
cudaError_t cudaDeviceGetPCIBusId(char *id, int length, int device)
{
    if (device != 0 || length < 13) return standin_failed(cudaErrorInvalidValue);
    snprintf(id, (size_t)length, "0000:00:00.0");
    return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attr, int device)
{
    if (device != 0) return standin_failed(cudaErrorInvalidDevice);
    const int sm = own_capability();
    switch (attr) {
    case cudaDevAttrMaxThreadsPerBlock:
        *value = 1024;
        break;
    case cudaDevAttrMaxSharedMemoryPerBlock:
        *value = 48 * 1024;
        break;
    case cudaDevAttrWarpSize:
        *value = 32;
        break;
    case cudaDevAttrClockRate:
        *value = CLOCK_KHZ;
        break;
    case cudaDevAttrMultiProcessorCount:
        *value = SMS;
        break;
    case cudaDevAttrCanMapHostMemory:
        *value = 1;
        break;
    case cudaDevAttrMemoryClockRate:
        *value = CLOCK_KHZ;
        break;
    case cudaDevAttrGlobalMemoryBusWidth:
        *value = 64;
        break;
    case cudaDevAttrL2CacheSize:
        *value = 1 << 20;
        break;
    case cudaDevAttrMaxThreadsPerMultiProcessor:
        *value = 2048;
        break;
    case cudaDevAttrComputeCapabilityMajor:
        *value = sm / 10;
        break;
    case cudaDevAttrComputeCapabilityMinor:
        *value = sm % 10;
        break;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
        *value = 228 * 1024;
        break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
        *value = 227 * 1024;
        break;
    default:
        return standin_failed(cudaErrorInvalidValue);
    }
    return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *prop, int device)
{
    if (device != 0) return standin_failed(cudaErrorInvalidDevice);
    size_t free_bytes = 0, total = 0;
    cudaMemGetInfo(&free_bytes, &total);
    *prop = (struct cudaDeviceProp){
        .name = "stand-in (processor)",
        .totalGlobalMem = total,
        .sharedMemPerBlock = 48 * 1024,
        .regsPerBlock = 65536,
        .warpSize = 32,
        .maxThreadsPerBlock = 1024,
        .maxThreadsDim = {1024, 1024, 64},
        .maxGridSize = {INT32_MAX, 65535, 65535},
        .major = own_capability() / 10,
        .minor = own_capability() % 10,
        .multiProcessorCount = SMS,
        .canMapHostMemory = 1,
        .concurrentKernels = 1,
        .asyncEngineCount = 1,
        .unifiedAddressing = 1,
        .memoryBusWidth = 64,
        .l2CacheSize = 1 << 20,
        .maxThreadsPerMultiProcessor = 2048,
        .sharedMemPerMultiprocessor = 228 * 1024,
        .regsPerMultiprocessor = 65536,
        .sharedMemPerBlockOptin = 227 * 1024,
        .maxBlocksPerMultiProcessor = 32,
        .reservedSharedMemPerBlock = 1024,
    };
    return cudaSuccess;
}
cudaError_t cudaDeviceReset(void)
{
    STANDIN_ENTER();
    return standin_leave(standin_wait_all());
}
