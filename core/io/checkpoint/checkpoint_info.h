/* checkpoint_info.h: state.json of a checkpoint (`luoshu.checkpoint/1`): what the two
 * safetensors files beside it belong to. */
#ifndef LUO_CORE_IO_CHECKPOINT_CHECKPOINT_INFO_H
#define LUO_CORE_IO_CHECKPOINT_CHECKPOINT_INFO_H
#include "core/base/str.h"
#include "core/graph/model.h"
#include "core/io/io.h"

typedef struct luo_checkpoint_info {
    int64_t step;             /* steps done */
    uint64_t seed, plan_hash; /* of the plan that wrote it */
    const char *data;         /* name of the corpus */
    const char *precision;    /* "f32" "f64" */
    luo_model model;          /* name, family and what decides its numbers; the rest is 0 */
} luo_checkpoint_info;

void luo_checkpoint_info_json(luo_str *out, const luo_checkpoint_info *info);
/* path: DIR/state.json. Errors: LUO_EINPUT, LUO_EPARSE, LUO_E2BIG as readers give them, with the
 * place; LUO_ENOMEM. Owner: texts belong to arena. */
luo_status luo_checkpoint_info_read(luo_arena *arena, const char *path, luo_checkpoint_info *out,
                                    luo_err *err);
luo_status luo_checkpoint_info_read_text(luo_arena *arena, const luo_source *src,
                                         luo_checkpoint_info *out, luo_err *err);
/* The sentence on a checkpoint of another layout: what tells that it is one. Returns LUO_EINPUT. */
luo_status luo_checkpoint_older(const char *what, luo_err *err);
/* LUO_OK if a checkpoint of `written` continues a run of `mine`. Errors: LUO_EINPUT with the first
 * key in which they differ (the names may). */
luo_status luo_checkpoint_same_model(const luo_model *written, const luo_model *mine, luo_err *err);
/* The value of a key of `model` as JSON writes it, a real number in as few digits as are read as
 * that number, 0 of one as null. Returns whether there is such a key. */
bool luo_checkpoint_model_value(const luo_model *model, const char *key, char *buf, size_t size);
#endif
