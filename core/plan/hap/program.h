/* program.h: a distributed program, one triple per operation, and what it costs and holds.
 *
 * J = sum over operations of the slowest device's work and of collectives, forward and backward:
 * nothing overlaps (HAP paper, section 3.1, equation 1). */
#ifndef LUO_CORE_PLAN_HAP_PROGRAM_H
#define LUO_CORE_PLAN_HAP_PROGRAM_H
#include "core/base/str.h"
#include "core/plan/hap/space.h"

typedef struct luo_hap_program {
    const luo_hap_space *space;
    int32_t *choice;      /* by operation: a triple of the space */
    double cost_s;        /* J at the shares it was found at, without any penalty */
    int64_t states, pops; /* of the search */
} luo_hap_program;

typedef struct luo_hap_stage { /* seconds of one operation with what was fused to it */
    double compute_s, communication_s;
} luo_hap_stage;

/* Cost of one triple. */
luo_hap_stage luo_hap_stage_cost(const luo_hap_space *space, const luo_hap_numbers *numbers,
                                 const luo_hap_cuts *cuts, const luo_hap_triple *triple);
/* Lengths of the extents of the program's space at some shares. As luo_hap_cuts_new. */
luo_status luo_hap_program_cuts(luo_arena *arena, const luo_hap_space *space,
                                const luo_hap_numbers *numbers, const double *shares,
                                luo_hap_cuts **out, luo_err *err);
/* *cost = J of the program at other shares; forms of collectives are chosen anew. parts (may be
 * NULL): compute and communication. Shapes, errors: as luo_hap_cuts_new. Owner: arena, for
 * scratch. */
luo_status luo_hap_cost(luo_arena *arena, const luo_hap_program *program,
                        const luo_hap_numbers *numbers, const double *shares, double *cost,
                        luo_hap_stage *parts, luo_err *err);

/* Bytes that stay on a device: all of them, or a part of a dimension. */
typedef struct luo_hap_bytes {
    double bytes;
    int32_t seg, ext; /* ext -1: all */
    int32_t fact;     /* counted once per program; -1: a parameter's state */
    bool transient;   /* only the largest of these is there at a time */
} luo_hap_bytes;
enum { LUO_HAP_BYTES_MOST = 3 * LUO_HAP_OPERANDS + LUO_HAP_RESULTS };
/* Weight, gradient and two moments of an element of a parameter, as programs hold them: four alike,
 * in bf16 2, 4 and 8 bytes and the weight once more in f32. */
double luo_hap_state_bytes(const luo_hap_graph *graph);
/* Have all devices together room for one copy of that? Fewer samples do not help where they have
 * not. A type whose memory is not known has. Errors: LUO_EINFEASIBLE. */
luo_status luo_hap_state_fits(const luo_hap_graph *graph, const luo_hap_numbers *numbers,
                              luo_err *err);
/* What a triple adds; returns how many. What ZeRO gathers, and its whole gradient, are there while
 * they are used. Activations are all kept, none used again: an upper bound of them on purpose; but
 * not of what a loss needs beside its logits. */
int32_t luo_hap_bytes_of(const luo_hap_space *space, const luo_hap_triple *triple,
                         luo_hap_bytes out[LUO_HAP_BYTES_MOST]);
/* bytes[t] = what a device of type t holds under the program. Errors: LUO_ENOMEM. Owner: arena, for
 * scratch. */
luo_status luo_hap_program_memory(luo_arena *arena, const luo_hap_program *program,
                                  const luo_hap_cuts *cuts, double *bytes, luo_err *err);
/* Calls `each` for everything of the program that stays, each fact once; `largest` gets the largest
 * transient. Errors: LUO_ENOMEM. */
typedef void luo_hap_bytes_fn(void *ctx, const luo_hap_bytes *bytes);
luo_status luo_hap_program_bytes(luo_arena *arena, const luo_hap_program *program,
                                 luo_hap_bytes_fn *each, void *ctx, double *largest, luo_err *err);

/* One line of the program: "b h1:RS0": the rule, then operands that were moved, and parameters. */
void luo_hap_program_line(luo_str *text, const luo_hap_program *program, int32_t op);
/* All lines, each ended by a newline. */
void luo_hap_program_print(luo_str *text, const luo_hap_program *program);
#endif
