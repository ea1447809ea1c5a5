/* strategy.h: how the devices of a stage share one layer.
 *
 * A strategy is an ordered list of factors; the product of their degrees is the number of devices.
 * The first factor is the outermost one, the last one joins neighbouring ranks. dp copies the
 * layer, sdp shards its state as ZeRO-3 does, tp cuts its heads and its feed-forward width. With
 * checkpointing the forward part runs again before the backward part. */
#ifndef LUO_CORE_PLAN_AUTO_STRATEGY_H
#define LUO_CORE_PLAN_AUTO_STRATEGY_H
#include <stdbool.h>
#include <stdint.h>

#include "core/base/arena.h"
#include "core/base/err.h"
#include "core/base/words.h"

#define LUO_AUTO_KIND_LIST(X)                                                                      \
    X(LUO_AUTO_DP, "dp")                                                                           \
    X(LUO_AUTO_SDP, "sdp")                                                                         \
    X(LUO_AUTO_TP, "tp")
typedef enum luo_auto_kind { LUO_AUTO_KIND_LIST(LUO_WORD_VALUE) LUO_AUTO_KINDS } luo_auto_kind;

enum { LUO_AUTO_FACTORS = LUO_AUTO_KINDS };

typedef struct luo_auto_factor {
    luo_auto_kind kind;
    int32_t degree; /* 2 at least */
} luo_auto_factor;

typedef struct luo_auto_strategy {
    int32_t n; /* factors; 0 on one device */
    luo_auto_factor factor[LUO_AUTO_FACTORS];
    bool checkpoint;
} luo_auto_strategy;

/* All strategies of g devices, each kind at most once, never dp and sdp together.
 * Order:  fewer factors; kinds, dp < sdp < tp, from the outermost on; degrees; checkpoint off
 *         before on. The order breaks ties everywhere.
 * Pre:    g >= 1. Errors: LUO_ENOMEM. Owner: *out belongs to arena.
 * Cost:   O(answers * g).
 * Source: Galvatron (VLDB 2023): decision trees of dp, sdp and tp without dp x sdp; the order is
 *         ours.
 * See:    tests/unit/check_auto.c, AP1. */
luo_status luo_auto_strategies(luo_arena *arena, int32_t g, bool checkpointing,
                               luo_auto_strategy **out, int32_t *n, luo_err *err);

/* How many there are without checkpointing; together: dp and sdp may stand in one list, which is
 * the search space that the rule makes smaller. Pre: g >= 1. */
int32_t luo_auto_strategies_count(int32_t g, bool together);

/* Negative, 0 or positive, in the order above. */
int luo_auto_strategy_compare(const luo_auto_strategy *a, const luo_auto_strategy *b);

int32_t
luo_auto_strategy_data(const luo_auto_strategy *strategy); /* degree of dp or sdp; 1: none */
int32_t luo_auto_strategy_tensor(const luo_auto_strategy *strategy); /* degree of tp; 1: none */
bool luo_auto_strategy_sharded(const luo_auto_strategy *strategy);   /* has it sdp? */

/* Ranks between two neighbours of a group of that kind; 0: there is no such factor. */
int32_t luo_auto_strategy_stride(const luo_auto_strategy *strategy, luo_auto_kind kind);
/* Position of a rank, 0 <= rank < g, in its group of that kind; 0 without such a factor. */
int32_t luo_auto_strategy_index(const luo_auto_strategy *strategy, luo_auto_kind kind,
                                int32_t rank);

/* "dp2 tp4 checkpoint"; "one" without factors. Returns text. */
char *luo_auto_strategy_print(const luo_auto_strategy *strategy, char *text, size_t size);
#endif
