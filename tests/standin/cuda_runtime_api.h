/* cuda_runtime_api.h: the part of the CUDA runtime API (13.0: names, values and
 * meaning) that luoshu calls, implemented on processors by tests/standin (README.md there).
 * A test tool: nothing that it prints or returns is a result of a GPU. */
#ifndef LUO_STANDIN_CUDA_RUNTIME_API_H
#define LUO_STANDIN_CUDA_RUNTIME_API_H
#include <stddef.h>
#include <stdint.h>

#include "vector_types.h"

#ifdef __cplusplus
#define STANDIN_DEFAULT(value) = value
extern "C" {
#else
#define STANDIN_DEFAULT(value)
#endif

#define CUDART_VERSION 13000
#define CUDARTAPI
#define CUDART_CB

/* name, value, text */
#define STANDIN_ERRORS(X)                                                                          \
    X(Success, 0, "no error")                                                                      \
    X(ErrorInvalidValue, 1, "invalid argument")                                                    \
    X(ErrorMemoryAllocation, 2, "out of memory")                                                   \
    X(ErrorInitializationError, 3, "initialization error")                                         \
    X(ErrorInvalidConfiguration, 9, "invalid configuration argument")                              \
    X(ErrorInvalidDevicePointer, 17, "invalid device pointer")                                     \
    X(ErrorInvalidMemcpyDirection, 21, "invalid copy direction for memcpy")                        \
    X(ErrorInsufficientDriver, 35, "CUDA driver version is insufficient")                          \
    X(ErrorInvalidDeviceFunction, 98, "invalid device function")                                   \
    X(ErrorNoDevice, 100, "no CUDA-capable device is detected")                                    \
    X(ErrorInvalidDevice, 101, "invalid device ordinal")                                           \
    X(ErrorNoKernelImageForDevice, 209, "no kernel image is available for execution")              \
    X(ErrorUnsupportedPtxVersion, 222, "PTX of a newer toolchain than the driver's")               \
    X(ErrorInvalidResourceHandle, 400, "invalid resource handle")                                  \
    X(ErrorIllegalState, 401, "the operation cannot be performed in the present state")            \
    X(ErrorNotReady, 600, "device not ready")                                                      \
    X(ErrorIllegalAddress, 700, "an illegal memory access was encountered")                        \
    X(ErrorLaunchOutOfResources, 701, "too many resources requested for launch")                   \
    X(ErrorHostMemoryAlreadyRegistered, 712, "part or all of the memory is registered")            \
    X(ErrorHostMemoryNotRegistered, 713, "not registered memory")                                  \
    X(ErrorLaunchFailure, 719, "unspecified launch failure")                                       \
    X(ErrorNotPermitted, 800, "operation not permitted")                                           \
    X(ErrorNotSupported, 801, "operation not supported")                                           \
    X(ErrorStreamCaptureUnsupported, 900, "not permitted when stream is capturing")                \
    X(ErrorStreamCaptureInvalidated, 901, "an error in the capture before this")                   \
    X(ErrorStreamCaptureMerge, 902, "would merge separate captures")                               \
    X(ErrorStreamCaptureUnmatched, 903, "not the stream that began it")                            \
    X(ErrorStreamCaptureUnjoined, 904, "capturing stream has unjoined work")                       \
    X(ErrorStreamCaptureIsolation, 905, "waits for work outside the capture")                      \
    X(ErrorStreamCaptureImplicit, 906, "the legacy stream would depend on a capture")              \
    X(ErrorCapturedEvent, 907, "event was recorded in a capture")                                  \
    X(ErrorStreamCaptureWrongThread, 908, "capture of another thread")                             \
    X(ErrorUnknown, 999, "unknown error")

enum cudaError {
#define STANDIN_ENUM(name, value, text) cuda##name = value,
    STANDIN_ERRORS(STANDIN_ENUM)
#undef STANDIN_ENUM
};
typedef enum cudaError cudaError_t;

typedef struct CUstream_st *cudaStream_t;
typedef struct CUevent_st *cudaEvent_t;
typedef struct CUgraph_st *cudaGraph_t;
typedef struct CUgraphNode_st *cudaGraphNode_t;
typedef struct CUgraphExec_st *cudaGraphExec_t;
#define cudaStreamLegacy ((cudaStream_t)0x1)

const char *cudaGetErrorName(cudaError_t error);
const char *cudaGetErrorString(cudaError_t error);
cudaError_t cudaGetLastError(void);
cudaError_t cudaPeekAtLastError(void);

/* ---- device ---- */

typedef struct cudaUUID_t {
    char bytes[16];
} cudaUUID_t;
struct cudaDeviceProp {
    char name[256];
    cudaUUID_t uuid;
    size_t totalGlobalMem, sharedMemPerBlock;
    int regsPerBlock, warpSize;
    int maxThreadsPerBlock, maxThreadsDim[3], maxGridSize[3];
    int major, minor, multiProcessorCount, integrated, canMapHostMemory, concurrentKernels;
    int ECCEnabled, pciBusID, pciDeviceID, pciDomainID, asyncEngineCount, unifiedAddressing;
    int memoryBusWidth, l2CacheSize, maxThreadsPerMultiProcessor;
    size_t sharedMemPerMultiprocessor;
    int regsPerMultiprocessor, cooperativeLaunch;
    size_t sharedMemPerBlockOptin;
    int maxBlocksPerMultiProcessor;
    size_t reservedSharedMemPerBlock;
};
enum cudaDeviceAttr {
    cudaDevAttrMaxThreadsPerBlock = 1,
    cudaDevAttrMaxSharedMemoryPerBlock = 8,
    cudaDevAttrWarpSize = 10,
    cudaDevAttrClockRate = 13,
    cudaDevAttrMultiProcessorCount = 16,
    cudaDevAttrCanMapHostMemory = 19,
    cudaDevAttrMemoryClockRate = 36,
    cudaDevAttrGlobalMemoryBusWidth = 37,
    cudaDevAttrL2CacheSize = 38,
    cudaDevAttrMaxThreadsPerMultiProcessor = 39,
    cudaDevAttrComputeCapabilityMajor = 75,
    cudaDevAttrComputeCapabilityMinor = 76,
    cudaDevAttrMaxSharedMemoryPerMultiprocessor = 81,
    cudaDevAttrMaxSharedMemoryPerBlockOptin = 97
};
enum cudaDeviceP2PAttr {
    cudaDevP2PAttrPerformanceRank = 1,
    cudaDevP2PAttrAccessSupported = 2,
    cudaDevP2PAttrNativeAtomicSupported = 3
};
enum cudaFuncAttribute {
    cudaFuncAttributeMaxDynamicSharedMemorySize = 8,
    cudaFuncAttributePreferredSharedMemoryCarveout = 9
};
enum {
    cudaDeviceScheduleAuto = 0,
    cudaDeviceScheduleSpin = 1,
    cudaDeviceScheduleYield = 2,
    cudaDeviceScheduleBlockingSync = 4,
    cudaDeviceMapHost = 8
};
cudaError_t cudaGetDeviceCount(int *count);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaGetDevice(int *device);
cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *prop, int device);
cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attr, int device);
cudaError_t cudaDeviceGetP2PAttribute(int *value, enum cudaDeviceP2PAttr attr, int from, int to);
cudaError_t cudaDeviceGetPCIBusId(char *id, int length, int device);
cudaError_t cudaSetDeviceFlags(unsigned int flags);
cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest);
cudaError_t cudaDeviceSynchronize(void);
cudaError_t cudaDeviceReset(void);
cudaError_t cudaDriverGetVersion(int *version);
cudaError_t cudaRuntimeGetVersion(int *version);

/* ---- memory ---- */

enum cudaMemcpyKind {
    cudaMemcpyHostToHost = 0,
    cudaMemcpyHostToDevice = 1,
    cudaMemcpyDeviceToHost = 2,
    cudaMemcpyDeviceToDevice = 3,
    cudaMemcpyDefault = 4
};
enum { cudaHostAllocDefault = 0, cudaHostAllocPortable = 1, cudaHostAllocMapped = 2 };
enum { cudaHostRegisterDefault = 0, cudaHostRegisterPortable = 1, cudaHostRegisterMapped = 2 };
enum cudaMemoryType {
    cudaMemoryTypeUnregistered = 0,
    cudaMemoryTypeHost = 1,
    cudaMemoryTypeDevice = 2
};
struct cudaPointerAttributes {
    enum cudaMemoryType type;
    int device;
    void *devicePointer, *hostPointer;
};
cudaError_t cudaMalloc(void **out, size_t bytes);
cudaError_t cudaFree(void *p);
cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total);
cudaError_t cudaMallocHost(void **out, size_t bytes);
cudaError_t cudaHostAlloc(void **out, size_t bytes, unsigned int flags);
cudaError_t cudaFreeHost(void *p);
cudaError_t cudaHostGetDevicePointer(void **device, void *host, unsigned int flags);
cudaError_t cudaHostRegister(void *p, size_t bytes, unsigned int flags);
cudaError_t cudaHostUnregister(void *p);
cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *out, const void *p);
cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind);
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                            cudaStream_t stream STANDIN_DEFAULT(0));
cudaError_t cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch,
                              size_t width, size_t height, enum cudaMemcpyKind kind,
                              cudaStream_t stream STANDIN_DEFAULT(0));
cudaError_t cudaMemset2DAsync(void *p, size_t pitch, int value, size_t width, size_t height,
                              cudaStream_t stream STANDIN_DEFAULT(0));
cudaError_t cudaMemset(void *p, int value, size_t bytes);
cudaError_t cudaMemsetAsync(void *p, int value, size_t bytes,
                            cudaStream_t stream STANDIN_DEFAULT(0));

/* ---- streams and events ---- */

enum { cudaStreamDefault = 0, cudaStreamNonBlocking = 1 };
enum { cudaEventDefault = 0, cudaEventBlockingSync = 1, cudaEventDisableTiming = 2 };
enum { cudaEventRecordDefault = 0, cudaEventWaitDefault = 0 };
typedef void(CUDART_CB *cudaHostFn_t)(void *ctx);
cudaError_t cudaStreamCreate(cudaStream_t *out);
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *out, unsigned int flags);
cudaError_t cudaStreamCreateWithPriority(cudaStream_t *out, unsigned int flags, int priority);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaStreamQuery(cudaStream_t stream);
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event,
                                unsigned int flags STANDIN_DEFAULT(0));
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t fn, void *ctx);
cudaError_t cudaEventCreate(cudaEvent_t *out);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *out, unsigned int flags);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream STANDIN_DEFAULT(0));
cudaError_t cudaEventQuery(cudaEvent_t event);
cudaError_t cudaEventSynchronize(cudaEvent_t event);
cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t from, cudaEvent_t to);

/* ---- capture and graphs ---- */

enum cudaStreamCaptureMode {
    cudaStreamCaptureModeGlobal = 0,
    cudaStreamCaptureModeThreadLocal = 1,
    cudaStreamCaptureModeRelaxed = 2
};
enum cudaStreamCaptureStatus {
    cudaStreamCaptureStatusNone = 0,
    cudaStreamCaptureStatusActive = 1,
    cudaStreamCaptureStatusInvalidated = 2
};
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode);
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *out);
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus *out);
cudaError_t cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *mode);
cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *n);
cudaError_t cudaGraphInstantiate(cudaGraphExec_t *out, cudaGraph_t graph,
                                 unsigned long long flags STANDIN_DEFAULT(0));
cudaError_t cudaGraphUpload(cudaGraphExec_t exec, cudaStream_t stream);
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream);
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec);
cudaError_t cudaGraphDestroy(cudaGraph_t graph);

/* ---- kernels: the typed ways to start one are in cuda_runtime.h ---- */

typedef struct cudaLaunchConfig_st {
    dim3 gridDim, blockDim;
    size_t dynamicSmemBytes;
    cudaStream_t stream;
    void *attrs; /* none is known here */
    unsigned int numAttrs;
} cudaLaunchConfig_t;
cudaError_t cudaFuncSetAttribute(const void *kernel, enum cudaFuncAttribute attr, int value);

#ifdef __cplusplus
}
#endif
#endif
