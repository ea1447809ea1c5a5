/* layer_internal.h: what context parallelism adds to a layer; for core/cost/step/layer*.c only. */
#ifndef LUO_CORE_COST_STEP_LAYER_INTERNAL_H
#define LUO_CORE_COST_STEP_LAYER_INTERNAL_H
#include "core/cost/step/layer.h"

typedef struct layer_context { /* seconds; the slowest rank's */
    double hop;       /* keys and values of a part to the next */
    double queries;   /* messages that exchange heads of queries for tokens, or back .. */
    double keys;      /* .. of keys, or of values; 0: they are not exchanged */
    double copies[2]; /* collective that makes copies of key heads; that adds their gradients */
} layer_context;
luo_status layer_context_comm(const luo_cost_ctx *ctx, const luo_layer_shape *shape,
                              const int32_t *dev, layer_context *out, luo_err *err);
/* Collectives of a pass that make copies of key-value heads. */
int32_t layer_copies(const luo_layer_shape *shape);
/* Elements of the keys that go round a ring, on one device. */
double layer_key_elements(const luo_layer_shape *shape);
/* Elements that a device keeps in an exchange: of queries, of keys; 0: there is none. */
void layer_kept_elements(const luo_layer_shape *shape, double elements[2]);
#endif
