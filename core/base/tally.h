/* tally.h: how often which value came, in bounded memory, for quantiles of long series.
 *
 * Up to LUO_TALLY_MOST different values are counted exactly. Beyond that all values lose low bits
 * of their mantissa until there are a quarter fewer, so that quantiles are a little off
 * (luo_tally_off says how much); number, sum and largest stay exact.
 * Memory from malloc, 16 bytes a value; luo_tally_free gives it back. */
#ifndef LUO_CORE_BASE_TALLY_H
#define LUO_CORE_BASE_TALLY_H
#include <stdbool.h>
#include <stdint.h>

enum { LUO_TALLY_MOST = 1 << 18, LUO_TALLY_NEW = 1 << 14 };

typedef struct luo_tally { /* {0}: empty */
    struct luo_tally_value {
        uint64_t bits; /* of a double >= 0, which are in its order */
        int64_t times;
    } *at;             /* at[0..sorted) ascending, different; the rest as it came */
    int32_t n, sorted, room;
    int32_t cut; /* bits lost */
    int64_t count;
    double sum, largest;
} luo_tally;

/* Pre: value >= 0. False: out of memory. Cost: amortised O(log LUO_TALLY_MOST), O(1) where values
 * are like the one before. */
bool luo_tally_add(luo_tally *tally, double value);
/* Adds what `from` has, which is empty then. False: out of memory. */
bool luo_tally_take(luo_tally *tally, luo_tally *from);
/* By linear interpolation at (count - 1) p (docs/results.md); 0 if it is empty. */
double luo_tally_quantile(luo_tally *tally, double p);
/* Relative error of quantiles, at most; 0: they are exact. */
double luo_tally_off(const luo_tally *tally);
void luo_tally_free(luo_tally *tally); /* {0} again */
#endif
