/* gpu.h: this process's GPU: choosing it, its memory, errors in words. */
#ifndef LUO_EXEC_CUDA_GPU_H
#define LUO_EXEC_CUDA_GPU_H
#include <cuda_runtime_api.h>

#include "core/base/err.h"
#include "core/graph/model.h"
#include "exec/cuda/kernels/kernels.h"

/* LUO_OK, or a sentence with what, the code's name and its text: LUO_EOOM for memory of the device,
 * LUO_EBACKEND for all else. Every call of CUDA goes through it. */
luo_status gpu_check(luo_err *err, cudaError_t code, const char *what);

typedef struct gpu_facts { /* what ranks compare before they start; plain bytes, sent as they are */
    char name[64], host[64];
    char bus[20];         /* PCI id: ranks of one host with the same share a GPU */
    int32_t major, minor; /* compute capability */
    int32_t sms, clock_khz;
    int32_t runtime, driver, nccl, cublas; /* versions as the libraries give them */
    int64_t memory;                        /* bytes */
} gpu_facts;
/* Version of NCCL as text, in `text`, which it returns: "2.28.9"; 0, "none": it is not there
 * (exec/bundle/nccl_absent.c). */
const char *gpu_nccl_version(int32_t version, char text[32]);

/* Sets what has to stand in the environment before CUDA starts (CUDA_DEVICE_MAX_CONNECTIONS: a
 * stream per lane must not share a hardware queue with another), unless the user has set it. */
void gpu_prepare_environment(void);
/* Takes GPU `local` modulo those visible. Errors: LUO_EBACKEND no driver, no GPU, a GPU older than
 * the kernels were built for; each says what is there and what would be right. */
luo_status gpu_open(int32_t local, gpu_facts *out, luo_err *err);

/* Zeroed. Errors: LUO_EOOM with how much was asked for and how much is free. Owner: gpu_free. */
luo_status gpu_alloc(int64_t bytes, const char *what, void **out, luo_err *err);
void gpu_free(void *p);
/* n normal numbers times `size` at `at`, memory of the device: what is measured is measured with
 * numbers as steps have them, since zeros take less power and leave the clock higher. The same in
 * every run; other seeds are other numbers. A block of them is repeated, of a length that no row
 * has. Waits for the copies. */
luo_status gpu_fill_normal(void *at, gpu_type type, int64_t n, double size, uint64_t seed,
                           luo_err *err);
/* Page-locked host memory that the device reads and writes; *device: its address there. */
luo_status gpu_alloc_mapped(int64_t bytes, const char *what, void **out, void **device,
                            luo_err *err);
void gpu_free_mapped(void *p);

static inline gpu_type gpu_type_of(int64_t elem_bytes)
{
    return elem_bytes == 2 ? GPU_BF16 : GPU_F32;
}
static inline int64_t gpu_elem(gpu_type t)
{
    return t == GPU_BF16 ? 2 : 4;
}
#endif
