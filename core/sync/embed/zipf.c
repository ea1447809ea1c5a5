#include "core/sync/embed/zipf.h"

#include <assert.h>
#include <math.h>

enum { GUIDES = 1 << 22 };

/* The sums of many small shares: what each addition drops is carried on (Kahan). */
static void add_up(double theta, int64_t vocab, double *sum)
{
    double all = 0, dropped = 0;
    for (int64_t i = 0; i < vocab; i++) {
        const double share = pow((double)(i + 1), -theta) - dropped, more = all + share;
        dropped = (more - all) - share;
        sum[i] = all = more;
    }
}

luo_status luo_zipf_make(luo_arena *arena, double theta, int64_t vocab, luo_zipf *out, luo_err *err)
{
    assert(theta >= 0 && isfinite(theta) && vocab >= 1 && vocab <= LUO_ZIPF_VOCAB);
    int64_t guides = 1; /* a power of two: u x guides is exact */
    while (guides < vocab && guides < GUIDES) guides *= 2;
    double *sum = LUO_NEW_N(arena, double, vocab);
    int32_t *guide = LUO_NEW_N(arena, int32_t, guides + 1);
    int32_t key = 0;
    if (!sum || !guide) return luo_err_nomem(err);
    add_up(theta, vocab, sum);
    for (int64_t i = 0; i <= guides; i++) {
        while (key < vocab - 1 && sum[key] < sum[vocab - 1] * ((double)i / (double)guides)) key++;
        guide[i] = key;
    }
    *out = (luo_zipf){theta, vocab, sum, guide, guides};
    return LUO_OK;
}

int64_t luo_zipf_key(const luo_zipf *zipf, double u)
{
    assert(u >= 0 && u < 1);
    const double want = u * zipf->sum[zipf->vocab - 1];
    const int64_t slice = (int64_t)(u * (double)zipf->guides);
    int64_t low = zipf->guide[slice], high = zipf->guide[slice + 1];
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (zipf->sum[middle] < want)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}
