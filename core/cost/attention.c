/* Attention, fused and unfused (docs/cost-model.md#attention). */
#include <math.h>

#include "core/cost/op.h"

/* Square of a sequence of n tokens, or as much of it as its windows of w cover: n w - w^2 / 2 of
 * the half that is causal. */
static double square(const luo_attention *a, int64_t n)
{
    const double all = (double)n, w = (double)a->window;
    return w > 0 && w < all ? w * (2 * all - w) : all * all;
}

/* Sum of squared lengths: work is quadratic in each packed sequence. */
static double squares(const luo_attention *a)
{
    double sum = 0;
    if (a->pairs > 0) return (double)a->pairs * (a->causal ? 2 : 1);
    if (!a->lengths) return (double)a->sequences * square(a, a->tokens) + square(a, a->rest);
    for (int64_t i = 0; i < a->sequences; i++) sum += square(a, a->lengths[i]);
    return sum;
}

/* What blocks of queries cost beside their pairs, in pairs: filling and draining each, and the last
 * block, which the other multiprocessors wait for. Whole sequences begin at the longest block. */
static double blocks(const luo_profile *profile, const luo_attention *a)
{
    enum { QUERIES = 128 }; /* of a block, as fused kernels have */
    const double depth = profile->attention_depth;
    double queries = (double)a->sequences * (double)a->tokens + (double)a->rest;
    double longest = (double)a->tokens;
    if (!(depth > 0)) return 0;
    if (a->lengths) queries = longest = 0;
    for (int64_t i = 0; a->lengths && i < a->sequences; i++) {
        queries += (double)a->lengths[i];
        longest = fmax(longest, (double)a->lengths[i]);
    }
    if (a->window > 0 && longest > (double)a->window) longest = (double)a->window;
    if (a->pairs > 0 && queries > 0)
        longest = (double)a->pairs / queries * (a->causal ? 2 : 1); /* about */
    return (double)a->heads * depth * queries + profile->sm_count * QUERIES * (longest + depth);
}

static int64_t value_dim(const luo_attention *a)
{
    return a->value_dim > 0 ? a->value_dim : a->head_dim;
}

static bool find_measured(const luo_profile *profile, luo_dtype dtype, const luo_attention *a,
                          bool backward, double *seconds)
{
    const int64_t tokens = a->lengths ? a->lengths[0] : a->tokens;
    return a->sequences == 1 && a->pairs == 0 && a->rest == 0 && a->causal &&
           value_dim(a) == a->head_dim && (a->window == 0 || a->window >= tokens) &&
           luo_op_time_find(profile, backward ? "attention_backward" : "attention_forward", dtype,
                            tokens, a->heads, a->head_dim, seconds);
}

luo_status luo_cost_attention(const luo_profile *profile, luo_dtype dtype, const luo_attention *a,
                              bool backward, double *seconds, luo_err *err)
{
    double peak = 0;
    const double d = (double)a->head_dim, v = (double)value_dim(a);
    const double pairs = (double)a->heads * squares(a) * (a->causal ? 0.5 : 1.0);
    const double flops = 2.0 * (d + v) * (pairs > 0 ? pairs + blocks(profile, a) : 0);
    *seconds = 0;
    if (flops <= 0 || find_measured(profile, dtype, a, backward, seconds)) return LUO_OK;
    LUO_TRY(luo_profile_peak(profile, dtype, &peak, err));
    const double again = (3 * d + 2 * v) / (d + v); /* products of backward over those of forward */
    *seconds = (backward ? again * flops / (peak * profile->attention_backward_ratio)
                         : flops / (peak * profile->attention_forward_ratio)) +
               profile->launch_s;
    return LUO_OK;
}

static luo_gemm_form form_of(int64_t size, int64_t elem_bytes)
{
    return size % 8 != 0 && elem_bytes == 2 ? LUO_GEMM_MISALIGNED : LUO_GEMM_PLAIN;
}

/* `sequences` sequences of s tokens at once: q = sequences*heads products. */
static luo_status unfused(const luo_profile *profile, luo_dtype dtype, const luo_attention *a,
                          int64_t sequences, int64_t s, bool backward, double *seconds,
                          luo_err *err)
{
    const int64_t e = luo_dtype_bytes(dtype), q = sequences * a->heads;
    const int64_t d = a->head_dim, v = value_dim(a);
    const luo_gemm scores = {s, s, d, q, e, form_of(d, e)}, values = {s, v, s, q, e, form_of(v, e)};
    const double bytes = (double)((backward ? 5 : 4) * e + 1) * (double)q * (double)s * (double)s;
    double t1 = 0, t2 = 0, t3 = 0;
    LUO_TRY(luo_cost_gemm(profile, dtype, &scores, &t1, err));
    LUO_TRY(luo_cost_gemm(profile, dtype, &values, &t2, err));
    LUO_TRY(luo_cost_stream(profile, bytes, &t3, err));
    *seconds += (backward ? 2 : 1) * (t1 + t2) + t3;
    return LUO_OK;
}

luo_status luo_cost_attention_unfused(const luo_profile *profile, luo_dtype dtype,
                                      const luo_attention *a, bool backward, double *seconds,
                                      luo_err *err)
{
    *seconds = 0;
    if (a->pairs > 0) /* a square of as many scores */
        return unfused(profile, dtype, a, 1, llround(sqrt((double)a->pairs)), backward, seconds,
                       err);
    if (!a->lengths) {
        LUO_TRY(unfused(profile, dtype, a, a->sequences, a->tokens, backward, seconds, err));
        return a->rest ? unfused(profile, dtype, a, 1, a->rest, backward, seconds, err) : LUO_OK;
    }
    for (int64_t i = 0; i < a->sequences; i++)
        LUO_TRY(unfused(profile, dtype, a, 1, a->lengths[i], backward, seconds, err));
    return LUO_OK;
}

typedef struct ring_clock {
    double lane, now, made[2]; /* lane and work so far end; sums of keys, of values */
} ring_clock;

/* Sums of the step before arrive, keys then values, and are added to what lies here. */
static void pass_on(const luo_ring *r, ring_clock *c)
{
    double sums[2];
    for (int k = 0; k < 2; k++) sums[k] = c->lane = fmax(c->lane, c->made[k]) + r->hop / 2;
    c->made[0] = sums[0];
    c->made[1] = sums[1];
}

static void add_sums(const luo_ring *r, ring_clock *c)
{
    for (int k = 0; k < 2; k++) c->made[k] = c->now = fmax(c->now, c->made[k]) + r->sum / 2;
}

double luo_cost_ring(const luo_ring *r)
{
    ring_clock c = {.lane = -r->lead};
    double done = -r->lead, arrives = 0; /* done: the step before, whose keys' place is free then */
    for (int32_t j = 0; j < r->parts; j++) {
        const double here = arrives;
        const bool sums = r->backward && j > 1;
        if (j + 1 < r->parts) arrives = c.lane = fmax(c.lane, done) + r->hop;
        if (sums) pass_on(r, &c);
        done = c.now = fmax(c.now, here) + (j ? r->rest : r->first);
        if (sums) add_sums(r, &c);
        else c.made[0] = c.made[1] = c.now;
    }
    if (!r->backward || r->parts < 2) return c.now;
    pass_on(r, &c);
    add_sums(r, &c);
    return c.now;
}
