/* checkpoint.h: the state of a run in a folder, whole or not at all. Saving: as state.h has it. */
#ifndef LUO_EXEC_STATE_CHECKPOINT_H
#define LUO_EXEC_STATE_CHECKPOINT_H
#include "exec/state/state.h"

/* A checkpoint is a folder DIR/step-000123 with model.safetensors, optimizer.safetensors
 * (NAME.exp_avg and NAME.exp_avg_sq, laid out like the weight), state.json
 * (core/io/checkpoint/checkpoint_info.h) and, where a Hugging Face type is this model, config.json
 * (core/io/hf/hf_layout.h). It appears by one rename, in place of one of the same
 * step. Then all others but the newest keep - 1 are removed (keep 0: none is). DIR is made; one run
 * at a time writes into it. */
luo_status luo_checkpoint_save(const luo_state *state, const luo_model *model, const char *dir,
                               uint64_t seed, const char *data, uint64_t plan_hash, int32_t keep,
                               const luo_gather *gather, luo_err *err);
/* dir: a checkpoint folder. Sets state->step. Errors: as luo_state_load_weights; LUO_EINPUT of
 * another model or precision. */
luo_status luo_checkpoint_load(luo_state *state, const luo_model *model, const char *dir,
                               luo_share share, luo_err *err);

typedef struct luo_found {
    const char *path; /* of the checkpoint; NULL: none */
    int64_t step;
    bool named; /* it is the folder that was given, not one in it */
    int32_t npassed, cap;
    luo_passed *passed; /* newer ones that cannot be read */
} luo_found;

/* Newest checkpoint under dir of at most `until` steps (INT64_MAX: any), or dir itself if it is
 * one, whose files are there and as long as their heads say. Broken ones are added to out->passed.
 * Errors: LUO_EINPUT there is none. Owner: arena. */
luo_status luo_checkpoint_find(luo_arena *arena, const char *dir, int64_t until, luo_found *out,
                               luo_err *err);
/* Adds a checkpoint that cannot be read after all. Errors: LUO_ENOMEM. */
luo_status luo_checkpoint_pass(luo_arena *arena, luo_found *found, const char *path,
                               const char *why, luo_err *err);
#endif
