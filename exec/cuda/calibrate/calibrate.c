#include "exec/cuda/calibrate/calibrate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/stats.h"
#include "exec/clock.h"

enum { WARM_UPS = 5, SAMPLES_LEAST = 20, SAMPLES_MOST = 2000, HELD_OUT = 4 };
enum { TIMES_MOST = 64 };
#define LEAST_S 0.2
#define GRAPH_S 1e-3 /* of one launch: what surrounds a graph is lost in it */

static bool brief(const gpu_bench *bench)
{
    return bench->m->networks < INT32_MAX;
}

/* ---- timing ---- */

typedef struct timed { /* runs of what is measured, one after the other */
    gpu_bench_fn run;
    void *what;
    int64_t turn;
    int32_t times;         /* in one graph */
    cudaGraphExec_t graph; /* NULL: launched one by one */
} timed;

static luo_status run_times(gpu_bench *bench, timed *t)
{
    for (int32_t i = 0; i < t->times; i++) LUO_TRY(t->run(bench, t->what, t->turn++));
    return LUO_OK;
}

static luo_status run_once(gpu_bench *bench, timed *t, double *s)
{
    float ms = 0;
    LUO_TRY(
        gpu_check(bench->err, cudaEventRecord(bench->begin, bench->stream), "recording an event"));
    LUO_TRY(t->graph ? gpu_check(bench->err, cudaGraphLaunch(t->graph, bench->stream),
                                 "launching a graph")
                     : run_times(bench, t));
    LUO_TRY(
        gpu_check(bench->err, cudaEventRecord(bench->end, bench->stream), "recording an event"));
    LUO_TRY(gpu_check(bench->err, cudaEventSynchronize(bench->end), "what is measured"));
    LUO_TRY(gpu_check(bench->err, cudaEventElapsedTime(&ms, bench->begin, bench->end),
                      "reading a time"));
    *s = 1e-3 * (double)ms / t->times;
    return LUO_OK;
}

luo_status gpu_bench_capture(gpu_bench *bench, gpu_bench_fn run, void *what, int32_t times,
                             cudaGraphExec_t *out)
{
    timed t = {.run = run, .what = what, .times = times};
    cudaGraph_t graph = NULL;
    LUO_TRY(gpu_check(bench->err,
                      cudaStreamBeginCapture(bench->stream, cudaStreamCaptureModeThreadLocal),
                      "a capture"));
    const luo_status st = run_times(bench, &t);
    const cudaError_t ended = cudaStreamEndCapture(bench->stream, &graph);
    LUO_TRY(st);
    LUO_TRY(gpu_check(bench->err, ended, "a capture"));
    const cudaError_t code = cudaGraphInstantiate(out, graph, 0);
    (void)cudaGraphDestroy(graph);
    return gpu_check(bench->err, code, "a graph");
}

/* As often as fills a graph, by what one run takes that is launched by itself. */
static int32_t times_of(const gpu_bench *bench, double one_s)
{
    if (brief(bench)) return 2;
    return one_s * TIMES_MOST < GRAPH_S ? TIMES_MOST : (int32_t)fmax(1, GRAPH_S / one_s);
}

static luo_status sample(gpu_bench *bench, timed *t, double *seconds, int32_t *samples)
{
    const int32_t least = brief(bench) ? 1 : SAMPLES_LEAST;
    double s[SAMPLES_MOST];
    int32_t n = 0;
    LUO_TRY(run_once(bench, t, &s[0])); /* the first launch of a graph takes longer */
    const double began = luo_clock_s();
    while (n < SAMPLES_MOST && (n < least || (!brief(bench) && luo_clock_s() - began < LEAST_S)))
        LUO_TRY(run_once(bench, t, &s[n++]));
    *seconds = luo_stats_median(s, n);
    *samples = n;
    return LUO_OK;
}

luo_status gpu_bench_time(gpu_bench *bench, gpu_bench_fn run, void *what, double *seconds,
                          int32_t *samples)
{
    timed t = {.run = run, .what = what, .times = 1};
    const int32_t warm = brief(bench) ? 1 : WARM_UPS;
    double one_s = 0;
    for (int32_t i = 0; i < warm; i++) LUO_TRY(run_once(bench, &t, &one_s));
    t.times = times_of(bench, one_s);
    LUO_TRY(gpu_bench_capture(bench, run, what, t.times, &t.graph));
    const luo_status st = sample(bench, &t, seconds, samples);
    (void)cudaGraphExecDestroy(t.graph);
    return st;
}

void gpu_bench_row(gpu_bench *bench, const char *op, gpu_type type, int64_t m, int64_t n, int64_t k,
                   double seconds, int32_t samples, int32_t place)
{
    luo_str_addf(&bench->m->ops, "%s,%s,%lld,%lld,%lld,%.4f,%d,%s\n", op,
                 luo_dtype_name(type == GPU_BF16 ? LUO_BF16 : LUO_F32), (long long)m, (long long)n,
                 (long long)k, 1e6 * seconds, samples,
                 place % HELD_OUT == HELD_OUT - 1 ? "validation" : "calibration");
}

void *gpu_bench_place(const gpu_bench *bench, int64_t turn, int64_t bytes)
{
    const int64_t places = bytes > 0 ? bench->slab_bytes / bytes : 1;
    return places > 0 ? bench->slab + turn % places * bytes / 256 * 256 : NULL;
}

luo_status gpu_bench_spread(gpu_bench *bench, int64_t bytes)
{
    const int64_t turns = brief(bench) ? 2 : TIMES_MOST;
    luo_status st = LUO_OK;
    for (int64_t turn = 1; st == LUO_OK && turn < turns; turn++) {
        char *to = gpu_bench_place(bench, turn, bytes);
        if (to == bench->slab) break; /* all places have been visited */
        st = gpu_check(
            bench->err,
            cudaMemcpyAsync(to, bench->slab, (size_t)bytes, cudaMemcpyDeviceToDevice, NULL),
            "copying");
    }
    if (st == LUO_OK) st = gpu_check(bench->err, cudaStreamSynchronize(NULL), "copying");
    return st;
}

/* ---- one rank ---- */

enum { SLAB_SHARE = 2 }; /* at most so big a part of the memory */

static luo_status open_bench(gpu_bench *bench, int64_t most)
{
    gpu_prepare_environment();
    LUO_TRY(gpu_open(bench->m->rank, &bench->facts, bench->err));
    LUO_TRY(gpu_check(bench->err, cudaStreamCreateWithFlags(&bench->stream, cudaStreamNonBlocking),
                      "making a stream"));
    LUO_TRY(gpu_check(bench->err, cudaEventCreate(&bench->begin), "making an event"));
    LUO_TRY(gpu_check(bench->err, cudaEventCreate(&bench->end), "making an event"));
    const int64_t share = bench->facts.memory / SLAB_SHARE;
    bench->slab_bytes = share < most ? share : most;
    return gpu_alloc(bench->slab_bytes, "measuring", (void **)&bench->slab, bench->err);
}

static void close_bench(gpu_bench *bench)
{
    gpu_free(bench->slab);
    if (bench->begin) cudaEventDestroy(bench->begin); /* nothing is left to be done if this fails */
    if (bench->end) cudaEventDestroy(bench->end);
    if (bench->stream) cudaStreamDestroy(bench->stream);
}

/* Names go where numbers are expected: the reader takes them from the fact's name. */
static void put_facts(gpu_bench *bench)
{
    const gpu_facts *facts = &bench->facts;
    int visible = 0;
    char nccl[32];
    if (bench->m->rank > 0) return;
    if (cudaGetDeviceCount(&visible) != cudaSuccess) visible = 1;
    luo_str_addf(&bench->m->facts, "device %s,1\n", facts->name);
    luo_str_addf(&bench->m->facts, "driver CUDA driver %d.%d,1\n", facts->driver / 1000,
                 facts->driver % 1000 / 10);
    luo_str_addf(&bench->m->facts, "cuda %d.%d,1\n", facts->runtime / 1000,
                 facts->runtime % 1000 / 10);
    luo_str_addf(&bench->m->facts, "nccl %s,1\n", gpu_nccl_version(facts->nccl, nccl));
    luo_str_addf(&bench->m->facts, "gpus,%d\nsm_count,%d\nmemory_bytes,%lld\n", visible,
                 (int)facts->sms, (long long)facts->memory);
}

luo_status gpu_measure_beside(gpu_bench *bench, const char *name, int32_t ranks)
{
    size_t free_bytes = 0, total = 0;
    int visible = 1;
    LUO_TRY(gpu_check(bench->err, cudaGetDeviceCount(&visible), "looking for GPUs"));
    LUO_TRY(gpu_check(bench->err, cudaMemGetInfo(&free_bytes, &total), "asking for free memory"));
    const int32_t sharing = (ranks + visible - 1) / visible;
    const double used = (double)total - (double)free_bytes;
    const double beside = used / sharing - (double)bench->slab_bytes;
    if (bench->m->rank == 0)
        luo_str_addf(&bench->m->facts, "beside_bytes %s,%.0f\n", name, beside > 0 ? beside : 0);
    return LUO_OK;
}

static luo_status measure_rows(gpu_bench *bench)
{
    LUO_TRY(gpu_measure_products(bench));
    LUO_TRY(gpu_measure_attention(bench));
    LUO_TRY(gpu_measure_streams(bench));
    return gpu_measure_beside(bench, "alone", 1);
}

/* What one GPU can: of rank 0 alone, since the others' would be the same. */
static luo_status measure_ops(luo_measurer *measurer, bool rows, luo_err *err)
{
    gpu_bench bench = {.m = measurer, .err = err};
    const int64_t most = measurer->networks < INT32_MAX ? 64 << 20 : (int64_t)8 << 30;
    if (measurer->rank > 0 || !rows) return LUO_OK;
    luo_status st = open_bench(&bench, most);
    if (st == LUO_OK) put_facts(&bench);
    if (st == LUO_OK) st = measure_rows(&bench);
    if (st == LUO_OK) st = gpu_measure_launches(&bench);
    if (st == LUO_OK) st = gpu_measure_copies(&bench);
    if (st == LUO_OK) st = gpu_measure_disk(&bench);
    gpu_free(bench.slab); /* the networks need it */
    bench.slab = NULL;
    if (st == LUO_OK && measurer->nranks == 1) st = gpu_measure_steps(&bench);
    close_bench(&bench);
    return st;
}

static luo_status measure_comm(luo_measurer *measurer, luo_err *err)
{
    gpu_bench bench = {.m = measurer, .err = err};
    const int64_t most = measurer->networks < INT32_MAX ? 16 << 20 : (int64_t)4 << 30;
    luo_status st = open_bench(&bench, most);
    if (st == LUO_OK) st = gpu_measure_comm(&bench);
    close_bench(&bench);
    return st;
}

const luo_measuring gpu_measuring = {measure_ops, measure_comm};
