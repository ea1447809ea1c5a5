/* launch.c: launches of kernels, with the checks that CUDA makes and one that only a
 * GPU could make: no argument is an address of the host's own memory. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "block.h"
#include "memory.h"
#include "ops.h"

void standin_check_argument(const void *kernel, const void *argument, size_t bytes);
cudaError_t standin_launch(const cudaLaunchConfig_t *config, const void *kernel,
                           void (*run)(const void *self), const void *self, size_t bytes);

enum { SHARED_PLAIN = 48 * 1024, SHARED_MOST = 227 * 1024, ALLOWED = 4096 };

typedef struct launch {
    standin_grid grid;
    const void *kernel;
    _Alignas(16) unsigned char self[];
} launch;

static int64_t fail_after[STANDIN_CALLS] = {-1, -1, -1}, nlaunches, nblocks;
static struct {
    const void *kernel;
    int bytes;
} allowed[ALLOWED]; /* dynamic shared memory beyond the plain */

void standin_fail(standin_failing what, int64_t after)
{
    standin_lock();
    fail_after[what] = after;
    standin_unlock();
}
bool standin_injected(int what)
{
    return fail_after[what] >= 0 && fail_after[what]-- == 0;
}

/* ---- attributes ---- */

static int slot_of(const void *kernel)
{
    uint64_t at = (uint64_t)(uintptr_t)kernel * UINT64_C(0x9e3779b97f4a7c15) >> 52;
    for (int n = 0; n < ALLOWED; n++, at = (at + 1) % ALLOWED)
        if (!allowed[at].kernel || allowed[at].kernel == kernel) return (int)at;
    return -1;
}
cudaError_t cudaFuncSetAttribute(const void *kernel, enum cudaFuncAttribute attr, int value)
{
    STANDIN_ENTER();
    if (attr == cudaFuncAttributePreferredSharedMemoryCarveout) return standin_leave(cudaSuccess);
    const int at = slot_of(kernel);
    if (attr != cudaFuncAttributeMaxDynamicSharedMemorySize || value < 0 || value > SHARED_MOST ||
        at < 0)
        return standin_leave(cudaErrorInvalidValue);
    allowed[at].kernel = kernel;
    allowed[at].bytes = value;
    return standin_leave(cudaSuccess);
}

static cudaError_t check(const cudaLaunchConfig_t *c, const void *kernel)
{
    const dim3 g = c->gridDim, b = c->blockDim;
    if (c->numAttrs != 0) return cudaErrorNotSupported;
    if (g.x == 0 || g.y == 0 || g.z == 0 || g.x > INT32_MAX || g.y > 65535 || g.z > 65535)
        return cudaErrorInvalidConfiguration;
    if (b.x == 0 || b.y == 0 || b.z == 0 || b.x > 1024 || b.y > 1024 || b.z > 64 ||
        b.x * b.y * b.z > STANDIN_THREADS)
        return cudaErrorInvalidConfiguration;
    if (c->dynamicSmemBytes > SHARED_MOST) return cudaErrorInvalidValue;
    const int at = slot_of(kernel);
    const size_t most = at >= 0 && allowed[at].kernel ? (size_t)allowed[at].bytes : SHARED_PLAIN;
    if (c->dynamicSmemBytes > SHARED_PLAIN && c->dynamicSmemBytes > most)
        return cudaErrorInvalidValue;
    return cudaSuccess;
}

/* An aligned word that is an address of mapped memory, and not of the device's or page-locked.
 * Below 2^44 lies nothing of a process but what AddressSanitizer keeps, and two small numbers look
 * so. */
static bool is_host_address(const unsigned char *word)
{
    uintptr_t v;
    memcpy(&v, word, sizeof v);
    if (v < UINT64_C(0x100000000000) || v >= UINT64_C(0x800000000000)) return false;
    if ((v & UINT64_C(0xffffffff)) < 4096) return false; /* a small number, then padding */
    const void *p = (const void *)v;
    if (standin_is_device(p, 0) || standin_is_pinned(p, 0)) return false;
    unsigned char there;
    return mincore((void *)(v & ~(uintptr_t)4095), 1, &there) == 0;
}
void standin_check_argument(const void *kernel, const void *argument, size_t bytes)
{
    const unsigned char *at = argument;
    standin_lock();
    for (size_t i = 0; i + sizeof(void *) <= bytes; i += sizeof(void *)) {
        const void *word;
        memcpy(&word, at + i, sizeof word);
        if (word == kernel || !is_host_address(at + i)) continue;
        fprintf(stderr,
                "stand-in for CUDA: a kernel (at %p) was given %p, an address of the host\n",
                kernel, word);
        abort();
    }
    standin_unlock();
}

/* ---- running ---- */

static cudaError_t run_launch(void *ctx, void **run)
{
    (void)run;
    const launch *l = ctx;
    const dim3 g = l->grid.grid;
    nlaunches++;
    nblocks += (int64_t)g.x * g.y * g.z;
    standin_clock_add((uint64_t)g.x * g.y * g.z * STANDIN_WORK_NS);
    if (standin_injected(STANDIN_FAULT)) return cudaErrorIllegalAddress;
    return standin_run_grid(&l->grid);
}
cudaError_t standin_launch(const cudaLaunchConfig_t *config, const void *kernel,
                           void (*run)(const void *self), const void *self, size_t bytes)
{
    STANDIN_ENTER();
    const cudaError_t code = check(config, kernel);
    if (code != cudaSuccess) return standin_leave(code);
    if (standin_injected(STANDIN_LAUNCH)) return standin_leave(cudaErrorLaunchOutOfResources);
    launch *l = malloc(sizeof *l + bytes);
    if (!l) return standin_leave(cudaErrorMemoryAllocation);
    *l = (launch){.grid = {.grid = config->gridDim,
                           .block = config->blockDim,
                           .shared = (uint32_t)config->dynamicSmemBytes,
                           .run = run,
                           .kernel = l->self},
                  .kernel = kernel};
    memcpy(l->self, self, bytes);
    const standin_work work = {run_launch, NULL, free, l, "a kernel"};
    return standin_leave(standin_enqueue(config->stream, &work));
}

standin_counts standin_count(void)
{
    standin_lock();
    standin_counts out = {.launches = nlaunches, .blocks = nblocks};
    standin_count_memory(&out);
    standin_count_streams(&out);
    standin_count_graphs(&out);
    standin_unlock();
    return out;
}
