#include "core/cost/fit/effects.h"

#include <assert.h>
#include <math.h>
#include <string.h>

enum { ROUNDS = 60, HALVINGS = 12 };
static const double difference = 0.02;                        /* of a logarithm, to either side */
static const double least_noise = 0.02, least_between = 0.01; /* what no table is better than */

typedef struct effects_fit {
    const luo_effects *pool;
    luo_effects_result *out;
    luo_err *err;
    int32_t nvalues;   /* constants, behind them effects */
    double *slope;     /* [row * constants + constant]; of a row its `uses` alone */
    double *residual;  /* per row: predicted - measured, effect left out */
    double *from_rows; /* nvalues * nvalues: what rows alone say of values */
    double *normal;    /* that and what priors say */
    double *inverse;   /* of normal: the covariance */
    double *moment;    /* per value: half the slope of the sum of squares */
    double *step;      /* per value */
    bool *held;        /* constants at their prior */
} effects_fit;

static double prior_of(const effects_fit *fit, const double *value, int32_t at)
{
    const luo_effects_constant *constant = &fit->pool->constant[at];
    return constant->prior + (constant->parent >= 0 ? value[constant->parent] : 0);
}

static luo_status predict_row(const effects_fit *fit, const double *value, int32_t row,
                              double *residual)
{
    double predicted = 0;
    LUO_TRY(fit->pool->predict(fit->pool->ctx, value, row, &predicted, fit->err));
    if (!isfinite(predicted))
        return luo_err_set(fit->err, LUO_EINPUT, "the prediction of row %d is no number.",
                           (int)row);
    *residual = predicted - fit->pool->row[row].measured;
    return LUO_OK;
}

static luo_status predict_all(const effects_fit *fit, const double *value, double *residual)
{
    for (int32_t i = 0; i < fit->pool->nrows; i++)
        LUO_TRY(predict_row(fit, value, i, &residual[i]));
    return LUO_OK;
}

static double *slope_at(const effects_fit *fit, int32_t row, int32_t constant)
{
    return &fit->slope[(size_t)row * (size_t)fit->pool->nconstants + (size_t)constant];
}

/* Of predictions, by differences. */
static luo_status find_slopes(effects_fit *fit)
{
    const luo_effects *pool = fit->pool;
    double *value = fit->out->value;
    for (int32_t i = 0; i < pool->nrows; i++)
        for (int32_t u = 0; u < pool->row[i].nuses; u++) {
            const int32_t constant = pool->row[i].uses[u];
            const double at = value[constant];
            double low, high;
            value[constant] = at - difference;
            luo_status st = predict_row(fit, value, i, &low);
            value[constant] = at + difference;
            if (st == LUO_OK) st = predict_row(fit, value, i, &high);
            value[constant] = at;
            if (st != LUO_OK) return st;
            *slope_at(fit, i, constant) = (high - low) / (2 * difference);
        }
    return LUO_OK;
}

static double misfit_of(const effects_fit *fit, const double *value, const double *residual,
                        int32_t row)
{
    return residual[row] + value[fit->pool->nconstants + fit->pool->row[row].source];
}

static double sum_of_squares(const effects_fit *fit, const double *value, const double *residual)
{
    const luo_effects *pool = fit->pool;
    const luo_effects_result *out = fit->out;
    double sum = 0;
    for (int32_t i = 0; i < pool->nrows; i++) {
        const double misfit = misfit_of(fit, value, residual, i);
        sum += pool->row[i].weight * misfit * misfit / (out->noise * out->noise);
    }
    for (int32_t k = 0; k < pool->nconstants; k++) {
        const double off = (value[k] - prior_of(fit, value, k)) / pool->constant[k].width;
        sum += off * off;
    }
    for (int32_t s = pool->nconstants; s < fit->nvalues; s++)
        sum += value[s] * value[s] / (out->between * out->between);
    return sum;
}

/* One square of the sum: weight * (off)^2, where off has slope slope[i] in value at[i]. */
static void add_square(effects_fit *fit, const int32_t *at, const double *slope, int32_t n,
                       double weight, double off)
{
    for (int32_t i = 0; i < n; i++) {
        fit->moment[at[i]] += weight * slope[i] * off;
        for (int32_t j = 0; j < n; j++)
            fit->normal[at[i] * fit->nvalues + at[j]] += weight * slope[i] * slope[j];
    }
}

static void add_rows(effects_fit *fit)
{
    const luo_effects *pool = fit->pool;
    for (int32_t i = 0; i < pool->nrows; i++) {
        const luo_effects_row *row = &pool->row[i];
        int32_t at[LUO_EFFECTS_USES + 1], n = 0;
        double slope[LUO_EFFECTS_USES + 1];
        assert(row->nuses <= LUO_EFFECTS_USES);
        for (int32_t u = 0; u < row->nuses; u++) {
            at[n] = row->uses[u];
            slope[n++] = *slope_at(fit, i, row->uses[u]);
        }
        at[n] = pool->nconstants + row->source;
        slope[n++] = 1;
        add_square(fit, at, slope, n, row->weight / (fit->out->noise * fit->out->noise),
                   misfit_of(fit, fit->out->value, fit->residual, i));
    }
}

static void add_priors(effects_fit *fit)
{
    const luo_effects *pool = fit->pool;
    const double *value = fit->out->value;
    for (int32_t k = 0; k < pool->nconstants; k++) {
        const luo_effects_constant *constant = &pool->constant[k];
        const int32_t at[2] = {k, constant->parent};
        const double slope[2] = {1, -1}, width = fit->held[k] ? 1e-6 : constant->width;
        add_square(fit, at, slope, constant->parent >= 0 ? 2 : 1, 1 / (width * width),
                   value[k] - prior_of(fit, value, k));
    }
    for (int32_t s = pool->nconstants; s < fit->nvalues; s++) {
        const double slope = 1;
        add_square(fit, &s, &slope, 1, 1 / (fit->out->between * fit->out->between), value[s]);
    }
}

/* The inverse of a symmetric positive definite matrix, in place, by Gauss and Jordan: priors make
 * every pivot positive. */
static void invert_matrix(double *matrix, int32_t n)
{
    for (int32_t p = 0; p < n; p++) {
        double *pivots = matrix + p * n;
        const double pivot = pivots[p];
        pivots[p] = 1;
        for (int32_t j = 0; j < n; j++) pivots[j] /= pivot;
        for (int32_t i = 0; i < n; i++) {
            double *row = matrix + i * n;
            const double factor = row[p];
            if (i == p || factor == 0) continue;
            row[p] = 0;
            for (int32_t j = 0; j < n; j++) row[j] -= factor * pivots[j];
        }
    }
}

/* Normal equations at the values of the moment; `inverse` is the covariance. *parameters: how many
 * numbers the rows have decided, the trace of covariance times what rows say. */
static void build_normal(effects_fit *fit, double *parameters)
{
    const size_t n = (size_t)fit->nvalues;
    memset(fit->normal, 0, n * n * sizeof *fit->normal);
    memset(fit->moment, 0, n * sizeof *fit->moment);
    add_rows(fit);
    memcpy(fit->from_rows, fit->normal, n * n * sizeof *fit->from_rows);
    add_priors(fit);
    memcpy(fit->inverse, fit->normal, n * n * sizeof *fit->inverse);
    invert_matrix(fit->inverse, fit->nvalues);
    *parameters = 0;
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n; j++)
            *parameters += fit->inverse[i * n + j] * fit->from_rows[j * n + i];
}

/* A step against the moment, cut at bounds, halved until it is no worse. *moved: its largest part.
 * tried, residual: room, of values and rows. */
static luo_status take_step(effects_fit *fit, double *tried, double *residual, double *moved)
{
    const luo_effects *pool = fit->pool;
    double *value = fit->out->value;
    const double before = sum_of_squares(fit, value, fit->residual);
    for (int32_t i = 0; i < fit->nvalues; i++) {
        fit->step[i] = 0;
        for (int32_t j = 0; j < fit->nvalues; j++)
            fit->step[i] -= fit->inverse[i * fit->nvalues + j] * fit->moment[j];
    }
    *moved = 0;
    for (int h = 0; h < HALVINGS; h++) {
        const double share = ldexp(1, -h);
        for (int32_t i = 0; i < fit->nvalues; i++) {
            tried[i] = value[i] + share * fmax(-0.5, fmin(0.5, fit->step[i]));
            if (i < pool->nconstants)
                tried[i] = fmax(pool->constant[i].lo, fmin(pool->constant[i].hi, tried[i]));
        }
        LUO_TRY(predict_all(fit, tried, residual));
        if (sum_of_squares(fit, tried, residual) > before) continue;
        for (int32_t i = 0; i < fit->nvalues; i++) *moved = fmax(*moved, fabs(tried[i] - value[i]));
        memcpy(value, tried, (size_t)fit->nvalues * sizeof *value);
        memcpy(fit->residual, residual, (size_t)pool->nrows * sizeof *residual);
        return LUO_OK;
    }
    return LUO_OK;
}

/* Expectation and maximisation: of rows, and of effects with what is not known of them. */
static void update_deviations(effects_fit *fit, double parameters)
{
    const luo_effects *pool = fit->pool;
    luo_effects_result *out = fit->out;
    double rows = 0, weight = 0, effects = 0;
    for (int32_t i = 0; i < pool->nrows; i++) {
        const double misfit = misfit_of(fit, out->value, fit->residual, i);
        rows += pool->row[i].weight * misfit * misfit;
        weight += pool->row[i].weight;
    }
    for (int32_t s = pool->nconstants; s < fit->nvalues; s++)
        effects += out->value[s] * out->value[s] +
                   fit->inverse[(size_t)s * (size_t)fit->nvalues + (size_t)s];
    out->noise = fmax(least_noise, sqrt(rows / fmax(1, weight - parameters)));
    out->between = fmax(least_between, sqrt(effects / pool->nsources));
}

static luo_status find_minimum(effects_fit *fit, luo_arena *arena)
{
    const luo_effects *pool = fit->pool;
    double *tried = LUO_NEW_N(arena, double, fit->nvalues),
           *residual = LUO_NEW_N(arena, double, pool->nrows);
    if (!tried || !residual) return luo_err_nomem(fit->err);
    LUO_TRY(predict_all(fit, fit->out->value, fit->residual));
    for (int r = 0; r < ROUNDS; r++) {
        double parameters, moved;
        const double noise = fit->out->noise, between = fit->out->between;
        LUO_TRY(find_slopes(fit));
        build_normal(fit, &parameters);
        LUO_TRY(take_step(fit, tried, residual, &moved));
        update_deviations(fit, parameters);
        if (moved < 1e-4 && fabs(fit->out->noise - noise) < 1e-3 * noise &&
            fabs(fit->out->between - between) < 1e-3 * between)
            break;
    }
    double parameters;
    LUO_TRY(find_slopes(fit));
    build_normal(fit, &parameters);
    return LUO_OK;
}

/* Constants that ended at a bound; true: there are new ones. */
static bool hold_bounded(effects_fit *fit)
{
    bool any = false;
    for (int32_t k = 0; k < fit->pool->nconstants; k++) {
        const luo_effects_constant *constant = &fit->pool->constant[k];
        if (fit->held[k] ||
            (fit->out->value[k] > constant->lo + 1e-9 && fit->out->value[k] < constant->hi - 1e-9))
            continue;
        fit->held[k] = any = true;
        fit->out->state[k] = LUO_EFFECTS_BOUND;
    }
    for (int32_t k = 0; any && k < fit->pool->nconstants; k++) /* parents come first */
        if (fit->held[k]) fit->out->value[k] = prior_of(fit, fit->out->value, k);
    return any;
}

static luo_status count_support(effects_fit *fit, luo_arena *arena)
{
    const luo_effects *pool = fit->pool;
    bool *seen = LUO_NEW_N(arena, bool, (int64_t)pool->nconstants * pool->nsources);
    int32_t *last = LUO_NEW_N(arena, int32_t, pool->nconstants + 1); /* row + 1 */
    if (!seen || !last) return luo_err_nomem(fit->err);
    for (int32_t i = 0; i < pool->nrows; i++)
        for (int32_t u = 0; u < pool->row[i].nuses; u++)
            for (int32_t k = pool->row[i].uses[u]; k >= 0; k = pool->constant[k].parent) {
                bool *of = &seen[(size_t)k * (size_t)pool->nsources + (size_t)pool->row[i].source];
                fit->out->rows[k] += last[k] != i + 1;
                last[k] = i + 1;
                fit->out->sources[k] += !*of;
                *of = true;
            }
    return LUO_OK;
}

/* Constants that were held, or that the rows hardly move, get their priors. */
static void settle_constant(effects_fit *fit, int32_t at)
{
    luo_effects_result *out = fit->out;
    const luo_effects_constant *constant = &fit->pool->constant[at];
    const double prior = prior_of(fit, out->value, at);
    out->spread[at] = sqrt(fit->inverse[(size_t)at * (size_t)fit->nvalues + (size_t)at]);
    if (fit->held[at]) {
        out->value[at] = prior;
        out->spread[at] =
            hypot(constant->width, constant->parent >= 0 ? out->spread[constant->parent] : 0);
    } else if (fabs(out->value[at] - prior) < 0.1 * constant->width &&
               out->spread[at] > 0.9 * constant->width) {
        out->value[at] = prior;
        out->state[at] = LUO_EFFECTS_PRIOR;
    }
}

static void measure_errors(const effects_fit *fit)
{
    const luo_effects *pool = fit->pool;
    double error = 0, bias = 0, weight = 0;
    for (int32_t i = 0; i < pool->nrows; i++) {
        const double off = expm1(fit->residual[i]);
        error += pool->row[i].weight * fabs(off);
        bias += pool->row[i].weight * off;
        weight += pool->row[i].weight;
    }
    fit->out->error = error / weight;
    fit->out->bias = bias / weight;
}

static void fill_result(effects_fit *fit)
{
    const luo_effects *pool = fit->pool;
    luo_effects_result *out = fit->out;
    for (int32_t k = 0; k < pool->nconstants; k++) settle_constant(fit, k);
    for (int32_t s = 0; s < pool->nsources; s++) out->effect[s] = out->value[pool->nconstants + s];
    out->n = fit->nvalues;
    out->covariance = fit->inverse;
    measure_errors(fit);
}

static luo_status make_room(luo_arena *arena, effects_fit *fit)
{
    const luo_effects *pool = fit->pool;
    luo_effects_result *out = fit->out;
    const int64_t constants = pool->nconstants, n = fit->nvalues, rows = pool->nrows;
    *out = (luo_effects_result){.value = LUO_NEW_N(arena, double, n),
                                .spread = LUO_NEW_N(arena, double, constants + 1),
                                .state = LUO_NEW_N(arena, luo_effects_state, constants + 1),
                                .rows = LUO_NEW_N(arena, int32_t, constants + 1),
                                .sources = LUO_NEW_N(arena, int32_t, constants + 1),
                                .effect = LUO_NEW_N(arena, double, pool->nsources),
                                .noise = 0.1,
                                .between = 0.1};
    fit->slope = LUO_NEW_N(arena, double, rows *constants + 1);
    fit->residual = LUO_NEW_N(arena, double, rows);
    fit->normal = LUO_NEW_N(arena, double, n *n);
    fit->inverse = LUO_NEW_N(arena, double, n *n);
    fit->from_rows = LUO_NEW_N(arena, double, n *n);
    fit->moment = LUO_NEW_N(arena, double, n);
    fit->step = LUO_NEW_N(arena, double, n);
    fit->held = LUO_NEW_N(arena, bool, constants + 1);
    if (!out->value || !out->spread || !out->state || !out->rows || !out->sources || !out->effect ||
        !fit->slope || !fit->residual || !fit->normal || !fit->inverse || !fit->from_rows ||
        !fit->moment || !fit->step || !fit->held)
        return luo_err_nomem(fit->err);
    for (int32_t k = 0; k < pool->nconstants; k++) out->value[k] = prior_of(fit, out->value, k);
    return LUO_OK;
}

luo_status luo_effects_fit(luo_arena *arena, const luo_effects *pool, luo_effects_result *out,
                           luo_err *err)
{
    effects_fit fit = {
        .pool = pool, .out = out, .err = err, .nvalues = pool->nconstants + pool->nsources};
    if (pool->nrows < 1) return luo_err_set(err, LUO_EINPUT, "there is no row to fit on.");
    LUO_TRY(make_room(arena, &fit));
    do {
        LUO_TRY(find_minimum(&fit, arena));
    } while (hold_bounded(&fit));
    LUO_TRY(count_support(&fit, arena));
    fill_result(&fit);
    return LUO_OK;
}

double luo_effects_covariance(const luo_effects_result *pooled, int32_t i, int32_t k)
{
    const double at = pooled->covariance[(size_t)i * (size_t)pooled->n + (size_t)k];
    return i == k ? fmax(at, pooled->spread[i] * pooled->spread[i]) : at;
}
