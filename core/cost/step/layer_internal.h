/* layer_internal.h: what the files of a layer share; for core/cost/step/layer*.c only. */
#ifndef LUO_CORE_COST_STEP_LAYER_INTERNAL_H
#define LUO_CORE_COST_STEP_LAYER_INTERNAL_H
#include "core/cost/step/layer.h"

/* layer_comm.c */
typedef struct layer_talk { /* the collectives of a tensor group; the slowest group decides */
    double before, behind;  /* seconds of one before a row-parallel and behind a column-parallel
                               product, as backward has them; in forward the other way round */
    double gather, sum;     /* the same of latent vectors, where heads are made of them */
    double loss;
    /* The same around the second half of the layer. Experts that are dealt: rows go there and back
     * in forward, and so do their gradients. */
    double in, out, din, dout;
} layer_talk;
/* *out: of the products and norms, latent vectors included; .loss: of dW beside a sum.
 * Shapes: dev: tp * luo_layer_ranks(shape). Errors: those of luo_cost_group. */
void layer_tensor_comm(const luo_cost_ctx *ctx, const luo_layer_shape *shape, const int32_t *dev,
                       layer_talk *out);
/* What layer_tensor_comm said, with the second half of the layer: .in, .out, .din, .dout. */
luo_status layer_experts_comm(const luo_cost_ctx *ctx, const luo_layer_shape *shape,
                              const int32_t *dev, layer_talk *talk, luo_err *err);
/* Are experts dealt out whole, so that rows go to them and back? */
bool layer_deals_experts(const luo_layer_shape *shape);

/* layer_context.c */
typedef struct layer_context { /* seconds; the slowest rank's */
    double hop;       /* keys and values of a part to the next */
    double queries;   /* messages that exchange heads of queries for tokens, or back .. */
    double keys;      /* .. of keys, or of values; 0: they are not exchanged */
    double copies[2]; /* collective that makes copies of key heads; that adds their gradients */
} layer_context;
void layer_context_comm(const luo_cost_ctx *ctx, const luo_layer_shape *shape, const int32_t *dev,
                        layer_context *out);
/* Collectives of a pass that make copies of key-value heads. */
int32_t layer_copies(const luo_layer_shape *shape);
/* Elements of the keys that go round a ring, on one device. */
double layer_key_elements(const luo_layer_shape *shape);
/* Elements that a device keeps in an exchange: of queries, of keys; 0: there is none. */
void layer_kept_elements(const luo_layer_shape *shape, double elements[2]);
#endif
