/* tests/table.h: layer caps by a table of k (Malleus 7.1, healthy: h 1), for tests of planners. */
#ifndef LUO_TESTS_TABLE_H
#define LUO_TESTS_TABLE_H
#include <math.h>
#include <stdint.h>

typedef struct table {
    int32_t n;
    double k[8], emb, extra;
} table;
static const table k32 = {4, {4608.02, 4124.24, 3641.99, 3129.95}, 1200, 5500};
static const table k70 = {8, {2895, 2685, 2485, 2295, 2110, 1933, 1769, 1647}, 600, 4700};
static const table k110 = {8, {4240, 3930, 3630, 3338, 3068, 2830, 2597, 2438}, 500, 4900};

/* The table lists k for the first stage first: k[S - j], counted from the last stage, stands
 * n - (S - j) places from the front of the longest pipeline. */
static inline int64_t table_cap(const void *ctx, int32_t group, int32_t S, int32_t j,
                                int32_t pipelines, int64_t micro_batches)
{
    (void)group;
    (void)pipelines;
    (void)micro_batches;
    const table *t = ctx;
    if (S > t->n) return 0;
    const double emb = j == 0 || j == S - 1 ? t->emb : 0;
    return (int64_t)floor((81252 - 4096 - t->extra - emb) / t->k[t->n - (S - j)]);
}
#endif
