/* read_model.h: what read_model.c and core/io/hf/read_hf.c share. */
#ifndef LUO_CORE_IO_READ_READ_MODEL_H
#define LUO_CORE_IO_READ_READ_MODEL_H
#include "core/graph/model.h"
#include "core/io/document/doc_table.h"

/* Makes doc->root, which is a Hugging Face config, a luoshu.model/1 tree. overrides: keys of ours
 * that `--set` gives, and that may therefore be missing. */
luo_status luo_read_hf_model(luo_doc *doc, const luo_overrides *overrides);
/* Notes an error where `model_type` of a luoshu.model/1 is no type of this family. */
void luo_read_hf_check(luo_doc *doc, const luo_doc_node *type, luo_family family);
#endif
