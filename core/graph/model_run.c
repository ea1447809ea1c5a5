/* model_run.c: what of a model no kernel of an executor computes. */
#include "core/graph/model.h"

#include <stddef.h>
#include <string.h>

/* A key of model.yaml that no kernel knows; NULL: all of them are computed. */
static const char *key_without_kernel(const luo_model *model)
{
    const struct {
        bool is;
        const char *key;
    } keys[] = {
        {model->rope.kind == LUO_ROPE_LONGROPE, "rope_scaling.kind: longrope"},
    };
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (keys[i].is) return keys[i].key;
    return NULL;
}

luo_status luo_model_check_run(const luo_model *model, int64_t tokens, luo_err *err)
{
    const char *key = key_without_kernel(model);
    if (key)
        return luo_err_set(err, LUO_EINPUT,
                           "model `%s` has `%s`, which no kernel of `run` computes; `sim`, `plan` "
                           "and `explain` take it.",
                           model->name, key);
    (void)tokens;
    return LUO_OK;
}
