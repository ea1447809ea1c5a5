/* recipe.h: how a real run learns: AdamW with decoupled decay and clipping by the global norm,
 * at a constant rate. Stated once: the executors, the report of a run and the PyTorch reference of
 * the tests read these. Values: Llama's (Touvron et al. 2023, section 2.3) but for the rate's
 * schedule. */
#ifndef LUO_EXEC_RECIPE_H
#define LUO_EXEC_RECIPE_H

#define LUO_LEARNING_RATE 3e-4
#define LUO_BETA1 0.9
#define LUO_BETA2 0.95
#define LUO_ADAM_EPS 1e-8
#define LUO_WEIGHT_DECAY 0.1 /* of matrices and tables: luo_state_decays */
#define LUO_CLIP_NORM 1.0
#define LUO_CLIP_EPS 1e-6 /* scale = min(1, clip / (norm + eps)) */

#endif
