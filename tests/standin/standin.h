/* standin.h: what tests of luoshu may ask of the stand-in beyond CUDA's own API. */
#ifndef LUO_STANDIN_STANDIN_H
#define LUO_STANDIN_STANDIN_H
#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
/* True; false on a GPU, where all that follows does nothing (tests/gpu/no_standin.c). */
bool standin_is_here(void);

/* Another seed from here on; STANDIN_SEED in the environment is that of the start (1). The seed
 * draws the order of ops of different streams, of blocks, of threads between barriers, and how far
 * the device lags behind the host. In programs of several ranks each rank has its own. */
void standin_seed(uint64_t seed);

typedef enum standin_failing {
    STANDIN_MALLOC, /* cudaMalloc: cudaErrorMemoryAllocation */
    STANDIN_LAUNCH, /* a launch of a kernel: cudaErrorLaunchOutOfResources, returned at once */
    STANDIN_FAULT,  /* a kernel: cudaErrorIllegalAddress, when it is run; the device is lost then */
    STANDIN_CALLS
} standin_failing;
/* Call number `after` (from 0) of that kind from here on fails, once. Negative: none does. */
void standin_fail(standin_failing what, int64_t after);

/* From here on every operation that is captured takes so long; 0: no time. */
void standin_slow_capture(int32_t us);

/* The device's clock goes by what the device does, 1 us an operation and a block of a kernel: what
 * else the machine does is not in it, nor is waiting. Else, and at the start unless STANDIN_CLOCK
 * is `work`, it goes by time. Whoever has compared it with the host's has to compare them anew. */
void standin_clock_by_work(bool on);

/* Memory of the device in bytes; at the start STANDIN_MEMORY MiB, or 8 GiB. */
void standin_set_memory(int64_t bytes);
/* Compute capability as queries report it; at the start STANDIN_CAPABILITY (10 * major + minor) or
 * 90. Instructions that a GPU of that age lacks are not refused. */
void standin_set_capability(int major, int minor);
/* The version of CUDA that the driver says it is for, as CUDA counts (12080); at the start that of
 * the runtime. */
void standin_set_driver(int version);

typedef struct standin_counts { /* what lives, to find leaks; what was done */
    int64_t allocations, bytes, pinned, streams, events, graphs, executables;
    int64_t launches, blocks;
} standin_counts;
standin_counts standin_count(void);
#ifdef __cplusplus
}
#endif
#endif
