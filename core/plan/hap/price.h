/* price.h: seconds of a collective at given shares.
 *
 * Notation: n = devices, S = bytes of a tensor, M = largest part of a dimension that a device has,
 * phi_t = the largest that a device of type t has; a + S / BW = latency and bandwidth. */
#ifndef LUO_CORE_PLAN_HAP_PRICE_H
#define LUO_CORE_PLAN_HAP_PRICE_H
#include "core/plan/hap/numbers.h"

/* Lengths of every extent under the shares of every segment, made once per shares. */
typedef struct luo_hap_cuts {
    int32_t nextents, nsegments, ntypes, ndevices;
    const int64_t *extent; /* rising */
    double *most;          /* [segment][extent]: M */
    double *part;          /* [segment][extent][type]: phi */
    double *length;        /* [segment][extent][device]; whole numbers unless fractional */
} luo_hap_cuts;

/* Shapes: shares [segment][type]: of one device of the type; extent[0..nextents) rises.
 * Errors: LUO_EINPUT shares of a segment do not sum to 1 (1e-6), or one is negative; LUO_ENOMEM.
 * Owner:  arena; extent is kept.
 * Cost:   O(segments * extents * devices * types). */
luo_status luo_hap_cuts_new(luo_arena *arena, const luo_hap_numbers *numbers, int32_t nsegments,
                            const double *shares, int32_t nextents, const int64_t *extent,
                            luo_hap_cuts **out, luo_err *err);

typedef enum luo_hap_move {
    LUO_HAP_MOVE_AG,
    LUO_HAP_MOVE_RS,
    LUO_HAP_MOVE_AR,
    LUO_HAP_MOVE_A2A, /* from one dimension cut to another one */
    LUO_HAP_MOVE_RE   /* the same dimension under other shares */
} luo_hap_move;
const char *luo_hap_move_name(luo_hap_move move);

typedef struct luo_hap_coll { /* one collective, of the forward or the backward part */
    uint8_t kind;             /* luo_hap_move */
    bool backward;
    uint16_t seg, seg2; /* whose lengths; seg2: of A2A and RE, where it goes */
    int32_t ext, ext2;  /* numbers of extents in luo_hap_cuts; ext2: of A2A */
    double bytes;       /* S */
} luo_hap_coll;

/* Seconds; 0 where there is one device. grouped (may be NULL): was that form taken, which is where
 * it is strictly cheaper.
 * Source: HAP paper, section 2.5.1 (the two forms of a gather); formulas with latency are ours.
 * See:    tests/unit/check_hap_price.c */
double luo_hap_price(const luo_hap_numbers *numbers, const luo_hap_cuts *cuts,
                     const luo_hap_coll *coll, bool *grouped);
/* Elements along the dimension that the busiest device sends or receives when lengths `from`
 * become `to`: pieces stand in the order of devices. */
double luo_hap_price_reshare(int32_t n, const double *from, const double *to);
#endif
