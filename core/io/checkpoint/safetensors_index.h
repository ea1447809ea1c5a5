/* safetensors_index.h: the index of a model in several safetensors files, as Hugging Face
 * calls it model.safetensors.index.json: `weight_map` says which file beside it has which tensor.
 */
#ifndef LUO_CORE_IO_CHECKPOINT_SAFETENSORS_INDEX_H
#define LUO_CORE_IO_CHECKPOINT_SAFETENSORS_INDEX_H
#include <stddef.h>
#include <stdint.h>

#include "core/base/arena.h"
#include "core/base/err.h"

typedef struct luo_tensor_place {
    const char *tensor, *file; /* file: a name without folders */
} luo_tensor_place;

typedef struct luo_safetensors_index {
    int32_t n, nfiles;
    const luo_tensor_place *at; /* by name of the tensor */
    const char *const *files;   /* by name, each once */
} luo_safetensors_index;

/* Errors: LUO_EPARSE no JSON; LUO_EINPUT no `weight_map`, or a value in it that is no name of a
 * file; LUO_ENOMEM. Owner: arena. */
luo_status luo_safetensors_index_read(luo_arena *arena, const char *text, size_t n,
                                      luo_safetensors_index *out, luo_err *err);
#endif
