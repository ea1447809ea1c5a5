/* Streaming kernels, host floor, and the seconds of an instruction (docs/cost-model.md). */
#include <math.h>

#include "core/cost/op.h"

luo_status luo_op_stream_bytes_per_s(const luo_profile *profile, double *out, luo_err *err)
{
    if (profile->memory_bytes_per_s <= 0)
        return luo_err_set(err, LUO_EINPUT,
                           "profile `%s` has no value `memory_gbytes_per_s`; give it or an "
                           "op_times table.",
                           profile->name);
    *out = profile->memory_ratio * profile->memory_bytes_per_s;
    return LUO_OK;
}

luo_status luo_cost_stream(const luo_profile *profile, double bytes, double *seconds, luo_err *err)
{
    double bandwidth = 0;
    *seconds = 0;
    if (bytes <= 0) return LUO_OK;
    LUO_TRY(luo_op_stream_bytes_per_s(profile, &bandwidth, err));
    *seconds = bytes / bandwidth + profile->launch_s;
    return LUO_OK;
}

double luo_cost_host(const luo_stack *stack, double gpu_seconds, double kernels)
{
    const double host = kernels * stack->host_launch_s;
    const double large = fmax(gpu_seconds, host), small = fmin(gpu_seconds, host);
    if (gpu_seconds <= 0) return 0;
    if (small <= 0) return large;
    /* scaled by the larger, so that neither power leaves the range of a double */
    return large * pow(1 + pow(small / large, stack->host_exponent), 1 / stack->host_exponent);
}

double luo_cost_slowed(const luo_stack *stack, double gpu_seconds, double seconds, double loss)
{
    const double x = stack->host_exponent;
    if (gpu_seconds >= seconds) return seconds / (1 - loss);
    const double share = pow(gpu_seconds / seconds, x);
    return seconds * pow(1 - share + share * pow(1 / (1 - loss), x), 1 / x);
}

double luo_cost_update_bytes(const luo_stack *stack)
{
    return stack->optimizer_bytes + (stack->fp8_weights_once ? luo_cost_cast_bytes(stack) : 0);
}

double luo_cost_jitter(const luo_stack *stack, int32_t devices)
{
    return 1 + stack->scale_jitter * fmax(0, log2(devices / 256.0));
}

static luo_status attention_key(const luo_profile *profile, const luo_stack *stack,
                                const luo_cost_key *key, luo_dtype dtype, double *seconds,
                                luo_err *err)
{
    const int64_t each = key->a[3] > 0 ? key->a[3] : key->a[2];
    const luo_attention attention = {.heads = key->a[0],
                                     .head_dim = key->a[1],
                                     .sequences = each > 0 ? key->a[2] / each : 0,
                                     .tokens = each,
                                     .rest = each > 0 ? key->a[2] % each : 0,
                                     .causal = (key->a[4] & LUO_ATTENTION_CAUSAL) != 0,
                                     .pairs = key->a[5],
                                     .value_dim = key->a[6],
                                     .window = key->a[7]};
    const bool backward = key->kind == LUO_COST_ATTENTION_B;
    if (stack->attention_fused)
        return luo_cost_attention(profile, dtype, &attention, backward, seconds, err);
    LUO_TRY(luo_cost_attention_unfused(profile, dtype, &attention, backward, seconds, err));
    if (!luo_cost_again(stack, key)) return LUO_OK;
    double core = 0;
    LUO_TRY(luo_cost_attention_unfused(profile, dtype, &attention, false, &core, err));
    *seconds += core;
    return LUO_OK;
}

bool luo_cost_again(const luo_stack *stack, const luo_cost_key *key)
{
    return key->kind == LUO_COST_ATTENTION_B && (key->a[4] & LUO_ATTENTION_AGAIN) &&
           !stack->attention_fused;
}

int32_t luo_cost_kernels(const luo_stack *stack, const luo_cost_key *key)
{
    const int32_t core = 3;
    if (stack->attention_fused) return 1;
    if (key->kind == LUO_COST_ATTENTION_F) return core;
    if (key->kind != LUO_COST_ATTENTION_B) return 1;
    return luo_cost_again(stack, key) ? 5 + core : 5;
}

luo_status luo_cost_key_seconds(const luo_profile *profile, const luo_stack *stack,
                                const luo_cost_key *key, luo_dtype dtype, double *seconds,
                                luo_err *err)
{
    /* keys count the bytes of the default stack; another one moves more or less of them */
    const double update = luo_cost_update_bytes(stack) / LUO_OPTIMIZER_BYTES;
    const int64_t *a = key->a;
    luo_profile room;
    LUO_TRY(luo_profile_under(profile, stack, dtype, &room, &profile, err));
    switch ((luo_cost_kind)key->kind) {
    case LUO_COST_NONE: *seconds = 0; return LUO_OK;
    case LUO_COST_GEMM:
    case LUO_COST_GROUPED:
        return luo_cost_product(profile, stack, dtype, key, seconds, err);
    case LUO_COST_ATTENTION_F:
    case LUO_COST_ATTENTION_B:
        return attention_key(profile, stack, key, dtype, seconds, err);
    case LUO_COST_STREAM:
        return luo_cost_stream(
            profile, (double)a[stack->eager && a[LUO_COST_EAGER] ? LUO_COST_EAGER : 0], seconds,
            err);
    case LUO_COST_OPTIMIZER:
        return luo_cost_stream(profile, (double)a[0] * (double)a[1] * update, seconds, err);
    }
    return luo_err_set(err, LUO_EBUG, "cost key of unknown kind %d; report it.", key->kind);
}

luo_status luo_cost_instr(const luo_cost_ctx *ctx, int32_t device, const luo_cost_key *key,
                          luo_dtype dtype, double *seconds, luo_err *err)
{
    double gpu = 0;
    LUO_TRY(luo_cost_key_seconds(luo_cluster_profile(ctx->cluster, device), ctx->stack, key, dtype,
                                 &gpu, err));
    *seconds = luo_cost_host(ctx->stack, gpu, luo_cost_kernels(ctx->stack, key)) *
               luo_cluster_base_slowdown(ctx->cluster, device);
    return LUO_OK;
}
