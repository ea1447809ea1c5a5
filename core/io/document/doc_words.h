/* doc_words.h: what a table of fields says of a key, in words: for help, and docs/formats.md, which
 * tests/unit/check_docs.c holds to it. */
#ifndef LUO_CORE_IO_DOCUMENT_DOC_WORDS_H
#define LUO_CORE_IO_DOCUMENT_DOC_WORDS_H
#include "core/io/document/doc_table.h"
#include "core/io/result/csv.h"

/* Unit of a key or column by the end of its name, "10^9 bytes/s"; "-": it has none. */
const char *luo_doc_unit(const char *key);
/* Appends "1 to 64", "above 0 to 1", "0 or 1e-12 to 1000", "from 0", or nothing. */
void luo_doc_add_range(luo_str *text, luo_limit limit);
/* Appends the type with its range or words: "whole, 1 to 64", "`down` `slow`", "list of map". */
void luo_doc_add_type(luo_str *text, const luo_doc_schema *schema);
/* The same of a column of a table. */
void luo_doc_add_column(luo_str *text, const luo_csv_column *column);
/* What holds where the key is left out, "required", "default 1", "default none", or
 * nothing. */
void luo_doc_add_default(luo_str *text, const luo_doc_field *field);
/* The meaning of the key in a line. */
const char *luo_doc_meaning(const luo_doc_field *field);
/* Fields of a map, or of the maps of a list; NULL: the value has none. */
const luo_doc_field *luo_doc_fields(const luo_doc_schema *schema);
#endif
