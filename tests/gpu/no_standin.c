/* tests/gpu/no_standin.c: tests/standin/standin.h where there is a GPU: no order can be chosen,
 * nothing made to fail, and nothing is counted. */
#include "tests/standin/standin.h"

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

void standin_set_memory(int64_t bytes)
{
    (void)bytes;
}

void standin_set_capability(int major, int minor)
{
    (void)major, (void)minor;
}

standin_counts standin_count(void)
{
    return (standin_counts){0};
}
