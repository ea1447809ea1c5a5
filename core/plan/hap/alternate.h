/* alternate.h: program and shares together: the cheapest program at given shares, the best shares
 * of that program, and again, from several starts. */
#ifndef LUO_CORE_PLAN_HAP_ALTERNATE_H
#define LUO_CORE_PLAN_HAP_ALTERNATE_H
#include "core/plan/hap/search.h"

/* Shares to begin with. */
#define LUO_HAP_START_LIST(X)                                                                      \
    X(LUO_HAP_START_PROP, "prop") /* of a segment's work at each type's speed */                   \
    X(LUO_HAP_START_EVEN, "even")                                                                  \
    X(LUO_HAP_START_MEM, "mem") /* of memory */
typedef enum luo_hap_start {
#define LUO_HAP_VALUE(value, word) value,
    LUO_HAP_START_LIST(LUO_HAP_VALUE)
#undef LUO_HAP_VALUE
        LUO_HAP_STARTS
} luo_hap_start;
const char *luo_hap_start_name(luo_hap_start start);

typedef enum luo_hap_zero { LUO_HAP_ZERO_AUTO, LUO_HAP_ZERO_OFF, LUO_HAP_ZERO_ON } luo_hap_zero;

typedef struct luo_hap_job { /* opts.compat: of the rest rules and layers alone count */
    luo_hap_opts opts; /* zero: as `zero` says */
    uint32_t starts;   /* bits of luo_hap_start; 0: prop and even, and mem where memory is known */
    bool no_memory;    /* memory does not matter */
    bool no_grouped;   /* collectives are padded */
    bool as_it_is;     /* what has no room, with ZeRO or without, is not looked for in less */
    luo_hap_zero zero;
} luo_hap_job;

enum { LUO_HAP_ROUNDS = 10 };

typedef struct luo_hap_round { /* one turn */
    luo_hap_start start;
    double program_s, shares_s; /* J of the program at the shares before, and at its own */
} luo_hap_round;

typedef struct luo_hap_result {
    const luo_hap_space *space;
    luo_hap_numbers numbers; /* as used: grouped forms may be gone */
    luo_hap_program *program;
    double *shares; /* [segment][type] */
    double cost_s;
    luo_hap_stage parts;
    luo_hap_start start; /* that led there */
    int32_t rounds;      /* of all starts */
    luo_hap_round *round;
    double memory_bytes[LUO_HAP_TYPES];
    int64_t states, pops; /* of all searches */
} luo_hap_result;

/* The best pair that was met.
 * Memory: where the best pair does not fit, triples are charged for what they hold, ever more until
 * one fits, and then less again by bisection.
 * Errors: LUO_EINPUT, LUO_ENORULE as luo_hap_synth; LUO_EINFEASIBLE nothing fits; LUO_ENOMEM.
 * Owner:  arena; graph is kept.
 * Source: HAP paper, section 3.1; several starts, the best pair and memory are ours: the
 * alternation has fixed points that are not the best. See:    tests/unit/check_hap.c */
luo_status luo_hap_alternate(luo_arena *arena, const luo_hap_graph *graph,
                             const luo_hap_numbers *numbers, const luo_hap_job *job,
                             luo_hap_result **out, luo_err *err);
/* The program of one start alone, with its shares as they are, under other opts than the job's;
 * memory is not heeded. Errors, owner: as luo_hap_alternate. */
luo_status luo_hap_alternate_once(luo_arena *arena, const luo_hap_graph *graph,
                                  const luo_hap_numbers *numbers, const luo_hap_job *job,
                                  const luo_hap_opts *opts, luo_hap_start start,
                                  luo_hap_result **out, luo_err *err);
/* Shares [segment][type] of a start. False: it has none (memory is not known). */
bool luo_hap_start_shares(const luo_hap_graph *graph, const luo_hap_numbers *numbers,
                          luo_hap_start start, bool compat, double *shares);
#endif
