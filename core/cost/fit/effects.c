#include "core/cost/fit/effects.h"

#include <math.h>
#include <string.h>

enum { ROUNDS = 60, HALVINGS = 12 };
static const double difference = 0.02;                        /* of a logarithm, to either side */
static const double least_noise = 0.02, least_between = 0.01; /* what no table is better than */

typedef struct fitter {
    const luo_effects *pool;
    luo_effects_result *out;
    luo_err *err;
    int32_t n;                       /* constants and effects */
    double *slope;                   /* rows * constants; of a row its `uses` alone */
    double *residual;                /* predicted - measured, effect left out */
    double *told, *normal, *inverse; /* what rows say; that and priors; covariance */
    double *moment, *step;
    bool *held; /* constants at their prior */
} fitter;

static double prior_of(const fitter *f, const double *value, int32_t i)
{
    const luo_effects_constant *c = &f->pool->constant[i];
    return c->prior + (c->parent >= 0 ? value[c->parent] : 0);
}

static luo_status predict_row(const fitter *f, const double *value, int32_t i, double *residual)
{
    double predicted = 0;
    LUO_TRY(f->pool->predict(f->pool->ctx, value, i, &predicted, f->err));
    if (!isfinite(predicted))
        return luo_err_set(f->err, LUO_EINPUT, "the prediction of row %d is no number.", (int)i);
    *residual = predicted - f->pool->row[i].measured;
    return LUO_OK;
}

static luo_status predict_all(const fitter *f, const double *value, double *residual)
{
    for (int32_t i = 0; i < f->pool->nrows; i++) LUO_TRY(predict_row(f, value, i, &residual[i]));
    return LUO_OK;
}

static luo_status differentiate(fitter *f)
{
    const luo_effects *pool = f->pool;
    double *value = f->out->value;
    for (int32_t i = 0; i < pool->nrows; i++)
        for (int32_t u = 0; u < pool->row[i].nuses; u++) {
            const int32_t k = pool->row[i].uses[u];
            const double at = value[k];
            double low, high;
            value[k] = at - difference;
            luo_status st = predict_row(f, value, i, &low);
            value[k] = at + difference;
            if (st == LUO_OK) st = predict_row(f, value, i, &high);
            value[k] = at;
            if (st != LUO_OK) return st;
            f->slope[(size_t)i * (size_t)pool->nconstants + (size_t)k] =
                (high - low) / (2 * difference);
        }
    return LUO_OK;
}

static double sum_of_squares(const fitter *f, const double *value, const double *residual)
{
    const luo_effects *pool = f->pool;
    const luo_effects_result *out = f->out;
    double sum = 0;
    for (int32_t i = 0; i < pool->nrows; i++) {
        const double e = residual[i] + value[pool->nconstants + pool->row[i].source];
        sum += pool->row[i].weight * e * e / (out->noise * out->noise);
    }
    for (int32_t k = 0; k < pool->nconstants; k++) {
        const double e = (value[k] - prior_of(f, value, k)) / pool->constant[k].width;
        sum += e * e;
    }
    for (int32_t s = pool->nconstants; s < f->n; s++)
        sum += value[s] * value[s] / (out->between * out->between);
    return sum;
}

static void add_term(fitter *f, const int32_t *at, const double *by, int32_t n, double weight,
                     double residual)
{
    for (int32_t a = 0; a < n; a++) {
        f->moment[at[a]] += weight * by[a] * residual;
        for (int32_t b = 0; b < n; b++) f->normal[at[a] * f->n + at[b]] += weight * by[a] * by[b];
    }
}

/* What rows alone say (rows_only), and what priors add. */
static void add_rows(fitter *f)
{
    const luo_effects *pool = f->pool;
    enum { USES = 64 };
    for (int32_t i = 0; i < pool->nrows; i++) {
        const luo_effects_row *row = &pool->row[i];
        int32_t at[USES + 1], n = 0;
        double by[USES + 1];
        for (int32_t u = 0; u < row->nuses && n < USES; u++) {
            at[n] = row->uses[u];
            by[n++] = f->slope[(size_t)i * (size_t)pool->nconstants + (size_t)row->uses[u]];
        }
        at[n] = pool->nconstants + row->source;
        by[n++] = 1;
        add_term(f, at, by, n, row->weight / (f->out->noise * f->out->noise),
                 f->residual[i] + f->out->value[at[n - 1]]);
    }
}

static void add_priors(fitter *f)
{
    const luo_effects *pool = f->pool;
    const double *value = f->out->value;
    for (int32_t k = 0; k < pool->nconstants; k++) {
        const luo_effects_constant *c = &pool->constant[k];
        const int32_t at[2] = {k, c->parent};
        const double by[2] = {1, -1}, width = f->held[k] ? 1e-6 : c->width;
        add_term(f, at, by, c->parent >= 0 ? 2 : 1, 1 / (width * width),
                 value[k] - prior_of(f, value, k));
    }
    for (int32_t s = pool->nconstants; s < f->n; s++) {
        const double one = 1;
        add_term(f, &s, &one, 1, 1 / (f->out->between * f->out->between), value[s]);
    }
}

/* The inverse of a symmetric positive definite matrix, in place, by Gauss and Jordan: priors make
 * every pivot positive. */
static void invert(double *a, int32_t n)
{
    for (int32_t p = 0; p < n; p++) {
        const double pivot = a[p * n + p];
        a[p * n + p] = 1;
        for (int32_t j = 0; j < n; j++) a[p * n + j] /= pivot;
        for (int32_t i = 0; i < n; i++) {
            if (i == p) continue;
            const double factor = a[i * n + p];
            if (factor == 0) continue;
            a[i * n + p] = 0;
            for (int32_t j = 0; j < n; j++) a[i * n + j] -= factor * a[p * n + j];
        }
    }
}

/* Normal equations at the values of the moment; `inverse` is the covariance. *parameters: how many
 * numbers the rows have decided, the trace of covariance times what rows say. */
static void build_normal(fitter *f, double *parameters)
{
    const size_t n = (size_t)f->n;
    memset(f->normal, 0, n * n * sizeof *f->normal);
    memset(f->moment, 0, n * sizeof *f->moment);
    add_rows(f);
    memcpy(f->told, f->normal, n * n * sizeof *f->told);
    add_priors(f);
    memcpy(f->inverse, f->normal, n * n * sizeof *f->inverse);
    invert(f->inverse, f->n);
    *parameters = 0;
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n; j++) *parameters += f->inverse[i * n + j] * f->told[j * n + i];
}

/* A step against the moment, cut at bounds, halved until it is no worse. *moved: its largest part.
 */
static luo_status take_step(fitter *f, double *room, double *residual, double *moved)
{
    const luo_effects *pool = f->pool;
    double *value = f->out->value;
    const double before = sum_of_squares(f, value, f->residual);
    for (int32_t i = 0; i < f->n; i++) {
        f->step[i] = 0;
        for (int32_t j = 0; j < f->n; j++) f->step[i] -= f->inverse[i * f->n + j] * f->moment[j];
    }
    *moved = 0;
    for (int h = 0; h < HALVINGS; h++) {
        const double share = ldexp(1, -h);
        for (int32_t i = 0; i < f->n; i++) {
            room[i] = value[i] + share * fmax(-0.5, fmin(0.5, f->step[i]));
            if (i < pool->nconstants)
                room[i] = fmax(pool->constant[i].lo, fmin(pool->constant[i].hi, room[i]));
        }
        LUO_TRY(predict_all(f, room, residual));
        if (sum_of_squares(f, room, residual) > before) continue;
        for (int32_t i = 0; i < f->n; i++) *moved = fmax(*moved, fabs(room[i] - value[i]));
        memcpy(value, room, (size_t)f->n * sizeof *value);
        memcpy(f->residual, residual, (size_t)pool->nrows * sizeof *residual);
        return LUO_OK;
    }
    return LUO_OK;
}

/* Expectation and maximisation: of rows, and of effects with what is not known of them. */
static void update_deviations(fitter *f, double parameters)
{
    const luo_effects *pool = f->pool;
    luo_effects_result *out = f->out;
    double rows = 0, weight = 0, effects = 0;
    for (int32_t i = 0; i < pool->nrows; i++) {
        const double e = f->residual[i] + out->value[pool->nconstants + pool->row[i].source];
        rows += pool->row[i].weight * e * e;
        weight += pool->row[i].weight;
    }
    for (int32_t s = pool->nconstants; s < f->n; s++)
        effects += out->value[s] * out->value[s] + f->inverse[(size_t)s * (size_t)f->n + (size_t)s];
    out->noise = fmax(least_noise, sqrt(rows / fmax(1, weight - parameters)));
    out->between = fmax(least_between, sqrt(effects / pool->nsources));
}

static luo_status converge(fitter *f, luo_arena *arena)
{
    const luo_effects *pool = f->pool;
    double *room = LUO_NEW_N(arena, double, f->n),
           *residual = LUO_NEW_N(arena, double, pool->nrows);
    if (!room || !residual) return luo_err_nomem(f->err);
    LUO_TRY(predict_all(f, f->out->value, f->residual));
    for (int r = 0; r < ROUNDS; r++) {
        double parameters, moved;
        const double noise = f->out->noise, between = f->out->between;
        LUO_TRY(differentiate(f));
        build_normal(f, &parameters);
        LUO_TRY(take_step(f, room, residual, &moved));
        update_deviations(f, parameters);
        if (moved < 1e-4 && fabs(f->out->noise - noise) < 1e-3 * noise &&
            fabs(f->out->between - between) < 1e-3 * between)
            break;
    }
    double parameters;
    LUO_TRY(differentiate(f));
    build_normal(f, &parameters);
    return LUO_OK;
}

/* Constants that ended at a bound; true: there are new ones. */
static bool hold_bounds(fitter *f)
{
    bool any = false;
    for (int32_t k = 0; k < f->pool->nconstants; k++) {
        const luo_effects_constant *c = &f->pool->constant[k];
        if (f->held[k] || (f->out->value[k] > c->lo + 1e-9 && f->out->value[k] < c->hi - 1e-9))
            continue;
        f->held[k] = any = true;
        f->out->state[k] = LUO_EFFECTS_BOUND;
    }
    for (int32_t k = 0; any && k < f->pool->nconstants; k++) /* parents come first */
        if (f->held[k]) f->out->value[k] = prior_of(f, f->out->value, k);
    return any;
}

static luo_status count_support(fitter *f, luo_arena *arena)
{
    const luo_effects *pool = f->pool;
    bool *seen = LUO_NEW_N(arena, bool, (int64_t)pool->nconstants * pool->nsources);
    int32_t *last = LUO_NEW_N(arena, int32_t, pool->nconstants + 1); /* row + 1 */
    if (!seen || !last) return luo_err_nomem(f->err);
    for (int32_t i = 0; i < pool->nrows; i++)
        for (int32_t u = 0; u < pool->row[i].nuses; u++)
            for (int32_t k = pool->row[i].uses[u]; k >= 0; k = pool->constant[k].parent) {
                bool *of = &seen[(size_t)k * (size_t)pool->nsources + (size_t)pool->row[i].source];
                f->out->rows[k] += last[k] != i + 1;
                last[k] = i + 1;
                f->out->sources[k] += !*of;
                *of = true;
            }
    return LUO_OK;
}

static void finish(fitter *f)
{
    const luo_effects *pool = f->pool;
    luo_effects_result *out = f->out;
    for (int32_t k = 0; k < pool->nconstants; k++) {
        const luo_effects_constant *c = &pool->constant[k];
        out->spread[k] = sqrt(f->inverse[(size_t)k * (size_t)f->n + (size_t)k]);
        if (f->held[k]) out->value[k] = prior_of(f, out->value, k);
        if (f->held[k])
            out->spread[k] = hypot(c->width, c->parent >= 0 ? out->spread[c->parent] : 0);
        if (!f->held[k] && fabs(out->value[k] - prior_of(f, out->value, k)) < 0.1 * c->width &&
            out->spread[k] > 0.9 * c->width) {
            out->state[k] = LUO_EFFECTS_PRIOR;
            out->value[k] = prior_of(f, out->value, k);
        }
    }
    out->n = f->n;
    out->covariance = f->inverse;
    for (int32_t s = 0; s < pool->nsources; s++) out->effect[s] = out->value[pool->nconstants + s];
    double error = 0, bias = 0, weight = 0;
    for (int32_t i = 0; i < pool->nrows; i++) {
        const double e = expm1(f->residual[i]);
        error += pool->row[i].weight * fabs(e);
        bias += pool->row[i].weight * e;
        weight += pool->row[i].weight;
    }
    out->error = error / weight;
    out->bias = bias / weight;
}

static luo_status make_room(luo_arena *arena, fitter *f)
{
    const luo_effects *pool = f->pool;
    luo_effects_result *out = f->out;
    const int64_t constants = pool->nconstants, n = f->n, rows = pool->nrows;
    *out = (luo_effects_result){.value = LUO_NEW_N(arena, double, n),
                                .spread = LUO_NEW_N(arena, double, constants + 1),
                                .state = LUO_NEW_N(arena, luo_effects_state, constants + 1),
                                .rows = LUO_NEW_N(arena, int32_t, constants + 1),
                                .sources = LUO_NEW_N(arena, int32_t, constants + 1),
                                .effect = LUO_NEW_N(arena, double, pool->nsources),
                                .noise = 0.1,
                                .between = 0.1};
    f->slope = LUO_NEW_N(arena, double, rows *constants + 1);
    f->residual = LUO_NEW_N(arena, double, rows);
    f->normal = LUO_NEW_N(arena, double, n *n);
    f->inverse = LUO_NEW_N(arena, double, n *n);
    f->told = LUO_NEW_N(arena, double, n *n);
    f->moment = LUO_NEW_N(arena, double, n);
    f->step = LUO_NEW_N(arena, double, n);
    f->held = LUO_NEW_N(arena, bool, constants + 1);
    if (!out->value || !out->spread || !out->state || !out->rows || !out->sources || !out->effect ||
        !f->slope || !f->residual || !f->normal || !f->inverse || !f->told || !f->moment ||
        !f->step || !f->held)
        return luo_err_nomem(f->err);
    for (int32_t k = 0; k < pool->nconstants; k++) out->value[k] = prior_of(f, out->value, k);
    return LUO_OK;
}

luo_status luo_effects_fit(luo_arena *arena, const luo_effects *pool, luo_effects_result *out,
                           luo_err *err)
{
    fitter f = {.pool = pool, .out = out, .err = err, .n = pool->nconstants + pool->nsources};
    if (pool->nrows < 1) return luo_err_set(err, LUO_EINPUT, "there is no row to fit on.");
    LUO_TRY(make_room(arena, &f));
    do {
        LUO_TRY(converge(&f, arena));
    } while (hold_bounds(&f));
    LUO_TRY(count_support(&f, arena));
    finish(&f);
    return LUO_OK;
}

double luo_effects_covariance(const luo_effects_result *pooled, int32_t i, int32_t k)
{
    const double at = pooled->covariance[(size_t)i * (size_t)pooled->n + (size_t)k];
    return i == k ? fmax(at, pooled->spread[i] * pooled->spread[i]) : at;
}
