/* gate_route.h: routes of all tokens, as the gates are published; executors, which make them token
 * by token on every device, are compared with this. */
#ifndef LUO_TESTS_PARKED_GATE_ROUTE_H
#define LUO_TESTS_PARKED_GATE_ROUTE_H
#include "core/graph/moe/gate.h"

typedef struct luo_gate_routes {
    int64_t tokens, capacity; /* capacity 0: nothing is dropped */
    int32_t k;
    const int32_t *expert;
    const double *weight;
    const int64_t *location; /* place among the rows of its expert, were all of them taken */
    double loss;             /* top-k, k-top-1: the auxiliary loss; sam: of alignment; else 0 */
} luo_gate_routes;

/* Routes T tokens. ids: of the tokens, for hash alone.
 * Errors: those of luo_gate_check; LUO_EINPUT tokens that cannot be dealt evenly (balanced), a
 *         logit that is no number; LUO_ENOMEM. *out untouched.
 * Owner:  arena.
 * Cost:   O(T E k); balanced: O(T E log T) a round.
 * See:    tests/unit/check_moe.c */
luo_status luo_gate_route(luo_arena *arena, const luo_gate *gate, int64_t tokens,
                          const double *logits, const int32_t *ids, luo_gate_routes *out,
                          luo_err *err);
static inline bool luo_gate_drops(const luo_gate_routes *r, int64_t choice)
{
    return r->capacity > 0 && r->location[choice] >= r->capacity;
}
/* Rows that each expert gets, without those that are dropped. counts: `experts` values. */
void luo_gate_counts(const luo_gate_routes *routes, int32_t experts, int64_t *counts);
#endif
