/* hf_layout.h: how the weights of a model are called and laid out in the checkpoints of its Hugging
 * Face type, and the config.json beside them. */
#ifndef LUO_CORE_IO_HF_HF_LAYOUT_H
#define LUO_CORE_IO_HF_HF_LAYOUT_H
#include "core/base/arena.h"
#include "core/base/str.h"
#include "core/graph/model.h"
#include "core/plan/compile.h"

typedef struct luo_hf_layout luo_hf_layout;

/* NULL: there is no such type. */
const luo_hf_layout *luo_hf_layout_of(const char *type);

/* Where a parameter lies. Ours is a matrix [parts * rows, cols] that keeps the last dimension; a
 * bias or a norm is one of a single column. */
typedef struct luo_hf_tensor {
    char name[160];     /* `*` stands for the number of a part */
    int32_t rank;       /* 1 or 2 */
    int64_t parts;      /* tensors, one below the other in ours: experts; else 1 */
    int64_t dim[2];     /* of each tensor; rank 1: dim[0] is its length, dim[1] 1 */
    int64_t rows, cols; /* of ours in a part; ours has more where a vocabulary is padded: no file
                           has these */
    /* Row r of a part is row luo_hf_row(r) of the tensor, or that column of it if swapped: blocks
     * of ours lie `stride` apart, the first `at` rows from the beginning; of the last `turned` rows
     * of a block ours has two halves, and the file their elements by turns. */
    bool swapped;
    int64_t block, stride, at, turned;
} luo_hf_tensor;
/* Errors: LUO_EUNREP the name has no place there. */
luo_status luo_hf_tensor_of(const luo_hf_layout *layout, const luo_model *model,
                            const luo_param *param, luo_hf_tensor *out, luo_err *err);
void luo_hf_part_name(const luo_hf_tensor *tensor, int64_t part, char *buf, size_t size);
int64_t luo_hf_row(const luo_hf_tensor *tensor, int64_t row);

/* The other name that a file may use for a tensor: without `model.`, with `transformer.`. */
const char *luo_hf_other_name(const luo_hf_layout *layout, const char *name, char *buf,
                              size_t size);
/* Tensors that files have beside the weights, and that say nothing new. */
bool luo_hf_not_a_weight(const luo_hf_layout *layout, const luo_model *model, const char *name);

/* The config.json of a model; weights: how the file beside has them. Where the model says no type
 * it is the first one whose config is read as this model. *layout: that of the type; where none
 * says the same, that of the family, and nothing is appended to out (NULL: no config is wanted).
 * Errors: LUO_ENOMEM. */
luo_status luo_hf_config(const luo_model *model, luo_dtype weights, luo_str *out,
                         const luo_hf_layout **layout, luo_err *err);
#endif
