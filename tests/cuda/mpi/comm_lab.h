/* comm_lab.h: eight ranks with communicators, for tests of exec/cuda/comm/comm.h: numbers
 * that everybody can work out, memory, streams. Only the plain runtime API and NCCL by
 * exec/cuda/comm/comm.h, so that the same programs run on GPUs. */
#ifndef LUO_TESTS_CUDA_COMM_LAB_H
#define LUO_TESTS_CUDA_COMM_LAB_H
#include <mpi.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/hash.h"
#include "exec/rank/boot.h"
#include "exec/cuda/comm/comm.h"

enum { LAB_RANKS = 8 };

typedef struct lab {
    int32_t rank;
    int failed;
    luo_boot *boot;
    int32_t device_of[LAB_RANKS];
    luo_rank_config config;
    luo_progress_report where;
    gpu_facts facts;
    gpu_comms *comms;
    cudaStream_t stream[LUO_LANES];
    luo_err err;
} lab;

static inline void lab_fail(lab *l, const char *fmt, ...)
{
    va_list args;
    if (l->failed++ > 5) return;
    fprintf(stderr, "rank %d: ", l->rank);
    va_start(args, fmt);
    vfprintf(stderr, fmt, args);
    va_end(args);
    fprintf(stderr, "\n");
}

static inline void lab_expect(lab *l, bool good, const char *what)
{
    if (!good) lab_fail(l, "%s (%s)", what, l->err.text);
}

/* What no rank can go on without. */
static inline void lab_must(lab *l, bool good, const char *what)
{
    if (good) return;
    lab_fail(l, "%s (%s)", what, l->err.text);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static inline void lab_begin(lab *l)
{
    int32_t n = 0;
    memset(l, 0, sizeof *l);
    lab_must(l, luo_boot_open(&l->boot, &l->rank, &n, &l->err) == LUO_OK, "MPI");
    lab_must(l, n == LAB_RANKS, "eight ranks are needed: mpirun -n 8");
    for (int i = 0; i < LAB_RANKS; i++) l->device_of[i] = i;
    l->config = (luo_rank_config){.rank = l->rank,
                                  .nranks = n,
                                  .device_of = l->device_of,
                                  .share_gpus = true,
                                  .where = &l->where};
    lab_must(l, gpu_open(l->rank, &l->facts, &l->err) == LUO_OK, "a GPU");
    for (int i = 0; i < LUO_LANES; i++)
        lab_must(l, cudaStreamCreateWithFlags(&l->stream[i], cudaStreamNonBlocking) == cudaSuccess,
                 "a stream");
}

static inline void lab_open(lab *l)
{
    lab_must(l, gpu_comms_open(&l->config, &l->facts, &l->comms, &l->err) == LUO_OK, "open");
}

static inline void lab_close(lab *l)
{
    gpu_comms_close(l->comms);
    l->comms = NULL;
}

/* Exit code of the program. */
static inline int lab_end(lab *l, const char *name)
{
    int all = 0;
    for (int i = 0; i < LUO_LANES; i++) cudaStreamDestroy(l->stream[i]);
    MPI_Allreduce(&l->failed, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (l->rank == 0) printf("%s: %s\n", name, all ? "FAILED" : "all ranks agree");
    if (l->rank == 0)
        printf("%d%%: Checks: 1, Failures: %d, Errors: 0\n", all ? 0 : 100, all ? 1 : 0);
    luo_boot_close(l->boot);
    return all ? 1 : 0;
}

/* ---- numbers ---- */

/* A whole number from -4 to 4: sums over eight ranks are exact in every type, in any order. */
static inline float lab_value(uint64_t key, int64_t who, int64_t i)
{
    const int64_t at[3] = {(int64_t)key, who, i};
    return (float)((int)(luo_hash_bytes(LUO_HASH_EMPTY, at, sizeof at) >> 20 & 0xffff) % 9 - 4);
}

static inline void lab_put(void *cells, int64_t i, int64_t elem, float v)
{
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    if (elem == 4) ((float *)cells)[i] = v;
    if (elem == 2) ((uint16_t *)cells)[i] = (uint16_t)(bits >> 16); /* exact: few digits */
    if (elem == 1) ((int8_t *)cells)[i] = (int8_t)v;
}

static inline float lab_get(const void *cells, int64_t i, int64_t elem)
{
    float v = 0;
    const uint32_t bits = elem == 2 ? (uint32_t)((const uint16_t *)cells)[i] << 16 : 0;
    memcpy(&v, &bits, sizeof v);
    if (elem == 4) v = ((const float *)cells)[i];
    if (elem == 1) v = ((const int8_t *)cells)[i];
    return v;
}

/* ---- memory: a block of the device and what the host puts into it and gets out ---- */

typedef struct lab_block {
    char *device, *host;
    int64_t bytes;
} lab_block;

static inline lab_block lab_alloc(lab *l, int64_t bytes)
{
    lab_block b = {.bytes = bytes};
    void *at = NULL;
    lab_must(l, cudaMalloc(&at, (size_t)bytes + 1) == cudaSuccess, "memory");
    b.device = at;
    b.host = calloc(1, (size_t)bytes + 1);
    lab_must(l, b.host != NULL, "memory");
    return b;
}

static inline void lab_send_block(lab *l, const lab_block *b)
{
    lab_must(l,
             cudaMemcpy(b->device, b->host, (size_t)b->bytes, cudaMemcpyHostToDevice) ==
                     cudaSuccess &&
                 cudaDeviceSynchronize() == cudaSuccess,
             "a copy to the device");
}

static inline void lab_get_block(lab *l, const lab_block *b)
{
    lab_must(l,
             cudaDeviceSynchronize() == cudaSuccess &&
                 cudaMemcpy(b->host, b->device, (size_t)b->bytes, cudaMemcpyDeviceToHost) ==
                     cudaSuccess,
             "a copy from the device");
}

static inline void lab_free(lab_block *b)
{
    cudaFree(b->device);
    free(b->host);
}
#endif
