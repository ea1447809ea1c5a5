/* bench_sweep.c: small cells a minute of `luoshu sweep`, which is built beside: 8 GPUs, 30 steps
 * and a straggler, one policy, on two processes; with the range of each step and without. */
#include <string.h>
#include <sys/resource.h>

#include "core/base/process.h"
#include "core/io/files.h"
#include "tests/bench/bench.h"

enum { CELLS = 200 };

static double cpu_of_children(void)
{
    struct rusage use;
    getrusage(RUSAGE_CHILDREN, &use);
    return (double)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) +
           1e-6 * (double)(use.ru_utime.tv_usec + use.ru_stime.tv_usec);
}

static void sweep(const char *luoshu, const char *dir, const char *ranges)
{
    const char *const argv[] = {luoshu,       "sweep",
                                "scenarios/examples/small.yaml",
                                "--grid",     "events[0].slowdown=1.01:3:0.01",
                                "--policies", "static",
                                "--jobs",     "2",
                                "--ranges",   ranges,
                                "--plots",    "off",
                                "--out",      dir,
                                "--force",    "--quiet",
                                "--json",     NULL};
    FILE *nowhere = fopen("/dev/null", "w");
    luo_process process;
    const luo_process_opts opts = {.argv = argv,
                                   .no_input = true,
                                   .out = nowhere ? fileno(nowhere) : 0,
                                   .err = nowhere ? fileno(nowhere) : 0};
    const double start = luo_bench_now(), cpu = cpu_of_children();
    if (luo_process_start(&opts, &process, NULL) != LUO_OK)
        luo_bench_fail("sweep: `%s` cannot be started", luoshu);
    luo_process_wait(&process, INFINITY);
    if (luo_process_code(&process) != 0)
        luo_bench_fail("sweep: exit %d", luo_process_code(&process));
    const double wall_s = luo_bench_now() - start, cpu_s = cpu_of_children() - cpu;
    if (nowhere) fclose(nowhere);
    printf("sweep_ranges_%s_cells_a_minute %.0f\n", ranges, 60 * CELLS / wall_s);
    printf("sweep_ranges_%s_processor_time_a_cell %.1f ms\n", ranges, 1e3 * cpu_s / CELLS);
}

static void drop(const char *dir)
{
    static const char *const names[] = {"sweep.csv", "sweep.json", "sweep-answer.json",
                                        "plots/swept.csv", "plots",
                                        "sweep-parts/1-of-1/rows.csv", "sweep-parts/1-of-1",
                                        "sweep-parts", ""};
    char path[256];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "%s/%s", dir, names[i]);
        remove(path);
    }
}

int main(void)
{
    char luoshu[4096], dir[] = "/tmp/luoshu-sweep-XXXXXX";
    luo_err err;
    if (luo_file_beside("../../luoshu", luoshu, sizeof luoshu, &err) != LUO_OK)
        luo_bench_fail("sweep: %s", err.text);
    if (!mkdtemp(dir)) luo_bench_fail("sweep: no folder in /tmp");
    sweep(luoshu, dir, "on");
    drop(dir);
    sweep(luoshu, dir, "off");
    drop(dir);
    return 0;
}
