/* calibrate_comm.c: collectives on 2, 4 .. all ranks of a node, and messages of a pair.
 */
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/stats.h"
#include "exec/cuda/calibrate/calibrate.h"

typedef struct what {
    gpu_comm *comm;
    luo_coll coll;
    int64_t elements; /* f32, of the full tensor; a message: of it */
    int32_t n, rank;  /* of the group */
    int64_t *counts;
} what;

static luo_status run_message(gpu_bench *bench, const what *w, char *at)
{
    const gpu_message message = {1 - w->rank, w->rank == 0, at, w->elements};
    return gpu_exchange(w->comm, 1, &message, 4, bench->stream, bench->err);
}

static luo_status run(gpu_bench *bench, void *ctx, int64_t turn)
{
    const what *w = ctx;
    const int64_t bytes = w->elements * 4, part = w->elements / w->n * 4;
    char *from = gpu_bench_place(bench, turn, 2 * bytes + 512),
         *to = from + (bytes + 255) / 256 * 256;
    switch (w->coll) {
    case LUO_COLL_AR:
        return gpu_all_reduce(w->comm, from, to, w->elements, 4, LUO_REDUCE_SUM, bench->stream,
                              bench->err);
    case LUO_COLL_RS:
        return gpu_reduce_scatter(w->comm, from, to, w->counts, 4, LUO_REDUCE_SUM, NULL,
                                  bench->stream, bench->err);
    case LUO_COLL_AG:
        return gpu_all_gather(w->comm, from + w->rank * part, to, w->counts, 4, bench->stream,
                              bench->err);
    case LUO_COLL_A2A:
    case LUO_COLL_BCAST:
    case LUO_COLLS:
        break;
    }
    return run_message(bench, w, from);
}

enum { WARM_UPS = 5, SAMPLES = 20 };

/* All members make the same number of runs, each begun together; the median of the slowest. */
static luo_status time_together(gpu_bench *bench, what *w, MPI_Comm group, double *seconds)
{
    const bool brief = bench->m->networks < INT32_MAX;
    const int warm = brief ? 1 : WARM_UPS, n = brief ? 1 : SAMPLES;
    double s[SAMPLES] = {0};
    for (int i = -warm; i < n; i++) {
        float ms = 0;
        MPI_Barrier(group);
        LUO_TRY(gpu_check(bench->err, cudaEventRecord(bench->begin, bench->stream), "an event"));
        LUO_TRY(run(bench, w, i + warm));
        LUO_TRY(gpu_check(bench->err, cudaEventRecord(bench->end, bench->stream), "an event"));
        LUO_TRY(gpu_check(bench->err, cudaEventSynchronize(bench->end), "a collective"));
        LUO_TRY(gpu_check(bench->err, cudaEventElapsedTime(&ms, bench->begin, bench->end),
                          "reading a time"));
        double mine = 1e-3 * (double)ms, all = mine;
        MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_MAX, group);
        if (i >= 0) s[i] = all;
    }
    *seconds = luo_stats_median(s, n);
    return LUO_OK;
}

/* Atomics of a GPU on its peer's memory work over NVLink alone. Not known where each rank sees one
 * GPU: then PCIe. */
static const char *link_class(void)
{
    int atomics = 0;
    if (cudaDeviceGetP2PAttribute(&atomics, cudaDevP2PAttrNativeAtomicSupported, 0, 1) !=
        cudaSuccess)
        return "pcie";
    return atomics ? "nvlink" : "pcie";
}

static void put_row(gpu_bench *bench, const what *w, double seconds, int32_t place)
{
    const char *role = place % 4 == 3 ? "validation" : "calibration";
    if (bench->m->rank > 0) return;
    if (w->coll != LUO_COLLS) {
        luo_str_addf(&bench->m->collectives, "%s,f32,%d,1,%lld,%.4f,%s\n", luo_coll_name(w->coll),
                     w->n, (long long)w->elements * 4, 1e6 * seconds, role);
        return;
    }
    luo_str_addf(&bench->m->transfers, "%s,%lld,%.4f,%s\n", link_class(),
                 (long long)w->elements * 4, 1e6 * seconds, role);
}

/* Powers of two from 1 KiB to 1 GiB; quick: every fourth of them. */
static luo_status sizes_of(gpu_bench *bench, what *w, MPI_Comm group)
{
    int32_t place = 0;
    for (int bit = 10; bit <= 30 && place < bench->m->networks; bit += bench->m->quick ? 4 : 1) {
        double s = 0;
        const int64_t bytes = ((int64_t)1 << bit) / (4 * w->n) * (4 * w->n);
        if (2 * bytes + 1024 > bench->slab_bytes) break;
        w->elements = bytes / 4;
        for (int32_t r = 0; r < w->n; r++) w->counts[r] = w->elements / w->n;
        LUO_TRY(time_together(bench, w, group, &s));
        put_row(bench, w, s, place++);
    }
    return LUO_OK;
}

static luo_status measure_group(gpu_bench *bench, gpu_comms *comms, int32_t n, int64_t *counts,
                                const int32_t *dev)
{
    static const luo_coll kinds[] = {LUO_COLL_AR, LUO_COLL_RS, LUO_COLL_AG,
                                           LUO_COLLS};
    gpu_comm *comm = NULL;
    MPI_Comm group;
    const bool inside = bench->m->rank < n;
    luo_status st = gpu_comms_make(comms, LUO_STREAM_TP, n, dev, &comm, bench->err);
    if (st != LUO_OK) return st;
    MPI_Comm_split(MPI_COMM_WORLD, inside, bench->m->rank, &group);
    for (int k = 0; inside && st == LUO_OK && k < 4; k++) {
        what w = {.comm = comm, .coll = kinds[k], .n = n, .rank = bench->m->rank, .counts = counts};
        if (kinds[k] != LUO_COLLS || n == 2) st = sizes_of(bench, &w, group);
    }
    MPI_Comm_free(&group);
    MPI_Barrier(MPI_COMM_WORLD);
    return st;
}

static luo_status measure_groups(gpu_bench *bench, gpu_comms *comms, int64_t *counts,
                                 const int32_t *dev)
{
    const int32_t all = bench->m->nranks;
    for (int32_t n = 2; n < all; n *= 2) LUO_TRY(measure_group(bench, comms, n, counts, dev));
    return measure_group(bench, comms, all, counts, dev);
}

static luo_status measure_beside(gpu_bench *bench)
{
    MPI_Comm host;
    int ranks = 1;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host);
    MPI_Comm_size(host, &ranks);
    const luo_status st = gpu_measure_beside(bench, "communicators", ranks);
    MPI_Barrier(host);
    MPI_Comm_free(&host);
    return st;
}

luo_status gpu_measure_comm(gpu_bench *bench)
{
    int32_t *dev = calloc((size_t)bench->m->nranks, sizeof *dev);
    int64_t *counts = calloc((size_t)bench->m->nranks, sizeof *counts);
    gpu_comms *comms = NULL;
    luo_status st = dev && counts ? LUO_OK : luo_err_nomem(bench->err);
    for (int32_t r = 0; st == LUO_OK && r < bench->m->nranks; r++) dev[r] = r;
    const luo_rank_config config = {.rank = bench->m->rank,
                                    .nranks = bench->m->nranks,
                                    .device_of = dev,
                                    .share_gpus = true, /* as many as --ranks asks for */
                                    .dtype = LUO_F32};
    if (st == LUO_OK) st = gpu_comms_open(&config, &bench->facts, &comms, bench->err);
    if (st == LUO_OK) st = measure_groups(bench, comms, counts, dev);
    if (st == LUO_OK) st = measure_beside(bench);
    if (comms) gpu_comms_close(comms);
    free(counts);
    free(dev);
    return st;
}
