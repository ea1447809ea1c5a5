/* no_standin.c: tests/standin/standin.h and tests/standin/standin_nccl.h where there is a GPU: no
 * order can be chosen, nothing made to fail, and nothing is counted. */
#include "tests/standin/standin.h"
#include "tests/standin/standin_nccl.h"

bool standin_is_here(void)
{
    return false;
}

void standin_seed(uint64_t seed)
{
    (void)seed;
}

void standin_fail(standin_failing what, int64_t after)
{
    (void)what, (void)after;
}

void standin_clock_by_work(bool on)
{
    (void)on;
}

void standin_set_memory(int64_t bytes)
{
    (void)bytes;
}

void standin_set_capability(int major, int minor)
{
    (void)major, (void)minor;
}

void standin_set_driver(int version)
{
    (void)version;
}

void standin_slow_capture(int32_t us)
{
    (void)us;
}

standin_counts standin_count(void)
{
    return (standin_counts){0};
}

void standin_nccl_hang(bool on)
{
    (void)on;
}

void standin_nccl_break(void)
{
}

void standin_nccl_hold_aborts(bool on)
{
    (void)on;
}

void standin_nccl_refuse_splits(bool on)
{
    (void)on;
}

standin_nccl_counts standin_nccl_count(void)
{
    return (standin_nccl_counts){0};
}
