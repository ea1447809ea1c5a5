/* Costs and room of a pool's entries. */
#include "core/plan/hydraulis/pool.h"

#include <assert.h>
#include <math.h>
#include <string.h>

double luo_pool_cost(const luo_pool_entry *entry, int64_t tokens)
{
    const double s = (double)tokens, cp = entry->cp;
    const double attention = entry->a * s * s, rest = entry->b * s;
    switch (entry->exchange) {
    case LUO_EXCHANGE_NONE:
        return attention + rest;
    case LUO_EXCHANGE_RING: {
        /* The part of its own tokens needs no transfer, and hides none. */
        const double sent = (cp - 1) / cp;
        const double shown = entry->moved * s * sent - attention / cp * sent;
        return (attention + rest) / cp + fmax(0, shown);
    }
    case LUO_EXCHANGE_HEADS:
        return (attention + rest) / cp + entry->moved * s;
    }
    assert(0);
    return 0;
}

static int32_t log2_of(int32_t tp)
{
    int32_t k = 0;
    while (1 << k < tp) k++;
    return k;
}

/* Bytes of weights, gradients and optimizer state of the fullest device. Embedding and head count
 * twice where one stage has both. */
static double state_bytes(const luo_pool_memory *memory, const luo_optimizer_layout *layout,
                          int32_t tp, int32_t pp)
{
    const double L = (double)memory->layers, H = (double)memory->hidden,
                 V = (double)memory->vocabulary;
    const double theirs = memory->optimizer_share / layout->dp, ours = 1 - memory->optimizer_share;
    const double layer_theirs =
        L / layout->pp * (H * H / layout->tp) * memory->state_bytes * theirs;
    const double layer_ours = L / pp * (H * H / tp) * memory->state_bytes * ours;
    const double table_theirs = H * V / layout->tp * (layout->pp == 1 ? 32 : 16) * theirs;
    const double table_ours = H * V / tp * (pp == 1 ? 32 : 16) * ours;
    return layer_theirs + layer_ours + table_theirs + table_ours;
}

double luo_pool_cap(const luo_pool_memory *memory, const luo_optimizer_layout *layout, int32_t tp,
                    int32_t pp)
{
    const double mib = 1024 * 1024, gib = 1024 * mib;
    assert(log2_of(tp) < LUO_POOL_TP_KINDS);
    const double room = (memory->bound_mib - memory->gap_mib) * mib - memory->safe_gib * gib -
                        state_bytes(memory, layout, tp, pp);
    const double token =
        (double)memory->layers * (double)memory->hidden / tp * memory->act_bytes[log2_of(tp)];
    return room / token;
}

static int64_t rounded(double tokens)
{
    return tokens < LUO_POOL_ROUND ? 0 : (int64_t)tokens / LUO_POOL_ROUND * LUO_POOL_ROUND;
}

void luo_pool_fill_caps(luo_pool *pool, const luo_pool_memory *memory,
                        const luo_optimizer_layout *layout)
{
    for (int32_t i = 0; i < pool->n; i++) {
        luo_pool_entry *entry = &pool->entry[i];
        if (entry->cap == 0)
            entry->cap = entry->cp * rounded(luo_pool_cap(memory, layout, entry->tp, entry->pp));
    }
}

/* ---- context parallelism ---- */

static luo_pool_entry with_ring(const luo_pool_entry *entry, const luo_pool_context *context,
                                int32_t cp)
{
    luo_pool_entry out = *entry;
    const double kv = (double)context->kv_heads / (double)context->heads;
    out.cp = cp;
    out.cap = cp * entry->cap;
    out.util = cp * entry->util;
    out.exchange = LUO_EXCHANGE_RING;
    /* 4 bytes of keys and values in bf16 forward, twice that backward. */
    out.moved = 12.0 * ((double)context->layers / entry->pp) * (double)context->hidden * kv /
                (entry->tp * context->ring_bytes_per_ms);
    return out;
}

static luo_pool_entry with_heads(const luo_pool_entry *entry, const luo_pool_context *context,
                                 int32_t cp)
{
    luo_pool_entry out = with_ring(entry, context, cp);
    const double kv = (double)context->kv_heads / (double)context->heads;
    out.exchange = LUO_EXCHANGE_HEADS;
    out.moved = 8.0 * ((double)context->layers / entry->pp) * (1 + kv) * (double)context->hidden *
                (cp - 1) / ((double)cp * cp * entry->tp * context->heads_bytes_per_ms);
    return out;
}

luo_status luo_pool_add_context(luo_arena *arena, luo_pool *pool, const luo_pool_context *context,
                                int32_t cp, luo_err *err)
{
    luo_pool_entry *entry = LUO_NEW_N(arena, luo_pool_entry, 2 * (int64_t)pool->n);
    assert(cp >= 2);
    if (!entry) return luo_err_nomem(err);
    int32_t n = pool->n;
    if (n > 0) memcpy(entry, pool->entry, (size_t)n * sizeof *entry);
    for (int32_t i = 0; i < pool->n; i++) {
        const luo_pool_entry *pool_entry = &pool->entry[i];
        if (pool_entry->cp != 1) continue;
        const luo_pool_entry ring = with_ring(pool_entry, context, cp),
                             heads = with_heads(pool_entry, context, cp);
        const bool divides = (int64_t)pool_entry->tp * cp <= context->kv_heads;
        const bool cheaper = luo_pool_cost(&heads, ring.cap) < luo_pool_cost(&ring, ring.cap);
        entry[n++] = divides && cheaper ? heads : ring;
    }
    *pool = (luo_pool){n, entry};
    return LUO_OK;
}
