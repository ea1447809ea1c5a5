/* memory_internal.h: what the closed forms of memory share; for core/cost/step/memory*.c only. */
#ifndef LUO_CORE_COST_STEP_MEMORY_INTERNAL_H
#define LUO_CORE_COST_STEP_MEMORY_INTERNAL_H
#include "core/cost/step/memory.h"

/* Tokens of a micro-batch on one context-parallel rank. */
double memory_tokens(const luo_mem_spec *spec);

/* ---- memory_experts.c: one layer with experts, one micro-batch, bytes on one device ---- */

/* Kept for backward beside what every layer keeps and what shared experts do. */
double memory_experts_kept(const luo_mem_spec *spec);
/* What backward works on when gradients of rows are made, beside all that is kept. */
double memory_experts_work(const luo_mem_spec *spec);
/* Rows that products of experts read, and gradients of what they made: what a backward cut in two
 * leaves between its halves. */
double memory_experts_inputs(const luo_mem_spec *spec);
double memory_experts_outputs(const luo_mem_spec *spec);
/* Parameters of all experts' matrices on one device. */
double memory_experts_parameters(const luo_mem_spec *spec);
/* In so many parts their state is cut, of which the device that has most has one; copies: of all
 * else. */
double memory_experts_parts(const luo_mem_spec *spec, int32_t copies);
/* Layers with experts of the stage. */
double memory_experts_layers(const luo_mem_spec *spec);
#endif
