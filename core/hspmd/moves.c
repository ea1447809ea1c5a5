/* moves.c: lists of moves: building, sealing, text (docs/annotations.md#operations). */
#include "core/hspmd/moves.h"
#include "core/base/vec.h"

#include <string.h>

static luo_status push_move(luo_arena *arena, luo_moves *moves, luo_move move, luo_err *err)
{
    if (!LUO_VEC_ROOM_IN(arena, moves->at, moves->n, moves->cap)) return luo_err_nomem(err);
    moves->at[moves->n++] = move;
    return LUO_OK;
}

static luo_status point(luo_arena *arena, luo_moves *moves, luo_move_kind kind, int32_t step,
                        int32_t a, int32_t b, const luo_region *region, luo_err *err)
{
    int32_t *dev = luo_arena_alloc(arena, 2 * sizeof *dev);
    if (!dev) return luo_err_nomem(err);
    dev[0] = a;
    dev[1] = b;
    return push_move(arena, moves,
                     (luo_move){.kind = kind,
                                .step = step,
                                .ndev = kind == LUO_MOVE_SEND ? 2 : 1,
                                .dev = dev,
                                .nregion = 1,
                                .region = region},
                     err);
}

luo_status luo_moves_copy(luo_arena *arena, luo_moves *moves, int32_t step, int32_t dev,
                          const luo_region *region, luo_err *err)
{
    return region->empty ? LUO_OK : point(arena, moves, LUO_MOVE_COPY, step, dev, dev, region, err);
}

luo_status luo_moves_send(luo_arena *arena, luo_moves *moves, int32_t step, int32_t from,
                          int32_t to, const luo_region *region, luo_err *err)
{
    return point(arena, moves, LUO_MOVE_SEND, step, from, to, region, err);
}

static bool uneven(const luo_region *part, int32_t n)
{
    for (int32_t i = 1; i < n; i++)
        if (luo_region_volume(&part[i]) != luo_region_volume(&part[0])) return true;
    return false;
}

luo_status luo_moves_group(luo_arena *arena, luo_moves *moves, luo_move_kind kind, int32_t step,
                           int32_t dim, const int32_t *dev, int32_t n, const luo_region *part,
                           luo_err *err)
{
    const int32_t parts = kind == LUO_MOVE_AR ? 1 : n;
    return push_move(arena, moves,
                     (luo_move){.kind = kind,
                                .step = step,
                                .dim = dim,
                                .v = uneven(part, parts),
                                .ndev = n,
                                .dev = dev,
                                .nregion = parts,
                                .region = part},
                     err);
}

luo_status luo_moves_lost(luo_arena *arena, luo_moves *moves, int32_t dev, const luo_region *region,
                          luo_err *err)
{
    if (!LUO_VEC_ROOM_IN(arena, moves->lost, moves->nlost, moves->cap_lost))
        return luo_err_nomem(err);
    moves->lost[moves->nlost++] = (luo_lost){*region, dev, 0};
    return LUO_OK;
}

luo_status luo_moves_keep_region(luo_arena *arena, const luo_region *region, luo_region *out,
                                 luo_err *err)
{
    luo_region copy = {.rank = region->rank, .empty = region->empty};
    size_t n = 0;
    for (int32_t d = 0; d < region->rank && !region->empty; d++) n += (size_t)region->dim[d].n;
    luo_span *at = luo_arena_alloc(arena, n * sizeof *at);
    if (!at) return luo_err_nomem(err);
    for (int32_t d = 0; d < region->rank && !region->empty; d++) {
        memcpy(at, region->dim[d].at, (size_t)region->dim[d].n * sizeof *at);
        copy.dim[d].n = region->dim[d].n;
        copy.dim[d].at = at;
        at += region->dim[d].n;
    }
    *out = copy;
    return LUO_OK;
}

static luo_status keep_parts(luo_arena *arena, luo_move *move, luo_err *err)
{
    luo_region *part = luo_arena_alloc(arena, (size_t)move->nregion * sizeof *part);
    if (!part) return luo_err_nomem(err);
    for (int32_t j = 0; j < move->nregion; j++)
        LUO_TRY(luo_moves_keep_region(arena, &move->region[j], &part[j], err));
    move->region = part;
    return LUO_OK;
}

luo_status luo_moves_seal(luo_arena *arena, const luo_moves *m, luo_moves *out, luo_err *err)
{
    luo_moves moves = {.n = m->n, .cap = m->n, .nlost = m->nlost, .cap_lost = m->nlost};
    int64_t devices = 0;
    for (int32_t i = 0; i < m->n; i++) devices += m->at[i].ndev;
    moves.at = luo_arena_alloc(arena, (size_t)m->n * sizeof *moves.at);
    moves.lost = luo_arena_alloc(arena, (size_t)m->nlost * sizeof *moves.lost);
    int32_t *dev = luo_arena_alloc(arena, (size_t)devices * sizeof *dev);
    if (!moves.at || !moves.lost || !dev) return luo_err_nomem(err);
    for (int32_t i = 0; i < m->n; i++) {
        luo_move *move = &moves.at[i];
        *move = m->at[i];
        move->dev = memcpy(dev, move->dev, (size_t)move->ndev * sizeof *dev);
        dev += move->ndev;
        if (i && m->at[i].region == m->at[i - 1].region && move->nregion == moves.at[i - 1].nregion)
            move->region = moves.at[i - 1].region;
        else
            LUO_TRY(keep_parts(arena, move, err));
    }
    for (int32_t i = 0; i < m->nlost; i++) {
        moves.lost[i] = m->lost[i];
        LUO_TRY(luo_moves_keep_region(arena, &m->lost[i].region, &moves.lost[i].region, err));
    }
    *out = moves;
    return LUO_OK;
}

static void print_devices(luo_str *text, const luo_move *move)
{
    if (move->kind == LUO_MOVE_SEND || move->ndev == 1) {
        luo_str_addi(text, move->dev[0]);
        if (move->kind != LUO_MOVE_SEND) return;
        luo_str_add(text, "->");
        luo_str_addi(text, move->dev[1]);
        return;
    }
    for (int32_t i = 0; i < move->ndev; i++) {
        luo_str_addc(text, i ? ',' : '(');
        luo_str_addi(text, move->dev[i]);
    }
    luo_str_addc(text, ')');
}

void luo_move_print(luo_str *text, const luo_move *move)
{
    static const char *const word[] = {"copy", "send", "ar", "rs", "ag", "load", "a2a"};
    luo_str_add(text, word[move->kind]);
    if (move->v) luo_str_addc(text, 'v');
    luo_str_addc(text, ' ');
    if (move->kind == LUO_MOVE_RS || move->kind == LUO_MOVE_AG) {
        luo_str_addc(text, 'd');
        luo_str_addi(text, move->dim);
        luo_str_addc(text, ' ');
    }
    print_devices(text, move);
    for (int32_t i = 0; i < move->nregion; i++) {
        luo_str_addc(text, ' ');
        luo_region_print(text, &move->region[i]);
    }
}

void luo_moves_class_bytes(const luo_planner *planner, const luo_moves *moves, int64_t elem_bytes,
                           int64_t out[LUO_LINK_CLASSES])
{
    for (int c = 0; c < LUO_LINK_CLASSES; c++) out[c] = 0;
    for (int32_t i = 0; i < moves->n; i++)
        if (moves->at[i].kind == LUO_MOVE_SEND)
            out[luo_planner_class(planner, moves->at[i].dev[0], moves->at[i].dev[1])] +=
                elem_bytes * luo_region_volume(&moves->at[i].region[0]);
}
