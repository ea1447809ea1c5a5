/* prop_cost.c: what must hold for any numbers (the computed vectors, Properties). */
#include <math.h>

#include "core/cost/step/layer.h"
#include "core/cost/step/memory.h"
#include "core/cost/overlap.h"
#include "tests/cost_fixture.h"
#include "tests/prop/prop.h"

static double between(luo_rng *r, double lo, double hi) /* logarithmic */
{
    return lo * pow(hi / lo, luo_rng_u(r));
}

static luo_profile random_profile(luo_rng *r)
{
    luo_profile p = luo_ref_profile();
    p.peak_flops[LUO_BF16] = between(r, 1e13, 2e15);
    p.memory_bytes_per_s = between(r, 1e11, 8e12);
    p.sm_count = luo_rng_pick(r, 4) ? (double)(1 + luo_rng_pick(r, 200)) : 0;
    p.gemm_ratio = 0.4 + 0.5 * luo_rng_u(r);
    p.gemm_depth = 400 * luo_rng_u(r);
    p.launch_s = 1e-5 * luo_rng_u(r);
    p.net_half_bytes = between(r, 1e6, 1e8);
    return p;
}

static double gemm(const luo_profile *p, luo_gemm g)
{
    double s = -1;
    ck_assert_int_eq(luo_cost_gemm(p, LUO_BF16, &g, &s, NULL), LUO_OK);
    return s;
}

static int compute_bound, memory_bound;

START_TEST(gemm_grows)
{
    LUO_PROP_FOR(seed, 3000)
    {
        luo_rng r = luo_rng_seed(seed);
        luo_profile p = random_profile(&r);
        const luo_gemm g = {1 + (int64_t)between(&r, 1, 20000), 1 + (int64_t)between(&r, 1, 20000),
                            1 + (int64_t)between(&r, 1, 20000), 1 + luo_rng_pick(&r, 8),
                            luo_rng_pick(&r, 2) ? 2 : 4,        (luo_gemm_form)luo_rng_pick(&r, 4)};
        const double t = gemm(&p, g);
        const int64_t step = 1 + luo_rng_pick(&r, 300);
        luo_gemm more[4] = {g, g, g, g};
        more[0].m += step, more[1].n += step, more[2].k += step, more[3].batch += step;
        for (int i = 0; i < 4; i++)
            ck_assert_msg(gemm(&p, more[i]) >= t, "seed %llu, %d", (unsigned long long)seed, i);
        luo_profile slow = p;
        slow.peak_flops[LUO_BF16] /= 2;
        const double by_peak = gemm(&slow, g);
        slow = p;
        slow.memory_bytes_per_s /= 2;
        const double by_memory = gemm(&slow, g);
        ck_assert_msg(by_peak >= t && by_memory >= t, "seed %llu", (unsigned long long)seed);
        compute_bound += by_peak > t;
        memory_bound += by_memory > t;
        /* the slow twin: no product is faster than its FLOP at the peak or its bytes at W */
        const double flops = 2.0 * (double)g.m * (double)g.n * (double)g.k * (double)g.batch;
        ck_assert(t >= flops / p.peak_flops[LUO_BF16]);
    }
    ck_assert_int_gt(compute_bound, 0);
    ck_assert_int_gt(memory_bound, 0);
}
END_TEST

typedef struct world {
    luo_arena *arena;
    luo_profile p[2];
    luo_node_group g[2];
    luo_curve_point at[2][4];
    luo_curve curves[2];
    luo_cluster c;
} world;

/* One or two kinds of nodes of 4 or 8, with or without a table, any fabric. */
static void random_world(luo_rng *r, world *w)
{
    static const char *const racks[] = {"r0", "r1", "r2"};
    *w = (world){.arena = luo_arena_new(1 << 16)};
    const int32_t kinds = 1 + (int32_t)luo_rng_pick(r, 2);
    for (int32_t k = 0; k < kinds; k++) {
        w->p[k] = random_profile(r);
        if (luo_rng_pick(r, 2)) {
            double busbw = between(r, 1e9, 3e10);
            for (int i = 0; i < 4; i++) {
                w->at[k][i] = (luo_curve_point){65536 * pow(32, i), busbw};
                busbw *= between(r, 0.8, 60); /* steeper than the sizes, and falling, too */
            }
            const int32_t n = 2 + (int32_t)luo_rng_pick(r, 7);
            w->curves[k] = (luo_curve){LUO_COLL_AR, n, 4, w->at[k]};
            w->p[k].ncurves = 1;
            w->p[k].curves = &w->curves[k];
        }
        w->g[k] = luo_test_group(k ? "b" : "a", 1 + (int32_t)luo_rng_pick(r, 3),
                                 luo_rng_pick(r, 2) ? 8 : 4, &w->p[k]);
        w->g[k].nics = 1 << luo_rng_pick(r, 4);
        w->g[k].nic_bytes_per_s = between(r, 1e9, 1e11);
        w->g[k].nic_shared = luo_rng_pick(r, 2);
        w->g[k].has_pcie = luo_rng_pick(r, 2);
        w->g[k].pcie_bytes_per_s = between(r, 1e10, 1e11);
        w->g[k].nracks = 1;
        w->g[k].racks = &racks[luo_rng_pick(r, 3)];
    }
    w->c = (luo_cluster){.name = "w", .ngroups = kinds, .groups = w->g, .hop_latency_s = 1e-6,
                         .fabric = (luo_fabric)luo_rng_pick(r, 2),
                         .rack_uplink_bytes_per_s = between(r, 1e9, 1e12)};
    luo_err err = {0};
    ck_assert_msg(luo_cluster_finish(w->arena, &w->c, &err) == LUO_OK, "%s", err.text);
}

/* A random subset of the devices in random order. */
static int32_t random_group(luo_rng *r, const luo_cluster *c, int32_t *dev)
{
    int32_t n = 0;
    for (int32_t i = 0; i < c->ndevices; i++)
        if (luo_rng_pick(r, 3)) dev[n++] = i;
    if (luo_rng_pick(r, 2))
        for (int32_t i = n - 1; i > 0; i--) {
            const int32_t j = (int32_t)luo_rng_pick(r, i + 1), t = dev[i];
            dev[i] = dev[j];
            dev[j] = t;
        }
    return n;
}

static double group(const luo_cost_ctx *ctx, int coll, const int32_t *dev, int32_t n, int64_t bytes)
{
    return luo_cost_group_seconds(ctx, coll, dev, n, bytes, 0);
}

static int by_id(const void *a, const void *b)
{
    return *(const int32_t *)a - *(const int32_t *)b;
}

/* Time grows with S; no bandwidth halved helps; order of the devices is nothing (but the root). */
START_TEST(collectives)
{
    int wide = 0, uneven = 0;
    luo_stack stack;
    luo_stack_default(&stack);
    LUO_PROP_FOR(seed, 1500)
    {
        luo_rng r = luo_rng_seed(seed);
        world w;
        int32_t dev[64], sorted[64];
        random_world(&r, &w);
        const luo_cost_ctx ctx = {.cluster = &w.c, .stack = &stack, .dtype = LUO_BF16};
        const int32_t n = random_group(&r, &w.c, dev);
        const int coll = (int)luo_rng_pick(&r, LUO_COLLS);
        const int64_t bytes = (int64_t)between(&r, 1, 4e9);
        const double t = group(&ctx, coll, dev, n, bytes);
        ck_assert((t > 0) == (n > 1));
        const double grown = group(&ctx, coll, dev, n, bytes + 1 + (int64_t)between(&r, 1, 1e9));
        ck_assert_msg(grown >= t * (1 - 1e-12), "seed %llu: %g after %g", (unsigned long long)seed,
                      grown, t);
        memcpy(sorted, dev, sizeof dev);
        qsort(sorted, (size_t)n, sizeof *sorted, by_id);
        ck_assert_double_eq(group(&ctx, coll, sorted, n, bytes), t);
        for (int32_t k = 0; k < w.c.ngroups; k++) {
            w.g[k].nic_bytes_per_s /= 2;
            w.g[k].scale_up_bytes_per_s /= 2;
            w.g[k].pcie_bytes_per_s /= 2;
        }
        w.c.rack_uplink_bytes_per_s /= 2;
        const double slower = group(&ctx, coll, dev, n, bytes);
        ck_assert_msg(slower >= t, "seed %llu", (unsigned long long)seed);
        wide += n > 1 && w.c.devices[sorted[0]].node != w.c.devices[sorted[n - 1]].node;
        uneven += w.c.ngroups == 2;
        luo_arena_free(w.arena);
    }
    ck_assert_int_gt(wide, 0);
    ck_assert_int_gt(uneven, 0);
}
END_TEST

/* Flows carry something, join members only, never start before the collective; the slow bound:
 * the last flow alone on its links does not end after the closed form of the same group alone. */
START_TEST(flows)
{
    int several = 0;
    luo_stack stack;
    luo_stack_default(&stack);
    LUO_PROP_FOR(seed, 600)
    {
        luo_rng r = luo_rng_seed(seed);
        world w;
        int32_t dev[64];
        random_world(&r, &w);
        const luo_cost_ctx ctx = {.cluster = &w.c, .stack = &stack, .dtype = LUO_BF16};
        const int32_t n = random_group(&r, &w.c, dev);
        const int coll = (int)luo_rng_pick(&r, LUO_COLLS);
        const int64_t bytes = (int64_t)between(&r, 1, 4e9);
        const double t = group(&ctx, coll, dev, n, bytes);
        luo_flow *f = NULL;
        int32_t nf = 0;
        ck_assert_int_eq(luo_cost_flow(w.arena, &ctx, coll, dev, n, bytes, &f, &nf, NULL), LUO_OK);
        for (int32_t i = 0; i < nf; i++) {
            int32_t ends = 0;
            for (int32_t k = 0; k < n; k++) ends += (dev[k] == f[i].src) + (dev[k] == f[i].dst);
            ck_assert_int_eq(ends, 2);
            ck_assert(f[i].delay_s >= 0 && f[i].bytes >= 0 && isfinite(f[i].bytes));
            const double latency = luo_cluster_path_latency(&w.c, f[i].src, f[i].dst);
            const double link = luo_cluster_path_bytes_per_s(&w.c, f[i].src, f[i].dst);
            const double alone = f[i].delay_s + latency + f[i].bytes / link;
            ck_assert_msg(alone <= fmax(t, latency) * (1 + 1e-9) ||
                              w.c.fabric != LUO_FABRIC_SINGLE,
                          "seed %llu: %g after %g", (unsigned long long)seed, alone, t);
        }
        several += nf > n;
        luo_arena_free(w.arena);
    }
    ck_assert_int_gt(several, 0);
}
END_TEST

static luo_model random_model(luo_rng *r)
{
    luo_model m = {.name = "m", .family = LUO_FAMILY_GPT, .head_dim = 64, .causal = true,
                   .linear_bias = luo_rng_pick(r, 2), .out_bias = luo_rng_pick(r, 2),
                   .qkv_bias = luo_rng_pick(r, 2),
                   .tied_embeddings = luo_rng_pick(r, 2), .vocab = 1000 + luo_rng_pick(r, 100000)};
    m.layers = 8 * (1 + luo_rng_pick(r, 8));
    m.heads = 8 * (1 + luo_rng_pick(r, 8));
    m.kv_heads = luo_rng_pick(r, 2) ? m.heads : 8;
    m.hidden = m.heads * 64;
    m.ffn_hidden = m.hidden * (2 + luo_rng_pick(r, 3));
    m.activation = luo_rng_pick(r, 2) ? LUO_ACT_SWIGLU : LUO_ACT_GELU;
    m.norm = luo_rng_pick(r, 2) ? LUO_NORM_RMS : LUO_NORM_LAYER;
    return m;
}

static int64_t peak(luo_mem_spec s)
{
    luo_mem m;
    luo_mem_stage(&s, &m);
    ck_assert(m.weights > 0 && m.gradients > 0 && m.optimizer > 0 && m.activations > 0);
    return m.peak;
}

/* Memory falls with zero (as far as nothing is gathered or cut in tasks), with t and with p, and
 * with recompute. */
START_TEST(memory_falls)
{
    LUO_PROP_FOR(seed, 2000)
    {
        luo_rng r = luo_rng_seed(seed);
        const luo_model m = random_model(&r);
        luo_mem_spec s = {.model = &m, .recompute_layers = -1, .tp = 1 << luo_rng_pick(&r, 3),
                          .stages = 1 << luo_rng_pick(&r, 3), .chunks = 1,
                          .micro_batches = 64, .replicas = 2 + (int32_t)luo_rng_pick(&r, 8),
                          .zero = (int32_t)luo_rng_pick(&r, 3), .sequence_tokens = 2048,
                          .micro_batch_tokens = 2048 * (1 + luo_rng_pick(&r, 4)),
                          .schedule = LUO_SCHED_1F1B, .embedding = true,
                          .sequence_parallel = luo_rng_pick(&r, 2),
                          .attention_fused = luo_rng_pick(&r, 2), .reserved_bytes = 2e9};
        s.layers = (double)m.layers / s.stages;
        const int64_t base = peak(s);
        luo_mem_spec less = s;
        less.zero++;
        if (less.zero < 2) ck_assert_int_lt(peak(less), base);
        less = s;
        less.tp *= 2;
        ck_assert_msg(peak(less) < base, "seed %llu: t", (unsigned long long)seed);
        less = s;
        less.stages *= 2;
        less.layers /= 2;
        /* with ZeRO 2 fewer layers have given less free when the embedding's gradient comes */
        ck_assert_msg(s.zero >= 2 || peak(less) <= base, "seed %llu: p", (unsigned long long)seed);
        less = s;
        less.recompute = 1;
        ck_assert_int_le(peak(less), base);
        ck_assert_int_le(peak(less) == base, s.attention_fused); /* nothing to save if fused */
        less = s;
        less.replicas++;
        ck_assert_int_le(peak(less), base);
    }
}
END_TEST

/* Buckets one after another: bounds, and the twin that looks for idle time from the end. */
START_TEST(ddp_buckets)
{
    LUO_PROP_FOR(seed, 2000)
    {
        luo_rng r = luo_rng_seed(seed);
        double ready[40], seconds[40], now = 0, all = 0, end = 0;
        const int32_t n = 1 + (int32_t)luo_rng_pick(&r, 40);
        for (int32_t i = 0; i < n; i++) {
            ready[i] = now += 1e-1 * luo_rng_u(&r);
            seconds[i] = between(&r, 1e-4, 1e-1);
            all += seconds[i];
        }
        now += 1e-1 * luo_rng_u(&r);
        luo_overlap o;
        luo_cost_ddp_overlap(n, ready, seconds, now, &o);
        for (int32_t i = 0; i < n; i++) { /* the longest way: bucket i is waited for, none behind */
            double t = ready[i];
            for (int32_t k = i; k < n; k++) t += seconds[k];
            end = fmax(end, t);
        }
        ck_assert_double_eq_tol(o.exposed, fmax(0, end - now), 1e-9);
        ck_assert_double_eq_tol(o.total, all, 1e-9);
        ck_assert(o.exposed <= o.total + 1e-12);
    }
}
END_TEST

/* FSDP lies between the larger of compute and communication, and their sum. */
START_TEST(fsdp_bounds)
{
    LUO_PROP_FOR(seed, 2000)
    {
        luo_rng r = luo_rng_seed(seed);
        double f[20], b[20], g[20], s[20], compute = 0, comm = 0;
        const int32_t n = 1 + (int32_t)luo_rng_pick(&r, 20), depth = (int32_t)luo_rng_pick(&r, 4);
        for (int32_t i = 0; i < n; i++) {
            f[i] = between(&r, 1e-3, 1);
            b[i] = between(&r, 1e-3, 1);
            g[i] = between(&r, 1e-3, 1);
            s[i] = between(&r, 1e-3, 1);
            compute += f[i] + b[i];
            comm += 2 * g[i] + s[i];
        }
        luo_fsdp shallow, deep;
        luo_cost_fsdp(n, f, b, g, s, depth, &shallow);
        luo_cost_fsdp(n, f, b, g, s, depth + 1, &deep);
        ck_assert(shallow.end >= fmax(compute, comm) - 1e-9);
        ck_assert(shallow.end <= compute + comm + 1e-9);
        ck_assert(deep.forward_end <= shallow.forward_end + 1e-12);
    }
}
END_TEST

LUO_SUITE("cost.properties", LUO_T(gemm_grows), LUO_T(collectives), LUO_T(flows),
          LUO_T(memory_falls), LUO_T(ddp_buckets), LUO_T(fsdp_bounds))
