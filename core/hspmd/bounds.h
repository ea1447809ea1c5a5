/* bounds.h: where cuts lie on a dimension, by shares and by annotations. */
#ifndef LUO_CORE_HSPMD_BOUNDS_H
#define LUO_CORE_HSPMD_BOUNDS_H
#include "core/hspmd/ann.h"

/* Bounds of cutting [0:len) in n parts by shares (NULL: even), cumulative largest remainder, ties
 * to the smaller index: bounds[0] = 0 .. bounds[n] = len.
 * Pre: n >= 1, 0 <= len < LUO_DIM_LIMIT, some share > 0. Products use 128 bits. */
void luo_bounds_cut(int64_t len, int32_t n, const uint32_t *share, int64_t *bounds);

/* Greatest common divisor of a, b >= 0; of 0 and b it is b. */
int64_t luo_bounds_gcd(int64_t a, int64_t b);

/* Shares that give back bounds[0..n]: the sizes divided by their gcd. NULL when the length is 0,
 * or when the sizes are above the limit of shares but those of an even cut.
 * Errors: LUO_E2BIG uneven sizes above that limit; LUO_ENOMEM. Owner: arena. */
luo_status luo_bounds_shares(luo_arena *arena, int32_t n, const int64_t *bounds,
                             const uint32_t **share, luo_err *err);

/* T_0..T_U of the outer cut, member_len honoured. Pre: ann->h >= 0, not inner. */
luo_status luo_bounds_top(luo_arena *arena, const luo_ann *ann, const luo_shape *shape,
                          int64_t **top, luo_err *err);
/* P_0 = 0 .. P_n = dim[h]: sorted distinct bounds of all members on h. Pre: ann->inner. */
luo_status luo_bounds_inner(luo_arena *arena, const luo_ann *ann, const luo_shape *shape,
                            const int64_t **p, int32_t *n, luo_err *err);
#endif
