/* layer.h: what the search knows of a layer: sizes and work per sample, no devices. */
#ifndef LUO_CORE_PLAN_AUTO_LAYER_H
#define LUO_CORE_PLAN_AUTO_LAYER_H
#include <stdbool.h>
#include <stdint.h>

#include "core/base/err.h"

typedef struct luo_auto_layer {
    const char *name;      /* for messages; NULL: "?" */
    double parameters;     /* P, elements */
    double forward_flop;   /* F, per sample */
    double boundary_bytes; /* A, what it hands to the next layer, bytes per sample */
    double act_s_bytes;    /* kept for the backward part, not divided by tp, per sample */
    double act_t_bytes;    /* the same, divided by tp */
    double act_c_bytes;    /* all that is kept under checkpointing, per sample */
    int64_t heads, ffn;    /* what tp cuts; 0: it can be cut anywhere */
} luo_auto_layer;

typedef struct luo_auto_widths {
    double hidden, ffn, sequence, heads, vocabulary;
} luo_auto_widths;

/* A transformer layer with 2-byte activations: P = 4h^2 + 2hf + 9h + f, F = 2s(4h^2 + 2hf) + 4s^2h,
 * A = 2sh, kept 10sh and 24sh + 5as^2, under checkpointing 2sh. */
luo_auto_layer luo_auto_layer_transformer(const char *name, const luo_auto_widths *widths);
/* The table of tokens: P = Vh, no work; it keeps nothing that the layer after it does not. */
luo_auto_layer luo_auto_layer_embedding(const char *name, const luo_auto_widths *widths);
/* The output layer: P = Vh, F = 2shV; it keeps its input and, divided by tp, the scores (2-byte;
 * ours). */
luo_auto_layer luo_auto_layer_head(const char *name, const luo_auto_widths *widths);

/* Is all but the name the same? Then the search computes them once. */
bool luo_auto_layer_same(const luo_auto_layer *a, const luo_auto_layer *b);

/* Errors: LUO_EINPUT a number is negative or none: `time of layer 'l3' is negative; a number of at
 * least 0 is expected.` */
luo_status luo_auto_layers_check(const luo_auto_layer *layer, int32_t n, luo_err *err);
#endif
