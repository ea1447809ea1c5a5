/* load.h: how many rows every expert gets in simulations, which have no data. */
#ifndef LUO_CORE_GRAPH_MOE_LOAD_H
#define LUO_CORE_GRAPH_MOE_LOAD_H
#include <stdint.h>

#include "core/graph/moe/gate.h"

/* Weights of experts: floor(2^30 / (i+1)^exponent + 1/2) at place i of the experts, shuffled by
 * `key` (0: not). exponent 0: all alike. Errors: LUO_ENOMEM. Owner: arena. */
luo_status luo_load_zipf(luo_arena *arena, int32_t experts, double exponent, uint64_t key,
                         const uint32_t **out, luo_err *err);

/* T k rows dealt by weights (largest remainders; NULL: all alike), at most T to an expert: what is
 * more goes to the next one, round and round. counts: `experts` values.
 * Pre: 1 <= k <= experts; some weight > 0. Errors: LUO_ENOMEM. */
luo_status luo_load_counts(luo_arena *arena, const uint32_t *weights, int32_t experts,
                           int64_t tokens, int32_t k, int64_t *counts, luo_err *err);

typedef struct luo_load_row { /* of a table: so popular is an expert */
    int32_t layer, expert;
    uint32_t tokens;
} luo_load_row;
typedef struct luo_expert_load { /* popularity of experts, by Zipf's law or by rows */
    double exponent;             /* 0: all alike */
    int64_t step;                /* the first one it holds for */
    int64_t nrows;               /* 0: by Zipf's law */
    const luo_load_row *rows;    /* by layer and expert; some of each layer has tokens */
} luo_expert_load;

/* Rows of every expert of a layer, of the tokens of `sources` devices that have equally many. By
 * Zipf's law the places of experts are shuffled, for every layer otherwise; experts without a row
 * get nothing, those of a layer without one are alike, as all are under balanced assignment. What
 * is above the capacity of an expert among the tokens of a source is dropped. counts: a value per
 * expert. Pre: experts of the rows are below those of the gate. Errors: LUO_ENOMEM. */
luo_status luo_load_layer(luo_arena *arena, const luo_expert_load *load, int32_t layer,
                          const luo_gate *gate, int64_t tokens, int32_t sources, int64_t *counts,
                          luo_err *err);

/* The busiest of n devices that have neighbouring experts, as many as shares say (NULL: equally
 * many), over the mean; 1: balanced. Errors: LUO_ENOMEM. */
luo_status luo_load_imbalance(luo_arena *arena, const int64_t *counts, int32_t experts, int32_t n,
                              const uint32_t *share, double *out, luo_err *err);

/* Tiles of tm x tn that a grouped product with N columns makes of these rows. */
int64_t luo_load_tiles(const int64_t *counts, int32_t experts, int64_t columns, int64_t tm,
                       int64_t tn);
#endif
