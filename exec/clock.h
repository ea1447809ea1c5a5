/* clock.h: the clock of real runs. */
#ifndef LUO_EXEC_CLOCK_H
#define LUO_EXEC_CLOCK_H
#include <time.h>

/* CLOCK_MONOTONIC in seconds: equal in all processes of one host, unrelated between hosts. */
static inline double luo_clock_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}
#endif
