/* The cost model of the search: one layer, one strategy. */
#include "core/plan/auto/cost.h"

#include <math.h>

double luo_auto_cost_overlap(double comm, double compute, double kc, double kb)
{
    if (comm * kc > compute * kb) return compute * kb + (comm - compute * kb / kc);
    return comm * kc + (compute - comm * kc / kb);
}

/* Training state per parameter: weight and gradient of 2 bytes, master copy and two moments of 4.
 */
static const double STATE_BYTES = 16, GRADIENT_BYTES = 2;

typedef struct dealt { /* to the ranks of a stage */
    int64_t *lo, *hi;
    double *share;
} dealt;

static luo_auto_link link_of(const luo_auto_env *env, int32_t degree, int32_t stride)
{
    const luo_auto_groups groups = {env->first, env->devices, degree, stride};
    return env->cluster->link(env->cluster->link_ctx, groups);
}

/* One pass of a ring of n ranks over so many bytes; an all-reduce is two. */
static double ring_pass(int32_t n, double bytes, luo_auto_link link)
{
    return (n - 1) * (link.latency_s + bytes / (n * link.bytes_per_s));
}

static double smallest_limit(const luo_auto_env *env)
{
    double least = INFINITY;
    for (int32_t r = 0; r < env->devices; r++)
        least = fmin(least, env->cluster->limit_bytes[env->first + r]);
    return least;
}

static double rank_bytes(const luo_auto_env *env, const luo_auto_layer *layer,
                         const luo_auto_strategy *strategy, double share, double samples)
{
    const double shards =
        luo_auto_strategy_sharded(strategy) ? luo_auto_strategy_data(strategy) : 1;
    const double kept =
        strategy->checkpoint ? layer->act_c_bytes : layer->act_s_bytes + layer->act_t_bytes * share;
    return STATE_BYTES * layer->parameters * share / shards + kept * samples * env->in_flight;
}

/* What the slowest and the fullest rank need. Returns the largest share. */
static double over_ranks(const luo_auto_env *env, const luo_auto_layer *layer,
                         const luo_auto_strategy *strategy, const dealt *x, luo_auto_cost *out)
{
    const double least = smallest_limit(env);
    double widest = 0;
    for (int32_t r = 0; r < env->devices; r++) {
        const int64_t samples = x->hi[r] - x->lo[r];
        const double share = x->share[r],
                     bytes = rank_bytes(env, layer, strategy, share, (double)samples);
        const double limit = env->cluster->limit_bytes[env->first + r];
        const double flop = layer->forward_flop * (double)samples * share;
        out->forward_s = fmax(out->forward_s, flop / env->cluster->flops[env->first + r]);
        out->bytes = fmax(out->bytes, bytes);
        out->scaled_bytes =
            fmax(out->scaled_bytes, limit > least ? bytes * (least / limit) : bytes);
        if (samples > out->samples) out->samples = samples;
        widest = fmax(widest, share);
    }
    return widest;
}

static void communicate(const luo_auto_env *env, const luo_auto_layer *layer,
                        const luo_auto_strategy *strategy, double widest, luo_auto_cost *out)
{
    const bool sharded = luo_auto_strategy_sharded(strategy);
    const luo_auto_kind data = sharded ? LUO_AUTO_SDP : LUO_AUTO_DP;
    const int32_t t = luo_auto_strategy_tensor(strategy), d = luo_auto_strategy_data(strategy);
    if (t > 1) {
        const luo_auto_link link = link_of(env, t, luo_auto_strategy_stride(strategy, LUO_AUTO_TP));
        const double once = 2 * ring_pass(t, layer->boundary_bytes * (double)out->samples, link);
        out->tp_forward_s = 2 * once;
        out->tp_s = (strategy->checkpoint ? 6 : 4) * once;
    }
    if (d > 1) {
        const luo_auto_link link = link_of(env, d, luo_auto_strategy_stride(strategy, data));
        const double pass = ring_pass(d, GRADIENT_BYTES * layer->parameters * widest, link);
        out->sync_s = sharded ? pass : 2 * pass;
        out->gather_s = sharded ? 2 * pass : 0;
    }
}

static luo_status deal_both(luo_arena *scratch, const luo_auto_env *env,
                            const luo_auto_layer *layer, const luo_auto_strategy *strategy,
                            dealt *x, luo_auto_skip *skip, luo_err *err)
{
    x->lo = LUO_NEW_N(scratch, int64_t, env->devices);
    x->hi = LUO_NEW_N(scratch, int64_t, env->devices);
    x->share = LUO_NEW_N(scratch, double, env->devices);
    if (!x->lo || !x->hi || !x->share) return luo_err_nomem(err);
    LUO_TRY(luo_auto_deal_samples(scratch, env, strategy, x->lo, x->hi, skip, err));
    if (*skip != LUO_AUTO_TAKEN) return LUO_OK;
    return luo_auto_deal_width(scratch, env, strategy, layer, x->share, skip, err);
}

luo_status luo_auto_cost_layer(luo_arena *scratch, const luo_auto_env *env,
                               const luo_auto_layer *layer, const luo_auto_strategy *strategy,
                               luo_auto_cost *out, luo_err *err)
{
    luo_status st = LUO_OK;
    const size_t mark = luo_arena_mark(scratch);
    luo_auto_cost cost = {0};
    dealt x;
    LUO_TRY_OUT(deal_both(scratch, env, layer, strategy, &x, &cost.skip, err));
    if (cost.skip == LUO_AUTO_TAKEN) {
        communicate(env, layer, strategy, over_ranks(env, layer, strategy, &x, &cost), &cost);
        cost.backward_s = (strategy->checkpoint ? 3 : 2) * cost.forward_s;
        cost.micro_batch_s = cost.forward_s + cost.backward_s + cost.tp_s + cost.gather_s;
        cost.exposed_s =
            luo_auto_cost_overlap(cost.sync_s, cost.backward_s, env->slow_comm, env->slow_compute) -
            cost.backward_s;
        cost.step_s = env->micro_batches * cost.micro_batch_s + cost.exposed_s;
    }
    *out = cost;
out:
    luo_arena_reset(scratch, mark);
    return st;
}

static int64_t most_new(int32_t ranks, const int64_t *lo, const int64_t *hi, const int64_t *to_lo,
                        const int64_t *to_hi)
{
    int64_t most = 0;
    for (int32_t r = 0; r < ranks; r++) {
        const int64_t from = lo[r] > to_lo[r] ? lo[r] : to_lo[r];
        const int64_t end = hi[r] < to_hi[r] ? hi[r] : to_hi[r];
        const int64_t fresh = to_hi[r] - to_lo[r] - (end > from ? end - from : 0);
        if (fresh > most) most = fresh;
    }
    return most;
}

luo_status luo_auto_cost_moved(luo_arena *scratch, const luo_auto_env *env,
                               const luo_auto_strategy *strategy, int32_t n, int64_t *moved,
                               luo_err *err)
{
    luo_status st = LUO_OK;
    const size_t mark = luo_arena_mark(scratch);
    const int64_t g = env->devices;
    int64_t *lo = LUO_NEW_N(scratch, int64_t, n * g), *hi = LUO_NEW_N(scratch, int64_t, n * g);
    luo_auto_skip *skip = LUO_NEW_N(scratch, luo_auto_skip, n);
    if (!lo || !hi || !skip) LUO_TRY_OUT(luo_err_nomem(err));
    for (int32_t a = 0; a < n; a++)
        LUO_TRY_OUT(luo_auto_deal_samples(scratch, env, &strategy[a], lo + a * g, hi + a * g,
                                          &skip[a], err));
    for (int32_t a = 0; a < n; a++)
        for (int32_t b = 0; b < n; b++)
            moved[(int64_t)a * n + b] =
                skip[a] || skip[b]
                    ? 0
                    : most_new(env->devices, lo + a * g, hi + a * g, lo + b * g, hi + b * g);
out:
    luo_arena_reset(scratch, mark);
    return st;
}

luo_auto_link luo_auto_cost_stage_link(const luo_auto_env *env)
{
    return link_of(env, env->devices, 1);
}

double luo_auto_cost_change(const luo_auto_env *env, luo_auto_link link, double boundary_bytes,
                            int64_t moved)
{
    if (moved == 0) return 0;
    return 2 * env->micro_batches *
           (link.latency_s + boundary_bytes * (double)moved / link.bytes_per_s);
}
