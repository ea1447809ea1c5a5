#include "exec/cuda/calibrate/calibrate.h"
#include "core/base/stats.h"

#include <stdlib.h>
#include <string.h>

#include "exec/clock.h"

enum { WARM_UPS = 5, SAMPLES_LEAST = 20, SAMPLES_MOST = 2000, HELD_OUT = 4 };
#define LEAST_S 0.2

static bool brief(const gpu_bench *b)
{
    return b->m->networks < INT32_MAX;
}

/* ---- timing ---- */

static luo_status run_once(gpu_bench *b, gpu_bench_fn run, void *what, int64_t turn, double *s)
{
    float ms = 0;
    LUO_TRY(gpu_check(b->err, cudaEventRecord(b->begin, b->stream), "recording an event"));
    LUO_TRY(run(b, what, turn));
    LUO_TRY(gpu_check(b->err, cudaEventRecord(b->end, b->stream), "recording an event"));
    LUO_TRY(gpu_check(b->err, cudaEventSynchronize(b->end), "what is measured"));
    LUO_TRY(gpu_check(b->err, cudaEventElapsedTime(&ms, b->begin, b->end), "reading a time"));
    *s = 1e-3 * (double)ms;
    return LUO_OK;
}

luo_status gpu_bench_time(gpu_bench *b, gpu_bench_fn run, void *what, double *seconds,
                          int32_t *samples)
{
    const int32_t least = brief(b) ? 1 : SAMPLES_LEAST, warm = brief(b) ? 1 : WARM_UPS;
    double *s = malloc(SAMPLES_MOST * sizeof *s);
    luo_status st = s ? LUO_OK : luo_err_nomem(b->err);
    int64_t turn = 0;
    int32_t n = 0;
    for (double ignored; st == LUO_OK && turn < warm; turn++)
        st = run_once(b, run, what, turn, &ignored);
    const double began = luo_clock_s();
    while (st == LUO_OK && n < SAMPLES_MOST &&
           (n < least || (!brief(b) && luo_clock_s() - began < LEAST_S)))
        st = run_once(b, run, what, turn++, &s[n++]);
    if (st == LUO_OK) {
        *seconds = luo_stats_median(s, (int32_t)n);
        *samples = n;
    }
    free(s);
    return st;
}

void gpu_bench_row(gpu_bench *b, const char *op, gpu_type type, int64_t m, int64_t n, int64_t k,
                   double seconds, int32_t samples, int32_t place)
{
    luo_str_addf(&b->m->ops, "%s,%s,%lld,%lld,%lld,%.4f,%d,%s\n", op,
                 luo_dtype_name(type == GPU_BF16 ? LUO_BF16 : LUO_F32), (long long)m, (long long)n,
                 (long long)k, 1e6 * seconds, samples,
                 place % HELD_OUT == HELD_OUT - 1 ? "validation" : "calibration");
}

void *gpu_bench_place(const gpu_bench *b, int64_t turn, int64_t bytes)
{
    const int64_t places = bytes > 0 ? b->slab_bytes / bytes : 1;
    return places > 0 ? b->slab + turn % places * bytes / 256 * 256 : NULL;
}

luo_status gpu_bench_spread(gpu_bench *b, int64_t bytes)
{
    const int64_t turns = brief(b) ? 2 : WARM_UPS + SAMPLES_MOST;
    luo_status st = LUO_OK;
    for (int64_t turn = 1; st == LUO_OK && turn < turns; turn++) {
        char *to = gpu_bench_place(b, turn, bytes);
        if (to == b->slab) break; /* all places have been visited */
        st = gpu_check(b->err,
                       cudaMemcpyAsync(to, b->slab, (size_t)bytes, cudaMemcpyDeviceToDevice, NULL),
                       "copying");
    }
    if (st == LUO_OK) st = gpu_check(b->err, cudaStreamSynchronize(NULL), "copying");
    return st;
}

/* ---- one rank ---- */

enum { SLAB_SHARE = 2 }; /* at most so big a part of the memory */

static luo_status open_bench(gpu_bench *b, int64_t most)
{
    gpu_prepare_environment();
    LUO_TRY(gpu_open(b->m->rank, &b->facts, b->err));
    LUO_TRY(gpu_check(b->err, cudaStreamCreateWithFlags(&b->stream, cudaStreamNonBlocking),
                      "making a stream"));
    LUO_TRY(gpu_check(b->err, cudaEventCreate(&b->begin), "making an event"));
    LUO_TRY(gpu_check(b->err, cudaEventCreate(&b->end), "making an event"));
    const int64_t share = b->facts.memory / SLAB_SHARE;
    b->slab_bytes = share < most ? share : most;
    return gpu_alloc(b->slab_bytes, "measuring", (void **)&b->slab, b->err);
}

static void close_bench(gpu_bench *b)
{
    gpu_free(b->slab);
    if (b->begin) cudaEventDestroy(b->begin); /* nothing is left to be done if this fails */
    if (b->end) cudaEventDestroy(b->end);
    if (b->stream) cudaStreamDestroy(b->stream);
}

/* Names go where numbers are expected: the reader takes them from the fact's name. */
static void put_facts(gpu_bench *b)
{
    const gpu_facts *f = &b->facts;
    int visible = 0;
    char nccl[32];
    if (b->m->rank > 0) return;
    if (cudaGetDeviceCount(&visible) != cudaSuccess) visible = 1;
    luo_str_addf(&b->m->facts, "device %s,1\n", f->name);
    luo_str_addf(&b->m->facts, "driver CUDA driver %d.%d,1\n", f->driver / 1000,
                 f->driver % 1000 / 10);
    luo_str_addf(&b->m->facts, "cuda %d.%d,1\n", f->runtime / 1000, f->runtime % 1000 / 10);
    luo_str_addf(&b->m->facts, "nccl %s,1\n", gpu_nccl_version(f->nccl, nccl));
    luo_str_addf(&b->m->facts, "gpus,%d\nsm_count,%d\nmemory_bytes,%lld\n", visible, (int)f->sms,
                 (long long)f->memory);
}

luo_status gpu_measure_beside(gpu_bench *b, const char *name, int32_t ranks)
{
    size_t free_bytes = 0, total = 0;
    int visible = 1;
    LUO_TRY(gpu_check(b->err, cudaGetDeviceCount(&visible), "looking for GPUs"));
    LUO_TRY(gpu_check(b->err, cudaMemGetInfo(&free_bytes, &total), "asking for free memory"));
    const int32_t sharing = (ranks + visible - 1) / visible;
    const double used = (double)total - (double)free_bytes;
    const double beside = used / sharing - (double)b->slab_bytes;
    if (b->m->rank == 0)
        luo_str_addf(&b->m->facts, "beside_bytes %s,%.0f\n", name, beside > 0 ? beside : 0);
    return LUO_OK;
}

static luo_status measure_rows(gpu_bench *b)
{
    LUO_TRY(gpu_measure_products(b));
    LUO_TRY(gpu_measure_attention(b));
    LUO_TRY(gpu_measure_streams(b));
    return gpu_measure_beside(b, "alone", 1);
}

/* What one GPU can: of rank 0 alone, since the others' would be the same. */
static luo_status measure_ops(luo_measurer *m, bool rows, luo_err *err)
{
    gpu_bench b = {.m = m, .err = err};
    const int64_t most = m->networks < INT32_MAX ? 64 << 20 : (int64_t)8 << 30;
    if (m->rank > 0 || !rows) return LUO_OK;
    luo_status st = open_bench(&b, most);
    if (st == LUO_OK) put_facts(&b);
    if (st == LUO_OK) st = measure_rows(&b);
    if (st == LUO_OK) st = gpu_measure_launches(&b);
    if (st == LUO_OK) st = gpu_measure_copies(&b);
    if (st == LUO_OK) st = gpu_measure_disk(&b);
    gpu_free(b.slab); /* the networks need it */
    b.slab = NULL;
    if (st == LUO_OK && m->nranks == 1) st = gpu_measure_steps(&b);
    close_bench(&b);
    return st;
}

static luo_status measure_comm(luo_measurer *m, luo_err *err)
{
    gpu_bench b = {.m = m, .err = err};
    const int64_t most = m->networks < INT32_MAX ? 16 << 20 : (int64_t)4 << 30;
    luo_status st = open_bench(&b, most);
    if (st == LUO_OK) st = gpu_measure_comm(&b);
    close_bench(&b);
    return st;
}

const luo_measuring gpu_measuring = {measure_ops, measure_comm};
