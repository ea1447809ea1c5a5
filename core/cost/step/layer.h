/* layer.h: one layer of a transformer or of an mlp, embedding, head and optimizer in closed form
 * (docs/cost-model.md#layers). Notation: T tokens of the micro-batch, t tensor, c context
 * parallel. */
#ifndef LUO_CORE_COST_STEP_LAYER_H
#define LUO_CORE_COST_STEP_LAYER_H
#include "core/cost/cost.h"
#include "core/graph/context.h"
#include "core/graph/moe/alltoall.h"

typedef struct luo_layer_shape {
    const luo_model *model;
    int64_t layer; /* number of the layer: dense or experts */
    int64_t tokens, sequence_tokens; /* T; tokens / sequence_tokens sequences */
    int32_t tp;
    luo_context context;             /* of equal shares; c 0: 1 */
    bool sequence_parallel;
    int32_t experts_among; /* neighbours of the tensor group that have all experts, each some whole
                              ones; 0: experts are cut. Pre: it divides tp; no context */
    luo_alltoall_kind experts_exchange; /* how their rows travel between nodes */
    /* Sizes on the device when shares are uneven; 0: cd(heads, t), cd(kv_heads, t), cd(ffn, t). */
    int64_t local_heads, local_kv_heads, local_ffn;
    /* What backward runs beside the layer's own kernels, GPU seconds: pieces of gradients added. */
    double beside;
    int32_t beside_kernels;
} luo_layer_shape;

/* The shape of a layer, or of embedding and head, of micro-batches of so many sequences, padded as
 * plans pad them: cuts among context-parallel ranks are exact, and so is one among tensor ranks. */
luo_layer_shape luo_layer_of(const luo_model *model, int64_t sequences, int64_t sequence_tokens,
                             int32_t tp, luo_context context, bool sequence_parallel);

/* Weights of a layer in the order in which forward reads them; backward completes their gradients
 * in the opposite order. */
typedef enum luo_layer_part {
    LUO_LAYER_NORM1,
    LUO_LAYER_QKV,
    LUO_LAYER_OUT,
    LUO_LAYER_NORM2,
    LUO_LAYER_UP,
    LUO_LAYER_DOWN,
    LUO_LAYER_PARTS
} luo_layer_part;
/* The first part that a layer of the model has: without attention its second half is all of it. */
static inline luo_layer_part luo_layer_first(const luo_model *model)
{
    return luo_model_has_attention(model) ? LUO_LAYER_NORM1 : LUO_LAYER_NORM2;
}

/* GPU seconds without communication and without the host's floor. */
typedef struct luo_layer_gpu {
    luo_layer_part first; /* parts before it are not there */
    double forward, backward;
    double core;       /* attention core forward, run again by selective recompute; 0 if fused */
    luo_ring ring[2];  /* steps of attention, forward and backward; sum counts in neither */
    double kept[2];    /* copies of what stays of queries, of keys in an exchange; nor these */
    double kernels, kernels_backward; /* as luo_cost_role counts them */
    /* Not in forward and backward: rotary positions, norms of queries and keys. */
    double extra_forward, extra_backward;
    /* What forward and backward are made of: the parts (backward: dX and dW of the products) .. */
    double y[LUO_LAYER_PARTS], dx[LUO_LAYER_PARTS], dw[LUO_LAYER_PARTS];
    double attention[2], activation[2], residual[2]; /* .. and the rest, forward and backward */
} luo_layer_gpu;
/* Errors: E1, E2; LUO_EINPUT for vgg. Source: 4.2 to 4.4; experts: one batched product each. */
luo_status luo_cost_layer_gpu(const luo_profile *profile, const luo_stack *stack, luo_dtype dtype,
                              const luo_layer_shape *s, luo_layer_gpu *out, luo_err *err);

/* Seconds of a layer on a device group. */
typedef struct luo_layer_cost {
    double forward, backward; /* with communication and host floor; recompute within backward */
    double forward_comm, backward_comm; /* exposed part of them */
    double read[LUO_LAYER_PARTS]; /* after the layer's forward began: its weights are needed */
    double done[LUO_LAYER_PARTS]; /* after its backward began: their gradients are complete */
    double due[LUO_LAYER_PARTS];  /* the same of biases, which need no product */
    double reread, renorm; /* after its backward began: its matrices, its norms are needed */
    double beside; /* of the shape, with the host's floor; not in backward */
    double input, weight; /* a backward cut in two: BI, with communication and recompute, and BW */
    double weight_done[LUO_LAYER_PARTS], weight_due[LUO_LAYER_PARTS]; /* done, due: in BW */
} luo_layer_cost;
/* Ranks of the tokens of a micro-batch; 1 without context parallelism. */
static inline int32_t luo_layer_ranks(const luo_layer_shape *shape)
{
    return shape->context.c > 1 ? shape->context.c : 1;
}
/* Tokens of one of them. */
static inline int64_t luo_layer_tokens(const luo_layer_shape *shape)
{
    return (shape->tokens + luo_layer_ranks(shape) - 1) / luo_layer_ranks(shape);
}
/* Context parallelism: attention is the ring of luo_cost_ring, which waits for what it needs beside
 * no other work, and the messages that exchange heads for tokens before and behind it; the slowest
 * rank's work and hop count for all.
 * dev[0..t*c): context-parallel index outermost. The slowest device decides. Forward: two
 * all-reduces of T*h*e over each tensor group (with sequence parallelism all-gather and
 * reduce-scatter, the same volume) times tp_exposed_factor; backward the same, but with tp_overlap
 * the sums of dX run beside dW, slowed by the overlap loss; full recompute runs the forward with
 * its two collectives again, selective only the unfused attention core.
 * Cut in two, BI has all but dW, and no dW to hide sums; BW's inputs are gathered again meanwhile.
 * recompute: 0 none, 1 selective, 2 full. */
luo_status luo_cost_layer(const luo_cost_ctx *ctx, const luo_layer_shape *s, const int32_t *dev,
                          int recompute, luo_layer_cost *out, luo_err *err);

typedef struct luo_pair_cost {
    double forward, backward;
    double read, done; /* the matrix is needed, its gradient complete: from the begin of each */
    double reread;     /* backward needs it */
    double input, weight; /* BI and BW */
} luo_pair_cost;
/* Head with its norm and loss and the sum of dX over dev; embedding with its all-reduce over dev,
 * learned positions included. Host floor per kernel. */
luo_status luo_cost_head(const luo_cost_ctx *ctx, const luo_layer_shape *s, const int32_t *dev,
                         luo_pair_cost *out, luo_err *err);
luo_status luo_cost_embedding(const luo_cost_ctx *ctx, const luo_layer_shape *s,
                              const int32_t *dev, luo_pair_cost *out, luo_err *err);
/* `parameters` updated by each of dev, the slowest: streaming + 40 host launches. */
luo_status luo_cost_optimizer(const luo_cost_ctx *ctx, const int32_t *dev, int32_t n,
                              double parameters, double *seconds, luo_err *err);
#endif
