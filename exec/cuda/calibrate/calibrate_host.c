/* calibrate_host.c: what the host has to do with it: launches, copies, the disk. Facts.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/stats.h"
#include "core/io/files.h"
#include "exec/clock.h"
#include "exec/cuda/calibrate/calibrate.h"

/* ---- launches ---- */

enum { LAUNCHES = 256, TURNS = 9 };

/* The smallest kernel there is. */
static luo_status run_smallest(gpu_bench *bench, void *what, int64_t turn)
{
    (void)what, (void)turn;
    return gpu_check(bench->err, gpu_stamp(bench->stream, (uint64_t *)(void *)bench->slab),
                     "a launch");
}

static luo_status launch_many(gpu_bench *bench)
{
    for (int i = 0; i < LAUNCHES; i++) LUO_TRY(run_smallest(bench, NULL, i));
    return LUO_OK;
}

static luo_status host_time(gpu_bench *bench, double *each)
{
    const double began = luo_clock_s();
    LUO_TRY(launch_many(bench));
    *each = (luo_clock_s() - began) / LAUNCHES;
    return gpu_check(bench->err, cudaStreamSynchronize(bench->stream), "launches");
}

static luo_status graph_times(gpu_bench *bench, cudaGraphExec_t graph, double *device, double *host)
{
    float ms = 0;
    LUO_TRY(gpu_check(bench->err, cudaEventRecord(bench->begin, bench->stream), "an event"));
    const double began = luo_clock_s();
    LUO_TRY(gpu_check(bench->err, cudaGraphLaunch(graph, bench->stream), "launching a graph"));
    *host = (luo_clock_s() - began) / LAUNCHES;
    LUO_TRY(gpu_check(bench->err, cudaEventRecord(bench->end, bench->stream), "an event"));
    LUO_TRY(gpu_check(bench->err, cudaEventSynchronize(bench->end), "a graph"));
    LUO_TRY(gpu_check(bench->err, cudaEventElapsedTime(&ms, bench->begin, bench->end),
                      "reading a time"));
    *device = 1e-3 * (double)ms / LAUNCHES;
    return LUO_OK;
}

/* launch_us: from one kernel to the next on the device, in a graph, as steps run;
 * graph_launch_us and host_launch_us: what the host does for each, with and without a graph. */
luo_status gpu_measure_launches(gpu_bench *bench)
{
    double eager[TURNS], device[TURNS], host[TURNS];
    cudaGraphExec_t graph = NULL;
    luo_status st = launch_many(bench);
    if (st == LUO_OK) st = gpu_check(bench->err, cudaStreamSynchronize(bench->stream), "launches");
    for (int i = 0; st == LUO_OK && i < TURNS; i++) st = host_time(bench, &eager[i]);
    if (st == LUO_OK) st = gpu_bench_capture(bench, run_smallest, NULL, LAUNCHES, &graph);
    for (int i = -1; st == LUO_OK && i < TURNS; i++)
        st = graph_times(bench, graph, &device[i < 0 ? 0 : i], &host[i < 0 ? 0 : i]);
    if (graph) cudaGraphExecDestroy(graph);
    if (st != LUO_OK) return st;
    luo_str_addf(&bench->m->facts, "launch_us,%.4f\ngraph_launch_us,%.4f\nhost_launch_us,%.4f\n",
                 1e6 * luo_stats_median(device, TURNS), 1e6 * luo_stats_median(host, TURNS),
                 1e6 * luo_stats_median(eager, TURNS));
    return LUO_OK;
}

/* ---- host and device ---- */

typedef struct copy {
    void *host;
    size_t bytes;
    enum cudaMemcpyKind way;
} copy;

static luo_status run_copy(gpu_bench *bench, void *what, int64_t turn)
{
    const copy *c = what;
    const bool down = c->way == cudaMemcpyHostToDevice;
    (void)turn;
    return gpu_check(bench->err,
                     cudaMemcpyAsync(down ? (void *)bench->slab : c->host,
                                     down ? c->host : (void *)bench->slab, c->bytes, c->way,
                                     bench->stream),
                     "copying");
}

luo_status gpu_measure_copies(gpu_bench *bench)
{
    copy c = {.bytes = bench->m->networks < INT32_MAX ? 1 << 16 : 256 << 20};
    double down = 0, up = 0;
    int32_t samples;
    void *ignored;
    if ((int64_t)c.bytes > bench->slab_bytes) c.bytes = (size_t)bench->slab_bytes;
    LUO_TRY(gpu_alloc_mapped((int64_t)c.bytes, "copies", &c.host, &ignored, bench->err));
    memset(c.host, 1, c.bytes);
    c.way = cudaMemcpyHostToDevice;
    luo_status st = gpu_bench_time(bench, run_copy, &c, &down, &samples);
    c.way = cudaMemcpyDeviceToHost;
    if (st == LUO_OK) st = gpu_bench_time(bench, run_copy, &c, &up, &samples);
    gpu_free_mapped(c.host);
    if (st == LUO_OK)
        luo_str_addf(&bench->m->facts,
                     "host_to_device_gbytes_per_s,%.6g\n"
                     "device_to_host_gbytes_per_s,%.6g\n",
                     1e-9 * (double)c.bytes / down, 1e-9 * (double)c.bytes / up);
    return st;
}

/* ---- the disk ---- */

static bool write_whole(int fd, const char *at, size_t n)
{
    while (n > 0) {
        const ssize_t done = write(fd, at, n);
        if (done <= 0) return false;
        at += done;
        n -= (size_t)done;
    }
    return fsync(fd) == 0;
}

/* Where checkpoints would go is not known: the folder of the tables stands for it. */
luo_status gpu_measure_disk(gpu_bench *bench)
{
    const size_t bytes = bench->m->networks < INT32_MAX ? 1 << 16 : 256 << 20;
    luo_str path = {0};
    char *data = malloc(bytes);
    luo_str_addf(&path, "%s/disk.tmp", bench->m->dir);
    const int fd = data && !path.failed ? luo_file_new(path.at, 0) : -1;
    if (data) memset(data, 7, bytes);
    const double began = luo_clock_s();
    const bool written = fd >= 0 && write_whole(fd, data, bytes);
    const double s = luo_clock_s() - began;
    if (fd >= 0) close(fd);
    if (fd >= 0) unlink(path.at);
    if (written)
        luo_str_addf(&bench->m->facts, "disk_write_gbytes_per_s,%.6g\n", 1e-9 * (double)bytes / s);
    luo_status st = written ? LUO_OK
                            : luo_err_set(bench->err, LUO_EIO,
                                          "`%s` cannot be written; a folder with %zu MiB of room "
                                          "is needed.",
                                          luo_str_get(&path), bytes >> 20);
    luo_str_free(&path);
    free(data);
    return st;
}
