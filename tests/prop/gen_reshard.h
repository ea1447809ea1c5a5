/* gen_reshard.h: random annotations and Reshards in the ranges of docs/architecture/tests.md. */
#ifndef LUO_TESTS_PROP_GEN_RESHARD_H
#define LUO_TESTS_PROP_GEN_RESHARD_H
#include <assert.h>
#include <string.h>

#include "core/hspmd/resolve.h"
#include "tests/prop/gen_ann.h"

enum { LUO_GEN_DEVICES = 32, LUO_GEN_U = 4, LUO_GEN_GROUP = 8, LUO_GEN_DEAD = 2 };

/* An annotation that can still be changed. */
typedef struct luo_draft {
    int32_t u, h;
    bool inner;
    const uint32_t *hshare;
    luo_grp grp[LUO_GEN_U];
    luo_ent ent[LUO_GEN_U][LUO_ENTRIES_MAX];
    int32_t dev[LUO_GEN_U][LUO_GEN_GROUP];
} luo_draft;

typedef struct luo_pool { /* device ids in random order, dealt out from the front */
    int32_t dev[LUO_GEN_DEVICES], n, used;
} luo_pool;

typedef struct luo_reshard {
    luo_shape shape;
    const luo_ann *src, *dst;
    luo_node_racks where;
    int32_t dead[LUO_GEN_DEAD];
    luo_resolve_opts opts; /* points into this struct: do not copy it */
} luo_reshard;

static inline bool luo_gen_chance(luo_rng *r, double p)
{
    return luo_rng_u(r) < p;
}

static inline luo_pool luo_gen_pool(luo_rng *r)
{
    static const int32_t sizes[] = {8, 16, 24};
    luo_pool p = {.n = sizes[luo_gen_int(r, 0, 2)]};
    for (int32_t k = 0; k < LUO_GEN_DEVICES; k++) p.dev[k] = k;
    luo_gen_shuffle(r, p.dev, LUO_GEN_DEVICES);
    return p;
}

static inline luo_shape luo_gen_shape(luo_rng *r)
{
    static const int32_t side[] = {0, 24, 14, 8};
    luo_shape s = {.rank = luo_gen_int(r, 1, 3)};
    for (int32_t d = 0; d < s.rank; d++) s.dim[d] = luo_gen_int(r, 1, side[s.rank]);
    return s;
}

static inline void luo_gen_entries(luo_arena *arena, luo_rng *r, luo_draft *a, int32_t u,
                                   int32_t rank, int32_t lowest)
{
    const luo_grp g = luo_gen_group(arena, r, a->dev[u], a->grp[u].ndev, rank, lowest);
    memcpy(a->ent[u], g.ent, (size_t)g.nent * sizeof *g.ent);
    a->grp[u] = (luo_grp){.ndev = g.ndev, .dev = a->dev[u], .nent = g.nent, .ent = a->ent[u]};
}

static inline void luo_gen_top(luo_arena *arena, luo_rng *r, luo_draft *a, int32_t rank,
                               int32_t lowest)
{
    a->h = a->u > 1 ? luo_gen_int(r, lowest, rank - 1) : LUO_H_NONE;
    a->inner = a->h >= 0 && luo_gen_chance(r, 0.3);
    a->hshare = NULL;
    if (a->h >= 0 && !a->inner && luo_gen_chance(r, 0.2))
        a->hshare = luo_gen_shares(arena, r, a->u);
}

static inline luo_draft luo_gen_draft(luo_arena *arena, luo_rng *r, luo_pool *pool, int32_t rank,
                                      int32_t lowest)
{
    static const int32_t us[] = {1, 1, 2, 2, 3, 4}, sizes[] = {1, 2, 3, 4, 6, 8};
    luo_draft a = {.u = us[luo_gen_int(r, 0, 5)]};
    pool->used = 0;
    luo_gen_shuffle(r, pool->dev, pool->n);
    for (int32_t u = 0; u < a.u; u++) {
        const int32_t room = pool->n - pool->used - (a.u - u - 1);
        int32_t n = sizes[luo_gen_int(r, 0, 5)];
        while (n > room) n = sizes[luo_gen_int(r, 0, 5)];
        memcpy(a.dev[u], pool->dev + pool->used, (size_t)n * sizeof *a.dev[u]);
        pool->used += n;
        a.grp[u].ndev = n;
        luo_gen_entries(arena, r, &a, u, rank, lowest);
    }
    luo_gen_top(arena, r, &a, rank, lowest);
    return a;
}

static inline const luo_ann *luo_gen_seal(luo_arena *arena, luo_draft *d)
{
    luo_ann a = {d->u, d->h, d->inner, d->hshare, d->grp};
    for (int32_t u = 0; u < d->u; u++) {
        d->grp[u].dev = d->dev[u];
        d->grp[u].ent = d->ent[u];
    }
    const luo_ann *out = luo_ann_canonical(arena, &a);
    assert(luo_ann_check(out, NULL) == LUO_OK);
    return out;
}

static inline luo_ent *luo_gen_entry_of(luo_draft *a, int32_t u, int32_t key)
{
    for (int32_t e = 0; e < a->grp[u].nent; e++)
        if (a->ent[u][e].key == key) return &a->ent[u][e];
    return NULL;
}

/* key -> to in member u, where there is such a key and none named `to`. */
static inline void luo_gen_relabel(luo_draft *a, int32_t u, int32_t key, int32_t to)
{
    luo_ent *e = luo_gen_entry_of(a, u, key);
    if (!e || luo_gen_entry_of(a, u, to)) return;
    e->key = to;
    if (to < 0) e->share = NULL;
}

static inline void luo_gen_replace_half(luo_rng *r, luo_pool *pool, luo_draft *a)
{
    for (int32_t u = 0; u < a->u; u++)
        for (int32_t i = 0; i < a->grp[u].ndev; i++)
            if (luo_gen_chance(r, 0.5) && pool->used < LUO_GEN_DEVICES)
                a->dev[u][i] = pool->dev[pool->used++];
}

/* One of the changes that plans make, or another order of the devices. */
static inline void luo_gen_mutate(luo_arena *arena, luo_rng *r, luo_pool *pool, luo_draft *a,
                                  int32_t rank)
{
    const bool all = luo_gen_chance(r, 0.7); /* members alike, as plans have it */
    const int32_t from = luo_gen_int(r, LUO_PARTIAL, rank - 1);
    const int32_t to = luo_gen_int(r, LUO_PARTIAL, rank - 1), what = luo_gen_int(r, 0, 6);
    for (int32_t u = 0; u < a->u; u++) {
        if (!all && luo_gen_chance(r, 0.5)) continue;
        if (what == 0) luo_gen_relabel(a, u, from, to);
        if (what == 1) luo_gen_relabel(a, u, LUO_PARTIAL, LUO_DUP);
        if (what == 2) luo_gen_relabel(a, u, LUO_PARTIAL, luo_gen_int(r, 0, rank - 1));
        if (what == 3) luo_gen_entries(arena, r, a, u, rank, LUO_PARTIAL);
        if (what == 4) luo_gen_shuffle(r, a->dev[u], a->grp[u].ndev);
    }
    if (what == 1 && a->h == LUO_PARTIAL && luo_gen_chance(r, 0.5)) a->h = LUO_DUP;
    if (what == 5) luo_gen_replace_half(r, pool, a);
    if (what == 6) luo_gen_top(arena, r, a, rank, LUO_PARTIAL);
}

/* All members cut by one key alone: n of it in a member of n devices. */
static inline void luo_gen_uniform(luo_draft *a, int32_t key)
{
    for (int32_t u = 0; u < a->u; u++) {
        a->ent[u][0] = (luo_ent){.key = key, .n = a->grp[u].ndev};
        a->grp[u].nent = a->grp[u].ndev > 1;
    }
}

/* A synchronisation or a gather between members as plans have them: sums or cuts at the top,
 * each member cut by one key. */
static inline void luo_gen_tier(luo_rng *r, luo_draft *a, luo_draft *b, int32_t rank)
{
    const int32_t d = luo_gen_int(r, 0, rank - 1);
    const bool gather = luo_gen_chance(r, 0.5);
    luo_gen_uniform(a, luo_gen_int(r, LUO_PARTIAL, rank - 1));
    *b = *a;
    luo_gen_uniform(b, luo_gen_int(r, LUO_DUP, rank - 1));
    if (a->u == 1) return;
    a->h = gather ? d : LUO_PARTIAL;
    a->inner = gather && luo_gen_chance(r, 0.7);
    b->h = gather || luo_gen_chance(r, 0.3) ? LUO_DUP : d;
    b->inner = b->h >= 0 && luo_gen_chance(r, 0.7);
    a->hshare = b->hshare = NULL;
}

/* Up to two dead devices that dst does not use; ascending. */
static inline int32_t luo_gen_dead(luo_rng *r, const luo_ann *src, const luo_ann *dst,
                                   int32_t *dead)
{
    bool kept[LUO_GEN_DEVICES] = {false};
    int32_t n = 0;
    for (int32_t u = 0; u < dst->u; u++)
        for (int32_t i = 0; i < dst->grp[u].ndev; i++) kept[dst->grp[u].dev[i]] = true;
    for (int32_t u = 0; u < src->u; u++)
        for (int32_t i = 0; i < src->grp[u].ndev; i++)
            if (!kept[src->grp[u].dev[i]] && n < LUO_GEN_DEAD && luo_gen_chance(r, 0.4))
                dead[n++] = src->grp[u].dev[i];
    if (n == 2 && dead[0] > dead[1]) {
        const int32_t t = dead[0];
        dead[0] = dead[1];
        dead[1] = t;
    }
    return n;
}

static inline luo_planner_opts luo_gen_planner(luo_rng *r, luo_node_racks *where)
{
    luo_planner_opts p = {.sender = (luo_sender)luo_gen_int(r, 0, LUO_SENDER_EXACT),
                          .link_class = luo_node_racks_link_class,
                          .link_ctx = where};
    *where = (luo_node_racks){1 << luo_gen_int(r, 0, 3), luo_gen_chance(r, 0.5) ? 16 : 0};
    for (int c = 1; c < LUO_LINK_CLASSES; c++) {
        p.bytes_per_s[c] = luo_gen_int(r, 1, 100);
        p.latency_s[c] = luo_gen_int(r, 0, 3);
    }
    return p;
}

static inline void luo_gen_reshard(luo_arena *arena, luo_rng *r, luo_reshard *x)
{
    luo_pool pool = luo_gen_pool(r);
    x->shape = luo_gen_shape(r);
    const int32_t rank = x->shape.rank;
    luo_draft a = luo_gen_draft(arena, r, &pool, rank, LUO_PARTIAL), b = a;
    const double way = luo_rng_u(r);
    if (way < 0.1) {
        luo_gen_tier(r, &a, &b, rank);
    } else if (way < 0.6) {
        for (int32_t k = luo_gen_int(r, 1, 2); k > 0; k--)
            luo_gen_mutate(arena, r, &pool, &b, rank);
    } else {
        /* Independent, but the values had better be complete: Partial is seldom created. */
        b = luo_gen_draft(arena, r, &pool, rank, luo_gen_chance(r, 0.8) ? LUO_DUP : LUO_PARTIAL);
    }
    x->src = luo_gen_seal(arena, &a);
    x->dst = luo_gen_seal(arena, &b);
    x->opts = (luo_resolve_opts){.planner = luo_gen_planner(r, &x->where), .elem_bytes = 1,
                                 .reduce_then_move = luo_gen_chance(r, 0.5), .name = "x"};
    x->opts.planner.dead = x->dead;
    if (luo_gen_chance(r, 0.15))
        x->opts.planner.ndead = luo_gen_dead(r, x->src, x->dst, x->dead);
}

/* The case as a line of tests/unit/check_resolve.c, without the answer. */
static inline void luo_reshard_print(luo_str *s, const luo_reshard *x)
{
    luo_ann_print(s, x->src);
    luo_str_add(s, "  =>  ");
    luo_ann_print(s, x->dst);
    luo_str_add(s, "  @ ");
    for (int32_t d = 0; d < x->shape.rank; d++)
        luo_str_addf(s, "%s%lld", d ? "x" : "", (long long)x->shape.dim[d]);
    luo_str_addf(s, " node %d", x->where.node_size);
    if (x->where.rack_size) luo_str_addf(s, " rack %d", x->where.rack_size);
    luo_str_addf(s, " %s", luo_sender_name(x->opts.planner.sender));
    if (x->opts.reduce_then_move) luo_str_add(s, " fallback");
    for (int32_t i = 0; i < x->opts.planner.ndead; i++) luo_str_addf(s, " dead %d", x->dead[i]);
}
#endif
