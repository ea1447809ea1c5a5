/* Parts of a layer and of the batch for ranks, equal or by speed. */
#include "core/plan/auto/deal.h"

#include <assert.h>
#include <math.h>

static const double SNAP = 1 << 20;

static int64_t weight_of(double speed, double sum)
{
    return (int64_t)floor(speed / sum * SNAP + 0.5);
}

void luo_auto_deal_by_speed(int64_t total, const double *speed, int32_t n, int64_t *out)
{
    double sum = 0;
    int64_t weights = 0, left = total;
    for (int32_t i = 0; i < n; i++) sum += speed[i];
    for (int32_t i = 0; i < n; i++) weights += weight_of(speed[i], sum);
    assert(weights > 0);
    for (int32_t i = 0; i < n; i++) {
        out[i] = total * weight_of(speed[i], sum) / weights;
        left -= out[i];
    }
    /* A remainder is used once: below -1 it is no candidate any more. */
    for (; left > 0; left--) {
        int64_t most = -1;
        int32_t to = 0;
        for (int32_t i = 0; i < n; i++) {
            const int64_t w = weight_of(speed[i], sum), floored = total * w / weights;
            const int64_t rest = out[i] > floored ? -1 : total * w % weights;
            if (rest <= most) continue;
            most = rest;
            to = i;
        }
        out[to]++;
    }
}

static bool all_equal(const double *speed, int32_t n)
{
    for (int32_t i = 1; i < n; i++)
        if (speed[i] != speed[0]) return false;
    return true;
}

/* `total` for n parts; false: some part would not be whole, or nothing. */
static bool deal(const luo_auto_env *env, int64_t total, const double *speed, int32_t n,
                 int64_t *out)
{
    if (!env->uneven || all_equal(speed, n)) {
        for (int32_t i = 0; i < n; i++) out[i] = total / n;
        return total % n == 0 && total >= n;
    }
    luo_auto_deal_by_speed(total, speed, n, out);
    for (int32_t i = 0; i < n; i++)
        if (out[i] < 1) return false;
    return true;
}

static double speed_of(const luo_auto_env *env, int32_t rank)
{
    return env->cluster->flops[env->first + rank];
}

static int32_t data_index(const luo_auto_strategy *s, int32_t rank)
{
    const luo_auto_kind kind = luo_auto_strategy_sharded(s) ? LUO_AUTO_SDP : LUO_AUTO_DP;
    return luo_auto_strategy_index(s, kind, rank);
}

luo_status luo_auto_deal_samples(luo_arena *scratch, const luo_auto_env *env,
                                 const luo_auto_strategy *s, int64_t *lo, int64_t *hi,
                                 luo_auto_skip *skip, luo_err *err)
{
    luo_status st = LUO_OK;
    const size_t mark = luo_arena_mark(scratch);
    const int32_t d = luo_auto_strategy_data(s);
    double *speed = LUO_NEW_N(scratch, double, d);
    int64_t *part = LUO_NEW_N(scratch, int64_t, d + 1);
    if (!speed || !part) LUO_TRY_OUT(luo_err_nomem(err));
    for (int32_t r = 0; r < env->devices; r++) speed[data_index(s, r)] += speed_of(env, r);
    *skip = LUO_AUTO_SKIP_BATCH;
    if (env->batch % env->micro_batches ||
        !deal(env, env->batch / env->micro_batches, speed, d, part + 1))
        goto out;
    for (int32_t i = 0; i < d; i++) part[i + 1] += part[i];
    for (int32_t r = 0; r < env->devices; r++) {
        lo[r] = part[data_index(s, r)];
        hi[r] = part[data_index(s, r) + 1];
    }
    *skip = LUO_AUTO_TAKEN;
out:
    luo_arena_reset(scratch, mark);
    return st;
}

typedef struct cut { /* of a layer within one tp group */
    const luo_auto_env *env;
    const luo_auto_layer *layer;
    int32_t t;
    double *speed, *share; /* of its ranks */
    int64_t *part;
} cut;

/* Raises shares to what these units need; the unit that is dealt worst decides. */
static bool cut_units(const cut *c, int64_t units)
{
    if (units == 0) return true;
    if (!deal(c->env, units, c->speed, c->t, c->part)) return false;
    for (int32_t i = 0; i < c->t; i++)
        c->share[i] = fmax(c->share[i], (double)c->part[i] / (double)units);
    return true;
}

static bool cut_group(const cut *c)
{
    double sum = 0;
    for (int32_t i = 0; i < c->t; i++) {
        c->share[i] = 0;
        sum += c->speed[i];
    }
    if (c->layer->heads || c->layer->ffn)
        return cut_units(c, c->layer->heads) && cut_units(c, c->layer->ffn);
    const bool even = !c->env->uneven || all_equal(c->speed, c->t);
    for (int32_t i = 0; i < c->t; i++) c->share[i] = even ? 1.0 / c->t : c->speed[i] / sum;
    return true;
}

/* The tp group of rank `lowest`, whose ranks are `stride` apart. */
static bool cut_at(const cut *c, int32_t lowest, int32_t stride, double *share)
{
    for (int32_t i = 0; i < c->t; i++) c->speed[i] = speed_of(c->env, lowest + i * stride);
    if (!cut_group(c)) return false;
    for (int32_t i = 0; i < c->t; i++) share[lowest + i * stride] = c->share[i];
    return true;
}

luo_status luo_auto_deal_width(luo_arena *scratch, const luo_auto_env *env,
                               const luo_auto_strategy *s, const luo_auto_layer *layer,
                               double *share, luo_auto_skip *skip, luo_err *err)
{
    luo_status st = LUO_OK;
    const size_t mark = luo_arena_mark(scratch);
    const int32_t stride = luo_auto_strategy_stride(s, LUO_AUTO_TP);
    cut c = {env, layer, luo_auto_strategy_tensor(s), NULL, NULL, NULL};
    c.speed = LUO_NEW_N(scratch, double, c.t);
    c.share = LUO_NEW_N(scratch, double, c.t);
    c.part = LUO_NEW_N(scratch, int64_t, c.t);
    if (!c.speed || !c.share || !c.part) LUO_TRY_OUT(luo_err_nomem(err));
    *skip = LUO_AUTO_TAKEN;
    for (int32_t r = 0; r < env->devices; r++) {
        if (c.t == 1)
            share[r] = 1;
        else if (luo_auto_strategy_index(s, LUO_AUTO_TP, r) == 0 && !cut_at(&c, r, stride, share))
            *skip = LUO_AUTO_SKIP_WIDTH;
    }
out:
    luo_arena_reset(scratch, mark);
    return st;
}
