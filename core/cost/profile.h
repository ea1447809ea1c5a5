/* profile.h: what one GPU type can do, with the source of each number
 * (docs/formats.md#luoshuprofile1). */
#ifndef LUO_CORE_COST_PROFILE_H
#define LUO_CORE_COST_PROFILE_H
#include <stdbool.h>
#include <stdint.h>

#include "core/base/arena.h"
#include "core/base/err.h"
#include "core/base/quantity.h"
#include "core/base/words.h"
#include "core/graph/program/coll.h"
#include "core/graph/program/program.h"
#include "core/graph/specialize/bucket.h"

#define LUO_PROVENANCE_LIST(X)                                                                     \
    X(LUO_FROM_PAPER, "paper")                                                                     \
    X(LUO_FROM_DATASHEET, "datasheet")                                                             \
    X(LUO_FROM_PUBLIC_CODE, "public_code")                                                         \
    X(LUO_FROM_REPORTED, "reported")                                                               \
    X(LUO_FROM_MEASURED, "measured")                                                               \
    X(LUO_FROM_FITTED, "fitted")                                                                   \
    X(LUO_FROM_CHOSEN, "chosen")
typedef enum luo_provenance { LUO_PROVENANCE_LIST(LUO_WORD_VALUE) } luo_provenance;
const char *luo_provenance_name(luo_provenance provenance);

typedef struct luo_value {
    const char *name, *source;
    double value;
    luo_provenance provenance;
    int line, col;   /* in the file */
    bool has_spread; /* of ln(value): standard deviation (core/cost/spread.h); false: not given */
    double spread;
} luo_value;

/* Classes of links between devices, as tables name them. */
#define LUO_LINK_CLASS_LIST(X)                                                                     \
    X(LUO_CLASS_NVLINK, "nvlink")                                                                  \
    X(LUO_CLASS_PCIE, "pcie")                                                                      \
    X(LUO_CLASS_SOCKET, "socket")                                                                  \
    X(LUO_CLASS_NIC, "nic")                                                                        \
    X(LUO_CLASS_UPLINK, "uplink")                                                                  \
    X(LUO_CLASS_LINE, "line")
typedef enum luo_table_class {
    LUO_LINK_CLASS_LIST(LUO_WORD_VALUE) LUO_TABLE_CLASSES
} luo_table_class;

typedef struct luo_curve_point {
    double bytes, busbw_bytes_per_s;
} luo_curve_point;
/* Measured bus bandwidth of one collective on n devices of one node; points ascend in bytes. */
typedef struct luo_curve {
    luo_coll op;
    int32_t devices, n;
    const luo_curve_point *at;
} luo_curve;
/* A measured op; wins over the formula at exactly these sizes. op: `gemm` (m, n, k; one product),
 * `attention_forward` and `attention_backward` (m = tokens of the one sequence, n = query heads,
 * k = head size, causal). */
typedef struct luo_op_time {
    const char *op;
    luo_dtype dtype;
    int64_t m, n, k;
    double seconds;
} luo_op_time;
/* Measured transfers between two devices; link_class as luo_link_kind_name ("nvlink", "nic", ..).
 * Points of one class ascend in bytes. */
typedef struct luo_p2p_time {
    const char *link_class;
    double bytes, seconds;
} luo_p2p_time;

/* Where measured values and tables come from (`calibrated`); "" and 0: not given. For reports. */
typedef struct luo_calibrated {
    const char *date, *device, *driver, *cuda, *nccl;
    int64_t rows, validation_rows;
} luo_calibrated;

/* Numbers used by the formulas, SI units, defaults of docs/formats.md#names-of-values filled in.
 * 0 means not known for: peak, memory, sm_count. */
typedef struct luo_profile {
    const char *name;
    bool cpu; /* kind: cpu */
    int32_t nvalues;
    const luo_value *values; /* as given, for reports */
    luo_calibrated calibrated;
    double peak_flops[3]; /* by luo_dtype, per second; a GPU without bf16 lists f16 instead */
    double fp8_flops;     /* 0: not known */
    double memory_bytes, reserved_bytes, memory_bytes_per_s;
    double sm_count, launch_s, gemm_ratio, gemm_depth, memory_ratio, attention_depth;
    double attention_forward_ratio, attention_backward_ratio, misaligned_factor;
    double net_ratio, net_half_bytes, net_step_s, p2p_s;
    double overlap_loss_nvlink_ratio, overlap_loss_net_ratio;
    /* Bandwidths of the links that the tables were measured over, by class; 0: not told. NVLink: of
     * all links of a device, others the narrowest on the way. Curves were measured over NVLink if
     * that is told, else over PCIe. */
    double tables_bytes_per_s[LUO_TABLE_CLASSES];
    int32_t ncurves, nop_times, np2p_times;
    const luo_curve *curves;
    const luo_op_time *op_times;
    const luo_p2p_time *p2p_times;
} luo_profile;

/* How products in fp8 find the scales of what they read (docs/cost-model.md#fp8). */
#define LUO_FP8_RECIPE_LIST(X)                                                                     \
    X(LUO_FP8_NONE, "none")                                                                        \
    X(LUO_FP8_DELAYED, "delayed")                                                                  \
    X(LUO_FP8_CURRENT, "current")                                                                  \
    X(LUO_FP8_BLOCKWISE, "blockwise")
typedef enum luo_fp8_recipe { LUO_FP8_RECIPE_LIST(LUO_WORD_VALUE) LUO_FP8_RECIPES } luo_fp8_recipe;
const char *luo_fp8_recipe_name(luo_fp8_recipe recipe);

enum { LUO_STACK_GIVEN = 32 }; /* room for values that files give */
typedef struct luo_stack { /* docs/formats.md#luoshustack1 */
    const char *name;
    int32_t ngiven; /* values that are no defaults, as given last */
    luo_value given[LUO_STACK_GIVEN];
    double host_launch_s, host_exponent, busbw_factor, tp_exposed_factor, scale_jitter;
    double grad_comm_bytes; /* of a gradient between replicas; 0: as the program has it */
    double optimizer_bytes;
    double kernels_forward; /* of a layer, without collectives; 0: as the program has them */
    double gemm_ratio, attention_ratio; /* scale those of the profile */
    double source_spread, residual_spread; /* of ln(step): core/cost/spread.h */
    bool attention_fused, p2p_blocking, scatter_gather;
    bool tp_overlap;         /* all-reduces of dX beside dW; else nothing runs beside them */
    bool tf32;               /* f32 data, products at the tf32 peak */
    luo_fp8_recipe fp8_recipe; /* bf16 data, products of layers in fp8 */
    bool eager;              /* norms, positions and gates by many kernels each */
    bool fp8_weights_once;   /* weights are cast with their update; else by every forward */
    bool dp_overlap;         /* calls between replicas go when they can; else gradients wait for the
                                device's last backward, the first forward for all weights */
    bool shard_overlap;      /* calls of ZeRO-2 and 3 run beside their task; else in turns */
    luo_bucketing bucket;    /* of plans that say nothing */
    luo_memory_rules memory; /* all but attention_unfused; sums of bytes, not GiB */
} luo_stack;

/* What may stand in `values` of a profile or of a stack: docs/formats.md is held to it. */
typedef struct luo_value_key {
    const char *name;
    double unit;      /* of the name, in SI */
    double otherwise; /* default, in the unit of the name; of a profile 0: none */
    luo_limit limit;  /* in the unit of the name */
    const char *says; /* how its meaning in docs/formats.md begins */
} luo_value_key;
/* Key i, from 0; false: there are no more. */
bool luo_profile_value_key(int i, luo_value_key *out);
bool luo_stack_value_key(int i, luo_value_key *out);
typedef struct luo_switch_key {
    const char *name, *words[2];
    int otherwise;    /* the default is words[otherwise] */
    const char *says; /* how its meaning in docs/formats.md begins */
} luo_switch_key;
/* Switch i of a stack, without `bucket_rule` and `fp8_recipe`; false: there are no more. */
bool luo_stack_switch_key(int i, luo_switch_key *out);

/* Fills the numbers of profile from profile->values: defaults, unit conversion. Required names are
 * memory_gib, memory_gbytes_per_s (unless there are op_times) and one peak.
 * Pre: profile->name, values and tables are set. Errors: LUO_EINPUT for what is missing, and
 * unknown names, doubles and numbers out of range (ratios in (0, 1], counts and times >= 0, ..);
 * err->line and col of the value if it is one value's fault. */
luo_status luo_profile_finish(luo_profile *profile, luo_err *err);
/* Value `name` as given in the file (its own unit); false: not given. */
bool luo_profile_value(const luo_profile *profile, const char *name, double *value);
/* Peak for dtype in flop/s. Errors: LUO_EINPUT E2. */
luo_status luo_profile_peak(const luo_profile *profile, luo_dtype dtype, double *flops,
                            luo_err *err);
/* The stack `luoshu-cuda`, docs/formats.md#luoshustack1. */
void luo_stack_default(luo_stack *stack);
/* The profile as programs of this stack use the GPU: its ratios scaled, with precision tf32 the
 * peak of f32 replaced. *out is profile itself or room. Errors: LUO_EINPUT E3 peak_tf32 is not
 * known, or tf32 with another dtype than f32. */
luo_status luo_profile_under(const luo_profile *profile, const luo_stack *stack, luo_dtype dtype,
                             luo_profile *room, const luo_profile **out, luo_err *err);
/* What the stack holds in memory, unfused attention included. */
luo_memory_rules luo_stack_memory(const luo_stack *stack);
/* Sets the value or switch `name`; switches take 0 or 1: `attention` 1 = fused, `p2p` 1 =
 * blocking, `scatter_gather`, `tp_overlap` 1 = dgrad, `precision` 1 = tf32, `dp_overlap`,
 * `shard_overlap`. Values are in the unit of the name (`host_launch_us` in us).
 * Other switches: dropout, silu, norm_inputs, cross_entropy, dummy_gradients, gradients,
 * stage_outputs (core/graph/program/memory_rules.h).
 * `bucket_mib` goes with rule `mib` alone; `dp_lanes` is 1 to 4.
 * A value is given as chosen. Errors: LUO_EINPUT unknown name or out of bounds. */
luo_status luo_stack_set(luo_stack *stack, const char *name, double value, luo_err *err);
/* The same of a value with its source and spread, as a file gives it. Owner: what value points to
 * is kept. Errors: also a spread that it cannot have. */
luo_status luo_stack_take(luo_stack *stack, const luo_value *value, luo_err *err);
/* What was given last for value `name`; NULL: nothing. */
const luo_value *luo_stack_given(const luo_stack *stack, const char *name);
/* A switch by its word: attention fused|unfused, p2p async|blocking, scatter_gather on|off,
 * tp_overlap none|dgrad, precision own|tf32, dp_overlap on|off, shard_overlap on|off,
 * bucket_rule mib|ddp|megatron|deepspeed|unit. Errors: LUO_EINPUT unknown switch or word, or a rule
 * that does not go with the bucket_mib that was set. */
luo_status luo_stack_switch(luo_stack *stack, const char *name, const char *word, luo_err *err);
#endif
