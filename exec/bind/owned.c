/* owned.c: every cell of a tensor counted by one of its holders. */
#include <string.h>

#include "core/base/vec.h"
#include "exec/bind/owned.h"
#include "exec/bind/segments.h"

typedef struct boxes {
    luo_arena *arena;
    luo_region *at;
    int32_t n, cap;
    luo_err *err;
} boxes;

static luo_status push(boxes *b, int32_t rank, const int64_t *lo, const int64_t *hi)
{
    if (!LUO_VEC_ROOM_IN(b->arena, b->at, b->n, b->cap)) return luo_err_nomem(b->err);
    luo_span *span = LUO_NEW_N(b->arena, luo_span, rank);
    if (!span) return luo_err_nomem(b->err);
    luo_region region = {.rank = rank};
    for (int32_t d = 0; d < rank; d++) {
        span[d] = (luo_span){lo[d], hi[d]};
        region.dim[d].n = 1;
        region.dim[d].at = &span[d];
    }
    b->at[b->n++] = region;
    return LUO_OK;
}

typedef struct cutter { /* takes one box away from a list, into another */
    const luo_region *from;
    boxes *to;
    luo_status st;
} cutter;

static void keep_box(void *ctx, const int64_t *lo, const int64_t *hi)
{
    cutter *c = ctx;
    if (c->st == LUO_OK) c->st = push(c->to, c->from->rank, lo, hi);
}

/* What is left of box `region` without the box lo..hi: at most two boxes per dimension. */
static luo_status cut_box(boxes *to, const luo_region *region, const int64_t *lo, const int64_t *hi)
{
    int64_t at[LUO_RANK_MAX], end[LUO_RANK_MAX];
    for (int32_t d = 0; d < region->rank; d++) {
        at[d] = region->dim[d].at[0].lo;
        end[d] = region->dim[d].at[0].hi;
    }
    for (int32_t d = 0; d < region->rank; d++)
        if (hi[d] <= at[d] || lo[d] >= end[d]) return push(to, region->rank, at, end);
    for (int32_t d = 0; d < region->rank; d++) {
        const int64_t first = at[d], last = end[d];
        if (lo[d] > first) {
            end[d] = lo[d];
            LUO_TRY(push(to, region->rank, at, end));
        }
        if (hi[d] < last) {
            at[d] = hi[d];
            end[d] = last;
            LUO_TRY(push(to, region->rank, at, end));
        }
        at[d] = lo[d] > first ? lo[d] : first;
        end[d] = hi[d] < last ? hi[d] : last;
    }
    return LUO_OK;
}

typedef struct taker { /* takes a region away from a list of boxes */
    boxes now;
    luo_status st;
} taker;

static void take_box(void *ctx, const int64_t *lo, const int64_t *hi)
{
    taker *t = ctx;
    boxes left = {.arena = t->now.arena, .err = t->now.err};
    for (int32_t i = 0; i < t->now.n && t->st == LUO_OK; i++)
        t->st = cut_box(&left, &t->now.at[i], lo, hi);
    t->now = left;
}

static int32_t find_device(const luo_holdings *holdings, int32_t device)
{
    int32_t k = 0;
    while (k < holdings->n && holdings->at[k].dev != device) k++;
    return k;
}

luo_status luo_owned_boxes(luo_arena *arena, const luo_ann *ann, const luo_shape *shape,
                           int32_t device, const luo_region **out, int32_t *n, luo_err *err)
{
    luo_holdings holdings;
    LUO_TRY(luo_holdings_make(arena, ann, shape, &holdings, err));
    const int32_t mine = find_device(&holdings, device);
    taker t = {{.arena = arena, .err = err}, LUO_OK};
    if (mine < holdings.n) {
        cutter c = {&holdings.at[mine].region, &t.now, LUO_OK};
        luo_region_each_box(c.from, keep_box, &c);
        t.st = c.st;
    }
    for (int32_t k = 0; k < mine && t.now.n > 0 && t.st == LUO_OK; k++)
        luo_region_each_box(&holdings.at[k].region, take_box, &t);
    if (t.st != LUO_OK) return t.st;
    *out = t.now.at;
    *n = t.now.n;
    return LUO_OK;
}

luo_status luo_owned_segments(luo_arena *arena, const luo_ann *ann, const luo_shape *shape,
                              int32_t device, const luo_frame *frame, luo_copy_segments *out,
                              luo_err *err)
{
    const luo_region *box;
    int32_t n;
    luo_copy_segment_list list = {0};
    LUO_TRY(luo_owned_boxes(arena, ann, shape, device, &box, &n, err));
    for (int32_t k = 0; k < n; k++) LUO_TRY(luo_segments_add(arena, &list, frame, 0, &box[k], err));
    *out = luo_segments_of(&list);
    return LUO_OK;
}
