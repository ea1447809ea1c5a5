/* search.h: the cheapest program at given shares.
 *
 * A state is (k, F): the first k operations are done, F is the set of facts that are there and may
 * still be read. Operations are taken in the order of the graph: the cost of a stage does not hang
 * on when it runs, so any legal program can be put in that order. */
#ifndef LUO_CORE_PLAN_HAP_SEARCH_H
#define LUO_CORE_PLAN_HAP_SEARCH_H
#include "core/plan/hap/program.h"

/* The cheapest program: A*, whose estimate of what is left is the sum of the cheapest triple of
 * every operation, or (space->opts.layers) all states layer by layer.
 *   shares   [segment][type], of one device of the type
 *   penalty  seconds that are added for a triple, per part of a device's memory that it takes
 *            (largest over types whose memory is known); 0: none
 * Errors: LUO_ENORULE no legal program; LUO_EINPUT shares; LUO_ENOMEM.
 * Owner:  arena; the space is kept.
 * Cost:   O(states * triples of an operation); states grow with the number of operations.
 * Source: HAP paper, section 3.3; the estimate and dead facts are ours.
 * See:    tests/prop/prop_hap.c (brute force) */
luo_status luo_hap_synth(luo_arena *arena, const luo_hap_space *space,
                         const luo_hap_numbers *numbers, const double *shares, double penalty,
                         luo_hap_program **out, luo_err *err);
#endif
