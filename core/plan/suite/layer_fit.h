/* layer_fit.h: constants of a GPU from times of whole layers on one device. Pure: the
 * same rows and seed give the same constants. */
#ifndef LUO_CORE_PLAN_SUITE_LAYER_FIT_H
#define LUO_CORE_PLAN_SUITE_LAYER_FIT_H
#include "core/plan/suite/suite.h"

typedef struct luo_layer_row { /* a micro-batch of so many sequences, mean over layers */
    int32_t sequences;
    double forward_s, backward_s;
} luo_layer_row;

/* Layers of `model` on the GPU of profile `gpu` alone (tp 1), but for embedding and head, by
 * micro-batch. Networks go by their names without case and unit: "opt-350m" is "OPT-350". Owner:
 * arena. Errors: LUO_EINPUT there are none; LUO_ENOMEM. */
luo_status luo_layer_rows(luo_arena *arena, const luo_layer_times *times, const char *model,
                          const char *gpu, luo_layer_row **out, int32_t *n, luo_err *err);
bool luo_layer_same_model(const char *name, const char *in_table);

typedef struct luo_layer_fitted {
    double gemm_ratio, memory_ratio;
    bool weak[2];
    double error; /* mean |ln(predicted/measured)| over the rows used */
} luo_layer_fitted;

/* Forward and backward of a layer by the formulas, host included. Errors: E1, E2. */
luo_status luo_layer_predict(const luo_profile *profile, const luo_stack *stack,
                             const luo_model *model, int32_t sequences, double *forward_s,
                             double *backward_s, luo_err *err);
/* gemm_ratio and memory_ratio by the pattern search on rows[i] with i % 4 != 3, forward and
 * backward together (where one ends and the other begins is a matter of the timer); profile keeps
 * them. Errors: E1, E2; LUO_EINPUT fewer than 2 rows. */
luo_status luo_layer_fit(luo_profile *profile, const luo_stack *stack, const luo_model *model,
                         const luo_layer_row *rows, int32_t n, uint64_t seed, luo_layer_fitted *out,
                         luo_err *err);
#endif
