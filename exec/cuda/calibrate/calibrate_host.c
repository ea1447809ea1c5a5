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
static luo_status run_smallest(gpu_bench *b, void *what, int64_t turn)
{
    (void)what, (void)turn;
    return gpu_check(b->err, gpu_stamp(b->stream, (uint64_t *)(void *)b->slab), "a launch");
}

static luo_status launch_many(gpu_bench *b)
{
    for (int i = 0; i < LAUNCHES; i++) LUO_TRY(run_smallest(b, NULL, i));
    return LUO_OK;
}

static luo_status host_time(gpu_bench *b, double *each)
{
    const double began = luo_clock_s();
    LUO_TRY(launch_many(b));
    *each = (luo_clock_s() - began) / LAUNCHES;
    return gpu_check(b->err, cudaStreamSynchronize(b->stream), "launches");
}

static luo_status graph_times(gpu_bench *b, cudaGraphExec_t graph, double *device, double *host)
{
    float ms = 0;
    LUO_TRY(gpu_check(b->err, cudaEventRecord(b->begin, b->stream), "an event"));
    const double began = luo_clock_s();
    LUO_TRY(gpu_check(b->err, cudaGraphLaunch(graph, b->stream), "launching a graph"));
    *host = (luo_clock_s() - began) / LAUNCHES;
    LUO_TRY(gpu_check(b->err, cudaEventRecord(b->end, b->stream), "an event"));
    LUO_TRY(gpu_check(b->err, cudaEventSynchronize(b->end), "a graph"));
    LUO_TRY(gpu_check(b->err, cudaEventElapsedTime(&ms, b->begin, b->end), "reading a time"));
    *device = 1e-3 * (double)ms / LAUNCHES;
    return LUO_OK;
}

/* launch_us: from one kernel to the next on the device, in a graph, as steps run;
 * graph_launch_us and host_launch_us: what the host does for each, with and without a graph. */
luo_status gpu_measure_launches(gpu_bench *b)
{
    double eager[TURNS], device[TURNS], host[TURNS];
    cudaGraphExec_t graph = NULL;
    luo_status st = launch_many(b);
    if (st == LUO_OK) st = gpu_check(b->err, cudaStreamSynchronize(b->stream), "launches");
    for (int i = 0; st == LUO_OK && i < TURNS; i++) st = host_time(b, &eager[i]);
    if (st == LUO_OK) st = gpu_bench_capture(b, run_smallest, NULL, LAUNCHES, &graph);
    for (int i = -1; st == LUO_OK && i < TURNS; i++)
        st = graph_times(b, graph, &device[i < 0 ? 0 : i], &host[i < 0 ? 0 : i]);
    if (graph) cudaGraphExecDestroy(graph);
    if (st != LUO_OK) return st;
    luo_str_addf(&b->m->facts, "launch_us,%.4f\ngraph_launch_us,%.4f\nhost_launch_us,%.4f\n",
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

static luo_status run_copy(gpu_bench *b, void *what, int64_t turn)
{
    const copy *c = what;
    const bool down = c->way == cudaMemcpyHostToDevice;
    (void)turn;
    return gpu_check(b->err,
                     cudaMemcpyAsync(down ? (void *)b->slab : c->host,
                                     down ? c->host : (void *)b->slab, c->bytes, c->way, b->stream),
                     "copying");
}

luo_status gpu_measure_copies(gpu_bench *b)
{
    copy c = {.bytes = b->m->networks < INT32_MAX ? 1 << 16 : 256 << 20};
    double down = 0, up = 0;
    int32_t samples;
    void *ignored;
    if ((int64_t)c.bytes > b->slab_bytes) c.bytes = (size_t)b->slab_bytes;
    LUO_TRY(gpu_alloc_mapped((int64_t)c.bytes, "copies", &c.host, &ignored, b->err));
    memset(c.host, 1, c.bytes);
    c.way = cudaMemcpyHostToDevice;
    luo_status st = gpu_bench_time(b, run_copy, &c, &down, &samples);
    c.way = cudaMemcpyDeviceToHost;
    if (st == LUO_OK) st = gpu_bench_time(b, run_copy, &c, &up, &samples);
    gpu_free_mapped(c.host);
    if (st == LUO_OK)
        luo_str_addf(&b->m->facts,
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
luo_status gpu_measure_disk(gpu_bench *b)
{
    const size_t bytes = b->m->networks < INT32_MAX ? 1 << 16 : 256 << 20;
    luo_str path = {0};
    char *data = malloc(bytes);
    luo_str_addf(&path, "%s/disk.tmp", b->m->dir);
    const int fd = data && !path.failed ? luo_file_new(path.at, 0) : -1;
    if (data) memset(data, 7, bytes);
    const double began = luo_clock_s();
    const bool written = fd >= 0 && write_whole(fd, data, bytes);
    const double s = luo_clock_s() - began;
    if (fd >= 0) close(fd);
    if (fd >= 0) unlink(path.at);
    if (written)
        luo_str_addf(&b->m->facts, "disk_write_gbytes_per_s,%.6g\n", 1e-9 * (double)bytes / s);
    luo_status st = written ? LUO_OK
                            : luo_err_set(b->err, LUO_EIO,
                                          "`%s` cannot be written; a folder with %zu MiB of room "
                                          "is needed.",
                                          luo_str_get(&path), bytes >> 20);
    luo_str_free(&path);
    free(data);
    return st;
}
