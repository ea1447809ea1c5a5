/* space_internal.h: ways of operands, for space.c, space_ways.c and space_bits.c. */
#ifndef LUO_CORE_PLAN_HAP_SPACE_INTERNAL_H
#define LUO_CORE_PLAN_HAP_SPACE_INTERNAL_H
#include "core/plan/hap/space.h"

enum { LUO_HAP_WAY_COLLS = 6 };

typedef struct luo_hap_way { /* one way of one operand */
    luo_hap_take take;
    int32_t pre, post, moved; /* facts, -1: none; moved: compat's mark on a tensor */
    int32_t ncoll;
    luo_hap_coll coll[LUO_HAP_WAY_COLLS];
    bool with_factors; /* of a bias: only beside a weight by factors */
} luo_hap_way;

typedef struct luo_hap_ways {
    luo_hap_way *at;
    int32_t n, cap;
} luo_hap_ways;

typedef struct luo_hap_maker { /* while a space is made */
    luo_arena *arena;
    luo_hap_space *space;
    bool *reached; /* by fact: can it be there? */
    luo_hap_ways ways[LUO_HAP_OPERANDS];
} luo_hap_maker;

/* Fact of a tensor in a relation. Slots of a tensor: whole, sum (of a parameter: whole without
 * synchronisation), moved, then [segment][dimension]. */
int32_t luo_hap_space_fact_id(const luo_hap_space *space, int32_t tensor, luo_rel rel);
int32_t luo_hap_space_moved(const luo_hap_space *space, int32_t tensor);
/* Fills maker->ways[j] with every way in which operand j of operation o comes to its relation.
 * Errors: LUO_ENOMEM. */
luo_status luo_hap_ways_find(luo_hap_maker *maker, int32_t o, const luo_hap_rule *rule, int32_t j,
                             luo_err *err);
/* Bits of facts. Errors: LUO_ENOMEM. */
luo_status luo_hap_space_bits(luo_arena *arena, luo_hap_space *space, luo_err *err);
#endif
