#include "core/base/tally.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct luo_tally_value entry;

enum { MANTISSA = 52 };

static uint64_t bits_of(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static double value_of(uint64_t bits)
{
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* The middle of the values that are alike without their lowest bits. */
static uint64_t cut_bits(uint64_t bits, int32_t cut)
{
    if (cut == 0) return bits;
    return (bits >> cut << cut) | (UINT64_C(1) << (cut - 1));
}

static int by_bits(const void *a, const void *b)
{
    const entry *x = a, *y = b;
    return (x->bits > y->bits) - (x->bits < y->bits);
}

static int32_t unite(entry *at, int32_t n)
{
    int32_t out = 0;
    for (int32_t i = 0; i < n; i++) {
        if (out > 0 && at[out - 1].bits == at[i].bits) at[out - 1].times += at[i].times;
        else at[out++] = at[i];
    }
    return out;
}

static void settle(luo_tally *tally)
{
    if (tally->sorted == tally->n) return;
    qsort(tally->at, (size_t)tally->n, sizeof *tally->at, by_bits);
    tally->n = unite(tally->at, tally->n);
    if (tally->n > LUO_TALLY_MOST)
        while (tally->n > LUO_TALLY_MOST / 4 * 3 && tally->cut < MANTISSA - 1) {
            tally->cut++;
            for (int32_t i = 0; i < tally->n; i++)
                tally->at[i].bits = cut_bits(tally->at[i].bits, tally->cut);
            tally->n = unite(tally->at, tally->n); /* cutting keeps the order */
        }
    tally->sorted = tally->n;
}

static bool make_room(luo_tally *tally)
{
    if (tally->n - tally->sorted >= LUO_TALLY_NEW) settle(tally);
    if (tally->n < tally->room) return true;
    const int32_t room = tally->room ? tally->n + LUO_TALLY_NEW + tally->n / 2 : 64;
    entry *at = realloc(tally->at, (size_t)room * sizeof *at);
    if (!at) return false;
    tally->at = at;
    tally->room = room;
    return true;
}

static bool add_times(luo_tally *tally, uint64_t bits, int64_t times)
{
    bits = cut_bits(bits, tally->cut);
    if (tally->n > tally->sorted && tally->at[tally->n - 1].bits == bits) {
        tally->at[tally->n - 1].times += times;
        return true;
    }
    if (!make_room(tally)) return false;
    tally->at[tally->n++] = (entry){cut_bits(bits, tally->cut), times};
    return true;
}

bool luo_tally_add(luo_tally *tally, double value)
{
    assert(value >= 0);
    if (!add_times(tally, bits_of(value), 1)) return false;
    tally->count++;
    tally->sum += value;
    tally->largest = fmax(tally->largest, value);
    return true;
}

bool luo_tally_take(luo_tally *tally, luo_tally *from)
{
    if (tally->cut < from->cut) { /* as coarse as the coarser one */
        tally->cut = from->cut;
        for (int32_t i = 0; i < tally->n; i++)
            tally->at[i].bits = cut_bits(tally->at[i].bits, tally->cut);
        tally->sorted = 0;
    }
    for (int32_t i = 0; i < from->n; i++)
        if (!add_times(tally, from->at[i].bits, from->at[i].times)) return false;
    tally->count += from->count;
    tally->sum += from->sum;
    tally->largest = fmax(tally->largest, from->largest);
    from->n = from->sorted = from->cut = 0;
    from->count = 0;
    from->sum = from->largest = 0;
    return true;
}

static double at_rank(const luo_tally *tally, int64_t rank)
{
    for (int32_t i = 0; i < tally->n; i++) {
        rank -= tally->at[i].times;
        if (rank < 0) return fmin(value_of(tally->at[i].bits), tally->largest);
    }
    return tally->largest;
}

double luo_tally_quantile(luo_tally *tally, double p)
{
    if (tally->count == 0) return 0;
    settle(tally);
    const double x = (double)(tally->count - 1) * p;
    const int64_t i = (int64_t)x;
    if (i + 1 >= tally->count) return tally->largest;
    const double lo = at_rank(tally, i), hi = at_rank(tally, i + 1);
    return lo + (x - (double)i) * (hi - lo);
}

double luo_tally_off(const luo_tally *tally)
{
    return tally->cut ? ldexp(1, tally->cut - 1 - MANTISSA) : 0;
}

void luo_tally_free(luo_tally *tally)
{
    free(tally->at);
    *tally = (luo_tally){0};
}
