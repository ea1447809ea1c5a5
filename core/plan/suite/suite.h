/* suite.h: published training steps, one row each, as cases that can be predicted.
 *
 * A row says what was trained on what, how it was cut and how long a step took. A case is the same
 * as model, cluster, profile, stack and uniform plan of ours; what the row leaves open is decided
 * here, the same way for all, and told (luo_case.assumed). */
#ifndef LUO_CORE_PLAN_SUITE_SUITE_H
#define LUO_CORE_PLAN_SUITE_SUITE_H
#include "core/plan/step/step.h"
#include "core/plan/plan.h"

#define LUO_SPLIT_LIST(X) X(LUO_SPLIT_CAL, "cal") X(LUO_SPLIT_VAL, "val") X(LUO_SPLIT_DROP, "drop")
typedef enum luo_suite_split { LUO_SPLIT_LIST(LUO_WORD_VALUE) } luo_suite_split;
/* from_tflops96, 72: computed back from printed FLOP/s with the form of recompute, and without;
 * oom: it ran out of memory; mfu_only: only FLOP/s are printed, by a convention of the source. */
#define LUO_STEP_KIND_LIST(X)                                                                      \
    X(LUO_STEP_MEASURED, "measured")                                                               \
    X(LUO_STEP_FROM_FLOPS96, "from_tflops96")                                                      \
    X(LUO_STEP_FROM_FLOPS72, "from_tflops72")                                                      \
    X(LUO_STEP_FROM_TOKENS, "from_tokens")                                                         \
    X(LUO_STEP_OOM, "oom")                                                                         \
    X(LUO_STEP_MFU_ONLY, "mfu_only")
typedef enum luo_step_kind { LUO_STEP_KIND_LIST(LUO_WORD_VALUE) } luo_step_kind;
const char *luo_step_kind_name(luo_step_kind kind);

typedef struct luo_suite_row { /* 0 and "": not printed */
    const char *id, *suite, *system, *date, *gpu, *fabric, *model, *precision;
    const char *layers_per_stage, *stage_devices, *source, *note, *mem_by_rank;
    luo_suite_split split;
    luo_step_kind kind;
    const char *file;
    int line;
    int64_t layers, hidden, heads, kv_heads, ffn, vocab, seq, gbs;
    int32_t gpus, gpus_per_node, tp, pp, vpp, dp, cp, mbs, zero, recompute;
    bool sp;
    double step_s, grad_reduce_s, mem_bytes, tflops_gpu;
    int32_t ep;
    int64_t experts, topk, moe_ffn, shared_ffn, dense_layers;
    bool mla;
} luo_suite_row;

/* Rows that say they are no basis for a fit. */
bool luo_suite_excluded(const luo_suite_row *row);
/* The name of the software's stack: `system`, or what the note says it was instead. */
const char *luo_suite_software(const luo_suite_row *row);
int32_t luo_suite_nodes(const luo_suite_row *row);

/* ---- where GPUs, fabrics and stacks of a row come from ---- */

typedef struct luo_suite_gpu {
    const char *name, *profile; /* as rows call it: "A100-80G-SXM"; ours: "a100-80" */
    double nvlink_bytes_per_s;  /* one way, of all links of the GPU; 0: joined by PCIe */
    double pcie_bytes_per_s;    /* one way; 0: joined by NVLink */
} luo_suite_gpu;
/* NULL: not known. */
const luo_suite_gpu *luo_suite_gpu_of(const char *name);

typedef struct luo_suite_fabric {
    int32_t nics;
    double nic_bytes_per_s;
    bool chosen; /* the row does not tell */
} luo_suite_fabric;
/* "ib-hdr200x8": 8 NICs of 200 Gbit/s; "8x25": 8 of 25 GB/s, and in nodes of more than 8 GPUs
 * (racks joined by NVLink) one of them a GPU; "roce-1600g": so much of a node; "gh200-4x200g": 4 of
 * 200, at the 92.5 GB/s a node that were measured there. Of fabrics that are not known: 8 NICs, of
 * 50 GB/s from H100 on and of 25 GB/s before. */
luo_suite_fabric luo_suite_fabric_of(const luo_suite_row *row);
/* Bytes/s of a node of these GPUs, where nodes of one site differ ("eth-1g-25g"); else as above. */
double luo_suite_node_rate(const luo_suite_row *row, const luo_suite_gpu *gpu);

/* Measured layers of networks (conventions: `layer_times`): the embedding is layer 0, the head the
 * last one; communication of the tensor group is in the seconds. */
typedef struct luo_layer_time {
    const char *model, *gpu; /* as the table calls them */
    int32_t sequences, tp, layer;
    double forward_s, backward_s, update_s;
} luo_layer_time;
typedef struct luo_layer_times {
    luo_layer_time *at;
    int32_t n, cap;
} luo_layer_times;

/* What cases share; the constants in it may be changed between two predictions. */
typedef struct luo_suite_kit {
    /* The profile of a GPU (ours: "a100-80") as a row uses it, its precision (fp16 bf16 tf32 fp32
     * fp8) included; the stack of a row's system. NULL: there is none, err says so. */
    luo_profile *(*profile)(void *ctx, const luo_suite_row *row, const char *name, luo_err *err);
    luo_stack *(*stack)(void *ctx, const luo_suite_row *row, luo_err *err);
    const luo_layer_times *layers; /* for rows of several GPU types; NULL: none at hand */
    void *ctx;
} luo_suite_kit;

typedef struct luo_case {
    const luo_suite_row *row;
    luo_model model;
    luo_cluster *cluster;
    luo_profile *profile; /* of the only group; of the first, where GPU types differ */
    double peak_flops;    /* of all GPUs */
    luo_stack *stack;
    luo_dtype dtype;
    int32_t micro_batch_sequences, micro_batches;
    int32_t *dev;        /* [((pipeline*pp + stage)*cp + c)*tp + i] */
    int64_t *layers;     /* per stage */
    int64_t *chunks;     /* [chunk*pp + stage], where these are not equal; NULL: they are */
    luo_status refused;  /* why it is no case, said in `assumed`; LUO_OK: it is one */
    double measured_s;   /* 0: none */
    const char *assumed; /* "": nothing */
} luo_case;

/* Errors: LUO_EINPUT what the row says is not possible or not known; LUO_EUNSUP it cannot be said
 * as a plan (yet); LUO_ENOMEM. Owner: arena; profile and stack are the kit's. */
luo_status luo_case_make(luo_arena *arena, const luo_suite_row *row, const luo_suite_kit *kit,
                         luo_case *out, luo_err *err);
/* The plan, for the simulator. Errors: LUO_EUNSUP no program for it; LUO_EINPUT; LUO_ENOMEM. */
luo_status luo_case_plan(luo_arena *arena, const luo_case *one, luo_plan **out, luo_err *err);
/* The stack's rules of memory for this row: DeepSpeed's bf16 optimizer held gradients in bf16 until
 * 2022-02-27, in f32 since (bigscience chronicles). */
luo_memory_rules luo_case_memory(const luo_case *one);
/* What the row's source printed as memory, bytes, of a device that needs memory: what its device
 * had taken, context included, where it read that (bloom); else the largest allocation. */
double luo_case_printed(const luo_case *one, const luo_memory *memory);
/* The closed form of a whole step. Errors: those of luo_plan_step. */
luo_status luo_case_closed(luo_arena *scratch, const luo_case *one, luo_step_cost *out,
                           luo_err *err);
/* FLOP of the step by the 96 form if everything is recomputed, else the 72 form, over N*P, times
 * 1 + (p-1)/(v*m): the step at the GPU's peak. The naive floor divides it by one constant. 0: the
 * row is no case. */
double luo_case_naive(const luo_case *one);
#endif
