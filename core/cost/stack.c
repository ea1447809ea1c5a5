/* Constants of a software stack (docs/formats.md#luoshustack1). */
#include <stddef.h>
#include <string.h>

#include "core/base/quantity.h"
#include "core/base/words.h"
#include "core/cost/profile.h"
#include "core/cost/spread.h"

#define F(field) offsetof(luo_stack, field)

static const struct {
    const char *name;
    size_t at;
    double unit, otherwise; /* in the unit of the name */
    luo_limit limit;
    const char *says;
} values[] = {
    {"host_launch_us", F(host_launch_s), 1e-6, 15, LUO_OF_OR_0(LUO_Q_LATENCY, 1e-6),
     "time of the host for one kernel"},
    {"host_exponent", F(host_exponent), 1, 3, LUO_WITHIN(1, 64),
     "how host and device time blend: (device^x + host^x)^(1/x)"},
    {"busbw_factor", F(busbw_factor), 1, 1, LUO_WITHIN(0.01, 100),
     "on measured bandwidths inside a node"},
    {"kernels_forward", F(kernels_forward), 1, 0, LUO_WITHIN(0, 1000),
     "kernels of a layer's forward pass, without collectives; 0: those of the program"},
    {"gemm_ratio", F(gemm_ratio), 1, 1, LUO_WITHIN(0.01, 10), "on `gemm_ratio` of the profile"},
    {"attention_ratio", F(attention_ratio), 1, 1, LUO_WITHIN(0.01, 10),
     "on both attention ratios of the profile"},
    {"grad_comm_bytes", F(grad_comm_bytes), 1, 0, LUO_WITHIN(0, 64),
     "bytes of a gradient between replicas; 0: as the program has it"},
    {"optimizer_bytes", F(optimizer_bytes), 1, LUO_OPTIMIZER_BYTES, LUO_WITHIN(0, 1024),
     "bytes that the update moves for one parameter"},
    {"tp_exposed_factor", F(tp_exposed_factor), 1, 1, LUO_WITHIN(0, 1),
     "share of tensor-parallel communication that is exposed"},
    {"scale_jitter", F(scale_jitter), 1, 0.01, LUO_WITHIN(0, 10),
     "a step takes 1 + x * max(0, log2(nodes / 256)) times as long"},
    {"gradient_bytes", F(memory.gradient_bytes), 1, 0, LUO_WITHIN(0, 64),
     "bytes of a gradient in memory; 0: as the program has it"},
    {"f32_state_bytes", F(memory.f32_state_bytes), 1, 0, LUO_WITHIN(0, 1024),
     "bytes of optimizer state for one f32 parameter; 0: as the program has it"},
    {"framework_gib", F(memory.framework_bytes), 1073741824.0, 0, LUO_WITHIN(0, 1024),
     "memory of the framework itself"},
    {"communicator_mib", F(memory.communicator_bytes), 1048576.0, 0, LUO_WITHIN(0, 1048576),
     "memory of each communicator on a device; 0: in `reserved_gib` of the profile"},
    {"allocator_factor", F(memory.allocator_factor), 1, 1, LUO_WITHIN(1, 16),
     "memory taken over memory used"},
    {"headroom_factor", F(memory.headroom_factor), 1, 1, LUO_WITHIN(1, 16),
     "memory needed over memory taken"},
    {"bucket_mib", F(bucket.mib), 1, 0, LUO_WITHIN(0, LUO_BUCKET_MIB_MAX),
     "bucket size of `bucket_rule: mib`; not given: 25"},
    /* Chosen, until sources that nobody has fitted are scored: docs/cost-model.md#ranges. */
    {"source_spread", F(source_spread), 1, 0.11, LUO_WITHIN(0, LUO_SPREAD_MOST),
     "what differs between measured sources: standard deviation of ln(step), for ranges"},
    {"residual_spread", F(residual_spread), 1, 0.075, LUO_WITHIN(0, LUO_SPREAD_MOST),
     "the same of what the model itself is off by"},
};
enum { VALUES = sizeof values / sizeof *values };

static const struct {
    const char *name, *off, *on;
    size_t at;
    bool otherwise;
    const char *says;
} switches[] = {
    {"attention", "unfused", "fused", F(attention_fused), true,
     "unfused attention writes its scores to memory"},
    {"p2p", "async", "blocking", F(p2p_blocking), false,
     "`blocking`: a stage waits until its message is taken"},
    {"scatter_gather", "off", "on", F(scatter_gather), false,
     "messages between stages carry 1/t and are gathered inside the node"},
    {"tp_overlap", "none", "dgrad", F(tp_overlap), true,
     "`dgrad`: the all-reduce of dX runs beside dW"},
    {"precision", "own", "tf32", F(tf32), false, "`tf32`: products of f32 data at the tf32 peak"},
    {"dp_overlap", "off", "on", F(dp_overlap), false,
     "calls between replicas go when they can, in the simulator and on luoshu's own ranks"},
    {"shard_overlap", "off", "on", F(shard_overlap), true,
     "calls of ZeRO-2 and 3 inside a task run beside its computation; `off`: they take turns"},
    {"dropout", "off", "on", F(memory.dropout), false,
     "masks of dropout are kept for the backward pass"},
    {"silu", "kept", "again", F(memory.silu_again), false,
     "`again`: silu(gate) is computed again in the backward pass"},
    {"norm_inputs", "both", "first", F(memory.norm2_again), false,
     "`first`: the input of the second norm is not kept"},
    {"cross_entropy", "fused", "unfused", F(memory.cross_entropy_unfused), false,
     "`unfused`: a copy of the logits is kept"},
    {"dummy_gradients", "off", "on", F(memory.dummy_gradients), false,
     "gradients without content are kept for the largest layer"},
    {"gradients", "separate", "flat", F(memory.flat_gradients), false,
     "`flat`: one flat buffer, as Megatron's distributed optimizer has it"},
    {"expert_weights", "behind", "inside", F(memory.expert_weights_inside), false,
     "`inside`: weights of tokens act before the last product of experts, as in Megatron-Core "
     "since 2025"},
    {"elementwise", "fused", "eager", F(eager), false,
     "`eager`: norms by root mean square, rotary positions and gated activations are many kernels "
     "each"},
    {"fp8_weights", "each", "once", F(fp8_weights_once), false,
     "`once`: weights become fp8 with their update and are kept, as Transformer Engine has it"},
    {"stage_outputs", "freed", "kept", F(memory.outputs_kept), false,
     "`kept`: outputs of stages stay until the backward pass"},
};
enum { SWITCHES = sizeof switches / sizeof *switches };

bool luo_stack_value_key(int i, luo_value_key *out)
{
    static const luo_limit lanes = LUO_WITHIN(1, LUO_BUCKET_LANES_MAX);
    if (i > VALUES) return false;
    *out = i == VALUES ? (luo_value_key){"dp_lanes", 1, LUO_BUCKET_LANES_DEFAULT, lanes,
                                         "lanes in which a device runs the calls of buckets"}
                       : (luo_value_key){values[i].name, values[i].unit, values[i].otherwise,
                                         values[i].limit, values[i].says};
    return true;
}

bool luo_stack_switch_key(int i, luo_switch_key *out)
{
    if (i >= SWITCHES) return false;
    *out = (luo_switch_key){switches[i].name,
                            {switches[i].off, switches[i].on},
                            switches[i].otherwise,
                            switches[i].says};
    return true;
}

static double *number(luo_stack *stack, int i)
{
    return (double *)(void *)((char *)stack + values[i].at); /* aligned: an offset of a double */
}

static bool *flag(luo_stack *stack, int i)
{
    return (bool *)((char *)stack + switches[i].at);
}

luo_memory_rules luo_stack_memory(const luo_stack *stack)
{
    luo_memory_rules rules = stack->memory;
    rules.attention_unfused = !stack->attention_fused;
    rules.calls_beside = stack->dp_overlap;
    return rules;
}

void luo_stack_default(luo_stack *stack)
{
    *stack = (luo_stack){.name = "luoshu-cuda"};
    for (int i = 0; i < VALUES; i++) *number(stack, i) = values[i].otherwise * values[i].unit;
    for (int i = 0; i < SWITCHES; i++) *flag(stack, i) = switches[i].otherwise;
}

static luo_status unknown(const char *name, luo_err *err)
{
    const char *names[VALUES + SWITCHES + 3];
    for (int i = 0; i < VALUES; i++) names[i] = values[i].name;
    for (int i = 0; i < SWITCHES; i++) names[VALUES + i] = switches[i].name;
    names[VALUES + SWITCHES] = "bucket_rule";
    names[VALUES + SWITCHES + 1] = "fp8_recipe";
    names[VALUES + SWITCHES + 2] = "dp_lanes";
    luo_str text = {0};
    luo_words_expected(&text, name, names, VALUES + SWITCHES + 3);
    luo_err_set(err, LUO_EINPUT, "a stack has no `%s`; %s", name, luo_str_get(&text));
    luo_str_free(&text);
    return LUO_EINPUT;
}

/* Rule and size of buckets go together or not at all. */
static luo_status check_bucket(luo_stack *stack, luo_bucketing bucketing, luo_err *err)
{
    if (bucketing.has_mib && bucketing.rule > LUO_BUCKET_MIB)
        return luo_err_set(err, LUO_EINPUT,
                           "`bucket_mib` belongs to `bucket_rule` mib; leave it "
                           "out for %s.",
                           luo_bucket_rule_name(bucketing.rule));
    stack->bucket = bucketing;
    return LUO_OK;
}

static luo_status set_rule(luo_stack *stack, const char *word, luo_err *err)
{
    luo_bucketing bucketing = stack->bucket;
    const char *names[LUO_BUCKET_RULES];
    for (int i = 1; i < LUO_BUCKET_RULES; i++) {
        names[i - 1] = luo_bucket_rule_name((luo_bucket_rule)i);
        if (strcmp(word, names[i - 1]) != 0) continue;
        bucketing.rule = (luo_bucket_rule)i;
        return check_bucket(stack, bucketing, err);
    }
    luo_str expected = {0};
    luo_words_expected(&expected, word, names, LUO_BUCKET_RULES - 1);
    luo_err_set(err, LUO_EINPUT, "`bucket_rule` is `%s`; %s", word, luo_str_get(&expected));
    luo_str_free(&expected);
    return LUO_EINPUT;
}

static luo_status set_recipe(luo_stack *stack, const char *word, luo_err *err)
{
    const char *names[LUO_FP8_RECIPES];
    for (int i = 0; i < LUO_FP8_RECIPES; i++) {
        names[i] = luo_fp8_recipe_name((luo_fp8_recipe)i);
        if (strcmp(word, names[i]) != 0) continue;
        stack->fp8_recipe = (luo_fp8_recipe)i;
        return LUO_OK;
    }
    luo_str expected = {0};
    luo_words_expected(&expected, word, names, LUO_FP8_RECIPES);
    luo_err_set(err, LUO_EINPUT, "`fp8_recipe` is `%s`; %s", word, luo_str_get(&expected));
    luo_str_free(&expected);
    return LUO_EINPUT;
}

static luo_status set_lanes(luo_stack *stack, double value, luo_err *err)
{
    if (!(value >= 1 && value <= LUO_BUCKET_LANES_MAX) || value != (int32_t)value)
        return luo_err_set(err, LUO_EINPUT, "`dp_lanes` is %g; 1 to %d is expected.", value,
                           LUO_BUCKET_LANES_MAX);
    stack->bucket.lanes = (int32_t)value;
    return LUO_OK;
}

static luo_status set_number(luo_stack *stack, const char *name, double value, luo_err *err)
{
    if (strcmp(name, "dp_lanes") == 0) return set_lanes(stack, value, err);
    for (int i = 0; i < VALUES; i++) {
        if (strcmp(values[i].name, name) != 0) continue;
        const luo_limit *limit = &values[i].limit, l = luo_limit_for(limit, value);
        if (!luo_limit_holds(limit, value))
            return luo_err_set(err, LUO_EINPUT, "`%s` is %g; %sa number from %g to %g is expected.",
                               name, value, l.or_zero ? "0 or " : "", l.lo, l.hi);
        if (values[i].at == F(bucket.mib)) {
            const luo_bucketing bucketing = {stack->bucket.rule, true, value, stack->bucket.lanes};
            return check_bucket(stack, bucketing, err);
        }
        *number(stack, i) = value * values[i].unit;
        return LUO_OK;
    }
    for (int i = 0; i < SWITCHES; i++) {
        if (strcmp(switches[i].name, name) != 0) continue;
        if (value != 0 && value != 1)
            return luo_err_set(err, LUO_EINPUT, "`%s` is %g; 0 (%s) or 1 (%s) is expected.", name,
                               value, switches[i].off, switches[i].on);
        *flag(stack, i) = value == 1;
        return LUO_OK;
    }
    return unknown(name, err);
}

const luo_value *luo_stack_given(const luo_stack *stack, const char *name)
{
    for (int32_t i = 0; i < stack->ngiven; i++)
        if (strcmp(stack->given[i].name, name) == 0) return &stack->given[i];
    return NULL;
}

_Static_assert((int)VALUES + 1 <= (int)LUO_STACK_GIVEN, "each value has a place");
static void remember_given(luo_stack *stack, const luo_value *value)
{
    luo_value_key key;
    int32_t at = 0;
    for (int i = 0; luo_stack_value_key(i, &key); i++) {
        if (strcmp(key.name, value->name) != 0) continue;
        while (at < stack->ngiven && strcmp(stack->given[at].name, value->name) != 0) at++;
        if (at == stack->ngiven) stack->ngiven++;
        stack->given[at] = *value;
        stack->given[at].name = key.name; /* which lives on */
        return;
    }
}

luo_status luo_stack_take(luo_stack *stack, const luo_value *value, luo_err *err)
{
    LUO_TRY(set_number(stack, value->name, value->value, err));
    if (value->has_spread && !luo_spread_allowed(value->name, true))
        return luo_spread_refuse(value->name, err);
    remember_given(stack, value);
    return LUO_OK;
}

luo_status luo_stack_set(luo_stack *stack, const char *name, double value, luo_err *err)
{
    const luo_value v = {.name = name, .source = "", .value = value, .provenance = LUO_FROM_CHOSEN};
    return luo_stack_take(stack, &v, err);
}

luo_status luo_stack_switch(luo_stack *stack, const char *name, const char *word, luo_err *err)
{
    if (strcmp(name, "bucket_rule") == 0) return set_rule(stack, word, err);
    if (strcmp(name, "fp8_recipe") == 0) return set_recipe(stack, word, err);
    for (int i = 0; i < SWITCHES; i++) {
        if (strcmp(switches[i].name, name) != 0) continue;
        if (strcmp(word, switches[i].on) != 0 && strcmp(word, switches[i].off) != 0)
            return luo_err_set(err, LUO_EINPUT, "`%s` is `%s`; `%s` or `%s` is expected.", name,
                               word, switches[i].off, switches[i].on);
        *flag(stack, i) = strcmp(word, switches[i].on) == 0;
        return LUO_OK;
    }
    return unknown(name, err);
}
