/* hap_model.h: the graph of a model for the planner `hap`. */
#ifndef LUO_CORE_PLAN_HAP_GRAPH_HAP_MODEL_H
#define LUO_CORE_PLAN_HAP_GRAPH_HAP_MODEL_H
#include "core/graph/graph.h"
#include "core/plan/hap_graph/hap_graph.h"

/* The forward graph of a model (luo_graph_build) by letters: tokens become sequences (b) and their
 * tokens (s); what only moves data between devices is left out, for the planner decides that; a
 * bias belongs to the product before it; several products of one operand are one each, but queries,
 * keys and values of as many heads are one together, with one weight; the parts of
 * the cross-entropy are one operation. Query heads that share keys stay whole. Experts are a pair
 * of products (one without a gate), an activation and a product of rows, which lie by expert,
 * sequence and place; rows that equally popular experts get are counted. Blocks are the model's
 * layers.
 * Pre:    sequences, tokens >= 1.
 * Errors: LUO_EINPUT a family without builder, an operation that the planner does not know;
 * LUO_ENOMEM. Owner: arena. See: tests/unit/check_hap_model.c */
luo_status luo_hap_model_graph(luo_arena *arena, const luo_model *model, luo_dtype dtype,
                               int64_t sequences, int64_t tokens, luo_hap_graph **out,
                               luo_err *err);
#endif
