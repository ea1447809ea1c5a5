/* engine.h: how work gets into streams and is done. For the files of this folder.
 *
 * Everything that a stream is given becomes an op. An op is ready when those that it comes after
 * are done (the one before it in its stream, what events say, edges of a graph), and among ready
 * ops one is drawn by the seed: whatever no event orders happens in any order. Ops are worked on
 * inside API calls: all of them until a wait is over, a few at a query, none to all at an enqueue
 * (drawn by the seed, so that the device is ahead of the host or behind it), and by a thread of
 * their own under STANDIN_THREAD=1. */
#ifndef LUO_STANDIN_ENGINE_H
#define LUO_STANDIN_ENGINE_H
#include <stdbool.h>
#include <stdint.h>

#include "cuda_runtime_api.h"

/* All calls below and all callbacks run under one lock, which may be taken again by its holder.
 * Every API function takes it first. While a wait sleeps others get it. The last unlock closes the
 * memory of the device to the host: what the host touches there then ends the process by SIGSEGV.
 */
void standin_lock(void);
void standin_unlock(void);

typedef struct standin_work {
    /* Starts it once what it comes after is done; *run: state of this one run. NULL: nothing to do.
     * A captured work is begun again at each launch of its graph, never while a run of it goes on.
     */
    cudaError_t (*begin)(void *ctx, void **run);
    /* Called now and then after begin: cudaErrorNotReady, or cudaSuccess (*run is released), or an
     * error. NULL: done with begin. May not wait. */
    cudaError_t (*poll)(void *ctx, void *run);
    void (*drop)(void *ctx); /* no run will come any more; NULL: nothing to release */
    void *ctx;
    const char *what; /* for messages; lives as long as the process */
} standin_work;

/* Gives `work` to a stream, NULL being the legacy one; in a capture it becomes a node. ctx belongs
 * to the engine from here on, also when this fails. begin and poll see the memory of the device.
 * An error that they return is the device's: it stays, and every call returns it from then on. */
cudaError_t standin_enqueue(cudaStream_t stream, const standin_work *work);

/* `bytes` at p lie in one allocation of the device or in one piece of page-locked host memory. */
bool standin_is_device(const void *p, size_t bytes);
bool standin_is_pinned(const void *p, size_t bytes);
/* Opens the memory of the device until the last unlock: for work outside begin and poll. */
void standin_open_memory(void);

/* One draw: works on one ready op. False: nothing moved. For code that waits by itself. */
bool standin_progress(void);
/* Nothing moved: gives other ranks and threads the processor, longer and longer. Not
 * under the lock. */
void standin_idle(int times);

uint64_t standin_random(void);      /* of the seed; fast, not good */
uint32_t standin_below(uint32_t n); /* 0..n-1 */
#endif
