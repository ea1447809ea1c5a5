/* state.h: parameters and optimizer state of one rank by tensor name and region, and their way
 * into and out of files. Files do not know plans: what was written under one is read under any.
 */
#ifndef LUO_EXEC_STATE_STATE_H
#define LUO_EXEC_STATE_STATE_H
#include "core/graph/model.h"
#include "core/plan/compile.h"
#include "core/run/backend.h"
#include "core/io/hf/hf_layout.h"
#include "exec/bind/route.h"
#include "exec/state/tensor_file.h"

/* The piece of one parameter that this rank's optimizer keeps. weight, m and v are arrays of
 * `real` in a frame each; a rank that keeps nothing of it has piece.empty. */
typedef struct luo_piece {
    const luo_param *param;
    luo_region piece;                 /* of the state annotation */
    luo_frame weight_frame, state_frame;
    void *weight, *m, *v;
} luo_piece;

typedef struct luo_state {
    int32_t device, n;
    luo_piece *at;   /* in the order of luo_plan_params; all parameters of the model */
    size_t elem;     /* bytes of a real: 4 or 8 */
    int64_t step;    /* steps done; of a rank that has no piece it may be off after a lost step, so
                        who saves sets it on all ranks */
} luo_state;

/* Weights before the first step: normal draws of standard deviation 0.02 (output projections over
 * sqrt(2 layers)), norms 1, biases 0, moments 0. Each cell is drawn by seed, name and global index,
 * so that every plan starts from the same numbers. */
void luo_state_init(const luo_state *state, const luo_model *model, uint64_t seed);
/* True for weights that AdamW decays: matrices and tables; norms and biases (whatever their rank
 * here: in files they have one dimension) are left alone. */
bool luo_state_decays(const luo_param *param);

/* ---- files: safetensors ---- */

/* Fills weights from a Hugging Face file (F32, F64, F16 or BF16; a missing lm_head.weight is the
 * embedding's) and zeroes the moments. Names and shapes: core/io/hf/hf_layout.h; they may lack
 * `model.` (llama) or have `transformer.` in front (gpt2). Errors: LUO_EINPUT missing tensor, other
 * shape or dtype, a tensor that the model has no place for, broken file, bytes that are not those
 * of a checksum, each named; LUO_EPARSE;
 * LUO_EUNREP as luo_hf_tensor_of. Each rank maps the file, verifies its share of the tensors and
 * takes its regions: all ranks have to succeed. Weights may be partly filled after an error. path
 * may be that of the index of a model in several files, or of a folder with
 * model.safetensors.index.json or model.safetensors. */
luo_status luo_state_load_weights(luo_state *state, const luo_model *model, const char *path,
                                  luo_share share, luo_err *err);

/* Sends bytes to the rank that writes; collective over all ranks that call. exec/rank/boot.h gives
 * it for MPI; a test gives a loop in one process. */
typedef struct luo_gather {
    void *ctx;
    bool writer; /* this rank writes the file */
    /* Every rank's `n` bytes arrive at the writer, by rank: (*out)[r] of sizes[r], valid until the
     * next call. */
    luo_status (*bytes)(void *ctx, const void *mine, int64_t n, const void *const **out,
                        const int64_t **sizes, int32_t *ranks, luo_err *err);
} luo_gather;

/* Saving: tensor by tensor, in the order of the file's names, so that the bytes do not depend on
 * the plan. Every rank calls gather as often, whatever fails in packing or at the writer's disk,
 * which is an error at that rank only. The writer holds one whole tensor of the file twice.
 * Errors: LUO_EIO with the reason, what was there before is untouched; LUO_EUNREP on all ranks,
 * before any byte is sent; LUO_EBUG the ranks do not hold every cell once; LUO_ENOMEM; what gather
 * returns. */

/* Weights alone, Hugging Face names (--save-init). Atomic: temporary file, fsync, rename. */
luo_status luo_state_save_weights(const luo_state *state, const luo_model *model, const char *path,
                                  const luo_gather *gather, luo_err *err);
#endif
