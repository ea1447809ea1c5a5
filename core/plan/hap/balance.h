/* balance.h: the shares at which a program is fastest, as a linear programme.
 *
 * Notation: b = share of one device of a type in a segment, mx = largest share of a segment, m =
 * devices of a type. Shares are real numbers here; whole lengths come afterwards. */
#ifndef LUO_CORE_PLAN_HAP_BALANCE_H
#define LUO_CORE_PLAN_HAP_BALANCE_H
#include "core/plan/hap/program.h"

typedef struct luo_hap_lp_stage { /* max over types of full_s + split_s * b */
    int32_t segment;
    double full_s[LUO_HAP_TYPES], split_s[LUO_HAP_TYPES];
} luo_hap_lp_stage;

typedef struct luo_hap_lp_pair { /* of segments */
    int32_t a, b;
    double seconds; /* times the larger mx of both; or times what a re-share moves */
} luo_hap_lp_pair;

typedef struct luo_hap_lp {
    int32_t ntypes, nsegments, nstages, ncross, nmoves;
    const int32_t *count; /* m by type */
    const luo_hap_lp_stage *stage;
    const double *most_s;         /* by segment: seconds per mx; NULL: 0 */
    const luo_hap_lp_pair *cross; /* exchanges between segments */
    const luo_hap_lp_pair *move;  /* re-shares between segments */
    double constant_s;
    const double *share_bytes; /* by segment: bytes per share; NULL: memory does not matter */
    double fixed_bytes;
    const double *limit_bytes; /* by type; 0: no limit */
    bool compat; /* as published: no column above one second, constants in stages left out, any of
                    the best answers */
} luo_hap_lp;

/* shares [segment][type] of least seconds; of equally good ones the most even.
 * Re-shares are exact where pieces move to neighbours only, an upper bound otherwise.
 * Errors: LUO_EINFEASIBLE memory; LUO_ENOMEM. Owner: arena, for scratch.
 * Source: HAP paper, section 5.1 (equation 3); without its bound of one second on columns, with
 * constants, with several segments, re-shares and memory, which are ours. See:
 * tests/unit/check_hap_balance.c */
luo_status luo_hap_balance_raw(luo_arena *arena, const luo_hap_lp *lp, double *shares,
                               double *seconds, luo_err *err);
/* The same of a program. Forms of collectives stay those that are cheaper at shares_now. Memory is
 * heeded for types whose memory is known, if `memory`.
 * Errors: as luo_hap_balance_raw; LUO_EINPUT shares_now. */
luo_status luo_hap_balance(luo_arena *arena, const luo_hap_program *program,
                           const luo_hap_numbers *numbers, bool memory, const double *shares_now,
                           double *shares, double *seconds, luo_err *err);
#endif
