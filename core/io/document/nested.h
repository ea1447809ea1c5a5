/* nested.h: reading a file that another file names. */
#ifndef LUO_CORE_IO_DOCUMENT_NESTED_H
#define LUO_CORE_IO_DOCUMENT_NESTED_H
#include "core/io/document/doc.h"

/* Fetches the file that the scalar `node` of doc names, relative to doc. A file that is not there
 * is an error at the node. */
luo_status luo_nested_get(luo_doc *doc, const luo_files *files, const luo_doc_node *node,
                          luo_source *out);
/* The same where a built-in name may stand instead of a path (core/io/builtin.h: the folder). */
luo_status luo_nested_named(luo_doc *doc, const luo_files *files, const luo_doc_node *node,
                            const char *folder, luo_source *out);
/* Appends " (in WHAT named at FILE:LINE:COL)" to what diags gained since `before` (its last
 * element then, NULL: it was empty). */
void luo_nested_trail(luo_doc *doc, const luo_diag *before, const char *what,
                      const luo_doc_node *node);
#endif
