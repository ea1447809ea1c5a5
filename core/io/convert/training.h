/* training.h: a training of alike pipelines as other tools state it: sizes of a network and degrees
 * of parallelism. All of them say the same in other words; from here it is one way to files. */
#ifndef LUO_CORE_IO_CONVERT_TRAINING_H
#define LUO_CORE_IO_CONVERT_TRAINING_H
#include "core/io/convert/convert_internal.h"
#include "core/plan/plan.h"

typedef struct convert_place { /* where something stands in the source; line 0: nowhere */
    int line, col;
} convert_place;

typedef struct convert_network { /* sizes: 0 where nothing is said */
    const char *name;
    int64_t layers, hidden, ffn_hidden, heads, kv_heads, head_dim, vocab, max_sequence_tokens;
    bool rmsnorm, gated, gelu, rope, tied, linear_bias, qkv_bias, qk_norm;
    double rope_base, norm_eps; /* 0: the family's */
    int64_t experts, experts_per_token, expert_ffn_hidden, shared_ffn_hidden, first_dense_layers;
    bool renorm;
    bool latent; /* attention from latent vectors, of these sizes */
    int64_t q_lora, kv_lora, nope, rotary, v;
} convert_network;

/* What stands for all sizes of a degree: 0: not said, 1 is meant (devices, dp: what follows). */
typedef struct convert_training {
    convert_network network;
    int64_t devices, tp, pp, cp, ep, dp;
    bool experts_dealt; /* experts are not cut by tp */
    int64_t micro_batch, global_batch, micro_batches, sequence_tokens;
    int64_t chunks;                    /* of a stage */
    int64_t first_layers, last_layers; /* of the first and last stage, 0: as the others */
    const char *layout;                /* of --pipeline-model-parallel-layout, NULL: none */
    convert_place layout_at;
    int64_t zero;
    luo_dtype dtype;
    luo_shard shard;         /* of zero 3 */
    int64_t shard_pipelines; /* hybrid */
    double bucket_mib;       /* of gradients; 0: as the stack */
    bool sequence_parallel, tp_pp_dp, gpipe, zb_h1;
    luo_recompute recompute;
    int64_t recompute_layers; /* first ones of a chunk; 0: all */
} convert_training;

/* The network of --model, which the source has no sizes of; *given: is there one? */
luo_status convert_network_given(convert_job *job, convert_training *training, bool *given);
/* model.yaml of the network. Errors: LUO_EINPUT a size that is missing. */
luo_status convert_network_file(convert_job *job, const convert_network *network);
/* plan.json of the training; dp and micro-batches follow from devices and batches.
 * Errors: LUO_EINPUT what does not divide, in one sentence with what would. */
luo_status convert_plan_file(convert_job *job, convert_training *training);

/* Stages of a layout string of Megatron ("E|t*5|t*6|t,m,L"): first and last layer of each chunk,
 * by chunk, then stage. at: where the text stands. drop_mtp: layers m are left out with a warning.
 * Errors: LUO_EINPUT. */
typedef struct convert_layout {
    int32_t nchunks, stages;
    luo_range *chunk; /* [chunk * stages + stage] */
    int64_t layers;
} convert_layout;
luo_status convert_layout_read(convert_job *job, const char *text, convert_place at, int32_t stages,
                               bool drop_mtp, convert_layout *out);
#endif
