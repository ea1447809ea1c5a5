/* One stage: tables of cost, the programme over them, and the times of what it chose. */
#include "core/plan/auto/stage.h"

#include <assert.h>
#include <math.h>

#include "core/plan/auto/dp.h"

typedef struct tables {
    const luo_auto_stage_in *in;
    int32_t rows;
    int32_t *row;        /* by layer of the stage */
    luo_auto_cost *cost; /* [row][strategy] */
    int64_t *units;
    double *seconds, *change;
    int64_t *moved; /* [from][to] */
} tables;

static const luo_auto_layer *layer_of(const tables *t, int32_t l)
{
    return &t->in->layer[t->in->first_layer + l];
}

static void share_rows(tables *t)
{
    for (int32_t l = 0; l < t->in->layers; l++) {
        const bool same =
            l > 0 && !t->in->allow && luo_auto_layer_same(layer_of(t, l - 1), layer_of(t, l));
        if (!same) t->rows++;
        t->row[l] = t->rows - 1;
    }
}

static bool make_tables(luo_arena *scratch, tables *t)
{
    const int64_t n = t->in->strategies;
    t->row = LUO_NEW_N(scratch, int32_t, t->in->layers);
    if (!t->row) return false;
    share_rows(t);
    t->cost = LUO_NEW_N(scratch, luo_auto_cost, t->rows * n);
    t->units = LUO_NEW_N(scratch, int64_t, t->rows * n);
    t->seconds = LUO_NEW_N(scratch, double, t->rows *n);
    t->change = LUO_NEW_N(scratch, double, t->rows *n *n);
    t->moved = LUO_NEW_N(scratch, int64_t, n * n);
    return t->cost && t->units && t->seconds && t->change && t->moved;
}

/* Units are rounded up; the slack is for bytes that are a whole number of them but for the last
 * bits. */
static int64_t units_for(double bytes, double unit)
{
    return (int64_t)ceil(bytes / unit * (1 - 1e-12));
}

static bool allowed(const luo_auto_stage_in *in, int32_t l, const luo_auto_strategy *strategy)
{
    return !in->allow || in->allow(in->allow_ctx, in->first_layer + l, strategy);
}

static luo_status fill_row(luo_arena *scratch, const tables *t, int32_t l, luo_err *err)
{
    const luo_auto_stage_in *in = t->in;
    const int64_t n = in->strategies, at = t->row[l] * n;
    const luo_auto_link link = luo_auto_cost_stage_link(&in->env);
    for (int32_t s = 0; s < n; s++) {
        luo_auto_cost *cost = &t->cost[at + s];
        LUO_TRY(
            luo_auto_cost_layer(scratch, &in->env, layer_of(t, l), &in->strategy[s], cost, err));
        const bool taken = cost->skip == LUO_AUTO_TAKEN && allowed(in, l, &in->strategy[s]);
        t->seconds[at + s] = taken ? cost->step_s : INFINITY;
        t->units[at + s] = units_for(cost->scaled_bytes, in->unit_bytes);
    }
    for (int64_t k = 0; k < n * n; k++)
        t->change[at * n + k] =
            luo_auto_cost_change(&in->env, link, layer_of(t, l)->boundary_bytes, t->moved[k]);
    return LUO_OK;
}

static luo_status fill_tables(luo_arena *scratch, tables *t, luo_err *err)
{
    const luo_auto_stage_in *in = t->in;
    if (!make_tables(scratch, t)) return luo_err_nomem(err);
    LUO_TRY(luo_auto_cost_moved(scratch, &in->env, in->strategy, in->strategies, t->moved, err));
    for (int32_t l = 0; l < in->layers; l++)
        if (l == 0 || t->row[l] != t->row[l - 1]) LUO_TRY(fill_row(scratch, t, l, err));
    return LUO_OK;
}

static int64_t budget_of(const luo_auto_stage_in *in)
{
    double least = INFINITY;
    for (int32_t r = 0; r < in->env.devices; r++)
        least = fmin(least, in->env.cluster->limit_bytes[in->env.first + r]);
    return (int64_t)floor(least / in->unit_bytes);
}

/* Changes of strategy are paid half on the way forward, half on the way back. */
static double half_change(const tables *t, const luo_auto_stage *stage, int32_t l)
{
    const int64_t n = t->in->strategies;
    if (l == 0) return 0;
    return t->change[(t->row[l - 1] * n + stage->choice[l - 1]) * n + stage->choice[l]] / 2 /
           t->in->env.micro_batches;
}

static void add_up(const tables *t, luo_auto_stage *stage)
{
    const luo_auto_cost *cost = NULL;
    for (int32_t l = 0; l < stage->layers; l++) {
        const int64_t at = (int64_t)t->row[l] * t->in->strategies + stage->choice[l];
        cost = &t->cost[at];
        const double half = half_change(t, stage, l);
        const double forward = cost->forward_s + cost->tp_forward_s + cost->gather_s / 2;
        stage->forward_s += forward + half;
        stage->backward_s += cost->micro_batch_s - forward + half;
        stage->exposed_s += cost->exposed_s;
        stage->units[l] = t->units[at];
        stage->used += stage->units[l];
        if (l == 0) stage->samples_in = cost->samples;
        stage->samples_out = cost->samples;
    }
}

static luo_status choose(luo_arena *arena, luo_arena *scratch, const tables *t,
                         const luo_auto_dp_in *dp, luo_auto_stage *stage, luo_err *err)
{
    stage->choice = LUO_NEW_N(arena, int32_t, stage->layers);
    stage->units = LUO_NEW_N(arena, int64_t, stage->layers);
    if (!stage->choice || !stage->units) return luo_err_nomem(err);
    LUO_TRY(luo_auto_dp(scratch, dp, stage->choice, &stage->step_s, err));
    add_up(t, stage);
    return LUO_OK;
}

luo_status luo_auto_stage_solve(luo_arena *arena, const luo_auto_stage_in *in, luo_auto_stage *out,
                                luo_err *err)
{
    luo_status st = LUO_OK;
    luo_auto_stage stage = {.first_layer = in->first_layer,
                            .layers = in->layers,
                            .first_device = in->env.first,
                            .budget = budget_of(in)};
    tables t = {.in = in};
    assert(in->layers >= 1 && in->strategies >= 1);
    if (in->strategies > LUO_AUTO_DP_STRATEGIES_MOST)
        return luo_err_set(err, LUO_E2BIG, "a stage has %d strategies; at most %d are expected.",
                           in->strategies, LUO_AUTO_DP_STRATEGIES_MOST);
    luo_arena *scratch = luo_arena_new(0);
    if (!scratch) return luo_err_nomem(err);
    LUO_TRY_OUT(fill_tables(scratch, &t, err));
    const luo_auto_dp_in dp = {in->layers, in->strategies, stage.budget, t.row,
                               t.units,    t.seconds,      t.change};
    stage.least = luo_auto_dp_least(&dp);
    stage.cells = luo_auto_dp_cells(&dp);
    stage.verdict = stage.least < 0              ? LUO_AUTO_NO_STRATEGY
                    : stage.least > stage.budget ? LUO_AUTO_NO_MEMORY
                                                 : LUO_AUTO_FITS;
    if (stage.verdict == LUO_AUTO_FITS) LUO_TRY_OUT(choose(arena, scratch, &t, &dp, &stage, err));
    *out = stage;
out:
    luo_arena_free(scratch);
    return st;
}
