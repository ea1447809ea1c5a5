/* state_internal.h: what the files of state and checkpoints share; not for others. */
#ifndef LUO_EXEC_STATE_STATE_INTERNAL_H
#define LUO_EXEC_STATE_STATE_INTERNAL_H
#include "exec/state/state.h"
#include "exec/state/tensor_file.h"

/* Arrays of a piece, in the order of luo_piece. */
typedef enum luo_array { LUO_ARRAY_WEIGHT, LUO_ARRAY_M, LUO_ARRAY_V } luo_array;
void *luo_piece_array(const luo_piece *piece, luo_array which, const luo_frame **frame);
/* Does the parameter have this array? What counts move has no moments. */
static inline bool luo_param_has(const luo_param *param, luo_array which)
{
    return which == LUO_ARRAY_WEIGHT || !param->counted;
}
/* Ending of the tensor's name in optimizer.safetensors; "" for the weight. */
const char *luo_array_suffix(luo_array which);

/* Moments of a piece: 0. */
void luo_piece_zero_moments(const luo_state *state, const luo_piece *piece);
/* Fills one array of every piece from a mapped file. */
luo_status luo_state_fill(const luo_state *state, const luo_model *model,
                          const luo_tensor_file *file, luo_array which, luo_err *err);
/* Writes arrays which[0..n) of all tensors into a file; collective. *parted: a gather failed, so
 * that there is no sense in another one. */
luo_status luo_state_save(const luo_state *state, const luo_model *model, const char *path,
                          const luo_array *which, int32_t n, const luo_gather *gather, bool *parted,
                          luo_err *err);

/* exec/state/checkpoint_folder.c: folders of checkpoints on the disk. */

/* Steps of a folder's name `step-000123`; -1: it is none. */
int64_t luo_checkpoint_step(const char *name);
/* Steps of the checkpoints under dir, descending. Errors: LUO_EIO, LUO_ENOMEM. Owner: arena. */
luo_status luo_checkpoint_list(luo_arena *arena, const char *dir, int64_t **steps, int32_t *n,
                               luo_err *err);
/* Makes dir and in it the folder in which a checkpoint is put together, whose path it appends to
 * out; what an interrupted save left is removed. Errors: LUO_EIO, LUO_ENOMEM. */
luo_status luo_checkpoint_begin(const char *dir, int64_t step, luo_str *out, luo_err *err);
/* Gives the folder its name, in place of one that has it, all of it on the disk. */
luo_status luo_checkpoint_commit(const char *dir, int64_t step, const char *temporary,
                                 luo_err *err);
void luo_checkpoint_discard(const char *temporary);
/* Removes the checkpoints of all other steps but the newest n. What cannot be removed stays for
 * the next time. */
void luo_checkpoint_prune(const char *dir, int64_t step, int32_t n);
#endif
