#include "core/cost/profile.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#include "core/base/quantity.h"
#include "core/base/words.h"
#include "core/cost/spread.h"

const char *luo_provenance_name(luo_provenance provenance)
{
    static const char *const names[] = {LUO_PROVENANCE_LIST(LUO_WORD_TEXT)};
    return names[provenance];
}

/* docs/formats.md#names-of-values: name, unit in SI, default, and the range in which the number
 * makes sense (wider than the bounds of a fit: W may be an achieved value with memory_ratio 1):
 * that of a quantity, or numbers in the unit of the name. */
typedef struct param {
    const char *name;
    size_t at; /* field of luo_profile, or NOWHERE */
    double unit, otherwise;
    luo_limit limit;
    const char *says; /* how its meaning in docs/formats.md begins */
} param;

#define NOWHERE SIZE_MAX
#define PEAK(t) offsetof(luo_profile, peak_flops) + (t) * sizeof(double)
#define F(field) offsetof(luo_profile, field)
#define TABLES(id, class)                                                                          \
    {"tables_" class "_gbytes_per_s", F(tables_bytes_per_s) + (id) * sizeof(double), 1e9, 0,       \
     LUO_OF(LUO_Q_BANDWIDTH, 1e9),                                                                 \
     "bandwidth of the links that the tables were measured over, one direction"},
#define GIB 1073741824.0

static const param params[] = {
    {"peak_bf16_tflop_per_s", PEAK(LUO_BF16), 1e12, 0, LUO_OF(LUO_Q_COMPUTE, 1e12),
     "dense peak of matrix products, no sparsity"},
    {"peak_f32_tflop_per_s", PEAK(LUO_F32), 1e12, 0, LUO_OF(LUO_Q_COMPUTE, 1e12),
     "the same in f32"},
    {"peak_f64_tflop_per_s", PEAK(LUO_F64), 1e12, 0, LUO_OF(LUO_Q_COMPUTE, 1e12),
     "the same in f64"},
    {"peak_f16_tflop_per_s", NOWHERE, 1e12, 0, LUO_OF(LUO_Q_COMPUTE, 1e12),
     "the same in f16; stands for bf16 where a GPU has none, else used by `validate` alone"},
    {"peak_tf32_tflop_per_s", NOWHERE, 1e12, 0, LUO_OF(LUO_Q_COMPUTE, 1e12),
     "the same in tf32; for `precision: tf32` of a stack"},
    {"peak_fp8_tflop_per_s", F(fp8_flops), 1e12, 0, LUO_OF(LUO_Q_COMPUTE, 1e12),
     "the same in fp8, for stacks with `fp8_recipe`"},
    {"memory_gbytes_per_s", F(memory_bytes_per_s), 1e9, 0, LUO_OF(LUO_Q_MEMORY_BANDWIDTH, 1e9),
     "bandwidth of the memory; an achieved value goes with `memory_ratio` 1"},
    {"memory_gib", F(memory_bytes), GIB, 0, LUO_OF(LUO_Q_BYTES, GIB), "memory"},
    {"reserved_gib", F(reserved_bytes), GIB, 1.86, LUO_OF_OR_0(LUO_Q_BYTES, GIB),
     "kept for driver, context and libraries"},
    {"sm_count", F(sm_count), 1, 0, LUO_WITHIN(1, 1e6),
     "multiprocessors; known: the last wave of tiles is counted"},
    {"launch_us", F(launch_s), 1e-6, 4, LUO_OF_OR_0(LUO_Q_LATENCY, 1e-6),
     "gap of one kernel on the device"},
    {"gemm_ratio", F(gemm_ratio), 1, 0.80, LUO_OF(LUO_Q_RATIO, 1),
     "share of the peak that a large aligned product reaches"},
    {"gemm_depth", F(gemm_depth), 1, 64, LUO_WITHIN(0, 1e6),
     "elements of k that fill and drain one tile"},
    {"memory_ratio", F(memory_ratio), 1, 0.72, LUO_OF(LUO_Q_RATIO, 1),
     "share of the memory bandwidth that streaming kernels reach"},
    {"attention_forward_ratio", F(attention_forward_ratio), 1, 0.30, LUO_OF(LUO_Q_RATIO, 1),
     "share of the peak in fused attention, forward"},
    {"attention_backward_ratio", F(attention_backward_ratio), 1, 0.33, LUO_OF(LUO_Q_RATIO, 1),
     "the same, backward"},
    {"attention_depth", F(attention_depth), 1, 0, LUO_WITHIN(0, 1e6),
     "keys that fill and drain one block of 128 queries; 0: blocks are not counted"},
    {"misaligned_factor", F(misaligned_factor), 1, 12, LUO_WITHIN(1, 1e6),
     "slow-down of a batched product of which a size is no multiple of 8 (2-byte types)"},
    {"net_ratio", F(net_ratio), 1, 0.90, LUO_OF(LUO_Q_RATIO, 1),
     "share of a node's NIC bandwidth in a large collective"},
    {"net_half_bytes", F(net_half_bytes), 1, 13450000, LUO_WITHIN(0, 9007199254740992.0),
     "bytes a node at which half of that is reached"},
    {"net_step_us", F(net_step_s), 1e-6, 2.7, LUO_OF_OR_0(LUO_Q_LATENCY, 1e-6),
     "latency of one network step of a collective in small pieces"},
    {"p2p_us", F(p2p_s), 1e-6, 10, LUO_OF_OR_0(LUO_Q_LATENCY, 1e-6),
     "latency of one message between devices"},
    {"overlap_loss_nvlink_ratio", F(overlap_loss_nvlink_ratio), 1, 0.15, LUO_WITHIN(0, 0.99),
     "compute slows by 1/(1-x) beside a collective of several devices of a node (where)"},
    {"overlap_loss_net_ratio", F(overlap_loss_net_ratio), 1, 0.02, LUO_WITHIN(0, 0.99),
     "the same beside a collective over the network"},
    LUO_LINK_CLASS_LIST(TABLES)};
enum { PARAMS = sizeof params / sizeof *params };

bool luo_profile_value_key(int i, luo_value_key *out)
{
    if (i >= PARAMS) return false;
    *out = (luo_value_key){params[i].name, params[i].unit, params[i].otherwise, params[i].limit,
                           params[i].says};
    return true;
}

static double *field(luo_profile *profile, const param *m)
{
    return (double *)(void *)((char *)profile + m->at); /* aligned: an offset of a double */
}

bool luo_profile_value(const luo_profile *profile, const char *name, double *value)
{
    for (int32_t i = 0; i < profile->nvalues; i++)
        if (strcmp(profile->values[i].name, name) == 0) {
            *value = profile->values[i].value;
            return true;
        }
    return false;
}

static luo_status unknown_value(const luo_profile *profile, const luo_value *value, luo_err *err)
{
    const char *names[PARAMS];
    for (int i = 0; i < PARAMS; i++) names[i] = params[i].name;
    luo_str text = {0};
    luo_words_expected(&text, value->name, names, PARAMS);
    luo_err_set(err, LUO_EINPUT, "profile `%s` has an unknown value `%s`; %s", profile->name,
                value->name, luo_str_get(&text));
    luo_str_free(&text);
    return LUO_EINPUT;
}

static luo_status check_range(const luo_profile *profile, const param *m, double v, luo_err *err)
{
    const luo_limit limit = luo_limit_for(&m->limit, v);
    if (luo_limit_holds(&m->limit, v)) return LUO_OK;
    return luo_err_set(err, LUO_EINPUT,
                       "`%s` of profile `%s` is %g; %sa number from %g to %g is expected.", m->name,
                       profile->name, v, limit.or_zero ? "0 or " : "", limit.lo, limit.hi);
}

static luo_status take_value(luo_profile *profile, int32_t i, luo_err *err)
{
    const luo_value *value = &profile->values[i];
    for (int32_t k = 0; k < i; k++)
        if (strcmp(profile->values[k].name, value->name) == 0)
            return luo_err_set(err, LUO_EINPUT, "profile `%s` gives `%s` twice; give it once.",
                               profile->name, value->name);
    for (int k = 0; k < PARAMS; k++) {
        const param *m = &params[k];
        if (strcmp(m->name, value->name) != 0) continue;
        LUO_TRY(check_range(profile, m, value->value, err));
        if (value->has_spread && !luo_spread_allowed(value->name, false))
            return luo_spread_refuse(value->name, err);
        if (m->at != NOWHERE) *field(profile, m) = value->value * m->unit;
        return LUO_OK;
    }
    return unknown_value(profile, value, err);
}

/* Ascending sizes: the interpolation looks between neighbours. */
static luo_status check_curves(const luo_profile *profile, luo_err *err)
{
    for (int32_t i = 0; i < profile->ncurves; i++) {
        const luo_curve *curve = &profile->curves[i];
        bool ok = curve->devices >= 2 && curve->n >= 1;
        for (int32_t k = 0; ok && k < curve->n; k++)
            ok = curve->at[k].bytes > 0 && curve->at[k].busbw_bytes_per_s > 0 &&
                 (k == 0 || curve->at[k].bytes > curve->at[k - 1].bytes);
        for (int32_t k = 0; ok && k < i; k++)
            ok = profile->curves[k].op != curve->op || profile->curves[k].devices != curve->devices;
        if (!ok)
            return luo_err_set(err, LUO_EINPUT,
                               "profile `%s` has a bad %s table for %d devices; one table per "
                               "number of devices (2 or more), ascending sizes and bandwidths "
                               "above 0 are expected.",
                               profile->name, luo_coll_name(curve->op), curve->devices);
    }
    for (int32_t i = 0; i < profile->nop_times; i++)
        if (!(profile->op_times[i].seconds >= 0))
            return luo_err_set(err, LUO_EINPUT,
                               "profile `%s` has a time below 0 for `%s`; a measured time is "
                               "expected.",
                               profile->name, profile->op_times[i].op);
    return LUO_OK;
}

static luo_status check_required(const luo_profile *profile, luo_err *err)
{
    if (profile->peak_flops[LUO_BF16] <= 0 && profile->peak_flops[LUO_F32] <= 0 &&
        profile->peak_flops[LUO_F64] <= 0)
        return luo_err_set(err, LUO_EINPUT,
                           "profile `%s` has no value `peak_bf16_tflop_per_s` (not known in any "
                           "source); measure it with `luoshu calibrate`.",
                           profile->name);
    if (profile->memory_bytes_per_s <= 0 && profile->nop_times == 0)
        return luo_err_set(err, LUO_EINPUT,
                           "profile `%s` has no value `memory_gbytes_per_s`; give it or an "
                           "op_times table.",
                           profile->name);
    if (profile->memory_bytes <= 0)
        return luo_err_set(err, LUO_EINPUT, "profile `%s` has no value `memory_gib`; give it.",
                           profile->name);
    return LUO_OK;
}

luo_status luo_profile_finish(luo_profile *profile, luo_err *err)
{
    for (int i = 0; i < PARAMS; i++)
        if (params[i].at != NOWHERE)
            *field(profile, &params[i]) = params[i].otherwise * params[i].unit;
    for (int32_t i = 0; i < profile->nvalues; i++) {
        const luo_status st = take_value(profile, i, err);
        if (st != LUO_OK)
            return luo_err_at(err, st, NULL, profile->values[i].line, profile->values[i].col);
    }
    double f16 = 0; /* docs/cost-model.md#precision: costed as bf16 with the type's f16 peak */
    if (profile->peak_flops[LUO_BF16] <= 0 &&
        luo_profile_value(profile, "peak_f16_tflop_per_s", &f16))
        profile->peak_flops[LUO_BF16] = f16 * 1e12;
    LUO_TRY(check_required(profile, err));
    return check_curves(profile, err);
}

luo_status luo_profile_peak(const luo_profile *profile, luo_dtype dtype, double *flops,
                            luo_err *err)
{
    if (profile->peak_flops[dtype] > 0) {
        *flops = profile->peak_flops[dtype];
        return LUO_OK;
    }
    luo_str lists = {0};
    for (int i = 0; i < PARAMS; i++) {
        double v;
        if (strncmp(params[i].name, "peak_", 5) != 0 ||
            !luo_profile_value(profile, params[i].name, &v))
            continue;
        const char *dt = params[i].name + 5;
        luo_str_addf(&lists, "%s%.*s", lists.len ? ", " : "", (int)strcspn(dt, "_"), dt);
    }
    const luo_status st =
        lists.failed
            ? luo_err_nomem(err)
            : luo_err_set(err, LUO_EINPUT, "profile `%s` has no peak for dtype `%s`; it lists %s.",
                          profile->name, luo_dtype_name(dtype), luo_str_get(&lists));
    luo_str_free(&lists);
    return st;
}

luo_status luo_profile_under(const luo_profile *profile, const luo_stack *stack, luo_dtype dtype,
                             luo_profile *room, const luo_profile **out, luo_err *err)
{
    *out = profile;
    if (stack->fp8_recipe != LUO_FP8_NONE && dtype != LUO_BF16)
        return luo_err_set(err, LUO_EINPUT,
                           "stack `%s` has fp8_recipe %s, which is for bf16; the data are %s.",
                           stack->name, luo_fp8_recipe_name(stack->fp8_recipe),
                           luo_dtype_name(dtype));
    if (stack->gemm_ratio == 1 && stack->attention_ratio == 1 && !stack->tf32) return LUO_OK;
    *room = *profile;
    room->gemm_ratio *= stack->gemm_ratio;
    room->attention_forward_ratio *= stack->attention_ratio;
    room->attention_backward_ratio *= stack->attention_ratio;
    *out = room;
    double tf32 = 0;
    if (!stack->tf32) return LUO_OK;
    if (dtype != LUO_F32)
        return luo_err_set(err, LUO_EINPUT,
                           "stack `%s` has precision tf32, which is for f32; the "
                           "data are %s.",
                           stack->name, luo_dtype_name(dtype));
    if (!luo_profile_value(profile, "peak_tf32_tflop_per_s", &tf32))
        return luo_err_set(err, LUO_EINPUT,
                           "profile `%s` has no value `peak_tf32_tflop_per_s` (not known in any "
                           "source); measure it with `luoshu calibrate`.",
                           profile->name);
    room->peak_flops[LUO_F32] = tf32 * 1e12;
    return LUO_OK;
}
