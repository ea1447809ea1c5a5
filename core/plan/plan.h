/* plan.h: one way to place a model on a cluster (docs/formats.md#luoshuplan1). */
#ifndef LUO_CORE_PLAN_PLAN_H
#define LUO_CORE_PLAN_PLAN_H
#include "core/base/str.h"
#include "core/base/work.h"
#include "core/cost/cluster.h"
#include "core/graph/context.h"
#include "core/graph/moe/alltoall.h"
#include "core/graph/schedule/sched.h"
#include "core/graph/specialize/bucket.h"

#define LUO_RECOMPUTE_LIST(X)                                                                      \
    X(LUO_RECOMPUTE_NONE, "none")                                                                  \
    X(LUO_RECOMPUTE_SELECTIVE, "selective")                                                        \
    X(LUO_RECOMPUTE_FULL, "full")
typedef enum luo_recompute { LUO_RECOMPUTE_LIST(LUO_WORD_VALUE) } luo_recompute;
enum { LUO_RECOMPUTES = LUO_RECOMPUTE_FULL + 1 };

/* How context-parallel devices exchange: a ring; keys and values go round; heads for tokens and
 * back; a2a among context_inner neighbours, a ring of such parts. */
#define LUO_CONTEXT_KIND_LIST(X)                                                                   \
    X(LUO_CONTEXT_AUTO, "auto")                                                                    \
    X(LUO_CONTEXT_RING, "ring")                                                                    \
    X(LUO_CONTEXT_A2A, "a2a")                                                                      \
    X(LUO_CONTEXT_2D, "2d")
typedef enum luo_context_kind { LUO_CONTEXT_KIND_LIST(LUO_WORD_VALUE) } luo_context_kind;

/* auto: zigzag if the model is causal and it is no a2a, else contiguous. */
#define LUO_CONTEXT_LAYOUT_LIST(X)                                                                 \
    X(LUO_LAYOUT_AUTO, "auto")                                                                     \
    X(LUO_LAYOUT_ZIGZAG, "zigzag")                                                                 \
    X(LUO_LAYOUT_CONTIGUOUS, "contiguous")
typedef enum luo_context_layout { LUO_CONTEXT_LAYOUT_LIST(LUO_WORD_VALUE) } luo_context_layout;

/* ZeRO-3: what is cut, over which pipelines: all over all of them, and weights are gathered layer
 * by layer; the same inside groups of pipelines, which hold copies; gradients and state, and
 * weights are gathered once a step. */
#define LUO_SHARD_LIST(X)                                                                          \
    X(LUO_SHARD_FULL, "full")                                                                      \
    X(LUO_SHARD_HYBRID, "hybrid")                                                                  \
    X(LUO_SHARD_GRAD_OP, "grad-op")
typedef enum luo_shard { LUO_SHARD_LIST(LUO_WORD_VALUE) LUO_SHARDS } luo_shard;
const char *luo_shard_name(luo_shard s);

typedef struct luo_sharding {
    luo_shard kind;
    int32_t pipelines; /* hybrid: of a group */
    bool has_depth;
    int32_t depth; /* layers gathered ahead; unsaid: LUO_PREFETCH_DEFAULT */
} luo_sharding;
/* Are there copies of the pieces? One group of all pipelines is shard full. */
bool luo_shard_has_copies(const luo_sharding *sharding, int32_t npipelines);
enum { LUO_PREFETCH_DEFAULT = 1, LUO_PREFETCH_MAX = 8 };

typedef struct luo_range {
    int32_t lo, hi; /* layers lo <= l < hi */
} luo_range;

/* Micro-batches of a lost stage that the devices of the same stage of another pipeline run. */
typedef struct luo_reroute {
    int32_t pipeline, micro_batches;
} luo_reroute;

typedef struct luo_stage {
    int32_t nlayers; /* number of ranges: one per chunk */
    const luo_range *layers;
    int32_t ndev;
    const int32_t *dev; /* context-parallel index outermost, then tensor-parallel index */
    int32_t context_parallel;
    luo_context_kind context_kind;
    luo_context_layout context_layout;
    int32_t context_inner;          /* 2d: neighbours; else 0 */
    const uint32_t *context_shares; /* context_parallel values; NULL: all 1 */
    const uint32_t *shares; /* tp values; NULL: all 1. tp = ndev / context_parallel */
    luo_recompute recompute;
    int32_t nrecompute; /* ranges; 0: the whole stage */
    const luo_range *recompute_layers;
    bool embedding, head;
    bool experts_dealt; /* experts: expert */
    int32_t nreroute;   /* above 0: the stage has no devices, others do it (replan/reroute.h) */
    const luo_reroute *reroute;
} luo_stage;

typedef struct luo_pipeline {
    int32_t micro_batches;
    int32_t micro_batch_sequences;     /* resolved: own or the plan's */
    const int64_t *micro_batch_tokens; /* NULL or micro_batches values */
    int32_t nstages;
    const luo_stage *stages;
} luo_pipeline;

/* How the move of an annotated plan is carried out. */
enum { LUO_MOVE_FACTORS = LUO_COLL_VARIANTS, LUO_MOVE_VARIANTS };
#define LUO_MOVE_VARIANT_LIST(X)                                                                   \
    LUO_COLL_VARIANT_LIST(X)                                                                       \
    X(LUO_MOVE_FACTORS, "factors")

typedef struct luo_plan_annotation {
    const char *tensor, *annotation, *at, *variant; /* at "" and variant "auto" by default */
} luo_plan_annotation;

typedef struct luo_assignment {
    int64_t sequence, length_tokens;
    int32_t pipeline, micro_batch;
} luo_assignment;

typedef struct luo_state_layout { /* all 0: null */
    int32_t data, tensor, pipeline, ndev;
    const int32_t *dev;
} luo_state_layout;

typedef struct luo_plan {
    const char *name, *model, *cluster; /* names only, not part of the hash */
    int32_t layers, devices;
    luo_dtype dtype;
    int64_t sequence_tokens;
    int32_t micro_batch_sequences, zero;
    luo_bucketing bucket; /* as said; the stack's if it says nothing */
    luo_sharding sharding; /* of zero 3 */
    bool sequence_parallel;
    luo_sched_kind schedule;
    bool staggered; /* optimizer_step: a stage steps when its own gradients are summed */
    int32_t chunks;
    int32_t npipelines;
    const luo_pipeline *pipelines;
    int32_t nannotations, nassignment, ngroups, npinned;
    const luo_plan_annotation *annotations;
    const luo_assignment *assignment;
    const struct luo_expert_group {
        int32_t n;
        const int32_t *pipeline;
    } *expert_groups;
    int32_t expert_parallel; /* devices that have all experts together; 0: all of a group */
    luo_alltoall_kind moe_exchange; /* how rows of experts that are dealt travel between nodes */
    luo_state_layout state_layout;
    const char *const *pinned;
    const char *meta_json; /* canonical JSON of `meta`, NULL: none */
    int32_t first_absent;  /* of luo_plan_fill_absent; else 0. No part of text or hash */
} luo_plan;

static inline int32_t luo_sharding_depth(const luo_sharding *sharding)
{
    return sharding->has_depth ? sharding->depth : LUO_PREFETCH_DEFAULT;
}
const char *luo_recompute_name(luo_recompute r);
/* Tensor-parallel width of a stage. Pre: context_parallel >= 1. */
int32_t luo_stage_tp(const luo_stage *st);

const char *luo_context_kind_name(luo_context_kind k);
const char *luo_context_layout_name(luo_context_layout l);
/* How pipeline i cuts its sequences; its stages do it alike (luo_plan_check). Shares are the
 * plan's. */
luo_context luo_plan_context(const luo_plan *plan, bool causal, int32_t i);
bool luo_plan_has_context(const luo_plan *plan); /* does any pipeline cut sequences? */
/* What every sequence of pipeline i is padded to a multiple of: the cut among context-parallel
 * ranks is exact then, and so is a further one among the tensor-parallel ranks of each stage.
 * 1 without context parallelism. */
int64_t luo_plan_context_multiple(const luo_plan *plan, bool causal, int32_t i);
/* Tokens of a micro-batch of `tokens` with its pads: rows of row_tokens each, or one row of its own
 * length if it is no multiple. */
int64_t luo_plan_padded(int64_t tokens, int64_t row_tokens, int64_t multiple);

/* Canonical text (docs/formats.md#luoshuplan1) appended to text; the hash is FNV-1a over it, made
 * without memory. Names, meta and pinned pointers are no part of it. */
void luo_plan_canonical(luo_str *text, const luo_plan *plan);
uint64_t luo_plan_hash(const luo_plan *plan);

/* Where a finding stands in the file: a JSON pointer such as "/pipelines/1/stages/0/devices". */
typedef struct luo_plan_finding {
    luo_status st;
    char pointer[128];
    char text[LUO_ERR_TEXT];
} luo_plan_finding;
/* Checks of docs/formats.md#luoshuplan1 that need no program, in that order, all of them reported:
 * layer coverage; devices known, up, used once; share divisibility; pipelines agree; schedule and
 * chunks; form of the annotations. cluster or model NULL: only what the plan says itself. *n: all
 * findings; *out has the first LUO_DIAGS_MAX of them, which are as many as are shown of a file.
 * Pre: the cluster is finished. Errors: LUO_EINPUT when there is any finding; LUO_ENOMEM.
 * Owner: *out belongs to arena. Cost: O(plan + layers * pipelines).
 * Source: docs/formats.md#luoshuplan1. See: tests/unit/check_plan.c. */
luo_status luo_plan_check(luo_arena *arena, const luo_plan *plan, const luo_model *model,
                          const luo_cluster *cluster, luo_plan_finding **out, int32_t *n);
/* Within the limits of work? Errors: LUO_E2BIG, with the part of the plan. */
luo_status luo_plan_check_work(const luo_plan *plan, const luo_work *limits, luo_err *err);
/* Rows of the vocabulary under this plan: the model's, or, where tensor parallelism does not divide
 * these, the next multiple of 128 for each part that they are cut into. The rest are of no token:
 * their exponentials and gradients are 0, and files have none of them. */
int64_t luo_plan_vocab(const luo_plan *plan, const luo_model *model);
/* The model with so many rows. Owner: arena, or whose the model is. Errors: LUO_ENOMEM. */
luo_status luo_plan_model(luo_arena *arena, const luo_plan *plan, const luo_model *model,
                          const luo_model **out, luo_err *err);
/* Devices of the plan, ascending. */
luo_status luo_plan_devices(luo_arena *arena, const luo_plan *plan, int32_t **dev, int32_t *n,
                            luo_err *err);
/* Do all devices of the plan, those of its `state_layout` included, have device[d]? device: per
 * device of its cluster. */
bool luo_plan_within(const luo_plan *plan, const bool *device);
/* Sequences and tokens of one step; INT64_MAX when the tokens do not fit. */
int64_t luo_plan_sequences(const luo_plan *plan);
int64_t luo_plan_tokens(const luo_plan *plan);
/* Deep copy into another arena. */
luo_status luo_plan_copy(luo_arena *arena, const luo_plan *plan, luo_plan **out, luo_err *err);
#endif
