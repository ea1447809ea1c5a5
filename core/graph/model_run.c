/* model_run.c: what of a model no executor can compute. */
#include "core/graph/model.h"

luo_status luo_model_check_run(const luo_model *model, luo_err *err)
{
    if (model->rope.kind != LUO_ROPE_LONGROPE || model->rope.short_factors.n > 0) return LUO_OK;
    return luo_err_set(err, LUO_EINPUT,
                       "model `%s` has `rope_scaling.kind` longrope without `short_factors` and "
                       "`long_factors`, by which `run` turns positions; give both, or use `sim`, "
                       "`plan` and `explain`, which need none.",
                       model->name);
}
