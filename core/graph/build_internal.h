/* build_internal.h: what the builders of graphs share; not for others. */
#ifndef LUO_CORE_GRAPH_BUILD_INTERNAL_H
#define LUO_CORE_GRAPH_BUILD_INTERNAL_H
#include "core/graph/graph.h"

typedef struct luo_builder {
    luo_graph *g;
    const luo_model *m;
    const luo_build_opts *opts;
    int32_t layer, place; /* where names and forms point at the moment */
    const char *prefix;   /* "layers.3." */
} luo_builder;

typedef struct luo_projection {
    const char *name, *weight, *out; /* letters of weight and result */
    luo_form form, bias;             /* bias LUO_FORM_NONE: none */
} luo_projection;

int32_t luo_build_value(luo_builder *builder, const char *name, const char *letters);
void luo_build_give(luo_builder *builder, int32_t x, luo_form form);
int32_t luo_build_op(luo_builder *builder, luo_op_kind kind, const char *name, const int32_t *in,
                     int32_t nin, const int32_t *out, int32_t nout);
/* One result, of the operation's name. */
int32_t luo_build_op1(luo_builder *builder, luo_op_kind kind, const char *name, const char *letters,
                      int32_t nin, const int32_t *in);
int32_t luo_build_reshard(luo_builder *builder, const char *name, int32_t x, luo_form form);
/* State and working copy of a parameter; the Reshard between them is ZeRO's gather, or nothing. A
 * state kept elsewhere arrives as this plan's ZeRO pieces first: sums cannot move and be reduced
 * at once on the way back (docs/annotations.md#zero). */
int32_t luo_build_param(luo_builder *builder, const char *name, const char *letters, luo_form form);
/* The same of what counts move, not gradients. */
int32_t luo_build_counted(luo_builder *builder, const char *name, const char *letters);
int32_t luo_build_norm(luo_builder *builder, const char *name, const char *letters, int32_t x);
/* y_j = x w_j for several weights at once: one kernel, as every fused implementation has it. */
void luo_build_project(luo_builder *builder, const char *name, int32_t x,
                       const luo_projection *projection, int32_t n, int32_t *y);

/* build_latent.c: queries, keys and values of latent attention from its normalised input. */
void luo_build_latent(luo_builder *builder, int32_t n, int32_t qkv[3]);

/* build_experts.c: norm, experts and residual of a layer. */
int32_t luo_build_mixture(luo_builder *builder, int32_t x);
#endif
