/* spec_experts.c: what the devices of experts exchange: rows on their way to the experts and back,
 * and how many they are. Every device sends each other one its part, so it is one collective; the
 * algebra knows regions only, and would make a message of every pair. The regions are those of rows
 * dealt evenly: how many there are is known when the step runs. */
#include <string.h>

#include "core/graph/specialize/spec_internal.h"
#include "core/hspmd/moves.h"

typedef struct trade { /* between tokens and experts */
    spec *s;
    const spec_move *m;
    const luo_ann *home, *there;
    int32_t dim;       /* of the experts */
    luo_holdings rows; /* of home */
    luo_moves moves;
} trade;

bool luo_spec_is_trade(const luo_op *op)
{
    return op->kind == LUO_OP_RESHARD && op->nin > 1;
}

/* Is dimension d cut inside a member? */
static bool cuts(const luo_ann *ann, int32_t d)
{
    for (int32_t u = 0; u < ann->u; u++)
        if (luo_grp_count(&ann->grp[u], d) > 1) return true;
    return false;
}

static const luo_region *region_of(const trade *t, int32_t dev)
{
    for (int32_t i = 0; i < t->rows.n; i++)
        if (t->rows.at[i].dev == dev) return &t->rows.at[i].region;
    return NULL;
}

static luo_status wrong(const trade *t, int32_t u)
{
    return luo_err_set(t->s->err, LUO_EDEDUCE,
                       "reshard `%s`: devices of tokens and of experts differ in member %d; deal "
                       "experts to the devices of their tokens.",
                       t->m->name, (int)u);
}

/* Devices lo..lo+n-1 of a member have all experts together. */
static luo_status trade_block(trade *t, int32_t u, int32_t lo, int32_t n)
{
    luo_region *part = LUO_NEW_N(t->s->scratch, luo_region, n);
    const luo_grp *there = &t->there->grp[u];
    if (!part) return luo_err_nomem(t->s->err);
    for (int32_t i = 0; i < n; i++) {
        const luo_region *region = region_of(t, there->dev[lo + i]);
        if (!region) return wrong(t, u);
        part[i] = *region;
    }
    return luo_moves_group(t->s->scratch, &t->moves, LUO_MOVE_A2A, 0, t->dim, there->dev + lo, n,
                           part, t->s->err);
}

static luo_status trade_members(trade *t)
{
    for (int32_t u = 0; u < t->there->u; u++) {
        const int32_t n = luo_grp_count(&t->there->grp[u], t->dim);
        const int32_t ndev = t->there->grp[u].ndev;
        if (ndev % n || luo_ann_ndev(t->home) != luo_ann_ndev(t->there)) return wrong(t, u);
        for (int32_t lo = 0; lo < ndev && n > 1; lo += n) LUO_TRY(trade_block(t, u, lo, n));
    }
    return LUO_OK;
}

luo_status luo_spec_resolve_trade(spec *s, const spec_move *m, luo_resolution *out)
{
    const luo_ann *src = luo_annset_get(s->g->set, m->src);
    const luo_ann *dst = luo_annset_get(s->g->set, m->dst);
    trade t = {.s = s, .m = m, .home = src, .there = dst, .dim = m->shape.rank == 2 ? 1 : 0};
    if (cuts(src, t.dim)) t.home = dst, t.there = src;
    LUO_TRY(luo_holdings_make(s->scratch, t.home, &m->shape, &t.rows, s->err));
    LUO_TRY(trade_members(&t));
    *out = (luo_resolution){.kind = LUO_RESOLVE_BOTTOM, .text = "all to all", .nsteps = 1};
    return luo_moves_seal(s->arena, &t.moves, &out->moves, s->err);
}
