/* Attention, fused and unfused (docs/cost-model.md#attention). */
#include <math.h>

#include "core/cost/op.h"

/* Square of a sequence of n tokens, or as much of it as its windows of w cover: n w - w^2 / 2 of
 * the half that is causal. */
static double square(const luo_attention *attention, int64_t n)
{
    const double all = (double)n, w = (double)attention->window;
    return w > 0 && w < all ? w * (2 * all - w) : all * all;
}

/* Sum of squared lengths: work is quadratic in each packed sequence. */
static double squares(const luo_attention *attention)
{
    double sum = 0;
    if (attention->pairs > 0) return (double)attention->pairs * (attention->causal ? 2 : 1);
    if (!attention->lengths)
        return (double)attention->sequences * square(attention, attention->tokens) +
               square(attention, attention->rest);
    for (int64_t i = 0; i < attention->sequences; i++)
        sum += square(attention, attention->lengths[i]);
    return sum;
}

/* What blocks of queries cost beside their pairs, in pairs: filling and draining each, and the last
 * block, which the other multiprocessors wait for. Whole sequences begin at the longest block. */
static double blocks(const luo_profile *profile, const luo_attention *attention)
{
    enum { QUERIES = 128 }; /* of a block, as fused kernels have */
    const double depth = profile->attention_depth;
    double queries =
        (double)attention->sequences * (double)attention->tokens + (double)attention->rest;
    double longest = (double)attention->tokens;
    if (!(depth > 0)) return 0;
    if (attention->lengths) queries = longest = 0;
    for (int64_t i = 0; attention->lengths && i < attention->sequences; i++) {
        queries += (double)attention->lengths[i];
        longest = fmax(longest, (double)attention->lengths[i]);
    }
    if (attention->window > 0 && longest > (double)attention->window)
        longest = (double)attention->window;
    if (attention->pairs > 0 && queries > 0)
        longest = (double)attention->pairs / queries * (attention->causal ? 2 : 1); /* about */
    return (double)attention->heads * depth * queries +
           profile->sm_count * QUERIES * (longest + depth);
}

static int64_t value_dim(const luo_attention *attention)
{
    return attention->value_dim > 0 ? attention->value_dim : attention->head_dim;
}

static bool find_measured(const luo_profile *profile, luo_dtype dtype,
                          const luo_attention *attention, bool backward, double *seconds)
{
    const int64_t tokens = attention->lengths ? attention->lengths[0] : attention->tokens;
    return attention->sequences == 1 && attention->pairs == 0 && attention->rest == 0 &&
           attention->causal && value_dim(attention) == attention->head_dim &&
           (attention->window == 0 || attention->window >= tokens) &&
           luo_op_time_find(profile, backward ? "attention_backward" : "attention_forward", dtype,
                            tokens, attention->heads, attention->head_dim, seconds);
}

luo_status luo_cost_attention(const luo_profile *profile, luo_dtype dtype,
                              const luo_attention *attention, bool backward, double *seconds,
                              luo_err *err)
{
    double peak = 0;
    const double d = (double)attention->head_dim, v = (double)value_dim(attention);
    const double pairs =
        (double)attention->heads * squares(attention) * (attention->causal ? 0.5 : 1.0);
    const double flops = 2.0 * (d + v) * (pairs > 0 ? pairs + blocks(profile, attention) : 0);
    *seconds = 0;
    if (flops <= 0 || find_measured(profile, dtype, attention, backward, seconds)) return LUO_OK;
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
static luo_status unfused(const luo_profile *profile, luo_dtype dtype,
                          const luo_attention *attention, int64_t sequences, int64_t s,
                          bool backward, double *seconds, luo_err *err)
{
    const int64_t e = luo_dtype_bytes(dtype), q = sequences * attention->heads;
    const int64_t d = attention->head_dim, v = value_dim(attention);
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
                                      const luo_attention *attention, bool backward,
                                      double *seconds, luo_err *err)
{
    *seconds = 0;
    if (attention->pairs > 0) /* a square of as many scores */
        return unfused(profile, dtype, attention, 1, llround(sqrt((double)attention->pairs)),
                       backward, seconds, err);
    if (!attention->lengths) {
        LUO_TRY(unfused(profile, dtype, attention, attention->sequences, attention->tokens,
                        backward, seconds, err));
        return attention->rest
                   ? unfused(profile, dtype, attention, 1, attention->rest, backward, seconds, err)
                   : LUO_OK;
    }
    for (int64_t i = 0; i < attention->sequences; i++)
        LUO_TRY(
            unfused(profile, dtype, attention, 1, attention->lengths[i], backward, seconds, err));
    return LUO_OK;
}

typedef struct ring_clock {
    double lane, now, made[2]; /* lane and work so far end; sums of keys, of values */
} ring_clock;

/* Sums of the step before arrive, keys then values, and are added to what lies here. */
static void pass_on(const luo_ring *ring, ring_clock *clock)
{
    double sums[2];
    for (int k = 0; k < 2; k++)
        sums[k] = clock->lane = fmax(clock->lane, clock->made[k]) + ring->hop / 2;
    clock->made[0] = sums[0];
    clock->made[1] = sums[1];
}

static void add_sums(const luo_ring *ring, ring_clock *clock)
{
    for (int k = 0; k < 2; k++)
        clock->made[k] = clock->now = fmax(clock->now, clock->made[k]) + ring->sum / 2;
}

double luo_cost_ring(const luo_ring *ring)
{
    ring_clock clock = {.lane = -ring->lead};
    double done = -ring->lead,
           arrives = 0; /* done: the step before, whose keys' place is free then */
    for (int32_t j = 0; j < ring->parts; j++) {
        const double here = arrives;
        const bool sums = ring->backward && j > 1;
        if (j + 1 < ring->parts) arrives = clock.lane = fmax(clock.lane, done) + ring->hop;
        if (sums) pass_on(ring, &clock);
        done = clock.now = fmax(clock.now, here) + (j ? ring->rest : ring->first);
        if (sums)
            add_sums(ring, &clock);
        else
            clock.made[0] = clock.made[1] = clock.now;
    }
    if (!ring->backward || ring->parts < 2) return clock.now;
    pass_on(ring, &clock);
    add_sums(ring, &clock);
    return clock.now;
}
