/* data_shuffle.c: a shuffle of any number of rows without a table: a Feistel network over the
 * next power of four, walked until it falls inside (Black and Rogaway 2002). */
#include <stdio.h>

#include "exec/data/data_internal.h"

enum { ROUNDS = 6 };

static uint64_t mix(uint64_t z)
{
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static uint64_t turn(const uint64_t *key, int half_bits, uint64_t x)
{
    const uint64_t mask = (UINT64_C(1) << half_bits) - 1;
    uint64_t left = x >> half_bits, right = x & mask;
    for (int r = 0; r < ROUNDS; r++) {
        const uint64_t next = left ^ (mix(right ^ key[r]) & mask);
        left = right;
        right = next;
    }
    return left << half_bits | right;
}

int64_t luo_corpus_shuffled(uint64_t seed, int64_t n, int64_t index)
{
    char name[40];
    uint64_t key[ROUNDS], x = (uint64_t)(index % n);
    int half_bits = 1;
    snprintf(name, sizeof name, "rows#%lld", (long long)(index / n));
    luo_rng rng = luo_rng_stream(seed, name);
    for (int r = 0; r < ROUNDS; r++) key[r] = luo_rng_next(&rng);
    while (half_bits < 31 && INT64_C(1) << 2 * half_bits < n) half_bits++;
    do x = turn(key, half_bits, x);
    while (x >= (uint64_t)n); /* at most 4 turns on average */
    return (int64_t)x;
}
