/* json_schema.h: JSON Schema (draft 2020-12) of our kinds of files, for editors. */
#ifndef LUO_CORE_IO_DOCUMENT_JSON_SCHEMA_H
#define LUO_CORE_IO_DOCUMENT_JSON_SCHEMA_H
#include "core/io/document/doc_table.h"

/* Appends the schema of a kind, by the table that its reader checks with: keys, types, words,
 * ranges, defaults, which keys are required. Checks of several keys together are the reader's
 * alone, and texts are in quotes where they look like numbers. Out of memory: text->failed. */
void luo_json_schema_add(luo_str *text, const luo_doc_kind *kind);
#endif
