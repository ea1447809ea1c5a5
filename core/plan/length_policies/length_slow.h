/* length_slow.h: candidates for devices some of which are slow (docs/planners.md#slow-devices). */
#ifndef LUO_CORE_PLAN_LENGTH_POLICIES_LENGTH_SLOW_H
#define LUO_CORE_PLAN_LENGTH_POLICIES_LENGTH_SLOW_H
#include "core/plan/length_policies/length_setup.h"

/* Adds to the candidates of a setup, which keep their numbers: each of them with the replicas that
 * have slow devices cut around these (core/plan/hydraulis/pool_split.h), with the slow ones as
 * stages and without them; and proposals for as many devices as all are worth, the sum of 1/rate,
 * which leave the last ones idle.
 * In:     in: as for luo_length_setup_make; rate[setup->place.ndevices]: against healthy devices of
 *         the type, by place, at least 1, in each node the slow ones last.
 * In/out: *setup: its pool and candidates are replaced, not changed; speeds are those it has.
 * Errors: those of luo_candidates_make but that no entry holds a sequence; those of
 *         luo_pool_split_make. Owner: arena; what the setup had lives as long.
 * Cost:   a proposal; the closed forms and two compilations of each kind of cut replica. */
luo_status luo_length_slow_add(luo_arena *arena, const luo_length_setup_in *in, const double *rate,
                               luo_length_setup *setup, luo_err *err);
#endif
