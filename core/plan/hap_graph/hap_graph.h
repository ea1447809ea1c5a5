/* hap_graph.h: a training graph for one device, as the planner `hap` reads it: tensors and
 * operations with a letter per iteration axis.
 *
 * Notation: el(x) = number of elements of x. Only the forward part is written down; the backward
 * part follows from it: a gradient per operand that has one. Operations stand in topological order.
 * A letter names an axis within one operation only: two operations may call one dimension
 * differently. */
#ifndef LUO_CORE_PLAN_HAP_GRAPH_HAP_GRAPH_H
#define LUO_CORE_PLAN_HAP_GRAPH_HAP_GRAPH_H
#include <stdbool.h>
#include <stdint.h>

#include "core/base/err.h"

enum { LUO_HAP_OPERANDS = 3, LUO_HAP_RESULTS = 3, LUO_HAP_RANK = 6, LUO_HAP_TYPES = 16 };

/* What a speed is of: elt counts bytes, the others FLOP. */
#define LUO_HAP_CLASS_LIST(X)                                                                      \
    X(LUO_HAP_ON_GEMM, "gemm")                                                                     \
    X(LUO_HAP_ON_CONV, "conv")                                                                     \
    X(LUO_HAP_ON_ATTN, "attn")                                                                     \
    X(LUO_HAP_ON_ELT, "elt")
typedef enum luo_hap_class {
#define LUO_HAP_VALUE(value, word) value,
    LUO_HAP_CLASS_LIST(LUO_HAP_VALUE)
#undef LUO_HAP_VALUE
        LUO_HAP_CLASSES
} luo_hap_class;
const char *luo_hap_class_name(luo_hap_class class);

typedef enum luo_hap_kind { /* of operations; hap_ops.inc says what each does */
#define LUO_HAP_OP(kind, ...) LUO_HAP_##kind,
#include "core/plan/hap_graph/hap_ops.inc"
#undef LUO_HAP_OP
                            LUO_HAP_KINDS
} luo_hap_kind;

typedef enum luo_hap_role {
    LUO_HAP_INPUT, /* ids, labels, images, masks: no gradient, made again for every reader */
    LUO_HAP_PARAM,
    LUO_HAP_VALUE_OF, /* an operation makes it; has a gradient */
    LUO_HAP_MASK      /* an operation makes it; has none */
} luo_hap_role;

typedef enum luo_hap_moves { /* how a tensor may come to lie otherwise than it was made */
                             LUO_HAP_MOVES_ALL,
                             LUO_HAP_MOVES_ROWS, /* only from pieces of one to pieces of the other
                                                    of dimensions 0 and 1: between the devices of
                                                    tokens and those of experts */
                             LUO_HAP_MOVES_NONE
} luo_hap_moves;

typedef struct luo_hap_tensor {
    const char *name;
    luo_hap_role role;
    int32_t rank;
    int64_t dim[LUO_HAP_RANK];
    int64_t elements,
        bytes;       /* bytes: elements of the graph's type, or of 4 bytes for whole numbers */
    luo_hap_moves moves;
    int32_t maker;   /* operation, -1: none */
    int32_t readers; /* operands of operations that read it */
    /* In a plan: */
    int32_t nnames; /* tensors that it is there; 0: one, of its own name */
    const char *const *names;
    int8_t plan_dim[LUO_HAP_RANK]; /* its dimensions there; -1: pieces of it cannot be said */
} luo_hap_tensor;

typedef struct luo_hap_op {
    const char *name;
    luo_hap_kind kind;
    luo_hap_class class;
    int32_t nin, nout, segment;
    int32_t block;                                                 /* of the model, -1: none */
    int32_t in[LUO_HAP_OPERANDS], out[LUO_HAP_RESULTS];            /* tensors */
    const char *in_is[LUO_HAP_OPERANDS], *out_is[LUO_HAP_RESULTS]; /* a letter per dimension */
    const char *whole;                                             /* letters that are not cut */
    int64_t size[128];               /* extent by letter; 0: no such axis */
    uint32_t lin;                    /* bit j: linear in operand j while the others stay */
    uint32_t need[LUO_HAP_OPERANDS]; /* bit i of need[j]: the gradient of j reads operand i */
    bool add;                        /* the sum of its operands */
    int32_t bias, weight; /* operand, -1: none; weight: one whose factors may travel instead */
    double forward, backward[LUO_HAP_OPERANDS]; /* work; 0 for operands without gradient */
    double compat; /* forward work as published planners count it (elements) */
} luo_hap_op;

typedef struct luo_hap_graph {
    luo_arena *arena;
    int64_t elem_bytes;
    int32_t ntensors, nops, nsegments, cap_tensors, cap_ops;
    luo_hap_tensor *tensor;
    luo_hap_op *op;
    int32_t block; /* of operations that are added next */
    int32_t loss;  /* tensor; -1: none yet */
    int32_t nlosses;
    luo_status st; /* of the first addition that failed; later ones do nothing */
    luo_err err;
} luo_hap_graph;

/* An empty graph of one segment. NULL: out of memory. Owner: arena. Pre: elem_bytes >= 1. */
luo_hap_graph *luo_hap_graph_new(luo_arena *arena, int64_t elem_bytes);
/* Adds an input or a parameter; its id, -1 when the graph has failed. dims: rank of them. whole
 * numbers (ids, labels) have 4 bytes an element. name is copied. */
int32_t luo_hap_graph_leaf(luo_hap_graph *graph, const char *name, luo_hap_role role, bool whole,
                           int32_t rank, const int64_t *dims);
/* Adds an operation with its results.
 *   signature  "bsm,mphe,phe->bshe,bshe,bshe": letters per operand and result
 *   whole      letters that are not cut beside those of its kind; "" none
 *   sizes      extents of letters that no operand has, in their order in the results; NULL: none
 *   names      of the results
 * The id of the first result, those of further ones follow it; -1 when the graph has failed:
 * graph->st and graph->err then say why (LUO_EINPUT, LUO_ENOMEM). */
int32_t luo_hap_graph_op(luo_hap_graph *graph, luo_hap_kind kind, const char *name,
                         const char *signature, const char *whole, const int64_t *sizes,
                         const int32_t *in, const char *const *names);
/* Operations from `first` on belong to segment `segment`. Pre: segments rise by one. */
void luo_hap_graph_segment(luo_hap_graph *graph, int32_t first, int32_t segment);
/* As many segments as `count` says, each a run of whole blocks of about equal work; what stands
 * before the first block belongs to the first segment, what stands behind the last to the last.
 * count 0: a segment per block. Errors: LUO_EUSAGE more segments than blocks. */
luo_status luo_hap_graph_cut(luo_hap_graph *graph, int32_t count, luo_err *err);
/* Did every addition work, and is there exactly one loss? Errors: LUO_EINPUT, LUO_ENOMEM. */
luo_status luo_hap_graph_check(const luo_hap_graph *graph, luo_err *err);
/* All work of operation o: forward and of all gradients. */
double luo_hap_graph_work(const luo_hap_op *op);
/* Has tensor x a gradient? */
bool luo_hap_graph_trains(const luo_hap_graph *graph, int32_t x);
#endif
