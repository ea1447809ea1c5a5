/* bench_seeds.c: what a seed costs beside others: three days of failures on 1,024 GPUs under
 * `restart`, one seed alone and four in one command, which remembers steps across them; and what a
 * step costs that is like the one before, of a run of 200,000 steps less one of 1,000. */
#include <math.h>
#include <string.h>
#include <sys/resource.h>

#include "core/base/process.h"
#include "core/io/files.h"
#include "tests/bench/bench.h"

static double cpu_of_children(void)
{
    struct rusage use;
    getrusage(RUSAGE_CHILDREN, &use);
    return (double)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) +
           1e-6 * (double)(use.ru_utime.tv_usec + use.ru_stime.tv_usec);
}

/* Seconds of processor time of `luoshu sim SCENARIO ..`. */
static double run(const char *luoshu, const char *dir, const char *scenario, const char *seeds,
                  const char *set)
{
    const char *const argv[] = {luoshu,     "sim",           scenario, "--policies", "restart",
                                "--seeds",  seeds,           "--set",  set,          "--plots",
                                "off",      "--jobs",        "2",      "--out",      dir,
                                "--force",  "--quiet",       "--trace-steps",        "none",
                                NULL};
    FILE *nowhere = fopen("/dev/null", "w");
    luo_process process;
    const luo_process_opts opts = {.argv = argv,
                                   .no_input = true,
                                   .out = nowhere ? fileno(nowhere) : 0,
                                   .err = nowhere ? fileno(nowhere) : 0};
    const double cpu = cpu_of_children();
    if (luo_process_start(&opts, &process, NULL) != LUO_OK)
        luo_bench_fail("seeds: `%s` cannot be started", luoshu);
    luo_process_wait(&process, INFINITY);
    if (luo_process_code(&process) != 0)
        luo_bench_fail("seeds: exit %d", luo_process_code(&process));
    if (nowhere) fclose(nowhere);
    return cpu_of_children() - cpu;
}

static void drop(const char *dir)
{
    const char *const argv[] = {"rm", "-rf", dir, NULL};
    luo_process process;
    const luo_process_opts opts = {.argv = argv, .no_input = true};
    if (luo_process_start(&opts, &process, NULL) == LUO_OK) luo_process_wait(&process, INFINITY);
}

int main(void)
{
    enum { SEEDS = 4, FEW = 1000, MANY = 200000 };
    char luoshu[4096], dir[] = "/tmp/luoshu-seeds-XXXXXX";
    luo_err err;
    if (luo_file_beside("../../luoshu", luoshu, sizeof luoshu, &err) != LUO_OK)
        luo_bench_fail("seeds: %s", err.text);
    if (!mkdtemp(dir)) luo_bench_fail("seeds: no folder in /tmp");
    const char *const month = "scenarios/combined/month.yaml", *days = "extent.duration_s=259200";
    const double alone = run(luoshu, dir, month, "1", days);
    const double beside = run(luoshu, dir, month, "1-4", days) / SEEDS;
    printf("seeds_alone_processor_time %.2f s\n", alone);
    printf("seeds_of_4_processor_time_a_seed %.2f s\n", beside);
    printf("seeds_alone_over_one_of_4 %.2f ratio\n", alone / beside);
    const char *const small = "scenarios/examples/small.yaml";
    const double few = run(luoshu, dir, small, "1", "extent.steps=1000");
    const double many = run(luoshu, dir, small, "1", "extent.steps=200000");
    printf("seeds_step_like_the_one_before %.1f us\n", 1e6 * (many - few) / (MANY - FEW));
    drop(dir);
    return 0;
}
