/* nested.h: reading a file that another file names. */
#ifndef LUO_CORE_IO_DOCUMENT_NESTED_H
#define LUO_CORE_IO_DOCUMENT_NESTED_H
#include "core/io/document/yaml_strict.h"

/* Fetches the file that the scalar `node` of doc names, relative to doc. A file that is not there
 * is an error at the node. */
luo_status luo_nested_get(luo_yaml_doc *doc, const luo_files *files, const luo_yaml *node,
                          luo_source *out);
/* The same where a built-in name may stand instead of a path (builtin.h: the folder). */
luo_status luo_nested_named(luo_yaml_doc *doc, const luo_files *files, const luo_yaml *node,
                            const char *folder, luo_source *out);
/* Appends " (in WHAT named at FILE:LINE:COL)" to what diags gained since `before` (its last
 * element then, NULL: it was empty). */
void luo_nested_trail(luo_yaml_doc *doc, const luo_diag *before, const char *what,
                      const luo_yaml *node);
#endif
