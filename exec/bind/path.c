/* path.c: where cells lie between the steps of a Reshard.
 *
 * A step may read and write one buffer only if no instruction of it overwrites what a later one
 * reads: a device that sums the same cells with several partners, one collective after the other,
 * must give its own summand to each of them. And what a step makes may fit neither end: a sum that
 * is scattered afterwards. Then the cells lie in the scratch for that time. */
#include "exec/bind/path.h"

#include <string.h>

int32_t luo_path_move_rank(const luo_move *move, int32_t device)
{
    for (int32_t k = 0; k < move->ndev; k++)
        if (move->dev[k] == device) return k;
    return -1;
}

const luo_region *luo_path_move_cells(const luo_move *move, int32_t device, bool written,
                                      int32_t *n)
{
    const int32_t rank = luo_path_move_rank(move, device);
    *n = 1;
    switch (move->kind) {
    case LUO_MOVE_SEND:
        *n = rank == written;
        return move->region;
    case LUO_MOVE_RS:
        if (written) return &move->region[rank];
        *n = move->nregion;
        return move->region;
    case LUO_MOVE_AG:
        if (!written) return &move->region[rank];
        *n = move->nregion;
        return move->region;
    case LUO_MOVE_COPY:
    case LUO_MOVE_AR:
    case LUO_MOVE_A2A:
    case LUO_MOVE_LOAD:
        break;
    }
    return move->region;
}

/* ---- what a step reads and writes ---- */

static bool overwrites(const luo_move *first, const luo_move *then, int32_t device)
{
    int32_t nw, nr;
    const luo_region *region = luo_path_move_cells(first, device, true, &nw);
    const luo_region *r = luo_path_move_cells(then, device, false, &nr);
    for (int32_t i = 0; i < nw; i++)
        for (int32_t j = 0; j < nr; j++)
            if (luo_region_overlap(&region[i], &r[j])) return true;
    return false;
}

/* Turn of a move among the instructions of its hop. */
static int32_t turn_of(const luo_hop *hop, int32_t k)
{
    const luo_move_kind kind = hop->move[k]->kind;
    if (kind == LUO_MOVE_SEND) return hop->nmove;
    return kind == LUO_MOVE_COPY ? hop->nmove + 1 : k;
}

/* Some instruction of the hop would overwrite what a later one reads, were both ends one buffer. */
static bool must_part(const luo_path *path, const luo_hop *hop)
{
    for (int32_t i = 0; i < hop->nmove && hop->n > 1; i++)
        for (int32_t j = 0; j < hop->nmove; j++) {
            if (hop->move[j]->kind == LUO_MOVE_COPY && !hop->local) continue;
            if (turn_of(hop, i) < turn_of(hop, j) &&
                overwrites(hop->move[i], hop->move[j], path->device))
                return true;
        }
    return false;
}

/* Everything that the moves put there, or take, lies in the frame. */
static bool lies_inside(const luo_path *path, const luo_move *const *move, int32_t n, bool written,
                        const luo_frame *frame)
{
    for (int32_t k = 0; k < n; k++) {
        int32_t parts;
        const luo_region *region = luo_path_move_cells(move[k], path->device, written, &parts);
        for (int32_t i = 0; i < parts; i++)
            if (!luo_region_contains(&frame->region, &region[i])) return false;
    }
    return true;
}

static luo_status does_not_fit(const luo_path *path, const char *what, const char *name,
                               luo_err *err)
{
    return luo_err_set(
        err, LUO_EINPUT,
        "device %d: cells that reshard `%s` %s lie outside of their buffer; annotate "
        "its result and its operand so that one holds the other.",
        (int)path->device, name, what);
}

/* ---- scratch ---- */

static luo_status join(luo_arena *arena, const luo_span *a, int32_t na, const luo_span *b,
                       int32_t nb, luo_region *out, int32_t d, luo_err *err)
{
    luo_span *at = LUO_NEW_N(arena, luo_span, na + nb);
    if (!at) return luo_err_nomem(err);
    int32_t n = 0;
    for (int32_t i = 0, j = 0; i < na || j < nb;) {
        const luo_span s = j == nb || (i < na && a[i].lo <= b[j].lo) ? a[i++] : b[j++];
        if (!n || at[n - 1].hi < s.lo)
            at[n++] = s;
        else if (at[n - 1].hi < s.hi)
            at[n - 1].hi = s.hi;
    }
    out->dim[d].n = n;
    out->dim[d].at = at;
    return LUO_OK;
}

/* The smallest region with region in it, besides what is in hull already. */
static luo_status widen(luo_arena *arena, luo_region *hull, const luo_region *region, luo_err *err)
{
    if (region->empty || luo_region_contains(hull, region)) return LUO_OK;
    if (hull->empty) {
        *hull = *region;
        return LUO_OK;
    }
    for (int32_t d = 0; d < region->rank; d++)
        LUO_TRY(join(arena, hull->dim[d].at, hull->dim[d].n, region->dim[d].at, region->dim[d].n,
                     hull, d, err));
    return LUO_OK;
}

/* A part of the scratch for what hop l writes, or reads. */
static luo_status reserve(luo_arena *arena, luo_path *path, const luo_hop *hop, bool written,
                          luo_place *out, luo_err *err)
{
    luo_region hull = {.rank = hop->move[0]->region->rank, .empty = true};
    for (int32_t k = 0; k < hop->nmove; k++) {
        int32_t n;
        const luo_region *region = luo_path_move_cells(hop->move[k], path->device, written, &n);
        for (int32_t i = 0; i < n; i++) LUO_TRY(widen(arena, &hull, &region[i], err));
    }
    const int64_t volume = luo_region_volume(&hull);
    *out = (luo_place){LUO_ROUTE_SCRATCH, {hull, volume}, path->scratch_elements};
    path->scratch_elements += volume;
    return LUO_OK;
}

/* Copies of a list of moves, from place to place. all: everything they read, not copies alone. */
static luo_status copy_cells(luo_arena *arena, const luo_path *path, const luo_move *const *move,
                             int32_t n, bool all, const luo_place *from, const luo_place *to,
                             luo_route_copy *out, luo_err *err)
{
    luo_copy_segment_list src = {0}, dst = {0};
    const luo_region *last = NULL; /* partners of one sum follow each other */
    for (int32_t k = 0; k < n; k++) {
        int32_t parts;
        const luo_region *region = luo_path_move_cells(move[k], path->device, false, &parts);
        if (move[k]->kind != LUO_MOVE_COPY && !all) continue;
        for (int32_t i = 0; i < parts; last = &region[i++]) {
            if (last && luo_region_equal(last, &region[i])) continue;
            LUO_TRY(luo_segments_add(arena, &src, &from->frame, from->base, &region[i], err));
            LUO_TRY(luo_segments_add(arena, &dst, &to->frame, to->base, &region[i], err));
        }
    }
    *out = (luo_route_copy){from->buffer, to->buffer, luo_segments_of(&src), luo_segments_of(&dst)};
    if (src.elements == 0) *out = (luo_route_copy){.from = -1, .to = -1};
    return LUO_OK;
}

/* ---- the way ---- */

static bool same_memory(const luo_place *a, const luo_place *b)
{
    return a->buffer == b->buffer && a->base == b->base;
}

/* Where the last hop leaves its cells: in the result, or in the scratch if more than the result
 * is made. */
static luo_status choose_end(luo_arena *arena, luo_path *path, const char *name, luo_err *err)
{
    luo_hop *hop = &path->hop[path->nhop - 1];
    hop->to = path->out;
    if (lies_inside(path, hop->move, hop->nmove, true, &path->out.frame)) return LUO_OK;
    if (!path->ends_early || !lies_inside(path, path->kept, path->nkept, true, &path->out.frame))
        return does_not_fit(path, "makes", name, err);
    LUO_TRY(reserve(arena, path, hop, true, &hop->to, err));
    return copy_cells(arena, path, path->kept, path->nkept, false, &hop->to, &path->out,
                      &path->leave, err);
}

static luo_status choose_between(luo_arena *arena, luo_path *path, luo_err *err)
{
    for (int32_t j = path->nhop - 2; j >= 0; j--) {
        luo_hop *hop = &path->hop[j], *next = hop + 1;
        hop->to = path->out;
        const bool apart = same_memory(&next->to, &path->out) && must_part(path, next);
        if (apart || path->out.buffer < 0 ||
            !lies_inside(path, hop->move, hop->nmove, true, &path->out.frame))
            LUO_TRY(reserve(arena, path, hop, true, &hop->to, err));
        next->from = hop->to;
    }
    return LUO_OK;
}

/* Copies without an instruction stay where they are, unless the step changes the place. */
static luo_status choose_enter(luo_arena *arena, luo_path *path, luo_hop *hop, luo_err *err)
{
    hop->enter = (luo_route_copy){.from = -1, .to = -1};
    if (!same_memory(&hop->from, &hop->to)) {
        if (hop->local) return LUO_OK;
        return copy_cells(arena, path, hop->move, hop->nmove, false, &hop->from, &hop->to,
                          &hop->enter, err);
    }
    if (hop->from.buffer < 0 || !must_part(path, hop)) return LUO_OK;
    const luo_place was = hop->from;
    LUO_TRY(reserve(arena, path, hop, false, &hop->from, err));
    return copy_cells(arena, path, hop->move, hop->nmove, true, &was, &hop->from, &hop->enter, err);
}

luo_status luo_path_plan(luo_arena *arena, luo_path *path, const char *name, luo_err *err)
{
    path->leave = (luo_route_copy){.from = -1, .to = -1};
    path->scratch_elements = 0;
    const luo_hop *hop = &path->hop[0];
    if (!lies_inside(path, hop->move, hop->nmove, false, &hop->from.frame))
        return does_not_fit(path, "reads", name, err);
    LUO_TRY(choose_end(arena, path, name, err));
    LUO_TRY(choose_between(arena, path, err));
    for (int32_t j = 0; j < path->nhop; j++) LUO_TRY(choose_enter(arena, path, &path->hop[j], err));
    return LUO_OK;
}
