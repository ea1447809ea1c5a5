/* block.h: the threads of one CUDA block, while they run. */
#ifndef LUO_STANDIN_BLOCK_H
#define LUO_STANDIN_BLOCK_H
#include <stdint.h>

#include "cuda_runtime_api.h"

enum { STANDIN_WARP = 32, STANDIN_THREADS = 1024 };

typedef struct standin_grid { /* a launch */
    dim3 grid, block;
    uint32_t shared;                 /* bytes of dynamic shared memory */
    void (*run)(const void *kernel); /* the body of one thread */
    const void *kernel;
} standin_grid;

/* Runs all blocks, one after the other, in an order drawn by the seed; between two barriers the
 * threads of a block run one after the other, each until it waits or ends, in such an order too.
 * Errors: cudaErrorMemoryAllocation. A kernel that misuses a barrier ends the process. */
cudaError_t standin_run_grid(const standin_grid *grid);

/* What lanes of a warp do together: the last one to come calls together() with what each has
 * brought (NULL: that lane is not there or has ended). kind: all must mean the same. */
typedef void standin_together(void *const lane[STANDIN_WARP]);
void standin_meet(uint32_t mask, int kind, void *mine, standin_together *together);
/* Number of the running thread in its block. */
int standin_thread(void);

/* cp.async: warp.c. Nothing is under way when a block begins. */
void standin_copies_reset(void);
#endif
