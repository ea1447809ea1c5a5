/* read_model.h: what read_model.c and read_hf.c share. */
#ifndef LUO_CORE_IO_READ_READ_MODEL_H
#define LUO_CORE_IO_READ_READ_MODEL_H
#include <jansson.h>

#include "core/io/document/yaml_strict.h"

/* Makes doc->root, a luoshu.model/1 tree, from a Hugging Face config. overrides: keys of ours that
 * `--set` gives, and that may therefore be missing. */
luo_status luo_hf_model(luo_yaml_doc *doc, const json_t *config, const luo_overrides *overrides);
#endif
