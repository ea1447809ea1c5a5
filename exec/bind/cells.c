#include "exec/bind/cells.h"

typedef struct walk {
    const luo_shape *shape;
    const luo_region *frame;
    luo_cells_fn fn;
    void *ctx;
    int64_t extent[LUO_RANK_MAX]; /* of the frame */
} walk;

/* Where x of dimension d lies in the frame's own numbering. */
static int64_t place(const luo_region *frame, int32_t d, int64_t x)
{
    int64_t before = 0;
    for (int32_t k = 0; k < frame->dim[d].n; k++) {
        const luo_span *span = &frame->dim[d].at[k];
        if (x < span->hi) return before + x - span->lo;
        before += span->hi - span->lo;
    }
    return before;
}

/* A box lies in one span of the frame in every dimension: spans of a normal region do not touch. */
static void walk_box(void *ctx, const int64_t *lo, const int64_t *hi)
{
    const walk *w = ctx;
    const int32_t rank = w->shape->rank;
    int64_t x[LUO_RANK_MAX] = {0}, first[LUO_RANK_MAX];
    if (rank == 0) {
        w->fn(w->ctx, 0, 0, 1);
        return;
    }
    for (int32_t d = 0; d < rank; d++) {
        if (lo[d] >= hi[d]) return;
        first[d] = place(w->frame, d, lo[d]);
    }
    for (bool more = true; more;) {
        int64_t global = 0, local = 0;
        for (int32_t d = 0; d < rank; d++) {
            global = global * w->shape->dim[d] + lo[d] + x[d];
            local = local * w->extent[d] + first[d] + x[d];
        }
        w->fn(w->ctx, global, local, hi[rank - 1] - lo[rank - 1]);
        more = false;
        for (int32_t d = rank - 1; d-- > 0 && !more;) {
            more = ++x[d] < hi[d] - lo[d];
            if (!more) x[d] = 0;
        }
    }
}

static walk start(const luo_shape *shape, const luo_region *frame, luo_cells_fn fn, void *ctx)
{
    walk w = {shape, frame, fn, ctx, {0}};
    for (int32_t d = 0; d < shape->rank; d++)
        for (int32_t k = 0; k < frame->dim[d].n; k++)
            w.extent[d] += frame->dim[d].at[k].hi - frame->dim[d].at[k].lo;
    return w;
}

void luo_cells_box(const luo_shape *shape, const luo_region *frame, const int64_t *lo,
                   const int64_t *hi, luo_cells_fn fn, void *ctx)
{
    walk w = start(shape, frame, fn, ctx);
    walk_box(&w, lo, hi);
}

void luo_cells_each(const luo_shape *shape, const luo_region *frame, const luo_region *part,
                    luo_cells_fn fn, void *ctx)
{
    walk w = start(shape, frame, fn, ctx);
    luo_region_each_box(part ? part : frame, walk_box, &w);
}
