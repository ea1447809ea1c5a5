/* space.h: everything an operation may do, as steps between facts: what the search chooses from.
 *
 * A fact (t, r) says that tensor t is held in relation r. A triple {facts it needs} operation with
 * its rule, ways of its parameters and collectives {facts it leaves}: results, and every tensor
 * that was moved for it. Costs are kept as terms, not as numbers: shares change, triples do not. */
#ifndef LUO_CORE_PLAN_HAP_SPACE_H
#define LUO_CORE_PLAN_HAP_SPACE_H
#include "core/plan/hap/price.h"
#include "core/plan/hap_graph/rules.h"

typedef struct luo_hap_opts { /* {0}: only all-reduce for copied parameters, every rule */
    bool factors;             /* offer sufficient factors for weight gradients */
    bool zero;                /* offer ZeRO for copied parameters */
    const char *rules;        /* letters that may be cut; NULL: all. Where an operation has none of
                                 them it runs everywhere */
    const char *op_letter;    /* per operation its one letter, 0: as `rules`; NULL: as `rules` */
    bool sayable;             /* only pieces that a plan can say: luo_hap_tensor.plan_dim */
    bool compat;              /* as published: rules, work in elements, one move per tensor */
    bool compat_sums;         /* and contractions; for tests */
    bool layers;              /* search layer by layer instead of A* */
} luo_hap_opts;

typedef enum luo_hap_how { /* an operand comes to its relation */
                           LUO_HAP_HOW_KEPT,
                           LUO_HAP_HOW_INPUT, /* made where it is read */
                           LUO_HAP_HOW_PARAM, /* pieces, or copies whose gradients are whole */
                           LUO_HAP_HOW_AR,   /* parameter: copies, gradients summed by an all-reduce
                                              */
                           LUO_HAP_HOW_ZERO, /* parameter: kept in pieces of dimension 0, gathered,
                                                reduce-scattered */
                           LUO_HAP_HOW_FACTORS, /* parameter: copies, every device computes all of
                                                   the gradient */
                           LUO_HAP_HOW_GATHER,
                           LUO_HAP_HOW_SLICE,
                           LUO_HAP_HOW_SCATTER,
                           LUO_HAP_HOW_REDUCE,
                           LUO_HAP_HOW_EXCHANGE, /* another dimension */
                           LUO_HAP_HOW_RESHARE   /* other shares */
} luo_hap_how;

typedef struct luo_hap_take {
    uint8_t how; /* luo_hap_how */
    luo_rel from, to;
} luo_hap_take;

typedef struct luo_hap_triple {
    int32_t op, rule;       /* rule: of luo_hap_space.rule[op] */
    int32_t ext;            /* extent of the rule's letter, -1: none */
    double w_full, w_split; /* work of every device; work that is divided */
    int32_t ncoll, npre, npost, nbar;
    luo_hap_coll *coll;
    int32_t *pre, *post; /* facts, rising */
    int32_t *bar;        /* facts that must not be there (compat) */
    int32_t group;       /* the first triple of the operation with the same facts */
    luo_hap_take take[LUO_HAP_OPERANDS];
} luo_hap_triple;

typedef struct luo_hap_fact {
    int32_t tensor;
    luo_rel rel;
} luo_hap_fact;

typedef struct luo_hap_space {
    const luo_hap_graph *graph;
    luo_hap_opts opts;
    int32_t nextents, nfacts, ntriples, cap_triples;
    int64_t *extent;     /* rising */
    int32_t *base;       /* by tensor: its first fact */
    luo_hap_rule **rule; /* by operation */
    int32_t *nrules;
    luo_hap_triple *triple; /* by operation: first[o] <= i < first[o + 1] */
    int32_t *first;
    /* Bits of sets of facts: a fact has one from the operation that may make it to the last that
     * may read it. */
    int32_t words;
    uint64_t *pre, *post, *bar; /* [triple][word] */
    uint64_t *keep;             /* [operation][word]: facts of before that outlive it */
    uint64_t *final;            /* [2][word]: the loss as a sum over devices, or whole */
} luo_hap_space;

/* Everything that can be done with the graph.
 * Errors: LUO_EINPUT the graph is wrong; LUO_ENORULE an operation has no rule whose inputs can be
 * made; LUO_ENOMEM.
 * Owner:  arena; graph and texts of opts are kept.
 * Cost:   O(triples): of an operation, rules times the product of ways of its operands.
 * Source: HAP paper, section 3.2 (Hoare triples), with leaves and collectives fused into their
 * reader. */
luo_status luo_hap_space_new(luo_arena *arena, const luo_hap_graph *graph, const luo_hap_opts *opts,
                             luo_hap_space **out, luo_err *err);
luo_hap_fact luo_hap_space_fact(const luo_hap_space *space, int32_t fact);
int32_t luo_hap_space_extent(const luo_hap_space *space, int64_t extent);
#endif
