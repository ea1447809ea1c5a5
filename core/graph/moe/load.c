/* load.c: loads as data. */
#include "core/graph/moe/load.h"

#include <math.h>

#include "core/base/hash.h"
#include "core/base/rng.h"
#include "core/hspmd/bounds.h"

luo_status luo_load_zipf(luo_arena *arena, int32_t experts, double exponent, uint64_t key,
                         const uint32_t **out, luo_err *err)
{
    uint32_t *w = LUO_NEW_N(arena, uint32_t, experts);
    if (!w) return luo_err_nomem(err);
    for (int32_t i = 0; i < experts; i++)
        w[i] = (uint32_t)(0x1p30 / pow((double)i + 1, exponent) + 0.5);
    for (int32_t i = experts - 1; key && i > 0; i--) {
        const int32_t j = (int32_t)(luo_rng_at(key, (uint64_t)i) % (uint64_t)(i + 1));
        const uint32_t kept = w[i];
        w[i] = w[j];
        w[j] = kept;
    }
    *out = w;
    return LUO_OK;
}

luo_status luo_load_counts(luo_arena *arena, const uint32_t *weights, int32_t experts,
                           int64_t tokens, int32_t k, int64_t *counts, luo_err *err)
{
    const size_t mark = luo_arena_mark(arena);
    int64_t *bounds = LUO_NEW_N(arena, int64_t, (int64_t)experts + 1), over = 0;
    if (!bounds) return luo_err_nomem(err);
    luo_bounds_cut(tokens * k, experts, weights, bounds);
    for (int32_t e = 0; e < experts; e++) counts[e] = bounds[e + 1] - bounds[e];
    luo_arena_reset(arena, mark);
    for (int32_t i = 0; i < 2 * experts; i++) { /* the second round has room for all */
        int64_t *n = &counts[i % experts];
        *n += over;
        over = *n > tokens ? *n - tokens : 0;
        *n -= over;
    }
    return LUO_OK;
}

/* NULL: the table has no row of the layer. */
static luo_status table_weights(luo_arena *arena, const luo_expert_load *load, int32_t layer,
                                int32_t experts, const uint32_t **out, luo_err *err)
{
    int64_t at = 0;
    *out = NULL;
    while (at < load->nrows && load->rows[at].layer < layer) at++;
    if (at == load->nrows || load->rows[at].layer != layer) return LUO_OK;
    uint32_t *w = LUO_NEW_N(arena, uint32_t, experts);
    if (!w) return luo_err_nomem(err);
    for (; at < load->nrows && load->rows[at].layer == layer; at++)
        w[load->rows[at].expert] = load->rows[at].tokens;
    *out = w;
    return LUO_OK;
}

static luo_status weights_of(luo_arena *arena, const luo_expert_load *load, int32_t layer,
                             const luo_gate *gate, const uint32_t **out, luo_err *err)
{
    const uint64_t key = luo_rng_at(luo_hash_str(LUO_HASH_EMPTY, "expert_load"), (uint64_t)layer);
    *out = NULL;
    if (gate->kind == LUO_GATE_BALANCED) return LUO_OK;
    return load->nrows ? table_weights(arena, load, layer, gate->experts, out, err)
                       : luo_load_zipf(arena, gate->experts, load->exponent, key | 1, out, err);
}

luo_status luo_load_layer(luo_arena *arena, const luo_expert_load *load, int32_t layer,
                          const luo_gate *gate, int64_t tokens, int32_t sources, int64_t *counts,
                          luo_err *err)
{
    const size_t mark = luo_arena_mark(arena);
    const uint32_t *w;
    LUO_TRY(weights_of(arena, load, layer, gate, &w, err));
    LUO_TRY(luo_load_counts(arena, w, gate->experts, tokens, gate->k, counts, err));
    luo_arena_reset(arena, mark);
    if (!(gate->capacity_factor > 0)) return LUO_OK;
    const int64_t most = sources * luo_gate_capacity(gate, (tokens + sources - 1) / sources);
    for (int32_t e = 0; e < gate->experts; e++)
        if (counts[e] > most) counts[e] = most;
    return LUO_OK;
}

luo_status luo_load_imbalance(luo_arena *arena, const int64_t *counts, int32_t experts, int32_t n,
                              const uint32_t *share, double *out, luo_err *err)
{
    const size_t mark = luo_arena_mark(arena);
    int64_t *bounds = LUO_NEW_N(arena, int64_t, (int64_t)n + 1), most = 0, all = 0;
    if (!bounds) return luo_err_nomem(err);
    luo_bounds_cut(experts, n, share, bounds);
    for (int32_t r = 0; r < n; r++) {
        int64_t sum = 0;
        for (int64_t e = bounds[r]; e < bounds[r + 1]; e++) sum += counts[e];
        if (sum > most) most = sum;
        all += sum;
    }
    *out = all > 0 ? (double)most * n / (double)all : 1;
    luo_arena_reset(arena, mark);
    return LUO_OK;
}

int64_t luo_load_tiles(const int64_t *counts, int32_t experts, int64_t columns, int64_t tm,
                       int64_t tn)
{
    int64_t rows = 0;
    for (int32_t e = 0; e < experts; e++) rows += (counts[e] + tm - 1) / tm;
    return rows * ((columns + tn - 1) / tn);
}
