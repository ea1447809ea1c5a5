/* dsjson_internal.h: entries of a tree, and as jansson objects to be written, for dsjson.c and
 * dsjson_file.c. */
#ifndef LUO_TESTS_PARKED_DSJSON_INTERNAL_H
#define LUO_TESTS_PARKED_DSJSON_INTERNAL_H
#include <jansson.h>

#include "core/io/document/doc.h"
#include "tests/parked/dsjson.h"

luo_status luo_dsjson_take_entry(luo_arena *arena, const luo_doc_node *root, const char *name,
                                 const luo_ann **out, luo_ds_type *type, luo_err *err);
luo_status luo_dsjson_make_entry(const luo_ann *a, luo_ds_type type, json_t **out, luo_err *err);
#endif
