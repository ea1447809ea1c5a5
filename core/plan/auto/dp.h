/* dp.h: the cheapest strategy of every layer of a stage within a memory budget.
 *
 *   f_l[c][s] = min over s' of f_{l-1}[c - v(l,s)][s'] + change(s', s), plus seconds(l,s)
 *
 * with f_{-1} = 0 and infinity where c < v. */
#ifndef LUO_CORE_PLAN_AUTO_DP_H
#define LUO_CORE_PLAN_AUTO_DP_H
#include <stdint.h>

#include "core/base/arena.h"
#include "core/base/err.h"

enum { LUO_AUTO_DP_STRATEGIES_MOST = 65535 };

typedef struct luo_auto_dp_in {
    int32_t layers, strategies;
    int64_t budget;        /* units of memory */
    const int32_t *row;    /* by layer: its row in the tables; NULL: each has its own */
    const int64_t *units;  /* [row][strategy], 0 or more */
    const double *seconds; /* [row][strategy]; INFINITY: not to be chosen */
    const double *change;  /* [row][from][to]: behind a layer of that row; NULL: none costs any */
} luo_auto_dp_in;

/* The least sum of seconds and changes within the budget.
 * Shapes: choice[layers].
 * Order:  of equal sums the one that ends with the lowest strategy; behind each layer the lowest
 *         that reaches it.
 * Pre:    layers >= 1, 1 <= strategies <= LUO_AUTO_DP_STRATEGIES_MOST, changes finite, >= 0.
 * Errors: LUO_EINFEASIBLE none fits; LUO_ENOMEM. Out: choice, *seconds (NULL: not wanted).
 * Cost:   O(layers * budget * strategies) for most inputs, times strategies at worst: predecessors
 *         are tried by rising f until f alone is too much. Memory: two rows of f, and marks of
 *         2 bytes; a budget beyond what the layers can use costs nothing.
 * Source: Galvatron (VLDB 2023), dp_core.cpp; differs: two buffers. The published program updates
 *         one in place, so a strategy of 0 units reads values of its own layer.
 * See:    tests/prop/prop_auto.c (brute force); tests/unit/check_auto.c, AP2 to AP4. */
luo_status luo_auto_dp(luo_arena *scratch, const luo_auto_dp_in *in, int32_t *choice,
                       double *seconds, luo_err *err);

/* Least units that any choice needs; -1: some layer has no strategy. */
int64_t luo_auto_dp_least(const luo_auto_dp_in *in);
/* Cells of the table that a call fills: of each layer's strategies the budgets that the answer may
 * read; 0: none fits. */
int64_t luo_auto_dp_cells(const luo_auto_dp_in *in);
#endif
