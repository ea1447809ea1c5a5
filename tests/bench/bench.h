/* bench.h: a clock, a median, and the way out when a golden figure is missed. */
#ifndef LUO_TESTS_BENCH_H
#define LUO_TESTS_BENCH_H
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static inline double luo_bench_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Seconds of processor time; other work on the machine is no news here. */
static inline double luo_bench_cpu(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static inline int luo_bench_by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static inline double luo_bench_median(double *x, int n) /* sorts x */
{
    qsort(x, (size_t)n, sizeof *x, luo_bench_by_value);
    return n % 2 ? x[n / 2] : 0.5 * (x[n / 2 - 1] + x[n / 2]);
}

#if defined(__GNUC__)
__attribute__((format(printf, 1, 2), noreturn))
#endif
static inline void luo_bench_fail(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fputc('\n', stderr);
    exit(1);
}
#endif
