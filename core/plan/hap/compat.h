/* compat.h: the planner `hap` as it was published (option --compat).
 *
 * Source: HAP, arXiv 2401.05965, and its public code, repository alibaba/hap: fewer rules, work and
 * volumes in elements, one speed per device, padded collectives, no estimate in the search. */
#ifndef LUO_CORE_PLAN_HAP_COMPAT_H
#define LUO_CORE_PLAN_HAP_COMPAT_H
#include "core/plan/hap_graph/rules.h"

/* Does the published planner know this rule? sums: contractions too (for tests). */
bool luo_hap_compat_rule(const luo_hap_op *op, const luo_hap_rule *rule, bool sums);
#endif
