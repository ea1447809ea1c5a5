/* rules.h: how an operation may be computed in pieces.
 *
 * Notation: I = every device holds all of a tensor; G_d = device i holds a contiguous piece of
 * dimension d, pieces in the order of devices; R = every device holds a partial sum of full shape,
 * and the sum over devices is the tensor. The gradient of what is I is R, of R it is I, of G_d it
 * is G_d. */
#ifndef LUO_CORE_PLAN_HAP_GRAPH_RULES_H
#define LUO_CORE_PLAN_HAP_GRAPH_RULES_H
#include "core/plan/hap_graph/hap_graph.h"

typedef enum luo_rel_kind { LUO_REL_I, LUO_REL_R, LUO_REL_G } luo_rel_kind;

typedef struct luo_rel {
    uint8_t kind; /* luo_rel_kind */
    int8_t dim;   /* of G */
    uint16_t seg; /* of G: whose lengths its pieces have; of I for a parameter that several
                     operations read: 1 where its gradient is not summed */
} luo_rel;

typedef struct luo_hap_rule {
    char letter;  /* 0: `rep`, or partial operands */
    uint32_t lin; /* bits of operands that are partial sums */
    luo_rel in[LUO_HAP_OPERANDS], out[LUO_HAP_RESULTS], grad[LUO_HAP_OPERANDS]; /* seg 0 */
} luo_hap_rule;

/* All rules of an operation, in the order that breaks ties: its letters by first appearance; all on
 * every device (`rep`); partial sums in operands it is linear in.
 *
 * Letter a: what has a is G there, what lacks it is I as an operand and R as a result. The gradient
 * of an operand that lacks a is R where the result or what it reads has a, else I. Where a result
 * is R, complete summands (a bias, operands of a sum) are added by the first device alone. Errors:
 * LUO_ENOMEM. Owner: arena. Cost: O(letters). Source: HAP, arXiv 2401.05965, section 3.1
 * (properties of tensors); a fused bias beside partial sums is ours. See:
 * tests/unit/check_hap_rules.c (every rule with numbers) */
luo_status luo_hap_rules(luo_arena *arena, const luo_hap_op *op, luo_hap_rule **out, int32_t *n,
                         luo_err *err);
/* Letters that operations of the graph may be cut by where their extents allow it, each once, by
 * first appearance. out: 128 bytes; returns it. Cost: O(operations). */
char *luo_hap_rule_letters(const luo_hap_graph *graph, char *out);
/* "b", "rep", "lin0": name of a rule. buf: 8 bytes; returns it. */
char *luo_hap_rule_name(const luo_hap_rule *rule, char *buf);
bool luo_rel_same(luo_rel a, luo_rel b);
/* Of the gradient of what is in that relation. */
luo_rel luo_rel_dual(luo_rel rel);
#endif
