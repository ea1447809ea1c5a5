/* annotated.h: plans that say of every tensor where it lies
 * (docs/annotations.md#plans-that-annotate-every-tensor). */
#ifndef LUO_CORE_PLAN_ANNOTATED_H
#define LUO_CORE_PLAN_ANNOTATED_H
#include "core/graph/graph.h"
#include "core/plan/plan.h"

/* One pipeline of one stage, and raw annotations of the ids, the table they are looked up in, the
 * labels and the loss: everything between them is annotated, too. The devices of the stage are no
 * tensor-parallel group then. */
bool luo_plan_is_annotated(const luo_plan *plan);
/* Layers whose experts are dealt, as luo_build_opts says it: those whose rows the plan moves to the
 * experts. Every device sends rows. Errors: LUO_ENOMEM. Owner: arena. */
luo_status luo_plan_annotated_opts(luo_arena *arena, const luo_plan *plan, const luo_model *model,
                                   luo_build_opts *out, luo_err *err);
/* How rows of a layer lie among the devices of their experts; *out NULL: they do not move.
 * Errors: LUO_EPARSE, LUO_ENOMEM. Owner: arena. */
luo_status luo_plan_annotated_rows(luo_arena *arena, const luo_plan *plan, int32_t layer,
                                   const luo_grp **out, luo_err *err);
/* Annotates the forward part as the plan says. Reshards of the model hand on what they get; those
 * of the plan (`at`) are put in. What an operation makes is deduced and has to be what the plan
 * says; operands that lie in several ways are taken in the first way that makes it so.
 * Pre:    built with opts.apart; luo_plan_is_annotated.
 * Errors: LUO_EINPUT a tensor without annotation, one too many, keys that do not go with it;
 * LUO_EDEDUCE; LUO_EPARSE; LUO_ENOMEM. See: tests/mpi/hap.c */
luo_status luo_plan_annotate_all(luo_graph *graph, const luo_plan *plan, luo_err *err);
#endif
