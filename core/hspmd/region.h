/* region.h: which elements of a tensor a device holds (docs/annotations.md#regions).
 *
 * Notation: R = rank of the tensor, 0..LUO_RANK_MAX. Bounds are element indices, never bytes.
 * A region is the product over the R dimensions of a list of half-open intervals. Normal form,
 * which every function here expects and returns: intervals ascending and neither empty nor
 * touching; a region that misses one dimension has no interval in any. R = 0 is one element.
 */
#ifndef LUO_CORE_HSPMD_REGION_H
#define LUO_CORE_HSPMD_REGION_H
#include <stddef.h>
#include <stdint.h>

#include "core/base/arena.h"
#include "core/base/err.h"
#include "core/base/str.h"
#include "core/hspmd/ann.h"

typedef struct luo_span {
    int64_t lo, hi; /* elements lo <= x < hi */
} luo_span;

typedef struct luo_region { /* immutable; the spans live in an arena */
    int32_t rank;
    bool empty; /* true: no interval in any dimension */
    struct {
        int32_t n;
        const luo_span *at; /* at[0..n) */
    } dim[LUO_RANK_MAX];
} luo_region;

int64_t luo_region_volume(const luo_region *region);
/* Region of device index i of member u. Pre: luo_ann_bind passed.
 * Errors: LUO_ENOMEM; *out untouched. Owner: the spans belong to arena. */
luo_status luo_region_of(luo_arena *arena, const luo_ann *ann, const luo_shape *shape, int32_t u,
                         int32_t i, luo_region *out, luo_err *err);
luo_status luo_region_intersect(luo_arena *arena, const luo_region *a, const luo_region *b,
                                luo_region *out, luo_err *err);
/* The same in spans of its own. Errors: LUO_ENOMEM; *out untouched. Owner: arena. */
luo_status luo_region_copy(luo_arena *arena, const luo_region *from, luo_region *out, luo_err *err);
/* a is a subset of b (true when a is empty). */
bool luo_region_contains(const luo_region *b, const luo_region *a);
bool luo_region_equal(const luo_region *a, const luo_region *b);
/* Have they an element in common? Pre: equal ranks. */
bool luo_region_overlap(const luo_region *a, const luo_region *b);
/* The smallest box around region, or an empty span list when region is empty. Fills lo[R], hi[R].
 */
void luo_region_box(const luo_region *region, int64_t *lo, int64_t *hi);
/* Calls box(ctx, lo, hi) for each box of the product, row-major. */
void luo_region_each_box(const luo_region *region,
                         void (*box)(void *ctx, const int64_t *lo, const int64_t *hi), void *ctx);
/* Text "[0:4)x[2:6)+[8:9)", "-" when empty, "" when R = 0. */
luo_status luo_region_parse(luo_arena *arena, const char *text, int32_t rank, luo_region *out,
                            luo_err *err);
void luo_region_print(luo_str *text, const luo_region *region);

/* What one device holds of a tensor. */
typedef struct luo_holding {
    int32_t dev, u, i;
    int32_t part, parts; /* local Partial coordinate c[-2] and count */
    luo_region region;
} luo_holding;

typedef struct luo_holdings {
    int32_t n;
    luo_holding *at; /* in (member, index) order */
} luo_holdings;

/* All holdings of a on shape. Cost: O(devices); members with equal entries share their tables.
 * Errors: LUO_ENOMEM. Owner: arena. */
luo_status luo_holdings_make(luo_arena *arena, const luo_ann *ann, const luo_shape *shape,
                             luo_holdings *out, luo_err *err);
/* Footprint of member u. */
luo_status luo_region_footprint(luo_arena *arena, const luo_ann *ann, const luo_shape *shape,
                                int32_t u, luo_region *out, luo_err *err);
#endif
