/* op.h: the kinds of operations, and what is known of each by its kind (ops.inc). */
#ifndef LUO_CORE_GRAPH_OP_H
#define LUO_CORE_GRAPH_OP_H
#include <stdint.h>

typedef enum luo_op_kind {
#define LUO_OP(kind, ...) LUO_OP_##kind,
#include "core/graph/ops.inc"
#undef LUO_OP
    LUO_OP_KINDS
} luo_op_kind;

typedef enum luo_op_size { /* what a measured time is listed by (core/cost/cpu.h) */
                           LUO_OP_SIZE_PRODUCT,
                           LUO_OP_SIZE_ATTENTION,
                           LUO_OP_SIZE_TABLE, /* elements touched: a row of its table per token, not
                                                 the table */
                           LUO_OP_SIZE_STREAM, /* elements; the number of operands tells variants
                                                  apart */
                           LUO_OP_SIZE_SUM     /* elements of any number of operands */
} luo_op_size;

typedef enum luo_op_keeps { /* program/memory_rules.h has the rules by which a stack keeps it */
                            LUO_OP_KEEPS_NOTHING,
                            LUO_OP_KEEPS_MASK,   /* of the dropout before it */
                            LUO_OP_KEEPS_SCORES, /* softmax of unfused attention */
                            LUO_OP_KEEPS_SILU,   /* silu(gate), its second result */
                            LUO_OP_KEEPS_LOGITS  /* a copy of them beside the exponentials */
} luo_op_keeps;

typedef struct luo_op_desc {
    const char *name, *operands;
    int32_t nin, nout; /* at least */
    luo_op_size size;
    luo_op_keeps keeps;
} luo_op_desc;

/* Pre: kind < LUO_OP_KINDS. */
const luo_op_desc *luo_op_desc_of(luo_op_kind kind);
const char *luo_op_kind_name(luo_op_kind kind);
/* LUO_OP_KINDS: no operation has that name. */
luo_op_kind luo_op_kind_of(const char *name);
#endif
