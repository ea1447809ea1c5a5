/* pool.h: what replicas of one shape cost by length, and how many tokens they hold: the planner's
 * cost model (docs/planners.md#hydraulis).
 *
 * Notation: (tp, cp, pp) = a replica on tp*cp*pp devices; cost(s) = a s^2 + b s milliseconds of one
 * sequence of s tokens on one stage, forward and backward; c is added once per micro-batch. Costs
 * of sequences add, since attention is computed per sequence inside a packed micro-batch. Times
 * are milliseconds, as in the published pools; tokens are int64_t. */
#ifndef LUO_CORE_PLAN_HYDRAULIS_POOL_H
#define LUO_CORE_PLAN_HYDRAULIS_POOL_H
#include <stdbool.h>
#include <stdint.h>

#include "core/base/arena.h"
#include "core/base/err.h"

enum { LUO_POOL_ROUND = 128, LUO_POOL_TP_KINDS = 5 }; /* caps are multiples; tp 1 2 4 8 16 */

typedef enum luo_pool_exchange {                    /* of context-parallel ranks */
                                 LUO_EXCHANGE_NONE, /* cp is 1 */
                                 LUO_EXCHANGE_RING, /* keys and values, beside attention */
                                 LUO_EXCHANGE_HEADS /* all-to-all, nothing beside it */
} luo_pool_exchange;

typedef struct luo_pool_split { /* stages around slow devices, whose speeds its costs include */
    int32_t ndevices;           /* that a replica takes; those in no stage stay idle */
    const int32_t *first, *width, *layers; /* by stage: first of its devices, ranks, layers */
} luo_pool_split;

typedef struct luo_pool_entry {
    int32_t tp, cp, pp;
    const luo_pool_split *split; /* NULL: pp stages of tp*cp devices and equally many layers */
    double a, b, c; /* of the shape without context parallelism */
    luo_pool_exchange exchange;
    double moved;      /* ms per token of the exchange: k of a ring; of heads, in all */
    int64_t cap, util; /* tokens of a micro-batch: most (0: excluded), least that use it well */
    int line;          /* of the file; 0: none */
} luo_pool_entry;

typedef struct luo_pool {
    int32_t n;
    luo_pool_entry *entry; /* of all, cp 1 first */
} luo_pool;

typedef struct luo_optimizer_layout { /* homogeneous, for ever */
    int32_t dp, tp, pp;
} luo_optimizer_layout;

typedef struct luo_pool_memory { /* published formula of the most tokens */
    int64_t layers, hidden, vocabulary;
    double act_bytes[LUO_POOL_TP_KINDS]; /* of a token, layer and hidden unit, by log2(tp) */
    double state_bytes;                  /* of a layer, over hidden^2 */
    double optimizer_share;              /* of the state bytes: lies in the optimizer's layout */
    double safe_gib, gap_mib, bound_mib;
} luo_pool_memory;

static inline int32_t luo_pool_devices(const luo_pool_entry *entry)
{
    return entry->split ? entry->split->ndevices : entry->tp * entry->cp * entry->pp;
}

/* Milliseconds of one sequence on one stage, forward and backward, without c. Pre: tokens >= 0. */
double luo_pool_cost(const luo_pool_entry *entry, int64_t tokens);

/* Most tokens by the published formula, not rounded; below 0: states alone do not fit.
 * Pre: tp a power of two up to 16. Source: public code of Hydraulis, cost_model.py. */
double luo_pool_cap(const luo_pool_memory *memory, const luo_optimizer_layout *layout, int32_t tp,
                    int32_t pp);
/* Fills cap of the entries that have none by that formula, rounded down; below one multiple the
 * entry is excluded: cap 0. */
void luo_pool_fill_caps(luo_pool *pool, const luo_pool_memory *memory,
                        const luo_optimizer_layout *layout);

typedef struct luo_pool_context { /* what the cost of context parallelism needs */
    int64_t layers, hidden, heads, kv_heads;
    double ring_bytes_per_ms, heads_bytes_per_ms; /* slowest link that each way uses */
} luo_pool_context;
/* Adds to each entry without context parallelism those with cp ranks, the cheaper exchange at the
 * longest sequence that they hold; heads need tp*cp <= kv_heads. cap and util grow by cp.
 * Pre: cp >= 2. Errors: LUO_ENOMEM. Owner: arena. */
luo_status luo_pool_add_context(luo_arena *arena, luo_pool *pool, const luo_pool_context *context,
                                int32_t cp, luo_err *err);
#endif
