/* frame.c: cells of a region as neighbouring elements of a buffer. */
#include <string.h>

#include "core/base/vec.h"
#include "exec/bind/segments.h"

luo_status luo_frame_of(luo_arena *arena, const luo_buffer *buffer, int32_t device, luo_frame *out,
                        luo_err *err)
{
    luo_frame frame = {{.rank = buffer->shape.rank, .empty = true}, 0};
    for (int32_t u = 0; u < buffer->ann->u; u++)
        for (int32_t i = 0; i < buffer->ann->grp[u].ndev; i++) {
            if (buffer->ann->grp[u].dev[i] != device) continue;
            LUO_TRY(luo_region_of(arena, buffer->ann, &buffer->shape, u, i, &frame.region, err));
            frame.volume = luo_region_volume(&frame.region);
        }
    *out = frame;
    return LUO_OK;
}

/* ---- segments ---- */

typedef struct axis { /* one dimension of a part, as positions in the frame's dimension */
    int32_t n;
    luo_span *at;
    int64_t extent, stride; /* of the frame: length, elements from one position to the next */
} axis;

/* Positions of the part's spans among the cells of the frame's: gaps of the frame close. */
static luo_status place_axis(luo_arena *arena, const luo_frame *frame, const luo_region *part,
                             int32_t d, axis *out, luo_err *err)
{
    axis a = {.at = LUO_NEW_N(arena, luo_span, part->dim[d].n)};
    if (!a.at) return luo_err_nomem(err);
    int32_t k = 0;
    for (int32_t i = 0; i < frame->region.dim[d].n; i++) {
        const luo_span s = frame->region.dim[d].at[i];
        for (; k < part->dim[d].n && part->dim[d].at[k].hi <= s.hi; k++) {
            const luo_span p = part->dim[d].at[k];
            const luo_span q = {a.extent + p.lo - s.lo, a.extent + p.hi - s.lo};
            if (a.n && a.at[a.n - 1].hi == q.lo)
                a.at[a.n - 1].hi = q.hi;
            else
                a.at[a.n++] = q;
        }
        a.extent += s.hi - s.lo;
    }
    *out = a;
    return LUO_OK;
}

static luo_status append(luo_arena *arena, luo_copy_segment_list *list, int64_t at, int64_t n,
                         luo_err *err)
{
    list->elements += n;
    if (list->n && list->at[list->n - 1].at + list->at[list->n - 1].n == at) {
        list->at[list->n - 1].n += n;
        return LUO_OK;
    }
    if (!LUO_VEC_ROOM_IN(arena, list->at, list->n, list->cap)) return luo_err_nomem(err);
    list->at[list->n++] = (luo_copy_segment){at, n};
    return LUO_OK;
}

/* Last dimension whose spans make segments: all behind it are whole. -1: the frame is. */
static int32_t cut_dim(const axis *x, int32_t rank)
{
    int32_t d = rank - 1;
    while (d >= 0 && x[d].n == 1 && x[d].at[0].lo == 0 && x[d].at[0].hi == x[d].extent) d--;
    return d;
}

/* Counts through the positions of dimensions 0..n-1, the last one fastest; false: at the end. */
static bool next_row(const axis *x, int32_t n, int32_t *span, int64_t *pos)
{
    for (int32_t d = n; d-- > 0;) {
        if (++pos[d] < x[d].at[span[d]].hi) return true;
        if (++span[d] == x[d].n) span[d] = 0;
        pos[d] = x[d].at[span[d]].lo;
        if (span[d] > 0) return true;
    }
    return false;
}

static luo_status add_rows(luo_arena *arena, luo_copy_segment_list *list, const axis *x,
                           int32_t rank, int64_t base, int64_t volume, luo_err *err)
{
    const int32_t cut = cut_dim(x, rank);
    if (cut < 0) return append(arena, list, base, volume, err);
    int32_t span[LUO_RANK_MAX] = {0};
    int64_t pos[LUO_RANK_MAX] = {0};
    for (int32_t d = 0; d < cut; d++) pos[d] = x[d].at[0].lo;
    do {
        int64_t row = base;
        for (int32_t d = 0; d < cut; d++) row += pos[d] * x[d].stride;
        for (int32_t k = 0; k < x[cut].n; k++) {
            const luo_span s = x[cut].at[k];
            LUO_TRY(append(arena, list, row + s.lo * x[cut].stride, (s.hi - s.lo) * x[cut].stride,
                           err));
        }
    } while (next_row(x, cut, span, pos));
    return LUO_OK;
}

luo_status luo_segments_add(luo_arena *arena, luo_copy_segment_list *list, const luo_frame *frame,
                            int64_t base, const luo_region *part, luo_err *err)
{
    axis x[LUO_RANK_MAX];
    if (part->rank != frame->region.rank || !luo_region_contains(&frame->region, part))
        return luo_err_set(err, LUO_EBUG,
                           "cells are moved that do not lie in the buffer; compile the program "
                           "again.");
    if (part->empty) return LUO_OK;
    int64_t stride = 1;
    for (int32_t d = part->rank; d-- > 0;) {
        LUO_TRY(place_axis(arena, frame, part, d, &x[d], err));
        x[d].stride = stride;
        stride *= x[d].extent;
    }
    return add_rows(arena, list, x, part->rank, base, frame->volume, err);
}

luo_status luo_frame_segments(luo_arena *arena, const luo_frame *frame, const luo_region *part,
                              luo_copy_segments *out, luo_err *err)
{
    luo_copy_segment_list list = {0};
    LUO_TRY(luo_segments_add(arena, &list, frame, 0, part, err));
    *out = luo_segments_of(&list);
    return LUO_OK;
}
