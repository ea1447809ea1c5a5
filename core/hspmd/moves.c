/* moves.c: lists of moves: building, sealing, text (docs/annotations.md#operations). */
#include "core/hspmd/moves.h"
#include "core/base/vec.h"

#include <string.h>

static luo_status push(luo_arena *arena, luo_moves *m, luo_move x, luo_err *err)
{
    if (!LUO_VEC_ROOM_IN(arena, m->at, m->n, m->cap)) return luo_err_nomem(err);
    m->at[m->n++] = x;
    return LUO_OK;
}

static luo_status point(luo_arena *arena, luo_moves *m, luo_move_kind kind, int32_t step,
                        int32_t a, int32_t b, const luo_region *r, luo_err *err)
{
    int32_t *dev = luo_arena_alloc(arena, 2 * sizeof *dev);
    if (!dev) return luo_err_nomem(err);
    dev[0] = a;
    dev[1] = b;
    return push(arena, m,
                (luo_move){.kind = kind, .step = step, .ndev = kind == LUO_MOVE_SEND ? 2 : 1,
                           .dev = dev, .nregion = 1, .region = r},
                err);
}

luo_status luo_moves_copy(luo_arena *arena, luo_moves *m, int32_t step, int32_t dev,
                          const luo_region *r, luo_err *err)
{
    return r->empty ? LUO_OK : point(arena, m, LUO_MOVE_COPY, step, dev, dev, r, err);
}

luo_status luo_moves_send(luo_arena *arena, luo_moves *m, int32_t step, int32_t from, int32_t to,
                          const luo_region *r, luo_err *err)
{
    return point(arena, m, LUO_MOVE_SEND, step, from, to, r, err);
}

static bool uneven(const luo_region *part, int32_t n)
{
    for (int32_t i = 1; i < n; i++)
        if (luo_region_volume(&part[i]) != luo_region_volume(&part[0])) return true;
    return false;
}

luo_status luo_moves_group(luo_arena *arena, luo_moves *m, luo_move_kind kind, int32_t step,
                           int32_t dim, const int32_t *dev, int32_t n, const luo_region *part,
                           luo_err *err)
{
    const int32_t parts = kind == LUO_MOVE_AR ? 1 : n;
    return push(arena, m,
                (luo_move){.kind = kind, .step = step, .dim = dim, .v = uneven(part, parts),
                           .ndev = n, .dev = dev, .nregion = parts, .region = part},
                err);
}

luo_status luo_moves_lost(luo_arena *arena, luo_moves *m, int32_t dev, const luo_region *r,
                          luo_err *err)
{
    if (!LUO_VEC_ROOM_IN(arena, m->lost, m->nlost, m->cap_lost)) return luo_err_nomem(err);
    m->lost[m->nlost++] = (luo_lost){*r, dev, 0};
    return LUO_OK;
}

luo_status luo_region_keep(luo_arena *arena, const luo_region *r, luo_region *out, luo_err *err)
{
    luo_region copy = {.rank = r->rank, .empty = r->empty};
    size_t n = 0;
    for (int32_t d = 0; d < r->rank && !r->empty; d++) n += (size_t)r->dim[d].n;
    luo_span *at = luo_arena_alloc(arena, n * sizeof *at);
    if (!at) return luo_err_nomem(err);
    for (int32_t d = 0; d < r->rank && !r->empty; d++) {
        memcpy(at, r->dim[d].at, (size_t)r->dim[d].n * sizeof *at);
        copy.dim[d].n = r->dim[d].n;
        copy.dim[d].at = at;
        at += r->dim[d].n;
    }
    *out = copy;
    return LUO_OK;
}

static luo_status keep_parts(luo_arena *arena, luo_move *m, luo_err *err)
{
    luo_region *part = luo_arena_alloc(arena, (size_t)m->nregion * sizeof *part);
    if (!part) return luo_err_nomem(err);
    for (int32_t j = 0; j < m->nregion; j++)
        LUO_TRY(luo_region_keep(arena, &m->region[j], &part[j], err));
    m->region = part;
    return LUO_OK;
}

luo_status luo_moves_seal(luo_arena *arena, const luo_moves *m, luo_moves *out, luo_err *err)
{
    luo_moves s = {.n = m->n, .cap = m->n, .nlost = m->nlost, .cap_lost = m->nlost};
    int64_t devices = 0;
    for (int32_t i = 0; i < m->n; i++) devices += m->at[i].ndev;
    s.at = luo_arena_alloc(arena, (size_t)m->n * sizeof *s.at);
    s.lost = luo_arena_alloc(arena, (size_t)m->nlost * sizeof *s.lost);
    int32_t *dev = luo_arena_alloc(arena, (size_t)devices * sizeof *dev);
    if (!s.at || !s.lost || !dev) return luo_err_nomem(err);
    for (int32_t i = 0; i < m->n; i++) {
        luo_move *x = &s.at[i];
        *x = m->at[i];
        x->dev = memcpy(dev, x->dev, (size_t)x->ndev * sizeof *dev);
        dev += x->ndev;
        if (i && m->at[i].region == m->at[i - 1].region && x->nregion == s.at[i - 1].nregion)
            x->region = s.at[i - 1].region;
        else LUO_TRY(keep_parts(arena, x, err));
    }
    for (int32_t i = 0; i < m->nlost; i++) {
        s.lost[i] = m->lost[i];
        LUO_TRY(luo_region_keep(arena, &m->lost[i].region, &s.lost[i].region, err));
    }
    *out = s;
    return LUO_OK;
}

static void print_devices(luo_str *s, const luo_move *m)
{
    if (m->kind == LUO_MOVE_SEND || m->ndev == 1) {
        luo_str_addi(s, m->dev[0]);
        if (m->kind != LUO_MOVE_SEND) return;
        luo_str_add(s, "->");
        luo_str_addi(s, m->dev[1]);
        return;
    }
    for (int32_t i = 0; i < m->ndev; i++) {
        luo_str_addc(s, i ? ',' : '(');
        luo_str_addi(s, m->dev[i]);
    }
    luo_str_addc(s, ')');
}

void luo_move_print(luo_str *s, const luo_move *m)
{
    static const char *const word[] = {"copy", "send", "ar", "rs", "ag", "load"};
    luo_str_add(s, word[m->kind]);
    if (m->v) luo_str_addc(s, 'v');
    luo_str_addc(s, ' ');
    if (m->kind == LUO_MOVE_RS || m->kind == LUO_MOVE_AG) {
        luo_str_addc(s, 'd');
        luo_str_addi(s, m->dim);
        luo_str_addc(s, ' ');
    }
    print_devices(s, m);
    for (int32_t i = 0; i < m->nregion; i++) {
        luo_str_addc(s, ' ');
        luo_region_print(s, &m->region[i]);
    }
}

void luo_moves_class_bytes(const luo_planner *p, const luo_moves *m, int64_t elem_bytes,
                           int64_t out[LUO_LINK_CLASSES])
{
    for (int c = 0; c < LUO_LINK_CLASSES; c++) out[c] = 0;
    for (int32_t i = 0; i < m->n; i++)
        if (m->at[i].kind == LUO_MOVE_SEND)
            out[luo_planner_class(p, m->at[i].dev[0], m->at[i].dev[1])] +=
                elem_bytes * luo_region_volume(&m->at[i].region[0]);
}
