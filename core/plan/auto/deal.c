/* Parts of a layer and of the batch for ranks, equal or by speed. */
#include "core/plan/auto/deal.h"

#include <math.h>

#include "core/plan/hap_graph/share.h"

luo_status luo_auto_deal_by_speed(luo_arena *scratch, int64_t total, const double *speed, int32_t n,
                                  int64_t *out, luo_err *err)
{
    luo_status st = LUO_OK;
    const size_t mark = luo_arena_mark(scratch);
    double sum = 0, *share = LUO_NEW_N(scratch, double, n);
    int64_t *weight = LUO_NEW_N(scratch, int64_t, n);
    if (!share || !weight) LUO_TRY_OUT(luo_err_nomem(err));
    for (int32_t i = 0; i < n; i++) sum += speed[i];
    for (int32_t i = 0; i < n; i++) share[i] = speed[i] / sum;
    LUO_TRY_OUT(luo_share_snap(share, n, weight, err));
    LUO_TRY_OUT(luo_share_round(total, weight, n, out, err));
out:
    luo_arena_reset(scratch, mark);
    return st;
}

static bool all_equal(const double *speed, int32_t n)
{
    for (int32_t i = 1; i < n; i++)
        if (speed[i] != speed[0]) return false;
    return true;
}

/* `total` for n parts; not *whole: some part would not be whole, or nothing. */
static luo_status deal(luo_arena *scratch, const luo_auto_env *env, int64_t total,
                       const double *speed, int32_t n, int64_t *out, bool *whole, luo_err *err)
{
    const bool equal = !env->uneven || all_equal(speed, n);
    *whole = total >= n && (!equal || total % n == 0);
    if (!*whole) return LUO_OK;
    if (!equal) LUO_TRY(luo_auto_deal_by_speed(scratch, total, speed, n, out, err));
    for (int32_t i = 0; i < n; i++) {
        if (equal) out[i] = total / n;
        if (out[i] < 1) *whole = false;
    }
    return LUO_OK;
}

static double speed_of(const luo_auto_env *env, int32_t rank)
{
    return env->cluster->flops[env->first + rank];
}

static int32_t data_index(const luo_auto_strategy *strategy, int32_t rank)
{
    const luo_auto_kind kind = luo_auto_strategy_sharded(strategy) ? LUO_AUTO_SDP : LUO_AUTO_DP;
    return luo_auto_strategy_index(strategy, kind, rank);
}

luo_status luo_auto_deal_samples(luo_arena *scratch, const luo_auto_env *env,
                                 const luo_auto_strategy *strategy, int64_t *lo, int64_t *hi,
                                 luo_auto_skip *skip, luo_err *err)
{
    luo_status st = LUO_OK;
    const size_t mark = luo_arena_mark(scratch);
    const int32_t d = luo_auto_strategy_data(strategy);
    bool whole;
    double *speed = LUO_NEW_N(scratch, double, d);
    int64_t *part = LUO_NEW_N(scratch, int64_t, d + 1);
    if (!speed || !part) LUO_TRY_OUT(luo_err_nomem(err));
    for (int32_t r = 0; r < env->devices; r++) speed[data_index(strategy, r)] += speed_of(env, r);
    *skip = LUO_AUTO_SKIP_BATCH;
    if (env->batch % env->micro_batches) goto out;
    LUO_TRY_OUT(
        deal(scratch, env, env->batch / env->micro_batches, speed, d, part + 1, &whole, err));
    if (!whole) goto out;
    for (int32_t i = 0; i < d; i++) part[i + 1] += part[i];
    for (int32_t r = 0; r < env->devices; r++) {
        lo[r] = part[data_index(strategy, r)];
        hi[r] = part[data_index(strategy, r) + 1];
    }
    *skip = LUO_AUTO_TAKEN;
out:
    luo_arena_reset(scratch, mark);
    return st;
}

/* Speeds of the tp group of rank `lowest`, whose ranks are `stride` apart. */
static void group_speeds(const luo_auto_env *env, int32_t lowest, int32_t stride, int32_t t,
                         double *speed)
{
    for (int32_t i = 0; i < t; i++) speed[i] = speed_of(env, lowest + i * stride);
}

luo_status luo_auto_deal_units(luo_arena *scratch, const luo_auto_env *env,
                               const luo_auto_strategy *strategy, int64_t units, int64_t *part,
                               luo_auto_skip *skip, luo_err *err)
{
    luo_status st = LUO_OK;
    const size_t mark = luo_arena_mark(scratch);
    const int32_t t = luo_auto_strategy_tensor(strategy);
    const int32_t stride = luo_auto_strategy_stride(strategy, LUO_AUTO_TP);
    double *speed = LUO_NEW_N(scratch, double, t);
    int64_t *own = LUO_NEW_N(scratch, int64_t, t);
    if (!speed || !own) LUO_TRY_OUT(luo_err_nomem(err));
    *skip = LUO_AUTO_TAKEN;
    for (int32_t r = 0; r < env->devices; r++) {
        if (luo_auto_strategy_index(strategy, LUO_AUTO_TP, r)) continue;
        bool whole;
        group_speeds(env, r, stride, t, speed);
        LUO_TRY_OUT(deal(scratch, env, units, speed, t, own, &whole, err));
        if (!whole) *skip = LUO_AUTO_SKIP_WIDTH;
        for (int32_t i = 0; i < t; i++) part[r + i * stride] = own[i];
    }
out:
    luo_arena_reset(scratch, mark);
    return st;
}

/* Raises shares to what these units need: what is dealt worst decides. */
static luo_status raise_shares(luo_arena *scratch, const luo_auto_env *env,
                               const luo_auto_strategy *strategy, int64_t units, double *share,
                               luo_auto_skip *skip, luo_err *err)
{
    luo_status st = LUO_OK;
    const size_t mark = luo_arena_mark(scratch);
    int64_t *part = LUO_NEW_N(scratch, int64_t, env->devices);
    if (!part) LUO_TRY_OUT(luo_err_nomem(err));
    LUO_TRY_OUT(luo_auto_deal_units(scratch, env, strategy, units, part, skip, err));
    for (int32_t r = 0; r < env->devices; r++)
        share[r] = fmax(share[r], (double)part[r] / (double)units);
out:
    luo_arena_reset(scratch, mark);
    return st;
}

/* Where nothing has to be whole. */
static luo_status exact_shares(luo_arena *scratch, const luo_auto_env *env,
                               const luo_auto_strategy *strategy, double *share, luo_err *err)
{
    const size_t mark = luo_arena_mark(scratch);
    const int32_t t = luo_auto_strategy_tensor(strategy);
    const int32_t stride = luo_auto_strategy_stride(strategy, LUO_AUTO_TP);
    double *speed = LUO_NEW_N(scratch, double, t);
    if (!speed) return luo_err_nomem(err);
    for (int32_t r = 0; r < env->devices; r++) {
        if (luo_auto_strategy_index(strategy, LUO_AUTO_TP, r)) continue;
        double sum = 0;
        group_speeds(env, r, stride, t, speed);
        const bool even = !env->uneven || all_equal(speed, t);
        for (int32_t i = 0; i < t; i++) sum += speed[i];
        for (int32_t i = 0; i < t; i++) share[r + i * stride] = even ? 1.0 / t : speed[i] / sum;
    }
    luo_arena_reset(scratch, mark);
    return LUO_OK;
}

luo_status luo_auto_deal_width(luo_arena *scratch, const luo_auto_env *env,
                               const luo_auto_strategy *strategy, const luo_auto_layer *layer,
                               double *share, luo_auto_skip *skip, luo_err *err)
{
    *skip = LUO_AUTO_TAKEN;
    if (!layer->heads && !layer->ffn) return exact_shares(scratch, env, strategy, share, err);
    for (int32_t r = 0; r < env->devices; r++) share[r] = 0;
    if (layer->heads) LUO_TRY(raise_shares(scratch, env, strategy, layer->heads, share, skip, err));
    if (layer->ffn && *skip == LUO_AUTO_TAKEN)
        LUO_TRY(raise_shares(scratch, env, strategy, layer->ffn, share, skip, err));
    return LUO_OK;
}
