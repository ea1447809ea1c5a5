/* hap_match.h: which rule of the planner `hap` annotations of an operation mean. */
#ifndef LUO_TESTS_PARKED_HAP_MATCH_H
#define LUO_TESTS_PARKED_HAP_MATCH_H
#include "core/hspmd/ann.h"
#include "core/plan/hap_graph/rules.h"

typedef struct luo_hap_matched {
    luo_hap_rule rule; /* the first that fits */
    bool once;  /* complete summands (a bias, an operand of a sum) are added by the first device */
    bool range; /* rows of a table, or classes of logits, are a part: ids count from its first */
} luo_hap_matched;

/* The relation that an annotation says: one group of devices, whole, partial sums or pieces of one
 * dimension. False: it says something else. One device has all of it: I. */
bool luo_match_rel(const luo_ann *ann, luo_rel *out);

/* The rule whose operands and results lie as annotated; pieces have the same shares everywhere.
 * Shapes: in: op->nin, out: op->nout, canonical.
 * Errors: LUO_EDEDUCE none fits; LUO_ENOMEM. Owner: arena, for scratch. */
luo_status luo_hap_match(luo_arena *arena, const luo_hap_op *op, const char *const *names,
                         const luo_ann *const *in, const luo_ann *const *out,
                         luo_hap_matched *match, luo_err *err);
/* The same of the gradient of operand j: dout in the dual of the results' relations, saved operands
 * as forward, and the gradient itself. in[i] is read where that gradient needs operand i.
 * See: tests/unit/check_hap_match.c */
luo_status luo_hap_match_gradient(luo_arena *arena, const luo_hap_op *op, int32_t j,
                                  const char *const *names, const luo_ann *const *in,
                                  const luo_ann *const *dout, const luo_ann *gradient,
                                  luo_hap_matched *match, luo_err *err);
#endif
