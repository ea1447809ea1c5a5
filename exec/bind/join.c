/* join.c: the parts of a bucket, tensor by tensor, become one route over the slab. */
#include "core/base/vec.h"
#include "exec/bind/layout.h"
#include "exec/bind/segments.h"

typedef struct joiner {
    luo_arena *arena;
    const luo_layout *layout;
    int64_t elem_bytes, scratch; /* scratch: where that of the part begins, in elements */
    luo_err *err;
} joiner;

/* Where the segments of a buffer, or of the scratch, count from in the slab. */
static int64_t base_of(const joiner *j, int32_t buffer)
{
    return buffer == LUO_ROUTE_SCRATCH ? j->scratch : j->layout->at[buffer] / j->elem_bytes;
}

/* What follows the last segment directly makes it longer. */
static luo_status append(const joiner *j, luo_copy_segment_list *to, int32_t buffer,
                         const luo_copy_segments *segments)
{
    for (int32_t i = 0; i < segments->n; i++) {
        const int64_t at = base_of(j, buffer) + segments->at[i].at;
        luo_copy_segment *last = to->n ? &to->at[to->n - 1] : NULL;
        to->elements += segments->at[i].n;
        if (last && last->at + last->n == at) {
            last->n += segments->at[i].n;
            continue;
        }
        if (!LUO_VEC_ROOM_IN(j->arena, to->at, to->n, to->cap)) return luo_err_nomem(j->err);
        to->at[to->n++] = (luo_copy_segment){at, segments->at[i].n};
    }
    return LUO_OK;
}

typedef struct copy_list {
    luo_copy_segment_list src, dst;
} copy_list;

static luo_status append_copy(const joiner *j, copy_list *to, const luo_route_copy *copy)
{
    if (copy->from == -1) return LUO_OK;
    LUO_TRY(append(j, &to->src, copy->from, &copy->src));
    return append(j, &to->dst, copy->to, &copy->dst);
}

static luo_route_copy copy_of(const copy_list *list)
{
    if (list->src.elements == 0) return (luo_route_copy){.from = -1, .to = -1};
    return (luo_route_copy){LUO_ROUTE_SLAB, LUO_ROUTE_SLAB, luo_segments_of(&list->src),
                            luo_segments_of(&list->dst)};
}

static luo_status join_ends(const joiner *j, const luo_route *route, int32_t rank,
                            luo_copy_segments *send, luo_copy_segments *recv, int64_t scratch)
{
    joiner at = *j;
    luo_copy_segment_list from = {0}, to = {0};
    at.scratch = scratch;
    for (int32_t k = 0; k < route->nparts; k++) {
        const luo_route *p = &route->part[k];
        LUO_TRY(append(&at, &from, p->in, &p->send[rank]));
        LUO_TRY(append(&at, &to, p->out, &p->recv[rank]));
        at.scratch += p->scratch_elements;
    }
    *send = luo_segments_of(&from);
    *recv = luo_segments_of(&to);
    return LUO_OK;
}

luo_status luo_layout_join(luo_arena *arena, const luo_layout *layout, int32_t instr,
                           int64_t elem_bytes, luo_route *route, luo_err *err)
{
    luo_copy_segments *send = LUO_NEW_N(arena, luo_copy_segments, route->n);
    luo_copy_segments *recv = LUO_NEW_N(arena, luo_copy_segments, route->n);
    if (!send || !recv) return luo_err_nomem(err);
    const int64_t scratch = layout->scratch[instr] < 0 ? 0 : layout->scratch[instr] / elem_bytes;
    joiner j = {arena, layout, elem_bytes, scratch, err};
    copy_list enter = {0}, leave = {0};
    for (int32_t k = 0; k < route->nparts; k++) {
        LUO_TRY(append_copy(&j, &enter, &route->part[k].enter));
        LUO_TRY(append_copy(&j, &leave, &route->part[k].leave));
        j.scratch += route->part[k].scratch_elements;
    }
    int64_t reads = 0, writes = 0;
    for (int32_t r = 0; r < route->n; r++) {
        LUO_TRY(join_ends(&j, route, r, &send[r], &recv[r], scratch));
        reads += send[r].elements;
        writes += recv[r].elements;
    }
    route->in = reads ? LUO_ROUTE_SLAB : -1;
    route->out = writes ? LUO_ROUTE_SLAB : -1;
    route->enter = copy_of(&enter);
    route->leave = copy_of(&leave);
    route->send = send;
    route->recv = recv;
    return LUO_OK;
}
